//! The sender's copy of the stream: bytes written by the application and not yet acknowledged in
//! order, handed out as cheap reference-counted slices.

use std::collections::VecDeque;
use std::mem;
use std::ops::Range;

use bytes::{Bytes, BytesMut};

/// Bytes are gathered in blocks of this size, one allocation each.
const BLOCK: usize = 256 << 10;
/// The rest of a block is used for further writes while at least this much is left of it.
const BLOCK_REST: usize = BLOCK / 16;
/// What [`SendBuffer::reserve`] reserves at least.
pub const LEAST_RESERVED: usize = BLOCK_REST;
/// Blocks kept for further writes after all that was in them has been acknowledged.
const SPARE_BLOCKS: usize = 4;

/// The bytes `[start, end)` of the stream.
#[derive(Debug, Default)]
pub struct SendBuffer {
    /// Sealed pieces with their stream offsets, contiguous, lowest first.
    sealed: VecDeque<(u64, Bytes)>,
    /// One past the last sealed byte: where `open` begins.
    sealed_end: u64,
    /// The tail still being written.
    open: BytesMut,
    /// Holds on former `open` blocks, each with one past the last offset in it, lowest first. When
    /// nothing else holds them any more they are filled anew.
    full: VecDeque<(u64, BytesMut)>,
    start: u64,
}

impl SendBuffer {
    /// An empty buffer at offset 0.
    pub fn new() -> Self {
        Self::default()
    }

    /// The lowest offset held.
    pub const fn start(&self) -> u64 {
        self.start
    }

    /// One past the highest offset written.
    pub fn end(&self) -> u64 {
        self.sealed_end + self.open.len() as u64
    }

    /// Appends `data` at [`end`](Self::end).
    pub fn write(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            if self.open.len() == self.open.capacity() {
                self.make_room();
            }
            let room = self.open.capacity() - self.open.len();
            let (now, rest) = data.split_at(room.min(data.len()));
            self.open.extend_from_slice(now);
            data = rest;
        }
    }

    /// Appends `data` at [`end`](Self::end), as it is if that spares copying much.
    pub fn write_bytes(&mut self, data: Bytes) {
        if data.len() < BLOCK_REST {
            return self.write(&data);
        }
        self.seal();
        let offset = self.sealed_end;
        self.sealed_end += data.len() as u64;
        self.sealed.push_back((offset, data));
    }

    /// Reserves memory of at least [`LEAST_RESERVED`] bytes to be filled by the caller, so that nothing is
    /// copied; empty, to be returned with [`commit`](Self::commit).
    pub fn reserve(&mut self) -> BytesMut {
        self.make_room();
        mem::take(&mut self.open)
    }

    /// Appends what reserved memory was filled with at [`end`](Self::end).
    pub fn commit(&mut self, filled: BytesMut) {
        self.seal();
        self.open = filled;
    }

    /// Gives the memory that an idle stream does not need back to the system.
    pub fn trim(&mut self) {
        if self.start == self.end() {
            self.seal();
            self.open = BytesMut::new();
            self.full.clear();
            self.full.shrink_to_fit();
            self.sealed.clear();
            self.sealed.shrink_to_fit();
        }
    }

    /// Appends the bytes of `range` to `out`, in order.
    ///
    /// # Panics
    /// When bytes of `range` are not held.
    pub fn slice(&mut self, range: &Range<u64>, out: &mut VecDeque<Bytes>) {
        assert!(self.start <= range.start && range.end <= self.end(), "only held bytes are sent");
        if range.end > self.sealed_end {
            self.seal();
        }
        let mut at = range.start;
        let mut index = self.sealed.partition_point(|(offset, _)| *offset <= at).saturating_sub(1);
        while at < range.end {
            let (offset, piece) = &self.sealed[index];
            let from = (at - offset) as usize;
            let to = ((range.end - offset) as usize).min(piece.len());
            out.push_back(piece.slice(from..to));
            at += (to - from) as u64;
            index += 1;
        }
    }

    /// Frees the bytes below `offset`.
    ///
    /// # Panics
    /// When `offset` is beyond what was written.
    pub fn release(&mut self, offset: u64) {
        assert!(offset <= self.end(), "only written bytes are acknowledged");
        if offset > self.sealed_end {
            self.seal();
        }
        self.start = self.start.max(offset);
        while let Some((at, piece)) = self.sealed.front()
            && at + piece.len() as u64 <= self.start
        {
            self.sealed.pop_front();
        }
        while self.full.get(SPARE_BLOCKS).is_some_and(|(end, _)| *end <= self.start) {
            self.full.pop_front();
        }
    }

    /// Seals what is written and sees to it that at least [`LEAST_RESERVED`] bytes more fit.
    fn make_room(&mut self) {
        self.seal();
        if self.open.capacity() >= BLOCK_REST {
            return;
        }
        self.full.push_back((self.sealed_end, mem::take(&mut self.open)));
        while self.full.front().is_some_and(|(end, _)| *end <= self.start) {
            let (_, mut block) = self.full.pop_front().expect("just seen");
            if block.try_reclaim(BLOCK) {
                self.open = block;
                return;
            }
        }
        self.open = BytesMut::with_capacity(BLOCK);
    }

    /// Makes the tail sendable. What is left of its block stays for later writes.
    fn seal(&mut self) {
        if !self.open.is_empty() {
            let piece = self.open.split().freeze();
            let offset = self.sealed_end;
            self.sealed_end += piece.len() as u64;
            self.sealed.push_back((offset, piece));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn byte_at(offset: u64) -> u8 {
        (offset.wrapping_mul(31) >> 3) as u8
    }

    proptest! {
        #[test]
        fn slices_hold_what_was_written(sizes in proptest::collection::vec(1usize..700_000, 1..8),
                                        cuts in proptest::collection::vec((0.0f64..1.0, 0.0f64..1.0), 1..20)) {
            let mut buffer = SendBuffer::new();
            let mut out = VecDeque::new();
            for (size, (a, b)) in sizes.into_iter().zip(cuts.into_iter().cycle()) {
                let end = buffer.end();
                let data_end = end + size as u64;
                let data: Vec<u8> = (end..end + size as u64).map(byte_at).collect();
                match data.len() % 3 {
                    0 => buffer.write(&data),
                    1 => buffer.write_bytes(Bytes::from(data)),
                    _ => {
                        let mut left = &data[..];
                        while !left.is_empty() {
                            let mut reserved = buffer.reserve();
                            prop_assert!(reserved.is_empty() && reserved.capacity() >= LEAST_RESERVED);
                            let (now, rest) = left.split_at(left.len().min(reserved.capacity()));
                            reserved.extend_from_slice(now);
                            buffer.commit(reserved);
                            left = rest;
                        }
                    }
                }
                let held = buffer.end() - buffer.start();
                let (a, b) = (a.min(b), a.max(b));
                let range = buffer.start() + (held as f64 * a) as u64..buffer.start() + (held as f64 * b) as u64;
                out.clear();
                buffer.slice(&range, &mut out);
                let sent: Vec<u8> = out.iter().flatten().copied().collect();
                prop_assert!(sent.iter().copied().eq(range.clone().map(byte_at)));
                buffer.release(range.start);
                prop_assert_eq!(buffer.start(), range.start);
                if data_end.is_multiple_of(5) {
                    buffer.trim();
                    prop_assert_eq!(buffer.end(), data_end);
                }
            }
        }

        /// Memory that nobody refers to any more is filled anew.
        #[test]
        fn blocks_are_used_again(sizes in proptest::collection::vec(1usize..300_000, 40)) {
            let mut buffer = SendBuffer::new();
            let mut places = std::collections::BTreeSet::new();
            for size in sizes {
                let mut reserved = buffer.reserve();
                places.insert(reserved.as_ptr() as usize / BLOCK);
                reserved.resize(size.min(reserved.capacity()), 7);
                buffer.commit(reserved);
                buffer.release(buffer.end());
            }
            // One block at a time, wherever its memory lies across two of these places.
            prop_assert!(places.len() <= 4, "{} blocks", places.len());
        }
    }
}
