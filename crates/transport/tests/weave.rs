//! What is recorded of a connection's weave, and for how long.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Security, patiently, pattern, server_and_client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weftline::ConnectionWeave;

const PART: usize = 2_000_000;

/// Bytes that were sent for the first time, as the record of it says.
fn sent(weave: &ConnectionWeave) -> u64 {
    let new =
        weave.sent.stretches.iter().filter(|one| one.kind == weftline_core::subflow::Kind::New);
    new.map(|one| one.range.end - one.range.start).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_ends_record_while_somebody_watches_and_not_longer() {
    let (mut server, client) = server_and_client(Security::Plain);
    let client = client.build().unwrap();
    patiently(async {
        let accepting = tokio::spawn(async move { (server.accept().await, server) });
        let mut client = client.connect().await.unwrap();
        // Either path may have opened it.
        let mut events = client.events();
        while client.stats().names.len() < 2 {
            events.recv().await.unwrap();
        }
        client.write_all(&pattern(PART, 1)).await.unwrap();
        let (mut server, _acceptor) = accepting.await.unwrap();
        let mut bytes = vec![0; PART];
        server.read_exact(&mut bytes).await.unwrap();

        // What came before somebody watched is not there.
        let (at_client, at_server) =
            (client.control().watch_weave(), server.control().watch_weave());
        let second = client.control().watch_weave();
        assert_eq!(sent(&at_client.look().unwrap()), 0);
        client.write_all(&pattern(PART, 2)).await.unwrap();
        server.read_exact(&mut bytes).await.unwrap();
        let (woven, received) = (at_client.look().unwrap(), at_server.look().unwrap());
        assert_eq!(sent(&woven), PART as u64);
        assert!(woven.received.stretches.is_empty() && received.sent.stretches.is_empty());
        let new = received
            .received
            .stretches
            .iter()
            .filter(|one| one.kind == weftline_core::subflow::Kind::New);
        let starts = new.map(|one| one.range.start);
        assert_eq!(starts.min(), Some(PART as u64));
        assert!(received.received.is_received);
        let names: Vec<_> = woven.names.values().map(|name| &**name).collect();
        assert!(names.contains(&"one"), "{names:?}");

        // One of two leaves: it goes on. With the last it ends, and begins anew with the next.
        drop(at_client);
        assert_eq!(sent(&second.look().unwrap()), PART as u64);
        drop(second);
        client.write_all(&pattern(PART, 3)).await.unwrap();
        server.read_exact(&mut bytes).await.unwrap();
        let next = client.control().watch_weave();
        assert_eq!(sent(&next.look().unwrap()), 0);

        // It does not keep the connection, and knows when nothing is left of it.
        let control = client.control();
        drop((client, server));
        let _ = control.closed().await;
        assert!(next.look().is_none());
    })
    .await;
}
