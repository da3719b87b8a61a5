//! NewReno: RFC 5681 with byte counting (RFC 3465) and Linux's whole-segment arithmetic
//! (tcp_cong.c).

use crate::hystart::SlowStarter;
use crate::window::Window;
use crate::{AckSample, Config, CongestionControl, Coupling, LossEvent, Phase};

/// NewReno; see the [module](self).
#[derive(Debug)]
pub(crate) struct Reno {
    window: Window,
    slow_start: SlowStarter,
}

impl Reno {
    pub(crate) fn make(config: &Config) -> Box<dyn CongestionControl> {
        Box::new(Self { window: Window::new(config), slow_start: SlowStarter::rfc(config) })
    }
}

impl CongestionControl for Reno {
    fn on_ack(&mut self, ack: &AckSample, _: &Coupling<'_>) {
        if ack.phase == Phase::Recovery {
            return;
        }
        let left = self.slow_start.on_ack(ack, &mut self.window);
        self.window.advance(left);
    }

    fn on_congestion(&mut self, _: &LossEvent, _: &Coupling<'_>) {
        self.window.reduce(self.window.whole() / 2.0);
    }

    fn on_timeout(&mut self, _: &LossEvent, first: bool, _: &Coupling<'_>) {
        let half = self.window.whole() / 2.0;
        self.window.collapse(first.then_some(half));
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
}
