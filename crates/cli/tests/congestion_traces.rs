//! The BPF controls over the lab's links beside the simulator's on the same links, which lose the
//! same packets: the same sawtooth.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::path::{Path, PathBuf};

use common::{alone, run};
use weftline_bpf::IS_BUILT;
use weftline_judged::{until_enough, verdict};
use weftline_scenario::{SeriesReader, read_runs};

/// 50 segments fit the path; the queue takes what is more. Losses end slow start, then come so that
/// windows are well above the path's product.
const LINK: &str = r#"
name = "sawtooth"
duration = "14s"

[[path]]
name = "link"
rate = "10Mbps"
delay = "30ms"
queue = "400packets"
loss = { nth = [150, 2500, 5000, 7500, 10000] }
"#;

const CONTROLS: [&str; 4] = ["compound", "lia", "olia", "balia"];

/// The losses after the one that ends slow start.
const TEETH: usize = 4;

/// A tolerance of 10 %, and of the grain in which both are read.
fn close(lab: f64, sim: f64, grain: f64) -> bool {
    (lab - sim).abs() <= 0.1 * sim + grain
}

/// A reduction of the window.
#[derive(Clone, Copy, Debug)]
struct Tooth {
    /// When, in seconds.
    at: f64,
    /// The window before and after, in segments.
    peak: f64,
    trough: f64,
}

/// The window of a path in steps of 100 ms.
fn windows(dir: &Path, path: &str) -> Vec<(f64, f64)> {
    let mut reader = SeriesReader::open(dir).unwrap();
    let mut windows = Vec::new();
    while let Some(row) = reader.next_row().unwrap() {
        if row.sample.path == path && row.sample.metric == "cwnd_segments" {
            windows.push((row.sample.time_s, row.sample.value));
        }
    }
    windows
}

/// The reductions from the first second on. What a window falls to is read three steps after the
/// peak: recovery takes a round trip, in which Linux lowers the window bit by bit.
fn teeth(windows: &[(f64, f64)]) -> Vec<Tooth> {
    const SETTLED: usize = 3;
    let mut teeth: Vec<Tooth> = Vec::new();
    for (place, &(at, peak)) in windows.iter().enumerate() {
        let Some(&(_, trough)) = windows.get(place + SETTLED) else { break };
        let falls = windows.get(place + 1).is_some_and(|(_, next)| *next < 0.97 * peak);
        let is_new = teeth.last().is_none_or(|last| at - last.at > 0.6);
        if at > 1.0 && falls && trough < 0.7 * peak && is_new {
            teeth.push(Tooth { at, peak, trough });
        }
    }
    teeth
}

/// The teeth of a run in one world.
fn sawtooth(world: &str, scenario: &Path, control: &str, dir: &Path) -> Vec<Tooth> {
    let scenario = scenario.to_str().unwrap();
    let out = dir.to_str().unwrap();
    let what = [world, "run", scenario, "--scheme", "single:link"];
    let output = run(&[&what[..], &["--congestion", control, "--out", out]].concat());
    // 4: the emulator was late, which the record says too.
    let ended = matches!(output.status.code(), Some(0 | 4));
    assert!(ended, "{}", String::from_utf8_lossy(&output.stderr));
    teeth(&windows(dir, "link"))
}

fn compare(lab: &[Tooth], sim: &[Tooth]) -> Result<(), String> {
    if (lab.len(), sim.len()) != (TEETH, TEETH) {
        return Err(format!("{} and {} teeth for {TEETH} losses", lab.len(), sim.len()));
    }
    for (lab, sim) in lab.iter().zip(sim) {
        if !(close(lab.peak, sim.peak, 1.0) && close(lab.trough, sim.trough, 1.0)) {
            return Err(format!("{lab:?} for {sim:?}"));
        }
    }
    for (lab, sim) in lab.windows(2).zip(sim.windows(2)) {
        let (lab_period, sim_period) = (lab[1].at - lab[0].at, sim[1].at - sim[0].at);
        if !close(lab_period, sim_period, 0.1) {
            return Err(format!("a period of {lab_period:.1} s for {sim_period:.1} s"));
        }
    }
    Ok(())
}

/// Whether the controls can be loaded and the lab runs here; in CI they must.
fn possible() -> bool {
    let possible = IS_BUILT && rustix::process::geteuid().is_root();
    if !possible {
        assert!(std::env::var_os("CI").is_none(), "CI is root, with the feature bpf");
        eprintln!("skipped; run 'sudo -E cargo test -p weftline-cli --features bpf'");
    }
    possible
}

/// A directory with the scenario in it, and its file.
fn scenario(text: &str) -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sawtooth.toml");
    std::fs::write(&file, text).unwrap();
    (dir, file)
}

#[test]
fn every_control_carries_data_in_the_lab() {
    if !possible() {
        return;
    }
    let _alone = alone();
    let (dir, scenario) = scenario(&LINK.replace("14s", "3s"));
    for control in CONTROLS {
        let mut runs = 0;
        let make = || {
            runs += 1;
            let out = dir.path().join(format!("{control}-{runs}"));
            sawtooth("lab", &scenario, control, &out);
            let record = read_runs(&out).unwrap().remove(0);
            assert_eq!(record.congestion, control);
            let has_windows = windows(&out, "link").iter().any(|&(_, window)| window > 0.0);
            Some((record, has_windows))
        };
        until_enough(make, |(record, has_windows)| {
            let is_whole = record.completed && record.error.is_none();
            is_whole && record.bytes_delivered.unwrap_or_default() > 0 && *has_windows
        });
    }
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn sawtooths_are_the_simulators() {
    if !possible() {
        return;
    }
    let _alone = alone();
    let (dir, scenario) = scenario(LINK);
    for control in CONTROLS {
        let sim = sawtooth("sim", &scenario, control, &dir.path().join(format!("sim-{control}")));
        let mut attempts = 0;
        verdict(&format!("the sawtooth of {control}"), |attempt| {
            attempts += 1;
            let out = dir.path().join(format!("lab-{control}-{attempts}"));
            let lab = sawtooth("lab", &scenario, control, &out);
            if !read_runs(&out).unwrap()[0].is_valid() {
                attempt.disturbed("the emulator was late");
            }
            eprintln!("{control}: lab {lab:.1?}\n{control}: sim {sim:.1?}");
            compare(&lab, &sim).unwrap_or_else(|error| panic!("{control}: {error}; sim {sim:.1?}"));
            Some(())
        });
    }
}
