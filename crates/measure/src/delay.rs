//! Distributions of delays.

use std::time::Duration;

use hdrhistogram::Histogram;
use weftline_scenario::DelayMs;

/// Delays up to ten minutes are told apart, in microseconds with three digits.
const MAX_US: u64 = 600_000_000;

/// A distribution of delays.
#[derive(Clone, Debug)]
pub struct Delays {
    us: Histogram<u64>,
}

impl Default for Delays {
    fn default() -> Self {
        let us = Histogram::new_with_bounds(1, MAX_US, 3);
        Self { us: us.expect("the bounds are in order") }
    }
}

impl Delays {
    /// Counts `count` bytes, packets or messages that took `delay`.
    pub fn record(&mut self, delay: Duration, count: u64) {
        let us = u64::try_from(delay.as_micros()).unwrap_or(MAX_US);
        self.us.saturating_record_n(us.max(1), count);
    }

    /// Adds what another one has counted.
    pub fn add(&mut self, other: &Self) {
        self.us.add(&other.us).expect("all have the same bounds");
    }

    /// Its quantiles in milliseconds; `None` if nothing was counted.
    pub fn figures(&self) -> Option<DelayMs> {
        let at = |quantile| self.us.value_at_quantile(quantile) as f64 / 1e3;
        (!self.us.is_empty()).then(|| DelayMs {
            p50: at(0.50),
            p95: at(0.95),
            p99: at(0.99),
            max: self.us.max() as f64 / 1e3,
        })
    }
}
