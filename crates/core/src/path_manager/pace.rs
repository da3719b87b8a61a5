//! How often a path that is dark is dialled.
//!
//! While a connection has traffic, a fresh TCP connection is begun every [`RACE_INTERVAL`] beside
//! those that have not been answered yet, so that the path's return is noticed within that time.
//! Of the connections of one client only one does so on a path; the others hear from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::Instant;
use crate::rng::Rng;

/// The time between two attempts on a dark path while there is traffic.
pub(super) const RACE_INTERVAL: Duration = Duration::from_millis(200);
/// A connection counts as having traffic for so long after the last of it.
const BUSY_TIME: Duration = Duration::from_secs(30);
/// Waits between attempts without traffic: doubling from the first to the last, each up to a
/// quarter shorter.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// The one seat of a path, for which all connections over it share a handle: whoever has it dials
/// often.
#[derive(Clone, Debug, Default)]
pub struct ProbeSeat(Arc<AtomicBool>);

impl ProbeSeat {
    fn take(&self) -> Option<Taken> {
        let was_taken = self.0.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| Taken(self.clone()))
    }
}

/// A seat that is taken, until this is dropped.
#[derive(Debug)]
struct Taken(ProbeSeat);

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.store(false, Ordering::Release);
    }
}

/// The pace of attempts on one path of one connection.
#[derive(Debug)]
pub(super) struct Pace {
    seat: Option<Taken>,
    /// What the connection had moved in all, and when it last did.
    moved: (u64, Instant),
}

impl Pace {
    /// For a path that has just gone dark.
    pub(super) const fn new(now: Instant) -> Self {
        Self { seat: None, moved: (0, now) }
    }

    /// Whether the connection is the one that dials often: it is, or it can be.
    pub(super) fn takes(&mut self, path: &ProbeSeat) -> bool {
        if self.seat.is_none() {
            self.seat = path.take();
        }
        self.seat.is_some()
    }

    /// Whether the connection is the one that dials often.
    pub(super) const fn has_seat(&self) -> bool {
        self.seat.is_some()
    }

    /// Another one may dial often.
    pub(super) fn leave_seat(&mut self) {
        self.seat = None;
    }

    /// The wait before the next attempt, given how many bytes the connection has moved in all;
    /// `backoff` has those of the connections that do not dial often.
    pub(super) fn wait(
        &mut self,
        path: &ProbeSeat,
        moved: u64,
        backoff: &mut Backoff,
        now: Instant,
    ) -> Duration {
        if self.moved.0 != moved {
            self.moved = (moved, now);
        }
        if now.since(self.moved.1) >= BUSY_TIME {
            self.leave_seat();
        } else if self.takes(path) {
            return RACE_INTERVAL;
        }
        backoff.next()
    }
}

/// Waits that double, with jitter so that many clients do not come back at once.
#[derive(Clone, Debug)]
pub(super) struct Backoff {
    next: Duration,
    rng: Rng,
}

impl Backoff {
    /// Starting from the shortest wait.
    pub(super) const fn new(rng: Rng) -> Self {
        Self { next: BACKOFF_MIN, rng }
    }

    /// The next wait.
    pub(super) fn next(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(BACKOFF_MAX);
        full.mul_f64(1.0 - 0.25 * self.rng.unit_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff() -> Backoff {
        Backoff::new(Rng::stream(1, "test"))
    }

    #[test]
    fn waits_double_up_to_the_limit() {
        let mut backoff = backoff();
        let mut full = BACKOFF_MIN;
        for _ in 0..10 {
            let wait = backoff.next();
            assert!(wait <= full && wait >= full.mul_f64(0.75), "{wait:?} of {full:?}");
            full = (full * 2).min(BACKOFF_MAX);
        }
    }

    /// A connection's pace, and its waits.
    struct Dialler(Pace, Backoff);

    impl Dialler {
        fn new(now: Instant) -> Self {
            Self(Pace::new(now), backoff())
        }

        fn wait(&mut self, path: &ProbeSeat, moved: u64, now: Instant) -> Duration {
            self.0.wait(path, moved, &mut self.1, now)
        }
    }

    #[test]
    fn one_connection_dials_often_while_it_has_traffic() {
        let path = ProbeSeat::default();
        let at = Instant::from_millis;
        let mut first = Dialler::new(at(0));
        let mut second = Dialler::new(at(0));
        assert_eq!(first.wait(&path, 1, at(0)), RACE_INTERVAL);
        for moved in 0..5 {
            assert!(second.wait(&path, moved, at(moved)) > RACE_INTERVAL * 9 / 10);
        }
        assert!(second.wait(&path, 9, at(100)) > BACKOFF_MAX / 2);
        // Traffic keeps it at it; without any, the other one takes over.
        assert_eq!(first.wait(&path, 2, at(29_000)), RACE_INTERVAL);
        assert_eq!(first.wait(&path, 2, at(58_000)), RACE_INTERVAL);
        assert!(first.wait(&path, 2, at(59_000)) > RACE_INTERVAL / 2);
        assert_eq!(second.wait(&path, 10, at(59_000)), RACE_INTERVAL);
    }

    #[test]
    fn a_seat_is_free_again_when_its_connection_is_over() {
        let path = ProbeSeat::default();
        let at = Instant::from_millis;
        let mut first = Dialler::new(at(0));
        assert_eq!(first.wait(&path, 1, at(0)), RACE_INTERVAL);
        drop(first);
        assert_eq!(Dialler::new(at(1)).wait(&path, 1, at(1)), RACE_INTERVAL);
    }
}
