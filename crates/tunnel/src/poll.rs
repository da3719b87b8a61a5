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

/// Descriptors that are waited for.
pub(crate) struct Poller {
    epoll: OwnedFd,
}

impl Poller {
    /// Also waits for `stop`.
    pub(crate) fn new(stop: &Stop) -> Result<Self, TunnelError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(TunnelError::os("making an epoll descriptor"))?;
        let poller = Self { epoll };
        poller.add(stop.wake.as_fd())?;
        Ok(poller)
    }

    /// Waits for it to become readable.
    pub(crate) fn add(&self, fd: BorrowedFd<'_>) -> Result<(), TunnelError> {
        let added =
            epoll::add(&self.epoll, fd, epoll::EventData::new_u64(0), epoll::EventFlags::IN);
        added.map_err(TunnelError::os("watching a descriptor"))
    }

    /// Waits for something to read in it, and for room, each only where it is wanted.
    pub(crate) fn watch(&self, fd: BorrowedFd<'_>, read: bool, room: bool) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, read);
        flags.set(epoll::EventFlags::OUT, room);
        let changed = epoll::modify(&self.epoll, fd, epoll::EventData::new_u64(0), flags);
        if let Err(error) = changed {
            tracing::debug!(%error, "a descriptor is not watched");
        }
    }

    /// Waits until something is ready, or `due`.
    pub(crate) fn wait(&self, due: Instant) {
        let now = clock::now();
        if due <= now {
            return;
        }
        let timeout = timespec(due.since(now));
        let mut room = [const { MaybeUninit::uninit() }; EVENTS];
        match epoll::wait(&self.epoll, &mut room, Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => {
                let error = io::Error::from(error);
                tracing::debug!(%error, "waiting failed");
            }
        }
    }
}
