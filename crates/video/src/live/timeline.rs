//! When GoPs of a live source are read and sent: the clock between a source and its stream.

use std::time::Duration;

use weftline_core::Instant;

/// What becomes of a GoP that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slot {
    /// It is the stream's GoP of this number; before it, so many numbers were left free as the source was
    /// late.
    Take {
        /// Its number.
        number: u32,
        /// Numbers that nothing came for.
        missed: u32,
    },
    /// It is left out, so that the stream is as far behind the source as it is said to be.
    LeaveOut,
}

/// The times of a live source's GoPs. GoP `n` is read from `T + n·G` on and is sent at `T + n·G + delay`,
/// where `T` is the time of the source's first picture and `G` the length of a GoP.
///
/// A source that brings its pictures faster is read no sooner than that. If it brings them so late that
/// half of the time for encoding is gone, the stream does not wait: numbers are left free, and what comes
/// is sent as a later GoP. If it then makes up for what it has missed, as a camera does that was held up on
/// the way, so much is left out again: what is seen is never older than `delay`, and a GoP.
#[derive(Clone, Debug)]
pub struct Timeline {
    gop: Duration,
    delay: Duration,
    began: Option<Instant>,
    /// The number of the next GoP that is read.
    next: u32,
    /// GoPs whose time to be sent has come.
    sent: u32,
    /// Numbers left free that the source may still make up for.
    behind: u32,
    /// When the GoP before was there.
    read: Option<Instant>,
    has_end: bool,
}

impl Timeline {
    /// Of a source that has not begun. `delay` is at least a GoP: none is whole before.
    pub fn new(gop: Duration, delay: Duration) -> Self {
        let delay = delay.max(gop);
        let (began, read) = (None, None);
        Self { gop, delay, began, next: 0, sent: 0, behind: 0, read, has_end: false }
    }

    /// The first picture is there. It came so long `before`, while it was found out what the source is: GoPs
    /// of that time are left out, if the source had them meanwhile.
    pub fn handle_first(&mut self, now: Instant, before: Duration) {
        if self.began.is_none() {
            (self.began, self.read) = (Some(now), Some(now));
            self.behind = u32::try_from(before.as_nanos() / self.gop.as_nanos()).unwrap_or(0);
        }
    }

    /// When the next GoP may be read; `None` at once.
    pub fn reads_from(&self) -> Option<Instant> {
        let began = self.began.filter(|_| self.behind == 0)?;
        Some(began + self.gop * self.next)
    }

    /// All pictures of the next GoP are there.
    pub fn handle_gop(&mut self, now: Instant) -> Slot {
        let began = *self.began.get_or_insert(now);
        let is_soon = self.read.is_some_and(|read| now.since(read) < self.gop / 2);
        self.read = Some(now);
        if self.behind > 0 && is_soon {
            self.behind -= 1;
            return Slot::LeaveOut;
        }
        self.behind = 0;
        let late = now.since(began + self.gop * (self.next + 1));
        let mut missed = 0;
        if late > (self.delay - self.gop) / 2 {
            missed = u32::try_from(late.as_nanos().div_ceil(self.gop.as_nanos())).unwrap_or(0);
            self.behind = missed;
        }
        // What has been sent is no more free.
        missed = missed.max(self.sent.saturating_sub(self.next));
        let number = self.next + missed;
        self.next = number + 1;
        Slot::Take { number, missed }
    }

    /// The source has ended.
    pub fn handle_end(&mut self) {
        self.has_end = true;
    }

    /// When a GoP is sent; `None` before the first picture.
    pub fn sends_at(&self, number: u32) -> Option<Instant> {
        Some(self.began? + self.gop * number + self.delay)
    }

    /// When [`Self::handle_timeout`] is to be called; `None` before the first picture and after the end.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if self.is_over() { None } else { self.sends_at(self.sent) }
    }

    /// The number of the GoP whose time to be sent has come, if one has.
    pub fn handle_timeout(&mut self, now: Instant) -> Option<u32> {
        self.poll_timeout().filter(|at| *at <= now)?;
        self.sent += 1;
        Some(self.sent - 1)
    }

    /// How many GoPs the stream has had, once the source has ended and all of them were sent.
    pub fn ended(&self) -> Option<u32> {
        self.is_over().then_some(self.sent)
    }

    fn is_over(&self) -> bool {
        self.has_end && self.sent >= self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// GoPs of a second, 3 s behind, from 10 s on.
    fn timeline() -> Timeline {
        let mut timeline = Timeline::new(ms(1_000), ms(3_000));
        assert_eq!((timeline.reads_from(), timeline.poll_timeout()), (None, None));
        timeline.handle_first(at(10_000), Duration::ZERO);
        timeline
    }

    const fn take(number: u32, missed: u32) -> Slot {
        Slot::Take { number, missed }
    }

    #[test]
    fn a_source_in_time_is_sent_with_the_delay_and_ends_with_its_last_gop() {
        let mut timeline = timeline();
        for gop in 0..5_u32 {
            let begins = 10_000 + 1_000 * u64::from(gop);
            assert_eq!(timeline.reads_from(), Some(at(begins)));
            // A little late, as of a camera.
            assert_eq!(timeline.handle_gop(at(begins + 1_300)), take(gop, 0));
            assert_eq!(timeline.sends_at(gop), Some(at(begins + 3_000)));
        }
        timeline.handle_end();
        assert_eq!((timeline.ended(), timeline.poll_timeout()), (None, Some(at(13_000))));
        assert_eq!(timeline.handle_timeout(at(12_999)), None);
        for gop in 0..5 {
            assert_eq!(timeline.handle_timeout(at(20_000)), Some(gop));
        }
        assert_eq!((timeline.handle_timeout(at(20_000)), timeline.ended()), (None, Some(5)));
        assert_eq!(timeline.poll_timeout(), None);
    }

    #[test]
    fn a_source_that_stalls_leaves_numbers_free_and_goes_on_with_the_same_delay() {
        let mut timeline = timeline();
        assert_eq!(timeline.handle_gop(at(11_000)), take(0, 0));
        // GoP 1 was to be there at 12 s, and is at 17.2 s.
        for gop in 0..5 {
            assert_eq!(timeline.handle_timeout(at(17_200)), Some(gop).filter(|gop| *gop < 5));
        }
        assert_eq!(timeline.handle_timeout(at(17_200)), None);
        assert_eq!(timeline.handle_gop(at(17_200)), take(7, 6));
        assert_eq!(timeline.sends_at(7), Some(at(20_000)));
        // It goes on at its pace, with nothing more to be made up for.
        assert_eq!(timeline.reads_from(), None);
        assert_eq!(timeline.handle_gop(at(18_200)), take(8, 0));
        assert_eq!(timeline.reads_from(), Some(at(19_000)));
        assert_eq!(timeline.handle_gop(at(18_300)), take(9, 0), "nothing is made up for later");
    }

    #[test]
    fn what_a_source_makes_up_for_is_left_out() {
        let mut timeline = timeline();
        assert_eq!(timeline.handle_gop(at(11_000)), take(0, 0));
        assert_eq!(timeline.handle_gop(at(14_500)), take(4, 3));
        for _ in 0..3 {
            assert_eq!(timeline.handle_gop(at(14_600)), Slot::LeaveOut);
        }
        assert_eq!(timeline.reads_from(), Some(at(15_000)));
        assert_eq!(timeline.handle_gop(at(14_700)), take(5, 0), "read before its time, and taken");
    }

    #[test]
    fn what_came_before_the_first_picture_was_read_is_left_out_if_it_is_there() {
        let began = || {
            let mut timeline = Timeline::new(ms(1_000), ms(3_000));
            timeline.handle_first(at(10_000), ms(2_900));
            assert_eq!(timeline.reads_from(), None);
            timeline
        };
        let mut camera = began();
        for read in [10_050, 10_100] {
            assert_eq!(camera.handle_gop(at(read)), Slot::LeaveOut);
        }
        assert_eq!(camera.handle_gop(at(10_250)), take(0, 0));
        assert_eq!(camera.reads_from(), Some(at(11_000)));
        // One that has begun only then has nothing to be left out.
        let mut late = began();
        assert_eq!(late.handle_gop(at(11_000)), take(0, 0));
        assert_eq!(late.reads_from(), Some(at(11_000)));
    }

    #[test]
    fn no_number_is_taken_that_was_sent() {
        let mut timeline = Timeline::new(ms(1_000), ms(0));
        timeline.handle_first(at(0), Duration::ZERO);
        // The delay is a GoP: its time has come when it is there.
        assert_eq!(timeline.handle_timeout(at(1_000)), Some(0));
        assert_eq!(timeline.handle_gop(at(1_000)), take(1, 1));
    }
}
