//! Sweeps: read, run into a directory, or run in part for somebody else to write.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use pyo3::prelude::*;
use weftline_scenario as weft;
use weftline_sim::Job;

use crate::drive::{Run, drive};
use crate::{results_error, scenario_error};

/// Cases that are built and run together: a scenario is some kilobytes.
const BATCH: usize = 1 << 12;

/// A sweep that has been read.
#[pyclass(frozen)]
pub(crate) struct Sweep {
    pub(crate) inner: weft::Sweep,
}

#[pymethods]
impl Sweep {
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

    /// The places of the runs that are not among `done`, which has the ids of others; and what is
    /// wrong with cases that cannot be built.
    fn pending(&self, done: BTreeSet<String>) -> (Vec<usize>, Vec<String>) {
        let (mut places, mut refused) = (Vec::new(), Vec::new());
        for case in self.inner.cases() {
            match case {
                Ok(case) if done.contains(&case.id()) => {}
                Ok(case) => places.push(case.index),
                Err(error) => refused.push(error.to_string()),
            }
        }
        (places, refused)
    }

    /// Does the runs at `places`, in rising order, on `threads` threads; `take` gets each.
    fn run(
        &self,
        py: Python<'_>,
        places: Vec<usize>,
        threads: Option<usize>,
        series: bool,
        take: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        for batch in places.chunks(BATCH) {
            let (Some(first), Some(last)) = (batch.first(), batch.last()) else { continue };
            let wanted: BTreeSet<usize> = batch.iter().copied().collect();
            let cases = self.inner.cases_in(*first..last.saturating_add(1));
            let cases = cases.flatten().filter(|case| wanted.contains(&case.index));
            let jobs: Vec<Job> = cases.map(|case| job(case, series)).collect();
            let take = take.clone().unbind();
            drive(py, jobs.into_iter(), threads, |py, outcome| {
                take.call1(py, (Run::new(outcome),)).map(drop)
            })?;
        }
        Ok(())
    }

    /// Opens a directory for the results, which must hold those of this sweep or none.
    fn writer(&self, directory: PathBuf, series: bool) -> PyResult<crate::results::Writer> {
        let kept = if series { "yes" } else { "no" };
        let bundle = weft::Bundle::of_sweep(&self.inner, "sim", crate::VERSION);
        let bundle = bundle.with_option("--series", kept);
        let mut writer =
            weft::ResultsWriter::open(&directory).map_err(|error| results_error(&error))?;
        writer.begin(&bundle).map_err(|error| results_error(&error))?;
        Ok(crate::results::Writer::new(writer))
    }
}

fn job(case: weft::Case, series: bool) -> Job {
    let weft::Case { scenario, scheme, congestion, seed, case, .. } = case;
    let case: BTreeMap<String, String> = case;
    Job { scenario, scheme, congestion, seed, case, series }
}
