//! Runs that are steered from outside, between steps: the share of each path, or its window and pace.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::prelude::*;
use weftline_scenario as weft;
use weftline_sim::Plan;

use crate::acts::Acts;
use crate::drive::{Run, names};
use crate::halt::Own;
use crate::own::{Part, parts_of, put};
use crate::scenario::Scenario;
use crate::wrong;

/// The longest step, in seconds: longer than any run.
const LONGEST_S: f64 = 1e6;

/// A run that is taken step by step.
#[pyclass(frozen)]
pub(crate) struct Simulation {
    inner: Mutex<weftline_sim::Simulation>,
    own: Own,
    acts: Arc<Acts>,
    scenario: weft::Scenario,
    scheme: weft::Scheme,
    congestion: weft::Congestion,
}

/// Time, bytes written and delivered, and the age of the oldest that waits; by path window in
/// segments, smoothed round-trip time, bytes sent and delivered, segments sent again.
type Seen = (f64, u64, u64, f64, Vec<(f64, f64, u64, u64, u64)>);

#[pymethods]
impl Simulation {
    /// Makes the connections and begins the workload.
    #[new]
    fn new(
        py: Python<'_>,
        scenario: &Scenario,
        scheme: &str,
        congestion: &str,
        seed: u64,
        series: bool,
        parts: Vec<Py<Part>>,
    ) -> PyResult<Self> {
        let (scheme, congestion) = names(scheme, congestion)?;
        let scenario = scenario.inner.clone();
        let plan = Plan::new(&scenario, &scheme, congestion, seed).map_err(wrong)?;
        let (own, acts) = (Own::new(), Acts::new(scenario.paths.len()));
        let parts = parts_of(&parts, &scheme, congestion);
        let plan = put(&parts, Plan { series, ..plan }, &scenario, &own, &acts);
        let inner = py.detach(|| weftline_sim::Simulation::start(plan));
        own.raised()?;
        let inner = Mutex::new(inner.map_err(wrong)?);
        Ok(Self { inner, own, acts, scenario, scheme, congestion })
    }

    /// Lets that much time pass. Says whether the workload goes on after it.
    fn advance(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let by = step(seconds)?;
        let goes_on = py.detach(|| self.step(by));
        self.own.raised()?;
        goes_on
    }

    fn observe(&self) -> PyResult<Seen> {
        let seen = self.inner.lock().map_err(wrong)?.observe();
        let path = |path: &weftline_sim::PathObservation| {
            (path.cwnd, path.srtt.as_secs_f64(), path.sent, path.delivered, path.resent)
        };
        let oldest_s = seen.oldest.as_secs_f64();
        let paths = seen.paths.iter().map(path).collect();
        Ok((seen.time.as_secs_f64(), seen.written, seen.delivered, oldest_s, paths))
    }

    /// The payload of a full segment in bytes.
    #[getter]
    fn segment_bytes(&self) -> PyResult<u64> {
        Ok(self.inner.lock().map_err(wrong)?.segment_bytes())
    }

    /// Sets the share of each path, in whatever unit.
    fn split(&self, shares: Vec<f64>) -> PyResult<()> {
        let is_share = |share: &f64| share.is_finite() && *share >= 0.0;
        if shares.len() != self.scenario.paths.len() || !shares.iter().all(is_share) {
            let count = self.scenario.paths.len();
            return Err(wrong(format!("shares are {count} numbers from 0 on, one for each path")));
        }
        let mut split = self.acts.split.lock().map_err(wrong)?;
        *split = (split.0 + 1, shares);
        Ok(())
    }

    /// Sets the window of each path in segments, and the pace in Mb/s, 0 for none.
    fn steer(&self, windows: Vec<(f64, f64)>) -> PyResult<()> {
        let fits = |value: f64| (0.0..1e9).contains(&value);
        if windows.len() != self.acts.windows.len()
            || !windows.iter().all(|&(cwnd, pace)| fits(cwnd) && fits(pace))
        {
            return Err(wrong(
                "windows are segments and Mb/s from 0 to 10^9, a pair for each path",
            ));
        }
        for (place, (cwnd, pace)) in self.acts.windows.iter().zip(windows) {
            place[0].store(cwnd.to_bits(), Ordering::Relaxed);
            place[1].store((pace * 1e6) as u64, Ordering::Relaxed);
        }
        Ok(())
    }

    /// What has come of it so far.
    fn outcome(&self) -> PyResult<Run> {
        let outcome = self.inner.lock().map_err(wrong)?.outcome();
        let outcome = outcome.named(&self.scenario, &self.scheme, self.congestion);
        Ok(Run::new(outcome.map_err(wrong)?))
    }
}

impl Simulation {
    fn step(&self, by: Duration) -> PyResult<bool> {
        let mut inner = self.inner.lock().map_err(wrong)?;
        inner.advance(by, self.own.stop()).map_err(wrong)
    }
}

fn step(seconds: f64) -> PyResult<Duration> {
    match seconds > 0.0 && seconds <= LONGEST_S {
        true => Ok(Duration::from_secs_f64(seconds)),
        false => Err(wrong(format!("a step is above 0 and at most {LONGEST_S} s, not {seconds}"))),
    }
}

/// Lets that much time pass in all of them, on a thread for each.
#[pyfunction]
pub(crate) fn advance_all(
    py: Python<'_>,
    simulations: Vec<PyRef<'_, Simulation>>,
    seconds: f64,
) -> PyResult<Vec<bool>> {
    let by = step(seconds)?;
    let all: Vec<&Simulation> = simulations.iter().map(|one| &**one).collect();
    let stepped: Vec<PyResult<bool>> = py.detach(|| {
        std::thread::scope(|scope| {
            let step = |one| scope.spawn(move || Simulation::step(one, by));
            let threads: Vec<_> = all.iter().copied().map(step).collect();
            let failed = |_| Err(wrong("the simulator failed; please report it"));
            threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed)).collect()
        })
    });
    for one in &all {
        one.own.raised()?;
    }
    stepped.into_iter().collect()
}
