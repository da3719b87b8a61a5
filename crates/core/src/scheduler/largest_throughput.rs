//! `let`, Largest Estimated Throughput: of the subflows with room, the one of largest cwnd/srtt
//! (slides, LET).

use super::Entry;
use super::choice::Choice;
use super::picking::{Picking, Rule};

pub(super) const ENTRY: Entry = Entry::new(
    "let",
    "the next unsent byte on the subflow of largest cwnd/srtt that has room (LET)",
    |config| Box::new(Picking::opportunistic(LargestThroughput, config)),
)
.by_segment();

#[derive(Debug)]
struct LargestThroughput;

impl Rule for LargestThroughput {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        // The first of equals stays.
        let faster = |best, next| if choice.is_faster(next, best) { next } else { best };
        choice.available().reduce(faster)
    }
}
