//! Floods, guesses and greed: what a server gives each peer, and that the others do not notice.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::attack::{Log, TlsPeer, hello, tcp_from, tls_client};
use common::{Security, check_echo, echo, exchange, pair, patient, patiently, pattern, two_paths};
use tokio::io::AsyncReadExt;
use tokio::task::JoinSet;
use weftline::{ClientBuilder, Error, Limits, MemoryBudget, Server, ServerBuilder, Token, refusal};
use weftline_core::ByteCount;
use weftline_core::wire::Hello;

/// A server as `change` makes it, and a client that fits.
fn serve(
    change: impl FnOnce(ServerBuilder) -> ServerBuilder,
) -> (Server, SocketAddr, ClientBuilder) {
    Log::start();
    let (server, client) = pair(Security::Tls);
    let server = change(server).bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    (server, address, two_paths(client).server(address))
}

/// Who forgets the runtime reads what is missing.
#[test]
fn outside_a_runtime_there_is_an_error_and_no_panic() {
    let (server, trust) = pair(Security::Tls);
    let error = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap_err();
    assert!(matches!(&error, Error::Invalid(why) if why.contains("tokio runtime")), "{error}");
    let client = two_paths(trust).server("127.0.0.1:1".parse::<SocketAddr>().unwrap());
    let client = client.build().unwrap();
    let mut nobody = Context::from_waker(Waker::noop());
    for is_open in [false, true] {
        let connect = async { if is_open { client.open().await } else { client.connect().await } };
        match pin!(connect).poll(&mut nobody) {
            Poll::Ready(Err(Error::Invalid(why))) => {
                assert!(why.contains("tokio runtime"), "{why}");
            }
            other => panic!("{other:?}"),
        }
    }
}

async fn peer_from(source: &str, server: SocketAddr) -> TlsPeer {
    let config = tls_client(&[&rustls::version::TLS13], &[b"weftline"]);
    TlsPeer::connect_from(source, server, config).await.unwrap()
}

fn token(name: &str) -> Token {
    Token::named(name, &secret(name)).unwrap()
}

fn secret(name: &str) -> String {
    format!("the long secret of {name}")
}

#[tokio::test]
async fn a_flood_of_handshakes_keeps_nobody_out() {
    // Nothing here ends by time: who gets in does so because the slowest make room.
    let limits = Limits {
        handshakes: 8,
        handshakes_per_source: 4,
        handshake_timeout: Duration::from_secs(3600),
        ..Limits::default()
    };
    let (server, address, client) = serve(|server| server.limits(limits));
    let client = client.build().unwrap();
    echo(server);
    patiently(async {
        let victim = client.connect().await.unwrap();
        let mut flood = Vec::new();
        for number in 1..=40 {
            flood.push(tcp_from(&format!("127.0.1.{number}"), address).await);
        }
        let data = pattern(3_000_000, 1);
        assert!(exchange(victim, data.clone()).await.0 == data);
        check_echo(&client, 100_000).await;
        // The oldest are closed, and the log says why.
        assert_eq!(flood[0].read(&mut [0; 1]).await.unwrap_or(0), 0);
        Log::start().line(&["127.0.1.1:", "slow in the handshake"]).await;
        // Who has the most makes room first, however young.
        let mut many = Vec::new();
        for _ in 0..4 {
            many.push(tcp_from("127.0.2.1", address).await);
        }
        assert_eq!(many[0].read(&mut [0; 1]).await.unwrap_or(0), 0);
    })
    .await;
}

#[tokio::test]
async fn every_wrong_token_gets_the_same_answer_and_not_for_ever() {
    let limits = Limits { failures_per_source: 4, ..patient() };
    let (mut server, address, _) =
        serve(|server| server.limits(limits).token(token("alice")).token(token("bob")));
    let guesser = "127.0.0.5";
    let with = |token: bytes::Bytes| Hello { token, ..hello() };
    patiently(async {
        let mut inside = peer_from(guesser, address).await;
        let reply = inside.hello(with(inside.token(&secret("bob")))).await.unwrap();
        assert_eq!(server.accept().await.client(), Some("bob"));
        let elsewhere = inside.token(&secret("alice"));
        let mut refusals = Vec::new();
        for wrong in [&b""[..], b"short", &[7; 32], &elsewhere] {
            let mut peer = peer_from(guesser, address).await;
            refusals
                .push(peer.hello(with(bytes::Bytes::copy_from_slice(wrong))).await.unwrap_err());
        }
        assert_eq!(refusals[0].code, refusal::TOKEN);
        assert!(refusals.iter().all(|other| *other == refusals[0]), "{refusals:?}");
        // The right one is not looked at any more, so that trying tells nothing.
        let mut late = peer_from(guesser, address).await;
        let refused = late.hello(with(late.token(&secret("alice")))).await.unwrap_err();
        assert_eq!(refused.code, refusal::BUSY);
        assert!(refused.reason.contains("too many wrong tokens"), "{refused:?}");
        Log::start().line(&[&late.local.to_string(), "too many wrong tokens"]).await;
        // Others come in as ever, and who is in can add paths.
        let mut other = peer_from("127.0.0.6", address).await;
        other.hello(with(other.token(&secret("alice")))).await.unwrap();
        assert_eq!(server.accept().await.client(), Some("alice"));
        let mut second = peer_from(guesser, address).await;
        second.join(second.proven(&reply, 1)).await.unwrap();
        // So can a client that came in from there before: who guesses beside it locks out nobody.
        let mut again = peer_from(guesser, address).await;
        again.hello(with(again.token(&secret("bob")))).await.unwrap();
        assert_eq!(server.accept().await.client(), Some("bob"));
    })
    .await;
}

#[tokio::test]
async fn one_client_can_be_shut_out_and_the_others_stay() {
    let (server, _, client) = serve(|server| server.token(token("alice")).token(token("bob")));
    let control = server.control();
    echo(server);
    patiently(async {
        let of = |name: &str| client.clone().token(token(name)).build().unwrap();
        let (alice, bob) = (of("alice"), of("bob"));
        let hers = alice.connect().await.unwrap();
        let his = bob.connect().await.unwrap();
        assert!(control.set_tokens(Vec::new()).is_err());
        // He gets a new secret beside the old one; she loses hers.
        let new = Token::named("bob", "another long secret of bob").unwrap();
        assert_eq!(control.set_tokens(vec![token("bob"), new.clone()]).unwrap(), 1);
        let error = hers.closed().await.unwrap_err();
        let code = weftline_core::session::RESET_REVOKED;
        assert!(matches!(*error, Error::Reset { code: c, .. } if c == code), "{error}");
        let error = alice.connect().await.unwrap_err();
        assert!(matches!(error, Error::Refused { code: refusal::TOKEN, .. }), "{error}");
        let data = pattern(1_000_000, 3);
        assert!(exchange(his, data.clone()).await.0 == data);
        // When the old secret goes, so do the connections that were opened with it.
        let his = bob.connect().await.unwrap();
        let renewed = client.clone().token(new.clone()).build().unwrap();
        check_echo(&renewed, 1000).await;
        assert_eq!(control.set_tokens(vec![new]).unwrap(), 1);
        assert!(his.closed().await.is_err());
        check_echo(&renewed, 1000).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_when_many_ask_at_once() {
    let (sessions, sessions_per_client) = (9, 5);
    // These clients are quick enough, however slow the machine.
    let limits = Limits { sessions, sessions_per_client, ..patient() };
    let (mut server, address, _) =
        serve(|server| server.limits(limits).token(token("alice")).token(token("bob")));
    patiently(async {
        for (name, free, reason) in [
            ("alice", 5, "too many connections of this client"),
            ("bob", 4, "too many connections; try again later"),
        ] {
            let mut asking = JoinSet::new();
            for _ in 0..30 {
                asking.spawn(async move {
                    let mut peer = TlsPeer::connect(address).await;
                    let token = peer.token(&secret(name));
                    (peer.hello(Hello { token, ..hello() }).await, peer)
                });
            }
            let answers = asking.join_all().await;
            let (admitted, refused): (Vec<_>, Vec<_>) =
                answers.iter().partition(|(a, _)| a.is_ok());
            assert_eq!(admitted.len(), free, "{name}");
            for (answer, _) in refused {
                let refusal = answer.as_ref().unwrap_err();
                assert_eq!(refusal.code, refusal::BUSY);
                assert!(refusal.reason.contains(reason), "{refusal:?}");
            }
            for _ in 0..free {
                // Held, not dropped: a connection that is over counts no more.
                std::mem::forget(server.accept().await);
            }
            std::mem::forget(answers);
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_has_32_subflows_however_many_ask_at_once() {
    let (mut server, address, _) = serve(|server| server);
    patiently(async {
        let mut first = TlsPeer::connect(address).await;
        let reply = first.hello(hello()).await.unwrap();
        let connection = server.accept().await;
        let mut asking = JoinSet::new();
        for number in 1..=50 {
            let reply = reply.clone();
            asking.spawn(async move {
                let mut peer = TlsPeer::connect(address).await;
                (peer.join(peer.proven(&reply, number)).await, peer)
            });
        }
        let mut answers = asking.join_all().await;
        let live = |answers: &[(Result<(), _>, TlsPeer)]| {
            1 + answers.iter().filter(|(answer, _)| answer.is_ok()).count()
        };
        assert!(live(&answers) <= 32, "{}", live(&answers));
        // One after the other, the rest of the places are taken, and no more.
        for number in 51..=100 {
            let mut peer = TlsPeer::connect(address).await;
            answers.push((peer.join(peer.proven(&reply, number)).await, peer));
        }
        assert_eq!(live(&answers), 32);
        assert!(connection.error().is_none());
    })
    .await;
}

#[tokio::test]
async fn greed_is_refused_when_the_memory_is_used_up() {
    let budget = MemoryBudget::new(ByteCount::mib(32)).unwrap();
    let (server, address, client) = serve(|server| server.memory(budget.clone()));
    echo(server);
    let client = client.build().unwrap();
    patiently(async {
        let victim = client.connect().await.unwrap();
        let mut greedy = Vec::new();
        let refused = loop {
            let mut peer = TlsPeer::connect(address).await;
            match peer.hello(hello()).await {
                Ok(_) => greedy.push(peer),
                Err(refusal) => break refusal,
            }
        };
        assert!(greedy.len() >= 4, "{}", greedy.len());
        assert_eq!(refused.code, refusal::BUSY);
        assert!(refused.reason.contains("the memory for connections is used up (32MiB in all)"));
        assert!(budget.reserved() <= budget.total(), "{}", budget.reserved());
        // Who is in goes on, with what it has.
        let data = pattern(3_000_000, 1);
        assert!(exchange(victim, data.clone()).await.0 == data);
        assert!(budget.reserved() <= budget.total(), "{}", budget.reserved());
        // And when the greedy are gone there is room again.
        drop(greedy);
        loop {
            match client.connect().await {
                Ok(connection) => {
                    assert!(exchange(connection, data.clone()).await.0 == data);
                    break;
                }
                Err(Error::Refused { code: refusal::BUSY, .. }) => {}
                Err(other) => panic!("{other}"),
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_keeps_to_its_memory_too() {
    let (server, _, client) = serve(|server| server);
    echo(server);
    let budget = MemoryBudget::new(ByteCount::mib(16)).unwrap();
    let client = client.memory(budget.clone()).build().unwrap();
    patiently(async {
        let mut open = Vec::new();
        let error = loop {
            match client.connect().await {
                Ok(connection) => open.push(connection),
                Err(error) => break error,
            }
        };
        assert!(matches!(error, Error::MemoryUsedUp { .. }), "{error}");
        assert!(!error.is_permanent() && !open.is_empty());
        let data = pattern(2_000_000, 5);
        let (back, control) = exchange(open.pop().unwrap(), data.clone()).await;
        assert!(back == data);
        drop((control, open));
        while budget.reserved() > ByteCount::new(0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// A list that becomes shorter holds for connections to come: those there are keep their paths.
#[tokio::test]
async fn a_shorter_list_of_congestion_controls_does_not_end_joins() {
    let controls = weftline::congestion_controls();
    let Some(other) = controls.into_iter().find(|name| name != "reno") else {
        eprintln!("this kernel has reno only: nothing to test");
        return;
    };
    let (server, _) = pair(Security::Tls);
    let list = |names: &[&str]| server.clone().allow_congestion(names.iter().copied());
    let reno = || Hello { congestion: "reno".into(), ..hello() };
    let mut bound = list(&["reno", &other]).bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = bound.local_addrs()[0];
    patiently(async {
        let mut first = TlsPeer::connect(address).await;
        let reply = first.hello(reno()).await.unwrap();
        let _connection = bound.accept().await;
        bound.control().reload(list(&[&other])).unwrap();
        let mut late = TlsPeer::connect(address).await;
        let refused = late.hello(reno()).await.unwrap_err();
        assert_eq!(refused.code, refusal::CONGESTION, "{refused:?}");
        let mut second = TlsPeer::connect(address).await;
        second.join(second.proven(&reply, 1)).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn bounds_that_make_no_sense_are_refused() {
    let (_, _, client) = serve(|server| server);
    for (builder, message) in [
        (client.clone().window(ByteCount::new(0)), "a window is 1448B to 1GiB, 0B is not"),
        (client.clone().window(ByteCount::mib(2048)), "2GiB is not"),
        (client.clone().max_memory(ByteCount::new(0)), "a connection's memory is 256KiB to 64GiB"),
        (client.clone().max_memory(ByteCount::mib(1 << 20)), "1024GiB is not"),
    ] {
        let error = builder.build().map(drop).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let (server, _) = pair(Security::Plain);
    let address = ["127.0.0.1:0".parse().unwrap()];
    let error = server.clone().max_memory(ByteCount::kib(1)).bind(&address).unwrap_err();
    assert!(error.to_string().contains("1KiB is not"), "{error}");
    let limits = Limits { handshakes: 0, ..Limits::default() };
    let error = server.limits(limits).bind(&address).unwrap_err();
    assert!(error.to_string().contains("a limit of 0 handshakes"), "{error}");
}

/// A browser opens many connections in a moment: the client takes no more handshakes at a time
/// than any server allows one source.
#[tokio::test]
async fn many_connections_at_once_all_come_through() {
    patiently(async {
        let (server, _, client) = serve(|server| server);
        echo(server);
        let client = Arc::new(client.build().unwrap());
        let mut all = JoinSet::new();
        for _ in 0..150 {
            let client = Arc::clone(&client);
            all.spawn(async move { check_echo(&client, 1000).await });
        }
        all.join_all().await;
    })
    .await;
}
