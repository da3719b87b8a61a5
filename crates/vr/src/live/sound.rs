//! The sound of a live source: frames of AAC as ffmpeg encodes them, a segment for each GoP.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_getfl, fcntl_setfl, mknodat, open};

use crate::error::VrError;
use crate::mp4;
use crate::package::{Description, FRAME_SAMPLES, Frames, SoundTrack, gop_of};

/// GoPs whose sound is kept at most, where no picture comes.
const MAX_AHEAD: usize = 64;

/// The sound that has come and was not taken.
#[derive(Debug)]
pub(crate) struct LiveSound {
    track: SoundTrack,
    heard: Mutex<Heard>,
}

#[derive(Debug, Default)]
struct Heard {
    init: Vec<u8>,
    /// Per GoP of the source its first frame's number, and its frames.
    gops: BTreeMap<u64, (u64, Vec<Vec<u8>>)>,
    /// Frames that were read, and whether there are no more.
    frames: u64,
    has_end: bool,
}

/// A segment of sound, and what its decoder is set up from.
pub(crate) struct SoundSegment {
    pub(crate) init: Vec<u8>,
    pub(crate) media: Vec<u8>,
}

/// The end of a named pipe that keeps it open: its reader is at the end once this and ffmpeg's are closed.
pub(crate) struct KeptOpen(
    #[allow(dead_code, reason = "it is held, and closed when dropped")] File,
);

impl LiveSound {
    /// Makes a named pipe at `path`, and reads what ffmpeg encodes from it.
    pub(crate) fn listen(
        path: &Path,
        plan: &Description,
        track: SoundTrack,
    ) -> Result<(Arc<Self>, KeptOpen), VrError> {
        let wrong = |error: rustix::io::Errno| VrError::io("make", path)(error.into());
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).map_err(wrong)?;
        // Without waiting for the other end: each is opened before ffmpeg is there.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let reads = open(path, flags, Mode::empty()).map_err(wrong)?;
        let writes = File::options().write(true).open(path).map_err(VrError::io("open", path))?;
        let flags = fcntl_getfl(&reads).map_err(wrong)?;
        fcntl_setfl(&reads, flags - OFlags::NONBLOCK).map_err(wrong)?;
        let sound = Arc::new(Self { track, heard: Mutex::default() });
        let (ours, plan) = (Arc::clone(&sound), plan.clone());
        thread::spawn(move || ours.read(BufReader::new(File::from(reads)), &plan));
        Ok((sound, KeptOpen(writes)))
    }

    /// Takes frames until there are no more.
    fn read(&self, file: BufReader<File>, plan: &Description) {
        let Ok(mut frames) = Frames::open(file) else { return };
        self.lock().init.clone_from(&frames.init);
        // The first frame is what the encoder begins with before the first sample, and is not heard.
        let _ = frames.next();
        while let Ok(Some(bytes)) = frames.next() {
            let mut heard = self.lock();
            let frame = heard.frames;
            heard.frames += 1;
            let gop = gop_of(frame, plan, self.track);
            if heard.gops.len() < MAX_AHEAD || heard.gops.contains_key(&gop) {
                heard.gops.entry(gop).or_insert_with(|| (frame, Vec::new())).1.push(bytes);
            }
        }
        self.lock().has_end = true;
    }

    /// The sound of GoP `gop` of the source as that of GoP `number` of the stream, if it is whole. That of
    /// GoPs before is not wanted any more.
    pub(crate) fn take(&self, gop: u64, number: u32, plan: &Description) -> Option<SoundSegment> {
        let mut heard = self.lock();
        let later = heard.gops.split_off(&gop);
        heard.gops = later;
        let is_whole = heard.has_end || gop_of(heard.frames, plan, self.track) > gop;
        let (first, frames) = heard.gops.remove(&gop).filter(|_| is_whole)?;
        // As much later as its pictures are.
        let rate = plan.rate();
        let moved = (u128::from(number) * u128::from(plan.gop_frames()))
            .saturating_sub(u128::from(gop) * u128::from(plan.gop_frames()))
            * u128::from(rate.denominator())
            * u128::from(self.track.rate_hz)
            / u128::from(rate.numerator());
        let time = first * u64::from(FRAME_SAMPLES) + moved as u64;
        let media = mp4::fragment(number + 1, time, FRAME_SAMPLES, &frames);
        Some(SoundSegment { init: heard.init.clone(), media })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
