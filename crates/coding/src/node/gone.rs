//! How much longer packets may wait at a gateway while a link is gone that carried much (not the
//! paper's).
//!
//! The windows of the connections still fill what all links carried, and the surplus waits in the
//! gateway's queue: at a rate r of R it waits for R/r - 1 round trips. CoDel takes that for a standing
//! queue, and drops until the windows fit what is left. A loss-based congestion control then grows by
//! hardly more than a packet in a round trip, and needs ten seconds and more after the link is back. So
//! packets may wait longer while a link is gone: by the part of the traffic that it had, of CoDel's
//! interval, which is the longest round trip to be reckoned with. That is a bound, not what the windows
//! need, which the gateway does not know: their round trips are shorter. It shrinks to nothing in eight
//! seconds, so that where a link stays away CoDel cuts the windows little by little. Flows that send
//! little do not wait for those that fill the queue.
//!
//! What counts is what the gateway itself has sent over each link. What is said of rates does not: it
//! may be a share of what several devices have, or made up.

use std::time::Duration;

use weftline_core::Instant;

/// The time over which it is averaged what a link carries: longer than it takes to notice that it is gone.
const SMOOTH: Duration = Duration::from_secs(1);

/// Packets may wait longer for so long.
const LASTS: Duration = Duration::from_secs(8);

/// A link.
#[derive(Clone, Copy, Debug, Default)]
struct Link {
    /// Bytes sent since the last time it was averaged.
    sent: u64,
    /// Bytes a second, averaged.
    carries: f64,
    /// Since when it is gone, and what it carried then.
    gone: Option<(Instant, f64)>,
}

/// What a gateway's links carry, and which are gone.
#[derive(Clone, Debug)]
pub(super) struct Gone {
    links: Vec<Link>,
    at: Instant,
}

impl Gone {
    /// Of so many links.
    pub(super) fn new(links: usize, now: Instant) -> Self {
        Self { links: vec![Link::default(); links], at: now }
    }

    /// So many bytes went over a link.
    pub(super) fn sent(&mut self, link: usize, bytes: usize) {
        self.links[link].sent += bytes as u64;
    }

    /// Whether a link is gone from now on.
    pub(super) fn set(&mut self, link: usize, is_gone: bool, now: Instant) {
        let link = &mut self.links[link];
        link.gone = is_gone.then(|| link.gone.unwrap_or((now, link.carries)));
    }

    /// Averages what was sent.
    pub(super) fn pass(&mut self, now: Instant) {
        let time = now.since(self.at).as_secs_f64();
        if time <= 0.0 {
            return;
        }
        self.at = now;
        let part = 1.0 - (-time / SMOOTH.as_secs_f64()).exp();
        for link in &mut self.links {
            link.carries += (std::mem::take(&mut link.sent) as f64 / time - link.carries) * part;
        }
    }

    /// The part of what all links carry that goes over `link`.
    pub(super) fn part(&self, link: usize) -> f64 {
        let all: f64 = self.links.iter().map(|link| link.carries).sum();
        if all > 0.0 { self.links[link].carries / all } else { 0.0 }
    }

    /// How much longer than without packets may wait, if `interval` is CoDel's.
    pub(super) fn allowance(&self, interval: Duration, now: Instant) -> Duration {
        let (mut missing, mut left) = (0.0, 0.0);
        for link in &self.links {
            match link.gone {
                Some((at, carried)) => {
                    let passed = now.since(at).as_secs_f64() / LASTS.as_secs_f64();
                    missing += carried * (1.0 - passed).max(0.0);
                }
                None => left += link.carries,
            }
        }
        let part = if missing > 0.0 { missing / (missing + left) } else { 0.0 };
        interval.mul_f64(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(300);

    /// The allowance in ms, each 10 ms, of two links that carry so many Mb/s at a time in ms, of which the
    /// second is gone for such times.
    fn allowed(mbps: impl Fn(u64) -> [u64; 2], gone: &[(u64, u64)], until_ms: u64) -> Vec<u128> {
        let mut links = Gone::new(2, Instant::from_millis(0));
        let each = (0..until_ms).step_by(10).map(|ms| {
            let now = Instant::from_millis(ms);
            links.pass(now);
            links.set(1, gone.iter().any(|&(from, to)| (from..to).contains(&ms)), now);
            (0..2).for_each(|link| links.sent(link, mbps(ms)[link] as usize * 1250));
            links.allowance(INTERVAL, now).as_millis()
        });
        each.collect()
    }

    #[test]
    fn packets_may_wait_longer_for_some_seconds_while_a_link_is_gone() {
        let died = |ms: u64| [300, if ms < 5000 { 600 } else { 0 }];
        let all = allowed(died, &[(5350, 20_000)], 21_000);
        assert!(all[..535].iter().all(|&ms| ms == 0), "until it is known");
        // 350 ms of which it carried nothing.
        assert!((170..=200).contains(&all[535]), "{}", all[535]);
        assert!(all[535..].is_sorted_by(|a, b| a >= b), "it shrinks: {all:?}");
        assert!((90..=150).contains(&all[835]), "{}", all[835]);
        assert!(all[1335..].iter().all(|&ms| ms == 0), "after eight seconds");
        let back = allowed(died, &[(5350, 7000)], 8000);
        assert!(back[699] > 0 && back[700..].iter().all(|&ms| ms == 0), "until it is back");
    }

    #[test]
    fn only_what_a_link_has_carried_counts() {
        let none = |mbps: fn(u64) -> [u64; 2], gone: &[(u64, u64)]| {
            allowed(mbps, gone, 9000).iter().all(|&ms| ms == 0)
        };
        assert!(none(|ms| [ms % 900, 900 - ms % 900], &[]), "none is gone");
        assert!(none(|_| [300, 0], &[(3000, 9000)]), "it carried nothing");
        // A device that did little before.
        let all = allowed(|ms| if ms < 5000 { [1, 2] } else { [300, 0] }, &[(4000, 9000)], 9000);
        assert!(all[550..].iter().all(|&ms| ms <= 4), "{:?}", &all[550..]);
        // One that comes and goes has to carry something again.
        let all = allowed(|_| [300, 10], &[(2000, 2010), (3000, 3010), (4000, 4010)], 5000);
        assert!(all.iter().all(|&ms| ms <= 10), "{all:?}");
    }
}
