//! The server: what it is like, what can be changed while it runs, and what it has accepted. How
//! peers come in is in `acceptor`.

mod acceptor;
mod half_open;
mod refusals;
mod sessions;
mod unanswered;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weftline_core::ByteCount;
use weftline_core::session::{
    DEFAULT_LONGEST_MESSAGE, RESET_REVOKED, RESET_SHUTDOWN, SessionConfig,
};
use weftline_core::wire::{MAX_JOIN_ADDRESSES, check_join_address};

use self::refusals::RefusalLog;
use self::sessions::Tables;
use crate::checks::{
    IDLE_TIMEOUT, check_idle_timeout, check_max_memory, longest_message, within_runtime,
};
use crate::congestion;
use crate::connection::Connection;
use crate::error::Error;
use crate::handshake::{Numbering, SessionKeys};
use crate::limits::{Admission, Limits};
use crate::memory::MemoryBudget;
use crate::policy::Groups;
use crate::socket::{self, SocketOptions};
use crate::tls::ServerSecurity;
use crate::token::Token;

/// Connections that wait to be accepted by the application.
const ACCEPT_QUEUE: usize = 128;

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
    idle_timeout: Duration,
    socket: SocketOptions,
    allowed_congestion: Option<Vec<String>>,
    passed: Vec<Arc<std::net::TcpListener>>,
    join_addresses: Vec<SocketAddr>,
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
            idle_timeout: IDLE_TIMEOUT,
            socket: SocketOptions::default(),
            allowed_congestion: None,
            passed: Vec::new(),
            join_addresses: Vec::new(),
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

    /// How long a connection lives without a word from the peer, though it was asked; default 45 s,
    /// at least 1 s. A path that is cut is another matter: the kernel gives its socket up within
    /// 30 s, and then [`grace`](Self::grace) counts.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
        self
    }

    /// The congestion controls that clients may choose by name; by default all that this kernel
    /// has and this process may set. Clients that name none get BBR if it is one of these, else the
    /// system's default or another of these.
    #[must_use]
    pub fn allow_congestion(mut self, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.allowed_congestion = Some(names.into_iter().map(Into::into).collect());
        self
    }

    /// Announces an address at which clients join further paths to the connections of this server:
    /// one of its own, where no other server is. For servers that stand behind one name or balancer;
    /// by default clients join where they opened the connection. At most 4; whether the server
    /// listens there is not checked, as a client may see it by another address.
    #[must_use]
    pub fn join_address(mut self, address: SocketAddr) -> Self {
        self.join_addresses.push(address);
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
    /// When the security is not given, a limit makes no sense, an allowed congestion control cannot
    /// be set, there is no address and no listener, or an address is not there or taken; outside a
    /// tokio runtime.
    ///
    /// # Panics
    /// If the runtime has no I/O, or no time.
    pub fn bind(self, addresses: &[SocketAddr]) -> Result<Server, Error> {
        within_runtime()?;
        let live = self.live()?;
        self.limits.check()?;
        let passed = self.passed.iter().map(|passed| {
            let listener = passed.try_clone().map_err(Error::Socket)?;
            socket::adopt(listener)
        });
        let fresh = addresses.iter().map(|&address| socket::listen_beside(address, addresses));
        let listeners: Vec<TcpListener> = passed.chain(fresh).collect::<Result<_, Error>>()?;
        let local: Result<Vec<_>, _> = listeners.iter().map(TcpListener::local_addr).collect();
        if listeners.is_empty() {
            return Err(Error::Invalid("no address to listen on".to_owned()));
        }
        let (accepted, incoming) = mpsc::channel(ACCEPT_QUEUE);
        let state = Arc::new(State {
            live: Mutex::new(live),
            handshake_timeout: self.limits.handshake_timeout,
            admission: Admission::new(self.limits),
            longest_message: self.longest_message.map(longest_message).transpose()?,
            memory: self.memory,
            socket: self.socket,
            decoy: SessionKeys::random()?,
            wants_token: !self.tokens.is_empty(),
            tables: Mutex::new(Tables::new(self.tokens, self.limits.handshake_timeout)),
            numbering: Numbering::random()?,
            groups: Groups::default(),
            accepted,
            refusals: RefusalLog::default(),
        });
        let mut tasks = JoinSet::new();
        for listener in listeners {
            tasks.spawn(acceptor::listen(Arc::clone(&state), listener));
        }
        Ok(Server { incoming, local: local.map_err(Error::Socket)?, state, tasks })
    }

    /// What holds until the next [`ServerControl::reload`].
    fn live(&self) -> Result<Live, Error> {
        let security = self.security.clone().ok_or_else(|| {
            Error::Invalid("a server needs a certificate or insecure plaintext".to_owned())
        })?;
        check_max_memory(self.max_memory)?;
        check_idle_timeout(self.idle_timeout)?;
        if self.allowed_congestion.as_ref().is_some_and(Vec::is_empty) {
            let message = "a list of congestion controls that clients may choose names one or more";
            return Err(Error::Invalid(message.to_owned()));
        }
        for name in self.allowed_congestion.iter().flatten() {
            congestion::check_congestion(name)?;
        }
        check_join_addresses(&self.join_addresses)?;
        Ok(Live {
            security,
            max_memory: self.max_memory,
            grace: self.grace,
            idle_timeout: self.idle_timeout,
            allowed_congestion: self.allowed_congestion.as_deref().map(Arc::from),
            join_addresses: self.join_addresses.as_slice().into(),
        })
    }
}

/// Accepts connections on one or more addresses. Dropping it stops listening; connections already
/// accepted go on with the subflows they have, and those that wait to be accepted are dropped: see
/// [`close`](Self::close).
#[derive(Debug)]
pub struct Server {
    incoming: mpsc::Receiver<Connection>,
    local: Vec<SocketAddr>,
    state: Arc<State>,
    tasks: JoinSet<()>,
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

    /// Stops listening, at once. The future resets the connections that were admitted and never
    /// accepted, with `reason`, and waits until their clients have been told: a client that is not
    /// takes such a connection for a good one, and may use it.
    pub fn close(self, reason: &str) -> impl Future<Output = ()> + use<> {
        let Self { mut incoming, tasks, .. } = self;
        drop(tasks);
        incoming.close();
        let reason = reason.to_owned();
        async move {
            let mut told = JoinSet::new();
            // What is admitted at this moment has its place in the queue, and is waited for.
            while let Some(connection) = incoming.recv().await {
                connection.abort(RESET_SHUTDOWN, &reason);
                told.spawn(async move { connection.closed().await });
            }
            while told.join_next().await.is_some() {}
        }
    }
}

/// What can be changed of a running server. A clone does not keep it running.
#[derive(Clone, Debug)]
pub struct ServerControl(Arc<State>);

impl ServerControl {
    /// Takes another description, of which security, the memory of a connection, the times it lives
    /// without subflows and without a word from its client, the congestion controls allowed and the
    /// addresses for joins hold for connections to come, and tokens at once, as with
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

    /// From now on admits every client that has one of `tokens`. Connections of clients that have
    /// none of them are reset; how many those are.
    ///
    /// # Errors
    /// [`Error::Invalid`] if the server was started without tokens or is to be left without: that
    /// would admit everybody, or nobody, and is no change to make in passing.
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
    idle_timeout: Duration,
    /// The congestion controls that clients may choose, if not all.
    allowed_congestion: Option<Arc<[String]>>,
    /// Where clients are told to join.
    join_addresses: Arc<[SocketAddr]>,
}

/// What the server's listeners and handshakes share.
struct State {
    live: Mutex<Live>,
    handshake_timeout: Duration,
    admission: Arc<Admission>,
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

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("State")
    }
}

/// Refuses addresses for joins that clients would refuse. One of this machine's own is for clients
/// that are on it, which the server cannot know.
fn check_join_addresses(addresses: &[SocketAddr]) -> Result<(), Error> {
    if addresses.len() > MAX_JOIN_ADDRESSES {
        let message = format!(
            "at most {MAX_JOIN_ADDRESSES} addresses are announced for joins, not {}; leave some out",
            addresses.len()
        );
        return Err(Error::Invalid(message));
    }
    for (index, &address) in addresses.iter().enumerate() {
        check_join_address(address, true).map_err(|error| {
            Error::Invalid(format!("{error}; give one of this server, with its port"))
        })?;
        if addresses[..index].contains(&address) {
            let message = format!("{address} is announced for joins twice; leave one out");
            return Err(Error::Invalid(message));
        }
    }
    Ok(())
}
