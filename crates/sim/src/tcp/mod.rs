//! A TCP endpoint as Linux has it: SACK, RACK-TLP (RFC 8985), PRR (RFC 9937), retransmission
//! timer (RFC 6298 with Linux's bounds), delayed acknowledgement, pacing, receive window.
//!
//! Sans-IO: segments go in, segments come out, and `deadline_ns` says when to look again. Sequence
//! numbers are stream offsets that do not wrap; options that do not change behaviour are left out.

mod buffer;
mod endpoint;
mod prr;
mod receiver;
mod rtt;
mod scoreboard;
mod segment;
mod sender;
#[cfg(test)]
mod tests;

pub(crate) use buffer::ReceiveBuffer;
pub(crate) use endpoint::{Endpoint, EndpointConfig};
pub(crate) use segment::Segment;
pub(crate) use sender::SenderStats;

/// Milliseconds in nanoseconds.
pub(crate) const MS: u64 = 1_000_000;
/// A second in nanoseconds.
pub(crate) const SECOND: u64 = 1_000 * MS;
