//! A subflow's byte channel during the handshake: TCP, with or without TLS around it.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustls::pki_types::ServerName;
use socket2::SockRef;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use weftline_core::wire::{INITIAL_CREDIT, Preamble, Preface, Record, Refusal, WireError};

use crate::congestion::{self, Choice, CongestionInUse};
use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::refusal;
use crate::tls::{self, ClientSecurity, ServerSecurity};

/// The first byte of a TLS connection: a handshake record (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 0x16;
/// The first byte a TLS peer answers to something that is no TLS: an alert record.
const TLS_ALERT: u8 = 0x15;
/// How long, and for how many bytes, a refused peer is listened to after the refusal, so that
/// what it still sends does not destroy the refusal on its way (a TCP reset would): a client that
/// keeps to its credit, and what goes with that.
const LINGER_TIME: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = INITIAL_CREDIT as usize + (64 << 10);

/// A TCP connection to `peer` on which the handshake is under way.
pub(crate) struct Channel {
    stream: Stream,
    peer: SocketAddr,
    preface: Preface,
    congestion: Option<CongestionInUse>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// What is left of a channel when its subflow begins: the socket, the state of TLS, what the peer
/// has sent beyond its handshake, and what of the handshake is still to be said and heard.
pub(crate) struct Parts {
    pub(crate) stream: TcpStream,
    pub(crate) tls: Option<rustls::Connection>,
    pub(crate) input: BytesMut,
    pub(crate) peer: SocketAddr,
    /// What the socket runs.
    pub(crate) congestion: CongestionInUse,
    /// What goes out before anything else.
    pub(crate) first: Bytes,
}

impl Channel {
    fn new(stream: Stream, peer: SocketAddr) -> Self {
        Self { stream, peer, preface: Preface::default(), congestion: None }
    }

    /// The client's side; `name` is what the server's certificate must be issued to.
    ///
    /// # Errors
    /// When the TLS handshake fails; the error names why.
    pub(crate) async fn connect(
        stream: TcpStream,
        security: &ClientSecurity,
        name: &ServerName<'static>,
    ) -> Result<Self, Error> {
        let peer = stream.peer_addr().map_err(Error::Socket)?;
        let stream = match security {
            ClientSecurity::InsecurePlaintext => Stream::Plain(stream),
            ClientSecurity::Tls(client) => {
                let connector = TlsConnector::from(client.config());
                let connected = connector.connect(name.clone(), stream).await;
                let tls = connected.map_err(|error| tls::handshake_error(peer, &error))?;
                check_protocol(peer, tls.get_ref().1.alpn_protocol())?;
                Stream::Tls(Box::new(tls.into()))
            }
        };
        Ok(Self::new(stream, peer))
    }

    /// The server's side.
    ///
    /// # Errors
    /// When the client speaks something else (it is told so if it can understand), or the TLS
    /// handshake fails.
    pub(crate) async fn accept(
        stream: TcpStream,
        security: &ServerSecurity,
    ) -> Result<Self, Error> {
        let peer = stream.peer_addr().map_err(Error::Socket)?;
        // People know an IPv4 client of a socket for both families by its IPv4 address.
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let mut first = [0];
        if stream.peek(&mut first).await.map_err(Error::Socket)? == 0 {
            return Err(Error::ClosedInHandshake { peer });
        }
        let ours = Preamble::OURS.encode()[0];
        match (security, first[0]) {
            (ServerSecurity::Tls(server), TLS_HANDSHAKE) => {
                let accepted = TlsAcceptor::from(server.config()).accept(stream).await;
                let tls = accepted.map_err(|error| tls::handshake_error(peer, &error))?;
                check_protocol(peer, tls.get_ref().1.alpn_protocol())?;
                let stream = Stream::Tls(Box::new(tls.into()));
                Ok(Self::new(stream, peer))
            }
            (ServerSecurity::Tls(_), first) if first == ours => {
                let channel = Self::new(Stream::Plain(stream), peer);
                let reason = "this server wants TLS, and the client came in plaintext";
                channel.refuse(refusal::TLS_WANTED, reason).await;
                Err(Error::PlaintextClient { peer })
            }
            (ServerSecurity::InsecurePlaintext, TLS_HANDSHAKE) => {
                // A TLS client understands nothing of ours: any answer tells it that this is no
                // TLS.
                let channel = Self::new(Stream::Plain(stream), peer);
                channel.refuse(refusal::PROTOCOL, "this server speaks plaintext").await;
                Err(Error::TlsClient { peer })
            }
            // Without TLS there is nothing to verify, and what no TLS begins with is named by the
            // preamble's decoder.
            _ => Ok(Self::new(Stream::Plain(stream), peer)),
        }
    }

    /// The other end.
    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// The fingerprint of the peer's certificate, if it has shown one.
    pub(crate) fn peer_certificate(&self) -> Option<Fingerprint> {
        let Stream::Tls(tls) = &self.stream else { return None };
        Some(Fingerprint::of(tls.get_ref().1.peer_certificates()?.first()?))
    }

    /// The socket, to set its options.
    pub(crate) fn socket(&self) -> &TcpStream {
        match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Gives the socket the congestion control that was chosen, see [`congestion::apply`].
    ///
    /// # Errors
    /// When a control was named and cannot be set.
    pub(crate) fn set_congestion(
        &mut self,
        choice: &Choice,
        allowed: Option<&[String]>,
    ) -> Result<(), Error> {
        let socket = SockRef::from(self.socket());
        self.congestion = Some(congestion::apply(&socket, choice, allowed)?);
        Ok(())
    }

    /// Keying material that only the two ends of this TLS channel know (RFC 9266's exporter under
    /// our own label); zeros without TLS, where no channel can be told from another.
    pub(crate) fn keying_material(&self, label: &str) -> Result<[u8; 32], Error> {
        let material = [0; 32];
        let exported = match &self.stream {
            Stream::Plain(_) => return Ok(material),
            Stream::Tls(tls) => match tls.as_ref() {
                TlsStream::Client(stream) => {
                    stream.get_ref().1.export_keying_material(material, label.as_bytes(), None)
                }
                TlsStream::Server(stream) => {
                    stream.get_ref().1.export_keying_material(material, label.as_bytes(), None)
                }
            },
        };
        exported.map_err(|error| Error::Tls { peer: self.peer, reason: error.to_string() })
    }

    /// Sends this side's preamble and `record`.
    pub(crate) async fn send(&mut self, record: &Record) -> Result<(), Error> {
        self.write(opening(record)).await.map_err(Error::Socket)
    }

    async fn write(&mut self, bytes: Bytes) -> io::Result<()> {
        match &mut self.stream {
            Stream::Plain(stream) => stream.write_all(&bytes).await,
            Stream::Tls(stream) => {
                stream.write_all(&bytes).await?;
                stream.flush().await
            }
        }
    }

    /// Reads the peer's preamble and its first record.
    ///
    /// # Errors
    /// When the peer closes, speaks another protocol or version, or sends a broken record.
    pub(crate) async fn receive(&mut self) -> Result<Record, Error> {
        loop {
            let is_plain = matches!(self.stream, Stream::Plain(_));
            if let Some(record) = poll_preface(&mut self.preface, self.peer, is_plain)? {
                return Ok(record);
            }
            self.read_some().await?;
        }
    }

    async fn read_some(&mut self) -> Result<(), Error> {
        let mut chunk = [0; 1024];
        let read = match &mut self.stream {
            Stream::Plain(stream) => stream.read(&mut chunk).await,
            Stream::Tls(stream) => stream.read(&mut chunk).await,
        };
        match read {
            Ok(0) => Err(Error::ClosedInHandshake { peer: self.peer }),
            Ok(n) => {
                self.preface.take(&chunk[..n]);
                Ok(())
            }
            // Such as an alert for a missing client certificate, which comes after the handshake.
            Err(error) => Err(tls::handshake_error(self.peer, &error)),
        }
    }

    /// Tells the peer why it is turned away, and closes. Best effort: a peer that is gone need
    /// not know.
    pub(crate) async fn refuse(mut self, code: u64, reason: &str) {
        let refusal = Record::Refusal(Refusal { code, reason: reason.to_owned() });
        if self.send(&refusal).await.is_err() {
            return;
        }
        let drain = async {
            match &mut self.stream {
                Stream::Plain(stream) => drain(stream).await,
                Stream::Tls(stream) => drain(stream.as_mut()).await,
            }
        };
        let _ = tokio::time::timeout(LINGER_TIME, drain).await;
    }

    /// The end of the handshake, but for `first`, this side's part of it: the subflow says it
    /// ahead of its data, so that they need not wait for a round trip, nor for a packet of their
    /// own.
    pub(crate) fn into_parts(self, first: Option<&Record>) -> Parts {
        let (stream, tls) = match self.stream {
            Stream::Plain(stream) => (stream, None),
            Stream::Tls(stream) => match *stream {
                TlsStream::Client(stream) => {
                    let (socket, tls) = stream.into_inner();
                    (socket, Some(tls.into()))
                }
                TlsStream::Server(stream) => {
                    let (socket, tls) = stream.into_inner();
                    (socket, Some(tls.into()))
                }
            },
        };
        let first = first.map(opening).unwrap_or_default();
        let input = self.preface.into_rest();
        let in_use = || CongestionInUse::of(&SockRef::from(&stream));
        let congestion = self.congestion.unwrap_or_else(in_use);
        Parts { stream, tls, input, peer: self.peer, congestion, first }
    }
}

/// This side's preamble and `record`.
fn opening(record: &Record) -> Bytes {
    let mut out = BytesMut::from(&Preamble::OURS.encode()[..]);
    record.encode(&mut out);
    out.freeze()
}

/// The first record of `peer`, once it is there.
///
/// # Errors
/// When the peer speaks another protocol or version, or sends a broken record.
pub(crate) fn poll_preface(
    preface: &mut Preface,
    peer: SocketAddr,
    is_plain: bool,
) -> Result<Option<Record>, Error> {
    preface.poll().map_err(|source| {
        let is_tls = matches!(preface.first(), Some(TLS_HANDSHAKE | TLS_ALERT));
        match source {
            WireError::NotWeftline(_) if is_plain && is_tls => Error::WantsTls { peer },
            source => Error::Protocol { peer, source: source.into() },
        }
    })
}

/// TLS ends that speak of something else, or of nothing, are none of ours (RFC 7301): what is said
/// to one service must not be understood by another.
fn check_protocol(peer: SocketAddr, named: Option<&[u8]>) -> Result<(), Error> {
    if named == Some(tls::ALPN) { Ok(()) } else { Err(Error::OtherProtocol { peer }) }
}

/// Says that nothing more comes and waits for the peer to do the same.
async fn drain<S>(stream: &mut S) -> io::Result<()>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    stream.shutdown().await?;
    let mut scratch = [0; 1024];
    let mut left = LINGER_BYTES;
    while left > 0 {
        match stream.read(&mut scratch).await? {
            0 => break,
            n => left = left.saturating_sub(n),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;
    use weftline_core::wire::Hello;

    use super::*;

    #[tokio::test]
    async fn data_behind_a_hello_is_left_in_the_socket_until_it_is_accepted() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let mut client = TcpStream::connect(address).await.expect("it listens");
        let hello = Record::Hello(Hello { scheduler: "fbdt".into(), ..Hello::default() });
        client.write_all(&opening(&hello)).await.expect("it reads");
        client.write_all(&[0; 32 << 10]).await.expect("the kernel takes it");
        let (server, _) = listener.accept().await.expect("it has connected");
        let server = Channel::accept(server, &ServerSecurity::InsecurePlaintext).await;
        let mut server = server.expect("plaintext needs nothing");
        assert_eq!(server.receive().await.expect("a hello"), hello);
        assert!(server.into_parts(None).input.len() <= 1024);
    }
}
