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

    /// As [`Self::error_sum`], of what viewports show that mix each of their pixels from four of
    /// the frame: the mean square of the difference between four neighbours, all places between
    /// them being as likely. With the mean products of a pixel's difference and those beside it h,
    /// below it v and across it d (both diagonals), that is (4·s + 2·h + 2·v + d) / 9, where s is
    /// the mean square: all of s where neighbours err alike, 4/9 of it where they err
    /// independently.
    ///
    /// It is taken on two rows of every eight; of a picture of a single row or column it is the
    /// plain sum.
    ///
    /// # Errors
    /// As [`Self::error_sum`].
    pub fn mixed_error_sum(
        &self,
        top: u32,
        original: Plane<'_>,
        decoded: Plane<'_>,
    ) -> Result<f64, MetricError> {
        self.check_fits(top, original, decoded)?;
        let (width, height) = (original.width() as usize, original.height());
        if width < 2 || height < 2 {
            return self.error_sum(top, original, decoded);
        }
        let weights = &self.rows[top as usize..][..height as usize];
        let differences = |row: u32, into: &mut Vec<i16>| {
            let pairs = original.row(row).iter().zip(decoded.row(row));
            into.clear();
            into.extend(pairs.map(|(&a, &b)| i16::from(a) - i16::from(b)));
        };
        let [mut upper, mut lower] = [Vec::with_capacity(width), Vec::with_capacity(width)];
        let (mut sum, mut taken) = (0.0, 0.0);
        for row in (0..height - 1).step_by(MIXED_STEP) {
            differences(row, &mut upper);
            differences(row + 1, &mut lower);
            let (below, beside) = (width as f64, (width - 1) as f64);
            let square = (products(&upper, &upper) + products(&lower, &lower)) / (2.0 * below);
            let across = products(&upper, &upper[1..]) + products(&lower, &lower[1..]);
            let down = products(&upper, &lower) / below;
            let diagonal = products(&upper, &lower[1..]) + products(&lower, &upper[1..]);
            let mean = 4.0 * square + 2.0 * down + (2.0 * across + diagonal) / (2.0 * beside);
            let weight = weights[row as usize] + weights[row as usize + 1];
            // Rounding must not make it less than nothing.
            sum += weight * (mean / 9.0).max(0.0);
            taken += weight;
        }
        Ok(sum / taken * weights.iter().sum::<f64>() * width as f64)
    }

    /// What is added to [`Self::mixed_error_sum`] where viewports have whole values, as they are shown:
    /// where two pixels before they are rounded are d apart, and all fractions of them as likely, they are
    /// ⌊d⌋ or ⌈d⌉ apart then, d in the mean, and the mean square is f·(1 − f) more, f being the fraction of d.
    /// That is about 1/6 where differences are of all sizes, and nothing where they are whole. Nine places
    /// between four neighbours stand for all, on the same rows.
    ///
    /// # Errors
    /// As [`Self::error_sum`].
    pub fn rounding_error_sum(
        &self,
        top: u32,
        original: Plane<'_>,
        decoded: Plane<'_>,
    ) -> Result<f64, MetricError> {
        self.check_fits(top, original, decoded)?;
        let (width, height) = (original.width() as usize, original.height());
        if width < 2 || height < 2 {
            return Ok(0.0);
        }
        let weights = &self.rows[top as usize..][..height as usize];
        let differences = |row: u32| -> Vec<i32> {
            let pairs = original.row(row).iter().zip(decoded.row(row));
            pairs.map(|(&one, &other)| i32::from(one) - i32::from(other)).collect()
        };
        let (mut sum, mut taken) = (0.0, 0.0);
        for row in (0..height - 1).step_by(MIXED_STEP) {
            let (upper, lower) = (differences(row), differences(row + 1));
            let mut of_row = 0_i64;
            for (upper, lower) in upper.windows(2).zip(lower.windows(2)) {
                let [a, b, c, d] = [upper[0], upper[1], lower[0], lower[1]];
                // In the middle of each third of the way, in sixths and their squares.
                for place in 0..9 {
                    let (across, down) = (2 * (place % 3) + 1, 2 * (place / 3) + 1);
                    let top = a * (6 - across) + b * across;
                    let bottom = c * (6 - across) + d * across;
                    let fraction = (top * (6 - down) + bottom * down).rem_euclid(36);
                    of_row += i64::from(fraction * (36 - fraction));
                }
            }
            let weight = weights[row as usize] + weights[row as usize + 1];
            sum += weight * of_row as f64 / (9.0 * 36.0 * 36.0 * (width - 1) as f64);
            taken += weight;
        }
        Ok(sum / taken * weights.iter().sum::<f64>() * width as f64)
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
        self.check_fits(top, original, decoded)?;
        let weights = &self.rows[top as usize..];
        let sums = (0..original.height()).zip(weights).map(|(row, weight)| {
            // Exact: a row has at most 32,768 · 255² < 2⁵³.
            weight * squared_differences(original.row(row), decoded.row(row)) as f64
        });
        Ok(sums.sum())
    }

    /// Whether two pictures are of one size and inside the frame.
    fn check_fits(
        &self,
        top: u32,
        original: Plane<'_>,
        decoded: Plane<'_>,
    ) -> Result<(), MetricError> {
        original.check_size(decoded)?;
        let (width, height) = (original.width(), original.height());
        let (frame_width, frame_height) = (self.frame.width(), self.frame.height());
        if width > frame_width || top.checked_add(height).is_none_or(|end| end > frame_height) {
            return Err(MetricError::Outside(width, height, 0, top, frame_width, frame_height));
        }
        Ok(())
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

/// Of so many rows two are looked at for what mixing leaves of errors.
const MIXED_STEP: usize = 8;

/// The sum of the products of the values that have a partner.
fn products(a: &[i16], b: &[i16]) -> f64 {
    // So many products of at most 255² stay below 2³¹.
    const CHUNK: usize = 16_384;
    let len = a.len().min(b.len());
    let chunks = a[..len].chunks(CHUNK).zip(b[..len].chunks(CHUNK));
    let sum = |(a, b): (&[i16], &[i16])| {
        let each = a.iter().zip(b).map(|(&a, &b)| i32::from(a) * i32::from(b));
        i64::from(each.sum::<i32>())
    };
    chunks.map(sum).sum::<i64>() as f64
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
