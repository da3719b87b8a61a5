//! Runs ffmpeg and ffprobe.

use std::collections::VecDeque;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::VrError;

/// The most that is kept of what a program says on standard error.
const SAID_BYTES: u64 = 64 << 10;
/// Lines of a program that is listened to that are kept, the last.
const LAST_LINES: usize = 4;
/// How often it is looked whether to stop where nothing comes.
const STOP_LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// How often a running program is looked after: soon at first, then less often.
const LOOK: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// The wish to stop, for example on SIGINT. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    flag: Arc<AtomicBool>,
    /// When to stop even if nobody asks.
    at: Option<Instant>,
}

impl Stop {
    /// The flag that signal handlers set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.flag)
    }

    /// Asks to stop.
    pub fn ask(&self) {
        self.flag.store(true, Ordering::Relaxed);
    }

    /// Whether to stop.
    pub fn asked(&self) -> bool {
        self.flag.load(Ordering::Relaxed) || self.at.is_some_and(|at| at <= Instant::now())
    }

    /// The same wish, and to stop then at the latest.
    pub(crate) fn at(&self, at: Instant) -> Self {
        Self { flag: self.flag(), at: Some(at) }
    }
}

/// The ffmpeg that is installed.
#[derive(Clone, Debug)]
pub struct Ffmpeg {
    version: String,
    /// What it lists of its encoders.
    encoders: Arc<str>,
    stop: Stop,
}

impl Ffmpeg {
    /// Finds ffmpeg on the PATH. What it runs ends when `stop` is asked for.
    ///
    /// # Errors
    /// [`VrError::NoProgram`] if it is not there.
    pub fn find(stop: &Stop) -> Result<Self, VrError> {
        // One run says its version, on standard error, and its encoders: to start it takes a tenth of a
        // second of processor time.
        let mut command = Command::new("ffmpeg");
        command.arg("-encoders");
        let running = Running::start("ffmpeg", command, Stdin::Null, Heard::kept(true), stop)?;
        let (mut encoders, doing) = (String::new(), "to list its encoders");
        let banner = running.read_both(&mut encoders, doing)?;
        let version = banner.lines().find_map(|line| line.strip_prefix("ffmpeg version "));
        let version = version.and_then(|version| version.split_whitespace().next());
        Ok(Self {
            version: version.unwrap_or("unknown").to_owned(),
            encoders: encoders.into(),
            stop: stop.clone(),
        })
    }

    /// Its version, as it says it.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The same, whose programs end when `stop` is asked for.
    pub(crate) fn with_stop(&self, stop: Stop) -> Self {
        Self { stop, ..self.clone() }
    }

    /// Makes sure that it has the encoder `name`.
    ///
    /// # Errors
    /// [`VrError::NoEncoder`] if it has not.
    pub fn need_encoder(&self, name: &'static str) -> Result<(), VrError> {
        if self.encoders.lines().any(|line| line.split_whitespace().nth(1) == Some(name)) {
            return Ok(());
        }
        Err(VrError::NoEncoder { encoder: name, version: self.version.clone() })
    }

    /// What ffprobe says about `file`, as JSON.
    pub(crate) fn probe(&self, file: &Path, entries: &str) -> Result<String, VrError> {
        let running = self.probing(&[], entries, &as_file(file), Stdin::Null)?;
        let mut said = String::new();
        let doing = format!("to read {}", file.display());
        running.read_all(&mut said, &doing)?;
        Ok(said)
    }

    /// Starts ffprobe, which says the `entries` of `input` as JSON.
    pub(crate) fn probing(
        &self,
        select: &[OsString],
        entries: &str,
        input: &OsStr,
        stdin: Stdin,
    ) -> Result<Running, VrError> {
        let mut command = Command::new("ffprobe");
        command.args(["-v", "error", "-of", "json"]).args(select);
        command.args(["-show_entries", entries, "-i"]).arg(input);
        Running::start("ffprobe", command, stdin, Heard::kept(true), &self.stop)
    }

    /// An option that hands pictures on as they are, none dropped and none doubled.
    pub(crate) fn passthrough(&self) -> [&'static str; 2] {
        let mut parts = self.version.trim_start_matches('n').split('.').map(|part| {
            let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
            digits.parse::<u32>().ok()
        });
        // What is no release is newer than any.
        let (major, minor) = (parts.next().flatten(), parts.next().flatten());
        match (major, minor) {
            (Some(major), Some(minor)) if (major, minor) < (5, 1) => ["-vsync", "passthrough"],
            _ => ["-fps_mode", "passthrough"],
        }
    }

    /// An option that doubles or drops pictures so that they come at a constant rate.
    pub(crate) fn constant(&self) -> [&'static str; 2] {
        let [option, _] = self.passthrough();
        [option, "cfr"]
    }

    /// Starts ffmpeg quietly with `args`; standard output is for the caller if `piped`.
    pub(crate) fn start(
        &self,
        args: &[OsString],
        dir: &Path,
        stdin: Stdin,
        piped: bool,
    ) -> Result<Running, VrError> {
        self.start_heard(args, dir, stdin, Heard::kept(piped))
    }

    /// The same; what it says goes where `heard` says.
    pub(crate) fn start_heard(
        &self,
        args: &[OsString],
        dir: &Path,
        stdin: Stdin,
        heard: Heard,
    ) -> Result<Running, VrError> {
        let level = if heard.line.is_some() { "warning" } else { "error" };
        let mut command = Command::new("ffmpeg");
        command.args(["-v", level, "-nostats", "-hide_banner", "-y"]).args(args);
        command.current_dir(dir);
        Running::start("ffmpeg", command, stdin, heard, &self.stop)
    }

    /// Runs ffmpeg to its end.
    pub(crate) fn run(&self, args: &[OsString], dir: &Path, doing: &str) -> Result<(), VrError> {
        self.run_heard(args, dir, doing).map(|_| ())
    }

    /// The same; returns what it said on standard error.
    pub(crate) fn run_heard(
        &self,
        args: &[OsString],
        dir: &Path,
        doing: &str,
    ) -> Result<String, VrError> {
        self.start(args, dir, Stdin::Null, false)?.finish_heard(dir, doing)
    }
}

/// A path that ffmpeg takes for a file, whatever its name looks like.
pub(crate) fn as_file(path: &Path) -> OsString {
    let mut name = OsString::from("file:");
    name.push(path);
    name
}

/// What a program reads.
pub(crate) enum Stdin {
    Null,
    Piped,
}

/// Takes a line that a program says; whether it may be the cause, should the program fail.
pub(crate) type Listener = Box<dyn FnMut(&str) -> bool + Send>;

/// What becomes of what a program says.
pub(crate) struct Heard {
    /// Whether its standard output is for the caller.
    pub(crate) piped: bool,
    /// Takes each line of standard error, warnings among them, and the last of them are kept; without it
    /// the first are.
    pub(crate) line: Option<Listener>,
}

impl Heard {
    /// All of standard error is kept.
    pub(crate) fn kept(piped: bool) -> Self {
        Self { piped, line: None }
    }
}

/// A program that runs; dropped, it is ended.
pub(crate) struct Running {
    program: &'static str,
    child: Child,
    said: Option<JoinHandle<String>>,
    stop: Stop,
}

impl Running {
    fn start(
        program: &'static str,
        mut command: Command,
        stdin: Stdin,
        heard: Heard,
        stop: &Stop,
    ) -> Result<Self, VrError> {
        command.stdin(match stdin {
            Stdin::Null => Stdio::null(),
            Stdin::Piped => Stdio::piped(),
        });
        command.stdout(if heard.piped { Stdio::piped() } else { Stdio::null() });
        command.stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => VrError::NoProgram(program),
            _ => VrError::Ffmpeg { doing: "to start".to_owned(), reason: error.to_string() },
        })?;
        let listen = |stderr| thread::spawn(move || listen(stderr, heard.line));
        let said = child.stderr.take().map(listen);
        Ok(Self { program, child, said, stop: stop.clone() })
    }

    /// Where to write what it reads.
    pub(crate) fn stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    /// Where to read what it writes.
    pub(crate) fn stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits for its end. `place` is where it writes.
    pub(crate) fn finish(self, place: &Path, doing: &str) -> Result<(), VrError> {
        self.finish_heard(place, doing).map(|_| ())
    }

    /// The same; returns what it said on standard error.
    pub(crate) fn finish_heard(mut self, place: &Path, doing: &str) -> Result<String, VrError> {
        let mut pause = LOOK.0;
        let status = loop {
            if self.stop.asked() {
                return Err(VrError::Stopped);
            }
            if let Some(status) = self.child.try_wait().map_err(VrError::io("run", place))? {
                break status;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LOOK.1);
        };
        let said = self.said();
        if !status.success() && self.stop.asked() {
            // The signal that ended us ended it, too.
            return Err(VrError::Stopped);
        }
        if status.success() && !is_full(&said) {
            return Ok(said);
        }
        Err(self.failure(status, &said, place, doing))
    }

    /// Fills `bytes` from what it writes; `false` if it ends before.
    ///
    /// # Errors
    /// [`VrError::Stopped`] if it is to stop meanwhile, also where nothing comes.
    pub(crate) fn fill(&self, from: &mut ChildStdout, bytes: &mut [u8]) -> Result<bool, VrError> {
        let wrong = |error| VrError::io("read from", Path::new(self.program))(error);
        let mut filled = 0;
        while filled < bytes.len() {
            if self.stop.asked() {
                return Err(VrError::Stopped);
            }
            let mut looks = [PollFd::new(&*from, PollFlags::IN)];
            match poll(&mut looks, Some(&STOP_LOOK)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(wrong(error.into())),
            }
            match from.read(&mut bytes[filled..]) {
                Ok(0) => return Ok(false),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(wrong(error)),
            }
        }
        Ok(true)
    }

    /// Whether it was told to stop.
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.asked()
    }

    /// Reads all that it writes, and waits for its end.
    pub(crate) fn read_all(self, text: &mut String, doing: &str) -> Result<(), VrError> {
        self.read_both(text, doing).map(|_| ())
    }

    /// The same; returns what it said on standard error.
    fn read_both(mut self, text: &mut String, doing: &str) -> Result<String, VrError> {
        let mut bytes = Vec::new();
        if let Some(mut stdout) = self.stdout() {
            stdout
                .read_to_end(&mut bytes)
                .map_err(VrError::io("read from", Path::new("ffmpeg")))?;
        }
        text.push_str(&String::from_utf8_lossy(&bytes));
        self.finish_heard(Path::new("."), doing)
    }

    fn said(&mut self) -> String {
        self.said.take().and_then(|said| said.join().ok()).unwrap_or_default()
    }

    fn failure(&self, status: ExitStatus, said: &str, place: &Path, doing: &str) -> VrError {
        if is_full(said) {
            return VrError::Full { path: place.to_owned(), doing: doing.to_owned() };
        }
        // The first line is the cause, the last one often only that there was one.
        let cause = said.lines().map(str::trim).find(|line| !line.is_empty());
        let reason =
            cause.map_or_else(|| status.to_string(), |cause| format!("{cause} ({status})"));
        VrError::Ffmpeg { doing: format!("{doing} ({})", self.program), reason }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself: then both say so, and that is fine.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.said();
    }
}

fn is_full(said: &str) -> bool {
    said.contains("No space left on device") || said.contains("Disk quota exceeded")
}

/// Reads to the end and keeps the beginning; the last lines of a program that runs for long, and is
/// listened to by `line`.
fn listen(mut from: impl Read, line: Option<Listener>) -> String {
    let mut said = Vec::new();
    if let Some(mut line) = line {
        let (mut from, mut last) = (BufReader::new(from), VecDeque::new());
        loop {
            let mut bytes = Vec::new();
            match from.by_ref().take(SAID_BYTES).read_until(b'\n', &mut bytes) {
                Ok(0) | Err(_) => return Vec::from(last).join("\n"),
                Ok(_) => {
                    let text = String::from_utf8_lossy(&bytes);
                    if line(text.trim()) {
                        last.push_back(text.trim().to_owned());
                    }
                    if last.len() > LAST_LINES {
                        last.pop_front();
                    }
                }
            }
        }
    }
    // A program that cannot be listened to has nothing to say.
    let _ = from.by_ref().take(SAID_BYTES).read_to_end(&mut said);
    let _ = io::copy(&mut from, &mut io::sink());
    String::from_utf8_lossy(&said).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_program_that_says_much_the_last_lines_are_kept() {
        let said: String = (0..9).map(|n| format!("line {n}\n")).collect();
        let heard = listen(said.as_bytes(), Some(Box::new(|line| line != "line 7")));
        assert_eq!(heard, "line 4\nline 5\nline 6\nline 8");
        assert_eq!(listen(said.as_bytes(), None), said);
    }

    #[test]
    fn older_versions_get_the_option_they_know() {
        let of = |version: &str| {
            let (version, encoders) = (version.to_owned(), "".into());
            Ffmpeg { version, encoders, stop: Stop::default() }.passthrough()[0]
        };
        assert_eq!(of("4.4.2-0ubuntu0.22.04.1"), "-vsync");
        assert_eq!(of("5.0"), "-vsync");
        for new in ["5.1.9-0+deb12u1", "n7.1", "6.0", "N-112233-gabcdef", "unknown"] {
            assert_eq!(of(new), "-fps_mode", "{new}");
        }
    }
}
