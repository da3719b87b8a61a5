//! A proxy whose server goes away and comes back: local programs get connections to the one that is
//! there.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::future::pending;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use common::{Security, pair, patiently, server_and_client};
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest};
use tokio::net::{TcpListener, TcpStream};
use weftline::{Client, Egress, Error, Forwarder, InternetOffer, LocalService, Server, Target};
use weftline_core::session::RESET_SHUTDOWN;

/// A service that echoes.
async fn echoing() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    address
}

/// One exchange through the proxy.
async fn ask(proxy: SocketAddr) -> std::io::Result<Vec<u8>> {
    let mut program = TcpStream::connect(proxy).await?;
    program.write_all(b"anybody there?").await?;
    program.shutdown().await?;
    let mut answer = Vec::new();
    program.read_to_end(&mut answer).await?;
    Ok(answer)
}

/// A server that forwards to `target` in a runtime of its own, which ends as a process does.
fn process(server: impl FnOnce() -> Server, target: SocketAddr) -> tokio::runtime::Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
    let inside = runtime.enter();
    let server = server();
    drop(inside);
    runtime.spawn(weftline::serve(server, Target::Fixed(target.into()), pending(), pending()));
    runtime
}

#[tokio::test]
async fn a_program_is_not_given_what_was_kept_ready_with_a_server_that_is_gone() {
    patiently(async {
        let target = echoing().await;
        let (server, client) = pair(Security::Tls);
        let any = "127.0.0.1:0".parse().unwrap();
        // It stays, so that nobody else gets the port.
        let listener = std::net::TcpListener::bind(any).unwrap();
        let address = listener.local_addr().unwrap();
        let server = || server.clone().listener(listener.try_clone().unwrap()).bind(&[]).unwrap();
        let first = process(server, target);
        // One path, one connection: both are up when there is a proxy, and none is being made.
        let client = Client::builder().security(client).server(address).build().unwrap();
        let forwarder = Forwarder::bind(client, any, LocalService::Forward, 1).await.unwrap();
        let proxy = forwarder.local_addr();
        tokio::spawn(forwarder.run(pending(), pending()));
        tokio::task::spawn_blocking(move || drop(first)).await.unwrap();
        let second = process(server, target);
        let answer = ask(proxy).await;
        second.shutdown_background();
        assert_eq!(answer.unwrap(), b"anybody there?");
    })
    .await;
}

#[tokio::test]
async fn only_a_server_of_whole_machines_says_what_it_offers() {
    patiently(async {
        let target = echoing().await;
        let kinds =
            [Target::Internet(Egress::default()), Target::Fixed(target.into()), Target::Named];
        for kind in kinds {
            let carries = matches!(kind, Target::Internet(_));
            let (server, client) = server_and_client(Security::Tls);
            tokio::spawn(weftline::serve(server, kind, pending(), pending()));
            let client = client.build().unwrap();
            // It can be asked again and again.
            for _ in 0..3 {
                match InternetOffer::ask(&client).await {
                    Ok(_) => assert!(carries),
                    Err(Error::NoInternet { .. }) => assert!(!carries),
                    Err(error) => panic!("{error}"),
                }
            }
        }
    })
    .await;
}

#[tokio::test]
async fn the_port_of_a_capture_is_no_proxy() {
    patiently(async {
        let target = echoing().await;
        let (server, client) = server_and_client(Security::Tls);
        tokio::spawn(weftline::serve(server, Target::Fixed(target.into()), pending(), pending()));
        let ports = ["127.0.0.1:0", "[::1]:0"].map(|any| std::net::TcpListener::bind(any).unwrap());
        let addresses = ports.each_ref().map(|port| port.local_addr().unwrap());
        let client = client.build().unwrap();
        let forwarder = Forwarder::captured(client, ports.into(), 1).await.unwrap();
        tokio::spawn(forwarder.run(pending(), pending()));
        for address in addresses {
            // It is reset, or closed with nothing said.
            let said = ask(address).await.unwrap_or_default();
            assert!(said.is_empty(), "{address}: {said:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn a_server_that_closes_resets_what_nobody_accepted() {
    patiently(async {
        for security in [Security::Plain, Security::Tls] {
            let (mut server, client) = server_and_client(security);
            let client = client.build().unwrap();
            let mut accepted = client.connect().await.unwrap();
            let mut there = server.accept().await;
            let waiting = client.connect().await.unwrap();
            server.close("closing time").await;
            let error = waiting.closed().await.unwrap_err();
            let Error::Reset { code, reason } = &*error else { panic!("{error}") };
            assert_eq!((*code, &**reason), (RESET_SHUTDOWN, "closing time"));
            // What was accepted goes on.
            accepted.write_all(b"still here").await.unwrap();
            accepted.shutdown().await.unwrap();
            let mut heard = Vec::new();
            there.read_to_end(&mut heard).await.unwrap();
            assert_eq!(heard, b"still here");
        }
    })
    .await;
}

/// A service that answers a request before it has read all of it, and closes: its kernel resets the
/// connection then, as what came is not read.
async fn refusing(answer: &'static [u8]) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.read_exact(&mut [0; 100]).await.unwrap();
            stream.write_all(answer).await.unwrap();
        }
    });
    address
}

/// As without us: what was said before the reset is read before it, and no end is made of it.
#[tokio::test]
async fn a_reset_does_not_overtake_what_a_target_has_said() {
    const ANSWER: &[u8] = &[7; 20_000];
    patiently(async {
        let (server, client) = server_and_client(Security::Tls);
        let target = Target::Fixed(refusing(ANSWER).await.into());
        tokio::spawn(weftline::serve(server, target, pending(), pending()));
        let (client, any) = (client.build().unwrap(), "127.0.0.1:0".parse().unwrap());
        let forwarder = Forwarder::bind(client, any, LocalService::Forward, 1).await.unwrap();
        let proxy = forwarder.local_addr();
        tokio::spawn(forwarder.run(pending(), pending()));
        let (mut round, mut late) = (0, 0);
        while round < 20 {
            let began = Instant::now();
            let program = TcpStream::connect(proxy).await.unwrap();
            let (mut from, mut to) = program.into_split();
            // More than anybody reads; it fails where the target's reset comes first.
            let sending = tokio::spawn(async move {
                let _ = to.write_all(&[1; 4 << 20]).await;
                to
            });
            let mut heard = Vec::new();
            let ended = from.read_to_end(&mut heard).await;
            // The peer is not waited for longer than that: where this machine stands still it may miss it.
            if began.elapsed() >= Duration::from_secs(2) && late < 20 {
                late += 1;
                continue;
            }
            assert_eq!(heard.len(), ANSWER.len(), "round {round}: {ended:?}");
            assert!(ended.is_err(), "round {round}: half an answer would look like a whole one");
            drop(sending.await.unwrap());
            round += 1;
        }
    })
    .await;
}

/// What a slow program reads of a connection that fails is how it began, without a hole.
#[tokio::test]
async fn a_program_that_reads_slowly_gets_no_hole_in_what_it_reads() {
    patiently(async {
        let (mut server, client) = server_and_client(Security::Tls);
        let (client, any) = (client.build().unwrap(), "127.0.0.1:0".parse().unwrap());
        let forwarder = Forwarder::bind(client, any, LocalService::Forward, 0).await.unwrap();
        let proxy = forwarder.local_addr();
        tokio::spawn(forwarder.run(pending(), pending()));
        let mut program = TcpStream::connect(proxy).await.unwrap();
        program.write_all(b"give").await.unwrap();
        let mut there = loop {
            // One that the proxy began with and never used ends by itself.
            let mut there = server.accept().await;
            if there.read_exact(&mut [0; 4]).await.is_ok() {
                break there;
            }
        };
        let stream: Vec<u8> = (0..8 << 18).flat_map(|n: u32| n.to_be_bytes()).collect();
        let control = there.control();
        // More than the program's socket takes stands in the relay when the end comes: nothing moves.
        let stands = async {
            let mut before = 0;
            loop {
                tokio::time::sleep(Duration::from_millis(200)).await;
                let now = control.stats().session.acknowledged;
                if now == before && now > 128 << 10 {
                    return;
                }
                before = now;
            }
        };
        tokio::select! {
            _ = there.write_all(&stream[..6 << 20]) => {}
            () = stands => {}
        }
        control.abort(77, "enough");
        let mut heard = Vec::new();
        let mut piece = vec![0; 64 << 10];
        while let Ok(read) = program.read(&mut piece).await
            && read > 0
        {
            heard.extend_from_slice(&piece[..read]);
            // It says something, which fails as well.
            let _ = program.write_all(b"more").await;
        }
        assert!(heard.len() > 64 << 10, "{}", heard.len());
        assert!(stream.starts_with(&heard), "a hole within {} bytes", heard.len());
    })
    .await;
}

/// A program says all it has to and closes that direction; then it is killed. Its target hears of it, though
/// neither end has anything to say.
#[tokio::test]
async fn a_program_that_is_reset_after_its_last_word_resets_its_target() {
    patiently(async {
        let target = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (server, client) = server_and_client(Security::Tls);
        let to = Target::Fixed(target.local_addr().unwrap().into());
        tokio::spawn(weftline::serve(server, to, pending(), pending()));
        let any = "127.0.0.1:0".parse().unwrap();
        let client = client.build().unwrap();
        let forwarder = Forwarder::bind(client, any, LocalService::Forward, 1).await.unwrap();
        let proxy = forwarder.local_addr();
        tokio::spawn(forwarder.run(pending(), pending()));
        let mut program = TcpStream::connect(proxy).await.unwrap();
        program.write_all(b"tell me when there is news").await.unwrap();
        program.shutdown().await.unwrap();
        let (mut there, _) = target.accept().await.unwrap();
        let mut heard = Vec::new();
        there.read_to_end(&mut heard).await.unwrap();
        assert_eq!(heard, b"tell me when there is news");
        program.set_zero_linger().unwrap();
        drop(program);
        // It says nothing itself, which would find it out.
        there.ready(Interest::ERROR).await.unwrap();
        let error = there.take_error().unwrap().unwrap();
        // A reset behind the last word is a broken pipe on Linux.
        let kinds = [std::io::ErrorKind::ConnectionReset, std::io::ErrorKind::BrokenPipe];
        assert!(kinds.contains(&error.kind()), "{error}");
    })
    .await;
}
