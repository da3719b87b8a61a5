//! `weftline replay`: event files (docs/qlog.md) shown again, as their connections were.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path as FilePath, PathBuf};
use std::thread;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::Watch;
use super::pace::{Pace, Pacer};
use super::show::{Happening, Level, Show};
use crate::failure::Failure;
use crate::ops::qlog::{EVENT_SCHEMA, PREFIX};
use crate::ops::snapshot::{Connection, Path};
use crate::output;

/// Options of `replay`.
#[derive(Debug, Args)]
pub(crate) struct ReplayArgs {
    /// Event files of `serve --qlog` or `connect --qlog`, shown one after the other
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Where the page is; only this machine can reach it
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    watch: SocketAddr,
    /// Recorded seconds per second: 0.1 is slow motion; max is as fast as possible
    #[arg(long, value_name = "N|max", default_value = "1")]
    pace: Pace,
}

/// The longest record that is read, in bytes; ours have some hundreds.
const MAX_RECORD: u64 = 1 << 20;
/// The latest time of a record in ms: a year.
const MAX_TIME_MS: f64 = 365.0 * 86_400_000.0;
/// Paths of a file that are shown.
const MAX_PATHS: usize = 64;
/// Characters that are kept of a path's name, and of any other text: what the page shows of it.
const MAX_NAME: usize = 64;
const MAX_TEXT: usize = 300;
/// The largest count that is taken for one: the largest that JSON is sure to carry (RFC 8259,
/// section 6).
const MAX_COUNT: u64 = (1 << 53) - 1;
/// Where nothing is recorded the page goes on in such steps.
const STEP: Duration = Duration::from_millis(500);
/// What the page keeps: a longer time without records is not shown step by step if nobody waits for it.
const KEPT: Duration = Duration::from_secs(600);

/// Shows event files again.
///
/// # Errors
/// When a file cannot be read or is none, or the page cannot be opened.
pub(crate) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    // What is wrong with a file is said before anything is shown.
    for file in &args.files {
        let mut records = Records::open(file)?;
        while records.next().transpose()?.is_some() {}
        if records.is_cut_off {
            output::note(records.words("was cut off, and is left out"));
        }
    }
    let watch = Watch::open(args.watch, "replay", args.pace, false)?;
    for file in &args.files {
        let records = Records::open(file)?;
        let mut story = Story::new(watch.show(), args.pace, &records.title);
        for record in records {
            story.take(&record?);
        }
    }
    watch.linger()
}

// ---- the file ----

/// A record of a file.
struct Record {
    time: Duration,
    /// Without its prefix.
    name: String,
    data: Value,
}

/// The records of a file.
struct Records {
    path: PathBuf,
    from: BufReader<File>,
    /// Of the last record, from 1 on.
    number: u64,
    title: String,
    time: Duration,
    /// Whether the last record has no end, as where the writer was killed.
    is_cut_off: bool,
}

impl Records {
    /// Opens a file and reads its header.
    fn open(path: &FilePath) -> Result<Self, Failure> {
        let wrong = |error: std::io::Error| Failure::failed(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(wrong)?;
        // It is read twice: what is wrong with it is said before anything is shown.
        if !file.metadata().map_err(wrong)?.is_file() {
            let words = "is no ordinary file; save what comes from a pipe to one";
            return Err(Failure::wrong_use(format!("{} {words}", path.display())));
        }
        let from = BufReader::new(file);
        let (number, title, time) = (0, String::new(), Duration::ZERO);
        let path = path.to_owned();
        let mut records = Self { path, from, number, title, time, is_cut_off: false };
        let Some(header) = records.read()? else {
            return Err(records.wrong("is empty"));
        };
        let schemas = header["trace"]["event_schemas"].as_array();
        if !schemas.is_some_and(|all| all.iter().any(|one| one == EVENT_SCHEMA)) {
            return Err(records.wrong(
                "does not begin as an event file of weftline does; give a file that --qlog wrote",
            ));
        }
        let title = header["title"].as_str().unwrap_or("event file");
        records.title = cut(title, MAX_TEXT);
        Ok(records)
    }

    /// The next record as it is; `None` at the end, also where that was cut off.
    fn read(&mut self) -> Result<Option<Value>, Failure> {
        let mut line = Vec::new();
        let read = (&mut self.from).take(MAX_RECORD).read_until(b'\n', &mut line);
        let read = read.map_err(|error| self.wrong(&format!("cannot be read: {error}")))?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        if line.last() != Some(&b'\n') {
            if read as u64 == MAX_RECORD {
                return Err(self.wrong(&format!("has more than {MAX_RECORD} bytes")));
            }
            self.is_cut_off = true;
            return Ok(None);
        }
        let text = line.strip_prefix(&[0x1e]).unwrap_or(&line);
        match serde_json::from_slice(text) {
            Ok(value) => Ok(Some(value)),
            Err(error) => Err(self.wrong(&format!("is no JSON: {error}"))),
        }
    }

    fn event(&mut self) -> Result<Option<Record>, Failure> {
        loop {
            let Some(record) = self.read()? else { return Ok(None) };
            let time = record["time"].as_f64();
            let Some(ms) = time.filter(|time| (0.0..=MAX_TIME_MS).contains(time)) else {
                return Err(self.wrong(&format!(
                    "has no time from 0 to {MAX_TIME_MS:.0} ms; it is {}",
                    record["time"]
                )));
            };
            // Records are written in order; one that is not is shown when it can be.
            self.time = self.time.max(Duration::from_secs_f64(ms / 1e3));
            // Others may have added theirs.
            let name = record["name"].as_str().and_then(|name| name.strip_prefix(PREFIX));
            if let Some(name) = name {
                let (name, time) = (name.to_owned(), self.time);
                let counts = record["data"].as_object().into_iter().flatten();
                let wrong = counts.filter(|(_, n)| n.as_u64().is_some_and(|n| n > MAX_COUNT));
                if let Some((figure, n)) =
                    wrong.map(|(figure, n)| (cut(figure, MAX_NAME), n)).next()
                {
                    return Err(
                        self.wrong(&format!("has {n} for {figure}; at most {MAX_COUNT} are read"))
                    );
                }
                return Ok(Some(Record { time, name, data: record["data"].clone() }));
            }
        }
    }

    fn words(&self, what: &str) -> String {
        match self.number {
            0 => format!("{} {what}", self.path.display()),
            number => format!("{}: record {number} {what}", self.path.display()),
        }
    }

    fn wrong(&self, what: &str) -> Failure {
        Failure::wrong_use(self.words(what))
    }
}

impl Iterator for Records {
    type Item = Result<Record, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        self.event().transpose()
    }
}

// ---- what it tells ----

/// A file as it is shown.
struct Story<'a> {
    show: &'a Show,
    pacer: Pacer,
    now: Duration,
    connection: Connection,
    /// The newest subflow of each path: one that is repaired has a new one before the old one ends.
    newest: BTreeMap<String, u64>,
}

impl<'a> Story<'a> {
    fn new(show: &'a Show, pace: Pace, title: &str) -> Self {
        let number = show.begin(title, 1, false);
        let label = Some(title.to_owned());
        let connection = Connection { number, label, ..Connection::default() };
        let (pacer, now) = (Pacer::new(pace, Duration::ZERO), Duration::ZERO);
        Self { show, pacer, now, connection, newest: BTreeMap::new() }
    }

    /// Shows a record when it is its time.
    fn take(&mut self, record: &Record) {
        self.pass(record.time);
        let happened = self.apply(record);
        self.see(happened.into_iter().collect());
    }

    /// Lets the time until then pass.
    fn pass(&mut self, until: Duration) {
        if self.pacer.until(until).is_zero() {
            self.now = self.now.max(until.saturating_sub(KEPT));
        }
        while self.now < until {
            let next = until.min(self.now + STEP);
            thread::sleep(self.pacer.until(next));
            self.now = next;
            if next < until {
                self.see(Vec::new());
            }
        }
    }

    fn see(&mut self, happened: Vec<Happening>) {
        self.connection.age_s = self.now.as_secs_f64();
        self.show.see(self.now, vec![self.connection.clone()], Some(happened));
    }

    /// What a record says of the connection, and what has happened.
    fn apply(&mut self, record: &Record) -> Option<Happening> {
        let data = &record.data;
        match record.name.as_str() {
            "connection_started" => {
                self.connection.peer = text(&data["peer"]);
                self.connection.client = data["client"].as_str().map(|name| cut(name, MAX_NAME));
                self.connection.scheduler = text(&data["scheduler"]);
                None
            }
            "connection_used" => {
                let label = text(&data["label"]);
                let words = format!("connection #{} is used for {label}", self.connection.number);
                self.connection.label = Some(label);
                Some(happening("connection_used", Level::Info, None, words))
            }
            "connection_metrics" => {
                self.measure(data);
                None
            }
            "window_updated" => {
                self.connection.window_bytes = data["window_bytes"].as_u64();
                None
            }
            "direction_changed" => {
                self.connection.forward = data["forward"].as_str().map(|name| cut(name, MAX_NAME));
                None
            }
            "connection_closed" => {
                self.measure(data);
                let (level, words) = match data["error"].as_str() {
                    None => (Level::Info, "the connection ended".to_owned()),
                    Some(error) => (Level::Error, format!("the connection failed: {error}")),
                };
                Some(happening("connection_ended", level, None, words))
            }
            "events_lost" | "records_lost" | "file_full" => {
                let words = cut(&format!("the file says {}: {data}", record.name), MAX_TEXT);
                Some(happening("records_lost", Level::Warning, None, words))
            }
            name if name.starts_with("path_") => self.apply_to_path(name, data),
            // A later version may write more.
            _ => None,
        }
    }

    fn measure(&mut self, data: &Value) {
        let now = &mut self.connection;
        for (figure, name) in [
            (&mut now.sent_bytes, "sent_bytes"),
            (&mut now.received_bytes, "received_bytes"),
            (&mut now.duplicate_bytes, "duplicate_bytes"),
            (&mut now.memory_bytes, "memory_bytes"),
            (&mut now.receive_held_bytes, "receive_held_bytes"),
            (&mut now.send_held_bytes, "send_held_bytes"),
        ] {
            *figure = data[name].as_u64().unwrap_or(*figure);
        }
    }

    /// The path of that name; `None` if there are too many.
    fn path(&mut self, name: &str) -> Option<&mut Path> {
        let paths = &mut self.connection.paths;
        let place = match paths.iter().position(|path| path.name == name) {
            Some(place) => place,
            None if paths.len() < MAX_PATHS => {
                let name = name.to_owned();
                paths.push(Path { name, state: "down".to_owned(), ..Path::default() });
                paths.len() - 1
            }
            None => return None,
        };
        Some(&mut paths[place])
    }

    /// Whether an event is of a subflow in whose place there is another one: later ones have higher
    /// numbers.
    fn is_of_old(&mut self, event: &str, name: &str, data: &Value) -> bool {
        let Some(subflow) = data["subflow"].as_u64() else { return false };
        let has_room = self.newest.len() < MAX_PATHS || self.newest.contains_key(name);
        if event == "path_up" && has_room {
            self.newest.insert(name.to_owned(), subflow);
        }
        self.newest.get(name).is_some_and(|newest| subflow < *newest)
    }

    fn apply_to_path(&mut self, event: &str, data: &Value) -> Option<Happening> {
        let name = cut(data["name"].as_str()?, MAX_NAME);
        let is_of_old = self.is_of_old(event, &name, data);
        let path = self.path(&name)?;
        let reason = || text(&data["reason"]);
        let is_back = path.state == "down" && (path.sent_bytes, path.received_bytes) != (0, 0);
        let (event, level, state, words) = match event {
            "path_metrics" => {
                measure_path(path, data);
                return None;
            }
            "path_up" => {
                path.peer = data["peer"].as_str().map(|peer| cut(peer, MAX_NAME));
                let level = if is_back { Level::Good } else { Level::Info };
                ("path_up", level, Some("up"), "is up".to_owned())
            }
            "path_down" if is_of_old => {
                let words = format!("has a new subflow; its old one ended: {}", reason());
                ("path_down", Level::Good, None, words)
            }
            "path_down" => {
                let words = format!("is down: {}", reason());
                ("path_down", Level::Error, Some("down"), words)
            }
            "path_silent" => {
                ("path_silent", Level::Warning, Some("silent"), "makes no progress".to_owned())
            }
            "path_stalled" => {
                let words = "is stalled; fresh connections are tried beside it".to_owned();
                ("path_stalled", Level::Warning, None, words)
            }
            "path_recovered" => ("path_recovered", Level::Good, Some("up"), "recovered".to_owned()),
            "path_attempt_failed" => {
                let words = format!("cannot be had: {}", reason());
                ("path_attempt_failed", Level::Warning, None, words)
            }
            "path_reinjected" if data["redundant"] == false => {
                let bytes = data["bytes"].as_u64().unwrap_or(0);
                let words = format!("is given {bytes} bytes of a stalled path");
                ("path_reinjected", Level::Info, None, words)
            }
            _ => return None,
        };
        if let Some(state) = state {
            state.clone_into(&mut path.state);
        }
        Some(happening(event, level, Some(name.as_str().into()), format!("path {name} {words}")))
    }
}

fn measure_path(path: &mut Path, data: &Value) {
    let known = ["up", "standby", "silent", "down"];
    if let Some(state) = data["state"].as_str().filter(|state| known.contains(state)) {
        state.clone_into(&mut path.state);
    }
    path.srtt_ms = data["srtt_ms"].as_f64();
    path.min_rtt_ms = data["min_rtt_ms"].as_f64();
    path.rate_mbps = data["rate_mbps"].as_f64();
    path.cwnd_bytes = data["cwnd_bytes"].as_u64();
    path.outstanding_bytes = data["outstanding_bytes"].as_u64();
    path.retransmitted_segments = data["retransmitted_segments"].as_u64();
    for (figure, name) in [
        (&mut path.sent_bytes, "sent_bytes"),
        (&mut path.delivered_bytes, "delivered_bytes"),
        (&mut path.received_bytes, "received_bytes"),
        (&mut path.rescued_bytes, "rescued_bytes"),
    ] {
        *figure = data[name].as_u64().unwrap_or(*figure);
    }
}

fn happening(
    name: &'static str,
    level: Level,
    path: Option<std::sync::Arc<str>>,
    text: String,
) -> Happening {
    Happening { name, level, path, text }
}

/// A text, or nothing where there is none.
fn text(value: &Value) -> String {
    cut(value.as_str().unwrap_or_default(), MAX_TEXT)
}

/// So much of a text as is kept.
fn cut(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_that_is_repaired_is_up() {
        let show = Show::new("replay", 1.0);
        let mut story = Story::new(&show, "max".parse().unwrap(), "a file");
        let mut tell = |name: &str, subflow: u64, reason: &str| {
            let data = json!({ "path": 0, "name": "wifi", "subflow": subflow, "reason": reason });
            let record = Record { time: Duration::ZERO, name: name.to_owned(), data };
            let happened = story.apply(&record).unwrap();
            (story.connection.paths[0].state.clone(), happened.level, happened.text)
        };
        tell("path_up", 1, "");
        tell("path_silent", 1, "");
        tell("path_up", 4, "");
        let (state, level, text) = tell("path_down", 1, "replaced by a new one");
        assert_eq!((state.as_str(), level), ("up", Level::Good));
        let said = "path wifi has a new subflow; its old one ended: replaced by a new one";
        assert_eq!(text, said);
        let (state, level, text) = tell("path_down", 4, "reset");
        assert_eq!((state.as_str(), level), ("down", Level::Error));
        assert_eq!(text, "path wifi is down: reset");
    }
}
