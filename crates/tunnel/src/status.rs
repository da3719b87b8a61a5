//! How a node is, for whoever looks: its links and what it counted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use weftline_core::Instant;

use crate::lane::LinkStatus;
use crate::port::Dropped;

/// How often a node says how it is.
const UPDATE: Duration = Duration::from_millis(200);

/// Something that was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counter {
    /// Its name, as in a metric's.
    pub name: &'static str,
    /// What it counts.
    pub about: &'static str,
    /// How often.
    pub value: u64,
}

impl Counter {
    pub(crate) fn new(name: &'static str, about: &'static str, value: u64) -> Self {
        Self { name, about, value }
    }
}

/// How a node is.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// `gateway`, `ap` or `device`.
    pub role: &'static str,
    /// Its links.
    pub links: Vec<LinkStatus>,
    /// What its sockets dropped.
    pub dropped: Dropped,
    /// What it counted.
    pub counters: Vec<Counter>,
}

/// Where a node says how it is, a few times a second.
#[derive(Clone, Debug, Default)]
pub struct Publish {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug, Default)]
struct Shared {
    next: Instant,
    status: Option<Status>,
    updates: u64,
}

impl Publish {
    /// How the node was lately; `None` until it runs.
    pub fn status(&self) -> Option<Status> {
        self.shared.lock().ok()?.status.clone()
    }

    /// How often the node has said how it is: a number that stands still is a node that hangs.
    pub fn updates(&self) -> u64 {
        self.shared.lock().map_or(0, |shared| shared.updates)
    }

    pub(crate) fn update(&self, now: Instant, status: impl FnOnce() -> Status) {
        if let Ok(mut shared) = self.shared.lock()
            && now >= shared.next
        {
            shared.next = now + UPDATE;
            shared.status = Some(status());
            shared.updates += 1;
        }
    }
}
