//! Sweeps: what they make of scenarios, in which order, and everything they get wrong.

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;
use weftline_core::Bitrate;
use weftline_link::LossModel;

use super::*;
use crate::{RateSpec, SWEEPS};

fn parse(text: &str) -> Result<Sweep, ScenarioError> {
    Sweep::parse("some.toml", text, None)
}

/// Without the names of a registry, which grows.
fn short(error: String) -> String {
    match error.split_once("; known: ") {
        Some((start, _)) if error.contains("there is no") => format!("{start}; known: …"),
        _ => error,
    }
}

fn cases(text: &str) -> Vec<Case> {
    let sweep = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let cases: Vec<_> = sweep.cases().map(Result::unwrap).collect();
    assert_eq!(cases.len(), sweep.len());
    assert!(cases.iter().enumerate().all(|(index, case)| case.index == index));
    let ids: BTreeSet<_> = cases.iter().map(Case::id).collect();
    assert_eq!(ids.len(), cases.len(), "each id once");
    // In parts, as many machines would do them, they are the same.
    let step = (cases.len() / 3).max(1);
    for from in (0..cases.len()).step_by(step) {
        let to = (from + step).min(cases.len());
        let part: Vec<_> = sweep.cases_in(from..to).map(|case| case.unwrap().id()).collect();
        assert_eq!(part, cases[from..to].iter().map(Case::id).collect::<Vec<_>>());
    }
    cases
}

#[test]
fn what_is_compared_runs_next_to_each_other() {
    let text = "scenario = 'demo'\nscheme = ['fbdt', 'min-rtt']\nseed = [1, 2]\nseries = true\n\
                [set]\n'path.wifi.rate' = ['10Mbps', '20Mbps']\n";
    let sweep = Sweep::parse("mine.toml", text, None).unwrap();
    assert!(sweep.series());
    let order: Vec<(String, u64)> = sweep
        .cases()
        .map(Result::unwrap)
        .map(|case| (case.scheme.to_string(), case.seed))
        .collect();
    let pair = |seed| [("fbdt".to_owned(), seed), ("min-rtt".to_owned(), seed)];
    assert_eq!(order, [1, 2, 1, 2].map(pair).concat());
}

#[test]
fn a_grid_is_a_product() {
    let cases = cases(
        r#"
        scenario = ["demo", "fbdt-3b-normal"]
        scheme = ["fbdt", "single:wifi"]
        congestion = ["cubic", "bbr"]
        seed = { from = 3, to = 4 }
        duration = "9s"
        [set]
        "path.wifi.rate" = { from = "10Mbps", to = "40Mbps", steps = 3, scale = "log" }
        "path.wigig.loss" = [0.0, [{ at = "1s", rate = 0.5 }]]
        warmup = "2s"
        "#,
    );
    assert_eq!(cases.len(), 2 * 2 * 2 * 2 * 3 * 2);
    let last = cases.last().unwrap();
    assert_eq!(last.scenario.name, "fbdt-3b-normal");
    assert_eq!(last.scenario.duration, Duration::from_secs(9));
    assert_eq!(last.scenario.warmup, Duration::from_secs(2));
    assert_eq!(last.scenario.paths[0].rate, RateSpec::Constant(Bitrate::mbps(40)));
    let schedule = LossModel::Schedule(vec![(Duration::from_secs(1), 0.5)]);
    assert_eq!(last.scenario.paths[1].loss, schedule);
    let ids: Vec<_> = cases.iter().step_by(7).map(Case::id).collect();
    insta::assert_snapshot!(ids.join("\n"));
}

#[test]
fn a_record_knows_its_case() {
    let text = "scenario = 'demo'\nscheme = 'fbdt'\n[set]\n'path.wifi.delay' = ['1ms', '2ms']";
    let case = cases(text).pop().unwrap();
    let record = RunRecord {
        scenario: case.scenario.name.clone(),
        scheme: case.scheme.to_string(),
        congestion: case.congestion.to_string(),
        seed: case.seed,
        case: case.case.clone(),
        ..RunRecord::default()
    };
    let record = serde_json::to_string(&record).unwrap();
    let record: RunRecord = serde_json::from_str(&record).unwrap();
    assert_eq!(record.case_id(), case.id());
    assert_eq!(case.id(), "demo/fbdt/cubic/1/path.wifi.delay=2ms");
}

#[test]
fn any_key_can_be_set() {
    let text = r#"
        scenario = "tcp-shared"
        scheme = "min-rtt"
        workload = "cbr:2Mbps"
        [set]
        "path.a" = { trace = { generator = "outage", rate = "9Mbps", up = ["1s", "2s"], down = ["0s", "1s"] } }
        "path.a.up.loss" = 0.25
        "flow.tcp.start" = "3s"
        "flow.tcp.scheme" = "single:b"
        about = "edited"
    "#;
    let scenario = cases(text).pop().unwrap().scenario;
    insta::assert_snapshot!(scenario);
    let video = "scenario = 'mptcp-a1'\nscheme = 'min-rtt'\n[set]\n";
    let bulk = cases(&format!("{video}'workload.kind' = 'bulk'")).pop().unwrap();
    assert_eq!(bulk.scenario.workload, Workload::Bulk);
    let cached = cases(&format!("{video}'workload.caching' = '3s'")).pop().unwrap();
    let Workload::Video(spec) = cached.scenario.workload else { panic!("no video") };
    assert_eq!(spec.rules.caching, Duration::from_secs(3));
    let kept = cases(&format!("workload = 'video'\n{video}'workload.fps' = 25")).pop().unwrap();
    let Workload::Video(spec) = kept.scenario.workload else { panic!("no video") };
    assert_eq!((spec.clip.rate, spec.clip.fps), (Bitrate::kbps(5240), 25));
}

const RANDOM: &str = r#"
    scenario = "two-path"
    scheme = ["single:one", "min-rtt"]
    [random]
    runs = 40
    seed = 7
    [random.set]
    "path.one" = [
        { rate = { from = "5Mbps", to = "2Gbps", scale = "log" } },
        { trace = { generator = "blockage", los = { from = "1Gbps", to = "2Gbps" }, nlos = "100Mbps", blocked = "0bps" } },
    ]
    "path.two.delay" = { from = "4ms", to = "300ms" }
    "path.two.loss" = [0, { from = 1e-4, to = 0.05, scale = "log" }]
    "path.two.queue" = { from = "0.5bdp", to = "4bdp" }
"#;

#[test]
fn draws_are_pinned_and_independent() {
    let drawn = |text: &str| -> Vec<_> { cases(text).into_iter().map(|case| case.case).collect() };
    let all = drawn(RANDOM);
    assert_eq!(all.len(), 80);
    assert!(all.chunks(2).all(|pair| pair[0] == pair[1]), "schemes share their scenario");
    let seeds: Vec<_> = cases(RANDOM).iter().step_by(2).map(|case| case.seed).collect();
    assert_eq!(seeds, (1..=40).collect::<Vec<_>>());
    let traces = all.iter().filter(|case| case.contains_key("path.one.trace.los")).count();
    assert!((20..60).contains(&traces), "{traces}");
    // Another key does not shift the draws of those there are.
    let more = drawn(&format!("{RANDOM}\n\"path.one.delay\" = [\"1ms\", \"9ms\"]"));
    for (more, case) in more.iter().zip(&all) {
        assert!(case.iter().all(|(key, value)| more.get(key) == Some(value)));
    }
    let lines: Vec<_> = all.iter().step_by(20).map(|case| format!("{case:?}")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn the_number_of_paths_can_vary() {
    let text = r#"
        scenario = "four-path"
        scheme = ["fbdt", "single:one", "single:three", "single:four"]
        seed = [1, 2]
        [random]
        runs = 30
        [random.set]
        paths = [2, 3, 4]
        "path.one.delay" = { from = "2ms", to = "9ms" }
        "path.four.delay" = { from = "2ms", to = "9ms" }
    "#;
    let cases = cases(text);
    for case in &cases {
        let paths = case.scenario.paths.len();
        assert_eq!(case.case["paths"], paths.to_string());
        assert_eq!(case.case.contains_key("path.four.delay"), paths == 4);
        assert!(case.case.contains_key("path.one.delay"));
        let known = |name| case.scenario.paths.iter().any(|path| path.name == name);
        assert!(case.scheme.path().is_none_or(known), "{}", case.id());
    }
    let of = |n| cases.iter().filter(|case| case.scenario.paths.len() == n).count();
    let draws = [of(2) / 4, of(3) / 6, of(4) / 8];
    assert_eq!(draws.iter().sum::<usize>(), 30);
    assert!(draws.iter().all(|&draws| draws > 4), "{draws:?}");
}

#[test]
fn wrong_sweeps_name_file_line_key_and_remedy() {
    let head = "scenario = 'demo'\nscheme = 'fbdt'\n";
    let set = |line: &str| format!("{head}[set]\n{line}");
    let random = |line: &str| format!("{head}[random]\nruns = 3\n[random.set]\n{line}");
    let texts = [
        "scenario = ".to_owned(),
        "scheme = 'fbdt'".to_owned(),
        "scenario = 'dmeo'\nscheme = 'fbdt'".to_owned(),
        "scenario = 'demo'\nscheme = []".to_owned(),
        "scenario = 'demo'\nscheme = ['fbdt', 'fdbt']".to_owned(),
        "scenario = 'demo'\nscheme = ['fbdt', 'fbdt']".to_owned(),
        "scenario = 'demo'\nscheme = 'single:lte'".to_owned(),
        format!("{head}congestion = 'vegas'"),
        format!("{head}seed = {{ from = 5, to = 1 }}"),
        format!("{head}seed = [1, 1]"),
        format!("{head}workload = 'bulky'"),
        format!("{head}duration = '9 parsecs'"),
        format!("{head}schemes = 3"),
        set("'path.lte.rate' = '3Mbps'"),
        set("path.wifi.rate = '3Mbps'"),
        set("'path.wifi.rate' = []"),
        set("'path.wifi.rate' = ['3Mbps', '3Mbps']"),
        set("'path.wifi.rate' = '3 parsecs'"),
        set("'path.wifi.speed' = 3"),
        set("'path.wifi.delay.up' = 3"),
        set("'path.wifi' = 3"),
        set("paths = 3"),
        set("paths = 'two'"),
        set("duration = ['10ms', '3s']"),
        set("name = 'mine'"),
        set("when = 1979-05-27"),
        set("'path.wifi.rate' = { from = '3Mbps', to = '5Mbps' }"),
        set("'path.wifi.rate' = { from = '3Mbps', to = '5Mbps', steps = 1 }"),
        set("'path.wifi.rate' = { from = '3Mbps', to = '5ms', steps = 3 }"),
        set("'path.wifi.rate' = { from = '9Mbps', to = '5Mbps', steps = 3 }"),
        set("'path.wifi.rate' = { from = 'x', to = '5Mbps', steps = 3 }"),
        set("'path.wifi.loss' = { from = 0, to = 0.1, steps = 3, scale = 'log' }"),
        set("'path.wifi.loss' = { from = 0, to = 0.1, steps = 3, scale = 'cubic' }"),
        format!("{head}[random]\nseed = 3"),
        format!("{head}[random]\nruns = 3"),
        random("'path.wifi.loss' = { from = 2, to = 3 }"),
        random("'path.wifi.loss' = []"),
        format!("{}\n[set]\n'path.wifi.loss' = 0", random("'path.wifi.loss' = [0.5]")),
        format!("{head}seed = {{ from = 1, to = 9999 }}\n[random]\nruns = 999\n[random.set]"),
    ];
    let errors = texts.map(|text| match parse(&text) {
        Ok(_) => panic!("no error in:\n{text}"),
        Err(error) => short(error.to_string()),
    });
    assert!(errors.iter().all(|error| !error.contains('\n')), "one line each");
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn a_scenario_is_named_once() {
    let dir = tempfile::tempdir().unwrap();
    let demo = BUILTIN.iter().find(|builtin| builtin.name == "demo").unwrap();
    std::fs::write(dir.path().join("other.toml"), demo.text).unwrap();
    for (list, message) in [
        ("['demo', 'demo']", "key 'scenario[1]': is listed twice"),
        ("['demo', 'other.toml']", "has the name 'demo' in it, as 'demo.toml' has; give it one"),
    ] {
        let text = format!("scenario = {list}\nscheme = 'fbdt'");
        let error = Sweep::parse("some.toml", &text, Some(dir.path())).unwrap_err().to_string();
        assert!(error.starts_with("some.toml:1: ") && error.contains(message), "{error}");
    }
}

#[test]
fn a_scheme_of_one_path_runs_over_the_scenarios_that_have_it() {
    let text = "scenario = ['demo', 'mptcp-a1']\n\
                scheme = ['fbdt', 'single:wifi', 'single:lte', 'single:wigig']\n\
                [set]\n'path.wifi.loss' = [0.0, 0.01]";
    let sweep = parse(text).unwrap();
    let cases: Vec<_> = sweep.cases().map(Result::unwrap).collect();
    let runs: Vec<_> =
        cases.iter().map(|case| format!("{} {}", case.scenario.name, case.scheme)).collect();
    let demo = ["demo fbdt", "demo single:wifi", "demo single:wigig"];
    let slides = ["mptcp-a1 fbdt", "mptcp-a1 single:wifi", "mptcp-a1 single:lte"];
    assert_eq!(runs, [demo, demo, slides, slides].concat());
    assert_eq!((sweep.len(), cases.last().unwrap().index), (12, 11));
    // A part of them is the same.
    let part: Vec<_> = sweep.cases_in(5..9).map(|case| case.unwrap().index).collect();
    assert_eq!(part, [5, 6, 7, 8]);
    // A scenario that no scheme runs over is nothing to build, wherever it stands.
    for list in ["['mptcp-a1', 'demo', 'mptcp-a2']", "['demo', 'mptcp-a1', 'mptcp-a2']"] {
        let text =
            format!("scenario = {list}\nscheme = 'single:lte'\n[set]\n'path.lte.rate' = ['5Mbps']");
        let sweep = parse(&text).unwrap();
        assert!(sweep.cases().all(|case| case.is_ok()));
        assert_eq!((sweep.len(), sweep.cases().count()), (2, 2));
    }
    // One whose path is left out makes no run, and none that there is.
    let text = "scenario = ['demo', 'four-path']\nscheme = 'single:four'\n[set]\npaths = [2]";
    let none = parse(text).unwrap_err().to_string();
    assert!(none.contains("makes no run: no scenario has the path of a scheme"), "{none}");
    // One that none of them has is wrong.
    let none = parse("scenario = ['demo', 'mptcp-a1']\nscheme = 'single:moon'").unwrap_err();
    assert!(none.to_string().contains("there is no path 'moon'"), "{none}");
}

#[test]
fn a_value_counts_once_however_it_is_spelt() {
    for values in [
        "['5Mbps', '5000kbps']",
        "['1s', '1000ms']",
        "[1, 1.0]",
        "['1kB', '1000B']",
        "[{ rate = '5Mbps' }, { rate = '5000kbps' }]",
    ] {
        let text =
            format!("scenario = 'demo'\nscheme = 'fbdt'\n[set]\n'path.wifi.rate' = {values}");
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.ends_with("key 'set.path.wifi.rate': has a value twice"), "{error}");
    }
    let text = "scenario = 'demo'\nscheme = 'fbdt'\n[set]\n'path.wifi.loss' = [-1]";
    let error = parse(text).unwrap_err().to_string();
    assert!(error.ends_with("wants a number from 0 to 1"), "{error}");
}

#[test]
fn one_wrong_case_leaves_the_others() {
    let text = "scenario = 'demo'\nscheme = ['fbdt', 'min-rtt']\n[set]\n\
                'path.wifi.rate' = ['3Mbps', 'fast', '4Mbps']";
    let results: Vec<_> = parse(text).unwrap().cases().collect();
    let good: Vec<_> = results.iter().flatten().map(|case| case.index).collect();
    assert_eq!(good, [0, 1, 4, 5]);
    let errors: Vec<_> = results
        .iter()
        .filter_map(|result| result.as_ref().err())
        .map(ToString::to_string)
        .collect();
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn sweeps_are_found_by_name_and_by_file() {
    let error = Sweep::find("mptcp-vidoe").unwrap_err().to_string();
    assert!(error.starts_with("there is no sweep 'mptcp-vidoe'; known: mptcp-video, "), "{error}");
    let error = Sweep::find("no/such.toml").unwrap_err().to_string();
    assert!(error.starts_with("cannot read no/such.toml: "), "{error}");
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sweeps/mptcp-video.toml");
    let found = Sweep::find(file.to_str().unwrap()).unwrap();
    assert_eq!((found.name(), found.len()), ("mptcp-video", 720));
    assert_eq!(found.text(), Sweep::find("mptcp-video").unwrap().text());
    // Scenarios and their traces are looked for beside the sweep.
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    write(
        "mine.toml",
        "name = 'mine'\nduration = '2s'\n[[path]]\nname = 'a'\n\
                        trace = { file = 'a.csv', format = 'csv' }",
    );
    write("a.csv", "time_s,rate_mbps\n0,10\n");
    write("grid.toml", "scenario = 'mine.toml'\nscheme = 'single:a'");
    let sweep = Sweep::load(&dir.path().join("grid.toml")).unwrap();
    assert_eq!(sweep.cases().map(Result::unwrap).next().unwrap().scenario.name, "mine");
}

#[test]
fn every_builtin_sweep_builds_all_its_cases() {
    let counts = SWEEPS.iter().map(|builtin| {
        let sweep = Sweep::find(builtin.name).unwrap_or_else(|error| panic!("{error}"));
        let cases = sweep.cases().inspect(|case| assert!(case.is_ok(), "{case:?}")).count();
        assert_eq!(cases, sweep.len());
        format!("{} {cases}", builtin.name)
    });
    insta::assert_snapshot!(counts.collect::<Vec<_>>().join("\n"));
}

#[test]
fn every_sweep_file_is_built_in() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/sweeps");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let files: BTreeSet<_> =
        files.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    let names: BTreeSet<_> = SWEEPS.iter().map(|builtin| builtin.name.to_owned()).collect();
    assert_eq!(files, names);
}

/// The examples of docs/scenarios.md.
#[test]
fn the_manual_is_right() {
    let manual = include_str!("../../../../docs/scenarios.md");
    let blocks: Vec<&str> = manual.split("```toml\n").skip(1).collect();
    let blocks: Vec<&str> =
        blocks.into_iter().map(|block| block.split("```").next().unwrap()).collect();
    let [scenario, losses, traces, scheduler, flows, grid, random] = blocks[..] else {
        panic!("{} examples", blocks.len())
    };
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file
    };
    write("lte.csv", "time_s,rate_mbps\n0,10\n");
    write("lte.trace", "1\n2\n");
    Scenario::load(&write("two-links.toml", scenario)).unwrap();
    let path = |line: &str| {
        let rate = if line.starts_with("loss") { "rate = '1Mbps'\n" } else { "" };
        format!("name = 'x'\nduration = '9s'\n[[path]]\nname = 'a'\n{rate}{line}")
    };
    for line in losses.lines().chain(traces.lines()) {
        Scenario::load(&write("line.toml", &path(line))).unwrap();
    }
    let rules = Scenario::load(&write("rules.toml", &format!("{scenario}\n{scheduler}"))).unwrap();
    assert_eq!(rules.scheduler.without.to_string(), "copy-late");
    assert_eq!(Scenario::load(&write("again.toml", &rules.to_string())).unwrap(), rules);
    let unknown = scheduler.replace("copy-late", "copy-soon");
    let unknown = Scenario::load(&write("rules.toml", &format!("{scenario}\n{unknown}")));
    let unknown = unknown.unwrap_err().to_string();
    assert!(unknown.contains("'copy-soon'") && unknown.contains("known are reinject"), "{unknown}");
    let flows = Scenario::load(&write("flows.toml", &format!("{scenario}\n{flows}"))).unwrap();
    assert_eq!(flows.flows.len(), 2);
    let sweep = Sweep::load(&write("grid.toml", grid)).unwrap();
    assert_eq!(sweep.len(), 2 * 3 * 2 * 5 * 8 * 3 * 3);
    assert!(sweep.cases().all(|case| case.is_ok()));
    let random = format!("scenario = 'two-path'\nscheme = 'fbdt'\n{random}");
    let sweep = Sweep::load(&write("random.toml", &random)).unwrap();
    assert_eq!(sweep.cases().filter(Result::is_ok).count(), 1000);
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(
        cuts in proptest::collection::vec((any::<prop::sample::Index>(), ".{0,6}"), 0..4),
    ) {
        let mut text: Vec<char> = RANDOM.chars().collect();
        for (at, insert) in cuts {
            let at = at.index(text.len());
            let end = (at + insert.len()).min(text.len());
            text.splice(at..end, insert.chars().rev());
        }
        if let Ok(sweep) = parse(&text.into_iter().collect::<String>()) {
            assert!(sweep.cases().take(3).count() > 0);
        }
    }
}
