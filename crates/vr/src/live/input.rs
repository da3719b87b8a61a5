//! What a live source is read from: a file, or a pipe whose beginning is looked at before it is decoded.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::ChildStdin;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Instant;

use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Running, Stdin, as_file};
use crate::rate::FrameRate;
use crate::source::Source;

/// The most of a pipe that is kept while ffprobe looks at it: a few pictures of 8K as they are.
const MAX_KEPT: usize = 256 << 20;
/// Of how much of a pipe it is found out what it is: a second, and two pictures for their rate. By default
/// ffmpeg takes up to five seconds, all the while that a camera has gone on.
const LOOKS_AT: [&str; 4] = ["-analyzeduration", "1000000", "-fpsprobesize", "2"];
/// The same of a file, which waits.
const LOOKS_AT_FILE: [&str; 4] = ["-analyzeduration", "5000000", "-fpsprobesize", "20"];
/// What is asked of a source.
const ENTRIES: &str = "format=start_time:stream=start_time,codec_type,codec_name,channels,width,height,r_frame_rate,\
                       avg_frame_rate,time_base,pix_fmt,color_primaries,color_transfer,color_space,\
                       color_range:stream_side_data=side_data_type,projection,yaw,pitch,roll,\
                       displaymatrix,type";

/// Where a live source comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LiveInput {
    /// Standard input.
    Stdin,
    /// A file, or a named pipe.
    File(PathBuf),
}

impl LiveInput {
    /// What it is called in messages.
    pub(crate) fn name(&self) -> &Path {
        match self {
            Self::Stdin => Path::new("standard input"),
            Self::File(path) => path,
        }
    }

    /// What is to be copied to ffmpeg; `None` of a file that ffmpeg reads itself.
    fn pipe(&self) -> Result<Option<Box<dyn Read + Send>>, VrError> {
        let Self::File(path) = self else { return Ok(Some(Box::new(io::stdin()))) };
        let about = path.metadata().map_err(VrError::io("read", path))?.file_type();
        // Opening a named pipe waits for its writer.
        let file = File::open(path).map_err(VrError::io("read", path))?;
        if about.is_file() {
            return Ok(None);
        }
        if about.is_fifo() {
            return Ok(Some(Box::new(file)));
        }
        Err(VrError::source(
            path,
            "is no file and no pipe; let ffmpeg read it and pipe what it reads: ffmpeg -f FORMAT -i \
             SOURCE -c copy -f nut - | weftline vr serve --source -",
        ))
    }
}

/// A source that was looked at, and can be decoded once.
pub(crate) struct Opened {
    pub(crate) source: Source,
    /// What takes ffmpeg's standard input, if that is where it reads.
    feed: Option<Feed>,
}

/// A pipe that is copied.
struct Feed {
    to: mpsc::Sender<ChildStdin>,
    first: Arc<OnceLock<Instant>>,
}

impl Opened {
    /// Looks at the beginning of a source.
    pub(crate) fn look(
        ffmpeg: &Ffmpeg,
        input: &LiveInput,
        rate: Option<FrameRate>,
    ) -> Result<Self, VrError> {
        let (running, feed) = match input.pipe()? {
            Some(pipe) => {
                let mut running = ffmpeg.probing(
                    &LOOKS_AT.map(OsString::from),
                    ENTRIES,
                    "pipe:0".as_ref(),
                    Stdin::Piped,
                )?;
                let probe = running.stdin().ok_or(VrError::NoProgram("ffprobe"))?;
                (running, Some(feed(pipe, probe)))
            }
            None => {
                let path = std::path::absolute(input.name());
                let path = path.map_err(VrError::io("find", input.name()))?;
                (ffmpeg.probing(&[], ENTRIES, &as_file(&path), Stdin::Null)?, None)
            }
        };
        let mut said = String::new();
        let doing = format!("to read {}", input.name().display());
        running.read_all(&mut said, &doing).map_err(|error| match error {
            VrError::Ffmpeg { reason, .. } => {
                VrError::source(input.name(), format!("ffmpeg cannot read it: {reason}"))
            }
            other => other,
        })?;
        let source = Source::of_live(input.name(), &said, rate)?;
        Ok(Self { source, feed })
    }

    /// What ffmpeg is to be given as input.
    pub(crate) fn argument(&self) -> Result<OsString, VrError> {
        if self.feed.is_some() {
            return Ok("pipe:0".into());
        }
        let path = &self.source.path;
        Ok(as_file(&std::path::absolute(path).map_err(VrError::io("find", path))?))
    }

    /// What ffmpeg is to have as standard input.
    pub(crate) fn stdin(&self) -> Stdin {
        if self.feed.is_some() { Stdin::Piped } else { Stdin::Null }
    }

    /// Gives ffmpeg what it is to read, from the beginning.
    pub(crate) fn feed(&self, ffmpeg: &mut Running) {
        if let (Some(feed), Some(stdin)) = (&self.feed, ffmpeg.stdin()) {
            // The thread waits for it, or has ended with the process.
            let _ = feed.to.send(stdin);
        }
    }

    /// When the first bytes of a pipe came; never, those of a file.
    pub(crate) fn first(&self) -> Arc<OnceLock<Instant>> {
        self.feed.as_ref().map(|feed| Arc::clone(&feed.first)).unwrap_or_default()
    }

    /// How ffmpeg is to find out what it reads.
    pub(crate) fn options(&self) -> [&'static str; 4] {
        if self.feed.is_some() { LOOKS_AT } else { LOOKS_AT_FILE }
    }
}

/// Copies a pipe to ffprobe until that has seen enough, and all of it to what is sent then. The thread ends
/// when the pipe does, or nobody reads any more.
fn feed(mut pipe: impl Read + Send + 'static, probe: ChildStdin) -> Feed {
    let (to, from) = mpsc::channel::<ChildStdin>();
    let first = Arc::new(OnceLock::new());
    let came = Arc::clone(&first);
    thread::spawn(move || {
        let (mut kept, mut probe) = (Vec::new(), Some(probe));
        let mut buffer = vec![0; 64 << 10];
        while let Some(looks) = &mut probe {
            let Ok(read @ 1..) = pipe.read(&mut buffer) else { break };
            came.get_or_init(Instant::now);
            kept.extend_from_slice(&buffer[..read]);
            if kept.len() > MAX_KEPT || looks.write_all(&buffer[..read]).is_err() {
                probe = None;
            }
        }
        drop(probe);
        let Ok(mut ffmpeg) = from.recv() else { return };
        if ffmpeg.write_all(&kept).is_ok() {
            drop(kept);
            // One that has ended has said why.
            let _ = io::copy(&mut pipe, &mut ffmpeg);
        }
    });
    Feed { to, first }
}
