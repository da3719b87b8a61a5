//! The receiving half of a session: the stream as it arrives, the credit given to the peer, and
//! the acknowledgements due.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;

use super::messages::inbox::Inbox;
use super::weave::{Weave, WeaveRecord};
use super::{Incoming, MAX_OPEN_MESSAGES, SessionConfig, SessionError};
use crate::Instant;
use crate::path::{PathId, SubflowId};
use crate::ranges::RangeSet;
use crate::reassembly::{MAX_PIECES, Reassembly};
use crate::subflow::Kind;
use crate::wire::{
    Ack, Cancel, Data, DeliveryStatus, INITIAL_CREDIT, MAX_ACK_RANGES, MAX_SUBFLOW_ACKS,
    MessageHeader, SubflowAck,
};

/// The same time where the last hole has been filled: a sender that works in windows, as FBDT is
/// printed, waits for just that.
const FILLED_INTERVAL: Duration = Duration::from_millis(1);
/// Bytes received that are acknowledged at once.
const ACK_BYTES: u64 = 256 << 10;
/// The window grows to so many times what it was at once, as in TCP's receivers (Linux's dynamic
/// right-sizing), each time for half a window that the application has taken or that has come out
/// of order.
const WINDOW_GROWTH: u64 = 2;
/// Ranges that a subflow has not told of.
const MAX_UNTOLD: usize = 1024;
/// Separate pieces above the in-order point: so many, and one for so many bytes of theirs.
const LEAST_PIECES: usize = 4096;
const PIECE: u64 = 16;
/// An application with more than this part of the window to read does not read at once.
const UNREAD_SHARE: u64 = 8;

#[derive(Debug)]
pub(super) struct RecvHalf {
    pub(super) stream: Reassembly,
    /// The peer's messages, in a connection that carries them.
    pub(super) inbox: Option<Box<Inbox>>,
    /// Of these, how many the peer knows to have been taken.
    told_taken: u64,
    /// How much the peer may have outstanding above the application's read offset.
    window: u64,
    /// How much the application had taken when the window last grew.
    grown_at: u64,
    max_window: u64,
    /// Whether the driver alone says how large it is.
    driver_sizes: bool,
    /// What the peer would like outstanding, and what of that the driver has memory for.
    wished: u64,
    limit: u64,
    /// The credit the peer knows of.
    advertised: u64,
    final_offset: Option<u64>,
    subflows: BTreeMap<SubflowId, Received>,
    /// Payload bytes that have come, those that came twice as well.
    payload: u64,
    unacked: u64,
    last_ack: Instant,
    ack_at: Option<Instant>,
    /// The least time between two acknowledgements, unless [`ACK_BYTES`] have come.
    ack_interval: Duration,
    /// What has come where, while somebody looks.
    weave: Option<Box<Weave>>,
}

/// What the receiving half knows of a live subflow.
#[derive(Debug, Default)]
struct Received {
    /// Payload bytes that came on it.
    bytes: u64,
    /// What came above the in-order point, on whatever subflow, since this one last told of it. A
    /// subflow loses nothing and keeps the order, so that nothing is told on it twice.
    untold: RangeSet,
}

impl RecvHalf {
    pub(super) fn new(config: &SessionConfig) -> Self {
        let inbox = config.messages.map(|limits| Box::new(Inbox::new(limits)));
        // There is always room for one message more.
        let longest = inbox.as_ref().map_or(0, |inbox| inbox.longest());
        let max_memory = config.memory().max(longest);
        Self {
            stream: Reassembly::with_pool(config.pool.clone()),
            inbox,
            told_taken: 0,
            window: config.first_window.as_u64().max(longest).clamp(INITIAL_CREDIT, max_memory),
            grown_at: 0,
            max_window: max_memory,
            driver_sizes: config.driver_sizes_window,
            wished: 0,
            limit: u64::MAX,
            advertised: INITIAL_CREDIT,
            final_offset: None,
            subflows: BTreeMap::new(),
            payload: 0,
            unacked: 0,
            last_ack: Instant::ZERO,
            ack_at: None,
            ack_interval: Duration::ZERO,
            weave: None,
        }
    }

    /// Records what comes where from now on, so many stretches at most, or no longer.
    pub(super) fn record_weave(&mut self, most: Option<usize>) {
        self.weave = most.map(|most| Box::new(Weave::new(most)));
    }

    pub(super) fn weave(&self, now: Instant) -> Option<WeaveRecord> {
        let record = |weave: &Weave| weave.record(self.stream.in_order(), self.stream.above(), now);
        let record = self.weave.as_deref().map(record)?;
        Some(WeaveRecord { is_received: true, ..record })
    }

    /// Notes what has come where. `duplicates` is how many bytes had come twice before: what was there
    /// already is a copy.
    #[cold]
    fn note_weave(&mut self, range: &Range<u64>, path: PathId, duplicates: u64, now: Instant) {
        let is_new = self.stream.duplicates() - duplicates < range.end - range.start;
        let (in_order, above) = (self.stream.in_order(), self.stream.above().first());
        if let Some(weave) = &mut self.weave {
            let kind = if is_new { Kind::New } else { Kind::Copy };
            weave.note(range, (path, kind), None, now);
            // Messages wait for none of the others.
            if self.inbox.is_none() {
                weave.note_order(in_order, above.map(|range| range.start), now);
            }
        }
    }

    pub(super) fn subflow_up(&mut self, id: SubflowId) {
        let mut subflow = Received::default();
        self.stream.above().iter().take(MAX_UNTOLD).for_each(|range| subflow.note(range));
        self.subflows.insert(id, subflow);
    }

    pub(super) fn subflow_down(&mut self, id: SubflowId) {
        self.subflows.remove(&id);
    }

    /// Payload bytes that have come on any subflow, those that came twice as well.
    pub(super) const fn payload(&self) -> u64 {
        self.payload
    }

    /// Payload bytes received on a live subflow.
    pub(super) fn received_on(&self, id: SubflowId) -> u64 {
        self.subflows.get(&id).map_or(0, |subflow| subflow.bytes)
    }

    /// Takes a data record that came on a subflow, whose path is not known if that is gone.
    pub(super) fn handle_data(
        &mut self,
        (id, path): (SubflowId, Option<PathId>),
        data: &Data,
        now: Instant,
    ) -> Result<(), SessionError> {
        let len = data.payload.len() as u64;
        let end = data.offset + len;
        if end > self.advertised {
            return Err(SessionError::CreditExceeded { end, credit: self.advertised });
        }
        if self.final_offset.is_some_and(|last| end > last) {
            return Err(SessionError::BeyondEnd(end));
        }
        self.payload += len;
        if let Some(subflow) = self.subflows.get_mut(&id) {
            subflow.bytes += len;
        }
        let had_holes = !self.stream.above().is_empty();
        let duplicates = self.stream.duplicates();
        match &mut self.inbox {
            None => {
                self.stream.insert(data.offset, &data.payload);
            }
            Some(inbox) => inbox.handle_data(&mut self.stream, data)?,
        }
        self.check_pieces()?;
        if self.weave.is_some()
            && let Some(path) = path
        {
            self.note_weave(&(data.offset..end), path, duplicates, now);
        }
        self.note_untold(data.offset..end);
        self.grant(now);
        self.unacked += len;
        self.schedule_ack(self.unacked >= ACK_BYTES || self.is_complete(), now);
        if had_holes && self.stream.above().is_empty() {
            self.schedule_ack_in(FILLED_INTERVAL, now);
        }
        Ok(())
    }

    /// Refuses more holes than their bytes are worth: each costs memory, here and for each subflow.
    fn check_pieces(&self) -> Result<(), SessionError> {
        let above = self.stream.above();
        let worth = usize::try_from(above.bytes() / PIECE).unwrap_or(usize::MAX);
        let most = worth.saturating_add(LEAST_PIECES).min(MAX_PIECES);
        match above.len() > most {
            true => Err(SessionError::TooFragmented(most)),
            false => Ok(()),
        }
    }

    /// The range has been received: each subflow has to tell of what of it is above the in-order
    /// point.
    fn note_untold(&mut self, range: Range<u64>) {
        let in_order = self.stream.in_order();
        let above = range.start.max(in_order)..range.end.max(in_order);
        for subflow in self.subflows.values_mut() {
            subflow.note(above.clone());
            subflow.untold.remove_below(in_order);
        }
    }

    pub(super) fn handle_fin(&mut self, offset: u64, now: Instant) -> Result<(), SessionError> {
        let received = self.stream.above().last().map_or(self.stream.in_order(), |r| r.end);
        let received = received.max(self.inbox.as_ref().map_or(0, |inbox| inbox.end()));
        if self.final_offset.is_some_and(|known| known != offset) || offset < received {
            return Err(SessionError::EndMoved(offset));
        }
        self.final_offset = Some(offset);
        self.schedule_ack(true, now);
        Ok(())
    }

    /// The peer would like this much outstanding; it gets it up to the configured memory, as far as
    /// the application reads it.
    pub(super) fn handle_wish(&mut self, wish: u64, now: Instant) {
        self.wished = wish.clamp(self.window, self.max_window.max(self.window));
        self.grant(now);
    }

    /// What the peer would have outstanding now if the driver had memory for it.
    ///
    /// More than before only while the application reads at once: what lies readable in memory is
    /// no reason for more of it. What is held out of order is, as no reader can take it.
    pub(super) fn wanted(&self) -> u64 {
        if self.driver_sizes {
            return self.max_window;
        }
        let (taken, unread, above) = self.held();
        let half = self.window / 2;
        let is_used = taken.saturating_sub(self.grown_at) >= half || above >= half;
        match is_used && unread <= self.window / UNREAD_SHARE {
            true => self.wished.min(self.window.saturating_mul(WINDOW_GROWTH)).max(self.window),
            false => self.window,
        }
    }

    /// Bytes that the application has taken, that it could take, and that wait for others.
    fn held(&self) -> (u64, u64, u64) {
        let above = self.stream.above().bytes();
        match &self.inbox {
            None => {
                let (read, in_order) = (self.stream.read_offset(), self.stream.in_order());
                (read, in_order - read, above)
            }
            Some(inbox) => {
                let (memory, ready) = (inbox.memory(), inbox.ready_bytes());
                let received = self.stream.in_order() + above;
                (received.saturating_sub(memory), ready, memory - ready)
            }
        }
    }

    /// The driver has memory for this much; what was granted before stays granted.
    pub(super) fn set_limit(&mut self, limit: u64, now: Instant) {
        self.limit = limit;
        self.grant(now);
    }

    fn grant(&mut self, now: Instant) {
        let granted = self.wanted().min(self.limit);
        if granted > self.window {
            (self.grown_at, ..) = self.held();
            self.window = granted;
            self.schedule_ack(true, now);
        }
    }

    /// Bytes of the stream that the application can take; none in a connection of messages.
    pub(super) const fn readable(&self) -> u64 {
        match &self.inbox {
            None => self.stream.in_order() - self.stream.read_offset(),
            Some(_) => 0,
        }
    }

    /// Frees what the application has read. Credit goes out when an eighth of it is new.
    pub(super) fn consume(&mut self, n: u64, now: Instant) {
        self.stream.consume(n);
        self.freed(now);
    }

    /// Takes out what can be read of a block, whole ones without copying.
    pub(super) fn read_bytes(&mut self, whole: bool, now: Instant) -> Option<Bytes> {
        let bytes = self.stream.take_block().or_else(|| {
            let any = !whole && !self.stream.chunk().is_empty();
            any.then(|| self.stream.copy_chunk())
        })?;
        self.freed(now);
        Some(bytes)
    }

    fn freed(&mut self, now: Instant) {
        self.grant(now);
        if self.credit() - self.advertised >= self.window / 8 {
            self.schedule_ack(false, now);
        }
    }

    /// Takes the header of a message.
    pub(super) fn handle_header(&mut self, header: &MessageHeader) -> Result<(), SessionError> {
        self.check_end(header)?;
        let inbox = self.inbox.as_mut().ok_or(SessionError::NoMessages)?;
        inbox.handle_header(&self.stream, header, self.advertised)
    }

    /// Drops a message of the peer's; returns the answer, if there is to be one.
    pub(super) fn handle_cancel(
        &mut self,
        cancel: &Cancel,
        now: Instant,
    ) -> Result<Option<DeliveryStatus>, SessionError> {
        self.check_end(&cancel.message)?;
        let inbox = self.inbox.as_mut().ok_or(SessionError::NoMessages)?;
        let status = inbox.handle_cancel(&mut self.stream, cancel)?;
        self.check_pieces()?;
        if status.is_some_and(|status| !status.delivered) {
            self.note_untold(cancel.message.offset..cancel.message.end());
        }
        self.schedule_ack(self.is_complete(), now);
        Ok(status)
    }

    fn check_end(&self, message: &MessageHeader) -> Result<(), SessionError> {
        match self.final_offset {
            Some(last) if message.end() > last => Err(SessionError::BeyondEnd(message.end())),
            _ => Ok(()),
        }
    }

    /// The next message for the application. What it held goes back to the peer when an eighth of
    /// the credit or of the messages allowed is new, and when the peer has used all that it has: the next
    /// message may be waiting for just that much.
    pub(super) fn take_message(&mut self, now: Instant) -> Option<Incoming> {
        let inbox = self.inbox.as_mut()?;
        let incoming = inbox.take()?;
        let taken = inbox.taken() - self.told_taken;
        self.grant(now);
        let freed = self.credit() - self.advertised;
        if freed >= self.window / 8
            || (freed > 0 && self.stream.end() >= self.advertised)
            || taken >= MAX_OPEN_MESSAGES as u64 / 8
        {
            self.schedule_ack(false, now);
        }
        Some(incoming)
    }

    /// Whether there is anything for the application.
    pub(super) fn is_readable(&self) -> bool {
        match &self.inbox {
            None => !self.stream.chunk().is_empty(),
            Some(inbox) => inbox.is_ready(),
        }
    }

    /// Memory held for received bytes.
    pub(super) fn memory(&self) -> u64 {
        self.inbox.as_ref().map_or_else(|| self.stream.memory(), |inbox| inbox.memory())
    }

    fn credit(&mut self) -> u64 {
        if let Some(inbox) = &mut self.inbox {
            return inbox.credit(self.window).max(self.advertised);
        }
        (self.stream.read_offset() + self.window).max(self.advertised)
    }

    fn schedule_ack(&mut self, at_once: bool, now: Instant) {
        let interval = if at_once { Duration::ZERO } else { self.ack_interval };
        self.schedule_ack_in(interval, now);
    }

    /// Has an acknowledgement given `interval` after the last one at the latest.
    fn schedule_ack_in(&mut self, interval: Duration, now: Instant) {
        let at = (self.last_ack + interval).max(now);
        self.ack_at = Some(self.ack_at.map_or(at, |planned| planned.min(at)));
    }

    pub(super) const fn ack_at(&self) -> Option<Instant> {
        self.ack_at
    }

    /// Whether an acknowledgement is due; if so it counts as given on every subflow, and the next
    /// one is due after `interval` at the earliest.
    pub(super) fn take_due_ack(&mut self, interval: Duration, now: Instant) -> bool {
        self.ack_interval = interval;
        let due = self.ack_at.is_some_and(|at| at <= now);
        if due {
            self.ack_at = None;
            self.unacked = 0;
            self.last_ack = now;
        }
        due
    }

    /// What is acknowledged on subflow `id`: all that is known but the ranges that it has told of.
    pub(super) fn ack(&mut self, id: SubflowId) -> Ack {
        self.advertised = self.credit();
        let taken = self.inbox.as_ref().map_or(0, |inbox| inbox.taken());
        self.told_taken = taken;
        let in_order = self.stream.in_order();
        let ranges = self.subflows.get_mut(&id).map(|subflow| subflow.take_untold(in_order));
        let subflow_acks = self.subflows.iter().rev().take(MAX_SUBFLOW_ACKS);
        Ack {
            in_order,
            credit: self.advertised,
            fin: self.final_offset.is_some(),
            ranges: ranges.unwrap_or_default(),
            subflow_acks: subflow_acks
                .map(|(id, it)| SubflowAck { subflow: id.0, received: it.bytes })
                .collect(),
            taken,
        }
    }

    /// Whether the peer has ended its stream and all of it is here.
    pub(super) fn is_complete(&self) -> bool {
        self.final_offset == Some(self.stream.in_order())
    }
}

impl Received {
    /// A range has been received. With too many untold, one that would stand alone stays so until it is
    /// in order: the peer may send it again for nothing.
    fn note(&mut self, range: Range<u64>) {
        self.untold.insert(range.clone());
        if self.untold.len() > MAX_UNTOLD {
            self.untold.remove(range);
        }
    }

    /// The lowest ranges that have not been told, as many as an acknowledgement holds. The others
    /// are told by the next ones.
    fn take_untold(&mut self, in_order: u64) -> Vec<Range<u64>> {
        self.untold.remove_below(in_order);
        let ranges: Vec<_> = self.untold.iter().take(MAX_ACK_RANGES).collect();
        match self.untold.len() > ranges.len() {
            true => self.untold.remove_below(ranges.last().map_or(0, |range| range.end)),
            false => self.untold = RangeSet::new(),
        }
        ranges
    }
}
