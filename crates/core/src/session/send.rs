//! The sending half of a session: the stream's bytes, what of them is where, and the scheduler
//! that says what goes next.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::panic::{self, AssertUnwindSafe};

use bytes::{Bytes, BytesMut};

use super::credit::Credit;
use super::messages::outbox::Outbox;
use super::policies::Policies;
use super::records::Records;
use super::weave::{Weave, WeaveRecord};
use super::{Misuse, SchedulerFault, SessionConfig, SessionError, Wrong};
use crate::path::{PathId, PathInfo, PathMeter, SubflowId};
use crate::ranges::RangeSet;
use crate::reassembly::MAX_PIECES;
use crate::scheduler::{Assignment, Entry, Kind, Messages, Scheduler, SchedulerConfig, SendView};
use crate::send_buffer::{LEAST_RESERVED, SendBuffer};
use crate::subflow::Subflow;
use crate::wire::{Ack, MAX_PAYLOAD, data_header};
use crate::{Bitrate, ByteCount, Instant};

/// Bytes taken from the application ahead of sending: enough for every socket to be filled once
/// while the application is not running.
const SEND_AHEAD: u64 = 2 << 20;
/// What a range on its way takes in the subflow's three tables, bytes.
const NOTE: u64 = 128;
/// What goes on where a scheduler has broken its contract.
const FALLBACK: &str = "min-rtt";
/// Header space is taken from blocks of this size.
const HEADER_BLOCK: usize = 4 << 10;

/// A scheduler has panicked.
struct Panicked;

#[derive(Debug)]
pub(super) struct SendHalf {
    buffer: SendBuffer,
    /// Everything below has been received by the peer.
    una: u64,
    acked: RangeSet,
    /// How many pieces that can be.
    records: Records,
    /// Written and on no live subflow.
    unassigned: RangeSet,
    /// Written and never given to any subflow: what the peer cannot have.
    fresh: RangeSet,
    pub(super) credit: Credit,
    rules: Rules,
    memory: Memory,
    pub(super) subflows: Vec<Subflow>,
    pub(super) policies: Policies,
    /// Our messages, in a connection that carries them.
    pub(super) outbox: Option<Box<Outbox>>,
    pub(super) meters: BTreeMap<PathId, PathMeter>,
    /// `None` only while it is being asked.
    scheduler: Option<Box<dyn Scheduler>>,
    /// What each subflow may be given, as of the last question.
    rooms: Vec<u64>,
    scheduler_name: &'static str,
    /// It has panicked when it was asked for something else than an assignment.
    has_panicked: Cell<bool>,
    /// How the scheduler broke its contract, until it is told.
    pub(super) fault: Option<SchedulerFault>,
    headers: BytesMut,
    end: End,
    /// What was sent where, while somebody looks.
    weave: Option<Box<Weave>>,
}

/// What the configuration says, once and for all.
#[derive(Debug)]
struct Rules {
    /// Credit is not wished for: the peer's driver says how much there is.
    wishes_nothing: bool,
    stalls_by_timeout: bool,
    /// Ranges on their way on a subflow beyond which its peer counts as hostile.
    max_in_flight: usize,
    chunk: (u64, u64),
}

/// Memory for what is written and not acknowledged in order.
#[derive(Debug)]
struct Memory {
    most: u64,
    /// What of that the driver has reserved.
    limit: u64,
    /// What it can reserve when more is held.
    reach: u64,
    /// The application was refused room for something it last offered.
    was_refused: bool,
}

/// How far the stream's end has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// More may be written.
    Open,
    Finished,
    /// The peer knows of it.
    Acknowledged,
}

impl SendHalf {
    pub(super) fn new(config: &SessionConfig) -> Self {
        Self {
            buffer: SendBuffer::new(),
            una: 0,
            acked: RangeSet::new(),
            records: Records::default(),
            unassigned: RangeSet::new(),
            fresh: RangeSet::new(),
            credit: Credit::new(),
            rules: Rules {
                wishes_nothing: config.driver_sizes_window,
                stalls_by_timeout: config.stalls_by_timeout,
                max_in_flight: usize::try_from(config.memory() / 1024)
                    .map_or(1 << 18, |n| n.max(1 << 18)),
                chunk: config.chunk.unwrap_or(config.scheduler.chunk()),
            },
            memory: Memory {
                most: config.memory(),
                limit: u64::MAX,
                reach: u64::MAX,
                was_refused: false,
            },
            subflows: Vec::new(),
            policies: Policies::default(),
            outbox: config.messages.map(|limits| Box::new(Outbox::new(limits))),
            meters: BTreeMap::new(),
            scheduler: Some(config.scheduler.make(&config.scheduler_config)),
            rooms: Vec::new(),
            scheduler_name: config.scheduler.name,
            has_panicked: Cell::new(false),
            fault: None,
            headers: BytesMut::new(),
            end: End::Open,
            weave: None,
        }
    }

    // ---- the application's side ----

    /// Whether bytes may be written.
    pub(super) const fn check_stream(&self) -> Result<(), Misuse> {
        if self.is_finished() {
            return Err(Misuse::Finished);
        }
        if self.outbox.is_some() { Err(Misuse::CarriesMessages) } else { Ok(()) }
    }

    /// Takes as much of `data` as there is room for and returns how much that is.
    pub(super) fn write(&mut self, data: &[u8]) -> usize {
        let start = self.buffer.end();
        let n = data.len().min(usize::try_from(self.room()).unwrap_or(usize::MAX));
        self.buffer.write(&data[..n]);
        self.unassigned.insert(start..start + n as u64);
        self.fresh.insert(start..start + n as u64);
        self.memory.was_refused = n < data.len();
        n
    }

    /// Memory to be filled, and how many bytes of it; nothing while there is little room.
    pub(super) fn reserve(&mut self) -> Option<(BytesMut, usize)> {
        let room = usize::try_from(self.room()).unwrap_or(usize::MAX);
        self.memory.was_refused = room < LEAST_RESERVED;
        if self.memory.was_refused {
            return None;
        }
        let reserved = self.buffer.reserve();
        let most = room.min(reserved.capacity());
        Some((reserved, most))
    }

    /// Takes reserved memory, with what it was filled with; how many bytes that is.
    pub(super) fn commit(&mut self, filled: BytesMut) -> usize {
        let n = filled.len();
        let start = self.buffer.end();
        self.buffer.commit(filled);
        if n > 0 {
            self.unassigned.insert(start..start + n as u64);
            self.fresh.insert(start..start + n as u64);
        }
        n
    }

    /// Gives memory that is not needed back.
    pub(super) fn trim(&mut self) {
        self.buffer.trim();
    }

    /// Whether the application seems to have more than it was let write.
    fn is_kept_full(&self) -> bool {
        !self.is_finished() && (self.memory.was_refused || self.unassigned.bytes() > SEND_AHEAD / 2)
    }

    /// Takes a whole message, for which there is room, and returns where it lies.
    pub(super) fn append(&mut self, payload: Bytes) -> Range<u64> {
        let range = self.buffer.end()..self.buffer.end() + payload.len() as u64;
        self.buffer.write_bytes(payload);
        self.unassigned.insert(range.clone());
        self.fresh.insert(range.clone());
        range
    }

    /// Leaves `range` out: nothing of it is sent any more, as if it were acknowledged.
    pub(super) fn give_up(&mut self, range: Range<u64>) {
        self.unassigned.remove(range.clone());
        self.fresh.remove(range.clone());
        self.records.add(range.end);
        self.acked.insert(range.start.max(self.una)..range.end.max(self.una));
    }

    /// Whether all of `range` that the peer is not known to have is on subflows that make progress.
    pub(super) fn is_on_its_way(&self, range: &Range<u64>) -> bool {
        let mut at = range.start.max(self.una);
        while let Some(open) = self.acked.first_missing(&(at..range.end)) {
            let live = self.subflows.iter().filter(|subflow| !subflow.is_stalled());
            let carried = live.filter_map(|subflow| subflow.on().range_at(open.start)).next();
            let Some(carried) = carried else { return false };
            at = carried.end.min(open.end);
        }
        true
    }

    /// Bytes in memory: written and not acknowledged in order.
    pub(super) fn held(&self) -> u64 {
        self.buffer.end() - self.una
    }

    /// Memory for what is known of the ranges on their way, beyond an eighth of the bytes: that much
    /// comes with ranges of a segment each, while with small records it is more than the bytes.
    pub(super) fn notes(&self) -> u64 {
        let notes: u64 =
            self.subflows.iter().map(|subflow| subflow.in_flight() as u64 * NOTE).sum();
        notes.saturating_sub(self.held() / 8)
    }

    /// Bytes that no subflow has been given.
    pub(super) const fn unsent(&self) -> u64 {
        self.fresh.bytes()
    }

    /// The most that may be in memory, by the configuration and by the driver.
    pub(super) const fn memory_limits(&self) -> (u64, u64) {
        (self.memory.most, self.memory.limit)
    }

    /// The most memory there is for bytes that are written and not acknowledged in order.
    pub(super) fn memory(&self) -> u64 {
        self.memory.most.min(self.memory.limit)
    }

    /// Bytes of the peer's credit that nothing has been written for.
    pub(super) fn credit_left(&self) -> u64 {
        self.credit.limit().saturating_sub(self.buffer.end())
    }

    /// Bytes that [`write`](Self::write) would take.
    pub(super) fn room(&self) -> u64 {
        let ahead = SEND_AHEAD.max(self.scheduler_window().saturating_mul(2));
        let memory = self.memory();
        let taken = self.held() + self.notes();
        ahead.saturating_sub(self.unassigned.bytes()).min(memory.saturating_sub(taken))
    }

    /// The driver has memory for this much to send, and may have `reach`; what is held already stays.
    pub(super) const fn set_memory_limit(&mut self, limit: u64, reach: u64) {
        (self.memory.limit, self.memory.reach) = (limit, reach);
    }

    pub(super) const fn finish(&mut self) {
        if matches!(self.end, End::Open) {
            self.end = End::Finished;
        }
    }

    pub(super) const fn is_finished(&self) -> bool {
        !matches!(self.end, End::Open)
    }

    /// The stream's length, once it is known.
    pub(super) fn final_offset(&self) -> Option<u64> {
        self.is_finished().then(|| self.buffer.end())
    }

    /// Whether the peer has everything and knows that it is everything.
    pub(super) fn is_done(&self) -> bool {
        let waits = self.outbox.as_ref().is_some_and(|outbox| outbox.awaits_status());
        self.fin_acked() && self.una == self.buffer.end() && !waits
    }

    pub(super) const fn fin_acked(&self) -> bool {
        matches!(self.end, End::Acknowledged)
    }

    pub(super) const fn acknowledged(&self) -> u64 {
        self.una
    }

    pub(super) fn forward(&self) -> Option<PathId> {
        self.consult(|scheduler| scheduler.forward())
    }

    // ---- subflows ----

    pub(super) fn subflow_up(&mut self, id: SubflowId, path: PathId, now: Instant) {
        let mut subflow = Subflow::new(id, path, self.rules.chunk, now);
        subflow.set_stalls_by_timeout(self.rules.stalls_by_timeout);
        self.adopt_policy(&mut subflow);
        // Most connections have two.
        self.subflows.reserve_exact(1);
        self.subflows.push(subflow);
        self.meters.entry(path).or_default();
    }

    /// No byte may depend on a dead socket: what no other live subflow carries is unassigned again.
    pub(super) fn subflow_down(&mut self, id: SubflowId) -> Option<Subflow> {
        let index = self.index(id)?;
        let dead = self.subflows.remove(index);
        self.rooms.clear();
        self.forget_reinjected();
        for range in dead.on().iter() {
            let mut at = range.start.max(self.una);
            while let Some(open) = self.acked.first_missing(&(at..range.end)) {
                at = open.end;
                self.unassigned.insert(open);
            }
        }
        for other in &self.subflows {
            for range in other.on().iter() {
                self.unassigned.remove(range);
            }
        }
        Some(dead)
    }

    pub(super) fn index(&self, id: SubflowId) -> Option<usize> {
        self.subflows.iter().position(|subflow| subflow.id() == id)
    }

    /// Takes the kernel's metrics of a subflow. Returns whether they say that it is stalled, or no
    /// longer.
    pub(super) fn set_info(&mut self, index: usize, info: PathInfo, unwritten: u64) -> bool {
        let subflow = &mut self.subflows[index];
        subflow.set_info(info, unwritten);
        self.rules.stalls_by_timeout && info.timed_out != subflow.is_stalled()
    }

    // ---- the peer's side ----

    /// Takes an acknowledgement.
    pub(super) fn handle_ack(&mut self, ack: &Ack, now: Instant) -> Result<(), SessionError> {
        let received = ack.ranges.last().map_or(ack.in_order, |range| range.end);
        if received > self.buffer.end() {
            return Err(SessionError::AckOfUnsent(received));
        }
        for range in std::iter::once(&(self.una..ack.in_order)).chain(&ack.ranges) {
            if let Some(unsent) = self.fresh.first_in(range) {
                return Err(SessionError::AckOfUnsent(unsent.end));
            }
        }
        self.take_subflow_acks(ack, now)?;
        for range in &ack.ranges {
            let new = range.start.max(self.una)..range.end;
            if !new.is_empty() && !self.acked.contains(&new) {
                self.unassigned.remove(new.clone());
                if let Some(outbox) = &mut self.outbox {
                    outbox.note_acked(new.clone());
                }
                self.acked.insert(new);
            }
        }
        let most = self.records.most_pieces().min(MAX_PIECES);
        if self.acked.len() > most {
            return Err(SessionError::AckTooFragmented(most));
        }
        if ack.in_order > self.una {
            if let Some(outbox) = &mut self.outbox {
                outbox.note_acked(self.una..ack.in_order);
            }
            self.una = ack.in_order;
            self.acked.remove_below(self.una);
            self.records.acknowledge(self.una);
            self.unassigned.remove_below(self.una);
            self.buffer.release(self.una);
            for subflow in &mut self.subflows {
                subflow.release_below(self.una);
            }
        }
        // Messages wait for none of the others.
        if let Some(weave) = &mut self.weave
            && self.outbox.is_none()
        {
            weave.note_order(self.una, self.acked.first().map(|range| range.start), now);
        }
        if let Some(outbox) = &mut self.outbox {
            outbox.settle(ack, self.una, &self.acked);
        }
        self.credit.handle(ack.credit, self.una);
        if ack.fin && self.is_finished() {
            self.end = End::Acknowledged;
        }
        self.update_wish(now);
        Ok(())
    }

    fn take_subflow_acks(&mut self, ack: &Ack, now: Instant) -> Result<(), SessionError> {
        for one in &ack.subflow_acks {
            // The peer may acknowledge a subflow that is gone here for a while yet.
            let Some(index) = self.index(SubflowId(one.subflow)) else { continue };
            let subflow = &mut self.subflows[index];
            let new = subflow
                .acknowledge(one.received, now)
                .ok_or(SessionError::SubflowAckOfUnsent(one.subflow, one.received))?;
            let busy = subflow.outstanding() > 0;
            let meter = self.meters.entry(subflow.path()).or_default();
            if new > 0 || busy {
                meter.delivered(new, busy, now);
            } else {
                meter.idle(now);
            }
        }
        // A subflow that the peer does not acknowledge at all counts, too.
        let mut all = self.subflows.iter();
        match all.find(|subflow| subflow.in_flight() > self.rules.max_in_flight) {
            Some(subflow) => Err(SessionError::SubflowAckMissing(subflow.id().0)),
            None => Ok(()),
        }
    }

    /// Works out the credit that would let every path be full: 1.25 × the sum of the rates × the
    /// longest delivery time, and two windows. A rate is the measured one, or that which a growing
    /// congestion window is about to reach: credit that followed the past would end slow start.
    fn update_wish(&mut self, now: Instant) {
        if self.rules.wishes_nothing || !self.credit.is_wish_due(now) {
            return;
        }
        let view = self.view(now);
        // A subflow that has delivered nothing yet is not guessed to be slow: with the rate of slow
        // start that would ask for a window that nothing needs, and that stays.
        let time = |subflow: &Subflow| match subflow.delivered() {
            0 => subflow.rtt(),
            _ => subflow.delivery_time(),
        };
        let slowest = view.usable().map(time).max().unwrap_or_default();
        let ahead = |subflow: &Subflow| view.rate(subflow).max(subflow.projected_rate());
        let rate: Bitrate = view.usable().map(ahead).sum();
        let bytes = rate.bytes_in(slowest).as_u64();
        let windows = self.scheduler_window().saturating_mul(2);
        let wanted = (bytes + bytes / 4).saturating_add(windows);
        self.credit.wish_for(wanted, self.memory.most, now);
    }

    // ---- sending ----

    /// What the scheduler sees.
    pub(super) fn view(&self, now: Instant) -> SendView<'_> {
        SendView {
            now,
            una: self.una,
            acked: &self.acked,
            unassigned: &self.unassigned,
            limit: self.limit(),
            credit_window: self.credit.window(),
            memory: self.memory.most.min(self.memory.reach),
            memory_left: self.memory_left(),
            expected: if self.is_kept_full() { self.buffer.end() } else { 0 },
            subflows: &self.subflows,
            rooms: &self.rooms,
            meters: &self.meters,
            messages: self.outbox.as_deref().map(|outbox| outbox as &dyn Messages),
        }
    }

    /// Nothing at or above this offset may be sent.
    fn limit(&self) -> u64 {
        let limit = self.buffer.end().min(self.credit.limit());
        self.outbox.as_ref().map_or(limit, |outbox| limit.min(outbox.limit()))
    }

    /// What is left of the memory for an application that was refused, while it is under a third:
    /// with more, a kernel's sender counts as having room (`sk_stream_min_wspace`).
    fn memory_left(&self) -> Option<u64> {
        let memory = self.memory();
        let left = memory.saturating_sub(self.held());
        (self.memory.was_refused && left < memory / 3).then_some(left)
    }

    /// Which subflow sends which range next; `None` if all wait.
    pub(super) fn next_assignment(&mut self, now: Instant) -> Option<Assignment> {
        if self.has_panicked.take() {
            self.replace_scheduler(Wrong::Panicked);
        }
        self.mark_reinjected(now);
        self.look_at_rooms(now);
        let next = match self.rooms.iter().any(|&room| room > 0) {
            true => self.ask_scheduler(now),
            false => None,
        };
        // Those that stand by help where the others cannot.
        next.or_else(|| self.standby_reinjection(now))
    }

    /// What the scheduler assigns, or the one that takes its place when that cannot be sent: it may
    /// come from another crate.
    fn ask_scheduler(&mut self, now: Instant) -> Option<Assignment> {
        let wrong = match self.pick(now) {
            Ok(None) => return None,
            Ok(Some(next)) => match self.fault_of(&next) {
                None => return Some(next),
                Some(reason) => Wrong::Assigned(next.range, reason),
            },
            Err(Panicked) => Wrong::Panicked,
        };
        self.replace_scheduler(wrong);
        self.pick(now).unwrap_or_default()
    }

    /// The connection goes on with another scheduler.
    fn replace_scheduler(&mut self, wrong: Wrong) {
        self.has_panicked.set(false);
        let scheduler = std::mem::replace(&mut self.scheduler_name, FALLBACK);
        self.fault = Some(SchedulerFault { scheduler, wrong });
        let fallback = Entry::find(FALLBACK).expect("registered");
        self.scheduler = Some(fallback.make(&SchedulerConfig::default()));
    }

    /// Moves each stalled subflow's mark, below which nothing is left that only stalled ones carry:
    /// what has been looked at is not looked at again for each range, however many holes a peer
    /// makes.
    fn mark_reinjected(&mut self, now: Instant) {
        for index in 0..self.subflows.len() {
            if self.subflows[index].is_stalled() {
                let lowest = self.view(now).only_on_stalled_one(&self.subflows[index]);
                let mark = lowest.map_or(self.buffer.end(), |range| range.start);
                self.subflows[index].set_reinjected_below(mark);
            }
        }
    }

    /// Which subflows are stalled has changed, or which there are.
    fn forget_reinjected(&mut self) {
        self.subflows.iter_mut().for_each(|subflow| subflow.set_reinjected_below(0));
    }

    /// Works out what each subflow may be given.
    fn look_at_rooms(&mut self, now: Instant) {
        self.rooms.clear();
        for index in 0..self.subflows.len() {
            let allowed = self.allowed(index, now);
            let subflow = &mut self.subflows[index];
            subflow.set_capped(subflow.room() > 0 && allowed == 0);
            let room = if subflow.is_usable() { allowed.min(MAX_PAYLOAD) } else { 0 };
            self.rooms.push(room);
        }
        // A limiter may have been set between two looks at it: what it has stopped waits for it.
        let waits = |subflow: &Subflow| subflow.is_limited() || subflow.is_capped();
        self.policies.is_gated =
            self.subflows.iter().any(|subflow| subflow.limiter().is_some() && waits(subflow));
    }

    /// Appends the data record of an assignment to `out` and notes that it is sent. Returns the bytes
    /// appended, and why it is sent.
    pub(super) fn put_record(
        &mut self,
        next: Assignment,
        out: &mut VecDeque<Bytes>,
        now: Instant,
    ) -> (u64, Kind) {
        let Assignment { subflow: index, range } = next;
        let Range { start, end } = range;
        let kind = self.kind_of(&range);
        if self.weave.is_some() {
            self.note(&range, self.subflows[index].path(), kind, now);
        }
        if self.headers.capacity() < 32 {
            self.headers = BytesMut::with_capacity(HEADER_BLOCK);
        }
        if let Some(outbox) = &self.outbox {
            outbox.announce(&range, self.subflows[index].on(), &mut self.headers);
        }
        data_header(&mut self.headers, start, end - start);
        let header = self.headers.split().freeze();
        let bytes = header.len() as u64 + (end - start);
        out.push_back(header);
        self.buffer.slice(&range, out);
        self.unassigned.remove(range.clone());
        self.fresh.remove(range.clone());
        self.records.add(end);
        self.subflows[index].assign(range, kind, now);
        self.spend(index, bytes, now);
        (bytes, kind)
    }

    /// Gives back what is left of the space for headers.
    pub(super) fn free_headers(&mut self) {
        self.headers = BytesMut::new();
    }

    /// Notes what is sent where.
    #[cold]
    fn note(&mut self, range: &Range<u64>, path: PathId, kind: Kind, now: Instant) {
        let window = self.consult(|scheduler| scheduler.window_at());
        let Some(weave) = &mut self.weave else { return };
        // What a subflow that is gone had is unassigned again, and was sent before.
        let mut at = range.start;
        while at < range.end && kind == Kind::New {
            let rest = at..range.end;
            let next = self.fresh.first_in(&rest).unwrap_or(range.end..range.end);
            for (part, kind) in [(at..next.start, Kind::Reinjection), (next.clone(), Kind::New)] {
                if !part.is_empty() {
                    weave.note(&part, (path, kind), window.clone(), now);
                }
            }
            at = next.end;
        }
        if kind != Kind::New {
            weave.note(range, (path, kind), window, now);
        }
    }

    /// Keeps what is sent where from now on, so many stretches at most, or no longer.
    pub(super) fn record_weave(&mut self, most: Option<usize>) {
        self.weave = most.map(|most| Box::new(Weave::new(most)));
    }

    pub(super) fn weave(&self, now: Instant) -> Option<WeaveRecord> {
        self.weave.as_ref().map(|weave| weave.record(self.una, &self.acked, now))
    }

    /// Why a range is sent: all of it is new, or none.
    fn kind_of(&self, range: &Range<u64>) -> Kind {
        let mut moving = self.subflows.iter().filter(|subflow| !subflow.is_stalled());
        if self.unassigned.contains(range) {
            Kind::New
        } else if moving.any(|subflow| subflow.on().range_at(range.start).is_some()) {
            Kind::Copy
        } else {
            Kind::Reinjection
        }
    }

    /// Why an assignment cannot be sent, if it cannot.
    fn fault_of(&self, next: &Assignment) -> Option<&'static str> {
        let Range { start, end } = next.range;
        let room = self.rooms.get(next.subflow).copied().unwrap_or(0);
        if start >= end {
            Some("is empty")
        } else if room == 0 {
            Some("is for a subflow without room")
        } else if end - start > room {
            Some("is longer than the subflow has room for")
        } else if start < self.una || end > self.limit() {
            Some("is outside the window that may be sent")
        } else if self.subflows[next.subflow].on().first_in(&next.range).is_some() {
            Some("was given to the same subflow before")
        } else if self.acked.first_in(&next.range).is_some() {
            Some("has arrived already")
        } else if self.unassigned.first_in(&next.range).is_some_and(|new| new != next.range) {
            Some("is new only in part")
        } else {
            None
        }
    }

    /// What the scheduler has.
    ///
    /// # Errors
    /// When it panics, which is its end and not that of the connection.
    fn pick(&mut self, now: Instant) -> Result<Option<Assignment>, Panicked> {
        // It looks at all of us while it changes: it steps out for the call.
        let mut scheduler = self.scheduler.take().expect("put back below");
        let view = self.view(now);
        let next = panic::catch_unwind(AssertUnwindSafe(|| scheduler.pick(&view)));
        self.scheduler = Some(scheduler);
        let next = next.map_err(|_| Panicked)?;
        let credit = self.credit.limit();
        let starved = credit < self.buffer.end() && !self.has_unassigned_below(credit);
        if next.is_none() && starved {
            self.credit.starve(now);
        }
        Ok(next)
    }

    /// Whether the subflow was given nothing though bytes wait, perhaps for a round-trip time that is
    /// out of date.
    pub(super) fn wants_ping(&self, index: usize, now: Instant) -> bool {
        self.consult(|scheduler| scheduler.weighs_round_trips())
            && self.subflows[index].is_idle()
            && self.has_data_to_send()
            && self.subflows[index].may_be_nearer(now)
    }

    /// Whether bytes wait that may be sent.
    pub(super) fn has_data_to_send(&self) -> bool {
        self.has_unassigned_below(self.limit())
    }

    fn has_unassigned_below(&self, offset: u64) -> bool {
        self.unassigned.first().is_some_and(|range| range.start < offset)
    }

    /// Evaluates which subflows are stalled; returns those for which that has changed.
    pub(super) fn evaluate_stalls(&mut self, now: Instant) -> Vec<(SubflowId, bool)> {
        let (mut changed, waits) = (Vec::new(), self.has_data_to_send());
        for subflow in &mut self.subflows {
            if subflow.outstanding() > 0 {
                self.meters.entry(subflow.path()).or_default().delivered(0, true, now);
            }
            changed.extend(subflow.evaluate(waits, now).map(|stalled| (subflow.id(), stalled)));
        }
        if !changed.is_empty() {
            self.forget_reinjected();
        }
        changed
    }

    /// When something changes by itself: a subflow stalls, or a range may be reinjected.
    pub(super) fn next_timeout(&self, now: Instant) -> Option<Instant> {
        let policy = self.policy_timeout();
        let stalled = self.subflows.iter().filter_map(Subflow::stalls_at).min();
        let is_under_way = self.subflows.iter().any(|subflow| subflow.outstanding() > 0);
        let may_ask = self.subflows.iter().any(Subflow::is_idle);
        let reinjection = match may_ask && (is_under_way || self.has_data_to_send()) {
            true => self.consult(|scheduler| scheduler.next_timeout(&self.view(now))),
            false => None,
        };
        stalled.into_iter().chain(reinjection).chain(policy).min()
    }

    /// What the scheduler says besides its assignments; nothing if it panics, which is its end when the
    /// next assignment is due.
    fn consult<R: Default>(&self, ask: impl FnOnce(&dyn Scheduler) -> R) -> R {
        let scheduler = self.scheduler.as_deref().expect("put back after each call");
        let said = panic::catch_unwind(AssertUnwindSafe(|| ask(scheduler)));
        said.unwrap_or_else(|_| {
            self.has_panicked.set(true);
            R::default()
        })
    }

    fn scheduler_window(&self) -> u64 {
        self.consult(|scheduler| scheduler.window()).unwrap_or(0)
    }

    pub(super) fn window(&self) -> Option<ByteCount> {
        self.consult(|scheduler| scheduler.window()).map(ByteCount::new)
    }
}
