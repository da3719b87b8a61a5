//! CUBIC: RFC 9438 with the choices of Linux's tcp_cubic.c.

use std::time::Duration;

use weftline_core::Instant;

use crate::hystart::SlowStarter;
use crate::window::Window;
use crate::{AckSample, Config, CongestionControl, Coupling, LossEvent, Phase};

/// The multiplicative decrease: 0.7 in RFC 9438 §4.6, in Linux's fixed point.
pub(crate) const BETA: f64 = 717.0 / 1024.0;
/// The aggressiveness in segments/s³ (RFC 9438 §5).
pub(crate) const C: f64 = 0.4;
/// The increase in segments per window that gives a control with a decrease of 0.7 Reno's mean
/// window: 3 (1 − β) / (1 + β) (RFC 9438 §4.3). As in Linux it stays so once the window of the
/// last loss has been passed, where the RFC goes on by 1: that makes the mean window under
/// independent losses a tenth larger than Reno's, while Linux's is measured a little below it.
pub(crate) const ALPHA: f64 = 9.0 / 17.0;
/// The window grows at most by this much per segment acknowledged, 1.5 times per round trip
/// (RFC 9438 §4.2; `cnt` ≥ 2 in tcp_cubic.c).
const MAX_GROWTH: f64 = 0.5;
/// Without a `W_max` from an earlier loss it grows at least by this much per segment acknowledged
/// (`cnt` ≤ 20, 5 % per round trip, tcp_cubic.c).
const FIRST_EPOCH_GROWTH: f64 = 1.0 / 20.0;
/// At or above the curve it grows by this share of a segment per window (`cnt` = 100 `cwnd`,
/// tcp_cubic.c).
const CREEP: f64 = 1.0 / 100.0;
/// So long after an epoch began, delays are those of the recovery and say nothing (tcp_cubic.c).
const DELAY_SILENCE: Duration = Duration::from_secs(1);

/// CUBIC; see the [module](self).
#[derive(Debug)]
pub(crate) struct Cubic {
    window: Window,
    slow_start: SlowStarter,
    curve: Curve,
    /// The curve before the last reduction.
    before: Option<Curve>,
    /// The least round-trip time since the last timeout.
    delay_min: Option<Duration>,
    last_ack: Instant,
}

/// What a loss leaves behind and a spurious one gets back.
#[derive(Clone, Copy, Debug, Default)]
struct Curve {
    /// Where the last loss hit, in segments, less under fast convergence; 0 before the first.
    w_max: f64,
    epoch: Option<Epoch>,
}

/// A stretch of congestion avoidance.
#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// When the plateau is reached, in seconds after the start.
    k_s: f64,
    /// The plateau in segments.
    origin: f64,
    /// The window that Reno would have (`W_est`), in segments.
    w_est: f64,
}

impl Epoch {
    fn begin(now: Instant, cwnd: f64, w_max: f64) -> Self {
        let (k_s, origin) = if w_max > cwnd { (k_s(w_max, cwnd), w_max) } else { (0.0, cwnd) };
        Self { start: now, k_s, origin, w_est: cwnd }
    }

    /// The curve at `t_s` seconds after the start, in segments (RFC 9438, figure 1).
    fn at(&self, t_s: f64) -> f64 {
        let from_plateau_s = t_s - self.k_s;
        self.origin + C * from_plateau_s * from_plateau_s * from_plateau_s
    }
}

/// How long the curve takes from `cwnd` to `w_max`, in seconds (RFC 9438, figure 2).
pub(crate) fn k_s(w_max: f64, cwnd: f64) -> f64 {
    cube_root((w_max - cwnd) / C)
}

/// The curve at `t_s` seconds after a loss at `w_max`, in segments (RFC 9438, figure 1).
#[cfg(test)]
pub(crate) fn window_at(w_max: f64, t_s: f64) -> f64 {
    Epoch::begin(Instant::ZERO, 0.7 * w_max, w_max).at(t_s)
}

/// The plateau of the next epoch after a loss at `cwnd`, given the last one: lower if the window
/// did not reach it again, which makes room for others (fast convergence, RFC 9438 §4.7).
pub(crate) fn next_w_max(cwnd: f64, last: f64) -> f64 {
    if cwnd < last { (cwnd * (1.0 + BETA) / 2.0).floor() } else { cwnd }
}

/// The cube root by Newton's method: additions, multiplications and divisions only, so the same
/// bits everywhere. 0 for `x ≤ 0`.
pub(crate) fn cube_root(x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    // A third of the exponent is within a few percent of the root; each step squares the error.
    let mut root = f64::from_bits(x.to_bits() / 3 + (1023_u64 << 52) / 3 * 2);
    for _ in 0..5 {
        root = (2.0 * root + x / (root * root)) / 3.0;
    }
    root
}

impl Cubic {
    pub(crate) fn make(config: &Config) -> Box<dyn CongestionControl> {
        Box::new(Self {
            window: Window::new(config),
            slow_start: SlowStarter::cubic(config),
            curve: Curve::default(),
            before: None,
            delay_min: None,
            last_ack: Instant::default(),
        })
    }

    fn observe(&mut self, ack: &AckSample) {
        let Some(rtt) = ack.rtt else { return };
        if self.curve.epoch.is_some_and(|epoch| ack.now.since(epoch.start) < DELAY_SILENCE) {
            return;
        }
        let base = self.delay_min.map_or(rtt, |least| least.min(rtt));
        self.delay_min = Some(base);
        if let SlowStarter::Classic(hystart) = &mut self.slow_start
            && self.window.in_slow_start()
            && hystart.ends(ack, rtt, base, self.window.whole())
        {
            self.window.end_slow_start();
        }
    }

    /// Congestion avoidance: towards where the curve will be one round trip on, or where Reno is,
    /// whichever is more.
    fn avoid(&mut self, now: Instant, acked: f64) {
        let cwnd = self.window.cwnd();
        let w_max = self.curve.w_max;
        let epoch = self.curve.epoch.get_or_insert_with(|| Epoch::begin(now, cwnd, w_max));
        let ahead = now.since(epoch.start) + self.delay_min.unwrap_or_default();
        let target = epoch.at(ahead.as_secs_f64());
        let mut growth = (target - cwnd).max(CREEP) / cwnd;
        if w_max == 0.0 {
            growth = growth.max(FIRST_EPOCH_GROWTH);
        }
        epoch.w_est += ALPHA * acked / cwnd;
        let most = cwnd + acked * MAX_GROWTH;
        self.window.set((cwnd + acked * growth).max(epoch.w_est).min(most));
    }

    /// The threshold after a loss; the next epoch's plateau is remembered.
    fn reduction(&mut self) -> f64 {
        let cwnd = self.window.whole();
        self.before = Some(self.curve);
        self.curve = Curve { w_max: next_w_max(cwnd, self.curve.w_max), epoch: None };
        cwnd * BETA
    }
}

impl CongestionControl for Cubic {
    fn on_ack(&mut self, ack: &AckSample, _: &Coupling<'_>) {
        self.observe(ack);
        self.last_ack = ack.now;
        if ack.phase == Phase::Recovery {
            return;
        }
        let left = self.slow_start.on_ack(ack, &mut self.window);
        if left > 0.0 {
            self.avoid(ack.now, left);
        }
    }

    fn on_congestion(&mut self, _: &LossEvent, _: &Coupling<'_>) {
        let to = self.reduction();
        self.window.reduce(to);
    }

    /// As in Linux, everything learnt is forgotten: the curve of the next epoch starts flat at
    /// the window that it finds.
    fn on_timeout(&mut self, _: &LossEvent, first: bool, _: &Coupling<'_>) {
        let to = first.then(|| self.reduction());
        self.window.collapse(to);
        self.curve = Curve::default();
        self.delay_min = None;
        if let SlowStarter::Classic(hystart) = &mut self.slow_start {
            hystart.reset();
        }
    }

    /// RFC 9438 §4.9: the curve goes on, too.
    fn on_spurious(&mut self) {
        self.window.restore();
        if let Some(curve) = self.before.take() {
            self.curve = curve;
        }
    }

    /// The epoch is shifted by the time of silence, so that the curve goes on where it was
    /// (RFC 9438 §5.8; `bictcp_cwnd_event`, tcp_cubic.c).
    fn on_restart(&mut self, now: Instant) {
        if let Some(epoch) = &mut self.curve.epoch {
            epoch.start = (epoch.start + now.since(self.last_ack)).min(now);
        }
    }

    fn on_penalty(&mut self) {
        self.window.penalise();
        self.curve.epoch = None;
    }

    fn on_unused_window(&mut self, cwnd: f64) {
        self.window.shrink(cwnd);
    }

    fn cwnd(&self) -> f64 {
        self.window.cwnd()
    }

    fn ssthresh(&self) -> f64 {
        self.window.ssthresh()
    }
}
