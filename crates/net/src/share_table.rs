//! What the table of the capture does with the connections and packets of machines behind shared links.
//!
//! A connection of such a machine is redirected before the kernel chooses its way, so the table asks for
//! that way itself: by the mark [`ASKED`], or [`ASKED_DNS`], which the packet has for that moment only, and
//! which rules of ours hold for.

use std::io;

use crate::link_name::LinkName;
use crate::message::Builder;
use crate::nft::{
    DNAT, Expressions, FORWARD, IN_NAME, OUT_NAME, POSTROUTING, PREROUTING, Ports, Redirect,
    SOURCE_NAT, TABLE, TCP, Table, V4, V6, batch_begin, batch_end, redirect_rule,
};
use crate::rules::{ANSWERS, ASKED, ASKED_DNS, DNS};

/// The chains of new connections, of those whose way is looked for, and of those that are captured.
const NEW: &str = "shared";
const ASKING: &str = "asking";
const CAPTURED: &str = "captured";
/// Those of what answers, and of what leaves by the device.
const ANSWERING: &str = "answering";
const LEAVING: &str = "postrouting";
/// That of what is forwarded, and of what only our change of sysctls would have forwarded.
const FORWARDED: &str = "forward";
const UNFORWARDED: &str = "unforwarded";
/// The usual priorities of filters, and of what marks packets.
const FILTER: i32 = 0;
const MANGLE: i32 = -150;

/// What is shared now, and what this machine did not forward before we changed that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Shared {
    /// The links whose machines use the bond.
    pub(crate) links: Vec<LinkName>,
    /// Links by which IPv4 was not forwarded, and whether IPv6 was not at all.
    pub(crate) unforwarded_v4: Vec<LinkName>,
    pub(crate) unforwarded_v6: bool,
    /// Bridges: what they carry from port to port may come by here, too.
    pub(crate) bridges: Vec<LinkName>,
}

/// Adds what is for the machines behind shared links to the table that is being made; which links those are is
/// said by [`Table::share`].
pub(crate) fn write(batch: &mut Builder, redirect: &Redirect<'_>) {
    for chain in [CAPTURED, ASKING, UNFORWARDED] {
        TABLE.inner_chain(batch, chain);
    }
    TABLE.rule(batch, CAPTURED, |list| list.set_mark_bits(ASKED | ASKED_DNS, 0));
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
    TABLE.rule(batch, ASKING, |list| list.set_mark_bits(ASKED | ASKED_DNS, ASKED));
    TABLE.rule(batch, ASKING, |list| {
        list.target_port_is(DNS);
        list.set_mark_bits(ASKED | ASKED_DNS, ASKED_DNS);
    });
    TABLE.rule(batch, ASKING, |list| {
        list.way_is(redirect.device);
        list.jump(CAPTURED);
    });
    TABLE.rule(batch, ASKING, |list| list.set_mark_bits(ASKED | ASKED_DNS, 0));
    TABLE.chain(batch, NEW, "nat", PREROUTING, DNAT);
    TABLE.chain(batch, ANSWERING, "filter", PREROUTING, MANGLE);
    TABLE.chain(batch, LEAVING, "nat", POSTROUTING, SOURCE_NAT);
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
    /// Shares these links, and no others any more.
    ///
    /// # Errors
    /// The kernel's refusal; all is as before then.
    pub(crate) fn share(&self, shared: &Shared) -> io::Result<()> {
        let mut batch = Builder::default();
        batch_begin(&mut batch);
        for chain in [NEW, ANSWERING, LEAVING, UNFORWARDED] {
            TABLE.empty(&mut batch, chain);
        }
        for link in &shared.links {
            self.share_link(&mut batch, link.as_str());
        }
        self.leave_unforwarded(&mut batch, shared);
        batch_end(&mut batch);
        self.socket.request(batch)
    }

    fn share_link(&self, batch: &mut Builder, link: &str) {
        TABLE.rule(batch, NEW, |list| {
            list.name_is(IN_NAME, link);
            list.protocol_is(TCP);
            list.jump(ASKING);
        });
        // What answers somebody who has begun to speak goes back to him.
        TABLE.rule(batch, ANSWERING, |list| {
            list.name_is(IN_NAME, link);
            list.is_reply();
            list.set_mark_bits(ANSWERS, ANSWERS);
        });
        // The server takes packets from this machine's address only.
        TABLE.rule(batch, LEAVING, |list| {
            list.name_is(IN_NAME, link);
            list.name_is(OUT_NAME, &self.device);
            list.masquerade();
        });
        TABLE.rule(batch, UNFORWARDED, |list| {
            list.name_is(IN_NAME, link);
            list.set_mark_bits(ANSWERS, 0);
        });
        // TCP that the kernel makes no sense of, such as what comes late for a captured connection, would go on
        // with the machine's own address.
        TABLE.rule(batch, UNFORWARDED, |list| {
            list.name_is(IN_NAME, link);
            list.protocol_is(TCP);
            list.is_not_followed();
            list.drop();
        });
    }

    fn leave_unforwarded(&self, batch: &mut Builder, shared: &Shared) {
        for bridge in &shared.bridges {
            TABLE.rule(batch, UNFORWARDED, |list| {
                list.name_is(IN_NAME, bridge.as_str());
                list.name_is(OUT_NAME, bridge.as_str());
                list.accept();
            });
        }
        let dropped = |list: &mut Expressions<'_>| {
            list.name_is_not(OUT_NAME, &self.device);
            // Answers go where somebody else lets the kernel forward what asks.
            list.is_of_no_connection();
            list.drop();
        };
        for link in &shared.unforwarded_v4 {
            TABLE.rule(batch, UNFORWARDED, |list| {
                list.is_ipv6(false);
                list.name_is(IN_NAME, link.as_str());
                dropped(list);
            });
        }
        if shared.unforwarded_v6 {
            TABLE.rule(batch, UNFORWARDED, |list| {
                list.is_ipv6(true);
                list.name_is_not(IN_NAME, &self.device);
                dropped(list);
            });
        }
    }
}
