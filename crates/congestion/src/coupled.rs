//! What LIA, OLIA and BALIA share: Reno whose increase and decrease depend on the connection's
//! other subflows.

use std::time::Duration;

use crate::hystart::SlowStarter;
use crate::window::Window;
use crate::{AckSample, Config, CongestionControl, Coupling, LossEvent, Member, Phase};

/// What sets one coupled control apart.
pub(crate) trait Rule: Default + Send + std::fmt::Debug {
    /// The increase as a multiple of Reno's (one segment per window acknowledged): 1 for a
    /// subflow that is alone.
    fn increase(coupling: &Coupling<'_>) -> f64;

    /// The share of its window that a subflow gives up on loss.
    fn decrease(coupling: &Coupling<'_>) -> f64 {
        let _ = coupling;
        0.5
    }

    /// Bytes have been delivered.
    fn on_delivered(&mut self, bytes: f64) {
        let _ = bytes;
    }

    /// A loss has been found.
    fn on_loss(&mut self) {}

    /// [`Member::epoch_bytes`].
    fn epoch_bytes(&self) -> f64 {
        0.0
    }
}

/// The sums over the subflows that the formulas are made of, each relative to the control's own
/// window `w` and round-trip time `r`. For a subflow that is alone all are exactly 1, so that the
/// formulas reduce to Reno's without rounding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Relative {
    /// Σ wᵢ/rᵢ ÷ (w/r).
    pub(crate) rates: f64,
    /// max wᵢ/rᵢ ÷ (w/r).
    pub(crate) best_rate: f64,
    /// max wᵢ/rᵢ² ÷ (w/r²).
    pub(crate) best_growth: f64,
}

impl Relative {
    /// Leaves out subflows whose round-trip time is not yet known.
    pub(crate) fn to_own(coupling: &Coupling<'_>) -> Self {
        let alone = Self { rates: 1.0, best_rate: 1.0, best_growth: 1.0 };
        let Some(own) = coupling.members.get(coupling.me).filter(|own| own.srtt_s > 0.0) else {
            return alone;
        };
        let mut sums = Self { rates: 0.0, ..alone };
        for member in coupling.members.iter().filter(|member| member.srtt_s > 0.0) {
            let window = member.cwnd / own.cwnd;
            let speed = own.srtt_s / member.srtt_s;
            sums.rates += window * speed;
            sums.best_rate = sums.best_rate.max(window * speed);
            sums.best_growth = sums.best_growth.max(window * speed * speed);
        }
        sums
    }
}

/// A coupled control; see the [module](self).
#[derive(Debug)]
pub(crate) struct Coupled<R> {
    mss: f64,
    window: Window,
    slow_start: SlowStarter,
    rule: R,
}

impl<R: Rule + 'static> Coupled<R> {
    pub(crate) fn make(config: &Config) -> Box<dyn CongestionControl> {
        Box::new(Self {
            mss: config.mss as f64,
            window: Window::new(config),
            slow_start: SlowStarter::rfc(config),
            rule: R::default(),
        })
    }

    fn reduction(&mut self, coupling: &Coupling<'_>) -> f64 {
        self.rule.on_loss();
        self.window.whole() * (1.0 - R::decrease(coupling))
    }
}

impl<R: Rule + 'static> CongestionControl for Coupled<R> {
    fn on_ack(&mut self, ack: &AckSample, coupling: &Coupling<'_>) {
        self.rule.on_delivered(ack.delivered as f64 * self.mss);
        if ack.phase == Phase::Recovery {
            return;
        }
        let left = self.slow_start.on_ack(ack, &mut self.window);
        if left > 0.0 {
            self.window.advance(left * R::increase(coupling));
        }
    }

    fn on_congestion(&mut self, _: &LossEvent, coupling: &Coupling<'_>) {
        let to = self.reduction(coupling);
        self.window.reduce(to);
    }

    fn on_timeout(&mut self, _: &LossEvent, first: bool, coupling: &Coupling<'_>) {
        let to = first.then(|| self.reduction(coupling));
        self.window.collapse(to);
    }

    fn on_spurious(&mut self) {
        self.window.restore();
    }

    fn on_penalty(&mut self) {
        self.window.penalise();
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

    fn member(&self, srtt: Duration) -> Member {
        Member {
            cwnd: self.cwnd(),
            srtt_s: srtt.as_secs_f64(),
            epoch_bytes: self.rule.epoch_bytes(),
        }
    }
}
