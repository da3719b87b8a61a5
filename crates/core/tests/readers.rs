//! How much a session holds for an application that reads slowly, stops or comes and goes, and that
//! one that reads at once gets the window it needs.

mod harness;

use std::time::Duration;

use harness::{PathSpec, START, Step, World};
use weftline_core::{Bitrate, Instant, SessionConfig};

/// What a session may hold, whatever its reader does, where no path is much slower than another:
/// the daemons' bound is 30 MB above an idle one, for both directions and everything else.
const BOUND: u64 = 24_000_000;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn path(mbps: u64, delay_ms: u64) -> PathSpec {
    PathSpec::constant(Bitrate::mbps(mbps), ms(delay_ms))
}

/// The most that the client holds of received bytes while the server sends `total` and the script
/// says what is read, until it ends or `until`.
fn most_held(
    paths: Vec<PathSpec>,
    total: u64,
    until: Instant,
    script: Vec<(Instant, Step)>,
) -> u64 {
    let mut world = World::new(&SessionConfig::default(), paths, [0, total], 1);
    world.script(script);
    let mut most = 0;
    let mut at = Instant::ZERO;
    while at < until {
        at += ms(5);
        if world.run(at) {
            break;
        }
        most = most.max(world.session(0).stats().receive_memory.as_u64());
    }
    most
}

/// Reads `bytes_per_10ms` every 10 ms from `from_ms` to `to_ms`.
fn slowly(bytes_per_10ms: u64, from_ms: u64, to_ms: u64) -> Vec<(Instant, Step)> {
    let times = (from_ms..to_ms).step_by(10).map(Instant::from_millis);
    times.map(|at| (at, Step::Reads(0, bytes_per_10ms))).collect()
}

#[test]
fn a_slow_reader_gets_no_more_than_it_reads() {
    for (rate, delay) in [(95, 10), (500, 2), (1000, 20)] {
        // 10 MB/s, from the beginning and after a second in which everything was read at once.
        for from in [0, 1100] {
            let until = Instant::from_millis(from + 2500);
            let script = slowly(100_000, from, from + 2500);
            let most = most_held(vec![path(rate, delay); 2], 1 << 40, until, script);
            assert!(most <= BOUND, "{most} bytes held at {rate} Mb/s, {delay} ms, slow at {from}");
            if from == 0 {
                assert!(most <= 6 << 20, "{most} bytes held at {rate} Mb/s, {delay} ms");
            }
        }
    }
}

#[test]
fn a_reader_that_stops_or_comes_and_goes_fills_no_memory() {
    let free = |at| (Instant::from_millis(at), Step::Reads(0, u64::MAX));
    let stop = |at| (Instant::from_millis(at), Step::Reads(0, 0));
    for (rate, delay) in [(95, 10), (500, 2), (1000, 20)] {
        for script in [
            vec![stop(0)],
            vec![stop(1000)],
            vec![stop(600), free(900), stop(1200), free(1500), stop(1800), free(2100)],
        ] {
            let what = format!("{rate} Mb/s, {delay} ms, {script:?}");
            let until = Instant::from_millis(3000);
            let most = most_held(vec![path(rate, delay); 2], 1 << 40, until, script);
            assert!(most <= BOUND, "{most} bytes held: {what}");
        }
    }
}

/// The window follows the rate and the delay as quickly as before: a reader that takes everything at
/// once is not held up.
#[test]
fn a_reader_that_reads_at_once_gets_the_whole_path() {
    let total = 300_000_000;
    let mut world = World::new(&SessionConfig::default(), vec![path(1000, 50)], [0, total], 1);
    assert!(world.run(Instant::from_millis(20_000)), "stalls at {}", world.now);
    let took = world.last_read_at(0).since(START);
    assert!(took < ms(2400 + 600), "300 MB over 1 Gb/s take {took:?}");
}

/// What a fast path is ahead of a slow one is held out of order, and that is what memory is for.
#[test]
fn a_fast_path_beside_one_of_long_delay_gets_the_memory_for_it() {
    let paths = vec![path(500, 5), path(100, 500)];
    let mut world = World::new(&SessionConfig::default(), paths, [0, 600_000_000], 1);
    assert!(world.run(Instant::from_millis(40_000)), "stalls at {}", world.now);
    let took = world.last_read_at(0).since(START);
    assert!(took < ms(10_500), "600 MB over 600 Mb/s take {took:?}");
}
