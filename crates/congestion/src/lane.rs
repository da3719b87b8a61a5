//! The congestion control of a bond's lane (`weftline_core::datagram`): one of this crate's controls,
//! which count segments, for packets that are told of in bytes.
//!
//! Nothing that is lost goes again on a lane, so there is no recovery: a control learns of losses with
//! what has come, and that all of a flight is gone when the lane falls silent.

use std::time::Duration;

use weftline_core::datagram::{LaneAck, LaneCongestion, LaneRate, TELLING};
use weftline_core::{Bitrate, Instant};

use crate::{
    AckSample, Config, CongestionControl, Coupling, LossEvent, Member, Phase, RateSample, bbr,
};

/// The least that may be on its way, in segments, as BBR has it.
const LEAST_SEGMENTS: u64 = 4;
/// What may be on its way at first, in segments (RFC 6928).
const FIRST_SEGMENTS: u64 = 10;

/// A round trip so much longer than the least is one without a queue. What a program sends evenly seldom fills a
/// lane, so that there is one now and then; with BBR's own rule, which wants a shorter one than ever, a flow of 8
/// Mb/s over 10 Mb/s has a quarter of that for 200 ms every ten seconds, and packets are lost (docs/results.md).
const NEAR_RTT: Duration = Duration::from_millis(1);

/// BBR v1 for a lane whose packets have `mtu` bytes at most.
pub fn bbr(mtu: usize) -> Box<dyn LaneCongestion> {
    let mss = (mtu as u64).max(1);
    let config = Config { mss, near_rtt: NEAR_RTT, ..Config::default() };
    Box::new(Segmented::new(bbr::Bbr::make(&config), mss))
}

/// A control, and what turns bytes into its segments.
#[derive(Debug)]
struct Segmented {
    control: Box<dyn CongestionControl>,
    mss: u64,
    /// Of which the control has heard, in segments.
    delivered: u64,
    lost: u64,
    /// The number of the next byte: all that came, were lost or are on their way.
    next: u64,
    /// Bytes of a second at the greatest rate of late, and those of the least round trip at that rate.
    rate: u64,
    product: u64,
    /// What had been delivered when the round trip under way began, and its least time so far.
    round: (u64, Duration),
    /// Whether all of the last round trip took so much longer than the least that the link has a queue: it
    /// carries no more than what has come, however little there was to send.
    is_full: bool,
}

impl Segmented {
    fn new(control: Box<dyn CongestionControl>, mss: u64) -> Self {
        Self {
            control,
            mss,
            delivered: 0,
            lost: 0,
            next: 0,
            rate: 0,
            product: 0,
            round: (0, Duration::MAX),
            is_full: false,
        }
    }

    fn note_round(&mut self, ack: &LaneAck) {
        const QUEUE: Duration = Duration::from_millis(4);
        let Some(rtt) = ack.rtt else { return };
        self.round.1 = self.round.1.min(rtt);
        if ack.rate.is_some_and(|rate| rate.prior_delivered >= self.round.0) {
            // The queue may be another's, or none but a jump of the delay: then this lane has little on its way.
            let own = ack.in_flight_before
                >= (self.product + self.product / 8).max(FIRST_SEGMENTS * self.mss);
            self.is_full = own && self.round.1 > ack.least_rtt + QUEUE.max(ack.least_rtt / 4);
            self.round = (ack.total_delivered, Duration::MAX);
        }
    }

    fn sample(&mut self, ack: &LaneAck) -> AckSample {
        self.note_round(ack);
        let segments = |bytes: u64| bytes / self.mss;
        let (delivered, lost) = (segments(ack.total_delivered), segments(ack.total_lost));
        let lost_now = lost - self.lost;
        let rate = ack.rate.map(|rate| self.rate(rate, lost_now)).unwrap_or_default();
        let sample = AckSample {
            now: ack.now,
            delivered: delivered - self.delivered,
            rtt: ack.rtt,
            srtt: ack.srtt,
            min_rtt: ack.least_rtt,
            prior_in_flight: ack.in_flight_before.div_ceil(self.mss),
            in_flight: ack.in_flight.div_ceil(self.mss),
            cwnd_limited: ack.in_flight_before + self.mss >= self.window(),
            phase: Phase::Open,
            newly_lost: lost_now,
            total_delivered: delivered,
            total_lost: lost,
            una: ack.total_delivered + ack.total_lost,
            nxt: ack.total_delivered + ack.total_lost + ack.in_flight,
            rate,
        };
        self.rate = ack.greatest_rate;
        self.product = (ack.greatest_rate as f64 * ack.least_rtt.as_secs_f64()) as u64;
        (self.delivered, self.lost, self.next) = (delivered, lost, sample.nxt);
        sample
    }

    /// In whole segments over as long as these took: a part of one more would be a large part of a short
    /// flight.
    fn rate(&self, rate: LaneRate, lost: u64) -> RateSample {
        let delivered = (rate.delivered / self.mss).max(1);
        let part = (delivered * self.mss) as f64 / rate.delivered.max(1) as f64;
        RateSample {
            delivered,
            interval: rate.interval.mul_f64(part.min(self.mss as f64)),
            prior_delivered: rate.prior_delivered / self.mss,
            app_limited: rate.is_limited && !self.is_full,
            lost,
        }
    }

    /// Runs something with nothing to couple.
    fn alone(&mut self, act: impl FnOnce(&mut dyn CongestionControl, &Coupling<'_>)) {
        let members: [Member; 1] = [self.control.member(Duration::ZERO)];
        act(&mut *self.control, &Coupling { members: &members, me: 0 });
    }
}

impl LaneCongestion for Segmented {
    fn on_established(&mut self, rtt: Duration) {
        self.control.on_established(rtt);
    }

    fn on_ack(&mut self, ack: &LaneAck) {
        let sample = self.sample(ack);
        self.alone(|control, coupling| control.on_ack(&sample, coupling));
    }

    fn on_restart(&mut self, now: Instant) {
        self.control.on_restart(now);
    }

    fn on_silence(&mut self, now: Instant) {
        let loss = LossEvent { now, nxt: self.next, ..LossEvent::default() };
        self.alone(|control, coupling| control.on_timeout(&loss, true, coupling));
    }

    fn window(&self) -> u64 {
        let (least, segments) = (LEAST_SEGMENTS * self.mss, self.control.cwnd());
        let window = ((segments * self.mss as f64) as u64).max(least);
        if segments <= LEAST_SEGMENTS as f64 {
            // The link's queue is to be empty for once.
            return window;
        }
        // BBR's first phase has up to 2.89 products on their way, for three rounds more once it has found
        // the rate. Twice is enough for twice the rate in the next one, and calls share the link's queue.
        let is_first = self.control.ssthresh().is_infinite() && self.rate > 0;
        let most = if is_first { 2 * self.product + FIRST_SEGMENTS * self.mss } else { u64::MAX };
        // What has come and was not told yet is on its way no more.
        let rate = Bitrate::bps(self.rate.saturating_mul(8)).max(Bitrate::kbps(80));
        window.min(most) + self.pacing_rate().min(rate).bytes_in(TELLING).as_u64()
    }

    fn pacing_rate(&self) -> Bitrate {
        // Only of those that do not pace, and BBR does.
        self.control.pacing_rate().unwrap_or(Bitrate::mbps(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1_400;

    /// In how many of 3,000 steps of 10 ms a lane has its least window that carries 8 Mb/s with such round trips,
    /// in microseconds.
    fn emptied(near_rtt: Duration, rtt_us: impl Fn(u64) -> u64) -> usize {
        let config = Config { mss: MSS, near_rtt, ..Config::default() };
        let mut lane = Segmented::new(bbr::Bbr::make(&config), MSS);
        let least_rtt = Duration::from_micros(20_000);
        lane.on_established(least_rtt);
        let step = 10_000;
        let least = |n: u64| {
            let (total, window) = (step * (n + 1), lane.window());
            let rate = LaneRate {
                delivered: 2 * step,
                interval: Duration::from_millis(20),
                prior_delivered: total.saturating_sub(2 * step),
                is_limited: true,
            };
            lane.on_ack(&LaneAck {
                now: Instant::from_millis(10 * (n + 1)),
                delivered: step,
                total_delivered: total,
                in_flight_before: 2 * step,
                in_flight: (2 * step).min(window),
                rtt: Some(Duration::from_micros(rtt_us(n))),
                srtt: least_rtt,
                least_rtt,
                rate: Some(rate),
                greatest_rate: 1_000_000,
                ..LaneAck::default()
            });
            n > 100 && window <= LEAST_SEGMENTS * MSS
        };
        (0..3_000).map(least).filter(|is_least| *is_least).count()
    }

    /// The first round trip is the shortest of all.
    #[test]
    fn a_lane_whose_queue_is_empty_is_not_emptied_for_that() {
        let jitters = |n: u64| if n == 0 { 20_000 } else { 20_200 + 400 * (n % 7) };
        assert_eq!(emptied(NEAR_RTT, jitters), 0);
        // As TCP has it: each ten seconds.
        let as_linux = emptied(Duration::ZERO, jitters);
        assert!(as_linux >= 2 * 20, "{as_linux}");
    }

    /// What does not get shorter by that is the way itself, from then on.
    #[test]
    fn where_no_round_trip_is_short_for_ten_seconds_the_lane_is_emptied() {
        let queued = |n: u64| if n == 0 { 20_000 } else { 25_000 + 400 * (n % 7) };
        let once = emptied(NEAR_RTT, queued);
        assert!((20..40).contains(&once), "{once}");
    }
}
