//! What is known of a connection from outside.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weftline_core::session::{SessionStats, WeaveRecord};
use weftline_core::{ByteCount, Instant, PathId};

use crate::congestion::CongestionInUse;
use crate::refusal::printable;

/// The longest label, in characters.
const MAX_LABEL: usize = 128;

/// What is known of a connection from outside.
#[derive(Debug)]
pub(crate) struct About {
    peer: SocketAddr,
    client: Option<Arc<str>>,
    label: Mutex<Option<Arc<str>>>,
}

impl About {
    pub(crate) fn new(peer: SocketAddr, client: Option<String>) -> Self {
        Self { peer, client: client.map(Arc::from), label: Mutex::new(None) }
    }

    pub(crate) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(crate) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// At most 128 characters are kept.
    pub(crate) fn set_label(&self, label: &str) {
        let label: String = printable(label).chars().take(MAX_LABEL).collect();
        *self.label.lock().expect("nobody panics with it") = Some(label.into());
    }

    pub(crate) fn label(&self) -> Option<Arc<str>> {
        self.label.lock().expect("nobody panics with it").clone()
    }
}

/// Stretches that are recorded of each direction: a quarter of a megabyte.
pub const WEAVE_STRETCHES: usize = 4096;

/// What a connection has sent and received over which path since somebody looks, as it stands.
#[derive(Clone, Debug)]
pub struct ConnectionWeave {
    /// The time of the look, on the clock of the records.
    pub now: Instant,
    /// Since when it is recorded.
    pub since: Instant,
    /// What is sent.
    pub sent: WeaveRecord,
    /// What is received.
    pub received: WeaveRecord,
    /// The name of each path.
    pub names: BTreeMap<PathId, Arc<str>>,
}

/// A connection as it is now.
#[derive(Clone, Debug)]
pub struct ConnectionStatus {
    /// Its number in this process: 0 is the first. Never used again.
    pub number: u64,
    /// The peer's address on the first subflow.
    pub peer: SocketAddr,
    /// Who the client is (server), as in [`Control::client`](crate::Control::client).
    pub client: Option<Arc<str>>,
    /// What it is used for, as said by [`Control::set_label`](crate::Control::set_label); `None`
    /// while it is only kept ready.
    pub label: Option<Arc<str>>,
    /// The scheduler of this side's direction.
    pub scheduler: &'static str,
    /// How long there has been a connection.
    pub age: Duration,
    /// Memory promised to it: what the peer may send unasked for, what may be held to send, and the
    /// buffers of its subflows.
    pub memory: ByteCount,
    /// Bytes held to send: not acknowledged yet.
    pub send_held: ByteCount,
    /// Its counters.
    pub stats: SessionStats,
    /// The name of each path in them.
    pub names: BTreeMap<PathId, Arc<str>>,
    /// The other end's address on each path that has a subflow.
    pub peers: BTreeMap<PathId, SocketAddr>,
    /// What this end's socket runs on each path that has a subflow.
    pub congestion: BTreeMap<PathId, CongestionInUse>,
}

impl ConnectionStatus {
    /// Stream bytes that the peer has acknowledged in order, and that were received in order.
    pub fn moved(&self) -> u64 {
        self.stats.acknowledged.saturating_add(self.stats.delivered)
    }
}
