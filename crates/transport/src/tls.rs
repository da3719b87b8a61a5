//! TLS 1.3 on every subflow: who the server is and how a client knows it.
//!
//! A server has a certificate of its own making, known by its SHA-256 fingerprint, or one from an
//! authority. A client pins the fingerprint or trusts an authority; there is no third way.

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring as provider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore,
    ServerConfig, SignatureScheme,
};

use crate::error::Error;
use crate::fingerprint::Fingerprint;
use crate::random::random_seed;

/// The protocol name both sides offer, so that a browser or a web server on the other end is told
/// apart in the TLS handshake already (RFC 7301).
pub(crate) const ALPN: &[u8] = b"weftline";
/// The file in the state directory that holds certificate and key.
const IDENTITY_FILE: &str = "identity.pem";
/// The state directory of root. Services of systemd have theirs below it.
const ROOT_STATE_DIR: &str = "/var/lib/weftline";
/// The name in a self-made certificate; clients compare the fingerprint, not the name.
const SELF_SIGNED_NAME: &str = "weftline";

/// How a client secures its subflows.
#[derive(Clone, Debug)]
pub enum ClientSecurity {
    /// No encryption, no authentication: for measurements on networks of one's own.
    InsecurePlaintext,
    /// TLS 1.3.
    Tls(ClientTls),
}

/// The cipher suites of both sides: AES-128 first, which is as safe as any and a quarter faster
/// than the usual first choice.
fn crypto_provider() -> CryptoProvider {
    let mut provider = provider::default_provider();
    let first = CipherSuite::TLS13_AES_128_GCM_SHA256;
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != first);
    provider
}

/// How a client knows its server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// By a certificate from one of the authorities in this PEM file, issued to the name or
    /// address the client connects to.
    Authority(PathBuf),
    /// By the fingerprint of its certificate.
    Pinned(Fingerprint),
}

/// A client's side of TLS.
#[derive(Clone)]
pub struct ClientTls(Arc<ClientConfig>);

impl fmt::Debug for ClientTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClientTls")
    }
}

impl ClientTls {
    /// Knows the server by `trust`, and shows it `identity` if it asks for a certificate.
    ///
    /// # Errors
    /// When the authority's file cannot be read or holds no certificate, or the identity's
    /// certificate and key do not belong together.
    pub fn new(trust: &Trust, identity: Option<&Identity>) -> Result<Self, Error> {
        let crypto = Arc::new(crypto_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider knows TLS 1.3");
        let builder = match trust {
            Trust::Authority(ca) => builder.with_root_certificates(Arc::new(read_roots(ca)?)),
            &Trust::Pinned(fingerprint) => builder
                .dangerous()
                .with_custom_certificate_verifier(Arc::new(PinnedVerifier { fingerprint, crypto })),
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => builder
                .with_client_auth_cert(identity.chain.clone(), identity.key.clone_key())
                .map_err(|error| certificate(&identity.source, error))?,
        };
        config.alpn_protocols = vec![ALPN.to_vec()];
        // Sessions are not resumed: each subflow proves anew that it reaches the same server.
        config.resumption = rustls::client::Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    pub(crate) fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}

/// Compares the certificate's hash with the pinned one; the handshake's signature is verified as
/// for any certificate, so that only the holder of its key passes.
#[derive(Debug)]
struct PinnedVerifier {
    fingerprint: Fingerprint,
    crypto: Arc<CryptoProvider>,
}

/// Carries the unexpected fingerprint through rustls to the error message.
#[derive(Debug, thiserror::Error)]
#[error("the certificate's fingerprint is {found}, not {expected}")]
struct Mismatch {
    expected: Fingerprint,
    found: Fingerprint,
}

impl ServerCertVerifier for PinnedVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let found = Fingerprint::of(end_entity);
        if found == self.fingerprint {
            return Ok(ServerCertVerified::assertion());
        }
        let mismatch = Mismatch { expected: self.fingerprint, found };
        Err(CertificateError::Other(OtherError(Arc::new(mismatch))).into())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Err(rustls::Error::General("only TLS 1.3 is spoken here".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto.signature_verification_algorithms.supported_schemes()
    }
}

/// How a server secures its subflows.
#[derive(Clone, Debug)]
pub enum ServerSecurity {
    /// No encryption, no authentication: for measurements on networks of one's own.
    InsecurePlaintext,
    /// TLS 1.3.
    Tls(ServerTls),
}

/// A server's certificate and key.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl ServerTls {
    /// Shows clients `identity`; with `client_ca`, a PEM file, demands of each a certificate from
    /// one of the authorities in it.
    ///
    /// # Errors
    /// When certificate and key do not belong together, or the file cannot be read or holds no
    /// certificate.
    pub fn new(identity: &Identity, client_ca: Option<&Path>) -> Result<Self, Error> {
        let crypto = Arc::new(crypto_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&crypto))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("the provider knows TLS 1.3");
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let roots = Arc::new(read_roots(ca)?);
                let verifier = WebPkiClientVerifier::builder_with_provider(roots, crypto).build();
                builder.with_client_cert_verifier(verifier.map_err(|error| certificate(ca, error))?)
            }
        };
        let mut config = builder
            .with_single_cert(identity.chain.clone(), identity.key.clone_key())
            .map_err(|error| match error {
                rustls::Error::InconsistentKeys(_) => {
                    certificate(&identity.source, "the key given with it is another one's")
                }
                other => certificate(&identity.source, other),
            })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config), fingerprint: identity.fingerprint() })
    }

    /// What clients pin.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.config)
    }
}

/// A certificate chain and the key to its first certificate.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    /// Where it was read from, for messages.
    source: PathBuf,
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint()).finish_non_exhaustive()
    }
}

impl Identity {
    /// Reads a certificate chain and a key from PEM files (which may be one file).
    ///
    /// # Errors
    /// When a file cannot be read or holds no certificate or key.
    pub fn from_files(cert: &Path, key: &Path) -> Result<Self, Error> {
        let key = PrivateKeyDer::from_pem_file(key)
            .map_err(|error| certificate(key, pem_reason(error, "private key")))?;
        Ok(Self { chain: read_certificates(cert)?, key, source: cert.to_owned() })
    }

    /// The one kept in the directory `state_dir`, made on first use: a self-signed certificate
    /// and its key in a file that only its owner may read.
    ///
    /// # Errors
    /// When the directory cannot be made, written or read.
    pub fn from_state_dir(state_dir: &Path) -> Result<Self, Error> {
        Self::kept_for(state_dir, &[])
    }

    /// The same for those who go by names, as browsers do: one that is made now is for these names and
    /// addresses, too.
    ///
    /// # Errors
    /// When the directory cannot be made, written or read.
    pub fn kept_for(state_dir: &Path, names: &[String]) -> Result<Self, Error> {
        let path = state_dir.join(IDENTITY_FILE);
        if !path.exists() {
            make_identity(state_dir, &path, names).map_err(|error| Error::StateDir {
                path: path.clone(),
                reason: error.to_string(),
            })?;
        }
        Self::from_files(&path, &path)
    }

    /// The one kept in the directory `state_dir`, if there is one: nothing is made.
    ///
    /// # Errors
    /// When it cannot be read, or holds no certificate and key.
    pub fn kept_in(state_dir: &Path) -> Result<Option<Self>, Error> {
        let path = state_dir.join(IDENTITY_FILE);
        let there = path.try_exists();
        let there = there.map_err(|error| certificate(&path, error))?;
        there.then(|| Self::from_files(&path, &path)).transpose()
    }

    /// The file that its certificates are from.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The fingerprint of the first certificate.
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&self.chain[0])
    }
}

/// Where a server keeps its identity unless told otherwise: `/var/lib/weftline` for root, else
/// `weftline` in `$XDG_STATE_HOME` or `~/.local/state`.
///
/// # Errors
/// When the environment names no home directory.
pub fn default_state_dir() -> Result<PathBuf, Error> {
    if rustix::process::geteuid().is_root() {
        return Ok(PathBuf::from(ROOT_STATE_DIR));
    }
    let set = |name| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    set("XDG_STATE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".local/state")))
        .map(|base| base.join("weftline"))
        .ok_or_else(|| {
            Error::Invalid(
                "neither XDG_STATE_HOME nor HOME is set; name a state directory".to_owned(),
            )
        })
}

/// Makes the state directory `dir` for its owner alone, if it is not there. Services with users of
/// their own keep their state in root's, or below it: all may pass through, and list nothing.
///
/// # Errors
/// When it cannot be made.
pub fn make_state_dir(dir: &Path) -> io::Result<()> {
    make_below(dir, Path::new(ROOT_STATE_DIR))
}

/// The same; others may pass through `shared`, where `dir` is that directory or below it.
fn make_below(dir: &Path, shared: &Path) -> io::Result<()> {
    let make = |dir: &Path| fs::DirBuilder::new().recursive(true).mode(0o700).create(dir);
    if dir.starts_with(shared) && !shared.try_exists()? {
        make(shared)?;
        // Whatever the mask of this process.
        fs::set_permissions(shared, fs::Permissions::from_mode(0o711))?;
    }
    make(dir)
}

/// Makes a self-signed identity at `path`; when another process makes one at the same time, the
/// first wins.
fn make_identity(dir: &Path, path: &Path, names: &[String]) -> io::Result<()> {
    make_state_dir(dir)?;
    let names = [&[SELF_SIGNED_NAME.to_owned()], names].concat();
    let mut params = rcgen::CertificateParams::new(names).map_err(io::Error::other)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, SELF_SIGNED_NAME);
    let key = rcgen::KeyPair::generate().map_err(io::Error::other)?;
    let certificate = params.self_signed(&key).map_err(io::Error::other)?;
    let pem = certificate.pem() + &key.serialize_pem();
    // A name that nobody can guess, and a file that was not there: in a directory that others may
    // write to, a link of theirs would have another file overwritten.
    let number = random_seed().map_err(io::Error::other)?;
    let draft = dir.join(format!("{IDENTITY_FILE}.{number:016x}"));
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
    file.write_all(pem.as_bytes())?;
    file.sync_all()?;
    let linked = match fs::hard_link(&draft, path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    };
    fs::remove_file(&draft)?;
    linked
}

fn certificate(path: &Path, reason: impl fmt::Display) -> Error {
    Error::Certificate { path: path.to_owned(), reason: reason.to_string() }
}

/// The certificates in a PEM file, at least one.
fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, Error> {
    let chain = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| certificate(path, pem_reason(error, "certificate")))?;
    if chain.is_empty() {
        return Err(certificate(path, "no certificate in it (PEM expected)"));
    }
    Ok(chain)
}

fn pem_reason(error: rustls::pki_types::pem::Error, wanted: &str) -> String {
    match error {
        rustls::pki_types::pem::Error::Io(error) => error.to_string(),
        rustls::pki_types::pem::Error::NoItemsFound => format!("no {wanted} in it (PEM expected)"),
        other => format!("broken PEM: {other:?}"),
    }
}

fn read_roots(path: &Path) -> Result<RootCertStore, Error> {
    let mut roots = RootCertStore::empty();
    for authority in read_certificates(path)? {
        roots.add(authority).map_err(|error| certificate(path, error))?;
    }
    Ok(roots)
}

/// Names a failed TLS handshake with `peer`.
pub(crate) fn handshake_error(peer: SocketAddr, error: &io::Error) -> Error {
    let tls = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match tls {
        None if is_disconnect(error) => Error::ClosedInHandshake { peer },
        None => Error::Tls { peer, reason: error.to_string() },
        Some(rustls::Error::InvalidMessage(_)) => Error::PeerNotTls { peer },
        Some(rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner)))) => {
            match inner.downcast_ref::<Mismatch>() {
                Some(&Mismatch { expected, found }) => {
                    Error::WrongFingerprint { peer, expected, found }
                }
                None => Error::Tls { peer, reason: inner.to_string() },
            }
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. },
        )) => Error::CertificateDates { peer, is_early: true },
        Some(rustls::Error::InvalidCertificate(
            CertificateError::Expired | CertificateError::ExpiredContext { .. },
        )) => Error::CertificateDates { peer, is_early: false },
        Some(other) => Error::Tls { peer, reason: reason(other) },
    }
}

/// What a failure of TLS means, where rustls has a name for it only.
fn reason(error: &rustls::Error) -> String {
    use rustls::AlertDescription as Alert;
    match error {
        rustls::Error::AlertReceived(Alert::CertificateRequired) => {
            "it wants a certificate from this end, and there is none".to_owned()
        }
        rustls::Error::AlertReceived(
            alert @ (Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::UnsupportedCertificate),
        ) => format!(
            "it does not accept this end's certificate ({alert:?}): it expects another fingerprint, \
             authority or name, or the dates do not fit its clock"
        ),
        rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
            "its certificate is from none of the authorities given; one that the server has made \
             itself is known by its fingerprint only"
                .to_owned()
        }
        rustls::Error::InvalidCertificate(CertificateError::NotValidForNameContext {
            expected,
            presented,
        }) => {
            let names: Vec<&str> = presented.iter().map(|name| in_quotes(name)).collect();
            let (expected, names) = (expected.to_str(), names.join(", "));
            format!("its certificate is issued to {names}, and not to {expected}")
        }
        other => other.to_string(),
    }
}

/// What a debug text such as `DnsName("server.example")` has in its quotes.
fn in_quotes(text: &str) -> &str {
    text.split('"').nth(1).unwrap_or(text)
}

/// Whether the peer just went away.
fn is_disconnect(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::BrokenPipe
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn a_certificate_is_good_for_the_names_it_was_made_for() {
        let dir = tempfile::tempdir().unwrap();
        let names = ["192.168.1.5".to_owned(), "weft.example".to_owned()];
        let made = Identity::kept_for(dir.path(), &names).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(made.chain[0].clone()).unwrap();
        let provider = Arc::new(crypto_provider());
        let verifier =
            rustls::client::WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider);
        let verifier = verifier.build().unwrap();
        let is_good = |name: &'static str| {
            let name = ServerName::try_from(name).unwrap();
            let now = UnixTime::now();
            verifier.verify_server_cert(&made.chain[0], &[], &name, &[], now).is_ok()
        };
        for name in [SELF_SIGNED_NAME, "192.168.1.5", "weft.example"] {
            assert!(is_good(name), "{name}");
        }
        assert!(!is_good("192.168.1.6") && !is_good("other.example"));
        // What is kept stays as it is.
        let again = Identity::from_state_dir(dir.path()).unwrap();
        assert_eq!(again.chain, made.chain);
    }

    #[test]
    fn services_pass_through_the_directory_that_root_makes() {
        let place = tempfile::tempdir().unwrap();
        let shared = place.path().join("weftline");
        let mode = |dir: &Path| fs::metadata(dir).unwrap().permissions().mode() & 0o777;
        let own = place.path().join("own");
        make_below(&own, &shared).unwrap();
        assert_eq!(mode(&own), 0o700);
        assert!(!shared.exists());
        let below = shared.join("serve-web");
        make_below(&below, &shared).unwrap();
        assert_eq!((mode(&shared), mode(&below)), (0o711, 0o700));
        fs::set_permissions(&shared, fs::Permissions::from_mode(0o700)).unwrap();
        make_below(&shared, &shared).unwrap();
        assert_eq!(mode(&shared), 0o700, "what is there is the administrator's");
    }
}
