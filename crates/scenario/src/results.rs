//! The files of a results directory: `runs.jsonl`, `series.csv` and the scenarios as run.
//!
//! They grow run by run and are complete after each, so that what was measured survives a run that
//! fails. A directory may be used again: later runs are added and counted on.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;

use crate::{RunRecord, Scenario, Sweep};

/// The first line of `series.csv`.
pub const SERIES_HEADER: &str = "time_s,run,path,metric,value";

/// The records' file.
const RUNS: &str = "runs.jsonl";

/// The series' file.
const SERIES: &str = "series.csv";

/// The sweep that a directory belongs to.
const SWEEP: &str = "sweep.toml";

/// The longest line that a reader takes, in bytes.
const MAX_LINE: u64 = 1 << 20;

/// Why results cannot be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
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

/// Writes the files of a results directory.
#[derive(Debug)]
pub struct ResultsWriter {
    dir: PathBuf,
    runs: File,
    series: File,
    next_run: usize,
}

impl ResultsWriter {
    /// Opens `dir` for results, and makes it if need be. Runs that are there stay; half a line
    /// that a crash left behind goes.
    ///
    /// # Errors
    ///
    /// If the directory or its files cannot be made or read.
    pub fn open(dir: &Path) -> Result<Self, ResultsError> {
        fs::create_dir_all(dir).map_err(ResultsError::io(dir))?;
        let (runs, next_run) = open_lines(&dir.join(RUNS))?;
        let (mut series, lines) = open_lines(&dir.join(SERIES))?;
        if lines == 0 {
            let header = format!("{SERIES_HEADER}\n");
            let written = series.write_all(header.as_bytes());
            written.map_err(ResultsError::io(&dir.join(SERIES)))?;
        }
        Ok(Self { dir: dir.to_owned(), runs, series, next_run })
    }

    /// Writes the scenario as run, `{name}.toml`, with the trace files it names, so that the
    /// directory can be run again.
    ///
    /// # Errors
    ///
    /// If a file cannot be written.
    pub fn write_scenario(&self, scenario: &Scenario) -> Result<(), ResultsError> {
        let mut scenario = scenario.clone();
        for (index, trace) in scenario.trace_files_mut().enumerate() {
            // A name of our own: the scenario's may lead out of this directory.
            let original = Path::new(&trace.file).file_name().unwrap_or_default();
            trace.file = format!("trace{index}-{}", original.to_string_lossy());
            let file = self.dir.join(&trace.file);
            fs::write(&file, &trace.text).map_err(ResultsError::io(&file))?;
        }
        let file = self.dir.join(format!("{}.toml", scenario.name));
        fs::write(&file, scenario.to_string()).map_err(ResultsError::io(&file))
    }

    /// Begins or resumes a sweep: keeps its text as `sweep.toml`, and gives the
    /// [`case_id`](RunRecord::case_id) of every run that is there already.
    ///
    /// # Errors
    ///
    /// If the directory has another sweep, or its files cannot be read or written.
    pub fn resume(&self, sweep: &Sweep) -> Result<BTreeSet<String>, ResultsError> {
        let file = self.dir.join(SWEEP);
        match fs::read_to_string(&file) {
            Ok(text) if text == sweep.text() => {}
            Ok(_) => return Err(ResultsError::OtherSweep { file }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::write(&file, sweep.text()).map_err(ResultsError::io(&file))?;
            }
            Err(error) => return Err(ResultsError::io(&file)(error)),
        }
        Ok(read_runs(&self.dir)?.iter().map(RunRecord::case_id).collect())
    }

    /// Adds a run and its series, and gives the run's number in `runs.jsonl`, from 0.
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
        let written = self.series.write_all(rows.as_bytes());
        written.map_err(ResultsError::io(&self.dir.join(SERIES)))?;
        Ok(run)
    }
}

/// Opens a file of lines to add to it, and counts those there are. A last line without its end is
/// cut off.
fn open_lines(path: &Path) -> Result<(File, usize), ResultsError> {
    let open = || -> io::Result<(File, usize)> {
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
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
        file.set_len(end)?;
        file.seek(SeekFrom::Start(end))?;
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
    /// Opens the series of a results directory.
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
}

impl Lines {
    fn open(file: PathBuf) -> Result<Self, ResultsError> {
        let reader = BufReader::new(File::open(&file).map_err(ResultsError::io(&file))?);
        Ok(Self { file, reader, line: String::new(), number: 0 })
    }

    /// The next line without its end; blank lines are no lines.
    fn next(&mut self) -> Result<Option<&str>, ResultsError> {
        loop {
            self.line.clear();
            let read = (&mut self.reader).take(MAX_LINE).read_line(&mut self.line);
            if read.map_err(ResultsError::io(&self.file))? == 0 {
                return Ok(None);
            }
            self.number += 1;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn record(seed: u64) -> RunRecord {
        RunRecord { schema: 1, seed, scheme: "fbdt".to_owned(), ..RunRecord::default() }
    }

    fn sample(time_s: f64, path: &str) -> Sample<'_> {
        Sample { time_s, path, metric: "goodput_mbps", value: 12.5 }
    }

    #[test]
    fn runs_and_series_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = ResultsWriter::open(&dir.path().join("deep/er")).unwrap();
        let dir = dir.path().join("deep/er");
        assert_eq!(writer.write_run(&record(1), &[sample(0.1, "")]).unwrap(), 0);
        assert_eq!(writer.write_run(&record(2), &[sample(0.1, "wifi")]).unwrap(), 1);
        // Complete while the writer is still open.
        assert_eq!(read_runs(&dir).unwrap(), [record(1), record(2)]);
        let mut series = SeriesReader::open(&dir).unwrap();
        let row = series.next_row().unwrap().unwrap();
        assert_eq!(row, SeriesRow { run: 0, sample: sample(0.1, "") });
        let row = series.next_row().unwrap().unwrap();
        assert_eq!(row, SeriesRow { run: 1, sample: sample(0.1, "wifi") });
        assert_eq!(series.next_row().unwrap(), None);
    }

    #[test]
    fn a_directory_is_used_again_after_a_crash() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mut writer = ResultsWriter::open(dir).unwrap();
        writer.write_run(&record(1), &[sample(0.1, "")]).unwrap();
        for file in [RUNS, SERIES] {
            let mut file = OpenOptions::new().append(true).open(dir.join(file)).unwrap();
            file.write_all(b"half a li").unwrap();
        }
        let mut writer = ResultsWriter::open(dir).unwrap();
        assert_eq!(writer.write_run(&record(2), &[sample(0.1, "")]).unwrap(), 1);
        assert_eq!(read_runs(dir).unwrap(), [record(1), record(2)]);
        let mut series = SeriesReader::open(dir).unwrap();
        let mut runs = Vec::new();
        while let Some(row) = series.next_row().unwrap() {
            runs.push(row.run);
        }
        assert_eq!(runs, [0, 1]);
    }

    #[test]
    fn a_sweep_is_resumed_where_it_stopped() {
        let sweep = |text| Sweep::parse("mine.toml", text, None).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let mine = sweep("scenario = 'demo'\nscheme = 'fbdt'\nseed = [1, 2]");
        let mut writer = ResultsWriter::open(dir).unwrap();
        assert_eq!(writer.resume(&mine).unwrap(), BTreeSet::new());
        let case = mine.cases().next().unwrap().unwrap();
        let (scenario, congestion) = (case.scenario.name.clone(), case.congestion.to_string());
        writer.write_run(&RunRecord { scenario, congestion, ..record(1) }, &[]).unwrap();
        let done = ResultsWriter::open(dir).unwrap().resume(&mine).unwrap();
        let left: Vec<_> =
            mine.cases().flatten().filter(|case| !done.contains(&case.id())).collect();
        assert_eq!(left.iter().map(|case| case.seed).collect::<Vec<_>>(), [2]);
        let other = writer.resume(&sweep("scenario = 'demo'\nscheme = 'fbdt'")).unwrap_err();
        assert!(other.to_string().contains("sweep.toml is another sweep"), "{other}");
    }

    #[test]
    fn wrong_lines_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        assert!(matches!(read_runs(dir), Err(ResultsError::Io { .. })));
        fs::write(dir.join(RUNS), "\n{\"schema\":1}\n").unwrap();
        let error = read_runs(dir).unwrap_err().to_string();
        assert!(error.contains("runs.jsonl:2: is no run: missing field"), "{error}");
        for (rows, line) in [("0.1,0,,m", 2), ("0.1,0,,m,1\n0.2,x,,m,1", 3), ("1,0,,m,1,", 2)] {
            fs::write(dir.join(SERIES), format!("{SERIES_HEADER}\n{rows}\n")).unwrap();
            let mut series = SeriesReader::open(dir).unwrap();
            let error = loop {
                match series.next_row() {
                    Ok(row) => assert!(row.is_some(), "no error"),
                    Err(error) => break error.to_string(),
                }
            };
            assert!(error.contains(&format!("series.csv:{line}: is no row")), "{error}");
        }
    }
}
