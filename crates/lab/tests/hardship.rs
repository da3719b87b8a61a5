//! Paths in a state that no product is made for: flapping by the thousand, and dark for good under
//! peers that are half open then. Nothing is lost, and nothing is kept.
//!
//! `WEFTLINE_FLAPS=1000 sudo -E cargo test -p weftline-lab --test hardship` flaps for a minute.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::sync::mpsc;
use std::time::{Duration, Instant};

use support::download::{
    NAMES, client, connect, inside, ip, servers, settle, two_paths, with_download,
};
use support::{PATIENCE, alone};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::task::JoinSet;
use weftline::{Bind, Connection, MemoryBudget, Server, ServerSecurity};
use weftline_core::ByteCount;

/// A path goes or comes this often: 1000 flaps in a minute.
const FLAP: Duration = Duration::from_millis(60);

/// Link layer and interface flap at once, each on a path of its own, in turns that drift against
/// each other.
#[test]
fn a_thousand_flaps_in_a_minute_lose_no_byte() {
    let _alone = alone();
    let Some(world) = two_paths() else { return };
    let flaps = std::env::var("WEFTLINE_FLAPS").map_or(100, |n| n.parse().expect("a number"));
    with_download(
        &world,
        NAMES.map(|name| Bind::Interface(name.to_owned())),
        async |mut download| {
            settle(&mut download).await;
            let (start, at) = (Instant::now(), download.at);
            for flap in 0..flaps {
                // Of every three flaps one is the interface's; a path is away for a half to 1 ½ of
                // the time between two flaps.
                let away = FLAP * (1 + flap % 3) / 2;
                if flap % 3 == 0 {
                    ip(&world, "link set near down");
                    download.read_for(away.min(FLAP - FLAP / 6)).await;
                    ip(&world, "link set near up");
                } else {
                    let name = NAMES[flap as usize % 2];
                    world.emulator.cut(name, None, true).unwrap();
                    download.read_for(away.min(FLAP - FLAP / 6)).await;
                    world.emulator.cut(name, None, false).unwrap();
                }
                let next = start + FLAP * (flap + 1);
                download.read_for(next.saturating_duration_since(Instant::now())).await;
            }
            let (took, bytes) = (start.elapsed(), download.at - at);
            let memory = download.connection.stats().session.receive_memory;
            eprintln!("{flaps} flaps in {took:.1?}: {bytes} bytes, {memory} held");
            // Both paths are whole again, and so is what they carry.
            settle(&mut download).await;
            assert!(download.at > at, "the stream goes on");
            download.connection.shutdown().await.unwrap();
        },
    );
}

/// Half of them in the middle of a download, half without anything to say.
const PEERS: usize = 20;

#[test]
fn peers_that_vanish_in_the_dark_are_let_go_of() {
    let _alone = alone();
    let Some(world) = two_paths() else { return };
    let (there, servers) = (&world.server, servers(&world));
    let cut = |on| NAMES.iter().for_each(|name| world.emulator.cut(name, None, on).unwrap());
    std::thread::scope(|scope| {
        let (ended, all_ended) = mpsc::channel();
        scope.spawn(move || {
            inside(there, async || {
                let budget = MemoryBudget::new(ByteCount::mib(128)).unwrap();
                let server = Server::builder().security(ServerSecurity::InsecurePlaintext);
                let server = server.memory(budget.clone()).grace(Duration::from_secs(1));
                let mut server = server.bind(&servers).unwrap();
                let mut peers = JoinSet::new();
                for _ in 0..PEERS {
                    peers.spawn(serve_to_the_end(server.accept().await));
                }
                assert!(budget.reserved() > ByteCount::default());
                let start = Instant::now();
                let ends = peers.join_all().await;
                eprintln!("{PEERS} let go of within {:.1?}: {}", start.elapsed(), ends[0]);
                assert!(ends.iter().all(|end| !end.is_empty()), "{ends:?}");
                // The tasks of a connection that has ended may still be at their end.
                while budget.reserved() > ByteCount::default() {
                    assert!(start.elapsed() < PATIENCE, "{} are still held", budget.reserved());
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                ended.send(()).unwrap();
                let mut next = server.accept().await;
                next.write_all(b"still here").await.unwrap();
                next.shutdown().await.unwrap();
                // The client, which has it all, may be gone before it hears that we know.
                let _ = next.closed().await;
            });
        });
        inside(&world.client, async || {
            let client = client(&servers, NAMES.map(|name| Bind::Interface(name.to_owned())));
            let mut peers = Vec::new();
            for n in 0..PEERS {
                let mut peer = connect(&client).await;
                // The server sends to those who ask for it.
                peer.write_all(if n % 2 == 0 { b"!" } else { b"." }).await.unwrap();
                if n % 2 == 0 {
                    peer.read_exact(&mut vec![0; 10_000]).await.unwrap();
                }
                peers.push(peer);
            }
            cut(true);
        });
        // Whatever the client's kernel says when its programs are gone is lost.
        all_ended.recv().expect("the server's thread");
        cut(false);
        let said = inside(&world.client, async || {
            let client = client(&servers, NAMES.map(|name| Bind::Interface(name.to_owned())));
            let mut peer = connect(&client).await;
            let mut said = Vec::new();
            peer.read_to_end(&mut said).await.unwrap();
            peer.shutdown().await.unwrap();
            peer.closed().await.unwrap();
            said
        });
        assert_eq!(said, b"still here");
    });
}

/// Sends to who asks for it, or listens; how that ended.
async fn serve_to_the_end(mut peer: Connection) -> String {
    let mut word = [0];
    if let Err(error) = peer.read_exact(&mut word).await {
        return error.to_string();
    }
    let block = [7; 64 << 10];
    if word == *b"!" {
        loop {
            if let Err(error) = peer.write_all(&block).await {
                return error.to_string();
            }
        }
    }
    match peer.read(&mut word).await {
        Ok(_) => String::new(),
        Err(error) => error.to_string(),
    }
}
