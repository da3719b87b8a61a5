//! A session: one bidirectional ordered byte stream over any number of subflows, as a state
//! machine without I/O.
//!
//! # Contract
//!
//! The driver owns the sockets. It reports what happens with `subflow_up`, `subflow_down`,
//! `handle_*`, `write`, `consume`, `finish` and `reset`, always with the present time, which never
//! goes back. After each such call (or several of them) it drains:
//!
//! 1. [`Session::poll_wake`]: subflows whose writer should call [`Session::poll_transmit`] again;
//! 2. [`Session::poll_event`]: what the application or the path manager should know;
//! 3. [`Session::poll_timeout`]: when to call [`Session::handle_timeout`] at the latest.
//!
//! A writer calls `poll_transmit` whenever its socket has room, and writes what it gets, whole and
//! in order, or reports the subflow down.

mod bulk;
mod messages;
mod policy;
mod recv;
mod send;
mod stats;
#[cfg(test)]
mod tests;
mod wakes;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::{Bytes, BytesMut};

pub use self::messages::{
    DEFAULT_LONGEST_MESSAGE, Incoming, MAX_LONGEST_MESSAGE, MAX_OPEN_MESSAGES, Message,
    MessageFate, MessageId, MessageLimits, MessageOptions, Outcome, SendError,
};
use self::recv::RecvHalf;
use self::send::SendHalf;
pub use self::stats::{MessageStats, PathStats, SessionStats, SubflowStats};
use crate::path::{PathId, PathInfo, SubflowId};
use crate::pool::BlockPool;
use crate::reassembly::Reassembly;
use crate::scheduler::{Entry, SchedulerConfig};
use crate::wire::{Fate, INITIAL_CREDIT, PolicyNote, Record, Refusal, WireError};
use crate::{ByteCount, Instant};

/// How a session behaves. Both ends use the same scheduler; the client's choice travels in its
/// hello.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Which scheduler sends our direction.
    pub scheduler: &'static Entry,
    /// Its settings.
    pub scheduler_config: SchedulerConfig,
    /// Most memory for received bytes, and again for bytes to send. The default of 256 MiB lets
    /// 2.4 Gb/s go beside a path whose delivery takes 0.7 s. Less than the 256 KiB that a peer may
    /// send unasked counts as that, more than 64 GiB as 64 GiB.
    pub max_memory: ByteCount,
    /// What a peer may have outstanding before it has asked for more: at least 256 KiB, at most
    /// `max_memory`.
    pub first_window: ByteCount,
    /// The least and largest number of bytes assigned at once; the scheduler's own if `None`.
    pub chunk: Option<(u64, u64)>,
    /// How often each subflow is pinged for its application-level round-trip time.
    pub ping_interval: Duration,
    /// Whether the peer says what paths are for: the server's side. A client that followed its
    /// server would let it spend the client's money.
    pub follow_policy: bool,
    /// What was agreed upon if the connection carries messages; `None` for a byte stream.
    pub messages: Option<MessageLimits>,
    /// Memory for received bytes, which several sessions may share.
    pub pool: BlockPool,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            scheduler: Entry::find("fbdt").expect("registered"),
            scheduler_config: SchedulerConfig::default(),
            max_memory: ByteCount::mib(256),
            first_window: ByteCount::mib(4),
            chunk: None,
            ping_interval: Duration::from_secs(5),
            follow_policy: false,
            messages: None,
            pool: BlockPool::default(),
        }
    }
}

impl SessionConfig {
    /// [`max_memory`](Self::max_memory) in bytes, within its bounds.
    fn memory(&self) -> u64 {
        self.max_memory.as_u64().clamp(INITIAL_CREDIT, MOST_MEMORY)
    }
}

/// How a peer broke the protocol. The connection ends; others are not touched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// An acknowledgement of stream bytes that were never sent.
    #[error("the peer acknowledged bytes up to {0} that were never sent")]
    AckOfUnsent(u64),
    /// An acknowledgement of more pieces of the stream than any honest receiver holds.
    #[error("the peer acknowledged more than {0} separate ranges")]
    AckTooFragmented(usize),
    /// Stream bytes beyond the end the peer announced.
    #[error("the peer sent bytes up to {0}, beyond the end of its stream")]
    BeyondEnd(u64),
    /// More stream bytes than the peer had credit for.
    #[error("the peer sent bytes up to {end} with credit up to {credit}")]
    CreditExceeded {
        /// One past the last byte sent.
        end: u64,
        /// The credit it had.
        credit: u64,
    },
    /// An echo of more bytes than the subflow carried.
    #[error("the peer echoed {1} bytes on subflow {0}, more than were sent")]
    EchoOfUnsent(u64, u64),
    /// Acknowledgements of the stream's bytes that leave out, again and again, what has come on the
    /// subflow.
    #[error("the peer does not say what has arrived on subflow {0}")]
    EchoMissing(u64),
    /// Two different ends of the stream, or one below bytes already received.
    #[error("the peer moved the end of its stream to {0}")]
    EndMoved(u64),
    /// Two messages at one offset.
    #[error("the peer changed the length or tag of its message at {0}")]
    MessageChanged(u64),
    /// A message over offsets of another.
    #[error("the peer's message at {0} overlaps another")]
    MessageOverlap(u64),
    /// A message longer than this side has said it takes.
    #[error("the peer announced a message of {len} bytes, more than the {longest} taken here")]
    MessageTooLong {
        /// Its length.
        len: u64,
        /// The longest taken.
        longest: u64,
    },
    /// Bytes that belong to no message.
    #[error("the peer sent bytes at {0} that belong to no message it announced")]
    NoSuchMessage(u64),
    /// More holes in the stream than any honest sender leaves.
    #[error("the peer's stream has more than {0} holes")]
    TooFragmented(usize),
    /// More messages, or cancels, than may be open at once.
    #[error("the peer has more than {0} messages open")]
    TooManyMessages(usize),
    /// A record about messages in a connection that carries a byte stream.
    #[error("the peer sent a record about messages on a byte stream")]
    NoMessages,
    /// A record that has no place in an open connection.
    #[error("the peer sent a handshake record on an open subflow")]
    UnexpectedRecord,
    /// Bytes that are no records.
    #[error(transparent)]
    Wire(#[from] WireError),
}

/// What the application or the path manager should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// Both directions are finished and acknowledged: flush the subflows and close them.
    Closed,
    /// The peer has finished its direction: after the bytes at hand comes the end.
    Finished,
    /// The peer has changed what a path is for. The session has taken it; a driver with a rate cap
    /// that sessions share sets it with [`Session::set_policy`].
    PathPolicy(PathId, PolicyNote),
    /// The scheduler wants the subflow's congestion window halved, for it holds up the others
    /// (MPTCP 0.9x: `max(cwnd / 2, 1)` segments, and the slow start threshold likewise unless the
    /// window is below it). A driver that cannot do that, as with a kernel's sockets, ignores it.
    Penalise(SubflowId),
    /// There are bytes to read, or messages.
    Readable,
    /// The peer ended the connection at once, with its code and reason.
    Reset(u64, String),
    /// A silent subflow makes progress again.
    SubflowRecovered(SubflowId),
    /// A subflow has data outstanding and makes no progress; its data are rescued by the others.
    SubflowSilent(SubflowId),
    /// There is room to write again after a short write, or for the message refused last.
    Writable,
}

/// What is due on a subflow besides stream bytes.
#[derive(Debug, Default)]
struct Control {
    ack: bool,
    fin: bool,
    wish: bool,
    policy: bool,
    reset: bool,
    pongs: Vec<u64>,
    /// Answers to the peer's cancels, and the number of the next cancel of ours.
    fates: Vec<Fate>,
    next_cancel: u64,
    ping_at: Instant,
    ping: Option<(u64, Instant)>,
    woken: bool,
    /// What had changed when the scheduler last had nothing for the subflow.
    refused_at: u64,
}

/// Most memory a session may be given: offsets within it stay numbers that the wire carries.
const MOST_MEMORY: u64 = 64 << 30;
/// Space for control records is taken in blocks of this size, while so much of one is left.
const CONTROL_BLOCK: usize = 4 << 10;
const CONTROL_REST: usize = 256;
/// Answers to pings kept for a subflow that cannot send; more than one is rare.
const MAX_PONGS: usize = 8;
impl Control {
    /// When the next ping is due; not before the last one has been answered.
    const fn ping_due(&self) -> Option<Instant> {
        if self.ping.is_some() { None } else { Some(self.ping_at) }
    }
}

/// What room the application is told of: waking it for less costs more than it gains.
const WRITABLE_ROOM: u64 = 64 << 10;
/// The least time between two looks at what is overdue.
const LEAST_TICK: Duration = Duration::from_millis(1);

/// One connection's state.
#[derive(Debug)]
pub struct Session {
    send: SendHalf,
    recv: RecvHalf,
    control: BTreeMap<SubflowId, Control>,
    paths: BTreeMap<PathId, PathStats>,
    events: VecDeque<Event>,
    wakes: VecDeque<SubflowId>,
    reset: Option<Refusal>,
    peer_reset: bool,
    next_ping: u64,
    ping_interval: Duration,
    follow_policy: bool,
    /// Space for control records.
    blocks: BytesMut,
    write_blocked: bool,
    last_tick: Instant,
    finished_told: bool,
    readable_told: bool,
    /// Whether an acknowledgement of the peer's whole stream has been given to a subflow. Later
    /// ones, for duplicates, are not waited for: the peer may have left by then.
    end_acked: bool,
    closed: bool,
}

impl Session {
    /// A session without subflows.
    pub fn new(config: &SessionConfig, now: Instant) -> Self {
        Self {
            send: SendHalf::new(config),
            recv: RecvHalf::new(config),
            control: BTreeMap::new(),
            paths: BTreeMap::new(),
            events: VecDeque::new(),
            wakes: VecDeque::new(),
            reset: None,
            peer_reset: false,
            next_ping: 0,
            ping_interval: config.ping_interval,
            follow_policy: config.follow_policy,
            blocks: BytesMut::new(),
            write_blocked: false,
            last_tick: now,
            finished_told: false,
            readable_told: false,
            end_acked: false,
            closed: false,
        }
    }

    // ---- subflows ----

    /// A subflow is ready to carry data. Its number must be new.
    pub fn subflow_up(&mut self, id: SubflowId, path: PathId, now: Instant) {
        let fin = self.send.is_finished() && !self.send.fin_acked();
        let reset = self.reset.is_some();
        let control = Control {
            ack: true,
            fin,
            wish: self.send.wish() > 0,
            policy: true,
            reset,
            ping_at: now,
            ..Control::default()
        };
        let fresh = self.control.insert(id, control).is_none();
        assert!(fresh, "subflow numbers are not reused");
        self.send.subflow_up(id, path, now);
        self.recv.subflow_up(id);
        self.paths.entry(path).or_default();
        self.review(now);
        self.wake_all();
    }

    /// A subflow is gone. What only it carried goes to the others. Unknown numbers are ignored.
    pub fn subflow_down(&mut self, id: SubflowId, now: Instant) {
        self.control.remove(&id);
        self.recv.subflow_down(id);
        if let Some(dead) = self.send.subflow_down(id) {
            let stats = self.paths.entry(dead.path()).or_default();
            stats.add(&dead);
            if let Some(meter) = self.send.meters.get_mut(&dead.path()) {
                meter.idle(now);
            }
        }
        self.review(now);
        self.expire(now);
        self.wake_idle();
    }

    /// Takes the kernel's figures of a subflow.
    pub fn handle_path_info(&mut self, id: SubflowId, info: PathInfo) {
        if let Some(index) = self.send.index(id) {
            self.send.set_info(index, info);
        }
    }

    /// Asks the peer for a sign of life on subflow `id`, ahead of the next ping: for a driver that
    /// wants to know whether a peer that sends no more can be reached. Unknown numbers are ignored.
    pub fn probe(&mut self, id: SubflowId, now: Instant) {
        if let Some(control) = self.control.get_mut(&id)
            && control.ping.is_none()
        {
            control.ping_at = now;
        }
        self.wake_pings(now);
    }

    // ---- input ----

    /// Consumes the complete records at the front of `input`, which arrived on subflow `id`.
    ///
    /// # Errors
    ///
    /// The peer broke the protocol: a [`Record::Reset`] with the error is queued for the other
    /// side, and the driver closes the connection with it.
    pub fn handle_input(
        &mut self,
        id: SubflowId,
        input: &mut BytesMut,
        now: Instant,
    ) -> Result<(), SessionError> {
        let result = self.take_records(id, input, now);
        if let Err(error) = &result {
            self.reset(RESET_PROTOCOL, &error.to_string(), now);
        }
        result
    }

    fn take_records(
        &mut self,
        id: SubflowId,
        input: &mut BytesMut,
        now: Instant,
    ) -> Result<(), SessionError> {
        while let Some(record) = Record::decode(input)? {
            if !self.is_reset() {
                self.handle_record(id, record, now)?;
            }
        }
        if self.recv.take_due_ack(now) {
            self.ack_everywhere();
        }
        self.after(now);
        Ok(())
    }

    fn handle_record(
        &mut self,
        id: SubflowId,
        record: Record,
        now: Instant,
    ) -> Result<(), SessionError> {
        match record {
            Record::Ack(ack) => {
                self.send.handle_ack(&ack, now)?;
                self.judge(now);
                self.wake_idle();
            }
            Record::CreditWish(wish) => self.recv.handle_wish(wish, now),
            Record::Data(data) => {
                if let Some(index) = self.send.index(id) {
                    let path = self.send.subflows[index].path();
                    let stats = self.paths.entry(path).or_default();
                    stats.received += data.payload.len() as u64;
                }
                self.recv.handle_data(id, &data, now)?;
            }
            Record::Fin(offset) => self.recv.handle_fin(offset, now)?,
            Record::Cancel(cancel) => self.handle_cancel(id, &cancel, now)?,
            Record::Fate(fate) => self.handle_fate(fate)?,
            Record::Message(bounds) => self.recv.handle_bounds(&bounds)?,
            Record::PathPolicy(change) => self.handle_policy(change, now),
            Record::Ping(number) => {
                if let Some(control) = self.control.get_mut(&id)
                    && control.pongs.len() < MAX_PONGS
                {
                    control.pongs.push(number);
                    self.wake(id);
                }
            }
            Record::Pong(number) => self.handle_pong(id, number, now),
            Record::Reset(refusal) => {
                self.peer_reset = true;
                self.closed = true;
                self.events.push_back(Event::Reset(refusal.code, refusal.reason));
            }
            Record::Hello(_)
            | Record::HelloReply(_)
            | Record::Join(_)
            | Record::JoinReply(_)
            | Record::Refusal(_) => return Err(SessionError::UnexpectedRecord),
        }
        Ok(())
    }

    fn handle_pong(&mut self, id: SubflowId, number: u64, now: Instant) {
        let Some(control) = self.control.get_mut(&id) else { return };
        let Some((_, sent_at)) = control.ping.take_if(|(sent, _)| *sent == number) else { return };
        if let Some(index) = self.send.index(id) {
            let (rtt, subflow) = (now.since(sent_at), &mut self.send.subflows[index]);
            subflow.set_ping_rtt(rtt, now);
            self.paths.entry(subflow.path()).or_default().ping_rtt = Some(rtt);
            if self.send.is_stuck() {
                self.send.note_change();
                self.wake_refused();
            }
        }
    }

    // ---- the application ----

    /// Takes as much of `data` as there is room for; what was not taken may be offered again after
    /// [`Event::Writable`].
    pub fn write(&mut self, data: &[u8], now: Instant) -> usize {
        let n = self.send.write(data);
        self.write_blocked = n < data.len();
        if n > 0 {
            self.wake_idle();
        }
        self.after(now);
        n
    }

    /// Ends our direction after the bytes written so far.
    pub fn finish(&mut self, now: Instant) {
        if self.send.is_finished() {
            return;
        }
        self.send.finish();
        for control in self.control.values_mut() {
            control.fin = true;
        }
        self.wake_all();
        self.after(now);
    }

    /// Ends the connection at once; the peer gets `code` and `reason`.
    pub fn reset(&mut self, code: u64, reason: &str, now: Instant) {
        if self.reset.is_some() {
            return;
        }
        self.reset = Some(Refusal { code, reason: reason.to_owned() });
        self.closed = true;
        for control in self.control.values_mut() {
            control.reset = true;
        }
        self.wake_all();
        self.after(now);
    }

    /// In-order bytes to read now; empty when there are none.
    pub fn read_chunk(&self) -> &[u8] {
        self.recv.stream.chunk()
    }

    /// Frees the first `n` bytes of what [`read_chunk`](Self::read_chunk) gave.
    pub fn consume(&mut self, n: usize, now: Instant) {
        self.recv.consume(n as u64, now);
        self.freed(now);
    }

    /// Whether the peer's stream has ended and every byte of it has been read.
    pub fn is_read_to_end(&self) -> bool {
        let stream: &Reassembly = &self.recv.stream;
        let read = stream.read_offset() == stream.in_order() && !self.recv.is_readable();
        self.recv.is_complete() && read
    }

    /// Whether the peer has everything that was written and knows that it is everything.
    pub fn is_delivered(&self) -> bool {
        self.send.is_done()
    }

    /// Whether [`finish`](Self::finish) was called.
    pub const fn is_finished(&self) -> bool {
        self.send.is_finished()
    }

    /// Bytes that can be written now.
    pub fn room(&self) -> u64 {
        self.send.room()
    }

    // ---- memory shared with other sessions ----

    /// Bytes that the peer would like to have outstanding, within
    /// [`max_memory`](SessionConfig::max_memory); it gets them up to
    /// [`set_receive_limit`](Self::set_receive_limit).
    pub const fn receive_wanted(&self) -> u64 {
        self.recv.wished()
    }

    /// Bytes of the peer's stream that have come, in order or not.
    pub const fn received(&self) -> u64 {
        self.recv.stream.in_order() + self.recv.stream.above().bytes()
    }

    /// The driver has memory for `limit` received bytes. What the peer has been granted before
    /// stays granted. Without any call only `max_memory` limits.
    pub fn set_receive_limit(&mut self, limit: u64, now: Instant) {
        self.recv.set_limit(limit, now);
        self.after(now);
    }

    /// Bytes held to send, or to send again.
    pub fn send_held(&self) -> u64 {
        self.send.held()
    }

    /// The driver has memory for `limit` bytes to send. What is held already stays. Without any
    /// call only `max_memory` limits.
    pub fn set_send_limit(&mut self, limit: u64, now: Instant) {
        self.send.set_memory_limit(limit);
        self.after(now);
    }

    // ---- output ----

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
        let subflow = &mut self.send.subflows[index];
        let was_idle = subflow.is_idle();
        subflow.set_idle(left > 0);
        subflow.set_capped(left == 0 && allowed < room);
        if left > 0
            && let Some(control) = self.control.get_mut(&id)
        {
            control.refused_at = self.send.changes();
            self.wake_refused();
        }
        if was_idle && left == 0 {
            // Others may have held back because this one had room; now it has none.
            self.wake_idle();
        }
        self.obey_scheduler(id, now);
        self.after(now);
        bytes
    }

    /// Does what the scheduler wanted when it was asked for `asker`. A subflow that had its answer
    /// since anything changed is not asked again, lest two wake each other for ever.
    fn obey_scheduler(&mut self, asker: SubflowId, now: Instant) {
        let changes = self.send.changes();
        while let Some(id) = self.send.poll_wake() {
            let index = self.send.index(id).filter(|_| id != asker);
            let waits = index.is_some_and(|index| self.send.subflows[index].is_idle());
            let answered = self.control.get(&id).is_some_and(|c| c.refused_at == changes);
            if waits && !answered {
                self.wake(id);
            }
        }
        while let Some(id) = self.send.poll_penalty() {
            self.events.push_back(Event::Penalise(id));
        }
        while let Some(id) = self.send.poll_ping() {
            self.probe(id, now);
        }
    }

    fn put_control(&mut self, id: SubflowId, out: &mut VecDeque<Bytes>, now: Instant) -> u64 {
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
            control.ping_at = now + self.ping_interval;
            self.next_ping += 1;
        }
        let bytes = block.len() as u64;
        if bytes > 0 {
            out.push_back(block.split().freeze());
        }
        self.blocks = block;
        bytes
    }

    /// The next subflow whose writer should call [`poll_transmit`](Self::poll_transmit) again.
    #[must_use]
    pub fn poll_wake(&mut self) -> Option<SubflowId> {
        self.wakes.pop_front()
    }

    /// The next thing to know.
    #[must_use]
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) must be called at the latest.
    #[must_use]
    pub fn poll_timeout(&self, now: Instant) -> Option<Instant> {
        if self.closed {
            return None;
        }
        let tick = self.send.next_timeout(now).map(|at| at.max(self.last_tick + LEAST_TICK));
        // A writer that has been woken is waited for: its socket may be full for long.
        let pings = self.control.values().filter(|control| !control.woken);
        let ping = pings.filter_map(Control::ping_due).min();
        let deadline = self.send.outbox.as_ref().and_then(|outbox| outbox.next_deadline());
        self.recv.ack_at().into_iter().chain(tick).chain(ping).chain(deadline).min()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.last_tick = now;
        if self.recv.take_due_ack(now) {
            self.ack_everywhere();
        }
        for (id, silent) in self.send.judge(now) {
            let event = if silent { Event::SubflowSilent(id) } else { Event::SubflowRecovered(id) };
            self.events.push_back(event);
        }
        self.expire(now);
        self.wake_idle();
        self.send.take_uncapped(now).into_iter().for_each(|id| self.wake(id));
        self.wake_pings(now);
        self.after(now);
    }

    // ---- inner works ----

    /// Whether either side has ended the connection at once.
    const fn is_reset(&self) -> bool {
        self.reset.is_some() || self.peer_reset
    }

    fn judge(&mut self, now: Instant) {
        for (id, silent) in self.send.judge(now) {
            self.expire(now);
            let event = if silent { Event::SubflowSilent(id) } else { Event::SubflowRecovered(id) };
            self.events.push_back(event);
            // It may have waited with room while it was silent.
            self.wake(id);
        }
    }

    fn ack_everywhere(&mut self) {
        for control in self.control.values_mut() {
            control.ack = true;
        }
        self.wake_all();
    }

    /// Draws the conclusions of any change: events, closing, and records that have become due.
    fn after(&mut self, now: Instant) {
        self.review(now);
        if std::mem::take(&mut self.send.wish_pending) {
            for control in self.control.values_mut() {
                control.wish = true;
            }
            self.wake_idle();
        }
        if self.send.outbox.is_some() {
            self.after_messages();
        }
        if self.recv.is_readable() && !std::mem::replace(&mut self.readable_told, true) {
            self.events.push_back(Event::Readable);
        }
        if self.write_blocked && self.send.room() >= WRITABLE_ROOM {
            self.write_blocked = false;
            self.events.push_back(Event::Writable);
        }
        if self.recv.is_complete() && !std::mem::replace(&mut self.finished_told, true) {
            self.events.push_back(Event::Finished);
        }
        if !self.closed && self.send.is_done() && self.end_acked {
            self.closed = true;
            self.events.push_back(Event::Closed);
        }
    }

    /// What has happened so far.
    pub fn stats(&self) -> SessionStats {
        stats::collect(&self.send, &self.recv, &self.paths)
    }
}

/// Reset code: the peer broke the protocol.
pub const RESET_PROTOCOL: u64 = 1;
/// Reset code: the application dropped the connection.
pub const RESET_ABANDONED: u64 = 2;
/// Reset code: the forwarded connection failed.
pub const RESET_FORWARD: u64 = 3;
/// Reset code: the daemon is shutting down.
pub const RESET_SHUTDOWN: u64 = 4;
/// Reset code: the server does not let this client in any more.
pub const RESET_REVOKED: u64 = 5;
