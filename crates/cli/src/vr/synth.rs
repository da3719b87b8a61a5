//! `weftline vr synth`: synthetic 360° video.

use std::path::PathBuf;

use clap::Args;
use weftline_video::geometry::FrameSize;
use weftline_vr::synth::{SCENES, Synth, write};
use weftline_vr::{FrameRate, VrError};

use super::progress::Progress;
use super::stop_on_signals;
use crate::daemon::parse_seconds;
use crate::failure::Failure;
use crate::output;

/// Options of `vr synth`.
#[derive(Debug, Args)]
pub(crate) struct SynthArgs {
    /// The scene; --list names them
    #[arg(required_unless_present = "list")]
    scene: Option<String>,
    /// List the scenes
    #[arg(long)]
    list: bool,
    /// Where to write it: FILE.y4m (raw), FILE.mkv (FFV1, through ffmpeg), or - for raw on standard
    /// output
    #[arg(short, long, value_name = "FILE", alias = "output", required_unless_present = "list")]
    out: Option<PathBuf>,
    /// Width and height in pixels, twice as wide as high
    #[arg(long, value_name = "WxH", default_value = "3840x1920")]
    size: String,
    /// Pictures per second, such as 30 or 30000/1001
    #[arg(long, value_name = "RATE", default_value = "30")]
    fps: String,
    /// How long, such as 10s
    #[arg(long, value_name = "DURATION", alias = "seconds", default_value = "10s")]
    duration: String,
    /// Another seed is another place of the same kind
    #[arg(long, value_name = "N", default_value = "1")]
    seed: u64,
}

/// The longest scene: what moves away is far off by then.
const MAX_SECONDS: f64 = 3600.0;

/// How long that is.
fn seconds(text: &str) -> Result<f64, Failure> {
    let seconds = parse_seconds("--duration", text)?.as_secs_f64();
    if seconds > 0.0 && seconds <= MAX_SECONDS {
        return Ok(seconds);
    }
    Err(Failure::wrong_use(format!(
        "--duration {text} is no length of a scene; give more than 0 s and at most {MAX_SECONDS} s"
    )))
}

/// Draws a scene, or lists them.
pub(super) fn run(args: &SynthArgs) -> Result<(), Failure> {
    let (Some(scene), Some(file), false) = (&args.scene, &args.out, args.list) else {
        return output::print(&output::columns(SCENES.iter().map(|s| (s.name, s.about))));
    };
    let seconds = seconds(&args.duration)?;
    let rate: FrameRate = args.fps.parse()?;
    let synth = Synth::new(scene, args.seed, parse_size(&args.size)?, rate)?;
    let frames = rate.frames_in(seconds);
    let stop = stop_on_signals()?;
    let mut progress = Progress::new("pictures", u64::from(frames), 0);
    let file = (file.as_os_str() != "-").then_some(file.as_path());
    let written = write(&synth, frames, file, &stop, &mut |done| progress.set(u64::from(done)));
    match written {
        // A reader that has gone away (`| head`) has got what it wanted.
        Err(VrError::Io { source, .. })
            if file.is_none() && source.kind() == std::io::ErrorKind::BrokenPipe =>
        {
            Ok(())
        }
        written => Ok(written?),
    }
}

/// Reads `3840x1920`.
pub(super) fn parse_size(text: &str) -> Result<FrameSize, Failure> {
    let wrong = || Failure::wrong_use(format!("'{text}' is no size; write WxH, like 3840x1920"));
    let (width, height) = text.split_once('x').ok_or_else(wrong)?;
    let side = |text: &str| text.parse().map_err(|_| wrong());
    FrameSize::new(side(width)?, side(height)?).map_err(Failure::wrong_use)
}
