//! Slow start and how it ends before the first loss: by loss only, by HyStart as in Linux
//! (Ha and Rhee 2008, tcp_cubic.c) or by HyStart++ (RFC 9406).

use std::time::Duration;

use weftline_core::Instant;

use crate::window::Window;
use crate::{AckSample, Config, SlowStart};

/// Below this window, in segments, slow start is left alone (`hystart_low_window`, tcp_cubic.c).
const LOW_WINDOW: f64 = 16.0;
/// Acknowledgements this close together form a train (`hystart_ack_delta_us`, tcp_cubic.c).
const ACK_DELTA: Duration = Duration::from_millis(2);
/// How much delay may be explained by packets handed down in bulk: at most 1 ms, or the time of
/// 4 of the largest bulks (`hystart_ack_delay`, tcp_cubic.c).
const ACK_DELAY_MAX: Duration = Duration::from_millis(1);
/// The largest bulk in bytes (`GSO_LEGACY_MAX_SIZE`, netdevice.h).
const BULK_BYTES: f64 = 65_536.0;
/// Samples of a round before its least delay counts: `HYSTART_MIN_SAMPLES` of tcp_cubic.c and
/// `N_RTT_SAMPLE` of RFC 9406 §4.3.
const RTT_SAMPLES: u32 = 8;
/// The delay increase that ends slow start is an eighth of the base within these bounds:
/// `HYSTART_DELAY_MIN` and `_MAX` of tcp_cubic.c; `MIN_RTT_THRESH`, `MAX_RTT_THRESH` and
/// `MIN_RTT_DIVISOR` of RFC 9406 §4.3.
const DELAY_MIN: Duration = Duration::from_millis(4);
const DELAY_MAX: Duration = Duration::from_millis(16);
const DELAY_DIVISOR: u32 = 8;
/// Conservative slow start grows this much slower (`CSS_GROWTH_DIVISOR`, RFC 9406 §4.3).
const CSS_GROWTH_DIVISOR: f64 = 4.0;
/// And ends after so many rounds (`CSS_ROUNDS`, RFC 9406 §4.3).
const CSS_ROUNDS: u32 = 5;
/// The most segments that one acknowledgement may add for a sender that does not pace (`L`,
/// RFC 9406 §4.3).
const GROWTH_LIMIT: f64 = 8.0;

/// The increase over `base` that means that a queue is building.
pub(crate) fn delay_threshold(base: Duration) -> Duration {
    (base / DELAY_DIVISOR).clamp(DELAY_MIN, DELAY_MAX)
}

/// What grows the window in slow start.
#[derive(Debug)]
pub(crate) enum SlowStarter {
    Plain,
    Classic(Classic),
    PlusPlus(PlusPlus),
}

impl SlowStarter {
    /// The choice of a control that has no HyStart in Linux.
    pub(crate) fn rfc(config: &Config) -> Self {
        match config.slow_start {
            SlowStart::HystartPlusPlus => Self::PlusPlus(PlusPlus::default()),
            SlowStart::Hystart | SlowStart::Plain => Self::Plain,
        }
    }

    /// The choice of CUBIC.
    pub(crate) fn cubic(config: &Config) -> Self {
        match config.slow_start {
            SlowStart::Hystart => Self::Classic(Classic::new(config.mss)),
            SlowStart::HystartPlusPlus => Self::PlusPlus(PlusPlus::default()),
            SlowStart::Plain => Self::Plain,
        }
    }

    /// Grows the window if it is in slow start; returns the acknowledged segments that are left
    /// for congestion avoidance, 0 if the window does not limit the sender.
    pub(crate) fn on_ack(&mut self, ack: &AckSample, window: &mut Window) -> f64 {
        let mut acked = ack.delivered as f64;
        if let Self::PlusPlus(detector) = self
            && window.ssthresh() == f64::INFINITY
        {
            acked = detector.on_ack(ack, window);
        }
        match (ack.cwnd_limited, window.in_slow_start()) {
            (false, _) => 0.0,
            (true, true) => window.slow_start(acked),
            (true, false) => acked,
        }
    }
}

/// HyStart: slow start ends when the acknowledgements of one round have been arriving in a train
/// for half of the base delay, or when the least delay of a round has risen.
#[derive(Debug)]
pub(crate) struct Classic {
    mss: f64,
    found: bool,
    /// SND.NXT when the round began: it ends when this has been passed.
    round_end: Option<u64>,
    round_start: Instant,
    last_ack: Instant,
    round_rtt: Duration,
    samples: u32,
}

impl Classic {
    fn new(mss: u64) -> Self {
        Self {
            mss: mss as f64,
            found: false,
            round_end: None,
            round_start: Instant::default(),
            last_ack: Instant::default(),
            round_rtt: Duration::MAX,
            samples: 0,
        }
    }

    /// After a timeout slow start is watched anew.
    pub(crate) fn reset(&mut self) {
        *self = Self::new(self.mss as u64);
    }

    /// Takes a round-trip time of slow start; `base` is the least seen. Says whether to end it.
    pub(crate) fn ends(
        &mut self,
        ack: &AckSample,
        rtt: Duration,
        base: Duration,
        cwnd: f64,
    ) -> bool {
        if self.found {
            return false;
        }
        // Rounds are counted in small windows too, so that each begins with a flight's first
        // acknowledgement.
        if self.round_end.is_none_or(|end| ack.una > end) {
            self.round_end = Some(ack.nxt);
            self.round_start = ack.now;
            self.last_ack = ack.now;
            self.round_rtt = Duration::MAX;
            self.samples = 0;
        }
        if cwnd < LOW_WINDOW {
            return false;
        }
        self.found = self.train(ack, base, cwnd) || self.delay(rtt, base);
        self.found
    }

    fn train(&mut self, ack: &AckSample, base: Duration, cwnd: f64) -> bool {
        if ack.now.since(self.last_ack) > ACK_DELTA {
            return false;
        }
        self.last_ack = ack.now;
        // Linux reckons the bulk's time with the rate it would pace at: twice cwnd per srtt.
        let bytes = 2.0 * cwnd * self.mss;
        let bulk_s = 4.0 * BULK_BYTES * ack.srtt.as_secs_f64() / bytes;
        let slack = bulk_s.min(ACK_DELAY_MAX.as_secs_f64());
        let threshold_s = (base.as_secs_f64() + slack) / 2.0;
        ack.now.since(self.round_start).as_secs_f64() > threshold_s
    }

    fn delay(&mut self, rtt: Duration, base: Duration) -> bool {
        self.round_rtt = self.round_rtt.min(rtt);
        if self.samples < RTT_SAMPLES {
            self.samples += 1;
            return false;
        }
        self.round_rtt > base + delay_threshold(base)
    }
}

/// HyStart++: a rise of the round's least delay only slows the growth down; slow start ends after
/// five rounds of it, and goes on if the delay falls again.
#[derive(Debug, Default)]
pub(crate) struct PlusPlus {
    round_end: Option<u64>,
    last_round_rtt: Option<Duration>,
    round_rtt: Option<Duration>,
    samples: u32,
    /// In conservative slow start: the least delay when it began, and the rounds it has lasted.
    conservative: Option<(Duration, u32)>,
}

impl PlusPlus {
    /// Takes an acknowledgement of the first slow start; returns by how much it may grow the
    /// window. Ends slow start in `window` when it is time.
    fn on_ack(&mut self, ack: &AckSample, window: &mut Window) -> f64 {
        self.round(ack, window);
        if let Some(rtt) = ack.rtt {
            self.round_rtt = Some(self.round_rtt.map_or(rtt, |least| least.min(rtt)));
            self.samples += 1;
        }
        if self.samples >= RTT_SAMPLES {
            self.judge();
        }
        let growth = (ack.delivered as f64).min(GROWTH_LIMIT);
        match self.conservative {
            _ if !window.in_slow_start() => ack.delivered as f64,
            Some(_) => growth / CSS_GROWTH_DIVISOR,
            None => growth,
        }
    }

    fn round(&mut self, ack: &AckSample, window: &mut Window) {
        if self.round_end.is_some_and(|end| ack.una < end) {
            return;
        }
        let first = self.round_end.is_none();
        self.round_end = Some(ack.nxt);
        if first {
            return;
        }
        self.last_round_rtt = self.round_rtt.take();
        self.samples = 0;
        if let Some((_, rounds)) = &mut self.conservative {
            *rounds += 1;
            if *rounds >= CSS_ROUNDS {
                window.end_slow_start();
            }
        }
    }

    fn judge(&mut self) {
        let Some(rtt) = self.round_rtt else { return };
        match (self.conservative, self.last_round_rtt) {
            (Some((baseline, _)), _) if rtt < baseline => self.conservative = None,
            (None, Some(last)) if rtt >= last + delay_threshold(last) => {
                self.conservative = Some((rtt, 0));
            }
            _ => {}
        }
    }
}
