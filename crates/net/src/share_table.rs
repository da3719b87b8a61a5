//! What the table of the capture does with the connections and packets of machines behind shared links.
//!
//! A connection of such a machine is redirected before the kernel chooses its way, so the table asks for
//! that way itself: by the mark [`ASKED`], which the packet has for that moment only, and which rules of
//! ours hold for.

use std::io;

use crate::link_name::LinkName;
use crate::message::Builder;
use crate::nft::{
    DNAT, Expressions, FORWARD, IN_NAME, OUT_NAME, POSTROUTING, PREROUTING, Ports, Redirect,
    SOURCE_NAT, TABLE, TCP, Table, V4, V6, batch_begin, batch_end, redirect_rule,
};
use crate::rules::ASKED;

/// The chains of new connections, of those whose way is looked for, and of those that are captured.
const NEW: &str = "shared";
const ASKING: &str = "asking";
const CAPTURED: &str = "captured";
/// That of what is forwarded, and of what only our change of sysctls would have forwarded.
const FORWARDED: &str = "forward";
const UNFORWARDED: &str = "unforwarded";
/// The usual priority of filters.
const FILTER: i32 = 0;

/// What this machine did not forward before we changed that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unforwarded {
    /// IPv4 that comes by these links.
    pub(crate) v4: Vec<LinkName>,
    /// All of IPv6.
    pub(crate) v6: bool,
    /// Bridges: what they carry from port to port may come by here, too.
    pub(crate) bridges: Vec<LinkName>,
}

/// Adds what is for the machines behind `redirect.shared` to the table that is being made.
pub(crate) fn write(batch: &mut Builder, redirect: &Redirect<'_>) {
    for chain in [CAPTURED, ASKING, UNFORWARDED] {
        TABLE.inner_chain(batch, chain);
    }
    TABLE.rule(batch, CAPTURED, |list| list.set_mark_bits(ASKED, 0));
    for (family, ports) in [(&V4, redirect.v4), (&V6, redirect.v6)] {
        let Some(ports) = ports else { continue };
        if let Some(refused) = ports.refused {
            redirect_rule(batch, (CAPTURED, None), family, Some(family.set), refused);
        }
        redirect_rule(batch, (CAPTURED, None), family, None, ports.to);
    }
    for &port in redirect.excepted {
        TABLE.rule(batch, ASKING, |list| {
            list.target_port_is(port);
            list.accept();
        });
    }
    TABLE.rule(batch, ASKING, |list| list.set_mark_bits(ASKED, ASKED));
    TABLE.rule(batch, ASKING, |list| {
        list.way_is(redirect.device);
        list.jump(CAPTURED);
    });
    TABLE.rule(batch, ASKING, |list| list.set_mark_bits(ASKED, 0));
    TABLE.chain(batch, NEW, "nat", PREROUTING, DNAT);
    TABLE.chain(batch, "postrouting", "nat", POSTROUTING, SOURCE_NAT);
    for link in redirect.shared {
        TABLE.rule(batch, NEW, |list| {
            list.name_is(IN_NAME, link.as_str());
            list.protocol_is(TCP);
            list.jump(ASKING);
        });
        // The server takes packets from this machine's address only.
        TABLE.rule(batch, "postrouting", |list| {
            list.name_is(IN_NAME, link.as_str());
            list.name_is(OUT_NAME, redirect.device);
            list.masquerade();
        });
    }
    TABLE.chain(batch, FORWARDED, "filter", FORWARD, FILTER);
    // Nobody begins to speak to a machine behind this one.
    TABLE.rule(batch, FORWARDED, |list| {
        list.name_is(IN_NAME, redirect.device);
        list.is_of_no_connection();
        list.drop();
    });
    TABLE.rule(batch, FORWARDED, |list| list.jump(UNFORWARDED));
    guard(batch, [redirect.v4, redirect.v6].into_iter().flatten());
}

/// The ports are those of all addresses of this machine: only what has been redirected reaches them.
fn guard(batch: &mut Builder, ports: impl Iterator<Item = Ports>) {
    for port in ports {
        TABLE.rule(batch, "input", |list| {
            list.name_is_not(IN_NAME, "lo");
            list.protocol_is(TCP);
            list.target_port_is(port.to);
            list.is_not_redirected();
            list.drop();
        });
    }
}

impl Table {
    /// Forwards none of this, and all else, unless it goes through the device.
    ///
    /// # Errors
    /// The kernel's refusal; all is as before then.
    pub(crate) fn set_unforwarded(&self, all: &Unforwarded) -> io::Result<()> {
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        TABLE.empty(&mut batch, UNFORWARDED);
        for bridge in &all.bridges {
            TABLE.rule(&mut batch, UNFORWARDED, |list| {
                list.name_is(IN_NAME, bridge.as_str());
                list.name_is(OUT_NAME, bridge.as_str());
                list.accept();
            });
        }
        let dropped = |list: &mut Expressions<'_>, device: &str| {
            list.name_is_not(OUT_NAME, device);
            // Answers go where somebody else lets the kernel forward what asks.
            list.is_of_no_connection();
            list.drop();
        };
        for link in &all.v4 {
            TABLE.rule(&mut batch, UNFORWARDED, |list| {
                list.is_ipv6(false);
                list.name_is(IN_NAME, link.as_str());
                dropped(list, &self.device);
            });
        }
        if all.v6 {
            TABLE.rule(&mut batch, UNFORWARDED, |list| {
                list.is_ipv6(true);
                list.name_is_not(IN_NAME, &self.device);
                dropped(list, &self.device);
            });
        }
        batch_end(&mut batch);
        self.socket.request(batch)
    }
}
