//! Runs that are ended early: by what takes their outcomes, and from outside.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weftline_scenario::{Congestion, Scenario};
use weftline_sim::{Job, run_all, run_all_unless};

/// A short run, and behind it one that would take hours.
fn jobs() -> impl Iterator<Item = Job> + Send {
    [Duration::from_secs(1), Duration::from_hours(24)].into_iter().map(|duration| {
        let mut scenario = Scenario::find("demo").unwrap();
        scenario.set_duration(duration, Duration::ZERO).unwrap();
        Job {
            scenario,
            scheme: "min-rtt".parse().unwrap(),
            congestion: Congestion::CUBIC,
            seed: 1,
            case: BTreeMap::new(),
            series: false,
        }
    })
}

#[test]
fn runs_under_way_are_given_up_when_no_more_are_wanted() {
    let mut taken = 0;
    run_all(jobs(), 2, |outcome| {
        taken += 1;
        assert!(outcome.record.completed);
        false
    });
    assert_eq!(taken, 1);
}

#[test]
fn a_run_is_stopped_from_outside() {
    let stop = AtomicBool::new(false);
    let mut taken = 0;
    run_all_unless(&stop, jobs(), 1, |_| {
        taken += 1;
        stop.store(true, Ordering::Relaxed);
        true
    });
    assert_eq!(taken, 1);
}
