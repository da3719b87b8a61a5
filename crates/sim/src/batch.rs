//! Many runs at once: one run is on one thread, and different runs are on all of them. Results come
//! back in the order of the jobs, whatever order they finished in.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, mpsc};

use weftline_scenario::{Congestion, RunRecord, SCHEMA_VERSION, Scenario, Scheme};

use crate::record::{Outcome, simulate_plan_unless};
use crate::{Plan, SimError};

/// One run to do.
#[derive(Clone, Debug)]
pub struct Job {
    /// The scenario.
    pub scenario: Scenario,
    /// The scheme under test.
    pub scheme: Scheme,
    /// Its congestion control.
    pub congestion: Congestion,
    /// The seed.
    pub seed: u64,
    /// Swept keys and their values, for the record.
    pub case: BTreeMap<String, String>,
    /// Whether to keep time series.
    pub series: bool,
}

impl Job {
    /// Does it. What cannot be run, and a bug that shows in a run, is a record that says so: the
    /// other runs go on. `None` if `stop` ended it early.
    pub fn run(&self, stop: &AtomicBool) -> Option<Outcome> {
        self.run_changed(stop, |plan| plan)
    }

    /// The same with another plan than that of its scenario and scheme: one with parts of a program's
    /// own.
    pub fn run_changed(
        &self,
        stop: &AtomicBool,
        change: impl FnOnce(Plan) -> Plan,
    ) -> Option<Outcome> {
        let Self { scenario, scheme, congestion, seed, case, series } = self;
        let run = || {
            let plan = Plan { series: *series, ..Plan::new(scenario, scheme, *congestion, *seed)? };
            simulate_plan_unless(stop, change(plan), scenario, scheme, *congestion)
        };
        let mut outcome = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(SimError::Stopped)) => return None,
            Ok(Err(error)) => self.failed(&error.to_string()),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a bug");
                self.failed(&format!("the simulator failed: {text}; please report it"))
            }
        };
        outcome.record.case.clone_from(case);
        Some(outcome)
    }

    /// What stands for it where it cannot be done: a record that says why.
    pub fn failed(&self, error: &str) -> Outcome {
        Outcome::without_run(RunRecord {
            schema: SCHEMA_VERSION,
            backend: "sim".to_owned(),
            scenario: self.scenario.name.clone(),
            scheme: self.scheme.to_string(),
            congestion: self.congestion.to_string(),
            workload: self.scenario.workload.to_string(),
            case: self.case.clone(),
            seed: self.seed,
            duration_s: self.scenario.duration.as_secs_f64(),
            warmup_s: self.scenario.warmup.as_secs_f64(),
            error: Some(error.to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            ..RunRecord::default()
        })
    }
}

/// Runs that may wait for an earlier one to be handed out, for each thread.
const AHEAD: usize = 64;

/// Does all `jobs` on `threads` threads and hands the outcomes to `take` in the order of the jobs.
/// Ends early when `take` says `false`; runs under way are given up then, and what has been handed
/// out is a prefix.
pub fn run_all<J>(jobs: J, threads: usize, take: impl FnMut(Outcome) -> bool)
where
    J: Iterator<Item = Job> + Send,
{
    run_all_unless(&AtomicBool::new(false), jobs, threads, take);
}

/// The same, and ends early as well when `stop` is set meanwhile, by a signal or another thread.
pub fn run_all_unless<J>(
    stop: &AtomicBool,
    jobs: J,
    threads: usize,
    take: impl FnMut(Outcome) -> bool,
) where
    J: Iterator<Item = Job> + Send,
{
    run_each_unless(stop, jobs, threads, |job| job.run(stop), take);
}

/// The same, where `run` is how one is done; `None` ends the thread that it is on.
pub fn run_each_unless<J>(
    stop: &AtomicBool,
    jobs: J,
    threads: usize,
    run: impl Fn(Job) -> Option<Outcome> + Sync,
    mut take: impl FnMut(Outcome) -> bool,
) where
    J: Iterator<Item = Job> + Send,
{
    let jobs = Mutex::new(jobs.enumerate());
    let next = || jobs.lock().ok()?.next();
    // Bounded, so that finished runs do not pile up behind a slow reader.
    let (done, outcomes) = mpsc::sync_channel(threads.max(1) * AHEAD);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (done, next, run) = (done.clone(), &next, &run);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed)
                    && let Some((index, job)) = next()
                    && let Some(outcome) = run(job)
                    && done.send((index, outcome)).is_ok()
                {}
            });
        }
        drop(done);
        let mut waiting = BTreeMap::new();
        let mut expected = 0;
        for (index, outcome) in outcomes {
            waiting.insert(index, outcome);
            while let Some(outcome) = waiting.remove(&expected) {
                expected += 1;
                if !take(outcome) {
                    stop.store(true, Ordering::Relaxed);
                    return;
                }
            }
        }
    });
}
