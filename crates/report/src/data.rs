//! What a report is made of: the records, their comparisons and their time series.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use weftline_scenario::{
    Comparison, Provenance, RunRecord, Scenario, SeriesReader, SeriesRow, latest, read_provenance,
    read_runs,
};

use crate::ReportError;
use crate::sweep::Sweeps;
use crate::vr::VrData;

/// The most rows of `series.csv` that are read: some 200 MB in memory.
const MAX_ROWS: usize = 10_000_000;

/// Points of a series: seconds and value.
pub(crate) type Points = Vec<(f64, f64)>;

/// Series by run, metric and path.
type Series = BTreeMap<(usize, String, String), Points>;

/// A results directory.
pub(crate) struct Data {
    /// The directory's name, for the title.
    pub(crate) name: String,
    pub(crate) records: Vec<RunRecord>,
    pub(crate) comparisons: Vec<Comparison>,
    /// By scenario name, where the directory has the scenario as run.
    pub(crate) scenarios: BTreeMap<String, Scenario>,
    /// When and where the runs were made, as far as it is kept; the newest last.
    pub(crate) made: Vec<Provenance>,
    /// An evaluation of tiled video, if there is one.
    pub(crate) vr: Option<VrData>,
    series: Series,
}

impl Data {
    pub(crate) fn read(dir: &Path, beside: &[PathBuf]) -> Result<Self, ReportError> {
        let vr = VrData::read(dir)?;
        let mut records = match read_runs(dir) {
            // An evaluation of video needs no runs.
            Err(_) if vr.is_some() && !dir.join("runs.jsonl").exists() => Vec::new(),
            records => records?,
        };
        if records.is_empty() && vr.is_none() {
            return Err(ReportError::NoRuns(dir.join("runs.jsonl")));
        }
        let mut series = read_series(dir)?;
        once(&mut records, &mut series);
        // After its own, whose numbers the series go by.
        for other in beside {
            add_new(&mut records, read_runs(other)?);
        }
        let runs_with_series: BTreeSet<usize> = series.keys().map(|(run, _, _)| *run).collect();
        let (_, single) = Sweeps::split(&records, &|run| runs_with_series.contains(&run));
        let comparisons = compare(&records, &single);
        let mut made = read_provenance(dir)?;
        for other in beside {
            made.extend(read_provenance(other)?);
        }
        made.sort_by(|one, two| one.date.cmp(&two.date));
        let mut scenarios = BTreeMap::new();
        for comparison in &comparisons {
            let name = &comparison.scenario;
            // The name comes from the records: only a plain one is a file's name.
            let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
            let file = dir.join(format!("{name}.toml"));
            if let Some(scenario) = plain.then(|| Scenario::load(&file).ok()).flatten() {
                scenarios.insert(name.clone(), scenario);
            }
        }
        let full = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        let name = full.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok(Self { name, records, comparisons, scenarios, made, series, vr })
    }

    /// The sweeps among the records.
    pub(crate) fn sweeps(&self) -> Sweeps<'_> {
        // Which runs have series matters to the comparisons only.
        Sweeps::split(&self.records, &|_| false).0
    }

    /// The series of a run; empty if there is none.
    pub(crate) fn series(&self, run: usize, metric: &str, path: &str) -> &[(f64, f64)] {
        let key = (run, metric.to_owned(), path.to_owned());
        self.series.get(&key).map_or(&[], Vec::as_slice)
    }

    /// The paths for which a run has this series, in the order of their names.
    pub(crate) fn paths(&self, run: usize, metric: &str) -> Vec<&str> {
        let first = (run, metric.to_owned(), String::new());
        let from = self.series.range(first..);
        let of_run = from.take_while(|((number, name, _), _)| *number == run && name == metric);
        of_run.map(|((_, _, path), _)| path.as_str()).filter(|path| !path.is_empty()).collect()
    }
}

/// Leaves each run once, with its series: the last record counts.
fn once(records: &mut Vec<RunRecord>, series: &mut Series) {
    let places = latest(records);
    if places.len() == records.len() {
        return;
    }
    let numbers: BTreeMap<usize, usize> =
        places.iter().enumerate().map(|(number, &place)| (place, number)).collect();
    let moved = std::mem::take(series).into_iter().filter_map(|((run, metric, path), points)| {
        Some(((*numbers.get(&run)?, metric, path), points))
    });
    *series = moved.collect();
    *records = places.iter().map(|&place| records[place].clone()).collect();
}

/// Adds the runs that are not there yet, each once.
fn add_new(records: &mut Vec<RunRecord>, more: Vec<RunRecord>) {
    let there: BTreeSet<String> = records.iter().map(RunRecord::run_id).collect();
    let places = latest(&more);
    let mut more: Vec<Option<RunRecord>> = more.into_iter().map(Some).collect();
    let more = places.into_iter().filter_map(|place| more[place].take());
    records.extend(more.filter(|record| !there.contains(&record.run_id())));
}

/// Compares those of the records that are not part of a sweep.
fn compare(records: &[RunRecord], runs: &[usize]) -> Vec<Comparison> {
    if runs.len() == records.len() {
        return Comparison::all(records);
    }
    let chosen: Vec<RunRecord> = runs.iter().map(|&run| records[run].clone()).collect();
    let mut comparisons = Comparison::all(&chosen);
    // Runs are known by their line in the file.
    for row in comparisons.iter_mut().flat_map(|comparison| &mut comparison.rows) {
        for run in &mut row.runs {
            *run = runs[*run];
        }
    }
    comparisons
}

fn read_series(dir: &Path) -> Result<Series, ReportError> {
    let mut series = Series::new();
    let Some(mut reader) = SeriesReader::find(dir)? else { return Ok(series) };
    let mut rows = 0;
    // Neighbouring rows mostly belong to few series: look the key up only when it changes.
    while let Some(SeriesRow { run, sample }) = reader.next_row()? {
        rows += 1;
        if rows > MAX_ROWS {
            let file = dir.join("series.csv");
            return Err(ReportError::TooLong { file, limit: MAX_ROWS });
        }
        if !sample.time_s.is_finite() || !sample.value.is_finite() {
            continue;
        }
        let key = (run, sample.metric.to_owned(), sample.path.to_owned());
        series.entry(key).or_default().push((sample.time_s, sample.value));
    }
    Ok(series)
}

/// The mean of each whole second of a series, from `from` seconds on.
pub(crate) fn per_second(points: &[(f64, f64)], from: f64) -> Vec<f64> {
    let mut seconds: BTreeMap<u64, (f64, u32)> = BTreeMap::new();
    for &(time, value) in points.iter().filter(|(time, _)| *time > from + 1e-6) {
        // A sample stands for the interval that ends at its time.
        let second = seconds.entry((time - 1e-6).max(0.0) as u64).or_default();
        *second = (second.0 + value, second.1 + 1);
    }
    // A last second with fewer samples than the rest would be no second.
    let full = seconds.values().map(|(_, count)| *count).max().unwrap_or(0);
    let whole = seconds.into_values().filter(|(_, count)| *count == full);
    whole.map(|(sum, count)| sum / f64::from(count)).collect()
}

/// At most `most` points: neighbours are averaged.
pub(crate) fn thin(points: &[(f64, f64)], most: usize) -> Points {
    let group = points.len().div_ceil(most).max(1);
    let mean = |chunk: &[(f64, f64)]| {
        let n = chunk.len() as f64;
        let sum = chunk.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
        (sum.0 / n, sum.1 / n)
    };
    points.chunks(group).map(mean).collect()
}
