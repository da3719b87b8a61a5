//! What the host makes of a guest's lines: data, which are checked and never trusted.

use std::time::Duration;

use weftline_measure::STEP;
use weftline_scenario::{RunRecord, Sample};

use super::words::Word;
use crate::record::named;
use crate::run::{Plan, steps};

/// The most bytes that a guest may say besides its series, and in each step for each value of them: a
/// value takes 60, and how far the run is takes 15.
const MOST: usize = 1 << 20;
const MOST_OF_A_VALUE: usize = 128;

/// The metrics of the lab's series.
const METRICS: [&str; 3] = ["goodput_mbps", "capacity_mbps", "cwnd_segments"];

/// What a guest's kernel says on its console when something is wrong with it.
const COMPLAINTS: [&str; 7] = [
    "Kernel panic",
    "BUG:",
    "Oops:",
    "WARNING:",
    "Call Trace",
    "blocked for more than",
    "Out of memory",
];

/// A value of a series.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    time_s: f64,
    path: String,
    metric: &'static str,
    value: f64,
}

impl Row {
    pub(super) fn sample(&self) -> Sample<'_> {
        let Self { time_s, path, metric, value } = self;
        Sample { time_s: *time_s, path, metric, value: *value }
    }
}

/// A guest that is being listened to. Each error is what is wrong with it, in a few words.
#[derive(Debug)]
pub(super) struct Hearing<'a> {
    plan: &'a Plan<'a>,
    /// How many bytes it may still say.
    left: usize,
    record: Option<RunRecord>,
    rows: Vec<Row>,
}

/// What a line meant.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// The run has come so far.
    At(Duration),
    /// A part of the results.
    Part,
    /// All is there.
    End(RunRecord, Vec<Row>),
}

impl<'a> Hearing<'a> {
    /// Of a guest that is to run this plan.
    pub(super) fn new(plan: &'a Plan<'a>) -> Self {
        let values = plan.paths().count() * METRICS.len() + 1;
        let in_series = steps(plan.scenario.duration, STEP) * values * MOST_OF_A_VALUE;
        Self { plan, left: MOST + in_series, record: None, rows: Vec::new() }
    }

    /// Hears a line.
    pub(super) fn hear(&mut self, line: &str) -> Result<Heard, String> {
        let left = self.left.checked_sub(line.len() + 1);
        self.left = left.ok_or("it said more than a run has to say")?;
        let word = serde_json::from_str(line).map_err(|_| {
            let start: String = line.chars().take(80).collect();
            format!("it said what cannot be read: '{start}'")
        })?;
        match word {
            Word::At(ms) => Ok(Heard::At(Duration::from_millis(ms))),
            Word::Record(record) => self.record(*record),
            Word::Sample(time_s, path, metric, value) => self.row(time_s, path, &metric, value),
            Word::Failed(why) => Err(why.chars().take(500).collect()),
            Word::End => match self.record.take() {
                Some(record) => Ok(Heard::End(record, std::mem::take(&mut self.rows))),
                None => Err("it ended without a record".to_owned()),
            },
        }
    }

    fn record(&mut self, record: RunRecord) -> Result<Heard, String> {
        if self.record.is_some() {
            return Err("it gave two records".to_owned());
        }
        if named(self.plan, record.clone()) != record {
            let RunRecord { scenario, scheme, seed, .. } = record;
            let whose: String = format!("{scenario} {scheme}").chars().take(80).collect();
            return Err(format!("it gave the record of another run: {whose}, seed {seed}"));
        }
        let ours = self.plan.paths().map(|path| path.name.as_str());
        if record.completed && !record.paths.iter().map(|path| path.name.as_str()).eq(ours) {
            return Err("its record has other paths than the scenario".to_owned());
        }
        self.record = Some(record);
        Ok(Heard::Part)
    }

    fn row(
        &mut self,
        time_s: f64,
        path: String,
        metric: &str,
        value: f64,
    ) -> Result<Heard, String> {
        let is_path = path.is_empty() || self.plan.paths().any(|own| own.name == path);
        let metric = METRICS.into_iter().find(|known| *known == metric);
        let times = 0.0..=self.plan.scenario.duration.as_secs_f64() + 0.1;
        let (Some(metric), true) = (metric, is_path && times.contains(&time_s)) else {
            return Err("its series is not of this run".to_owned());
        };
        self.rows.push(Row { time_s, path, metric, value });
        Ok(Heard::Part)
    }
}

/// The first line of a console on which a kernel complains.
pub(super) fn complaint(console: &str) -> Option<&str> {
    let mut lines = console.lines().map(str::trim);
    lines.find(|line| COMPLAINTS.iter().any(|complaint| line.contains(complaint)))
}
