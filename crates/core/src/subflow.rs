//! The sender's view of one subflow: what was given to it, what of that has arrived, and how long
//! that takes.

mod flight;

use std::ops::Range;
use std::time::Duration;

use self::flight::Flight;
use crate::limiter::PathLimiter;
use crate::path::{DEVIATIONS, PathId, PathInfo, SubflowId};
use crate::policy::Role;
use crate::ranges::RangeSet;
use crate::{Bitrate, ByteCount, Instant};

/// Payload bytes of a full segment: 1500 less IP and TCP headers with timestamps.
pub(crate) const SEGMENT: u64 = 1448;
/// A subflow without progress for this long is stalled, unless its own times are longer: some
/// acknowledgement intervals and timer ticks, so that a busy machine is not taken for a dead path.
const STALL_FLOOR: Duration = Duration::from_millis(60);
/// What a delivery may be late because of timers and acknowledgement intervals.
const LATE_FLOOR: Duration = Duration::from_millis(5);
/// The round-trip time assumed for a path of which nothing has been measured.
const FIRST_RTT: Duration = Duration::from_millis(100);
/// When a delivery is late on such a path: the deviation is taken to be as large as the mean.
const FIRST_DELIVERY: Duration = FIRST_RTT.saturating_mul(1 + DEVIATIONS);
/// Data committed to a path at a time, in time: the chunk of an assignment.
const CHUNK_TIME: Duration = Duration::from_millis(1);

/// What slow start makes of a congestion window in the round trip and a half that a wish for credit
/// and its answer take.
const SLOW_START_AHEAD: u64 = 3;

/// How long the round trip of a ping over an idle subflow is taken for what it is now: a ping's time
/// has the peer's in it, and may stay above the least of the kernel's for good.
const PING_HOLDS: Duration = Duration::from_secs(1);

/// Why a range is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No live subflow has it.
    New,
    /// A subflow that makes progress has it: a redundant copy.
    Copy,
    /// Only stalled subflows have it.
    Reinjection,
}

/// What the path's policy lets a subflow do.
#[derive(Debug)]
struct Share {
    role: Role,
    /// The role keeps it from new data at this moment.
    stands_by: bool,
    /// The most that the path may carry.
    cap: Option<Bitrate>,
    /// The cap let nothing through when it was last looked at.
    is_used_up: bool,
}

/// Whether what it carries arrives.
#[derive(Debug)]
struct Stall {
    is_stalled: bool,
    /// Whether it is so while TCP recovers from a timeout, whatever progress there is.
    is_by_timeout: bool,
    last_progress: Instant,
    /// Since when its socket has had no room though none of its data are on their way: it is full of
    /// control records, which a path that is cut does not take.
    is_full_since: Option<Instant>,
}

/// Payload bytes that were on another subflow already: reinjected, redundant copies included.
#[derive(Debug, Default)]
struct Repeated {
    all: u64,
    /// Of these, those that a subflow had that made progress.
    copies: u64,
}

/// The sending side of one subflow.
#[derive(Debug)]
pub struct Subflow {
    id: SubflowId,
    path: PathId,
    share: Share,
    /// What else may hold it back.
    limiter: Option<PathLimiter>,
    /// What its socket has room for.
    room: u64,
    info: PathInfo,
    /// The congestion window has once been as large as the slow start threshold.
    has_found_rate: bool,
    /// Payload bytes given to the subflow since `info` was taken.
    given: u64,
    flight: Flight,
    /// Every offset sent on this subflow and not yet below the in-order acknowledgement.
    on: RangeSet,
    repeated: Repeated,
    /// While it is stalled: below this offset it carries nothing that others do not.
    reinjected_below: u64,
    stall: Stall,
    /// When a ping was answered with nothing else on its way, and the time that took, if nothing has
    /// been delivered since.
    pinged: Option<(Instant, Duration)>,
    /// The least and the most that is given to it at once.
    chunk: (u64, u64),
}

impl Subflow {
    /// A subflow that has just come up. Chunks stay within so many bytes.
    pub fn new(id: SubflowId, path: PathId, chunk: (u64, u64), now: Instant) -> Self {
        Self {
            id,
            path,
            share: Share { role: Role::Active, stands_by: false, cap: None, is_used_up: false },
            limiter: None,
            room: 0,
            info: PathInfo::default(),
            has_found_rate: false,
            given: 0,
            flight: Flight::default(),
            on: RangeSet::new(),
            repeated: Repeated::default(),
            reinjected_below: 0,
            stall: Stall {
                is_stalled: false,
                is_by_timeout: false,
                last_progress: now,
                is_full_since: None,
            },
            pinged: None,
            chunk,
        }
    }

    /// Its number.
    pub const fn id(&self) -> SubflowId {
        self.id
    }

    /// The path it runs on.
    pub const fn path(&self) -> PathId {
        self.path
    }

    /// The kernel's latest metrics.
    pub const fn info(&self) -> &PathInfo {
        &self.info
    }

    /// Takes the kernel's present metrics; `unwritten` bytes of what it was given have not come to
    /// the kernel yet.
    pub fn set_info(&mut self, info: PathInfo, unwritten: u64) {
        self.has_found_rate |= !info.is_in_slow_start();
        self.info = info;
        self.given = unwritten;
    }

    /// Takes whether it is stalled while TCP recovers from a retransmission timeout, and at no
    /// other time.
    pub const fn set_stalls_by_timeout(&mut self, by_timeout: bool) {
        self.stall.is_by_timeout = by_timeout;
    }

    /// Whether it is in its first slow start: what it brings is not known yet, and its window doubles each
    /// round trip. Later the window may be below the threshold without that: BBR keeps that of the rate
    /// that it found first, and on a radio that is blocked its window is far below.
    pub fn is_in_slow_start(&self) -> bool {
        !self.has_found_rate && self.info.is_in_slow_start()
    }

    /// Bytes in the socket, unacknowledged or unsent, by the freshest of what is known: the kernel's
    /// metrics, and our own count of what has not arrived, both only grow too large with age. Small
    /// ranges count as the segments that they are.
    pub const fn queued(&self) -> u64 {
        let known = self.info.queued().as_u64().saturating_add(self.given);
        if known < self.flight.window() { known } else { self.flight.window() }
    }

    /// Bytes that the congestion window has room for.
    pub const fn window_room(&self) -> u64 {
        self.info.cwnd.as_u64().saturating_sub(self.queued())
    }

    /// Bytes that its socket has room for, by what the driver said last and what it was given
    /// since.
    pub const fn room(&self) -> u64 {
        self.room
    }

    /// Whether its socket takes nothing though none of its data are on their way.
    pub fn is_full(&self) -> bool {
        self.room == 0 && self.flight.is_empty()
    }

    /// Takes what the socket can take at present. Returns whether it is to be evaluated anew.
    pub fn set_room(&mut self, room: u64) -> bool {
        self.room = room;
        let was_full = self.stall.is_full_since.is_some();
        self.flight.is_empty() && (room == 0) != was_full
    }

    /// Payload bytes given to the subflow.
    pub const fn sent(&self) -> u64 {
        self.flight.sent()
    }

    /// Payload bytes that have arrived.
    pub const fn delivered(&self) -> u64 {
        self.flight.delivered()
    }

    /// Payload bytes that were on another subflow already: reinjected, redundant copies included.
    pub const fn reinjected(&self) -> u64 {
        self.repeated.all
    }

    /// Payload bytes of these that a subflow had that made progress.
    pub const fn copied(&self) -> u64 {
        self.repeated.copies
    }

    /// Ranges on their way: sent, and not known to have arrived on this subflow.
    pub fn in_flight(&self) -> usize {
        self.flight.ranges()
    }

    /// Payload bytes on their way.
    pub const fn outstanding(&self) -> u64 {
        self.flight.sent() - self.flight.delivered()
    }

    /// While it is stalled: below this offset it carries nothing that the peer or a subflow that
    /// makes progress does not have.
    pub(crate) const fn reinjected_below(&self) -> u64 {
        self.reinjected_below
    }

    /// Takes that offset.
    pub(crate) const fn set_reinjected_below(&mut self, offset: u64) {
        self.reinjected_below = offset;
    }

    /// Whether it has data outstanding and makes no progress, or takes none.
    pub const fn is_stalled(&self) -> bool {
        self.stall.is_stalled
    }

    /// What its path is for.
    pub const fn role(&self) -> Role {
        self.share.role
    }

    /// Whether its role keeps it from new data at this moment. The scheduler is not asked for it.
    pub const fn is_standby(&self) -> bool {
        self.share.stands_by
    }

    /// Whether new data may be counted on to go here: neither stalled nor standing by.
    pub const fn is_usable(&self) -> bool {
        !self.stall.is_stalled && !self.share.stands_by
    }

    /// The most its path may carry.
    pub const fn cap(&self) -> Option<Bitrate> {
        self.share.cap
    }

    /// Whether its path's cap lets nothing through: for some milliseconds it is as if its socket were
    /// full.
    pub const fn is_capped(&self) -> bool {
        self.share.is_used_up
    }

    /// The limiter that all sessions' data over its path goes through, if there is one.
    pub const fn limiter(&self) -> Option<&PathLimiter> {
        self.limiter.as_ref()
    }

    /// Whether the limiter limits it now.
    pub fn is_limited(&self) -> bool {
        self.limiter.as_ref().is_some_and(PathLimiter::is_limited)
    }

    /// Sets the limiter that its data go through.
    pub fn set_limiter(&mut self, limiter: Option<PathLimiter>) {
        self.limiter = limiter;
    }

    /// Takes its path's policy.
    pub const fn set_policy(&mut self, role: Role, cap: Option<Bitrate>) {
        self.share.role = role;
        self.share.cap = cap;
    }

    /// Notes whether its role keeps it from new data.
    pub const fn set_standby(&mut self, standby: bool) {
        self.share.stands_by = standby;
    }

    /// Notes whether its path's cap lets nothing through.
    pub const fn set_capped(&mut self, capped: bool) {
        self.share.is_used_up = capped;
    }

    /// Whether it could send more than it was given.
    pub const fn is_idle(&self) -> bool {
        self.room > 0 && !self.share.is_used_up
    }

    /// Offsets sent on this subflow and not yet below the in-order acknowledgement.
    pub const fn on(&self) -> &RangeSet {
        &self.on
    }

    /// The round-trip time: the kernel's, else an assumption.
    pub const fn rtt(&self) -> Duration {
        if self.info.srtt.is_zero() { FIRST_RTT } else { self.info.srtt }
    }

    /// Takes the round trip of a ping that has just been answered.
    pub const fn set_ping_rtt(&mut self, rtt: Duration, now: Instant) {
        if self.outstanding() == 0 {
            self.pinged = Some((now, rtt));
        }
    }

    /// The round-trip time to be expected of what is sent now. The kernel's metric of a path that
    /// was not used for a while is as old as that, and may tell of a queue or a repair that is long
    /// over: a ping since then knows better.
    pub fn present_rtt(&self) -> Duration {
        self.pinged.map_or(self.rtt(), |(_, ping)| ping.min(self.rtt()))
    }

    /// Whether nothing is on its way and the round-trip time tells of a queue or a repair, half as
    /// much again as the path takes at least: it may be over by now, and only a ping would tell. The
    /// last one's answer holds for a while, however long it took.
    pub fn may_be_nearer(&self, now: Instant) -> bool {
        let least = self.info.min_rtt;
        let known = self.pinged.is_some_and(|(at, _)| now.since(at) < PING_HOLDS);
        let high = !least.is_zero() && self.present_rtt() * 2 > least * 3;
        self.outstanding() == 0 && high && !known
    }

    /// From assignment to our acknowledgement, on average.
    pub fn delivery_time(&self) -> Duration {
        self.flight.delivery().mean().unwrap_or_else(|| self.info.srtt.max(FIRST_RTT))
    }

    /// The age at which a range is late: mean plus four deviations of the delivery time.
    pub fn late_after(&self) -> Duration {
        self.flight.delivery().late().map_or(FIRST_DELIVERY, |late| late + LATE_FLOOR)
    }

    /// When `offset` was given to this subflow, if it is on its way.
    pub fn sent_at(&self, offset: u64) -> Option<Instant> {
        self.flight.sent_at(offset)
    }

    /// The ranges on their way that end above the first `bytes` sent, oldest first, each with the bytes
    /// sent up to its end.
    pub fn in_flight_after(&self, bytes: u64) -> impl Iterator<Item = (Range<u64>, u64)> {
        self.flight.oldest_first(bytes)
    }

    /// The ranges on their way, youngest first, each with the bytes up to its end that have not been
    /// acknowledged, and when it was given to the subflow.
    pub fn in_flight_from_last(&self) -> impl Iterator<Item = (Range<u64>, u64, Instant)> {
        self.flight.youngest_first()
    }

    /// The projected rate: what the congestion window allows, or will allow by the time that credit
    /// asked for at this moment has come, as slow start goes on meanwhile. Zero before anything is
    /// measured.
    pub fn projected_rate(&self) -> Bitrate {
        if self.info.srtt.is_zero() {
            return Bitrate::default();
        }
        let cwnd = self.info.cwnd.as_u64();
        let cwnd =
            if self.is_in_slow_start() { cwnd.saturating_mul(SLOW_START_AHEAD) } else { cwnd };
        let rate = Bitrate::from_transfer(ByteCount::new(cwnd), self.info.srtt);
        self.share.cap.map_or(rate, |cap| cap.min(rate))
    }

    /// How many bytes to assign at once: a millisecond's worth, so that the end of a window is
    /// met within little, in few system calls.
    pub fn chunk(&self, rate: Option<Bitrate>) -> u64 {
        let rate = rate.unwrap_or(self.info.delivery_rate);
        let (least, most) = self.chunk;
        rate.bytes_in(CHUNK_TIME).as_u64().clamp(least, most)
    }

    /// Notes that `range` is given to the subflow.
    pub fn assign(&mut self, range: Range<u64>, kind: Kind, now: Instant) {
        let len = range.end - range.start;
        if self.flight.is_empty() {
            self.stall.last_progress = now;
        }
        self.given += len;
        self.room = self.room.saturating_sub(len);
        if kind != Kind::New {
            self.repeated.all += len;
        }
        if kind == Kind::Copy {
            self.repeated.copies += len;
        }
        let added = self.on.insert(range.clone());
        debug_assert_eq!(added, len, "a byte goes once on one subflow");
        self.flight.add(range, now);
    }

    /// Takes the peer's count of payload bytes received on this subflow. Returns how many are
    /// new, or `None` if it claims more than was sent.
    pub fn acknowledge(&mut self, received: u64, now: Instant) -> Option<u64> {
        let new = self.flight.acknowledge(received, now)?;
        if new > 0 {
            self.pinged = None;
            self.stall.last_progress = now;
        }
        Some(new)
    }

    /// Forgets offsets below the in-order acknowledgement.
    pub fn release_below(&mut self, offset: u64) {
        self.on.remove_below(offset);
    }

    /// When the subflow will count as stalled if it makes no progress until then.
    pub fn stalls_at(&self) -> Option<Instant> {
        if self.stall.is_stalled || self.stall.is_by_timeout {
            return None;
        }
        let kernel = self.info.srtt + self.info.srtt / 2 + DEVIATIONS * self.info.rttvar;
        let patience = STALL_FLOOR.max(kernel);
        if self.flight.is_empty() {
            return Some(self.stall.is_full_since? + patience);
        }
        let ours = self.flight.delivery().late().unwrap_or(FIRST_DELIVERY);
        Some(self.stall.last_progress + patience.max(ours))
    }

    /// Evaluates at `now` whether it is stalled, where data wait to be sent or not; `Some(stalled)`
    /// when that has changed.
    pub fn evaluate(&mut self, waits: bool, now: Instant) -> Option<bool> {
        let full_since = self.stall.is_full_since.or_else(|| waits.then_some(now));
        self.stall.is_full_since = full_since.filter(|_| self.is_full());
        let stalled = if self.stall.is_by_timeout {
            self.info.timed_out && !self.flight.is_empty()
        } else if self.stall.is_stalled && self.flight.is_empty() {
            self.stall.is_full_since.is_some()
        } else if self.stall.is_stalled {
            // Progress, or nothing left to wait for, ends a stall.
            now.since(self.stall.last_progress) >= STALL_FLOOR
        } else {
            self.stalls_at().is_some_and(|at| at <= now)
        };
        (stalled != self.stall.is_stalled).then(|| {
            self.stall.is_stalled = stalled;
            stalled
        })
    }
}
