//! BBR's allowance for acknowledgements that come in bursts (`bbr_update_ack_aggregation`,
//! tcp_bbr.c): how many more segments were acknowledged than the rate explains.

use weftline_core::Instant;

use crate::AckSample;

/// Rounds after which the older of two maxima is dropped, so that one lives for 5 to 10
/// (`bbr_extra_acked_win_rtts`).
const WINDOW_ROUNDS: u32 = 5;
/// An epoch ends at the latest after so many segments (`bbr_ack_epoch_acked_reset_thresh`).
const EPOCH_SEGMENTS: f64 = 1_048_576.0;
/// The allowance is at most what the rate delivers in this time, in seconds
/// (`bbr_extra_acked_max_us`).
const MAX_S: f64 = 0.1;

/// The greatest recent excess.
#[derive(Debug, Default)]
pub(crate) struct Aggregation {
    epoch: Instant,
    epoch_acked: f64,
    /// The greatest excess of the current and of the former window, in segments.
    extra: [f64; 2],
    rounds: u32,
}

impl Aggregation {
    /// Takes an acknowledgement; `bw` in segments per second, `cwnd` in segments.
    pub(crate) fn on_ack(&mut self, ack: &AckSample, round_start: bool, bw: f64, cwnd: f64) {
        if ack.delivered == 0 || ack.rate.delivered == 0 || ack.rate.interval.is_zero() {
            return;
        }
        if round_start {
            self.rounds += 1;
            if self.rounds >= WINDOW_ROUNDS {
                self.rounds = 0;
                self.extra = [0.0, self.extra[0]];
            }
        }
        let acked = ack.delivered as f64;
        let mut expected = (bw * ack.now.since(self.epoch).as_secs_f64()).floor();
        if self.epoch_acked <= expected || self.epoch_acked + acked >= EPOCH_SEGMENTS {
            self.restart(ack.now);
            expected = 0.0;
        }
        self.epoch_acked += acked;
        let extra = (self.epoch_acked - expected).min(cwnd);
        self.extra[0] = self.extra[0].max(extra);
    }

    /// Begins a new epoch.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.epoch = now;
        self.epoch_acked = 0.0;
    }

    /// What to add to the window, in segments.
    pub(crate) fn cwnd(&self, bw: f64) -> f64 {
        self.extra[0].max(self.extra[1]).min(bw * MAX_S)
    }
}
