//! Schedulers that look ahead: BLEST, ECF, Linux's, MuSher's rounds, redundancy, and what is done
//! about a full send window.

use std::fmt::Write as _;
use std::time::Duration;

use super::builder::{Bench, Metrics, segments};
use crate::Bitrate;
use crate::path::{PathInfo, SubflowId};
use crate::scheduler::choice::SEGMENT;
use crate::subflow::Subflow;

/// The fast path, full, and the slow one, empty.
const FULL: Metrics = Metrics::new(20, 20, 20);
const SLOW: Metrics = Metrics::new(20, 0, 100);

/// The answer to a slow path that asks.
fn answer(bench: &mut Bench) -> &'static str {
    if bench.ask(1).is_some() { "slow" } else { "wait" }
}

#[test]
fn blest_spares_the_window_the_fast_path_needs() {
    // t = 100 ms, n = 100/20 + 1 = 6; (20 + 5/2) * 6 = 132 segments, times 1.2 = 158.4, are needed
    // beside the one for the slow path.
    let mut table = String::new();
    for window in [100, 159, 160, 1000] {
        let mut bench = Bench::new("blest", 5000, &[FULL, SLOW]);
        bench.credit = window * SEGMENT;
        writeln!(table, "window {window:4}: {}", answer(&mut bench)).unwrap();
    }
    // In the first slow start the fast path doubles: 20 * (2^6 - 1) * 1.2 = 1512.
    for window in [1000, 1512, 1513] {
        let mut bench = Bench::new("blest", 5000, &[FULL, SLOW]);
        bench.set_info(0, PathInfo { ssthresh: None, ..FULL.info() });
        bench.credit = window * SEGMENT;
        writeln!(table, "slow start, window {window:4}: {}", answer(&mut bench)).unwrap();
    }
    insta::assert_snapshot!(table, @r"
    window  100: wait
    window  159: wait
    window  160: slow
    window 1000: slow
    slow start, window 1000: wait
    slow start, window 1512: wait
    slow start, window 1513: slow
    ");
}

#[test]
fn blest_lambda_follows_the_blocking() {
    // The least window, less one segment, with which the slow path is used: 132 λ segments. For
    // the first half second the window is found full, then not; λ moves once per 100 ms.
    let mut bench = Bench::new("blest", 5000, &[FULL, SLOW]);
    let mut table = String::new();
    for at in (0..1000).step_by(50) {
        let slow_is_used = |bench: &mut Bench, window: u64| {
            bench.credit = window * SEGMENT;
            bench.would(1).is_some()
        };
        let least = (100..200).find(|&window| slow_is_used(&mut bench, window));
        if at % 100 == 0 {
            writeln!(table, "{at:3} ms: {:?}", least.map(|window| window - 1)).unwrap();
        }
        if at < 500 {
            bench.credit = 0;
            assert_eq!(bench.would(0), None, "there is nothing to send again");
        }
        bench.now += Duration::from_millis(50);
    }
    insta::assert_snapshot!(table, @r"
      0 ms: Some(159)
    100 ms: Some(164)
    200 ms: Some(169)
    300 ms: Some(172)
    400 ms: Some(172)
    500 ms: Some(172)
    600 ms: Some(171)
    700 ms: Some(169)
    800 ms: Some(168)
    900 ms: Some(167)
    ");
}

#[test]
fn ecf_waits_when_the_fast_path_would_be_done_first() {
    // 20 segments a round on both. With 90 waiting the fast path takes 20 (90 + 20)/20 = 110 ms,
    // less than 100 and the deviation of 12.5; with 95 it takes 115.
    let mut table = String::new();
    for waiting in [10, 90, 95, 200] {
        let mut bench = Bench::new("ecf", waiting, &[FULL, SLOW]);
        writeln!(table, "at first, {waiting:3} wait: {}", answer(&mut bench)).unwrap();
    }
    // Once it waits it does so up to a quarter more: 140.6 ms, until 121 wait.
    let mut bench = Bench::new("ecf", 90, &[FULL, SLOW]);
    for waiting in [90, 95, 120, 121] {
        bench.write(waiting * SEGMENT - bench.unassigned.bytes());
        writeln!(table, "then, {waiting:3} wait: {}", answer(&mut bench)).unwrap();
    }
    insta::assert_snapshot!(table, @r"
    at first,  10 wait: wait
    at first,  90 wait: wait
    at first,  95 wait: slow
    at first, 200 wait: slow
    then,  90 wait: wait
    then,  95 wait: wait
    then, 120 wait: wait
    then, 121 wait: slow
    ");
}

#[test]
fn ecf_uses_a_slow_path_that_is_no_slower() {
    // The fast path needs two rounds of 20 ms; the slow one is done in 35.
    let mut bench = Bench::new("ecf", 10, &[FULL, Metrics::new(20, 0, 35)]);
    assert_eq!(answer(&mut bench), "slow");
}

#[test]
fn linux_sends_bursts_to_what_empties_first() {
    // 50 and 10 Mb/s, memory for 200 and 100 segments. A burst of 65,428 bytes is 46 segments. The
    // first goes on until its memory is full, for it empties first, and the second has to wait.
    let mut bench = Bench::new("linux", 5000, &[]);
    for (n, info) in [paced(100, 50), paced(50, 10)].into_iter().enumerate() {
        bench.up(n as u64);
        bench.set_info(n, info);
    }
    assert_eq!(bursts(&mut bench, 1000), [(0, 46), (1, 46), (0, 154)]);
}

#[test]
fn linux_goes_by_an_average_of_the_rate() {
    // Once each has a burst, the first falls from 50 to 5 Mb/s. Taken at once, it would empty in
    // 107 ms; by the average, in 11, and after another burst at 28 Mb/s in 38. The second: 27 ms.
    let mut bench = Bench::new("linux", 5000, &[]);
    for (n, info) in [paced(1000, 50), paced(1000, 20)].into_iter().enumerate() {
        bench.up(n as u64);
        bench.set_info(n, info);
    }
    assert_eq!(bursts(&mut bench, 92), [(0, 46), (1, 46)]);
    let slower = PathInfo { in_flight: segments(46), ..paced(1000, 5) };
    bench.set_info(0, slower);
    assert_eq!(bursts(&mut bench, 92), [(0, 46), (1, 46)]);
}

/// A subflow that paces at `mbps`, with room for `cwnd` segments in its window.
fn paced(cwnd: u64, mbps: u64) -> PathInfo {
    PathInfo {
        cwnd: segments(cwnd),
        srtt: Duration::from_millis(40),
        pacing_rate: Bitrate::mbps(mbps),
        ..PathInfo::default()
    }
}

/// Who takes how many segments in a row, at most `most` in all, until nobody takes any.
fn bursts(bench: &mut Bench, most: usize) -> Vec<(usize, u64)> {
    let mut runs: Vec<(usize, u64)> = Vec::new();
    let memory = |subflow: &Subflow| 2 * subflow.info().cwnd.as_u64();
    for index in bench.settle_by(most, |subflow| memory(subflow) - subflow.queued()) {
        match runs.last_mut().filter(|(last, _)| *last == index) {
            Some((_, count)) => *count += 1,
            None => runs.push((index, 1)),
        }
    }
    runs
}

#[test]
fn linux_waits_for_its_pick_even_if_another_has_room() {
    // The first path's memory is full, yet it is the one that empties first.
    let info = |queued, mbps| PathInfo {
        cwnd: segments(10),
        in_flight: segments(queued),
        srtt: Duration::from_millis(40),
        pacing_rate: Bitrate::mbps(mbps),
        ..PathInfo::default()
    };
    let mut bench = Bench::new("linux", 100, &[SLOW, SLOW]);
    bench.set_info(0, info(20, 100));
    bench.set_info(1, info(5, 1));
    assert_eq!(bench.ask(1), None);
    bench.set_info(0, info(19, 100));
    bench.rooms = vec![SEGMENT; 2];
    assert_eq!(bench.pick().map(|given| given.subflow), Some(0));
    // Stalled subflows are not waited for.
    let mut bench = Bench::new("linux", 100, &[SLOW, SLOW]);
    bench.stall_after_ask(0);
    assert!(bench.ask(1).expect("what the first holds").is_again());
    assert!(!bench.ask(1).expect("new data").is_again());
}

#[test]
fn musher_cuts_rounds_and_waits_for_both_parts() {
    let mut bench = Bench::new("musher", 5000, &[Metrics::new(1000, 0, 20), SLOW]);
    let taken = bench.settle(100);
    // The first has its half of the round and waits, after 20 of the second's window of 20.
    assert_eq!(taken[..50], [0; 50]);
    assert_eq!(taken[50..], [1; 20]);
    bench.set_metrics(1, Metrics::new(30, 0, 100));
    let taken = bench.settle(500);
    // The rest of the second's part, then the first's of the next round; the second has no window
    // for its own.
    assert_eq!(taken.iter().filter(|&&index| index == 1).count(), 30);
    assert_eq!(taken.iter().filter(|&&index| index == 0).count(), 50);
    // The second stalls: the first carries everything.
    bench.stall(1);
    assert_eq!(bench.settle(80), [0; 80]);
}

#[test]
fn musher_wants_two_paths() {
    let musher = crate::scheduler::Entry::find("musher").unwrap();
    assert_eq!(musher.check_paths(2), Ok(()));
    let error = musher.check_paths(3).unwrap_err().to_string();
    assert!(error.contains("needs exactly 2 paths and there are 3"), "{error}");
    for entry in crate::scheduler::REGISTRY.iter().filter(|entry| entry.name != "musher") {
        assert_eq!(entry.check_paths(3), Ok(()), "{}", entry.name);
    }
}

#[test]
fn redundant_copies_what_has_not_arrived() {
    let mut bench = Bench::new("redundant", 4, &[SLOW, SLOW]);
    let take = |bench: &mut Bench, index| {
        bench.ask(index).map(|next| (next.range.start / SEGMENT, next.is_again()))
    };
    assert_eq!(take(&mut bench, 0), Some((0, false)));
    assert_eq!(take(&mut bench, 0), Some((1, false)));
    assert_eq!(take(&mut bench, 1), Some((0, true)));
    assert_eq!(take(&mut bench, 0), Some((2, false)));
    // Segment 1 arrives before the second path copies it.
    bench.ack(SEGMENT..2 * SEGMENT);
    assert_eq!(take(&mut bench, 1), Some((2, true)));
    assert_eq!(take(&mut bench, 1), Some((3, false)));
    assert_eq!(take(&mut bench, 1), None);
    assert_eq!(take(&mut bench, 0), Some((3, true)));
    assert_eq!(take(&mut bench, 0), None);
}

/// Segment 0 on the slow path, segments 1 to 3 on the fast one and arrived, the credit spent.
fn blocked(scheduler: &str, slow: Metrics, fast: Metrics) -> Bench {
    let mut bench = Bench::new(scheduler, 10, &[slow, fast]);
    bench.credit = 4 * SEGMENT;
    for (index, range) in [(0, 0..SEGMENT), (1, SEGMENT..4 * SEGMENT)] {
        bench.unassigned.remove(range.clone());
        let now = bench.now;
        bench.subflows[index].assign(range, crate::scheduler::Kind::New, now);
    }
    bench.ack(SEGMENT..4 * SEGMENT);
    bench.set_metrics(0, slow);
    bench.set_metrics(1, fast);
    bench
}

#[test]
fn a_full_window_is_reopened_over_the_fast_path() {
    let (slow, fast) = (Metrics::new(20, 20, 100), Metrics::new(20, 0, 20));
    for name in ["min-rtt", "lpc", "let", "gr-sty", "tp-sty", "tr-sty-soft", "ecf", "round-robin"] {
        let mut bench = blocked(name, slow, fast);
        let again = bench.ask(1).unwrap_or_else(|| panic!("{name} sends nothing"));
        assert!(again.is_again() && again.range == (0..SEGMENT), "{name}: {again:?}");
        assert_eq!(bench.penalties.try_recv().ok(), Some(SubflowId(0)), "{name}");
        // Once is enough, and a penalty a round trip.
        assert_eq!(bench.ask(1), None, "{name}");
        assert_eq!(bench.penalties.try_recv().ok(), None, "{name}");
        bench.now += Duration::from_millis(20);
        assert_eq!(bench.ask(1), None, "{name}");
        assert_eq!(bench.penalties.try_recv().ok(), Some(SubflowId(0)), "{name}");
    }
    for name in ["linux", "musher", "single"] {
        let mut bench = blocked(name, slow, fast);
        assert_eq!(bench.ask(1), None, "{name}");
        assert_eq!(bench.penalties.try_recv().ok(), None, "{name}");
    }
}

#[test]
fn only_a_far_or_tiny_holder_is_doubled() {
    // Four times 30 ms is more than 100 ms; the slower one is penalised all the same.
    let mut bench = blocked("min-rtt", Metrics::new(20, 20, 100), Metrics::new(20, 0, 30));
    assert_eq!(bench.ask(1), None);
    assert_eq!(bench.penalties.try_recv().ok(), Some(SubflowId(0)));
    // A window of 4 is small at any distance.
    let mut bench = blocked("min-rtt", Metrics::new(4, 4, 100), Metrics::new(20, 0, 30));
    assert!(bench.ask(1).is_some());
    // One that is not slower, or in recovery, is not penalised.
    let mut bench = blocked("min-rtt", Metrics::new(4, 4, 30), Metrics::new(20, 0, 30));
    assert!(bench.ask(1).is_some());
    assert_eq!(bench.penalties.try_recv().ok(), None);
    let mut bench = blocked("min-rtt", Metrics::new(4, 4, 100), Metrics::new(20, 0, 30));
    let timed_out = PathInfo { timed_out: true, ..*bench.subflows[0].info() };
    bench.set_info(0, timed_out);
    assert!(bench.ask(1).is_some());
    assert_eq!(bench.penalties.try_recv().ok(), None);
}

#[test]
fn a_full_send_memory_counts_and_one_that_has_room_again_is_not_punished() {
    let (slow, fast) = (Metrics::new(20, 20, 100), Metrics::new(20, 0, 20));
    for (left, penalty) in [(Some(0), Some(SubflowId(0))), (Some(5000), None)] {
        let mut bench = blocked("min-rtt", slow, fast);
        bench.credit = u64::MAX;
        bench.unassigned.remove(0..u64::MAX);
        assert_eq!(bench.ask(1), None, "nothing to send is no full window");
        bench.memory_left = left;
        assert!(bench.ask(1).is_some());
        assert_eq!(bench.penalties.try_recv().ok(), penalty);
    }
}
