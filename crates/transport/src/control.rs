//! What can be asked of a connection besides its bytes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::broadcast;
use weftline_core::PathId;
use weftline_core::limiter::PathLimiter;
use weftline_core::session::SessionStats;

use crate::about::{About, ConnectionStatus};
use crate::error::Error;
use crate::events::PathEvent;
use crate::shared::{End, Shared};
use crate::weave::WeaveWatch;

/// A connection's counters, events and end. A clone does not keep the connection open.
#[derive(Clone)]
pub struct Control {
    pub(crate) shared: Arc<Shared>,
    pub(crate) about: Arc<About>,
}

impl fmt::Debug for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Control").field("peer", &self.about.peer()).finish_non_exhaustive()
    }
}

/// A connection's counters.
#[derive(Clone, Debug)]
pub struct ConnectionStats {
    /// The session's counters, those of each path by its number.
    pub session: SessionStats,
    /// The name of each path.
    pub names: BTreeMap<PathId, Arc<str>>,
}

impl Control {
    /// The peer's address on the connection's first subflow.
    pub fn peer_addr(&self) -> SocketAddr {
        self.about.peer()
    }

    /// Who the client is (server): the name of its token, or the fingerprint of its certificate;
    /// `None` where the server asks for neither, and on the client's side.
    pub fn client(&self) -> Option<&str> {
        self.about.client()
    }

    /// The counters now.
    pub fn stats(&self) -> ConnectionStats {
        let (session, names) = self.shared.stats();
        ConnectionStats { session, names }
    }

    /// What happens to the paths from here on. A subscriber that falls behind by 1024 events loses
    /// the oldest.
    pub fn events(&self) -> broadcast::Receiver<PathEvent> {
        self.shared.subscribe()
    }

    /// How each subflow that is there came up, the oldest first: what [`events`](Self::events) told
    /// before anybody listened. Whoever listens first and asks this afterwards misses none, and may
    /// hear of one twice.
    pub fn paths_up(&self) -> Vec<PathEvent> {
        self.shared.paths_up()
    }

    /// Waits until the server has let the connection in that [`Client::open`](crate::Client::open)
    /// began; on any other it has.
    ///
    /// # Errors
    /// Why it failed, if it did.
    pub async fn established(&self) -> Result<(), Arc<Error>> {
        self.shared.established().await;
        self.error().map_or(Ok(()), Err)
    }

    /// Ends the connection at once. The peer's calls fail with `code` and `reason`
    /// ([`Error::Reset`]); at most 256 bytes of the reason are carried, and of codes
    /// 2^62 − 1 is the largest. Codes up to 15 are weftline's own.
    pub fn abort(&self, code: u64, reason: &str) {
        self.shared.abort(code, reason);
    }

    /// Waits until the connection is over, both directions finished and acknowledged, and its
    /// subflows are closed. A process that ends earlier may leave the peer without the last
    /// acknowledgement, or without the reason of a reset.
    ///
    /// # Errors
    /// Why it failed, if it did.
    pub async fn closed(&self) -> Result<(), Arc<Error>> {
        self.shared.gone().await;
        match self.shared.end() {
            Some(End::Failed(error)) => Err(error),
            Some(End::Closed) | None => Ok(()),
        }
    }

    /// Why the connection failed, if it did.
    pub fn error(&self) -> Option<Arc<Error>> {
        match self.shared.end() {
            Some(End::Failed(error)) => Some(error),
            Some(End::Closed) | None => None,
        }
    }

    /// Asks the peer for a sign of life on each path; [`unheard_for`](Self::unheard_for) tells when it has
    /// come.
    pub fn ask(&self) {
        self.shared.ask();
    }

    /// How long nothing has come from the peer, on any path.
    pub fn unheard_for(&self) -> Duration {
        self.shared.unheard_for()
    }

    /// Whether it has a subflow at this moment.
    pub(crate) fn has_path(&self) -> bool {
        self.shared.subflow_count() > 0
    }

    /// What all connections of the client send over a path goes through; `None` if it has too many paths.
    pub(crate) fn limiter(&self, path: PathId) -> Option<PathLimiter> {
        self.shared.limiter(path)
    }

    /// The connection's number in this process: 0 is the first. Never used again.
    pub fn number(&self) -> u64 {
        self.shared.number
    }

    /// Says what the connection is used for, in status displays. At most 128 characters are kept.
    pub fn set_label(&self, label: &str) {
        self.about.set_label(label);
    }

    /// What the connection is used for; `None` while it is only kept ready.
    pub fn label(&self) -> Option<Arc<str>> {
        self.about.label()
    }

    /// The connection as it is now.
    pub fn status(&self) -> ConnectionStatus {
        self.shared.status(&self.about)
    }

    /// Records from now on which path carries which part of the stream in both directions, for as long
    /// as what this returns lives.
    pub fn watch_weave(&self) -> WeaveWatch {
        WeaveWatch::begin(&self.shared)
    }
}
