//! Links behind which other machines use the bond, too.

use std::net::IpAddr;

use weftline_net::{DEVICE, Link, LinkName, Routes, forbids_forwarding, forbids_input};

use crate::failure::Failure;

/// The names that are given, each once.
///
/// # Errors
/// When one is none, or is of an interface of this machine alone.
pub(super) fn names<'a>(texts: impl Iterator<Item = &'a String>) -> Result<Vec<LinkName>, Failure> {
    let mut found = Vec::new();
    for text in texts {
        let name: LinkName = text.parse().map_err(Failure::wrong_use)?;
        if matches!(text.as_str(), "lo" | DEVICE) {
            return Err(Failure::wrong_use(format!(
                "--share {text}: no other machine is behind it; name the interface that leads to them, such as eth1"
            )));
        }
        if !found.contains(&name) {
            found.push(name);
        }
    }
    Ok(found)
}

/// Refuses to share what leads to the internet: whoever is there would use this machine's bond.
///
/// # Errors
/// When one is a link of the bond by its name or address, has a default route, or is a part of another; or the
/// kernel does not tell.
pub(super) fn check(
    shared: &[LinkName],
    (named, addresses): &(Vec<String>, Vec<IpAddr>),
) -> Result<(), Failure> {
    if shared.is_empty() {
        return Ok(());
    }
    let routes = Routes::open()?;
    let (links, defaults) = (routes.links()?, routes.defaults()?);
    let of_address = routes.addresses()?.into_iter().filter(|one| addresses.contains(&one.address));
    let of_address: Vec<_> = of_address.map(|one| one.link).collect();
    for name in shared {
        let found = links.iter().find(|link| link.name == name.as_str());
        let is_used = found.is_some_and(|link| of_address.contains(&link.index));
        if is_used || named.iter().any(|one| one == name.as_str()) {
            return Err(Failure::wrong_use(format!(
                "{name} is a link of the bond (--path) and cannot be shared (--share); leave it out of one of them"
            )));
        }
        if let Some(whole) = found.and_then(|link| link.master) {
            let whole = links.iter().find(|link| link.index == whole);
            let whole = whole.map_or("a bridge", |link| link.name.as_str());
            return Err(Failure::wrong_use(format!(
                "{name} is a part of {whole}, by which its packets come: share that (--share {whole})"
            )));
        }
        if found.is_some_and(|link| defaults.iter().any(|one| one.link == Some(link.index))) {
            return Err(Failure::wrong_use(format!(
                "{name} has a default route, so it leads to the internet and not to machines behind this one; name \
                 the interface that leads to them with --share"
            )));
        }
    }
    tell(shared, &links);
    Ok(())
}

/// Says what keeps machines behind shared links from the bond.
fn tell(shared: &[LinkName], links: &[Link]) {
    let is_there = |name: &&LinkName| links.iter().any(|link| link.name == name.as_str());
    for name in shared.iter().filter(|name| !is_there(name)) {
        tracing::warn!("there is no interface {name} yet; it is shared when it comes");
    }
    for name in shared.iter().filter(is_there) {
        if let Ok(Some(chain)) = forbids_input(name.as_str(), true) {
            tracing::warn!(
                "this machine's firewall ({chain}) may drop the TCP connections of machines behind {name}, which end \
                 here; let in what comes by {name} (ufw allow in on {name})"
            );
        }
    }
    if let Ok(Some(chain)) = forbids_forwarding(DEVICE, true) {
        tracing::warn!(
            "this machine's firewall ({chain}) may drop UDP and ICMP of machines behind it; let it forward them to \
             {DEVICE} (ufw route allow out on {DEVICE}; with Docker, 'iptables -I DOCKER-USER -o {DEVICE} -j ACCEPT' \
             and the same with -i)"
        );
    }
}

/// Whose packets go to the server, for lines that say so.
pub(super) fn whose(shared: &[LinkName]) -> String {
    let Some((last, others)) = shared.split_last() else { return "this machine".to_owned() };
    let behind = match others {
        [] => last.to_string(),
        _ => {
            let others: Vec<_> = others.iter().map(LinkName::as_str).collect();
            format!("{} and {last}", others.join(", "))
        }
    };
    format!("this machine and of those behind {behind}")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn names_are_those_of_links_to_others_each_once() {
        let names = |texts: &[&str]| {
            let texts: Vec<_> = texts.iter().map(ToString::to_string).collect();
            names(texts.iter())
        };
        let three = names(&["eth1", "docker0", "eth1", "br-lan"]).unwrap();
        assert_eq!(whose(&three), "this machine and of those behind eth1, docker0 and br-lan");
        assert_eq!(whose(&three[..1]), "this machine and of those behind eth1");
        assert_eq!(whose(&[]), "this machine");
        for (text, said) in
            [("lo", "no other machine"), ("weft0", "no other machine"), ("a b", "ip link")]
        {
            let failure = names(&[text]).unwrap_err().to_string();
            assert!(failure.contains(said), "{failure}");
        }
    }
}
