//! `redundant`: every segment goes over every subflow (`mptcp_redundant.c` of MPTCP v0.95). The
//! stream is then as quick as the quicker subflow at each moment, at the rate of the best.
//!
//! Each subflow works its way through the stream by itself: it sends the lowest bytes that have
//! not arrived and that it has not sent, new ones or copies of what others have sent. What arrives
//! before a subflow has room to copy it is skipped, so that a slow subflow never holds up a fast
//! one.

use std::ops::Range;

use super::{Assignment, Entry, Scheduler, SendView, find};
use crate::path::SubflowId;

pub(super) const ENTRY: Entry =
    Entry::new("redundant", "every segment on every subflow that has room", |_| {
        Box::new(Redundant { done: Vec::new() })
    })
    .by_segment();

#[derive(Debug)]
struct Redundant {
    /// Below such an offset all has arrived or has been sent on the subflow: it is not looked at again,
    /// however many holes a peer makes.
    done: Vec<(SubflowId, u64)>,
}

impl Redundant {
    /// The offset from which on the subflow `id` has something to send.
    fn done(&mut self, id: SubflowId) -> &mut u64 {
        let known = self.done.iter().position(|(known, _)| *known == id);
        let index = known.unwrap_or_else(|| {
            self.done.push((id, 0));
            self.done.len() - 1
        });
        &mut self.done[index].1
    }

    /// The lowest bytes that have not arrived and that the subflow `me` has not sent.
    fn next(&mut self, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        let subflow = &view.subflows[me];
        let done = self.done(subflow.id());
        *done = view.una.max(*done);
        while let Some(missing) = view.acked.first_missing(&(*done..view.limit)) {
            let Some(mine) = subflow.on().first_missing(&missing) else {
                *done = missing.end;
                continue;
            };
            *done = mine.start;
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
}

impl Scheduler for Redundant {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        self.done.retain(|(id, _)| find(view.subflows, *id).is_some());
        let mut all = view.with_room();
        all.find_map(|subflow| Some(Assignment { subflow, range: self.next(subflow, view)? }))
    }
}
