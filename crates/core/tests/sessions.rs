//! Sessions over modelled paths: every byte once and in order under any behaviour of the paths,
//! and FBDT's split and finish time against the optimum.

mod harness;

use std::time::Duration;

use harness::{PathSpec, START, Step, World};
use proptest::prelude::*;
use weftline_core::path::PathId;
use weftline_core::scheduler::{Entry, REGISTRY, SchedulerConfig};
use weftline_core::{Bitrate, ByteCount, Instant, SessionConfig};

fn config(scheduler: &str) -> SessionConfig {
    SessionConfig {
        scheduler: Entry::find(scheduler).expect("registered"),
        ..SessionConfig::default()
    }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn wifi_and_wigig() -> Vec<PathSpec> {
    vec![
        PathSpec::constant(Bitrate::mbps(630), ms(2)),
        PathSpec::constant(Bitrate::mbps(1800), ms(2)),
    ]
}

/// The time at which `paths` together can have delivered `bytes`: the sum of the rates, and the
/// delay of the path that delivers the last of them.
fn optimum(paths: &[PathSpec], bytes: u64) -> Duration {
    let total: Bitrate = paths.iter().map(|p| p.rate.mean()).sum();
    let slowest = paths.iter().map(|p| p.delay).max().expect("there are paths");
    total.time_for(ByteCount::new(bytes)).expect("the rate is not zero") + slowest
}

#[test]
fn every_scheduler_carries_both_directions() {
    for entry in REGISTRY {
        let mut world = World::new(&config(entry.name), wifi_and_wigig(), [1 << 20, 4 << 20], 1);
        assert!(world.run(Instant::from_millis(20_000)), "{} stalls at {}", entry.name, world.now);
        assert_eq!((world.read(0), world.read(1)), (4 << 20, 1 << 20), "{}", entry.name);
    }
}

#[test]
fn every_scheduler_survives_a_path_that_dies() {
    let paths = || {
        vec![
            PathSpec::constant(Bitrate::mbps(30), ms(10)).lossy(0.01),
            PathSpec::constant(Bitrate::mbps(20), ms(30)),
        ]
    };
    let at = Instant::from_millis;
    for entry in REGISTRY {
        for path in 0..2 {
            // Nothing gets through any more for a second; then it is closed, and replaced later.
            let script = vec![
                (at(200), Step::Cut(path, 0)),
                (at(200), Step::Cut(path, 1)),
                (at(1200), Step::Kill(path)),
                (at(1500), Step::Revive(path)),
            ];
            for exact in [false, true] {
                let what = format!("{} without path {path}, exact {exact}", entry.name);
                let mut world = World::new(&config(entry.name), paths(), [100_000, 2 << 20], 1);
                world.exact = exact;
                world.script(script.clone());
                let done = world.run(at(20_000));
                assert!(done, "{what}, stalls at {}", world.now);
                assert_eq!((world.read(0), world.read(1)), (2 << 20, 100_000), "{what}");
                // The path left carries 2 MiB within a second.
                let took = world.last_read_at(0).since(START);
                assert!(took < ms(2500), "{what}, takes {took:?}");
            }
        }
    }
}

#[test]
fn fbdt_carries_the_sum() {
    let bytes = 200 << 20;
    let paths = wifi_and_wigig();
    let best = optimum(&paths, bytes);
    let mut world = World::new(&config("fbdt"), paths, [0, bytes], 1);
    assert!(world.run(Instant::from_millis(10_000)));
    let stats = world.session(0).stats();
    let took = world.last_read_at(0).since(START);
    let ratio = best.as_secs_f64() / took.as_secs_f64();
    assert!(ratio > 0.98, "{ratio}");
    assert!(stats.duplicates * 100 < bytes, "{} duplicates", stats.duplicates);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever the paths do, every byte arrives once and in order (the harness checks both).
    #[test]
    fn any_path_behaviour(seed in any::<u64>(),
                          scheduler in prop::sample::select(REGISTRY.iter().map(|entry| entry.name).collect::<Vec<_>>()),
                          exact in any::<bool>(),
                          rates in prop::collection::vec(5u64..400, 1..4),
                          delays in prop::collection::vec(0u64..60, 3),
                          losses in prop::collection::vec(0.0f64..0.05, 3),
                          totals in (0u64..3_000_000, 0u64..6_000_000),
                          steps in prop::collection::vec((0u64..3000, 0usize..3, 0u8..4, 0usize..2), 0..20)) {
        let paths: Vec<_> = rates.iter().enumerate()
            .map(|(i, &rate)| PathSpec::constant(Bitrate::mbps(rate), ms(delays[i])).lossy(losses[i]))
            .collect();
        let n = paths.len();
        let mut world = World::new(&config(scheduler), paths, [totals.0, totals.1], seed);
        world.exact = exact;
        let mut script: Vec<_> = steps.into_iter().map(|(at, path, kind, node)| {
            let path = path % n;
            let step = match kind {
                0 => Step::Kill(path),
                1 => Step::Revive(path),
                2 => Step::Cut(path, node),
                _ => Step::Mend(path, node),
            };
            (Instant::from_millis(at), step)
        }).collect();
        // In the end every path is whole again: killed and replaced.
        for path in 0..n {
            script.push((Instant::from_millis(4000), Step::Kill(path)));
            script.push((Instant::from_millis(4010 + path as u64), Step::Revive(path)));
        }
        world.script(script);
        let done = world.run(Instant::from_millis(120_000));
        prop_assert!(done, "stalled: read {} of {} and {} of {}",
                     world.read(1), totals.0, world.read(0), totals.1);
        prop_assert_eq!((world.read(0), world.read(1)), (totals.1, totals.0));
    }
}

/// How many round trips the transfers that are held against the optimum take at least.
const ROUND_TRIPS: u64 = 16;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// On constant rates FBDT ends within one chunk per path plus one round-trip time of the slower
    /// path of the optimum, and splits the stream as Eq. (1) says.
    #[test]
    fn fbdt_is_optimal_on_constant_rates(a in 20u64..1500, b in 20u64..1500,
                                         da in 1u64..30, db in 1u64..30) {
        let paths = vec![
            PathSpec::constant(Bitrate::mbps(a), ms(da)),
            PathSpec::constant(Bitrate::mbps(b), ms(db)),
        ];
        let rtt = 2 * ms(da.max(db));
        let chunk_time = 2 * ms(1) + paths.iter().map(|p| Bitrate::time_for(p.rate.mean(), ByteCount::kib(4)).unwrap()).sum::<Duration>();
        // So many times the slack that the bounds tell the optimum from any other split: the faster
        // path alone takes longer by the share of it that the slower one carries.
        let slacks = ROUND_TRIPS.max(2 * a.max(b).div_ceil(a.min(b)));
        let both = Bitrate::mbps(a + b);
        let bytes = (slacks * both.bytes_in(rtt + chunk_time).as_u64()).max(4 << 20);
        let best = optimum(&paths, bytes);
        let most = best + rtt + chunk_time;
        for alone in paths.chunks(1) {
            prop_assert!(optimum(alone, bytes) > most, "one path alone would pass");
        }
        let config = SessionConfig { first_window: ByteCount::mib(64), ..config("fbdt") };
        let mut world = World::new(&config, paths, [0, bytes], 3);
        prop_assert!(world.run(Instant::from_millis(60_000)));
        let took = world.last_read_at(0).since(START);
        prop_assert!(took <= most, "took {took:?}, optimum {best:?}");
        let stats = world.session(1).stats();
        let sent = |path| stats.paths[&PathId(path)].sent as f64;
        let (share, eq1) = (sent(0) / (sent(0) + sent(1)), a as f64 / (a + b) as f64);
        // A finite transfer ends with a round-trip time in which the nearer path does more.
        let edge = both.bytes_in(rtt).as_u64() as f64 / bytes as f64;
        prop_assert!((share - eq1).abs() < 0.01 + edge, "forward share {share}, Eq. (1) {eq1}");
        // Two budgets of 2 %, one of them for the end alone, and what the other begins with.
        let reinjected = stats.paths.values().map(|p| p.reinjected).sum::<u64>();
        prop_assert!(reinjected <= bytes / 25 + (64 << 10), "{reinjected} reinjected");
    }
}

#[test]
fn a_cut_return_direction_costs_no_duplicates() {
    // FBDT §3.2: data of a path whose acknowledgements are cut are confirmed through the other.
    let bytes = 150 << 20;
    let mut world = World::new(&config("fbdt"), wifi_and_wigig(), [0, bytes], 1);
    // The client's acknowledgements on the second path stop for good after 100 ms.
    world.script(vec![(Instant::from_millis(200), Step::Cut(1, 0))]);
    world.run(Instant::from_millis(10_000));
    assert_eq!(world.read(0), bytes);
    let stats = world.session(0).stats();
    assert!(stats.duplicates * 100 <= bytes, "{} duplicates", stats.duplicates);
    assert_eq!(world.stall_events, 0);
    let took = world.last_read_at(0).since(START).as_secs_f64();
    assert!(took < 1.05 * optimum(&wifi_and_wigig(), bytes).as_secs_f64(), "{took}");
}

#[test]
fn what_a_dead_path_holds_is_reinjected_quickly() {
    let bytes = 150 << 20;
    let mut world = World::new(&config("fbdt"), wifi_and_wigig(), [0, bytes], 1);
    world.script(vec![
        (Instant::from_millis(200), Step::Cut(1, 1)),
        (Instant::from_millis(200), Step::Cut(1, 0)),
    ]);
    world.run(Instant::from_millis(10_000));
    assert_eq!(world.read(0), bytes);
    assert!(world.stall_events >= 1);
    let took = world.last_read_at(0).since(START);
    let alone = Bitrate::mbps(630).time_for(ByteCount::new(bytes)).unwrap();
    assert!(took < alone, "{took:?}");
}

#[test]
fn the_forward_direction_can_be_pinned() {
    let pinned = |path| {
        let scheduler_config =
            SchedulerConfig { forward_pin: Some(PathId(path)), ..SchedulerConfig::default() };
        let config = SessionConfig { scheduler_config, ..config("fbdt") };
        let mut world = World::new(&config, wifi_and_wigig(), [0, 4 << 20], 1);
        assert!(world.run(Instant::from_millis(10_000)));
        world.session(1).stats().forward
    };
    assert_eq!(pinned(0), Some(PathId(0)));
    assert_eq!(pinned(1), Some(PathId(1)));
}

#[test]
fn a_stream_slower_than_the_paths_is_not_held_back() {
    // 2 Mb/s comes in pieces of 250 bytes: each is smaller than a chunk and has no backward side.
    let bytes = 500_000;
    let mut world = World::new(&config("fbdt"), wifi_and_wigig(), [0, bytes], 1);
    world.pace = Some(Bitrate::mbps(2));
    assert!(world.run(Instant::from_millis(10_000)));
    let written = Bitrate::mbps(2).time_for(ByteCount::new(bytes)).unwrap();
    let took = world.last_read_at(0).since(START);
    assert!(took <= written + ms(2 + 2), "took {took:?}, written in {written:?}");
    let stats = world.session(1).stats();
    let sent = |path| stats.paths[&PathId(path)].sent - stats.paths[&PathId(path)].reinjected;
    assert_eq!((sent(0), sent(1)), (bytes, 0));
    // 1 Gb/s is more than the first path carries: windows are cut from what is there.
    let bytes = 50 << 20;
    let mut world = World::new(&config("fbdt"), wifi_and_wigig(), [0, bytes], 1);
    world.pace = Some(Bitrate::mbps(1000));
    assert!(world.run(Instant::from_millis(10_000)));
    let written = Bitrate::mbps(1000).time_for(ByteCount::new(bytes)).unwrap();
    let took = world.last_read_at(0).since(START);
    assert!(took <= written + ms(10), "took {took:?}, written in {written:?}");
}
