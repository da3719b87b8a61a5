//! BBR's states as the series of a run show them (draft-cardwell-iccrg-bbr-congestion-control-00).
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Case, REFERENCE};

/// Windows in segments and smoothed round-trip times in ms, every 100 ms.
fn series(case: &Case) -> (Vec<f64>, Vec<f64>) {
    let outcome = weftline_sim::run(case.plan(1)).unwrap();
    let values = |metric: &str| {
        outcome.samples().filter(|s| s.metric == metric).map(|s| s.value).collect::<Vec<_>>()
    };
    (values("cwnd_segments"), values("srtt_ms"))
}

/// The times (s) at which runs of steps with `is` begin, and how many steps they last.
fn stretches(values: &[f64], is: impl Fn(f64) -> bool) -> Vec<(f64, usize)> {
    let mut stretches = Vec::new();
    let mut begin = None;
    for (step, &value) in values.iter().chain([&f64::NAN]).enumerate() {
        match (is(value), begin) {
            (true, None) => begin = Some(step),
            (false, Some(from)) => {
                stretches.push(((from + 1) as f64 / 10.0, step - from));
                begin = None;
            }
            _ => {}
        }
    }
    stretches
}

#[test]
fn probe_rtt_comes_every_ten_seconds_with_four_segments() {
    let case = Case { congestion: "bbr", duration_s: 65, series: true, ..REFERENCE };
    let (windows, _) = series(&case);
    let probes = stretches(&windows, |cwnd| cwnd <= 4.0);
    println!("PROBE_RTT at (s, steps of 100 ms): {probes:?}");
    assert!((5..=6).contains(&probes.len()), "{probes:?}");
    for &(_, steps) in &probes {
        assert!((2..=3).contains(&steps), "200 ms and a round: {probes:?}");
    }
    for pair in probes.windows(2) {
        let wait = pair[1].0 - pair[0].0;
        assert!((10.0..=10.5).contains(&wait), "{probes:?}");
    }
}

/// A path on which a round is long enough to be seen: 100 Mb/s, 400 ms, a queue that never drops.
const LONG: Case = Case {
    congestion: "bbr",
    rtt_ms: 400,
    queue: 12_000,
    duration_s: 40,
    series: true,
    ..REFERENCE
};

/// Segments that fill the path.
const BDP: f64 = 100e6 * 0.4 / 8.0 / 1500.0;

#[test]
fn startup_doubles_each_round_and_drains() {
    let (windows, srtt) = series(&LONG);
    // 10 segments double 8.4 times before they fill the path.
    let at = |least: f64| windows.iter().position(|&cwnd| cwnd >= least).unwrap() as f64 / 10.0;
    let doubling = (at(BDP) - at(20.0)) / (BDP / 20.0).log2() / 0.4;
    println!("STARTUP: a doubling takes {doubling:.2} rounds");
    assert!((0.9..=1.3).contains(&doubling), "{doubling}");
    // The window's gain falls from 2.89 to 2 when DRAIN is over.
    let full = windows.iter().position(|&cwnd| cwnd >= 2.5 * BDP).unwrap();
    let over = windows[full..].iter().position(|&cwnd| cwnd <= 2.2 * BDP).unwrap();
    let fill = at(BDP) + 0.4;
    let drained = (full + over) as f64 / 10.0;
    let peak = srtt.iter().copied().fold(0.0, f64::max);
    println!(
        "STARTUP and DRAIN: full at {fill:.1} s, drained at {drained:.1} s, longest RTT {peak:.0} ms"
    );
    // Three rounds to notice, of up to 2.9 times 400 ms each, and as much to drain.
    assert!((1.2..=6.0).contains(&(drained - fill)), "{fill} {drained}");
    assert!((800.0..=1_250.0).contains(&peak), "a queue of one to 1.9 BDP: {peak} ms");
    let after = srtt[full + over + 4];
    assert!(after <= 1.30 * 400.0, "{after} ms after DRAIN");
}

#[test]
fn a_cycle_of_probe_bw_takes_eight_rounds() {
    let (_, srtt) = series(&LONG);
    // From when STARTUP is over to the first PROBE_RTT after ten seconds of it.
    let (from, to) = (100, 400);
    let steps = &srtt[from..to.min(srtt.len())];
    let rises = stretches(steps, |srtt| srtt >= 1.10 * 400.0);
    println!("PROBE_BW: the round-trip time rises at (s, steps of 100 ms): {rises:?}");
    let gaps: Vec<f64> = rises.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let mut cycles: Vec<f64> = gaps.iter().copied().filter(|gap| *gap < 5.0).collect();
    cycles.sort_by(f64::total_cmp);
    assert!(cycles.len() >= 3, "{rises:?}");
    let median = cycles[cycles.len() / 2];
    assert!((3.0..=3.9).contains(&median), "8 rounds of 0.4 s, some lengthened: {median} s");
}
