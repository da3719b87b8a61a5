//! What the tests of the program share: the built binary, started and stopped.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code; each test binary uses its own part"
)]

pub mod pair;
pub mod vr;

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Seek as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

/// Far more than anything here takes: a test that waits this long hangs.
pub const PATIENCE: Duration = Duration::from_secs(400);

/// Waits until it is so; `what` says so if it never is.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "not within {PATIENCE:?}: {what}");
        thread::yield_now();
    }
}

/// One test on the machine at a time that wants to know which congestion controls are loaded: the
/// kernel has one list of them.
pub fn alone() -> File {
    let path = std::env::temp_dir().join("weftline-congestion.lock");
    let file = File::options().create(true).append(true).open(path).unwrap();
    file.lock().unwrap();
    file
}

/// An address that refuses: nobody listens, and nobody else gets its port while the socket is held.
pub fn refusing() -> (socket2::Socket, SocketAddr) {
    let held = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    held.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let address = held.local_addr().unwrap().as_socket().unwrap();
    (held, address)
}

/// An address on which a daemon can listen, one after another, and nobody else while the socket is held.
pub fn reserved() -> (socket2::Socket, SocketAddr) {
    let held = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    held.set_reuse_address(true).unwrap();
    held.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    let address = held.local_addr().unwrap().as_socket().unwrap();
    (held, address)
}

/// A server that sends back what it gets, to the end.
pub fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            thread::spawn(move || {
                let _ = std::io::copy(&mut stream.try_clone().unwrap(), &mut stream);
                let _ = stream.shutdown(Shutdown::Write);
            });
        }
    });
    address
}

/// A connection on which nobody waits for ever.
#[track_caller]
pub fn dial(address: impl ToSocketAddrs) -> TcpStream {
    patient(TcpStream::connect(address).unwrap())
}

/// A connection that fails when nothing comes, or nothing is taken, for too long.
pub fn patient(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// A connection that somebody makes in time.
#[track_caller]
pub fn accept(listener: &TcpListener) -> TcpStream {
    socket2::SockRef::from(listener).set_read_timeout(Some(PATIENCE)).unwrap();
    patient(listener.accept().unwrap().0)
}

/// The program, without what the environment would change in it.
pub fn weftline(args: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("weftline"));
    for name in ["RUST_LOG", "RUST_BACKTRACE", "NOTIFY_SOCKET", "LISTEN_FDS", "WATCHDOG_USEC"] {
        command.env_remove(name);
    }
    // Where control sockets go: not beside those of the machine's own daemons.
    command.args(args).env("RUNTIME_DIRECTORY", env!("CARGO_TARGET_TMPDIR"));
    command
}

/// Runs the program to its end.
#[track_caller]
pub fn run(args: &[&str]) -> Output {
    run_alone(&mut weftline(args))
}

/// Runs a command to its end, without input, and ends what it has left behind. That may hold its
/// output open, for which nobody waits.
#[track_caller]
pub fn run_alone(command: &mut Command) -> Output {
    run_with(command, Stdio::null())
}

/// The same with an input.
#[track_caller]
pub fn run_with(command: &mut Command, stdin: impl Into<Stdio>) -> Output {
    let (mut out, mut err) = (tempfile::tempfile().unwrap(), tempfile::tempfile().unwrap());
    command.stdout(out.try_clone().unwrap()).stderr(err.try_clone().unwrap());
    let mut child = command.stdin(stdin).process_group(0).spawn().unwrap();
    let group = Pid::from_child(&child);
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send(child.wait().unwrap()));
    let status = end.recv_timeout(PATIENCE);
    let _ = rustix::process::kill_process_group(group, Signal::KILL);
    let text = |file: &mut File| {
        let mut bytes = Vec::new();
        file.rewind().unwrap();
        file.read_to_end(&mut bytes).unwrap();
        bytes
    };
    let (stdout, stderr) = (text(&mut out), text(&mut err));
    let Ok(status) = status else {
        panic!("{command:?} hangs\n{}", String::from_utf8_lossy(&[stdout, stderr].concat()))
    };
    Output { status, stdout, stderr }
}

/// Checks that the program fails with `status` and one line on standard error, and returns it.
#[track_caller]
pub fn failure(status: i32, args: &[&str]) -> String {
    one_line(status, &run(args), args)
}

/// What a daemon logs when its server lets it wait.
pub const WAITING: &str = "waiting for an answer of";

#[track_caller]
pub fn one_line(status: i32, output: &Output, args: &[&str]) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(status), "{args:?}: {text}");
    // The warning that plaintext deserves is no part of the error, nor what is said on a slow machine.
    let warning = "weftline: warning: --insecure-plaintext";
    let is_error = |line: &&str| !line.starts_with(warning) && !line.contains(WAITING);
    let lines: Vec<&str> = text.lines().filter(is_error).collect();
    assert_eq!(lines.len(), 1, "{args:?}: {text}");
    assert!(lines[0].starts_with("weftline: "), "{args:?}: {text}");
    assert!(output.stdout.is_empty(), "{args:?}: {:?}", output.stdout);
    lines[0].to_owned()
}

/// A running daemon; killed when the test ends before it.
pub struct Daemon {
    child: Child,
    stdout: mpsc::Receiver<String>,
    stderr: mpsc::Receiver<String>,
}

impl Daemon {
    pub fn start(args: &[&str]) -> Self {
        Self::spawn(&mut weftline(args))
    }

    /// With a variable of the environment.
    pub fn start_with(args: &[&str], name: &str, value: &str) -> Self {
        Self::spawn(weftline(args).env(name, value))
    }

    pub fn spawn(command: &mut Command) -> Self {
        Self::spawn_with(command, Stdio::piped())
    }

    /// With standard error somewhere else.
    pub fn spawn_with(command: &mut Command, stderr: Stdio) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let stdout = lines(child.stdout.take());
        let stderr = lines(child.stderr.take());
        Self { child, stdout, stderr }
    }

    /// Waits for the end, until which nothing but warnings of plaintext has been on standard error.
    #[track_caller]
    pub fn ends_silently(mut self) {
        let said = rest(&self.stderr);
        assert!(self.ends().success(), "{said:?}");
        let is_warning = |line: &String| line.contains("weftline: warning: --insecure-plaintext");
        assert!(said.iter().all(is_warning), "{said:?}");
    }

    /// The rest of the next line of standard output, which must begin with `word`.
    #[track_caller]
    pub fn says(&mut self, word: &str) -> String {
        let line = self.stdout.recv_timeout(PATIENCE);
        match line.as_ref().ok().and_then(|line| line.trim_end().strip_prefix(word)) {
            Some(rest) => rest.trim().to_owned(),
            None => panic!(
                "{line:?} for '{word}'; on stderr: {:?}",
                self.stderr.try_iter().collect::<Vec<_>>()
            ),
        }
    }

    /// The same; `None` if it ends without a line.
    #[track_caller]
    pub fn says_or_ends(&mut self, word: &str) -> Option<String> {
        match self.stdout.recv_timeout(PATIENCE) {
            Ok(line) => match line.trim_end().strip_prefix(word) {
                Some(rest) => Some(rest.trim().to_owned()),
                None => panic!("{line:?} for '{word}'"),
            },
            Err(RecvTimeoutError::Disconnected) => None,
            Err(error) => panic!("no '{word}', {error}"),
        }
    }

    #[track_caller]
    pub fn listening(&mut self) -> SocketAddr {
        self.says("listening on").parse().unwrap()
    }

    /// Waits for a line of standard error that contains `text`.
    #[track_caller]
    pub fn logs(&self, text: &str) -> String {
        let end = Instant::now() + PATIENCE;
        let mut others = Vec::new();
        loop {
            match self.stderr.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => others.push(line),
                Err(error) => panic!("no '{text}', {error}: {others:?}"),
            }
        }
    }

    /// Waits for the end; every line of standard error.
    #[track_caller]
    pub fn all_it_logged(mut self) -> Vec<String> {
        let said = rest(&self.stderr);
        self.ends();
        said
    }

    pub fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the end; the exit status and what was left on standard output.
    #[track_caller]
    pub fn end(mut self) -> (Option<i32>, String) {
        let left = rest(&self.stdout).into_iter().map(|line| line + "\n").collect();
        (self.ends().code(), left)
    }

    #[track_caller]
    fn ends(&mut self) -> ExitStatus {
        let mut status = None;
        until("it ends", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

/// The lines that come from a pipe, read by a thread of its own: a program that says nothing keeps
/// nobody for ever.
fn lines(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<String> {
    let (lines, receiver) = mpsc::channel();
    let send = move |pipe| {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = lines.send(line);
        }
    };
    // Without a pipe nothing comes.
    if let Some(pipe) = pipe {
        thread::spawn(move || send(pipe));
    }
    receiver
}

/// All lines that are left, to the end.
#[track_caller]
fn rest(lines: &mpsc::Receiver<String>) -> Vec<String> {
    let end = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    loop {
        match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(line) => all.push(line),
            Err(RecvTimeoutError::Disconnected) => return all,
            Err(RecvTimeoutError::Timeout) => panic!("it does not end: {all:?}"),
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server that keeps its certificate in `state`, and its address and fingerprint.
pub fn serve(state: &std::path::Path, target: SocketAddr) -> (Daemon, SocketAddr, String) {
    serve_with(state, target, &[])
}

/// The same with further options.
pub fn serve_with(
    state: &std::path::Path,
    target: SocketAddr,
    more: &[&str],
) -> (Daemon, SocketAddr, String) {
    serve_all("127.0.0.1:0".parse().unwrap(), state, target, more)
}

/// The same at an address.
pub fn serve_at(
    listen: SocketAddr,
    state: &std::path::Path,
    target: SocketAddr,
) -> (Daemon, SocketAddr, String) {
    serve_all(listen, state, target, &[])
}

fn serve_all(
    listen: SocketAddr,
    state: &std::path::Path,
    target: SocketAddr,
    more: &[&str],
) -> (Daemon, SocketAddr, String) {
    let (state, target, listen) = (state.to_str().unwrap(), target.to_string(), listen.to_string());
    let args = ["serve", "--listen", &listen, "--forward", &target, "--state-dir", state];
    let mut server = Daemon::start(&[&args, more].concat());
    let fingerprint = server.says("fingerprint");
    let address = server.listening();
    (server, address, fingerprint)
}

/// A client with two paths to `server`, and the address where it takes connections.
pub fn connect(server: SocketAddr, fingerprint: &str) -> (Daemon, SocketAddr) {
    connect_with(server, fingerprint, &[])
}

/// The same with further options.
pub fn connect_with(server: SocketAddr, fingerprint: &str, more: &[&str]) -> (Daemon, SocketAddr) {
    let server = server.to_string();
    let args = [
        "connect",
        "--server",
        &server,
        "--path",
        "one=127.0.0.1",
        "two=127.0.0.2",
        "--listen",
        "127.0.0.1:0",
        "--fingerprint",
        fingerprint,
    ];
    let mut client = Daemon::start(&[&args, more].concat());
    let address = client.listening();
    (client, address)
}
