//! A path that is taken out of use: its subflows are closed when what they carry has arrived and
//! another path is up.

use std::collections::VecDeque;
use std::time::Duration;

use super::path::Path;
use super::{Action, PathPlan};
use crate::{Instant, PathId};

/// How often it is looked at, and after how long beside another path it is closed whatever it
/// carries: that goes to the others then.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
const MOST: Duration = Duration::from_secs(5);

/// What is still on a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// Bytes sent on it and not known to have arrived.
    pub outstanding: u64,
    /// Bytes received on it so far.
    pub received: u64,
    /// Whether other paths have subflows, too.
    pub is_spare: bool,
}

#[derive(Debug)]
pub(super) struct Leaving {
    path: Path,
    next: Instant,
    /// When it is closed whatever it carries.
    deadline: Option<Instant>,
    /// What had been received at the last look.
    received: Option<u64>,
}

impl Leaving {
    pub(super) fn new(path: Path, now: Instant) -> Self {
        Self { path, next: now + LOOK_INTERVAL, deadline: None, received: None }
    }

    pub(super) const fn id(&self) -> PathId {
        self.path.plan.id
    }

    pub(super) const fn path_mut(&mut self) -> &mut Path {
        &mut self.path
    }

    /// The path is in use again, with the subflow that it has.
    pub(super) fn come_back(self, plan: PathPlan, now: Instant) -> Path {
        let mut path = self.path;
        path.plan = plan;
        path.resume(now);
        path
    }

    pub(super) const fn next(&self) -> Instant {
        self.next
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, actions: &mut VecDeque<Action>) {
        if self.next <= now {
            self.next = now + LOOK_INTERVAL;
            actions.push_back(Action::Carried(self.id()));
        }
    }

    /// Whether it can be closed.
    pub(super) fn is_through(&mut self, carried: &Carried, now: Instant) -> bool {
        if !carried.is_spare {
            return false;
        }
        let is_late = *self.deadline.get_or_insert(now + MOST) <= now;
        // The peer's direction has run dry if nothing came since the last look.
        let is_dry = carried.outstanding == 0 && self.received == Some(carried.received);
        self.received = Some(carried.received);
        is_dry || is_late
    }
}
