//! One end of a bond: packets in, datagrams over lanes out, and the other way round.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::LaneId;
use super::budget::Budget;
use super::congestion::LaneCongestion;
use super::flows::Flows;
use super::frame::{Class, DATA_OVERHEAD, Frame, FrameError};
use super::lane::{Kept, Lane, LaneState, LaneStatus};
use super::packet::Look;
use crate::Instant;
use crate::policy::Role;
use crate::replay::ReplayWindow;

/// The most lanes of a bond.
pub const MAX_LANES: usize = 8;
/// Packets that wait to be sent at once, or again. More come only if nobody asks for them.
const MOST_READY: usize = 512;
/// The datagrams whose fate is awaited, over all lanes, and the bytes of them that are kept to go again.
const MAX_FLIGHT: usize = 8192;
const MAX_KEPT: usize = 1 << 20;
/// The bytes that wait for room over all lanes, each packet with what it takes besides.
const MAX_WAITING: u64 = 2 << 20;
const BESIDES: u64 = 64;
/// What is older than this does not go again when its lane falls silent.
const RESENT_AGE: Duration = Duration::from_millis(100);
/// A flow moves to another lane for more than this, and for more than a quarter.
const MOVES_FOR: Duration = Duration::from_millis(5);
/// How long a lane that was silent is still tried where there is no other.
const TRIED_FOR: Duration = Duration::from_secs(10);

/// The most memory that a bond takes, in bytes, whatever is sent over it and whatever the other end says.
/// Of this, 2 MiB are for packets that wait for room, 1 MiB for those that are kept, 2 MiB for those that go
/// at once or again, and the rest for records of what is on its way and of flows.
pub const MAX_MEMORY: u64 = 8 << 20;

/// What a bond is made with.
#[derive(Clone, Copy, Debug)]
pub struct BondConfig {
    /// Whether this end begins: it keeps addresses of routers alive and looks for lost lanes.
    pub is_initiator: bool,
    /// The longest packet, in bytes.
    pub mtu: usize,
    /// Says in a packet that congestion was experienced, if it understands that; whether it does.
    pub mark: fn(&mut [u8]) -> bool,
    /// Makes the congestion control of a lane, for packets of this length at most.
    pub congestion: fn(usize) -> Box<dyn LaneCongestion>,
}

/// What became of packets that were not sent over a lane, or came twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BondCounters {
    /// Dropped: no IP packets.
    pub no_packet: u64,
    /// Dropped: there was no lane.
    pub no_lane: u64,
    /// Dropped: more were to go at once than may wait.
    pub overflowed: u64,
    /// Copies, and packets that went again, of which the other had come before.
    pub duplicates: u64,
    /// Datagrams dropped: no frames, or frames that tell of what was never sent.
    pub malformed: u64,
    /// Urgent packets without a copy, as the budget was used up.
    pub uncopied: u64,
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The lane.
    pub lane: LaneId,
    /// The datagram's sequence number there, which is used once.
    pub sequence: u64,
}

/// A packet that goes as soon as it is asked for.
#[derive(Debug)]
struct Ready {
    lane: LaneId,
    kept: Kept,
    is_copy: bool,
    is_again: bool,
}

/// One end of a bond.
#[derive(Debug)]
pub struct Bond {
    config: BondConfig,
    lanes: BTreeMap<LaneId, Lane>,
    /// Of lanes that were removed: the sequence numbers with which they go on. None is used twice, for
    /// it is a datagram's nonce.
    former: BTreeMap<LaneId, u64>,
    flows: Flows,
    budget: Budget,
    came: ReplayWindow,
    next_number: u64,
    ready: VecDeque<Ready>,
    pongs: VecDeque<(LaneId, u64)>,
    /// The lane whose queue is asked first.
    turn: LaneId,
    counters: BondCounters,
}

impl Bond {
    /// A bond without lanes.
    pub fn new(config: BondConfig, now: Instant) -> Self {
        Self {
            config,
            lanes: BTreeMap::new(),
            former: BTreeMap::new(),
            flows: Flows::default(),
            budget: Budget::new(now),
            came: ReplayWindow::default(),
            next_number: 0,
            ready: VecDeque::new(),
            pongs: VecDeque::new(),
            turn: LaneId(0),
            counters: BondCounters::default(),
        }
    }

    /// Adds a lane, or gives the one there is another role. Whether there was room for it. One that was
    /// there before goes on with its sequence numbers.
    pub fn add_lane(&mut self, id: LaneId, role: Role, now: Instant) -> bool {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.role = role;
            return true;
        }
        let has_room = self.lanes.len() < MAX_LANES;
        if has_room {
            let next = self.former.remove(&id).unwrap_or(0);
            let congestion = (self.config.congestion)(self.config.mtu);
            let traits = (role, self.config.is_initiator);
            self.lanes.insert(id, Lane::new(id, traits, next, congestion, now));
        }
        has_room
    }

    /// Removes a lane: what was on its way, and waits for it, goes over others.
    pub fn remove_lane(&mut self, id: LaneId, now: Instant) {
        if self.lanes.contains_key(&id) {
            self.fall_silent(id, now);
            let lane = self.lanes.remove(&id);
            self.former.extend(lane.map(|lane| (id, lane.next_sequence())));
        }
    }

    /// The system does not send on a lane, as its link is gone: what was on its way goes elsewhere.
    pub fn handle_unsent(&mut self, id: LaneId, now: Instant) {
        if self.lanes.get(&id).is_some_and(|lane| lane.state == LaneState::Up) {
            self.fall_silent(id, now);
        }
    }

    /// Takes a packet to be sent.
    pub fn handle_packet(&mut self, packet: &[u8], now: Instant) {
        let Some(look) = Look::at(packet) else {
            self.counters.no_packet += 1;
            return;
        };
        let bytes = packet.len();
        let (class, flow) = self.flows.count(look.flow, look.is_urgent, bytes, now);
        let choice = Choice { lanes: &self.lanes, bytes, now };
        let Some(best) = choice.best(None) else {
            self.counters.no_lane += 1;
            return;
        };
        if class != Class::Urgent {
            let lane = choice.keep(flow.lane, best);
            flow.lane = Some(lane);
            let queue = &mut self.lanes.get_mut(&lane).expect("it was chosen").queue;
            queue.push(look.flow as u16, packet, bytes.try_into().unwrap_or(u32::MAX), now);
            self.bound_waiting();
            return;
        }
        flow.lane = Some(best);
        let second = choice.second(best);
        let number = self.take_number();
        self.make_ready(best, number, class, packet, (false, false));
        let Some(second) = second else { return };
        if self.budget.take(bytes as u64, now) {
            self.make_ready(second, number, class, packet, (true, false));
        } else {
            self.counters.uncopied += 1;
        }
    }

    /// Drops of the longest flow of the lane with most that waits, until all that waits has room.
    fn bound_waiting(&mut self) {
        let waiting = |lane: &Lane| lane.queue.bytes() + BESIDES * lane.queue.len() as u64;
        while self.lanes.values().map(waiting).sum::<u64>() > MAX_WAITING {
            let fullest = self.lanes.values_mut().max_by_key(|lane| waiting(lane));
            fullest.expect("something waits").queue.drop_longest();
        }
    }

    /// Whether as much is on its way as may be.
    fn is_full(&self) -> bool {
        self.lanes.values().map(Lane::flight_len).sum::<usize>() >= MAX_FLIGHT
    }

    /// Whether a packet of such a length may be kept to go again.
    fn may_keep(&self, length: usize) -> bool {
        self.lanes.values().map(Lane::kept_bytes).sum::<usize>() + length <= MAX_KEPT
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn make_ready(
        &mut self,
        lane: LaneId,
        number: u64,
        class: Class,
        packet: &[u8],
        (is_copy, is_again): (bool, bool),
    ) {
        if self.ready.len() >= MOST_READY {
            self.counters.overflowed += 1;
            return;
        }
        let kept = Kept { number, class, packet: packet.to_vec() };
        self.ready.push_back(Ready { lane, kept, is_copy, is_again });
    }

    /// Takes a frame that came over a lane, in a datagram that is authentic and has not come before.
    /// Gives the packet in it, if it has not come yet.
    ///
    /// # Errors
    /// When it is no frame, or tells of what was never sent; it is counted.
    pub fn handle_frame<'a>(
        &mut self,
        id: LaneId,
        sequence: u64,
        frame: &'a [u8],
        now: Instant,
    ) -> Result<Option<&'a [u8]>, FrameError> {
        let result = self.take_frame(id, sequence, frame, now);
        if result.is_err() {
            self.counters.malformed += 1;
        }
        result
    }

    fn take_frame<'a>(
        &mut self,
        id: LaneId,
        sequence: u64,
        frame: &'a [u8],
        now: Instant,
    ) -> Result<Option<&'a [u8]>, FrameError> {
        let lane = self.lanes.get_mut(&id).ok_or(FrameError)?;
        let frame = Frame::decode(frame)?;
        lane.pings.note_came(now);
        lane.arrivals.note(sequence, matches!(frame, Frame::Data { .. }), now);
        match frame {
            Frame::Data { number, packet, .. } => {
                lane.counters.received_packets += 1;
                lane.counters.received_bytes += packet.len() as u64;
                if self.came.take(number) {
                    return Ok(Some(packet));
                }
                self.counters.duplicates += 1;
            }
            Frame::Feedback(feedback) => {
                if !lane.handle_feedback(&feedback, now) {
                    return Err(FrameError);
                }
                let missed = std::mem::take(&mut lane.missed);
                missed.into_iter().for_each(|kept| self.send_again(kept, now));
            }
            Frame::Ping { id: question, .. } => {
                if self.pongs.len() < MAX_LANES {
                    self.pongs.push_back((id, question));
                }
            }
            Frame::Pong { id: question } => {
                if let Some(rtt) = lane.pings.handle_answer(question, self.config.mtu, now) {
                    lane.measure(rtt, now);
                    lane.heard(now);
                }
            }
        }
        Ok(None)
    }

    /// Sends an urgent packet that was lost once more, by the best way there is now.
    fn send_again(&mut self, kept: Kept, now: Instant) {
        let choice = Choice { lanes: &self.lanes, bytes: kept.packet.len(), now };
        if let Some(best) = choice.best(None) {
            self.make_ready(best, kept.number, kept.class, &kept.packet, (false, true));
        }
    }

    /// Appends the frame of the next datagram to `out`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(transmit) = self.poll_control(now, out) {
            return Some(transmit);
        }
        while let Some(ready) = self.ready.pop_front() {
            // Its lane may have fallen silent since, and been left.
            if let Some(transmit) = self.send_ready(ready, now, out) {
                return Some(transmit);
            }
        }
        self.poll_queues(now, out)
    }

    /// Answers, what has come, and questions.
    fn poll_control(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        while let Some((id, question)) = self.pongs.pop_front() {
            if let Some(lane) = self.lanes.get_mut(&id) {
                Frame::Pong { id: question }.encode(out);
                return Some(Transmit { lane: id, sequence: lane.take_sequence() });
            }
        }
        for (&id, lane) in &mut self.lanes {
            if let Some(feedback) = lane.arrivals.tell(now) {
                Frame::Feedback(feedback).encode(out);
                return Some(Transmit { lane: id, sequence: lane.take_sequence() });
            }
            if let Some(question) = lane.pings.ask(now) {
                let longest = self.config.mtu + DATA_OVERHEAD;
                let padding = if question.is_long { longest } else { 0 };
                Frame::Ping { id: question.id, padding }.encode(out);
                return Some(Transmit { lane: id, sequence: lane.take_sequence() });
            }
        }
        None
    }

    fn send_ready(&mut self, ready: Ready, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let (is_full, may_keep) = (self.is_full(), self.may_keep(ready.kept.packet.len()));
        if is_full {
            // Of a lane that is not up rather than of one that is.
            let fullest = self.lanes.values_mut();
            let fullest =
                fullest.max_by_key(|lane| (lane.state != LaneState::Up, lane.flight_len()));
            fullest.into_iter().for_each(Lane::forget_first);
        }
        let lane = self.lanes.get_mut(&ready.lane)?;
        lane.counters.copies += u64::from(ready.is_copy);
        lane.counters.resent += u64::from(ready.is_again);
        // A copy has its original, and what went again has had its turn.
        let is_kept = !ready.is_copy && !ready.is_again && may_keep;
        let transmit = encode(lane, ready.kept, is_kept, now, out);
        if !ready.is_copy {
            self.budget.sent((out.len() as u64).saturating_sub(DATA_OVERHEAD as u64));
        }
        Some(transmit)
    }

    /// What has waited for room: lane by lane in turn.
    fn poll_queues(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.is_full() {
            return None;
        }
        let may_keep = self.may_keep(self.config.mtu);
        let turn = self.turn;
        let ids: Vec<_> = self.lanes.range(turn..).chain(self.lanes.range(..turn)).collect();
        let ids: Vec<_> = ids
            .into_iter()
            .filter(|(_, lane)| lane.has_waiting() && lane.room_at().is_some_and(|at| at <= now))
            .map(|(&id, _)| id)
            .collect();
        let mut mark = self.config.mark;
        for id in ids {
            let lane = self.lanes.get_mut(&id).expect("it was listed");
            if let Some(kept) = lane.again.pop_front() {
                lane.counters.resent += 1;
                self.budget.sent(kept.packet.len() as u64);
                return Some(encode(lane, kept, false, now, out));
            }
            let Some((_, waiting)) = lane.queue.pop(now, &mut mark) else { continue };
            let class = Class::Bulk;
            let number = self.next_number;
            self.next_number += 1;
            self.budget.sent(waiting.bytes.into());
            self.turn = LaneId(id.0.wrapping_add(1));
            let kept = Kept { number, class, packet: waiting.packet };
            return Some(encode(lane, kept, may_keep, now, out));
        }
        None
    }

    /// When [`Self::handle_timeout`] or [`Self::poll_transmit`] has something to do; `None` if only
    /// what comes gives them any.
    pub fn poll_timeout(&self) -> Option<Instant> {
        if !self.ready.is_empty() || !self.pongs.is_empty() {
            return Some(Instant::ZERO);
        }
        let is_full = self.is_full();
        let of_lane = |lane: &Lane| {
            let room = lane.room_at().filter(|_| lane.has_waiting() && !is_full);
            let times =
                [room, lane.arrivals.due(), lane.pings.due(), lane.silent_at(), lane.forget_at()];
            times.into_iter().flatten().min()
        };
        self.lanes.values().filter_map(of_lane).min()
    }

    /// Finds out which lanes have fallen silent, and forgets what was sent into the silence.
    pub fn handle_timeout(&mut self, now: Instant) {
        let is_silent = |lane: &Lane| {
            lane.silent_at().is_some_and(|at| at <= now)
                || lane.state == LaneState::Up && lane.pings.is_in_vain()
        };
        let silent: Vec<_> =
            self.lanes.values().filter(|lane| is_silent(lane)).map(|lane| lane.id).collect();
        silent.into_iter().for_each(|id| self.fall_silent(id, now));
        self.lanes.values_mut().for_each(|lane| lane.forget_old(now));
    }

    /// Sends what is young of what a lane has on its way, and all that waits for it, over others.
    fn fall_silent(&mut self, id: LaneId, now: Instant) {
        let lane = self.lanes.get_mut(&id).expect("it was found");
        let back = lane.fall_silent(RESENT_AGE, now);
        for kept in back {
            let choice = Choice { lanes: &self.lanes, bytes: kept.packet.len(), now };
            let Some(other) = choice.other_than(id) else { continue };
            if kept.class == Class::Urgent {
                self.make_ready(other, kept.number, kept.class, &kept.packet, (false, true));
                continue;
            }
            // All at once they would fill the queue of the other link.
            let all: usize = self.lanes.values().map(|lane| lane.again.len()).sum();
            if all < 2 * MOST_READY {
                self.lanes.get_mut(&other).expect("it was chosen").again.push_back(kept);
            } else {
                self.counters.overflowed += 1;
            }
        }
        let choice = Choice { lanes: &self.lanes, bytes: 0, now };
        let Some(other) = choice.other_than(id) else { return };
        // What has not been sent yet has no number, and is not sent twice.
        let waiting = self.lanes.get_mut(&id).expect("it was found").queue.drain();
        let queue = &mut self.lanes.get_mut(&other).expect("it was chosen").queue;
        for (flow, waiting) in waiting {
            queue.push(flow, &waiting.packet, waiting.bytes, now);
        }
        self.bound_waiting();
        for ready in self.ready.iter_mut().filter(|ready| ready.lane == id && !ready.is_copy) {
            ready.lane = other;
        }
    }

    /// How many lanes are up.
    pub fn lanes_up(&self) -> usize {
        self.lanes.values().filter(|lane| lane.state == LaneState::Up).count()
    }

    /// What is known of each lane.
    pub fn lanes(&self) -> Vec<LaneStatus> {
        self.lanes.values().map(Lane::status).collect()
    }

    /// What became of other packets.
    pub fn counters(&self) -> BondCounters {
        self.counters
    }
}

fn encode(lane: &mut Lane, kept: Kept, is_kept: bool, now: Instant, out: &mut Vec<u8>) -> Transmit {
    let Kept { number, class, packet } = &kept;
    Frame::Data { number: *number, class: *class, packet }.encode(out);
    let (sequence, bytes) = (lane.take_sequence(), packet.len() as u64);
    lane.note_sent(sequence, (bytes, *class), is_kept.then_some(kept), now);
    Transmit { lane: lane.id, sequence }
}

/// Which lane a packet goes over.
struct Choice<'a> {
    lanes: &'a BTreeMap<LaneId, Lane>,
    bytes: usize,
    now: Instant,
}

impl Choice<'_> {
    /// The lane over which it should arrive first, of those that are up; where none is, of those that
    /// may be. Lanes that cost something only where there are no others.
    fn best(&self, without: Option<LaneId>) -> Option<LaneId> {
        let others = || self.lanes.values().filter(|lane| Some(lane.id) != without);
        let up = others().filter(|lane| lane.state == LaneState::Up);
        let tier = up.clone().map(|lane| lane.role).min().filter(|role| *role != Role::Retired);
        if let Some(tier) = tier {
            return self.soonest(up.filter(|lane| lane.role == tier));
        }
        let tried = |lane: &&Lane| lane.pings.was_heard_within(TRIED_FOR, self.now);
        self.soonest(others().filter(tried))
    }

    fn soonest<'b>(&self, lanes: impl Iterator<Item = &'b Lane>) -> Option<LaneId> {
        let cost = |lane: &&Lane| {
            // One that has been seen to carry packets as long comes before one that has not.
            (lane.pings.longest_packet() < self.bytes, lane.arrival(self.bytes as u64))
        };
        lanes.min_by_key(cost).map(|lane| lane.id)
    }

    /// The lane of an urgent packet's copy: one that costs nothing, or any that is up if the best is a
    /// poor one.
    fn second(&self, best: LaneId) -> Option<LaneId> {
        let main = &self.lanes[&best];
        let second = self.best(Some(best))?;
        let lane = &self.lanes[&second];
        let is_free = lane.role == Role::Active;
        (lane.state == LaneState::Up && (is_free || main.is_poor())).then_some(second)
    }

    /// Another lane that is up.
    fn other_than(&self, id: LaneId) -> Option<LaneId> {
        self.best(Some(id)).filter(|other| self.lanes[other].state == LaneState::Up)
    }

    /// The lane that a flow keeps to, unless the best is better by much.
    fn keep(&self, kept: Option<LaneId>, best: LaneId) -> LaneId {
        let Some(lane) = kept.and_then(|id| self.lanes.get(&id)) else { return best };
        let other = &self.lanes[&best];
        if lane.state != LaneState::Up || lane.role != other.role {
            return best;
        }
        let (now, then) = (lane.arrival(self.bytes as u64), other.arrival(self.bytes as u64));
        let is_better = now > then + MOVES_FOR && now > then * 5 / 4;
        if is_better { best } else { lane.id }
    }
}
