//! What others see of a connection.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weftline_core::life::Phase;
use weftline_core::session::{PathStats, SessionStats};
use weftline_core::{ByteCount, Instant, PathId};

use super::{Inner, Shared};
use crate::about::{About, ConnectionStatus, ConnectionWeave, WEAVE_STRETCHES};
use crate::checks::IDLE_TIMEOUT;
use crate::clock;

impl Shared {
    /// Bytes delivered in both directions so far.
    pub(crate) fn moved(&self) -> u64 {
        self.see(|inner| {
            let stats = inner.stats();
            stats.acknowledged + stats.delivered
        })
    }

    /// Bytes that were written and that the peer has not acknowledged.
    pub(crate) fn send_held(&self) -> u64 {
        self.see(|inner| inner.session.send_held())
    }

    /// Bytes of the peer's stream that have come, in order.
    pub(crate) fn received(&self) -> u64 {
        self.see(|inner| inner.session.received())
    }

    /// When something last came from a peer that has never answered, or not for [`IDLE_TIMEOUT`], and
    /// the memory promised to the connection.
    pub(crate) fn unanswered(&self, now: Instant) -> Option<(Instant, u64)> {
        let look = |inner: &Inner| (inner.session.heard_at(), inner.lease.held());
        let (heard_at, memory) = self.see(look);
        let is_silent = now.since(heard_at) >= IDLE_TIMEOUT;
        (is_silent || !self.has_answered()).then_some((heard_at, memory))
    }

    /// How long nothing has come from the peer.
    pub(crate) fn unheard_for(&self) -> Duration {
        self.see(|inner| clock::now().since(inner.session.heard_at()))
    }

    /// The session's counters, and the name of every path in them.
    pub(crate) fn stats(&self) -> (SessionStats, BTreeMap<PathId, Arc<str>>) {
        self.see(|inner| (inner.stats(), inner.names.clone()))
    }

    /// The connection as it is now.
    pub(crate) fn status(&self, about: &About) -> ConnectionStatus {
        self.see(|inner| {
            let mut stats = inner.stats();
            let mut names = inner.planned.clone();
            names.extend(inner.names.iter().map(|(&id, name)| (id, Arc::clone(name))));
            for &path in names.keys() {
                // It has not been up yet.
                let policy = inner.session.policy(path).policy;
                stats.paths.entry(path).or_insert(PathStats { policy, ..PathStats::default() });
            }
            let running = inner.slots.iter().map(|slot| (slot.path, slot.congestion.clone()));
            let congestion = running.collect();
            let peers = inner.slots.iter().map(|slot| (slot.path, slot.peer)).collect();
            ConnectionStatus {
                number: self.number,
                peer: about.peer(),
                client: about.client().map(Arc::from),
                label: about.label(),
                scheduler: self.scheduler,
                age: clock::now().since(self.opened_at),
                memory: ByteCount::new(inner.lease.held()),
                send_held: ByteCount::new(inner.session.send_held()),
                stats,
                names,
                peers,
                congestion,
            }
        })
    }

    /// One more looks at what is sent and received where: it is recorded from the first on.
    pub(crate) fn watch_weave(&self) {
        if self.has_panicked() {
            return;
        }
        self.with(|inner, _| {
            inner.weave_watches += 1;
            if inner.weave_watches == 1 {
                inner.weave_since = clock::now();
                inner.session.record_weave(Some(WEAVE_STRETCHES));
            }
        });
    }

    /// One has left: with the last, nothing is recorded any more.
    pub(crate) fn leave_weave(&self) {
        if self.has_panicked() {
            return;
        }
        self.with(|inner, _| {
            inner.weave_watches -= 1;
            if inner.weave_watches == 0 {
                inner.session.record_weave(None);
            }
        });
    }

    /// What was recorded; `None` if nothing is, or nothing is left of the connection.
    pub(crate) fn weave(&self) -> Option<ConnectionWeave> {
        self.see(|inner| {
            let now = clock::now();
            let is_there = inner.life.phase() != Phase::Gone;
            let sent = inner.session.weave_sent(now).filter(|_| is_there)?;
            let received = inner.session.weave_received(now)?;
            Some(ConnectionWeave {
                now,
                since: inner.weave_since,
                sent,
                received,
                names: inner.names.clone(),
            })
        })
    }
}
