//! How ffmpeg is told to decode the pictures of a GoP from the source.

use std::ffi::OsString;

use super::plan::Description;
use crate::colour::Colour;
use crate::error::VrError;
use crate::ffmpeg::as_file;
use crate::source::Source;

/// Where decoding begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum From {
    /// At the place that the container finds for the GoP's time: quick.
    Seek,
    /// At the source's first picture: for containers that have no index of their key frames. Each
    /// GoP takes longer than the one before.
    Start,
}

impl From {
    /// How to begin for a GoP, and how again if that did not give all its pictures as they are.
    pub(crate) fn for_gop(source: &Source, gop: u32) -> &'static [Self] {
        if gop == 0 || !source.has_index() { &[Self::Start] } else { &[Self::Seek, Self::Start] }
    }
}

/// What H.264's decoder says where it begins at a key frame of which later pictures name earlier
/// ones that they may not use.
const AFTER_SEEKING: &str = "mmco: unref short failure";
/// What says nothing of pictures: that a line was said again, what cameras put beside pictures, and what is
/// not of ffmpeg.
const HARMLESS: [&str; 6] = [
    "Last message repeated",
    "SEI type",
    "Overread VUI",
    "unable to decode APP",
    "LD_PRELOAD",
    "no version information available",
];

/// What came of decoding a GoP.
#[derive(Default)]
pub(crate) struct Decoded {
    /// How many pictures.
    pub(crate) pictures: u64,
    /// The first thing that ffmpeg said was wrong with them: it shows something in place of what is
    /// damaged, and goes on.
    pub(crate) wrong: Option<String>,
}

impl Decoded {
    /// By what ffmpeg said.
    pub(crate) fn new(pictures: u64, said: &str, source: &Source) -> Self {
        let counts = |line: &&str| {
            let is_of_container = line.starts_with(&format!("[{} @", source.container()));
            // It is looked at only to know what there is.
            let is_of_sound = source.sound.iter().any(|track| {
                line.strip_prefix('[').is_some_and(|line| line.starts_with(&track.codec))
            });
            // A film that was cut out of another begins as after a seek.
            let is_usual = line.contains(AFTER_SEEKING);
            let is_usual = is_usual || HARMLESS.iter().any(|words| line.contains(words));
            !line.is_empty() && !is_of_container && !is_of_sound && !is_usual
        };
        let wrong = said.lines().map(str::trim).find(counts);
        // Where in memory its decoder is says nothing.
        let plain = |line: &str| match (line.split_once(" @ 0x"), line.split_once("] ")) {
            (Some((name, _)), Some((_, words))) if line.starts_with('[') => {
                format!("{}: {words}", name.trim_start_matches('['))
            }
            _ => line.to_owned(),
        };
        Self { pictures, wrong: wrong.map(plain) }
    }

    /// Whether it is all of the GoP, as it was.
    pub(crate) fn is_whole(&self, plan: &Description) -> bool {
        self.pictures == u64::from(plan.gop_frames()) && self.wrong.is_none()
    }

    /// Why the GoP cannot be packaged, and the remedy.
    pub(crate) fn refusal(&self, source: &Source, plan: &Description, gop: u32) -> VrError {
        let (got, frames) = (self.pictures, plan.gop_frames());
        let what = match &self.wrong {
            _ if got < u64::from(frames) => format!(
                "GoP {gop} decodes to {got} pictures instead of {frames}: it is damaged, or begins with \
                 pictures that need others before them"
            ),
            wrong => {
                let wrong = wrong.as_deref().unwrap_or_default();
                format!("is damaged in GoP {gop} or just after it ({wrong})")
            }
        };
        VrError::source(
            &source.path,
            format!(
                "{what}; get it whole, or take what decodes: ffmpeg -i SOURCE -c:v libx264 -crf 12 NEW.mp4"
            ),
        )
    }
}

/// The filter that gives pictures the package's size, and what its tiles say of their colours. Left
/// to itself, ffmpeg turns RGB into YUV by BT.601, and the full range into the other one.
pub(crate) fn scale(source: &Source, plan: &Description, flags: &str) -> String {
    let (width, height) = (plan.width, plan.height);
    let colours = Colour::scale_options(plan.colour, &source.pixels);
    format!("scale={width}:{height}:flags={flags}{colours}")
}

/// The arguments from the source to the filters, which end in `last`, and the number of pictures.
/// The GoP's pictures are selected by their times: a decoder that drops pictures until one that it
/// can begin with gives too few, and not later ones in their place.
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
    let [start, end] = [first, first + frames].map(|frame| source.before_s(frame));
    let mut filters = format!("trim=start={start:.6}:end={end:.6},setpts=PTS-STARTPTS,");
    let is_scaled = (source.width, source.height) != (plan.width, plan.height);
    if is_scaled || Colour::wants_scale(plan.colour, &source.pixels) {
        filters += &format!("{},", scale(source, plan, "lanczos"));
    }
    args.extend(["-map", "0:v:0", "-vf"].map(OsString::from));
    args.push((filters + last).into());
    args.extend(["-frames:v", &frames.to_string()].map(OsString::from));
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Track;

    #[test]
    fn what_is_said_of_pictures_counts_and_of_nothing_else() {
        let mut source = Source::drawn(8, "8/1", "yuv420p");
        source.sound.push(Track { codec: "mp3".to_owned(), channels: 2 });
        let wrong = |said: &str| Decoded::new(8, said, &source).wrong;
        let h264 =
            "[h264 @ 0x5646c430b400] cbp too large (48) at 2 5\n[h264 @ 0x5646c430b400] more";
        assert_eq!(wrong(h264).as_deref(), Some("h264: cbp too large (48) at 2 5"));
        let plain = "Error while decoding stream #0:0: Invalid data found when processing input";
        assert_eq!(wrong(plain).as_deref(), Some(plain));
        let usual = "[h264 @ 0x556d4516c500] mmco: unref short failure\n";
        assert_eq!(wrong(usual), None);
        let again = "[h264 @ 0x1] mmco: unref short failure\n    Last message repeated 1 times\n";
        assert_eq!(wrong(again), None);
        for none in [
            "",
            "\n",
            "[hevc @ 0x1] SEI type 5 size 88 truncated at 80",
            "[mp3float @ 0x1] Header missing",
            "[drawn @ 0x1] Found a new box",
        ] {
            assert_eq!(wrong(none), None, "{none}");
        }
    }
}
