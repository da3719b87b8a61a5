//! A connection attempt that is to bring a subflow up.

use std::time::Duration;

use crate::{Instant, SubflowId};

/// What the handshake of a fresh connection on a dark path, and a hello for which other paths wait,
/// may take at least, and in round-trip times, before the path counts as dark.
const HANDSHAKE_MIN: Duration = Duration::from_secs(1);
const HANDSHAKE_RTTS: u32 = 10;

/// The number of a connection attempt that is to bring a subflow up, from the dial on; never
/// reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectingId(pub u64);

/// Why a connection attempt has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The path may be down, or the server.
    Temporary,
    /// The server has answered and refused this attempt; a later one may be taken.
    Busy,
    /// No further attempt will do better.
    Permanent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The TCP connection is asked for.
    Dialing,
    /// It stands, and waits for its turn on a path that is dark.
    Connected,
    /// It is being secured.
    Securing,
    /// It is secured, and waits until it may say hello or join.
    Waiting,
    /// It has said hello or join.
    HelloSent,
}

/// A connection attempt under way.
#[derive(Clone, Debug)]
pub(super) struct Connecting {
    pub(super) id: ConnectingId,
    pub(super) stage: Stage,
    /// What each step may take.
    pub(super) limit: Duration,
    deadline: Option<Instant>,
    /// What TCP's handshake took.
    rtt: Duration,
    /// The subflow that it is to be, once it has said so.
    pub(super) subflow: Option<SubflowId>,
}

impl Connecting {
    /// One whose dial may take `limit`.
    pub(super) fn new(id: ConnectingId, limit: Option<Duration>, now: Instant) -> Self {
        let deadline = limit.map(|limit| now + limit);
        let (limit, rtt) = (limit.unwrap_or_default(), Duration::ZERO);
        Self { id, stage: Stage::Dialing, limit, deadline, rtt, subflow: None }
    }

    /// Its TCP connection stands.
    pub(super) const fn connected(&mut self, rtt: Duration) {
        (self.stage, self.rtt, self.deadline) = (Stage::Connected, rtt, None);
    }

    /// Begins a stage that may take `limit`.
    pub(super) fn enter(&mut self, stage: Stage, limit: Duration, now: Instant) {
        (self.stage, self.limit, self.deadline) = (stage, limit, Some(now + limit));
    }

    /// What it has begun may take no longer than on a dark path, from now on.
    pub(super) fn hasten(&mut self, most: Duration, now: Instant) {
        if self.is_entering() {
            self.limit = self.limit.min(self.quick(most));
            self.deadline = self.deadline.map(|deadline| deadline.min(now + self.limit));
        }
    }

    /// Waits for others.
    pub(super) const fn wait(&mut self) {
        (self.stage, self.deadline) = (Stage::Waiting, None);
    }

    /// How long a handshake may take on a path that may be dark.
    pub(super) fn quick(&self, most: Duration) -> Duration {
        self.rtt.saturating_mul(HANDSHAKE_RTTS).max(HANDSHAKE_MIN).min(most)
    }

    /// Whether it is past its TCP connection.
    pub(super) fn is_entering(&self) -> bool {
        matches!(self.stage, Stage::Securing | Stage::Waiting | Stage::HelloSent)
    }

    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Its number, if its time has run out.
    pub(super) fn late(&self, now: Instant) -> Option<ConnectingId> {
        self.deadline.is_some_and(|deadline| deadline <= now).then_some(self.id)
    }
}
