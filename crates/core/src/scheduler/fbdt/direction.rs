//! Which path sends forward, decided where a window begins (FBDT §3.2, "RAT to direction mapping").

use super::super::{SchedulerConfig, SendView};
use crate::path::PathId;
use crate::subflow::Subflow;

/// The choice of the forward path.
#[derive(Debug)]
pub(super) struct Direction {
    pin: Option<PathId>,
    forward: Option<PathId>,
}

impl Direction {
    pub(super) const fn new(config: &SchedulerConfig) -> Self {
        Self { pin: config.forward_pin, forward: None }
    }

    /// The present forward path.
    pub(super) const fn forward(&self) -> Option<PathId> {
        self.forward
    }

    /// Chooses for a window that begins now: the pinned path while it is usable, else the one that
    /// delivers first what it is given now, for the low end is what the application waits for.
    pub(super) fn choose(&mut self, view: &SendView<'_>) {
        let pinned = self.pin.filter(|&path| view.usable().any(|s| s.path() == path));
        let arrival = |s: &Subflow| (view.arrival(s, view.chunk_size(s)), s.path());
        let nearest = || view.usable().min_by_key(|s| arrival(s)).map(Subflow::path);
        self.forward = pinned.or_else(nearest).or(self.forward);
    }
}
