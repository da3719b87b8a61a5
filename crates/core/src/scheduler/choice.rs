//! What kernel schedulers have in common: for each segment they pick one of the subflows that have
//! room, or wait. Here such a rule answers the question that our sending asks, which is the other
//! way round: a subflow has room, what may it take?
//!
//! Room is room for a segment in the congestion window (slides, LRF; `mptcp_sched.c` of MPTCP
//! v0.95): cwnd less what is in flight and less what is in the socket unsent. The driver of a
//! simulated endpoint knows it exactly for every subflow. A real socket says it by asking: one that
//! asks has room (`TCP_NOTSENT_LOWAT`), and so has one that asked last and waits for data.
//!
//! Window formulas count segments of [`SEGMENT`] bytes. What a pick is given at once is a chunk,
//! which the driver chooses: a segment in the simulator, more with real sockets, where single
//! segments would cost a system call each.

use std::collections::VecDeque;
use std::time::Duration;

use super::reopen::Reopening;
use super::{Assignment, Scheduler, SendView};
use crate::path::SubflowId;
use crate::subflow::Subflow;

/// Payload bytes of a full segment: 1500 less IP and TCP headers with timestamps.
pub(super) const SEGMENT: u64 = 1448;

/// The subflows as a rule sees them: `me` asks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice<'a> {
    pub(super) view: &'a SendView<'a>,
    pub(super) me: usize,
}

impl<'a> Choice<'a> {
    pub(super) const fn new(view: &'a SendView<'a>, me: usize) -> Self {
        Self { view, me }
    }

    pub(super) fn subflow(&self, index: usize) -> &'a Subflow {
        &self.view.subflows[index]
    }

    /// Every usable subflow, with room or without, but not one whose path has used up its cap: to
    /// wait for that would be to limit all to it.
    pub(super) fn live(self) -> impl Iterator<Item = usize> {
        self.usable().filter(move |&index| index == self.me || !self.subflow(index).is_capped())
    }

    /// Every subflow that is neither silent nor standing by.
    pub(super) fn usable(self) -> impl Iterator<Item = usize> {
        let all = 0..self.view.subflows.len();
        all.filter(move |&index| index == self.me || self.subflow(index).is_usable())
    }

    /// Whether a segment can be given to the live subflow now, `room` being what it has by the
    /// figures.
    fn has_room(&self, index: usize, room: u64) -> bool {
        let subflow = self.subflow(index);
        let told = if subflow.info().exact { room >= SEGMENT } else { subflow.is_idle() };
        index == self.me || (told && subflow.is_usable() && !subflow.is_capped())
    }

    /// Whether the subflow has room for a segment in its congestion window and is not recovering
    /// from a timeout.
    pub(super) fn is_available(&self, index: usize) -> bool {
        let subflow = self.subflow(index);
        index == self.me || (!subflow.info().timed_out && self.has_room(index, subflow.room()))
    }

    /// Whether the subflow has room for a segment in a send memory of `memory` bytes.
    pub(super) fn has_memory(&self, index: usize, memory: u64) -> bool {
        self.has_room(index, memory.saturating_sub(self.subflow(index).queued()))
    }

    /// Every subflow that is available; the one that asks always is.
    pub(super) fn available(self) -> impl Iterator<Item = usize> {
        (0..self.view.subflows.len()).filter(move |&index| self.is_available(index))
    }

    /// Of the available subflows, that of least round-trip time: the rule that most others start
    /// from. The first of equals.
    pub(super) fn lowest_rtt(self) -> usize {
        self.available().min_by_key(|&index| self.rtt(index)).unwrap_or(self.me)
    }

    /// Of all live subflows, that of least round-trip time.
    pub(super) fn fastest(self) -> usize {
        self.live().min_by_key(|&index| self.rtt(index)).unwrap_or(self.me)
    }

    pub(super) fn rtt(&self, index: usize) -> Duration {
        self.subflow(index).rtt()
    }

    /// Congestion window in segments, as the kernel counts it.
    pub(super) fn cwnd(&self, index: usize) -> u64 {
        self.subflow(index).info().cwnd.as_u64() / SEGMENT
    }

    /// Whether the estimated throughput cwnd/srtt (slides, LET) of `a` is larger than that of `b`.
    pub(super) fn is_faster(&self, a: usize, b: usize) -> bool {
        let cwnd = |index| u128::from(self.subflow(index).info().cwnd.as_u64());
        let rtt = |index| self.rtt(index).as_nanos();
        // Cross-multiplied: cwnd below 2^64 bytes, times below 2^64 ns.
        cwnd(a).saturating_mul(rtt(b)) > cwnd(b).saturating_mul(rtt(a))
    }
}

/// Which subflow the next segment goes on.
pub(super) trait Rule: Send + std::fmt::Debug {
    /// The subflow for the next segment; there is one to send. It may have no room: then the
    /// others wait for it. The subflow that asks is always available, so there is an answer.
    fn pick(&mut self, choice: Choice<'_>) -> usize;

    /// Notes that `bytes` of new data were given to the subflow `id`. Returns whether it has had
    /// its turn, so that others that wait should ask.
    fn sent(&mut self, id: SubflowId, bytes: u64) -> bool {
        let _ = (id, bytes);
        false
    }

    /// Notes that the send window was found full, or that bytes had to be sent again.
    fn blocked(&mut self) {}
}

/// A rule made a scheduler: a subflow that asks gets the lowest unsent bytes if it is the one that
/// the rule picks. What a silent subflow holds goes to whoever asks first.
#[derive(Debug)]
pub(super) struct Picking<R> {
    rule: R,
    reopening: Option<Reopening>,
    wakes: VecDeque<SubflowId>,
}

impl<R: Rule> Picking<R> {
    /// The rule alone.
    pub(super) const fn new(rule: R) -> Self {
        Self { rule, reopening: None, wakes: VecDeque::new() }
    }

    /// The rule with the 0.9x family's means against a full send window.
    pub(super) const fn reopening(rule: R) -> Self {
        Self { rule, reopening: Some(Reopening::new()), wakes: VecDeque::new() }
    }

    /// Whether the rule picks the one that asks; if not, the picked one should ask.
    fn is_picked(&mut self, choice: Choice<'_>) -> bool {
        let picked = self.rule.pick(choice);
        if picked != choice.me {
            self.wakes.push_back(choice.subflow(picked).id());
        }
        picked == choice.me
    }
}

impl<R: Rule> Scheduler for Picking<R> {
    fn next(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Assignment> {
        self.wakes.clear();
        let choice = Choice::new(view, me);
        let subflow = choice.subflow(me);
        if let Some(range) = view.silent_range(subflow, budget) {
            self.rule.blocked();
            return Some(Assignment::reinjection(range));
        }
        if let Some(next) = next_unsent(view, view.chunk(subflow, budget)) {
            if !self.is_picked(choice) {
                return None;
            }
            if self.rule.sent(subflow.id(), next.range.end - next.range.start) {
                let others = choice.live().filter(|&index| index != me);
                self.wakes.extend(others.map(|index| choice.subflow(index).id()));
            }
            return Some(next);
        }
        if self.reopening.is_none() || !view.is_blocked() || !self.is_picked(choice) {
            return None;
        }
        self.rule.blocked();
        let range = self.reopening.as_mut()?.head(choice, budget)?;
        Some(Assignment::copy(range))
    }

    fn poll_wake(&mut self) -> Option<SubflowId> {
        self.wakes.pop_front()
    }

    fn poll_penalty(&mut self) -> Option<SubflowId> {
        self.reopening.as_mut()?.poll_penalty()
    }
}

/// The lowest unassigned bytes, at most `chunk` of them.
pub(super) fn next_unsent(view: &SendView<'_>, chunk: u64) -> Option<Assignment> {
    let range = view.unassigned.first_in(&(view.una..view.limit))?;
    let end = range.end.min(range.start + chunk);
    Some(Assignment::new(range.start..end))
}
