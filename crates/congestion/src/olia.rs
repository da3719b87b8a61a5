//! OLIA, the opportunistic linked increases of draft-khalili-mptcp-congestion-control-05.

use crate::coupled::{Relative, Rule};
use crate::{Coupling, Member};

/// OLIA's rule, and the bytes between losses that it compares paths by.
#[derive(Debug, Default)]
pub(crate) struct Olia {
    /// Delivered since the last loss.
    since: f64,
    /// Delivered between the last two losses.
    between: f64,
}

impl Rule for Olia {
    /// Per segment acknowledged, `(w/r²) / (Σ wᵢ/rᵢ)² + a/w`, times the window.
    fn increase(coupling: &Coupling<'_>) -> f64 {
        let rates = Relative::to_own(coupling).rates;
        1.0 / (rates * rates) + shift(coupling)
    }

    fn on_delivered(&mut self, bytes: f64) {
        self.since += bytes;
    }

    fn on_loss(&mut self) {
        self.between = std::mem::take(&mut self.since);
    }

    fn epoch_bytes(&self) -> f64 {
        self.since.max(self.between)
    }
}

/// `a`, which moves traffic from the paths with the largest windows to the best ones, if these
/// are others. The best deliver the most between losses for their squared round-trip time; windows
/// are compared in whole segments, as Linux's are (mptcp_olia.c of MPTCP v0.95).
pub(crate) fn shift(coupling: &Coupling<'_>) -> f64 {
    let quality = |member: &Member| match member.srtt_s {
        srtt_s if srtt_s > 0.0 => member.epoch_bytes / (srtt_s * srtt_s),
        _ => 0.0,
    };
    let members = coupling.members;
    let best_quality = members.iter().map(quality).fold(0.0, f64::max);
    let largest_window = members.iter().map(|member| member.cwnd.floor()).fold(0.0, f64::max);
    let large = |member: &Member| member.cwnd.floor() == largest_window;
    let collected = |member: &Member| quality(member) == best_quality && !large(member);

    let Some(own) = members.get(coupling.me) else { return 0.0 };
    let best_but_small = members.iter().filter(|&member| collected(member)).count();
    if best_but_small == 0 {
        return 0.0;
    }
    let n = members.len() as f64;
    if collected(own) {
        1.0 / (n * best_but_small as f64)
    } else if large(own) {
        let largest = members.iter().filter(|&member| large(member)).count();
        -1.0 / (n * largest as f64)
    } else {
        0.0
    }
}
