//! What the daemons cost, beside two chained relays that only copy.
//!
//! ```text
//! cargo bench -p weftline --bench daemons -- [ROUNDS] [SECONDS]
//! ```
//!
//! A download over loopback: a source, a relay before it (far), a relay before that (near), a sink.
//! Weftline's relays are those of `serve` and `connect`, with two paths in plaintext; the peers are
//! tokio's `copy_bidirectional`. Each relay is a process of its own, whose CPU time is that of its
//! threads (`/proc/PID/task/*/schedstat`). In a round every case runs once, at full rate and at two
//! rates that the source keeps to, so that whatever else the machine does meets all alike. What
//! means something is the ratios; the figures are medians.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use weftline::{
    Bind, Client, ClientSecurity, Forwarder, LocalService, PathConfig, Server, ServerSecurity,
    Target,
};

/// The rates that the source keeps to, Mb/s.
const RATES: [u64; 2] = [100, 1000];
/// Not counted at the beginning.
const WARM_UP: Duration = Duration::from_secs(1);
/// What the source writes at once at most, and the sink reads.
const BLOCK: usize = 256 << 10;
/// What the copying relays read at once: as the tuned haproxy of `scripts/relay`.
const COPIED: usize = 64 << 10;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    if let [role, to] = &words[..]
        && let Ok(to) = to.parse()
    {
        return relay(role, to);
    }
    let number = |at: usize, default: u64| {
        words.get(at).map_or(default, |word| word.parse().expect("ROUNDS and SECONDS are numbers"))
    };
    let (rounds, length) = (number(0, 3), Duration::from_secs(number(1, 3)));
    let mut all = [const { Vec::new() }; 2];
    for _ in 0..rounds {
        for (kind, runs) in ["copying", "weftline"].into_iter().zip(&mut all) {
            let rates = RATES.into_iter().map(Some).chain([None]);
            runs.push(rates.map(|rate| run(kind, rate, length)).collect());
        }
    }
    report(&all);
}

/// What a run has shown.
struct Run {
    gbps: f64,
    /// CPU seconds of the near and of the far relay for a gigabyte.
    near: f64,
    far: f64,
}

fn report([copying, weftline]: &[Vec<Vec<Run>>; 2]) {
    let median = |runs: &[Vec<Run>], case: usize, of: fn(&Run) -> f64| {
        let mut all: Vec<f64> = runs.iter().map(|run| of(&run[case])).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    println!("{:24} {:>9} {:>9} {:>7}", "", "copying", "weftline", "ratio");
    let row = |name: &str, copying: f64, weftline: f64| {
        println!("{name:24} {copying:9.3} {weftline:9.3} {:7.2}", weftline / copying);
    };
    for (case, name) in ["100 Mb/s", "1 Gb/s", "full rate"].into_iter().enumerate() {
        for (what, of) in [
            ("Gb/s", (|run| run.gbps) as fn(&Run) -> f64),
            ("near, CPU s/GB", |run| run.near),
            ("far, CPU s/GB", |run| run.far),
        ] {
            let name = format!("{name}: {what}");
            row(&name, median(copying, case, of), median(weftline, case, of));
        }
    }
    let slow_by_fast = |runs| median(runs, 0, |run| run.near) / median(runs, 1, |run| run.near);
    row("near, 100 Mb/s : 1 Gb/s", slow_by_fast(copying), slow_by_fast(weftline));
}

/// Carries a stream through two relays of a kind for `length`.
fn run(kind: &str, mbps: Option<u64>, length: Duration) -> Run {
    let source = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
    let (far_role, near_role) =
        if kind == "weftline" { ("serve", "connect") } else { ("copy", "copy") };
    let far = Relay::start(far_role, source.local_addr().expect("bound"));
    let near = Relay::start(near_role, far.address);
    let mut sink = TcpStream::connect(near.address).expect("it listens");
    // A server that speaks first is heard without a word, and so is the copying relay's.
    let (stream, _) = source.accept().expect("the far relay connects");
    std::thread::spawn(move || send(stream, mbps));
    let mut block = vec![0; BLOCK];
    let mut receive = |length: Duration| {
        let (begin, mut bytes) = (Instant::now(), 0);
        while begin.elapsed() < length {
            bytes += sink.read(&mut block).expect("the source sends on");
        }
        (bytes as f64 / 1e9, begin.elapsed())
    };
    receive(WARM_UP);
    let before = [near.cpu(), far.cpu()];
    let (gigabytes, time) = receive(length);
    Run {
        gbps: gigabytes * 8.0 / time.as_secs_f64(),
        near: (near.cpu() - before[0]).as_secs_f64() / gigabytes,
        far: (far.cpu() - before[1]).as_secs_f64() / gigabytes,
    }
}

/// Sends for ever, at a rate if one is given: what is due, in packets as small as the clock allows.
fn send(mut to: TcpStream, mbps: Option<u64>) {
    to.set_nodelay(true).expect("it is a socket");
    let (block, begin, mut sent) = (vec![7; BLOCK], Instant::now(), 0);
    loop {
        let due = mbps.map_or(BLOCK as u64, |mbps| {
            let bytes = begin.elapsed().as_micros() as u64 * mbps / 8;
            (bytes - sent).min(BLOCK as u64)
        });
        if due < 1448 {
            std::thread::sleep(Duration::from_micros(50));
        } else if to.write_all(&block[..due as usize]).is_err() {
            return;
        } else if mbps.is_some() {
            sent += due;
        }
    }
}

/// A relay in a process of its own, until it is dropped.
struct Relay {
    process: Child,
    address: SocketAddr,
}

impl Relay {
    fn start(role: &str, to: SocketAddr) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("it is running"));
        let mut process = command
            .args([role, &to.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let mut line = String::new();
        let output = process.stdout.take().expect("piped");
        BufReader::new(output).read_line(&mut line).expect("it says where it listens");
        Self { address: line.trim().parse().expect("an address"), process }
    }

    fn cpu(&self) -> Duration {
        let tasks = format!("/proc/{}/task", self.process.id());
        let time = |task: std::fs::DirEntry| {
            let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
            text.split(' ').next()?.parse::<u64>().ok()
        };
        let tasks = std::fs::read_dir(tasks).expect("it is running");
        Duration::from_nanos(tasks.flatten().filter_map(time).sum())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It has gone already if this fails.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A relay's process: relays to `to` until its standard input ends.
fn relay(role: &str, to: SocketAddr) {
    // As the daemons' own, which see to their sockets as often.
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().event_interval(4).build().expect("threads can be made");
    let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let forever = std::future::pending::<()>;
    runtime.block_on(async {
        match role {
            "serve" => {
                let server = Server::builder().security(ServerSecurity::InsecurePlaintext);
                let server = server.bind(&[any]).expect("loopback");
                say(server.local_addrs()[0]);
                let target = Target::Fixed(to.into());
                tokio::spawn(weftline::serve(server, target, forever(), forever()));
            }
            "connect" => {
                let path = |last: u8| {
                    let from = Ipv4Addr::new(127, 0, 0, last).into();
                    PathConfig::new(format!("path{last}"), Bind::Address(from))
                };
                let client = Client::builder().server(to).path(path(1)).path(path(2));
                let client = client.security(ClientSecurity::InsecurePlaintext);
                let client = client.build().expect("both addresses are local");
                let forwarder = Forwarder::bind(client, any, LocalService::Forward, 1).await;
                let forwarder = forwarder.expect("loopback");
                say(forwarder.local_addr());
                tokio::spawn(forwarder.run(forever(), forever()));
            }
            _ => {
                let listener = tokio::net::TcpListener::bind(any).await.expect("loopback");
                say(listener.local_addr().expect("bound"));
                tokio::spawn(async move {
                    let (near, _) = listener.accept().await?;
                    let far = tokio::net::TcpStream::connect(to).await?;
                    copy(near, far).await
                });
            }
        }
        let wait = || std::io::stdin().read_to_end(&mut Vec::new());
        let _ = tokio::task::spawn_blocking(wait).await;
    });
}

async fn copy(
    mut near: tokio::net::TcpStream,
    mut far: tokio::net::TcpStream,
) -> std::io::Result<()> {
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    tokio::io::copy_bidirectional_with_sizes(&mut near, &mut far, COPIED, COPIED).await?;
    Ok(())
}

fn say(address: SocketAddr) {
    println!("{address}");
}
