//! The time in initiations: the time of day in nanoseconds, kept rising, as TAI64N is in WireGuard.

use weftline_core::Instant;

/// Reads the time of day, in nanoseconds since 1970.
pub(crate) type TimeOfDay = fn() -> u64;

/// The times that this node has written in its initiations to a neighbour.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rising {
    last: u64,
}

impl Rising {
    /// The time for another initiation, later than all before, whatever became of the clock.
    pub(super) fn next(&mut self, now: u64) -> u64 {
        self.last = now.max(self.last.saturating_add(1));
        self.last
    }
}

/// So many of something may come in a row, and one more each time that a pause is over.
#[derive(Clone, Copy, Debug)]
pub(super) struct Allowance {
    /// When those that came would have been due at the rate allowed.
    due: Instant,
    burst: u32,
    pause: std::time::Duration,
}

impl Allowance {
    pub(super) const fn new(burst: u32, pause: std::time::Duration) -> Self {
        Self { due: Instant::ZERO, burst, pause }
    }

    /// Takes one, if one is left.
    pub(super) fn take(&mut self, now: Instant) -> bool {
        let burst = (self.pause * self.burst).as_nanos() as u64;
        let earliest = Instant::from_nanos(now.as_nanos().saturating_sub(burst));
        let next = self.due.max(earliest) + self.pause;
        let left = next <= now;
        if left {
            self.due = next;
        }
        left
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn times_rise_though_the_clock_is_set_back() {
        let mut rising = Rising::default();
        let written = [5, 9, 9, 2, 3, 40].map(|now| rising.next(now));
        assert_eq!(written, [5, 9, 10, 11, 12, 40]);
    }

    #[test]
    fn so_many_at_once_and_then_one_by_one() {
        let mut allowance = Allowance::new(4, Duration::from_millis(10));
        let at = |ms: u64| Instant::from_millis(1000 + ms);
        assert_eq!((0..9).filter(|_| allowance.take(at(0))).count(), 4);
        assert!(!allowance.take(at(9)) && allowance.take(at(10)) && !allowance.take(at(10)));
        assert_eq!((0..9).filter(|_| allowance.take(at(1000))).count(), 4);
    }
}
