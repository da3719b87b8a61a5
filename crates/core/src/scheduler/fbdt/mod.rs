//! FBDT: each transmission window of the stream is sent from both ends at once, forward on the
//! most reliable path and backward on the other; the two meet where their rates make them meet,
//! which is the optimal split (FBDT §3.1, Eq. 1).
//!
//! [`Fbdt`] is the default: windows are pipelined, so that no path waits at a window's end, and
//! what is late on one path is rescued by the other under rules that keep duplicates few.
//! [`strict::Strict`] is the paper's one-window-at-a-time behaviour, for the comparison.

mod direction;
mod strict;
#[cfg(test)]
mod tests;
mod windows;

use std::ops::Range;
use std::time::Duration;

use self::direction::Direction;
use self::windows::Windows;
use super::{Assignment, Entry, Fills, Scheduler, SchedulerConfig, SendView};
use crate::path::PathId;
use crate::subflow::Subflow;
use crate::{ByteCount, Instant};

pub(super) const ENTRY: Entry = Entry {
    name: "fbdt",
    about: "each window from both ends at once, windows pipelined (FBDT)",
    make: |config| Box::new(Fbdt::new(config)),
    chunk: super::CHUNK,
    paths: None,
    fills: Fills::Window,
};

pub(super) const STRICT_ENTRY: Entry = Entry {
    name: "fbdt-strict",
    about: "FBDT as printed: one window at a time, redundancy after one round-trip time",
    make: |config| Box::new(strict::Strict::new(config)),
    chunk: (1448, 16 << 10),
    paths: None,
    fills: Fills::Window,
};

/// The paper's transmission window, and ours before rates are known (FBDT §3.2).
const PAPER_WINDOW: u64 = 1 << 20;
/// The adaptive window covers this much time of all paths together: short enough that the
/// application waits little for a window's last byte, long enough that its end is rare.
const WINDOW_TIME: Duration = Duration::from_millis(5);
const MIN_WINDOW: u64 = 64 << 10;
const MAX_WINDOW: u64 = 4 << 20;
/// Incomplete windows looked at for overdue ranges, oldest first: what is further up does not
/// block the application yet.
const RESCUE_DEPTH: usize = 8;
/// The rescue budget accumulates over this long (transport.md: "token bucket over 1 s").
const BUDGET_TIME: Duration = Duration::from_secs(1);
/// What the rescue budget starts with and never falls below as a limit: a chunk for the tail of a
/// short transfer.
const BUDGET_FLOOR: u64 = 64 << 10;

/// The pipelined FBDT scheduler.
#[derive(Debug)]
struct Fbdt {
    config: SchedulerConfig,
    direction: Direction,
    windows: Windows,
    budget: RescueBudget,
}

impl Fbdt {
    fn new(config: &SchedulerConfig) -> Self {
        Self {
            config: config.clone(),
            direction: Direction::new(config.forward_pin, config.direction_hold),
            windows: Windows::default(),
            budget: RescueBudget::new(config.rescue_budget_permille),
        }
    }

    /// What is left of the oldest window with a gap, from the end that belongs to the path.
    fn take_gap(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        let gap = view.unassigned.first_in(&(view.una..self.windows.end().min(view.limit)))?;
        let window = self.windows.at(gap.start)?;
        let chunk = view.chunk(subflow, budget);
        let alone = view.subflows.iter().filter(|s| !s.is_silent()).count() <= 1;
        if alone || window.forward == subflow.path() {
            return Some(gap.start..gap.end.min(gap.start + chunk));
        }
        let whole = window.range.end - window.range.start;
        if whole <= chunk && forward_has_room(view, window.forward) {
            // Data smaller than a chunk has no backward side; the forward path is about to ask.
            return None;
        }
        let gap = view.unassigned.last_in(&window.range)?;
        Some(gap.start.max(gap.end.saturating_sub(chunk))..gap.end)
    }

    /// Opens the next window over what has been written and may be sent.
    fn open_window(&mut self, view: &SendView<'_>) -> bool {
        // Offsets that were given up before they were sent are passed over.
        let ahead = self.windows.end().max(view.una)..view.limit;
        let Some(Range { start, .. }) = view.unassigned.first_in(&ahead) else { return false };
        let size = self.config.fixed_window().unwrap_or_else(|| adaptive_window(view));
        let forward = self.direction.choose(view);
        self.windows.open(start..view.limit.min(start + size), forward);
        true
    }

    /// A range of another path that is overdue, in the oldest windows whose part of `me` is done:
    /// rules (a) and (b).
    fn rescue_overdue(&self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        if let Some(range) = view.silent_range(subflow, budget) {
            return Some(range);
        }
        self.rescuable(me, view, budget, |sent_at, overdue_after, _| {
            view.now.since(sent_at) >= overdue_after
        })
    }

    /// Rule (c), for a path that has nothing else to do: one round-trip time of the other path
    /// after the range was sent, within the budget.
    fn rescue_idle(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Range<u64>> {
        let allowed = self.budget.available(view.now).min(budget);
        if allowed == 0 {
            return None;
        }
        let range =
            self.rescuable(me, view, allowed, |sent_at, _, rtt| view.now.since(sent_at) >= rtt)?;
        self.budget.spend(range.end - range.start);
        Some(range)
    }

    /// The range that the path comes upon first from its side of the meeting point, in the oldest
    /// window where it has nothing of its own outstanding, if `due(sent at, overdue after, rtt)`.
    fn rescuable(
        &self,
        me: usize,
        view: &SendView<'_>,
        budget: u64,
        due: impl Fn(Instant, Duration, Duration) -> bool,
    ) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        for window in self.windows.iter_from(view.una).take(RESCUE_DEPTH) {
            if view.unassigned.first_in(&window.range).is_some() {
                break;
            }
            if !view.own_acked(subflow, &window.range) {
                continue;
            }
            let chunk = view.chunk(subflow, budget);
            let forward = window.forward == subflow.path();
            let found = if forward {
                view.lowest_foreign(subflow, &window.range)
                    .map(|r| (r.start, r.start..r.end.min(r.start + chunk)))
            } else {
                view.highest_foreign(subflow, &window.range)
                    .map(|r| (r.end - 1, r.start.max(r.end.saturating_sub(chunk))..r.end))
            };
            let Some((edge, range)) = found else { continue };
            // The latest of the copies on their way decides.
            let latest = view.subflows.iter().filter(|other| other.id() != subflow.id());
            let latest = latest.filter_map(|other| Some((other.sent_at(edge)?, other)));
            let Some((sent_at, other)) = latest.max_by_key(|(at, _)| *at) else { continue };
            if due(sent_at, other.overdue_after(), other.rtt()) {
                return Some(range);
            }
        }
        None
    }

    /// Whether `me` may take new data: when the receiver's memory binds, a path whose delivery
    /// time times the sum of the rates does not fit it would hold the others up, so that the
    /// total fell below the best path alone; it then serves only for rescue.
    fn fits_memory(me: usize, view: &SendView<'_>) -> bool {
        if !view.credit_bound {
            return true;
        }
        let subflow = &view.subflows[me];
        let fastest = view.subflows.iter().filter(|s| !s.is_silent()).map(|s| view.rate(s)).max();
        if fastest.is_none_or(|fastest| view.rate(subflow) >= fastest) {
            return true;
        }
        let needed = view.total_rate().bytes_in(subflow.delivery_time());
        needed <= ByteCount::new(view.credit_window)
    }
}

impl Scheduler for Fbdt {
    fn next(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Assignment> {
        self.windows.forget_below(view.una);
        self.budget.refill(view);
        if let Some(range) = self.rescue_overdue(me, view, budget) {
            return Some(Assignment { range, rescue: true });
        }
        if Self::fits_memory(me, view) {
            if let Some(range) = self.take_gap(me, view, budget) {
                return Some(Assignment { range, rescue: false });
            }
            let no_gap = view.unassigned.first_in(&(view.una..self.windows.end())).is_none();
            if no_gap
                && self.open_window(view)
                && let Some(range) = self.take_gap(me, view, budget)
            {
                return Some(Assignment { range, rescue: false });
            }
        }
        let range = self.rescue_idle(me, view, budget)?;
        Some(Assignment { range, rescue: true })
    }

    fn forward(&self) -> Option<PathId> {
        self.direction.forward()
    }

    fn window(&self) -> Option<u64> {
        self.windows.newest().map(|window| window.range.end - window.range.start)
    }

    fn next_timeout(&self, view: &SendView<'_>) -> Option<Instant> {
        // Something may be rescued when the oldest or the youngest range of a subflow is overdue,
        // or a round-trip time old; between these, acknowledgements move things on.
        let later = |at: Instant| (at > view.now).then_some(at);
        view.subflows
            .iter()
            .flat_map(|s| {
                let youngest = s.youngest_at();
                let ages = [s.overdue_after(), s.rtt()];
                ages.map(|age| youngest.map(|at| at + age)).into_iter().chain([s.overdue_at()])
            })
            .filter_map(|at| later(at?))
            .min()
    }
}

/// Whether the subflow on path `forward` is live, waiting for data, and will take them.
fn forward_has_room(view: &SendView<'_>, forward: PathId) -> bool {
    let waits = |s: &Subflow| s.path() == forward && s.is_idle() && !s.is_silent();
    let mut subflows = view.subflows.iter().enumerate();
    subflows.any(|(index, s)| waits(s) && Fbdt::fits_memory(index, view))
}

/// The window for the measured rates; the paper's before they are known.
fn adaptive_window(view: &SendView<'_>) -> u64 {
    match view.total_rate().bytes_in(WINDOW_TIME).as_u64() {
        0 => PAPER_WINDOW,
        bytes => bytes.clamp(MIN_WINDOW, MAX_WINDOW),
    }
}

/// A token bucket that lets a share of the bytes sent go into rescues.
#[derive(Debug)]
struct RescueBudget {
    permille: u64,
    available: u64,
    sent: u64,
    refilled: Instant,
}

impl RescueBudget {
    const fn new(permille: u64) -> Self {
        Self { permille, available: BUDGET_FLOOR, sent: 0, refilled: Instant::ZERO }
    }

    /// Adds the share of what was sent since the last time; holds at most a second's worth.
    fn refill(&mut self, view: &SendView<'_>) {
        let sent: u64 = view.subflows.iter().map(|s| s.sent() - s.rescued()).sum();
        let new = sent.saturating_sub(self.sent);
        // A subflow that is gone takes its count with it.
        self.sent = sent;
        let most = view.total_rate().bytes_in(BUDGET_TIME).as_u64() * self.permille / 1000;
        self.available += new * self.permille / 1000;
        self.available = self.available.min(most.max(BUDGET_FLOOR));
        self.refilled = view.now;
    }

    fn available(&self, now: Instant) -> u64 {
        debug_assert!(now >= self.refilled, "time does not go back");
        self.available
    }

    fn spend(&mut self, bytes: u64) {
        self.available = self.available.saturating_sub(bytes);
    }
}
