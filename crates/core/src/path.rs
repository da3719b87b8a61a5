//! What is known of a path and of the subflow on it: the kernel's metrics, and our own
//! measurements of delivery time and rate.

use std::time::Duration;

use crate::time::nanos;
use crate::{Bitrate, ByteCount, Instant};

/// A path, numbered by the client: one local interface or address. It keeps its number when its
/// subflow is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u64);

/// A subflow, one TCP connection on a path; numbered by the client, never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubflowId(pub u64);

/// What the kernel tells of a subflow's socket (`TCP_INFO`), or the simulator of its endpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathInfo {
    /// Congestion window.
    pub cwnd: ByteCount,
    /// Sent and not acknowledged by the peer's TCP.
    pub in_flight: ByteCount,
    /// In the socket and not sent yet.
    pub unsent: ByteCount,
    /// Smoothed round-trip time; zero before the first sample.
    pub srtt: Duration,
    /// Round-trip time variation.
    pub rttvar: Duration,
    /// Least round-trip time seen.
    pub min_rtt: Duration,
    /// The kernel's latest delivery rate.
    pub delivery_rate: Bitrate,
    /// Segments retransmitted since the subflow began.
    pub retransmitted: u64,
    /// Slow start threshold; `None` in the first slow start.
    pub ssthresh: Option<ByteCount>,
    /// The rate at which the sender paces, or would; zero if it is not known.
    pub pacing_rate: Bitrate,
    /// Whether the sender recovers from a retransmission timeout (`TCP_CA_Loss`): kernel
    /// schedulers give such a subflow nothing new.
    pub timed_out: bool,
}

impl PathInfo {
    /// In the socket: sent and unacknowledged, or unsent.
    pub const fn queued(&self) -> ByteCount {
        ByteCount::new(self.in_flight.as_u64().saturating_add(self.unsent.as_u64()))
    }

    /// Whether the congestion window is below the slow start threshold.
    pub fn is_in_slow_start(&self) -> bool {
        self.ssthresh.is_none_or(|ssthresh| self.cwnd < ssthresh)
    }
}

/// So many mean deviations above the mean a time is late (`K` of RFC 6298 §2).
pub(crate) const DEVIATIONS: u32 = 4;

/// Mean and mean deviation of a time, smoothed as in RFC 6298 but slower: there is a sample per
/// acknowledgement, many in one round trip.
#[derive(Clone, Copy, Debug, Default)]
pub struct TimeEstimate {
    mean_ns: u64,
    deviation_ns: u64,
    samples: u64,
}

impl TimeEstimate {
    const MEAN_SHIFT: u32 = 4;
    const DEVIATION_SHIFT: u32 = 3;

    /// Takes a sample.
    pub fn add(&mut self, sample: Duration) {
        let sample = nanos(sample);
        if self.samples == 0 {
            self.mean_ns = sample;
            self.deviation_ns = sample / 2;
        } else {
            let error = sample.abs_diff(self.mean_ns);
            self.mean_ns = step(self.mean_ns, sample, Self::MEAN_SHIFT);
            self.deviation_ns = step(self.deviation_ns, error, Self::DEVIATION_SHIFT);
        }
        self.samples += 1;
    }

    /// The mean, if there was a sample.
    pub fn mean(&self) -> Option<Duration> {
        (self.samples > 0).then(|| Duration::from_nanos(self.mean_ns))
    }

    /// Mean plus four mean deviations: longer than that is late.
    pub fn late(&self) -> Option<Duration> {
        let late = self.mean_ns + u64::from(DEVIATIONS) * self.deviation_ns;
        (self.samples > 0).then(|| Duration::from_nanos(late))
    }
}

/// Moves `from` by 1/2^`shift` of the way to `to`.
fn step(from: u64, to: u64, shift: u32) -> u64 {
    if to >= from { from + ((to - from) >> shift) } else { from - ((from - to) >> shift) }
}

/// The rate of a path, from the bytes it delivers in intervals of 100 ms. Only the time in which the
/// path has data to deliver counts.
#[derive(Clone, Debug, Default)]
pub struct PathMeter {
    interval_start: Instant,
    interval_bytes: u64,
    interval_busy: Duration,
    /// Up to when the time has been counted.
    counted: Instant,
    busy: bool,
    intervals: u64,
    rate_bps: f64,
}

impl PathMeter {
    const INTERVAL: Duration = Duration::from_millis(100);
    /// An interval with less time of delivery says nothing about the rate.
    const LEAST_BUSY: Duration = Duration::from_millis(20);
    /// Intervals closed at once; after a longer silence the rest tells nothing more.
    const MOST_INTERVALS: u32 = 50;
    /// Weight of a new interval in the rate; half of the old is gone after 0.3 s.
    const RATE_WEIGHT: f64 = 0.25;

    /// Notes that `bytes` were delivered by `now`; `busy` is whether more are on their way.
    pub fn delivered(&mut self, bytes: u64, busy: bool, now: Instant) {
        self.roll(now);
        self.interval_bytes += bytes;
        self.busy = busy;
    }

    /// Says that nothing is on its way any more: silence from here on is no outage.
    pub fn idle(&mut self, now: Instant) {
        self.delivered(0, false, now);
    }

    /// Counts the time up to `now` and closes the intervals that have ended by then.
    fn roll(&mut self, now: Instant) {
        for _ in 0..Self::MOST_INTERVALS {
            let end = self.interval_start + Self::INTERVAL;
            self.count(now.min(end));
            if now < end {
                return;
            }
            self.close_interval();
            self.interval_start = end;
        }
        self.interval_start = now;
        self.counted = now;
    }

    fn count(&mut self, until: Instant) {
        if self.busy {
            self.interval_busy += until.since(self.counted);
        }
        self.counted = self.counted.max(until);
    }

    fn close_interval(&mut self) {
        let (bytes, busy) = (self.interval_bytes, self.interval_busy);
        self.interval_bytes = 0;
        self.interval_busy = Duration::ZERO;
        if busy < Self::LEAST_BUSY {
            return;
        }
        let rate = bytes as f64 * 8.0 / busy.as_secs_f64();
        if self.intervals == 0 {
            self.rate_bps = rate;
        }
        self.rate_bps += (rate - self.rate_bps) * Self::RATE_WEIGHT;
        self.intervals += 1;
    }

    /// The rate at which the path delivers when it has data; `None` before the first interval.
    pub fn rate(&self) -> Option<Bitrate> {
        (self.intervals > 0).then_some(Bitrate::bps(self.rate_bps as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_settle_on_a_constant() {
        let mut estimate = TimeEstimate::default();
        assert_eq!(estimate.late(), None);
        for _ in 0..200 {
            estimate.add(Duration::from_millis(20));
        }
        let late = estimate.late().unwrap();
        assert!(late >= Duration::from_millis(20) && late < Duration::from_millis(21), "{late:?}");
    }

    #[test]
    fn only_the_time_with_data_to_deliver_counts() {
        let (mut steady, mut idle) = (PathMeter::default(), PathMeter::default());
        for tick in 1..400 {
            let now = Instant::from_millis(10 * tick);
            steady.delivered(125_000, true, now);
            if tick % 100 > 60 {
                idle.idle(now);
            } else {
                idle.delivered(125_000, true, now);
            }
        }
        for meter in [steady, idle] {
            let rate = meter.rate().unwrap().as_mbps_f64();
            assert!((95.0..105.0).contains(&rate), "{rate}");
        }
    }
}
