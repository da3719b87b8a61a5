//! One lane, as its sender sees it: what is on its way, how long that takes, and whether it still
//! arrives.

use std::collections::VecDeque;
use std::time::Duration;

use super::LaneId;
use super::arrivals::Arrivals;
use super::frame::{Class, Feedback};
use super::pings::Pings;
use super::rate::DeliveryRate;
use crate::Instant;
use crate::fq_codel::{FqCodel, QueueConfig};
use crate::policy::Role;

/// The packets that may be on their way over a lane, and the bytes of them that are kept to go again.
pub(super) const MAX_FLIGHT: usize = 8192;
const MAX_KEPT: usize = 1 << 20;
/// What may be on its way before anything is measured, and always: 64 KiB.
const LEAST_WINDOW: u64 = 64 << 10;
/// How far ahead of its rate a lane may send: a burst must not fill a link's queue, which urgent packets
/// share, and no system wakes on the microsecond.
const BURST: Duration = Duration::from_millis(2);
/// A lane is silent after this at least, and at most.
const LEAST_SILENCE: Duration = Duration::from_millis(60);
const MOST_SILENCE: Duration = Duration::from_secs(1);
/// What the other end may take to tell what has come, and the system to wake both.
const TELLING: Duration = Duration::from_millis(20);
/// What is so many datagrams below the newest that has come is lost.
const OVERTAKEN: u64 = 128;
/// The part of the loss of the past that a new measurement takes away.
const LOSS_WEIGHT: f64 = 0.1;
/// A lane with more loss than that, or with so much more delay than its least, is a poor one.
const POOR_LOSS: f64 = 0.02;
const POOR_DELAY: Duration = Duration::from_millis(150);

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

/// A datagram of data that is on its way.
#[derive(Debug)]
struct Sent {
    sequence: u64,
    at: Instant,
    bytes: u64,
    is_done: bool,
    kept: Option<Kept>,
}

/// What a lane has carried, each since its beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounters {
    /// Datagrams of data, and the bytes of their packets.
    pub sent_packets: u64,
    /// See `sent_packets`.
    pub sent_bytes: u64,
    /// Of these, copies of what another lane carries, and those that went again as another lane had
    /// fallen silent.
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

/// A lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) id: LaneId,
    pub(super) role: Role,
    pub(super) state: LaneState,
    pub(super) arrivals: Arrivals,
    pub(super) pings: Pings,
    /// What waits for room: what goes again, as another lane has fallen silent, and after it all else.
    pub(super) again: VecDeque<Kept>,
    pub(super) queue: FqCodel,
    pub(super) counters: LaneCounters,
    next: u64,
    flight: VecDeque<Sent>,
    in_flight: u64,
    kept: usize,
    /// When the link will have sent what it was given.
    paced_to: Instant,
    /// One more than the newest sequence number that was told.
    told: u64,
    srtt: Option<Duration>,
    deviation: Duration,
    least_rtt: Duration,
    rate: DeliveryRate,
    loss: f64,
}

impl Lane {
    /// One whose datagrams have sequence numbers from `next` on.
    pub(super) fn new(id: LaneId, role: Role, next: u64, is_initiator: bool, now: Instant) -> Self {
        // CoDel as RFC 8289 has it: 5 ms, 100 ms.
        let config = QueueConfig {
            target: Duration::from_millis(5),
            interval: Duration::from_millis(100),
            limit_packets: 2048,
        };
        Self {
            id,
            role,
            state: LaneState::New,
            arrivals: Arrivals::default(),
            pings: Pings::new(is_initiator, now),
            again: VecDeque::new(),
            queue: FqCodel::new(config),
            counters: LaneCounters::default(),
            next,
            flight: VecDeque::new(),
            in_flight: 0,
            kept: 0,
            paced_to: now,
            told: next,
            srtt: None,
            deviation: Duration::ZERO,
            least_rtt: Duration::MAX,
            rate: DeliveryRate::default(),
            loss: 0.0,
        }
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

    /// Notes a datagram of data that is sent now. `kept` is what may have to go again.
    pub(super) fn note_sent(
        &mut self,
        sequence: u64,
        bytes: u64,
        kept: Option<Kept>,
        now: Instant,
    ) {
        if self.flight.len() >= MAX_FLIGHT {
            self.lose_front();
        }
        let length = kept.as_ref().map_or(0, |kept| kept.packet.len());
        let kept = kept.filter(|_| self.kept + length <= MAX_KEPT);
        self.kept += kept.as_ref().map_or(0, |kept| kept.packet.len());
        self.flight.push_back(Sent { sequence, at: now, bytes, is_done: false, kept });
        self.in_flight += bytes;
        self.paced_to = self.paced_to.max(now) + self.pace(bytes);
        self.counters.sent_packets += 1;
        self.counters.sent_bytes += bytes;
        self.pings.note_sent(now);
    }

    fn lose_front(&mut self) {
        if let Some(sent) = self.flight.pop_front()
            && !sent.is_done
        {
            self.in_flight -= sent.bytes;
            self.kept -= sent.kept.map_or(0, |kept| kept.packet.len());
            self.counters.lost_packets += 1;
        }
    }

    /// Takes in what the other end tells; false if it tells of what was never sent.
    pub(super) fn handle_feedback(&mut self, feedback: &Feedback, now: Instant) -> bool {
        let end = feedback.ranges.first().map_or(0, |newest| newest.end);
        if end > self.next {
            return false;
        }
        let is_news = end > self.told;
        self.told = self.told.max(end);
        let (mut bytes, mut packets, mut newest) = (0, 0, None);
        for sent in self.flight.iter_mut().filter(|sent| !sent.is_done) {
            // Of ranges the newest comes first.
            let at = feedback.ranges.partition_point(|range| range.start > sent.sequence);
            if feedback.ranges.get(at).is_some_and(|range| range.contains(&sent.sequence)) {
                sent.is_done = true;
                bytes += sent.bytes;
                packets += 1;
                self.kept -= sent.kept.take().map_or(0, |kept| kept.packet.len());
                newest = Some((sent.sequence, sent.at));
            }
        }
        self.in_flight -= bytes;
        self.counters.delivered_packets += packets;
        if let Some((sequence, at)) = newest {
            if sequence + 1 == end {
                self.measure(now.since(at).saturating_sub(feedback.delay));
            }
            self.rate.note(bytes, feedback.arrived_us, now);
        }
        let lost = self.give_up(end, now);
        if packets + lost > 0 {
            let part = lost as f64 / (packets + lost) as f64;
            self.loss += LOSS_WEIGHT * (part - self.loss);
        }
        if is_news {
            self.heard(now);
        }
        true
    }

    /// Counts as lost what was overtaken by far, or for long; how many those are.
    fn give_up(&mut self, end: u64, now: Instant) -> u64 {
        let patience = self.srtt.unwrap_or(MOST_SILENCE) * 5 / 4 + TELLING;
        let before = self.counters.lost_packets;
        while let Some(first) = self.flight.front() {
            let is_old = first.sequence < end
                && (end - first.sequence > OVERTAKEN || now.since(first.at) > patience);
            if !first.is_done && !is_old {
                break;
            }
            self.lose_front();
        }
        self.counters.lost_packets - before
    }

    /// Takes in a round trip (RFC 6298 §2).
    pub(super) fn measure(&mut self, rtt: Duration) {
        self.least_rtt = self.least_rtt.min(rtt);
        match self.srtt {
            None => (self.srtt, self.deviation) = (Some(rtt), rtt / 2),
            Some(srtt) => {
                self.deviation = (3 * self.deviation + srtt.abs_diff(rtt)) / 4;
                self.srtt = Some((7 * srtt + rtt) / 8);
            }
        }
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
        let Some(srtt) = self.srtt else { return MOST_SILENCE };
        (srtt * 3 / 2 + 4 * self.deviation + TELLING).clamp(LEAST_SILENCE, MOST_SILENCE)
    }

    /// When it will be taken to be silent, if nothing is heard.
    pub(super) fn silent_at(&self) -> Option<Instant> {
        let oldest = self.flight.iter().find(|sent| !sent.is_done)?;
        (self.state == LaneState::Up).then(|| oldest.at + self.patience())
    }

    /// Takes it to be silent. What was on its way is given back, unless it is older than `age`; of what
    /// is urgent that is at least as old as this took to be found out.
    pub(super) fn fall_silent(&mut self, age: Duration, now: Instant) -> Vec<Kept> {
        if self.state == LaneState::Up {
            self.counters.silences += 1;
            self.state = LaneState::Silent;
            self.pings.fell_silent(now);
        }
        let urgent = age.max(self.patience() + TELLING);
        let mut back = Vec::new();
        for sent in self.flight.drain(..).filter(|sent| !sent.is_done) {
            self.counters.lost_packets += 1;
            let most = if is_urgent(&sent) { urgent } else { age };
            back.extend(sent.kept.filter(|_| now.since(sent.at) <= most));
        }
        back.extend(self.again.drain(..));
        (self.in_flight, self.kept) = (0, 0);
        back
    }

    /// Whether something waits for room.
    pub(super) fn has_waiting(&self) -> bool {
        !self.again.is_empty() || !self.queue.is_empty()
    }

    /// From when on another packet that is not urgent may go; `None` until more is told to have come.
    pub(super) fn room_at(&self) -> Option<Instant> {
        let has_room = self.in_flight < self.window() && self.flight.len() < MAX_FLIGHT;
        has_room.then(|| self.paced_to - BURST)
    }

    /// The time that `bytes` have: at five quarters of the rate the link is known to have, or the least
    /// window in a round trip.
    fn pace(&self, bytes: u64) -> Duration {
        let Some(rtt) = self.srtt.map(|_| self.least_rtt.min(MOST_SILENCE)) else {
            return Duration::ZERO;
        };
        let least = rtt * u32::try_from(bytes).unwrap_or(u32::MAX) / LEAST_WINDOW as u32;
        match self.rate.time_for(bytes) * 4 / 5 {
            Duration::ZERO => least,
            time => time.min(least),
        }
    }

    /// What may be on its way: twice what the measured rate brings in the least round trip.
    fn window(&self) -> u64 {
        let product = self.rate.bytes_in(self.least_rtt.min(MOST_SILENCE)).unwrap_or(0);
        (2 * product).max(LEAST_WINDOW)
    }

    /// How long a packet of `bytes` would take to arrive, by all that is known.
    pub(super) fn arrival(&self, bytes: u64) -> Duration {
        let way = self.srtt.map_or(MOST_SILENCE, |_| self.least_rtt) / 2;
        let on_its_way = self.rate.bytes_in(self.least_rtt.min(MOST_SILENCE)).unwrap_or(u64::MAX);
        // Only where something waits for room the rate is the link's, and not that of what was to go.
        let backlog = match self.queue.is_empty() {
            true => 0,
            false => self.in_flight.saturating_sub(on_its_way) + self.queue.bytes() + bytes,
        };
        let queued = self.srtt.map_or(Duration::ZERO, |srtt| srtt.saturating_sub(self.least_rtt));
        way + queued.max(self.rate.time_for(backlog))
    }

    /// Whether urgent packets should have another lane besides, though that costs something.
    pub(super) fn is_poor(&self) -> bool {
        let queued = self.srtt.is_some_and(|srtt| srtt > self.least_rtt + POOR_DELAY);
        self.state != LaneState::Up || self.loss > POOR_LOSS || queued
    }

    /// What is shown of it.
    pub(super) fn status(&self) -> LaneStatus {
        LaneStatus {
            lane: self.id,
            role: self.role,
            state: self.state,
            srtt: self.srtt,
            least_rtt: self.srtt.map(|_| self.least_rtt),
            loss: self.loss,
            rate: self.rate.bytes_in(Duration::from_secs(1)),
            longest_packet: self.pings.longest_packet(),
            in_flight: self.in_flight,
            waiting: self.queue.len() as u64,
            dropped: self.queue.dropped,
            overflowed: self.queue.full,
            counters: self.counters,
        }
    }
}

fn is_urgent(sent: &Sent) -> bool {
    sent.kept.as_ref().is_some_and(|kept| kept.class == Class::Urgent)
}

/// What is known of a lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaneStatus {
    /// Which one.
    pub lane: LaneId,
    /// When it carries something.
    pub role: Role,
    /// Whether it does.
    pub state: LaneState,
    /// The round trip, smoothed, and the least of all.
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
    /// Packets that wait for room.
    pub waiting: u64,
    /// Packets that CoDel dropped, and those for which the queue had no room.
    pub dropped: u64,
    /// See `dropped`.
    pub overflowed: u64,
    /// What it has carried.
    pub counters: LaneCounters,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "feedback has ranges, and may have one")]

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn lane() -> Lane {
        Lane::new(LaneId(0), Role::Active, 0, true, at(0))
    }

    fn send(lane: &mut Lane, class: Class, now: Instant) -> u64 {
        let sequence = lane.take_sequence();
        let kept = Kept { number: sequence, class, packet: vec![0; 1000] };
        lane.note_sent(sequence, 1000, Some(kept), now);
        sequence
    }

    fn tell(lane: &mut Lane, ranges: &[std::ops::Range<u64>], now: Instant) -> bool {
        let arrived_us = now.as_nanos() / 1000;
        let feedback = Feedback { delay: Duration::ZERO, arrived_us, ranges: ranges.to_vec() };
        lane.handle_feedback(&feedback, now)
    }

    #[test]
    fn what_is_told_is_delivered_and_what_was_overtaken_for_long_is_lost() {
        let mut lane = lane();
        (0..10).for_each(|_| _ = send(&mut lane, Class::Bulk, at(0)));
        assert!(tell(&mut lane, &[4..8, 0..3], at(40)));
        assert_eq!((lane.state, lane.srtt), (LaneState::Up, Some(Duration::from_millis(40))));
        let counters = lane.counters;
        assert_eq!((counters.delivered_packets, counters.lost_packets), (7, 0));
        send(&mut lane, Class::Bulk, at(90));
        assert!(tell(&mut lane, &[10..11], at(130)));
        assert_eq!((lane.counters.delivered_packets, lane.counters.lost_packets), (8, 3));
        assert_eq!((lane.in_flight, lane.kept, lane.flight.len()), (0, 0, 0));
        assert!(lane.is_poor(), "three of eleven");
        // Nobody tells of what was not sent.
        assert!(!tell(&mut lane, &[0..12], at(130)));
    }

    #[test]
    fn a_lane_that_falls_silent_gives_back_what_is_young() {
        let mut lane = lane();
        send(&mut lane, Class::Bulk, at(0));
        assert_eq!(lane.silent_at(), None, "it has never answered");
        assert!(tell(&mut lane, &[0..1], at(20)));
        for ms in [100, 190, 220] {
            send(&mut lane, Class::Bulk, at(ms));
        }
        let silent = lane.silent_at().unwrap();
        assert!(silent > at(160) && silent < at(200), "{silent}");
        let back = lane.fall_silent(Duration::from_millis(100), at(250));
        assert_eq!(back.iter().map(|kept| kept.number).collect::<Vec<_>>(), [2, 3]);
        assert_eq!((lane.state, lane.in_flight, lane.kept), (LaneState::Silent, 0, 0));
        assert_eq!(lane.counters.lost_packets, 3);
        // A word of any of them, and it is up, whatever was sent into the silence.
        for ms in 260..330 {
            send(&mut lane, Class::Bulk, at(ms));
        }
        assert_eq!(lane.room_at(), None);
        assert!(tell(&mut lane, &[3..4], at(400)));
        assert_eq!(lane.state, LaneState::Up);
        assert!(lane.room_at().is_some() && lane.silent_at().is_none_or(|at_| at_ > at(400)));
    }

    #[test]
    fn the_window_follows_the_rate_and_all_is_bounded() {
        let mut lane = lane();
        let mut sent = 0;
        while lane.room_at().is_some() {
            send(&mut lane, Class::Bulk, at(0));
            sent += 1;
        }
        assert_eq!(sent, 66);
        // 10 packets a millisecond arrive, each after 20 ms.
        for ms in 0..200 {
            (0..10).for_each(|_| _ = send(&mut lane, Class::Bulk, at(ms)));
            if ms > 20 {
                let end = 66 + 10 * (ms - 20);
                tell(&mut lane, &[0..end], at(ms));
            }
        }
        // 10 MB/s in 20 ms, twice, as nearly as it is measured.
        let window = lane.window();
        assert!((350_000..480_000).contains(&window), "{window}");
        for _ in 0..3 * MAX_FLIGHT {
            send(&mut lane, Class::Urgent, at(300));
            assert!(lane.flight.len() <= MAX_FLIGHT && lane.kept <= MAX_KEPT);
        }
    }
}
