//! FBDT: each transmission window of the stream is sent from both ends at once, forward on the
//! most reliable path and backward on the other; the two meet where their rates make them meet,
//! which is the optimal split (FBDT §3.1, Eq. 1). With more than two paths a window has several
//! gaps with two such ends each.
//!
//! [`Fbdt`] is the default: windows are pipelined, so that no path waits at a window's end, and
//! what is late on one path is rescued by the other under rules that keep duplicates few.
//! [`strict::Strict`] is the paper's one-window-at-a-time behaviour, for the comparison.

mod direction;
mod forecast;
mod strict;
mod tail;
#[cfg(test)]
mod tests;
mod windows;

use std::ops::Range;
use std::time::Duration;

use self::direction::Direction;
use self::forecast::Collapsed;
use self::windows::{End, Window, Windows, Worker};
use super::{Assignment, Entry, Fills, Scheduler, SchedulerConfig, SendView};
use crate::Instant;
use crate::path::{PathId, SubflowId};
use crate::subflow::Subflow;

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
/// The rescue budget accumulates over this long (docs/schedulers.md: a token bucket over 1 s).
const BUDGET_TIME: Duration = Duration::from_secs(1);
/// What the rescue budget starts with and never falls below as a limit: a chunk for the tail of a
/// short transfer.
const BUDGET_FLOOR: u64 = 64 << 10;
/// The most of what was not spent that is kept for the end of all data.
const MOST_RESERVE: u64 = 4 << 20;

/// The pipelined FBDT scheduler.
#[derive(Debug)]
struct Fbdt {
    config: SchedulerConfig,
    direction: Direction,
    windows: Windows,
    budget: RescueBudget,
    collapsed: Collapsed,
    /// When new data were last given to a path.
    last_new: Instant,
    /// A path that was turned down by a round-trip time that may be out of date.
    doubted: Option<SubflowId>,
}

impl Fbdt {
    fn new(config: &SchedulerConfig) -> Self {
        Self {
            config: config.clone(),
            direction: Direction::new(config.forward_pin, config.direction_hold),
            windows: Windows::default(),
            budget: RescueBudget::new(config.rescue_budget_permille),
            collapsed: Collapsed::default(),
            last_new: Instant::ZERO,
            doubted: None,
        }
    }

    /// What is left of the oldest window with a gap; a new one is opened when there is none.
    fn gap(&mut self, view: &SendView<'_>) -> Option<Range<u64>> {
        let open = |end: u64| view.unassigned.first_in(&(view.una..end.min(view.limit)));
        open(self.windows.end()).or_else(|| {
            let opened = self.open_window(view);
            opened.then(|| open(self.windows.end())).flatten()
        })
    }

    /// Of the gap, what lies at the end that the path works from; nothing if the others are better
    /// off without it.
    fn take_gap(
        &mut self,
        me: usize,
        gap: Range<u64>,
        view: &SendView<'_>,
        budget: u64,
    ) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        let chunk = view.chunk(subflow, budget);
        let Self { config, windows, collapsed, .. } = self;
        let takes = |index, other: &Subflow| {
            !collapsed.contains(other) && forecast::may_hold_more(index, view, config.latency)
        };
        if !forecast::helps(me, view, chunk.min(gap.end - gap.start), takes) {
            self.doubted = subflow.has_stale_rtt(view.now).then(|| subflow.id());
            return None;
        }
        let window = windows.at(gap.start)?;
        if view.usable().count() <= 1 {
            return Some(gap.start..gap.end.min(gap.start + chunk));
        }
        let crew = || {
            let able = view.subflows.iter().enumerate();
            let able = able.filter(|&(index, s)| s.is_usable() && takes(index, s));
            able.map(|(_, subflow)| worker(subflow, view)).collect()
        };
        let (part, end) = window.claim(worker(subflow, view), crew, view)?;
        take(&part, end, chunk, view)
    }

    /// Opens the next window over what has been written and may be sent.
    fn open_window(&mut self, view: &SendView<'_>) -> bool {
        // Offsets that were given up before they were sent are passed over.
        let ahead = self.windows.end().max(view.una)..view.limit;
        let Some(Range { start, .. }) = view.unassigned.first_in(&ahead) else { return false };
        let size = self.config.fixed_window().unwrap_or_else(|| adaptive_window(view));
        let workers = workers(self.direction.choose(view), view, |index, subflow| {
            !self.collapsed.contains(subflow)
                && forecast::may_hold_more(index, view, self.config.latency)
        });
        self.windows.open(start..view.limit.min(start + size), &workers);
        true
    }

    /// What is due from another path before any new data: rules (a) and (b), and within the budget
    /// what is later than usual and much nearer on this path: a lossy path of long round-trip
    /// times else holds up a fast one for as long as its repairs take.
    fn rescue_due(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        let stalled = |other: &Subflow| other.is_silent() || self.collapsed.contains(other);
        if let Some(range) = view.lowest_on(subflow, budget, stalled) {
            return Some(range);
        }
        let mine = forecast::arrival(view, subflow, view.chunk(subflow, budget));
        let allowed = self.budget.available(view.now);
        let mut charged = false;
        let range = self.rescuable(me, view, budget, |age, other| {
            let overdue = age >= other.overdue_after();
            charged = !overdue;
            overdue || (allowed > 0 && age >= other.usual_delivery() && mine * 2 <= other.rtt())
        })?;
        if charged {
            // It takes the place of new data: that counts twice.
            self.budget.spend(2 * (range.end - range.start));
        }
        Some(range)
    }

    /// Rule (c), for a path that has nothing else to do: one round-trip time of the other path
    /// after the range was sent, within the budget.
    fn rescue_idle(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Range<u64>> {
        let allowed = self.budget.available(view.now).min(budget);
        if allowed == 0 {
            return None;
        }
        let range = self.rescuable(me, view, allowed, |age, other| age >= other.rtt())?;
        self.budget.spend(range.end - range.start);
        Some(range)
    }

    /// At the end of all there is, within the budget, for a path that nothing waits for: what the
    /// others have and this one would deliver sooner.
    fn rescue_tail(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Range<u64>> {
        let allowed = self.budget.reserve.min(budget);
        let quiet = view.now.since(self.last_new) >= WINDOW_TIME;
        if allowed == 0 || view.expected > 0 || !quiet {
            return None;
        }
        let range = tail::last(me, view, allowed).or_else(|| tail::far(me, view, allowed))?;
        self.budget.reserve -= range.end - range.start;
        Some(range)
    }

    /// The range that the path comes upon first from its side of the meeting point, in the lowest
    /// gap of the oldest window where it has nothing of its own outstanding, if it is
    /// `due(age, subflow)`.
    fn rescuable(
        &self,
        me: usize,
        view: &SendView<'_>,
        budget: u64,
        mut due: impl FnMut(Duration, &Subflow) -> bool,
    ) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        let windows = self.windows.iter_from(view.una).take(RESCUE_DEPTH);
        let started = windows.take_while(|w| view.unassigned.first_in(&w.range).is_none());
        for gap in started.flat_map(Window::gaps).filter(|gap| gap.range.end > view.una) {
            if !view.own_acked(subflow, &gap.range) {
                continue;
            }
            let chunk = view.chunk(subflow, budget);
            let found = match gap.side(subflow.path()) {
                End::Low => view
                    .lowest_foreign(subflow, &gap.range)
                    .map(|r| (r.start, r.start..r.end.min(r.start + chunk))),
                End::High => view
                    .highest_foreign(subflow, &gap.range)
                    .map(|r| (r.end - 1, r.start.max(r.end.saturating_sub(chunk))..r.end)),
            };
            let Some((edge, range)) = found else { continue };
            // The latest of the copies on their way decides.
            let latest = view.subflows.iter().filter(|other| other.id() != subflow.id());
            let latest = latest.filter_map(|other| Some((other.sent_at(edge)?, other)));
            let Some((sent_at, other)) = latest.max_by_key(|(at, _)| *at) else { continue };
            if due(view.now.since(sent_at), other) {
                return Some(range);
            }
        }
        None
    }
}

impl Scheduler for Fbdt {
    fn next(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Assignment> {
        self.windows.forget_below(view.una);
        self.budget.refill(view);
        self.collapsed.judge(view);
        if self.collapsed.contains(&view.subflows[me]) {
            return None;
        }
        if let Some(range) = self.rescue_due(me, view, budget) {
            return Some(Assignment { range, rescue: true });
        }
        if !forecast::may_hold_more(me, view, self.config.latency) {
            return None;
        }
        if let Some(gap) = self.gap(view) {
            let range = self.take_gap(me, gap, view, budget)?;
            self.last_new = view.now;
            return Some(Assignment { range, rescue: false });
        }
        let range = self.rescue_tail(me, view, budget);
        let range = range.or_else(|| self.rescue_idle(me, view, budget))?;
        Some(Assignment { range, rescue: true })
    }

    fn forward(&self) -> Option<PathId> {
        self.direction.forward()
    }

    fn window(&self) -> Option<u64> {
        self.windows.newest().map(|window| window.range.end - window.range.start)
    }

    fn poll_ping(&mut self) -> Option<SubflowId> {
        self.doubted.take()
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
            .chain([Some(self.last_new + WINDOW_TIME)])
            .filter_map(|at| later(at?))
            .min()
    }
}

/// The chunk at that end of what is unassigned of `part`.
fn take(part: &Range<u64>, end: End, chunk: u64, view: &SendView<'_>) -> Option<Range<u64>> {
    let part = part.start.max(view.una)..part.end.min(view.limit);
    Some(match end {
        End::Low => {
            let open = view.unassigned.first_in(&part)?;
            open.start..open.end.min(open.start + chunk)
        }
        End::High => {
            let open = view.unassigned.last_in(&part)?;
            open.start.max(open.end.saturating_sub(chunk))..open.end
        }
    })
}

/// Who begins on a window that opens now: the forward path, and of the others those whose subflows
/// `take` new data, by how long that is on its way.
fn workers(
    forward: PathId,
    view: &SendView<'_>,
    takes: impl Fn(usize, &Subflow) -> bool,
) -> Vec<Worker> {
    let mut others: Vec<_> = view.subflows.iter().enumerate().collect();
    others.retain(|&(index, s)| s.path() != forward && s.is_usable() && takes(index, s));
    others.sort_by_key(|(_, subflow)| (subflow.delivery_time(), subflow.path()));
    let first = view.subflows.iter().filter(|subflow| subflow.path() == forward).take(1);
    first.chain(others.into_iter().map(|(_, s)| s)).map(|s| worker(s, view)).collect()
}

fn worker(subflow: &Subflow, view: &SendView<'_>) -> Worker {
    // Before anything is measured the congestion window tells.
    let rate = Some(view.rate(subflow).as_bps()).filter(|&rate| rate > 0);
    let rate = rate.unwrap_or_else(|| subflow.prospect().as_bps()).max(1);
    Worker { path: subflow.path(), rate, chunk: view.chunk(subflow, u64::MAX) }
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
    /// As `available`, for the end of all data alone, however long ago it was earned.
    reserve: u64,
    sent: u64,
    refilled: Instant,
}

impl RescueBudget {
    const fn new(permille: u64) -> Self {
        let available = BUDGET_FLOOR;
        Self { permille, available, reserve: 0, sent: 0, refilled: Instant::ZERO }
    }

    /// Adds the share of what was sent since the last time; holds at most a second's worth.
    fn refill(&mut self, view: &SendView<'_>) {
        let sent: u64 = view.subflows.iter().map(|s| s.sent() - s.rescued()).sum();
        let new = sent.saturating_sub(self.sent);
        // A subflow that is gone takes its count with it.
        self.sent = sent;
        let most = view.total_rate().bytes_in(BUDGET_TIME).as_u64() * self.permille / 1000;
        let earned = new * self.permille / 1000;
        self.available = (self.available + earned).min(most.max(BUDGET_FLOOR));
        self.reserve = (self.reserve + earned).min(MOST_RESERVE);
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
