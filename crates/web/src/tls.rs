//! TLS for those who come from other machines: browsers decode video, and show it in headsets, only for
//! pages that come over it, or from their own machine.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::listen::PATIENCE;

/// The type of a TLS record that begins a handshake (RFC 8446 §5.1).
const HANDSHAKE: u8 = 22;
/// What is told to whoever speaks HTTP without TLS.
const PLAIN: &str = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Connection: close\r\n\r\nThis page is at https://, with the rest of the address as it was printed.\n";
/// How long whoever is told that may take to hear it.
const FAREWELL: Duration = Duration::from_secs(2);

/// Why there is no TLS.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TlsError {
    /// The text holds no certificate, or it is broken.
    #[error("the certificate: {0}")]
    Certificate(String),
    /// The text holds no private key, or it is broken.
    #[error("the key: {0}")]
    Key(String),
    /// They cannot be used, or not together.
    #[error("the certificate and the key: {0}")]
    Pair(rustls::Error),
}

/// A certificate and its key, as a server shows them.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    certificate: CertificateDer<'static>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// A chain of certificates and the key to the first, both in PEM; one text may have both.
    ///
    /// # Errors
    /// When either is not there or broken, or they do not belong together.
    pub fn new(chain: &[u8], key: &[u8]) -> Result<Self, TlsError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|error| TlsError::Certificate(error.to_string()))?;
        let Some(certificate) = chain.first().cloned() else {
            return Err(TlsError::Certificate("there is none (PEM expected)".to_owned()));
        };
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Key(error.to_string()))?;
        let mut config =
            ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(TlsError::Pair)?
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .map_err(TlsError::Pair)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self { config: Arc::new(config), certificate })
    }

    /// The first certificate, as DER.
    pub fn certificate(&self) -> &[u8] {
        &self.certificate
    }

    /// Speaks TLS with whoever has connected; `None` if they do not.
    pub(crate) async fn accept(&self, stream: TcpStream) -> Option<TlsStream<TcpStream>> {
        let shaken = async {
            let mut first = [0];
            if stream.peek(&mut first).await? == 1 && first != [HANDSHAKE] {
                tell_plain(stream).await;
                return Ok(None);
            }
            TlsAcceptor::from(Arc::clone(&self.config)).accept(stream).await.map(Some)
        };
        match tokio::time::timeout(PATIENCE, shaken).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!("no TLS with somebody: {error}");
                None
            }
            Err(_) => None,
        }
    }
}

/// Says where the page is. What the other end has sent is read first: else it may never see the answer.
async fn tell_plain(mut stream: TcpStream) {
    let told = async {
        let _ = stream.read(&mut [0; 4096]).await;
        let _ = stream.write_all(PLAIN.as_bytes()).await;
        let _ = stream.shutdown().await;
        while let Ok(1..) = stream.read(&mut [0; 4096]).await {}
    };
    let _ = tokio::time::timeout(FAREWELL, told).await;
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio_rustls::TlsConnector;

    use super::*;
    use crate::stopped::{HANGS, Stopped};
    use crate::{OpenError, PlayerPage, Program, Settings, Stage};

    /// A certificate of its own for 127.0.0.1, and its key, in PEM.
    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    /// A page, where it is, and what trusts it.
    async fn open() -> (PlayerPage, String, TlsConnector) {
        open_at([127, 0, 0, 1].into()).await
    }

    async fn open_at(ip: IpAddr) -> (PlayerPage, String, TlsConnector) {
        let (cert, key) = made();
        let tls = Some(Tls::new(cert.as_bytes(), key.as_bytes()).unwrap());
        let address = (ip, 0).into();
        let settings = Settings { address, names: Vec::new(), program: Program::Player, tls };
        let page = PlayerPage::open(&settings, Arc::new(Stage::new())).await.unwrap();
        let (host, _) = page.url().strip_prefix("https://").unwrap().split_once('/').unwrap();
        let host = host.to_owned();
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(cert.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        (page, host, TlsConnector::from(Arc::new(config)))
    }

    /// All that comes, as text, until the other end is done.
    async fn rest(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
        let mut answer = Vec::new();
        let _ = tokio::time::timeout(HANGS, stream.read_to_end(&mut answer)).await.unwrap();
        String::from_utf8(answer).unwrap()
    }

    #[tokio::test]
    async fn the_page_comes_over_tls_and_the_session_is_for_tls_only() {
        let (page, host, connector) = open().await;
        let ask = async |request: String| {
            let stream = TcpStream::connect(&host).await.unwrap();
            let name = ServerName::try_from("127.0.0.1").unwrap();
            let mut stream = connector.connect(name, stream).await.unwrap();
            stream.write_all(request.as_bytes()).await.unwrap();
            rest(stream).await
        };
        let answer = ask(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        assert!(
            answer.starts_with("HTTP/1.1 200") && answer.contains("<!doctype html>"),
            "{answer}"
        );
        let token = page.url().split_once("#k=").unwrap().1;
        let body = format!("{{\"token\":\"{token}\"}}");
        let head =
            format!("Host: {host}\r\nOrigin: https://{host}\r\nContent-Length: {}", body.len());
        let answer = ask(format!("POST /api/1/session HTTP/1.1\r\n{head}\r\n\r\n{body}")).await;
        let cookie = answer.lines().find(|line| line.starts_with("set-cookie: ")).unwrap();
        assert!(cookie.ends_with("; Secure"), "{cookie}");
        // A name that leads here is refused as ever.
        let answer = ask("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n".to_owned()).await;
        assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    }

    #[tokio::test]
    async fn who_speaks_no_tls_is_told_and_gets_nothing_else() {
        let (page, host, _) = open().await;
        let token = page.url().split_once("#k=").unwrap().1;
        let mut stream = TcpStream::connect(&host).await.unwrap();
        stream
            .write_all(format!("GET / HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes())
            .await
            .unwrap();
        let answer = rest(stream).await;
        assert!(answer.starts_with("HTTP/1.1 400") && answer.contains("https://"), "{answer}");
        assert!(!answer.contains(token) && !answer.contains("doctype"), "{answer}");
    }

    /// Those who begin no handshake, or never end it, have as long as a request has.
    #[tokio::test(start_paused = true)]
    async fn a_handshake_has_a_time_to_be_done_in() {
        let _stopped = Stopped::now();
        let (_page, host, _) = open().await;
        let silent = TcpStream::connect(&host).await.unwrap();
        let mut halfway = TcpStream::connect(&host).await.unwrap();
        halfway.write_all(&[HANDSHAKE, 3, 1, 2, 0, 1]).await.unwrap();
        let mut ended =
            tokio::spawn(async move { (rest(silent).await.len(), rest(halfway).await.len()) });
        tokio::time::advance(PATIENCE / 2).await;
        assert!(!ended.is_finished());
        // The server may have begun to wait a little later.
        let ended = loop {
            tokio::select! {
                ended = &mut ended => break ended.unwrap(),
                () = tokio::task::yield_now() => tokio::time::advance(PATIENCE / 100).await,
            }
        };
        assert_eq!(ended, (0, 0));
        let mut other = TcpStream::connect(&host).await.unwrap();
        other.write_all(b"GET").await.unwrap();
        assert!(rest(other).await.contains("https://"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_other_machine_has_half_of_the_places_at_most() {
        let _stopped = Stopped::now();
        let own = std::net::UdpSocket::bind("0.0.0.0:0").unwrap();
        // Nothing is sent there.
        if own.connect("192.0.2.1:9").is_err() {
            eprintln!("skipped: this machine has no address that others reach");
            return;
        }
        let (_page, host, _) = open_at(own.local_addr().unwrap().ip()).await;
        let mut all = Vec::new();
        for _ in 0..16 {
            all.push(TcpStream::connect(&host).await.unwrap());
        }
        // It is let go at once, without a word, while the others live.
        assert_eq!(rest(TcpStream::connect(&host).await.unwrap()).await, "");
        all.pop();
        let begun = std::time::Instant::now();
        loop {
            let mut next = TcpStream::connect(&host).await.unwrap();
            let _ = next.write_all(b"GET").await;
            if rest(next).await.contains("https://") {
                break;
            }
            assert!(begun.elapsed() < HANGS, "its place stays taken");
        }
    }

    #[test]
    fn what_is_no_certificate_is_said_and_where_it_may_listen() {
        let ((cert, key), (other, _)) = (made(), made());
        let why = |cert: &str, key: &str| Tls::new(cert.as_bytes(), key.as_bytes()).unwrap_err();
        assert!(matches!(why("", &key), TlsError::Certificate(_)));
        assert!(matches!(why(&cert, ""), TlsError::Key(_)));
        assert!(matches!(why(&cert, &cert), TlsError::Key(_)));
        assert!(matches!(why(&other, &key), TlsError::Pair(_)));
        let tls = Tls::new(cert.as_bytes(), key.as_bytes()).unwrap();
        let check = |address: &str, tls: Option<&Tls>| {
            let (names, program) = (Vec::new(), Program::Player);
            let address = address.parse().unwrap();
            Settings { address, names, program, tls: tls.cloned() }.check(tls.is_some())
        };
        assert!(check("192.0.2.1:9481", Some(&tls)).is_ok());
        assert!(matches!(check("192.0.2.1:9481", None), Err(OpenError::NotLoopback(_))));
        for all in ["0.0.0.0:9481", "[::]:9481"] {
            let error = check(all, Some(&tls)).unwrap_err();
            assert!(error.to_string().contains("192.168.1.5:9481"), "{error}");
        }
    }
}
