//! The dashboard of real daemons: over HTTP, and in a browser.
#![allow(clippy::unwrap_used, reason = "test code")]

#[path = "../common/mod.rs"]
mod common;
mod dash;
mod page;
mod player;
mod relay;
mod watched;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use common::{Daemon, PATIENCE, dial, echo, failure, reserved, run, weftline};
use relay::Relay;
use serde_json::Value;

/// A server and a client with two paths, the second through a relay that can be cut; each with a
/// dashboard and a control socket, and a transfer that goes on.
struct World {
    dir: tempfile::TempDir,
    _server: Daemon,
    /// `None` only while it is started anew.
    client: Option<Daemon>,
    /// How the client is started.
    args: Vec<String>,
    /// Keeps the port of its dashboard from others while it is started anew.
    _held: socket2::Socket,
    server_url: String,
    client_url: String,
    /// What the second path goes through.
    path: Relay,
    _traffic: Traffic,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
        let target = echo().to_string();
        let (state, control) = (at("state"), at("serve.sock"));
        let args =
            ["serve", "--listen", "127.0.0.1:0", "--forward", &target, "--state-dir", &state];
        let endpoints = ["--control", &control, "--dashboard", "127.0.0.1:0"];
        let mut server = Daemon::start(&[&args[..], &endpoints].concat());
        let fingerprint = server.says("fingerprint");
        let address = server.listening();
        let server_url = server.says("dashboard");

        let path = Relay::to(address);
        let (address, through) = (address.to_string(), path.address().to_string());
        let control = at("connect.sock");
        let args = ["connect", "--server", &address, &through, "--listen", "127.0.0.1:0"];
        // Both carry: a transfer over loopback fills neither.
        let paths = ["--path", "one=127.0.0.1,cap=4Mbps", "two=127.0.0.2,cap=4Mbps"];
        let more = ["--fingerprint", &fingerprint, "--ready", "1", "--control", &control];
        let args: Vec<String> =
            [&args[..], &paths, &more].concat().into_iter().map(str::to_owned).collect();
        let (_held, dashboard) = reserved();
        let (client, client_url, local) = start(&args, &dashboard.to_string());
        let (client, _traffic) = (Some(client), Traffic::start(local));
        Self { dir, _server: server, client, args, _held, server_url, client_url, path, _traffic }
    }

    fn control(&self, name: &str) -> String {
        self.dir.path().join(format!("{name}.sock")).to_str().unwrap().to_owned()
    }

    /// Ends the client and starts another, whose dashboard is in the same place.
    fn restart(&mut self) {
        let Place { address, .. } = Place::of(&self.client_url);
        // It is killed, and waited for.
        self.client = None;
        let (client, url, local) = start(&self.args, &address.to_string());
        self.client = Some(client);
        self.client_url = url;
        self._traffic = Traffic::start(local);
    }
}

/// A client, the address of its dashboard, and where it takes connections.
fn start(args: &[String], dashboard: &str) -> (Daemon, String, SocketAddr) {
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut client = Daemon::start(&[&args[..], &["--dashboard", dashboard]].concat());
    let url = client.says("dashboard");
    let local = client.listening();
    (client, url, local)
}

/// Bytes that go there and come back for as long as this lives.
struct Traffic {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Traffic {
    fn start(local: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut from = TcpStream::connect(local).unwrap();
        let mut to = from.try_clone().unwrap();
        let stopping = Arc::clone(&stop);
        // Either ends when the connection does, whoever ends it.
        let writer = thread::spawn(move || {
            while !stopping.load(Ordering::Relaxed) && to.write_all(&[7; 10_000]).is_ok() {}
            let _ = to.shutdown(std::net::Shutdown::Both);
        });
        let reader =
            thread::spawn(move || while matches!(from.read(&mut [0; 10_000]), Ok(n) if n > 0) {});
        Self { stop, threads: vec![writer, reader] }
    }
}

impl Drop for Traffic {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The writer waits for room until its daemon is gone; nobody waits for it here.
        self.threads.clear();
    }
}

/// A dashboard: where it is, and its token.
struct Place {
    address: SocketAddr,
    token: String,
}

impl Place {
    fn of(url: &str) -> Self {
        let (address, token) = url.strip_prefix("http://").unwrap().split_once("/#k=").unwrap();
        Self { address: address.parse().unwrap(), token: token.to_owned() }
    }

    /// The answer to a request, its head and its body.
    fn ask(&self, head: &str, body: &str) -> (String, String) {
        let mut stream = dial(self.address);
        write!(stream, "{head}\r\nHost: {}\r\n\r\n{body}", self.address).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    }

    /// The cookie of a session, as the page gets it.
    fn cookie(&self) -> String {
        let body = format!("{{\"token\":\"{}\"}}", self.token);
        let head = format!(
            "POST /api/1/session HTTP/1.1\r\nOrigin: http://{}\r\nContent-Length: {}",
            self.address,
            body.len()
        );
        let (head, _) = self.ask(&head, &body);
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        cookie.split(';').next().unwrap().to_owned()
    }

    fn get(&self, path: &str) -> Value {
        let head = format!("GET {path} HTTP/1.1\r\nAuthorization: Bearer {}", self.token);
        let (head, body) = self.ask(&head, "");
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        serde_json::from_str(&body).unwrap()
    }

    /// Begins to watch, as the page does.
    fn watch(&self) -> Watch {
        self.watch_with("")
    }

    /// The same with a query.
    fn watch_with(&self, query: &str) -> Watch {
        let cookie = self.cookie();
        let mut stream = dial(self.address);
        let head = format!("Host: {}\r\nCookie: {cookie}", self.address);
        write!(stream, "GET /api/1/stream{query} HTTP/1.1\r\n{head}\r\n\r\n").unwrap();
        Watch { stream: BufReader::new(stream), names: Value::Null }
    }
}

/// A stream of server-sent events.
struct Watch {
    stream: BufReader<TcpStream>,
    /// The names of a weave's paths, which are told when they change.
    names: Value,
}

impl Watch {
    /// Waits for a message of this kind that is as wanted.
    #[track_caller]
    fn wait(&mut self, kind: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
        let (mut line, mut event) = (String::new(), String::new());
        let mut last = Value::Null;
        let began = Instant::now();
        loop {
            line.clear();
            assert!(self.stream.read_line(&mut line).unwrap() > 0, "the stream has ended");
            // Other messages come for as long as the daemon runs.
            assert!(began.elapsed() < PATIENCE, "no {kind} is as wanted: {last}");
            // Chunks have their sizes between the lines, which begin like none of ours.
            if let Some(name) = line.trim_end().strip_prefix("event: ") {
                name.clone_into(&mut event);
            } else if let Some(data) = line.trim_end().strip_prefix("data: ") {
                let mut data: Value = serde_json::from_str(data).unwrap();
                if event == "weave" {
                    match data["names"].is_null() {
                        true => data["names"] = self.names.clone(),
                        false => self.names = data["names"].clone(),
                    }
                }
                if event == kind {
                    if is_wanted(&data) {
                        return data;
                    }
                    last = data;
                }
            }
        }
    }

    /// Waits for a sample in which a path is in this state and, if it is up, carries.
    #[track_caller]
    fn wait_for_path(&mut self, name: &str, state: &str) {
        self.wait("sample", |sample| {
            let mut paths = sample["paths"].as_array().unwrap().iter();
            paths.any(|path| {
                let carries = path[2].as_f64().unwrap_or(0.0) > 0.0;
                path[0] == name && path[1] == state && (state != "up" || carries)
            })
        });
    }
}

#[test]
fn a_path_that_dies_and_returns_is_seen_at_both_ends() {
    let world = World::new();
    let (client, server) = (Place::of(&world.client_url), Place::of(&world.server_url));
    let (mut at_client, mut at_server) = (client.watch(), server.watch());
    at_client.wait("hello", |hello| hello["resumed"] == false);
    for watch in [&mut at_client, &mut at_server] {
        watch.wait_for_path("one", "up");
        watch.wait_for_path("two", "up");
    }
    world.path.cut();
    let down = |event: &Value| event["name"] == "path_down" && event["path"] == "two";
    for watch in [&mut at_client, &mut at_server] {
        let event = watch.wait("event", down);
        assert!(event["text"].as_str().unwrap().starts_with("path two lost its subflow at"));
        assert_eq!(event["level"], "error");
    }
    // It tries to come back while that cannot be.
    at_client.wait("event", |event| event["name"] == "path_attempt_failed");
    for watch in [&mut at_client, &mut at_server] {
        watch.wait_for_path("two", "down");
        watch.wait_for_path("one", "up");
    }
    world.path.restore();
    let back = |event: &Value| {
        event["name"] == "path_up" && event["path"] == "two" && event["level"] == "good"
    };
    for watch in [&mut at_client, &mut at_server] {
        watch.wait("event", back);
        watch.wait_for_path("two", "up");
    }

    // A link in which packets vanish ends nothing, and nothing gets through it.
    world.path.block();
    at_client.wait("event", |event| event["name"] == "path_silent" && event["path"] == "two");
    at_client.wait_for_path("two", "silent");
    at_client.wait_for_path("one", "up");
    world.path.restore();
    at_client.wait_for_path("two", "up");

    // Whoever opens the page now sees all of it.
    for place in [&client, &server] {
        let history = place.get("/api/1/history");
        let paths = history["paths"].as_array().unwrap();
        assert_eq!(paths.len(), 2, "{history}");
        let two = paths.iter().find(|path| path["name"] == "two").unwrap();
        let states = two["state"].as_array().unwrap();
        for state in ["up", "down"] {
            assert!(states.iter().any(|one| one == state), "{state}: {two}");
        }
        assert_eq!(states.len(), history["t"].as_array().unwrap().len());
        assert!(two["srtt"].as_array().unwrap().iter().any(Value::is_number), "{two}");
        let used = history["used"].as_array().unwrap().last().unwrap();
        assert!(used.as_u64().unwrap() >= 1, "{history}");
        let conns = history["conns"].as_array().unwrap();
        assert!(conns.iter().any(|row| row[0][1].as_f64().is_some_and(|rate| rate > 0.0)));
        assert!(history["events"].as_array().unwrap().iter().any(down), "{history}");
    }
    // The client says why it could not come back.
    let history = client.get("/api/1/history");
    let mut events = history["events"].as_array().unwrap().iter();
    assert!(events.any(|event| event["name"] == "path_attempt_failed"), "{history}");
}

/// Rows of a weave's direction with the parts of each, `[offset, length, first, last, path, flags]`.
fn parts<'a>(weave: &'a Value, direction: &str) -> Vec<&'a Vec<Value>> {
    let rows = weave[direction]["rows"].as_array();
    rows.into_iter().flatten().map(|row| row[3].as_array().unwrap()).collect()
}

/// The number that a weave has for a path.
fn path_of(weave: &Value, name: &str) -> Option<u64> {
    let names = weave["names"].as_object()?;
    names.iter().find(|(_, one)| *one == name)?.0.parse().ok()
}

/// Whether a row has parts of both paths.
fn has_both(weave: &Value, direction: &str) -> bool {
    let numbers = ["one", "two"].map(|name| path_of(weave, name));
    let has = |row: &Vec<Value>, path| row.iter().any(|part| part[4].as_u64() == path);
    numbers.iter().all(Option::is_some)
        && parts(weave, direction).iter().any(|row| numbers.iter().all(|path| has(row, *path)))
}

#[test]
fn the_weave_of_a_connection_shows_a_path_that_is_blocked() {
    // A copy, or sent again.
    const SECOND: u64 = 2 | 4;
    let world = World::new();
    let (client, server) = (Place::of(&world.client_url), Place::of(&world.server_url));
    // The server has a connection to the service later than the client has one to the server.
    let used = |place: &Place| {
        let began = Instant::now();
        loop {
            let status = place.get("/api/1/status");
            let mut all = status["connections"].as_array().unwrap().iter();
            let number = all.find(|one| one["label"].is_string()).map(|one| &one["number"]);
            if let Some(number) = number.and_then(Value::as_u64) {
                return number;
            }
            assert!(began.elapsed() < PATIENCE, "{status}");
        }
    };
    let mut plain = client.watch();
    plain.wait_for_path("two", "up");
    let [at_client, at_server] = [&client, &server].map(used);
    let mut sent = client.watch_with(&format!("?weave={at_client}"));
    let mut received = server.watch_with(&format!("?weave={at_server}"));
    sent.wait("weave", |weave| has_both(weave, "sent"));
    received.wait("weave", |weave| has_both(weave, "received"));
    // The echo comes back.
    received.wait("weave", |weave| !parts(weave, "sent").is_empty());

    // The other path sends again what the blocked one has, as copies or in its place. Whether the reader
    // came to wait for it is a matter of luck.
    world.path.block();
    sent.wait("weave", |weave| {
        let one = path_of(weave, "one");
        let mut all = parts(weave, "sent").into_iter().flatten();
        all.any(|part| {
            part[4].as_u64() == one && part[5].as_u64().is_some_and(|flags| flags & SECOND != 0)
        })
    });
    world.path.restore();
    sent.wait("weave", |weave| has_both(weave, "sent"));

    // One that does not exist is over, and one who does not ask hears nothing of it.
    let over = client.watch_with("?weave=123456").wait("weave", |_| true);
    assert_eq!((&over["over"], &over["connection"]), (&true.into(), &123456.into()));
    drop((sent, received));
    plain.wait_for_path("two", "up");
}

#[test]
fn the_status_is_the_control_sockets_and_so_is_the_address() {
    let world = World::new();
    for (name, url) in [("connect", &world.client_url), ("serve", &world.server_url)] {
        let control = world.control(name);
        let output = run(&["status", "--control", &control, "--url"]);
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
        assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("{url}\n"));

        // There is no connection yet when a daemon has just begun.
        let (place, began) = (Place::of(url), Instant::now());
        let status = loop {
            let status = place.get("/api/1/status");
            if status["connections"][0].is_object() {
                break status;
            }
            assert!(began.elapsed() < PATIENCE, "{status}");
        };
        let output = run(&["status", "--control", &control, "--json"]);
        let other: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&status["daemon"], &status["pid"]), (&name.into(), &other["pid"]));
        let names = |value: &Value| -> Vec<String> {
            let mut names: Vec<_> = value.as_object().unwrap().keys().cloned().collect();
            names.sort();
            names
        };
        assert_eq!(names(&status), names(&other));
        assert_eq!(names(&status["connections"][0]), names(&other["connections"][0]));
        let few = place.get("/api/1/status?connections=0");
        assert!(few["connections"].as_array().unwrap().is_empty(), "{few}");

        // Nothing without the token, though all of this is loopback.
        let (head, body) = place.ask("GET /api/1/status HTTP/1.1", "");
        assert!(head.starts_with("HTTP/1.1 401") && body.contains("status --url"), "{head}");
        let (head, page) = place.ask("GET / HTTP/1.1", "");
        assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
        assert!(page.contains("/a/dashboard.js"), "{page}");
    }
}

const SERVE: [&str; 6] =
    ["serve", "--insecure-plaintext", "--listen", "127.0.0.1:0", "--forward", "127.0.0.1:1"];

#[test]
fn what_no_dashboard_can_have_is_refused_in_words() {
    let refused = |more: &[&str]| failure(2, &[&SERVE[..], more].concat());
    let line = refused(&["--dashboard", "0.0.0.0:0"]);
    assert!(line.contains("no TLS yet") && line.contains("--behind-proxy NAME"), "{line}");
    let line = refused(&["--behind-proxy", "weft.example"]);
    assert!(line.contains("--behind-proxy is for --dashboard, which is not given"), "{line}");
    let line = refused(&["--dashboard", "127.0.0.1:0", "--behind-proxy", "https://weft.example"]);
    assert!(line.contains("is no host's name; give the name"), "{line}");
    let tiles = ["vr", "serve", "nowhere", "--listen", "127.0.0.1:0", "--insecure-plaintext"];
    let wanted = ["--transport", "tcp", "--dashboard", "127.0.0.1:0"];
    let line = failure(2, &[&tiles[..], &wanted].concat());
    assert!(line.contains("--transport tcp has none; leave out one of them"), "{line}");
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = held.local_addr().unwrap().to_string();
    let args = [&SERVE[..], &["--control", "none", "--dashboard", &taken]].concat();
    let line = failure(1, &args);
    assert!(line.contains(&format!("--dashboard {taken}")) && line.contains("another port"));
}

#[test]
fn it_is_a_key_of_the_configuration_and_a_proxys_name_is_answered() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let (config, control) = (at("serve.toml"), at("serve.sock"));
    let keys = "dashboard = \"127.0.0.1:0\"\nbehind-proxy = \"weft.example\"\n";
    std::fs::write(&config, keys).unwrap();
    let args = [&SERVE[..], &["--config", &config, "--control", &control]].concat();
    let mut server = Daemon::start(&args);
    server.listening();
    let url = server.says("dashboard");
    assert!(url.starts_with("https://weft.example/#k="), "{url}");
    server.signal("-TERM");
    assert_eq!(server.end().0, Some(0));

    // Without one the daemon says so.
    let mut server = Daemon::spawn(&mut weftline(&[&SERVE[..], &["--control", &control]].concat()));
    server.listening();
    server.logs("warning");
    // The socket is made after that, and a moment later it is listened at.
    let began = Instant::now();
    loop {
        let line = failure(1, &["status", "--control", &control, "--url"]);
        if line.contains("it has no dashboard; start it with --dashboard") {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{line}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// An access point alone, whose gateway does not answer: its links are there, and down.
#[test]
fn a_node_of_a_coded_tunnel_shows_its_links() {
    let dir = tempfile::tempdir().unwrap();
    let [key, other, device] = ["ap.key", "gateway.key", "device.key"]
        .map(|name| dir.path().join(name).to_str().unwrap().to_owned());
    let public = |file: &str| {
        let output = run(&["cotag", "key", file]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    public(&key);
    let [other, device] = [other, device].map(|file| public(&file));
    let gateway = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let gateway = gateway.local_addr().unwrap().to_string();
    let args = ["cotag", "ap", "--key", &key, "--gateway", &gateway, "--gateway-key", &other];
    let more = ["--listen", "127.0.0.1:0", "--device-key", &device, "--dashboard", "127.0.0.1:0"];
    let mut node = Daemon::start(&[&args[..], &more].concat());
    node.listening();
    let place = Place::of(&node.says("dashboard"));
    let sample = place.watch().wait("sample", |sample| !sample["paths"][0].is_null());
    let paths = sample["paths"].as_array().unwrap();
    assert!(paths.iter().all(|path| path[1] == "down"), "{sample}");
    assert!(paths.iter().any(|path| path[0] == "gateway"), "{sample}");
    let status = place.get("/api/1/status");
    assert_eq!((&status["daemon"], &status["connections_open"]), (&"cotag ap".into(), &0.into()));
    node.signal("-TERM");
    assert_eq!(node.end().0, Some(0));
}
