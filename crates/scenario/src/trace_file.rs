//! Rate traces from files: CSV, and Mahimahi's lists of delivery opportunities.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use weftline_core::Bitrate;
use weftline_link::RateTrace;

use crate::document::MAX_DURATION;
use crate::{ScenarioError, UnknownName};

/// The header of a CSV trace.
const CSV_HEADER: &str = "time_s,rate_mbps";

/// What one delivery opportunity of a Mahimahi trace carries within its millisecond: 1500 bytes,
/// which is 12 Mb/s over 1 ms.
const OPPORTUNITY: Bitrate = Bitrate::mbps(12);

/// The highest rate of a CSV trace, in Mb/s: a terabit a second.
const MAX_RATE_MBPS: f64 = 1e6;

/// The format of a trace file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// A header `time_s,rate_mbps`, then a row for every change of rate.
    Csv,
    /// Mahimahi's: one integer millisecond a line, each an opportunity to deliver 1500 bytes.
    Mahimahi,
}

impl TraceFormat {
    const ALL: [Self; 2] = [Self::Csv, Self::Mahimahi];

    fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Mahimahi => "mahimahi",
        }
    }
}

impl fmt::Display for TraceFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for TraceFormat {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        Self::ALL.into_iter().find(|format| format.name() == text).ok_or_else(|| UnknownName {
            kind: "trace format",
            text: text.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

/// Reads the trace in `text`; errors name `file` and the line.
pub(crate) fn parse(
    file: &str,
    format: TraceFormat,
    text: &str,
) -> Result<RateTrace, ScenarioError> {
    let parsed = match format {
        TraceFormat::Csv => csv(text),
        TraceFormat::Mahimahi => mahimahi(text),
    };
    parsed.map_err(|(line, message)| ScenarioError::Invalid {
        file: file.to_owned(),
        line,
        message,
    })
}

/// Lines with their numbers, blank ones left out.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty())
}

/// Rows of time and rate, each rate from its time on; the last holds as long as the one before.
fn csv(text: &str) -> Result<RateTrace, (usize, String)> {
    let mut rows = lines(text);
    let header = rows.next().filter(|(_, line)| *line == CSV_HEADER);
    header.ok_or_else(|| (1, format!("a CSV trace begins with the line '{CSV_HEADER}'")))?;
    let mut steps: Vec<(Duration, Bitrate)> = Vec::new();
    let mut last_line = 1;
    for (line, row) in rows {
        let number = |text: &str, most: f64, what: &str| {
            let value = text.trim().parse::<f64>().ok();
            let value = value.filter(|value| (0.0..=most).contains(value));
            value.ok_or_else(|| {
                (line, format!("'{text}' is no {what}; write a number from 0 to {most}"))
            })
        };
        let cells = row.split_once(',');
        let (time, rate) =
            cells.ok_or_else(|| (line, "wants two numbers, time_s,rate_mbps".to_owned()))?;
        let time = number(time, MAX_DURATION.as_secs_f64(), "time in seconds")?;
        let rate = number(rate, MAX_RATE_MBPS, "rate in Mb/s")?;
        let time = Duration::from_nanos((time * 1e9).round() as u64);
        match steps.last() {
            None if !time.is_zero() => {
                return Err((line, "the first time of a trace must be 0".to_owned()));
            }
            Some((before, _)) if time <= *before => {
                return Err((line, "times must rise from line to line".to_owned()));
            }
            _ => steps.push((time, Bitrate::bps((rate * 1e6).round() as u64))),
        }
        last_line = line;
    }
    let period = match steps[..] {
        [] => return Err((last_line, "the trace has no rows; add one like '0,476'".to_owned())),
        [(_, rate)] => return Ok(RateTrace::constant(rate)),
        [.., (before, _), (last, _)] => last + (last - before),
    };
    build(steps, period).map_err(|message| (last_line, message))
}

/// One integer millisecond a line, each an opportunity to deliver 1500 bytes at that time: in the
/// millisecond that ends then (millisecond 0 counts as 1). Loops at the last.
fn mahimahi(text: &str) -> Result<RateTrace, (usize, String)> {
    let mut steps: Vec<(Duration, Bitrate)> = Vec::new();
    let (mut slot, mut count, mut last_line) = (1_u64, 0_u32, 1);
    for (line, row) in lines(text) {
        let most = MAX_DURATION.as_millis() as u64;
        let time = row.parse::<u64>().ok().filter(|time| *time <= most);
        let wanted = || format!("'{row}' is no time; write whole milliseconds from 0 to {most}");
        let time = time.ok_or_else(|| (line, wanted()))?.max(1);
        if time < slot {
            return Err((line, "times must not fall from line to line".to_owned()));
        }
        if time > slot {
            push_slot(&mut steps, slot, count);
            if time > slot + 1 {
                push_slot(&mut steps, slot + 1, 0);
            }
            (slot, count) = (time, 0);
        }
        count += 1;
        last_line = line;
    }
    if count == 0 {
        return Err((1, "the trace has no lines; each is a time in milliseconds".to_owned()));
    }
    push_slot(&mut steps, slot, count);
    build(steps, Duration::from_millis(slot)).map_err(|message| (last_line, message))
}

/// Adds the millisecond that ends at `slot` with its number of opportunities.
fn push_slot(steps: &mut Vec<(Duration, Bitrate)>, slot: u64, count: u32) {
    let rate = Bitrate::bps(OPPORTUNITY.as_bps() * u64::from(count));
    steps.push((Duration::from_millis(slot - 1), rate));
}

/// Makes a trace of steps, joining neighbours of one rate.
pub(crate) fn build(
    mut steps: Vec<(Duration, Bitrate)>,
    period: Duration,
) -> Result<RateTrace, String> {
    steps.dedup_by_key(|(_, rate)| *rate);
    RateTrace::from_steps(steps, period).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftline_core::ByteCount;

    const MS: Duration = Duration::from_millis(1);

    fn read(format: TraceFormat, text: &str) -> Result<RateTrace, String> {
        parse("some.trace", format, text).map_err(|error| error.to_string())
    }

    #[test]
    fn csv_holds_each_rate_and_loops_after_the_last_interval() {
        let text = "time_s,rate_mbps\n0,100\n0.5,20.5\r\n\n2,0\n";
        let trace = read(TraceFormat::Csv, text).unwrap();
        assert_eq!(trace.period(), 3500 * MS);
        for (ms, kbps) in [(0, 100_000), (499, 100_000), (500, 20_500), (2000, 0), (3499, 0)] {
            assert_eq!(trace.rate_at(ms * MS), Bitrate::kbps(kbps), "{ms}");
        }
        assert_eq!(trace.rate_at(3500 * MS), Bitrate::mbps(100));
        let constant = read(TraceFormat::Csv, "time_s,rate_mbps\n0,7").unwrap();
        assert_eq!(constant, RateTrace::constant(Bitrate::mbps(7)));
    }

    #[test]
    fn mahimahi_delivers_1500_bytes_a_line() {
        let trace = read(TraceFormat::Mahimahi, "1\n1\n2\n5\n5\n5\n10\n").unwrap();
        assert_eq!(trace.period(), 10 * MS);
        let bytes = |from: u32, to: u32| trace.bytes_between(from * MS, to * MS).as_u64();
        let slots: Vec<_> = (0..10).map(|ms| bytes(ms, ms + 1)).collect();
        assert_eq!(slots, [3000, 1500, 0, 0, 4500, 0, 0, 0, 0, 1500]);
        assert_eq!(bytes(0, 1000), 100 * 7 * 1500);
        // A packet begun with its opportunity's millisecond leaves at the opportunity.
        assert_eq!(trace.finish(9 * MS, ByteCount::new(1500)), Some(10 * MS));
        let zero = read(TraceFormat::Mahimahi, "0\n0\n2\n").unwrap();
        assert_eq!(zero.bytes_between(Duration::ZERO, MS), ByteCount::new(3000));
    }

    #[test]
    fn bad_traces_name_file_line_and_remedy() {
        let csv = |text: &str| read(TraceFormat::Csv, text).unwrap_err();
        let mahimahi = |text: &str| read(TraceFormat::Mahimahi, text).unwrap_err();
        let head = "time_s,rate_mbps\n";
        insta::assert_snapshot!(
            [
                csv(""),
                csv("0,1\n"),
                csv(head),
                csv(&format!("{head}0,1\n1;2\n")),
                csv(&format!("{head}0,1\n1,-2\n")),
                csv(&format!("{head}0,1\n1,NaN\n")),
                csv(&format!("{head}1,1\n")),
                csv(&format!("{head}0,1\n2,1\n2,1\n")),
                csv(&format!("{head}0,1\n1e99,1\n")),
                mahimahi(""),
                mahimahi("1\n-2\n"),
                mahimahi("4\n3\n"),
                mahimahi("99999999999\n"),
            ]
            .join("\n")
        );
    }
}
