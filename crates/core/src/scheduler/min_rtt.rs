//! `min-rtt` (LRF): the next unsent byte goes to the subflow of least smoothed round-trip time
//! that has room (mptcp_sched.c of MPTCP v0.95, "default"; slides, LRF).

use super::{Assignment, CHUNK, Entry, Scheduler, SendView};

pub(super) const ENTRY: Entry = Entry {
    name: "min-rtt",
    about: "the next unsent byte on the subflow of least round-trip time that has room",
    make: |_| Box::new(MinRtt),
    chunk: CHUNK,
};

#[derive(Debug)]
struct MinRtt;

impl Scheduler for MinRtt {
    fn next(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Assignment> {
        let subflow = &view.subflows[me];
        if let Some(range) = view.silent_range(subflow, budget) {
            return Some(Assignment { range, rescue: true });
        }
        let key = |index: usize| (view.subflows[index].rtt(), index);
        let better = (0..view.subflows.len()).any(|index| {
            let other = &view.subflows[index];
            other.is_idle() && !other.is_silent() && key(index) < key(me)
        });
        if better {
            return None;
        }
        next_unsent(view, view.chunk(subflow, budget))
    }
}

/// The lowest unassigned bytes, at most `chunk` of them.
pub(super) fn next_unsent(view: &SendView<'_>, chunk: u64) -> Option<Assignment> {
    let range = view.unassigned.first_in(&(view.una..view.limit))?;
    let end = range.end.min(range.start + chunk);
    Some(Assignment { range: range.start..end, rescue: false })
}
