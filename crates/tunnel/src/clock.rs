//! The monotonic clock.

use std::time::Duration;

use rustix::time::{ClockId, Timespec, clock_gettime};
use weftline_core::Instant;
use weftline_core::time::nanos;

/// The monotonic clock now, in nanoseconds from its start.
pub(crate) fn now() -> Instant {
    let time = clock_gettime(ClockId::Monotonic);
    Instant::from_nanos(time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned())
}

/// `duration` as the kernel takes it.
pub(crate) fn timespec(duration: Duration) -> Timespec {
    let ns = nanos(duration);
    Timespec {
        tv_sec: (ns / 1_000_000_000).cast_signed(),
        tv_nsec: (ns % 1_000_000_000).cast_signed(),
    }
}
