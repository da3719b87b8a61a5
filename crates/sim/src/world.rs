//! The world of one run: what is in it, and the loop that makes it happen.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weftline_core::Instant;
use weftline_core::scheduler::RatioMemory;
use weftline_core::time::nanos;
use weftline_link::LinkStats;
use weftline_measure::{Delays, STEP};

use crate::SimError;
use crate::build;
use crate::calls::{Calls, Limiters};
use crate::flow::Flow;
use crate::net::{Net, Spreading};
use crate::plan::{Plan, Traffic};
use crate::queue::Event;
use crate::tcp::Segment;
use crate::wire::Cargo;

/// Connections that do not stand by then fail the run.
const SETUP_LIMIT: Duration = Duration::from_secs(30);
/// Between the last connection and the workload: what the handshakes left behind is over by then,
/// as in the lab.
const REST: Duration = Duration::from_millis(200);
/// Invariants that cost a look at everything are checked once in so many events.
const CHECK_EVERY: u64 = 1 << 14;

/// What is looked at every step of the time series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
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
    /// TCP payload that has come over the links of each path.
    payload: Vec<u64>,
    /// From the server to the client's TCP by packet, where there is a gateway.
    pub(crate) packet_delays: Option<Box<Delays>>,
    pub(crate) calls: Option<Box<Calls>>,
}

impl World {
    pub(crate) fn new(plan: Plan) -> Self {
        let mut net = build::network(&plan);
        let (mut flows, limiters) = (Vec::new(), Limiters::new(&plan));
        let ratio = plan.ratio.map_or_else(RatioMemory::default, RatioMemory::with_percent);
        for (index, flow) in plan.flows.iter().enumerate() {
            net.add_flow(flow.congestion.coupled);
            let index = u32::try_from(index).expect("a run has few flows");
            let openers = (0..flow.subflows()).map(|k| build::opener(&plan, index, k));
            let (openers, mss) = (openers.collect(), build::mss(&plan));
            let parts = (openers, ratio.clone(), &limiters);
            flows.push(Flow::new(index, &plan, mss, parts, &mut net));
        }
        let series = Series {
            paths: vec![Vec::new(); plan.paths.len()],
            windows: plan.flows.iter().map(|flow| vec![Vec::new(); flow.paths.len()]).collect(),
        };
        let delivered_before = vec![0; plan.paths.len()];
        let payload = delivered_before.clone();
        let packet_delays = plan.gateway.is_some().then(Box::default);
        let (epoch_ns, calls) = (None, Calls::new(&plan, &limiters).map(Box::new));
        Self { net, flows, plan, epoch_ns, series, delivered_before, payload, packet_delays, calls }
    }

    /// Runs it to its end.
    ///
    /// # Errors
    /// If its connections could not be made, or `stop` was set.
    pub(crate) fn run(&mut self, stop: &AtomicBool) -> Result<(), SimError> {
        let end = self.start()?;
        self.advance(end, stop)?;
        self.check();
        Ok(())
    }

    /// Makes the connections and begins the workload. Returns when that ends.
    ///
    /// # Errors
    /// If the connections could not be made.
    pub(crate) fn start(&mut self) -> Result<u64, SimError> {
        let warm = self.flows.iter().any(Flow::is_warm);
        for flow in self.flows.iter_mut().filter(|flow| flow.is_warm()) {
            flow.connect(&mut self.net);
        }
        if warm {
            let limit = nanos(SETUP_LIMIT);
            while !self.is_set_up() {
                if !self.step(limit) {
                    let paths = self.paths_not_up();
                    return Err(SimError::NotConnected { limit: SETUP_LIMIT, paths });
                }
            }
            let ready = self.net.now_ns() + nanos(REST);
            while self.step(ready) {}
            self.net.queue.advance(ready);
        }
        self.begin();
        Ok(self.net.now_ns() + nanos(self.plan.duration))
    }

    /// Lets happen what happens until `to_ns`. Returns whether the workload goes on.
    ///
    /// # Errors
    /// If `stop` was set.
    pub(crate) fn advance(&mut self, to_ns: u64, stop: &AtomicBool) -> Result<bool, SimError> {
        let mut until_check = CHECK_EVERY;
        while !self.is_over() {
            if !self.step(to_ns) {
                return Ok(true);
            }
            until_check -= 1;
            if until_check == 0 {
                until_check = CHECK_EVERY;
                self.check();
                if stop.load(Ordering::Relaxed) {
                    return Err(SimError::Stopped);
                }
            }
        }
        Ok(false)
    }

    /// The names of the paths that flows wait for.
    fn paths_not_up(&self) -> Vec<String> {
        let waiting = self.flows.iter().filter(|flow| flow.is_warm());
        let numbers: BTreeSet<usize> =
            waiting.flat_map(|flow| flow.paths_not_up(&self.net)).collect();
        numbers.into_iter().map(|number| self.plan.paths[number].name.clone()).collect()
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
        if let Spreading::Coded(network) = &mut self.net.spreading {
            network.start(now);
        }
        for (index, path) in (0..).zip(&self.plan.paths) {
            for at in path.unplugged.iter().flatten() {
                self.net.queue.push(now + nanos(*at), Event::Plug(index));
            }
        }
        let epoch = Instant::from_nanos(now);
        for flow in &mut self.flows {
            if let Some(stop) = flow.plan.stop {
                self.net.queue.push(now + nanos(stop), Event::Stop(flow.index));
            }
            if flow.plan.start.is_zero() {
                flow.begin(epoch, &self.plan, &mut self.net);
            } else {
                self.net.queue.push(now + nanos(flow.plan.start), Event::Start(flow.index));
            }
        }
        if self.plan.series {
            self.net.queue.push(now + nanos(STEP), Event::Sample);
        }
        self.calls.iter_mut().for_each(|calls| calls.begin(&mut self.net));
    }

    /// Whether what is measured has all it wanted, where that has an end.
    fn is_over(&self) -> bool {
        let goes_on = |traffic: &Traffic| {
            matches!(traffic, Traffic::Bulk | Traffic::Cbr(_) | Traffic::Messages { .. })
        };
        let ends = |flow: &Flow| !goes_on(&flow.plan.traffic);
        self.flows[..self.plan.measured].iter().all(|flow| ends(flow) && flow.is_done())
    }

    /// Lets the next event happen, if there is one before `end_ns`.
    fn step(&mut self, end_ns: u64) -> bool {
        let Some((_, event)) = self.net.queue.pop(end_ns) else { return false };
        match event {
            Event::Arrival(wire) => match self.net.arrive(wire) {
                Some(Cargo::Tcp(segment)) => {
                    self.note_spread(wire, &segment);
                    self.deliver(&segment, Some(wire));
                }
                Some(Cargo::Lane(datagram)) => {
                    let calls = self.calls.as_mut().expect("whoever sent it");
                    calls.handle(&datagram, &mut self.net);
                }
                None => {}
            },
            Event::Endpoint(index) => {
                self.net.expire(index);
                self.changed(index);
            }
            Event::Flow(index) => self.flows[index as usize].expire(&mut self.net),
            Event::Start(index) => {
                let epoch = Instant::from_nanos(self.epoch_ns.expect("the workload has begun"));
                self.flows[index as usize].begin(epoch, &self.plan, &mut self.net);
            }
            Event::Stop(index) => self.flows[index as usize].stop(&self.net),
            Event::Plug(path) => {
                let is_in = self.net.plug(path);
                for flow in &mut self.flows {
                    flow.replug(path, is_in, &mut self.net);
                }
            }
            Event::Sample => self.sample(),
            Event::Calls => {
                self.calls.iter_mut().for_each(|calls| calls.expire(&mut self.net));
            }
            Event::Hop(_) | Event::Room(_) | Event::Node(_) => self.step_coded(event),
        }
        true
    }

    /// Something happens to the nodes that code, and packets may come out.
    fn step_coded(&mut self, event: Event) {
        let Net { queue, spreading, .. } = &mut self.net;
        let Spreading::Coded(network) = spreading else { return };
        match event {
            Event::Hop(hop) => {
                if let Some((path, bytes)) = network.arrive(hop, queue) {
                    self.note_radio(path, bytes);
                }
            }
            Event::Room(hop) => network.room(hop, queue),
            Event::Node(node) => network.expire(node, queue),
            _ => {}
        }
        while let Spreading::Coded(network) = &mut self.net.spreading
            && let Some(segment) = network.poll_delivery()
        {
            self.deliver(&segment, None);
        }
    }

    /// A segment has come to its endpoint, by a wire or from a node that codes.
    fn deliver(&mut self, segment: &Segment, wire: Option<u32>) {
        self.net.deliver(segment);
        self.measure(segment);
        if segment.option > 0 {
            let place = self.net.place(segment.to);
            let flow = &mut self.flows[place.flow as usize];
            flow.take_option(place.subflow, segment.option, &self.net);
        }
        let follows = |wire| segment.len > 0 && self.net.is_followed(wire, segment.to);
        if !wire.is_some_and(follows) {
            self.changed(segment.to);
        }
    }

    /// A segment has come by a wire, over the radio of a path if a gateway chose that for it.
    fn note_spread(&mut self, wire: u32, segment: &Segment) {
        let (path, is_up) = (wire as usize / 2, !wire.is_multiple_of(2));
        if matches!(self.net.spreading, Spreading::RoundRobin { .. }) && !is_up {
            self.note_radio(path, segment.wire_bytes());
        }
    }

    /// A packet has come over the radio of a path: of whichever flow, as nobody sees that where packets
    /// are combined.
    fn note_radio(&mut self, path: usize, bytes: u64) {
        let now = Instant::from_nanos(self.net.now_ns());
        for flow in self.flows.iter_mut().filter(|flow| flow.plan.is_spread) {
            if let Some(path) = flow.path_mut(path) {
                path.arrived(now, bytes);
            }
        }
    }

    /// Notes what a segment that has come says of its path.
    fn measure(&mut self, segment: &Segment) {
        let now = Instant::from_nanos(self.net.now_ns());
        let place = self.net.place(segment.to);
        let flow = &mut self.flows[place.flow as usize];
        let (window, is_spread) = (flow.sink.measurement().window(), flow.plan.is_spread);
        let Some(path) = flow.path_mut(place.path as usize) else { return };
        if place.server {
            let srtt_ns = self.net.endpoint(segment.to).srtt_ns();
            if srtt_ns > 0 {
                path.rtt(now, Duration::from_nanos(srtt_ns));
            }
        } else if segment.len > 0 {
            if !is_spread {
                path.arrived(now, segment.len.into());
                let links = self.plan.paths[place.path as usize].shares;
                self.payload[links.unwrap_or(place.path as usize)] += u64::from(segment.len);
            }
            if let Some(delays) = &mut self.packet_delays
                && window.counts(now)
            {
                delays.record(now.since(Instant::from_nanos(segment.sent_ns)), 1);
            }
        }
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
        let is_spread = self.flows[0].plan.is_spread;
        for (index, series) in self.series.paths.iter_mut().enumerate() {
            // What paths.goodput_mbps of the record counts, too: where a gateway spreads packets, whole ones.
            let delivered = match &self.net.spreading {
                Spreading::Coded(network) => network.arrived_bytes(index),
                _ if is_spread => self.net.wires[2 * index].arrived_bytes(),
                _ => self.payload[index],
            };
            series.push(delivered - self.delivered_before[index]);
            self.delivered_before[index] = delivered;
        }
        for (flow, series) in self.flows.iter().zip(&mut self.series.windows) {
            for (path, series) in series.iter_mut().enumerate() {
                let server = flow.ends_of(path).last().map(|[_, server]| self.net.endpoint(server));
                let window = server.map(|end| (end.cwnd(), end.srtt_ns() as f64 / 1e6));
                series.push(window.unwrap_or_default());
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
        let down = match &self.net.spreading {
            Spreading::Coded(network) => network.stats(path),
            _ => self.net.wires[2 * path].stats(),
        };
        [down, self.net.wires[2 * path + 1].stats()]
    }
}
