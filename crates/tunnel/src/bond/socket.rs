//! Sockets of lanes: many datagrams in a system call, each way, and answers from the address that was
//! spoken to.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::{Add, AddAssign};
use std::os::fd::{AsFd, BorrowedFd};

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, Socket, Type};

use crate::udp::Via;

/// Reads in one system call, and the bytes of each: a GRO super-packet.
const READS: usize = 8;
const READ_BYTES: usize = 65_536;
/// Buffers asked for; the system may give less.
const BUFFER: usize = 4 << 20;
/// Most bytes that leave in one system call: the kernel's 64 KiB with all headers.
const BATCH_BYTES: usize = 60_000;

/// Where a datagram goes, and from which address of this machine, if that matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) peer: SocketAddr,
    pub(super) own: Option<IpAddr>,
}

/// A UDP socket that never waits.
pub(super) struct LaneSocket {
    socket: UdpSocket,
    state: UdpSocketState,
}

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

    /// One that leaves through a link, for peers of a family.
    pub(super) fn through(via: &Via, is_ipv4: bool) -> io::Result<Self> {
        let socket = open(is_ipv4)?;
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
        let _ = state.set_recv_buffer_size((&socket).into(), BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), BUFFER);
        Ok(Self { socket, state })
    }

    /// Reads once; each datagram is handed to `each`. Whether there may be more.
    pub(super) fn read(&self, inbox: &mut Inbox, mut each: impl FnMut(&mut [u8], Way)) -> bool {
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
        for (meta, bytes) in inbox.meta[..count].iter().zip(bytes) {
            let way = Way { peer: meta.addr, own: meta.dst_ip };
            for datagram in bytes[..meta.len].chunks_mut(meta.stride.max(1)) {
                each(datagram, way);
            }
        }
        count == READS
    }

    fn send(&self, way: Way, contents: &[u8], segment_size: Option<usize>) -> io::Result<()> {
        let transmit =
            Transmit { destination: way.peer, ecn: None, contents, segment_size, src_ip: way.own };
        self.state.try_send((&self.socket).into(), &transmit)
    }

    fn most_segments(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }
}

impl AsFd for LaneSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
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

/// Whether datagrams may have been refused only because they were given together.
fn is_of_segments(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINVAL | libc::EIO))
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

/// Datagrams of one length to one address, which leave in one system call.
#[derive(Debug, Default)]
pub(super) struct Batch {
    bytes: Vec<u8>,
    segment: usize,
    count: usize,
    is_closed: bool,
    way: Option<Way>,
    pub(super) unsent: Unsent,
}

impl Batch {
    /// Lets `write` append a datagram; those that are there leave first if it does not fit to them.
    /// Whether the link is there.
    pub(super) fn push(
        &mut self,
        socket: &LaneSocket,
        way: Way,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> bool {
        let mut is_there = true;
        let at = self.bytes.len();
        write(&mut self.bytes);
        let length = self.bytes.len() - at;
        let fits = self.count > 0
            && self.way == Some(way)
            && !self.is_closed
            && length <= self.segment
            && self.count < socket.most_segments()
            && self.bytes.len() <= BATCH_BYTES;
        if !fits {
            let rest = self.bytes.split_off(at);
            is_there = self.flush(socket);
            self.bytes = rest;
            (self.way, self.segment) = (Some(way), length);
        }
        self.count += 1;
        self.is_closed = length < self.segment;
        is_there
    }

    /// Sends what is there; whether the link is there.
    pub(super) fn flush(&mut self, socket: &LaneSocket) -> bool {
        let count = std::mem::take(&mut self.count);
        let Some(way) = self.way.take().filter(|_| count > 0) else { return true };
        let segment = (count > 1).then_some(self.segment);
        let sent = match socket.send(way, &self.bytes, segment) {
            // Some kernels say so where a segment is longer than the link takes.
            Err(error) if count > 1 && is_of_segments(&error) => {
                let each = self.bytes.chunks(self.segment);
                each.map(|one| socket.send(way, one, None)).fold(Ok(()), Result::and)
            }
            sent => sent,
        };
        self.bytes.clear();
        self.is_closed = false;
        let Err(error) = sent else { return true };
        let code = error.raw_os_error();
        let lost = match error.kind() {
            io::ErrorKind::WouldBlock => &mut self.unsent.no_room,
            _ if code == Some(libc::ENOBUFS) => &mut self.unsent.no_room,
            _ if code == Some(libc::EMSGSIZE) => &mut self.unsent.too_long,
            _ => {
                tracing::debug!(%error, peer = %way.peer, "datagrams were not sent");
                self.unsent.refused += count as u64;
                return false;
            }
        };
        *lost += count as u64;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_in_batches_comes_datagram_by_datagram() {
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let [from, to] = [0, 1].map(|_| LaneSocket::listen(any, false).unwrap());
        let way = Way { peer: to.socket.local_addr().unwrap(), own: None };
        let (mut batch, lengths) = (Batch::default(), [100, 100, 100, 40, 100, 300, 300, 1]);
        for (n, &length) in lengths.iter().enumerate() {
            assert!(batch.push(&from, way, |out| out.resize(out.len() + length, n as u8)));
        }
        assert!(batch.flush(&from) && batch.flush(&from));
        let (mut inbox, mut came) = (Inbox::new(), Vec::new());
        while came.len() < lengths.len() {
            to.read(&mut inbox, |datagram, way| {
                assert_eq!(way.peer, from.socket.local_addr().unwrap());
                assert!(datagram.iter().all(|byte| *byte == came.len() as u8));
                came.push(datagram.len());
            });
        }
        assert_eq!(came, lengths);
        assert_eq!(batch.unsent, Unsent::default());
    }
}
