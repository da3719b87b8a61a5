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
use crate::sys::stop_addresses;

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
        Self::new(socket)
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
        Self::new(socket)
    }

    fn new(socket: RawSocket) -> Result<Self, TunnelError> {
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new((&socket).into());
        let state = state.map_err(TunnelError::os("setting up a socket"))?;
        let is_ipv4 = socket.local_addr().map(|address| address.is_ipv4());
        let stopped = is_ipv4.and_then(|is_ipv4| stop_addresses(&socket, is_ipv4));
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
        destination: SocketAddr,
        contents: &[u8],
        segment_size: Option<usize>,
        class: Class,
    ) -> io::Result<()> {
        if class.dscp() != 0 {
            // The crate sets ECN only.
            return send_with_dscp(&self.socket, destination, contents, segment_size, class);
        }
        let ecn = EcnCodepoint::from_bits(class.ecn());
        let transmit = Transmit { destination, ecn, contents, segment_size, src_ip: None };
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

/// Sends with a class in the IP header, both of DSCP and ECN.
fn send_with_dscp(
    socket: &UdpSocket,
    destination: SocketAddr,
    contents: &[u8],
    segment_size: Option<usize>,
    class: Class,
) -> io::Result<()> {
    let mut control = Vec::new();
    let (level, kind) = match destination.ip().to_canonical() {
        IpAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TOS),
        IpAddr::V6(_) => (libc::IPPROTO_IPV6, libc::IPV6_TCLASS),
    };
    push_control(level, kind, &i32::from(class.0).to_ne_bytes(), &mut control);
    if let Some(segment) = segment_size {
        let segment = u16::try_from(segment).map_err(|_| io::ErrorKind::InvalidInput)?;
        push_control(libc::SOL_UDP, libc::UDP_SEGMENT, &segment.to_ne_bytes(), &mut control);
    }
    let (address, parts) = (SockAddr::from(destination), [IoSlice::new(contents)]);
    let message = MsgHdr::new().with_addr(&address).with_buffers(&parts).with_control(&control);
    SockRef::from(socket).sendmsg(&message, 0).map(drop)
}

/// Appends a control message, aligned as `CMSG_NXTHDR` (cmsg(3)) wants it.
fn push_control(level: i32, kind: i32, data: &[u8], out: &mut Vec<u8>) {
    const ALIGNMENT: usize = size_of::<usize>();
    let length = ALIGNMENT + 2 * size_of::<i32>() + data.len();
    out.extend_from_slice(&length.to_ne_bytes());
    out.extend_from_slice(&level.to_ne_bytes());
    out.extend_from_slice(&kind.to_ne_bytes());
    out.extend_from_slice(data);
    out.resize(out.len().next_multiple_of(ALIGNMENT), 0);
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

    /// Reads once; each datagram is handed to `each` with where it is from, when the kernel got it, by
    /// the time of day, and the ECN of its IP header. Whether there may be more.
    pub(crate) fn read(
        &mut self,
        socket: &Socket,
        mut each: impl FnMut(SocketAddr, &[u8], Option<Duration>, u8),
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
            for datagram in bytes[..meta.len].chunks(meta.stride.max(1)) {
                each(meta.addr, datagram, meta.timestamp, ecn);
            }
        }
        count == READS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Trains need the kernel's stamps, and RFC 6040 the ECN field, of datagrams that come together, too.
    #[test]
    fn datagrams_that_are_read_together_have_their_ecn_and_their_time() {
        for host in ["127.0.0.1:0", "[::1]:0"] {
            let to = Socket::listen(host.parse().unwrap()).unwrap();
            let at = to.local_address().unwrap();
            let from = Socket::towards(at, None).unwrap();
            let together = from.most_segments().min(10);
            assert!(together > 1, "the kernel joins nothing: this shows nothing");
            for class in [0, 1, 2, 3, 46 << 2 | 2] {
                from.transmit(at, &vec![7; 1000 * together], Some(1000), Class(class)).unwrap();
                let (mut inbox, mut came) = (Inbox::new(), Vec::new());
                // A busy kernel may bring them later.
                let begun = std::time::Instant::now();
                while came.len() < together && begun.elapsed().as_secs() < 400 {
                    inbox.read(&to, |_, datagram, stamp, ecn| {
                        came.push((datagram.len(), stamp.is_some(), ecn));
                    });
                }
                assert_eq!(came, vec![(1000, true, class & 3); together], "{host} {class}");
            }
        }
    }
}
