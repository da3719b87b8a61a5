//! The share of tiles that a live server expects to be on time, beside the share that was.
//!
//! `cargo run --release -p weftline-sim --example live_calibration -- [SEEDS [SCHEDULER [CONTROL
//! [WORD,…]]]]` prints a row for each range of expected shares, over all cases of the example `live`
//! whose names have all the words: how many GoPs after the first two had one, the mean of what was
//! expected of their tiles, and what came.
#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../tests/common/live.rs"]
mod live;

use live::{Case, START, cases};

/// Where a range of expected shares ends.
const ENDS: [f64; 7] = [0.5, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    gops: usize,
    sent: usize,
    expected: f64,
    arrived: usize,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seeds: u64 = args.next().map_or(1, |seeds| seeds.parse().expect("a number of seeds"));
    let scheduler = args.next().unwrap_or_else(|| "fbdt".to_owned());
    let congestion = args.next().unwrap_or_else(|| "cubic".to_owned());
    let words = args.next().unwrap_or_else(|| "steady".to_owned());
    let mut rows = [Row::default(); ENDS.len()];
    for (_, case) in cases().iter().filter(|(name, _)| words.split(',').all(|w| name.contains(w))) {
        for seed in 1..=seeds {
            let (scheduler, congestion) = (scheduler.clone(), congestion.clone());
            let outcome = Case { seed, scheduler, congestion, ..case.clone() }.run();
            let gops = outcome.planned.iter().zip(&outcome.gops).skip(START);
            for (planned, shown) in gops.filter(|(planned, _)| planned.sent > 0) {
                let share = planned.on_time / planned.sent as f64;
                // Rounding may leave a little more than one.
                let row = ENDS.iter().position(|end| share <= *end).unwrap_or(ENDS.len() - 1);
                let row = &mut rows[row];
                row.gops += 1;
                row.sent += planned.sent;
                row.expected += planned.on_time;
                row.arrived += shown.arrived;
            }
        }
    }
    println!("expected share |  GoPs | mean expected | on time");
    let mut from = 0.0;
    for (row, end) in rows.iter().zip(ENDS) {
        let share = |part: f64| part / row.sent.max(1) as f64;
        let (expected, arrived) = (share(row.expected), share(row.arrived as f64));
        println!("{from:4.2} to {end:4.2}   | {:5} | {expected:13.3} | {arrived:7.3}", row.gops);
        from = end;
    }
}
