//! FBDT's split and sum (FBDT §3.2, Eq. 1 and 2): the forward path carries the share of its rate,
//! and both together nearly the sum of what they carry alone.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeMap;
use std::time::Duration;

use weftline_core::Bitrate;
use weftline_scenario::{Congestion, RateSpec, RunRecord, Scenario, Scheme};
use weftline_sim::{Job, run_all};

/// Rates of the second path in kb/s, the first has 100 Mb/s; one-way delays in ms, the first 10.
const RATES: [u64; 4] = [100_000, 50_000, 25_000, 12_500];
const DELAYS: [u64; 3] = [10, 40, 80];

fn case(rate_kbps: u64, delay_ms: u64) -> Vec<Job> {
    let mut scenario = Scenario::find("fbdt-eq1").unwrap();
    scenario.duration = Duration::from_secs(14);
    scenario.warmup = Duration::from_secs(4);
    scenario.paths[1].rate = RateSpec::Constant(Bitrate::kbps(rate_kbps));
    scenario.paths[1].delay = Duration::from_millis(delay_ms);
    scenario.paths[1].up.delay = Duration::from_millis(delay_ms);
    let schemes = ["single:fwd", "single:bwd", "fbdt"];
    let job = |name: &str| Job {
        scenario: scenario.clone(),
        scheme: name.parse::<Scheme>().unwrap(),
        congestion: Congestion::CUBIC,
        seed: 1,
        case: BTreeMap::new(),
        series: false,
    };
    schemes.map(job).to_vec()
}

#[test]
fn the_split_follows_the_rates_and_the_sum_is_reached() {
    let cases: Vec<_> = RATES.iter().flat_map(|&rate| DELAYS.map(|delay| (rate, delay))).collect();
    let jobs: Vec<Job> = cases.iter().flat_map(|&(rate, delay)| case(rate, delay)).collect();
    let mut records: Vec<RunRecord> = Vec::new();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    run_all(jobs.into_iter(), threads, |outcome| {
        records.push(outcome.record);
        true
    });
    println!("rate ratio, RTT ratio: forward share by Eq. 1, measured; γ of Eq. 2");
    for ((rate, delay), runs) in cases.iter().zip(records.chunks(3)) {
        let goodput = |run: &RunRecord| run.goodput_mbps.unwrap();
        let (fwd, bwd, fbdt) = (goodput(&runs[0]), goodput(&runs[1]), goodput(&runs[2]));
        let carried: Vec<f64> =
            runs[2].paths.iter().map(|path| path.bytes_sent.unwrap() as f64).collect();
        let predicted = fwd / (fwd + bwd);
        let measured = carried[0] / (carried[0] + carried[1]);
        let gamma = fbdt / (fwd + bwd);
        let (rate, delay) = (*rate as f64 / 1e5, *delay as f64 / 10.0);
        println!("{rate:.3}, {delay}: {predicted:.3}, {measured:.3}; {gamma:.3}");
        assert!((measured - predicted).abs() < 0.04, "{predicted} {measured}");
        assert!((0.96..1.05).contains(&gamma), "{gamma}");
    }
}
