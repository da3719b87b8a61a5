//! A random rate trace of a 60 GHz radio on the head of somebody in virtual reality.
//!
//! Measured traces of such a link (COTAG §IV-A) are not published; this is a model of what moves
//! one. All of it is drawn on a grid of 10 ms:
//!
//! - *The body* faces the front, and now and then another way: every 3 to 8 s it turns to a
//!   direction within 60° of the front, at 45°/s.
//! - *The head* rests for 0.2 to 2 s, then turns at 60 to 240°/s to a direction that lies normally
//!   around where the body faces (standard deviation 40°, at most 90°).
//! - *The beam* is trained every 100 ms to where the access point then is. The rate falls with the
//!   square of the angle since, to nothing at 30°.
//! - *The array* sees 75° to each side of the face. Beyond, or while a hand or the body is in the
//!   way (every 2 to 12 s for 100 to 600 ms), only a reflected path is left: a level of 0 to 40 % of
//!   the peak, drawn each time.

use std::time::Duration;

use weftline_core::Bitrate;
use weftline_core::rng::Rng;
use weftline_core::time::nanos;

const STEP_MS: u64 = 10;
const BODY_EVERY_MS: [u64; 2] = [3_000, 8_000];
const BODY_REACH: f64 = 60.0;
const BODY_SPEED: f64 = 45.0;
const REST_MS: [u64; 2] = [200, 2_000];
const HEAD_SPEED: [u64; 2] = [60, 240];
const HEAD_SPREAD: f64 = 40.0;
const HEAD_REACH: f64 = 90.0;
const TRAINING_MS: u64 = 100;
const BEAM: f64 = 30.0;
const FIELD: f64 = 75.0;
const BLOCKED_EVERY_MS: [u64; 2] = [2_000, 12_000];
const BLOCKED_MS: [u64; 2] = [100, 600];
const REFLECTED_PERCENT: u64 = 40;

/// A 60 GHz radio on a head that turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Headset {
    /// The rate with the beam on the access point.
    pub peak: Bitrate,
}

/// Something that moves to a target at a speed and then has another.
struct Turn {
    /// Degrees from the front.
    at: f64,
    target: f64,
    /// Degrees in a step.
    speed: f64,
    /// Steps until the next target, once there.
    rest: u64,
}

impl Turn {
    /// Moves by a step; whether it is time for another target.
    fn step(&mut self) -> bool {
        let left = self.target - self.at;
        if left.abs() > self.speed {
            self.at += if left > 0.0 { self.speed } else { -self.speed };
            return false;
        }
        self.at = self.target;
        self.rest = self.rest.saturating_sub(1);
        self.rest == 0
    }

    fn turn(&mut self, target: f64, degrees_per_s: f64, rest: u64) {
        *self = Self { at: self.at, target, speed: degrees_per_s * STEP_S, rest };
    }
}

const STEP_S: f64 = STEP_MS as f64 / 1000.0;

impl Headset {
    /// The rate of each step of 10 ms for `duration`, as `(start, rate)`. A longer trace begins
    /// with the shorter one of the same seed.
    pub(crate) fn steps(&self, rng: &mut Rng, duration: Duration) -> Vec<(Duration, Bitrate)> {
        let wanted = nanos(duration).div_ceil(STEP_MS * 1_000_000);
        let still = || Turn { at: 0.0, target: 0.0, speed: 1.0, rest: 1 };
        let (mut body, mut head) = (still(), still());
        let mut beam = 0.0;
        let mut reflected = draw_reflected(rng);
        let mut out_of_sight = false;
        let (mut clear, mut blocked) = (steps(rng, BLOCKED_EVERY_MS), 0);
        let mut rates = Vec::new();
        for step in 0..wanted {
            if body.step() {
                let target = BODY_REACH * (2.0 * rng.unit_f64() - 1.0);
                body.turn(target, BODY_SPEED, steps(rng, BODY_EVERY_MS));
            }
            if head.step() {
                let off = (HEAD_SPREAD * rng.normal_f64()).clamp(-HEAD_REACH, HEAD_REACH);
                let speed = between(rng, HEAD_SPEED) as f64;
                head.turn(body.target + off, speed, steps(rng, REST_MS));
            }
            if step % (TRAINING_MS / STEP_MS) == 0 {
                beam = head.at;
            }
            if clear > 0 {
                clear -= 1;
                blocked = if clear == 0 { steps(rng, BLOCKED_MS) } else { 0 };
            } else {
                blocked -= 1;
                clear = if blocked == 0 { steps(rng, BLOCKED_EVERY_MS) } else { 0 };
            }
            let hidden = head.at.abs() > FIELD || blocked > 0;
            if hidden && !out_of_sight {
                reflected = draw_reflected(rng);
            }
            out_of_sight = hidden;
            let off = (head.at - beam) / BEAM;
            let aligned = (1.0 - off * off).max(0.0);
            let share = if hidden { reflected } else { aligned };
            let rate = Bitrate::bps((self.peak.as_bps() as f64 * share) as u64);
            rates.push((Duration::from_millis(STEP_MS) * step as u32, rate));
        }
        rates
    }
}

/// The level of a reflected path, as a share of the peak.
fn draw_reflected(rng: &mut Rng) -> f64 {
    rng.below(REFLECTED_PERCENT + 1) as f64 / 100.0
}

/// A time of the closed range in steps, at least one.
fn steps(rng: &mut Rng, range_ms: [u64; 2]) -> u64 {
    (between(rng, range_ms) / STEP_MS).max(1)
}

/// A uniform integer of the closed range.
fn between(rng: &mut Rng, [low, high]: [u64; 2]) -> u64 {
    low + rng.below(high - low + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(seed: u64, seconds: u64) -> Vec<f64> {
        let headset = Headset { peak: Bitrate::mbps(1000) };
        let mut rng = Rng::stream(seed, "test");
        let steps = headset.steps(&mut rng, Duration::from_secs(seconds));
        steps.iter().map(|(_, rate)| rate.as_bps() as f64 / 1e6).collect()
    }

    /// The figures that docs/scenarios.md states, in percent of the peak: mean, 5th percentile and
    /// median of 600 s, and how often a second it falls by half within 50 ms.
    #[test]
    fn its_statistics() {
        let table: String = (1..=5)
            .map(|seed| {
                let rates = trace(seed, 600);
                let mut sorted = rates.clone();
                sorted.sort_by(f64::total_cmp);
                let mean = rates.iter().sum::<f64>() / rates.len() as f64;
                let low = sorted[sorted.len() / 20];
                let median = sorted[sorted.len() / 2];
                let hidden = rates.iter().filter(|&&rate| rate <= 400.0).count();
                let mut falls = 0;
                let mut high = true;
                for pair in rates.windows(6) {
                    let falling = pair[5] < 0.5 * pair[0];
                    falls += usize::from(falling && high);
                    high = !falling;
                }
                format!(
                    "mean {:.0}  p5 {:.0}  median {:.0}  at most 40 %: {:.0}  falls a second: {:.2}\n",
                    mean / 10.0,
                    low / 10.0,
                    median / 10.0,
                    hidden as f64 * 100.0 / rates.len() as f64,
                    falls as f64 / 600.0
                )
            })
            .collect();
        insta::assert_snapshot!(table);
    }

    #[test]
    fn a_longer_trace_begins_with_the_shorter_one() {
        assert_eq!(trace(7, 20)[..500], trace(7, 5)[..]);
        assert_ne!(trace(7, 5), trace(8, 5));
    }
}
