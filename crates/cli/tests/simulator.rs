//! `weftline sim` through the built program: what it prints, refuses, survives and resumes.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{failure, run, weftline};

/// A scenario on which every run is short.
const SMALL: &str = r#"
name = "small"
duration = "1s"
[[path]]
name = "one"
rate = "10Mbps"
delay = "5ms"
[[path]]
name = "two"
rate = "5Mbps"
delay = "10ms"
[workload]
kind = "bulk"
"#;

/// A directory with the scenario `small.toml` and the sweep `sweep.toml`.
fn folder(sweep: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small.toml"), SMALL).unwrap();
    fs::write(folder.path().join("sweep.toml"), sweep).unwrap();
    folder
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).to_str().unwrap().to_owned()
}

/// Runs a sweep to its end, and gives the status and what it said.
fn sweep(file: &str, out: &str) -> (Option<i32>, String) {
    let output = run(&["sim", "sweep", file, "--out", out]);
    (output.status.code(), text(&output.stderr))
}

#[test]
fn what_there_is_is_listed() {
    let output = run(&["sim", "list"]);
    let list = text(&output.stdout);
    assert!(output.status.success() && output.stderr.is_empty());
    for name in ["tcp-reference", "mptcp-a1", "fbdt-eq1", "tcp-shared", "mptcp-video"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{name}: {list}");
    }
}

/// Options that have been renamed are still understood, with the values that they took.
#[test]
fn former_names_of_options_take_what_they_took() {
    let folder = folder("");
    let scenario = path(folder.path(), "small.toml");
    let record = |args: &[&str]| {
        let args = [&["sim", "run", &scenario, "--scheme", "min-rtt", "--json"], args].concat();
        let output = run(&args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let now = record(&["--duration", "500ms", "--warmup", "100ms"]);
    for seconds in ["0.5", "500ms"] {
        assert_eq!(record(&["--seconds", seconds, "--warm-up", "100ms"]), now);
    }
    let written = path(folder.path(), "out");
    record(&["--output", &written]);
    assert!(fs::metadata(folder.path().join("out/runs.jsonl")).is_ok());
    let refused = failure(2, &["sim", "run", &scenario, "--seconds", "soon"]);
    assert!(refused.contains("--seconds: 'soon' is no duration"), "{refused}");
}

/// The example program registers a scheduler and a congestion control of its own.
#[test]
fn a_program_s_own_schedulers_and_controls_are_found_by_name() {
    // `cargo test` builds a package's examples with its tests.
    let program = Path::new(env!("CARGO_BIN_EXE_weftline")).with_file_name("examples/own");
    let own = |args: &[&str]| Command::new(&program).args(args).output().unwrap();
    let folder = folder("");
    let small = path(folder.path(), "small.toml");
    let run = ["sim", "run", &small, "--scheme", "widest,fbdt", "--congestion", "fixed", "--json"];
    let output = own(&run);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let records: Vec<serde_json::Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(records.len(), 2);
    for (record, scheme) in records.iter().zip(["widest", "fbdt"]) {
        assert_eq!((&record["scheme"], &record["congestion"]), (&scheme.into(), &"fixed".into()));
        assert!(record["goodput_mbps"].as_f64().unwrap() > 5.0, "{record}");
    }
    assert!(text(&own(&["list", "schedulers"]).stdout).contains("widest"));
    let unknown = own(&["sim", "run", &small, "--scheme", "narrowest"]);
    let said = text(&unknown.stderr);
    assert!(unknown.status.code() == Some(2) && said.contains("widest"), "{said}");
    // The program without them does not know them.
    assert!(
        !failure(2, &["sim", "run", &small, "--scheme", "widest"]).contains("earliest, widest")
    );
}

/// The picture in docs/web.md is what the command below it draws.
#[test]
fn the_picture_in_the_documentation_is_drawn() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let page = fs::read_to_string(docs.join("web.md")).unwrap();
    let (_, rest) = page.split_once("<!-- file: dies.toml -->\n```toml\n").unwrap();
    let (scenario, rest) = rest.split_once("```").unwrap();
    let command = rest.lines().find(|line| line.contains("--weave weave.svg")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("dies.toml"), scenario).unwrap();
    let mut words = command.split(' ');
    assert_eq!(words.next(), Some("weftline"));
    let mut program = Command::new(env!("CARGO_BIN_EXE_weftline"));
    let output = program.args(words).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let [drawn, shown] =
        [folder.path(), &docs].map(|dir| fs::read_to_string(dir.join("weave.svg")).unwrap());
    assert!(drawn == shown, "draw it again: {command}");
}

#[test]
fn a_run_is_drawn() {
    let folder = folder("");
    let (small, drawn) = (path(folder.path(), "small.toml"), path(folder.path(), "cloth.svg"));
    let args = |schemes, file| ["sim", "run", &small, "--scheme", schemes, "--weave", file];
    let output = run(&args("fbdt", drawn.as_str()));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let svg = fs::read_to_string(&drawn).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains("one ") && svg.contains("two "), "{svg}");
    // Over a time, and as a page.
    let more = [&args("fbdt", &drawn)[..], &["--weave-for", "1s"]].concat();
    assert!(run(&more).status.success());
    assert_ne!(fs::read_to_string(&drawn).unwrap(), svg);
    let file = path(folder.path(), "cloth.html");
    assert!(run(&["sim", "run", &small, "--scheme", "fbdt", "--weave", &file]).status.success());
    let page = fs::read_to_string(&file).unwrap();
    let (_, data) = page.split_once("id=\"data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["names"], serde_json::json!({"0": "one", "1": "two"}));
    for direction in ["sent", "received"] {
        let rows = data[direction]["rows"].as_array().unwrap();
        assert!(!rows.is_empty() && !rows[0][3].as_array().unwrap().is_empty(), "{direction}");
    }
    // No other file is written over, the scenario's for one.
    let before = fs::read_to_string(&small).unwrap();
    assert!(failure(2, &args("fbdt", &small)).contains("a page FILE.html"));
    assert_eq!(fs::read_to_string(&small).unwrap(), before);
    let all = [&args("fbdt", &file)[..], &["--weave-from", "1s"]].concat();
    assert!(failure(2, &all).contains("a page has all of the run"));
    let refused = failure(2, &args("fbdt,earliest", &drawn));
    assert!(refused.contains("give one --scheme"), "{refused}");
    let nothing = failure(1, &args("single:one", &drawn));
    assert!(nothing.contains("nothing to draw"), "{nothing}");
    let nowhere = failure(1, &args("fbdt", "/nowhere/cloth.svg"));
    assert!(nowhere.contains("/nowhere/cloth.svg"), "{nowhere}");
}

#[test]
fn a_run_is_a_table() {
    let folder = folder("");
    let small = path(folder.path(), "small.toml");
    let output = run(&["sim", "run", &small, "--scheme", "fbdt,single:one", "--duration", "2s"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for word in ["fbdt", "single:one", "cubic"] {
        assert!(table.contains(word), "{word}: {table}");
    }
}

#[test]
fn json_is_one_object_per_run_and_nothing_else() {
    let folder = folder("");
    let small = path(folder.path(), "small.toml");
    let args = ["sim", "run", &small, "--scheme", "fbdt,min-rtt", "--repeat", "2", "--json"];
    let output = run(&args);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output.stderr));
    let lines = text(&output.stdout);
    let runs: Vec<serde_json::Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |key: &str| runs.iter().map(|run| run[key].clone()).collect::<Vec<_>>();
    assert_eq!(of("scheme"), ["fbdt", "min-rtt", "fbdt", "min-rtt"]);
    assert_eq!(of("seed"), [1, 1, 2, 2]);
    assert!(of("world").iter().all(|world| world == "sim"));
    assert!(of("goodput_mbps").iter().all(|goodput| goodput.as_f64().unwrap() > 5.0));
    let again = run(&args);
    assert_eq!(output.stdout, again.stdout, "the same seed gives the same, to the byte");
}

#[test]
fn wrong_use_is_one_line_with_the_remedy() {
    let folder = folder("");
    let three =
        SMALL.to_owned() + "[[path]]\nname = \"three\"\nrate = \"1Mbps\"\ndelay = \"5ms\"\n";
    fs::write(folder.path().join("three.toml"), three).unwrap();
    let (small, three) = (path(folder.path(), "small.toml"), path(folder.path(), "three.toml"));
    for (args, message) in [
        (&["sim", "run", "nowhere"][..], "there is no scenario 'nowhere'; known: demo, "),
        (&["sim", "run", &small, "--scheme", "fastest"], "there is no scheme 'fastest'; known: "),
        (
            &["sim", "run", &small, "--scheme", "single:six"],
            "there is no path 'six'; known: one, two",
        ),
        (&["sim", "run", &small, "--congestion", "warp"], "there is no congestion control 'warp'"),
        (&["sim", "run", &three, "--scheme", "musher"], "'musher' needs exactly 2 paths"),
        (&["sim", "run", &small, "--workload", "iperf3"], "the simulator has no workload 'iperf3'"),
        (&["sim", "run", &small, "--warmup", "5s"], "give --warmup or a longer --duration"),
        (&["sim", "run", &small, "--duration", "1ms"], "it lasts 100ms to 24h"),
        (&["sim", "run", &small, "--duration", "25h"], "it lasts 100ms to 24h"),
        (&["sim", "run", &small, "--repeat", "0"], "--repeat: at least 1"),
        (&["sim", "sweep", "nowhere"], "there is no sweep 'nowhere'; known: "),
        (&["sim", "sweep", "nowhere.toml"], "nowhere.toml"),
    ] {
        let line = failure(2, args);
        assert!(line.contains(message), "{line}");
    }
}

#[test]
fn a_wrong_scenario_is_named_with_key_and_reason() {
    let folder = folder(
        "scenario = \"small.toml\"\nscheme = \"fbdt\"\n[set]\n\"path.one.rate\" = [\"1Mbps\", \"fast\"]\n",
    );
    let wrong = path(folder.path(), "wrong.toml");
    for (from, to, message) in [
        (
            "rate = \"10Mbps\"",
            "rate = \"ten\"",
            "wrong.toml:6: key 'path[0].rate': 'ten' is no rate",
        ),
        ("delay = \"5ms\"", "dellay = \"5ms\"", "dellay"),
        ("kind = \"bulk\"", "kind = \"bulky\"", "bulky"),
    ] {
        fs::write(&wrong, SMALL.replacen(from, to, 1)).unwrap();
        let line = failure(2, &["sim", "run", &wrong]);
        assert!(line.contains("wrong.toml:") && line.contains(message), "{line}");
    }
    // A case of a sweep that cannot be built fails alone, and is named with the line that sets it.
    let (file, out) = (path(folder.path(), "sweep.toml"), path(folder.path(), "out"));
    let (status, said) = sweep(&file, &out);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("sweep.toml:4") && said.contains("fast"), "{said}");
    assert!(said.contains("1 of 2 runs failed"), "{said}");
    assert_eq!(fs::read_to_string(Path::new(&out).join("runs.jsonl")).unwrap().lines().count(), 1);
}

#[test]
fn a_run_that_fails_leaves_the_others() {
    // A path that is dark for the whole of the set-up: no connection is made.
    let folder = folder(
        "scenario = \"small.toml\"\nscheme = [\"single:one\", \"single:two\"]\nseed = [1, 2]\n\
         [set]\n\"path.one.loss\" = [0.0, 1.0]\n",
    );
    let (file, out) = (path(folder.path(), "sweep.toml"), path(folder.path(), "out"));
    let (status, said) = sweep(&file, &out);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("small/single:one/cubic/1/path.one.loss=1"), "{said}");
    assert!(said.contains("2 of 8 runs failed"), "{said}");
    let runs = fs::read_to_string(Path::new(&out).join("runs.jsonl")).unwrap();
    assert_eq!(runs.lines().count(), 8, "those that failed are records too");
    let why = "no connection within 30s over one: lower its loss or delay";
    assert_eq!(runs.matches(why).count(), 2, "{runs}");
}

#[test]
fn a_killed_sweep_leaves_whole_records_and_goes_on() {
    // Its records are more than a pipe holds: it cannot be over before it is killed.
    let folder = folder(
        "scenario = \"small.toml\"\nscheme = [\"fbdt\", \"min-rtt\", \"single:one\"]\n\
         seed = { from = 1, to = 40 }\nduration = \"3s\"\n",
    );
    let file = path(folder.path(), "sweep.toml");
    let (whole, cut) = (path(folder.path(), "whole"), path(folder.path(), "cut"));
    let (status, said) = sweep(&file, &whole);
    assert_eq!(status, Some(0), "{said}");
    let mut kills = 0;
    for _ in 0..3 {
        let args = ["sim", "sweep", &file, "--out", &cut, "--json"];
        let mut child =
            weftline(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        // Killed once it has written some records.
        let mut records = std::io::BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        for _ in 0..5 {
            std::io::BufRead::read_line(&mut records, &mut line).unwrap();
        }
        child.kill().unwrap();
        kills += usize::from(!child.wait().unwrap().success());
        let runs = fs::read_to_string(Path::new(&cut).join("runs.jsonl")).unwrap();
        let complete = &runs[..runs.rfind('\n').map_or(0, |end| end + 1)];
        for line in complete.lines() {
            serde_json::from_str::<serde_json::Value>(line).unwrap();
        }
        assert!(complete.lines().count() >= 5);
    }
    assert!(kills > 0, "the sweep was over each time before it could be killed");
    // Half a record, as a crash of the machine may leave it.
    let runs = Path::new(&cut).join("runs.jsonl");
    let mut text = fs::read_to_string(&runs).unwrap();
    text.push_str("{\"schema\":1,\"wor");
    fs::write(&runs, text).unwrap();
    let (status, said) = sweep(&file, &cut);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("of 120 runs are there already"), "{said}");
    let read = |out: &str| fs::read(Path::new(out).join("runs.jsonl")).unwrap();
    assert!(read(&whole) == read(&cut), "a resumed sweep ends as an uninterrupted one");
    // There is nothing left to do.
    let (status, said) = sweep(&file, &cut);
    assert_eq!(status, Some(0), "{said}");
    assert!(read(&whole) == read(&cut));
}

/// A sweep in parts, as the jobs of an array make it, has the bytes of one that was made at once.
#[test]
fn parts_of_a_sweep_are_merged() {
    let folder = folder(
        "scenario = 'small.toml'\nscheme = ['min-rtt', 'single:one']\nduration = '200ms'\n\
         seed = [1, 2, 3]\nseries = true\n",
    );
    let at = |name: &str| path(folder.path(), name);
    let (file, whole, parts) = (at("sweep.toml"), at("whole"), at("parts"));
    assert_eq!(sweep(&file, &whole).0, Some(0));
    let part = |part: &str| {
        let output = run(&["sim", "sweep", &file, "--out", &parts, "--part", part]);
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    part("1/4");
    part("3/4");
    let line = failure(1, &["sim", "merge", &parts]);
    assert!(line.contains("part 2/4 of") && line.contains("--part 2/4"), "{line}");
    part("2/4");
    part("4/4");
    let merged = run(&["sim", "merge", &parts]);
    assert!(text(&merged.stdout).ends_with(": 6 of 6 runs\n") && merged.status.success());
    for file in ["runs.jsonl", "series.csv", "sweep.toml"] {
        let read = |dir: &str| fs::read_to_string(Path::new(dir).join(file)).unwrap();
        assert!(read(&whole) == read(&parts), "{file}");
    }
    // What was merged is gone on with as any other.
    let (status, said) = sweep(&file, &parts);
    assert!(status == Some(0) && said.contains("6 of 6 runs are there already"), "{said}");
    let line = failure(2, &["sim", "sweep", &file, "--part", "0/4"]);
    assert!(line.contains("'0/4' is no part"), "{line}");
    let line = failure(2, &["sim", "merge", &whole]);
    assert!(line.contains("there are no parts of a sweep"), "{line}");
}

/// Without Python, or without its package, the way to a cluster is said.
#[test]
fn a_sweep_on_ray_wants_the_python_package() {
    let folder = folder("scenario = 'demo'\nscheme = 'min-rtt'\n");
    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let file = path(folder.path(), "sweep.toml");
    let on_ray = || {
        let mut command = weftline(&["sim", "sweep", &file, "--on", "ray"]);
        let output = command.env("PATH", &bin).output().unwrap();
        (output.status.code(), text(&output.stderr))
    };
    let (status, said) = on_ray();
    assert!(status == Some(3) && said.contains("there is no python3"), "{status:?} {said}");
    let python = bin.join("python3");
    fs::write(&python, "#!/bin/sh\necho weftline and ray >&2\nexit 1\n").unwrap();
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).unwrap();
    let (status, said) = on_ray();
    let expected = "python3 has no module weftline and ray; in the sources, pip install";
    assert!(status == Some(3) && said.contains(expected), "{status:?} {said}");
}

#[test]
fn another_sweep_in_the_same_directory_is_refused() {
    let folder = folder("scenario = \"small.toml\"\nscheme = \"fbdt\"\n");
    let (file, out) = (path(folder.path(), "sweep.toml"), path(folder.path(), "out"));
    assert_eq!(sweep(&file, &out).0, Some(0));
    let before = fs::read(Path::new(&out).join("runs.jsonl")).unwrap();
    let other = path(folder.path(), "other.toml");
    fs::write(&other, "scenario = \"small.toml\"\nscheme = \"min-rtt\"\n").unwrap();
    let line = failure(2, &["sim", "sweep", &other, "--out", &out]);
    assert!(
        line.contains("sweep.toml is another sweep; write the results to a directory of their own"),
        "{line}"
    );
    assert_eq!(before, fs::read(Path::new(&out).join("runs.jsonl")).unwrap());
}

/// The records of a results directory, as they stand in its file.
fn records(out: &str) -> String {
    fs::read_to_string(Path::new(out).join("runs.jsonl")).unwrap()
}

#[test]
fn a_second_writer_is_refused() {
    // Its records are more than a pipe holds: it waits for its reader, with the directory locked.
    let folder =
        folder("scenario = \"small.toml\"\nscheme = \"fbdt\"\nseed = { from = 1, to = 99 }\n");
    let (file, out) = (path(folder.path(), "sweep.toml"), path(folder.path(), "out"));
    let args = ["sim", "sweep", &file, "--out", &out, "--json"];
    let mut first = weftline(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = std::io::BufReader::new(first.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut lines, &mut String::new()).unwrap();
    let small = path(folder.path(), "small.toml");
    for second in [&args[..], &["sim", "run", &small, "--out", &out]] {
        let line = failure(2, second);
        let wanted = format!("another weftline is writing to {out}; wait until it has ended");
        assert!(line.contains(&wanted) && line.contains("another --out"), "{line}");
    }
    // The lock ends with its process, however that ends.
    first.kill().unwrap();
    first.wait().unwrap();
    assert_eq!(sweep(&file, &out).0, Some(0));
    assert_eq!(records(&out).lines().count(), 99);
}

#[test]
fn a_sweep_goes_on_with_the_same_files_only() {
    let folder = folder("scenario = \"small.toml\"\nscheme = \"fbdt\"\n");
    let (file, out) = (path(folder.path(), "sweep.toml"), path(folder.path(), "out"));
    assert_eq!(sweep(&file, &out).0, Some(0));
    let before = records(&out);
    fs::write(folder.path().join("small.toml"), SMALL.replacen("10Mbps", "50Mbps", 1)).unwrap();
    let line = failure(2, &["sim", "sweep", &file, "--out", &out]);
    assert!(line.contains("small.toml differs") && line.contains("another --out"), "{line}");
    assert_eq!(before, records(&out));
    // What the message says makes it anew.
    fs::remove_file(Path::new(&out).join("runs.jsonl")).unwrap();
    assert_eq!(sweep(&file, &out).0, Some(0));
    assert_ne!(before, records(&out));
}

#[test]
fn failed_and_invalid_runs_are_done_again() {
    let folder =
        folder("scenario = \"small.toml\"\nscheme = \"fbdt\"\nseed = { from = 1, to = 3 }\n");
    let (file, out) = (path(folder.path(), "sweep.toml"), path(folder.path(), "out"));
    assert_eq!(sweep(&file, &out).0, Some(0));
    let whole = records(&out);
    let late = "\"emulator\":{\"late_over_1ms_share\":0.2,\"valid\":false},\"digest\"";
    for (count, damaged) in [
        (1, whole.replacen("\"completed\":true", "\"completed\":false", 1)),
        (1, whole.replacen("\"digest\"", late, 1)),
        (3, whole.replace("\"error\":null", "\"error\":\"reset\"")),
    ] {
        assert_ne!(damaged, whole);
        fs::write(Path::new(&out).join("runs.jsonl"), damaged).unwrap();
        let (status, said) = sweep(&file, &out);
        assert_eq!(status, Some(0), "{said}");
        assert!(said.contains(&format!("{} of 3 runs are there already", 3 - count)), "{said}");
        assert!(said.contains(&format!("{count} more failed or are invalid")), "{said}");
        assert!(records(&out) == whole, "each run once, in the place that it had");
    }
}

#[test]
fn a_run_that_is_made_again_counts_once() {
    let folder = folder("");
    let (small, out) = (path(folder.path(), "small.toml"), path(folder.path(), "out"));
    let made = |seed: &str, repeat: &str| {
        let args = ["sim", "run", &small, "--scheme", "fbdt", "--out", &out];
        let output = run(&[&args[..], &["--seed", seed, "--repeat", repeat]].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    let series = || fs::read_to_string(Path::new(&out).join("series.csv")).unwrap();
    made("1", "2");
    let before = (records(&out), series());
    made("1", "1");
    made("2", "1");
    assert_eq!(before.0, records(&out));
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    assert_eq!(sorted(&before.1), sorted(&series()));
    made("3", "1");
    assert_eq!(records(&out).lines().count(), 3);
    let line = failure(2, &["sim", "run", &small, "--scheme", "fbdt,fbdt"]);
    assert!(line.contains("--scheme: fbdt is listed twice"), "{line}");
}

#[test]
fn a_sweep_keeps_series_on_request() {
    let folder = folder("scenario = \"small.toml\"\nscheme = \"fbdt\"\nseed = [1, 2]\n");
    let (file, small) = (path(folder.path(), "sweep.toml"), path(folder.path(), "small.toml"));
    let [without, with, single] = ["without", "with", "single"].map(|out| path(folder.path(), out));
    assert_eq!(sweep(&file, &without).0, Some(0));
    assert!(!Path::new(&without).join("series.csv").exists());
    assert!(run(&["sim", "sweep", &file, "--out", &with, "--series"]).status.success());
    let args = ["sim", "run", &small, "--scheme", "fbdt", "--repeat", "2", "--out", &single];
    assert!(run(&args).status.success());
    let series = |out: &str| fs::read_to_string(Path::new(out).join("series.csv")).unwrap();
    assert!(series(&with).lines().any(|line| line.contains(",1,one,goodput_mbps,")));
    assert_eq!(series(&with), series(&single), "as 'run' keeps them");
    // The sweep itself may ask for it.
    let asking = path(folder.path(), "asking.toml");
    fs::write(&asking, fs::read_to_string(&file).unwrap() + "series = true\n").unwrap();
    let kept = path(folder.path(), "kept");
    assert_eq!(sweep(&asking, &kept).0, Some(0));
    assert_eq!(series(&kept), series(&with));
    // Half with series and half without would be neither.
    let line = failure(2, &["sim", "sweep", &file, "--out", &without, "--series"]);
    assert!(line.contains("have --series 'no', not 'yes'"), "{line}");
}

#[test]
fn records_say_which_sources_the_program_is_built_from() {
    let version = env!("WEFTLINE_VERSION");
    let commit = version.strip_prefix(env!("CARGO_PKG_VERSION")).unwrap();
    let git = |args: &[&str]| Command::new("git").args(args).output().ok();
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let known = git(&["-C", root, "rev-parse", "--show-prefix"]);
    if known.is_some_and(|known| known.status.success() && known.stdout == b"\n") {
        let digits = commit.strip_prefix('+').unwrap().chars().take_while(char::is_ascii_hexdigit);
        assert_eq!(digits.count(), 12, "{version}");
    } else {
        assert!(std::env::var_os("CI").is_none(), "in CI it is built in a repository, with git");
        eprintln!("not looked at: the commit, without git or outside of a repository");
    }
    let folder = folder("scenario = \"small.toml\"\nscheme = \"fbdt\"\n");
    let (file, out) = (path(folder.path(), "sweep.toml"), path(folder.path(), "out"));
    assert_eq!(sweep(&file, &out).0, Some(0));
    let said = format!("\"version\":\"{version}\"");
    assert!(records(&out).contains(&said), "{said}: {}", records(&out));
    // What another version has begun, this one leaves alone.
    let bundle = Path::new(&out).join("bundle.json");
    let text = fs::read_to_string(&bundle).unwrap();
    assert!(text.contains(&format!("\"version\": \"{version}\"")), "{text}");
    fs::write(&bundle, text.replace(version, "0.0.9+0123456789ab")).unwrap();
    let line = failure(2, &["sim", "sweep", &file, "--out", &out]);
    let wanted = format!("were made by weftline 0.0.9+0123456789ab, and this is {version}");
    assert!(line.contains(&wanted), "{line}");
}

/// The page goes where `--out` says, and `--open` hands it to the desktop's opener, here one of ours.
#[test]
fn a_report_is_written_where_it_is_wanted_and_opened() {
    let folder = folder("");
    let (dir, small) = (path(folder.path(), "runs"), path(folder.path(), "small.toml"));
    let made = run(&["sim", "run", &small, "--scheme", "min-rtt", "--out", &dir]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let page = path(folder.path(), "mine.html");
    let args = ["report", &dir, "--out", &page, "--open"];

    let bin = folder.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let with = |opener: Option<&str>| {
        let file = bin.join("xdg-open");
        let _ = fs::remove_file(&file);
        if let Some(script) = opener {
            fs::write(&file, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        }
        weftline(&args).env("PATH", &bin).output().unwrap()
    };
    let opened = folder.path().join("opened");
    let done = with(Some(&format!("printf %s \"$1\" > '{}'", opened.display())));
    assert!(done.status.success(), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout).trim(), page);
    let html = fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>"));
    let sentence = text(&done.stderr).trim().trim_start_matches("weftline: ").to_owned();
    assert!(sentence.contains("min-rtt"), "{sentence}");
    assert!(html.contains(&format!("<p class=\"verdict\">{sentence}</p>")), "{sentence}");
    assert_eq!(fs::read_to_string(&opened).unwrap(), page);
    assert!(!Path::new(&dir).join("report.html").exists());

    // Where nothing opens it, it is there all the same.
    for (opener, why) in [(None, "there is no xdg-open"), (Some("exit 3"), "found no browser")] {
        fs::remove_file(&page).unwrap();
        let failed = with(opener);
        let line = text(&failed.stderr);
        assert_eq!(failed.status.code(), Some(3), "{line}");
        assert!(line.contains(why) && line.contains(&page), "{line}");
        assert!(Path::new(&page).exists());
    }
}
