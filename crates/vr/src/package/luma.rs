//! The pictures of a source, as they are before they are encoded.

use std::ffi::OsString;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use super::plan::Description;
use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Stdin, as_file};
use crate::source::Source;

/// The luma of a GoP's pictures, one after the other.
pub(crate) fn luma(
    ffmpeg: &Ffmpeg,
    plan: &Description,
    source: &Source,
    gop: u32,
) -> Result<Vec<u8>, VrError> {
    let seek_s = source.seek_s(u64::from(gop) * u64::from(plan.gop_frames()));
    let mut args: Vec<OsString> = Vec::new();
    if seek_s > 0.0 {
        args.extend(["-ss".into(), OsString::from(format!("{seek_s:.6}"))]);
    }
    args.extend(["-noautorotate".into(), "-i".into(), as_file(&source.path)]);
    let (width, height) = (plan.frame().width(), plan.frame().height());
    // As for the encoder, so that the luma is the same to the bit.
    let scale = match (source.width, source.height) == (width, height) {
        true => String::new(),
        false => format!("scale={width}:{height}:flags=lanczos,"),
    };
    let frames = plan.gop_frames();
    args.extend(["-map", "0:v:0", "-vf"].map(OsString::from));
    args.push(format!("{scale}format=yuv420p,extractplanes=y").into());
    args.extend(["-frames:v", &frames.to_string(), "-f", "rawvideo"].map(OsString::from));
    args.extend(ffmpeg.passthrough().map(OsString::from));
    args.push("pipe:1".into());
    let doing = format!("to decode the pictures of GoP {gop}");
    let mut running = ffmpeg.start(&args, Path::new("."), Stdin::Null, true)?;
    let mut stdout = running.stdout().ok_or(VrError::NoProgram("ffmpeg"))?;
    let mut luma = vec![0; width as usize * height as usize * frames as usize];
    let read = stdout.read_exact(&mut luma);
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            // What ffmpeg says of it is better than what we can.
            running.finish(&source.path, &doing)?;
            return Err(VrError::source(
                &source.path,
                format!("GoP {gop} decodes to fewer pictures than {frames}; is it damaged?"),
            ));
        }
        read => read.map_err(VrError::io("read from", Path::new("ffmpeg")))?,
    }
    running.finish(&source.path, &doing)?;
    Ok(luma)
}
