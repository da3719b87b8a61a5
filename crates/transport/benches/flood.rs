//! What a flood of connections that nobody answers costs a server, and an honest client meanwhile.
//!
//! ```text
//! cargo bench -p weftline --bench flood -- [PLACES]
//! ```
//!
//! Sixty-four addresses of the loopback network open connections in plaintext and answer nothing: first
//! as many as there are places (4,096), then as many again, for each of which one must go. The server is
//! a thread, whose CPU time is the kernel's (`schedstat`). The honest client opens a connection and gets
//! 100 kB back, one time after the other, while the flood goes on.
#![allow(clippy::unwrap_used, reason = "a benchmark")]

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::attack::{Heard, hello, said, tcp_from};
use common::{Security, echo, exchange, pair, pattern, two_paths};
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use weftline::{ClientSecurity, Limits, MemoryBudget};
use weftline_core::ByteCount;
use weftline_core::wire::Record;

const SOURCES: usize = 64;
const ROUNDS: u64 = 100;
const HOUR: Duration = Duration::from_secs(3600);

/// The server's thread.
struct Cpu(String);

impl Cpu {
    /// Seconds of a processor.
    fn used(&self) -> f64 {
        let text = std::fs::read_to_string(&self.0).unwrap();
        text.split_whitespace().next().unwrap().parse::<u64>().unwrap() as f64 / 1e9
    }
}

/// A server on a thread of its own.
fn serve(places: usize) -> (SocketAddr, ClientSecurity, Cpu) {
    let (say, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _inside = runtime.enter();
        let (server, trust) = pair(Security::Plain);
        let limits = Limits { sessions: places, ..Limits::default() };
        let budget = MemoryBudget::new(ByteCount::mib(8192)).unwrap();
        let server = server.limits(limits).memory(budget).idle_timeout(HOUR).messages();
        let server = server.bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
        let address = server.local_addrs()[0];
        echo(server);
        let thread = std::fs::read_link("/proc/thread-self").unwrap();
        let cpu = Cpu(format!("/proc/{}/schedstat", thread.display()));
        say.send((address, trust, cpu)).unwrap();
        runtime.block_on(std::future::pending::<()>());
    });
    heard.recv().unwrap()
}

/// Opens connections without end from every address, each of which holds its part of `places`; counts
/// those that were answered.
fn flood(server: SocketAddr, places: usize) -> (JoinSet<()>, Arc<AtomicUsize>) {
    let (mut sources, opened) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
    for source in 0..SOURCES {
        let opened = Arc::clone(&opened);
        sources.spawn(async move {
            let source = format!("127.0.1.{source}");
            let mut held = VecDeque::new();
            loop {
                let mut peer = tcp_from(&source, server).await;
                let said = said(&[Record::Hello(hello())]);
                if peer.write_all(&said).await.is_ok()
                    && let Some(Record::HelloReply(_)) = Heard::default().next(&mut peer).await
                {
                    held.push_back(peer);
                    opened.fetch_add(1, Ordering::Relaxed);
                }
                if held.len() > places / SOURCES + 1 {
                    held.pop_front();
                }
            }
        });
    }
    (sources, opened)
}

/// Waits until so many were opened; CPU and time for each of them, in microseconds.
async fn cost(cpu: &Cpu, opened: &AtomicUsize, until: usize) -> [f64; 2] {
    let (from, used, begun) = (opened.load(Ordering::Relaxed), cpu.used(), Instant::now());
    while opened.load(Ordering::Relaxed) < until {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let count = (opened.load(Ordering::Relaxed) - from) as f64;
    [cpu.used() - used, begun.elapsed().as_secs_f64()].map(|seconds| seconds * 1e6 / count)
}

/// Milliseconds of the honest client, sorted.
async fn honest(server: SocketAddr, trust: ClientSecurity) -> Vec<f64> {
    let client = two_paths(trust).server(server).build().unwrap();
    let mut took = Vec::new();
    for round in 0..ROUNDS {
        let (data, begun) = (pattern(100_000, round), Instant::now());
        let connection = client.connect().await.unwrap();
        assert!(exchange(connection, data.clone()).await.0 == data);
        took.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    took.sort_by(f64::total_cmp);
    took
}

fn files() -> usize {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    hard.map_or(usize::MAX, |most| most as usize)
}

fn main() {
    let place = std::env::args().skip(1).find_map(|word| word.parse().ok());
    let places: usize = place.unwrap_or(4096);
    assert!(files() > 2 * places + 1200, "{} open files are needed: ulimit -n", 2 * places + 1200);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let row = |what: &str, times: &[f64]| {
            let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
            println!("{what}: median {:.1} ms, 95 % {:.1} ms", at(0.5), at(0.95));
        };
        let (server, trust, cpu) = serve(places);
        row("honest client, nobody else", &honest(server, trust.clone()).await);
        let (_sources, opened) = flood(server, places);
        let [cpu_us, us] = cost(&cpu, &opened, places).await;
        println!("while there are places: {cpu_us:.0} us CPU, {us:.0} us for each connection");
        let [cpu_us, us] = cost(&cpu, &opened, 2 * places).await;
        println!("when one must go: {cpu_us:.0} us CPU, {us:.0} us for each connection");
        row("honest client in the flood", &honest(server, trust).await);
    });
}
