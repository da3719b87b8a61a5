//! The connections that a server has, and had, and who is let in.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use weftline_core::PathId;
use weftline_core::ranges::RangeSet;

use super::unanswered::{HalfOpen, Unanswered};
use crate::handshake::{SessionId, SessionKeys};
use crate::limits::{ClientId, SessionPlace, Source};
use crate::memory::SUBFLOW;
use crate::shared::{End, Shared};
use crate::subflow::Running;
use crate::token::Token;

/// Runs of adjacent subflow numbers that are told apart in a connection. Clients count up, and a
/// join that does not get here leaves a gap.
const MAX_NUMBER_RUNS: usize = 256;
/// Failed connections whose hellos are known when they are said once more.
const MAX_FAILED: usize = 1024;

/// The connections that later subflows may join, and who is let in.
pub(super) struct Tables {
    pub(super) sessions: BTreeMap<SessionId, Session>,
    /// Connections that failed, the last of them: a hello that opened one is not taken for a new
    /// one's, lest what came with it be delivered twice.
    failed: VecDeque<SessionId>,
    /// Whoever has one of these is let in; whoever comes, if there are none.
    pub(super) tokens: Arc<[Token]>,
    /// Those that would make room.
    pub(super) half_open: HalfOpen,
}

impl Tables {
    pub(super) fn new(tokens: Vec<Token>) -> Self {
        let (sessions, failed) = (BTreeMap::new(), VecDeque::new());
        Self { sessions, failed, tokens: tokens.into(), half_open: HalfOpen::default() }
    }

    pub(super) fn open(&mut self, session: Session) {
        self.half_open.opened(|| session.unanswered());
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
        if matches!(shared.end(), Some(End::Failed(_))) {
            self.note_failed(id);
        }
        self.remove(id)
    }

    fn note_failed(&mut self, id: SessionId) {
        self.failed.truncate(MAX_FAILED - 1);
        self.failed.push_front(id);
    }

    /// Whether this was the number of a connection that failed not long ago.
    pub(super) fn has_failed(&self, id: &SessionId) -> bool {
        self.failed.contains(id)
    }

    /// Takes out a connection that makes room. Nothing can come twice of one of which nothing has come:
    /// a flood of such leaves the others known.
    pub(super) fn fail(&mut self, id: SessionId) -> Option<Session> {
        let session = self.remove(id)?;
        if session.shared.received() > 0 {
            self.note_failed(id);
        }
        Some(session)
    }

    /// Whether a client that was let in before would be let in now.
    pub(super) fn admits(&self, client: &ClientId) -> bool {
        match client {
            ClientId::Anybody | ClientId::Certificate(_) => true,
            token @ ClientId::Token(..) => self.tokens.iter().any(|known| known.id() == *token),
        }
    }
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
    /// The newest subflow of each path.
    pub(super) paths: BTreeMap<PathId, Option<Running>>,
}

impl Session {
    /// What it is to those that want its place, unless its client has answered.
    pub(super) fn unanswered(&self) -> Option<(Unanswered, Arc<Shared>)> {
        let (heard_at, memory) = self.shared.unanswered()?;
        // Its first subflow comes to it right after it has been opened.
        let memory = memory + if self.paths.is_empty() { SUBFLOW } else { 0 };
        let (source, client, id) = (self.source, self.client.clone(), self.keys.id);
        Some((Unanswered { source, heard_at, id, client, memory }, Arc::clone(&self.shared)))
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
    fn lost_joins_cost_bounded_memory_and_no_later_join() {
        let mut used = RangeSet::new();
        for number in (0..100_000).step_by(3) {
            assert!(!used.contains(&(number..number + 1)), "{number} is new");
            use_number(&mut used, number);
            assert!(used.contains(&(number..number + 1)) && used.len() <= MAX_NUMBER_RUNS);
        }
    }
}
