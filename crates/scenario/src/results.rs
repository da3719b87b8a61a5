//! The files of a results directory: `runs.jsonl`, `series.csv`, and the bundle of what the runs were
//! made with.
//!
//! The files grow run by run and are complete after each, so that what was measured survives a run
//! that fails. A directory may be used again: later runs are added, and a run that is made again
//! replaces the earlier one. A directory has one writer at a time, which holds its lock.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::RunRecord;

mod bundle;
mod parts;
mod provenance;
#[cfg(test)]
mod tests;
mod tidy;

pub use bundle::{Bundle, read_provenance};
pub use parts::{BadPart, Merged, Part, merge};
pub use provenance::Provenance;

/// The first line of `series.csv`.
pub const SERIES_HEADER: &str = "time_s,run,path,metric,value";

/// The records' file.
const RUNS: &str = "runs.jsonl";

/// The series' file.
const SERIES: &str = "series.csv";

/// The file whose lock a writer holds. It stays: a lock is the kernel's, and ends with its process.
const LOCK: &str = ".lock";

/// The longest line that a reader takes, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// Why results cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// Another process writes to the directory.
    #[error("another weftline is writing to {dir}; wait until it has ended, or give another --out")]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// A file could not be used.
    #[error("cannot use {file}: {source}")]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The directory has the results of another sweep.
    #[error("{file} is another sweep; write the results to a directory of their own")]
    OtherSweep {
        /// The sweep that is there.
        file: PathBuf,
    },
    /// The directory has results that were made in another way or with something else.
    #[error("{difference}; give another --out, or remove {runs} to begin anew")]
    OtherBundle {
        /// What differs from what is there, and where that is.
        difference: String,
        /// The records that are there.
        runs: PathBuf,
    },
    /// The parts of a sweep cannot be put together.
    #[error("{folder}: {message}")]
    Parts {
        /// The folder of the parts.
        folder: PathBuf,
        /// What is wrong, and what helps.
        message: String,
    },
    /// A line is not what it should be.
    #[error("{file}:{line}: {message}")]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        message: String,
    },
}

impl ResultsError {
    fn io(file: &Path) -> impl FnOnce(io::Error) -> Self {
        let file = file.to_owned();
        move |source| Self::Io { file, source }
    }

    /// Whether the directory is fine, and only not the one for these runs.
    pub const fn is_wrong_use(&self) -> bool {
        matches!(
            self,
            Self::InUse { .. }
                | Self::OtherSweep { .. }
                | Self::OtherBundle { .. }
                | Self::Parts { .. }
        )
    }
}

/// One value of a time series of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample<'a> {
    /// Seconds from the workload's first byte to the end of the interval.
    pub time_s: f64,
    /// The path, or empty for the whole connection.
    pub path: &'a str,
    /// What is measured, with its unit: `"goodput_mbps"`, `"capacity_mbps"`.
    pub metric: &'a str,
    /// The value.
    pub value: f64,
}

/// Writes the files of a results directory. The directory is locked as long as this lives.
#[derive(Debug)]
pub struct ResultsWriter {
    dir: PathBuf,
    runs: File,
    /// Made with the first sample: runs without series leave no file.
    series: Option<File>,
    next_run: usize,
    lock: File,
}

impl Drop for ResultsWriter {
    /// A process that was forked meanwhile has the lock's file open, too: closing it is not enough.
    fn drop(&mut self) {
        // What cannot be unlocked is when the last of these processes ends.
        let _ = self.lock.unlock();
    }
}

impl ResultsWriter {
    /// Opens `dir` for results, and makes it if need be. Runs that are there stay, those that were
    /// made twice once; half a line that a crash left behind goes.
    ///
    /// # Errors
    ///
    /// If another process writes to the directory, or its files cannot be made or read.
    pub fn open(dir: &Path) -> Result<Self, ResultsError> {
        fs::create_dir_all(dir).map_err(ResultsError::io(dir))?;
        let lock = lock(dir)?;
        tidy::recover(dir)?;
        mend(dir)?;
        tidy::tidy(dir)?;
        let (runs, next_run) = open_lines(&dir.join(RUNS))?;
        let series = dir.join(SERIES);
        let series = series.exists().then(|| open_series(&series)).transpose()?;
        Ok(Self { dir: dir.to_owned(), runs, series, next_run, lock })
    }

    /// Says what the runs to come are made with. That is kept beside the results, and compared with
    /// what the runs that are there were made with.
    ///
    /// # Errors
    ///
    /// If these differ, or the bundle cannot be read or written.
    pub fn begin(&mut self, bundle: &Bundle) -> Result<(), ResultsError> {
        bundle.keep(&self.dir, self.next_run > 0)
    }

    /// The [`case_id`](RunRecord::case_id) of every run that is there and need not be made again:
    /// of those that [count](RunRecord::counts).
    ///
    /// # Errors
    ///
    /// If the records cannot be read.
    pub fn done(&self) -> Result<BTreeSet<String>, ResultsError> {
        let records = read_runs(&self.dir)?;
        Ok(records.iter().filter(|run| run.counts()).map(RunRecord::case_id).collect())
    }

    /// Adds a run and its series, and gives the run's number in `runs.jsonl`, from 0, until the
    /// directory is next [tidied](Self::finish).
    ///
    /// # Errors
    ///
    /// If the files cannot be written.
    pub fn write_run(
        &mut self,
        record: &RunRecord,
        samples: &[Sample<'_>],
    ) -> Result<usize, ResultsError> {
        let run = self.next_run;
        let mut line = serde_json::to_string(record).map_err(|error| ResultsError::Io {
            file: self.dir.join(RUNS),
            source: error.into(),
        })?;
        line.push('\n');
        let mut rows = String::new();
        for Sample { time_s, path, metric, value } in samples {
            writeln!(rows, "{time_s},{run},{path},{metric},{value}")
                .expect("a String takes all that is written");
        }
        // The record first: its place in the file is the run's number.
        self.runs.write_all(line.as_bytes()).map_err(ResultsError::io(&self.dir.join(RUNS)))?;
        self.next_run += 1;
        if !rows.is_empty() {
            self.write_rows(&rows)?;
        }
        Ok(run)
    }

    fn write_rows(&mut self, rows: &str) -> Result<(), ResultsError> {
        let file = self.dir.join(SERIES);
        let series = match &mut self.series {
            Some(series) => series,
            none => none.insert(open_series(&file)?),
        };
        series.write_all(rows.as_bytes()).map_err(ResultsError::io(&file))
    }

    /// Ends the writing: of a run that was made again the last record stays, in the place of the
    /// first. A writer that ends otherwise leaves that to the next.
    ///
    /// # Errors
    ///
    /// If the files cannot be read or written.
    pub fn finish(self) -> Result<(), ResultsError> {
        tidy::tidy(&self.dir)
    }
}

/// Locks a directory for this process.
fn lock(dir: &Path) -> Result<File, ResultsError> {
    let path = dir.join(LOCK);
    let file = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(ResultsError::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(ResultsError::InUse { dir: dir.to_owned() }),
        Err(TryLockError::Error(source)) => Err(ResultsError::Io { file: path, source }),
    }
}

/// Cuts off what a crash has left half, and removes series whose runs were removed.
fn mend(dir: &Path) -> Result<(), ResultsError> {
    let series = dir.join(SERIES);
    let (_, runs) = open_lines(&dir.join(RUNS))?;
    if runs > 0 && series.exists() {
        return open_series(&series).map(drop);
    }
    // Another header, an error here, is that of somebody else's file.
    match SeriesReader::find(dir)? {
        Some(_) => remove(&series),
        None => Ok(()),
    }
}

/// Removes a file if there is one.
fn remove(file: &Path) -> Result<(), ResultsError> {
    match fs::remove_file(file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(ResultsError::io(file)(error)),
        _ => Ok(()),
    }
}

/// Opens the series to add to them; a new file gets its header.
fn open_series(path: &Path) -> Result<File, ResultsError> {
    let (mut file, lines) = open_lines(path)?;
    if lines == 0 {
        let header = format!("{SERIES_HEADER}\n");
        file.write_all(header.as_bytes()).map_err(ResultsError::io(path))?;
    }
    Ok(file)
}

/// Opens a file of lines to add to it, and counts those there are. A last line without its end is
/// cut off.
fn open_lines(path: &Path) -> Result<(File, usize), ResultsError> {
    let open = || -> io::Result<(File, usize)> {
        let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
        let (mut end, mut position, mut count) = (0, 0, 0);
        let mut buffer = vec![0; 1 << 16];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            for (index, _) in buffer[..read].iter().enumerate().filter(|(_, byte)| **byte == b'\n')
            {
                end = position + index as u64 + 1;
                count += 1;
            }
            position += read as u64;
        }
        if position > end {
            file.set_len(end)?;
        }
        Ok((file, count))
    };
    open().map_err(ResultsError::io(path))
}

/// Reads the records of a results directory, in the order of the runs.
///
/// # Errors
///
/// If `runs.jsonl` cannot be read, or a line of it is no record.
pub fn read_runs(dir: &Path) -> Result<Vec<RunRecord>, ResultsError> {
    read_lines(&dir.join(RUNS), "run")
}

/// Reads a file with a JSON object in each line; `what` says in messages what those are.
pub(crate) fn read_lines<T: DeserializeOwned>(
    file: &Path,
    what: &str,
) -> Result<Vec<T>, ResultsError> {
    let mut lines = Lines::open(file.to_owned())?;
    let mut records = Vec::new();
    while let Some(line) = lines.next()? {
        let record = serde_json::from_str(line);
        records.push(record.map_err(|error| lines.wrong(format!("is no {what}: {error}")))?);
    }
    Ok(records)
}

/// A row of `series.csv`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeriesRow<'a> {
    /// The run's number in `runs.jsonl`, from 0.
    pub run: usize,
    /// The value with its time, path and metric.
    pub sample: Sample<'a>,
}

/// Reads `series.csv` row by row.
#[derive(Debug)]
pub struct SeriesReader(Lines);

impl SeriesReader {
    /// Opens the series of a results directory; `None` if it has none, as a sweep that kept none.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has another header.
    pub fn find(dir: &Path) -> Result<Option<Self>, ResultsError> {
        match Self::open(dir) {
            Err(ResultsError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            found => found.map(Some),
        }
    }

    /// Opens the series of a results directory, which must have some.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or has another header.
    pub fn open(dir: &Path) -> Result<Self, ResultsError> {
        let mut lines = Lines::open(dir.join(SERIES))?;
        if lines.next()? != Some(SERIES_HEADER) {
            return Err(lines.wrong(format!("wants the header '{SERIES_HEADER}'")));
        }
        Ok(Self(lines))
    }

    /// The next row; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or a row is wrong.
    pub fn next_row(&mut self) -> Result<Option<SeriesRow<'_>>, ResultsError> {
        if self.0.next()?.is_none() {
            return Ok(None);
        }
        let row = parse_row(&self.0.line);
        row.map(Some).ok_or_else(|| self.0.wrong(format!("is no row of '{SERIES_HEADER}'")))
    }
}

fn parse_row(line: &str) -> Option<SeriesRow<'_>> {
    let mut cells = line.split(',');
    let mut cell = || cells.next();
    let (time_s, run) = (cell()?.parse().ok()?, cell()?.parse().ok()?);
    let (path, metric, value) = (cell()?, cell()?, cell()?.parse().ok()?);
    let row = SeriesRow { run, sample: Sample { time_s, path, metric, value } };
    cells.next().is_none().then_some(row)
}

/// Lines of a file, each of bounded length.
#[derive(Debug)]
struct Lines {
    file: PathBuf,
    reader: BufReader<File>,
    /// The line last read.
    line: String,
    number: usize,
    /// Where in the file the next line begins, in bytes.
    position: u64,
}

impl Lines {
    fn open(file: PathBuf) -> Result<Self, ResultsError> {
        let reader = BufReader::new(File::open(&file).map_err(ResultsError::io(&file))?);
        Ok(Self { file, reader, line: String::new(), number: 0, position: 0 })
    }

    /// The next line without its end; blank lines are no lines.
    fn next(&mut self) -> Result<Option<&str>, ResultsError> {
        loop {
            self.line.clear();
            let read = (&mut self.reader).take(MAX_LINE).read_line(&mut self.line);
            let read = read.map_err(ResultsError::io(&self.file))?;
            if read == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.position += read as u64;
            if self.line.len() as u64 == MAX_LINE && !self.line.ends_with('\n') {
                return Err(self.wrong("is longer than 1 MiB".to_owned()));
            }
            self.line.truncate(self.line.trim_end().len());
            if !self.line.is_empty() {
                return Ok(Some(&self.line));
            }
        }
    }

    fn wrong(&self, message: String) -> ResultsError {
        ResultsError::Line { file: self.file.clone(), line: self.number.max(1), message }
    }
}
