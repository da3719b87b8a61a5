//! How fast what is watched passes.

use std::str::FromStr;
use std::time::{Duration, Instant};

/// The fastest and the slowest that make sense: a thousand times the clock's speed, and a thousandth.
const FASTEST: f64 = 1e3;
const SLOWEST: f64 = 1e-3;

/// How fast a run passes that is watched: so many of its seconds in each of the clock's, or as fast as
/// it goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Pace {
    Times(f64),
    Max,
}

impl FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "max" {
            return Ok(Self::Max);
        }
        match text.parse() {
            Ok(times) if (SLOWEST..=FASTEST).contains(&times) => Ok(Self::Times(times)),
            _ => Err(format!(
                "a pace is max, or how many seconds pass in one, from {SLOWEST} to {FASTEST}: 1, 0.1"
            )),
        }
    }
}

impl Pace {
    /// How many seconds of a run pass in one.
    pub(crate) const fn seconds(self) -> f64 {
        match self {
            Self::Times(times) => times,
            Self::Max => FASTEST,
        }
    }
}

/// What a run may be behind its pace. What is more, as after a standstill of the program, is not made up
/// for: what somebody wants to see would rush by.
const BEHIND: Duration = Duration::from_millis(500);

/// Holds a run to its pace.
#[derive(Debug)]
pub(crate) struct Pacer {
    pace: Pace,
    began: Instant,
    from: Duration,
}

impl Pacer {
    /// One for a run whose clock says `from` now.
    pub(crate) fn new(pace: Pace, from: Duration) -> Self {
        Self { pace, began: Instant::now(), from }
    }

    /// How long it is now until the run's clock may say `time`.
    pub(crate) fn until(&mut self, time: Duration) -> Duration {
        self.left(time, self.began.elapsed())
    }

    /// The same, `elapsed` after the beginning.
    fn left(&mut self, time: Duration, elapsed: Duration) -> Duration {
        match self.pace {
            Pace::Max => Duration::ZERO,
            Pace::Times(times) => {
                let due = time.saturating_sub(self.from).div_f64(times);
                let behind = elapsed.saturating_sub(due);
                if behind > BEHIND {
                    self.began += behind;
                }
                due.saturating_sub(elapsed)
            }
        }
    }

    /// How much of the run passes between two looks of a person: 20 ms of the clock, or as much as is
    /// done at once.
    pub(crate) fn step(&self) -> Duration {
        match self.pace {
            Pace::Max => Duration::from_millis(100),
            Pace::Times(times) => {
                let step = Duration::from_millis(20).mul_f64(times);
                step.clamp(Duration::from_micros(100), Duration::from_millis(250))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_is_a_number_or_max() {
        assert_eq!("max".parse(), Ok(Pace::Max));
        assert_eq!("1".parse(), Ok(Pace::Times(1.0)));
        assert_eq!("0.1".parse(), Ok(Pace::Times(0.1)));
        for wrong in ["", "0", "-1", "NaN", "inf", "1e9", "fast", "1x"] {
            assert!(wrong.parse::<Pace>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_run_is_held_back_and_never_waits_for_what_is_past() {
        let seconds = Duration::from_secs;
        let mut slow = Pacer::new(Pace::Times(0.1), seconds(5));
        assert_eq!(slow.left(seconds(5), Duration::ZERO), Duration::ZERO);
        assert_eq!(slow.left(seconds(6), seconds(4)), seconds(6));
        // A second too late: it goes on from there.
        let began = slow.began;
        assert_eq!(slow.left(seconds(6), seconds(11)), Duration::ZERO);
        assert_eq!(slow.began, began + seconds(1));
        let mut max = Pacer::new(Pace::Max, Duration::ZERO);
        assert_eq!(max.left(seconds(1000), Duration::ZERO), Duration::ZERO);
    }
}
