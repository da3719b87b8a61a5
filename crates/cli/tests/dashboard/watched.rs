//! Runs that are watched: of the simulator, of the lab, and event files that are shown again.

use std::path::Path;
use std::time::Instant;

use super::common::{Daemon, PATIENCE, failure};
use super::{Place, parts};
use serde_json::{Value, json};
use weftline_judged::{MISSES, Watch};

/// A page of runs, once all of them are over: its history.
fn over(place: &Place) -> Value {
    // One that comes late is told all of it; one that is early waits for the rest.
    let mut watch = place.watch();
    let history = place.get("/api/1/history");
    if !texts(&history).contains(&"all is over") {
        watch.wait("event", |event| event["text"] == "all is over");
        watch.wait("sample", |sample| sample["state"] == "over");
    }
    place.get("/api/1/history")
}

fn texts(history: &Value) -> Vec<&str> {
    let events = history["events"].as_array().unwrap();
    events.iter().map(|event| event["text"].as_str().unwrap()).collect()
}

/// The sum of what a path sent, in bytes, by the times and rates of a history.
fn carried(history: &Value, name: &str) -> f64 {
    let paths = history["paths"].as_array().unwrap();
    let path = paths.iter().find(|path| path["name"] == name).unwrap();
    let times: Vec<f64> =
        history["t"].as_array().unwrap().iter().map(|t| t.as_f64().unwrap()).collect();
    let rates = path["send"].as_array().unwrap();
    let steps = times.windows(2).zip(&rates[1..]);
    steps.map(|(t, rate)| (t[1] - t[0]) * rate.as_f64().unwrap_or(0.0) * 1e6 / 8.0).sum()
}

#[test]
fn runs_of_the_simulator_are_seen_by_their_own_clock_and_their_figures_are_the_same() {
    let args = ["sim", "run", "bond", "--scheme", "fbdt,single:lte", "--duration", "3s"];
    let more = ["--warmup", "1s", "--watch", "127.0.0.1:0", "--pace", "max"];
    let mut watched = Daemon::start(&[&args[..], &more].concat());
    let place = Place::of(&watched.says("watch"));
    let history = over(&place);
    assert_eq!(history["clock"], "run");
    // Two runs of 3 s, whatever time they took.
    let times = history["t"].as_array().unwrap();
    assert_eq!(times.last().unwrap(), 6.0);
    assert!(times.len() >= 12, "{times:?}");
    let told = texts(&history);
    for text in ["#1: fbdt over bond, cubic, seed 1", "#1 is over", "#2 is over", "all is over"] {
        assert!(told.contains(&text), "{told:?}");
    }
    // DSL of 50 Mb/s carried nearly that in the first run, and nothing in the second.
    let dsl = carried(&history, "dsl");
    assert!((14e6..19e6).contains(&dsl), "{dsl} bytes in 3 s");
    // Its weave stays to be looked at, of the last run: plain TCP has none.
    let status = place.get("/api/1/status");
    assert_eq!((&status["daemon"], &status["state"]), (&json!("sim run"), &json!("over")));
    assert_eq!(status["connections"][0]["label"], "single:lte");
    watched.signal("-INT");
    let (status, said) = watched.end();
    assert_eq!(status, Some(0), "{said}");
}

#[test]
fn the_weave_of_a_simulated_run_is_drawn_while_it_runs_and_after() {
    let args = ["sim", "run", "bond", "--scheme", "fbdt", "--duration", "4s", "--warmup", "1s"];
    let mut watched =
        Daemon::start(&[&args[..], &["--watch", "127.0.0.1:0", "--pace", "4"]].concat());
    let place = Place::of(&watched.says("watch"));
    let is_woven = |weave: &Value| parts(weave, "sent").len() > 10;
    // It may be over before the page is opened, but not before it has begun.
    let until = Instant::now() + PATIENCE;
    while place.get("/api/1/status")["connections"].as_array().unwrap().is_empty() {
        assert!(Instant::now() < until, "it does not begin");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    place.watch_with("?weave=1").wait("weave", |weave| !parts(weave, "sent").is_empty());
    over(&place);
    let weave = place.watch_with("?weave=1").wait("weave", is_woven);
    assert_eq!(weave["names"], json!({ "0": "dsl", "1": "lte" }));
    assert_eq!(weave["now"], 4_000_000);
}

#[test]
fn a_run_of_the_lab_is_seen_with_a_path_that_is_cut() {
    if !rustix::process::geteuid().is_root() {
        assert!(std::env::var_os("CI").is_none(), "in CI it runs as root");
        eprintln!("skipped: the lab needs root");
        return;
    }
    // The kernel does not say that a path makes no progress; the page does.
    let args = ["lab", "run", "bond", "--scheme", "linux-mptcp", "--duration", "8s"];
    let more = ["--warmup", "1s", "--cut", "dsl@2s..", "--watch", "127.0.0.1:0"];
    let (began, mut misses) = (Instant::now(), 0);
    loop {
        let watch = Watch::start();
        let mut watched = Daemon::start(&[&args[..], &more].concat());
        let place = Place::of(&watched.says("watch"));
        let history = over(&place);
        watched.signal("-INT");
        let (_, said) = watched.end();
        let told = texts(&history);
        assert!(
            told.iter().any(|text| text.contains("linux-mptcp over bond, cubic, seed 1")),
            "{told:?}"
        );
        // A run in which the machine stands still while a path carries, or is cut, is made again; so many that
        // show less on a quiet one are a fault.
        let is_told = told.contains(&"path dsl stalled: data is outstanding, nothing arrives");
        let (dsl, lte) = (carried(&history, "dsl"), carried(&history, "lte"));
        if is_told && dsl > 0.0 && lte > 0.0 {
            assert!(said.contains("goodput"), "{said}");
            break;
        }
        let seen = format!("{dsl} and {lte} bytes, {told:?}, {said}");
        misses += usize::from(watch.finish().is_none());
        assert!(misses < MISSES && began.elapsed() < PATIENCE, "{seen}");
        eprintln!("once more, as one saw {seen}");
    }
}

/// An event file of these records, each with its time in ms.
fn event_file(dir: &Path, records: &[(f64, &str, Value)]) -> String {
    let schemas = json!(["urn:weftline:qlog:multipath-1"]);
    let header =
        json!({ "title": "weftline serve connection 7", "trace": { "event_schemas": schemas } });
    let record = |(time, name, data): &(f64, &str, Value)| json!({ "time": time, "name": format!("weftline:{name}"), "data": data });
    let all = [header].into_iter().chain(records.iter().map(record));
    let text: String = all.map(|one| format!("\u{1e}{one}\n")).collect();
    let file = dir.join("events.sqlog");
    std::fs::write(&file, text).unwrap();
    file.to_str().unwrap().to_owned()
}

fn metrics(name: &str, delivered: u64) -> Value {
    json!({
        "name": name, "state": "up", "srtt_ms": 30.0, "min_rtt_ms": 20.0, "cwnd_bytes": 14_480,
        "retransmitted_segments": 0, "sent_bytes": delivered, "delivered_bytes": delivered,
        "received_bytes": 0, "rescued_bytes": 0,
    })
}

#[test]
fn an_event_file_is_shown_again() {
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| json!({ "path": 1, "name": name, "subflow": 1, "reason": "reset" });
    let file = event_file(
        dir.path(),
        &[
            (0.0, "connection_started", json!({ "peer": "192.0.2.1:9", "scheduler": "fbdt" })),
            (0.0, "path_up", of("wifi")),
            (1000.0, "path_metrics", metrics("wifi", 1_000_000)),
            (2000.0, "path_down", of("wifi")),
            (2500.0, "path_up", of("wifi")),
            (9000.0, "path_metrics", metrics("wifi", 3_000_000)),
            (9000.0, "something_new", json!({})),
            (9500.0, "connection_closed", json!({ "error": null, "sent_bytes": 2_900_000 })),
        ],
    );
    let mut watched = Daemon::start(&["replay", &file, "--pace", "max"]);
    let place = Place::of(&watched.says("watch"));
    let history = over(&place);
    assert_eq!(history["t"].as_array().unwrap().last().unwrap(), 9.5);
    let told = ["path wifi is up", "path wifi is down: reset", "path wifi is up"];
    let expected =
        [&["#1: weftline serve connection 7"][..], &told, &["the connection ended", "all is over"]];
    assert_eq!(texts(&history), expected.concat());
    let wifi = carried(&history, "wifi");
    assert!((2.99e6..3.01e6).contains(&wifi), "{wifi} bytes");
    let connection = &place.get("/api/1/status")["connections"][0];
    assert_eq!(connection["peer"], "192.0.2.1:9");
    assert_eq!(connection["sent_bytes"], 2_900_000);
}

#[test]
fn what_is_no_event_file_is_refused_with_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    let name = file.to_str().unwrap();
    let refused = |text: &[u8]| {
        std::fs::write(&file, text).unwrap();
        failure(2, &["replay", name])
    };
    assert!(refused(b"").contains("is empty"));
    assert!(refused(b"{}\n").contains("give a file that --qlog wrote"));
    assert!(refused(b"\x1enonsense\n").contains("record 1 is no JSON"));
    assert!(refused(&[b'x'; 2 << 20]).contains("record 1 has more than 1048576 bytes"));
    assert!(failure(1, &["replay", "/nowhere"]).contains("/nowhere"));
    let later = event_file(dir.path(), &[(-1.0, "path_up", json!({}))]);
    let said = failure(2, &["replay", &later, "--pace", "max"]);
    assert!(said.contains("record 2 has no time from 0"), "{said}");
    let too_much = event_file(dir.path(), &[(0.0, "path_metrics", metrics("wifi", u64::MAX))]);
    let said = failure(2, &["replay", &too_much]);
    assert!(said.contains("record 2 has 18446744073709551615 for"), "{said}");
    let said = failure(2, &["replay", dir.path().to_str().unwrap()]);
    assert!(said.contains("is no ordinary file"), "{said}");
    for pace in ["0", "fast"] {
        let said = failure(2, &["sim", "run", "bond", "--watch", "127.0.0.1:0", "--pace", pace]);
        assert!(said.contains("a pace is max, or"), "{said}");
    }
    let said = failure(2, &["lab", "run", "bond", "--watch", "0.0.0.0:0"]);
    assert!(said.contains("such as 127.0.0.1:9480"), "{said}");
}
