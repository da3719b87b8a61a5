//! BBR v3's bounds on what may be in flight, and the losses that set them
//! (draft-ietf-ccwg-bbr: "Congestion Signals", "Updating the Model Upon Packet Loss").

use std::collections::VecDeque;

use crate::AckSample;

/// More than this share lost means too much in flight (`LossThresh`).
const LOSS_THRESHOLD: f64 = 0.02;
/// What a round with losses leaves of a bound (`Beta`).
const BETA: f64 = 0.7;
/// The share of the long-term limit that is left to others (`Headroom`).
const HEADROOM: f64 = 0.15;
/// The least window in segments (`MinPipeCwnd`).
const MIN_CWND: f64 = 4.0;
/// Loss counts kept: one per acknowledgement that told of losses within a round trip.
const HISTORY: usize = 4_096;

/// The bounds; infinite until something sets them.
#[derive(Debug)]
pub(super) struct Limits {
    /// In segments per second.
    pub(super) bw_short: f64,
    /// In segments.
    pub(super) inflight_short: f64,
    pub(super) inflight_long: f64,
    /// The greatest samples of the round.
    bw_latest: f64,
    pub(super) inflight_latest: f64,
    sample: (f64, f64),
    round_delivered: u64,
    round_start: bool,
    loss_in_round: bool,
    losses: u32,
    last_losses: u32,
    /// Segments acknowledged towards the next segment of `inflight_long`, how many make it, and
    /// the rounds of the probe.
    probe_acked: f64,
    probe_count: f64,
    probe_rounds: u32,
    before: (f64, f64, f64),
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            bw_short: f64::INFINITY,
            inflight_short: f64::INFINITY,
            inflight_long: f64::INFINITY,
            bw_latest: 0.0,
            inflight_latest: 0.0,
            sample: (0.0, 0.0),
            round_delivered: 0,
            round_start: false,
            loss_in_round: false,
            losses: 0,
            last_losses: 0,
            probe_acked: 0.0,
            probe_count: f64::INFINITY,
            probe_rounds: 0,
            before: (0.0, 0.0, 0.0),
        }
    }
}

impl Limits {
    /// Takes a sample of the delivery rate in segments per second. Says whether a round with
    /// losses has ended.
    pub(super) fn on_ack(&mut self, ack: &AckSample, rate: f64) -> bool {
        self.sample = (rate, ack.rate.delivered as f64);
        self.bw_latest = self.bw_latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(self.sample.1);
        self.round_start = ack.rate.prior_delivered >= self.round_delivered;
        self.last_losses = 0;
        if ack.newly_lost > 0 {
            self.loss_in_round = true;
            self.losses += 1;
        }
        if !self.round_start {
            return false;
        }
        self.round_delivered = ack.total_delivered;
        self.last_losses = std::mem::take(&mut self.losses);
        std::mem::take(&mut self.loss_in_round)
    }

    /// The next round's samples begin with the last one.
    pub(super) fn end_of_ack(&mut self) {
        if std::mem::take(&mut self.round_start) {
            (self.bw_latest, self.inflight_latest) = self.sample;
        }
    }

    /// Acknowledgements that told of losses in the round that has just ended; 0 within a round.
    pub(super) fn losses_in_last_round(&self) -> u32 {
        self.last_losses
    }

    /// A round with losses that no probe has caused lowers the short-term bounds.
    pub(super) fn adapt(&mut self, max_bw: f64, cwnd: f64) {
        let bw = if self.bw_short.is_finite() { self.bw_short } else { max_bw };
        let inflight = if self.inflight_short.is_finite() { self.inflight_short } else { cwnd };
        self.bw_short = self.bw_latest.max(BETA * bw);
        self.inflight_short = self.inflight_latest.max(BETA * inflight);
    }

    pub(super) fn reset_short(&mut self) {
        self.bw_short = f64::INFINITY;
        self.inflight_short = f64::INFINITY;
    }

    pub(super) fn forget_round(&mut self) {
        self.loss_in_round = false;
        self.losses = 0;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
        self.probe_count = f64::INFINITY;
    }

    /// A probe had `in_flight` when too much was lost; Reno would have `target`.
    pub(super) fn lower_long(&mut self, in_flight: f64, target: f64) {
        self.inflight_long = in_flight.max(BETA * target);
    }

    /// The long-term limit less what is left to others.
    pub(super) fn with_headroom(&self) -> f64 {
        if self.inflight_long.is_infinite() {
            return f64::INFINITY;
        }
        let headroom = (HEADROOM * self.inflight_long).max(1.0);
        (self.inflight_long - headroom).max(MIN_CWND)
    }

    pub(super) fn begin_probe(&mut self) {
        self.probe_rounds = 0;
        self.probe_acked = 0.0;
    }

    /// The limit grows by 1, 2, 4 … segments per round of a probe.
    pub(super) fn raise_slope(&mut self, cwnd: f64) {
        let growth = f64::from(1_u32 << self.probe_rounds);
        self.probe_rounds = (self.probe_rounds + 1).min(30);
        self.probe_count = (cwnd / growth).max(1.0);
    }

    /// A probe fills the window, and nothing is lost.
    pub(super) fn probe_upward(&mut self, ack: &AckSample, cwnd: f64, round_start: bool) {
        if cwnd < self.inflight_long {
            return;
        }
        self.probe_acked += ack.delivered as f64;
        let more = (self.probe_acked / self.probe_count).floor();
        if more >= 1.0 {
            self.probe_acked -= more * self.probe_count;
            self.inflight_long += more;
        }
        if round_start {
            self.raise_slope(cwnd);
        }
    }

    pub(super) fn save(&mut self) {
        self.before = (self.bw_short, self.inflight_short, self.inflight_long);
    }

    /// A loss was none: the bounds are at least what they were.
    pub(super) fn restore(&mut self) {
        let (bw_short, inflight_short, inflight_long) = self.before;
        self.bw_short = self.bw_short.max(bw_short);
        self.inflight_short = self.inflight_short.max(inflight_short);
        self.inflight_long = self.inflight_long.max(inflight_long);
        self.loss_in_round = false;
    }
}

/// What was in flight when the acknowledged segment was sent, and how much of it was lost.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) in_flight: f64,
    lost: f64,
}

impl Flight {
    /// Whether more than 2 % was lost.
    pub(super) fn is_too_high(self) -> bool {
        self.lost > LOSS_THRESHOLD * self.in_flight
    }
}

/// How much had been lost when so much had been delivered: what each segment would otherwise
/// carry with it.
#[derive(Debug, Default)]
pub(super) struct LossHistory {
    /// (delivered, lost) whenever losses became known, oldest first.
    steps: VecDeque<(u64, u64)>,
    /// Lost before the oldest.
    base: u64,
}

impl LossHistory {
    pub(super) fn record(&mut self, ack: &AckSample) {
        // Later samples are of segments sent later, or little earlier if they were reordered.
        while let Some(&(delivered, lost)) = self.steps.front()
            && (delivered < ack.rate.prior_delivered || self.steps.len() > HISTORY)
        {
            self.base = lost;
            self.steps.pop_front();
        }
        if ack.newly_lost > 0 {
            self.steps.push_back((ack.total_delivered, ack.total_lost));
        }
    }

    /// The flight of the segment that `ack` samples. On a path that keeps the order, what was in
    /// flight then has been delivered or lost since.
    pub(super) fn sample(&self, ack: &AckSample) -> Flight {
        let known = self.steps.partition_point(|step| step.0 <= ack.rate.prior_delivered);
        let before = known.checked_sub(1).map_or(self.base, |last| self.steps[last].1);
        let lost = ack.total_lost.saturating_sub(before) as f64;
        Flight { in_flight: ack.rate.delivered as f64 + lost, lost }
    }
}
