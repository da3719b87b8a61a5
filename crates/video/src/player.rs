//! A player that downloads a clip progressively: when it starts, when its buffer runs dry, which
//! pictures come too late. Its rules are those of VLC 3.0 playing an MP4 file over HTTP.
//!
//! What VLC does, and this player after it:
//!
//! - A *prefetch* thread reads the connection into a buffer of 16 MiB and stops while that is full,
//!   which stops TCP (`modules/stream_filter/prefetch.c`, `prefetch-buffer-size`). At 5.24 Mb/s it
//!   reads up to 25.6 s ahead.
//! - The *demultiplexer* takes the file from that buffer in steps of 250 ms of media
//!   (`DEMUX_INCREMENT` of `modules/demux/mp4/mp4.c`): it reads all samples to be decoded before
//!   the next *clock point*, hands them to the decoders, and tells the clock of the point. It reads
//!   one caching time (`network-caching`, 1000 ms) before the samples are to be shown.
//! - *Start*: the clock starts when more than the caching time has been read, 10 ms after the clock
//!   point that says so (`EsOutDecodersStopBuffering` of `src/input/es_out.c`).
//! - *Underflow*: a clock point that is read after its time of showing ("ES_OUT_SET_(GROUP_)PCR is
//!   called too late"). The clock is thrown away and the buffer fills again, to a caching time
//!   grown by the median of the last three latenesses; it never shrinks (`src/input/clock.c`). The
//!   next point is the new clock's first, so what is read up to it is late when the picture moves
//!   again. If the caching time would pass `clock-jitter` (5 s) or 60 s, nothing is refilled: the
//!   clock is set anew from the next point and what is read up to it has no time and is lost.
//! - *Discard*: a picture decoded more than 20 ms after its time is not shown ("picture is too late
//!   to be displayed", `VOUT_DISPLAY_LATE_THRESHOLD` of `src/video_output/video_output.c`), which
//!   VLC counts as lost.
//!
//! Left out: decoding takes no time, the clock does not follow the source's drift (it has none over
//! HTTP), and reading up to 100 ms further ahead than the caching time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use weftline_core::{ByteCount, Instant};

use crate::stream::{Clip, Sample};

/// What a player does when; the default is VLC 3.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayerRules {
    /// Media that is read before the clock starts, and how long before its showing a sample is
    /// read: `network-caching`, 1000 ms.
    pub caching: Duration,
    /// Media between two clock points: `DEMUX_INCREMENT`, 250 ms. Not zero.
    pub clock_step: Duration,
    /// How late a picture may be and still be shown: 20 ms.
    pub late_tolerance: Duration,
    /// How much the caching time may grow: `clock-jitter`, 5000 ms.
    pub jitter_max: Duration,
    /// The longest caching time: `INPUT_PTS_DELAY_MAX`, 60 s.
    pub caching_max: Duration,
    /// From the end of buffering to the first picture: 10 ms.
    pub wakeup: Duration,
    /// How far the client reads ahead of its demultiplexer: `prefetch-buffer-size`, 16 MiB.
    pub read_ahead: ByteCount,
}

impl Default for PlayerRules {
    fn default() -> Self {
        Self {
            caching: Duration::from_millis(1000),
            clock_step: Duration::from_millis(250),
            late_tolerance: Duration::from_millis(20),
            jitter_max: Duration::from_secs(5),
            caching_max: Duration::from_secs(60),
            wakeup: Duration::from_millis(10),
            read_ahead: ByteCount::mib(16),
        }
    }
}

/// What the viewer has seen so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlayerStats {
    /// Pictures that were too late to be shown.
    pub picture_discards: u64,
    /// How often the clock came to media that had not been read.
    pub buffer_underflows: u64,
    /// How long the picture stood still for that, from the time of the first sample missed to the
    /// clock's next start.
    pub underflow: Duration,
    /// From the request to the first picture; none if there was none.
    pub startup: Option<Duration>,
    /// Pictures decoded in time, those that wait to be shown included.
    pub played: u64,
}

/// Something that happened to the viewer, for a time series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayerEvent {
    /// So many pictures were discarded.
    Discarded {
        /// When.
        at: Instant,
        /// How many.
        pictures: u64,
    },
    /// The last picture was shown.
    Finished {
        /// When.
        at: Instant,
    },
    /// The picture moves, for the first time or again.
    Started {
        /// When.
        at: Instant,
    },
    /// The buffer ran dry.
    Underflow {
        /// When the player noticed, which is when the missing media came.
        at: Instant,
        /// Since when the picture stands still.
        since: Instant,
    },
}

/// Ties stream time to the world's.
#[derive(Clone, Copy, Debug)]
struct Reference {
    stream: Duration,
    shown: Instant,
}

impl Reference {
    /// When stream time `time` is shown.
    fn shown(&self, time: Duration) -> Instant {
        match time.checked_sub(self.stream) {
            Some(after) => self.shown + after,
            None => self.shown - (self.stream - time),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Fills the buffer, from that stream time or else from the next clock point.
    Buffering(Option<Duration>),
    /// The last picture has been shown.
    Finished,
    Playing(Reference),
    /// Sets the clock by the next clock point.
    Unset,
}

/// The client: told of bytes and of time, it says how far it wants to read and what was seen.
///
/// Call [`handle_bytes`](Self::handle_bytes) when bytes arrive in order and
/// [`handle_timeout`](Self::handle_timeout) at [`poll_timeout`](Self::poll_timeout); after either,
/// look at [`wanted`](Self::wanted) and drain [`poll_event`](Self::poll_event). Time never goes
/// back.
#[derive(Clone, Debug)]
pub struct Player {
    clip: Arc<Clip>,
    rules: PlayerRules,
    requested: Instant,
    mode: Mode,
    /// Bytes there in order.
    in_order: u64,
    /// Samples complete.
    complete: usize,
    /// Samples read by the demultiplexer.
    read: usize,
    /// The clock point before which it reads.
    point: u32,
    /// Whether it reads, or waits for the time to.
    reading: bool,
    /// The caching time as grown.
    caching: Duration,
    /// The last latenesses of clock points, and which is next to be replaced.
    lates: [Duration; 3],
    next_late: usize,
    /// The time of the first sample since the last clock point that was read too late.
    late_since: Option<Instant>,
    /// Since when the picture stands still.
    frozen_since: Option<Instant>,
    timer: Option<Instant>,
    stats: PlayerStats,
    events: VecDeque<PlayerEvent>,
}

impl Player {
    /// A player that requests `clip` at `now`.
    pub fn new(clip: Arc<Clip>, rules: PlayerRules, now: Instant) -> Self {
        Self {
            clip,
            requested: now,
            mode: Mode::Buffering(Some(Duration::ZERO)),
            in_order: 0,
            complete: 0,
            read: 0,
            point: 1,
            reading: true,
            caching: rules.caching,
            lates: [Duration::ZERO; 3],
            next_late: 0,
            late_since: None,
            frozen_since: None,
            timer: None,
            stats: PlayerStats::default(),
            events: VecDeque::new(),
            rules,
        }
    }

    /// The first `in_order_total` bytes of the file have arrived.
    pub fn handle_bytes(&mut self, in_order_total: u64, now: Instant) {
        self.in_order = self.in_order.max(in_order_total);
        let samples = self.clip.samples();
        while samples.get(self.complete).is_some_and(|sample| sample.end <= self.in_order) {
            self.complete += 1;
        }
        self.advance(now);
    }

    /// The time of [`poll_timeout`](Self::poll_timeout) has come. Harmless at other times.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    /// When [`handle_timeout`](Self::handle_timeout) is to be called; none if only bytes help.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timer
    }

    /// What happened since the last call.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<PlayerEvent> {
        self.events.pop_front()
    }

    /// The offset in the file up to which the client reads at present; beyond it the connection
    /// fills up. It never falls.
    pub fn wanted(&self) -> u64 {
        let samples = self.clip.samples();
        let end = |index: usize| samples.get(index).map_or(self.clip.total_bytes(), |s| s.end);
        // A demultiplexer that waits for a sample has taken what there is of it.
        let taken = match (self.reading, self.read) {
            (true, read) => self.in_order.min(end(read)),
            (false, read) => end(read - 1),
        };
        taken.saturating_add(self.rules.read_ahead.as_u64()).min(self.clip.total_bytes())
    }

    /// Whether the last picture has been shown.
    pub fn is_finished(&self) -> bool {
        matches!(self.mode, Mode::Finished)
    }

    /// The media that is there and not yet shown, as playing time.
    pub fn buffered(&self, now: Instant) -> Duration {
        let there = match self.complete {
            0 => Duration::ZERO,
            all if all == self.clip.samples().len() => self.clip.duration(),
            some => self.clip.samples()[some - 1].decode,
        };
        let shown = match self.mode {
            Mode::Playing(clock) if now >= clock.shown => clock.stream + now.since(clock.shown),
            Mode::Playing(clock) => clock.stream,
            Mode::Buffering(Some(from)) => from,
            Mode::Buffering(None) | Mode::Unset => self.point_time(),
            Mode::Finished => self.clip.duration(),
        };
        there.saturating_sub(shown)
    }

    /// What has been seen by `now`. A standstill that lasts counts as an underflow though the
    /// player will notice only when it ends.
    pub fn stats(&self, now: Instant) -> PlayerStats {
        let mut stats = self.stats;
        if let Some(since) = self.frozen_since {
            stats.underflow += now.since(since);
        } else if let Some(since) = self.missing_since().filter(|&since| since < now) {
            stats.buffer_underflows += 1;
            stats.underflow += now.since(since);
        }
        stats
    }

    /// Pictures that it has not come to by `now`, though the clip was requested so long ago that all of
    /// it could have been shown: what standstills have kept from the viewer. Before that time none is
    /// missed.
    pub fn missed(&self, now: Instant) -> u64 {
        if now.since(self.requested) < self.clip.duration() {
            return 0;
        }
        let left = &self.clip.samples()[self.read..];
        left.iter().filter(|sample| sample.is_picture()).count() as u64
    }

    /// The time of the first sample that is waited for, if the clock runs.
    fn missing_since(&self) -> Option<Instant> {
        let Mode::Playing(clock) = self.mode else { return None };
        let missing = self.clip.samples().get(self.read).filter(|_| self.reading)?;
        Some(self.late_since.unwrap_or(clock.shown(missing.present)))
    }

    /// The stream time of the clock point before which the demultiplexer reads.
    fn point_time(&self) -> Duration {
        self.rules.clock_step.saturating_mul(self.point)
    }

    /// Does everything that can be done by `now`.
    fn advance(&mut self, now: Instant) {
        self.timer = None;
        while self.read < self.clip.samples().len() {
            if !self.reading {
                if let Some(due) = self.reading_due().filter(|&due| now < due) {
                    self.timer = Some(due);
                    return;
                }
                self.reading = true;
            }
            if !self.read_to_point(now) {
                return;
            }
            self.reading = false;
            self.reach_point(now);
            self.point = self.point.saturating_add(1);
        }
        if let Mode::Playing(clock) = self.mode {
            let end = clock.shown(self.clip.duration());
            if now < end {
                self.timer = Some(end);
            } else {
                self.mode = Mode::Finished;
                self.events.push_back(PlayerEvent::Finished { at: end });
            }
        }
    }

    /// When the samples after the last clock point are to be read.
    fn reading_due(&self) -> Option<Instant> {
        let Mode::Playing(clock) = self.mode else { return None };
        let last = self.point_time() - self.rules.clock_step;
        Some(clock.shown(last) - self.caching)
    }

    /// Reads the samples before the next clock point; false if one is not there yet.
    fn read_to_point(&mut self, now: Instant) -> bool {
        let (until, discards) = (self.point_time(), self.stats.picture_discards);
        while let Some(&sample) = self.clip.samples().get(self.read) {
            if sample.decode > until || sample.end > self.in_order {
                break;
            }
            self.read += 1;
            self.take(&sample, now);
        }
        let pictures = self.stats.picture_discards - discards;
        if pictures > 0 {
            self.events.push_back(PlayerEvent::Discarded { at: now, pictures });
        }
        self.clip.samples().get(self.read).is_none_or(|sample| sample.decode > until)
    }

    /// Decodes a sample, in time or not.
    fn take(&mut self, sample: &Sample, now: Instant) {
        let late = match self.mode {
            Mode::Playing(clock) => {
                let due = clock.shown(sample.present);
                if due < now {
                    self.late_since.get_or_insert(due);
                }
                now.since(due) > self.rules.late_tolerance
            }
            Mode::Buffering(None) => {
                // The clock will start with the next point, after this sample's time.
                let before = self.point_time().saturating_sub(sample.present);
                before > self.rules.wakeup + self.rules.late_tolerance
            }
            Mode::Buffering(Some(_)) | Mode::Finished => false,
            Mode::Unset => true,
        };
        if sample.is_picture() {
            let counter =
                if late { &mut self.stats.picture_discards } else { &mut self.stats.played };
            *counter += 1;
        }
    }

    /// All samples before a clock point have been read.
    fn reach_point(&mut self, now: Instant) {
        let point = self.point_time();
        let ended = self.read == self.clip.samples().len();
        let late_since = self.late_since.take();
        match self.mode {
            Mode::Buffering(from) => {
                let stream = from.unwrap_or(point);
                if ended || point - stream > self.caching {
                    self.start(Reference { stream, shown: now + self.rules.wakeup });
                } else {
                    self.mode = Mode::Buffering(Some(stream));
                }
            }
            Mode::Finished => {}
            Mode::Playing(clock) => {
                let due = clock.shown(point);
                if due < now {
                    self.underflow(late_since.unwrap_or(due), now.since(due), now);
                    if ended {
                        // Nothing is left to wait for.
                        let stream = point.min(self.clip.duration());
                        self.start(Reference { stream, shown: now + self.rules.wakeup });
                    }
                }
            }
            Mode::Unset => self.start(Reference { stream: point, shown: now + self.caching }),
        }
    }

    fn start(&mut self, clock: Reference) {
        self.mode = Mode::Playing(clock);
        self.stats.startup.get_or_insert(clock.shown.since(self.requested));
        if let Some(since) = self.frozen_since.take() {
            self.stats.underflow += clock.shown.since(since);
        }
        self.events.push_back(PlayerEvent::Started { at: clock.shown });
    }

    /// A clock point came `late`: throws the clock away and lets the caching time grow.
    fn underflow(&mut self, since: Instant, late: Duration, now: Instant) {
        self.stats.buffer_underflows += 1;
        self.events.push_back(PlayerEvent::Underflow { at: now, since });
        self.frozen_since = Some(since);

        self.lates[self.next_late] = late;
        self.next_late = (self.next_late + 1) % self.lates.len();
        let mut sorted = self.lates;
        sorted.sort_unstable();
        let caching = self.caching + sorted[1];
        if caching > (self.rules.caching + self.rules.jitter_max).min(self.rules.caching_max) {
            self.mode = Mode::Unset;
        } else {
            self.mode = Mode::Buffering(None);
            self.grow_caching(caching);
        }
    }

    /// Latenesses are counted from the grown caching time on (`input_clock_SetJitter`).
    fn grow_caching(&mut self, caching: Duration) {
        let growth = caching - self.caching;
        self.caching = caching;
        let mut left = [Duration::ZERO; 3];
        let mut count = 0;
        for place in 1..=self.lates.len() {
            let late = self.lates[(self.next_late + place) % self.lates.len()];
            let rest = late.saturating_sub(growth);
            if !rest.is_zero() {
                left[count] = rest;
                count += 1;
            }
        }
        (self.lates, self.next_late) = (left, count % left.len());
    }
}

#[cfg(test)]
mod tests;
