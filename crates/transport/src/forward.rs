//! TCP forwarding: `weftline connect` takes local TCP connections, `weftline serve` makes one to
//! the target for each, and a multipath connection carries the bytes between them.
//!
//! The client sends one byte, [`OPEN`], ahead of its data: until then the connection is one of the
//! few kept ready, so that a new local connection need not wait for any handshake, and the server
//! does not bother the target. A target that speaks first is heard as soon as the byte arrives.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, broadcast, watch};
use tokio::task::JoinSet;
use weftline_core::session::{RESET_FORWARD, RESET_SHUTDOWN};

use crate::client::Client;
use crate::connection::Connection;
use crate::error::Error;
use crate::events::{PathEvent, PathEventKind};
use crate::relay::relay;
use crate::server::Server;
use crate::socket;

/// What a peer is told when its connection is stopped.
const SHUTTING_DOWN: &str = "the other side is shutting down";
/// The client's first byte: from here on the connection belongs to a local one.
const OPEN: u8 = 1;
/// How long the target may take to accept a connection.
const TARGET_TIMEOUT: Duration = Duration::from_secs(10);
/// How long connections may go on after the shutdown signal.
const DRAIN_TIME: Duration = Duration::from_secs(5);
/// How often the ready connections are looked after.
const POOL_INTERVAL: Duration = Duration::from_secs(5);
/// The wait after a failed attempt to make one ready.
const POOL_RETRY: Duration = Duration::from_secs(1);
/// The wait after the system refused to accept a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Forwards each connection of `server` to the TCP address `target` (`host:port`), until `stop`
/// completes. Connections under way then have 5 s to finish, or until `stop_now` completes.
pub async fn serve(
    mut server: Server,
    target: String,
    stop: impl Future<Output = ()>,
    stop_now: impl Future<Output = ()>,
) {
    let target: Arc<str> = target.into();
    let mut open = Open::new();
    tokio::pin!(stop);
    loop {
        tokio::select! {
            connection = server.accept() => {
                let (target, stage) = (Arc::clone(&target), open.stage.subscribe());
                open.tasks.spawn(serve_one(connection, target, stage));
            }
            Some(_) = open.tasks.join_next() => {}
            () = &mut stop => break,
        }
    }
    drop(server);
    open.drain(stop_now).await;
}

async fn serve_one(
    mut connection: Connection,
    target: Arc<str>,
    mut stage: watch::Receiver<Stage>,
) {
    let peer = connection.peer_addr();
    let opened = tokio::select! {
        opened = connection.read_u8() => opened,
        () = reached(&mut stage, Stage::Finishing) => {
            connection.abort(RESET_SHUTDOWN, SHUTTING_DOWN);
            let _ = connection.closed().await;
            return;
        }
    };
    let refusal = match opened {
        // It was kept ready and never used, or its client failed.
        Err(error) => {
            tracing::debug!("{peer}: a connection ended unused: {error}");
            return;
        }
        Ok(OPEN) => {
            let dial = tokio::time::timeout(TARGET_TIMEOUT, TcpStream::connect(&*target)).await;
            match dial.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())) {
                Ok(local) => return relay_until(connection, local, peer, stage).await,
                Err(error) => format!("cannot reach the forward target {target}: {error}"),
            }
        }
        Ok(other) => format!("a forwarded connection begins with byte {OPEN}, not {other}"),
    };
    tracing::warn!("{peer}: {refusal}");
    connection.abort(RESET_FORWARD, &refusal);
    let _ = connection.closed().await;
}

/// Relays to the end, which comes early when the connections under way are stopped: this one is
/// reset then, and the peer told why.
async fn relay_until(
    connection: Connection,
    local: TcpStream,
    peer: SocketAddr,
    mut stage: watch::Receiver<Stage>,
) {
    let control = connection.control();
    let stopped = async {
        reached(&mut stage, Stage::Over).await;
        control.abort(RESET_SHUTDOWN, SHUTTING_DOWN);
        // The relay sees the end of the connection and ends, too.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        result = relay(connection, local) => finished(peer, result),
        () = stopped => {}
    }
}

fn finished(peer: SocketAddr, result: io::Result<crate::relay::Relayed>) {
    match result {
        Ok(relayed) => {
            let (sent, received) = (relayed.sent, relayed.received);
            tracing::debug!("{peer}: finished, {sent} bytes sent, {received} bytes received");
        }
        Err(error) => tracing::info!("{peer}: a forwarded connection failed: {error}"),
    }
}

/// Takes TCP connections at one local address and carries each over the paths of a client.
pub struct Forwarder {
    listener: TcpListener,
    local: SocketAddr,
    pool: Arc<Pool>,
}

impl Forwarder {
    /// Listens on `address`, after making sure that the server can be reached. `ready`
    /// connections are kept open ahead of use.
    ///
    /// # Errors
    /// When the address is taken or not there, or the server cannot be reached or does not fit.
    pub async fn bind(client: Client, address: SocketAddr, ready: usize) -> Result<Self, Error> {
        let listener = socket::listen(address)?;
        let local = listener.local_addr().map_err(Error::Socket)?;
        let paths = Arc::new(PathLog::default());
        let pool = Arc::new(Pool {
            client,
            size: ready,
            ready: Mutex::new(VecDeque::new()),
            taken: Notify::new(),
            paths,
        });
        let first = pool.connect().await?;
        if ready > 0 {
            pool.ready().push_back(first);
        }
        Ok(Self { listener, local, pool })
    }

    /// The address listened on, with the port the system chose for port 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Forwards until `stop` completes. Connections under way then have 5 s to finish, or until
    /// `stop_now` completes.
    pub async fn run(self, stop: impl Future<Output = ()>, stop_now: impl Future<Output = ()>) {
        let mut open = Open::new();
        let mut keeper = JoinSet::new();
        keeper.spawn(Arc::clone(&self.pool).keep());
        tokio::pin!(stop);
        loop {
            let (local, peer) = tokio::select! {
                accepted = self.listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        tracing::warn!("cannot accept a connection: {error}");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
                Some(_) = open.tasks.join_next() => continue,
                () = &mut stop => break,
            };
            let (pool, stage) = (Arc::clone(&self.pool), open.stage.subscribe());
            open.tasks.spawn(forward_one(pool, local, peer, stage));
        }
        drop(self.listener);
        keeper.shutdown().await;
        for unused in self.pool.ready().drain(..) {
            open.tasks.spawn(async move {
                unused.abort(RESET_SHUTDOWN, SHUTTING_DOWN);
                let _ = unused.closed().await;
            });
        }
        open.drain(stop_now).await;
    }
}

async fn forward_one(
    pool: Arc<Pool>,
    local: TcpStream,
    peer: SocketAddr,
    mut stage: watch::Receiver<Stage>,
) {
    let opened = tokio::select! {
        opened = pool.open() => opened,
        () = reached(&mut stage, Stage::Over) => return,
    };
    match opened {
        Ok(connection) => relay_until(connection, local, peer, stage).await,
        Err(error) => {
            tracing::warn!("cannot forward a connection of {peer}: {error}");
            let _ = local.set_zero_linger();
        }
    }
}

/// How far a daemon's life has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// It takes new connections.
    Running,
    /// Connections under way may finish.
    Finishing,
    /// They are stopped.
    Over,
}

/// Waits until the daemon has come as far as `wanted`.
async fn reached(stage: &mut watch::Receiver<Stage>, wanted: Stage) {
    if stage.wait_for(|stage| *stage >= wanted).await.is_err() {
        // The daemon holds the sender until its last connection is gone.
        std::future::pending::<()>().await;
    }
}

/// The connections under way.
struct Open {
    tasks: JoinSet<()>,
    stage: watch::Sender<Stage>,
}

impl Open {
    fn new() -> Self {
        Self { tasks: JoinSet::new(), stage: watch::Sender::new(Stage::Running) }
    }

    /// Lets the connections finish for a while and ends those that do not.
    async fn drain(mut self, stop_now: impl Future<Output = ()>) {
        self.stage.send_replace(Stage::Finishing);
        tokio::select! {
            () = async { while self.tasks.join_next().await.is_some() {} } => return,
            () = tokio::time::sleep(DRAIN_TIME) => {}
            () = stop_now => {}
        }
        self.stage.send_replace(Stage::Over);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Connections kept ready: authenticated, with all their paths, and not yet used.
struct Pool {
    client: Client,
    size: usize,
    ready: Mutex<VecDeque<Connection>>,
    taken: Notify,
    paths: Arc<PathLog>,
}

impl Pool {
    /// A connection for a local one: a ready one if there is one, else a new one.
    async fn open(&self) -> Result<Connection, Error> {
        let mut connection = match self.take() {
            Some(ready) => ready,
            None => self.connect().await?,
        };
        if let Err(error) = connection.write_u8(OPEN).await {
            let reason = error.to_string();
            return Err(Error::Reset { code: RESET_FORWARD, reason });
        }
        Ok(connection)
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<Connection>> {
        self.ready.lock().expect("the pool's users do not panic")
    }

    fn take(&self) -> Option<Connection> {
        let mut ready = self.ready();
        let live = std::iter::from_fn(|| ready.pop_front()).find(|c| c.error().is_none());
        drop(ready);
        self.taken.notify_one();
        live
    }

    async fn connect(&self) -> Result<Connection, Error> {
        let connection = self.client.connect().await?;
        tokio::spawn(Arc::clone(&self.paths).follow(connection.events()));
        Ok(connection)
    }

    /// Keeps the wanted number of connections ready.
    async fn keep(self: Arc<Self>) {
        loop {
            self.ready().retain(|connection| connection.error().is_none());
            let wait = if self.ready().len() >= self.size {
                POOL_INTERVAL
            } else {
                match self.connect().await {
                    Ok(connection) => {
                        self.ready().push_back(connection);
                        continue;
                    }
                    Err(error) => {
                        tracing::debug!("cannot keep a connection ready: {error}");
                        POOL_RETRY
                    }
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.taken.notified() => {}
            }
        }
    }
}

/// Says in the log when a path comes and goes, once for all the connections that see it.
#[derive(Default)]
struct PathLog(Mutex<BTreeMap<Arc<str>, bool>>);

impl PathLog {
    async fn follow(self: Arc<Self>, mut events: broadcast::Receiver<PathEvent>) {
        loop {
            match events.recv().await {
                Ok(event) => self.note(&event),
                Err(broadcast::error::RecvError::Lagged(_)) => {}
                Err(broadcast::error::RecvError::Closed) => return,
            }
        }
    }

    fn note(&self, event: &PathEvent) {
        let up = match &event.kind {
            PathEventKind::Up { .. } | PathEventKind::Recovered { .. } => true,
            PathEventKind::AttemptFailed { .. } | PathEventKind::Silent { .. } => false,
            PathEventKind::Down { .. } => return,
        };
        let mut paths = self.0.lock().expect("the log's users do not panic");
        if paths.insert(Arc::clone(&event.name), up) != Some(up) {
            tracing::info!("{event}");
        }
    }
}
