//! New data in order of the stream to every subflow that has room.

use std::ops::Range;

use super::bond::{Bond, Placement, RULES};
use super::{Entry, SendView, Setting};

pub(super) const ENTRY: Entry = Entry::new(
    "earliest",
    "the next unsent bytes to every path that makes the transfer finish earlier, a budget for late ones",
    |config| Box::new(Bond::new(config, Front)),
)
.reading(&[Setting::Latency])
.with_rules(RULES);

/// New data is taken from the front.
#[derive(Debug)]
struct Front;

impl Placement for Front {
    fn place(&mut self, part: &Range<u64>, me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
        Some(view.clip(view.unassigned.first_in(part)?, me))
    }
}
