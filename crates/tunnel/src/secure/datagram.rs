//! The form of a datagram: its kind, whom it is for, and what is encrypted.
//!
//! ```text
//! opening    byte 0: 1 | opener's index, 4 | Noise message 1, 96 | MAC, 16
//! answer     byte 0: 2 | answerer's index, 4 | opener's index, 4 | Noise message 2, 48 | MAC, 16
//! data       byte 0: 3 | receiver's index, 4 | counter, 8 | ciphertext and tag
//! ```
//!
//! Numbers are big endian. An index names a session at the side that chose it. The MAC
//! (HMAC-SHA256, cut) has the receiver's public key as its key: who does not know that one cannot make a node do
//! more than hash.

use super::Refused;

/// Bytes of Noise IK's first message without payload: e, s and its tag, the payload's tag.
pub(super) const OPENING_NOISE: usize = 32 + 48 + 16;
/// Bytes of Noise IK's second message without payload: e, the payload's tag.
pub(super) const ANSWER_NOISE: usize = 32 + 16;
/// Bytes of the MAC.
pub(super) const MAC: usize = 16;
/// Bytes of an opening.
pub(super) const OPENING: usize = 1 + 4 + OPENING_NOISE + MAC;
/// Bytes of an answer.
pub(super) const ANSWER: usize = 1 + 4 + 4 + ANSWER_NOISE + MAC;
/// Bytes of a data datagram before its ciphertext.
pub(super) const DATA_HEADER: usize = 1 + 4 + 8;

/// First bytes of the kinds.
pub(super) mod kind {
    pub(in super::super) const OPENING: u8 = 1;
    pub(in super::super) const ANSWER: u8 = 2;
    pub(in super::super) const DATA: u8 = 3;
}

/// A datagram of the right form; nothing in it is believed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datagram<'a> {
    /// The first message of a handshake.
    Opening {
        /// The opener's index.
        sender: u32,
        /// Noise message 1.
        noise: &'a [u8],
        /// What the MAC is over.
        covered: &'a [u8],
        /// The MAC.
        mac: &'a [u8],
    },
    /// The second message of a handshake.
    Answer {
        /// The answerer's index.
        sender: u32,
        /// The opener's index.
        receiver: u32,
        /// Noise message 2.
        noise: &'a [u8],
        /// What the MAC is over.
        covered: &'a [u8],
        /// The MAC.
        mac: &'a [u8],
    },
    /// Anything within a session.
    Data {
        /// The receiver's index.
        receiver: u32,
        /// Which datagram of the session it is.
        counter: u64,
        /// The encrypted frame and its tag.
        sealed: &'a [u8],
    },
}

impl<'a> Datagram<'a> {
    /// Reads the form; total, and copies nothing.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<Self, Refused> {
        let number = |at: usize| {
            let number = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
            number.map(u32::from_be_bytes).ok_or(Refused::Malformed)
        };
        let handshake = |header: usize, length: usize| {
            if bytes.len() != length {
                return Err(Refused::Malformed);
            }
            let (covered, mac) = bytes.split_at(length - MAC);
            Ok((&covered[header..], covered, mac))
        };
        match bytes.first() {
            Some(&kind::OPENING) => {
                let (noise, covered, mac) = handshake(5, OPENING)?;
                Ok(Self::Opening { sender: number(1)?, noise, covered, mac })
            }
            Some(&kind::ANSWER) => {
                let (noise, covered, mac) = handshake(9, ANSWER)?;
                Ok(Self::Answer { sender: number(1)?, receiver: number(5)?, noise, covered, mac })
            }
            Some(&kind::DATA) => {
                let (header, sealed) =
                    bytes.split_at_checked(DATA_HEADER).ok_or(Refused::Malformed)?;
                let mut counter = [0; 8];
                counter.copy_from_slice(&header[5..]);
                let counter = u64::from_be_bytes(counter);
                Ok(Self::Data { receiver: number(1)?, counter, sealed })
            }
            _ => Err(Refused::Malformed),
        }
    }
}
