//! Links, addresses, routes and rules (rtnetlink(7)).

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::link_name::LinkName;
use crate::message::{ACK, Builder, CREATE, EXCL, attributes, text, u16_at, u32_at};
use crate::socket::Netlink;

/// Types of messages (linux/rtnetlink.h).
const NEW_LINK: u16 = 16;
const GET_LINK: u16 = 18;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
const GET_ADDRESS: u16 = 22;
const NEW_ROUTE: u16 = 24;
const DELETE_ROUTE: u16 = 25;
const GET_ROUTE: u16 = 26;
const NEW_RULE: u16 = 32;
const DELETE_RULE: u16 = 33;
const GET_RULE: u16 = 34;
/// Address families.
const INET: u8 = 2;
const INET6: u8 = 10;
/// The table of ordinary routes, and where the number of a table stands in an attribute.
pub(crate) const MAIN: u32 = 254;
const TABLE_ELSEWHERE: u8 = 0;
/// A route's type: to a neighbour or gateway.
const UNICAST: u8 = 1;
/// A route's scope: of this link, of all there is, or whatever it is.
const SCOPE_LINK: u8 = 253;
const SCOPE_ALL: u8 = 0;
const SCOPE_NOWHERE: u8 = 255;
/// The origin of our routes, a number of our own (linux/rtnetlink.h leaves those from 5 on free).
const ROUTE_ORIGIN: u8 = 0x57;
/// The origin of our rules: the kernel's, which systemd-networkd spares when it removes what it does
/// not know.
const RULE_ORIGIN: u8 = 2;
/// What rules do (linux/fib_rules.h, `FR_ACT_*`).
const TO_TABLE: u8 = 1;
const GOTO: u8 = 2;
const NOTHING: u8 = 3;
const UNREACHABLE: u8 = 7;
/// Flags of a link (linux/if.h).
const UP: u32 = 1;
/// `IFF_RUNNING`: up, and with a carrier.
const RUNNING: u32 = 1 << 6;
const LOOPBACK: u32 = 8;
/// A link's type (linux/if_arp.h, `ARPHRD_ETHER`).
const ETHERNET: u16 = 1;
/// The protocol number of TCP.
pub(crate) const TCP: u8 = 6;
/// The interface that packets of this machine's own programs come by.
const LOCAL: &str = "lo";
/// Addresses of IPv6 that go out of use, or are of no use: temporary, and those that another machine has
/// (linux/if_addr.h).
const PASSING: u32 = 0x01 | 0x08;
/// An IPv6 address that is used without a search for duplicates.
const NO_DAD: u8 = 2;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its number.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// What it is, such as `tun`, `veth` or `wireguard`; empty for hardware.
    pub kind: String,
    /// Whether it is set up.
    pub up: bool,
    /// Whether it has a carrier besides: a cable that is plugged in, a radio that is registered.
    pub running: bool,
    /// Whether it is the loopback device.
    pub loopback: bool,
    /// Whether it carries frames of Ethernet, as a card or a `tap` does, and no bare packets.
    pub ethernet: bool,
    /// The number of the bridge, or of what else joins several to one, whose port it is.
    pub master: Option<u32>,
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// The interface's number.
    pub link: u32,
    /// The address.
    pub address: IpAddr,
    /// The length of its network, in bits.
    pub length: u8,
    /// Whether others may be told of it: it is not one of IPv6 that is used for some hours, for the privacy of
    /// who uses it, nor one that another machine has.
    pub lasts: bool,
}

/// A route to a neighbour or gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The network it leads to.
    pub destination: IpAddr,
    /// That network's length, in bits; 0 for a default route.
    pub length: u8,
    /// The interface's number; none where the kernel names none. A route of several next hops is as many
    /// routes here.
    pub link: Option<u32>,
    /// The router, if it leads to one.
    pub gateway: Option<IpAddr>,
    /// The routing table.
    pub table: u32,
    /// The metric: less comes first.
    pub metric: u32,
}

/// What a rule does with what it holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleAction {
    /// It asks this table.
    Lookup(u32),
    /// It asks this table, and takes no route from it whose network is this long or shorter.
    LookupLonger(u32, u32),
    /// It goes on with the rule of this priority, or does nothing if there is none.
    Goto(u32),
    /// It does nothing: another leads to it.
    Nothing,
    /// It says that there is no way. No rule is made so any more; one may be left by an earlier version.
    Unreachable,
}

/// Where packets come from that a rule holds for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// From anywhere.
    Any,
    /// From this machine's own programs.
    Local,
    /// From outside, by this interface.
    Link(LinkName),
}

/// A rule: which table is asked for the way of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Whether it is of IPv6.
    pub ipv6: bool,
    /// Its place: less is asked first.
    pub priority: u32,
    /// It holds for packets that come from here only.
    pub input: Input,
    /// It holds for packets only that have all bits of this mark.
    pub mark: Option<u32>,
    /// It holds for packets of this IP protocol only, such as 6 for TCP.
    pub protocol: Option<u8>,
    /// It holds for packets from this network only.
    pub from: Option<(IpAddr, u8)>,
    /// It holds for packets to this network only.
    pub to: Option<(IpAddr, u8)>,
    /// It holds for packets to this port only.
    pub port: Option<u16>,
    /// It holds for packets of this user only.
    pub user: Option<u32>,
    /// What it does.
    pub action: RuleAction,
}

impl Rule {
    /// A rule for all TCP packets of this machine.
    pub(crate) const fn new(ipv6: bool, priority: u32, action: RuleAction) -> Self {
        Self {
            ipv6,
            priority,
            input: Input::Local,
            mark: None,
            protocol: Some(TCP),
            from: None,
            to: None,
            port: None,
            user: None,
            action,
        }
    }
}

/// The kernel's routing tables and what belongs to them.
#[derive(Debug)]
pub struct Routes(Netlink);

impl Routes {
    /// Opens a socket to the kernel.
    ///
    /// # Errors
    /// When the system does not let us.
    pub fn open() -> io::Result<Self> {
        Netlink::open(None).map(Self)
    }

    /// All interfaces.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn links(&self) -> io::Result<Vec<Link>> {
        self.0.list(GET_LINK, &[0; 16], parse_link)
    }

    /// All addresses of interfaces.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn addresses(&self) -> io::Result<Vec<Address>> {
        self.0.list(GET_ADDRESS, &[0; 8], parse_address)
    }

    /// The routes of both families that `wanted` chooses: a router may have a million.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn routes(&self, wanted: impl Fn(&Route) -> bool) -> io::Result<Vec<Route>> {
        let mut found = Vec::new();
        for family in [INET, INET6] {
            let mut header = [0; 12];
            header[0] = family;
            let parse = |payload: &[u8]| {
                let mut routes = parse_routes(payload);
                routes.retain(&wanted);
                (!routes.is_empty()).then_some(routes)
            };
            let routes = list_if_known(self.0.list(GET_ROUTE, &header, parse))?;
            found.extend(routes.into_iter().flatten());
        }
        Ok(found)
    }

    /// The default routes of the main table, those of the least metric first.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn defaults(&self) -> io::Result<Vec<Route>> {
        let mut found = self.routes(|route| route.length == 0 && route.table == MAIN)?;
        found.sort_by_key(|route| route.metric);
        Ok(found)
    }

    /// The rules that are like those that can be made here, of both families; others are left out.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub fn rules(&self) -> io::Result<Vec<Rule>> {
        let mut found = Vec::new();
        for family in [INET, INET6] {
            let mut header = [0; 12];
            header[0] = family;
            found.extend(list_if_known(self.0.list(GET_RULE, &header, parse_rule))?);
        }
        Ok(found)
    }

    /// Adds a rule.
    ///
    /// # Errors
    /// The kernel's refusal; one that is there already is none.
    pub fn add_rule(&self, rule: &Rule) -> io::Result<()> {
        match self.rule(NEW_RULE, CREATE | EXCL, rule) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    /// Deletes a rule.
    ///
    /// # Errors
    /// The kernel's refusal; one that is not there is none.
    pub fn delete_rule(&self, rule: &Rule) -> io::Result<()> {
        match self.rule(DELETE_RULE, 0, rule) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    fn rule(&self, kind: u16, flags: u16, rule: &Rule) -> io::Result<()> {
        let mut request = Builder::default();
        write_rule(&mut request, kind, flags, rule);
        self.0.request(request)
    }

    /// Gives an interface a host's address.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn add_address(&self, link: u32, address: IpAddr) -> io::Result<()> {
        self.address(NEW_ADDRESS, CREATE | EXCL, link, address)
    }

    /// Takes a host's address from an interface.
    ///
    /// # Errors
    /// The kernel's refusal; one that it does not have is none.
    pub(crate) fn delete_address(&self, link: u32, address: IpAddr) -> io::Result<()> {
        match self.address(DELETE_ADDRESS, 0, link, address) {
            Err(error) if error.kind() == io::ErrorKind::AddrNotAvailable => Ok(()),
            result => result,
        }
    }

    fn address(&self, kind: u16, flags: u16, link: u32, address: IpAddr) -> io::Result<()> {
        let (family, length, bytes) = parts(address);
        let mut header = [0; 8];
        header[..3].copy_from_slice(&[family, length, if family == INET6 { NO_DAD } else { 0 }]);
        header[4..].copy_from_slice(&link.to_ne_bytes());
        let mut request = Builder::default();
        let message = request.message(kind, ACK | flags, &header);
        // Local address, and the peer's, which is the same here.
        message.attribute(2, &bytes).attribute(1, &bytes);
        self.0.request(request)
    }

    /// Sets an interface up.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn set_up(&self, link: u32) -> io::Result<()> {
        let mut header = [0; 16];
        header[4..8].copy_from_slice(&link.to_ne_bytes());
        header[8..12].copy_from_slice(&UP.to_ne_bytes());
        header[12..].copy_from_slice(&UP.to_ne_bytes());
        let mut request = Builder::default();
        request.message(NEW_LINK, ACK, &header);
        self.0.request(request)
    }

    /// Adds a default route through an interface to a table.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn add_default(&self, ipv6: bool, link: u32, table: u32) -> io::Result<()> {
        let family = if ipv6 { INET6 } else { INET };
        self.route(NEW_ROUTE, CREATE | EXCL, (family, None), (link, None), table)
    }

    /// Adds a default route of IPv4 by a router on a link, or by the link alone, to a table.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn add_default_by(
        &self,
        gateway: Option<IpAddr>,
        link: u32,
        table: u32,
    ) -> io::Result<()> {
        self.route(NEW_ROUTE, CREATE | EXCL, (INET, None), (link, gateway), table)
    }

    /// Deletes a default route of IPv4 from a table.
    ///
    /// # Errors
    /// The kernel's refusal; one that is not there is none.
    pub(crate) fn delete_default(&self, link: Option<u32>, table: u32) -> io::Result<()> {
        let Some(link) = link else { return Ok(()) };
        let header = [INET, 0, 0, 0, TABLE_ELSEWHERE, 0, SCOPE_NOWHERE, 0, 0, 0, 0, 0];
        let mut request = Builder::default();
        let message = request.message(DELETE_ROUTE, ACK, &header);
        message.attribute(4, &link.to_ne_bytes()).attribute(15, &table.to_ne_bytes());
        unless_gone(self.0.request(request))
    }

    /// Adds a route to a host through an interface to the main table.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn add_host(&self, address: IpAddr, link: u32) -> io::Result<()> {
        self.route(
            NEW_ROUTE,
            CREATE | EXCL,
            (family_of(address), Some(address)),
            (link, None),
            MAIN,
        )
    }

    /// Deletes such a route.
    ///
    /// # Errors
    /// The kernel's refusal; one that is not there is none.
    pub(crate) fn delete_host(&self, address: IpAddr, link: u32) -> io::Result<()> {
        let to = (family_of(address), Some(address));
        unless_gone(self.route(DELETE_ROUTE, 0, to, (link, None), MAIN))
    }

    fn route(
        &self,
        kind: u16,
        flags: u16,
        (family, to): (u8, Option<IpAddr>),
        (link, gateway): (u32, Option<IpAddr>),
        table: u32,
    ) -> io::Result<()> {
        let parts = to.map(parts);
        let length = parts.as_ref().map_or(0, |(_, length, _)| *length);
        let scope = if gateway.is_some() { SCOPE_ALL } else { SCOPE_LINK };
        let header = [family, length, 0, 0, TABLE_ELSEWHERE, ROUTE_ORIGIN, scope, UNICAST];
        let header = [&header[..], &[0; 4]].concat();
        let mut request = Builder::default();
        let message = request.message(kind, ACK | flags, &header);
        message.attribute(4, &link.to_ne_bytes()).attribute(15, &table.to_ne_bytes());
        if let Some((_, _, bytes)) = &parts {
            message.attribute(1, bytes);
        }
        if let Some(gateway) = gateway {
            message.attribute(5, &self::parts(gateway).2);
        }
        self.0.request(request)
    }
}

/// A route that is not there need not be deleted.
fn unless_gone(result: io::Result<()>) -> io::Result<()> {
    let gone = Some(rustix::io::Errno::SRCH.raw_os_error());
    result.or_else(|error| if error.raw_os_error() == gone { Ok(()) } else { Err(error) })
}

/// A family that this kernel does not have has nothing in its lists.
fn list_if_known<T>(result: io::Result<Vec<T>>) -> io::Result<Vec<T>> {
    result.or_else(|error| {
        let unknown = [rustix::io::Errno::AFNOSUPPORT, rustix::io::Errno::OPNOTSUPP];
        let code = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
        if code.is_some_and(|code| unknown.contains(&code)) { Ok(Vec::new()) } else { Err(error) }
    })
}

fn family_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { INET } else { INET6 }
}

/// Family, length in bits and bytes of an address.
fn parts(address: IpAddr) -> (u8, u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (INET, 32, address.octets().to_vec()),
        IpAddr::V6(address) => (INET6, 128, address.octets().to_vec()),
    }
}

fn address_of(value: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    <[u8; 16]>::try_from(value).ok().map(|bytes| Ipv6Addr::from(bytes).into())
}

fn write_rule(request: &mut Builder, kind: u16, flags: u16, rule: &Rule) {
    let family = if rule.ipv6 { INET6 } else { INET };
    let length = |network: Option<(IpAddr, u8)>| network.map_or(0, |(_, length)| length);
    let (to_length, from_length) = (length(rule.to), length(rule.from));
    let action = match rule.action {
        RuleAction::Lookup(_) | RuleAction::LookupLonger(..) => TO_TABLE,
        RuleAction::Goto(_) => GOTO,
        RuleAction::Nothing => NOTHING,
        RuleAction::Unreachable => UNREACHABLE,
    };
    let header = [family, to_length, from_length, 0, TABLE_ELSEWHERE, 0, 0, action, 0, 0, 0, 0];
    let message = request.message(kind, ACK | flags, &header);
    message.attribute(6, &rule.priority.to_ne_bytes());
    message.attribute(21, &[RULE_ORIGIN]);
    if let Some(protocol) = rule.protocol {
        message.attribute(22, &[protocol]);
    }
    if let Some((address, _)) = rule.to {
        message.attribute(1, &parts(address).2);
    }
    if let Some((address, _)) = rule.from {
        message.attribute(2, &parts(address).2);
    }
    // Each a range, from the first to the last.
    if let Some(user) = rule.user {
        message.attribute(20, &[user.to_ne_bytes(); 2].concat());
    }
    if let Some(port) = rule.port {
        message.attribute(24, &[port.to_ne_bytes(); 2].concat());
    }
    match rule.input {
        Input::Any => {}
        Input::Local => {
            message.text(3, LOCAL);
        }
        Input::Link(name) => {
            message.text(3, name.as_str());
        }
    }
    if let Some(mark) = rule.mark {
        // The mark, and which bits of it count.
        message.attribute(10, &mark.to_ne_bytes()).attribute(16, &mark.to_ne_bytes());
    }
    match rule.action {
        RuleAction::Lookup(table) => {
            message.attribute(15, &table.to_ne_bytes());
        }
        RuleAction::LookupLonger(table, length) => {
            message.attribute(15, &table.to_ne_bytes()).attribute(14, &length.to_ne_bytes());
        }
        RuleAction::Goto(priority) => {
            message.attribute(4, &priority.to_ne_bytes());
        }
        RuleAction::Nothing | RuleAction::Unreachable => {}
    }
}

fn parse_link(payload: &[u8]) -> Option<Link> {
    let flags = u32_at(payload, 8)?;
    let mut link = Link {
        index: u32_at(payload, 4)?,
        name: String::new(),
        kind: String::new(),
        up: flags & UP != 0,
        running: flags & RUNNING != 0,
        loopback: flags & LOOPBACK != 0,
        ethernet: u16_at(payload, 2)? == ETHERNET,
        master: None,
    };
    for (kind, value) in attributes(payload.get(16..)?) {
        match kind {
            3 => link.name = text(value),
            10 => link.master = u32_at(value, 0),
            18 => {
                let named = attributes(value).find(|(kind, _)| *kind == 1);
                link.kind = named.map(|(_, value)| text(value)).unwrap_or_default();
            }
            _ => {}
        }
    }
    (!link.name.is_empty()).then_some(link)
}

fn parse_address(payload: &[u8]) -> Option<Address> {
    let (length, link) = (*payload.get(1)?, u32_at(payload, 4)?);
    let (mut local, mut peer, mut flags) = (None, None, u32::from(*payload.get(2)?));
    for (kind, value) in attributes(payload.get(8..)?) {
        match kind {
            1 => peer = address_of(value),
            2 => local = address_of(value),
            8 => flags = u32_at(value, 0)?,
            _ => {}
        }
    }
    // Of a link between two, the local address is ours; IPv6 has the one only.
    let address = local.or(peer)?;
    // The same bits say other things of IPv4.
    let lasts = address.is_ipv4() || flags & PASSING == 0;
    Some(Address { link, address, length, lasts })
}

fn parse_routes(payload: &[u8]) -> Vec<Route> {
    let Some((route, hops)) = parse_route(payload) else { return Vec::new() };
    if hops.is_empty() {
        return vec![route];
    }
    next_hops(hops).map(|(link, gateway)| Route { link: Some(link), gateway, ..route }).collect()
}

/// The interfaces and routers of a route of several next hops (rtnexthop of linux/rtnetlink.h).
fn next_hops(mut hops: &[u8]) -> impl Iterator<Item = (u32, Option<IpAddr>)> + '_ {
    const HEADER: usize = 8;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(hops, 0)?);
        let link = u32_at(hops, 4)?;
        let gateway = attributes(hops.get(HEADER..length)?).find(|(kind, _)| *kind == 5);
        let gateway = gateway.and_then(|(_, value)| address_of(value));
        hops = hops.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((link, gateway))
    })
}

/// A route, and its next hops if there are several.
fn parse_route(payload: &[u8]) -> Option<(Route, &[u8])> {
    let [family, length, _, _, table, _, _, UNICAST, ..] = *payload else { return None };
    let destination = match family {
        INET => Ipv4Addr::UNSPECIFIED.into(),
        INET6 => Ipv6Addr::UNSPECIFIED.into(),
        _ => return None,
    };
    let (link, gateway, table) = (None, None, table.into());
    let mut route = Route { destination, length, link, gateway, table, metric: 0 };
    let mut hops = &[][..];
    for (kind, value) in attributes(payload.get(12..)?) {
        match kind {
            1 => route.destination = address_of(value)?,
            4 => route.link = u32_at(value, 0),
            5 => route.gateway = address_of(value),
            6 => route.metric = u32_at(value, 0)?,
            9 => hops = value,
            15 => route.table = u32_at(value, 0)?,
            _ => {}
        }
    }
    Some((route, hops))
}

fn parse_rule(payload: &[u8]) -> Option<Rule> {
    let [family, to_length, from_length, _, table, _, _, action, ..] = *payload else {
        return None;
    };
    let (mut table, mut longer, mut goto, mut is_kernels) = (u32::from(table), None, None, false);
    let mut rule = Rule::new(family == INET6, 0, RuleAction::Unreachable);
    (rule.input, rule.protocol) = (Input::Any, None);
    let mut bits = None;
    for (kind, value) in attributes(payload.get(12..)?) {
        match kind {
            1 => rule.to = Some((address_of(value)?, to_length)),
            2 => rule.from = Some((address_of(value)?, from_length)),
            3 => rule.input = input_of(&text(value))?,
            4 => goto = u32_at(value, 0),
            6 => rule.priority = u32_at(value, 0)?,
            // "None" is written as minus one.
            14 => longer = u32_at(value, 0).filter(|&length| length != u32::MAX),
            15 => table = u32_at(value, 0)?,
            20 => rule.user = Some(u32_at(value, 0).filter(|&one| u32_at(value, 4) == Some(one))?),
            21 => is_kernels = value == [RULE_ORIGIN],
            22 => rule.protocol = Some(*value.first()?),
            10 => rule.mark = Some(u32_at(value, 0)?),
            16 => bits = Some(u32_at(value, 0)?),
            // Those of the way out and the port of origin are of no rule made here.
            17 | 23 => return None,
            24 => rule.port = Some(u16_at(value, 0).filter(|&one| u16_at(value, 2) == Some(one))?),
            _ => {}
        }
    }
    rule.action = match (action, longer) {
        (TO_TABLE, None) => RuleAction::Lookup(table),
        (TO_TABLE, Some(length)) => RuleAction::LookupLonger(table, length),
        (GOTO, _) => RuleAction::Goto(goto?),
        (NOTHING, _) => RuleAction::Nothing,
        (UNREACHABLE, _) => RuleAction::Unreachable,
        _ => return None,
    };
    // Of ours a mark is all bits that count.
    if rule.mark.unwrap_or(0) != bits.unwrap_or(0) {
        return None;
    }
    // Others may have rules for all packets where ours stand.
    (rule.protocol.is_some() || is_kernels).then_some(rule)
}

fn input_of(name: &str) -> Option<Input> {
    if name == LOCAL { Some(Input::Local) } else { name.parse().ok().map(Input::Link) }
}

/// Feeds all parsers.
pub(crate) fn parse_anything(payload: &[u8]) {
    let _ = (parse_link(payload), parse_address(payload));
    let _ = (parse_routes(payload), parse_rule(payload));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::messages;
    use proptest::prelude::*;

    #[test]
    fn rules_are_read_as_written() {
        let bases: [(IpAddr, u8); 2] =
            [("8000::".parse().unwrap(), 1), ("fd57::2".parse().unwrap(), 128)];
        let rule = |from, is_local, action| {
            let input = if is_local { Input::Local } else { Input::Any };
            Rule { from, input, ..Rule::new(true, 5281, action) }
        };
        let whole = rule(None, true, RuleAction::Lookup(MAIN));
        for rule in [
            rule(Some(bases[0]), true, RuleAction::Lookup(MAIN)),
            rule(Some(bases[1]), false, RuleAction::Lookup(30565)),
            rule(None, false, RuleAction::LookupLonger(MAIN, 0)),
            rule(None, true, RuleAction::Unreachable),
            rule(Some(bases[0]), true, RuleAction::Goto(5285)),
            rule(None, true, RuleAction::Nothing),
            Rule { to: Some(bases[0]), ..whole },
            Rule { port: Some(8080), ..whole },
            Rule { user: Some(1000), ..whole },
            Rule { protocol: None, ..whole },
            Rule { protocol: Some(17), port: Some(53), ..whole },
            Rule { input: Input::Link("eth1".parse().unwrap()), ..whole },
            Rule { mark: Some(0x0200_0000), ..whole },
        ] {
            let mut request = Builder::default();
            write_rule(&mut request, NEW_RULE, 0, &rule);
            let (bytes, _) = request.finish(1);
            let message = messages(&bytes).next().unwrap();
            assert_eq!(parse_rule(message.payload), Some(rule));
        }
    }

    #[test]
    fn a_route_of_several_next_hops_is_as_many_routes() {
        let hop = |link: u32, gateway: &[u8]| {
            let length = 8 + if gateway.is_empty() { 0 } else { 4 + gateway.len() };
            let mut hop = u16::try_from(length).unwrap().to_ne_bytes().to_vec();
            hop.extend([0, 0]);
            hop.extend(link.to_ne_bytes());
            if !gateway.is_empty() {
                hop.extend(u16::try_from(4 + gateway.len()).unwrap().to_ne_bytes());
                hop.extend(5_u16.to_ne_bytes());
                hop.extend(gateway);
            }
            hop
        };
        let payload = |hops: &[u8]| {
            let mut request = Builder::default();
            let header = [INET, 0, 0, 0, 254, 0, 0, UNICAST, 0, 0, 0, 0];
            request.message(NEW_ROUTE, 0, &header).attribute(9, hops);
            let (bytes, _) = request.finish(1);
            messages(&bytes).next().unwrap().payload.to_vec()
        };
        let hops = [hop(2, &[192, 0, 2, 1]), hop(3, &[])].concat();
        let found: Vec<_> =
            parse_routes(&payload(&hops)).iter().map(|one| (one.link, one.gateway)).collect();
        assert_eq!(found, [(Some(2), Some([192, 0, 2, 1].into())), (Some(3), None)]);
        // What is cut short ends the list, and nothing has no end.
        for cut in 0..hops.len() {
            assert!(parse_routes(&payload(&hops[..cut])).len() <= 2);
        }
        assert!(parse_routes(&payload(&[0; 64])).is_empty());
    }

    #[test]
    fn addresses_that_pass_are_told_from_those_that_last() {
        let address = |family: u8, bytes: &[u8], flags: u32| {
            let mut request = Builder::default();
            let header = [family, 64, flags as u8, 0, 2, 0, 0, 0];
            request.message(NEW_ADDRESS, 0, &header).attribute(1, bytes);
            request.finish(1).0
        };
        let lasts =
            |bytes: Vec<u8>| parse_address(messages(&bytes).next().unwrap().payload).unwrap().lasts;
        let global = "2001:db8::1".parse::<Ipv6Addr>().unwrap().octets();
        for (flags, expected) in
            [(0x80, true), (0x40, true), (0x20, true), (0x01, false), (0x08, false)]
        {
            assert_eq!(lasts(address(INET6, &global, flags)), expected, "{flags:x}");
        }
        // A second address of IPv4 has the bit that means temporary.
        assert!(lasts(address(INET, &[192, 0, 2, 1], 0x01)));
    }

    #[test]
    fn this_machine_has_a_loopback_link() {
        let routes = Routes::open().unwrap();
        let links = routes.links().unwrap();
        assert!(links.iter().any(|link| link.loopback && link.name == "lo"), "{links:?}");
        routes.addresses().unwrap();
        routes.rules().unwrap();
        routes.defaults().unwrap();
    }

    proptest! {
        #[test]
        fn no_payload_panics(payload in proptest::collection::vec(any::<u8>(), 0..200)) {
            parse_anything(&payload);
        }
    }
}
