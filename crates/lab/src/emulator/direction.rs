//! One direction of a path inside the emulator: from the sender's device through the link model to
//! the receiver's device.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use hdrhistogram::Histogram;
use rustix::io::Errno;
use weftline_core::time::nanos;
use weftline_core::{ByteCount, Instant};
use weftline_link::{Link, Verdict};
use weftline_measure::STEPS_MAX;

use super::store::{Slot, Store};
use super::{Counters, SERIES_STEP};
use crate::clock;
use crate::packet::{self, Layout, Shape, VNET_LEN};

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

/// What one read brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ingress {
    /// A packet with so many bytes of payload.
    Packet {
        /// UDP or TCP payload.
        payload: usize,
    },
    /// No packet is waiting.
    Empty,
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
    pub(super) counters: Counters,
    pub(super) series: Vec<u64>,
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

    /// When the next segment is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.segments.front().map(|segment| segment.due)
    }

    /// Memory held for packets, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.store.memory()
    }

    /// Reads one packet from `device` and offers its segments to the link.
    ///
    /// # Errors
    /// What the device answers other than "nothing there".
    pub(super) fn ingress(&mut self, device: BorrowedFd<'_>) -> io::Result<Ingress> {
        let Some(room) = self.store.room() else {
            return self.overflow(device);
        };
        let len = match rustix::io::read(device, room) {
            Ok(len) => len,
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Ingress::Empty),
            Err(error) => return Err(error.into()),
        };
        let now = clock::now();
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
        Ok(Ingress::Packet { payload })
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

    /// The store is full: reads a packet away and counts it.
    #[cold]
    fn overflow(&mut self, device: BorrowedFd<'_>) -> io::Result<Ingress> {
        let mut sink = vec![0; packet::PACKET_MAX];
        match rustix::io::read(device, &mut sink) {
            Ok(len) => {
                self.counters.offered.add(len as u64);
                self.counters.overflow.add(len as u64);
                Ok(Ingress::Packet { payload: 0 })
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Ingress::Empty),
            Err(error) => Err(error.into()),
        }
    }

    /// Writes everything due at `now` to `device`, contiguous segments of a packet together, and
    /// records in `lateness` (ns) how long after its time each left.
    pub(super) fn egress(
        &mut self,
        device: BorrowedFd<'_>,
        now: Instant,
        lateness: &mut Histogram<u64>,
    ) {
        let mut wrote = false;
        while self.next_due().is_some_and(|due| due <= now) {
            self.write_run(device, now, lateness);
            wrote = true;
        }
        if wrote {
            self.release();
        }
    }

    /// Writes the segment at the front and those that continue it.
    fn write_run(&mut self, device: BorrowedFd<'_>, now: Instant, lateness: &mut Histogram<u64>) {
        let Some(first) = self.segments.pop_front() else { return };
        let index = (first.packet - self.first_packet) as usize;
        let Packet { slot, shape } = self.packets[index];
        let written = clock::now();
        let late = |due: Instant| nanos(written.since(due));
        lateness.saturating_record(late(first.due));
        let (mut segments, mut len) = (1, first.len as usize);
        let at = first.at as usize;
        if let Shape::Super(_) = shape {
            while let Some(next) = self.segments.front() {
                let continues = next.packet == first.packet && next.at as usize == at + len;
                if !continues || next.due > now {
                    break;
                }
                len += next.len as usize;
                segments += 1;
                lateness.saturating_record(late(next.due));
                self.segments.pop_front();
            }
        }
        let bytes = self.store.packet(slot);
        let wire = wire_bytes(&shape, segments, len);
        if self.cut {
            self.counters.cut.add_many(segments, wire);
            return;
        }
        let answer = match shape {
            Shape::Whole => rustix::io::write(device, bytes),
            Shape::Super(layout) => write_segments(device, &layout, bytes, at, len),
        };
        match answer {
            Ok(_) => self.delivered(segments, wire, payload_bytes(&shape, bytes, len), written),
            Err(_) => self.counters.write_failed.add_many(segments, wire),
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

/// One write of payload bytes `at..at + len` of a super-packet behind headers of their own.
fn write_segments(
    device: BorrowedFd<'_>,
    layout: &Layout,
    packet: &[u8],
    at: usize,
    len: usize,
) -> Result<usize, Errno> {
    let headers = layout.headers(packet, at, len);
    let start = VNET_LEN + layout.headers_len + at;
    let payload = &packet[start..start + len];
    rustix::io::writev(device, &[IoSlice::new(headers.as_slice()), IoSlice::new(payload)])
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd as _, OwnedFd};
    use std::time::Duration;

    use etherparse::PacketBuilder;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use weftline_core::Bitrate;
    use weftline_link::{LinkConfig, LossModel, QueueLimit, RateTrace};

    use super::*;

    /// IPv4 and TCP headers.
    const HEADERS: u64 = 40;

    /// A direction that takes 20 ms, and what stands for its two devices: what is written to one end
    /// of a pair is a packet, as with a TUN device.
    struct Bench {
        direction: Direction,
        near: (OwnedFd, OwnedFd),
        far: (OwnedFd, OwnedFd),
        lateness: Histogram<u64>,
    }

    impl Bench {
        fn new() -> Self {
            let config = LinkConfig {
                rate: RateTrace::constant(Bitrate::mbps(1000)),
                delay: Duration::from_millis(20),
                jitter: Duration::ZERO,
                queue: QueueLimit::Packets(1000),
                loss: LossModel::None,
            };
            let mut link = Link::new(config, 1, "test");
            link.start(clock::now());
            let device = || {
                let flags = SocketFlags::NONBLOCK;
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap()
            };
            let lateness = Histogram::new(3).unwrap();
            Self { direction: Direction::new(link), near: device(), far: device(), lateness }
        }

        /// The near end sends a super-packet of 2 1/2 segments of 1000 bytes.
        fn send(&mut self) {
            let mut packet = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0];
            for (at, word) in [(2, HEADERS as u16), (4, 1000), (6, 20), (8, 16)] {
                packet[at..at + 2].copy_from_slice(&word.to_ne_bytes());
            }
            let ip = PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
            ip.tcp(1, 2, 3, 65_535).write(&mut packet, &[7; 2500]).unwrap();
            rustix::io::write(&self.near.0, &packet).unwrap();
            let read = self.direction.ingress(self.near.1.as_fd()).unwrap();
            assert_eq!(read, Ingress::Packet { payload: 2500 });
        }

        /// Everything that is on its way arrives; how many bytes the far end gets.
        fn arrive(&mut self) -> usize {
            let now = clock::now() + Duration::from_secs(60);
            self.direction.egress(self.far.1.as_fd(), now, &mut self.lateness);
            let mut packet = [0; 4096];
            let read = std::iter::from_fn(|| rustix::io::read(&self.far.0, &mut packet).ok());
            read.sum()
        }
    }

    #[test]
    fn segments_count_with_the_headers_that_each_has_on_the_wire() {
        let mut bench = Bench::new();
        bench.send();
        assert_eq!(bench.arrive(), VNET_LEN + HEADERS as usize + 2500, "joined again");
        let Counters { offered, delivered, .. } = bench.direction.counters;
        assert_eq!((offered.packets, offered.bytes), (3, 3 * HEADERS + 2500));
        assert_eq!(delivered, offered);
        // The link serves so much.
        let served = bench.direction.link.stats().offered;
        assert_eq!((served.packets, served.bytes.as_u64()), (offered.packets, offered.bytes));
    }

    #[test]
    fn a_cut_takes_what_is_on_its_way_too() {
        let mut bench = Bench::new();
        bench.send();
        bench.direction.cut = true;
        bench.send();
        assert_eq!(bench.arrive(), 0);
        let Counters { offered, delivered, cut, .. } = bench.direction.counters;
        assert_eq!((offered.packets, delivered.packets, cut), (6, 0, offered));
        bench.direction.cut = false;
        bench.send();
        assert_eq!(bench.arrive(), VNET_LEN + HEADERS as usize + 2500);
    }
}
