//! The client: what to connect over, and connecting.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::sync::{oneshot, watch};
use weftline_core::limiter::PathLimiter;
use weftline_core::path_manager::HANDSHAKE_TIMEOUT;
use weftline_core::scheduler::{Entry, RulesOff, SchedulerConfig, Setting, check_settings};
use weftline_core::session::{DEFAULT_LONGEST_MESSAGE, MessageLimits, SessionConfig};
use weftline_core::wire::Hello;
use weftline_core::{ByteCount, PathId, Role};

use crate::address::ServerAddr;
use crate::bind::Bind;
use crate::checks::{
    IDLE_TIMEOUT, check_idle_timeout, check_max_memory, longest_message, unknown_scheduler,
    within_runtime,
};
use crate::congestion::{Choice, check_congestion};
use crate::connection::Connection;
use crate::denial::Denial;
use crate::error::Error;
use crate::memory::MemoryBudget;
use crate::paths::{Paths, Stage};
use crate::random::{random, random_seed};
use crate::settings::{Common, PathConfig, Settings};
use crate::socket::SocketOptions;
use crate::tls::ClientSecurity;
use crate::token::Token;

/// The longest name of a path on the wire, in bytes.
const MAX_NAME: usize = 64;

/// Makes connections to one server over the same paths. Cloning is cheap.
#[derive(Clone)]
pub struct Client {
    settings: Arc<watch::Sender<Arc<Settings>>>,
    denial: Arc<Denial>,
}

impl Client {
    /// Starts describing a client.
    pub fn builder() -> ClientBuilder {
        ClientBuilder::default()
    }

    /// Takes another description, of which all holds for connections to come, and that of the paths
    /// for those under way as well: a path that is new is dialled; another role or cap holds at
    /// once, at both ends; a path that is not there any more carries no new data, and is closed
    /// when what it carries has arrived and another path is up. A path is the same as before if its
    /// name, its interface or address, and the server's address are.
    ///
    /// # Errors
    /// As for [`ClientBuilder::build`]; then everything stays as it was.
    pub fn reload(&self, builder: ClientBuilder) -> Result<(), Error> {
        let settings = builder.beside(self).settings()?;
        self.settings.send_replace(Arc::new(settings));
        Ok(())
    }

    /// A client over the paths of this one as they are now, whose connections carry messages up to that long.
    pub(crate) fn of_messages(&self, longest: ByteCount) -> Self {
        let settings = self.settings.borrow().of_messages(longest);
        let settings = Arc::new(watch::Sender::new(Arc::new(settings)));
        Self { settings, denial: Arc::clone(&self.denial) }
    }

    /// Follows the client that this one was made of by [`of_messages`](Self::of_messages).
    pub(crate) async fn follow(&self, client: &Self, longest: ByteCount) -> Infallible {
        let mut changes = client.changes();
        loop {
            let settings = changes.borrow_and_update().of_messages(longest);
            if settings.revision != self.revision() {
                self.settings.send_replace(Arc::new(settings));
            }
            if changes.changed().await.is_err() {
                // Nobody can change it any more.
                std::future::pending::<()>().await;
            }
        }
    }

    /// The path of that name, as it is now: its number, and the limiter for all connections' data
    /// over it. `None` if there is no such path.
    pub fn path_limiter(&self, name: &str) -> Option<(PathId, PathLimiter)> {
        let settings = self.settings.borrow();
        let index = settings.paths.iter().position(|(path, _)| path.name == name)?;
        let id = settings.ids[index];
        Some((id, settings.common.caps.limiter(id)?))
    }

    /// Counts the changes of the client's settings.
    pub(crate) fn revision(&self) -> u64 {
        self.settings.borrow().revision
    }

    /// Changes when the client's settings do.
    pub(crate) fn changes(&self) -> watch::Receiver<Arc<Settings>> {
        self.settings.subscribe()
    }

    /// Opens a connection. Returns when its first subflow is up; every other path joins when it
    /// can, and is tried again and again while it cannot.
    ///
    /// # Errors
    /// When every path has failed twice, or in a way that cannot get better: the most telling of
    /// their errors; outside a tokio runtime.
    ///
    /// # Panics
    /// If the runtime has no I/O, or no time.
    pub async fn connect(&self) -> Result<Connection, Error> {
        self.attempt(Stage::Up).await
    }

    /// As [`connect`](Self::connect), for what tries again and again by itself: a server that has not let this
    /// client in is not asked for a while, and its answer stands.
    ///
    /// # Errors
    /// As for `connect`.
    pub(crate) async fn connect_again(&self) -> Result<Connection, Error> {
        let revision = self.revision();
        self.denial.check(revision)?;
        let connected = self.connect().await;
        self.denial.note(revision, &connected.as_ref().map(|_| ()));
        connected
    }

    /// Whether the server's last answer, to what connects again and again, was that it does not
    /// accept this client.
    pub fn is_denied(&self) -> bool {
        self.denial.holds(self.revision())
    }

    /// As [`open`](Self::open), in the way of [`connect_again`](Self::connect_again).
    pub(crate) async fn open_again(&self) -> Result<Connection, Error> {
        let revision = self.revision();
        self.denial.check(revision)?;
        let connection = self.open().await?;
        // The answer is yet to come.
        let (control, denial) = (connection.control(), Arc::clone(&self.denial));
        tokio::spawn(async move {
            let answer = control.established().await;
            denial.note(revision, &answer.as_ref().copied().map_err(|error| &**error));
        });
        Ok(connection)
    }

    /// As [`connect`](Self::connect), a round trip sooner: returns when the server has been reached
    /// on one path, and verified if there is TLS, but has not answered yet. What is written goes
    /// out right behind the question, so that a request is answered as soon as over TCP, or TLS
    /// over TCP.
    ///
    /// Whether the server lets the connection in, [`Control::established`](crate::Control::established)
    /// waits for; if it does not, reading and writing fail with the error that `connect` would have
    /// returned, and nothing of what was written has been delivered. While the server has not
    /// answered, up to 32 KiB are sent; if the path breaks meanwhile, another one asks again, and
    /// the server delivers no byte twice, however late one of the questions comes. Data go nowhere before TLS is complete: nothing can be
    /// replayed, unlike TLS's own early data (RFC 8446 §8).
    ///
    /// Where several servers stand behind one address, the other path may ask another server, and
    /// what was written may be delivered by both.
    ///
    /// A client of messages waits for the answer, as the server says how long they may be.
    ///
    /// # Errors
    /// As for `connect`, as far as they show before the server's answer.
    ///
    /// # Panics
    /// As `connect`.
    pub async fn open(&self) -> Result<Connection, Error> {
        let says_limits = self.settings.borrow().session.messages.is_some();
        self.attempt(if says_limits { Stage::Up } else { Stage::Reached }).await
    }

    /// Opens a connection over all paths at once; dropping the future gives it up.
    async fn attempt(&self, stage: Stage) -> Result<Connection, Error> {
        within_runtime()?;
        let changes = self.settings.subscribe();
        let number = changes.borrow().common.connections.fetch_add(1, Ordering::Relaxed);
        let (tell, opened) = oneshot::channel();
        tokio::spawn(Paths::new(changes, number, stage, tell)?.run());
        // Whoever keeps the paths says what has come of it before it ends.
        let lost = |_| Error::Socket(std::io::Error::other("the attempt was broken off"));
        opened.await.map_err(lost)?
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
    latency: Option<Duration>,
    without: RulesOff,
    forward: Option<String>,
    beside: Option<Arc<Common>>,
    max_memory: ByteCount,
    longest_message: Option<ByteCount>,
    memory: MemoryBudget,
    socket: SocketOptions,
    handshake_timeout: Duration,
    grace: Duration,
    idle_timeout: Duration,
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
            latency: None,
            without: RulesOff::default(),
            forward: None,
            beside: None,
            max_memory: session.max_memory,
            longest_message: None,
            memory: MemoryBudget::default(),
            socket: SocketOptions::default(),
            handshake_timeout: HANDSHAKE_TIMEOUT,
            grace: Duration::from_secs(30),
            idle_timeout: IDLE_TIMEOUT,
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

    /// The scheduler of both directions, by its name in [`weftline_core::scheduler::all`];
    /// default `earliest`. A setting that it does not read is refused when the client is built.
    #[must_use]
    pub fn scheduler(mut self, name: impl Into<String>) -> Self {
        self.scheduler = name.into();
        self
    }

    /// Another scheduler than what was said until now is for: of the settings for it, those stay that this
    /// one has, too.
    #[must_use]
    pub fn another_scheduler(self, name: impl Into<String>) -> Self {
        let other = self.scheduler(name);
        let Ok(entry) = Entry::find(&other.scheduler) else { return other };
        let reads = |setting| entry.settings().contains(&setting);
        Self {
            window: other.window.filter(|_| reads(Setting::Window)),
            latency: other.latency.filter(|_| reads(Setting::Latency)),
            forward: other.forward.filter(|_| reads(Setting::Forward)),
            without: entry.rules_of(other.without),
            ..other
        }
    }

    /// The transmission window of `fbdt`, 1,448 B (a segment) to 1 GiB; 1 MiB by default (FBDT §3.2).
    #[must_use]
    pub fn window(mut self, window: ByteCount) -> Self {
        self.window = Some(window);
        self
    }

    /// The aim `latency` of `earliest` and `fbdt`, 1 ms to 60 s: a path that cannot deliver within this
    /// time gets no new data and serves only to reinject what others are late with; the path of the
    /// highest rate is always used. By default no path's contribution is given up.
    #[must_use]
    pub const fn latency(mut self, latency: Duration) -> Self {
        self.latency = Some(latency);
        self
    }

    /// Rules of `earliest` and `fbdt` that are switched off in both directions, for ablations: see
    /// [`Rule`](weftline_core::scheduler::Rule).
    #[must_use]
    pub const fn without(mut self, rules: RulesOff) -> Self {
        self.without = rules;
        self
    }

    /// The path that `fbdt` holds in the forward direction; by default the one that delivers first.
    #[must_use]
    pub fn forward(mut self, path: impl Into<String>) -> Self {
        self.forward = Some(path.into());
        self
    }

    /// Makes the client share the paths of `client`: what is known of them, and their rate caps,
    /// which hold for the connections of both together. A path is the same if its name, its
    /// interface or address, and the server's address are.
    #[must_use]
    pub fn beside(mut self, client: &Client) -> Self {
        self.beside = Some(Arc::clone(&client.settings.borrow().common));
        self
    }

    /// The kernel's congestion control on every subflow, in both directions: each end must have it.
    /// By default, and with `auto`, each end uses BBR where it may set it and else its system's
    /// default; [`ConnectionStatus::congestion`](crate::status::ConnectionStatus::congestion) says
    /// which it is.
    #[must_use]
    pub fn congestion(mut self, name: impl Into<String>) -> Self {
        self.socket.congestion = Choice::of(&name.into());
        self
    }

    /// Most memory for received bytes of a connection, and again for bytes to send: 256 KiB to
    /// 64 GiB; default 256 MiB.
    #[must_use]
    pub fn max_memory(mut self, memory: ByteCount) -> Self {
        self.max_memory = memory;
        self
    }

    /// Connections carry messages instead of a byte stream: see
    /// [`Connection::into_messages`](crate::Connection::into_messages). The server must take them.
    #[must_use]
    pub fn messages(mut self) -> Self {
        self.longest_message.get_or_insert(ByteCount::new(DEFAULT_LONGEST_MESSAGE));
        self
    }

    /// As [`messages`](Self::messages), with the longest message taken from the server, up to
    /// 1 GiB; by default 16 MiB. A connection has memory for at least one such message.
    #[must_use]
    pub fn longest_message(mut self, longest: ByteCount) -> Self {
        self.longest_message = Some(longest);
        self
    }

    /// What all connections may use together; by default they share half of the machine's memory
    /// with all others of the process. When it is used up, connecting fails and none grows.
    #[must_use]
    pub fn memory(mut self, memory: MemoryBudget) -> Self {
        self.memory = memory;
        self
    }

    /// The mark of the sockets (`SO_MARK`), by which firewalls and routing rules know them; by default none.
    /// It needs CAP_NET_ADMIN, or CAP_NET_RAW since Linux 5.17, and is left out without.
    #[must_use]
    pub const fn mark(mut self, mark: u32) -> Self {
        self.socket.mark = Some(mark);
        self
    }

    /// How long one attempt to reach the server on a path may take; default 3 s, as a queue of an
    /// access link may hold more than 1 s.
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

    /// How long a connection lives without a word from the peer, though it was asked; default 45 s,
    /// at least 1 s. A path that is cut is another matter: the kernel gives its socket up within
    /// 30 s, and then [`grace`](Self::grace) counts.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.idle_timeout = timeout;
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
    pub fn build(self) -> Result<Client, Error> {
        let settings = self.settings()?;
        let settings = Arc::new(watch::Sender::new(Arc::new(settings)));
        Ok(Client { settings, denial: Arc::default() })
    }

    fn settings(mut self) -> Result<Settings, Error> {
        if self.paths.is_empty() {
            self.paths.push(PathConfig::new("default", Bind::Any));
        }
        check_max_memory(self.max_memory)?;
        check_idle_timeout(self.idle_timeout)?;
        self.check_window()?;
        self.check_latency()?;
        let security = self.security.take().ok_or(Error::NoTrust)?;
        let paths = self.match_paths()?;
        let of_paths = paths.iter().filter_map(|(path, _)| path.congestion.clone());
        for name in of_paths.chain([self.socket.congestion.on_wire()]) {
            check_congestion(&name)?;
        }
        let forward = self.forward_index()?;
        let scheduler =
            Entry::find(&self.scheduler).map_err(|_| unknown_scheduler(&self.scheduler))?;
        let active = paths.iter().filter(|(path, _)| path.policy.role == Role::Active).count();
        scheduler.check_paths(active).map_err(|error| Error::Invalid(error.to_string()))?;
        let common = match self.beside.take() {
            Some(common) => common,
            None => Arc::new(Common::of_group(random()?)),
        };
        let known = paths.iter().map(|(path, server)| common.path(path, server));
        let (ids, knowledge): (Vec<_>, Vec<_>) = known.unzip();
        let forward = forward.map(|index| ids[index]);
        let longest = self.longest_message.map(longest_message).transpose()?;
        let scheduler_config = SchedulerConfig {
            window: self.window.map(ByteCount::as_u64),
            forward_pin: forward,
            latency: self.latency,
            without: self.without,
            ..SchedulerConfig::default()
        };
        check_settings(&[scheduler], &scheduler_config)
            .map_err(|error| Error::Invalid(error.to_string()))?;
        let session = SessionConfig {
            scheduler,
            scheduler_config,
            max_memory: self.max_memory,
            peer_timeout: Some(self.idle_timeout),
            // The server says what it takes.
            messages: longest.map(|longest| MessageLimits {
                longest_sent: 0,
                longest_received: longest.as_u64(),
            }),
            pool: crate::memory::blocks(),
            ..SessionConfig::default()
        };
        let hello = Hello {
            scheduler: self.scheduler,
            congestion: self.socket.congestion.on_wire(),
            window: self.window.map_or(0, ByteCount::as_u64),
            forward_pin: forward.map_or(0, |PathId(number)| number + 1),
            group: common.group,
            messages: longest.map_or(0, ByteCount::as_u64),
            latency_us: self.latency.map_or(0, |latency| latency.as_micros() as u64),
            without: self.without,
            ..Hello::default()
        };
        Ok(Settings {
            knowledge,
            ids,
            revision: common.revisions.fetch_add(1, Ordering::Relaxed),
            common,
            paths,
            security,
            server_name: self.server_name.as_deref().map(parse_name).transpose()?,
            token: self.token,
            socket: self.socket,
            session,
            memory: self.memory,
            hello,
            handshake_timeout: self.handshake_timeout,
            grace: self.grace,
            seed: self.seed.map_or_else(random_seed, Ok)?,
        })
    }

    /// Each path with its server.
    fn match_paths(&self) -> Result<Vec<(PathConfig, ServerAddr)>, Error> {
        for (index, path) in self.paths.iter().enumerate() {
            let name = &path.name;
            if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
                let name = name.escape_debug();
                let message = format!(
                    "a path's name has 1 to {MAX_NAME} bytes and no control characters; '{name}' is none"
                );
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

    fn check_latency(&self) -> Result<(), Error> {
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(60));
        match self.latency {
            Some(latency) if !(least..=most).contains(&latency) => Err(Error::Invalid(format!(
                "a latency to aim at is 1 ms to 60 s, {latency:?} is not; without one no path is \
                 left out"
            ))),
            _ => Ok(()),
        }
    }

    /// Refuses a window that a scheduler would silently change.
    fn check_window(&self) -> Result<(), Error> {
        let (least, most) = (ByteCount::new(1448), ByteCount::mib(1024));
        match self.window {
            Some(window) if !(least..=most).contains(&window) => Err(Error::Invalid(format!(
                "a window is {least} to {most}, {window} is not; without one it is 1MiB"
            ))),
            _ => Ok(()),
        }
    }

    fn forward_index(&self) -> Result<Option<usize>, Error> {
        let Some(forward) = &self.forward else { return Ok(None) };
        match self.paths.iter().position(|path| path.name == *forward) {
            Some(index) => Ok(Some(index)),
            None => Err(Error::Invalid(format!("no path is called '{forward}' to be forward"))),
        }
    }
}

fn parse_name(name: &str) -> Result<ServerName<'static>, Error> {
    ServerName::try_from(name.to_owned())
        .map_err(|_| Error::Invalid(format!("'{name}' is no name a certificate is issued to")))
}
