//! The rate at which a lane delivers: the best of the last seconds.

use std::time::Duration;

use crate::{Instant, time};

/// The least time that a rate is measured over, by the other end's clock, in microseconds.
const LEAST_SPAN_US: u64 = 2_000;
/// What comes after a pause says nothing of the rate.
const MOST_SPAN_US: u64 = 200_000;
/// How long the best is remembered, twice.
const REMEMBERED: Duration = Duration::from_secs(2);
/// No lane is faster, in bytes a second: 100 Gb/s.
const MOST: u64 = 12_500_000_000;

/// Bytes a second.
#[derive(Debug, Default)]
pub(super) struct DeliveryRate {
    best: u64,
    best_before: u64,
    since: Instant,
    /// Where a measurement began, and the bytes that came since.
    began_us: Option<u64>,
    bytes: u64,
}

impl DeliveryRate {
    /// Notes that so many bytes have come by `arrived_us`.
    pub(super) fn note(&mut self, bytes: u64, arrived_us: u64, now: Instant) {
        if now.since(self.since) >= REMEMBERED {
            (self.best_before, self.best, self.since) = (self.best, 0, now);
        }
        let span = self.began_us.and_then(|began| arrived_us.checked_sub(began));
        match span {
            Some(span) if span < LEAST_SPAN_US => self.bytes += bytes,
            Some(span) if span <= MOST_SPAN_US => {
                let rate = (self.bytes + bytes).saturating_mul(1_000_000) / span;
                self.best = self.best.max(rate.min(MOST));
                (self.began_us, self.bytes) = (Some(arrived_us), 0);
            }
            _ => (self.began_us, self.bytes) = (Some(arrived_us), 0),
        }
    }

    fn rate(&self) -> Option<u64> {
        Some(self.best.max(self.best_before)).filter(|rate| *rate > 0)
    }

    /// How many bytes it delivers in a time, if that is known.
    pub(super) fn bytes_in(&self, time: Duration) -> Option<u64> {
        let bytes = u128::from(self.rate()?) * u128::from(time::nanos(time)) / 1_000_000_000;
        u64::try_from(bytes).ok()
    }

    /// How long it takes to deliver so many; nothing if that is not known.
    pub(super) fn time_for(&self, bytes: u64) -> Duration {
        let Some(rate) = self.rate() else { return Duration::ZERO };
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(rate);
        Duration::from_nanos(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_of_some_seconds_counts_and_pauses_do_not() {
        let mut rate = DeliveryRate::default();
        assert_eq!(
            (rate.bytes_in(Duration::from_secs(1)), rate.time_for(9)),
            (None, Duration::ZERO)
        );
        let mut at = |ms: u64, bytes| rate.note(bytes, ms * 1000, Instant::from_millis(ms));
        (0..100).for_each(|n| at(10 * n, 10_000));
        at(5000, 1 << 40);
        at(5001, 100);
        at(5010, 900);
        assert_eq!(rate.bytes_in(Duration::from_secs(1)), Some(1_000_000));
        assert_eq!(rate.time_for(1000), Duration::from_millis(1));
        // It is slower from now on.
        for n in 0..500 {
            rate.note(1000, 6_000_000 + 10_000 * n, Instant::from_millis(6000 + 10 * n));
        }
        assert_eq!(rate.bytes_in(Duration::from_secs(1)), Some(100_000));
    }
}
