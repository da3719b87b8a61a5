//! What acknowledgements change: the scoreboard, the round-trip time, recovery, the window.

use super::*;

impl Sender {
    /// Takes an acknowledgement. `coupling` shows the connection's other subflows.
    pub(in crate::tcp) fn handle_ack(
        &mut self,
        ack: &Segment,
        now_ns: u64,
        coupling: &Coupling<'_>,
    ) {
        assert!(ack.ack <= self.nxt, "bytes are acknowledged that were never sent");
        self.limit = self.limit.max(ack.limit);
        let prior_pipe = self.board.pipe();
        let moved = ack.ack > self.una;
        let mut delivery = self.board.begin_ack(moved.then_some(ack.echo_ns));
        for (index, block) in ack.blocks().enumerate() {
            if index == 0 && ack.dsack {
                self.board.widen_reordering();
            } else if block.end > self.una.max(ack.ack) {
                let block = block.start.max(self.una)..block.end.min(self.nxt);
                self.board.take_sack(block, now_ns, &self.rtt, &mut delivery);
            }
        }
        if moved {
            self.board.take_ack(ack.ack, now_ns, &self.rtt, &mut delivery);
            self.una = ack.ack;
            self.stats.delivered_bytes = ack.ack;
            self.rto_backoff = 0;
            self.rto_from_ns = now_ns;
        }
        let sample = self.take_rtt(ack, moved, &delivery, now_ns);
        self.delivered += delivery.segments;
        self.stats.delivered = self.delivered;
        if delivery.segments > 0 {
            self.delivered_ns = now_ns;
        }
        if moved {
            self.check_spurious(ack);
        }
        let in_recovery = self.phase != Phase::Open;
        let (mut lost, reorder_at) = self.board.detect(in_recovery, now_ns, &self.rtt);
        self.reorder_at_ns = reorder_at;
        let repaired = self.take_probe(ack, moved);
        self.leave_recovery(now_ns);
        if repaired && self.phase == Phase::Open {
            self.repaired_by_probe(now_ns, coupling);
        }
        self.enter_recovery(now_ns, prior_pipe, coupling);
        lost += u64::from(repaired);
        let rate = self.rate_sample(&delivery, lost, now_ns);
        if let Some((_, xmit_ns)) = delivery.rate {
            // The next flight begins with what was sent last of this one.
            self.first_ns = xmit_ns;
        }
        self.keep_rate(&rate);
        let sample = AckSample {
            rtt: sample.map(Duration::from_nanos),
            prior_in_flight: prior_pipe,
            newly_lost: lost,
            rate,
            ..self.ack_sample(&delivery, now_ns)
        };
        if delivery.segments > 0 || lost > 0 {
            // A window that counts acknowledgements does not grow on selective ones alone (Linux,
            // `tcp_may_raise_cwnd`).
            let counts = moved || self.control.owns_recovery();
            let delivered = if counts { sample.delivered } else { 0 };
            self.control.on_ack(&AckSample { delivered, ..sample }, coupling);
        }
        if let Some(prr) = &mut self.prr
            && (delivery.segments > 0 || lost > 0)
        {
            prr.on_ack(delivery.segments, self.board.pipe(), moved && lost == 0);
        }
        self.arm_probe(now_ns);
    }

    pub(super) fn ack_sample(&self, delivery: &Delivery, now_ns: u64) -> AckSample {
        AckSample {
            now: Instant::from_nanos(now_ns),
            delivered: delivery.segments,
            srtt: Duration::from_nanos(self.rtt.srtt_ns()),
            min_rtt: Duration::from_nanos(self.rtt.min_ns().unwrap_or(0)),
            in_flight: self.board.pipe(),
            cwnd_limited: self.is_window_limited(),
            phase: self.phase,
            total_delivered: self.delivered,
            total_lost: self.board.lost_total(),
            una: self.una,
            nxt: self.nxt,
            ..AckSample::default()
        }
    }

    /// Samples the round-trip time; gives the youngest segment's for the congestion control.
    pub(super) fn take_rtt(
        &mut self,
        ack: &Segment,
        moved: bool,
        delivery: &Delivery,
        now_ns: u64,
    ) -> Option<u64> {
        let by_echo = || (moved && ack.echo_ns > 0).then(|| now_ns - ack.echo_ns);
        let smoothed = delivery.oldest_ns.map(|sent| now_ns - sent).or_else(by_echo);
        let smoothed = smoothed.or(delivery.sacked_ns.map(|sent| now_ns - sent));
        let youngest = delivery.newest_ns.map(|sent| now_ns - sent);
        let youngest = youngest.or(delivery.sacked_ns.map(|sent| now_ns - sent)).or(smoothed);
        if let Some(sample) = smoothed {
            self.rtt.add(sample);
        }
        if let Some(sample) = youngest {
            self.rtt.add_min(sample);
        }
        youngest
    }

    /// The delivery rate over the flight that ends with this acknowledgement.
    pub(super) fn rate_sample(&self, delivery: &Delivery, lost: u64, now_ns: u64) -> RateSample {
        let Some((stamp, xmit_ns)) = delivery.rate else { return RateSample::default() };
        let sending = xmit_ns - stamp.first_ns;
        let acking = now_ns - stamp.delivered_ns;
        let interval = sending.max(acking);
        if interval == 0 || self.rtt.min_ns().is_some_and(|least| interval < least) {
            return RateSample { prior_delivered: stamp.delivered, lost, ..RateSample::default() };
        }
        RateSample {
            delivered: self.delivered - stamp.delivered,
            interval: Duration::from_nanos(interval),
            prior_delivered: stamp.delivered,
            app_limited: stamp.app_limited,
            lost,
        }
    }

    /// A timeout was for nothing if what is acknowledged was sent before the retransmission
    /// (RFC 3522, RFC 4015; Linux's `tcp_try_undo_loss` by time stamps).
    pub(super) fn check_spurious(&mut self, ack: &Segment) {
        let Some(since) = self.resent_since_ns else { return };
        if self.phase == Phase::Loss && ack.echo_ns > 0 && ack.echo_ns < since {
            self.board.unmark_lost();
            self.control.on_spurious();
            self.stats.spurious += 1;
            self.phase = Phase::Open;
            self.forced = None;
            self.resent_since_ns = None;
        }
    }

    pub(super) fn take_probe(&mut self, ack: &Segment, moved: bool) -> bool {
        let Some(probe) = self.probe else { return false };
        if !moved || ack.ack < probe.end {
            return false;
        }
        self.probe = None;
        // An answer to the original and to the probe shows as a duplicate; without one, the probe
        // has repaired a loss that nothing else tells of (RFC 8985 §7.4.2).
        probe.resent && !ack.dsack && ack.ack == probe.end
    }

    pub(super) fn repaired_by_probe(&mut self, now_ns: u64, coupling: &Coupling<'_>) {
        self.control.on_congestion(&self.loss_event(now_ns), coupling);
        self.control.on_recovery_end(Instant::from_nanos(now_ns));
    }

    pub(super) fn loss_event(&self, now_ns: u64) -> LossEvent {
        LossEvent {
            now: Instant::from_nanos(now_ns),
            in_flight: self.board.pipe(),
            srtt: Duration::from_nanos(self.rtt.srtt_ns()),
            nxt: self.nxt,
        }
    }

    pub(super) fn enter_recovery(&mut self, now_ns: u64, prior_pipe: u64, coupling: &Coupling<'_>) {
        if self.phase != Phase::Open || self.board.lost() == 0 {
            return;
        }
        self.phase = Phase::Recovery;
        self.recovery_point = self.nxt;
        self.probe = None;
        self.stats.recoveries += 1;
        self.control.on_congestion(&self.loss_event(now_ns), coupling);
        if !self.control.owns_recovery() {
            let ssthresh = (self.control.cwnd() as u64).max(1);
            self.prr = Some(Prr::new(prior_pipe, ssthresh));
        }
    }

    pub(super) fn leave_recovery(&mut self, now_ns: u64) {
        if self.phase == Phase::Open || self.una < self.recovery_point {
            return;
        }
        if self.phase == Phase::Recovery {
            self.board.recovery_ended();
        }
        self.phase = Phase::Open;
        self.prr = None;
        self.resent_since_ns = None;
        self.control.on_recovery_end(Instant::from_nanos(now_ns));
    }
}
