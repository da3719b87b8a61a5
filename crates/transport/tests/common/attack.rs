//! What the security tests attack with: a relay that records and injects, a TLS peer that says what
//! it likes, and the log, where a refusal is named.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::BytesMut;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme, SupportedProtocolVersion};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use weftline_core::wire::{Hello, HelloReply, Join, Preamble, Record, Refusal};

/// A relay on the way between client and server: it hears everything and can say anything.
pub struct Tap {
    pub address: SocketAddr,
    wires: watch::Receiver<Vec<Wire>>,
    _tasks: JoinSet<()>,
}

/// One TCP connection through a [`Tap`].
#[derive(Clone)]
pub struct Wire {
    to_server: Direction,
    to_client: Direction,
}

#[derive(Clone)]
struct Direction {
    heard: watch::Receiver<Vec<u8>>,
    inject: mpsc::UnboundedSender<Vec<u8>>,
}

impl Tap {
    pub async fn start(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (add, wires) = watch::channel(Vec::new());
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut pumps = JoinSet::new();
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let Ok(server) = TcpStream::connect(target).await else { continue };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                let up = tap(&mut pumps, from_client, to_server);
                let down = tap(&mut pumps, from_server, to_client);
                add.send_modify(|all| all.push(Wire { to_server: up, to_client: down }));
            }
        });
        Self { address, wires, _tasks: tasks }
    }

    /// The connection with this number, once it is there.
    pub async fn wire(&self, number: usize) -> Wire {
        let mut wires = self.wires.clone();
        wires.wait_for(|all| all.len() > number).await.unwrap()[number].clone()
    }
}

impl Wire {
    /// All that the client has said so far.
    pub fn said_by_client(&self) -> Vec<u8> {
        self.to_server.heard.borrow().clone()
    }

    /// All that the server has said so far.
    pub fn said_by_server(&self) -> Vec<u8> {
        self.to_client.heard.borrow().clone()
    }

    /// Slips `bytes` in on the way to the server.
    pub fn inject_to_server(&self, bytes: &[u8]) {
        let _ = self.to_server.inject.send(bytes.to_vec());
    }

    /// Slips `bytes` in on the way to the client.
    pub fn inject_to_client(&self, bytes: &[u8]) {
        let _ = self.to_client.inject.send(bytes.to_vec());
    }
}

fn tap(
    pumps: &mut JoinSet<io::Result<()>>,
    mut from: tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
) -> Direction {
    let (record, heard) = watch::channel(Vec::new());
    let (inject, mut injected) = mpsc::unbounded_channel::<Vec<u8>>();
    pumps.spawn(async move {
        let mut buffer = vec![0; 16 << 10];
        loop {
            let bytes = tokio::select! {
                read = from.read(&mut buffer) => {
                    let n = read?;
                    if n == 0 {
                        return to.shutdown().await;
                    }
                    record.send_modify(|all| all.extend_from_slice(&buffer[..n]));
                    buffer[..n].to_vec()
                }
                Some(bytes) = injected.recv() => bytes,
            };
            to.write_all(&bytes).await?;
        }
    });
    Direction { heard, inject }
}

/// Says `bytes` to `server` from `source` and returns all that it answers until it closes.
pub async fn say_all(source: &str, server: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut stream = tcp_from(source, server).await;
    let mut answer = Vec::new();
    // The server may close, or reset, before everything is said.
    let _ = stream.write_all(bytes).await;
    let _ = stream.read_to_end(&mut answer).await;
    answer
}

/// A preamble and records, as bytes.
pub fn said(records: &[Record]) -> Vec<u8> {
    let mut out = BytesMut::from(&Preamble::OURS.encode()[..]);
    records.iter().for_each(|record| record.encode(&mut out));
    out.to_vec()
}

/// What a server says to a peer that is no client of ours.
#[derive(Default)]
pub struct Heard {
    input: BytesMut,
    greeted: bool,
}

impl Heard {
    /// The next record; `None` at the end, or when the server resets the stream.
    pub async fn next(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> Option<Record> {
        loop {
            if !self.greeted {
                self.greeted = Preamble::decode(&mut self.input).unwrap().is_some();
            }
            if self.greeted
                && let Some(record) = Record::decode(&mut self.input).unwrap()
            {
                return Some(record);
            }
            if stream.read_buf(&mut self.input).await.unwrap_or(0) == 0 {
                return None;
            }
        }
    }
}

/// A client over TLS that says what it likes.
pub struct TlsPeer {
    pub local: SocketAddr,
    stream: TlsStream<TcpStream>,
    heard: Heard,
}

impl TlsPeer {
    pub async fn connect(server: SocketAddr) -> Self {
        let config = tls_client(&[&rustls::version::TLS13], &[b"weftline"]);
        Self::connect_from("127.0.0.1", server, config).await.unwrap()
    }

    pub async fn connect_from(
        source: &str,
        server: SocketAddr,
        config: ClientConfig,
    ) -> io::Result<Self> {
        let stream = tcp_from(source, server).await;
        let local = stream.local_addr()?;
        let name = ServerName::try_from("weftline").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await?;
        Ok(Self { local, stream, heard: Heard::default() })
    }

    /// Says the preamble and these records at once.
    pub async fn open(&mut self, first: &[Record]) {
        self.stream.write_all(&Preamble::OURS.encode()).await.unwrap();
        self.say(first).await;
    }

    pub async fn say(&mut self, records: &[Record]) {
        let mut out = BytesMut::new();
        records.iter().for_each(|record| record.encode(&mut out));
        self.stream.write_all(&out).await.unwrap();
        self.stream.flush().await.unwrap();
    }

    /// The next record; `None` at the end.
    pub async fn receive(&mut self) -> Option<Record> {
        self.heard.next(&mut self.stream).await
    }

    /// Says that it has nothing more to say.
    pub async fn close(&mut self) {
        self.stream.shutdown().await.unwrap();
    }

    /// Opens a connection and returns what joins to it.
    pub async fn hello(&mut self, hello: Hello) -> Result<HelloReply, Refusal> {
        self.open(&[Record::Hello(hello)]).await;
        match self.receive().await {
            Some(Record::HelloReply(reply)) => Ok(reply),
            Some(Record::Refusal(refusal)) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    /// Tries to join; the server's refusal if it refuses.
    pub async fn join(&mut self, join: Join) -> Result<(), Refusal> {
        self.open(&[Record::Join(join)]).await;
        match self.receive().await {
            Some(Record::JoinReply(_)) => Ok(()),
            Some(Record::Refusal(refusal)) => Err(refusal),
            other => panic!("{other:?}"),
        }
    }

    /// What `label` gives on this channel.
    pub fn exporter(&self, label: &str) -> [u8; 32] {
        let connection = self.stream.get_ref().1;
        connection.export_keying_material([0; 32], label.as_bytes(), None).unwrap()
    }

    /// A join that proves the secret of `reply` on this channel (docs/protocol.md).
    pub fn proven(&self, reply: &HelloReply, subflow: u64) -> Join {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &reply.join_secret);
        let material = self.exporter("EXPORTER-weftline-join");
        let message = [&material[..], &reply.session, &subflow.to_be_bytes()].concat();
        let proof = ring::hmac::sign(&key, &message).as_ref().try_into().unwrap();
        let (session, path_name) = (reply.session, "raw".into());
        Join { session, subflow, path: subflow, path_name, proof, ..Join::default() }
    }

    /// The token that a hello carries on this channel for the secret `text`.
    pub fn token(&self, text: &str) -> bytes::Bytes {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, text.as_bytes());
        let tag = ring::hmac::sign(&key, &self.exporter("EXPORTER-weftline-token"));
        bytes::Bytes::copy_from_slice(tag.as_ref())
    }
}

/// A TCP connection to `server` from the local address `source`.
pub async fn tcp_from(source: &str, server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::new(source.parse().unwrap(), 0)).unwrap();
    socket.connect(server).await.unwrap()
}

/// A hello as a client says it.
pub fn hello() -> Hello {
    Hello { path_name: "raw".into(), scheduler: "fbdt".into(), ..Hello::default() }
}

/// What a server answers to a hello.
pub fn hello_reply(session: [u8; 16], join_secret: [u8; 32]) -> HelloReply {
    HelloReply { session, join_secret, messages: 0, join_addresses: Vec::new() }
}

/// TLS of a client that trusts anybody.
pub fn tls_client(versions: &[&'static SupportedProtocolVersion], alpn: &[&[u8]]) -> ClientConfig {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody))
        .with_no_client_auth();
    config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
    config
}

#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let provider = rustls::crypto::ring::default_provider();
        provider.signature_verification_algorithms.supported_schemes()
    }
}

/// The log of this test process, everything in it from `debug` on.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The one of this process; it begins with the first call.
    pub fn start() -> Self {
        static LOG: OnceLock<Log> = OnceLock::new();
        let log = LOG.get_or_init(|| {
            let log = Self::default();
            let writer = log.clone();
            tracing_subscriber::fmt()
                .with_max_level(tracing_subscriber::filter::LevelFilter::DEBUG)
                .with_ansi(false)
                .with_writer(move || writer.clone())
                .init();
            log
        });
        log.clone()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }

    /// The first line that contains all of `parts`, once it is there.
    pub async fn line(&self, parts: &[&str]) -> String {
        let looking = async {
            loop {
                let text = self.text();
                let found = text.lines().find(|line| parts.iter().all(|part| line.contains(part)));
                match found {
                    Some(line) => return line.to_owned(),
                    None => tokio::task::yield_now().await,
                }
            }
        };
        let found = tokio::time::timeout(super::PATIENCE / 2, looking).await;
        found.unwrap_or_else(|_| panic!("no line with {parts:?} in the log:\n{}", self.text()))
    }
}

impl io::Write for Log {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
