//! Late tiles of live streams over thin links, by scheduler.
//!
//! `cargo run --release -p weftline-sim --example live -- [SEEDS [SCHEDULER,… [CONTROL,… [WORD,…]]]]`
//! prints for each case whose name has all the words, and for each scheduler, the tiles that were
//! late after the first two GoPs, the GoPs with any, and the mean over the GoPs of the viewport's
//! PSNR.
#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../tests/common/live.rs"]
mod live;

use std::collections::BTreeMap;

use live::{Case, START, cases, late};

/// What became of some streams.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    late: usize,
    tiles: usize,
    gops: usize,
    hit: usize,
    db: f64,
}

impl Sum {
    fn add(&mut self, other: Self) {
        self.late += other.late;
        self.tiles += other.tiles;
        self.gops += other.gops;
        self.hit += other.hit;
        self.db += other.db;
    }

    fn text(&self) -> String {
        let Self { late, tiles, gops, hit, db } = *self;
        format!("{late:4} of {tiles} in {hit:3} GoPs {:5.2} dB", db / gops as f64)
    }
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seeds: u64 = args.next().map_or(1, |seeds| seeds.parse().expect("a number of seeds"));
    let names = args.next().unwrap_or_else(|| "fbdt,earliest,min-rtt".to_owned());
    let controls = args.next().unwrap_or_else(|| "cubic".to_owned());
    let words = args.next().unwrap_or_default();
    let schedulers: Vec<&str> = names.split(',').collect();
    let is_asked = |name: &str| words.split(',').all(|word| name.contains(word));
    let mut sums: BTreeMap<String, Sum> = BTreeMap::new();
    for (name, case) in cases().into_iter().filter(|(name, _)| is_asked(name)) {
        for congestion in controls.split(',') {
            let mut line = format!("{:50}", format!("{name}, {congestion}"));
            for scheduler in &schedulers {
                let mut sum = Sum::default();
                for seed in 1..=seeds {
                    sum.add(run(&case, scheduler, congestion, seed));
                }
                line += &format!("  {scheduler} {}", sum.text());
                sums.entry((*scheduler).to_owned()).or_default().add(sum);
            }
            println!("{line}");
        }
    }
    for (scheduler, sum) in &sums {
        println!("all: {scheduler} {}", sum.text());
    }
}

fn run(case: &Case, scheduler: &str, congestion: &str, seed: u64) -> Sum {
    let (scheduler, congestion) = (scheduler.to_owned(), congestion.to_owned());
    let outcome = Case { seed, scheduler, congestion, ..case.clone() }.run();
    let (late, tiles) = late(&outcome);
    let shown = || outcome.gops.iter().skip(START);
    let hit = shown().filter(|gop| gop.late > 0).count();
    let db = shown().filter_map(|gop| gop.psnr_db()).sum();
    Sum { late, tiles, gops: shown().count(), hit, db }
}
