//! The nf_tables table of a server that forwards the packets of its clients: where they may go, and in
//! whose name. It belongs to our socket, as the table of the capture does.

use std::io;
use std::net::IpAddr;

use rustix::net::netlink;

use crate::message::Builder;
use crate::nft::{
    FORWARD, IN_NAME, INPUT, OUT_NAME, POSTROUTING, SOURCE_NAT, Writer, batch_begin, batch_end,
};
use crate::socket::Netlink;

/// The table's name.
const NAME: &str = "weftline_exit";
/// The usual priority of filters.
const FILTER: i32 = 0;

/// Where packets from a device may go.
#[derive(Clone, Debug)]
pub(crate) struct Gate<'a> {
    pub(crate) device: &'a str,
    pub(crate) allowed: &'a [(IpAddr, u8)],
    pub(crate) closed: &'a [(IpAddr, u8)],
}

/// The table; it is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct ExitTable {
    _socket: Netlink,
}

impl ExitTable {
    /// Makes it, in one transaction.
    ///
    /// # Errors
    /// The kernel's refusal.
    pub(crate) fn create(gate: &Gate<'_>) -> io::Result<Self> {
        let socket = Netlink::open(Some(netlink::NETFILTER))?;
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        let table = Writer::new(NAME);
        table.make(&mut batch);
        table.chain(&mut batch, "forward", "filter", FORWARD, FILTER);
        forwarding(&mut batch, table, gate);
        // Clients reach nothing of this machine itself.
        table.chain(&mut batch, "input", "filter", INPUT, FILTER);
        table.rule(&mut batch, "input", |list| {
            list.name_is(IN_NAME, gate.device);
            list.drop();
        });
        table.chain(&mut batch, "postrouting", "nat", POSTROUTING, SOURCE_NAT);
        table.rule(&mut batch, "postrouting", |list| {
            list.name_is(IN_NAME, gate.device);
            list.masquerade();
        });
        batch_end(&mut batch);
        socket.request(batch)?;
        Ok(Self { _socket: socket })
    }
}

fn forwarding(batch: &mut Builder, table: Writer, gate: &Gate<'_>) {
    // No client reaches another one, and TCP has its own way.
    table.rule(batch, "forward", |list| {
        list.name_is(IN_NAME, gate.device);
        list.name_is(OUT_NAME, gate.device);
        list.drop();
    });
    table.rule(batch, "forward", |list| {
        list.name_is(IN_NAME, gate.device);
        list.is_tcp();
        list.drop();
    });
    // Nobody begins to speak to a client.
    table.rule(batch, "forward", |list| {
        list.name_is(OUT_NAME, gate.device);
        list.is_of_no_connection();
        list.drop();
    });
    for &(address, length) in gate.allowed {
        table.rule(batch, "forward", |list| {
            list.name_is(IN_NAME, gate.device);
            list.target_is_in(address, length);
            list.accept();
        });
    }
    for &(address, length) in gate.closed {
        table.rule(batch, "forward", |list| {
            list.name_is(IN_NAME, gate.device);
            list.target_is_in(address, length);
            list.drop();
        });
    }
}
