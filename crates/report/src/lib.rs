//! The report: a results directory as one HTML page with tables and figures.
//!
//! The page needs nothing else: no script, no font, no picture from elsewhere. Figures are inline SVG in
//! colours that follow the reader's light or dark mode. Runs with time series get tables and lines over
//! time; sweeps are summed up, however many runs they have.
//!
//! ```
//! use weftline_report::write_report;
//! use weftline_scenario::{ResultsWriter, RunRecord};
//!
//! // `weftline sim run bond --scheme earliest --out DIR` makes such a directory, with real runs.
//! let directory = tempfile::tempdir()?;
//! let mut results = ResultsWriter::open(directory.path())?;
//! let run = RunRecord {
//!     scenario: "bond".to_owned(),
//!     scheme: "earliest".to_owned(),
//!     completed: true,
//!     goodput_mbps: Some(75.1),
//!     ..RunRecord::default()
//! };
//! results.write_run(&run, &[])?;
//! results.finish()?;
//!
//! let page = write_report(directory.path(), &[])?;
//! assert!(std::fs::read_to_string(page)?.contains("earliest"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod beside;
mod data;
mod figure;
mod figures;
mod format;
mod heat;
mod page;
mod plot;
mod provenance;
mod quantity;
mod scheme;
mod spans;
mod sweep;
mod tables;
mod time;
mod verdict;
mod vr;
mod weave;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use weftline_scenario::ResultsError;

use data::Data;
pub use weave::WeavePicture;
pub use weftline_scenario::{Ratio, ratios};

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// The directory holds no runs.
    #[error(
        "{0} has no runs; write some with `weftline lab run SCENARIO --out DIR`, `weftline sim sweep FILE --out DIR` or `weftline vr evaluate PACKAGE --out DIR`"
    )]
    NoRuns(PathBuf),
    /// The results cannot be read.
    #[error(transparent)]
    Results(#[from] ResultsError),
    /// The series are too long to draw.
    #[error("{file} has more than {limit} rows; report fewer runs at a time")]
    TooLong {
        /// The file.
        file: PathBuf,
        /// The most rows that are read.
        limit: usize,
    },
    /// The page cannot be written.
    #[error("cannot write {file}: {source}")]
    Write {
        /// The page.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Reads `runs.jsonl` and `series.csv`, and what `weftline vr evaluate` wrote, as far as they are in
/// `dir`, and writes `report.html` there. The runs of the directories `beside`, without their time
/// series, are laid beside those of `dir`. Gives the page's path.
///
/// # Errors
///
/// If the results cannot be read, there are none, or the page cannot be written.
pub fn write_report(dir: &Path, beside: &[PathBuf]) -> Result<PathBuf, ReportError> {
    write_report_to(dir, beside, &dir.join("report.html"))
}

/// The same, to a `file` of any name.
///
/// # Errors
///
/// As [`write_report`].
pub fn write_report_to(
    dir: &Path,
    beside: &[PathBuf],
    file: &Path,
) -> Result<PathBuf, ReportError> {
    make_report(dir, beside, file).map(|made| made.file)
}

/// A report that has been written.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MadeReport {
    /// The page.
    pub file: PathBuf,
    /// Its first sentence: what came out of the runs, if they say anything.
    pub sentence: Option<String>,
}

/// As [`write_report_to`], with the page's first sentence.
///
/// # Errors
///
/// As [`write_report`].
pub fn make_report(dir: &Path, beside: &[PathBuf], file: &Path) -> Result<MadeReport, ReportError> {
    let data = Data::read(dir, beside)?;
    let file = file.to_owned();
    let written = fs::write(&file, page::render(&data));
    written.map_err(|source| ReportError::Write { file: file.clone(), source })?;
    Ok(MadeReport { file, sentence: verdict::sentence(&data.records) })
}

#[cfg(test)]
mod tests;
