//! Connections that make room where a limit is reached or the memory used up, as
//! [`unanswered`](super::unanswered) chooses them.

use std::time::Duration;

use super::State;
use super::sessions::{Session, Tables};
use super::unanswered::{Among, Need};
use crate::clock;
use crate::handshake::SessionId;
use crate::limits::{ClientId, Full, Source};
use crate::memory::SUBFLOW;
use crate::subflow::SubflowEnd;

impl State {
    /// Makes room for a connection of `client` at `source` that takes `memory`, within every limit
    /// that is reached. No other is closed for one that cannot be admitted.
    ///
    /// # Errors
    /// The limit, or the memory, in which there is none to be had.
    pub(super) fn make_room(
        &self,
        source: Source,
        client: &ClientId,
        memory: u64,
    ) -> Result<(), Full> {
        let limits = self.admission.limits();
        let mut full = self.admission.reached(source, client);
        full.push(Full::Memory(self.memory.error()));
        let needs = full.iter().filter_map(|full| match full {
            Full::Sessions => Some(Need::place(source, limits.sessions, Among::All)),
            Full::SourceSessions => {
                Some(Need::place(source, limits.sessions_per_source, Among::Source(source)))
            }
            Full::ClientSessions => {
                Some(Need::place(source, limits.sessions_per_client, Among::Client(client)))
            }
            Full::Memory(_) => Some(Need::memory(source, memory, Among::All, &self.memory)),
            Full::Failures => None,
        });
        let needs: Vec<Need<'_>> = needs.collect();
        self.end_unanswered(&needs).map_err(|at| full.swap_remove(at))
    }

    /// Makes room for one more subflow of a connection that is under way, whose first one came from
    /// `source`, at the cost of others.
    pub(super) fn make_subflow_room(&self, source: Source, id: SessionId) -> bool {
        let need = Need::memory(source, SUBFLOW, Among::Others(id), &self.memory);
        self.end_unanswered(&[need]).is_ok()
    }

    /// Ends as many unanswered connections as it takes to give all that is needed; none if that cannot
    /// be, and then says which of the needs is not met.
    fn end_unanswered(&self, needs: &[Need<'_>]) -> Result<(), usize> {
        let answer_time = self.admission.limits().answer_time;
        let taken = self.tables().take_unanswered(needs, answer_time)?;
        for mut session in taken {
            session.shared.give_way();
            let subflows = session.paths.values_mut().filter_map(|newest| newest.running.as_mut());
            subflows.for_each(|running| running.stop(SubflowEnd::GaveWay));
        }
        Ok(())
    }
}

impl Tables {
    fn take_unanswered(
        &mut self,
        needs: &[Need<'_>],
        answer_time: Duration,
    ) -> Result<Vec<Session>, usize> {
        let now = clock::now();
        if !self.half_open.is_current(now) {
            let unanswered = self.sessions.values().filter_map(|session| session.unanswered(now));
            self.half_open.look(unanswered, now);
        }
        let chosen = self.half_open.choose(needs, answer_time, now)?;
        Ok(chosen.into_iter().filter_map(|id| self.fail(id)).collect())
    }
}
