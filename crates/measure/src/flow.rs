//! What the receiving application of a flow sees.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weftline_core::Instant;
use weftline_scenario::{DelayMs, FlowRecord, RunRecord, ShortTermMbps};

use crate::delay::Delays;
use crate::window::{STEP, Window, goodput_mbps, mbps};

/// Measures a flow as its receiving application gets it, in order.
#[derive(Clone, Debug)]
pub struct FlowMeasurement {
    window: Window,
    bytes: u64,
    /// Those that count.
    counted: u64,
    /// Bytes in each step since the epoch.
    series: Vec<u64>,
    delays: Delays,
    /// When bytes were released last; the flow's beginning before the first.
    last: Instant,
    longest_gap: Duration,
    /// No more bytes come.
    is_over: bool,
    completed: Option<Instant>,
}

/// The figures of a flow, or of a run: see [`DEFINITIONS`](crate::DEFINITIONS).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowFigures {
    /// Mb/s after the warm-up.
    pub goodput_mbps: Option<f64>,
    /// Mb/s with the warm-up.
    pub goodput_total_mbps: Option<f64>,
    /// Bytes released in order.
    pub bytes_delivered: Option<u64>,
    /// Seconds to the end that the flow has of itself.
    pub completion_s: Option<f64>,
    /// From write to release.
    pub in_order_delay_ms: Option<DelayMs>,
    /// Mb/s in steps.
    pub short_term_mbps: Option<ShortTermMbps>,
    /// Longest time without bytes.
    pub longest_gap_ms: Option<f64>,
    /// Bytes in each [`STEP`] since the epoch that is over.
    pub series: Vec<u64>,
}

impl FlowMeasurement {
    /// Measures what comes in `window`.
    pub fn new(window: Window) -> Self {
        Self {
            window,
            bytes: 0,
            counted: 0,
            series: Vec::new(),
            delays: Delays::default(),
            last: window.begin,
            longest_gap: Duration::ZERO,
            is_over: false,
            completed: None,
        }
    }

    /// What counts.
    pub const fn window(&self) -> Window {
        self.window
    }

    /// `bytes` were released to the application at `now`. Time never goes back.
    pub fn released(&mut self, now: Instant, bytes: u64) {
        if now >= self.window.until {
            return;
        }
        self.bytes += bytes;
        if let Some(step) = self.window.step(now) {
            if self.series.len() <= step {
                self.series.resize(step + 1, 0);
            }
            self.series[step] += bytes;
        }
        if self.window.counts(now) {
            self.counted += bytes;
            self.gap_until(now);
        }
        self.last = now;
    }

    /// `bytes` of what was released at `now` had been written at `written`.
    pub fn delayed(&mut self, now: Instant, written: Instant, bytes: u64) {
        if self.window.counts(now) {
            self.delays.record(now.since(written), bytes);
        }
    }

    /// The last byte has come: from now on its absence is no gap.
    pub const fn over(&mut self) {
        self.is_over = true;
    }

    /// The flow has come to the end that it has of itself: a transfer to its last byte, a clip to
    /// its last picture. Where its time was over before, it has not come to it.
    pub fn completed(&mut self, now: Instant) {
        if now < self.window.until {
            self.over();
            self.completed = Some(now);
        }
    }

    fn gap_until(&mut self, now: Instant) {
        self.longest_gap = self.longest_gap.max(now.since(self.last));
    }

    /// When the part that counts ended, for a run that ends at `now`.
    pub fn end(&self, now: Instant) -> Instant {
        self.completed.unwrap_or(now).min(self.window.until).max(self.window.from)
    }

    /// Whether it has come to its own end.
    pub const fn is_completed(&self) -> bool {
        self.completed.is_some()
    }

    /// The longest gap, that which is open at `now` too.
    fn gap(&self, now: Instant) -> Duration {
        let open = now.min(self.window.until).since(self.last);
        if self.is_over { self.longest_gap } else { self.longest_gap.max(open) }
    }

    /// The figures of a run that ends at `now`.
    pub fn figures(&self, now: Instant) -> FlowFigures {
        Self::figures_of(&[self], now)
    }

    /// The figures of flows that share out one workload, in a run that ends at `now`: bytes of all
    /// over the time from the first that counts to the last that ends. All have one epoch.
    pub fn figures_of(parts: &[&Self], now: Instant) -> FlowFigures {
        let Some(window) = Window::around(parts.iter().map(|part| part.window)) else {
            return FlowFigures::default();
        };
        let end = parts.iter().map(|part| part.end(now)).fold(window.from, Instant::max);
        let sum = |of: fn(&Self) -> u64| parts.iter().map(|part| of(part)).sum::<u64>();
        let length = window.steps_until(now.min(window.until)).min(crate::STEPS_MAX);
        let mut series = vec![0; length];
        let mut delays = Delays::default();
        for part in parts {
            series.iter_mut().zip(&part.series).for_each(|(all, bytes)| *all += bytes);
            delays.add(&part.delays);
        }
        let completed = Self::completion_of(parts);
        let gap = parts.iter().map(|part| part.gap(now)).max().unwrap_or_default();
        FlowFigures {
            goodput_mbps: goodput_mbps(sum(|part| part.counted), end.since(window.from)),
            goodput_total_mbps: goodput_mbps(sum(|part| part.bytes), end.since(window.begin)),
            bytes_delivered: Some(sum(|part| part.bytes)),
            completion_s: completed.map(|at| at.since(window.begin).as_secs_f64()),
            in_order_delay_ms: delays.figures(),
            short_term_mbps: short_term(&window, end, &series),
            longest_gap_ms: Some(gap.as_secs_f64() * 1e3),
            series,
        }
    }

    /// When the last of them came to its own end, if all did.
    fn completion_of(parts: &[&Self]) -> Option<Instant> {
        let all: Option<Vec<Instant>> = parts.iter().map(|part| part.completed).collect();
        all?.into_iter().max()
    }
}

/// The distribution over the steps that count in full.
fn short_term(window: &Window, end: Instant, series: &[u64]) -> Option<ShortTermMbps> {
    let steps = window.first_step()..window.steps_until(end).min(crate::STEPS_MAX);
    let bytes = |step: usize| series.get(step).copied().unwrap_or(0);
    let mut steps: Vec<u64> = steps.map(bytes).collect();
    steps.sort_unstable();
    let at = |percent: usize| {
        let place = (steps.len() * percent).div_ceil(100).saturating_sub(1);
        mbps(steps[place], STEP)
    };
    (!steps.is_empty()).then(|| ShortTermMbps { p5: at(5), p50: at(50), p95: at(95) })
}

impl FlowFigures {
    /// A run's record with these figures and nothing else.
    pub fn of_run(&self) -> RunRecord {
        RunRecord {
            goodput_mbps: self.goodput_mbps,
            goodput_total_mbps: self.goodput_total_mbps,
            bytes_delivered: self.bytes_delivered,
            completion_s: self.completion_s,
            in_order_delay_ms: self.in_order_delay_ms,
            short_term_mbps: self.short_term_mbps,
            longest_gap_ms: self.longest_gap_ms,
            ..RunRecord::default()
        }
    }

    /// A flow's record with these figures and nothing else.
    pub fn of_flow(&self) -> FlowRecord {
        FlowRecord {
            goodput_mbps: self.goodput_mbps,
            bytes_delivered: self.bytes_delivered,
            completion_s: self.completion_s,
            in_order_delay_ms: self.in_order_delay_ms,
            longest_gap_ms: self.longest_gap_ms,
            ..FlowRecord::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(at: u64) -> Instant {
        Instant::from_millis(at)
    }

    #[test]
    fn only_what_comes_after_the_warm_up_and_before_the_end_counts() {
        let window = Window::new(ms(1000), ms(1000), ms(3000), Duration::from_secs(1));
        let mut flow = FlowMeasurement::new(window);
        for (at, count) in [(1010, 1), (1950, 10), (2100, 100), (2150, 100), (2900, 1000)] {
            flow.released(ms(at), count);
            flow.delayed(ms(at), ms(at - if at < 2000 { 500 } else { 10 }), count);
        }
        flow.released(ms(3000), 9999);
        flow.delayed(ms(3000), ms(0), 9999);
        let figures = flow.figures(ms(3001));
        assert_eq!(figures.bytes_delivered, Some(1211));
        assert!((figures.goodput_mbps.unwrap() - 0.0096).abs() < 1e-9);
        assert!((figures.goodput_total_mbps.unwrap() - 0.004844).abs() < 1e-9);
        // The pause that the warm-up's end falls into counts from its beginning.
        assert_eq!(figures.longest_gap_ms, Some(750.0));
        assert_eq!(figures.series.len(), 20);
        assert_eq!((figures.series[0], figures.series[9], figures.series[19]), (1, 10, 1000));
        let delay = figures.in_order_delay_ms.unwrap();
        assert!((9.9..10.1).contains(&delay.max), "{delay:?}");
        let short = figures.short_term_mbps.unwrap();
        assert_eq!((short.p5, short.p50), (0.0, 0.0));
        assert!((short.p95 - 0.08).abs() < 1e-9, "{short:?}");
    }

    #[test]
    fn silence_at_either_end_is_a_gap() {
        let window = Window::whole(ms(0), ms(0), ms(1000));
        let mut late = FlowMeasurement::new(window);
        late.released(ms(600), 1);
        assert_eq!(late.figures(ms(1000)).longest_gap_ms, Some(600.0));
        let mut stopped = FlowMeasurement::new(window);
        stopped.released(ms(50), 1);
        assert_eq!(stopped.figures(ms(1200)).longest_gap_ms, Some(950.0));
        stopped.over();
        assert_eq!(stopped.figures(ms(1200)).longest_gap_ms, Some(50.0));
        let nothing = FlowMeasurement::new(window).figures(ms(1000));
        assert_eq!((nothing.longest_gap_ms, nothing.in_order_delay_ms), (Some(1000.0), None));
    }

    #[test]
    fn what_has_an_end_of_its_own_is_measured_up_to_it() {
        let mut flow = FlowMeasurement::new(Window::whole(ms(0), ms(500), ms(5000)));
        flow.released(ms(1500), 1_000_000);
        // Not there in time: over the time there was.
        assert_eq!(flow.figures(ms(5000)).goodput_mbps, Some(8.0 / 4.5));
        flow.completed(ms(1500));
        let figures = flow.figures(ms(1500));
        assert_eq!((figures.completion_s, figures.goodput_mbps), (Some(1.0), Some(8.0)));
        assert_eq!(figures.goodput_total_mbps, figures.goodput_mbps);
    }

    #[test]
    fn a_flow_of_its_own_time_counts_from_there() {
        let warmup = Duration::from_secs(1);
        let late = Window::new(ms(0), ms(3000), ms(5000), warmup);
        assert_eq!((late.from, late.first_step()), (ms(3000), 30));
        let early = Window::new(ms(0), ms(500), ms(5000), warmup);
        assert_eq!(early.from, ms(1000));
        assert_eq!(Window::new(ms(0), ms(0), ms(500), warmup).from, ms(500), "nothing counts");
    }

    #[test]
    fn an_end_that_comes_too_late_is_none() {
        let mut flow = FlowMeasurement::new(Window::whole(ms(0), ms(0), ms(1000)));
        flow.released(ms(500), 500_000);
        flow.completed(ms(1000));
        let figures = flow.figures(ms(1000));
        assert_eq!((flow.is_completed(), figures.completion_s), (false, None));
        assert_eq!((figures.goodput_mbps, figures.longest_gap_ms), (Some(4.0), Some(500.0)));
    }

    #[test]
    fn what_had_no_time_has_no_goodput() {
        let warmup = Duration::from_secs(1);
        let mut flow = FlowMeasurement::new(Window::new(ms(0), ms(0), ms(3000), warmup));
        flow.released(ms(500), 500_000);
        let figures = flow.figures(ms(1000));
        assert_eq!((figures.goodput_mbps, figures.goodput_total_mbps), (None, Some(4.0)));
    }

    #[test]
    fn parts_of_a_workload_are_measured_together() {
        let part = |at: u64, bytes| {
            let mut part = FlowMeasurement::new(Window::whole(ms(0), ms(0), ms(2000)));
            part.released(ms(at), bytes);
            part.delayed(ms(at), ms(at - 10), bytes);
            part.completed(ms(at));
            part
        };
        let [one, two] = [part(1000, 500_000), part(800, 500_000)];
        let figures = FlowMeasurement::figures_of(&[&one, &two], ms(1500));
        assert_eq!((figures.goodput_mbps, figures.completion_s), (Some(8.0), Some(1.0)));
        assert_eq!((figures.series[8], figures.longest_gap_ms), (500_000, Some(1000.0)));
        let nothing = FlowMeasurement::new(Window::whole(ms(0), ms(0), ms(2000)));
        let figures = FlowMeasurement::figures_of(&[&one, &two, &nothing], ms(2000));
        assert_eq!(figures.completion_s, None, "one is not there");
    }

    #[test]
    fn parts_that_do_not_run_together_share_all_their_time() {
        let part = |begin: u64, until: u64, released: &[u64]| {
            let window = Window::new(ms(0), ms(begin), ms(until), Duration::ZERO);
            let mut part = FlowMeasurement::new(window);
            released.iter().for_each(|&at| part.released(ms(at), 500_000));
            part
        };
        // Second by second 4 Mb/s, one after the other, and the later one first.
        let [late, early] = [part(1000, 2000, &[1050]), part(0, 1000, &[900])];
        let figures = FlowMeasurement::figures_of(&[&late, &early], ms(2000));
        assert_eq!((figures.goodput_mbps, figures.goodput_total_mbps), (Some(4.0), Some(4.0)));
        // No byte came for 950 ms to one of them; what is over when it stops waits no longer.
        assert_eq!(figures.longest_gap_ms, Some(950.0));
        assert_eq!((figures.series.len(), figures.series[9]), (20, 500_000));
        // Of transfers, the time is from the first that begins.
        let transfer = |begin: u64, at: u64| {
            let mut part = FlowMeasurement::new(Window::whole(ms(0), ms(begin), ms(5000)));
            part.released(ms(at), 500_000);
            part.completed(ms(at));
            part
        };
        let [late, early] = [transfer(1000, 2000), transfer(0, 500)];
        let figures = FlowMeasurement::figures_of(&[&late, &early], ms(2000));
        assert_eq!((figures.completion_s, figures.goodput_mbps), (Some(2.0), Some(4.0)));
        assert_eq!(FlowMeasurement::figures_of(&[], ms(1)), FlowFigures::default());
    }
}
