//! mpv: its events and counters through its JSON interface, a Unix socket.

use std::io::{self, BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Deserialize;
use weftline_scenario::VideoRecord;

use super::{Seen, Stage};
use crate::LabError;
use crate::child::Program;
use crate::run::SETUP_LIMIT;
use crate::sys::process::Usage;

/// How long a wait for the next event lasts before the caller hears of it.
const TICK: Duration = Duration::from_millis(200);

/// How often the socket of a program that has just been started is tried.
const RETRY: Duration = Duration::from_millis(20);

/// The longest line that is taken; mpv's are a few hundred bytes.
const LINE_BYTES: usize = 1 << 20;

/// The properties that are watched.
const PROPERTIES: [&str; 3] = ["paused-for-cache", "frame-drop-count", "decoder-frame-drop-count"];

/// The number of a question after the last frame that was shown, of which mpv does not tell by
/// itself.
const FRAME: u64 = 7;

/// Runs mpv until its clip is over, or the stage's deadline.
pub(super) fn watch(stage: Stage<'_>, tick: &mut dyn FnMut()) -> Result<(Seen, Usage), LabError> {
    let socket = stage.home.join("mpv");
    let mut command = stage.command;
    command.arg("env").arg(format!("HOME={}", stage.home.display()));
    command.args(["mpv", "--no-config", "--no-terminal", "--vo=null", "--ao=null"]);
    command.args(["--cache=yes", "--ytdl=no", "--load-scripts=no", "--idle=once", "--pause=no"]);
    command.arg(format!("--input-ipc-server={}", socket.display()));
    let mut program = Program::start("mpv", command, stage.stop)?;
    let mut remote = Remote::connect(&socket, &mut program)?;
    for name in PROPERTIES {
        remote.ask(&["observe_property", "0", name], 0, &mut program)?;
    }
    // Only now: so that no event is missed.
    remote.ask(&["loadfile", &stage.url], 0, &mut program)?;
    let mut log = Log::default();
    let mut next_question = Instant::now();
    while log.ended.is_none() && Instant::now() < stage.deadline {
        match remote.next(stage.deadline) {
            Ok(Some(event)) => log.take(Instant::now(), &event),
            Ok(None) => tick(),
            // It ended: what is wrong with it is known from its status.
            Err(_) => return Err(program.failure("it ended too early")),
        }
        stage.stop.check()?;
        if Instant::now() >= next_question && log.ended.is_none() {
            next_question = Instant::now() + TICK;
            // If it has just ended, what it said last is still to be read.
            let _ = remote.ask(&["get_property", "estimated-frame-number"], FRAME, &mut program);
        }
        if let Some(reason) = &log.failed {
            return Err(LabError::Failed(format!("mpv: cannot play {}: {reason}", stage.url)));
        }
    }
    let ended = log.ended.zip(log.requested).map(|(ended, requested)| ended - requested);
    Ok((Seen { video: log.record(), ended }, program.stop()?))
}

/// mpv's socket.
struct Remote {
    stream: BufReader<UnixStream>,
    line: Vec<u8>,
}

impl Remote {
    fn connect(socket: &Path, program: &mut Program) -> Result<Self, LabError> {
        let deadline = Instant::now() + SETUP_LIMIT;
        let stream = loop {
            match UnixStream::connect(socket) {
                Ok(stream) => break stream,
                Err(_) if Instant::now() < deadline => {}
                Err(_) => return Err(program.failure("took too long to start")),
            }
            // It says nothing; this waits, and notices if it ends.
            let _ = program.line(Instant::now() + RETRY)?;
        };
        stream.set_read_timeout(Some(TICK)).map_err(LabError::os("listening to mpv"))?;
        Ok(Self { stream: BufReader::new(stream), line: Vec::new() })
    }

    /// Sends a command; words that are numbers are sent as such. The answer has the same `number`.
    fn ask(&mut self, words: &[&str], number: u64, program: &mut Program) -> Result<(), LabError> {
        let words: Vec<serde_json::Value> = words
            .iter()
            .map(|word| word.parse::<u64>().map_or_else(|_| (*word).into(), Into::into))
            .collect();
        let text = serde_json::json!({ "command": words, "request_id": number });
        let written = writeln!(self.stream.get_mut(), "{text}");
        written.map_err(|_| program.failure("it no longer listens"))
    }

    /// The next event; none if none came within a tick.
    fn next(&mut self, deadline: Instant) -> io::Result<Option<Event>> {
        let wait = deadline.saturating_duration_since(Instant::now()).min(TICK);
        self.stream.get_ref().set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        match self.stream.read_until(b'\n', &mut self.line) {
            Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) if self.line.last() != Some(&b'\n') => Err(ErrorKind::UnexpectedEof.into()),
            Ok(_) => {
                let event = parse_event(&self.line);
                self.line.clear();
                Ok(Some(event))
            }
            // What has come of a line stays for the next time.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                if self.line.len() > LINE_BYTES {
                    return Err(ErrorKind::InvalidData.into());
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

/// An event, or the answer to a command.
#[derive(Debug, Default, Deserialize)]
struct Event {
    #[serde(default)]
    event: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    data: serde_json::Value,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    file_error: String,
    #[serde(default)]
    request_id: u64,
}

/// What cannot be read counts as an event that says nothing: mpv may have events we do not know.
fn parse_event(line: &[u8]) -> Event {
    serde_json::from_slice(line).unwrap_or_default()
}

/// What mpv's events say of the viewer.
#[derive(Debug, Default)]
struct Log {
    requested: Option<Instant>,
    started: Option<Instant>,
    ended: Option<Instant>,
    failed: Option<String>,
    underflows: u64,
    underflow: Duration,
    standing: Option<Instant>,
    /// Dropped by the output and by the decoder, and the last frame shown.
    dropped: [u64; 2],
    frame: u64,
}

impl Log {
    fn take(&mut self, now: Instant, event: &Event) {
        match event.event.as_str() {
            "start-file" => self.requested = self.requested.or(Some(now)),
            "playback-restart" => self.started = self.started.or(Some(now)),
            "property-change" => self.property(now, &event.name, &event.data),
            "end-file" if event.reason == "error" => self.failed = Some(event.file_error.clone()),
            "end-file" | "shutdown" => {
                self.go_on(now);
                self.ended = self.ended.or(Some(now));
            }
            "" if event.request_id == FRAME => {
                self.frame = self.frame.max(event.data.as_u64().unwrap_or(0));
            }
            _ => {}
        }
    }

    fn property(&mut self, now: Instant, name: &str, data: &serde_json::Value) {
        // Without data the property is not there now, before the file is open and after its end.
        match (name, data.as_u64(), data.as_bool()) {
            ("frame-drop-count", Some(count), _) => self.dropped[0] = count,
            ("decoder-frame-drop-count", Some(count), _) => self.dropped[1] = count,
            // Filling the buffer before the first picture is no underflow.
            ("paused-for-cache", _, Some(true)) if self.started.is_some() => {
                self.underflows += u64::from(self.standing.is_none());
                self.standing = self.standing.or(Some(now));
            }
            ("paused-for-cache", _, Some(false)) => self.go_on(now),
            _ => {}
        }
    }

    fn go_on(&mut self, now: Instant) {
        self.underflow += self.standing.take().map_or(Duration::ZERO, |since| now - since);
    }

    fn record(&self) -> VideoRecord {
        let startup = self.requested.zip(self.started).map(|(from, to)| to - from);
        let discards = self.dropped.iter().sum();
        VideoRecord {
            picture_discards: discards,
            buffer_underflows: self.underflows,
            underflow_s: self.underflow.as_secs_f64(),
            startup_s: startup.map(|startup| startup.as_secs_f64()),
            // The number of the last one, counted from 0.
            pictures_played: self.started.map(|_| (self.frame + 1).saturating_sub(discards)),
            ..VideoRecord::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As mpv 0.35.1 writes them, with the second of each line.
    const EVENTS: [(u64, &str); 15] = [
        (0, r#"{"request_id":0,"error":"success"}"#),
        (0, r#"{"event":"property-change","id":0,"name":"paused-for-cache"}"#),
        (1, r#"{"event":"start-file","playlist_entry_id":1}"#),
        (1, r#"{"event":"property-change","id":0,"name":"paused-for-cache","data":true}"#),
        (2, r#"{"event":"property-change","id":0,"name":"paused-for-cache","data":false}"#),
        (3, r#"{"event":"playback-restart"}"#),
        (4, r#"{"event":"property-change","id":0,"name":"frame-drop-count","data":2}"#),
        (5, r#"{"event":"property-change","id":0,"name":"paused-for-cache","data":true}"#),
        (7, r#"{"event":"property-change","id":0,"name":"paused-for-cache","data":false}"#),
        (8, r#"{"event":"property-change","id":0,"name":"decoder-frame-drop-count","data":1}"#),
        (8, r#"{"data":299,"request_id":7,"error":"success"}"#),
        (8, r#"{"request_id":7,"error":"property unavailable"}"#),
        (9, r#"{"event":"property-change","id":0,"name":"paused-for-cache","data":true}"#),
        (10, r#"{"event":"property-change","id":0,"name":"frame-drop-count"}"#),
        (10, r#"{"event":"end-file","reason":"eof","playlist_entry_id":1}"#),
    ];

    fn log(events: &[(u64, &str)]) -> Log {
        let begin = Instant::now();
        let mut log = Log::default();
        for (second, line) in events {
            log.take(begin + Duration::from_secs(*second), &parse_event(line.as_bytes()));
        }
        log
    }

    #[test]
    fn events_say_what_the_viewer_saw() {
        let log = log(&EVENTS);
        let record = log.record();
        assert_eq!((record.picture_discards, record.buffer_underflows), (3, 2));
        assert_eq!((record.startup_s, record.underflow_s), (Some(2.0), 3.0));
        assert_eq!(record.pictures_played, Some(297));
        assert_eq!(log.ended.zip(log.requested).map(|(to, from)| (to - from).as_secs()), Some(9));
    }

    #[test]
    fn what_cannot_be_played_is_told_and_damaged_lines_say_nothing() {
        let failed = r#"{"event":"end-file","reason":"error","file_error":"loading failed"}"#;
        assert_eq!(log(&[(0, failed)]).failed.as_deref(), Some("loading failed"));
        for (_, line) in EVENTS {
            for end in 0..line.len() {
                let event = parse_event(&line.as_bytes()[..end]);
                assert!(event.event.is_empty() && event.data.is_null(), "{event:?}");
            }
        }
        let wrong = r#"{"event":"property-change","name":"frame-drop-count","data":"many"}"#;
        assert_eq!(log(&[(0, wrong)]).record(), VideoRecord::default());
    }
}
