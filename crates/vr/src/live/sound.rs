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
        // As much later as its pictures are; earlier, where GoPs of the source were left out.
        let (rate, moved) = (plan.rate(), i128::from(number) - i128::from(gop));
        let moved = moved
            * i128::from(plan.gop_frames())
            * i128::from(rate.denominator())
            * i128::from(self.track.rate_hz)
            / i128::from(rate.numerator());
        let time = i128::from(first) * i128::from(FRAME_SAMPLES) + moved;
        let time = u64::try_from(time).unwrap_or(0);
        let media = mp4::fragment(number + 1, time, FRAME_SAMPLES, &frames);
        Some(SoundSegment { init: heard.init.clone(), media })
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Heard> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    /// GoPs of a second.
    const PLAN: &str = r#"{"format":"weftline-vr-1","source":"-","source_bytes":0,
        "source_digest":"","width":64,"height":32,"columns":2,"rows":1,"qps":[30],
        "fps_numerator":25,"fps_denominator":1,"gop_frames":25,"gops":0,"preset":"medium",
        "ffmpeg":"5","complete":false}"#;

    /// A GoP of the source may be the stream's of the same number, or of a later one after a gap;
    /// where GoPs were left out at the start, of an earlier one. Its sound is always as far from
    /// its pictures.
    #[test]
    fn sound_keeps_its_distance_to_its_pictures_whichever_gop_of_the_stream_they_are() {
        let plan: Description = serde_json::from_str(PLAN).unwrap();
        let track = SoundTrack { rate_hz: 48_000, channels: 2 };
        for (gop, number) in [(2, 2), (2, 5), (2, 0), (7, 3)] {
            // Of its GoP the first frame that begins within it.
            let first = (gop * 48_000_u64).div_ceil(FRAME_SAMPLES.into());
            let heard = Heard {
                init: vec![1],
                gops: BTreeMap::from([(gop, (first, vec![vec![1], vec![2]]))]),
                frames: first + 100,
                has_end: false,
            };
            let sound = LiveSound { track, heard: Mutex::new(heard) };
            let segment = sound.take(gop, number, &plan).unwrap();
            let from_pictures = first * u64::from(FRAME_SAMPLES) - gop * 48_000;
            let time = mp4::time(&segment.media).unwrap();
            assert_eq!(time, u64::from(number) * 48_000 + from_pictures, "GoP {gop} as {number}");
        }
    }
}
