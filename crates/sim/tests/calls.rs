//! A call beside a download over two links with queues of 200 ms: the state machines of `weftline up`, in
//! virtual time.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "common/calls.rs"]
mod calls;

use std::time::Duration;

use calls::{Call, Case, LINKS};
use weftline_core::datagram::CallRules;
use weftline_link::LossModel;

/// The delay of nearly all packets, and what the download has of what it had.
#[test]
fn a_call_waits_little_and_the_download_has_nearly_all() {
    for links in [LINKS[0], LINKS[2], LINKS[4]] {
        for control in ["cubic", "bbr"] {
            let run = |rules| Case { links, control, rules, call: Call::SOUND }.run(1);
            let (without, with) = (run(None), run(Some(CallRules::default())));
            let said = format!("{links}, {control}: {without:?}, {with:?}");
            assert!(with.delays[1] <= 30.0, "{said}");
            assert!(with.goodput >= 0.9 * without.goodput, "{said}");
            assert!(with.lost <= without.lost, "{said}");
            assert_eq!((without.cuts, with.in_vain), (0, 0), "{said}");
            // CUBIC fills the queues, and BBR those of slow links.
            if control == "cubic" {
                assert!(without.delays[1] >= 30.0 && with.cuts > 0, "{said}");
            }
        }
    }
}

/// One of the links dies without a word, under a full download.
#[test]
fn a_call_with_pictures_goes_on_when_a_link_dies() {
    let mut all = Vec::new();
    for (control, path) in [("cubic", 0), ("cubic", 1), ("bbr", 0), ("bbr", 1)] {
        for dies_ms in [30_000, 31_462] {
            let gaps = gap(control, path, Some(CallRules::default()), dies_ms);
            all.push((control, path, dies_ms, gaps));
        }
    }
    assert!(all.iter().all(|(.., gaps)| gaps.iter().all(|ms| *ms <= 150)), "{all:?}");
}

/// The longest time in which nothing of a call comes at either end, in milliseconds, after the fifteenth
/// second, if a link dies at some time.
fn gap(control: &'static str, path: usize, rules: Option<CallRules>, dies_ms: u64) -> [u128; 2] {
    let case = Case { links: LINKS[0], control, rules, call: Call::PICTURES };
    let mut plan = case.plan(1);
    let dies = LossModel::Schedule(vec![(Duration::from_millis(dies_ms), 1.0)]);
    (plan.paths[path].down.loss, plan.paths[path].up.loss) = (dies.clone(), dies);
    (plan.duration, plan.calls.as_mut().unwrap().until) =
        (Duration::from_secs(40), Duration::from_secs(40));
    let outcome = weftline_sim::run(plan).unwrap();
    outcome.calls.unwrap().map(|report| {
        let came = report.came.iter().map(|(sent, took)| *sent + *took);
        let came: Vec<_> = came.filter(|at| *at >= Duration::from_secs(15)).collect();
        assert!(*came.last().unwrap() > Duration::from_secs(39), "{control}, {path}");
        came.windows(2).map(|two| (two[1] - two[0]).as_millis()).max().unwrap()
    })
}

/// A call that is over is no reason to hold anything.
#[test]
fn the_download_is_let_go_when_the_call_is_over() {
    let rules = Some(CallRules::default());
    let case = Case { links: LINKS[0], control: "cubic", rules, call: Call::SOUND };
    let mut plan = case.plan(1);
    plan.calls.as_mut().unwrap().until = Duration::from_secs(20);
    let outcome = weftline_sim::run(plan).unwrap();
    let [_, down] = outcome.calls.unwrap();
    for (hold, held) in down.holds.iter().zip(&down.held) {
        assert_eq!(hold.limit, None);
        assert!(*held <= Duration::from_secs(31) && *held > Duration::from_secs(10), "{held:?}");
    }
}
