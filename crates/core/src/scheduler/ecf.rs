//! `ecf`, Earliest Completion First (Lim et al., CoNEXT 2017; `mptcp_ecf.c` of MPTCP v0.95): when
//! only a slower subflow has room, it is used if what waits to be sent would be complete later
//! without it; otherwise the data wait for the fast one.
//!
//! With k the bytes that wait, F the live subflow of least round-trip time and S the one that
//! lowest-RTT-first picks, all windows in bytes and x = max(k, cwnd):
//!
//! * waiting pays if srtt_F (x_F + cwnd_F) < (1 + β·waiting) cwnd_F (srtt_S + δ): F is through
//!   with everything before S has done one round trip. β = 1/4 keeps a decision to wait;
//! * and if S would be no quicker: srtt_S x_S ≥ cwnd_S (2 srtt_F + δ).
//!
//! δ is the larger of the two round-trip time variations, as the paper has it. The module takes
//! half of the kernel's `rttvar_us`, which has a floor of 200 ms.

use super::Entry;
use super::choice::{Choice, SEGMENT};
use super::picking::{Picking, Rule};

pub(super) const ENTRY: Entry = Entry::new(
    "ecf",
    "a slower subflow only where the faster would not finish earlier without it (ECF)",
    |config| Box::new(Picking::opportunistic(Ecf { waiting: false }, config)),
)
.by_segment();

/// 1/β: the module's `mptcp_ecf_r_beta`.
const INVERSE_BETA: u128 = 4;

#[derive(Debug)]
struct Ecf {
    /// Whether the last decision on these grounds was to wait.
    waiting: bool,
}

impl Rule for Ecf {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        let (fast, slow) = (choice.fastest()?, choice.lowest_rtt()?);
        if fast == slow {
            return Some(slow);
        }
        let waits = u128::from(choice.view.unassigned.bytes());
        // A window of nothing, before it is known, would make both tests void.
        let window = |index| u128::from(choice.subflow(index).info().cwnd.as_u64().max(SEGMENT));
        let srtt = |index| choice.rtt(index).as_nanos();
        let variation = |index: usize| choice.subflow(index).info().rttvar.as_nanos();
        let delta = variation(fast).max(variation(slow));

        let all_on_fast = srtt(fast) * (waits.max(window(fast)) + window(fast));
        let one_on_slow = window(fast) * (srtt(slow) + delta);
        let margin = u128::from(self.waiting) * one_on_slow;
        if INVERSE_BETA * all_on_fast >= INVERSE_BETA * one_on_slow + margin {
            self.waiting = false;
            return Some(slow);
        }
        let all_on_slow = srtt(slow) * waits.max(window(slow));
        let two_on_fast = window(slow) * (2 * srtt(fast) + delta);
        if all_on_slow >= two_on_fast {
            self.waiting = true;
            return Some(fast);
        }
        Some(slow)
    }
}
