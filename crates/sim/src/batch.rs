//! Many runs at once: one run is on one thread, and different runs are on all of them. Results come
//! back in the order of the jobs, whatever order they finished in.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, mpsc};

use weftline_scenario::{Congestion, RunRecord, SCHEMA_VERSION, Scenario, Scheme};

use crate::record::{Outcome, simulate};

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
    /// other runs go on.
    pub fn run(&self) -> Outcome {
        let Self { scenario, scheme, congestion, seed, case, series } = self;
        let run = || simulate(scenario, scheme, *congestion, *seed, *series);
        let mut outcome = match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(outcome)) => outcome,
            Ok(Err(error)) => self.failed(&error.to_string()),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a bug");
                self.failed(&format!("the simulator failed: {text}; please report it"))
            }
        };
        outcome.record.case.clone_from(case);
        outcome
    }

    fn failed(&self, error: &str) -> Outcome {
        Outcome::without_run(RunRecord {
            schema: SCHEMA_VERSION,
            world: "sim".to_owned(),
            scenario: self.scenario.name.clone(),
            scheme: self.scheme.to_string(),
            congestion: self.congestion.to_string(),
            workload: self.scenario.workload.to_string(),
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
/// Ends early when `take` says `false`; what has been handed out by then is a prefix.
pub fn run_all<J>(jobs: J, threads: usize, mut take: impl FnMut(Outcome) -> bool)
where
    J: Iterator<Item = Job> + Send,
{
    let jobs = Mutex::new(jobs.enumerate());
    let next = || jobs.lock().ok()?.next();
    // Bounded, so that finished runs do not pile up behind a slow reader.
    let (done, outcomes) = mpsc::sync_channel(threads.max(1) * AHEAD);
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                while let Some((index, job)) = next() {
                    if done.send((index, job.run())).is_err() {
                        return;
                    }
                }
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
                    return;
                }
            }
        }
    });
}
