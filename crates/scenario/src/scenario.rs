//! A scenario: paths and workload, read from TOML with errors that name file, line and key.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::time::Duration;

use weftline_core::scheduler::{RulesOff, SchedulerConfig};
use weftline_core::{Bitrate, ByteCount};
use weftline_link::{LinkConfig, LossModel};

use crate::builtin::{self, BUILTIN};
use crate::document::{MAX_DURATION, Source, Table, Value};
use crate::flow::{MAX_FLOWS, part_name};
use crate::path::{check_name, read_loss};
use crate::rate::{Load, RateSpec};
use crate::topology::PACKET_BYTES;
use crate::{
    Congestion, Flow, FlowSpec, GatewayAps, PathSpec, ScenarioError, Scheme, TraceFile,
    UnknownName, VideoSpec, WideLink, Workload,
};

/// The most paths of a scenario; kernel MPTCP has at most eight subflows.
const MAX_PATHS: usize = 8;
/// The shortest run.
const MIN_DURATION: Duration = Duration::from_millis(100);

/// The sizes that a full packet may have: headers and options take up to 88 bytes of it.
const MIN_PACKET_BYTES: u64 = 128;
const MAX_PACKET_BYTES: u64 = 9000;

/// How large a socket's receive buffer may become, unless the scenario says otherwise: the last
/// number of Linux's `tcp_rmem`.
const RECEIVE_BUFFER: ByteCount = ByteCount::mib(6);

/// What it may be set to.
const MIN_RECEIVE_BUFFER: ByteCount = ByteCount::kib(16);
const MAX_RECEIVE_BUFFER: ByteCount = ByteCount::mib(1024);

/// The longest scenario or trace file that is read, in bytes.
const MAX_FILE: u64 = 64 << 20;

/// What is run: paths and a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario {
    /// Its name, which results carry.
    pub name: String,
    /// What it is, in one line.
    pub about: String,
    /// Where it comes from: a paper's section, or empty.
    pub source: String,
    /// How long the workload runs.
    pub duration: Duration,
    /// How much of that is left out of the goodput.
    pub warmup: Duration,
    /// The paths, one to eight, of different names.
    pub paths: Vec<PathSpec>,
    /// What is sent.
    pub workload: Workload,
    /// Settings of our schedulers, and the rules of them that are switched off.
    pub scheduler: SchedulerConfig,
    /// The ratio that `musher` begins with: the first path's share of the segments in percent, 5 to
    /// 95, as earlier connections of the host may have left it.
    pub ratio: Option<u8>,
    /// Over how many connections at once the workload is sent; one of a given size is shared out
    /// among them.
    pub parallel: usize,
    /// The size of a full packet in bytes, IP header included.
    pub packet_bytes: u64,
    /// Whether the server's host paces every connection, whatever its congestion control, as Linux
    /// does with the queueing discipline `fq`.
    pub sender_pacing: bool,
    /// How large a socket's receive buffer may become, as the last number of Linux's `tcp_rmem`. Linux
    /// tunes each one to what the application reads in a round trip; half of it is window.
    pub receive_buffer: ByteCount,
    /// The link that all paths share; none if the paths begin at the server.
    pub backend: Option<WideLink>,
    /// Gateway and access points, where the paths are such.
    pub gateway_aps: Option<GatewayAps>,
    /// The connections, if there is more to say than one over all paths: see
    /// [`connections`](Self::connections).
    pub flows: Vec<FlowSpec>,
}

impl Scenario {
    /// The built-in scenario of that name, or the one in that file.
    ///
    /// # Errors
    ///
    /// If there is neither, or the file is wrong.
    pub fn find(name_or_path: &str) -> Result<Self, ScenarioError> {
        if let Some(builtin) = BUILTIN.iter().find(|builtin| builtin.name == name_or_path) {
            return builtin.scenario();
        }
        let path = Path::new(name_or_path);
        if path.is_file() || name_or_path.ends_with(".toml") {
            return Self::load(path);
        }
        let known = BUILTIN.iter().map(|builtin| builtin.name).collect::<Vec<_>>().join(", ");
        Err(ScenarioError::Unknown { kind: "scenario", name: name_or_path.to_owned(), known })
    }

    /// Reads a scenario file and the trace files it names.
    ///
    /// # Errors
    ///
    /// If the file cannot be read or is wrong.
    pub fn load(path: &Path) -> Result<Self, ScenarioError> {
        let file = path.display().to_string();
        let text = read_bounded(path)
            .map_err(|source| ScenarioError::Read { file: file.clone(), source })?;
        let folder = path.parent().unwrap_or(Path::new(""));
        Self::parse(&file, &text, &|trace| read_bounded(&folder.join(trace)))
    }

    /// Reads a scenario from `text`. `file` names it in errors; `load` reads the trace files that
    /// it names.
    ///
    /// # Errors
    ///
    /// If the text or a trace file is wrong.
    pub fn parse(file: &str, text: &str, load: Load) -> Result<Self, ScenarioError> {
        let mut table = Source { file, text }.parse()?;
        if table.has("scenario") && !table.has("name") {
            return Err(table.error("this is a sweep: 'weftline sim sweep' and 'lab sweep' run it"));
        }
        let name = table.need("name", "name = \"my-scenario\"")?;
        check_name(&name)?;
        let mut text_or_empty = |key| match table.take(key) {
            Some(value) => value.text().map(str::to_owned),
            None => Ok(String::new()),
        };
        let (about, source) = (text_or_empty("about")?, text_or_empty("source")?);
        let duration_value = table.need("duration", "duration = \"20s\"")?;
        let duration = duration_value.duration()?;
        if duration < MIN_DURATION {
            return Err(duration_value.error("is too short; 100ms are the least"));
        }
        let warmup = match table.take("warmup") {
            None => Duration::ZERO,
            Some(value) => match value.duration()? {
                warmup if warmup < duration => warmup,
                _ => return Err(value.error("must be shorter than the duration")),
            },
        };
        let paths = read_paths(&mut table, load)?;
        let (workload, parallel, of_parallel) = read_workload(&mut table)?;
        let backend = table.take("backend");
        let backend =
            backend.map(|value| WideLink::read(Some(value), Duration::ZERO)).transpose()?;
        let (scheduler, ratio) = read_scheduler(&mut table)?;
        let flows = read_flows(&mut table, &paths, duration)?;
        if let Some(value) = of_parallel {
            check_parts(&value, parallel, &paths, &flows)?;
        }
        let packet_bytes = match table.take("packet_size") {
            None => PACKET_BYTES,
            Some(value) => value.whole(MIN_PACKET_BYTES, MAX_PACKET_BYTES)?,
        };
        let scenario = Self {
            name: name.text()?.to_owned(),
            about,
            source,
            duration,
            warmup,
            flows,
            workload,
            scheduler,
            ratio,
            parallel,
            packet_bytes,
            sender_pacing: table
                .take("sender_pacing")
                .map_or(Ok(false), |value| value.boolean())?,
            receive_buffer: match table.take("receive_buffer") {
                None => RECEIVE_BUFFER,
                Some(value) => read_receive_buffer(&value)?,
            },
            backend,
            gateway_aps: GatewayAps::read(&mut table, &paths, packet_bytes)?,
            paths,
        };
        table.finish()?;
        Ok(scenario)
    }

    /// Makes it last as long as that, within the limits of a file.
    ///
    /// # Errors
    /// When it would be too short or too long, nothing would be left after the warm-up, or a flow
    /// would never begin; then nothing has changed.
    pub fn set_duration(&mut self, duration: Duration, warmup: Duration) -> Result<(), BadTimes> {
        if !(MIN_DURATION..=MAX_DURATION).contains(&duration) {
            return Err(BadTimes::Duration(duration));
        }
        if warmup >= duration {
            return Err(BadTimes::Warmup(warmup, duration));
        }
        if let Some(flow) = self.flows.iter().find(|flow| flow.start >= duration) {
            return Err(BadTimes::Flow(flow.start, duration));
        }
        (self.duration, self.warmup) = (duration, warmup);
        Ok(())
    }

    /// The path of that name.
    pub fn path(&self, name: &str) -> Option<&PathSpec> {
        self.paths.iter().find(|path| path.name == name)
    }

    /// The links of a path, down and up. A queue given as a bandwidth-delay product counts the
    /// round trip over the links before the path as well.
    pub fn links(&self, path: &PathSpec, seed: u64) -> [LinkConfig; 2] {
        let backend = self.backend.map_or(Duration::ZERO, |link| link.delay);
        let gateway = self.gateway_aps.as_ref().map_or(Duration::ZERO, |aps| aps.link.delay);
        let before = 2 * (backend + gateway);
        [
            path.down_link_behind(before, seed, self.duration),
            path.up_link_behind(before, seed, self.duration),
        ]
    }

    /// `workload` with a share of the paths' sum made a rate: that of the mean rates that `seed`
    /// gives. Paths that share an earlier one's links count once.
    pub fn offered(&self, workload: Workload, seed: u64) -> Workload {
        let (percent, of_rate): (u16, fn(Bitrate) -> Workload) = match workload {
            Workload::CbrShare(percent) => (percent, Workload::Cbr),
            Workload::MessagesShare(percent) => (percent, Workload::Messages),
            Workload::TilesShare(percent) => (percent, Workload::Tiles),
            other => return other,
        };
        let own = self.paths.iter().filter(|path| path.shares.is_none());
        let sum: u64 = own.map(|path| path.down_trace(seed, self.duration).mean().as_bps()).sum();
        let rate = u128::from(sum) * u128::from(percent) / 100;
        of_rate(Bitrate::bps(u64::try_from(rate).unwrap_or(u64::MAX).max(1)))
    }

    /// The trace files that the scenario names, as read.
    pub fn trace_files_mut(&mut self) -> impl Iterator<Item = &mut TraceFile> {
        let rates =
            self.paths.iter_mut().flat_map(|path| [Some(&mut path.rate), path.up.rate.as_mut()]);
        rates.flatten().filter_map(|rate| match rate {
            RateSpec::File(file) => Some(file),
            _ => None,
        })
    }
}

fn read_receive_buffer(value: &Value<'_>) -> Result<ByteCount, ScenarioError> {
    let buffer: ByteCount = value.quantity()?;
    if (MIN_RECEIVE_BUFFER..=MAX_RECEIVE_BUFFER).contains(&buffer) {
        return Ok(buffer);
    }
    Err(value.error(format!("wants a size from {MIN_RECEIVE_BUFFER} to {MAX_RECEIVE_BUFFER}")))
}

fn read_paths(table: &mut Table<'_>, load: Load) -> Result<Vec<PathSpec>, ScenarioError> {
    let example = "[[path]] with name = \"wifi\" and rate = \"476Mbps\"";
    let usual_loss = read_loss(table)?.unwrap_or(LossModel::None);
    let mut paths: Vec<PathSpec> = Vec::new();
    for value in table.need("path", example)?.array()? {
        if paths.len() == MAX_PATHS {
            return Err(value.error(format!("a scenario has at most {MAX_PATHS} paths")));
        }
        let twice = value.error("has the name of another path; give it one of its own");
        let path = PathSpec::read(value.table()?, &paths, &usual_loss, load)?;
        if paths.iter().any(|other| other.name == path.name) {
            return Err(twice);
        }
        paths.push(path);
    }
    if paths.is_empty() {
        return Err(table.error(format!("key 'path' is empty; add a {example}")));
    }
    Ok(paths)
}

/// The workload, and over how many connections it goes, with what says that: `bulk` over one unless the
/// scenario says otherwise.
fn read_workload<'a>(
    table: &mut Table<'a>,
) -> Result<(Workload, usize, Option<Value<'a>>), ScenarioError> {
    let Some(value) = table.take("workload") else { return Ok((Workload::Bulk, 1, None)) };
    let mut table = value.table()?;
    let mut workload: Workload = table.need("kind", "kind = \"bulk\"")?.parse()?;
    if let Some(video) = workload.video_mut() {
        *video = VideoSpec::read(&mut table)?;
    }
    let of_parallel = table.take("parallel");
    let parallel = match &of_parallel {
        None => 1,
        Some(value) => match value.whole(1, MAX_FLOWS as u64)? {
            1 => 1,
            _ if workload.video().is_some() => {
                return Err(value.error("a video is downloaded over one connection"));
            }
            parallel => parallel as usize,
        },
    };
    table.finish()?;
    Ok((workload, parallel, of_parallel.filter(|_| parallel > 1)))
}

/// `[scheduler]` with `without = ["copy-late"]`, `copies`, `latency`, `window`, and `ratio = 25`.
fn read_scheduler(table: &mut Table<'_>) -> Result<(SchedulerConfig, Option<u8>), ScenarioError> {
    let mut config = SchedulerConfig::default();
    let Some(value) = table.take("scheduler") else { return Ok((config, None)) };
    let mut table = value.table()?;
    if let Some(copies) = table.take("copies") {
        config.copies_permille = (copies.number(0.0, 1.0)? * 1000.0).round() as u64;
    }
    if let Some(latency) = table.take("latency") {
        let time = latency.duration()?;
        if time.is_zero() {
            return Err(latency.error("an aim for the latency is more than 0"));
        }
        config.latency = Some(time);
    }
    if let Some(window) = table.take("window") {
        let (size, least, most) =
            (window.parse::<ByteCount>()?, ByteCount::new(1448), ByteCount::mib(1024));
        if !(least..=most).contains(&size) {
            return Err(window.error(format!("a window is {least} to {most}, {size} is not")));
        }
        config.window = Some(size.as_u64());
    }
    let mut off = Vec::new();
    if let Some(rules) = table.take("without") {
        for rule in rules.array()? {
            rule.parse::<RulesOff>()?;
            off.push(rule.text()?.to_owned());
        }
    }
    let ratio = table.take("ratio").map(|value| value.whole(5, 95)).transpose()?;
    table.finish()?;
    config.without = off.join(",").parse().expect("each has just been read");
    Ok((config, ratio.map(|percent| percent as u8)))
}

fn read_flows(
    table: &mut Table<'_>,
    paths: &[PathSpec],
    duration: Duration,
) -> Result<Vec<FlowSpec>, ScenarioError> {
    let Some(value) = table.take("flow") else { return Ok(Vec::new()) };
    let empty = value.error("is empty; leave it out for one flow over all paths");
    let mut flows: Vec<FlowSpec> = Vec::new();
    for value in value.array()? {
        if flows.len() == MAX_FLOWS {
            return Err(value.error(format!("a scenario has at most {MAX_FLOWS} flows")));
        }
        let twice = value.error("has the name of another flow; give it one of its own");
        let of_path = value.error(
            "has the name of a path, and the time series of the two could not be told apart; give it \
             one of its own",
        );
        let flow = FlowSpec::read(value.table()?, paths, duration)?;
        if flows.iter().any(|other| other.name == flow.name) {
            return Err(twice);
        }
        if paths.iter().any(|path| path.name == flow.name) {
            return Err(of_path);
        }
        flows.push(flow);
    }
    if flows.is_empty() { Err(empty) } else { Ok(flows) }
}

/// Checks that no other flow and no path has the name of one of the first flow's connections.
fn check_parts(
    value: &Value<'_>,
    parallel: usize,
    paths: &[PathSpec],
    flows: &[FlowSpec],
) -> Result<(), ScenarioError> {
    let first = flows.first().map_or("", |flow| flow.name.as_str());
    let others = flows.iter().skip(1).map(|flow| &flow.name);
    let names: Vec<&String> = paths.iter().map(|path| &path.name).chain(others).collect();
    let mut parts = (0..parallel).map(|number| part_name(first, number));
    match parts.find(|part| names.contains(&part)) {
        None => Ok(()),
        Some(name) => Err(value.error(format!(
            "gives a connection the name '{name}', which is that of a path or another flow; give that \
             another one"
        ))),
    }
}

impl Scenario {
    /// The connections of a run of `scheme`: the `[[flow]]` entries, or one without a name. The
    /// first is the one that a record's own figures are about; with `parallel` connections it is
    /// the first so many, which share out its workload.
    ///
    /// # Errors
    ///
    /// If `scheme` wants a path that the scenario, or a flow of that scheme, does not have.
    pub fn connections(
        &self,
        scheme: &Scheme,
        congestion: Congestion,
    ) -> Result<Vec<Flow>, UnknownName> {
        let whole = FlowSpec {
            name: String::new(),
            scheme: None,
            congestion: None,
            paths: Vec::new(),
            start: Duration::ZERO,
            stop: None,
            workload: None,
        };
        let specs = if self.flows.is_empty() { std::slice::from_ref(&whole) } else { &self.flows };
        let flow = |spec: &FlowSpec| {
            let under_test = spec.scheme.is_none();
            let scheme = spec.scheme.as_ref().unwrap_or(scheme);
            let names = spec.path_names(&self.paths);
            scheme.check_paths(&names)?;
            let uses = |name: &str| match scheme.path() {
                Some(only) => only == name,
                None => names.contains(&name),
            };
            let paths = self.paths.iter().enumerate();
            let paths = paths.filter(|(_, path)| uses(&path.name)).map(|(index, _)| index);
            let usual = if under_test { self.workload } else { Workload::Bulk };
            Ok(Flow {
                name: spec.name.clone(),
                scheme: scheme.clone(),
                congestion: spec.congestion.unwrap_or(congestion),
                paths: paths.collect(),
                start: spec.start,
                stop: spec.stop.unwrap_or(self.duration).min(self.duration).max(spec.start),
                workload: spec.workload.unwrap_or(usual),
            })
        };
        let mut flows = specs.iter().map(flow).collect::<Result<Vec<_>, _>>()?;
        if self.parallel > 1 {
            let first = flows.remove(0);
            let part = |number| first.part(number, self.parallel);
            flows.splice(0..0, (0..self.parallel).map(part));
        }
        Ok(flows)
    }
}

impl Scheme {
    /// Checks that the scheme's path is one of the scenario's.
    ///
    /// # Errors
    ///
    /// If it is not; the error lists those there are.
    pub fn check(&self, scenario: &Scenario) -> Result<(), UnknownName> {
        let names: Vec<_> = scenario.paths.iter().map(|path| path.name.as_str()).collect();
        self.check_paths(&names)
    }
}

/// Why times do not make a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadTimes {
    /// The duration is out of bounds.
    #[error("a run of {0:?} is out of bounds; it lasts 100ms to 24h")]
    Duration(Duration),
    /// Nothing is left to measure.
    #[error("the warm-up of {0:?} is not shorter than the duration of {1:?}")]
    Warmup(Duration, Duration),
    /// A flow would never begin.
    #[error("a flow begins after {0:?}, when the run of {1:?} is over")]
    Flow(Duration, Duration),
}

/// Reads a file of at most [`MAX_FILE`] bytes.
pub(crate) fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let read = File::open(path)?.take(MAX_FILE + 1).read_to_string(&mut text)?;
    if read as u64 > MAX_FILE {
        let message = format!("it is larger than {} MiB, the most that is read", MAX_FILE >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, message));
    }
    Ok(text)
}

/// As a TOML file that says the same, every default written out.
impl fmt::Display for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |text: &str| toml::Value::String(text.to_owned());
        writeln!(f, "name = \"{}\"", self.name)?;
        writeln!(f, "about = {}", text(&self.about))?;
        writeln!(f, "source = {}", text(&self.source))?;
        writeln!(f, "duration = \"{}\"", humantime::format_duration(self.duration))?;
        writeln!(f, "warmup = \"{}\"", humantime::format_duration(self.warmup))?;
        if self.packet_bytes != PACKET_BYTES {
            writeln!(f, "packet_size = {}", self.packet_bytes)?;
        }
        if self.sender_pacing {
            writeln!(f, "sender_pacing = true")?;
        }
        if self.receive_buffer != RECEIVE_BUFFER {
            writeln!(f, "receive_buffer = \"{}\"", self.receive_buffer)?;
        }
        if self.gateway_aps.is_some() {
            writeln!(f, "topology = \"gateway-aps\"")?;
        }
        for path in &self.paths {
            write!(f, "\n{path}")?;
        }
        if let Some(backend) = &self.backend {
            write!(f, "{backend}")?;
        }
        if let Some(gateway_aps) = &self.gateway_aps {
            write!(f, "{gateway_aps}")?;
        }
        for flow in &self.flows {
            write!(f, "\n{flow}")?;
        }
        if self.scheduler != SchedulerConfig::default() || self.ratio.is_some() {
            write_scheduler(f, &self.scheduler, self.ratio)?;
        }
        writeln!(f, "\n[workload]\nkind = \"{}\"", self.workload)?;
        if self.parallel > 1 {
            writeln!(f, "parallel = {}", self.parallel)?;
        }
        match self.workload.video() {
            Some(video) => write!(f, "{video}"),
            None => Ok(()),
        }
    }
}

/// The `[scheduler]` that says so.
fn write_scheduler(
    f: &mut fmt::Formatter<'_>,
    config: &SchedulerConfig,
    ratio: Option<u8>,
) -> fmt::Result {
    let names: Vec<String> = config.without.names().map(|name| format!("\"{name}\"")).collect();
    writeln!(f, "\n[scheduler]\nwithout = [{}]", names.join(", "))?;
    writeln!(f, "copies = {:?}", config.copies_permille as f64 / 1000.0)?;
    if let Some(latency) = config.latency {
        writeln!(f, "latency = \"{}\"", humantime::format_duration(latency))?;
    }
    if let Some(window) = config.window {
        writeln!(f, "window = \"{}\"", ByteCount::new(window))?;
    }
    match ratio {
        Some(ratio) => writeln!(f, "ratio = {ratio}"),
        None => Ok(()),
    }
}

impl builtin::Builtin {
    /// The scenario itself.
    ///
    /// # Errors
    ///
    /// None in a release: a test reads every built-in scenario.
    pub fn scenario(&self) -> Result<Scenario, ScenarioError> {
        Scenario::parse(&format!("{}.toml", self.name), self.text, &builtin::trace)
    }
}
