//! What the sender knows of its messages: which offsets they have, when they are to be dropped,
//! and which cancels the peer has not answered.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::time::Duration;

use bytes::BytesMut;

use super::{MAX_OPEN_MESSAGES, MessageId, MessageLimits, MessageOptions, MessageOutcome, Outcome};
use crate::Instant;
use crate::ranges::RangeSet;
use crate::scheduler::Messages;
use crate::wire::{Ack, Cancel, DeliveryStatus, MessageHeader, Record};

const MAX_OPEN: u64 = MAX_OPEN_MESSAGES as u64;

/// The messages of our direction whose outcome is not known.
#[derive(Debug)]
pub(in crate::session) struct Outbox {
    longest: u64,
    /// By the offset of the first byte.
    open: BTreeMap<u64, Outgoing>,
    /// Messages there have been.
    count: u64,
    /// Of these, taken by the peer's application.
    taken: u64,
    /// The first byte of the first message that has to wait until more are taken.
    limit: u64,
    /// When the deadlines are, of messages not past them.
    deadlines: BTreeSet<(Instant, u64)>,
    /// Messages without a deadline.
    undated: BTreeSet<u64>,
    /// Messages past their deadline that are left to arrive as they are on their way.
    late: BTreeSet<u64>,
    /// Ranges acknowledged and not looked at.
    acked: Vec<Range<u64>>,
    /// Dropped messages that the peer may not be told of before it has taken more.
    waiting: BTreeSet<u64>,
    /// Cancels without an answer: number → the message's first byte.
    cancels: BTreeMap<u64, u64>,
    /// Cancels there have been.
    cancelled: u64,
    /// Whether there are cancels that subflows have not been given.
    new_cancels: bool,
    outcomes: VecDeque<MessageOutcome>,
    /// The length of a message that found no room, and how much was held then.
    pub(in crate::session) refused: Option<(u64, u64)>,
    delivered: u64,
    dropped: u64,
}

/// One message.
#[derive(Debug)]
struct Outgoing {
    end: u64,
    tag: u64,
    /// Its place among all messages.
    number: u64,
    deadline: Option<Instant>,
    /// Why it was dropped, if it was.
    dropped: Option<Outcome>,
}

impl Messages for Outbox {
    fn at(&self, offset: u64) -> Option<(Range<u64>, Option<Instant>)> {
        let (&start, message) = self.open.range(..=offset).next_back()?;
        (offset < message.end).then_some((start..message.end, message.deadline))
    }

    fn undated_from(&self, offset: u64) -> Option<Range<u64>> {
        let around = self.open.range(..=offset).next_back().map(|(&start, _)| start);
        let from = around.filter(|start| self.open[start].end > offset).unwrap_or(offset);
        let start = *self.undated.range(from..).next()?;
        Some(start..self.open.get(&start)?.end)
    }
}

impl Outbox {
    /// The longest message that the peer takes, bytes.
    pub(in crate::session) const fn longest(&self) -> u64 {
        self.longest
    }

    /// How many messages are open.
    pub(in crate::session) fn open(&self) -> usize {
        self.open.len()
    }

    pub(in crate::session) fn new(limits: MessageLimits) -> Self {
        Self {
            longest: limits.clamped().longest_sent,
            open: BTreeMap::new(),
            count: 0,
            taken: 0,
            limit: u64::MAX,
            deadlines: BTreeSet::new(),
            undated: BTreeSet::new(),
            late: BTreeSet::new(),
            acked: Vec::new(),
            waiting: BTreeSet::new(),
            cancels: BTreeMap::new(),
            cancelled: 0,
            new_cancels: false,
            outcomes: VecDeque::new(),
            refused: None,
            delivered: 0,
            dropped: 0,
        }
    }

    /// The peer takes messages of this length.
    pub(in crate::session) const fn set_longest(&mut self, longest: u64) {
        self.longest = longest;
    }

    /// Nothing at or above this offset may be sent.
    pub(in crate::session) const fn limit(&self) -> u64 {
        self.limit
    }

    /// Messages there have been.
    pub(in crate::session) const fn count(&self) -> u64 {
        self.count
    }

    /// Of these, known to have been delivered, and dropped.
    pub(in crate::session) const fn ended(&self) -> (u64, u64) {
        (self.delivered, self.dropped)
    }

    /// Whether the delivery status of a dropped message is still to come.
    pub(in crate::session) fn awaits_status(&self) -> bool {
        !self.cancels.is_empty() || !self.waiting.is_empty()
    }

    pub(in crate::session) fn poll_outcome(&mut self) -> Option<MessageOutcome> {
        self.outcomes.pop_front()
    }

    pub(in crate::session) fn next_deadline(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Notes a message whose bytes have been written to `range`.
    pub(in crate::session) fn push(&mut self, range: Range<u64>, options: MessageOptions) {
        let number = self.count;
        self.count += 1;
        if number >= self.taken + MAX_OPEN {
            self.limit = self.limit.min(range.start);
        }
        match options.deadline {
            Some(deadline) => self.deadlines.insert((deadline, range.start)),
            None => self.undated.insert(range.start),
        };
        let message = Outgoing {
            end: range.end,
            tag: options.tag,
            number,
            deadline: options.deadline,
            dropped: None,
        };
        self.open.insert(range.start, message);
    }

    /// The messages that have bytes in `range`, by their first bytes.
    fn overlapping(&self, range: &Range<u64>) -> impl Iterator<Item = (u64, &Outgoing)> {
        let before = self.open.range(..range.start).next_back();
        let before = before.filter(|(_, message)| message.end > range.start);
        let within = self.open.range(range.start..range.end.max(range.start));
        before.into_iter().chain(within).map(|(&start, message)| (start, message))
    }

    /// Appends the headers of the messages that begin, for a subflow that holds `on`, with the data
    /// record of `range`.
    pub(in crate::session) fn announce(
        &self,
        range: &Range<u64>,
        on: &RangeSet,
        out: &mut BytesMut,
    ) {
        for (offset, message) in self.overlapping(range) {
            if on.first_in(&(offset..message.end)).is_none() {
                let header = MessageHeader { offset, len: message.end - offset, tag: message.tag };
                Record::Message(header).encode(out);
            }
        }
    }

    /// Notes that the peer has received `range`.
    pub(in crate::session) fn note_acked(&mut self, range: Range<u64>) {
        self.acked.push(range);
    }

    /// Draws the conclusions of an acknowledgement: everything below `una` and in `acked` has
    /// arrived.
    pub(in crate::session) fn settle(&mut self, ack: &Ack, una: u64, acked: &RangeSet) {
        let mut looked_at = std::mem::take(&mut self.acked);
        for range in looked_at.drain(..) {
            let whole = |start: u64, message: &Outgoing| {
                let above = start.max(una)..message.end.max(una);
                message.dropped.is_none() && acked.contains(&above)
            };
            let done = self.overlapping(&range).filter(|(start, message)| whole(*start, message));
            let done: Vec<u64> = done.map(|(start, _)| start).collect();
            done.into_iter().for_each(|start| self.end(start, Outcome::Delivered));
        }
        self.acked = looked_at;
        self.handle_taken(ack.taken);
    }

    /// The peer's application has taken `taken` messages: as many more may begin.
    fn handle_taken(&mut self, taken: u64) {
        if taken <= self.taken {
            return;
        }
        self.taken = taken.min(self.count);
        let allowed = self.taken + MAX_OPEN;
        if self.limit < u64::MAX {
            let mut above = self.open.range(self.limit..);
            let held = above.find(|(_, message)| message.number >= allowed);
            self.limit = held.map_or(u64::MAX, |(&start, _)| start);
        }
        while let Some(&start) = self.waiting.first()
            && self.open.get(&start).is_none_or(|message| message.number < allowed)
        {
            self.waiting.pop_first();
            self.tell(start);
        }
    }

    /// Numbers a cancel, which then goes out.
    fn tell(&mut self, start: u64) {
        self.cancels.insert(self.cancelled, start);
        self.cancelled += 1;
        self.new_cancels = true;
    }

    /// Whether cancels have been added that subflows should be given.
    pub(in crate::session) const fn take_new_cancels(&mut self) -> bool {
        std::mem::replace(&mut self.new_cancels, false)
    }

    /// Drops an open message.
    pub(in crate::session) fn cancel(&mut self, start: u64, why: Outcome) {
        let Some(message) = self.open.get_mut(&start) else { return };
        message.dropped = Some(why);
        self.late.remove(&start);
        self.undated.remove(&start);
        if let Some(deadline) = message.deadline {
            self.deadlines.remove(&(deadline, start));
        }
        if message.number < self.taken + MAX_OPEN {
            self.tell(start);
        } else {
            self.waiting.insert(start);
        }
    }

    /// Appends the cancels from number `next` on.
    pub(in crate::session) fn put_cancels(&self, next: &mut u64, out: &mut BytesMut) {
        let Some((&oldest, _)) = self.cancels.first_key_value() else { return };
        let from = (*next).max(oldest);
        for (&number, &offset) in self.cancels.range(from..(oldest + MAX_OPEN).max(from)) {
            let Some(message) = self.open.get(&offset) else { continue };
            let header = MessageHeader { offset, len: message.end - offset, tag: message.tag };
            let expired = message.dropped == Some(Outcome::Expired);
            Record::Cancel(Cancel { number, oldest, expired, message: header }).encode(out);
            *next = number + 1;
        }
    }

    /// Takes the answer to a cancel. Returns whether more cancels may go now.
    pub(in crate::session) fn handle_delivery_status(&mut self, status: DeliveryStatus) -> bool {
        // Each subflow answers; the first answer counts.
        let held_back = |cancels: &BTreeMap<u64, u64>| {
            let (first, last) = (cancels.first_key_value(), cancels.last_key_value());
            first.zip(last).is_some_and(|((first, _), (last, _))| last - first >= MAX_OPEN)
        };
        let held = held_back(&self.cancels);
        let Some(start) = self.cancels.remove(&status.number) else { return false };
        let why = self.open.get(&start).and_then(|message| message.dropped);
        let why = why.unwrap_or(Outcome::Cancelled);
        self.end(start, if status.delivered { Outcome::Delivered } else { why });
        held
    }

    /// The outcome of a message is known.
    fn end(&mut self, start: u64, outcome: Outcome) {
        let Some(message) = self.open.remove(&start) else { return };
        self.late.remove(&start);
        self.undated.remove(&start);
        if let Some(deadline) = message.deadline {
            self.deadlines.remove(&(deadline, start));
        }
        match outcome {
            Outcome::Delivered => self.delivered += 1,
            Outcome::Cancelled | Outcome::Expired => self.dropped += 1,
        }
        self.outcomes.push_back(MessageOutcome { id: MessageId(start), tag: message.tag, outcome });
    }

    /// Gives messages whose deadline is later than `after` so much more time. Whether there are any.
    pub(in crate::session) fn put_off(&mut self, after: Instant, by: Duration) -> bool {
        let later = self.deadlines.split_off(&(after, u64::MAX));
        let any = !later.is_empty();
        for (deadline, start) in later {
            let deadline = deadline + by;
            self.deadlines.insert((deadline, start));
            if let Some(message) = self.open.get_mut(&start) {
                message.deadline = Some(deadline);
            }
        }
        any
    }

    /// Notes which messages are past their deadline now; returns all that are.
    pub(in crate::session) fn late(&mut self, now: Instant) -> &BTreeSet<u64> {
        while let Some(&(at, start)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            self.late.insert(start);
        }
        &self.late
    }

    /// The range of an open message that was not dropped.
    pub(in crate::session) fn range(&self, start: u64) -> Option<Range<u64>> {
        let message = self.open.get(&start).filter(|message| message.dropped.is_none())?;
        Some(start..message.end)
    }
}
