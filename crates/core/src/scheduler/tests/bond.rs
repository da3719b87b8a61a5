//! The rules that `earliest` and `fbdt` share, each in force and switched off.

use std::ops::Range;
use std::time::Duration;

use super::builder::{Bench, Metrics};
use crate::path::{PathId, PathInfo};
use crate::scheduler::choice::SEGMENT;
use crate::scheduler::{Kind, RulesOff, SchedulerConfig};
use crate::{Bitrate, ByteCount};

const NEAR: Metrics = Metrics::new(20, 0, 20);
const FAR: Metrics = Metrics::new(20, 0, 400);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A bench of both schedulers with those rules switched off.
fn benches(without: &str, written: u64, metrics: &[Metrics]) -> [Bench; 2] {
    let without: RulesOff = without.parse().expect("known rules");
    let forward_pin = Some(PathId(0));
    let config = SchedulerConfig { without, forward_pin, ..SchedulerConfig::default() };
    ["earliest", "fbdt"].map(|name| Bench::with(name, &config, written, metrics))
}

/// Segments as a range of bytes.
const fn segments(range: Range<u64>) -> Range<u64> {
    range.start * SEGMENT..range.end * SEGMENT
}

/// The subflow has delivered so often within 10 ms that a range is late after about that.
fn steady(bench: &mut Bench, index: usize) {
    for _ in 0..100 {
        let next = bench.ask(index).expect("new data");
        bench.now += ms(10);
        let sent = bench.subflows[index].sent();
        bench.subflows[index].acknowledge(sent, bench.now).expect("was sent");
        bench.ack(next.range);
        bench.set_metrics(index, NEAR);
    }
}

/// A path of 40 ms that has delivered 8 Mb/s, with these bytes of window and threshold.
fn measured(cwnd: u64, ssthresh: Option<u64>) -> PathInfo {
    PathInfo {
        cwnd: ByteCount::new(cwnd),
        ssthresh: ssthresh.map(ByteCount::new),
        srtt: ms(40),
        min_rtt: ms(40),
        delivery_rate: Bitrate::mbps(8),
        ..PathInfo::default()
    }
}

#[test]
fn arrival_is_by_the_window_by_slow_start_or_by_the_rate() {
    let arrival = |cwnd: u64, ssthresh: Option<u64>, bytes: u64| {
        let mut bench = Bench::new("earliest", 1, &[]);
        bench.up(0);
        bench.set_info(0, measured(cwnd, ssthresh));
        bench.view().arrival(&bench.subflows[0], bytes)
    };
    // Half a round-trip time while the window has room, a round trip more for each doubling.
    assert_eq!(arrival(10_000, None, 10_000), ms(20));
    assert_eq!(arrival(10_000, None, 30_000), ms(60));
    assert_eq!(arrival(10_000, None, 30_001), ms(100));
    // 8 Mb/s: a byte each microsecond.
    assert_eq!(arrival(10_000, Some(5000), 10_000), ms(20));
    assert_eq!(arrival(10_000, Some(5000), 60_000), ms(70));
}

#[test]
fn slow_start_is_over_for_good_once_the_threshold_was_reached() {
    let mut bench = Bench::new("earliest", 1, &[]);
    bench.up(0);
    let mut arrival = |info: PathInfo| {
        bench.set_info(0, info);
        bench.view().arrival(&bench.subflows[0], 30_000)
    };
    assert_eq!(arrival(measured(10_000, None)), ms(60), "a round trip for 20,000 more");
    assert_eq!(arrival(measured(20_000, Some(20_000))), ms(30), "at the rate");
    // A radio that is blocked, under BBR: the threshold is that of its first rate.
    assert_eq!(arrival(measured(10_000, Some(20_000))), ms(40), "still at the rate");
}

#[test]
fn earliest_takes_the_front_and_fbdt_both_ends() {
    let [mut earliest, mut fbdt] = benches("", 10, &[NEAR, NEAR]);
    let taken = |bench: &mut Bench| {
        [0, 1, 0, 1].map(|index| bench.ask(index).expect("new data").range.start / SEGMENT)
    };
    assert_eq!(taken(&mut earliest), [0, 1, 2, 3]);
    assert_eq!(taken(&mut fbdt), [0, 9, 1, 8]);
}

#[test]
fn a_far_path_is_spared_unless_it_brings_the_end_forward() {
    for mut bench in benches("", 10, &[NEAR, FAR]) {
        assert_eq!(bench.ask(1), None, "the near one is done before");
        bench.expected = 1 << 30;
        assert!(bench.ask(1).is_some(), "much more is to come");
        bench.expected = 0;
        bench.stall_after_ask(0);
        assert!(bench.ask(1).is_some(), "there is no other");
    }
    for mut bench in benches("spare-far", 10, &[NEAR, FAR]) {
        assert!(bench.ask(1).is_some());
    }
}

#[test]
fn a_path_that_adds_nothing_does_not_hold_the_others_up() {
    // 20 segments in 0.4 s are 0.58 Mb/s, 2.2 MB in half a minute.
    let takes = |rate: Bitrate, without: &str| {
        benches(without, 10, &[NEAR, FAR]).map(|mut bench| {
            bench.expected = 1 << 30;
            bench.set_info(0, PathInfo { delivery_rate: rate, ..NEAR.info() });
            bench.ask(1).is_some()
        })
    };
    // The near path brings 2.1 and 2.3 MB in the 0.2 s that the far one's bytes take.
    assert_eq!(takes(Bitrate::mbps(84), ""), [true; 2]);
    assert_eq!(takes(Bitrate::mbps(90), ""), [false; 2]);
    assert_eq!(takes(Bitrate::mbps(90), "spare-far"), [true; 2]);
}

#[test]
fn what_a_stalled_path_holds_is_reinjected_lowest_first_and_free_of_charge() {
    for mut bench in benches("", 2000, &[NEAR, NEAR]) {
        (0..200).for_each(|_| assert!(bench.ask(0).is_some()));
        bench.stall(0);
        let again: Vec<_> = (0..200).map(|_| bench.ask(1).expect("what is held")).collect();
        assert!(again.iter().all(|next| next.kind == Kind::Reinjection));
        assert!(again.is_sorted_by_key(|next| next.range.start));
        assert_eq!(bench.ask(1).map(|next| next.kind), Some(Kind::New));
    }
    // Without the rule they are late, and only the lowest is sent again, at the budget's charge.
    for mut bench in benches("reinject", 2000, &[NEAR, NEAR]) {
        (0..200).for_each(|_| assert!(bench.ask(0).is_some()));
        bench.stall(0);
        let kinds = [(); 3].map(|()| bench.ask(1).map(|next| next.kind));
        assert_eq!(kinds, [Some(Kind::Reinjection), Some(Kind::New), Some(Kind::New)]);
    }
}

/// The first subflow is late with the lowest two segments; the second has nothing outstanding.
fn late(without: &str) -> [Bench; 2] {
    benches(without, 1000, &[NEAR, NEAR]).map(|mut bench| {
        bench.expected = 1 << 30;
        steady(&mut bench, 0);
        steady(&mut bench, 1);
        for _ in 0..2 {
            bench.ask(0).expect("new data");
        }
        bench.now += ms(50);
        bench
    })
}

#[test]
fn the_lowest_byte_is_copied_when_it_is_late_one_copy_at_a_time() {
    for mut bench in late("") {
        let kinds = [0, 1].map(|_| bench.ask(1).map(|next| next.kind));
        assert_eq!(kinds, [Some(Kind::Copy), Some(Kind::New)]);
    }
    for mut bench in late("copy-late") {
        assert_eq!(bench.ask(1).map(|next| next.kind), Some(Kind::New));
    }
    // It is not late yet.
    for mut bench in late("") {
        bench.now = bench.subflows[0].sent_at(bench.una).expect("on its way") + ms(1);
        assert_eq!(bench.ask(1).map(|next| next.kind), Some(Kind::New));
    }
}

#[test]
fn at_the_end_what_is_overdue_on_a_path_that_has_delivered_nothing_is_copied() {
    for mut bench in benches("copy-late", 1, &[NEAR, NEAR]) {
        bench.ask(0).expect("all there is");
        // Its way takes 10 ms and the answer as long; nobody knows its rate.
        bench.now += ms(20);
        assert_eq!(bench.ask(1), None, "it may have come");
        bench.now += ms(1);
        assert_eq!(bench.ask(1).map(|given| given.kind), Some(Kind::Copy));
    }
}

#[test]
fn of_a_range_that_a_third_path_has_begun_the_rest_is_copied() {
    for name in ["earliest", "fbdt"] {
        let mut bench = Bench::new(name, 0, &[]);
        bench.chunk = (SEGMENT, 4 * SEGMENT);
        (0..3).for_each(|id| bench.up(id));
        bench.set_info(0, PathInfo { delivery_rate: Bitrate::mbps(100), ..FAR.info() });
        bench.write(4 * SEGMENT);
        bench.subflows[1..].iter_mut().for_each(|subflow| subflow.set_standby(true));
        assert_eq!(bench.ask_for(0, 64 << 10).expect("all there is").range, 0..4 * SEGMENT);
        bench.subflows[1..].iter_mut().for_each(|subflow| subflow.set_standby(false));
        (1..3).for_each(|index| bench.set_metrics(index, NEAR));
        let copied =
            [1, 2, 1, 2].map(|index| bench.ask(index).map(|given| given.range.start / SEGMENT));
        assert_eq!(copied, [3, 2, 1, 0].map(Some), "{name}");
        assert_eq!(bench.ask(1), None);
    }
}

#[test]
fn what_waits_for_a_path_that_has_become_slow_is_copied_lowest_first() {
    // 20 segments take 232 ms at 1 Mb/s and 116 at 2; on the other path 10 ms.
    let next = |rate: Bitrate, without: &str| {
        benches(without, 1000, &[NEAR, NEAR]).map(|mut bench| {
            bench.expected = 1 << 30;
            bench.set_info(0, PathInfo { delivery_rate: Bitrate::mbps(20), ..NEAR.info() });
            let held = [(); 20].map(|()| bench.ask(0).expect("new data").range);
            bench.set_info(0, PathInfo { delivery_rate: rate, ..NEAR.info() });
            let given = [0, 1].map(|_| bench.ask(1).expect("something"));
            given.map(|given| (given.kind, held.iter().position(|range| *range == given.range)))
        })
    };
    let copies = [(Kind::Copy, Some(0)), (Kind::Copy, Some(1))];
    assert_eq!(next(Bitrate::mbps(1), ""), [copies; 2]);
    // Eight times the round trip of 20 ms is more than 116.
    assert_eq!(next(Bitrate::mbps(2), ""), [[(Kind::New, None); 2]; 2]);
    assert_eq!(next(Bitrate::mbps(1), "copy-slow"), [[(Kind::New, None); 2]; 2]);
}

#[test]
fn what_will_come_last_is_copied_at_the_end() {
    let end = |without| {
        benches(without, 10, &[FAR, NEAR]).map(|mut bench| {
            for _ in 0..10 {
                bench.subflows[1].set_standby(true);
                bench.ask(0).expect("the only one");
            }
            bench.subflows[1].set_standby(false);
            bench.ask(1)
        })
    };
    for next in end("") {
        let next = next.expect("a copy");
        assert_eq!((next.kind, next.range), (Kind::Copy, segments(9..10)));
    }
    assert_eq!(end("copy-last"), [None, None]);
}
