//! FBDT: each transmission window from both ends at once (FBDT §3).
//!
//! The forward path takes from the low end of what is left of a window, the others from the high
//! end. They meet where their rates make them meet: the optimal split, without any estimate of a
//! rate (FBDT Eq. 1). Windows are pipelined: a path that finds nothing left of one goes on with the
//! next. [`strict::Strict`] is the paper's one window at a time, for the comparison.

mod direction;
mod strict;
#[cfg(test)]
mod tests;

use std::ops::Range;

use self::direction::Direction;
use super::bond::{Bond, Placement, RULES};
use super::{Entry, SchedulerConfig, SendView, Setting};
use crate::path::PathId;

pub(super) const ENTRY: Entry =
    Entry::new("fbdt", "each window from both ends at once, windows pipelined (FBDT)", |config| {
        Box::new(Bond::new(config, BothEnds::new(config)))
    })
    .reading(&[Setting::Window, Setting::Forward, Setting::Latency])
    .with_rules(RULES);

pub(super) const STRICT_ENTRY: Entry = Entry {
    name: "fbdt-strict",
    about: "FBDT as printed: one window at a time, redundancy after one round-trip time",
    make: |config| Box::new(strict::Strict::new(config)),
    chunk: (1448, 16 << 10),
    paths: None,
    by_segment: false,
    simulator_only: false,
    settings: &[Setting::Window, Setting::Forward],
    rules: strict::RULES,
};

/// The paper's transmission window (FBDT §3.2).
const PAPER_WINDOW: u64 = 1 << 20;

/// Which end of what is left of a window a path takes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Low,
    High,
}

impl End {
    /// The forward path's is the low one.
    fn of(path: PathId, forward: Option<PathId>) -> Self {
        if forward == Some(path) { Self::Low } else { Self::High }
    }

    /// What the subflow `me` takes at this end of what is unassigned of `part`.
    fn take(self, part: &Range<u64>, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        Some(match self {
            Self::Low => view.clip(view.unassigned.first_in(part)?, me),
            Self::High => {
                let open = view.unassigned.last_in(part)?;
                open.start.max(open.end.saturating_sub(view.chunk(me)))..open.end
            }
        })
    }
}

/// New data is taken from both ends of the newest window.
#[derive(Debug)]
struct BothEnds {
    size: u64,
    direction: Direction,
    /// The newest window; what is unassigned below its end is taken first.
    window: Range<u64>,
}

impl BothEnds {
    fn new(config: &SchedulerConfig) -> Self {
        let size = config.fixed_window().unwrap_or(PAPER_WINDOW);
        Self { size, direction: Direction::new(config), window: 0..0 }
    }

    fn is_open(&self, part: &Range<u64>, view: &SendView<'_>) -> bool {
        view.unassigned.first_in(&within(&self.window, part)).is_some()
    }
}

/// What of `part` is below the window's end.
fn within(window: &Range<u64>, part: &Range<u64>) -> Range<u64> {
    part.start..window.end.min(part.end).max(part.start)
}

impl Placement for BothEnds {
    fn place(&mut self, part: &Range<u64>, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        if !self.is_open(part, view) {
            let first = view.unassigned.first_in(part)?;
            self.window = first.start..part.end.min(first.start + self.size);
            self.direction.choose(view);
        }
        let end = End::of(view.subflows[me].path(), self.direction.forward());
        let end = if view.usable().count() <= 1 { End::Low } else { end };
        end.take(&within(&self.window, part), me, view)
    }

    fn forward(&self) -> Option<PathId> {
        self.direction.forward()
    }

    fn window(&self) -> Option<Range<u64>> {
        Some(self.window.clone())
    }
}
