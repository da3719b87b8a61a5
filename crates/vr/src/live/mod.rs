//! A live source: equirectangular video, decoded by one ffmpeg as it comes, encoded GoP by GoP as a package
//! is, and handed on with a stated delay.
//!
//! Three kinds of threads work on it. The reader takes pictures no faster than they play, puts each GoP
//! beside others as raw pictures, and says what it is numbered ([`Timeline`](weftline_video::live::Timeline)). Encoders, as many as there are
//! jobs, make tiles of it and measure them. The sender hands each GoP on when its time has come: with what
//! was encoded, or as a gap with the reason. All that waits is bounded: one GoP for the encoders, one that
//! is read, and the files of those that a player may still ask for.

mod desk;
mod encoder;
mod input;
mod reader;
mod sender;
mod sound;
mod store;

use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weftline_video::geometry::{FrameSize, Grid};
use weftline_video::live::wire::{SoundFormat, TileDigests};
use weftline_video::live::{LiveFormat, LiveGop};

use crate::error::VrError;
use crate::ffmpeg::{Ffmpeg, Stop};
use crate::package::{AMBIX_TO_STEREO, Description, PackageOptions, Record, is_ambisonic};
use crate::rate::FrameRate;
use desk::Desk;
pub use input::LiveInput;
use input::Opened;
use store::Store;

/// The longest delay in GoPs.
const MOST_DELAY: u32 = 60;
/// A delay of so many GoPs: one is gathered, and two may be encoded at a time.
const USUAL_DELAY: u32 = 3;
/// The most luma of a GoP: some of them are in memory at once.
const MAX_GOP_BYTES: u64 = 512 << 20;

/// How a live source is encoded and sent.
#[derive(Clone, Debug)]
pub struct LiveOptions {
    /// The tiles.
    pub grid: Grid,
    /// The ladder.
    pub qps: Vec<u8>,
    /// How thorough x264 is, one of [`PRESETS`](crate::package::PRESETS).
    pub preset: String,
    /// How long a GoP is; rounded to whole pictures.
    pub gop_s: f64,
    /// The size of the frame, if not the source's.
    pub size: Option<FrameSize>,
    /// Pictures a second, if not the source's.
    pub rate: Option<FrameRate>,
    /// Whether its sound is left out.
    pub no_sound: bool,
    /// From the coming of a GoP's first picture to its sending; `None`: three GoPs.
    pub delay: Option<Duration>,
    /// The longest that encoding a GoP may take, if that is less than `delay` leaves.
    pub encode_within: Option<Duration>,
    /// How many GoPs are encoded at once.
    pub jobs: usize,
}

/// A GoP of a live source, as it is sent.
#[derive(Debug)]
pub struct SentGop {
    /// What servers are told of it.
    pub gop: Arc<LiveGop>,
    /// Why there is nothing of it, if so.
    pub lost: Option<Lost>,
    record: Option<Record>,
    sound: Option<TileDigests>,
    store: Arc<Store>,
}

/// Why a GoP is a gap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// The source brought nothing for it, or too late.
    Source,
    /// The encoder is behind: the oldest GoP that it has was there so long ago.
    Encoder {
        /// How long ago.
        behind: Duration,
    },
    /// It could not be encoded, and why.
    Failed(String),
}

/// What happens to a live source.
#[derive(Debug)]
pub enum LiveEvent {
    /// The next GoP's time has come. They come in order, and none is left out.
    Gop(Arc<SentGop>),
    /// So many GoPs that the source has made up for, after it was late, are left out.
    LeftOut(u32),
    /// Its pictures have changed their size, and are scaled.
    Resized,
    /// It has ended, and all of it was sent.
    End(LiveEnd),
}

/// What became of a live source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveEnd {
    /// GoPs of the stream, gaps among them.
    pub gops: u32,
    /// Gaps, as the source brought nothing for them.
    pub without_source: u32,
    /// Gaps, as the encoder was behind or failed.
    pub not_encoded: u32,
    /// GoPs that were left out, as the source had been late.
    pub left_out: u32,
    /// Pictures at the end that are less than a GoP.
    pub rest: u32,
    /// What ffmpeg has said that was wrong, its first line.
    pub said: Option<String>,
    /// Why it ended, if not because it was over.
    pub failure: Option<String>,
}

/// A live source that was looked at.
pub struct LiveSource {
    ffmpeg: Ffmpeg,
    opened: Opened,
    plan: Description,
    delay: Duration,
    encode_within: Option<Duration>,
    jobs: usize,
    stop: Stop,
    remarks: Vec<String>,
}

impl LiveSource {
    /// Looks at the beginning of a source: waits until enough of it is there.
    ///
    /// # Errors
    /// [`VrError::Source`] if it is no video, or none that can be served as tiles; what ffmpeg lacks; or
    /// options that make no sense.
    pub fn open(input: &LiveInput, options: LiveOptions, stop: &Stop) -> Result<Self, VrError> {
        let ffmpeg = Ffmpeg::find(stop)?;
        ffmpeg.need_encoder("libx264")?;
        let opened = Opened::look(&ffmpeg, input, options.rate)?;
        let source = &opened.source;
        let package = PackageOptions {
            grid: options.grid,
            qps: options.qps,
            preset: options.preset,
            gop_s: options.gop_s,
            size: options.size,
            mbps: Vec::new(),
            no_sound: options.no_sound,
            to_8_bits: true,
            whole: Vec::new(),
        };
        let mut plan = Description::live(source, &package, ffmpeg.version())?;
        let mut remarks = Vec::new();
        if source.is_deep() {
            remarks.push(format!("pixels of more than 8 bits ({}) are rounded", source.pixels));
        }
        // Nothing of it has come yet, or nothing here decodes it.
        if plan.sound.is_some() && source.sound.first().is_none_or(|first| first.channels == 0) {
            plan.sound = None;
            remarks
                .push("its sound is left out: it does not say how many channels it has".to_owned());
        }
        if let (Some(sound), [first, ..]) = (&mut plan.sound, &source.sound[..])
            && (first.channels > 2 || source.sound.len() > 1)
        {
            sound.channels = sound.channels.clamp(1, 2);
            let (channels, codec) = (first.channels, &first.codec);
            remarks.push(format!(
                "of its {} tracks of sound the first is sent ({codec}, {channels} channels), in two \
                 channels at most",
                source.sound.len()
            ));
            if is_ambisonic(first.channels) {
                remarks.push(format!(
                    "its {channels} channels are mixed as those of loudspeakers; if they are ambisonics \
                     (AmbiX), mix them before: ffmpeg -i SOURCE -c:v copy -af '{AMBIX_TO_STEREO}' NEW.mkv"
                ));
            }
        }
        let luma = u64::from(plan.frame().width()) * u64::from(plan.frame().height());
        let luma = luma * u64::from(plan.gop_frames());
        if luma > MAX_GOP_BYTES {
            return Err(VrError::Invalid(format!(
                "a GoP of {} pictures of {} is too large to be encoded live ({luma} bytes of luma, of \
                 at most {MAX_GOP_BYTES}); take a shorter --gop or a smaller --size",
                plan.gop_frames(),
                plan.frame()
            )));
        }
        let gop = plan.gop_duration();
        let delay = options.delay.unwrap_or(gop * USUAL_DELAY);
        if delay <= gop {
            return Err(VrError::Invalid(format!(
                "--delay: {} s is no more than a GoP of {} s, which has to be there before it is \
                 encoded; give more, or a shorter --gop",
                delay.as_secs_f64(),
                gop.as_secs_f64()
            )));
        }
        // What waits to be sent is on the disk, and its sound in memory.
        if delay > gop * MOST_DELAY {
            return Err(VrError::Invalid(format!(
                "--delay: {} s is more than {MOST_DELAY} GoPs of {} s; give less, or a longer --gop",
                delay.as_secs_f64(),
                gop.as_secs_f64()
            )));
        }
        let LiveOptions { encode_within, jobs, .. } = options;
        if let Some(within) = encode_within.filter(|within| *within > delay) {
            return Err(VrError::Invalid(format!(
                "--encode-within: {} s is more than the delay of {} s; give less, or a longer --delay",
                within.as_secs_f64(),
                delay.as_secs_f64()
            )));
        }
        let (jobs, stop) = (jobs.max(1), stop.clone());
        Ok(Self { ffmpeg, opened, plan, delay, encode_within, jobs, stop, remarks })
    }

    /// What servers announce.
    pub fn format(&self) -> LiveFormat {
        let plan = &self.plan;
        let sound = plan.sound.map(|sound| {
            let (rate_hz, channels) = (sound.rate_hz, sound.channels);
            SoundFormat { rate_hz, channels }
        });
        LiveFormat {
            frame: plan.frame(),
            grid: plan.grid(),
            gop: plan.gop_duration(),
            gop_frames: plan.gop_frames(),
            qps: plan.qps().to_vec(),
            sound,
        }
    }

    /// Pictures a second.
    pub fn rate(&self) -> FrameRate {
        self.plan.rate()
    }

    /// From the coming of a GoP's first picture to its sending.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// What of the source is not as it was, a line each.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Begins to read it. `tell` hears what happens, from several threads.
    ///
    /// # Errors
    /// If there is no room for its files, or ffmpeg does not start.
    pub fn start(self, tell: impl Fn(LiveEvent) + Send + Sync + 'static) -> Result<Live, VrError> {
        let Self { ffmpeg, opened, plan, delay, encode_within, jobs, stop, .. } = self;
        let store = Arc::new(Store::new()?);
        let what = (opened.source.clone(), plan);
        let desk = Desk::new(what, delay, encode_within, Arc::new(tell), stop.clone());
        let desk = Arc::new(desk);
        let (reads, sound) = reader::Reader::start(&ffmpeg, &opened, &desk, &store)?;
        let (to, jobs_from) = encoder::queue(&desk.plan, delay);
        let mut threads: Vec<JoinHandle<()>> = Vec::new();
        for _ in 0..jobs {
            let encoder = encoder::Encoder::new(&ffmpeg, &desk, &store, &jobs_from);
            threads.push(thread::spawn(move || encoder.run()));
        }
        let sender = sender::Sender::new(&desk, &store, sound);
        threads.push(thread::spawn(move || sender.run()));
        threads.push(thread::spawn(move || reads.run(&to)));
        Ok(Live { stop, desk, threads })
    }
}

/// A live source that is read. Dropped, it is stopped, and its files are removed once nobody has them.
pub struct Live {
    stop: Stop,
    desk: Arc<Desk>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop.ask();
        self.desk.wake();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl SentGop {
    /// The files of a tile: what its decoder is set up from, and its pictures.
    pub fn tile(&self, tile: usize, qp: u8) -> [PathBuf; 2] {
        self.store.tile(tile, qp, self.gop.number)
    }

    /// The same of its sound.
    pub fn sound(&self) -> [PathBuf; 2] {
        self.store.sound(self.gop.number)
    }

    /// What was written of a tile.
    pub fn digests(&self, tile: usize, qp: u8) -> Option<TileDigests> {
        self.record.as_ref()?.digests(tile, qp)
    }

    /// What was written of its sound.
    pub fn sound_digests(&self) -> Option<TileDigests> {
        self.sound
    }
}
