//! BBR v1, as in Linux's tcp_bbr.c (draft-cardwell-iccrg-bbr-congestion-control-00).
//!
//! The model of the path is the greatest delivery rate of the last ten rounds and the least
//! round-trip time of the last ten seconds. Sending is paced at a gain times the rate, and the
//! window bounds what is in flight at a gain times their product.

pub(crate) mod aggregation;
mod policer;
#[cfg(test)]
mod tests;

use std::time::Duration;

use weftline_core::rng::Rng;
use weftline_core::{Bitrate, Instant};

use crate::filter::MaxFilter;
use crate::{AckSample, Config, CongestionControl, Coupling, LossEvent, Phase};
use aggregation::Aggregation;
use policer::Policer;

/// The pacing gain of STARTUP and its window gain, and that of DRAIN: 2/ln 2, the least that
/// doubles the rate each round (`bbr_high_gain`: 2885/1000 in 1/256, rounded up).
const HIGH_GAIN: f64 = 739.0 / 256.0;
/// The pacing gain of DRAIN (`bbr_drain_gain`: 1000/2885 in 1/256).
const DRAIN_GAIN: f64 = 88.0 / 256.0;
/// The window gain of PROBE_BW (`bbr_cwnd_gain`).
const CWND_GAIN: f64 = 2.0;
/// The pacing gains of PROBE_BW (`bbr_pacing_gain`).
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
/// Phases among which the first is drawn: all but 0.75 (`bbr_cycle_rand`).
const CYCLE_CHOICES: u64 = 7;
/// Rounds that the rate filter looks back, the current one included: a sample of round n is used
/// to round n + 10 (`bbr_bw_rtts`).
const BW_ROUNDS: usize = 11;
/// How long a least round-trip time holds (`bbr_min_rtt_win_sec`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// How long PROBE_RTT keeps the window down (`bbr_probe_rtt_mode_ms`).
const PROBE_RTT: Duration = Duration::from_millis(200);
/// The least window in segments, and that of PROBE_RTT (`bbr_cwnd_min_target`).
const MIN_CWND: f64 = 4.0;
/// The pipe is full when the rate has grown less than this (`bbr_full_bw_thresh`) …
const FULL_GROWTH: f64 = 1.25;
/// … for so many rounds (`bbr_full_bw_cnt`).
const FULL_ROUNDS: u32 = 3;
/// Pacing stays one percent below the estimate (`bbr_pacing_margin_percent`).
const PACING_MARGIN: f64 = 0.99;
/// Before the first round-trip time the window is paced over 1 ms (`bbr_init_pacing_rate_from_rtt`).
const RTT_UNKNOWN_S: f64 = 0.001;
/// Segments delivered before which the window only grows, and the product of rate and delay while
/// there is no round-trip time (`TCP_INIT_CWND`).
const INITIAL_CWND: f64 = 10.0;
/// A sender hands down what it paces in 1/1024 s at a time, at most a bulk of 64 KiB less
/// headers (`bbr_tso_segs_goal`, `sk_pacing_shift` of 10) …
const BULKS_PER_S: f64 = 1024.0;
const BULK_BYTES: f64 = 65_536.0 - 1.0 - 320.0;
/// … and at least two segments, or one below 1.2 Mbit/s (`bbr_min_tso_rate`, in bytes/s).
const SMALL_RATE: f64 = 150_000.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

/// BBR v1; see the [module](self).
#[derive(Debug)]
pub(crate) struct Bbr {
    mss: f64,
    rng: Rng,
    mode: Mode,
    cwnd: f64,
    ssthresh: f64,
    /// The window to come back to after recovery and PROBE_RTT.
    prior_cwnd: f64,
    /// In bytes of payload per second.
    pacing: f64,
    pacing_gain: f64,
    cwnd_gain: f64,
    has_seen_rtt: bool,

    /// In segments per second.
    bw: MaxFilter<BW_ROUNDS>,
    min_rtt: Option<Duration>,
    min_rtt_stamp: Instant,
    /// See [`Config::near_rtt`].
    near_rtt: Duration,

    rounds: u64,
    round_start: bool,
    /// A segment sent when so many had been delivered begins the next round.
    next_round_delivered: u64,

    full_bw: f64,
    full_bw_rounds: u32,
    filled: bool,

    cycle: usize,
    cycle_stamp: Instant,

    /// When PROBE_RTT may end; set once in flight is down.
    probe_rtt_done: Option<Instant>,
    probe_rtt_round_done: bool,
    /// Samples of segments sent between these counts of deliveries were limited by PROBE_RTT.
    probe_rtt_limited: (u64, u64),
    idle_restart: bool,

    phase: Phase,
    packet_conservation: bool,
    timed_out: bool,

    policer: Policer,
    aggregation: Aggregation,
}

impl Bbr {
    pub(crate) fn make(config: &Config) -> Box<dyn CongestionControl> {
        Box::new(Self::new(config))
    }

    fn new(config: &Config) -> Self {
        let mut bbr = Self {
            mss: (config.mss as f64).max(1.0),
            rng: Rng::stream(config.seed, "bbr/cycle"),
            mode: Mode::Startup,
            cwnd: (config.initial_cwnd as f64).max(1.0),
            ssthresh: f64::INFINITY,
            prior_cwnd: 0.0,
            pacing: 0.0,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            has_seen_rtt: false,
            bw: MaxFilter::default(),
            min_rtt: None,
            min_rtt_stamp: Instant::ZERO,
            near_rtt: config.near_rtt,
            rounds: 0,
            round_start: false,
            next_round_delivered: 0,
            full_bw: 0.0,
            full_bw_rounds: 0,
            filled: false,
            cycle: 0,
            cycle_stamp: Instant::ZERO,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            probe_rtt_limited: (u64::MAX, 0),
            idle_restart: false,
            phase: Phase::Open,
            packet_conservation: false,
            timed_out: false,
            policer: Policer::default(),
            aggregation: Aggregation::default(),
        };
        bbr.pace_initially(RTT_UNKNOWN_S);
        bbr
    }

    /// The rate in use, in segments per second: the policer's if there is one.
    fn bw(&self) -> f64 {
        self.policer.rate().unwrap_or(self.bw.max())
    }

    /// The product of a rate and the least round-trip time times `gain`, in segments.
    fn bdp(&self, bw: f64, gain: f64) -> f64 {
        match self.min_rtt {
            Some(min_rtt) => (bw * min_rtt.as_secs_f64() * gain).ceil(),
            None => INITIAL_CWND,
        }
    }

    /// Room for what sender and receiver handle in bulk, and an even number for delayed
    /// acknowledgements (`bbr_quantization_budget`).
    fn with_budget(&self, cwnd: f64) -> f64 {
        let even = ((cwnd + 3.0 * self.bulk()) / 2.0).ceil() * 2.0;
        let probing = self.mode == Mode::ProbeBw && self.cycle == 0;
        even + if probing { 2.0 } else { 0.0 }
    }

    /// Segments handed down at once.
    fn bulk(&self) -> f64 {
        let least = if self.pacing < SMALL_RATE { 1.0 } else { 2.0 };
        let bytes = (self.pacing / BULKS_PER_S).min(BULK_BYTES);
        (bytes / self.mss).floor().max(least)
    }

    fn inflight(&self, bw: f64, gain: f64) -> f64 {
        self.with_budget(self.bdp(bw, gain))
    }
}

/// The model of the path.
impl Bbr {
    fn update_bw(&mut self, ack: &AckSample) {
        self.round_start = false;
        if ack.rate.delivered == 0 || ack.rate.interval.is_zero() {
            return;
        }
        if ack.rate.prior_delivered >= self.next_round_delivered {
            self.next_round_delivered = ack.total_delivered;
            self.rounds += 1;
            self.round_start = true;
            self.packet_conservation = false;
        }
        let limited = self.app_limited(ack);
        let lost = ack.newly_lost > 0 || std::mem::take(&mut self.timed_out);
        let probing = self.mode == Mode::ProbeBw;
        if self.policer.on_ack(ack, self.round_start, lost, limited, probing, self.mss) {
            self.begin_probe_bw(ack.now);
        }
        let bw = ack.rate.delivered as f64 / ack.rate.interval.as_secs_f64();
        if !limited || bw >= self.bw.max() {
            self.bw.update(self.rounds, bw);
        }
    }

    /// Whether the application limited the sample, or PROBE_RTT did (Linux marks the connection
    /// as limited there).
    fn app_limited(&self, ack: &AckSample) -> bool {
        let (from, to) = self.probe_rtt_limited;
        ack.rate.app_limited || (from..=to).contains(&ack.rate.prior_delivered)
    }

    fn update_cycle(&mut self, ack: &AckSample) {
        if self.mode == Mode::ProbeBw && self.next_phase_is_due(ack) {
            self.advance_cycle(ack.now);
        }
    }

    fn next_phase_is_due(&self, ack: &AckSample) -> bool {
        let elapsed = ack.now.since(self.cycle_stamp);
        let full = self.min_rtt.is_none_or(|min_rtt| elapsed > min_rtt);
        let in_flight = ack.prior_in_flight as f64;
        if self.pacing_gain > 1.0 {
            let target = self.inflight(self.bw.max(), self.pacing_gain);
            full && (ack.newly_lost > 0 || in_flight >= target)
        } else if self.pacing_gain < 1.0 {
            full || in_flight <= self.inflight(self.bw.max(), 1.0)
        } else {
            full
        }
    }

    fn advance_cycle(&mut self, now: Instant) {
        self.cycle = (self.cycle + 1) % CYCLE.len();
        self.cycle_stamp = now;
    }

    fn begin_probe_bw(&mut self, now: Instant) {
        self.mode = Mode::ProbeBw;
        self.cycle = CYCLE.len() - 1 - self.rng.below(CYCLE_CHOICES) as usize;
        self.advance_cycle(now);
    }

    fn check_full(&mut self, ack: &AckSample) {
        if self.filled || !self.round_start || self.app_limited(ack) {
            return;
        }
        if self.bw.max() >= self.full_bw * FULL_GROWTH {
            self.full_bw = self.bw.max();
            self.full_bw_rounds = 0;
            return;
        }
        self.full_bw_rounds += 1;
        self.filled = self.full_bw_rounds >= FULL_ROUNDS;
    }

    fn check_drain(&mut self, ack: &AckSample) {
        if self.mode == Mode::Startup && self.filled {
            self.mode = Mode::Drain;
            self.ssthresh = self.inflight(self.bw.max(), 1.0);
        }
        if self.mode == Mode::Drain && ack.in_flight as f64 <= self.inflight(self.bw.max(), 1.0) {
            self.begin_probe_bw(ack.now);
        }
    }

    fn update_min_rtt(&mut self, ack: &AckSample) {
        if let (Some(rtt), Some(least)) = (ack.rtt, self.min_rtt)
            && !self.near_rtt.is_zero()
            && self.app_limited(ack)
            && rtt <= least + (self.near_rtt + self.segment_time()).min(least / 2)
        {
            self.min_rtt_stamp = ack.now;
        }
        let expired = ack.now > self.min_rtt_stamp + MIN_RTT_WINDOW;
        if let Some(rtt) = ack.rtt
            && (expired || self.min_rtt.is_none_or(|least| rtt < least))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_stamp = ack.now;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done = None;
            self.probe_rtt_limited = (ack.total_delivered, ack.total_delivered);
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(ack);
        }
        if ack.rate.delivered > 0 {
            self.idle_restart = false;
        }
    }

    /// What a segment takes at the rate that is known: the least round trip may be that of a shorter packet.
    fn segment_time(&self) -> Duration {
        let bw = self.bw.max();
        if bw > 0.0 { Duration::from_secs_f64(1.0 / bw.max(1.0)) } else { Duration::ZERO }
    }

    fn probe_rtt(&mut self, ack: &AckSample) {
        self.probe_rtt_limited.1 = ack.total_delivered + ack.in_flight;
        if self.probe_rtt_done.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(ack.now);
            }
        } else if ack.in_flight as f64 <= MIN_CWND {
            self.probe_rtt_done = Some(ack.now + PROBE_RTT);
            self.probe_rtt_round_done = false;
            self.next_round_delivered = ack.total_delivered;
        }
    }

    fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt_done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt_stamp = now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        if self.filled {
            self.begin_probe_bw(now);
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (1.0, CWND_GAIN),
            Mode::ProbeBw => (CYCLE[self.cycle], CWND_GAIN),
            Mode::ProbeRtt => (1.0, 1.0),
        };
    }
}

/// Pacing and the window.
impl Bbr {
    fn pace_initially(&mut self, rtt_s: f64) {
        self.pacing = self.cwnd / rtt_s * self.mss * HIGH_GAIN * PACING_MARGIN;
    }

    fn set_pacing(&mut self, gain: f64) {
        let rate = self.bw() * self.mss * gain * PACING_MARGIN;
        if self.filled || rate > self.pacing {
            self.pacing = rate;
        }
    }

    fn save_cwnd(&mut self) {
        let whole = self.phase == Phase::Open && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if whole { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    fn set_cwnd(&mut self, ack: &AckSample) {
        let acked = ack.delivered as f64;
        if acked > 0.0 && !self.recover_or_restore(ack) {
            let aggregated = if self.filled { self.aggregation.cwnd(self.bw()) } else { 0.0 };
            let target = self.with_budget(self.bdp(self.bw(), self.cwnd_gain) + aggregated);
            if self.filled {
                self.cwnd = (self.cwnd + acked).min(target);
            } else if self.cwnd < target || (ack.total_delivered as f64) < INITIAL_CWND {
                self.cwnd += acked;
            }
            self.cwnd = self.cwnd.max(MIN_CWND);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(MIN_CWND);
        }
    }

    /// Recovery: one segment out per segment delivered in its first round, no growth beyond that;
    /// at its end the window from before. Says whether the window is settled.
    fn recover_or_restore(&mut self, ack: &AckSample) -> bool {
        let conserved = (ack.in_flight + ack.delivered) as f64;
        self.cwnd = (self.cwnd - ack.newly_lost as f64).max(1.0);
        let was = std::mem::replace(&mut self.phase, ack.phase);
        if ack.phase == Phase::Recovery && was != Phase::Recovery {
            self.packet_conservation = true;
            self.next_round_delivered = ack.total_delivered;
            self.cwnd = conserved;
        } else if was != Phase::Open && ack.phase == Phase::Open {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            self.packet_conservation = false;
        }
        if self.packet_conservation {
            self.cwnd = self.cwnd.max(conserved);
        }
        self.packet_conservation
    }
}

impl CongestionControl for Bbr {
    fn on_established(&mut self, srtt: Duration) {
        self.has_seen_rtt = true;
        self.pace_initially(srtt.as_secs_f64().max(1e-6));
    }

    fn on_ack(&mut self, ack: &AckSample, _: &Coupling<'_>) {
        self.update_bw(ack);
        self.aggregation.on_ack(ack, self.round_start, self.bw(), self.cwnd);
        self.update_cycle(ack);
        self.check_full(ack);
        self.check_drain(ack);
        self.update_min_rtt(ack);
        self.update_gains();
        if !self.has_seen_rtt && !ack.srtt.is_zero() {
            self.on_established(ack.srtt);
        }
        self.set_pacing(self.pacing_gain);
        self.set_cwnd(ack);
    }

    /// The window itself follows with the acknowledgement that told of the loss.
    fn on_congestion(&mut self, _: &LossEvent, _: &Coupling<'_>) {
        self.save_cwnd();
    }

    /// What is left in flight may stay, and the lost segment may go (Linux's `tcp_enter_loss`).
    fn on_timeout(&mut self, loss: &LossEvent, first: bool, _: &Coupling<'_>) {
        if first {
            self.save_cwnd();
        }
        self.cwnd = self.cwnd.min(loss.in_flight as f64 + 1.0);
        self.phase = Phase::Loss;
        self.full_bw = 0.0;
        self.timed_out = true;
    }

    fn on_spurious(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_rounds = 0;
        self.policer.reset();
        if self.phase != Phase::Open {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
    }

    fn on_restart(&mut self, now: Instant) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        match self.mode {
            Mode::ProbeBw => self.set_pacing(1.0),
            Mode::ProbeRtt => self.check_probe_rtt_done(now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn on_penalty(&mut self) {
        if self.cwnd >= self.ssthresh {
            self.ssthresh = (self.ssthresh / 2.0).floor().max(2.0);
        }
        self.cwnd = (self.cwnd / 2.0).floor().max(1.0);
    }

    /// The model of the path does not wear off with disuse.
    fn on_unused_window(&mut self, _: f64) {}

    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    fn ssthresh(&self) -> f64 {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        Some(Bitrate::bps(((self.pacing * 8.0) as u64).max(1)))
    }

    fn owns_recovery(&self) -> bool {
        true
    }
}
