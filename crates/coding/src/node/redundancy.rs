//! How much a gateway takes (COTAG §III-C, *coded taking*): as much as fits, up to a limit, or what the
//! losses of late call for.
//!
//! The paper fills with combinations what time is left, which is all where TCP leaves room, and
//! nothing where a queue waits. Learned, a generation of n packets gets n p + 2 √(n p (1 − p))
//! combinations, where p is the part of the packets that did not come to the device as they were: the
//! mean of what will be missing and twice its deviation; while losses are known at all, one in 128
//! packets. They go before new packets do. Where links have time left, and losses are known, each
//! generation gets one at least. A gateway begins as if it knew of losses: a connection is most
//! easily hurt at its start.

/// New reports count for one in so many parts of what is known.
const GAIN: f64 = 1.0 / 16.0;
/// Packets that a report should be of to count in full.
const FULL_REPORT: f64 = 512.0;

/// The least share while losses are known: one combination for a generation of 128 packets, which
/// makes up for a single loss.
const LEAST: f64 = 1.0 / 128.0;
/// Losses are known above this: for about two seconds after a single one.
const KNOWN: f64 = 1e-9;

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
    /// The part of the packets that is missing.
    part: f64,
    /// Combinations that were called for and are not whole ones yet.
    carry: f64,
}

/// What is assumed at first; it is gone after a second without losses.
const FIRST: f64 = 1e-6;

impl Default for Losses {
    fn default() -> Self {
        Self { part: FIRST, carry: 0.0 }
    }
}

impl Losses {
    /// Learns from a report. One that contradicts itself counts as one of nothing but losses.
    pub(super) fn learn(&mut self, report: LossReport) {
        if report.packets == 0 {
            return;
        }
        let part = (report.missing as f64 / report.packets as f64).min(1.0);
        let weight = (report.packets as f64 / FULL_REPORT).min(1.0);
        self.part += (part - self.part) * GAIN * weight;
    }

    /// The most that so many generations get together where there is time left.
    pub(super) fn spare(&self, generations: usize) -> usize {
        if self.part > KNOWN { generations } else { 0 }
    }

    /// How many combinations generations of these sizes get together.
    pub(super) fn quota(&mut self, sizes: impl Iterator<Item = u8>) -> usize {
        let p = self.part;
        let of = |size: u8| {
            let n = f64::from(size);
            let least = if p > KNOWN { n * LEAST } else { 0.0 };
            least.max(n * p + 2.0 * (n * p * (1.0 - p)).max(0.0).sqrt() * enough(n * p))
        };
        let wanted = sizes.map(of).sum::<f64>() + self.carry;
        self.carry = wanted.fract();
        wanted as usize
    }
}

/// The deviation counts where losses are more than single ones: for one in a hundred thousand a
/// generation in a hundred would get a combination that hardly ever meets the loss.
fn enough(mean: f64) -> f64 {
    (mean * 4.0).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(missing: u64, packets: u64) -> Losses {
        let mut losses = Losses::default();
        (0..1000).for_each(|_| losses.learn(LossReport { packets, missing }));
        losses
    }

    fn percent(losses: &mut Losses) -> f64 {
        (0..1000).map(|_| losses.quota([32; 10].into_iter())).sum::<usize>() as f64 / 3200.0
    }

    #[test]
    fn clean_links_cost_nothing_and_lossy_ones_what_they_need() {
        assert_eq!(percent(&mut learned(0, 1000)), 0.0);
        // The paper's packet errors.
        assert!(percent(&mut learned(1, 100_000)) < 1.0);
        let five = percent(&mut learned(50, 1000));
        assert!((10.0..15.0).contains(&five), "{five}");
        assert!(percent(&mut learned(5000, 1000)) < 101.0, "a report that cannot be");
    }

    #[test]
    fn it_is_forgotten_again() {
        let mut losses = learned(50, 1000);
        (0..400).for_each(|_| losses.learn(LossReport { packets: 1000, missing: 0 }));
        assert_eq!((percent(&mut losses), losses.spare(7)), (0.0, 0));
        assert_eq!(learned(1, 1000).spare(7), 7);
    }
}
