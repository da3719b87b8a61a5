//! What the nodes cost: packets go from a gateway over two access points to a device in one thread,
//! and the time of each node is taken by itself.
//!
//! ```text
//! cargo bench -p weftline-coding --bench nodes -- [ROUNDS]
//! ```
//!
//! A round is [`COHORTS`] cohorts of [`PACKETS`] packets of 1500 bytes, which at T = 2 ms is 1 Gb/s,
//! in every case once, so that whatever else the machine does meets all cases alike. The gateway
//! sends a quarter more than it got; its packets go to the access points in turns. With losses each
//! packet from an access point to the device is lost with probability 0.1.
#![expect(clippy::disallowed_types, reason = "a benchmark takes the time")]
#![expect(clippy::disallowed_methods, reason = "a benchmark takes the time")]

use std::time::{Duration, Instant as Clock};

use weftline_coding::node::{AccessPoint, Device, Gateway, Mode, NodeConfig};
use weftline_coding::{Kernel, Limits};
use weftline_core::Instant;
use weftline_core::rng::Rng;

const INTERVAL: Duration = Duration::from_millis(2);
const COHORTS: u64 = 100;
const PACKETS: u64 = 166;
const BYTES: usize = 1500;
const NODES: [&str; 3] = ["gateway", "access point", "device"];

/// What is compared.
struct Case {
    name: &'static str,
    mode: Mode,
    cut_through: bool,
    flows: u64,
    loss: f64,
}

const CASES: [Case; 8] = {
    use Mode::{Dense, Systematic};
    const fn case(
        name: &'static str,
        mode: Mode,
        cut_through: bool,
        flows: u64,
        loss: f64,
    ) -> Case {
        Case { name, mode, cut_through, flows, loss }
    }
    [
        case("systematic, 1 flow", Systematic, false, 1, 0.0),
        case("systematic, 1 flow, losses", Systematic, false, 1, 0.1),
        case("systematic, 16 flows, losses", Systematic, false, 16, 0.1),
        case("cut-through, 1 flow", Systematic, true, 1, 0.0),
        case("cut-through, 1 flow, losses", Systematic, true, 1, 0.1),
        case("cut-through, 16 flows, losses", Systematic, true, 16, 0.1),
        case("dense, 1 flow", Dense, false, 1, 0.0),
        case("dense, 1 flow, losses", Dense, false, 1, 0.1),
    ]
};

fn main() {
    let rounds = std::env::args().filter_map(|arg| arg.parse().ok()).next().unwrap_or(20);
    println!(
        "kernel {}, {rounds} rounds; median of all cohorts, in ns for a packet that the node takes in",
        Kernel::best()
    );
    println!(
        "{:30} {:>14} {:>14} {:>14}  carried by the busiest",
        "", NODES[0], NODES[1], NODES[2]
    );
    let mut worlds: Vec<_> = CASES.iter().map(World::new).collect();
    let mut times = vec![[const { Vec::new() }; 3]; CASES.len()];
    for round in 0..rounds + 2 {
        for (world, times) in worlds.iter_mut().zip(&mut times) {
            world.round();
            // The first rounds are for caches and clocks.
            if round >= 2 {
                times.iter_mut().zip(&world.costs).for_each(|(times, costs)| times.extend(costs));
            }
        }
    }
    for ((case, world), times) in CASES.iter().zip(&worlds).zip(&mut times) {
        let [gateway, ap, device] = times.each_mut().map(|times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        // An access point sees a share of the packets, the device may see more than there are.
        let per_packet = [gateway, ap * world.share[1], device * world.share[2]];
        let busiest = per_packet.into_iter().fold(0.0, f64::max);
        println!(
            "{:30} {gateway:14.0} {ap:14.0} {device:14.0}  {:.2} Gb/s, {:.2} % delivered",
            case.name,
            (BYTES * 8) as f64 / busiest,
            100.0 * world.delivered as f64 / world.received as f64,
        );
    }
}

/// Packets one behind the other, each with its link.
#[derive(Default)]
struct Packets {
    bytes: Vec<u8>,
    ends: Vec<(usize, usize)>,
}

impl Packets {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    fn end(&mut self, link: usize) {
        self.ends.push((link, self.bytes.len()));
    }

    fn iter(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut start = 0;
        self.ends.iter().map(move |&(link, end)| {
            let packet = &self.bytes[start..end];
            start = end;
            (link, packet)
        })
    }
}

struct World {
    case: &'static Case,
    now: Instant,
    gateway: Gateway,
    aps: [AccessPoint; 2],
    device: Device,
    rng: Rng,
    packet: Vec<u8>,
    to_aps: Packets,
    to_device: Packets,
    out: Vec<u8>,
    received: u64,
    delivered: u64,
    /// Packets that each kind of node took in, by those of the gateway.
    share: [f64; 3],
    /// ns of each node for a packet that it takes in, of each cohort.
    costs: [Vec<f64>; 3],
}

impl World {
    fn new(case: &'static Case) -> Self {
        let config = NodeConfig {
            interval: INTERVAL,
            limits: Limits { packets: 32, packet_bytes: BYTES as u16 },
            mode: case.mode,
            cut_through: case.cut_through,
            redundancy_percent: 25,
            ..NodeConfig::default()
        };
        Self {
            case,
            now: Instant::ZERO,
            gateway: Gateway::new(config, 2, 1, Instant::ZERO),
            aps: [2, 3].map(|seed| AccessPoint::new(config, 1, seed)),
            device: Device::new(config, 2),
            rng: Rng::stream(1, "losses"),
            packet: (0..BYTES).map(|i| i as u8).collect(),
            to_aps: Packets::default(),
            to_device: Packets::default(),
            out: Vec::new(),
            received: 0,
            delivered: 0,
            share: [0.0; 3],
            costs: [const { Vec::new() }; 3],
        }
    }

    fn round(&mut self) {
        let mut taken = [0; 3];
        self.costs.iter_mut().for_each(Vec::clear);
        for _ in 0..COHORTS {
            let start = Clock::now();
            self.send();
            let sent = Clock::now();
            self.forward();
            let forwarded = Clock::now();
            self.lose();
            let arrived = Clock::now();
            self.deliver();
            let delivered = Clock::now();
            let spent = [sent - start, forwarded - sent, delivered - arrived];
            let came = [PACKETS as usize, self.to_aps.ends.len(), self.to_device.ends.len()];
            for (node, costs) in self.costs.iter_mut().enumerate() {
                taken[node] += came[node];
                costs.push(spent[node].as_secs_f64() * 1e9 / came[node].max(1) as f64);
            }
        }
        // Two access points share what they take.
        self.share = [1.0, taken[1] as f64 / 2.0, taken[2] as f64];
        self.share[1..].iter_mut().for_each(|share| *share /= taken[0] as f64);
    }

    /// An interval at the gateway: with cut-through links have room all the time.
    fn send(&mut self) {
        self.to_aps.clear();
        for i in 0..PACKETS {
            let now = self.now + INTERVAL * i as u32 / PACKETS as u32;
            let flow = (i % self.case.flows) as u16;
            self.gateway.receive(flow, &self.packet, now).expect("there is room");
            if self.case.cut_through {
                self.poll_gateway(i as usize & 1, now);
                self.poll_gateway(i as usize & 1, now);
            }
        }
        self.received += PACKETS;
        if !self.case.cut_through {
            self.now += INTERVAL;
            let mut link = 0;
            while self.poll_gateway(link, self.now) {
                link ^= 1;
            }
            self.poll_gateway(link ^ 1, self.now);
        } else {
            self.now += INTERVAL;
        }
    }

    fn poll_gateway(&mut self, link: usize, now: Instant) -> bool {
        let sent = self.gateway.poll_transmit(link, now, &mut self.to_aps.bytes).is_some();
        if sent {
            self.to_aps.end(link);
        }
        sent
    }

    fn forward(&mut self) {
        self.to_device.clear();
        for (link, packet) in self.to_aps.iter() {
            let _ = self.aps[link].receive(0, packet, self.now);
            while self.aps[link].poll_transmit(self.now, &mut self.to_device.bytes).is_some() {
                self.to_device.end(link);
            }
        }
    }

    fn lose(&mut self) {
        for (link, _) in &mut self.to_device.ends {
            if self.rng.unit_f64() < self.case.loss {
                *link = 2;
            }
        }
    }

    fn deliver(&mut self) {
        for (link, packet) in self.to_device.iter() {
            if link < 2 {
                let _ = self.device.receive(link, packet, self.now);
                self.out.clear();
                while self.device.poll_delivery(&mut self.out).is_some() {
                    self.delivered += 1;
                    self.out.clear();
                }
            }
        }
    }
}
