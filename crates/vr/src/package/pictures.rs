//! How ffmpeg is told to decode the pictures of a GoP from the source.

use std::ffi::OsString;

use super::plan::Description;
use crate::ffmpeg::as_file;
use crate::source::Source;

/// Where decoding begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// At the place that the container finds for the GoP's time: quick.
    Seek,
    /// At the source's first picture: for containers that find nothing, such as a transport stream with
    /// one key frame. Each GoP takes longer than the one before.
    Start,
}

impl From {
    /// How to begin for a GoP, and how again if that gave another number of pictures.
    pub(crate) fn for_gop(gop: u32) -> &'static [Self] {
        if gop == 0 { &[Self::Seek] } else { &[Self::Seek, Self::Start] }
    }
}

/// The arguments from the source to the filters, which end in `last`, and the number of pictures.
pub(crate) fn args(
    source: &Source,
    plan: &Description,
    gop: u32,
    from: From,
    last: &str,
) -> Vec<OsString> {
    let frames = u64::from(plan.gop_frames());
    let first = u64::from(gop) * frames;
    let mut args: Vec<OsString> = Vec::new();
    let seek_s = source.seek_s(first);
    if from == From::Seek && seek_s > 0.0 {
        args.extend(["-ss".into(), OsString::from(format!("{seek_s:.6}"))]);
    }
    args.extend(["-noautorotate".into(), "-i".into(), as_file(&source.path)]);
    let (width, height) = (plan.frame().width(), plan.frame().height());
    let mut filters = String::new();
    if from == From::Start {
        let end = first + frames;
        filters += &format!("trim=start_frame={first}:end_frame={end},setpts=PTS-STARTPTS,");
    }
    if (source.width, source.height) != (width, height) {
        filters += &format!("scale={width}:{height}:flags=lanczos,");
    }
    args.extend(["-map", "0:v:0", "-vf"].map(OsString::from));
    args.push((filters + last).into());
    args.extend(["-frames:v", &frames.to_string()].map(OsString::from));
    args
}
