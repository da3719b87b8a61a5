//! The pictures of a source, as they are before they are encoded.

use std::ffi::OsString;
use std::io;
use std::path::Path;

use super::pictures::{self, Decoded, From};
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
    let mut decoded = Decoded::default();
    for from in From::for_gop(source, gop) {
        decoded = decode(ffmpeg, plan, source, (gop, *from), &mut luma)?;
        if decoded.is_whole(plan) {
            return Ok(luma);
        }
    }
    Err(decoded.refusal(source, plan, gop))
}

/// Fills `luma` as far as there are pictures.
fn decode(
    ffmpeg: &Ffmpeg,
    plan: &Description,
    source: &Source,
    (gop, from): (u32, From),
    luma: &mut [u8],
) -> Result<Decoded, VrError> {
    // As for the encoder, so that the luma is the same to the bit.
    let mut args = pictures::args(source, plan, gop, from, "format=yuv420p,extractplanes=y");
    args.extend(["-f", "rawvideo"].map(OsString::from));
    args.extend(ffmpeg.passthrough().map(OsString::from));
    args.push("pipe:1".into());
    let doing = format!("to decode the pictures of GoP {gop}");
    let mut running = ffmpeg.start(&args, Path::new("."), Stdin::Null, true)?;
    let mut stdout = running.stdout().ok_or(VrError::NoProgram("ffmpeg"))?;
    // It is told how many pictures to write, and writes no more.
    let read = io::copy(&mut stdout, &mut &mut *luma);
    let read = read.map_err(VrError::io("read from", Path::new("ffmpeg")))?;
    // What ffmpeg says of it is better than what we can.
    let said = running.finish_heard(&source.path, &doing)?;
    let pixels = u64::from(plan.frame().width()) * u64::from(plan.frame().height());
    Ok(Decoded::new(read / pixels, &said, source))
}
