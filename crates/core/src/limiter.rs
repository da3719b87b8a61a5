//! A limiter of a path: it counts what all sessions send over the path in one direction, and limits
//! that.
//!
//! A user sets a [`RateCap`] for as long as they want. A limiter is off at first, and costs a
//! session no more than a look at a flag. For calls, [`datagram`](crate::datagram) has it count,
//! and sets a limit. The other end does not learn of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::policy::RateCap;
use crate::{Bitrate, Instant};

/// The limiter of a path. Clones are the same limiter: their sessions share a limit, and must take the
/// time from one clock.
#[derive(Clone, Debug)]
pub struct PathLimiter(Arc<Limiter>);

#[derive(Debug)]
struct Limiter {
    is_counted: AtomicBool,
    is_limited: AtomicBool,
    cap: RateCap,
    spent: AtomicU64,
}

impl Default for PathLimiter {
    /// One that is off.
    fn default() -> Self {
        Self(Arc::new(Limiter {
            is_counted: AtomicBool::new(false),
            is_limited: AtomicBool::new(false),
            cap: RateCap::new(RateCap::MAX),
            spent: AtomicU64::new(0),
        }))
    }
}

impl PathLimiter {
    /// Whether another one is the same limiter.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The limit, if there is one.
    pub fn limit(&self) -> Option<Bitrate> {
        self.cap().map(RateCap::rate)
    }

    /// Whether there is one.
    pub fn is_limited(&self) -> bool {
        self.0.is_limited.load(Ordering::Relaxed)
    }

    /// Counts what goes through from now on.
    pub fn count(&self) {
        self.0.is_counted.store(true, Ordering::Relaxed);
    }

    /// Lifts the limit, and counts no more.
    pub fn lift(&self) {
        self.set_limit(None);
        self.0.is_counted.store(false, Ordering::Relaxed);
    }

    /// Sets the limit, or lifts it. Sessions take it in when they are asked next.
    pub fn set_limit(&self, limit: Option<Bitrate>) {
        limit.into_iter().for_each(|rate| self.0.cap.set_rate(rate));
        self.0.is_limited.store(limit.is_some(), Ordering::Relaxed);
    }

    /// How many bytes may go through at `now`.
    pub fn available(&self, now: Instant) -> u64 {
        self.cap().map_or(u64::MAX, |cap| cap.available(now))
    }

    /// When [`available`](Self::available) is not none.
    pub fn ready_at(&self) -> Instant {
        self.cap().map_or(Instant::ZERO, RateCap::ready_at)
    }

    /// Notes that `bytes` go through at `now`.
    pub fn spend(&self, bytes: u64, now: Instant) {
        if self.0.is_counted.load(Ordering::Relaxed) {
            self.0.spent.fetch_add(bytes, Ordering::Relaxed);
            self.cap().into_iter().for_each(|cap| cap.spend(bytes, now));
        }
    }

    /// The bytes that have gone through while they were counted.
    pub fn spent(&self) -> u64 {
        self.0.spent.load(Ordering::Relaxed)
    }

    fn cap(&self) -> Option<&RateCap> {
        self.is_limited().then_some(&self.0.cap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limiter_counts_and_limits_while_it_is_told_to() {
        let limiter = PathLimiter::default();
        let at = Instant::from_millis;
        assert_eq!((limiter.limit(), limiter.available(at(0))), (None, u64::MAX));
        limiter.spend(7, at(0));
        assert_eq!(limiter.spent(), 0);
        limiter.count();
        limiter.spend(1 << 40, at(0));
        assert_eq!((limiter.available(at(0)), limiter.ready_at() <= at(0)), (u64::MAX, true));
        let other = limiter.clone();
        other.set_limit(Some(Bitrate::mbps(8)));
        // What went through before is not owed.
        assert_eq!(limiter.available(at(1)), 20_000);
        limiter.spend(20_000, at(1));
        assert_eq!((other.available(at(1)), other.ready_at()), (0, at(6)));
        other.lift();
        limiter.spend(7, at(1));
        assert_eq!((limiter.available(at(1)), limiter.spent()), (u64::MAX, (1 << 40) + 20_000));
    }
}
