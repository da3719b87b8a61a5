//! Keys of lanes: who may speak on one, and that nobody else reads or changes what is said.
//!
//! Both ends have a session's secret from their authenticated connection. Of it each lane has a chain of
//! keys in each direction (HKDF-SHA256, RFC 5869): after 2^23 datagrams the next one, from which the one
//! before cannot be computed. So a key seals less than AES-GCM's bounds allow (RFC 8446 §5.5), and no
//! exchange is needed for that. The nonce is the datagram's sequence number, which is used once.

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use weftline_core::replay::ReplayWindow;

/// Bytes of a session's secret.
pub const SECRET_BYTES: usize = 32;
/// Bytes of a datagram before what is encrypted: kind, session, lane, sequence number.
pub(super) const HEADER: usize = 1 + 4 + 1 + 8;
/// Bytes of an AES-GCM tag.
pub(super) const TAG: usize = 16;
/// The first byte of a datagram of a lane.
const KIND: u8 = 0x4c;
/// Datagrams after which the next key is used.
const EPOCH: u64 = 1 << 23;

/// A session's secret. It has no `Debug`.
#[derive(Clone)]
pub struct LaneSecret([u8; SECRET_BYTES]);

impl LaneSecret {
    /// That of a session whose ends have agreed on these bytes.
    pub const fn new(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }
}

/// Which of the two ends sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    FromClient,
    FromServer,
}

/// Where a datagram belongs; nothing in it is believed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) session: u32,
    pub(super) lane: u8,
    pub(super) sequence: u64,
}

impl Header {
    /// Reads the form; `None` if it is no datagram of a lane.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let header: &[u8; HEADER] = bytes.first_chunk()?;
        let [KIND, a, b, c, d, lane, sequence @ ..] = *header else { return None };
        let session = u32::from_be_bytes([a, b, c, d]);
        (bytes.len() >= HEADER + TAG).then_some(Self {
            session,
            lane,
            sequence: u64::from_be_bytes(sequence),
        })
    }

    fn encode(self, out: &mut Vec<u8>) {
        out.push(KIND);
        out.extend_from_slice(&self.session.to_be_bytes());
        out.push(self.lane);
        out.extend_from_slice(&self.sequence.to_be_bytes());
    }
}

/// Why a datagram was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    /// It was changed, or made by somebody without the key.
    #[error("forged or corrupted")]
    Forged,
    /// It came before, or is too old to tell.
    #[error("replayed")]
    Replayed,
}

struct Length;

impl KeyType for Length {
    fn len(&self) -> usize {
        SECRET_BYTES
    }
}

fn expand(key: &Prk, info: &[&[u8]]) -> [u8; SECRET_BYTES] {
    let mut bytes = [0; SECRET_BYTES];
    let expanded = key.expand(info, Length).and_then(|all| all.fill(&mut bytes));
    expanded.expect("32 bytes are less than HKDF gives at most");
    bytes
}

/// A link of a chain of keys.
struct Link {
    epoch: u64,
    secret: Prk,
    key: LessSafeKey,
}

impl Link {
    fn first(secret: &LaneSecret, lane: u8, direction: Direction) -> Self {
        let session = Salt::new(HKDF_SHA256, b"weftline lanes 1").extract(&secret.0);
        Self::new(0, expand(&session, &[b"lane", &[lane, direction as u8]]))
    }

    fn new(epoch: u64, secret: [u8; SECRET_BYTES]) -> Self {
        let secret = Prk::new_less_safe(HKDF_SHA256, &secret);
        let key = UnboundKey::new(&AES_256_GCM, &expand(&secret, &[b"key"]));
        Self { epoch, secret, key: LessSafeKey::new(key.expect("32 bytes are a key")) }
    }

    fn next(&self) -> Self {
        Self::new(self.epoch + 1, expand(&self.secret, &[b"next"]))
    }
}

fn nonce(sequence: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[4..].copy_from_slice(&sequence.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

/// Seals what this end sends on a lane.
pub(super) struct Sealer {
    session: u32,
    lane: u8,
    link: Link,
}

impl Sealer {
    pub(super) fn new(session: u32, secret: &LaneSecret, lane: u8, direction: Direction) -> Self {
        Self { session, lane, link: Link::first(secret, lane, direction) }
    }

    /// Appends a datagram with `frame` to `out`. Sequence numbers must rise.
    pub(super) fn seal(&mut self, sequence: u64, frame: &[u8], out: &mut Vec<u8>) {
        while self.link.epoch < sequence / EPOCH {
            self.link = self.link.next();
        }
        let at = out.len();
        Header { session: self.session, lane: self.lane, sequence }.encode(out);
        out.extend_from_slice(frame);
        let (header, sealed) = out[at..].split_at_mut(HEADER);
        let aad = Aad::from(&*header);
        let tag = self.link.key.seal_in_place_separate_tag(nonce(sequence), aad, sealed);
        out.extend_from_slice(tag.expect("frames are short").as_ref());
    }
}

/// Opens what comes on a lane.
pub(super) struct Opener {
    link: Link,
    before: Option<Link>,
    /// Made when a datagram first says that it is sealed with it, which strangers may say as well.
    next: Option<Link>,
    came: ReplayWindow,
}

impl Opener {
    pub(super) fn new(secret: &LaneSecret, lane: u8, direction: Direction) -> Self {
        let link = Link::first(secret, lane, direction);
        Self { link, before: None, next: None, came: ReplayWindow::default() }
    }

    /// Decrypts a datagram in its place; the frame, and whether it is the newest so far.
    ///
    /// # Errors
    /// When it is not authentic, or came before.
    pub(super) fn open<'a>(
        &mut self,
        header: Header,
        datagram: &'a mut [u8],
    ) -> Result<(&'a mut [u8], bool), Refused> {
        let sequence = header.sequence;
        if sequence == u64::MAX || !self.came.is_fresh(sequence) {
            return Err(Refused::Replayed);
        }
        let epoch = sequence / EPOCH;
        let is_next = epoch == self.link.epoch + 1;
        let link = match epoch {
            _ if is_next => self.next.get_or_insert_with(|| self.link.next()),
            _ if epoch == self.link.epoch => &self.link,
            // What is on its way when a key is new.
            _ => self.before.as_ref().filter(|one| one.epoch == epoch).ok_or(Refused::Forged)?,
        };
        let (header, sealed) = datagram.split_at_mut(HEADER);
        let opened = link.key.open_in_place(nonce(sequence), Aad::from(&*header), sealed);
        let frame = opened.map_err(|_| Refused::Forged)?;
        if let Some(next) = self.next.take_if(|_| is_next) {
            self.before = Some(std::mem::replace(&mut self.link, next));
        }
        let is_newest = sequence >= self.came.end();
        self.came.take(sequence);
        Ok((frame, is_newest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (Sealer, Opener) {
        let secret = LaneSecret::new([7; SECRET_BYTES]);
        let direction = Direction::FromClient;
        (Sealer::new(5, &secret, 2, direction), Opener::new(&secret, 2, direction))
    }

    fn open(opener: &mut Opener, datagram: &[u8]) -> Result<(Vec<u8>, bool), Refused> {
        let mut datagram = datagram.to_vec();
        let header = Header::decode(&datagram).unwrap();
        opener.open(header, &mut datagram).map(|(frame, newest)| (frame.to_vec(), newest))
    }

    fn seal(sealer: &mut Sealer, sequence: u64) -> Vec<u8> {
        let mut out = Vec::new();
        sealer.seal(sequence, b"frame", &mut out);
        out
    }

    #[test]
    fn a_datagram_opens_once_and_only_as_it_was_sealed() {
        let (mut sealer, mut opener) = pair();
        let (first, second) = (seal(&mut sealer, 0), seal(&mut sealer, 1));
        assert_eq!(open(&mut opener, &second), Ok((b"frame".to_vec(), true)));
        assert_eq!(open(&mut opener, &first), Ok((b"frame".to_vec(), false)));
        assert_eq!(open(&mut opener, &first), Err(Refused::Replayed));
        let third = seal(&mut sealer, 2);
        for at in 0..third.len() {
            let mut changed = third.clone();
            changed[at] ^= 1;
            if Header::decode(&changed).is_some() {
                let mut changed_header = changed.clone();
                let header = Header::decode(&changed_header).unwrap();
                assert!(opener.open(header, &mut changed_header).is_err(), "byte {at}");
            }
        }
        assert!(open(&mut opener, &third).is_ok());
        // Not on another lane, nor back to its sender.
        let secret = LaneSecret::new([7; SECRET_BYTES]);
        for (lane, direction) in [(3, Direction::FromClient), (2, Direction::FromServer)] {
            let mut other = Opener::new(&secret, lane, direction);
            assert_eq!(open(&mut other, &third), Err(Refused::Forged));
        }
    }

    #[test]
    fn keys_are_followed_by_others() {
        let (mut sealer, mut opener) = pair();
        let late = seal(&mut sealer, EPOCH - 1);
        let (mut sealer, _) = pair();
        for sequence in [0, EPOCH - 2, EPOCH, EPOCH + 1, 2 * EPOCH] {
            let sealed = seal(&mut sealer, sequence);
            assert!(open(&mut opener, &sealed).is_ok(), "{sequence}");
            if sequence == EPOCH {
                assert!(open(&mut opener, &late).is_ok(), "it was on its way");
            }
        }
        // Two keys on is nothing that this end follows.
        assert_eq!(open(&mut opener, &seal(&mut sealer, 5 * EPOCH)), Err(Refused::Forged));
    }
}
