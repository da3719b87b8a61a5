//! Which path carries which part of the stream: what FBDT's pictures show.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::sync::atomic::AtomicBool;

use weftline_core::scheduler::Kind;
use weftline_scenario::{Congestion, Scenario};
use weftline_sim::{Plan, Woven, simulate_plan_unless};

fn woven(scheme: &str) -> Woven {
    let text = r#"
        name = "test"
        duration = "3s"
        [[path]]
        name = "near"
        rate = "60Mbps"
        delay = "5ms"
        [[path]]
        name = "far"
        rate = "20Mbps"
        delay = "15ms"
        [workload]
        kind = "bulk"
    "#;
    let scenario = Scenario::parse("test.toml", text, &|_| unreachable!("no traces")).unwrap();
    let (scheme, congestion) = (scheme.parse().unwrap(), "bbr".parse::<Congestion>().unwrap());
    let plan = Plan::new(&scenario, &scheme, congestion, 1).unwrap();
    let plan = Plan { weave: Some(100_000), ..plan };
    let stop = AtomicBool::new(false);
    let outcome = simulate_plan_unless(&stop, plan, &scenario, &scheme, congestion).unwrap();
    outcome.weave.unwrap()
}

/// The seam of each window, in thousandths of it, from the forward path's end.
#[test]
fn both_directions_of_a_window_meet_where_the_rates_make_them() {
    let woven = woven("fbdt");
    assert_eq!(woven.paths, ["near", "far"]);
    let middle = woven.windows.iter().skip(woven.windows.len() / 2).take(8);
    let seams: Vec<_> = middle
        .map(|window| {
            let mut parts: Vec<_> = woven
                .stretches
                .iter()
                .filter(|s| s.kind == Kind::New && window.contains(&s.range.start))
                .collect();
            parts.sort_by_key(|stretch| stretch.range.start);
            // All of it, each byte once, and nothing beside it.
            assert!(
                parts.windows(2).all(|two| two[0].range.end == two[1].range.start),
                "{parts:?}"
            );
            let ends = [parts[0].range.start, parts.last().unwrap().range.end];
            assert_eq!(ends, [window.start, window.end]);
            let far: u64 = parts
                .iter()
                .filter(|stretch| stretch.path.0 == 1)
                .map(|stretch| stretch.range.end - stretch.range.start)
                .sum();
            let backward = parts.iter().filter(|stretch| stretch.is_backward);
            assert!(backward.clone().count() > 0, "{parts:?}");
            assert!(
                backward.map(|stretch| stretch.path).all(|path| path == parts.last().unwrap().path)
            );
            far * 1000 / (window.end - window.start)
        })
        .collect();
    let mean = seams.iter().sum::<u64>() / seams.len() as u64;
    assert!((200..300).contains(&mean), "20 of 80 Mb/s: {seams:?}");
}

#[test]
fn earliest_has_no_windows_and_sends_upwards() {
    let woven = woven("earliest");
    assert!(woven.windows.is_empty() && woven.stretches.len() > 100);
    assert!(woven.stretches.iter().filter(|s| s.kind == Kind::New).all(|s| !s.is_backward));
}
