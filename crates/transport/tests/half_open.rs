//! Connections that are opened and never answered: who makes room for whom.
#![allow(clippy::unwrap_used, reason = "test code")]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use common::attack::{Heard, TlsPeer, hello, said, tcp_from};
use common::{
    Security, echo, exchange, pair, patient, patiently, pattern, raise_file_limit, two_paths,
};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use weftline::{Connection, Error, Limits, MemoryBudget, Server, refusal};
use weftline_core::ByteCount;
use weftline_core::wire::{Data, Hello, INITIAL_CREDIT, Record, Refusal};

const LOOPBACK: &str = "127.0.0.1:0";
/// Nothing here is owed to time that passes.
const HOUR: Duration = Duration::from_secs(3600);

/// A peer from `source` that says `first` and reads the answer, and nothing after that; `None` if it
/// is put out before it is answered.
async fn try_say(
    source: &str,
    server: SocketAddr,
    first: Hello,
) -> Option<Result<TcpStream, Refusal>> {
    let mut peer = tcp_from(source, server).await;
    peer.write_all(&said(&[Record::Hello(first)])).await.ok()?;
    match Heard::default().next(&mut peer).await? {
        Record::HelloReply(_) => Some(Ok(peer)),
        Record::Refusal(refusal) => Some(Err(refusal)),
        other => panic!("{other:?}"),
    }
}

async fn say(source: &str, server: SocketAddr, first: Hello) -> Result<TcpStream, Refusal> {
    try_say(source, server, first).await.unwrap()
}

/// Opens connections without end from 64 addresses, of which each holds its last `each`, and counts
/// those that were admitted.
fn flood(server: SocketAddr, each: usize) -> (JoinSet<()>, Arc<AtomicUsize>) {
    let (mut sources, opened) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for source in 0..64 {
        let opened = Arc::clone(&opened);
        sources.spawn(async move {
            let source = format!("127.0.1.{source}");
            let mut held = std::collections::VecDeque::new();
            loop {
                match try_say(&source, server, hello()).await {
                    Some(Ok(peer)) => held.push_back(peer),
                    Some(Err(refused)) => assert_eq!(refused.code, refusal::BUSY, "{refused:?}"),
                    None => {}
                }
                opened.fetch_add(1, Ordering::Relaxed);
                if held.len() > each {
                    held.pop_front();
                }
            }
        });
    }
    (sources, opened)
}

/// A server with so many places, so much memory, and a time to answer after which somebody makes room.
fn serve(sessions: usize, memory: ByteCount, answer_time: Duration) -> (Server, MemoryBudget) {
    let (server, _) = pair(Security::Plain);
    let limits = Limits { sessions, answer_time, ..patient() };
    let budget = MemoryBudget::new(memory).unwrap();
    let server = server.limits(limits).memory(budget.clone()).idle_timeout(HOUR).messages();
    (server.bind(&[LOOPBACK.parse().unwrap()]).unwrap(), budget)
}

/// The flood goes on while honest clients come, and no place ever is older than the time to answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_that_goes_on_keeps_no_honest_client_out() {
    // Each takes two files here, as both ends are in this process.
    let count = 4096.min((raise_file_limit() - 1200) / 2 / 64 * 64);
    // Where places run out, and where memory does.
    for (memory, most) in [(ByteCount::mib(4096), count), (ByteCount::mib(64), 256)] {
        let (server, budget) = serve(count, memory, HOUR);
        let address = server.local_addrs()[0];
        echo(server);
        let (_, trust) = pair(Security::Plain);
        let client = two_paths(trust).server(address).build().unwrap();
        patiently(async {
            let (mut sources, opened) = flood(address, count / 64);
            for round in 1..=5 {
                let so_far = opened.load(Ordering::Relaxed);
                while opened.load(Ordering::Relaxed) < most.max(so_far) + 64 {
                    tokio::task::yield_now().await;
                }
                let data = pattern(100_000, round);
                let honest = client.connect().await.unwrap();
                assert!(exchange(honest, data.clone()).await.0 == data);
                assert!(budget.reserved() <= budget.total(), "{}", budget.reserved());
            }
            sources.abort_all();
            while let Some(ended) = sources.join_next().await {
                assert!(ended.unwrap_err().is_cancelled());
            }
        })
        .await;
    }
}

/// Reads what the server says until it has acknowledged so many bytes.
async fn acknowledged(peer: &mut TcpStream, heard: &mut Heard, bytes: u64) {
    loop {
        match heard.next(peer).await {
            Some(Record::Ack(ack)) if ack.in_order >= bytes => return,
            Some(_) => {}
            None => panic!("closed before {bytes} bytes were acknowledged"),
        }
    }
}

fn data(offset: u64, len: usize) -> Record {
    Record::Data(Data { offset, payload: Bytes::from(vec![7; len]) })
}

/// A peer that is admitted and has uploaded more than it may before it has read anything.
async fn uploads(source: &str, server: &mut Server) -> (TcpStream, Connection) {
    let mut slow = tcp_from(source, server.local_addrs()[0]).await;
    slow.write_all(&said(&[Record::Hello(hello())])).await.unwrap();
    let mut heard = Heard::default();
    assert!(matches!(heard.next(&mut slow).await, Some(Record::HelloReply(_))));
    let connection = server.accept().await;
    let piece = 32 << 10;
    let preamble = said(&[]).len();
    for offset in (0..=INITIAL_CREDIT).step_by(piece) {
        if offset == INITIAL_CREDIT {
            // More it may not send before it has read what credit there is.
            acknowledged(&mut slow, &mut heard, offset).await;
        }
        slow.write_all(&said(&[data(offset, piece)])[preamble..]).await.unwrap();
    }
    acknowledged(&mut slow, &mut heard, INITIAL_CREDIT + piece as u64).await;
    (slow, connection)
}

/// A client whose answers to pings wait behind all that it uploads.
#[tokio::test]
async fn whoever_uses_the_credit_it_was_given_has_answered() {
    let (mut server, _) = serve(1, ByteCount::mib(64), Duration::ZERO);
    let address = server.local_addrs()[0];
    patiently(async {
        let (_slow, connection) = uploads("127.0.0.3", &mut server).await;
        let refused = say("127.0.0.4", address, hello()).await.unwrap_err();
        assert_eq!(refused.code, refusal::BUSY, "{refused:?}");
        assert!(connection.error().is_none());
    })
    .await;
}

#[tokio::test]
async fn whoever_joins_has_answered() {
    let (server, _) = pair(Security::Tls);
    let limits = Limits { sessions: 1, answer_time: Duration::ZERO, ..patient() };
    let mut server = server.limits(limits).bind(&[LOOPBACK.parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    patiently(async {
        let mut first = TlsPeer::connect(address).await;
        let reply = first.hello(hello()).await.unwrap();
        let connection = server.accept().await;
        let mut second = TlsPeer::connect(address).await;
        second.join(second.proven(&reply, 1)).await.unwrap();
        let mut other = TlsPeer::connect(address).await;
        let refused = other.hello(hello()).await.unwrap_err();
        assert_eq!(refused.code, refusal::BUSY, "{refused:?}");
        assert!(connection.error().is_none());
    })
    .await;
}

/// One that cannot be admitted, whichever other makes room, is refused before any does.
#[tokio::test]
async fn nobody_is_put_out_for_a_connection_that_is_too_large() {
    // Where only memory is missing, and where a place is missing as well.
    for sessions in [100, 10] {
        patiently(too_large_puts_nobody_out(sessions)).await;
    }
}

async fn too_large_puts_nobody_out(sessions: usize) {
    let (mut server, budget) = serve(sessions, ByteCount::mib(16), Duration::ZERO);
    let address = server.local_addrs()[0];
    {
        let (mut peers, mut connections): (Vec<TcpStream>, Vec<Connection>) = Default::default();
        for _ in 0..10 {
            peers.push(say("127.0.0.3", address, hello()).await.unwrap());
            connections.push(server.accept().await);
        }
        // A message may have 16 MiB, which with all that a connection needs is more than there is.
        let large = Hello { messages: 1 << 20, ..hello() };
        let refused = say("127.0.0.4", address, large).await.unwrap_err();
        assert_eq!(refused.code, refusal::BUSY, "{refused:?}");
        assert!(refused.reason.contains("16MiB in all"), "{refused:?}");
        assert!(connections.iter().all(|connection| connection.error().is_none()));
        // Small ones that are too many do make room.
        while connections.iter().all(|connection| connection.error().is_none()) {
            peers.push(say("127.0.0.4", address, hello()).await.unwrap());
            connections.push(server.accept().await);
        }
        let ended = connections.iter().filter_map(|connection| connection.error());
        for error in ended {
            assert!(matches!(&*error, Error::PeerLost { .. }), "{error}");
        }
        assert!(budget.reserved() <= budget.total(), "{}", budget.reserved());
    }
}

/// Every limit is looked at before anybody is put out for one of them.
#[tokio::test]
async fn nobody_is_put_out_where_another_limit_keeps_the_newcomer_out() {
    let (server, _) = pair(Security::Plain);
    let (sessions, sessions_per_source, answer_time) = (2, 1, Duration::ZERO);
    let limits = Limits { sessions, sessions_per_source, answer_time, ..patient() };
    let mut server = server.limits(limits).bind(&[LOOPBACK.parse().unwrap()]).unwrap();
    let address = server.local_addrs()[0];
    patiently(async {
        let (_slow, _answered) = uploads("127.0.0.3", &mut server).await;
        let _idle = say("127.0.0.4", address, hello()).await.unwrap();
        let idle = server.accept().await;
        // There would be a place, but none for its address.
        let refused = say("127.0.0.3", address, hello()).await.unwrap_err();
        assert_eq!(refused.code, refusal::BUSY, "{refused:?}");
        assert!(idle.error().is_none(), "{:?}", idle.error());
        say("127.0.0.5", address, hello()).await.unwrap();
        assert!(idle.error().is_some(), "one from elsewhere has its place");
    })
    .await;
}
