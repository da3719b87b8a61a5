//! The pictures of a source, as they are before they are encoded.

use std::ffi::OsString;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::pictures::{self, From};
use super::plan::Description;
use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Stdin};
use crate::source::Source;

/// The luma of a GoP's pictures, one after the other.
pub(crate) fn luma(
    ffmpeg: &Ffmpeg,
    plan: &Description,
    source: &Source,
    gop: u32,
) -> Result<Vec<u8>, VrError> {
    let (width, height, frames) =
        (plan.frame().width(), plan.frame().height(), plan.gop_frames() as usize);
    let mut luma = vec![0; width as usize * height as usize * frames];
    for from in From::for_gop(gop) {
        if decode(ffmpeg, plan, source, (gop, *from), &mut luma)? {
            return Ok(luma);
        }
    }
    Err(VrError::source(
        &source.path,
        format!("GoP {gop} decodes to fewer pictures than {frames}; is it damaged?"),
    ))
}

/// Fills `luma`; `false` if there are too few pictures for it.
fn decode(
    ffmpeg: &Ffmpeg,
    plan: &Description,
    source: &Source,
    (gop, from): (u32, From),
    luma: &mut [u8],
) -> Result<bool, VrError> {
    // As for the encoder, so that the luma is the same to the bit.
    let mut args = pictures::args(source, plan, gop, from, "format=yuv420p,extractplanes=y");
    args.extend(["-f", "rawvideo"].map(OsString::from));
    args.extend(ffmpeg.passthrough().map(OsString::from));
    args.push("pipe:1".into());
    let doing = format!("to decode the pictures of GoP {gop}");
    let mut running = ffmpeg.start(&args, Path::new("."), Stdin::Null, true)?;
    let mut stdout = running.stdout().ok_or(VrError::NoProgram("ffmpeg"))?;
    let whole = match stdout.read_exact(luma) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => false,
        read => {
            read.map_err(VrError::io("read from", Path::new("ffmpeg")))?;
            true
        }
    };
    // What ffmpeg says of it is better than what we can.
    running.finish(&source.path, &doing)?;
    Ok(whole)
}
