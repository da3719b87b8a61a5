//! The connections the lab's application runs over: one type, whatever carries the bytes.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use weftline::{
    Bind, Client, ClientBuilder, ClientSecurity, ClientTls, Identity, PathConfig, Server,
    ServerSecurity, ServerTls, Trust,
};
use weftline_core::PathId;
use weftline_core::session::PathStats;

use super::protocol::Transport;
use crate::observe::{Delivered, SeenSocket};
use crate::sys::socket::{self, TcpInfo};

/// Connections that may wait to be accepted; the lab opens one at a time.
const BACKLOG: i32 = 16;

/// An established connection.
#[derive(Debug)]
pub(crate) enum Connection {
    /// The kernel's TCP.
    Tcp(TcpStream),
    /// The kernel's MPTCP.
    Mptcp(TcpStream),
    /// Weftline's transport, and the server's address on each path, by the path's name.
    Weft(weftline::Connection, Vec<(String, SocketAddr)>),
}

/// Opens connections as the client.
pub(crate) async fn connect(transport: &Transport, congestion: &str) -> io::Result<Connection> {
    match transport {
        Transport::Tcp { server } => {
            Ok(Connection::Tcp(connect_kernel(*server, Protocol::TCP, congestion).await?))
        }
        Transport::Mptcp { server } => {
            Ok(Connection::Mptcp(connect_kernel(*server, Protocol::MPTCP, congestion).await?))
        }
        Transport::Weft { paths, scheduler, without, tls, fingerprint } => {
            let trusted = fingerprint.as_deref().filter(|_| *tls);
            let client = weft_client(paths, scheduler, trusted, congestion)?;
            let client = client.without(without.parse().map_err(io::Error::other)?);
            let client = client.build().map_err(io::Error::other)?;
            // As a program that asks for something: its first words need not wait.
            let connection = client.open().await.map_err(io::Error::other)?;
            Ok(Connection::Weft(connection, paths.clone()))
        }
    }
}

/// A client of weftline's transport; with TLS if there is a fingerprint to trust.
fn weft_client(
    paths: &[(String, SocketAddr)],
    scheduler: &str,
    fingerprint: Option<&str>,
    congestion: &str,
) -> io::Result<ClientBuilder> {
    let security = match fingerprint {
        None => ClientSecurity::InsecurePlaintext,
        Some(text) => {
            let pinned = Trust::Pinned(text.parse().map_err(io::Error::other)?);
            ClientSecurity::Tls(ClientTls::new(&pinned, None).map_err(io::Error::other)?)
        }
    };
    let mut builder = Client::builder().security(security);
    builder = builder.scheduler(scheduler).congestion(congestion);
    for (name, server) in paths {
        let bind = Bind::Interface(name.clone());
        builder = builder.server(*server).path(PathConfig::new(name, bind));
    }
    Ok(builder)
}

async fn connect_kernel(
    server: SocketAddr,
    protocol: Protocol,
    congestion: &str,
) -> io::Result<TcpStream> {
    let socket = kernel_socket(server, protocol, congestion)?;
    let stream = TcpSocket::from_std_stream(socket.into()).connect(server).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Accepts connections as the server.
#[derive(Debug)]
pub(crate) enum Listener {
    /// The kernel's TCP.
    Tcp(TcpListener),
    /// The kernel's MPTCP.
    Mptcp(TcpListener),
    /// Weftline's transport.
    Weft(WeftListener),
}

/// A server of weftline's transport.
pub(crate) struct WeftListener {
    server: Server,
    paths: Vec<(String, SocketAddr)>,
    fingerprint: Option<String>,
}

impl std::fmt::Debug for WeftListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WeftListener").field("paths", &self.paths).finish_non_exhaustive()
    }
}

impl Listener {
    /// Listens as `transport` says.
    pub(crate) fn bind(transport: &Transport, congestion: &str) -> io::Result<Self> {
        match transport {
            Transport::Tcp { server } => {
                Ok(Self::Tcp(listen_kernel(*server, Protocol::TCP, congestion)?))
            }
            Transport::Mptcp { server } => {
                Ok(Self::Mptcp(listen_kernel(*server, Protocol::MPTCP, congestion)?))
            }
            Transport::Weft { paths, tls, .. } => weft_listener(paths, *tls).map(Self::Weft),
        }
    }

    /// What a client with TLS pins.
    pub(crate) fn fingerprint(&self) -> Option<String> {
        match self {
            Self::Weft(listener) => listener.fingerprint.clone(),
            Self::Tcp(_) | Self::Mptcp(_) => None,
        }
    }

    /// The next connection.
    pub(crate) async fn accept(&mut self) -> io::Result<Connection> {
        match self {
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Connection::Tcp(stream))
            }
            Self::Mptcp(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Connection::Mptcp(stream))
            }
            Self::Weft(listener) => {
                let connection = listener.server.accept().await;
                Ok(Connection::Weft(connection, listener.paths.clone()))
            }
        }
    }
}

/// Listens on every path, with a certificate of its own for TLS.
fn weft_listener(paths: &[(String, SocketAddr)], tls: bool) -> io::Result<WeftListener> {
    let (security, fingerprint) = if tls {
        // The identity is for this run alone: its files go as soon as it is read.
        let dir = tempfile::tempdir()?;
        let identity = Identity::from_state_dir(dir.path()).map_err(io::Error::other)?;
        let tls = ServerTls::new(&identity, None).map_err(io::Error::other)?;
        let fingerprint = tls.fingerprint().to_string();
        (ServerSecurity::Tls(tls), Some(fingerprint))
    } else {
        (ServerSecurity::InsecurePlaintext, None)
    };
    let addresses: Vec<_> = paths.iter().map(|(_, address)| *address).collect();
    let server = Server::builder().security(security).bind(&addresses).map_err(io::Error::other)?;
    Ok(WeftListener { server, paths: paths.to_vec(), fingerprint })
}

fn listen_kernel(
    server: SocketAddr,
    protocol: Protocol,
    congestion: &str,
) -> io::Result<TcpListener> {
    let socket = kernel_socket(server, protocol, congestion)?;
    socket.set_reuse_address(true)?;
    // Any address: with MPTCP the client joins at the server's other addresses.
    let any = match server {
        SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], server.port())),
        SocketAddr::V6(_) => SocketAddr::from(([0; 16], server.port())),
    };
    socket.bind(&any.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// A socket with its congestion control set; what is accepted or joined inherits it.
fn kernel_socket(peer: SocketAddr, protocol: Protocol, congestion: &str) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(peer), Type::STREAM, Some(protocol))?;
    socket.set_tcp_congestion(congestion.as_bytes())?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// What one end knows of a connection at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionInfo {
    /// Each TCP socket or subflow there is.
    pub(crate) sockets: Vec<SocketInfo>,
    /// Bytes sent a second time above the subflows, where the kernel does that.
    pub(crate) duplicates_sent: Option<u64>,
    /// Bytes received that had been received before, above the subflows.
    pub(crate) duplicates_received: Option<u64>,
    /// Bytes that our session sent again though another path was still delivering them.
    pub(crate) copied: Option<u64>,
    /// Stream bytes that our session knows to have arrived in order.
    pub(crate) acknowledged: Option<u64>,
}

/// One TCP socket or subflow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketInfo {
    /// The server's address on its path.
    pub(crate) local: IpAddr,
    /// Tells apart those of one path.
    pub(crate) id: u64,
    /// Segments sent again, ever.
    pub(crate) retransmitted: u64,
    /// Smoothed round-trip time; zero before the first.
    pub(crate) rtt: Duration,
    /// Congestion window in segments, where it is known.
    pub(crate) cwnd: Option<u32>,
    /// Bytes of it that have arrived; of a session's, those of all sockets that its path has had.
    pub(crate) delivered: Delivered,
    /// What else is shown of it to whoever watches.
    pub(crate) seen: SeenSocket,
}

impl SocketInfo {
    fn new(local: IpAddr, id: u64, info: TcpInfo) -> Self {
        let TcpInfo { retransmitted, rtt, cwnd, mss, unacknowledged, acknowledged, min_rtt } = info;
        let bytes = |segments: u32| u64::from(segments) * u64::from(mss);
        let (window, outstanding) = (bytes(cwnd), bytes(unacknowledged));
        let seen = SeenSocket { silent: false, srtt: rtt, min_rtt, cwnd: window, outstanding };
        Self {
            local,
            id,
            retransmitted,
            rtt,
            cwnd: Some(cwnd),
            delivered: Delivered::On(acknowledged),
            seen,
        }
    }
}

impl Connection {
    /// The connection's counters.
    pub(crate) fn info(&self) -> io::Result<ConnectionInfo> {
        match self {
            Self::Tcp(stream) => tcp(stream),
            Self::Mptcp(stream) => {
                // After a fallback to plain TCP the MPTCP options answer with an error.
                let Ok(info) = socket::mptcp_info(stream.as_fd()) else { return tcp(stream) };
                let subflows = socket::mptcp_subflows(stream.as_fd())?.into_iter();
                let socket = |(local, remote, info): (SocketAddr, SocketAddr, TcpInfo)| {
                    SocketInfo::new(local.ip(), remote.port().into(), info)
                };
                Ok(ConnectionInfo {
                    sockets: subflows.map(socket).collect(),
                    duplicates_sent: Some(info.bytes_retransmitted),
                    ..ConnectionInfo::default()
                })
            }
            Self::Weft(connection, paths) => Ok(weft(&connection.stats(), paths)),
        }
    }
}

fn tcp(stream: &TcpStream) -> io::Result<ConnectionInfo> {
    let info = socket::tcp_info(stream.as_fd())?;
    let local = stream.local_addr()?.ip().to_canonical();
    let sockets = vec![SocketInfo::new(local, 0, info)];
    Ok(ConnectionInfo { sockets, ..ConnectionInfo::default() })
}

fn weft(stats: &weftline::ConnectionStats, paths: &[(String, SocketAddr)]) -> ConnectionInfo {
    let server_on = |name: &str| Some(paths.iter().find(|(path, _)| path == name)?.1.ip());
    let socket = |(id, path): (&PathId, &PathStats)| {
        let subflow = path.subflow.as_ref()?;
        Some(SocketInfo {
            local: server_on(stats.names.get(id)?)?,
            id: subflow.id.0,
            retransmitted: subflow.info.retransmitted,
            rtt: subflow.info.srtt,
            cwnd: None,
            delivered: Delivered::OnPath(path.delivered),
            seen: SeenSocket {
                silent: subflow.stalled,
                srtt: subflow.info.srtt,
                min_rtt: subflow.info.min_rtt,
                cwnd: subflow.info.cwnd.as_u64(),
                outstanding: subflow.outstanding,
            },
        })
    };
    ConnectionInfo {
        sockets: stats.session.paths.iter().filter_map(socket).collect(),
        duplicates_sent: None,
        duplicates_received: Some(stats.session.duplicates),
        copied: Some(stats.session.paths.values().map(|path| path.copied).sum()),
        acknowledged: Some(stats.session.acknowledged),
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) | Self::Mptcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Weft(connection, _) => Pin::new(connection).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) | Self::Mptcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Weft(connection, _) => Pin::new(connection).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) | Self::Mptcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Weft(connection, _) => Pin::new(connection).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) | Self::Mptcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Weft(connection, _) => Pin::new(connection).poll_shutdown(context),
        }
    }
}
