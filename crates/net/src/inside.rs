//! Interfaces that lead no farther than this machine and its containers, or into a tunnel whose own packets are
//! looked at in their turn: the kill switch leaves them alone.

use std::io;
use std::net::IpAddr;

use crate::link_name::LinkName;
use crate::route::{Link, Route, Routes};

/// Tunnels, which carry bare packets.
const TUNNELS: [&str; 5] = ["tun", "wireguard", "vti", "ipip", "sit"];
/// What carries frames to a virtual machine, as the kernel calls it.
const TAP: &str = "tun";
/// Beginnings of names of interfaces that lead to containers and virtual machines.
const NAMES: [&str; 4] = ["docker", "br-", "veth", "virbr"];
/// Kinds of ports by which a bridge leads nowhere else.
const PORTS: [&str; 3] = ["veth", "tun", "dummy"];

/// The numbers of such interfaces, which no other has while the system runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inside {
    pub(crate) all: Vec<u32>,
    /// Of these, those that are shared: nobody outside begins to speak to machines behind them.
    pub(crate) shared: Vec<u32>,
}

impl Inside {
    /// Those that there are now, but for those that the bond uses: by their names, or by addresses of theirs. What
    /// is `shared` leads to machines that use the bond, too.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn look(
        used: &[String],
        used_addresses: &[IpAddr],
        shared: &[LinkName],
    ) -> io::Result<Self> {
        let routes = Routes::open()?;
        let (links, addresses) = (routes.links()?, routes.addresses()?);
        let by_address = addresses.iter().filter(|one| used_addresses.contains(&one.address));
        let mut numbers: Vec<_> = by_address.map(|one| one.link).collect();
        let by_name = links.iter().filter(|link| used.contains(&link.name));
        numbers.extend(by_name.map(|link| link.index));
        Ok(inside_of(&links, &routes.defaults()?, &numbers, shared))
    }
}

fn inside_of(links: &[Link], defaults: &[Route], used: &[u32], shared: &[LinkName]) -> Inside {
    // One that names no link may lead anywhere.
    let has_default =
        |index| defaults.iter().any(|route| route.link.is_none_or(|link| link == index));
    let is_inside = |link: &&Link| {
        if link.loopback || used.contains(&link.index) {
            return false;
        }
        if TUNNELS.contains(&&*link.kind) && !link.ethernet {
            return true;
        }
        let is_named = NAMES.iter().any(|name| link.name.starts_with(name));
        let leads_inside = match &*link.kind {
            TAP => true,
            "veth" => is_named,
            "bridge" => is_named && has_ports_inside(link.index, links, used),
            _ => false,
        };
        let is_shared = shared.iter().any(|name| name.as_str() == link.name);
        (leads_inside || is_shared) && !has_default(link.index)
    };
    let mut all: Vec<_> = links.iter().filter(is_inside).map(|link| link.index).collect();
    all.sort_unstable();
    let is_shared = |link: &&Link| shared.iter().any(|name| name.as_str() == link.name);
    let shared = links.iter().filter(is_shared).map(|link| link.index);
    let shared = shared.filter(|index| all.contains(index)).collect();
    Inside { all, shared }
}

fn has_ports_inside(bridge: u32, links: &[Link], used: &[u32]) -> bool {
    let mut ports = links.iter().filter(|link| link.master == Some(bridge));
    ports.all(|port| PORTS.contains(&&*port.kind) && !used.contains(&port.index))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn link(index: u32, name: &str, kind: &str, master: Option<u32>) -> Link {
        let (name, kind) = (name.to_owned(), kind.to_owned());
        let ethernet = !(name.starts_with("tun") || kind == "wireguard");
        Link { index, name, kind, up: true, running: true, loopback: false, ethernet, master }
    }

    #[test]
    fn a_bridge_is_inside_if_all_its_ports_are_and_nothing_if_it_leads_out() {
        let links = [
            link(2, "eth0", "", Some(4)),
            link(3, "docker0", "bridge", None),
            link(4, "br-ex", "bridge", None),
            link(5, "veth1a", "veth", Some(3)),
            link(6, "br-lan", "bridge", None),
            link(7, "vnet0", "tun", Some(8)),
            link(8, "virbr0", "bridge", None),
            link(9, "tap0", "tun", None),
            link(10, "tap1", "tun", None),
            link(11, "wg0", "wireguard", None),
            link(12, "tun0", "tun", None),
            link(13, "bridge0", "bridge", None),
            link(14, "br-bond", "bridge", None),
            link(15, "bond0", "bond", Some(14)),
        ];
        let default = |link| Route {
            destination: Ipv4Addr::UNSPECIFIED.into(),
            length: 0,
            link: Some(link),
            gateway: None,
            table: 254,
            metric: 0,
        };
        let defaults = [default(6), default(10), default(12)];
        assert_eq!(inside_of(&links, &defaults, &[], &[]).all, [3, 5, 7, 8, 9, 11, 12]);
        assert_eq!(inside_of(&links, &defaults, &[3, 9, 12], &[]).all, [5, 7, 8, 11]);
        let shared = ["eth0", "br-lan"].map(|text| text.parse().unwrap());
        assert_eq!(
            inside_of(&links, &defaults, &[3, 9, 12], &shared).all,
            [2, 5, 7, 8, 11],
            "one with a default route leads out"
        );
        let several = [Route { link: None, ..default(0) }];
        assert_eq!(
            inside_of(&links, &several, &[], &[]).all,
            [11, 12],
            "nobody knows where they lead"
        );
    }
}
