//! What is measured of a run of a sweep, and what several runs say together.

use weftline_scenario::{MeanCi, RunRecord, discards_say, mean_ci95};

use super::Sweeps;
use crate::figure::is_paced;
use crate::format::{decimals, number};

/// A number of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Discards,
    Underflows,
    Standstill,
    /// Packets on a path.
    Packets(String),
    /// Packets sent again on a path, or on all.
    Retransmitted(Option<String>),
    Goodput,
    ToSum,
    ToBest,
    Completion,
    /// Where the source has times of its own.
    DelayP99,
    Gap,
}

impl Measure {
    /// The name of the figure; paths share one.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Discards => "Picture discards",
            Self::Underflows => "Buffer underflows",
            Self::Standstill => "Standstill",
            Self::Packets(_) => "Packets",
            Self::Retransmitted(Some(_)) => "Retransmitted packets",
            Self::Retransmitted(None) => "Retransmitted packets, all paths",
            Self::Goodput => "In-order goodput",
            Self::ToSum => "Goodput ÷ sum of single paths",
            Self::ToBest => "Goodput ÷ best single path",
            Self::Completion => "Completion time",
            Self::DelayP99 => "In-order delay, 99th percentile",
            Self::Gap => "Longest time without a byte",
        }
    }

    pub(crate) fn unit(&self) -> &'static str {
        match self {
            Self::Goodput => "Mb/s",
            Self::Completion | Self::Standstill => "s",
            Self::DelayP99 | Self::Gap => "ms",
            // The name says what is counted.
            _ => "",
        }
    }

    pub(crate) fn path(&self) -> Option<&str> {
        match self {
            Self::Packets(path) | Self::Retransmitted(Some(path)) => Some(path),
            _ => None,
        }
    }

    /// The name with its unit.
    pub(crate) fn label(&self) -> String {
        match self.unit() {
            "" => self.name().to_owned(),
            unit => format!("{} ({unit})", self.name()),
        }
    }

    /// Whether more is worse.
    pub(crate) fn is_bad(&self) -> bool {
        !matches!(self, Self::Packets(_) | Self::Goodput | Self::ToSum | Self::ToBest)
    }

    /// The value of a run; `None` if it has none or does not count.
    pub(crate) fn of(&self, sweeps: &Sweeps<'_>, run: usize) -> Option<f64> {
        let record = &sweeps.records[run];
        let ratio = || sweeps.ratios.get(&run);
        let value = match self {
            Self::Discards => record.link_discards()?,
            Self::Underflows => record.video?.buffer_underflows as f64,
            Self::Standstill => record.video?.underflow_s,
            Self::Packets(path) => of_path(record, path)?.packets? as f64,
            Self::Retransmitted(Some(path)) => of_path(record, path)?.retransmitted_packets? as f64,
            Self::Retransmitted(None) => record.retransmitted_packets()? as f64,
            Self::Goodput => record.goodput_mbps?,
            Self::ToSum => ratio()?.0,
            Self::ToBest => ratio()?.1,
            Self::Completion => record.completion_s?,
            Self::DelayP99 if !is_paced(&record.workload) => return None,
            Self::DelayP99 => record.in_order_delay_ms?.p99,
            Self::Gap => record.longest_gap_ms?,
        };
        (value.is_finite() && record.is_valid()).then_some(value)
    }
}

fn of_path<'a>(record: &'a RunRecord, path: &str) -> Option<&'a weftline_scenario::PathRecord> {
    record.paths.iter().find(|other| other.name == path)
}

/// What the runs of one cell say.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stat {
    pub(crate) value: Option<MeanCi>,
    low: f64,
    high: f64,
    pub(crate) runs: usize,
    pub(crate) failed: usize,
    invalid: usize,
}

impl Stat {
    pub(crate) fn new(sweeps: &Sweeps<'_>, runs: &[usize], measure: &Measure) -> Self {
        let records = || runs.iter().map(|&run| &sweeps.records[run]);
        let says = *measure != Measure::Discards || discards_say(records());
        let counted = runs.iter().filter(|_| says);
        let values: Vec<f64> = counted.filter_map(|&run| measure.of(sweeps, run)).collect();
        Self {
            value: mean_ci95(&values).filter(|value| value.mean.is_finite()),
            low: values.iter().copied().fold(f64::INFINITY, f64::min),
            high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            runs: runs.len(),
            failed: records().filter(|record| record.has_failed()).count(),
            invalid: records().filter(|record| !record.is_valid()).count(),
        }
    }

    pub(crate) fn half_width(&self) -> Option<f64> {
        self.value?.half_width.filter(|width| width.is_finite())
    }

    /// All numbers in a line.
    pub(crate) fn describe(&self, unit: &str) -> String {
        let mut text = match (&self.value, self.half_width()) {
            (None, _) => "no value".to_owned(),
            (Some(value), None) => format!("{} {unit}", exact(value.mean)),
            (Some(value), Some(width)) => {
                format!("{} ± {} {unit}", exact(value.mean), exact(width))
            }
        };
        text.truncate(text.trim_end().len());
        text.push_str(&match self.value {
            Some(value) if value.count > 1 => {
                format!("; n = {}, {} to {}", value.count, exact(self.low), exact(self.high))
            }
            Some(_) => "; n = 1".to_owned(),
            None => format!("; {} runs", self.runs),
        });
        if self.failed > 0 {
            text.push_str(&format!("; {} of {} failed", self.failed, self.runs));
        }
        if self.invalid > 0 {
            text.push_str(&format!("; {} invalid", self.invalid));
        }
        text
    }
}

/// A number with the digits that matter in a tooltip or table.
pub(crate) fn exact(value: f64) -> String {
    if value.abs() >= 1e9 {
        return format!("{value:.3e}");
    }
    let places = if value.abs() >= 1000.0 && value.fract() != 0.0 { 1 } else { decimals(value) };
    number(value, if value.fract() == 0.0 { 0 } else { places })
}

/// A number that fits a cell.
pub(crate) fn compact(value: f64) -> String {
    compact_as(value, value)
}

/// A half-width that fits a cell below its mean, with the mean's decimals if it is of its size.
pub(crate) fn compact_width(width: f64, mean: f64) -> String {
    let alike = width <= mean.abs() && width >= 0.01 * mean.abs();
    compact_as(width, if alike { mean } else { width })
}

/// A number in the form that `like` has.
fn compact_as(value: f64, like: f64) -> String {
    match like.abs() {
        v if v >= 1e9 => format!("{value:.1e}"),
        v if v >= 1e7 => format!("{:.0}M", value / 1e6),
        v if v >= 1e6 => format!("{:.1}M", value / 1e6),
        v if v >= 1e5 => format!("{:.0}k", value / 1e3),
        v if v >= 1e4 => format!("{:.1}k", value / 1e3),
        v if v >= 100.0 || value == 0.0 => number(value, 0),
        v if v >= 10.0 => number(value, 1),
        v if v >= 0.0995 => number(value, 2),
        _ => number(value, 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_fit_their_place() {
        let short = [0.0, 0.004, 0.4, 3.25, 12.34, 123.4, 4321.0, 12_345.0, 123_456.0, 2.5e6];
        let short = short.map(compact);
        let wanted = ["0", "0.004", "0.40", "3.25", "12.3", "123", "4321", "12.3k", "123k", "2.5M"];
        assert_eq!(short, wanted);
        let widths = [(900.0, 38_000.0), (0.0, 9.0), (73_047.0, 8503.0), (41.0, 38_000.0)];
        let widths = widths.map(|(width, mean)| compact_width(width, mean));
        assert_eq!(widths, ["0.9k", "0", "73.0k", "41.0"]);
        assert_eq!(exact(12_345.67), "12\u{202f}345.7");
        assert_eq!([exact(5.0), exact(0.25)], ["5", "0.250"]);
    }
}
