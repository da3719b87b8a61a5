//! What a link carries, measured while it is used: packet trains within its session (COTAG
//! §IV-A.2), by the state machines of `weftline probe`, and a rate to send by.
//!
//! A train is made of what there is to send: for a moment packets go back to back, not at the rate,
//! and what follows waits until they are through at it. So a train costs nothing but its *mark*, a
//! small frame after it that says which datagrams of the session it was; where there is too little
//! to send, padding goes with it. A link pays by the byte where it is a mobile one, so padding is at
//! most twice what is sent, but for a train now and then, which are ever rarer the longer the link is
//! hardly used. The receiver remembers when the latest datagrams came, and answers
//! a mark with what those measured. A train of which nothing is heard in time says that the link
//! stands still: then nothing goes but a mark of no train now and then, until one comes through.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_core::{Bitrate, Instant};

use crate::probe::wire::{self, Report, TrainHeader};
use crate::probe::{Ask, Burst, Collector, Estimator, Pacer, Stamp};

/// Packets of a train, fewer where the link is slow.
const TRAIN: u8 = 20;
/// Bytes of a train's packet as IP sends it, about.
const SIZE: u16 = 1400;
/// From one train to the next; longer where the link is slow.
const EVERY: Duration = Duration::from_millis(10);
/// The same while there is little to send: twice as long as the time before, at least and at most. With
/// the longest one padding is 20 kb/s.
const EVERY_IDLE: Duration = Duration::from_millis(150);
const EVERY_IDLE_MAX: Duration = Duration::from_secs(10);
/// So many bytes of packets make the next train due before that: half of a whole train's.
const EARNED: usize = TRAIN as usize * SIZE as usize / 2;
/// The part of the link's time that trains may take.
const SHARE: u32 = 5;
/// Bytes of a padding frame: any link carries it whole.
pub(crate) const PADDING: usize = 1200;
/// Datagrams whose arrival is remembered: more than a train, and what comes before its mark.
const REMEMBERED: usize = 256;

/// The sender's half: it plans trains and estimates the rate from the receiver's reports.
#[derive(Debug)]
pub(crate) struct CapacityEstimator {
    /// The number of this measurement; the receiver begins anew when it changes.
    measurement: u32,
    pacer: Pacer,
    estimator: Estimator,
    /// The newest train that the estimate knows.
    known: Option<u32>,
    /// Bytes of packets since the last train, when that was, and how long it is from there to the next if
    /// there are few.
    sent: usize,
    last_train: Instant,
    idle: Duration,
}

/// The receiver's half.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    measurement: u32,
    collector: Collector,
    /// The latest datagrams of the session.
    arrivals: VecDeque<Seen>,
}

/// A datagram that came.
#[derive(Clone, Copy, Debug)]
struct Seen {
    counter: u64,
    /// With all its headers.
    bytes: u32,
    /// The kernel's receive stamp, by the time of day.
    stamp: Option<Duration>,
    /// When it was read.
    at: Instant,
}

impl CapacityEstimator {
    /// Begins at the next occasion. `measurement` should be another number after each start of the
    /// program.
    pub(crate) fn new(measurement: u32, now: Instant) -> Self {
        Self {
            measurement,
            pacer: new_pacer(now),
            estimator: Estimator::default(),
            known: None,
            sent: EARNED,
            last_train: now,
            idle: EVERY_IDLE,
        }
    }

    /// The receiver may be another program now.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.measurement = self.measurement.wrapping_add(1);
        self.pacer = new_pacer(now);
        (self.known, self.sent) = (None, EARNED);
        (self.last_train, self.idle) = (now, EVERY_IDLE);
    }

    /// What the link carries; zero while it stands still, `None` while it is not known.
    pub(crate) fn rate(&self) -> Option<Bitrate> {
        self.estimator.rate()
    }

    /// A packet is sent. What nodes say to each other is none: it goes also where nobody wants anything.
    pub(crate) fn send(&mut self, bytes: usize) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Something has come from the receiver, whatever it is.
    pub(crate) fn hear(&mut self, now: Instant) {
        self.pacer.hear(now);
    }

    /// The receiver says nothing, or that it hears nothing: the link stands still. A train that would tell
    /// may be seconds away while there is nothing to send.
    pub(crate) fn lose(&mut self) {
        if self.rate().is_some_and(|rate| rate > Bitrate::ZERO) {
            self.estimator.on_silence();
        }
    }

    /// When [`Self::poll`] has something.
    pub(crate) fn poll_timeout(&self) -> Instant {
        let due = self.pacer.poll_timeout();
        if self.is_used() { due } else { due.max(self.last_train + self.idle) }
    }

    /// Whether a train of padding only would be no more than twice what is sent; or whether nothing can be
    /// sent before one is heard of.
    fn is_used(&self) -> bool {
        self.sent >= EARNED || self.rate().is_none_or(|rate| rate == Bitrate::ZERO)
    }

    /// A train that is to be sent now; one of no packets is a mark only.
    pub(crate) fn poll(&mut self, now: Instant) -> Option<Burst> {
        if now < self.poll_timeout() {
            return None;
        }
        let burst = self.pacer.poll(now)?;
        if burst.packets == 0 {
            if self.rate().is_some_and(|rate| rate > Bitrate::ZERO) {
                tracing::trace!("a train is not heard of: the link stands still");
            }
            self.estimator.on_silence();
        } else {
            self.idle = (now.since(self.last_train) * 2).clamp(EVERY_IDLE, EVERY_IDLE_MAX);
            (self.sent, self.last_train) = (0, now);
        }
        Some(burst)
    }

    /// Appends the mark of a train without its frame's first byte: datagrams `first` and what
    /// follows it, `packets` together.
    pub(crate) fn mark(&self, burst: &Burst, first: u64, packets: u8, out: &mut Vec<u8>) {
        let Burst { train, sent, interval, .. } = *burst;
        let rtt = self.pacer.rtt().unwrap_or_default();
        let header = TrainHeader { train, index: 0, packets, sent, interval, rtt };
        out.extend_from_slice(&self.measurement.to_be_bytes());
        out.extend_from_slice(&first.to_be_bytes());
        wire::put_train(&header, out);
    }

    /// Takes what follows the first byte of the receiver's frame; whether it is one.
    pub(crate) fn receive(&mut self, body: &[u8], now: Instant) -> bool {
        let Some((measurement, report)) = body.split_first_chunk() else { return false };
        let Ok(report) = wire::read_report(report) else { return false };
        if u32::from_be_bytes(*measurement) != self.measurement {
            // Of trains before the last restart.
            return true;
        }
        self.pacer.on_report(&report, now);
        for sample in &report.results {
            if self.known.is_some_and(|known| sample.train <= known) {
                continue;
            }
            self.known = Some(sample.train);
            match sample.outcome.map(|dispersion| dispersion.rate()) {
                Ok(rate) => self.estimator.on_sample(rate),
                // The next one may say something.
                Err(error) => tracing::trace!(train = sample.train, %error, "says nothing"),
            }
            let (train, rate) = (sample.train, self.rate());
            tracing::trace!(train, sample = ?sample.rate(), ?rate, "a train");
        }
        true
    }
}

impl Receiver {
    /// A session began: datagrams are counted anew.
    pub(crate) fn restart(&mut self) {
        self.arrivals.clear();
    }

    /// Remembers a datagram of the session that has `bytes` with all its headers, the kernel's
    /// `stamp` and is read at `now`.
    pub(crate) fn see(
        &mut self,
        counter: u64,
        bytes: usize,
        stamp: Option<Duration>,
        now: Instant,
    ) {
        if self.arrivals.len() == REMEMBERED {
            self.arrivals.pop_front();
        }
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.arrivals.push_back(Seen { counter, bytes, stamp, at: now });
    }

    /// Takes what follows the first byte of a mark, the latest that was seen; whether it is one.
    /// `translate` gives the kernel's stamps, and the times of reading, by the monotonic clock.
    pub(crate) fn receive(
        &mut self,
        body: &[u8],
        translate: impl Fn(Option<Duration>, Instant) -> Stamp,
        now: Instant,
    ) -> bool {
        let Some((measurement, rest)) = body.split_first_chunk() else { return false };
        let Some((first, header)) = rest.split_first_chunk() else { return false };
        let Ok(header) = wire::read_train(header) else { return false };
        let (measurement, first) = (u32::from_be_bytes(*measurement), u64::from_be_bytes(*first));
        if measurement != self.measurement {
            (self.measurement, self.collector) = (measurement, Collector::default());
        }
        if header.packets == 0 {
            if let Some(seen) = self.arrivals.back() {
                let stamp = translate(seen.stamp, seen.at);
                self.collector.on_packet(&header, seen.bytes, stamp, now);
            }
            return true;
        }
        for seen in &self.arrivals {
            let index = seen.counter.checked_sub(first).and_then(|index| u8::try_from(index).ok());
            if let Some(index) = index.filter(|index| *index < header.packets) {
                let stamp = translate(seen.stamp, seen.at);
                let header = TrainHeader { index, ..header };
                self.collector.on_packet(&header, seen.bytes, stamp, now);
            }
        }
        true
    }

    /// When [`Self::poll`] may have something that nothing received made.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.collector.poll_timeout()
    }

    /// Appends what follows the first byte of a frame that tells the sender something, where there
    /// is something; whether there was.
    pub(crate) fn poll(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.collector.handle_timeout(now);
        while self.collector.poll_sample().is_some() {}
        let Some(report) = self.collector.poll_report(now) else { return false };
        self.encode(&report, out);
        true
    }

    fn encode(&self, report: &Report, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.measurement.to_be_bytes());
        wire::put_report(report, out);
    }
}

fn new_pacer(now: Instant) -> Pacer {
    let ask = Ask { train: TRAIN, size: SIZE, every: EVERY, ..Ask::default() };
    Pacer::with_share(&ask, SHARE, now)
}

#[cfg(test)]
mod tests {
    use weftline_core::ByteCount;

    use super::*;

    const RTT: Duration = Duration::from_millis(4);

    /// Stamps are by the tests' clock.
    fn translate(stamp: Option<Duration>, _read: Instant) -> Stamp {
        let at = stamp.map_or(Instant::ZERO, |stamp| Instant::ZERO + stamp);
        Stamp { at, steps: Some(0) }
    }

    /// A link that carries `mbps`, or nothing, with both halves at its ends.
    struct World {
        estimator: CapacityEstimator,
        receiver: Receiver,
        /// Bytes of packets that are sent in a millisecond.
        packets: usize,
        free: Instant,
        counter: u64,
        /// Datagrams that wait for the link: their counter, length, and mark if they are one.
        queue: VecDeque<(u64, usize, Option<Vec<u8>>)>,
        /// Reports on their way.
        reports: Vec<(Instant, Vec<u8>)>,
        /// How long reports wait in a queue of the receiver's.
        queued: Duration,
        sent_bytes: u64,
    }

    impl World {
        fn new() -> Self {
            Self {
                estimator: CapacityEstimator::new(7, Instant::from_millis(1)),
                receiver: Receiver::default(),
                packets: EARNED,
                free: Instant::ZERO,
                counter: 0,
                queue: VecDeque::new(),
                reports: Vec::new(),
                queued: Duration::ZERO,
                sent_bytes: 0,
            }
        }

        fn push(&mut self, bytes: usize, mark: Option<Vec<u8>>) {
            self.queue.push_back((self.counter, bytes, mark));
            self.counter += 1;
            self.sent_bytes += bytes as u64;
        }

        /// One millisecond.
        fn step(&mut self, ms: u64, mbps: u64) {
            let now = Instant::from_millis(ms);
            self.estimator.send(self.packets);
            while let Some(burst) = self.estimator.poll(now) {
                let mut body = Vec::new();
                self.estimator.mark(&burst, self.counter, burst.packets, &mut body);
                for _ in 0..burst.packets {
                    self.push(PADDING, None);
                }
                self.push(70, Some(body));
            }
            self.free = self.free.max(now);
            let end = now + Duration::from_millis(1);
            while mbps > 0 && self.free < end {
                let Some((counter, bytes, mark)) = self.queue.pop_front() else { break };
                let time = Bitrate::mbps(mbps).time_for(ByteCount::new(bytes as u64));
                self.free += time.unwrap();
                let at = self.free + RTT / 2;
                let stamp = at.since(Instant::ZERO);
                self.receiver.see(counter, bytes, Some(stamp), at);
                if let Some(body) = mark {
                    assert!(self.receiver.receive(&body, translate, at));
                }
            }
            let mut body = Vec::new();
            let at = end + RTT / 2;
            if self.receiver.poll(at, &mut body) {
                self.reports.push((at + RTT / 2 + self.queued, body));
            }
            let arrived = self.reports.extract_if(.., |(at, _)| *at <= now);
            for (at, body) in arrived.collect::<Vec<_>>() {
                assert!(self.estimator.receive(&body, at.max(now)));
            }
        }

        fn mbps(&self) -> Option<f64> {
            self.estimator.rate().map(|rate| rate.as_mbps_f64())
        }
    }

    #[test]
    fn a_rate_is_found_and_followed_up_and_down() {
        let mut world = World::new();
        assert_eq!(world.mbps(), None);
        let (mut at, mut found) = (1, Vec::new());
        for (mbps, time) in [(300, 200), (40, 200), (1000, 400), (0, 100), (100, 200)] {
            for _ in 0..time {
                world.step(at, mbps);
                at += 1;
            }
            found.push((mbps, world.mbps().unwrap()));
        }
        for (mbps, found) in found {
            let error = found - mbps as f64;
            assert!(error.abs() <= 0.02 * mbps as f64, "{found} of {mbps}");
        }
    }

    #[test]
    fn trains_take_a_small_part_of_any_link() {
        for mbps in [5, 20, 100, 1000] {
            let mut world = World::new();
            (1..=4000).for_each(|at| world.step(at, mbps));
            let bits = world.sent_bytes as f64 * 8.0 / 4.0;
            let share = bits / (mbps as f64 * 1e6);
            assert!(share < 1.1 / f64::from(SHARE), "{share} of {mbps} Mb/s");
            assert!(bits < 25e6, "{bits}");
        }
    }

    #[test]
    fn a_link_that_stands_still_is_noticed_within_two_trains() {
        let mut world = World::new();
        (1..=200).for_each(|at| world.step(at, 500));
        let mut at = 201;
        while world.mbps() != Some(0.0) {
            assert!(at < 10_000, "it is not noticed");
            world.step(at, 0);
            at += 1;
        }
        assert!(at - 201 <= 25, "{} ms", at - 201);
        // A small packet in 5 ms is all that goes then.
        let before = world.sent_bytes;
        (at..at + 1000).for_each(|at| world.step(at, 0));
        assert!(world.sent_bytes - before < 201 * 70, "{}", world.sent_bytes - before);
    }

    /// For how many of the next milliseconds a rate is known; reports wait for `queued` of each.
    fn known(world: &mut World, ms: std::ops::Range<u64>, queued: impl Fn(u64) -> u64) -> usize {
        let knows = ms.filter(|&at| {
            world.queued = Duration::from_millis(queued(at));
            world.step(at, 200);
            world.mbps() > Some(0.0)
        });
        knows.count()
    }

    /// The receiver sends as much as its own direction carries, and more.
    #[test]
    fn reports_that_wait_in_a_queue_are_no_link_that_stands_still() {
        let mut world = World::new();
        (1..=200).for_each(|at| world.step(at, 200));
        let known_ms = known(&mut world, 201..1201, |_| 60);
        assert!(known_ms >= 900, "{known_ms} ms of a second");
        // A queue that fills, in a quarter of a second, and is emptied, again and again.
        let mut world = World::new();
        (1..=200).for_each(|at| world.step(at, 200));
        let known_ms = known(&mut world, 201..2201, |at| (at - 200) % 300 / 3);
        assert!(known_ms >= 1800, "{known_ms} ms of two seconds");
    }

    #[test]
    fn a_link_that_stands_still_is_noticed_while_reports_wait() {
        let mut world = World::new();
        (1..=200).for_each(|at| world.step(at, 200));
        known(&mut world, 201..1201, |_| 60);
        let mut at = 1201;
        while world.mbps() != Some(0.0) {
            assert!(at < 10_000, "it is not noticed");
            world.step(at, 0);
            at += 1;
        }
        // For 60 ms what was said before still comes.
        assert!(at - 1201 <= 60 + 25, "{} ms", at - 1201);
    }

    /// Bits in a second that go besides packets, of so many bytes in a millisecond.
    fn padding(packets: usize) -> f64 {
        let mut world = World { packets, ..World::new() };
        (1..=60_000).for_each(|at| world.step(at, 100));
        assert!((98.0..102.0).contains(&world.mbps().unwrap()), "{:?}", world.mbps());
        world.sent_bytes as f64 * 8.0 / 60.0
    }

    #[test]
    fn padding_is_little_beside_what_is_sent() {
        let idle = padding(0);
        assert!(idle < 50e3, "{idle} b/s of an idle link");
        // Voice: 80 kb/s.
        let voice = padding(10);
        assert!(voice < 2.2 * 80e3, "{voice} b/s beside 80 kb/s");
    }

    #[test]
    fn a_link_that_was_lost_while_nothing_was_sent_is_measured_as_soon_as_it_is_back() {
        let mut world = World::new();
        world.packets = 0;
        (1..=60_000).for_each(|at| world.step(at, 100));
        (60_001..=63_000).for_each(|at| world.step(at, 0));
        world.estimator.lose();
        assert_eq!(world.mbps(), Some(0.0));
        (63_001..=65_000).for_each(|at| world.step(at, 0));
        (65_001..=65_300).for_each(|at| world.step(at, 100));
        assert!(world.mbps() > Some(0.0), "{:?}", world.mbps());
    }

    #[test]
    fn where_no_rate_is_known_trains_go_on_though_nothing_can_be_sent() {
        let mut world = World::new();
        world.packets = 0;
        world.estimator.restart(Instant::from_millis(1_000_000));
        // The first ones are lost.
        (1_000_000..1_000_020).for_each(|at| world.step(at, 100));
        world.queue.clear();
        world.reports.clear();
        (1_000_020..1_001_000).for_each(|at| world.step(at, 100));
        assert!(world.mbps() > Some(90.0), "{:?}", world.mbps());
    }

    #[test]
    fn a_rate_that_changed_while_nothing_was_sent_is_known_soon_after() {
        let mut world = World::new();
        world.packets = 0;
        (1..=60_000).for_each(|at| world.step(at, 100));
        // Packets come at the rate that was.
        world.packets = 100_000_000 / 8 / 1000;
        (60_001..=60_080).for_each(|at| world.step(at, 10));
        assert!((9.0..11.0).contains(&world.mbps().unwrap()), "{:?}", world.mbps());
    }

    #[test]
    fn either_side_may_begin_anew() {
        let mut world = World::new();
        (1..=200).for_each(|at| world.step(at, 500));
        world.receiver = Receiver::default();
        world.estimator.restart(Instant::from_millis(200));
        (201..=300).for_each(|at| world.step(at, 100));
        assert!((98.0..102.0).contains(&world.mbps().unwrap()), "{:?}", world.mbps());
        world.estimator = CapacityEstimator::new(9000, Instant::from_millis(300));
        (301..=400).for_each(|at| world.step(at, 200));
        assert!((196.0..204.0).contains(&world.mbps().unwrap()), "{:?}", world.mbps());
    }

    #[test]
    fn other_bytes_are_neither() {
        let now = Instant::from_millis(5);
        let mut estimator = CapacityEstimator::new(1, now);
        let mut receiver = Receiver::default();
        for length in 0..40 {
            let body = vec![0xff; length];
            assert!(!estimator.receive(&body, now), "{length}");
            assert!(!receiver.receive(&body, translate, now), "{length}");
        }
    }
}
