//! A link's rate over time: piecewise constant, looping, integrated exactly in integers.
//!
//! Capacity is counted in *units* of bit·ns/s (rate in b/s × time in ns), so that no rounding
//! enters before a result is turned back into bytes or nanoseconds.

use std::time::Duration;

use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount};

/// Units in a byte: 8 bits × 10^9 ns/s.
pub(crate) const UNITS_PER_BYTE: u128 = 8_000_000_000;

/// Why steps make no rate trace.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// There is no step.
    #[error("a rate trace needs at least one step")]
    Empty,
    /// The first step starts later than 0.
    #[error("the first step of a rate trace starts at {0:?}, it must start at 0")]
    FirstNotZero(Duration),
    /// The trace ends before, or as, its last step starts.
    #[error("a rate trace loops at {period:?}, but its last step starts at {last:?}")]
    PeriodTooShort {
        /// When the trace was to loop.
        period: Duration,
        /// The start of the last step.
        last: Duration,
    },
    /// The trace is longer than the clock.
    #[error("a rate trace of {0:?} is too long; 584 years are the most")]
    TooLong(Duration),
    /// A step does not start after the one before it.
    #[error("step {index} of a rate trace starts at {start:?}, not after the step before it")]
    Unordered {
        /// The step's place, from 0.
        index: usize,
        /// When it was to start.
        start: Duration,
    },
}

/// One step of a trace: `rate` holds from `start` to the next step's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Nanoseconds from the start of the period.
    pub(crate) start: u64,
    /// Bits per second.
    pub(crate) rate: u64,
    /// Units offered from the start of the period to `start`.
    before: u128,
}

/// A piecewise constant rate that loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateTrace {
    /// Never empty; the first starts at 0, starts rise.
    steps: Vec<Step>,
    /// Nanoseconds after which the trace begins again; later than the last step's start.
    period: u64,
    /// Units offered in one period.
    total: u128,
}

impl RateTrace {
    /// A rate that never changes.
    pub fn constant(rate: Bitrate) -> Self {
        Self::build(std::iter::once((0, rate.as_bps())), u64::MAX)
    }

    /// A trace of `(start, rate)` steps, the first of them at 0, that begins again at `period`.
    ///
    /// # Errors
    ///
    /// If there is no step, the first does not start at 0, the starts do not rise strictly, or
    /// `period` is not after the last start or is over 2^64 ns.
    pub fn from_steps(
        steps: Vec<(Duration, Bitrate)>,
        period: Duration,
    ) -> Result<Self, TraceError> {
        let (&(first, _), &(last, _)) = steps.first().zip(steps.last()).ok_or(TraceError::Empty)?;
        if !first.is_zero() {
            return Err(TraceError::FirstNotZero(first));
        }
        if let Some(before) = steps.windows(2).position(|pair| pair[0].0 >= pair[1].0) {
            let index = before + 1;
            return Err(TraceError::Unordered { index, start: steps[index].0 });
        }
        if period <= last {
            return Err(TraceError::PeriodTooShort { period, last });
        }
        let Ok(period) = u64::try_from(period.as_nanos()) else {
            return Err(TraceError::TooLong(period));
        };
        let steps = steps.into_iter().map(|(start, rate)| (nanos(start), rate.as_bps()));
        Ok(Self::build(steps, period))
    }

    /// Sums the capacity up to each step. Neither a sum nor the total can overflow: a rate below
    /// 2^64 over a period below 2^64 stays below 2^128.
    fn build(steps: impl Iterator<Item = (u64, u64)>, period: u64) -> Self {
        let mut trace = Self { steps: Vec::with_capacity(steps.size_hint().0), period, total: 0 };
        for (start, rate) in steps {
            let before = trace.steps.last().map_or(0, |last| last.offered_by(start));
            trace.steps.push(Step { start, rate, before });
        }
        trace.total = trace.steps.last().map_or(0, |last| last.offered_by(period));
        trace
    }

    /// The rate `since_start` after the trace's start.
    pub fn rate_at(&self, since_start: Duration) -> Bitrate {
        let place = nanos(since_start) % self.period;
        Bitrate::bps(self.steps[self.index_at(place)].rate)
    }

    /// The mean rate over a period, rounded down.
    pub fn mean(&self) -> Bitrate {
        Bitrate::bps(u64::try_from(self.total / u128::from(self.period)).unwrap_or(u64::MAX))
    }

    /// The time after which the trace begins again; 2^64 − 1 ns for a constant rate.
    pub fn period(&self) -> Duration {
        Duration::from_nanos(self.period)
    }

    /// The steps of one period: start and rate.
    pub fn steps(&self) -> impl ExactSizeIterator<Item = (Duration, Bitrate)> + '_ {
        self.steps.iter().map(|step| (Duration::from_nanos(step.start), Bitrate::bps(step.rate)))
    }

    /// The bytes the link can carry from `from` to `to` (both since the trace's start), rounded
    /// down; zero if `to` is not after `from`.
    pub fn bytes_between(&self, from: Duration, to: Duration) -> ByteCount {
        let units = self.offered_until(nanos(to)).saturating_sub(self.offered_until(nanos(from)));
        ByteCount::new(u64::try_from(units / UNITS_PER_BYTE).unwrap_or(u64::MAX))
    }

    /// Units offered from the trace's start to `time`. At most 2^64 b/s × 2^64 ns: no overflow.
    fn offered_until(&self, time: u64) -> u128 {
        let place = time % self.period;
        let step = &self.steps[self.index_at(place)];
        u128::from(time / self.period) * self.total + step.offered_by(place)
    }

    /// The step that holds at `place` nanoseconds into the period.
    pub(crate) fn index_at(&self, place: u64) -> usize {
        self.steps.partition_point(|step| step.start <= place) - 1
    }

    /// The step of that index.
    pub(crate) fn step(&self, index: usize) -> Option<Step> {
        self.steps.get(index).copied()
    }

    /// The period in nanoseconds.
    pub(crate) fn period_ns(&self) -> u64 {
        self.period
    }

    /// Units offered in one period.
    pub(crate) fn total_units(&self) -> u128 {
        self.total
    }
}

impl Step {
    /// Units offered from the start of the period to `place`, which is in this step or its end.
    fn offered_by(&self, place: u64) -> u128 {
        self.before + u128::from(self.rate) * u128::from(place - self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// 8 Mb/s (1000 bytes a ms) for 10 ms, nothing for 20 ms, 16 Mb/s for 10 ms: 30 000 bytes in
    /// 40 ms.
    fn steps() -> RateTrace {
        let steps = [(0, 8), (10, 0), (30, 16)];
        let steps = steps.map(|(ms, mbps)| (ms * MS, Bitrate::mbps(mbps)));
        RateTrace::from_steps(steps.to_vec(), 40 * MS).unwrap()
    }

    #[test]
    fn constant_rate_is_the_closed_form() {
        let trace = RateTrace::constant(Bitrate::mbps(12));
        assert_eq!(trace.mean(), Bitrate::mbps(12));
        assert_eq!(trace.rate_at(Duration::from_secs(1 << 30)), Bitrate::mbps(12));
        assert_eq!(trace.bytes_between(3 * MS, 5 * MS), ByteCount::new(3000));
        assert_eq!(trace.finish(7 * MS, ByteCount::new(1500)), Some(8 * MS));
        assert_eq!(trace.finish(7 * MS, ByteCount::ZERO), Some(7 * MS));
        // 100 bytes at 3 b/s: 266.6… s, rounded up to a nanosecond.
        let slow = RateTrace::constant(Bitrate::bps(3));
        let finish = Some(Duration::from_nanos(266_666_666_667));
        assert_eq!(slow.finish(Duration::ZERO, ByteCount::new(100)), finish);
    }

    #[test]
    fn steps_and_loops_are_the_closed_form() {
        let trace = steps();
        assert_eq!(trace.mean(), Bitrate::mbps(6));
        assert_eq!(trace.rate_at(9 * MS), Bitrate::mbps(8));
        assert_eq!(trace.rate_at(10 * MS), Bitrate::ZERO);
        assert_eq!(trace.rate_at(40 * 7 * MS + 35 * MS), Bitrate::mbps(16));
        assert_eq!(trace.bytes_between(5 * MS, 35 * MS), ByteCount::new(15_000));
        assert_eq!(trace.bytes_between(35 * MS, 5 * MS), ByteCount::ZERO);
        assert_eq!(trace.bytes_between(Duration::ZERO, 400 * MS), ByteCount::new(300_000));
        let finish = |start, bytes| trace.finish(start * MS, ByteCount::new(bytes)).unwrap();
        assert_eq!(finish(0, 10_000), 10 * MS);
        assert_eq!(finish(0, 12_000), 31 * MS);
        assert_eq!(finish(12, 1), 30 * MS + Duration::from_nanos(500));
        assert_eq!(finish(35, 15_000), 45 * MS);
        assert_eq!(finish(35, 15_000 + 1_000_000 * 30_000), 40_000_045 * MS);
        assert_eq!(finish(40_000_035, 15_000), 40_000_045 * MS);
    }

    #[test]
    fn a_trace_of_zeros_serves_nothing() {
        let zero = RateTrace::constant(Bitrate::ZERO);
        assert_eq!(zero.finish(MS, ByteCount::new(1)), None);
        assert_eq!(zero.mean(), Bitrate::ZERO);
        let steps = vec![(Duration::ZERO, Bitrate::ZERO), (MS, Bitrate::ZERO)];
        let zeros = RateTrace::from_steps(steps, 2 * MS).unwrap();
        assert_eq!(zeros.finish(MS, ByteCount::new(1)), None);
    }

    #[test]
    fn what_outlasts_the_clock_is_never_served() {
        let trace = RateTrace::constant(Bitrate::bps(1));
        assert_eq!(trace.finish(MS, ByteCount::new(u64::MAX)), None);
        assert_eq!(steps().finish(MS, ByteCount::new(u64::MAX)), None);
        let fast = RateTrace::constant(Bitrate::bps(u64::MAX));
        assert!(fast.finish(MS, ByteCount::new(u64::MAX)).is_some());
        assert_eq!(fast.bytes_between(Duration::ZERO, Duration::MAX), ByteCount::new(u64::MAX));
    }

    #[test]
    fn bad_steps_are_refused() {
        let rate = Bitrate::mbps(1);
        let from = |starts: &[u32], period: u32| {
            let steps = starts.iter().map(|&start| (start * MS, rate)).collect();
            RateTrace::from_steps(steps, period * MS).map(drop)
        };
        assert_eq!(from(&[], 1), Err(TraceError::Empty));
        assert_eq!(from(&[1], 2), Err(TraceError::FirstNotZero(MS)));
        assert_eq!(from(&[0, 2, 2], 3), Err(TraceError::Unordered { index: 2, start: 2 * MS }));
        let short = TraceError::PeriodTooShort { period: 2 * MS, last: 2 * MS };
        assert_eq!(from(&[0, 2], 2), Err(short));
        let long = RateTrace::from_steps(vec![(Duration::ZERO, rate)], Duration::MAX);
        assert_eq!(long, Err(TraceError::TooLong(Duration::MAX)));
    }
}
