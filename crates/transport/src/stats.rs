//! Counters of the whole process, for logs and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessStats {
    /// Connections opened or accepted.
    pub connections_opened: u64,
    /// Of these, connections that are over.
    pub connections_ended: u64,
    /// Of these, connections that failed.
    pub connections_failed: u64,
    /// Subflows that came up.
    pub subflows_up: u64,
    /// Of these, subflows that are gone.
    pub subflows_down: u64,
    /// Handshakes that this process refused or that broke off (server).
    pub handshakes_refused: u64,
}

/// The process's counters.
pub(crate) static COUNTERS: Counters = Counters {
    connections_opened: AtomicU64::new(0),
    connections_ended: AtomicU64::new(0),
    connections_failed: AtomicU64::new(0),
    subflows_up: AtomicU64::new(0),
    subflows_down: AtomicU64::new(0),
    handshakes_refused: AtomicU64::new(0),
};

pub(crate) struct Counters {
    connections_opened: AtomicU64,
    connections_ended: AtomicU64,
    connections_failed: AtomicU64,
    subflows_up: AtomicU64,
    subflows_down: AtomicU64,
    handshakes_refused: AtomicU64,
}

impl Counters {
    pub(crate) fn opened(&self) {
        self.connections_opened.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn ended(&self, failed: bool) {
        self.connections_ended.fetch_add(1, Ordering::Relaxed);
        self.connections_failed.fetch_add(u64::from(failed), Ordering::Relaxed);
    }

    pub(crate) fn subflow_up(&self) {
        self.subflows_up.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn subflow_down(&self) {
        self.subflows_down.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn refused(&self) {
        self.handshakes_refused.fetch_add(1, Ordering::Relaxed);
    }
}

/// The counts now.
pub fn process_stats() -> ProcessStats {
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    ProcessStats {
        connections_opened: count(&COUNTERS.connections_opened),
        connections_ended: count(&COUNTERS.connections_ended),
        connections_failed: count(&COUNTERS.connections_failed),
        subflows_up: count(&COUNTERS.subflows_up),
        subflows_down: count(&COUNTERS.subflows_down),
        handshakes_refused: count(&COUNTERS.handshakes_refused),
    }
}
