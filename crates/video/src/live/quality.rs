//! What a viewport shows, from what its tiles lose: the fast path of [`crate::evaluate`].

use std::f64::consts::PI;

use crate::evaluate::PSNR_CEILING_DB;
use crate::geometry::{Grid, Orientation, Viewport};
use crate::metric::{mse_of_psnr_db, psnr_db};

/// The viewport's mean MSE over `poses`, and the mean of its PSNR in dB, when each tile loses its
/// part of `losses` of the frame's WS-MSE. A tile's error per pixel is its loss by its share of the
/// sphere.
pub(super) fn viewport_error(
    viewport: &Viewport,
    grid: Grid,
    poses: &[Orientation],
    losses: &[f64],
) -> (f64, f64) {
    let tiles = losses.iter().enumerate();
    let per_pixel: Vec<f64> =
        tiles.map(|(tile, loss)| loss * 4.0 * PI / grid.solid_angle(tile)).collect();
    let (mut mse, mut psnr) = (0.0, 0.0);
    for pose in poses {
        let shown = viewport.visibility(grid, *pose);
        let error: f64 = shown.share.iter().zip(&per_pixel).map(|(s, e)| s * e).sum();
        mse += error;
        psnr += capped_psnr_db(error);
    }
    let count = poses.len().max(1) as f64;
    (mse / count, psnr / count)
}

/// The PSNR in dB, at most [`PSNR_CEILING_DB`].
pub(super) fn capped_psnr_db(mse: f64) -> f64 {
    psnr_db(mse.max(mse_of_psnr_db(PSNR_CEILING_DB)))
}
