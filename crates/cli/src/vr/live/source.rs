//! A live source for `weftline vr serve`: its options, and what is said of it.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, available_parallelism};
use std::time::Duration;

use clap::Args;
use weftline_video::geometry::Grid;
use weftline_video::live::{Content, ServerSettings};
use weftline_vr::live::{Live, LiveEnd, LiveEvent, LiveInput, LiveOptions, LiveSource, Lost};
use weftline_vr::{FrameRate, Stop};

use super::origin::{Feed, Origin};
use super::session::Served;
use crate::daemon::parse_seconds;
use crate::failure::Failure;
use crate::vr::synth::parse_size;

/// A pipe of which it is not known so soon what it is may have stalled.
const SOON: Duration = Duration::from_secs(3);

/// Options of a live source.
#[derive(Debug, Args)]
pub(super) struct SourceArgs {
    /// Serve equirectangular video as it comes in place of a package: a file or pipe, - for standard input
    ///
    /// It may be whatever ffmpeg reads. A file is read as fast as it plays, a pipe as it comes. It is encoded meanwhile; what the encoder
    /// cannot take in time is left out, GoP by GoP, and said.
    #[arg(long, value_name = "FILE|-")]
    source: Option<PathBuf>,
    /// How long after its first picture came a GoP of --source is sent [default: three GoPs]
    #[arg(long, value_name = "SECONDS", requires = "source")]
    delay: Option<String>,
    /// Columns and rows of the tiles of --source
    #[arg(
        long,
        value_name = "CxR",
        default_value = "4x2",
        requires = "source",
        hide_short_help = true
    )]
    grid: Grid,
    /// The QPs of the ladder of --source, with commas between them
    #[arg(
        long,
        value_name = "QP,…",
        value_delimiter = ',',
        default_value = "22,30,38",
        requires = "source",
        hide_short_help = true
    )]
    qp: Vec<u8>,
    /// How long a GoP of --source is
    #[arg(
        long,
        value_name = "SECONDS",
        default_value = "1",
        requires = "source",
        hide_short_help = true
    )]
    gop: f64,
    /// Scale --source to this size first
    #[arg(long, value_name = "WxH", requires = "source")]
    size: Option<String>,
    /// Pictures a second of --source; others are doubled or left out [default: what it says]
    #[arg(long, value_name = "RATE", requires = "source", hide_short_help = true)]
    fps: Option<FrameRate>,
    /// How thorough x264 is with --source, from ultrafast to veryslow
    #[arg(
        long,
        value_name = "NAME",
        default_value = "ultrafast",
        requires = "source",
        hide_short_help = true
    )]
    preset: String,
    /// Leave out the sound of --source
    #[arg(long, requires = "source", hide_short_help = true)]
    no_sound: bool,
    /// How many GoPs of --source are encoded at once [default: one per core]
    #[arg(long, value_name = "N", requires = "source", hide_short_help = true)]
    jobs: Option<NonZero<usize>>,
    /// The longest that the encoder may take for a GoP of --source [default: what --delay leaves]
    #[arg(long, value_name = "SECONDS", requires = "source", hide_short_help = true)]
    encode_within: Option<String>,
}

/// A source that was looked at.
pub(super) struct Source {
    live: LiveSource,
    feed: Arc<Feed>,
    name: String,
}

/// A source that is read.
pub(super) struct Running {
    _live: Live,
    feed: Arc<Feed>,
    end: Arc<Mutex<Option<LiveEnd>>>,
    name: String,
}

impl SourceArgs {
    /// Looks at the source, if one is to be served: waits until its beginning is there.
    ///
    /// # Errors
    /// If it cannot be served.
    pub(super) fn open(&self) -> Result<Option<Source>, Failure> {
        let Some(source) = &self.source else { return Ok(None) };
        let seconds = |option, text: &Option<String>| {
            text.as_deref().map(|text| parse_seconds(option, text)).transpose()
        };
        let input = match source.as_path() == Path::new("-") {
            true => LiveInput::Stdin,
            false => LiveInput::File(source.clone()),
        };
        let options = LiveOptions {
            grid: self.grid,
            qps: self.qp.clone(),
            preset: self.preset.clone(),
            gop_s: self.gop,
            size: self.size.as_deref().map(parse_size).transpose()?,
            rate: self.fps,
            no_sound: self.no_sound,
            delay: seconds("--delay", &self.delay)?,
            encode_within: seconds("--encode-within", &self.encode_within)?,
            jobs: self.jobs.or(available_parallelism().ok()).map_or(1, NonZero::get),
        };
        let name = match input {
            LiveInput::Stdin => "standard input".to_owned(),
            LiveInput::File(_) => source.display().to_string(),
        };
        let told = tell_if_it_waits(&input, &name);
        let live = LiveSource::open(&input, options, &Stop::default());
        drop(told);
        let live = live?;
        for remark in live.remarks() {
            tracing::warn!("{name}: {remark}");
        }
        Ok(Some(Source { live, feed: Arc::new(Feed::new()), name }))
    }
}

impl Source {
    /// What is served of it.
    ///
    /// # Errors
    /// If its GoPs cannot be streamed.
    pub(super) fn served(&self, settings: ServerSettings) -> Result<Served, Failure> {
        let content = Content::live(self.live.format()).map_err(Failure::wrong_use)?;
        let (content, origin) = (Arc::new(content), Origin::Live(Arc::clone(&self.feed)));
        Ok(Served { origin, content, settings })
    }

    /// What is said at the start.
    pub(super) fn greeting(&self) -> String {
        let format = self.live.format();
        let qps = format.qps.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
        let (rate, gop_s) = (self.live.rate(), format.gop.as_secs_f64());
        let sound = if format.sound.is_some() { "with sound" } else { "no sound" };
        format!(
            "source {}: {} at {rate} pictures a second, {} tiles at QP {qps}, GoPs of {gop_s} s, \
             {sound}\n\
             delay {} s from a picture's coming to its sending; players add their buffer to it\n",
            self.name,
            format.frame,
            format.grid,
            self.live.delay().as_secs_f64()
        )
    }

    /// Begins to read it.
    ///
    /// # Errors
    /// If ffmpeg does not start, or there is no room for its work.
    pub(super) fn start(self) -> Result<Running, Failure> {
        let Self { live, feed, name } = self;
        let end = Arc::new(Mutex::new(None));
        let (to, told) = (Arc::clone(&feed), Arc::clone(&end));
        let teller = Mutex::new(Teller { name: name.clone(), without: 0, lost: 0 });
        let tell = move |event: LiveEvent| {
            teller.lock().unwrap_or_else(PoisonError::into_inner).tell(&event);
            match event {
                LiveEvent::Gop(gop) => to.push(gop),
                LiveEvent::End(end) => {
                    *told.lock().unwrap_or_else(PoisonError::into_inner) = Some(end.clone());
                    to.finish(end);
                }
                LiveEvent::LeftOut(_) | LiveEvent::Resized => {}
            }
        };
        Ok(Running { _live: live.start(tell)?, feed, end, name })
    }
}

impl Running {
    /// Waits until the source has ended and all of it was sent.
    pub(super) fn ended(&self) -> impl Future<Output = ()> + use<> {
        let feed = Arc::clone(&self.feed);
        async move { drop(feed.ended().await) }
    }

    /// Stops it, if it has not ended.
    ///
    /// # Errors
    /// Why it ended, if not because it was over.
    pub(super) fn finish(self) -> Result<(), Failure> {
        let end = self.end.lock().unwrap_or_else(PoisonError::into_inner).take();
        match end.and_then(|end| end.failure) {
            Some(failure) => Err(Failure::failed(format!("{}: {failure}", self.name))),
            None => Ok(()),
        }
    }
}

/// Says that the beginning of a pipe does not come, unless what is returned is dropped soon.
fn tell_if_it_waits(input: &LiveInput, name: &str) -> Option<mpsc::Sender<()>> {
    let LiveInput::Stdin = input else { return None };
    let (told, waits) = mpsc::channel::<()>();
    let name = name.to_owned();
    thread::spawn(move || {
        if waits.recv_timeout(SOON) == Err(mpsc::RecvTimeoutError::Timeout) {
            tracing::info!("{name}: waiting for enough of it to know what it is");
        }
    });
    Some(told)
}

/// Says what becomes of a source.
struct Teller {
    name: String,
    /// GoPs in a row that it brought nothing for.
    without: u32,
    /// GoPs that were not encoded.
    lost: u32,
}

impl Teller {
    fn tell(&mut self, event: &LiveEvent) {
        let name = &self.name;
        match event {
            LiveEvent::Gop(gop) => self.tell_gop(gop.gop.number, gop.lost.as_ref()),
            LiveEvent::LeftOut(gops) => tracing::info!(
                "{name}: what came while it was examined, {gops} GoP, is left out, to be as far behind it as said"
            ),
            LiveEvent::Resized => tracing::warn!(
                "{name}: its pictures have changed their size; they are scaled to the size of before"
            ),
            LiveEvent::End(end) => self.tell_end(end),
        }
    }

    fn tell_gop(&mut self, number: u32, lost: Option<&Lost>) {
        let name = &self.name;
        if lost == Some(&Lost::Source) {
            if self.without == 0 {
                tracing::warn!(
                    "{name}: it brings nothing in time; players conceal GoP {number} and those after it \
                     until it does"
                );
            }
            self.without += 1;
            return;
        }
        if self.without > 0 {
            tracing::warn!(
                "{name}: it goes on with GoP {number}; {} GoPs had nothing of it",
                self.without
            );
            self.without = 0;
        }
        match lost {
            Some(Lost::Encoder { behind }) => {
                self.lost += 1;
                tracing::warn!(
                    "{name}: GoP {number} is left out, as the encoder is {:.1} s behind ({} GoPs so far); \
                     give it less (--size, --fps, fewer --qp) or more time (--delay)",
                    behind.as_secs_f64(),
                    self.lost
                );
            }
            Some(Lost::Failed(why)) => {
                self.lost += 1;
                tracing::warn!(
                    "{name}: GoP {number} is left out ({} GoPs so far): {why}",
                    self.lost
                );
            }
            Some(Lost::Source) | None => tracing::debug!("{name}: GoP {number} is there"),
        }
    }

    fn tell_end(&self, end: &LiveEnd) {
        let said = end.said.as_ref().map_or_else(String::new, |said| format!("; ffmpeg: {said}"));
        let LiveEnd { gops, without_source, not_encoded, left_out, rest, .. } = end;
        tracing::info!(
            "{}: it has ended after {gops} GoPs, {without_source} of which it brought nothing for and \
             {not_encoded} were not encoded; {left_out} more that came too late, and {rest} pictures at \
             its end that are no GoP, were left out{said}",
            self.name
        );
    }
}
