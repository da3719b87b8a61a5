//! Coupled congestion controls at a shared bottleneck: two subflows take what one TCP connection
//! takes (RFC 6356 §2), uncoupled ones twice that.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{all, mean};
use weftline_scenario::{Scenario, Scheme};

/// The multipath connection's goodput over that of the TCP connection beside it, by seed.
fn ratios(congestion: &str, seeds: u64) -> Vec<f64> {
    let scenario = Scenario::find("tcp-shared").unwrap();
    let scheme: Scheme = "min-rtt".parse().unwrap();
    let congestion = congestion.parse().unwrap();
    all((1..=seeds).collect(), |seed| {
        let run = weftline_sim::simulate(&scenario, &scheme, congestion, seed, false).unwrap();
        let [multi, single] = &run.record.flows[..] else { panic!("two flows") };
        multi.goodput_mbps.unwrap() / single.goodput_mbps.unwrap()
    })
}

#[test]
fn two_subflows_take_what_one_connection_takes() {
    println!("control  ratio  by seed");
    // The ratios of seeds spread by 0.12 about their mean: eight leave an error of 0.04, and four of 0.06,
    // which is a fifth of what Reno may differ by.
    for (congestion, range, seeds) in [
        ("lia", 0.85..=1.15, 8),
        ("olia", 0.85..=1.15, 8),
        ("balia", 0.85..=1.15, 8),
        ("reno", 1.7..=2.3, 4),
    ] {
        let ratios = ratios(congestion, seeds);
        let ratio = mean(&ratios);
        println!("{congestion:7}  {ratio:.2}  {ratios:.2?}");
        assert!(range.contains(&ratio), "{congestion}: {ratio}");
    }
}
