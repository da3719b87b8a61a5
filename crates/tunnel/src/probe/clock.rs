//! The offset of the clock by which the kernel stamps packets from the monotonic one, by which
//! everything is timed.

use std::time::Duration;

use rustix::time::ClockId;
use weftline_core::Instant;
use weftline_core::time::nanos;

use super::Stamp;
use crate::clock::read;

/// A change of the offset in a short time that is a step and no adjustment: a clock is slewed by
/// at most 500 ppm.
const STEP: u64 = 1_000_000;
/// Stamps cannot be older: the socket is read all the time.
const OLD: Duration = Duration::from_secs(5);

/// Translates the kernel's stamps, which are of the time of day, to the monotonic clock.
#[derive(Debug)]
pub(crate) struct Translator {
    /// Time of day less monotonic time.
    offset: u64,
    steps: u32,
}

impl Translator {
    pub(crate) fn new() -> Self {
        Self { offset: offset(), steps: 0 }
    }

    /// Looks at the clocks; to be called after each reading of the socket, before
    /// [`Translator::stamp`].
    pub(crate) fn look(&mut self) {
        self.set(offset());
    }

    fn set(&mut self, offset: u64) {
        if offset.abs_diff(self.offset) > STEP {
            self.steps = self.steps.wrapping_add(1);
        }
        self.offset = offset;
    }

    /// `stamp`, since 1970, by the monotonic clock, of a packet that was read before `now`. One that
    /// cannot be, as the clock has been set since, is `now` and of no step.
    pub(crate) fn stamp(&self, stamp: Option<Duration>, now: Instant) -> Stamp {
        let at = stamp.map(|stamp| nanos(stamp).wrapping_sub(self.offset));
        match at.map(Instant::from_nanos) {
            Some(at) if at <= now + Duration::from_millis(1) && at + OLD >= now => {
                Stamp { at, steps: Some(self.steps) }
            }
            _ => Stamp { at: now, steps: None },
        }
    }
}

fn offset() -> u64 {
    // Between two looks at one clock the other is looked at; of three tries the quickest counts.
    let look = |_| {
        let before = read(ClockId::Monotonic);
        let day = read(ClockId::Realtime);
        let after = read(ClockId::Monotonic);
        (after - before, day.wrapping_sub(before + (after - before) / 2))
    };
    (0..3).map(look).min().map_or(0, |(_, offset)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_the_clock_is_noticed_and_a_slew_is_not() {
        let mut clock = Translator { offset: 1_000_000_000_000, steps: 0 };
        let now = Instant::from_millis(5000);
        let day = |ms: u64| Some(Duration::from_millis(1_000_000 + ms));
        let before = clock.stamp(day(4999), now);
        assert_eq!(before, Stamp { at: Instant::from_millis(4999), steps: Some(0) });
        clock.set(1_000_000_100_000);
        assert_eq!(clock.stamp(day(4999), now).steps, Some(0));
        // Set on by a minute: what comes from here on cannot be compared with what came.
        clock.set(1_060_000_000_000);
        let after = clock.stamp(day(60_000 + 4999), now);
        assert_eq!(after, Stamp { at: Instant::from_millis(4999), steps: Some(1) });
        // What was stamped before and read after makes no sense.
        assert_eq!(clock.stamp(day(4999), now), Stamp { at: now, steps: None });
        assert_eq!(clock.stamp(None, now), Stamp { at: now, steps: None });
    }

    #[test]
    fn the_clocks_are_read() {
        let clock = Translator::new();
        let now = crate::clock::now();
        let day = Duration::from_nanos(read(ClockId::Realtime));
        let stamp = clock.stamp(Some(day), now + Duration::from_secs(1));
        assert!(stamp.steps.is_some() && stamp.at >= now);
    }
}
