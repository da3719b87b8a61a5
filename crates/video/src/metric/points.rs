//! S-PSNR-NN: the error at points spread evenly over the sphere, each taken from the pixel nearest
//! to it (Yu, Lakshman and Girod, "A framework to evaluate omnidirectional video coding schemes",
//! ISMAR 2015; NN: nearest neighbour, JVET-D0040).

use super::weights::check_frame;
use super::{MetricError, Plane, psnr_db};
use crate::geometry::{Direction, FrameSize};

/// The pixels of a frame nearest to points spread evenly over the sphere.
#[derive(Clone, Debug)]
pub struct SpherePoints {
    frame: FrameSize,
    /// Column and row of each.
    pixels: Vec<(u16, u16)>,
}

impl SpherePoints {
    /// How many points the metric is defined with. The published list is a subdivided
    /// icosahedron; here they are a Fibonacci lattice, whose points stand for more equal areas.
    pub const COUNT: u32 = 655_362;

    /// [`Self::COUNT`] points on a frame of this size.
    pub fn new(frame: FrameSize) -> Self {
        Self::with_count(frame, Self::COUNT)
    }

    /// `count` points, at least one.
    pub fn with_count(frame: FrameSize, count: u32) -> Self {
        let pixel = |direction: Direction| {
            let (across, down) = direction.frame_position();
            // A frame is at most 32,768 wide, so both fit.
            let nearest =
                |share: f64, side: u32| ((share * f64::from(side)) as u32).min(side - 1) as u16;
            (nearest(across, frame.width()), nearest(down, frame.height()))
        };
        Self { frame, pixels: Direction::lattice(count.max(1)).map(pixel).collect() }
    }

    /// The mean squared error over the points.
    ///
    /// # Errors
    /// [`MetricError::Size`] if a picture has another size than the frame.
    pub fn mse(&self, original: Plane<'_>, decoded: Plane<'_>) -> Result<f64, MetricError> {
        check_frame(self.frame, original)?;
        check_frame(self.frame, decoded)?;
        let sum: u64 = self.pixels.iter().fold(0, |sum, &(column, row)| {
            let sample = |plane: Plane<'_>| plane.row(u32::from(row))[usize::from(column)];
            let difference = u64::from(sample(original).abs_diff(sample(decoded)));
            sum + difference * difference
        });
        Ok(sum as f64 / self.pixels.len() as f64)
    }

    /// The S-PSNR-NN in dB.
    ///
    /// # Errors
    /// As [`Self::mse`].
    pub fn psnr_db(&self, original: Plane<'_>, decoded: Plane<'_>) -> Result<f64, MetricError> {
        Ok(psnr_db(self.mse(original, decoded)?))
    }
}
