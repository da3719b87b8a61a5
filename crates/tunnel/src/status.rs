//! The status of a node: its links and its counters.

use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weftline_coding::node::counters::{self, Meaning};
use weftline_core::Instant;

use crate::clock;
use crate::endpoint::Dropped;
use crate::kernel_drops::KernelDrops;
use crate::peer::LinkStatus;

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
    pub(crate) fn of(meaning: Meaning, value: u64) -> Self {
        Self { name: meaning.name, about: meaning.about, value }
    }

    /// What a state machine counted.
    pub(crate) fn of_node(counted: impl IntoIterator<Item = (Meaning, u64)>) -> Vec<Self> {
        counted.into_iter().map(|(meaning, value)| Self::of(meaning, value)).collect()
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
        let discarded = Counter::of(counters::PACKETS_DISCARDED, held as u64);
        // Before the first settings nothing is counted.
        let restarts = Counter::of(counters::RESTARTS, u64::from(!counters.is_empty()));
        self.counters = self.plus(counters.into_iter().chain([discarded, restarts]).collect());
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
    /// When that was, by the machine's monotonic clock. It is a little in the past: rates are over the
    /// time from one to the other.
    pub at: Instant,
    /// `gateway`, `ap` or `device`.
    pub role: &'static str,
    /// Its links.
    pub links: Vec<LinkStatus>,
    /// What its sockets dropped.
    pub dropped: Dropped,
    /// What it counted, of all devices together.
    pub counters: Vec<Counter>,
    /// Packets that wait in it now.
    pub waiting: u64,
    /// At a gateway and an access point: the devices.
    pub devices: Vec<DeviceStatus>,
}

impl Status {
    /// How long ago that was.
    pub fn age(&self) -> Duration {
        clock::now().since(self.at)
    }
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
    /// Packets for it that wait now.
    pub waiting: u64,
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
    /// Apart: a node that says how it is waits for nobody who reads the kernel's tables.
    kernel: Arc<Mutex<Option<KernelDrops>>>,
}

#[derive(Debug, Default)]
struct Shared {
    next: Instant,
    status: Option<Status>,
    updates: u64,
}

impl Publish {
    /// How the node was lately, with what the kernel has dropped until now; `None` until it runs.
    pub fn status(&self) -> Option<Status> {
        let mut status = self.shared.lock().ok()?.status.clone()?;
        if let Some(dropped) = self.kernel.lock().ok()?.as_mut().map(KernelDrops::look) {
            status.dropped.receive_buffer = dropped.datagrams;
            let of_device =
                dropped.from_device.map(|count| Counter::of(counters::TUN_DROPPED, count));
            status.counters.extend(of_device);
        }
        Some(status)
    }

    /// What the kernel drops of the node is looked at from now on.
    pub(crate) fn watch(&self, kernel: KernelDrops) {
        if let Ok(mut known) = self.kernel.lock() {
            *known = Some(kernel);
        }
    }

    /// The node has these sockets from now on.
    pub(crate) fn follow(&self, sockets: &[BorrowedFd<'_>]) {
        if let Ok(mut known) = self.kernel.lock() {
            known.iter_mut().for_each(|kernel| kernel.follow(sockets));
        }
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

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::os::fd::AsFd as _;

    use super::*;

    #[test]
    fn what_the_kernel_dropped_is_shown_with_what_the_node_counted() {
        let publish = Publish::default();
        let [to, other] = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").unwrap());
        publish.watch(KernelDrops::new(&[to.as_fd()], Some("lo")));
        assert_eq!(publish.status(), None, "it does not run yet");
        let status = Status {
            at: Instant::from_millis(1),
            role: "device",
            links: Vec::new(),
            dropped: Dropped { stale: 3, ..Dropped::default() },
            counters: vec![Counter::of(counters::TUN_REFUSED, 5)],
            waiting: 0,
            devices: Vec::new(),
        };
        publish.update(Instant::from_millis(1), || status);
        socket2::SockRef::from(&to).set_recv_buffer_size(1).unwrap();
        for _ in 0..100 {
            other.send_to(&[0; 1000], to.local_addr().unwrap()).unwrap();
        }
        let begun = std::time::Instant::now();
        let shown = loop {
            let shown = publish.status().unwrap();
            if shown.dropped.receive_buffer.is_some_and(|n| n > 0) {
                break shown;
            }
            // A busy kernel may bring datagrams later.
            assert!(begun.elapsed().as_secs() < 400, "{shown:?}");
        };
        assert_eq!(shown.dropped.stale, 3, "{shown:?}");
        let names: Vec<_> = shown.counters.iter().map(|counter| counter.name).collect();
        assert_eq!(names, ["tun_refused", "tun_dropped"]);
        publish.watch(KernelDrops::new(&[], None));
        assert_eq!(publish.status().unwrap().counters.len(), 1, "an access point has no device");
    }
}
