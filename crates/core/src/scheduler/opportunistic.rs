//! What the MPTCP 0.9x family does when the send window is full because a slow subflow holds its
//! lowest segment: opportunistic retransmission and penalisation (Raiciu et al., NSDI 2012, §4.2;
//! `mptcp_rcv_buf_optimization` of MPTCP v0.95). The window opens again when that segment arrives.
//!
//! The rule's pick, a fast subflow, sends the segment again if it has not carried it and the slow
//! subflow would be long about it; and the slow one's congestion window is to be halved, so that it
//! takes less of the window the next time. Halving is asked of the driver, if it can do it: with real
//! sockets it cannot.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Penalties;
use super::choice::Choice;
use crate::Instant;
use crate::path::SubflowId;

/// A subflow whose congestion window is no larger than this many segments is slow at any distance.
const SMALL_CWND: u64 = 4;
/// A subflow of more than this many times the other's round-trip time is far.
const FAR: u32 = 4;

#[derive(Debug)]
pub(super) struct Opportunistic {
    /// When each subflow last had another penalised.
    penalised_at: BTreeMap<SubflowId, Instant>,
    penalties: Penalties,
}

impl Opportunistic {
    pub(super) const fn new(penalties: Penalties) -> Self {
        Self { penalised_at: BTreeMap::new(), penalties }
    }

    /// The lowest unacknowledged bytes, if the picked subflow should send them again. The send window
    /// is full.
    pub(super) fn head(&mut self, choice: Choice<'_>, me: usize) -> Option<Range<u64>> {
        let view = choice.view;
        let carries = |index: usize| choice.subflow(index).on().range_at(view.una).is_some();
        let others = (0..view.subflows.len()).filter(|&index| index != me);
        let holders: Vec<_> = others.filter(|&index| carries(index)).collect();
        // While the application has yet to wake for memory that has come free, the segment is sent
        // again to pass the time, without a penalty.
        if view.is_credit_spent() || view.memory_left == Some(0) {
            self.penalise(choice, me, &holders);
        }
        if !is_worthwhile(choice, me, &holders) {
            return None;
        }
        Some(view.clip(view.foreign_head(choice.subflow(me))?, me))
    }

    /// Asks to halve the window of the slower holders, once per round-trip time of the fast one.
    fn penalise(&mut self, choice: Choice<'_>, me: usize, holders: &[usize]) {
        if !self.penalties.is_heard() {
            return;
        }
        let now = choice.view.now;
        let id = choice.subflow(me).id();
        self.penalised_at.retain(|id, _| super::find(choice.view.subflows, *id).is_some());
        if self.penalised_at.get(&id).is_some_and(|at| now.since(*at) < choice.rtt(me)) {
            return;
        }
        for &slow in holders {
            if choice.rtt(me) >= choice.rtt(slow) || choice.subflow(slow).info().timed_out {
                continue;
            }
            self.penalties.ask(choice.subflow(slow).id());
            self.penalised_at.insert(id, now);
        }
    }
}

/// Whether those that carry the lowest segment are so slow that the picked one should send it too. The
/// first that has a small window, or is not far, decides.
fn is_worthwhile(choice: Choice<'_>, me: usize, holders: &[usize]) -> bool {
    for &slow in holders {
        if choice.cwnd(slow) <= SMALL_CWND {
            return true;
        }
        if FAR * choice.rtt(me) >= choice.rtt(slow) {
            return false;
        }
    }
    !holders.is_empty()
}
