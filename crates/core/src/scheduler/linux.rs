//! `linux`: the packet scheduler of upstream's MPTCP (`mptcp_subflow_get_send` in
//! net/mptcp/protocol.c, its only one; 5.11 and later). It is neither lowest-RTT-first nor the
//! published BLEST.
//!
//! Each subflow has a linger time: what is in its socket divided by a moving average of its pacing
//! rate. The smallest is picked and kept for a burst of up to 64 KB; the average is then weighted
//! anew by what is queued and by the burst. Subflows fill their send memory, not their window, which
//! is for the driver to tell; and if the picked one has no memory left nothing is sent, even when
//! another has.
//!
//! Stalled subflows are passed over and their data sent on others, as upstream does with stale
//! ones. There is no opportunistic retransmission and no penalty. Subflows in timeout recovery are
//! not passed over, and there are no backup subflows here.

use std::collections::BTreeMap;

use super::Entry;
use super::choice::{Choice, SEGMENT};
use super::picking::{Picking, Rule};
use crate::path::SubflowId;
use crate::subflow::Subflow;

pub(super) const ENTRY: Entry = Entry::new(
    "linux",
    "bursts of 64 KB on the subflow that empties first; waits for it (Linux's own MPTCP)",
    |_| Box::new(Picking::new(Linux::default())),
)
.by_segment();

/// `MPTCP_SEND_BURST_SIZE`: 64 KiB less the TCP header (20), its options (40), the IPv6 header (40)
/// and its fragment header (8), bytes.
const BURST: u64 = (64 << 10) - 108;
/// Pacing rate in slow start and after it, in percent of cwnd/srtt (`tcp_pacing_ss_ratio`,
/// `tcp_pacing_ca_ratio`); for a driver that does not tell the rate.
const SLOW_START_PACE: u64 = 200;
const AVOIDANCE_PACE: u64 = 120;
/// Initial window, segments (RFC 6928), for a subflow of which nothing is known.
const INITIAL_WINDOW: u64 = 10;

#[derive(Debug, Default)]
struct Linux {
    /// Moving average of each subflow's pacing rate, bytes per second.
    pace: BTreeMap<SubflowId, u64>,
    /// The subflow picked last, and what is left of its burst, bytes.
    burst: Option<(SubflowId, u64)>,
}

impl Linux {
    /// The subflow kept from the last pick.
    fn kept(&self, choice: Choice<'_>) -> Option<usize> {
        let (id, left) = self.burst?;
        let index = super::find(choice.view.subflows, id)?;
        (left > 0 && choice.has_room(index)).then_some(index)
    }

    /// Time to empty the socket, in 2^-32 s.
    fn linger(&self, subflow: &Subflow) -> u128 {
        let pace = self.pace.get(&subflow.id()).copied().unwrap_or_else(|| pacing_rate(subflow));
        (u128::from(subflow.queued()) << 32) / u128::from(pace.max(1))
    }

    /// Begins a burst on the picked subflow.
    fn begin(&mut self, choice: Choice<'_>, index: usize) {
        let (view, subflow) = (choice.view, choice.subflow(index));
        let next = view.next_unsent().map_or(view.una, |range| range.start);
        let window = (view.una.saturating_add(view.credit_window)).saturating_sub(next);
        let burst = BURST.min(window).max(1);
        let now = pacing_rate(subflow);
        let average = self.pace.get(&subflow.id()).copied().unwrap_or(now);
        let weighted = |pace: u64, bytes: u64| u128::from(pace) * u128::from(bytes);
        let queued = subflow.queued();
        let sum = weighted(average, queued) + weighted(now, burst);
        let average = sum / (u128::from(queued) + u128::from(burst));
        self.pace.insert(subflow.id(), u64::try_from(average).unwrap_or(u64::MAX));
        self.burst = Some((subflow.id(), burst));
    }
}

impl Rule for Linux {
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize> {
        if let Some(kept) = self.kept(choice) {
            return Some(kept);
        }
        self.pace.retain(|id, _| super::find(choice.view.subflows, *id).is_some());
        let linger = |&index: &usize| self.linger(choice.subflow(index));
        let picked = choice.live().min_by_key(linger)?;
        if choice.has_room(picked) {
            self.begin(choice, picked);
        }
        Some(picked)
    }

    fn sent(&mut self, _id: SubflowId, bytes: u64) {
        if let Some((_, left)) = &mut self.burst {
            *left = left.saturating_sub(bytes);
        }
    }
}

/// The rate at which the subflow paces, bytes per second: as told, else as `tcp_update_pacing_rate`
/// works it out.
fn pacing_rate(subflow: &Subflow) -> u64 {
    let info = subflow.info();
    let told = info.pacing_rate.as_bps() / 8;
    if told > 0 {
        return told;
    }
    let cwnd = match info.cwnd.as_u64() {
        0 => INITIAL_WINDOW * SEGMENT,
        cwnd => cwnd,
    };
    let slow_start = info.ssthresh.is_none_or(|ssthresh| cwnd < ssthresh.as_u64() / 2);
    let percent = if slow_start { SLOW_START_PACE } else { AVOIDANCE_PACE };
    let window = u128::from(cwnd.max(subflow.queued())) * u128::from(percent) / 100;
    let rate = window * 1_000_000_000 / subflow.rtt().as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX).max(1)
}
