//! What all connections of a client have in common.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::sync::watch;
use weftline_core::session::{MessageLimits, SessionConfig};
use weftline_core::wire::{Hello, PolicyNote};
use weftline_core::{Bitrate, ByteCount, PathId, PathPolicy, Role};

use crate::address::ServerAddr;
use crate::bind::Bind;
use crate::congestion::Choice;
use crate::knowledge::PathKnowledge;
use crate::links::LinkWatch;
use crate::memory::MemoryBudget;
use crate::policy::Caps;
use crate::socket::SocketOptions;
use crate::tls::ClientSecurity;
use crate::token::Token;

/// One way to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathConfig {
    /// Its name in statistics and messages, at most 64 bytes.
    pub name: String,
    /// Where it leaves this machine.
    pub bind: Bind,
    /// What it is for, and the most it may carry in each direction, all connections together.
    pub policy: PathPolicy,
    /// The kernel's congestion control on it, in both directions, or `auto`; that of the client if
    /// `None`.
    pub congestion: Option<String>,
}

impl PathConfig {
    /// A path called `name` that leaves through `bind`: active, without a cap.
    pub fn new(name: impl Into<String>, bind: Bind) -> Self {
        Self { name: name.into(), bind, policy: PathPolicy::default(), congestion: None }
    }

    /// The same path for another use.
    #[must_use]
    pub fn role(mut self, role: Role) -> Self {
        self.policy.role = role;
        self
    }

    /// The same path, carrying at most `rate` in each direction: bytes of streams and the headers
    /// of their records, all connections of the client together.
    #[must_use]
    pub fn cap(mut self, rate: Bitrate) -> Self {
        self.policy.cap = Some(rate);
        self
    }

    /// The same path under another congestion control of the kernel, in both directions.
    #[must_use]
    pub fn congestion(mut self, name: impl Into<String>) -> Self {
        self.congestion = Some(name.into());
        self
    }
}

/// What all connections of a client have in common.
#[derive(Clone)]
pub(crate) struct Settings {
    /// Each path with the server's address on it.
    pub(crate) paths: Vec<(PathConfig, ServerAddr)>,
    /// The number of each path, the same in all connections.
    pub(crate) ids: Vec<PathId>,
    /// Counts the changes of the client's paths.
    pub(crate) revision: u64,
    pub(crate) common: Arc<Common>,
    pub(crate) security: ClientSecurity,
    pub(crate) server_name: Option<ServerName<'static>>,
    pub(crate) token: Option<Token>,
    pub(crate) socket: SocketOptions,
    pub(crate) session: SessionConfig,
    pub(crate) memory: MemoryBudget,
    /// What the first subflow says; the dialer fills in path and subflow.
    pub(crate) hello: Hello,
    pub(crate) handshake_timeout: Duration,
    pub(crate) grace: Duration,
    pub(crate) seed: u64,
    /// What the connections know of each path.
    pub(crate) knowledge: Vec<Arc<PathKnowledge>>,
}

impl Settings {
    /// The same for connections of messages up to that long.
    pub(crate) fn of_messages(&self, longest: ByteCount) -> Self {
        let mut settings = self.clone();
        let longest = longest.as_u64();
        // The server says what it takes.
        let limits = MessageLimits { longest_sent: 0, longest_received: longest };
        settings.session.messages = Some(limits);
        settings.hello.messages = longest;
        settings
    }

    /// The machine's links from here on; `None` where they cannot be watched.
    pub(crate) fn links(&self) -> Option<LinkWatch> {
        let mut links = self.common.links.lock().expect("nobody panics with it");
        // It ends with the runtime that it was begun in.
        if links.as_ref().is_none_or(|links| links.as_ref().is_some_and(LinkWatch::has_ended)) {
            *links = Some(LinkWatch::start());
        }
        links.as_ref()?.as_ref().map(LinkWatch::subscribe)
    }

    /// Whether a server of these settings is one of the others'.
    pub(crate) fn shares_server(&self, other: &Self) -> bool {
        self.paths.iter().any(|(_, server)| other.paths.iter().any(|(_, theirs)| theirs == server))
    }

    /// The settings of sockets on a path.
    pub(crate) fn socket_options(&self, path: &PathConfig) -> SocketOptions {
        let congestion = match &path.congestion {
            Some(name) => Choice::of(name),
            None => self.socket.congestion.clone(),
        };
        SocketOptions { congestion, ..self.socket.clone() }
    }

    /// What is said of the path `index`.
    pub(crate) fn note(&self, index: usize) -> PolicyNote {
        PolicyNote { revision: self.revision, policy: self.paths[index].0.policy }
    }

    /// The place of a path among them, while it is there.
    pub(crate) fn index(&self, path: PathId) -> Option<usize> {
        self.ids.iter().position(|&id| id == path)
    }

    /// Whether the path `index` leaves it to others to open the connection: it is not active, and
    /// others are.
    pub(crate) fn is_reserve(&self, index: usize) -> bool {
        let is_active = |(path, _): &(PathConfig, ServerAddr)| path.policy.role == Role::Active;
        !is_active(&self.paths[index]) && self.paths.iter().any(is_active)
    }
}

/// What clients of the same paths have in common, whatever becomes of their settings.
#[derive(Debug, Default)]
pub(crate) struct Common {
    /// By this number the server knows their connections as one client's.
    pub(crate) group: [u8; 16],
    /// The rate caps of what is sent.
    pub(crate) caps: Arc<Caps>,
    /// Every path there has been: the index is its number.
    paths: Mutex<Vec<KnownPath>>,
    pub(crate) revisions: AtomicU64,
    /// Numbers the connections, each of which has random streams of its own.
    pub(crate) connections: AtomicU64,
    /// The machine's links, watched since the first connection, where they can be.
    links: Mutex<Option<Option<LinkWatch>>>,
    /// Changes when the server has answered on some path.
    pub(crate) answers: watch::Sender<()>,
}

#[derive(Debug)]
struct KnownPath {
    name: String,
    bind: Bind,
    server: ServerAddr,
    knowledge: Arc<PathKnowledge>,
}

impl Common {
    /// Of a client that the server knows by that number.
    pub(crate) fn of_group(group: [u8; 16]) -> Self {
        Self { group, ..Self::default() }
    }

    /// The number and the knowledge of a path: the same if name and both ends are.
    pub(crate) fn path(
        &self,
        path: &PathConfig,
        server: &ServerAddr,
    ) -> (PathId, Arc<PathKnowledge>) {
        let mut known = self.paths.lock().expect("nobody panics with it");
        let is_it =
            |k: &KnownPath| k.name == path.name && k.bind == path.bind && k.server == *server;
        let index = known.iter().position(is_it).unwrap_or(known.len());
        if index == known.len() {
            known.push(KnownPath {
                name: path.name.clone(),
                bind: path.bind.clone(),
                server: server.clone(),
                knowledge: Arc::default(),
            });
        }
        (PathId(index as u64), Arc::clone(&known[index].knowledge))
    }
}
