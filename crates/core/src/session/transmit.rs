//! What goes out on a subflow: control records, and as much data as the scheduler gives it.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::{Event, Session};
use crate::wire::Record;
use crate::{Instant, SubflowId};

/// Space for control records is taken in blocks of this size, while so much of one is left.
const CONTROL_BLOCK: usize = 2 << 10;
const CONTROL_REST: usize = 256;

impl Session {
    /// Appends what subflow `id` should send now to `out`: control records always, and data
    /// records of about `room` bytes in all. Returns the bytes appended. After 0 the writer waits
    /// until [`poll_wake`](Self::poll_wake) names it.
    #[must_use]
    pub fn poll_transmit(
        &mut self,
        id: SubflowId,
        room: u64,
        out: &mut VecDeque<Bytes>,
        now: Instant,
    ) -> u64 {
        let Some(index) = self.send.index(id) else { return 0 };
        if let Some(control) = self.control.get_mut(&id) {
            control.woken = false;
        }
        let mut bytes = self.put_control(id, out, now);
        let allowed = self.send.allowed(index, room, now);
        let mut left = allowed;
        if !self.is_reset() && !self.send.subflows[index].is_silent() {
            while left > 0 {
                let Some(sent) = self.send.next_record(index, left, out, now) else { break };
                bytes += sent;
                left = left.saturating_sub(sent);
            }
        }
        if left < allowed {
            self.note_moved(now);
        }
        let subflow = &mut self.send.subflows[index];
        let was_idle = subflow.is_idle();
        subflow.set_idle(left > 0);
        subflow.set_capped(left == 0 && allowed < room);
        if left > 0
            && let Some(control) = self.control.get_mut(&id)
        {
            control.refused_at = self.send.changes();
            self.wake_refused();
            self.ping_if_refused(index, id, now);
        }
        if was_idle && left == 0 {
            // Others may have held back because this one had room; now it has none.
            self.wake_idle();
        }
        self.obey_scheduler(id);
        self.after(now);
        bytes
    }

    /// Asks for the round-trip time of a subflow that was given nothing though bytes wait: it may have
    /// been turned down by a figure that is out of date, and would be for as long as it carries
    /// nothing. One ping at a time: the next goes when this one has been answered.
    fn ping_if_refused(&mut self, index: usize, id: SubflowId, now: Instant) {
        if self.send.wants_ping(index, now) {
            self.probe(id, now);
        }
    }

    /// Does what the scheduler wanted when it was asked for `asker`. A subflow that had its answer
    /// since anything changed is not asked again, lest two wake each other for ever.
    fn obey_scheduler(&mut self, asker: SubflowId) {
        let changes = self.send.changes();
        while let Some(id) = self.send.poll_wake() {
            let index = self.send.index(id).filter(|_| id != asker);
            let waits = index.is_some_and(|index| self.send.subflows[index].is_idle());
            let answered = self.control.get(&id).is_some_and(|c| c.refused_at == changes);
            if waits && !answered {
                self.wake(id);
            }
        }
        self.events.extend(self.send.fault.take().map(Event::SchedulerReplaced));
        while let Some(id) = self.send.poll_penalty() {
            self.events.push_back(Event::Penalise(id));
        }
    }

    fn put_control(&mut self, id: SubflowId, out: &mut VecDeque<Bytes>, now: Instant) -> u64 {
        let subflows = self.control.len();
        let Some(control) = self.control.get_mut(&id) else { return 0 };
        // Taken from a larger block: control records are small and many.
        let mut block = std::mem::take(&mut self.blocks);
        if block.capacity() < CONTROL_REST {
            block = BytesMut::with_capacity(CONTROL_BLOCK);
        }
        if std::mem::take(&mut control.reset)
            && let Some(refusal) = &self.reset
        {
            Record::Reset(refusal.clone()).encode(&mut block);
        }
        if std::mem::take(&mut control.ack) {
            self.end_acked |= self.recv.is_complete();
            Record::Ack(self.recv.ack()).encode(&mut block);
        }
        for number in control.pongs.drain(..) {
            Record::Pong(number).encode(&mut block);
        }
        for fate in control.fates.drain(..) {
            Record::Fate(fate).encode(&mut block);
        }
        if let Some(outbox) = &self.send.outbox {
            outbox.put_cancels(&mut control.next_cancel, &mut block);
        }
        if std::mem::take(&mut control.wish) {
            Record::CreditWish(self.send.wish()).encode(&mut block);
        }
        if std::mem::take(&mut control.policy) {
            for change in self.send.policy_changes() {
                Record::PathPolicy(change).encode(&mut block);
            }
        }
        if std::mem::take(&mut control.fin)
            && let Some(offset) = self.send.final_offset()
        {
            Record::Fin(offset).encode(&mut block);
        }
        if control.ping_due().is_some_and(|at| at <= now) && !self.closed {
            Record::Ping(self.next_ping).encode(&mut block);
            control.ping = Some((self.next_ping, now));
            control.ping_at = self.liveness.next_ping(subflows, now);
            self.next_ping += 1;
        }
        let bytes = block.len() as u64;
        if bytes > 0 {
            out.push_back(block.split().freeze());
        }
        self.blocks = block;
        bytes
    }
}
