//! What a scheme got of what its paths could give, and beside another scheme: always in pairs of
//! runs that meet the same links.

use std::collections::{BTreeMap, BTreeSet};

use crate::{MeanCi, RunRecord, Workload, mean_ci95};

/// A run's goodput beside those of the single paths in the same case and with the same seed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio<'a> {
    /// The place of the run in the list of records.
    pub run: usize,
    /// The run: its scheme, scenario, seed and case.
    pub record: &'a RunRecord,
    /// Goodput ÷ the sum of the goodputs of `single:*` over all paths.
    pub to_sum: f64,
    /// Goodput ÷ the largest of those.
    pub to_best: f64,
}

/// What runs must have in common to be compared one by one.
type Case<'a> = (
    [&'a str; 4], // backend, scenario, workload, congestion control
    bool,
    u64,
    &'a BTreeMap<String, String>,
);

fn case_of(record: &RunRecord) -> Case<'_> {
    let RunRecord { backend, scenario, workload, congestion, tls, seed, case, .. } = record;
    ([backend, scenario, workload, congestion], *tls, *seed, case)
}

/// The paths of one case, and the goodputs that each had alone.
#[derive(Default)]
struct Alone<'a> {
    paths: BTreeSet<&'a str>,
    goodputs: BTreeMap<&'a str, f64>,
}

impl Alone<'_> {
    /// Sum and largest over all paths; `None` if a path did not run alone.
    fn sum_and_best(&self) -> Option<(f64, f64)> {
        let all: Option<Vec<f64>> =
            self.paths.iter().map(|path| self.goodputs.get(path).copied()).collect();
        let all = all?;
        let best = all.iter().copied().fold(0.0, f64::max);
        let sum: f64 = all.iter().sum();
        (best > 0.0 && sum.is_finite()).then_some((sum, best))
    }
}

/// The ratios of all runs, in the order of `records`, each of which is of another run
/// ([`latest`](crate::latest)).
///
/// A run has ratios if it sent as much as went (`bulk`, `iperf3`), has a goodput and its emulator was in
/// time, and each path of its case ran alone (`single:*`) to its end with the same seed, congestion
/// control, workload, backend and values of a sweep. Those of the single paths are their shares. Of what is
/// offered at a rate each path alone may carry all, and a transfer has no time to use them.
pub fn ratios(records: &[RunRecord]) -> Vec<Ratio<'_>> {
    ratios_among(records, 0..records.len())
}

/// The same of those at some `places` only.
pub(crate) fn ratios_among(
    records: &[RunRecord],
    places: impl Iterator<Item = usize> + Clone,
) -> Vec<Ratio<'_>> {
    let mut cases: BTreeMap<Case<'_>, Alone<'_>> = BTreeMap::new();
    let places = places.filter(|&place| takes_all(&records[place]));
    for record in places.clone().map(|place| &records[place]) {
        let alone = cases.entry(case_of(record)).or_default();
        alone.paths.extend(record.paths.iter().map(|path| path.name.as_str()));
        let Some(path) = record.scheme.strip_prefix("single:") else { continue };
        alone.paths.insert(path);
        if let Some(goodput) = goodput(record).filter(|_| record.counts()) {
            alone.goodputs.insert(path, goodput);
        }
    }
    let ratio = |run: usize| {
        let record = &records[run];
        let (sum, best) = cases.get(&case_of(record))?.sum_and_best()?;
        let goodput = goodput(record)?;
        Some(Ratio { run, record, to_sum: goodput / sum, to_best: goodput / best })
    };
    places.filter_map(ratio).collect()
}

/// Whether the run's own figures are of a flow that sends as much as goes.
fn takes_all(record: &RunRecord) -> bool {
    let workload = record.flows.first().map_or(&record.workload, |flow| &flow.workload);
    matches!(workload.parse(), Ok(Workload::Bulk | Workload::Iperf3))
}

fn goodput(record: &RunRecord) -> Option<f64> {
    record.goodput_mbps.filter(|goodput| goodput.is_finite() && record.is_valid())
}

/// The mean of `value` in the runs of one kind ÷ that in the runs of another, pair by pair: runs with
/// the same `key` (a seed, a case) are a pair. Runs that do not [count](RunRecord::counts) and pairs
/// of which one has no value or zero are left out.
pub fn paired_ratio<'a, K: Ord>(
    of: impl IntoIterator<Item = &'a RunRecord>,
    to: impl IntoIterator<Item = &'a RunRecord>,
    key: impl Fn(&'a RunRecord) -> K,
    value: impl Fn(&'a RunRecord) -> Option<f64>,
) -> Option<MeanCi> {
    let counted = |record: &&'a RunRecord| record.counts();
    let positive = |record: &'a RunRecord| value(record).filter(|v| v.is_finite() && *v > 0.0);
    let bases: BTreeMap<K, f64> = to
        .into_iter()
        .filter(counted)
        .filter_map(|record| Some((key(record), positive(record)?)))
        .collect();
    let ratio = |record| Some(positive(record)? / bases.get(&key(record))?);
    mean_ci95(&of.into_iter().filter(counted).filter_map(ratio).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FlowRecord;

    fn run(scheme: &str, seed: u64, rate: &str, goodput: f64) -> RunRecord {
        RunRecord {
            scheme: scheme.to_owned(),
            workload: "bulk".to_owned(),
            seed,
            completed: true,
            goodput_mbps: Some(goodput),
            case: BTreeMap::from([("path.one.rate".to_owned(), rate.to_owned())]),
            ..RunRecord::default()
        }
    }

    #[test]
    fn a_run_is_compared_with_the_single_paths_of_its_case_and_seed() {
        let records = [
            run("fbdt", 1, "5Mbps", 19.0),
            run("single:one", 1, "5Mbps", 5.0),
            run("single:two", 1, "5Mbps", 15.0),
            run("fbdt", 1, "50Mbps", 13.0),
            run("single:one", 1, "50Mbps", 50.0),
            run("single:two", 1, "50Mbps", 15.0),
            run("fbdt", 2, "5Mbps", 1.0),
        ];
        let ratios = ratios(&records);
        let several = ratios.iter().filter(|ratio| ratio.record.scheme == "fbdt");
        let got: Vec<_> = several.map(|r| (r.run, r.to_sum, r.to_best)).collect();
        assert_eq!(got, [(0, 19.0 / 20.0, 19.0 / 15.0), (3, 13.0 / 65.0, 13.0 / 50.0)]);
        assert_eq!(ratios[1].to_sum, 5.0 / 20.0, "a single path's is its share");
    }

    #[test]
    fn what_does_not_take_all_that_the_paths_carry_has_no_ratio() {
        let mut records = [
            run("fbdt", 1, "5Mbps", 8.0),
            run("single:one", 1, "5Mbps", 8.0),
            run("single:two", 1, "5Mbps", 8.0),
        ];
        assert_eq!(ratios(&records)[0].to_sum, 0.5);
        let set = |records: &mut [RunRecord], workload: &str| {
            records.iter_mut().for_each(|record| workload.clone_into(&mut record.workload));
        };
        for workload in ["cbr:8Mbps", "messages:50%", "tiles:8Mbps", "video", "transfer:1MB"] {
            set(&mut records, workload);
            assert_eq!(ratios(&records), [], "each path carries all of {workload}");
        }
        set(&mut records, "iperf3");
        assert_eq!(ratios(&records).len(), 3);
        // The first flow's workload is what counts, where there are several.
        for record in &mut records {
            record.flows = ["cbr:8Mbps", "bulk"]
                .map(|workload| FlowRecord { workload: workload.to_owned(), ..Default::default() })
                .into();
        }
        assert_eq!(ratios(&records), []);
    }

    #[test]
    fn a_path_that_did_not_run_alone_or_carried_nothing_leaves_no_ratio() {
        let mut records = vec![
            run("fbdt", 1, "5Mbps", 19.0),
            run("single:one", 1, "5Mbps", 0.0),
            run("single:two", 1, "5Mbps", 15.0),
        ];
        assert_eq!(ratios(&records)[0].to_sum, 19.0 / 15.0);
        records[2].completed = false;
        assert_eq!(ratios(&records), []);
        records[2].completed = true;
        records[2].goodput_mbps = Some(0.0);
        assert_eq!(ratios(&records), []);
        records[0].goodput_mbps = Some(f64::NAN);
        assert_eq!(ratios(&records), []);
    }

    #[test]
    fn a_ratio_is_of_pairs_that_count() {
        let of: Vec<_> = (1..=4).map(|seed| run("fbdt", seed, "1", 3.0 * seed as f64)).collect();
        let mut to: Vec<_> = (1..=5).map(|seed| run("linux", seed, "1", seed as f64)).collect();
        let ratio = |of: &[RunRecord], to: &[RunRecord]| {
            paired_ratio(of.iter(), to.iter(), |run| run.seed, |run| run.goodput_mbps)
        };
        // Means over all runs would give 2.5, and a wide interval.
        let all = ratio(&of, &to).unwrap();
        assert_eq!((all.mean, all.half_width, all.count), (3.0, Some(0.0), 4));
        to[0].completed = false;
        to[1].goodput_mbps = Some(0.0);
        to[2].seed = 9;
        assert_eq!(ratio(&of, &to).unwrap().count, 1);
        assert_eq!(ratio(&of, &to).unwrap().half_width, None);
        assert_eq!(ratio(&of, &[]), None);
    }
}
