//! The generators against the statistics that the FBDT paper's WiGig link had.

use std::path::PathBuf;
use std::time::Duration;

use weftline_core::Bitrate;
use weftline_link::RateTrace;

use crate::Scenario;

const SECONDS: u32 = 300;
const SEEDS: std::ops::Range<u64> = 1..9;

/// The WiGig link of a built-in scenario.
fn wigig(scenario: &str, seed: u64, duration: Duration) -> RateTrace {
    Scenario::find(scenario).unwrap().path("wigig").unwrap().down_trace(seed, duration)
}

/// Mean rate of each second, in Mb/s, ascending.
fn per_second(trace: &RateTrace) -> Vec<f64> {
    let second = |k| Duration::from_secs(k);
    let mbps = |k| trace.bytes_between(second(k), second(k + 1)).as_u64() as f64 * 8e-6;
    let mut rates: Vec<f64> = (0..u64::from(SECONDS)).map(mbps).collect();
    rates.sort_by(f64::total_cmp);
    rates
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[((sorted.len() - 1) as f64 * share).round() as usize]
}

/// The published mean, median, least and largest per-second rate of each case (Mb/s).
const PUBLISHED: [(&str, [f64; 4]); 3] = [
    ("fbdt-6c-los", [1394.0, 1544.0, 33.0, 1689.0]),
    ("fbdt-6c-nlos", [752.0, 725.0, 0.0, 1588.0]),
    ("fbdt-6c-mobility", [1056.0, 1119.0, 120.0, 1605.0]),
];

#[test]
fn blockage_has_the_published_statistics() {
    for (scenario, [published_mean, median, least, most]) in PUBLISHED {
        let mut means = Vec::new();
        for seed in SEEDS {
            let trace = wigig(scenario, seed, Duration::from_secs(u64::from(SECONDS)));
            let rates = per_second(&trace);
            let case = format!("{scenario}, seed {seed}");
            let near = |value: f64, wanted: f64, share: f64| (value / wanted - 1.0).abs() <= share;
            let (low, high) = (rates[0], rates[rates.len() - 1]);
            assert!(near(mean(&rates), published_mean, 0.1), "{case}: mean {}", mean(&rates));
            let middle = quantile(&rates, 0.5);
            assert!(near(middle, median, 0.15), "{case}: median {middle}");
            assert!((low - least).abs() <= 60.0, "{case}: least {low}");
            assert!(near(high, most, 0.1), "{case}: most {high}");
            means.push(mean(&rates));
        }
        let all = mean(&means);
        assert!((all / published_mean - 1.0).abs() < 0.03, "{scenario}: {all}");
    }
}

/// Run with `WEFTLINE_DATA` naming a folder that has `fbdt-logs/` in it, the logs behind Fig. 6c.
#[test]
fn blockage_has_the_shape_of_the_logs() {
    let Some(data) = std::env::var_os("WEFTLINE_DATA").map(PathBuf::from) else {
        println!("skipped; run with WEFTLINE_DATA=<folder with fbdt-logs/>");
        return;
    };
    for (scenario, log) in [
        ("fbdt-6c-los", "iperf_LoS_WIGI.csv"),
        ("fbdt-6c-nlos", "iperf_nLoS_WIGI.csv"),
        ("fbdt-6c-mobility", "iperf_moving_WIGI.csv"),
    ] {
        let text = std::fs::read_to_string(data.join("fbdt-logs").join(log)).unwrap();
        // One-second rows; the last rows are a rest and the total.
        let bps = |line: &str| line.rsplit(',').next().unwrap().trim().parse::<f64>().unwrap();
        let mut logged: Vec<f64> = text.lines().skip(1).map(|line| bps(line) / 1e6).collect();
        logged.truncate(logged.len() - 2);
        logged.sort_by(f64::total_cmp);
        let mut made: Vec<f64> = SEEDS
            .flat_map(|seed| {
                per_second(&wigig(scenario, seed, Duration::from_secs(u64::from(SECONDS))))
            })
            .collect();
        made.sort_by(f64::total_cmp);
        // The area between the two distribution functions: the mean distance of equal quantiles.
        let shares = (0..=100).map(|percent| f64::from(percent) / 100.0);
        let distances: Vec<f64> =
            shares.map(|share| (quantile(&logged, share) - quantile(&made, share)).abs()).collect();
        println!("{scenario}: mean distance of quantiles {:.0} Mb/s", mean(&distances));
        assert!(mean(&distances) < 80.0, "{scenario}: {distances:?}");
    }
}

#[test]
fn transitions_take_100_to_500_ms() {
    // Two levels without spread and no reflected path: each step between them is part of a ramp.
    let text = "name = 'x'\nduration = '300s'\n[[path]]\nname = 'wigig'\ntrace = { \
        generator = 'blockage', los = '1000Mbps', nlos = '500Mbps', blocked = '0bps', \
        los_spread = 0, los_dwell = '3s', nlos_dwell = '0s', blocked_dwell = '2s' }";
    let scenario =
        Scenario::parse("x.toml", text, &|_| Err(std::io::ErrorKind::NotFound.into())).unwrap();
    let trace = scenario.paths[0].down_trace(1, scenario.duration);
    let ends = [Bitrate::mbps(1000), Bitrate::ZERO];
    let (mut ramps, mut length) = (Vec::new(), 0);
    for step in 0..30_000 {
        let rate = trace.rate_at(Duration::from_millis(10) * step);
        if !ends.contains(&rate) {
            length += 10;
        } else if length > 0 {
            // The last step of a ramp is at the new level.
            ramps.push(length + 10);
            length = 0;
        }
    }
    assert!(ramps.len() > 50, "{}", ramps.len());
    assert!(ramps.iter().all(|ramp| (100..=500).contains(ramp)), "{ramps:?}");
    assert!(ramps.iter().any(|ramp| *ramp < 200) && ramps.iter().any(|ramp| *ramp > 400));
}

#[test]
fn outages_have_their_lengths() {
    let second = |k: f64| Duration::from_secs_f64(k);
    let trace = wigig("fbdt-blackout", 1, second(300.0));
    let steps: Vec<_> = trace.steps().collect();
    let mut dark = 0.0;
    for pair in steps.windows(2) {
        let [(start, rate), (end, next)] = pair else { panic!("pairs") };
        assert_ne!(*rate == Bitrate::ZERO, *next == Bitrate::ZERO, "on and off in turn");
        let length = (*end - *start).as_secs_f64();
        if *rate == Bitrate::ZERO {
            assert!((0.3..=1.5).contains(&length), "{length}");
            dark += length;
        } else {
            assert_eq!(*rate, Bitrate::mbps(1600));
            assert!((2.0..=5.0).contains(&length), "{length}");
        }
    }
    // 0.9 s of every 4.4 s on average.
    assert!((40.0..85.0).contains(&dark), "{dark}");
}

#[test]
fn a_longer_trace_begins_with_the_shorter() {
    let [short, long] = [30, 90].map(Duration::from_secs);
    for scenario in ["fbdt-6c-mobility", "fbdt-blackout", "demo"] {
        let rates = |duration| {
            let trace = wigig(scenario, 5, duration);
            (0..3000).map(move |k| trace.rate_at(Duration::from_millis(10) * k))
        };
        assert!(rates(short).eq(rates(long)), "{scenario}");
        assert!(!wigig(scenario, 5, short).eq(&wigig(scenario, 6, short)), "{scenario}");
    }
}

#[test]
fn traces_are_the_same_on_every_machine() {
    let mut table = String::new();
    for scenario in ["fbdt-6c-los", "fbdt-6c-nlos", "fbdt-6c-mobility", "fbdt-blackout", "demo"] {
        let trace = wigig(scenario, 1, Duration::from_secs(20));
        // FNV-1a over every step.
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for (start, rate) in trace.steps() {
            for word in [start.as_nanos() as u64, rate.as_bps()] {
                hash = (hash ^ word).wrapping_mul(0x0100_0000_01b3);
            }
        }
        table += &format!("{scenario}: {} steps, {hash:016x}\n ", trace.steps().len());
        for second in 0..20_u32 {
            let rate = trace.rate_at(Duration::from_millis(1005) * second).as_bps();
            table += &format!(" {}", rate / 1000);
        }
        table.push('\n');
    }
    insta::assert_snapshot!(table);
}
