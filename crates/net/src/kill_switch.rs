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
use crate::inside::Inside;
use crate::message::Builder;
use crate::nft::{
    FORWARD, ICMP, ICMPV6, OUT_NAME, OUTPUT, POSTROUTING, TCP, UDP, Writer, batch_begin, batch_end,
};
use crate::route::{Address, Link, Routes};
use crate::ruleset::{chains_of_rules, is_awake};
use crate::socket::Netlink;

/// The mark of sockets that carry the bond (SO_MARK), which takes CAP_NET_ADMIN, or CAP_NET_RAW since Linux 5.17.
pub const MARK: u32 = 0x5700_0000;
/// The table's name.
const NAME: &str = "weftline_strict";
const TABLE: Writer = Writer::new(NAME);
/// The usual priority of filters, and one after those that change where a packet goes.
const FILTER: i32 = 0;
const LATE: i32 = 250;
/// The chains of what leaves, of links that lead inside, of what is near, and the sets of links that are open for a
/// while.
const LEAVING: &str = "leaving";
const INSIDE: &str = "inside";
const NEAR: &str = "near";
/// That of what begins a connection with a machine behind a shared link.
const BEGUN: &str = "begun";
const INNER: [&str; 4] = [INSIDE, NEAR, LEAVING, BEGUN];
/// The chain of what this machine forwards.
const FORWARDED: &str = "forward";
const PORTAL: &str = "portal";
/// Where what leaves is looked at: each has its chain, hook and priority.
const LOOKS: [(&str, u32, i32); 2] =
    [("output", OUTPUT, FILTER), ("postrouting", POSTROUTING, LATE)];
/// The chains that end with a drop have more rules than this.
const LEAST_RULES: usize = 5;
const PORTAL_DNS: &str = "portal_dns";
/// How long a link is open for a portal.
const PORTAL_MILLISECONDS: u64 = 300_000;
/// The ports that are open then: those of browsers, and of DNS.
const HTTP: [u16; 2] = [80, 443];
const DNS: u16 = 53;
/// Questions to DNS by TLS.
const DNS_BY_TLS: u16 = 853;
/// From which port to which DHCP speaks, of IPv4 and of IPv6.
const DHCP: [(bool, u16, u16); 2] = [(false, 68, 67), (true, 546, 547)];
/// Answers to pings, of ICMP and of ICMPv6.
const PONG: [(u8, u8); 2] = [(ICMP, 0), (ICMPV6, 129)];
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

    /// Closes it, in one transaction; `device` is that of the bond, `inside` and `near` say which links and
    /// networks are reached all the same. Where one is closed its rules are made anew, and links that are open
    /// to a browser stay so.
    ///
    /// # Errors
    /// The kernel's refusal: then all is as before.
    pub fn close(&self, device: &str, inside: &Inside, near: &[Near]) -> Result<(), NetError> {
        let request = |start: fn(&mut Builder)| {
            let mut batch = Builder::default();
            batch_begin(&mut batch);
            start(&mut batch);
            rules(&mut batch, device, inside, near);
            batch_end(&mut batch);
            self.socket.request(batch)
        };
        // An earlier version's may have other chains.
        let is_renewed = Self::is_closed().unwrap_or(false) && request(empty).is_ok();
        if is_renewed { Ok(()) } else { request(make).map_err(no_table) }
    }

    /// Lets these links and networks be reached from now on, and no others.
    ///
    /// # Errors
    /// The kernel's refusal: then all is as before.
    pub fn change(&self, inside: &Inside, near: &[Near]) -> Result<(), NetError> {
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        TABLE.empty(&mut batch, INSIDE);
        TABLE.empty(&mut batch, BEGUN);
        inside_rules(&mut batch, inside);
        TABLE.empty(&mut batch, NEAR);
        near_rules(&mut batch, near);
        batch_end(&mut batch);
        self.socket.request(batch).map_err(no_table)
    }

    /// Whether it is closed: its table is there, and nobody has emptied its chains or put it to sleep.
    ///
    /// # Errors
    /// When the kernel does not let us ask. One without nf_tables has none.
    pub fn is_closed() -> io::Result<bool> {
        if Self::table()? != Some(true) {
            return Ok(false);
        }
        let chains = chains_of_rules(NAME)?;
        let rules = |name: &str| chains.iter().filter(|chain| *chain == name).count();
        // What leaves by links is dropped at the end of these two, after some that let it pass.
        Ok(LOOKS.iter().all(|(chain, ..)| rules(chain) == 1)
            && rules(LEAVING) >= LEAST_RULES
            && rules(FORWARDED) >= LEAST_RULES)
    }

    /// Whether it was closed and not opened by [`open`](Self::open), whatever others have done to it since.
    ///
    /// # Errors
    /// When the kernel does not let us ask. One without nf_tables has none.
    pub fn is_wanted() -> io::Result<bool> {
        Self::table().map(|table| table.is_some())
    }

    /// Whether there is a table, and it does anything.
    fn table() -> io::Result<Option<bool>> {
        match is_awake(NAME) {
            Err(error) if is_without_tables(&error) => Ok(None),
            found => found,
        }
    }

    /// Opens it; whether it was closed.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn open() -> Result<bool, NetError> {
        if !Self::is_wanted().map_err(NetError::os("asking for the tables of nf_tables"))? {
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
    /// closes it by itself then. Another one that is open is closed.
    ///
    /// # Errors
    /// The kernel's refusal, as when the kill switch is not closed.
    pub fn open_portal(&self, link: &str, user: u32) -> Result<(), NetError> {
        // This one, too, would go on with the time that it has.
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        [PORTAL, PORTAL_DNS].into_iter().for_each(|set| TABLE.empty_set(&mut batch, set));
        batch_end(&mut batch);
        self.socket.request(batch).map_err(no_table)?;
        for (set, user) in [(PORTAL, Some(user)), (PORTAL_DNS, None)] {
            let mut batch = Builder::default();
            batch_begin(&mut batch);
            TABLE.add_link(&mut batch, set, link, user);
            batch_end(&mut batch);
            self.socket.request(batch).map_err(no_table)?;
        }
        Ok(())
    }

    /// Ends that early, whoever's browser it is open to; whether the link was open.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn end_portal(&self, link: &str) -> Result<bool, NetError> {
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        TABLE.remove_link(&mut batch, PORTAL_DNS, link, None);
        // One link is open at a time.
        TABLE.empty_set(&mut batch, PORTAL);
        batch_end(&mut batch);
        match self.socket.request(batch) {
            Ok(()) => Ok(true),
            // Nothing of the batch is done.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(no_table(error)),
        }
    }
}

/// The table with its sets and chains, in place of what there is of it.
fn make(batch: &mut Builder) {
    // It is there, whatever was; then it is not; then it is ours.
    TABLE.make_lasting(batch);
    TABLE.delete(batch);
    TABLE.make_lasting(batch);
    TABLE.set_of_links(batch, PORTAL, true, PORTAL_MILLISECONDS);
    TABLE.set_of_links(batch, PORTAL_DNS, false, PORTAL_MILLISECONDS);
    for chain in INNER {
        TABLE.inner_chain(batch, chain);
    }
    for (chain, hook, priority) in LOOKS {
        TABLE.chain(batch, chain, "filter", hook, priority);
    }
    TABLE.chain(batch, FORWARDED, "filter", FORWARD, FILTER);
}

/// The same chains without a rule.
fn empty(batch: &mut Builder) {
    let looks = LOOKS.map(|(chain, ..)| chain);
    for chain in INNER.into_iter().chain(looks).chain([FORWARDED]) {
        TABLE.empty(batch, chain);
    }
}

/// The rules, in chains that have none.
fn rules(batch: &mut Builder, device: &str, inside: &Inside, near: &[Near]) {
    inside_rules(batch, inside);
    near_rules(batch, near);
    // At first by the way that is known then, and once more where it is known for good: rules of others
    // may give a packet another one in between, by a mark or a translated address.
    for (chain, ..) in LOOKS {
        TABLE.rule(batch, chain, |list| list.jump(LEAVING));
    }
    not_by_links(batch, LEAVING, device);
    own(batch);
    portals(batch);
    TABLE.rule(batch, LEAVING, |list| list.jump(NEAR));
    TABLE.rule(batch, FORWARDED, |list| list.jump(BEGUN));
    not_by_links(batch, FORWARDED, device);
    for chain in [LEAVING, FORWARDED] {
        TABLE.rule(batch, chain, |list| {
            list.count();
            list.drop();
        });
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

/// Links that lead inside.
fn inside_rules(batch: &mut Builder, inside: &Inside) {
    for index in &inside.all {
        TABLE.rule(batch, INSIDE, |list| {
            list.index_is(*index);
            list.accept();
        });
        TABLE.rule(batch, BEGUN, |list| {
            list.came_by(*index);
            list.go_back();
        });
    }
    // Answers would leave by the link by which somebody has begun.
    for index in &inside.shared {
        TABLE.rule(batch, BEGUN, |list| {
            list.index_is(*index);
            list.is_of_no_connection();
            list.drop();
        });
    }
}

/// What goes to this machine itself, its containers, or into a tunnel; and answers to what came in.
fn not_by_links(batch: &mut Builder, chain: &str, device: &str) {
    for name in ["lo", device] {
        TABLE.rule(batch, chain, |list| {
            list.name_is(OUT_NAME, name);
            list.accept();
        });
    }
    TABLE.rule(batch, chain, |list| list.jump(INSIDE));
    answers(batch, chain);
}

/// Answers to connections of TCP that others have begun, and to pings. The kernel takes whoever is seen first
/// for the one who has begun, which a peer of a connection from before, or of a packet that was dropped here, may
/// be. That a program takes a connection is known by its SYN with ACK, which no connection from before sends.
fn answers(batch: &mut Builder, chain: &str) {
    TABLE.rule(batch, chain, |list| {
        list.is_of_a_connection();
        list.is_reply();
        list.protocol_is(TCP);
        list.takes_a_connection();
        list.note_begun_outside();
        list.accept();
    });
    TABLE.rule(batch, chain, |list| {
        list.is_of_a_connection();
        list.is_reply();
        list.is_begun_outside();
        list.accept();
    });
    for (protocol, kind) in PONG {
        TABLE.rule(batch, chain, |list| {
            list.is_of_a_connection();
            list.is_reply();
            list.protocol_is(protocol);
            list.icmp_type_is(kind);
            list.accept();
        });
    }
}

/// What carries the bond, and what links need to work at all.
fn own(batch: &mut Builder) {
    TABLE.rule(batch, LEAVING, |list| {
        list.mark_is(MARK);
        list.accept();
    });
    for (ipv6, from, to) in DHCP {
        TABLE.rule(batch, LEAVING, |list| {
            list.is_ipv6(ipv6);
            list.protocol_is(UDP);
            list.source_port_is(from);
            list.target_port_is(to);
            list.accept();
        });
    }
    for kind in NEIGHBOURS {
        TABLE.rule(batch, LEAVING, |list| {
            list.is_ipv6(true);
            list.protocol_is(ICMPV6);
            list.icmp_type_is(kind);
            list.accept();
        });
    }
}

/// Links that are open for a while, by IPv4.
fn portals(batch: &mut Builder) {
    for port in HTTP {
        TABLE.rule(batch, LEAVING, |list| {
            list.is_ipv6(false);
            list.protocol_is(TCP);
            list.target_port_is(port);
            list.link_is_in(PORTAL, true);
            list.accept();
        });
    }
    for protocol in [TCP, UDP] {
        TABLE.rule(batch, LEAVING, |list| {
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
            running: true,
            loopback,
            ethernet: true,
            master: None,
        };
        let links = [link(1, "lo", true), link(2, "wlan0", false)];
        let address = |link, address: &str, length| Address {
            lasts: true,
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

    const ANEW: Writer = Writer::new("another");

    /// How many packets have left by a link.
    fn left_by(link: &str) -> u64 {
        let all = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        let line = all.lines().find_map(|line| line.trim().strip_prefix(&format!("{link}:")));
        line.unwrap().split_whitespace().nth(9).unwrap().parse().unwrap()
    }

    /// Whether to go on: in a network namespace of its own, in which the test is started once more.
    fn is_inside(name: &str) -> bool {
        const INSIDE: &str = "WEFTLINE_TEST_INSIDE";
        if std::env::var_os(INSIDE).is_some() {
            return true;
        }
        // What hangs there ends, and says so.
        let mut again = std::process::Command::new("timeout");
        again.args(["400", "unshare", "--net"]).arg(std::env::current_exe().unwrap());
        again.args(["--exact", name]);
        let output = again.args(["--nocapture"]).env(INSIDE, "1").output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let error = String::from_utf8_lossy(&output.stderr);
        if error.contains("unshare failed") {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            eprintln!("skipped: {error}; run 'sudo -E cargo test -p weftline-net'");
            return false;
        }
        let status = output.status;
        assert!(status.success() && said.contains("1 passed"), "{status}: {said}\n{error}");
        false
    }

    fn ip(args: &str) {
        let output = std::process::Command::new("ip").args(args.split(' ')).output().unwrap();
        assert!(output.status.success(), "ip {args}: {output:?}");
    }

    /// As a split tunnel of somebody else's does: rules of it mark a packet that was routed to our device, and by
    /// the mark it is routed anew.
    #[test]
    fn a_packet_is_looked_at_where_it_leaves() {
        const NAME: &str = "kill_switch::tests::a_packet_is_looked_at_where_it_leaves";
        if !is_inside(NAME) {
            return;
        }
        for (link, address) in [("weft0", "10.87.0.2/24"), ("out0", "192.0.2.1/24")] {
            ip(&format!("link add {link} type veth peer name {link}.far"));
            ip(&format!("link set {link}.far addrgenmode none up"));
            ip(&format!("link set {link} addrgenmode none up"));
            ip(&format!("addr add {address} dev {link}"));
        }
        ip("link set lo up");
        // Neighbours that need not be looked for.
        for link in ["weft0", "out0"] {
            ip(&format!("link set {link} arp off"));
        }
        ip("route add default dev weft0");
        ip("route add default dev out0 table 100");
        ip("rule add fwmark 7 table 100");
        let switch = KillSwitch::connect().unwrap();
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        ANEW.make_lasting(&mut batch);
        ANEW.chain(&mut batch, "output", "route", OUTPUT, -150);
        ANEW.rule(&mut batch, "output", |list| list.set_mark_bits(u32::MAX, 7));
        batch_end(&mut batch);
        switch.socket.request(batch).unwrap();
        let send = || {
            let socket = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.send_to(b"x", "198.51.100.7:9").map(|_| left_by("out0"))
        };
        let before = send().unwrap();
        assert!(before > 0, "it is routed anew");
        switch.close("weft0", &Inside::default(), &[]).unwrap();
        let refused = send().unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied, "its program is told");
        assert_eq!(left_by("out0"), before);
        assert!(KillSwitch::is_closed().unwrap());
        // Somebody empties a chain.
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        TABLE.empty(&mut batch, "postrouting");
        batch_end(&mut batch);
        switch.socket.request(batch).unwrap();
        assert!(!KillSwitch::is_closed().unwrap() && KillSwitch::is_wanted().unwrap());
        assert!(KillSwitch::open().unwrap());
        assert!(!KillSwitch::open().unwrap() && !KillSwitch::is_wanted().unwrap());
    }
}
