//! How much a gateway takes (COTAG §III-C, *coded taking*): as much as fits, up to a limit, or what the
//! losses of late call for.
//!
//! The paper fills with combinations what time is left, which is all where TCP leaves room, and
//! nothing where a queue waits. Learned, a flow's generations get so many combinations that one of them
//! fails, which is a loss to TCP, in four times the time in which CUBIC's window comes back from one: in
//! 40 s at 400 Mb/s, where p is the part of the packets that did not come to the device as they were. For
//! ten seconds after a loss it is one in 32 packets at least. They go before new packets do. Where links have
//! time left each generation gets one at least. A gateway begins as if it knew of losses, and fears more the
//! less it knows: a connection is most easily hurt at its start.

use std::time::Duration;

use weftline_core::Instant;

/// New reports count for one in so many parts of what is known.
const GAIN: f64 = 1.0 / 16.0;
/// Packets that a report should be of to count in full.
const FULL_REPORT: f64 = 512.0;

/// The time from one at which what is known is remembered to the next. It takes less to notice that a link
/// is gone: 350 ms for a radio, 600 ms for an access point.
const REMEMBERED: Duration = Duration::from_secs(1);

/// The least share while there are losses: one combination for a generation of 32 packets, which makes up
/// for a single loss. It costs 3 % where links have no time left.
const LEAST: f64 = 1.0 / 32.0;

/// After a loss there may be others for so long: losses that are as far from each other cost CUBIC at 400 Mb/s
/// a part of its rate.
const HOLD: Duration = Duration::from_secs(10);

/// The round trip that is taken for a connection's.
const ROUND_TRIP: Duration = Duration::from_millis(50);
/// Of what makes failures that rare a part goes before new packets where less than a generation in so many loses
/// a packet: small generations pay much for it. Eight connections over 40 + 20 Mb/s that lose one packet in
/// 1000 had 8 % less of it.
const SEVERAL: f64 = 64.0;
/// How much rarer than CUBIC gets along with: what is known of losses scatters, and where too little is taken
/// for them, more fail than where it is too much.
const MARGIN: f64 = 4.0;

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
    /// Missing, of these or earlier ones: computed, and of what was sent first nothing had come when their
    /// cohort closed; or given up.
    pub missing: u64,
}

/// What was learned of losses.
#[derive(Clone, Copy, Debug)]
pub(super) struct Losses {
    known: Known,
    /// The same when it was remembered last, at that time, and the time before.
    before: Option<Known>,
    earlier: Option<Known>,
    remembered: Option<Instant>,
    /// Packets that were reported, and [`FULL_REPORT`] that were assumed; when it was last, and first.
    seen: f64,
    at: Option<Instant>,
    begun: Option<Instant>,
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
        let (known, before, earlier) = (Known::default(), None, None);
        let seen = FULL_REPORT;
        Self {
            known,
            before,
            earlier,
            remembered: None,
            seen,
            at: None,
            begun: None,
            carry: 0.0,
            turn: 0,
        }
    }
}

impl Losses {
    /// Learns from a report. One that contradicts itself counts as one of nothing but losses.
    pub(super) fn learn(&mut self, report: LossReport, now: Instant) {
        if report.packets == 0 {
            return;
        }
        if self.remembered.is_none_or(|at| now >= at + REMEMBERED) {
            (self.earlier, self.before, self.remembered) =
                (self.before, Some(self.known), Some(now));
        }
        let part = (report.missing as f64 / report.packets as f64).min(1.0);
        let weight = (report.packets as f64 / FULL_REPORT).min(1.0);
        (self.seen, self.at) = (self.seen + report.packets as f64, Some(now));
        self.begun.get_or_insert(now);
        // At first the mean of all.
        let gain = (GAIN * weight).max(report.packets as f64 / self.seen);
        self.known.part += (part - self.known.part) * gain;
        if report.missing > 0 {
            self.known.lost = Some(now);
        }
    }

    /// A link is gone: what was lost on it of late is forgotten, and what was known before holds.
    pub(super) fn forget_latest(&mut self) {
        let Some(earlier) = self.earlier else { return };
        self.known = self.known.least(earlier);
        // It may be of the time in which the link was gone already.
        self.before = self.before.map(|before| before.least(self.known));
    }

    /// The generations, of these sizes, of a cohort of this interval, that get combinations, in order: `plan` has each as often as it
    /// needs one where there is time left, in turns, and at most `most` in all. So many of these, the
    /// result, are to go before new packets.
    pub(super) fn plan(
        &mut self,
        sizes: impl Iterator<Item = Size> + Clone,
        interval: Duration,
        most: usize,
        plan: &mut Vec<usize>,
    ) -> usize {
        plan.clear();
        let quota = self.quota(sizes.clone(), interval);
        if self.is_lossy() {
            let mut needs = Needs::new(self.likely(), interval);
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
    pub(super) fn share(&self, size: u8, interval: Duration) -> f64 {
        if self.is_lossy() {
            Needs::new(self.known.part, interval).average((size, size.into())) / f64::from(size)
        } else {
            0.0
        }
    }

    /// Whether there may be losses: there were of late, or little has been reported.
    fn is_lossy(&self) -> bool {
        self.is_new() || self.known.lost.zip(self.at).is_some_and(|(lost, at)| at < lost + HOLD)
    }

    fn is_new(&self) -> bool {
        let long = self.begun.zip(self.at).is_some_and(|(begun, at)| at >= begun + HOLD);
        self.seen < FULL_REPORT / GAIN && !long
    }

    /// The part that may be missing, as far as is known: where links have time left, a guess costs nothing.
    fn likely(&self) -> f64 {
        let Known { part, .. } = self.known;
        if self.is_new() { part.max(FEARED / self.seen) } else { part }
    }

    /// How many combinations generations of these sizes get together.
    fn quota(&mut self, sizes: impl Iterator<Item = Size>, interval: Duration) -> usize {
        if !self.is_lossy() {
            return 0;
        }
        let mut needs = Needs::new(self.known.part, interval);
        let wanted = sizes.map(|size| needs.average(size)).sum::<f64>() + self.carry;
        self.carry = wanted.fract();
        wanted as usize
    }
}

/// The packets of a generation, and those of its flow in the cohort.
pub(super) type Size = (u8, u16);

/// The combinations that generations need. Most have the same size.
struct Needs {
    part: f64,
    interval: Duration,
    /// Those of this size need so many, and get so many before new packets, on average.
    last: (Size, u8, f64),
}

impl Needs {
    fn new(part: f64, interval: Duration) -> Self {
        // Where nothing comes through nothing helps, and nothing is to be divided by it.
        Self { part: part.min(0.99), interval, last: ((0, 0), 0, 0.0) }
    }

    fn find(&mut self, size: Size) -> (u8, f64) {
        if self.last.0 != size {
            let (n, may_fail) = (size.0, may_fail(size, self.interval));
            let enough = (0..n).find(|&r| fails(n, r, self.part) <= may_fail).unwrap_or(n);
            let mut average = f64::from(enough);
            if enough > 0 {
                // With one less too many fail: some generations get one less.
                let (more, less) = (fails(n, enough - 1, self.part), fails(n, enough, self.part));
                average -= ((may_fail - less) / (more - less)).clamp(0.0, 1.0);
            }
            let several = (f64::from(n) * self.part * SEVERAL).min(1.0);
            self.last = (size, enough, (average * several).max(f64::from(n) * LEAST));
        }
        (self.last.1, self.last.2)
    }

    /// How many a generation needs, at most as many as it has packets.
    fn of(&mut self, size: Size) -> u8 {
        self.find(size).0
    }

    /// How many it gets on average before new packets.
    fn average(&mut self, size: Size) -> f64 {
        self.find(size).1
    }
}

/// How likely a generation may fail. CUBIC gets along with a loss in the time in which its window comes back
/// from one, K = ∛(W (1 − β) / C) (RFC 9438 §4.2).
fn may_fail((packets, of): Size, interval: Duration) -> f64 {
    let rate = f64::from(of) / interval.as_secs_f64();
    let window = rate * ROUND_TRIP.as_secs_f64();
    let recovery = (window * 0.3 / 0.4).cbrt();
    f64::from(packets) / (MARGIN * rate * recovery)
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

    const INTERVAL: Duration = Duration::from_millis(10);

    fn learned(missing: u64, packets: u64) -> Losses {
        let mut losses = Losses::default();
        // 100,000 packets a second.
        (0..1000).for_each(|n| {
            losses.learn(LossReport { packets, missing }, Instant::from_millis(n * packets / 100));
        });
        losses
    }

    /// Every 10 ms.
    fn report(losses: &mut Losses, from_ms: u64, to_ms: u64, report: LossReport) {
        (from_ms..to_ms).step_by(10).for_each(|ms| losses.learn(report, Instant::from_millis(ms)));
    }

    fn percent(losses: &mut Losses) -> f64 {
        let sizes = [(32, 320); 10];
        let quotas = (0..1000).map(|_| losses.quota(sizes.into_iter(), INTERVAL));
        quotas.sum::<usize>() as f64 / 3200.0
    }

    #[test]
    fn clean_links_cost_nothing_and_lossy_ones_what_they_need() {
        assert_eq!(percent(&mut learned(0, 1000)), 0.0);
        // The paper's packet errors: one for each generation.
        assert_eq!(percent(&mut learned(1, 100_000)), 3.125);
        let five = percent(&mut learned(50, 1000));
        assert!((26.0..31.0).contains(&five), "{five}");
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
        // As long as CUBIC's window takes to come back.
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
        let wanted = percent(&mut learned(50, 1000));
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
            assert!((taken - wanted).abs() <= 0.05 * wanted, "{taken}, {death} and {second} ms");
        }
    }

    fn planned(losses: &mut Losses, sizes: &[u8]) -> Vec<usize> {
        let mut plan = Vec::new();
        let of = sizes.iter().map(|&size| u16::from(size)).sum();
        losses.plan(sizes.iter().map(|&size| (size, of)), INTERVAL, 1000, &mut plan);
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
        assert_eq!(
            learned(1000, 1000).plan([(255, 2295); 9].into_iter(), INTERVAL, 20, &mut plan),
            20
        );
        assert_eq!(plan.len(), 20, "a limit is a limit");
        assert_eq!(learned(1000, 1000).plan([].into_iter(), INTERVAL, 20, &mut plan), 0);
    }

    /// For how long nothing is lost to a flow of so many packets in an interval, in seconds, of which so
    /// many of 1000 are missing: generations get what goes before new packets, over 200,000 intervals.
    fn without_loss(flow: u16, missing: u64) -> f64 {
        let mut losses = learned(missing, 1000);
        let sizes = (0..flow).step_by(32).map(|first| ((flow - first).min(32) as u8, flow));
        let mut rng = weftline_core::rng::Rng::stream(1, "test");
        let p = missing as f64 / 1000.0;
        let mut lost = |packets: usize| (0..packets).filter(|_| rng.unit_f64() < p).count();
        let (mut plan, mut failed) = (Vec::new(), 0);
        for _ in 0..200_000 {
            let quota = losses.plan(sizes.clone(), INTERVAL, 1000, &mut plan);
            for (at, (size, _)) in sizes.clone().enumerate() {
                let spare = plan[..quota].iter().filter(|&&of| of == at).count();
                failed += u32::from(lost(size.into()) + lost(spare) > spare);
            }
        }
        2000.0 / f64::from(failed.max(1))
    }

    #[test]
    fn losses_are_as_rare_as_their_connection_gets_along_with() {
        // 10, 40 and 400 Mb/s, whose windows come back in 3.2, 5 and 11 s; a generation in 64 loses a packet.
        for (flow, recovery, least) in [(8, 3.2, 10), (32, 4.9, 1), (320, 10.6, 1)] {
            for missing in [least, 10, 50] {
                let between = without_loss(flow, missing);
                let wanted = MARGIN * recovery;
                assert!(
                    (0.6 * wanted..10.0 * wanted).contains(&between),
                    "{between} s from a loss to the next for {wanted}: {flow} packets, {missing} of 1000"
                );
            }
        }
    }
}
