//! Which part of a run counts.

use std::time::Duration;

use weftline_core::Instant;
use weftline_core::time::nanos;

/// Series have a value, and round-trip times a sample, for each of these.
pub const STEP: Duration = Duration::from_millis(100);

/// Most steps that are kept: three hours. What comes later counts, but is in no series.
pub const STEPS_MAX: usize = 3 * 36_000;

/// The time of a flow, and the part of it that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// The workload begins: t = 0 of the series.
    pub epoch: Instant,
    /// The flow begins: completion times and the first gap count from here.
    pub begin: Instant,
    /// Goodput, delays and gaps count from here.
    pub from: Instant,
    /// Nothing counts from here on.
    pub until: Instant,
}

impl Window {
    /// Of a flow that goes on from `begin` until `until`. Of a workload that begins at `epoch`, the
    /// `warmup` does not count.
    pub fn new(epoch: Instant, begin: Instant, until: Instant, warmup: Duration) -> Self {
        Self { epoch, begin, from: begin.max(epoch + warmup).min(until), until }
    }

    /// Of a flow with an end of its own (a transfer, a burst, a clip): all of it counts.
    pub fn whole(epoch: Instant, begin: Instant, until: Instant) -> Self {
        Self::new(epoch, begin, until, Duration::ZERO)
    }

    /// The time of several flows of one epoch: from the first that counts to the last that ends.
    pub(crate) fn around(parts: impl Iterator<Item = Self>) -> Option<Self> {
        parts.reduce(|one, other| Self {
            epoch: one.epoch.min(other.epoch),
            begin: one.begin.min(other.begin),
            from: one.from.min(other.from),
            until: one.until.max(other.until),
        })
    }

    /// Whether what happens at `now` counts.
    pub fn counts(&self, now: Instant) -> bool {
        self.from <= now && now < self.until
    }

    /// The step of the series that `now` is in; none beyond the last that is kept.
    pub(crate) fn step(&self, now: Instant) -> Option<usize> {
        let step = self.steps_until(now);
        (step < STEPS_MAX).then_some(step)
    }

    /// How many steps of the series are over at `now`.
    pub(crate) fn steps_until(&self, now: Instant) -> usize {
        (nanos(now.since(self.epoch)) / nanos(STEP)) as usize
    }

    /// The first step that counts in full.
    pub(crate) fn first_step(&self) -> usize {
        nanos(self.from.since(self.epoch)).div_ceil(nanos(STEP)) as usize
    }
}

/// Bytes in a time, which is not none, as Mb/s.
pub fn mbps(bytes: u64, time: Duration) -> f64 {
    bytes as f64 * 8e-6 / time.as_secs_f64()
}

/// The same of a time that may be none: then there is no goodput, rather than one of 0.
pub(crate) fn goodput_mbps(bytes: u64, time: Duration) -> Option<f64> {
    (!time.is_zero()).then(|| mbps(bytes, time))
}
