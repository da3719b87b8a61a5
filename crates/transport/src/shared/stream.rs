//! What the application does with a connection that carries a byte stream.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;

use bytes::{Bytes, BytesMut};
use weftline_core::Instant;
use weftline_core::send_buffer::LEAST_RESERVED;
use weftline_core::session::Misuse;

use super::{End, Inner, SEND_STEP, Shared};
use crate::error::Error;

/// Why nothing more can be written.
pub(crate) enum WriteError {
    /// The connection failed.
    Failed(Arc<Error>),
    /// This direction is finished.
    Finished,
}

impl From<Misuse> for WriteError {
    fn from(misuse: Misuse) -> Self {
        match misuse {
            Misuse::CarriesMessages => Self::Failed(Arc::new(Error::CarriesMessages)),
            _ => Self::Finished,
        }
    }
}

impl Shared {
    /// Copies in-order bytes with `take`, which says how many it took of each chunk, until it
    /// takes less than offered or there are none. `None` when there was nothing: `waker` is woken
    /// when that changes. `Some(0)` is the end of the stream.
    pub(crate) fn read(
        &self,
        waker: &Waker,
        mut take: impl FnMut(&[u8]) -> usize,
    ) -> Option<Result<usize, Arc<Error>>> {
        self.with(|inner, now| {
            if inner.session.has_messages() {
                return Some(Err(Arc::new(Error::CarriesMessages)));
            }
            let mut taken = 0;
            loop {
                let chunk = inner.session.read_chunk();
                if chunk.is_empty() {
                    break;
                }
                let len = chunk.len();
                let n = take(chunk);
                inner.session.consume(n, now).expect("what was offered can be taken");
                taken += n;
                if n < len {
                    break;
                }
            }
            if taken > 0 { Some(Ok(taken)) } else { inner.read_nothing(waker) }
        })
    }

    /// Writes as much of `data` as there is room for; `None` when there is none: `waker` is woken
    /// when that changes.
    pub(crate) fn write(&self, waker: &Waker, data: &[u8]) -> Option<Result<usize, WriteError>> {
        self.with(|inner, now| {
            if let Err(error) = inner.check_writable() {
                return Some(Err(error));
            }
            inner.reserve_send(data.len() as u64, now);
            let n = match inner.session.write(data, now) {
                Ok(n) => n,
                Err(misuse) => return Some(Err(misuse.into())),
            };
            if n == 0 && !data.is_empty() {
                inner.writer = Some(waker.clone());
                return None;
            }
            Some(Ok(n))
        })
    }

    /// Takes out in-order bytes, about `most`, without copying most of them; otherwise as
    /// [`read`](Self::read).
    pub(crate) fn read_bytes(
        &self,
        waker: &Waker,
        most: usize,
        out: &mut VecDeque<Bytes>,
    ) -> Option<Result<usize, Arc<Error>>> {
        self.with(|inner, now| {
            if inner.session.has_messages() {
                return Some(Err(Arc::new(Error::CarriesMessages)));
            }
            let taken = inner.session.read_bytes(most, out, now);
            if taken > 0 { Some(Ok(taken)) } else { inner.read_nothing(waker) }
        })
    }

    /// Reserves memory for bytes to write, with how many there is room for, and releases what was
    /// reserved before; `None` when there is no room: `waker` is woken when that changes.
    pub(crate) fn reserve(&self, waker: &Waker) -> Option<Result<(BytesMut, usize), WriteError>> {
        self.with(|inner, now| {
            if let Err(error) = inner.check_writable() {
                return Some(Err(error));
            }
            inner.reserve_send(LEAST_RESERVED as u64, now);
            let reserved = inner.session.reserve(now).map_err(WriteError::from).transpose();
            if reserved.is_none() {
                inner.writer = Some(waker.clone());
            }
            reserved
        })
    }

    /// Takes reserved memory and writes what it was filled with. Fails as writing does.
    pub(crate) fn commit(&self, filled: BytesMut) -> Result<usize, WriteError> {
        self.with(|inner, now| {
            inner.check_writable()?;
            Ok(inner.session.commit(filled, now)?)
        })
    }

    /// Half-closes: the peer reads the end after what was written so far.
    pub(crate) fn finish(&self) {
        self.with(|inner, now| {
            if inner.end.is_none() {
                inner.session.finish(now);
            }
        });
    }
}

impl Inner {
    /// What a read that found no bytes says; `None` when there may be some later.
    fn read_nothing(&mut self, waker: &Waker) -> Option<Result<usize, Arc<Error>>> {
        if self.session.is_read_to_end() {
            return Some(Ok(0));
        }
        match &self.end {
            Some(End::Failed(error)) => Some(Err(Arc::clone(error))),
            Some(End::Closed) => Some(Ok(0)),
            None => {
                self.reader = Some(waker.clone());
                None
            }
        }
    }

    fn check_writable(&self) -> Result<(), WriteError> {
        match &self.end {
            Some(End::Failed(error)) => Err(WriteError::Failed(Arc::clone(error))),
            Some(End::Closed) => Err(WriteError::Finished),
            None => Ok(()),
        }
    }

    /// Sees to it that there is memory for `more` bytes to send, as far as there is.
    pub(super) fn reserve_send(&mut self, more: u64, now: Instant) {
        let wanted = self.session.send_memory() + more.max(SEND_STEP / 2);
        if wanted > self.lease.send() {
            let limit = self.lease.grow_send(wanted.next_multiple_of(SEND_STEP));
            let reach = if limit < wanted { limit } else { u64::MAX };
            self.session.set_send_limit(limit, reach, now);
        }
    }
}
