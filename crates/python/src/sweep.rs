//! Sweeps: read, run into a directory, or run in part for somebody else to write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pyo3::prelude::*;
use weftline_scenario as weft;
use weftline_sim::Job;

use crate::drive::{Run, drive};
use crate::own::Part;
use crate::results::Writer;
use crate::scenario::Scenario;
use crate::{results_error, scenario_error, wrong};

/// Signals are looked for once in so many cases: building one takes some microseconds.
const LOOK_EVERY: usize = 1 << 12;

/// A sweep that has been read.
#[pyclass(frozen)]
pub(crate) struct Sweep {
    pub(crate) inner: weft::Sweep,
}

#[pymethods]
impl Sweep {
    /// A sweep whose files are given as texts, by the names that it has for them.
    #[new]
    fn new(name: &str, text: &str, files: BTreeMap<String, String>) -> PyResult<Self> {
        let inner = weft::Sweep::from_texts(&format!("{name}.toml"), text, files);
        Ok(Self { inner: inner.map_err(|error| scenario_error(&error))? })
    }

    /// A built-in sweep, or that of a file.
    #[staticmethod]
    fn find(name_or_path: &str) -> PyResult<Self> {
        let inner = weft::Sweep::find(name_or_path);
        Ok(Self { inner: inner.map_err(|error| scenario_error(&error))? })
    }

    #[getter]
    fn name(&self) -> &str {
        self.inner.name()
    }

    #[getter]
    fn about(&self) -> &str {
        self.inner.about()
    }

    #[getter]
    fn text(&self) -> &str {
        self.inner.text()
    }

    /// Whether the file wants the time series kept.
    #[getter]
    fn series(&self) -> bool {
        self.inner.series()
    }

    fn __len__(&self) -> usize {
        self.inner.len()
    }

    /// The files that it names, with their texts.
    fn files(&self) -> Vec<(String, String)> {
        self.inner.files().map(|(name, text)| (name, text.to_owned())).collect()
    }

    /// The places of the runs that `writer` does not have; and what is wrong with cases that cannot
    /// be built.
    fn pending(&self, py: Python<'_>, writer: &Writer) -> PyResult<(Vec<usize>, Vec<String>)> {
        let (mut places, mut refused) = (Vec::new(), Vec::new());
        py.detach(|| {
            let done = writer.done()?;
            for (count, case) in self.inner.cases().enumerate() {
                match case {
                    Ok(case) if done.contains(&case.id()) => {}
                    Ok(case) => places.push(case.index),
                    Err(error) => refused.push(error.to_string()),
                }
                if count % LOOK_EVERY == 0 {
                    Python::attach(|py| py.check_signals())?;
                }
            }
            Ok(())
        })
        .map(|()| (places, refused))
    }

    /// Does the runs at `places`, in rising order, on `threads` threads; `take` gets each. Names of
    /// `parts` are of Python's.
    fn run(
        &self,
        py: Python<'_>,
        places: Vec<usize>,
        parts: Vec<Py<Part>>,
        threads: Option<usize>,
        series: bool,
        take: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let (Some(&first), Some(&last)) = (places.first(), places.last()) else { return Ok(()) };
        let wanted: BTreeSet<usize> = places.into_iter().collect();
        // Each scenario is built when its run begins: all of them together may not fit in memory.
        let cases = self.inner.cases_in(first..last.saturating_add(1));
        let cases = cases.flatten().filter(|case| wanted.contains(&case.index));
        let take = take.clone().unbind();
        drive(py, cases.map(|case| job(case, series)), &parts, threads, |py, outcome| {
            take.call1(py, (Run::new(outcome),)).map(drop)
        })
    }

    /// The scenario of the run at `place`.
    fn case(&self, place: usize) -> PyResult<Scenario> {
        let case = self.inner.cases_in(place..place.saturating_add(1)).next();
        let case = case.ok_or_else(|| wrong(format!("there is no run at {place}")))?;
        Ok(Scenario::new_of(case.map_err(|error| scenario_error(&error))?.scenario))
    }

    /// The record of the run at `place`, as a line of `runs.jsonl`, where it cannot be made for that
    /// reason.
    fn failed(&self, place: usize, error: &str) -> PyResult<String> {
        let case = self.inner.cases_in(place..place.saturating_add(1)).flatten().next();
        let case = case.ok_or_else(|| wrong(format!("there is no run at {place}")))?;
        let mut outcome = job(case, false).failed(error);
        crate::VERSION.clone_into(&mut outcome.record.version);
        serde_json::to_string(&outcome.record).map_err(wrong)
    }

    /// Opens a directory for the results, which must hold those of this sweep or none.
    fn writer(&self, directory: PathBuf, series: bool) -> PyResult<Writer> {
        let kept = if series { "yes" } else { "no" };
        let bundle = weft::Bundle::of_sweep(&self.inner, "sim", crate::VERSION);
        let bundle = bundle.with_option("--series", kept);
        let mut writer =
            weft::ResultsWriter::open(&directory).map_err(|error| results_error(&error))?;
        writer.begin(&bundle).map_err(|error| results_error(&error))?;
        Ok(Writer::new(writer))
    }
}

fn job(case: weft::Case, series: bool) -> Job {
    let weft::Case { scenario, scheme, congestion, seed, case, .. } = case;
    let case: BTreeMap<String, String> = case;
    Job { scenario, scheme, congestion, seed, case, series }
}
