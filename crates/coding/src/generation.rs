//! What encoder, recoder and decoder share: the limits of a generation, its packets as rows of one
//! length, and what can be wrong with a packet of one.
//!
//! A packet's *row* is its length in two bytes (big endian), its bytes, and zeros up to the longest
//! row: packets of different lengths can be added. Trailing zeros need not be sent or stored.

use crate::coefficients::Coding;
pub use crate::error::GenerationError;
use crate::kernels::{AlignedBuffer, ROW_ALIGN};

/// The most packets in a generation: its size is one byte, and 0 says that it is not known yet.
pub const MAX_PACKETS: u8 = 255;

/// Bytes of a row before its packet: the packet's length.
pub const LENGTH_BYTES: usize = 2;

/// How large generations may be. What exceeds it is refused, so that the memory of a generation is
/// a small multiple of `packets` · `packet_bytes`, and of what has really come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The most packets in a generation, G. Coding costs that many multiply-adds a packet and one
    /// byte a packet in each header with a vector.
    pub packets: u8,
    /// The longest packet in bytes.
    pub packet_bytes: u16,
}

impl Limits {
    /// The longest row.
    pub(crate) fn row_bytes(self) -> usize {
        LENGTH_BYTES + usize::from(self.packet_bytes)
    }
}

impl Default for Limits {
    /// 32 packets of up to 1500 bytes.
    fn default() -> Self {
        Self { packets: 32, packet_bytes: 1500 }
    }
}

/// What a packet does for a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It raises the rank.
    Innovative,
    /// It is a combination of what was there and was not kept.
    Redundant,
}

/// What a receiver knows of a generation's size, and whether a packet fits it.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    limits: Limits,
    /// Packets of the generation; 0 while only systematic packets of unknown size have come.
    size: u8,
    /// Packets there must be for the systematic ones that have come: the highest index and one.
    at_least: u8,
}

impl Shape {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, size: 0, at_least: 0 }
    }

    pub(crate) fn clear(&mut self) {
        (self.size, self.at_least) = (0, 0);
    }

    pub(crate) fn size(&self) -> u8 {
        self.size
    }

    /// Checks a packet against the limits, itself and what came before, and learns from it.
    pub(crate) fn take(
        &mut self,
        size: u8,
        coding: Coding<'_>,
        payload: &[u8],
    ) -> Result<(), GenerationError> {
        let known = if self.size > 0 { self.size } else { size };
        if size > self.limits.packets || (size > 0 && size != known) {
            let allowed = if self.size > 0 { self.size } else { self.limits.packets };
            return Err(GenerationError::Size { size, allowed });
        }
        if known > 0 && self.at_least > known {
            return Err(GenerationError::Index { index: self.at_least - 1, size: known });
        }
        let mut max = self.limits.row_bytes();
        match coding {
            Coding::Systematic(index) => {
                let size = if known > 0 { known } else { self.limits.packets };
                if index >= size {
                    return Err(GenerationError::Index { index, size });
                }
                max -= LENGTH_BYTES;
            }
            Coding::Seed(_) | Coding::Vector(_) if size == 0 => {
                return Err(GenerationError::Combination);
            }
            Coding::Vector(vector) if vector.len() != usize::from(size) => {
                return Err(GenerationError::Vector { coefficients: vector.len(), size });
            }
            Coding::Seed(_) | Coding::Vector(_) if payload.len() < LENGTH_BYTES => {
                return Err(GenerationError::Short(payload.len()));
            }
            Coding::Seed(_) | Coding::Vector(_) => {}
        }
        if payload.len() > max {
            return Err(GenerationError::Long { bytes: payload.len(), max });
        }
        if let Coding::Systematic(index) = coding {
            self.at_least = self.at_least.max(index + 1);
        }
        self.size = known;
        Ok(())
    }
}

/// Rows side by side in aligned memory, each followed by zeros up to the stride. Memory once taken
/// is kept for the next generation.
#[derive(Clone, Debug)]
pub(crate) struct RowStore {
    buffer: AlignedBuffer,
    stride: usize,
    /// Bytes of each row before its zeros.
    lengths: Vec<usize>,
    longest: usize,
}

impl RowStore {
    /// For rows of up to `max_bytes`.
    pub(crate) fn new(max_bytes: usize) -> Self {
        let stride = max_bytes.next_multiple_of(ROW_ALIGN);
        Self { buffer: AlignedBuffer::default(), stride, lengths: Vec::new(), longest: 0 }
    }

    /// Forgets the rows; from now on they have up to `max_bytes`.
    pub(crate) fn reset(&mut self, max_bytes: usize) {
        self.clear();
        self.stride = max_bytes.next_multiple_of(ROW_ALIGN);
    }

    /// Forgets the rows.
    pub(crate) fn clear(&mut self) {
        self.lengths.clear();
        self.longest = 0;
    }

    /// Adds a row made of two parts.
    pub(crate) fn push(&mut self, parts: [&[u8]; 2]) {
        let [head, body] = parts;
        let len = head.len() + body.len();
        assert!(len <= self.stride, "rows were checked against the limits");
        let start = self.len() * self.stride;
        let lines = (start + self.stride) / ROW_ALIGN;
        if self.buffer.bytes().len() < lines * ROW_ALIGN {
            self.buffer.resize(lines);
        }
        let row = &mut self.buffer.bytes_mut()[start..start + self.stride];
        row[..head.len()].copy_from_slice(head);
        row[head.len()..len].copy_from_slice(body);
        row[len..].fill(0);
        self.lengths.push(len);
        self.longest = self.longest.max(len);
    }

    /// Adds a packet's row.
    pub(crate) fn push_packet(&mut self, packet: &[u8]) {
        let len = u16::try_from(packet.len()).expect("packets were checked against the limits");
        self.push([&len.to_be_bytes(), packet]);
    }

    /// Takes the last row away. The longest is not looked for again.
    pub(crate) fn pop(&mut self) {
        self.lengths.pop();
    }

    /// Takes a row away; those after it move down.
    pub(crate) fn remove(&mut self, i: usize) {
        let (stride, end) = (self.stride, self.len() * self.stride);
        self.buffer.bytes_mut().copy_within((i + 1) * stride..end, i * stride);
        self.lengths.remove(i);
        self.longest = self.lengths.iter().copied().max().unwrap_or(0);
    }

    /// Says how much of a row is content; the rest is zero.
    pub(crate) fn set_length(&mut self, i: usize, len: usize) {
        self.lengths[i] = len;
    }

    /// Rows there are.
    pub(crate) fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Bytes from one row to the next.
    pub(crate) fn stride(&self) -> usize {
        self.stride
    }

    /// Bytes of the longest row.
    pub(crate) fn longest(&self) -> usize {
        self.longest
    }

    /// Bytes of the longest row in whole vectors, with which the kernels are fastest.
    pub(crate) fn padded(&self) -> usize {
        self.longest.next_multiple_of(ROW_ALIGN)
    }

    /// All rows, [`Self::stride`] bytes each.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer.bytes()[..self.len() * self.stride]
    }

    /// All rows, to write.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len() * self.stride;
        &mut self.buffer.bytes_mut()[..len]
    }

    /// A row with its zeros.
    pub(crate) fn row(&self, i: usize) -> &[u8] {
        &self.bytes()[i * self.stride..][..self.stride]
    }

    /// A row without its zeros.
    pub(crate) fn content(&self, i: usize) -> &[u8] {
        &self.row(i)[..self.lengths[i]]
    }

    /// The packet of a row that [`Self::push_packet`] made.
    pub(crate) fn packet(&self, i: usize) -> &[u8] {
        &self.content(i)[LENGTH_BYTES..]
    }
}

/// The packet of a row that was computed; `None` if the length or the zeros after the packet are
/// wrong, which happens only if what was combined does not belong together.
pub(crate) fn packet_of(row: &[u8]) -> Option<&[u8]> {
    let (len, rest) = row.split_first_chunk()?;
    let (packet, zeros) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    zeros.iter().all(|&b| b == 0).then_some(packet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_padded_with_zeros_however_memory_was_used() {
        let mut rows = RowStore::new(LENGTH_BYTES + 100);
        for _ in 0..3 {
            rows.push([&[], &[0xff; 102]]);
        }
        rows.clear();
        rows.push_packet(&[1; 7]);
        rows.push_packet(&[]);
        assert_eq!((rows.len(), rows.longest(), rows.padded(), rows.stride()), (2, 9, 64, 128));
        assert_eq!(rows.packet(0), [1; 7]);
        assert_eq!(rows.packet(1), []);
        assert!(rows.row(0)[9..].iter().chain(rows.row(1)).all(|&b| b == 0));
    }

    #[test]
    fn a_computed_row_is_believed_only_if_it_is_one() {
        assert_eq!(packet_of(&[0, 3, 7, 8, 9, 0, 0]), Some(&[7, 8, 9][..]));
        assert_eq!(packet_of(&[0, 0]), Some(&[][..]));
        assert_eq!(packet_of(&[0, 3, 7, 8, 9, 1]), None, "bytes after the packet");
        assert_eq!(packet_of(&[0, 3, 7, 8]), None, "longer than the row");
        assert_eq!(packet_of(&[0]), None);
    }
}
