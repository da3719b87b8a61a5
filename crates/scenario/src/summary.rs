//! Runs laid side by side: means with confidence intervals, ratios and shares per scheme.

use std::collections::{BTreeMap, BTreeSet};

use crate::mean::{MeanCi, mean_ci95};
use crate::ratio::{paired_ratio, ratios_among};
use crate::{DelayMs, RunRecord};

/// The schemes of one experiment side by side: one scenario, backend, workload, congestion control
/// and encryption.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The scenario's name.
    pub scenario: String,
    /// `"lab"` or `"sim"`.
    pub backend: String,
    /// The workload.
    pub workload: String,
    /// The congestion control.
    pub congestion: String,
    /// Whether connections were encrypted.
    pub tls: bool,
    /// The scheme that the others are compared with pair by pair, if it is among them: see
    /// [`ComparisonRow::ratio_to_baseline`].
    pub baseline: Option<String>,
    /// One row per scheme, in the order in which they first ran.
    pub rows: Vec<ComparisonRow>,
}

/// What schemes are compared with, the first that there is: what a kernel does by itself, in the lab
/// and in the simulator, and the rule that most others build on.
const BASELINES: [&str; 3] = ["linux-mptcp", "linux", "min-rtt"];

/// What the runs of one scheme have to say. Means are over the valid runs that have the value.
#[derive(Clone, Debug, PartialEq)]
pub struct ComparisonRow {
    /// The scheme's name.
    pub scheme: String,
    /// The numbers of its runs in the list of records.
    pub runs: Vec<usize>,
    /// The kernels of the guests that they ran in ([`RunRecord::guest_kernel`]), each once; none if they
    /// ran in none.
    pub guest_kernels: Vec<String>,
    /// How many runs did not complete.
    pub failed: usize,
    /// How many runs do not count because the emulator was late.
    pub invalid: usize,
    /// In-order goodput.
    pub goodput_mbps: Option<MeanCi>,
    /// Goodput ÷ the sum of the goodputs of `single:*` over all paths, run by run, where as much as goes is
    /// sent ([`ratios`](crate::ratios)).
    pub ratio_to_sum: Option<MeanCi>,
    /// Completion time, or else goodput, ÷ that of the baseline with the same seed, pair by pair
    /// ([`paired_ratio`]).
    pub ratio_to_baseline: Option<MeanCi>,
    /// Time that a transfer or burst took.
    pub completion_s: Option<MeanCi>,
    /// Median in-order delay.
    pub delay_p50_ms: Option<MeanCi>,
    /// 95th percentile of the in-order delay.
    pub delay_p95_ms: Option<MeanCi>,
    /// 99th percentile of the in-order delay.
    pub delay_p99_ms: Option<MeanCi>,
    /// Longest time without delivery.
    pub longest_gap_ms: Option<MeanCi>,
    /// Duplicates as a share of the bytes sent, 0 to 1.
    pub duplicate_share: Option<MeanCi>,
    /// Packets sent again.
    pub retransmitted_packets: Option<MeanCi>,
    /// Processor seconds per 10^9 bytes.
    pub cpu_seconds_per_gb: Option<MeanCi>,
}

impl Comparison {
    /// Groups `records` into comparisons, in the order in which they first appear. A run that was
    /// made twice counts once: see [`latest`].
    pub fn all(records: &[RunRecord]) -> Vec<Self> {
        let mut groups: Vec<(&RunRecord, Vec<usize>)> = Vec::new();
        for run in latest(records) {
            let record = &records[run];
            match groups.iter_mut().find(|(first, _)| experiment(first) == experiment(record)) {
                Some((_, runs)) => runs.push(run),
                None => groups.push((record, vec![run])),
            }
        }
        groups.into_iter().map(|(first, runs)| Self::one(first, &runs, records)).collect()
    }

    /// What a reader must know of the rows whose runs were made in guests; `None` if none was. CPU seconds
    /// of these rows are to be marked with an asterisk, with which the note begins.
    pub fn guest_note(&self) -> Option<String> {
        note(self.rows.iter().map(|row| (row.scheme.as_str(), row.guest_kernels.clone())))
    }

    fn one(first: &RunRecord, runs: &[usize], records: &[RunRecord]) -> Self {
        let mut schemes: Vec<(&str, Vec<usize>)> = Vec::new();
        for &run in runs {
            let name = records[run].scheme.as_str();
            match schemes.iter_mut().find(|(scheme, _)| *scheme == name) {
                Some((_, runs)) => runs.push(run),
                None => schemes.push((name, vec![run])),
            }
        }
        let ratios = ratios_among(records, runs.iter().copied());
        let ratios: BTreeMap<usize, f64> =
            ratios.iter().map(|ratio| (ratio.run, ratio.to_sum)).collect();
        let runs_of = |name: &str| schemes.iter().find(|(scheme, _)| *scheme == name);
        let baseline = BASELINES.into_iter().find_map(runs_of).cloned();
        let to = baseline.as_ref().map_or(&[][..], |(_, runs)| runs.as_slice());
        let row = |(scheme, runs)| ComparisonRow::new(scheme, runs, records, &ratios, to);
        Self {
            baseline: baseline.as_ref().map(|(name, _)| (*name).to_owned()),
            scenario: first.scenario.clone(),
            backend: first.backend.clone(),
            workload: first.workload.clone(),
            congestion: first.congestion.clone(),
            tls: first.tls,
            rows: schemes.into_iter().map(row).collect(),
        }
    }
}

/// The places of the records that count, in the order in which their runs first appear: of a run
/// that was made twice, with the same seed and all, the last record. Counted twice, it would make
/// an interval of equal values.
pub fn latest(records: &[RunRecord]) -> Vec<usize> {
    let mut known = BTreeMap::new();
    let mut places = Vec::new();
    for (place, record) in records.iter().enumerate() {
        let at = *known.entry(record.run_id()).or_insert(places.len());
        match places.get_mut(at) {
            Some(earlier) => *earlier = place,
            None => places.push(place),
        }
    }
    places
}

/// The note of [`Comparison::guest_note`] for runs of any experiments.
pub fn guest_note<'a>(runs: impl IntoIterator<Item = &'a RunRecord>) -> Option<String> {
    note(runs.into_iter().map(|run| (run.scheme.as_str(), kernels(std::iter::once(run)))))
}

/// The guests' kernels of these runs, each once.
fn kernels<'a>(runs: impl Iterator<Item = &'a RunRecord>) -> Vec<String> {
    let kernels: BTreeSet<&String> = runs.filter_map(|run| run.guest_kernel.as_ref()).collect();
    kernels.into_iter().cloned().collect()
}

/// Of schemes with their guests' kernels.
fn note<'a>(schemes: impl Iterator<Item = (&'a str, Vec<String>)>) -> Option<String> {
    let (mut names, mut all) = (Vec::new(), BTreeSet::new());
    for (scheme, kernels) in schemes.filter(|(_, kernels)| !kernels.is_empty()) {
        if !names.contains(&scheme) {
            names.push(scheme);
        }
        all.extend(kernels);
    }
    let all: Vec<String> = all.into_iter().collect();
    (!names.is_empty()).then(|| {
        format!(
            "* {} ran in a guest, an emulated machine with virtual time: Linux {}. Its CPU seconds are \
             not the host's.",
            names.join(", "),
            all.join(", ")
        )
    })
}

/// What runs must have in common to be compared.
fn experiment(record: &RunRecord) -> (&str, &str, &str, &str, bool) {
    let RunRecord { scenario, backend, workload, congestion, tls, .. } = record;
    (scenario, backend, workload, congestion, *tls)
}

impl ComparisonRow {
    fn new(
        scheme: &str,
        runs: Vec<usize>,
        records: &[RunRecord],
        ratios: &BTreeMap<usize, f64>,
        baseline: &[usize],
    ) -> Self {
        let of_scheme = || runs.iter().map(|&run| &records[run]);
        let mean = |value: &dyn Fn(&RunRecord) -> Option<f64>| {
            let valid = of_scheme().filter(|record| record.is_valid());
            mean_ci95(&valid.filter_map(value).collect::<Vec<_>>())
        };
        let to_sum = runs.iter().filter_map(|run| ratios.get(run).copied()).collect::<Vec<_>>();
        let timed = of_scheme().any(|record| record.completion_s.is_some());
        let to_baseline = || {
            let to = baseline.iter().map(|&run| &records[run]);
            paired_ratio(
                of_scheme(),
                to,
                |record| record.seed,
                |record| match timed {
                    true => record.completion_s,
                    false => record.goodput_mbps,
                },
            )
        };
        let delay = |of: fn(DelayMs) -> f64| mean(&|record| record.in_order_delay_ms.map(of));
        Self {
            scheme: scheme.to_owned(),
            failed: of_scheme().filter(|record| record.has_failed()).count(),
            invalid: of_scheme().filter(|record| !record.is_valid()).count(),
            goodput_mbps: mean(&|record| record.goodput_mbps),
            ratio_to_sum: mean_ci95(&to_sum),
            ratio_to_baseline: to_baseline().filter(|_| runs != baseline),
            completion_s: mean(&|record| record.completion_s),
            delay_p50_ms: delay(|delay| delay.p50),
            delay_p95_ms: delay(|delay| delay.p95),
            delay_p99_ms: delay(|delay| delay.p99),
            longest_gap_ms: mean(&|record| record.longest_gap_ms),
            duplicate_share: mean(&RunRecord::duplicate_share),
            retransmitted_packets: mean(&|record| Some(record.retransmitted_packets()? as f64)),
            cpu_seconds_per_gb: mean(&RunRecord::cpu_seconds_per_gb),
            guest_kernels: kernels(of_scheme()),
            runs,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{EmulatorRecord, PathRecord};

    fn run(scheme: &str, seed: u64, goodput: f64) -> RunRecord {
        let paths = match scheme.strip_prefix("single:") {
            Some(path) => vec![path],
            None => vec!["wifi", "wigig"],
        };
        let path = |name: &str| PathRecord { name: name.to_owned(), ..PathRecord::default() };
        RunRecord {
            scenario: "demo".to_owned(),
            scheme: scheme.to_owned(),
            workload: "bulk".to_owned(),
            seed,
            completed: true,
            goodput_mbps: Some(goodput),
            paths: paths.into_iter().map(path).collect(),
            ..RunRecord::default()
        }
    }

    #[test]
    fn rows_of_a_guest_are_marked() {
        let guest = |scheme: &str, seed, kernel: &str| RunRecord {
            guest_kernel: Some(kernel.to_owned()),
            cpu_seconds: Some(2.0),
            bytes_delivered: Some(1_000_000_000),
            ..run(scheme, seed, 40.0)
        };
        let host = RunRecord {
            cpu_seconds: Some(3.0),
            bytes_delivered: Some(1_000_000_000),
            ..run("linux-mptcp", 1, 40.0)
        };
        let mut records = vec![host, guest("linux-default", 1, "6.12.1 (a)")];
        records.push(guest("linux-fbdt", 1, "6.12.1 (a)"));
        records.push(guest("linux-fbdt", 2, "6.12.2 (b)"));
        let comparisons = Comparison::all(&records);
        let note = "* linux-default, linux-fbdt ran in a guest, an emulated machine with virtual time: \
                    Linux 6.12.1 (a), 6.12.2 (b). Its CPU seconds are not the host's.";
        assert_eq!(comparisons[0].guest_note().as_deref(), Some(note));
        assert_eq!(guest_note(&records).as_deref(), Some(note));
        assert_eq!(guest_note(&records[..1]), None);
        let table = crate::render_table(&comparisons);
        assert!(table.ends_with(&format!("\n{note}")), "{table}");
        let line = |scheme: &str| {
            let own = |line: &&str| line.trim_start().starts_with(scheme);
            table.lines().find(own).expect("it has a row").to_owned()
        };
        assert!(
            line("linux-mptcp").contains(" 3.00 ") && line("linux-default").contains(" 2.00* ")
        );
        let none = crate::render_table(&Comparison::all(&records[..1]));
        assert!(!none.contains('*'), "{none}");
    }

    #[test]
    fn the_interval_is_students() {
        assert_eq!(mean_ci95(&[]), None);
        let one = mean_ci95(&[5.0]).unwrap();
        assert_eq!((one.mean, one.half_width, one.count), (5.0, None, 1));
        // Mean 2, deviation 1, so t(2) ÷ √3.
        let three = mean_ci95(&[1.0, 2.0, 3.0]).unwrap();
        assert_eq!(three.mean, 2.0);
        assert!((three.half_width.unwrap() - 4.303 / 3.0_f64.sqrt()).abs() < 1e-12);
        let many: Vec<f64> = (0..61).map(|k| f64::from(k % 2)).collect();
        let deviation = (30.0 * 31.0 / 61.0 / 60.0_f64).sqrt();
        let width = mean_ci95(&many).unwrap().half_width.unwrap();
        assert!((width / (2.000 * deviation / 61.0_f64.sqrt()) - 1.0).abs() < 0.002, "{width}");
    }

    #[test]
    fn ratios_pair_runs_of_one_seed() {
        let records = [
            run("single:wifi", 1, 400.0),
            run("single:wigig", 1, 600.0),
            run("fbdt", 1, 990.0),
            run("single:wifi", 2, 400.0),
            run("single:wigig", 2, 1600.0),
            run("fbdt", 2, 1940.0),
            run("fbdt", 3, 7.0),
        ];
        let comparisons = Comparison::all(&records);
        assert_eq!(comparisons.len(), 1);
        let row = |scheme: &str| {
            comparisons[0].rows.iter().find(|row| row.scheme == scheme).unwrap().clone()
        };
        let ratio = row("fbdt").ratio_to_sum.unwrap();
        assert!((ratio.mean - 0.98).abs() < 1e-12 && ratio.count == 2, "{ratio:?}");
        let share = row("single:wifi").ratio_to_sum.unwrap().mean;
        assert!((share - 0.3).abs() < 1e-12, "{share}");
        assert_eq!(row("fbdt").runs, [2, 5, 6]);
    }

    #[test]
    fn schemes_are_compared_with_the_baseline_pair_by_pair() {
        let records: Vec<RunRecord> = (1..=3)
            .flat_map(|seed| {
                let mbps = 100.0 * (seed * seed) as f64;
                [run("linux-mptcp", seed, mbps), run("fbdt", seed, 1.2 * mbps), run("ecf", 9, 1.0)]
            })
            .collect();
        let comparison = &Comparison::all(&records)[0];
        assert_eq!(comparison.baseline.as_deref(), Some("linux-mptcp"));
        let ratio = |place: usize| comparison.rows[place].ratio_to_baseline;
        let fbdt = ratio(1).unwrap();
        assert!((fbdt.mean - 1.2).abs() < 1e-12 && fbdt.half_width.unwrap() < 1e-12, "{fbdt:?}");
        assert_eq!((ratio(0), ratio(2)), (None, None), "itself, and no seed in common");
        // Unpaired, the intervals of the two means overlap.
        let wide = |place: usize| comparison.rows[place].goodput_mbps.unwrap().half_width.unwrap();
        assert!(wide(0) > 500.0 && wide(1) > 500.0);
    }

    #[test]
    fn a_run_that_was_made_twice_counts_once() {
        let records = [
            run("fbdt", 1, 10.0),
            run("fbdt", 1, 20.0),
            RunRecord { backend: "sim".to_owned(), ..run("fbdt", 1, 5.0) },
            RunRecord { case: [("a".to_owned(), "1".to_owned())].into(), ..run("fbdt", 1, 40.0) },
        ];
        assert_eq!(latest(&records), [1, 2, 3]);
        let comparisons = Comparison::all(&records[..2]);
        let row = &comparisons[0].rows[0];
        let mean = MeanCi { mean: 20.0, half_width: None, count: 1 };
        assert_eq!((&row.runs[..], row.goodput_mbps), (&[1][..], Some(mean)));
    }

    #[test]
    fn invalid_runs_count_for_nothing_and_failed_ones_are_counted() {
        let late = EmulatorRecord { late_over_1ms_share: 0.2, valid: false };
        let records = [
            run("fbdt", 1, 100.0),
            RunRecord { emulator: Some(late), ..run("fbdt", 2, 1.0) },
            RunRecord { completed: false, ..run("fbdt", 3, 50.0) },
            RunRecord { congestion: "bbr".to_owned(), ..run("fbdt", 1, 9.0) },
            RunRecord {
                error: Some("it broke its contract".to_owned()),
                goodput_mbps: None,
                ..run("fbdt", 4, 0.0)
            },
        ];
        let comparisons = Comparison::all(&records);
        assert_eq!(comparisons.len(), 2);
        let row = &comparisons[0].rows[0];
        assert_eq!((row.failed, row.invalid, row.ratio_to_sum), (2, 1, None));
        assert_eq!(row.goodput_mbps.unwrap().mean, 75.0);
    }
}
