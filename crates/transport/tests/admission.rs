//! Admission control: certificates, fingerprints, tokens, and the two ends' settings that must fit.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{PATHS, Security, check_echo, echo, pair, patiently, two_paths};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use weftline::{
    ClientBuilder, ClientSecurity, ClientTls, Error, Fingerprint, Identity, PathEventKind, Server,
    ServerAddr, ServerBuilder, ServerSecurity, ServerTls, Token, Trust,
};

/// Binds `server` on loopback, lets it echo, and points `client` to it.
fn start(server: ServerBuilder, client: ClientBuilder) -> ClientBuilder {
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    echo(server);
    client.server(address)
}

async fn refused(client: ClientBuilder) -> Error {
    patiently(client.build().unwrap().connect()).await.unwrap_err()
}

#[tokio::test]
async fn another_fingerprint_is_refused() {
    let (server, _) = pair(Security::Tls);
    let other = Fingerprint::of(b"another certificate");
    let tls = ClientTls::new(&Trust::Pinned(other), None).unwrap();
    let error = refused(start(server, two_paths(ClientSecurity::Tls(tls)))).await;
    let Error::WrongFingerprint { expected, found, .. } = &error else { panic!("{error}") };
    assert_eq!(*expected, other);
    assert_ne!(*found, other);
    assert!(error.to_string().contains("compare with what the server prints"), "{error}");
}

#[tokio::test]
async fn a_plaintext_client_is_told_that_the_server_wants_tls() {
    let (server, _) = pair(Security::Tls);
    let error = refused(start(server, two_paths(ClientSecurity::InsecurePlaintext))).await;
    assert!(matches!(error, Error::WantsTls { .. }), "{error}");
    assert!(error.to_string().ends_with("wants TLS, and this end came in plaintext"), "{error}");
}

#[tokio::test]
async fn a_tls_client_is_told_that_the_server_speaks_plaintext() {
    let (server, _) = pair(Security::Plain);
    let (_, trust) = pair(Security::Tls);
    let error = refused(start(server, two_paths(trust))).await;
    assert!(matches!(error, Error::PeerNotTls { .. }), "{error}");
    assert!(error.to_string().contains("needs plaintext here too"), "{error}");
}

#[tokio::test]
async fn an_identity_is_made_once_and_only_its_owner_may_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("a/b");
    let first = Identity::from_state_dir(&state).unwrap().fingerprint();
    assert_eq!(Identity::from_state_dir(&state).unwrap().fingerprint(), first);
    let files: Vec<_> = fs::read_dir(&state).unwrap().map(|file| file.unwrap().path()).collect();
    assert_eq!(files, [state.join("identity.pem")]);
    assert_eq!(fs::metadata(&files[0]).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
    let text = first.to_string();
    assert_eq!(text.parse::<Fingerprint>().unwrap(), first);
    assert_eq!(text.to_uppercase().parse::<Fingerprint>().unwrap(), first);
    for bad in ["", "sha256:", "sha1:00", &text[..70], &text.replace(':', " ")] {
        assert!(bad.parse::<Fingerprint>().is_err(), "{bad}");
    }
}

/// In a directory that others may write to, they must not have the server overwrite a file of its
/// owner's with the key, nor read it.
#[tokio::test]
async fn an_identity_is_not_written_through_links_that_wait_for_it() {
    let (dir, victim) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
    fs::write(victim.path(), "precious").unwrap();
    let draft = dir.path().join(format!("identity.pem.{}", std::process::id()));
    std::os::unix::fs::symlink(victim.path(), &draft).unwrap();
    Identity::from_state_dir(dir.path()).unwrap();
    assert_eq!(fs::read_to_string(victim.path()).unwrap(), "precious");
    assert!(fs::symlink_metadata(&draft).unwrap().is_symlink(), "it is somebody else's");
}

#[tokio::test]
async fn a_broken_identity_is_an_error_that_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("identity.pem"), "nothing of use").unwrap();
    let error = Identity::from_state_dir(dir.path()).unwrap_err().to_string();
    assert!(error.contains("identity.pem") && error.contains("no private key"), "{error}");
    let error = Identity::from_state_dir(Path::new("/proc/weftline")).unwrap_err().to_string();
    assert!(error.contains("name another directory"), "{error}");
}

/// A certificate authority with files to show.
struct Authority {
    dir: tempfile::TempDir,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        Self { dir, issuer: Issuer::new(params, key) }
    }

    fn file(&self) -> PathBuf {
        self.dir.path().join("ca.pem")
    }

    fn issue(&self, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(names).unwrap().signed_by(&key, &self.issuer).unwrap();
        let (cert_file, key_file) = (self.dir.path().join("c.pem"), self.dir.path().join("k.pem"));
        fs::write(&cert_file, cert.pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        Identity::from_files(&cert_file, &key_file).unwrap()
    }
}

#[tokio::test]
async fn a_certificate_of_an_authority_is_accepted_for_its_names_only() {
    let authority = Authority::new();
    let tls = ServerTls::new(&authority.issue(&["127.0.0.1", "relay.example"]), None).unwrap();
    let trust = ClientTls::new(&Trust::Authority(authority.file()), None).unwrap();
    let server = Server::builder().security(ServerSecurity::Tls(tls));
    let client = start(server, two_paths(ClientSecurity::Tls(trust)));
    patiently(check_echo(&client.clone().build().unwrap(), 100_000)).await;
    patiently(check_echo(&client.clone().server_name("relay.example").build().unwrap(), 10)).await;
    let error = refused(client.server_name("other.example")).await;
    assert!(error.to_string().contains("and not to other.example"), "{error}");
}

/// Where a server takes joins is an address; who it is stays the name that the client was given.
#[tokio::test(flavor = "multi_thread")]
async fn a_join_is_verified_by_the_configured_name() {
    let authority = Authority::new();
    let trust = ClientTls::new(&Trust::Authority(authority.file()), None).unwrap();
    let trust = ClientSecurity::Tls(trust);
    let own = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
    let join = own.local_addr().unwrap();
    let tls = ServerTls::new(&authority.issue(&["localhost"]), None).unwrap();
    let server = Server::builder().security(ServerSecurity::Tls(tls));
    let server = server.listener(own).join_address(join);
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let hello: ServerAddr =
        format!("localhost:{}", server.local_addrs()[1].port()).parse().unwrap();
    echo(server);
    patiently(async {
        let connection = two_paths(trust.clone()).server(hello).build().unwrap();
        let connection = connection.connect().await.unwrap();
        let (control, mut events) = (connection.control(), connection.events());
        while !control.status().peers.values().any(|peer| *peer == join) {
            let _ = events.recv().await;
        }
    })
    .await;
    // A certificate for the address alone is not the server that the client was told to trust.
    let impostor = ServerTls::new(&authority.issue(&["127.0.0.2"]), None).unwrap();
    let impostor = Server::builder().security(ServerSecurity::Tls(impostor));
    let impostor = impostor.bind(&["127.0.0.2:0".parse().unwrap()]).unwrap();
    let join = impostor.local_addrs()[0];
    echo(impostor);
    let tls = ServerTls::new(&authority.issue(&["localhost"]), None).unwrap();
    let server = Server::builder().security(ServerSecurity::Tls(tls)).join_address(join);
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let hello: ServerAddr =
        format!("localhost:{}", server.local_addrs()[0].port()).parse().unwrap();
    echo(server);
    patiently(async {
        let connection = two_paths(trust).server(hello).build().unwrap().connect().await.unwrap();
        let mut events = connection.events();
        loop {
            match events.recv().await.unwrap().kind {
                PathEventKind::AttemptFailed { reason }
                    if reason.contains("and not to localhost") =>
                {
                    break;
                }
                _ => {}
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_certificate_of_another_authority_is_refused() {
    let (ours, other) = (Authority::new(), Authority::new());
    let tls = ServerTls::new(&other.issue(&PATHS), None).unwrap();
    let trust = ClientTls::new(&Trust::Authority(ours.file()), None).unwrap();
    let server = Server::builder().security(ServerSecurity::Tls(tls));
    let error = refused(start(server, two_paths(ClientSecurity::Tls(trust)))).await;
    assert!(matches!(error, Error::Tls { .. }), "{error}");
}

#[tokio::test]
async fn a_server_with_client_certificates_refuses_clients_without() {
    let authority = Authority::new();
    let identity = authority.issue(&["127.0.0.1"]);
    let tls = ServerTls::new(&identity, Some(&authority.file())).unwrap();
    let trust = Trust::Pinned(tls.fingerprint());
    let server = Server::builder().security(ServerSecurity::Tls(tls));
    let with = ClientTls::new(&trust, Some(&authority.issue(&["client"]))).unwrap();
    let client = start(server, two_paths(ClientSecurity::Tls(with)));
    patiently(check_echo(&client.clone().build().unwrap(), 1000)).await;
    let without = ClientTls::new(&trust, None).unwrap();
    let error = refused(client.security(ClientSecurity::Tls(without))).await;
    assert!(error.to_string().contains("it wants a certificate from this end"), "{error}");
}

#[tokio::test]
async fn a_token_lets_in_and_its_lack_does_not() {
    for security in [Security::Plain, Security::Tls] {
        let token = |text: &str| Token::new(text).unwrap();
        let (server, trust) = pair(security);
        let server = server.token(token("correct horse battery\n"));
        let client = start(server, two_paths(trust));
        let right = client.clone().token(token("correct horse battery"));
        patiently(check_echo(&right.build().unwrap(), 1000)).await;
        for wrong in [client.clone(), client.clone().token(token("correct horse cattery"))] {
            let error = refused(wrong).await;
            let Error::Refused { code, .. } = error else { panic!("{error}") };
            assert_eq!(code, weftline::refusal::TOKEN);
        }
    }
    assert!(Token::new("short").is_err());
}

#[tokio::test]
async fn settings_that_do_not_fit_are_named() {
    let client = two_paths(ClientSecurity::InsecurePlaintext);
    let server: ServerAddr = "127.0.0.1:7000".parse().unwrap();
    let one = || client.clone().server(server.clone());
    let path = weftline::PathConfig::new("one", weftline::Bind::Any);
    let wrong = [
        (client.clone(), "no server address"),
        (one().server(server.clone()).server(server.clone()), "3 server addresses for 2 paths"),
        (one().path(path), "two paths are called 'one'"),
        (one().scheduler("fastest"), "unknown scheduler 'fastest' (known: fbdt, "),
        (one().congestion("vegas9"), "unknown congestion control 'vegas9' (this kernel has: "),
        (one().forward("three"), "no path is called 'three'"),
        (one().server_name("not a name"), "'not a name' is no name"),
    ];
    for (builder, message) in wrong {
        let error = builder.build().map(drop).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let error = weftline::Client::builder().server(server).build().map(drop).unwrap_err();
    assert!(matches!(error, Error::NoTrust), "{error}");
}
