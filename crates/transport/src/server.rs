//! The server: listens, brings subflows into their connections, and keeps to its limits.

use std::collections::{BTreeMap, btree_map};
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use weftline_core::ranges::RangeSet;
use weftline_core::scheduler::{Entry, SchedulerConfig};
use weftline_core::session::SessionConfig;
use weftline_core::wire::{Hello, Join, JoinReply, Record, WireError};
use weftline_core::{ByteCount, Instant, PathId, SubflowId};

use crate::channel::Channel;
use crate::client::unknown_scheduler;
use crate::clock;
use crate::connection::Connection;
use crate::error::Error;
use crate::handshake::{SessionId, SessionKeys, Token};
use crate::policy::Groups;
use crate::refusal::{self, printable};
use crate::shared::Shared;
use crate::socket::{self, SocketOptions, congestion_controls};
use crate::stats::COUNTERS;
use crate::subflow::{self, Running};
use crate::tls::ServerSecurity;

/// Connections that wait to be accepted by the application.
const ACCEPT_QUEUE: usize = 128;
/// Live subflows of one connection, and paths it may have had.
const MAX_SUBFLOWS: usize = 32;
const MAX_PATHS: usize = 64;
/// Runs of adjacent subflow numbers that are told apart in a connection. Clients count up, and a
/// join that does not get here leaves a gap.
const MAX_NUMBER_RUNS: usize = 256;
/// The wait after the system refused to accept a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How much a server lets peers do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Handshakes under way at once; later ones wait in the kernel's queue.
    pub handshakes: usize,
    /// Handshakes under way at once from one address; more are closed.
    pub handshakes_per_source: usize,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// Open connections.
    pub sessions: usize,
    /// Open connections whose first subflow came from one address.
    pub sessions_per_source: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 256,
            handshakes_per_source: 64,
            handshake_timeout: Duration::from_secs(5),
            sessions: 4096,
            sessions_per_source: 1024,
        }
    }
}

/// Describes a [`Server`].
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    security: Option<ServerSecurity>,
    token: Option<Token>,
    limits: Limits,
    max_memory: ByteCount,
    grace: Duration,
    socket: SocketOptions,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            security: None,
            token: None,
            limits: Limits::default(),
            max_memory: SessionConfig::default().max_memory,
            grace: Duration::from_secs(30),
            socket: SocketOptions::default(),
        }
    }
}

impl ServerBuilder {
    /// How subflows are secured. There is no default.
    #[must_use]
    pub fn security(mut self, security: ServerSecurity) -> Self {
        self.security = Some(security);
        self
    }

    /// The secret that every client must have; by default clients need none.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// How much peers may do.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Most memory for received bytes of a connection, and again for bytes to send; default
    /// 256 MiB.
    #[must_use]
    pub fn max_memory(mut self, memory: ByteCount) -> Self {
        self.max_memory = memory;
        self
    }

    /// How long a connection lives without any subflow; default 30 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Starts listening on `addresses`.
    ///
    /// # Errors
    /// When the security is not given, there is no address, or one is not there or taken.
    pub fn bind(self, addresses: &[SocketAddr]) -> Result<Server, Error> {
        let security = self.security.ok_or_else(|| {
            Error::Invalid("a server needs a certificate or insecure plaintext".to_owned())
        })?;
        let listeners: Vec<TcpListener> =
            addresses.iter().map(|&a| socket::listen(a)).collect::<Result<_, _>>()?;
        let local: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
        if listeners.is_empty() {
            return Err(Error::Invalid("no address to listen on".to_owned()));
        }
        let (accepted, incoming) = mpsc::channel(ACCEPT_QUEUE);
        let state = Arc::new(State {
            security,
            token: self.token,
            limits: self.limits,
            max_memory: self.max_memory,
            grace: self.grace,
            socket: self.socket,
            handshakes: Arc::new(Semaphore::new(self.limits.handshakes)),
            tables: Mutex::new(Tables::default()),
            groups: Groups::default(),
            accepted,
            refusals: RefusalLog::default(),
        });
        let mut tasks = JoinSet::new();
        for listener in listeners {
            tasks.spawn(listen(Arc::clone(&state), listener));
        }
        Ok(Server { incoming, local: local.map_err(Error::Socket)?, _tasks: tasks })
    }
}

/// Accepts connections on one or more addresses. Dropping it stops listening; connections already
/// accepted go on with the subflows they have.
#[derive(Debug)]
pub struct Server {
    incoming: mpsc::Receiver<Connection>,
    local: Vec<SocketAddr>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Starts describing a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The addresses listened on, in the order given, with the ports the system chose for port 0.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local
    }

    /// The next connection. Cancel safe.
    pub async fn accept(&mut self) -> Connection {
        match self.incoming.recv().await {
            Some(connection) => connection,
            // The listeners hold the other end and live as long as this does.
            None => std::future::pending().await,
        }
    }
}

struct State {
    security: ServerSecurity,
    token: Option<Token>,
    limits: Limits,
    max_memory: ByteCount,
    grace: Duration,
    socket: SocketOptions,
    handshakes: Arc<Semaphore>,
    tables: Mutex<Tables>,
    /// The rate caps of each client.
    groups: Groups,
    accepted: mpsc::Sender<Connection>,
    refusals: RefusalLog,
}

/// Says in the log whom the server turned away and why, at most so often in a second: anybody can
/// make it say so.
#[derive(Default)]
struct RefusalLog(Mutex<(u64, u32)>);

impl RefusalLog {
    const PER_SECOND: u32 = 10;

    fn log(&self, error: &Error) {
        // Clients come and go, and a path may come up just when its connection is over.
        let ordinary = matches!(error, Error::ClosedInHandshake { .. })
            || matches!(error, Error::RefusedPeer { code: refusal::JOIN, .. });
        let second = clock::now().since(Instant::ZERO).as_secs();
        let mut said = self.0.lock().expect("the log's users do not panic");
        if said.0 != second {
            *said = (second, 0);
        }
        said.1 = said.1.saturating_add(1);
        if ordinary || said.1 > Self::PER_SECOND {
            tracing::debug!("{error}");
        } else {
            tracing::warn!("{error}");
        }
    }
}

#[derive(Default)]
struct Tables {
    sessions: BTreeMap<SessionId, Session>,
    /// Handshakes under way and open connections of each address that has any.
    sources: BTreeMap<IpAddr, Source>,
}

#[derive(Default)]
struct Source {
    handshakes: usize,
    sessions: usize,
}

/// A connection that later subflows may join.
struct Session {
    keys: SessionKeys,
    shared: Arc<Shared>,
    congestion: Option<String>,
    source: IpAddr,
    /// The numbers of all subflows there have been.
    used: RangeSet,
    /// The newest subflow of each path.
    paths: BTreeMap<PathId, Option<Running>>,
}

/// Accepts TCP connections for ever.
async fn listen(state: Arc<State>, listener: TcpListener) {
    loop {
        let permit = Arc::clone(&state.handshakes).acquire_owned().await;
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(counted) = SourceGuard::handshake(&state, peer.ip()) else {
            COUNTERS.refused();
            tracing::debug!("{peer}: too many handshakes at once from this address");
            continue;
        };
        let state = Arc::clone(&state);
        tokio::spawn(async move {
            let after = state.limits.handshake_timeout;
            let result = tokio::time::timeout(after, state.handshake(stream)).await;
            drop((permit, counted));
            if let Err(error) = result.unwrap_or(Err(Error::HandshakeTimeout { peer, after })) {
                COUNTERS.refused();
                state.refusals.log(&error);
            }
        });
    }
}

/// Counts a handshake of an address while it lives.
struct SourceGuard {
    state: Arc<State>,
    source: IpAddr,
}

impl SourceGuard {
    /// `None` when the address has too many.
    fn handshake(state: &Arc<State>, source: IpAddr) -> Option<Self> {
        let mut tables = state.tables();
        let counts = tables.sources.entry(source).or_default();
        if counts.handshakes >= state.limits.handshakes_per_source {
            return None;
        }
        counts.handshakes += 1;
        Some(Self { state: Arc::clone(state), source })
    }
}

impl Drop for SourceGuard {
    fn drop(&mut self) {
        self.state.tables().release(self.source, |counts| counts.handshakes -= 1);
    }
}

impl Tables {
    /// Changes an address's counts, and forgets the address when it has none.
    fn release(&mut self, source: IpAddr, change: impl FnOnce(&mut Source)) {
        if let btree_map::Entry::Occupied(mut counts) = self.sources.entry(source) {
            change(counts.get_mut());
            if counts.get().handshakes == 0 && counts.get().sessions == 0 {
                counts.remove();
            }
        }
    }
}

/// What a handshake came to: a refusal to send, with the error to report here.
struct Refused {
    code: u64,
    reason: String,
}

impl Refused {
    fn new(code: u64, reason: impl Into<String>) -> Self {
        Self { code, reason: reason.into() }
    }
}

impl State {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("the tables' users do not panic")
    }

    async fn handshake(self: &Arc<Self>, stream: TcpStream) -> Result<(), Error> {
        socket::configure((&stream).into(), &self.socket)?;
        let mut channel = Channel::accept(stream, &self.security).await?;
        let peer = channel.peer();
        let record = match channel.receive().await {
            Ok(record) => record,
            Err(error) => {
                // Our preamble tells another version of this protocol which one is spoken here.
                channel.refuse(refusal::PROTOCOL, &error.to_string()).await;
                return Err(error);
            }
        };
        match record {
            Record::Hello(hello) => self.hello(channel, hello).await,
            Record::Join(join) => self.join(channel, join).await,
            _ => {
                let source = WireError::Unexpected("hello or join");
                channel.refuse(refusal::PROTOCOL, &source.to_string()).await;
                Err(Error::Protocol { peer, source: source.into() })
            }
        }
    }

    async fn hello(self: &Arc<Self>, mut channel: Channel, hello: Hello) -> Result<(), Error> {
        let peer = channel.peer();
        let (permit, keys, config) = match self.admit(&channel, &hello) {
            Ok(admitted) => admitted,
            Err(refused) => return refuse(channel, refused).await,
        };
        let options = self.socket_options(&hello.congestion);
        socket::configure(channel.socket().into(), &options)?;
        let shared = Shared::start(&config, self.grace, self.groups.of(hello.group));
        shared.set_policy(PathId(hello.path), hello.policy);
        let connection = Connection::new(Arc::clone(&shared), peer);
        self.register(&keys, &shared, options.congestion, peer.ip(), hello.subflow);
        if let Err(error) = channel.send(&keys.reply()).await {
            connection.abort(weftline_core::session::RESET_ABANDONED, "the client is gone");
            return Err(error);
        }
        self.start(&keys.id, &shared, channel, hello.subflow, hello.path, &hello.path_name);
        permit.send(connection);
        Ok(())
    }

    /// Whether a connection may be opened, and how it will behave.
    fn admit(
        &self,
        channel: &Channel,
        hello: &Hello,
    ) -> Result<(mpsc::OwnedPermit<Connection>, SessionKeys, SessionConfig), Refused> {
        let internal = |error: Error| Refused::new(refusal::BUSY, error.to_string());
        if let Some(token) = &self.token
            && !token.verify(channel, &hello.token).map_err(internal)?
        {
            let reason = "this server wants a token and yours is missing or another one";
            return Err(Refused::new(refusal::TOKEN, reason));
        }
        let scheduler = Entry::find(&hello.scheduler).map_err(|_| {
            let reason = unknown_scheduler(&printable(&hello.scheduler)).to_string();
            Refused::new(refusal::SCHEDULER, reason)
        })?;
        check_congestion(&hello.congestion)?;
        let source = channel.peer().ip();
        let tables = self.tables();
        let of_source = tables.sources.get(&source).map_or(0, |counts| counts.sessions);
        let full = tables.sessions.len() >= self.limits.sessions
            || of_source >= self.limits.sessions_per_source;
        let permit = self.accepted.clone().try_reserve_owned();
        let (false, Ok(permit)) = (full, permit) else {
            return Err(Refused::new(refusal::BUSY, "too many connections; try again later"));
        };
        let config = SessionConfig {
            scheduler,
            scheduler_config: SchedulerConfig {
                window: (hello.window > 0).then_some(hello.window),
                forward_pin: hello.forward_pin.checked_sub(1).map(PathId),
                ..SchedulerConfig::default()
            },
            max_memory: self.max_memory,
            follow_policy: true,
            ..SessionConfig::default()
        };
        Ok((permit, SessionKeys::random().map_err(internal)?, config))
    }

    /// Makes the connection known to joins until it is over.
    fn register(
        self: &Arc<Self>,
        keys: &SessionKeys,
        shared: &Arc<Shared>,
        congestion: Option<String>,
        source: IpAddr,
        first: u64,
    ) {
        // The first subflow's number is taken before the reply lets anyone join with it.
        let mut used = RangeSet::new();
        used.insert(first..first + 1);
        let session = Session {
            keys: keys.clone(),
            shared: Arc::clone(shared),
            congestion,
            source,
            used,
            paths: BTreeMap::new(),
        };
        let mut tables = self.tables();
        tables.sources.entry(source).or_default().sessions += 1;
        tables.sessions.insert(keys.id, session);
        drop(tables);
        let (state, id, shared) = (Arc::clone(self), keys.id, Arc::clone(shared));
        tokio::spawn(async move {
            shared.gone().await;
            let mut tables = state.tables();
            if let Some(session) = tables.sessions.remove(&id) {
                tables.release(session.source, |counts| counts.sessions -= 1);
            }
        });
    }

    async fn join(self: &Arc<Self>, mut channel: Channel, join: Join) -> Result<(), Error> {
        let id = SessionId(join.session);
        let (shared, congestion) = match self.check_join(&channel, id, &join) {
            Ok(checked) => checked,
            Err(refused) => return refuse(channel, refused).await,
        };
        socket::configure(
            channel.socket().into(),
            &self.socket_options(congestion.as_deref().unwrap_or_default()),
        )?;
        shared.set_policy(PathId(join.path), join.policy);
        channel.send(&Record::JoinReply(JoinReply {})).await?;
        self.start(&id, &shared, channel, join.subflow, join.path, &join.path_name);
        Ok(())
    }

    /// Finds the connection to join and takes the subflow's number.
    fn check_join(
        &self,
        channel: &Channel,
        id: SessionId,
        join: &Join,
    ) -> Result<(Arc<Shared>, Option<String>), Refused> {
        // A guessed number and a wrong proof look the same.
        let wrong = || Refused::new(refusal::JOIN, "no such connection, or not yours");
        let mut tables = self.tables();
        let session = tables.sessions.get_mut(&id).ok_or_else(wrong)?;
        if !session.keys.verify(channel, join).unwrap_or(false) {
            return Err(wrong());
        }
        let number = join.subflow;
        if session.used.contains(&(number..number + 1)) {
            let reason = format!("subflow number {number} was used before");
            return Err(Refused::new(refusal::SUBFLOW, reason));
        }
        let fresh_path = !session.paths.contains_key(&PathId(join.path));
        if session.shared.subflow_count() >= MAX_SUBFLOWS
            || (fresh_path && session.paths.len() >= MAX_PATHS)
        {
            return Err(Refused::new(refusal::BUSY, "too many subflows in this connection"));
        }
        let congestion = match &join.congestion {
            None => session.congestion.clone(),
            Some(name) => {
                check_congestion(name)?;
                Some(name.clone()).filter(|name| !name.is_empty())
            }
        };
        use_number(&mut session.used, number);
        session.paths.entry(PathId(join.path)).or_default();
        Ok((Arc::clone(&session.shared), congestion))
    }

    /// Brings a subflow whose handshake is done into its connection. An older subflow of the same
    /// path is given up: the client has replaced it.
    fn start(
        &self,
        id: &SessionId,
        shared: &Arc<Shared>,
        channel: Channel,
        subflow: u64,
        path: u64,
        name: &str,
    ) {
        let (subflow, path) = (SubflowId(subflow), PathId(path));
        let name = printable(name).into();
        let running = subflow::start(shared, subflow, path, &name, channel.into_parts());
        let mut tables = self.tables();
        let Some(session) = tables.sessions.get_mut(id) else { return };
        if let Some(old) = session.paths.insert(path, running).flatten() {
            old.replace();
        }
    }

    fn socket_options(&self, congestion: &str) -> SocketOptions {
        let congestion = (!congestion.is_empty()).then(|| congestion.to_owned());
        SocketOptions { congestion, ..self.socket.clone() }
    }
}

/// Whether the kernel has the congestion control that a client names.
fn check_congestion(name: &str) -> Result<(), Refused> {
    let known = congestion_controls();
    if name.is_empty() || known.iter().any(|known| known == name) {
        return Ok(());
    }
    let error = Error::UnknownCongestion { name: printable(name), known: known.join(" ") };
    Err(Refused::new(refusal::CONGESTION, format!("server: {error}")))
}

/// Notes that `number` is used. Where there are too many gaps, the lowest counts as used, too: a
/// client that counts up does not come back to it.
fn use_number(used: &mut RangeSet, number: u64) {
    used.insert(number..number + 1);
    if used.len() > MAX_NUMBER_RUNS
        && let (Some(lowest), Some(last)) = (used.first(), used.last())
        && let Some(gap) = used.first_missing(&(lowest.start..last.end))
    {
        used.insert(gap);
    }
}

async fn refuse(channel: Channel, refused: Refused) -> Result<(), Error> {
    let peer = channel.peer();
    channel.refuse(refused.code, &refused.reason).await;
    Err(Error::RefusedPeer { peer, code: refused.code, reason: refused.reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_joins_cost_bounded_memory_and_no_later_join() {
        let mut used = RangeSet::new();
        for number in (0..100_000).step_by(3) {
            assert!(!used.contains(&(number..number + 1)), "{number} is new");
            use_number(&mut used, number);
            assert!(used.contains(&(number..number + 1)) && used.len() <= MAX_NUMBER_RUNS);
        }
    }
}
