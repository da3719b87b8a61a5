//! The flows of late: how much each has sent, and which lane it keeps to.

use std::collections::BTreeMap;
use std::time::Duration;

use super::LaneId;
use super::frame::Class;
use super::place::Numbers;
use crate::Instant;

/// A flow's first packets, which are urgent: handshakes, questions and answers.
const FIRST_PACKETS: u64 = 16;
/// A flow of this rate or less is urgent, in bytes a second: 200 kb/s.
const URGENT_RATE: u64 = 25_000;
/// A flow that is urgent by its kind, such as a ping, is not beyond this rate: 2 Mb/s.
const URGENT_KIND_RATE: u64 = 250_000;
/// A flow of this rate or less is of medium class: 6 Mb/s, a call with pictures.
pub(super) const MEDIUM_RATE: u64 = 750_000;
/// A flow that lasts so long, without such a pause, may be a call. Questions to DNS and the first packets of
/// connections are none, and a ping each second is one.
const CALL: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_secs(2);
/// Nor is it one if the last answer is longer ago, so that nobody can make one who only sends.
const ANSWERED: Duration = Duration::from_secs(10);
/// What a rate is measured over.
const SPAN: Duration = Duration::from_secs(1);
/// How long a flow is remembered at least, and how many are at most, twice.
const REMEMBERED: Duration = Duration::from_secs(30);
const MAX_FLOWS: usize = 4096;

/// What may be a call: a flow that is answered and no bulk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Talk {
    /// In bytes a second.
    pub(super) rate: u64,
    /// Whether it has gone on for a while.
    pub(super) lasts: bool,
    pub(super) is_urgent: bool,
}

/// A flow.
#[derive(Clone, Debug, Default)]
pub(super) struct Flow {
    packets: u64,
    /// When it began after its last pause, and when its last packet came.
    began: Instant,
    last: Instant,
    /// When a packet came last that goes the other way.
    answered: Option<Instant>,
    span: Instant,
    /// Bytes of the span under way, and of the one before.
    bytes: u64,
    before: u64,
    /// The lane that it keeps to.
    pub(super) lane: Option<LaneId>,
    /// What numbers its packets, once it is no more urgent and there are several lanes.
    numbers: Option<Box<Numbers>>,
}

impl Flow {
    fn count(&mut self, bytes: u64, now: Instant) {
        let age = now.since(self.span);
        if age >= SPAN {
            self.before = if age < 2 * SPAN { self.bytes } else { 0 };
            (self.bytes, self.span) = (0, now);
        }
        if self.packets == 0 || now.since(self.last) > PAUSE {
            self.began = now;
        }
        self.last = now;
        self.packets += 1;
        self.bytes += bytes;
    }

    /// Whether it may be a call, as its last packet shows, which is of this class.
    pub(super) fn talk(&self, class: Class) -> Option<Talk> {
        let is_answered = self.answered.is_some_and(|at| self.last.since(at) <= ANSWERED);
        let lasts = self.last.since(self.began) >= CALL;
        let talk = Talk { rate: self.rate(), lasts, is_urgent: class == Class::Urgent };
        (class != Class::Bulk && is_answered).then_some(talk)
    }

    fn rate(&self) -> u64 {
        self.bytes.max(self.before)
    }

    fn class(&self, is_urgent_kind: bool) -> Class {
        let rate = self.rate();
        let urgent = if is_urgent_kind { URGENT_KIND_RATE } else { URGENT_RATE };
        if self.packets <= FIRST_PACKETS || rate <= urgent {
            Class::Urgent
        } else if rate <= MEDIUM_RATE {
            Class::Medium
        } else {
            Class::Bulk
        }
    }
}

/// All flows of late, in two generations, so that none is sought for to be forgotten.
#[derive(Debug, Default)]
pub(super) struct Flows {
    now: BTreeMap<u64, Flow>,
    before: BTreeMap<u64, Flow>,
    since: Instant,
    /// The number of the last flow that has one.
    last: u16,
}

impl Flows {
    /// What numbers the packets of a flow that was counted just now.
    pub(super) fn numbers(&mut self, flow: u64) -> Option<&mut Numbers> {
        let found = self.now.get_mut(&flow)?;
        if found.numbers.is_none() {
            // 0 is none.
            self.last = self.last.wrapping_add(1).max(1);
            found.numbers = Some(Box::new(Numbers::of(self.last)));
        }
        found.numbers.as_deref_mut()
    }

    /// A lane is dead, or removed: what numbers packets counts on it no more.
    pub(super) fn leave(&mut self, lane: LaneId) {
        let all = self.now.values_mut().chain(self.before.values_mut());
        all.filter_map(|flow| flow.numbers.as_mut()).for_each(|numbers| numbers.leave(lane));
    }

    /// The numbers of a flow, if its packets have some.
    pub(super) fn numbered(&mut self, flow: u64) -> Option<&mut Numbers> {
        self.now.get_mut(&flow)?.numbers.as_deref_mut()
    }

    /// A packet has come that answers a flow, if it is one of late.
    pub(super) fn note_answer(&mut self, flow: u64, now: Instant) {
        let found = self.now.get_mut(&flow).or_else(|| self.before.get_mut(&flow));
        found.into_iter().for_each(|flow| flow.answered = Some(now));
    }

    /// Counts a packet of a flow, and says how it is to be treated.
    pub(super) fn count(
        &mut self,
        flow: u64,
        is_urgent_kind: bool,
        bytes: usize,
        now: Instant,
    ) -> (Class, &mut Flow) {
        if now.since(self.since) >= REMEMBERED || self.now.len() >= MAX_FLOWS {
            self.before = std::mem::take(&mut self.now);
            self.since = now;
        }
        let before = &mut self.before;
        let found =
            self.now.entry(flow).or_insert_with(|| before.remove(&flow).unwrap_or_default());
        found.count(bytes as u64, now);
        (found.class(is_urgent_kind), found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    #[test]
    fn a_flow_is_urgent_at_first_and_while_it_is_slow() {
        let mut flows = Flows::default();
        // 50 packets of 200 bytes a second: 80 kb/s.
        for n in 0..500 {
            assert_eq!(flows.count(1, false, 200, at(20 * n)).0, Class::Urgent, "{n}");
        }
        // 2.5 Mb/s.
        let call = (0..500).map(|n| flows.count(2, false, 1250, at(4 * n)).0);
        let call: Vec<_> = call.collect();
        assert!(call[..16].iter().all(|class| *class == Class::Urgent));
        assert!(call[25..].iter().all(|class| *class == Class::Medium), "{call:?}");
        // 80 Mb/s.
        let bulk: Vec<_> = (0..5000).map(|n| flows.count(3, false, 1000, at(n / 10)).0).collect();
        assert!(bulk[1000..].iter().all(|class| *class == Class::Bulk));
        // A ping a second is a call, once it has lasted; what comes now and then is none, nor is bulk.
        let mut is_call = |flow, n: u64, every, bytes| {
            if flow != 9 {
                flows.note_answer(flow, at(10_000 + every * n));
            }
            let (class, flow) = flows.count(flow, false, bytes, at(10_000 + every * n));
            flow.talk(class).is_some_and(|talk| talk.lasts)
        };
        let pings: Vec<_> = (0..5).map(|n| is_call(6, n, 1000, 84)).collect();
        assert_eq!(pings, [false, true, true, true, true]);
        assert!((0..50).all(|n| !is_call(9, n, 20, 200)), "nobody answers");
        assert!((0..5).all(|n| !is_call(7, n, 2100, 84)));
        assert!((0..5000).skip(1000).all(|n| !is_call(8, n, 0, 1000)));
        // A ping of 100 a second with 1,400 bytes; a flood of them is none.
        for n in 0..300 {
            assert_eq!(flows.count(4, true, 1400, at(10 * n)).0, Class::Urgent);
        }
        let flood: Vec<_> = (0..5000).map(|n| flows.count(5, true, 1400, at(n / 10)).0).collect();
        assert!(flood[1000..].iter().all(|class| *class != Class::Urgent));
        // What was fast and rests is urgent again.
        assert_eq!(flows.count(3, false, 100, at(10_000)).0, Class::Urgent);
    }

    #[test]
    fn flows_without_end_take_no_memory_without_end() {
        let mut flows = Flows::default();
        for flow in 0..5 * MAX_FLOWS as u64 {
            flows.count(7, false, 1000, at(0)).1.lane = Some(LaneId(3));
            flows.count(1000 + flow, false, 100, at(0));
            assert!(flows.now.len() + flows.before.len() <= 2 * MAX_FLOWS);
        }
        assert_eq!(flows.count(7, false, 1000, at(0)).1.lane, Some(LaneId(3)), "one in use stays");
    }
}
