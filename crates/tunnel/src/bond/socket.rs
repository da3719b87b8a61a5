//! Sockets of lanes. Of UDP: many datagrams in a system call, each way, and answers from the address that was
//! spoken to.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::{Add, AddAssign};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};

use super::pipe::Pipe;
use crate::class::{CAPABLE_1, Class, EXPERIENCED, NOT_CAPABLE};
use crate::sys::stop_timestamps;
use crate::udp::{Via, send_by_ourselves};
use crate::way::Way;

/// Reads in one system call, and the bytes of each: a GRO super-packet.
const READS: usize = 8;
const READ_BYTES: usize = 65_536;
/// Buffers asked for; the system may give less.
const BUFFER: usize = 4 << 20;
/// Most bytes that leave in one system call: the kernel's 64 KiB with all headers.
const BATCH_BYTES: usize = 60_000;

/// The most memory of what is gathered for a lane, in bytes: it is kept for the next ones.
pub(super) const LANE_BATCHES: usize = KINDS * WHOLE_BATCH;
/// Datagrams that are gathered by themselves, by what they say of ECN.
const KINDS: usize = 3;
/// Memory for a batch, and for the one more that does not fit; and what is less than that grows as it likes.
const WHOLE_BATCH: usize = BATCH_BYTES + 2048;
const LITTLE_BATCH: usize = 4096;

/// What a lane's datagrams are given to; it never waits.
pub(super) enum LaneSocket {
    Udp(Udp),
    /// They go over TCP.
    Pipe(Pipe),
}

/// A UDP socket.
pub(super) struct Udp {
    socket: UdpSocket,
    state: UdpSocketState,
    /// The system sends each datagram, but not several together.
    one_by_one: AtomicBool,
}

/// Where datagrams go that know their way.
pub(super) const NOWHERE: Way =
    Way { peer: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0), own: None };

impl LaneSocket {
    /// One at `address`; `only_v6` leaves IPv4 to others where it is `[::]`.
    pub(super) fn listen(address: SocketAddr, only_v6: bool) -> io::Result<Self> {
        let socket = open(address.is_ipv4())?;
        if address.is_ipv6() && only_v6 {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        Self::new(socket)
    }

    /// One that leaves through a link, for peers of a family, with a mark if it is to have one and may.
    pub(super) fn through(via: &Via, is_ipv4: bool, mark: Option<u32>) -> io::Result<Self> {
        let socket = open(is_ipv4)?;
        if let Some(mark) = mark {
            let _ = socket.set_mark(mark);
        }
        let any: IpAddr =
            if is_ipv4 { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let local = match via {
            Via::Interface(name) => {
                socket.bind_device(Some(name.as_bytes()))?;
                any
            }
            Via::Address(address) => *address,
        };
        socket.bind(&SocketAddr::new(local, 0).into())?;
        Self::new(socket)
    }

    fn new(socket: Socket) -> io::Result<Self> {
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new((&socket).into())?;
        stop_timestamps(&socket)?;
        let _ = state.set_recv_buffer_size((&socket).into(), BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), BUFFER);
        Ok(Self::Udp(Udp { socket, state, one_by_one: AtomicBool::new(false) }))
    }

    /// One for a lane over TCP; the descriptor is for whoever passes its datagrams on.
    pub(super) fn over_tcp() -> io::Result<(Self, OwnedFd)> {
        let (pipe, other) = Pipe::pair()?;
        Ok((Self::Pipe(pipe), other))
    }

    /// Whether nobody passes its datagrams on any more, which shows when it is read.
    pub(super) fn has_ended(&self) -> bool {
        matches!(self, Self::Pipe(pipe) if pipe.has_ended())
    }

    /// Reads once; each datagram is handed to `each`, with where it came from and the ECN field of its IP
    /// header. Whether there may be more.
    pub(super) fn read(&self, inbox: &mut Inbox, mut each: impl FnMut(&mut [u8], Way, u8)) -> bool {
        match self {
            Self::Udp(udp) => udp.read(inbox, each),
            Self::Pipe(pipe) => {
                let bytes = &mut inbox.bytes[..READ_BYTES];
                (0..READS).all(|_| {
                    let length = pipe.read(bytes);
                    length.is_some_and(|length| {
                        each(&mut bytes[..length], NOWHERE, NOT_CAPABLE);
                        true
                    })
                })
            }
        }
    }

    fn send(&self, to: (Way, u8), contents: &[u8], segment_size: Option<usize>) -> io::Result<()> {
        match self {
            Self::Udp(udp) => udp.send(to, contents, segment_size),
            Self::Pipe(pipe) => pipe.send(contents),
        }
    }

    /// From now on each datagram leaves in a system call of its own.
    fn send_one_by_one(&self) {
        if let Self::Udp(udp) = self {
            udp.one_by_one.store(true, Ordering::Relaxed);
        }
    }

    fn most_segments(&self) -> usize {
        match self {
            Self::Udp(udp) => udp.most_segments(),
            Self::Pipe(_) => 1,
        }
    }
}

impl Udp {
    fn read(&self, inbox: &mut Inbox, mut each: impl FnMut(&mut [u8], Way, u8)) -> bool {
        let mut parts = inbox.bytes.chunks_exact_mut(READ_BYTES).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; READS] =
            std::array::from_fn(|_| parts.next().expect("as many as reads"));
        let read = self.state.recv((&self.socket).into(), &mut slices, &mut inbox.meta);
        let count = match read {
            Ok(count) => count,
            // Other than "nothing there" it can tell of an earlier datagram only.
            Err(error) => return !matches!(error.kind(), io::ErrorKind::WouldBlock),
        };
        let bytes = inbox.bytes.chunks_exact_mut(READ_BYTES);
        // Nobody can be answered at port 0, and the kernel's refusal would have the socket send each
        // datagram by itself from then on, to everybody.
        let read = inbox.meta[..count].iter().zip(bytes).filter(|(meta, _)| meta.addr.port() != 0);
        for (meta, bytes) in read {
            let way = Way { peer: meta.addr, own: meta.dst_ip };
            let ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
            for datagram in bytes[..meta.len].chunks_mut(meta.stride.max(1)) {
                each(datagram, way, ecn);
            }
        }
        count == READS
    }

    fn send(
        &self,
        (way, ecn): (Way, u8),
        contents: &[u8],
        segment_size: Option<usize>,
    ) -> io::Result<()> {
        if way.own.is_some_and(|own| own.is_ipv6()) {
            // Where this machine has lost the address, quinn-udp takes the kernel's refusal for one of the
            // socket, which would never again send datagrams together, nor mark them.
            return send_by_ourselves(&self.socket, way, contents, segment_size, Class(ecn));
        }
        let ecn = EcnCodepoint::from_bits(ecn);
        let transmit =
            Transmit { destination: way.peer, ecn, contents, segment_size, src_ip: way.own };
        self.state.try_send((&self.socket).into(), &transmit)
    }

    fn most_segments(&self) -> usize {
        if self.one_by_one.load(Ordering::Relaxed) {
            return 1;
        }
        self.state.max_gso_segments().max(1)
    }
}

impl AsFd for LaneSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Udp(udp) => udp.socket.as_fd(),
            Self::Pipe(pipe) => pipe.as_fd(),
        }
    }
}

fn open(is_ipv4: bool) -> io::Result<Socket> {
    let domain = if is_ipv4 { Domain::IPV4 } else { Domain::IPV6 };
    Socket::new(domain, Type::DGRAM, Some(Protocol::UDP))
}

/// Memory into which datagrams are read.
pub(super) struct Inbox {
    bytes: Vec<u8>,
    meta: [RecvMeta; READS],
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; READS * READ_BYTES], meta: [RecvMeta::default(); READS] }
    }
}

/// Whether datagrams may have been refused only because they were given together, or all because one is
/// too long.
fn is_of_segments(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO | libc::EMSGSIZE))
}

/// What became of datagrams that were not sent, each since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unsent {
    /// The kernel had no room.
    pub(super) no_room: u64,
    /// Longer than the link takes.
    pub(super) too_long: u64,
    /// Refused otherwise, such as without a route.
    pub(super) refused: u64,
}

impl Unsent {
    /// Counts datagrams that the system has not sent; whether the link is there all the same.
    fn note(&mut self, error: &io::Error, count: u64, way: Way) -> bool {
        let code = error.raw_os_error();
        match error.kind() {
            io::ErrorKind::WouldBlock => self.no_room += count,
            _ if code == Some(libc::ENOBUFS) => self.no_room += count,
            _ if code == Some(libc::EMSGSIZE) => self.too_long += count,
            _ => {
                tracing::debug!(%error, peer = %way.peer, "datagrams were not sent");
                self.refused += count;
                return false;
            }
        }
        true
    }
}

impl Add for Unsent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            no_room: self.no_room + other.no_room,
            too_long: self.too_long + other.too_long,
            refused: self.refused + other.refused,
        }
    }
}

impl AddAssign for Unsent {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// Datagrams that were sent to the kernel since one that still waits, at most: the other end takes what comes
/// much later than its successors to be lost.
const MOST_APART: u64 = 64;

/// Datagrams that wait to leave together. What is ECN-capable and what is not are of different flows, which
/// alternate: those of each kind are gathered by themselves, so that each system call takes many.
#[derive(Debug, Default)]
pub(super) struct Batches {
    /// Not ECN-capable; ECT(0), and marked; ECT(1).
    kinds: [Batch; KINDS],
    pushed: u64,
    pub(super) unsent: Unsent,
}

impl Batches {
    /// Lets `write` append a datagram with this ECN field; some of those that are there may leave first.
    /// Those that can be of one flow stay in their order. Whether the link is there.
    pub(super) fn push(
        &mut self,
        socket: &LaneSocket,
        (way, ecn): (Way, u8),
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let unsent = &mut self.unsent;
        // A packet that is marked may be of either kind.
        let (kind, before) = match ecn {
            NOT_CAPABLE => (0, None),
            CAPABLE_1 => {
                (2, Some(1).filter(|&marked: &usize| self.kinds[marked].ecn == EXPERIENCED))
            }
            EXPERIENCED => (1, Some(2)),
            _ => (1, None),
        };
        let mut is_there = before.is_none_or(|before| self.kinds[before].flush(socket, unsent));
        self.pushed += 1;
        for other in &mut self.kinds {
            if other.count > 0 && self.pushed - other.since > MOST_APART {
                is_there &= other.flush(socket, unsent);
            }
        }
        self.kinds[kind].push(socket, (way, ecn), self.pushed, write, unsent) && is_there
    }

    /// The same of a datagram that may be too long for the link. It leaves at once and by itself: some kernels
    /// refuse a whole batch with an error after which the socket sends no batches, and no marks, any more.
    pub(super) fn push_alone(
        &mut self,
        socket: &LaneSocket,
        to: (Way, u8),
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let is_there = self.flush(socket);
        self.push(socket, to, write) & self.flush(socket) && is_there
    }

    /// Sends what is there; whether the link is there.
    pub(super) fn flush(&mut self, socket: &LaneSocket) -> bool {
        let unsent = &mut self.unsent;
        let mut is_there = true;
        for kind in &mut self.kinds {
            is_there &= kind.flush(socket, unsent);
        }
        is_there
    }
}

/// Datagrams of one length and ECN field to one address, which leave in one system call.
#[derive(Debug, Default)]
struct Batch {
    bytes: Vec<u8>,
    segment: usize,
    count: usize,
    is_closed: bool,
    way: Option<Way>,
    ecn: u8,
    /// The number of the first of them.
    since: u64,
}

impl Batch {
    /// Lets `write` append a datagram, the one of this number; those that are there leave first if it does
    /// not fit to them. Whether the link is there.
    fn push(
        &mut self,
        socket: &LaneSocket,
        (way, ecn): (Way, u8),
        number: u64,
        write: impl FnOnce(&mut Vec<u8>),
        unsent: &mut Unsent,
    ) -> bool {
        let mut is_there = true;
        let at = self.bytes.len();
        if at > LITTLE_BATCH {
            // As much as it may come to have, and not the double.
            self.bytes.reserve_exact(WHOLE_BATCH.saturating_sub(at));
        }
        write(&mut self.bytes);
        let length = self.bytes.len() - at;
        let fits = self.count > 0
            && (self.way, self.ecn) == (Some(way), ecn)
            && !self.is_closed
            && length <= self.segment
            && self.count < socket.most_segments()
            && self.bytes.len() <= BATCH_BYTES;
        if !fits {
            let rest = self.bytes.split_off(at);
            is_there = self.flush(socket, unsent);
            self.bytes.extend_from_slice(&rest);
            (self.way, self.ecn) = (Some(way), ecn);
            (self.segment, self.since) = (length, number);
        }
        self.count += 1;
        self.is_closed = length < self.segment;
        is_there
    }

    /// Sends what is there; whether the link is there.
    fn flush(&mut self, socket: &LaneSocket, unsent: &mut Unsent) -> bool {
        let count = std::mem::take(&mut self.count);
        let Some(way) = self.way.take().filter(|_| count > 0) else { return true };
        let to = (way, std::mem::take(&mut self.ecn));
        let is_there = match socket.send(to, &self.bytes, (count > 1).then_some(self.segment)) {
            Ok(()) => true,
            // Some kernels say so where a segment is longer than the link takes.
            Err(error) if count > 1 && is_of_segments(&error) => {
                let (mut is_there, mut sent) = (true, 0);
                for one in self.bytes.chunks(self.segment) {
                    match socket.send(to, one, None) {
                        Ok(()) => sent += 1,
                        Err(error) => is_there &= unsent.note(&error, 1, way),
                    }
                }
                // As quinn-udp does where it sends: the next would be refused as well.
                if sent == count && error.raw_os_error() != Some(libc::EMSGSIZE) {
                    socket.send_one_by_one();
                }
                is_there
            }
            Err(error) => unsent.note(&error, count as u64, way),
        };
        self.bytes.clear();
        self.is_closed = false;
        is_there
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two sockets, and the way from the first to the second.
    fn pair() -> ([LaneSocket; 2], Way) {
        pair_at(["127.0.0.1:0"; 2])
    }

    fn pair_at(addresses: [&str; 2]) -> ([LaneSocket; 2], Way) {
        let pair =
            addresses.map(|address| LaneSocket::listen(address.parse().unwrap(), false).unwrap());
        let LaneSocket::Udp(udp) = &pair[1] else { panic!("it listens") };
        let mut peer = udp.socket.local_addr().unwrap();
        if peer.ip().is_unspecified() {
            peer.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        (pair, Way { peer, own: None })
    }

    /// What has come: length, first byte and ECN field of each.
    type Came = Vec<(usize, u8, u8)>;

    /// All that has come, once there are so many: a busy kernel may bring them later.
    fn came(socket: &LaneSocket, count: usize) -> Came {
        came_until(socket, |came| came.len() >= count)
    }

    fn came_until(socket: &LaneSocket, enough: impl Fn(&Came) -> bool) -> Came {
        let (mut inbox, mut came) = (Inbox::new(), Vec::new());
        let begun = std::time::Instant::now();
        loop {
            let before = came.len();
            socket.read(&mut inbox, |datagram, _, ecn| {
                assert!(datagram.iter().all(|byte| *byte == datagram[0]));
                came.push((datagram.len(), datagram[0], ecn));
            });
            let is_over = enough(&came) || begun.elapsed().as_secs() >= 400;
            if came.len() == before && is_over {
                return came;
            }
        }
    }

    fn push(batches: &mut Batches, from: &LaneSocket, to: (Way, u8), (length, n): (usize, u8)) {
        assert!(batches.push(from, to, |out| out.resize(out.len() + length, n)));
    }

    #[test]
    fn what_is_sent_in_batches_comes_datagram_by_datagram() {
        let ([from, to], way) = pair();
        let (mut batches, lengths) = (Batches::default(), [100, 100, 100, 40, 100, 300, 300, 1]);
        for (n, &length) in lengths.iter().enumerate() {
            push(&mut batches, &from, (way, 0), (length, n as u8));
        }
        assert!(batches.flush(&from) && batches.flush(&from));
        let expected: Vec<_> =
            lengths.iter().enumerate().map(|(n, &length)| (length, n as u8, 0)).collect();
        assert_eq!(came(&to, expected.len()), expected);
        assert_eq!(batches.unsent, Unsent::default());
    }

    /// An answer there would be refused by the kernel, and quinn-udp then sends no batches any more.
    #[test]
    fn what_comes_from_port_0_is_not_taken() {
        let ([from, to], way) = pair();
        let Ok(raw) = Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::UDP)) else {
            assert!(std::env::var_os("CI").is_none(), "in CI tests run as root");
            return eprintln!("skipped: raw sockets need root");
        };
        let [high, low] = way.peer.port().to_be_bytes();
        // Source port, destination port, length, no checksum; and a byte.
        raw.send_to(&[0, 0, high, low, 0, 9, 0, 0, 1], &way.peer.into()).unwrap();
        from.send((way, 0), &[2], None).unwrap();
        assert_eq!(came(&to, 1), [(1, 2, 0)]);
    }

    #[test]
    fn what_is_gathered_for_a_lane_takes_no_more_memory_than_is_promised() {
        let ([from, to], way) = pair();
        let (mut batches, mut most) = (Batches::default(), 0);
        for n in 0..3000_usize {
            let ecn = [0, 2, 1][n / 100 % 3];
            let length = 1000 + n * 7 % 472 * usize::from(n > 1500);
            push(&mut batches, &from, (way, ecn), (length, 1));
            most = most.max(batches.kinds.iter().map(|kind| kind.bytes.capacity()).sum());
            came(&to, 0);
        }
        assert!(most <= LANE_BATCHES, "{most} bytes");
        if from.most_segments() >= 60 {
            assert!(most > LANE_BATCHES * 9 / 10, "it was full: {most} bytes");
        }
    }

    #[test]
    fn flows_that_alternate_leave_together_and_each_comes_in_order() {
        // Also from IPv4 to a socket of both families.
        for addresses in [["127.0.0.1:0"; 2], ["[::1]:0"; 2], ["127.0.0.1:0", "[::]:0"]] {
            alternate(pair_at(addresses));
        }
    }

    fn alternate(([from, to], way): ([LaneSocket; 2], Way)) {
        let mut batches = Batches::default();
        for n in 0..MOST_APART as u8 {
            push(&mut batches, &from, (way, n % 3), (100, n));
        }
        if from.most_segments() >= MOST_APART as usize {
            assert_eq!(came(&to, 0), [], "in one call of each kind, and no earlier");
        }
        assert!(batches.flush(&from));
        let all = came(&to, MOST_APART as usize);
        assert_eq!(all.len() as u64, MOST_APART);
        assert!(all.iter().all(|&(_, n, ecn)| n % 3 == ecn), "{all:?}");
        for kind in 0..3 {
            assert!(
                all.iter().filter(|one| one.2 == kind).is_sorted_by_key(|one| one.1),
                "{all:?}"
            );
        }
    }

    #[test]
    fn no_datagram_is_overtaken_by_many_others_nor_a_mark_by_its_flow() {
        let ([from, to], way) = pair();
        let mut batches = Batches::default();
        push(&mut batches, &from, (way, 0), (100, 255));
        for n in 0..200 {
            push(&mut batches, &from, (way, 2), (100, n));
        }
        let is_first = |one: &(usize, u8, u8)| one.1 == 255;
        let first = came_until(&to, |came| came.iter().any(is_first));
        let place = first.iter().position(is_first);
        assert!(place.is_some_and(|place| place as u64 <= MOST_APART), "{place:?}");
        assert!(batches.flush(&from));
        assert_eq!(came(&to, 201 - first.len()).len(), 201 - first.len());
        for capable in [1, 2] {
            for n in 0..20 {
                let ecn = if n % 7 == 3 { EXPERIENCED } else { capable };
                push(&mut batches, &from, (way, ecn), (100, n));
            }
            assert!(batches.flush(&from));
            let all = came(&to, 20);
            assert!(all.len() == 20 && all.is_sorted_by_key(|one| one.1), "{all:?}");
            let marked: Vec<_> = all.iter().filter(|one| one.2 == EXPERIENCED).collect();
            assert_eq!(marked.len(), 3, "{all:?}");
        }
    }

    #[test]
    fn what_may_be_too_long_leaves_alone() {
        let ([from, to], way) = pair();
        let mut batches = Batches::default();
        push(&mut batches, &from, (way, 0), (100, 0));
        assert!(batches.push_alone(&from, (way, 0), |out| out.resize(out.len() + 100, 1)));
        assert_eq!(came(&to, 2), [(100, 0, 0), (100, 1, 0)], "at once, and in order");
        for (n, length) in [(2, 100), (3, 66_000), (4, 100)] {
            let write = |out: &mut Vec<u8>| out.resize(out.len() + length, n);
            match length {
                100 => assert!(batches.push(&from, (way, 0), write)),
                _ => assert!(batches.push_alone(&from, (way, 0), write)),
            }
        }
        assert!(batches.flush(&from));
        assert_eq!(came(&to, 2).iter().map(|one| one.1).collect::<Vec<_>>(), [2, 4]);
        assert_eq!(batches.unsent, Unsent { too_long: 1, ..Unsent::default() });
    }

    /// A server answers from the address that was spoken to, which may be gone.
    #[test]
    fn an_address_that_is_gone_costs_the_others_neither_batches_nor_marks() {
        let ([from, to], way) = pair_at(["[::1]:0"; 2]);
        let (mut batches, before) = (Batches::default(), from.most_segments());
        // One of those for documentation (RFC 3849), and our own.
        let gone = Way { own: Some("2001:db8::7".parse().unwrap()), ..way };
        let own = Way { own: Some(Ipv6Addr::LOCALHOST.into()), ..way };
        for _ in 0..2 {
            assert!(batches.push(&from, (gone, 2), |out| out.resize(out.len() + 100, 0)));
        }
        assert!(!batches.flush(&from));
        assert_eq!(batches.unsent, Unsent { refused: 2, ..Unsent::default() });
        assert_eq!(from.most_segments(), before);
        for (n, way) in [(1, own), (2, own), (3, way), (4, way)] {
            push(&mut batches, &from, (way, 2), (100, n));
        }
        assert!(batches.flush(&from));
        assert_eq!(came(&to, 4), [1, 2, 3, 4].map(|n| (100, n, 2)));
    }

    /// As a question whether the link carries so much does: it takes no other with it.
    #[test]
    fn a_datagram_that_is_too_long_is_refused_alone() {
        let ([from, to], way) = pair();
        let mut batches = Batches::default();
        // Longer than UDP takes at all, and shorter ones after it.
        for (n, length) in [(0, 100), (1, 66_000), (2, 100), (3, 100)] {
            push(&mut batches, &from, (way, 0), (length, n));
        }
        assert!(batches.flush(&from));
        assert_eq!(came(&to, 3).iter().map(|one| one.1).collect::<Vec<_>>(), [0, 2, 3]);
        assert_eq!(batches.unsent, Unsent { too_long: 1, ..Unsent::default() });
    }
}
