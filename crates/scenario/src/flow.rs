//! Competing flows: the connections of a scenario that has more than one.

use std::fmt;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};

use crate::document::{Table, Value};
use crate::path::check_name;
use crate::{Congestion, PathSpec, ScenarioError, Scheme, UnknownName, Workload};

/// The most flows of a scenario.
pub(crate) const MAX_FLOWS: usize = 64;

/// A `[[flow]]` as the scenario has it.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSpec {
    /// Its name, unique in the scenario.
    pub name: String,
    /// Its scheme; none stands for the scheme under test.
    pub scheme: Option<Scheme>,
    /// Its congestion control; none stands for that of the run.
    pub congestion: Option<Congestion>,
    /// The names of the paths it may use; none are all.
    pub paths: Vec<String>,
    /// When it begins.
    pub start: Duration,
    /// When it ends; by default with the run.
    pub stop: Option<Duration>,
    /// What it sends. By default a flow of the scheme under test has the scenario's workload, and
    /// one with a scheme of its own `bulk`.
    pub workload: Option<Workload>,
}

/// A connection of a run, nothing left open.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Its name; empty if the scenario names no flows.
    pub name: String,
    /// Its scheme.
    pub scheme: Scheme,
    /// The congestion control on each of its paths.
    pub congestion: Congestion,
    /// The paths it uses, as places in [`Scenario::paths`](crate::Scenario::paths); at least one.
    pub paths: Vec<usize>,
    /// When it begins.
    pub start: Duration,
    /// When it ends.
    pub stop: Duration,
    /// What it sends.
    pub workload: Workload,
}

impl FlowSpec {
    /// Reads a `[[flow]]` table of a scenario with those paths.
    pub(crate) fn read(
        mut table: Table<'_>,
        paths: &[PathSpec],
        duration: Duration,
    ) -> Result<Self, ScenarioError> {
        let name = table.need("name", "name = \"tcp\"")?;
        check_name(&name)?;
        let used = match table.take("paths") {
            None => Vec::new(),
            Some(value) => read_paths(value, paths)?,
        };
        let optional = |value: Option<Value<'_>>| value.map(|value| value.parse()).transpose();
        let scheme = table.take("scheme");
        let flow = Self {
            name: name.text()?.to_owned(),
            congestion: optional(table.take("congestion"))?,
            start: match table.take("start") {
                None => Duration::ZERO,
                Some(value) => match value.duration()? {
                    start if start < duration => start,
                    _ => return Err(value.error("must come before the end of the scenario")),
                },
            },
            stop: table.take("stop").map(|value| value.duration()).transpose()?,
            workload: table.take("workload").map(|value| value.parse()).transpose()?,
            scheme: scheme.as_ref().map(Value::parse).transpose()?,
            paths: used,
        };
        if flow.stop.is_some_and(|stop| stop <= flow.start) {
            return Err(table.error("stops before it starts; give a later stop"));
        }
        if let (Some(value), Some(scheme)) = (&scheme, &flow.scheme) {
            let names = flow.path_names(paths);
            scheme.check_paths(&names).map_err(|error| value.error(error))?;
        }
        table.finish()?;
        Ok(flow)
    }

    pub(crate) fn path_names<'a>(&'a self, paths: &'a [PathSpec]) -> Vec<&'a str> {
        match self.paths.is_empty() {
            true => paths.iter().map(|path| path.name.as_str()).collect(),
            false => self.paths.iter().map(String::as_str).collect(),
        }
    }
}

fn read_paths(value: Value<'_>, paths: &[PathSpec]) -> Result<Vec<String>, ScenarioError> {
    let empty = value.error("is empty; leave it out to use all paths");
    let mut used: Vec<String> = Vec::new();
    for name in value.array()? {
        let text = name.text()?;
        if !paths.iter().any(|path| path.name == text) {
            let known: Vec<_> = paths.iter().map(|path| path.name.as_str()).collect();
            let known = known.join(", ");
            let unknown = UnknownName { kind: "path", text: text.to_owned(), known };
            return Err(name.error(unknown));
        }
        if used.iter().any(|other| other == text) {
            return Err(name.error(format!("names '{text}' a second time")));
        }
        used.push(text.to_owned());
    }
    if used.is_empty() { Err(empty) } else { Ok(used) }
}

/// The name of the `number`-th connection of a flow that goes over several.
pub(crate) fn part_name(flow: &str, number: usize) -> String {
    match flow {
        "" => (number + 1).to_string(),
        name => format!("{name}-{}", number + 1),
    }
}

impl Flow {
    /// The `number`-th of so many equal parts of it; what remains of a division is the first's.
    pub(crate) fn part(&self, number: usize, parts: usize) -> Self {
        let name = part_name(&self.name, number);
        let share = |whole: u64| {
            let parts = parts as u64;
            whole / parts + if number == 0 { whole % parts } else { 0 }
        };
        let size = |size: ByteCount| ByteCount::new(share(size.as_u64()).max(1));
        let rate = |rate: Bitrate| Bitrate::bps(share(rate.as_bps()).max(1));
        let percent = |whole: u16| u16::try_from(share(whole.into())).unwrap_or(whole);
        let workload = match self.workload {
            Workload::Burst(whole) => Workload::Burst(size(whole)),
            Workload::Cbr(whole) => Workload::Cbr(rate(whole)),
            Workload::CbrShare(whole) => Workload::CbrShare(percent(whole)),
            Workload::Messages(whole) => Workload::Messages(rate(whole)),
            Workload::MessagesShare(whole) => Workload::MessagesShare(percent(whole)),
            Workload::Tiles(whole) => Workload::Tiles(rate(whole)),
            Workload::TilesShare(whole) => Workload::TilesShare(percent(whole)),
            Workload::Transfer(whole) => Workload::Transfer(size(whole)),
            other => other,
        };
        Self { name, workload, ..self.clone() }
    }
}

/// As the TOML table of a `[[flow]]`.
impl fmt::Display for FlowSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duration = humantime::format_duration;
        writeln!(f, "[[flow]]\nname = \"{}\"", self.name)?;
        if let Some(scheme) = &self.scheme {
            writeln!(f, "scheme = \"{scheme}\"")?;
        }
        if let Some(congestion) = self.congestion {
            writeln!(f, "congestion = \"{congestion}\"")?;
        }
        if !self.paths.is_empty() {
            writeln!(f, "paths = {:?}", self.paths)?;
        }
        writeln!(f, "start = \"{}\"", duration(self.start))?;
        if let Some(stop) = self.stop {
            writeln!(f, "stop = \"{}\"", duration(stop))?;
        }
        match self.workload {
            Some(workload) => writeln!(f, "workload = \"{workload}\""),
            None => Ok(()),
        }
    }
}
