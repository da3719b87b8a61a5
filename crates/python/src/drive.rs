//! Runs, on threads of their own while Python waits and looks for signals.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Mutex, PoisonError};
use std::thread::available_parallelism;
use std::time::Duration;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use weftline_scenario::{Congestion, Sample, Scheme};
use weftline_sim::{Job, Outcome, Plan, SimError, run_each_unless, simulate_plan_unless};

use crate::acts::Acts;
use crate::halt::Own;
use crate::own::{Part, parts_of, put};
use crate::scenario::Scenario;
use crate::table::Table;
use crate::{VERSION, wrong};

/// How often signals are looked for.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// The most threads that runs are done on.
const MOST_THREADS: usize = 1024;

/// Outcomes that may wait for Python.
const WAITING: usize = 64;

/// What came of a run.
#[pyclass(frozen)]
pub(crate) struct Run {
    outcome: Outcome,
}

#[pymethods]
impl Run {
    /// The record as a line of `runs.jsonl`, without the end of the line.
    #[getter]
    fn json(&self) -> PyResult<String> {
        serde_json::to_string(&self.outcome.record).map_err(wrong)
    }

    /// The time series: a row for each 100 ms.
    #[getter]
    fn series(&self) -> PyResult<Table> {
        Table::of_series(self.outcome.samples())
    }

    /// The same as text, a row `time_s,path,metric,value` for each value.
    fn rows(&self) -> String {
        let mut rows = String::new();
        for Sample { time_s, path, metric, value } in self.outcome.samples() {
            writeln!(rows, "{time_s},{path},{metric},{value}").expect("a String takes all");
        }
        rows
    }
}

impl Run {
    pub(crate) fn new(mut outcome: Outcome) -> Self {
        VERSION.clone_into(&mut outcome.record.version);
        Self { outcome }
    }

    pub(crate) fn samples(&self) -> impl Iterator<Item = Sample<'_>> {
        self.outcome.samples()
    }
}

/// Lets `work` run on a thread, hands what it sends to `take` on this one, and looks for signals
/// meanwhile. After an exception, of `take` or of a signal's handler, `work` finds `stop` set.
pub(crate) fn watched<T: Send>(
    py: Python<'_>,
    stop: &AtomicBool,
    work: impl FnOnce(&AtomicBool, SyncSender<T>) + Send,
    mut take: impl FnMut(Python<'_>, T) -> PyResult<()> + Send,
) -> PyResult<()> {
    let (sender, receiver) = mpsc::sync_channel(WAITING);
    // Only that a reference to it may cross to where the lock is let go.
    let receiver = Mutex::new(receiver);
    py.detach(|| {
        std::thread::scope(|scope| {
            scope.spawn(move || keeping_state(|| work(stop, sender)));
            let receiver = receiver.into_inner().map_err(|_| wrong("a thread has failed"))?;
            let result = pump(&receiver, &mut take);
            stop.store(true, Ordering::Relaxed);
            result
        })
    })
}

/// Does work that calls Python now and then. Python has a state for each of its threads, in which what is
/// local to a thread lies; without one that stays, each call would make another and throw it away.
fn keeping_state<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    Python::attach(|py| py.detach(work))
}

/// Takes what comes until all has come.
fn pump<T>(
    receiver: &Receiver<T>,
    take: &mut impl FnMut(Python<'_>, T) -> PyResult<()>,
) -> PyResult<()> {
    loop {
        match receiver.recv_timeout(LOOK_EVERY) {
            Ok(item) => Python::attach(|py| {
                take(py, item)?;
                py.check_signals()
            })?,
            Err(RecvTimeoutError::Timeout) => Python::attach(|py| py.check_signals())?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
    }
}

/// Does jobs on `threads` threads, one for each processor unless given, and hands the outcomes to
/// `take` in their order. Those with parts of Python's are done one at a time, as these may share what
/// they like; an exception in one ends all.
pub(crate) fn drive(
    py: Python<'_>,
    jobs: impl Iterator<Item = Job> + Send,
    parts: &[Py<Part>],
    threads: Option<usize>,
    take: impl FnMut(Python<'_>, Outcome) -> PyResult<()> + Send,
) -> PyResult<()> {
    let threads = match threads {
        None => available_parallelism().map_or(1, usize::from),
        Some(threads @ 1..=MOST_THREADS) => threads,
        Some(_) => return Err(wrong(format!("threads is a number from 1 to {MOST_THREADS}"))),
    };
    let (own, turn) = (Own::new(), Mutex::new(()));
    let run = |job: Job, stop: &AtomicBool| {
        let parts = parts_of(parts, &job.scheme, job.congestion);
        if parts.is_empty() {
            return job.run(stop);
        }
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let acts = Acts::new(job.scenario.paths.len());
        let changed = |plan| put(&parts, plan, &job.scenario, &own, &acts);
        let outcome = keeping_state(|| job.run_changed(stop, changed));
        if own.has_failed() {
            // A short run comes to its end all the same, and is no result.
            own.note(&where_it_was(&job));
            return None;
        }
        outcome
    };
    watched(
        py,
        own.stop(),
        |stop, sender| {
            let send = |outcome| sender.send(outcome).is_ok();
            run_each_unless(stop, jobs, threads, |job| run(job, stop), send);
        },
        take,
    )?;
    own.raised()
}

/// Which run of many it was.
fn where_it_was(job: &Job) -> String {
    let (scenario, seed) = (&job.scenario.name, job.seed);
    let set: String = job.case.iter().map(|(key, value)| format!(", {key} = {value}")).collect();
    format!("in the run {scenario}, {}, {}, seed {seed}{set}", job.scheme, job.congestion)
}

/// One run of `scheme` over `scenario`; `own` says what of it is made in Python.
#[pyfunction]
pub(crate) fn run(
    py: Python<'_>,
    scenario: &Scenario,
    scheme: &str,
    congestion: &str,
    seed: u64,
    series: bool,
    parts: Vec<Py<Part>>,
) -> PyResult<Run> {
    let (scheme, congestion) = names(scheme, congestion)?;
    let scenario = &scenario.inner;
    let plan = Plan::new(scenario, &scheme, congestion, seed).map_err(wrong)?;
    let (own, acts) = (Own::new(), Acts::new(scenario.paths.len()));
    let parts = parts_of(&parts, &scheme, congestion);
    let plan = put(&parts, Plan { series, ..plan }, scenario, &own, &acts);
    let mut result = None;
    watched(
        py,
        own.stop(),
        |stop, sender: SyncSender<Result<Outcome, SimError>>| {
            let ran = simulate_plan_unless(stop, plan, scenario, &scheme, congestion);
            // Nobody takes it after a signal.
            let _ = sender.send(ran);
        },
        |_, ran| {
            result = Some(ran);
            Ok(())
        },
    )?;
    own.raised()?;
    match result {
        Some(Ok(outcome)) => Ok(Run::new(outcome)),
        Some(Err(error)) => Err(wrong(error)),
        None => Err(PyRuntimeError::new_err("the simulator failed; please report it")),
    }
}

/// A scenario, a scheme, a congestion control and a seed.
type Wanted<'py> = (PyRef<'py, Scenario>, String, String, u64);

/// Several runs on `threads` threads; `take` gets each as it is done, in the order of `jobs`. Names of
/// `parts` are of Python's.
#[pyfunction]
pub(crate) fn run_all(
    py: Python<'_>,
    jobs: Vec<Wanted<'_>>,
    parts: Vec<Py<Part>>,
    threads: Option<usize>,
    series: bool,
    take: &Bound<'_, PyAny>,
) -> PyResult<()> {
    let job = |(scenario, scheme, congestion, seed): Wanted<'_>| {
        let (scheme, congestion) = names(&scheme, &congestion)?;
        // What makes no sense is said before anything runs.
        Plan::new(&scenario.inner, &scheme, congestion, seed).map_err(wrong)?;
        let (scenario, case) = (scenario.inner.clone(), BTreeMap::new());
        Ok(Job { scenario, scheme, congestion, seed, case, series })
    };
    let jobs: PyResult<Vec<Job>> = jobs.into_iter().map(job).collect();
    let take = take.clone().unbind();
    drive(py, jobs?.into_iter(), &parts, threads, |py, outcome| {
        take.call1(py, (Run::new(outcome),)).map(drop)
    })
}

pub(crate) fn names(scheme: &str, congestion: &str) -> PyResult<(Scheme, Congestion)> {
    Ok((scheme.parse().map_err(wrong)?, congestion.parse().map_err(wrong)?))
}
