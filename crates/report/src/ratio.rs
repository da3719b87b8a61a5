//! What a scheme got of what its paths could give: each run beside the runs of the paths alone.

use std::collections::{BTreeMap, BTreeSet};

use weftline_scenario::RunRecord;

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
    [&'a str; 4], // world, scenario, workload, congestion control
    bool,
    u64,
    &'a BTreeMap<String, String>,
);

fn case_of(record: &RunRecord) -> Case<'_> {
    let RunRecord { world, scenario, workload, congestion, tls, seed, case, .. } = record;
    ([world, scenario, workload, congestion], *tls, *seed, case)
}

/// The paths of one case, and the goodputs that each had alone.
#[derive(Default)]
struct Alone<'a> {
    paths: BTreeSet<&'a str>,
    goodputs: BTreeMap<&'a str, Vec<f64>>,
}

impl Alone<'_> {
    /// Sum and largest of the means over all paths; `None` if a path did not run alone.
    fn sum_and_best(&self) -> Option<(f64, f64)> {
        let mean = |path: &&str| {
            let goodputs = self.goodputs.get(*path)?;
            Some(goodputs.iter().sum::<f64>() / goodputs.len() as f64)
        };
        let means: Option<Vec<f64>> = self.paths.iter().map(mean).collect();
        let means = means?;
        let best = means.iter().copied().fold(0.0, f64::max);
        let sum: f64 = means.iter().sum();
        (best > 0.0 && sum.is_finite()).then_some((sum, best))
    }
}

/// The ratios of all runs of more than one path, in the order of `records`.
///
/// A run has ratios if it has a goodput, and each path of its case ran alone (`single:*`) to its end
/// with the same seed, congestion control, workload, world and values of a sweep. Runs with an
/// invalid emulator have none.
pub fn ratios(records: &[RunRecord]) -> Vec<Ratio<'_>> {
    let mut cases: BTreeMap<Case<'_>, Alone<'_>> = BTreeMap::new();
    for record in records {
        let alone = cases.entry(case_of(record)).or_default();
        alone.paths.extend(record.paths.iter().map(|path| path.name.as_str()));
        let Some(path) = record.scheme.strip_prefix("single:") else { continue };
        alone.paths.insert(path);
        if let Some(goodput) = goodput(record).filter(|_| record.completed) {
            alone.goodputs.entry(path).or_default().push(goodput);
        }
    }
    let several = records.iter().enumerate().filter(|(_, record)| !is_single(&record.scheme));
    let ratio = |(run, record)| {
        let (sum, best) = cases.get(&case_of(record))?.sum_and_best()?;
        let goodput = goodput(record)?;
        Some(Ratio { run, record, to_sum: goodput / sum, to_best: goodput / best })
    };
    several.filter_map(ratio).collect()
}

/// Whether the scheme uses one path by its nature.
pub(crate) fn is_single(scheme: &str) -> bool {
    scheme.contains(':')
}

fn goodput(record: &RunRecord) -> Option<f64> {
    record.goodput_mbps.filter(|goodput| goodput.is_finite() && record.is_valid())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(scheme: &str, seed: u64, rate: &str, goodput: f64) -> RunRecord {
        RunRecord {
            scheme: scheme.to_owned(),
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
        let got: Vec<_> = ratios.iter().map(|r| (r.run, r.to_sum, r.to_best)).collect();
        assert_eq!(got, [(0, 19.0 / 20.0, 19.0 / 15.0), (3, 13.0 / 65.0, 13.0 / 50.0)]);
        assert_eq!(ratios[1].record.case["path.one.rate"], "50Mbps");
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
}
