//! The grid of tiles over the frame, and over the sphere.

use std::f64::consts::{PI, TAU};
use std::fmt;
use std::str::FromStr;

use super::{Direction, FrameSize, GeometryError, Rect};

/// A grid of equal tiles over the frame, numbered row by row from the top left.
///
/// On the sphere its columns are equal angles of yaw and its rows equal angles of pitch; tiles at
/// the poles are the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Grid {
    columns: u32,
    rows: u32,
}

impl Default for Grid {
    /// 6×4: tiles of 60° × 45°.
    fn default() -> Self {
        Self { columns: 6, rows: 4 }
    }
}

impl Grid {
    /// The most columns, and the most rows.
    pub const MAX_SIDE: u32 = 64;

    /// A grid of `columns` × `rows` tiles.
    ///
    /// # Errors
    /// [`GeometryError::Grid`] if either is 0 or above [`Self::MAX_SIDE`].
    pub fn new(columns: u32, rows: u32) -> Result<Self, GeometryError> {
        let fits = |side| (1..=Self::MAX_SIDE).contains(&side);
        if fits(columns) && fits(rows) {
            return Ok(Self { columns, rows });
        }
        Err(GeometryError::Grid(format!("{columns}x{rows}")))
    }

    /// Tiles from left to right.
    pub const fn columns(self) -> u32 {
        self.columns
    }

    /// Tiles from top to bottom.
    pub const fn rows(self) -> u32 {
        self.rows
    }

    /// How many tiles there are.
    pub const fn tiles(self) -> usize {
        (self.columns * self.rows) as usize
    }

    /// Whether `frame` falls into equal tiles of even sizes, as 4:2:0 pictures want them.
    ///
    /// # Errors
    /// [`GeometryError::Divide`] otherwise, with the size nearest above that does.
    pub fn check(self, frame: FrameSize) -> Result<(), GeometryError> {
        let (width, height) = (frame.width(), frame.height());
        let (across, down) = (2 * self.columns, 2 * self.rows);
        if width.is_multiple_of(across) && height.is_multiple_of(down) {
            return Ok(());
        }
        // The width must be a multiple of `across`, and half of it one of `down`.
        let unit = across / common_divisor(across, 2 * down) * 2 * down;
        let mut fit_width = width.div_ceil(unit) * unit;
        if fit_width > FrameSize::MAX_WIDTH {
            fit_width -= unit;
        }
        let (columns, rows) = (self.columns, self.rows);
        Err(GeometryError::Divide { width, height, columns, rows, fit_width })
    }

    /// The pixels of tile `tile` of a frame that passed [`Self::check`].
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn rect(self, tile: usize, frame: FrameSize) -> Rect {
        let (column, row) = self.place(tile);
        let (width, height) = (frame.width() / self.columns, frame.height() / self.rows);
        Rect { left: column * width, top: row * height, width, height }
    }

    /// The area of tile `tile` on the unit sphere, in steradians; those of all tiles add up to 4π.
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn solid_angle(self, tile: usize) -> f64 {
        let (_, row) = self.place(tile);
        let sin_of_edge = |edge: u32| (PI * (0.5 - f64::from(edge) / f64::from(self.rows))).sin();
        TAU / f64::from(self.columns) * (sin_of_edge(row) - sin_of_edge(row + 1))
    }

    /// What each tile weighs in a viewport of which it takes `shares`, for losses that are weighted by
    /// area on the sphere: a share divided by the tile's part of the sphere. 1 for each tile of a
    /// viewport that shows all of the sphere alike.
    ///
    /// # Panics
    /// If there is not one share for each tile.
    pub fn weights(self, shares: &[f64]) -> Vec<f64> {
        assert_eq!(shares.len(), self.tiles(), "one share for each tile");
        let weight = |(tile, share): (usize, &f64)| share * 4.0 * PI / self.solid_angle(tile);
        shares.iter().enumerate().map(weight).collect()
    }

    /// The tile in which `direction` lies; an edge belongs to the tile to its right or below it.
    pub fn tile_of(self, direction: Direction) -> usize {
        let (across, down) = direction.frame_position();
        self.tile_at(across, down)
    }

    /// The tile at a place of the frame, given as fractions of its width and height.
    pub(super) fn tile_at(self, across: f64, down: f64) -> usize {
        let column = ((across * f64::from(self.columns)) as u32).min(self.columns - 1);
        let row = ((down * f64::from(self.rows)) as u32).min(self.rows - 1);
        (row * self.columns + column) as usize
    }

    /// The direction of the middle of tile `tile`.
    ///
    /// # Panics
    /// If there is no such tile.
    pub fn center(self, tile: usize) -> Direction {
        let (column, row) = self.place(tile);
        let middle = |place: u32, of: u32| (f64::from(place) + 0.5) / f64::from(of);
        Direction::from_frame_position(middle(column, self.columns), middle(row, self.rows))
    }

    /// Column and row of a tile.
    fn place(self, tile: usize) -> (u32, u32) {
        assert!(tile < self.tiles(), "tile {tile} of a grid of {self}");
        let tile = tile as u32;
        (tile % self.columns, tile / self.columns)
    }
}

fn common_divisor(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { common_divisor(b, a % b) }
}

impl fmt::Display for Grid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.columns, self.rows)
    }
}

impl FromStr for Grid {
    type Err = GeometryError;

    /// Reads `6x4`: columns and rows.
    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let wrong = || GeometryError::Grid(text.to_owned());
        let (columns, rows) = text.split_once('x').ok_or_else(wrong)?;
        let side = |text: &str| text.trim().parse().map_err(|_| wrong());
        Self::new(side(columns)?, side(rows)?).map_err(|_| wrong())
    }
}
