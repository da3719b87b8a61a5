//! Coupled congestion controls at a shared bottleneck: two subflows take what one TCP connection
//! takes (RFC 6356 §2), uncoupled ones twice that.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::Duration;

use common::{all, mean};
use weftline_scenario::{Scenario, Scheme};

/// The multipath connection's goodput over that of the TCP connection beside it, by seed.
///
/// Eight seeds: their ratios spread by 0.12 about the mean, of which eight leave an error of 0.04.
fn ratios(congestion: &str) -> Vec<f64> {
    let scenario = Scenario::find("tcp-shared").unwrap();
    let scheme: Scheme = "min-rtt".parse().unwrap();
    let congestion = congestion.parse().unwrap();
    all((1..=8).collect(), |seed| {
        let run = weftline_sim::simulate(&scenario, &scheme, congestion, seed, false).unwrap();
        let [multi, single] = &run.record.flows[..] else { panic!("two flows") };
        multi.goodput_mbps.unwrap() / single.goodput_mbps.unwrap()
    })
}

#[test]
fn two_subflows_take_what_one_connection_takes() {
    println!("control  ratio  by seed");
    for (congestion, range) in
        [("lia", 0.85..=1.15), ("olia", 0.85..=1.15), ("balia", 0.85..=1.15), ("reno", 1.7..=2.3)]
    {
        let ratios = ratios(congestion);
        let ratio = mean(&ratios);
        println!("{congestion:7}  {ratio:.2}  {ratios:.2?}");
        assert!(range.contains(&ratio), "{congestion}: {ratio}");
    }
}

#[test]
fn paths_that_share_links_have_each_their_own_figures() {
    let mut scenario = Scenario::find("tcp-shared").unwrap();
    scenario.set_duration(Duration::from_secs(20), Duration::from_secs(5)).unwrap();
    for scheme in ["min-rtt", "fbdt"] {
        let (scheme, congestion) = (scheme.parse().unwrap(), "reno".parse().unwrap());
        let run = weftline_sim::simulate(&scenario, &scheme, congestion, 1, false).unwrap();
        let record = run.record;
        let goodput = |at: usize| record.paths[at].goodput_mbps.unwrap();
        let (one, two) = (goodput(0), goodput(1));
        assert!(one > 5.0 && two > 5.0, "{scheme}: {one} and {two}");
        // What was sent twice and the records' headers are in the paths', too.
        let all = record.goodput_mbps.unwrap();
        assert!((1.0..1.05).contains(&((one + two) / all)), "{scheme}: {one} + {two} of {all}");
        for path in &record.paths {
            let rtt = path.rtt_ms.unwrap();
            assert!(rtt.mean >= 20.0 && rtt.p95 < 60.0, "{scheme}: {path:?}");
        }
    }
}
