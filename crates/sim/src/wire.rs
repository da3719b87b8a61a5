//! A wire: a link and the packets on it. Packets keep their order, so that one pending event per
//! wire is enough.

use std::collections::VecDeque;

use weftline_core::{ByteCount, Instant};
use weftline_link::{Link, LinkStats, Verdict};

use crate::queue::{Event, Queue};
use crate::tcp::Segment;

/// One direction between two ends.
#[derive(Debug)]
pub(crate) struct Wire {
    index: u32,
    link: Link,
    on_way: VecDeque<(u64, Segment)>,
    arrived: u64,
    arrived_bytes: u64,
}

impl Wire {
    pub(crate) fn new(index: u32, link: Link) -> Self {
        Self { index, link, on_way: VecDeque::new(), arrived: 0, arrived_bytes: 0 }
    }

    /// Begins the link's trace and schedules.
    pub(crate) fn start(&mut self, now_ns: u64) {
        self.link.start(Instant::from_nanos(now_ns));
    }

    /// Puts a packet on the wire, or drops it as the link says.
    pub(crate) fn send(&mut self, segment: Segment, queue: &mut Queue) {
        let now = Instant::from_nanos(queue.now_ns());
        let verdict = self.link.offer(now, ByteCount::new(segment.wire_bytes()));
        queue.note(segment.seq ^ segment.ack.rotate_left(32));
        let Verdict::Arrives(at) = verdict else { return };
        if self.on_way.is_empty() {
            queue.push(at.as_nanos(), Event::Arrival(self.index));
        }
        self.on_way.push_back((at.as_nanos(), segment));
    }

    /// Takes the packet that arrives now.
    pub(crate) fn arrive(&mut self, queue: &mut Queue) -> Segment {
        let (at, segment) = self.on_way.pop_front().expect("an arrival has its packet");
        debug_assert_eq!(at, queue.now_ns());
        self.arrived += 1;
        self.arrived_bytes += segment.wire_bytes();
        if let Some(&(next, _)) = self.on_way.front() {
            queue.push(next, Event::Arrival(self.index));
        }
        segment
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
