//! Counters of the whole process, for logs and metrics.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::Error;
use crate::refusal;

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
    numbers: AtomicU64::new(0),
    connections_opened: AtomicU64::new(0),
    connections_ended: AtomicU64::new(0),
    connections_failed: AtomicU64::new(0),
    subflows_up: AtomicU64::new(0),
    subflows_down: AtomicU64::new(0),
    handshakes_refused: AtomicU64::new(0),
    refusals: [const { AtomicU64::new(0) }; REASONS.len()],
};

pub(crate) struct Counters {
    /// Given to connections, whether they came to be opened or not.
    numbers: AtomicU64,
    connections_opened: AtomicU64,
    connections_ended: AtomicU64,
    connections_failed: AtomicU64,
    subflows_up: AtomicU64,
    subflows_down: AtomicU64,
    handshakes_refused: AtomicU64,
    refusals: [AtomicU64; REASONS.len()],
}

/// Why handshakes are refused or break off, as metrics name it. The first is for those that make room
/// for others, the last for everything that has no name of its own.
const REASONS: [&str; 14] = [
    "flood",
    "busy",
    "closed",
    "congestion",
    "expired",
    "join",
    "messages",
    "protocol",
    "scheduler",
    "subflow",
    "timeout",
    "tls",
    "token",
    "other",
];

/// Which of the reasons an error is.
fn reason(error: &Error) -> &'static str {
    match error {
        Error::RefusedPeer { code, .. } => match *code {
            refusal::BUSY => "busy",
            refusal::CONGESTION => "congestion",
            refusal::EXPIRED => "expired",
            refusal::JOIN => "join",
            refusal::MESSAGES => "messages",
            refusal::PROTOCOL => "protocol",
            refusal::SCHEDULER => "scheduler",
            refusal::SUBFLOW => "subflow",
            refusal::TLS_WANTED => "tls",
            refusal::TOKEN => "token",
            _ => "other",
        },
        Error::ClosedInHandshake { .. } | Error::Socket(_) => "closed",
        Error::GivenUp { .. } => "flood",
        Error::HandshakeTimeout { .. } => "timeout",
        Error::OtherProtocol { .. } | Error::Protocol { .. } => "protocol",
        Error::CertificateDates { .. }
        | Error::PlaintextClient { .. }
        | Error::Tls { .. }
        | Error::TlsClient { .. } => "tls",
        _ => "other",
    }
}

impl Counters {
    /// A connection's number, 0 for the first.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// Counts a connection that is open.
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

    /// Counts a handshake that was refused or broke off.
    pub(crate) fn refused(&self, error: &Error) {
        self.handshakes_refused.fetch_add(1, Ordering::Relaxed);
        let reason = reason(error);
        if let Some(at) = REASONS.iter().position(|known| *known == reason) {
            self.refusals[at].fetch_add(1, Ordering::Relaxed);
        }
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

/// Handshakes that this process refused or that broke off (server), by reason; the reasons are
/// always the same, in the same order. They add up to [`ProcessStats::handshakes_refused`].
pub fn refusals() -> Vec<(&'static str, u64)> {
    let counts = COUNTERS.refusals.iter().map(|count| count.load(Ordering::Relaxed));
    REASONS.into_iter().zip(counts).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_its_place() {
        let peer = std::net::SocketAddr::from(([192, 0, 2, 1], 1));
        for code in 0..20 {
            let error = Error::RefusedPeer { peer, code, reason: String::new() };
            assert!(REASONS.contains(&reason(&error)), "{code}");
            assert_eq!(reason(&error) == "other", code == 0 || code > 10, "{code}");
        }
        assert_eq!(reason(&Error::GivenUp { peer }), REASONS[0]);
        assert_eq!(reason(&Error::NoTrust), "other");
    }
}
