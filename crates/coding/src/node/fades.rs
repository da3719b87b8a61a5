//! How much longer packets may wait at a gateway while its links carry less than they did (not the
//! paper's).
//!
//! When a radio fades or is gone, the windows of the connections still fill what all links carried,
//! and the surplus waits in the gateway's queue: at a rate r of R it waits for R/r - 1 round trips.
//! CoDel takes that for a standing queue, and drops until the windows fit what is left. A loss-based
//! congestion control then grows by hardly more than a packet in a round trip, and needs ten seconds
//! and more after the radio is back. So for some seconds packets may wait longer: by the part of the
//! links' rate that is missing, of CoDel's interval, which is the longest round trip to be reckoned
//! with. Flows that send little do not wait for those that fill the queue.

use std::time::Duration;

use weftline_core::{Bitrate, Instant};

/// The time over which what links carry now is averaged: shares of several devices change from packet to
/// packet.
const MOMENT: Duration = Duration::from_millis(30);

/// The same of what they carried: mmWave changes faster.
const SMOOTH: Duration = Duration::from_millis(200);

/// What links carried is remembered for one to two of these.
const WINDOW: Duration = Duration::from_secs(4);

/// The part of what links carried above which they have not faded: a window that loses less than half is
/// soon back.
const FADED: f64 = 0.5;

/// What a gateway's links carry together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fades {
    /// What was learned last, and when.
    at: Option<(Instant, f64)>,
    /// Now, and averaged for longer; in bits a second.
    now: f64,
    smooth: f64,
    /// The most of the window that began so, and of the one before.
    window: Option<(Instant, f64)>,
    before: f64,
}

impl Fades {
    /// The links carry so much from now on; `None` if that of one is not known.
    pub(super) fn learn(&mut self, sum: Option<Bitrate>, now: Instant) {
        let Some(sum) = sum else { return *self = Self::default() };
        let sum = sum.as_bps() as f64;
        // It begins at zero: a first rate that does not last is none that they carried.
        let (at, held) = self.at.replace((now, sum)).unwrap_or((now, sum));
        let time = now.since(at).as_secs_f64();
        let part = |over: Duration| 1.0 - (-time / over.as_secs_f64()).exp();
        self.now += (held - self.now) * part(MOMENT);
        self.smooth += (held - self.smooth) * part(SMOOTH);
        match &mut self.window {
            Some((begun, most)) if now < *begun + WINDOW => *most = most.max(self.smooth),
            window => {
                self.before = window.replace((now, self.smooth)).map_or(0.0, |(_, most)| most);
            }
        }
    }

    /// How much longer than without packets may wait, if `interval` is CoDel's.
    pub(super) fn allowance(&self, interval: Duration) -> Duration {
        let most = self.window.map_or(0.0, |(_, most)| most.max(self.before));
        let left = if most > 0.0 { self.now / most } else { 1.0 };
        if left < FADED { interval.mul_f64(1.0 - left) } else { Duration::ZERO }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(300);

    /// The allowance in ms, each 10 ms, of links that carry so many Mb/s at a time in ms.
    fn allowed(mbps: impl Fn(u64) -> u64, until_ms: u64) -> Vec<u128> {
        let mut fades = Fades::default();
        let times = (0..until_ms).step_by(10);
        let each = times.map(|ms| {
            fades.learn(Some(Bitrate::mbps(mbps(ms))), Instant::from_millis(1000 + ms));
            fades.allowance(INTERVAL).as_millis()
        });
        each.collect()
    }

    #[test]
    fn packets_may_wait_longer_for_some_seconds_of_a_fade() {
        let all = allowed(|ms| if (5000..20_000).contains(&ms) { 300 } else { 900 }, 22_000);
        let longer: Vec<_> = (0..all.len()).filter(|&n| all[n] > 0).collect();
        // Within CoDel's interval, and for one to two windows.
        assert!((500..530).contains(&longer[0]), "{}", longer[0]);
        let last = longer[longer.len() - 1];
        assert!((900..=1330).contains(&last), "{last}");
        assert_eq!(last - longer[0] + 1, longer.len(), "once");
        assert!((199..=200).contains(&all[700]), "{}", all[700]);
    }

    #[test]
    fn links_that_change_by_less_or_for_a_moment_or_grow_have_not_faded() {
        let turns = |ms: u64| if (ms / 10).is_multiple_of(10) { 900 } else { 90 };
        for mbps in [|_| 500, |ms| 900 - ms % 2000 / 5, |ms| 100 + ms / 10] {
            assert!(allowed(mbps, 20_000).iter().all(|&ms| ms == 0));
        }
        // A share of a link that other devices take up at times.
        assert!(allowed(turns, 20_000)[100..].iter().all(|&ms| ms == 0));
        let gone = allowed(|ms| if ms < 5000 { 900 } else { 0 }, 6000);
        assert!((297..=300).contains(&gone[599]), "nothing is left: {}", gone[599]);
        let mut fades = Fades::default();
        fades.learn(Some(Bitrate::mbps(900)), Instant::from_millis(1000));
        fades.learn(None, Instant::from_millis(2000));
        fades.learn(Some(Bitrate::mbps(90)), Instant::from_millis(3000));
        assert_eq!(fades.allowance(INTERVAL), Duration::ZERO, "what was is not known any more");
    }
}
