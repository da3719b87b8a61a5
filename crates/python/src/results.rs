//! Directories of results: the same files as the program's, written and read by the same code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use weftline_scenario as weft;

use crate::drive::Run;
use crate::table::Table;
use crate::{results_error, wrong};

/// Writes a directory of results, which is locked until `finish`.
#[pyclass(frozen)]
pub(crate) struct Writer {
    inner: Mutex<Option<weft::ResultsWriter>>,
}

#[pymethods]
impl Writer {
    /// Adds a run, as a line of `runs.jsonl`, with the rows of its time series.
    fn add(&self, json: &str, rows: &str) -> PyResult<()> {
        let record: weft::RunRecord = serde_json::from_str(json).map_err(wrong)?;
        let samples: Option<Vec<_>> = rows.lines().map(sample).collect();
        let samples = samples.ok_or_else(|| wrong("rows are time_s,path,metric,value"))?;
        self.with(|writer| writer.write_run(&record, &samples).map(drop))
    }

    /// Ends the writing and lets the directory go.
    fn finish(&self) -> PyResult<()> {
        let writer = self.inner.lock().map_err(wrong)?.take();
        writer.map_or(Ok(()), |writer| writer.finish().map_err(|error| results_error(&error)))
    }
}

fn sample(row: &str) -> Option<weft::Sample<'_>> {
    let mut cells = row.split(',');
    let (time_s, path, metric) = (cells.next()?, cells.next()?, cells.next()?);
    let (time_s, value) = (time_s.parse().ok()?, cells.next()?.parse().ok()?);
    Some(weft::Sample { time_s, path, metric, value })
}

impl Writer {
    pub(crate) const fn new(writer: weft::ResultsWriter) -> Self {
        Self { inner: Mutex::new(Some(writer)) }
    }

    /// The ids of the runs that need not be made again.
    pub(crate) fn done(&self) -> PyResult<BTreeSet<String>> {
        self.with(|writer| writer.done())
    }

    fn with<T>(
        &self,
        act: impl FnOnce(&mut weft::ResultsWriter) -> Result<T, weft::ResultsError>,
    ) -> PyResult<T> {
        let mut inner = self.inner.lock().map_err(wrong)?;
        let writer = inner.as_mut().ok_or_else(|| PyRuntimeError::new_err("it is finished"))?;
        act(writer).map_err(|error| results_error(&error))
    }
}

/// The records of a directory, a JSON text each; of a run that was made twice the last.
#[pyfunction]
pub(crate) fn read_runs(py: Python<'_>, directory: PathBuf) -> PyResult<Vec<String>> {
    py.detach(|| {
        let records = weft::read_runs(&directory).map_err(|error| results_error(&error))?;
        let latest = weft::latest(&records);
        latest.iter().map(|&place| serde_json::to_string(&records[place]).map_err(wrong)).collect()
    })
}

/// The time series of those of a directory's runs that are at `places` of [`read_runs`], as one table
/// with the number of the run among `places`; `None` if none were kept.
#[pyfunction]
pub(crate) fn read_series(
    py: Python<'_>,
    directory: PathBuf,
    places: Vec<usize>,
) -> PyResult<Option<Table>> {
    py.detach(|| {
        let failed = |error| results_error(&error);
        let Some(reader) = weft::SeriesReader::find(&directory).map_err(failed)? else {
            return Ok(None);
        };
        // Rows have the number of a line, and of a run that was made twice the last line counts.
        let records = weft::read_runs(&directory).map_err(failed)?;
        let latest = weft::latest(&records);
        let numbered = places.iter().enumerate();
        let numbers = numbered.filter_map(|(number, &place)| Some((*latest.get(place)?, number)));
        Table::of_rows(reader, &numbers.collect()).map(Some)
    })
}

/// The time series of runs, as one table with the number of the run among them.
#[pyfunction]
pub(crate) fn series_of(runs: Vec<PyRef<'_, Run>>) -> PyResult<Table> {
    Table::of_runs(runs.iter().map(|run| run.samples()))
}

/// Puts the parts of a sweep in a directory together. Gives how many runs it has, how many the sweep
/// makes, the part that is missing, and what is wrong with cases that cannot be built.
#[pyfunction]
pub(crate) fn merge(
    py: Python<'_>,
    directory: PathBuf,
) -> PyResult<(usize, usize, Option<String>, Vec<String>)> {
    let merged = py.detach(|| weft::merge(&directory, crate::VERSION));
    let weft::Merged { runs, of, next, refused } = merged.map_err(|error| results_error(&error))?;
    Ok((runs, of, next.map(|part| part.to_string()), refused))
}

/// Writes the page of a directory, to `file` or beside the results, and gives its path.
#[pyfunction]
#[pyo3(signature = (directory, file=None))]
pub(crate) fn report(
    py: Python<'_>,
    directory: PathBuf,
    file: Option<PathBuf>,
) -> PyResult<PathBuf> {
    let written = py.detach(|| match &file {
        Some(file) => weftline_report::write_report_to(&directory, &[], file),
        None => weftline_report::write_report(Path::new(&directory), &[]),
    });
    written.map_err(|error| PyOSError::new_err(error.to_string()))
}
