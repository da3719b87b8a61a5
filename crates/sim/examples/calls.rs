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
        kinds.extend(variants(protected).into_iter().map(|(name, rules)| (name, Some(rules))));
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

/// The rules with one value in another way at a time.
fn variants(rules: CallRules) -> Vec<(String, CallRules)> {
    let ms = Duration::from_millis;
    let mut all = Vec::new();
    let mut vary = |name: &str, change: &dyn Fn(&mut CallRules)| {
        let mut other = rules;
        change(&mut other);
        all.push((name.to_owned(), other));
    };
    vary("margin 10 ms", &|r| r.margin = ms(10));
    vary("margin 30 ms", &|r| r.margin = ms(30));
    vary("together 30 ms", &|r| r.together = ms(30));
    vary("together 120 ms", &|r| r.together = ms(120));
    vary("counted 250 ms", &|r| r.counted = ms(250));
    vary("counted 1000 ms", &|r| r.counted = ms(1000));
    vary("share 0.9", &|r| r.share = 0.9);
    vary("share 0.98", &|r| r.share = 0.98);
    vary("long queue 100 ms", &|r| r.long_queue = ms(100));
    vary("long queue 400 ms", &|r| r.long_queue = ms(400));
    vary("least part 0.1", &|r| r.least_part = 0.1);
    vary("least part 0.4", &|r| r.least_part = 0.4);
    vary("growth 0.005", &|r| r.growth = 0.005);
    vary("growth 0.02", &|r| r.growth = 0.02);
    vary("regrowth 0.25", &|r| r.regrowth = 0.25);
    vary("regrowth 1", &|r| r.regrowth = 1.0);
    vary("used 0.5", &|r| r.used = 0.5);
    vary("used 0.9", &|r| r.used = 0.9);
    vary("unused 1.25 s", &|r| r.unused = ms(1250));
    vary("unused 5 s", &|r| r.unused = ms(5000));
    vary("search none", &|r| r.search = Duration::ZERO);
    vary("search 3 s", &|r| r.search = ms(3000));
    vary("rest 10 s", &|r| r.rest = ms(10_000));
    vary("rest 60 s", &|r| r.rest = ms(60_000));
    vary("late 5 s", &|r| r.late = ms(5_000));
    vary("late 20 s", &|r| r.late = ms(20_000));
    all
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
