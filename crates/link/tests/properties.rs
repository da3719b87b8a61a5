//! What holds for every link, whatever is offered to it.

use std::time::Duration;

use proptest::prelude::*;
use weftline_core::{Bitrate, ByteCount, Instant};
use weftline_link::{Link, LinkConfig, LossModel, QueueLimit, RateTrace, Verdict};

/// Traces with zero stretches, odd rates and odd lengths.
fn trace() -> impl Strategy<Value = RateTrace> {
    let rate = prop_oneof![Just(0), 1_000_u64..3_000_000_000];
    proptest::collection::vec((1_u64..200_000_000, rate), 1..8).prop_map(|parts| {
        let mut start = 0;
        let mut steps = Vec::new();
        for (length, rate) in parts {
            steps.push((Duration::from_nanos(start), Bitrate::bps(rate)));
            start += length;
        }
        RateTrace::from_steps(steps, Duration::from_nanos(start)).expect("steps rise from 0")
    })
}

fn loss() -> impl Strategy<Value = LossModel> {
    let ms = Duration::from_millis;
    prop_oneof![
        Just(LossModel::None),
        (0.0..1.0).prop_map(LossModel::Bernoulli),
        proptest::collection::vec(1_u64..300, 0..40).prop_map(LossModel::Nth),
        (0.0..1.0).prop_map(move |p| LossModel::Schedule(vec![(ms(0), p), (ms(50), 1.0 - p)])),
        (0.0..1.0, 0.0..1.0).prop_map(|(p, q)| LossModel::GilbertElliott {
            good_to_bad: p,
            bad_to_good: q,
            loss_good: 0.01,
            loss_bad: 0.5,
        }),
    ]
}

fn config() -> impl Strategy<Value = LinkConfig> {
    let queue = prop_oneof![
        (0_u64..200_000).prop_map(|bytes| QueueLimit::Bytes(ByteCount::new(bytes))),
        (0_u64..100).prop_map(QueueLimit::Packets),
    ];
    let time = || (0_u64..80_000_000).prop_map(Duration::from_nanos);
    let jitter = prop_oneof![Just(Duration::ZERO), time()];
    (trace(), time(), jitter, queue, loss()).prop_map(|(rate, delay, jitter, queue, loss)| {
        LinkConfig { rate, delay, jitter, queue, loss }
    })
}

/// Gaps in nanoseconds and sizes in bytes.
fn offers() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![4 => Just(0), 4 => 0_u64..100_000, 1 => 0_u64..900_000_000];
    proptest::collection::vec((gap, 0_u64..9_000), 1..300)
}

/// Offers them all, starting the trace before the offer number `start_at`.
fn run(link: &mut Link, offers: &[(u64, u64)], start_at: usize) -> Vec<(Instant, Verdict)> {
    let mut now = Instant::ZERO;
    let offer = |(index, &(gap, size)): (usize, &(u64, u64))| {
        now += Duration::from_nanos(gap);
        if index == start_at {
            link.start(now);
        }
        (now, link.offer(now, ByteCount::new(size)))
    };
    offers.iter().enumerate().map(offer).collect()
}

/// The same link by brute force: cumulative capacity of the trace against cumulative bytes of each
/// busy period, with the trace's own integral and no carried state.
fn oracle(trace: &RateTrace, offers: &[(u64, u64)]) -> Vec<Option<Duration>> {
    let (mut now, mut begun, mut owed) = (Duration::ZERO, Duration::ZERO, 0_u64);
    let mut busy_until = Duration::ZERO;
    let serve = |&(gap, size): &(u64, u64)| {
        now += Duration::from_nanos(gap);
        if now >= busy_until {
            (begun, owed) = (now, 0);
        }
        owed += size;
        busy_until = trace.finish(begun, ByteCount::new(owed))?;
        Some(busy_until)
    };
    offers.iter().map(serve).collect()
}

proptest! {
    #[test]
    fn packets_and_bytes_are_conserved_and_keep_their_order(
        config in config(),
        offers in offers(),
        start_at in 0_usize..100,
        seed: u64,
    ) {
        let mut link = Link::new(config.clone(), seed, "test");
        let verdicts = run(&mut link, &offers, start_at);
        let mut last = Instant::ZERO;
        for &(now, verdict) in &verdicts {
            if let Verdict::Arrives(at) = verdict {
                prop_assert!(at >= last && at >= now);
                if config.jitter.is_zero() {
                    prop_assert!(at.since(now) >= config.delay);
                }
                last = at;
            }
        }
        let stats = link.stats();
        let parts = [stats.scheduled, stats.lost, stats.queue_full, stats.unserved];
        prop_assert_eq!(stats.offered.packets, offers.len() as u64);
        prop_assert_eq!(stats.offered.packets, parts.iter().map(|part| part.packets).sum::<u64>());
        let bytes = offers.iter().map(|&(_, size)| size).sum();
        prop_assert_eq!(stats.offered.bytes, ByteCount::new(bytes));
        prop_assert_eq!(stats.offered.bytes, parts.iter().map(|part| part.bytes).sum());
        let count = |wanted| verdicts.iter().filter(|&&(_, v)| v == wanted).count() as u64;
        prop_assert_eq!(stats.lost.packets, count(Verdict::Lost));
        prop_assert_eq!(stats.queue_full.packets, count(Verdict::QueueFull));
        prop_assert_eq!(stats.unserved.packets, count(Verdict::Unserved));
    }

    #[test]
    fn the_queue_never_exceeds_its_limit(config in config(), offers in offers(), seed: u64) {
        let queue = config.queue;
        let mut link = Link::new(config, seed, "test");
        link.start(Instant::ZERO);
        let mut now = Instant::ZERO;
        for (gap, size) in offers {
            now += Duration::from_nanos(gap);
            let before = link.backlog(now);
            let verdict = link.offer(now, ByteCount::new(size));
            let (bytes, packets) = link.backlog(now);
            let room = match queue {
                QueueLimit::Bytes(limit) => {
                    prop_assert!(bytes <= limit);
                    before.0 + ByteCount::new(size) <= limit
                }
                QueueLimit::Packets(limit) => {
                    prop_assert!(packets <= limit);
                    before.1 < limit
                }
            };
            prop_assert!(verdict != Verdict::QueueFull || !room, "dropped beside free room");
        }
    }

    #[test]
    fn service_follows_the_trace_exactly(rate in trace(), offers in offers()) {
        let config = LinkConfig {
            rate: rate.clone(),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            queue: QueueLimit::Packets(u64::MAX),
            loss: LossModel::None,
        };
        let mut link = Link::new(config, 1, "test");
        link.start(Instant::ZERO);
        let verdicts = run(&mut link, &offers, usize::MAX);
        for ((_, verdict), finish) in verdicts.into_iter().zip(oracle(&rate, &offers)) {
            let arrival = finish.map(|finish| Instant::ZERO + finish);
            prop_assert_eq!(verdict, arrival.map_or(Verdict::Unserved, Verdict::Arrives));
        }
    }

    #[test]
    fn a_backlogged_link_carries_its_capacity(
        rate in trace().prop_filter("some capacity", |rate| rate.mean() > Bitrate::kbps(500)),
        size in 40_u64..9_000,
        epoch in 0_u64..1_000_000_000,
    ) {
        let config = LinkConfig {
            rate: rate.clone(),
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            queue: QueueLimit::Packets(u64::MAX),
            loss: LossModel::None,
        };
        let mut link = Link::new(config, 1, "test");
        let epoch = Instant::from_nanos(epoch);
        link.start(epoch);
        let mut served = 0;
        let mut end = epoch;
        for _ in 0..5_000 {
            let Verdict::Arrives(at) = link.offer(epoch, ByteCount::new(size)) else {
                panic!("refused");
            };
            served += size;
            end = at;
        }
        // All that could be carried up to the last arrival was carried, to within the part of a
        // byte that fits in its last nanosecond, and a packet when that falls in a fast step.
        let capacity = rate.bytes_between(Duration::ZERO, end.since(epoch)).as_u64();
        prop_assert!(capacity >= served && capacity - served <= size, "{capacity} {served}");
    }

    #[test]
    fn finish_and_capacity_agree(rate in trace(), start in 0_u64..1 << 40, bytes in 1_u64..1 << 32) {
        let start = Duration::from_nanos(start);
        if let Some(finish) = rate.finish(start, ByteCount::new(bytes)) {
            let until = |end| rate.bytes_between(start, end).as_u64();
            prop_assert!(until(finish) >= bytes);
            prop_assert!(until(finish - Duration::from_nanos(1)) < bytes);
        } else {
            prop_assert_eq!(rate.mean(), Bitrate::ZERO);
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_verdicts(
        config in config(),
        offers in offers(),
        start_at in 0_usize..100,
        seed: u64,
    ) {
        let mut links = [Link::new(config.clone(), seed, "a"), Link::new(config, seed, "a")];
        let [first, second] = links.each_mut().map(|link| run(link, &offers, start_at));
        prop_assert_eq!(first, second);
    }
}
