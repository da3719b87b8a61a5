//! Which path sends forward: the most reliable one, re-judged at window starts with hysteresis,
//! or the one that was pinned (FBDT §3.2, "RAT to direction mapping").

use std::time::Duration;

use super::super::SendView;
use crate::Instant;
use crate::path::{PathId, PathMeter};
use crate::subflow::Subflow;

/// A path takes the forward direction over only if its unreliability is below this share of the
/// present one's: a change costs a reordering of the windows in flight.
const HYSTERESIS: f64 = 0.6;
/// Differences below this are noise.
const NOISE: f64 = 0.05;
/// Intervals of 100 ms to see of a path before judging it.
const LEAST_HISTORY: u64 = 10;

/// The choice of the forward path.
#[derive(Debug)]
pub(super) struct Direction {
    pin: Option<PathId>,
    hold: Duration,
    forward: Option<PathId>,
    changed: Instant,
}

impl Direction {
    pub(super) const fn new(pin: Option<PathId>, hold: Duration) -> Self {
        Self { pin, hold, forward: None, changed: Instant::ZERO }
    }

    /// The present forward path.
    pub(super) const fn forward(&self) -> Option<PathId> {
        self.forward
    }

    /// The forward path for a window that opens now.
    pub(super) fn choose(&mut self, view: &SendView<'_>) -> PathId {
        let live = |path: PathId| view.usable().any(|s| s.path() == path);
        if let Some(pin) = self.pin
            && live(pin)
        {
            return self.set(pin, view.now);
        }
        // Without history the client's first path leads: it lists the most reliable first.
        let usable = view.usable().map(Subflow::path);
        let first = usable.min().or_else(|| view.subflows.iter().map(Subflow::path).min());
        let first = first.expect("a subflow asked");
        let Some(current) = self.forward.filter(|&path| live(path)) else {
            return self.set(first, view.now);
        };
        if view.now.since(self.changed) < self.hold {
            return current;
        }
        let judged = |path: PathId| {
            let meter = view.meters.get(&path)?;
            (meter.intervals() >= LEAST_HISTORY).then(|| PathMeter::unreliability(meter))
        };
        let Some(present) = judged(current) else { return current };
        let candidates = view.usable().map(Subflow::path);
        let best = candidates
            .filter_map(|path| Some((judged(path)?, path)))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        match best {
            Some((score, path)) if score + NOISE < present * HYSTERESIS => self.set(path, view.now),
            _ => current,
        }
    }

    fn set(&mut self, path: PathId, now: Instant) -> PathId {
        if self.forward != Some(path) {
            self.forward = Some(path);
            self.changed = now;
        }
        path
    }
}
