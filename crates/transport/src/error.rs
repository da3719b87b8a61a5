//! What can go wrong between two ends, each with its remedy in the message.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use weftline_core::ByteCount;
use weftline_core::life::Cause;
use weftline_core::session::SessionError;

use crate::bind::Bind;
use crate::fingerprint::Fingerprint;

const fn no_path(after: Duration, delivered: u64, received: u64) -> Cause {
    Cause::NoPath { after, delivered, received }
}

const fn peer_lost(after: Duration, delivered: u64, received: u64) -> Cause {
    Cause::PeerLost { after, delivered, received }
}

/// A failure of a subflow, a connection, a client or a server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection carries messages and was used as a byte stream.
    #[error("the connection carries messages, not a byte stream: use Connection::into_messages")]
    CarriesMessages,
    /// The certificate or key file cannot be used.
    #[error("cannot use the certificate or key {}: {reason}", path.display())]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// By the clock of this machine, the peer's certificate is not valid yet, or no longer.
    #[error(
        "{peer} has a certificate that {} by the clock of this machine: set the clock, or renew the \
         certificate",
        if *is_early { "is not valid yet" } else { "has expired" }
    )]
    CertificateDates {
        /// The other end.
        peer: SocketAddr,
        /// Whether its validity begins later, rather than being over.
        is_early: bool,
    },
    /// The peer closed the subflow in the middle of the handshake.
    #[error("{peer} closed the connection during the handshake")]
    ClosedInHandshake {
        /// The other end.
        peer: SocketAddr,
    },
    /// This process may not use the congestion control.
    #[error(
        "the congestion control '{name}' is restricted; run as root or add it to \
         net.ipv4.tcp_allowed_congestion_control"
    )]
    CongestionNotPermitted {
        /// Its name.
        name: String,
    },
    /// The handshake had to make room for others (server).
    #[error("{peer} was slow in the handshake, others wait: given up")]
    GivenUp {
        /// The other end.
        peer: SocketAddr,
    },
    /// The peer did not finish the handshake in time.
    #[error("{peer} did not finish the handshake within {after:?}")]
    HandshakeTimeout {
        /// The other end.
        peer: SocketAddr,
        /// The limit.
        after: Duration,
    },
    /// A setting that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// Listening failed.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// All the memory that connections may use is promised to others.
    #[error(
        "the memory for connections is used up ({total} in all); try again later, close some, or \
         allow more"
    )]
    MemoryUsedUp {
        /// What they may use together.
        total: ByteCount,
    },
    /// The interface has no address to reach the server from.
    #[error("interface '{name}' has no {family} address and binding to it needs CAP_NET_RAW")]
    NoInterfaceAddress {
        /// Its name.
        name: String,
        /// IPv4 or IPv6.
        family: &'static str,
    },
    /// The server takes joins where the path cannot reach it.
    #[error(
        "the server takes joins at {known} only, which {via} cannot reach: have it announce an \
         address of that family, too, or give the path another address"
    )]
    NoJoinAddress {
        /// Where the path leaves.
        via: Bind,
        /// What the server has announced.
        known: String,
    },
    /// The server does not take connections to wherever a machine's programs want.
    #[error("the server does not carry whole machines: {reason}")]
    NoInternet {
        /// What it says.
        reason: String,
    },
    /// The server does not know connections of messages.
    #[error("{peer} speaks an older protocol without messages: update it, or use a byte stream")]
    NoMessages {
        /// The server.
        peer: SocketAddr,
    },
    /// No subflow lived for too long.
    #[error("{}", no_path(*after, *delivered, *received))]
    NoPath {
        /// How long the connection waited for one.
        after: Duration,
        /// Bytes of this side's stream that the peer has acknowledged in order (FBDT, footnote 3).
        delivered: u64,
        /// Bytes of the peer's stream received in order.
        received: u64,
    },
    /// The peer does not answer any more, though its machine or something on the way takes what is
    /// sent.
    #[error("{}", peer_lost(*after, *delivered, *received))]
    PeerLost {
        /// How long nothing came from it, though it was asked.
        after: Duration,
        /// Bytes of this side's stream that the peer has acknowledged in order.
        delivered: u64,
        /// Bytes of the peer's stream received in order.
        received: u64,
    },
    /// A client without any way to know the server.
    #[error(
        "nothing to verify the server by: give the fingerprint it prints at start or a certificate \
         authority"
    )]
    NoTrust,
    /// The server speaks no TLS.
    #[error(
        "{peer} does not speak TLS: check that a weftline server listens there; one in plaintext \
         needs plaintext here too"
    )]
    PeerNotTls {
        /// The server.
        peer: SocketAddr,
    },
    /// A second server has answered the hello of a connection that is with another one.
    #[error(
        "{peer} has opened a second connection: another server answered this hello before; where \
         several servers stand behind one address, connect anew"
    )]
    OtherServer {
        /// The second server.
        peer: SocketAddr,
    },
    /// A plaintext client came to a server that wants TLS.
    #[error("{peer} came in plaintext, and this server wants TLS; use the same at both ends")]
    PlaintextClient {
        /// The client.
        peer: SocketAddr,
    },
    /// The address is taken.
    #[error("{address} is in use by another program; choose another port or stop that program")]
    PortInUse {
        /// The address.
        address: SocketAddr,
    },
    /// The peer speaks TLS for something else.
    #[error("{peer} speaks another protocol over TLS (no ALPN 'weftline'); check address and port")]
    OtherProtocol {
        /// The other end.
        peer: SocketAddr,
    },
    /// The peer broke the protocol.
    #[error("{peer}: {source}{}", remedy(source))]
    Protocol {
        /// The other end.
        peer: SocketAddr,
        /// What it did.
        source: SessionError,
    },
    /// The server refused a hello or a join.
    #[error("{peer} refuses: {reason}")]
    Refused {
        /// The server.
        peer: SocketAddr,
        /// Why, as a number; see [`crate::refusal`].
        code: u64,
        /// Why, in words.
        reason: String,
    },
    /// This server refused a client.
    #[error("refused {peer}: {reason}")]
    RefusedPeer {
        /// The client.
        peer: SocketAddr,
        /// Why, as a number; see [`crate::refusal`].
        code: u64,
        /// Why, as the client was told.
        reason: String,
    },
    /// The connection was reset.
    #[error("the connection was reset: {reason} (code {code})")]
    Reset {
        /// The application's or protocol's code.
        code: u64,
        /// Why, in words.
        reason: String,
    },
    /// The name cannot be resolved.
    #[error(
        "cannot resolve the server name '{name}': {reason}; check the spelling and the resolver, \
         'getent hosts {name}'"
    )]
    Resolve {
        /// As given.
        name: String,
        /// The resolver's reason.
        reason: String,
    },
    /// A socket operation failed.
    #[error("socket: {0}")]
    Socket(#[source] io::Error),
    /// The directory for the server's identity cannot be used.
    #[error("cannot keep the server's certificate in {}: {reason}; name another directory", path.display())]
    StateDir {
        /// The directory or the file in it.
        path: PathBuf,
        /// The system's reason.
        reason: String,
    },
    /// TLS failed.
    #[error("TLS with {peer}: {reason}")]
    Tls {
        /// The other end.
        peer: SocketAddr,
        /// Why.
        reason: String,
    },
    /// A TLS client came to a plaintext server.
    #[error("{peer} came with TLS, and this server speaks plaintext; use the same at both ends")]
    TlsClient {
        /// The client.
        peer: SocketAddr,
    },
    /// No such address on this machine.
    #[error("no local address {address} (there are: {known})")]
    UnknownAddress {
        /// The address.
        address: IpAddr,
        /// Those of this machine.
        known: String,
    },
    /// The kernel has no such congestion control.
    #[error("unknown congestion control '{name}' (this kernel has: {known})")]
    UnknownCongestion {
        /// Its name.
        name: String,
        /// Those the kernel offers.
        known: String,
    },
    /// No such interface.
    #[error("unknown interface '{name}' (there are: {known})")]
    UnknownInterface {
        /// Its name.
        name: String,
        /// Those of this machine.
        known: String,
    },
    /// No such scheduler.
    #[error("unknown scheduler '{name}' (known: {known})")]
    UnknownScheduler {
        /// Its name.
        name: String,
        /// Those there are.
        known: String,
    },
    /// The server does not answer.
    #[error("cannot reach the server {server} via {via}: {source}")]
    Unreachable {
        /// Its address.
        server: SocketAddr,
        /// The path.
        via: Bind,
        /// The system's reason.
        source: io::Error,
    },
    /// The server requires TLS.
    #[error("{peer} wants TLS, and this end came in plaintext")]
    WantsTls {
        /// The server.
        peer: SocketAddr,
    },
    /// The server's certificate is not the pinned one.
    #[error(
        "{peer} has the fingerprint {found}, not {expected}: another server, or its state \
         directory was lost; compare with what the server prints at start"
    )]
    WrongFingerprint {
        /// The server.
        peer: SocketAddr,
        /// The pinned fingerprint.
        expected: Fingerprint,
        /// The certificate's.
        found: Fingerprint,
    },
}

/// What may be done about a peer that broke the protocol, behind what it did.
fn remedy(error: &SessionError) -> String {
    error.remedy().map(|remedy| format!("; {remedy}")).unwrap_or_default()
}

impl Error {
    /// The kind of I/O error that comes closest.
    pub(crate) fn io_kind(&self) -> io::ErrorKind {
        match self {
            Self::CarriesMessages => io::ErrorKind::Unsupported,
            Self::NoPath { .. } | Self::PeerLost { .. } => io::ErrorKind::TimedOut,
            Self::Protocol { .. } => io::ErrorKind::InvalidData,
            Self::Refused { .. } => io::ErrorKind::ConnectionRefused,
            Self::Reset { .. } => io::ErrorKind::ConnectionReset,
            Self::Unreachable { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        }
    }

    /// Whether trying again cannot help: the two ends do not fit together as they are set up.
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::ClosedInHandshake { .. }
            | Self::GivenUp { .. }
            | Self::HandshakeTimeout { .. }
            | Self::MemoryUsedUp { .. }
            | Self::NoInterfaceAddress { .. }
            | Self::NoPath { .. }
            | Self::OtherServer { .. }
            | Self::PeerLost { .. }
            | Self::Reset { .. }
            | Self::Resolve { .. }
            | Self::Socket(_)
            | Self::UnknownAddress { .. }
            | Self::UnknownInterface { .. }
            | Self::Unreachable { .. } => false,
            Self::Refused { code, .. } => *code != crate::refusal::BUSY,
            _ => true,
        }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        Self::new(error.io_kind(), error)
    }
}
