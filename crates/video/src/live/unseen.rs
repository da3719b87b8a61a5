//! A connection that nobody can look into, one of the kernel's MPTCP or TCP: what of it is on its way,
//! from what it has taken and what the player says to have received.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_core::Instant;

use crate::forecast::PathReading;

/// How many moments are kept at most: some seconds of them, at twenty a second.
const MAX_KEPT: usize = 512;

/// What is known of all paths of a connection together.
#[derive(Debug, Default)]
pub(super) struct Unseen {
    /// What it had taken when, of which not all has been reported.
    taken: VecDeque<(u64, Instant)>,
    /// What it has taken so far.
    all: u64,
    received: u64,
    /// The least time from taking a byte to the report of it.
    least: Option<Duration>,
}

impl Unseen {
    /// The connection has taken so many bytes so far, the last of them at `at`.
    pub(super) fn handle_taken(&mut self, all: u64, at: Instant) {
        if all > self.all {
            self.all = all;
            if self.taken.len() == MAX_KEPT {
                self.taken.pop_front();
            }
            self.taken.push_back((all, at));
        }
    }

    /// The player says to have received so many bytes so far: what is known now.
    pub(super) fn handle_received(&mut self, received: u64, now: Instant) -> PathReading {
        // A peer may say anything, and reports may overtake each other.
        self.received = received.clamp(self.received, self.all.max(self.received));
        let mut last = None;
        while let Some((_, at)) = self.taken.front().filter(|(all, _)| *all <= self.received) {
            last = Some(*at);
            self.taken.pop_front();
        }
        if let Some(at) = last {
            let took = now.since(at);
            self.least = Some(self.least.map_or(took, |least| least.min(took)));
        }
        PathReading {
            delivered: self.received,
            outstanding: self.all - self.received.min(self.all),
            min_rtt: self.least.unwrap_or_default(),
            is_up: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn what_was_taken_and_is_not_reported_is_on_its_way() {
        let mut unseen = Unseen::default();
        let at = Instant::from_millis;
        unseen.handle_taken(1_000, at(100));
        unseen.handle_taken(1_000, at(150));
        unseen.handle_taken(5_000, at(200));
        let none = unseen.handle_received(0, at(210));
        assert_eq!((none.outstanding, none.min_rtt), (5_000, Duration::ZERO));
        // All of the first 1,000, a report of which came 160 ms after they were taken.
        let some = unseen.handle_received(3_000, at(260));
        assert_eq!((some.delivered, some.outstanding, some.min_rtt), (3_000, 2_000, MS * 160));
        let all = unseen.handle_received(5_000, at(290));
        assert_eq!((all.outstanding, all.min_rtt), (0, MS * 90));
        unseen.handle_taken(6_000, at(300));
        let later = unseen.handle_received(6_000, at(900));
        assert_eq!((later.outstanding, later.min_rtt), (0, MS * 90), "the least stays");
        assert!(unseen.taken.is_empty());
    }

    #[test]
    fn a_player_that_says_nonsense_gets_no_more_than_was_sent() {
        let mut unseen = Unseen::default();
        unseen.handle_taken(1_000, Instant::from_millis(100));
        let all = unseen.handle_received(u64::MAX, Instant::from_millis(200));
        assert_eq!((all.delivered, all.outstanding), (1_000, 0));
        let back = unseen.handle_received(5, Instant::from_millis(300));
        assert_eq!((back.delivered, back.outstanding), (1_000, 0));
        for taken in 0..10_000 {
            unseen.handle_taken(2_000 + taken, Instant::from_millis(400 + taken));
        }
        assert_eq!(unseen.taken.len(), MAX_KEPT);
    }
}
