//! Links behind which other machines use the bond, too: the kernel forwards what comes by them to the device,
//! and nothing more than it did before.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;

use crate::forwarding::{ALL_V4, ALL_V6, forward_v6, forwarding, is_off, keep_advertisements};
use crate::journal::Journal;
use crate::link_name::LinkName;
use crate::route::{Link, Routes};
use crate::share_table::Shared;

/// The links that are to be shared, and what has been changed for them.
#[derive(Debug)]
pub(crate) struct Share {
    wanted: Vec<LinkName>,
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    shared: Shared,
    /// Links that we let forward, by number and name.
    set: Vec<(u32, LinkName)>,
}

impl Share {
    pub(crate) fn of(links: &[LinkName]) -> Self {
        Self { wanted: links.to_vec(), held: Mutex::default() }
    }

    /// Whether any link is to be shared.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.wanted.is_empty()
    }

    /// Those that are shared.
    pub(crate) fn links(&self) -> Vec<LinkName> {
        self.held.lock().expect("no panic").shared.links.clone()
    }

    /// Looks which links are shared now, for this device: all that are wanted, but for those that have a default route, behind which
    /// are other people. Lets the kernel forward what comes by them, of IPv6 too where one has an
    /// address that is not its link's alone. `tell` is told first of what is shared, and of what is not to be
    /// forwarded all the same.
    ///
    /// # Errors
    /// The first refusal; the rest has been tried all the same, and is tried again with the next call.
    pub(crate) fn keep(
        &self,
        device: &str,
        (routes, journal): (&Routes, &Journal),
        tell: impl Fn(&Shared) -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.is_wanted() {
            return Ok(());
        }
        let links = routes.links()?;
        let mut held = self.held.lock().expect("no panic");
        let now = self.look(routes, &links, &held.shared)?;
        // The table is there before the first packet is forwarded.
        if now != held.shared {
            tell(&now)?;
            note_changes(&held.shared.links, &now.links);
            held.shared.clone_from(&now);
        }
        let mut result = fs::write(format!("/proc/sys/{}", forwarding(device)), "1");
        for link in &links {
            let Some(&name) = now.links.iter().find(|name| name.as_str() == link.name) else {
                continue;
            };
            if is_off(&forwarding(&link.name)) {
                let set = journal.set(&forwarding(&link.name), "1");
                set.is_ok().then(|| held.set.push((link.index, name)));
                result = result.and(set);
            }
        }
        held.set.retain(|(index, name)| {
            let link = links.iter().find(|link| link.index == *index);
            // One that has another name now is another one's.
            let is_left =
                link.filter(|link| !now.links.contains(name) || link.name != name.as_str());
            is_left.is_none_or(|link| stop(&link.name).is_err()) && link.is_some()
        });
        if now.unforwarded_v6 {
            result = result.and(forward_v6(journal));
            // Links that have come since.
            let kept = links.iter().map(|link| keep_advertisements(journal, &link.name));
            result = kept.fold(result, io::Result::and);
        }
        result
    }

    fn look(&self, routes: &Routes, links: &[Link], known: &Shared) -> io::Result<Shared> {
        let defaults = routes.defaults()?;
        let leads_out = |link: &Link| defaults.iter().any(|one| one.link == Some(link.index));
        let found = |name: &LinkName| links.iter().find(|link| link.name == name.as_str());
        let is_inner = |name: &&LinkName| !found(name).is_some_and(leads_out);
        let shared: Vec<_> = self.wanted.iter().copied().filter(|name| is_inner(&name)).collect();
        // Whoever makes this machine a router after us says so for all links.
        let is_router = !is_off(ALL_V4);
        let is_unforwarded = |name: &&LinkName| {
            let is_off = found(name).is_some_and(|link| is_off(&forwarding(&link.name)));
            !is_router && (is_off || known.unforwarded_v4.contains(name))
        };
        let unforwarded_v4 = shared.iter().filter(is_unforwarded).copied().collect();
        let is_v6_off = is_off(ALL_V6) && has_ipv6(routes, links, &shared)?;
        let unforwarded_v6 = known.unforwarded_v6 || is_v6_off;
        let bridges = links.iter().filter(|link| link.kind == "bridge");
        let bridges = bridges.filter_map(|link| link.name.parse().ok()).collect();
        Ok(Shared { links: shared, unforwarded_v4, unforwarded_v6, bridges })
    }
}

/// Says which links are shared no more, and which are again.
fn note_changes(before: &[LinkName], now: &[LinkName]) {
    for link in before.iter().filter(|link| !now.contains(link)) {
        tracing::warn!(
            "{link} has a default route now, so it leads to the internet and not to machines behind this one: it is \
             not shared as long as it has"
        );
    }
    if !before.is_empty() {
        let new = now.iter().filter(|link| !before.contains(link));
        new.for_each(|link| tracing::info!("{link} is shared again"));
    }
}

/// Forwards nothing of a link any more that was not to before, unless all are to by now.
fn stop(link: &str) -> io::Result<()> {
    if is_off(ALL_V4) {
        fs::write(format!("/proc/sys/{}", forwarding(link)), "0")?;
    }
    Ok(())
}

/// Whether machines behind a shared link can have IPv6 by this one.
fn has_ipv6(routes: &Routes, links: &[Link], shared: &[LinkName]) -> io::Result<bool> {
    let is_shared = |index| {
        let mut of_number = links.iter().filter(|link| link.index == index);
        of_number.any(|link| shared.iter().any(|name| name.as_str() == link.name))
    };
    let is_wide = |address| matches!(address, IpAddr::V6(v6) if !v6.is_unicast_link_local());
    Ok(routes.addresses()?.iter().any(|one| is_wide(one.address) && is_shared(one.link)))
}
