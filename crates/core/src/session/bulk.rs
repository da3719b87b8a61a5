//! Reading and writing much at a time without copying: the application fills memory that the
//! session lends, and takes received bytes out in the memory they came to lie in.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::{Misuse, Session};
use crate::Instant;

impl Session {
    /// Lends memory for bytes to send, at least 16 KiB, with how many of them there is room for: for
    /// a driver that would else read into memory of its own and have it copied. It comes back with
    /// [`take_back`](Self::take_back), filled or not, before anything else is written. `None`
    /// while there is little room; then [`Event::Writable`](super::Event::Writable) follows.
    ///
    /// # Errors
    /// As for [`write`](Self::write).
    pub fn lend(&mut self, now: Instant) -> Result<Option<(BytesMut, usize)>, Misuse> {
        self.send.check_stream()?;
        let lent = self.send.lend();
        self.write_blocked = lent.is_none();
        self.after(now);
        Ok(lent)
    }

    /// Takes memory back that [`lend`](Self::lend) gave: what it has been filled with is written.
    /// Returns how many bytes that is.
    ///
    /// # Errors
    /// As for [`write`](Self::write), when something is in it; that is lost.
    pub fn take_back(&mut self, filled: BytesMut, now: Instant) -> Result<usize, Misuse> {
        if !filled.is_empty() {
            self.send.check_stream()?;
        }
        let n = self.send.take_back(filled);
        if n > 0 {
            self.wake_idle();
        }
        self.after(now);
        Ok(n)
    }

    /// Appends in-order bytes to `out`, about `most` of them, and frees them here: whole blocks of
    /// memory as they are, less than one only if there is nothing else. Returns how many; 0 when
    /// there are none.
    pub fn read_bytes(&mut self, most: usize, out: &mut VecDeque<Bytes>, now: Instant) -> usize {
        let mut taken = 0;
        while taken < most
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
        self.after(now);
    }
}
