//! The ratio: when to look for a better one, and how.

use std::time::Duration;

use crate::Instant;

/// The first path's segments of a round, before anything is known; its bounds and the step.
const FIRST_RATIO: u64 = 50;
const MIN_RATIO: u64 = 5;
const MAX_RATIO: u64 = 95;
const STEP: u64 = 5;
/// Time between samples, and while searching.
const INTERVAL: Duration = Duration::from_millis(100);
const SEARCH_INTERVAL: Duration = Duration::from_millis(200);
/// Least time from the start of one search to that of the next.
const SEARCH_PAUSE: Duration = Duration::from_secs(3);
/// Samples whose mean is the reference.
const REFERENCE_SAMPLES: u32 = 5;
/// Consecutive samples off the reference that start a search.
const TRIGGER_SAMPLES: u32 = 5;
/// How far off: the rate either way, bits per second; the buffers downward, bytes.
const RATE_CHANGE: i128 = 200_000_000;
const BUFFER_FALL: i128 = 75_000;
/// What a step must gain, bits per second.
const GAIN: u64 = 5_000_000;

/// What was seen in an interval.
#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Bits per second sent on both paths.
    rate: u64,
    /// Mean of the bytes in both sockets.
    buffer: u64,
}

#[derive(Debug)]
enum State {
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
    /// When the interval began; `None` while nothing is sent.
    since: Option<Instant>,
    bytes: u64,
    buffers: u128,
    looks: u32,
    searched_at: Option<Instant>,
}

const REFERENCE: State = State::Reference { samples: 0, rate: 0, buffer: 0 };

impl Search {
    pub(super) const fn new() -> Self {
        Self {
            ratio: FIRST_RATIO,
            state: REFERENCE,
            since: None,
            bytes: 0,
            buffers: 0,
            looks: 0,
            searched_at: None,
        }
    }

    /// Segments of a round for the first path.
    pub(super) const fn ratio(&self) -> u64 {
        self.ratio
    }

    /// Forgets what was measured; the ratio stays.
    pub(super) fn restart(&mut self) {
        self.state = REFERENCE;
        self.since = None;
    }

    pub(super) const fn sent(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// Takes note of the bytes in the sockets at `now`, and of a sample if one is complete.
    pub(super) fn look(&mut self, buffer: u64, now: Instant) {
        let since = *self.since.get_or_insert_with(|| {
            (self.bytes, self.buffers, self.looks) = (0, 0, 0);
            now
        });
        self.buffers += u128::from(buffer);
        self.looks += 1;
        let searching = matches!(self.state, State::Try(_));
        let interval = if searching { SEARCH_INTERVAL } else { INTERVAL };
        let elapsed = now.since(since);
        if elapsed < interval {
            return;
        }
        let bits = u128::from(self.bytes) * 8 * 1_000_000_000;
        let rate = u64::try_from(bits / elapsed.as_nanos()).unwrap_or(u64::MAX);
        let buffer = self.buffers / u128::from(self.looks);
        let buffer = u64::try_from(buffer).unwrap_or(u64::MAX);
        (self.bytes, self.buffers, self.looks) = (0, 0, 0);
        self.since = Some(now);
        self.take(Sample { rate, buffer }, now);
    }

    fn take(&mut self, sample: Sample, now: Instant) {
        match &mut self.state {
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
                let change = |now: u64, then: u64| i128::from(now) - i128::from(then);
                if change(sample.rate, reference.rate).abs() > RATE_CHANGE {
                    (*rate_off, *buffer_off) = (*rate_off + 1, 0);
                } else if change(sample.buffer, reference.buffer) < -BUFFER_FALL {
                    (*rate_off, *buffer_off) = (0, *buffer_off + 1);
                } else {
                    (*rate_off, *buffer_off) = (0, 0);
                }
                if *rate_off.max(buffer_off) == TRIGGER_SAMPLES {
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

    /// Begins a search, or at least takes a new reference.
    fn trigger(&mut self, now: Instant) {
        if self.searched_at.is_some_and(|at| now.since(at) < SEARCH_PAUSE) {
            self.state = REFERENCE;
            return;
        }
        self.searched_at = Some(now);
        self.state = State::Try(Trial { best: None, upward: true, gained: false });
    }
}

impl Trial {
    /// `rate` was seen at `ratio`: keeps or takes back the last step, and does the next.
    fn step(&mut self, rate: u64, ratio: &mut u64) -> Verdict {
        let Some(best) = self.best else {
            self.best = Some(rate);
            return self.advance(ratio);
        };
        if rate > best.saturating_add(GAIN) {
            self.best = Some(rate);
            self.gained = true;
            return self.advance(ratio);
        }
        *ratio = if self.upward { *ratio - STEP } else { *ratio + STEP };
        self.turn(ratio)
    }

    /// A step on in the present direction, if there is room for one.
    fn advance(&mut self, ratio: &mut u64) -> Verdict {
        let next = if self.upward { *ratio + STEP } else { ratio.saturating_sub(STEP) };
        if (MIN_RATIO..=MAX_RATIO).contains(&next) {
            *ratio = next;
            return Verdict::Continue;
        }
        self.turn(ratio)
    }

    /// The present direction is done with: tries the other if this one brought nothing.
    fn turn(&mut self, ratio: &mut u64) -> Verdict {
        if self.gained || !self.upward {
            return Verdict::Done;
        }
        self.upward = false;
        self.advance(ratio)
    }
}
