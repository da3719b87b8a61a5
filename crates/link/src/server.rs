//! The server of a link: turns bytes into finish times along a rate trace, without rounding error.
//!
//! The server keeps its place in the trace, so that one packet costs one 64-bit division while the
//! rate stays the same, and walks forward step by step when it does not.

use std::time::Duration;

use weftline_core::ByteCount;
use weftline_core::time::nanos;

use crate::trace::{RateTrace, UNITS_PER_BYTE};

/// Where the server stands: the stretch of constant rate that its last packet finished in.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// The trace's start on the caller's clock; `None` before [`Server::start`].
    epoch: Option<u64>,
    /// The step of the trace, or `None` before the epoch.
    index: Option<usize>,
    /// Start of the current period on the caller's clock.
    cycle: u64,
    /// The rate of the stretch.
    rate: u64,
    /// Its end on the caller's clock.
    end: u64,
    /// When the last packet is served; the server is idle from then on.
    busy_until: u64,
    /// Units left over in the nanosecond in which the last packet finished: finish times are
    /// rounded up, and the next packet of a busy period gets the remainder.
    spare: u128,
}

impl RateTrace {
    /// When `bytes`, begun at `start`, are served (both since the trace's start), rounded up to a
    /// nanosecond; `None` if never: the rate is always zero, or the clock ends first.
    pub fn finish(&self, start: Duration, bytes: ByteCount) -> Option<Duration> {
        let mut server = Server::started(self, 0);
        server.serve(self, nanos(start), bytes).map(Duration::from_nanos)
    }
}

impl Server {
    /// A server that holds the trace's [`lead`] until [`Server::start`].
    pub(crate) fn waiting(trace: &RateTrace) -> Self {
        let rate = lead(trace);
        Self { epoch: None, index: None, cycle: 0, rate, end: u64::MAX, busy_until: 0, spare: 0 }
    }

    /// A server whose trace starts at `epoch`.
    pub(crate) fn started(trace: &RateTrace, epoch: u64) -> Self {
        let mut server = Self::waiting(trace);
        server.start(trace, epoch);
        server
    }

    /// Starts the trace at `epoch`, anew if it ran before. Packets already served keep their
    /// times.
    pub(crate) fn start(&mut self, trace: &RateTrace, epoch: u64) {
        self.epoch = Some(epoch);
        self.index = None;
        self.rate = lead(trace);
        self.end = epoch;
    }

    /// Serves `bytes` offered at `now` after all that was offered before, and says when they are
    /// served, rounded up to a nanosecond; `None` if never, which leaves the server as it was.
    pub(crate) fn serve(&mut self, trace: &RateTrace, now: u64, bytes: ByteCount) -> Option<u64> {
        let mut need = u128::from(bytes.as_u64()) * UNITS_PER_BYTE;
        let start = if now < self.busy_until {
            let used = need.min(self.spare);
            need -= used;
            if need == 0 {
                self.spare -= used;
                return Some(self.busy_until);
            }
            self.busy_until
        } else {
            now
        };
        if need == 0 {
            (self.busy_until, self.spare) = (start, 0);
            return Some(start);
        }
        if trace.total_units() == 0 {
            return None;
        }
        let mut ahead = self.clone();
        ahead.seek(trace, start);
        let finish = ahead.run(trace, start, need)?;
        *self = ahead;
        Some(finish)
    }

    /// Moves to the stretch that holds at `time`, which is not before the present one.
    fn seek(&mut self, trace: &RateTrace, time: u64) {
        if time < self.end {
            return;
        }
        self.advance(trace);
        if time < self.end {
            return;
        }
        let Some(epoch) = self.epoch else { return };
        let since = time - epoch;
        self.cycle = time - since % trace.period_ns();
        self.enter(trace, trace.index_at(time - self.cycle));
    }

    /// Serves `need` units from `start`, which is in the present stretch.
    fn run(&mut self, trace: &RateTrace, start: u64, mut need: u128) -> Option<u64> {
        let mut time = start;
        loop {
            if let Some(elapsed) = time_for(need, self.rate) {
                let finish = time.checked_add(elapsed)?;
                if finish <= self.end {
                    self.spare = u128::from(elapsed) * u128::from(self.rate) - need;
                    self.busy_until = finish;
                    return Some(finish);
                }
            }
            if self.end == u64::MAX {
                return None;
            }
            need -= u128::from(self.end - time) * u128::from(self.rate);
            time = self.end;
            self.advance(trace);
            if self.index == Some(0) && need > trace.total_units() {
                // Whole periods at once, so that a large need does not walk through each.
                let periods = (need - 1) / trace.total_units();
                let skipped = u64::try_from(periods).ok()?.checked_mul(trace.period_ns())?;
                need -= periods * trace.total_units();
                self.cycle = self.cycle.checked_add(skipped)?;
                time = self.cycle;
                self.enter(trace, 0);
            }
        }
    }

    /// Moves to the next stretch.
    fn advance(&mut self, trace: &RateTrace) {
        match self.index {
            None => {
                self.cycle = self.epoch.unwrap_or(u64::MAX);
                self.enter(trace, 0);
            }
            Some(index) if trace.step(index + 1).is_some() => self.enter(trace, index + 1),
            Some(_) => {
                self.cycle = self.cycle.saturating_add(trace.period_ns());
                self.enter(trace, 0);
            }
        }
    }

    /// Enters step `index` of the present period.
    fn enter(&mut self, trace: &RateTrace, index: usize) {
        self.index = Some(index);
        self.rate = trace.step(index).map_or(0, |step| step.rate);
        let length = trace.step(index + 1).map_or(trace.period_ns(), |next| next.start);
        self.end = self.cycle.saturating_add(length);
    }
}

/// The rate before the epoch: that of t = 0, or where it is zero the mean, for a link that begins
/// dark could not carry the handshakes that precede the first byte.
fn lead(trace: &RateTrace) -> u64 {
    match trace.step(0) {
        Some(first) if first.rate > 0 => first.rate,
        _ => trace.mean().as_bps(),
    }
}

/// Nanoseconds in which `rate` (b/s) offers `need` units, rounded up; `None` if the clock ends
/// first.
fn time_for(need: u128, rate: u64) -> Option<u64> {
    if rate == 0 {
        return None;
    }
    // A packet's need fits in 64 bits up to 2.3 GB, and a 64-bit division is several times faster.
    match u64::try_from(need) {
        Ok(need) => Some(need.div_ceil(rate)),
        Err(_) => u64::try_from(need.div_ceil(u128::from(rate))).ok(),
    }
}
