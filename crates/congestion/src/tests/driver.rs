//! What drives a control in tests: a path that acknowledges segment by segment ([`Acks`]), and a
//! bottleneck with a queue ([`Pipe`]).

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use weftline_core::rng::{Rng, probability};
use weftline_core::{Bitrate, Instant};

use crate::{
    AckSample, Config, CongestionControl, Coupling, Entry, LossEvent, Phase, RateSample, SlowStart,
};

pub(crate) const MSS: u64 = 1448;

/// The control called `name`, whose slow start ends by loss only.
pub(crate) fn make(name: &str) -> Box<dyn CongestionControl> {
    let config = Config { slow_start: SlowStart::Plain, ..Config::default() };
    Entry::find(name).expect("registered").make(&config)
}

/// Subflows of one connection whose windows are always full: acknowledgements come one by one, a
/// window of them per round-trip time, and there is no queue.
pub(crate) struct Acks {
    pub(crate) flows: Vec<AckFlow>,
    pub(crate) now: Instant,
}

pub(crate) struct AckFlow {
    pub(crate) control: Box<dyn CongestionControl>,
    pub(crate) rtt: Duration,
    next: Instant,
    una: u64,
}

impl AckFlow {
    pub(crate) fn new(control: Box<dyn CongestionControl>, rtt: Duration) -> Self {
        Self { control, rtt, next: Instant::ZERO + rtt, una: 0 }
    }
}

impl Acks {
    pub(crate) fn new(flows: Vec<AckFlow>) -> Self {
        Self { flows, now: Instant::ZERO }
    }

    pub(crate) fn one(name: &str, rtt: Duration) -> Self {
        Self::new(vec![AckFlow::new(make(name), rtt)])
    }

    /// The next segment's fate is learnt: an acknowledgement, or a loss if `lost` says so of its
    /// flow. Returns the flow.
    pub(crate) fn step(&mut self, lost: impl FnOnce(usize) -> bool) -> usize {
        let due = |index: &usize| self.flows[*index].next;
        let index = (0..self.flows.len()).min_by_key(due).expect("there are flows");
        self.now = self.flows[index].next;
        let members: Vec<_> = self.flows.iter().map(|flow| flow.control.member(flow.rtt)).collect();
        let coupling = Coupling { members: &members, me: index };
        let flow = &mut self.flows[index];
        if lost(index) {
            let loss = LossEvent { now: self.now, srtt: flow.rtt, ..LossEvent::default() };
            flow.control.on_congestion(&loss, &coupling);
        } else {
            flow.una += MSS;
            let cwnd = flow.control.cwnd() as u64;
            flow.control.on_ack(
                &AckSample {
                    now: self.now,
                    delivered: 1,
                    rtt: Some(flow.rtt),
                    srtt: flow.rtt,
                    min_rtt: flow.rtt,
                    prior_in_flight: cwnd,
                    in_flight: cwnd - 1,
                    cwnd_limited: true,
                    total_delivered: flow.una / MSS,
                    una: flow.una,
                    nxt: flow.una + cwnd * MSS,
                    ..AckSample::default()
                },
                &coupling,
            );
        }
        flow.next = self.now + flow.rtt.div_f64(flow.control.cwnd().floor());
        index
    }

    /// The windows' means over time when each segment is lost with probability `p[flow]`, over
    /// `segments` segments after a tenth as many to warm up.
    pub(crate) fn mean_windows(&mut self, p: &[f64], segments: u64, seed: u64) -> Vec<f64> {
        let mut rng = Rng::stream(seed, "acks/loss");
        let mut counts = vec![0_u64; self.flows.len()];
        let mut start = self.now;
        for step in 0..segments + segments / 10 {
            if step == segments / 10 {
                counts.fill(0);
                start = self.now;
            }
            counts[self.step(|flow| rng.happens(probability(p[flow])))] += 1;
        }
        let elapsed = self.now.since(start).as_secs_f64();
        let mean = |(flow, count): (&AckFlow, u64)| count as f64 * flow.rtt.as_secs_f64() / elapsed;
        self.flows.iter().zip(counts).map(mean).collect()
    }

    /// The first flow's mean window when every `1/p`-th segment is lost, over `cycles` losses
    /// after as many to settle.
    pub(crate) fn mean_periodic(&mut self, p: f64, cycles: u64) -> f64 {
        let period = (1.0 / p).round() as u64;
        // Slow start would go far beyond the first cycle's window.
        self.step(|_| true);
        let mut start = self.now;
        for segment in 1..=2 * cycles * period {
            self.step(|_| segment % period == 0);
            if segment == cycles * period {
                start = self.now;
            }
        }
        let elapsed = self.now.since(start).as_secs_f64();
        (cycles * period) as f64 * self.flows[0].rtt.as_secs_f64() / elapsed
    }
}

/// A bottleneck: a rate, a propagation delay both ways together, a drop-tail queue, random loss.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PipeConfig {
    pub(crate) rate: Bitrate,
    pub(crate) rtt: Duration,
    pub(crate) queue: usize,
    pub(crate) loss: f64,
    /// A token bucket before the bottleneck, that drops what comes faster than its rate once its
    /// so many segments of burst are used up.
    pub(crate) policer: Option<(Bitrate, f64)>,
}

impl Default for PipeConfig {
    /// 100 Mbit/s, 20 ms, a queue of one product of both, no loss.
    fn default() -> Self {
        Self {
            rate: Bitrate::mbps(100),
            rtt: Duration::from_millis(20),
            queue: 167,
            loss: 0.0,
            policer: None,
        }
    }
}

/// One sender of unlimited data through a bottleneck. Each segment is acknowledged; a segment is
/// known to be lost when one sent later is acknowledged, and goes again before anything new.
/// Segments of 1500 bytes on the wire carry [`MSS`] bytes.
pub(crate) struct Pipe<C: CongestionControl + ?Sized = dyn CongestionControl> {
    pub(crate) config: PipeConfig,
    pub(crate) control: Box<C>,
    pub(crate) now: Instant,
    /// Segments in flight, oldest first; `None` in place of an arrival is a loss.
    flight: VecDeque<Segment>,
    /// When the bottleneck has served all that is queued.
    free: Instant,
    next_send: Instant,
    srtt: Duration,
    min_rtt: Duration,
    /// The next new segment.
    next: u64,
    /// Sent and not yet delivered.
    outstanding: BTreeSet<u64>,
    /// Lost and to be sent again.
    again: VecDeque<u64>,
    pub(crate) delivered: u64,
    delivered_time: Instant,
    first_sent: Instant,
    pub(crate) lost: u64,
    phase: Phase,
    recovery_end: u64,
    tokens: f64,
    tokens_at: Instant,
    rng: Rng,
    /// The most that were in flight.
    pub(crate) peak: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    number: u64,
    sent: Instant,
    ack: Option<Instant>,
    delivered: u64,
    delivered_time: Instant,
    first_sent: Instant,
}

const WIRE: f64 = 1500.0;

impl<C: CongestionControl + ?Sized> Pipe<C> {
    pub(crate) fn new(control: Box<C>, config: PipeConfig) -> Self {
        Self {
            config,
            control,
            now: Instant::ZERO,
            flight: VecDeque::new(),
            free: Instant::ZERO,
            next_send: Instant::ZERO,
            srtt: Duration::ZERO,
            min_rtt: Duration::MAX,
            next: 0,
            outstanding: BTreeSet::new(),
            again: VecDeque::new(),
            delivered: 0,
            delivered_time: Instant::ZERO,
            first_sent: Instant::ZERO,
            lost: 0,
            phase: Phase::Open,
            recovery_end: 0,
            tokens: config.policer.map_or(0.0, |(_, burst)| burst),
            tokens_at: Instant::ZERO,
            rng: Rng::stream(1, "pipe/loss"),
            peak: 0,
        }
    }

    /// Runs until `end`, telling `watch` of each acknowledgement.
    pub(crate) fn run_until(&mut self, end: Instant, mut watch: impl FnMut(&Self)) {
        loop {
            let ack = self.flight.iter().find_map(|segment| segment.ack);
            let room = self.flight.len() < self.control.cwnd() as usize;
            let send =
                if room || ack.is_none() { self.next_send.max(self.now) } else { Instant::FAR };
            let due = ack.unwrap_or(Instant::FAR).min(send);
            if due > end {
                self.now = end;
                return;
            }
            self.now = due;
            if ack == Some(due) {
                self.acknowledge();
                watch(self);
            } else {
                self.send();
            }
        }
    }

    /// Goodput in segments per second, were everything delivered since `from`.
    pub(crate) fn rate_since(&self, from: Instant, delivered: u64) -> f64 {
        (self.delivered - delivered) as f64 / self.now.since(from).as_secs_f64()
    }

    /// Segments per second that the bottleneck carries.
    pub(crate) fn capacity(&self) -> f64 {
        self.config.rate.as_bps() as f64 / 8.0 / WIRE
    }

    fn send(&mut self) {
        if self.flight.is_empty() {
            self.delivered_time = self.now;
            self.first_sent = self.now;
        }
        let ack = self.transmit();
        let number = self.again.pop_front().unwrap_or(self.next);
        self.next = self.next.max(number + 1);
        self.outstanding.insert(number);
        self.flight.push_back(Segment {
            number,
            sent: self.now,
            ack,
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
        });
        self.peak = self.peak.max(self.flight.len() as u64);
        if let Some(rate) = self.control.pacing_rate() {
            let gap = MSS as f64 * 8.0 / rate.as_bps() as f64;
            self.next_send = self.now.max(self.next_send) + Duration::from_secs_f64(gap);
        }
    }

    /// When the acknowledgement arrives.
    fn transmit(&mut self) -> Option<Instant> {
        if let Some((rate, burst)) = self.config.policer {
            let elapsed = self.now.since(self.tokens_at).as_secs_f64();
            let earned = elapsed * rate.as_bps() as f64 / 8.0 / WIRE;
            self.tokens = (self.tokens + earned).min(burst);
            self.tokens_at = self.now;
            if self.tokens < 1.0 {
                return None;
            }
            self.tokens -= 1.0;
        }
        let service = Duration::from_secs_f64(1.0 / self.capacity());
        let waiting = self.free.since(self.now).as_secs_f64() * self.capacity();
        if waiting > self.config.queue as f64 || self.rng.happens(probability(self.config.loss)) {
            return None;
        }
        self.free = self.free.max(self.now) + service;
        Some(self.free + self.config.rtt)
    }

    fn acknowledge(&mut self) {
        let prior_in_flight = self.flight.len() as u64;
        let mut newly_lost = 0;
        let segment = loop {
            let segment = self.flight.pop_front().expect("an acknowledgement has a segment");
            match segment.ack {
                Some(_) => break segment,
                None => {
                    newly_lost += 1;
                    self.again.push_back(segment.number);
                }
            }
        };
        self.outstanding.remove(&segment.number);
        let rtt = self.now.since(segment.sent);
        self.srtt = if self.srtt.is_zero() { rtt } else { (self.srtt * 7 + rtt) / 8 };
        self.min_rtt = self.min_rtt.min(rtt);
        self.lost += newly_lost;
        self.delivered += 1;
        self.delivered_time = self.now;
        self.first_sent = segment.sent;
        let nxt = self.next;
        let una = self.outstanding.first().copied().unwrap_or(nxt);

        let members = [self.control.member(self.srtt)];
        let coupling = Coupling { members: &members, me: 0 };
        if self.phase == Phase::Recovery && una >= self.recovery_end {
            self.phase = Phase::Open;
            self.control.on_recovery_end(self.now);
        }
        if newly_lost > 0 && self.phase == Phase::Open {
            self.phase = Phase::Recovery;
            self.recovery_end = nxt;
            let in_flight = self.flight.len() as u64;
            let loss = LossEvent { now: self.now, in_flight, srtt: self.srtt, nxt: nxt * MSS };
            self.control.on_congestion(&loss, &coupling);
        }
        let interval =
            segment.sent.since(segment.first_sent).max(self.now.since(segment.delivered_time));
        let sample = AckSample {
            now: self.now,
            delivered: 1,
            rtt: Some(rtt),
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            prior_in_flight,
            in_flight: self.flight.len() as u64,
            cwnd_limited: true,
            phase: self.phase,
            newly_lost,
            total_delivered: self.delivered,
            total_lost: self.lost,
            una: una * MSS,
            nxt: nxt * MSS,
            rate: RateSample {
                delivered: self.delivered - segment.delivered,
                interval: if interval < self.min_rtt { Duration::ZERO } else { interval },
                prior_delivered: segment.delivered,
                app_limited: false,
                lost: newly_lost,
            },
        };
        self.control.on_ack(&sample, &coupling);
    }
}
