//! `blest`, Blocking Estimation (Ferlin et al., IFIP Networking 2016; `mptcp_blest.c` of MPTCP
//! v0.95): a slower subflow is not used if the send window it would hold for a round trip is what
//! the fast one needs in that time.
//!
//! F is the live subflow of least round-trip time, S the one that lowest-RTT-first picks. A segment
//! given to S now is acknowledged after t = max(srtt_S, m + (M − m)(in flight + 1)/cwnd_S), m and M
//! being the least and largest srtt that S has had (M when its window is full). In that time F does
//! n = ⌊t / ((m_F + M_F)/2)⌋ + 1 round trips and sends cwnd_F (2^n − 1) segments in the first slow
//! start (n at most 16), else (max(cwnd_F, ssthresh_F + 1) + (n − 1)/2) n. If that, times λ, is
//! more than the send window without what S holds, S waits for F.
//!
//! λ begins at 1.2 and stays within 1.0 and 1.3; at a decision, at most once per m_S, it grows by
//! 0.04 if the window was full or bytes were sent again since, and else shrinks by 0.01.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Entry;
use super::choice::{Choice, SEGMENT};
use super::picking::{Picking, Rule};
use crate::Instant;
use crate::path::SubflowId;

pub(super) const ENTRY: Entry = Entry::new(
    "blest",
    "a slower subflow only where it does not take the window the faster will need (BLEST)",
    |config| Box::new(Picking::opportunistic(Blest::new(), config)),
)
.by_segment();

/// λ in thousandths: at first, its bounds, and its steps.
const LAMBDA: u64 = 1200;
const MIN_LAMBDA: u64 = 1000;
const MAX_LAMBDA: u64 = 1300;
const LAMBDA_UP: u64 = 40;
const LAMBDA_DOWN: u64 = 10;
/// Round trips of slow start that are looked ahead at most.
const MAX_DOUBLINGS: u64 = 16;

/// The range in which a subflow's smoothed round-trip time has been.
#[derive(Clone, Copy, Debug)]
struct Times {
    least: Duration,
    most: Duration,
}

#[derive(Debug)]
struct Blest {
    times: BTreeMap<SubflowId, Times>,
    lambda: u64,
    lambda_at: Option<Instant>,
    was_blocked: bool,
}

impl Blest {
    const fn new() -> Self {
        let times = BTreeMap::new();
        Self { times, lambda: LAMBDA, lambda_at: None, was_blocked: false }
    }

    fn take_times(&mut self, choice: Choice<'_>) {
        self.times.retain(|id, _| super::find(choice.view.subflows, *id).is_some());
        for index in choice.live() {
            let srtt = choice.rtt(index);
            let times = self.times.entry(choice.subflow(index).id());
            let times = times.or_insert(Times { least: srtt, most: srtt });
            times.least = times.least.min(srtt);
            times.most = times.most.max(srtt);
        }
    }

    fn times(&self, choice: Choice<'_>, index: usize) -> Times {
        let srtt = choice.rtt(index);
        let known = self.times.get(&choice.subflow(index).id());
        known.copied().unwrap_or(Times { least: srtt, most: srtt })
    }

    fn update_lambda(&mut self, now: Instant, interval: Duration) {
        let last = *self.lambda_at.get_or_insert(now);
        if now.since(last) < interval {
            return;
        }
        let blocked = std::mem::take(&mut self.was_blocked);
        let next = if blocked { self.lambda + LAMBDA_UP } else { self.lambda - LAMBDA_DOWN };
        self.lambda = next.clamp(MIN_LAMBDA, MAX_LAMBDA);
        self.lambda_at = Some(now);
    }

    /// How long a segment given to the subflow now is on its way.
    fn linger(&self, choice: Choice<'_>, index: usize) -> Duration {
        let Times { least, most } = self.times(choice, index);
        let in_flight = choice.subflow(index).queued() / SEGMENT + 1;
        let cwnd = choice.cwnd(index);
        let estimate = if in_flight >= cwnd {
            most
        } else {
            least + (most - least).mul_f64(in_flight as f64 / cwnd as f64)
        };
        estimate.max(choice.rtt(index))
    }

    /// What the subflow will send in `time`, in bytes, times λ.
    fn bytes_in(&self, choice: Choice<'_>, index: usize, time: Duration) -> u128 {
        let Times { least, most } = self.times(choice, index);
        let round = ((least + most) / 2).as_nanos().max(1);
        let rounds = time.as_nanos() / round + 1;
        let cwnd = u128::from(choice.cwnd(index));
        let segments = match choice.subflow(index).info().ssthresh {
            None => cwnd * ((1 << rounds.min(u128::from(MAX_DOUBLINGS))) - 1),
            Some(ssthresh) => {
                let window = cwnd.max(u128::from(ssthresh.as_u64() / SEGMENT) + 1);
                (window + (rounds - 1) / 2).saturating_mul(rounds)
            }
        };
        segments.saturating_mul(u128::from(SEGMENT * self.lambda)) / 1000
    }
}

impl Rule for Blest {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        self.take_times(choice);
        let (fast, slow) = (choice.fastest()?, choice.lowest_rtt()?);
        if fast == slow {
            return Some(slow);
        }
        self.update_lambda(choice.view.now, self.times(choice, slow).least);
        let time = self.linger(choice, slow);
        let needed = self.bytes_in(choice, fast, time);
        let held = choice.subflow(slow).queued() + SEGMENT;
        let left = choice.view.credit_window.saturating_sub(held);
        Some(if needed > u128::from(left) { fast } else { slow })
    }

    fn blocked(&mut self) {
        self.was_blocked = true;
    }
}
