//! What a path is for: its role, and how much it may carry.
//!
//! The session applies a policy to every scheduler alike: it does not ask the scheduler for a
//! subflow that stands by, and gives it no more room than the rate cap leaves. Schedulers see the
//! result as [`Subflow::is_usable`](crate::subflow::Subflow::is_usable).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::time::nanos;
use crate::{Bitrate, ByteCount, Instant};

/// What a path is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Carries data whenever it can.
    #[default]
    Active,
    /// Costs something: carries new data only while data wait for the active paths for longer than
    /// [`METERED_AFTER`], or none of those is up.
    Metered,
    /// Carries new data only while no active and no metered path is up. What stalled paths hold it
    /// sends again at any time.
    Backup,
    /// On its way out: carries no new data, whatever the others do.
    Retired,
}

/// How long data must have waited for the active paths, without a break, before metered paths
/// help. They stop when nothing waits any more.
pub const METERED_AFTER: Duration = Duration::from_millis(200);

impl Role {
    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::Metered => "metered",
            Self::Backup => "backup",
            Self::Retired => "retired",
        }
    }
}

/// What a path may be used for; the same at both ends of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathPolicy {
    /// When it carries data.
    pub role: Role,
    /// The most it may carry in each direction: bytes of the stream and the headers of their
    /// records. What TLS, TCP and IP add, some hundredths, is not counted.
    pub cap: Option<Bitrate>,
}

/// A limit on a rate, which any number of sessions may share: over any time it lets through that
/// rate and a burst of [`RateCap::BURST`]. Clones are the same limit.
///
/// It is a virtual clock (the generic cell rate algorithm of ITU-T I.371): the time at which all
/// that has gone through would have, at exactly the rate.
#[derive(Clone, Debug)]
pub struct RateCap(Arc<Clock>);

#[derive(Debug)]
struct Clock {
    bps: AtomicU64,
    paid_until: AtomicU64,
}

impl RateCap {
    /// What may go at once, in time.
    pub const BURST: Duration = Duration::from_millis(20);
    /// What may go at once at least, in bytes: two segments, whatever the rate.
    const LEAST_BURST: ByteCount = ByteCount::new(2 * 1448);
    /// Nothing is let through before this much of the burst may go: single bytes would each cost a
    /// record.
    const SHARE: u32 = 4;
    /// The rates that make sense: one segment takes 12 s at the least.
    pub const MIN: Bitrate = Bitrate::kbps(1);
    /// More than any path has.
    pub const MAX: Bitrate = Bitrate::mbps(1_000_000);

    /// A limit of `rate`, within [`MIN`](Self::MIN) and [`MAX`](Self::MAX).
    pub fn new(rate: Bitrate) -> Self {
        let clock = Clock { bps: AtomicU64::new(0), paid_until: AtomicU64::new(0) };
        let cap = Self(Arc::new(clock));
        cap.set_rate(rate);
        cap
    }

    /// The rate.
    pub fn rate(&self) -> Bitrate {
        Bitrate::bps(self.0.bps.load(Ordering::Relaxed))
    }

    /// Changes the rate; what has gone through stays paid for at the old one.
    pub fn set_rate(&self, rate: Bitrate) {
        self.0.bps.store(rate.max(Self::MIN).min(Self::MAX).as_bps(), Ordering::Relaxed);
    }

    /// How many bytes may go through at `now`: none, or a worthwhile number.
    pub fn available(&self, now: Instant) -> u64 {
        let left = (now + self.burst()).since(self.paid_until()).min(self.burst());
        if left < self.burst() / Self::SHARE { 0 } else { self.rate().bytes_in(left).as_u64() }
    }

    /// When [`available`](Self::available) is not none.
    pub fn ready_at(&self) -> Instant {
        let ahead = self.burst() - self.burst() / Self::SHARE;
        Instant::from_nanos(self.paid_until().as_nanos().saturating_sub(nanos(ahead)))
    }

    /// Notes that `bytes` go through at `now`. They may be more than were available: then the
    /// next ones wait longer.
    pub fn spend(&self, bytes: u64, now: Instant) {
        let cost = nanos(self.time_for(ByteCount::new(bytes)));
        let pay = |until: u64| Some(until.max(now.as_nanos()).saturating_add(cost));
        // Never fails: the closure always has an answer.
        let _ = self.0.paid_until.fetch_update(Ordering::Relaxed, Ordering::Relaxed, pay);
    }

    fn paid_until(&self) -> Instant {
        Instant::from_nanos(self.0.paid_until.load(Ordering::Relaxed))
    }

    fn burst(&self) -> Duration {
        Self::BURST.max(self.time_for(Self::LEAST_BURST))
    }

    fn time_for(&self, bytes: ByteCount) -> Duration {
        // The rate is never zero.
        self.rate().time_for(bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// However often, and however greedily, sessions ask: never more than rate × time, a burst
        /// and what one of them overdrew.
        #[test]
        fn a_cap_holds_over_any_time(
            kbps in 1u64..2_000_000,
            asks in proptest::collection::vec((0u64..40_000_000, 0u64..200_000), 1..200),
        ) {
            let cap = RateCap::new(Bitrate::kbps(kbps));
            let (mut now, mut sent, mut overdrawn) = (Instant::from_millis(5), 0, 0);
            let start = now;
            for (pause_ns, wanted) in asks {
                now += Duration::from_nanos(pause_ns);
                let may = cap.available(now);
                if may == 0 {
                    prop_assert!(cap.ready_at() > now);
                    now = cap.ready_at();
                    prop_assert!(cap.available(now) > 0);
                    continue;
                }
                // Headers come on top.
                let bytes = wanted.min(may) + 10;
                overdrawn = overdrawn.max(bytes.saturating_sub(may));
                cap.spend(bytes, now);
                sent += bytes;
                let most = cap.rate().bytes_in(now.since(start) + cap.burst()).as_u64();
                prop_assert!(sent <= most + overdrawn + 2, "{sent} > {most} + {overdrawn}");
            }
        }
    }

    #[test]
    fn a_cap_is_used_up_by_one_who_always_asks() {
        let cap = RateCap::new(Bitrate::mbps(8));
        let (mut now, mut sent) = (Instant::ZERO, 0);
        while now < Instant::from_millis(10_000) {
            let bytes = cap.available(now);
            cap.spend(bytes, now);
            sent += bytes;
            now = cap.ready_at().max(now);
        }
        assert!((10_000_000..=10_020_000).contains(&sent), "{sent}");
    }

    #[test]
    fn sharers_of_a_cap_share_it() {
        let cap = RateCap::new(Bitrate::mbps(8));
        let now = Instant::from_millis(7);
        let other = cap.clone();
        assert_eq!(other.available(now), 20_000);
        cap.spend(20_000, now);
        assert_eq!(other.available(now), 0);
        other.set_rate(Bitrate::mbps(80));
        assert_eq!(cap.rate(), Bitrate::mbps(80));
    }
}
