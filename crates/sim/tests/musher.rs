//! The scheduler `musher` as a fair peer of others: it finds the ratio of two steady links, and follows
//! a link that changes.
#![allow(clippy::unwrap_used, reason = "test code")]

use weftline_scenario::{Congestion, Scenario};

/// Goodput in Mb/s of a bulk flow from `warmup` to `duration` over 300 Mb/s and a link of that rate
/// or trace, in parts of what both links carry together.
fn share(mmwave: &str, sum_mbps: f64, [warmup, duration]: [u32; 2]) -> f64 {
    let text = format!(
        r#"
        name = "test"
        duration = "{duration}s"
        warmup = "{warmup}s"
        [[path]]
        name = "sub6"
        rate = "300Mbps"
        delay = "10ms"
        [[path]]
        name = "mmwave"
        {mmwave}
        delay = "10ms"
        [workload]
        kind = "bulk"
        "#
    );
    let load = |_: &std::path::Path| Ok("time_s,rate_mbps\n0,1000\n5,500\n".to_owned());
    let scenario = Scenario::parse("test.toml", &text, &load).unwrap();
    let scheme = "musher".parse().unwrap();
    let record = weftline_sim::simulate(&scenario, &scheme, Congestion::CUBIC, 1, false);
    // A packet of 1500 bytes carries 1448.
    record.unwrap().record.goodput_mbps.unwrap() / (sum_mbps * 1448.0 / 1500.0)
}

#[test]
fn steady_links_are_filled_within_five_seconds() {
    let share = share("rate = \"1Gbps\"", 1300.0, [5, 7]);
    assert!(share > 0.95, "{share}");
}

#[test]
fn a_step_is_followed_within_three_seconds() {
    let step = r#"trace = { file = "step.csv", format = "csv" }"#;
    let share = share(step, 800.0, [8, 10]);
    assert!(share > 0.9, "{share}");
}
