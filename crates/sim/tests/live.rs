//! Live streams of tiles in virtual time: the programs' own state machines over simulated paths.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "common/live.rs"]
mod live;

use live::{Case, check, late};
use weftline_sim::Plan;

#[test]
fn a_stream_over_wide_links_has_every_tile_in_time() {
    let case = Case { kbps: vec![30_000, 20_000], gops: 8, ..Case::default() };
    let outcome = case.run();
    check(&outcome, 8);
    assert_eq!(late(&outcome).0, 0, "{:?}", outcome.gops);
    // All of it was wanted, and came: the finest rung of every tile.
    let last = outcome.gops[7];
    assert_eq!((last.dropped, last.bytes), (0, last.planned));
    assert!(outcome.planned[7].bytes.as_u64() > 900_000, "{:?}", outcome.planned[7]);
}

#[test]
fn a_run_of_a_live_stream_is_a_function_of_its_plan() {
    let case = Case { loss: 0.01, gops: 4, ..Case::default() };
    let [one, other] = [(), ()].map(|()| weftline_sim::run(case.plan()).unwrap());
    assert_eq!((one.record.digest, one.live), (other.record.digest, other.live));
    let other = Case { seed: 2, ..case }.run();
    check(&other, 4);
}

#[test]
fn a_path_that_is_cut_costs_tiles_and_not_the_stream() {
    let case = Case { cuts: vec![(1, 5, 9)], gops: 14, ..Case::default() };
    let outcome = case.run();
    check(&outcome, 14);
    // With it goes two fifths of what is carried, and comes back.
    let carried = |range: std::ops::Range<usize>| {
        let gops = &outcome.gops[range];
        gops.iter().map(|gop| gop.bytes.as_u64() + gop.late_bytes.as_u64()).sum::<u64>()
    };
    assert!(carried(6..9) < 3 * 160_000, "{:?}", outcome.gops);
    assert!(carried(11..14) > carried(6..9), "{:?}", outcome.gops);
}

#[test]
fn what_cannot_carry_a_live_stream_is_refused() {
    let mut plan: Plan = Case::default().plan();
    plan.flows[0].scheduler = None;
    let error = weftline_sim::run(plan).unwrap_err().to_string();
    assert!(error.contains("not by plain TCP"), "{error}");
}
