//! The system's clocks.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use weftline_core::Instant;
use weftline_core::time::nanos;

/// The monotonic clock now, in nanoseconds from its start.
pub fn now() -> Instant {
    Instant::from_nanos(read(ClockId::Monotonic))
}

/// The time of day in nanoseconds since 1970; it may be set.
pub(crate) fn time_of_day() -> u64 {
    read(ClockId::Realtime)
}

/// A clock in nanoseconds.
pub(crate) fn read(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    // Linux sets no clock to before 1970.
    let (seconds, ns) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    seconds.unwrap_or(0).saturating_mul(1_000_000_000).saturating_add(ns.unwrap_or(0))
}

/// `duration` as the kernel takes it.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    let ns = nanos(duration);
    Timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}
