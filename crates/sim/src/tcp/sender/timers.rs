//! The sender's timers: reordering, loss probe and retransmission.

use super::*;

/// What a lone segment's loss probe waits longer, for the receiver's delayed acknowledgement
/// (Linux, `TCP_RTO_MIN`).
const PROBE_ALONE_NS: u64 = 200 * MS;
/// What other probes wait longer (Linux, `TCP_TIMEOUT_MIN`, two ticks).
const PROBE_MIN_NS: u64 = 2 * MS;
/// The loss probe's timer before there is a sample (RFC 8985 §7.2).
const PROBE_FIRST_NS: u64 = SECOND;
impl Sender {
    /// When to call [`handle_timeout`](Self::handle_timeout), or to send, at the latest.
    pub(in crate::tcp) fn deadline_ns(&self) -> Option<u64> {
        let pace = (self.waits_for_pace()).then_some(self.pace_at_ns);
        let timers = self.reorder_at_ns.into_iter().chain(self.rto_at_ns()).chain(self.probe_at_ns);
        timers.chain(pace).min()
    }

    pub(super) fn waits_for_pace(&self) -> bool {
        self.burst_left == 0
            && self.own_pace().is_some()
            && self.board.pipe() < self.window()
            && (self.board.next_lost().is_some() || self.has_new())
    }

    /// Whether data wait for the peer's window to open, and nothing is on its way whose answer
    /// would tell.
    fn is_shut_out(&self) -> bool {
        self.board.outstanding() == 0 && self.nxt < self.end && !self.has_new()
    }

    pub(super) fn rto_at_ns(&self) -> Option<u64> {
        if self.board.outstanding() == 0 && !self.is_shut_out() {
            return None;
        }
        Some(self.rto_from_ns + self.rtt.rto_ns(self.rto_backoff))
    }

    /// Arms the loss probe, where there is reason to (RFC 8985 §7.2).
    pub(super) fn arm_probe(&mut self, now_ns: u64) {
        let out = self.board.outstanding();
        let wanted = self.phase == Phase::Open && out > 0 && self.board.sacked() == 0;
        if !wanted || self.probe.is_some() || self.reorder_at_ns.is_some() {
            self.probe_at_ns = None;
            return;
        }
        let alone = if out == 1 { PROBE_ALONE_NS } else { PROBE_MIN_NS };
        let wait = match self.rtt.is_known() {
            true => 2 * self.rtt.srtt_ns() + alone,
            false => PROBE_FIRST_NS,
        };
        let rto = self.rto_at_ns().unwrap_or(u64::MAX);
        self.probe_at_ns = Some((now_ns + wait).min(rto));
    }

    /// Does what is due at `now_ns`.
    pub(in crate::tcp) fn handle_timeout(&mut self, now_ns: u64, coupling: &Coupling<'_>) {
        if self.reorder_at_ns.is_some_and(|at| at <= now_ns) {
            let in_recovery = self.phase != Phase::Open;
            let prior_pipe = self.board.pipe();
            let (lost, reorder_at) = self.board.detect(in_recovery, now_ns, &self.rtt);
            self.reorder_at_ns = reorder_at;
            self.enter_recovery(now_ns, prior_pipe, coupling);
            if let Some(prr) = &mut self.prr
                && lost > 0
            {
                prr.on_ack(0, self.board.pipe(), false);
            }
        }
        if self.probe_at_ns.is_some_and(|at| at <= now_ns) {
            self.probe_at_ns = None;
            self.rto_from_ns = now_ns;
            self.forced = Some(Forced::Probe);
        } else if self.rto_at_ns().is_some_and(|at| at <= now_ns) {
            if self.is_shut_out() {
                self.rto_backoff += 1;
                self.rto_from_ns = now_ns;
                self.forced = Some(Forced::Window);
                return;
            }
            self.expire(now_ns, coupling);
        }
    }

    pub(super) fn expire(&mut self, now_ns: u64, coupling: &Coupling<'_>) {
        // A loss that has been answered is not answered again, unless what was sent again since got
        // through and was followed by another (Linux, `tcp_enter_loss`).
        let first = self.phase == Phase::Open
            || self.una >= self.recovery_point
            || (self.phase == Phase::Loss && self.rto_backoff == 0);
        self.stats.timeouts += 1;
        self.board.mark_timeout(now_ns, &self.rtt);
        self.phase = Phase::Loss;
        self.prr = None;
        self.probe = None;
        self.probe_at_ns = None;
        self.reorder_at_ns = None;
        self.recovery_point = self.nxt;
        self.control.on_timeout(&self.loss_event(now_ns), first, coupling);
        self.rto_backoff += 1;
        self.rto_from_ns = now_ns;
        self.forced = Some(Forced::Head);
        if first {
            self.resent_since_ns = None;
        }
    }
}
