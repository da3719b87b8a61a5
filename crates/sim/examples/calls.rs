//! A call beside a bulk download over two links with long queues, with its protection, without it, and
//! with each of its rules switched off.
//!
//! `cargo run -p weftline-sim --example calls -- SEEDS [values] [LINKS…]`, where LINKS is the beginning of
//! a name in the first column. Goodput is that of the download from the
//! fifth second on; delays are those of the call's packets to the client, beyond the way of the nearer link,
//! from the beginning of the call on.
#![allow(clippy::print_stdout, reason = "an example prints")]

#[path = "../tests/common/calls.rs"]
mod calls;

use std::thread;
use std::time::Duration;

use calls::{Call, Case, LINKS, Result};
use weftline_core::datagram::CallRules;

fn main() {
    let mut args = std::env::args().skip(1);
    let seeds = args.next().map_or(10, |seeds| seeds.parse().expect("a number of seeds"));
    let protected = CallRules::default();
    let mut kinds = vec![("none".to_owned(), None), ("all".to_owned(), Some(protected))];
    let mut args = args.peekable();
    if args.next_if_eq("values").is_some() {
        for margin in [10, 20, 30] {
            let rules = CallRules { margin: Duration::from_millis(margin), ..protected };
            kinds.push((format!("margin {margin} ms"), Some(rules)));
        }
        for share in [0.85, 0.9, 0.98] {
            kinds.push((format!("share {share}"), Some(CallRules { share, ..protected })));
        }
    }
    println!(
        "| links | control | protection | p50 | p95 | 99 % | longest, ms | goodput, Mb/s | of that \
         without | cuts | in vain |\n|---|---|---|---|---|---|---|---|---|---|---|"
    );
    let wanted: Vec<String> = args.collect();
    let is_wanted =
        |links: &&str| wanted.is_empty() || wanted.iter().any(|wanted| links.starts_with(wanted));
    for links in LINKS.into_iter().filter(is_wanted) {
        for control in ["cubic", "bbr"] {
            let run = |rules: &Option<CallRules>| {
                let case = Case { links, control, rules: *rules, call: Call::SOUND };
                run_all(case, seeds)
            };
            let all: Vec<Vec<Result>> = kinds.iter().map(|(_, rules)| run(rules)).collect();
            for ((name, _), results) in kinds.iter().zip(&all) {
                println!("| {links} | {control} | {name} | {} |", line(results, &all[0]));
            }
        }
    }
}

/// One case with seeds from 1, on two threads.
fn run_all(case: Case, seeds: u64) -> Vec<Result> {
    thread::scope(|scope| {
        let halves = [1, 2].map(|first| {
            scope.spawn(move || (first..=seeds).step_by(2).map(|s| (s, case.run(s))).collect())
        });
        let mut all: Vec<(u64, Result)> = halves
            .into_iter()
            .flat_map(|half| -> Vec<_> { half.join().expect("it ran") })
            .collect();
        all.sort_by_key(|(seed, _)| *seed);
        all.into_iter().map(|(_, result)| result).collect()
    })
}

/// Medians over seeds; of the longest and of the part of the goodput the worst.
fn line(results: &[Result], without: &[Result]) -> String {
    let median = |of: &dyn Fn(&Result) -> f64| {
        let mut all: Vec<f64> = results.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let worst = |of: &dyn Fn(&Result) -> f64| results.iter().map(of).fold(0.0, f64::max);
    let parts = results.iter().zip(without).map(|(one, other)| one.goodput / other.goodput);
    let mut parts: Vec<f64> = parts.collect();
    parts.sort_by(f64::total_cmp);
    format!(
        "{:.0} | {:.0} (≤ {:.0}) | {:.0} | {:.0} | {:.1} | {:.3} (≥ {:.3}) | {:.0} | {:.1}",
        median(&|one| one.delays[0]),
        median(&|one| one.delays[1]),
        worst(&|one| one.delays[1]),
        median(&|one| one.delays[2]),
        worst(&|one| one.delays[3]),
        median(&|one| one.goodput),
        parts[parts.len() / 2],
        parts[0],
        median(&|one| one.cuts as f64),
        results.iter().map(|one| one.in_vain as f64).sum::<f64>() / results.len() as f64,
    )
}
