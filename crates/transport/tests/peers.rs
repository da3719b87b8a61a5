//! Peers that speak something else, break the protocol, or try to use up the server.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use common::attack::{Heard, hello};
use common::{Security, check_echo, echo, pair, patient, patiently, server_and_client, two_paths};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weftline::{ClientSecurity, Connection, Error, Limits, Server, refusal};
use weftline_core::wire::{Ack, Hello, HelloReply, Join, Preamble, Record, Refusal};

/// A client that says what it likes.
struct RawPeer {
    stream: TcpStream,
    heard: Heard,
}

impl RawPeer {
    async fn connect(server: SocketAddr) -> Self {
        let stream = TcpStream::connect(server).await.unwrap();
        Self { stream, heard: Heard::default() }
    }

    async fn send(&mut self, records: &[Record]) {
        let mut out = BytesMut::new();
        records.iter().for_each(|record| record.encode(&mut out));
        self.stream.write_all(&out).await.unwrap();
    }

    async fn open(&mut self, first: Record) {
        self.stream.write_all(&Preamble::OURS.encode()).await.unwrap();
        self.send(&[first]).await;
    }

    /// The next record; `None` at the end.
    async fn receive(&mut self) -> Option<Record> {
        self.heard.next(&mut self.stream).await
    }

    async fn hello(server: SocketAddr) -> (Self, HelloReply) {
        let mut peer = Self::connect(server).await;
        peer.open(Record::Hello(hello())).await;
        match peer.receive().await {
            Some(Record::HelloReply(reply)) => (peer, reply),
            other => panic!("{other:?}"),
        }
    }

    async fn refusal(&mut self) -> Refusal {
        match self.receive().await {
            Some(Record::Refusal(refusal)) => refusal,
            other => panic!("{other:?}"),
        }
    }

    /// What the connection is reset with.
    async fn reset(&mut self) -> Refusal {
        loop {
            match self.receive().await {
                Some(Record::Reset(refusal)) => return refusal,
                Some(_) => {}
                None => panic!("closed without a reset"),
            }
        }
    }
}

fn plain_server() -> (Server, SocketAddr) {
    let (server, _) = pair(Security::Plain);
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    (server, address)
}

/// Says `bytes` to a fresh server, and returns all that it answers.
async fn say(security: Security, bytes: &[u8]) -> Vec<u8> {
    let (server, client) = server_and_client(security);
    let address = server.local_addrs()[0];
    echo(server);
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    // A reset after the answer is fine, too.
    let _ = stream.read_to_end(&mut answer).await;
    // Others are served as before.
    check_echo(&client.build().unwrap(), 10_000).await;
    answer
}

#[tokio::test]
async fn another_protocol_is_turned_away_and_told_which_one_is_spoken() {
    patiently(async {
        for security in [Security::Plain, Security::Tls] {
            let answer = say(security, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
            assert!(answer.starts_with(&Preamble::OURS.encode()), "{security:?}: {answer:?}");
            let answer = String::from_utf8_lossy(&answer);
            assert!(answer.contains("does not speak weftline"), "{answer}");
            assert!(answer.contains("GET / HTTP"), "{answer}");
        }
    })
    .await;
}

#[tokio::test]
async fn another_major_version_is_turned_away_by_name() {
    let answer = patiently(say(Security::Plain, b"WEFT\x09\x03what follows")).await;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    assert!(answer.contains("speaks weftline protocol 9.3, this side 2.x"), "{answer}");
}

/// Connects to a server that says `answer` to everything.
async fn connect_to(answer: &'static [u8], security: ClientSecurity) -> Error {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = two_paths(security).server(listener.local_addr().unwrap()).build().unwrap();
    let serving = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let _ = stream.read(&mut [0; 1024]).await;
                let _ = stream.write_all(answer).await;
                let _ = stream.read(&mut [0; 1024]).await;
            });
        }
    });
    let error = patiently(client.connect()).await.unwrap_err();
    serving.abort();
    error
}

#[tokio::test]
async fn a_client_names_a_server_of_another_protocol_or_version() {
    let http = b"HTTP/1.1 400 Bad Request\r\n\r\n";
    let error = connect_to(http, ClientSecurity::InsecurePlaintext).await.to_string();
    assert!(error.contains("does not speak weftline (it began with \"HTTP/1.1 400"), "{error}");
    let (_, tls) = pair(Security::Tls);
    let error = connect_to(http, tls).await;
    assert!(matches!(error, Error::PeerNotTls { .. }), "{error}");
    let error = connect_to(b"WEFT\x01\x03", ClientSecurity::InsecurePlaintext).await.to_string();
    assert!(error.contains("speaks weftline protocol 1.3, this side 2.x"), "{error}");
    // A TLS server of another kind answers plaintext with an alert.
    let alert = b"\x15\x03\x03\x00\x02\x02\x46";
    let error = connect_to(alert, ClientSecurity::InsecurePlaintext).await;
    assert!(matches!(error, Error::WantsTls { .. }), "{error}");
}

/// Lets `peer` do its worst on an open connection while another connection is busy. Returns what
/// the server made of it and what the peer was told.
async fn misbehave(bytes: Vec<u8>) -> (String, Refusal) {
    let (mut server, address) = plain_server();
    let (told, heard) = patiently(async {
        let (mut peer, _) = RawPeer::hello(address).await;
        let victim = server.accept().await;
        echo(server);
        let client = two_paths(ClientSecurity::InsecurePlaintext).server(address).build().unwrap();
        let other = tokio::spawn(async move { check_echo(&client, 3_000_000).await });
        peer.stream.write_all(&bytes).await.unwrap();
        let told = peer.reset().await;
        drop(peer);
        let error = victim.closed().await.unwrap_err();
        assert!(matches!(&*error, Error::Protocol { .. }), "{error}");
        other.await.unwrap();
        (told, error.to_string())
    })
    .await;
    (heard, told)
}

fn encoded(record: &Record) -> Vec<u8> {
    let mut out = BytesMut::new();
    record.encode(&mut out);
    out.to_vec()
}

#[tokio::test]
async fn a_record_longer_than_allowed_ends_the_connection() {
    // A data record that announces 2^30 - 1 bytes.
    let (error, told) = misbehave(vec![0x10, 0xbf, 0xff, 0xff, 0xff]).await;
    assert!(error.contains("a record of type 0x10 has 1073741823 bytes, more than"), "{error}");
    assert!(error.contains(&format!("{}; ", told.reason)), "with a remedy: {error} {told:?}");
}

#[tokio::test]
async fn an_acknowledgement_of_bytes_never_sent_ends_the_connection() {
    let ack = Ack { in_order: 5000, credit: 1 << 20, ..Ack::default() };
    let (error, told) = misbehave(encoded(&Record::Ack(ack))).await;
    assert!(error.contains("acknowledged bytes up to 5000 that were never sent"), "{error}");
    assert_eq!(told.code, weftline_core::session::RESET_PROTOCOL);
}

#[tokio::test]
async fn data_beyond_the_credit_ends_the_connection() {
    let data = weftline_core::wire::Data { offset: 1 << 40, payload: (&b"far"[..]).into() };
    let (error, _) = misbehave(encoded(&Record::Data(data))).await;
    assert!(error.contains("with credit up to"), "{error}");
}

#[tokio::test]
async fn a_second_hello_ends_the_connection() {
    let (error, _) = misbehave(encoded(&Record::Hello(hello()))).await;
    assert!(error.contains("a handshake record on an open subflow"), "{error}");
}

#[tokio::test]
async fn an_unknown_critical_record_ends_the_connection_and_an_optional_one_does_not() {
    let (error, _) = misbehave(vec![0x3e, 0x00]).await;
    assert!(error.contains("unknown record of critical type 0x3e"), "{error}");
    let (mut server, address) = plain_server();
    patiently(async {
        let (mut peer, _) = RawPeer::hello(address).await;
        let mut connection = server.accept().await;
        peer.stream.write_all(&[0x3f, 0x02, 1, 2]).await.unwrap();
        let payload = bytes::Bytes::from_static(b"still here");
        peer.send(&[Record::Data(weftline_core::wire::Data { offset: 0, payload })]).await;
        let mut got = [0; 10];
        connection.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"still here");
    })
    .await;
}

fn join(session: [u8; 16], subflow: u64, proof: [u8; 32]) -> Record {
    Record::Join(Join {
        session,
        subflow,
        path: 1,
        path_name: "raw".into(),
        proof,
        ..Join::default()
    })
}

/// The proof of a plaintext join (docs/protocol.md): the exporter's material is zeros.
fn proof(reply: &HelloReply, subflow: u64) -> [u8; 32] {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &reply.join_secret);
    let message = [&[0; 32][..], &reply.session, &subflow.to_be_bytes()].concat();
    ring::hmac::sign(&key, &message).as_ref().try_into().unwrap()
}

#[tokio::test]
async fn a_join_needs_the_secret_and_a_new_number() {
    let (mut server, address) = plain_server();
    patiently(async {
        let (_first, reply) = RawPeer::hello(address).await;
        let _connection: Connection = server.accept().await;
        let attempt = async |record: Record| {
            let mut peer = RawPeer::connect(address).await;
            peer.open(record).await;
            (peer.receive().await.unwrap(), peer)
        };
        let (guessed, _) = attempt(join([7; 16], 1, proof(&reply, 1))).await;
        let (unproven, _) = attempt(join(reply.session, 1, [0; 32])).await;
        let (transplanted, _) = attempt(join(reply.session, 2, proof(&reply, 1))).await;
        // Nothing tells a guess that hit a connection from one that did not.
        assert_eq!(guessed, unproven);
        assert_eq!(guessed, transplanted);
        assert!(matches!(&guessed, Record::Refusal(r) if r.code == refusal::JOIN), "{guessed:?}");
        let (accepted, _second) = attempt(join(reply.session, 1, proof(&reply, 1))).await;
        assert!(matches!(accepted, Record::JoinReply(_)), "{accepted:?}");
        for used in [0, 1] {
            let (again, _) = attempt(join(reply.session, used, proof(&reply, used))).await;
            assert!(
                matches!(&again, Record::Refusal(r) if r.code == refusal::SUBFLOW),
                "{again:?}"
            );
        }
    })
    .await;
}

#[tokio::test]
async fn wishes_that_the_server_cannot_grant_are_refused_by_name() {
    let (_server, address) = plain_server();
    let refused = async |hello: Hello| {
        let mut peer = RawPeer::connect(address).await;
        peer.open(Record::Hello(hello)).await;
        peer.refusal().await
    };
    patiently(async {
        let answer = refused(Hello { scheduler: "x\u{1b}[2J".into(), ..hello() }).await;
        assert_eq!(answer.code, refusal::SCHEDULER);
        assert!(answer.reason.starts_with("unknown scheduler 'x?[2J' (known: fbdt"), "{answer:?}");
        let answer = refused(Hello { congestion: "warp".into(), ..hello() }).await;
        assert_eq!(answer.code, refusal::CONGESTION);
        assert!(answer.reason.contains("unknown congestion control 'warp'"), "{answer:?}");
    })
    .await;
}

#[tokio::test]
async fn handshakes_are_limited_in_time_bytes_and_number() {
    let (server, _) = pair(Security::Plain);
    let limits = Limits {
        handshake_timeout: Duration::from_millis(200),
        handshakes_per_source: 3,
        ..Limits::default()
    };
    let server = server.limits(limits).bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    patiently(async {
        // Three that say nothing fill the share of this address: the fourth is closed at once.
        let mut idle = Vec::new();
        for _ in 0..3 {
            idle.push(TcpStream::connect(address).await.unwrap());
        }
        let mut fourth = TcpStream::connect(address).await.unwrap();
        assert_eq!(fourth.read(&mut [0; 8]).await.unwrap_or(0), 0);
        // And they are closed in time, which makes room.
        for mut stream in idle {
            assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
        }
        // Optional records may not be said for ever. Here there is time to say them.
        let (server, _) = pair(Security::Plain);
        let limits = Limits { sessions_per_source: 1, ..patient() };
        let mut server = server.limits(limits).bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = server.local_addrs()[0];
        let mut talker = RawPeer::connect(address).await;
        let endless = [&Preamble::OURS.encode()[..], &[0x3f, 0x43, 0xe8], &[0; 1000]].concat();
        talker.stream.write_all(&endless).await.unwrap();
        for _ in 0..4 {
            talker.stream.write_all(&endless[6..]).await.unwrap();
        }
        assert_eq!(talker.refusal().await.code, refusal::PROTOCOL);
        let (_first, _) = RawPeer::hello(address).await;
        let _connection = server.accept().await;
        let mut second = RawPeer::connect(address).await;
        second.open(Record::Hello(hello())).await;
        assert_eq!(second.refusal().await.code, refusal::BUSY);
    })
    .await;
}

#[tokio::test]
async fn both_families_are_listened_to_at_one_port() {
    let both = |port: u16| -> [SocketAddr; 2] {
        [([0, 0, 0, 0], port).into(), (std::net::Ipv6Addr::UNSPECIFIED, port).into()]
    };
    // Another program may take the port in between.
    let server = loop {
        let free = std::net::TcpListener::bind("[::]:0").unwrap().local_addr().unwrap().port();
        match pair(Security::Plain).0.bind(&both(free)) {
            Err(Error::PortInUse { address }) if address == both(free)[0] => {}
            server => break server.unwrap(),
        }
    };
    let port = server.local_addrs()[0].port();
    assert_eq!(server.local_addrs(), both(port));
    for near in ["127.0.0.1", "::1"] {
        TcpStream::connect((near, port)).await.unwrap();
    }
}

#[tokio::test]
async fn a_taken_port_and_a_foreign_address_are_named() {
    let (_server, address) = plain_server();
    let (again, _) = pair(Security::Plain);
    let error = again.clone().bind(&[address]).unwrap_err();
    assert!(matches!(error, Error::PortInUse { address: a } if a == address), "{error}");
    let foreign = "192.0.2.77:7000".parse().unwrap();
    let error = again.bind(&[foreign]).unwrap_err();
    assert!(matches!(error, Error::UnknownAddress { .. }), "{error}");
    assert!(error.to_string().contains("127.0.0.1"), "{error}");
}
