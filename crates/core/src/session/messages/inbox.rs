//! What the receiver has of the peer's messages: the unfinished ones, those that wait for the
//! application, and the credit that follows from what they hold.

use std::collections::{BTreeMap, VecDeque};

use bytes::BytesMut;

use super::super::SessionError;
use super::{
    Incoming, MAX_OPEN_MESSAGES, Message, MessageId, MessageLimits, MessageOutcome, Outcome,
};
use crate::ranges::RangeSet;
use crate::reassembly::Reassembly;
use crate::wire::{Cancel, Data, DeliveryStatus, INITIAL_CREDIT, MessageHeader, VARINT_MAX};

/// The peer's messages.
#[derive(Debug)]
pub(in crate::session) struct Inbox {
    longest: u64,
    /// Announced and not complete, by the offset of the first byte.
    open: BTreeMap<u64, Partial>,
    /// What the application has not taken, in the order it became ready.
    ready: VecDeque<Incoming>,
    /// Entries that the application has taken.
    taken: u64,
    /// Offsets that need no memory any more: taken or dropped.
    freed: RangeSet,
    /// The peer may send below this offset.
    credit: u64,
    /// Offsets below the credit that are not freed.
    charged: u64,
    /// Memory of payloads, whole or in part.
    memory: u64,
    /// Of these, whole ones that the application has not taken.
    ready_bytes: u64,
    /// The delivery statuses of the cancels from the oldest on that the peer may ask for again:
    /// whether the message had arrived whole.
    statuses: BTreeMap<u64, bool>,
    oldest_cancel: u64,
    received: u64,
    dropped: u64,
}

/// A message on its way.
#[derive(Debug)]
struct Partial {
    end: u64,
    tag: u64,
    missing: u64,
    /// Made when the first byte comes.
    payload: BytesMut,
}

impl Inbox {
    pub(in crate::session) fn new(limits: MessageLimits) -> Self {
        Self {
            longest: limits.clamped().longest_received,
            open: BTreeMap::new(),
            ready: VecDeque::new(),
            taken: 0,
            freed: RangeSet::new(),
            credit: INITIAL_CREDIT,
            charged: INITIAL_CREDIT,
            memory: 0,
            ready_bytes: 0,
            statuses: BTreeMap::new(),
            oldest_cancel: 0,
            received: 0,
            dropped: 0,
        }
    }

    /// The longest message taken, bytes.
    pub(in crate::session) const fn longest(&self) -> u64 {
        self.longest
    }

    /// Memory held for received bytes.
    pub(in crate::session) const fn memory(&self) -> u64 {
        self.memory
    }

    /// Memory of whole messages that the application has not taken.
    pub(in crate::session) const fn ready_bytes(&self) -> u64 {
        self.ready_bytes
    }

    /// Entries that the application has taken.
    pub(in crate::session) const fn taken(&self) -> u64 {
        self.taken
    }

    /// Messages that arrived whole, and messages that the peer dropped.
    pub(in crate::session) const fn counts(&self) -> (u64, u64) {
        (self.received, self.dropped)
    }

    pub(in crate::session) fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// One past the last byte of any unfinished message.
    pub(in crate::session) fn end(&self) -> u64 {
        self.open.last_key_value().map_or(0, |(_, message)| message.end)
    }

    /// Takes the header of a message. Every subflow that carries bytes of it brings it.
    pub(in crate::session) fn handle_header(
        &mut self,
        stream: &Reassembly,
        header: &MessageHeader,
        credit: u64,
    ) -> Result<(), SessionError> {
        if self.check(stream, header)? {
            return Ok(());
        }
        if header.offset >= credit {
            return Err(SessionError::CreditExceeded { end: header.offset, credit });
        }
        self.check_count()?;
        let missing = header.len;
        let partial =
            Partial { end: header.end(), tag: header.tag, missing, payload: BytesMut::new() };
        self.open.insert(header.offset, partial);
        Ok(())
    }

    /// Whether a message is known, or has been: whether all of its offsets have been received.
    fn check(&self, stream: &Reassembly, header: &MessageHeader) -> Result<bool, SessionError> {
        let MessageHeader { offset, len, tag } = *header;
        if len > self.longest {
            return Err(SessionError::MessageTooLong { len, longest: self.longest });
        }
        if let Some(known) = self.open.get(&offset) {
            let same = known.end == header.end() && known.tag == tag;
            return if same { Ok(true) } else { Err(SessionError::MessageChanged(offset)) };
        }
        let range = offset..header.end();
        if stream.has(&range) {
            return Ok(true);
        }
        let missing = stream.first_missing(&range);
        let untouched = missing == Some(range.clone());
        let before = self.open.range(..offset).next_back();
        let overlaps = before.is_some_and(|(_, message)| message.end > offset)
            || self.open.range(range).next().is_some();
        if untouched && !overlaps { Ok(false) } else { Err(SessionError::MessageOverlap(offset)) }
    }

    fn check_count(&self) -> Result<(), SessionError> {
        if self.open.len() + self.ready.len() >= MAX_OPEN_MESSAGES {
            return Err(SessionError::TooManyMessages(MAX_OPEN_MESSAGES));
        }
        Ok(())
    }

    /// Puts the new bytes of a data record into their messages.
    pub(in crate::session) fn handle_data(
        &mut self,
        stream: &mut Reassembly,
        data: &Data,
    ) -> Result<(), SessionError> {
        let end = data.offset + data.payload.len() as u64;
        let mut at = data.offset;
        let mut new = 0;
        while let Some(hole) = stream.first_missing(&(at..end)) {
            let message = self.open.range_mut(..=hole.start).next_back();
            let Some((&start, message)) = message.filter(|(_, m)| m.end > hole.start) else {
                return Err(SessionError::NoSuchMessage(hole.start));
            };
            let part = hole.start..hole.end.min(message.end);
            if message.payload.is_empty() {
                let len = message.end - start;
                message.payload = BytesMut::zeroed(len as usize);
                self.memory += len;
            }
            let bytes = &data.payload[(part.start - data.offset) as usize..];
            let len = part.end - part.start;
            message.payload[(part.start - start) as usize..(part.end - start) as usize]
                .copy_from_slice(&bytes[..len as usize]);
            message.missing -= len;
            if message.missing == 0 {
                self.complete(start);
            }
            new += len;
            at = part.end;
            stream.mark(part);
        }
        stream.count_duplicates(data.payload.len() as u64 - new);
        Ok(())
    }

    /// A message has arrived whole.
    fn complete(&mut self, start: u64) {
        let Some(message) = self.open.remove(&start) else { return };
        let payload = message.payload.freeze();
        let message = Message { id: MessageId(start), tag: message.tag, payload };
        self.received += 1;
        self.ready_bytes += message.payload.len() as u64;
        self.ready.push_back(Incoming::Message(message));
    }

    /// Drops a message unless it has arrived whole. `None` if the peer knows its delivery status
    /// already.
    pub(in crate::session) fn handle_cancel(
        &mut self,
        stream: &mut Reassembly,
        cancel: &Cancel,
    ) -> Result<Option<DeliveryStatus>, SessionError> {
        let number = cancel.number;
        if number < self.oldest_cancel {
            return Ok(None);
        }
        self.oldest_cancel = self.oldest_cancel.max(cancel.oldest);
        while let Some(entry) = self.statuses.first_entry()
            && *entry.key() < self.oldest_cancel
        {
            entry.remove();
        }
        if let Some(&delivered) = self.statuses.get(&number) {
            return Ok(Some(DeliveryStatus { number, delivered }));
        }
        if self.statuses.len() >= MAX_OPEN_MESSAGES {
            return Err(SessionError::TooManyMessages(MAX_OPEN_MESSAGES));
        }
        let known = self.check(stream, &cancel.message)?;
        let delivered = known && !self.open.contains_key(&cancel.message.offset);
        if !delivered {
            self.discard(stream, cancel)?;
        }
        self.statuses.insert(number, delivered);
        Ok(Some(DeliveryStatus { number, delivered }))
    }

    fn discard(&mut self, stream: &mut Reassembly, cancel: &Cancel) -> Result<(), SessionError> {
        let MessageHeader { offset, tag, .. } = cancel.message;
        if let Some(partial) = self.open.remove(&offset) {
            self.memory -= partial.payload.len() as u64;
        }
        self.check_count()?;
        let range = offset..cancel.message.end();
        stream.mark(range.clone());
        self.free(range);
        self.dropped += 1;
        let outcome = if cancel.expired { Outcome::Expired } else { Outcome::Cancelled };
        let dropped = MessageOutcome { id: MessageId(offset), tag, outcome };
        self.ready.push_back(Incoming::Dropped(dropped));
        Ok(())
    }

    /// Hands the next entry to the application.
    pub(in crate::session) fn take(&mut self) -> Option<Incoming> {
        let incoming = self.ready.pop_front()?;
        self.taken += 1;
        if let Incoming::Message(message) = &incoming {
            let len = message.payload.len() as u64;
            self.memory -= len;
            self.ready_bytes -= len;
            self.free(message.id.0..message.id.0 + len);
        }
        Some(incoming)
    }

    fn free(&mut self, range: std::ops::Range<u64>) {
        let below = range.start.min(self.credit)..range.end.min(self.credit);
        self.charged -= below.end - below.start;
        self.freed.insert(range);
    }

    /// The offset below which `window` bytes lie that are not free, or what was granted before if
    /// that is more.
    pub(in crate::session) fn credit(&mut self, window: u64) -> u64 {
        while self.charged < window && self.credit < VARINT_MAX {
            let gap = self.freed.first_missing(&(self.credit..VARINT_MAX));
            let Some(gap) = gap else { break };
            let more = (window - self.charged).min(gap.end - gap.start);
            self.credit = gap.start + more;
            self.charged += more;
        }
        self.credit
    }
}
