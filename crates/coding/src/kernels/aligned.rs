//! Bytes that begin on a cache line, so that no vector load of a row touches two of them.

use super::ROW_ALIGN;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line([u8; ROW_ALIGN]);

/// A growing buffer of whole lines, aligned to [`ROW_ALIGN`].
#[derive(Clone, Debug, Default)]
pub(crate) struct AlignedBuffer(Vec<Line>);

impl AlignedBuffer {
    /// Makes it `lines` lines long; new ones are zero. Memory once taken is kept.
    pub(crate) fn resize(&mut self, lines: usize) {
        self.0.resize(lines, Line([0; ROW_ALIGN]));
    }

    /// All bytes.
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: a `Line` is exactly its 64 bytes (`repr(C)`, alignment equal to the size), so the
        // vector's elements are that many initialised bytes in a row, borrowed as long as `self`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), self.0.len() * ROW_ALIGN) }
    }

    /// All bytes, to write.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.0.len() * ROW_ALIGN;
        // SAFETY: as in `bytes`; the borrow is exclusive, and every byte is a valid `Line`.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }
}
