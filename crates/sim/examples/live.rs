//! Late tiles of live streams over thin links, by scheduler.
//!
//! `cargo run --release -p weftline-sim --example live -- [SEEDS [SCHEDULER[,SCHEDULER] [CONTROL]]]`
//! prints for each case and scheduler the tiles that were late after the first two GoPs, the GoPs
//! with any, and the mean over the GoPs of the viewport's PSNR.
#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../tests/common/live.rs"]
mod live;

use live::{Case, START, late};

const LINKS: [[u64; 2]; 4] = [[1_200, 800], [2_500, 2_000], [8_000, 4_000], [30_000, 20_000]];

fn cases() -> Vec<(String, Case)> {
    let mut cases = Vec::new();
    for kbps in LINKS {
        for (queue, queue_name) in [(Some(100), "100 packets"), (None, "1 BDP")] {
            for loss in [0.0, 0.01] {
                let events = [
                    ("", vec![]),
                    (", one cut", vec![(0, 8, 3_000)]),
                    (", both cut 3 s", vec![(0, 8, 11), (1, 8, 11)]),
                ];
                for (event, cuts) in events {
                    let [one, two] = kbps.map(|kbps| kbps as f64 / 1e3);
                    let name = format!("{one}+{two} Mb/s, {queue_name}, loss {loss}{event}");
                    // Content that the links do not carry at its finest.
                    let bytes_at_32 = 50 * kbps.iter().sum::<u64>();
                    cases.push((
                        name,
                        Case {
                            kbps: kbps.to_vec(),
                            queue,
                            loss,
                            cuts,
                            bytes_at_32,
                            ..Case::default()
                        },
                    ));
                }
            }
        }
    }
    cases
}

fn main() {
    let mut args = std::env::args().skip(1);
    let seeds: u64 = args.next().map_or(1, |seeds| seeds.parse().expect("a number of seeds"));
    let names = args.next().unwrap_or_else(|| "fbdt,earliest,min-rtt".to_owned());
    let congestion = if args.next().as_deref() == Some("bbr") { "bbr" } else { "cubic" };
    let only = args.next().unwrap_or_default();
    let known = ["fbdt", "earliest", "min-rtt"];
    let schedulers = || known.iter().filter(|name| names.split(',').any(|n| n == **name));
    for (name, case) in cases().into_iter().filter(|(name, _)| name.contains(&only)) {
        let mut line = format!("{name:48}");
        for scheduler in schedulers() {
            let (mut tiles, mut of, mut hit, mut db, mut gops) = (0, 0, 0, 0.0, 0);
            for seed in 1..=seeds {
                let outcome = Case { seed, scheduler, congestion, ..case.clone() }.run();
                let (one, all) = late(&outcome);
                (tiles, of) = (tiles + one, of + all);
                let shown = outcome.gops.iter().skip(START);
                hit += shown.clone().filter(|gop| gop.late > 0).count();
                db += shown.clone().filter_map(|gop| gop.psnr_db()).sum::<f64>();
                gops += shown.count();
            }
            let db = db / gops as f64;
            line += &format!("  {scheduler} {tiles:4} of {of} in {hit:3} GoPs {db:5.2} dB");
        }
        println!("{line}");
    }
}
