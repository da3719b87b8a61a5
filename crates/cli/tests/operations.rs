//! What running daemons show of themselves: `weftline status`, metrics, logs, event files; and that
//! none of it can stop them.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Instant;

use common::{Daemon, PATIENCE, dial, echo, failure, run, run_alone, until, weftline};
use serde_json::Value;

/// A connection through the daemons that has had `len` bytes sent there and back.
fn begin(local: SocketAddr, len: usize) -> TcpStream {
    let mut stream = dial(local);
    let mut writer = stream.try_clone().unwrap();
    thread::scope(|scope| {
        scope.spawn(move || writer.write_all(&vec![7; len]).unwrap());
        stream.read_exact(&mut vec![0; len]).unwrap();
    });
    stream
}

fn finish(mut stream: TcpStream) {
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap(), 0);
}

/// A server and a client with two paths, each with a control socket, a metrics address and event
/// files.
struct World {
    dir: tempfile::TempDir,
    server: Daemon,
    server_metrics: SocketAddr,
    client: Daemon,
    client_metrics: SocketAddr,
    local: SocketAddr,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let target = echo().to_string();
        let endpoints = |name: &str| {
            let (control, qlog) = (at(&format!("{name}.sock")), at(&format!("{name}-qlog")));
            ["--metrics", "127.0.0.1:0", "--control", &control, "--qlog", &qlog].map(str::to_owned)
        };
        fs::write(at("tokens"), "alice: the first secret of all\n").unwrap();
        fs::set_permissions(at("tokens"), fs::Permissions::from_mode(0o600)).unwrap();
        let (state, tokens) = (at("state"), at("tokens"));
        let args = ["serve", "--listen", "127.0.0.1:0", "--forward", &target];
        let more = ["--state-dir", &state, "--token-file", &tokens];
        let endpoints_of_server = endpoints("serve");
        let endpoints_of_server: Vec<&str> =
            endpoints_of_server.iter().map(String::as_str).collect();
        let mut server = Daemon::start(&[&args[..], &more, &endpoints_of_server].concat());
        let fingerprint = server.says("fingerprint");
        let address = server.listening().to_string();
        let server_metrics = server.says("metrics on").parse().unwrap();

        let args = ["connect", "--server", &address, "--listen", "127.0.0.1:0", "--path"];
        let paths = ["one=127.0.0.1", "two=127.0.0.2,role=backup"];
        let more = ["--fingerprint", &fingerprint, "--token-file", &tokens, "--ready", "1"];
        // It has windows to tell of.
        let scheduler = ["--scheduler", "fbdt"];
        let endpoints_of_client = endpoints("connect");
        let endpoints_of_client: Vec<&str> =
            endpoints_of_client.iter().map(String::as_str).collect();
        let mut client =
            Daemon::start(&[&args[..], &paths, &more, &scheduler, &endpoints_of_client].concat());
        let client_metrics = client.says("metrics on").parse().unwrap();
        let local = client.listening();
        Self { dir, server, server_metrics, client, client_metrics, local }
    }

    fn control(&self, name: &str) -> String {
        self.dir.path().join(format!("{name}.sock")).to_str().unwrap().to_owned()
    }

    /// What `weftline status --json` says of a daemon.
    fn status(&self, name: &str, more: &[&str]) -> Value {
        let control = self.control(name);
        let args = [&["status", "--control", &control, "--json"], more].concat();
        let output = run(&args);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// The same once it says this of its first connection's paths.
    #[track_caller]
    fn status_when(&self, name: &str, is_so: impl Fn(&[Value]) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let status = self.status(name, &[]);
            if status["connections"][0]["paths"].as_array().is_some_and(|paths| is_so(paths)) {
                return status;
            }
            assert!(began.elapsed() < PATIENCE, "{name}: {status}");
        }
    }
}

/// Whether both paths have joined: a connection carries data before that.
fn has_both(paths: &[Value]) -> bool {
    paths.len() == 2 && paths.iter().all(|path| path["state"] != "down")
}

/// What has arrived over all paths.
fn delivered(paths: &[Value]) -> u64 {
    paths.iter().map(|path| path["delivered_bytes"].as_u64().unwrap()).sum()
}

#[test]
fn status_shows_connections_and_paths() {
    let world = World::new();
    let stream = begin(world.local, 300_000);
    for (name, peer) in [("serve", "to 127.0.0.1:"), ("connect", "from 127.0.0.1:")] {
        // What has arrived is known when that has been acknowledged. Where a daemon stands still for a
        // moment the backup stands in.
        let is_known = |paths: &[Value]| delivered(paths) >= 300_000;
        let stands_by =
            |paths: &[Value]| paths[0]["state"] == "up" && paths[1]["state"] == "standby";
        let status =
            world.status_when(name, |paths| has_both(paths) && is_known(paths) && stands_by(paths));
        assert_eq!((&status["schema"], &status["daemon"]), (&1.into(), &name.into()));
        assert_eq!(status["state"], "running");
        assert!(status["memory"]["resident_bytes"].as_u64().unwrap() > 1_000_000, "{status}");
        assert!(status["memory"]["reserved_bytes"].as_u64().unwrap() > 0, "{status}");
        let one = &status["connections"][0];
        assert!(one["label"].as_str().unwrap().starts_with(peer), "{one}");
        assert_eq!(one["scheduler"], "fbdt");
        assert_eq!(one["received_bytes"], 300_000 + u64::from(name == "serve"));
        assert!(one["sent_bytes"].as_u64().unwrap() >= 300_000, "{one}");
        assert!(one["send_mbps"].is_number() && one["memory_bytes"].as_u64().unwrap() > 0);
        let client = if name == "serve" { "alice".into() } else { Value::Null };
        assert_eq!(one["client"], client);
        let paths = one["paths"].as_array().unwrap();
        assert_eq!(paths.len(), 2, "{paths:?}");
        assert_eq!((&paths[0]["name"], &paths[0]["state"]), (&"one".into(), &"up".into()));
        assert_eq!((&paths[1]["role"], &paths[1]["state"]), (&"backup".into(), &"standby".into()));
        assert!(paths[0]["cwnd_bytes"].as_u64().unwrap() > 0);
        // It begins there, whatever stands in later.
        assert!(paths[0]["delivered_bytes"].as_u64().unwrap() > 0, "{paths:?}");
    }
    // Fewer than there are: the others are counted.
    let status = world.status("connect", &["--connections", "1"]);
    assert_eq!(status["connections"].as_array().unwrap().len(), 1);
    let (open, unlisted) = (&status["connections_open"], &status["connections_unlisted"]);
    assert_eq!(open.as_u64().unwrap(), unlisted.as_u64().unwrap() + 1);

    let output = run(&["status", "--control", &world.control("connect")]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["weftline connect", "running for", "kept ready", "fbdt", "standby", "retrans"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() < 250), "{text}");
    finish(stream);
}

/// What the kernel says is the congestion control of new sockets here, and whether BBR can be set.
fn control_of_new_sockets() -> (String, bool) {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    let name = String::from_utf8(socket.tcp_congestion().unwrap()).unwrap();
    (name.trim_end_matches('\0').to_owned(), socket.set_tcp_congestion(b"bbr").is_ok())
}

#[test]
fn without_a_word_both_ends_use_bbr_where_they_may_and_say_so() {
    let world = World::new();
    let stream = begin(world.local, 1000);
    let (default, has_bbr) = control_of_new_sockets();
    let wanted = if has_bbr { "bbr" } else { &default };
    for (name, daemon) in [("serve", &world.server), ("connect", &world.client)] {
        let line = daemon.logs("congestion control: ");
        assert!(line.contains(&format!("congestion control: {wanted}")), "{line}");
        let status = world.status_when(name, has_both);
        for path in status["connections"][0]["paths"].as_array().unwrap() {
            assert_eq!(path["congestion"], wanted, "{path}");
            assert_eq!(path["congestion_fallback"].is_null(), has_bbr, "{path}");
        }
    }
    finish(stream);
}

/// A server in plaintext with `more`, a client of it with `wish`, and what `weftline status --json`
/// says of the server's first connection.
fn served(more: &[&str], wish: &[&str]) -> (Value, Daemon) {
    let dir = tempfile::tempdir().unwrap();
    let control = dir.path().join("serve.sock").to_str().unwrap().to_owned();
    let target = echo().to_string();
    let args = ["serve", "--insecure-plaintext", "--listen", "127.0.0.1:0", "--forward", &target];
    let mut server = Daemon::start(&[&args[..], &["--control", &control], more].concat());
    let address = server.listening().to_string();
    let args = ["connect", "--insecure-plaintext", "--server", &address, "--path", "a=127.0.0.1"];
    let mut client = Daemon::start(&[&args[..], &["--listen", "127.0.0.1:0"], wish].concat());
    let stream = begin(client.listening(), 1000);
    let output = run(&["status", "--control", &control, "--json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    let output = run(&["status", "--control", &control]);
    let text = String::from_utf8(output.stdout).unwrap();
    let path = status["connections"][0]["paths"][0].clone();
    let why = path["congestion_fallback"].as_str();
    assert!(why.is_none_or(|why| text.contains(&format!("instead of bbr: {why}"))), "{text}");
    finish(stream);
    (path, server)
}

#[test]
fn a_server_keeps_clients_to_the_controls_it_allows() {
    // Every kernel has reno, and every user may set it.
    let (path, server) = served(&["--allow-congestion", "reno"], &[]);
    assert_eq!(path["congestion"], "reno", "{path}");
    let why = path["congestion_fallback"].as_str().unwrap();
    assert!(why.contains("bbr is not among those that this server allows"), "{why}");
    server.logs("congestion control: reno, not bbr: bbr is not among");
    let (path, _server) = served(&["--allow-congestion", "reno"], &["--congestion", "reno"]);
    assert_eq!((&path["congestion"], &path["congestion_fallback"]), (&"reno".into(), &Value::Null));

    let target = echo().to_string();
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("serve.toml");
    fs::write(&config, "insecure-plaintext = true\nallow-congestion = ['reno']\n").unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--forward", &target, "--config"];
    let mut server = Daemon::start(&[&args[..], &[config.to_str().unwrap()]].concat());
    let address = server.listening().to_string();
    let (default, _) = control_of_new_sockets();
    if default == "reno" {
        assert!(std::env::var_os("CI").is_none(), "in CI reno is not the default");
        eprintln!("skipped: this system's default is reno, which is allowed");
        return;
    }
    let args = ["connect", "--insecure-plaintext", "--server", &address, "--path", "a=127.0.0.1"];
    let client = Daemon::start(
        &[&args[..], &["--listen", "127.0.0.1:0", "--congestion", &default]].concat(),
    );
    client.logs(&format!("'{default}' is not allowed here (allowed: reno, auto)"));
}

/// A control that the kernel has but that this user may not set: the client is told so. The server
/// runs without the capability to set it, by util-linux's setpriv.
#[test]
fn a_client_is_told_of_a_control_that_the_server_may_not_set() {
    let read = |name: &str| {
        let text = fs::read_to_string(format!("/proc/sys/net/ipv4/tcp_{name}_congestion_control"));
        text.unwrap_or_default().split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    let (available, allowed) = (read("available"), read("allowed"));
    let restricted = available.iter().find(|name| !allowed.contains(name));
    let is_root = rustix::process::geteuid().is_root();
    let (Some(restricted), true) = (restricted, is_root) else {
        assert!(is_root || std::env::var_os("CI").is_none(), "in CI it runs as root");
        eprintln!("skipped: root {is_root}; available {available:?}, allowed {allowed:?}");
        return;
    };
    let target = echo().to_string();
    let program = weftline(&[]);
    let mut command = Command::new("setpriv");
    command.args(["--inh-caps=-all", "--bounding-set=-net_admin"]).arg(program.get_program());
    command.args([
        "serve",
        "--insecure-plaintext",
        "--listen",
        "127.0.0.1:0",
        "--forward",
        &target,
    ]);
    let mut server = Daemon::spawn(command.args(["--control", "none"]));
    let address = server.listening().to_string();
    let args = ["connect", "--insecure-plaintext", "--server", &address, "--path", "a=127.0.0.1"];
    let more = ["--listen", "127.0.0.1:0", "--congestion", restricted];
    let client = Daemon::start(&[&args[..], &more].concat());
    client.logs(&format!("server: the congestion control '{restricted}' is restricted"));
    server.logs(&format!("the congestion control '{restricted}' is restricted"));
}

#[test]
fn status_can_be_watched_until_the_daemon_ends() {
    let world = World::new();
    let control = world.control("serve");
    let mut watch = Daemon::start(&["status", "--control", &control, "--json", "--watch"]);
    for _ in 0..2 {
        let line: Value = serde_json::from_str(&watch.says("")).unwrap();
        assert_eq!(line["daemon"], "serve");
    }
    world.server.signal("-TERM");
    assert_eq!(world.server.end().0, Some(0));
    assert_eq!(watch.end().0, Some(0));
    // The socket went with the daemon.
    assert!(!Path::new(&control).exists());
    let line = failure(1, &["status", "--control", &control]);
    assert!(line.contains("cannot ask the daemon at"), "{line}");
}

#[test]
fn the_control_socket_is_the_owners_and_answers_nonsense_in_words() {
    let world = World::new();
    let path = world.control("serve");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let ask = |request: &[u8]| {
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    for (request, reason) in [
        (&b"hello\n"[..], "expected value"),
        (b"{\"command\":\"format\"}\n", "unknown variant `format`, expected one of `status`"),
        (&[b'x'; 5000], "a request has at most 4096 bytes"),
        (b"\xff\xfe\n", "expected value"),
    ] {
        let answer: Value = serde_json::from_str(ask(request).lines().next().unwrap()).unwrap();
        assert!(answer["error"].as_str().unwrap().contains(reason), "{answer}");
    }
    let both = ask(b"{\"command\":\"status\"}\n{\"command\":\"status\",\"connections\":0}\n");
    let answers: Vec<Value> = both.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    assert_eq!(answers.len(), 2);
    assert_eq!(answers[1]["connections"].as_array().unwrap().len(), 0);
    // Programs that ask nothing keep nobody else out for ever: eight have a place, the ninth waits.
    let silent: Vec<_> = (0..7).map(|_| UnixStream::connect(&path).unwrap()).collect();
    assert!(ask(b"{\"command\":\"status\"}\n").contains("\"schema\":1"));
    drop(silent);
    // Two daemons do not share one.
    let args = ["serve", "--listen", "127.0.0.1:0", "--forward", "a:1", "--insecure-plaintext"];
    let second = Daemon::start(&[&args[..], &["--control", &path]].concat());
    second.logs("another daemon has it; choose another path");
}

#[test]
fn a_daemon_without_a_named_socket_is_found_and_one_killed_leaves_nothing_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    let status = |args: &[&str]| {
        let mut command = weftline(&[&["status"], args].concat());
        command.env("RUNTIME_DIRECTORY", dir.path()).env_remove("XDG_RUNTIME_DIR");
        run_alone(&mut command)
    };
    let start = |more: &[&str]| {
        let args = ["serve", "--listen", "127.0.0.1:0", "--forward", "a:1", "--insecure-plaintext"];
        let mut command = weftline(&[&args, more].concat());
        let mut daemon = Daemon::spawn(command.env("RUNTIME_DIRECTORY", dir.path()));
        daemon.listening();
        daemon
    };
    let sockets = || -> Vec<PathBuf> {
        fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let first = start(&[]);
    until("its control socket is there", || sockets().len() == 1);
    drop(first);
    assert_eq!(sockets().len(), 1, "killed, it could not clear up");
    // One that was killed before its socket had its name.
    let draft = dir.path().join(format!("serve-1.sock.{}", u32::MAX));
    drop(std::os::unix::net::UnixListener::bind(draft).unwrap());
    let quiet = start(&["--control", "none"]);
    drop(quiet);
    let second = start(&["--metrics", "127.0.0.1:0"]);
    // The metrics are opened before the control socket: once they answer to a line of status…
    until("its control socket is there", || {
        let output = status(&["--json"]);
        let own = sockets()
            .iter()
            .any(|path| path.to_str().unwrap().ends_with(&format!("serve-{}.sock", second.id())));
        if own {
            let output = if output.status.success() { output } else { status(&["--json"]) };
            let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(answer["pid"], second.id());
        }
        own
    });
    assert_eq!(sockets().len(), 1, "the dead one was cleared away");
    second.signal("-TERM");
    assert_eq!(second.end().0, Some(0));
    let output = status(&[]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text.contains("no daemon found (looked in "), "{text}");
}

fn fetch(address: SocketAddr, request: &str) -> (String, String) {
    let mut stream = dial(address);
    stream.write_all(format!("{request} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// The value of a metric with its labels.
fn metric(page: &str, name: &str) -> f64 {
    let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{name}: {page}")).parse().unwrap()
}

#[test]
fn metrics_are_fetched_over_http_and_only_grow() {
    let began = Instant::now();
    let world = World::new();
    let stream = begin(world.local, 200_000);
    // A connection carries data before its other paths have joined.
    let (mut head, mut page) = Default::default();
    until("the second path has joined", || {
        (head, page) = fetch(world.server_metrics, "GET /metrics");
        page.contains("weftline_path_subflows{path=\"two\"} ")
    });
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    assert!(head.to_lowercase().contains("content-type: application/openmetrics-text"), "{head}");
    assert!(page.ends_with("# EOF\n"), "{page}");
    assert_eq!(metric(&page, "weftline_connections_used"), 1.0);
    assert_eq!(metric(&page, "weftline_received_bytes_total"), 200_001.0);
    // And the one kept ready, if it has come by now.
    assert!(metric(&page, "weftline_client_connections{client=\"alice\"}") >= 1.0);
    assert!(metric(&page, "weftline_path_subflows{path=\"two\"}") >= 1.0);
    // Where a daemon stands still for a moment the backup stands in.
    let sent =
        ["one", "two"].map(|path| format!("weftline_path_sent_bytes_total{{path=\"{path}\"}}"));
    assert!(sent.iter().map(|name| metric(&page, name)).sum::<f64>() >= 200_000.0, "{page}");
    assert!(metric(&page, &sent[0]) > 0.0, "{page}");
    // In seconds: no more than all of this has taken.
    let all = began.elapsed().as_secs_f64();
    assert!(metric(&page, "weftline_path_srtt_seconds{path=\"one\"}") < all, "{page}");
    assert!(metric(&page, "weftline_resident_memory_bytes") > 1e6);
    let wrong_token = "weftline_handshakes_refused_total{reason=\"token\"}";
    assert_eq!(metric(&page, wrong_token), 0.0);
    // Each series once, none without a help.
    let mut series: Vec<&str> =
        page.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split(' ').next()).collect();
    let count = series.len();
    series.sort_unstable();
    series.dedup();
    assert_eq!(series.len(), count, "{page}");

    // What is over still counts.
    finish(stream);
    until("the connection is over", || {
        let (_, page) = fetch(world.client_metrics, "GET /metrics");
        assert!(metric(&page, "weftline_sent_bytes_total") >= 200_001.0, "{page}");
        metric(&page, "weftline_connections_used") == 0.0
    });
    assert!(fetch(world.client_metrics, "GET /").0.starts_with("HTTP/1.1 404"));
    assert!(fetch(world.client_metrics, "POST /metrics").0.starts_with("HTTP/1.1 405"));

    // Somebody who speaks something else is counted by the reason.
    let server = world.status("serve", &[])["listening"][0].as_str().unwrap().to_owned();
    let mut noise = dial(&server);
    noise.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = noise.read_to_end(&mut Vec::new());
    let refused = "weftline_handshakes_refused_total{reason=\"protocol\"}";
    until("it is counted", || {
        metric(&fetch(world.server_metrics, "GET /metrics").1, refused) >= 1.0
    });
}

#[test]
fn scrapers_that_say_nothing_do_not_keep_others_out() {
    let world = World::new();
    // All places but one; those wait for their time to be over.
    let silent: Vec<_> =
        (0..7).map(|_| TcpStream::connect(world.server_metrics).unwrap()).collect();
    assert!(fetch(world.server_metrics, "GET /metrics").0.starts_with("HTTP/1.1 200"));
    // One that does not end its request is cut off.
    let mut slow = dial(world.server_metrics);
    slow.write_all(b"GET /metrics HTTP/1.1\r\nx: ").unwrap();
    let junk = vec![b'y'; 64 << 10];
    let _ = slow.write_all(&junk);
    let mut answer = Vec::new();
    let _ = slow.read_to_end(&mut answer);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 4"), "{answer:?}");
    drop(silent);
    let taken = world.server_metrics.to_string();
    let args = ["serve", "--listen", "127.0.0.1:0", "--forward", "a:1", "--insecure-plaintext"];
    let second = Daemon::start(&[&args[..], &["--metrics", &taken]].concat());
    second.logs(&format!("--metrics {taken}: Address already in use"));
}

#[test]
fn logs_are_text_or_objects_and_as_much_as_is_wanted() {
    let serve = |more: &[&str]| {
        let args = ["serve", "--listen", "127.0.0.1:0", "--forward", "a:1", "--insecure-plaintext"];
        Daemon::start(&[&args[..], more].concat())
    };
    let mut daemon = serve(&["--log-format", "json"]);
    daemon.listening();
    daemon.signal("-TERM");
    let line: Value = serde_json::from_str(&daemon.logs("stopping")).unwrap();
    assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &"weftline_cli::ops".into()));
    assert_eq!(line["message"], "stopping: no connection is under way");
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'), "{line}");

    let daemon = serve(&["--log-level", "debug"]);
    daemon.logs("control socket");
    let mut daemon = serve(&["--log-level", "warn"]);
    daemon.listening();
    daemon.signal("-TERM");
    daemon.ends_silently();
    let line = failure(2, &["serve", "--forward", "a:1", "--log-level", "loud"]);
    assert!(line.contains("--log-level: 'loud' is neither off, error, warn"), "{line}");
}

#[test]
fn a_full_disk_under_the_log_stops_nobody() {
    let target = echo().to_string();
    let full = || fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    for format in ["text", "json"] {
        let log = ["--log-level", "trace", "--log-format", format];
        let args =
            ["serve", "--insecure-plaintext", "--listen", "127.0.0.1:0", "--forward", &target];
        let mut command = weftline(&[&args[..], &log].concat());
        let mut server = Daemon::spawn_with(&mut command, full().into());
        let address = server.listening().to_string();
        let args = ["connect", "--insecure-plaintext", "--server", &address];
        let more = ["--path", "one=127.0.0.1", "--listen", "127.0.0.1:0"];
        let mut command = weftline(&[&args[..], &more, &log].concat());
        let mut client = Daemon::spawn_with(&mut command, full().into());
        let local = client.listening();
        finish(begin(local, 500_000));
        for daemon in [client, server] {
            daemon.signal("-TERM");
            assert_eq!(daemon.end().0, Some(0), "{format}");
        }
    }
    // Nor does a program that fails fail otherwise for it.
    let status = weftline(&["serve"]).stderr(full()).status().unwrap();
    assert_eq!(status.code(), Some(2));
}

/// The records of an event file.
fn records(path: &Path) -> Vec<Value> {
    let bytes = fs::read(path).unwrap();
    let mut parts = bytes.split(|&byte| byte == 0x1e);
    assert!(parts.next().unwrap().is_empty(), "a record begins with its separator (RFC 7464)");
    // The last may be half written.
    parts
        .filter_map(|part| part.strip_suffix(b"\n"))
        .map(|text| serde_json::from_slice(text).unwrap())
        .collect()
}

fn files(dir: &Path) -> Vec<PathBuf> {
    fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn event_files_tell_a_connections_life() {
    let world = World::new();
    let mut stream = begin(world.local, 2_000_000);
    // It goes on until it has been measured.
    let client_dir = world.dir.path().join("connect-qlog");
    let is_measured = |file: &PathBuf| {
        let log = records(file);
        log.iter().any(|record| record["name"] == "weftline:window_updated")
    };
    until("it has been measured", || {
        stream.write_all(&[7; 10_000]).unwrap();
        stream.read_exact(&mut [0; 10_000]).unwrap();
        files(&client_dir).iter().any(is_measured)
    });
    finish(stream);
    for (name, vantage) in [("serve", "server"), ("connect", "client")] {
        let dir = world.dir.path().join(format!("{name}-qlog"));
        let is_over = |records: &Vec<Value>| {
            records.last().is_some_and(|last| last["name"] == "weftline:connection_closed")
        };
        let mut over = None;
        until("a log is at its end", || {
            over = files(&dir).iter().map(|file| records(file)).find(is_over);
            over.is_some()
        });
        let log = over.unwrap();
        assert_eq!(log[0]["serialization_format"], "application/qlog+json-seq");
        assert_eq!(log[0]["trace"]["vantage_point"]["type"], vantage);
        let names: Vec<&str> =
            log[1..].iter().map(|record| record["name"].as_str().unwrap()).collect();
        for wanted in [
            "connection_started",
            "connection_used",
            "connection_metrics",
            "path_metrics",
            "path_up",
            "direction_changed",
        ] {
            assert!(names.contains(&&*format!("weftline:{wanted}")), "{wanted}: {names:?}");
        }
        let times: Vec<f64> = log[1..].iter().map(|r| r["time"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        let end = &log.last().unwrap()["data"];
        assert!(end["sent_bytes"].as_u64().unwrap() >= 2_000_000, "{end}");
        assert_eq!(end["error"], Value::Null);
        let of_path = log.iter().rev().find(|record| record["name"] == "weftline:path_metrics");
        let data = &of_path.unwrap()["data"];
        assert!(data["cwnd_bytes"].is_number() || data["state"] == "down", "{data}");
    }
    drop(world.client);
}

#[test]
fn a_full_disk_under_the_event_files_is_said_once_and_ends_them_only() {
    let dir = tempfile::tempdir().unwrap();
    let (qlog, target) = (dir.path().join("qlog"), echo().to_string());
    let args = [
        "serve",
        "--insecure-plaintext",
        "--listen",
        "127.0.0.1:0",
        "--forward",
        &target,
        "--qlog",
        qlog.to_str().unwrap(),
    ];
    // Files may have 1024 bytes; a write beyond that fails as on a full disk.
    let program = weftline(&args);
    let mut command = Command::new("bash");
    let script = "trap '' XFSZ; ulimit -f 1; exec \"$0\" \"$@\"";
    command.args(["-c", script]).arg(program.get_program()).args(args);
    command.env("RUNTIME_DIRECTORY", dir.path());
    let mut server = Daemon::spawn(&mut command);
    let address = server.listening().to_string();
    let args = ["connect", "--insecure-plaintext", "--server", &address, "--path", "a=127.0.0.1"];
    let mut client = Daemon::start(&[&args[..], &["--listen", "127.0.0.1:0"]].concat());
    let local = client.listening();
    for _ in 0..3 {
        finish(begin(local, 1_000_000));
    }
    let line = server.logs("event files in ");
    assert!(line.contains("File too large (os error 27); the file ends there"), "{line}");
    assert!(files(&qlog).iter().all(|file| fs::metadata(file).unwrap().len() <= 1024));
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));

    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let args = ["serve", "--listen", "127.0.0.1:0", "--forward", "a:1", "--insecure-plaintext"];
    let daemon = Daemon::start(&[&args[..], &["--qlog", file.to_str().unwrap()]].concat());
    daemon.logs("--qlog ");
    assert_eq!(daemon.end().0, Some(1));
}
