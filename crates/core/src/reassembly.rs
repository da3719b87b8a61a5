//! The receiver's side of the stream: bytes come in any order and more than once, and leave in
//! order, each once.
//!
//! Bytes are copied into fixed blocks, so that memory is bounded by the credit the receiver gave,
//! whatever sizes and holes a peer sends.

use std::collections::VecDeque;
use std::ops::Range;

use bytes::Bytes;

use crate::pool::{self, Block, BlockPool};
use crate::ranges::RangeSet;

/// Bytes per block.
const BLOCK: u64 = pool::BLOCK as u64;
/// Disjoint pieces held above the in-order point before the peer counts as hostile. A window
/// leaves a handful; the largest credit with the smallest windows leaves some thousands.
pub const MAX_PIECES: usize = 1 << 16;

/// Received bytes, from the application's read offset on.
#[derive(Debug, Default)]
pub struct Reassembly {
    /// Blocks from `first_block` on; `None` where nothing was received.
    blocks: VecDeque<Option<Block>>,
    first_block: u64,
    pool: BlockPool,
    held_blocks: usize,
    /// Received ranges above the in-order point.
    above: RangeSet,
    in_order: u64,
    read: u64,
    duplicates: u64,
}

impl Reassembly {
    /// An empty stream at offset 0 with memory of its own.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with memory of `pool`.
    pub fn with_pool(pool: BlockPool) -> Self {
        Self { pool, ..Self::default() }
    }

    /// One past the last byte that can be read: everything below has been received.
    pub const fn in_order(&self) -> u64 {
        self.in_order
    }

    /// The application's offset: everything below has been read.
    pub const fn read_offset(&self) -> u64 {
        self.read
    }

    /// Ranges received above the in-order point.
    pub const fn above(&self) -> &RangeSet {
        &self.above
    }

    /// Bytes received more than once.
    pub const fn duplicates(&self) -> u64 {
        self.duplicates
    }

    /// Memory held for received bytes.
    pub const fn memory(&self) -> u64 {
        self.held_blocks as u64 * BLOCK
    }

    /// Takes `data` at `offset` and returns how many of its bytes are new. The caller has checked
    /// it against the credit given.
    pub fn insert(&mut self, offset: u64, data: &[u8]) -> u64 {
        let end = offset + data.len() as u64;
        let mut at = offset.max(self.in_order);
        let mut new = 0;
        while let Some(hole) = self.above.first_missing(&(at..end)) {
            let from = (hole.start - offset) as usize;
            let to = (hole.end - offset) as usize;
            self.copy_in(hole.start, &data[from..to]);
            new += self.above.insert(hole.clone());
            at = hole.end;
        }
        self.duplicates += data.len() as u64 - new;
        if let Some(first) = self.above.first()
            && first.start == self.in_order
        {
            self.in_order = first.end;
            self.above.remove(first);
        }
        new
    }

    /// The lowest part of `range` that has not been received.
    pub fn first_missing(&self, range: &Range<u64>) -> Option<Range<u64>> {
        self.above.first_missing(&(range.start.max(self.in_order)..range.end))
    }

    /// Marks `range` as received though its bytes are kept elsewhere or are of no use, and returns
    /// how many of its offsets are new. What has been marked counts as read; such a stream takes
    /// no [`insert`](Self::insert).
    pub fn mark(&mut self, range: Range<u64>) -> u64 {
        let new = self.above.insert(range.start.max(self.in_order)..range.end.max(self.in_order));
        if let Some(first) = self.above.first()
            && first.start == self.in_order
        {
            self.in_order = first.end;
            self.above.remove(first);
        }
        self.read = self.in_order;
        self.first_block = self.read / BLOCK;
        new
    }

    /// Counts bytes that came again and were not offered to [`insert`](Self::insert).
    pub const fn count_duplicates(&mut self, bytes: u64) {
        self.duplicates += bytes;
    }

    /// In-order bytes that can be read now; empty when there are none.
    pub fn chunk(&self) -> &[u8] {
        if self.read == self.in_order {
            return &[];
        }
        let from = self.read % BLOCK;
        let to = (from + (self.in_order - self.read)).min(BLOCK);
        let block = self.blocks.front().and_then(Option::as_ref);
        &block.expect("in-order bytes are held")[from as usize..to as usize]
    }

    /// Takes the rest of a block out, without copying it, if all of it can be read.
    pub fn take_block(&mut self) -> Option<Bytes> {
        let next = (self.read / BLOCK + 1) * BLOCK;
        if self.in_order < next {
            return None;
        }
        let block = self.blocks.pop_front().flatten().expect("in-order bytes are held");
        self.held_blocks -= 1;
        let from = (self.read % BLOCK) as usize;
        self.read = next;
        self.first_block += 1;
        Some(Bytes::from_owner(block).slice(from..))
    }

    /// Copies what [`chunk`](Self::chunk) has into memory of its own, and frees it here. A little of it
    /// takes as little memory, as it may be kept for long.
    pub fn copy_chunk(&mut self) -> Bytes {
        if self.chunk().len() < BLOCK as usize / 8 {
            let copy = Bytes::copy_from_slice(self.chunk());
            self.consume(copy.len() as u64);
            return copy;
        }
        let mut block = self.pool.take();
        let chunk = self.chunk();
        let n = chunk.len();
        block[..n].copy_from_slice(chunk);
        self.consume(n as u64);
        Bytes::from_owner(block).slice(..n)
    }

    /// Frees the next `n` bytes.
    ///
    /// # Panics
    /// When fewer than `n` bytes can be read.
    pub fn consume(&mut self, n: u64) {
        assert!(n <= self.in_order - self.read, "only in-order bytes are read");
        self.read += n;
        while self.first_block < self.read / BLOCK {
            self.first_block += 1;
            if let Some(Some(_)) = self.blocks.pop_front() {
                self.held_blocks -= 1;
            }
        }
        if self.read == self.in_order && self.above.is_empty() {
            // What comes next takes another block: an idle stream has none.
            self.blocks.clear();
            self.held_blocks = 0;
        }
    }

    fn copy_in(&mut self, mut offset: u64, mut data: &[u8]) {
        while !data.is_empty() {
            let index = (offset / BLOCK - self.first_block) as usize;
            let from = (offset % BLOCK) as usize;
            let n = data.len().min(BLOCK as usize - from);
            if self.blocks.len() <= index {
                self.blocks.resize_with(index + 1, || None);
            }
            let slot = &mut self.blocks[index];
            if slot.is_none() {
                self.held_blocks += 1;
                *slot = Some(self.pool.take());
            }
            let block = slot.as_mut().expect("filled above");
            block[from..from + n].copy_from_slice(&data[..n]);
            offset += n as u64;
            data = &data[n..];
        }
    }

    /// The end of the last byte that has been received.
    pub fn end(&self) -> u64 {
        self.above.last().map_or(self.in_order, |range| range.end)
    }

    /// Whether `range` has been received whole.
    pub fn has(&self, range: &Range<u64>) -> bool {
        range.end <= self.in_order
            || self.above.contains(&(range.start.max(self.in_order)..range.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Whoever collects them until a line is whole holds as much memory as there are bytes.
    #[test]
    fn a_little_that_is_taken_out_keeps_no_block() {
        let mut stream = Reassembly::new();
        for offset in 0..100 {
            stream.insert(offset, &[7]);
            let taken = stream.copy_chunk();
            let memory = taken.try_into_mut().expect("nobody else has it");
            assert_eq!((&memory[..], memory.capacity()), (&[7][..], 1));
        }
    }

    fn byte_at(offset: u64) -> u8 {
        (offset.wrapping_mul(2_654_435_761) >> 13) as u8
    }

    proptest! {
        /// Any order, any overlap: every byte once, in order, and blocks only where bytes are.
        #[test]
        fn releases_every_byte_once(pieces in proptest::collection::vec((0u64..400_000, 1u64..150_000), 1..30),
                                    reads in proptest::collection::vec(1u64..200_000, 1..30)) {
            let mut stream = Reassembly::new();
            let mut got = 0u64;
            let total = 500_000u64;
            let mut offered = 0;
            let all = pieces.into_iter().map(|(o, n)| o..(o + n).min(total)).chain(std::iter::once(0..total));
            for (piece, want) in all.zip(reads.into_iter().cycle()) {
                let data: Vec<u8> = piece.clone().map(byte_at).collect();
                offered += data.len() as u64;
                stream.insert(piece.start, &data);
                prop_assert!(stream.has(&piece));
                let mut left = want.min(stream.in_order() - stream.read_offset());
                if stream.in_order() == total
                    && let Some(block) = stream.take_block()
                {
                    let n = block.len() as u64;
                    prop_assert!(block.iter().copied().eq((got..got + n).map(byte_at)));
                    got += n;
                    continue;
                }
                while left > 0 {
                    let chunk = stream.chunk();
                    let n = chunk.len().min(left as usize);
                    prop_assert!(chunk[..n].iter().copied().eq((got..got + n as u64).map(byte_at)));
                    stream.consume(n as u64);
                    got += n as u64;
                    left -= n as u64;
                }
                prop_assert!(stream.memory() <= total - stream.read_offset() + 2 * BLOCK);
            }
            prop_assert_eq!(stream.in_order(), total);
            prop_assert_eq!(stream.duplicates(), offered - total);
            prop_assert!(stream.above().is_empty());
        }
    }

    #[test]
    fn blocks_are_held_until_their_last_byte_is_read() {
        let mut stream = Reassembly::new();
        stream.insert(0, &vec![0; 4 * BLOCK as usize]);
        for (read, left) in [(0, 4), (BLOCK - 1, 4), (1, 3), (2 * BLOCK - 1, 2), (1, 1)] {
            stream.consume(read);
            assert_eq!(stream.memory(), left * BLOCK);
        }
    }
}
