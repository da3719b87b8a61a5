//! What all sessions send over a path in one direction: counted, and limited, while somebody needs that.
//!
//! A [`RateCap`] is what a user has set, and the same for as long as they want. A gate stands open, and is
//! no more than a flag that is looked at, until whoever looks after the path ([`datagram`](crate::datagram),
//! for calls) has it count, and sets a limit. The other end hears nothing of that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::policy::RateCap;
use crate::{Bitrate, Instant};

/// The gate of a path. Clones are the same gate, whose sessions share a limit, and tell the time by one
/// clock.
#[derive(Clone, Debug)]
pub struct PathGate(Arc<Gate>);

#[derive(Debug)]
struct Gate {
    is_counted: AtomicBool,
    is_limited: AtomicBool,
    cap: RateCap,
    spent: AtomicU64,
}

impl Default for PathGate {
    /// One that stands open.
    fn default() -> Self {
        Self(Arc::new(Gate {
            is_counted: AtomicBool::new(false),
            is_limited: AtomicBool::new(false),
            cap: RateCap::new(RateCap::MAX),
            spent: AtomicU64::new(0),
        }))
    }
}

impl PathGate {
    /// Whether another one is the same gate.
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
    pub fn open(&self) {
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
    fn a_gate_counts_and_limits_while_it_is_told_to() {
        let gate = PathGate::default();
        let at = Instant::from_millis;
        assert_eq!((gate.limit(), gate.available(at(0))), (None, u64::MAX));
        gate.spend(7, at(0));
        assert_eq!(gate.spent(), 0);
        gate.count();
        gate.spend(1 << 40, at(0));
        assert_eq!((gate.available(at(0)), gate.ready_at() <= at(0)), (u64::MAX, true));
        let other = gate.clone();
        other.set_limit(Some(Bitrate::mbps(8)));
        // What went through before is not owed.
        assert_eq!(gate.available(at(1)), 20_000);
        gate.spend(20_000, at(1));
        assert_eq!((other.available(at(1)), other.ready_at()), (0, at(6)));
        other.open();
        gate.spend(7, at(1));
        assert_eq!((gate.available(at(1)), gate.spent()), (u64::MAX, (1 << 40) + 20_000));
    }
}
