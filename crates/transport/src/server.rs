//! The server: listens, brings subflows into their connections, and keeps to its limits.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weftline_core::ranges::RangeSet;
use weftline_core::scheduler::Entry;
use weftline_core::session::{
    DEFAULT_LONGEST_MESSAGE, MessageLimits, RESET_REVOKED, SessionConfig,
};
use weftline_core::wire::{Hello, Join, JoinReply, Record, WireError};
use weftline_core::{ByteCount, PathId, SubflowId};

use crate::channel::Channel;
use crate::client::unknown_scheduler;
use crate::clock;
use crate::connection::Connection;
use crate::error::Error;
use crate::handshake::{Numbering, SessionId, SessionKeys};
use crate::limits::{ClientId, Full, Gate, Handshake, Limits, SessionPlace, Source};
use crate::memory::{LEAST_RECEIVE, Lease, MemoryBudget, unasked};
use crate::policy::Groups;
use crate::refusal::{self, RefusalLog, printable};
use crate::shared::{End, Shared};
use crate::socket::{self, SocketOptions, congestion_controls};
use crate::stats::COUNTERS;
use crate::subflow::{self, Running};
use crate::tls::ServerSecurity;
use crate::token::Token;

/// Connections that wait to be accepted by the application.
const ACCEPT_QUEUE: usize = 128;
/// Live subflows of one connection, and paths it may have had.
const MAX_SUBFLOWS: usize = 32;
const MAX_PATHS: usize = 64;
/// Runs of adjacent subflow numbers that are told apart in a connection. Clients count up, and a
/// join that does not get here leaves a gap.
const MAX_NUMBER_RUNS: usize = 256;
/// Failed connections whose hellos are known when they are said once more.
const MAX_FAILED: usize = 1024;
/// The wait after the system refused to accept a connection (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Describes a [`Server`].
#[derive(Clone, Debug)]
pub struct ServerBuilder {
    security: Option<ServerSecurity>,
    tokens: Vec<Token>,
    limits: Limits,
    max_memory: ByteCount,
    longest_message: Option<ByteCount>,
    memory: MemoryBudget,
    grace: Duration,
    socket: SocketOptions,
    passed: Vec<Arc<std::net::TcpListener>>,
}

impl Default for ServerBuilder {
    fn default() -> Self {
        Self {
            security: None,
            tokens: Vec::new(),
            limits: Limits::default(),
            max_memory: SessionConfig::default().max_memory,
            longest_message: None,
            memory: MemoryBudget::default(),
            grace: Duration::from_secs(30),
            socket: SocketOptions::default(),
            passed: Vec::new(),
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

    /// Lets in whoever has this secret, or another one that was given; by default clients need
    /// none.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.tokens.push(token);
        self
    }

    /// How much peers may do.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Most memory for received bytes of a connection, and again for bytes to send: 256 KiB to
    /// 64 GiB; default 256 MiB.
    #[must_use]
    pub fn max_memory(mut self, memory: ByteCount) -> Self {
        self.max_memory = memory;
        self
    }

    /// Takes connections of messages as well as byte streams; a client that wants messages is
    /// refused without this. [`Connection::carries_messages`](crate::Connection::carries_messages)
    /// tells which an accepted connection is.
    #[must_use]
    pub fn messages(mut self) -> Self {
        self.longest_message.get_or_insert(ByteCount::new(DEFAULT_LONGEST_MESSAGE));
        self
    }

    /// As [`messages`](Self::messages), with the longest message taken, up to 1 GiB; by default
    /// 16 MiB. A connection has memory for at least one such message.
    #[must_use]
    pub fn longest_message(mut self, longest: ByteCount) -> Self {
        self.longest_message = Some(longest);
        self
    }

    /// What all connections may use together; by default they share half of the machine's memory
    /// with all others of the process. When it is used up, new ones are refused and none grows.
    #[must_use]
    pub fn memory(mut self, memory: MemoryBudget) -> Self {
        self.memory = memory;
        self
    }

    /// How long a connection lives without any subflow; default 30 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Accepts on this listener, too, such as one of systemd.
    #[must_use]
    pub fn listener(mut self, listener: std::net::TcpListener) -> Self {
        self.passed.push(Arc::new(listener));
        self
    }

    /// Starts listening on `addresses`, and on the listeners that were given.
    ///
    /// # Errors
    /// When the security is not given, a limit makes no sense, there is no address and no listener,
    /// or an address is not there or taken.
    pub fn bind(self, addresses: &[SocketAddr]) -> Result<Server, Error> {
        let live = self.live()?;
        self.limits.check()?;
        let passed = self.passed.iter().map(|passed| {
            let listener = passed.try_clone().map_err(Error::Socket)?;
            socket::adopt(listener)
        });
        let fresh = addresses.iter().map(|&address| socket::listen(address));
        let listeners: Vec<TcpListener> = passed.chain(fresh).collect::<Result<_, Error>>()?;
        let local: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
        if listeners.is_empty() {
            return Err(Error::Invalid("no address to listen on".to_owned()));
        }
        let (accepted, incoming) = mpsc::channel(ACCEPT_QUEUE);
        let state = Arc::new(State {
            live: Mutex::new(live),
            handshake_timeout: self.limits.handshake_timeout,
            gate: Gate::new(self.limits),
            longest_message: self.longest_message.map(crate::messages::checked).transpose()?,
            memory: self.memory,
            socket: self.socket,
            decoy: SessionKeys::random()?,
            wants_token: !self.tokens.is_empty(),
            tables: Mutex::new(Tables::new(self.tokens)),
            numbering: Numbering::random()?,
            groups: Groups::default(),
            accepted,
            refusals: RefusalLog::default(),
        });
        let mut tasks = JoinSet::new();
        for listener in listeners {
            tasks.spawn(listen(Arc::clone(&state), listener));
        }
        Ok(Server { incoming, local: local.map_err(Error::Socket)?, state, _tasks: tasks })
    }

    /// What holds until the next [`ServerControl::reload`].
    fn live(&self) -> Result<Live, Error> {
        let security = self.security.clone().ok_or_else(|| {
            Error::Invalid("a server needs a certificate or insecure plaintext".to_owned())
        })?;
        check_max_memory(self.max_memory)?;
        Ok(Live { security, max_memory: self.max_memory, grace: self.grace })
    }
}

/// Accepts connections on one or more addresses. Dropping it stops listening; connections already
/// accepted go on with the subflows they have.
#[derive(Debug)]
pub struct Server {
    incoming: mpsc::Receiver<Connection>,
    local: Vec<SocketAddr>,
    state: Arc<State>,
    _tasks: JoinSet<()>,
}

impl Server {
    /// Starts describing a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// The addresses listened on, those of given listeners first, in the order given, with the ports the system chose for port 0.
    pub fn local_addrs(&self) -> &[SocketAddr] {
        &self.local
    }

    /// What can be changed while the server runs, wherever it is.
    pub fn control(&self) -> ServerControl {
        ServerControl(Arc::clone(&self.state))
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

/// What can be changed of a running server. A clone does not keep it running.
#[derive(Clone, Debug)]
pub struct ServerControl(Arc<State>);

impl ServerControl {
    /// Takes another description, of which security, the memory of a connection, and the time it
    /// lives without subflows hold for connections to come, and tokens at once, as with
    /// [`set_tokens`](Self::set_tokens). Addresses, limits and the memory of all stay. Returns how
    /// many connections were reset.
    ///
    /// # Errors
    /// As for [`ServerBuilder::bind`] and [`set_tokens`](Self::set_tokens); then everything stays
    /// as it was.
    pub fn reload(&self, builder: ServerBuilder) -> Result<usize, Error> {
        let live = builder.live()?;
        let revoked = match builder.tokens.is_empty() && !self.0.wants_token {
            true => 0,
            false => self.set_tokens(builder.tokens)?,
        };
        *self.0.live.lock().expect("nobody panics with it") = live;
        Ok(revoked)
    }

    /// From now on lets in whoever has one of `tokens`. Connections of clients that have none of
    /// them are reset; how many those are.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the server was started without tokens or is to be left without: that
    /// would let in everybody, or nobody, and is no change to make in passing.
    pub fn set_tokens(&self, tokens: Vec<Token>) -> Result<usize, Error> {
        if tokens.is_empty() || !self.0.wants_token {
            let message =
                "a server that was started with tokens keeps some, and one without has none";
            return Err(Error::Invalid(message.to_owned()));
        }
        let mut tables = self.0.tables();
        tables.tokens = tokens.into();
        let revoked: Vec<_> = tables
            .sessions
            .values()
            .filter(|session| !tables.admits(&session.client))
            .map(|session| Arc::clone(&session.shared))
            .collect();
        drop(tables);
        for shared in &revoked {
            shared.abort(RESET_REVOKED, "this client is not let in any more");
        }
        Ok(revoked.len())
    }
}

/// What may change while the server runs, for connections to come.
#[derive(Clone)]
struct Live {
    security: ServerSecurity,
    max_memory: ByteCount,
    grace: Duration,
}

struct State {
    live: Mutex<Live>,
    handshake_timeout: Duration,
    gate: Arc<Gate>,
    longest_message: Option<ByteCount>,
    memory: MemoryBudget,
    socket: SocketOptions,
    /// What a join to an unknown connection is compared with, so that it takes as long.
    decoy: SessionKeys,
    wants_token: bool,
    tables: Mutex<Tables>,
    numbering: Numbering,
    /// The rate caps of each client.
    groups: Groups,
    accepted: mpsc::Sender<Connection>,
    refusals: RefusalLog,
}

struct Tables {
    sessions: BTreeMap<SessionId, Session>,
    /// Connections that failed, the last of them: a hello that opened one is not taken for a new
    /// one's, lest what came with it be delivered twice.
    failed: VecDeque<SessionId>,
    /// Whoever has one of these is let in; whoever comes, if there are none.
    tokens: Arc<[Token]>,
}

impl Tables {
    fn new(tokens: Vec<Token>) -> Self {
        let (sessions, failed) = (BTreeMap::new(), VecDeque::new());
        Self { sessions, failed, tokens: tokens.into() }
    }

    /// A connection is over.
    fn close(&mut self, id: SessionId, has_failed: bool) -> Option<Session> {
        if has_failed {
            self.failed.truncate(MAX_FAILED - 1);
            self.failed.push_front(id);
        }
        self.sessions.remove(&id)
    }

    /// Whether a client that was let in before would be let in now.
    fn admits(&self, client: &ClientId) -> bool {
        match client {
            ClientId::Anybody | ClientId::Certificate(_) => true,
            token @ ClientId::Token(..) => self.tokens.iter().any(|known| known.id() == *token),
        }
    }
}

/// A connection that later subflows may join.
struct Session {
    keys: SessionKeys,
    shared: Arc<Shared>,
    congestion: Option<String>,
    client: ClientId,
    /// Joins that were accepted and are not live yet.
    joining: usize,
    /// What it counts for, as long as it is here.
    _place: SessionPlace,
    /// The numbers of all subflows there have been.
    used: RangeSet,
    /// The newest subflow of each path.
    paths: BTreeMap<PathId, Option<Running>>,
}

/// Accepts TCP connections for ever.
async fn listen(state: Arc<State>, listener: TcpListener) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!("cannot accept a connection: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        match state.gate.handshake(peer.ip().into()) {
            Ok(counted) => {
                tokio::spawn(let_in(Arc::clone(&state), stream, peer, counted));
            }
            Err(full) => {
                COUNTERS.flooded();
                tracing::debug!("{peer}: {full}");
            }
        }
    }
}

/// Does the handshake with a peer that has just come.
async fn let_in(state: Arc<State>, stream: TcpStream, peer: SocketAddr, counted: Handshake) {
    let after = state.handshake_timeout;
    let result = tokio::select! {
        result = tokio::time::timeout(after, state.handshake(stream)) => {
            result.unwrap_or(Err(Error::HandshakeTimeout { peer, after }))
        }
        () = counted.given_up() => Err(Error::GivenUp { peer }),
    };
    drop(counted);
    if let Err(error) = result {
        COUNTERS.refused(&error);
        state.refusals.log(&error);
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

    fn busy(reason: impl fmt::Display) -> Self {
        Self::new(refusal::BUSY, reason.to_string())
    }
}

/// What a connection that may be opened has.
struct Admitted {
    permit: mpsc::OwnedPermit<Connection>,
    keys: SessionKeys,
    config: SessionConfig,
    client: ClientId,
    place: SessionPlace,
    lease: Lease,
}

/// What a hello that is let in asks for.
enum Hailed {
    /// A connection.
    First(Admitted),
    /// The connection that it has opened before.
    Again(Joining, SessionConfig),
}

/// A subflow that was let into its connection and is not live yet.
struct Joining {
    state: Arc<State>,
    keys: SessionKeys,
    shared: Arc<Shared>,
    congestion: Option<String>,
}

impl Drop for Joining {
    fn drop(&mut self) {
        if let Some(session) = self.state.tables().sessions.get_mut(&self.keys.id) {
            session.joining -= 1;
        }
    }
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("State")
    }
}

impl State {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().expect("the tables' users do not panic")
    }

    fn live(&self) -> Live {
        self.live.lock().expect("nobody panics with it").clone()
    }

    async fn handshake(self: &Arc<Self>, stream: TcpStream) -> Result<(), Error> {
        socket::configure((&stream).into(), &self.socket)?;
        let mut channel = Channel::accept(stream, &self.live().security).await?;
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

    async fn hello(self: &Arc<Self>, channel: Channel, hello: Hello) -> Result<(), Error> {
        let peer = channel.peer();
        let admitted = self.identify(&channel, &hello).and_then(|client| {
            let config = self.session_config(&hello)?;
            match self.check_again(&hello, &client)? {
                Some(joining) => Ok(Hailed::Again(joining, config)),
                None => self.admit(peer.ip().into(), client, &hello, config).map(Hailed::First),
            }
        });
        let options = self.socket_options(&hello.congestion);
        let admitted = match admitted {
            Ok(Hailed::First(admitted)) => admitted,
            Ok(Hailed::Again(joining, config)) => {
                socket::configure(channel.socket().into(), &options)?;
                joining.shared.set_policy(PathId(hello.path), hello.policy);
                let reply = joining.keys.reply(longest_received(&config));
                let path = (hello.path, &*hello.path_name);
                self.start(
                    &joining.keys.id,
                    &joining.shared,
                    channel,
                    Some(&reply),
                    hello.subflow,
                    path,
                );
                return Ok(());
            }
            Err(refused) => return refuse(channel, refused).await,
        };
        let Admitted { permit, keys, config, client, place, lease } = admitted;
        socket::configure(channel.socket().into(), &options)?;
        let shared = Shared::open(&config, self.live().grace, self.groups.of(hello.group), lease);
        shared.set_policy(PathId(hello.path), hello.policy);
        let connection = Connection::new(Arc::clone(&shared), peer, client.name());
        // The first subflow's number is taken before the reply lets anyone join with it.
        let mut used = RangeSet::new();
        used.insert(hello.subflow..hello.subflow + 1);
        let registered = self.register(Session {
            keys: keys.clone(),
            shared: Arc::clone(&shared),
            congestion: options.congestion,
            client,
            joining: 0,
            _place: place,
            used,
            paths: BTreeMap::new(),
        });
        if let Err(refused) = registered {
            connection.abort(RESET_REVOKED, &refused.reason);
            return refuse(channel, refused).await;
        }
        let reply = keys.reply(longest_received(&config));
        let path = (hello.path, &*hello.path_name);
        self.start(&keys.id, &shared, channel, Some(&reply), hello.subflow, path);
        permit.send(connection);
        Ok(())
    }

    /// The connection that this client's hello has opened before: the answer did not get through,
    /// and the client says it once more on another subflow. Otherwise `None`.
    fn check_again(
        self: &Arc<Self>,
        hello: &Hello,
        client: &ClientId,
    ) -> Result<Option<Joining>, Refused> {
        if !hello.nonce.is_some() {
            return Ok(None);
        }
        let id = self.numbering.id(&hello.nonce);
        let tables = self.tables();
        if tables.failed.contains(&id) {
            return Err(Refused::new(refusal::JOIN, "this connection has failed"));
        }
        let Some(session) = tables.sessions.get(&id) else { return Ok(None) };
        if session.client != *client {
            return Err(wrong_join());
        }
        let keys = session.keys.clone();
        drop(tables);
        let (path, congestion) = (PathId(hello.path), Some(&hello.congestion));
        self.take_place(keys, hello.subflow, path, congestion).map(Some)
    }

    /// Who says hello. A wrong token, one of nobody and none at all are refused alike.
    fn identify(&self, channel: &Channel, hello: &Hello) -> Result<ClientId, Refused> {
        let certificate = || channel.peer_certificate().map(ClientId::Certificate);
        if !self.wants_token {
            return Ok(certificate().unwrap_or(ClientId::Anybody));
        }
        let source = Source::from(channel.peer().ip());
        let now = clock::now();
        self.gate.may_try(source, now).map_err(Refused::busy)?;
        let tokens = Arc::clone(&self.tables().tokens);
        match Token::find(&tokens, channel, &hello.token).map_err(Refused::busy)? {
            Some(token) => Ok(token.id()),
            None => {
                self.gate.failed(source, now);
                Err(no_token())
            }
        }
    }

    /// How the connection will behave that a hello asks for.
    fn session_config(&self, hello: &Hello) -> Result<SessionConfig, Refused> {
        let scheduler = Entry::find(&hello.scheduler).map_err(|_| {
            let reason = unknown_scheduler(&printable(&hello.scheduler)).to_string();
            Refused::new(refusal::SCHEDULER, reason)
        })?;
        check_congestion(&hello.congestion)?;
        Ok(SessionConfig {
            scheduler,
            scheduler_config: hello.scheduler_config(),
            max_memory: self.live().max_memory,
            messages: self.message_limits(hello)?,
            follow_policy: true,
            pool: crate::memory::blocks(),
            ..SessionConfig::default()
        })
    }

    /// Takes a connection's place within each limit, or none.
    fn admit(
        &self,
        source: Source,
        client: ClientId,
        hello: &Hello,
        config: SessionConfig,
    ) -> Result<Admitted, Refused> {
        let place = self.gate.session(source, &client).map_err(Refused::busy)?;
        let lease = self.memory.connection(unasked(&config)).map_err(Refused::busy)?;
        let permit = self.accepted.clone().try_reserve_owned();
        let permit = permit.map_err(|_| Refused::busy(Full::Sessions))?;
        let keys = match hello.nonce.is_some() {
            true => SessionKeys::of(self.numbering.id(&hello.nonce)),
            false => SessionKeys::random(),
        };
        let keys = keys.map_err(Refused::busy)?;
        Ok(Admitted { permit, keys, config, client, place, lease })
    }

    /// What is agreed upon if the client wants messages.
    fn message_limits(&self, hello: &Hello) -> Result<Option<MessageLimits>, Refused> {
        match (hello.messages, self.longest_message) {
            (0, _) => Ok(None),
            (longest_sent, Some(longest)) => {
                Ok(Some(MessageLimits { longest_sent, longest_received: longest.as_u64() }))
            }
            (_, None) => {
                let reason = "this server takes byte streams only, not messages";
                Err(Refused::new(refusal::MESSAGES, reason))
            }
        }
    }

    /// Makes the connection known to joins until it is over.
    fn register(self: &Arc<Self>, session: Session) -> Result<(), Refused> {
        let (id, shared) = (session.keys.id, Arc::clone(&session.shared));
        let mut tables = self.tables();
        // Its token may have been withdrawn since it was looked at.
        if !tables.admits(&session.client) {
            return Err(no_token());
        }
        if tables.sessions.contains_key(&id) {
            // The same hello, twice at once.
            return Err(Refused::busy("this connection is being opened"));
        }
        tables.sessions.insert(id, session);
        drop(tables);
        let state = Arc::clone(self);
        tokio::spawn(async move {
            shared.gone().await;
            let has_failed = matches!(shared.end(), Some(End::Failed(_)));
            let session = state.tables().close(id, has_failed);
            drop(session);
        });
        Ok(())
    }

    async fn join(self: &Arc<Self>, mut channel: Channel, join: Join) -> Result<(), Error> {
        let joining = match self.check_join(&channel, &join) {
            Ok(joining) => joining,
            Err(refused) => return refuse(channel, refused).await,
        };
        let congestion = joining.congestion.as_deref().unwrap_or_default();
        socket::configure(channel.socket().into(), &self.socket_options(congestion))?;
        joining.shared.set_policy(PathId(join.path), join.policy);
        channel.send(&Record::JoinReply(JoinReply {})).await?;
        let path = (join.path, &*join.path_name);
        self.start(&joining.keys.id, &joining.shared, channel, None, join.subflow, path);
        Ok(())
    }

    /// Finds the connection to join and takes a place in it.
    fn check_join(self: &Arc<Self>, channel: &Channel, join: &Join) -> Result<Joining, Refused> {
        // A guessed number and a wrong proof look the same and take as long. No work is done under
        // the lock that all handshakes want.
        let id = SessionId(join.session);
        let keys = self.tables().sessions.get(&id).map(|session| session.keys.clone());
        let proven = keys.as_ref().unwrap_or(&self.decoy).verify(channel, join);
        let keys = keys.filter(|_| proven.unwrap_or(false)).ok_or_else(wrong_join)?;
        check_congestion(join.congestion.as_deref().unwrap_or_default())?;
        self.take_place(keys, join.subflow, PathId(join.path), join.congestion.as_ref())
    }

    /// Takes the number of a subflow of the connection of `keys`, and its place within the limits.
    fn take_place(
        self: &Arc<Self>,
        keys: SessionKeys,
        number: u64,
        path: PathId,
        congestion: Option<&String>,
    ) -> Result<Joining, Refused> {
        let mut tables = self.tables();
        let session = tables.sessions.get_mut(&keys.id).ok_or_else(wrong_join)?;
        if session.used.contains(&(number..number + 1)) {
            let reason = format!("subflow number {number} was used before");
            return Err(Refused::new(refusal::SUBFLOW, reason));
        }
        let full = || Refused::busy("too many subflows in this connection");
        let fresh_path = !session.paths.contains_key(&path);
        if fresh_path && session.paths.len() >= MAX_PATHS {
            return Err(full());
        }
        let congestion = match congestion {
            None => session.congestion.clone(),
            Some(name) => Some(name.clone()).filter(|name| !name.is_empty()),
        };
        use_number(&mut session.used, number);
        session.paths.entry(path).or_default();
        session.joining += 1;
        let (waiting, shared) = (session.joining, Arc::clone(&session.shared));
        drop(tables);
        let joining = Joining { state: Arc::clone(self), keys, shared, congestion };
        // One that goes live between the two counts is in both, never in none.
        if joining.shared.subflow_count() + waiting > MAX_SUBFLOWS {
            return Err(full());
        }
        self.memory.check_subflow().map_err(Refused::busy)?;
        Ok(joining)
    }

    /// Brings a subflow into its connection, with `reply`, if it was not said yet, in front of all
    /// that it says; its `path` has a number and a name. An older subflow of the same path is given up: the client has
    /// replaced it.
    fn start(
        &self,
        id: &SessionId,
        shared: &Arc<Shared>,
        channel: Channel,
        reply: Option<&Record>,
        subflow: u64,
        path: (u64, &str),
    ) {
        let (subflow, path, name) = (SubflowId(subflow), PathId(path.0), path.1);
        let name = printable(name).into();
        let parts = channel.into_parts(reply);
        let running = subflow::start(shared, subflow, path, &name, parts);
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

/// The longest message that a connection takes, 0 if it carries a byte stream.
fn longest_received(config: &SessionConfig) -> u64 {
    config.messages.map_or(0, |limits| limits.longest_received)
}

fn wrong_join() -> Refused {
    Refused::new(refusal::JOIN, "no such connection, or not yours")
}

fn no_token() -> Refused {
    let reason = "this server wants a token and yours is missing or another one";
    Refused::new(refusal::TOKEN, reason)
}

/// Refuses a bound of memory that a session would silently change.
pub(crate) fn check_max_memory(memory: ByteCount) -> Result<(), Error> {
    let (least, most) = (ByteCount::new(LEAST_RECEIVE), ByteCount::mib(64 << 10));
    if (least..=most).contains(&memory) {
        return Ok(());
    }
    let message = format!("a connection's memory is {least} to {most}, {memory} is not");
    Err(Error::Invalid(message))
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
