//! How far a decoded picture is from the original, on the sphere and in the viewport.
//!
//! - [`SphereWeights`] for WS-MSE and WS-PSNR, whose sums over tiles add up to the frame's: the fast
//!   path of the evaluation.
//! - [`SpherePoints`] for S-PSNR-NN.
//! - [`Camera`] and [`ViewportMap`] for rectilinear viewports drawn by look-up table: the rendered reference.
//!
//! All of them work on planes of luma with 8 bits. Distortions are means of squared differences;
//! [`psnr_db`] turns one into decibels. Work on rows may be shared among threads by the caller:
//! the functions that take a range of rows have no state.

mod plane;
mod points;
mod render;
mod weights;

#[cfg(test)]
mod tests;

pub use plane::Plane;
pub use points::SpherePoints;
pub use render::{Camera, Texel, ViewportMap};
pub use weights::SphereWeights;

/// Why two pictures cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricError {
    /// The bytes do not hold the picture.
    #[error(
        "a plane of {width}x{height} with {stride} bytes a row wants {wanted} bytes, not \
             {bytes}; was the picture cut short?"
    )]
    Bytes {
        /// Pixels in a row.
        width: u32,
        /// Rows.
        height: u32,
        /// Bytes from one row to the next.
        stride: usize,
        /// Bytes that there must be.
        wanted: usize,
        /// Bytes that there are.
        bytes: usize,
    },
    /// A rectangle reaches outside its plane.
    #[error("a rectangle of {0}x{1} at {2},{3} is outside its plane of {4}x{5}")]
    Outside(u32, u32, u32, u32, u32, u32),
    /// A viewport's picture without pixels, or too large.
    #[error("a viewport of {width}x{height} pixels cannot be drawn; each side must be from 1 to \
             {max}", max = Camera::MAX_SIDE)]
    Picture {
        /// Pixels from left to right.
        width: u32,
        /// Pixels from top to bottom.
        height: u32,
    },
    /// Rows that overlap.
    #[error(
        "rows of {width} samples cannot begin {stride} bytes apart; was the picture's size \
             mistaken?"
    )]
    Stride {
        /// Samples in a row.
        width: u32,
        /// Bytes from one row to the next.
        stride: usize,
    },
    /// Two pictures are not of one size.
    #[error("a picture of {got_width}x{got_height} stands where one of {width}x{height} should")]
    Size {
        /// The width wanted.
        width: u32,
        /// The height wanted.
        height: u32,
        /// The width there is.
        got_width: u32,
        /// The height there is.
        got_height: u32,
    },
}

/// The peak signal-to-noise ratio in dB of 8-bit samples whose mean squared error is `mse`:
/// 10·log₁₀(255² / mse); infinite when nothing differs.
pub fn psnr_db(mse: f64) -> f64 {
    10.0 * (255.0 * 255.0 / mse).log10()
}

/// The mean squared error that gives `psnr_db` decibels: the inverse of [`psnr_db`].
pub fn mse_of_psnr_db(psnr_db: f64) -> f64 {
    255.0 * 255.0 / 10_f64.powf(psnr_db / 10.0)
}

/// The sum of squared differences of two rows of the same length.
#[inline]
fn squared_differences(a: &[u8], b: &[u8]) -> u64 {
    // 65,536 samples of at most 255² stay below 2³², so that the inner sum may have 32 bits.
    const CHUNK: usize = 32_768;
    let chunks = a.chunks(CHUNK).zip(b.chunks(CHUNK));
    let sum = |(a, b): (&[u8], &[u8])| {
        let differences = a.iter().zip(b).map(|(&a, &b)| u32::from(a.abs_diff(b)));
        u64::from(differences.map(|difference| difference * difference).sum::<u32>())
    };
    chunks.map(sum).sum()
}
