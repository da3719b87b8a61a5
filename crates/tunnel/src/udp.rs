//! Sockets: many datagrams in a system call, each way, by the kernel's segmentation (UDP GSO and
//! GRO).

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, MsgHdr, Protocol, SockAddr, SockRef, Socket as RawSocket, Type};

use crate::TunnelError;
use crate::class::Class;
use crate::outbox::Kernel;
use crate::sys::{stop_addresses, stop_timestamps};
use crate::way::Way;

/// Reads in one system call, and the bytes of each: a GRO super-packet.
const READS: usize = 8;
const READ_BYTES: usize = 65_536;

/// Receive buffer asked for: 20 ms at 1.6 Gb/s.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Send buffer asked for where nothing limits it.
const SEND_BUFFER: usize = 4 << 20;

/// What a socket is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Via {
    /// A local address.
    Address(IpAddr),
    /// An interface by name.
    Interface(String),
}

impl std::str::FromStr for Via {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(text.parse().map_or_else(|_| Self::Interface(text.to_owned()), Self::Address))
    }
}

/// What the kernel is to say of datagrams that came, besides their ECN field: there is no room for both
/// (`sys.rs`).
enum Told {
    /// Which of this machine's addresses they came to. One that listens at all of them answers from there;
    /// no trains come to it, as it is what sends them.
    Address,
    /// When they came.
    Time,
}

/// A UDP socket that never waits.
pub(crate) struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
}

impl Socket {
    /// A socket at `address`.
    pub(crate) fn listen(address: SocketAddr) -> Result<Self, TunnelError> {
        let bound = open(address.is_ipv4()).and_then(|socket| {
            socket.bind(&address.into())?;
            Ok(socket)
        });
        let socket = bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => TunnelError::Usage(format!(
                "another program listens on {address} (UDP); end it or choose another --listen"
            )),
            io::ErrorKind::AddrNotAvailable => TunnelError::Usage(format!(
                "this machine has not the address {address}; choose another --listen"
            )),
            _ => TunnelError::Os { context: format!("listening on {address}"), source: error },
        })?;
        Self::new(socket, &Told::Address)
    }

    /// A socket to speak to `peer` from, through `via`.
    pub(crate) fn towards(peer: SocketAddr, via: Option<&Via>) -> Result<Self, TunnelError> {
        let any: IpAddr = if peer.is_ipv4() {
            std::net::Ipv4Addr::UNSPECIFIED.into()
        } else {
            std::net::Ipv6Addr::UNSPECIFIED.into()
        };
        let what = |via: &str| format!("binding a socket to {via}");
        let socket = open(peer.is_ipv4()).map_err(TunnelError::os("opening a socket"))?;
        let local = match via {
            Some(Via::Interface(name)) => {
                socket.bind_device(Some(name.as_bytes())).map_err(|error| {
                    match error.raw_os_error() {
                        Some(libc::ENODEV) => TunnelError::Usage(format!(
                            "there is no interface '{name}'; `ip link` lists them"
                        )),
                        _ => TunnelError::Os { context: what(name), source: error },
                    }
                })?;
                any
            }
            Some(Via::Address(address)) if address.is_ipv4() != peer.is_ipv4() => {
                return Err(TunnelError::Usage(format!(
                    "{peer} cannot be reached from {address}: one is IPv4, the other IPv6"
                )));
            }
            Some(Via::Address(address)) => *address,
            None => any,
        };
        let bound = socket.bind(&SocketAddr::new(local, 0).into());
        bound.map_err(|error| match error.kind() {
            io::ErrorKind::AddrNotAvailable => {
                TunnelError::Usage(format!("this machine has not the address {local}"))
            }
            _ => TunnelError::Os { context: what(&local.to_string()), source: error },
        })?;
        Self::new(socket, &Told::Time)
    }

    fn new(socket: RawSocket, told: &Told) -> Result<Self, TunnelError> {
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new((&socket).into());
        let state = state.map_err(TunnelError::os("setting up a socket"))?;
        let is_ipv4 = socket.local_addr().map(|address| address.is_ipv4());
        let stopped = is_ipv4.and_then(|is_ipv4| match told {
            Told::Address => stop_timestamps(&socket),
            Told::Time => stop_addresses(&socket, is_ipv4),
        });
        stopped.map_err(TunnelError::os("setting up a socket"))?;
        // The system may give less; it is what there is.
        let _ = state.set_recv_buffer_size((&socket).into(), RECEIVE_BUFFER);
        let _ = state.set_send_buffer_size((&socket).into(), SEND_BUFFER);
        Ok(Self { socket, state })
    }

    /// Limits what the kernel queues of ours, so that it says when the interface has no room.
    pub(crate) fn limit_queue(&self, bytes: usize) {
        let _ = self.state.set_send_buffer_size((&self.socket).into(), bytes);
    }

    /// Where it is.
    pub(crate) fn local_address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }
}

impl Kernel for Socket {
    fn transmit(
        &self,
        to: Way,
        contents: &[u8],
        segment_size: Option<usize>,
        class: Class,
    ) -> io::Result<()> {
        if class.dscp() != 0 || to.own.is_some_and(|own| own.is_ipv6()) {
            // The crate sets ECN only. And where this machine has lost an IPv6 address, it takes the kernel's
            // refusal for one of the socket, which would never again send datagrams together.
            return send_by_ourselves(&self.socket, to, contents, segment_size, class);
        }
        let ecn = EcnCodepoint::from_bits(class.ecn());
        let transmit =
            Transmit { destination: to.peer, ecn, contents, segment_size, src_ip: to.own };
        self.state.try_send((&self.socket).into(), &transmit)
    }

    fn most_segments(&self) -> usize {
        self.state.max_gso_segments().max(1)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Sends with a class in the IP header, both of DSCP and ECN, and from the address that is asked for.
pub(crate) fn send_by_ourselves(
    socket: &UdpSocket,
    to: Way,
    contents: &[u8],
    segment_size: Option<usize>,
    class: Class,
) -> io::Result<()> {
    let mut control = Control::default();
    let (level, kind) = match to.peer.ip().to_canonical() {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    control.push(level, kind, &[&i32::from(class.0).to_ne_bytes()]);
    if let Some(segment) = segment_size {
        let segment = u16::try_from(segment).map_err(|_| io::ErrorKind::InvalidInput)?;
        control.push(libc::SOL_UDP, libc::UDP_SEGMENT, &[&segment.to_ne_bytes()]);
    }
    match to.own {
        None => {}
        // As `in_pktinfo` (ip(7)): no interface, from this address, and one that counts on arrival only.
        Some(IpAddr::V4(own)) => {
            control.push(libc::IPPROTO_IP, libc::IP_PKTINFO, &[&[0; 4], &own.octets(), &[0; 4]]);
        }
        // As `in6_pktinfo` (ipv6(7)): from this address, and no interface.
        Some(IpAddr::V6(own)) => {
            control.push(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, &[&own.octets(), &[0; 4]]);
        }
    }
    let (address, parts) = (SockAddr::from(to.peer), [IoSlice::new(contents)]);
    let message =
        MsgHdr::new().with_addr(&address).with_buffers(&parts).with_control(control.bytes());
    SockRef::from(socket).sendmsg(&message, 0).map(drop)
}

/// Room for three control messages of 40 bytes at most each.
const CONTROL: usize = 3 * 40;

/// Control messages (cmsg(3)).
struct Control {
    all: [u8; CONTROL],
    length: usize,
}

impl Default for Control {
    fn default() -> Self {
        Self { all: [0; CONTROL], length: 0 }
    }
}

impl Control {
    /// Appends one with these data, aligned as `CMSG_NXTHDR` wants it.
    fn push(&mut self, level: i32, kind: i32, data: &[&[u8]]) {
        const ALIGNMENT: usize = size_of::<usize>();
        let begun = self.length;
        let content: usize = data.iter().map(|part| part.len()).sum();
        let length = ALIGNMENT + 2 * size_of::<i32>() + content;
        self.extend(&length.to_ne_bytes());
        self.extend(&level.to_ne_bytes());
        self.extend(&kind.to_ne_bytes());
        data.iter().for_each(|part| self.extend(part));
        self.length = begun + length.next_multiple_of(ALIGNMENT);
    }

    fn extend(&mut self, bytes: &[u8]) {
        self.all[self.length..][..bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn bytes(&self) -> &[u8] {
        &self.all[..self.length]
    }
}

/// Whether an address is of one link: the interface is needed besides, and the system finds both by itself.
fn is_link_local(address: IpAddr) -> bool {
    matches!(address, IpAddr::V6(address) if address.is_unicast_link_local())
}

fn open(v4: bool) -> io::Result<RawSocket> {
    let domain = if v4 { Domain::IPV4 } else { Domain::IPV6 };
    RawSocket::new(domain, Type::DGRAM, Some(Protocol::UDP))
}

/// Memory into which datagrams are read.
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    meta: [RecvMeta; READS],
}

impl Inbox {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; READS * READ_BYTES], meta: [RecvMeta::default(); READS] }
    }

    /// Reads once; each datagram is handed to `each` with the way back, when the kernel got it, by the time
    /// of day, if it says so, and the ECN of its IP header. Whether there may be more.
    pub(crate) fn read(
        &mut self,
        socket: &Socket,
        mut each: impl FnMut(Way, &[u8], Option<Duration>, u8),
    ) -> bool {
        let mut parts = self.bytes.chunks_exact_mut(READ_BYTES).map(IoSliceMut::new);
        let mut slices: [IoSliceMut<'_>; READS] =
            std::array::from_fn(|_| parts.next().expect("as many as reads"));
        let read = socket.state.recv((&socket.socket).into(), &mut slices, &mut self.meta);
        let count = match read {
            Ok(count) => count,
            Err(error) => {
                // Other than "nothing there" it can tell of an earlier datagram only.
                return !matches!(error.kind(), io::ErrorKind::WouldBlock);
            }
        };
        let read = self.meta[..count].iter().zip(self.bytes.chunks_exact(READ_BYTES));
        // Nobody can be answered at port 0, and the kernel's error would be taken for one of the socket:
        // it would never again send datagrams together.
        for (meta, bytes) in read.filter(|(meta, _)| meta.addr.port() != 0) {
            let ecn = meta.ecn.map_or(0, |ecn| ecn as u8);
            let way = Way { peer: meta.addr, own: meta.dst_ip.filter(|own| !is_link_local(*own)) };
            for datagram in bytes[..meta.len].chunks(meta.stride.max(1)) {
                each(way, datagram, meta.timestamp, ecn);
            }
        }
        count == READS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads until so many datagrams have come.
    fn read(socket: &Socket, datagrams: usize) -> Vec<(Way, usize, bool, u8)> {
        let (mut inbox, mut came) = (Inbox::new(), Vec::new());
        // A busy kernel may bring them later.
        let begun = std::time::Instant::now();
        while came.len() < datagrams && begun.elapsed().as_secs() < 400 {
            inbox.read(socket, |way, datagram, stamp, ecn| {
                came.push((way, datagram.len(), stamp.is_some(), ecn));
            });
        }
        came
    }

    /// Trains need the kernel's stamps, and RFC 6040 the ECN field, of datagrams that come together, too.
    #[test]
    fn datagrams_that_are_read_together_have_their_ecn_and_their_time() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let node = Socket::listen(host.parse().unwrap()).unwrap();
            let neighbour = Socket::towards(node.local_address().unwrap(), None).unwrap();
            let port = neighbour.local_address().unwrap().port();
            let to = Way::to(SocketAddr::new(node.local_address().unwrap().ip(), port));
            let together = node.most_segments().min(10);
            assert!(together > 1, "the kernel joins nothing: this shows nothing");
            for class in [0, 1, 2, 3, 46 << 2 | 2] {
                node.transmit(to, &vec![7; 1000 * together], Some(1000), Class(class)).unwrap();
                let came = read(&neighbour, together).into_iter();
                let came: Vec<_> = came.map(|(_, bytes, stamp, ecn)| (bytes, stamp, ecn)).collect();
                assert_eq!(came, vec![(1000, true, class & 3); together], "{host} {class}");
            }
        }
    }

    /// A gateway with two ways to the Internet, whose default is the other one.
    #[test]
    fn a_node_that_listens_at_all_addresses_answers_from_the_one_that_was_asked() {
        for (listen, asked) in
            [("0.0.0.0:0", "127.0.0.2"), ("[::]:0", "127.0.0.2"), ("[::]:0", "::1")]
        {
            let node = Socket::listen(listen.parse().unwrap()).unwrap();
            let port = node.local_address().unwrap().port();
            let asked = SocketAddr::new(asked.parse().unwrap(), port);
            let neighbour = Socket::towards(asked, None).unwrap();
            for class in [0, 2, 46 << 2 | 2] {
                neighbour.transmit(Way::to(asked), &[1; 1000], None, Class(class)).unwrap();
                let (way, _, _, ecn) = read(&node, 1)[0];
                assert_eq!(ecn, class & 3);
                node.transmit(way, &[2; 2000], Some(1000), Class(class)).unwrap();
                for (from, bytes, _, ecn) in read(&neighbour, 2) {
                    assert_eq!((from.peer, bytes, ecn), (asked, 1000, class & 3), "{listen}");
                }
            }
        }
    }
}
