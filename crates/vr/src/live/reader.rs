//! Reads the pictures of a live source, GoP by GoP and no faster than they play.

use std::ffi::OsString;
use std::path::Path;
use std::process::ChildStdout;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use super::desk::{Desk, Work};
use super::encoder::Job;
use super::input::Opened;
use super::sound::{KeptOpen, LiveSound};
use super::store::Store;
use super::{LiveEvent, Lost};
use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Heard, Running};
use crate::package::{Following, OpenGop, encoder_args, scale};

/// What ffmpeg says where pictures have another size than before.
const RESIZED: &str = "properties on the fly";
/// What it says of each source of raw video, and means nothing.
const HARMLESS: [&str; 2] = ["deprecated pixel format", "Estimating duration"];

/// Where the named pipe of the sound is.
const SOUND: &str = "sound.pipe";

/// Decodes a source.
pub(super) struct Reader {
    desk: Arc<Desk>,
    store: Arc<Store>,
    decoder: Running,
    pictures: ChildStdout,
    sound: Option<KeptOpen>,
    /// When the first bytes of a pipe came.
    first: Arc<OnceLock<Instant>>,
    /// The first line that ffmpeg said.
    said: Arc<Mutex<Option<String>>>,
}

impl Reader {
    /// Starts ffmpeg; and what takes the source's sound, if it has any.
    pub(super) fn start(
        ffmpeg: &Ffmpeg,
        opened: &Opened,
        desk: &Arc<Desk>,
        store: &Arc<Store>,
    ) -> Result<(Self, Option<Arc<LiveSound>>), VrError> {
        let pipe = store.path(SOUND);
        let sound = match desk.plan.sound() {
            Some(track) => Some(LiveSound::listen(&pipe, &desk.plan, track)?),
            None => None,
        };
        let said = Arc::new(Mutex::new(None));
        let (first, tell) = (Arc::clone(&said), Arc::clone(&desk.tell));
        let mut is_resized = false;
        let line = move |line: &str| {
            if line.contains(RESIZED) {
                if !std::mem::replace(&mut is_resized, true) {
                    tell(LiveEvent::Resized);
                }
                return false;
            }
            let counts = !HARMLESS.iter().any(|harmless| line.contains(harmless));
            if counts {
                let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
                first.get_or_insert_with(|| line.to_owned());
            }
            counts
        };
        let heard = Heard { piped: true, line: Some(Box::new(line)) };
        let args = args(ffmpeg, opened, desk, &pipe)?;
        let mut decoder = ffmpeg.start_heard(&args, Path::new("."), opened.stdin(), heard)?;
        opened.feed(&mut decoder);
        let pictures = decoder.stdout().ok_or(VrError::NoProgram("ffmpeg"))?;
        let (sound, kept) = sound.unzip();
        let (desk, store, first) = (Arc::clone(desk), Arc::clone(store), opened.first());
        Ok((Self { desk, store, decoder, pictures, sound: kept, first, said }, sound))
    }

    /// Reads to the end.
    pub(super) fn run(mut self, jobs: &SyncSender<Job>) {
        let read = self.read(jobs);
        let Self { desk, decoder, pictures, sound, said, .. } = self;
        // What it would still write has no place.
        drop((pictures, sound));
        let failure = match read {
            Ok(rest) => {
                desk.lock().end.rest = rest;
                decoder.finish(Path::new("."), "to decode the source").err()
            }
            Err(error) => Some(error),
        };
        let said = said.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut state = desk.lock();
        state.end.said = said;
        state.end.failure = failure.map(|error| error.to_string());
        state.timeline.handle_end();
        drop(state);
        desk.wake();
    }

    /// Reads GoPs until the source ends; how many pictures were left.
    fn read(&mut self, jobs: &SyncSender<Job>) -> Result<u32, VrError> {
        let (frame, frames) = (self.desk.plan.frame(), self.desk.plan.gop_frames());
        let pixels = frame.width() as usize * frame.height() as usize;
        let mut picture = vec![0; pixels * 3 / 2];
        let mut following = Following::new(&self.desk.plan);
        for source in 0_u64.. {
            if !self.desk.wait_to_read() {
                return Err(VrError::Stopped);
            }
            let (mut open, mut file) = OpenGop::begin(self.store.path(&format!("work-{source}")))?;
            for index in 0..frames {
                if !self.next(&mut picture)? {
                    return Ok(index);
                }
                if source == 0 && index == 0 {
                    let before = self.first.get().map_or(Duration::ZERO, Instant::elapsed);
                    let now = self.desk.now();
                    self.desk.lock().timeline.handle_first(now, before);
                    self.desk.wake();
                }
                open.write(&mut file, &picture, pixels)?;
            }
            drop(file);
            let concealments = |missed| {
                following.skip(missed);
                following.next(&self.desk.plan, open.luma())
            };
            if let Some(number) = self.desk.take(source, concealments) {
                open.gop = number;
                self.give(jobs, Job { open });
            }
        }
        Ok(0)
    }

    /// Fills a picture; `false` at the end.
    fn next(&mut self, picture: &mut [u8]) -> Result<bool, VrError> {
        self.decoder.fill(&mut self.pictures, picture)
    }

    /// Gives a GoP to the encoders, if one of them will take it soon.
    fn give(&self, jobs: &SyncSender<Job>, job: Job) {
        let number = job.open.gop;
        if let Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) = jobs.try_send(job) {
            let behind = self.desk.lock().behind();
            self.desk.conclude(number, Work::Lost(Lost::Encoder { behind }));
        }
    }
}

/// From the source to raw pictures of one size at a constant rate, and to frames of AAC.
fn args(
    ffmpeg: &Ffmpeg,
    opened: &Opened,
    desk: &Desk,
    pipe: &Path,
) -> Result<Vec<OsString>, VrError> {
    let plan = &desk.plan;
    let rate = plan.rate().to_string();
    let mut args: Vec<OsString> = opened.options().map(OsString::from).to_vec();
    args.extend(["-noautorotate", "-reinit_filter", "0", "-i"].map(OsString::from));
    args.push(opened.argument()?);
    let scale = scale(&opened.source, plan, "bicubic");
    let filters = format!("setpts=PTS-STARTPTS,{scale},format=yuv420p");
    args.extend(["-map", "0:v:0", "-vf", &filters].map(OsString::from));
    args.extend(ffmpeg.constant().map(OsString::from));
    args.extend(["-r", &rate, "-f", "rawvideo", "pipe:1"].map(OsString::from));
    if let Some(track) = plan.sound() {
        // As in a package, it begins with the first picture, and is silent where there is none.
        let first_s = opened.source.first_s();
        let filters = format!(
            "aresample={}:async=1:first_pts=0,atrim=start={first_s:.6},asetpts=PTS-STARTPTS",
            track.rate_hz
        );
        args.extend(["-map", "0:a:0", "-vn", "-af", &filters].map(OsString::from));
        args.extend(encoder_args(track));
        args.push(crate::ffmpeg::as_file(pipe));
    }
    Ok(args)
}
