//! A rate to pace by, from measurements one by one.

use weftline_core::Bitrate;

/// Samples of which the middle one counts: an interrupt that comes late spoils one, not two in a
/// row.
const MEDIAN_OF: usize = 3;
/// A higher rate is approached by this part of the difference with each sample.
const RISE: u64 = 4;

/// Smooths the rates that trains measure, for a sender that must not send more than its link
/// carries.
///
/// The median of the last three samples is taken at once where it is lower than the estimate, and
/// approached by a quarter of the difference with each sample where it is higher: too low an
/// estimate costs a little rate for a short time, too high a one fills a queue. At a sample every
/// 10 ms a collapse shows after 20 ms, and a rise is 90 % followed after 100 ms. Noise makes the
/// estimate low by about its own size: by 1 to 2 % where single trains scatter by 2 %.
#[derive(Clone, Debug, Default)]
pub struct Estimator {
    latest: Vec<Bitrate>,
    rate: Option<Bitrate>,
}

impl Estimator {
    /// Takes what a train measured.
    pub fn on_sample(&mut self, sample: Bitrate) {
        if self.latest.len() == MEDIAN_OF {
            self.latest.remove(0);
        }
        self.latest.push(sample);
        let mut sorted = self.latest.clone();
        sorted.sort_unstable();
        // The lower one of two.
        let median = sorted[(sorted.len() - 1) / 2];
        self.rate = Some(match self.rate {
            Some(rate) if rate > Bitrate::ZERO && median > rate => {
                let rise = (median.as_bps() - rate.as_bps()) / RISE;
                Bitrate::bps(rate.as_bps() + rise)
            }
            _ => median,
        });
    }

    /// Takes that nothing comes where something should: the rate is zero, until a sample comes and
    /// is taken as it is.
    pub fn on_silence(&mut self) {
        self.latest.clear();
        self.rate = Some(Bitrate::ZERO);
    }

    /// The rate of IP packets; `None` before the first sample.
    pub fn rate(&self) -> Option<Bitrate> {
        self.rate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(estimator: &mut Estimator, samples: impl IntoIterator<Item = u64>) -> f64 {
        samples.into_iter().for_each(|mbps| estimator.on_sample(Bitrate::mbps(mbps)));
        estimator.rate().unwrap().as_mbps_f64()
    }

    #[test]
    fn a_collapse_shows_after_two_samples_and_a_rise_after_ten() {
        let mut estimator = Estimator::default();
        assert_eq!(estimator.rate(), None);
        assert_eq!(after(&mut estimator, [1000; 5]), 1000.0);
        assert_eq!(after(&mut estimator, [50]), 1000.0);
        assert_eq!(after(&mut estimator, [50]), 50.0);
        let risen = after(&mut estimator, [1000; 10]);
        assert!((900.0..1000.0).contains(&risen), "{risen}");
    }

    #[test]
    fn one_wrong_sample_changes_nothing() {
        let mut estimator = Estimator::default();
        after(&mut estimator, [500; 5]);
        assert_eq!(after(&mut estimator, [9000, 500, 500, 10, 500, 500]), 500.0);
    }

    #[test]
    fn silence_is_zero_and_over_with_the_next_sample() {
        let mut estimator = Estimator::default();
        after(&mut estimator, [500; 5]);
        estimator.on_silence();
        assert_eq!(estimator.rate(), Some(Bitrate::ZERO));
        assert_eq!(after(&mut estimator, [300]), 300.0);
    }

    #[test]
    fn noise_makes_it_low_by_no_more_than_itself() {
        let mut estimator = Estimator::default();
        let mut rng = weftline_core::rng::Rng::stream(1, "noise");
        let mut sum = 0.0;
        for _ in 0..1000 {
            let rate = 1e9 * (1.0 + 0.02 * rng.normal_f64());
            estimator.on_sample(Bitrate::bps(rate as u64));
            sum += estimator.rate().unwrap().as_mbps_f64();
        }
        assert!((970.0..1000.0).contains(&(sum / 1000.0)), "{}", sum / 1000.0);
    }
}
