//! Where in a tile its error is.
//!
//! A tile may be 90° wide, and a viewport shows a corner of it. Ground errs where sky does not, and in place
//! of grey a bright part of a picture loses more than a dull one: with one error for all of a tile, such
//! viewports were off by 0.3 to 1.4 dB on average. So tiles are divided into equal cells, and of what an
//! encoding loses, and grey, each cell has its share.

use crate::geometry::{FrameSize, Grid};
use crate::shown::Shown;

/// Cells are about so wide and high, in degrees: a sixth of a viewport.
const CELL_DEG: u32 = 15;
/// The most cells beside each other in a tile.
const MAX_SIDE: u32 = 6;
/// No share is larger: with the least error that is no zero, rounding adds as much again many times over.
const MOST_SHARE: f64 = 1e3;
/// The least side of a cell, in pixels.
const MIN_PIXELS: u32 = 4;

/// The shares of one tile's cells in what it loses in a GoP, in raster order. They add up to 1, or to more
/// where a viewport adds something: its pixels have whole values.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TileParts {
    /// QP, and the shares of that encoding.
    pub rungs: Vec<(u8, Vec<f64>)>,
    /// Those of grey in its place.
    pub grey: Vec<f64>,
}

/// The shares of all tiles' cells in all GoPs.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    side: u32,
    grid: Grid,
    cells: Grid,
    gops: Vec<Vec<TileParts>>,
}

impl Parts {
    /// How many cells a tile is wide and high.
    pub fn side_for(grid: Grid, frame: FrameSize) -> u32 {
        let degrees = (360 / grid.columns()).max(180 / grid.rows());
        let tile = grid.rect(0, frame);
        let fits = [
            MAX_SIDE,
            Grid::MAX_SIDE / grid.columns().max(grid.rows()),
            tile.width.min(tile.height) / MIN_PIXELS,
        ];
        fits.into_iter().fold(degrees.div_ceil(CELL_DEG), u32::min).max(1)
    }

    /// With `side` cells beside and above each other in each tile of `grid`.
    ///
    /// # Errors
    /// In words, if there cannot be such cells, or shares are missing or make no sense.
    pub fn new(side: u32, grid: Grid, gops: Vec<Vec<TileParts>>) -> Result<Self, String> {
        let sides = [grid.columns(), grid.rows()].map(|tiles| tiles.checked_mul(side).unwrap_or(0));
        let cells = Grid::new(sides[0], sides[1]).map_err(|why| why.to_string())?;
        let is_whole = |shares: &[f64]| {
            shares.len() == (side * side) as usize
                && shares.iter().all(|share| (0.0..=MOST_SHARE).contains(share))
        };
        let fits = gops.iter().all(|tiles| {
            tiles.len() == grid.tiles()
                && tiles.iter().all(|tile| {
                    is_whole(&tile.grey) && tile.rungs.iter().all(|(_, shares)| is_whole(shares))
                })
        });
        match fits {
            true => Ok(Self { side, grid, cells, gops }),
            false => {
                Err(format!("the shares of {side}x{side} cells in a tile are not those of {grid}"))
            }
        }
    }

    /// The grid of the cells.
    pub const fn cells(&self) -> Grid {
        self.cells
    }

    /// What each cell loses, of what the tiles lose of a GoP as they are `shown`. What is not known, as
    /// of old pictures, is spread evenly.
    pub fn spread(&self, gop: usize, shown: &[Shown], losses: &[f64]) -> Vec<f64> {
        let mut spread = vec![0.0; self.cells.tiles()];
        let of_gop = self.gops.get(gop).map_or(&[][..], Vec::as_slice);
        for (tile, (shown, loss)) in shown.iter().zip(losses).enumerate().take(self.grid.tiles()) {
            let shares = of_gop.get(tile).and_then(|parts| match shown {
                Shown::Grey => Some(&parts.grey),
                Shown::Rung(qp) => {
                    parts.rungs.iter().find(|(known, _)| known == qp).map(|(_, shares)| shares)
                }
                Shown::Stale { .. } => None,
            });
            let shares = shares.filter(|shares| shares.iter().any(|share| *share > 0.0));
            for (at, cell) in self.of_tile(tile).enumerate() {
                let even = self.cells.solid_angle(cell) / self.grid.solid_angle(tile);
                spread[cell] = loss * shares.map_or(even, |shares| shares[at]);
            }
        }
        spread
    }

    /// The cells of a tile, in raster order.
    fn of_tile(&self, tile: usize) -> impl Iterator<Item = usize> + use<> {
        let (side, columns) = (self.side as usize, self.grid.columns() as usize);
        let (left, top) = (tile % columns * side, tile / columns * side);
        let width = columns * side;
        (0..side * side).map(move |at| (top + at / side) * width + left + at % side)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown::viewport_error;

    #[test]
    fn cells_are_about_as_large_whatever_the_tiles() {
        let frame = FrameSize::new(1920, 960).unwrap();
        let side = |columns, rows| Parts::side_for(Grid::new(columns, rows).unwrap(), frame);
        assert_eq!([side(4, 2), side(6, 4), side(8, 4), side(1, 1), side(40, 20)], [6, 4, 3, 6, 1]);
        let small = FrameSize::new(128, 64).unwrap();
        assert_eq!(Parts::side_for(Grid::new(8, 4).unwrap(), small), 3);
        assert_eq!(Parts::side_for(Grid::new(16, 8).unwrap(), small), 2);
    }

    /// A tile loses all in its left half: who looks there sees twice its mean, who looks right of it nothing.
    #[test]
    fn what_a_viewport_shows_of_a_tile_is_what_is_there() {
        let grid = Grid::new(2, 1).unwrap();
        let left = TileParts { rungs: vec![(22, vec![0.5, 0.0, 0.5, 0.0])], grey: vec![0.25; 4] };
        let parts = Parts::new(2, grid, vec![vec![left.clone(), left]]).unwrap();
        let losses = [2.0, 2.0];
        let of = |shown: Shown| parts.spread(0, &[Shown::Grey, shown], &losses);
        let spread = of(Shown::Rung(22));
        assert_eq!(spread, [0.5, 0.5, 1.0, 0.0, 0.5, 0.5, 1.0, 0.0]);
        let looks = |cell: usize| {
            let mut share = vec![0.0; 8];
            share[cell] = 1.0;
            viewport_error(parts.cells(), [share], &spread).0
        };
        // Each tile is half of the sphere: a loss of 2 is a mean error of 4.
        for (cell, wanted) in [(0, 4.0), (2, 8.0), (3, 0.0), (6, 8.0)] {
            assert!((looks(cell) - wanted).abs() < 1e-9, "{cell}: {}", looks(cell));
        }
        // What is not known is spread evenly.
        assert_eq!(of(Shown::Rung(30))[2..4], [0.5, 0.5]);
        assert_eq!(parts.spread(7, &[Shown::Rung(22); 2], &losses), [0.5; 8]);
        let none = TileParts::default();
        assert!(Parts::new(2, grid, vec![vec![none.clone(), none]]).is_err());
        assert!(
            Parts::new(40, grid, Vec::new()).is_err() && Parts::new(0, grid, Vec::new()).is_err()
        );
    }
}
