//! BBR's token-bucket policer detection (`bbr_lt_bw_sampling`, tcp_bbr.c): two successive lossy
//! intervals with the same rate mean that a policer sets it, and that rate is used for a while.

use weftline_core::Instant;

use crate::AckSample;

/// The least length of an interval in rounds; four times as long is too long
/// (`bbr_lt_intvl_min_rtts`).
const INTERVAL_ROUNDS: u32 = 4;
/// An interval counts if so many of 256 delivered segments were lost (`bbr_lt_loss_thresh`).
const LOSS_THRESHOLD: f64 = 50.0 / 256.0;
/// Two rates are the same within an eighth (`bbr_lt_bw_ratio`) …
const SAME_RATIO: f64 = 1.0 / 8.0;
/// … or 4 kbit/s, in bytes/s (`bbr_lt_bw_diff`).
const SAME_BYTES: f64 = 500.0;
/// Rounds for which the rate is used (`bbr_lt_bw_max_rtts`).
const USE_ROUNDS: u32 = 48;

/// Whether a policer is at work, and at what rate.
#[derive(Debug, Default)]
pub(super) struct Policer {
    sampling: bool,
    rounds: u32,
    in_use: bool,
    /// The rate of the last interval, or the one in use, in segments per second; 0 if none.
    bw: f64,
    start: Instant,
    start_delivered: u64,
    start_lost: u64,
}

impl Policer {
    /// The policer's rate in segments per second while it is in use.
    pub(super) fn rate(&self) -> Option<f64> {
        self.in_use.then_some(self.bw)
    }

    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Takes an acknowledgement with a rate sample. `lost` says that it marked segments as lost,
    /// `limited` that the application limited it, `probing` that PROBE_BW is on. Returns whether
    /// the rate has been used long enough and PROBE_BW is to begin anew.
    pub(super) fn on_ack(
        &mut self,
        ack: &AckSample,
        round_start: bool,
        lost: bool,
        limited: bool,
        probing: bool,
        mss: f64,
    ) -> bool {
        if self.in_use {
            self.rounds += u32::from(probing && round_start);
            let over = self.rounds >= USE_ROUNDS;
            if over {
                self.reset();
            }
            return over;
        }
        if !self.sampling {
            // A policer's tokens are gone at the first loss: the interval begins there.
            if !lost {
                return false;
            }
            self.begin_interval(ack);
            self.sampling = true;
        }
        if limited {
            self.reset();
            return false;
        }
        self.rounds += u32::from(round_start);
        if self.rounds > 4 * INTERVAL_ROUNDS {
            self.reset();
        } else if self.rounds >= INTERVAL_ROUNDS && lost {
            self.end_interval(ack, mss);
        }
        false
    }

    fn begin_interval(&mut self, ack: &AckSample) {
        self.start = ack.now;
        self.start_delivered = ack.total_delivered;
        self.start_lost = ack.total_lost;
        self.rounds = 0;
    }

    fn end_interval(&mut self, ack: &AckSample, mss: f64) {
        let lost = ack.total_lost.saturating_sub(self.start_lost) as f64;
        let delivered = ack.total_delivered.saturating_sub(self.start_delivered) as f64;
        let elapsed = ack.now.since(self.start);
        if delivered == 0.0 || lost < LOSS_THRESHOLD * delivered || elapsed.as_millis() == 0 {
            return;
        }
        let bw = delivered / elapsed.as_secs_f64();
        let difference = (bw - self.bw).abs();
        let same = difference <= SAME_RATIO * self.bw || difference * mss <= SAME_BYTES;
        if self.bw > 0.0 && same {
            self.bw = (bw + self.bw) / 2.0;
            self.in_use = true;
            self.rounds = 0;
        } else {
            self.bw = bw;
            self.begin_interval(ack);
        }
    }
}
