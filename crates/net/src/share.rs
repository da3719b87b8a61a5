//! Links behind which other machines use the bond, too: the kernel forwards what comes by them to the device,
//! and nothing more than it did before.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;

use crate::capture::DEVICE;
use crate::forwarding::{ALL_V6, forward_v6, forwarding, is_off, keep_advertisements};
use crate::journal::Journal;
use crate::link_name::LinkName;
use crate::route::{Link, Routes};
use crate::share_table::Unforwarded;

/// The links that are shared, and what has been changed for them.
#[derive(Debug)]
pub(crate) struct Share {
    links: Vec<LinkName>,
    /// What was not forwarded before.
    unforwarded: Mutex<Unforwarded>,
}

impl Share {
    pub(crate) fn of(links: &[LinkName]) -> Self {
        Self { links: links.to_vec(), unforwarded: Mutex::default() }
    }

    pub(crate) fn links(&self) -> &[LinkName] {
        &self.links
    }

    /// Lets the kernel forward what comes by the shared links that there are now, of IPv6 too where one has an
    /// address that is not its link's alone. `tell` is told first of what is not to be forwarded all the same.
    ///
    /// # Errors
    /// The first refusal; the rest has been tried all the same, and is tried again with the next call.
    pub(crate) fn keep(
        &self,
        routes: &Routes,
        journal: &Journal,
        tell: impl Fn(&Unforwarded) -> io::Result<()>,
    ) -> io::Result<()> {
        if self.links.is_empty() {
            return Ok(());
        }
        let links = routes.links()?;
        let mut known = self.unforwarded.lock().expect("no panic");
        let mut now = known.clone();
        now.bridges = bridges(&links);
        let there = self.links.iter().filter(|name| is_there(&links, name));
        let off: Vec<_> = there.filter(|name| is_off(&forwarding(name.as_str()))).collect();
        now.v4.extend(off.iter().copied().filter(|name| !known.v4.contains(name)));
        let is_v6_wanted = is_off(ALL_V6) && self.has_ipv6(routes, &links)?;
        now.v6 |= is_v6_wanted;
        // The table is there before the first packet is forwarded.
        if now != *known {
            tell(&now)?;
            known.clone_from(&now);
        }
        let mut result = fs::write(format!("/proc/sys/{}", forwarding(DEVICE)), "1");
        for name in off {
            result = result.and(journal.set(&forwarding(name.as_str()), "1"));
        }
        if is_v6_wanted {
            result = result.and(forward_v6(journal));
        } else if now.v6 {
            // Links that have come since.
            let kept = links.iter().map(|link| keep_advertisements(journal, &link.name));
            result = kept.fold(result, io::Result::and);
        }
        result
    }

    /// Whether machines behind a shared link can have IPv6 by this one.
    fn has_ipv6(&self, routes: &Routes, links: &[Link]) -> io::Result<bool> {
        let name_of = |index| links.iter().find(|link| link.index == index);
        Ok(routes.addresses()?.iter().any(|one| {
            let is_shared = || {
                name_of(one.link)
                    .is_some_and(|link| self.links.iter().any(|name| name.as_str() == link.name))
            };
            matches!(one.address, IpAddr::V6(v6) if !v6.is_unicast_link_local()) && is_shared()
        }))
    }
}

fn is_there(links: &[Link], name: &LinkName) -> bool {
    links.iter().any(|link| link.name == name.as_str())
}

fn bridges(links: &[Link]) -> Vec<LinkName> {
    let bridges = links.iter().filter(|link| link.kind == "bridge");
    bridges.filter_map(|link| link.name.parse().ok()).collect()
}
