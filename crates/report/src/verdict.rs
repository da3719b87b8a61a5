//! What came out, in a sentence: the first of a report.

use std::collections::{BTreeMap, BTreeSet};

use weftline_scenario::{
    LEAST_PLAYER_SEEDS, MeanCi, RunRecord, discards_say, mean_ci95, paired_ratio, ratios,
};

use crate::format::{decimals, number};
use crate::scheme::is_single;
use crate::sweep::count;

/// What a scheme is judged by.
struct Yardstick {
    /// Of a record.
    value: fn(&RunRecord) -> Option<f64>,
    /// Whether the runs of a scheme are enough to say anything.
    says: fn(&[&RunRecord]) -> bool,
    /// Whether less is better.
    less: bool,
    /// What a scheme did, before and after the value.
    words: [&'static str; 2],
    /// What the best of several had.
    best: &'static str,
}

/// What matters of a workload: the first that its runs have.
const YARDSTICKS: [Yardstick; 3] = [
    Yardstick {
        value: RunRecord::link_discards,
        says: |runs| discards_say(runs.iter().copied()),
        less: true,
        words: ["discarded", "pictures a run"],
        best: "the fewest picture discards",
    },
    Yardstick {
        value: |run| run.completion_s,
        says: |_| true,
        less: true,
        words: ["took", "s"],
        best: "the shortest time",
    },
    Yardstick {
        value: |run| run.goodput_mbps,
        says: |_| true,
        less: false,
        words: ["carried", "Mb/s in order"],
        best: "the highest goodput",
    },
];

/// What a pair of runs has in common.
type Pair<'a> = (u64, &'a BTreeMap<String, String>);

/// The runs of a scheme in one experiment.
#[derive(Default)]
struct Runs<'a> {
    /// Those that are results.
    counted: Vec<&'a RunRecord>,
    /// Whether others have failed. Those that are left would make the scheme look better than it is: it
    /// comes after all of which no run has failed.
    has_failed: bool,
}

/// The runs of each scheme in one experiment.
type Experiment<'a> = BTreeMap<&'a str, Runs<'a>>;

/// What came out of these runs; `None` if no run says anything.
pub(crate) fn sentence(records: &[RunRecord]) -> Option<String> {
    let counted: Vec<&RunRecord> = records.iter().filter(|record| record.counts()).collect();
    let has = |yardstick: &&Yardstick| counted.iter().any(|run| (yardstick.value)(run).is_some());
    let yardstick = YARDSTICKS.iter().find(has)?;
    let experiments = experiments(records, yardstick);
    let all: Vec<&Experiment<'_>> = experiments.iter().collect();
    let says = |one: &&Experiment<'_>| one.values().any(|runs| (yardstick.says)(&runs.counted));
    let text = match &all[..] {
        several if !several.iter().any(says) => {
            let (best, seeds) = (yardstick.best, LEAST_PLAYER_SEEDS);
            format!("Nothing is said of {best}: a real player's want {seeds} seeds.")
        }
        [one] => of_one(one, yardstick, records)?,
        several => of_several(several, yardstick, records)?,
    };
    let text = text + &in_guests(&counted);
    Some(match records.len() - counted.len() {
        0 => text,
        n => format!("{text} {} failed or did not count.", count(n, "run")),
    })
}

/// The experiments of which a run that counts has a value.
fn experiments<'a>(records: &'a [RunRecord], yardstick: &Yardstick) -> Vec<Experiment<'a>> {
    let mut experiments: BTreeMap<_, Experiment<'_>> = BTreeMap::new();
    for run in records.iter().filter(|run| run.is_valid()) {
        if !run.has_failed() && (yardstick.value)(run).is_none() {
            continue;
        }
        let RunRecord { backend, scenario, workload, congestion, tls, case, .. } = run;
        let experiment = experiments.entry((backend, scenario, workload, congestion, tls, case));
        let runs = experiment.or_default().entry(run.scheme.as_str()).or_default();
        match run.has_failed() {
            true => runs.has_failed = true,
            false => runs.counted.push(run),
        }
    }
    let has_any = |one: &Experiment<'_>| one.values().any(|runs| !runs.counted.is_empty());
    experiments.into_values().filter(has_any).collect()
}

/// Which schemes ran on a machine that is none of the others'.
fn in_guests(runs: &[&RunRecord]) -> String {
    let guests = runs.iter().filter(|run| run.guest_kernel.is_some());
    let schemes: BTreeSet<&str> = guests.map(|run| run.scheme.as_str()).collect();
    if schemes.is_empty() {
        return String::new();
    }
    let schemes: Vec<&str> = schemes.into_iter().collect();
    format!(" In a guest, in virtual time: {}.", schemes.join(", "))
}

/// The schemes that use all paths; all of them if there is no such scheme.
fn rivals<'e, 'a>(
    experiment: &'e Experiment<'a>,
) -> impl Iterator<Item = (&'a str, &'e Runs<'a>)> + use<'e, 'a> {
    let several = experiment.keys().any(|scheme| !is_single(scheme));
    let rivals = experiment.iter().map(|(&scheme, runs)| (scheme, runs));
    rivals.filter(move |(scheme, _)| !several || !is_single(scheme))
}

/// The rivals of which something is said, the best first, and after them those of which a run has failed.
fn ranked<'a>(experiment: &Experiment<'a>, yardstick: &Yardstick) -> Vec<(&'a str, MeanCi)> {
    let mut ranked: Vec<(&str, MeanCi)> = rivals(experiment)
        .filter(|(_, runs)| (yardstick.says)(&runs.counted))
        .filter_map(|(scheme, runs)| {
            let values = runs.counted.iter().filter_map(|run| (yardstick.value)(run));
            Some((scheme, mean_ci95(&values.collect::<Vec<_>>())?))
        })
        .collect();
    let better = |one: &MeanCi, two: &MeanCi| match yardstick.less {
        true => one.mean.total_cmp(&two.mean),
        false => two.mean.total_cmp(&one.mean),
    };
    let fails = |scheme: &str| experiment[scheme].has_failed;
    ranked.sort_by(|one, two| fails(one.0).cmp(&fails(two.0)).then(better(&one.1, &two.1)));
    ranked
}

/// The best schemes of an experiment, which share the first place; none where there were no rivals, or
/// each of them has failed.
fn winners<'a>(experiment: &Experiment<'a>, yardstick: &Yardstick) -> Vec<&'a str> {
    let mut ranked = ranked(experiment, yardstick);
    let failed = rivals(experiment).filter(|(_, runs)| runs.has_failed).map(|(scheme, _)| scheme);
    let all: BTreeSet<&str> = ranked.iter().map(|(scheme, _)| *scheme).chain(failed).collect();
    ranked.retain(|(scheme, _)| !experiment[scheme].has_failed);
    let Some((_, best)) = ranked.first().copied().filter(|_| all.len() > 1) else {
        return Vec::new();
    };
    let equals = ranked.into_iter().filter(|(_, value)| value.mean == best.mean);
    equals.map(|(scheme, _)| scheme).collect()
}

/// One experiment: what the best scheme did, of what there was, and beside the next one.
fn of_one(
    experiment: &Experiment<'_>,
    yardstick: &Yardstick,
    records: &[RunRecord],
) -> Option<String> {
    let ranked = ranked(experiment, yardstick);
    let [(best, value), rest @ ..] = &ranked[..] else { return None };
    let [did, what] = yardstick.words;
    let mut text = format!("{best} {did} {} {what}", interval(value, decimals(value.mean)));
    let sums = if yardstick.less { None } else { to_sums(records, &[best]).pop() };
    if let Some((_, share)) = sums.filter(|_| !is_single(best)) {
        text += &format!(", {} of the sum of the paths' own TCP", interval(&share, 3));
    }
    if let Some((other, their)) = rest.first() {
        let [own, others] = [best, other].map(|scheme| experiment[scheme].counted.iter().copied());
        let ratio = paired_ratio(own, others, pair, yardstick.value);
        text += &match ratio {
            Some(ratio) => format!("; that is {}", beside(&ratio, other)),
            None => format!("; {other} {did} {}", interval(their, decimals(their.mean))),
        };
    }
    Some(format!("{text} ({}).", count(value.count, "run")))
}

fn pair(run: &RunRecord) -> Pair<'_> {
    (run.seed, &run.case)
}

/// A ratio in words, and whether it shows a difference.
fn beside(ratio: &MeanCi, other: &str) -> String {
    let text = format!("{} times that of {other}", interval(ratio, 3));
    match ratio.half_width {
        Some(width) if (ratio.mean - 1.0).abs() <= width => format!("{text}, no clear difference"),
        Some(_) => text,
        None => format!("{text}, from one pair of runs"),
    }
}

/// Several experiments: which scheme was best how often, and what the schemes had on average.
fn of_several(
    experiments: &[&Experiment<'_>],
    yardstick: &Yardstick,
    records: &[RunRecord],
) -> Option<String> {
    let mut wins: BTreeMap<&str, usize> = BTreeMap::new();
    let mut compared = 0;
    for experiment in experiments {
        let winners = winners(experiment, yardstick);
        compared += usize::from(!winners.is_empty());
        for scheme in winners {
            *wins.entry(scheme).or_default() += 1;
        }
    }
    let most = wins.iter().max_by_key(|(_, wins)| **wins);
    let Some((&best, &won)) = most else {
        let runs = experiments.iter().flat_map(|one| one.values());
        let runs: usize = runs.map(|runs| runs.counted.len()).sum();
        let all = count(experiments.len(), "experiment");
        return Some(format!("{all} with {}, and no two schemes in one.", count(runs, "run")));
    };
    let mut text = format!("{best} had {} in {won} of {compared} experiments", yardstick.best);
    if !yardstick.less {
        let schemes: Vec<&str> = wins.keys().copied().filter(|one| !is_single(one)).collect();
        let mut shares = to_sums(records, &schemes);
        shares.sort_by(|one, two| two.1.mean.total_cmp(&one.1.mean));
        let list: Vec<String> = shares
            .iter()
            .take(3)
            // Different experiments are no repetitions, of which there would be an interval.
            .map(|(scheme, share)| format!("{scheme} {}", number(share.mean, 3)))
            .collect();
        if !list.is_empty() {
            text += &format!("; on average of the paths' own TCP: {}", list.join(", "));
        }
    }
    Some(text + ".")
}

/// The means of these schemes' ratios to the sum of the single paths, over the cases in which each of them
/// has one: a case in which one failed would flatter it in the mean of the others.
fn to_sums<'a>(records: &[RunRecord], schemes: &[&'a str]) -> Vec<(&'a str, MeanCi)> {
    let mut cases: BTreeMap<_, BTreeMap<&str, f64>> = BTreeMap::new();
    for ratio in ratios(records).into_iter().filter(|ratio| ratio.record.counts()) {
        let RunRecord { backend, scenario, workload, congestion, tls, .. } = ratio.record;
        let case = cases.entry((backend, scenario, workload, congestion, tls, pair(ratio.record)));
        case.or_default().insert(&ratio.record.scheme, ratio.to_sum);
    }
    let mean = |&scheme: &&'a str| {
        let all = cases.values().filter(|case| schemes.iter().all(|one| case.contains_key(one)));
        Some((scheme, mean_ci95(&all.map(|case| case[scheme]).collect::<Vec<_>>())?))
    };
    schemes.iter().filter_map(mean).collect()
}

fn interval(value: &MeanCi, decimals: usize) -> String {
    let mean = number(value.mean, decimals);
    match value.half_width.filter(|width| width.is_finite()) {
        Some(width) => format!("{mean} ± {}", number(width, decimals)),
        None => mean,
    }
}

#[cfg(test)]
mod tests {
    use weftline_scenario::VideoRecord;

    use super::*;

    fn run(scenario: &str, scheme: &str, seed: u64, mbps: f64) -> RunRecord {
        RunRecord {
            scenario: scenario.to_owned(),
            scheme: scheme.to_owned(),
            workload: "bulk".to_owned(),
            seed,
            completed: true,
            goodput_mbps: Some(mbps),
            ..RunRecord::default()
        }
    }

    #[test]
    fn one_experiment_is_told_with_its_intervals() {
        let mut records = Vec::new();
        for (seed, rate) in [(1, 100.0), (2, 50.0), (3, 200.0)] {
            records.push(run("a", "single:one", seed, rate));
            records.push(run("a", "single:two", seed, rate));
            records.push(run("a", "fbdt", seed, 1.9 * rate));
            records.push(run("a", "ecf", seed, 1.52 * rate));
        }
        let text = sentence(&records).unwrap();
        assert!(
            text.starts_with("fbdt carried 222 ± 361 Mb/s in order, 0.950 ± 0.000 of"),
            "{text}"
        );
        assert!(text.ends_with("that is 1.250 ± 0.000 times that of ecf (3 runs)."), "{text}");
        let one = sentence(&records[..4]).unwrap();
        assert!(!one.contains('±') && one.contains("from one pair of runs (1 run)"), "{one}");
        records[3].completed = false;
        assert!(sentence(&records).unwrap().ends_with("1 run failed or did not count."));
        // The interval of the pairs holds 1.
        records[2].goodput_mbps = Some(100.0);
        records[3].completed = true;
        let text = sentence(&records).unwrap();
        assert!(text.contains("no clear difference"), "{text}");
        assert_eq!(sentence(&[]), None);
    }

    #[test]
    fn what_ran_in_a_guest_is_said() {
        let mut records = vec![run("a", "linux-mptcp", 1, 10.0), run("a", "linux-fbdt", 1, 20.0)];
        assert!(!sentence(&records).unwrap().contains("guest"));
        records[1].guest_kernel = Some("6.12.1 (a)".to_owned());
        let text = sentence(&records).unwrap();
        assert!(text.ends_with(" (1 run). In a guest, in virtual time: linux-fbdt."), "{text}");
    }

    #[test]
    fn what_the_machine_costs_a_player_is_subtracted_and_two_seeds_say_nothing() {
        let played = |scheme: &str, seed: u64, discards: u64| {
            let video = VideoRecord {
                picture_discards: discards,
                decoder_drops: Some(500),
                control_discards: Some(2),
                control_decoder_drops: Some(490),
                ..VideoRecord::default()
            };
            let backend = "lab".to_owned();
            RunRecord { backend, video: Some(video), ..run("a", scheme, seed, 5.0) }
        };
        let mut records: Vec<RunRecord> =
            (1..=3).flat_map(|seed| [played("fbdt", seed, 7), played("ecf", seed, 50)]).collect();
        let text = sentence(&records).unwrap();
        assert!(text.starts_with("fbdt discarded 15.0 ± 0.0 pictures a run"), "{text}");
        let two = sentence(&records[..4]).unwrap();
        assert!(two.starts_with("Nothing is said of the fewest picture discards"), "{two}");
        // Only one of them has enough.
        records.retain(|record| record.scheme == "ecf" || record.seed < 3);
        let text = sentence(&records).unwrap();
        assert!(text.starts_with("ecf discarded 58.0") && !text.contains("fbdt"), "{text}");
        // The decoder's part of a run is not known: it cannot be compared.
        for record in &mut records {
            record.video.as_mut().unwrap().decoder_drops = None;
        }
        assert!(sentence(&records).unwrap().contains("Mb/s"), "its goodput is left");
    }

    #[test]
    fn several_are_counted() {
        let mut records = Vec::new();
        for (scenario, mbps) in [("a", [9.0, 8.0]), ("b", [7.0, 7.0]), ("c", [1.0, 3.0])] {
            records.push(run(scenario, "single:one", 1, 10.0));
            records.push(run(scenario, "fbdt", 1, mbps[0]));
            records.push(run(scenario, "ecf", 1, mbps[1]));
        }
        let text = sentence(&records).unwrap();
        let want = "fbdt had the highest goodput in 2 of 3 experiments; on average of the paths' own \
                    TCP: ecf 0.600, fbdt 0.567.";
        assert_eq!(text, want);
    }

    #[test]
    fn a_failure_loses_its_experiment_and_flatters_no_mean() {
        let mut records = Vec::new();
        for (scenario, mbps) in [("a", [9.0, 8.0]), ("b", [1.0, 5.0]), ("c", [9.0, 3.0])] {
            records.push(run(scenario, "single:one", 1, 10.0));
            records.push(run(scenario, "fbdt", 1, mbps[0]));
            records.push(run(scenario, "ecf", 1, mbps[1]));
        }
        let text = sentence(&records).unwrap();
        let whole = "fbdt had the highest goodput in 2 of 3 experiments; on average of the paths' own \
                     TCP: fbdt 0.633, ecf 0.533.";
        assert_eq!(text, whole);
        // Where it is bad it fails, as everywhere but where it is best.
        let failed = |text: &str| format!("{text} 1 run failed or did not count.");
        records[4] = RunRecord {
            completed: false,
            error: Some("it broke off".to_owned()),
            goodput_mbps: None,
            ..records[4].clone()
        };
        let want = "fbdt had the highest goodput in 2 of 3 experiments; on average of the paths' own \
                    TCP: fbdt 0.900, ecf 0.550.";
        assert_eq!(sentence(&records).unwrap(), failed(want), "both without that case");
        // With another seed, and a good one, it has still failed there.
        for (scheme, mbps) in [("single:one", 10.0), ("fbdt", 9.9), ("ecf", 5.0)] {
            records.push(run("b", scheme, 2, mbps));
        }
        let text = sentence(&records).unwrap();
        assert!(text.starts_with("fbdt had the highest goodput in 2 of 3 experiments"), "{text}");
        // One experiment alone is told of what did not fail.
        let alone: Vec<RunRecord> =
            records.iter().filter(|run| run.scenario == "b").cloned().collect();
        let text = sentence(&alone).unwrap();
        assert!(text.starts_with("ecf carried 5.00 "), "{text}");
    }
}
