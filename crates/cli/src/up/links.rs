//! Which links there are: every interface with a default route that is no tunnel, as they come.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use weftline::{Bind, ClientBuilder, PathConfig};
use weftline_net::{DEVICE, Journal, Link, LinkName, MARK, Route, Routes};
use weftline_tunnel::Via;
use weftline_tunnel::bond::LaneLink;

use crate::failure::Failure;
use crate::paths;

/// Beginnings of names, and kinds, of interfaces that lead to this machine itself or into a tunnel.
const NAMES: [&str; 8] = ["docker", "br-", "veth", "virbr", "tun", "tap", "wg", "tailscale"];
const KINDS: [&str; 5] = ["tun", "wireguard", "vti", "ipip", "sit"];
/// The word for every interface with a default route.
const AUTO: &str = "auto";
/// The most links used at once.
const MAX_LINKS: usize = 8;

/// The links used, each with the server's address that it reaches.
pub(super) struct Links {
    /// Those named on the command line.
    named: Vec<PathConfig>,
    /// Whether others are found, and which never are.
    auto: bool,
    without: Vec<LinkName>,
    /// Interfaces that were found.
    found: Vec<String>,
    servers: Vec<SocketAddr>,
    /// What the last look has found.
    pairs: Vec<Pair>,
}

/// A link, and the server's address for it.
pub(super) type Pair = (PathConfig, SocketAddr);

impl Links {
    /// Those that `texts` name; without any, those that are found.
    ///
    /// # Errors
    /// When one is written wrong; whether it is there is another question.
    pub(super) fn new(texts: &[String], servers: Vec<SocketAddr>) -> Result<Self, Failure> {
        let is_auto = |text: &&String| *text == AUTO;
        let auto = texts.is_empty() || texts.iter().any(|text| is_auto(&text));
        let given = texts.iter().filter(|text| !is_auto(text));
        let named = given.map(|text| paths::parse(text)).collect::<Result<_, _>>()?;
        let (found, pairs, without) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { named, auto, without, found, servers, pairs })
    }

    /// The same, and never one of these: machines are behind them that use the bond.
    pub(super) fn without(self, shared: &[LinkName]) -> Self {
        Self { without: shared.to_vec(), ..self }
    }

    /// The same, if one of those that are named is there, or others are found.
    ///
    /// # Errors
    /// When none is.
    pub(super) fn provided(mut self) -> Result<Self, Failure> {
        self.named = paths::provided(self.named, self.auto)?;
        Ok(self)
    }

    /// What the last look has found.
    pub(super) fn pairs(&self) -> &[Pair] {
        &self.pairs
    }

    /// The names of the links used.
    pub(super) fn names(&self) -> Vec<String> {
        let named = self.named.iter().map(|path| path.name.clone());
        named.chain(self.found.iter().cloned()).collect()
    }

    /// The interfaces that were named, and addresses that were, each of which is of one.
    pub(super) fn interfaces(&self) -> (Vec<String>, Vec<IpAddr>) {
        let (mut names, mut addresses) = (Vec::new(), Vec::new());
        for path in &self.named {
            match &path.bind {
                Bind::Interface(name) => names.push(name.clone()),
                Bind::Address(address) => addresses.push(*address),
                Bind::Any => {}
            }
        }
        (names, addresses)
    }

    /// Looks again. An interface that has lost its default route stays as long as it is there: the
    /// route comes back, and a path that is kept knows what it is worth.
    ///
    /// # Errors
    /// When the system does not tell.
    pub(super) fn look(&mut self) -> Result<Vec<Pair>, Failure> {
        let routes = Routes::open()?;
        let (links, defaults) = (routes.links()?, routes.defaults()?);
        if self.auto {
            self.found.retain(|name| links.iter().any(|link| link.name == *name));
            for route in &defaults {
                let link = links.iter().find(|link| Some(link.index) == route.link);
                let is_shared =
                    |link: &Link| self.without.iter().any(|name| name.as_str() == link.name);
                let is_one = |link: &&Link| is_way_out(link) && !is_shared(link);
                let Some(link) = link.filter(is_one) else { continue };
                let is_named = |path: &PathConfig| path.bind == Bind::Interface(link.name.clone());
                if !self.found.contains(&link.name)
                    && !self.named.iter().any(is_named)
                    && self.found.len() < MAX_LINKS
                {
                    self.found.push(link.name.clone());
                }
            }
        }
        let found =
            self.found.iter().map(|name| PathConfig::new(name, Bind::Interface(name.clone())));
        let all = self.named.iter().cloned().chain(found);
        self.pairs = all.map(|path| self.with_server(path, &links, &defaults)).collect();
        Ok(self.pairs.clone())
    }

    /// The first of the server's addresses whose family leaves by this path. While none does, it stays
    /// what it was.
    fn with_server(&self, path: PathConfig, links: &[Link], defaults: &[Route]) -> Pair {
        let leaves = |server: &&SocketAddr| match &path.bind {
            Bind::Any => true,
            Bind::Address(address) => address.is_ipv4() == server.is_ipv4(),
            Bind::Interface(name) => {
                let index = links.iter().find(|link| link.name == *name).map(|link| link.index);
                let of_link = |route: &&Route| route.link == index;
                let mut families =
                    defaults.iter().filter(of_link).map(|route| route.destination.is_ipv4());
                families.any(|is_ipv4| is_ipv4 == server.is_ipv4())
            }
        };
        let before = self.pairs.iter().find(|(other, _)| *other == path).map(|(_, server)| server);
        let server = self.servers.iter().find(leaves).or(before).or(self.servers.first());
        let server = *server.expect("an invite has an address");
        (path, server)
    }
}

/// Whether an interface with a default route leads out of this machine by itself.
fn is_way_out(link: &Link) -> bool {
    !link.loopback
        && link.name != DEVICE
        && !NAMES.iter().any(|name| link.name.starts_with(name))
        && !KINDS.contains(&&*link.kind)
}

/// The client with these links.
pub(super) fn with(basis: &ClientBuilder, pairs: Vec<Pair>) -> ClientBuilder {
    let add = |builder: ClientBuilder, (path, server): Pair| builder.path(path).server(server);
    pairs.into_iter().fold(basis.clone(), add)
}

/// The links that carry lanes: those that are bound to one.
pub(super) fn lanes(pairs: &[Pair]) -> Vec<LaneLink> {
    let lane = |(path, server): &Pair| {
        let via = match &path.bind {
            // What is sent there would come back to us.
            Bind::Any => return None,
            Bind::Address(address) => Via::Address(*address),
            Bind::Interface(name) => Via::Interface(name.clone()),
        };
        let (name, role) = (path.name.clone(), path.policy.role);
        Some(LaneLink { name, via, server: *server, role, mark: Some(MARK) })
    };
    pairs.iter().filter_map(lane).collect()
}

/// Lets packets come in by a link that the main table would not answer by (rp_filter): with several
/// links, all but one are such.
pub(super) fn loosen(pairs: &[Pair], journal: &Path) {
    const STRICT: &str = "1";
    const LOOSE: &str = "2";
    if pairs.len() < 2 {
        return;
    }
    let name_of = |interface: &str| format!("net/ipv4/conf/{interface}/rp_filter");
    let read = |interface: &str| {
        std::fs::read_to_string(format!("/proc/sys/{}", name_of(interface))).unwrap_or_default()
    };
    for (path, _) in pairs {
        let Bind::Interface(interface) = &path.bind else { continue };
        // The greater of the two holds.
        let set = [read("all"), read(interface)].map(|text| text.trim().to_owned());
        if set.iter().max().is_some_and(|most| most == STRICT)
            && let Err(error) = Journal::at(journal).set(&name_of(interface), LOOSE)
        {
            tracing::warn!(
                "{interface}: its reverse path filter is strict and stays so ({error}); answers that \
                 come in there may be dropped"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, kind: &str) -> Link {
        Link {
            index: 2,
            name: name.to_owned(),
            kind: kind.to_owned(),
            up: true,
            running: true,
            loopback: false,
            ethernet: true,
            master: None,
        }
    }

    #[test]
    fn a_link_reaches_the_server_by_the_family_that_its_network_has() {
        let servers = ["192.0.2.1:4433", "[2001:db8::1]:4433"].map(|text| text.parse().unwrap());
        let mut links = Links::new(&[], servers.to_vec()).unwrap();
        let path = PathConfig::new("wlan0", Bind::Interface("wlan0".to_owned()));
        let route = |destination: &str| Route {
            destination: destination.parse().unwrap(),
            length: 0,
            link: Some(2),
            gateway: None,
            table: 254,
            metric: 0,
        };
        let (v4, v6) = (route("0.0.0.0"), route("::"));
        let mut look = |defaults: &[Route]| {
            let pair = links.with_server(path.clone(), &[link("wlan0", "")], defaults);
            links.pairs = vec![pair.clone()];
            pair.1
        };
        assert_eq!(look(&[]), servers[0]);
        assert_eq!(look(&[v6]), servers[1]);
        assert_eq!(look(&[]), servers[1], "the route comes back, or another one does");
        assert_eq!(look(&[v6, v4]), servers[0], "the first that is reached");
        assert_eq!(look(&[v6]), servers[1]);
    }

    #[test]
    fn tunnels_and_containers_are_no_ways_out() {
        assert!(is_way_out(&link("wlan0", "")) && is_way_out(&link("eth0", "veth")));
        for (name, kind) in
            [("weft0", "tun"), ("docker0", "bridge"), ("home", "wireguard"), ("veth1a", "veth")]
        {
            assert!(!is_way_out(&link(name, kind)), "{name}");
        }
    }
}
