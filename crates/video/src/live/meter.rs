//! What the paths of a live connection can carry, from what they did.
//!
//! A sender that plans by its own throughput must not take what it *sent* for what it *could have*
//! sent: it would never send more. So only the time counts during which something was waiting, and
//! when too little of a second was like that, the paths are taken to carry half as much again as
//! before, until they are filled.

use std::time::Duration;

use weftline_core::{Bitrate, ByteCount, Instant};

use crate::ows::{History, MAX_PATHS};

/// How long a sample is.
const SECOND: Duration = Duration::from_secs(1);
/// With less time under load a second says nothing about what the paths can carry.
const LEAST_BUSY: Duration = Duration::from_millis(100);
/// How much more is tried after a second that was not filled: half as much again,
const GROWTH: f64 = 1.5;
/// but no more than so many times what was carried in it: what is never asked for need not be
/// known.
const MOST_AHEAD: f64 = 4.0;

/// Turns readings of counters into seconds of a [`History`].
#[derive(Clone, Debug)]
pub struct Meter {
    history: History,
    /// The rates of the second before; at first, those that the start is planned with.
    rates: Vec<Bitrate>,
    last: Option<Reading>,
    second: Second,
}

#[derive(Clone, Debug)]
struct Reading {
    at: Instant,
    delivered: Vec<u64>,
    backlog: bool,
}

/// The second under way.
#[derive(Clone, Debug, Default)]
struct Second {
    began: Instant,
    carried: Vec<u64>,
    busy: Vec<u64>,
    busy_for: Duration,
}

impl Meter {
    /// Nothing has been carried; all paths together are taken to carry `start` at first.
    pub fn new(start: Bitrate) -> Self {
        Self { history: History::new(), rates: vec![start], last: None, second: Second::default() }
    }

    /// The seconds so far.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What each path carries in `length` if it goes on like the second before.
    pub fn ahead(&self, length: Duration) -> Vec<ByteCount> {
        self.rates.iter().map(|rate| rate.bytes_in(length)).collect()
    }

    /// Takes a reading: the bytes that each path has delivered so far, in an order that does not
    /// change, new paths last; and whether anything waits for a path. Readings that are older than
    /// one before are ignored, and so are paths beyond [`MAX_PATHS`].
    pub fn handle_reading(&mut self, delivered: &[u64], backlog: bool, now: Instant) {
        let delivered = delivered[..delivered.len().min(MAX_PATHS)].to_vec();
        let Some(last) = &self.last else {
            self.second = Second { began: now, ..Second::default() };
            self.last = Some(Reading { at: now, delivered, backlog });
            return;
        };
        if now <= last.at || delivered.len() < last.delivered.len() {
            return;
        }
        let second = &mut self.second;
        second.carried.resize(delivered.len(), 0);
        second.busy.resize(delivered.len(), 0);
        let was_busy = last.backlog && backlog;
        for (path, bytes) in delivered.iter().enumerate() {
            let before = last.delivered.get(path).copied().unwrap_or(0);
            let bytes = bytes.saturating_sub(before);
            second.carried[path] = second.carried[path].saturating_add(bytes);
            if was_busy {
                second.busy[path] = second.busy[path].saturating_add(bytes);
            }
        }
        if was_busy {
            second.busy_for += now.since(last.at);
        }
        self.last = Some(Reading { at: now, delivered, backlog });
        if now.since(self.second.began) >= SECOND {
            self.finish_second(now);
        }
    }

    fn finish_second(&mut self, now: Instant) {
        let second =
            std::mem::replace(&mut self.second, Second { began: now, ..Second::default() });
        let paths = second.carried.len();
        if paths == 0 {
            return;
        }
        if self.history.is_empty() {
            // The rate of the start was that of all paths together.
            let each = self.rates.iter().copied().sum::<Bitrate>().as_bps() / paths as u64;
            self.rates = vec![Bitrate::bps(each); paths];
        }
        self.rates.resize(paths, Bitrate::ZERO);
        if second.busy_for >= LEAST_BUSY {
            let rate =
                |bytes: &u64| Bitrate::from_transfer(ByteCount::new(*bytes), second.busy_for);
            self.rates = second.busy.iter().map(rate).collect();
        } else if second.carried.iter().any(|bytes| *bytes > 0) {
            let took = now.since(second.began);
            let total: u64 = second.carried.iter().fold(0, |sum, bytes| sum.saturating_add(*bytes));
            let most = Bitrate::from_transfer(ByteCount::new(total), took).as_bps() as f64;
            for (rate, bytes) in self.rates.iter_mut().zip(&second.carried) {
                let had = Bitrate::from_transfer(ByteCount::new(*bytes), took).as_bps() as f64;
                let tried = (rate.as_bps() as f64 * GROWTH).min(most * MOST_AHEAD);
                // What was known before stays known.
                let kept = (rate.as_bps() as f64).max(tried).max(had);
                *rate = Bitrate::bps(kept as u64);
            }
        } else {
            return;
        }
        self.history.push(&self.rates).expect("1 to MAX_PATHS paths, never fewer than before");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Readings every 50 ms over `ms`, of paths at these rates, waiting or not.
    fn run(meter: &mut Meter, state: &mut (u64, Vec<u64>), ms: u64, mbps: &[u64], backlog: bool) {
        for _ in 0..ms / 50 {
            state.0 += 50;
            state.1.resize(mbps.len(), 0);
            // 1 Mb/s are 6,250 bytes in 50 ms.
            state.1.iter_mut().zip(mbps).for_each(|(bytes, mbps)| *bytes += mbps * 6_250);
            meter.handle_reading(&state.1, backlog, Instant::from_millis(state.0));
        }
    }

    fn mbps(meter: &Meter) -> Vec<f64> {
        let ahead = meter.ahead(SECOND);
        ahead.iter().map(|bytes| bytes.as_u64() as f64 * 8e-6).collect()
    }

    #[test]
    fn under_load_the_rates_are_those_while_something_waits() {
        let (mut meter, mut state) = (Meter::new(Bitrate::mbps(10)), (0, vec![0, 0]));
        assert_eq!(mbps(&meter), [10.0]);
        run(&mut meter, &mut state, 550, &[20, 40], true);
        run(&mut meter, &mut state, 500, &[0, 0], false);
        assert_eq!(mbps(&meter), [20.0, 40.0]);
        // A path that dies carries nothing from then on.
        run(&mut meter, &mut state, 2_000, &[20, 0], true);
        assert_eq!(mbps(&meter), [20.0, 0.0]);
        assert_eq!(meter.history().len(), 3);
    }

    #[test]
    fn seconds_that_are_not_filled_try_more_and_empty_ones_say_nothing() {
        let (mut meter, mut state) = (Meter::new(Bitrate::mbps(8)), (0, vec![0]));
        run(&mut meter, &mut state, 1_050, &[5], false);
        assert_eq!(mbps(&meter), [12.0]);
        run(&mut meter, &mut state, 5_000, &[5], false);
        assert_eq!(mbps(&meter), [20.0], "at most four times what is carried");
        let seconds = meter.history().len();
        run(&mut meter, &mut state, 5_000, &[0], false);
        assert_eq!((mbps(&meter), meter.history().len()), (vec![20.0], seconds));
    }

    #[test]
    fn readings_that_cannot_be_are_ignored() {
        let mut meter = Meter::new(Bitrate::mbps(8));
        for (at, delivered) in [(10, vec![5, 5]), (5, vec![9, 9]), (20, vec![1]), (1_500, vec![])] {
            meter.handle_reading(&delivered, true, Instant::from_millis(at));
        }
        meter.handle_reading(&[u64::MAX; 40], true, Instant::from_millis(3_000));
        assert!(meter.history().len() <= 1);
    }
}
