//! Two ends, links between them that lose, die and carry only so much, and packets that know their number.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weftline_congestion::lane;
use weftline_core::datagram::*;
use weftline_core::limiter::PathLimiter;
use weftline_core::policy::Role;
use weftline_core::{Instant, time};

pub(crate) const MS: u64 = 1_000_000;
/// What TCP sends at once, in bytes, and the number of such a datagram, which is none of a lane.
const SEGMENT: usize = 1_500;
const TCP: u64 = u64::MAX;
/// How much longer another link takes.
const FARTHER: Duration = Duration::from_millis(30);

/// A link between the ends, the same in both directions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Link {
    pub(crate) delay: Duration,
    /// Bytes a second, and the most bytes that wait.
    pub(crate) rate: u64,
    pub(crate) queue: u64,
    pub(crate) dead_from: Instant,
    pub(crate) dead_to: Instant,
    /// One of so many datagrams is lost; none if 0.
    pub(crate) lossy: u64,
    /// The longest frame that gets through.
    pub(crate) longest: usize,
    /// Whether nothing is lost: what would be is sent again after so long, and all that follows waits for it.
    pub(crate) again: Option<Duration>,
    /// One of so many datagrams takes longer, as it goes over another link; none if 0.
    pub(crate) farther: u64,
}

impl Link {
    pub(crate) fn new(delay_ms: u64) -> Self {
        Self {
            delay: Duration::from_millis(delay_ms),
            rate: 12_500_000,
            queue: 100_000,
            dead_from: Instant::FAR,
            dead_to: Instant::FAR,
            lossy: 0,
            longest: usize::MAX,
            again: None,
            farther: 0,
        }
    }

    /// What TCP makes of such a link, with 250 ms until it sends anything again.
    pub(crate) fn by_tcp(self) -> Self {
        Self { again: Some(Duration::from_millis(250)), ..self }
    }

    /// One of 10 Mb/s with a queue of 200 ms.
    pub(crate) fn slow(delay_ms: u64) -> Self {
        Self { rate: 1_250_000, queue: 250_000, ..Self::new(delay_ms) }
    }

    fn is_dead(&self, now: Instant) -> bool {
        now >= self.dead_from && now < self.dead_to
    }
}

/// One direction of a link.
#[derive(Debug, Default)]
pub(crate) struct Wire {
    free_at: Instant,
    sent: u64,
    flying: VecDeque<(Instant, u64, Vec<u8>)>,
}

impl Wire {
    pub(crate) fn send(&mut self, link: &Link, sequence: u64, frame: Vec<u8>, now: Instant) {
        self.sent += 1;
        let backlog = self.backlog(link, now);
        let is_lost = link.lossy > 0 && self.sent.is_multiple_of(link.lossy);
        let is_lost = is_lost || (frame.len() > link.longest && sequence != TCP);
        match link.again {
            Some(again) if is_lost => self.free_at = self.free_at.max(now + again),
            Some(_) if link.is_dead(now) => self.free_at = self.free_at.max(link.dead_to),
            Some(_) => {}
            None if is_lost || link.is_dead(now) || backlog > link.queue => return,
            None => {}
        }
        let service = Duration::from_nanos(frame.len() as u64 * 1_000_000_000 / link.rate);
        self.free_at = self.free_at.max(now) + service;
        let is_far = link.farther > 0 && self.sent.is_multiple_of(link.farther);
        let farther = if is_far { FARTHER } else { Duration::ZERO };
        let at = self.free_at + link.delay + farther;
        let place = self.flying.partition_point(|(other, ..)| *other <= at);
        self.flying.insert(place, (at, sequence, frame));
    }
}

impl Wire {
    /// What has come by now.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<Vec<u8>> {
        let come = self.flying.iter().take_while(|(at, ..)| *at <= now).count();
        self.flying.drain(..come).map(|(.., frame)| frame).collect()
    }

    /// Bytes that wait.
    fn backlog(&self, link: &Link, now: Instant) -> u64 {
        link.rate * time::nanos(self.free_at.since(now)) / 1_000_000_000
    }
}

pub(crate) fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

pub(crate) struct World {
    pub(crate) ends: [Bond; 2],
    pub(crate) links: Vec<Link>,
    /// By link, and direction.
    pub(crate) wires: Vec<[Wire; 2]>,
    pub(crate) now: Instant,
    /// What came at each end: the packet, and when.
    pub(crate) came: [Vec<(Instant, Vec<u8>)>; 2],
    /// By link: what TCP of the first end goes through, that fills the link's queue as far as it may.
    pub(crate) limiters: Vec<PathLimiter>,
    /// The end that stands still, as a machine that has no processor for it: it neither takes nor sends.
    pub(crate) still: Option<usize>,
}

pub(crate) fn never(_: &mut [u8]) -> bool {
    false
}

pub(crate) fn config(is_initiator: bool) -> BondConfig {
    BondConfig {
        is_initiator,
        mtu: 1400,
        mark: never,
        congestion: lane::bbr,
        calls: CallRules::default(),
    }
}

impl World {
    pub(crate) fn new(links: &[Link], roles: &[Role]) -> Self {
        let now = Instant::ZERO;
        let mut ends = [true, false].map(|is_initiator| Bond::new(config(is_initiator), now));
        for (n, role) in roles.iter().enumerate() {
            let carrier = if links[n].again.is_some() { Carrier::Tcp } else { Carrier::Udp };
            ends.iter_mut()
                .for_each(|end| _ = end.add_lane(LaneId(n as u8), (*role, carrier), now));
        }
        let wires = links.iter().map(|_| Default::default()).collect();
        Self {
            ends,
            links: links.to_vec(),
            wires,
            now,
            came: Default::default(),
            limiters: Vec::new(),
            still: None,
        }
    }

    /// Begins to fill all links by TCP.
    pub(crate) fn upload(&mut self) {
        self.limiters = self.links.iter().map(|_| PathLimiter::default()).collect();
        for (lane, limiter) in self.limiters.iter().enumerate() {
            self.ends[0].set_limiter(LaneId(lane as u8), Some(limiter.clone()));
        }
    }

    fn send_tcp(&mut self) {
        for (lane, limiter) in self.limiters.iter().enumerate() {
            let (link, wire) = (&self.links[lane], &mut self.wires[lane][0]);
            let most = link.queue * 9 / 10;
            while wire.backlog(link, self.now) < most && limiter.available(self.now) > 0 {
                limiter.spend(SEGMENT as u64, self.now);
                wire.send(link, TCP, vec![0; SEGMENT], self.now);
            }
        }
    }

    fn transmit(&mut self) {
        for (n, end) in self.ends.iter_mut().enumerate() {
            if self.still == Some(n) {
                continue;
            }
            end.handle_timeout(self.now);
            let waited = std::iter::from_fn(|| end.poll_packet());
            self.came[n].extend(waited.map(|packet| (self.now, packet)));
            loop {
                let mut frame = Vec::new();
                let Some(sent) = end.poll_transmit(self.now, &mut frame) else { break };
                let lane = usize::from(sent.lane.0);
                let link = &self.links[lane];
                self.wires[lane][n].send(link, sent.sequence, frame, self.now);
            }
        }
    }

    fn deliver(&mut self) {
        for lane in 0..self.links.len() {
            for from in (0..2).filter(|from| self.still != Some(1 - from)) {
                let wire = &mut self.wires[lane][from];
                while wire.flying.front().is_some_and(|(at, ..)| *at <= self.now) {
                    let (_, sequence, frame) = wire.flying.pop_front().unwrap();
                    let link = &self.links[lane];
                    if link.is_dead(self.now) && link.again.is_none() || sequence == TCP {
                        continue;
                    }
                    let to = 1 - from;
                    let id = LaneId(lane as u8);
                    let packet = self.ends[to].handle_frame(id, sequence, &frame, self.now);
                    if let Some(packet) = packet.unwrap() {
                        self.came[to].push((self.now, packet.to_vec()));
                    }
                    let end = &mut self.ends[to];
                    let waited = std::iter::from_fn(|| end.poll_packet());
                    self.came[to].extend(waited.map(|packet| (self.now, packet)));
                }
            }
        }
    }

    /// Runs for a while, in steps of a quarter of a millisecond.
    pub(crate) fn run(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while self.now < end {
            self.now += Duration::from_micros(250);
            self.deliver();
            self.send_tcp();
            self.transmit();
        }
    }

    pub(crate) fn send(&mut self, from: usize, packet: &[u8]) {
        self.ends[from].handle_packet(packet, self.now);
        self.transmit();
    }

    pub(crate) fn lane(&self, end: usize, lane: u8) -> LaneStatus {
        self.ends[end].lanes()[usize::from(lane)]
    }
}

/// An IPv4 packet of UDP between these ports, with `length` bytes in all.
pub(crate) fn udp(ports: (u16, u16), length: usize) -> Vec<u8> {
    let mut packet = vec![0; length.max(28)];
    packet[0] = 0x45;
    packet[9] = 17;
    packet[12..20].copy_from_slice(&[10, 87, 0, 2, 198, 51, 100, 9]);
    packet[20..22].copy_from_slice(&ports.0.to_be_bytes());
    packet[22..24].copy_from_slice(&ports.1.to_be_bytes());
    packet
}

/// A packet that answers one of the flow [`numbered`] of this port.
pub(crate) fn answer(port: u16, length: usize) -> Vec<u8> {
    let mut packet = udp((4000, port), length);
    packet[12..20].rotate_left(4);
    packet
}

/// A packet of a flow that knows its number.
pub(crate) fn numbered(port: u16, number: u64, length: usize) -> Vec<u8> {
    let mut packet = udp((port, 4000), length);
    packet[28..36].copy_from_slice(&number.to_be_bytes());
    packet
}

pub(crate) fn number_of(packet: &[u8]) -> (u16, u64) {
    let port = u16::from_be_bytes([packet[20], packet[21]]);
    (port, u64::from_be_bytes(packet[28..36].try_into().unwrap()))
}

/// How many times each packet came.
pub(crate) fn counted(came: &[(Instant, Vec<u8>)]) -> BTreeMap<(u16, u64), usize> {
    let mut all = BTreeMap::new();
    for (_, packet) in came {
        *all.entry(number_of(packet)).or_default() += 1;
    }
    all
}
