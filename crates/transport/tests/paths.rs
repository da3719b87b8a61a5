//! Paths that are dead, die, stall and come back, under a connection that goes on.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::time::Duration;

use common::{Relay, Security, event, pair, patiently, pattern, refusing, transfer, two_paths};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::broadcast::Receiver;
use weftline::{Client, Connection, Error, PathEvent, PathEventKind, Server};
use weftline_core::PathId;

/// A server; a client whose path `two` goes through a relay.
async fn behind_relay(security: Security) -> (Server, Client, Relay) {
    let (server, trust) = pair(security);
    let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    let relay = Relay::start(address).await;
    let client = two_paths(trust).server(address).server(relay.address).build().unwrap();
    (server, client, relay)
}

/// Bytes the peer has received on `path`; 0 before it has come up.
fn delivered(connection: &Connection, path: &str) -> u64 {
    let stats = connection.stats();
    let found = stats.names.iter().find(|(_, name)| &***name == path);
    found.map_or(0, |(id, _)| stats.session.paths[id].delivered)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_up_before_anybody_listened_is_known() {
    let (mut server, client, relay) = behind_relay(Security::Plain).await;
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        let mut peer = server.accept().await;
        while delivered(&connection, "two") == 0 {
            transfer(&mut connection, &mut peer, &pattern(1_000_000, 1)).await;
        }
        // A subflow whose peer does not get a processor is replaced: for a moment there are two.
        let mut events = connection.events();
        let up = async |events: &mut Receiver<PathEvent>, wanted: &[&str]| {
            loop {
                let up = connection.paths_up().into_iter();
                let mut names: Vec<_> = up.map(|event| event.name.to_string()).collect();
                names.sort();
                if names == wanted {
                    return;
                }
                events.recv().await.unwrap();
            }
        };
        up(&mut events, &["one", "two"]).await;
        relay.cut();
        up(&mut events, &["one"]).await;
    })
    .await;
}

async fn a_path_that_is_dead_at_start_joins_later(security: Security) {
    let (mut server, client, relay) = behind_relay(security).await;
    relay.cut();
    let mut connection = client.connect().await.unwrap();
    let mut events = connection.events();
    let mut peer = server.accept().await;
    transfer(&mut connection, &mut peer, &pattern(2_000_000, 1)).await;
    event(&mut events, "two", |k| matches!(k, PathEventKind::AttemptFailed { .. })).await;
    relay.mend();
    event(&mut events, "two", |k| matches!(k, PathEventKind::Up { .. })).await;
    while delivered(&connection, "two") == 0 {
        transfer(&mut connection, &mut peer, &pattern(2_000_000, 2)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_dead_at_start_joins_later_plaintext() {
    patiently(a_path_that_is_dead_at_start_joins_later(Security::Plain)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_is_dead_at_start_joins_later_tls() {
    patiently(a_path_that_is_dead_at_start_joins_later(Security::Tls)).await;
}

/// Kills the path under a running transfer, both ways, and mends it again.
async fn a_path_dies_and_comes_back(security: Security) {
    let (mut server, client, relay) = behind_relay(security).await;
    let mut connection = client.connect().await.unwrap();
    let mut events = connection.events();
    let mut peer = server.accept().await;
    while delivered(&connection, "two") == 0 {
        transfer(&mut connection, &mut peer, &pattern(1_000_000, 1)).await;
    }
    for round in 0..3 {
        let data = pattern(12_000_000, round);
        // In the middle of the transfer.
        let cutting = async {
            tokio::task::yield_now().await;
            relay.cut();
        };
        if round % 2 == 0 {
            tokio::join!(transfer(&mut connection, &mut peer, &data), cutting);
        } else {
            tokio::join!(transfer(&mut peer, &mut connection, &data), cutting);
        }
        event(&mut events, "two", |k| matches!(k, PathEventKind::Down { .. })).await;
        relay.mend();
        event(&mut events, "two", |k| matches!(k, PathEventKind::Up { .. })).await;
        let before = delivered(&connection, "two");
        while delivered(&connection, "two") == before {
            transfer(&mut connection, &mut peer, &pattern(1_000_000, 9)).await;
        }
    }
    connection.shutdown().await.unwrap();
    peer.shutdown().await.unwrap();
    connection.closed().await.unwrap();
    peer.closed().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_dies_and_comes_back_plaintext() {
    patiently(a_path_dies_and_comes_back(Security::Plain)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_dies_and_comes_back_tls() {
    patiently(a_path_dies_and_comes_back(Security::Tls)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stalled_subflow_is_replaced_and_its_data_reinjected() {
    let (mut server, client, relay) = behind_relay(Security::Tls).await;
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        let mut events = connection.events();
        let mut peer = server.accept().await;
        while delivered(&connection, "two") == 0 {
            transfer(&mut connection, &mut peer, &pattern(1_000_000, 1)).await;
        }
        relay.freeze();
        // What was on the frozen path arrives by the other. Each event is looked at, however many have come
        // during a transfer.
        let (mut is_stalled, mut new, mut gone) = (false, 0, None);
        while !is_stalled || gone.is_none() {
            transfer(&mut connection, &mut peer, &pattern(4_000_000, 2)).await;
            while let Ok(PathEvent { name, kind, .. }) = events.try_recv() {
                match kind {
                    _ if &*name != "two" => {}
                    PathEventKind::Stalled { .. } => is_stalled = true,
                    PathEventKind::Up { subflow, .. } => new = subflow,
                    PathEventKind::Down { subflow, reason } => gone = Some((subflow, reason)),
                    _ => {}
                }
            }
        }
        let (old, reason) = gone.unwrap();
        assert!(new > old, "{new} takes the place of {old}");
        assert_eq!(reason, "replaced by a new one");
        let before = delivered(&connection, "two");
        while delivered(&connection, "two") == before {
            transfer(&mut connection, &mut peer, &pattern(1_000_000, 3)).await;
        }
    })
    .await;
}

/// An end that only receives has nothing outstanding by which the session could find a stall.
#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_swallows_everything_is_stalled_for_a_receiver() {
    let (server, trust) = pair(Security::Tls);
    let mut server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let relay = Relay::start(server.local_addrs()[0]).await;
    let client = two_paths(trust).server(relay.address).build().unwrap();
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        let mut peer = server.accept().await;
        // A download without end.
        tokio::spawn(async move {
            let data = pattern(1_000_000, 1);
            while peer.write_all(&data).await.is_ok() {}
        });
        let control = connection.control();
        let mut some = vec![0; 4_000_000];
        connection.read_exact(&mut some).await.unwrap();
        let mut events = connection.events();
        relay.swallow();
        let (mut reader, _writer) = connection.into_split();
        tokio::spawn(async move { while reader.read(&mut some).await.is_ok_and(|n| n > 0) {} });
        loop {
            let stalled = events.recv().await.unwrap();
            let PathEventKind::PotentiallyFailed { subflow } = stalled.kind else { continue };
            let stats = control.stats();
            let of_path = stats.session.paths[&PathId(stalled.path)].subflow.as_ref();
            let present = of_path.expect("nothing takes its place");
            // One that came before all was swallowed may have recovered, or another is there.
            if present.stalled && present.id.0 == subflow {
                break;
            }
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn without_any_path_the_error_says_what_was_delivered() {
    let (server, trust) = pair(Security::Plain);
    let grace = Duration::from_millis(300);
    let mut server = server.grace(grace).bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let relay = Relay::start(server.local_addrs()[0]).await;
    let client = two_paths(trust).server(relay.address).grace(grace).build().unwrap();
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        let mut peer = server.accept().await;
        transfer(&mut connection, &mut peer, &pattern(1_000_000, 1)).await;
        transfer(&mut peer, &mut connection, &pattern(500_000, 2)).await;
        while connection.stats().session.acknowledged < 1_000_000 {
            tokio::task::yield_now().await;
        }
        relay.cut();
        let error = connection.closed().await.unwrap_err();
        let Error::NoPath { delivered, received, after } = &*error else { panic!("{error}") };
        assert_eq!((*delivered, *received, *after), (1_000_000, 500_000, grace));
        let read = connection.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(read.kind(), std::io::ErrorKind::TimedOut);
        assert!(matches!(&*peer.closed().await.unwrap_err(), Error::NoPath { .. }));
    })
    .await;
}

#[tokio::test]
async fn a_server_that_forgot_the_connection_ends_it() {
    let (server, trust) = pair(Security::Plain);
    let mut server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let relay = Relay::start(server.local_addrs()[0]).await;
    let client = two_paths(trust).server(relay.address).build().unwrap();
    patiently(async {
        let connection = client.connect().await.unwrap();
        let mut events = connection.events();
        let peer = server.accept().await;
        relay.cut();
        // Either path may have opened it, and the other one not be up yet.
        while !connection.paths_up().is_empty() {
            events.recv().await.unwrap();
        }
        // The reset cannot reach the client, and the server forgets.
        peer.abort(5, "gone");
        let _ = peer.closed().await;
        relay.mend();
        let error = connection.closed().await.unwrap_err();
        assert!(matches!(&*error, Error::Refused { .. }), "{error}");
    })
    .await;
}

/// The server closes and says so, into the void; then `lose` takes the sockets, too.
async fn the_last_acknowledgement_survives(lose: impl Fn(&Relay)) {
    let (server, trust) = pair(Security::Tls);
    let mut server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let relay = Relay::start(server.local_addrs()[0]).await;
    let client = two_paths(trust).server(relay.address).build().unwrap();
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        let mut peer = server.accept().await;
        transfer(&mut connection, &mut peer, &pattern(100_000, 1)).await;
        peer.shutdown().await.unwrap();
        assert_eq!(connection.read(&mut [0; 8]).await.unwrap(), 0);
        relay.mute();
        connection.shutdown().await.unwrap();
        assert_eq!(peer.read(&mut [0; 8]).await.unwrap(), 0);
        lose(&relay);
        connection.closed().await.unwrap();
        peer.closed().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn the_last_acknowledgement_survives_the_last_path() {
    the_last_acknowledgement_survives(|relay| {
        relay.cut();
        relay.mend();
    })
    .await;
}

#[tokio::test]
async fn the_last_acknowledgement_survives_a_relay_that_ends_the_connections() {
    the_last_acknowledgement_survives(Relay::end).await;
}

#[tokio::test]
async fn an_unreachable_server_is_an_error_that_names_it() {
    let (_held, closed) = refusing();
    let (_, trust) = pair(Security::Plain);
    let client = two_paths(trust).server(closed).build().unwrap();
    patiently(async {
        let error = client.connect().await.unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("cannot reach the server {closed} via 127.0.0.")),
            "{text}"
        );
    })
    .await;
}

#[tokio::test]
async fn an_interface_is_a_path() {
    let (server, trust) = pair(Security::Plain);
    let mut server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let path = weftline::PathConfig::new("loopback", weftline::Bind::Interface("lo".into()));
    let client = Client::builder()
        .security(trust)
        .path(path)
        .server(server.local_addrs()[0])
        .congestion("reno")
        .build()
        .unwrap();
    patiently(async {
        let mut connection = client.connect().await.unwrap();
        let mut peer = server.accept().await;
        transfer(&mut connection, &mut peer, &pattern(100_000, 1)).await;
        while delivered(&connection, "loopback") < 100_000 {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
