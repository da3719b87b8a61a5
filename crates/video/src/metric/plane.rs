//! A picture's plane of 8-bit samples, borrowed.

use super::MetricError;
use crate::geometry::Rect;

/// A plane of 8-bit samples: rows of `width`, `stride` bytes apart.
#[derive(Clone, Copy, Debug)]
pub struct Plane<'a> {
    data: &'a [u8],
    width: u32,
    height: u32,
    stride: usize,
}

impl<'a> Plane<'a> {
    /// The plane of `width` × `height` samples in `data`, whose rows begin `stride` bytes apart.
    ///
    /// # Errors
    /// [`MetricError::Stride`] if rows overlap, [`MetricError::Bytes`] if `data` ends before the
    /// last row does or the plane has no samples.
    pub fn new(
        data: &'a [u8],
        width: u32,
        height: u32,
        stride: usize,
    ) -> Result<Self, MetricError> {
        if stride < width as usize {
            return Err(MetricError::Stride { width, stride });
        }
        let rows_before = (height as usize).saturating_sub(1);
        let wanted = rows_before.saturating_mul(stride).saturating_add(width as usize);
        if width == 0 || height == 0 || data.len() < wanted {
            let bytes = data.len();
            return Err(MetricError::Bytes { width, height, stride, wanted, bytes });
        }
        Ok(Self { data, width, height, stride })
    }

    /// Samples in a row.
    pub const fn width(self) -> u32 {
        self.width
    }

    /// Rows.
    pub const fn height(self) -> u32 {
        self.height
    }

    /// Row `row`, from the top.
    ///
    /// # Panics
    /// If there is no such row.
    #[inline]
    pub fn row(self, row: u32) -> &'a [u8] {
        &self.data[row as usize * self.stride..][..self.width as usize]
    }

    /// The part of the plane within `rect`.
    ///
    /// # Errors
    /// [`MetricError::Outside`] if it reaches out of the plane.
    pub fn crop(self, rect: Rect) -> Result<Self, MetricError> {
        let Rect { left, top, width, height } = rect;
        let within = |start: u32, length: u32, all: u32| {
            start.checked_add(length).is_some_and(|end| length > 0 && end <= all)
        };
        if !within(left, width, self.width) || !within(top, height, self.height) {
            return Err(MetricError::Outside(width, height, left, top, self.width, self.height));
        }
        let data = &self.data[top as usize * self.stride + left as usize..];
        Self::new(data, width, height, self.stride)
    }

    /// Whether `other` has the same size.
    pub(super) fn check_size(self, other: Self) -> Result<(), MetricError> {
        if (self.width, self.height) == (other.width, other.height) {
            return Ok(());
        }
        Err(MetricError::Size {
            width: self.width,
            height: self.height,
            got_width: other.width,
            got_height: other.height,
        })
    }
}
