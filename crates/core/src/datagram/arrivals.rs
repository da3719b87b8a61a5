//! What has come over a lane, to be told to the other end.

use std::time::Duration;

use super::frame::{Feedback, MAX_RANGES};
use crate::ranges::RangeSet;
use crate::{Instant, time};

/// How long data that have come wait for others to be told with them.
pub(super) const GATHER: Duration = Duration::from_millis(10);
/// So many are told at once.
const MOST_UNTOLD: u32 = 64;

/// What has come over a lane.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    seen: RangeSet,
    newest: Option<(u64, Instant)>,
    untold: u32,
    due: Option<Instant>,
}

impl Arrivals {
    /// Notes a datagram; one of data is answered.
    pub(super) fn note(&mut self, sequence: u64, is_data: bool, now: Instant) {
        self.seen.insert(sequence..sequence.saturating_add(1));
        while self.seen.len() > MAX_RANGES {
            let lowest = self.seen.first().expect("there are some");
            self.seen.remove_below(lowest.end);
        }
        if self.newest.is_none_or(|(newest, _)| sequence > newest) {
            self.newest = Some((sequence, now));
        }
        if is_data {
            self.untold += 1;
            let due = if self.untold >= MOST_UNTOLD { now } else { now + GATHER };
            self.due = Some(self.due.map_or(due, |one| one.min(due)));
        }
    }

    /// When something is to be told.
    pub(super) fn due(&self) -> Option<Instant> {
        self.due
    }

    /// What is to be told now.
    pub(super) fn tell(&mut self, now: Instant) -> Option<Feedback> {
        self.due.filter(|due| *due <= now)?;
        let (_, arrived) = self.newest?;
        (self.due, self.untold) = (None, 0);
        Some(Feedback {
            delay: now.since(arrived),
            arrived_us: time::nanos(arrived.since(Instant::ZERO)) / 1000,
            ranges: self.seen.iter().rev().collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_told_after_a_while_and_little_is_kept() {
        let mut arrivals = Arrivals::default();
        let at = Instant::from_millis;
        arrivals.note(0, false, at(1));
        assert_eq!((arrivals.due(), arrivals.tell(at(100))), (None, None), "nobody waits for it");
        arrivals.note(1, true, at(100));
        arrivals.note(3, true, at(104));
        assert_eq!(arrivals.tell(at(109)), None);
        let told = arrivals.tell(at(110)).unwrap();
        assert_eq!(told.ranges, [3..4, 0..2]);
        assert_eq!((told.delay, told.arrived_us), (Duration::from_millis(6), 104_000));
        assert_eq!(arrivals.tell(at(200)), None, "once");
        // Every second one, for ever, and a jump to the end.
        for n in 0..100_000 {
            arrivals.note(2 * n, true, at(300));
        }
        arrivals.note(u64::MAX - 1, true, at(300));
        let told = arrivals.tell(at(300)).unwrap();
        assert_eq!(told.ranges.len(), MAX_RANGES);
        assert!(arrivals.seen.len() <= MAX_RANGES);
    }
}
