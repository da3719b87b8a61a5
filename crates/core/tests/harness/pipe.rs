//! One direction of a subflow: a modelled link that delivers everything in order, as TCP does.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use weftline_core::path::PathInfo;
use weftline_core::{Bitrate, ByteCount, Instant};
use weftline_link::{Link, LinkConfig, LossModel, QueueLimit, RateTrace, Verdict};

/// Bytes handed to the link at once.
pub(super) const SEGMENT: usize = 1448;

/// One path: both directions alike.
#[derive(Clone, Debug)]
pub(crate) struct PathSpec {
    pub(crate) rate: RateTrace,
    pub(crate) delay: Duration,
    pub(crate) loss: f64,
    /// Bytes the socket holds unsent (`TCP_NOTSENT_LOWAT`).
    pub(crate) unsent_max: u64,
}

impl PathSpec {
    pub(crate) fn constant(rate: Bitrate, delay: Duration) -> Self {
        let unsent_max = rate.bytes_in(Duration::from_millis(5)).as_u64();
        Self {
            rate: RateTrace::constant(rate),
            delay,
            loss: 0.0,
            unsent_max: unsent_max.clamp(16 << 10, 256 << 10),
        }
    }

    pub(crate) fn lossy(self, loss: f64) -> Self {
        Self { loss, ..self }
    }
}

/// One direction of a subflow.
pub(super) struct Pipe {
    link: Link,
    rtt: Duration,
    unsent_max: u64,
    /// What the path holds at its mean rate, and the socket's share: a window that fits.
    cwnd: u64,
    /// Bytes that have not arrived.
    in_flight: u64,
    arrivals: VecDeque<(Instant, Bytes)>,
    last_arrival: Instant,
    /// Added to the delay of everything sent from now on.
    extra: Duration,
    /// Whether the writer filled the socket and waits for room.
    pub(super) full: bool,
    /// Whether nothing moves.
    pub(super) cut: bool,
    /// Whether the writer has closed: after the last byte comes the end.
    pub(super) closing: bool,
    /// Whether that is because its connection is over, and it has said so (`close_notify`).
    pub(super) said_all: bool,
    /// Whether nobody is at the other end any more: what is written goes nowhere.
    pub(super) sink: bool,
}

impl Pipe {
    pub(super) fn new(
        spec: &PathSpec,
        extra: Duration,
        seed: u64,
        name: &str,
        now: Instant,
    ) -> Self {
        let config = LinkConfig {
            rate: spec.rate.clone(),
            delay: spec.delay,
            jitter: Duration::ZERO,
            queue: QueueLimit::Bytes(ByteCount::mib(1024)),
            loss: LossModel::Bernoulli(spec.loss),
        };
        let mut link = Link::new(config, seed, name);
        link.start(Instant::ZERO);
        Self {
            link,
            rtt: 2 * spec.delay,
            unsent_max: spec.unsent_max,
            cwnd: spec.rate.mean().bytes_in(2 * spec.delay).as_u64() + spec.unsent_max,
            in_flight: 0,
            arrivals: VecDeque::new(),
            last_arrival: now,
            extra,
            full: false,
            cut: false,
            closing: false,
            said_all: false,
            sink: false,
        }
    }

    pub(super) fn room(&mut self, now: Instant) -> u64 {
        self.unsent_max.saturating_sub(self.link.backlog(now).0.as_u64())
    }

    /// What the congestion window has room for, in whole segments.
    pub(super) const fn window_room(&self) -> u64 {
        self.cwnd.saturating_sub(self.in_flight) / SEGMENT as u64 * SEGMENT as u64
    }

    /// What the endpoint would tell of its connection.
    pub(super) fn info(&self) -> PathInfo {
        PathInfo {
            cwnd: ByteCount::new(self.cwnd),
            in_flight: ByteCount::new(self.in_flight),
            srtt: self.rtt,
            rttvar: self.rtt / 8,
            min_rtt: self.rtt,
            ssthresh: Some(ByteCount::new(self.cwnd / 2)),
            ..PathInfo::default()
        }
    }

    pub(super) fn push(&mut self, bytes: Bytes, now: Instant) {
        for at in (0..bytes.len()).step_by(SEGMENT) {
            let part = bytes.slice(at..bytes.len().min(at + SEGMENT));
            let mut repair = self.extra;
            let arrives = loop {
                match self.link.offer(now, ByteCount::new(part.len() as u64)) {
                    Verdict::Arrives(at) => break at + repair,
                    Verdict::Lost => repair += self.rtt,
                    other => panic!("the harness links have no such drop: {other:?}"),
                }
            };
            if self.sink {
                continue;
            }
            self.last_arrival = self.last_arrival.max(arrives);
            self.in_flight += part.len() as u64;
            self.arrivals.push_back((self.last_arrival, part));
        }
    }

    /// When the next bytes arrive, or the end.
    pub(super) fn next_arrival(&self, now: Instant) -> Option<Instant> {
        let next = self.arrivals.front().map(|(at, _)| *at);
        let end = self.closing.then_some(self.last_arrival);
        next.or(end).filter(|_| !self.cut).map(|at| at.max(now))
    }

    /// The next bytes that have arrived.
    pub(super) fn arrived(&mut self, now: Instant) -> Option<Bytes> {
        if self.cut || self.arrivals.front().is_none_or(|(at, _)| *at > now) {
            return None;
        }
        let (_, bytes) = self.arrivals.pop_front().expect("looked at");
        self.in_flight -= bytes.len() as u64;
        Some(bytes)
    }

    /// Whether the end has arrived.
    pub(super) fn ended(&self, now: Instant) -> bool {
        self.closing && !self.cut && self.arrivals.is_empty() && self.last_arrival <= now
    }

    pub(super) fn set_cut(&mut self, cut: bool, now: Instant) {
        self.cut = cut;
        // What waited behind the cut arrives after it, in order.
        self.arrivals.iter_mut().for_each(|(at, _)| *at = (*at).max(now));
        self.last_arrival = self.last_arrival.max(now);
    }

    /// What is sent from now on takes `extra` longer.
    pub(super) fn set_extra(&mut self, extra: Duration) {
        self.extra = extra;
    }
}
