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

/// What a node counted by settings that are over: what is shown only grows.
#[derive(Debug, Default)]
pub(crate) struct Past {
    counters: Vec<Counter>,
}

impl Past {
    /// Adds what was counted, and packets that were held and are discarded.
    pub(crate) fn add(&mut self, counters: Vec<Counter>, held: usize) {
        let about = "held when the gateway was started anew, and dropped";
        let discarded = Counter::new("packets_discarded", about, held as u64);
        self.counters = self.plus(counters.into_iter().chain([discarded]).collect());
    }

    /// The sums of what was counted before and `present`.
    pub(crate) fn plus(&self, mut present: Vec<Counter>) -> Vec<Counter> {
        for past in &self.counters {
            match present.iter_mut().find(|counter| counter.name == past.name) {
                Some(counter) => counter.value += past.value,
                None => present.push(*past),
            }
        }
        present
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
    /// What it counted, of all devices together.
    pub counters: Vec<Counter>,
    /// At a gateway and an access point: the devices.
    pub devices: Vec<DeviceStatus>,
}

/// How a device is, as a gateway or an access point knows it.
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceStatus {
    /// Its name.
    pub name: String,
    /// Whether it was heard lately.
    pub up: bool,
    /// At a gateway: the access points that reach it.
    pub through: Vec<String>,
    /// What was counted of it.
    pub counters: Vec<Counter>,
}

/// The sums of what was counted of several.
pub(crate) fn sums(each: impl IntoIterator<Item = Vec<Counter>>) -> Vec<Counter> {
    let mut sums = Past::default();
    for counters in each {
        sums.counters = sums.plus(counters);
    }
    sums.counters
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
