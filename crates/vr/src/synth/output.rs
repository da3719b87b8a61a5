//! Writes a scene as a file.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{Picture, Synth, y4m};
use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Stdin, Stop};

/// How pictures are kept in a file; both are lossless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// FFV1 in Matroska, by ffmpeg: about a third of the size, slow to read.
    Matroska,
    /// YUV4MPEG2: as they are, 1.5 bytes a pixel, which any tool reads at once.
    Y4m,
}

impl Container {
    /// The one that the name of `file` asks for.
    ///
    /// # Errors
    /// [`VrError::Invalid`] if its ending is neither `.y4m` nor `.mkv`.
    pub fn of(file: &Path) -> Result<Self, VrError> {
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("mkv") => Ok(Self::Matroska),
            Some("y4m") => Ok(Self::Y4m),
            _ => Err(VrError::Invalid(format!(
                "{}: the name must end in .y4m (raw) or .mkv (FFV1, through ffmpeg)",
                file.display()
            ))),
        }
    }
}

/// Draws `frames` pictures into `file`, or to standard output as YUV4MPEG2 if there is none.
/// `progress` is told how many are done. A file is there only when it is whole.
///
/// # Errors
/// If the file cannot be written, ffmpeg is needed and fails, or `stop` is asked for.
pub fn write(
    synth: &Synth,
    frames: u32,
    file: Option<&Path>,
    stop: &Stop,
    progress: &mut dyn FnMut(u32),
) -> Result<(), VrError> {
    let Some(file) = file else {
        let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
        return draw_all(synth, frames, &mut out, Path::new("standard output"), stop, progress);
    };
    let container = Container::of(file)?;
    let partial = Partial(beside(file));
    match container {
        Container::Y4m => {
            let out = File::create(&partial.0).map_err(VrError::io("write", &partial.0))?;
            let mut out = BufWriter::with_capacity(1 << 20, out);
            draw_all(synth, frames, &mut out, file, stop, progress)?;
            out.get_ref().sync_all().map_err(VrError::io("write", file))?;
        }
        Container::Matroska => through_ffmpeg(synth, frames, &partial.0, stop, progress)?,
    }
    fs::rename(&partial.0, file).map_err(VrError::io("write", file))
}

fn through_ffmpeg(
    synth: &Synth,
    frames: u32,
    file: &Path,
    stop: &Stop,
    progress: &mut dyn FnMut(u32),
) -> Result<(), VrError> {
    let ffmpeg = Ffmpeg::find(stop)?;
    ffmpeg.need_encoder("ffv1")?;
    let mut args: Vec<OsString> =
        ["-f", "yuv4mpegpipe", "-i", "pipe:0", "-c:v", "ffv1", "-level", "3", "-g", "1"]
            .map(OsString::from)
            .to_vec();
    args.extend(["-slices", "4", "-fflags", "+bitexact", "-f", "matroska"].map(OsString::from));
    args.push(crate::ffmpeg::as_file(
        &std::path::absolute(file).map_err(VrError::io("find", file))?,
    ));
    let mut running = ffmpeg.start(&args, Path::new("."), Stdin::Piped, false)?;
    let stdin = running.stdin().ok_or(VrError::NoProgram("ffmpeg"))?;
    let mut out = BufWriter::with_capacity(1 << 20, stdin);
    let drawn = draw_all(synth, frames, &mut out, file, stop, progress);
    drop(out);
    match (drawn, running.finish(file, "to write the scene")) {
        // A broken pipe says less than what ffmpeg said.
        (Err(VrError::Io { .. }), Err(failure)) => Err(failure),
        (drawn, finished) => drawn.and(finished),
    }
}

fn draw_all(
    synth: &Synth,
    frames: u32,
    out: &mut dyn Write,
    place: &Path,
    stop: &Stop,
    progress: &mut dyn FnMut(u32),
) -> Result<(), VrError> {
    let mut picture = Picture::new(synth.size());
    y4m::write_head(out, synth.size(), synth.rate()).map_err(VrError::io("write", place))?;
    for frame in 0..frames {
        if stop.asked() {
            return Err(VrError::Stopped);
        }
        synth.draw(frame, &mut picture);
        y4m::write_picture(out, &picture).map_err(VrError::io("write", place))?;
        progress(frame + 1);
    }
    out.flush().map_err(VrError::io("write", place))
}

/// The name of an unfinished file: in the same directory, so that it can be renamed.
fn beside(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.partial", std::process::id()));
    file.with_file_name(name)
}

/// An unfinished file, gone when it is not finished.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // Renamed, it is no longer there.
        let _ = fs::remove_file(&self.0);
    }
}
