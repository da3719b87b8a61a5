//! How a connection goes on and ends: its deadlines, its memory, and what follows from each change
//! of its session.

use std::sync::Arc;
use std::time::Duration;

use weftline_core::session::{Event, RESET_ABANDONED};
use weftline_core::{Instant, SubflowId};

use super::{Effects, End, Inner, Phase, SEND_STEP, Shared, Slot, path_event};
use crate::clock;
use crate::error::Error;
use crate::events::PathEventKind;
use crate::refusal::printable;
use crate::status;

/// How long a connection that the application has let go of may take to deliver the rest.
const LINGER_TIME: Duration = Duration::from_secs(30);
/// How often such a connection is looked at.
const LINGER_TICK: Duration = Duration::from_millis(50);
/// How long a closed connection that lost its last subflow waits for another one.
const LAST_WORDS_TIME: Duration = Duration::from_secs(5);
/// A peer gets more credit when it has used this part of what it has.
const UNUSED_SHARE: u64 = 8;

/// Serves the connection's deadlines until it is over.
pub(super) async fn run_timer(shared: Arc<Shared>) {
    while let Some(deadline) = shared.arm() {
        tokio::select! {
            () = tokio::time::sleep_until(clock::to_tokio(deadline)) => shared.handle_timeout(),
            () = shared.timer.notified() => {}
        }
    }
    status::forget(shared.number);
    shared.advance(Phase::Gone);
}

impl Inner {
    pub(super) fn fail(&mut self, error: Error, code: u64, reason: &str, now: Instant) {
        if self.end.is_none() {
            self.session.reset(code, reason, now);
            self.end = Some(End::Failed(Arc::new(error)));
        }
    }

    /// Lets the peer send as much as it would, as far as there is memory, and gives back what is
    /// not needed to send.
    pub(super) fn balance_memory(&mut self, now: Instant) {
        let wanted = self.session.receive_wanted();
        let has = self.lease.receive();
        // What is promised to peers that say little the others do not get.
        if wanted > has && self.session.received() >= has / UNUSED_SHARE {
            let limit = self.lease.grow_receive(wanted);
            if limit > has {
                self.session.set_receive_limit(limit, now);
            }
        }
        let held = self.session.send_held();
        if self.lease.send() > 2 * (held + SEND_STEP) {
            let limit = self.lease.shrink_send((held + SEND_STEP / 2).next_multiple_of(SEND_STEP));
            self.session.set_send_limit(limit, now);
        }
    }

    /// Whether a new subflow would be of use.
    pub(super) fn wants_path(&self) -> bool {
        match self.end {
            None => true,
            Some(End::Closed) => self.slots.is_empty() && self.last_words_until().is_some(),
            Some(End::Failed(_)) => false,
        }
    }

    /// Until when a closed connection that lost its subflows waits for another one. The peer may
    /// not know yet that everything has arrived here.
    pub(super) fn last_words_until(&self) -> Option<Instant> {
        let open = !self.answered && matches!(self.end, Some(End::Closed));
        self.over_since.filter(|_| open).map(|since| since + LAST_WORDS_TIME)
    }

    pub(super) fn deadline(&self, now: Instant, grace: Duration) -> Instant {
        if self.end.is_some() {
            return Instant::FAR;
        }
        let session = self.session.poll_timeout(now);
        let no_path = self.no_path_since.map(|since| since + grace);
        let linger = self.abandoned_at.map(|_| now + LINGER_TICK);
        session.into_iter().chain(no_path).chain(linger).min().unwrap_or(Instant::FAR)
    }

    pub(super) fn handle_timeout(&mut self, now: Instant, grace: Duration) {
        if self.end.is_some() {
            return;
        }
        if self.session.poll_timeout(now).is_some_and(|at| at <= now) {
            self.session.handle_timeout(now);
        }
        if self.no_path_since.is_some_and(|since| since + grace <= now) {
            let stats = self.session.stats();
            let error = Error::NoPath {
                after: grace,
                delivered: stats.acknowledged,
                received: stats.delivered,
            };
            let reason = error.to_string();
            self.fail(error, RESET_ABANDONED, &reason, now);
        }
        if let Some(since) = self.abandoned_at {
            // As TCP does: who sends to one that has closed is told so, who does not may close in
            // peace.
            let unheard = self.is_unheard && self.session.is_delivered();
            if unheard || now.since(since) >= LINGER_TIME {
                let reason = "the application does not read any more";
                let error = Error::Reset { code: RESET_ABANDONED, reason: reason.to_owned() };
                self.fail(error, RESET_ABANDONED, reason, now);
            }
        }
    }

    /// Collects what the last change calls for.
    pub(super) fn drain(&mut self, now: Instant, grace: Duration, effects: &mut Effects) {
        if self.abandoned_at.is_some() {
            self.discard_input(now);
        }
        self.drain_events(now, effects);
        if self.session.has_messages() {
            self.drain_fates(effects);
        }
        while let Some(id) = self.session.poll_wake() {
            effects.notifies.extend(self.slot(id).map(|slot| Arc::clone(&slot.wake)));
        }
        if self.end.is_some() && self.over_since.is_none() {
            self.over_since = Some(now);
            effects.over = Some(matches!(self.end, Some(End::Failed(_))));
            effects.counted = !self.opening;
            // The timer ends when there is no subflow left, which may be so already.
            effects.rearm = true;
            effects.wakers.extend(self.reader.take());
            effects.wakers.extend(self.writer.take());
            // Each writer looks whether it has anything left to say.
            effects.notifies.extend(self.slots.iter().map(|slot| Arc::clone(&slot.wake)));
        }
        let deadline = self.deadline(now, grace);
        if deadline < self.armed {
            self.armed = deadline;
            effects.rearm = true;
        }
    }

    fn drain_events(&mut self, now: Instant, effects: &mut Effects) {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Readable | Event::Finished => effects.wakers.extend(self.reader.take()),
                Event::Writable => effects.wakers.extend(self.writer.take()),
                Event::Closed => self.end = self.end.take().or(Some(End::Closed)),
                Event::Reset(code, reason) => {
                    let error = Error::Reset { code, reason: printable(&reason) };
                    self.end = self.end.take().or_else(|| Some(End::Failed(Arc::new(error))));
                }
                Event::SubflowSilent(id) => self.judged(id, Some(now), now, effects),
                Event::SubflowRecovered(id) => self.judged(id, None, now, effects),
                Event::PeerLost => self.lose_peer(now),
                Event::SchedulerReplaced(fault) => tracing::warn!("{fault}"),
                Event::PathPolicy(path, note) => {
                    self.session.set_policy(path, note, self.caps.of(path, note), now);
                }
            }
        }
    }

    /// The peer does not answer any more, whatever its kernel says.
    fn lose_peer(&mut self, now: Instant) {
        let stats = self.session.stats();
        let error = Error::PeerLost {
            after: self.peer_timeout,
            delivered: stats.acknowledged,
            received: stats.delivered,
        };
        let reason = error.to_string();
        self.fail(error, RESET_ABANDONED, &reason, now);
    }

    /// Notes that a subflow fell silent (`since`) or recovered.
    fn judged(
        &mut self,
        id: SubflowId,
        since: Option<Instant>,
        now: Instant,
        effects: &mut Effects,
    ) {
        let Some(slot) = self.slots.iter_mut().find(|slot| slot.id == id) else { return };
        slot.silent_since = since;
        effects.path_news = true;
        let kind = match since {
            Some(_) => PathEventKind::Silent { subflow: id.0 },
            None => PathEventKind::Recovered { subflow: id.0 },
        };
        effects.events.push(path_event(now, slot.path, &slot.name, kind));
    }

    /// Nobody reads any more, but the peer's data must not hold up what is left to deliver.
    fn discard_input(&mut self, now: Instant) {
        while self.session.poll_message(now).is_some() {
            self.is_unheard = true;
        }
        loop {
            let len = self.session.read_chunk().len();
            if len == 0 {
                return;
            }
            self.is_unheard = true;
            self.session.consume(len, now);
        }
    }

    pub(super) fn slot(&self, id: SubflowId) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.id == id)
    }
}
