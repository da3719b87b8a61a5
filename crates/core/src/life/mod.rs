//! How a connection lives and ends: what it means to be without a subflow, to have a peer that does
//! not answer or an application that has left, and how long it may drain.
//!
//! Sans-IO, beside the [`Session`] that carries the bytes. The driver tells what happens to its
//! subflows and passes on the session's [`Event`]s; it drains [`Life::poll_ending`] and calls
//! [`Life::handle_timeout`] when [`Life::poll_timeout`] says.
//!
//! ```text
//!  Opening ── accepted ──▶ Open ── closed, failed ──▶ Over ── every subflow has ──▶ Gone
//!     └───────────────── failed ───────────────────────▲      drained and is gone
//! ```

use std::fmt;
use std::time::Duration;

use crate::Instant;
use crate::session::{Event, RESET_ABANDONED, Session, SessionConfig};

/// How long a connection that the application has let go of may take to deliver the rest, and one that is
/// closed to drain.
const LINGER_TIME: Duration = Duration::from_secs(30);
/// How long a subflow on which everything has been said waits for the peer to close it, too, so that
/// what was said last is not destroyed by a reset: at most, and at least.
const CLOSE_TIME: Duration = Duration::from_secs(5);
const CLOSE_LEAST: Duration = Duration::from_secs(1);
/// The same after a failure, when only the reason of the reset is at stake.
const RESET_TIME: Duration = Duration::from_secs(2);
/// On how many subflows, one after another, a closed end drains at least while the peer, which may
/// be without any, still waits for the last acknowledgement.
const DRAIN_SUBFLOWS: u32 = 3;

/// How far a connection's life has come. It only goes forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The server has not accepted it yet.
    Opening,
    /// It carries bytes, or waits for a subflow to do so.
    Open,
    /// It has ended; its subflows drain.
    Over,
    /// Nothing is left of it.
    Gone,
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both directions were finished and acknowledged.
    Closed,
    /// It failed, so that bytes may be lost.
    Failed(Cause),
}

/// Why a connection failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It was without a subflow for too long.
    NoPath {
        /// How long it waited for one.
        after: Duration,
        /// Bytes of this side's stream that the peer has acknowledged in order.
        delivered: u64,
        /// Bytes of the peer's stream received in order.
        received: u64,
    },
    /// The peer said nothing for too long, though it was asked.
    PeerLost {
        /// How long.
        after: Duration,
        /// As in `NoPath`.
        delivered: u64,
        /// As in `NoPath`.
        received: u64,
    },
    /// The peer reset it, with a code and its reason.
    Reset(u64, String),
    /// The application let go of it before it had finished.
    Dropped,
    /// The application let go of it, and the peer goes on sending, or does not take what is left.
    Unread,
    /// The driver said so, and knows why: [`Life::fail`], [`Life::broken`].
    Told,
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPath { after, delivered, received } => write!(
                f,
                "no path to the peer for {after:?}: {delivered} bytes sent were acknowledged in \
                 order, {received} bytes received"
            ),
            Self::PeerLost { after, delivered, received } => write!(
                f,
                "the peer has not answered for {after:?}: {delivered} bytes sent were acknowledged \
                 in order, {received} bytes received"
            ),
            Self::Reset(code, reason) => write!(f, "reset by the peer ({code}): {reason}"),
            Self::Dropped => f.write_str("the application dropped the connection"),
            Self::Unread => f.write_str("the application does not read any more"),
            Self::Told => f.write_str("the connection was ended"),
        }
    }
}

/// The application has let go of a connection whose sending direction is finished.
#[derive(Clone, Copy, Debug)]
struct Left {
    at: Instant,
    /// Whether the peer has sent something since that nobody will read.
    is_unheard: bool,
}

/// How far it has come, whatever subflows it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Open,
    Closed {
        /// Whether, without a subflow, it waits for another one: the peer may not know yet that
        /// everything has arrived here.
        drains: bool,
    },
    Failed {
        was_open: bool,
    },
}

/// See the [module](self).
#[derive(Debug)]
pub struct Life {
    grace: Duration,
    peer_timeout: Duration,
    stage: Stage,
    subflows: usize,
    /// Since when an open connection has been without a subflow. Of one that is closed: when it was so
    /// first, or when those that it had must have gone; however many it gets then, it drains no
    /// longer.
    dark_since: Option<Instant>,
    left: Option<Left>,
    /// Whether the peer knows that it is over: it closed a subflow after everything had been said,
    /// or has forgotten the connection.
    is_answered: bool,
    ending: Option<Ending>,
}

impl Life {
    /// Of a connection that the server has not accepted yet. Open, it may be without a subflow for
    /// `grace`.
    pub fn new(config: &SessionConfig, grace: Duration) -> Self {
        Self {
            grace,
            peer_timeout: config.peer_timeout.unwrap_or_default(),
            stage: Stage::Opening,
            subflows: 0,
            dark_since: None,
            left: None,
            is_answered: false,
            ending: None,
        }
    }

    // ---- what the driver asks ----

    /// How far it has come.
    pub const fn phase(&self) -> Phase {
        match self.stage {
            Stage::Opening => Phase::Opening,
            Stage::Open => Phase::Open,
            _ if self.subflows > 0 || self.drains() => Phase::Over,
            _ => Phase::Gone,
        }
    }

    /// Whether it has ended.
    pub const fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Closed { .. } | Stage::Failed { .. })
    }

    /// Whether the server had accepted it before it ended.
    pub const fn was_open(&self) -> bool {
        !matches!(self.stage, Stage::Opening | Stage::Failed { was_open: false })
    }

    /// How long a subflow of a connection that is over, on which everything has been said, waits for
    /// the peer to close it, too. Whatever is on the way may swallow what was said last.
    pub fn close_time(&self) -> Duration {
        if matches!(self.stage, Stage::Failed { .. }) {
            return RESET_TIME;
        }
        let timeout = Some(self.peer_timeout).filter(|timeout| !timeout.is_zero());
        let waits = self.grace.min(timeout.unwrap_or(self.grace));
        (waits / DRAIN_SUBFLOWS).clamp(CLOSE_LEAST, CLOSE_TIME)
    }

    /// Whether a new subflow would be of use. One that has closed while its last subflow was lost
    /// takes another to say its last acknowledgement.
    pub const fn wants_subflow(&self) -> bool {
        !self.is_over() || (self.subflows == 0 && self.drains())
    }

    /// Whether a subflow that the peer brings is taken. One that has closed takes it beside those
    /// it has: the peer may have lost these, and need not have said so.
    pub const fn takes_subflow(&self) -> bool {
        !self.is_over() || self.drains()
    }

    /// How it has ended; told once.
    pub const fn poll_ending(&mut self) -> Option<Ending> {
        self.ending.take()
    }

    /// How long it may be without a subflow: closed, no longer than what is said last may take.
    fn patience(&self) -> Duration {
        if self.is_over() { self.grace.min(LINGER_TIME) } else { self.grace }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), at the latest. It stands beside the
    /// session's own, which counts until the connection is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let dark = self.dark_since.map(|since| since + self.patience());
        if self.is_over() {
            return dark.filter(|_| self.drains());
        }
        let left = self.left.map(|left| left.at + LINGER_TIME);
        dark.into_iter().chain(left).min()
    }

    // ---- what happens to it ----

    /// The server has accepted it. Returns whether that is news.
    pub fn accepted(&mut self, now: Instant) -> bool {
        if self.stage != Stage::Opening {
            return false;
        }
        self.stage = Stage::Open;
        if self.subflows == 0 {
            self.dark_since = Some(now);
        }
        true
    }

    /// It has one more subflow.
    pub const fn subflow_up(&mut self) {
        self.subflows += 1;
        if !self.is_over() {
            self.dark_since = None;
        }
    }

    /// One of its subflows is gone; `answered` if that was after everything had been said on it,
    /// and the peer closed it as well.
    pub fn subflow_down(&mut self, answered: bool, now: Instant) {
        if answered {
            self.forgotten();
        }
        self.subflows = self.subflows.saturating_sub(1);
        if self.subflows == 0 && self.was_open() {
            self.dark_since = Some(self.dark_since.map_or(now, |since| since.min(now)));
        }
    }

    /// The peer does not know the connection any more: it need not be told anything.
    pub const fn forgotten(&mut self) {
        self.is_answered = true;
        self.stop_draining();
    }

    /// The application lets go of it. What it has finished is delivered in the background; what it
    /// has not finished is reset.
    pub fn leave(&mut self, session: &mut Session, now: Instant) {
        if self.is_over() {
        } else if session.is_finished() {
            self.left = Some(Left { at: now, is_unheard: false });
        } else {
            self.end(Cause::Dropped, session, now);
        }
    }

    /// Ends it for a reason of the driver's, with what the peer is told of it. Returns whether it
    /// was not over yet.
    pub fn fail(&mut self, code: u64, reason: &str, session: &mut Session, now: Instant) -> bool {
        let news = !self.is_over();
        if news {
            session.reset(code, reason, now);
            self.note(Ending::Failed(Cause::Told));
        }
        news
    }

    /// The session has ended it, and has told the peer: what came broke the protocol.
    pub fn broken(&mut self) {
        if !self.is_over() {
            self.note(Ending::Failed(Cause::Told));
        }
    }

    /// Takes from the session's events what ends the connection.
    pub fn handle_event(&mut self, event: &Event, session: &mut Session, now: Instant) {
        if self.is_over() {
            return;
        }
        match event {
            Event::Closed => {
                self.note(Ending::Closed);
                self.dark_since = Some(now + self.close_time());
            }
            Event::Reset(code, reason) => {
                self.note(Ending::Failed(Cause::Reset(*code, reason.clone())));
            }
            Event::PeerLost => {
                let stats = session.stats();
                let (delivered, received) = (stats.acknowledged, stats.delivered);
                let after = self.peer_timeout;
                self.end(Cause::PeerLost { after, delivered, received }, session, now);
            }
            _ => {}
        }
    }

    /// To be called whenever something has happened to the session: nobody reads any more once the
    /// application has left, but the peer's data must not hold up what is left to deliver.
    pub fn handle_progress(&mut self, session: &mut Session, now: Instant) {
        let Some(mut left) = self.left.filter(|_| !self.is_over()) else { return };
        left.is_unheard |= discard_input(session, now);
        self.left = Some(left);
        // As TCP does: who sends to one that has closed is told so, who does not may close in peace.
        if left.is_unheard && session.is_delivered() {
            self.end(Cause::Unread, session, now);
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, session: &mut Session, now: Instant) {
        let is_given_up = self.dark_since.is_some_and(|since| since + self.patience() <= now);
        if self.is_over() {
            if is_given_up {
                self.stop_draining();
            }
        } else if is_given_up {
            let stats = session.stats();
            let (delivered, received) = (stats.acknowledged, stats.delivered);
            self.end(Cause::NoPath { after: self.grace, delivered, received }, session, now);
        } else if self.left.is_some_and(|left| left.at + LINGER_TIME <= now) {
            self.end(Cause::Unread, session, now);
        }
    }

    // ---- inside ----

    /// The connection fails; the peer is told.
    fn end(&mut self, cause: Cause, session: &mut Session, now: Instant) {
        session.reset(RESET_ABANDONED, &cause.to_string(), now);
        self.note(Ending::Failed(cause));
    }

    fn note(&mut self, ending: Ending) {
        self.stage = match ending {
            Ending::Closed => Stage::Closed { drains: !self.is_answered },
            Ending::Failed(_) => Stage::Failed { was_open: self.was_open() },
        };
        self.ending = Some(ending);
    }

    const fn drains(&self) -> bool {
        matches!(self.stage, Stage::Closed { drains: true })
    }

    const fn stop_draining(&mut self) {
        if let Stage::Closed { drains } = &mut self.stage {
            *drains = false;
        }
    }
}

/// Throws away what the peer has sent. Returns whether there was anything.
fn discard_input(session: &mut Session, now: Instant) -> bool {
    let mut any = false;
    while session.poll_message(now).is_some() {
        any = true;
    }
    loop {
        let len = session.read_chunk().len();
        if len == 0 {
            return any;
        }
        any = true;
        session.consume(len, now).expect("that much was there");
    }
}

#[cfg(test)]
mod tests;
