//! What the schedulers of a bond share.
//!
//! Every subflow with room gets new data, unless that would hold up more than it brings: the others
//! would have all that waits there sooner, or would stand still meanwhile. What a stalled subflow
//! holds is reinjected at once. All else that is sent twice is a redundant copy, paid from one
//! [`Budget`]: with new data to send, a copy costs its bytes of goodput and gains only delay.
//! [`earliest`](super::earliest) takes new data from the front, [`fbdt`](super::fbdt) from both
//! ends of a window.

mod budget;
mod deadlines;

use std::ops::Range;
use std::time::Duration;

use self::budget::Budget;
use super::{Assignment, Rule, RulesOff, Scheduler, SchedulerConfig, SendView, estimate, reinject};
use crate::path::{PathId, SubflowId};
use crate::subflow::Subflow;
use crate::{Bitrate, Instant};

/// Of what a subflow carries, so many ranges are looked at for each question, so that a peer that hides
/// what has arrived does not have us walk through all of it.
const LOOKED_AT: usize = 256;

/// Other paths' bytes may wait for a path's as long as it takes them to be as many as it brings in this
/// time: for one with a hundredth of their rate 0.3 s. One with less adds nothing but delay.
const WORTH_WAITING: Duration = Duration::from_secs(30);

/// A path has become slow when what it carries takes so many times its least round trip, and so many
/// times as long as on another path: a full queue makes it five, a radio that is blocked ten and more.
const TIMES_SLOWER: u32 = 8;

/// The rules that can be switched off.
pub(super) const RULES: &[Rule] = &[
    Rule::Reinject,
    Rule::CopyLate,
    Rule::SpareFar,
    Rule::CopyLast,
    Rule::CopySlow,
    Rule::Deadlines,
];

/// Where a subflow's next new bytes are taken from.
pub(super) trait Placement: std::fmt::Debug + Send {
    /// Of what is unassigned of `part`, of which there is something, a chunk for `view.subflows[me]`.
    fn place(&mut self, part: &Range<u64>, me: usize, view: &SendView<'_>) -> Option<Range<u64>>;

    /// The path that sends in the forward direction.
    fn forward(&self) -> Option<PathId> {
        None
    }

    /// The newest window.
    fn window(&self) -> Option<Range<u64>> {
        None
    }
}

/// The scheduler, but for where new data is taken from.
#[derive(Debug)]
pub(super) struct Bond<P> {
    place: P,
    budget: Budget,
    without: RulesOff,
    latency: Option<Duration>,
    /// What has been looked at of a subflow that has become slow, beside so many others: its first so
    /// many bytes.
    looked_at: Option<(SubflowId, usize, u64)>,
}

impl<P: Placement> Bond<P> {
    pub(super) const fn new(config: &SchedulerConfig, place: P) -> Self {
        Self {
            place,
            budget: Budget::new(config.copies_permille),
            without: config.without,
            latency: config.latency,
            looked_at: None,
        }
    }

    /// A copy from the in-order point on, if the byte there is late on its path and would be sooner
    /// there on this one. Nothing further up is copied before that has arrived: it does not block
    /// the application yet, and would take the whole budget.
    fn copy_late(&self, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        let chunk = self.budget.clip(view.chunk(me))?;
        if !self.without.keeps(Rule::CopyLate) {
            return None;
        }
        let (sent_at, holder) = view.latest_holder(subflow, view.una)?;
        let late = view.now.since(sent_at) >= holder.late_after();
        if !late || view.arrival(subflow, chunk) > holder.rtt() {
            return None;
        }
        let head = view.foreign_head(subflow)?;
        Some(head.start..head.end.min(head.start + chunk))
    }

    /// When the byte at the in-order point is on a path that has become slow: the lowest that it
    /// carries alone. This path would have all of it there in a fraction of the time.
    fn copy_slow(&mut self, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        let chunk = self.budget.clip(view.chunk(me))?;
        if !self.without.keeps(Rule::CopySlow) {
            return None;
        }
        let (_, holder) = view.latest_holder(subflow, view.una)?;
        let carried = holder.outstanding();
        // One of which nothing is known has not become anything.
        let least = Some(holder.info().min_rtt).filter(|least| !least.is_zero())?;
        let left = estimate::remaining(view, holder, carried, Duration::ZERO);
        let mine = view.arrival(subflow, carried);
        if left < mine.max(least).saturating_mul(TIMES_SLOWER) {
            return None;
        }
        let alone = |range: Range<u64>| {
            view.lowest_only_on(holder, &range, |other| other.id() != holder.id())
        };
        let count = view.subflows.len();
        let same = |&(slow, beside, _): &_| (slow, beside) == (holder.id(), count);
        let from = self.looked_at.filter(same).map_or(0, |(.., at)| at);
        for (range, end) in holder.in_flight_after(from).take(LOOKED_AT) {
            if let Some(open) = alone(range) {
                return Some(open.start..open.end.min(open.start + chunk));
            }
            // It has come, or another path has it: it need not be looked at for each chunk.
            self.looked_at = Some((holder.id(), count, end));
        }
        None
    }

    /// At the end of all data: of what only one other subflow carries, that which it will deliver last,
    /// if this one has it there sooner. Messages with deadlines have no such end: the next ones come at
    /// their time, and would find the paths full of copies.
    fn copy_last(&self, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        let is_the_end = view.expected == 0 && view.unassigned.is_empty();
        if !self.without.keeps(Rule::CopyLast) || !is_the_end {
            return None;
        }
        let subflow = &view.subflows[me];
        let chunk = self.budget.clip(view.chunk(me))?;
        let mine = view.arrival(subflow, chunk);
        let others = view.subflows.iter().filter(|other| other.id() != subflow.id());
        let last = |other: &Subflow| {
            other.in_flight_from_last().take(LOOKED_AT).find_map(|(range, ahead, at)| {
                let open = view.highest_only_on(other, &range, |third| third.id() != other.id())?;
                let left = estimate::remaining(view, other, ahead, view.now.since(at));
                Some((left, open.start.max(open.end.saturating_sub(chunk))..open.end))
            })
        };
        let (left, range) = others.filter_map(last).max_by_key(|(left, _)| *left)?;
        let is_dated =
            self.without.keeps(Rule::Deadlines) && deadlines::is_dated(range.start, view);
        (left > mine && !is_dated).then_some(range)
    }

    /// Whether `me` gets new data, a chunk: if that would be there before another
    /// subflow alone had delivered everything that waits. With more to come than that, every path
    /// has something to do. Of those that the aim `latency` leaves, the one that would have the
    /// backlog there first always takes: nothing waits for ever.
    fn takes(&self, me: usize, view: &SendView<'_>) -> bool {
        let backlog = view.unassigned.bytes();
        let bytes = view.chunk(me).min(backlog);
        if !self.is_within_aim(me, view, bytes) {
            return false;
        }
        if !self.without.keeps(Rule::SpareFar) {
            return true;
        }
        if view.expected > 0 {
            return !self.would_block(me, view, bytes);
        }
        let others = view.subflows.iter().enumerate().filter(|&(index, other)| {
            index != me && other.is_usable() && self.is_within_aim(index, view, bytes)
        });
        let best = others.map(|(_, other)| view.arrival(other, backlog)).min();
        best.is_none_or(|best| view.arrival(&view.subflows[me], bytes) <= best)
    }

    /// Whether `bytes` on the subflow would take more from the stream than they give: before they are
    /// there, the paths that are sooner there would fill all that may be on its way, and stand still
    /// then, or bring more than is worth waiting with: in slow start nobody knows what the subflow
    /// brings, and it would not get to know if it were given nothing. The soonest never does, so that
    /// bytes do not wait for ever.
    fn would_block(&self, me: usize, view: &SendView<'_>, bytes: u64) -> bool {
        let subflow = &view.subflows[me];
        let mine = view.arrival(subflow, bytes);
        let is_sooner = |&(index, other): &(usize, &Subflow)| {
            index != me
                && other.is_usable()
                && self.is_within_aim(index, view, bytes)
                && (view.arrival(other, bytes), index) < (mine, me)
        };
        let sooner = view.subflows.iter().enumerate().filter(is_sooner);
        let rate: Bitrate = sooner.map(|(_, other)| view.rate(other)).sum();
        let worth = match subflow.is_in_slow_start() {
            true => u64::MAX,
            false => estimate::rate_within_reach(view, subflow).bytes_in(WORTH_WAITING).as_u64(),
        };
        let most = view.memory.min(view.credit_window).min(worth);
        rate.bytes_in(mine).as_u64() > most
    }

    /// Whether `bytes` on the subflow would be there within the aim `latency`, or no other subflow is
    /// as fast.
    fn is_within_aim(&self, index: usize, view: &SendView<'_>, bytes: u64) -> bool {
        let Some(latency) = self.latency else { return true };
        let subflow = &view.subflows[index];
        let fastest = view.usable().map(|other| view.rate(other)).max();
        fastest.is_none_or(|fastest| view.rate(subflow) >= fastest)
            || view.arrival(subflow, bytes) <= latency
    }

    /// Of which bytes `me` takes new ones.
    fn part(&self, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        match self.without.keeps(Rule::Deadlines) && view.messages.is_some() {
            true => deadlines::next_message(me, view),
            false => Some(view.una..view.limit),
        }
    }

    /// What the subflow `me` sends next.
    fn next(&mut self, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        let late = self.copy_late(me, view).or_else(|| self.copy_slow(me, view));
        if late.is_none() && view.next_unsent().is_some() {
            let part = self.part(me, view).filter(|_| self.takes(me, view));
            return part.and_then(|part| self.place.place(&part, me, view));
        }
        let range = late.or_else(|| self.copy_last(me, view))?;
        self.budget.charge(range.end - range.start);
        Some(range)
    }
}

impl<P: Placement> Scheduler for Bond<P> {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        self.budget.refill(view);
        if self.without.keeps(Rule::Reinject)
            && let Some(reinjection) = reinject(view)
        {
            return Some(reinjection);
        }
        let mut all = view.with_room();
        all.find_map(|subflow| Some(Assignment { subflow, range: self.next(subflow, view)? }))
    }

    fn forward(&self) -> Option<PathId> {
        self.place.forward()
    }

    fn window(&self) -> Option<u64> {
        self.place.window().map(|window| window.end - window.start)
    }

    fn window_at(&self) -> Option<Range<u64>> {
        self.place.window()
    }

    fn weighs_round_trips(&self) -> bool {
        self.without.keeps(Rule::SpareFar) || self.latency.is_some()
    }

    fn next_timeout(&self, view: &SendView<'_>) -> Option<Instant> {
        // The byte at the in-order point may become late; all else moves on with acknowledgements.
        let holders = view.subflows.iter();
        let late = holders.filter_map(|s| Some(s.sent_at(view.una)? + s.late_after()));
        late.filter(|at| *at > view.now).min()
    }
}
