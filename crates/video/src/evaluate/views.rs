//! What one viewer's viewport shows of each tile, worked out once for all sessions of a scene.

use std::time::Duration;

use crate::geometry::{Grid, Viewport};
use crate::head::{Trace, times_of};

/// The share of the viewport's pixels that each tile takes, at each pose of each GoP.
#[derive(Clone, Debug, PartialEq)]
pub struct Views {
    grid: Grid,
    gop: Duration,
    /// Per GoP and pose, one share for each tile.
    shares: Vec<Vec<Vec<f64>>>,
}

impl Views {
    /// The views of `trace` over GoPs of length `gop`: those that it has begun, `most` at most. Ten
    /// poses a second.
    pub fn new(trace: &Trace, grid: Grid, viewport: &Viewport, gop: Duration, most: usize) -> Self {
        let begun = Self::begun(trace, gop);
        let pose = |at| viewport.visibility(grid, trace.at(at)).share;
        let count = u32::try_from(begun.min(most)).unwrap_or(u32::MAX);
        let shares = (0..count).map(|index| times_of(gop, index).map(pose).collect()).collect();
        Self { grid, gop, shares }
    }

    /// How many GoPs of this length a viewer has begun to watch.
    pub fn begun(trace: &Trace, gop: Duration) -> usize {
        (trace.end().as_secs_f64() / gop.as_secs_f64()).ceil() as usize
    }

    /// How many GoPs the viewer watches.
    pub fn gops(&self) -> usize {
        self.shares.len()
    }

    /// The grid of the tiles.
    pub const fn grid(&self) -> Grid {
        self.grid
    }

    /// The length of a GoP.
    pub const fn gop(&self) -> Duration {
        self.gop
    }

    /// The poses of GoP `gop`: the share of the viewport's pixels that each tile takes. Nothing
    /// after the last GoP.
    pub fn poses(&self, gop: usize) -> &[Vec<f64>] {
        self.shares.get(gop).map_or(&[], Vec::as_slice)
    }
}
