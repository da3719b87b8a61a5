//! Rectilinear viewports drawn from equirectangular frames by a look-up table.
//!
//! The table holds, for each pixel of the viewport, where in the frame it comes from. It depends on
//! the pose only, so it serves all frames of a pose and every scheme's decoded picture; filling it
//! is the part with arc tangents, drawing from it four samples and a weighted mean per pixel.

use std::ops::Range;

use super::weights::check_frame;
use super::{MetricError, Plane};
use crate::geometry::{FieldOfView, FrameSize, Orientation, place_in_frame};

/// What a viewport is drawn with: its field of view, and its picture's size in pixels.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Camera {
    fov: FieldOfView,
    width: u32,
    height: u32,
}

/// Where one pixel of a viewport comes from: the left upper one of four neighbours in the frame,
/// and how far beyond its centre, in 256ths of a pixel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Texel {
    column: u16,
    row: u16,
    right: u8,
    down: u8,
}

impl Camera {
    /// The most pixels on a side.
    pub const MAX_SIDE: u32 = 8_192;

    /// A camera whose picture has `width` × `height` pixels.
    ///
    /// # Errors
    /// [`MetricError::Picture`] if a side is 0 or above [`Self::MAX_SIDE`].
    pub fn new(fov: FieldOfView, width: u32, height: u32) -> Result<Self, MetricError> {
        let fits = |side| (1..=Self::MAX_SIDE).contains(&side);
        if fits(width) && fits(height) {
            return Ok(Self { fov, width, height });
        }
        Err(MetricError::Picture { width, height })
    }

    /// A camera whose pixels, in the middle of its picture, are `scale` times as wide as those of
    /// `frame` at the horizon: at 1 it shows all the detail there is.
    ///
    /// # Errors
    /// [`MetricError::Picture`] if that is a picture without pixels or too large.
    pub fn for_frame(fov: FieldOfView, frame: FrameSize, scale: f64) -> Result<Self, MetricError> {
        let pixels_per_radian = f64::from(frame.width()) / std::f64::consts::TAU / scale;
        let (half_width, half_height) = fov.half_sides();
        // The cast saturates, and the check of the sizes follows.
        let side = |half: f64| (2.0 * half * pixels_per_radian).round() as u32;
        Self::new(fov, side(half_width), side(half_height))
    }

    /// Pixels from left to right.
    pub const fn width(self) -> u32 {
        self.width
    }

    /// Pixels from top to bottom.
    pub const fn height(self) -> u32 {
        self.height
    }

    /// The field of view.
    pub const fn fov(self) -> FieldOfView {
        self.fov
    }

    /// Fills `texels` with the table of the picture's rows `rows`, for a head at `orientation`
    /// over a frame of size `frame`.
    ///
    /// # Panics
    /// If `texels` has not one entry for each pixel of the rows.
    pub fn fill_rows(
        self,
        orientation: Orientation,
        frame: FrameSize,
        rows: Range<u32>,
        texels: &mut [Texel],
    ) {
        let width = self.width as usize;
        assert_eq!(texels.len(), rows.len() * width, "one texel for each pixel");
        let m = orientation.matrix().map(|row| row.map(|value| value as f32));
        let (half_width, half_height) = self.fov.half_sides();
        let step = (2.0 * half_width / f64::from(self.width)) as f32;
        let first = (half_width - half_width / f64::from(self.width)) as f32;
        for (row, texels) in rows.zip(texels.chunks_exact_mut(width)) {
            let up = half_height * (1.0 - (2.0 * f64::from(row) + 1.0) / f64::from(self.height));
            for (chunk, texels) in texels.chunks_mut(CHUNK).enumerate() {
                let left = first - step * (chunk * CHUNK) as f32;
                fill_chunk(&m, frame, (left, step), up as f32, texels);
            }
        }
    }
}

/// Pixels worked on at a time.
const CHUNK: usize = 64;

/// Fills at most [`CHUNK`] texels, of the points `first`, `first − step`, … to the left at height
/// `up`. Angles first and texels then, so that both become vector code.
fn fill_chunk(
    m: &[[f32; 3]; 3],
    frame: FrameSize,
    (first, step): (f32, f32),
    up: f32,
    texels: &mut [Texel],
) {
    let (mut across, mut down) = ([0.0; CHUNK], [0.0; CHUNK]);
    for (index, (across, down)) in across.iter_mut().zip(&mut down).enumerate() {
        (*across, *down) = place_in_frame(m, first - step * index as f32, up);
    }
    for ((texel, across), down) in texels.iter_mut().zip(&across).zip(&down) {
        *texel = Texel::at(frame, *across, *down);
    }
}

impl Texel {
    /// The texel of a place in the frame, given as fractions of its width and height.
    #[inline]
    fn at(frame: FrameSize, across: f32, down: f32) -> Self {
        // In 256ths of a pixel from the centre of the first; the frame goes round, and ends above
        // and below.
        let (width, height) = (frame.width() as i32, frame.height() as i32);
        let across = (across * (width * 256) as f32) as i32 - 128;
        let down = ((down * (height * 256) as f32) as i32 - 128).clamp(0, (height - 1) * 256);
        let across = if across < 0 { across + width * 256 } else { across };
        let across = if across >= width * 256 { across - width * 256 } else { across };
        Self {
            column: (across >> 8) as u16,
            row: (down >> 8) as u16,
            right: across as u8,
            down: down as u8,
        }
    }
}

/// The table of one pose: where each pixel of the viewport comes from.
#[derive(Clone, Debug)]
pub struct ViewportMap {
    camera: Camera,
    frame: FrameSize,
    texels: Vec<Texel>,
}

impl ViewportMap {
    /// The table of `camera` at `orientation` over frames of size `frame`.
    pub fn new(camera: Camera, orientation: Orientation, frame: FrameSize) -> Self {
        let texels = vec![Texel::default(); camera.width as usize * camera.height as usize];
        let mut map = Self { camera, frame, texels };
        map.turn_to(orientation);
        map
    }

    /// Fills the table anew for another orientation, without allocating.
    pub fn turn_to(&mut self, orientation: Orientation) {
        self.camera.fill_rows(orientation, self.frame, 0..self.camera.height, &mut self.texels);
    }

    /// A table from parts filled by [`Camera::fill_rows`], in the order of their rows; `None` if
    /// it has not one texel for each pixel of the picture.
    pub fn from_texels(camera: Camera, frame: FrameSize, texels: Vec<Texel>) -> Option<Self> {
        let wanted = camera.width as usize * camera.height as usize;
        (texels.len() == wanted).then_some(Self { camera, frame, texels })
    }

    /// The camera it is for.
    pub const fn camera(&self) -> Camera {
        self.camera
    }

    /// Draws the rows `rows` of the viewport from `picture` into `out`, row by row.
    ///
    /// # Errors
    /// [`MetricError::Size`] if the picture has another size than the map's frames.
    ///
    /// # Panics
    /// If there are no such rows, or `out` has not one byte for each of their pixels.
    pub fn draw_rows(
        &self,
        rows: Range<u32>,
        picture: Plane<'_>,
        out: &mut [u8],
    ) -> Result<(), MetricError> {
        check_frame(self.frame, picture)?;
        let texels = self.texels_of(rows);
        assert_eq!(texels.len(), out.len(), "one byte for each pixel");
        for (pixel, texel) in out.iter_mut().zip(texels) {
            *pixel = texel.sample(picture);
        }
        Ok(())
    }

    /// The sum of squared differences between the viewports drawn from two pictures, over the rows
    /// `rows`; nothing is stored.
    ///
    /// # Errors
    /// [`MetricError::Size`] if a picture has another size than the map's frames.
    ///
    /// # Panics
    /// If there are no such rows.
    pub fn squared_error_rows(
        &self,
        rows: Range<u32>,
        original: Plane<'_>,
        decoded: Plane<'_>,
    ) -> Result<u64, MetricError> {
        check_frame(self.frame, original)?;
        check_frame(self.frame, decoded)?;
        let squares = self.texels_of(rows).iter().map(|texel| {
            let difference = u32::from(texel.sample(original).abs_diff(texel.sample(decoded)));
            u64::from(difference * difference)
        });
        Ok(squares.sum())
    }

    /// The mean squared error of the viewport; [`super::psnr_db`] of it is the viewport PSNR.
    ///
    /// # Errors
    /// As [`Self::squared_error_rows`].
    pub fn mse(&self, original: Plane<'_>, decoded: Plane<'_>) -> Result<f64, MetricError> {
        let sum = self.squared_error_rows(0..self.camera.height, original, decoded)?;
        Ok(sum as f64 / self.texels.len() as f64)
    }

    fn texels_of(&self, rows: Range<u32>) -> &[Texel] {
        let width = self.camera.width as usize;
        &self.texels[rows.start as usize * width..rows.end as usize * width]
    }
}

impl Texel {
    /// The weighted mean of the four pixels around it, rounded.
    #[inline]
    fn sample(self, picture: Plane<'_>) -> u8 {
        let above = picture.row(u32::from(self.row));
        let below = picture.row(u32::from(self.row).saturating_add(1).min(picture.height() - 1));
        let left = usize::from(self.column);
        let right = if left + 1 < above.len() { left + 1 } else { 0 };
        let (across, down) = (u32::from(self.right), u32::from(self.down));
        let mix =
            |row: &[u8]| u32::from(row[left]) * (256 - across) + u32::from(row[right]) * across;
        ((mix(above) * (256 - down) + mix(below) * down + (1 << 15)) >> 16) as u8
    }
}
