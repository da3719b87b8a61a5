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
//! A writer calls [`Session::handle_room`] and `poll_transmit` whenever its socket has room, and writes
//! what it gets, whole and in order, or reports the subflow down.

mod acks;
mod bulk;
pub mod cloth;
mod config;
mod credit;
mod error;
mod input;
mod liveness;
mod messages;
mod outgoing;
mod policies;
mod policy;
mod records;
mod recv;
mod send;
mod stats;
#[cfg(test)]
mod tests;
mod transmit;
mod wakes;
mod weave;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

pub use self::config::SessionConfig;
pub use self::error::{Misuse, SchedulerFault, SessionError, Wrong};
use self::liveness::Liveness;
pub use self::messages::{
    DEFAULT_LONGEST_MESSAGE, Incoming, MAX_LONGEST_MESSAGE, MAX_OPEN_MESSAGES, Message, MessageId,
    MessageLimits, MessageOptions, MessageOutcome, Outcome, SendError,
};
use self::recv::RecvHalf;
use self::send::SendHalf;
pub use self::stats::{MessageStats, PathStats, SessionStats, SubflowStats};
pub use self::weave::{LEAST_WAIT, Stretch, Wait, WeaveRecord};
use crate::Instant;
use crate::path::{PathId, PathInfo, SubflowId};
use crate::reassembly::Reassembly;
use crate::scheduler::Kind;
use crate::wire::{DeliveryStatus, PolicyNote, Refusal, VARINT_MAX};

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
    /// Nothing has come from the peer for [`SessionConfig::peer_timeout`], though it was asked. Told
    /// once; the driver ends the connection.
    PeerLost,
    /// There are bytes to read, or messages.
    Readable,
    /// The scheduler broke its contract and was replaced.
    SchedulerReplaced(SchedulerFault),
    /// The peer ended the connection at once, with its code and reason.
    Reset(u64, String),
    /// Bytes that other subflows had were given to one: reinjected, if only stalled ones had them,
    /// else a redundant copy.
    SentAgain {
        /// The subflow that has them now.
        subflow: SubflowId,
        /// Which bytes of the stream.
        range: Range<u64>,
        /// [`Kind::Reinjection`] or [`Kind::Copy`].
        kind: Kind,
    },
    /// A stalled subflow makes progress again.
    SubflowRecovered(SubflowId),
    /// A subflow has data outstanding and makes no progress: the others reinject its data.
    SubflowStalled(SubflowId),
    /// There is room to write again after a short write, or for the message refused last.
    Writable,
}

/// What is due on a subflow besides stream bytes.
#[derive(Debug, Default)]
struct Control {
    ack: bool,
    /// Whether data have come on it since it was last given an acknowledgement, when that was, and when
    /// it is given one all the same.
    is_heard: bool,
    acked_at: Instant,
    ack_at: Option<Instant>,
    fin: bool,
    wish: bool,
    policy: bool,
    reset: bool,
    pongs: Vec<u64>,
    /// Answers to the peer's cancels, and the number of the next cancel of ours.
    delivery_statuses: Vec<DeliveryStatus>,
    next_cancel: u64,
    ping_at: Instant,
    ping: Option<(u64, Instant)>,
    /// When something last came on it.
    heard_at: Instant,
    woken: bool,
    /// Whether it has been told that it is stalled.
    stall_told: bool,
    /// Data records that wait for the writer, and their bytes.
    frames: VecDeque<Bytes>,
    queued: u64,
}

impl Control {
    /// Since when nothing has come on it, though it was asked.
    fn unanswered_since(&self) -> Option<Instant> {
        self.ping.map(|(_, sent_at)| sent_at.max(self.heard_at))
    }

    /// When the next ping is due; not before the last one has been answered.
    const fn ping_due(&self) -> Option<Instant> {
        if self.ping.is_some() { None } else { Some(self.ping_at) }
    }
}

/// What room the application is told of, or half of its memory: waking it for less costs more than it
/// gains.
const WRITABLE_ROOM: u64 = 64 << 10;
/// The least time between two looks at what is overdue.
const LEAST_TICK: Duration = Duration::from_millis(1);

/// How a session has ended.
#[derive(Debug)]
enum SessionEnd {
    /// Both directions are finished and acknowledged.
    Closed,
    /// At once, by this side: what the peer is told, on every subflow.
    Reset(Refusal),
    /// At once, by the peer.
    ResetByPeer,
}

/// One connection's state.
#[derive(Debug)]
pub struct Session {
    send: SendHalf,
    recv: RecvHalf,
    /// Boxed, as are the paths: a map's first node has room for eleven, and most sessions have two.
    control: BTreeMap<SubflowId, Box<Control>>,
    paths: BTreeMap<PathId, Box<PathStats>>,
    events: VecDeque<Event>,
    wakes: VecDeque<SubflowId>,
    end: Option<SessionEnd>,
    next_ping: u64,
    liveness: Liveness,
    follow_policy: bool,
    /// Space for control records.
    blocks: BytesMut,
    write_blocked: bool,
    last_tick: Instant,
    /// Whether a subflow's metrics say that it is stalled, or no longer.
    evaluation_due: bool,
    finished_told: bool,
    readable_told: bool,
    /// Whether an acknowledgement of the peer's whole stream has been given to a subflow. Later
    /// ones, for duplicates, are not waited for: the peer may have left by then.
    end_acked: bool,
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
            end: None,
            next_ping: 0,
            liveness: Liveness::new(config, now),
            follow_policy: config.follow_policy,
            blocks: BytesMut::new(),
            write_blocked: false,
            last_tick: now,
            evaluation_due: false,
            finished_told: false,
            readable_told: false,
            end_acked: false,
        }
    }

    /// Records which path carries which part of what is sent and received from now on, `most` stretches
    /// of each at most; `None` ends that. It costs nothing while nobody asks for it.
    pub fn record_weave(&mut self, most: Option<usize>) {
        self.send.record_weave(most);
        self.recv.record_weave(most);
    }

    /// What was recorded of what is sent, as it stands at `now`; `None` while nothing is recorded.
    pub fn weave_sent(&self, now: Instant) -> Option<WeaveRecord> {
        self.send.weave(now)
    }

    /// The same of what is received: when it arrived, and over which path.
    pub fn weave_received(&self, now: Instant) -> Option<WeaveRecord> {
        self.recv.weave(now)
    }

    // ---- subflows ----

    /// A subflow is ready to carry data. Its number must be new.
    ///
    /// # Errors
    /// [`Misuse::SubflowInUse`] when the number is that of a subflow that is up,
    /// [`Misuse::NumberTooLarge`] when it or the path's is 2^62 or more.
    pub fn subflow_up(&mut self, id: SubflowId, path: PathId, now: Instant) -> Result<(), Misuse> {
        let largest = id.0.max(path.0);
        if largest > VARINT_MAX {
            return Err(Misuse::NumberTooLarge(largest));
        }
        if self.control.contains_key(&id) {
            return Err(Misuse::SubflowInUse(id.0));
        }
        let fin = self.send.is_finished() && !self.send.fin_acked();
        let reset = matches!(self.end, Some(SessionEnd::Reset(_)));
        let control = Control {
            ack: true,
            fin,
            wish: self.send.credit.wish() > 0,
            policy: true,
            reset,
            ping_at: now,
            ..Control::default()
        };
        self.control.insert(id, Box::new(control));
        // Its handshake has been answered.
        self.liveness.heard(now);
        self.send.subflow_up(id, path, now);
        self.recv.subflow_up(id);
        self.paths.entry(path).or_default();
        self.review(now);
        self.wake_all();
        Ok(())
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

    /// Takes the kernel's present metrics of a subflow.
    pub fn handle_path_info(&mut self, id: SubflowId, info: PathInfo) {
        if let Some(index) = self.send.index(id) {
            let unwritten = self.control.get(&id).map_or(0, |control| control.queued);
            self.evaluation_due |= self.send.set_info(index, info, unwritten);
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

    /// Since when nothing has come on subflow `id` though the peer was asked for a sign of life there;
    /// `None` if it has answered, or was not asked.
    pub fn unanswered_since(&self, id: SubflowId) -> Option<Instant> {
        self.control.get(&id).and_then(|control| control.unanswered_since())
    }

    /// The longest time that a question and its answer took last on a live subflow, or that a question
    /// has waited for its answer; `None` if there are no subflows, or not all of them have answered one.
    pub fn round_trip(&self, now: Instant) -> Option<Duration> {
        let mut longest = None;
        for subflow in &self.send.subflows {
            let answered = self.paths.get(&subflow.path())?.ping_rtt?;
            let asked = self.control.get(&subflow.id()).and_then(|control| control.ping);
            let waited = asked.map_or(Duration::ZERO, |(_, sent_at)| now.since(sent_at));
            longest = longest.max(Some(answered.max(waited)));
        }
        longest
    }

    // ---- the application ----

    /// Takes as much of `data` as there is room for; what was not taken may be offered again after
    /// [`Event::Writable`].
    ///
    /// # Errors
    /// [`Misuse::Finished`] after [`finish`](Self::finish), and [`Misuse::CarriesMessages`] in a
    /// connection of messages, which are written by [`send_message`](Self::send_message).
    pub fn write(&mut self, data: &[u8], now: Instant) -> Result<usize, Misuse> {
        self.send.check_stream()?;
        let n = self.send.write(data);
        self.write_blocked = n < data.len();
        if n > 0 {
            self.wake_idle();
        }
        self.update(now);
        Ok(n)
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
        self.update(now);
    }

    /// Ends the connection at once; the peer gets `code`, 2^62 − 1 at most, and `reason`.
    pub fn reset(&mut self, code: u64, reason: &str, now: Instant) {
        if matches!(self.end, Some(SessionEnd::Reset(_))) {
            return;
        }
        self.end = Some(SessionEnd::Reset(Refusal { code, reason: reason.to_owned() }));
        for control in self.control.values_mut() {
            control.reset = true;
        }
        self.wake_all();
        self.update(now);
    }

    /// In-order bytes to read now; empty when there are none.
    pub fn read_chunk(&self) -> &[u8] {
        self.recv.stream.chunk()
    }

    /// Frees the first `n` bytes of what [`read_chunk`](Self::read_chunk) gave.
    ///
    /// # Errors
    /// [`Misuse::ConsumedTooMuch`] when there are fewer bytes to read.
    pub fn consume(&mut self, n: usize, now: Instant) -> Result<(), Misuse> {
        let (asked, there) = (n as u64, self.recv.readable());
        if asked > there {
            return Err(Misuse::ConsumedTooMuch { asked, there });
        }
        self.recv.consume(asked, now);
        self.freed(now);
        Ok(())
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

    /// Bytes that could be written and sent at once as far as the peer's credit goes.
    pub fn credit_left(&self) -> u64 {
        self.send.credit_left()
    }

    /// Bytes that can be written now.
    pub fn room(&self) -> u64 {
        self.send.room()
    }

    // ---- memory shared with other sessions ----

    /// Bytes that the peer would like to have outstanding, within
    /// [`max_memory`](SessionConfig::max_memory) and as far as the application reads what comes; it
    /// gets them up to [`set_receive_limit`](Self::set_receive_limit).
    pub fn receive_wanted(&self) -> u64 {
        self.recv.wanted()
    }

    /// Bytes of the peer's stream that have come, in order or not.
    pub const fn received(&self) -> u64 {
        self.recv.stream.in_order() + self.recv.stream.above().bytes()
    }

    /// Bytes of the peer's stream that have come on a subflow, those that came twice as well; 0 if it
    /// is not up.
    pub fn received_on(&self, id: SubflowId) -> u64 {
        self.recv.received_on(id)
    }

    /// The driver has memory for `limit` received bytes. What the peer has been granted before
    /// stays granted. Without any call only `max_memory` limits.
    pub fn set_receive_limit(&mut self, limit: u64, now: Instant) {
        self.recv.set_limit(limit, now);
        self.update(now);
    }

    /// Bytes held to send, or to send again.
    pub fn send_held(&self) -> u64 {
        self.send.held()
    }

    /// Memory for these, and for what is known of where they are.
    pub fn send_memory(&self) -> u64 {
        self.send.held() + self.send.notes()
    }

    /// The driver has memory for `limit` bytes to send, with what is known of where they are, and
    /// would have it for up to `reach` if so many were held. What is held already stays. Without any
    /// call only `max_memory` limits.
    pub fn set_send_limit(&mut self, limit: u64, reach: u64, now: Instant) {
        self.send.set_memory_limit(limit, reach);
        self.update(now);
    }

    // ---- what the driver asks ----

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
        if self.end.is_some() {
            return None;
        }
        let tick = self.send.next_timeout(now).map(|at| at.max(self.last_tick + LEAST_TICK));
        // A writer that has been woken is waited for: its socket may be full for long.
        let pings = self.control.values().filter(|control| !control.woken);
        let ping = pings.filter_map(|control| control.ping_due()).min();
        let deadline = self.send.outbox.as_ref().and_then(|outbox| outbox.next_deadline());
        let acks = self.control.values().filter_map(|control| control.ack_at).min();
        let times = self.recv.ack_at().into_iter().chain(acks).chain(tick).chain(ping);
        times.chain(deadline).chain(self.peer_deadline()).min()
    }

    /// Does what is due at `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.last_tick = now;
        if self.liveness.is_idle(now) {
            self.send.free_headers();
        }
        self.acknowledge(now);
        for (id, stalled) in self.send.evaluate_stalls(now) {
            self.tell_stall(id, stalled);
        }
        self.expire(now);
        self.wake_idle();
        self.send.take_uncapped(now).into_iter().for_each(|id| self.wake(id));
        self.wake_pings(now);
        self.evaluate_peer(now);
        self.update(now);
    }

    // ---- inner works ----

    /// Whether either side has ended the connection at once.
    const fn is_reset(&self) -> bool {
        matches!(self.end, Some(SessionEnd::Reset(_) | SessionEnd::ResetByPeer))
    }

    fn evaluate_stalls(&mut self, now: Instant) {
        for (id, stalled) in self.send.evaluate_stalls(now) {
            self.expire(now);
            self.tell_stall(id, stalled);
            // It may have waited with room while it was stalled.
            self.wake(id);
        }
    }

    /// Tells that a subflow is stalled, or no longer, where data of ours are on their way. That it
    /// takes none is nobody's business but the scheduler's: a slow path is like that while it
    /// works.
    fn tell_stall(&mut self, id: SubflowId, stalled: bool) {
        let outstanding = self.send.index(id).map_or(0, |at| self.send.subflows[at].outstanding());
        let Some(control) = self.control.get_mut(&id) else { return };
        let is_news = if stalled { outstanding > 0 } else { control.stall_told };
        if is_news {
            control.stall_told = stalled;
            let event =
                if stalled { Event::SubflowStalled(id) } else { Event::SubflowRecovered(id) };
            self.events.push_back(event);
        }
    }

    /// Updates what any change entails: events, closing, and records that have become due.
    fn update(&mut self, now: Instant) {
        self.review(now);
        if self.send.credit.take_new_wish() {
            for control in self.control.values_mut() {
                control.wish = true;
            }
            self.wake_idle();
        }
        if self.send.outbox.is_some() {
            self.update_messages();
        }
        if self.recv.is_readable() && !std::mem::replace(&mut self.readable_told, true) {
            self.events.push_back(Event::Readable);
        }
        if self.write_blocked && self.send.room() >= WRITABLE_ROOM.min(self.send.memory() / 2) {
            self.write_blocked = false;
            self.events.push_back(Event::Writable);
        }
        if self.recv.is_complete() && !std::mem::replace(&mut self.finished_told, true) {
            self.events.push_back(Event::Finished);
        }
        if self.end.is_none() && self.send.is_done() && self.end_acked {
            self.end = Some(SessionEnd::Closed);
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
/// Reset code: the server does not accept this client any more.
pub const RESET_REVOKED: u64 = 5;
/// Reset code: the server's one target, or that of a captured connection, is not reached by its own
/// doing, or the client may not go there. (A SOCKS client is answered in its own protocol.)
pub const RESET_TARGET: u64 = 6;
/// Reset code: the client wants another service than the server has.
pub const RESET_SERVICE: u64 = 7;
/// Reset code: the server lacks what it needs to reach the target, such as files, ports or names.
pub const RESET_SERVER: u64 = 8;
