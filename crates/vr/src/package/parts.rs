//! Where in a tile its loss is, measured in cells: see [`Parts`].

use weftline_video::evaluate::Parts;
use weftline_video::geometry::Rect;
use weftline_video::metric::{MetricError, Plane, SphereWeights};

use super::concealment::GREY;
use super::plan::Description;

/// One picture of so many is measured in cells: they share what is measured exactly.
const EVERY: usize = 3;
/// Shares are kept to so many parts of a whole.
const PARTS: f64 = 1e5;

/// The cells of a tile: their places within it.
pub(crate) struct Cells {
    pub(crate) side: u32,
    rects: Vec<Rect>,
}

impl Cells {
    /// Of each tile of a package.
    pub(crate) fn new(plan: &Description) -> Self {
        let side = Parts::side_for(plan.grid(), plan.frame());
        let tile = plan.grid().rect(0, plan.frame());
        let edge = |length: u32, at: u32| length * at / side;
        let rect = |at: u32| {
            let (x, y) = (at % side, at / side);
            let (left, top) = (edge(tile.width, x), edge(tile.height, y));
            let (width, height) = (edge(tile.width, x + 1) - left, edge(tile.height, y + 1) - top);
            Rect { left, top, width, height }
        };
        Self { side, rects: (0..side * side).map(rect).collect() }
    }

    /// Whether picture `index` of a GoP is measured.
    pub(crate) fn takes(index: usize) -> bool {
        index.is_multiple_of(EVERY)
    }

    /// No sums.
    pub(crate) fn nothing(&self) -> Sums {
        let none = || vec![0.0; self.rects.len()];
        Sums { plain: none(), mixed: none(), rounding: none() }
    }

    /// Adds the errors of a picture of a tile whose first row is `top` of the frame's.
    pub(crate) fn add(
        &self,
        sums: &mut Sums,
        weights: &SphereWeights,
        top: u32,
        [original, decoded]: [Plane<'_>; 2],
    ) -> Result<(), MetricError> {
        for (at, rect) in self.rects.iter().enumerate() {
            let (one, other) = (original.crop(*rect)?, decoded.crop(*rect)?);
            let top = top + rect.top;
            sums.plain[at] += weights.error_sum(top, one, other)?;
            sums.mixed[at] += weights.mixed_error_sum(top, one, other)?;
            sums.rounding[at] += weights.rounding_error_sum(top, one, other)?;
        }
        Ok(())
    }

    /// The shares of the cells of each tile in what grey loses in its place, of a GoP's luma.
    pub(crate) fn grey(
        &self,
        plan: &Description,
        weights: &SphereWeights,
        luma: &[u8],
    ) -> Result<Vec<Vec<f64>>, MetricError> {
        let (frame, grid) = (plan.frame(), plan.grid());
        let pixels = frame.width() as usize * frame.height() as usize;
        let tile = grid.rect(0, frame);
        let grey = vec![GREY; tile.width as usize * tile.height as usize];
        let grey = Plane::new(&grey, tile.width, tile.height, tile.width as usize)?;
        let mut sums = vec![vec![0.0; self.rects.len()]; grid.tiles()];
        for (index, picture) in luma.chunks_exact(pixels).enumerate() {
            if !Self::takes(index) {
                continue;
            }
            let picture =
                Plane::new(picture, frame.width(), frame.height(), frame.width() as usize)?;
            for (tile, sums) in sums.iter_mut().enumerate() {
                let rect = grid.rect(tile, frame);
                let original = picture.crop(rect)?;
                for (at, cell) in self.rects.iter().enumerate() {
                    let (one, other) = (original.crop(*cell)?, grey.crop(*cell)?);
                    sums[at] += weights.error_sum(rect.top + cell.top, one, other)?;
                }
            }
        }
        Ok(sums.iter().map(|sums| shares(sums, sums)).collect())
    }
}

/// What the cells of a tile lose: as they are, where viewports mix their pixels, and what it is more where
/// these are whole values.
pub(crate) struct Sums {
    plain: Vec<f64>,
    mixed: Vec<f64>,
    rounding: Vec<f64>,
}

impl Sums {
    /// The cells' shares in what the tile loses as it is, and in what it loses where pixels are mixed. What
    /// rounding adds comes on top of that.
    pub(crate) fn shares(&self) -> [Vec<f64>; 2] {
        let rounded = self.mixed.iter().zip(&self.rounding).map(|(mixed, more)| mixed + more);
        let rounded: Vec<f64> = rounded.collect();
        [shares(&self.plain, &self.plain), shares(&rounded, &self.mixed)]
    }
}

/// Sums as shares of all of `whole`; all zero if that is nothing.
fn shares(sums: &[f64], whole: &[f64]) -> Vec<f64> {
    let all: f64 = whole.iter().sum();
    let share = |sum: &f64| if all > 0.0 { (sum / all * PARTS).round() / PARTS } else { 0.0 };
    sums.iter().map(share).collect()
}
