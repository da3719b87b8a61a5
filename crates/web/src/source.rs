//! What a program shows of itself.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weftline_core::Instant;
use weftline_core::session::WeaveRecord;

/// A program that can be looked at.
pub trait Source: Send + Sync + 'static {
    /// The object that `GET /api/1/status` answers with, as JSON: the daemon's state, its
    /// connections and their paths, at most `connections` of them.
    fn status(&self, connections: usize) -> String;

    /// The program now. One task calls it, about twice a second; the calls must not wait for
    /// anything, and what they take is bounded by looking less often.
    fn look(&self) -> Look;

    /// Whether its looks say when they were, on a clock of its own.
    fn has_own_clock(&self) -> bool {
        false
    }

    /// What there is to be seen since the last time, the oldest first: of a program whose clock is its
    /// own, as many moments as have passed on it.
    fn looks(&self) -> Vec<Look> {
        vec![self.look()]
    }

    /// Begins to record which path carries which part of a connection's stream, for as long as what
    /// this returns lives; `None` if there is no such connection, or the program has none.
    fn weave(&self, connection: u64) -> Option<Box<dyn WeaveSource>> {
        let _ = connection;
        None
    }
}

/// A connection whose weave is recorded, for as long as this lives.
pub trait WeaveSource: Send + 'static {
    /// What was recorded so far, as it stands; `None` when the connection is over. What it takes is
    /// bounded by looking less often.
    fn look(&mut self) -> Option<WeaveLook>;
}

/// A connection's weave at one moment.
#[derive(Clone, Debug, Default)]
pub struct WeaveLook {
    /// The time, on the clock of the records.
    pub now: Instant,
    /// Since when it is recorded.
    pub since: Instant,
    /// What is sent.
    pub sent: WeaveRecord,
    /// What is received.
    pub received: WeaveRecord,
    /// The name of each path, by its number.
    pub names: BTreeMap<u64, Arc<str>>,
}

/// A program at one moment.
#[derive(Clone, Debug, Default)]
pub struct Look {
    /// When that was, on the program's own clock, if it has one, such as that of a simulation
    /// ([`Source::has_own_clock`]). It never goes back, and rates are for each second of it.
    pub at: Option<Duration>,
    /// Else how long ago that was: of counters that are not counted for each look.
    pub age: Duration,
    /// What it does: `starting`, `running`, `draining`.
    pub state: String,
    /// Connections that are not over.
    pub open: u32,
    /// Of these, those in use; the others are kept ready.
    pub used: u32,
    /// Its paths, each once.
    pub paths: Vec<PathLook>,
    /// Its connections in use, each once. One that is new is taken to have begun since the last look.
    pub connections: Vec<ConnectionLook>,
    /// What has happened since the last look.
    pub events: Vec<Event>,
}

/// A path, over all connections that have it.
#[derive(Clone, Debug)]
pub struct PathLook {
    /// Its name.
    pub name: Arc<str>,
    /// How it is.
    pub state: PathState,
    /// Payload bytes that the peer has received on it. It never falls.
    pub sent_bytes: u64,
    /// Payload bytes received on it. It never falls.
    pub received_bytes: u64,
    /// Segments that the kernel has sent again on its live subflows, where there are such. It falls when one
    /// ends.
    pub retransmitted_segments: Option<u64>,
    /// The mean smoothed round-trip time of its subflows, in ms.
    pub srtt_ms: Option<f32>,
    /// The mean of what their round-trip times are above their least, in ms: queueing delay.
    pub queueing_ms: Option<f32>,
    /// The sum of their congestion windows, in bytes; `None` without a subflow.
    pub cwnd_bytes: Option<u64>,
}

/// How a path is, over all connections that have it, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// It carries what it is given.
    Up,
    /// Its role keeps data off it.
    Standby,
    /// It has data outstanding and makes no progress.
    Silent,
    /// It has no subflow.
    Down,
    /// No connection has it at present.
    Unused,
}

impl PathState {
    /// That of two which carries more.
    #[must_use]
    pub const fn better(self, other: Self) -> Self {
        if (self as u8) <= (other as u8) { self } else { other }
    }

    /// That of two which carries less, but that of one that is used: of several paths in one, so that
    /// none that is down is hidden by others.
    #[must_use]
    pub(crate) const fn worse(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unused, used) | (used, Self::Unused) => used,
            _ if self as u8 >= other as u8 => self,
            _ => other,
        }
    }

    /// Its name, as in the control socket's answers.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Standby => "standby",
            Self::Silent => "silent",
            Self::Down => "down",
            Self::Unused => "unused",
        }
    }
}

/// A connection in use.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLook {
    /// Its number in the process, never used again.
    pub number: u64,
    /// Stream bytes that the peer has acknowledged in order.
    pub sent_bytes: u64,
    /// Stream bytes received in order.
    pub received_bytes: u64,
}

/// Something that has happened.
#[derive(Clone, Debug)]
pub struct Event {
    /// What, as event files call it, such as `path_down`.
    pub name: &'static str,
    /// How much it matters.
    pub level: EventLevel,
    /// The path that it happened to.
    pub path: Option<Arc<str>>,
    /// What happened, in a sentence without a full stop. What is above 300 characters is cut off.
    pub text: String,
}

/// How much an event matters, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventLevel {
    /// The ordinary course of things.
    Info,
    /// Something went right again.
    Good,
    /// Something carries less than it could.
    Warning,
    /// Something failed.
    Error,
}

impl EventLevel {
    /// Its name on the wire.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Info => "info",
            Self::Good => "good",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}
