//! The kill switch: a table of nf_tables that lets nothing out by a link but what carries the bond.
//!
//! It has no owner, so that it outlives the process that made it, whatever ends that, until it is opened. It
//! does not choose by routes or links: whatever does not go to this machine itself or into a tunnel is dropped,
//! so that a link that comes later, a socket that is bound to one, and a route that a hostile network gives out
//! by DHCP (option 121) lead nowhere.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use rustix::net::netlink;

use crate::error::NetError;
use crate::message::Builder;
use crate::nft::{
    FORWARD, ICMPV6, OUT_NAME, OUTPUT, TCP, UDP, Writer, batch_begin, batch_end, tables,
};
use crate::route::{Address, Link, Routes};
use crate::socket::Netlink;

/// The mark of sockets that carry the bond (SO_MARK), which only who may change the network can set.
pub const MARK: u32 = 0x5700_0000;
/// The table's name.
const NAME: &str = "weftline_strict";
const TABLE: Writer = Writer::new(NAME);
/// The usual priority of filters.
const FILTER: i32 = 0;
/// The chain of what is near, and the sets of links that are open for a while.
const NEAR: &str = "near";
const PORTAL: &str = "portal";
const PORTAL_DNS: &str = "portal_dns";
/// How long a link is open for a portal.
const PORTAL_MILLISECONDS: u64 = 300_000;
/// The ports that are open then: those of browsers, and of DNS.
const HTTP: [u16; 2] = [80, 443];
const DNS: u16 = 53;
/// Questions to DNS by TLS.
const DNS_BY_TLS: u16 = 853;
/// Tunnels: what comes out of them at this machine's side is looked at itself.
const TUNNELS: [&str; 5] = ["tun", "wireguard", "vti", "ipip", "sit"];
/// Beginnings of names of interfaces that lead to containers and virtual machines of this machine.
const INSIDE: [&str; 4] = ["docker", "br-", "veth", "virbr"];
/// From which port to which DHCP speaks, of IPv4 and of IPv6.
const DHCP: [(bool, u16, u16); 2] = [(false, 68, 67), (true, 546, 547)];
/// Messages of ICMPv6: who listens to multicast, and neighbours and routers that are looked for (RFC 4861, RFC
/// 3810).
const NEIGHBOURS: [u8; 6] = [133, 135, 136, 131, 132, 143];

/// A network of a link.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Near {
    /// The link's name.
    pub link: String,
    /// The network.
    pub network: (IpAddr, u8),
}

/// The kill switch of this machine.
#[derive(Debug)]
pub struct KillSwitch {
    socket: Netlink,
}

impl KillSwitch {
    /// Opens a socket to the kernel. This neither closes nor opens anything.
    ///
    /// # Errors
    /// When the system does not let us.
    pub fn connect() -> Result<Self, NetError> {
        let socket = Netlink::open(Some(netlink::NETFILTER));
        Ok(Self { socket: socket.map_err(NetError::os("speaking with nf_tables"))? })
    }

    /// Closes it, in one transaction, in place of one that is closed; `device` is that of the bond, and `near`
    /// says which networks are reached all the same. `used` are the links' names.
    ///
    /// # Errors
    /// The kernel's refusal: then all is as before.
    pub fn close(&self, device: &str, used: &[String], near: &[Near]) -> Result<(), NetError> {
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        // It is there, whatever was; then it is not; then it is ours.
        TABLE.make_lasting(&mut batch);
        TABLE.delete(&mut batch);
        TABLE.make_lasting(&mut batch);
        TABLE.set_of_links(&mut batch, PORTAL, true, PORTAL_MILLISECONDS);
        TABLE.set_of_links(&mut batch, PORTAL_DNS, false, PORTAL_MILLISECONDS);
        TABLE.inner_chain(&mut batch, NEAR);
        near_rules(&mut batch, near);
        TABLE.chain(&mut batch, "output", "filter", OUTPUT, FILTER);
        inside(&mut batch, "output", device, used);
        own(&mut batch);
        portals(&mut batch);
        TABLE.rule(&mut batch, "output", |list| list.jump(NEAR));
        TABLE.chain(&mut batch, "forward", "filter", FORWARD, FILTER);
        inside(&mut batch, "forward", device, used);
        for chain in ["output", "forward"] {
            TABLE.rule(&mut batch, chain, |list| {
                list.count();
                list.drop();
            });
        }
        batch_end(&mut batch);
        self.socket.request(batch).map_err(no_table)
    }

    /// Lets these networks be reached from now on, and no others.
    ///
    /// # Errors
    /// The kernel's refusal: then all is as before.
    pub fn set_near(&self, near: &[Near]) -> Result<(), NetError> {
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        TABLE.empty(&mut batch, NEAR);
        near_rules(&mut batch, near);
        batch_end(&mut batch);
        self.socket.request(batch).map_err(no_table)
    }

    /// Whether it is closed.
    ///
    /// # Errors
    /// When the kernel does not let us ask. One without nf_tables has none.
    pub fn is_closed() -> io::Result<bool> {
        match tables() {
            Ok(tables) => Ok(tables.iter().any(|table| table == NAME)),
            Err(error) if is_without_tables(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Opens it; whether it was closed.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn open() -> Result<bool, NetError> {
        if !Self::is_closed().map_err(NetError::os("asking for the tables of nf_tables"))? {
            return Ok(false);
        }
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        TABLE.delete(&mut batch);
        batch_end(&mut batch);
        let opened = Self::connect()?.socket.request(batch);
        opened.map_err(NetError::os("removing the nf_tables table 'inet weftline_strict'"))?;
        Ok(true)
    }

    /// Opens a link for a user's browser, and for questions to DNS, for five minutes from now on; the kernel
    /// closes it by itself then.
    ///
    /// # Errors
    /// The kernel's refusal, as when the kill switch is not closed.
    pub fn open_portal(&self, link: &str, user: u32) -> Result<(), NetError> {
        // One that is there would go on with the time that it has.
        self.end_portal(link, user)?;
        for (set, user) in [(PORTAL, Some(user)), (PORTAL_DNS, None)] {
            let mut batch = Builder::default();
            batch_begin(&mut batch);
            TABLE.add_link(&mut batch, set, link, user);
            batch_end(&mut batch);
            self.socket.request(batch).map_err(no_table)?;
        }
        Ok(())
    }

    /// Ends that early. One that is not there is no fault.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn end_portal(&self, link: &str, user: u32) -> Result<(), NetError> {
        for (set, user) in [(PORTAL, Some(user)), (PORTAL_DNS, None)] {
            let mut batch = Builder::default();
            batch_begin(&mut batch);
            TABLE.remove_link(&mut batch, set, link, user);
            batch_end(&mut batch);
            match self.socket.request(batch) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(no_table(error));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Near {
    /// The networks of this machine's links that are private ones: whoever runs a network may say that any
    /// part of the internet is on its link.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn networks() -> io::Result<Vec<Self>> {
        let routes = Routes::open()?;
        Ok(near_of(&routes.links()?, &routes.addresses()?))
    }
}

fn near_of(links: &[Link], addresses: &[Address]) -> Vec<Near> {
    let mut found: Vec<_> = addresses
        .iter()
        .filter_map(|one| {
            let link = links.iter().find(|link| link.index == one.link && !link.loopback)?;
            let most = if one.address.is_ipv4() { 32 } else { 128 };
            let is_near = one.length < most && is_private(one.address, one.length);
            is_near.then(|| Near { link: link.name.clone(), network: masked(one) })
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

/// The network of an address.
fn masked(one: &Address) -> (IpAddr, u8) {
    let length = u32::from(one.length);
    let address = match one.address {
        IpAddr::V4(v4) => {
            let mask = !u32::MAX.checked_shr(length).unwrap_or(0);
            IpAddr::V4(Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
        IpAddr::V6(v6) => {
            let mask = !u128::MAX.checked_shr(length).unwrap_or(0);
            IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & mask))
        }
    };
    (address, one.length)
}

/// Whether a network is within private ones (RFC 1918, RFC 3927, RFC 6598, RFC 4193, RFC 4291 §2.5.6).
fn is_private(address: IpAddr, length: u8) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            match (a, b) {
                (10, _) => length >= 8,
                (172, 16..=31) => length >= 12,
                (192, 168) | (169, 254) => length >= 16,
                (100, 64..=127) => length >= 10,
                _ => false,
            }
        }
        IpAddr::V6(v6) => match v6.segments()[0] {
            first if first & 0xfe00 == 0xfc00 => length >= 7,
            first if first & 0xffc0 == 0xfe80 => length >= 10,
            _ => false,
        },
    }
}

/// What goes to this machine itself, its containers, or into a tunnel; and answers to what came in.
fn inside(batch: &mut Builder, chain: &str, device: &str, used: &[String]) {
    for name in ["lo", device] {
        TABLE.rule(batch, chain, |list| {
            list.name_is(OUT_NAME, name);
            list.accept();
        });
    }
    for kind in TUNNELS {
        TABLE.rule(batch, chain, |list| {
            list.kind_is(kind);
            list.accept();
        });
    }
    for beginning in INSIDE.iter().filter(|one| !used.iter().any(|link| link.starts_with(**one))) {
        TABLE.rule(batch, chain, |list| {
            list.name_begins(beginning);
            list.accept();
        });
    }
    TABLE.rule(batch, chain, |list| {
        list.is_of_a_connection();
        list.is_reply();
        list.accept();
    });
}

/// What carries the bond, and what links need to work at all.
fn own(batch: &mut Builder) {
    TABLE.rule(batch, "output", |list| {
        list.mark_is(MARK);
        list.accept();
    });
    for (ipv6, from, to) in DHCP {
        TABLE.rule(batch, "output", |list| {
            list.is_ipv6(ipv6);
            list.protocol_is(UDP);
            list.source_port_is(from);
            list.target_port_is(to);
            list.accept();
        });
    }
    for kind in NEIGHBOURS {
        TABLE.rule(batch, "output", |list| {
            list.protocol_is(ICMPV6);
            list.icmp_type_is(kind);
            list.accept();
        });
    }
}

/// Links that are open for a while, by IPv4.
fn portals(batch: &mut Builder) {
    for port in HTTP {
        TABLE.rule(batch, "output", |list| {
            list.is_ipv6(false);
            list.protocol_is(TCP);
            list.target_port_is(port);
            list.link_is_in(PORTAL, true);
            list.accept();
        });
    }
    for protocol in [TCP, UDP] {
        TABLE.rule(batch, "output", |list| {
            list.is_ipv6(false);
            list.protocol_is(protocol);
            list.target_port_is(DNS);
            list.link_is_in(PORTAL_DNS, false);
            list.accept();
        });
    }
}

/// The networks of links, but for questions to DNS; and what is for all on a link that has such a network.
fn near_rules(batch: &mut Builder, near: &[Near]) {
    if near.is_empty() {
        return;
    }
    for protocol in [TCP, UDP] {
        for port in [DNS, DNS_BY_TLS] {
            TABLE.rule(batch, NEAR, |list| {
                list.protocol_is(protocol);
                list.target_port_is(port);
                list.count();
                list.drop();
            });
        }
    }
    let for_all: [(IpAddr, u8); 4] = [
        (Ipv4Addr::new(224, 0, 0, 0).into(), 24),
        (Ipv4Addr::new(239, 255, 255, 250).into(), 32),
        (Ipv4Addr::BROADCAST.into(), 32),
        (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0).into(), 16),
    ];
    let mut links: Vec<_> = near.iter().map(|one| &one.link).collect();
    links.dedup();
    let networks = near.iter().map(|one| (&one.link, one.network));
    let for_all = links.into_iter().flat_map(|link| for_all.map(|network| (link, network)));
    for (link, (address, length)) in networks.chain(for_all) {
        TABLE.rule(batch, NEAR, |list| {
            list.name_is(OUT_NAME, link);
            list.target_is_in(address, length);
            list.accept();
        });
    }
}

fn is_without_tables(error: &io::Error) -> bool {
    use rustix::io::Errno;
    let code = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(code, Some(Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::OPNOTSUPP))
}

/// What the kernel's refusal of the table means.
fn no_table(error: io::Error) -> NetError {
    if is_without_tables(&error) || error.kind() == io::ErrorKind::NotFound {
        return NetError::NotPossible {
            what: format!("this kernel cannot close the kill switch by nf_tables ({error})"),
            remedy: "load the modules with 'modprobe -a nf_tables nft_ct nft_counter', or use Linux 5.12 \
                     or newer with nf_tables",
        };
    }
    NetError::os("changing the nf_tables table 'inet weftline_strict'")(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_networks_of_links_are_near() {
        let link = |index, name: &str, loopback| Link {
            index,
            name: name.to_owned(),
            kind: String::new(),
            up: true,
            loopback,
        };
        let links = [link(1, "lo", true), link(2, "wlan0", false)];
        let address = |link, address: &str, length| Address {
            link,
            address: address.parse().unwrap(),
            length,
        };
        let found = near_of(
            &links,
            &[
                address(1, "127.0.0.1", 8),
                address(2, "192.168.1.20", 24),
                address(2, "192.168.1.21", 24),
                address(2, "fe80::7", 64),
                address(2, "2001:db8:1::20", 64),
                // What hostile networks say: half of the internet, and more than what is private.
                address(2, "8.8.8.7", 1),
                address(2, "10.0.0.7", 4),
                address(2, "fd00::7", 3),
                address(2, "10.64.3.9", 32),
                address(9, "10.1.1.1", 24),
            ],
        );
        let shown: Vec<_> = found
            .iter()
            .map(|near| format!("{} {}/{}", near.link, near.network.0, near.network.1))
            .collect();
        assert_eq!(shown, ["wlan0 192.168.1.0/24", "wlan0 fe80::/64"]);
    }
}
