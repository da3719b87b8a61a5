//! What the client's application reads, and what it measures.

use hdrhistogram::Histogram;
use weftline_core::Instant;
use weftline_core::time::nanos;
use weftline_video::{Player, PlayerStats};

use super::source::Source;
use crate::world::STEP;

/// An application that receives.
#[derive(Debug)]
pub(crate) struct Sink {
    player: Option<Box<Player>>,
    read: u64,
    /// Goodput, delays and gaps count from this time on, as in the lab.
    measure_from_ns: u64,
    measured: u64,
    delay_us: Histogram<u64>,
    last_ns: Option<u64>,
    longest_gap_ns: u64,
    /// When the `size`-th byte came.
    done_ns: Option<u64>,
    size: Option<u64>,
    /// Bytes released in the present step of the time series.
    step_bytes: u64,
    /// When it began to measure.
    began_ns: u64,
    /// Bytes released in each step of time since then.
    steps: Vec<u64>,
}

/// Delays up to ten minutes are told apart, in microseconds with three digits.
const MAX_DELAY_US: u64 = 600_000_000;

impl Sink {
    /// A sink; `size` is where the stream ends, if it does.
    pub(crate) fn new(size: Option<u64>) -> Self {
        let delay_us = Histogram::new_with_bounds(1, MAX_DELAY_US, 3);
        Self {
            player: None,
            read: 0,
            measure_from_ns: 0,
            measured: 0,
            delay_us: delay_us.expect("the bounds are in order"),
            last_ns: None,
            longest_gap_ns: 0,
            done_ns: None,
            size,
            step_bytes: 0,
            began_ns: 0,
            steps: Vec::new(),
        }
    }

    /// Begins to measure at `now_ns`; goodput, delays and gaps count from `measure_from_ns` on.
    pub(crate) fn begin(&mut self, now_ns: u64, measure_from_ns: u64, player: Option<Player>) {
        self.measure_from_ns = measure_from_ns;
        self.began_ns = now_ns;
        self.last_ns = Some(now_ns);
        self.player = player.map(Box::new);
    }

    /// Up to where the application reads what has arrived.
    pub(crate) fn wanted(&self) -> u64 {
        self.player.as_ref().map_or(u64::MAX, |player| player.wanted())
    }

    /// The application's offset.
    pub(crate) const fn read(&self) -> u64 {
        self.read
    }

    /// The application has read up to `offset`.
    pub(crate) fn take(&mut self, offset: u64, source: &mut Source, now_ns: u64) {
        let bytes = offset - self.read;
        let counts = now_ns >= self.measure_from_ns;
        let delay_us = &mut self.delay_us;
        source.released(self.read, offset, now_ns, |bytes, written_ns| {
            if counts {
                let us = ((now_ns - written_ns) / 1_000).clamp(1, MAX_DELAY_US);
                delay_us.record_n(us, bytes).expect("clamped to the bounds");
            }
        });
        self.add(bytes, now_ns);
        if self.size == Some(offset) {
            self.done_ns = Some(now_ns);
        }
        if let Some(player) = &mut self.player {
            player.handle_bytes(offset, Instant::from_nanos(now_ns));
        }
    }

    /// The application has been handed a message of so many bytes, made at `made_ns`.
    pub(crate) fn take_message(&mut self, bytes: u64, made_ns: u64, now_ns: u64) {
        if now_ns >= self.measure_from_ns {
            let us = ((now_ns - made_ns) / 1_000).clamp(1, MAX_DELAY_US);
            self.delay_us.record_n(us, bytes).expect("clamped to the bounds");
        }
        self.add(bytes, now_ns);
    }

    /// Counts what the application got now.
    fn add(&mut self, bytes: u64, now_ns: u64) {
        self.read += bytes;
        self.step_bytes += bytes;
        self.add_to_step(bytes, now_ns);
        let last = self.last_ns.replace(now_ns);
        if now_ns < self.measure_from_ns {
            return;
        }
        self.measured += bytes;
        let gap = last.map_or(0, |last| now_ns - last);
        self.longest_gap_ns = self.longest_gap_ns.max(gap);
    }

    fn add_to_step(&mut self, bytes: u64, now_ns: u64) {
        let step = ((now_ns - self.began_ns) / nanos(STEP)) as usize;
        if self.steps.len() <= step {
            self.steps.resize(step + 1, 0);
        }
        self.steps[step] += bytes;
    }

    /// Bytes released in each step of time, up to the last in which there were any.
    pub(crate) fn steps(&self) -> &[u64] {
        &self.steps
    }

    /// When the player has something to do.
    pub(crate) fn next_ns(&self) -> Option<u64> {
        Some(self.player.as_ref()?.poll_timeout()?.as_nanos())
    }

    /// Does what the player has to do. Returns whether it may want more bytes now.
    pub(crate) fn handle_timeout(&mut self, now_ns: u64) -> bool {
        let Some(player) = &mut self.player else { return false };
        let now = Instant::from_nanos(now_ns);
        let due = player.poll_timeout().is_some_and(|at| at <= now);
        if due {
            player.handle_timeout(now);
            while player.poll_event().is_some() {}
        }
        due
    }

    /// Whether nothing more will happen here.
    pub(crate) fn is_done(&self) -> bool {
        match &self.player {
            Some(player) => player.is_finished(),
            None => self.done_ns.is_some(),
        }
    }

    /// Bytes of the present step of the time series, which ends.
    pub(crate) const fn take_step(&mut self) -> u64 {
        let bytes = self.step_bytes;
        self.step_bytes = 0;
        bytes
    }

    /// Bytes read after the warm-up.
    pub(crate) const fn measured(&self) -> u64 {
        self.measured
    }

    /// Delays from write to release after the warm-up in microseconds, a count per byte.
    pub(crate) const fn delays(&self) -> &Histogram<u64> {
        &self.delay_us
    }

    /// The longest time without a byte, up to now, that ended after the warm-up.
    pub(crate) fn longest_gap_ns(&self, now_ns: u64) -> u64 {
        let open = match self.is_done() || self.done_ns.is_some() {
            true => 0,
            false => self.last_ns.map_or(0, |last| now_ns.saturating_sub(last)),
        };
        self.longest_gap_ns.max(open)
    }

    /// When the last byte came.
    pub(crate) const fn done_ns(&self) -> Option<u64> {
        self.done_ns
    }

    /// What the viewer saw.
    pub(crate) fn player(&self, now_ns: u64) -> Option<PlayerStats> {
        self.player.as_ref().map(|player| player.stats(Instant::from_nanos(now_ns)))
    }
}
