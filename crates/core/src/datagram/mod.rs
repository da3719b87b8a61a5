//! IP packets over several lanes at once: what `weftline up` does with UDP, ICMP and all that is no TCP.
//!
//! A *lane* is a way for datagrams between two ends: one of a client's links, with keys of its own; or, where
//! links let no UDP through, a connection over TCP ([`Carrier`]). A [`Bond`] is one end: it takes packets and says which datagram goes over which lane, and takes
//! datagrams and gives the packets. It does not send lost packets again until they come, as TCP does.
//!
//! - **Urgent** packets ([`Class`]) go over the lane on which they should arrive first, and in copies
//!   over a second one, as far as the budget for copies goes. One that is lost within a second goes again,
//!   once. The receiver drops what comes twice.
//! - All others wait in a queue of their lane, fair between flows (FQ-CoDel), for as long as more is on
//!   its way than the lane's congestion control allows ([`LaneCongestion`]; the daemons and the tests
//!   take BBR, `weftline_congestion::lane`), and go at the rate that it says. A flow keeps its lane until
//!   another is better by 5 ms and a quarter. Each packet of a **bulk** flow takes
//!   the lane by which it arrives first, with what waits there (`choice.rs`). Both are handed out in order
//!   (`order.rs`).
//! - Each end tells the other what has come, 10 ms later at the latest. When nothing is told for longer
//!   than the round trip, the lane is silent: what is younger than 100 ms goes again, once, over another.
//! - While flows of that kind last, what TCP and bulk send over the path of a lane is held back as
//!   far as packets wait there (`calls.rs`), through the [limiter](crate::limiter) that TCP has in
//!   common with it.
//! - Each lane is asked what it carries ([RFC 8899](https://www.rfc-editor.org/rfc/rfc8899), `mtu.rs`). Long
//!   packets go over lanes that carry them. Where none does, a packet of IPv4 that may be cut is, and the
//!   sender of any other is to be told.
//!
//! Lanes know nothing of encryption: a datagram's sequence number is to be its nonce. The daemons drive
//! this over UDP (`weftline-tunnel`, `bond`); tests drive it in virtual time.

mod arrivals;
mod bond;
mod budget;
mod calls;
mod choice;
mod congestion;
mod delivery;
mod flows;
mod frame;
mod guard;
mod lane;
mod least;
mod mtu;
mod order;
mod packet;
mod pings;
mod place;
mod protection;
mod rate;
mod waiting;

pub use bond::{Bond, BondConfig, BondCounters, MAX_LANES, MAX_MEMORY, Transmit};
pub use calls::{CallRules, HoldStatus};
pub use congestion::{LaneAck, LaneCongestion, LaneRate, TELLING};
pub use frame::{Class, DATA_OVERHEAD, Feedback, Frame, FrameError, MAX_RANGES, packet_in};
pub use guard::FlowGuard;
pub use lane::{LaneCounters, LaneState, LaneStatus, MAX_WAITING};
pub use packet::Look;

/// What the datagrams of a lane go over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Carrier {
    /// UDP, over one link.
    Udp,
    /// Messages of a connection over all links, where UDP does not come through. None is lost on its way, and
    /// each may be late. A lane of this kind carries what no lane over UDP of the same role does.
    Tcp,
}

impl Carrier {
    /// Its name where it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
        }
    }
}

/// A lane's number, which is the same at both ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LaneId(pub u8);
