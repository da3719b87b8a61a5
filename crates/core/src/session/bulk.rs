//! Reading and writing much at a time without copying: the application fills memory that the
//! session reserves, and takes received bytes out in the memory they came to lie in.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::{Misuse, Session};
use crate::Instant;

impl Session {
    /// Reserves memory for bytes to send, at least 16 KiB, with how many of them there is room for: for
    /// a driver that would else read into memory of its own and have it copied. It comes back with
    /// [`commit`](Self::commit), filled or not, before anything else is written. `None`
    /// while there is little room; then [`Event::Writable`](super::Event::Writable) follows.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn reserve(&mut self, now: Instant) -> Result<Option<(BytesMut, usize)>, Misuse> {
        self.send.check_stream()?;
        let reserved = self.send.reserve();
        self.write_blocked = reserved.is_none();
        self.update(now);
        Ok(reserved)
    }

    /// Takes the memory that [`reserve`](Self::reserve) gave: what it has been filled with is written.
    /// Returns how many bytes that is.
    ///
    /// # Errors
    /// As for [`write`](Self::write), when something is in it; that is lost.
    pub fn commit(&mut self, filled: BytesMut, now: Instant) -> Result<usize, Misuse> {
        if !filled.is_empty() {
            self.send.check_stream()?;
        }
        let n = self.send.commit(filled);
        if n > 0 {
            self.wake_idle();
        }
        self.update(now);
        Ok(n)
    }

    /// Appends in-order bytes to `out`, about `most` of them and at least one, and frees them here: whole blocks of
    /// memory as they are, less than one only if there is nothing else. Returns how many; 0 when
    /// there are none.
    pub fn read_bytes(&mut self, most: usize, out: &mut VecDeque<Bytes>, now: Instant) -> usize {
        let mut taken = 0;
        while taken < most.max(1)
            && let Some(bytes) = self.recv.read_bytes(taken > 0, now)
        {
            taken += bytes.len();
            out.push_back(bytes);
        }
        if taken > 0 {
            self.freed(now);
        }
        taken
    }

    /// Does what reading calls for.
    pub(super) fn freed(&mut self, now: Instant) {
        self.readable_told = false;
        self.acknowledge(now);
        self.update(now);
    }
}
