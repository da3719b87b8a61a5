//! The daemons as a service manager runs them: told when they are ready, given their sockets,
//! stopped gently. The tests play systemd.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs::File;
use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::thread;

use common::{Daemon, PATIENCE, accept, connect, dial, echo, failure, serve_with, until, weftline};

/// One byte there and back: the connection is under way at both ends.
fn begin(local: SocketAddr) -> TcpStream {
    let mut stream = dial(local);
    exchange(&mut stream);
    stream
}

fn exchange(stream: &mut TcpStream) {
    stream.write_all(b"x").unwrap();
    let mut got = [0];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"x");
}

/// Ends a connection as programs do.
fn finish(mut stream: TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// `serve` in plaintext with `more`, and its address.
fn plain_server(more: &[&str]) -> (Daemon, SocketAddr) {
    let mut server = Daemon::spawn(&mut plain_server_command(more));
    let address = server.listening();
    (server, address)
}

fn plain_server_command(more: &[&str]) -> Command {
    let target = echo().to_string();
    let args = ["serve", "--insecure-plaintext", "--forward", &target];
    let listen = if more.contains(&"--listen") { &[][..] } else { &["--listen", "127.0.0.1:0"] };
    weftline(&[&args, listen, more].concat())
}

fn plain_client(server: SocketAddr, more: &[&str]) -> Daemon {
    let server = server.to_string();
    let args = ["connect", "--insecure-plaintext", "--server", &server, "--path", "one=127.0.0.1"];
    Daemon::start(&[&args, more].concat())
}

#[test]
fn a_server_that_stops_takes_nobody_new_and_lets_the_others_finish() {
    let state = tempfile::tempdir().unwrap();
    let (server, address, fingerprint) = serve_with(state.path(), echo(), &["--drain", "1h"]);
    let (_client, local) = connect(address, &fingerprint);
    let mut stream = begin(local);
    server.signal("-TERM");
    server.logs("stopping: 1 connection under way may go on for 1h");
    until("it refuses", || TcpStream::connect(address).is_err());
    exchange(&mut stream);
    finish(stream);
    server.logs("stopped");
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn the_time_to_finish_has_an_end_and_a_second_signal_cuts_it_short() {
    for (drain, signals, reason) in [
        ("200ms", 1, "ended while under way: 1 connection, their time is over"),
        ("1h", 2, "ended while under way: 1 connection, a second signal came"),
    ] {
        let (server, address) = plain_server(&["--drain", drain]);
        let mut client = plain_client(address, &["--listen", "127.0.0.1:0"]);
        let mut stream = begin(client.listening());
        server.signal("-INT");
        server.logs("stopping: 1 connection under way");
        if signals == 2 {
            server.signal("-TERM");
        }
        server.logs(reason);
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        client.logs("the other side is shutting down");
        assert_eq!(server.end().0, Some(0));
    }
    // What it is without the option.
    let (server, address) = plain_server(&[]);
    let mut client = plain_client(address, &["--listen", "127.0.0.1:0"]);
    let _stream = begin(client.listening());
    server.signal("-INT");
    server.logs("stopping: 1 connection under way may go on for 30s");
    server.signal("-INT");
    assert_eq!(server.end().0, Some(0));
    let line = failure(
        2,
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--forward",
            "a:1",
            "--insecure-plaintext",
            "--drain",
            "x",
        ],
    );
    assert!(line.contains("--drain: 'x' is no duration"), "{line}");
}

/// Started again at once, it would have used up the wrong tokens of its address within half a
/// minute.
#[test]
fn a_client_that_is_refused_takes_its_time_to_end_under_a_service_manager() {
    let dir = tempfile::tempdir().unwrap();
    let [right, wrong] = ["right", "wrong"].map(|name| dir.path().join(name));
    std::fs::write(&right, "one: a secret of sixteen and more").unwrap();
    std::fs::write(&wrong, "one: another secret of sixteen").unwrap();
    let tokens = ["--token-file", right.to_str().unwrap()];
    let (_server, address, fingerprint) = serve_with(&dir.path().join("state"), echo(), &tokens);
    let manager = Manager::new();
    let mut command = weftline(&[
        "connect",
        "--server",
        &address.to_string(),
        "--fingerprint",
        &fingerprint,
        "--path",
        "one=127.0.0.1",
        "--listen",
        "127.0.0.1:0",
        "--token-file",
        wrong.to_str().unwrap(),
    ]);
    // By hand it is told at once.
    let output = common::run_alone(&mut command);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let client = Daemon::spawn(command.env("NOTIFY_SOCKET", &manager.path));
    client.logs("ending in 30s, as each attempt counts against this address");
    client.signal("-TERM");
    assert_eq!(client.end().0, Some(0));
}

/// The journal's end of a stream is a file here: it is known by its device and number.
#[test]
fn the_journal_is_told_how_grave_a_line_is() {
    let dir = tempfile::tempdir().unwrap();
    let refused =
        ["serve", "--insecure-plaintext", "--listen", "nowhere:1", "--forward", "127.0.0.1:9"];
    let served =
        ["serve", "--insecure-plaintext", "--listen", "127.0.0.1:0", "--forward", "127.0.0.1:9"];
    for (format, is_journal) in [("text", true), ("text", false), ("json", true)] {
        let (file, log) = (dir.path().join("log"), dir.path().join("log"));
        let log = File::create(log).unwrap();
        let found = log.metadata().unwrap();
        let stream = format!("{}:{}", found.dev(), found.ino() + u64::from(!is_journal));
        let mut command = weftline(&[&served[..], &["--log-format", format]].concat());
        command.env("JOURNAL_STREAM", &stream);
        let mut server = Daemon::spawn_with(&mut command, log.try_clone().unwrap().into());
        server.listening();
        server.signal("-TERM");
        assert_eq!(server.end().0, Some(0));
        let failed = weftline(&refused).env("JOURNAL_STREAM", &stream).stderr(log).status();
        assert_eq!(failed.unwrap().code(), Some(2));
        let text = std::fs::read_to_string(file).unwrap();
        let begins = |start: &str| text.lines().any(|line| line.starts_with(start));
        let of_log = is_journal && format == "text";
        assert_eq!(begins("<6> INFO stopping"), of_log, "{text}");
        assert_eq!(begins("<4>weftline: warning: --insecure"), of_log, "{text}");
        assert_eq!(begins("<3>weftline: "), is_journal, "{text}");
        assert_eq!(text.contains("<6>"), of_log, "{text}");
    }
}

/// A service that answers and closes, and a program that keeps its end open, as pools of idle
/// connections do.
#[test]
fn a_program_that_keeps_its_end_open_keeps_no_daemon() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let target = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        let mut stream = accept(&listener);
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        stream.write_all(&byte).unwrap();
    });
    let serve = ["serve", "--insecure-plaintext", "--forward", &target, "--drain", "1h"];
    let mut server = Daemon::start(&[&serve[..], &["--listen", "127.0.0.1:0"]].concat());
    let address = server.listening();
    let mut client = plain_client(address, &["--listen", "127.0.0.1:0", "--drain", "1h"]);
    let mut stream = begin(client.listening());
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    for daemon in [client, server] {
        daemon.signal("-INT");
        daemon.logs("stopping");
        daemon.signal("-INT");
        assert_eq!(daemon.end().0, Some(0));
    }
    drop(stream);
}

#[test]
fn a_daemon_that_nobody_uses_stops_at_once() {
    let (server, _) = plain_server(&["--drain", "1h"]);
    server.signal("-TERM");
    server.logs("stopping: no connection is under way");
    assert_eq!(server.end().0, Some(0));
}

/// SIGHUP ends programs that do not expect it.
#[test]
fn a_daemon_without_any_file_says_so_on_sighup_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (server, address) = plain_server(&["--control", &at("serve")]);
    let more = ["--listen", "127.0.0.1:0", "--control", &at("connect")];
    let mut client = plain_client(address, &more);
    let mut stream = begin(client.listening());
    for (daemon, name) in [(&server, "serve"), (&client, "connect")] {
        daemon.signal("-HUP");
        daemon.logs("SIGHUP: there is no file to read again");
        let status = common::run(&["status", "--json", "--control", &at(name)]);
        assert!(status.status.success(), "{status:?}");
    }
    exchange(&mut stream);
    finish(stream);
    for (daemon, name) in [(client, "connect"), (server, "serve")] {
        daemon.signal("-TERM");
        assert_eq!(daemon.end().0, Some(0));
        assert!(!dir.path().join(name).exists(), "the socket goes with the daemon");
    }
}

/// What a service manager is told.
struct Manager {
    socket: UnixDatagram,
    _dir: tempfile::TempDir,
    path: String,
}

impl Manager {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { socket, path: path.to_str().unwrap().to_owned(), _dir: dir }
    }

    /// The next message that has the line `wanted`, or all of whose lines begin so.
    fn told(&self, wanted: &str) -> Vec<String> {
        loop {
            let mut buffer = [0; 4096];
            let n = self.socket.recv(&mut buffer).unwrap();
            let text = std::str::from_utf8(&buffer[..n]).unwrap();
            let lines: Vec<String> = text.lines().map(str::to_owned).collect();
            if lines.iter().any(|line| line.starts_with(wanted)) {
                return lines;
            }
        }
    }
}

#[test]
fn systemd_is_told_of_the_start_a_reload_the_state_and_the_end() {
    let manager = Manager::new();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("serve.toml");
    std::fs::write(&config, "grace = '20s'\n").unwrap();
    let mut command =
        plain_server_command(&["--config", config.to_str().unwrap(), "--drain", "1h"]);
    let mut server = Daemon::spawn(command.env("NOTIFY_SOCKET", &manager.path));
    let address = server.listening();
    let lines = manager.told("READY=1");
    assert!(lines.contains(&"STATUS=0 connections under way".to_owned()), "{lines:?}");

    server.signal("-HUP");
    let lines = manager.told("RELOADING=1");
    let time = lines.iter().find_map(|line| line.strip_prefix("MONOTONIC_USEC="));
    assert!(time.unwrap().parse::<u64>().unwrap() > 0, "{lines:?}");
    manager.told("READY=1");
    // A file with a mistake: the reload is over all the same, and the old settings go on.
    std::fs::write(&config, "speed = 1\n").unwrap();
    server.signal("-HUP");
    manager.told("RELOADING=1");
    manager.told("READY=1");

    let mut client = plain_client(address, &["--listen", "127.0.0.1:0"]);
    let stream = begin(client.listening());
    manager.told("STATUS=1 connection under way");
    server.signal("-TERM");
    let lines = manager.told("STOPPING=1");
    assert!(lines.contains(&"STATUS=stopping, 1 connection under way".to_owned()), "{lines:?}");
    finish(stream);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn the_watchdog_is_fed_by_both_daemons() {
    let manager = Manager::new();
    let mut command = plain_server_command(&[]);
    command.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "100000");
    let mut server = Daemon::spawn(&mut command);
    let address = server.listening().to_string();
    manager.told("WATCHDOG=1");
    manager.told("WATCHDOG=1");

    let manager = Manager::new();
    let args = ["connect", "--insecure-plaintext", "--server", &address, "--path", "a=127.0.0.1"];
    let mut command = weftline(&[&args[..], &["--listen", "127.0.0.1:0"]].concat());
    command.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "100000");
    let mut client = Daemon::spawn(&mut command);
    client.listening();
    manager.told("READY=1");
    manager.told("WATCHDOG=1");
    client.signal("-TERM");
    manager.told("STOPPING=1");
    assert_eq!(client.end().0, Some(0));
}

/// The program with `args`, given the sockets as systemd does: from descriptor 3 on.
fn activated(args: &[&str], sockets: &[(&str, &TcpListener)]) -> Daemon {
    let program = weftline(args);
    let mut script = "LISTEN_PID=$$ exec \"$0\" \"$@\"".to_owned();
    for (number, (_, socket)) in (3..).zip(sockets) {
        rustix::io::fcntl_setfd(socket, rustix::io::FdFlags::empty()).unwrap();
        // Above those that are given: moving one does not overwrite another.
        script = format!("exec {}<&{}\n{script}", number + 60, socket.as_raw_fd());
        script += &format!(" {number}<&{0} {0}<&-", number + 60);
    }
    let names: Vec<&str> = sockets.iter().map(|(name, _)| *name).collect();
    let mut command = Command::new("bash");
    command.args(["-c", &script]).arg(program.get_program()).args(args);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.env("LISTEN_FDS", sockets.len().to_string()).env("LISTEN_FDNAMES", names.join(":"));
    Daemon::spawn(&mut command)
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn a_server_takes_the_sockets_it_is_given() {
    let (passed, address) = listener();
    let target = echo().to_string();
    let serve = ["serve", "--insecure-plaintext", "--forward", &target];
    // Its own configuration may name the same address, for starts without the socket.
    let listed = address.to_string();
    for more in [&[][..], &["--listen", &listed, "127.0.0.2:0"]] {
        let args = [&serve[..], more].concat();
        let mut server = activated(&args, &[("weftline-serve.socket", &passed)]);
        assert_eq!(server.listening(), address);
        if !more.is_empty() {
            assert_ne!(server.listening(), address);
        }
        let mut client = plain_client(address, &["--listen", "127.0.0.1:0"]);
        finish(begin(client.listening()));
        client.signal("-TERM");
        assert_eq!(client.end().0, Some(0));
        // The socket is systemd's and outlives the daemon: whoever comes now waits for the next.
        server.signal("-TERM");
        assert_eq!(server.end().0, Some(0));
        assert!(TcpStream::connect(address).is_ok());
        passed.set_nonblocking(true).unwrap();
        while passed.accept().is_ok() {}
    }
}

#[test]
fn a_client_takes_each_socket_by_its_name_and_a_single_one_without() {
    let (_server, address) = plain_server(&[]);
    let server = address.to_string();
    let common =
        ["connect", "--insecure-plaintext", "--server", &server, "--path", "one=127.0.0.1"];
    let (one, one_at) = listener();
    let mut client = activated(&common, &[("anything", &one)]);
    assert_eq!(client.listening(), one_at);
    finish(begin(one_at));
    drop(client);

    let (two, two_at) = listener();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("connect.toml");
    let forwards = "[[forwards]]\nlisten = 'fd:web'\n[[forwards]]\nlisten = 'fd:video'\n\
                    scheduler = 'min-rtt'\n";
    std::fs::write(&config, forwards).unwrap();
    let args = [&common[..], &["--config", config.to_str().unwrap()]].concat();
    let both = [("video", &one), ("web", &two)];
    let mut client = activated(&args, &both);
    assert_eq!((client.listening(), client.listening()), (two_at, one_at));
    finish(begin(one_at));
    finish(begin(two_at));
    // One that is taken out of use can be taken again.
    std::fs::write(&config, "listen = 'fd:web'\n").unwrap();
    client.signal("-HUP");
    client.logs("has been read again");
    finish(begin(two_at));
    std::fs::write(&config, forwards).unwrap();
    client.signal("-HUP");
    client.logs("has been read again");
    finish(begin(one_at));

    std::fs::write(&config, "listen = 'fd:web'\n").unwrap();
    let client = activated(&args, &both);
    client.logs("the socket 'video' was passed and is not used; --listen fd:video");
    std::fs::write(&config, "listen = 'fd:mail'\n").unwrap();
    let client = activated(&args, &both);
    client.logs("fd:mail: no socket of this name was passed to the program (passed: video, web)");
    assert_eq!(client.end().0, Some(2));
}

#[test]
fn sockets_that_are_none_are_refused() {
    let server = activated(
        &["serve", "--insecure-plaintext", "--forward", "127.0.0.1:1"],
        &[("web", &TcpStream::connect(echo()).map(into_listener).unwrap())],
    );
    server.logs("the socket 'web' passed in LISTEN_FDS is no listening TCP socket");
    assert_eq!(server.end().0, Some(1));
}

/// A connected socket that pretends to be a listener.
fn into_listener(stream: TcpStream) -> TcpListener {
    TcpListener::from(std::os::fd::OwnedFd::from(stream))
}
