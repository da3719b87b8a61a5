//! The byte queue of one direction of a subflow. TCP's segments carry offsets only; the bytes wait
//! here until the receiver has them in order.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// Bytes written at one end and not yet read at the other.
#[derive(Debug, Default)]
pub(super) struct ByteQueue {
    chunks: VecDeque<Bytes>,
    /// The offset of the first byte of `chunks`.
    read: u64,
}

impl ByteQueue {
    /// Takes what was written, `chunks` in order.
    pub(super) fn write(&mut self, chunks: &mut VecDeque<Bytes>) {
        self.chunks.append(chunks);
    }

    /// Moves the bytes below `offset` to `out`.
    pub(super) fn read_until(&mut self, offset: u64, out: &mut BytesMut) {
        let mut left = usize::try_from(offset - self.read).expect("a window fits in memory");
        self.read = offset;
        while left > 0 {
            let front = self.chunks.front_mut().expect("what has arrived was written");
            if front.len() > left {
                out.extend_from_slice(&front.split_to(left));
                return;
            }
            left -= front.len();
            out.extend_from_slice(front);
            self.chunks.pop_front();
        }
    }

    /// The offset of the reader.
    pub(super) const fn read(&self) -> u64 {
        self.read
    }
}
