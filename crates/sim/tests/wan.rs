//! Bonds of ordinary links (the sweep `random-wan`): forty of its draws, shortened. `scripts/judge`
//! judges more of them, at their full length.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeMap;
use std::thread::available_parallelism;
use std::time::Duration;

use weftline_scenario::{Case, Congestion, RunRecord, Scenario, Sweep};
use weftline_sim::{Job, run_all, simulate};

const DRAWS: usize = 40;
const OURS: [&str; 2] = ["earliest", "fbdt"];

/// Ours and each path alone, by draw and scheme.
fn records(congestion: &str) -> BTreeMap<String, BTreeMap<String, RunRecord>> {
    let sweep = Sweep::find("random-wan").unwrap();
    let wanted = |case: &Case| {
        let scheme = case.scheme.to_string();
        let ours = OURS.contains(&&*scheme) || scheme.starts_with("single:");
        ours && case.congestion.to_string() == congestion
    };
    let cases = sweep.cases().map(Result::unwrap);
    let cases = cases.take_while(|case| case.case["draw"].parse::<usize>().unwrap() < DRAWS);
    let jobs = cases.filter(wanted).map(
        |Case { mut scenario, scheme, seed, case, congestion, .. }| {
            (scenario.duration, scenario.warmup) = (Duration::from_secs(8), Duration::from_secs(3));
            Job { scenario, scheme, congestion, seed, case, series: false }
        },
    );
    let jobs: Vec<_> = jobs.collect();
    let mut found: BTreeMap<_, BTreeMap<_, _>> = BTreeMap::new();
    run_all(jobs.into_iter(), available_parallelism().map_or(1, usize::from), |outcome| {
        let record = outcome.record;
        assert_eq!(record.error, None, "{}", record.case_id());
        let of_draw = found.entry(record.case["draw"].clone()).or_default();
        of_draw.insert(record.scheme.clone(), record);
        true
    });
    assert_eq!(found.len(), DRAWS);
    found
}

#[test]
fn bonds_have_the_sum_of_their_links_and_copies_their_budget() {
    let records = records("bbr");
    for scheme in OURS {
        let mut shares = Vec::new();
        for (draw, runs) in &records {
            let run = &runs[scheme];
            let sent: u64 = run.paths.iter().filter_map(|path| path.bytes_sent).sum();
            // 2 % of what is new, what the budget begins with, and a chunk of debt.
            let most = sent / 50 + (64 << 10) + (64 << 10);
            assert!(
                run.copied_bytes.unwrap() <= most,
                "draw {draw}: {:?} of {sent}",
                run.copied_bytes
            );
            let alone = runs.iter().filter(|(name, _)| name.starts_with("single:"));
            let sum: f64 = alone.filter_map(|(_, run)| run.goodput_mbps).sum();
            shares.push(run.goodput_mbps.unwrap() / sum);
        }
        shares.sort_unstable_by(f64::total_cmp);
        // Eight seconds are few for links that vanish for three: the least says little.
        let (tenth, median) = (shares[shares.len() / 10], shares[shares.len() / 2]);
        assert!(median >= 0.99 && tenth >= 0.95, "{scheme}: {median} {tenth} {shares:.3?}");
    }
}

/// What a satellite has delivered in its first round trips is next to nothing, and is no reason to give
/// it nothing more.
#[test]
fn a_satellite_is_used_beside_a_near_line() {
    let text = "name = 'satellite'\nduration = '30s'\nwarmup = '10s'\nworkload = { kind = 'bulk' }\n\
                [[path]]\nname = 'near'\nrate = '100Mbps'\ndelay = '5ms'\n\
                [[path]]\nname = 'far'\nrate = '20Mbps'\ndelay = '300ms'\n";
    let missing = |_: &std::path::Path| Err(std::io::ErrorKind::NotFound.into());
    let scenario = Scenario::parse("satellite.toml", text, &missing).unwrap();
    for congestion in ["bbr", "cubic"] {
        let goodput = |scheme: &str| {
            let congestion = congestion.parse().unwrap();
            let run = simulate(&scenario, &scheme.parse().unwrap(), congestion, 1, false);
            run.unwrap().record.goodput_mbps.unwrap()
        };
        let near = goodput("single:near");
        for ours in OURS {
            let bond = goodput(ours);
            assert!(bond > 1.15 * near, "{ours}, {congestion}: {bond} {near}");
        }
    }
}

#[test]
fn tiles_are_on_time_on_links_that_carry_them_and_never_above_the_bound() {
    let mut scenario = Scenario::find("two-path").unwrap();
    (scenario.duration, scenario.warmup) = (Duration::from_secs(6), Duration::from_secs(1));
    for (load, least) in [("tiles:50%", 0.99), ("tiles:150%", 0.75)] {
        scenario.workload = load.parse().unwrap();
        let made = ["earliest", "fbdt", "min-rtt"].map(|scheme| {
            let parsed = scheme.parse().unwrap();
            let outcome = simulate(&scenario, &parsed, Congestion::CUBIC, 1, false).unwrap();
            let messages = outcome.record.messages.unwrap();
            let share = messages.on_time_weight_share.unwrap();
            let bound = messages.bound_weight_share.unwrap();
            // A scheduler without deadlines is below it.
            let least = if scheme == "min-rtt" { 0.5 } else { least };
            assert!(least < share && share <= bound && bound <= 1.0, "{scheme}: {messages:?}");
            (messages.made, messages.made_bytes)
        });
        // Five seconds of 24 tiles.
        assert!(made.iter().all(|other| *other == (120, made[0].1)), "{made:?}");
    }
}

#[test]
fn messages_are_counted_the_same_whatever_carries_them() {
    let mut scenario = Scenario::find("two-path").unwrap();
    scenario.workload = "messages:40%".parse().unwrap();
    (scenario.duration, scenario.warmup) = (Duration::from_secs(6), Duration::from_secs(1));
    // One path BBR, the other CUBIC.
    scenario.paths[0].congestion = Some("bbr".parse().unwrap());
    let made = ["earliest", "min-rtt", "linux-mptcp"].map(|scheme| {
        let scheme = scheme.parse().unwrap();
        let outcome = simulate(&scenario, &scheme, Congestion::CUBIC, 1, false).unwrap();
        let messages = outcome.record.messages.unwrap();
        assert!(messages.on_time_share > 0.97, "{scheme}: {messages:?}");
        assert!(messages.on_time_bytes_share > 0.97, "{scheme}: {messages:?}");
        (messages.made, messages.made_bytes)
    });
    assert!(made.iter().all(|other| *other == made[0]), "{made:?}");
}
