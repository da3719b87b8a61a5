//! Coupled congestion controls at a shared bottleneck: two subflows take what one TCP connection
//! takes (RFC 6356 §2), uncoupled ones twice that.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::Duration;

use common::{all, mean};
use weftline_link::LossModel;
use weftline_scenario::{Scenario, Scheme};

/// The multipath connection's goodput over that of the TCP connection beside it, by seed.
///
/// Both go through the same transport, so that only the controls differ: a socket that is always
/// full sends in bursts, which a short queue punishes more than the segments that a scheduler hands
/// out one by one. One loss in 3,000 is the same for all packets, as the law has it: with drop-tail
/// alone the flows lose in step.
fn ratios(congestion: &str) -> Vec<f64> {
    let mut scenario = Scenario::find("tcp-shared").unwrap();
    scenario.duration = Duration::from_secs(120);
    scenario.warmup = Duration::from_secs(20);
    scenario.paths[0].loss = LossModel::Bernoulli(3e-4);
    scenario.flows[1].scheme = Some("weft-single:a".parse().unwrap());
    let scheme: Scheme = "min-rtt".parse().unwrap();
    let congestion = congestion.parse().unwrap();
    all((1..=5).collect(), |seed| {
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
