//! The YUV4MPEG2 format: pictures in 4:2:0 one after the other, with a line before each.

use std::io::{self, Write};

use weftline_video::geometry::FrameSize;

use super::Picture;
use crate::rate::FrameRate;

/// Writes what comes before the first picture.
pub(super) fn write_head(out: &mut dyn Write, size: FrameSize, rate: FrameRate) -> io::Result<()> {
    let (width, height) = (size.width(), size.height());
    let (frames, seconds) = (rate.numerator(), rate.denominator());
    writeln!(
        out,
        "YUV4MPEG2 W{width} H{height} F{frames}:{seconds} Ip A1:1 C420jpeg XCOLORRANGE=LIMITED"
    )
}

/// Writes one picture.
pub(super) fn write_picture(out: &mut dyn Write, picture: &Picture) -> io::Result<()> {
    out.write_all(b"FRAME\n")?;
    picture.planes().iter().try_for_each(|plane| out.write_all(plane))
}
