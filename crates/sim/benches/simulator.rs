//! What a run costs: events and packets per second of one core. `scripts/instructions` counts the
//! instructions of the same cases, which do not depend on what else the machine does.
//!
//! With `WEFTLINE_CASE=NAME` one case runs once and nothing is timed.

use std::time::Duration;

use divan::counter::ItemsCount;
use weftline_scenario::{Congestion, Scenario, Scheme};
use weftline_sim::{Outcome, simulate};

/// Scenario, scheme, congestion control and seconds.
const CASES: [(&str, &str, &str, &str, u64); 4] = [
    ("one-flow-cubic", "tcp-reference", "single:link", "cubic", 30),
    ("one-flow-bbr", "tcp-reference", "single:link", "bbr", 30),
    ("two-path-fbdt", "demo", "fbdt", "cubic", 5),
    ("video", "mptcp-a1", "min-rtt", "olia", 240),
];

#[expect(clippy::disallowed_methods, reason = "a benchmark may look at its environment")]
fn main() {
    match std::env::var("WEFTLINE_CASE") {
        Ok(name) => {
            let outcome = run(&name);
            println!("{name} {} events {} packets", outcome.events(), outcome.packets);
        }
        Err(_) => divan::main(),
    }
}

fn run(case: &str) -> Outcome {
    let found = CASES.iter().find(|(name, ..)| *name == case);
    let (_, scenario, scheme, congestion, seconds) = found.expect("a case of the list");
    let mut scenario = Scenario::find(scenario).expect("built in");
    scenario.duration = Duration::from_secs(*seconds);
    let scheme: Scheme = scheme.parse().expect("a scheme");
    let congestion: Congestion = congestion.parse().expect("a congestion control");
    simulate(&scenario, &scheme, congestion, 1, false).expect("the case can be run")
}

fn names() -> impl Iterator<Item = &'static str> {
    CASES.iter().map(|(name, ..)| *name)
}

#[divan::bench(args = names(), sample_count = 10, sample_size = 1)]
fn events(bencher: divan::Bencher<'_, '_>, case: &str) {
    let events = run(case).events();
    bencher.counter(ItemsCount::new(events)).bench(|| run(case));
}

#[divan::bench(args = names(), sample_count = 10, sample_size = 1)]
fn packets(bencher: divan::Bencher<'_, '_>, case: &str) {
    let packets = run(case).packets;
    bencher.counter(ItemsCount::new(packets)).bench(|| run(case));
}
