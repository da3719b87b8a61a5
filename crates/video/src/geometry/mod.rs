//! The sphere of a 360° video: directions, head orientations, the equirectangular frame with its
//! tiles, and which tiles a viewport shows.
//!
//! **Axes.** Right-handed, seen from the viewer's place: x to the front (the middle of the frame),
//! y to the left, z up. *Yaw* is positive to the right, so that it grows with the column of a
//! pixel; *pitch* is positive upwards; *roll* is positive when the head leans to the right.
//!
//! **Frame.** An equirectangular frame of W × H pixels, W = 2H, has yaw −180° at its left edge and
//! pitch +90° at its top: pixel (i, j) has its centre at yaw (i + ½ − W/2)·2π/W and pitch
//! (H/2 − j − ½)·π/H. The left and the right edge are the same meridian.

mod arctan;
mod direction;
mod frame;
mod grid;
mod orientation;
mod viewport;

#[cfg(test)]
mod tests;

pub(crate) use arctan::atan2;
pub use direction::Direction;
pub use frame::{FrameSize, Rect};
pub use grid::Grid;
pub use orientation::Orientation;
pub(crate) use viewport::place_in_frame;
pub use viewport::{FieldOfView, Viewport, Visibility};

/// Why a frame, a grid or a field of view cannot be used; the text says the remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GeometryError {
    /// An equirectangular frame is twice as wide as high.
    #[error("a frame of {width}x{height} is not equirectangular: it must be twice as wide as high; \
             crop its borders or scale it to {}x{}", height * 2, height)]
    Aspect {
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
    },
    /// The frame does not fall into equal tiles of even sizes.
    #[error("a frame of {width}x{height} does not fall into {columns}x{rows} equal tiles of even \
             sizes; scale it to {fit_width}x{}, or take another grid", fit_width / 2)]
    Divide {
        /// The frame's width in pixels.
        width: u32,
        /// The frame's height in pixels.
        height: u32,
        /// Columns of the grid.
        columns: u32,
        /// Rows of the grid.
        rows: u32,
        /// The width of the nearest frame that does.
        fit_width: u32,
    },
    /// The field of view is not between 1° and 170°.
    #[error(
        "a field of view of {horizontal_deg}°x{vertical_deg}° cannot be drawn on a plane; \
             each must be from 1 to 170 degrees"
    )]
    FieldOfView {
        /// The horizontal angle in degrees.
        horizontal_deg: f64,
        /// The vertical angle in degrees.
        vertical_deg: f64,
    },
    /// The text or the numbers do not name a grid.
    #[error("'{0}' is no grid of tiles; write columns x rows, each from 1 to {max}, like 6x4",
            max = Grid::MAX_SIDE)]
    Grid(String),
    /// The frame's sides are odd, zero or too long.
    #[error("a frame of {width}x{height} cannot be used: both sides must be even and from 2 to \
             {max} pixels; scale it", max = FrameSize::MAX_WIDTH)]
    Size {
        /// The width in pixels.
        width: u32,
        /// The height in pixels.
        height: u32,
    },
}
