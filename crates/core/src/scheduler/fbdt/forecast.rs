//! What is to be expected of a path: when bytes given to it now would have arrived, and whether
//! what it holds has become more than it can deliver in time.

use std::time::Duration;

use super::super::SendView;
use crate::path::SubflowId;
use crate::subflow::Subflow;
use crate::{Bitrate, ByteCount};

/// A path is given no more than it delivers in four of its least round-trip times, and in this
/// time at least: a queue that long keeps it busy, a longer one only makes the bytes in it late.
const QUEUE_TIME: Duration = Duration::from_millis(250);
const QUEUE_ROUNDS: u32 = 4;
/// The share of the memory that bytes sent beside a slow path may fill, in percent; the credit
/// asked for has the same reserve.
const MEMORY_SHARE: u64 = 80;
/// A path has collapsed when what it holds takes it this many times as long as the others would
/// need to carry it once more.
const COLLAPSE: u32 = 2;

/// How long until `bytes` more, given to the subflow now and to no other, have arrived.
///
/// Until the congestion window is full they leave at once. Beyond it they wait for
/// acknowledgements: the window doubles each round trip in slow start, else data leave at the
/// path's rate.
pub(super) fn arrival(view: &SendView<'_>, subflow: &Subflow, bytes: u64) -> Duration {
    let (info, rtt) = (subflow.info(), subflow.present_rtt(view.now));
    let cwnd = info.cwnd.as_u64();
    let waiting = subflow.queued().saturating_add(bytes).saturating_sub(cwnd);
    let one_way = rtt / 2;
    // Without a window nothing is known yet.
    if waiting == 0 || cwnd == 0 {
        return one_way;
    }
    if info.is_in_slow_start() {
        // cwnd × (2 + 4 + … + 2^k) covers what waits.
        let rounds = (waiting.div_ceil(cwnd) + 2).next_power_of_two().ilog2() - 1;
        return one_way + rtt * rounds;
    }
    let rate = match view.rate(subflow) {
        rate if rate == Bitrate::default() => Bitrate::from_transfer(ByteCount::new(cwnd), rtt),
        rate => rate,
    };
    let time = rate.time_for(ByteCount::new(waiting));
    one_way + time.unwrap_or(Duration::MAX / 4)
}

/// How long until a range is there that the subflow was given `age` ago, with `ahead` bytes up to
/// its end that have not been acknowledged: the way, or the queue before it at the path's rate, in
/// slow start at least that of its window. What the round trip takes longer than it can is a queue
/// on the way there.
pub(super) fn left(view: &SendView<'_>, subflow: &Subflow, ahead: u64, age: Duration) -> Duration {
    let (info, rtt) = (subflow.info(), subflow.present_rtt(view.now));
    let back = info.min_rtt / 2;
    let way = rtt.saturating_sub(back + age);
    let mut rate = view.rate(subflow).max(info.delivery_rate);
    if info.is_in_slow_start() && !rtt.is_zero() {
        rate = rate.max(Bitrate::from_transfer(info.cwnd, rtt));
    }
    let queue = rate.time_for(ByteCount::new(ahead));
    way.max(queue.unwrap_or_default().saturating_sub(back))
}

/// Whether `bytes` on `me` would be there before another path alone had delivered everything that
/// waits and is to be expected: only then does the path bring completion forward
/// (docs/schedulers.md, small transfers). A path without an alternative always does.
///
/// An alternative is a path that `takes` new data. One whose oldest bytes are later than usual, and
/// whose queue stands still, may have gone dark, however much its window would hold: while no more
/// is to be expected than waits, it counts as if it went on only when that would be known, as
/// alternative and for itself. With more to come every path has something to do, and late is what a
/// path with losses often is.
pub(super) fn helps(
    me: usize,
    view: &SendView<'_>,
    bytes: u64,
    takes: impl Fn(usize, &Subflow) -> bool,
) -> bool {
    let subflow = &view.subflows[me];
    let backlog = view.unassigned.bytes().saturating_add(view.expected);
    let doubt = |subflow: &Subflow| {
        let judged = subflow.silent_at().map(|at| at.since(view.now));
        let doubtful = view.expected == 0 && subflow.may_be_dark(view.now);
        judged.filter(|_| doubtful).unwrap_or_default()
    };
    let others = view
        .subflows
        .iter()
        .enumerate()
        .filter(|&(index, other)| index != me && other.is_usable() && takes(index, other));
    let best = others.map(|(_, other)| arrival(view, other, backlog) + doubt(other)).min();
    best.is_none_or(|best| arrival(view, subflow, bytes) + doubt(subflow) <= best)
}

/// How long the subflow takes for what it holds at `rate`.
fn drain(subflow: &Subflow, rate: Bitrate) -> Duration {
    let time = rate.time_for(ByteCount::new(subflow.outstanding()));
    if subflow.outstanding() == 0 { Duration::ZERO } else { time.unwrap_or(Duration::MAX / 4) }
}

/// Whether the subflow may hold more than it does.
///
/// The path of the highest rate always may. Another may while what it holds is delivered before
/// the other paths have filled the memory (the receiver's while that is what binds), within
/// `latency` if there is such an aim, and within the time that any path may queue.
pub(super) fn may_hold_more(me: usize, view: &SendView<'_>, latency: Option<Duration>) -> bool {
    let subflow = &view.subflows[me];
    let rate = view.rate(subflow);
    let fastest = view.usable().map(|other| view.rate(other)).max();
    if fastest.is_none_or(|fastest| rate >= fastest) {
        return true;
    }
    let least_rtt = subflow.info().min_rtt;
    let Some(present) = subflow.present_rate(view.now) else { return true };
    // While a loss is repaired nothing comes in order, though the path delivers as before.
    let time = drain(subflow, present.max(subflow.info().delivery_rate)).max(least_rtt);
    let memory = if view.credit_bound { view.credit_window } else { view.max_memory };
    let memory = memory / 100 * MEMORY_SHARE;
    view.total_rate().bytes_in(time).as_u64() <= memory
        && latency.is_none_or(|latency| time <= latency)
        && time <= (least_rtt * QUEUE_ROUNDS).max(QUEUE_TIME)
}

/// The subflows that deliver far less than when they were given what they hold. The others carry
/// that once more and they get nothing new until they have drained.
#[derive(Debug, Default)]
pub(super) struct Collapsed(Vec<SubflowId>);

impl Collapsed {
    pub(super) fn contains(&self, subflow: &Subflow) -> bool {
        self.0.contains(&subflow.id())
    }

    /// Judges every subflow anew. One at least that is usable is left to carry on.
    pub(super) fn judge(&mut self, view: &SendView<'_>) {
        self.0.retain(|&id| {
            let subflow = view.subflows.iter().find(|subflow| subflow.id() == id);
            subflow.is_some_and(|subflow| !has_drained(view, subflow))
        });
        if view.usable().all(|subflow| self.contains(subflow)) {
            self.0.clear();
        }
        for subflow in view.subflows {
            let others = || view.usable().filter(|other| !self.contains(other));
            if !self.contains(subflow) && has_collapsed(view, subflow, others) {
                self.0.push(subflow.id());
            }
        }
    }
}

fn has_drained(view: &SendView<'_>, subflow: &Subflow) -> bool {
    let rate = subflow.present_rate(view.now);
    rate.is_none_or(|rate| drain(subflow, rate) <= (subflow.info().min_rtt * 2).max(QUEUE_TIME / 2))
}

fn has_collapsed<'a, I: Iterator<Item = &'a Subflow>>(
    view: &SendView<'_>,
    subflow: &Subflow,
    able: impl Fn() -> I,
) -> bool {
    let Some(rate) = subflow.present_rate(view.now) else { return false };
    let time = drain(subflow, rate);
    if time <= (subflow.info().min_rtt * QUEUE_ROUNDS).max(QUEUE_TIME) * COLLAPSE {
        return false;
    }
    let others = || able().filter(|other| other.id() != subflow.id());
    let rate: Bitrate = others().map(|other| view.rate(other)).sum();
    let once_more = rate.time_for(ByteCount::new(subflow.outstanding()));
    let nearest = others().map(Subflow::rtt).min();
    let (Some(once_more), Some(nearest)) = (once_more, nearest) else { return false };
    (once_more + nearest) * COLLAPSE < time
}
