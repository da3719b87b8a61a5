//! A segment on the wire.

use std::ops::Range;

/// Bytes of the IPv4 header, the TCP header and the timestamp option.
const HEADERS: u64 = 20 + 20 + 12;
/// Bytes of an option that acknowledges data (RFC 8684 §3.3).
const OPTION: u64 = 12;
/// SACK blocks that fit beside timestamps (RFC 2018 §3).
pub(crate) const MAX_SACKS: usize = 3;

/// A TCP segment. Its payload's content stays in the sender's stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    /// The number of the endpoint it goes to.
    pub(crate) to: u32,
    /// Payload bytes.
    pub(crate) len: u32,
    /// The number of an option that it carries for the flow; 0 if none.
    pub(crate) option: u32,
    /// Stream offset of the first payload byte.
    pub(crate) seq: u64,
    /// Everything below this offset of the other direction has arrived.
    pub(crate) ack: u64,
    /// The other side may send below this offset.
    pub(crate) limit: u64,
    /// When it was sent, in nanoseconds (TSval).
    pub(crate) sent_ns: u64,
    /// `sent_ns` of the segment that caused this acknowledgement (TSecr); 0 if none.
    pub(crate) echo_ns: u64,
    /// Received above `ack`, the most recent first.
    pub(crate) sacks: [(u64, u64); MAX_SACKS],
    /// How many of `sacks` count.
    pub(crate) sack_count: u8,
    /// Whether the first of `sacks` reports a duplicate (RFC 2883).
    pub(crate) dsack: bool,
    /// Whether it is to be acknowledged though it carries nothing.
    pub(crate) wants_answer: bool,
    /// A connection request.
    pub(crate) syn: bool,
    /// The sender knows no such connection, or not any more.
    pub(crate) rst: bool,
    /// Whether `ack` counts; not in the first segment of a connection.
    pub(crate) has_ack: bool,
}

impl Segment {
    /// Its size on the wire.
    pub(crate) const fn wire_bytes(&self) -> u64 {
        let sacks = self.sack_count as u64;
        let sack = if sacks > 0 { 4 + 8 * sacks } else { 0 };
        let option = if self.option > 0 { OPTION } else { 0 };
        HEADERS + sack + option + self.len as u64
    }

    /// The SACK blocks.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = Range<u64>> + '_ {
        self.sacks[..usize::from(self.sack_count)].iter().map(|&(start, end)| start..end)
    }
}
