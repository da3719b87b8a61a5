//! Runs schemes over a scenario and prints a line each: a bench for the developer of a scheme.

use weftline_scenario::{Scenario, Scheme};

fn main() {
    let mut args = std::env::args().skip(1);
    let mut scenario = Scenario::find(&args.next().expect("SCENARIO")).expect("a scenario");
    let congestion = args.next().expect("CONGESTION").parse().expect("a control");
    let seconds: f64 = args.next().expect("SECONDS").parse().expect("a number");
    if seconds > 0.0 {
        scenario.duration = std::time::Duration::from_secs_f64(seconds);
    }
    for scheme in args {
        let scheme: Scheme = scheme.parse().expect("a scheme");
        let at = std::time::Instant::now();
        let outcome = weftline_sim::simulate(
            &scenario,
            &scheme,
            congestion,
            1,
            std::env::var_os("SERIES").is_some(),
        );
        let outcome = outcome.expect("a run");
        let took = at.elapsed().as_secs_f64();
        let record = &outcome.record;
        for sample in outcome.samples().filter(|s| s.time_s < 1.55) {
            println!("{} {} {} {:.1}", sample.path, sample.metric, sample.time_s, sample.value);
        }
        println!(
            "{scheme}: {:.1} Mb/s, delay {:?}, gap {:?} ms, dup {:?}, video {:?}",
            record.goodput_mbps.unwrap_or(0.0),
            record.in_order_delay_ms.map(|d| (d.p50, d.p99)),
            record.longest_gap_ms,
            record.duplicate_bytes,
            record.video.as_ref().map(|v| (v.picture_discards, v.buffer_underflows, v.startup_s)),
        );
        for path in &record.paths {
            println!(
                "    {}: {:.1} Mb/s, {} packets, {} resent, {} lost, {} dropped, rtt {:.1} ms",
                path.name,
                path.goodput_mbps.unwrap_or(0.0),
                path.packets.unwrap_or(0),
                path.retransmitted_packets.unwrap_or(0),
                path.lost.unwrap_or(0),
                path.queue_drops.unwrap_or(0),
                path.rtt_ms.map_or(0.0, |rtt| rtt.mean),
            );
        }
        println!(
            "    {took:.2} s, {} events, {:.2} M/s; {} packets, {:.0} k/s",
            outcome.events(),
            outcome.events() as f64 / took / 1e6,
            outcome.packets,
            outcome.packets as f64 / took / 1e3,
        );
    }
}
