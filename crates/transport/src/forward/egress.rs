//! Where a server lets its clients go: the internet, and not the server's own surroundings.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

/// The port of mail between servers: open to clients, it would make the server a source of spam.
const MAIL: u16 = 25;

/// A network: an address and how many of its first bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    length: u8,
}

/// A text that is no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no network; write an address and a length, such as 10.0.0.0/8 or fd00::/8")]
pub struct ParseNetworkError(String);

impl FromStr for Network {
    type Err = ParseNetworkError;

    /// `ADDRESS/LENGTH`; an address alone stands for itself.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || ParseNetworkError(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.map_or(Ok(most), |text| text.parse().map_err(|_| wrong()))?;
        if length > most { Err(wrong()) } else { Ok(Self { address, length }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Network {
    const fn v4(a: u8, b: u8, c: u8, length: u8) -> Self {
        Self { address: IpAddr::V4(Ipv4Addr::new(a, b, c, 0)), length }
    }

    const fn v6(first: u16, second: u16, length: u8) -> Self {
        Self { address: IpAddr::V6(Ipv6Addr::new(first, second, 0, 0, 0, 0, 0, 0)), length }
    }

    /// Whether an address is in it.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (one, other, bits) = match (self.address, address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => {
                (u128::from(one.to_bits()), u128::from(other.to_bits()), 32)
            }
            (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
            _ => return false,
        };
        (one ^ other).checked_shr(bits - u32::from(self.length)).unwrap_or(0) == 0
    }
}

/// Networks that are not the internet, and what they are (RFC 6890 and its registry).
const CLOSED: [(Network, &str); 20] = [
    (Network::v4(0, 0, 0, 8), "no address of another machine"),
    (Network::v4(10, 0, 0, 8), "private"),
    (Network::v4(100, 64, 0, 10), "shared by a provider's customers"),
    (Network::v4(127, 0, 0, 8), "loopback"),
    (Network::v4(169, 254, 0, 16), "link-local, where clouds keep their secrets"),
    // Azure's host answers there to each virtual machine, with its secrets.
    (Network { address: IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)), length: 32 }, "a cloud's own"),
    (Network::v4(172, 16, 0, 12), "private"),
    (Network::v4(192, 0, 0, 24), "reserved"),
    (Network::v4(192, 168, 0, 16), "private"),
    (Network::v4(198, 18, 0, 15), "for benchmarks"),
    (Network::v4(224, 0, 0, 4), "multicast"),
    (Network::v4(240, 0, 0, 4), "reserved"),
    // Unspecified, loopback, and IPv4 addresses written in ways of old.
    (Network::v6(0, 0, 16), "no address of another machine"),
    (Network::v6(0x100, 0, 64), "discarded"),
    (Network::v6(0x2001, 0, 32), "a tunnel's (Teredo)"),
    (Network::v6(0xfc00, 0, 7), "private"),
    (Network::v6(0xfe80, 0, 10), "link-local"),
    (Network::v6(0xfec0, 0, 10), "private"),
    (Network::v6(0xff00, 0, 8), "multicast"),
    (Network::v6(0x64, 0xff9b, 32), "translated into IPv4"),
];

/// What a server lets its clients connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Egress {
    allowed: Vec<Network>,
    /// Addresses by which this server is reached and which are none of its interfaces'.
    outer: Vec<IpAddr>,
}

impl Egress {
    /// The internet, and these networks besides.
    pub fn new(allowed: Vec<Network>) -> Self {
        Self { allowed, outer: Vec::new() }
    }

    /// The same, of a server that is reached by these addresses: behind a NAT they lead to the router.
    #[must_use]
    pub fn reached_by(mut self, outer: Vec<IpAddr>) -> Self {
        self.outer = outer;
        self
    }

    /// Whether a packet that is no TCP may go to `target`, whose port is 0 if it has none. `own` are this
    /// server's interfaces' addresses and the lengths of their networks.
    pub fn permits(&self, target: SocketAddr, own: &[(IpAddr, u8)]) -> bool {
        let port = if target.port() == 0 { 1 } else { target.port() };
        let target = SocketAddr::new(target.ip(), port);
        let is_own = |address: IpAddr| {
            self.outer.contains(&address)
                || own.iter().any(|&(one, length)| {
                    one == address
                        || one.is_ipv6() && Network { address: one, length }.contains(address)
                })
        };
        self.check_with(target, is_own).is_ok()
    }

    /// The networks that are open though they are not the internet: address and length of each.
    pub fn allowed(&self) -> Vec<(IpAddr, u8)> {
        self.allowed.iter().map(|network| (network.address, network.length)).collect()
    }

    /// The networks that are not the internet.
    pub fn closed(&self) -> Vec<(IpAddr, u8)> {
        let sixto4 = Network::v6(0x2002, 0, 16);
        let outer = self.outer.iter().map(|&ip| (ip, if ip.is_ipv4() { 32 } else { 128 }));
        let closed = CLOSED.iter().map(|(network, _)| *network).chain([sixto4]);
        closed.map(|network| (network.address, network.length)).chain(outer).collect()
    }

    /// The address to connect to, if a client may; else why not, with what would let it.
    ///
    /// # Errors
    /// When the system does not say what this server's own addresses are.
    pub(super) fn check(&self, target: SocketAddr) -> io::Result<Result<SocketAddr, String>> {
        let own = if_addrs::get_if_addrs()?;
        Ok(self.check_with(target, |address| {
            self.outer.contains(&address) || own.iter().any(|one| is_near(&one.addr, address))
        }))
    }

    fn check_with(
        &self,
        target: SocketAddr,
        is_own: impl FnOnce(IpAddr) -> bool,
    ) -> Result<SocketAddr, String> {
        // An IPv4 address in the form of IPv6 counts as what it leads to.
        let target = SocketAddr::new(target.ip().to_canonical(), target.port());
        let address = target.ip();
        if target.port() == MAIL {
            return Err(format!("{target}: port {MAIL} is closed to clients"));
        }
        if target.port() == 0 {
            return Err(format!("{target}: there is no port 0"));
        }
        if self.allowed.iter().any(|network| network.contains(address)) {
            return Ok(target);
        }
        let closed = CLOSED.iter().find(|(network, _)| network.contains(address));
        let closed = closed.map(|(_, kind)| *kind).or_else(|| of_6to4(address));
        let closed = closed.or_else(|| is_own(address).then_some("the server's own"));
        match closed {
            Some(kind) => Err(format!(
                "{target} is not the internet: the address is {kind}, and this server has not been \
                 told to allow {address}"
            )),
            None => Ok(target),
        }
    }
}

/// Whether an address is an interface's, or of IPv6 one of its network: neighbours there have addresses
/// of the internet, and the router keeps that from them. (On a public network of IPv4 they are
/// strangers.)
fn is_near(interface: &if_addrs::IfAddr, address: IpAddr) -> bool {
    match interface {
        if_addrs::IfAddr::V4(own) => address == IpAddr::V4(own.ip),
        if_addrs::IfAddr::V6(own) => {
            Network { address: IpAddr::V6(own.ip), length: own.prefixlen }.contains(address)
        }
    }
}

/// What an address of 6to4 (RFC 3056) leads to is in it.
fn of_6to4(address: IpAddr) -> Option<&'static str> {
    let IpAddr::V6(address) = address else { return None };
    (address.segments()[0] == 0x2002).then_some("a tunnel's (6to4)")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &[&str], target: &str) -> Result<SocketAddr, String> {
        let allowed = allowed.iter().map(|text| text.parse().unwrap()).collect();
        let own: IpAddr = "198.51.100.1".parse().unwrap();
        Egress::new(allowed).check_with(target.parse().unwrap(), |address| address == own)
    }

    #[test]
    fn the_internet_is_open_and_the_rest_is_not() {
        for open in ["1.1.1.1:443", "[2606:4700::1111]:443", "203.0.113.9:80", "100.63.0.1:1"] {
            assert_eq!(check(&[], open).unwrap().to_string(), open);
        }
        for (closed, part) in [
            ("10.1.2.3:80", "private"),
            ("172.31.0.1:80", "private"),
            ("168.63.129.16:80", "cloud"),
            ("192.168.1.1:80", "private"),
            ("127.0.0.1:22", "loopback"),
            ("169.254.169.254:80", "link-local"),
            ("100.64.0.1:80", "customers"),
            ("224.0.0.1:80", "multicast"),
            ("255.255.255.255:80", "reserved"),
            ("0.0.0.0:80", "no address"),
            ("[::1]:80", "no address"),
            ("[::]:80", "no address"),
            ("[fd00::1]:80", "private"),
            ("[fe80::1]:80", "link-local"),
            ("[ff02::1]:80", "multicast"),
            ("[64:ff9b::a00:1]:80", "translated"),
            ("[2002:a00:1::1]:80", "6to4"),
            ("[::ffff:10.0.0.1]:80", "private"),
            ("[::10.0.0.1]:80", "no address"),
            ("198.51.100.1:80", "the server's own"),
            ("1.1.1.1:25", "port 25 is closed"),
            ("1.1.1.1:0", "no port 0"),
        ] {
            let reason = check(&[], closed).unwrap_err();
            assert!(reason.contains(part), "{closed}: {reason}");
        }
    }

    #[test]
    fn packets_go_where_connections_go() {
        let egress = Egress::new(vec!["192.168.7.0/24".parse().unwrap()]);
        let own = [("198.51.100.1".parse().unwrap(), 24), ("2001:db8:9::1".parse().unwrap(), 64)];
        for (target, may) in [
            ("1.1.1.1:443", true),
            // As a ping has none.
            ("1.1.1.1:0", true),
            ("192.168.7.7:0", true),
            ("192.168.8.7:0", false),
            ("169.254.169.254:0", false),
            ("198.51.100.1:9", false),
            ("198.51.100.2:9", true),
            ("[2001:db8:9::77]:9", false),
            ("[2001:db8:10::77]:9", true),
            ("1.1.1.1:25", false),
        ] {
            assert_eq!(egress.permits(target.parse().unwrap(), &own), may, "{target}");
        }
        // The kernel's own filter is at least as narrow for each of those that are closed.
        let closed = egress.closed();
        assert!(closed.len() > CLOSED.len() && egress.allowed().len() == 1);
    }

    #[test]
    fn what_is_allowed_is_open_but_for_mail() {
        assert!(check(&["10.0.0.0/8"], "10.1.2.3:80").is_ok());
        assert!(check(&["10.0.0.0/8"], "[::ffff:10.1.2.3]:80").is_ok());
        assert!(check(&["10.0.0.0/8"], "192.168.1.1:80").is_err());
        assert!(check(&["198.51.100.1"], "198.51.100.1:80").is_ok());
        assert!(check(&["0.0.0.0/0"], "1.1.1.1:25").is_err());
        assert!(check(&["::/0"], "[fd00::1]:80").is_ok());
    }

    #[test]
    fn networks_are_read_and_shown() {
        for text in ["10.0.0.0/8", "fd00::/8", "0.0.0.0/0"] {
            assert_eq!(text.parse::<Network>().unwrap().to_string(), text);
        }
        for text in ["10.0.0.0/33", "10.0.0/8", "", "x/8", "fd00::/129", "1.2.3.4/"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
