//! Where a viewer will look a little later: last pose and velocity, blended with P(t) as the
//! horizon grows.

use std::collections::VecDeque;
use std::time::Duration;

use super::Pose;
use super::probability::times_of;
use crate::geometry::{Grid, Orientation, Viewport};

/// Poses kept at most, whatever their rate: 0.3 s at 1000 Hz with room.
const MAX_KEPT: usize = 512;

/// How a [`Predictor`] extrapolates. The defaults are those that covered most of the viewports in
/// AVTrack360 and Nasrabadi 2019 (see [`Predictor`]).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictorSettings {
    /// Over how long the velocity is measured.
    pub velocity_window: Duration,
    /// A turn under way dies away with this time constant.
    pub turn_decay: Duration,
    /// T: so long ahead the extrapolated pose has e⁻¹ of the weight; P(t) has the rest.
    pub trust_horizon: Duration,
}

impl Default for PredictorSettings {
    fn default() -> Self {
        Self {
            velocity_window: Duration::from_millis(300),
            turn_decay: Duration::from_millis(500),
            trust_horizon: Duration::from_secs(2),
        }
    }
}

/// Predicts one viewer's orientation from the poses reported so far.
///
/// How much of the viewport the best 8 of 6×4 tiles cover, in % of its pixels on average over a
/// GoP of 1 s, when they are chosen 0.25, 1 and 2 s before it begins; P(t) is of 12 viewers, the
/// others are judged (432 GoPs of each set; a test prints this):
///
/// | chosen by | AVTrack360: 0.25 s | 1 s | 2 s | Nasrabadi 2019: 0.25 s | 1 s | 2 s |
/// |---|---|---|---|---|---|---|
/// | last pose | 89.9 | 79.3 | 67.6 | 88.4 | 74.7 | 63.1 |
/// | last pose and velocity | 91.8 | 82.0 | 70.0 | 91.1 | 79.2 | 64.8 |
/// | P(t) | 67.9 | 67.9 | 67.9 | 68.7 | 68.7 | 68.7 |
/// | blend | 92.1 | 82.8 | 73.7 | 91.6 | 81.6 | 72.4 |
#[derive(Clone, Debug)]
pub struct Predictor {
    settings: PredictorSettings,
    recent: VecDeque<Pose>,
}

impl Predictor {
    /// A predictor that has heard nothing yet.
    pub fn new(settings: PredictorSettings) -> Self {
        Self { settings, recent: VecDeque::new() }
    }

    /// Takes a pose that the viewer reported. Reports that are not newer than the last are ignored:
    /// they were overtaken.
    pub fn handle_pose(&mut self, pose: Pose) {
        if self.recent.back().is_some_and(|last| pose.at <= last.at) {
            return;
        }
        self.recent.push_back(pose);
        // The first pose outside the window is kept, so that the window is spanned.
        while self.recent.len() > 2
            && (self.recent.len() > MAX_KEPT
                || pose.at.saturating_sub(self.recent[1].at) >= self.settings.velocity_window)
        {
            self.recent.pop_front();
        }
    }

    /// The orientation expected at `at`; `None` before the first report. Times before the last
    /// report get its pose.
    ///
    /// The turn under way dies away: after h seconds it has gone on by v·τ·(1 − exp(−h/τ)).
    pub fn orientation(&self, at: Duration) -> Option<Orientation> {
        let (first, last) = (self.recent.front()?, self.recent.back()?);
        let elapsed = (last.at - first.at).as_secs_f64();
        let (yaw, pitch, roll) = last.orientation.degrees();
        if elapsed <= 0.0 || at <= last.at {
            return Some(last.orientation);
        }
        let (first_yaw, first_pitch, _) = first.orientation.degrees();
        let horizon = (at - last.at).as_secs_f64();
        let decay = self.settings.turn_decay.as_secs_f64().max(1e-6);
        let ahead = decay * (1.0 - (-horizon / decay).exp()) / elapsed;
        let turned = (yaw - first_yaw + 180.0).rem_euclid(360.0) - 180.0;
        let pitch_ahead = (pitch + (pitch - first_pitch) * ahead).clamp(-90.0, 90.0);
        Some(Orientation::from_degrees(yaw + turned * ahead, pitch_ahead, roll))
    }

    /// What each tile weighs in the viewport of GoP `gop_index` ([`Grid::weights`]), of length `gop`,
    /// where `prior` is that of other viewers
    /// ([`TileProbabilities::weights`](super::TileProbabilities::weights)); `prior` itself before the
    /// first report.
    ///
    /// Each of the GoP's times weighs the tiles of the extrapolated viewport by exp(−(h/T)²), with
    /// h the time from the last report, and `prior` by the rest.
    ///
    /// # Panics
    /// If `prior` has not one value for each tile.
    pub fn weights(
        &self,
        grid: Grid,
        viewport: &Viewport,
        gop: Duration,
        gop_index: u32,
        prior: &[f64],
    ) -> Vec<f64> {
        assert_eq!(prior.len(), grid.tiles(), "one weight for each tile");
        let Some(last) = self.recent.back() else { return prior.to_vec() };
        let decay = self.settings.trust_horizon.as_secs_f64().max(1e-6);
        let mut sums = vec![0.0; grid.tiles()];
        let mut times = 0.0;
        for at in times_of(gop, gop_index) {
            let Some(orientation) = self.orientation(at) else { continue };
            let horizon = at.saturating_sub(last.at).as_secs_f64();
            let trust = (-(horizon / decay).powi(2)).exp();
            let shown = grid.weights(&viewport.visibility(grid, orientation).share);
            for ((sum, shown), prior) in sums.iter_mut().zip(shown).zip(prior) {
                *sum += trust * shown + (1.0 - trust) * prior;
            }
            times += 1.0;
        }
        sums.iter().map(|sum| sum / times).collect()
    }
}
