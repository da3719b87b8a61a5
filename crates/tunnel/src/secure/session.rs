//! The keys that a handshake gave, and what was sent and received with them.

use snow::StatelessTransportState;
use weftline_coding::node::Place;
use weftline_core::Instant;
use weftline_core::replay::ReplayWindow;

use super::Refused;
use super::datagram::{DATA_HEADER, kind};

/// Bytes of an AES-GCM tag.
const TAG: usize = 16;

/// Bytes that a data datagram has besides its frame.
pub(crate) const DATA_OVERHEAD: usize = DATA_HEADER + TAG;

/// Bytes that a sealed packet has besides the packet.
pub(crate) const PACKET_OVERHEAD: usize = TAG;

/// What a sealed packet's place is added to for its nonce: datagrams' counters are below.
const PACKETS: u64 = 1 << 62;

/// Labels that have different nonces.
const LABELS: u32 = 1 << 14;

/// Where a packet is in what a side sends: the cohort's label, 14 bits of it, the flow, 16 bits, and its
/// place there, 32 bits; or its number. A side gives a flow's place once. The label is there so that a
/// packet opens in its own generation only: the labels that a device takes are far closer together
/// than 2^14.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nonce(u64);

impl Nonce {
    /// Of a packet that is coded.
    pub(crate) fn of_place(place: Place) -> Self {
        let label = u64::from(place.label.0 % LABELS);
        Self(PACKETS | label << 48 | u64::from(place.flow) << 32 | u64::from(place.arrival.0))
    }

    /// Of one that is not.
    pub(crate) fn of_number(number: u32) -> Self {
        Self(PACKETS | u64::from(number))
    }
}

/// Datagrams and packets in either direction after which keys are made anew. AES-GCM's advantage bounds allow
/// 2^24.5 full ones (RFC 8446 §5.5); at 200,000 a second this comes every 42 s.
pub(super) const RENEW_AFTER: u64 = 1 << 23;

/// What is the most to send with one key, if there is no other.
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
    /// Packets that were sealed, and opened.
    packets_sealed: u64,
    packets_opened: u64,
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
        Self {
            noise,
            local,
            remote,
            begun,
            sent: 0,
            received,
            packets_sealed: 0,
            packets_opened: 0,
            plaintext,
        }
    }

    /// Appends a datagram with `frame` to `out`; its counter, or `None` if the keys are used up.
    pub(super) fn seal(&mut self, frame: &[u8], out: &mut Vec<u8>) -> Option<u64> {
        let counter = self.sent;
        if self.sealed() >= LIMIT {
            return None;
        }
        self.sent += 1;
        out.push(kind::DATA);
        out.extend_from_slice(&self.remote.to_be_bytes());
        out.extend_from_slice(&counter.to_be_bytes());
        self.encrypt(counter, frame, out);
        Some(counter)
    }

    /// Appends the ciphertext of a packet to `out`. Its place, which it opens in only, is known where
    /// it is opened. Whether there are keys left.
    pub(super) fn seal_packet(&mut self, nonce: Nonce, packet: &[u8], out: &mut Vec<u8>) -> bool {
        if self.sealed() >= LIMIT {
            return false;
        }
        self.packets_sealed += 1;
        self.encrypt(nonce.0, packet, out);
        true
    }

    /// What was encrypted.
    fn sealed(&self) -> u64 {
        self.sent + self.packets_sealed
    }

    /// Whether a packet was sealed in it.
    pub(super) fn has_packets(&self) -> bool {
        self.packets_sealed > 0
    }

    /// Whether a datagram came in it.
    pub(super) fn was_heard(&self) -> bool {
        self.received.end() > 0
    }

    fn encrypt(&self, nonce: u64, content: &[u8], out: &mut Vec<u8>) {
        if self.plaintext {
            out.extend_from_slice(content);
            return;
        }
        let at = out.len();
        out.resize(at + content.len() + TAG, 0);
        let sealed = self.noise.write_message(nonce, content, &mut out[at..]);
        sealed.expect("frames are short, and there is room for the tag");
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
        let length = self.decrypt(counter, sealed, out)?;
        self.received.take(counter);
        Ok(length)
    }

    /// As [`Self::open`], a packet of this place. That it is not taken twice is up to those who put
    /// packets into their places.
    pub(super) fn open_packet(
        &mut self,
        nonce: Nonce,
        sealed: &[u8],
        out: &mut [u8],
    ) -> Result<usize, Refused> {
        let length = self.decrypt(nonce.0, sealed, out)?;
        self.packets_opened += 1;
        Ok(length)
    }

    fn decrypt(&self, nonce: u64, sealed: &[u8], out: &mut [u8]) -> Result<usize, Refused> {
        let out = out.get_mut(..sealed.len()).ok_or(Refused::Malformed)?;
        if self.plaintext {
            out.copy_from_slice(sealed);
            return Ok(sealed.len());
        }
        self.noise.read_message(nonce, sealed, out).map_err(|_| Refused::Forged)
    }

    /// What was encrypted in the direction that has more of it.
    pub(super) fn used(&self) -> u64 {
        self.sealed().max(self.received.end().saturating_add(self.packets_opened))
    }

    /// The counter of the next datagram to send.
    pub(super) fn sent(&self) -> u64 {
        self.sent
    }
}
