//! Our messages, as far as they need the stream: its memory, its room, and what of it is where.

use bytes::Bytes;

use super::messages::{MessageId, MessageOptions, Outcome, SendError};
use super::send::SendHalf;
use super::{MAX_OPEN_MESSAGES, WRITABLE_ROOM};
use crate::Instant;
use crate::wire::VARINT_MAX;

impl SendHalf {
    pub(super) fn send_message(
        &mut self,
        payload: Bytes,
        options: MessageOptions,
        now: Instant,
    ) -> Result<MessageId, SendError> {
        let len = payload.len() as u64;
        let (held, room) = (self.held(), self.has_message_room(len));
        let finished = self.is_finished();
        let outbox = self.outbox.as_mut().ok_or(SendError::NotMessages)?;
        let longest = outbox.longest();
        match () {
            () if finished => return Err(SendError::Finished),
            () if len == 0 => return Err(SendError::Empty),
            () if len > longest => return Err(SendError::TooLong { len, longest }),
            () if options.tag > VARINT_MAX => return Err(SendError::Tag(options.tag)),
            () if options.deadline.is_some_and(|at| at <= now) => return Err(SendError::Expired),
            () if !room => {
                outbox.refused = Some((len, held));
                return Err(SendError::Full);
            }
            () => {}
        }
        let range = self.append(payload);
        let outbox = self.outbox.as_mut().expect("looked at above");
        outbox.refused = None;
        outbox.push(range.clone(), options);
        Ok(MessageId(range.start))
    }

    /// Whether a message of `len` bytes fits the memory. One always fits when there is no other.
    fn has_message_room(&self, len: u64) -> bool {
        let held = self.held();
        let open = self.outbox.as_ref().map_or(0, |outbox| outbox.open());
        let (most, limit) = self.memory_limits();
        open < MAX_OPEN_MESSAGES && (held == 0 || held + len <= most.min(limit))
    }

    /// Whether there is room now for the message that was refused last, or may be if the driver
    /// asks for more memory again: not before some has come free.
    pub(super) fn take_message_room(&mut self) -> bool {
        let Some((len, before)) = self.outbox.as_ref().and_then(|outbox| outbox.refused) else {
            return false;
        };
        let (held, (most, _)) = (self.held(), self.memory_limits());
        let less = held + WRITABLE_ROOM <= before && held + len <= most;
        let room = less || self.has_message_room(len);
        if room && let Some(outbox) = &mut self.outbox {
            outbox.refused = None;
        }
        room
    }

    /// Drops a message if it is open and the peer is not known to have all of it.
    pub(super) fn cancel_message(&mut self, id: MessageId, why: Outcome) -> bool {
        let Some(outbox) = &mut self.outbox else { return false };
        let Some(range) = outbox.range(id.0) else { return false };
        outbox.cancel(id.0, why);
        self.give_up(range);
        true
    }

    /// Drops what is past its deadline and would have to be sent, for the first time or again.
    /// Returns whether there was anything.
    pub(super) fn expire(&mut self, now: Instant) -> bool {
        let Some(outbox) = &mut self.outbox else { return false };
        let late: Vec<u64> = outbox.late(now).iter().copied().collect();
        let mut dropped = false;
        for start in late {
            let range = self.outbox.as_ref().and_then(|outbox| outbox.range(start));
            if range.is_some_and(|range| !self.is_on_its_way(&range)) {
                dropped |= self.cancel_message(MessageId(start), Outcome::Expired);
            }
        }
        dropped
    }
}
