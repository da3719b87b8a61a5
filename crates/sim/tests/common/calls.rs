//! A call beside a bulk download over two links with queues of 200 ms.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code; each test binary uses its own part"
)]

use std::time::Duration;

use weftline_core::datagram::CallRules;
use weftline_core::{Bitrate, ByteCount};
use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};
use weftline_scenario::{Case as Swept, Scheme, Sweep};
use weftline_sim::{CallPlan, FlowPlan, PathPlan, Plan, run};

/// What two links are called here: constant ones, whose rates and delays are named, and draws of
/// `random-wan` with two links, one for each seed. The call begins after 20 s, amid the download; another
/// machine downloads over both links by plain TCP.
pub const LINKS: [&str; 6] = [
    "20 Mb/s 10 ms + 10 Mb/s 25 ms",
    "dsl + lte",
    "4 + 2 Mb/s",
    "random-wan",
    "20 + 10 Mb/s, call later",
    "20 + 10 Mb/s, neighbour",
];

/// The time from one packet of a call to the next, and its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub every_ms: u64,
    pub bytes: usize,
}

impl Call {
    /// 50 packets a second.
    pub const SOUND: Self = Self { every_ms: 20, bytes: 200 };
    /// 2.5 Mb/s.
    pub const PICTURES: Self = Self { every_ms: 4, bytes: 1250 };
}

/// A run.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub links: &'static str,
    pub control: &'static str,
    pub rules: Option<CallRules>,
    pub call: Call,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Result {
    /// Of the call's packets to the client, in milliseconds beyond the nearer link's way: median, p95, p99,
    /// longest.
    pub delays: [f64; 4],
    pub lost: u64,
    pub longest_gap_ms: f64,
    /// Of the download, in Mb/s.
    pub goodput: f64,
    pub cuts: u64,
    pub in_vain: u64,
}

const DURATION: Duration = Duration::from_secs(60);
const QUEUE: Duration = Duration::from_millis(200);

fn constant(mbps: f64, delay_ms: u64, loss: f64) -> LinkConfig {
    let rate = Bitrate::bps((mbps * 1e6) as u64);
    LinkConfig {
        rate: RateTrace::constant(rate),
        delay: Duration::from_millis(delay_ms),
        jitter: Duration::ZERO,
        queue: QueueLimit::Bytes(rate.bytes_in(QUEUE)),
        loss: if loss > 0.0 { LossModel::Bernoulli(loss) } else { LossModel::None },
    }
}

/// The plan of a download over a draw of `random-wan`: the first ones of two links.
fn drawn(control: &str, seed: u64) -> Plan {
    let sweep = Sweep::find("random-wan").unwrap();
    let cases = sweep.cases().map(std::result::Result::unwrap);
    let is_it = |case: &Swept| {
        case.scheme.to_string() == "fbdt"
            && case.congestion.to_string() == control
            && case.scenario.paths.len() == 2
    };
    let Swept { mut scenario, scheme, congestion, .. } =
        cases.filter(is_it).nth(seed as usize - 1).unwrap();
    scenario.duration = DURATION;
    let mut plan = Plan::new(&scenario, &scheme, congestion, seed).unwrap();
    for path in &mut plan.paths {
        for link in [&mut path.down, &mut path.up] {
            let bytes = link.rate.mean().bytes_in(QUEUE);
            link.queue = QueueLimit::Bytes(bytes.max(ByteCount::new(20_000)));
        }
    }
    plan
}

impl Case {
    pub fn plan(&self, seed: u64) -> Plan {
        let two = |links: [LinkConfig; 2]| {
            let mut scenario = weftline_scenario::Scenario::find("bond").unwrap();
            scenario.duration = DURATION;
            let scheme: Scheme = "fbdt".parse().unwrap();
            let plan = Plan::new(&scenario, &scheme, self.control.parse().unwrap(), seed).unwrap();
            let named = plan.paths.iter().zip(links);
            let paths = named.map(|(path, down)| {
                // Uploads are as wide here, and as empty as there is nothing to go there.
                PathPlan { up: down.clone(), down, ..path.clone() }
            });
            Plan { paths: paths.collect(), ..plan }
        };
        let mut plan = match self.links {
            "dsl + lte" => two([constant(50.0, 8, 0.0), constant(30.0, 40, 0.01)]),
            "4 + 2 Mb/s" => two([constant(4.0, 15, 0.0), constant(2.0, 30, 0.0)]),
            "random-wan" => drawn(self.control, seed),
            links if links.contains("neighbour") => {
                two([constant(20.0, 9 + seed, 0.0), constant(10.0, 24 + seed, 0.0)])
            }
            _ => two([constant(20.0, 10, 0.0), constant(10.0, 25, 0.0)]),
        };
        if self.links.contains("neighbour") {
            for path in 0..2 {
                let (scheduler, name) = (None, "neighbour".to_owned());
                let own = &plan.flows[0];
                let paths = vec![path];
                plan.flows.push(FlowPlan { scheduler, name, paths, ..own.clone() });
            }
        }
        (plan.duration, plan.warmup) = (DURATION, Duration::from_secs(5));
        plan.calls = Some(CallPlan {
            every: Duration::from_millis(self.call.every_ms),
            bytes: self.call.bytes,
            from: if self.links.contains("later") {
                Duration::from_secs(20)
            } else {
                Duration::ZERO
            },
            until: DURATION,
            rules: self.rules,
        });
        plan
    }

    pub fn run(&self, seed: u64) -> Result {
        let plan = self.plan(seed);
        let way = plan.paths.iter().map(|path| path.down.delay).min().unwrap();
        let outcome = run(plan).unwrap();
        assert_eq!(outcome.record.error, None);
        let [_, down] = outcome.calls.unwrap();
        let ms = |part: f64| {
            let delay = down.delay(part, Duration::ZERO).unwrap();
            (delay.as_secs_f64() - way.as_secs_f64()) * 1e3
        };
        Result {
            delays: [0.5, 0.95, 0.99, 1.0].map(ms),
            lost: down.sent - down.came.len() as u64,
            longest_gap_ms: down.longest_gap.as_secs_f64() * 1e3,
            goodput: outcome.record.goodput_mbps.unwrap(),
            cuts: down.holds.iter().map(|hold| hold.cuts).sum(),
            in_vain: down.holds.iter().map(|hold| hold.in_vain).sum(),
        }
    }
}
