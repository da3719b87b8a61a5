//! How much a gateway takes (COTAG §III-C, *coded taking*): as much as fits, up to a limit, or what the
//! losses of late call for.
//!
//! The paper fills with combinations what time is left, which is all where TCP leaves room, and
//! nothing where a queue waits. Learned, a generation of n packets gets so many combinations that it
//! fails once in 10,000 times, where p is the part of the packets that did not come to the device as
//! they were; for ten seconds after a loss, one in 32 packets at least. They go before new packets do. Where
//! links have time left, and losses are known, each generation gets one at least. A gateway begins as
//! if it knew of losses, and fears more the less it knows: a connection is most easily hurt at its start.

use std::time::Duration;

use weftline_core::Instant;

/// New reports count for one in so many parts of what is known.
const GAIN: f64 = 1.0 / 16.0;
/// Packets that a report should be of to count in full.
const FULL_REPORT: f64 = 512.0;

/// The time from one at which what is known is remembered to the next. It takes less to notice that a link
/// is gone: 350 ms for a radio, 600 ms for an access point.
const REMEMBERED: Duration = Duration::from_secs(1);

/// The least share for [`HOLD`] after a loss: one combination for a generation of 32 packets, which makes up
/// for a single loss. It costs 3 % where links have no time left. But one loss in a second, of 1 Gb/s one
/// packet in 100,000, leaves CUBIC with 0.7 of what it has so.
const LEAST: f64 = 1.0 / 32.0;
/// A single loss is so far from others at the most where CUBIC notices it: at 1 Gb/s its window takes as
/// long to come back.
const HOLD: Duration = Duration::from_secs(10);

/// How likely a generation fails: it has then more missing packets than combinations that came. Each
/// failure is a loss to TCP, and 2500 generations of 32 packets a second are 1 Gb/s: more often, and
/// loss-based congestion controls do not come to that rate. The mean and two deviations, which fail
/// once in 20 to 50 times, left CUBIC with 5 Mb/s of links of 1.3 Gb/s that lose 5 %.
const FAILS: f64 = 1e-4;

/// How the share of redundant packets is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redundancy {
    /// The limit is the share: what time is left is filled up to it (COTAG Algorithm 1).
    #[default]
    Limit,
    /// It is learned from what the device reports, and the limit is a limit.
    Learned,
}

/// What a device reports: packets since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LossReport {
    /// Handed out, or given up.
    pub packets: u64,
    /// Of these, missing: recovered from combinations, or given up.
    pub missing: u64,
}

/// What was learned of losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    known: Known,
    /// The same when it was remembered last, at that time, and the time before.
    before: Known,
    earlier: Known,
    remembered: Option<Instant>,
    /// Packets that were reported, and [`FULL_REPORT`] that were assumed; and when it was last.
    seen: f64,
    at: Instant,
    /// Combinations that were called for and are not whole ones yet.
    carry: f64,
    /// The generation that comes first in the next cohort: where there are fewer combinations than
    /// generations, each has its turn.
    turn: usize,
}

/// So many packets may be missing of those that were reported first: of 512 that were assumed one in 32, and
/// once 8192 were reported only what was.
const FEARED: f64 = 16.0;

/// What is known of losses.
#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// The part of the packets that is missing.
    part: f64,
    /// When there was a loss last.
    lost: Option<Instant>,
}

impl Known {
    /// What of both is less.
    fn least(self, other: Self) -> Self {
        Self { part: self.part.min(other.part), lost: self.lost.min(other.lost) }
    }
}

impl Default for Losses {
    fn default() -> Self {
        let (known, before, earlier) = Default::default();
        let (seen, at) = (FULL_REPORT, Instant::ZERO);
        Self { known, before, earlier, remembered: None, seen, at, carry: 0.0, turn: 0 }
    }
}

impl Losses {
    /// Learns from a report. One that contradicts itself counts as one of nothing but losses.
    pub(super) fn learn(&mut self, report: LossReport, now: Instant) {
        if report.packets == 0 {
            return;
        }
        if self.remembered.is_none_or(|at| now >= at + REMEMBERED) {
            (self.earlier, self.before, self.remembered) = (self.before, self.known, Some(now));
        }
        let part = (report.missing as f64 / report.packets as f64).min(1.0);
        let weight = (report.packets as f64 / FULL_REPORT).min(1.0);
        (self.seen, self.at) = (self.seen + report.packets as f64, now);
        // At first the mean of all.
        let gain = (GAIN * weight).max(report.packets as f64 / self.seen);
        self.known.part += (part - self.known.part) * gain;
        if report.missing > 0 {
            self.known.lost = Some(now);
        }
    }

    /// A link is gone: what was lost on it of late is forgotten, and what was known before holds.
    pub(super) fn forget_latest(&mut self) {
        self.known = self.known.least(self.earlier);
        // It may be of the time in which the link was gone already.
        self.before = self.before.least(self.known);
    }

    /// The generations, of these sizes, that get combinations, in order: `plan` has each as often as it
    /// needs one where there is time left, in turns, and at most `most` in all. So many of these, the
    /// result, are to go before new packets.
    pub(super) fn plan(
        &mut self,
        sizes: impl Iterator<Item = u8> + Clone,
        most: usize,
        plan: &mut Vec<usize>,
    ) -> usize {
        plan.clear();
        let quota = self.quota(sizes.clone());
        if self.is_lossy() {
            let mut needs = Needs::new(self.likely());
            let mut open: Vec<_> = sizes.map(|size| needs.of(size).max(1)).enumerate().collect();
            let first = self.turn % open.len().max(1);
            open.rotate_left(first);
            while !open.is_empty() && plan.len() < most {
                plan.extend(open.iter().map(|&(generation, _)| generation));
                open.retain_mut(|(_, needed)| {
                    *needed -= 1;
                    *needed > 0
                });
            }
            plan.truncate(most);
        }
        let quota = quota.min(plan.len());
        self.turn = self.turn.wrapping_add(quota);
        quota
    }

    /// About how many combinations go before new packets for each packet in generations of this size.
    pub(super) fn share(&self, size: u8) -> f64 {
        if self.is_lossy() {
            wanted(size, &mut Needs::new(self.known.part)) / f64::from(size)
        } else {
            0.0
        }
    }

    /// Whether there may be losses: there were of late, or little has been reported.
    fn is_lossy(&self) -> bool {
        self.is_new() || self.known.lost.is_some_and(|lost| self.at < lost + HOLD)
    }

    fn is_new(&self) -> bool {
        self.seen < FULL_REPORT / GAIN
    }

    /// The part that may be missing, as far as is known: where links have time left, a guess costs nothing.
    fn likely(&self) -> f64 {
        let Known { part, .. } = self.known;
        if self.is_new() { part.max(FEARED / self.seen) } else { part }
    }

    /// How many combinations generations of these sizes get together.
    fn quota(&mut self, sizes: impl Iterator<Item = u8>) -> usize {
        if !self.is_lossy() {
            return 0;
        }
        let mut needs = Needs::new(self.known.part);
        let wanted = sizes.map(|size| wanted(size, &mut needs)).sum::<f64>() + self.carry;
        self.carry = wanted.fract();
        wanted as usize
    }
}

/// How many combinations a generation of `size` packets gets on average where there may be losses.
fn wanted(size: u8, needs: &mut Needs) -> f64 {
    let mean = f64::from(size) * needs.part;
    let needed = f64::from(needs.of(size));
    (f64::from(size) * LEAST).max(mean + (needed - mean).max(0.0) * several(mean))
}

/// What is needed above the mean counts in full once a generation in so many loses a packet, and in
/// proportion below: for one loss in a hundred thousand packets a generation in fifty gets a combination.
/// One in 1000 costs 6 % so. Without, links of 400 Mb/s give BBR 5 % more and CUBIC 0.56 of it, as
/// between two losses its window does not come to what they carry.
const SEVERAL: f64 = 64.0;

fn several(mean: f64) -> f64 {
    (mean * SEVERAL).min(1.0)
}

/// The combinations that generations need. Most have the same size.
struct Needs {
    part: f64,
    last: (u8, u8),
}

impl Needs {
    fn new(part: f64) -> Self {
        Self { part, last: (0, 0) }
    }

    /// How many one of `n` packets needs, at most as many as it has packets.
    fn of(&mut self, n: u8) -> u8 {
        if self.last.0 != n {
            let enough = |&r: &u8| fails(n, r, self.part) <= FAILS;
            self.last = (n, (0..n).find(enough).unwrap_or(n));
        }
        self.last.1
    }
}

/// How likely more than r of n + r packets are missing, if each one is with probability p.
fn fails(n: u8, r: u8, p: f64) -> f64 {
    let all = f64::from(n) + f64::from(r);
    let mut exactly = (1.0 - p).powi(i32::from(n) + i32::from(r));
    let mut at_most = exactly;
    for missing in 1..=r {
        let missing = f64::from(missing);
        exactly *= p / (1.0 - p) * (all + 1.0 - missing) / missing;
        at_most += exactly;
    }
    1.0 - at_most
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(missing: u64, packets: u64) -> Losses {
        let mut losses = Losses::default();
        report(&mut losses, 0, 10_000, LossReport { packets, missing });
        losses
    }

    /// Every 10 ms.
    fn report(losses: &mut Losses, from_ms: u64, to_ms: u64, report: LossReport) {
        (from_ms..to_ms).step_by(10).for_each(|ms| losses.learn(report, Instant::from_millis(ms)));
    }

    fn percent(losses: &mut Losses) -> f64 {
        (0..1000).map(|_| losses.quota([32; 10].into_iter())).sum::<usize>() as f64 / 3200.0
    }

    #[test]
    fn clean_links_cost_nothing_and_lossy_ones_what_they_need() {
        assert_eq!(percent(&mut learned(0, 1000)), 0.0);
        // The paper's packet errors: one for each generation.
        assert_eq!(percent(&mut learned(1, 100_000)), 3.125);
        let five = percent(&mut learned(50, 1000));
        assert!((25.0..30.0).contains(&five), "{five}");
        assert!(percent(&mut learned(5000, 1000)) < 101.0, "a report that cannot be");
    }

    #[test]
    fn losses_at_the_beginning_are_known_at_once_and_feared_before() {
        let mut losses = Losses::default();
        let feared = planned(&mut losses, &[32; 4]).len();
        assert!((16..=28).contains(&feared), "{feared} for 128 packets, where there is time left");
        assert_eq!(percent(&mut losses.clone()), 3.125, "and one in 32 before new packets");
        let report = LossReport { packets: 500, missing: 15 };
        losses.learn(report, Instant::from_millis(10));
        let known = percent(&mut losses.clone());
        assert!((10.0..20.0).contains(&known), "as for 1.5 %: {known}");
        for ms in 2..20 {
            losses.learn(report, Instant::from_millis(10 * ms));
        }
        let known = percent(&mut losses.clone());
        assert!((15.0..22.0).contains(&known), "as for nearly 3 %: {known}");
    }

    #[test]
    fn it_is_forgotten_again() {
        let mut losses = learned(50, 1000);
        let clean = LossReport { packets: 1000, missing: 0 };
        report(&mut losses, 10_000, 14_000, clean);
        // A loss in ten seconds is one in so many packets as CUBIC's window is made of.
        assert_eq!((percent(&mut losses), planned(&mut losses, &[32; 7]).len()), (3.125, 7));
        report(&mut losses, 14_000, 20_000, clean);
        assert_eq!((percent(&mut losses), planned(&mut losses, &[32; 7])), (0.0, vec![]));
        // However little is sent.
        let mut losses = learned(50, 1000);
        let few = LossReport { packets: 10, missing: 0 };
        (10..21).for_each(|s| report(&mut losses, 1000 * s, 1000 * s + 1, few));
        assert_eq!(percent(&mut losses), 0.0);
    }

    #[test]
    fn a_second_death_brings_nothing_of_the_first_back() {
        let [steady, dead] = [50, 750].map(|missing| LossReport { packets: 1000, missing });
        // What is remembered is of any part of the time until it is noticed.
        for at in 0..200 {
            let (death, second) = (5000 + at / 20 * 100, at % 20 * 100);
            let mut losses = Losses::default();
            report(&mut losses, 0, death, steady);
            report(&mut losses, death, death + 600, dead);
            losses.forget_latest();
            report(&mut losses, death + 600, death + 600 + second, steady);
            report(&mut losses, death + 600 + second, death + 1200 + second, dead);
            losses.forget_latest();
            let taken = percent(&mut losses);
            assert!((25.0..30.0).contains(&taken), "{taken}, {death} and {second} ms");
        }
    }

    fn planned(losses: &mut Losses, sizes: &[u8]) -> Vec<usize> {
        let mut plan = Vec::new();
        losses.plan(sizes.iter().copied(), 1000, &mut plan);
        plan
    }

    #[test]
    fn each_generation_has_its_turn() {
        let mut single = learned(1, 1_000_000);
        assert_eq!(planned(&mut single, &[8; 4]), [0, 1, 2, 3]);
        // One combination for 32 packets went before new packets.
        assert_eq!(planned(&mut single, &[8; 4]), [1, 2, 3, 0]);
        let mut many = planned(&mut learned(25, 1000), &[5, 1, 5]);
        assert_eq!(many[..3], [0, 1, 2]);
        many.sort();
        assert_eq!(many, [0, 0, 0, 1, 2, 2, 2]);
        let mut plan = Vec::new();
        assert_eq!(learned(1000, 1000).plan([255; 9].into_iter(), 20, &mut plan), 20);
        assert_eq!(plan.len(), 20, "a limit is a limit");
        assert_eq!(learned(1000, 1000).plan([].into_iter(), 20, &mut plan), 0);
    }

    /// Of 100,000 generations of n packets with what they get where links have time, those of which more
    /// is missing than combinations came.
    fn failing(n: u8, missing: u64) -> usize {
        let spare = planned(&mut learned(missing, 1000), &[n]).len();
        let mut rng = weftline_core::rng::Rng::stream(1, "test");
        let p = missing as f64 / 1000.0;
        let mut lost = |packets: usize| (0..packets).filter(|_| rng.unit_f64() < p).count();
        (0..100_000).filter(|_| lost(usize::from(n)) + lost(spare) > spare).count()
    }

    #[test]
    fn a_generation_fails_once_in_ten_thousand_times() {
        for (n, missing) in [(32, 50), (32, 10), (5, 25), (8, 3), (200, 20)] {
            let failing = failing(n, missing);
            assert!(failing <= 20, "{failing} of 100,000 with {n} packets, {missing} of 1000 lost");
        }
    }
}
