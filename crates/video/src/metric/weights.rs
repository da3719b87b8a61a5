//! WS-MSE and WS-PSNR: squared differences, weighted by the area of each pixel on the sphere
//! (Sun, Lu and Yu, "Weighted-to-spherically-uniform quality evaluation for omnidirectional
//! video", IEEE Signal Processing Letters, 2017).

use std::f64::consts::PI;

use super::{MetricError, Plane, psnr_db, squared_differences};
use crate::geometry::{FrameSize, Rect};

/// The weight of each row of a frame: row j has cos((j + ½ − H/2)·π/H).
///
/// The sum of squared differences of a row is an exact integer, and only then weighted; so the
/// sums of tiles that cover a frame add up to the frame's, up to the rounding of the additions.
#[derive(Clone, Debug)]
pub struct SphereWeights {
    frame: FrameSize,
    rows: Vec<f64>,
    total: f64,
}

impl SphereWeights {
    /// The weights of a frame of this size.
    pub fn new(frame: FrameSize) -> Self {
        let height = f64::from(frame.height());
        let weight = |row: u32| ((f64::from(row) + 0.5 - height / 2.0) * PI / height).cos();
        let rows: Vec<f64> = (0..frame.height()).map(weight).collect();
        let total = rows.iter().sum::<f64>() * f64::from(frame.width());
        Self { frame, rows, total }
    }

    /// The size of the frame.
    pub const fn frame(&self) -> FrameSize {
        self.frame
    }

    /// The weight of the pixels of row `row`.
    ///
    /// # Panics
    /// If there is no such row.
    pub fn row(&self, row: u32) -> f64 {
        self.rows[row as usize]
    }

    /// The weight of all pixels of the frame together.
    pub const fn total(&self) -> f64 {
        self.total
    }

    /// The share of the frame's weight that is in `rect`: its share of the sphere's area, but for
    /// the size of a pixel.
    pub fn share(&self, rect: Rect) -> f64 {
        let rows = self.rows.iter().skip(rect.top as usize).take(rect.height as usize);
        rows.sum::<f64>() * f64::from(rect.width) / self.total
    }

    /// Σ w·(x − y)² over the pixels of a picture, a tile or the frame, whose first row is row
    /// `top` of the frame. Over the frames of a GoP these are added up, and divided by
    /// [`Self::total`] times the number of frames: the tile's part of the frame's WS-MSE.
    ///
    /// # Errors
    /// [`MetricError::Size`] if the pictures differ in size, [`MetricError::Outside`] if they
    /// reach out of the frame.
    pub fn error_sum(
        &self,
        top: u32,
        original: Plane<'_>,
        decoded: Plane<'_>,
    ) -> Result<f64, MetricError> {
        original.check_size(decoded)?;
        let (width, height) = (original.width(), original.height());
        let (frame_width, frame_height) = (self.frame.width(), self.frame.height());
        if width > frame_width || top.checked_add(height).is_none_or(|end| end > frame_height) {
            return Err(MetricError::Outside(width, height, 0, top, frame_width, frame_height));
        }
        let weights = &self.rows[top as usize..];
        let sums = (0..height).zip(weights).map(|(row, weight)| {
            // Exact: a row has at most 32,768 · 255² < 2⁵³.
            weight * squared_differences(original.row(row), decoded.row(row)) as f64
        });
        Ok(sums.sum())
    }

    /// The WS-MSE of a whole frame.
    ///
    /// # Errors
    /// [`MetricError::Size`] if a picture has another size than the frame.
    pub fn mse(&self, original: Plane<'_>, decoded: Plane<'_>) -> Result<f64, MetricError> {
        check_frame(self.frame, original)?;
        Ok(self.error_sum(0, original, decoded)? / self.total)
    }

    /// The WS-PSNR of a whole frame in dB.
    ///
    /// # Errors
    /// As [`Self::mse`].
    pub fn psnr_db(&self, original: Plane<'_>, decoded: Plane<'_>) -> Result<f64, MetricError> {
        Ok(psnr_db(self.mse(original, decoded)?))
    }
}

/// Whether `plane` has the size of `frame`.
pub(super) fn check_frame(frame: FrameSize, plane: Plane<'_>) -> Result<(), MetricError> {
    let (width, height) = (frame.width(), frame.height());
    let (got_width, got_height) = (plane.width(), plane.height());
    if (width, height) == (got_width, got_height) {
        return Ok(());
    }
    Err(MetricError::Size { width, height, got_width, got_height })
}
