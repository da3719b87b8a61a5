//! The sending half: what may be sent when, and what acknowledgements and timers change.

mod acks;
mod timers;
mod transmit;
mod validation;

use std::time::Duration;

use weftline_congestion::{
    AckSample, CongestionControl, Coupling, LossEvent, Member, Phase, RateSample,
};
use weftline_core::time::nanos;
use weftline_core::{Bitrate, Instant};

use super::prr::Prr;
use super::rtt::RttEstimator;
use super::scoreboard::{Delivery, RateStamp, Scoreboard, Sent};
use super::segment::Segment;
use super::{MS, SECOND};

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
    /// A question for the peer's window, which is closed.
    Window,
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
    /// Whether the host paces controls that do not pace themselves.
    host_paces: bool,
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
            host_paces: false,
            pace_at_ns: 0,
            burst_left: 0,
            window_limited: false,
            most_out: 0,
            round_end: 0,
            last_send_ns: 0,
            window_used_at_ns: 0,
            window_used: 0,
            stats: SenderStats::default(),
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

    /// The rate at which the sender paces, if it does: as its control says, or because its host does
    /// so for every control (Linux with the queueing discipline `fq`).
    fn own_pace(&self) -> Option<Bitrate> {
        let own = self.control.pacing_rate();
        own.or_else(|| self.host_paces.then(|| self.pacing_rate()))
    }

    /// The host paces, whatever the control.
    pub(in crate::tcp) const fn set_host_paces(&mut self) {
        self.host_paces = true;
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

    /// Invariants that hold between events.
    pub(super) fn check(&self) {
        assert!(self.una <= self.nxt && self.nxt <= self.end, "offsets are in order");
        assert!(self.control.cwnd() >= 1.0, "the window holds a segment");
        assert!(self.board.pipe() <= self.board.outstanding(), "the pipe is part of what is out");
        #[cfg(debug_assertions)]
        self.board.check();
    }
}
