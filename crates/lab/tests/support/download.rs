//! A download over two paths of the lab, every byte of which is checked.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::broadcast;
use weftline::{
    Bind, Client, ClientSecurity, Connection, PathConfig, PathEvent, PathEventKind, Server,
    ServerSecurity,
};
use weftline_lab::emulator::Start;
use weftline_lab::netns::Netns;
use weftline_lab::testbed::Testbed;
use weftline_lab::topology::End;

use super::{PATIENCE, link, path, with_queue, world};

const PORT: u16 = 4433;
/// The paths' round-trip times in milliseconds.
pub(crate) const RTT_MS: [u64; 2] = [20, 60];
pub(crate) const NAMES: [&str; 2] = ["near", "far"];

/// Two paths of 20 and 10 Mb/s, each with a queue of its bandwidth-delay product.
pub(crate) fn two_paths() -> Option<Testbed> {
    let links = NAMES.iter().zip([20, 10]).zip(RTT_MS).map(|((name, mbps), rtt)| {
        let link = with_queue(link(mbps, rtt / 2), mbps * rtt * 125);
        path(name, link.clone(), link)
    });
    world(links.collect(), Start::Explicit)
}

/// A server that sends for as long as a connection takes it, and `work` with a connection to it.
pub(crate) fn with_download<T: Send>(
    world: &Testbed,
    binds: [Bind; 2],
    work: impl AsyncFnOnce(Download) -> T + Send,
) -> T {
    let servers = servers(world);
    std::thread::scope(|scope| {
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        scope.spawn(move || inside(&world.server, async || serve(&servers, stopped).await));
        let result = inside(&world.client, async || {
            let connection = connect(&client(&servers, binds)).await;
            let work = work(Download { connection, at: 0, last: Instant::now() });
            tokio::time::timeout(PATIENCE, work).await.expect("the test hangs")
        });
        drop(stop);
        result
    })
}

/// Where the servers of a world listen, one on each path.
pub(crate) fn servers(world: &Testbed) -> [SocketAddr; 2] {
    [0, 1].map(|path| world.address(path, End::Server, PORT))
}

pub(crate) fn client(servers: &[SocketAddr; 2], binds: [Bind; 2]) -> Client {
    let mut client = Client::builder().security(ClientSecurity::InsecurePlaintext).seed(1);
    for ((name, bind), server) in NAMES.into_iter().zip(binds).zip(servers) {
        client = client.path(PathConfig::new(name, bind)).server(*server);
    }
    client.build().unwrap()
}

/// A connection to a server that may not listen yet.
pub(crate) async fn connect(client: &Client) -> Connection {
    loop {
        if let Ok(connection) = client.connect().await {
            return connection;
        }
    }
}

/// Runs `work` on a thread inside a namespace. Who waits there has no patience without end.
pub(crate) fn inside<T: Send>(ns: &Netns, work: impl AsyncFnOnce() -> T + Send) -> T {
    let run = || -> io::Result<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let work = async { tokio::time::timeout(2 * PATIENCE, work()).await };
        Ok(runtime.block_on(work).expect("the test hangs"))
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
pub(crate) struct Download {
    pub(crate) connection: Connection,
    pub(crate) at: u64,
    pub(crate) last: Instant,
}

impl Download {
    /// Reads until `done` says so, and returns the longest time without a byte.
    pub(crate) async fn until(&mut self, mut done: impl FnMut(&Connection) -> bool) -> Duration {
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
    pub(crate) async fn read_for(&mut self, time: Duration) -> Duration {
        let start = Instant::now();
        self.until(|_| start.elapsed() >= time).await
    }

    /// Reads until an event of the path `name` comes that `wanted` accepts.
    pub(crate) async fn event(
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
pub(crate) fn received(connection: &Connection, path: usize) -> u64 {
    let stats = connection.stats();
    let found = stats.session.paths.iter().find(|(id, _)| id.0 == path as u64);
    found.map_or(0, |(_, stats)| stats.received)
}

/// Reads until every path carries data.
pub(crate) async fn settle(download: &mut Download) {
    for path in 0..2 {
        let before = received(&download.connection, path);
        download.until(|c| received(c, path) > before + 100_000).await;
    }
}

/// Runs `ip ARGS` in the client's namespace.
pub(crate) fn ip(world: &Testbed, args: &str) {
    let output = world.client.command("ip").args(args.split(' ')).output().unwrap();
    assert!(output.status.success(), "ip {args}: {}", String::from_utf8_lossy(&output.stderr));
}
