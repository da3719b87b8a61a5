//! Waiting: for sockets and devices, for a time in nanoseconds, and for the wish to stop.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{EventfdFlags, epoll};
use weftline_core::Instant;

use crate::TunnelError;
use crate::clock::{self, timespec};

/// The most descriptors whose readiness is told in one go.
const EVENTS: usize = 32;

/// Ends a node from outside.
#[derive(Clone, Debug)]
pub struct Stop {
    wanted: Arc<AtomicBool>,
    wake: Arc<OwnedFd>,
}

impl Stop {
    /// One that is not wanted yet.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn new() -> Result<Self, TunnelError> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake =
            rustix::event::eventfd(0, flags).map_err(TunnelError::os("making an eventfd"))?;
        Ok(Self { wanted: Arc::new(AtomicBool::new(false)), wake: Arc::new(wake) })
    }

    /// Asks the node to end.
    pub fn stop(&self) {
        self.wanted.store(true, Ordering::Release);
        // It fails only if the node has been woken countless times already.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::Acquire)
    }
}

/// A descriptor that is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Source(u32);

/// Descriptors that are waited for. What the last wait said of them is kept, so that nobody asks the
/// kernel for what is not there.
pub(crate) struct Poller {
    epoll: OwnedFd,
    sources: u32,
    /// A bit for each source.
    ready: u64,
}

impl Poller {
    /// Also waits for `stop`.
    pub(crate) fn new(stop: &Stop) -> Result<Self, TunnelError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(TunnelError::os("making an epoll descriptor"))?;
        let mut poller = Self { epoll, sources: 0, ready: u64::MAX };
        poller.add(stop.wake.as_fd())?;
        Ok(poller)
    }

    /// Waits for it to become readable; it is taken to be so at first.
    pub(crate) fn add(&mut self, fd: BorrowedFd<'_>) -> Result<Source, TunnelError> {
        let source = Source(self.sources);
        let data = epoll::EventData::new_u64(source.0.into());
        let added = epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN);
        added.map_err(TunnelError::os("watching a descriptor"))?;
        self.sources += 1;
        Ok(source)
    }

    /// Whether there was something to do with it when the last wait was over.
    pub(crate) fn is_ready(&self, source: Source) -> bool {
        // Those beyond are few, and asked always.
        self.ready >> source.0.min(63) & 1 == 1
    }

    /// Waits for something to read in it, and for room, each only where it is wanted.
    pub(crate) fn watch(&self, source: Source, fd: BorrowedFd<'_>, read: bool, room: bool) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, read);
        flags.set(epoll::EventFlags::OUT, room);
        let data = epoll::EventData::new_u64(source.0.into());
        let changed = epoll::modify(&self.epoll, fd, data, flags);
        if let Err(error) = changed {
            tracing::debug!(%error, "a descriptor is not watched");
        }
    }

    /// Waits until something is ready, or `due`.
    pub(crate) fn wait(&mut self, due: Instant) {
        let timeout = timespec(due.since(clock::now()));
        let mut room = [const { MaybeUninit::uninit() }; EVENTS];
        match epoll::wait(&self.epoll, &mut room, Some(&timeout)) {
            Ok((events, _)) => {
                let bits = events.iter().map(|event| 1 << { event.data }.u64().min(63));
                self.ready = bits.fold(0, |all, bit: u64| all | bit);
            }
            Err(error) => {
                self.ready = u64::MAX;
                if error != rustix::io::Errno::INTR {
                    let error = io::Error::from(error);
                    tracing::debug!(%error, "waiting failed");
                }
            }
        }
    }
}
