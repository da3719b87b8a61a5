//! A subflow's TCP socket: where it is bound, and what the kernel tells about it.
//!
//! Everything here is an ordinary kernel TCP socket. Two options matter to a multipath sender:
//! `TCP_NOTSENT_LOWAT`, which keeps the unsent part of the socket buffer small so that little data
//! is committed to a path before it can leave, and `TCP_INFO`, which tells a scheduler how the
//! path is doing.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use weftline_core::Bitrate;
use weftline_core::addresses::STAGGER;
use weftline_core::path_manager::DIAL_TIMEOUT;

use crate::bind::Bind;
use crate::congestion::{self, Choice};
use crate::error::Error;
use crate::links::LinkState;
use crate::race::{race, was_tried};
use crate::sys;

/// Bounds of `TCP_NOTSENT_LOWAT` in bytes: below, every wake-up moves too little; above, data is
/// committed to a path too early.
const LOWAT_MIN: u32 = 16 << 10;
const LOWAT_MAX: u32 = 256 << 10;
/// The unsent data a socket may hold, as time at the path's rate: this, or a part of its round trip
/// where that is more. It is what a writer that wakes late has before the socket runs dry. Then the
/// kernel takes the path for limited by the application, and BBR, which sees no round trip without
/// that, overshoots at the rate of its startup for as long as it goes on.
const LOWAT_TIME: Duration = Duration::from_millis(5);
const LOWAT_ROUND_TRIPS: u32 = 16;
/// Connections the kernel completes before we accept them.
const BACKLOG: i32 = 1024;

impl Bind {
    /// Checks that this machine has the interface or address now.
    ///
    /// # Errors
    /// [`Error::UnknownInterface`] or [`Error::UnknownAddress`], listing what exists.
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Any => Ok(()),
            Self::Interface(name) => {
                let known = interfaces();
                if known.iter().any(|(n, _)| n == name)
                    || std::path::Path::new("/sys/class/net").join(name).exists()
                {
                    return Ok(());
                }
                Err(Error::UnknownInterface { name: name.clone(), known: interface_names(&known) })
            }
            // Binding is the true test: all of 127.0.0.0/8 is local though not listed.
            Self::Address(address) => std::net::TcpListener::bind((*address, 0))
                .map(drop)
                .map_err(|_| Error::UnknownAddress { address: *address, known: addresses() }),
        }
    }
}

/// How a subflow's socket is set up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SocketOptions {
    /// The kernel's congestion control (`TCP_CONGESTION`).
    pub(crate) congestion: Choice,
    /// How long one connection attempt may take.
    pub(crate) connect_timeout: Duration,
    /// `TCP_USER_TIMEOUT`: how long sent data may stay unacknowledged before the kernel gives the
    /// socket up.
    pub(crate) user_timeout: Duration,
    /// The mark of connecting sockets (`SO_MARK`).
    pub(crate) mark: Option<u32>,
}

impl Default for SocketOptions {
    fn default() -> Self {
        Self {
            congestion: Choice::Auto,
            connect_timeout: DIAL_TIMEOUT,
            user_timeout: Duration::from_secs(30),
            mark: None,
        }
    }
}

/// Connects to `server` from `bind`.
///
/// # Errors
/// When the interface or address is not there, the congestion control is unknown, or the server
/// does not answer within the timeout.
pub(crate) async fn connect(
    bind: &Bind,
    server: SocketAddr,
    options: &SocketOptions,
) -> Result<TcpStream, Error> {
    let unreachable =
        |source| Error::Unreachable { server, via: bind.clone(), source: by_link(bind, source) };
    let socket = new_socket(server).map_err(unreachable)?;
    if let Some(mark) = options.mark {
        // Without the right to it there is no firewall rule that it is for, or the attempt fails by that.
        let _ = socket.set_mark(mark);
    }
    bind_socket(&socket, bind, server)?;
    configure(SockRef::from(&socket), options)?;
    congestion::apply(&SockRef::from(&socket), &options.congestion, None)?;
    let socket = TcpSocket::from_std_stream(socket.into());
    match tokio::time::timeout(options.connect_timeout, socket.connect(server)).await {
        Ok(result) => result.map_err(unreachable),
        Err(_) => Err(unreachable(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {:?}", options.connect_timeout),
        ))),
    }
}

/// Why `bind` leads nowhere: its link, where that is the cause, and not what the kernel makes of it.
fn by_link(bind: &Bind, source: io::Error) -> io::Error {
    let cause = match bind.link() {
        LinkState::Up => return source,
        LinkState::Down => "the interface is down or has no carrier",
        LinkState::NoAddress => "the interface has no address",
    };
    io::Error::new(source.kind(), cause)
}

/// Connects from `bind` to the first of `servers` that answers.
///
/// # Errors
/// That of the first server, when all have failed.
pub(crate) async fn connect_any(
    bind: &Bind,
    servers: &[SocketAddr],
    options: &SocketOptions,
) -> Result<TcpStream, Error> {
    let dial = |server| {
        let (bind, options) = (bind.clone(), options.clone());
        async move { connect(&bind, server, &options).await }
    };
    let telling = |error: &Error| match error {
        Error::NoInterfaceAddress { .. } => false,
        error => was_tried(error.io_kind()),
    };
    let connected = race(servers.to_vec(), STAGGER, dial, telling);
    let none = || Err(Error::Invalid("no address to connect to".to_owned()));
    connected.await.unwrap_or_else(none)
}

/// A listener on `address`.
///
/// # Errors
/// [`Error::PortInUse`] and [`Error::Listen`], naming the address.
pub(crate) fn listen(address: SocketAddr) -> Result<TcpListener, Error> {
    listen_beside(address, &[])
}

/// As [`listen`], beside sockets on `others`: `[::]` leaves IPv4 to `0.0.0.0` or an address of it that
/// is among them with the same port.
///
/// # Errors
/// As for [`listen`].
pub(crate) fn listen_beside(
    address: SocketAddr,
    others: &[SocketAddr],
) -> Result<TcpListener, Error> {
    let is_shared = others.iter().any(|other| other.is_ipv4() && other.port() == address.port());
    let socket = bind_listener(address, is_shared && address.port() != 0)?;
    let listen = || {
        socket.listen(BACKLOG)?;
        TcpListener::from_std(socket.into())
    };
    listen().map_err(|source| not_listening(address, source))
}

/// A socket on `address` that does not listen yet; `only_v6` leaves IPv4 to others where it is `[::]`.
///
/// # Errors
/// As for [`listen`].
pub(crate) fn bind_listener(address: SocketAddr, only_v6: bool) -> Result<Socket, Error> {
    let bind = || {
        let socket = new_socket(address)?;
        socket.set_reuse_address(true)?;
        if address.is_ipv6() && (only_v6 || !address.ip().is_unspecified()) {
            socket.set_only_v6(true)?;
        }
        socket.bind(&address.into())?;
        Ok(socket)
    };
    bind().map_err(|source| not_listening(address, source))
}

fn not_listening(address: SocketAddr, source: io::Error) -> Error {
    match source.kind() {
        io::ErrorKind::AddrInUse => Error::PortInUse { address },
        io::ErrorKind::AddrNotAvailable => {
            Error::UnknownAddress { address: address.ip(), known: addresses() }
        }
        _ => Error::Listen { address, source },
    }
}

/// A listener that somebody else has made.
///
/// # Errors
/// When it cannot be waited for.
pub(crate) fn adopt(listener: std::net::TcpListener) -> Result<TcpListener, Error> {
    listener.set_nonblocking(true).map_err(Error::Socket)?;
    TcpListener::from_std(listener).map_err(Error::Socket)
}

/// Applies the options that hold for connecting and accepted sockets alike, but for the congestion
/// control.
pub(crate) fn configure(socket: SockRef<'_>, options: &SocketOptions) -> Result<(), Error> {
    let set = || {
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_notsent_lowat(LOWAT_MIN)?;
        socket.set_tcp_user_timeout(Some(options.user_timeout))
    };
    set().map_err(Error::Socket)
}

fn new_socket(peer: SocketAddr) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

fn bind_socket(socket: &Socket, bind: &Bind, server: SocketAddr) -> Result<(), Error> {
    match bind {
        Bind::Any => Ok(()),
        Bind::Address(address) => bind_address(socket, *address),
        Bind::Interface(name) => match socket.bind_device(Some(name.as_bytes())) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                bind_address(socket, interface_address(name, server)?)
            }
            Err(_) => {
                let known = interface_names(&interfaces());
                Err(Error::UnknownInterface { name: name.clone(), known })
            }
        },
    }
}

fn bind_address(socket: &Socket, address: IpAddr) -> Result<(), Error> {
    socket.bind(&SocketAddr::new(address, 0).into()).map_err(|error| match error.kind() {
        io::ErrorKind::AddrNotAvailable => Error::UnknownAddress { address, known: addresses() },
        _ => Error::Socket(error),
    })
}

/// The address of `interface` to reach `server` from: the same family, link-local last.
fn interface_address(interface: &str, server: SocketAddr) -> Result<IpAddr, Error> {
    let all = interfaces();
    let fitting = |wanted_link_local: bool| {
        all.iter().find_map(|(name, address)| {
            let link_local = match address {
                IpAddr::V4(a) => a.is_link_local(),
                IpAddr::V6(a) => a.is_unicast_link_local(),
            };
            let fits = name == interface
                && address.is_ipv4() == server.is_ipv4()
                && link_local == wanted_link_local;
            fits.then_some(*address)
        })
    };
    fitting(false).or_else(|| fitting(true)).ok_or_else(|| Error::NoInterfaceAddress {
        name: interface.to_owned(),
        family: if server.is_ipv4() { "IPv4" } else { "IPv6" },
    })
}

/// Every interface's name with each of its addresses.
fn interfaces() -> Vec<(String, IpAddr)> {
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    all.into_iter().map(|i| (i.name.clone(), i.ip())).collect()
}

fn interface_names(all: &[(String, IpAddr)]) -> String {
    let mut names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(" ")
}

fn addresses() -> String {
    let all: Vec<String> = interfaces().iter().map(|(_, a)| a.to_string()).collect();
    all.join(" ")
}

/// Whether the kernel would take more data now, that is whether less than half of
/// `TCP_NOTSENT_LOWAT` is unsent. A negative answer arms the socket's writable event.
///
/// Tokio remembers that a socket was writable until a write fails; asking the kernel instead lets
/// a subflow decide what to send only when it can leave.
pub(crate) fn is_writable(stream: &TcpStream) -> bool {
    let ask = || {
        let mut fds = [PollFd::new(stream, PollFlags::OUT)];
        rustix::event::poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        // Errors and hang-ups count as writable: the write then reports them.
        let idle = fds[0].revents().is_empty();
        if idle { Err(io::Error::from(io::ErrorKind::WouldBlock)) } else { Ok(()) }
    };
    stream.try_io(tokio::io::Interest::WRITABLE, ask).is_ok()
}

/// What the kernel knows of a subflow (`TCP_INFO`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TcpInfo {
    /// Congestion window, bytes.
    pub(crate) cwnd_bytes: u64,
    /// Maximum segment size, bytes.
    pub(crate) mss_bytes: u64,
    /// Sent and not yet acknowledged, bytes.
    pub(crate) unacked_bytes: u64,
    /// Of these, what is believed to be in the network: without what is known to have arrived or
    /// been lost, with what was sent again, bytes.
    pub(crate) in_flight_bytes: u64,
    /// In the socket buffer and not yet sent, bytes.
    pub(crate) unsent_bytes: u64,
    /// Smoothed round-trip time.
    pub(crate) srtt: Duration,
    /// Mean deviation of the round-trip time.
    pub(crate) rttvar: Duration,
    /// Least round-trip time seen; zero while unknown.
    pub(crate) min_rtt: Duration,
    /// The latest delivery rate (draft-cheng-iccrg-delivery-rate-estimation).
    pub(crate) delivery_rate: Bitrate,
    /// Acknowledged by the peer's kernel so far, bytes.
    pub(crate) acked_bytes: u64,
    /// Segments retransmitted so far.
    pub(crate) retransmitted_segments: u64,
    /// Segments sent so far, retransmissions included.
    pub(crate) segments_sent: u64,
    /// Consecutive retransmission timeouts without progress.
    pub(crate) timeouts: u8,
    /// Whether the sender is in slow start.
    pub(crate) slow_start: bool,
    /// Slow start threshold, bytes; `None` in the first slow start.
    pub(crate) ssthresh_bytes: Option<u64>,
    /// The rate at which the kernel paces, or would.
    pub(crate) pacing_rate: Bitrate,
    /// Whether the sender recovers from a retransmission timeout.
    pub(crate) timed_out: bool,
}

/// The kernel's slow start threshold while there is none (`TCP_INFINITE_SSTHRESH`), segments.
const INFINITE_SSTHRESH: u32 = 0x7fff_ffff;
/// `TCP_CA_Loss`, the state of recovery from a retransmission timeout.
const CA_LOSS: u8 = 4;

impl TcpInfo {
    /// Reads `TCP_INFO` of `stream`.
    ///
    /// # Errors
    /// When the socket is gone.
    pub(crate) fn of(stream: &TcpStream) -> io::Result<Self> {
        let raw = sys::tcp_info(stream.as_fd())?;
        let us = |us: u32| Duration::from_micros(u64::from(us));
        let mss = u64::from(raw.tcpi_snd_mss);
        let lost_or_sacked = raw.tcpi_sacked + raw.tcpi_lost;
        let in_flight =
            u64::from((raw.tcpi_unacked + raw.tcpi_retrans).saturating_sub(lost_or_sacked));
        Ok(Self {
            cwnd_bytes: u64::from(raw.tcpi_snd_cwnd) * mss,
            mss_bytes: mss,
            unacked_bytes: u64::from(raw.tcpi_unacked) * mss,
            in_flight_bytes: in_flight * mss,
            unsent_bytes: u64::from(raw.tcpi_notsent_bytes),
            srtt: us(raw.tcpi_rtt),
            rttvar: us(raw.tcpi_rttvar),
            // The kernel says ~0 while it has no sample.
            min_rtt: if raw.tcpi_min_rtt == u32::MAX {
                Duration::ZERO
            } else {
                us(raw.tcpi_min_rtt)
            },
            delivery_rate: Bitrate::bps(raw.tcpi_delivery_rate.saturating_mul(8)),
            acked_bytes: raw.tcpi_bytes_acked,
            retransmitted_segments: u64::from(raw.tcpi_total_retrans),
            segments_sent: u64::from(raw.tcpi_segs_out),
            timeouts: raw.tcpi_backoff,
            slow_start: raw.tcpi_snd_cwnd < raw.tcpi_snd_ssthresh,
            ssthresh_bytes: (raw.tcpi_snd_ssthresh < INFINITE_SSTHRESH)
                .then(|| u64::from(raw.tcpi_snd_ssthresh) * mss),
            // The kernel says ~0 while it does not limit the rate.
            pacing_rate: match raw.tcpi_pacing_rate {
                u64::MAX => Bitrate::ZERO,
                bytes => Bitrate::bps(bytes.saturating_mul(8)),
            },
            timed_out: raw.tcpi_ca_state == CA_LOSS,
        })
    }
}

/// Keeps a socket's `TCP_NOTSENT_LOWAT` at what leaves it in 5 ms or a sixteenth of the round trip.
#[derive(Debug)]
pub(crate) struct LowWater {
    set_bytes: u32,
}

impl LowWater {
    /// For a socket that [`configure`] has set up.
    pub(crate) fn new() -> Self {
        Self { set_bytes: LOWAT_MIN }
    }

    /// The most that may be unsent now, bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.set_bytes)
    }

    /// Follows the path's rate; a system call only when it changed by a quarter.
    pub(crate) fn update(&mut self, stream: &TcpStream, info: &TcpInfo) {
        let rate = info.delivery_rate.max(info.pacing_rate);
        let time = LOWAT_TIME.max(info.min_rtt / LOWAT_ROUND_TRIPS);
        let wanted = rate.bytes_in(time).as_u64();
        let wanted = u32::try_from(wanted).unwrap_or(LOWAT_MAX).clamp(LOWAT_MIN, LOWAT_MAX);
        if wanted.abs_diff(self.set_bytes) * 4 >= self.set_bytes
            && SockRef::from(stream).set_tcp_notsent_lowat(wanted).is_ok()
        {
            self.set_bytes = wanted;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_address_is_tried_when_one_is_dead() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let alive = listener.local_addr().unwrap();
        let refusing = "127.0.0.1:1".parse().unwrap();
        let patience = Duration::from_secs(400);
        let options = SocketOptions { connect_timeout: patience, ..SocketOptions::default() };
        let stream = connect_any(&Bind::Any, &[refusing, alive], &options).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), alive);
        // A listener whose queue is full lets connections wait, as a path without an end does.
        let full = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        full.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
        full.listen(0).unwrap();
        let silent = full.local_addr().unwrap().as_socket().unwrap();
        let _in_queue = std::net::TcpStream::connect(silent).unwrap();
        let stream = connect_any(&Bind::Any, &[silent, alive], &options).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), alive);
    }

    #[tokio::test]
    async fn the_error_is_that_of_the_first_address() {
        let servers = ["127.0.0.1:1".parse().unwrap(), "127.0.0.1:2".parse().unwrap()];
        let error = connect_any(&Bind::Any, &servers, &SocketOptions::default()).await;
        let Err(Error::Unreachable { server, .. }) = error else { panic!("{error:?}") };
        assert_eq!(server, servers[0]);
    }
}
