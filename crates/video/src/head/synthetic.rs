//! Synthetic viewers: what is shipped in place of recorded head motion.
//!
//! A video has a few attractions that drift over the sphere, the same for all its viewers. A viewer
//! looks at one of them, or explores: picks a direction of his own. After a while he picks again.
//! His head follows what he looks at like a critically damped spring, fast or slow by the viewer
//! (smooth pursuit and turns of the head, not of the eye).
//!
//! The constants were chosen so that these statistics come out close to those of the AVTrack360
//! traces (48 viewers, 10 videos), here beside those of Nasrabadi 2019 (180 traces) too; a test
//! prints all three and checks them. Quantiles 25 / 50 / 75 / 90 %:
//!
//! | | AVTrack360 | Nasrabadi 2019 | synthetic |
//! |---|---|---|---|
//! | speed, °/s over 0.2 s | 8.1 / 21.0 / 41.5 / 66.1 | 5.9 / 18.8 / 43.5 / 76.3 | 6.6 / 16.8 / 36.4 / 69.3 |
//! | moved in 1 s, ° | 9.4 / 21.7 / 37.9 / 56.7 | 6.4 / 19.7 / 41.2 / 65.7 | 7.6 / 17.1 / 34.2 / 60.0 |
//! | moved in 3 s, ° | 24.2 / 50.7 / 84.8 / 120.4 | 17.6 / 48.3 / 90.2 / 132.9 | 23.4 / 44.7 / 79.2 / 119.2 |
//! | yaw from the front, ° | 17.0 / 48.0 / 108.0 / 153.0 | 19.1 / 56.5 / 105.6 / 151.1 | 21.4 / 61.5 / 113.5 / 152.8 |
//! | pitch from the horizon, ° | 4.0 / 9.0 / 18.0 / 31.0 | 2.7 / 5.8 / 10.8 / 19.1 | 3.9 / 9.7 / 18.4 / 28.9 |
//! | dwell within 15°, s | 0.3 / 0.4 / 0.7 / 1.4 | 0.2 / 0.3 / 0.7 / 1.4 | 0.2 / 0.4 / 0.8 / 1.7 |
//! | between two viewers, ° | 36.3 / 74.9 / 122.7 / 151.1 | 34.4 / 77.4 / 126.6 / 155.3 | 41.2 / 76.0 / 118.0 / 145.4 |
//!
//! (The synthetic column is of 160 traces of 30 s, 16 viewers for each of 10 videos of seed 1.)
//! Heads here do not roll.

use std::time::Duration;

use weftline_core::rng::Rng;

use super::{HeadError, Pose, Trace};
use crate::geometry::Orientation;

/// Steps of the motion a second, and how many make one pose.
const STEPS_PER_SECOND: u32 = 100;
const STEPS_PER_POSE: u32 = 10;

/// How many attractions a video has, and how a viewer who does not explore chooses among them.
const ATTRACTION_SHARES: [f64; 3] = [0.66, 0.2, 0.14];
/// How far from the front the first one is, and how far from the horizon all are (deviations).
const FIRST_YAW_DEG: f64 = 18.0;
const ATTRACTION_PITCH_DEG: f64 = 8.0;
/// How fast attractions drift, in degrees a second (deviation).
const DRIFT_DEG_PER_S: f64 = 5.0;

/// The share of looks that explore, and how far these go: an exponential mean to either side, and
/// a deviation of pitch.
const EXPLORING: f64 = 0.58;
const EXPLORING_YAW_DEG: f64 = 52.0;
const EXPLORING_PITCH_DEG: f64 = 24.0;
/// How fast exploring pans on, in degrees a second (deviation).
const PAN_DEG_PER_S: f64 = 14.0;
/// How far beside an attraction a viewer looks (deviation).
const ASIDE_DEG: f64 = 14.0;
/// How long a look lasts on average (exponential).
const LOOK_S: f64 = 1.6;
/// The natural frequency of the head's motion, in radians a second: its middle, and its spread
/// among viewers as the deviation of the logarithm.
const FREQUENCY_PER_S: f64 = 2.3;
const FREQUENCY_SPREAD: f64 = 0.35;

/// A crowd that watches one video.
#[derive(Clone, Debug)]
pub struct SyntheticViewers {
    seed: u64,
    video: String,
    attractions: Vec<Attraction>,
}

#[derive(Clone, Copy, Debug)]
struct Attraction {
    yaw_deg: f64,
    pitch_deg: f64,
    drift_deg_per_s: f64,
}

impl SyntheticViewers {
    /// The viewers of the video called `video`; its name and `seed` decide what there is to see.
    pub fn new(seed: u64, video: &str) -> Self {
        let mut rng = Rng::stream(seed, &format!("video/{video}/attractions"));
        let mut attractions = Vec::new();
        for index in 0..ATTRACTION_SHARES.len() {
            let yaw_deg = match index {
                0 => rng.normal_f64() * FIRST_YAW_DEG,
                _ => rng.unit_f64() * 360.0 - 180.0,
            };
            let pitch_deg = rng.normal_f64() * ATTRACTION_PITCH_DEG;
            let drift_deg_per_s = rng.normal_f64() * DRIFT_DEG_PER_S;
            attractions.push(Attraction { yaw_deg, pitch_deg, drift_deg_per_s });
        }
        Self { seed, video: video.to_owned(), attractions }
    }

    /// The trace of viewer number `viewer` for `length`, ten poses a second, beginning with a look
    /// to the front. Viewers are independent of one another and of their number.
    ///
    /// # Errors
    /// [`HeadError::Trace`] if it is longer than a day or has fewer than two poses.
    pub fn trace(&self, viewer: u32, length: Duration) -> Result<Trace, HeadError> {
        let mut head = Head::new(self, viewer);
        let step = Duration::from_secs(1) / STEPS_PER_SECOND;
        let steps = (length.min(Duration::from_secs(100_000)).as_nanos() / step.as_nanos()) as u32;
        let mut poses = Vec::with_capacity((steps / STEPS_PER_POSE) as usize + 1);
        for number in 0..=steps {
            if number % STEPS_PER_POSE == 0 {
                let orientation = Orientation::from_degrees(head.yaw_deg, head.pitch_deg, 0.0);
                poses.push(Pose { at: step * number, orientation });
            }
            head.step();
        }
        Trace::new(&format!("synthetic-{viewer}"), &self.video, poses)
    }
}

/// The state of one viewer's head.
struct Head<'a> {
    crowd: &'a SyntheticViewers,
    rng: Rng,
    frequency: f64,
    time_s: f64,
    yaw_deg: f64,
    pitch_deg: f64,
    yaw_speed: f64,
    pitch_speed: f64,
    look: Look,
}

/// What the viewer looks at, and until when.
#[derive(Clone, Copy)]
struct Look {
    until_s: f64,
    yaw_deg: f64,
    pitch_deg: f64,
    drift_deg_per_s: f64,
}

impl<'a> Head<'a> {
    fn new(crowd: &'a SyntheticViewers, viewer: u32) -> Self {
        let mut rng = Rng::stream(crowd.seed, &format!("video/{}/viewer/{viewer}", crowd.video));
        let frequency = FREQUENCY_PER_S * (rng.normal_f64() * FREQUENCY_SPREAD).exp();
        let until_s = LOOK_S * exponential(&mut rng);
        let look = Look { until_s, yaw_deg: 0.0, pitch_deg: 0.0, drift_deg_per_s: 0.0 };
        let (yaw_deg, pitch_deg, yaw_speed, pitch_speed) = (0.0, 0.0, 0.0, 0.0);
        let time_s = 0.0;
        Self { crowd, rng, frequency, time_s, yaw_deg, pitch_deg, yaw_speed, pitch_speed, look }
    }

    fn step(&mut self) {
        let step_s = 1.0 / f64::from(STEPS_PER_SECOND);
        if self.time_s >= self.look.until_s {
            self.look = self.choose();
        }
        let pull = self.frequency * self.frequency;
        let drag = 2.0 * self.frequency;
        self.yaw_speed +=
            step_s * (pull * (self.look.yaw_deg - self.yaw_deg) - drag * self.yaw_speed);
        self.pitch_speed +=
            step_s * (pull * (self.look.pitch_deg - self.pitch_deg) - drag * self.pitch_speed);
        self.yaw_deg += step_s * self.yaw_speed;
        self.pitch_deg = (self.pitch_deg + step_s * self.pitch_speed).clamp(-85.0, 85.0);
        self.look.yaw_deg += step_s * self.look.drift_deg_per_s;
        self.time_s += step_s;
    }

    /// Picks what to look at next.
    fn choose(&mut self) -> Look {
        let rng = &mut self.rng;
        let until_s = self.time_s + LOOK_S * exponential(rng);
        if rng.unit_f64() < EXPLORING {
            let side = if rng.unit_f64() < 0.5 { -1.0 } else { 1.0 };
            let yaw_deg = self.yaw_deg + side * EXPLORING_YAW_DEG * exponential(rng);
            let pitch_deg = rng.normal_f64() * EXPLORING_PITCH_DEG;
            let drift_deg_per_s = rng.normal_f64() * PAN_DEG_PER_S;
            return Look { until_s, yaw_deg, pitch_deg, drift_deg_per_s };
        }
        let mut draw = rng.unit_f64();
        let mut chosen = self.crowd.attractions[0];
        for (attraction, share) in self.crowd.attractions.iter().zip(ATTRACTION_SHARES) {
            chosen = *attraction;
            if draw < share {
                break;
            }
            draw -= share;
        }
        let yaw_deg =
            chosen.yaw_deg + chosen.drift_deg_per_s * self.time_s + rng.normal_f64() * ASIDE_DEG;
        // The way round that is nearer.
        let away = (yaw_deg - self.yaw_deg + 180.0).rem_euclid(360.0) - 180.0;
        Look {
            until_s,
            yaw_deg: self.yaw_deg + away,
            pitch_deg: chosen.pitch_deg + rng.normal_f64() * ASIDE_DEG,
            drift_deg_per_s: chosen.drift_deg_per_s,
        }
    }
}

/// An exponential number of mean 1, at most 20.
fn exponential(rng: &mut Rng) -> f64 {
    -(1.0 - rng.unit_f64()).max(2e-9).ln()
}
