//! Coupled congestion controls at a shared bottleneck: two subflows take what one TCP connection
//! takes (RFC 6356 §2), uncoupled ones twice that.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

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
