//! The rate of a direction of a path: constant, from a file, or from a generator.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use weftline_core::Bitrate;
use weftline_core::rng::Rng;
use weftline_link::RateTrace;

use crate::ScenarioError;
use crate::document::{Table, Value};
use crate::generator::{Blockage, BlockageState, Outage};
use crate::headset::Headset;
use crate::trace_file::{self, TraceFormat};

/// Reads a file named relative to the scenario file.
pub(crate) type Load<'a> = &'a dyn Fn(&Path) -> io::Result<String>;

/// Where a direction's rate comes from.
#[derive(Clone, Debug, PartialEq)]
pub enum RateSpec {
    /// A radio that gets blocked.
    Blockage(Blockage),
    /// Always the same.
    Constant(Bitrate),
    /// A trace from a file.
    File(TraceFile),
    /// A 60 GHz radio on a head that turns.
    Headset(Headset),
    /// A link that goes away now and then.
    Outage(Outage),
}

/// A trace that was read from a file. Copies share what it says: a sweep makes one for each run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceFile {
    /// The file, as the scenario names it: relative to the scenario file.
    pub file: String,
    /// Its format.
    pub format: TraceFormat,
    /// Its text.
    pub text: Arc<str>,
    /// What it says.
    pub trace: Arc<RateTrace>,
}

impl RateSpec {
    /// The rate over time. A generator makes `duration` of it from the random stream of that name;
    /// any trace loops when it ends.
    pub fn trace(&self, seed: u64, stream: &str, duration: Duration) -> RateTrace {
        let rng = || Rng::stream(seed, stream);
        let steps = match self {
            Self::Constant(rate) => return RateTrace::constant(*rate),
            Self::File(file) => return RateTrace::clone(&file.trace),
            Self::Blockage(blockage) => blockage.steps(&mut rng(), duration),
            Self::Headset(headset) => headset.steps(&mut rng(), duration),
            Self::Outage(outage) => outage.steps(&mut rng(), duration),
        };
        let last = steps.last().map_or(Duration::ZERO, |(start, _)| *start);
        let period = duration.max(last + Duration::from_nanos(1));
        trace_file::build(steps, period).expect("generators make rising steps from 0")
    }

    /// Reads `rate` or `trace` from a path's table; `None` if neither is there.
    pub(crate) fn read(table: &mut Table<'_>, load: Load) -> Result<Option<Self>, ScenarioError> {
        match (table.take("rate"), table.take("trace")) {
            (None, None) => Ok(None),
            (Some(rate), None) => Ok(Some(Self::Constant(positive_rate(&rate)?))),
            (None, Some(trace)) => Self::read_trace(trace, load).map(Some),
            (Some(_), Some(trace)) => Err(trace.error("there is a rate too; keep one of the two")),
        }
    }

    fn read_trace(value: Value<'_>, load: Load) -> Result<Self, ScenarioError> {
        let mut table = value.table()?;
        let rate = match (table.take("generator"), table.take("file")) {
            (None, Some(file)) => Self::read_file(&mut table, &file, load)?,
            (Some(generator), None) => match generator.text()? {
                "blockage" => Self::Blockage(read_blockage(&mut table)?),
                "headset" => Self::Headset(Headset {
                    peak: positive_rate(&table.need("peak", "peak = \"1400Mbps\"")?)?,
                }),
                "outage" => Self::Outage(read_outage(&mut table)?),
                other => {
                    let message =
                        format!("there is no '{other}'; known: blockage, headset, outage");
                    return Err(generator.error(message));
                }
            },
            _ => return Err(table.error("wants either a 'file' or a 'generator'")),
        };
        table.finish()?;
        Ok(rate)
    }

    fn read_file(
        table: &mut Table<'_>,
        file: &Value<'_>,
        load: Load,
    ) -> Result<Self, ScenarioError> {
        let format: TraceFormat = table.need("format", "format = \"csv\"")?.parse()?;
        let name = file.text()?;
        let text = load(Path::new(name))
            .map_err(|error| file.error(format!("cannot read '{name}': {error}")))?;
        let trace = trace_file::parse(name, format, &text)?;
        if trace.mean() == Bitrate::ZERO {
            return Err(file.error(format!("the trace in '{name}' is zero all the time")));
        }
        let (file, text, trace) = (name.to_owned(), text.into(), Arc::new(trace));
        Ok(Self::File(TraceFile { file, format, text, trace }))
    }
}

/// A rate that is not zero.
fn positive_rate(value: &Value<'_>) -> Result<Bitrate, ScenarioError> {
    match value.quantity()? {
        Bitrate::ZERO => {
            Err(value.error("a rate of zero carries nothing; use a trace for outages"))
        }
        rate => Ok(rate),
    }
}

/// Unless the scenario says otherwise, a client on the move: half of the time in line of sight.
fn read_blockage(table: &mut Table<'_>) -> Result<Blockage, ScenarioError> {
    let blockage = Blockage {
        los: read_state(table, ["los", "los_spread", "los_dwell"], (0.03, 5600))?,
        nlos: read_state(table, ["nlos", "nlos_spread", "nlos_dwell"], (0.25, 2600))?,
        blocked: read_state(table, ["blocked", "blocked_spread", "blocked_dwell"], (0.35, 2000))?,
    };
    let longest = [&blockage.los, &blockage.nlos, &blockage.blocked].map(|state| state.dwell);
    if longest.iter().all(Duration::is_zero) {
        return Err(table.error("all dwells are zero; give one of the states a dwell"));
    }
    Ok(blockage)
}

/// Reads rate, spread (0 to 1) and dwell of a state, with defaults for the last two.
fn read_state(
    table: &mut Table<'_>,
    [rate, spread, dwell]: [&'static str; 3],
    (default_spread, default_dwell_ms): (f64, u64),
) -> Result<BlockageState, ScenarioError> {
    let default_dwell = Duration::from_millis(default_dwell_ms);
    Ok(BlockageState {
        rate: table.need(rate, &format!("{rate} = \"600Mbps\""))?.quantity()?,
        spread: table.take(spread).map_or(Ok(default_spread), |value| value.number(0.0, 1.0))?,
        dwell: table.duration_or(dwell, default_dwell)?,
    })
}

fn read_outage(table: &mut Table<'_>) -> Result<Outage, ScenarioError> {
    Ok(Outage {
        rate: positive_rate(&table.need("rate", "rate = \"1600Mbps\"")?)?,
        up: table.need("up", "up = [\"2s\", \"5s\"]")?.duration_range()?,
        down: table.need("down", "down = [\"300ms\", \"1500ms\"]")?.duration_range()?,
    })
}

/// As TOML, with its key `rate` or `trace`.
impl fmt::Display for RateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duration = humantime::format_duration;
        match self {
            Self::Constant(rate) => write!(f, "rate = \"{rate}\""),
            Self::File(TraceFile { file, format, .. }) => {
                let file = toml::Value::String(file.clone());
                write!(f, "trace = {{ file = {file}, format = \"{format}\" }}")
            }
            Self::Blockage(Blockage { los, nlos, blocked }) => {
                write!(f, "trace = {{ generator = \"blockage\"")?;
                for (name, state) in [("los", los), ("nlos", nlos), ("blocked", blocked)] {
                    let BlockageState { rate, spread, dwell } = state;
                    write!(f, ", {name} = \"{rate}\", {name}_spread = {spread:?}")?;
                    write!(f, ", {name}_dwell = \"{}\"", duration(*dwell))?;
                }
                write!(f, " }}")
            }
            Self::Headset(Headset { peak }) => {
                write!(f, "trace = {{ generator = \"headset\", peak = \"{peak}\" }}")
            }
            Self::Outage(Outage { rate, up, down }) => {
                write!(f, "trace = {{ generator = \"outage\", rate = \"{rate}\"")?;
                for (name, [low, high]) in [("up", up), ("down", down)] {
                    write!(f, ", {name} = [\"{}\", \"{}\"]", duration(*low), duration(*high))?;
                }
                write!(f, " }}")
            }
        }
    }
}
