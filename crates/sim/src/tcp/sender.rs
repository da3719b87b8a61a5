//! The sending half: what may be sent when, and what acknowledgements and timers change.

use std::time::Duration;

use weftline_congestion::{
    AckSample, CongestionControl, Coupling, LossEvent, Member, Phase, RateSample,
};
use weftline_core::time::nanos;
use weftline_core::{Bitrate, Instant};

use super::prr::Prr;
use super::rtt::{RttEstimator, RttStats};
use super::scoreboard::{Delivery, RateStamp, Scoreboard, Sent};
use super::segment::Segment;
use super::{MS, SECOND};

/// What a lone segment's loss probe waits longer, for the receiver's delayed acknowledgement
/// (Linux, `TCP_RTO_MIN`).
const PROBE_ALONE_NS: u64 = 200 * MS;
/// What other probes wait longer (Linux, `TCP_TIMEOUT_MIN`, two ticks).
const PROBE_MIN_NS: u64 = 2 * MS;
/// The loss probe's timer before there is a sample (RFC 8985 §7.2).
const PROBE_FIRST_NS: u64 = SECOND;
/// A paced burst lasts this long at the pacing rate (Linux, `sk_pacing_shift` of 10).
const BURST_NS: u64 = MS;
/// The most a paced burst holds, in bytes (Linux, `GSO_LEGACY_MAX_SIZE`).
const BURST_MAX: u64 = 64 << 10;
/// The least a paced burst holds, in segments (Linux, `tcp_min_tso_segs`).
const BURST_MIN_SEGMENTS: u64 = 2;
/// New data wait for at most this part of the window (Linux, `tcp_tso_win_divisor`).
const DEFER_DIVISOR: u64 = 3;

/// What a sender has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct SenderStats {
    /// Segments with payload sent, repetitions included.
    pub(crate) segments: u64,
    /// Payload bytes of them.
    pub(crate) bytes: u64,
    /// Of the segments, those sent again.
    pub(crate) resent: u64,
    /// Retransmission timeouts.
    pub(crate) timeouts: u64,
    /// Loss probes.
    pub(crate) probes: u64,
    /// Recoveries begun.
    pub(crate) recoveries: u64,
    /// Timeouts and recoveries found to be for nothing.
    pub(crate) spurious: u64,
    /// Segments delivered.
    pub(crate) delivered: u64,
    /// Payload bytes acknowledged in order.
    pub(crate) delivered_bytes: u64,
}

/// A loss probe in flight (RFC 8985 §7.3).
#[derive(Clone, Copy, Debug)]
struct Probe {
    /// SND.NXT when it was sent.
    end: u64,
    /// Whether it was a retransmission.
    resent: bool,
}

/// What is sent next whatever the window says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forced {
    /// The first segment, after a retransmission timeout.
    Head,
    /// A loss probe.
    Probe,
}

/// The sending half of an endpoint.
#[derive(Debug)]
pub(super) struct Sender {
    mss: u64,
    control: Box<dyn CongestionControl>,
    initial_cwnd: f64,
    board: Scoreboard,
    rtt: RttEstimator,
    /// Everything below has been acknowledged (SND.UNA).
    una: u64,
    /// The next offset to send (SND.NXT).
    nxt: u64,
    /// The application has written below this.
    end: u64,
    /// The peer's window ends here.
    limit: u64,
    phase: Phase,
    /// SND.NXT when the present recovery began.
    recovery_point: u64,
    prr: Option<Prr>,
    /// When the first retransmission of the present timeout recovery was sent.
    resent_since_ns: Option<u64>,
    delivered: u64,
    delivered_ns: u64,
    first_ns: u64,
    app_limited_until: u64,
    rate: Bitrate,
    rto_backoff: u32,
    /// When the retransmission timer was last started.
    rto_from_ns: u64,
    reorder_at_ns: Option<u64>,
    probe_at_ns: Option<u64>,
    probe: Option<Probe>,
    forced: Option<Forced>,
    pace_at_ns: u64,
    /// Segments of the present burst that may still go.
    burst_left: u64,
    window_limited: bool,
    /// The most outstanding in the present round, and where the round ends.
    most_out: u64,
    round_end: u64,
    last_send_ns: u64,
    /// When the window was last full or adjusted (Linux, `snd_cwnd_stamp`).
    window_used_at_ns: u64,
    /// The most outstanding since then.
    window_used: u64,
    stats: SenderStats,
    rtts: RttStats,
}

impl Sender {
    pub(super) fn new(mss: u64, initial_cwnd: u64, control: Box<dyn CongestionControl>) -> Self {
        Self {
            mss,
            control,
            initial_cwnd: initial_cwnd as f64,
            board: Scoreboard::default(),
            rtt: RttEstimator::default(),
            una: 0,
            nxt: 0,
            end: 0,
            limit: 0,
            phase: Phase::Open,
            recovery_point: 0,
            prr: None,
            resent_since_ns: None,
            delivered: 0,
            delivered_ns: 0,
            first_ns: 0,
            app_limited_until: 0,
            rate: Bitrate::ZERO,
            rto_backoff: 0,
            rto_from_ns: 0,
            reorder_at_ns: None,
            probe_at_ns: None,
            probe: None,
            forced: None,
            pace_at_ns: 0,
            burst_left: 0,
            window_limited: false,
            most_out: 0,
            round_end: 0,
            last_send_ns: 0,
            window_used_at_ns: 0,
            window_used: 0,
            stats: SenderStats::default(),
            rtts: RttStats::default(),
        }
    }

    // ---- the application's side ----

    /// The application has written up to stream offset `end`.
    pub(super) fn set_end(&mut self, end: u64) {
        debug_assert!(end >= self.end, "what was written stays written");
        self.end = end;
    }

    /// Bytes written and not sent.
    pub(super) const fn unsent(&self) -> u64 {
        self.end - self.nxt
    }

    /// The end of what was written.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// The next offset to send.
    pub(super) const fn nxt(&self) -> u64 {
        self.nxt
    }

    /// Everything below has been acknowledged.
    pub(super) const fn una(&self) -> u64 {
        self.una
    }

    /// Takes the peer's first window.
    pub(super) const fn open(&mut self, limit: u64) {
        self.limit = limit;
    }

    /// Takes the round-trip time of the handshake.
    pub(super) fn add_rtt(&mut self, sample_ns: u64) {
        self.rtt.add(sample_ns);
        self.rtt.add_min(sample_ns);
        self.control.on_established(Duration::from_nanos(sample_ns));
    }

    // ---- what is known ----

    pub(super) const fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Mean and 95th percentile of the round-trip times, in milliseconds.
    pub(super) fn rtt_ms(&self) -> [f64; 2] {
        self.rtts.ms()
    }

    pub(super) fn pipe(&self) -> u64 {
        self.board.pipe()
    }

    pub(super) const fn stats(&self) -> &SenderStats {
        &self.stats
    }

    pub(super) fn control(&self) -> &dyn CongestionControl {
        &*self.control
    }

    pub(super) const fn phase(&self) -> Phase {
        self.phase
    }

    /// The window in bytes.
    pub(super) fn window_bytes(&self) -> u64 {
        self.window() * self.mss
    }

    /// The slow start threshold in bytes, once there is one.
    pub(super) fn ssthresh_bytes(&self) -> Option<u64> {
        let ssthresh = self.control.ssthresh();
        ssthresh.is_finite().then_some((ssthresh as u64).saturating_mul(self.mss))
    }

    /// The latest delivery rate that the application did not limit, or the highest that it did.
    pub(super) const fn delivery_rate(&self) -> Bitrate {
        self.rate
    }

    /// The rate at which the sender paces, or would: twice the window in a round trip in slow
    /// start, 1.2 times in congestion avoidance (Linux, `tcp_update_pacing_rate`).
    pub(super) fn pacing_rate(&self) -> Bitrate {
        if let Some(rate) = self.control.pacing_rate() {
            return rate;
        }
        let srtt = u128::from(self.rtt.srtt_ns().max(1));
        let slow_start = self.control.cwnd() < self.control.ssthresh() / 2.0;
        let tenths = if slow_start { 20 } else { 12 };
        let bits = u128::from(self.window_bytes()) * 8 * u128::from(SECOND) * tenths / 10;
        Bitrate::bps(u64::try_from(bits / srtt).unwrap_or(u64::MAX))
    }

    /// Keeps the delivery rate of a sample (Linux, `tcp_rate_gen`).
    fn keep_rate(&mut self, sample: &RateSample) {
        let ns = u128::from(nanos(sample.interval));
        if ns == 0 {
            return;
        }
        let bits = u128::from(sample.delivered * self.mss) * 8 * u128::from(SECOND);
        let rate = Bitrate::bps(u64::try_from(bits / ns).unwrap_or(u64::MAX));
        if !sample.app_limited || rate > self.rate {
            self.rate = rate;
        }
    }

    /// A scheduler asks to slow this subflow down.
    pub(super) fn penalise(&mut self) {
        self.control.on_penalty();
    }

    /// What the connection's other controls see.
    pub(super) fn member(&self) -> Member {
        self.control.member(Duration::from_nanos(self.rtt.srtt_ns()))
    }

    /// The window in segments.
    fn window(&self) -> u64 {
        if let Some(prr) = &self.prr {
            return prr.window();
        }
        (self.control.cwnd() as u64).max(1)
    }

    // ---- acknowledgements ----

    /// Takes an acknowledgement. `coupling` shows the connection's other subflows.
    pub(super) fn handle_ack(&mut self, ack: &Segment, now_ns: u64, coupling: &Coupling<'_>) {
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
            self.control.on_ack(&sample, coupling);
        }
        if let Some(prr) = &mut self.prr
            && (delivery.segments > 0 || lost > 0)
        {
            prr.on_ack(delivery.segments, self.board.pipe(), moved && lost == 0);
        }
        self.arm_probe(now_ns);
    }

    fn ack_sample(&self, delivery: &Delivery, now_ns: u64) -> AckSample {
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
    fn take_rtt(
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
            self.rtts.add(sample);
        }
        if let Some(sample) = youngest {
            self.rtt.add_min(sample);
        }
        youngest
    }

    /// The delivery rate over the flight that ends with this acknowledgement.
    fn rate_sample(&self, delivery: &Delivery, lost: u64, now_ns: u64) -> RateSample {
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
    fn check_spurious(&mut self, ack: &Segment) {
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

    fn take_probe(&mut self, ack: &Segment, moved: bool) -> bool {
        let Some(probe) = self.probe else { return false };
        if !moved || ack.ack < probe.end {
            return false;
        }
        self.probe = None;
        // An answer to the original and to the probe shows as a duplicate; without one, the probe
        // has repaired a loss that nothing else tells of (RFC 8985 §7.4.2).
        probe.resent && !ack.dsack && ack.ack == probe.end
    }

    fn repaired_by_probe(&mut self, now_ns: u64, coupling: &Coupling<'_>) {
        self.control.on_congestion(&self.loss_event(now_ns), coupling);
        self.control.on_recovery_end(Instant::from_nanos(now_ns));
    }

    fn loss_event(&self, now_ns: u64) -> LossEvent {
        LossEvent {
            now: Instant::from_nanos(now_ns),
            in_flight: self.board.pipe(),
            srtt: Duration::from_nanos(self.rtt.srtt_ns()),
            nxt: self.nxt,
        }
    }

    fn enter_recovery(&mut self, now_ns: u64, prior_pipe: u64, coupling: &Coupling<'_>) {
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

    fn leave_recovery(&mut self, now_ns: u64) {
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

    // ---- timers ----

    /// When to call [`handle_timeout`](Self::handle_timeout), or to send, at the latest.
    pub(super) fn deadline_ns(&self) -> Option<u64> {
        let pace = (self.waits_for_pace()).then_some(self.pace_at_ns);
        let timers = self.reorder_at_ns.into_iter().chain(self.rto_at_ns()).chain(self.probe_at_ns);
        timers.chain(pace).min()
    }

    fn waits_for_pace(&self) -> bool {
        self.burst_left == 0
            && self.control.pacing_rate().is_some()
            && self.board.pipe() < self.window()
            && (self.board.next_lost().is_some() || (self.nxt < self.end && self.nxt < self.limit))
    }

    fn rto_at_ns(&self) -> Option<u64> {
        if self.board.outstanding() == 0 {
            return None;
        }
        Some(self.rto_from_ns + self.rtt.rto_ns(self.rto_backoff))
    }

    /// Arms the loss probe, where there is reason to (RFC 8985 §7.2).
    fn arm_probe(&mut self, now_ns: u64) {
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
    pub(super) fn handle_timeout(&mut self, now_ns: u64, coupling: &Coupling<'_>) {
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
            self.expire(now_ns, coupling);
        }
    }

    fn expire(&mut self, now_ns: u64, coupling: &Coupling<'_>) {
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

    // ---- sending ----

    /// The next segment to send now, without its acknowledgement part.
    pub(super) fn poll_transmit(&mut self, now_ns: u64) -> Option<Segment> {
        if let Some(forced) = self.forced.take() {
            return self.send_forced(forced, now_ns);
        }
        self.consider_idle(now_ns);
        if self.board.pipe() >= self.window() {
            self.note_limited(true);
            return None;
        }
        let lost = self.board.next_lost();
        let new = self.nxt < self.end && self.next_len() > 0;
        if lost.is_none() && !new {
            self.note_limited(false);
            if self.nxt == self.end {
                self.app_limited_until = (self.delivered + self.board.pipe()).max(1);
            }
            return None;
        }
        if !self.paced(now_ns) || (lost.is_none() && self.defers(now_ns)) {
            return None;
        }
        match lost {
            Some(seq) => Some(self.resend(seq, now_ns)),
            None => Some(self.send_new(now_ns)),
        }
    }

    /// Whether new data wait for a larger burst: the kernel hands bursts to the interface, of what
    /// a millisecond at the pacing rate takes, rather than single segments, while acknowledgements
    /// come quickly (Linux, `tcp_tso_should_defer`).
    fn defers(&self, now_ns: u64) -> bool {
        if self.phase != Phase::Open || self.control.pacing_rate().is_some() {
            return false;
        }
        let Some(head) = self.board.head() else { return false };
        let srtt = self.rtt.srtt_ns();
        let recent = now_ns - self.last_send_ns <= MS;
        let answer_soon = head.xmit_ns + srtt <= now_ns + MS.min(srtt / 2);
        // A burst under way goes on.
        if !recent || !answer_soon || self.last_send_ns == now_ns {
            return false;
        }
        let window = self.window();
        let open = window - self.board.pipe();
        let waiting = (self.end - self.nxt).div_ceil(self.mss);
        let open = open.min((self.limit - self.nxt) / self.mss);
        open < self.burst(self.pacing_rate()).min(waiting).min(window / DEFER_DIVISOR)
    }

    /// Segments of a burst at a pacing rate.
    fn burst(&self, rate: Bitrate) -> u64 {
        let bytes = rate.bytes_in(Duration::from_nanos(BURST_NS)).as_u64();
        (bytes.min(BURST_MAX) / self.mss).max(BURST_MIN_SEGMENTS)
    }

    fn next_len(&self) -> u64 {
        let len = self.mss.min(self.end - self.nxt);
        if self.nxt + len > self.limit { 0 } else { len }
    }

    fn send_forced(&mut self, forced: Forced, now_ns: u64) -> Option<Segment> {
        match forced {
            Forced::Head => {
                let seq = self.board.head()?.seq;
                Some(self.resend(seq, now_ns))
            }
            Forced::Probe => {
                self.stats.probes += 1;
                let new = self.nxt < self.end && self.next_len() > 0;
                let segment = match new {
                    true => self.send_new(now_ns),
                    false => {
                        let seq = self.board.last()?;
                        self.resend(seq, now_ns)
                    }
                };
                self.probe = Some(Probe { end: self.nxt, resent: !new });
                // One probe at a time: what comes next is the retransmission timer.
                self.probe_at_ns = None;
                Some(segment)
            }
        }
    }

    /// Whether pacing lets a segment go now; takes it from the burst.
    fn paced(&mut self, now_ns: u64) -> bool {
        let Some(rate) = self.control.pacing_rate() else { return true };
        if self.burst_left == 0 {
            if now_ns < self.pace_at_ns {
                return false;
            }
            self.burst_left = self.burst(rate);
        }
        self.burst_left -= 1;
        true
    }

    /// Moves the time of the next burst on by what a segment of `len` bytes takes.
    fn pace(&mut self, len: u64, now_ns: u64) {
        let Some(rate) = self.control.pacing_rate() else { return };
        let bps = u128::from(rate.as_bps().max(1));
        let took = u128::from(len) * 8 * u128::from(SECOND) / bps;
        let took = u64::try_from(took).unwrap_or(u64::MAX / 4);
        // A timer that fired late is made up for by at most half of the segment's time (Linux,
        // `tcp_update_skb_after_send`).
        let late = now_ns.saturating_sub(self.pace_at_ns).min(took / 2);
        self.pace_at_ns = self.pace_at_ns.max(now_ns) + took - late;
    }

    fn send_new(&mut self, now_ns: u64) -> Segment {
        let len = self.next_len();
        let seq = self.nxt;
        if self.board.outstanding() == 0 {
            self.rto_from_ns = now_ns;
            self.control.on_restart(Instant::from_nanos(now_ns));
        }
        let stamp = self.stamp(now_ns);
        let len32 = u32::try_from(len).expect("a segment is short");
        self.board.push(Sent::new(seq, len32, now_ns, stamp));
        self.nxt += len;
        self.sent(seq, len32, now_ns)
    }

    fn resend(&mut self, seq: u64, now_ns: u64) -> Segment {
        let stamp = self.stamp(now_ns);
        let len = self.board.resend(seq, now_ns, stamp);
        self.stats.resent += 1;
        if self.board.head().is_some_and(|head| head.seq == seq) {
            self.rto_from_ns = now_ns;
        }
        if self.phase == Phase::Loss && self.resent_since_ns.is_none() {
            self.resent_since_ns = Some(now_ns);
        }
        self.sent(seq, len, now_ns)
    }

    /// State of the rate estimator for a segment sent now.
    fn stamp(&mut self, now_ns: u64) -> RateStamp {
        if self.board.pipe() == 0 {
            self.first_ns = now_ns;
            self.delivered_ns = now_ns;
        }
        if self.app_limited_until > 0 && self.delivered > self.app_limited_until {
            self.app_limited_until = 0;
        }
        RateStamp {
            delivered: self.delivered,
            delivered_ns: self.delivered_ns,
            first_ns: self.first_ns,
            app_limited: self.app_limited_until > 0,
        }
    }

    fn sent(&mut self, seq: u64, len: u32, now_ns: u64) -> Segment {
        self.stats.segments += 1;
        self.stats.bytes += u64::from(len);
        self.last_send_ns = now_ns;
        self.pace(u64::from(len), now_ns);
        if let Some(prr) = &mut self.prr {
            prr.on_sent();
        }
        self.arm_probe(now_ns);
        Segment { seq, len, sent_ns: now_ns, ..Segment::default() }
    }

    // ---- validation of the window ----

    /// Notes whether the window was what stopped sending (Linux, `tcp_cwnd_validate`).
    fn note_limited(&mut self, limited: bool) {
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
    fn is_window_limited(&self) -> bool {
        let slow_start = self.control.cwnd() < self.control.ssthresh();
        self.window_limited || (slow_start && self.control.cwnd() < 2.0 * self.most_out as f64)
    }

    /// After a pause of some retransmission timeouts the window is halved as often (RFC 2861;
    /// Linux, `tcp_cwnd_restart`).
    fn consider_idle(&mut self, now_ns: u64) {
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

    /// Invariants that hold between events.
    pub(super) fn check(&self) {
        assert!(self.una <= self.nxt && self.nxt <= self.end, "offsets are in order");
        assert!(self.control.cwnd() >= 1.0, "the window holds a segment");
        assert!(self.board.pipe() <= self.board.outstanding(), "the pipe is part of what is out");
        #[cfg(debug_assertions)]
        self.board.check();
    }
}
