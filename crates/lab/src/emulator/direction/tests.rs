//! The emulator in virtual time: every time and every count is exact.

use std::time::Duration;

use weftline_core::Bitrate;
use weftline_link::{LinkConfig, LossModel, RateTrace};

use super::super::Tally;
use super::super::made::{self, HEADERS, bytes, link, number};
use super::*;

mod random;

const MS: Duration = Duration::from_millis(1);
const US: Duration = Duration::from_micros(1);

/// So long after the start.
fn at(time: Duration) -> Instant {
    Instant::ZERO + time
}

/// What one write took to the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Left {
    number: u32,
    segments: usize,
    when: Duration,
}

/// A direction and a driver in virtual time.
struct Bench {
    direction: Direction,
    lateness: Histogram<u64>,
    left: Vec<Left>,
}

impl Bench {
    /// A link whose trace started at 0.
    fn new(config: LinkConfig) -> Self {
        Self::with_seed(config, 1)
    }

    fn with_seed(config: LinkConfig, seed: u64) -> Self {
        let mut direction = Direction::new(Link::new(config, seed, "a/down"));
        direction.start(Instant::ZERO);
        let lateness = Histogram::new_with_bounds(1, 100_000_000_000, 2).unwrap();
        Self { direction, lateness, left: Vec::new() }
    }

    /// A packet comes.
    fn offer(&mut self, when: Duration, packet: &[u8]) -> usize {
        self.direction.room().unwrap()[..packet.len()].copy_from_slice(packet);
        self.direction.handle_packet(packet.len(), at(when))
    }

    /// The driver wakes up and writes what is due.
    fn wake(&mut self, when: Duration) {
        let now = at(when);
        while let Some(run) = self.direction.poll_transmit(now) {
            let sent = match self.direction.packet(&run) {
                None => Sent::Cut,
                Some(packet) => {
                    let (number, segments) = (number(packet), run.segments);
                    self.left.push(Left { number, segments, when });
                    Sent::Written
                }
            };
            self.direction.handle_transmit(&run, sent, now, &mut self.lateness);
        }
        let next = self.direction.poll_timeout();
        assert!(next.is_none_or(|due| due > now), "what is due leaves");
    }

    /// The driver wakes up whenever something is due, `late` after that, until `end`.
    fn run_late(&mut self, end: Duration, late: Duration) {
        while let Some(due) = self.direction.poll_timeout() {
            let when = due.since(Instant::ZERO) + late;
            if when > end {
                break;
            }
            self.wake(when);
        }
    }

    fn run(&mut self, end: Duration) {
        self.run_late(end, Duration::ZERO);
    }

    /// When each packet left.
    fn times(&self) -> Vec<Duration> {
        self.left.iter().map(|left| left.when).collect()
    }

    fn numbers(&self) -> Vec<u32> {
        self.left.iter().map(|left| left.number).collect()
    }

    fn counters(&self) -> Counters {
        self.direction.report().counters
    }
}

/// So many packets of so many bytes.
fn tally(packets: u64, bytes: u64) -> Tally {
    Tally { packets, bytes }
}

#[test]
fn a_packet_takes_its_service_and_the_delay() {
    // 1500 bytes take 1 ms at 12 Mb/s.
    let mut bench = Bench::new(link(12, 20, 100));
    assert_eq!(bench.direction.poll_timeout(), None);
    for (number, offered) in [(0, 5 * MS), (1, 5 * MS), (2, 30 * MS)] {
        assert_eq!(bench.offer(offered, &made::whole(number, 1500)), 1500 - HEADERS);
    }
    assert_eq!(bench.direction.poll_timeout(), Some(at(26 * MS)));
    bench.wake(26 * MS - Duration::from_nanos(1));
    assert_eq!(bench.left, []);
    bench.run(1000 * MS);
    let left = |number, ms| Left { number, segments: 1, when: ms * MS };
    assert_eq!(bench.left, [left(0, 26), left(1, 27), left(2, 51)]);
    assert_eq!(bench.direction.poll_timeout(), None);
    assert_eq!(bench.lateness.max(), 0);
}

#[test]
fn jitter_moves_packets_but_keeps_their_order() {
    let mut bench = Bench::new(LinkConfig { jitter: 5 * MS, ..link(1200, 20, 1000) });
    for k in 0..1000 {
        bench.offer(k * MS, &made::whole(k, 1500));
    }
    bench.run(10_000 * MS);
    assert_eq!(bench.numbers(), (0..1000).collect::<Vec<u32>>());
    assert!(bench.times().is_sorted());
    // 10 us of service.
    let moved = |left: &Left| left.when != left.number * MS + 20 * MS + 10 * US;
    assert!(bench.left.iter().filter(|left| moved(left)).count() > 900);
}

#[test]
fn a_full_link_carries_its_rate_to_the_packet() {
    // 2500 packets of 1000 bytes a second; twice as many come.
    let mut bench = Bench::new(link(20, 5, 200));
    for k in 0..5000 {
        bench.run(k * 200 * US);
        bench.offer(k * 200 * US, &made::whole(k, 1000));
    }
    bench.run(10_000 * MS);
    // What is served in the second, and what is in the queue at its end.
    assert_eq!(bench.left.len(), 2499 + 200);
    let service = |k: usize| 5 * MS + 400 * US * (k as u32 + 1);
    assert_eq!(bench.times(), (0..2699).map(service).collect::<Vec<_>>());
    let counters = bench.counters();
    assert_eq!(counters.delivered, tally(2699, 2_699_000));
    assert_eq!(counters.queue_full, tally(2301, 2_301_000));
    // A step of 100 ms carries 250 packets; the delay of the first takes the time of 12.5.
    let series = bench.direction.report().series;
    let packets: Vec<u64> = series.iter().map(|bytes| bytes / (1000 - HEADERS as u64)).collect();
    assert_eq!(packets[0], 237);
    assert_eq!(packets[1..10], [250; 9]);
    assert_eq!(series.iter().sum::<u64>(), counters.delivered_payload);
}

#[test]
fn a_trace_has_its_steps_and_its_outage() {
    // 1500 bytes take 1 ms, for ever, 0.5 ms.
    let mbps = Bitrate::mbps;
    let steps = vec![(Duration::ZERO, mbps(12)), (10 * MS, Bitrate::ZERO), (60 * MS, mbps(24))];
    let rate = RateTrace::from_steps(steps, 100 * MS).unwrap();
    let mut bench = Bench::new(LinkConfig { rate, ..link(1, 3, 1000) });
    bench.direction.start(at(500 * MS));
    for k in 0..95 {
        bench.offer(500 * MS, &made::whole(k, 1500));
    }
    bench.run(10_000 * MS);
    let first = (1..=10).map(|k| k * MS);
    let second = (1..=80).map(|k| 60 * MS + k * 500 * US);
    let again = (1..=5).map(|k| 100 * MS + k * MS);
    let expected = first.chain(second).chain(again).map(|time| 500 * MS + time + 3 * MS);
    assert_eq!(bench.times(), expected.collect::<Vec<_>>());
    // The series counts from the trace's start.
    let payload = 1500 - HEADERS as u64;
    assert_eq!(bench.direction.report().series, [83 * payload, 12 * payload]);
}

#[test]
fn a_dead_link_counts_what_comes() {
    let mut bench = Bench::new(link(0, 5, 1000));
    bench.offer(MS, &made::whole(0, 1500));
    assert_eq!(bench.direction.poll_timeout(), None);
    assert_eq!(bench.counters().unserved, tally(1, 1500));
}

/// The numbers of 10,000 packets that a link which loses 5 % lets through.
fn survivors(seed: u64) -> Vec<u32> {
    let loss = LossModel::Bernoulli(0.05);
    let mut bench = Bench::with_seed(LinkConfig { loss, ..link(1000, 1, 10_000) }, seed);
    for k in 0..10_000 {
        bench.offer(k * 10 * US, &made::whole(k, 100));
    }
    bench.run(10_000 * MS);
    let (delivered, lost) = (bench.counters().delivered, bench.counters().lost);
    assert_eq!(
        (delivered.packets, delivered.bytes),
        (bench.left.len() as u64, 100 * delivered.packets)
    );
    assert_eq!(lost, tally(10_000 - delivered.packets, 1_000_000 - delivered.bytes));
    bench.numbers()
}

#[test]
fn a_seed_says_which_packets_are_lost() {
    let first = survivors(1);
    assert_eq!(10_000 - first.len(), LOST_WITH_SEED_1);
    // Each packet has one draw, of the stream that the link's name has.
    let loss = LossModel::Bernoulli(0.05);
    let mut alone = Link::new(LinkConfig { loss, ..link(1000, 1, 10_000) }, 1, "a/down");
    let arrives = |k: u32| {
        let verdict = alone.offer(at(k * 10 * US), ByteCount::new(100));
        matches!(verdict, Verdict::Arrives(_)).then_some(k)
    };
    assert_eq!(first, (0..10_000).filter_map(arrives).collect::<Vec<u32>>());
    assert_ne!(first, survivors(2));
}

/// Drawn once; another number means other draws, and other results for every seed.
const LOST_WITH_SEED_1: usize = 502;

#[test]
fn listed_segments_are_lost_and_the_others_leave() {
    let loss = LossModel::Nth(vec![2, 5]);
    let mut bench = Bench::new(LinkConfig { loss, ..link(12, 0, 100) });
    // Of five segments the second and the fifth are lost.
    bench.offer(Duration::ZERO, &made::parts(1, 5 * 1460, 1460));
    bench.wake(100 * MS);
    bench.offer(100 * MS, &made::parts(2, 1460, 1460));
    bench.wake(200 * MS);
    let left = |number, segments, ms| Left { number, segments, when: ms * MS };
    assert_eq!(bench.left, [left(1, 1, 100), left(1, 2, 100), left(2, 1, 200)]);
    assert_eq!(bench.counters().lost, tally(2, 3000));
}

#[test]
fn segments_are_served_one_by_one_and_leave_together_if_the_driver_is_late() {
    // A segment of 1500 bytes takes 1 ms, the short one of 750 half of it.
    let packet = made::parts(9, 2 * 1460 + 710, 1460);
    let left = |segments, when| Left { number: 9, segments, when };
    let mut bench = Bench::new(link(12, 20, 100));
    bench.offer(Duration::ZERO, &packet);
    bench.run(1000 * MS);
    assert_eq!(bench.times(), [21 * MS, 22 * MS, 22 * MS + 500 * US]);
    bench.left.clear();
    bench.offer(100 * MS, &packet);
    bench.wake(122 * MS);
    bench.wake(123 * MS);
    assert_eq!(bench.left, [left(2, 122 * MS), left(1, 123 * MS)]);
    let counters = bench.counters();
    assert_eq!((counters.reads, counters.writes), (2, 5));
    assert_eq!((counters.offered, counters.offered_data), (tally(6, 2 * 3750), 6));
    assert_eq!(counters.delivered, counters.offered);
    assert_eq!(counters.offered_payload, 2 * (2 * 1460 + 710));
    assert_eq!(counters.delivered_payload, counters.offered_payload);
    // The link serves so much.
    let served = bench.direction.link.stats().offered;
    assert_eq!((served.packets, served.bytes.as_u64()), (6, 2 * 3750));
}

#[test]
fn a_queue_of_packets_drops_what_does_not_fit() {
    let mut bench = Bench::new(link(12, 20, 10));
    for k in 0..25 {
        bench.offer(Duration::ZERO, &made::whole(k, 1500));
    }
    assert_eq!(bench.counters().queue_full, tally(15, 15 * 1500));
    // The first packet's service ends and makes room for one, although it is still on its way.
    bench.offer(MS - Duration::from_nanos(1), &made::whole(25, 1500));
    bench.offer(MS, &made::whole(26, 1500));
    bench.offer(MS, &made::whole(27, 1500));
    assert_eq!(bench.counters().queue_full, tally(17, 17 * 1500));
    bench.run(1000 * MS);
    assert_eq!(bench.numbers(), (0..10).chain([26]).collect::<Vec<u32>>());
    assert_eq!(bench.times(), (21..=31).map(|ms| ms * MS).collect::<Vec<_>>());
}

#[test]
fn a_queue_of_bytes_takes_the_segments_that_fit() {
    let mut bench = Bench::new(LinkConfig { queue: bytes(5999), ..link(12, 20, 0) });
    // Three segments of 1500 bytes fit, the fourth does not, the fifth of 540 does.
    bench.offer(Duration::ZERO, &made::parts(1, 4 * 1460 + 500, 1460));
    assert_eq!(bench.counters().queue_full, tally(1, 1500));
    bench.wake(100 * MS);
    let left = |segments| Left { number: 1, segments, when: 100 * MS };
    assert_eq!(bench.left, [left(3), left(1)]);
    assert_eq!(bench.counters().delivered, tally(4, 5040));
}

#[test]
fn a_late_driver_keeps_the_schedule() {
    // A packet each millisecond; the driver sleeps from 100 to 150 ms.
    let mut bench = Bench::new(link(12, 20, 1000));
    for k in 0..300 {
        bench.offer(k * MS, &made::whole(k, 1500));
    }
    bench.run(100 * MS);
    bench.wake(150 * MS);
    bench.run(1000 * MS);
    // What was due leaves at once, and nothing later moves.
    let when = |ms: u32| if (101..150).contains(&ms) { 150 * MS } else { ms * MS };
    assert_eq!(bench.times(), (21..321).map(when).collect::<Vec<_>>());
    assert_eq!(bench.numbers(), (0..300).collect::<Vec<u32>>());
    // 49 packets were up to 49 ms late, the others were not.
    let over = |ms: u64| bench.lateness.count_between(ms * 1_000_000, u64::MAX);
    assert_eq!((bench.lateness.len(), over(1), over(25), over(50)), (300, 49, 25, 0));
    assert_eq!(bench.counters().delivered, bench.counters().offered);
}

#[test]
fn a_driver_that_is_always_late_adds_its_lateness_only_once() {
    let mut bench = Bench::new(link(12, 20, 1000));
    for k in 0..300 {
        bench.offer(k * MS, &made::whole(k, 1500));
    }
    bench.run_late(1000 * MS, 50 * MS);
    assert_eq!(bench.left.len(), 300);
    // It wakes 50 ms after the first of what then is due: every 51 ms.
    let when = |k: u32| 21 * MS + 50 * MS + (k / 51) * 51 * MS;
    assert_eq!(bench.times(), (0..300).map(when).collect::<Vec<_>>());
}

#[test]
fn a_late_driver_writes_into_the_step_of_the_series_in_which_it_writes() {
    let mut bench = Bench::new(link(12, 98, 1000));
    bench.offer(Duration::ZERO, &made::whole(0, 1500));
    bench.wake(149 * MS);
    assert_eq!(bench.direction.report().series, [0, 1500 - HEADERS as u64]);
}

/// What has left a direction one way or another.
fn settled(counters: &Counters) -> Tally {
    let Counters { delivered, lost, queue_full, unserved, cut, overflow, write_failed, .. } =
        counters;
    let mut sum = Tally::default();
    for part in [delivered, lost, queue_full, unserved, cut, overflow, write_failed] {
        sum.add_many(part.packets, part.bytes);
    }
    assert_eq!(sum.packets, counters.settled());
    sum
}

#[test]
fn what_came_is_what_left_was_lost_or_is_on_its_way() {
    let loss = LossModel::Nth(vec![3]);
    let mut bench = Bench::new(LinkConfig { loss, ..link(12, 20, 5) });
    for k in 0..8 {
        bench.offer(Duration::ZERO, &made::whole(k, 1500));
    }
    bench.run(22 * MS);
    bench.direction.cut = true;
    bench.offer(22 * MS, &made::whole(8, 900));
    bench.wake(23 * MS);
    bench.direction.cut = false;
    bench.direction.handle_overflow(700);
    bench.wake(23 * MS);
    let run = bench.direction.poll_transmit(at(24 * MS)).unwrap();
    let lateness = &mut bench.lateness;
    bench.direction.handle_transmit(&run, Sent::Refused, at(24 * MS), lateness);
    let counters = bench.counters();
    assert_eq!(counters.offered, tally(10, 8 * 1500 + 900 + 700));
    assert_eq!((counters.reads, counters.writes), (9, 2));
    assert_eq!(counters.delivered, tally(2, 3000));
    assert_eq!((counters.lost, counters.queue_full), (tally(1, 1500), tally(2, 3000)));
    assert_eq!((counters.cut, counters.overflow), (tally(2, 2400), tally(1, 700)));
    assert_eq!(counters.write_failed, tally(1, 1500));
    // One packet is on its way.
    assert_eq!(settled(&counters), tally(9, counters.offered.bytes - 1500));
    bench.run(25 * MS);
    assert_eq!(settled(&bench.counters()), bench.counters().offered);
}

#[test]
fn packets_that_left_give_their_memory_back() {
    let mut bench = Bench::new(link(1000, 5, 10_000));
    for k in 0..1000 {
        bench.run(k * MS);
        bench.offer(k * MS, &made::parts(k, 60_000, 1460));
    }
    // 5 or 6 packets of 60 kB are on their way at a time.
    assert_eq!(bench.direction.memory(), 2 << 20);
    bench.run(10_000 * MS);
    assert_eq!(bench.counters().delivered_payload, 60_000_000);
    assert_eq!(bench.direction.packets.len(), 0);
}
