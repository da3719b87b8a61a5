//! How many flows a client may have at a server, and how fast it may begin new ones: no scan or flood
//! of a machine behind it is to be the server's.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::Instant;

/// What a client may begin over time: a flow each 10 ms.
const EACH: Duration = Duration::from_millis(10);
/// How many may begin at once after a while without.
const BURST: u32 = 500;
/// The most flows, and how long one that is idle counts at least.
const MAX_FLOWS: usize = 8192;
const REMEMBERED: Duration = Duration::from_secs(30);

/// The flows of a client.
#[derive(Debug, Default)]
pub struct FlowGuard {
    now: BTreeSet<u64>,
    before: BTreeSet<u64>,
    since: Instant,
    /// When a whole burst may begin again.
    free_at: Instant,
}

impl FlowGuard {
    /// Counts a packet of a flow (see [`Look`](super::Look)); whether it may go on.
    pub fn admit(&mut self, flow: u64, now: Instant) -> bool {
        if now.since(self.since) >= REMEMBERED {
            (self.before, self.since) = (std::mem::take(&mut self.now), now);
        }
        if self.now.contains(&flow) {
            return true;
        }
        let is_known = self.before.remove(&flow);
        if !is_known {
            let free_at = self.free_at.max(now) + EACH;
            let is_full = self.now.len() + self.before.len() >= MAX_FLOWS;
            if is_full || free_at.since(now) > EACH * BURST {
                return false;
            }
            self.free_at = free_at;
        }
        self.now.insert(flow)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_a_hundred_a_second_and_no_more_than_fit() {
        let at = Instant::from_millis;
        let mut guard = FlowGuard::default();
        assert_eq!((0..2000).filter(|&flow| guard.admit(flow, at(0))).count(), 500);
        assert!(guard.admit(7, at(0)), "one that is there goes on");
        assert_eq!((5000..6000).filter(|&flow| guard.admit(flow, at(1000))).count(), 100);
        // Those in use are many, and stay.
        let mut guard = FlowGuard::default();
        for n in 0..20_000 {
            let now = at(10 * n);
            guard.admit(n, now);
            assert!(guard.admit(0, now), "{n}");
            assert!(guard.now.len() + guard.before.len() <= MAX_FLOWS);
        }
    }
}
