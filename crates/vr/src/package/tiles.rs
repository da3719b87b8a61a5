//! Decodes tiles, one after the other, by one process.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ChildStdout;

use weftline_video::metric::Plane;

use super::plan::Description;
use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Running, Stdin};

/// What is decoded for a tile: a file of its own, or an initialisation and a media segment.
pub(crate) enum TileSource {
    Whole(PathBuf),
    Segments(PathBuf, PathBuf),
}

/// The luma of tiles, all pictures of the first one, then all of the next.
pub(crate) struct TileReader {
    running: Running,
    stdout: ChildStdout,
    /// One picture of one tile.
    tile: Vec<u8>,
    width: u32,
    height: u32,
    left: usize,
    total: usize,
    place: PathBuf,
    what: String,
}

impl TileReader {
    /// Starts to decode `tiles`, whose paths are relative to `dir`; `list` is a file that may be
    /// written there. `what` names it all in messages.
    pub(crate) fn start(
        ffmpeg: &Ffmpeg,
        plan: &Description,
        dir: &Path,
        list: &str,
        tiles: &[TileSource],
        what: &str,
    ) -> Result<Self, VrError> {
        // One decoder takes one tile after the other: half the cost of one decoder for each.
        let mut text = "ffconcat version 1.0\n".to_owned();
        for tile in tiles {
            // Names of ours: nothing in them needs quoting.
            let written = match tile {
                TileSource::Whole(file) => writeln!(text, "file '{}'", file.display()),
                TileSource::Segments(init, media) => {
                    writeln!(text, "file 'concat:{}|{}'", init.display(), media.display())
                }
            };
            written.expect("writing to a String cannot fail");
        }
        let path = dir.join(list);
        fs::write(&path, text).map_err(VrError::io("write", &path))?;
        let mut args: Vec<OsString> =
            ["-threads", "1", "-f", "concat", "-safe", "0"].map(OsString::from).to_vec();
        args.extend(["-protocol_whitelist", "file,pipe,concat", "-i", list].map(OsString::from));
        args.extend(["-map", "0:v:0", "-vf", "extractplanes=y"].map(OsString::from));
        args.extend(ffmpeg.passthrough().map(OsString::from));
        args.extend(["-f", "rawvideo", "pipe:1"].map(OsString::from));
        let mut running = ffmpeg.start(&args, dir, Stdin::Null, true)?;
        let stdout = running.stdout().ok_or(VrError::NoProgram("ffmpeg"))?;
        // Fewer turns of the two processes; where it cannot be, it is only slower.
        let _ = rustix::pipe::fcntl_setpipe_size(&stdout, 1 << 20);
        let rect = plan.grid().rect(0, plan.frame());
        let total = tiles.len() * plan.gop_frames() as usize;
        Ok(Self {
            running,
            stdout,
            tile: vec![0; rect.width as usize * rect.height as usize],
            width: rect.width,
            height: rect.height,
            left: total,
            total,
            place: dir.to_owned(),
            what: what.to_owned(),
        })
    }

    /// The next picture of a tile.
    pub(crate) fn next(&mut self) -> Result<Plane<'_>, VrError> {
        if !self.running.fill(&mut self.stdout, &mut self.tile)? {
            return Err(self.short());
        }
        self.left = self.left.saturating_sub(1);
        Plane::new(&self.tile, self.width, self.height, self.width as usize).map_err(|why| {
            VrError::Ffmpeg { doing: format!("to decode {}", self.what), reason: why.to_string() }
        })
    }

    /// Makes sure that nothing more comes, and that all went well.
    pub(crate) fn finish(mut self) -> Result<(), VrError> {
        let more = self.stdout.read(&mut [0]).map_err(VrError::io("read from", &self.place))?;
        if self.left > 0 || more > 0 {
            return Err(self.short());
        }
        self.running.finish(&self.place, &format!("to decode {}", self.what))
    }

    fn short(&self) -> VrError {
        if self.running.is_stopped() {
            return VrError::Stopped;
        }
        let (got, total) = (self.total - self.left, self.total);
        let (width, height) = (self.width, self.height);
        VrError::Ffmpeg {
            doing: format!("to decode {}", self.what),
            reason: format!(
                "{got} whole pictures of tiles of {width}x{height} came where {total} should; are \
                 the tiles damaged, or did ffmpeg end early?"
            ),
        }
    }
}
