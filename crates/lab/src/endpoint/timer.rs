//! Waiting to the microsecond inside tokio, whose own timers count milliseconds.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, timerfd_create, timerfd_settime,
};
use tokio::io::unix::AsyncFd;
use weftline_core::Instant;

use crate::clock::timespec;
use crate::sys::reactor;

/// Rings at a point of the monotonic clock, once or again and again.
#[derive(Debug)]
pub(crate) struct Timer(AsyncFd<OwnedFd>);

impl Timer {
    /// Rings once, at `at`; at once if that has passed.
    pub(crate) fn at(at: Instant) -> io::Result<Self> {
        Self::new(at, Duration::ZERO)
    }

    /// Rings at `first` and then every `period`.
    pub(crate) fn every(first: Instant, period: Duration) -> io::Result<Self> {
        Self::new(first, period)
    }

    fn new(first: Instant, period: Duration) -> io::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // An absolute time of zero would disarm it.
        let first = first.max(Instant::from_nanos(1)).since(Instant::ZERO);
        let when = Itimerspec { it_interval: timespec(period), it_value: timespec(first) };
        timerfd_settime(&fd, TimerfdTimerFlags::ABSTIME, &when)?;
        reactor::readable(fd).map(Self)
    }

    /// Waits until it rings; how often it has since the last time.
    pub(crate) async fn ring(&mut self) -> io::Result<u64> {
        loop {
            let mut guard = self.0.readable().await?;
            let mut count = [0; 8];
            let read = guard
                .try_io(|fd| rustix::io::read(fd.get_ref(), &mut count).map_err(io::Error::from));
            if let Ok(read) = read {
                read?;
                return Ok(u64::from_ne_bytes(count));
            }
        }
    }
}
