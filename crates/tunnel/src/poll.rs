//! Waiting: for sockets and devices, for a time in nanoseconds, and for the wish to stop.
//!
//! At 300 Mb/s a packet comes every 40 µs, and to be woken for it costs more than all that is done with
//! it. So a node takes the packets of a busy half millisecond together, as a network card does with its
//! interrupts. The first two wake it at once: where nothing else comes, a question and its answer wait for
//! nothing. A node does not rest while something is left to be read, or waits for room.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, epoll};
use weftline_core::Instant;

use crate::TunnelError;
use crate::clock::{self, timespec};

/// The most descriptors whose readiness is told in one go.
const EVENTS: usize = 32;

/// What comes within so long is taken together, and within no more than a quarter of the interval of
/// coding: an access point gives away what it has had for longer than that.
const GATHER: Duration = Duration::from_micros(500);

/// So many times in [`GATHER`] a node is woken before it gathers.
const AT_ONCE: u32 = 2;

/// How often a node has been woken of late.
#[derive(Debug)]
struct Gather {
    /// How long a stretch is.
    most: Duration,
    /// When the present one began.
    since: Instant,
    woken: u32,
}

impl Gather {
    const fn new() -> Self {
        Self { most: GATHER, since: Instant::ZERO, woken: 0 }
    }

    /// Notes that something to read woke the node.
    fn note(&mut self, now: Instant) {
        if now.since(self.since) >= self.most {
            (self.since, self.woken) = (now, 0);
        }
        self.woken += 1;
    }

    /// Until when more is let come before the node looks.
    fn until(&self) -> Instant {
        if self.woken < AT_ONCE { Instant::ZERO } else { self.since + self.most }
    }
}

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
    /// A bit for each source that room is wanted in.
    room: u64,
    gather: Gather,
}

impl Poller {
    /// Also waits for `stop`.
    pub(crate) fn new(stop: &Stop) -> Result<Self, TunnelError> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC);
        let epoll = epoll.map_err(TunnelError::os("making an epoll descriptor"))?;
        let mut poller =
            Self { epoll, sources: 0, ready: u64::MAX, room: 0, gather: Gather::new() };
        poller.add(stop.wake.as_fd())?;
        Ok(poller)
    }

    /// Waits for it to become readable; it is taken to be so at first.
    pub(crate) fn add(&mut self, fd: BorrowedFd<'_>) -> Result<Source, TunnelError> {
        let source = Source(self.sources);
        self.replace(source, fd)?;
        self.sources += 1;
        Ok(source)
    }

    /// Waits for another descriptor in the place of one that is closed.
    pub(crate) fn replace(
        &mut self,
        source: Source,
        fd: BorrowedFd<'_>,
    ) -> Result<(), TunnelError> {
        let data = epoll::EventData::new_u64(source.0.into());
        let added = epoll::add(&self.epoll, fd, data, epoll::EventFlags::IN);
        added.map_err(TunnelError::os("watching a descriptor"))
    }

    /// Whether there was something to do with it when the last wait was over.
    pub(crate) fn is_ready(&self, source: Source) -> bool {
        // Those beyond share a bit: some are asked in vain.
        self.ready >> source.0.min(63) & 1 == 1
    }

    /// Takes what comes in busy times together with regard to the interval of coding, if there is one.
    pub(crate) fn gather_for(&mut self, interval: Option<Duration>) {
        self.gather.most = interval.map_or(GATHER, |interval| GATHER.min(interval / 4));
    }

    /// Waits for something to read in it, and for room, each only where it is wanted.
    pub(crate) fn watch(&mut self, source: Source, fd: BorrowedFd<'_>, read: bool, room: bool) {
        let mut flags = epoll::EventFlags::empty();
        flags.set(epoll::EventFlags::IN, read);
        flags.set(epoll::EventFlags::OUT, room);
        let bit = 1 << source.0.min(63);
        self.room = if room { self.room | bit } else { self.room & !bit };
        let data = epoll::EventData::new_u64(source.0.into());
        let changed = epoll::modify(&self.epoll, fd, data, flags);
        if let Err(error) = changed {
            tracing::debug!(%error, "a descriptor is not watched");
        }
    }

    /// Waits until something is ready, or `due`; in busy times until more has come, if all that was there
    /// has been read.
    pub(crate) fn wait(&mut self, due: Instant, is_dry: bool) {
        if is_dry && self.room == 0 {
            let rest = self.gather.until().min(due).since(clock::now());
            if !rest.is_zero() {
                std::thread::sleep(rest);
            }
        }
        let timeout = timespec(due.since(clock::now()));
        let mut room = [const { MaybeUninit::uninit() }; EVENTS];
        match epoll::wait(&self.epoll, &mut room, Some(&timeout)) {
            Ok((events, _)) => {
                if events.iter().any(|event| { event.flags }.contains(epoll::EventFlags::IN)) {
                    self.gather.note(clock::now());
                }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_alone_is_looked_at_at_once_and_what_comes_densely_together() {
        let mut gather = Gather::new();
        let us = |us| Instant::ZERO + Duration::from_micros(us);
        // A packet a millisecond.
        for at in [1000, 2000, 3000] {
            gather.note(us(at));
            assert!(gather.until() <= us(at), "{at}");
        }
        // One each 40 µs: the second is the last that is looked at alone.
        gather.note(us(4000));
        assert!(gather.until() <= us(4000));
        gather.note(us(4040));
        assert_eq!(gather.until(), us(4500));
        // Those that came until then wake it once.
        gather.note(us(4510));
        assert!(gather.until() <= us(4510));
    }
}
