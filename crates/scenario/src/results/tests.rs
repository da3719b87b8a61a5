//! Results directories: what is kept, what is refused, and what counts.

use super::*;
use crate::{EmulatorRecord, Sweep};

fn record(seed: u64) -> RunRecord {
    let scheme = "fbdt".to_owned();
    RunRecord { schema: 1, seed, scheme, completed: true, ..RunRecord::default() }
}

fn sample(time_s: f64, path: &str) -> Sample<'_> {
    Sample { time_s, path, metric: "goodput_mbps", value: 12.5 }
}

#[test]
fn runs_and_series_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::open(&dir.path().join("deep/er")).unwrap();
    let dir = dir.path().join("deep/er");
    assert_eq!(writer.write_run(&record(1), &[sample(0.1, "")]).unwrap(), 0);
    assert_eq!(writer.write_run(&record(2), &[sample(0.1, "wifi")]).unwrap(), 1);
    // Complete while the writer is still open.
    assert_eq!(read_runs(&dir).unwrap(), [record(1), record(2)]);
    let mut series = SeriesReader::open(&dir).unwrap();
    let row = series.next_row().unwrap().unwrap();
    assert_eq!(row, SeriesRow { run: 0, sample: sample(0.1, "") });
    let row = series.next_row().unwrap().unwrap();
    assert_eq!(row, SeriesRow { run: 1, sample: sample(0.1, "wifi") });
    assert_eq!(series.next_row().unwrap(), None);
}

#[test]
fn a_directory_is_used_again_after_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut writer = ResultsWriter::open(dir).unwrap();
    writer.write_run(&record(1), &[sample(0.1, "")]).unwrap();
    drop(writer);
    for file in [RUNS, SERIES] {
        let mut file = OpenOptions::new().append(true).open(dir.join(file)).unwrap();
        file.write_all(b"half a li").unwrap();
    }
    let mut writer = ResultsWriter::open(dir).unwrap();
    assert_eq!(writer.write_run(&record(2), &[sample(0.1, "")]).unwrap(), 1);
    assert_eq!(read_runs(dir).unwrap(), [record(1), record(2)]);
    let mut series = SeriesReader::open(dir).unwrap();
    let mut runs = Vec::new();
    while let Some(row) = series.next_row().unwrap() {
        runs.push(row.run);
    }
    assert_eq!(runs, [0, 1]);
}

fn sweep(text: &str) -> Sweep {
    Sweep::parse("mine.toml", text, None).unwrap()
}

fn bundle(sweep: &Sweep) -> Bundle {
    Bundle::of_sweep(sweep, "sim", "0.1.0")
}

#[test]
fn a_sweep_is_resumed_where_it_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mine = sweep("scenario = 'demo'\nscheme = 'fbdt'\nseed = [1, 2]");
    let mut writer = ResultsWriter::open(dir).unwrap();
    writer.begin(&bundle(&mine)).unwrap();
    assert_eq!(writer.done().unwrap(), BTreeSet::new());
    let case = mine.cases().next().unwrap().unwrap();
    let (scenario, congestion) = (case.scenario.name.clone(), case.congestion.to_string());
    writer.write_run(&RunRecord { scenario, congestion, ..record(1) }, &[]).unwrap();
    drop(writer);
    let mut writer = ResultsWriter::open(dir).unwrap();
    writer.begin(&bundle(&mine)).unwrap();
    let done = writer.done().unwrap();
    let left: Vec<_> = mine.cases().flatten().filter(|case| !done.contains(&case.id())).collect();
    assert_eq!(left.iter().map(|case| case.seed).collect::<Vec<_>>(), [2]);
    let other = sweep("scenario = 'demo'\nscheme = 'fbdt'");
    let other = writer.begin(&bundle(&other)).unwrap_err();
    assert!(other.to_string().contains("sweep.toml is another sweep"), "{other}");
}

#[test]
fn a_directory_has_one_writer() {
    let dir = tempfile::tempdir().unwrap();
    let writer = ResultsWriter::open(dir.path()).unwrap();
    let second = ResultsWriter::open(dir.path()).unwrap_err();
    assert!(matches!(second, ResultsError::InUse { .. }), "{second}");
    let message = second.to_string();
    let name = dir.path().display().to_string();
    assert!(message.contains(&name) && message.contains("another --out"), "{message}");
    drop(writer);
    ResultsWriter::open(dir.path()).unwrap();
}

#[test]
fn only_runs_that_count_are_done() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::open(dir.path()).unwrap();
    let late = EmulatorRecord { late_over_1ms_share: 0.2, valid: false };
    for run in [
        record(1),
        RunRecord { completed: false, ..record(2) },
        RunRecord { error: Some("reset".to_owned()), ..record(3) },
        RunRecord { emulator: Some(late), ..record(4) },
    ] {
        writer.write_run(&run, &[]).unwrap();
    }
    assert_eq!(writer.done().unwrap(), [record(1).case_id()].into());
}

#[test]
fn a_run_that_is_made_again_takes_the_place_of_the_first() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut writer = ResultsWriter::open(dir).unwrap();
    let failed = RunRecord { completed: false, ..record(1) };
    writer.write_run(&failed, &[sample(0.1, "")]).unwrap();
    writer.write_run(&record(2), &[sample(0.2, "")]).unwrap();
    drop(writer);
    // Neither ended as it should: a crash before it, and one while the series were exchanged.
    let mut writer = ResultsWriter::open(dir).unwrap();
    assert_eq!(writer.write_run(&record(1), &[sample(0.3, "")]).unwrap(), 2);
    let check = || {
        assert_eq!(read_runs(dir).unwrap(), [record(1), record(2)]);
        let mut series = SeriesReader::open(dir).unwrap();
        let mut rows = Vec::new();
        while let Some(row) = series.next_row().unwrap() {
            rows.push((row.run, row.sample.time_s));
        }
        assert_eq!(rows, [(1, 0.2), (0, 0.3)]);
    };
    writer.finish().unwrap();
    check();
    fs::rename(dir.join(SERIES), dir.join("series.csv.new")).unwrap();
    fs::write(dir.join(SERIES), format!("{SERIES_HEADER}\n0.9,2,,m,1\n")).unwrap();
    drop(ResultsWriter::open(dir).unwrap());
    check();
    fs::write(dir.join("runs.jsonl.new"), "half a").unwrap();
    fs::write(dir.join("series.csv.new"), "half a").unwrap();
    drop(ResultsWriter::open(dir).unwrap());
    check();
    assert!(!dir.join("runs.jsonl.new").exists() && !dir.join("series.csv.new").exists());
}

#[test]
fn series_stay_with_their_runs_only() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mut writer = ResultsWriter::open(dir).unwrap();
    writer.write_run(&record(1), &[]).unwrap();
    assert!(!dir.join(SERIES).exists(), "no series, no file");
    writer.write_run(&record(2), &[sample(0.1, "")]).unwrap();
    writer.finish().unwrap();
    fs::remove_file(dir.join(RUNS)).unwrap();
    drop(ResultsWriter::open(dir).unwrap());
    assert!(!dir.join(SERIES).exists(), "they would be those of the next runs");
    assert!(SeriesReader::find(dir).unwrap().is_none());
    fs::write(dir.join(SERIES), "somebody's series\n").unwrap();
    let error = ResultsWriter::open(dir).unwrap_err().to_string();
    assert!(error.contains("series.csv:1: wants the header"), "{error}");
    assert!(dir.join(SERIES).exists());
}

/// The files of a sweep, in a folder that the sweep is read from.
fn files(dir: &Path) -> Sweep {
    Sweep::load(&dir.join("mine.toml")).unwrap()
}

const SCENARIO: &str = "name = 'small'\nduration = '1s'\n[[path]]\nname = 'one'\n\
     trace = { file = 'one.csv', format = 'csv' }\n";

#[test]
fn a_sweep_that_is_resumed_has_the_same_files() {
    let dir = tempfile::tempdir().unwrap();
    let at = |file: &str| dir.path().join(file);
    let trace = |rate: u32| format!("time_s,rate_mbps\n0,{rate}\n1,{rate}\n");
    fs::create_dir(at("sub")).unwrap();
    fs::write(
        at("mine.toml"),
        "scenario = 'sub/small.toml'\nscheme = 'single:one'\n[set]\n\
         'path.one.trace.file' = ['one.csv', 'two.csv']\n[random]\nruns = 1\n[random.set]\n\
         'path.one.up' = [{ trace = { file = 'up.csv', format = 'csv' } }]\n",
    )
    .unwrap();
    fs::write(at("sub/small.toml"), SCENARIO).unwrap();
    for file in ["one", "two", "up"] {
        fs::write(at(&format!("sub/{file}.csv")), trace(10)).unwrap();
    }
    let out = at("out");
    let begin = || {
        let mut writer = ResultsWriter::open(&out).unwrap();
        writer.begin(&bundle(&files(dir.path()))).map(|()| writer)
    };
    begin().unwrap().write_run(&record(1), &[]).unwrap();
    begin().unwrap();
    for (file, text) in [
        ("sub/small.toml", SCENARIO.replace("1s", "2s")),
        ("sub/one.csv", trace(20)),
        ("sub/two.csv", trace(20)),
        ("sub/up.csv", trace(20)),
    ] {
        let before = fs::read_to_string(at(file)).unwrap();
        fs::write(at(file), text).unwrap();
        let refused = begin().unwrap_err().to_string();
        assert!(refused.starts_with(&format!("{file} differs")), "{refused}");
        assert!(refused.contains("give another --out, or remove"), "{refused}");
        // The message says where the one is that the runs were made with.
        let kept = refused.split("kept in ").nth(1).unwrap().split(';').next().unwrap();
        assert_eq!(fs::read_to_string(kept).unwrap(), before);
        fs::write(at(file), before).unwrap();
        begin().unwrap();
    }
    // A sweep that has begun runs with what it has read.
    let sweep = files(dir.path());
    fs::write(at("sub/two.csv"), trace(20)).unwrap();
    let mut last = sweep.cases().last().unwrap().unwrap().scenario;
    assert!(last.trace_files_mut().any(|file| *file.text == trace(10)));
}

#[test]
fn runs_of_another_kind_version_or_option_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mine = sweep("scenario = 'demo'\nscheme = 'fbdt'");
    let scenario = crate::Scenario::find("demo").unwrap();
    let begin = |bundle: Bundle| {
        let mut writer = ResultsWriter::open(dir).unwrap();
        writer.begin(&bundle).map(|()| writer)
    };
    let refused = |bundle: Bundle, why: &str| {
        let error = begin(bundle).unwrap_err();
        assert!(error.is_wrong_use() && error.to_string().contains(why), "{error}");
    };
    begin(bundle(&mine)).unwrap();
    // What left no run behind holds nothing.
    begin(Bundle::of_sweep(&mine, "lab", "0.1.0")).unwrap();
    begin(bundle(&mine).with_option("--series", "no")).unwrap().write_run(&record(1), &[]).unwrap();
    refused(bundle(&mine).with_option("--series", "yes"), "have --series 'no', not 'yes'");
    refused(bundle(&mine), "have --series 'no', not ''");
    refused(Bundle::of_sweep(&mine, "lab", "0.1.0"), "holds a sim sweep, not a lab sweep");
    refused(Bundle::of_runs(&scenario, "0.1.0"), "holds a sim sweep, not single runs");
    let later = Bundle::of_sweep(&mine, "sim", "0.1.0+abc").with_option("--series", "no");
    refused(later, "were made by weftline 0.1.0, and this is 0.1.0+abc");
    fs::remove_file(dir.join("bundle.json")).unwrap();
    refused(bundle(&mine).with_option("--series", "no"), "no bundle.json");
    fs::write(dir.join("bundle.json"), "{}").unwrap();
    let error = begin(bundle(&mine)).unwrap_err().to_string();
    assert!(error.contains("bundle.json:1: is no bundle of results"), "{error}");
}

#[test]
fn a_directory_has_guests_of_one_kernel() {
    let dir = tempfile::tempdir().unwrap();
    let bond = crate::Scenario::find("bond").unwrap();
    let begin = |guests: Option<&str>| {
        let mut writer = ResultsWriter::open(dir.path()).unwrap();
        let bundle = Bundle::of_runs(&bond, "0.1.0");
        let bundle = guests.iter().fold(bundle, |bundle, kernel| bundle.with_guests(kernel));
        writer.begin(&bundle).map(|()| writer)
    };
    begin(Some("6.12.1 (aa)")).unwrap().write_run(&record(1), &[]).unwrap();
    begin(None).unwrap();
    begin(Some("6.12.1 (aa)")).unwrap();
    let error = begin(Some("6.12.1 (bb)")).unwrap_err();
    assert!(error.is_wrong_use(), "{error}");
    let words = "had Linux 6.12.1 (aa), and these have 6.12.1 (bb)";
    assert!(error.to_string().contains(words), "{error}");
}

#[test]
fn single_runs_may_add_scenarios_and_not_change_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut demo = crate::Scenario::find("demo").unwrap();
    let begin = |scenario: &crate::Scenario| {
        let mut writer = ResultsWriter::open(dir.path()).unwrap();
        writer.begin(&Bundle::of_runs(scenario, "0.1.0")).map(|()| writer)
    };
    begin(&demo).unwrap().write_run(&record(1), &[]).unwrap();
    begin(&crate::Scenario::find("trace-csv").unwrap()).unwrap();
    begin(&demo).unwrap();
    demo.duration *= 2;
    let refused = begin(&demo).unwrap_err().to_string();
    assert!(refused.starts_with("demo.toml differs"), "{refused}");
    assert_ne!(crate::Scenario::load(&dir.path().join("demo.toml")).unwrap(), demo);
}

#[test]
fn wrong_lines_are_named() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    assert!(matches!(read_runs(dir), Err(ResultsError::Io { .. })));
    fs::write(dir.join(RUNS), "\n{\"schema\":1}\n").unwrap();
    let error = read_runs(dir).unwrap_err().to_string();
    assert!(error.contains("runs.jsonl:2: is no run: missing field"), "{error}");
    for (rows, line) in [("0.1,0,,m", 2), ("0.1,0,,m,1\n0.2,x,,m,1", 3), ("1,0,,m,1,", 2)] {
        fs::write(dir.join(SERIES), format!("{SERIES_HEADER}\n{rows}\n")).unwrap();
        let mut series = SeriesReader::open(dir).unwrap();
        let error = loop {
            match series.next_row() {
                Ok(row) => assert!(row.is_some(), "no error"),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains(&format!("series.csv:{line}: is no row")), "{error}");
    }
}

#[test]
fn a_directory_says_where_and_when_its_runs_were_made() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let mine = sweep("scenario = 'demo'\nscheme = 'fbdt'");
    assert_eq!(read_provenance(dir).unwrap(), []);
    let begin = || {
        let mut writer = ResultsWriter::open(dir).unwrap();
        writer.begin(&bundle(&mine)).unwrap();
        writer
    };
    begin().write_run(&record(1), &[]).unwrap();
    let first = read_provenance(dir).unwrap();
    assert_eq!((first.len(), first[0].version.as_str()), (1, "0.1.0"));
    // Another day and machine go on with it.
    let file = dir.join("bundle.json");
    let moved = fs::read_to_string(&file).unwrap().replace(&first[0].date, "2026-01-02T03:04:05Z");
    fs::write(&file, moved).unwrap();
    begin();
    let both = read_provenance(dir).unwrap();
    assert_eq!((both.len(), both[0].date.as_str()), (2, "2026-01-02T03:04:05Z"));
    assert_eq!(both[1].command, first[0].command);
}

#[test]
fn parts_put_together_are_a_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let text = "scenario = 'demo'\nscheme = ['fbdt', 'min-rtt']\nseed = { from = 1, to = 5 }";
    let sweep = sweep(text);
    let part = |part: &str| part.parse::<Part>().unwrap();
    let version = "0.1.0";
    let made = |case: &crate::Case| RunRecord {
        scenario: case.scenario.name.clone(),
        scheme: case.scheme.to_string(),
        congestion: case.congestion.to_string(),
        ..record(case.seed)
    };
    let cases: Vec<_> = sweep.cases().map(Result::unwrap).collect();
    // The last of them backwards: the merged ones have the sweep's order all the same.
    let make = |dir: &Path, part: Part, count: usize, is_reversed: bool| {
        let mut writer = ResultsWriter::open(&part.directory(dir)).unwrap();
        writer.begin(&bundle(&sweep).with_option("--series", "yes")).unwrap();
        let mut cases: Vec<_> = cases[part.range(cases.len())].iter().take(count).collect();
        if is_reversed {
            cases.reverse();
        }
        for case in cases {
            let time_s = case.index as f64;
            writer.write_run(&made(case), &[sample(time_s, ""), sample(time_s, "wifi")]).unwrap();
        }
        writer.finish().unwrap();
    };
    let merged = |dir: &Path| {
        let merged = merge(dir, version).unwrap();
        let records = read_runs(dir).unwrap();
        assert_eq!(merged.runs, records.len());
        let expected: Vec<_> = cases[..merged.runs].iter().map(made).collect();
        assert_eq!(records, expected);
        (merged.runs, merged.of, merged.next.map(|part| part.to_string()))
    };
    assert!(merge(dir, version).unwrap_err().to_string().contains("there are no parts"));
    make(dir, part("1/3"), 10, false);
    make(dir, part("3/3"), 10, true);
    assert_eq!(merged(dir), (3, 10, Some("2/3".to_owned())));
    make(dir, part("2/3"), 2, false);
    assert_eq!(merged(dir), (5, 10, Some("2/3".to_owned())));
    make(dir, part("2/3"), 10, false);
    assert_eq!(merged(dir), (10, 10, None));
    assert_eq!(merged(dir), (10, 10, None));
    let mut series = SeriesReader::open(dir).unwrap();
    for run in 0..10 {
        for path in ["", "wifi"] {
            let row = series.next_row().unwrap().unwrap();
            assert_eq!(row, SeriesRow { run, sample: sample(run as f64, path) });
        }
    }
    // What goes on is the sweep itself.
    let mut writer = ResultsWriter::open(dir).unwrap();
    writer.begin(&bundle(&sweep).with_option("--series", "yes")).unwrap();
    assert_eq!(writer.done().unwrap().len(), 10);
    drop(writer);
    let refused = |why: &str, version: &str| {
        let error = merge(dir, version).unwrap_err();
        assert!(error.is_wrong_use() && error.to_string().contains(why), "{error}");
    };
    refused("were made by weftline 0.1.0, and this is 0.2.0", "0.2.0");
    fs::create_dir(dir.join("parts/1-of-2")).unwrap();
    refused("there are parts of 2 and of 3; remove those of one division", version);
}

#[test]
fn parts_divide_a_sweep() {
    for runs in [0, 1, 7, 100] {
        let parts = (1..=8).map(|number| format!("{number}/8").parse::<Part>().unwrap());
        let places: Vec<usize> = parts.flat_map(|part| part.range(runs)).collect();
        assert_eq!(places, (0..runs).collect::<Vec<_>>());
    }
    for bad in ["", "1", "0/4", "5/4", "1/0", "-1/4", "1/100001", "1/4/4", "a/b"] {
        let error = bad.parse::<Part>().unwrap_err().to_string();
        assert!(error.contains("is no part; write the number of the part, from 1"), "{error}");
    }
}
