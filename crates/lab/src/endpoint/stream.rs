//! The byte stream of the lab's own sender and receiver: blocks that carry a time stamp, filled so
//! that the receiver can check every byte.
//!
//! A block is a header of 16 bytes (magic, length, time stamp; little endian) and filling. The
//! filling depends on the seed, the block's position in the stream and the place within the block,
//! so a byte lost, doubled, changed or moved is noticed. It is made and checked eight bytes at a
//! time, several GB/s.

use weftline_core::Instant;

/// Bytes of a block's header.
pub(crate) const HEADER: usize = 16;

/// Longest block, header included; a longer length in a header is refused.
pub(crate) const BLOCK_MAX: usize = 16 << 20;

const MAGIC: u32 = 0x5745_4654;

/// From one word of filling to the next: odd, with well-spread bits (2^64 ÷ φ), so that all eight
/// bytes differ.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The first word of filling of the block at `position`.
fn first_word(seed: u64, position: u64) -> u64 {
    let mut z = seed ^ position.wrapping_mul(0xd1b5_4a32_d192_ed03);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z ^ (z >> 27)
}

/// Writes a block over the whole of `block`, for `position` of the stream, stamped `stamp`.
pub(crate) fn fill_block(block: &mut [u8], seed: u64, position: u64, stamp: Instant) {
    assert!((HEADER..=BLOCK_MAX).contains(&block.len()), "a block has room for its header");
    let len = block.len() as u32;
    block[..4].copy_from_slice(&MAGIC.to_le_bytes());
    block[4..8].copy_from_slice(&len.to_le_bytes());
    block[8..HEADER].copy_from_slice(&stamp.as_nanos().to_le_bytes());
    let mut word = first_word(seed, position);
    let (words, rest) = block[HEADER..].as_chunks_mut::<8>();
    for bytes in words {
        *bytes = word.to_le_bytes();
        word = word.wrapping_add(STEP);
    }
    rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
}

/// A byte of the stream that is not what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the stream is damaged: {what} at byte {position}")]
pub(crate) struct Damaged {
    /// Where in the stream.
    position: u64,
    /// What is wrong there.
    what: &'static str,
}

/// Checks a stream of blocks as it arrives in pieces of any size.
#[derive(Debug)]
pub(crate) struct Checker {
    seed: u64,
    /// Bytes checked so far.
    position: u64,
    block: Block,
}

#[derive(Debug)]
enum Block {
    /// Collecting the header.
    Header { start: u64, bytes: [u8; HEADER], have: usize },
    /// Inside the filling: bytes checked, bytes in all.
    Filling { first_word: u64, at: usize, len: usize, stamp: Instant },
}

impl Checker {
    /// A checker of a stream made with `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed, position: 0, block: Block::begin(0) }
    }

    /// Bytes checked so far.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Checks the next `bytes` of the stream; `each` gets the stamp of every piece of a block and how
    /// many bytes it has. A header counts when it is whole.
    pub(crate) fn accept(
        &mut self,
        mut bytes: &[u8],
        mut each: impl FnMut(Instant, u64),
    ) -> Result<(), Damaged> {
        while !bytes.is_empty() {
            let in_header = matches!(self.block, Block::Header { .. });
            let taken = self.advance(bytes)?;
            self.position += taken as u64;
            bytes = &bytes[taken..];
            if let Block::Filling { at, len, stamp, .. } = self.block {
                each(stamp, if in_header { HEADER } else { taken } as u64);
                if at == len {
                    self.block = Block::begin(self.position);
                }
            }
        }
        Ok(())
    }

    /// Takes what belongs to the current header or filling; how much that was.
    fn advance(&mut self, bytes: &[u8]) -> Result<usize, Damaged> {
        let position = self.position;
        match &mut self.block {
            Block::Header { start, bytes: header, have } => {
                let take = bytes.len().min(HEADER - *have);
                header[*have..*have + take].copy_from_slice(&bytes[..take]);
                *have += take;
                if *have == HEADER {
                    self.block = Block::open(self.seed, *start, header)?;
                }
                Ok(take)
            }
            Block::Filling { first_word, at, len, .. } => {
                let take = bytes.len().min(*len - *at);
                if let Some(wrong) = first_difference(*first_word, *at, &bytes[..take]) {
                    let position = position + wrong as u64;
                    return Err(Damaged { position, what: "an unexpected byte" });
                }
                *at += take;
                Ok(take)
            }
        }
    }
}

impl Block {
    fn begin(start: u64) -> Self {
        Self::Header { start, bytes: [0; HEADER], have: 0 }
    }

    fn open(seed: u64, start: u64, header: &[u8; HEADER]) -> Result<Self, Damaged> {
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("4 bytes"));
        let damaged = |what| Err(Damaged { position: start, what });
        if word(0) != MAGIC {
            return damaged("no block header");
        }
        let len = word(4) as usize;
        if !(HEADER..=BLOCK_MAX).contains(&len) {
            return damaged("an impossible block length");
        }
        let stamp = u64::from_le_bytes(header[8..].try_into().expect("8 bytes"));
        let first_word = first_word(seed, start);
        let stamp = Instant::from_nanos(stamp);
        Ok(Self::Filling { first_word, at: 0, len: len - HEADER, stamp })
    }
}

/// Where `bytes`, from offset `at` of a block's filling, first differ from what they should be.
fn first_difference(first_word: u64, at: usize, bytes: &[u8]) -> Option<usize> {
    let expected = |offset: usize| {
        let word = first_word.wrapping_add(STEP.wrapping_mul((offset / 8) as u64));
        word.to_le_bytes()[offset % 8]
    };
    let bytewise = |from: usize, part: &[u8]| {
        part.iter().enumerate().position(|(k, &byte)| byte != expected(at + from + k))
    };
    let (head, rest) = bytes.split_at(bytes.len().min((8 - at % 8) % 8));
    let (words, tail) = rest.as_chunks::<8>();
    let mut word = first_word.wrapping_add(STEP.wrapping_mul(((at + head.len()) / 8) as u64));
    let mut differ = 0;
    for bytes in words {
        differ |= u64::from_le_bytes(*bytes) ^ word;
        word = word.wrapping_add(STEP);
    }
    if differ != 0 {
        return bytewise(0, bytes);
    }
    let tail_from = bytes.len() - tail.len();
    bytewise(0, head).or_else(|| bytewise(tail_from, tail).map(|k| tail_from + k))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(seed: u64, lens: &[usize]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (k, &len) in lens.iter().enumerate() {
            let start = bytes.len();
            bytes.resize(start + len, 0);
            let stamp = Instant::from_millis(k as u64);
            fill_block(&mut bytes[start..], seed, start as u64, stamp);
        }
        bytes
    }

    proptest! {
        #[test]
        fn whole_streams_pass_in_pieces(
            seed in any::<u64>(),
            lens in prop::collection::vec(HEADER..500, 1..20),
            pieces in prop::collection::vec(1usize..700, 1..10),
        ) {
            let bytes = stream(seed, &lens);
            let mut checker = Checker::new(seed);
            let (mut rest, mut stamped) = (&bytes[..], vec![0; lens.len()]);
            for piece in pieces.iter().cycle() {
                let (now, later) = rest.split_at(rest.len().min(*piece));
                let mut each = |stamp: Instant, bytes| {
                    stamped[(stamp.as_nanos() / 1_000_000) as usize] += bytes as usize;
                };
                checker.accept(now, &mut each).unwrap();
                rest = later;
                if rest.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(checker.position(), bytes.len() as u64);
            // The k-th block is stamped with k ms.
            prop_assert_eq!(stamped, lens);
        }

        #[test]
        fn one_wrong_byte_is_found(
            lens in prop::collection::vec(40usize..500, 1..5),
            place in any::<prop::sample::Index>(),
            flip in 1u8..,
            piece in 1usize..300,
        ) {
            let mut bytes = stream(9, &lens);
            let place = place.index(bytes.len());
            // A time stamp can be anything: only its plausibility could be checked.
            let starts = lens.iter().scan(0, |at, len| { let start = *at; *at += len; Some(start) });
            prop_assume!(!starts.into_iter().any(|s| (s + 8..s + HEADER).contains(&place)));
            bytes[place] ^= flip;
            let mut checker = Checker::new(9);
            let mut found = None;
            for part in bytes.chunks(piece) {
                if let Err(damaged) = checker.accept(part, |_, _| {}) {
                    found = Some(damaged.position);
                    break;
                }
            }
            // A wrong length shows at the next header, or makes the stream look unfinished.
            let found = found.unwrap_or(bytes.len() as u64);
            prop_assert!(found + HEADER as u64 >= place as u64);
            prop_assert!(checker.position() < bytes.len() as u64 || found == bytes.len() as u64);
        }
    }

    #[test]
    fn moved_and_doubled_blocks_are_noticed() {
        let bytes = stream(1, &[100, 100, 100]);
        for order in [[0, 2, 1], [0, 0, 1], [1, 2, 0]] {
            let mut checker = Checker::new(1);
            let mut parts = order.iter().map(|k| &bytes[k * 100..(k + 1) * 100]);
            assert!(parts.any(|part| checker.accept(part, |_, _| {}).is_err()), "{order:?}");
        }
    }
}
