//! P(t): how probable it is that a tile is seen, from viewers who watched before.

use std::time::Duration;

use weftline_core::rng::Rng;

use super::{HeadError, Trace};
use crate::geometry::{FieldOfView, Grid, Viewport};

/// Poses a second at which traces are looked at: those of the public sets.
pub(super) const POSES_PER_SECOND: u32 = 10;

/// For each GoP the probability that each tile is seen, and the share of the viewport that it
/// takes.
///
/// *Seen* is the mean, over viewers and over ten poses a second, of the share of the tile's area
/// within the viewport (FBDT §4.1's P(t), weighted by visible area): 0 to 1, and 1 for a tile that
/// everybody sees whole. *Share* is the mean share of the viewport's pixels: it adds up to 1 over
/// the tiles, and is what a rendered viewport's error weighs a tile's mean error by.
#[derive(Clone, Debug, PartialEq)]
pub struct TileProbabilities {
    grid: Grid,
    gop: Duration,
    seen: Vec<Vec<f64>>,
    share: Vec<Vec<f64>>,
}

impl TileProbabilities {
    /// Measures over `traces`, all of one video, for as many GoPs of length `gop` as the longest
    /// of them has begun. A viewer counts as long as his trace goes.
    ///
    /// # Errors
    /// [`HeadError::Traces`] if there are no traces, or a GoP is not from 0.1 s to 60 s long.
    pub fn measure<'a>(
        traces: impl IntoIterator<Item = &'a Trace>,
        grid: Grid,
        viewport: &Viewport,
        gop: Duration,
    ) -> Result<Self, HeadError> {
        if gop < Duration::from_millis(100) || gop > Duration::from_secs(60) {
            let text = format!("a GoP of {} s is not from 0.1 to 60 s long", gop.as_secs_f64());
            return Err(HeadError::Traces(text));
        }
        let mut sums: Vec<Sum> = Vec::new();
        for trace in traces {
            let count = trace.end().as_nanos().div_ceil(gop.as_nanos()).max(1) as usize;
            if sums.len() < count {
                sums.resize_with(count, || Sum::new(grid.tiles()));
            }
            for (gop_index, sum) in (0_u32..).zip(&mut sums[..count]) {
                for time in times_of(gop, gop_index) {
                    if time <= trace.end() {
                        let shown = viewport.visibility(grid, trace.at(time));
                        sum.add(&shown.seen, &shown.share);
                    }
                }
            }
        }
        if sums.is_empty() {
            let text = "no viewers to measure over; give traces of this video".to_owned();
            return Err(HeadError::Traces(text));
        }
        let seen = sums.iter().map(|sum| sum.mean(&sum.seen)).collect();
        let share = sums.iter().map(|sum| sum.mean(&sum.share)).collect();
        Ok(Self { grid, gop, seen, share })
    }

    /// The grid of its tiles.
    pub const fn grid(&self) -> Grid {
        self.grid
    }

    /// The length of a GoP.
    pub const fn gop(&self) -> Duration {
        self.gop
    }

    /// How many GoPs there are.
    pub fn gops(&self) -> usize {
        self.seen.len()
    }

    /// The probability that each tile is seen in GoP `gop`; after the last one its values hold.
    pub fn seen(&self, gop: usize) -> &[f64] {
        &self.seen[gop.min(self.seen.len() - 1)]
    }

    /// The mean share of the viewport that each tile takes in GoP `gop`; after the last one its
    /// values hold.
    pub fn share(&self, gop: usize) -> &[f64] {
        &self.share[gop.min(self.share.len() - 1)]
    }

    /// What each tile weighs in GoP `gop`: its mean share of the viewport, divided by its part of the
    /// sphere ([`Grid::weights`]). Times what tiles add to the WS-MSE of the frame this adds up to
    /// the MSE to be expected of the viewport. After the last GoP its values hold.
    pub fn weights(&self, gop: usize) -> Vec<f64> {
        self.grid.weights(self.share(gop))
    }

    /// As if `viewers` more had been watched who looked anywhere with the same probability, where
    /// `of` is how many were: so that no tile has probability 0 for want of viewers.
    #[must_use]
    pub fn smoothed(&self, fov: FieldOfView, viewers: f64, of: usize) -> Self {
        let part = (viewers / (viewers + of as f64)).clamp(0.0, 1.0);
        let sphere = 4.0 * std::f64::consts::PI;
        let anywhere = fov.solid_angle() / sphere;
        let mix = |values: &Vec<f64>, other: &dyn Fn(usize) -> f64| {
            let mixed = values.iter().enumerate();
            mixed.map(|(tile, value)| value * (1.0 - part) + other(tile) * part).collect()
        };
        let seen = self.seen.iter().map(|values| mix(values, &|_| anywhere)).collect();
        let share = self
            .share
            .iter()
            .map(|values| mix(values, &|tile| self.grid.solid_angle(tile) / sphere))
            .collect();
        Self { grid: self.grid, gop: self.gop, seen, share }
    }
}

/// The times of GoP `index` at which its poses are looked at: the middles of tenths of a second.
pub fn times_of(gop: Duration, index: u32) -> impl Iterator<Item = Duration> {
    let step = Duration::from_secs(1) / POSES_PER_SECOND;
    let start = gop * index;
    let count = (gop.as_nanos() / step.as_nanos()).max(1) as u32;
    (0..count).map(move |place| start + step * place + step / 2)
}

/// Sums over poses.
struct Sum {
    seen: Vec<f64>,
    share: Vec<f64>,
    poses: u32,
}

impl Sum {
    fn new(tiles: usize) -> Self {
        Self { seen: vec![0.0; tiles], share: vec![0.0; tiles], poses: 0 }
    }

    fn add(&mut self, seen: &[f64], share: &[f64]) {
        self.poses += 1;
        self.seen.iter_mut().zip(seen).for_each(|(sum, value)| *sum += value);
        self.share.iter_mut().zip(share).for_each(|(sum, value)| *sum += value);
    }

    fn mean(&self, sums: &[f64]) -> Vec<f64> {
        sums.iter().map(|sum| sum / f64::from(self.poses.max(1))).collect()
    }
}

/// Divides the viewers of `traces` into those to fit to and `test` of them to judge on, at random
/// by `seed`; the same ones for every video. Each part has its viewers in the order in which the
/// traces have them.
///
/// # Errors
/// [`HeadError::Traces`] if that leaves one of the parts without viewers.
pub fn split_viewers(
    traces: &[Trace],
    test: usize,
    seed: u64,
) -> Result<(Vec<&str>, Vec<&str>), HeadError> {
    let mut viewers: Vec<&str> = Vec::new();
    for trace in traces {
        if !viewers.contains(&trace.viewer()) {
            viewers.push(trace.viewer());
        }
    }
    if test == 0 || test >= viewers.len() {
        return Err(HeadError::Traces(format!(
            "of {} viewers {test} cannot be kept to judge on: both parts want one at least",
            viewers.len()
        )));
    }
    // The first `test` places of a Fisher–Yates shuffle.
    let mut places: Vec<usize> = (0..viewers.len()).collect();
    let mut rng = Rng::stream(seed, "video/viewers/split");
    for place in 0..test {
        let other = place + rng.below((places.len() - place) as u64) as usize;
        places.swap(place, other);
    }
    let chosen = &places[..test];
    let part = |wanted: bool| {
        let kept = viewers.iter().enumerate().filter(|(place, _)| chosen.contains(place) == wanted);
        kept.map(|(_, viewer)| *viewer).collect()
    };
    Ok((part(false), part(true)))
}
