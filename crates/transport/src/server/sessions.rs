//! The connections that a server has, and had, and the clients that it admits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use weftline_core::ranges::RangeSet;
use weftline_core::{Instant, PathId, SubflowId};

use super::unanswered::{HalfOpen, Unanswered};
use crate::clock;
use crate::handshake::{SessionId, SessionKeys};
use crate::limits::{ClientId, SessionPlace, Source};
use crate::memory::SUBFLOW;
use crate::shared::{End, Shared};
use crate::subflow::Running;
use crate::token::Token;

/// Runs of adjacent subflow numbers that are told apart in a connection. Clients count up, and a
/// join that does not get here leaves a gap.
const MAX_NUMBER_RUNS: usize = 256;
/// Failed connections whose hellos are known when they are said once more, whenever that is.
const MAX_FAILED: usize = 1024;

/// The connections that later subflows may join, and the clients that are admitted.
pub(super) struct Tables {
    pub(super) sessions: BTreeMap<SessionId, Session>,
    /// A hello that opened one of these is not taken for a new one's.
    ended: Ended,
    /// A client that has one of these is admitted; if there are none, every client.
    pub(super) tokens: Arc<[Token]>,
    /// Those that would make room.
    pub(super) half_open: HalfOpen,
}

impl Tables {
    pub(super) fn new(tokens: Vec<Token>, handshake_timeout: Duration) -> Self {
        let (sessions, ended) = (BTreeMap::new(), Ended::new(handshake_timeout));
        Self { sessions, ended, tokens: tokens.into(), half_open: HalfOpen::default() }
    }

    pub(super) fn open(&mut self, session: Session) {
        self.half_open.opened(|now| session.unanswered(now));
        self.sessions.insert(session.keys.id, session);
    }

    /// A connection, if it is still here: one that has its number since then is another.
    pub(super) fn session_of(
        &mut self,
        id: &SessionId,
        shared: &Arc<Shared>,
    ) -> Option<&mut Session> {
        self.sessions.get_mut(id).filter(|session| Arc::ptr_eq(&session.shared, shared))
    }

    fn remove(&mut self, id: SessionId) -> Option<Session> {
        let session = self.sessions.remove(&id)?;
        self.half_open.closed(&session.shared);
        Some(session)
    }

    /// A connection is over, if it is still here: it is closed once, and one that has its number since
    /// then is another.
    pub(super) fn close(&mut self, id: SessionId, shared: &Arc<Shared>) -> Option<Session> {
        self.session_of(&id, shared)?;
        self.ended.note(id, matches!(shared.end(), Some(End::Failed(_))), clock::now());
        self.remove(id)
    }

    /// How a connection of that number ended not long ago, if one did.
    pub(super) fn end_of(&self, id: &SessionId) -> Option<&'static str> {
        self.ended.find(id)
    }

    /// Takes out a connection that makes room. Nothing can come twice of one of which nothing has come:
    /// a flood of such leaves the others known.
    pub(super) fn fail(&mut self, id: SessionId) -> Option<Session> {
        let session = self.remove(id)?;
        if session.shared.received() > 0 {
            self.ended.note(id, true, clock::now());
        }
        Some(session)
    }

    /// Whether a client that was admitted before would be admitted now.
    pub(super) fn admits(&self, client: &ClientId) -> bool {
        match client {
            ClientId::Anybody | ClientId::Certificate(_) => true,
            token @ ClientId::Token(..) => self.tokens.iter().any(|known| known.id() == *token),
        }
    }
}

/// Connections that were, as a hello may be said once more on another subflow and what came with it
/// must not be delivered twice.
///
/// Of one that failed, the client may never have heard: it asks again whenever it can. The client of
/// one that was closed has had its answer, so that only a hello from before it can come, held up on
/// its way; a handshake takes no longer than it may.
struct Ended {
    handshake_timeout: Duration,
    failed: VecDeque<SessionId>,
    closed: BTreeSet<SessionId>,
    /// The same with when they were closed, the oldest first.
    closed_at: VecDeque<(Instant, SessionId)>,
}

impl Ended {
    fn new(handshake_timeout: Duration) -> Self {
        let (failed, closed, closed_at) = (VecDeque::new(), BTreeSet::new(), VecDeque::new());
        Self { handshake_timeout, failed, closed, closed_at }
    }

    fn note(&mut self, id: SessionId, has_failed: bool, now: Instant) {
        if has_failed {
            self.failed.truncate(MAX_FAILED - 1);
            self.failed.push_front(id);
            return;
        }
        self.closed.insert(id);
        self.closed_at.push_back((now, id));
        while let Some(&(at, oldest)) = self.closed_at.front()
            && at + self.handshake_timeout < now
        {
            self.closed_at.pop_front();
            self.closed.remove(&oldest);
        }
    }

    fn find(&self, id: &SessionId) -> Option<&'static str> {
        if self.failed.contains(id) {
            return Some("this connection has failed");
        }
        self.closed.contains(id).then_some("this connection is over")
    }
}

/// The newest subflow of a path.
pub(super) struct Newest {
    pub(super) number: SubflowId,
    /// `None` until it is brought into its connection.
    pub(super) running: Option<Running>,
}

/// A connection that later subflows may join.
pub(super) struct Session {
    pub(super) keys: SessionKeys,
    pub(super) shared: Arc<Shared>,
    pub(super) congestion: String,
    /// What its subflows may be given, by the list that held when it was opened.
    pub(super) allowed_congestion: Option<Arc<[String]>>,
    pub(super) client: ClientId,
    /// Where its first subflow came from.
    pub(super) source: Source,
    /// Joins that were accepted and are not live yet.
    pub(super) joining: usize,
    /// What it counts for, as long as it is here.
    pub(super) _place: SessionPlace,
    /// The numbers of all subflows there have been.
    pub(super) used: RangeSet,
    /// The newest subflow of each path, those that are gone among them.
    pub(super) paths: BTreeMap<PathId, Newest>,
}

impl Session {
    /// Notes a subflow of a path, and returns the path's newest if it is that one.
    pub(super) fn note_newest(&mut self, path: PathId, number: SubflowId) -> Option<&mut Newest> {
        let newest = self.paths.entry(path).or_insert(Newest { number, running: None });
        newest.number = newest.number.max(number);
        (newest.number == number).then_some(newest)
    }

    /// What it is to those that want its place, unless its client answers.
    pub(super) fn unanswered(&self, now: Instant) -> Option<(Unanswered, Arc<Shared>)> {
        let (heard_at, memory) = self.shared.unanswered(now)?;
        // Its first subflow comes to it right after it has been opened.
        let memory = memory + if self.paths.is_empty() { SUBFLOW } else { 0 };
        let (source, client, id) = (self.source, self.client.clone(), self.keys.id);
        let has_answered = self.shared.has_answered();
        let one = Unanswered { source, heard_at, id, client, memory, has_answered };
        Some((one, Arc::clone(&self.shared)))
    }
}

/// Notes that `number` is used. Where there are too many gaps, the lowest counts as used, too: a
/// client that counts up does not come back to it.
pub(super) fn use_number(used: &mut RangeSet, number: u64) {
    used.insert(number..number + 1);
    if used.len() > MAX_NUMBER_RUNS
        && let (Some(lowest), Some(last)) = (used.first(), used.last())
        && let Some(gap) = used.first_missing(&(lowest.start..last.end))
    {
        used.insert(gap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hellos_of_closed_connections_are_known_as_long_as_one_may_come() {
        let at = Instant::from_millis;
        let id = |number: u64| SessionId([number as u8; 16]);
        let mut ended = Ended::new(Duration::from_secs(5));
        ended.note(id(1), false, at(0));
        ended.note(id(2), true, at(0));
        for number in 3..200 {
            ended.note(id(number), false, at(5000));
        }
        assert!((1..200).all(|number| ended.find(&id(number)).is_some()));
        ended.note(id(200), false, at(5001));
        assert_eq!(ended.find(&id(1)), None, "no hello takes so long");
        assert!((2..201).all(|number| ended.find(&id(number)).is_some()));
        ended.note(id(201), false, at(99_000));
        assert_eq!((ended.closed.len(), ended.closed_at.len()), (1, 1));
        assert_eq!(ended.find(&id(2)), Some("this connection has failed"));
    }

    #[test]
    fn lost_joins_cost_bounded_memory_and_no_later_join() {
        let mut used = RangeSet::new();
        for number in (0..100_000).step_by(3) {
            assert!(!used.contains(&(number..number + 1)), "{number} is new");
            use_number(&mut used, number);
            assert!(used.contains(&(number..number + 1)) && used.len() <= MAX_NUMBER_RUNS);
        }
    }
}
