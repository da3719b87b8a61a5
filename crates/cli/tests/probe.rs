//! `weftline probe` through the built program, over loopback.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::net::UdpSocket;
use std::thread;
use std::time::{Duration, Instant};

use common::{Daemon, PATIENCE, failure, run, weftline};
use weftline_judged::verdict;
use weftline_scenario::{RateSpec, Scenario};

/// A server on a port of the system's choice, and its address.
fn serve(args: &[&str]) -> (Daemon, String) {
    let all = [&["probe", "serve", "--listen", "127.0.0.1:0"], args].concat();
    let mut daemon = Daemon::start(&all);
    let address = daemon.listening().to_string();
    (daemon, address)
}

/// Measures for a moment; standard output and standard error, and how often it has measured.
#[track_caller]
fn measure(address: &str, args: &[&str]) -> (String, String, usize) {
    measure_until(address, args, |_| true)
}

/// Measures for a moment, again and again until it shows enough: in one in which this machine stands still,
/// no train comes, or too late for the server.
#[track_caller]
fn measure_until(
    address: &str,
    args: &[&str],
    enough: impl Fn(&str) -> bool,
) -> (String, String, usize) {
    let all = [&["probe", "run", address, "--duration", "2s"], args].concat();
    let (began, mut runs) = (Instant::now(), 0);
    loop {
        let output = run(&all);
        runs += 1;
        let texts = [output.stdout, output.stderr];
        let [out, errors] = texts.map(|text| String::from_utf8(text).unwrap());
        match output.status.success() {
            true if enough(&out) => return (out, errors, runs),
            true => {}
            false => {
                let is_late =
                    ["no train", "the time is over"].iter().any(|why| errors.contains(why));
                assert!(is_late, "{all:?}: {out}{errors}");
            }
        }
        assert!(began.elapsed() < PATIENCE, "{all:?}: {out}{errors}");
    }
}

#[track_caller]
fn measure_for(duration: &str, address: &str, args: &[&str]) -> (String, String) {
    let all = [&["probe", "run", address, "--duration", duration], args].concat();
    let output = run(&all);
    let [out, errors] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success(), "{all:?}: {out}{errors}");
    (out, errors)
}

#[test]
fn a_measurement_is_told_and_its_trace_is_a_scenarios() {
    let (_server, address) = serve(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rate.csv");
    let is_long = |_: &str| fs::read_to_string(&file).unwrap().lines().count() > 3;
    let (out, errors, _) = measure_until(&address, &["--out", file.to_str().unwrap()], is_long);
    assert!(out.contains("down: mean ") && out.contains(" %, rtt "), "{out}");
    assert!(out.contains("rows written to ") && errors.is_empty(), "{out}{errors}");
    let scenario = dir.path().join("mine.toml");
    let text = "name = \"mine\"\nduration = \"1s\"\n[[path]]\nname = \"a\"\ndelay = \"2ms\"\n\
                trace = { file = \"rate.csv\", format = \"csv\" }\n[workload]\nkind = \"bulk\"\n";
    fs::write(&scenario, text).unwrap();
    let scenario = Scenario::load(&scenario).unwrap();
    let RateSpec::File(trace) = &scenario.paths[0].rate else { panic!("no trace from a file") };
    let rows: Vec<String> = fs::read_to_string(&file).unwrap().lines().map(str::to_owned).collect();
    assert!(rows.len() > 3, "{rows:?}");
    let (time, rate) = rows[rows.len() / 2].split_once(',').unwrap();
    let time = Duration::from_secs_f64(time.parse().unwrap());
    let read = trace.trace.rate_at(time).as_mbps_f64();
    assert!((read - rate.parse::<f64>().unwrap()).abs() < 1e-3, "{read} for {rate}");
}

#[test]
fn json_is_an_object_a_train_and_nothing_else() {
    let (_server, address) = serve(&[]);
    let parsed = |out: &str| -> Vec<serde_json::Value> {
        out.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let has_rates = |lines: &[serde_json::Value], direction: &str| {
        let of = lines.iter().filter(|line| line["direction"] == direction);
        of.filter(|line| line["rate_mbps"].as_f64().is_some_and(|rate| rate > 0.0)).count() > 2
    };
    let both = |out: &str| ["down", "up"].iter().all(|way| has_rates(&parsed(out), way));
    let args = ["--json", "--direction", "both"];
    let (out, errors, _) = measure_until(&address, &args, both);
    let lines = parsed(&out);
    for direction in ["down", "up"] {
        let of = || lines.iter().filter(|line| line["direction"] == direction);
        assert!(has_rates(&lines, direction), "{out}");
        let times: Vec<f64> = of().map(|line| line["time_s"].as_f64().unwrap()).collect();
        assert!(times.is_sorted(), "{times:?}");
        assert!(errors.contains(&format!("weftline: {direction}: mean ")), "{errors}");
    }
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn a_moment_is_measured_without_loss_and_in_time() {
    verdict("a moment is measured without loss and in time", |_| {
        let (_server, address) = serve(&[]);
        let (out, _) = measure_for("500ms", &address, &[]);
        assert!(out.contains("loss 0.00 %, rtt "), "{out}");
        let both = ["--json", "--direction", "both"];
        let (out, _) = measure_for("500ms", &address, &both);
        let lines: Vec<serde_json::Value> =
            out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        for direction in ["down", "up"] {
            let of = lines.iter().filter(|line| line["direction"] == direction);
            let times: Vec<f64> = of.map(|line| line["time_s"].as_f64().unwrap()).collect();
            assert!(times.len() > 2 && times.last().unwrap() < &1.0, "{times:?}");
        }
        Some(())
    });
}

#[test]
fn the_addresses_of_both_families_and_their_ends_can_be_chosen() {
    let mut all = Daemon::start(&["probe", "serve", "--listen", "[::]:0"]);
    let port = all.listening().port();
    for (server, from) in [("127.0.0.1", "127.0.0.2"), ("[::1]", "::1"), ("localhost", "127.0.0.1")]
    {
        let (out, ..) = measure(&format!("{server}:{port}"), &["--interface", from]);
        assert!(out.contains("down: mean "), "{out}");
    }
    let server = format!("[::1]:{port}");
    let line = failure(1, &["probe", "run", &server, "--interface", "127.0.0.1"]);
    assert!(line.contains("has no address of the family of --interface"), "{line}");
}

#[test]
fn both_ways_have_a_file_each() {
    let (_server, address) = serve(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rate.csv");
    measure(&address, &["--direction", "both", "--out", file.to_str().unwrap()]);
    for name in ["rate-down.csv", "rate-up.csv"] {
        let text = fs::read_to_string(dir.path().join(name)).unwrap();
        assert!(text.starts_with("time_s,rate_mbps\n0.000000,"), "{name}: {text}");
    }
    assert!(!file.exists());
}

#[test]
fn only_holders_of_a_token_measure_where_one_is_wanted() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, secret: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = dir.path().join(name);
        fs::write(&path, secret).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let known = file("known", "alice: 0123456789abcdef\nbob: fedcba9876543210\n");
    let bob = file("bob", "fedcba9876543210\n");
    let eve = file("eve", "0000000000000000\n");
    let (server, address) = serve(&["--token-file", &known]);
    measure(&address, &["--token-file", &bob]);
    let line = failure(1, &["probe", "run", &address]);
    assert!(line.ends_with("it wants a token; give --token-file FILE"), "{line}");
    let line = failure(1, &["probe", "run", &address, "--token-file", &eve]);
    assert!(line.ends_with("it does not know the token"), "{line}");
    server.logs("no token or a wrong one");
}

#[test]
fn what_a_server_does_not_allow_is_said_with_what_it_does() {
    let (_server, address) = serve(&["--max-rate", "10Mbps", "--max-duration", "2s"]);
    let line = failure(1, &["probe", "run", &address]);
    assert!(line.contains("at most 10 Mb/s; give fewer packets (--train)"), "{line}");
    let slower = ["probe", "run", &address, "--every", "100ms", "--duration", "3s"];
    let line = failure(1, &slower);
    assert!(line.contains("at most 2 s may be measured; give a shorter --duration"), "{line}");
}

#[test]
fn a_server_has_as_many_clients_as_it_may_and_tells_the_others() {
    let (server, address) = serve(&["--max-clients", "1"]);
    let holder = Daemon::start(&["probe", "run", &address, "--duration", "1h"]);
    server.logs("measures");
    let line = failure(1, &["probe", "run", &address]);
    assert!(line.ends_with("it has as many clients as it may have; try again later"), "{line}");
    // A server that is stopped tells its clients.
    server.signal("-TERM");
    let told = holder.all_it_logged();
    assert!(told.last().unwrap().ends_with("it was stopped"), "{told:?}");
    server.all_it_logged();
}

#[test]
fn wrong_use_is_one_line() {
    // Who speaks to one other only hears nobody else, and nobody else gets the port while it is held.
    let held = UdpSocket::bind("127.0.0.1:0").unwrap();
    held.connect("127.0.0.1:1").unwrap();
    let closed = held.local_addr().unwrap().to_string();
    for (status, args, message) in [
        (2, &["127.0.0.1", "--train", "3"][..], "a train has 8 to 200 packets, not 3"),
        (2, &["127.0.0.1", "--size", "60"], "packets have 128 to 9000 bytes, not 60"),
        (2, &["127.0.0.1", "--every", "1us"], "trains go every 1 ms to 10 s"),
        (2, &["127.0.0.1", "--duration", "0s"], "a measurement takes up to 24 h"),
        (2, &["127.0.0.1", "--interface", "nosuch0"], "unknown interface 'nosuch0'"),
        (2, &["127.0.0.1", "--token-file", "/nonexistent"], "token file /nonexistent: No such"),
        (1, &["no-such-host.invalid"], "cannot resolve 'no-such-host.invalid'"),
        (1, &[&closed], "nobody listens at "),
        (1, &[&closed, "--out", "/nonexistent/rate.csv"], "/nonexistent/rate.csv: No such file"),
    ] {
        let line = failure(status, &[&["probe", "run"], args].concat());
        assert!(line.contains(message), "{args:?}: {line}");
    }
    for (status, args, message) in [
        (2, &["--max-rate", "fast"][..], "--max-rate: "),
        (2, &["--max-duration", "long"], "--max-duration: 'long' is no duration"),
        (1, &["--listen", "192.0.2.1:0"], "cannot listen on 192.0.2.1:0 (UDP): "),
    ] {
        let line = failure(status, &[&["probe", "serve"], args].concat());
        assert!(line.contains(message), "{args:?}: {line}");
    }
}

#[test]
fn strangers_get_less_than_they_send_and_change_nothing() {
    let (server, address) = serve(&[]);
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.connect(&address).unwrap();
    // A hello is answered by something shorter, and rubbish by nothing.
    let mut hello = vec![0; 128];
    hello[..4].copy_from_slice(b"wp\x01\x01");
    for rubbish in [&b""[..], b"x", b"wp\x01\x05 and so on", &[0xff; 1400], &hello[..100]] {
        stranger.send(rubbish).unwrap();
    }
    stranger.send(&hello).unwrap();
    let mut answer = [0; 2048];
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = stranger.recv(&mut answer).unwrap();
    assert!(length < 64 && answer[..4] == *b"wp\x01\x02", "{length}");
    // A cookie of ours for somebody else's address is worth nothing.
    let mut start = answer[..length].to_vec();
    start[3] = 3;
    start.resize(60, 0);
    stranger.send(&start).unwrap();
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    other.send_to(&start, &address).unwrap();
    let (.., runs) = measure(&address, &[]);
    for socket in [&stranger, &other] {
        socket.set_nonblocking(true).unwrap();
        assert!(socket.recv(&mut answer).is_err(), "nothing more is said");
    }
    server.signal("-TERM");
    let ended = server.all_it_logged().pop().unwrap();
    assert!(ended.contains(&format!("opened={runs} ")) && ended.contains("malformed="), "{ended}");
}

#[test]
fn a_client_that_is_interrupted_keeps_what_it_has() {
    let (_server, address) = serve(&[]);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rate.csv");
    let args = ["probe", "run", &address, "--duration", "1h", "--out", file.to_str().unwrap()];
    let mut client = Daemon::spawn(&mut weftline(&args));
    // After a second, or later where the machine stands still.
    let said = client.says("");
    assert!(said.contains(" s down: "), "{said}");
    let (rows, began) = (|| fs::read_to_string(&file).unwrap().lines().count(), Instant::now());
    while rows() <= 3 {
        assert!(began.elapsed() < PATIENCE, "{}", rows());
        thread::sleep(Duration::from_millis(50));
    }
    client.signal("-INT");
    client.ends_silently();
    assert!(rows() > 3);
}
