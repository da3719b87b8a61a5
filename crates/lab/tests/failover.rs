//! Paths that die and come back under a running connection, on the real kernel: how long the
//! stream stands still, how soon a path that is back carries data again, and what the loss of an
//! interface or address does.
//!
//! The bounds are those of docs/failover.md. A machine that is too slow for a moment may miss them:
//! each is tried three times, and a try that misses while the host of a virtual machine takes its
//! processors away is none.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use support::{alone, link, path, with_queue, world};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::broadcast;
use weftline::{
    Bind, Client, ClientSecurity, Connection, PathConfig, PathEvent, PathEventKind, Server,
    ServerSecurity,
};
use weftline_lab::emulator::{Start, Way};
use weftline_lab::load::LoadMeter;
use weftline_lab::testbed::Testbed;
use weftline_lab::topology::{self, End};

const PORT: u16 = 4433;
/// The paths' round-trip times in milliseconds.
const RTT_MS: [u64; 2] = [20, 60];
const NAMES: [&str; 2] = ["near", "far"];
/// How long the stream may stand still: max(200 ms, 3 × the larger round-trip time).
const LONGEST_GAP: Duration = Duration::from_millis(200);
/// How long a path may go unnoticed that is back, besides two round-trip times.
const RETURN: Duration = Duration::from_millis(300);
/// How long the paths carry data before one is cut: the times by which a subflow is judged take
/// about a second to settle, and a younger one is given longer.
const STEADY: Duration = Duration::from_millis(1200);
/// What a cut path is left in before it is looked at: its subflow is stalled by then.
const NOTICED: Duration = Duration::from_millis(700);
/// How long it stays cut after that, and the packets that the client may send on it meanwhile:
/// five attempts and what the kernel sends again on the old subflow.
const DARK: Duration = Duration::from_secs(1);
const MOST_PACKETS: u64 = 12;
/// Far more than anything here takes.
const PATIENCE: Duration = Duration::from_secs(400);
const TRIES: usize = 3;
/// Tries after which a machine is taken to have no quiet moment.
const TRIES_DISTURBED: usize = 8;

/// Two paths of 20 and 10 Mb/s, each with a queue of its bandwidth-delay product.
fn two_paths() -> Option<Testbed> {
    let links = NAMES.iter().zip([20, 10]).zip(RTT_MS).map(|((name, mbps), rtt)| {
        let link = with_queue(link(mbps, rtt / 2), mbps * rtt * 125);
        path(name, link.clone(), link)
    });
    world(links.collect(), Start::Explicit)
}

/// A server that sends for as long as a connection takes it, and `work` with a connection to it.
fn with_download<T: Send>(
    world: &Testbed,
    binds: [Bind; 2],
    work: impl AsyncFnOnce(Download) -> T + Send,
) -> T {
    let servers = [0, 1].map(|path| world.address(path, End::Server, PORT));
    std::thread::scope(|scope| {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        scope.spawn(move || inside(&world.server, async || serve(&servers, stopped).await));
        let result = inside(&world.client, async || {
            let mut client = Client::builder().security(ClientSecurity::InsecurePlaintext).seed(1);
            for ((name, bind), server) in NAMES.into_iter().zip(binds).zip(servers) {
                client = client.path(PathConfig::new(name, bind)).server(server);
            }
            let client = client.build().unwrap();
            let connection = loop {
                // The server may not listen yet.
                if let Ok(connection) = client.connect().await {
                    break connection;
                }
            };
            let work = work(Download { connection, at: 0, last: Instant::now() });
            tokio::time::timeout(PATIENCE, work).await.expect("the test hangs")
        });
        drop(stop);
        result
    })
}

/// Runs `work` on a thread inside a namespace.
fn inside<T: Send>(ns: &weftline_lab::netns::Netns, work: impl AsyncFnOnce() -> T + Send) -> T {
    let run = || -> io::Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(work()))
    };
    ns.run(run).unwrap()
}

/// The byte at `offset` of the stream; its period is no power of two.
const fn byte_at(offset: u64) -> u8 {
    (offset % 251) as u8
}

async fn serve(servers: &[SocketAddr], stopped: tokio::sync::oneshot::Receiver<()>) {
    let server = Server::builder().security(ServerSecurity::InsecurePlaintext);
    let mut server = server.bind(servers).unwrap();
    let send = async {
        let mut connection = server.accept().await;
        let block: Vec<u8> = (0..251 * 64).map(byte_at).collect();
        while connection.write_all(&block).await.is_ok() {}
    };
    tokio::select! {
        () = send => {}
        _ = stopped => {}
    }
}

/// A download, every byte of which is checked.
struct Download {
    connection: Connection,
    at: u64,
    last: Instant,
}

impl Download {
    /// Reads until `done` says so, and returns the longest time without a byte.
    async fn until(&mut self, mut done: impl FnMut(&Connection) -> bool) -> Duration {
        let mut block = vec![0; 64 << 10];
        let mut longest = Duration::ZERO;
        while !done(&self.connection) {
            let read = self.connection.read(&mut block);
            // What is waited for may come while the stream stands still.
            let Ok(read) = tokio::time::timeout(Duration::from_millis(5), read).await else {
                continue;
            };
            let n = read.unwrap();
            assert_ne!(n, 0, "the stream has no end");
            let wrong = (0..n).find(|&i| block[i] != byte_at(self.at + i as u64));
            assert_eq!(wrong, None, "a wrong byte after {}", self.at);
            self.at += n as u64;
            longest = longest.max(self.last.elapsed());
            self.last = Instant::now();
        }
        longest.max(self.last.elapsed())
    }

    /// Reads for `time`.
    async fn read_for(&mut self, time: Duration) -> Duration {
        let start = Instant::now();
        self.until(|_| start.elapsed() >= time).await
    }

    /// Reads until an event of the path `name` comes that `wanted` accepts.
    async fn event(
        &mut self,
        events: &mut broadcast::Receiver<PathEvent>,
        name: &str,
        wanted: impl Fn(&PathEventKind) -> bool,
    ) {
        self.until(|_| {
            while let Ok(event) = events.try_recv() {
                if &*event.name == name && wanted(&event.kind) {
                    return true;
                }
            }
            false
        })
        .await;
    }
}

/// Payload bytes received on a path.
fn received(connection: &Connection, path: usize) -> u64 {
    let stats = connection.stats();
    let found = stats.session.paths.iter().find(|(id, _)| id.0 == path as u64);
    found.map_or(0, |(_, stats)| stats.received)
}

/// Reads until every path carries data.
async fn settle(download: &mut Download) {
    for path in 0..2 {
        let before = received(&download.connection, path);
        download.until(|c| received(c, path) > before + 100_000).await;
    }
}

#[test]
fn a_cut_path_is_rescued_and_its_return_noticed() {
    let _alone = alone();
    let Some(world) = two_paths() else { return };
    let binds = NAMES.map(|name| Bind::Interface(name.to_owned()));
    with_download(&world, binds, async |mut download| {
        for (path, name) in NAMES.into_iter().enumerate() {
            for way in [None, Some(Way::Down), Some(Way::Up)] {
                let (mut tries, mut disturbed) = (0, 0);
                while tries < TRIES && disturbed < TRIES_DISTURBED {
                    let meter = LoadMeter::start();
                    let seen = cut(&world, &mut download, path, way).await;
                    eprintln!("{name} {way:?}: {seen:.0?}");
                    if seen.holds(path) {
                        break;
                    }
                    match meter.stolen() {
                        Some(cores) => {
                            eprintln!("not judged: the host took {cores:.2} cores");
                            disturbed += 1;
                        }
                        None => tries += 1,
                    }
                    assert!(tries < TRIES, "{name} {way:?}: {seen:?}");
                }
            }
        }
    });
}

/// What a cut did.
#[derive(Debug)]
struct Seen {
    /// The longest time without a byte while the path was cut.
    gap: Duration,
    /// From its return to the first byte on it.
    back: Duration,
    /// What the client sent into the dark during [`DARK`], if both directions were cut.
    packets: u64,
}

impl Seen {
    fn holds(&self, path: usize) -> bool {
        let return_limit = RETURN + 2 * Duration::from_millis(RTT_MS[path]);
        self.gap <= LONGEST_GAP && self.back <= return_limit && self.packets <= MOST_PACKETS
    }
}

/// Cuts a path for a while.
async fn cut(world: &Testbed, download: &mut Download, path: usize, way: Option<Way>) -> Seen {
    settle(download).await;
    download.read_for(STEADY).await;
    let dropped = || world.emulator.report().unwrap().paths[path].up.counters.cut.packets;
    download.last = Instant::now();
    world.emulator.cut(NAMES[path], way, true).unwrap();
    let gap = download.read_for(NOTICED).await;
    let before = dropped();
    let gap = gap.max(download.read_for(DARK).await);
    let packets = if way.is_none() { dropped() - before } else { 0 };
    world.emulator.cut(NAMES[path], way, false).unwrap();
    let back = Instant::now();
    let before = received(&download.connection, path);
    download.until(|c| received(c, path) > before).await;
    Seen { gap, back: back.elapsed(), packets }
}

/// Runs `ip ARGS` in the client's namespace.
fn ip(world: &Testbed, args: &str) {
    let output = world.client.command("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn an_interface_or_address_that_goes_takes_its_subflow_along() {
    let _alone = alone();
    let Some(world) = two_paths() else { return };
    let far = IpAddr::V4(topology::address(1, End::Client).v4);
    let binds = [Bind::Interface("near".to_owned()), Bind::Address(far)];
    with_download(&world, binds, async |mut download| {
        settle(&mut download).await;
        let mut events = download.connection.events();
        let gone = |kind: &PathEventKind| match kind {
            PathEventKind::Down { reason, .. } => reason.ends_with("is down or gone"),
            _ => false,
        };
        let up_from = |wanted: &str| {
            let wanted: IpAddr = wanted.parse().unwrap();
            move |kind: &PathEventKind| match kind {
                PathEventKind::Up { local, .. } => local.ip() == wanted,
                _ => false,
            }
        };
        let steps = [
            ("near", "link set near down", "link set near up", "10.77.0.1"),
            ("far", "link set far down", "link set far up", "10.77.1.1"),
            ("far", "addr del 10.77.1.1/24 dev far", "addr add 10.77.1.1/24 dev far", "10.77.1.1"),
            (
                "near",
                "addr del 10.77.0.1/24 dev near",
                "addr add 10.77.0.9/24 dev near",
                "10.77.0.9",
            ),
        ];
        for (name, away, back, address) in steps {
            ip(&world, away);
            download.event(&mut events, name, gone).await;
            // The other path carries on.
            let at = download.at;
            while download.at < at + 100_000 {
                download.read_for(Duration::from_millis(1)).await;
            }
            ip(&world, back);
            download.event(&mut events, name, up_from(address)).await;
            settle(&mut download).await;
        }
    });
}

#[test]
fn all_paths_may_be_gone_for_a_while() {
    let _alone = alone();
    let Some(world) = two_paths() else { return };
    with_download(&world, [Bind::Any, Bind::Any], async |mut download| {
        settle(&mut download).await;
        for name in NAMES {
            world.emulator.cut(name, None, true).unwrap();
        }
        let at = download.at;
        download.read_for(Duration::from_millis(2500)).await;
        for name in NAMES {
            world.emulator.cut(name, None, false).unwrap();
        }
        let back = Instant::now();
        settle(&mut download).await;
        eprintln!("both paths carry again {:.0?} after their return", back.elapsed());
        assert!(download.at > at, "the stream goes on where it was");
    });
}
