//! The examples do what they say.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "test code; the examples' own main functions are not called here"
)]

mod common;
#[path = "../examples/copy.rs"]
mod copy;
#[path = "../examples/download.rs"]
mod download;
#[path = "../examples/echo.rs"]
mod echo;
#[path = "../examples/http.rs"]
mod http;

use common::{Security, check_echo, patiently, pattern, server_and_client};

#[tokio::test]
async fn the_echo_sends_back_what_it_gets() {
    let state = tempfile::tempdir().unwrap();
    let mut server = echo::server("127.0.0.1:0".parse().unwrap(), state.path()).unwrap();
    let identity = weftline::Identity::from_state_dir(state.path()).unwrap();
    let paths = ["one=127.0.0.1".to_owned(), "two=127.0.0.2".to_owned()];
    let address = server.local_addrs()[0].into();
    let client = copy::client(address, &identity.fingerprint().to_string(), &paths).unwrap();
    patiently(async {
        let serving = tokio::spawn(async move { echo::echo(server.accept().await).await });
        check_echo(&client, 1_000_000).await;
        assert_eq!(serving.await.unwrap().unwrap(), 1_000_000);
    })
    .await;
}

#[tokio::test]
async fn a_copied_file_is_the_same_file() {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("from"), dir.path().join("to"));
    let data = pattern(5_000_000, 9);
    std::fs::write(&from, &data).unwrap();
    let (mut server, client) = server_and_client(Security::Tls);
    let client = client.build().unwrap();
    patiently(async {
        let target = to.clone();
        let receiving =
            tokio::spawn(async move { copy::receive(server.accept().await, &target).await });
        let sent = copy::send(client.connect().await.unwrap(), &from).await.unwrap();
        assert_eq!((sent, receiving.await.unwrap().unwrap()), (5_000_000, 5_000_000));
    })
    .await;
    assert!(std::fs::read(&to).unwrap() == data);
    assert!(!to.with_extension("part").exists());
}

#[tokio::test]
async fn a_download_asks_and_is_answered_to_the_last_byte() {
    let (mut server, client) = server_and_client(Security::Tls);
    let client = client.build().unwrap();
    patiently(async {
        let answering = tokio::spawn(async move {
            for _ in 0..2 {
                download::answer(server.accept().await).await.unwrap();
            }
        });
        for size in [0, 3_000_000] {
            download::ask(client.open().await.unwrap(), size).await.unwrap();
        }
        answering.await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn hyper_serves_and_fetches_over_a_connection() {
    let (mut server, client) = server_and_client(Security::Tls);
    let client = client.build().unwrap();
    patiently(async {
        tokio::spawn(async move { http::serve(server.accept().await).await });
        let page = http::fetch(client.connect().await.unwrap(), "/tiles").await.unwrap();
        assert_eq!(page, "this is /tiles, over several paths\n");
    })
    .await;
}
