//! Live streams over constant links, draw by draw: what a change to plans or schedulers is judged by.
//!
//! `cargo run --release -p weftline-sim --example live_draws -- SEEDS SCHEDULER,…` prints for each stream
//! its links, congestion control, scheduler and seed, the mean of the PSNR of its GoPs after the start, the
//! tiles late, and the mean bytes of a GoP that were expected and planned. The head keeps still, and the
//! content, the links and all that is drawn are the same for each scheduler: draws are to be paired.
#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../tests/common/live.rs"]
mod live;

use live::{Case, Queue, START};

const LINKS: [[u64; 2]; 3] = [[1_200, 800], [2_500, 2_000], [8_000, 4_000]];

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [seeds, schedulers] = &args[..] else { panic!("want SEEDS SCHEDULER,…") };
    let seeds: u64 = seeds.parse().expect("a number of seeds");
    for kbps in LINKS {
        for control in ["cubic", "bbr"] {
            for scheduler in schedulers.split(',') {
                for seed in 1..=seeds {
                    println!("{}", row(kbps, control, scheduler, seed));
                }
            }
        }
    }
}

fn row(kbps: [u64; 2], control: &str, scheduler: &str, seed: u64) -> String {
    let case = Case {
        kbps: kbps.to_vec(),
        queue: Queue::Bdps(2.0),
        scheduler: scheduler.to_owned(),
        congestion: control.to_owned(),
        gops: 28,
        still: true,
        bytes_at_32: 50 * kbps.iter().sum::<u64>(),
        seed,
        ..Case::default()
    };
    let outcome = case.run();
    let (mut db, mut late, mut expected, mut planned) = (0.0, 0, 0, 0);
    for (plan, shown) in outcome.planned.iter().zip(&outcome.gops).skip(START) {
        db += shown.psnr_db().expect("heads were reported");
        late += shown.late;
        expected += plan.expected.as_u64();
        planned += plan.bytes.as_u64();
    }
    let gops = outcome.gops.len() - START;
    let [expected, planned] = [expected, planned].map(|bytes| bytes / gops as u64);
    let [one, two] = kbps;
    let db = db / gops as f64;
    format!("{one}+{two} {control} {scheduler} {seed} {db:.4} {late} {expected} {planned}")
}
