//! What the paths may carry until a deadline: a distribution made from the seconds just past.
//!
//! The paper derives ε from "historical throughput statistics for each RAT" (FBDT §4.1). The
//! seconds of all paths are kept paired here: radios fail together or in each other's stead, and a
//! distribution built per path would lose that. A second counts the less the longer it is ago, and
//! may count the more the more the second *before* it was like the last one.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};

/// Seconds kept of a history: two of the default half-lives.
pub const MAX_SECONDS: usize = 120;
/// The most paths of a sample.
pub const MAX_PATHS: usize = 16;

/// Rates that differ by this much of the larger are as far apart as two seconds can be for
/// [`Recency::likeness`]; it keeps a dead second from being unlike any other.
const LEAST_RATE: u64 = 100_000;

/// The throughput of each path in each of the last [`MAX_SECONDS`] seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    seconds: VecDeque<Vec<Bitrate>>,
}

/// How much each second of a history counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Recency {
    /// A second that is this much older counts half. Must not be zero.
    pub half_life: Duration,
    /// A second counts by `1 / (1 + (likeness · d)²)`, d the relative difference of the sum of
    /// rates between the second before it and the last one of the history. Zero: all alike.
    pub likeness: f64,
}

/// The default was chosen by the error of forecasts on generated traces of a radio that is blocked
/// now and then (docs/ows.md has the table and the command). Those traces do not drift, so longer
/// half-lives score a little better still; real ones do.
impl Default for Recency {
    fn default() -> Self {
        Self { half_life: Duration::from_secs(60), likeness: 16.0 }
    }
}

/// Why there is no distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThroughputError {
    /// Nothing was measured yet.
    #[error("no second of throughput is known yet; start from a certain rate instead")]
    Empty,
    /// A weight cannot be one.
    #[error("the weights of {samples} samples must be finite, not negative, and not all zero")]
    Weights {
        /// How many samples there are.
        samples: usize,
    },
    /// Samples of different paths, or of too many.
    #[error("every sample must have one value for each of 1 to {MAX_PATHS} paths")]
    Paths,
    /// Too many samples.
    #[error("{samples} samples are more than {MAX_SECONDS}; keep the latest")]
    TooMany {
        /// How many samples there are.
        samples: usize,
    },
    /// A setting of [`Recency`] is out of range.
    #[error("recency needs a half-life above zero and a likeness of zero or more")]
    Recency,
}

impl History {
    /// A history of no seconds.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the rates of all paths in the second just past, in the order of the paths. A path that
    /// is new counts as zero before, unless something else is assumed of it; one that is gone is still given, as zero.
    ///
    /// # Errors
    /// If there are no paths, more than [`MAX_PATHS`], or fewer than before.
    pub fn push(&mut self, rates: &[Bitrate]) -> Result<(), ThroughputError> {
        let paths = self.seconds.front().map_or(1, Vec::len);
        if rates.len() < paths || rates.len() > MAX_PATHS {
            return Err(ThroughputError::Paths);
        }
        for second in &mut self.seconds {
            second.resize(rates.len(), Bitrate::ZERO);
        }
        if self.seconds.len() == MAX_SECONDS {
            self.seconds.pop_front();
        }
        self.seconds.push_back(rates.to_vec());
        Ok(())
    }

    /// Takes path `path` to have carried before its latest `known` seconds, one at least, what it did in them.
    pub(crate) fn assume_before(&mut self, path: usize, known: usize) {
        let before = self.seconds.len().saturating_sub(known);
        let own = self.seconds.iter().skip(before).map(|second| second[path]);
        let mean = Bitrate::bps(own.sum::<Bitrate>().as_bps() / known.max(1) as u64);
        for second in self.seconds.iter_mut().take(before) {
            second[path] = mean;
        }
    }

    /// How many seconds are known.
    pub fn len(&self) -> usize {
        self.seconds.len()
    }

    /// Whether no second is known.
    pub fn is_empty(&self) -> bool {
        self.seconds.is_empty()
    }

    /// The sum over the paths of second `index`, oldest first.
    fn sum(&self, index: usize) -> u64 {
        self.seconds[index].iter().copied().sum::<Bitrate>().as_bps()
    }

    /// The weight of each second, oldest first; the last one's age is one second.
    fn weights(&self, recency: &Recency) -> Vec<f64> {
        let decay = 0.5_f64.powf(1.0 / recency.half_life.as_secs_f64());
        let last = self.sum(self.len() - 1);
        let mut age = 1.0;
        let mut weights: Vec<f64> = (0..self.len())
            .rev()
            .map(|index| {
                age *= decay;
                // The oldest second has none before it: it counts as an unlike one.
                let before = index.checked_sub(1).map(|before| self.sum(before));
                let apart = before.map_or(1.0, |before| apart(before, last));
                age / (1.0 + (recency.likeness * apart).powi(2))
            })
            .collect();
        weights.reverse();
        weights
    }
}

/// The difference of two rates as a share of the larger, 0 to 1.
fn apart(a: u64, b: u64) -> f64 {
    a.abs_diff(b) as f64 / a.max(b).max(LEAST_RATE) as f64
}

/// A distribution of what each path carries until the deadline: weighted samples.
#[derive(Clone, Debug, PartialEq)]
pub struct Throughput {
    /// Weight (they sum to 1) and bytes per path.
    samples: Vec<(f64, Vec<ByteCount>)>,
}

impl Throughput {
    /// What is known for certain: each path carries so many bytes.
    ///
    /// # Errors
    /// If there are no paths or more than [`MAX_PATHS`].
    pub fn certain(paths: &[ByteCount]) -> Result<Self, ThroughputError> {
        Self::from_samples(vec![(1.0, paths.to_vec())])
    }

    /// A distribution of these samples: weight and bytes per path. Weights need not sum to 1.
    ///
    /// # Errors
    /// If there is no sample or more than [`MAX_SECONDS`], if samples have different numbers of
    /// paths, or if the weights are not finite, negative or all zero.
    pub fn from_samples(samples: Vec<(f64, Vec<ByteCount>)>) -> Result<Self, ThroughputError> {
        let count = samples.len();
        let paths = samples.first().ok_or(ThroughputError::Empty)?.1.len();
        if count > MAX_SECONDS {
            return Err(ThroughputError::TooMany { samples: count });
        }
        if !(1..=MAX_PATHS).contains(&paths) || samples.iter().any(|s| s.1.len() != paths) {
            return Err(ThroughputError::Paths);
        }
        let sum: f64 = samples.iter().map(|sample| sample.0).sum();
        let valid = samples.iter().all(|sample| sample.0 >= 0.0);
        if !(valid && sum > 0.0 && sum.is_finite()) {
            return Err(ThroughputError::Weights { samples: count });
        }
        let scaled = samples.into_iter().map(|(weight, bytes)| (weight / sum, bytes));
        Ok(Self { samples: scaled.collect() })
    }

    /// What the paths may carry in the next `horizon`: one sample per second of `history`, or, for
    /// a horizon of several seconds, per run of as many consecutive seconds.
    ///
    /// # Errors
    /// [`ThroughputError::Empty`] if the history has no second; [`ThroughputError::Recency`].
    pub fn forecast(
        history: &History,
        horizon: Duration,
        recency: &Recency,
    ) -> Result<Self, ThroughputError> {
        if history.is_empty() {
            return Err(ThroughputError::Empty);
        }
        if recency.half_life.is_zero() || !(0.0..=1e6).contains(&recency.likeness) {
            return Err(ThroughputError::Recency);
        }
        let run = (horizon.as_secs_f64().round().max(1.0) as usize).min(history.len());
        let weights = history.weights(recency);
        let paths = history.seconds[0].len();
        let samples = (0..=history.len() - run).map(|first| {
            let bytes = (0..paths).map(|path| {
                let rates = history.seconds.iter().skip(first).take(run).map(|s| s[path].as_bps());
                let sum = rates.fold(0_u64, u64::saturating_add);
                Bitrate::bps(sum / run as u64).bytes_in(horizon)
            });
            // What follows the last second is like what followed the run's first one's forerunner.
            let newest = first + run - 1;
            let weight =
                if run == 1 { weights[first] } else { weights[first].min(weights[newest]) };
            (weight, bytes.collect())
        });
        Self::from_samples(samples.collect())
    }

    /// What each path carries on average.
    pub fn means(&self) -> Vec<ByteCount> {
        let paths = self.samples.first().map_or(0, |(_, bytes)| bytes.len());
        let mean = |path: usize| {
            self.samples
                .iter()
                .map(|(weight, bytes)| weight * bytes[path].as_u64() as f64)
                .sum::<f64>()
        };
        (0..paths).map(|path| ByteCount::new(mean(path) as u64)).collect()
    }

    /// The samples: weight (they sum to 1) and bytes per path.
    pub fn samples(&self) -> &[(f64, Vec<ByteCount>)] {
        &self.samples
    }

    /// The mean of what all paths carry together: the paper's C_agg.
    pub fn mean(&self) -> ByteCount {
        let bytes: f64 = self.samples.iter().map(|(weight, bytes)| weight * total(bytes)).sum();
        ByteCount::new(bytes as u64)
    }

    /// The least sum over the paths that is not exceeded with probability `share` (0 to 1).
    pub fn quantile(&self, share: f64) -> ByteCount {
        let mut sums: Vec<(f64, f64)> =
            self.samples.iter().map(|(weight, bytes)| (total(bytes), *weight)).collect();
        sums.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut below = 0.0;
        let reached = sums.iter().find(|(_, weight)| {
            below += weight;
            below >= share
        });
        ByteCount::new(reached.or(sums.last()).map_or(0.0, |&(sum, _)| sum) as u64)
    }
}

/// The sum over the paths, bytes.
fn total(bytes: &[ByteCount]) -> f64 {
    bytes.iter().map(|bytes| bytes.as_u64() as f64).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn history(mbps: &[[u64; 2]]) -> History {
        let mut history = History::new();
        for second in mbps {
            history.push(&second.map(Bitrate::mbps)).unwrap();
        }
        history
    }

    const FLAT: Recency = Recency { half_life: Duration::from_secs(1 << 30), likeness: 0.0 };

    #[test]
    fn seconds_stay_paired() {
        // Each path alone is 0 or 8 Mb/s; together they always carry 8.
        let known = history(&[[8, 0], [0, 8], [8, 0]]);
        let ahead = Throughput::forecast(&known, Duration::from_secs(1), &FLAT).unwrap();
        for share in [0.01, 0.5, 1.0] {
            assert_eq!(ahead.quantile(share), ByteCount::new(1_000_000));
        }
    }

    #[test]
    fn a_second_one_half_life_older_counts_half() {
        let recency = Recency { half_life: Duration::from_secs(1), likeness: 0.0 };
        let known = history(&[[8, 0], [8, 8]]);
        let ahead = Throughput::forecast(&known, Duration::from_secs(1), &recency).unwrap();
        let weights: Vec<f64> = ahead.samples().iter().map(|s| s.0).collect();
        assert!((weights[1] / weights[0] - 2.0).abs() < 1e-12, "{weights:?}");
        assert_eq!(ahead.mean(), ByteCount::new(1_666_666));
    }

    #[test]
    fn what_followed_a_second_like_the_last_counts_most() {
        // After 8 came 16, after 16 came 8; the last one is 8.
        let known = history(&[[8, 0], [16, 0], [8, 0], [16, 0], [8, 0]]);
        let recency = Recency { likeness: 10.0, ..FLAT };
        let ahead = Throughput::forecast(&known, Duration::from_secs(1), &recency).unwrap();
        assert!(ahead.mean() > ByteCount::new(1_900_000), "{}", ahead.mean());
    }

    #[test]
    fn a_longer_horizon_averages_consecutive_seconds() {
        let known = history(&[[8, 0], [16, 0], [8, 0], [16, 0]]);
        let ahead = Throughput::forecast(&known, Duration::from_secs(2), &FLAT).unwrap();
        assert_eq!(ahead.samples().len(), 3);
        assert_eq!(ahead.quantile(0.0), ahead.quantile(1.0));
        let short = Throughput::forecast(&known, Duration::from_millis(500), &FLAT).unwrap();
        assert_eq!(short.quantile(1.0), ByteCount::new(1_000_000));
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        let empty = Throughput::forecast(&History::new(), Duration::from_secs(1), &FLAT);
        assert_eq!(empty, Err(ThroughputError::Empty));
        let one = |weight| Throughput::from_samples(vec![(weight, vec![ByteCount::ZERO])]);
        for weight in [f64::NAN, f64::INFINITY, -1.0, 0.0] {
            assert_eq!(one(weight), Err(ThroughputError::Weights { samples: 1 }));
        }
        let uneven = vec![(1.0, vec![ByteCount::ZERO]), (1.0, vec![ByteCount::ZERO; 2])];
        assert_eq!(Throughput::from_samples(uneven), Err(ThroughputError::Paths));
        assert_eq!(Throughput::certain(&[]), Err(ThroughputError::Paths));
        let zero = Recency { half_life: Duration::ZERO, likeness: 0.0 };
        let known = history(&[[1, 1]]);
        let refused = Throughput::forecast(&known, Duration::from_secs(1), &zero);
        assert_eq!(refused, Err(ThroughputError::Recency));
        assert_eq!(known.clone().push(&[Bitrate::ZERO]), Err(ThroughputError::Paths));
    }

    #[test]
    fn a_history_keeps_its_latest_seconds_and_takes_new_paths() {
        let mut known = History::new();
        for second in 0..MAX_SECONDS as u64 + 5 {
            known.push(&[Bitrate::mbps(second)]).unwrap();
        }
        assert_eq!((known.len(), known.sum(0)), (MAX_SECONDS, 5_000_000));
        known.push(&[Bitrate::mbps(1), Bitrate::mbps(2)]).unwrap();
        let ahead = Throughput::forecast(&known, Duration::from_secs(1), &FLAT).unwrap();
        assert!(ahead.samples().iter().all(|(_, bytes)| bytes.len() == 2));
    }
}
