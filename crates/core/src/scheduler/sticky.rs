//! The sticky family: schedulers that avoid changing the subflow (slides, GR-STY, TP-STY, TR-STY).
//! All start from the subflow `next` of least round-trip time that has room.
//!
//! * `gr-sty`, greedy: stays on the current subflow while it has room, then takes `next`.
//! * `tp-sty`, throughput: changes to `next` only if its cwnd/srtt is larger than the current
//!   one's.
//! * `tr-sty`, throughput and round-trip time: as `tp-sty`, and its srtt must be smaller too.
//!
//! The slides do not say what happens when the current subflow has no room and `next` does not
//! qualify. `tp-sty` and `tr-sty` wait, which keeps them on a path for as long as its estimate is
//! the best; `tp-sty-soft` and `tr-sty-soft` send that one segment on `next` without changing. So
//! do all of them while the current subflow is stalled, for it may be dead, or its path has used up
//! its cap; they change when it is gone or stands by.

use super::Entry;
use super::choice::Choice;
use super::picking::{Picking, Rule};
use crate::path::SubflowId;

pub(super) const GREEDY: Entry = Entry::new(
    "gr-sty",
    "stays on a subflow while it has room, then takes that of least round-trip time (GR-STY)",
    |config| Box::new(Picking::opportunistic(Sticky::new(Stay::WhileRoom), config)),
)
.by_segment();

pub(super) const THROUGHPUT: Entry = Entry::new(
    "tp-sty",
    "stays on a subflow until one of larger cwnd/srtt has room; waits for it (TP-STY, strict)",
    |config| {
        Box::new(Picking::opportunistic(
            Sticky::new(Stay::UntilFaster { soft: false, nearer: false }),
            config,
        ))
    },
)
.by_segment();

pub(super) const THROUGHPUT_SOFT: Entry = Entry::new(
    "tp-sty-soft",
    "as tp-sty, but uses others while the current subflow has no room",
    |config| {
        Box::new(Picking::opportunistic(
            Sticky::new(Stay::UntilFaster { soft: true, nearer: false }),
            config,
        ))
    },
)
.by_segment();

pub(super) const THROUGHPUT_RTT: Entry = Entry::new(
    "tr-sty",
    "as tp-sty, and changes only to a smaller round-trip time (TR-STY, strict)",
    |config| {
        Box::new(Picking::opportunistic(
            Sticky::new(Stay::UntilFaster { soft: false, nearer: true }),
            config,
        ))
    },
)
.by_segment();

pub(super) const THROUGHPUT_RTT_SOFT: Entry = Entry::new(
    "tr-sty-soft",
    "as tr-sty, but uses others while the current subflow has no room",
    |config| {
        Box::new(Picking::opportunistic(
            Sticky::new(Stay::UntilFaster { soft: true, nearer: true }),
            config,
        ))
    },
)
.by_segment();

/// When the current subflow is kept.
#[derive(Clone, Copy, Debug)]
enum Stay {
    WhileRoom,
    UntilFaster {
        /// Whether others are used while it has no room.
        soft: bool,
        /// Whether the new one must have the smaller round-trip time too.
        nearer: bool,
    },
}

#[derive(Debug)]
struct Sticky {
    stay: Stay,
    current: Option<SubflowId>,
}

impl Sticky {
    const fn new(stay: Stay) -> Self {
        Self { stay, current: None }
    }

    /// Whether to leave `current` for `next`.
    fn leaves(&self, choice: Choice<'_>, current: usize, next: usize) -> bool {
        match self.stay {
            Stay::WhileRoom => !choice.is_available(current),
            Stay::UntilFaster { nearer, .. } => {
                choice.is_faster(next, current)
                    && (!nearer || choice.rtt(next) < choice.rtt(current))
            }
        }
    }
}

impl Rule for Sticky {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        let next = choice.lowest_rtt();
        let current = self.current.and_then(|id| super::find(choice.view.subflows, id));
        let current = current.filter(|&index| !choice.subflow(index).is_standby());
        let leaves = |current| next.is_some_and(|next| self.leaves(choice, current, next));
        let Some(current) = current.filter(|&current| !leaves(current)) else {
            self.current = next.map(|next| choice.subflow(next).id());
            return next;
        };
        let soft = matches!(self.stay, Stay::UntilFaster { soft: true, .. });
        let held_up = choice.subflow(current).is_stalled() || choice.subflow(current).is_capped();
        let lends = soft || held_up;
        if lends && !choice.is_available(current) { next } else { Some(current) }
    }
}
