//! The search against two links of known rates.

use std::fmt::Write as _;

use super::search::Search;
use crate::Instant;

/// What two links of `first` and `second` Mb/s carry together when the first is to carry `ratio`
/// percent: the one whose part takes longer sets the pace.
fn carried(first: u64, second: u64, ratio: u64) -> u64 {
    (first * 100 / ratio).min(second * 100 / (100 - ratio))
}

/// Runs the search at the links' pace and notes every change of the ratio.
fn run(search: &mut Search, from_ms: u64, to_ms: u64, links: (u64, u64), log: &mut String) {
    for at in from_ms..to_ms {
        let before = search.ratio();
        let rate = carried(links.0, links.1, before);
        // Mb/s are kilobits a millisecond.
        search.sent(rate * 125);
        search.look(500_000, Instant::from_millis(at));
        if search.ratio() != before {
            writeln!(log, "{at:5} ms  {before:2} -> {:2}  at {rate} Mb/s", search.ratio()).unwrap();
        }
    }
}

#[test]
fn the_ratio_follows_a_link_that_changes() {
    let mut search = Search::new();
    let mut log = String::new();
    // Equal links: half each is right.
    run(&mut search, 0, 2000, (500, 500), &mut log);
    assert_eq!(search.ratio(), 50);
    writeln!(log, "the first link rises to 1500 Mb/s, the second to 700").unwrap();
    run(&mut search, 2000, 6000, (1500, 700), &mut log);
    // 1500/2200 is 68 percent.
    assert!((65..=70).contains(&search.ratio()), "{}", search.ratio());
    writeln!(log, "the first link falls to 100 Mb/s").unwrap();
    run(&mut search, 6000, 14_000, (100, 700), &mut log);
    assert!((10..=20).contains(&search.ratio()), "{}", search.ratio());
    insta::assert_snapshot!(log);
}

#[test]
fn searches_are_three_seconds_apart() {
    let mut search = Search::new();
    let mut log = String::new();
    let mut links = (500, 500);
    let mut changed_at = Vec::new();
    for second in 0..12 {
        // Every second the rates are others: there is always a reason to search.
        links = if links.0 == 500 { (1000, 1000) } else { (500, 500) };
        for at in 1000 * second..1000 * (second + 1) {
            let before = search.ratio();
            run(&mut search, at, at + 1, links, &mut log);
            if before == 50 && search.ratio() > before {
                changed_at.push(at);
            }
        }
    }
    assert!(changed_at.len() >= 2, "{changed_at:?}");
    assert!(changed_at.windows(2).all(|pair| pair[1] - pair[0] >= 3000), "{changed_at:?}");
}

#[test]
fn a_small_change_is_no_reason() {
    let mut search = Search::new();
    let mut log = String::new();
    run(&mut search, 0, 2000, (500, 500), &mut log);
    run(&mut search, 2000, 20_000, (550, 500), &mut log);
    assert_eq!(log, "");
}

#[test]
fn the_search_stays_within_its_bounds() {
    let mut search = Search::new();
    let mut log = String::new();
    run(&mut search, 0, 2000, (400, 400), &mut log);
    run(&mut search, 2000, 30_000, (20_000, 200), &mut log);
    assert_eq!(search.ratio(), 95);
}
