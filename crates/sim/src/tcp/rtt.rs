//! Round-trip time and the retransmission timeout (RFC 6298, with Linux's bounds).

use super::{MS, SECOND};

/// The timeout before the first sample (RFC 6298 §2.1).
const INITIAL_RTO_NS: u64 = SECOND;
/// Least addition to the smoothed round-trip time (Linux, `TCP_RTO_MIN`).
const MIN_ADDITION_NS: u64 = 200 * MS;
/// The longest timeout (Linux, `TCP_RTO_MAX`).
const MAX_RTO_NS: u64 = 120 * SECOND;

/// Smoothed round-trip time and its variation.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RttEstimator {
    /// Times 8, so that the eighths of RFC 6298 are not lost.
    srtt8_ns: u64,
    /// Times 4.
    var4_ns: u64,
    min_ns: Option<u64>,
    samples: u64,
}

impl RttEstimator {
    /// Takes a sample for the smoothed time.
    pub(super) fn add(&mut self, sample_ns: u64) {
        if self.samples == 0 {
            self.srtt8_ns = sample_ns * 8;
            self.var4_ns = sample_ns * 2;
        } else {
            let error = sample_ns.abs_diff(self.srtt8_ns / 8);
            self.var4_ns = self.var4_ns - self.var4_ns / 4 + error;
            self.srtt8_ns = self.srtt8_ns - self.srtt8_ns / 8 + sample_ns;
        }
        self.samples += 1;
    }

    /// Takes a sample for the least time.
    pub(super) fn add_min(&mut self, sample_ns: u64) {
        self.min_ns = Some(self.min_ns.map_or(sample_ns, |least| least.min(sample_ns)));
    }

    /// The smoothed time; 0 before the first sample.
    pub(super) const fn srtt_ns(&self) -> u64 {
        self.srtt8_ns / 8
    }

    /// Its variation.
    pub(super) const fn var_ns(&self) -> u64 {
        self.var4_ns / 4
    }

    /// The least time seen.
    pub(super) const fn min_ns(&self) -> Option<u64> {
        self.min_ns
    }

    /// Whether there was a sample.
    pub(super) const fn is_known(&self) -> bool {
        self.samples > 0
    }

    /// The timeout after `backoff` expiries in a row.
    pub(super) fn rto_ns(&self, backoff: u32) -> u64 {
        let base = match self.samples {
            0 => INITIAL_RTO_NS,
            _ => self.srtt_ns() + self.var4_ns.max(MIN_ADDITION_NS),
        };
        base.saturating_mul(1 << backoff.min(20)).min(MAX_RTO_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_6298_with_linux_bounds() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.rto_ns(0), SECOND);
        rtt.add(100 * MS);
        assert_eq!((rtt.srtt_ns(), rtt.var_ns()), (100 * MS, 50 * MS));
        assert_eq!(rtt.rto_ns(0), 300 * MS);
        rtt.add(120 * MS);
        assert_eq!((rtt.srtt_ns(), rtt.var_ns()), (102_500_000, 42_500_000));
        // The RFC's own value is 272.5 ms; Linux adds at least 200 ms.
        assert_eq!(rtt.rto_ns(0), 302_500_000);
        assert_eq!(rtt.rto_ns(2), 1_210_000_000);
        assert_eq!(rtt.rto_ns(31), MAX_RTO_NS);
    }
}
