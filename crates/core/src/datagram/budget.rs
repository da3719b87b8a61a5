//! How much may be sent in copies.

use std::time::Duration;

use crate::Instant;

/// What copies may take in any case, in bytes a second: 64 kb/s.
const RATE: u64 = 8_000;
/// What is saved of that at most, in bytes.
const SAVED: u64 = 16_000;
/// The part of all that is sent which copies may take: a twentieth.
const PART: u64 = 20;

/// The budget: 64 kb/s, or 5 % of what is sent, whichever is more.
#[derive(Debug)]
pub(super) struct Budget {
    by_time: u64,
    by_bytes: u64,
    /// Bytes of the part that are not a whole one yet.
    rest: u64,
    at: Instant,
}

impl Budget {
    pub(super) fn new(now: Instant) -> Self {
        Self { by_time: SAVED, by_bytes: 0, rest: 0, at: now }
    }

    /// Counts bytes that are sent, not as a copy.
    pub(super) fn sent(&mut self, bytes: u64) {
        self.rest += bytes;
        self.by_bytes = (self.by_bytes + self.rest / PART).min(SAVED);
        self.rest %= PART;
    }

    /// Pays for a copy; whether it could.
    pub(super) fn take(&mut self, bytes: u64, now: Instant) -> bool {
        let earned = now.since(self.at).min(Duration::from_secs(10)).as_nanos() as u64 / 1_000
            * RATE
            / 1_000_000;
        if earned > 0 {
            self.by_time = (self.by_time + earned).min(SAVED);
            self.at = now;
        }
        if self.by_time.max(self.by_bytes) < bytes {
            return false;
        }
        self.by_time = self.by_time.saturating_sub(bytes);
        self.by_bytes = self.by_bytes.saturating_sub(bytes);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_take_64_kbit_a_second_or_a_twentieth() {
        let mut budget = Budget::new(Instant::ZERO);
        let mut copied = 0;
        // 200 bytes each 5 ms: 320 kb/s for 100 s.
        for n in 0..20_000 {
            let now = Instant::from_millis(5 * n);
            budget.sent(200);
            copied += if budget.take(200, now) { 200 } else { 0 };
        }
        assert!((800_000 - 16_000..=800_000 + SAVED).contains(&copied), "{copied}");
        // 80 Mb/s for 10 s.
        let mut copied = 0;
        for n in 0..100_000 {
            let now = Instant::from_millis(100_000 + n / 10);
            budget.sent(1000);
            copied += if budget.take(1000, now) { 1000 } else { 0 };
        }
        assert!((4_900_000..=5_000_000 + 2 * SAVED).contains(&copied), "{copied}");
    }
}
