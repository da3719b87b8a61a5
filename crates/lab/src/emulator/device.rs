//! Between a direction and its two devices: reads packets from the near one and writes those that
//! are due to the far one, with the clock.

use std::io::{self, IoSlice};
use std::os::fd::BorrowedFd;

use hdrhistogram::Histogram;
use rustix::io::Errno;
use weftline_core::Instant;

use super::direction::{Direction, Run, Sent};
use crate::clock;
use crate::packet::{self, Layout, Shape, VNET_LEN};

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

/// Reads one packet from `device` into `direction`.
///
/// # Errors
/// What the device answers other than "nothing there".
pub(super) fn ingress(direction: &mut Direction, device: BorrowedFd<'_>) -> io::Result<Ingress> {
    let Some(room) = direction.room() else {
        return overflow(direction, device);
    };
    let len = match rustix::io::read(device, room) {
        Ok(len) => len,
        Err(Errno::AGAIN | Errno::INTR) => return Ok(Ingress::Empty),
        Err(error) => return Err(error.into()),
    };
    let payload = direction.handle_packet(len, clock::now());
    Ok(Ingress::Packet { payload })
}

/// The store is full: reads a packet away and counts it.
#[cold]
fn overflow(direction: &mut Direction, device: BorrowedFd<'_>) -> io::Result<Ingress> {
    let mut sink = vec![0; packet::PACKET_MAX];
    match rustix::io::read(device, &mut sink) {
        Ok(len) => {
            direction.handle_overflow(len);
            Ok(Ingress::Packet { payload: 0 })
        }
        Err(Errno::AGAIN | Errno::INTR) => Ok(Ingress::Empty),
        Err(error) => Err(error.into()),
    }
}

/// Writes everything of `direction` that is due at `now` to `device`, contiguous segments of a
/// packet together, and records in `lateness` (ns) how long after its time each left.
pub(super) fn egress(
    direction: &mut Direction,
    device: BorrowedFd<'_>,
    now: Instant,
    lateness: &mut Histogram<u64>,
) {
    while let Some(run) = direction.poll_transmit(now) {
        let left = clock::now();
        let sent = match direction.packet(&run) {
            None => Sent::Cut,
            Some(packet) if write(device, &run, packet).is_ok() => Sent::Written,
            Some(_) => Sent::Refused,
        };
        direction.handle_transmit(&run, sent, left, lateness);
    }
}

/// One write of `run`, which is part of `packet`.
fn write(device: BorrowedFd<'_>, run: &Run, packet: &[u8]) -> Result<usize, Errno> {
    match &run.shape {
        Shape::Whole => rustix::io::write(device, packet),
        Shape::Super(layout) => write_segments(device, layout, packet, run.at, run.len),
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

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
    use weftline_link::Link;

    use super::super::made::{self, HEADERS};
    use super::super::{Counters, Tally};
    use super::*;

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
            let mut link = Link::new(made::link(1000, 20, 1000), 1, "test");
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
            rustix::io::write(&self.near.0, &made::parts(3, 2500, 1000)).unwrap();
            let read = ingress(&mut self.direction, self.near.1.as_fd()).unwrap();
            assert_eq!(read, Ingress::Packet { payload: 2500 });
        }

        /// Everything that is on its way arrives; how many bytes the far end gets.
        fn arrive(&mut self) -> usize {
            let now = clock::now() + Duration::from_secs(60);
            egress(&mut self.direction, self.far.1.as_fd(), now, &mut self.lateness);
            let mut packet = [0; 4096];
            let read = std::iter::from_fn(|| rustix::io::read(&self.far.0, &mut packet).ok());
            read.sum()
        }

        fn counters(&self) -> Counters {
            self.direction.report().counters
        }
    }

    #[test]
    fn segments_that_leave_together_are_joined_again() {
        let mut bench = Bench::new();
        bench.send();
        assert_eq!(bench.arrive(), VNET_LEN + HEADERS + 2500);
        let Counters { reads, writes, delivered, .. } = bench.counters();
        assert_eq!((reads, writes), (1, 1));
        assert_eq!(delivered, Tally { packets: 3, bytes: 3 * HEADERS as u64 + 2500 });
        let read = ingress(&mut bench.direction, bench.near.1.as_fd()).unwrap();
        assert_eq!((read, bench.counters().reads), (Ingress::Empty, 1));
    }

    #[test]
    fn a_cut_takes_what_is_on_its_way_too() {
        let mut bench = Bench::new();
        bench.send();
        bench.direction.cut = true;
        bench.send();
        assert_eq!(bench.arrive(), 0);
        let Counters { offered, delivered, cut, .. } = bench.counters();
        assert_eq!((offered.packets, delivered.packets, cut), (6, 0, offered));
        bench.direction.cut = false;
        bench.send();
        assert_eq!(bench.arrive(), VNET_LEN + HEADERS + 2500);
    }

    #[test]
    fn what_the_far_end_refuses_is_counted() {
        let mut bench = Bench::new();
        bench.send();
        let (_near, far) = std::mem::replace(&mut bench.far, Bench::new().far);
        rustix::net::shutdown(&far, rustix::net::Shutdown::Write).unwrap();
        let now = clock::now() + Duration::from_secs(60);
        egress(&mut bench.direction, far.as_fd(), now, &mut bench.lateness);
        let Counters { offered, writes, delivered, write_failed, .. } = bench.counters();
        assert_eq!((writes, delivered, write_failed), (0, Tally::default(), offered));
    }
}
