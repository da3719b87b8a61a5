//! `round-robin`: the subflows with room take turns (`mptcp_rr.c` of MPTCP v0.95 with
//! `num_segments` 1 and `cwnd_limited` set: one segment each, and a subflow without room loses its
//! turn). With real sockets a turn is a chunk.

use super::Entry;
use super::choice::Choice;
use super::picking::{Picking, Rule};
use crate::path::SubflowId;

pub(super) const ENTRY: Entry =
    Entry::new("round-robin", "the subflows that have room take turns", |config| {
        Box::new(Picking::opportunistic(RoundRobin { last: None }, config))
    })
    .by_segment();

#[derive(Debug)]
struct RoundRobin {
    /// Whose turn was last. Numbers grow, so that a subflow that is gone still has a place.
    last: Option<SubflowId>,
}

impl Rule for RoundRobin {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        let id = |index: &usize| choice.subflow(*index).id();
        let after = |index: &usize| self.last.is_none_or(|last| id(index) > last);
        let next = choice.available().filter(after).min_by_key(id);
        next.or_else(|| choice.available().min_by_key(id))
    }

    fn sent(&mut self, id: SubflowId, _bytes: u64) {
        self.last = Some(id);
    }
}
