//! The ratio: when to look for a better one, and how.

use std::time::Duration;

use crate::Instant;

/// Bounds of the first path's segments of a round.
pub(super) const MIN_RATIO: u64 = 5;
pub(super) const MAX_RATIO: u64 = 95;
/// The module's step; a search that has gained goes over its neighbourhood in the smaller one (ours).
const STEP: u64 = 5;
const FINE_STEP: u64 = 2;
/// A connection's first search begins when two samples in a row are no larger than the one before
/// by one in so many parts: its windows have grown; after so many samples at the latest.
const SETTLED: u64 = 10;
const START_SAMPLES: u32 = 12;
/// The time of a sample. The module takes 200 ms while it searches; here the first half of that does
/// not count, in which acknowledgements are still of the ratio before.
const INTERVAL: Duration = Duration::from_millis(100);
const SETTLING: Duration = Duration::from_millis(100);
/// Least time from the start of one search to that of the next.
const SEARCH_PAUSE: Duration = Duration::from_secs(3);
/// Samples whose mean is the reference.
const REFERENCE_SAMPLES: u32 = 5;
/// Consecutive samples off the reference that start a search.
const TRIGGER_SAMPLES: u32 = 5;
/// How far off: the rate either way, bits per second; the buffers downward, bytes.
const RATE_CHANGE: u64 = 200_000_000;
const BUFFER_FALL: u64 = 75_000;
/// Changes of one in so many parts of the reference count as well (ours): on short paths there is
/// less than the module's threshold in all buffers, and slow links never change by that much.
const RATE_PART: u64 = 10;
const BUFFER_PART: u64 = 8;
/// Buffers that are larger than the reference by one in so many parts count too (ours): when a path
/// gets faster while the other holds it up, nothing else tells.
const BUFFER_RISE_PART: u64 = 3;
/// What a step must gain: bits per second, and one in so many parts of the rate (ours): a queue that
/// a step lets drain delivers for a moment more than the links carry.
const GAIN: u64 = 5_000_000;
const GAIN_PART: u64 = 50;

/// What was seen in an interval.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Bits per second that both paths have delivered.
    rate: u64,
    /// Mean of the bytes in both sockets.
    buffer: u64,
}

#[derive(Debug)]
enum State {
    /// A connection begins: its windows grow. A search follows.
    Start { samples: u32, rate: u64, steady: bool },
    /// Samples are summed up for the reference.
    Reference { samples: u32, rate: u64, buffer: u64 },
    /// Samples are compared with the reference.
    Watch { reference: Sample, rate_off: u32, buffer_off: u32 },
    /// The ratio is being tried out.
    Try(Trial),
}

/// A search under way.
#[derive(Debug)]
struct Trial {
    /// The rate at the ratio before the last step; `None` before the first sample.
    best: Option<u64>,
    /// Whether the ratio goes up or down.
    upward: bool,
    /// Whether a step in this direction has gained.
    gained: bool,
    /// Segments of a step.
    step: u64,
}

/// What follows from a trial's sample.
enum Verdict {
    Continue,
    Done,
}

#[derive(Debug)]
pub(super) struct Search {
    ratio: u64,
    state: State,
    /// When the sample begins, or began; `None` while nothing is sent.
    since: Option<Instant>,
    /// Bytes delivered since then.
    bytes: u64,
    /// Bytes in the sockets of all connections now.
    held: u64,
    buffers: u128,
    looks: u32,
    searched_at: Option<Instant>,
}

const START: State = State::Start { samples: 0, rate: 0, steady: false };
const REFERENCE: State = State::Reference { samples: 0, rate: 0, buffer: 0 };

impl Search {
    /// At a connection's start, with the ratio that is known from before.
    pub(super) fn new(ratio: u64) -> Self {
        Self {
            ratio: ratio.clamp(MIN_RATIO, MAX_RATIO),
            state: START,
            since: None,
            bytes: 0,
            held: 0,
            buffers: 0,
            looks: 0,
            searched_at: None,
        }
    }

    /// Segments of a round for the first path.
    pub(super) const fn ratio(&self) -> u64 {
        self.ratio
    }

    /// A connection begins to send over two paths. Others may be in a search.
    pub(super) fn begin(&mut self) {
        if !matches!(self.state, State::Try(_)) {
            self.state = START;
            self.since = None;
        }
    }

    /// A connection whose sockets held so many bytes is over.
    pub(super) fn end(&mut self, held: u64) {
        self.held = self.held.saturating_sub(held);
    }

    /// Forgets what was measured; the ratio stays.
    pub(super) fn restart(&mut self) {
        self.state = REFERENCE;
        self.since = None;
    }

    /// Takes note of what a connection has delivered since it was here last, and of what its sockets
    /// hold now and held then; and of a sample if one is complete.
    pub(super) fn look(&mut self, delivered: u64, (held, before): (u64, u64), now: Instant) {
        self.held = self.held.saturating_sub(before).saturating_add(held);
        let since = *self.since.get_or_insert_with(|| {
            (self.bytes, self.buffers, self.looks) = (0, 0, 0);
            now
        });
        if now < since {
            return;
        }
        self.bytes = self.bytes.saturating_add(delivered);
        self.buffers += u128::from(self.held);
        self.looks += 1;
        let elapsed = now.since(since);
        if elapsed < INTERVAL {
            return;
        }
        let bits = u128::from(self.bytes) * 8 * 1_000_000_000;
        let rate = u64::try_from(bits / elapsed.as_nanos()).unwrap_or(u64::MAX);
        let buffer = self.buffers / u128::from(self.looks);
        let buffer = u64::try_from(buffer).unwrap_or(u64::MAX);
        self.take(Sample { rate, buffer }, now);
        (self.bytes, self.buffers, self.looks) = (0, 0, 0);
        let searching = matches!(self.state, State::Try(_));
        self.since = Some(if searching { now + SETTLING } else { now });
    }

    fn take(&mut self, sample: Sample, now: Instant) {
        match &mut self.state {
            State::Start { samples, rate, steady } => {
                let grows = sample.rate > rate.saturating_add(*rate / SETTLED);
                let is_steady = sample.rate > 0 && !grows;
                let ready = *steady && is_steady;
                (*samples, *rate, *steady) = (*samples + 1, sample.rate, is_steady);
                if ready || *samples >= START_SAMPLES {
                    self.trigger(now);
                }
            }
            State::Reference { samples, rate, buffer } => {
                *samples += 1;
                *rate = rate.saturating_add(sample.rate);
                *buffer = buffer.saturating_add(sample.buffer);
                if *samples == REFERENCE_SAMPLES {
                    let (n, rate, buffer) = (u64::from(*samples), *rate, *buffer);
                    let reference = Sample { rate: rate / n, buffer: buffer / n };
                    self.state = State::Watch { reference, rate_off: 0, buffer_off: 0 };
                }
            }
            State::Watch { reference, rate_off, buffer_off } => {
                let Sample { rate, buffer } = *reference;
                if sample.rate.abs_diff(rate) > RATE_CHANGE.min(rate / RATE_PART) {
                    (*rate_off, *buffer_off) = (*rate_off + 1, 0);
                } else if sample.buffer + BUFFER_FALL.min(buffer / BUFFER_PART) < buffer
                    || sample.buffer > buffer + buffer / BUFFER_RISE_PART
                {
                    (*rate_off, *buffer_off) = (0, *buffer_off + 1);
                } else {
                    (*rate_off, *buffer_off) = (0, 0);
                }
                if *rate_off.max(buffer_off) >= TRIGGER_SAMPLES {
                    self.trigger(now);
                }
            }
            State::Try(trial) => {
                if let Verdict::Done = trial.step(sample.rate, &mut self.ratio) {
                    self.state = REFERENCE;
                }
            }
        }
    }

    /// Begins a search once the last one is long enough ago. Until then samples are compared with
    /// the same reference; the module takes a new one, and so misses what changes within the pause.
    fn trigger(&mut self, now: Instant) {
        if self.searched_at.is_none_or(|at| now.since(at) >= SEARCH_PAUSE) {
            self.searched_at = Some(now);
            self.state = State::Try(Trial::new(STEP));
        }
    }
}

impl Trial {
    const fn new(step: u64) -> Self {
        Self { best: None, upward: true, gained: false, step }
    }

    /// `rate` was seen at `ratio`: keeps or takes back the last step, and does the next.
    fn step(&mut self, rate: u64, ratio: &mut u64) -> Verdict {
        let Some(best) = self.best else {
            self.best = Some(rate);
            return self.advance(ratio);
        };
        if rate > best.saturating_add(GAIN.max(best / GAIN_PART)) {
            self.best = Some(rate);
            self.gained = true;
            return self.advance(ratio);
        }
        *ratio = if self.upward { *ratio - self.step } else { *ratio + self.step };
        self.turn(ratio)
    }

    /// A step on in the present direction, if there is room for one.
    fn advance(&mut self, ratio: &mut u64) -> Verdict {
        let next = if self.upward { *ratio + self.step } else { ratio.saturating_sub(self.step) };
        if (MIN_RATIO..=MAX_RATIO).contains(&next) {
            *ratio = next;
            return Verdict::Continue;
        }
        self.turn(ratio)
    }

    /// The present direction is done with: tries the other if this one brought nothing, and smaller
    /// steps when both are known.
    fn turn(&mut self, ratio: &mut u64) -> Verdict {
        if !self.gained && self.upward {
            self.upward = false;
            return self.advance(ratio);
        }
        if self.step == FINE_STEP {
            return Verdict::Done;
        }
        *self = Self { best: self.best, ..Self::new(FINE_STEP) };
        self.advance(ratio)
    }
}
