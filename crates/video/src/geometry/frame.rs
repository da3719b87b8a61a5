//! The size of an equirectangular frame and rectangles of its pixels.

use std::fmt;

use super::GeometryError;

/// The size of an equirectangular frame in pixels: even, and twice as wide as high.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrameSize {
    width: u32,
    height: u32,
}

impl FrameSize {
    /// The widest frame, 32K: above what any encoder takes.
    pub const MAX_WIDTH: u32 = 32_768;

    /// A frame of `width` × `height` pixels.
    ///
    /// # Errors
    /// [`GeometryError::Size`] if a side is odd, zero or too long, [`GeometryError::Aspect`] if
    /// the width is not twice the height.
    pub const fn new(width: u32, height: u32) -> Result<Self, GeometryError> {
        let odd = !width.is_multiple_of(2) || !height.is_multiple_of(2);
        if odd || width < 2 || height < 2 || width > Self::MAX_WIDTH || height > Self::MAX_WIDTH {
            return Err(GeometryError::Size { width, height });
        }
        if width != height * 2 {
            return Err(GeometryError::Aspect { width, height });
        }
        Ok(Self { width, height })
    }

    /// Pixels from left to right: 360°.
    pub const fn width(self) -> u32 {
        self.width
    }

    /// Pixels from top to bottom: 180°.
    pub const fn height(self) -> u32 {
        self.height
    }

    /// The rectangle of all its pixels.
    pub const fn rect(self) -> Rect {
        Rect { left: 0, top: 0, width: self.width, height: self.height }
    }
}

impl fmt::Display for FrameSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// A rectangle of pixels within a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// The first column.
    pub left: u32,
    /// The first row.
    pub top: u32,
    /// Columns.
    pub width: u32,
    /// Rows.
    pub height: u32,
}
