//! Validation of the window: whether it is used, and what becomes of one that is not.

use super::*;

impl Sender {
    /// The application has no more to send. If the window has room, the rates measured from here on
    /// are the application's, until what is in flight has been delivered (Linux,
    /// `tcp_rate_check_app_limited`).
    pub(in crate::tcp) fn note_app_limited(&mut self) {
        if self.nxt == self.end && self.board.pipe() < self.window() {
            self.app_limited_until = (self.delivered + self.board.pipe()).max(1);
        }
    }

    /// Notes whether the window was what stopped sending (Linux, `tcp_cwnd_validate`).
    pub(super) fn note_limited(&mut self, limited: bool) {
        let out = self.board.outstanding();
        if self.una >= self.round_end || limited || (!self.window_limited && out > self.most_out) {
            self.window_limited = limited;
            self.most_out = out;
            self.round_end = self.nxt;
        }
        if limited || self.is_window_limited() {
            self.window_used = 0;
            self.window_used_at_ns = self.last_send_ns;
            return;
        }
        self.window_used = self.window_used.max(out);
        let unused_for = self.last_send_ns.saturating_sub(self.window_used_at_ns);
        if self.phase == Phase::Open && unused_for >= self.rtt.rto_ns(0) && self.nxt == self.end {
            let used = (self.window_used as f64).max(self.initial_cwnd);
            if used < self.control.cwnd() {
                self.control.on_unused_window(f64::midpoint(self.control.cwnd(), used));
            }
            self.window_used = 0;
            self.window_used_at_ns = self.last_send_ns;
        }
    }

    /// Whether the window may grow (Linux, `tcp_is_cwnd_limited`).
    pub(super) fn is_window_limited(&self) -> bool {
        let slow_start = self.control.cwnd() < self.control.ssthresh();
        self.window_limited || (slow_start && self.control.cwnd() < 2.0 * self.most_out as f64)
    }

    /// After a pause of some retransmission timeouts the window is halved as often (RFC 2861;
    /// Linux, `tcp_cwnd_restart`).
    pub(super) fn consider_idle(&mut self, now_ns: u64) {
        if self.board.outstanding() > 0 || self.nxt == self.end || self.last_send_ns == 0 {
            return;
        }
        let rto = self.rtt.rto_ns(0);
        let mut idle = now_ns - self.last_send_ns;
        let mut cwnd = self.control.cwnd();
        let before = cwnd;
        while idle > rto && cwnd > self.initial_cwnd {
            idle -= rto;
            cwnd = (cwnd / 2.0).max(self.initial_cwnd);
        }
        if cwnd < before {
            self.control.on_unused_window(cwnd);
            self.window_used = 0;
            self.window_used_at_ns = now_ns;
        }
        self.last_send_ns = now_ns;
    }
}
