//! Rectilinear viewports, and which tiles they show.

use std::f64::consts::{PI, TAU};

use super::{Direction, GeometryError, Grid, Orientation, atan2};

/// Rays of a [`Viewport`] and the generator of their lattice: neighbouring Fibonacci numbers, so
/// that their places have low discrepancy (Niederreiter and Sloan, 1994). No two rays share a row
/// or a column, so edges of tiles along either are met one ray at a time.
const RAYS: u32 = 4_181;
const GENERATOR: u32 = 2_584;

/// The angles that a viewport spans, in degrees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FieldOfView {
    horizontal_deg: f64,
    vertical_deg: f64,
}

impl Default for FieldOfView {
    /// 100° × 100°, about that of a headset.
    fn default() -> Self {
        Self { horizontal_deg: 100.0, vertical_deg: 100.0 }
    }
}

impl FieldOfView {
    /// A field of `horizontal_deg` × `vertical_deg` degrees.
    ///
    /// # Errors
    /// [`GeometryError::FieldOfView`] unless both are from 1 to 170: the plane on which it is
    /// drawn ends at 180.
    pub fn new(horizontal_deg: f64, vertical_deg: f64) -> Result<Self, GeometryError> {
        let fits = |deg| (1.0..=170.0).contains(&deg);
        if fits(horizontal_deg) && fits(vertical_deg) {
            return Ok(Self { horizontal_deg, vertical_deg });
        }
        Err(GeometryError::FieldOfView { horizontal_deg, vertical_deg })
    }

    /// Its horizontal and vertical angle in degrees.
    pub const fn degrees(self) -> (f64, f64) {
        (self.horizontal_deg, self.vertical_deg)
    }

    /// Half the width and half the height of the picture on a plane at distance 1.
    pub fn half_sides(self) -> (f64, f64) {
        let half = |deg: f64| (deg.to_radians() / 2.0).tan();
        (half(self.horizontal_deg), half(self.vertical_deg))
    }

    /// The area it covers on the unit sphere in steradians: 4·arcsin(sin(h/2)·sin(v/2)).
    pub fn solid_angle(self) -> f64 {
        let half = |deg: f64| (deg.to_radians() / 2.0).sin();
        4.0 * (half(self.horizontal_deg) * half(self.vertical_deg)).asin()
    }

    /// Whether a head at `orientation` sees `direction`.
    pub fn sees(self, orientation: Orientation, direction: Direction) -> bool {
        let [x, y, z] = orientation.inverse().turn(direction).xyz();
        let (half_width, half_height) = self.half_sides();
        x > 0.0 && y.abs() <= half_width * x && z.abs() <= half_height * x
    }
}

/// What a viewport shows of each tile.
#[derive(Clone, Debug, PartialEq)]
pub struct Visibility {
    /// The share of the tile's area on the sphere that is in the viewport, 0 to 1.
    pub seen: Vec<f64>,
    /// The share of the viewport's pixels that show the tile; they add up to 1.
    pub share: Vec<f64>,
}

/// A field of view made ready for asking what it shows: a lattice of rays through its picture.
///
/// Over 600 random orientations and 6×4 tiles the shares were within 0.003 of exact ones, 0.0002 on
/// average, and `seen` within 0.03, 0.001 on average (the tests check this).
#[derive(Clone, Debug)]
pub struct Viewport {
    fov: FieldOfView,
    /// Where rays meet the plane at distance 1: to the left, and up.
    left: Vec<f32>,
    up: Vec<f32>,
    /// The area on the sphere for which each ray stands, in steradians.
    area: Vec<f64>,
}

impl Viewport {
    /// A viewport with this field of view.
    pub fn new(fov: FieldOfView) -> Self {
        let (half_width, half_height) = fov.half_sides();
        let place = |index: u32| (f64::from(index) + 0.5) / f64::from(RAYS) * 2.0 - 1.0;
        let indices = 0..RAYS;
        let left: Vec<f64> = indices.clone().map(|index| half_width * place(index)).collect();
        let row = |index: u32| (u64::from(index) * u64::from(GENERATOR) % u64::from(RAYS)) as u32;
        let up: Vec<f64> = indices.map(|index| half_height * place(row(index))).collect();
        // A pixel at distance r from the eye covers 1/r³ of its size; the rest is one factor.
        let size = |(y, z): (&f64, &f64)| (1.0 + y * y + z * z).powf(-1.5);
        let area: Vec<f64> = left.iter().zip(&up).map(size).collect();
        let scale = fov.solid_angle() / area.iter().sum::<f64>();
        Self {
            fov,
            left: left.iter().map(|&y| y as f32).collect(),
            up: up.iter().map(|&z| z as f32).collect(),
            area: area.iter().map(|area| area * scale).collect(),
        }
    }

    /// Its field of view.
    pub const fn fov(&self) -> FieldOfView {
        self.fov
    }

    /// What a head at `orientation` sees of the tiles of `grid`.
    pub fn visibility(&self, grid: Grid, orientation: Orientation) -> Visibility {
        // Rays one after another often meet the same tile. In lanes of their own their additions
        // need not wait for one another.
        const LANES: usize = 4;
        let tiles = grid.tiles();
        let mut sums = vec![(0.0, 0_u32); tiles * LANES];
        let mut places = [0_u32; CHUNK];
        let m = orientation.matrix().map(|row| row.map(|value| value as f32));
        let chunks = self.left.chunks(CHUNK).zip(self.up.chunks(CHUNK));
        for ((left, up), area) in chunks.zip(self.area.chunks(CHUNK)) {
            tiles_met(&m, grid, left, up, &mut places);
            for (lane, (place, area)) in places.iter().zip(area).enumerate() {
                let (sum, rays) = &mut sums[*place as usize * LANES + lane % LANES];
                *sum += area;
                *rays += 1;
            }
        }
        let seen = sums.chunks_exact(LANES).enumerate().map(|(tile, lanes)| {
            let area = lanes.iter().map(|(area, _)| area).sum::<f64>();
            (area / grid.solid_angle(tile)).min(1.0)
        });
        let share = sums.chunks_exact(LANES).map(|lanes| {
            let rays = lanes.iter().map(|(_, rays)| rays).sum::<u32>();
            f64::from(rays) / f64::from(RAYS)
        });
        Visibility { seen: seen.collect(), share: share.collect() }
    }
}

/// Rays worked on at a time.
const CHUNK: usize = 64;

/// The tiles that the rays through the points (`left`, `up`) meet. Apart from the sums over tiles,
/// so that it becomes vector code.
fn tiles_met(m: &[[f32; 3]; 3], grid: Grid, left: &[f32], up: &[f32], places: &mut [u32; CHUNK]) {
    let (columns, rows) = (grid.columns() as f32, grid.rows() as f32);
    let (mut across, mut down) = ([0.0; CHUNK], [0.0; CHUNK]);
    for (((y, z), across), down) in left.iter().zip(up).zip(&mut across).zip(&mut down) {
        (*across, *down) = place_in_frame(m, *y, *z);
    }
    for ((across, down), place) in across.iter().zip(&down).zip(places) {
        // Rounding may bring a place to the right or the lower edge itself.
        let column = (across * columns).min(columns - 1.0);
        let row = (down * rows).min(rows - 1.0);
        *place = row as i32 as u32 * grid.columns() + column as i32 as u32;
    }
}

/// Where the ray through the point (`left`, `up`) of the plane at distance 1 meets the frame, as
/// fractions of its width and height, after the rotation `m`.
#[inline]
pub(crate) fn place_in_frame(m: &[[f32; 3]; 3], left: f32, up: f32) -> (f32, f32) {
    let along = |row: &[f32; 3]| row[0] + row[1] * left + row[2] * up;
    let (x, y, z) = (along(&m[0]), along(&m[1]), along(&m[2]));
    let across = atan2(-y, x) * (1.0 / TAU) as f32 + 0.5;
    let down = 0.5 - atan2(z, (x * x + y * y).sqrt()) * (1.0 / PI) as f32;
    (across, down)
}
