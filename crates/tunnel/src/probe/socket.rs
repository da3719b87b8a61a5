//! The probe's UDP socket: trains out in one system call, kernel receive stamps in.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::Duration;

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, Protocol, Socket, Type};
use weftline_core::Instant;
use weftline_core::time::nanos;

use super::clock::Translator;
use super::collector::Stamp;
use super::peer::Shape;
use crate::clock;

/// Room for the trains of some clients while this program waits for a processor; the system may
/// give less.
const RECEIVE_BUFFER: usize = 4 << 20;
/// Largest datagram, or several that the kernel has joined.
const DATAGRAM_MAX: usize = 65_536;
/// Bytes that a super-packet may have.
const SUPER_MAX: usize = 65_000;

/// Where a client's packets leave this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// Wherever the routing table says.
    Any,
    /// From this local address.
    Address(IpAddr),
    /// Through this network interface.
    Interface(String),
}

/// A datagram that came.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// Whose.
    pub from: SocketAddr,
    /// To which of our addresses.
    pub to: Option<IpAddr>,
    /// What it says.
    pub bytes: &'a [u8],
    /// When the kernel got it.
    pub stamp: Stamp,
}

/// A UDP socket whose packets are stamped by the kernel.
#[derive(Debug)]
pub struct ProbeSocket {
    socket: UdpSocket,
    state: UdpSocketState,
    clock: Translator,
    buffers: Vec<Vec<u8>>,
}

impl ProbeSocket {
    /// A server's socket.
    ///
    /// # Errors
    /// When the system does not give it.
    pub fn listen(address: SocketAddr) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.ip().is_unspecified() && address.is_ipv6() {
            socket.set_only_v6(false)?;
        }
        socket.bind(&address.into())?;
        Self::new(socket)
    }

    /// A client's socket for one server.
    ///
    /// # Errors
    /// When the system does not give it, or there is no way from `source` to `server`.
    pub fn connect(server: SocketAddr, source: &Source) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(server), Type::DGRAM, Some(Protocol::UDP))?;
        match source {
            Source::Any => {}
            Source::Address(address) => socket.bind(&SocketAddr::new(*address, 0).into())?,
            Source::Interface(name) => socket.bind_device(Some(name.as_bytes()))?,
        }
        // What comes from elsewhere is not for us, and a port that nobody listens at is told.
        socket.connect(&server.into())?;
        Self::new(socket)
    }

    fn new(socket: Socket) -> io::Result<Self> {
        // The system's limit holds, and what there is has to do.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER);
        let state = UdpSocketState::new((&socket).into())?;
        let buffers = vec![vec![0; DATAGRAM_MAX]; BATCH_SIZE];
        Ok(Self { socket: socket.into(), state, clock: Translator::new(), buffers })
    }

    /// The address that it has.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Waits until something can be read, at most until `until`; a signal ends it, too.
    ///
    /// # Errors
    /// When the system cannot wait.
    pub fn wait(&self, until: Instant) -> io::Result<()> {
        let ns = nanos(until.since(clock::now()));
        let timeout = Timespec {
            tv_sec: (ns / 1_000_000_000).cast_signed(),
            tv_nsec: (ns % 1_000_000_000).cast_signed(),
        };
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives what has come to `take`; whether there was anything.
    ///
    /// # Errors
    /// When nobody listens at the server's port (`ConnectionRefused`), or the system fails.
    pub fn receive(&mut self, mut take: impl FnMut(Datagram<'_>)) -> io::Result<bool> {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let mut slices: Vec<IoSliceMut<'_>> =
            self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let count = match self.state.recv((&self.socket).into(), &mut slices, &mut metas) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        };
        self.clock.look();
        let now = clock::now();
        for (buffer, meta) in self.buffers.iter().zip(&metas[..count]) {
            let stamp = self.clock.stamp(meta.timestamp, now);
            // An empty datagram is none.
            for bytes in buffer[..meta.len].chunks(meta.stride.max(1)) {
                take(Datagram { from: meta.addr, to: meta.dst_ip, bytes, stamp });
            }
        }
        Ok(count > 0)
    }

    /// Sends the datagrams in `bytes`, where they may in as few system calls as they need. What the
    /// system has no room for is lost, as on any link.
    ///
    /// # Errors
    /// When they are larger than the interface takes (`EMSGSIZE`), or there is
    /// no way.
    pub fn send(
        &self,
        to: SocketAddr,
        from: Option<IpAddr>,
        bytes: &[u8],
        shape: Shape,
    ) -> io::Result<()> {
        let whole = (SUPER_MAX / shape.segment).max(1);
        let mut rest = bytes;
        while !rest.is_empty() {
            let joined = if shape.together { self.state.max_gso_segments().min(whole) } else { 1 };
            let (contents, after) = rest.split_at(rest.len().min(joined * shape.segment));
            let segment_size = (contents.len() > shape.segment).then_some(shape.segment);
            let transmit =
                Transmit { destination: to, ecn: None, contents, segment_size, src_ip: from };
            match self.state.try_send((&self.socket).into(), &transmit) {
                Ok(()) => rest = after,
                // The state has noticed that super-packets do not go: one by one then.
                Err(_) if segment_size.is_some() && self.state.max_gso_segments() == 1 => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Whether packets were larger than an interface takes.
pub(super) fn is_too_big(error: &io::Error) -> bool {
    quinn_udp::is_msg_size_err(error)
}

/// The time of a wait without a deadline: signals are looked for as often.
pub(super) const IDLE: Duration = Duration::from_millis(200);
