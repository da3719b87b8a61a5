//! The reference cases: one flow over 100 Mb/s, 20 ms, a queue of 1 BDP, under i.i.d. loss.

use std::time::Duration;

use weftline_core::{Bitrate, ByteCount};
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};
use weftline_sim::{FlowPlan, PathPlan, Plan, Traffic};

fn plan(congestion: &str, loss: f64, seed: u64) -> Plan {
    let link = |rate, loss| LinkConfig {
        rate: RateTrace::constant(rate),
        delay: Duration::from_millis(10),
        jitter: Duration::ZERO,
        queue: QueueLimit::Packets(167),
        loss,
    };
    let loss = if loss > 0.0 { LossModel::Bernoulli(loss) } else { LossModel::None };
    Plan {
        paths: vec![PathPlan {
            name: "path".to_owned(),
            down: link(Bitrate::mbps(100), loss),
            up: link(Bitrate::mbps(1000), LossModel::None),
            shares: None,
        }],
        flows: vec![FlowPlan {
            name: String::new(),
            scheduler: None,
            congestion: weftline_congestion::Entry::find(congestion).unwrap(),
            paths: vec![0],
            traffic: Traffic::Bulk,
            start: Duration::ZERO,
            stop: None,
        }],
        duration: Duration::from_secs(30),
        warmup: Duration::from_secs(5),
        seed,
        series: false,
    }
}

#[test]
fn single_flows() {
    let _ = ByteCount::ZERO;
    for congestion in ["reno", "cubic", "bbr"] {
        for loss in [0.0, 0.001, 0.01, 0.02, 0.05] {
            let mut goodputs = Vec::new();
            let mut rtts = Vec::new();
            let (mut resent, mut drops, mut events) = (0, 0, 0);
            let at = std::time::Instant::now();
            for seed in 1..=5 {
                let outcome = weftline_sim::run(plan(congestion, loss, seed)).unwrap();
                let path = &outcome.record.paths[0];
                goodputs.push(outcome.record.goodput_mbps.unwrap());
                rtts.push(path.rtt_ms.unwrap().mean);
                resent += path.retransmitted_packets.unwrap();
                drops += path.lost.unwrap() + path.queue_drops.unwrap();
                events += outcome.events();
            }
            let mean = |v: &[f64]| v.iter().sum::<f64>() / v.len() as f64;
            println!(
                "{congestion} {loss}: {:.1} Mb/s {:?} rtt {:.1} ms resent {resent} drops {drops} \
                 {:.2} M events/s",
                mean(&goodputs),
                goodputs.iter().map(|g| (g * 10.0).round() / 10.0).collect::<Vec<_>>(),
                mean(&rtts),
                events as f64 / at.elapsed().as_secs_f64() / 1e6,
            );
        }
    }
}
