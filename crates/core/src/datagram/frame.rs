//! Frames of a lane: what a datagram has in it once it is decrypted (docs/protocol.md, "Lanes").
//!
//! The datagram around a frame has the lane's sequence number, which is its nonce as well. Numbers in
//! frames are varints (RFC 9000 §16).

use std::ops::Range;
use std::time::Duration;

use bytes::BufMut;

use super::place::PLACE;
use crate::wire::varint::{Reader, VARINT_MAX, put};

/// The most ranges of a feedback frame: what came earlier has been told before, or is of no use.
pub const MAX_RANGES: usize = 32;
/// The most bytes that a data frame has besides its packet.
pub const DATA_OVERHEAD: usize = 1 + 8 + PLACE;

/// First bytes.
const DATA: u8 = 0x10;
const FEEDBACK: u8 = 2;
const PING: u8 = 3;
const PONG: u8 = 4;

/// How a packet is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It goes at once, and in copies over two lanes as far as the budget for copies goes.
    Urgent,
    /// A flow such as a call: it keeps its lane. On the wire, a packet in no order.
    Medium,
    /// All else. On the wire, a packet with a place in its flow, of a medium or bulk one.
    Bulk,
}

impl Class {
    /// Its name where counters are shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Urgent => "urgent",
            Self::Medium => "medium",
            Self::Bulk => "bulk",
        }
    }
}

/// What has come over a lane: the answer to data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feedback {
    /// How long ago the newest of these came.
    pub delay: Duration,
    /// When the newest came, in microseconds by the receiver's clock.
    pub arrived_us: u64,
    /// Sequence numbers that have come, the newest range first; at least one and at most [`MAX_RANGES`].
    pub ranges: Vec<Range<u64>>,
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame<'a> {
    /// An IP packet.
    Data {
        /// Its number among all that this end sends: a copy has the same.
        number: u64,
        /// How it is treated.
        class: Class,
        /// The packet; if it is bulk, as all are that have a place in a flow, with that after it: the flow's number, that of the
        /// packet, and the lanes that the flow uses.
        packet: &'a [u8],
    },
    /// What has come.
    Feedback(Feedback),
    /// A question whether the lane carries a datagram of this size; what follows the number is padding.
    Ping {
        /// Its number.
        id: u64,
        /// Bytes of padding.
        padding: usize,
    },
    /// The answer to a ping.
    Pong {
        /// The ping's number.
        id: u64,
    },
}

/// Bytes that are no frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no frame of a lane")]
pub struct FrameError;

impl<'a> Frame<'a> {
    /// Appends the frame. Numbers must be at most 2^62 − 1, and a feedback's ranges in order.
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Data { number, class, packet } => {
                out.put_u8(DATA | *class as u8);
                put(out, *number);
                out.put_slice(packet);
            }
            Self::Feedback(feedback) => encode_feedback(feedback, out),
            Self::Ping { id, padding } => {
                out.put_u8(PING);
                put(out, *id);
                out.resize(out.len() + padding, 0);
            }
            Self::Pong { id } => {
                out.put_u8(PONG);
                put(out, *id);
            }
        }
    }

    /// Reads a frame; total, and copies no packet.
    ///
    /// # Errors
    /// When it is none.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let (&kind, rest) = bytes.split_first().ok_or(FrameError)?;
        let mut rest = Reader(rest);
        let class = match kind & 3 {
            0 => Class::Urgent,
            1 => Class::Medium,
            _ => Class::Bulk,
        };
        match kind {
            _ if kind & !3 == DATA => {
                let number = rest.varint().ok_or(FrameError)?;
                Ok(Self::Data { number, class, packet: rest.0 })
            }
            FEEDBACK => decode_feedback(rest).map(Self::Feedback).ok_or(FrameError),
            PING => {
                let id = rest.varint().ok_or(FrameError)?;
                Ok(Self::Ping { id, padding: rest.0.len() })
            }
            PONG => rest.varint().map(|id| Self::Pong { id }).ok_or(FrameError),
            _ => Err(FrameError),
        }
    }
}

/// The packet in a frame of data, to be changed in its place; `None` if the frame has none.
pub fn packet_in(frame: &mut [u8]) -> Option<&mut [u8]> {
    let Ok(Frame::Data { class, packet, .. }) = Frame::decode(frame) else { return None };
    let start = frame.len() - packet.len();
    let place = if class == Class::Bulk { PLACE } else { 0 };
    let end = frame.len().checked_sub(place)?;
    frame.get_mut(start..end)
}

fn encode_feedback(feedback: &Feedback, out: &mut Vec<u8>) {
    out.put_u8(FEEDBACK);
    let delay = u64::try_from(feedback.delay.as_micros()).unwrap_or(VARINT_MAX);
    put(out, delay.min(VARINT_MAX));
    put(out, feedback.arrived_us.min(VARINT_MAX));
    put(out, feedback.ranges.len() as u64);
    // The end of the first, then of each how far it is below the one before, and its length.
    let mut above = None;
    for range in &feedback.ranges {
        put(out, above.map_or(range.end, |above: u64| above - range.end));
        put(out, range.end - range.start);
        above = Some(range.start);
    }
}

fn decode_feedback(mut rest: Reader<'_>) -> Option<Feedback> {
    let delay = Duration::from_micros(rest.varint()?);
    let arrived_us = rest.varint()?;
    let count = usize::try_from(rest.varint()?).ok().filter(|n| (1..=MAX_RANGES).contains(n))?;
    let mut ranges = Vec::with_capacity(count);
    let mut above = None;
    for _ in 0..count {
        let number = rest.varint()?;
        let end = match above {
            None => number,
            // Ranges do not touch.
            Some(above) if number > 0 => u64::checked_sub(above, number)?,
            Some(_) => return None,
        };
        let length = rest.varint().filter(|&length| length > 0)?;
        let start = end.checked_sub(length)?;
        ranges.push(start..end);
        above = Some(start);
    }
    Some(Feedback { delay, arrived_us, ranges })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_are_read_as_written() {
        let feedback = Feedback {
            delay: Duration::from_micros(1200),
            arrived_us: 77_000_000,
            ranges: vec![900..1000, 10..899, 0..3],
        };
        for frame in [
            Frame::Data { number: 7, class: Class::Urgent, packet: b"packet" },
            Frame::Data { number: VARINT_MAX, class: Class::Medium, packet: b"" },
            Frame::Data { number: 1 << 40, class: Class::Bulk, packet: &[1; 1400] },
            Frame::Feedback(feedback),
            Frame::Ping { id: 3, padding: 0 },
            Frame::Ping { id: 300, padding: 1200 },
            Frame::Pong { id: 300 },
        ] {
            let mut bytes = Vec::new();
            frame.encode(&mut bytes);
            assert_eq!(Frame::decode(&bytes), Ok(frame.clone()));
            if let Frame::Data { packet, .. } = frame {
                assert!(bytes.len() - packet.len() <= DATA_OVERHEAD);
            }
        }
    }

    #[test]
    fn packets_are_found_in_frames() {
        let placed = [&b"packet"[..], &[0; PLACE]].concat();
        for (class, packet) in [(Class::Urgent, &b"packet"[..]), (Class::Bulk, &placed)] {
            let mut bytes = Vec::new();
            Frame::Data { number: 1 << 20, class, packet }.encode(&mut bytes);
            assert_eq!(packet_in(&mut bytes).map(|found| &*found), Some(&b"packet"[..]));
        }
        // One whose place is cut, and frames of other kinds.
        assert_eq!(packet_in(&mut [DATA | 2, 0, 1, 2, 3]), None);
        assert_eq!(packet_in(&mut [PONG, 0]), None);
    }

    proptest! {
        /// Of anything: no panic, and a feedback is in order and bounded.
        #[test]
        fn anything_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            for kind in [None, Some(FEEDBACK)] {
                let mut bytes = bytes.clone();
                if let (Some(kind), Some(first)) = (kind, bytes.first_mut()) {
                    *first = kind;
                }
                let _ = packet_in(&mut bytes);
                if let Ok(Frame::Feedback(Feedback { ranges, .. })) = Frame::decode(&bytes) {
                    prop_assert!((1..=MAX_RANGES).contains(&ranges.len()));
                    prop_assert!(ranges.iter().all(|range| range.start < range.end));
                    prop_assert!(ranges.windows(2).all(|two| two[1].end < two[0].start));
                }
            }
        }
    }
}
