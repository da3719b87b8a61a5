//! What a path of a flow carries.

use std::time::Duration;

use weftline_core::Instant;
use weftline_core::time::nanos;
use weftline_scenario::RttMs;

use crate::window::{STEP, STEPS_MAX, Window, goodput_mbps};

/// Measures what a flow does on one of its paths.
///
/// The sender's smoothed round-trip time is what a kernel tells of a connection, and no program can
/// look at it for each acknowledgement: it is sampled by time, so that a path that stalls shows. The
/// warm-up is in it, as in the path's counters.
#[derive(Clone, Debug)]
pub struct PathMeasurement {
    window: Window,
    arrived: u64,
    rtt: Option<Duration>,
    /// When the next sample is due.
    next: Instant,
    samples_ns: Vec<u64>,
}

/// The figures of a path: see [`DEFINITIONS`](crate::DEFINITIONS).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PathFigures {
    /// Mb/s that arrived; `None` of no time.
    pub goodput_mbps: Option<f64>,
    /// Smoothed round-trip times.
    pub rtt_ms: Option<RttMs>,
}

impl PathMeasurement {
    /// Measures what happens in `window`.
    pub const fn new(window: Window) -> Self {
        Self { window, arrived: 0, rtt: None, next: window.begin, samples_ns: Vec::new() }
    }

    /// A packet with `bytes` of TCP payload arrived at `now`.
    pub fn arrived(&mut self, now: Instant, bytes: u64) {
        if self.window.counts(now) {
            self.arrived += bytes;
        }
    }

    /// The sender's smoothed round-trip time is `rtt` from `now` on. Time never goes back.
    pub fn rtt(&mut self, now: Instant, rtt: Duration) {
        self.sample(now);
        self.rtt = Some(rtt);
    }

    /// Takes the samples that are due before `now`.
    fn sample(&mut self, now: Instant) {
        while self.next < now.min(self.window.until) && self.samples_ns.len() < STEPS_MAX {
            self.samples_ns.extend(self.rtt.map(nanos));
            self.next += STEP;
        }
    }

    /// The samples up to `end`; of less than a step, how it ended.
    fn samples_until(mut self, end: Instant) -> Vec<u64> {
        self.sample(end);
        if self.samples_ns.is_empty() {
            self.samples_ns.extend(self.rtt.map(nanos));
        }
        self.samples_ns
    }

    /// The figures of a flow whose part that counts ended at `end`.
    pub fn figures(self, end: Instant) -> PathFigures {
        Self::figures_of([(self, end)])
    }

    /// The figures of flows that share out one workload, each with the end of its part that counts:
    /// as those of [`FlowMeasurement::figures_of`](crate::FlowMeasurement::figures_of).
    pub fn figures_of(parts: impl IntoIterator<Item = (Self, Instant)>) -> PathFigures {
        let (parts, ends): (Vec<Self>, Vec<Instant>) = parts.into_iter().unzip();
        let Some(window) = Window::around(parts.iter().map(|part| part.window)) else {
            return PathFigures::default();
        };
        let end = ends.iter().copied().fold(window.from, Instant::max).min(window.until);
        let arrived = parts.iter().map(|part| part.arrived).sum();
        let samples = parts.into_iter().zip(ends).flat_map(|(part, end)| part.samples_until(end));
        PathFigures {
            goodput_mbps: goodput_mbps(arrived, end.since(window.from)),
            rtt_ms: rtt_ms(samples.collect()),
        }
    }
}

/// Mean and 95th percentile; `None` of none.
fn rtt_ms(mut samples_ns: Vec<u64>) -> Option<RttMs> {
    samples_ns.sort_unstable();
    let last = (samples_ns.len() * 95).div_ceil(100).checked_sub(1)?;
    let mean = samples_ns.iter().sum::<u64>() as f64 / samples_ns.len() as f64;
    Some(RttMs { mean: mean / 1e6, p95: samples_ns[last] as f64 / 1e6 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(at: u64) -> Instant {
        Instant::from_millis(at)
    }

    #[test]
    fn round_trip_times_are_sampled_by_time() {
        let window = Window::new(ms(0), ms(0), ms(2000), Duration::from_secs(1));
        let mut path = PathMeasurement::new(window);
        // A thousand acknowledgements at 10 ms, then few that wait: 1.2 s of two at 10 ms, the rest
        // at 50 ms.
        for at in 0..1000 {
            path.rtt(ms(at), Duration::from_millis(10));
        }
        path.rtt(ms(1150), Duration::from_millis(50));
        path.rtt(ms(1950), Duration::from_millis(50));
        let rtt = path.figures(ms(2000)).rtt_ms.unwrap();
        assert_eq!((rtt.mean, rtt.p95), ((12.0 * 10.0 + 8.0 * 50.0) / 20.0, 50.0));
    }

    #[test]
    fn a_short_run_has_its_last_round_trip_time() {
        let mut path = PathMeasurement::new(Window::whole(ms(0), ms(0), ms(2000)));
        assert_eq!(path.clone().figures(ms(50)).rtt_ms, None);
        path.rtt(ms(20), Duration::from_millis(20));
        path.arrived(ms(40), 50_000);
        let figures = path.figures(ms(50));
        assert_eq!(figures.rtt_ms, Some(RttMs { mean: 20.0, p95: 20.0 }));
        assert!((figures.goodput_mbps.unwrap() - 8.0).abs() < 1e-9);
    }

    #[test]
    fn what_arrives_outside_the_window_does_not_count() {
        let window = Window::new(ms(0), ms(0), ms(2000), Duration::from_secs(1));
        let mut path = PathMeasurement::new(window);
        for (at, bytes) in [(999, 7), (1000, 1000), (1999, 1000), (2000, 7)] {
            path.arrived(ms(at), bytes);
        }
        assert!((path.figures(ms(2100)).goodput_mbps.unwrap() - 0.016).abs() < 1e-9);
    }

    #[test]
    fn flows_on_a_path_share_all_their_time() {
        let part = |begin: u64, until: u64, rtt: u64| {
            let window = Window::new(ms(0), ms(begin), ms(until), Duration::ZERO);
            let mut path = PathMeasurement::new(window);
            path.rtt(ms(begin), Duration::from_millis(rtt));
            path.arrived(ms(begin + 10), 500_000);
            (path, ms(until))
        };
        let figures = PathMeasurement::figures_of([part(1000, 2000, 30), part(0, 1000, 10)]);
        assert_eq!(figures.goodput_mbps, Some(4.0));
        assert_eq!(figures.rtt_ms, Some(RttMs { mean: 20.0, p95: 30.0 }));
        assert_eq!(PathMeasurement::figures_of([]), PathFigures::default());
        let (path, _) = part(1000, 2000, 30);
        assert_eq!(path.figures(ms(1000)).goodput_mbps, None, "no time, no goodput");
    }
}
