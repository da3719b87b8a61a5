//! Messages with deadlines: what is sent of them, on which path, and what stays.

use std::ops::Range;
use std::time::Duration;

use super::builder::{Bench, Metrics, Sent};
use crate::path::PathInfo;
use crate::scheduler::choice::SEGMENT;
use crate::scheduler::{Kind, RulesOff, SchedulerConfig, estimate};
use crate::{Bitrate, ByteCount};

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A path of 10 segments each 20 ms and one that takes 200 ms for the way, both past slow start with
/// something on their way.
fn bench(without: &str, messages: &[(u64, Option<u64>)]) -> Bench {
    // With a few segments for each path the far one would always stand aside.
    let without: RulesOff = format!("spare-far,{without}").parse().expect("known rules");
    let config = SchedulerConfig { without, ..SchedulerConfig::default() };
    let metrics = [Metrics::new(10, 4, 20), Metrics::new(40, 4, 400)];
    let mut bench = Bench::with("earliest", &config, 0, &metrics);
    for (index, metrics) in metrics.into_iter().enumerate() {
        let rtt = metrics.info().srtt;
        let delivery_rate = Bitrate::from_transfer(metrics.info().cwnd, rtt);
        bench.set_info(index, PathInfo { delivery_rate, ..metrics.info() });
    }
    let mut sent = Sent::default();
    for &(segments, after) in messages {
        let start = bench.end;
        bench.write(segments * SEGMENT);
        sent.0.push((start..bench.end, after.map(|after| bench.now + ms(after))));
    }
    bench.messages = Some(sent);
    bench
}

/// What a path would be given, in segments.
fn would(bench: &mut Bench, index: usize) -> Option<Range<u64>> {
    let range = bench.would(index)?.range;
    Some(range.start / SEGMENT..range.end / SEGMENT)
}

#[test]
fn what_cannot_be_whole_in_time_makes_way() {
    // In 50 ms the near path brings 25 segments and what its acknowledgements have not told, the far
    // one none.
    let messages = [(100, Some(50)), (20, Some(50)), (5, Some(1000))];
    assert_eq!(would(&mut bench("", &messages), 0), Some(100..101));
    assert_eq!(would(&mut bench("deadlines", &messages), 0), Some(0..1));
}

#[test]
fn a_path_takes_no_bytes_that_it_would_bring_late() {
    let messages = [(20, Some(100)), (30, Some(1000))];
    assert_eq!(would(&mut bench("", &messages), 0), Some(0..1));
    assert_eq!(would(&mut bench("", &messages), 1), Some(20..21));
    assert_eq!(would(&mut bench("deadlines", &messages), 1), Some(0..1));
}

#[test]
fn what_others_bring_before_is_no_room_for_a_message() {
    // Either alone is in time on the near path, not both: and the far one is too late for each.
    let mut both = bench("", &[(20, Some(50)), (20, Some(50)), (1, None)]);
    assert_eq!(would(&mut both, 0), Some(0..1));
    assert_eq!(would(&mut both, 1), Some(40..41), "what has no deadline always goes");
}

#[test]
fn messages_without_a_deadline_share_a_range() {
    let mut bench = bench("", &[(1, None), (1, None), (20, Some(1000))]);
    let given = bench.ask_for(0, 64 << 10).expect("new data");
    assert!(given.range.end <= 2 * SEGMENT, "{given:?}");
    bench.chunk = (SEGMENT, 64 << 10);
    bench.up(2);
    let given = bench.ask_for(2, 64 << 10).expect("new data");
    assert_eq!(given.range, SEGMENT..2 * SEGMENT);
}

#[test]
fn what_has_no_deadline_goes_behind_any_number_of_hopeless_messages() {
    let mut messages = vec![(100, Some(50)); 1000];
    messages.extend([(2, None), (5, Some(1000))]);
    let mut bench = bench("", &messages);
    assert_eq!(would(&mut bench, 0), Some(100_000..100_001));
    assert!(bench.ask(0).is_some() && bench.ask(0).is_some());
    assert_eq!(would(&mut bench, 0), None, "further down only what has none is looked for");
}

#[test]
fn what_has_a_deadline_is_not_copied_at_the_end() {
    let end = |without, after| {
        let mut bench = bench(without, &[(5, after)]);
        bench.subflows[0].set_standby(true);
        for _ in 0..5 {
            bench.ask(1).expect("the only one");
        }
        bench.subflows[0].set_standby(false);
        bench.ask(0).map(|given| (given.kind, given.range))
    };
    let copy = Some((Kind::Copy, 4 * SEGMENT..5 * SEGMENT));
    assert_eq!(end("", Some(1000)), None);
    assert_eq!([end("", None), end("deadlines", Some(1000))], [copy.clone(), copy]);
}

#[test]
fn a_begun_message_that_cannot_be_whole_any_more_is_given_up() {
    let mut bench = bench("", &[(20, Some(50)), (5, Some(1000))]);
    assert_eq!(would(&mut bench, 0), Some(0..1));
    assert_eq!(bench.ask(0).map(|given| given.kind), Some(Kind::New));
    bench.now += ms(45);
    assert_eq!(would(&mut bench, 0), Some(20..21));
}

#[test]
fn a_path_of_which_nothing_is_known_takes_what_there_is() {
    let hopeless = [(1000, Some(50))];
    let mut waiting = bench("", &hopeless);
    assert_eq!(would(&mut waiting, 0), None);
    waiting.up(2);
    waiting.set_info(2, PathInfo { ssthresh: None, ..*waiting.subflows[0].info() });
    assert_eq!(would(&mut waiting, 2), Some(0..1), "in slow start");
    let mut idle = bench("", &hopeless);
    idle.up(2);
    assert_eq!(would(&mut idle, 2), Some(0..1), "with nothing on its way");
}

#[test]
fn the_bytes_that_arrive_within_a_time_are_those_whose_arrival_is_by_then() {
    let info = PathInfo {
        cwnd: ByteCount::new(10_000),
        ssthresh: Some(ByteCount::new(5_000)),
        delivery_rate: Bitrate::mbps(8),
        ..Metrics::new(10, 0, 40).info()
    };
    let within = |info: PathInfo, time: u64| {
        let mut bench = Bench::new("earliest", 1, &[]);
        bench.up(0);
        bench.set_info(0, info);
        estimate::deliverable(&bench.view(), &bench.subflows[0], ms(time))
    };
    // The way takes 20 ms; the window lets 10,000 bytes leave at once, the rate 1,000 in a millisecond.
    assert_eq!([19, 20, 30, 60].map(|time| within(info, time)), [0, 10_000, 20_000, 50_000]);
    // In slow start the window and its doublings, up to the rate as far as it is known.
    let starting = PathInfo { ssthresh: None, ..info };
    assert_eq!([19, 20, 60].map(|time| within(starting, time)), [0, 10_000, 30_000]);
    let unknown = PathInfo { delivery_rate: Bitrate::default(), ..starting };
    assert_eq!([20, 60, 100].map(|time| within(unknown, time)), [10_000, 30_000, 70_000]);
    assert_eq!(within(PathInfo { cwnd: ByteCount::ZERO, ..info }, 20), u64::MAX);
}
