//! Packets that are not urgent, in the order of their flow, as far as that is worth waiting.
//!
//! A lane over UDP delivers in order. So once each lane that a flow uses has delivered a packet with a later number,
//! what is missing is lost, and nothing waits for it; with one lane nothing ever does. A lane that says
//! nothing is waited for no longer than lanes have lagged of late. A lane over TCP, whose datagrams go over
//! several links, delivers in no order: what is missing there is waited for as long.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::place::{Place, TCP_LANE, bit};
use super::{Carrier, LaneId};
use crate::Instant;

/// How long a packet waits for those before it: at first, at least and at most.
const PATIENCE: Duration = Duration::from_millis(100);
const LEAST_PATIENCE: Duration = Duration::from_millis(50);
const MOST_PATIENCE: Duration = Duration::from_millis(200);
/// The bytes of all flows that wait, each packet with what it takes besides: those of 100 ms at 300 Mb/s, or
/// of 30 ms at 1 Gb/s.
pub(super) const MOST_WAITING: usize = 4 << 20;
/// What a packet takes besides its bytes: its place among those that wait, which may be half empty, and
/// afterwards in the row of those that are handed out.
const BESIDES: usize = 160;
/// The flows that are known.
const MOST_FLOWS: usize = 512;
/// A flow that is not known and has a number below this has just begun, with 0: what came first may have overtaken
/// others.
const FIRST: u16 = 64;
/// What the row of those that are handed out keeps when it is empty, in packets.
const LITTLE: usize = 64;
/// A flow that has rested so long begins anew with any number.
const RESTED: Duration = Duration::from_secs(1);

/// A flow.
#[derive(Debug)]
struct Flow {
    /// The number that is due, counted on.
    next: u64,
    /// The greatest number that each lane has delivered, if it delivers in order, and that of all.
    newest: [Option<u64>; 8],
    greatest: u64,
    /// The lanes that it uses.
    lanes: u8,
    /// Whether one of these goes over TCP, which delivers in no order; its bit may be that of another one, too.
    is_by_tcp: bool,
    waiting: BTreeMap<u64, (Instant, Vec<u8>)>,
    /// What these take, in bytes.
    bytes: usize,
    patience: Duration,
    heard: Instant,
}

impl Flow {
    fn new(number: u16, now: Instant) -> Self {
        // Far from zero, so that a number before the first one is none below zero.
        let next = (1 << 32) + u64::from(number);
        Self {
            next,
            newest: [None; 8],
            greatest: next,
            lanes: 0,
            is_by_tcp: false,
            waiting: BTreeMap::new(),
            bytes: 0,
            patience: PATIENCE,
            heard: now,
        }
    }

    /// The number that is nearest to the one that is due.
    fn expand(&self, number: u16) -> u64 {
        let ahead = number.wrapping_sub(self.next as u16).cast_signed();
        self.next.wrapping_add_signed(ahead.into())
    }

    /// Up to here everything has come or is lost.
    fn floor(&self) -> u64 {
        if self.is_by_tcp {
            return 0;
        }
        let used = self.newest.iter().enumerate().filter(|(place, _)| self.lanes & 1 << place != 0);
        used.map(|(_, newest)| newest.unwrap_or(0)).min().unwrap_or(0)
    }

    /// Hands out what waits up to `floor`, and what follows without a gap.
    fn release(&mut self, floor: u64, ready: &mut VecDeque<Vec<u8>>) {
        while let Some(entry) = self.waiting.first_entry() {
            if *entry.key() > floor && *entry.key() != self.next {
                break;
            }
            self.next = entry.key() + 1;
            let (_, packet) = entry.remove();
            self.bytes -= cost(packet.len());
            ready.push_back(packet);
        }
        self.next = self.next.max(floor.saturating_add(1).min(self.greatest + 1));
    }

    /// What was missing has come after so long: others will, too.
    fn learn(&mut self, waited: Duration) {
        let rest = self.patience - self.patience / 512;
        self.patience = (waited * 3 / 2).max(rest).clamp(LEAST_PATIENCE, MOST_PATIENCE);
    }

    /// Has a packet wait.
    fn hold(&mut self, number: u64, packet: &[u8], now: Instant) {
        self.bytes += cost(packet.len());
        self.waiting.insert(number, (now, packet.to_vec()));
    }

    /// Gives up what is missing before the first that waits.
    fn give_up(&mut self, ready: &mut VecDeque<Vec<u8>>) {
        if let Some((&first, _)) = self.waiting.first_key_value() {
            self.release(first, ready);
        }
    }

    fn since(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(_, (since, _))| *since)
    }
}

/// What a packet of such a length takes while it waits, in bytes.
const fn cost(length: usize) -> usize {
    length + BESIDES
}

/// All flows of a bond. Whoever polls after each call has no more than [`MOST_WAITING`] in it.
#[derive(Debug, Default)]
pub(super) struct Order {
    flows: BTreeMap<u16, Flow>,
    /// What all that waits takes, in bytes.
    held: usize,
    ready: VecDeque<Vec<u8>>,
    /// Packets that came after others that were behind them had been handed out.
    pub(super) late: u64,
}

impl Order {
    /// Takes a packet that came over a lane; whether it is handed out at once. After it what [`Self::poll`]
    /// gives, among which it is if it came due behind others.
    pub(super) fn take(
        &mut self,
        place: Place,
        (lane, carrier): (LaneId, Carrier),
        packet: &[u8],
        now: Instant,
    ) -> bool {
        if !self.flows.contains_key(&place.flow) && self.flows.len() >= MOST_FLOWS {
            self.forget_oldest();
        }
        // There is room for this one, should it have to wait.
        while self.held > MOST_WAITING.saturating_sub(cost(packet.len())) {
            self.give_up_oldest();
        }
        let first = if place.number < FIRST { 0 } else { place.number };
        let flow = self.flows.entry(place.flow).or_insert_with(|| Flow::new(first, now));
        if flow.waiting.is_empty() && now.since(flow.heard) >= RESTED {
            *flow = Flow::new(place.number, now);
        }
        flow.heard = now;
        let number = flow.expand(place.number);
        let newest = &mut flow.newest[usize::from(lane.0 & 7)];
        *newest = Some(newest.map_or(number, |newest| newest.max(number)));
        if number >= flow.greatest {
            (flow.greatest, flow.lanes) = (number, place.lanes | bit(lane));
            flow.is_by_tcp &= place.lanes & bit(TCP_LANE) != 0;
        }
        flow.is_by_tcp |= carrier == Carrier::Tcp;
        let before = flow.bytes;
        // Nobody gives a number to two packets; whoever does waits for none.
        let is_taken = number < flow.next || flow.waiting.contains_key(&number);
        let mut is_handed_out = is_taken;
        if is_taken {
            self.late += 1;
            flow.patience = (flow.patience * 5 / 4).min(MOST_PATIENCE);
        } else if number == flow.next {
            if let Some(since) = flow.since() {
                flow.learn(now.since(since));
            }
            flow.next += 1;
            // What had to make room for this one is before it, and has not been polled yet.
            is_handed_out = self.ready.is_empty();
            if !is_handed_out {
                self.ready.push_back(packet.to_vec());
            }
            flow.release(0, &mut self.ready);
        } else {
            flow.hold(number, packet, now);
        }
        let floor = flow.floor();
        if floor >= flow.next {
            flow.release(floor, &mut self.ready);
        }
        self.held = self.held + flow.bytes - before;
        is_handed_out
    }

    /// Hands out what waits behind the gap that has been waited for longest.
    fn give_up_oldest(&mut self) {
        let waiting = self.flows.values_mut().filter(|flow| !flow.waiting.is_empty());
        let Some(flow) = waiting.min_by_key(|flow| flow.since()) else { return };
        let before = flow.bytes;
        flow.give_up(&mut self.ready);
        self.held -= before - flow.bytes;
    }

    /// Forgets the flow that rests for longest; if all wait, what waits of the oldest is handed out.
    fn forget_oldest(&mut self) {
        let age = |flow: &Flow| (flow.since().is_some(), flow.since().unwrap_or(flow.heard));
        let oldest = self.flows.iter().min_by_key(|(_, flow)| age(flow));
        let Some(mut flow) = oldest.map(|(&id, _)| id).and_then(|id| self.flows.remove(&id)) else {
            return;
        };
        self.held -= flow.bytes;
        flow.release(u64::MAX, &mut self.ready);
    }

    /// Gives up what was waited for long enough.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        for flow in self.flows.values_mut() {
            while flow.since().is_some_and(|since| since + flow.patience <= now) {
                let before = flow.bytes;
                flow.patience = (flow.patience - flow.patience / 16).max(LEAST_PATIENCE);
                flow.give_up(&mut self.ready);
                self.held -= before - flow.bytes;
            }
        }
    }

    /// When something is given up.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let due = |flow: &Flow| flow.since().map(|since| since + flow.patience);
        self.flows.values().filter_map(due).min()
    }

    /// The next packet that is to be handed out.
    pub(super) fn poll(&mut self) -> Option<Vec<u8>> {
        let next = self.ready.pop_front();
        if next.is_none() && self.ready.capacity() > LITTLE {
            self.ready.shrink_to(LITTLE);
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Takes a packet of flow 1; the numbers that are handed out.
    fn take(order: &mut Order, number: u16, (lane, lanes): (u8, u8), ms: u64) -> Vec<u16> {
        let place = Place { flow: 1, number, lanes };
        let now = order.take(place, (LaneId(lane), Carrier::Udp), &number.to_be_bytes(), at(ms));
        let mut out: Vec<u16> = now.then_some(number).into_iter().collect();
        out.extend(polled(order));
        out
    }

    fn polled(order: &mut Order) -> Vec<u16> {
        std::iter::from_fn(|| order.poll())
            .map(|packet| u16::from_be_bytes(packet[..].try_into().expect("two bytes")))
            .collect()
    }

    #[test]
    fn what_is_lost_of_one_lane_is_waited_for_by_nobody() {
        let mut order = Order::default();
        assert_eq!(take(&mut order, u16::MAX, (0, 1), 0), [u16::MAX]);
        assert_eq!(take(&mut order, 0, (0, 1), 1), [0]);
        assert_eq!(take(&mut order, 2, (0, 1), 2), [2], "1 is lost");
        assert_eq!((take(&mut order, 1, (0, 1), 3), order.late), (vec![1], 1));
        assert_eq!((take(&mut order, 3, (0, 1), 4), order.poll_timeout()), (vec![3], None));
    }

    #[test]
    fn a_slower_lane_is_waited_for_until_it_has_delivered_something_later() {
        let mut order = Order::default();
        assert_eq!(take(&mut order, 0, (0, 1), 0), [0]);
        // 1 goes over the other lane.
        assert_eq!(take(&mut order, 2, (0, 3), 1), []);
        assert_eq!(take(&mut order, 3, (0, 3), 2), []);
        assert_eq!(take(&mut order, 1, (1, 3), 20), [1, 2, 3]);
        // 4 and 6 are lost on it, 8 is not.
        assert_eq!(take(&mut order, 5, (0, 3), 21), []);
        assert_eq!(take(&mut order, 7, (0, 3), 22), []);
        assert_eq!(take(&mut order, 9, (0, 3), 23), []);
        assert_eq!(take(&mut order, 8, (1, 3), 40), [5, 7, 8, 9]);
        assert_eq!(order.late, 0);
        // The other lane says nothing more.
        assert_eq!(take(&mut order, 11, (0, 3), 50), []);
        let due = order.poll_timeout().expect("11 waits");
        assert!(due >= at(100) && due <= at(150), "{due}");
        order.handle_timeout(due);
        assert_eq!((polled(&mut order), order.held, order.poll_timeout()), (vec![11], 0, None));
        // And is not used any more.
        assert_eq!(take(&mut order, 13, (0, 1), 150), [13]);
    }

    /// Its datagrams go over several links, and the later one may come first.
    #[test]
    fn over_tcp_what_is_missing_is_waited_for() {
        let mut order = Order::default();
        let mut take = |number: u16, carrier, ms| {
            let place = Place { flow: 1, number, lanes: 1 << 7 };
            let lane = LaneId(if carrier == Carrier::Tcp { 39 } else { 0 });
            let now = order.take(place, (lane, carrier), &number.to_be_bytes(), at(ms));
            let mut out: Vec<u16> = now.then_some(number).into_iter().collect();
            out.extend(polled(&mut order));
            (out, order.poll_timeout())
        };
        assert_eq!(take(0, Carrier::Tcp, 0).0, [0]);
        assert_eq!(take(2, Carrier::Tcp, 1).0, []);
        assert_eq!(take(1, Carrier::Tcp, 30), (vec![1, 2], None));
        // It moves to a link: what is under way over TCP is waited for, too.
        let (out, due) = take(4, Carrier::Udp, 40);
        assert!(out.is_empty() && due.is_some_and(|due| due >= at(90) && due <= at(240)));
        assert_eq!(take(3, Carrier::Tcp, 60), (vec![3, 4], None));
    }

    /// What makes room for a packet is before it, also if that is due by then.
    #[test]
    fn at_the_bound_a_flow_stays_in_order() {
        let (mut order, mut out) = (Order::default(), Vec::new());
        let packet = |number: u16| [&number.to_be_bytes()[..], &[0; 1398]].concat();
        for number in (0..10_000).filter(|number| *number != 1) {
            let place = Place { flow: 1, number, lanes: 3 };
            let is_due = order.take(place, (LaneId(0), Carrier::Udp), &packet(number), at(0));
            out.extend(is_due.then_some(number));
            let waited = std::iter::from_fn(|| order.poll());
            out.extend(waited.map(|packet| u16::from_be_bytes([packet[0], packet[1]])));
        }
        assert!(out.len() > 5_000 && out.is_sorted(), "{out:?}");
        assert_eq!(order.late, 0);
    }

    #[test]
    fn a_flow_that_has_rested_begins_anew() {
        let mut order = Order::default();
        assert_eq!(take(&mut order, 5, (0, 1), 0), [5]);
        assert_eq!(take(&mut order, 30_000, (0, 3), 1_001), [30_000]);
        assert_eq!((take(&mut order, 30_001, (1, 3), 1_002), order.late), (vec![30_001], 0));
    }

    /// Of flows that are known, the last one waits for its first packet. Nothing is handed out before the
    /// bound is reached, and then as much as has to be.
    #[test]
    fn as_much_waits_as_may_and_no_more() {
        for length in [0, 28, 1400] {
            let mut order = Order::default();
            for flow in 1..=MOST_FLOWS as u16 {
                let place = Place { flow, number: 0, lanes: 1 };
                assert!(order.take(place, (LaneId(0), Carrier::Udp), &[0; 8], at(flow.into())));
            }
            let (mut held, mut out) = (0, 0);
            // Every second packet of two flows in turn, over one of eight lanes.
            for n in 0..40_000_u16 {
                let place = Place { flow: 1 + n % 2, number: 2 + (n & !1), lanes: 0xff };
                let now = at(100) + Duration::from_micros(n.into());
                let is_due =
                    order.take(place, (LaneId(0), Carrier::Udp), &[1; 1400][..length], now);
                assert!(!is_due, "{n}: none of these is due");
                held += cost(length);
                while let Some(packet) = order.poll() {
                    assert!(order.held + cost(length) >= MOST_WAITING - cost(length), "{n}");
                    (held, out) = (held - cost(packet.len()), out + 1);
                }
                assert_eq!(order.held, held);
                assert!(held <= MOST_WAITING, "{held}");
            }
            assert!(out > 0 && order.flows.len() == MOST_FLOWS, "{out}: no flow is forgotten");
        }
    }

    /// A packet that says of which flow it is, and its number.
    fn named(flow: u16, number: u16, length: usize) -> Vec<u8> {
        let mut packet = [flow.to_be_bytes(), number.to_be_bytes()].concat();
        packet.resize(length.max(4), 0);
        packet
    }

    /// What was handed out: how many, and the last number of each flow.
    #[derive(Default)]
    struct Out {
        count: usize,
        last: BTreeMap<u16, u16>,
    }

    impl Out {
        fn note(&mut self, packet: &[u8], is_late: bool) {
            let word = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
            let (flow, number) = (word(0), word(2));
            self.count += 1;
            if !is_late {
                let before = self.last.insert(flow, number);
                assert!(before < Some(number), "flow {flow}: {number} after {before:?}");
            }
        }

        fn poll(&mut self, order: &mut Order) {
            while let Some(packet) = order.poll() {
                self.note(&packet, false);
            }
        }
    }

    proptest! {
        /// In any order, over any lanes: each comes out once, in the order of its flow, and no more waits
        /// than may.
        #[test]
        fn each_once(
            runs in prop::collection::vec(
                (0_u16..80, 1_u16..400, 0_usize..1400, (0_u8..8, any::<u8>()), 0_u64..20),
                1..40,
            ),
        ) {
            let mut order = Order::default();
            let (mut now, mut taken, mut out) = (0, 0, Out::default());
            let mut numbers = BTreeMap::<u16, u16>::new();
            for (flow, packets, length, (lane, lanes), pause) in runs {
                now += pause;
                order.handle_timeout(at(now));
                out.poll(&mut order);
                // The first of them comes last or never, and no number is given twice.
                let first = *numbers.entry(flow).or_default();
                numbers.insert(flow, first + packets);
                let others = (first + 1..first + packets).chain((lane % 2 == 0).then_some(first));
                for number in others {
                    let place = Place { flow, number, lanes };
                    let packet = named(flow, number, length);
                    taken += 1;
                    let late = order.late;
                    if order.take(place, (LaneId(lane), Carrier::Udp), &packet, at(now)) {
                        out.note(&packet, order.late > late);
                    }
                    out.poll(&mut order);
                    prop_assert!(order.held <= MOST_WAITING);
                }
                let waiting = || order.flows.values().flat_map(|flow| flow.waiting.values());
                let bytes: usize = waiting().map(|(_, packet)| cost(packet.len())).sum();
                prop_assert_eq!((order.held, taken - out.count), (bytes, waiting().count()));
            }
            order.handle_timeout(at(now + 1_000));
            out.poll(&mut order);
            prop_assert_eq!((out.count, order.held), (taken, 0));
        }
    }
}
