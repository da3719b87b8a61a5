//! `redundant`: every segment goes over every subflow (`mptcp_redundant.c` of MPTCP v0.95). The
//! stream is then as quick as the quicker subflow at each moment, at the rate of the best.
//!
//! Each subflow works its way through the stream by itself: it sends the lowest bytes that have
//! not arrived and that it has not sent, new ones or copies of what others have sent. What arrives
//! before a subflow has room to copy it is skipped, so that a slow subflow never holds up a fast
//! one.

use super::{Assignment, Entry, Kind, Scheduler, SendView};

pub(super) const ENTRY: Entry =
    Entry::new("redundant", "every segment on every subflow that has room in time", |_| {
        Box::new(Redundant)
    });

#[derive(Debug)]
struct Redundant;

impl Scheduler for Redundant {
    fn next(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Assignment> {
        let subflow = &view.subflows[me];
        let mut at = view.una;
        while let Some(missing) = view.acked.first_missing(&(at..view.limit)) {
            let Some(mine) = subflow.on().first_missing(&missing) else {
                at = missing.end;
                continue;
            };
            let most = mine.end.min(mine.start + view.chunk(subflow, budget));
            // New bytes and copies are counted apart.
            let new = view.unassigned.range_at(mine.start);
            let end = match &new {
                Some(new) => new.end,
                None => view.unassigned.first_in(&mine).map_or(mine.end, |new| new.start),
            };
            let kind = if new.is_none() { Kind::Copy } else { Kind::New };
            return Some(Assignment { range: mine.start..end.min(most), kind });
        }
        None
    }
}
