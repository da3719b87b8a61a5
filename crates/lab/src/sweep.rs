//! Sweeps in the lab: every run of a sweep file, several side by side where a machine has room for
//! them, going on where an interrupted one stopped.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use weftline_scenario::{
    Bundle, Case, Congestion, ResultsWriter, RunRecord, Sweep, VideoRecord, Workload, read_runs,
};

use crate::LabError;
use crate::child::StopFlag;
use crate::control::{self, Provided};
use crate::guest::{self, Guests};
use crate::player;
use crate::privilege;
use crate::progress::Progress;
use crate::run::{Plan, check_scenario};
use crate::series::{
    SPACING, cannot_write, check_scheme, play_controls, print_json, refuse_model, run_valid,
    summary, wait_until,
};

/// The most runs side by side: each has an emulator that wants to be on time.
const JOBS_MAX: usize = 64;

/// What to run, and where the results go.
#[derive(Clone, Debug)]
pub struct SweepOptions {
    /// The sweep.
    pub sweep: Sweep,
    /// Where the results go; runs found there are not done again, but for those that failed or are
    /// invalid.
    pub out: PathBuf,
    /// How many runs at once.
    pub jobs: usize,
    /// One JSON object per run on standard output.
    pub json: bool,
    /// No progress on standard error.
    pub quiet: bool,
    /// The program's version, for the records and what is kept beside them.
    pub version: String,
    /// The program started as the lab's endpoints and daemons.
    pub program: PathBuf,
}

/// Does every run of a sweep that has not been done; all records of it, also of earlier times.
///
/// # Errors
/// Wrong use, what this machine cannot do, an interrupt, or results that cannot be written. Runs
/// recorded before stay recorded.
pub fn run_sweep(options: &SweepOptions) -> Result<Vec<RunRecord>, LabError> {
    let SweepOptions { sweep, out, jobs, .. } = options;
    if !(1..=JOBS_MAX).contains(jobs) {
        return Err(LabError::Usage(format!("--jobs: 1 to {JOBS_MAX}")));
    }
    let mut cases = Vec::new();
    for case in sweep.cases() {
        let case = case.map_err(|error| LabError::Usage(error.to_string()))?;
        check(&case)?;
        cases.push(case);
    }
    let before = cases.len();
    let mut writer = ResultsWriter::open(out).map_err(cannot_write)?;
    let done = writer.done().map_err(cannot_write)?;
    let again = read_runs(out).map_err(cannot_write)?.len() - done.len();
    cases.retain(|case| !done.contains(&case.id()));
    let guests = guest::needed(cases.iter().map(|case| &case.scheme), &options.program)?;
    writer.begin(&bundle(options, guests.as_ref())).map_err(cannot_write)?;
    let here = |case: &&Case| case.scheme.guest_scheduler().is_none();
    if cases.iter().any(|case| here(&case)) {
        privilege::ensure()?;
    }
    let stop = StopFlag::on_signals()?;
    let progress = Progress::new(cases.len(), options.quiet);
    if cases.len() < before {
        let (there, out) = (before - cases.len(), out.display());
        progress.line(&format!("{out}: {there} of {before} runs are there already"));
    }
    if again > 0 {
        let out = out.display();
        progress.line(&format!("{out}: {again} more failed or are invalid and are done again"));
    }
    let provided = cases.iter().filter(here).map(|case| case.congestion);
    let provided = control::provide_all(provided)?;
    let controls = controls(&cases, *jobs, &stop, &progress)?;
    cases.reverse();
    let room = Room {
        options,
        stop: &stop,
        progress: &progress,
        controls: &controls,
        provided: &provided,
        guests: guests.as_ref(),
    };
    let (failure, next_start) = (None, Instant::now());
    let state = Mutex::new(State { cases, next_start, writer, failure, finished: 0 });
    std::thread::scope(|scope| {
        // A run's programs die with the thread that started them, so each thread stays to the end.
        for _ in 0..*jobs {
            scope.spawn(|| room.work(&state));
        }
    });
    drop(progress);
    let State { writer, failure, .. } = state.into_inner().unwrap_or_else(PoisonError::into_inner);
    match failure {
        Some(failure) => Err(failure),
        None => writer.finish().and_then(|()| read_runs(out)).map_err(cannot_write),
    }
}

/// What the runs are made with.
fn bundle(options: &SweepOptions, guests: Option<&Guests>) -> Bundle {
    let bundle = Bundle::of_sweep(&options.sweep, "lab", &options.version);
    match guests {
        Some(guests) => bundle.with_guests(&guests.kernel()),
        None => bundle,
    }
}

/// Refuses what the lab cannot run before anything runs.
fn check(case: &Case) -> Result<(), LabError> {
    check_scenario(&case.scenario)?;
    refuse_model(&case.scenario.workload)?;
    check_scheme(&case.scheme, &case.scenario, case.congestion)
}

/// What each player that occurs discards without links, by workload and clip.
fn controls(
    cases: &[Case],
    jobs: usize,
    stop: &StopFlag,
    progress: &Progress,
) -> Result<BTreeMap<String, VideoRecord>, LabError> {
    let mut controls = BTreeMap::new();
    for case in cases {
        let workload = case.scenario.workload;
        let name = control_name(&workload);
        if controls.contains_key(&name) {
            continue;
        }
        if let Some(control) = play_controls(&workload, jobs.min(cases.len()), stop, progress)? {
            controls.insert(name, control);
        }
    }
    Ok(controls)
}

fn control_name(workload: &Workload) -> String {
    format!("{workload:?}")
}

struct State {
    /// What is left, the next one last.
    cases: Vec<Case>,
    /// When the next player may begin.
    next_start: Instant,
    writer: ResultsWriter,
    failure: Option<LabError>,
    finished: usize,
}

impl State {
    /// When this run may begin.
    fn turn(&mut self, case: &Case) -> Instant {
        let now = Instant::now();
        if !matches!(case.scenario.workload, Workload::Player(..)) {
            return now;
        }
        let turn = self.next_start.max(now);
        self.next_start = turn + SPACING;
        turn
    }
}

fn lock<'a>(state: &'a Mutex<State>) -> MutexGuard<'a, State> {
    // A thread that panicked ends the scope with its panic.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all threads of a sweep share.
struct Room<'a> {
    options: &'a SweepOptions,
    stop: &'a StopFlag,
    progress: &'a Progress,
    controls: &'a BTreeMap<String, VideoRecord>,
    /// The congestion controls of this kernel. A guest has its own.
    provided: &'a BTreeMap<Congestion, Provided>,
    guests: Option<&'a Guests>,
}

impl Room<'_> {
    fn work(&self, state: &Mutex<State>) {
        loop {
            let mut next = lock(state);
            let case = match next.failure {
                Some(_) => return,
                None => next.cases.pop(),
            };
            let Some(case) = case else { return };
            let start = next.turn(&case);
            drop(next);
            if let Err(error) = wait_until(start, self.stop).and_then(|()| self.run(&case, state)) {
                lock(state).failure.get_or_insert(error);
            }
        }
    }

    fn run(&self, case: &Case, state: &Mutex<State>) -> Result<(), LabError> {
        let provided = self.provided.get(&case.congestion);
        let plan = Plan {
            scenario: &case.scenario,
            scheme: &case.scheme,
            congestion: case.congestion,
            in_kernel: provided.map_or(case.congestion.name(), |there| &there.kernel_name),
            seed: case.seed,
            tls: false,
            cuts: &[],
            version: &self.options.version,
            program: &self.options.program,
            observer: None,
        };
        let at = lock(state).finished;
        let alone = self.options.jobs == 1;
        let (mut record, done) =
            run_valid(&plan, self.guests, at, alone, self.stop, self.progress)?;
        record.case.clone_from(&case.case);
        let control = self.controls.get(&control_name(&case.scenario.workload));
        player::with_control(&mut record, control);
        let samples = done.samples(&plan);
        let mut state = lock(state);
        state.writer.write_run(&record, &samples).map_err(cannot_write)?;
        state.finished += 1;
        if self.options.json {
            print_json(&record)?;
        }
        self.progress.line(&format!("{}: {}", record.scenario, summary(&record)));
        Ok(())
    }
}
