//! `weftline probe` over emulated links of known rate: how near what it measures comes.
//!
//! How near is judged by `make test-lab`; `sudo -E scripts/test-lab _measured` prints the tables of
//! docs/probe.md.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use common::{Daemon, PATIENCE, run_alone};

use weftline_core::Bitrate;
use weftline_judged::{Attempt, verdict};
use weftline_lab::LabError;
use weftline_lab::emulator::Start;
use weftline_lab::testbed::{PathLinks, Testbed};
use weftline_lab::topology::End;
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};
use weftline_scenario::{RateSpec, Scenario};

const PORT: u16 = 4434;

/// One world at a time: they measure time.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn link(rate: RateTrace) -> LinkConfig {
    LinkConfig {
        rate,
        delay: Duration::from_millis(2),
        jitter: Duration::ZERO,
        queue: QueueLimit::Packets(1000),
        loss: LossModel::None,
    }
}

fn constant(mbps: u64) -> LinkConfig {
    link(RateTrace::constant(Bitrate::mbps(mbps)))
}

/// Builds the world; `None`, after saying how to run the test, where the lab cannot run. In CI it
/// must be able to.
fn world(down: LinkConfig, up: LinkConfig, start: Start) -> Option<Testbed> {
    let path = PathLinks { name: "radio".to_owned(), down, up };
    match Testbed::build(vec![path], "cubic", 1, start) {
        Ok(testbed) => Some(testbed),
        Err(LabError::NotPossible { what, remedy }) => {
            assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
            eprintln!("skipped: {what}; run 'sudo -E cargo test -p weftline-cli --test probe_lab'");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn program(mut command: Command, args: &[&str]) -> Command {
    command.args(args).env_remove("RUST_LOG");
    command
}

/// What `probe run` of `args` says over `testbed`, as JSON, or why it fails.
fn measure(testbed: &Testbed, args: &[&str]) -> Result<Vec<serde_json::Value>, String> {
    let binary = assert_cmd::cargo::cargo_bin!("weftline");
    let address = testbed.address(0, End::Server, PORT).to_string();
    let args = [&["probe", "run", &address, "--json"], args].concat();
    let serve = ["probe", "serve", "--listen", &address, "--log-level", "warn"];
    let mut server = Daemon::spawn(&mut program(testbed.server.command(binary), &serve));
    server.listening();
    let output = run_alone(&mut program(testbed.client.command(binary), &args));
    let errors = String::from_utf8(output.stderr).unwrap();
    eprint!("{errors}");
    if !output.status.success() {
        return Err(errors);
    }
    let out = String::from_utf8(output.stdout).unwrap();
    Ok(out.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Measures again and again until it shows enough: in a moment in which this machine stands still, no train
/// comes, or too late for the server.
fn measure_until(
    testbed: &Testbed,
    args: &[&str],
    enough: impl Fn(&Result<Vec<serde_json::Value>, String>) -> bool,
) {
    let began = Instant::now();
    loop {
        let measured = measure(testbed, args);
        if enough(&measured) {
            return;
        }
        if let Err(errors) = &measured {
            let is_late = ["no train", "the time is over"].iter().any(|why| errors.contains(why));
            assert!(is_late, "{args:?}: {errors}");
        }
        assert!(began.elapsed() < PATIENCE, "{args:?}: {measured:?}");
    }
}

/// Says so if the emulator was late: what was measured means nothing.
fn in_time(attempt: &Attempt, testbed: &Testbed) {
    if !testbed.emulator.report().unwrap().valid() {
        attempt.disturbed("the emulator was late");
    }
}

fn rates(lines: &[serde_json::Value], direction: &str) -> Vec<f64> {
    let of = lines.iter().filter(|line| line["direction"] == direction);
    of.filter_map(|line| line["rate_mbps"].as_f64()).collect()
}

/// Mean, standard deviation, and 5th, 50th, 95th percentile.
fn spread(mut values: Vec<f64>) -> [f64; 5] {
    values.sort_by(f64::total_cmp);
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / count).sqrt();
    let at = |q: f64| values[((count - 1.0) * q).round() as usize];
    [mean, deviation, at(0.05), at(0.5), at(0.95)]
}

#[test]
fn a_link_is_measured_both_ways() {
    let _alone = alone();
    let Some(testbed) = world(constant(20), constant(20), Start::Explicit) else { return };
    measure_until(&testbed, &["--duration", "5s", "--direction", "both"], |measured| {
        let has =
            |way| measured.iter().any(|lines| rates(lines, way).iter().any(|&rate| rate > 0.0));
        has("down") && has("up")
    });
}

/// Trains over links of constant rate, both ways. A train at 1 Gb/s is over in a third of a
/// millisecond, and what disturbs the emulator for so long shows nowhere else: so a run that misses
/// is measured twice more, and the middle of the three counts.
#[test]
#[ignore = "has a bound of time: make test-lab"]
fn constant_rates_are_measured() {
    let _alone = alone();
    println!("| rate | way | trains | mean | sd | p5 | p50 | p95 |");
    for (mbps, tolerance) in [(5, 0.01), (20, 0.01), (100, 0.01), (500, 0.02), (1000, 0.03)] {
        verdict(&format!("the probe measures {mbps} Mb/s"), |attempt| {
            let fits = |errors: &[f64; 4]| errors.iter().all(|error| error.abs() < tolerance);
            let mut runs = vec![constant_rate(attempt, mbps)?];
            if fits(&runs[0]) {
                return Some(());
            }
            for _ in 0..2 {
                runs.push(constant_rate(attempt, mbps)?);
            }
            let middle = [0, 1, 2, 3].map(|value| {
                let mut three: Vec<f64> = runs.iter().map(|run| run[value]).collect();
                three.sort_by(f64::total_cmp);
                three[1]
            });
            assert!(fits(&middle), "{mbps} Mb/s, mean and median down and up: {runs:?}");
            Some(())
        });
    }
}

/// One run over links of that rate: the errors of mean and median, down and up.
fn constant_rate(attempt: &Attempt, mbps: u64) -> Option<[f64; 4]> {
    let testbed = world(constant(mbps), constant(mbps), Start::Explicit)?;
    let lines = measure(&testbed, &["--duration", "3s", "--direction", "both"]);
    in_time(attempt, &testbed);
    let lines = lines.unwrap();
    let [down, up] = ["down", "up"].map(|way| errors(mbps, way, &rates(&lines, way)));
    Some([down[0], down[1], up[0], up[1]])
}

/// By how much mean and median of a way's trains miss the link's rate, as shares of it.
fn errors(mbps: u64, way: &str, rates: &[f64]) -> [f64; 2] {
    let count = rates.len();
    let [mean, sd, p5, p50, p95] = spread(rates.to_vec());
    println!("| {mbps} | {way} | {count} | {mean:.2} | {sd:.2} | {p5:.2} | {p50:.2} | {p95:.2} |");
    // A train that waited for the emulator is one of hundreds.
    let middle = rates.iter().copied().filter(|rate| (p5..=p95).contains(rate)).collect();
    let [mean, ..] = spread(middle);
    [mean, p50].map(|value| value / mbps as f64 - 1.0)
}

/// A radio link that changes every 10 ms, in the middle between two trains, and stands still for a
/// while.
fn mobile() -> (RateTrace, Duration) {
    let ms = Duration::from_millis;
    let mut rng = weftline_core::rng::Rng::stream(7, "probe");
    let mut steps = vec![(Duration::ZERO, Bitrate::mbps(400))];
    let mut rate: f64 = 400.0;
    for step in 0..300_u64 {
        // Between 20 and 1000 Mb/s, by up to a quarter a step.
        rate = (rate * (1.0 + 0.25 * (2.0 * rng.unit_f64() - 1.0))).clamp(20.0, 1000.0);
        let rate = match step {
            120..150 => Bitrate::ZERO,
            _ => Bitrate::kbps((rate * 1e3) as u64),
        };
        steps.push((ms(5 + 10 * step), rate));
    }
    let period = ms(3005);
    (RateTrace::from_steps(steps, period).unwrap(), period)
}

/// A recorded trace beside the one of the link. The middle one of three counts: a train or two that
/// a short fade of the machine spoils is no fault.
#[test]
#[ignore = "has a bound of time: make test-lab"]
fn a_changing_rate_is_recorded() {
    let _alone = alone();
    verdict("the probe records a changing rate", |attempt| {
        let (mut found, mut stood_still) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (figures, still) = changing_rate(attempt)?;
            found.push(figures);
            stood_still.push(still);
        }
        found.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let (correlation, error) = found[1];
        assert!(correlation > 0.98 && error < 6.0, "{found:?}");
        stood_still.sort_unstable();
        assert!((25..=32).contains(&stood_still[1]), "{stood_still:?}");
        Some(())
    });
}

/// One recording: its correlation with the link's trace and the mean error in per cent, and for how
/// many of the 30 steps in which the link stood still it says so.
fn changing_rate(attempt: &Attempt) -> Option<((f64, f64), usize)> {
    let (trace, _) = mobile();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rate.csv");
    let testbed = world(link(trace.clone()), constant(100), Start::FirstData(1024))?;
    let args = ["--duration", "2900ms", "--interface", "radio", "--out", file.to_str().unwrap()];
    let measured = measure(&testbed, &args);
    in_time(attempt, &testbed);
    assert!(!measured.unwrap().is_empty());
    let recorded = load_trace(&file);
    // A train is measured over some milliseconds, and a row stands for it from its beginning:
    // rows begin anywhere within the trace's steps, later by the same time throughout.
    let step = Duration::from_millis(10);
    let aligned = |late: Duration| -> Vec<(f64, f64)> {
        let at = (0..280).map(|n| step * n);
        let pair =
            |at| (trace.rate_at(at).as_mbps_f64(), recorded.rate_at(at + late).as_mbps_f64());
        at.map(pair).collect()
    };
    let lates = (1..10).map(Duration::from_millis);
    let best = lates.map(|late| (compare(&aligned(late)), late));
    let best = best.max_by(|(one, _), (other, _)| one.0.total_cmp(&other.0));
    let ((correlation, error), late) = best.unwrap();
    let samples = aligned(late);
    println!(
        "| correlation | mean error of the mean rate | = {correlation:.4} | {error:.2} % |, {late:?}"
    );
    let still = samples.iter().filter(|(_, recorded)| *recorded == 0.0).count();
    let zero = |&(_, (_, recorded)): &(usize, &(f64, f64))| *recorded == 0.0;
    let steps = samples.iter().enumerate().filter(zero).map(|(n, _)| n).collect::<Vec<_>>();
    println!("0 for {still} steps, {steps:?}, of the 30 in which the link stood still");
    Some(((correlation, error), still))
}

/// An interface that takes less than a train's packets, at either end.
#[test]
fn packets_larger_than_an_interface_takes_are_named() {
    let _alone = alone();
    let Some(testbed) = world(constant(100), constant(100), Start::Explicit) else { return };
    let set = |end: &weftline_lab::netns::Netns, mtu| {
        let args = ["link", "set", "dev", "radio", "mtu", mtu];
        assert!(end.command("ip").args(args).status().unwrap().success());
    };
    let short = ["--duration", "500ms"];
    set(&testbed.server, "1400");
    let fails = |args: &[&str], why: &str| {
        measure_until(&testbed, args, |measured| {
            measured.as_ref().expect_err("it is too long").contains(why)
        });
    };
    fails(&short, "packets of 1500 bytes are larger than its interface takes");
    measure_until(&testbed, &["--duration", "500ms", "--size", "1400"], Result::is_ok);
    set(&testbed.server, "1500");
    set(&testbed.client, "1400");
    let up = ["--duration", "500ms", "--direction", "up"];
    fails(&up, "larger than the interface takes; give a smaller --size");
}

/// The trace in `file`, read as a scenario's.
fn load_trace(file: &Path) -> RateTrace {
    let scenario = file.with_file_name("recorded.toml");
    let text = "name = \"recorded\"\nduration = \"1s\"\n[[path]]\nname = \"a\"\ndelay = \"2ms\"\n\
                trace = { file = \"rate.csv\", format = \"csv\" }\n[workload]\nkind = \"bulk\"\n";
    std::fs::write(&scenario, text).unwrap();
    let RateSpec::File(file) = Scenario::load(&scenario).unwrap().paths[0].rate.clone() else {
        panic!("a trace from a file")
    };
    RateTrace::clone(&file.trace)
}

/// Pearson's correlation, and the mean absolute error over the mean, in per cent.
fn compare(samples: &[(f64, f64)]) -> (f64, f64) {
    let count = samples.len() as f64;
    let mean = |of: &dyn Fn(&(f64, f64)) -> f64| samples.iter().map(of).sum::<f64>() / count;
    let (a, b) = (mean(&|s| s.0), mean(&|s| s.1));
    let covariance = mean(&|s| (s.0 - a) * (s.1 - b));
    let variances = mean(&|s| (s.0 - a).powi(2)) * mean(&|s| (s.1 - b).powi(2));
    (covariance / variances.sqrt(), mean(&|s| (s.0 - s.1).abs()) / a * 100.0)
}
