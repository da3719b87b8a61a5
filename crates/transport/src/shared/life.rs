//! What follows from each change of a connection's session and of its [`Life`](weftline_core::life):
//! deadlines, memory, and who is told.

use std::sync::Arc;

use weftline_core::life::{Cause, Ending};
use weftline_core::scheduler::Kind;
use weftline_core::session::{Event, RESET_ABANDONED, SessionStats};
use weftline_core::{Instant, SubflowId};

use super::{Effects, End, Inner, SEND_STEP, Shared, Slot, path_event};
use crate::clock;
use crate::error::Error;
use crate::events::PathEventKind;
use crate::refusal::printable;

/// A peer gets more credit when it has used this part of what it has.
const UNUSED_SHARE: u64 = 8;

/// Whoever serves a connection's deadlines, however that ends.
struct Served(Arc<Shared>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.left_alone();
    }
}

/// Serves the connection's deadlines until it is over. One that is dropped before it is first asked has been
/// left alone, too.
pub(super) fn run_timer(shared: Arc<Shared>) -> impl Future<Output = ()> {
    let served = Served(shared);
    async move {
        let shared = &served.0;
        while let Some(deadline) = shared.arm() {
            tokio::select! {
                () = tokio::time::sleep_until(clock::to_tokio(deadline)) => shared.handle_timeout(),
                () = shared.timer.notified() => {}
            }
        }
    }
}

impl Inner {
    /// Ends the connection; the peer is told `code` and `reason`.
    pub(super) fn fail(&mut self, error: Error, code: u64, reason: &str, now: Instant) {
        if self.life.fail(code, reason, &mut self.session, now) {
            self.end = Some(End::Failed(Arc::new(error)));
        }
    }

    /// Lets the peer send as much as it would, as far as there is memory, and gives back what is
    /// not needed to send.
    pub(super) fn balance_memory(&mut self, now: Instant) {
        if self.life.is_over() {
            return;
        }
        let wanted = self.session.receive_wanted();
        let has = self.lease.receive();
        let received = self.session.received();
        let is_slow = self.intake.note(received, has, || self.session.round_trip(now), now);
        if is_slow && wanted > has {
            // By a round trip that may be out of date.
            self.slots.iter().for_each(|slot| self.session.probe(slot.id, now));
        }
        // What is promised to peers that say little the others do not get.
        if wanted > has && received >= has / UNUSED_SHARE && self.intake.is_fast() {
            let limit = self.lease.grow_receive(wanted);
            if limit > has {
                self.session.set_receive_limit(limit, now);
            }
        }
        let held = self.session.send_memory();
        if self.lease.send() > 2 * (held + SEND_STEP) {
            let limit = self.lease.shrink_send((held + SEND_STEP / 2).next_multiple_of(SEND_STEP));
            self.session.set_send_limit(limit, u64::MAX, now);
        }
    }

    /// When something is due.
    pub(super) fn deadline(&self, now: Instant) -> Instant {
        let session = self.session.poll_timeout(now).filter(|_| !self.life.is_over());
        session.into_iter().chain(self.life.poll_timeout()).min().unwrap_or(Instant::FAR)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        let is_due = self.session.poll_timeout(now).is_some_and(|at| at <= now);
        if is_due && !self.life.is_over() {
            self.session.handle_timeout(now);
            if self.session.send_memory() == 0 {
                // Pings are due now and then: a connection that rests then keeps what it must.
                let limit = self.lease.shrink_send(0);
                self.session.set_send_limit(limit, u64::MAX, now);
            }
        }
        self.life.handle_timeout(&mut self.session, now);
    }

    /// Collects what the last change calls for.
    pub(super) fn drain(&mut self, now: Instant, effects: &mut Effects) {
        self.life.handle_progress(&mut self.session, now);
        self.drain_events(now, effects);
        if self.session.has_messages() {
            self.drain_outcomes(effects);
        }
        while let Some(id) = self.session.poll_wake() {
            effects.notifies.extend(self.slot(id).map(|slot| Arc::clone(&slot.wake)));
        }
        if let Some(ending) = self.life.poll_ending() {
            self.end_with(ending, effects);
        }
        let deadline = self.deadline(now);
        if deadline < self.armed {
            self.armed = deadline;
            effects.rearm = true;
        }
    }

    /// The connection has just ended.
    fn end_with(&mut self, ending: Ending, effects: &mut Effects) {
        let end = self.end.get_or_insert_with(|| match ending {
            Ending::Closed => End::Closed,
            Ending::Failed(cause) => End::Failed(Arc::new(error_of(cause))),
        });
        // One that was kept ready and is given up unused has not failed at anything.
        let abandoned = matches!(
            end,
            End::Failed(error) if matches!(**error, Error::Reset { code: RESET_ABANDONED, .. })
        );
        let failed = matches!(end, End::Failed(_));
        let stats = self.session.stats();
        let unused = stats.acknowledged == 0 && stats.delivered == 0;
        effects.over = Some(failed && !(abandoned && unused));
        effects.counted = self.life.was_open();
        // The timer ends when there is no subflow left, which may be so already.
        effects.rearm = true;
        effects.wakers.extend(self.reader.take());
        effects.wakers.extend(self.writer.take());
        // Each writer looks whether it has anything left to say.
        effects.notifies.extend(self.slots.iter().map(|slot| Arc::clone(&slot.wake)));
    }

    fn drain_events(&mut self, now: Instant, effects: &mut Effects) {
        while let Some(event) = self.session.poll_event() {
            self.life.handle_event(&event, &mut self.session, now);
            match event {
                Event::Readable | Event::Finished => effects.wakers.extend(self.reader.take()),
                Event::Writable => effects.wakers.extend(self.writer.take()),
                Event::Closed | Event::Reset(..) | Event::PeerLost => {}
                Event::SubflowStalled(id) => self.note_stall(id, Some(now), now, effects),
                Event::SubflowRecovered(id) => self.note_stall(id, None, now, effects),
                Event::SentAgain { subflow, range, kind } => {
                    let (offset, bytes) = (range.start, range.end - range.start);
                    let redundant = kind == Kind::Copy;
                    let number = subflow.0;
                    let kind =
                        PathEventKind::Reinjected { subflow: number, offset, bytes, redundant };
                    let slot = self.slot(subflow);
                    effects
                        .events
                        .extend(slot.map(|slot| path_event(now, slot.path, &slot.name, kind)));
                }
                Event::SchedulerReplaced(fault) => tracing::warn!("{fault}"),
                Event::PathPolicy(path, note) => {
                    self.session.set_policy(path, note, self.caps.of(path, note), now);
                }
            }
        }
    }

    /// Notes that a subflow stalled (`since`) or recovered.
    fn note_stall(
        &mut self,
        id: SubflowId,
        since: Option<Instant>,
        now: Instant,
        effects: &mut Effects,
    ) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.id == id) else { return };
        slot.stalled_since = since;
        effects.path_news = true;
        let kind = match since {
            Some(_) => PathEventKind::Stalled { subflow: id.0 },
            None => PathEventKind::Recovered { subflow: id.0 },
        };
        effects.events.push(path_event(now, slot.path, &slot.name, kind));
    }

    /// The session's counters; a subflow that the path manager does not wait for any longer is
    /// stalled, too.
    pub(super) fn stats(&self) -> SessionStats {
        let mut stats = self.session.stats();
        for subflow in stats.paths.values_mut().filter_map(|path| path.subflow.as_mut()) {
            subflow.stalled |= self.slot(subflow.id).is_some_and(|slot| !slot.answers);
        }
        stats
    }

    pub(super) fn slot(&self, id: SubflowId) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.id == id)
    }
}

/// What the application is told of why the connection failed.
fn error_of(cause: Cause) -> Error {
    let reason = cause.to_string();
    match cause {
        Cause::NoPath { after, delivered, received } => {
            Error::NoPath { after, delivered, received }
        }
        Cause::PeerLost { after, delivered, received } => {
            Error::PeerLost { after, delivered, received }
        }
        Cause::Reset(code, reason) => Error::Reset { code, reason: printable(&reason) },
        Cause::Dropped | Cause::Unread | Cause::Told => {
            Error::Reset { code: RESET_ABANDONED, reason }
        }
    }
}
