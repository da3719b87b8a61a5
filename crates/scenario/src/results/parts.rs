//! A sweep in parts, as many jobs of a cluster make them, and the parts put together.
//!
//! A part is a directory of results by itself, `parts/3-of-100` in that of the sweep. What is merged is
//! a prefix of the sweep in its order, so that the directory can be gone on with as any other.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{
    Bundle, Lines, ResultsError, ResultsWriter, SERIES, SERIES_HEADER, Sample, parse_row, read_runs,
};
use crate::RunRecord;

/// The folder of the parts.
const PARTS: &str = "parts";

/// The most parts that a sweep is divided into.
const MAX_PARTS: usize = 100_000;

/// One of several parts of a sweep, which are contiguous and as large as each other: `3/100`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Part {
    number: usize,
    of: usize,
}

/// A text that is no part.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no part; write the number of the part, from 1, and how many there are: 1/100 to \
     100/100, at most {MAX_PARTS}"
)]
pub struct BadPart(String);

impl Part {
    /// The places of its runs among `runs`.
    pub const fn range(self, runs: usize) -> Range<usize> {
        // At most 10^6 runs and 10^5 parts.
        (self.number - 1) * runs / self.of..self.number * runs / self.of
    }

    /// Where its results are, of those of the sweep in `dir`.
    pub fn directory(self, dir: &Path) -> PathBuf {
        dir.join(PARTS).join(format!("{}-of-{}", self.number, self.of))
    }
}

impl FromStr for Part {
    type Err = BadPart;

    fn from_str(text: &str) -> Result<Self, BadPart> {
        let read = || {
            let (number, of) = text.split_once('/')?;
            let (number, of) = (number.parse().ok()?, of.parse().ok()?);
            (1 <= number && number <= of && of <= MAX_PARTS).then_some(Self { number, of })
        };
        read().ok_or_else(|| BadPart(text.chars().take(64).collect()))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

/// What came of merging.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Merged {
    /// How many runs the directory has now, the failed ones included.
    pub runs: usize,
    /// How many the sweep makes.
    pub of: usize,
    /// The part that has the first run that is not there yet.
    pub next: Option<Part>,
    /// What is wrong with cases that cannot be built.
    pub refused: Vec<String>,
}

/// Puts the parts of a sweep in `dir` together there, up to the first run that none has. The parts
/// stay; merging again takes what has come since. `version` is the program's.
///
/// # Errors
///
/// There are no parts, or such that do not belong together; or another program or version made them.
pub fn merge(dir: &Path, version: &str) -> Result<Merged, ResultsError> {
    let parts = find(dir)?;
    let of = parts[0].of;
    let (sweep, bundle) = Bundle::of_part(&parts[0].directory(dir), version)?;
    let mut writer = ResultsWriter::open(dir)?;
    let mut made = Vec::new();
    for part in &parts {
        made.extend(bundle.compared(&part.directory(dir))?.made);
    }
    writer.begin(&bundle.made_by(made))?;
    let done = writer.done()?;
    let (mut next, mut refused) = (None, Vec::new());
    'parts: for number in 1..=of {
        let part = Part { number, of };
        let mut there = match parts.contains(&part) {
            true => PartResults::open(&part.directory(dir))?,
            false => PartResults::default(),
        };
        for case in sweep.cases_in(part.range(sweep.len())) {
            let id = match case {
                Ok(case) => case.id(),
                Err(error) => {
                    refused.push(error.to_string());
                    continue;
                }
            };
            if done.contains(&id) {
                continue;
            }
            if !there.copy(&id, &mut writer)? {
                next = Some(part);
                break 'parts;
            }
        }
    }
    writer.finish()?;
    Ok(Merged { runs: read_runs(dir)?.len(), of: sweep.len(), next, refused })
}

/// The parts there are, in order; at least one.
fn find(dir: &Path) -> Result<Vec<Part>, ResultsError> {
    let folder = dir.join(PARTS);
    let wrong = |message: String| ResultsError::Parts { folder: folder.clone(), message };
    let none = || {
        wrong(
            "there are no parts of a sweep; `weftline sim sweep FILE --part I/N` makes them".into(),
        )
    };
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(none()),
        entries => entries.map_err(ResultsError::io(&folder))?,
    };
    let mut parts: Vec<Part> = Vec::new();
    for entry in entries {
        let name = entry.map_err(ResultsError::io(&folder))?.file_name();
        let name = name.to_string_lossy();
        parts.extend(name.split_once("-of-").and_then(|(number, of)| {
            let part: Part = format!("{number}/{of}").parse().ok()?;
            // Only the name that we would give it.
            part.directory(dir).ends_with(&*name).then_some(part)
        }));
    }
    parts.sort_unstable();
    let of = parts.first().ok_or_else(none)?.of;
    match parts.iter().find(|part| part.of != of) {
        Some(other) => Err(wrong(format!(
            "there are parts of {of} and of {}; remove those of one division",
            other.of
        ))),
        None => Ok(parts),
    }
}

/// The results of a part, by the ids of the runs.
#[derive(Default)]
struct PartResults {
    records: BTreeMap<String, (usize, RunRecord)>,
    series: Option<SeriesSpans>,
}

impl PartResults {
    /// Those of a directory, to which nobody may be writing.
    fn open(dir: &Path) -> Result<Self, ResultsError> {
        // Opening it cuts off what a crash has left half.
        ResultsWriter::open(dir)?.finish()?;
        let numbered = read_runs(dir)?.into_iter().enumerate();
        // Of a run that was made twice the last.
        let records = numbered.map(|(run, record)| (record.case_id(), (run, record))).collect();
        Ok(Self { records, series: SeriesSpans::find(&dir.join(SERIES))? })
    }

    /// Adds the run to what `writer` writes; `false` if it is not here.
    fn copy(&mut self, id: &str, writer: &mut ResultsWriter) -> Result<bool, ResultsError> {
        let Some((run, record)) = self.records.remove(id) else { return Ok(false) };
        let rows = self.series.as_mut().map_or(Ok(String::new()), |series| series.rows(run))?;
        let samples: Vec<Sample<'_>> =
            rows.lines().filter_map(parse_row).map(|row| row.sample).collect();
        writer.write_run(&record, &samples)?;
        Ok(true)
    }
}

/// Where in `series.csv` the rows of each run are: they need not all be in memory.
struct SeriesSpans {
    path: PathBuf,
    file: File,
    of_run: BTreeMap<usize, Vec<Range<u64>>>,
}

impl SeriesSpans {
    fn find(path: &Path) -> Result<Option<Self>, ResultsError> {
        if !path.exists() {
            return Ok(None);
        }
        let mut lines = Lines::open(path.to_owned())?;
        if lines.next()? != Some(SERIES_HEADER) {
            return Err(lines.wrong(format!("wants the header '{SERIES_HEADER}'")));
        }
        let mut of_run: BTreeMap<usize, Vec<Range<u64>>> = BTreeMap::new();
        let mut begin = lines.position;
        while let Some(line) = lines.next()? {
            let run = parse_row(line).map(|row| row.run);
            let end = lines.position;
            let no_row = || lines.wrong(format!("is no row of '{SERIES_HEADER}'"));
            let spans = of_run.entry(run.ok_or_else(no_row)?).or_default();
            match spans.last_mut() {
                Some(last) if last.end == begin => last.end = end,
                _ => spans.push(begin..end),
            }
            begin = end;
        }
        let file = File::open(path).map_err(ResultsError::io(path))?;
        Ok(Some(Self { path: path.to_owned(), file, of_run }))
    }

    /// The rows of a run, as the file has them.
    fn rows(&mut self, run: usize) -> Result<String, ResultsError> {
        let mut rows = String::new();
        for span in self.of_run.remove(&run).unwrap_or_default() {
            let sought = self.file.seek(SeekFrom::Start(span.start));
            sought.map_err(ResultsError::io(&self.path))?;
            let part = (&self.file).take(span.end - span.start).read_to_string(&mut rows);
            part.map_err(ResultsError::io(&self.path))?;
        }
        Ok(rows)
    }
}
