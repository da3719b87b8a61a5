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

/// Bytes of a sealed packet before its ciphertext: its number.
const NUMBER: usize = 4;

/// Bytes that a sealed packet has besides the packet.
pub(crate) const PACKET_OVERHEAD: usize = NUMBER + TAG;

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
        let counter = self.count()?;
        out.push(kind::DATA);
        out.extend_from_slice(&self.remote.to_be_bytes());
        out.extend_from_slice(&counter.to_be_bytes());
        self.encrypt(counter, frame, out);
        Some(counter)
    }

    /// Appends a packet to `out` that is to be coded on its way: its number and its ciphertext. It
    /// has its number in common with datagrams, so that no nonce is used twice. Whether there are
    /// keys left.
    pub(super) fn seal_packet(&mut self, packet: &[u8], out: &mut Vec<u8>) -> bool {
        let Some(counter) = self.count() else { return false };
        let number = u32::try_from(counter).expect("keys are used up long before");
        out.extend_from_slice(&number.to_be_bytes());
        self.encrypt(counter, packet, out);
        true
    }

    /// The number of what is sent next.
    fn count(&mut self) -> Option<u64> {
        let counter = self.sent;
        if counter >= LIMIT {
            return None;
        }
        self.sent += 1;
        Some(counter)
    }

    fn encrypt(&self, counter: u64, content: &[u8], out: &mut Vec<u8>) {
        if self.plaintext {
            out.extend_from_slice(content);
            return;
        }
        let at = out.len();
        out.resize(at + content.len() + TAG, 0);
        let sealed = self.noise.write_message(counter, content, &mut out[at..]);
        sealed.expect("frames are short, and there is room for the tag");
    }

    /// Decrypts into the start of `out`, which is as long as any datagram; the frame's length.
    pub(super) fn open(
        &mut self,
        counter: u64,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Refused> {
        if !self.received.is_fresh(counter) {
            return Err(Refused::Replayed);
        }
        let length = self.decrypt(counter, sealed, out)?;
        self.received.take(counter);
        Ok(length)
    }

    /// As [`Self::open`], a packet with its number, which is taken once only.
    pub(super) fn open_packet(&mut self, sealed: &[u8], out: &mut [u8]) -> Result<usize, Refused> {
        let (counter, sealed) = split_packet(sealed)?;
        // What is forged is told from what is repeated: its number alone says nothing.
        let length = self.decrypt(counter, sealed, out)?;
        if !self.received.is_fresh(counter) {
            return Err(Refused::Replayed);
        }
        self.received.take(counter);
        Ok(length)
    }

    /// Whether a packet with its number is the other side's, and has not been taken.
    pub(super) fn check_packet(&self, sealed: &[u8], out: &mut [u8]) -> Result<(), Refused> {
        let (counter, sealed) = split_packet(sealed)?;
        self.decrypt(counter, sealed, out)?;
        if self.received.is_fresh(counter) { Ok(()) } else { Err(Refused::Replayed) }
    }

    fn decrypt(&self, counter: u64, sealed: &[u8], out: &mut [u8]) -> Result<usize, Refused> {
        if counter >= LIMIT {
            return Err(Refused::Forged);
        }
        let out = out.get_mut(..sealed.len()).ok_or(Refused::Malformed)?;
        if self.plaintext {
            out.copy_from_slice(sealed);
            return Ok(sealed.len());
        }
        self.noise.read_message(counter, sealed, out).map_err(|_| Refused::Forged)
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

/// A packet's number and its ciphertext.
fn split_packet(sealed: &[u8]) -> Result<(u64, &[u8]), Refused> {
    let (number, sealed) = sealed.split_first_chunk::<NUMBER>().ok_or(Refused::Malformed)?;
    Ok((u32::from_be_bytes(*number).into(), sealed))
}
