//! Where packets wait inside the emulator: chunks filled one after the other.
//!
//! A link keeps the order, so packets leave as they came and a chunk is free once its last packet
//! is gone. Packets are read from the device straight into their place: nothing is copied or
//! allocated per packet, a 40-byte acknowledgement takes 40 bytes, and the memory is bounded.

use std::collections::VecDeque;

use crate::packet::PACKET_MAX;

/// One chunk; at most 6 % of it stays unused before the next is begun.
const CHUNK: usize = 1 << 20;

/// Most chunks of one direction: 1 GiB, four times what 1.8 Gb/s over 500 ms with a queue of one
/// bandwidth-delay product holds. A packet beyond is dropped and makes the run invalid.
const CHUNKS_MAX: usize = 1 << 10;

/// Where a packet lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    chunk: u64,
    offset: usize,
    len: usize,
}

/// The packets of one direction.
#[derive(Debug, Default)]
pub(super) struct Store {
    chunks: VecDeque<Box<[u8]>>,
    /// Number of the chunk at the front of `chunks`.
    first: u64,
    /// Bytes used of the chunk at the back.
    used: usize,
    /// Empty chunks to use again.
    spare: Vec<Box<[u8]>>,
}

impl Store {
    /// Room for the next packet, whatever its size; `None` when the store is full.
    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        if self.chunks.is_empty() || CHUNK - self.used < PACKET_MAX {
            if self.chunks.len() == CHUNKS_MAX {
                return None;
            }
            let chunk = self.spare.pop().unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice());
            self.chunks.push_back(chunk);
            self.used = 0;
        }
        let used = self.used;
        self.chunks.back_mut().map(|chunk| &mut chunk[used..used + PACKET_MAX])
    }

    /// The packet of `len` bytes just written to [`Store::room`], without keeping it.
    pub(super) fn peek(&self, len: usize) -> &[u8] {
        self.chunks.back().map_or(&[], |chunk| &chunk[self.used..self.used + len])
    }

    /// Keeps the packet of `len` bytes just written to [`Store::room`].
    pub(super) fn keep(&mut self, len: usize) -> Slot {
        let offset = self.used;
        self.used += len;
        assert!(self.used <= CHUNK, "a packet never exceeds the room it was given");
        Slot { chunk: self.first + self.chunks.len() as u64 - 1, offset, len }
    }

    /// The packet at `slot`, which must not have been released.
    pub(super) fn packet(&self, slot: Slot) -> &[u8] {
        let chunk = &self.chunks[(slot.chunk - self.first) as usize];
        &chunk[slot.offset..slot.offset + slot.len]
    }

    /// Releases every packet before `oldest`, the oldest one still waiting; all of them if none is.
    pub(super) fn release_before(&mut self, oldest: Option<Slot>) {
        let Some(oldest) = oldest else {
            // The chunk being filled starts over; the ones before it are done.
            while self.chunks.len() > 1 {
                self.recycle();
            }
            self.used = 0;
            return;
        };
        while self.first < oldest.chunk {
            self.recycle();
        }
    }

    fn recycle(&mut self) {
        self.spare.extend(self.chunks.pop_front());
        self.first += 1;
    }

    /// Bytes of memory held, in use or spare.
    pub(super) fn memory(&self) -> usize {
        (self.chunks.len() + self.spare.len()) * CHUNK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &mut Store, byte: u8, len: usize) -> Slot {
        store.room().unwrap()[..len].fill(byte);
        assert_eq!(store.peek(len), vec![byte; len]);
        store.keep(len)
    }

    #[test]
    fn packets_stay_until_released() {
        let mut store = Store::default();
        let slots: Vec<Slot> = (0..100).map(|k| put(&mut store, k, 60_000)).collect();
        for (k, slot) in slots.iter().enumerate() {
            assert_eq!(store.packet(*slot), vec![k as u8; 60_000]);
        }
        let memory = store.memory();
        assert!(memory <= 7 << 20, "{memory}");
        store.release_before(Some(slots[50]));
        assert_eq!(store.packet(slots[50])[0], 50);
        assert_eq!(store.packet(slots[99])[0], 99);
        store.release_before(None);
        for k in 0..100 {
            put(&mut store, k, 60_000);
        }
        assert_eq!(store.memory(), memory, "chunks are used again");
    }

    #[test]
    fn a_full_store_says_so() {
        let mut store = Store::default();
        let mut kept = 0;
        while store.room().is_some() {
            store.keep(PACKET_MAX);
            kept += 1;
        }
        assert_eq!(store.memory(), CHUNKS_MAX * CHUNK);
        assert_eq!(kept, CHUNKS_MAX * (CHUNK / PACKET_MAX));
    }
}
