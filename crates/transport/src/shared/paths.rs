//! What a connection knows of its paths: what they are for, and what happens to them.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard};

use tokio::sync::{Notify, broadcast};
use weftline_core::limiter::PathLimiter;
use weftline_core::path_manager::Carried;
use weftline_core::wire::PolicyNote;
use weftline_core::{Instant, PathId};

use super::{EVENT_CAPACITY, Shared, Witness};
use crate::events::{PathEvent, PathEventKind};

impl Shared {
    /// Tells subscribers and the log what happened to a path.
    pub(crate) fn publish(&self, event: PathEvent) {
        tracing::debug!("{event}");
        match event.kind {
            PathEventKind::Up { subflow, .. } => {
                self.ups().insert(subflow, event.clone());
            }
            PathEventKind::Down { subflow, .. } => {
                self.ups().remove(&subflow);
            }
            _ => {}
        }
        if let Some(witness) = self.witness.get() {
            witness(&event);
        }
        if let Some(events) = self.events.get() {
            // Nobody need be listening any more.
            let _ = events.send(event);
        }
    }

    fn ups(&self) -> MutexGuard<'_, BTreeMap<u64, PathEvent>> {
        self.ups.lock().expect("events are cloned without panics")
    }

    /// How each subflow that is there came up.
    pub(crate) fn paths_up(&self) -> Vec<PathEvent> {
        self.ups().values().cloned().collect()
    }

    /// Has the events from here on told to `witness`: the first that is given.
    pub(crate) fn tell(&self, witness: Witness) {
        let _ = self.witness.set(witness);
    }

    /// The events from here on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<PathEvent> {
        self.events.get_or_init(|| broadcast::Sender::new(EVENT_CAPACITY)).subscribe()
    }

    /// Notified of what whoever keeps the paths wants to know.
    pub(crate) fn path_news(&self) -> Arc<Notify> {
        Arc::clone(&self.path_news)
    }

    /// Whether a new subflow would be of use.
    pub(crate) fn wants_path(&self) -> bool {
        self.see(|inner| inner.life.wants_subflow())
    }

    /// Says what a path is for, before it is up.
    pub(crate) fn set_policy(&self, path: PathId, note: PolicyNote) {
        self.with(|inner, now| {
            let limiter = inner.caps.limiter(path);
            limiter.into_iter().for_each(|limiter| inner.session.set_limiter(path, limiter));
            inner.session.set_policy(path, note, inner.caps.of(path, note), now);
        });
    }

    /// As [`set_policy`](Self::set_policy), for a path that the peer knows by an older policy.
    pub(crate) fn change_policy(&self, path: PathId, note: PolicyNote) {
        self.with(|inner, now| {
            inner.session.change_policy(path, note, inner.caps.of(path, note), now);
        });
    }

    /// What was said last of a path.
    pub(crate) fn policy(&self, path: PathId) -> PolicyNote {
        self.see(|inner| inner.session.policy(path))
    }

    /// What all connections of this client send over a path goes through; `None` if there are too many
    /// paths.
    pub(crate) fn limiter(&self, path: PathId) -> Option<PathLimiter> {
        self.see(|inner| inner.caps.limiter(path))
    }

    /// Says what a path is called that may not have had a subflow yet.
    pub(crate) fn name_path(&self, path: PathId, name: &str) {
        self.with(|inner, _| {
            inner.planned.insert(path, name.into());
        });
    }

    /// What is still on a path's subflows; `None` if it has none.
    pub(crate) fn carried(&self, path: PathId) -> Option<Carried> {
        self.see(|inner| {
            let of_path = inner.slots.iter().filter(|slot| slot.path == path).count();
            let stats = inner.stats();
            let stats = stats.paths.get(&path).filter(|_| of_path > 0)?;
            Some(Carried {
                outstanding: stats.subflow.as_ref().map_or(0, |subflow| subflow.outstanding),
                received: stats.received,
                is_spare: inner.slots.len() > of_path,
            })
        })
    }

    /// Closes a path's subflows.
    pub(crate) fn close_path(&self, path: PathId) {
        self.with(|inner, _| {
            let of_path = inner.slots.iter().filter(|slot| slot.path == path);
            of_path.for_each(|slot| slot.leave.notify_one());
        });
    }

    /// Live subflows.
    pub(crate) fn subflow_count(&self) -> usize {
        self.see(|inner| inner.slots.len())
    }
}

/// An event of the path `path` at `now`.
pub(crate) fn path_event(
    now: Instant,
    path: PathId,
    name: &Arc<str>,
    kind: PathEventKind,
) -> PathEvent {
    PathEvent { at: now.since(Instant::ZERO), path: path.0, name: Arc::clone(name), kind }
}
