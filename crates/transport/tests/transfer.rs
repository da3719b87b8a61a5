//! Whole transfers over loopback: every byte, both ways, and how connections end.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use common::{Security, check_echo, echo, exchange, patiently, pattern, server_and_client};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use weftline::{Client, Error, Server};

/// Both directions at once, byte for byte, over both paths. Where the writer of one does not get a
/// processor in time, the other carries everything: then the next connection has to show both.
async fn both_directions(security: Security) {
    let (mut server, client) = server_and_client(security);
    let client = client.build().unwrap();
    while !both_ways(&mut server, &client).await {}
}

/// One connection; whether both paths carried what it sent.
async fn both_ways(server: &mut Server, client: &Client) -> bool {
    let (up, down) = (pattern(20_000_000, 1), pattern(16_000_000, 2));
    let serving = async {
        let (got, _) = exchange(server.accept().await, down.clone()).await;
        assert!(got == up, "the server got other bytes");
    };
    let ((), carried) = tokio::join!(serving, from_client(client, &up, &down));
    carried
}

async fn from_client(client: &Client, up: &[u8], down: &[u8]) -> bool {
    let connection = client.connect().await.unwrap();
    // All could be over before there is a second path.
    let mut events = connection.events();
    while connection.stats().names.len() < 2 {
        events.recv().await.unwrap();
    }
    let (got, control) = exchange(connection, up.to_vec()).await;
    assert!(got == down, "the client got other bytes");
    let stats = control.stats();
    assert_eq!(stats.session.acknowledged, up.len() as u64);
    assert_eq!(stats.session.delivered, down.len() as u64);
    let names: Vec<_> = stats.names.values().map(|name| &**name).collect();
    assert_eq!(names, ["one", "two"]);
    stats.session.paths.values().all(|path| path.delivered > 0)
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

#[tokio::test]
async fn after_a_half_close_the_other_direction_goes_on() {
    let (mut server, client) = server_and_client(Security::Tls);
    let answer = pattern(3_000_000, 3);
    let expected = answer.clone();
    patiently(async {
        let serving = tokio::spawn(async move {
            let mut connection = server.accept().await;
            let mut question = Vec::new();
            connection.read_to_end(&mut question).await.unwrap();
            assert_eq!(question, b"question");
            connection.write_all(&answer).await.unwrap();
            connection.shutdown().await.unwrap();
            connection.closed().await.unwrap();
        });
        let mut connection = client.build().unwrap().connect().await.unwrap();
        connection.write_all(b"question").await.unwrap();
        connection.shutdown().await.unwrap();
        let late = connection.write_all(b"too late").await.unwrap_err();
        assert_eq!(late.kind(), std::io::ErrorKind::BrokenPipe);
        let mut got = Vec::new();
        connection.read_to_end(&mut got).await.unwrap();
        assert!(got == expected);
        // The end is the end, however often it is asked for.
        assert_eq!(connection.read(&mut [0; 8]).await.unwrap(), 0);
        serving.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_dropped_connection_that_was_finished_is_delivered() {
    let (mut server, client) = server_and_client(Security::Tls);
    let data = pattern(5_000_000, 4);
    patiently(async {
        let client = client.build().unwrap();
        let mut connection = client.connect().await.unwrap();
        let mut peer = server.accept().await;
        connection.write_all(&data[..1_000_000]).await.unwrap();
        let writing = tokio::spawn({
            let data = data.clone();
            async move {
                connection.write_all(&data[1_000_000..]).await.unwrap();
                connection.shutdown().await.unwrap();
            }
        });
        let mut got = Vec::new();
        peer.read_to_end(&mut got).await.unwrap();
        writing.await.unwrap();
        assert!(got == data);
        // The client does not read any more: what the peer still sends is refused in the end.
        let error = loop {
            if let Err(error) = peer.write_all(&data).await {
                break error;
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    })
    .await;
}

#[tokio::test]
async fn a_peer_that_says_no_more_may_take_its_time_to_close() {
    let (mut server, client) = server_and_client(Security::Tls);
    patiently(async {
        let mut connection = client.build().unwrap().connect().await.unwrap();
        connection.write_all(b"all there is").await.unwrap();
        connection.shutdown().await.unwrap();
        drop(connection);
        let mut peer = server.accept().await;
        let mut got = Vec::new();
        peer.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"all there is");
        // Longer than a connection that was let go of waits before it looks again.
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        peer.shutdown().await.unwrap();
        peer.closed().await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_dropped_connection_that_was_not_finished_is_reset() {
    let (mut server, client) = server_and_client(Security::Plain);
    patiently(async {
        let mut connection = client.build().unwrap().connect().await.unwrap();
        connection.write_all(b"half a mess").await.unwrap();
        let mut peer = server.accept().await;
        peer.read_exact(&mut [0; 11]).await.unwrap();
        drop(connection);
        let error = peer.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    })
    .await;
}

#[tokio::test]
async fn an_abort_reaches_the_peer_with_code_and_reason() {
    let (mut server, client) = server_and_client(Security::Tls);
    patiently(async {
        let mut connection = client.build().unwrap().connect().await.unwrap();
        let peer = server.accept().await;
        peer.abort(77, "no more\ntiles");
        let error = connection.read(&mut [0; 8]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        let error = connection.closed().await.unwrap_err();
        let Error::Reset { code, reason } = &*error else { panic!("{error}") };
        assert_eq!((*code, reason.as_str()), (77, "no more?tiles"));
        assert!(matches!(&*peer.closed().await.unwrap_err(), Error::Reset { code: 77, .. }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_connections_at_once() {
    let (server, client) = server_and_client(Security::Tls);
    echo(server);
    let client = client.build().unwrap();
    patiently(async {
        let all: Vec<_> = (0..40)
            .map(|n| {
                let client = client.clone();
                tokio::spawn(async move { check_echo(&client, 1000 + n * 20_000).await })
            })
            .collect();
        for one in all {
            one.await.unwrap();
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn short_connections_close_on_both_sides() {
    let (mut server, client) = server_and_client(Security::Tls);
    let client = client.build().unwrap();
    patiently(async {
        for _ in 0..20 {
            let asking: Vec<_> = (0..10)
                .map(|n| {
                    let client = client.clone();
                    let ask =
                        async move { exchange(client.connect().await.unwrap(), vec![n]).await };
                    tokio::spawn(ask)
                })
                .collect();
            let mut answering = Vec::new();
            for _ in 0..asking.len() {
                // A lost end shows as an error, when the grace without a path is over.
                answering.push(tokio::spawn(exchange(server.accept().await, Vec::new())));
            }
            for one in asking.into_iter().chain(answering) {
                one.await.unwrap();
            }
        }
    })
    .await;
}

#[tokio::test]
async fn buffered_reading_gives_the_same_bytes() {
    use tokio::io::AsyncBufReadExt;
    let (server, client) = server_and_client(Security::Plain);
    echo(server);
    patiently(async {
        let mut connection = client.build().unwrap().connect().await.unwrap();
        connection.write_all(b"first line\nsecond line\nrest").await.unwrap();
        connection.shutdown().await.unwrap();
        let mut line = String::new();
        connection.read_line(&mut line).await.unwrap();
        assert_eq!(line, "first line\n");
        let mut start = [0; 6];
        connection.read_exact(&mut start).await.unwrap();
        assert_eq!(&start, b"second");
        let mut rest = String::new();
        connection.read_to_string(&mut rest).await.unwrap();
        assert_eq!(rest, " line\nrest");
    })
    .await;
}
