//! `weftline doctor` before set-ups that are broken: it names the cause in each, and none in those that
//! are not.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, date_time_ymd};
use serde_json::Value;

use common::pair::{Pair, SERVER};
use common::{Daemon, PATIENCE, echo, refusing, reserved, run, run_alone, weftline};

const PLAIN: &str = "--insecure-plaintext";
/// A fingerprint that no server has.
const NOBODY: &str = "sha256:0000000000000000000000000000000000000000000000000000000000000000";

/// What the doctor found.
struct Report {
    status: Option<i32>,
    findings: Vec<Value>,
    text: String,
}

impl Report {
    fn of(command: &mut Command) -> Self {
        let output = run_alone(command.arg("--json"));
        let text = String::from_utf8(output.stdout).unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        let whole: Value =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}{errors}"));
        let findings = whole["findings"].as_array().unwrap().clone();
        let count = |level: &str| findings.iter().filter(|one| one["level"] == level).count();
        assert_eq!(whole["errors"], count("error"), "{text}");
        assert_eq!(whole["warnings"], count("warning"), "{text}");
        Self { status: output.status.code(), findings, text }
    }

    /// The checks of this level; congestion controls are the machine's affair.
    fn checks(&self, level: &str) -> Vec<&str> {
        let found = self.findings.iter().filter(|one| one["level"] == level);
        let all = found.map(|one| one["check"].as_str().unwrap());
        all.filter(|check| *check != "congestion").collect()
    }

    /// It names this cause and no other, and says what to do. Returns what it says.
    #[track_caller]
    fn names(&self, level: &str, check: &str) -> String {
        assert_eq!(self.checks(level), [check], "{}", self.text);
        assert_eq!(self.status, Some(i32::from(level == "error")), "{}", self.text);
        let mut all = self.findings.iter();
        let finding = all.find(|one| one["level"] == level && one["check"] == check).unwrap();
        let part = |name: &str| finding[name].as_str().unwrap().to_owned();
        assert!(part("remedy").len() > 10, "{}", self.text);
        part("subject") + ": " + &part("found") + " → " + &part("remedy")
    }

    #[track_caller]
    fn is_well(&self) {
        assert_eq!(self.status, Some(0), "{}", self.text);
        assert!(self.checks("error").is_empty(), "{}", self.text);
    }
}

/// Looks again while this machine took too long for the doctor's patience of some seconds.
#[track_caller]
fn in_time(look: impl Fn() -> Report) -> Report {
    let began = Instant::now();
    loop {
        let report = look();
        let late = ["did not finish the handshake within", "timed out", "do not arrive"];
        let is_late = |one: &Value| late.iter().any(|why| one["found"].to_string().contains(why));
        if !report.findings.iter().any(is_late) {
            return report;
        }
        assert!(began.elapsed() < PATIENCE, "{}", report.text);
    }
}

#[track_caller]
fn doctor(args: &[&str]) -> Report {
    in_time(|| Report::of(&mut weftline(&[&["doctor"], args].concat())))
}

/// A client with two paths on loopback.
#[track_caller]
fn client(server: SocketAddr, args: &[&str]) -> Report {
    let server = server.to_string();
    let paths = ["connect", "--server", &server, "--path", "one=127.0.0.1", "two=127.0.0.2"];
    doctor(&[&paths, args].concat())
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let file = dir.join(name);
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file.to_str().unwrap().to_owned()
}

/// A server on loopback, with the fingerprint if it has one.
fn serve(state: &Path, args: &[&str]) -> (Daemon, SocketAddr, String) {
    serve_for(&["--forward", "127.0.0.1:1"], state, args)
}

/// A server on loopback that does this for its clients, with the fingerprint if it has one.
fn serve_for(what: &[&str], state: &Path, args: &[&str]) -> (Daemon, SocketAddr, String) {
    let state = state.to_str().unwrap();
    let start = ["serve", "--listen", "127.0.0.1:0"];
    let all = [&start[..], what, &["--state-dir", state, "--control", "none"], args].concat();
    let mut server = Daemon::start(&all);
    let fingerprint = server.says("fingerprint");
    let address = server.listening();
    (server, address, fingerprint)
}

/// A service that says this to everybody who comes.
fn speaking(words: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(words);
            thread::spawn(move || stream.read_to_end(&mut Vec::new()));
        }
    });
    address
}

#[test]
fn ends_that_fit_are_well() {
    let state = tempfile::tempdir().unwrap();
    let token = write(state.path(), "token", "a secret of more than 16\n");
    let (_server, address, fingerprint) = serve(state.path(), &["--token-file", &token]);
    let trust = ["--fingerprint", &fingerprint, "--token-file", &token];
    let report = client(address, &trust);
    report.is_well();
    assert_eq!(report.text.matches("accepts this client").count(), 2, "{}", report.text);

    let dir = state.path().to_str().unwrap();
    let service = echo().to_string();
    let there = ["serve", "--listen", "127.0.0.1:0", "--state-dir", dir, "--forward", &service];
    let report = doctor(&[&there[..], &["--token-file", &token]].concat());
    report.is_well();
    assert!(report.text.contains(&fingerprint), "{}", report.text);

    // What has not been started yet makes its certificate at first start, and the doctor makes none.
    let fresh = state.path().join("fresh");
    let there = ["serve", "--listen", "127.0.0.1:0", "--forward", &service, "--state-dir"];
    doctor(&[&there[..], &[fresh.to_str().unwrap()]].concat()).is_well();
    assert!(!fresh.exists());
}

#[test]
fn people_read_lines_and_what_to_do() {
    let (_held, address) = refusing();
    let server = address.to_string();
    let args = ["doctor", "connect", "--server", &server, "--path", "one=127.0.0.1", PLAIN];
    let output = run(&args);
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("ERROR    server 127.0.0.1:")).unwrap();
    assert!(lines[at].ends_with(" [port]"), "{text}");
    assert!(lines[at + 1].starts_with("         → no weftline server listens at"), "{text}");
    assert!(lines.last().unwrap().starts_with("1 error, "), "{text}");
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.starts_with("weftline: 1 thing is wrong"), "{errors}");
}

#[test]
fn a_wrong_token() {
    let state = tempfile::tempdir().unwrap();
    let right = write(state.path(), "right", "a secret of more than 16\n");
    let wrong = write(state.path(), "wrong", "another one of more than 16\n");
    let (_server, address, fingerprint) = serve(state.path(), &["--token-file", &right]);
    let trust = ["--fingerprint", &fingerprint];
    let said = client(address, &[&trust[..], &["--token-file", &wrong]].concat());
    let said = said.names("error", "token");
    assert!(said.contains("the same secret into the token files of both ends"), "{said}");
    client(address, &trust).names("error", "token");
}

#[test]
fn a_wrong_port() {
    let (_held, address) = refusing();
    let said = client(address, &[PLAIN]).names("error", "port");
    assert!(said.contains(&format!("server {address}: refuses connections")), "{said}");
    // Something else listens there.
    let other = speaking(b"SSH-2.0-OpenSSH_9.2\r\n");
    let said = client(other, &["--fingerprint", NOBODY]).names("error", "port");
    assert!(said.contains("no weftline server listens at"), "{said}");
}

/// Each path is tried to its own server, also when the one before it is not there.
#[test]
fn a_path_that_is_not_there_leaves_the_others_their_servers() {
    let ((_a, first), (_b, second)) = (refusing(), refusing());
    let (first, second) = (first.to_string(), second.to_string());
    let client = ["connect", "--server", &first, "--listen", "127.0.0.1:0", PLAIN];
    let servers = ["connect", "--server", &first, &second, "--listen", "127.0.0.1:0", PLAIN];
    let report = doctor(&[&servers[..], &["--path", "wifi=nosuch0", "lo=127.0.0.1"]].concat());
    assert!(report.text.contains(&second) && !report.text.contains(&first), "{}", report.text);
    // A modem comes later; alone it has to be there.
    let is_absent = |one: &Value| one["level"] == "warning" && one["check"] == "link";
    assert!(
        report.findings.iter().any(is_absent) && report.text.contains("a modem that comes later")
    );
    let alone = doctor(&[&client[..], &["--path", "wifi=nosuch0"]].concat());
    assert!(alone.names("error", "link").contains("nosuch0"), "{}", alone.text);
    let paths = ["--path", "one=127.0.0.1", "two=127.0.0.2", "three=127.0.0.3"];
    let report = doctor(&[&servers[..], &paths].concat());
    let said = report.names("error", "configuration");
    assert!(said.contains("2 server addresses for 3 paths"), "{said}");
}

#[test]
fn another_version() {
    // The preamble of protocol 9.2.
    let said = client(speaking(b"WEFT\x09\x02"), &[PLAIN]).names("error", "version");
    assert!(said.contains("protocol 9.2, this side 2.x"), "{said}");
}

#[test]
fn a_port_that_is_taken() {
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().to_str().unwrap();
    let (taken, service) = (TcpListener::bind("127.0.0.1:0").unwrap(), echo().to_string());
    let address = taken.local_addr().unwrap().to_string();
    let rest = ["--forward", &service, "--state-dir", dir];
    let said = doctor(&[&["serve", "--listen", &address][..], &rest].concat());
    let said = said.names("error", "port-taken");
    assert!(said.contains(&format!("process {}", std::process::id())), "{said}");

    // Of our own daemon nothing is wrong.
    let (_server, address, _) = serve(state.path(), &[]);
    let address = address.to_string();
    let report = doctor(&[&["serve", "--listen", &address][..], &rest].concat());
    report.is_well();
    assert!(report.text.contains("a 'weftline serve' has it"), "{}", report.text);
}

#[test]
fn places_that_connect_would_refuse() {
    let state = tempfile::tempdir().unwrap();
    let service = echo().to_string();
    let (_server, address, fingerprint) = serve_for(&["--forward", &service], state.path(), &[]);
    let file = |forwards: &str| {
        let config = format!("fingerprint = '{fingerprint}'\n{forwards}");
        write(state.path(), "connect.toml", &config)
    };
    let one = "[[forwards]]\nlisten = '127.0.0.1:0'\n";
    client(address, &["--config", &file(one)]).is_well();
    for (forwards, words) in [
        (format!("{one}{one}"), "is listed twice"),
        (format!("{one}ready = 1000\n"), "--ready: at most"),
        (format!("{one}socks = '127.0.0.1:0'\n"), "exclude each other"),
        (format!("socks-users = '/nowhere'\n{one}"), "/nowhere"),
    ] {
        let report = client(address, &["--config", &file(&forwards)]);
        assert!(report.text.contains(words), "{words}: {}", report.text);
        assert_eq!(report.status, Some(1), "{}", report.text);
    }
}

#[test]
fn certificates_that_are_none() {
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().to_str().unwrap();
    let service = echo().to_string();
    let server = ["serve", "--listen", "127.0.0.1:0", "--forward", &service, "--state-dir", dir];
    drop(serve(state.path(), &[]));
    let authorities = write(state.path(), "ca.pem", "nothing of use");
    let said = doctor(&[&server[..], &["--client-ca", &authorities]].concat());
    let said = said.names("error", "certificate");
    assert!(said.contains("give --client-ca certificates of authorities"), "{said}");
    // Before there is a certificate of its own, too.
    fs::remove_file(state.path().join("identity.pem")).unwrap();
    let said = doctor(&[&server[..], &["--client-ca", &authorities]].concat());
    said.names("error", "certificate");
    write(state.path(), "identity.pem", "nothing of use");
    let said = doctor(&server).names("error", "certificate");
    assert!(said.contains("move identity.pem in"), "{said}");
}

/// A certificate for these years and its key, as files.
fn dated(dir: &Path, from: i32, to: i32) -> [String; 2] {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    (params.not_before, params.not_after) = (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
    let cert = params.self_signed(&key).unwrap().pem();
    [write(dir, "dated.pem", &cert), write(dir, "dated-key.pem", &key.serialize_pem())]
}

#[test]
fn certificates_whose_time_is_over_or_has_not_come() {
    let state = tempfile::tempdir().unwrap();
    let service = echo().to_string();
    for (years, words) in [((1990, 2000), "expired on 2000-01-01"), ((2900, 3000), "from 2900-")] {
        let [cert, key] = dated(state.path(), years.0, years.1);
        let listen = ["serve", "--listen", "127.0.0.1:0", "--forward", &service];
        let own = ["--cert", &cert, "--key", &key];
        let said = doctor(&[&listen[..], &own].concat()).names("error", "certificate");
        assert!(said.contains(words), "{said}");

        // The daemon says so, too, and goes on: who pins the fingerprint does not mind.
        let what = ["--forward", &service];
        let (server, address, fingerprint) = serve_for(&what, state.path(), &own);
        client(address, &["--fingerprint", &fingerprint]).is_well();
        server.logs(words);

        let (_server, address, fingerprint) = serve_for(&what, state.path(), &[]);
        let trust = ["--fingerprint", &fingerprint];
        let said = client(address, &[&trust[..], &own].concat()).names("error", "certificate");
        assert!(said.contains(words), "{said}");
    }
}

#[test]
fn ends_that_mean_different_things() {
    let state = tempfile::tempdir().unwrap();
    let token = write(state.path(), "token", "a secret of more than 16\n");
    let (service, (_nobody, dead)) = (echo().to_string(), refusing());
    let dead = dead.to_string();
    let (forward, broken) = (["--forward", &service], ["--forward", &dead]);
    let (listen, socks) = (["--listen", "127.0.0.1:0"], ["--socks", "127.0.0.1:0"]);
    for (server, client_has, words) in [
        (&forward[..], listen, None),
        (&forward, socks, Some("one target only")),
        (&["--socks"], socks, None),
        (&["--socks"], listen, Some("wants to be told where to connect")),
        (&["--internet"], listen, Some("carries whole machines")),
        (&broken, listen, Some("cannot reach the forward target")),
    ] {
        let (_server, address, fingerprint) =
            serve_for(server, state.path(), &["--token-file", &token]);
        let trust = ["--fingerprint", &fingerprint, "--token-file", &token];
        let report = client(address, &[&trust[..], &client_has].concat());
        match words {
            None => report.is_well(),
            Some(words) => {
                let said = report.names("error", "forward");
                assert!(said.contains(words), "{said}");
            }
        }
    }
}

#[test]
fn places_for_files_that_cannot_be() {
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().to_str().unwrap();
    let service = echo().to_string();
    let file = write(state.path(), "file", "");
    let server = ["serve", "--listen", "127.0.0.1:0", "--forward", &service];
    let below = format!("{file}/below");
    for (option, place) in [
        ("--qlog", file.as_str()),
        ("--control", &below),
        ("--control", &file),
        ("--state-dir", &below),
    ] {
        let state_dir = ["--state-dir", dir];
        let rest = if option == "--state-dir" { &[] } else { &state_dir[..] };
        let report = doctor(&[&server[..], rest, &[option, place]].concat());
        assert_eq!(report.status, Some(1), "{option} {place}: {}", report.text);
        assert!(report.text.contains(place.trim_end_matches("/below")), "{}", report.text);
    }
}

#[test]
fn secrets_that_are_none_or_have_no_name() {
    use std::os::unix::fs::PermissionsExt as _;
    let state = tempfile::tempdir().unwrap();
    let service = echo().to_string();
    let what = ["--forward", &service];
    drop(serve_for(&what, state.path(), &[]));
    let key = state.path().join("identity.pem");
    let dir = state.path().to_str().unwrap();
    let server = ["serve", "--listen", "127.0.0.1:0", "--forward", &service, "--state-dir", dir];
    doctor(&server).is_well();
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let said = doctor(&server).names("warning", "permission");
    assert!(said.contains("identity.pem") && said.contains("chmod 600"), "{said}");
    let (server_that_runs, ..) = serve_for(&what, state.path(), &[]);
    server_that_runs.logs("others can read the secret in");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();

    let tokens =
        write(state.path(), "tokens", "# two\nanna: 0123456789abcdef\nb\u{fc}ro: fedcba987654\n");
    let with_tokens = [&server[..], &["--token-file", &tokens]].concat();
    let said = doctor(&with_tokens).names("warning", "token");
    assert!(said.contains("line 3: what stands before the colon is no client's name"), "{said}");
    write(state.path(), "tokens", "anna: 0123456789abcdef\nbuero: fedcba9876543210\n");
    let report = doctor(&with_tokens);
    report.is_well();
    assert!(report.text.contains("2 clients: anna, buero"), "{}", report.text);
}

#[test]
fn what_cannot_be_meant_is_a_finding_also_for_programs() {
    let state = tempfile::tempdir().unwrap();
    let dir = state.path().to_str().unwrap();
    let began = Instant::now();
    let report = loop {
        let (_held, address) = reserved();
        let (every, own) = (format!("0.0.0.0:{}", address.port()), address.to_string());
        let itself = ["serve", "--listen", &every, "--forward", &own];
        let report = doctor(&[&itself[..], &["--state-dir", dir]].concat());
        // Another program's connection may have that port of another address just now.
        if !report.checks("error").contains(&"port-taken") || began.elapsed() > PATIENCE {
            break report;
        }
    };
    let said = report.names("error", "configuration");
    assert!(said.contains("is this server itself"), "{said}");
    let config = write(state.path(), "bad.toml", "listen = 7\n");
    let report = doctor(&["serve", "--config", &config]);
    assert_eq!((report.status, report.checks("error")), (Some(2), vec!["configuration"]));
}

#[test]
fn the_servers_certificate_has_changed() {
    let state = tempfile::tempdir().unwrap();
    let (_server, address, fingerprint) = serve(state.path(), &[]);
    let said = client(address, &["--fingerprint", NOBODY]).names("error", "certificate");
    assert!(said.contains(&fingerprint) && said.contains("set up anew"), "{said}");
}

#[test]
fn the_clock_is_off() {
    let state = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = write(state.path(), "ca.pem", &params.self_signed(&key).unwrap().pem());
    let issuer = Issuer::new(params, key);
    for (from, to, remedy) in [
        (2900, 3000, "this clock is behind"),
        (1990, 2000, "the certificate has to be renewed at the server, or this clock is ahead"),
    ] {
        let own = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        (params.not_before, params.not_after) =
            (date_time_ymd(from, 1, 1), date_time_ymd(to, 1, 1));
        let cert = params.signed_by(&own, &issuer).unwrap().pem();
        let cert = write(state.path(), "cert.pem", &cert);
        let own = write(state.path(), "key.pem", &own.serialize_pem());
        let listen = ["serve", "--listen", "127.0.0.1:0", "--forward", "127.0.0.1:1"];
        let files = ["--cert", &cert, "--key", &own, "--control", "none"];
        let mut server = Daemon::start(&[&listen[..], &files].concat());
        server.says("fingerprint");
        let said = client(server.listening(), &["--ca", &ca]).names("error", "clock");
        assert!(said.contains(remedy), "{said}");
    }
}

/// Where there is no root, there are no namespaces; in CI there is.
fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    assert!(root || std::env::var_os("CI").is_none(), "in CI it runs as root");
    root
}

/// A client and a server of two links, the server running.
struct Machines {
    pair: Pair,
    state: tempfile::TempDir,
    fingerprint: String,
    _server: Daemon,
}

impl Machines {
    fn set_up() -> Self {
        Self::set_up_for("127.0.0.1:1")
    }

    /// With this behind the server.
    fn set_up_for(service: &str) -> Self {
        let (pair, state) = (Pair::set_up(), tempfile::tempdir().unwrap());
        let dir = state.path().to_str().unwrap();
        let listen = format!("{SERVER}:4433");
        let args = ["serve", "--listen", &listen, "--forward", service, "--state-dir", dir];
        let mut server = Daemon::spawn(&mut on(&pair, "server", &[], &args));
        let fingerprint = server.says("fingerprint");
        server.listening();
        Self { pair, state, fingerprint, _server: server }
    }

    /// The server takes 750 bytes on the second link and says nothing of it; each packet is one on the
    /// wire.
    fn swallow_large_packets(&self) {
        self.pair.ip("server", "link set wwan0 mtu 750");
        self.pair.ip("server", "route change 10.64.3.8/30 dev wwan0 src 10.64.3.10 advmss 1460");
        self.pair.ip("client", "link set wwan0 gso_max_segs 1");
    }

    fn client(&self) -> Report {
        let server = format!("{SERVER}:4433");
        let args = ["doctor", "connect", "--server", &server, "--path", "wifi=wlan0", "lte=wwan0"];
        let args = [&args[..], &["--fingerprint", &self.fingerprint]].concat();
        Report::of(&mut on(&self.pair, "client", &[], &args))
    }
}

/// The program on a machine, started by `through`.
fn on(pair: &Pair, machine: &str, through: &[&str], args: &[&str]) -> Command {
    let plain = weftline(args);
    let program = plain.get_program().to_str().unwrap();
    let words = [through, &[program]].concat();
    let mut command = pair.namespace(machine).command(words[0]);
    command.args(&words[1..]).args(args);
    command.env_remove("RUST_LOG").env("RUNTIME_DIRECTORY", env!("CARGO_TARGET_TMPDIR"));
    command.args(if args[0] == "serve" { &["--control", "none"][..] } else { &[] });
    command
}

#[test]
fn two_links_that_work_are_well() {
    if !is_root() {
        return;
    }
    let machines = Machines::set_up();
    let report = in_time(|| machines.client());
    report.is_well();
    assert_eq!(report.text.matches("packets of 1500 bytes").count(), 2, "{}", report.text);
}

#[test]
fn a_link_that_is_blocked() {
    if !is_root() {
        return;
    }
    let machines = Machines::set_up();
    machines.pair.ip("server", "route add blackhole 10.64.3.9/32");
    let report = machines.client();
    let said = report.names("error", "blocked");
    assert!(said.starts_with("path lte: ") && said.contains("answers on another path"), "{said}");
    assert!(report.text.contains("accepts this client through wlan0"), "{}", report.text);
}

#[test]
fn half_the_usual_packets() {
    if !is_root() {
        return;
    }
    let machines = Machines::set_up();
    for machine in ["client", "server"] {
        machines.pair.ip(machine, "link set wwan0 mtu 750");
    }
    let said = in_time(|| machines.client()).names("warning", "mtu");
    assert!(said.starts_with("path lte: packets have 750 bytes at most"), "{said}");
}

#[test]
fn packets_of_full_size_vanish() {
    if !is_root() {
        return;
    }
    let machines = Machines::set_up();
    machines.swallow_large_packets();
    let said = machines.client().names("error", "mtu");
    assert!(said.starts_with("path lte: packets of 1500 bytes do not arrive"), "{said}");
}

#[test]
fn a_path_on_which_nothing_gets_through_is_in_the_daemons_log() {
    if !is_root() {
        return;
    }
    let machines = Machines::set_up_for("127.0.0.1:8081");
    machines.swallow_large_packets();
    // What is sent all the time, here for ten seconds, costs processor time.
    machines.pair.limit("client", "wlan0", 20);
    let taker = machines.pair.server.run(|| TcpListener::bind("127.0.0.1:8081")).unwrap();
    thread::spawn(move || {
        let (mut stream, _) = taker.accept().unwrap();
        std::io::copy(&mut stream, &mut std::io::sink())
    });
    let server = format!("{SERVER}:4433");
    let start = ["connect", "--server", &server, "--path", "wifi=wlan0", "lte=wwan0"];
    let trust = ["--fingerprint", &machines.fingerprint, "--listen", "127.0.0.1:0"];
    let args = [&start[..], &trust, &["--control", "none"]].concat();
    let mut client = Daemon::spawn(&mut on(&machines.pair, "client", &[], &args));
    let local = client.listening();
    client.logs("path lte: subflow");
    let mut upload = machines.pair.client.run(|| TcpStream::connect(local)).unwrap();
    // Without end: until the daemon is gone.
    thread::spawn(move || while upload.write_all(&[0; 1 << 16]).is_ok() {});
    client.logs("path lte: nothing gets through for 10 s, while other paths carry");
}

#[test]
fn no_route_on_one_link() {
    if !is_root() {
        return;
    }
    let machines = Machines::set_up();
    machines.pair.ip("client", "route del default dev wwan0");
    // The server is behind its addresses on the links, and does not answer for the one behind them.
    let ignore = "echo 1 > /proc/sys/net/ipv4/conf/all/arp_ignore";
    let mut shell = machines.pair.server.command("sh");
    assert!(shell.args(["-c", ignore]).status().unwrap().success());
    let said = machines.client().names("error", "route");
    assert!(said.starts_with("path lte: ") && said.contains("route add default"), "{said}");
}

#[test]
fn a_link_that_is_down() {
    if !is_root() {
        return;
    }
    let machines = Machines::set_up();
    machines.pair.ip("client", "link set wwan0 down");
    let said = in_time(|| machines.client()).names("error", "link");
    assert!(said.contains("wwan0 is down or has no carrier"), "{said}");
}

#[test]
fn a_permission_that_is_missing() {
    if !is_root() {
        return;
    }
    let machines = Machines::set_up();
    let dir = machines.state.path();
    let token = write(dir, "token", "a secret of more than 16\n");
    // Root, but for what is needed here.
    let without = "-net_bind_service,-dac_override,-dac_read_search";
    let without = ["setpriv", "--bounding-set", without];
    let look = |listen: &str| {
        let args = ["doctor", "serve", "--listen", listen, "--socks", "--token-file", &token];
        let args = [&args[..], &["--state-dir", dir.to_str().unwrap()]].concat();
        Report::of(&mut on(&machines.pair, "server", &without, &args))
    };
    look("0.0.0.0:4434").is_well();
    let said = look("0.0.0.0:443").names("error", "permission");
    assert!(said.contains("CAP_NET_BIND_SERVICE"), "{said}");
    // Somebody else's.
    std::os::unix::fs::chown(&token, Some(12345), None).unwrap();
    let said = look("0.0.0.0:4434").names("error", "permission");
    assert!(said.contains("token file") && said.contains("chown"), "{said}");
}
