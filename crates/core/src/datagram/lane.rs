//! One lane, as its sender sees it: what is on its way, how long that takes, and whether it still
//! arrives.

use std::collections::VecDeque;
use std::time::Duration;

use super::arrivals::Arrivals;
use super::calls::{CallRules, Carried, HoldStatus, Sample};
use super::congestion::{LaneAck, LaneCongestion};
use super::delivery::{Delivery, Stamp};
use super::frame::{Class, Feedback};
use super::least::LeastRtt;
use super::pings::Pings;
use super::place::PLACE;
use super::protection::Protection;
use super::rate::DeliveryRate;
use super::{Carrier, LaneId};
use crate::fq_codel::{FqCodel, QueueConfig};
use crate::limiter::PathLimiter;
use crate::policy::Role;
use crate::{Bitrate, ByteCount, Instant};

/// Packets whose memory a lane keeps for those to come.
const SPARE: usize = 64;
/// What a lane that is idle keeps of the memory for what is on its way, in packets.
const LITTLE_FLIGHT: usize = 256;
/// How far ahead of its rate a lane may send: a burst must not fill a link's queue, which urgent packets
/// share, and no system wakes on the microsecond.
const BURST: Duration = Duration::from_millis(2);
/// What may go within this time has room: packets come some at once.
const SOON: Duration = Duration::from_millis(5);
/// What urgent packets have been sent beyond its rate is owed for so long at most.
const MOST_DEBT: Duration = Duration::from_millis(100);
/// A lane is silent after this at least, and at most.
const LEAST_SILENCE: Duration = Duration::from_millis(60);
const MOST_SILENCE: Duration = Duration::from_secs(1);
/// The same of a lane over TCP, which may have to send what is lost again, more than once, before anything comes.
const LEAST_SILENCE_TCP: Duration = Duration::from_secs(1);
const MOST_SILENCE_TCP: Duration = Duration::from_secs(3);
/// What has not left over TCP after so long is dropped (docs/protocol.md, "Over TCP").
const LATE: Duration = Duration::from_secs(1);
/// What the other end may take to tell what has come, and the system to wake both.
const TELLING: Duration = Duration::from_millis(20);
/// What is so many datagrams below the newest that has come is lost.
const OVERTAKEN: u64 = 128;
/// The part of the loss of the past that a new measurement takes away.
const LOSS_WEIGHT: f64 = 0.1;
/// A lane with more loss than that, or with so much more delay than its least, is a poor one.
const POOR_LOSS: f64 = 0.02;
const POOR_DELAY: Duration = Duration::from_millis(150);
/// A round trip so much longer than the least is one with a queue, at least.
const LEAST_QUEUED: Duration = Duration::from_millis(10);

/// Whether a lane carries something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneState {
    /// Nobody knows yet.
    New,
    /// The other end has told so lately.
    Up,
    /// What was sent is not told to have come.
    Silent,
}

impl LaneState {
    /// Its name where it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Up => "up",
            Self::Silent => "silent",
        }
    }
}

/// A packet that is kept until it is known to have come.
#[derive(Debug)]
pub(super) struct Kept {
    pub(super) number: u64,
    pub(super) class: Class,
    pub(super) packet: Vec<u8>,
}

impl Kept {
    /// The length of the packet itself, in bytes: a bulk one has its place with it.
    pub(super) fn bytes(&self) -> usize {
        let besides = if self.class == Class::Bulk { PLACE } else { 0 };
        self.packet.len().saturating_sub(besides)
    }
}

/// A datagram of data that is on its way.
#[derive(Debug)]
struct Sent {
    sequence: u64,
    at: Instant,
    bytes: u64,
    is_done: bool,
    is_urgent: bool,
    stamp: Stamp,
    carried: Carried,
    kept: Option<Kept>,
}

/// What a feedback tells to have come that was not known to.
#[derive(Default)]
struct Come {
    bytes: u64,
    packets: u64,
    newest: Option<Newest>,
}

/// The newest of it.
struct Newest {
    sequence: u64,
    at: Instant,
    stamp: Stamp,
    carried: Carried,
}

/// What a lane has carried, each since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounters {
    /// Datagrams of data, and the bytes of their packets.
    pub sent_packets: u64,
    /// See `sent_packets`.
    pub sent_bytes: u64,
    /// Of these bytes, those of urgent packets.
    pub urgent_bytes: u64,
    /// Of these, copies of what another lane carries, and those that went again as another lane had
    /// fallen silent, or as they were urgent and lost.
    pub copies: u64,
    /// See `copies`.
    pub resent: u64,
    /// Packets that the other end tells to have come, and that are taken to be lost.
    pub delivered_packets: u64,
    /// See `delivered_packets`.
    pub lost_packets: u64,
    /// Packets that came over it, and their bytes.
    pub received_packets: u64,
    /// See `received_packets`.
    pub received_bytes: u64,
    /// How often it has fallen silent.
    pub silences: u64,
}

/// The bytes that wait for room over all lanes of a bond at most, each packet with what it takes besides.
pub const MAX_WAITING: u64 = 2 << 20;
/// A flow moves to another lane for more than this, and for more than a quarter.
pub(super) const MOVES_FOR: Duration = Duration::from_millis(5);
/// CoDel's target as RFC 8289 has it, and what packets may wait besides. What waits here is paced and has a queue of
/// its own, so that a flow's packets delay no other's: they may wait for as long as lanes of one flow may differ, and
/// while a flow's own control looks for the rate as ours does. With its 5 and
/// 100 ms a flow with NewReno had 0.85 of a link with a round trip of 20 ms, and 0.2 of one with 100 ms.
const TARGET: Duration = Duration::from_millis(5);
const LONGER: Duration = Duration::from_millis(95);
/// CoDel's interval: about the longest round trip of flows.
const INTERVAL: Duration = Duration::from_millis(300);
/// What has waited for longer is dropped: of a flow that takes no notice of losses 2 MiB would wait, which are three
/// seconds at 5 Mb/s.
const LONGEST_WAIT: Duration = Duration::from_secs(1);
/// A queue of the link that was seen so long ago may be gone: it is looked again.
const STALE: Duration = Duration::from_millis(500);

/// A lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: LaneId,
    pub(super) role: Role,
    pub(super) carrier: Carrier,
    pub(super) state: LaneState,
    pub(super) arrivals: Arrivals,
    pub(super) pings: Pings,
    /// What waits for room: what goes again, as another lane has fallen silent, and after it all else.
    pub(super) again: VecDeque<Kept>,
    pub(super) queue: FqCodel,
    /// Urgent packets that are taken to be lost, to go again once.
    pub(super) missed: Vec<Kept>,
    pub(super) counters: LaneCounters,
    next: u64,
    flight: VecDeque<Sent>,
    /// Bytes on their way, and those of them that are urgent.
    in_flight: u64,
    urgent: u64,
    kept: usize,
    /// When the link will have sent what it was given.
    paced_to: Instant,
    /// Until when it counts as having more to send than it takes: packets went over another lane instead.
    asked_to: Instant,
    /// One more than the newest sequence number that was told.
    told: u64,
    srtt: Option<Duration>,
    measured_at: Instant,
    looked_at: Instant,
    deviation: Duration,
    least_rtt: LeastRtt,
    rate: DeliveryRate,
    delivery: Delivery,
    congestion: Box<dyn LaneCongestion>,
    loss: f64,
    /// How its path makes way for calls, if it does.
    pub(super) protection: Option<Box<Protection>>,
}

impl Lane {
    /// One for packets of `mtu` bytes at most, whose datagrams have sequence numbers from `next` on.
    pub(super) fn new(
        id: LaneId,
        ((role, carrier), is_initiator, mtu): ((Role, Carrier), bool, usize),
        next: u64,
        congestion: Box<dyn LaneCongestion>,
        now: Instant,
    ) -> Self {
        let config = QueueConfig {
            target: TARGET,
            interval: INTERVAL,
            limit_bytes: QueueConfig::full_packets(2048),
        };
        let mut queue = FqCodel::with_spare(config, SPARE);
        queue.drop_older(LONGEST_WAIT);
        Self {
            id,
            role,
            carrier,
            state: LaneState::New,
            arrivals: Arrivals::default(),
            pings: Pings::new(carrier, is_initiator, mtu, now),
            again: VecDeque::new(),
            queue,
            missed: Vec::new(),
            counters: LaneCounters::default(),
            next,
            flight: VecDeque::new(),
            in_flight: 0,
            urgent: 0,
            kept: 0,
            paced_to: now,
            asked_to: now,
            told: next,
            srtt: None,
            measured_at: now,
            looked_at: now,
            deviation: Duration::ZERO,
            least_rtt: LeastRtt::default(),
            rate: DeliveryRate::default(),
            delivery: Delivery::default(),
            congestion,
            loss: 0.0,
            protection: None,
        }
    }

    /// TCP over the path goes through this limiter from now on, if it is not that one, and makes
    /// way for calls by these rules; without a limiter it does not.
    pub(super) fn set_limiter(&mut self, limiter: Option<&PathLimiter>, rules: CallRules) {
        let is_same = |protection: &Protection| {
            limiter.is_some_and(|limiter| protection.has_limiter(limiter))
        };
        if !self.protection.as_deref().is_some_and(is_same) {
            let new = limiter.map(|limiter| Protection::new(limiter.clone(), rules));
            self.protection = new.map(Box::new);
        }
    }

    fn has_bulk(&self, now: Instant) -> bool {
        self.protection.as_ref().is_some_and(|protection| protection.has_bulk(now))
    }

    /// Whether a call may need the lane next, and nobody knows how long packets wait there.
    pub(super) fn is_unmeasured(&self, now: Instant) -> bool {
        let sent = self.flight.back().map(|sent| sent.at);
        self.protection.as_ref().is_some_and(|one| one.is_unmeasured(sent, now))
    }

    /// How fast packets go that are not urgent: bulk no faster than calls allow, and calls no slower than the
    /// path is known to carry, though their lane may have had no occasion to find that out.
    fn pacing(&self, is_bulk: bool) -> Bitrate {
        let own = self.congestion.pacing_rate();
        self.protection.as_ref().map_or(own, |protection| protection.pacing(own, is_bulk))
    }

    /// The sequence number of the next datagram.
    pub(super) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// The sequence number of the next datagram, which is sent with it.
    pub(super) fn take_sequence(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    /// As [`Self::take_sequence`], of a datagram without data that is sent over the lane now.
    pub(super) fn take_control(&mut self, now: Instant) -> u64 {
        let sequence = self.take_sequence();
        self.protection.iter_mut().for_each(|one| one.note_control(sequence, now));
        sequence
    }

    /// Notes a datagram of data that is sent now. `kept` is what may have to go again.
    pub(super) fn note_sent(
        &mut self,
        sequence: u64,
        (bytes, class): (u64, Class),
        kept: Option<Kept>,
        now: Instant,
    ) {
        self.kept += kept.as_ref().map_or(0, |kept| kept.packet.len());
        if self.in_flight == 0 {
            self.congestion.on_restart(now);
        }
        let stamp = self.delivery.stamp(self.in_flight, now);
        let is_urgent = class == Class::Urgent;
        let at = now;
        let carried = self.protection.as_ref().map_or_else(Carried::default, |one| one.carried());
        let is_done = false;
        self.flight.push_back(Sent {
            sequence,
            at,
            bytes,
            is_done,
            is_urgent,
            stamp,
            carried,
            kept,
        });
        self.in_flight += bytes;
        self.urgent += if is_urgent { bytes } else { 0 };
        let is_bulk = !is_urgent && self.has_bulk(now);
        let pacing = self.pacing(is_bulk);
        // What is held back for calls says nothing of what the link carries.
        let is_free = pacing == self.congestion.pacing_rate();
        let is_asked = is_free && (self.has_waiting() || now <= self.asked_to);
        if !is_asked && self.in_flight < self.window() && !self.is_overloaded() {
            self.delivery.note_limited(self.in_flight);
        }
        let time = pacing.time_for(ByteCount::new(bytes));
        let time = time.map_or(MOST_SILENCE, |time| time.min(MOST_SILENCE));
        // Urgent packets do not ask for room: what they owe by a low rate must not outlive it.
        self.paced_to = (self.paced_to.max(now) + time).min(now + time.max(MOST_DEBT));
        self.counters.sent_packets += 1;
        self.counters.sent_bytes += bytes;
        self.counters.urgent_bytes += if is_urgent { bytes } else { 0 };
        self.protection.iter_mut().for_each(|one| one.note_sent(bytes, is_bulk));
        self.pings.note_sent(now);
    }

    /// Whether the link loses what it is given because that is too much: then it could not take more,
    /// though nothing waits here. Such a link has a queue; or it drops what is beyond a rate, and is given
    /// much of what it is thought to carry. What a call alone loses by chance says nothing of the rate.
    fn is_overloaded(&self) -> bool {
        let Some(srtt) = self.srtt.filter(|_| self.loss > POOR_LOSS) else { return false };
        let least = self.least();
        let queued = srtt.saturating_sub(least) > (least / 4).max(LEAST_QUEUED);
        let full = self.congestion.pacing_rate().bytes_in(srtt + TELLING).as_u64();
        queued || 2 * self.in_flight >= full
    }

    /// Datagrams that are remembered, until they are known to have come or be lost.
    pub(super) fn flight_len(&self) -> usize {
        self.flight.len()
    }

    /// The bytes of them that are kept.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept
    }

    /// Makes room for one more.
    pub(super) fn forget_first(&mut self) {
        self.lose_front();
    }

    /// When what was sent first is forgotten, on a lane of which nothing is heard.
    pub(super) fn forget_at(&self) -> Option<Instant> {
        let first = self.flight.front()?;
        (self.state != LaneState::Up).then(|| first.at + MOST_SILENCE)
    }

    /// Forgets what was sent into the silence: all lanes share the room for what is on its way.
    pub(super) fn forget_old(&mut self, now: Instant) {
        while self.forget_at().is_some_and(|at| at <= now) {
            self.lose_front();
        }
    }

    /// Takes what was sent first to be lost, if it is not known to have come; the packet, if it was kept.
    fn lose_front(&mut self) -> Option<Kept> {
        let sent = self.flight.pop_front().filter(|sent| !sent.is_done)?;
        self.in_flight -= sent.bytes;
        self.urgent -= if sent.is_urgent { sent.bytes } else { 0 };
        self.kept -= sent.kept.as_ref().map_or(0, |kept| kept.packet.len());
        self.delivery.lost += sent.bytes;
        self.counters.lost_packets += 1;
        sent.kept
    }

    /// Takes in what the other end tells; false if it tells of what was never sent.
    pub(super) fn handle_feedback(&mut self, feedback: &Feedback, now: Instant) -> bool {
        let end = feedback.ranges.first().map_or(0, |newest| newest.end);
        if end > self.next {
            return false;
        }
        let is_news = end > self.told;
        self.told = self.told.max(end);
        let before = self.in_flight - self.urgent;
        let come = self.take_come(feedback);
        let mut rtt = None;
        let mut rate = None;
        if is_news {
            self.take_sample(&come, feedback, now);
        }
        if let Some(Newest { sequence, at, stamp, .. }) = come.newest {
            if sequence + 1 == end {
                let measured = now.since(at).saturating_sub(feedback.delay);
                self.measure(measured, now);
                rtt = Some(measured);
            }
            let arrived = Instant::from_nanos(
                now.as_nanos().saturating_sub(crate::time::nanos(feedback.delay)),
            );
            let least = self.least_rtt.get();
            rate = self.delivery.note_delivered(come.bytes, (stamp, at), arrived, least);
            self.rate.note(come.bytes, feedback.arrived_us, now);
        }
        let (lost_before, lost) = (self.delivery.lost, self.give_up(end, now));
        if come.packets + lost > 0 {
            let part = lost as f64 / (come.packets + lost) as f64;
            self.loss += LOSS_WEIGHT * (part - self.loss);
            // At high rates the bond has room for less: what is dropped for want of it is no single packet.
            let room = self.rate.time_for(MAX_WAITING / 3);
            self.queue.allow_longer(if room.is_zero() { LONGER } else { LONGER.min(room) });
            self.congestion.on_ack(&LaneAck {
                now,
                delivered: come.bytes,
                lost: self.delivery.lost - lost_before,
                total_delivered: self.delivery.delivered,
                total_lost: self.delivery.lost,
                in_flight_before: before,
                in_flight: self.in_flight - self.urgent,
                rtt,
                srtt: self.srtt.unwrap_or_default(),
                least_rtt: self.least(),
                rate,
                greatest_rate: self.rate.bytes_in(Duration::from_secs(1)).unwrap_or(0),
            });
        }
        if is_news {
            self.heard(now);
        }
        true
    }

    /// Takes in how long the newest datagram of all that came was on its way.
    fn take_sample(&mut self, come: &Come, feedback: &Feedback, now: Instant) {
        let is_newest = |sequence: u64| sequence + 1 == self.told;
        let data = come.newest.as_ref().filter(|newest| is_newest(newest.sequence));
        let newest = data.map(|newest| (newest.at, newest.carried));
        let Some(protection) = &mut self.protection else { return };
        let newest = newest.or_else(|| protection.control(self.told.checked_sub(1)?));
        let Some((sent, carried)) = newest else { return };
        let rtt = now.since(sent).saturating_sub(feedback.delay);
        let sample = Sample { sent, carried, arrived_us: feedback.arrived_us, rtt };
        protection.handle_sample(&sample, now);
    }

    /// Notes which packets have come.
    fn take_come(&mut self, feedback: &Feedback) -> Come {
        let mut come = Come::default();
        for sent in self.flight.iter_mut().filter(|sent| !sent.is_done) {
            // Of ranges the newest comes first.
            let at = feedback.ranges.partition_point(|range| range.start > sent.sequence);
            if feedback.ranges.get(at).is_some_and(|range| range.contains(&sent.sequence)) {
                sent.is_done = true;
                come.bytes += sent.bytes;
                self.urgent -= if sent.is_urgent { sent.bytes } else { 0 };
                come.packets += 1;
                self.pings.note_delivered(sent.sequence, sent.bytes);
                self.kept -= sent.kept.take().map_or(0, |kept| kept.packet.len());
                let Sent { sequence, at, stamp, carried, .. } = *sent;
                come.newest = Some(Newest { sequence, at, stamp, carried });
            }
        }
        self.in_flight -= come.bytes;
        self.counters.delivered_packets += come.packets;
        come
    }

    /// Counts as lost what was overtaken by far, or for long; how many those are.
    fn give_up(&mut self, end: u64, now: Instant) -> u64 {
        let (most_behind, patience) = match self.carrier {
            Carrier::Udp => (OVERTAKEN, self.srtt.unwrap_or(MOST_SILENCE) * 5 / 4 + TELLING),
            // It comes, but for what has not left for a second, which is dropped.
            Carrier::Tcp => {
                let way = self.srtt.map_or(MOST_SILENCE_TCP, |srtt| srtt * 5 / 4 + TELLING);
                (u64::MAX, (LATE + way).min(MOST_SILENCE_TCP))
            }
        };
        let before = self.counters.lost_packets;
        while let Some(first) = self.flight.front() {
            let is_old = first.sequence < end
                && (end - first.sequence > most_behind || now.since(first.at) > patience);
            if !first.is_done && !is_old {
                break;
            }
            let is_young = now.since(first.at) <= MOST_SILENCE;
            if !first.is_done {
                self.pings.note_lost(first.sequence, first.bytes, now);
            }
            let lost = self.lose_front();
            self.missed.extend(lost.filter(|kept| is_young && kept.class == Class::Urgent));
        }
        if self.flight.is_empty() {
            self.flight.shrink_to(LITTLE_FLIGHT);
        }
        self.counters.lost_packets - before
    }

    /// Takes in a round trip (RFC 6298 §2).
    pub(super) fn measure(&mut self, rtt: Duration, now: Instant) {
        let is_old = now.since(std::mem::replace(&mut self.measured_at, now)) > STALE;
        self.least_rtt.note(rtt, now);
        match self.srtt {
            None => {
                (self.srtt, self.deviation) = (Some(rtt), rtt / 2);
                self.congestion.on_established(rtt);
            }
            Some(srtt) => {
                self.deviation = (3 * self.deviation + srtt.abs_diff(rtt)) / 4;
                // What was long ago says nothing of the queue that there is now.
                self.srtt = Some(if is_old { rtt } else { (7 * srtt + rtt) / 8 });
            }
        }
    }

    /// What it goes over has changed.
    pub(super) fn note_link_changed(&mut self, now: Instant) {
        self.pings.note_change(now);
    }

    /// How long nothing has come by it; `None` if it is up.
    pub(super) fn down_for(&self, now: Instant) -> Option<Duration> {
        self.pings.down_for(now)
    }

    /// The other end has told that something came: it is up.
    pub(super) fn heard(&mut self, now: Instant) {
        if self.state == LaneState::Silent {
            // What was sent into the silence is not waited for any more.
            let patience = self.patience();
            while self.flight.front().is_some_and(|sent| sent.is_done || sent.at + patience <= now)
            {
                self.lose_front();
            }
        }
        self.state = LaneState::Up;
        self.pings.answered(now);
    }

    /// How long the other end may take to tell that something has come.
    fn patience(&self) -> Duration {
        let (least, most) = match self.carrier {
            Carrier::Udp => (LEAST_SILENCE, MOST_SILENCE),
            Carrier::Tcp => (LEAST_SILENCE_TCP, MOST_SILENCE_TCP),
        };
        let Some(srtt) = self.srtt else { return most };
        (srtt * 3 / 2 + 4 * self.deviation + TELLING).clamp(least, most)
    }

    /// Lanes of a lower tier are used before it.
    pub(super) const fn tier(&self) -> (Role, Carrier) {
        (self.role, self.carrier)
    }

    /// When it will be taken to be silent, if nothing is heard.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        // What was overtaken is lost: the lane has carried something since.
        let is_awaited = |sent: &&Sent| !sent.is_done && sent.sequence >= self.told;
        let oldest = self.flight.iter().find(is_awaited)?;
        (self.state == LaneState::Up).then(|| oldest.at + self.patience())
    }

    /// Takes it to be silent. What was on its way is given back, unless it is older than `age`; of what
    /// is urgent that is at least as old as this took to be found out.
    pub(super) fn fall_silent(&mut self, age: Duration, now: Instant) -> Vec<Kept> {
        if self.state == LaneState::Up {
            self.counters.silences += 1;
            self.state = LaneState::Silent;
            self.congestion.on_silence(now);
            self.pings.fell_silent(now);
            self.protection.iter_mut().for_each(|one| one.handle_silence());
        }
        let urgent = age.max(self.patience() + TELLING);
        let mut back = Vec::new();
        for sent in self.flight.drain(..).filter(|sent| !sent.is_done) {
            self.counters.lost_packets += 1;
            self.delivery.lost += sent.bytes;
            let most = if sent.is_urgent { urgent } else { age };
            back.extend(sent.kept.filter(|_| now.since(sent.at) <= most));
        }
        back.extend(self.again.drain(..));
        (self.in_flight, self.urgent, self.kept) = (0, 0, 0);
        self.paced_to = now;
        back
    }

    /// Whether something waits for room.
    pub(super) fn has_waiting(&self) -> bool {
        !self.again.is_empty() || !self.queue.is_empty()
    }

    /// From when on another packet that is not urgent may go; `None` until more is told to have come.
    pub(super) fn room_at(&self) -> Option<Instant> {
        let has_room = self.in_flight < self.window();
        has_room.then(|| self.paced_to - BURST)
    }

    /// It was not given a packet that another one, which is farther, delivers sooner.
    pub(super) fn note_passed_over(&mut self, now: Instant) {
        self.asked_to = now + SOON;
    }

    /// How long an empty packet would be on its way with nothing before it.
    pub(super) fn way(&self) -> Duration {
        self.srtt.map_or(MOST_SILENCE, |_| self.least_rtt.get()) / 2
    }

    /// What may be on its way.
    fn window(&self) -> u64 {
        let call = self.protection.as_ref().and_then(|one| one.call_rate()).zip(self.srtt);
        let call = call.map_or(0, |(rate, srtt)| rate.bytes_in(srtt + TELLING).as_u64());
        self.congestion.window().max(call)
    }

    /// The least round trip of late, if one was measured.
    fn least(&self) -> Duration {
        self.least_rtt.get().min(MOST_SILENCE)
    }

    /// How long a packet of `bytes` would take to arrive, by all that is known.
    pub(super) fn arrival(&self, bytes: u64, now: Instant) -> Duration {
        let least = self.least_rtt.get();
        let way = self.srtt.map_or(MOST_SILENCE, |_| least) / 2;
        let on_its_way = self.rate.bytes_in(self.least()).unwrap_or(u64::MAX);
        let again: usize = self.again.iter().map(|kept| kept.packet.len()).sum();
        let waiting = self.queue.bytes() + again as u64;
        // Only where something waits for room the rate is the link's, and not that of what was to go. While none is
        // known, and where the path is held back, it is what goes.
        let before = if waiting == 0 {
            Duration::ZERO
        } else {
            let backlog = self.in_flight.saturating_sub(on_its_way) + waiting + bytes;
            let paced = self.pacing(true).time_for(ByteCount::new(waiting + bytes));
            self.rate.time_for(backlog).max(paced.unwrap_or(MOST_SILENCE))
        };
        way + self.queued().max(before).max(self.paced_to.since(now))
    }

    /// How long packets waited on the link itself when that was seen last.
    fn queued(&self) -> Duration {
        self.srtt.map_or(Duration::ZERO, |srtt| srtt.saturating_sub(self.least_rtt.get()))
    }

    /// Whether its link is known to have a queue, and has not been looked at of late: nothing goes there that would
    /// show that it is gone.
    pub(super) fn is_stale(&self, now: Instant) -> bool {
        self.queued() > MOVES_FOR && now.since(self.measured_at.max(self.looked_at)) > STALE
    }

    /// A copy goes there, to see.
    pub(super) fn note_looked(&mut self, now: Instant) {
        self.looked_at = now;
    }

    /// Whether it has no room for more.
    pub(super) fn is_busy(&self) -> bool {
        self.has_waiting() || self.in_flight >= self.window()
    }

    /// Whether urgent packets should have another lane besides, though that costs something.
    pub(super) fn is_poor(&self) -> bool {
        let queued =
            self.srtt.is_some_and(|srtt| srtt.saturating_sub(self.least_rtt.get()) > POOR_DELAY);
        self.state != LaneState::Up || self.loss > POOR_LOSS || queued
    }

    /// What is shown of it.
    pub(super) fn status(&self) -> LaneStatus {
        LaneStatus {
            lane: self.id,
            role: self.role,
            carrier: self.carrier,
            state: self.state,
            srtt: self.srtt,
            least_rtt: self.srtt.map(|_| self.least_rtt.get()),
            window: self.window(),
            pacing: self.congestion.pacing_rate(),
            loss: self.loss,
            rate: self.rate.bytes_in(Duration::from_secs(1)),
            longest_packet: self.pings.longest_packet(),
            in_flight: self.in_flight,
            waiting: self.queue.len() as u64,
            dropped: self.queue.dropped,
            overflowed: self.queue.full,
            hold: self.protection.as_ref().map(|one| one.status()).unwrap_or_default(),
            counters: self.counters,
        }
    }
}

/// What is known of a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaneStatus {
    /// Which one.
    pub lane: LaneId,
    /// When it carries something.
    pub role: Role,
    /// What its datagrams go over.
    pub carrier: Carrier,
    /// Whether it carries something.
    pub state: LaneState,
    /// The round trip, smoothed, and the least of the last ten to fifteen seconds.
    pub srtt: Option<Duration>,
    /// See `srtt`.
    pub least_rtt: Option<Duration>,
    /// The part of what is sent of late that is lost.
    pub loss: f64,
    /// Bytes a second, as far as it has been asked for them.
    pub rate: Option<u64>,
    /// The longest packet that it is known to carry, in bytes.
    pub longest_packet: usize,
    /// Bytes on their way.
    pub in_flight: u64,
    /// Bytes that may be, by its congestion control, and how fast they go.
    pub window: u64,
    /// See `window`.
    pub pacing: Bitrate,
    /// Packets that wait for room.
    pub waiting: u64,
    /// Packets that CoDel dropped, and those for which the queue had no room.
    pub dropped: u64,
    /// See `dropped`.
    pub overflowed: u64,
    /// Whether its path is held back for calls.
    pub hold: HoldStatus,
    /// What it has carried.
    pub counters: LaneCounters,
}

#[cfg(test)]
mod tests;
