//! Whole transfers over loopback: every byte, both ways, however the paths behave.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Security, patiently, pattern, server_and_client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weftline::Connection;

/// Sends `data`, half-closes, and returns all that comes back.
async fn exchange(connection: Connection, data: Vec<u8>) -> (Vec<u8>, Connection) {
    let (mut reader, mut writer) = tokio::io::split(connection);
    let writing = tokio::spawn(async move {
        writer.write_all(&data).await.unwrap();
        writer.shutdown().await.unwrap();
        writer
    });
    let mut back = Vec::new();
    reader.read_to_end(&mut back).await.unwrap();
    (back, reader.unsplit(writing.await.unwrap()))
}

/// Both directions at once, byte for byte, over `security`.
async fn both_directions(security: Security) {
    let (mut server, client) = server_and_client(security);
    let (up, down) = (pattern(20_000_000, 1), pattern(16_000_000, 2));
    let client = client.build().unwrap();
    let (to_client, expected) = (down.clone(), up.clone());
    let serving = tokio::spawn(async move {
        let (got, connection) = exchange(server.accept().await, to_client).await;
        assert!(got == expected, "the server got other bytes");
        connection.closed().await.unwrap();
    });
    let connection = client.connect().await.unwrap();
    let (got, connection) = exchange(connection, up.clone()).await;
    assert!(got == down, "the client got other bytes");
    connection.closed().await.unwrap();
    serving.await.unwrap();
    let stats = connection.stats().session;
    assert_eq!(stats.acknowledged, up.len() as u64);
    assert_eq!(stats.delivered, down.len() as u64);
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_identical_in_plaintext() {
    patiently(both_directions(Security::Plain)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_identical_with_tls() {
    patiently(both_directions(Security::Tls)).await;
}

#[tokio::test]
async fn one_thread_is_enough() {
    patiently(both_directions(Security::Tls)).await;
}
