//! The nf_tables table of a server that forwards the packets of its clients: where they may go, and in
//! whose name. It belongs to our socket, as the table of the capture does.

use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use rustix::net::netlink;

use crate::message::Builder;
use crate::nft::{
    FORWARD, ICMP, ICMPV6, IN_NAME, INPUT, OUT_NAME, OUTPUT, POSTROUTING, SOURCE_NAT, TCP, Writer,
    batch_begin, batch_end,
};
use crate::socket::Netlink;

/// The table's name.
const NAME: &str = "weftline_exit";
/// The chain of what does not go from one other link to another.
const UNFORWARDED: &str = "unforwarded";
/// The usual priority of filters.
const FILTER: i32 = 0;
/// The ports that clients' packets leave from: those that Linux gives to programs that ask for none. A
/// client with the port of a service of this machine would get the packets of whom it has written to.
const PORTS: RangeInclusive<u16> = 32_768..=60_999;

/// Packets that only our change of the kernel's settings would have forwarded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unforwarded {
    /// Of IPv6, or of IPv4.
    pub(crate) ipv6: bool,
    /// The number of the link by which they come, which it keeps with whatever name; if none, it is any.
    pub(crate) link: Option<u32>,
}

/// Where packets from a device may go.
#[derive(Clone, Debug)]
pub(crate) struct Gate<'a> {
    pub(crate) device: &'a str,
    pub(crate) allowed: &'a [(IpAddr, u8)],
    pub(crate) closed: &'a [(IpAddr, u8)],
    /// What does not go from one other link to another.
    pub(crate) unforwarded: &'a [Unforwarded],
    /// Bridges: what they carry from port to port may come by here, too.
    pub(crate) bridges: &'a [String],
}

/// The table; it is gone when this is dropped.
#[derive(Debug)]
pub(crate) struct ExitTable {
    socket: Netlink,
    device: String,
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
        between_others(&mut batch, table, gate);
        forwarding(&mut batch, table, gate);
        // Clients reach nothing of this machine itself.
        table.chain(&mut batch, "input", "filter", INPUT, FILTER);
        table.rule(&mut batch, "input", |list| {
            list.name_is(IN_NAME, gate.device);
            list.drop();
        });
        // Nor does it begin to speak to them; errors about their packets it may send.
        table.chain(&mut batch, "output", "filter", OUTPUT, FILTER);
        table.rule(&mut batch, "output", |list| {
            list.name_is(OUT_NAME, gate.device);
            list.is_new();
            list.drop();
        });
        masquerading(&mut batch, table, gate);
        batch_end(&mut batch);
        socket.request(batch)?;
        Ok(Self { socket, device: gate.device.to_owned() })
    }

    /// Lets nothing go from these links, and from no others any more, to another one.
    ///
    /// # Errors
    /// The kernel's refusal; all is as before then.
    pub(crate) fn set_unforwarded(&self, all: &[Unforwarded]) -> io::Result<()> {
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        Writer::new(NAME).empty(&mut batch, UNFORWARDED);
        for one in all {
            unforwarded_rule(&mut batch, Writer::new(NAME), &self.device, one);
        }
        batch_end(&mut batch);
        self.socket.request(batch)
    }
}

/// A machine that has not been a router is none now, but for clients.
fn between_others(batch: &mut Builder, table: Writer, gate: &Gate<'_>) {
    table.inner_chain(batch, UNFORWARDED);
    // Also where all is forwarded: something may not be later, by IPv6 that comes then.
    for bridge in gate.bridges {
        table.rule(batch, "forward", |list| {
            list.name_is(IN_NAME, bridge);
            list.name_is(OUT_NAME, bridge);
            list.accept();
        });
    }
    for one in gate.unforwarded {
        unforwarded_rule(batch, table, gate.device, one);
    }
    table.rule(batch, "forward", |list| list.jump(UNFORWARDED));
}

fn unforwarded_rule(batch: &mut Builder, table: Writer, device: &str, one: &Unforwarded) {
    table.rule(batch, UNFORWARDED, |list| {
        list.is_ipv6(one.ipv6);
        match one.link {
            Some(link) => list.came_by(link),
            None => list.name_is_not(IN_NAME, device),
        }
        list.name_is_not(OUT_NAME, device);
        // Answers go where somebody else lets the kernel forward what asks.
        list.is_of_no_connection();
        list.drop();
    });
}

fn masquerading(batch: &mut Builder, table: Writer, gate: &Gate<'_>) {
    table.chain(batch, "postrouting", "nat", POSTROUTING, SOURCE_NAT);
    // What stands for a port here is chosen by whoever asks, and nothing of this machine waits for it.
    for protocol in [ICMP, ICMPV6] {
        table.rule(batch, "postrouting", |list| {
            list.name_is(IN_NAME, gate.device);
            list.protocol_is(protocol);
            list.masquerade();
        });
    }
    table.rule(batch, "postrouting", |list| {
        list.name_is(IN_NAME, gate.device);
        list.masquerade_to(PORTS);
    });
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
        list.protocol_is(TCP);
        list.drop();
    });
    // What the kernel does not follow would leave with the client's own address.
    table.rule(batch, "forward", |list| {
        list.name_is(IN_NAME, gate.device);
        list.is_not_followed();
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
