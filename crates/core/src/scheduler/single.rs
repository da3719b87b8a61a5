//! `single`: everything on one subflow, the oldest live one. Our transport with one path, the
//! reference that shows what the framing costs (`weft-single:<path>` in the lab).

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
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let chosen = view.subflows.iter().position(Subflow::is_usable)?;
        if view.room(chosen) == 0 {
            return None;
        }
        let range = view.stalled_range(chosen).or_else(|| view.next_chunk(chosen))?;
        Some(Assignment { subflow: chosen, range })
    }
}
