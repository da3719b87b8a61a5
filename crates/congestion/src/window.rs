//! The congestion window of the loss-based controls, and what all of them do with it: slow start,
//! one segment per window, reductions and taking them back.

use crate::Config;

/// The least slow start threshold in segments (RFC 5681, equation 4).
pub(crate) const MIN_SSTHRESH: f64 = 2.0;

/// A window counted in whole segments, with the acknowledged segments collected towards the next
/// one beside it (RFC 3465's byte counting in segments; `snd_cwnd` and `snd_cwnd_cnt` of Linux's
/// tcp_cong.c). Counting instead of adding `1 / cwnd` makes a window of `w` grow by exactly one
/// per `w` acknowledged, and a coupled control that is alone grow exactly as Reno does.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    whole: f64,
    /// In segments acknowledged; `whole` of them make the next segment of window.
    credit: f64,
    ssthresh: f64,
    /// Window and threshold before the last reduction.
    before: Option<(f64, f64)>,
}

impl Window {
    pub(crate) fn new(config: &Config) -> Self {
        let whole = (config.initial_cwnd as f64).max(1.0);
        Self { whole, credit: 0.0, ssthresh: f64::INFINITY, before: None }
    }

    /// In segments, the fraction collected towards the next included.
    pub(crate) fn cwnd(&self) -> f64 {
        self.whole + self.credit / self.whole
    }

    /// In whole segments.
    pub(crate) fn whole(&self) -> f64 {
        self.whole
    }

    pub(crate) fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    pub(crate) fn in_slow_start(&self) -> bool {
        self.whole < self.ssthresh
    }

    /// Leaves slow start here: the threshold becomes the window.
    pub(crate) fn end_slow_start(&mut self) {
        self.ssthresh = self.whole.max(MIN_SSTHRESH);
    }

    /// Grows by `acked` up to the threshold; returns what is left for congestion avoidance.
    pub(crate) fn slow_start(&mut self, acked: f64) -> f64 {
        let used = acked.min(self.ssthresh - self.whole).max(0.0);
        self.add(used);
        acked - used
    }

    /// Grows by one segment per window of `credit`, which is Reno's when it is the segments
    /// acknowledged; a negative credit shrinks, to 1 at the least.
    pub(crate) fn advance(&mut self, credit: f64) {
        self.credit += credit;
        while self.credit >= self.whole {
            self.credit -= self.whole;
            self.whole += 1.0;
        }
        while self.credit < 0.0 {
            if self.whole <= 1.0 {
                self.credit = 0.0;
                break;
            }
            self.whole -= 1.0;
            self.credit += self.whole;
        }
    }

    /// Grows by `segments`, which may be a fraction.
    pub(crate) fn add(&mut self, segments: f64) {
        self.set(self.cwnd() + segments);
    }

    /// Sets the window in segments, at least 1.
    pub(crate) fn set(&mut self, cwnd: f64) {
        let cwnd = cwnd.max(1.0);
        self.whole = cwnd.floor();
        self.credit = (cwnd - self.whole) * self.whole;
    }

    /// Lowers the threshold to `to` in whole segments, at least 2, and the window to it.
    pub(crate) fn reduce(&mut self, to: f64) {
        self.before = Some((self.cwnd(), self.ssthresh));
        self.ssthresh = to.floor().max(MIN_SSTHRESH);
        self.set(self.cwnd().min(self.ssthresh));
    }

    /// A timeout: the window becomes the loss window of one segment (RFC 5681 §3.1). `to` is the
    /// new threshold; none if an expiry of the same loss has set it already.
    pub(crate) fn collapse(&mut self, to: Option<f64>) {
        if let Some(to) = to {
            self.reduce(to);
        }
        self.set(1.0);
    }

    /// Takes the last reduction back (RFC 4015; as in Linux, never downwards).
    pub(crate) fn restore(&mut self) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            self.set(self.cwnd().max(cwnd));
            self.ssthresh = self.ssthresh.max(ssthresh);
        }
    }

    /// See [`on_penalty`](crate::CongestionControl::on_penalty).
    pub(crate) fn penalise(&mut self) {
        if !self.in_slow_start() {
            self.ssthresh = (self.ssthresh / 2.0).floor().max(MIN_SSTHRESH);
        }
        self.set((self.whole / 2.0).floor());
    }

    /// See [`on_unused_window`](crate::CongestionControl::on_unused_window).
    pub(crate) fn shrink(&mut self, cwnd: f64) {
        if cwnd < self.whole {
            self.ssthresh = self.ssthresh.max((self.whole * 0.75).floor());
            self.set(cwnd.floor());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(cwnd: f64, ssthresh: f64) -> Window {
        let mut window = Window::new(&Config::default());
        window.set(cwnd);
        window.ssthresh = ssthresh;
        window
    }

    #[test]
    fn a_window_of_acknowledgements_is_one_segment() {
        let mut window = window(10.0, 5.0);
        for _ in 0..9 {
            window.advance(1.0);
        }
        assert_eq!(window.whole(), 10.0);
        assert_eq!(window.cwnd(), 10.9);
        window.advance(1.0);
        assert_eq!((window.whole(), window.cwnd()), (11.0, 11.0));
        window.advance(11.0 + 12.0 + 3.0);
        assert_eq!(window.cwnd(), 13.0 + 3.0 / 13.0);
    }

    #[test]
    fn negative_credit_shrinks_to_one() {
        let mut window = window(3.0, 2.0);
        window.advance(-1.0);
        assert_eq!(window.cwnd(), 2.5);
        window.advance(-100.0);
        assert_eq!(window.cwnd(), 1.0);
    }

    #[test]
    fn slow_start_stops_at_the_threshold() {
        let mut window = window(10.0, 14.0);
        assert_eq!(window.slow_start(3.0), 0.0);
        assert_eq!(window.slow_start(3.0), 2.0);
        assert_eq!(window.cwnd(), 14.0);
        assert!(!window.in_slow_start());
    }

    #[test]
    fn reductions_are_taken_back() {
        let mut window = window(21.5, f64::INFINITY);
        window.reduce(21.5 / 2.0);
        assert_eq!((window.cwnd(), window.ssthresh()), (10.0, 10.0));
        window.restore();
        assert_eq!((window.cwnd(), window.ssthresh()), (21.5, f64::INFINITY));
        window.restore();
        assert_eq!(window.cwnd(), 21.5);
        window.collapse(Some(10.0));
        window.collapse(None);
        assert_eq!((window.cwnd(), window.ssthresh()), (1.0, 10.0));
        window.restore();
        assert_eq!((window.cwnd(), window.ssthresh()), (21.5, f64::INFINITY));
    }

    #[test]
    fn an_unused_window_shrinks_and_is_remembered() {
        let mut window = window(100.0, 20.0);
        window.shrink(25.0);
        assert_eq!((window.cwnd(), window.ssthresh()), (25.0, 75.0));
        window.shrink(30.0);
        assert_eq!((window.cwnd(), window.ssthresh()), (25.0, 75.0));
    }

    #[test]
    fn a_penalty_spares_the_threshold_in_slow_start() {
        let mut starting = window(21.0, 40.0);
        starting.penalise();
        assert_eq!((starting.cwnd(), starting.ssthresh()), (10.0, 40.0));
        let mut avoiding = window(21.0, 20.0);
        avoiding.penalise();
        assert_eq!((avoiding.cwnd(), avoiding.ssthresh()), (10.0, 10.0));
    }
}
