//! The client: what to connect over, and connecting.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use weftline_core::scheduler::{Entry, SchedulerConfig};
use weftline_core::session::SessionConfig;
use weftline_core::wire::Hello;
use weftline_core::{ByteCount, PathId};

use crate::address::ServerAddr;
use crate::connection::Connection;
use crate::error::Error;
use crate::handshake::Token;
use crate::links::LinkWatch;
use crate::path::{Dialer, Report};
use crate::redial::PathKnowledge;
use crate::socket::{Bind, SocketOptions, check_congestion};
use crate::tls::ClientSecurity;

/// The longest name of a path on the wire, in bytes.
const MAX_NAME: usize = 64;
/// Attempts of every path after which connecting fails.
const ATTEMPTS: u32 = 2;

/// One way to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// Its name in statistics and messages, at most 64 bytes.
    pub name: String,
    /// Where it leaves this machine.
    pub bind: Bind,
}

impl PathConfig {
    /// A path called `name` that leaves through `bind`.
    pub fn new(name: impl Into<String>, bind: Bind) -> Self {
        Self { name: name.into(), bind }
    }
}

/// What all connections of a client have in common.
pub(crate) struct Settings {
    /// Each path with the server's address on it.
    pub(crate) paths: Vec<(PathConfig, ServerAddr)>,
    pub(crate) security: ClientSecurity,
    pub(crate) server_name: Option<ServerName<'static>>,
    pub(crate) token: Option<Token>,
    pub(crate) socket: SocketOptions,
    pub(crate) session: SessionConfig,
    /// What the first subflow says; the dialer fills in path and subflow.
    pub(crate) hello: Hello,
    pub(crate) handshake_timeout: Duration,
    pub(crate) grace: Duration,
    pub(crate) seed: u64,
    /// What the connections know of each path.
    pub(crate) knowledge: Vec<PathKnowledge>,
    /// The machine's links, watched since the first connection.
    pub(crate) links: OnceLock<Option<LinkWatch>>,
}

impl Settings {
    /// The machine's links from here on; `None` where they cannot be watched.
    pub(crate) fn links(&self) -> Option<LinkWatch> {
        self.links.get_or_init(LinkWatch::start).as_ref().map(LinkWatch::subscribe)
    }
}

/// Makes connections to one server over the same paths. Cloning is cheap.
#[derive(Clone)]
pub struct Client {
    settings: Arc<Settings>,
    /// Numbers the connections, each of which has random streams of its own.
    connections: Arc<AtomicU64>,
}

impl Client {
    /// Starts describing a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Opens a connection. Returns when its first subflow is up; every other path joins when it
    /// can, and is tried again and again while it cannot.
    ///
    /// # Errors
    /// When every path has failed twice, or in a way that cannot get better: the most telling of
    /// their errors.
    pub async fn connect(&self) -> Result<Connection, Error> {
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let dialer = Arc::new(Dialer::new(Arc::clone(&self.settings), number));
        let paths = self.settings.paths.len();
        let (reports, mut inbox) = mpsc::channel(paths * ATTEMPTS as usize);
        let mut tasks = JoinSet::new();
        for index in 0..paths {
            tasks.spawn(Arc::clone(&dialer).run_path(index, reports.clone()));
        }
        drop(reports);
        let mut attempts = vec![0; paths];
        let mut told: Option<Error> = None;
        while let Some(report) = inbox.recv().await {
            match report {
                Report::Up(shared, peer) => {
                    tasks.detach_all();
                    return Ok(Connection::new(shared, peer));
                }
                Report::Failed(index, error) => {
                    attempts[index] += if error.is_permanent() { ATTEMPTS } else { 1 };
                    if told.as_ref().is_none_or(|old| !old.is_permanent()) {
                        told = Some(error);
                    }
                    if attempts.iter().all(|&n| n >= ATTEMPTS) {
                        break;
                    }
                }
            }
        }
        Err(told.unwrap_or_else(|| Error::Invalid("no path to connect over".to_owned())))
    }
}

/// Describes a [`Client`].
#[derive(Clone, Debug)]
pub struct ClientBuilder {
    servers: Vec<ServerAddr>,
    paths: Vec<PathConfig>,
    security: Option<ClientSecurity>,
    server_name: Option<String>,
    token: Option<Token>,
    scheduler: String,
    window: Option<ByteCount>,
    forward: Option<String>,
    max_memory: ByteCount,
    socket: SocketOptions,
    handshake_timeout: Duration,
    grace: Duration,
    seed: Option<u64>,
}

impl Default for ClientBuilder {
    fn default() -> Self {
        let session = SessionConfig::default();
        Self {
            servers: Vec::new(),
            paths: Vec::new(),
            security: None,
            server_name: None,
            token: None,
            scheduler: session.scheduler.name.to_owned(),
            window: None,
            forward: None,
            max_memory: session.max_memory,
            socket: SocketOptions::default(),
            handshake_timeout: Duration::from_secs(5),
            grace: Duration::from_secs(30),
            seed: None,
        }
    }
}

impl ClientBuilder {
    /// Adds a server address. One address holds for all paths; with more there must be as many as
    /// paths, and they belong together in order.
    #[must_use]
    pub fn server(mut self, server: impl Into<ServerAddr>) -> Self {
        self.servers.push(server.into());
        self
    }

    /// Adds a path. Without any, there is one called `default` that follows the routing table.
    #[must_use]
    pub fn path(mut self, path: PathConfig) -> Self {
        self.paths.push(path);
        self
    }

    /// How subflows are secured and the server is known. There is no default.
    #[must_use]
    pub fn security(mut self, security: ClientSecurity) -> Self {
        self.security = Some(security);
        self
    }

    /// The name the server's certificate must be issued to; by default the host of its address.
    /// Of no matter when the certificate is pinned.
    #[must_use]
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// The secret that the server wants of its clients.
    #[must_use]
    pub fn token(mut self, token: Token) -> Self {
        self.token = Some(token);
        self
    }

    /// The scheduler of both directions, by its name in [`weftline_core::scheduler::REGISTRY`];
    /// default `fbdt`.
    #[must_use]
    pub fn scheduler(mut self, name: impl Into<String>) -> Self {
        self.scheduler = name.into();
        self
    }

    /// A fixed transmission window for FBDT; by default it follows the measured rates.
    #[must_use]
    pub fn window(mut self, window: ByteCount) -> Self {
        self.window = Some(window);
        self
    }

    /// The path that FBDT holds in the forward direction; by default the most reliable one.
    #[must_use]
    pub fn forward(mut self, path: impl Into<String>) -> Self {
        self.forward = Some(path.into());
        self
    }

    /// The kernel's congestion control on every subflow, in both directions; by default the
    /// system's own.
    #[must_use]
    pub fn congestion(mut self, name: impl Into<String>) -> Self {
        self.socket.congestion = Some(name.into());
        self
    }

    /// Most memory for received bytes of a connection, and again for bytes to send; default
    /// 256 MiB.
    #[must_use]
    pub fn max_memory(mut self, memory: ByteCount) -> Self {
        self.max_memory = memory;
        self
    }

    /// How long one attempt to reach the server on a path may take; default 1 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.socket.connect_timeout = timeout;
        self
    }

    /// How long TLS and hello or join may take on a path; default 5 s.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.handshake_timeout = timeout;
        self
    }

    /// How long a connection lives without any subflow; default 30 s.
    #[must_use]
    pub fn grace(mut self, grace: Duration) -> Self {
        self.grace = grace;
        self
    }

    /// Where the jitter of retries begins; by default different in each process.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// The client.
    ///
    /// # Errors
    /// When a setting is missing, unknown or does not fit the others; the error names it.
    pub fn build(mut self) -> Result<Client, Error> {
        if self.paths.is_empty() {
            self.paths.push(PathConfig::new("default", Bind::Any));
        }
        let security = self.security.take().ok_or(Error::NoTrust)?;
        let paths = self.match_paths()?;
        if let Some(name) = &self.socket.congestion {
            check_congestion(name)?;
        }
        let forward = self.forward_number()?;
        let scheduler =
            Entry::find(&self.scheduler).map_err(|_| unknown_scheduler(&self.scheduler))?;
        scheduler.check_paths(paths.len()).map_err(|error| Error::Invalid(error.to_string()))?;
        let session = SessionConfig {
            scheduler,
            scheduler_config: SchedulerConfig {
                window: self.window.map(ByteCount::as_u64),
                forward_pin: forward.map(PathId),
                ..SchedulerConfig::default()
            },
            max_memory: self.max_memory,
            ..SessionConfig::default()
        };
        let hello = Hello {
            scheduler: self.scheduler,
            congestion: self.socket.congestion.clone().unwrap_or_default(),
            window: self.window.map_or(0, ByteCount::as_u64),
            forward_pin: forward.map_or(0, |number| number + 1),
            ..Hello::default()
        };
        let settings = Settings {
            knowledge: paths.iter().map(|_| PathKnowledge::default()).collect(),
            links: OnceLock::new(),
            paths,
            security,
            server_name: self.server_name.as_deref().map(parse_name).transpose()?,
            token: self.token,
            socket: self.socket,
            session,
            hello,
            handshake_timeout: self.handshake_timeout,
            grace: self.grace,
            seed: self.seed.map_or_else(crate::handshake::random_seed, Ok)?,
        };
        let connections = Arc::new(AtomicU64::new(0));
        Ok(Client { settings: Arc::new(settings), connections })
    }

    /// Each path with its server.
    fn match_paths(&self) -> Result<Vec<(PathConfig, ServerAddr)>, Error> {
        for (index, path) in self.paths.iter().enumerate() {
            let name = &path.name;
            if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
                let message = format!("a path's name has 1 to {MAX_NAME} bytes, '{name}' does not");
                return Err(Error::Invalid(message));
            }
            if self.paths[..index].iter().any(|other| other.name == *name) {
                return Err(Error::Invalid(format!("two paths are called '{name}'; rename one")));
            }
        }
        let paths = self.paths.iter().cloned();
        match &self.servers[..] {
            [] => Err(Error::Invalid("no server address given".to_owned())),
            [one] => Ok(paths.map(|path| (path, one.clone())).collect()),
            many if many.len() == self.paths.len() => Ok(paths.zip(many.iter().cloned()).collect()),
            many => Err(Error::Invalid(format!(
                "{} server addresses for {} paths; give one for all or one for each",
                many.len(),
                self.paths.len()
            ))),
        }
    }

    fn forward_number(&self) -> Result<Option<u64>, Error> {
        let Some(forward) = &self.forward else { return Ok(None) };
        match self.paths.iter().position(|path| path.name == *forward) {
            Some(index) => Ok(Some(index as u64)),
            None => Err(Error::Invalid(format!("no path is called '{forward}' to be forward"))),
        }
    }
}

fn parse_name(name: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| Error::Invalid(format!("'{name}' is no name a certificate is issued to")))
}

/// Says which schedulers there are.
pub(crate) fn unknown_scheduler(name: &str) -> Error {
    let known: Vec<&str> =
        weftline_core::scheduler::REGISTRY.iter().map(|entry| entry.name).collect();
    Error::UnknownScheduler { name: name.to_owned(), known: known.join(", ") }
}
