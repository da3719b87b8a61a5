//! The simulator beside the kernel: the same scenarios, schemes and seeds in both worlds through
//! the program, and how far their results may be apart.
//!
//! Both worlds draw a link's losses from the same stream, so with the same seed they lose the same
//! packets by number: what differs is what the endpoints make of it. The cases, the tolerances and
//! their reasons are in `conformance/cases.toml`.
//!
//! A case whose first seed is out of tolerance is run again with others, nothing beside it, until
//! there are five, and the mean decides: noise of the machine goes away with repetition, an error
//! of a model does not. Runs of the lab during which the host of a virtual machine took its
//! processors away do not count if there are others; a case that has no others and is out of
//! tolerance is not judged, and said to be so.
//!
//! `sudo -E cargo test --release -p weftline-cli --test conformance -- --nocapture` prints the
//! table; `WEFTLINE_CONFORMANCE=fbdt` runs only cases with that in their name, and
//! `WEFTLINE_CONFORMANCE_SEEDS=3` begins with so many seeds.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde::Deserialize;
use weftline_core::Bitrate;
use weftline_lab::LabError;
use weftline_lab::emulator::Start;
use weftline_lab::load::LoadMeter;
use weftline_lab::testbed::{PathLinks, Testbed};
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};
use weftline_scenario::RunRecord;

/// Lab runs at once: each needs a tenth of a core or two at the rates of the cases.
const AT_ONCE: usize = 3;
/// Seeds after which a case that is still out of tolerance has failed.
const SEEDS_MAX: u64 = 5;

// ---- the table ----

/// `cases.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    group: Vec<Group>,
}

/// Cases with the same tolerances: each scenario with each scheme, control and workload.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Group {
    /// What the tolerances leave room for.
    why: String,
    scenarios: Vec<String>,
    schemes: Vec<String>,
    congestion: Vec<String>,
    workloads: Vec<String>,
    within: BTreeMap<String, f64>,
}

#[derive(Clone, Debug)]
struct Case {
    scenario: String,
    scheme: String,
    congestion: String,
    workload: String,
    within: BTreeMap<String, f64>,
    why: String,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

fn cases() -> Vec<Case> {
    let text = std::fs::read_to_string(directory().join("cases.toml")).unwrap();
    let table: Table = toml::from_str(&text).unwrap();
    let mut cases = Vec::new();
    for group in table.group {
        for scenario in &group.scenarios {
            for scheme in &group.schemes {
                for congestion in &group.congestion {
                    for workload in &group.workloads {
                        cases.push(Case {
                            scenario: scenario.clone(),
                            scheme: scheme.clone(),
                            congestion: congestion.clone(),
                            workload: workload.clone(),
                            within: group.within.clone(),
                            why: group.why.clone(),
                        });
                    }
                }
            }
        }
    }
    cases
}

impl Case {
    fn name(&self) -> String {
        format!("{} {} {} {}", self.scenario, self.scheme, self.congestion, self.workload)
    }

    fn args(&self, world: &str, seed: u64) -> Vec<String> {
        let file = directory().join(format!("{}.toml", self.scenario));
        // A session of the simulator has no means to connect anew over a stalled path.
        let keep = if world == "lab" { " --keep-stalled" } else { "" };
        let words = format!(
            "{world} run {} --scheme {} --congestion {} --workload {} --seed {seed} --json{keep}",
            file.to_str().unwrap(),
            self.scheme,
            self.congestion,
            self.workload,
        );
        words.split(' ').map(str::to_owned).collect()
    }
}

// ---- what is compared ----

/// How a figure of one world is held against the other's.
#[derive(Clone, Copy, Debug)]
enum Measure {
    /// A tolerance of 0.1 is a tenth of the lab's figure, and so much besides.
    Ratio { besides: f64 },
    /// A tolerance of 0.1 is a difference of 0.1.
    Difference,
}

/// A figure: its key in the table, how it is compared, and where a record has it.
type Figure = (&'static str, Measure, fn(&RunRecord) -> Option<f64>);

const FIGURES: [Figure; 10] = [
    ("goodput_mbps", Measure::Ratio { besides: 0.0 }, |run| run.goodput_mbps),
    ("completion_ms", Measure::Ratio { besides: 1.0 }, |run| Some(run.completion_s? * 1e3)),
    ("split", Measure::Difference, split),
    ("resent_share", Measure::Difference, |run| share(run, resent(run))),
    ("needless_share", Measure::Difference, |run| share(run, resent(run) - lost(run))),
    ("duplicate_share", Measure::Difference, |run| {
        Some(run.duplicate_bytes? as f64 / run.bytes_delivered? as f64)
    }),
    ("rtt_ms", Measure::Ratio { besides: 1.0 }, |run| Some(run.paths.first()?.rtt_ms?.mean)),
    // A millisecond is a tick of the source; the lab's processes are woken by a real scheduler.
    ("p50_ms", Measure::Ratio { besides: 2.0 }, |run| Some(run.in_order_delay_ms?.p50)),
    ("p99_ms", Measure::Ratio { besides: 5.0 }, |run| Some(run.in_order_delay_ms?.p99)),
    ("gap_ms", Measure::Ratio { besides: 5.0 }, |run| run.longest_gap_ms),
];

/// Share of the first path in the bytes sent.
fn split(run: &RunRecord) -> Option<f64> {
    let sent = |path: &weftline_scenario::PathRecord| path.bytes_sent.unwrap_or(0) as f64;
    let all: f64 = run.paths.iter().map(sent).sum();
    Some(sent(run.paths.first()?) / all)
}

/// Segments sent again on all paths.
fn resent(run: &RunRecord) -> f64 {
    run.paths.iter().map(|path| path.retransmitted_packets.unwrap_or(0) as f64).sum()
}

/// Packets that the links did not carry.
fn lost(run: &RunRecord) -> f64 {
    let lost = |path: &weftline_scenario::PathRecord| {
        path.lost.unwrap_or(0) as f64 + path.queue_drops.unwrap_or(0) as f64
    };
    run.paths.iter().map(lost).sum()
}

/// As a share of the packets that the links were offered.
fn share(run: &RunRecord, packets: f64) -> Option<f64> {
    let all: u64 = run.paths.iter().map(|path| path.packets.unwrap_or(0)).sum();
    (all > 0).then(|| packets / all as f64)
}

/// One figure of a case in both worlds.
#[derive(Debug)]
struct Compared {
    figure: &'static str,
    sim: f64,
    lab: f64,
    /// How far they may be apart.
    room: f64,
}

impl Compared {
    fn holds(&self) -> bool {
        (self.sim - self.lab).abs() <= self.room
    }
}

/// The figures that the case names, means over its runs.
fn compare(case: &Case, runs: &[&Runs]) -> Vec<Compared> {
    let mut compared = Vec::new();
    for (figure, measure, of) in FIGURES {
        let Some(&tolerance) = case.within.get(figure) else { continue };
        let mean = |world: fn(&Runs) -> &RunRecord| {
            let values = runs.iter().map(|&run| of(world(run)));
            let values: Vec<f64> = values.collect::<Option<_>>().unwrap_or_else(|| {
                panic!("{}: a record without {figure}", case.name());
            });
            values.iter().sum::<f64>() / values.len() as f64
        };
        let (sim, lab) = (mean(|runs| &runs.sim), mean(|runs| &runs.lab));
        let room = match measure {
            Measure::Ratio { besides } => tolerance * lab + besides,
            Measure::Difference => tolerance,
        };
        compared.push(Compared { figure, sim, lab, room });
    }
    compared
}

// ---- runs ----

/// A run in both worlds.
#[derive(Debug)]
struct Runs {
    sim: RunRecord,
    lab: RunRecord,
    /// The host left this machine its processors.
    quiet: bool,
}

/// What there is of a case.
#[derive(Debug, Default)]
struct Done {
    runs: Vec<Runs>,
    /// This kernel cannot run it.
    skipped: bool,
}

impl Done {
    /// The quiet runs; all, if none was.
    fn counting(&self) -> Vec<&Runs> {
        let quiet: Vec<_> = self.runs.iter().filter(|run| run.quiet).collect();
        if quiet.is_empty() { self.runs.iter().collect() } else { quiet }
    }

    fn holds(&self, case: &Case) -> bool {
        let runs = self.counting();
        let held = || compare(case, &runs).iter().all(Compared::holds);
        self.skipped || (!runs.is_empty() && held())
    }

    /// Whether a case that does not hold has failed.
    fn judged(&self) -> bool {
        self.runs.is_empty() || self.runs.iter().any(|run| run.quiet)
    }
}

/// Why there are no records.
#[derive(Debug)]
enum NoRun {
    /// The kernel lacks something.
    NotPossible(String),
    Failed(String),
}

fn run(case: &Case, seed: u64) -> Result<Runs, NoRun> {
    let record = |world: &str| {
        let args = case.args(world, seed);
        let output = common::run(&args.iter().map(String::as_str).collect::<Vec<_>>());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if said.contains("this kernel has no") {
            return Err(NoRun::NotPossible(said));
        }
        let line = String::from_utf8_lossy(&output.stdout);
        let record: RunRecord =
            serde_json::from_str(line.trim()).map_err(|_| NoRun::Failed(said))?;
        match (&record.error, record.emulator.as_ref().is_none_or(|emulator| emulator.valid)) {
            (Some(error), _) => Err(NoRun::Failed(error.clone())),
            (None, false) => Err(NoRun::Failed("the emulator was late too often".to_owned())),
            (None, true) => Ok(record),
        }
    };
    let sim = record("sim")?;
    let meter = LoadMeter::start();
    let lab = record("lab")?;
    Ok(Runs { sim, lab, quiet: meter.stolen().is_none() })
}

/// Runs every job (a case's number and a seed), `at_once` of them beside each other, and adds the
/// runs to `done`. Outside CI a case that this kernel cannot run is passed over.
fn run_all(cases: &[Case], jobs: VecDeque<(usize, u64)>, at_once: usize, done: &Mutex<Vec<Done>>) {
    let in_ci = std::env::var_os("CI").is_some();
    let jobs = Mutex::new(jobs);
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                loop {
                    let Some((index, seed)) = jobs.lock().unwrap().pop_front() else { return };
                    let case = &cases[index];
                    match run(case, seed) {
                        Ok(runs) => done.lock().unwrap()[index].runs.push(runs),
                        Err(NoRun::NotPossible(why)) => {
                            assert!(!in_ci, "{}: {why}", case.name());
                            eprintln!("skipped: {}: {}", case.name(), why.trim());
                            done.lock().unwrap()[index].skipped = true;
                        }
                        Err(NoRun::Failed(why)) => {
                            eprintln!("{} (seed {seed}): {}", case.name(), why.trim());
                        }
                    }
                }
            });
        }
    });
}

/// Whether this machine has a lab; in CI it must.
fn has_lab() -> bool {
    let link = || LinkConfig {
        rate: RateTrace::constant(Bitrate::mbps(10)),
        delay: Duration::from_millis(1),
        jitter: Duration::ZERO,
        queue: QueueLimit::Packets(10),
        loss: LossModel::None,
    };
    let path = PathLinks { name: "link".to_owned(), down: link(), up: link() };
    match Testbed::build(vec![path], "cubic", 1, Start::Explicit) {
        Ok(_) => true,
        Err(LabError::NotPossible { what, remedy }) => {
            assert!(std::env::var_os("CI").is_none(), "{what}; {remedy}");
            let command = "sudo -E cargo test -p weftline-cli --test conformance";
            eprintln!("skipped: {what}; run '{command}'");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_case_compares_figures_and_has_its_scenario() {
    for case in cases() {
        let file = directory().join(format!("{}.toml", case.scenario));
        weftline_scenario::Scenario::find(file.to_str().unwrap()).unwrap();
        assert!(!case.within.is_empty() && !case.why.is_empty(), "{}", case.name());
        for figure in case.within.keys() {
            assert!(FIGURES.iter().any(|(name, ..)| name == figure), "no figure '{figure}'");
        }
    }
}

#[test]
fn the_simulator_agrees_with_the_kernel() {
    if !has_lab() {
        return;
    }
    let only = std::env::var("WEFTLINE_CONFORMANCE").unwrap_or_default();
    let seeds = std::env::var("WEFTLINE_CONFORMANCE_SEEDS");
    let seeds: u64 = seeds.map_or(1, |text| text.parse().expect("a number of seeds"));
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.name().contains(&only)).collect();
    assert!(!cases.is_empty(), "no case has '{only}' in its name");
    let done = Mutex::new(cases.iter().map(|_| Done::default()).collect());
    let every = |cases: &[usize], seeds: std::ops::RangeInclusive<u64>| {
        seeds.flat_map(|seed| cases.iter().map(move |&case| (case, seed))).collect()
    };
    let all: Vec<usize> = (0..cases.len()).collect();
    run_all(&cases, every(&all, 1..=seeds), AT_ONCE, &done);
    // Runs that the emulator was too late for are no runs: the last seeds are for them.
    for seed in seeds + 1..=2 * SEEDS_MAX {
        let again: Vec<usize> = {
            let done = done.lock().unwrap();
            let few = |&index: &usize| {
                let quiet = done[index].runs.iter().filter(|run| run.quiet);
                (quiet.count() as u64) < SEEDS_MAX
            };
            let held = |index: usize| done[index].holds(&cases[index]);
            all.iter().copied().filter(few).filter(|&index| !held(index)).collect()
        };
        run_all(&cases, every(&again, seed..=seed), 1, &done);
    }
    let done = done.into_inner().unwrap();
    let (held, rest): (Vec<_>, Vec<_>) =
        cases.iter().zip(&done).partition(|(case, done)| done.holds(case));
    let (failed, disturbed): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|(_, done)| done.judged());
    // What is out of tolerance stands last, where a reader of a long log looks.
    eprint!("{}{}", table(&held), table(&disturbed));
    for (case, _) in &disturbed {
        eprintln!("not judged, the host took processors in every run: {}", case.name());
    }
    eprint!("{}", table(&failed));
    let failed: Vec<_> =
        failed.iter().map(|(case, done)| complaint(case, &done.counting())).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// What is wrong with a case, and how to look at it.
fn complaint(case: &Case, runs: &[&Runs]) -> String {
    let mut text = case.name();
    if runs.is_empty() {
        text += ": no run";
    } else {
        for Compared { figure, sim, lab, room } in compare(case, runs) {
            if (sim - lab).abs() > room {
                let _ = write!(text, ": {figure} {sim:.4} in the simulator, {lab:.4} in the lab");
            }
        }
    }
    for world in ["sim", "lab"] {
        let _ = write!(text, "\n    weftline {}", case.args(world, 1).join(" "));
    }
    text + "\n    tolerance: " + &case.why
}

fn table(cases: &[(&Case, &Done)]) -> String {
    let mut text = format!(
        "{:<44} {:<16} {:>9} {:>9} {:>6} {:>9} {:>5}\n",
        "case", "figure", "sim", "lab", "ratio", "tolerance", "runs"
    );
    for (case, done) in cases {
        let runs = done.counting();
        if runs.is_empty() {
            continue;
        }
        for row in compare(case, &runs) {
            let Compared { figure, sim, lab, room } = row;
            let _ = writeln!(
                text,
                "{:<44} {figure:<16} {sim:>9.4} {lab:>9.4} {:>6} {room:>9.4} {:>5}{}",
                case.name(),
                ratio(sim, lab),
                runs.len(),
                if row.holds() { "" } else { "  OUT" },
            );
        }
    }
    text
}

fn ratio(sim: f64, lab: f64) -> String {
    if lab > 0.0 { format!("{:.2}", sim / lab) } else { "-".to_owned() }
}
