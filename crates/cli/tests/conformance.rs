//! The simulator beside the kernel: the same scenarios, schemes and seeds in both worlds through
//! the program, and how far their results may be apart.
//!
//! Both worlds draw a link's losses from the same stream, so with the same seed they lose the same
//! packets by number: what differs is what the endpoints make of it. The cases, the tolerances and
//! their reasons are in `conformance/cases.toml`.
//!
//! `make test-lab` runs every case in both worlds with three seeds, and the mean decides. A case that is
//! out of tolerance is run again with others, nothing beside it, until five runs were quiet, and then
//! the mean of all decides: noise of the machine goes away with repetition, an error of a model does
//! not. Runs on a machine that was not quiet do not count: a case of which fewer than three were, of up
//! to five, is inconclusive.
//!
//! `sudo -E scripts/test-lab agrees` prints the table; `WEFTLINE_CONFORMANCE=fbdt` runs only cases
//! with that in their name, and `WEFTLINE_CONFORMANCE_SEEDS=5` begins with so many seeds.
//! `WEFTLINE_KEEP_KERNEL=1` writes what the kernel did in `conformance/kernel.jsonl`, where `make
//! test` holds the simulator against it by the same tolerances, and the tables of docs/validation.md
//! against both; `WEFTLINE_BLESS=1` writes these anew.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;
#[path = "conformance/page.rs"]
mod page;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use weftline_core::Bitrate;
use weftline_judged::{MISSES, Verdict, Watch, record, until_enough};
use weftline_lab::LabError;
use weftline_lab::emulator::Start;
use weftline_lab::testbed::{PathLinks, Testbed};
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};
use weftline_scenario::RunRecord;

/// Lab runs at once: each needs a tenth of a core or two at the rates of the cases.
const AT_ONCE: usize = 3;
/// Seeds whose mean decides, and of how many runs where that of the first was out of tolerance.
const SEEDS: u64 = 3;
const SEEDS_MAX: u64 = 5;

// ---- the table ----

/// `cases.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    group: Vec<Group>,
    known: Vec<Known>,
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

/// A figure that is known to be apart: an expected failure. The simulator's is held to its numbers by
/// `make test`, so whoever mends it takes the entry out.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    case: String,
    figure: String,
    /// Between which each world's figure lies.
    sim: [f64; 2],
    lab: [f64; 2],
    why: String,
}

impl Known {
    fn has(&self, sim: f64, lab: f64) -> bool {
        let within = |[low, high]: [f64; 2], value: f64| low <= value && value <= high;
        within(self.sim, sim) && within(self.lab, lab)
    }
}

#[derive(Clone, Debug)]
struct Case {
    scenario: String,
    scheme: String,
    congestion: String,
    workload: String,
    within: BTreeMap<String, f64>,
    known: Vec<Known>,
    why: String,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance")
}

fn the_table() -> Table {
    let text = std::fs::read_to_string(directory().join("cases.toml")).unwrap();
    toml::from_str(&text).unwrap()
}

fn cases() -> Vec<Case> {
    let table = the_table();
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
                            known: Vec::new(),
                            why: group.why.clone(),
                        });
                    }
                }
            }
        }
    }
    for known in table.known {
        let case = cases.iter_mut().find(|case| case.name() == known.case);
        case.unwrap_or_else(|| panic!("no case '{}'", known.case)).known.push(known);
    }
    cases
}

impl Case {
    fn name(&self) -> String {
        format!("{} {} {} {}", self.scenario, self.scheme, self.congestion, self.workload)
    }

    fn args(&self, world: &str, seed: u64) -> Vec<String> {
        let file = directory().join(format!("{}.toml", self.scenario));
        let words = format!(
            "{world} run {} --scheme {} --congestion {} --workload {} --seed {seed} --json",
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
    /// They are apart as it is written down.
    is_known: bool,
}

impl Compared {
    fn agrees(&self) -> bool {
        (self.sim - self.lab).abs() <= self.room
    }

    fn holds(&self) -> bool {
        self.agrees() || self.is_known
    }
}

/// The mean of a figure over the records of a case.
fn mean(case: &Case, figure: Figure, records: &[&RunRecord]) -> f64 {
    let (name, _, of) = figure;
    let values: Option<Vec<f64>> = records.iter().map(|record| of(record)).collect();
    let values = values.unwrap_or_else(|| panic!("{}: a record without {name}", case.name()));
    values.iter().sum::<f64>() / values.len() as f64
}

/// The figures that the case names.
fn named(case: &Case) -> impl Iterator<Item = (Figure, f64)> {
    FIGURES.into_iter().filter_map(|figure| Some((figure, *case.within.get(figure.0)?)))
}

/// How far the simulator's figure may be from the lab's.
fn room((figure, tolerance): (Figure, f64), lab: f64) -> f64 {
    match figure.1 {
        Measure::Ratio { besides } => tolerance * lab + besides,
        Measure::Difference => tolerance,
    }
}

/// Both worlds' figures for a case: means over the simulator's records, and what `lab` says.
fn beside(case: &Case, sim: &[&RunRecord], lab: impl Fn(Figure) -> f64) -> Vec<Compared> {
    let compared = |(figure, tolerance): (Figure, f64)| {
        let (sim, lab) = (mean(case, figure, sim), lab(figure));
        let room = room((figure, tolerance), lab);
        let is_known =
            case.known.iter().any(|known| known.figure == figure.0 && known.has(sim, lab));
        Compared { figure: figure.0, sim, lab, room, is_known }
    };
    named(case).map(compared).collect()
}

/// The figures that the case names, means over its runs.
fn compare(case: &Case, runs: &[&Runs]) -> Vec<Compared> {
    let lab: Vec<&RunRecord> = runs.iter().map(|run| &run.lab).collect();
    let sim: Vec<&RunRecord> = runs.iter().map(|run| &run.sim).collect();
    beside(case, &sim, |figure| mean(case, figure, &lab))
}

// ---- what the kernel did ----

/// What a kernel did in a case: a line of `conformance/kernel.jsonl`.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Measured {
    case: String,
    /// Its release.
    kernel: String,
    /// The seeds of its runs.
    seeds: Vec<u64>,
    /// Of every figure that the records have, each run's.
    figures: BTreeMap<String, Vec<f64>>,
}

impl Measured {
    /// The mean over its runs.
    fn mean(&self, figure: &str) -> f64 {
        let values = self.figures.get(figure).unwrap_or_else(|| {
            panic!("{}: no {figure}; measure it: WEFTLINE_KEEP_KERNEL=1", self.case)
        });
        values.iter().sum::<f64>() / values.len() as f64
    }
}

fn measured_file() -> PathBuf {
    directory().join("kernel.jsonl")
}

fn measured() -> Vec<Measured> {
    let text = std::fs::read_to_string(measured_file()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Whether a case agrees, or is as far off as is known, by enough runs.
fn is_result(case: &Case, done: &Done) -> bool {
    matches!(done.verdict(case), Verdict::Pass | Verdict::Known)
}

/// Writes what the kernel did in the cases that agree; what was there of the others stays.
fn keep(cases: &[Case], done: &[Done]) {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let mut all: BTreeMap<String, Measured> =
        measured().into_iter().map(|one| (one.case.clone(), one)).collect();
    for (case, done) in cases.iter().zip(done).filter(|(case, done)| is_result(case, done)) {
        let runs = done.counting();
        let lab: Vec<&RunRecord> = runs.iter().map(|run| &run.lab).collect();
        // Six places are more than any two runs have in common.
        let round = |value: f64| (value * 1e6).round() / 1e6;
        let figures = FIGURES.into_iter().filter_map(|(name, _, of)| {
            let values: Option<Vec<f64>> = lab.iter().map(|run| of(run).map(round)).collect();
            Some((name.to_owned(), values?))
        });
        let seeds = runs.iter().map(|run| run.seed).collect();
        let one = Measured {
            case: case.name(),
            kernel: kernel.clone(),
            seeds,
            figures: figures.collect(),
        };
        all.insert(case.name(), one);
    }
    let lines: Vec<String> = all.values().map(|one| serde_json::to_string(one).unwrap()).collect();
    std::fs::write(measured_file(), lines.join("\n") + "\n").unwrap();
}

// ---- runs ----

/// A run in both worlds.
#[derive(Debug)]
struct Runs {
    seed: u64,
    sim: RunRecord,
    lab: RunRecord,
    /// The machine had nothing else to do.
    quiet: bool,
}

/// What there is of a case.
#[derive(Debug, Default)]
struct Done {
    runs: Vec<Runs>,
    /// Why there is no record of a run.
    failures: Vec<String>,
    /// This kernel cannot run it.
    skipped: bool,
}

impl Done {
    fn quiet(&self) -> Vec<&Runs> {
        self.runs.iter().filter(|run| run.quiet).collect()
    }

    /// The quiet runs; all, if none was.
    fn counting(&self) -> Vec<&Runs> {
        let quiet = self.quiet();
        if quiet.is_empty() { self.runs.iter().collect() } else { quiet }
    }

    fn holds(&self, case: &Case) -> bool {
        let runs = self.counting();
        let held = || compare(case, &runs).iter().all(Compared::holds);
        !self.skipped && !runs.is_empty() && held()
    }

    fn verdict(&self, case: &Case) -> Verdict {
        let agrees = || compare(case, &self.counting()).iter().all(Compared::agrees);
        // What two runs agree on, or do not, may be chance.
        let is_decided = self.quiet().len() >= MISSES;
        match self.holds(case) {
            true if !is_decided => Verdict::Inconclusive,
            true if agrees() => Verdict::Pass,
            true => Verdict::Known,
            false if is_decided || self.failures.len() >= MISSES => Verdict::Fail,
            false => Verdict::Inconclusive,
        }
    }
}

/// Why there are no records.
#[derive(Debug)]
enum NoRun {
    /// The kernel lacks something.
    NotPossible(String),
    /// The emulator was late too often.
    Late,
    Failed(String),
}

/// The record of a case in a world.
fn record_of(case: &Case, world: &str, seed: u64) -> Result<RunRecord, NoRun> {
    let args = case.args(world, seed);
    let output = common::run(&args.iter().map(String::as_str).collect::<Vec<_>>());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("this kernel has no") {
        return Err(NoRun::NotPossible(said));
    }
    let line = String::from_utf8_lossy(&output.stdout);
    let record: RunRecord = serde_json::from_str(line.trim()).map_err(|_| NoRun::Failed(said))?;
    match &record.error {
        Some(error) => Err(NoRun::Failed(error.clone())),
        None => Ok(record),
    }
}

fn run(case: &Case, seed: u64) -> Result<Runs, NoRun> {
    let sim = record_of(case, "sim", seed)?;
    let watch = Watch::start();
    let lab = record_of(case, "lab", seed)?;
    let disturbance = watch.finish();
    if !lab.is_valid() {
        return Err(NoRun::Late);
    }
    if let Some(why) = &disturbance {
        eprintln!("{} (seed {seed}): {why}", case.name());
    }
    Ok(Runs { seed, sim, lab, quiet: disturbance.is_none() })
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
                        Err(NoRun::Late) => {
                            eprintln!("{} (seed {seed}): the emulator was late", case.name());
                        }
                        Err(NoRun::Failed(why)) => {
                            let why = why.trim().to_owned();
                            eprintln!("{} (seed {seed}): {why}", case.name());
                            done.lock().unwrap()[index].failures.push(why);
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
        for known in &case.known {
            assert!(case.within.contains_key(&known.figure), "{known:?} is not compared");
            assert!(!known.why.is_empty(), "{known:?}");
            let far = named(&case).find(|((name, ..), _)| *name == known.figure).unwrap();
            // No pair of figures that is within tolerance is called apart.
            let ([low, high], [from, to]) = (known.sim, known.lab);
            let (gap, nearest) = if from > high { (from - high, from) } else { (low - to, to) };
            let least = room(far, nearest);
            assert!(gap + 1e-9 >= least, "{known:?} may be within {least}");
        }
    }
}

/// The simulator alone, beside what a kernel did once: no machine is too slow for it.
#[test]
fn the_simulator_agrees_with_what_the_kernel_did() {
    let (cases, measured) = (cases(), measured());
    let jobs = Mutex::new(measured.iter().collect::<VecDeque<_>>());
    let (wrong, rows) = (Mutex::new(Vec::new()), Mutex::new(BTreeMap::new()));
    let check = |kernel: &Measured| {
        let case = cases.iter().find(|case| case.name() == kernel.case);
        let case = case.unwrap_or_else(|| panic!("no case '{}'", kernel.case));
        let sim: Vec<RunRecord> =
            kernel.seeds.iter().map(|&seed| record_of(case, "sim", seed).unwrap()).collect();
        let sim: Vec<&RunRecord> = sim.iter().collect();
        rows.lock().unwrap().insert(case.name(), page::row(case, &sim, kernel));
        let compared = beside(case, &sim, |figure| kernel.mean(figure.0));
        let out = compared.into_iter().filter(|one| !one.holds());
        out.for_each(|one| wrong.lock().unwrap().push((case.name(), kernel.kernel.clone(), one)));
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some(next) = jobs.lock().unwrap().pop_front() else { return };
                    check(next);
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    // A case that was never measured would be compared with nothing.
    let known: BTreeSet<&str> = measured.iter().map(|kernel| kernel.case.as_str()).collect();
    let unknown = cases.iter().map(Case::name).filter(|name| !known.contains(name.as_str()));
    assert_eq!(unknown.collect::<Vec<_>>(), [""; 0], "measure them: WEFTLINE_KEEP_KERNEL=1");
    page::check(&cases, &rows.into_inner().unwrap());
}

/// Where the worlds are known to be apart the simulator has its side of it, as far as numbers say.
#[test]
fn the_simulator_is_where_it_is_known_to_be() {
    let mut wrong = Vec::new();
    for case in cases().iter().filter(|case| !case.known.is_empty()) {
        let sim: Vec<RunRecord> =
            (1..=3).map(|seed| record_of(case, "sim", seed).unwrap()).collect();
        let sim: Vec<&RunRecord> = sim.iter().collect();
        for known in &case.known {
            let figure = FIGURES.into_iter().find(|(name, ..)| *name == known.figure).unwrap();
            let [low, high] = known.sim;
            let value = mean(case, figure, &sim);
            if !(low..=high).contains(&value) {
                wrong.push(format!("{}: {} is {value:.4}", known.case, known.figure));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}; if it is mended, take it out of cases.toml");
}

/// One connection, and one with a scheduler of ours: both worlds give a whole record.
#[test]
fn cases_run_in_both_worlds() {
    if !has_lab() {
        return;
    }
    for name in ["clean single:link cubic bulk", "two fbdt cubic bulk"] {
        let case = cases().into_iter().find(|case| case.name() == name).expect(name);
        for world in ["sim", "lab"] {
            let is_whole = |made: &Result<RunRecord, NoRun>| {
                let Ok(record) = made else { return false };
                let has_all = FIGURES.iter().all(|(figure, _, of)| {
                    !case.within.contains_key(*figure) || of(record).is_some()
                });
                record.completed && record.bytes_delivered.unwrap() > 0 && has_all
            };
            eprintln!("{name} {world}");
            until_enough(|| Some(record_of(&case, world, 1)), is_whole);
        }
    }
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn the_simulator_agrees_with_the_kernel() {
    if !has_lab() {
        return;
    }
    let only = std::env::var("WEFTLINE_CONFORMANCE").unwrap_or_default();
    let seeds = std::env::var("WEFTLINE_CONFORMANCE_SEEDS");
    let seeds: u64 = seeds.map_or(SEEDS, |text| text.parse().expect("a number of seeds"));
    let cases: Vec<Case> = cases().into_iter().filter(|case| case.name().contains(&only)).collect();
    assert!(!cases.is_empty(), "no case has '{only}' in its name");
    let done = run_cases(&cases, seeds);
    let of = |verdict: Verdict| -> Vec<(&Case, &Done)> {
        cases.iter().zip(&done).filter(|(case, done)| done.verdict(case) == verdict).collect()
    };
    // What is out of tolerance stands last, where a reader of a long log looks.
    for verdict in [Verdict::Pass, Verdict::Known, Verdict::Inconclusive, Verdict::Fail] {
        eprint!("{}", table(&of(verdict)));
    }
    for (case, done) in cases.iter().zip(&done) {
        let runs = format!("{} runs, {} quiet", done.runs.len(), done.quiet().len());
        record(&format!("conformance: {}", case.name()), done.verdict(case), &runs);
    }
    if std::env::var_os("WEFTLINE_KEEP_KERNEL").is_some() {
        keep(&cases, &done);
    }
    let failed: Vec<_> =
        of(Verdict::Fail).iter().map(|(case, done)| complaint(case, done)).collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Runs each case with `seeds` seeds, and those that are out of tolerance then, alone, with so many
/// that [`SEEDS_MAX`] runs were quiet.
fn run_cases(cases: &[Case], seeds: u64) -> Vec<Done> {
    let done = Mutex::new(cases.iter().map(|_| Done::default()).collect());
    let every = |cases: &[usize], seeds: std::ops::RangeInclusive<u64>| {
        seeds.flat_map(|seed| cases.iter().map(move |&case| (case, seed))).collect()
    };
    let all: Vec<usize> = (0..cases.len()).collect();
    run_all(cases, every(&all, 1..=seeds), AT_ONCE, &done);
    let is_open = |done: &Done, case| !done.skipped && !done.holds(case);
    // How many runs decide is settled here: the mean is not looked at again before they are done.
    let open: Vec<usize> = {
        let done = done.lock().unwrap();
        all.iter().copied().filter(|&index| is_open(&done[index], &cases[index])).collect()
    };
    // Those of which too few were quiet.
    for seed in seeds + 1..=SEEDS_MAX {
        let again: Vec<usize> = {
            let done = done.lock().unwrap();
            let few = |&index: &usize| !done[index].skipped && done[index].quiet().len() < MISSES;
            all.iter().copied().filter(|index| !open.contains(index)).filter(few).collect()
        };
        run_all(cases, every(&again, seed..=seed), AT_ONCE, &done);
    }
    // Runs that the emulator was too late for are no runs: the last seeds are for them.
    for seed in seeds + 1..=2 * SEEDS_MAX {
        let again: Vec<usize> = {
            let done = done.lock().unwrap();
            let few = |&index: &usize| (done[index].quiet().len() as u64) < SEEDS_MAX;
            open.iter().copied().filter(few).collect()
        };
        run_all(cases, every(&again, seed..=seed), 1, &done);
    }
    done.into_inner().unwrap()
}

/// What is wrong with a case, and how to look at it.
fn complaint(case: &Case, done: &Done) -> String {
    let (mut text, runs) = (case.name(), done.counting());
    if runs.is_empty() {
        let _ = write!(text, ": no run: {}", done.failures.join("; "));
    } else {
        for Compared { figure, sim, lab, .. } in
            compare(case, &runs).iter().filter(|one| !one.holds())
        {
            let _ = write!(text, ": {figure} {sim:.4} in the simulator, {lab:.4} in the lab");
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
            let Compared { figure, sim, lab, room, .. } = row;
            let _ = writeln!(
                text,
                "{:<44} {figure:<16} {sim:>9.4} {lab:>9.4} {:>6} {room:>9.4} {:>5}{}",
                case.name(),
                ratio(sim, lab),
                runs.len(),
                match (row.agrees(), row.is_known) {
                    (true, _) => "",
                    (false, true) => "  known",
                    (false, false) => "  OUT",
                },
            );
        }
    }
    text
}

fn ratio(sim: f64, lab: f64) -> String {
    if lab > 0.0 { format!("{:.2}", sim / lab) } else { "-".to_owned() }
}
