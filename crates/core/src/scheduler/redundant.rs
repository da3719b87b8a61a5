//! `redundant`: every segment goes over every subflow (`mptcp_redundant.c` of MPTCP v0.95). The
//! stream is then as quick as the quicker subflow at each moment, at the rate of the best.
//!
//! Each subflow works its way through the stream by itself: it sends the lowest bytes that have
//! not arrived and that it has not sent, new ones or copies of what others have sent. What arrives
//! before a subflow has room to copy it is skipped, so that a slow subflow never holds up a fast
//! one.

use std::ops::Range;

use super::{Assignment, Entry, Scheduler, SendView};

pub(super) const ENTRY: Entry =
    Entry::new("redundant", "every segment on every subflow that has room", |_| {
        Box::new(Redundant)
    })
    .by_segment();

#[derive(Debug)]
struct Redundant;

impl Scheduler for Redundant {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let mut all = view.with_room();
        all.find_map(|subflow| Some(Assignment { subflow, range: next(subflow, view)? }))
    }
}

/// The lowest bytes that have not arrived and that the subflow `me` has not sent.
fn next(me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
    let mut at = view.una;
    while let Some(missing) = view.acked.first_missing(&(at..view.limit)) {
        let Some(mine) = view.subflows[me].on().first_missing(&missing) else {
            at = missing.end;
            continue;
        };
        let most = mine.end.min(mine.start + view.chunk(me));
        // New bytes and copies are counted apart.
        let end = match view.unassigned.range_at(mine.start) {
            Some(new) => new.end,
            None => view.unassigned.first_in(&mine).map_or(mine.end, |new| new.start),
        };
        return Some(mine.start..end.min(most));
    }
    None
}
