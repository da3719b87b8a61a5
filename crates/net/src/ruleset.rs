//! What tables of nf_tables there are, and what is in them (linux/netfilter/nf_tables.h).

use std::io;

use rustix::net::netlink;

use crate::message::{attributes, text, u32_at};
use crate::nft::{DORMANT, GET_RULE, GET_TABLE, INET, SUBSYSTEM, UNSPECIFIED, header};
use crate::socket::Netlink;

/// The names of all tables of this network namespace.
///
/// # Errors
/// When the kernel has no nf_tables, or does not let us ask.
pub fn tables() -> io::Result<Vec<String>> {
    let socket = Netlink::open(Some(netlink::NETFILTER))?;
    socket.list(SUBSYSTEM << 8 | GET_TABLE, &header(UNSPECIFIED, 0), |payload| {
        let mut parts = attributes(payload.get(4..)?);
        parts.find(|(kind, _)| *kind == 1).map(|(_, value)| text(value))
    })
}

/// Whether there is a table of this name for IPv4 and IPv6 together, and whether it does anything.
pub(crate) fn is_awake(name: &str) -> io::Result<Option<bool>> {
    let socket = Netlink::open(Some(netlink::NETFILTER))?;
    let found = socket.list(SUBSYSTEM << 8 | GET_TABLE, &header(INET, 0), |payload| {
        let (mut is_it, mut flags) = (payload.first() == Some(&INET), 0);
        for (kind, value) in attributes(payload.get(4..).unwrap_or_default()) {
            match kind {
                1 => is_it &= text(value) == name,
                2 => flags = u32_at(value, 0).map_or(0, u32::from_be),
                _ => {}
            }
        }
        is_it.then_some(flags & DORMANT == 0)
    })?;
    Ok(found.last().copied())
}

/// The chains of its rules, one for each rule.
pub(crate) fn chains_of_rules(name: &str) -> io::Result<Vec<String>> {
    let socket = Netlink::open(Some(netlink::NETFILTER))?;
    // A list of this table's alone: that of a firewall may be long.
    let length = u16::try_from(4 + name.len() + 1).expect("a name of ours");
    let mut asked = header(INET, 0).to_vec();
    asked.extend([length.to_ne_bytes(), 1_u16.to_ne_bytes()].concat());
    asked.extend_from_slice(name.as_bytes());
    asked.resize((asked.len() + 1).next_multiple_of(4), 0);
    socket.list(SUBSYSTEM << 8 | GET_RULE, &asked, |payload| {
        let (mut is_it, mut chain) = (false, None);
        for (kind, value) in attributes(payload.get(4..).unwrap_or_default()) {
            match kind {
                1 => is_it = text(value) == name,
                2 => chain = Some(text(value)),
                _ => {}
            }
        }
        chain.filter(|_| is_it)
    })
}
