//! BBR v3 (draft-ietf-ccwg-bbr), experimental: no kernel release has it to compare with.
//!
//! Beside the rate and the least round-trip time of v1 the model bounds what may be in flight: by
//! a long-term limit that probing learns from losses above 2 %, and by a short-term rate and
//! limit that other flows' losses lower until the next probe.

mod limits;
#[cfg(test)]
mod tests;

use std::time::Duration;

use weftline_core::rng::Rng;
use weftline_core::{Bitrate, Instant};

use crate::bbr::aggregation::Aggregation;
use crate::filter::MaxFilter;
use crate::{AckSample, Config, CongestionControl, Coupling, LossEvent, Phase};
use limits::{Limits, LossHistory};

/// The pacing gain of Startup: 4 ln 2 (`StartupPacingGain`).
const STARTUP_GAIN: f64 = 2.77;
/// The pacing gain of Drain (`DrainPacingGain`), and the most rounds it lasts.
const DRAIN_GAIN: f64 = 0.5;
const DRAIN_ROUNDS: u64 = 3;
/// The window gain but in Up and ProbeRTT (`DefaultCwndGain`).
const CWND_GAIN: f64 = 2.0;
/// The pacing gain of ProbeBW_DOWN, and the gains of ProbeBW_UP.
const DOWN_GAIN: f64 = 0.9;
const UP_GAIN: f64 = 1.25;
const UP_CWND_GAIN: f64 = 2.25;
/// The window gain of ProbeRTT (`ProbeRTTCwndGain`), how long it lasts (`ProbeRTTDuration`) and
/// how often it comes (`ProbeRTTInterval`).
const PROBE_RTT_GAIN: f64 = 0.5;
const PROBE_RTT: Duration = Duration::from_millis(200);
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
/// How long a least round-trip time holds (`MinRTTFilterLen`).
const MIN_RTT_WINDOW: Duration = Duration::from_secs(10);
/// The pipe is full when the rate has grown less than this for so many rounds.
const FULL_GROWTH: f64 = 1.25;
const FULL_ROUNDS: u32 = 3;
/// So many losses in a round with more than 2 % lost end Startup (`StartupFullLossCnt`).
const FULL_LOSSES: u32 = 6;
/// The least window in segments (`MinPipeCwnd`).
const MIN_CWND: f64 = 4.0;
/// Pacing stays one percent below the estimate (`PacingMarginPercent`).
const PACING_MARGIN: f64 = 0.99;
/// The next probe comes after 2 s and up to 1 s more …
const PROBE_WAIT: Duration = Duration::from_secs(2);
/// … or after as many rounds as Reno would take to grow by the path's product, at most these.
const RENO_ROUNDS: f64 = 63.0;
/// What is handed down at once: 1 ms worth, at most 64 KiB, at least two segments
/// (`SetSendQuantum`).
const BULK_S: f64 = 0.001;
const BULK_BYTES: f64 = 65_536.0;
/// Before the first round-trip time the window is paced over 1 ms.
const RTT_UNKNOWN_S: f64 = 0.001;
/// Segments delivered before which the window only grows.
const INITIAL_CWND: f64 = 10.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Mode {
    fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Whether losses are the price of probing rather than of others' traffic.
    fn probes(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// Pacing and window gain.
    fn gains(self) -> (f64, f64) {
        match self {
            Self::Startup => (STARTUP_GAIN, CWND_GAIN),
            Self::Drain => (DRAIN_GAIN, CWND_GAIN),
            Self::Down => (DOWN_GAIN, CWND_GAIN),
            Self::Cruise | Self::Refill => (1.0, CWND_GAIN),
            Self::Up => (UP_GAIN, UP_CWND_GAIN),
            Self::ProbeRtt => (1.0, PROBE_RTT_GAIN),
        }
    }
}

/// Which acknowledgements tell about a probe (`BBR.ack_phase`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// BBR v3; see the [module](self).
#[derive(Debug)]
pub(crate) struct Bbr3 {
    mss: f64,
    rng: Rng,
    mode: Mode,
    cwnd: f64,
    prior_cwnd: f64,
    /// In bytes of payload per second.
    pacing: f64,
    has_seen_rtt: bool,

    /// In segments per second, the maximum of this probing cycle and the last.
    bw: MaxFilter<2>,
    cycle: u64,
    limits: Limits,
    history: LossHistory,
    aggregation: Aggregation,

    min_rtt: Option<Duration>,
    min_rtt_stamp: Instant,
    /// The least since the last ProbeRTT.
    probe_rtt_min: Option<Duration>,
    probe_rtt_stamp: Instant,
    probe_rtt_done: Option<Instant>,
    probe_rtt_round_done: bool,
    probe_rtt_limited: (u64, u64),
    idle_restart: bool,

    rounds: u64,
    round_start: bool,
    next_round_delivered: u64,

    full_bw: f64,
    full_bw_rounds: u32,
    full_bw_now: bool,
    filled: bool,
    drain_round: u64,

    cycle_stamp: Instant,
    ack_phase: AckPhase,
    probe_wait: Duration,
    rounds_since_probe: u64,
    /// Whether losses now come from probing, and have not been acted upon.
    probe_samples: bool,

    phase: Phase,
    packet_conservation: bool,
}

impl Bbr3 {
    pub(crate) fn make(config: &Config) -> Box<dyn CongestionControl> {
        Box::new(Self::new(config))
    }

    fn new(config: &Config) -> Self {
        let mut bbr = Self {
            mss: (config.mss as f64).max(1.0),
            rng: Rng::stream(config.seed, "bbr3/probe"),
            mode: Mode::Startup,
            cwnd: (config.initial_cwnd as f64).max(1.0),
            prior_cwnd: 0.0,
            pacing: 0.0,
            has_seen_rtt: false,
            bw: MaxFilter::default(),
            cycle: 0,
            limits: Limits::default(),
            history: LossHistory::default(),
            aggregation: Aggregation::default(),
            min_rtt: None,
            min_rtt_stamp: Instant::ZERO,
            probe_rtt_min: None,
            probe_rtt_stamp: Instant::ZERO,
            probe_rtt_done: None,
            probe_rtt_round_done: false,
            probe_rtt_limited: (u64::MAX, 0),
            idle_restart: false,
            rounds: 0,
            round_start: false,
            next_round_delivered: 0,
            full_bw: 0.0,
            full_bw_rounds: 0,
            full_bw_now: false,
            filled: false,
            drain_round: 0,
            cycle_stamp: Instant::ZERO,
            ack_phase: AckPhase::Init,
            probe_wait: Duration::ZERO,
            rounds_since_probe: 0,
            probe_samples: false,
            phase: Phase::Open,
            packet_conservation: false,
        };
        bbr.pace_initially(RTT_UNKNOWN_S);
        bbr
    }

    /// The rate in use, in segments per second.
    fn bw(&self) -> f64 {
        self.bw.max().min(self.limits.bw_short)
    }

    fn bdp(&self, bw: f64, gain: f64) -> f64 {
        let delay = |min_rtt: Duration| (bw * min_rtt.as_secs_f64() * gain).ceil();
        self.min_rtt.map_or(INITIAL_CWND, delay)
    }

    fn bulk(&self) -> f64 {
        ((self.pacing * BULK_S).min(BULK_BYTES) / self.mss).floor().max(2.0)
    }

    /// `cwnd` with room for bulks, and two more while probing upwards (`QuantizationBudget`).
    fn with_budget(&self, cwnd: f64) -> f64 {
        let roomy = cwnd.max(3.0 * self.bulk()).max(MIN_CWND);
        roomy + if self.mode == Mode::Up { 2.0 } else { 0.0 }
    }

    fn inflight(&self, gain: f64) -> f64 {
        self.with_budget(self.bdp(self.bw.max(), gain))
    }

    /// What a Reno flow would have in flight here.
    fn target_inflight(&self) -> f64 {
        self.bdp(self.bw(), 1.0).min(self.cwnd)
    }
}

/// The model of the path.
impl Bbr3 {
    fn update_round(&mut self, ack: &AckSample) {
        self.round_start = ack.rate.prior_delivered >= self.next_round_delivered;
        if self.round_start {
            self.start_round(ack);
            self.rounds += 1;
            self.rounds_since_probe += 1;
            self.packet_conservation = false;
        }
    }

    fn start_round(&mut self, ack: &AckSample) {
        self.next_round_delivered = ack.total_delivered;
    }

    fn app_limited(&self, ack: &AckSample) -> bool {
        let (from, to) = self.probe_rtt_limited;
        ack.rate.app_limited || (from..=to).contains(&ack.rate.prior_delivered)
    }

    fn update_bw(&mut self, ack: &AckSample, rate: f64) {
        if rate >= self.bw.max() || !self.app_limited(ack) {
            self.bw.update(self.cycle, rate);
        }
        if self.limits.on_ack(ack, rate) && !self.mode.probes() {
            self.limits.adapt(self.bw.max(), self.cwnd);
        }
    }

    fn reset_full_bw(&mut self) {
        self.full_bw = 0.0;
        self.full_bw_rounds = 0;
        self.full_bw_now = false;
    }

    fn check_full_bw(&mut self, ack: &AckSample, rate: f64) {
        if self.full_bw_now || self.app_limited(ack) {
            return;
        }
        if rate >= self.full_bw * FULL_GROWTH {
            self.reset_full_bw();
            self.full_bw = rate;
        } else if self.round_start {
            self.full_bw_rounds += 1;
            self.full_bw_now = self.full_bw_rounds >= FULL_ROUNDS;
            self.filled |= self.full_bw_now;
        }
    }

    fn check_startup_done(&mut self, ack: &AckSample) {
        if self.mode != Mode::Startup {
            return;
        }
        if self.limits.losses_in_last_round() >= FULL_LOSSES
            && ack.phase == Phase::Recovery
            && self.history.sample(ack).is_too_high()
        {
            self.filled = true;
            self.limits.inflight_long =
                self.bdp(self.bw.max(), 1.0).max(self.limits.inflight_latest);
        }
        if self.filled {
            self.mode = Mode::Drain;
            self.drain_round = self.rounds;
        }
    }

    fn check_drain_done(&mut self, ack: &AckSample) {
        let late = self.rounds >= self.drain_round + DRAIN_ROUNDS;
        if self.mode == Mode::Drain && (late || ack.in_flight as f64 <= self.inflight(1.0)) {
            self.start_down(ack);
        }
    }

    fn update_min_rtt(&mut self, ack: &AckSample) {
        let expired = ack.now > self.probe_rtt_stamp + PROBE_RTT_INTERVAL;
        if let Some(rtt) = ack.rtt
            && (expired || self.probe_rtt_min.is_none_or(|least| rtt < least))
        {
            self.probe_rtt_min = Some(rtt);
            self.probe_rtt_stamp = ack.now;
        }
        let old = ack.now > self.min_rtt_stamp + MIN_RTT_WINDOW;
        if let Some(least) = self.probe_rtt_min
            && (old || self.min_rtt.is_none_or(|min_rtt| least < min_rtt))
        {
            self.min_rtt = Some(least);
            self.min_rtt_stamp = self.probe_rtt_stamp;
        }
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.save_cwnd();
            self.mode = Mode::ProbeRtt;
            self.probe_rtt_done = None;
            self.probe_rtt_limited = (ack.total_delivered, ack.total_delivered);
            self.ack_phase = AckPhase::Stopping;
            self.start_round(ack);
        }
        if self.mode == Mode::ProbeRtt {
            self.probe_rtt(ack);
        }
        self.idle_restart &= ack.rate.delivered == 0;
    }

    fn probe_rtt_cwnd(&self) -> f64 {
        self.bdp(self.bw(), PROBE_RTT_GAIN).max(MIN_CWND)
    }

    fn probe_rtt(&mut self, ack: &AckSample) {
        self.probe_rtt_limited.1 = ack.total_delivered + ack.in_flight;
        if self.probe_rtt_done.is_some() {
            self.probe_rtt_round_done |= self.round_start;
            if self.probe_rtt_round_done {
                self.check_probe_rtt_done(ack);
            }
        } else if ack.in_flight as f64 <= self.probe_rtt_cwnd() {
            self.probe_rtt_done = Some(ack.now + PROBE_RTT);
            self.probe_rtt_round_done = false;
            self.start_round(ack);
        }
    }

    fn check_probe_rtt_done(&mut self, ack: &AckSample) {
        if self.probe_rtt_done.is_none_or(|done| ack.now <= done) {
            return;
        }
        self.probe_rtt_stamp = ack.now;
        self.cwnd = self.cwnd.max(self.prior_cwnd);
        self.limits.reset_short();
        if self.filled {
            self.start_down(ack);
            self.mode = Mode::Cruise;
        } else {
            self.mode = Mode::Startup;
        }
    }
}

/// Probing for bandwidth.
impl Bbr3 {
    fn update_probe_bw(&mut self, ack: &AckSample, rate: f64) {
        if !self.filled {
            return;
        }
        self.adapt_long_term(ack);
        let mode = self.mode;
        match mode {
            Mode::Down if self.is_time_to_probe(ack) => self.start_refill(ack),
            Mode::Down if self.is_time_to_cruise(ack) => self.mode = Mode::Cruise,
            Mode::Cruise if self.is_time_to_probe(ack) => self.start_refill(ack),
            Mode::Refill if self.round_start => self.start_up(ack, rate),
            Mode::Up if self.is_time_to_go_down(ack, rate) => self.start_down(ack),
            _ => {}
        }
    }

    fn adapt_long_term(&mut self, ack: &AckSample) {
        if self.ack_phase == AckPhase::Starting && self.round_start {
            self.ack_phase = AckPhase::Feedback;
        }
        if self.ack_phase == AckPhase::Stopping && self.round_start {
            self.ack_phase = AckPhase::Init;
            self.probe_samples = false;
            if self.mode.is_probe_bw() && !self.app_limited(ack) {
                self.cycle += 1;
            }
        }
        let sample = self.history.sample(ack);
        if sample.is_too_high() {
            if self.probe_samples {
                self.lower_long_term(ack, sample.in_flight);
            }
            return;
        }
        if self.limits.inflight_long.is_finite() {
            self.limits.inflight_long = self.limits.inflight_long.max(sample.in_flight);
            if self.mode == Mode::Up && ack.cwnd_limited {
                self.limits.probe_upward(ack, self.cwnd, self.round_start);
            }
        }
    }

    fn lower_long_term(&mut self, ack: &AckSample, in_flight: f64) {
        self.probe_samples = false;
        if !self.app_limited(ack) {
            self.limits.lower_long(in_flight, self.target_inflight());
        }
        if self.mode == Mode::Up {
            self.start_down(ack);
        }
    }

    fn is_time_to_probe(&self, ack: &AckSample) -> bool {
        let reno_rounds = self.target_inflight().min(RENO_ROUNDS);
        ack.now > self.cycle_stamp + self.probe_wait
            || self.rounds_since_probe as f64 >= reno_rounds
    }

    fn is_time_to_cruise(&self, ack: &AckSample) -> bool {
        let in_flight = ack.in_flight as f64;
        in_flight <= self.limits.with_headroom() && in_flight <= self.inflight(1.0)
    }

    fn is_time_to_go_down(&mut self, ack: &AckSample, rate: f64) -> bool {
        if ack.cwnd_limited && self.cwnd >= self.limits.inflight_long {
            // The limit, not the path, holds the rate: a plateau says nothing yet.
            self.reset_full_bw();
            self.full_bw = rate;
            return false;
        }
        self.full_bw_now
    }

    fn start_down(&mut self, ack: &AckSample) {
        self.limits.forget_round();
        self.rounds_since_probe = self.rng.below(2);
        self.probe_wait = PROBE_WAIT + Duration::from_nanos(self.rng.below(1_000_000_000));
        self.cycle_stamp = ack.now;
        self.ack_phase = AckPhase::Stopping;
        self.start_round(ack);
        self.mode = Mode::Down;
    }

    fn start_refill(&mut self, ack: &AckSample) {
        self.limits.reset_short();
        self.limits.begin_probe();
        self.ack_phase = AckPhase::Refilling;
        self.start_round(ack);
        self.mode = Mode::Refill;
    }

    fn start_up(&mut self, ack: &AckSample, rate: f64) {
        self.probe_samples = true;
        self.ack_phase = AckPhase::Starting;
        self.start_round(ack);
        self.reset_full_bw();
        self.full_bw = rate;
        self.cycle_stamp = ack.now;
        self.mode = Mode::Up;
        self.limits.raise_slope(self.cwnd);
    }
}

/// Pacing and the window.
impl Bbr3 {
    fn pace_initially(&mut self, rtt_s: f64) {
        self.pacing = self.cwnd / rtt_s * self.mss * STARTUP_GAIN * PACING_MARGIN;
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
            let (_, gain) = self.mode.gains();
            let most = self.with_budget(self.bdp(self.bw(), gain) + aggregated);
            if self.filled {
                self.cwnd = (self.cwnd + acked).min(most);
            } else if self.cwnd < most || (ack.total_delivered as f64) < INITIAL_CWND {
                self.cwnd += acked;
            }
            self.cwnd = self.cwnd.max(MIN_CWND);
        }
        self.cwnd = self.cwnd.min(self.cap().max(MIN_CWND));
    }

    /// What the model allows in flight.
    fn cap(&self) -> f64 {
        let limits = &self.limits;
        match self.mode {
            Mode::Startup => f64::INFINITY,
            Mode::Refill | Mode::Up => limits.inflight_long,
            Mode::Drain | Mode::Down => limits.inflight_long.min(limits.inflight_short),
            Mode::Cruise => limits.with_headroom().min(limits.inflight_short),
            Mode::ProbeRtt => {
                limits.with_headroom().min(limits.inflight_short).min(self.probe_rtt_cwnd())
            }
        }
    }

    /// As in v1: one segment out per segment delivered in the first round of recovery; the window
    /// from before at its end. Says whether the window is settled.
    fn recover_or_restore(&mut self, ack: &AckSample) -> bool {
        let conserved = (ack.in_flight + ack.delivered) as f64;
        self.cwnd = (self.cwnd - ack.newly_lost as f64).max(1.0);
        let was = std::mem::replace(&mut self.phase, ack.phase);
        if ack.phase == Phase::Recovery && was != Phase::Recovery {
            self.packet_conservation = true;
            self.start_round(ack);
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

impl CongestionControl for Bbr3 {
    fn on_established(&mut self, srtt: Duration) {
        self.has_seen_rtt = true;
        self.pace_initially(srtt.as_secs_f64().max(1e-6));
    }

    fn on_ack(&mut self, ack: &AckSample, _: &Coupling<'_>) {
        self.history.record(ack);
        self.round_start = false;
        if ack.rate.delivered > 0 && !ack.rate.interval.is_zero() {
            let rate = ack.rate.delivered as f64 / ack.rate.interval.as_secs_f64();
            self.update_round(ack);
            self.update_bw(ack, rate);
            self.aggregation.on_ack(ack, self.round_start, self.bw(), self.cwnd);
            self.check_full_bw(ack, rate);
            self.check_startup_done(ack);
            self.check_drain_done(ack);
            self.update_probe_bw(ack, rate);
        }
        self.update_min_rtt(ack);
        self.limits.end_of_ack();
        if !self.has_seen_rtt && !ack.srtt.is_zero() {
            self.on_established(ack.srtt);
        }
        self.set_pacing(self.mode.gains().0);
        self.set_cwnd(ack);
    }

    /// The window itself follows with the acknowledgement that told of the loss.
    fn on_congestion(&mut self, _: &LossEvent, _: &Coupling<'_>) {
        self.save_cwnd();
        self.limits.save();
    }

    fn on_timeout(&mut self, loss: &LossEvent, first: bool, _: &Coupling<'_>) {
        if first {
            self.save_cwnd();
            self.limits.save();
        }
        self.cwnd = self.cwnd.min(loss.in_flight as f64 + 1.0);
        self.phase = Phase::Loss;
    }

    fn on_spurious(&mut self) {
        self.limits.restore();
        self.reset_full_bw();
        if self.phase != Phase::Open {
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
    }

    fn on_restart(&mut self, now: Instant) {
        self.idle_restart = true;
        self.aggregation.restart(now);
        if self.mode.is_probe_bw() {
            self.set_pacing(1.0);
        }
    }

    fn on_penalty(&mut self) {
        self.cwnd = (self.cwnd / 2.0).floor().max(1.0);
    }

    /// The model of the path does not wear off with disuse.
    fn on_unused_window(&mut self, _: f64) {}

    fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// BBR v3 has none.
    fn ssthresh(&self) -> f64 {
        f64::INFINITY
    }

    fn pacing_rate(&self) -> Option<Bitrate> {
        Some(Bitrate::bps(((self.pacing * 8.0) as u64).max(1)))
    }

    fn owns_recovery(&self) -> bool {
        true
    }
}
