//! What kernel schedulers have in common: for each segment they pick one of the subflows that have
//! room, or wait for one that has none.
//!
//! Room is room for a segment in the congestion window (slides, LRF; `mptcp_sched.c` of MPTCP
//! v0.95): cwnd less what is in flight and less what is in the socket unsent. The driver of a
//! simulated endpoint gives it as that, for every subflow. A real socket says it by being writable
//! (`TCP_NOTSENT_LOWAT`).
//!
//! Window formulas count segments of `SEGMENT` bytes. What a pick is given at once is a chunk,
//! which the driver chooses: a segment in the simulator, more with real sockets, where single
//! segments would cost a system call each.

use std::time::Duration;

use super::SendView;
pub(super) use crate::subflow::SEGMENT;
use crate::subflow::Subflow;

/// The subflows as a rule sees them.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// Everything that schedulers see.
    pub view: &'a SendView<'a>,
    /// Whether every usable subflow recovers from a timeout.
    all_timed_out: bool,
}

impl<'a> Choice<'a> {
    /// The subflows of a view.
    pub fn new(view: &'a SendView<'a>) -> Self {
        Self { view, all_timed_out: view.usable().all(|subflow| subflow.info().timed_out) }
    }

    /// The subflow with that index.
    pub fn subflow(&self, index: usize) -> &'a Subflow {
        &self.view.subflows[index]
    }

    /// Every usable subflow, with room or without, but not one whose path has used up its cap: to
    /// wait for that would be to limit all to it.
    pub fn live(self) -> impl Iterator<Item = usize> {
        self.usable().filter(move |&index| self.has_room(index) || !self.subflow(index).is_capped())
    }

    /// Every subflow that is neither stalled nor standing by.
    pub fn usable(self) -> impl Iterator<Item = usize> {
        (0..self.view.subflows.len()).filter(move |&index| self.subflow(index).is_usable())
    }

    /// Whether the subflow can be given something now.
    pub fn has_room(&self, index: usize) -> bool {
        self.view.room(index) > 0
    }

    /// Whether the subflow has room and is not recovering from a timeout, unless all are.
    pub fn is_available(&self, index: usize) -> bool {
        self.has_room(index) && (self.all_timed_out || !self.subflow(index).info().timed_out)
    }

    /// Every subflow that is available.
    pub fn available(self) -> impl Iterator<Item = usize> {
        (0..self.view.subflows.len()).filter(move |&index| self.is_available(index))
    }

    /// Of the available subflows, that of least round-trip time: the rule that most others start
    /// from. The first of equals.
    pub fn lowest_rtt(self) -> Option<usize> {
        self.available().min_by_key(|&index| self.rtt(index))
    }

    /// Of all live subflows, that of least round-trip time.
    pub fn fastest(self) -> Option<usize> {
        self.live().min_by_key(|&index| self.rtt(index))
    }

    /// Its smoothed round-trip time; an assumption before the first measurement.
    pub fn rtt(&self, index: usize) -> Duration {
        self.subflow(index).rtt()
    }

    /// Congestion window in segments, as the kernel counts it.
    pub fn cwnd(&self, index: usize) -> u64 {
        self.subflow(index).info().cwnd.as_u64() / SEGMENT
    }

    /// Whether the estimated throughput cwnd/srtt (slides, LET) of `a` is larger than that of `b`.
    pub fn is_faster(&self, a: usize, b: usize) -> bool {
        let cwnd = |index| u128::from(self.subflow(index).info().cwnd.as_u64());
        let rtt = |index| self.rtt(index).as_nanos();
        // Cross-multiplied: cwnd below 2^64 bytes, times below 2^64 ns.
        cwnd(a).saturating_mul(rtt(b)) > cwnd(b).saturating_mul(rtt(a))
    }
}
