//! An attacker who sees and changes everything on the wire, or comes from elsewhere: each attempt is
//! refused by name, and the victim's connection goes on, byte for byte.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::net::SocketAddr;

use common::attack::{Log, Tap, TlsPeer, hello, hello_reply, say_all, tls_client};
use common::{Security, check_echo, echo, event, pair, patiently, pattern, two_paths};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use weftline::{Connection, Control, PathEventKind, ReadHalf, Server, WriteHalf, refusal};
use weftline_core::wire::{Join, Record};

/// What a subflow begins with, under whatever there is around it.
const PREAMBLE: &[u8] = b"WEFT\x02\x00";

/// A server that echoes, and a victim's connection to it on two paths through a relay that hears
/// everything. `wires[0]` carried the hello.
struct Scene {
    tap: Tap,
    server: SocketAddr,
    victim: Victim,
    client: weftline::Client,
}

/// A connection in use, whose bytes are counted from one check to the next.
struct Victim {
    reader: ReadHalf,
    writer: WriteHalf,
    control: Control,
    rounds: u64,
}

impl Victim {
    fn new(connection: Connection) -> Self {
        let control = connection.control();
        let (reader, writer) = connection.into_split();
        Self { reader, writer, control, rounds: 0 }
    }

    /// Sends some, and reads the same back.
    async fn goes_on(&mut self) {
        self.rounds += 1;
        let data = pattern(3_000_000, self.rounds);
        let mut back = vec![0; data.len()];
        let (written, read) =
            tokio::join!(self.writer.write_all(&data), self.reader.read_exact(&mut back));
        written.unwrap();
        read.unwrap();
        assert!(back == data, "round {} differs", self.rounds);
    }
}

impl Scene {
    async fn set() -> Self {
        Log::start();
        let (server, client) = pair(Security::Tls);
        let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = server.local_addrs()[0];
        echo(server);
        let tap = Tap::start(address).await;
        let client = two_paths(client).server(tap.address).build().unwrap();
        let connection = client.connect().await.unwrap();
        let mut events = connection.events();
        while connection.stats().names.len() < 2 {
            events.recv().await.unwrap();
        }
        let mut victim = Victim::new(connection);
        victim.goes_on().await;
        Self { tap, server: address, victim, client }
    }
}

#[tokio::test]
async fn what_was_recorded_is_worth_nothing() {
    patiently(async {
        let mut scene = Scene::set().await;
        let mut heard = 0;
        for number in 0..2 {
            let wire = scene.tap.wire(number).await;
            let recorded = wire.said_by_client();
            heard += recorded.len();
            // The secrets and the data never pass in the clear.
            assert!(!contains(&recorded, PREAMBLE) && !contains(&wire.said_by_server(), PREAMBLE));
            let answer = say_all("127.0.0.66", scene.server, &recorded).await;
            // The handshake fails before the server has said anything but its part of it.
            assert!(answer.len() < 8 << 10, "{} bytes", answer.len());
            scene.victim.goes_on().await;
        }
        // How the paths share them is the scheduler's business.
        assert!(heard > 3_000_000, "the victim's data are in it, not {heard} bytes");
        Log::start().line(&["TLS with 127.0.0.66", "cannot decrypt peer's message"]).await;
        check_echo(&scene.client, 10_000).await;
    })
    .await;
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

#[tokio::test]
async fn older_tls_and_other_protocols_in_tls_are_refused() {
    use rustls::version::{TLS12, TLS13};
    patiently(async {
        let mut scene = Scene::set().await;
        let old = tls_client(&[&TLS12], &[b"weftline"]);
        let error = TlsPeer::connect_from("127.0.0.67", scene.server, old).await.err().unwrap();
        assert!(error.to_string().contains("ProtocolVersion"), "{error}");
        let web = tls_client(&[&TLS13], &[b"h2", b"http/1.1"]);
        let error = TlsPeer::connect_from("127.0.0.68", scene.server, web).await.err().unwrap();
        assert!(error.to_string().contains("NoApplicationProtocol"), "{error}");
        // One that names no protocol at all gets through TLS, and not a byte further.
        let silent = tls_client(&[&TLS13], &[]);
        let mut peer = TlsPeer::connect_from("127.0.0.69", scene.server, silent).await.unwrap();
        assert_eq!(peer.receive().await, None);
        let log = Log::start();
        log.line(&["127.0.0.69", "speaks another protocol over TLS (no ALPN 'weftline')"]).await;
        log.line(&["TLS with 127.0.0.67", "peer is incompatible"]).await;
        log.line(&["TLS with 127.0.0.68", "any known protocol"]).await;
        scene.victim.goes_on().await;
    })
    .await;
}

#[tokio::test]
async fn plaintext_is_no_way_round_tls() {
    patiently(async {
        let mut scene = Scene::set().await;
        let mut said = PREAMBLE.to_vec();
        let mut record = bytes::BytesMut::new();
        Record::Hello(hello()).encode(&mut record);
        said.extend_from_slice(&record);
        let answer = say_all("127.0.0.66", scene.server, &said).await;
        assert!(contains(&answer, b"this server wants TLS"), "{}", answer.escape_ascii());
        // Nor does a client that was told to use TLS give in to a relay that speaks plaintext.
        let relay = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = relay.local_addr().unwrap();
        tokio::spawn(async move {
            loop {
                let (mut stream, _) = relay.accept().await.unwrap();
                let mut record = bytes::BytesMut::from(PREAMBLE);
                let reply = hello_reply([1; 16], [2; 32]);
                Record::HelloReply(reply).encode(&mut record);
                let _ = stream.write_all(&record).await;
                let mut heard = Vec::new();
                let _ = stream.read_to_end(&mut heard).await;
                assert!(!contains(&heard, PREAMBLE), "the client spoke plaintext");
            }
        });
        let (_, trust) = pair(Security::Tls);
        let error = two_paths(trust).server(fake).build().unwrap().connect().await.unwrap_err();
        assert!(matches!(error, weftline::Error::PeerNotTls { .. }), "{error}");
        scene.victim.goes_on().await;
    })
    .await;
}

/// Garbage at a record's border, inside a record, and a record that was heard before.
#[tokio::test]
async fn what_is_slipped_in_costs_a_subflow_and_no_byte() {
    patiently(async {
        let mut scene = Scene::set().await;
        let mut next = 2;
        let replayed = {
            let said = scene.tap.wire(0).await.said_by_client();
            said[said.len() / 2..][..20_000].to_vec()
        };
        let forged = [&[0x17, 3, 3, 0, 64][..], &[0x5a; 64]].concat();
        for garbage in [&b"\0garbage that is no record\0"[..], &replayed, &forged] {
            for to_server in [true, false] {
                let mut events = scene.victim.control.events();
                // The newest wire carries a live subflow.
                let wire = scene.tap.wire(next - 1).await;
                match to_server {
                    true => wire.inject_to_server(garbage),
                    false => wire.inject_to_client(garbage),
                }
                scene.victim.goes_on().await;
                let down = |kind: &PathEventKind| matches!(kind, PathEventKind::Down { .. });
                let ended = loop {
                    let event = events.recv().await.unwrap();
                    if down(&event.kind) {
                        break event;
                    }
                };
                if !to_server {
                    let PathEventKind::Down { reason, .. } = &ended.kind else { unreachable!() };
                    let named = ["corrupt message", "cannot decrypt", "unexpected message"];
                    assert!(named.iter().any(|name| reason.contains(name)), "{reason}");
                }
                let up = |kind: &PathEventKind| matches!(kind, PathEventKind::Up { .. });
                event(&mut events, &ended.name, up).await;
                next += 1;
                scene.victim.goes_on().await;
            }
        }
    })
    .await;
}

/// A server that is asked by hand, and its connections.
fn tls_server() -> (Server, SocketAddr) {
    let (server, _) = pair(Security::Tls);
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    (server, address)
}

#[tokio::test]
async fn a_join_belongs_to_its_secret_and_its_channel() {
    patiently(async {
        let (mut server, address) = tls_server();
        let mut first = TlsPeer::connect(address).await;
        let reply = first.hello(hello()).await.unwrap();
        let mut victim = server.accept().await;
        let mut stranger = TlsPeer::connect(address).await;
        let stranger_reply = stranger.hello(hello()).await.unwrap();
        let _strangers = server.accept().await;

        let mut refusals = Vec::new();
        // A guess; the victim's number with the stranger's own secret; a proof made on another
        // channel; the proof for another subflow.
        let mut guess = TlsPeer::connect(address).await;
        let made_up = hello_reply([7; 16], [8; 32]);
        refusals.push(guess.join(guess.proven(&made_up, 1)).await.unwrap_err());
        let mut thief = TlsPeer::connect(address).await;
        let mixed = hello_reply(reply.session, stranger_reply.join_secret);
        refusals.push(thief.join(thief.proven(&mixed, 1)).await.unwrap_err());
        let mut moved = TlsPeer::connect(address).await;
        refusals.push(moved.join(first.proven(&reply, 1)).await.unwrap_err());
        let mut renumbered = TlsPeer::connect(address).await;
        let join = Join { subflow: 2, ..renumbered.proven(&reply, 1) };
        refusals.push(renumbered.join(join).await.unwrap_err());
        // Nothing tells one from another.
        assert_eq!(refusals[0].code, refusal::JOIN);
        assert!(refusals.iter().all(|other| *other == refusals[0]), "{refusals:?}");

        let mut second = TlsPeer::connect(address).await;
        let join = second.proven(&reply, 1);
        second.join(join.clone()).await.unwrap();
        // The same again, on the same secret: not even the owner may use a number twice.
        let mut again = TlsPeer::connect(address).await;
        assert_eq!(again.join(join).await.unwrap_err().code, refusal::JOIN);
        let mut reused = TlsPeer::connect(address).await;
        let join = reused.proven(&reply, 1);
        assert_eq!(reused.join(join).await.unwrap_err().code, refusal::SUBFLOW);
        // The victim did not notice.
        assert!(victim.error().is_none());
        let payload = bytes::Bytes::from_static(b"still here");
        first.say(&[Record::Data(weftline_core::wire::Data { offset: 0, payload })]).await;
        let mut got = [0; 10];
        victim.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"still here");
    })
    .await;
}

/// The client has given up the older one for the newer.
#[tokio::test]
async fn a_join_that_was_held_up_does_not_end_the_path_s_newer_subflow() {
    patiently(async {
        let (mut server, address) = tls_server();
        let mut first = TlsPeer::connect(address).await;
        let reply = first.hello(hello()).await.unwrap();
        let mut there = server.accept().await;
        let mut newer = TlsPeer::connect(address).await;
        let join = Join { path: 1, ..newer.proven(&reply, 6) };
        newer.join(join).await.unwrap();
        let mut older = TlsPeer::connect(address).await;
        let join = Join { path: 1, ..older.proven(&reply, 5) };
        let refused = older.join(join).await.unwrap_err();
        assert_eq!(refused.code, refusal::SUBFLOW, "{refused:?}");
        // On another path any number that is new will do.
        let mut other = TlsPeer::connect(address).await;
        let join = Join { path: 2, ..other.proven(&reply, 4) };
        other.join(join).await.unwrap();
        let payload = bytes::Bytes::from_static(b"still here");
        newer.say(&[Record::Data(weftline_core::wire::Data { offset: 0, payload })]).await;
        let mut got = [0; 10];
        there.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"still here");
    })
    .await;
}

/// A captive portal, or a relay that breaks TLS open with a certificate of its own.
#[tokio::test]
async fn a_relay_with_its_own_certificate_is_named_and_gets_no_path() {
    patiently(async {
        let (server, trust) = pair(Security::Tls);
        let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let (portal, _) = pair(Security::Tls);
        let portal = portal.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let client =
            two_paths(trust).server(server.local_addrs()[0]).server(portal.local_addrs()[0]);
        echo(server);
        echo(portal);
        let connection = client.build().unwrap().connect().await.unwrap();
        let mut events = connection.events();
        let mut victim = Victim::new(connection);
        victim.goes_on().await;
        let failed = |kind: &PathEventKind| matches!(kind, PathEventKind::AttemptFailed { .. });
        let told = event(&mut events, "two", failed).await;
        assert!(told.to_string().contains("has the fingerprint"), "{told}");
        victim.goes_on().await;
        assert_eq!(victim.control.stats().names.len(), 1);
    })
    .await;
}
