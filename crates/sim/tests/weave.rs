//! Which path carries which part of the stream: what FBDT's pictures show.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weftline_core::Instant;
use weftline_core::scheduler::Kind;
use weftline_core::session::WeaveRecord;
use weftline_core::session::cloth::{Cut, Row, choose, rows};
use weftline_scenario::{Congestion, Scenario, Scheme};
use weftline_sim::{PathState, Plan, Woven, simulate_plan_seen, simulate_plan_unless};

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
    run(text, scheme)
}

fn run(text: &str, scheme: &str) -> Woven {
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
    let middle = woven.sent.windows.iter().skip(woven.sent.windows.len() / 2).take(8);
    let seams: Vec<_> = middle
        .map(|window| {
            let mut parts: Vec<_> = woven
                .sent
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
    assert!(woven.sent.windows.is_empty() && woven.sent.stretches.len() > 100);
    assert!(woven.sent.stretches.iter().filter(|s| s.kind == Kind::New).all(|s| !s.is_backward));
}

/// A path that nothing gets through from 2 s on, for two seconds.
const DIES: &str = r#"
    name = "dies"
    duration = "6s"
    [[path]]
    name = "near"
    rate = "30Mbps"
    delay = "5ms"
    [[path]]
    name = "far"
    rate = "20Mbps"
    delay = "15ms"
    loss = [{ at = "0s", rate = 0.0 }, { at = "2s", rate = 1.0 }, { at = "4s", rate = 0.0 }]
    [workload]
    kind = "bulk"
"#;

/// Rows as text, each sixty characters wide: a letter for a path, capital where it filled downwards; `+`
/// for copies, `*` for what was sent again; `.` for what has not arrived. In front are the time in ms, and
/// how long the reader waited.
fn cloth(record: &WeaveRecord, from_ms: u64, slot_ms: u64, count: u64) -> String {
    const WIDTH: u64 = 60;
    let from = Instant::from_millis(from_ms);
    let (cut, rows) = rows(record, Instant::ZERO);
    let chosen = choose(rows, from, Duration::from_millis(slot_ms));
    let mut text = format!("{cut:?}\n");
    for slot in 0..count {
        let at = from_ms + slot * slot_ms;
        let Some(row) = chosen.get(&slot) else {
            let _ = writeln!(text, "{at:5}");
            continue;
        };
        let _ = writeln!(text, "{at:5} {:4} {}", row.waited().as_millis(), line(row, WIDTH));
    }
    text
}

fn line(row: &Row, width: u64) -> String {
    let mut cells = vec![' '; width as usize];
    let length = row.bytes.end - row.bytes.start;
    for part in &row.parts {
        let letter = match (part.kind, part.path.0, part.is_backward) {
            (Kind::Copy, ..) => '+',
            (Kind::Reinjection, ..) => '*',
            (Kind::New, 0, false) => 'n',
            (Kind::New, 0, true) => 'N',
            (Kind::New, _, false) => 'f',
            (Kind::New, _, true) => 'F',
        };
        let cell = |offset: u64| ((offset - row.bytes.start) * width / length) as usize;
        cells[cell(part.range.start)..cell(part.range.end)].fill(letter);
    }
    cells.into_iter().collect::<String>().trim_end().to_owned()
}

/// The golden cloth of a path that dies: what the picture in docs/web.md shows.
#[test]
fn a_path_that_dies_leaves_the_cloth_to_the_other() {
    let woven = run(DIES, "fbdt");
    insta::assert_snapshot!(cloth(&woven.sent, 1500, 100, 40));
}

/// Nine in ten of what was received are in the rows that the receiving end infers, also where the path
/// that fills downwards is gone for good.
#[test]
fn inferred_rows_go_on_when_a_path_dies() {
    let text = DIES.replace(", { at = \"4s\", rate = 0.0 }", "");
    assert_ne!(text, DIES);
    for text in [DIES, &text] {
        let woven = run(text, "fbdt");
        let (cut, inferred) = rows(&woven.received, Instant::ZERO);
        assert_eq!(cut, Cut::Inferred);
        let length = |range: &std::ops::Range<u64>| range.end - range.start;
        let new = woven.received.stretches.iter().filter(|one| one.kind == Kind::New);
        let received: u64 = new.map(|one| length(&one.range)).sum();
        let parts = inferred.iter().flat_map(|row| &row.parts);
        let new = parts.filter(|part| part.kind == Kind::New);
        let shown: u64 = new.map(|part| length(&part.range)).sum();
        assert!(shown * 10 >= received * 9, "{shown} of {received} bytes");
    }
}

/// Nine in ten of the scheduler's windows are what the receiving end infers of them.
#[test]
fn inferred_windows_are_the_schedulers() {
    for scheme in ["fbdt", "fbdt-strict"] {
        let woven = woven(scheme);
        let (cut, inferred) = rows(&woven.received, Instant::ZERO);
        assert_eq!(cut, Cut::Inferred);
        let (_, real) = rows(&woven.sent, Instant::ZERO);
        let same = real.iter().filter(|row| inferred.iter().any(|one| one.bytes == row.bytes));
        let (same, all) = (same.count(), real.len());
        assert!(same * 10 >= all * 9, "{scheme}: {same} of {all} windows, by {}", inferred.len());
    }
}

/// Two of three paths fill downwards at a time, in turns: no end of a window can be told from that, and rows
/// that are slivers would be most of the picture.
#[test]
fn of_three_paths_no_windows_are_inferred() {
    let text = r#"
        name = "tri"
        duration = "6s"
        [[path]]
        name = "fibre"
        rate = "20Mbps"
        delay = "8ms"
        [[path]]
        name = "lte"
        rate = "30Mbps"
        delay = "35ms"
        [[path]]
        name = "wifi"
        rate = "25Mbps"
        delay = "3ms"
        loss = [{ at = "0s", rate = 0.02 }]
        [workload]
        kind = "bulk"
    "#;
    let woven = run(text, "fbdt");
    let (cut, rows) = rows(&woven.received, Instant::ZERO);
    assert_eq!(cut, Cut::Fixed);
    let (bytes, paths) =
        (rows.iter().map(|row| row.bytes.end - row.bytes.start), woven.paths.len());
    assert!(bytes.min() == Some(1 << 20) && paths == 3, "{rows:?}");
}

#[test]
fn a_run_that_is_seen_on_its_way_is_the_same_run_and_ends_with_its_weave() {
    let scenario = Scenario::find("bond").unwrap();
    let (scheme, congestion) = (Scheme::FBDT, Congestion::CUBIC);
    let plan = || {
        let mut plan = Plan::new(&scenario, &scheme, congestion, 1).unwrap();
        (plan.duration, plan.weave) = (Duration::from_secs(2), Some(1000));
        plan
    };
    let stop = AtomicBool::new(false);
    let alone = simulate_plan_unless(&stop, plan(), &scenario, &scheme, congestion).unwrap();
    let mut seen = Vec::new();
    let what = (&scenario, &scheme, congestion);
    let step = Duration::from_millis(30);
    let outcome = simulate_plan_seen(&stop, plan(), what, step, |simulation| {
        let [view] = &simulation.views()[..] else { panic!("one flow is measured") };
        seen.push((view.clone(), simulation.weave().unwrap()));
    });
    let outcome = outcome.unwrap();
    assert_eq!(outcome.record, alone.record);
    assert_eq!(outcome.weave, alone.weave);
    // At the beginning, after each step, and at the end.
    assert_eq!(seen.len(), 1 + 2000usize.div_ceil(30));
    let (last, woven) = seen.last().unwrap();
    assert_eq!(Some(woven), alone.weave.as_ref());
    assert_eq!(last.time, Duration::from_secs(2));
    let names: Vec<_> = last.paths.iter().map(|path| path.name.as_str()).collect();
    assert_eq!(names, ["dsl", "lte"]);
    for path in &last.paths {
        assert_eq!(path.state, PathState::Up);
        assert!(path.delivered > 0 && path.delivered <= path.sent, "{path:?}");
        let info = path.info.unwrap();
        assert!(!info.min_rtt.is_zero() && info.min_rtt <= info.srtt, "{path:?}");
    }
    assert!(seen.windows(2).all(|pair| pair[0].0.delivered <= pair[1].0.delivered));
    assert!(last.delivered > 0 && last.delivered <= last.written);
}
