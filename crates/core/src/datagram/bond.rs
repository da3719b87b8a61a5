//! One end of a bond: packets in, datagrams over lanes out, and the other way round.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::budget::Budget;
use super::calls::CallRules;
use super::choice::Choice;
use super::congestion::LaneCongestion;
use super::flows::{Flows, Talk};
use super::frame::{Class, DATA_OVERHEAD, Frame, FrameError};
use super::lane::{Kept, Lane, LaneState, LaneStatus, MAX_WAITING};
use super::mtu::SHORT_PACKET;
use super::order::Order;
use super::packet::{self, Look};
use super::place::Place;
use super::protection::Protection;
use super::waiting::{number_now, take_class, take_empty_place};
use super::{Carrier, LaneId};
use crate::Instant;
use crate::limiter::PathLimiter;
use crate::policy::Role;
use crate::replay::ReplayWindow;
use crate::wire::varint;

/// The most lanes of a bond: eight links, and one over TCP.
pub const MAX_LANES: usize = 9;
/// Packets that wait to be sent at once, or again. More come only if nobody asks for them.
const MOST_READY: usize = 512;
/// The datagrams whose fate is awaited, over all lanes, and the bytes of them that are kept to go again.
const MAX_FLIGHT: usize = 8192;
const MAX_KEPT: usize = 1 << 20;
/// Of these bytes, those that are for urgent packets only: bulk alone would take all.
const URGENT_KEPT: usize = 128 << 10;
const BESIDES: u64 = 64;
/// What is older than this does not go again when its lane falls silent.
const RESENT_AGE: Duration = Duration::from_millis(100);
/// Bytes of padding of questions on a lane that is not up: an end that does not know the address they come
/// from answers by three times as much at most, and has to ask, too.
const UNKNOWN_PADDING: usize = 64;

/// The most memory that a bond takes, in bytes, whatever is sent over it and whatever the other end says.
/// Of this, 2 MiB are for packets that wait for room, 1 MiB for those that are kept, 2 MiB for those that go
/// at once or again, 4 MiB for those that have come and wait for others before them, and the rest for records
/// of what is on its way and of flows.
pub const MAX_MEMORY: u64 = 12 << 20;

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
    /// What calls are protected by from all else on the same path.
    pub calls: CallRules,
}

/// What became of packets that were not sent over a lane, or came twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BondCounters {
    /// Dropped: no IP packets.
    pub no_packet: u64,
    /// Dropped: longer than any lane carries that could take them.
    pub too_long: u64,
    /// Dropped: there was no lane.
    pub no_lane: u64,
    /// Dropped: more were to go at once than may wait.
    pub overflowed: u64,
    /// Copies, and packets that went again, of which the other had come before.
    pub duplicates: u64,
    /// Datagrams dropped: no frames, frames that tell of what was never sent, or packets longer than any.
    pub malformed: u64,
    /// Urgent packets without a copy, as the budget was used up.
    pub uncopied: u64,
    /// Packets in an order that came after others behind them had been handed out.
    pub late: u64,
}

/// A datagram to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// The lane.
    pub lane: LaneId,
    /// The datagram's sequence number there, which is used once.
    pub sequence: u64,
    /// Whether datagrams as long are known to get through; the system may refuse another, such as a probe.
    pub is_carried: bool,
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
    order: Order,
    next_number: u64,
    ready: VecDeque<Ready>,
    /// A packet with its place, as it is queued.
    placed: Vec<u8>,
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
            order: Order::default(),
            next_number: 0,
            ready: VecDeque::new(),
            placed: Vec::new(),
            pongs: VecDeque::new(),
            turn: LaneId(0),
            counters: BondCounters::default(),
        }
    }

    /// Adds a lane, or gives the one there is another role; its carrier stays. Whether there was room for it. One
    /// that was there before goes on with its sequence numbers.
    pub fn add_lane(&mut self, id: LaneId, (role, carrier): (Role, Carrier), now: Instant) -> bool {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.role = role;
            return true;
        }
        let has_room = self.lanes.len() < MAX_LANES;
        if has_room {
            let next = self.former.remove(&id).unwrap_or(0);
            let congestion = (self.config.congestion)(self.config.mtu);
            let traits = ((role, carrier), self.config.is_initiator, self.config.mtu);
            let lane = Lane::new(id, traits, next, congestion, now);
            self.lanes.insert(id, lane);
        }
        has_room
    }

    /// Links have come, gone or changed: lanes that are silent are asked often again.
    pub fn note_links_changed(&mut self, now: Instant) {
        self.lanes.values_mut().for_each(|lane| lane.note_link_changed(now));
    }

    /// How long a lane has carried nothing, since it was new or fell silent, or its link has changed; `None` if
    /// it is up, or there is none.
    pub fn down_for(&self, id: LaneId, now: Instant) -> Option<Duration> {
        self.lanes.get(&id)?.down_for(now)
    }

    /// TCP that this end sends over the path of a lane goes through this limiter; without one calls
    /// are not protected from it there. A limiter is that of one lane: another that has it loses
    /// it. Nothing happens if there is no such lane.
    pub fn set_limiter(&mut self, id: LaneId, limiter: Option<PathLimiter>) {
        for (&other, lane) in &mut self.lanes {
            let has_it =
                |one: &Protection| limiter.as_ref().is_some_and(|limiter| one.has_limiter(limiter));
            if other == id {
                lane.set_limiter(limiter.as_ref(), self.config.calls);
            } else if lane.protection.as_deref().is_some_and(has_it) {
                // Two would lift each other's limit.
                lane.protection = None;
            }
        }
    }

    /// The next lane whose path has been held back for calls, or let go, since this was asked; how it is now.
    pub fn poll_held(&mut self) -> Option<(LaneId, LaneStatus)> {
        let mut lanes = self.lanes.values_mut();
        let has_changed = |lane: &mut Lane| lane.protection.as_mut()?.take_held();
        let lane = lanes.find_map(|lane| has_changed(lane).map(|_| lane))?;
        Some((lane.id, lane.status()))
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

    /// A sequence number for a datagram that is not made here, such as a question to a new address of the
    /// other end; `None` if there is no such lane.
    pub fn take_sequence(&mut self, id: LaneId) -> Option<u64> {
        self.lanes.get_mut(&id).map(Lane::take_sequence)
    }

    /// Takes a packet to be sent. One that no lane carries is cut, if it may be; if it may not, it is dropped,
    /// and this is the length that its sender is to be told (RFC 8899 §3, point 2), in bytes.
    pub fn handle_packet(&mut self, packet: &[u8], now: Instant) -> Option<usize> {
        let choice = Choice { lanes: &self.lanes, bytes: packet.len(), now };
        let best = choice.best(None);
        let most = best.map_or(self.config.mtu, |best| choice.limit(best));
        if packet.len() <= most {
            self.take_packet(packet, best, now);
            return None;
        }
        let Some(pieces) = packet::cut(packet, most) else {
            self.counters.too_long += 1;
            return Some(most);
        };
        for piece in &pieces {
            // Another lane may carry them than the one that is best where none carries the whole.
            let choice = Choice { lanes: &self.lanes, bytes: piece.len(), now };
            let best = choice.best(None);
            self.take_packet(piece, best, now);
        }
        None
    }

    fn take_packet(&mut self, packet: &[u8], best: Option<LaneId>, now: Instant) {
        let Some(look) = Look::at(packet) else {
            self.counters.no_packet += 1;
            return;
        };
        let bytes = packet.len();
        let (class, flow) = self.flows.count(look.flow, look.is_urgent, bytes, now);
        let talk = flow.talk(class);
        let choice = Choice { lanes: &self.lanes, bytes, now };
        let Some(best) = best else {
            self.counters.no_lane += 1;
            return;
        };
        match class {
            Class::Urgent => {}
            Class::Medium => {
                let lane = choice.keep(flow.lane, best);
                let is_only = choice.alike(best).nth(1).is_none();
                flow.lane = Some(lane);
                self.note_talk(talk, lane, now);
                let place = self.place(look.flow, lane, is_only, now);
                return self.queue(lane, place, (class, look.flow), packet, now);
            }
            Class::Bulk => {
                let spread = choice.spread(flow.lane, best);
                flow.lane = Some(spread.first);
                for &id in &spread.passed_over {
                    self.lanes.get_mut(&id).expect("it was chosen").note_passed_over(now);
                }
                let lane = self.lanes.get_mut(&spread.lane).expect("it was chosen");
                lane.protection.iter_mut().for_each(|one| one.note_bulk(now));
                let place = self.place(look.flow, spread.lane, spread.is_only, now);
                return self.queue(spread.lane, place, (class, look.flow), packet, now);
            }
        }
        flow.lane = Some(best);
        let second = choice.second(best);
        self.note_talk(talk, best, now);
        let number = self.take_number();
        let kept = || Kept { number, class, packet: packet.to_vec() };
        self.make_ready(best, kept(), (false, false));
        let Some(second) = second else { return };
        if self.budget.take(bytes as u64, now) {
            self.make_ready(second, kept(), (true, false));
        } else {
            self.counters.uncopied += 1;
        }
    }

    /// A packet is sent over a lane of what may be a call: it is one if it lasts, and is urgent or a small part of
    /// what the lane's path carries. What fills a link by itself is none.
    fn note_talk(&mut self, talk: Option<Talk>, lane: LaneId, now: Instant) {
        let Some(Talk { rate, lasts, is_urgent }) = talk else { return };
        let protection = self.lanes.get(&lane).and_then(|lane| lane.protection.as_ref());
        let is_small = is_urgent || protection.is_some_and(|one| one.is_small_part(rate));
        for protection in self.lanes.values_mut().filter_map(|lane| lane.protection.as_mut()) {
            protection.note_call(rate, lasts && is_small, now);
        }
    }

    /// A packet goes over a lane. Sends a copy over another one of which nobody knows how long packets wait there,
    /// and that a call may need next; or whose queue was seen too long ago. By its feedback it shows.
    fn measure_by(&mut self, kept: &Kept, is_medium: bool, id: LaneId, now: Instant) {
        let bytes = kept.bytes();
        let is_it = |lane: &&mut Lane| {
            let is_ready =
                lane.tier() == (Role::Active, Carrier::Udp) && lane.state == LaneState::Up;
            let is_wanted = lane.is_stale(now) || is_medium && lane.is_unmeasured(now);
            lane.id != id && is_ready && is_wanted
        };
        let Some(lane) = self.lanes.values_mut().find(is_it) else { return };
        if bytes <= lane.pings.longest_packet() && self.budget.take(bytes as u64, now) {
            lane.protection.iter_mut().for_each(|one| one.note_measured(now));
            lane.note_looked(now);
            let (id, packet) = (lane.id, kept.packet.clone());
            self.make_ready(id, Kept { packet, ..*kept }, (true, false));
        }
    }

    /// The next place of a flow that was counted just now, over a lane; none where there is no other lane, as
    /// all packets come in order by themselves then.
    fn place(&mut self, flow: u64, lane: LaneId, is_only: bool, now: Instant) -> Place {
        if self.lanes[&lane].carrier == Carrier::Tcp {
            // It delivers in no order, so that a number that the queue drops would be waited for.
            return self.flows.numbers(flow).map(|numbers| numbers.pending()).unwrap_or_default();
        }
        let numbers = match is_only {
            // What was numbered a moment ago may wait for the next number.
            true => self.flows.numbered(flow).filter(|numbers| numbers.is_in_use(now)),
            false => self.flows.numbers(flow),
        };
        numbers.map(|numbers| numbers.take(lane, now)).unwrap_or_default()
    }

    /// Has a packet wait for room on a lane, with its place in its flow, and its class.
    fn queue(
        &mut self,
        lane: LaneId,
        place: Place,
        (class, flow): (Class, u64),
        packet: &[u8],
        now: Instant,
    ) {
        let mut placed = std::mem::take(&mut self.placed);
        placed.clear();
        placed.extend_from_slice(packet);
        placed.extend_from_slice(&place.encode());
        placed.push(class as u8);
        let queue = &mut self.lanes.get_mut(&lane).expect("it was chosen").queue;
        queue.push(flow as u16, &placed, packet.len().try_into().unwrap_or(u32::MAX), now);
        self.placed = placed;
        self.bound_waiting();
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

    /// Whether a packet of such a length may be kept to go again, if all that are kept may have so much.
    fn may_keep(&self, length: usize, most: usize) -> bool {
        self.lanes.values().map(Lane::kept_bytes).sum::<usize>() + length <= most
    }

    fn take_number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number - 1
    }

    fn make_ready(&mut self, lane: LaneId, kept: Kept, (is_copy, is_again): (bool, bool)) {
        if self.ready.len() >= MOST_READY {
            self.counters.overflowed += 1;
            return;
        }
        self.ready.push_back(Ready { lane, kept, is_copy, is_again });
    }

    /// Takes a frame that came over a lane, in a datagram that is authentic and has not come before.
    /// Gives the packet in it, if it has not come yet, and does not have to wait for others; what
    /// [`Self::poll_packet`] gives comes after it.
    ///
    /// # Errors
    /// When it is no frame, tells of what was never sent, or has a packet that is longer than any; it is
    /// counted.
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

    /// A datagram of data has come over a lane whose packet must not be handed out. It is not lost, so the
    /// other end is told that it has come; a copy of it may still be taken.
    pub fn handle_dropped(&mut self, id: LaneId, sequence: u64, now: Instant) {
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.pings.note_came(now);
            lane.arrivals.note(sequence, true, now);
        }
    }

    fn take_frame<'a>(
        &mut self,
        id: LaneId,
        sequence: u64,
        frame: &'a [u8],
        now: Instant,
    ) -> Result<Option<&'a [u8]>, FrameError> {
        let lane = self.lanes.get_mut(&id).ok_or(FrameError)?;
        let (frame, carrier) = (Frame::decode(frame)?, lane.carrier);
        lane.pings.note_came(now);
        lane.arrivals.note(sequence, matches!(frame, Frame::Data { .. }), now);
        match frame {
            Frame::Data { number, class, packet } => {
                let (packet, place) = match class {
                    Class::Bulk => Place::split(packet).ok_or(FrameError)?,
                    Class::Urgent | Class::Medium => (packet, Place::default()),
                };
                if packet.len() > self.config.mtu {
                    return Err(FrameError);
                }
                lane.counters.received_packets += 1;
                lane.counters.received_bytes += packet.len() as u64;
                if !self.came.take(number) {
                    self.counters.duplicates += 1;
                    return Ok(None);
                }
                // Who protects no calls does not look for them.
                if self.lanes.values().any(|lane| lane.protection.is_some())
                    && let Some(flow) = Look::answered(packet)
                {
                    self.flows.note_answer(flow, now);
                }
                if place.flow == 0 || self.order.take(place, (id, carrier), packet, now) {
                    return Ok(Some(packet));
                }
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
                if let Some(rtt) = lane.pings.handle_answer(question, now) {
                    lane.measure(rtt, now);
                    lane.heard(now);
                }
            }
        }
        Ok(None)
    }

    /// The next packet that has waited for others before it, and waits no more. To be asked after each
    /// frame, and after [`Self::handle_timeout`].
    pub fn poll_packet(&mut self) -> Option<Vec<u8>> {
        self.order.poll()
    }

    /// The longest packet that is known to get through in one piece, in bytes.
    pub fn longest_packet(&self, now: Instant) -> usize {
        let choice = Choice { lanes: &self.lanes, bytes: self.config.mtu, now };
        let alike = choice.best(None).into_iter().flat_map(|best| choice.alike(best));
        let longest = alike.map(|lane| lane.pings.longest_packet()).max();
        longest.unwrap_or(SHORT_PACKET.min(self.config.mtu))
    }

    /// Sends an urgent packet that was lost once more, by the best way there is now.
    fn send_again(&mut self, kept: Kept, now: Instant) {
        for (lane, kept) in self.reroute(kept, None, now) {
            self.make_ready(lane, kept, (false, true));
        }
    }

    /// Where a packet goes now, other than over a lane that it leaves. One that is longer than all that are
    /// left carry is cut again, if it may be. Pieces are packets of their own, in no order; should the whole
    /// have come all the same, they come besides, as IP allows.
    fn reroute(&mut self, kept: Kept, left: Option<LaneId>, now: Instant) -> Vec<(LaneId, Kept)> {
        let find = |lanes: &BTreeMap<LaneId, Lane>, bytes| {
            let choice = Choice { lanes, bytes, now };
            let lane = left.map_or_else(|| choice.best(None), |id| choice.other_than(id))?;
            Some((lane, choice.limit(lane)))
        };
        let bytes = kept.bytes();
        let Some((lane, most)) = find(&self.lanes, bytes) else { return Vec::new() };
        if bytes <= most {
            return vec![(lane, kept)];
        }
        let Some(pieces) = packet::cut(&kept.packet[..bytes], most) else {
            self.counters.too_long += 1;
            return Vec::new();
        };
        let class = if kept.class == Class::Bulk { Class::Medium } else { kept.class };
        let mut all = Vec::with_capacity(pieces.len());
        for packet in pieces {
            let Some((lane, _)) = find(&self.lanes, packet.len()) else { continue };
            all.push((lane, Kept { number: self.take_number(), class, packet }));
        }
        all
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
                return Some(short(lane, now));
            }
        }
        for lane in self.lanes.values_mut() {
            if let Some(feedback) = lane.arrivals.tell(now) {
                Frame::Feedback(feedback).encode(out);
                return Some(short(lane, now));
            }
            if let Some(question) = lane.pings.ask(now) {
                let padding = match (question.size, lane.state) {
                    (Some(size), _) => size + DATA_OVERHEAD - 1 - varint::len(question.id),
                    (None, LaneState::Up) => 0,
                    (None, _) if self.config.is_initiator => UNKNOWN_PADDING,
                    (None, _) => 0,
                };
                Frame::Ping { id: question.id, padding }.encode(out);
                return Some(Transmit { is_carried: question.size.is_none(), ..short(lane, now) });
            }
        }
        None
    }

    fn send_ready(&mut self, ready: Ready, now: Instant, out: &mut Vec<u8>) -> Option<Transmit> {
        let (is_full, may_keep) =
            (self.is_full(), self.may_keep(ready.kept.packet.len(), MAX_KEPT));
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
        let may_keep = self.may_keep(self.config.mtu, MAX_KEPT - URGENT_KEPT);
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
            let Some((_, mut waiting)) = lane.queue.pop(now, &mut mark) else { continue };
            let is_medium = take_class(&mut waiting.packet) == Class::Medium;
            if lane.carrier == Carrier::Tcp {
                number_now(&mut self.flows, &mut waiting.packet, id, now);
            }
            let class = take_empty_place(&mut waiting.packet);
            let number = self.next_number;
            self.next_number += 1;
            self.budget.sent(waiting.bytes.into());
            self.turn = LaneId(id.0.wrapping_add(1));
            let kept = Kept { number, class, packet: waiting.packet };
            self.measure_by(&kept, is_medium, id, now);
            let lane = self.lanes.get_mut(&id).expect("it was listed");
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
            let own = [lane.arrivals.due(), lane.pings.due()];
            let let_go_at = lane.protection.as_ref().and_then(|one| one.poll_timeout());
            let times = [room, lane.silent_at(), lane.forget_at(), let_go_at];
            let times = own.into_iter().chain(times);
            times.flatten().min()
        };
        self.lanes.values().filter_map(of_lane).chain(self.order.poll_timeout()).min()
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
        for lane in self.lanes.values_mut() {
            lane.forget_old(now);
            lane.protection.iter_mut().for_each(|one| one.handle_timeout(now));
        }
        self.order.handle_timeout(now);
    }

    /// Sends what is young of what a lane has on its way, and all that waits for it, over others.
    fn fall_silent(&mut self, id: LaneId, now: Instant) {
        self.flows.leave(id);
        let lane = self.lanes.get_mut(&id).expect("it was found");
        let back = lane.fall_silent(RESENT_AGE, now);
        let back = back.into_iter();
        let back: Vec<_> = back.flat_map(|kept| self.reroute(kept, Some(id), now)).collect();
        for (other, kept) in back {
            if kept.class == Class::Urgent {
                self.make_ready(other, kept, (false, true));
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
        self.leave(id, now);
    }

    /// Has what waits for a lane wait for others, if there are any that are up: each packet goes where it is
    /// carried.
    fn leave(&mut self, id: LaneId, now: Instant) {
        if (Choice { lanes: &self.lanes, bytes: 0, now }).other_than(id).is_none() {
            return;
        }
        let is_by_tcp = self.lanes[&id].carrier == Carrier::Tcp;
        // What has not been sent yet has no number, and is not sent twice.
        for (flow, mut waiting) in self.lanes.get_mut(&id).expect("it was found").queue.drain() {
            let class = take_class(&mut waiting.packet);
            let kept = Kept { number: 0, class: Class::Bulk, packet: waiting.packet };
            for (other, mut kept) in self.reroute(kept, Some(id), now) {
                let bytes = kept.bytes().try_into().unwrap_or(u32::MAX);
                if kept.class != Class::Bulk {
                    kept.packet.extend_from_slice(&Place::default().encode());
                } else if is_by_tcp {
                    number_now(&mut self.flows, &mut kept.packet, other, now);
                }
                kept.packet.push(class as u8);
                let queue = &mut self.lanes.get_mut(&other).expect("it was chosen").queue;
                queue.push(flow, &kept.packet, bytes, now);
            }
        }
        self.bound_waiting();
        for ready in std::mem::take(&mut self.ready) {
            if ready.lane != id || ready.is_copy {
                self.ready.push_back(ready);
                continue;
            }
            for (other, kept) in self.reroute(ready.kept, Some(id), now) {
                self.make_ready(other, kept, (false, ready.is_again));
            }
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
        BondCounters { late: self.order.late, ..self.counters }
    }
}

fn encode(lane: &mut Lane, kept: Kept, is_kept: bool, now: Instant, out: &mut Vec<u8>) -> Transmit {
    let is_carried = kept.bytes() <= lane.pings.longest_packet();
    let Kept { number, class, packet } = &kept;
    Frame::Data { number: *number, class: *class, packet }.encode(out);
    let (sequence, bytes) = (lane.take_sequence(), packet.len() as u64);
    lane.note_sent(sequence, (bytes, *class), is_kept.then_some(kept), now);
    Transmit { lane: lane.id, sequence, is_carried }
}

/// A datagram that is no longer than each lane carries.
fn short(lane: &mut Lane, now: Instant) -> Transmit {
    Transmit { lane: lane.id, sequence: lane.take_control(now), is_carried: true }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limiter_is_that_of_one_lane() {
        let congestion = |_| -> Box<dyn LaneCongestion> { Box::new(Plain) };
        let (calls, mark) = (CallRules::default(), |_: &mut [u8]| false);
        let config = BondConfig { is_initiator: true, mtu: 1400, mark, congestion, calls };
        let mut bond = Bond::new(config, Instant::ZERO);
        let [first, second] = [LaneId(0), LaneId(1)];
        assert!(
            [first, second].map(|id| bond.add_lane(
                id,
                (Role::Active, Carrier::Udp),
                Instant::ZERO
            ))[1]
        );
        let limiter = PathLimiter::default();
        let has = |bond: &Bond| {
            let protections = [first, second].map(|id| bond.lanes[&id].protection.as_ref());
            protections.map(|one| one.is_some_and(|one| one.has_limiter(&limiter)))
        };
        bond.set_limiter(first, Some(limiter.clone()));
        assert_eq!(has(&bond), [true, false]);
        bond.set_limiter(second, Some(limiter.clone()));
        assert_eq!(has(&bond), [false, true]);
        bond.set_limiter(second, None);
        assert_eq!(has(&bond), [false, false]);
    }

    #[derive(Debug)]
    struct Plain;

    impl LaneCongestion for Plain {
        fn on_established(&mut self, _: Duration) {}
        fn on_ack(&mut self, _: &super::super::LaneAck) {}
        fn on_restart(&mut self, _: Instant) {}
        fn on_silence(&mut self, _: Instant) {}
        fn window(&self) -> u64 {
            0
        }
        fn pacing_rate(&self) -> crate::Bitrate {
            crate::Bitrate::mbps(1)
        }
    }
}
