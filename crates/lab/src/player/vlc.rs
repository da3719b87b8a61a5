//! VLC 3: its counters through its HTTP interface, its underflows from its log.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde::Deserialize;
use weftline_scenario::{ClipConfig, VideoRecord};

use super::{Seen, Stage};
use crate::LabError;
use crate::child::Program;
use crate::netns::Netns;
use crate::sys::process::Usage;

/// Where VLC's interface listens, inside its namespace.
const CONTROL_PORT: u16 = 8090;

/// How often its counters are read.
const POLL: Duration = Duration::from_millis(200);

/// How long an answer may take: the machine may be busy decoding.
const ANSWER: Duration = Duration::from_secs(5);

/// The most that is read of an answer.
const ANSWER_BYTES: u64 = 1 << 20;

/// The most that is told of a line of its log.
const LINE_CHARS: usize = 200;

/// Runs VLC until its clip is over, or the stage's deadline.
pub(super) fn watch(stage: Stage<'_>, tick: &mut dyn FnMut()) -> Result<(Seen, Usage), LabError> {
    let caching = stage.video.rules.caching.as_millis();
    let mut command = stage.command;
    // All it says on one stream, which is read line by line.
    command.args(["env", "TERM=dumb"]).arg(format!("HOME={}", stage.home.display()));
    command.args(["sh", "-c", "exec cvlc \"$@\" 2>&1", "sh", "-vvv", "--ignore-config"]);
    command.args(["-I", "http", "--http-host", "127.0.0.1", "--http-password", "weftline"]);
    command.arg("--http-port").arg(CONTROL_PORT.to_string());
    command.args(["--vout", "dummy", "--aout", "adummy", "--no-media-library"]);
    command.args(["--no-metadata-network-access", "--no-sub-autodetect-file"]);
    command.arg("--play-and-pause");
    command.arg(format!("--network-caching={caching}")).arg(&stage.url);
    let mut program = Program::start("vlc", command, stage.stop)?;
    let mut log = Log::default();
    let mut status = Status::default();
    let pictures = clip_pictures(&stage.video.clip);
    let mut next_poll = Instant::now();
    let mut ended = None;
    while ended.is_none() && Instant::now() < stage.deadline {
        let line =
            program.line(next_poll.min(stage.deadline)).map_err(|error| log.explain(error))?;
        if let Some(line) = line {
            log.take(Instant::now(), &line);
            continue;
        }
        tick();
        next_poll = Instant::now() + POLL;
        // Its interface comes up a little after the program.
        let Ok(answer) = ask(stage.ns) else { continue };
        status = parse_status(&answer).map_err(|why| program.failure(&why))?;
        let over = status.state == "paused" || (status.state == "stopped" && log.started.is_some());
        if over {
            ended = log.requested.map(|requested| Instant::now() - requested);
        }
    }
    let video = VideoRecord {
        // Before the end the decoder has not had all of the clip.
        decoder_drops: ended.map(|_| status.stats.decoder_drops(pictures)),
        ..log.record(&status.stats)
    };
    Ok((Seen { video, ended }, program.stop()?))
}

/// The pictures of a clip.
fn clip_pictures(clip: &ClipConfig) -> u64 {
    (clip.duration.as_secs_f64() * f64::from(clip.fps)).round() as u64
}

/// What VLC's log says of the viewer.
#[derive(Debug, Default)]
struct Log {
    requested: Option<Instant>,
    started: Option<Instant>,
    underflows: u64,
    underflow: Duration,
    /// When it threw its clock away, until it has filled its buffer again.
    refilling: Option<Instant>,
    /// What it said first: the reason, where it does not even start.
    first: String,
}

impl Log {
    fn take(&mut self, now: Instant, line: &str) {
        if self.first.is_empty() {
            self.first = line.chars().take(LINE_CHARS).collect();
        }
        if line.contains("creating access: http") {
            self.requested.get_or_insert(now);
        } else if line.contains("Stream buffering done") {
            self.started.get_or_insert(now);
            self.underflow += self.refilling.take().map_or(Duration::ZERO, |since| now - since);
        } else if line.contains("ES_OUT_SET_") && line.contains("is called too late") {
            self.underflows += 1;
            self.refilling.get_or_insert(now);
        }
    }

    /// A failure with what VLC said of it, if it never came to asking for the clip.
    fn explain(&self, error: LabError) -> LabError {
        match error {
            LabError::Failed(message) if self.requested.is_none() && !self.first.is_empty() => {
                LabError::Failed(format!("{message}: {}", self.first))
            }
            error => error,
        }
    }

    fn record(&self, stats: &Stats) -> VideoRecord {
        let startup = self.requested.zip(self.started).map(|(from, to)| to - from);
        VideoRecord {
            picture_discards: stats.lostpictures,
            buffer_underflows: self.underflows,
            underflow_s: self.underflow.as_secs_f64(),
            startup_s: startup.map(|startup| startup.as_secs_f64()),
            pictures_played: Some(stats.displayedpictures),
            ..VideoRecord::default()
        }
    }
}

/// What we read of `/requests/status.json`.
#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    state: String,
    #[serde(default)]
    stats: Stats,
}

#[derive(Debug, Default, Deserialize)]
struct Stats {
    #[serde(default)]
    lostpictures: u64,
    #[serde(default)]
    displayedpictures: u64,
    #[serde(default)]
    decodedvideo: u64,
}

impl Stats {
    /// What the decoder did not hand on of a clip of so many pictures that was played to its end. VLC
    /// has no counter of that: pictures of which it is late are not decoded, or not handed on, without
    /// a word. `decodedvideo` counts each that was handed on twice in VLC 3.0.24, and one more (721 of
    /// 360, 1201 of 600 with nothing dropped); in others perhaps once. Which of the two it is the
    /// pictures tell that were shown or came too late: all that were handed on.
    fn decoder_drops(&self, pictures: u64) -> u64 {
        let handed_on = self.displayedpictures + self.lostpictures;
        let off = |times: u64| self.decodedvideo.abs_diff(handed_on.saturating_mul(times));
        let times = if off(2) < off(1) { 2 } else { 1 };
        pictures.saturating_sub(self.decodedvideo / times)
    }
}

/// Asks VLC, from inside its namespace, what it has counted.
fn ask(ns: &Netns) -> io::Result<String> {
    ns.run(|| {
        let to = SocketAddr::from((Ipv4Addr::LOCALHOST, CONTROL_PORT));
        let mut stream = TcpStream::connect_timeout(&to, ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        // The user is empty, the password is ours: ":weftline" in Base64.
        let authorization = "Authorization: Basic OndlZnRsaW5l";
        write!(stream, "GET /requests/status.json HTTP/1.0\r\n{authorization}\r\n\r\n")?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES).read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    })
}

/// The counters of an answer of VLC's interface.
fn parse_status(answer: &str) -> Result<Status, String> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let first = head.lines().next().unwrap_or_default();
    if first.split(' ').nth(1) != Some("200") {
        return Err(format!("its interface answers '{first}'"));
    }
    serde_json::from_str(body).map_err(|error| format!("its counters cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As VLC 3.0.24 answers, shortened.
    const ANSWER: &str = "HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n{\n  \
        \"fullscreen\":false,\n  \"stats\":{\n    \"lostpictures\":15,\n    \
        \"displayedpictures\":315,\n    \"inputbitrate\":0.56\n  },\n  \"time\":8,\n  \
        \"state\":\"paused\",\n  \"version\":\"3.0.24 Vetinari\"\n}";

    #[test]
    fn counters_are_read_and_damaged_answers_refused() {
        let status = parse_status(ANSWER).unwrap();
        assert_eq!((status.state.as_str(), status.stats.lostpictures), ("paused", 15));
        assert_eq!(status.stats.displayedpictures, 315);
        // Before the clip is open there are no counters.
        let early = parse_status("HTTP/1.1 200 OK\r\n\r\n{\"state\":\"stopped\"}").unwrap();
        assert_eq!(early.stats.lostpictures, 0);
        for end in 0..ANSWER.len() {
            assert!(parse_status(&ANSWER[..end]).is_err(), "{}", &ANSWER[..end]);
        }
        let refused = parse_status("HTTP/1.1 401 Client error\r\n\r\n").unwrap_err();
        assert_eq!(refused, "its interface answers 'HTTP/1.1 401 Client error'");
        assert!(parse_status("HTTP/1.1 200 OK\r\n\r\n{\"stats\":{\"lostpictures\":-1}}").is_err());
    }

    #[test]
    fn what_the_decoder_left_out_is_what_it_did_not_hand_on() {
        // Of so many pictures so many were handed on, of which some came too late.
        let drops = |decodedvideo, pictures, handed_on: u64| {
            let lostpictures = handed_on / 5;
            let displayedpictures = handed_on - lostpictures;
            Stats { decodedvideo, displayedpictures, lostpictures }.decoder_drops(pictures)
        };
        // As VLC 3.0.24 counted: everything, everything, and with 4.2 of 4.9 Mb/s.
        assert_eq!([drops(721, 360, 360), drops(1201, 600, 600), drops(1182, 600, 591)], [0, 0, 9]);
        // However few were handed on.
        for handed_on in (0..=600).step_by(25) {
            assert_eq!(drops(2 * handed_on, 600, handed_on), 600 - handed_on);
            assert_eq!(drops(handed_on, 600, handed_on), 600 - handed_on, "where each counts once");
        }
        assert_eq!([drops(360, 360, 360), drops(361, 360, 360)], [0, 0]);
        assert_eq!(drops(5, 0, 5), 0);
    }

    #[test]
    fn underflows_are_counted_from_the_log() {
        let begin = Instant::now();
        let mut log = Log::default();
        // As VLC 3.0.24 writes it, with the second of each line.
        for (second, line) in [
            (0, "[01] main stream debug: creating access: file:///tmp/ml.xspf"),
            (1, "[02] main stream debug: creating access: http://10.77.0.1:8080/clip.mp4"),
            (2, "[03] main stream debug: creating access: http://10.77.0.1:8080/clip.mp4"),
            (3, "[04] main input debug: Stream buffering done (1250 ms in 1950 ms)"),
            (
                4,
                "[05] main video output warning: picture is too late to be displayed (missing 160 ms)",
            ),
            (
                9,
                "[06] main input error: ES_OUT_SET_(GROUP_)PCR  is called too late (pts_delay increased to 1245 ms)",
            ),
            (11, "[07] main input debug: Stream buffering done (1250 ms in 998 ms)"),
            (
                20,
                "[08] main input error: ES_OUT_SET_(GROUP_)PCR  is called too late (jitter of 5200 ms ignored)",
            ),
        ] {
            log.take(begin + Duration::from_secs(second), line);
        }
        let stats = Stats { lostpictures: 3, displayedpictures: 7, ..Stats::default() };
        let record = log.record(&stats);
        assert_eq!((record.picture_discards, record.buffer_underflows), (3, 2));
        assert_eq!((record.startup_s, record.underflow_s), (Some(2.0), 2.0));
        assert_eq!(record.pictures_played, Some(7));
    }
}
