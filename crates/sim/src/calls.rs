//! Calls beside the flows of a run: two bonds of lanes on the same wires as TCP, the very state machines of
//! `weftline up` and its server (`weftline_core::datagram`), and what came of the calls' packets.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_congestion::lane;
use weftline_core::datagram::{Bond, BondConfig, Carrier, HoldStatus, LaneId};
use weftline_core::limiter::PathLimiter;
use weftline_core::time::nanos;
use weftline_core::{Instant, PathId, Role};

use crate::net::Net;
use crate::plan::{CallPlan, Plan};
use crate::queue::Event;
use crate::wire::{Cargo, Datagram};

/// The longest packet of a lane.
const MTU: usize = 1400;
/// Bytes of a packet before its number: IPv4 and UDP.
const HEADERS: usize = 28;
const CLIENT: usize = 0;
const SERVER: usize = 1;

/// What came of a call in one direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CallReport {
    /// Packets that were sent.
    pub sent: u64,
    /// Those that came: when they were sent, from the beginning of the call on, and how long they took, in
    /// the order in which they came.
    pub came: Vec<(Duration, Duration)>,
    /// The longest time from one that came to the next.
    pub longest_gap: Duration,
    /// By path, how it was held back at the run's end.
    pub holds: Vec<HoldStatus>,
    /// By path, the sum of the times that it was held back for.
    pub held: Vec<Duration>,
}

impl CallReport {
    /// The delay that this part of the packets that came did not exceed: 0.95 for the 95th percentile.
    /// Those that were sent before `from` are left out. `None` if there are none.
    pub fn delay(&self, part: f64, from: Duration) -> Option<Duration> {
        let counted = self.came.iter().filter(|(sent, _)| *sent >= from);
        let mut delays: Vec<_> = counted.map(|(_, delay)| *delay).collect();
        delays.sort_unstable();
        let last = delays.len().checked_sub(1)?;
        Some(delays[(last as f64 * part).round() as usize])
    }
}

/// What all connections of each end send over each path goes through one limiter.
#[derive(Debug)]
pub(crate) struct Limiters(Vec<[PathLimiter; 2]>);

impl Limiters {
    /// Those of a plan: of so many paths if it has a call that is protected, and else of none.
    pub(crate) fn new(plan: &Plan) -> Self {
        let is_protected = plan.calls.is_some_and(|call| call.rules.is_some());
        let paths = if is_protected { plan.paths.len() } else { 0 };
        Self((0..paths).map(|_| Default::default()).collect())
    }

    /// Those of one end.
    pub(crate) fn of(&self, end: usize) -> impl Iterator<Item = (PathId, PathLimiter)> {
        let limiters = self.0.iter().map(move |limiters| limiters[end].clone());
        limiters.enumerate().map(|(path, limiter)| (PathId(path as u64), limiter))
    }
}

/// One direction of the call, by its sender.
#[derive(Debug, Default)]
struct Way {
    next_ns: u64,
    last_ns: Option<u64>,
    report: CallReport,
    /// By path: since when it is held back.
    held_since: Vec<Option<u64>>,
}

/// The call of a run.
#[derive(Debug)]
pub(crate) struct Calls {
    plan: CallPlan,
    bonds: [Bond; 2],
    /// By path: the wires of the client's and of the server's datagrams.
    wires: Vec<[u32; 2]>,
    ways: [Way; 2],
    began_ns: u64,
    armed: Option<u64>,
}

fn never(_: &mut [u8]) -> bool {
    false
}

impl Calls {
    pub(crate) fn new(plan: &Plan, limiters: &Limiters) -> Option<Self> {
        let call = plan.calls?;
        let now = Instant::ZERO;
        let mut bonds = [true, false].map(|is_initiator| {
            let (congestion, calls) = (lane::bbr as _, call.rules.unwrap_or_default());
            Bond::new(BondConfig { is_initiator, mtu: MTU, mark: never, congestion, calls }, now)
        });
        for (end, bond) in bonds.iter_mut().enumerate() {
            let lane = |path| LaneId(u8::try_from(path).expect("a run has few paths"));
            for path in 0..plan.paths.len() {
                bond.add_lane(lane(path as u64), (Role::Active, Carrier::Udp), now);
            }
            for (path, limiter) in limiters.of(end) {
                bond.set_limiter(lane(path.0), Some(limiter));
            }
        }
        let paths = u32::try_from(plan.paths.len()).expect("a run has few paths");
        let down = |path: u32| if plan.backend.is_some() { 2 * paths } else { 2 * path };
        let wires = (0..paths).map(|path| [2 * path + 1, down(path)]).collect();
        let way = || Way {
            held_since: vec![None; plan.paths.len()],
            report: CallReport {
                held: vec![Duration::ZERO; plan.paths.len()],
                ..CallReport::default()
            },
            ..Way::default()
        };
        let ways = [way(), way()];
        Some(Self { plan: call, bonds, wires, ways, began_ns: 0, armed: None })
    }

    /// The workload begins.
    pub(crate) fn begin(&mut self, net: &mut Net) {
        self.began_ns = net.now_ns() + nanos(self.plan.from);
        self.ways.iter_mut().for_each(|way| way.next_ns = self.began_ns);
        self.expire(net);
    }

    /// The timer event has come, or something may be due.
    pub(crate) fn expire(&mut self, net: &mut Net) {
        let now_ns = net.now_ns();
        if self.armed.is_some_and(|armed| armed <= now_ns) {
            self.armed = None;
        }
        let end_ns = self.began_ns + nanos(self.plan.until.saturating_sub(self.plan.from));
        for (from, way) in self.ways.iter_mut().enumerate() {
            while way.next_ns <= now_ns && way.next_ns < end_ns {
                let packet = packet(from, self.plan.bytes, way.next_ns);
                self.bonds[from].handle_packet(&packet, Instant::from_nanos(now_ns));
                way.report.sent += 1;
                way.next_ns += nanos(self.plan.every);
            }
        }
        (0..2).for_each(|end| self.transmit(end, net));
        let timers = self.bonds.iter().filter_map(Bond::poll_timeout).map(Instant::as_nanos);
        let packets = self.ways.iter().map(|way| way.next_ns).filter(|next| *next < end_ns);
        let Some(at) = timers.chain(packets).min() else { return };
        let at = at.max(now_ns);
        if self.armed.is_none_or(|armed| at < armed) {
            self.armed = Some(at);
            net.queue.push(at, Event::Calls);
        }
    }

    /// A datagram has come.
    pub(crate) fn handle(&mut self, datagram: &Datagram, net: &mut Net) {
        let Datagram { to, path, sequence, frame } = datagram;
        let now = Instant::from_nanos(net.now_ns());
        let lane = LaneId(u8::try_from(*path).expect("a run has few paths"));
        let bond = &mut self.bonds[*to];
        let packet = bond.handle_frame(lane, *sequence, frame, now);
        let packet = packet.expect("both ends are ours and keep to the protocol");
        let mut came: VecDeque<_> = packet.map(<[u8]>::to_vec).into_iter().collect();
        came.extend(std::iter::from_fn(|| bond.poll_packet()));
        came.iter().for_each(|packet| self.take(1 - to, packet, now));
        self.expire(net);
    }

    /// A packet has come that the end `from` has sent.
    fn take(&mut self, from: usize, packet: &[u8], now: Instant) {
        let at = packet[HEADERS..].first_chunk().expect("it is ours");
        let (sent, way) = (Instant::from_nanos(u64::from_be_bytes(*at)), &mut self.ways[from]);
        let began = Instant::from_nanos(self.began_ns);
        way.report.came.push((sent.since(began), now.since(sent)));
        let gap = way.last_ns.map_or(Duration::ZERO, |last| now.since(Instant::from_nanos(last)));
        way.report.longest_gap = way.report.longest_gap.max(gap);
        way.last_ns = Some(now.as_nanos());
    }

    fn transmit(&mut self, end: usize, net: &mut Net) {
        let now = Instant::from_nanos(net.now_ns());
        let bond = &mut self.bonds[end];
        bond.handle_timeout(now);
        let mut frame = Vec::new();
        while let Some(transmit) = bond.poll_transmit(now, &mut frame) {
            let (path, sequence) = (u32::from(transmit.lane.0), transmit.sequence);
            let frame = std::mem::take(&mut frame);
            let datagram = Datagram { to: 1 - end, path, sequence, frame };
            let wire = self.wires[path as usize][end] as usize;
            net.wires[wire].send(Cargo::Lane(Box::new(datagram)), &mut net.queue);
        }
        let waited: Vec<_> = std::iter::from_fn(|| bond.poll_packet()).collect();
        let holds = bond.lanes().into_iter().map(|lane| lane.hold);
        self.ways[end].note_holds(holds.collect(), now);
        waited.iter().for_each(|packet| self.take(1 - end, packet, now));
    }

    /// What has come of it, by its sender: the client, the server.
    pub(crate) fn reports(&self) -> [CallReport; 2] {
        [CLIENT, SERVER].map(|end| self.ways[end].report.clone())
    }
}

impl Way {
    fn note_holds(&mut self, holds: Vec<HoldStatus>, now: Instant) {
        let all = holds.iter().zip(&mut self.held_since).zip(&mut self.report.held);
        for ((hold, since), held) in all {
            match (hold.limit.is_some(), *since) {
                (true, None) => *since = Some(now.as_nanos()),
                (true, Some(before)) => {
                    *held += now.since(Instant::from_nanos(before));
                    *since = Some(now.as_nanos());
                }
                (false, _) => *since = None,
            }
        }
        self.report.holds = holds;
    }
}

/// A packet of UDP by IPv4 that says when it was sent.
fn packet(from: usize, bytes: usize, sent_ns: u64) -> Vec<u8> {
    let mut packet = vec![0; bytes.max(HEADERS + 8)];
    packet[0] = 0x45;
    packet[9] = 17;
    let mut addresses = [[10, 87, 0, 2], [198, 51, 100, 9]];
    addresses.rotate_left(from);
    packet[12..20].copy_from_slice(addresses.as_flattened());
    packet[20..24].copy_from_slice(&[0x1b, 0x58, 0x1b, 0x58]);
    packet[HEADERS..HEADERS + 8].copy_from_slice(&sent_ns.to_be_bytes());
    packet
}
