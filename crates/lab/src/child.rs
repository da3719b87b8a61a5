//! Programs of a run: started in a namespace, listened to, and killed with all they started when
//! the run is over, however it ends.

use std::collections::VecDeque;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use signal_hook::{SigId, flag};

use crate::LabError;
use crate::sys::process::{self, Ended, Usage};

/// How often a wait looks whether the user wants to stop.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Most bytes kept of what a program says on its standard error: its last words. A kernel's complaint,
/// where that is a guest's console, has 4 KB.
const ERROR_TAIL: usize = 16 << 10;

/// How long a program may take to end that has closed its standard output.
const CLOSED: Duration = Duration::from_secs(5);

/// Longest line taken from a program's standard output (iperf3's report is one of 1 MB at most), and how
/// many wait to be taken. Beyond that a program waits: servers to which nobody listens any more say a few
/// lines a second.
const LINE_MAX: u64 = 64 << 20;
const LINES: usize = 4096;

/// How many lines wait of a program that must not make this one grow.
const FEW_LINES: usize = 16;

/// Set when the user wants to stop (Ctrl-C or SIGTERM).
#[derive(Clone, Debug, Default)]
pub struct StopFlag {
    wanted: Arc<AtomicBool>,
    /// Ends with the last clone of the flag.
    _handlers: Option<Arc<Handlers>>,
}

/// Signal handlers, removed when this is dropped.
#[derive(Debug, Default)]
struct Handlers(Vec<SigId>);

impl Drop for Handlers {
    fn drop(&mut self) {
        for &handler in &self.0 {
            signal_hook::low_level::unregister(handler);
        }
    }
}

impl StopFlag {
    /// A flag that Ctrl-C and SIGTERM set from now on; a second one ends the process at once (and
    /// with it, by the kernel's hand, all it started).
    ///
    /// # Errors
    /// If the system refuses the signal handlers.
    pub fn on_signals() -> Result<Self, LabError> {
        let wanted = Arc::new(AtomicBool::new(false));
        let mut handlers = Handlers::default();
        let mut install = |signal| -> std::io::Result<()> {
            let again = flag::register_conditional_shutdown(signal, 1, Arc::clone(&wanted))?;
            handlers.0.push(again);
            handlers.0.push(flag::register(signal, Arc::clone(&wanted))?);
            Ok(())
        };
        for signal in [libc::SIGINT, libc::SIGTERM] {
            install(signal).map_err(LabError::os("catching signals"))?;
        }
        Ok(Self { wanted, _handlers: Some(Arc::new(handlers)) })
    }

    /// Asks everything to stop.
    pub fn set(&self) {
        self.wanted.store(true, Ordering::Relaxed);
    }

    /// [`LabError::Interrupted`] once the user wants to stop.
    ///
    /// # Errors
    /// Exactly that.
    pub fn check(&self) -> Result<(), LabError> {
        if self.wanted.load(Ordering::Relaxed) { Err(LabError::Interrupted) } else { Ok(()) }
    }
}

/// A running program. Dropping it kills its process group and reaps it.
#[derive(Debug)]
pub(crate) struct Program {
    name: String,
    pid: Pid,
    stdin: Option<ChildStdin>,
    lines: mpsc::Receiver<String>,
    errors: Arc<Mutex<VecDeque<u8>>>,
    error_reader: Option<JoinHandle<()>>,
    ended: Option<Ended>,
    stop: StopFlag,
}

impl Program {
    /// Starts `command` (made by [`crate::netns::Netns::command`], or otherwise so that it leads its own
    /// process group and dies with us).
    pub(crate) fn start(name: &str, command: Command, stop: &StopFlag) -> Result<Self, LabError> {
        Self::start_with(name, command, stop, (LINES, LINE_MAX))
    }

    /// The same of one that is not trusted: no more than [`FEW_LINES`] lines of `line_max` bytes are held
    /// for it, and longer ones come in parts.
    pub(crate) fn start_bounded(
        name: &str,
        command: Command,
        stop: &StopFlag,
        line_max: u64,
    ) -> Result<Self, LabError> {
        Self::start_with(name, command, stop, (FEW_LINES, line_max))
    }

    fn start_with(
        name: &str,
        mut command: Command,
        stop: &StopFlag,
        bounds: (usize, u64),
    ) -> Result<Self, LabError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().map_err(|error| not_started(name, &command, error))?;
        let pid = pid_of(&child);
        let lines = read_lines(child.stdout.take().expect("it is piped"), bounds);
        let errors = Arc::default();
        let error_reader = keep_tail(child.stderr.take().expect("it is piped"), &errors);
        Ok(Self {
            name: name.to_owned(),
            pid,
            stdin: child.stdin.take(),
            lines,
            errors,
            error_reader: Some(error_reader),
            ended: None,
            stop: stop.clone(),
        })
    }

    /// Writes one line to the program's standard input.
    pub(crate) fn send(&mut self, line: &str) -> Result<(), LabError> {
        let written = self.stdin.as_mut().map(|stdin| writeln!(stdin, "{line}"));
        match written {
            Some(Ok(())) => Ok(()),
            _ => Err(self.failure("it no longer listens")),
        }
    }

    /// The next line of its standard output, if one comes by `deadline`.
    ///
    /// # Errors
    /// [`LabError::Failed`] with its last words if it ended, [`LabError::Interrupted`].
    pub(crate) fn line(&mut self, deadline: Instant) -> Result<Option<String>, LabError> {
        loop {
            self.stop.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(STOP_CHECK)) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let has_ended = self.wait_for_end(Instant::now() + CLOSED)?;
                    let what = if has_ended { "it ended too early" } else { "it fell silent" };
                    return Err(self.failure(what));
                }
            }
        }
    }

    /// Waits until it ends by itself; whether it has by `deadline`.
    fn wait_for_end(&mut self, deadline: Instant) -> Result<bool, LabError> {
        loop {
            self.stop.check()?;
            if self.reap(false)?.is_some() {
                return Ok(true);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            std::thread::sleep(left.min(STOP_CHECK));
        }
    }

    /// Waits until it ends by itself and gives the rest of its standard output, or `None` if it
    /// has not ended by `deadline`; calls `tick` now and then.
    pub(crate) fn finish(
        &mut self,
        deadline: Instant,
        tick: &mut dyn FnMut(),
    ) -> Result<Option<Finished>, LabError> {
        self.stdin = None;
        let mut output = String::new();
        loop {
            self.stop.check()?;
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left.min(STOP_CHECK)) {
                Ok(line) => {
                    output.push_str(&line);
                    output.push('\n');
                }
                Err(RecvTimeoutError::Timeout) if left.is_zero() => return Ok(None),
                Err(RecvTimeoutError::Timeout) => tick(),
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Ok(self.wait_for_end(deadline.max(Instant::now() + CLOSED))?.then_some(Finished { output }))
    }

    /// Kills it if it still runs; what it used in all.
    pub(crate) fn stop(&mut self) -> Result<Usage, LabError> {
        if self.ended.is_none() {
            self.kill();
        }
        let ended = self.reap(true)?;
        Ok(ended.map_or(Usage::default(), |ended| ended.usage))
    }

    /// An error that says what happened to this program, with its last words.
    pub(crate) fn failure(&mut self, what: &str) -> LabError {
        let status = match self.reap(false) {
            Ok(Some(ended)) => format!(" ({})", describe(ended.status)),
            _ => String::new(),
        };
        let words = self.last_words();
        let words = if words.is_empty() { words } else { format!(": {words}") };
        LabError::Failed(format!("{}: {what}{status}{words}", self.name))
    }

    /// How it ended, if it has.
    pub(crate) fn status(&self) -> Option<String> {
        self.ended.map(|ended| describe(ended.status))
    }

    /// The last line it wrote to standard error.
    fn last_words(&mut self) -> String {
        let text = self.errors();
        text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim().to_owned()
    }

    /// The end of what it wrote to standard error: all of that, if it has ended.
    pub(crate) fn errors(&mut self) -> String {
        if self.ended.is_some()
            && let Some(reader) = self.error_reader.take()
        {
            // It ends with the pipe; a panic in it would only cost the words.
            let _ = reader.join();
        }
        let mut errors = self.errors.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(errors.make_contiguous()).into_owned()
    }

    fn kill(&self) {
        // The group, for what it may have started; it may be gone already.
        let _ = rustix::process::kill_process_group(self.pid, Signal::KILL);
    }

    fn reap(&mut self, block: bool) -> Result<Option<Ended>, LabError> {
        if self.ended.is_none() {
            let context = format!("waiting for {}", self.name);
            self.ended = process::reap(self.pid, block).map_err(LabError::os(context))?;
        }
        Ok(self.ended)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        if self.ended.is_none() {
            self.kill();
            let _ = self.reap(true);
        }
    }
}

/// How a program that ended by itself did.
#[derive(Debug)]
pub(crate) struct Finished {
    /// The rest of its standard output.
    pub(crate) output: String,
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_child(child)
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit status {code}"),
        (None, Some(signal)) => format!("killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

fn not_started(name: &str, command: &Command, error: std::io::Error) -> LabError {
    let program = command.get_program().to_string_lossy();
    if error.kind() == std::io::ErrorKind::NotFound {
        return LabError::not_possible(
            format!("{name}: the program '{program}' is not installed"),
            format!("install the package of {program}"),
        );
    }
    LabError::Os { context: format!("starting {name} ({program})"), source: error }
}

/// A thread that hands on the lines of `stdout` until it closes; it reads no more while `waiting` lines of
/// at most `line_max` bytes wait.
fn read_lines(
    stdout: impl Read + Send + 'static,
    (waiting, line_max): (usize, u64),
) -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::sync_channel(waiting);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(stdout);
        loop {
            let mut line = Vec::new();
            match reader.by_ref().take(line_max).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    // What is no UTF-8 is for the reader of the line to refuse.
                    let line = String::from_utf8_lossy(&line);
                    if sender.send(line.trim_end().to_owned()).is_err() {
                        return;
                    }
                }
            }
        }
    });
    lines
}

/// A thread that keeps the last [`ERROR_TAIL`] bytes of `stderr` in `tail`.
fn keep_tail(
    mut stderr: impl Read + Send + 'static,
    tail: &Arc<Mutex<VecDeque<u8>>>,
) -> JoinHandle<()> {
    let tail = Arc::clone(tail);
    std::thread::spawn(move || {
        let mut bytes = [0; 1024];
        while let Ok(count @ 1..) = stderr.read(&mut bytes) {
            let mut tail = tail.lock().unwrap_or_else(PoisonError::into_inner);
            tail.extend(&bytes[..count]);
            let excess = tail.len().saturating_sub(ERROR_TAIL);
            tail.drain(..excess);
        }
    })
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Endless lines; each is how many had been taken when it was read.
    struct Flood(Arc<AtomicUsize>);

    impl Read for Flood {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let line = format!("{}\n", self.0.load(Ordering::SeqCst));
            buffer[..line.len()].copy_from_slice(line.as_bytes());
            Ok(line.len())
        }
    }

    #[test]
    fn a_flood_of_lines_waits_to_be_taken() {
        let taken = Arc::new(AtomicUsize::new(0));
        let lines = read_lines(Flood(Arc::clone(&taken)), (FEW_LINES, LINE_MAX));
        for number in 0..1000 {
            let line = lines.recv().unwrap();
            let before: usize = line.parse().unwrap();
            // Those that wait, the one that has no room, and the one that was just taken.
            assert!(number <= before + FEW_LINES + 2, "line {number} was read after {before}");
            taken.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_long_line_comes_in_parts() {
        let lines = read_lines(&b"0123456789\nx\n"[..], (FEW_LINES, 4));
        assert!(lines.iter().eq(["0123", "4567", "89", "x"]));
    }
}
