//! FBDT as printed (FBDT §3.2): one window at a time. When the two directions have met and one of
//! them has all its bytes acknowledged, it waits one round-trip time of the other path, sends
//! what the other has outstanding, and the next window is loaded.

use std::ops::Range;

use super::super::{Assignment, Scheduler, SchedulerConfig, SendView, find};
use super::direction::Direction;
use super::windows::{End, Windows};
use super::{PAPER_WINDOW, take, worker, workers};
use crate::Instant;
use crate::path::{PathId, SubflowId};

#[derive(Debug)]
pub(super) struct Strict {
    size: u64,
    direction: Direction,
    windows: Windows,
    /// Subflows that have finished their part of the window, and since when.
    finished: Vec<(SubflowId, Instant)>,
}

impl Strict {
    pub(super) fn new(config: &SchedulerConfig) -> Self {
        Self {
            size: config.fixed_window().unwrap_or(PAPER_WINDOW),
            direction: Direction::new(config.forward_pin, config.direction_hold),
            windows: Windows::default(),
            finished: Vec::new(),
        }
    }

    fn load_window(&mut self, view: &SendView<'_>) -> bool {
        // Offsets that were given up before they were sent are passed over.
        let ahead = self.windows.end().max(view.una)..view.limit;
        let Some(Range { start, .. }) = view.unassigned.first_in(&ahead) else { return false };
        let workers = workers(self.direction.choose(view), view, |_, _| true);
        self.windows.open(start..view.limit.min(start + self.size), &workers);
        self.finished.clear();
        true
    }

    /// The unassigned bytes of the window next to the path's pointer.
    fn take_gap(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        let gap = view.unassigned.first_in(&(view.una..self.windows.end().min(view.limit)))?;
        let window = self.windows.at(gap.start)?;
        let chunk = view.chunk(subflow, budget);
        if view.subflows.len() == 1 {
            return Some(gap.start..gap.end.min(gap.start + chunk));
        }
        let crew = || view.usable().map(|other| worker(other, view)).collect();
        let (part, end) = window.claim(worker(subflow, view), crew, view)?;
        take(&part, end, chunk, view)
    }

    /// The other paths' unacknowledged bytes, from the meeting points outwards, lowest gap first.
    fn redundant(&self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        let chunk = view.chunk(subflow, budget);
        self.windows.newest()?.gaps().iter().find_map(|gap| match gap.side(subflow.path()) {
            End::Low => view
                .lowest_foreign(subflow, &gap.range)
                .map(|range| range.start..range.end.min(range.start + chunk)),
            End::High => view
                .highest_foreign(subflow, &gap.range)
                .map(|range| range.start.max(range.end.saturating_sub(chunk))..range.end),
        })
    }

    /// When `me` has finished its part and waited for the other path, notes or returns that time.
    fn may_repeat_at(&mut self, me: usize, view: &SendView<'_>) -> Option<Instant> {
        let subflow = &view.subflows[me];
        let window = self.windows.newest()?;
        if !view.own_acked(subflow, &window.range) {
            return None;
        }
        let since = match self.finished.iter().find(|(id, _)| *id == subflow.id()) {
            Some(&(_, since)) => since,
            None => {
                self.finished.push((subflow.id(), view.now));
                view.now
            }
        };
        let others = view.subflows.iter().filter(|other| other.id() != subflow.id());
        Some(since + others.map(|other| other.rtt()).max()?)
    }
}

impl Scheduler for Strict {
    fn next(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Assignment> {
        self.windows.forget_below(view.una);
        if let Some(range) = self.take_gap(me, view, budget) {
            return Some(Assignment { range, rescue: false });
        }
        let complete = self.windows.newest().is_none();
        if complete {
            self.load_window(view);
            let range = self.take_gap(me, view, budget)?;
            return Some(Assignment { range, rescue: false });
        }
        if self.may_repeat_at(me, view)? > view.now {
            return None;
        }
        if let Some(range) = self.redundant(me, view, budget) {
            return Some(Assignment { range, rescue: true });
        }
        // Everything outstanding is on both paths or acknowledged: load the next window.
        self.load_window(view);
        let range = self.take_gap(me, view, budget)?;
        Some(Assignment { range, rescue: false })
    }

    fn forward(&self) -> Option<PathId> {
        self.direction.forward()
    }

    fn window(&self) -> Option<u64> {
        Some(self.size)
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
