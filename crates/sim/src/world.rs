//! The world of one run: what is in it, and the loop that makes it happen.

use std::time::Duration;

use weftline_congestion::Config;
use weftline_core::rng::Rng;
use weftline_core::time::nanos;
use weftline_link::{Link, LinkConfig, LinkStats};

use crate::SimError;
use crate::flow::{Flow, Traffic};
use crate::net::Net;
use crate::plan::Plan;
use crate::queue::Event;
use crate::tcp::{Endpoint, EndpointConfig};
use crate::wire::Wire;

/// Payload of a full segment: 1500 bytes less IP and TCP headers with timestamps.
const MSS: u64 = 1448;
/// The first window in segments (RFC 6928).
const INITIAL_CWND: u64 = 10;
/// Connections that do not stand by then fail the run.
const SETUP_LIMIT: Duration = Duration::from_secs(30);
/// Between the last connection and the workload: what the handshakes left behind is over by then,
/// as in the lab.
const REST: Duration = Duration::from_millis(200);
/// Room for received bytes at each TCP endpoint, as in the lab's namespaces.
const RECEIVE_BUFFER: u64 = 32 << 20;
/// Invariants that cost a look at everything are checked once in so many events.
const CHECK_EVERY: u64 = 1 << 14;
/// A time series has a value for each of these.
pub(crate) const STEP: Duration = Duration::from_millis(100);

/// One step of the time series of a flow or a path, in bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    /// By flow: bytes released in each step.
    pub(crate) flows: Vec<Vec<u64>>,
    /// By path: wire bytes delivered by the down link in each step.
    pub(crate) paths: Vec<Vec<u64>>,
    /// By flow and subflow: window in segments and smoothed round-trip time in ms.
    pub(crate) windows: Vec<Vec<Vec<(f64, f64)>>>,
}

/// A run as it happens.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) net: Net,
    pub(crate) flows: Vec<Flow>,
    pub(crate) plan: Plan,
    /// When the workload began.
    pub(crate) epoch_ns: Option<u64>,
    pub(crate) series: Series,
    delivered_before: Vec<u64>,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut net = Net::default();
        for (index, path) in plan.paths.iter().enumerate() {
            let wire = |offset: usize, config: &LinkConfig, direction: &str| {
                let name = format!("{}/{direction}", path.name);
                let number = u32::try_from(2 * index + offset).expect("a run has few paths");
                Wire::new(number, Link::new(config.clone(), plan.seed, &name))
            };
            let (down, up) = (wire(0, &path.down, "down"), wire(1, &path.up, "up"));
            net.wires.extend([down, up]);
        }
        let mut flows = Vec::new();
        for (index, flow) in plan.flows.iter().enumerate() {
            net.add_flow(flow.congestion.coupled);
            let index = u32::try_from(index).expect("a run has few flows");
            let ends = (0..flow.paths.len()).map(|k| add_ends(&mut net, &plan, index, k));
            let ends = ends.collect();
            let wakes = Rng::stream(plan.seed, &format!("flow/{index}/wakes"));
            flows.push(Flow::new(index, flow.clone(), ends, plan.warmup, wakes));
        }
        let series = Series {
            flows: vec![Vec::new(); flows.len()],
            paths: vec![Vec::new(); plan.paths.len()],
            windows: plan.flows.iter().map(|flow| vec![Vec::new(); flow.paths.len()]).collect(),
        };
        let delivered_before = vec![0; plan.paths.len()];
        Self { net, flows, plan, epoch_ns: None, series, delivered_before }
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// If its connections could not be made.
    pub(crate) fn run(&mut self) -> Result<(), SimError> {
        let warm = self.flows.iter().any(Flow::is_warm);
        for flow in self.flows.iter_mut().filter(|flow| flow.is_warm()) {
            flow.connect(&mut self.net);
        }
        if warm {
            let limit = nanos(SETUP_LIMIT);
            while !self.is_set_up() {
                if !self.step(limit) {
                    return Err(SimError::NotConnected { limit: SETUP_LIMIT });
                }
            }
            let ready = self.net.now_ns() + nanos(REST);
            while self.step(ready) {}
            self.net.queue.advance(ready);
        }
        self.begin();
        let end = self.net.now_ns() + nanos(self.plan.duration);
        let mut until_check = CHECK_EVERY;
        while !self.is_over() && self.step(end) {
            until_check -= 1;
            if until_check == 0 {
                until_check = CHECK_EVERY;
                self.check();
            }
        }
        self.check();
        Ok(())
    }

    fn is_set_up(&self) -> bool {
        self.flows.iter().filter(|flow| flow.is_warm()).all(|flow| flow.is_up(&self.net))
    }

    /// The workload begins: traces and schedules, flows, series.
    fn begin(&mut self) {
        let now = self.net.now_ns();
        self.epoch_ns = Some(now);
        for wire in &mut self.net.wires {
            wire.start(now);
        }
        for flow in &mut self.flows {
            if let Some(stop) = flow.plan.stop {
                self.net.queue.push(now + nanos(stop), Event::Stop(flow.index));
            }
            if flow.plan.start.is_zero() {
                flow.begin(&mut self.net);
            } else {
                self.net.queue.push(now + nanos(flow.plan.start), Event::Start(flow.index));
            }
        }
        if self.plan.series {
            self.net.queue.push(now + nanos(STEP), Event::Sample);
        }
    }

    /// Whether the first flow has all it wanted, where that has an end.
    fn is_over(&self) -> bool {
        let first = &self.flows[0];
        let ends = !matches!(first.plan.traffic, Traffic::Bulk | Traffic::Cbr(_));
        ends && first.is_done()
    }

    /// Lets the next event happen, if there is one before `end_ns`.
    fn step(&mut self, end_ns: u64) -> bool {
        let Some((_, event)) = self.net.queue.pop(end_ns) else { return false };
        match event {
            Event::Arrival(wire) => {
                let net = &mut self.net;
                let segment = net.wires[wire as usize].arrive(&mut net.queue);
                net.deliver(&segment);
                self.changed(segment.to);
            }
            Event::Endpoint(index) => {
                self.net.expire(index);
                self.changed(index);
            }
            Event::Flow(index) => self.flows[index as usize].expire(&mut self.net),
            Event::Start(index) => self.flows[index as usize].begin(&mut self.net),
            Event::Stop(index) => self.flows[index as usize].stop(&self.net),
            Event::Sample => self.sample(),
        }
        true
    }

    /// An endpoint has changed: its flow looks at it and lets its segments go out.
    fn changed(&mut self, index: u32) {
        let place = self.net.place(index);
        let flow = &mut self.flows[place.flow as usize];
        flow.handle(place.subflow, place.server, &mut self.net);
    }

    fn sample(&mut self) {
        let at = self.net.now_ns() + nanos(STEP);
        self.net.queue.push(at, Event::Sample);
        for (flow, series) in self.flows.iter_mut().zip(&mut self.series.flows) {
            series.push(flow.sink.take_step());
        }
        for (index, series) in self.series.paths.iter_mut().enumerate() {
            let delivered = self.net.wires[2 * index].arrived_bytes();
            series.push(delivered - self.delivered_before[index]);
            self.delivered_before[index] = delivered;
        }
        for (flow, series) in self.flows.iter().zip(&mut self.series.windows) {
            for ([_, server], series) in flow.ends().into_iter().zip(series) {
                let endpoint = self.net.endpoint(server);
                series.push((endpoint.cwnd(), endpoint.srtt_ns() as f64 / 1e6));
            }
        }
    }

    fn check(&self) {
        self.net.check();
        self.flows.iter().for_each(Flow::check);
    }

    /// The digest of the run's events.
    pub(crate) fn digest(&self) -> u64 {
        self.net.queue.digest()
    }

    /// What the links of a path have done: down, up.
    pub(crate) fn link_stats(&self, path: usize) -> [LinkStats; 2] {
        let path = self.plan.paths[path].shares.unwrap_or(path);
        [self.net.wires[2 * path].stats(), self.net.wires[2 * path + 1].stats()]
    }
}

/// Makes the two endpoints of a flow's `k`-th subflow: the client's and the server's.
fn add_ends(net: &mut Net, plan: &Plan, index: u32, k: usize) -> [u32; 2] {
    let flow = &plan.flows[index as usize];
    let path = flow.paths[k];
    let links = plan.paths[path].shares.unwrap_or(path);
    let wire = |offset: usize| u32::try_from(2 * links + offset).expect("a run has few paths");
    let (client, server) = (net.next_endpoint(), net.next_endpoint() + 1);
    let subflow = u32::try_from(k).expect("a flow has few subflows");
    for (number, peer, is_server) in [(client, server, false), (server, client, true)] {
        let config = EndpointConfig {
            peer,
            mss: MSS,
            initial_cwnd: INITIAL_CWND,
            receive_buffer: RECEIVE_BUFFER,
        };
        // Every control draws from a stream of its own.
        let control = flow.congestion.make(&Config {
            mss: MSS,
            initial_cwnd: INITIAL_CWND,
            seed: plan.seed ^ (u64::from(number) << 32),
            ..Config::default()
        });
        let out = wire(usize::from(!is_server));
        let place = (index, subflow, is_server);
        net.add_endpoint(Endpoint::new(&config, control), place, out);
    }
    [client, server]
}
