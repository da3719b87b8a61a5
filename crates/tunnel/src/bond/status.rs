//! What is shown of a bond.

use weftline_core::datagram::{BondCounters, LaneStatus};

use crate::status::Counter;

use super::socket::Unsent;

/// What a lane over TCP is called.
pub(super) const TCP_LANE: &str = "over TCP";

/// A lane, and what it is called.
#[derive(Clone, Debug)]
pub struct NamedLane {
    /// The link's name; at a server the lane's number.
    pub name: String,
    /// The other end's address there, if it is known; a lane over TCP has none of its own.
    pub peer: Option<std::net::SocketAddr>,
    /// What is known of it.
    pub status: LaneStatus,
}

/// A bond as it is now.
#[derive(Clone, Debug, Default)]
pub struct BondStatus {
    /// At a server, the client's name.
    pub client: Option<String>,
    /// Its lanes.
    pub lanes: Vec<NamedLane>,
    /// What was dropped or came twice, each with the reason.
    pub counters: Vec<Counter>,
}

/// Says that a link has been held back for calls, or let go.
pub(super) fn tell_held(link: &str, status: &LaneStatus) {
    let hold = status.hold;
    match hold.limit {
        Some(limit) => tracing::info!(
            "{link}: what TCP sends there is held back to {:.1} Mb/s, as calls wait ({:.0} ms)",
            limit.as_bps() as f64 / 1e6,
            hold.queue.as_secs_f64() * 1e3
        ),
        None => tracing::info!("{link}: what TCP sends there is not held back any more"),
    }
}

/// What an end drops besides what its bond does.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Dropped {
    pub(super) forged: u64,
    pub(super) replayed: u64,
    pub(super) unknown: u64,
    pub(super) wrong_address: u64,
    pub(super) closed: u64,
    pub(super) flows: u64,
    pub(super) tcp: u64,
    pub(super) dns: u64,
    pub(super) no_ipv6: u64,
    pub(super) refused: u64,
    pub(super) by_tcp: u64,
    pub(super) unproven: u64,
    pub(super) marked: u64,
}

/// All that an end has counted, those that are not zero.
pub(super) fn counters(bond: BondCounters, unsent: Unsent, dropped: Dropped) -> Vec<Counter> {
    let all = [
        ("duplicates", "packets of which a copy had come before", bond.duplicates),
        (
            "uncopied",
            "urgent packets sent once, as the budget of copies was used up",
            bond.uncopied,
        ),
        (
            "late",
            "packets of a flow over several lanes that came after those behind them",
            bond.late,
        ),
        ("too_long_packets", "packets dropped as no lane carries as much", bond.too_long),
        ("no_lane", "packets dropped as no lane was up", bond.no_lane),
        ("overflowed", "packets dropped as too many were to go at once", bond.overflowed),
        ("no_packet", "what came from the device and is no IP packet", bond.no_packet),
        ("malformed", "datagrams without a frame that makes sense", bond.malformed),
        ("no_room", "datagrams for which the kernel had no room", unsent.no_room),
        ("too_long", "datagrams longer than a link takes", unsent.too_long),
        ("refused", "datagrams that the system did not send", unsent.refused),
        ("forged", "datagrams that were changed, or of somebody without the key", dropped.forged),
        ("replayed", "datagrams that came before", dropped.replayed),
        ("unknown", "datagrams of no session, and packets to no client", dropped.unknown),
        ("wrong_address", "packets with an address of somebody else", dropped.wrong_address),
        ("closed", "packets to where clients may not go", dropped.closed),
        ("flows", "packets of more flows than a client may have", dropped.flows),
        ("tcp", "TCP, which goes over connections and not here", dropped.tcp),
        ("dns", "questions to DNS without an answer", dropped.dns),
        (
            "unproven",
            "datagrams held back from an address that had not answered yet",
            dropped.unproven,
        ),
        (
            "marked",
            "packets without ECN whose datagrams said that congestion was experienced",
            dropped.marked,
        ),
        ("no_ipv6", "packets of IPv6, which the server does not forward", dropped.no_ipv6),
        (
            "by_tcp",
            "questions to DNS that were to be asked again by TCP, as no lane was up",
            dropped.by_tcp,
        ),
        (
            "refused",
            "packets refused, their senders told, as no lane had been up for a while",
            dropped.refused,
        ),
    ];
    let counted = all.into_iter().filter(|(.., value)| *value > 0);
    counted.map(|(name, about, value)| Counter { name, about, value }).collect()
}
