//! The format of a datagram: its kind, its receiver, and the encrypted part.
//!
//! ```text
//! initiation  byte 0: 1 | initiator's index, 4 | time, 8 | Noise message 1, 96 | MAC, 16 | proof, 16
//! response    byte 0: 2 | responder's index, 4 | initiator's index, 4 | Noise message 2, 48 | MAC, 16
//! data        byte 0: 3 | receiver's index, 4 | counter, 8 | ciphertext and tag
//! ```
//!
//! Numbers are big endian. An index names a session at the side that chose it. The MAC
//! (truncated HMAC-SHA256) has the receiver's public key as its key: a sender without that key cannot
//! make a node do more than hash. The proof is a MAC with a key that only both nodes can compute from
//! their static keys: a node recognises a stranger before it computes anything for it. The time is the
//! initiator's, in nanoseconds, and increases: a node recognises replayed initiations by it.

use super::Refused;

/// Bytes of Noise IK's first message without payload: e, s and its tag, the payload's tag.
pub(super) const INITIATION_NOISE: usize = 32 + 48 + 16;
/// Bytes of Noise IK's second message without payload: e, the payload's tag.
pub(super) const RESPONSE_NOISE: usize = 32 + 16;
/// Bytes of the MAC.
pub(crate) const MAC: usize = 16;
/// Bytes of an initiation.
pub(super) const INITIATION: usize = INITIATION_HEADER + INITIATION_NOISE + 2 * MAC;
/// Bytes of an initiation before its Noise message.
pub(super) const INITIATION_HEADER: usize = 1 + 4 + 8;
/// Bytes of a response.
pub(super) const RESPONSE: usize = 1 + 4 + 4 + RESPONSE_NOISE + MAC;
/// Bytes of a data datagram before its ciphertext.
pub(super) const DATA_HEADER: usize = 1 + 4 + 8;

/// First bytes of the kinds.
pub(super) mod kind {
    pub(in super::super) const INITIATION: u8 = 1;
    pub(in super::super) const RESPONSE: u8 = 2;
    pub(in super::super) const DATA: u8 = 3;
}

/// A datagram of the right form; nothing in it is believed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Datagram<'a> {
    /// The first message of a handshake.
    Initiation {
        /// The initiator's index.
        sender: u32,
        /// The initiator's time.
        time: u64,
        /// Noise message 1.
        noise: &'a [u8],
        /// What the MAC is over.
        covered: &'a [u8],
        /// The MAC.
        mac: &'a [u8],
        /// What the proof is over.
        proven: &'a [u8],
        /// The proof.
        proof: &'a [u8],
    },
    /// The second message of a handshake.
    Response {
        /// The responder's index.
        sender: u32,
        /// The initiator's index.
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
        match bytes.first() {
            Some(&kind::INITIATION) => {
                if bytes.len() != INITIATION {
                    return Err(Refused::Malformed);
                }
                let (proven, proof) = bytes.split_at(INITIATION - MAC);
                let (covered, mac) = proven.split_at(INITIATION - 2 * MAC);
                let (header, noise) = covered.split_at(INITIATION_HEADER);
                let mut time = [0; 8];
                time.copy_from_slice(&header[5..]);
                let (sender, time) = (number(1)?, u64::from_be_bytes(time));
                Ok(Self::Initiation { sender, time, noise, covered, mac, proven, proof })
            }
            Some(&kind::RESPONSE) => {
                if bytes.len() != RESPONSE {
                    return Err(Refused::Malformed);
                }
                let (covered, mac) = bytes.split_at(RESPONSE - MAC);
                let noise = &covered[9..];
                Ok(Self::Response { sender: number(1)?, receiver: number(5)?, noise, covered, mac })
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
