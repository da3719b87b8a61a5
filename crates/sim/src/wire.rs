//! A wire: a link and the packets on it. Packets keep their order, so that one pending event per
//! wire is enough.

use std::collections::VecDeque;

use weftline_core::{ByteCount, Instant};
use weftline_link::{Link, LinkStats, Verdict};

use crate::queue::{Event, Queue};
use crate::tcp::Segment;

/// What a datagram has around its frame: IPv4 and UDP, the lane's header, and the tag of its encryption.
const AROUND: u64 = 20 + 8 + 14 + 16;

/// Something that travels.
pub(crate) trait Packet {
    /// Its size on the wire.
    fn wire_bytes(&self) -> u64;
    /// What the digest of the run notes of it.
    fn note(&self) -> u64;
}

impl Packet for Segment {
    fn wire_bytes(&self) -> u64 {
        Self::wire_bytes(self)
    }

    fn note(&self) -> u64 {
        self.seq ^ self.ack.rotate_left(32)
    }
}

/// A datagram of a lane.
#[derive(Debug)]
pub(crate) struct Datagram {
    /// The end that it goes to.
    pub(crate) to: usize,
    /// The path.
    pub(crate) path: u32,
    /// Its number there, and its frame.
    pub(crate) sequence: u64,
    /// See `sequence`.
    pub(crate) frame: Vec<u8>,
}

impl Packet for Datagram {
    fn wire_bytes(&self) -> u64 {
        self.frame.len() as u64 + AROUND
    }

    fn note(&self) -> u64 {
        self.sequence
    }
}

/// What travels between client and server.
#[derive(Debug)]
pub(crate) enum Cargo {
    /// Of TCP.
    Tcp(Segment),
    /// Of a lane.
    Lane(Box<Datagram>),
}

impl Packet for Cargo {
    fn wire_bytes(&self) -> u64 {
        match self {
            Self::Tcp(segment) => Packet::wire_bytes(segment),
            Self::Lane(datagram) => datagram.wire_bytes(),
        }
    }

    fn note(&self) -> u64 {
        match self {
            Self::Tcp(segment) => segment.note(),
            Self::Lane(datagram) => datagram.note(),
        }
    }
}

/// One direction between two ends.
#[derive(Debug)]
pub(crate) struct Wire<P = Cargo> {
    arrival: Event,
    link: Link,
    on_way: VecDeque<(u64, P)>,
    arrived: u64,
    arrived_bytes: u64,
}

impl<P: Packet> Wire<P> {
    /// A wire whose packets are announced by the event `arrival`.
    pub(crate) fn new(arrival: Event, link: Link) -> Self {
        Self { arrival, link, on_way: VecDeque::new(), arrived: 0, arrived_bytes: 0 }
    }

    /// Begins the link's trace and schedules.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.link.start(Instant::from_nanos(now_ns));
    }

    /// Puts a packet on the wire, or gives it back if the link drops it.
    pub(crate) fn send(&mut self, packet: P, queue: &mut Queue) -> Option<P> {
        let now = Instant::from_nanos(queue.now_ns());
        let verdict = self.link.offer(now, ByteCount::new(packet.wire_bytes()));
        queue.note(packet.note());
        let Verdict::Arrives(at) = verdict else { return Some(packet) };
        if self.on_way.is_empty() {
            queue.push(at.as_nanos(), self.arrival);
        }
        self.on_way.push_back((at.as_nanos(), packet));
        None
    }

    /// Takes the packet that arrives now.
    pub(crate) fn arrive(&mut self, queue: &mut Queue) -> P {
        let (at, packet) = self.on_way.pop_front().expect("an arrival has its packet");
        debug_assert_eq!(at, queue.now_ns());
        self.arrived += 1;
        self.arrived_bytes += packet.wire_bytes();
        if let Some(&(next, _)) = self.on_way.front() {
            queue.push(next, self.arrival);
        }
        packet
    }

    /// The packet that arrives next, and when.
    pub(crate) fn next(&self) -> Option<(u64, &P)> {
        self.on_way.front().map(|(at, packet)| (*at, packet))
    }

    /// When everything that was put on it has been served.
    pub(crate) fn idle_at_ns(&mut self, now_ns: u64) -> u64 {
        self.link.idle_at(Instant::from_nanos(now_ns)).as_nanos()
    }

    /// When so many bytes, put on it at `at_ns` behind all that is on it, would have arrived.
    pub(crate) fn arrival_ns(&self, at_ns: u64, bytes: u64) -> Option<u64> {
        let arrival = self.link.would_arrive(Instant::from_nanos(at_ns), ByteCount::new(bytes));
        arrival.map(Instant::as_nanos)
    }

    /// The share of packets that is lost now.
    pub(crate) fn loss_share(&self, now_ns: u64) -> f64 {
        self.link.loss_share(Instant::from_nanos(now_ns))
    }

    /// Bytes of the packets that have arrived, headers included.
    pub(crate) const fn arrived_bytes(&self) -> u64 {
        self.arrived_bytes
    }

    /// What the link has done.
    pub(crate) fn stats(&self) -> LinkStats {
        self.link.stats()
    }

    /// Every packet that went in has come out, was dropped, or is still on its way.
    pub(crate) fn check(&self) {
        let stats = self.link.stats();
        let out = self.arrived + self.on_way.len() as u64;
        assert_eq!(stats.scheduled.packets, out, "a wire keeps its packets");
        let dropped = stats.lost.packets + stats.queue_full.packets + stats.unserved.packets;
        assert_eq!(stats.offered.packets, stats.scheduled.packets + dropped, "packets are counted");
    }
}
