//! What the tests of whole runs share: plans of one bottleneck, and many runs at once.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code; each test binary uses its own part"
)]

use std::num::NonZero;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use weftline_core::Bitrate;
use weftline_core::scheduler::SchedulerConfig;
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};
use weftline_sim::{FlowPlan, Outcome, PathPlan, Plan, Traffic};

/// One bottleneck and flows of one congestion control over it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub congestion: &'static str,
    /// Of each packet, on the way to the receiver.
    pub loss: f64,
    pub rate_mbps: u64,
    /// Without queues.
    pub rtt_ms: u64,
    /// In packets.
    pub queue: u64,
    pub flows: usize,
    pub duration_s: u64,
    pub warmup_s: u64,
    pub series: bool,
}

/// The reference: 100 Mb/s, 20 ms, a queue of 1 BDP, 30 s of which the first 5 do not count.
pub const REFERENCE: Case = Case {
    congestion: "reno",
    loss: 0.0,
    rate_mbps: 100,
    rtt_ms: 20,
    queue: 167,
    flows: 1,
    duration_s: 30,
    warmup_s: 5,
    series: false,
};

/// What a full segment is on the wire and carries, in bytes: the greatest goodput is their ratio.
pub const CAP: f64 = 1448.0 / 1500.0;

impl Case {
    pub fn plan(&self, seed: u64) -> Plan {
        let link = |rate, loss| LinkConfig {
            rate: RateTrace::constant(rate),
            delay: Duration::from_micros(self.rtt_ms * 500),
            jitter: Duration::ZERO,
            queue: QueueLimit::Packets(self.queue),
            loss,
        };
        let loss = if self.loss > 0.0 { LossModel::Bernoulli(self.loss) } else { LossModel::None };
        let flow = |index: usize| FlowPlan {
            own_control: None,
            name: format!("{index}"),
            scheduler: None,
            settings: SchedulerConfig::default(),
            oracle: false,
            congestion: weftline_congestion::Entry::find(self.congestion).unwrap(),
            paths: vec![0],
            is_spread: false,
            traffic: Traffic::Bulk,
            start: Duration::ZERO,
            stop: None,
        };
        Plan {
            paths: vec![PathPlan {
                name: "path".to_owned(),
                down: link(Bitrate::mbps(self.rate_mbps), loss),
                up: link(Bitrate::mbps(1_000), LossModel::None),
                shares: None,
                congestion: None,
                unplugged: Vec::new(),
            }],
            flows: (0..self.flows).map(flow).collect(),
            duration: Duration::from_secs(self.duration_s),
            warmup: Duration::from_secs(self.warmup_s),
            seed,
            series: self.series,
            weave: None,
            measured: 1,
            packet_bytes: 1500,
            sender_pacing: false,
            // As the namespaces had in which Linux was measured.
            receive_buffer: 32 << 20,
            ratio: None,
            backend: None,
            gateway: None,
            calls: None,
        }
    }

    /// The means over seeds from 1.
    pub fn seeds(&self, count: u64) -> Means {
        let outcomes = all((1..=count).map(|seed| self.plan(seed)).collect(), |plan| {
            weftline_sim::run(plan).unwrap()
        });
        Means::of(&outcomes)
    }
}

/// Means over the seeds of a case.
#[derive(Clone, Debug)]
pub struct Means {
    pub goodput_mbps: f64,
    pub seeds_mbps: Vec<f64>,
    pub rtt_ms: f64,
    pub resent: f64,
    pub drops: f64,
    pub longest_gap_ms: f64,
}

impl Means {
    fn of(outcomes: &[Outcome]) -> Self {
        let records = || outcomes.iter().map(|outcome| &outcome.record);
        let seeds_mbps: Vec<f64> = records().map(|record| record.goodput_mbps.unwrap()).collect();
        let paths: Vec<_> = records().map(|record| &record.paths[0]).collect();
        let lost = paths.iter().map(|path| path.lost.unwrap() + path.queue_drops.unwrap());
        let resent = paths.iter().map(|path| path.retransmitted_packets.unwrap() as f64);
        Self {
            goodput_mbps: mean(&seeds_mbps),
            seeds_mbps,
            rtt_ms: mean(&paths.iter().map(|path| path.rtt_ms.unwrap().mean).collect::<Vec<_>>()),
            resent: mean(&resent.collect::<Vec<_>>()),
            drops: mean(&lost.map(|lost| lost as f64).collect::<Vec<_>>()),
            longest_gap_ms: records().map(|r| r.longest_gap_ms.unwrap()).fold(0.0, f64::max),
        }
    }
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Does `run` with each of `jobs`, on all cores; the results in the order of the jobs.
pub fn all<J: Send, R: Send>(jobs: Vec<J>, run: impl Fn(J) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
    let jobs: Vec<_> = jobs.into_iter().map(|job| Mutex::new(Some(job))).collect();
    let results: Vec<_> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { return };
                    let job = job.lock().unwrap().take().unwrap();
                    let result = run(job);
                    *results[index].lock().unwrap() = Some(result);
                }
            });
        }
    });
    results.into_iter().map(|result| result.into_inner().unwrap().unwrap()).collect()
}
