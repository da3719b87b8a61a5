//! The keys that a handshake gave, and what was sent and received with them.

use snow::StatelessTransportState;
use weftline_core::Instant;

use super::Refused;
use super::datagram::{DATA_HEADER, kind};
use super::replay::ReplayWindow;

/// Bytes of an AES-GCM tag.
const TAG: usize = 16;

/// Bytes that a data datagram has besides its frame.
pub(crate) const DATA_OVERHEAD: usize = DATA_HEADER + TAG;

/// Datagrams in either direction after which keys are made anew. AES-GCM's advantage bounds allow
/// 2^24.5 full ones (RFC 8446 §5.5); at 200,000 a second this comes every 42 s.
pub(super) const RENEW_AFTER: u64 = 1 << 23;

/// Datagrams that are the most to send with one key, if there is no other.
const LIMIT: u64 = 3 << 23;

/// One side of a session.
pub(super) struct Session {
    noise: StatelessTransportState,
    /// The index that we chose.
    pub(super) local: u32,
    remote: u32,
    pub(super) begun: Instant,
    /// The counter of the next datagram we send.
    sent: u64,
    received: ReplayWindow,
    plaintext: bool,
}

impl Session {
    pub(super) fn new(
        noise: StatelessTransportState,
        local: u32,
        remote: u32,
        begun: Instant,
        plaintext: bool,
    ) -> Self {
        let received = ReplayWindow::default();
        Self { noise, local, remote, begun, sent: 0, received, plaintext }
    }

    /// Appends a datagram with `frame` to `out`; its counter, or `None` if the keys are used up.
    pub(super) fn seal(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Option<u64> {
        let counter = self.sent;
        if counter >= LIMIT {
            return None;
        }
        self.sent += 1;
        out.push(kind::DATA);
        out.extend_from_slice(&self.remote.to_be_bytes());
        out.extend_from_slice(&counter.to_be_bytes());
        if self.plaintext {
            out.extend_from_slice(frame);
            return Some(counter);
        }
        let at = out.len();
        out.resize(at + frame.len() + TAG, 0);
        let sealed = self.noise.write_message(counter, frame, &mut out[at..]);
        sealed.expect("frames are short, and there is room for the tag");
        Some(counter)
    }

    /// Decrypts into the start of `out`, which is as long as any datagram; the frame's length.
    pub(super) fn open(
        &mut self,
        counter: u64,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Refused> {
        if counter >= LIMIT {
            return Err(Refused::Forged);
        }
        if !self.received.is_fresh(counter) {
            return Err(Refused::Replayed);
        }
        let out = out.get_mut(..sealed.len()).ok_or(Refused::Malformed)?;
        let length = if self.plaintext {
            out.copy_from_slice(sealed);
            sealed.len()
        } else {
            self.noise.read_message(counter, sealed, out).map_err(|_| Refused::Forged)?
        };
        self.received.take(counter);
        Ok(length)
    }

    /// Datagrams in the direction that has more of them.
    pub(super) fn used(&self) -> u64 {
        self.sent.max(self.received.end())
    }

    /// The counter of the next datagram to send.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }
}
