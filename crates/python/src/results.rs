//! Directories of results: the same files as the program's, written and read by the same code.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use pyo3::exceptions::{PyOSError, PyRuntimeError};
use pyo3::prelude::*;
use weftline_scenario as weft;

use crate::table::Table;
use crate::{results_error, wrong};

/// Writes a directory of results, which is locked until `finish`.
#[pyclass(frozen)]
pub(crate) struct Writer {
    inner: Mutex<Option<weft::ResultsWriter>>,
}

/// A row of a time series: time in seconds, path, metric, value.
type Row = (f64, String, String, f64);

#[pymethods]
impl Writer {
    /// The ids of the runs that need not be made again.
    fn done(&self) -> PyResult<BTreeSet<String>> {
        self.with(|writer| writer.done())
    }

    /// Adds a run, as a line of `runs.jsonl`, with its time series.
    fn add(&self, json: &str, samples: Vec<Row>) -> PyResult<()> {
        let record: weft::RunRecord = serde_json::from_str(json).map_err(wrong)?;
        let sample = |row| {
            let (time_s, path, metric, value): &Row = row;
            weft::Sample { time_s: *time_s, path, metric, value: *value }
        };
        let samples: Vec<_> = samples.iter().map(sample).collect();
        self.with(|writer| writer.write_run(&record, &samples).map(drop))
    }

    /// Ends the writing and lets the directory go.
    fn finish(&self) -> PyResult<()> {
        let writer = self.inner.lock().map_err(wrong)?.take();
        writer.map_or(Ok(()), |writer| writer.finish().map_err(|error| results_error(&error)))
    }
}

impl Writer {
    pub(crate) const fn new(writer: weft::ResultsWriter) -> Self {
        Self { inner: Mutex::new(Some(writer)) }
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
pub(crate) fn read_runs(directory: PathBuf) -> PyResult<Vec<String>> {
    let records = weft::read_runs(&directory).map_err(|error| results_error(&error))?;
    let latest = weft::latest(&records);
    latest.iter().map(|&place| serde_json::to_string(&records[place]).map_err(wrong)).collect()
}

/// The time series of a directory as one table, with the number of the run; `None` if none were
/// kept.
#[pyfunction]
pub(crate) fn read_series(directory: PathBuf) -> PyResult<Option<Table>> {
    let reader = weft::SeriesReader::find(&directory).map_err(|error| results_error(&error))?;
    reader.map(Table::of_rows).transpose()
}

/// Writes the page of a directory, to `file` or beside the results, and gives its path.
#[pyfunction]
#[pyo3(signature = (directory, file=None))]
pub(crate) fn report(directory: PathBuf, file: Option<PathBuf>) -> PyResult<PathBuf> {
    let written = match &file {
        Some(file) => weftline_report::write_report_to(&directory, &[], file),
        None => weftline_report::write_report(Path::new(&directory), &[]),
    };
    written.map_err(|error| PyOSError::new_err(error.to_string()))
}
