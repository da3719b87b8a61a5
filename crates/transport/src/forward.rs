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
use crate::connection::{Connection, Control};
use crate::error::Error;
use crate::events::{PathEvent, PathEventKind};
use crate::relay::relay;
use crate::server::Server;
use crate::socket;

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
                let (target, stop) = (Arc::clone(&target), open.stop.subscribe());
                let control = connection.control();
                let serving = serve_one(connection, target);
                open.tasks.spawn(until_stopped(control, stop, serving));
            }
            Some(_) = open.tasks.join_next() => {}
            () = &mut stop => break,
        }
    }
    drop(server);
    open.drain(stop_now).await;
}

async fn serve_one(mut connection: Connection, target: Arc<str>) {
    let peer = connection.peer_addr();
    match connection.read_u8().await {
        Ok(OPEN) => {}
        Ok(other) => {
            let reason = format!("a forwarded connection begins with byte {OPEN}, not {other}");
            tracing::warn!("{peer}: {reason}");
            connection.abort(RESET_FORWARD, &reason);
            let _ = connection.closed().await;
            return;
        }
        // It was kept ready and never used, or its client failed.
        Err(error) => {
            tracing::debug!("{peer}: a connection ended unused: {error}");
            return;
        }
    }
    let dial = tokio::time::timeout(TARGET_TIMEOUT, TcpStream::connect(&*target));
    let dialled = dial.await.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
    let local = match dialled {
        Ok(local) => local,
        Err(error) => {
            let reason = format!("cannot reach the forward target {target}: {error}");
            tracing::warn!("{reason}");
            connection.abort(RESET_FORWARD, &reason);
            let _ = connection.closed().await;
            return;
        }
    };
    finished(peer, relay(connection, local).await);
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
            let (pool, stop) = (Arc::clone(&self.pool), open.stop.subscribe());
            open.tasks.spawn(forward_one(pool, local, peer, stop));
        }
        drop(self.listener);
        drop(keeper);
        open.drain(stop_now).await;
    }
}

async fn forward_one(
    pool: Arc<Pool>,
    local: TcpStream,
    peer: SocketAddr,
    mut stop: watch::Receiver<bool>,
) {
    let opened = tokio::select! {
        opened = pool.open() => opened,
        _ = stop.wait_for(|stop| *stop) => return,
    };
    match opened {
        Ok(connection) => {
            let control = connection.control();
            let relaying = async { finished(peer, relay(connection, local).await) };
            until_stopped(control, stop, relaying).await;
        }
        Err(error) => {
            tracing::warn!("cannot forward a connection of {peer}: {error}");
            let _ = local.set_zero_linger();
        }
    }
}

/// The connections under way.
struct Open {
    tasks: JoinSet<()>,
    stop: watch::Sender<bool>,
}

impl Open {
    fn new() -> Self {
        Self { tasks: JoinSet::new(), stop: watch::Sender::new(false) }
    }

    /// Lets the connections finish for a while and ends those that do not.
    async fn drain(mut self, stop_now: impl Future<Output = ()>) {
        if !self.tasks.is_empty() {
            tracing::info!("{} connections are finishing", self.tasks.len());
        }
        tokio::select! {
            () = async { while self.tasks.join_next().await.is_some() {} } => return,
            () = tokio::time::sleep(DRAIN_TIME) => {}
            () = stop_now => {}
        }
        self.stop.send_replace(true);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// Runs `work` on a connection to its end, which comes early when all are stopped: the connection
/// is reset then, and the peer told why.
async fn until_stopped(
    control: Control,
    mut stop: watch::Receiver<bool>,
    work: impl Future<Output = ()>,
) {
    let abort = async {
        if stop.wait_for(|stop| *stop).await.is_ok() {
            control.abort(RESET_SHUTDOWN, "the other side is shutting down");
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = work => {}
        () = abort => {}
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
