//! Random rate traces: a radio that gets blocked, and a link that goes away for a while.
//!
//! A generator draws integers and uniform numbers and uses only + − × ÷, so one seed gives the
//! same trace on every machine. A longer trace begins with the shorter one of the same seed.

use std::time::Duration;

use weftline_core::Bitrate;
use weftline_core::rng::Rng;
use weftline_core::time::nanos;

/// The grid of a generated trace.
const STEP_MS: u64 = 10;

/// How long a state's level holds before the next is drawn, in ms: wide enough that per-second
/// means vary within a state as the paper's do.
const HOLD_MS: [u64; 2] = [500, 1500];

/// How long a change of level takes, in ms: a body crosses a 60 GHz beam in 100 to 500 ms.
const RAMP_MS: [u64; 2] = [100, 500];

/// A 60 GHz radio whose line of sight comes and goes, as a semi-Markov process with three states.
///
/// The radio stays in a state for a time drawn from 0.5 to 1.5 times the state's mean dwell. It
/// leaves line of sight and blockage by way of the reflected path, and that one to either side in
/// turn, as a client that turns away and back does; a state whose dwell is zero is passed over.
/// Within a state the level is redrawn about once a second, and every change of level is a ramp of
/// 100 to 500 ms. A trace begins in the state of the longest dwell, at a random place in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Blockage {
    /// Line of sight.
    pub los: BlockageState,
    /// A reflected path around the obstacle.
    pub nlos: BlockageState,
    /// Neither.
    pub blocked: BlockageState,
}

/// One state of a [`Blockage`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockageState {
    /// Mean rate.
    pub rate: Bitrate,
    /// Standard deviation of the levels, as a share of the rate, 0 to 1; levels are cut at zero and
    /// at twice the rate.
    pub spread: f64,
    /// Mean stay.
    pub dwell: Duration,
}

#[derive(Clone, Copy, PartialEq)]
enum Place {
    Blocked,
    Los,
    Nlos,
}

impl Blockage {
    /// The rate of each step of 10 ms for `duration`, as `(start, rate)`.
    pub(crate) fn steps(&self, rng: &mut Rng, duration: Duration) -> Vec<(Duration, Bitrate)> {
        let wanted = usize::try_from(nanos(duration).div_ceil(STEP_MS * 1_000_000));
        let mut levels = Levels::new(wanted.unwrap_or(usize::MAX));
        let mut place = self.longest();
        let mut blocked_next = rng.below(2) == 0;
        let mut stay = draw_dwell(rng, self.state(place).dwell);
        stay = stay * (1 + rng.below(1000)) / 1000;
        while !levels.done() {
            levels.stay(rng, self.state(place), (stay / STEP_MS).max(1));
            place = self.next(place, &mut blocked_next);
            stay = draw_dwell(rng, self.state(place).dwell);
        }
        let start = |index| Duration::from_millis(STEP_MS) * index as u32;
        levels.rates.into_iter().enumerate().map(|(index, rate)| (start(index), rate)).collect()
    }

    fn state(&self, place: Place) -> &BlockageState {
        match place {
            Place::Blocked => &self.blocked,
            Place::Los => &self.los,
            Place::Nlos => &self.nlos,
        }
    }

    fn longest(&self) -> Place {
        [Place::Blocked, Place::Nlos, Place::Los]
            .into_iter()
            .max_by_key(|&place| self.state(place).dwell)
            .unwrap_or(Place::Los)
    }

    /// The next state that is not passed over; `place` itself if it is the only one.
    fn next(&self, place: Place, blocked_next: &mut bool) -> Place {
        let mut next = place;
        loop {
            next = match next {
                Place::Blocked | Place::Los => Place::Nlos,
                Place::Nlos => {
                    *blocked_next = !*blocked_next;
                    if *blocked_next { Place::Los } else { Place::Blocked }
                }
            };
            if next == place || !self.state(next).dwell.is_zero() {
                return next;
            }
        }
    }
}

/// 0.5 to 1.5 times the mean, in ms.
fn draw_dwell(rng: &mut Rng, mean: Duration) -> u64 {
    nanos(mean) / 1_000_000 * (500 + rng.below(1001)) / 1000
}

/// The levels drawn so far.
struct Levels {
    rates: Vec<Bitrate>,
    wanted: usize,
    /// The level reached, in b/s.
    level: Option<f64>,
}

impl Levels {
    fn new(wanted: usize) -> Self {
        Self { rates: Vec::with_capacity(wanted), wanted, level: None }
    }

    fn done(&self) -> bool {
        self.rates.len() >= self.wanted
    }

    /// Stays in `state` for so many steps.
    fn stay(&mut self, rng: &mut Rng, state: &BlockageState, mut steps: u64) {
        while steps > 0 && !self.done() {
            let mean = state.rate.as_bps() as f64;
            let target = mean * (1.0 + state.spread * rng.normal_f64());
            let target = target.clamp(0.0, 2.0 * mean);
            let hold = steps.min(between(rng, HOLD_MS) / STEP_MS);
            let ramp = between(rng, RAMP_MS) / STEP_MS;
            let from = self.level.unwrap_or(target);
            let mut level = target;
            for step in 1..=hold {
                if self.done() {
                    return;
                }
                let part = if step < ramp { step as f64 / ramp as f64 } else { 1.0 };
                level = from + (target - from) * part;
                self.rates.push(Bitrate::bps(level as u64));
            }
            self.level = Some(level);
            steps -= hold;
        }
    }
}

/// A uniform integer of the closed range.
fn between(rng: &mut Rng, [low, high]: [u64; 2]) -> u64 {
    low + rng.below(high - low + 1)
}

/// A link that carries a constant rate and goes away for a while now and then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The rate while it is there.
    pub rate: Bitrate,
    /// The shortest and the longest time it is there; each time is drawn uniformly, in ms.
    pub up: [Duration; 2],
    /// The shortest and the longest time it is away.
    pub down: [Duration; 2],
}

impl Outage {
    /// The changes of rate over `duration`, as `(start, rate)`; the link begins there.
    pub(crate) fn steps(&self, rng: &mut Rng, duration: Duration) -> Vec<(Duration, Bitrate)> {
        let mut draw = |[low, high]: [Duration; 2]| {
            let [low, high] = [nanos(low) / 1_000_000, nanos(high) / 1_000_000];
            Duration::from_millis(between(rng, [low, high]).max(1))
        };
        let (mut steps, mut time) = (Vec::new(), Duration::ZERO);
        while time < duration {
            steps.push((time, self.rate));
            time += draw(self.up);
            if time < duration {
                steps.push((time, Bitrate::ZERO));
            }
            time += draw(self.down);
        }
        steps
    }
}

#[cfg(test)]
mod tests;
