//! Connections in bad company and on odd networks: readers that do not read beside one that does,
//! a peer that is half gone, paths of both address families, and any preface at all.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use common::attack::{Heard, hello, hello_reply, said};
use common::{
    Relay, Security, check_echo, echo, pair, patient, patiently, pattern, raise_file_limit,
    transfer, two_paths,
};
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use weftline::{Bind, Client, Error, Limits, MemoryBudget, PathConfig, Server};
use weftline_core::ByteCount;
use weftline_core::wire::{Data, Hello, Join, Record};

const LOOPBACK: &str = "127.0.0.1:0";

#[tokio::test(flavor = "multi_thread")]
async fn readers_that_do_not_read_hold_up_nobody_else() {
    const SLOW: usize = 8;
    let budget = MemoryBudget::new(ByteCount::mib(128)).unwrap();
    let each = ByteCount::mib(4);
    let (server, trust) = pair(Security::Tls);
    let server = server.memory(budget.clone()).max_memory(each);
    let mut server = server.bind(&[LOOPBACK.parse().unwrap()]).unwrap();
    let client = two_paths(trust).server(server.local_addrs()[0]).max_memory(each);
    let client = client.build().unwrap();
    patiently(async {
        // Each is sent as much as the server takes for it, and reads nothing.
        let data = pattern(32 << 20, 3);
        let mut slow = Vec::new();
        let mut writers = Vec::new();
        for _ in 0..SLOW {
            slow.push(client.connect().await.unwrap());
            let mut there = server.accept().await;
            let data = data.clone();
            let (told, mut begun) = tokio::sync::watch::channel(0);
            writers.push(tokio::spawn(async move {
                for (number, part) in data.chunks(64 << 10).enumerate() {
                    there.write_all(part).await.unwrap();
                    told.send_replace(number);
                }
                there.shutdown().await.unwrap();
                there.closed().await
            }));
            begun.wait_for(|written| *written > 0).await.unwrap();
        }
        let mut fast = client.connect().await.unwrap();
        let mut there = server.accept().await;
        for round in 0..4 {
            transfer(&mut there, &mut fast, &pattern(5_000_000, round)).await;
            transfer(&mut fast, &mut there, &pattern(1_000_000, round)).await;
            assert!(budget.reserved() <= budget.total(), "{}", budget.reserved());
        }
        assert!(writers.iter().all(|writer| !writer.is_finished()), "nobody has read anything");
        // Who reads at last has lost nothing.
        let mut late = slow.pop().unwrap();
        let mut got = Vec::new();
        late.read_to_end(&mut got).await.unwrap();
        assert!(got == data);
        late.shutdown().await.unwrap();
        writers.pop().unwrap().await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_is_half_gone_ends_within_the_grace_and_nobody_else_notices() {
    let grace = Duration::from_millis(300);
    let (server, trust) = pair(Security::Plain);
    let mut server = server.grace(grace).bind(&[LOOPBACK.parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    patiently(async {
        let mut peer = TcpStream::connect(address).await.unwrap();
        peer.write_all(&said(&[Record::Hello(hello())])).await.unwrap();
        let mut heard = Heard::default();
        assert!(matches!(heard.next(&mut peer).await, Some(Record::HelloReply(_))));
        let victim = server.accept().await;
        echo(server);
        // It says that nothing more comes, and stays.
        peer.shutdown().await.unwrap();
        let error = victim.closed().await.unwrap_err();
        assert!(matches!(&*error, Error::NoPath { after, .. } if *after == grace), "{error}");
        while heard.next(&mut peer).await.is_some() {}
        check_echo(&two_paths(trust).server(address).build().unwrap(), 100_000).await;
    })
    .await;
}

/// What is between the two ends takes everything and passes nothing on, and the kernels on both
/// sides of it acknowledge: no socket ever fails.
#[tokio::test(flavor = "multi_thread")]
async fn connections_behind_a_relay_that_swallows_everything_end_at_both_ends() {
    const COUNT: usize = 100;
    // A connection and the relay have four of each path, and as many when it is dialled anew.
    raise_file_limit();
    let timeout = Duration::from_secs(3);
    for security in [Security::Plain, Security::Tls] {
        let (server, trust) = pair(security);
        let server = server.idle_timeout(timeout).bind(&[LOOPBACK.parse().unwrap()]);
        let mut server = server.unwrap();
        let address = server.local_addrs()[0];
        patiently(async {
            loop {
                let relay = Relay::start(address).await;
                let client = two_paths(trust.clone()).server(relay.address).idle_timeout(timeout);
                let client = client.build().unwrap();
                let mut ends = Vec::new();
                for _ in 0..COUNT {
                    ends.push(client.connect().await.unwrap());
                    ends.push(server.accept().await);
                }
                relay.swallow();
                let mut heard = 0;
                for end in &ends {
                    let error = end.closed().await.unwrap_err();
                    match &*error {
                        Error::PeerLost { after, .. } if *after == timeout => {}
                        // The other end gave up before the relay swallowed: no processor for so long.
                        Error::Reset { reason, .. }
                            if reason.contains("has not answered for 3s") =>
                        {
                            heard += 1;
                        }
                        _ => panic!("{error}"),
                    }
                }
                if heard == 0 {
                    break;
                }
            }
        })
        .await;
    }
}

/// Data that came and come no more are asked after once: the answer is no data.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_client_does_not_ask_for_ever() {
    let listener = tokio::net::TcpListener::bind(LOOPBACK).await.unwrap();
    let client = Client::builder().security(weftline::ClientSecurity::InsecurePlaintext);
    let client = client.server(listener.local_addr().unwrap()).build().unwrap();
    patiently(async {
        let (connection, accepted) = tokio::join!(client.connect(), async {
            let (mut peer, _) = listener.accept().await.unwrap();
            let mut heard = Heard::default();
            assert!(matches!(heard.next(&mut peer).await, Some(Record::Hello(_))));
            let payload = Bytes::from_static(b"an answer");
            let data = Record::Data(Data { offset: 0, payload });
            let reply = Record::HelloReply(hello_reply([1; 16], [2; 32]));
            peer.write_all(&said(&[reply, data])).await.unwrap();
            (peer, heard)
        });
        let mut connection = connection.unwrap();
        connection.read_exact(&mut [0; 9]).await.unwrap();
        let (mut peer, mut heard) = accepted;
        let mut pings = 0;
        // After the first question, time for twenty; a slow machine asks less.
        let silence = tokio::time::sleep(common::PATIENCE);
        tokio::pin!(silence);
        loop {
            let record = tokio::select! {
                record = heard.next(&mut peer) => record,
                () = &mut silence => break,
            };
            if let Some(Record::Ping(number)) = record {
                if pings == 0 {
                    silence.as_mut().reset(tokio::time::Instant::now() + Duration::from_secs(4));
                }
                pings += 1;
                let mut answer = BytesMut::new();
                Record::Pong(number).encode(&mut answer);
                peer.write_all(&answer).await.unwrap();
            }
        }
        assert!((1..=3).contains(&pings), "{pings} pings in 4 s");
    })
    .await;
}

/// A peer of no program of ours that finishes the hello and says nothing after that.
#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_says_nothing_after_the_hello_is_given_up() {
    let (server, _) = pair(Security::Plain);
    let timeout = Duration::from_secs(1);
    let server = server.idle_timeout(timeout).bind(&[LOOPBACK.parse().unwrap()]);
    let mut server = server.unwrap();
    patiently(async {
        let mut peer = TcpStream::connect(server.local_addrs()[0]).await.unwrap();
        peer.write_all(&said(&[Record::Hello(hello())])).await.unwrap();
        let victim = server.accept().await;
        let error = victim.closed().await.unwrap_err();
        assert!(matches!(&*error, Error::PeerLost { after, .. } if *after == timeout), "{error}");
        // It is told why, and its socket is closed.
        let mut heard = Heard::default();
        let mut reasons = Vec::new();
        while let Some(record) = heard.next(&mut peer).await {
            reasons.extend(match record {
                Record::Reset(reset) => Some(reset.reason),
                _ => None,
            });
        }
        assert!(reasons.iter().any(|text| text.contains("has not answered for 1s")), "{reasons:?}");
    })
    .await;
}

/// An idle peer that answers pings is kept, for as many of them as fill the idle timeout several times.
#[tokio::test]
async fn an_idle_peer_that_answers_is_kept() {
    // A third of the timeout lies between two pings.
    const PINGS: u32 = 9;
    let (server, _) = pair(Security::Plain);
    let server = server.idle_timeout(IDLE).bind(&[LOOPBACK.parse().unwrap()]);
    let mut server = server.unwrap();
    patiently(async { while !is_kept(&mut server, PINGS).await {} }).await;
}

/// Within what time a peer is to answer.
const IDLE: Duration = Duration::from_secs(1);

/// Whether a peer that answers so many pings is kept. Not if this process does not get a processor in
/// time to answer one; then it has said nothing for so long.
async fn is_kept(server: &mut Server, pings: u32) -> bool {
    let mut peer = TcpStream::connect(server.local_addrs()[0]).await.unwrap();
    let (mut heard, mut answered, mut last) = (Heard::default(), 0, Instant::now());
    peer.write_all(&said(&[Record::Hello(hello())])).await.unwrap();
    let mut connection = server.accept().await;
    while answered < pings {
        let Some(record) = heard.next(&mut peer).await else {
            assert!(last.elapsed() >= IDLE, "it is kept while it answers");
            return false;
        };
        if let Record::Ping(number) = record {
            let mut answer = BytesMut::new();
            Record::Pong(number).encode(&mut answer);
            last = Instant::now();
            // What is given up already may be closed.
            let _ = peer.write_all(&answer).await;
            answered += 1;
        }
    }
    if let Some(error) = connection.error() {
        assert!(last.elapsed() >= IDLE, "it is kept while it answers: {error}");
        return false;
    }
    let mut data = BytesMut::new();
    let payload = Bytes::from_static(b"still here");
    Record::Data(Data { offset: 0, payload: payload.clone() }).encode(&mut data);
    let _ = peer.write_all(&data).await;
    let mut got = [0; 10];
    if let Err(error) = connection.read_exact(&mut got).await {
        assert!(last.elapsed() >= IDLE, "it is kept while it answers: {error}");
        return false;
    }
    assert_eq!(got[..], payload[..]);
    true
}

#[tokio::test(flavor = "multi_thread")]
async fn one_path_may_be_ipv4_and_the_other_ipv6() {
    let both: [SocketAddr; 2] = [LOOPBACK.parse().unwrap(), "[::1]:0".parse().unwrap()];
    if std::net::TcpListener::bind(both[1]).is_err() {
        eprintln!("skipped: this machine has no IPv6 loopback; run: ip -6 addr add ::1/128 dev lo");
        return;
    }
    for security in [Security::Plain, Security::Tls] {
        // The server on both families; and the client on IPv6 alone.
        let (server, trust) = pair(security);
        let mut server = server.bind(&both).unwrap();
        let [v4, v6] = [server.local_addrs()[0], server.local_addrs()[1]];
        let path = |name: &str, ip: &str| PathConfig::new(name, Bind::Address(ip.parse().unwrap()));
        let mixed = Client::builder().security(trust.clone()).server(v4).server(v6);
        let mixed = mixed.path(path("four", "127.0.0.1")).path(path("six", "::1"));
        let alone = Client::builder().security(trust).server(v6).path(path("six", "::1"));
        patiently(async {
            let mut here = mixed.build().unwrap().connect().await.unwrap();
            let mut there = server.accept().await;
            let delivered = |stats: weftline::ConnectionStats| {
                let carried = stats.session.paths.values().filter(|path| path.delivered > 0);
                carried.count()
            };
            while delivered(there.stats()) < 2 || delivered(here.stats()) < 2 {
                transfer(&mut there, &mut here, &pattern(2_000_000, 1)).await;
                transfer(&mut here, &mut there, &pattern(2_000_000, 2)).await;
            }
            let mut here = alone.build().unwrap().connect().await.unwrap();
            let mut there = server.accept().await;
            assert!(there.peer_addr().is_ipv6());
            transfer(&mut there, &mut here, &pattern(500_000, 3)).await;
        })
        .await;
    }
}

/// The preface of a stranger: bytes, or records that are right in form, cut off or not.
fn first_words() -> impl Strategy<Value = Vec<u8>> {
    let name = || "[ -~]{0,70}";
    let hello = (name(), name(), any::<[u64; 5]>(), prop::collection::vec(any::<u8>(), 0..40));
    let hello = hello.prop_map(|(scheduler, congestion, numbers, token)| {
        let [subflow, path, window, forward_pin, latency_us] = numbers.map(|n| n >> 2);
        let token = token.into();
        let known = if window % 2 == 0 { "fbdt".to_owned() } else { scheduler };
        Record::Hello(Hello {
            subflow,
            path,
            scheduler: known,
            congestion,
            window,
            forward_pin,
            latency_us,
            token,
            ..hello_of_a_stranger()
        })
    });
    let join = (any::<[u8; 16]>(), any::<[u8; 32]>(), 0u64..100, name());
    let join = join.prop_map(|(session, proof, subflow, path_name)| {
        Record::Join(Join { session, proof, subflow, path_name, ..Join::default() })
    });
    let records = prop::collection::vec(prop_oneof![hello, join], 1..3);
    let records = (records, 0usize..600).prop_map(|(records, cut)| {
        let mut bytes = said(&records);
        bytes.truncate(if cut < 100 { cut } else { usize::MAX });
        bytes
    });
    let raw = prop::collection::vec(any::<u8>(), 0..300);
    let led = raw.clone().prop_map(|rest| [&said(&[])[..], &rest].concat());
    prop_oneof![raw, led, records]
}

fn hello_of_a_stranger() -> Hello {
    Hello { path_name: "stranger".into(), ..Hello::default() }
}

/// Whatever a stranger says first, the server answers with a record of the protocol or not at all,
/// and goes on serving.
#[test]
fn any_first_words_are_survived() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let limits = Limits {
        handshakes: 10_000,
        handshakes_per_source: 10_000,
        sessions: 10_000,
        sessions_per_source: 10_000,
        ..patient()
    };
    let (address, client) = runtime.block_on(async {
        let (server, trust) = pair(Security::Plain);
        let server = server.limits(limits).bind(&[LOOPBACK.parse().unwrap()]).unwrap();
        let address = server.local_addrs()[0];
        echo(server);
        (address, two_paths(trust).server(address).build().unwrap())
    });
    let config = ProptestConfig::with_cases(256);
    proptest!(config, |(words in first_words())| {
        runtime.block_on(patiently(async {
            let mut stranger = TcpStream::connect(address).await.unwrap();
            // The server may have closed before everything is said.
            let _ = stranger.write_all(&words).await;
            let _ = stranger.shutdown().await;
            // Decoding what it answers checks that it is of the protocol.
            let mut heard = Heard::default();
            while heard.next(&mut stranger).await.is_some() {}
            let _ = stranger.set_zero_linger();
        }));
    });
    runtime.block_on(patiently(check_echo(&client, 100_000)));
}
