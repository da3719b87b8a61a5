//! Which links there are: every interface with a default route that is no tunnel, as they come.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use weftline::{Bind, ClientBuilder, PathConfig};
use weftline_net::{Address, DEVICE, Journal, Link, LinkName, MARK, Route, Routes};
use weftline_tunnel::Via;
use weftline_tunnel::bond::LaneLink;

use crate::failure::Failure;
use crate::paths;

/// Beginnings of names, and kinds, of interfaces that lead to this machine itself or into a tunnel.
const NAMES: [&str; 8] = ["docker", "br-", "veth", "virbr", "tun", "tap", "wg", "tailscale"];
const KINDS: [&str; 14] = [
    "tun",
    "wireguard",
    "vti",
    "vti6",
    "ipip",
    "ip6tnl",
    "sit",
    "gre",
    "gretap",
    "ip6gre",
    "ip6gretap",
    "xfrm",
    "vxlan",
    "geneve",
];
/// The word for every interface with a default route.
const AUTO: &str = "auto";
/// The most links used at once.
const MAX_LINKS: usize = 8;

/// The links used, each with the server's address that it reaches.
#[derive(Clone)]
pub(super) struct Links {
    /// Those named on the command line.
    named: Vec<PathConfig>,
    /// Whether others are found, and which never are.
    auto: bool,
    without: Vec<LinkName>,
    /// Interfaces that were found.
    found: Vec<String>,
    /// Those that have, or had last, an address by which a path is named.
    of_address: BTreeMap<IpAddr, String>,
    /// Whether there were more than can be used when it was looked last.
    has_more: bool,
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
        let (of_address, has_more) = (BTreeMap::new(), false);
        Ok(Self { named, auto, without, found, of_address, has_more, servers, pairs })
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

    /// The name of the first that has a cap, if one has.
    pub(super) fn capped(&self) -> Option<&str> {
        self.named.iter().find(|path| path.policy.cap.is_some()).map(|path| &*path.name)
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

    /// Takes the server's next addresses in their order, as those `tried` do not answer; whether links lead to
    /// others by that.
    ///
    /// # Errors
    /// When the system does not tell.
    pub(super) fn turn(&mut self, tried: &[Vec<SocketAddr>]) -> Result<bool, Failure> {
        for _ in 1..self.servers.len() {
            self.rotate();
            let servers: Vec<SocketAddr> = self.look()?.iter().map(|(_, server)| *server).collect();
            if !tried.contains(&servers) {
                return Ok(true);
            }
        }
        self.rotate();
        Ok(false)
    }

    fn rotate(&mut self) {
        self.servers.rotate_left(1);
    }

    /// The server's addresses in their order now.
    pub(super) fn servers(&self) -> Vec<SocketAddr> {
        self.servers.clone()
    }

    /// Takes them in this order from now on.
    ///
    /// # Errors
    /// When the system does not tell where the links lead.
    pub(super) fn lead_to(&mut self, servers: Vec<SocketAddr>) -> Result<(), Failure> {
        self.servers = servers;
        self.look().map(drop)
    }

    /// Notes which interface has an address by which a path is named.
    fn note_addresses(&mut self, links: &[Link], addresses: &[Address]) {
        // One that has another address by now, as a modem that has dialled again, is no more the one.
        self.of_address.retain(|address, name| {
            let link = links.iter().find(|link| link.name == *name);
            let of_link = |one: &&Address| {
                link.is_some_and(|link| link.index == one.link)
                    && one.address.is_ipv4() == address.is_ipv4()
                    && !is_of_link_alone(one.address)
            };
            let mut own = addresses.iter().filter(of_link).peekable();
            own.peek().is_none() || own.any(|one| one.address == *address)
        });
        for one in addresses {
            let is_named = |path: &PathConfig| path.bind == Bind::Address(one.address);
            let link = links.iter().find(|link| link.index == one.link);
            if let Some(link) = link.filter(|_| self.named.iter().any(is_named)) {
                self.of_address.insert(one.address, link.name.clone());
            }
        }
    }

    /// Whether a path is named that leaves by this interface.
    fn is_named(&self, interface: &str) -> bool {
        self.named.iter().any(|path| match &path.bind {
            Bind::Interface(name) => name == interface,
            Bind::Address(address) => {
                self.of_address.get(address).is_some_and(|name| name == interface)
            }
            Bind::Any => false,
        })
    }

    /// Looks again. An interface that has lost its default route stays as long as it is there: the
    /// route comes back, and a path that is kept knows what it is worth.
    ///
    /// # Errors
    /// When the system does not tell.
    pub(super) fn look(&mut self) -> Result<Vec<Pair>, Failure> {
        let routes = Routes::open()?;
        let (links, defaults) = (routes.links()?, routes.defaults()?);
        self.note_addresses(&links, &routes.addresses()?);
        if self.auto {
            self.find(&links, &defaults);
        }
        let found =
            self.found.iter().map(|name| PathConfig::new(name, Bind::Interface(name.clone())));
        let all = self.named.iter().cloned().chain(found);
        self.pairs = all.map(|path| self.with_server(path, &links, &defaults)).collect();
        Ok(self.pairs.clone())
    }

    /// Finds the links that lead out and are not named.
    fn find(&mut self, links: &[Link], defaults: &[Route]) {
        let mut found = std::mem::take(&mut self.found);
        found.retain(|name| links.iter().any(|link| link.name == *name) && !self.is_named(name));
        let mut more = Vec::new();
        for route in defaults {
            let link = links.iter().find(|link| Some(link.index) == route.link);
            let is_shared =
                |link: &Link| self.without.iter().any(|name| name.as_str() == link.name);
            let is_one = |link: &&Link| is_way_out(link) && !is_shared(link);
            let Some(Link { name, .. }) = link.filter(is_one) else { continue };
            if found.contains(name) || more.contains(name) || self.is_named(name) {
                continue;
            }
            if found.len() < MAX_LINKS { &mut found } else { &mut more }.push(name.clone());
        }
        if !more.is_empty() && !self.has_more {
            let more = more.join(", ");
            tracing::warn!(
                "at most {MAX_LINKS} links are used at once, and {more} is left out; name those that you \
                 want with --path"
            );
        }
        (self.found, self.has_more) = (found, !more.is_empty());
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

/// Whether an address leads nowhere beyond its link.
fn is_of_link_alone(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
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
    fn addresses_of_the_server_take_turns() {
        let servers = ["192.0.2.1:1", "192.0.2.2:2", "[2001:db8::1]:3"];
        let servers = servers.map(|text| text.parse().unwrap());
        let mut links = Links::new(&["any=192.0.2.9".to_owned()], servers.to_vec()).unwrap();
        let mut now = vec![vec![links.look().unwrap()[0].1]];
        assert!(links.turn(&now).unwrap());
        now.push(vec![links.pairs()[0].1]);
        // The link has no address of the third one's family.
        assert_eq!(now.concat(), servers[..2]);
        assert!(!links.turn(&now).unwrap());
        // Where that does not answer either, it is the first one's turn again.
        assert!(links.turn(&now[1..]).unwrap());
        assert_eq!(links.pairs()[0].1, servers[0]);
    }

    #[test]
    fn a_link_that_is_named_by_its_address_is_not_found_besides() {
        let texts = ["lte=10.64.3.9,role=metered".to_owned(), "auto".to_owned()];
        let mut links = Links::new(&texts, vec!["192.0.2.1:1".parse().unwrap()]).unwrap();
        let there = [link("wwan0", "")];
        let address =
            Address { link: 2, address: "10.64.3.9".parse().unwrap(), length: 32, lasts: true };
        let route = Route {
            destination: "0.0.0.0".parse().unwrap(),
            length: 0,
            link: Some(2),
            gateway: None,
            table: 254,
            metric: 0,
        };
        // Its address may come after its route, and go.
        links.find(&there, &[route]);
        assert_eq!(links.found, ["wwan0"]);
        links.note_addresses(&there, &[address]);
        for addresses in [&[address][..], &[]] {
            links.note_addresses(&there, addresses);
            links.find(&there, &[route]);
            assert!(links.found.is_empty(), "{:?}", links.found);
        }
        // It has dialled again, and the path that was named has no link any more.
        let another = Address { address: "10.70.1.1".parse().unwrap(), ..address };
        links.note_addresses(&there, &[another]);
        links.find(&there, &[route]);
        assert_eq!(links.found, ["wwan0"]);
    }

    #[test]
    fn no_more_links_than_can_be_used_are_found() {
        let mut links = Links::new(&[], vec!["192.0.2.1:1".parse().unwrap()]).unwrap();
        let there: Vec<Link> = (1..=9)
            .map(|index| Link { index, name: format!("eth{index}"), ..link("", "") })
            .collect();
        let route = |link| Route {
            destination: "0.0.0.0".parse().unwrap(),
            length: 0,
            link: Some(link),
            gateway: None,
            table: 254,
            metric: 0,
        };
        let all: Vec<Route> = (1..=9).map(route).collect();
        links.find(&there, &all);
        assert_eq!((links.found.len(), links.has_more), (8, true));
        links.find(&there[..8], &all[..8]);
        assert_eq!((links.found.len(), links.has_more), (8, false));
    }

    #[test]
    fn tunnels_and_containers_are_no_ways_out() {
        assert!(is_way_out(&link("wlan0", "")) && is_way_out(&link("eth0", "veth")));
        for (name, kind) in [
            ("weft0", "tun"),
            ("docker0", "bridge"),
            ("home", "wireguard"),
            ("veth1a", "veth"),
            ("gre1", "gre"),
        ] {
            assert!(!is_way_out(&link(name, kind)), "{name}");
        }
    }
}
