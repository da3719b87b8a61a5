//! Runs that were made again: of one run the last record stays, in the place of the first, and its
//! series with it.
//!
//! Both files are written anew beside the old ones. The records take their place first, and a crash
//! between the two leaves new series, which [`recover`] puts where they belong.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use super::{Lines, RUNS, ResultsError, SERIES, SERIES_HEADER, SeriesReader, remove};
use crate::RunRecord;

fn new(dir: &Path, file: &str) -> PathBuf {
    dir.join(format!("{file}.new"))
}

/// Ends what a crash has interrupted.
pub(super) fn recover(dir: &Path) -> Result<(), ResultsError> {
    let (runs, series) = (new(dir, RUNS), new(dir, SERIES));
    if runs.exists() {
        // The old files have not been touched.
        remove(&series)?;
        return remove(&runs);
    }
    match series.exists() {
        true => rename(&series, &dir.join(SERIES)),
        false => Ok(()),
    }
}

/// Leaves each run once.
pub(super) fn tidy(dir: &Path) -> Result<(), ResultsError> {
    let places = Places::read(dir)?;
    if places.last.len() == places.of_run.len() {
        return Ok(());
    }
    let mut texts = vec![String::new(); places.last.len()];
    let mut lines = Lines::open(dir.join(RUNS))?;
    for place in &places.of_run {
        texts[*place] = lines.next()?.unwrap_or_default().to_owned();
    }
    write(&new(dir, RUNS), texts.into_iter().map(|text| Ok(text + "\n")))?;
    let has_series = dir.join(SERIES).exists();
    if has_series {
        write_series(dir, &places)?;
    }
    rename(&new(dir, RUNS), &dir.join(RUNS))?;
    match has_series {
        true => rename(&new(dir, SERIES), &dir.join(SERIES)),
        false => Ok(()),
    }
}

/// Where the records go.
struct Places {
    /// The place of each record: that of the first one of its run.
    of_run: Vec<usize>,
    /// The last record of each place.
    last: Vec<usize>,
}

impl Places {
    fn read(dir: &Path) -> Result<Self, ResultsError> {
        let mut lines = Lines::open(dir.join(RUNS))?;
        let mut known = BTreeMap::new();
        let mut places = Self { of_run: Vec::new(), last: Vec::new() };
        while let Some(line) = lines.next()? {
            let record = serde_json::from_str::<RunRecord>(line);
            let record = record.map_err(|error| lines.wrong(format!("is no run: {error}")))?;
            let place = *known.entry(record.run_id()).or_insert(places.last.len());
            if place == places.last.len() {
                places.last.push(0);
            }
            places.last[place] = places.of_run.len();
            places.of_run.push(place);
        }
        Ok(places)
    }

    /// The number that a run gets; `None` if it does not stay.
    fn number(&self, run: usize) -> Option<usize> {
        let place = *self.of_run.get(run)?;
        (self.last[place] == run).then_some(place)
    }
}

/// Writes the series of the runs that stay, with the numbers that these get.
fn write_series(dir: &Path, places: &Places) -> Result<(), ResultsError> {
    let mut reader = SeriesReader::open(dir)?;
    let mut ended = false;
    let rows = std::iter::from_fn(|| {
        while !ended {
            let row = match reader.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => break,
                Err(error) => {
                    ended = true;
                    return Some(Err(error));
                }
            };
            let Some(run) = places.number(row.run) else { continue };
            let sample = row.sample;
            let (time_s, path, metric) = (sample.time_s, sample.path, sample.metric);
            return Some(Ok(format!("{time_s},{run},{path},{metric},{}\n", sample.value)));
        }
        None
    });
    write(&new(dir, SERIES), std::iter::once(Ok(format!("{SERIES_HEADER}\n"))).chain(rows))
}

/// Writes a file that is on the disk when this returns.
fn write(
    path: &Path,
    lines: impl Iterator<Item = Result<String, ResultsError>>,
) -> Result<(), ResultsError> {
    let mut out = BufWriter::new(File::create(path).map_err(ResultsError::io(path))?);
    for line in lines {
        out.write_all(line?.as_bytes()).map_err(ResultsError::io(path))?;
    }
    let file = out.into_inner().map_err(io::IntoInnerError::into_error);
    file.and_then(|file| file.sync_all()).map_err(ResultsError::io(path))
}

fn rename(from: &Path, to: &Path) -> Result<(), ResultsError> {
    fs::rename(from, to).map_err(ResultsError::io(to))
}
