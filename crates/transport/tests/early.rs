//! What is written before the server has answered: it goes out with the question, arrives once and
//! in order whatever becomes of the answer, and not at all if the server says no.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use bytes::Bytes;
use common::attack::{Heard, TlsPeer, hello, hello_reply};
use common::{Security, pair, patient, patiently, pattern, refusing, server_and_client, two_paths};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use weftline::{
    Client, ClientBuilder, Connection, Error, Forwarder, Limits, LocalService, Server, Target,
    Token, refusal, status,
};
use weftline_core::session::RESET_ABANDONED;
use weftline_core::wire::{
    Ack, Data, Hello, HelloNonce, INITIAL_CREDIT, Preamble, Record, Refusal,
};

const BOTH: [Security; 2] = [Security::Plain, Security::Tls];

/// The failure of a connection, as a call on it returned it.
fn cause(error: std::io::Error) -> Arc<Error> {
    *error.into_inner().unwrap().downcast::<Arc<Error>>().unwrap()
}

async fn read_all(connection: &mut Connection) -> Vec<u8> {
    let mut all = Vec::new();
    connection.read_to_end(&mut all).await.unwrap();
    all
}

/// Opens another connection and makes sure that it is the next that the server accepts.
async fn check_next(server: &mut Server, client: &Client) {
    let mut here = client.open().await.unwrap();
    here.write_all(b"the next").await.unwrap();
    here.shutdown().await.unwrap();
    let mut there = server.accept().await;
    assert_eq!(read_all(&mut there).await, b"the next");
}

/// A relay whose first connection passes nothing to the client any more once the client has spoken
/// so often; it breaks when the sender is used. Later connections pass everything.
async fn forgetful(target: SocketAddr, words: usize) -> (SocketAddr, oneshot::Sender<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (cut, cutting) = oneshot::channel();
    tokio::spawn(async move {
        let (client, _) = listener.accept().await.unwrap();
        let server = TcpStream::connect(target).await.unwrap();
        let (mut client_in, mut client_out) = client.into_split();
        let (mut server_in, mut server_out) = server.into_split();
        let heard = AtomicUsize::new(0);
        let to_server = async {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(n @ 1..) = client_in.read(&mut buffer).await {
                heard.fetch_add(1, Ordering::SeqCst);
                server_out.write_all(&buffer[..n]).await.unwrap();
            }
            std::future::pending::<()>().await;
        };
        let to_client = async {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(n @ 1..) = server_in.read(&mut buffer).await {
                if heard.load(Ordering::SeqCst) < words {
                    client_out.write_all(&buffer[..n]).await.unwrap();
                }
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = to_server => {}
            () = to_client => {}
            _ = cutting => {}
        }
        client_in.reunite(client_out).unwrap().set_zero_linger().unwrap();
        server_in.reunite(server_out).unwrap().set_zero_linger().unwrap();
        loop {
            let (mut client, _) = listener.accept().await.unwrap();
            let mut server = TcpStream::connect(target).await.unwrap();
            tokio::spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    (address, cut)
}

/// A server, a client with one path to it through a forgetful relay, one that goes directly, and
/// what breaks the relay. The relay lets TLS through and not the answer to the hello.
async fn scene(security: Security) -> (Server, Client, Client, oneshot::Sender<()>) {
    let (server, trust) = pair(security);
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    // The client hello, and what follows the server's.
    let words = if security == Security::Tls { 2 } else { 0 };
    let (relay, cut) = forgetful(address, words).await;
    let through = Client::builder().security(trust.clone()).seed(1).server(relay).build().unwrap();
    let direct = two_paths(trust).server(address).build().unwrap();
    (server, through, direct, cut)
}

#[tokio::test]
async fn a_path_that_swallows_the_hello_keeps_the_other_for_a_short_time_only() {
    patiently(async {
        let (server, client) = pair(Security::Plain);
        let mut server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let target = server.local_addrs()[0];
        let dark = TcpListener::bind("127.0.0.1:0").await.unwrap();
        // Reached only when the hello is lost.
        let (late, behind) = refusing();
        let client = two_paths(client).server(dark.local_addr().unwrap()).server(behind);
        let client = client.handshake_timeout(Duration::from_secs(3600));
        tokio::spawn(async move {
            let (mut swallowed, _) = dark.accept().await.unwrap();
            swallowed.read_exact(&mut [0; 8]).await.unwrap();
            late.listen(8).unwrap();
            late.set_nonblocking(true).unwrap();
            let late = TcpListener::from_std(late.into()).unwrap();
            loop {
                let (mut client, _) = late.accept().await.unwrap();
                let mut server = TcpStream::connect(target).await.unwrap();
                tokio::spawn(async move {
                    let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                });
            }
        });
        let mut here = client.build().unwrap().open().await.unwrap();
        here.write_all(b"heard").await.unwrap();
        here.shutdown().await.unwrap();
        assert_eq!(read_all(&mut server.accept().await).await, b"heard");
    })
    .await;
}

#[tokio::test]
async fn a_request_arrives_without_any_answer_and_only_once() {
    for security in BOTH {
        patiently(async {
            let (mut server, client, direct, cut) = scene(security).await;
            let mut here = client.open().await.unwrap();
            // As much as may be sent before the server has said anything.
            let request = pattern(INITIAL_CREDIT as usize, 1);
            here.write_all(&request).await.unwrap();
            here.shutdown().await.unwrap();
            // All of it is there, though the server has not been heard to say anything.
            let mut there = server.accept().await;
            assert!(read_all(&mut there).await == request, "{security:?}");
            assert_eq!(here.stats().session.acknowledged, 0, "{security:?}");
            // The answer is lost with its subflow. The client asks again.
            cut.send(()).unwrap();
            here.established().await.unwrap();
            there.write_all(b"an answer").await.unwrap();
            there.shutdown().await.unwrap();
            assert_eq!(read_all(&mut here).await, b"an answer", "{security:?}");
            here.closed().await.unwrap();
            there.closed().await.unwrap();
            assert_eq!(here.stats().session.acknowledged, INITIAL_CREDIT, "{security:?}");
            // It was the same connection: there is no other.
            check_next(&mut server, &direct).await;
        })
        .await;
    }
}

#[tokio::test]
async fn a_server_that_waits_for_the_request_gets_it() {
    patiently(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let client = Client::builder().security(pair(Security::Plain).1).server(address);
        let mut here = client.build().unwrap().open().await.unwrap();
        let request = pattern(10_000, 2);
        here.write_all(&request).await.unwrap();
        let (mut there, _) = listener.accept().await.unwrap();
        let mut heard = Heard::default();
        let hello = heard.next(&mut there).await.unwrap();
        assert!(matches!(hello, Record::Hello(_)), "{hello:?}");
        let mut got = Vec::new();
        while got.len() < request.len() {
            if let Record::Data(data) = heard.next(&mut there).await.unwrap() {
                assert_eq!(data.offset, got.len() as u64, "in order, and once");
                got.extend_from_slice(&data.payload);
            }
        }
        assert!(got == request);
        // The answer, and data right behind it.
        let mut out = bytes::BytesMut::from(&Preamble::OURS.encode()[..]);
        Record::HelloReply(hello_reply([1; 16], [2; 32])).encode(&mut out);
        Record::Data(Data { offset: 0, payload: Bytes::from_static(b"so soon") }).encode(&mut out);
        there.write_all(&out).await.unwrap();
        let mut back = [0; 7];
        here.read_exact(&mut back).await.unwrap();
        assert_eq!(&back, b"so soon");
    })
    .await;
}

#[tokio::test]
async fn a_server_answers_a_hello_and_the_data_behind_it_at_once() {
    patiently(async {
        let (mut server, client) = server_and_client(Security::Tls);
        let address = server.local_addrs()[0];
        drop(client);
        let mut peer = TlsPeer::connect(address).await;
        let payload = Bytes::from_static(b"a request");
        let data = Record::Data(Data { offset: 0, payload });
        peer.open(&[Record::Hello(hello()), data, Record::Fin(9)]).await;
        let mut there = server.accept().await;
        assert_eq!(read_all(&mut there).await, b"a request");
        there.write_all(b"an answer").await.unwrap();
        // The peer has not said another word.
        assert!(matches!(peer.receive().await, Some(Record::HelloReply(_))));
        loop {
            match peer.receive().await.unwrap() {
                Record::Data(data) => break assert_eq!(&data.payload[..], b"an answer"),
                Record::Refusal(refusal) => panic!("{refusal:?}"),
                _ => {}
            }
        }
    })
    .await;
}

#[tokio::test]
async fn who_speaks_first_does_not_matter() {
    for security in BOTH {
        patiently(async {
            let (mut server, client) = server_and_client(security);
            let client = client.build().unwrap();
            let mut here = client.open().await.unwrap();
            let mut there = server.accept().await;
            there.write_all(b"welcome").await.unwrap();
            let mut word = [0; 7];
            here.read_exact(&mut word).await.unwrap();
            assert_eq!(&word, b"welcome");
            here.established().await.unwrap();
        })
        .await;
    }
}

fn token(text: &str) -> Token {
    Token::named("somebody", text).unwrap()
}

/// A server with a token and these limits, and a client that needs one.
fn guarded(security: Security, limits: Limits) -> (Server, ClientBuilder) {
    let (server, trust) = pair(security);
    let server = server.limits(limits).token(token("the long secret of somebody"));
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let client = two_paths(trust).server(server.local_addrs()[0]);
    (server, client)
}

#[tokio::test]
async fn nothing_is_delivered_of_what_a_refused_client_wrote() {
    for security in BOTH {
        patiently(async {
            let (mut server, client) = guarded(security, patient());
            let right = client.clone().token(token("the long secret of somebody"));
            let right = right.build().unwrap();
            for wrong in [client.clone(), client.token(token("a guess at the long secret"))] {
                let mut refused = wrong.build().unwrap().open().await.unwrap();
                // More than goes out before the answer; it may come while this is written.
                let _ = refused.write_all(&pattern(3_000_000, 3)).await;
                let control = refused.control();
                let error = refused.read_u8().await.unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::ConnectionRefused, "{error}");
                let error = control.established().await.unwrap_err();
                let code = |error: &Error| match error {
                    Error::Refused { code, .. } => Some(*code),
                    _ => None,
                };
                assert_eq!(code(&error), Some(refusal::TOKEN), "{security:?}: {error}");
                assert_eq!(control.stats().session.acknowledged, 0);
                // Letting go of it says nothing more.
                drop(refused);
                control.closed().await.unwrap_err();
                check_next(&mut server, &right).await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn a_full_server_says_so_to_who_has_written_already() {
    patiently(async {
        let limits =
            Limits { sessions: 1, sessions_per_source: 1, sessions_per_client: 1, ..patient() };
        let (mut server, client) = guarded(Security::Tls, limits);
        let client = client.token(token("the long secret of somebody")).build().unwrap();
        let mut first = client.open().await.unwrap();
        let mut there = server.accept().await;
        let mut second = client.open().await.unwrap();
        second.write_all(b"too much").await.unwrap();
        let error = cause(second.read_u8().await.unwrap_err());
        assert!(matches!(*error, Error::Refused { code: refusal::BUSY, .. }), "{error}");
        // The first one is not touched.
        first.write_all(b"goes on").await.unwrap();
        first.shutdown().await.unwrap();
        assert_eq!(read_all(&mut there).await, b"goes on");
    })
    .await;
}

#[tokio::test]
async fn letting_go_before_the_answer_is_as_after_it() {
    for security in BOTH {
        patiently(async {
            // Finished: it is delivered.
            let (mut server, client, _, cut) = scene(security).await;
            let mut here = client.open().await.unwrap();
            here.write_all(b"the last will").await.unwrap();
            here.shutdown().await.unwrap();
            drop(here);
            let mut there = server.accept().await;
            assert_eq!(read_all(&mut there).await, b"the last will");
            there.shutdown().await.unwrap();
            cut.send(()).unwrap();
            there.closed().await.unwrap();
            // Not finished: it is reset.
            let (mut server, client, _, _cut) = scene(security).await;
            let mut here = client.open().await.unwrap();
            here.write_all(b"half a sen").await.unwrap();
            let mut there = server.accept().await;
            let mut half = [0; 10];
            there.read_exact(&mut half).await.unwrap();
            drop(here);
            let error = cause(there.read_u8().await.unwrap_err());
            let is_it = matches!(*error, Error::Reset { code: RESET_ABANDONED, .. });
            assert!(is_it, "{security:?}: {error}");
        })
        .await;
    }
}

#[tokio::test]
async fn giving_up_connecting_tells_the_server() {
    patiently(async {
        let (mut server, client, direct, _cut) = scene(Security::Tls).await;
        let connecting = tokio::spawn(async move { client.connect().await });
        // It waits for an answer that does not get through.
        let mut there = server.accept().await;
        connecting.abort();
        let error = cause(there.read_u8().await.unwrap_err());
        assert!(matches!(*error, Error::Reset { code: RESET_ABANDONED, .. }), "{error}");
        check_next(&mut server, &direct).await;
    })
    .await;
}

/// The connection was there, and whoever waited for it has gone without a look.
#[tokio::test]
async fn giving_up_once_it_is_answered_tells_the_server() {
    patiently(async {
        let (mut server, client) = server_and_client(Security::Tls);
        let client = client.build().unwrap();
        let address = server.local_addrs()[0];
        for stage in 0..2 {
            let mut connecting: Pin<Box<dyn Future<Output = _> + Send>> = match stage {
                0 => Box::pin(client.connect()),
                _ => Box::pin(client.open()),
            };
            // It has begun, and is not asked again.
            assert!(connecting.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            let is_there = || status::connections().iter().any(|one| one.peer_addr() == address);
            while !is_there() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            let mut there = server.accept().await;
            drop(connecting);
            let error = cause(there.read_u8().await.unwrap_err());
            assert!(matches!(*error, Error::Reset { code: RESET_ABANDONED, .. }), "{error}");
            while is_there() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    })
    .await;
}

/// A hello with `secret`'s token on the peer's own channel.
fn once_more(peer: &TlsPeer, secret: &str, subflow: u64, nonce: u8) -> Hello {
    let nonce = HelloNonce([nonce; 16]);
    Hello { token: peer.token(secret), subflow, path: subflow, nonce, ..hello() }
}

#[tokio::test]
async fn a_hello_said_again_joins_the_connection_of_the_same_client_only() {
    patiently(async {
        let (server, _) = pair(Security::Tls);
        let (alice, bob) = ("the long secret of alice", "the long secret of bob");
        let server = server.token(Token::named("alice", alice).unwrap());
        let server = server.token(Token::named("bob", bob).unwrap());
        let mut server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = server.local_addrs()[0];
        let say = async |secret: &str, subflow: u64, nonce: u8| {
            let mut peer = TlsPeer::connect(address).await;
            let hello = once_more(&peer, secret, subflow, nonce);
            let reply = peer.hello(hello).await;
            (peer, reply)
        };
        let (_first, reply) = say(alice, 0, 1).await;
        let reply = reply.unwrap();
        let there = server.accept().await;
        let (_again, same) = say(alice, 1, 1).await;
        assert_eq!(same.unwrap(), reply);
        let (_, used) = say(alice, 1, 1).await;
        assert_eq!(used.unwrap_err().code, refusal::SUBFLOW);
        let (_, stolen) = say(bob, 2, 1).await;
        assert_eq!(stolen.unwrap_err().code, refusal::JOIN);
        let (_other, other) = say(bob, 0, 2).await;
        assert!(other.unwrap().session != reply.session);
        assert_eq!(server.accept().await.client(), Some("bob"));
        // A connection that has failed is not opened a second time.
        there.abort(77, "no");
        there.closed().await.unwrap_err();
        let late: Refusal = loop {
            let (_, late) = say(alice, 3, 1).await;
            match late {
                // It is on its way out.
                Ok(reply_again) => assert_eq!(reply_again, reply),
                Err(refusal) if refusal.reason.contains("failed") => break refusal,
                Err(refusal) => assert_eq!(refusal.code, refusal::SUBFLOW),
            }
        };
        assert_eq!(late.code, refusal::JOIN);
    })
    .await;
}

/// What came with it would be delivered a second time.
#[tokio::test]
async fn a_hello_that_was_held_up_until_its_connection_was_closed_opens_no_other() {
    patiently(async {
        let (server, trust) = pair(Security::Tls);
        let server = server.limits(patient());
        let mut server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = server.local_addrs()[0];
        let say = async |subflow: u64| {
            let mut peer = TlsPeer::connect(address).await;
            let nonce = HelloNonce([5; 16]);
            let hello = Hello { subflow, path: subflow, nonce, ..hello() };
            let data = Data { offset: 0, payload: Bytes::from_static(b"a request") };
            peer.open(&[Record::Hello(hello), Record::Data(data), Record::Fin(9)]).await;
            loop {
                match peer.receive().await.unwrap() {
                    Record::HelloReply(reply) => break (peer, Ok(reply)),
                    Record::Refusal(refusal) => break (peer, Err(refusal)),
                    _ => {}
                }
            }
        };
        let (mut peer, reply) = say(0).await;
        let mut there = server.accept().await;
        assert_eq!(read_all(&mut there).await, b"a request");
        there.shutdown().await.unwrap();
        peer.say(&[Record::Ack(Ack { fin: true, credit: 1 << 20, ..Ack::default() })]).await;
        while peer.receive().await.is_some() {}
        peer.close().await;
        there.closed().await.unwrap();
        let mut number = 1;
        let refused = loop {
            match say(number).await.1 {
                // It is on its way out.
                Ok(again) => assert_eq!(Ok(again), reply),
                Err(refusal) => break refusal,
            }
            number += 1;
        };
        let said = (refused.code, &*refused.reason);
        assert_eq!(said, (refusal::JOIN, "this connection is over"));
        check_next(&mut server, &two_paths(trust).server(address).build().unwrap()).await;
    })
    .await;
}

#[tokio::test]
async fn a_proxy_without_ready_connections_carries_either_side_s_first_words() {
    patiently(async {
        for speaks_first in [true, false] {
            let (server, client) = server_and_client(Security::Tls);
            let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let to = Target::Fixed(target.local_addr().unwrap().into());
            tokio::spawn(weftline::serve(
                server,
                to,
                std::future::pending(),
                std::future::pending(),
            ));
            let local = "127.0.0.1:0".parse().unwrap();
            let service = LocalService::Forward;
            let forwarder = Forwarder::bind(client.build().unwrap(), local, service, 0).await;
            let forwarder = forwarder.unwrap();
            let proxy = forwarder.local_addr();
            tokio::spawn(forwarder.run(std::future::pending(), std::future::pending()));
            let mut program = TcpStream::connect(proxy).await.unwrap();
            let (mut one, mut other) = match speaks_first {
                true => (target.accept().await.unwrap().0, program),
                false => {
                    program.write_all(b"a word").await.unwrap();
                    (program, target.accept().await.unwrap().0)
                }
            };
            if speaks_first {
                one.write_all(b"a word").await.unwrap();
            }
            let mut word = [0; 6];
            other.read_exact(&mut word).await.unwrap();
            assert_eq!(&word, b"a word");
            other.write_all(b"its answer").await.unwrap();
            let mut word = [0; 10];
            one.read_exact(&mut word).await.unwrap();
            assert_eq!(&word, b"its answer");
        }
    })
    .await;
}
