//! Programs behind the proxies that stop reading: what that makes each side hold.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::future::pending;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use common::{Security, pair, patiently, two_paths};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use weftline::{Forwarder, LocalService, MemoryBudget, Target};
use weftline_core::ByteCount;

/// What each connection of a service could send so far.
type Sent = Arc<Mutex<Vec<u64>>>;

/// A service that sends for ever.
async fn sending() -> (SocketAddr, Sent) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, sent) = (listener.local_addr().unwrap(), Sent::default());
    let all = Arc::clone(&sent);
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let all = Arc::clone(&all);
            tokio::spawn(async move {
                let number = all.lock().unwrap().len();
                all.lock().unwrap().push(0);
                let piece = [7; 16 << 10];
                while let Ok(n) = stream.write(&piece).await {
                    all.lock().unwrap()[number] += n as u64;
                }
            });
        }
    });
    (address, sent)
}

/// A program that reads so much of what comes.
async fn read(proxy: SocketAddr, bytes: u64) -> TcpStream {
    let mut program = TcpStream::connect(proxy).await.unwrap();
    let taken = tokio::io::copy(&mut (&mut program).take(bytes), &mut tokio::io::sink()).await;
    assert_eq!(taken.unwrap(), bytes);
    program
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_readers_hold_little_and_cost_a_new_connection_nothing() {
    const READERS: usize = 16;
    // What one reader may hold, whatever it does, is 30 MB at each end.
    const MOST: ByteCount = ByteCount::new(READERS as u64 * 30_000_000);
    let taken = ByteCount::mib(4).as_u64();
    let budget = || MemoryBudget::new(ByteCount::mib(4096)).unwrap();
    let (at_server, at_client) = (budget(), budget());
    patiently(async {
        let (target, sent) = sending().await;
        let (server, trust) = pair(Security::Tls);
        let any = "127.0.0.1:0".parse().unwrap();
        let server = server.memory(at_server.clone()).bind(&[any]).unwrap();
        let client = two_paths(trust).server(server.local_addrs()[0]).memory(at_client.clone());
        tokio::spawn(weftline::serve(server, Target::Fixed(target.into()), pending(), pending()));
        let client = client.build().unwrap();
        let forwarder = Forwarder::bind(client, any, LocalService::Forward, 0).await.unwrap();
        let proxy = forwarder.local_addr();
        tokio::spawn(forwarder.run(pending(), pending()));
        let mut readers = tokio::task::JoinSet::new();
        for _ in 0..READERS {
            readers.spawn(read(proxy, taken));
        }
        let stopped = readers.join_all().await;
        // They are at rest when nothing more is sent to them while another has 32 MiB.
        let sent_to_stopped = || sent.lock().unwrap()[..READERS].iter().sum::<u64>();
        loop {
            let before = sent_to_stopped();
            drop(read(proxy, 32 << 20).await);
            if sent_to_stopped() == before {
                break;
            }
        }
        for budget in [&at_server, &at_client] {
            let held = budget.reserved();
            assert!(held <= MOST, "{held} for {READERS} readers");
        }
        drop(stopped);
    })
    .await;
}
