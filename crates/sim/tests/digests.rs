//! Every built-in scenario under some schemes does the same each time, on every machine: the
//! digests of the events are committed beside this file.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use weftline_congestion::REGISTRY;
use weftline_scenario::{BUILTIN, Congestion, PathSpec, Scenario, Scheme, Workload};

/// Set to write the digests anew.
const BLESS: &str = "WEFTLINE_BLESS";

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/digests.txt")
}

/// A run carries about so much, or lasts two seconds.
const BITS: f64 = 150e6;

/// A short run of each scenario: long enough for slow start, a loss and the first recoveries.
fn scenarios() -> impl Iterator<Item = Scenario> {
    BUILTIN.iter().map(|builtin| {
        let mut scenario = builtin.scenario().unwrap();
        let video = matches!(scenario.workload, Workload::Video(_));
        let paths = scenario.paths.iter().filter(|path| path.shares.is_none());
        let mean = |path: &PathSpec| path.down_trace(1, scenario.duration).mean().as_bps() as f64;
        let bits_per_s: f64 = paths.map(mean).sum();
        // A video has filled its first buffers after 20 s.
        let seconds = if video { 20.0 } else { (BITS / bits_per_s).clamp(0.1, 2.0) };
        scenario.duration = Duration::from_millis((seconds * 1e3) as u64);
        scenario.warmup = Duration::ZERO;
        for flow in &mut scenario.flows {
            flow.start = flow.start.min(scenario.duration / 2);
            flow.stop = None;
        }
        scenario
    })
}

fn schemes(scenario: &Scenario) -> Vec<Scheme> {
    let mut schemes = vec![Scheme::Single(scenario.paths[0].name.clone())];
    if scenario.gateway_aps.is_some() {
        let names = ["fbdt", "cotag", "cotag-dense", "packet-round-robin"];
        schemes.extend(names.iter().map(|name| name.parse().unwrap()));
        return schemes;
    }
    let names = ["fbdt", "earliest", "min-rtt", "linux"];
    schemes.extend(names.iter().map(|name| name.parse().unwrap()));
    if scenario.paths.len() == 2 {
        schemes.push("musher".parse().unwrap());
    }
    schemes
}

/// One run, and its line in the file.
fn line(scenario: &Scenario, scheme: &Scheme, congestion: Congestion) -> String {
    let run = || weftline_sim::simulate(scenario, scheme, congestion, 1, false).unwrap().record;
    let (first, second) = (run(), run());
    let digest = first.digest.unwrap_or_else(|| panic!("{scheme}: {:?}", first.error));
    let again = second.digest.unwrap();
    assert_eq!(digest, again, "{}/{scheme}/{congestion}: two runs differ", scenario.name);
    assert_eq!(first.events, second.events);
    format!("{}/{scheme}/{congestion} {digest}", scenario.name)
}

/// Runs of each scenario with each scheme, and of each congestion control.
fn lines() -> Vec<String> {
    let mut jobs = Vec::new();
    for scenario in scenarios() {
        for scheme in schemes(&scenario) {
            jobs.push((scenario.clone(), scheme, Congestion::CUBIC));
        }
        if scenario.name == "two-path" {
            for entry in REGISTRY.iter().filter(|entry| entry.name != Congestion::CUBIC.name()) {
                jobs.push((scenario.clone(), Scheme::FBDT, entry.name.parse().unwrap()));
            }
        }
    }
    common::all(jobs, |(scenario, scheme, congestion)| line(&scenario, &scheme, congestion))
}

#[test]
fn digests_are_those_committed() {
    let lines = lines();
    let text = lines.iter().fold(String::new(), |mut text, line| {
        writeln!(text, "{line}").unwrap();
        text
    });
    if std::env::var_os(BLESS).is_some() {
        std::fs::write(file(), &text).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(file()).unwrap();
    let old: Vec<&str> = committed.lines().collect();
    let differ = lines.iter().filter(|line| !old.contains(&line.as_str()));
    let mut differ: Vec<String> = differ.cloned().collect();
    let gone = old.iter().filter(|old| !lines.iter().any(|line| line == *old));
    differ.extend(gone.map(|old| format!("{old} (committed)")));
    assert!(
        differ.is_empty(),
        "runs do not happen as committed; if that is meant, write tests/digests.txt anew with \
         {BLESS}=1 cargo test -p weftline-sim --test digests\n{}",
        differ.join("\n")
    );
}
