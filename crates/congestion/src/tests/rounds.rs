//! Snapshots of windows: any change of a control's dynamics is a readable difference.

use std::fmt::Write as _;
use std::time::Duration;

use weftline_core::Instant;

use super::driver::{AckFlow, Acks};
use super::{Pipe, PipeConfig, make};
use crate::{Config, Entry, REGISTRY, SlowStart};

/// The whole windows of one flow round by round, the last segment of the rounds in `losses` lost.
fn windows(name: &str, rtt: Duration, losses: &[usize]) -> String {
    let mut acks = Acks::one(name, rtt);
    let mut text = String::new();
    for round in 0..60 {
        let window = acks.flows[0].control.cwnd() as u64;
        let separator = if round % 20 == 19 { "\n" } else { " " };
        write!(text, "{window}{separator}").expect("strings take everything");
        for segment in 1..=window {
            acks.step(|_| segment == window && losses.contains(&round));
        }
    }
    text
}

#[test]
fn windows_by_round_at_100_ms() {
    let mut table = String::new();
    for entry in REGISTRY.iter().filter(|entry| !entry.name.starts_with("bbr")) {
        writeln!(table, "{}:", entry.name).expect("strings take everything");
        table += &windows(entry.name, Duration::from_millis(100), &[4, 25, 27]);
    }
    insta::assert_snapshot!(table);
}

/// Two subflows of 20 and 50 ms; the first loses its last segment in rounds 3 and 30, the second
/// in rounds 3 and 20 of its own.
#[test]
fn coupled_windows_every_100_ms() {
    let mut table = String::new();
    for name in ["lia", "olia", "balia"] {
        let flows = [20, 50].map(|ms| AckFlow::new(make(name), Duration::from_millis(ms)));
        let mut acks = Acks::new(flows.into_iter().collect());
        let losses = [[150_u64, 2_000], [120, 1_500]];
        let mut counts = [0; 2];
        writeln!(table, "{name}:").expect("strings take everything");
        for tick in 1..=40 {
            let cwnd = |flow: usize| acks.flows[flow].control.cwnd() as u64;
            let separator = if tick % 10 == 0 { "\n" } else { " " };
            write!(table, "{}+{}{separator}", cwnd(0), cwnd(1)).expect("strings take everything");
            while acks.now < Instant::from_millis(tick * 100) {
                let flow = acks.step(|flow| losses[flow].contains(&counts[flow]));
                counts[flow] += 1;
            }
        }
    }
    insta::assert_snapshot!(table);
}

/// Every control alone at 20 Mbit/s, 40 ms and a queue of half the product: window, segments lost
/// and goodput in percent every 250 ms.
#[test]
fn a_bottleneck_every_250_ms() {
    let mut table = String::new();
    let config = PipeConfig {
        rate: weftline_core::Bitrate::mbps(20),
        rtt: Duration::from_millis(40),
        queue: 33,
        ..PipeConfig::default()
    };
    for entry in REGISTRY {
        let mut pipe = Pipe::new(entry.make(&Config::default()), config);
        write!(table, "{:9}", entry.name).expect("strings take everything");
        for tick in 1..=16 {
            pipe.run_until(Instant::from_millis(tick * 250), |_| {});
            write!(table, " {:3}", pipe.control.cwnd() as u64).expect("strings take everything");
        }
        let goodput = 100.0 * pipe.rate_since(Instant::ZERO, 0) / pipe.capacity();
        writeln!(table, "  lost {:3}, {goodput:.0} %", pipe.lost).expect("strings take everything");
    }
    insta::assert_snapshot!(table);
}

/// Slow start into a deep buffer of 12 products: both kinds of HyStart leave it before the queue
/// overflows. One product would be too little for HyStart++, whose window doubles from half full
/// to overflowing before the next round's delay tells; Linux's looks at the acknowledgements of
/// the same round.
#[test]
fn hystart_leaves_slow_start_in_time() {
    let slow_start = |name: &str, slow_start, queue| {
        let entry = Entry::find(name).expect("registered");
        let control = entry.make(&Config { slow_start, ..Config::default() });
        let mut pipe = Pipe::new(control, PipeConfig { queue, ..PipeConfig::default() });
        pipe.run_until(Instant::from_millis(900), |_| {});
        (pipe.lost, pipe.control.ssthresh())
    };
    for name in ["cubic", "reno"] {
        let (lost, ssthresh) = slow_start(name, SlowStart::HystartPlusPlus, 2_000);
        assert!(lost == 0 && ssthresh < 2_000.0, "{name}: {lost} lost, until {ssthresh}");
        let (lost, _) = slow_start(name, SlowStart::Plain, 2_000);
        assert!(lost > 300, "{name} loses {lost}");
    }
    let (lost, ssthresh) = slow_start("cubic", SlowStart::Hystart, 2_000);
    assert!(lost == 0 && ssthresh < 334.0, "cubic: {lost} lost, until {ssthresh}");
}
