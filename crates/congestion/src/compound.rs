//! Compound TCP: Reno's window and beside it one that grows fast while there is no queue
//! (draft-sridharan-tcpm-ctcp-02; Tan et al., INFOCOM 2006). The constants are the draft's.

use std::time::Duration;

use crate::hystart::SlowStarter;
use crate::window::Window;
use crate::{AckSample, Config, CongestionControl, Coupling, LossEvent, Phase};

/// The delay window's increase per round trip is `ALPHA × win^0.75 − 1` segments.
const ALPHA: f64 = 1.0 / 8.0;
/// The share of the window that goes on loss.
const BETA: f64 = 0.5;
/// Segments of delay window that go for each segment of queue.
const ZETA: f64 = 1.0;
/// A queue of so many segments ends the increase, to begin with and at most, and at least
/// (`γ`).
pub(crate) const GAMMA_MAX: f64 = 30.0;
const GAMMA_MIN: f64 = 5.0;
/// The share of its queue at loss that Reno's would have to leave room for.
const GAMMA_SHARE: f64 = 0.75;
/// The weight of the newest measurement in `γ`.
const GAMMA_WEIGHT: f64 = 0.8;
/// Below so many segments the delay window stays shut: Reno does as well there (`W_low`).
const LOW_WINDOW: f64 = 38.0;
/// A round with fewer round-trip times says nothing.
const MIN_SAMPLES: u32 = 3;

/// The delay window's increase for a round without queue, in segments. `win^0.75` is taken by
/// square roots, which are exact everywhere.
pub(crate) fn increase(win: f64) -> f64 {
    let root = win.sqrt();
    (ALPHA * root * root.sqrt() - 1.0).max(0.0)
}

/// The segments of a window of `win` that stand in queues.
pub(crate) fn backlog(win: f64, base: Duration, rtt: Duration) -> f64 {
    if rtt <= base {
        return 0.0;
    }
    win * (1.0 - base.as_secs_f64() / rtt.as_secs_f64())
}

/// The delay window of the next round.
pub(crate) fn next_delay_window(win: f64, dwnd: f64, backlog: f64, gamma: f64) -> f64 {
    if backlog < gamma { dwnd + increase(win) } else { (dwnd - ZETA * backlog).max(0.0) }
}

/// The delay window after a loss.
pub(crate) fn delay_window_after_loss(cwnd: f64, dwnd: f64) -> f64 {
    ((cwnd + dwnd) * (1.0 - BETA) - cwnd / 2.0).max(0.0)
}

/// Compound TCP; see the [module](self).
#[derive(Debug)]
pub(crate) struct Compound {
    /// Reno's part.
    window: Window,
    slow_start: SlowStarter,
    delay: Delay,
    /// The delay part before the last reduction.
    before: Option<Delay>,
    round: Round,
}

/// The delay-based part.
#[derive(Clone, Copy, Debug)]
struct Delay {
    /// In segments.
    window: f64,
    /// The share of `ssthresh` that is its own, in segments.
    threshold: f64,
    gamma: f64,
    /// Where Reno would be that had the same window after the last loss, in segments.
    reno: f64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Round {
    end: u64,
    samples: u32,
    total: Duration,
    /// The mean round-trip time of the last round that had enough samples.
    rtt: Duration,
    base: Duration,
}

impl Compound {
    pub(crate) fn make(config: &Config) -> Box<dyn CongestionControl> {
        Box::new(Self {
            window: Window::new(config),
            slow_start: SlowStarter::rfc(config),
            delay: Delay { window: 0.0, threshold: 0.0, gamma: GAMMA_MAX, reno: 0.0 },
            before: None,
            round: Round::default(),
        })
    }

    fn avoid(&mut self, acked: f64) {
        // One segment per whole window of both parts; Reno to the bit while the delay part is 0.
        let share = self.window.whole() / (self.window.whole() + self.delay.window.floor());
        self.window.advance(acked * share);
        self.delay.reno += acked / self.cwnd();
    }

    /// Takes a round-trip time; at the end of a round in congestion avoidance the delay window
    /// grows or shrinks.
    fn measure(&mut self, ack: &AckSample) {
        if let Some(rtt) = ack.rtt {
            self.round.samples += 1;
            self.round.total += rtt;
        }
        if ack.una < self.round.end {
            return;
        }
        let round = &mut self.round;
        round.end = ack.nxt;
        let samples = std::mem::take(&mut round.samples);
        let total = std::mem::take(&mut round.total);
        if samples < MIN_SAMPLES {
            return;
        }
        round.rtt = total / samples;
        round.base = ack.min_rtt;
        if ack.phase == Phase::Open && ack.cwnd_limited && !self.window.in_slow_start() {
            self.adapt();
        }
    }

    fn adapt(&mut self) {
        let win = self.cwnd();
        let backlog = backlog(win, self.round.base, self.round.rtt);
        if win >= LOW_WINDOW || backlog >= self.delay.gamma {
            let Delay { window, gamma, .. } = self.delay;
            self.delay.window = next_delay_window(win, window, backlog, gamma);
        }
    }

    /// On loss: `γ` learns from the queue that Reno would have had, so that small buffers, too,
    /// leave the delay part a chance to see the queue before it overflows.
    fn tune(&mut self) {
        let queue = backlog(self.delay.reno, self.round.base, self.round.rtt);
        if queue > GAMMA_MIN {
            let measured = GAMMA_SHARE * queue;
            let gamma = (1.0 - GAMMA_WEIGHT) * self.delay.gamma + GAMMA_WEIGHT * measured;
            self.delay.gamma = gamma.clamp(GAMMA_MIN, GAMMA_MAX);
        }
    }
}

impl CongestionControl for Compound {
    fn on_ack(&mut self, ack: &AckSample, _: &Coupling<'_>) {
        self.measure(ack);
        if ack.phase == Phase::Recovery {
            return;
        }
        let left = self.slow_start.on_ack(ack, &mut self.window);
        if left > 0.0 {
            self.avoid(left);
        }
    }

    fn on_congestion(&mut self, _: &LossEvent, _: &Coupling<'_>) {
        self.before = Some(self.delay);
        self.tune();
        let dwnd = delay_window_after_loss(self.window.whole(), self.delay.window);
        self.delay.window = dwnd;
        self.delay.threshold = dwnd;
        self.window.reduce(self.window.whole() / 2.0);
        self.delay.reno = self.cwnd();
    }

    fn on_timeout(&mut self, _: &LossEvent, first: bool, _: &Coupling<'_>) {
        let half = first.then_some((self.window.whole() + self.delay.window) / 2.0);
        if first {
            self.before = Some(self.delay);
            self.tune();
        }
        self.window.collapse(half);
        self.delay.window = 0.0;
        self.delay.threshold = 0.0;
        self.delay.reno = self.window.ssthresh();
    }

    fn on_spurious(&mut self) {
        self.window.restore();
        if let Some(before) = self.before.take() {
            self.delay = before;
        }
    }

    fn on_penalty(&mut self) {
        self.window.penalise();
        self.delay.window = (self.delay.window / 2.0).floor();
        self.delay.threshold = (self.delay.threshold / 2.0).floor();
    }

    fn on_unused_window(&mut self, cwnd: f64) {
        if cwnd < self.cwnd() {
            // Both parts in proportion, so that the whole is `cwnd`.
            let share = cwnd / self.cwnd();
            self.delay.window *= share;
            self.window.shrink(self.window.whole() * share);
        }
    }

    /// Both windows.
    fn cwnd(&self) -> f64 {
        self.window.cwnd() + self.delay.window
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh() + self.delay.threshold
    }
}
