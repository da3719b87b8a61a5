//! What redundant copies may cost: a share of the new bytes sent, whatever the rule that copies.

use super::builder::{Bench, Metrics};
use crate::scheduler::choice::SEGMENT;
use crate::scheduler::{Kind, SchedulerConfig};

/// A share of 2 %, and what the budget begins with, a chunk for the end of a short transfer.
const PERMILLE: u64 = 20;
const BEGINS_WITH: u64 = 64 << 10;

/// At the end of all data a far path holds all `segments`, of which a near one, which has room for
/// all of them, would have each there sooner. How many bytes it copies.
fn copied(scheduler: &str, copies_permille: u64, segments: u64) -> u64 {
    let config = SchedulerConfig { copies_permille, ..SchedulerConfig::default() };
    let far = Metrics::new(20, 0, 400);
    let near = Metrics::new(1000, 0, 20);
    let mut bench = Bench::with(scheduler, &config, segments, &[far, near]);
    bench.subflows[1].set_standby(true);
    while bench.ask(0).is_some() {}
    assert!(bench.unassigned.is_empty(), "it is the only one");
    bench.subflows[1].set_standby(false);
    let copies = std::iter::from_fn(|| bench.ask(1));
    copies
        .map(|copy| {
            assert_eq!(copy.kind, Kind::Copy);
            copy.range.end - copy.range.start
        })
        .sum()
}

#[test]
fn copies_take_the_whole_budget_and_no_more() {
    for scheduler in ["earliest", "fbdt"] {
        // What it begins with; then mostly the share of what was sent.
        for segments in [100, 10_000] {
            let budget = BEGINS_WITH + segments * SEGMENT * PERMILLE / 1000;
            let copied = copied(scheduler, PERMILLE, segments);
            let least = budget - SEGMENT;
            assert!((least..=budget).contains(&copied), "{scheduler}: {copied} of {budget}");
        }
        assert_eq!(copied(scheduler, 0, 10_000), 0, "a share of nothing");
    }
}
