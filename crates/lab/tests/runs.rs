//! Whole runs: schemes and workloads over emulated links, end to end.
//!
//! What they carry and how soon is judged by `make test-lab`, the rest by `make test`.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::{Path, PathBuf};
use std::time::Duration;

use support::alone;
use weftline_judged::{Attempt, until_enough, verdict};
use weftline_lab::{LabError, LabOptions, SweepOptions, run_many, run_sweep};
use weftline_scenario::{RunRecord, Scenario, Scheme, SeriesReader, Sweep, Workload, read_runs};

/// What a full-size TCP segment carries of the 1500 bytes it takes on the link.
const TCP_SHARE: f64 = 1448.0 / 1500.0;

/// Queues long enough that a connection keeps its links busy even on a busy machine.
const TWO_PATHS: &str = r#"
name = "two-paths"
duration = "3s"
warmup = "1s"

[[path]]
name = "slow"
rate = "10Mbps"
delay = "5ms"
queue = "200packets"

[[path]]
name = "fast"
rate = "30Mbps"
delay = "10ms"
queue = "200packets"
"#;

/// Options for a run of `schemes` over the scenario `text`.
fn options(text: &str, schemes: &[&str]) -> LabOptions {
    let none = |_: &Path| Err(std::io::ErrorKind::NotFound.into());
    let scenario = Scenario::parse("test", text, &none).unwrap();
    let schemes: Vec<Scheme> = schemes.iter().map(|scheme| scheme.parse().unwrap()).collect();
    let program = PathBuf::from(env!("CARGO_BIN_EXE_weftline-lab-test"));
    LabOptions { program, ..LabOptions::new(scenario, schemes).unwrap() }
}

/// Runs; `None`, after saying how to run the test, where the lab cannot run.
fn runs(options: &LabOptions) -> Option<Vec<RunRecord>> {
    runs_with(options, |_| true)
}

/// Runs, each of which has come to its end and is as wanted.
fn runs_with(options: &LabOptions, wanted: impl Fn(&RunRecord) -> bool) -> Option<Vec<RunRecord>> {
    let all_anew = || {
        if let Some(out) = &options.out {
            let _ = std::fs::remove_dir_all(out);
        }
        support::possible(run_many(options))
    };
    until_enough(all_anew, |records: &Vec<RunRecord>| {
        records.iter().all(|record| record.completed && record.error.is_none() && wanted(record))
    })
}

/// Runs for an attempt on a bound, which was disturbed if the emulator was late.
fn measured(attempt: &Attempt, options: &LabOptions) -> Option<Vec<RunRecord>> {
    let records = runs(options)?;
    if !records.iter().all(RunRecord::is_valid) {
        attempt.disturbed("the emulator was late");
    }
    Some(records)
}

const SCHEMES: [&str; 5] =
    ["single:slow", "single:fast", "linux-mptcp", "weft-single:fast", "fbdt"];

#[test]
fn every_scheme_runs_and_is_recorded() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let options = LabOptions { out: Some(out.path().to_owned()), ..options(TWO_PATHS, &SCHEMES) };
    // One that stands still after the warm-up has no delay.
    let has_carried = |record: &RunRecord| {
        record.bytes_delivered.is_some_and(|bytes| bytes > 0) && record.in_order_delay_ms.is_some()
    };
    let Some(records) = runs_with(&options, has_carried) else { return };
    let of = |records: &[RunRecord]| -> Vec<_> {
        records.iter().map(|record| (record.scheme.clone(), record.bytes_delivered)).collect()
    };
    assert_eq!(of(&read_runs(out.path()).unwrap()), of(&records));
    assert!(records.iter().map(|record| &record.scheme).eq(&SCHEMES));
    let series = std::fs::read_to_string(out.path().join("series.csv")).unwrap();
    assert!(series.lines().count() > 5 * 20, "a row for each 100 ms of each run");
    assert!(Scenario::load(&out.path().join("two-paths.toml")).is_ok());
    for record in &records {
        assert!(record.bytes_delivered.unwrap() > 0, "{record:?}");
        let paths: Vec<_> = record.paths.iter().map(|path| path.name.as_str()).collect();
        match record.scheme.rsplit_once(':') {
            Some((_, path)) => assert_eq!(paths, [path]),
            None => assert_eq!(paths, ["slow", "fast"]),
        }
        let delay = record.in_order_delay_ms.unwrap();
        assert!(delay.p50 >= 5.0 && delay.p50 <= delay.p99 && delay.p99 <= delay.max);
        assert!(record.cpu_seconds.unwrap() > 0.0 && record.peak_memory_bytes.unwrap() > 0);
    }
}

#[test]
fn a_sweep_makes_invalid_runs_again() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("two-paths.toml"), TWO_PATHS).unwrap();
    let text = "scenario = 'two-paths.toml'\nscheme = 'single:fast'\nseed = [1, 2]\nwarmup = '0s'\n\
                duration = '1s'\n";
    let options = SweepOptions {
        sweep: Sweep::parse("mine.toml", text, Some(dir.path())).unwrap(),
        out: dir.path().join("out"),
        jobs: 1,
        json: false,
        quiet: false,
        version: "0.1.0+0123456789ab".to_owned(),
        program: PathBuf::from(env!("CARGO_BIN_EXE_weftline-lab-test")),
    };
    let completed = |runs: &[RunRecord]| runs.iter().all(|run| run.completed);
    let both = || {
        let _ = std::fs::remove_dir_all(&options.out);
        let mut told = support::possible(run_sweep(&options))?;
        if !completed(&told) {
            return Some((told, Vec::new()));
        }
        assert!(told.iter().all(|run| run.version == options.version), "{told:?}");
        // Whether the machine kept them valid or not: now one is and one is not.
        for (run, valid) in told.iter_mut().zip([true, false]) {
            run.emulator.as_mut().unwrap().valid = valid;
            run.goodput_mbps = Some(-1.0);
        }
        let lines = told.iter().map(|run| serde_json::to_string(run).unwrap() + "\n");
        std::fs::write(options.out.join("runs.jsonl"), lines.collect::<String>()).unwrap();
        Some((told, support::possible(run_sweep(&options)).unwrap()))
    };
    let made = until_enough(both, |(told, again)| completed(told) && completed(again));
    let Some((told, again)) = made else { return };
    assert_eq!(again, read_runs(&options.out).unwrap());
    assert_eq!(again.iter().map(|run| run.seed).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(again[0], told[0], "what counts stays");
    assert!(again[1].goodput_mbps.unwrap() >= 0.0, "what does not is measured anew");
    let mut series = SeriesReader::open(&options.out).unwrap();
    let mut firsts = [0, 0];
    while let Some(row) = series.next_row().unwrap() {
        let sample = row.sample;
        let is_first = sample.time_s == 0.1 && sample.path.is_empty();
        firsts[row.run] += usize::from(is_first && sample.metric == "goodput_mbps");
    }
    assert_eq!(firsts, [1, 1], "each run has its own series, once");
}

#[test]
fn runs_with_another_cut_want_another_directory() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let mut options = options(TWO_PATHS, &["single:fast"]);
    options.scenario.duration = Duration::from_secs(1);
    options.scenario.warmup = Duration::ZERO;
    options.out = Some(out.path().to_owned());
    if runs(&options).is_none() {
        return;
    }
    for (cut, words) in [
        ("slow@500ms..", "have --cut '', not 'slow@500ms..'"),
        ("slow@1s..", "slow@1s.. begins when the run of 1s is over"),
    ] {
        options.cuts = vec![cut.parse().unwrap()];
        let error = run_many(&options).unwrap_err();
        assert!(matches!(error, LabError::Usage(_)), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(read_runs(out.path()).unwrap().len(), 1);
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn schemes_carry_what_their_paths_do() {
    let _alone = alone();
    verdict("schemes carry what their paths do", |attempt| {
        let records = measured(attempt, &options(TWO_PATHS, &SCHEMES))?;
        // A young kernel MPTCP connection may leave a path idle for a while; the others may not.
        for (record, (mbps, least)) in
            records.iter().zip([(10.0, 0.95), (30.0, 0.95), (40.0, 0.6), (30.0, 0.9), (40.0, 0.9)])
        {
            let full = mbps * TCP_SHARE;
            let goodput = record.goodput_mbps.unwrap();
            // What waited behind a loss when the warm-up ended is delivered after it: up to a round
            // trip's worth, which with a full queue is 100 ms of the 2 s that count.
            assert!((least * full..1.06 * full).contains(&goodput), "{record:?}");
            let carried: f64 = record.paths.iter().map(|path| path.goodput_mbps.unwrap()).sum();
            assert!(carried > 0.98 * goodput, "the links carried it: {record:?}");
        }
        Some(())
    });
}

/// Options for one connection with a workload.
fn workload(text: &str) -> LabOptions {
    let mut options = options(TWO_PATHS, &["single:fast"]);
    options.scenario.workload = text.parse().unwrap();
    options
}

#[test]
fn every_workload_delivers_what_it_says() {
    let _alone = alone();
    for (text, bytes) in
        [("transfer:50kB", Some(50_000)), ("burst:50kB", Some(50_000)), ("cbr:10Mbps", None)]
    {
        let mut options = workload(text);
        if bytes.is_some() {
            // They end with the last byte, however long it takes.
            options.scenario.duration = Duration::from_secs(300);
        }
        let has_carried = |record: &RunRecord| record.bytes_delivered.unwrap() > 0;
        let Some(records) = runs_with(&options, has_carried) else { return };
        let record = &records[0];
        assert_eq!(record.completion_s.is_some(), bytes.is_some(), "{record:?}");
        // No byte comes earlier than its path lets it.
        assert!(record.in_order_delay_ms.is_none_or(|delay| delay.p50 >= 10.0), "{record:?}");
        assert!(record.completion_s.is_none_or(|time| time >= 0.02), "{record:?}");
    }
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn constant_rate_arrives_with_the_delay_of_the_path() {
    let _alone = alone();
    verdict("constant rate arrives with the delay of the path", |attempt| {
        let record = &measured(attempt, &workload("cbr:10Mbps"))?[0];
        let goodput = record.goodput_mbps.unwrap();
        assert!((9.9..10.1).contains(&goodput), "{record:?}");
        // 10 ms of propagation, a block of 1250 bytes at 30 Mb/s, and hardly a queue.
        let delay = record.in_order_delay_ms.unwrap();
        assert!((10.3..12.0).contains(&delay.p50), "{record:?}");
        assert!(record.longest_gap_ms.unwrap() < 500.0, "{record:?}");
        Some(())
    });
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn a_warm_connection_is_faster_than_a_new_one() {
    let _alone = alone();
    verdict("a warm connection is faster than a new one", |attempt| {
        let time = |text| Some(measured(attempt, &workload(text))?[0].completion_s.unwrap());
        let (cold, warm) = (time("transfer:50kB")?, time("burst:50kB")?);
        // A new connection: one round trip of 20 ms to connect, one to ask, and slow start from 10
        // segments takes one more. 50 kB take 14 ms at 30 Mb/s.
        assert!((0.060..0.120).contains(&cold), "{cold}");
        // A warm one: one round trip, and the window is open.
        assert!((0.033..0.060).contains(&warm), "{warm}");
        Some(())
    });
}

/// The real program over one path and over kernel MPTCP.
fn iperf3() -> LabOptions {
    let mut options = options(TWO_PATHS, &["single:fast", "linux-mptcp"]);
    options.scenario.workload = Workload::Iperf3;
    options
}

#[test]
fn the_real_iperf3_runs_over_tcp_and_mptcp() {
    let _alone = alone();
    let has_carried = |record: &RunRecord| record.goodput_mbps.unwrap() > 0.0;
    let Some(records) = runs_with(&iperf3(), has_carried) else { return };
    assert_eq!(records.len(), 2);
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn the_real_iperf3_measures_the_same() {
    let _alone = alone();
    verdict("the real iperf3 measures the same", |attempt| {
        let records = measured(attempt, &iperf3())?;
        for (record, least) in records.iter().zip([0.95 * 30.0, 0.6 * 40.0]) {
            let carried = record.goodput_mbps.unwrap() > least * TCP_SHARE;
            assert!(carried, "{record:?}");
        }
        Some(())
    });
}

/// A transfer over a path that dies in the middle of it.
fn dead_end() -> LabOptions {
    let text = r#"
name = "dead-end"
duration = "1500ms"

[[path]]
name = "dying"
loss = [{ at = "0s", rate = 0.0 }, { at = "300ms", rate = 1.0 }]
rate = "10Mbps"
delay = "5ms"

[workload]
kind = "transfer:10MB"
"#;
    options(text, &["single:dying"])
}

#[test]
fn a_stalled_transfer_is_a_result() {
    let _alone = alone();
    let Some(records) = support::possible(run_many(&dead_end())) else { return };
    let record = &records[0];
    assert!(!record.completed);
    let error = record.error.as_deref().unwrap();
    assert!(error.contains("time limit"), "{error}");
    assert!(record.bytes_delivered.unwrap() < 10_000_000, "{record:?}");
    assert_eq!(record.completion_s, None);
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn what_came_before_a_stall_is_counted() {
    let _alone = alone();
    verdict("what came before a stall is counted", |_| {
        let record = &support::possible(run_many(&dead_end()))?[0];
        let bytes = record.bytes_delivered.unwrap();
        assert!((100_000..10_000_000).contains(&bytes), "{record:?}");
        Some(())
    });
}

#[test]
fn a_scheme_whose_program_fails_is_a_result() {
    let _alone = alone();
    let program = PathBuf::from("/bin/false");
    let options = LabOptions { program, ..options(TWO_PATHS, &["single:slow"]) };
    let Some(records) = support::possible(run_many(&options)) else { return };
    let error = records[0].error.as_deref().unwrap();
    assert!(error.starts_with("the sender: it ended too early"), "{error}");
}

/// What the link `path` delivered per 100 ms, from `series.csv` of a single run.
fn delivered(out: &Path, path: &str) -> Vec<f64> {
    let mut reader = SeriesReader::open(out).unwrap();
    let mut values = Vec::new();
    while let Some(row) = reader.next_row().unwrap() {
        if row.sample.path == path && row.sample.metric == "goodput_mbps" {
            values.push(row.sample.value);
        }
    }
    values
}

const CUTS: [&str; 3] = ["fast@1500ms..3s", "fast/up@1500ms..3s", "fast/down@1500ms..3s"];

/// A run with a cut, and what the fast path delivered in it per 100 ms.
fn with_cut(cut: &str, seconds: u64) -> Option<(RunRecord, Vec<f64>)> {
    let out = tempfile::tempdir().unwrap();
    // Queues of one bandwidth-delay product, not to wait for the reinjection behind full ones.
    let text = TWO_PATHS.replace("200packets", "1bdp");
    let mut options = options(&text, &["fbdt"]);
    options.scenario.duration = Duration::from_secs(seconds);
    options.cuts = vec![cut.parse().unwrap()];
    options.out = Some(out.path().to_owned());
    let records = runs(&options)?;
    Some((records[0].clone(), delivered(out.path(), "fast")))
}

/// While the near path alone is used, its few bytes in flight need next to no memory and window at
/// either end. Both grow for the far path all the same.
#[test]
fn a_satellite_is_used_beside_a_near_line() {
    let _alone = alone();
    let out = tempfile::tempdir().unwrap();
    let text = r#"
        name = "satellite"
        duration = "6s"
        [[path]]
        name = "near"
        rate = "100Mbps"
        delay = "5ms"
        [[path]]
        name = "far"
        rate = "20Mbps"
        delay = "300ms"
    "#;
    let mut options = options(text, &["earliest"]);
    options.out = Some(out.path().to_owned());
    let far = || {
        runs(&options)?;
        // A 100 ms at a time.
        Some(delivered(out.path(), "far").iter().map(|mbps| mbps / 8.0 / 10.0).sum())
    };
    // In MB; unused, it carried 14 kB, the initial window.
    let _ = until_enough(far, |far: &f64| *far > 0.2);
}

#[test]
fn a_cut_path_is_used_again() {
    let _alone = alone();
    for cut in CUTS {
        let carries = |fast: &[f64]| fast.iter().any(|&mbps| mbps > 0.0);
        // It carries before the cut, and a while after it.
        let made = until_enough(
            || with_cut(cut, 6),
            |(record, fast)| {
                record.bytes_delivered.unwrap() > 0 && carries(&fast[..15]) && carries(&fast[30..])
            },
        );
        if made.is_none() {
            return;
        }
    }
}

/// A cut path costs at most the time of the reinjection, and carries again soon after it is back.
#[test]
#[ignore = "has a bound of time: make test-lab"]
fn a_cut_path_is_survived_and_used_again() {
    let _alone = alone();
    for cut in CUTS {
        verdict(&format!("a cut is survived: {cut}"), |attempt| {
            let (record, fast) = with_cut(cut, 5)?;
            if !record.is_valid() {
                attempt.disturbed("the emulator was late");
            }
            // The targets: max(200 ms, 3 × the larger RTT); first byte within 300 ms + 2 RTT.
            assert!(record.longest_gap_ms.unwrap() <= 200.0, "{cut}: {record:?}");
            if !cut.contains("/up") {
                assert!(fast[16..30].iter().all(|&mbps| mbps == 0.0), "{cut}: {fast:?}");
            }
            assert!(fast[30..34].iter().any(|&mbps| mbps > 0.0), "{cut}: {fast:?}");
            Some(())
        });
    }
}

#[test]
fn wrong_use_is_refused() {
    let unknown_path = options(TWO_PATHS, &["single:other"]);
    assert!(matches!(run_many(&unknown_path), Err(LabError::Usage(_))));
    let mut unknown_cut = options(TWO_PATHS, &["fbdt"]);
    unknown_cut.cuts = vec!["other@1s..2s".parse().unwrap()];
    assert!(matches!(run_many(&unknown_cut), Err(LabError::Usage(_))));
    let long = TWO_PATHS.replace("slow", "a-name-that-is-too-long");
    let result = run_many(&options(&long, &["single:fast", "linux-mptcp"]));
    match result {
        Err(error @ LabError::Usage(_)) => assert_eq!(error.exit_code(), 2),
        Err(LabError::NotPossible { .. }) => {}
        other => panic!("{other:?}"),
    }
    assert_eq!(options(TWO_PATHS, &["fbdt"]).scenario.duration, Duration::from_secs(3));
}
