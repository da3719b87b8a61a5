//! The rules that pick by window and round-trip time, as in the slides.

use super::builder::{Bench, Metrics};
use crate::scheduler::choice::SEGMENT;

/// WiFi near and small, LTE far and large.
const WIFI: Metrics = Metrics::new(10, 0, 40);
const LTE: Metrics = Metrics::new(30, 0, 80);

#[test]
fn min_rtt_fills_the_nearer_path_first() {
    let mut bench = Bench::new("min-rtt", 100, &[LTE, WIFI]);
    let taken = bench.settle(100);
    assert_eq!(taken[..10], [1; 10]);
    assert_eq!(taken[10..], [0; 30]);
}

#[test]
fn a_path_in_timeout_recovery_is_passed_over() {
    let mut bench = Bench::new("min-rtt", 100, &[LTE, WIFI]);
    let info = crate::path::PathInfo { timed_out: true, ..WIFI.info() };
    bench.set_info(1, info);
    assert_eq!(bench.settle(2), [0, 0]);
    // It is better than nothing.
    let info = crate::path::PathInfo { timed_out: true, ..LTE.info() };
    bench.set_info(0, info);
    assert_eq!(bench.settle(2), [1, 1]);
}

#[test]
fn lpc_takes_the_largest_room_and_the_first_of_equals() {
    // 30 against 10: the first path until both have room for 10, then alternating.
    let mut bench = Bench::new("lpc", 100, &[LTE, WIFI]);
    let taken = bench.settle(100);
    assert_eq!(taken[..20], [0; 20]);
    assert_eq!(taken[20..26], [0, 1, 0, 1, 0, 1]);
    assert_eq!(taken.len(), 40);
}

#[test]
fn let_compares_window_over_round_trip_time() {
    // 10/40 = 0.25 and 30/80 = 0.375 segments a millisecond.
    let mut bench = Bench::new("let", 100, &[WIFI, LTE]);
    let taken = bench.settle(100);
    assert_eq!(taken[..30], [1; 30]);
    assert_eq!(taken[30..], [0; 10]);
    // Equal: the first.
    let mut bench = Bench::new("let", 100, &[Metrics::new(10, 0, 40), Metrics::new(20, 0, 80)]);
    assert_eq!(bench.settle(1), [0]);
}

#[test]
fn greedy_sticks_while_there_is_room() {
    // The far path is taken up because the near one is full, and kept when that has room again.
    let mut bench = Bench::new("gr-sty", 200, &[LTE, Metrics::new(10, 9, 40)]);
    assert_eq!(bench.settle(3), [1, 0, 0]);
    bench.set_metrics(1, WIFI);
    assert_eq!(bench.settle(28), [0; 28]);
    assert_eq!(bench.settle(3), [1, 1, 1]);
}

#[test]
fn throughput_sticky_waits_or_lends() {
    let full = Metrics::new(20, 20, 60);
    let idle = Metrics::new(10, 0, 80);
    for (name, lends) in
        [("tp-sty", false), ("tr-sty", false), ("tp-sty-soft", true), ("tr-sty-soft", true)]
    {
        let mut bench = Bench::new(name, 200, &[idle, Metrics::new(20, 0, 60)]);
        assert_eq!(bench.settle(1), [1], "{name}");
        bench.set_metrics(1, full);
        // 10/80 is less than 20/60.
        let expected: &[usize] = if lends { &[0; 10] } else { &[] };
        assert_eq!(bench.settle(10), expected, "{name}");
        // The current path is still the second.
        bench.set_metrics(1, Metrics::new(20, 0, 60));
        assert_eq!(bench.settle(2), [1, 1], "{name}");
    }
}

#[test]
fn sticky_changes_only_for_what_its_rule_asks() {
    let idle = Metrics::new(10, 0, 80);
    // Loss has brought the current path down to 4/60, less than 10/80; it is still nearer.
    let low = Metrics::new(4, 4, 60);
    for (name, changes) in [("tp-sty", true), ("tr-sty", false)] {
        let mut bench = Bench::new(name, 200, &[idle, Metrics::new(20, 0, 60)]);
        assert_eq!(bench.settle(1), [1]);
        bench.set_metrics(1, low);
        let expected: &[usize] = if changes { &[0; 3] } else { &[] };
        assert_eq!(bench.settle(3), expected, "{name}");
    }
    // Faster and nearer satisfies both.
    for name in ["tp-sty", "tr-sty"] {
        let mut bench = Bench::new(name, 200, &[idle]);
        assert_eq!(bench.settle(1), [0]);
        bench.up(1);
        bench.set_metrics(1, Metrics::new(10, 0, 60));
        assert_eq!(bench.settle(2), [1, 1], "{name}");
    }
}

#[test]
fn strict_sticky_lends_while_its_path_is_silent_and_leaves_a_dead_one() {
    let mut bench = Bench::new("tr-sty", 200, &[Metrics::new(10, 0, 80), Metrics::new(20, 0, 60)]);
    assert_eq!(bench.settle(1), [1]);
    bench.stall(1);
    let reinjection = bench.ask(0).expect("what the stalled path holds");
    assert!(reinjection.is_again());
    assert!(!bench.ask(0).expect("new data").is_again());
    // It makes progress again: still the current path.
    let sent = bench.subflows[1].sent();
    bench.subflows[1].acknowledge(sent, bench.now).expect("was sent");
    bench.subflows[1].evaluate(false, bench.now);
    assert_eq!(bench.settle(2), [1, 1]);
    bench.subflows.pop();
    assert_eq!(bench.settle(2), [0, 0]);
}

#[test]
fn round_robin_alternates_and_skips_full_paths() {
    let three = [Metrics::new(4, 0, 10), Metrics::new(2, 2, 20), Metrics::new(4, 0, 30)];
    let mut bench = Bench::new("round-robin", 100, &three);
    assert_eq!(bench.settle(4), [0, 2, 0, 2]);
    bench.set_metrics(1, Metrics::new(4, 0, 20));
    assert_eq!(bench.settle(3), [0, 1, 2]);
}

#[test]
fn the_preferred_one_is_not_waited_for_once_its_socket_is_full() {
    for name in ["min-rtt", "let", "lpc", "gr-sty"] {
        let mut bench = Bench::new(name, 10, &[WIFI, LTE]);
        let preferred = usize::from(["let", "lpc"].contains(&name));
        bench.rooms = vec![SEGMENT; 2];
        let takers = [(); 3].map(|()| bench.pick().map(|given| given.subflow));
        assert_eq!(takers, [Some(preferred), Some(1 - preferred), None], "{name}");
    }
}
