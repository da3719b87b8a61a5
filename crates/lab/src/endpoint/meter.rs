//! What the receiving application measures.

use std::time::Duration;

use hdrhistogram::Histogram;
use weftline_core::Instant;
use weftline_core::time::nanos;

use super::protocol::{Quantiles, ReceiverReport};
use crate::emulator::SERIES_STEP;

/// Longest series kept: three hours in steps of 100 ms.
const SERIES_MAX: usize = 3 * 36_000;

/// Measures a stream as it is released to the application.
#[derive(Debug)]
pub(super) struct Meter {
    epoch: Instant,
    /// The part of the stream's time that counts for goodput, delay and gaps.
    from: Instant,
    until: Instant,
    bytes: u64,
    bytes_measured: u64,
    series: Vec<u64>,
    /// Microseconds from 1 to a day, to 1 %.
    delay_us: Histogram<u64>,
    last: Option<Instant>,
    longest_gap: Duration,
}

impl Meter {
    /// Measures what comes between `from` and `until`; series and total start at `epoch`.
    pub(super) fn new(epoch: Instant, from: Instant, until: Instant) -> Self {
        Self {
            epoch,
            from,
            until,
            bytes: 0,
            bytes_measured: 0,
            series: Vec::new(),
            delay_us: Histogram::new_with_bounds(1, 86_400_000_000, 2)
                .expect("the bounds are in order and the precision is at most 5"),
            last: None,
            longest_gap: Duration::ZERO,
        }
    }

    /// `count` bytes were released at `now`.
    pub(super) fn released(&mut self, now: Instant, count: u64) {
        if now >= self.until {
            return;
        }
        self.bytes += count;
        let step = (now.since(self.epoch).as_nanos() / SERIES_STEP.as_nanos()) as usize;
        if step < SERIES_MAX {
            if step >= self.series.len() {
                self.series.resize(step + 1, 0);
            }
            self.series[step] += count;
        }
        if now >= self.from {
            self.bytes_measured += count;
            self.gap_until(now);
        }
        self.last = Some(now);
    }

    /// A block stamped `stamp` was released at `now`.
    pub(super) fn block(&mut self, now: Instant, stamp: Instant) {
        if now >= self.from && now < self.until {
            self.delay_us.saturating_record(nanos(now.since(stamp)) / 1000);
        }
    }

    fn gap_until(&mut self, now: Instant) {
        // Before the first byte there is no delivery that could pause.
        if let Some(last) = self.last {
            self.longest_gap = self.longest_gap.max(now.since(last));
        }
    }

    /// The measurement is over at `now`.
    pub(super) fn report(mut self, now: Instant) -> ReceiverReport {
        self.gap_until(now.min(self.until));
        ReceiverReport {
            bytes: self.bytes,
            bytes_measured: self.bytes_measured,
            series: self.series,
            delay_ms: quantiles(&self.delay_us),
            longest_gap_ms: self.last.map(|_| self.longest_gap.as_secs_f64() * 1e3),
            duplicate_bytes: None,
            completion_s: None,
            error: None,
        }
    }
}

/// In milliseconds, of a histogram of microseconds; `None` if it is empty.
fn quantiles(histogram: &Histogram<u64>) -> Option<Quantiles> {
    let at = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
    let max = histogram.max() as f64 / 1e3;
    (!histogram.is_empty()).then(|| Quantiles { p50: at(0.5), p95: at(0.95), p99: at(0.99), max })
}

/// Mean and 95th percentile in milliseconds of round-trip times in nanoseconds; zeros of none.
pub(super) fn rtt_quantiles(rtt_ns: &mut [u64]) -> (f64, f64) {
    if rtt_ns.is_empty() {
        return (0.0, 0.0);
    }
    rtt_ns.sort_unstable();
    let mean = rtt_ns.iter().sum::<u64>() as f64 / rtt_ns.len() as f64;
    let p95 = rtt_ns[(rtt_ns.len() * 95).div_ceil(100) - 1];
    (mean / 1e6, p95 as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_measured_part_counts() {
        let ms = Instant::from_millis;
        let mut meter = Meter::new(ms(1000), ms(2000), ms(3000));
        for (at, count) in [(1010, 1), (1950, 10), (2100, 100), (2150, 100), (2900, 1000)] {
            meter.released(ms(at), count);
            meter.block(ms(at), ms(at - 10));
        }
        meter.released(ms(3001), 9999);
        let report = meter.report(ms(3001));
        assert_eq!(report.bytes, 1211);
        assert_eq!(report.bytes_measured, 1200);
        assert_eq!(report.longest_gap_ms, Some(750.0));
        assert_eq!((report.series[0], report.series[9], report.series[19]), (1, 10, 1000));
        let delay = report.delay_ms.unwrap();
        assert!((9.9..10.2).contains(&delay.p99), "{delay:?}");
    }

    #[test]
    fn a_silent_end_is_a_gap() {
        let ms = Instant::from_millis;
        let mut meter = Meter::new(ms(0), ms(100), ms(1000));
        meter.released(ms(50), 1);
        assert_eq!(meter.report(ms(1000)).longest_gap_ms, Some(950.0));
        let nothing = Meter::new(ms(0), ms(100), ms(1000)).report(ms(1000));
        assert_eq!((nothing.longest_gap_ms, nothing.delay_ms), (None, None));
    }

    #[test]
    fn round_trip_times_are_summed_up() {
        assert_eq!(rtt_quantiles(&mut []), (0.0, 0.0));
        let mut rtts: Vec<u64> = (1..=100).rev().map(|k| k * 1_000_000).collect();
        assert_eq!(rtt_quantiles(&mut rtts), (50.5, 95.0));
    }
}
