//! Whether what a guest has measured can be so: figures that are there, no less than zero and no more than
//! the links carry, and a series in which no row is missing or doubled.

use std::collections::BTreeSet;
use std::time::Duration;

use weftline_measure::{STEP, STEPS_MAX, mbps};
use weftline_scenario::{PathSpec, RunRecord, Sample, Workload};

use crate::run::{Plan, steps};

/// The metrics of the lab's series.
pub(super) const METRICS: [&str; 3] = [GOODPUT, CAPACITY, WINDOW];
const GOODPUT: &str = "goodput_mbps";
const CAPACITY: &str = "capacity_mbps";
const WINDOW: &str = "cwnd_segments";

/// How much longer a link may have carried than the run lasted: what its rate becomes within this is no
/// reason to refuse a record.
const SLACK: Duration = Duration::from_secs(1);

/// And how much more than its rate: figures are rounded.
const MORE: f64 = 1.01;

/// Checks the figures of a record of the plan's run. The error names the first that cannot be.
pub(super) fn check(plan: &Plan<'_>, record: &RunRecord) -> Result<(), String> {
    if record.completed != record.error.is_none() {
        return Err("its record says that it completed and that it failed, or neither".to_owned());
    }
    for (name, value, most) in given(plan, record) {
        within(name, value, most)?;
    }
    if !record.completed {
        return Ok(());
    }
    let has_end = matches!(plan.scenario.workload, Workload::Transfer(_) | Workload::Burst(_));
    let needed = [
        ("emulator", record.emulator.is_some()),
        ("goodput_mbps", record.goodput_mbps.is_some()),
        ("goodput_total_mbps", record.goodput_total_mbps.is_some()),
        ("bytes_delivered", record.bytes_delivered.is_some_and(|bytes| bytes > 0)),
        ("cpu_seconds", record.cpu_seconds.is_some()),
        ("completion_s", record.completion_s.is_some() == has_end),
    ];
    match needed.iter().find(|(_, is_there)| !is_there) {
        Some((name, _)) => Err(format!("its record has no such {name} as a run that completed")),
        None => Ok(()),
    }
}

fn within(name: &str, value: f64, most: f64) -> Result<(), String> {
    match (0.0..=most).contains(&value) {
        true => Ok(()),
        false => Err(format!("its {name} cannot be: {value:e}, of at most {most:e}")),
    }
}

/// The figures that a record has, with the most that each can be.
fn given(plan: &Plan<'_>, record: &RunRecord) -> Vec<(&'static str, f64, f64)> {
    let scenario = plan.scenario;
    let length = scenario.duration.as_secs_f64();
    let all = carried(plan, scenario.duration);
    // What came in the whole run may be handed on after the warm-up.
    let (time, carries) = match record.completion_s {
        Some(time) => (time, carried(plan, Duration::try_from_secs_f64(time).unwrap_or_default())),
        None => ((scenario.duration - scenario.warmup).as_secs_f64(), all),
    };
    let rate = carries * 8e-6 / time;
    let mut given = vec![
        ("completion_s", record.completion_s, length),
        ("bytes_delivered", record.bytes_delivered.map(|bytes| bytes as f64), all),
        ("goodput_mbps", record.goodput_mbps, rate),
        ("goodput_total_mbps", record.goodput_total_mbps, rate),
        ("longest_gap_ms", record.longest_gap_ms, f64::MAX),
        ("cpu_seconds", record.cpu_seconds, f64::MAX),
        ("share of late packets", record.emulator.map(|own| own.late_over_1ms_share), 1.0),
    ];
    if let Some(delay) = record.in_order_delay_ms {
        let values = [delay.p50, delay.p95, delay.p99, delay.max];
        given.extend(values.map(|value| ("in_order_delay_ms", Some(value), f64::MAX)));
    }
    if let Some(short) = record.short_term_mbps {
        let most = all * 8e-6 / STEP.as_secs_f64();
        let values = [short.p5, short.p50, short.p95];
        given.extend(values.map(|value| ("short_term_mbps", Some(value), most)));
    }
    for path in &record.paths {
        given.push(("goodput_mbps of a path", path.goodput_mbps, rate));
        given.extend(
            path.rtt_ms
                .iter()
                .flat_map(|rtt| [rtt.mean, rtt.p95])
                .map(|value| ("rtt_ms", Some(value), f64::MAX)),
        );
    }
    given.into_iter().filter_map(|(name, value, most)| Some((name, value?, most))).collect()
}

/// The most bytes that all links carry in the run's first `time`.
fn carried(plan: &Plan<'_>, time: Duration) -> f64 {
    plan.paths().map(|path| carried_by(plan, path, time)).sum()
}

fn carried_by(plan: &Plan<'_>, path: &PathSpec, time: Duration) -> f64 {
    let trace = path.down_trace(plan.seed, plan.scenario.duration);
    trace.bytes_between(Duration::ZERO, time + SLACK).as_u64() as f64 * MORE
}

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

/// The series, as it comes.
#[derive(Debug, Default)]
pub(super) struct Rows {
    rows: Vec<Row>,
    /// Place of the metric, path (0 is the whole) and step of each.
    seen: BTreeSet<(usize, usize, usize)>,
}

impl Rows {
    /// Adds one of the plan's run. The error says what is wrong with it.
    pub(super) fn add(
        &mut self,
        plan: &Plan<'_>,
        time_s: f64,
        path: String,
        metric: &str,
        value: f64,
    ) -> Result<(), String> {
        let known = METRICS.iter().position(|known| *known == metric);
        let number = match path.is_empty() {
            // The whole has a goodput and nothing else.
            true => (metric == GOODPUT).then_some(0),
            false => plan.paths().position(|own| own.name == path).map(|index| index + 1),
        };
        let (Some(place), Some(number), Some(step)) = (known, number, step_of(plan, time_s)) else {
            return Err("its series is not of this run".to_owned());
        };
        within("series", value, f64::MAX)?;
        if !self.seen.insert((place, number, step)) {
            return Err(format!("its series has {metric} of {time_s} s twice"));
        }
        self.rows.push(Row { time_s, path, metric: METRICS[place], value });
        Ok(())
    }

    /// The whole series, if it can be that of the run with this record. The error says what is missing,
    /// or what is more than a link carries.
    pub(super) fn finish(self, plan: &Plan<'_>, record: &RunRecord) -> Result<Vec<Row>, String> {
        let duration = plan.scenario.duration;
        let all = steps(duration, STEP).min(STEPS_MAX);
        // A transfer's goodput ends with it, a link's with its last packet.
        let end = record.completion_s.map_or(all, |time| (time / STEP.as_secs_f64()) as usize);
        self.check(record, (GOODPUT, 0), "", end.min(all), carried(plan, duration))?;
        for (index, path) in plan.paths().enumerate() {
            let most = carried_by(plan, path, duration);
            self.check(record, (GOODPUT, index + 1), &path.name, 0, most)?;
            self.check(record, (CAPACITY, index + 1), &path.name, all, most)?;
        }
        Ok(self.rows)
    }

    /// Checks the rows of a metric of a path: that there are at least so many, none before the last is
    /// missing, and they have at most so many bytes.
    fn check(
        &self,
        record: &RunRecord,
        (metric, number): (&str, usize),
        path: &str,
        least: usize,
        most: f64,
    ) -> Result<(), String> {
        let place = METRICS.iter().position(|known| *known == metric).unwrap_or(METRICS.len());
        let (count, has_hole) = self.count(place, number);
        if record.completed && (count < least || has_hole) {
            return Err(format!("of its series rows of {metric} of '{path}' are missing"));
        }
        let own = self.rows.iter().filter(|row| row.metric == metric && row.path == path);
        let sum: f64 = own.map(|row| row.value).sum();
        within(&format!("series of {metric} of '{path}'"), sum, most * mbps(1, STEP))
    }

    /// How many rows there are of a metric and a path, and whether one before the last is missing.
    fn count(&self, place: usize, number: usize) -> (usize, bool) {
        let own = self.seen.range((place, number, 0)..=(place, number, usize::MAX));
        let (count, last) = own.fold((0, 0), |(count, _), (.., step)| (count + 1, step + 1));
        (count, count != last)
    }
}

/// The step whose end that time is, of those of the run.
fn step_of(plan: &Plan<'_>, time_s: f64) -> Option<usize> {
    let end = (time_s / STEP.as_secs_f64()).round();
    let all = steps(plan.scenario.duration, STEP).min(STEPS_MAX);
    let is_end = (1.0..=all as f64).contains(&end)
        && (end * STEP.as_secs_f64() - time_s).abs() < STEP.as_secs_f64() / 1e3;
    is_end.then(|| end as usize - 1)
}
