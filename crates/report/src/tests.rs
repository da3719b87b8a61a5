//! Reports from synthetic results: all that a record can say is shown, and nothing breaks the page.

use std::fs;
use std::path::Path;

use weftline_scenario::{
    Bundle, DelayMs, EmulatorRecord, PathRecord, ResultsWriter, RunRecord, Sample, Scenario,
};

use crate::{ReportError, write_report};

const PATHS: [&str; 2] = ["wifi", "wigig"];

/// A run of `scheme` that carries `share` of the demo's capacity, with its series.
fn write(writer: &mut ResultsWriter, scenario: &Scenario, scheme: &str, seed: u64, share: f64) {
    let used: Vec<&str> = match scheme.strip_prefix("single:") {
        Some(path) => vec![path],
        None => PATHS.to_vec(),
    };
    let mut samples = Vec::new();
    let mut total = 0.0;
    let steps = (scenario.duration.as_millis() / 100) as u32;
    for step in 0..steps {
        let time = std::time::Duration::from_millis(100) * step;
        let time_s = f64::from(step + 1) / 10.0;
        let mut goodput = 0.0;
        for path in PATHS {
            let trace = scenario.path(path).unwrap().down_trace(seed, scenario.duration);
            let end = time + std::time::Duration::from_millis(100);
            let capacity = trace.bytes_between(time, end).as_u64() as f64 * 8e-5;
            samples.push(Sample { time_s, path, metric: "capacity_mbps", value: capacity });
            if used.contains(&path) {
                let value = capacity * share * (0.97 + 0.03 * (f64::from(step) * 0.7).sin());
                samples.push(Sample { time_s, path, metric: "goodput_mbps", value });
                goodput += value;
            }
        }
        samples.push(Sample { time_s, path: "", metric: "goodput_mbps", value: goodput });
        total += goodput / f64::from(steps);
    }
    let path = |name: &&str| PathRecord {
        name: (*name).to_owned(),
        bytes_sent: Some((total * 125_000.0 * 15.0) as u64),
        retransmitted_packets: Some(100 * seed),
        ..PathRecord::default()
    };
    let record = RunRecord {
        schema: 1,
        backend: "lab".to_owned(),
        scenario: scenario.name.clone(),
        scheme: scheme.to_owned(),
        congestion: "cubic".to_owned(),
        workload: "bulk".to_owned(),
        seed,
        duration_s: 15.0,
        warmup_s: 1.0,
        completed: true,
        goodput_mbps: Some(total),
        bytes_delivered: Some((total * 125_000.0 * 15.0) as u64),
        in_order_delay_ms: Some(DelayMs { p50: 4.1, p95: 9.0, p99: 14.2 / share, max: 40.0 }),
        longest_gap_ms: Some(38.0 / share),
        duplicate_bytes: Some((total * 500.0) as u64),
        cpu_seconds: Some(3.2),
        paths: used.iter().map(path).collect(),
        emulator: Some(EmulatorRecord { late_over_1ms_share: 0.0001, valid: true }),
        version: "0.1.0".to_owned(),
        ..RunRecord::default()
    };
    writer.write_run(&record, &samples).unwrap();
}

/// Results of two scenarios with a failed, an invalid and an oddly named run among them.
fn write_results(dir: &Path) {
    let mut writer = ResultsWriter::open(dir).unwrap();
    for name in ["demo", "fbdt-blackout"] {
        let scenario = Scenario::find(name).unwrap();
        writer.begin(&Bundle::of_runs(&scenario, "0.1.0")).unwrap();
        for seed in 1..4 {
            for (scheme, share) in [
                ("single:wifi", 0.96),
                ("single:wigig", 0.95),
                ("linux-mptcp", 0.84),
                ("min-rtt", 0.9),
                ("fbdt", 0.94),
            ] {
                let share = share * (1.0 + 0.004 * seed as f64);
                write(&mut writer, &scenario, scheme, seed, share);
            }
        }
    }
    let odd = RunRecord {
        schema: 1,
        backend: "lab".to_owned(),
        scenario: "demo".to_owned(),
        scheme: "<script>alert('&')</script>".to_owned(),
        congestion: "cubic".to_owned(),
        workload: "bulk".to_owned(),
        seed: 1,
        duration_s: 15.0,
        warmup_s: 1.0,
        // An error is a failure, whatever else the record says.
        completed: true,
        error: Some("reset by \"peer\" <now>".to_owned()),
        version: "0.1.0".to_owned(),
        ..RunRecord::default()
    };
    writer.write_run(&odd, &[]).unwrap();
    let emulator = Some(EmulatorRecord { late_over_1ms_share: 0.034, valid: false });
    let late = RunRecord {
        scheme: "fbdt".to_owned(),
        seed: 4,
        completed: true,
        error: None,
        goodput_mbps: Some(1.0),
        emulator,
        ..odd
    };
    writer.write_run(&late, &[]).unwrap();
}

#[test]
fn a_report_shows_tables_figures_and_notes() {
    let dir = tempfile::tempdir().unwrap();
    write_results(dir.path());
    let file = write_report(dir.path(), &[]).unwrap();
    assert_eq!(file, dir.path().join("report.html"));
    let html = fs::read_to_string(file).unwrap();
    for wanted in [
        "32 runs in 2 experiments",
        "<h2>Overview</h2>",
        "WiFi beside a WiGig link that a passer-by blocks",
        "In-order goodput over time (seed 1)",
        "What each path delivered over time (seed 1)",
        "Distribution of the goodput of each second",
        "sum of single paths",
        "fbdt, seed 4 (run 31) does not count: the emulator was over 1 ms late for 3.40 %",
        "failed: reset by &quot;peer&quot; &lt;now&gt;",
        "(1 failed)",
        "seeds 1 to 4",
    ] {
        assert!(html.contains(wanted), "no {wanted}");
    }
    assert!(!html.contains("<script"), "text that is markup");
    assert!(!html.contains("NaN") && !html.contains("inf"), "a number that is none");
    for outside in ["http:", "https:", "url(", "@import", "src="] {
        assert!(!html.contains(outside), "{outside}: the page must stand alone");
    }
    balanced(&html);
    // For a look at the page: WEFTLINE_REPORT=/some/dir cargo test -p weftline-report
    if let Some(keep) = std::env::var_os("WEFTLINE_REPORT") {
        fs::write(Path::new(&keep).join("report.html"), html).unwrap();
    }
}

/// Checks that every element that is opened is closed, in order.
pub(crate) fn balanced(html: &str) {
    let mut open: Vec<&str> = Vec::new();
    let start = html.find("<html").unwrap();
    for tag in html[start..].split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("'<{tag}' does not end"));
        let name = tag.trim_start_matches('/').split([' ', '/']).next().unwrap();
        if tag.starts_with('/') {
            assert_eq!(open.pop(), Some(name), "</{name}> closes another element");
        } else if !tag.ends_with('/') && name != "meta" {
            open.push(name);
        }
    }
    assert_eq!(open, Vec::<&str>::new(), "elements left open");
}

#[test]
fn a_report_needs_runs_but_no_series() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(write_report(dir.path(), &[]), Err(ReportError::Results(_))));
    fs::write(dir.path().join("runs.jsonl"), "").unwrap();
    let error = write_report(dir.path(), &[]).unwrap_err();
    assert!(matches!(error, ReportError::NoRuns(_)), "{error}");
    write_results(dir.path());
    fs::remove_file(dir.path().join("series.csv")).unwrap();
    let html = fs::read_to_string(write_report(dir.path(), &[]).unwrap()).unwrap();
    assert!(html.contains("fbdt-blackout") && !html.contains("over time"));
    balanced(&html);
}

#[test]
fn a_run_that_is_there_twice_counts_once() {
    let [dir, other] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let scenario = Scenario::find("demo").unwrap();
    for dir in [&dir, &other] {
        let mut writer = ResultsWriter::open(dir.path()).unwrap();
        write(&mut writer, &scenario, "linux-mptcp", 1, 0.5);
        write(&mut writer, &scenario, "fbdt", 1, 0.7);
        // Left as a process leaves it that was killed.
        write(&mut writer, &scenario, "linux-mptcp", 1, 0.9);
    }
    let data = crate::data::Data::read(dir.path(), &[other.path().to_owned()]).unwrap();
    let schemes: Vec<_> = data.records.iter().map(|run| run.scheme.as_str()).collect();
    assert_eq!(schemes, ["linux-mptcp", "fbdt"]);
    let goodput = data.comparisons[0].rows[0].goodput_mbps.unwrap();
    assert_eq!((goodput.count, goodput.half_width), (1, None));
    assert_eq!(Some(goodput.mean), data.records[0].goodput_mbps);
    // Each has the series that is its own.
    let first = |run: usize| data.series(run, "goodput_mbps", "")[0].1;
    assert!(first(0) > first(1), "{} {}", first(0), first(1));
}

#[test]
fn transfers_are_reported_by_their_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::open(dir.path()).unwrap();
    for (seed, time) in [(1, 0.151), (2, 0.163), (3, 0.157)] {
        let record = RunRecord {
            schema: 1,
            scenario: "x/../y".to_owned(),
            scheme: "fbdt".to_owned(),
            workload: "transfer:10MB".to_owned(),
            seed,
            completed: true,
            completion_s: Some(time),
            ..RunRecord::default()
        };
        writer.write_run(&record, &[]).unwrap();
    }
    let html = fs::read_to_string(write_report(dir.path(), &[]).unwrap()).unwrap();
    assert!(html.contains("Completion time, mean with 95 % confidence interval"));
    assert!(html.contains("0.157<span class=\"ci\"> ± 0.015</span>"), "mean and interval");
    balanced(&html);
}

#[test]
fn long_series_are_a_strip_for_each_scheme() {
    let dir = tempfile::tempdir().unwrap();
    let mut scenario = Scenario::find("demo").unwrap();
    scenario.duration = std::time::Duration::from_secs(25);
    let mut writer = ResultsWriter::open(dir.path()).unwrap();
    for scheme in ["linux-mptcp", "fbdt"] {
        write(&mut writer, &scenario, scheme, 1, 0.9);
    }
    let html = fs::read_to_string(write_report(dir.path(), &[]).unwrap()).unwrap();
    let strips = html.split("<div class=\"wide strips\">").nth(1).expect("strips");
    let strips = strips.split("</div>").next().unwrap();
    assert_eq!((strips.matches("<svg").count(), strips.matches("time (s)").count()), (2, 1));
    assert!(strips.contains("class=\"band s0\"") && strips.contains("class=\"band s1\""));
    balanced(&html);
    if let Some(keep) = std::env::var_os("WEFTLINE_REPORT") {
        fs::write(Path::new(&keep).join("long.html"), html).unwrap();
    }
}

#[test]
fn what_ran_in_a_guest_is_marked() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::open(dir.path()).unwrap();
    for (scenario, scheme, kernel) in [
        ("one", "linux-mptcp", None),
        ("one", "linux-fbdt", Some("6.12.1 (a<b)")),
        ("two", "linux-mptcp", None),
    ] {
        let record = RunRecord {
            schema: 1,
            backend: "lab".to_owned(),
            scenario: scenario.to_owned(),
            scheme: scheme.to_owned(),
            seed: 1,
            completed: true,
            goodput_mbps: Some(18.0),
            bytes_delivered: Some(1_000_000_000),
            cpu_seconds: Some(2.5),
            guest_kernel: kernel.map(str::to_owned),
            ..RunRecord::default()
        };
        writer.write_run(&record, &[]).unwrap();
    }
    let html = fs::read_to_string(write_report(dir.path(), &[]).unwrap()).unwrap();
    let note = "<p class=\"facts\">* linux-fbdt ran in a guest, an emulated machine with virtual \
                time: Linux 6.12.1 (a&lt;b).";
    assert_eq!(
        html.matches(note).count(),
        2,
        "below the overview and the table that has such a row"
    );
    assert_eq!(
        (html.matches("<td>2.50*</td>").count(), html.matches("<td>2.50</td>").count()),
        (1, 2)
    );
    balanced(&html);
}

#[test]
fn one_run_of_a_paced_source_has_a_delay_and_no_interval() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = ResultsWriter::open(dir.path()).unwrap();
    for (scheme, p99) in [("min-rtt", 14.0), ("fbdt", 9.0)] {
        let record = RunRecord {
            schema: 1,
            backend: "sim".to_owned(),
            scenario: "two".to_owned(),
            scheme: scheme.to_owned(),
            congestion: "cubic".to_owned(),
            workload: "cbr:18Mbps".to_owned(),
            seed: 1,
            duration_s: 10.0,
            completed: true,
            goodput_mbps: Some(18.0),
            in_order_delay_ms: Some(DelayMs { p50: 4.0, p95: 8.0, p99, max: 40.0 }),
            longest_gap_ms: Some(30.0),
            ..RunRecord::default()
        };
        writer.write_run(&record, &[]).unwrap();
    }
    let html = fs::read_to_string(write_report(dir.path(), &[]).unwrap()).unwrap();
    assert!(html.contains("<figcaption>In-order delay: median (filled)"));
    assert!(html.contains("<circle class=\"ring s0\""), "fbdt's 99th percentile");
    let captions: Vec<&str> = html.split("<figcaption>").skip(1).collect();
    let said = |text: &str| captions.iter().any(|c| c.split('<').next().unwrap().contains(text));
    assert!(said("Longest time without a byte, one run each") && !said("95 % confidence"));
    assert!(!html.contains("class=\"whisker\"") && !html.contains("class=\"ci\""));
    balanced(&html);
}
