//! FBDT as printed (FBDT §3.2): one window at a time. When the two directions have met and one of
//! them has all its bytes acknowledged, it waits one round-trip time of the other path, sends
//! what the other has outstanding, and the next window is loaded.

use std::ops::Range;

use super::super::{Assignment, Rule, RulesOff, Scheduler, SchedulerConfig, SendView, find};
use super::direction::Direction;
use super::{End, PAPER_WINDOW};
use crate::Instant;
use crate::path::{PathId, SubflowId};
use crate::subflow::Subflow;

/// What has been looked at of a window for one subflow.
#[derive(Debug)]
struct Looked {
    id: SubflowId,
    /// Below this offset all that it alone carries is acknowledged.
    acked: u64,
    /// Outside of these nothing is left that it could send again.
    foreign: Range<u64>,
}

impl Looked {
    const fn of(id: SubflowId, window: &Range<u64>) -> Self {
        Self { id, acked: window.start, foreign: window.start..window.end }
    }
}

/// The rules that can be switched off.
pub(super) const RULES: &[Rule] = &[Rule::WaitAcks, Rule::WaitRoundTrip, Rule::SendAgain];

#[derive(Debug)]
pub(super) struct Strict {
    size: u64,
    direction: Direction,
    window: Range<u64>,
    /// Subflows that have finished their part of the window, and since when.
    finished: Vec<(SubflowId, Instant)>,
    /// What has been looked at for each of the subflows: not again for each range, however many holes a
    /// peer makes. What two carried may be one's alone when the other is gone: then all is looked at.
    looked: Vec<Looked>,
    without: RulesOff,
}

impl Strict {
    pub(super) fn new(config: &SchedulerConfig) -> Self {
        Self {
            size: config.fixed_window().unwrap_or(PAPER_WINDOW),
            direction: Direction::new(config),
            window: 0..0,
            finished: Vec::new(),
            looked: Vec::new(),
            without: config.without,
        }
    }

    fn load_window(&mut self, view: &SendView<'_>) {
        // Offsets that were given up before they were sent are passed over.
        let ahead = self.window.end.max(view.una)..view.limit;
        let Some(Range { start, .. }) = view.unassigned.first_in(&ahead) else { return };
        self.window = start..view.limit.min(start + self.size);
        self.direction.choose(view);
        self.finished.clear();
        let window = self.window.clone();
        self.looked.iter_mut().for_each(|one| *one = Looked::of(one.id, &window));
    }

    /// The unassigned bytes of the window next to the path's pointer.
    fn take_gap(&self, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        let part = view.una..self.window.end.min(view.limit);
        self.end(me, view).take(&part, me, view)
    }

    fn end(&self, me: usize, view: &SendView<'_>) -> End {
        End::of(view.subflows[me].path(), self.direction.forward())
    }

    /// The other paths' unacknowledged bytes, from the meeting point outwards.
    fn redundant(&mut self, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        let chunk = view.chunk(me);
        let end = self.end(me, view);
        let open = &mut self.looked[me].foreign;
        match end {
            End::Low => {
                let found = view.lowest_foreign(subflow, open);
                open.start = found.as_ref().map_or(open.end, |range| range.start);
                found.map(|range| range.start..range.end.min(range.start + chunk))
            }
            End::High => {
                let found = view.highest_foreign(subflow, open);
                open.end = found.as_ref().map_or(open.start, |range| range.end);
                found.map(|range| range.start.max(range.end.saturating_sub(chunk))..range.end)
            }
        }
    }

    /// Whether something of the window that `me` alone carries is not acknowledged.
    fn waits_for_acks(&mut self, me: usize, view: &SendView<'_>) -> bool {
        let acked = &mut self.looked[me].acked;
        let open = view.own_unacked(&view.subflows[me], &(*acked..self.window.end));
        *acked = open.unwrap_or(self.window.end);
        open.is_some()
    }

    /// When `me`, which has finished its part, has waited for the other path; notes the time.
    fn may_repeat_at(&mut self, me: usize, view: &SendView<'_>) -> Option<Instant> {
        let subflow = &view.subflows[me];
        if self.without.keeps(Rule::WaitAcks) && self.waits_for_acks(me, view) {
            return None;
        }
        let since = match self.finished.iter().find(|(id, _)| *id == subflow.id()) {
            Some(&(_, since)) => since,
            None => {
                self.finished.push((subflow.id(), view.now));
                view.now
            }
        };
        if !self.without.keeps(Rule::WaitRoundTrip) {
            return Some(since);
        }
        let others = view.subflows.iter().filter(|other| other.id() != subflow.id());
        Some(since + others.map(|other| other.rtt()).max()?)
    }

    /// What `me` sends next.
    fn next(&mut self, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        if let Some(range) = self.take_gap(me, view) {
            return Some(range);
        }
        if self.window.end > view.una {
            if self.may_repeat_at(me, view)? > view.now {
                return None;
            }
            if self.without.keeps(Rule::SendAgain)
                && let Some(range) = self.redundant(me, view)
            {
                return Some(range);
            }
            // Everything outstanding is on both paths or acknowledged.
        }
        self.load_window(view);
        self.take_gap(me, view)
    }
}

impl Scheduler for Strict {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let ids = || view.subflows.iter().map(Subflow::id);
        if !ids().eq(self.looked.iter().map(|one| one.id)) {
            self.looked = ids().map(|id| Looked::of(id, &self.window)).collect();
        }
        let mut all = view.with_room();
        all.find_map(|subflow| Some(Assignment { subflow, range: self.next(subflow, view)? }))
    }

    fn forward(&self) -> Option<PathId> {
        self.direction.forward()
    }

    fn window(&self) -> Option<u64> {
        Some(self.size)
    }

    fn window_at(&self) -> Option<Range<u64>> {
        Some(self.window.clone())
    }

    fn next_timeout(&self, view: &SendView<'_>) -> Option<Instant> {
        self.finished
            .iter()
            .filter_map(|&(id, since)| {
                let me = find(view.subflows, id)?;
                let others = view.subflows.iter().enumerate().filter(|(index, _)| *index != me);
                Some(since + others.map(|(_, other)| other.rtt()).max()?)
            })
            .filter(|&at| at > view.now)
            .min()
    }
}
