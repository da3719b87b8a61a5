//! Packets that are coded on their way: the nodes of COTAG between the back end and the device
//! (COTAG §III), with the very state machines that the tunnel runs.
//!
//! What is coded here is not the packet but its number, eight bytes; sizes on the links are those
//! that the packets would have. Ranks, losses and the cost in coefficients are therefore real, and
//! only the multiplications of payload are saved.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_coding::generation::LENGTH_BYTES;
use weftline_coding::node::{
    AccessPoint, Device, Gateway, MEASURE_EVERY, Mode, NodeConfig, QueueConfig, RadioMeter,
    Redundancy, admissible, told,
};
use weftline_coding::wire::Packet as CodedPacket;
use weftline_coding::{Coding, Limits};
use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount, Instant};
use weftline_link::{Link, LinkConfig, LinkStats};
use weftline_scenario::{CotagRecord, CotagSpec};

use crate::contact::Contact;
use crate::queue::{Event, Queue};
use crate::tcp::Segment;
use crate::wire::{Packet, Wire};

/// What the tunnel adds to each datagram besides the coding header: IPv4, UDP, the datagram's own
/// header, the frame's, and the tag of its encryption.
const TUNNEL_BYTES: u64 = 20 + 8 + 13 + 5 + 16;
/// What it adds to each packet before it is coded: the tag of its encryption from gateway to device.
const SEALED_BYTES: u64 = 16;
/// Bytes of a packet's number.
const NUMBER_BYTES: usize = 8;
/// The most redundant packets where their share is learned, in percent.
const LEARNED_LIMIT: u32 = 100;
/// Sizes of so many packets of a flow are remembered: more than are ever on their way.
const REMEMBERED: usize = 1 << 16;

/// What is on its way between two nodes.
#[derive(Debug)]
struct Coded {
    bytes: Vec<u8>,
    wire_bytes: u64,
}

impl Packet for Coded {
    fn wire_bytes(&self) -> u64 {
        self.wire_bytes
    }

    fn note(&self) -> u64 {
        self.bytes.len() as u64 ^ self.wire_bytes.rotate_left(32)
    }
}

/// A link that a node feeds when it has room.
#[derive(Debug)]
struct Hop {
    wire: Wire<Coded>,
    /// Whether a packet is being served.
    busy: bool,
    radio: Radio,
}

/// How an access point measures its radio: by the packets that it sends.
#[derive(Debug, Default)]
struct Radio {
    meter: RadioMeter,
    /// Whether it knows a rate, and when it last measured.
    known: bool,
    measured_ns: u64,
    /// The packet that is being served: its bytes, and from when on its time counts.
    serving: Option<(u64, u64)>,
    /// Bytes of the latest packet.
    packet_bytes: u64,
}

/// The packets of a flow that are in the network.
#[derive(Debug)]
struct Flow {
    /// From the one of number `first` on.
    segments: VecDeque<Segment>,
    first: u64,
    /// Sizes, by the number that the gateway gave them, and the largest.
    sizes: Vec<u16>,
    largest: u16,
}

/// What an access point is between.
pub(crate) struct Way<'a> {
    /// The path's name.
    pub(crate) name: &'a str,
    pub(crate) to_access_point: LinkConfig,
    /// The radio's two directions.
    pub(crate) down: &'a LinkConfig,
    pub(crate) up: &'a LinkConfig,
}

/// Gateway, access points, device, and the links between them.
#[derive(Debug)]
pub(crate) struct CodedNetwork {
    gateway: Gateway,
    access_points: Vec<AccessPoint>,
    device: Device,
    /// From the gateway to access point k: 2 k; from there to the device: 2 k + 1.
    hops: Vec<Hop>,
    /// Of each access point with the device, and whether the device was there lately.
    contacts: Vec<(Contact, bool)>,
    /// When each node's timer event comes: gateway, access points, device.
    armed: Vec<Option<u64>>,
    flows: Vec<Flow>,
    overhead: bool,
    /// Whether access points tell the gateway what their radios carry.
    measures: bool,
    /// When the device has reported last.
    reported_ns: u64,
    spare: Vec<Vec<u8>>,
    delivery: Vec<u8>,
}

impl Radio {
    /// What it carries, less what is to go on it before; `None` if that is not known.
    fn measure(&mut self, access_point: &AccessPoint, now_ns: u64) -> Option<Bitrate> {
        let age = self.serving.map(|(_, since)| Duration::from_nanos(now_ns - since));
        if let Some((_, since)) = &mut self.serving
            && (self.known || age.is_some_and(|age| age >= MEASURE_EVERY))
        {
            // It stands still, or nearly: of the first packet that is not said at once.
            self.meter.served(0, Duration::from_nanos(now_ns - *since));
            *since = now_ns;
        }
        let backlog = access_point.backlog() as u64 * self.packet_bytes;
        let rate = self.meter.measure().map(|rate| admissible(rate, ByteCount::new(backlog)));
        self.known = rate.is_some();
        rate
    }
}

impl Flow {
    /// The size of the packet whose number this is, if it is on its way.
    fn size(&self, number: &[u8]) -> Option<u16> {
        let number = u64::from_le_bytes(number.try_into().ok()?);
        let segment = self.segments.get(number.checked_sub(self.first)? as usize)?;
        Some(segment.wire_bytes() as u16)
    }
}

impl CodedNetwork {
    /// A network for so many flows over these access points.
    pub(crate) fn new(
        spec: &CotagSpec,
        dense: bool,
        ways: &[Way<'_>],
        flows: usize,
        seed: u64,
    ) -> Self {
        let config = NodeConfig {
            interval: spec.interval,
            limits: Limits { packets: spec.generation, packet_bytes: NUMBER_BYTES as u16 },
            mode: if dense { Mode::Dense } else { Mode::Systematic },
            cut_through: spec.cut_through,
            redundancy_percent: spec.redundancy_percent.unwrap_or(LEARNED_LIMIT),
            redundancy: match spec.redundancy_percent {
                Some(_) => Redundancy::Limit,
                None => Redundancy::Learned,
            },
            buffer_packets: spec.buffer_packets,
            recoding: spec.recoding,
            giving: spec.giving,
            lag_allowance: spec.lag_allowance,
            gone_allowance: spec.gone_allowance,
            forget_losses: spec.forget_losses,
            queue: spec.queue.then_some(QueueConfig {
                target: spec.queue_target,
                limit_bytes: QueueConfig::full_packets(spec.queue_packets),
                interval: spec.queue_interval,
            }),
            overhead_bytes: if spec.overhead { (SEALED_BYTES + TUNNEL_BYTES) as u32 } else { 0 },
            ..NodeConfig::default()
        };
        let mut hops = Vec::new();
        let mut contacts = Vec::new();
        for Way { name, to_access_point, down, up } in ways {
            contacts.push((Contact::new(down, up, seed, name), true));
            let names = [format!("{name}/gateway"), format!("{name}/down")];
            for (config, name) in [to_access_point, *down].into_iter().zip(names) {
                let number = u32::try_from(hops.len()).expect("a run has few paths");
                let link = Link::new(config.clone(), seed, &name);
                let wire = Wire::new(Event::Hop(number), link);
                hops.push(Hop { wire, busy: false, radio: Radio::default() });
            }
        }
        let count = ways.len();
        let access_point = |k: usize| AccessPoint::new(config, 1, seed ^ (k as u64 + 1) << 48);
        let flow =
            || Flow { segments: VecDeque::new(), first: 0, sizes: vec![0; REMEMBERED], largest: 0 };
        Self {
            gateway: Gateway::new(config, count, seed, Instant::ZERO),
            access_points: (0..count).map(access_point).collect(),
            device: Device::new(config, count),
            hops,
            contacts,
            armed: vec![None; count + 2],
            flows: (0..flows).map(|_| flow()).collect(),
            overhead: spec.overhead,
            measures: spec.pacing,
            reported_ns: 0,
            spare: Vec::new(),
            delivery: Vec::new(),
        }
    }

    /// Begins traces and schedules.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.hops.iter_mut().for_each(|hop| hop.wire.start(now_ns));
        self.contacts.iter_mut().for_each(|(contact, _)| contact.start(now_ns));
    }

    /// A packet of a flow has come to the gateway.
    pub(crate) fn receive(&mut self, flow: u32, segment: Segment, queue: &mut Queue) {
        let entry = &mut self.flows[flow as usize];
        let number = entry.first + entry.segments.len() as u64;
        let flow = u16::try_from(flow).expect("a run has few flows");
        let now = Instant::from_nanos(queue.now_ns());
        let bytes = segment.wire_bytes() as u32;
        if self.gateway.receive_as(flow, &number.to_le_bytes(), bytes, now).is_ok() {
            entry.largest = entry.largest.max(bytes as u16);
            entry.segments.push_back(segment);
        }
        self.serve_gateway(queue);
    }

    /// The packet at the head of a hop arrives. Packets may be due to the device's TCP afterwards.
    /// Returns the path and the packet's bytes on the wire, if it came over a radio.
    pub(crate) fn arrive(&mut self, hop: u32, queue: &mut Queue) -> Option<(usize, u64)> {
        let Coded { bytes, wire_bytes } = self.hops[hop as usize].wire.arrive(queue);
        let now = Instant::from_nanos(queue.now_ns());
        let k = hop as usize / 2;
        // What a node refuses it has counted.
        if hop.is_multiple_of(2) {
            let _ = self.access_points[k].receive(0, &bytes, now);
            self.measure(k, queue.now_ns());
            self.serve_access_point(k, queue);
        } else {
            self.contacts[k].0.came_down(queue.now_ns());
            let _ = self.device.receive(k, &bytes, now);
            self.report(queue.now_ns());
            self.arm(self.armed.len() - 1, self.device.poll_timeout(), queue);
        }
        self.spare.push(bytes);
        (!hop.is_multiple_of(2)).then_some((k, wire_bytes))
    }

    /// A packet of the device's has come to an access point.
    pub(crate) fn came_up(&mut self, path: usize, now_ns: u64) {
        self.contacts[path].0.came_up(now_ns);
    }

    /// The access point to which the device sends: the usual one, or while that is gone another.
    pub(crate) fn uplink(&mut self, usual: usize, now_ns: u64) -> usize {
        let others = 0..self.contacts.len();
        let mut ways = [usual].into_iter().chain(others);
        ways.find(|path| self.contacts[*path].0.is_there_for_device(now_ns)).unwrap_or(usual)
    }

    /// A hop has room again.
    pub(crate) fn room(&mut self, hop: u32, queue: &mut Queue) {
        let Hop { busy, radio, .. } = &mut self.hops[hop as usize];
        *busy = false;
        if let Some((bytes, since)) = radio.serving.take() {
            radio.meter.served(bytes, Duration::from_nanos(queue.now_ns() - since));
        }
        if hop.is_multiple_of(2) {
            self.serve_gateway(queue);
        } else {
            self.measure(hop as usize / 2, queue.now_ns());
            self.serve_access_point(hop as usize / 2, queue);
        }
    }

    /// If it is time, the device reports to the gateway. The way there is left out.
    fn report(&mut self, now_ns: u64) {
        if now_ns >= self.reported_ns + nanos(MEASURE_EVERY) {
            self.reported_ns = now_ns;
            if let Some(report) = self.device.poll_report() {
                self.gateway.learn(report);
            }
            (0..self.access_points.len()).for_each(|k| self.gateway.set_lag(k, self.device.lag(k)));
        }
    }

    /// If it is time, an access point measures its radio and tells the gateway. The way there is
    /// short and left out.
    fn measure(&mut self, k: usize, now_ns: u64) {
        let radio = &mut self.hops[2 * k + 1].radio;
        let (contact, is_there) = &mut self.contacts[k];
        let due = now_ns >= radio.measured_ns + nanos(MEASURE_EVERY);
        if *is_there && !due && (radio.known || !self.measures) {
            return;
        }
        *is_there = contact.is_there(now_ns);
        let is_there = *is_there;
        if due || self.measures {
            radio.measured_ns = now_ns;
        }
        let carries =
            self.measures.then(|| radio.measure(&self.access_points[k], now_ns)).flatten();
        self.gateway.set_rate(k, told(is_there, carries));
    }

    /// The timer event of a node has come.
    pub(crate) fn expire(&mut self, node: u32, queue: &mut Queue) {
        let (node, now_ns) = (node as usize, queue.now_ns());
        if self.armed[node] != Some(now_ns) {
            return;
        }
        self.armed[node] = None;
        let now = Instant::from_nanos(now_ns);
        if node == 0 {
            self.gateway.handle_timeout(now);
            self.serve_gateway(queue);
        } else if let Some(access_point) = self.access_points.get_mut(node - 1) {
            access_point.handle_timeout(now);
            if !self.contacts[node - 1].1 {
                self.measure(node - 1, now_ns);
            }
            self.serve_access_point(node - 1, queue);
        } else {
            self.device.handle_timeout(now);
            self.arm(node, self.device.poll_timeout(), queue);
        }
    }

    /// The next packet that the device hands to its TCP.
    pub(crate) fn poll_delivery(&mut self) -> Option<Segment> {
        self.delivery.clear();
        let flow = self.device.poll_delivery(&mut self.delivery)?.place.flow;
        let number = self.delivery.as_slice().try_into().expect("what comes out is what went in");
        let number = u64::from_le_bytes(number);
        let flow = &mut self.flows[usize::from(flow)];
        assert!(number >= flow.first, "packets come out in order");
        // Those before it are lost.
        flow.segments.drain(..(number - flow.first) as usize);
        flow.first = number + 1;
        flow.segments.pop_front()
    }

    fn serve_gateway(&mut self, queue: &mut Queue) {
        for k in 0..self.access_points.len() {
            let is_there = self.contacts[k].1;
            while is_there && !self.hops[2 * k].busy {
                let mut bytes = self.spare.pop().unwrap_or_default();
                bytes.clear();
                let now = Instant::from_nanos(queue.now_ns());
                if self.gateway.poll_transmit(k, now, &mut bytes).is_none() {
                    self.spare.push(bytes);
                    break;
                }
                self.send(2 * k, bytes, queue);
            }
        }
        self.arm(0, self.gateway.poll_timeout(), queue);
    }

    fn serve_access_point(&mut self, k: usize, queue: &mut Queue) {
        while !self.hops[2 * k + 1].busy {
            let mut bytes = self.spare.pop().unwrap_or_default();
            bytes.clear();
            let now = Instant::from_nanos(queue.now_ns());
            if self.access_points[k].poll_transmit(now, &mut bytes).is_none() {
                self.spare.push(bytes);
                break;
            }
            self.send(2 * k + 1, bytes, queue);
        }
        let due = self.access_points[k].poll_timeout();
        let (contact, is_there) = &self.contacts[k];
        // The gateway sends nothing that would let it look.
        let back = (!is_there).then(|| Instant::from_nanos(contact.next_ns()));
        self.arm(k + 1, due.into_iter().chain(back).min(), queue);
    }

    /// Puts a packet on a hop that has room.
    fn send(&mut self, hop: usize, bytes: Vec<u8>, queue: &mut Queue) {
        let wire_bytes = self.wire_bytes(&bytes);
        if hop.is_multiple_of(2) && self.measures {
            self.gateway.sent(hop / 2, wire_bytes, Instant::from_nanos(queue.now_ns()));
        }
        let Hop { wire, busy, radio } = &mut self.hops[hop];
        let unserved = wire.stats().unserved.packets;
        if let Some(dropped) = wire.send(Coded { bytes, wire_bytes }, queue) {
            self.spare.push(dropped.bytes);
        }
        let idle_ns = wire.idle_at_ns(queue.now_ns());
        if idle_ns > queue.now_ns() {
            *busy = true;
            if !hop.is_multiple_of(2) {
                radio.serving = Some((wire_bytes, queue.now_ns()));
                radio.packet_bytes = radio.packet_bytes.max(wire_bytes);
            }
            queue.push(idle_ns, Event::Room(u32::try_from(hop).expect("a run has few paths")));
        } else if wire.stats().unserved.packets > unserved {
            // It will never serve anything again.
            *busy = true;
        }
    }

    /// What a coded packet takes on the link.
    fn wire_bytes(&mut self, bytes: &[u8]) -> u64 {
        let packet = CodedPacket::decode(bytes).expect("a node sends packets");
        let CodedPacket::Coded { header, payload } = packet else {
            return if self.overhead { TUNNEL_BYTES + bytes.len() as u64 } else { 1 };
        };
        let flow = &mut self.flows[usize::from(header.flow)];
        let at = |index: u8| (header.first.0 as usize + usize::from(index)) % REMEMBERED;
        let (payload, prefix) = match header.coding {
            Coding::Systematic(index) => {
                if let Some(size) = flow.size(payload) {
                    flow.sizes[at(index)] = size;
                }
                (flow.sizes[at(index)], 0)
            }
            _ => {
                // In the dense scheme no packet ever goes as it is: a combination has a full one's.
                let largest = (0..header.size).map(|index| flow.sizes[at(index)]).max();
                let known = largest.filter(|&size| size > 0);
                (known.unwrap_or(flow.largest), LENGTH_BYTES as u64)
            }
        };
        let payload = u64::from(payload);
        match self.overhead {
            true => payload + prefix + header.encoded_len() as u64 + SEALED_BYTES + TUNNEL_BYTES,
            false => payload,
        }
    }

    /// Makes sure that a node's timer event comes in time.
    fn arm(&mut self, node: usize, at: Option<Instant>, queue: &mut Queue) {
        let Some(at) = at else { return };
        let at = at.as_nanos().max(queue.now_ns());
        if self.armed[node].is_none_or(|armed| at < armed) {
            self.armed[node] = Some(at);
            queue.push(at, Event::Node(u32::try_from(node).expect("a run has few paths")));
        }
    }

    /// Bytes that the radio of a path has delivered.
    pub(crate) fn arrived_bytes(&self, path: usize) -> u64 {
        self.hops[2 * path + 1].wire.arrived_bytes()
    }

    /// What the radio of a path has done.
    pub(crate) fn stats(&self, path: usize) -> LinkStats {
        self.hops[2 * path + 1].wire.stats()
    }

    /// What the nodes have done.
    pub(crate) fn record(&self) -> CotagRecord {
        let gateway = self.gateway.stats();
        let device = self.device.stats();
        let points = self.access_points.iter().map(AccessPoint::stats);
        let full: u64 = points.clone().map(|stats| stats.full).sum();
        CotagRecord {
            received: gateway.received,
            refused: gateway.refused,
            given_gateway: gateway.given,
            given_access_points: points.map(|stats| stats.given).collect(),
            redundant: device.redundant,
            delivered: device.delivered,
            recovered: device.recovered,
            lost: device.lost,
            timeouts: device.timeouts,
            dropped_queue: gateway.delayed + gateway.overflowed,
            taken_gateway: gateway.low,
            dropped_full: full + device.full,
        }
    }

    /// Invariants that hold between events.
    pub(crate) fn check(&self) {
        self.hops.iter().for_each(|hop| hop.wire.check());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the tunnel's, whose trains measure a link before there is anything to send.
    #[test]
    fn nothing_is_told_of_a_radio_until_its_first_packet_is_through_or_stands_still() {
        let access_point = AccessPoint::new(NodeConfig::default(), 1, 1);
        let (ms, mut radio) = (1_000_000, Radio::default());
        radio.serving = Some((1500, 0));
        assert_eq!(radio.measure(&access_point, ms / 100), None);
        assert_eq!(radio.measure(&access_point, 9 * ms), None);
        let least = admissible(Bitrate::ZERO, ByteCount::ZERO);
        assert_eq!(radio.measure(&access_point, 10 * ms), Some(least), "it stands still");
        let mut radio = Radio::default();
        radio.meter.served(1500, Duration::from_micros(12));
        radio.serving = Some((1500, 0));
        assert_eq!(radio.measure(&access_point, ms / 1000), Some(Bitrate::mbps(1000)));
        assert_eq!(radio.measure(&access_point, 2 * ms), Some(least), "a rate is known");
    }
}
