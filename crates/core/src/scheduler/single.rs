//! `single`: everything on one subflow, the oldest live one. Our transport with one path, the
//! reference that shows what the framing costs (`weft-single:<path>` in the lab).

use super::choice::next_unsent;
use super::{Assignment, Entry, Scheduler, SendView};
use crate::subflow::Subflow;

pub(super) const ENTRY: Entry = Entry::new(
    "single",
    "the oldest live subflow carries everything; the others are spare",
    |_| Box::new(Single),
);

#[derive(Debug)]
struct Single;

impl Scheduler for Single {
    fn next(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Assignment> {
        let chosen = view.subflows.iter().position(Subflow::is_usable).unwrap_or(0);
        if me != chosen {
            return None;
        }
        let subflow = &view.subflows[me];
        if let Some(range) = view.silent_range(subflow, budget) {
            return Some(Assignment::reinjection(range));
        }
        next_unsent(view, view.chunk(subflow, budget))
    }
}
