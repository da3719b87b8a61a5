//! One direction of a path inside the emulator: a state machine without descriptors and clock.
//!
//! The caller reads a packet into [`Direction::room`] and hands it over with
//! [`Direction::handle_packet`]. It comes back at [`Direction::poll_timeout`], writes what
//! [`Direction::poll_transmit`] names, and says what came of it with
//! [`Direction::handle_transmit`]. The emulator does so with devices and the monotonic clock
//! (`device.rs`), the tests in a time of their own.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use weftline_core::time::nanos;
use weftline_core::{ByteCount, Instant};
use weftline_link::{Link, Verdict};
use weftline_measure::STEPS_MAX;

use super::store::{Slot, Store};
use super::{Counters, DirectionReport, SERIES_STEP};
use crate::packet::{self, Shape, VNET_LEN};

/// A packet (or super-packet) of which at least one segment is still on its way.
#[derive(Clone, Copy, Debug)]
struct Packet {
    slot: Slot,
    shape: Shape,
}

/// A segment on its way.
#[derive(Debug)]
struct Segment {
    /// Number of its packet, counted from the start.
    packet: u64,
    /// Where its payload starts within the packet's payload; 0 for a whole packet.
    at: u32,
    /// Payload length; the whole packet's for a whole packet.
    len: u32,
    due: Instant,
}

/// Contiguous segments of one packet, which leave in one write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    slot: Slot,
    /// The packet's shape.
    pub(super) shape: Shape,
    /// Where they start within the packet's payload; 0 for a whole packet.
    pub(super) at: usize,
    /// Their payload; the whole packet, virtio header included, for a whole packet.
    pub(super) len: usize,
    /// How many there are.
    pub(super) segments: usize,
}

/// What became of a [`Run`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The far end took it.
    Written,
    /// The far end's kernel refused it.
    Refused,
    /// A cut took it.
    Cut,
}

/// One direction of one path.
#[derive(Debug)]
pub(super) struct Direction {
    link: Link,
    store: Store,
    packets: VecDeque<Packet>,
    /// Number of the packet at the front of `packets`.
    first_packet: u64,
    segments: VecDeque<Segment>,
    /// A cut direction carries nothing, and loses what is on its way.
    pub(super) cut: bool,
    /// t = 0 of the series.
    epoch: Option<Instant>,
    counters: Counters,
    series: Vec<u64>,
}

impl Direction {
    pub(super) fn new(link: Link) -> Self {
        Self {
            link,
            store: Store::default(),
            packets: VecDeque::new(),
            first_packet: 0,
            segments: VecDeque::new(),
            cut: false,
            epoch: None,
            counters: Counters::default(),
            series: Vec::new(),
        }
    }

    /// Starts the link's trace and schedules, and the series, at `epoch`.
    pub(super) fn start(&mut self, epoch: Instant) {
        self.link.start(epoch);
        self.epoch = Some(epoch);
        self.series.clear();
    }

    /// What has become of its packets so far.
    pub(super) fn report(&self) -> DirectionReport {
        DirectionReport { counters: self.counters, series: self.series.clone() }
    }

    /// Memory held for packets, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.store.memory()
    }

    /// Where to put the next packet, virtio header first; `None` when the store is full.
    pub(super) fn room(&mut self) -> Option<&mut [u8]> {
        self.store.room()
    }

    /// Offers the segments of the packet of `len` bytes in [`Direction::room`], which came at
    /// `now`, to the link. Returns its bytes of UDP or TCP payload.
    pub(super) fn handle_packet(&mut self, len: usize, now: Instant) -> usize {
        let bytes = self.store.peek(len);
        let shape = packet::shape(bytes);
        let payload = packet::payload_len(bytes, &shape);
        self.counters.reads += 1;
        self.counters.offered_payload += payload as u64;
        let before = self.segments.len();
        match shape {
            Shape::Whole => {
                self.counters.offered_data += u64::from(payload > 0);
                self.offer(now, 0, len, len.saturating_sub(VNET_LEN));
            }
            Shape::Super(layout) => {
                let mut at = 0;
                for segment in layout.segments() {
                    self.counters.offered_data += 1;
                    self.offer(now, at, segment, layout.headers_len + segment);
                    at += segment;
                }
            }
        }
        if self.segments.len() > before {
            let slot = self.store.keep(len);
            self.packets.push_back(Packet { slot, shape });
        }
        payload
    }

    /// Counts a packet of `len` bytes for which there was no room.
    #[cold]
    pub(super) fn handle_overflow(&mut self, len: usize) {
        self.counters.offered.add(len as u64);
        self.counters.overflow.add(len as u64);
    }

    /// Offers one segment of the packet being read, `size` bytes on the wire.
    fn offer(&mut self, now: Instant, at: usize, len: usize, size: usize) {
        let bytes = size as u64;
        self.counters.offered.add(bytes);
        if self.cut {
            self.counters.cut.add(bytes);
            return;
        }
        match self.link.offer(now, ByteCount::new(bytes)) {
            Verdict::Arrives(due) => {
                let packet = self.first_packet + self.packets.len() as u64;
                self.segments.push_back(Segment { packet, at: at as u32, len: len as u32, due });
            }
            Verdict::Lost => self.counters.lost.add(bytes),
            Verdict::QueueFull => self.counters.queue_full.add(bytes),
            Verdict::Unserved => self.counters.unserved.add(bytes),
        }
    }

    /// When the next segment is due.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.segments.front().map(|segment| segment.due)
    }

    /// The segment at the front and those that continue it, if they are due at `now`. The caller
    /// passes each run to [`Direction::handle_transmit`] before it asks for the next, and asks
    /// until there is none: only then the packets that have left give their memory back.
    pub(super) fn poll_transmit(&mut self, now: Instant) -> Option<Run> {
        let Some(first) = self.segments.front().filter(|first| first.due <= now) else {
            self.release();
            return None;
        };
        let Packet { slot, shape } = self.packets[(first.packet - self.first_packet) as usize];
        let (at, len) = (first.at as usize, first.len as usize);
        let mut run = Run { slot, shape, at, len, segments: 1 };
        if let Shape::Super(_) = shape {
            for next in self.segments.range(1..) {
                let continues = next.packet == first.packet && next.at as usize == run.at + run.len;
                if !continues || next.due > now {
                    break;
                }
                run.len += next.len as usize;
                run.segments += 1;
            }
        }
        Some(run)
    }

    /// The packet to write `run` from, virtio header first; `None` if a cut takes the run.
    pub(super) fn packet(&self, run: &Run) -> Option<&[u8]> {
        (!self.cut).then(|| self.store.packet(run.slot))
    }

    /// Counts what became at `now` of the run that [`Direction::poll_transmit`] gave, and records in
    /// `lateness` (ns) how long after its time each of its segments left.
    pub(super) fn handle_transmit(
        &mut self,
        run: &Run,
        sent: Sent,
        now: Instant,
        lateness: &mut Histogram<u64>,
    ) {
        for segment in self.segments.drain(..run.segments) {
            lateness.saturating_record(nanos(now.since(segment.due)));
        }
        let segments = run.segments as u64;
        let wire = wire_bytes(&run.shape, segments, run.len);
        match sent {
            Sent::Written => {
                let payload = payload_bytes(&run.shape, self.store.packet(run.slot), run.len);
                self.delivered(segments, wire, payload, now);
            }
            Sent::Refused => self.counters.write_failed.add_many(segments, wire),
            Sent::Cut => self.counters.cut.add_many(segments, wire),
        }
    }

    fn delivered(&mut self, segments: u64, wire: u64, payload: u64, now: Instant) {
        self.counters.writes += 1;
        self.counters.delivered.add_many(segments, wire);
        self.counters.delivered_payload += payload;
        let Some(epoch) = self.epoch.filter(|&epoch| now >= epoch) else { return };
        let step = (now.since(epoch).as_nanos() / SERIES_STEP.as_nanos()) as usize;
        if step < STEPS_MAX {
            if step >= self.series.len() {
                self.series.resize(step + 1, 0);
            }
            self.series[step] += payload;
        }
    }

    /// Forgets the packets of which no segment is left.
    fn release(&mut self) {
        let alive = self.segments.front().map(|segment| segment.packet);
        let next = self.first_packet + self.packets.len() as u64;
        for _ in self.first_packet..alive.unwrap_or(next) {
            self.packets.pop_front();
            self.first_packet += 1;
        }
        self.store.release_before(self.packets.front().map(|packet| packet.slot));
    }
}

/// Bytes on the wire of `segments` segments with `len` bytes of payload in all (of the whole packet
/// with its virtio header, for a whole packet).
fn wire_bytes(shape: &Shape, segments: u64, len: usize) -> u64 {
    match shape {
        Shape::Whole => len.saturating_sub(VNET_LEN) as u64,
        Shape::Super(layout) => segments * layout.headers_len as u64 + len as u64,
    }
}

fn payload_bytes(shape: &Shape, packet: &[u8], len: usize) -> u64 {
    match shape {
        Shape::Whole => packet::payload_len(packet, shape) as u64,
        Shape::Super(_) => len as u64,
    }
}

#[cfg(test)]
mod tests;
