//! `min-rtt` (LRF): the next unsent byte goes to the subflow of least smoothed round-trip time
//! that has room, and a full send window is reopened (`mptcp_sched.c` of MPTCP v0.95, "default";
//! slides, LRF).

use super::Entry;
use super::choice::Choice;
use super::picking::{Picking, Rule};

pub(super) const ENTRY: Entry = Entry::new(
    "min-rtt",
    "the next unsent byte on the subflow of least round-trip time that has room (LRF)",
    |config| Box::new(Picking::opportunistic(MinRtt, config)),
)
.by_segment();

#[derive(Debug)]
struct MinRtt;

impl Rule for MinRtt {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        choice.lowest_rtt()
    }
}
