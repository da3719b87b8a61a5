//! The nodes of COTAG as state machines: what goes out next, and when something is due
//! (COTAG §III-C).
//!
//! A [`Gateway`] groups the packets that come within an interval T into a *cohort*, numbers it with
//! a label and sends it, coded, in the next interval. An [`AccessPoint`] sends a cohort on from the
//! first packet of the next one until the first of the one after. A [`Device`] decodes, and hands
//! packets out in the order in which they came to the gateway. What a node cannot send in a
//! cohort's time it drops (*giving*); what time is left it fills with further combinations
//! (*taking*).
//!
//! Whoever drives a node hands it packets with the time, asks for the next packet whenever a link
//! has room, takes what a device hands out, and calls a node again at the time of its
//! `poll_timeout`. Every call is good for what is due by then, so that a late driver loses time and
//! nothing else.
//!
//! Labels and arrival numbers start with a gateway. A driver that hears of a gateway's new start
//! makes new nodes. A node also finds out: when labels come that its gateway cannot have reached by
//! now, and nothing else for as long as a silent link is waited for, it begins anew; likewise when
//! for a second all that comes is late. So a gateway should start with a random
//! [label](Gateway::with_first_label), which its successor is unlikely to come near. It heals what
//! a faulty neighbour may say as well; a neighbour that keeps lying is believed in part, and can
//! spoil what goes through it: nodes trust their authenticated neighbours.

mod access_point;
mod cohort;
pub mod counters;
mod device;
mod gateway;
mod gone;
mod lags;
mod links;
mod pace;
mod pool;
mod radio;
mod redundancy;
mod release;
mod seal;
mod served;
#[cfg(test)]
mod tests;

use std::time::Duration;

pub use access_point::{AccessPoint, AccessPointStats};
pub use device::{Delivery, Device, DeviceStats, LinkSet};
pub use gateway::{Gateway, GatewayStats, Sealing};
pub use pace::Pacer;
pub use radio::{KEEPALIVE_INTERVAL, MEASURE_EVERY, Presence, RadioMeter, admissible, told};
pub use redundancy::{LossReport, Redundancy};
pub use seal::{Place, Seal};
pub use weftline_core::fq_codel::QueueConfig;

use crate::generation::{GenerationError, Limits};
use crate::kernels::Kernel;
use crate::serial::Label;
use crate::wire::WireError;

/// How a gateway sends a cohort the first time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// Packets go out as they are, and only what is redundant is a combination. Nothing is lost in
    /// coding when nothing is lost on the way.
    #[default]
    Systematic,
    /// Every packet is a random combination (COTAG §III-B).
    Dense,
}

/// The settings of a node. They must be the same at all nodes but for `buffer_packets` and
/// `cut_through`.
#[derive(Clone, Copy, Debug)]
pub struct NodeConfig {
    /// T: packets that come within it are a cohort.
    pub interval: Duration,
    /// How large generations and packets may be.
    pub limits: Limits,
    /// How a cohort is sent the first time.
    pub mode: Mode,
    /// Whether packets are sent on as they come instead of an interval later (not the paper's): by
    /// a gateway in systematic mode, and by access points. What is redundant still waits for the
    /// end of its cohort. Each node may have its own.
    pub cut_through: bool,
    /// The most redundant packets of a gateway's cohort, in percent of its packets.
    pub redundancy_percent: u32,
    /// Whether that share is used, or one that is learned up to it.
    pub redundancy: Redundancy,
    /// The most packets that an access point or a device holds, and that a gateway takes into a
    /// cohort.
    pub buffer_packets: usize,
    /// Whether an access point sends at most as many packets of a cohort as it received
    /// (COTAG Algorithm 2).
    pub no_more_than_received: bool,
    /// Whether an access point makes new combinations of what it received of a cohort: without, it
    /// sends on what came, and what is redundant is the gateway's alone.
    pub recoding: bool,
    /// Whether an access point drops what it could not send in its cohort's time (COTAG Algorithm 2).
    /// Without, that is sent late, and what comes after it waits, up to `buffer_packets`.
    pub giving: bool,
    /// A device gives a link up that has shown nothing after a cohort for so many intervals since
    /// the cohort's last packet.
    pub silent_intervals: u32,
    /// The queue in front of a gateway's cohorts, which takes in what comes and fills cohorts only
    /// with what the links carry; `None` is the paper's gateway, which has none.
    pub queue: Option<QueueConfig>,
    /// Whether packets may wait in that queue for longer than its target where a link lags behind others:
    /// by as much as it does (not the paper's).
    pub lag_allowance: bool,
    /// Whether they may for some seconds while a link is gone that carried much (not the paper's).
    pub gone_allowance: bool,
    /// Whether what was lost with a link that is gone is left out of what is learned of losses (not the
    /// paper's).
    pub forget_losses: bool,
    /// Bytes that the driver adds to each packet on a link: they count where packets are held back to
    /// a link's rate.
    pub overhead_bytes: u32,
    /// Whether the driver hands a device only what its gateway has named, of this run: then no label
    /// is taken for a new start of the gateway's.
    pub names_proven: bool,
    /// The arithmetic.
    pub kernel: Kernel,
}

impl Default for NodeConfig {
    /// T of 2 ms, generations of 32 packets of 1500 bytes, systematic without cut-through, as many redundant packets
    /// as others, 4096 packets, a link given up after 2 T.
    fn default() -> Self {
        Self {
            interval: Duration::from_millis(2),
            limits: Limits::default(),
            mode: Mode::Systematic,
            cut_through: false,
            redundancy_percent: 100,
            redundancy: Redundancy::Limit,
            buffer_packets: 4096,
            no_more_than_received: true,
            recoding: true,
            giving: true,
            silent_intervals: 2,
            queue: None,
            lag_allowance: true,
            gone_allowance: true,
            forget_losses: true,
            overhead_bytes: 0,
            names_proven: false,
            kernel: Kernel::best(),
        }
    }
}

impl NodeConfig {
    /// Whether a gateway sends packets before their cohort is whole.
    fn cuts_through(&self) -> bool {
        self.cut_through && self.mode == Mode::Systematic
    }

    /// How long a device waits for a link that shows nothing.
    fn silence(&self) -> Duration {
        self.interval * self.silent_intervals
    }
}

/// Why a packet that came from another node was dropped. The node is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// No room, and nothing that would make way.
    #[error("the buffer is full with {0} packets; the link out is slower than the links in")]
    Full(usize),
    /// It contradicts its generation.
    #[error(transparent)]
    Generation(#[from] GenerationError),
    /// A label that no gateway uses now.
    #[error("label {label}, far from {newest}; was the gateway started anew?", label = .label.0, newest = .newest.0)]
    Label {
        /// The packet's label.
        label: Label,
        /// The newest label so far.
        newest: Label,
    },
    /// Its cohort is over.
    #[error("a packet of cohort {}, which is over", .0.0)]
    Late(Label),
    /// A link that the node was not made with.
    #[error("link {link} of {links}")]
    Link {
        /// The link's number, from 0.
        link: usize,
        /// Links there are.
        links: usize,
    },
    /// The driver could not seal it.
    #[error("a packet that could not be sealed")]
    Unsealed,
    /// It is no packet.
    #[error(transparent)]
    Wire(#[from] WireError),
}
