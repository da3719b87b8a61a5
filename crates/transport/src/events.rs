//! What happens to the paths of a connection, told as it happens.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Something that happened to a path.
#[derive(Clone, Debug)]
pub struct PathEvent {
    /// When, counted from the first use of this library in the process.
    pub at: Duration,
    /// The client's number of the path.
    pub path: u64,
    /// The client's name of the path.
    pub name: Arc<str>,
    /// What.
    pub kind: PathEventKind,
}

/// What can happen to a path.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PathEventKind {
    /// An attempt to bring it up failed; another follows (client only).
    AttemptFailed {
        /// Why.
        reason: String,
    },
    /// Its subflow is gone; what only it carried goes to the other paths.
    Down {
        /// The subflow.
        subflow: u64,
        /// Why.
        reason: String,
    },
    /// Bytes that another path had were given to its subflow.
    Reinjected {
        /// The subflow.
        subflow: u64,
        /// The first of them in the stream.
        offset: u64,
        /// How many.
        bytes: u64,
        /// Whether the other path was still delivering them: a redundant copy.
        redundant: bool,
    },
    /// Its stalled subflow makes progress again.
    Recovered {
        /// The subflow.
        subflow: u64,
    },
    /// Its subflow has data outstanding and makes no progress; the others carry its data too.
    Stalled {
        /// The subflow.
        subflow: u64,
    },
    /// Its subflow counts as potentially failed: fresh TCP connections are tried beside it,
    /// and the first to answer takes its place (client only).
    PotentiallyFailed {
        /// The subflow.
        subflow: u64,
    },
    /// It has a new subflow.
    Up {
        /// The subflow.
        subflow: u64,
        /// This side's address.
        local: SocketAddr,
        /// The other side's address.
        peer: SocketAddr,
    },
}

impl fmt::Display for PathEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path {}: ", self.name)?;
        match &self.kind {
            PathEventKind::AttemptFailed { reason } => write!(f, "cannot come up: {reason}"),
            PathEventKind::Down { subflow, reason } => {
                write!(f, "subflow {subflow} down: {reason}")
            }
            PathEventKind::Reinjected { subflow, offset, bytes, redundant } => {
                let what = if *redundant { "a copy of" } else { "again" };
                write!(f, "subflow {subflow} sends {what} {bytes} bytes at {offset}")
            }
            PathEventKind::Recovered { subflow } => write!(f, "subflow {subflow} recovered"),
            PathEventKind::Stalled { subflow } => write!(f, "subflow {subflow} silent"),
            PathEventKind::PotentiallyFailed { subflow } => {
                write!(f, "subflow {subflow} stalled, a fresh connection is tried beside it")
            }
            PathEventKind::Up { subflow, local, peer } => {
                write!(f, "subflow {subflow} up, {local} to {peer}")
            }
        }
    }
}
