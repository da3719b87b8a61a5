//! Whether the window of a connection is too small for what comes, evaluated as Linux's receivers
//! do (`tcp_rcv_space_adjust`): by how much comes in a round trip.
//!
//! What a reader that stops leaves in memory is its window, so that is to be no larger than its rate
//! needs. The peer's wish does not tell: it is made ahead of what congestion windows may reach. Nor
//! does what has been taken: a proxy takes for its program what fits into the kernel's buffers.

use std::time::Duration;

use weftline_core::Instant;

/// The window is four times what comes in a round trip: twice that, as in Linux, and as much again
/// for a sender in slow start, which doubles its rate before it hears of more credit.
const PART: u64 = 4;

/// How fast bytes come.
#[derive(Debug, Default)]
pub(super) struct Intake {
    /// When the present part of the window began, and how much had come by then.
    since: Instant,
    before: u64,
    /// Whether the last part came within a round trip.
    is_fast: bool,
}

impl Intake {
    /// Notes that `received` bytes have come by now. Returns whether a part of the `window` has
    /// been found to be slow.
    pub(super) fn note(
        &mut self,
        received: u64,
        window: u64,
        round_trip: impl FnOnce() -> Option<Duration>,
        now: Instant,
    ) -> bool {
        if received - self.before < window / PART {
            return false;
        }
        let took = now.since(self.since);
        // Nobody knows how long one is before the first ping is answered.
        self.is_fast = round_trip().is_none_or(|round_trip| took <= round_trip);
        (self.since, self.before) = (now, received);
        !self.is_fast
    }

    /// Whether more comes in a round trip than the window is made for.
    pub(super) const fn is_fast(&self) -> bool {
        self.is_fast
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: u64 = 4 << 20;
    const ROUND_TRIP: Duration = Duration::from_millis(20);

    /// Whether the window is too small for `rate` bytes a millisecond.
    fn is_too_small(window: u64, rate: u64, round_trip: Option<Duration>) -> bool {
        let mut intake = Intake::default();
        for ms in 1..=4000 {
            intake.note(ms * rate, window, || round_trip, Instant::from_millis(ms));
        }
        intake.is_fast()
    }

    #[test]
    fn a_window_is_four_times_what_comes_in_a_round_trip() {
        let most = WINDOW / 4 / 20;
        assert!(!is_too_small(WINDOW, most * 9 / 10, Some(ROUND_TRIP)));
        assert!(is_too_small(WINDOW, most * 11 / 10, Some(ROUND_TRIP)));
        assert!(!is_too_small(WINDOW * 2, most * 11 / 10, Some(ROUND_TRIP)));
        assert!(is_too_small(WINDOW, most / 10, Some(ROUND_TRIP * 11)));
        assert!(is_too_small(WINDOW, most / 10, None), "the round trip is not known");
    }

    #[test]
    fn a_part_that_came_slowly_is_told_once() {
        let mut intake = Intake::default();
        let mut note =
            |bytes, ms| intake.note(bytes, WINDOW, || Some(ROUND_TRIP), Instant::from_millis(ms));
        assert!(!note(WINDOW / 4 - 1, 1000), "not a part yet");
        assert!(note(WINDOW / 4, 1000));
        assert!(!note(WINDOW / 4 + 1, 1001));
        assert!(!note(WINDOW / 2, 1019), "fast");
    }
}
