//! The default weights of the seconds just past, by the error of forecasts on generated radios.
//!
//! The tile optimiser forecasts a second of throughput from those before it
//! (`weftline_video::ows::Recency`). Here its forecasts for the paper's three channel conditions are
//! compared with what the generated radio did, second by second. The measure is the continuous
//! ranked probability score (Matheson, Winkler 1976): the mean absolute error, for distributions.
//!
//! `cargo test --release -p weftline-scenario --test throughput_forecast -- --ignored --nocapture`
//! prints the whole table (docs/ows.md).

use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};
use weftline_scenario::{BUILTIN, Scenario};
use weftline_video::ows::{History, Recency, Throughput};

const CHANNELS: [&str; 3] = ["fbdt-6c-los", "fbdt-6c-nlos", "fbdt-6c-mobility"];
/// Seconds before the first forecast: what a session knows after its start.
const WARM_UP: usize = 10;
const SECOND: Duration = Duration::from_secs(1);

/// The bytes of each path in each second, of a built-in scenario played for `seconds`.
fn seconds_of(name: &str, seed: u64, seconds: u64) -> Vec<Vec<ByteCount>> {
    let file = BUILTIN.iter().find(|file| file.name == name).expect("built in");
    let no_files = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
    let scenario = Scenario::parse(file.name, file.text, &no_files).expect("built in");
    let duration = Duration::from_secs(seconds);
    let links: Vec<_> = scenario.paths.iter().map(|path| path.down_link(seed, duration)).collect();
    let second = |index: u64| {
        let (from, to) = (Duration::from_secs(index), Duration::from_secs(index + 1));
        links.iter().map(|link| link.rate.bytes_between(from, to)).collect()
    };
    (0..seconds).map(second).collect()
}

/// The mean score over a trace, as a share of its mean rate.
fn score(seconds: &[Vec<ByteCount>], recency: &Recency) -> f64 {
    let mut history = History::new();
    let (mut sum, mut carried, mut count) = (0.0, 0.0, 0);
    for (index, second) in seconds.iter().enumerate() {
        if index >= WARM_UP {
            let ahead = Throughput::forecast(&history, SECOND, recency).expect("warmed up");
            let truth = total(second);
            sum += crps(&ahead, truth);
            (carried, count) = (carried + truth, count + 1);
        }
        let rates: Vec<_> = second.iter().map(|&b| Bitrate::from_transfer(b, SECOND)).collect();
        history.push(&rates).expect("as many paths as before");
    }
    assert!(count > 0);
    sum / carried
}

/// ∫ (F(x) − 1{x ≥ truth})² dx.
fn crps(ahead: &Throughput, truth: f64) -> f64 {
    let mut steps: Vec<(f64, f64)> =
        ahead.samples().iter().map(|(weight, bytes)| (total(bytes), *weight)).collect();
    steps.push((truth, 0.0));
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut below, mut sum) = (0.0, 0.0);
    for pair in steps.windows(2) {
        below += pair[0].1;
        let off = if pair[0].0 >= truth { 1.0 - below } else { below };
        sum += off * off * (pair[1].0 - pair[0].0);
    }
    sum
}

fn total(bytes: &[ByteCount]) -> f64 {
    bytes.iter().map(|bytes| bytes.as_u64() as f64).sum()
}

/// The mean over channels and seeds.
fn mean_score(traces: &[Vec<Vec<ByteCount>>], recency: &Recency) -> f64 {
    traces.iter().map(|trace| score(trace, recency)).sum::<f64>() / traces.len() as f64
}

fn recency(half_life_s: u64, likeness: f64) -> Recency {
    Recency { half_life: Duration::from_secs(half_life_s), likeness }
}

#[test]
fn the_default_forecasts_better_than_all_seconds_alike_or_the_last_ones_alone() {
    let traces: Vec<_> =
        CHANNELS.iter().flat_map(|name| [1, 2].map(|seed| seconds_of(name, seed, 200))).collect();
    let default = mean_score(&traces, &Recency::default());
    for (what, other) in [
        ("all seconds alike", recency(1 << 20, 0.0)),
        ("the last second alone", Recency { half_life: Duration::from_millis(50), likeness: 0.0 }),
    ] {
        let other = mean_score(&traces, &other);
        assert!(default < other, "{what}: {other:.4}; the default: {default:.4}");
    }
}

#[test]
#[ignore = "prints the table of docs/ows.md; takes a minute"]
fn table_of_scores() {
    let lives = [1, 2, 5, 10, 20, 30, 60, 1 << 20];
    let likenesses = [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0];
    let mut all = vec![vec![0.0; likenesses.len()]; lives.len()];
    for name in CHANNELS {
        let traces: Vec<_> = (0..8).map(|seed| seconds_of(name, seed, 400)).collect();
        println!("{name}: score in % of the mean rate; rows: half-life, columns: {likenesses:?}");
        for (row, &life) in lives.iter().enumerate() {
            let scores = likenesses.map(|k| 100.0 * mean_score(&traces, &recency(life, k)));
            all[row].iter_mut().zip(scores).for_each(|(all, score)| *all += score / 3.0);
            print_row(life, &scores);
        }
    }
    println!("all three:");
    lives.iter().zip(&all).for_each(|(&life, row)| print_row(life, row));
}

fn print_row(life: u64, scores: &[f64]) {
    let scores: Vec<String> = scores.iter().map(|score| format!("{score:6.2}")).collect();
    println!("{life:>8} s {}", scores.join(" "));
}
