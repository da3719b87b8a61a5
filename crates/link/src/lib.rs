//! The link model: one direction of a path, as the simulator and the lab's emulator both drive it.
//!
//! A [`Link`] is a drop-tail queue in front of a server whose rate follows a [`RateTrace`], with
//! packet loss, a constant delay and an optional jitter that keeps the order. It is *sans-IO* and
//! never holds a packet: the caller offers a wire size and learns at once when that packet arrives
//! at the far end, or why it does not.
//!
//! ```
//! use std::time::Duration;
//! use weftline_core::{Bitrate, ByteCount, Instant};
//! use weftline_link::{Link, LinkConfig, LossModel, QueueLimit, RateTrace, Verdict};
//!
//! let mut link = Link::new(
//!     LinkConfig {
//!         rate: RateTrace::constant(Bitrate::mbps(12)),
//!         delay: Duration::from_millis(20),
//!         jitter: Duration::ZERO,
//!         queue: QueueLimit::Packets(100),
//!         loss: LossModel::None,
//!     },
//!     1,
//!     "wifi/down",
//! );
//! // 1500 bytes at 12 Mb/s take 1 ms, then 20 ms to propagate.
//! let verdict = link.offer(Instant::ZERO, ByteCount::new(1500));
//! assert_eq!(verdict, Verdict::Arrives(Instant::from_millis(21)));
//! ```

mod link;
mod loss;
mod server;
mod trace;

pub use link::{Link, LinkConfig, LinkStats, QueueLimit, Tally, Verdict};
pub use loss::LossModel;
pub use trace::{RateTrace, TraceError};
