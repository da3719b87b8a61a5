//! The search against two links of known rates.

use std::fmt::Write as _;

use super::RatioMemory;
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
        search.look(rate * 125, (500_000, 500_000), Instant::from_millis(at));
        if search.ratio() != before {
            writeln!(log, "{at:5} ms  {before:2} -> {:2}  at {rate} Mb/s", search.ratio()).unwrap();
        }
    }
}

#[test]
fn a_connection_searches_when_its_windows_have_grown() {
    let mut search = Search::new(50);
    let mut log = String::new();
    // Windows double from one sample to the next for half a second.
    for (sample, share) in [16, 8, 4, 2, 1].into_iter().enumerate() {
        let from = 100 * sample as u64;
        run(&mut search, from, from + 100, (300 / share, 1000 / share), &mut String::new());
        assert_eq!(search.ratio(), 50, "no search yet");
    }
    run(&mut search, 500, 5000, (300, 1000), &mut log);
    // 300/1300 is 23 percent.
    assert!((22..=24).contains(&search.ratio()), "{}", search.ratio());
    assert!(carried(300, 1000, search.ratio()) * 100 >= 95 * 1300);
    insta::assert_snapshot!("a_first_search", log);
}

#[test]
fn the_ratio_outlives_a_connection_and_is_shared_by_those_beside_it() {
    let host = RatioMemory::with_percent(50);
    let another = host.clone();
    run(&mut host.search(), 0, 5000, (300, 1000), &mut String::new());
    assert!((22..=24).contains(&another.percent()), "{}", another.percent());
    // A new connection searches anew, from there.
    another.search().begin();
    let mut log = String::new();
    run(&mut another.search(), 5000, 10_000, (300, 1000), &mut log);
    assert!((20..=26).contains(&host.percent()), "{log}");
    assert!(!log.is_empty() && !log.contains("50 ->"), "{log}");
    assert_eq!(RatioMemory::with_percent(0).percent(), 5, "within bounds");
}

#[test]
fn the_ratio_follows_a_link_that_changes() {
    let mut search = Search::new(50);
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
    let mut search = Search::new(50);
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
    let mut search = Search::new(50);
    let mut log = String::new();
    run(&mut search, 0, 2000, (500, 500), &mut String::new());
    run(&mut search, 2000, 20_000, (550, 500), &mut log);
    assert_eq!(log, "");
}

#[test]
fn the_search_stays_within_its_bounds() {
    let mut search = Search::new(50);
    let mut log = String::new();
    run(&mut search, 0, 2000, (400, 400), &mut log);
    run(&mut search, 2000, 30_000, (20_000, 200), &mut log);
    assert_eq!(search.ratio(), 95);
}
