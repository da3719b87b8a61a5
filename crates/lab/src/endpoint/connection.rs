//! The connections the lab's application runs over: one type, whatever carries the bytes.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd as _;
use std::pin::Pin;
use std::task::{Context, Poll};

use socket2::{Domain, Protocol, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::protocol::Transport;
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
    }
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
        }
    }
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

/// What the sender's side knows of a connection at one moment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionInfo {
    /// Each TCP socket or subflow, by its local address.
    pub(crate) sockets: Vec<(IpAddr, TcpInfo)>,
    /// Bytes sent a second time above the subflows, where that can be.
    pub(crate) duplicate_bytes: Option<u64>,
}

impl Connection {
    /// The connection's counters.
    pub(crate) fn info(&self) -> io::Result<ConnectionInfo> {
        match self {
            Self::Tcp(stream) => tcp(stream),
            Self::Mptcp(stream) => {
                // After a fallback to plain TCP the MPTCP options answer with an error.
                let Ok(info) = socket::mptcp_info(stream.as_fd()) else { return tcp(stream) };
                let subflows = socket::mptcp_subflows(stream.as_fd())?;
                Ok(ConnectionInfo {
                    sockets: subflows.into_iter().map(|(at, info)| (at.ip(), info)).collect(),
                    duplicate_bytes: Some(info.bytes_retransmitted),
                })
            }
        }
    }
}

fn tcp(stream: &TcpStream) -> io::Result<ConnectionInfo> {
    let info = socket::tcp_info(stream.as_fd())?;
    Ok(ConnectionInfo {
        sockets: vec![(stream.local_addr()?.ip().to_canonical(), info)],
        duplicate_bytes: None,
    })
}

impl AsyncRead for Connection {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) | Self::Mptcp(stream) => Pin::new(stream).poll_read(context, buffer),
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
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) | Self::Mptcp(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) | Self::Mptcp(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
