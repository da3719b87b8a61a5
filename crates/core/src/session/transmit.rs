//! What goes out on a subflow: control records, and as much data as the scheduler gives it.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::{Event, Session, SessionEnd};
use crate::scheduler::Kind;
use crate::wire::Record;
use crate::{Instant, SubflowId};

/// Space for control records is taken in blocks of this size, while so much of one is left.
const CONTROL_BLOCK: usize = 2 << 10;
const CONTROL_REST: usize = 256;

impl Session {
    /// Takes how many bytes of data the socket of subflow `id` can take at present, besides what
    /// [`poll_transmit`](Self::poll_transmit) has still to give. Unknown numbers are ignored.
    pub fn handle_room(&mut self, id: SubflowId, room: u64) {
        let queued = self.control.get(&id).map_or(0, |control| control.queued);
        if let Some(index) = self.send.index(id) {
            let room = room.saturating_sub(queued);
            self.evaluation_due |= self.send.subflows[index].set_room(room);
        }
    }

    /// Whether it matters what room the socket of subflow `id` has: there are bytes that the peer may
    /// not have, or nothing is known of its room. A driver that has to ask for it may save that
    /// otherwise.
    pub fn wants_room(&self, id: SubflowId) -> bool {
        let known = self.send.index(id).is_some_and(|i| self.send.subflows[i].room() > 0);
        !known || self.send.held() > 0
    }

    /// Appends what subflow `id` should send now to `out`: control records, and the data records that
    /// the scheduler gives it. What it gives others that have room waits for their writers, who are
    /// woken. Returns the bytes appended. After 0 the writer waits until
    /// [`poll_wake`](Self::poll_wake) names it.
    #[must_use]
    pub fn poll_transmit(&mut self, id: SubflowId, out: &mut VecDeque<Bytes>, now: Instant) -> u64 {
        let Some(control) = self.control.get_mut(&id) else { return 0 };
        control.woken = false;
        if std::mem::take(&mut self.evaluation_due) {
            self.evaluate_stalls(now);
        }
        let mut bytes = self.put_control(id, out, now);
        if !self.is_reset() {
            bytes += self.take_frames(id, out);
            bytes += self.assign(id, out, now);
        }
        self.update(now);
        bytes
    }

    /// Moves the data records that wait for the subflow's writer to `out`.
    fn take_frames(&mut self, id: SubflowId, out: &mut VecDeque<Bytes>) -> u64 {
        let Some(control) = self.control.get_mut(&id) else { return 0 };
        out.append(&mut control.frames);
        std::mem::take(&mut control.queued)
    }

    /// Asks the scheduler until nothing more goes anywhere. Appends what is for `asker` to `out` and
    /// returns how many bytes that is.
    fn assign(&mut self, asker: SubflowId, out: &mut VecDeque<Bytes>, now: Instant) -> u64 {
        let (mut bytes, mut moved) = (0, false);
        while let Some(next) = self.send.next_assignment(now) {
            moved = true;
            let (id, range) = (self.send.subflows[next.subflow].id(), next.range.clone());
            let Some(control) = self.control.get_mut(&id) else { continue };
            let is_mine = id == asker;
            let frames = if is_mine { &mut *out } else { &mut control.frames };
            let (more, kind) = self.send.put_record(next, frames, now);
            if is_mine {
                bytes += more;
            } else {
                control.queued += more;
                self.wake(id);
            }
            if kind != Kind::New {
                self.events.push_back(Event::SentAgain { subflow: id, range, kind });
            }
        }
        if moved {
            self.note_moved(now);
        }
        self.events.extend(self.send.fault.take().map(Event::SchedulerReplaced));
        self.ping_turned_down(now);
        bytes
    }

    /// Asks for the round-trip times of the subflows that were given nothing though bytes wait: they
    /// may have been turned down by a metric that is out of date, and would be for as long as they
    /// carry nothing. One ping at a time: the next goes when this one has been answered.
    fn ping_turned_down(&mut self, now: Instant) {
        for index in 0..self.send.subflows.len() {
            if self.send.wants_ping(index, now) {
                self.probe(self.send.subflows[index].id(), now);
            }
        }
    }

    fn put_control(&mut self, id: SubflowId, out: &mut VecDeque<Bytes>, now: Instant) -> u64 {
        let subflows = self.control.len();
        let Some(control) = self.control.get_mut(&id) else { return 0 };
        // Taken from a larger block: control records are small and many.
        let mut block = std::mem::take(&mut self.blocks);
        let is_idle = self.liveness.is_idle(now);
        if is_idle {
            // One that says little now and then keeps no block for that.
            block = BytesMut::new();
        } else if block.capacity() < CONTROL_REST {
            block = BytesMut::with_capacity(CONTROL_BLOCK);
        }
        if std::mem::take(&mut control.reset)
            && let Some(SessionEnd::Reset(refusal)) = &self.end
        {
            Record::Reset(refusal.clone()).encode(&mut block);
        }
        if std::mem::take(&mut control.ack) {
            self.end_acked |= self.recv.is_complete();
            Record::Ack(self.recv.ack(id)).encode(&mut block);
        }
        for number in control.pongs.drain(..) {
            Record::Pong(number).encode(&mut block);
        }
        for status in control.delivery_statuses.drain(..) {
            Record::DeliveryStatus(status).encode(&mut block);
        }
        if let Some(outbox) = &self.send.outbox {
            outbox.put_cancels(&mut control.next_cancel, &mut block);
        }
        if std::mem::take(&mut control.wish) {
            Record::CreditWish(self.send.credit.wish()).encode(&mut block);
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
        if control.ping_due().is_some_and(|at| at <= now) && self.end.is_none() {
            Record::Ping(self.next_ping).encode(&mut block);
            control.ping = Some((self.next_ping, now));
            control.ping_at = self.liveness.next_ping(subflows, now);
            self.next_ping += 1;
        }
        let bytes = block.len() as u64;
        if bytes > 0 {
            out.push_back(block.split().freeze());
        }
        self.blocks = if is_idle { BytesMut::new() } else { block };
        bytes
    }
}
