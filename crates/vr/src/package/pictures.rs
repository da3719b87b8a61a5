//! How ffmpeg is told to decode the pictures of a GoP from the source.

use std::ffi::OsString;

use super::plan::Description;
use crate::error::VrError;
use crate::ffmpeg::as_file;
use crate::source::Source;

/// Where decoding begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// At the place that the container finds for the GoP's time: quick.
    Seek,
    /// At the source's first picture: for containers that have no index of their key frames. Each GoP
    /// takes longer than the one before.
    Start,
}

impl From {
    /// How to begin for a GoP, and how again if that gave too few pictures.
    pub(crate) fn for_gop(source: &Source, gop: u32) -> &'static [Self] {
        if gop == 0 || !source.has_index() { &[Self::Start] } else { &[Self::Seek, Self::Start] }
    }
}

/// Why a GoP cannot be packaged of which some pictures do not decode, and the remedy.
pub(crate) fn too_few(source: &Source, plan: &Description, gop: u32, got: u64) -> VrError {
    let frames = plan.gop_frames();
    VrError::source(
        &source.path,
        format!(
            "GoP {gop} decodes to {got} pictures instead of {frames}: it is damaged, or begins with \
             pictures that need others before them; take what decodes: ffmpeg -i SOURCE -c:v libx264 \
             -crf 12 NEW.mp4"
        ),
    )
}

/// The arguments from the source to the filters, which end in `last`, and the number of pictures. The
/// GoP's pictures are selected by their times: a decoder that drops pictures until one that it can begin
/// with gives too few, and not later ones in their place.
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
    // The source's own times: what ffmpeg counts from otherwise differs between its versions.
    args.extend(["-copyts", "-noautorotate", "-i"].map(OsString::from));
    args.push(as_file(&source.path));
    let (width, height) = (plan.frame().width(), plan.frame().height());
    let [start, end] = [first, first + frames].map(|frame| source.before_s(frame));
    let mut filters = format!("trim=start={start:.6}:end={end:.6},setpts=PTS-STARTPTS,");
    if (source.width, source.height) != (width, height) {
        filters += &format!("scale={width}:{height}:flags=lanczos,");
    }
    args.extend(["-map", "0:v:0", "-vf"].map(OsString::from));
    args.push((filters + last).into());
    args.extend(["-frames:v", &frames.to_string()].map(OsString::from));
    args
}
