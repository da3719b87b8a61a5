//! What the firewalls of others do with the packets that this machine forwards, or that are for it
//! (linux/netfilter/nf_tables.h).

use std::io;

use rustix::net::netlink;

use crate::message::{attributes, text, u32_at};
use crate::nft::{
    FORWARD, GET_CHAIN, GET_RULE, INET, INPUT, IPV4, IPV6, SUBSYSTEM, UNSPECIFIED, header,
};
use crate::socket::Netlink;

/// What becomes of packets that no rule of a chain has taken: nothing (NF_DROP).
const DROPS: u32 = 0;
/// Families whose packets are routed: both, IPv4, IPv6. In others the hooks of those numbers are other ones.
const ROUTED: [u8; 3] = [INET, IPV4, IPV6];

/// A chain of whoever else that drops what this machine forwards and no rule lets through, as `TABLE, chain
/// CHAIN`, if there is one: no rule has a device of this name in it. It is said by the chain's policy alone; rules
/// that drop are not looked for. Chains of IPv6 alone count with `ipv6`.
///
/// # Errors
/// When the kernel has no nf_tables, or does not let us ask.
pub fn forbids_forwarding(device: &str, ipv6: bool) -> io::Result<Option<String>> {
    forbids(FORWARD, device, ipv6)
}

/// The same of what is for this machine itself.
///
/// # Errors
/// When the kernel has no nf_tables, or does not let us ask.
pub fn forbids_input(device: &str, ipv6: bool) -> io::Result<Option<String>> {
    forbids(INPUT, device, ipv6)
}

fn forbids(at: u32, device: &str, ipv6: bool) -> io::Result<Option<String>> {
    let socket = Netlink::open(Some(netlink::NETFILTER))?;
    let everywhere = header(UNSPECIFIED, 0);
    let dropping = socket.list(SUBSYSTEM << 8 | GET_CHAIN, &everywhere, |payload| {
        let family = *payload.first()?;
        let (mut table, mut chain, mut hook, mut policy) = (None, None, None, None);
        for (kind, value) in attributes(payload.get(4..)?) {
            match kind {
                1 => table = Some(text(value)),
                3 => chain = Some(text(value)),
                4 => hook = attributes(value).find(|(kind, _)| *kind == 1).map(|(_, hook)| hook),
                5 => policy = Some(value),
                _ => {}
            }
        }
        let number =
            |value: Option<&[u8]>| value.and_then(|value| u32_at(value, 0)).map(u32::from_be);
        let drops = number(hook) == Some(at) && number(policy) == Some(DROPS);
        let is_routed = ROUTED.contains(&family) && (ipv6 || family != IPV6);
        (drops && is_routed).then_some((family, table?, chain?))
    })?;
    if dropping.is_empty() {
        return Ok(None);
    }
    let let_through = socket.list(SUBSYSTEM << 8 | GET_RULE, &everywhere, |payload| {
        let name = device.as_bytes();
        payload.windows(name.len()).any(|part| part == name).then_some(())?;
        let table = attributes(payload.get(4..)?).find(|(kind, _)| *kind == 1)?;
        Some((*payload.first()?, text(table.1)))
    })?;
    let is_closed = |(family, table, _): &&(u8, String, String)| {
        !let_through.iter().any(|(other, of)| (other, of) == (family, table))
    };
    let closed = dropping.iter().find(is_closed);
    Ok(closed.map(|(family, table, chain)| {
        let of = if *family == IPV6 { " of IPv6" } else { "" };
        format!("table '{table}', chain '{chain}'{of}")
    }))
}
