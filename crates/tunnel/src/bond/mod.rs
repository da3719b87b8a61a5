//! Bonds: IP packets that are no TCP, over lanes on several links at once, between `weftline up` and
//! `weftline serve --internet`.
//!
//! What goes over which lane is decided by `weftline_core::datagram`. This has the sockets, the keys and
//! the thread at each end. Sessions are agreed on elsewhere, over the authenticated connection of both
//! ends (`weftline::LaneControl`); here a [`LaneSession`] is what came of that.

mod address;
mod allowance;
mod client;
mod dns;
mod end;
mod handle;
mod keys;
mod pipe;
mod reach;
mod server;
mod socket;
mod status;
mod wake;
mod whereabouts;

use weftline_core::datagram::{self, BondConfig, CallRules};
use weftline_core::{ByteCount, Role};

use crate::class;

pub use client::{BlockedLink, BondClient, LaneLink, LaneSession, LanesNow};
pub use dns::system_resolvers;
pub use keys::{LaneSecret, SECRET_BYTES};
pub use reach::{LaneReach, reach};
pub use server::{BondServer, Permit};
pub use status::{BondStatus, NamedLane};

/// The most memory that a client's lanes take at a server: the bond, datagrams that leave together, and what
/// is below.
pub const CLIENT_MEMORY: ByteCount = ByteCount::new(
    datagram::MAX_MEMORY + (datagram::MAX_LANES * socket::LANE_BATCHES) as u64 + BESIDES,
);

/// What it knows of the client's flows, 8,192 of 8 bytes in trees that may be half full; 128 questions to DNS
/// with a packet each; keys of 36 lanes, with a window of what has come. In bytes.
const BESIDES: u64 = 1 << 20;

/// The longest packet of a bond, in bytes.
const MTU: usize = 1400;

/// What an end of a bond is made with.
fn bond_config(is_initiator: bool) -> BondConfig {
    let congestion = weftline_congestion::lane::bbr;
    BondConfig {
        is_initiator,
        mtu: MTU,
        mark: class::mark,
        congestion,
        calls: CallRules::default(),
    }
}

/// What the number of a lane over TCP has besides.
const OVER_TCP: u8 = 1 << 5;

/// The number of a lane over TCP, of which there is one. Its place is one that hardly any link has, as both would
/// count as one in the order of flows.
fn tcp_lane_id(role: Role) -> u8 {
    OVER_TCP | lane_id(7, role)
}

/// Whether a lane is one over TCP.
const fn is_over_tcp(lane: u8) -> bool {
    lane & OVER_TCP != 0
}

/// The place of a lane, which one lane has at a time.
const fn place_of(lane: u8) -> u8 {
    lane & (OVER_TCP | 7)
}

/// A lane's number: its place, and its role, which the server learns by that.
fn lane_id(place: u8, role: Role) -> u8 {
    let role = match role {
        Role::Active => 0,
        Role::Metered => 1,
        Role::Backup => 2,
        Role::Retired => 3,
    };
    place & 7 | role << 3
}

/// The role of a lane; `None` if it is no number of a lane.
fn role_of(lane: u8) -> Option<Role> {
    match (lane & !OVER_TCP) >> 3 {
        0 => Some(Role::Active),
        1 => Some(Role::Metered),
        2 => Some(Role::Backup),
        3 => Some(Role::Retired),
        _ => None,
    }
}
