//! `lpc`, Largest Packet Credits: of the subflows with room, the one whose congestion window has
//! room for most segments (slides, LPC).

use std::cmp::Reverse;

use super::Entry;
use super::choice::{Choice, SEGMENT};
use super::picking::{Picking, Rule};

pub(super) const ENTRY: Entry = Entry::new(
    "lpc",
    "the next unsent byte on the subflow with most room in its window (LPC)",
    |config| Box::new(Picking::opportunistic(LargestCredits, config)),
)
.by_segment();

#[derive(Debug)]
struct LargestCredits;

impl Rule for LargestCredits {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        // Whole segments, as the slides count; the first of equals.
        let credits = |index: usize| choice.subflow(index).window_room() / SEGMENT;
        choice.available().min_by_key(|&index| Reverse(credits(index)))
    }
}
