//! Two ends and the lanes between them, in virtual time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;

use super::packet::tests::udp;
use super::*;
use crate::policy::Role;
use crate::{Instant, time};

const MS: u64 = 1_000_000;

/// A link between the ends, the same in both directions.
#[derive(Clone, Copy, Debug)]
struct Link {
    delay: Duration,
    /// Bytes a second, and the most bytes that wait.
    rate: u64,
    queue: u64,
    dead_from: Instant,
    dead_to: Instant,
    /// One of so many datagrams is lost; none if 0.
    lossy: u64,
}

impl Link {
    fn new(delay_ms: u64) -> Self {
        Self {
            delay: Duration::from_millis(delay_ms),
            rate: 12_500_000,
            queue: 100_000,
            dead_from: Instant::FAR,
            dead_to: Instant::FAR,
            lossy: 0,
        }
    }

    fn is_dead(&self, now: Instant) -> bool {
        now >= self.dead_from && now < self.dead_to
    }
}

/// One direction of a link.
#[derive(Debug, Default)]
struct Wire {
    free_at: Instant,
    sent: u64,
    flying: VecDeque<(Instant, u64, Vec<u8>)>,
}

impl Wire {
    fn send(&mut self, link: &Link, sequence: u64, frame: Vec<u8>, now: Instant) {
        self.sent += 1;
        let wait = self.free_at.since(now);
        let backlog = link.rate * time::nanos(wait) / 1_000_000_000;
        let is_lost = link.lossy > 0 && self.sent.is_multiple_of(link.lossy);
        if is_lost || link.is_dead(now) || backlog > link.queue {
            return;
        }
        let service = Duration::from_nanos(frame.len() as u64 * 1_000_000_000 / link.rate);
        self.free_at = self.free_at.max(now) + service;
        self.flying.push_back((self.free_at + link.delay, sequence, frame));
    }
}

struct World {
    ends: [Bond; 2],
    links: Vec<Link>,
    /// By link, and direction.
    wires: Vec<[Wire; 2]>,
    now: Instant,
    /// What came at each end: the packet, and when.
    came: [Vec<(Instant, Vec<u8>)>; 2],
}

fn never(_: &mut [u8]) -> bool {
    false
}

impl World {
    fn new(links: &[Link], roles: &[Role]) -> Self {
        let now = Instant::ZERO;
        let mut ends = [true, false].map(|is_initiator| {
            Bond::new(BondConfig { is_initiator, mtu: 1400, mark: never }, now)
        });
        for (n, role) in roles.iter().enumerate() {
            ends.iter_mut().for_each(|end| _ = end.add_lane(LaneId(n as u8), *role, now));
        }
        let wires = links.iter().map(|_| Default::default()).collect();
        Self { ends, links: links.to_vec(), wires, now, came: Default::default() }
    }

    fn transmit(&mut self) {
        for (n, end) in self.ends.iter_mut().enumerate() {
            end.handle_timeout(self.now);
            loop {
                let mut frame = Vec::new();
                let Some(sent) = end.poll_transmit(self.now, &mut frame) else { break };
                let lane = usize::from(sent.lane.0);
                let link = &self.links[lane];
                self.wires[lane][n].send(link, sent.sequence, frame, self.now);
            }
        }
    }

    fn deliver(&mut self) {
        for lane in 0..self.links.len() {
            for from in 0..2 {
                let wire = &mut self.wires[lane][from];
                while wire.flying.front().is_some_and(|(at, ..)| *at <= self.now) {
                    let (_, sequence, frame) = wire.flying.pop_front().unwrap();
                    if self.links[lane].is_dead(self.now) {
                        continue;
                    }
                    let to = 1 - from;
                    let id = LaneId(lane as u8);
                    let packet = self.ends[to].handle_frame(id, sequence, &frame, self.now);
                    if let Some(packet) = packet.unwrap() {
                        self.came[to].push((self.now, packet.to_vec()));
                    }
                }
            }
        }
    }

    /// Runs for a while, in steps of a quarter of a millisecond.
    fn run(&mut self, ms: u64) {
        let end = self.now + Duration::from_millis(ms);
        while self.now < end {
            self.now += Duration::from_micros(250);
            self.deliver();
            self.transmit();
        }
    }

    fn send(&mut self, from: usize, packet: &[u8]) {
        self.ends[from].handle_packet(packet, self.now);
        self.transmit();
    }

    fn lane(&self, end: usize, lane: u8) -> LaneStatus {
        self.ends[end].lanes()[usize::from(lane)]
    }
}

/// A packet of a flow that knows its number.
fn numbered(port: u16, number: u64, length: usize) -> Vec<u8> {
    let mut packet = udp((port, 4000), length);
    packet[28..36].copy_from_slice(&number.to_be_bytes());
    packet
}

fn number_of(packet: &[u8]) -> (u16, u64) {
    let port = u16::from_be_bytes([packet[20], packet[21]]);
    (port, u64::from_be_bytes(packet[28..36].try_into().unwrap()))
}

/// How many times each packet came.
fn counted(came: &[(Instant, Vec<u8>)]) -> BTreeMap<(u16, u64), usize> {
    let mut all = BTreeMap::new();
    for (_, packet) in came {
        *all.entry(number_of(packet)).or_default() += 1;
    }
    all
}

#[test]
fn lanes_come_up_and_carry_both_ways() {
    let mut world = World::new(&[Link::new(5), Link::new(15)], &[Role::Active; 2]);
    world.run(100);
    assert_eq!(world.ends.each_ref().map(Bond::lanes_up), [2, 2]);
    for n in 0..10 {
        world.send(0, &numbered(1, n, 100));
        world.send(1, &numbered(2, n, 100));
        world.run(20);
    }
    for came in &world.came {
        assert!(came.len() == 10 && counted(came).values().all(|&times| times == 1));
    }
    // Over the sooner lane, and in copies over the other.
    let [first, second] = [0, 1].map(|lane| world.lane(0, lane));
    assert_eq!((first.counters.sent_packets, first.counters.copies), (10, 0));
    assert_eq!((second.counters.sent_packets, second.counters.copies), (10, 10));
    assert_eq!(world.ends[1].counters().duplicates, 10);
    assert_eq!((first.longest_packet, second.longest_packet), (1400, 1400));
    assert_eq!(world.lane(0, 0).srtt.unwrap().as_millis(), 10);
}

/// The test of the whole: a call of 50 packets a second and a faster one, while a link dies.
fn outlives(dead: u8, delays: [u64; 2], role: Role) {
    let mut links = delays.map(Link::new);
    let death = Instant::from_millis(2_003);
    links[usize::from(dead)].dead_from = death;
    let mut world = World::new(&links, &[Role::Active, role]);
    world.run(500);
    for n in 0..200 {
        world.send(0, &numbered(1, n, 160));
        world.send(1, &numbered(1, n, 160));
        // Too much for the budget of copies: 190 kb/s.
        world.send(0, &numbered(2, n, 475));
        world.run(20);
    }
    world.run(1000);
    let came = [0, 1].map(|end| counted(&world.came[end]));
    let all = |port, end: usize| (0..200).all(|n| came[end].get(&(port, n)) == Some(&1));
    assert!(all(1, 1) && all(1, 0), "{dead} {delays:?}: {:?}", came[1]);
    assert!(all(2, 1), "{dead} {delays:?}");
    assert_eq!(world.lane(0, dead).state, LaneState::Silent);
    assert!(world.ends[0].counters().duplicates < 400);
}

#[test]
fn a_call_loses_nothing_when_a_link_dies() {
    for delays in [[5, 5], [5, 30], [30, 5], [2, 80]] {
        for dead in 0..2 {
            outlives(dead, delays, Role::Active);
        }
    }
    // A link that costs something carries nothing until the other one is dead.
    outlives(0, [10, 20], Role::Metered);
    let mut world = World::new(&[Link::new(5), Link::new(5)], &[Role::Active, Role::Metered]);
    world.run(500);
    (0..100).for_each(|n| {
        world.send(0, &numbered(1, n, 160));
        world.run(20);
    });
    assert_eq!(world.lane(0, 1).counters.sent_packets, 0);
}

#[test]
fn a_link_that_comes_back_is_used_again() {
    let mut links = [Link::new(5), Link::new(30)];
    (links[0].dead_from, links[0].dead_to) =
        (Instant::from_millis(1000), Instant::from_millis(4000));
    let mut world = World::new(&links, &[Role::Active; 2]);
    for n in 0..500 {
        world.send(0, &numbered(1, n, 100));
        world.run(20);
    }
    let sooner = |from: u64, to: u64| {
        let within = |at: &Instant| (from * MS..to * MS).contains(&at.as_nanos());
        world.came[1].iter().filter(|(at, _)| within(at)).count()
    };
    assert!(sooner(0, 10_000) >= 499);
    assert_eq!(world.lane(0, 0).state, LaneState::Up);
    let late = world.came[1].last().unwrap();
    assert!(late.0.as_nanos() % (20 * MS) < 10 * MS, "over the sooner link: {}", late.0);
}

#[test]
fn bulk_fills_a_link_and_does_not_delay_a_call() {
    // 20 Mb/s, and room for 200 ms.
    let link = Link { rate: 2_500_000, queue: 500_000, ..Link::new(10) };
    let mut world = World::new(&[link], &[Role::Active]);
    world.run(500);
    let (mut number, mut call) = (0, Vec::new());
    for n in 0..400 {
        // 40 Mb/s come.
        for _ in 0..36 {
            world.send(0, &numbered(7, number, 1400));
            number += 1;
        }
        world.send(0, &numbered(1, n, 160));
        call.push(world.now);
        world.run(10);
    }
    let bulk = world.came[1].iter().filter(|(_, packet)| number_of(packet).0 == 7).count();
    assert!(bulk * 1400 > 4 * 2_500_000 * 85 / 100, "{bulk} packets of {}", 4 * 2_500_000 / 1400);
    let mut delays: Vec<_> = world.came[1]
        .iter()
        .filter(|(_, packet)| number_of(packet).0 == 1)
        .map(|(at, packet)| at.since(call[number_of(packet).1 as usize]))
        .collect();
    delays.sort();
    assert!(delays.len() > 390, "{}", delays.len());
    let p95 = delays[delays.len() * 95 / 100];
    assert!(p95 < Duration::from_millis(60), "{p95:?}");
    let lane = world.lane(0, 0);
    assert!(lane.dropped + lane.overflowed > 100, "{lane:?}");
}

#[test]
fn loss_is_counted_and_moves_nothing() {
    let link = Link { lossy: 50, ..Link::new(10) };
    let mut world = World::new(&[link, Link::new(40)], &[Role::Active; 2]);
    world.run(500);
    for n in 0..500 {
        world.send(0, &numbered(1, n, 160));
        world.run(20);
    }
    let counted = counted(&world.came[1]);
    assert!(counted.len() == 500, "copies make up for it: {}", counted.len());
    let counters = world.lane(0, 0).counters;
    assert!((5..20).contains(&counters.lost_packets), "{counters:?}");
}

/// A call of a packet each `gap` ms and bulk beside it over links of which one dies: what was sent in the
/// call, and what came.
fn with_a_death(
    delays: &[u64],
    (dead, death): (usize, u64),
    (gap, length, bulk): (u64, usize, u64),
) -> [u64; 2] {
    let mut links: Vec<_> = delays.iter().map(|&delay| Link::new(delay)).collect();
    links[dead % delays.len()].dead_from = Instant::from_millis(death);
    let mut world = World::new(&links, &vec![Role::Active; links.len()]);
    world.run(500);
    let (mut sent, mut other) = (0, 0);
    while world.now < Instant::from_millis(3_500) {
        world.send(0, &numbered(1, sent, length));
        sent += 1;
        for _ in 0..bulk * gap {
            world.send(0, &numbered(9, other, 1400));
            other += 1;
        }
        world.run(gap);
    }
    world.run(1_000);
    let came = counted(&world.came[1]);
    assert!(came.values().all(|&times| times == 1));
    let made = |port| if port == 1 { sent } else { other };
    assert!(came.keys().all(|&(port, n)| n < made(port)));
    [sent, came.keys().filter(|(port, _)| *port == 1).count() as u64]
}

/// What had waited for a lane that died would fill the other link's queue at once.
#[test]
fn a_burst_takes_no_urgent_packet_with_it() {
    let [sent, came] = with_a_death(&[7, 74], (0, 2240), (5, 40, 2));
    assert_eq!(came, sent);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Whatever links do: no packet comes twice, none is made up, and one that was urgent comes, if
    /// its lane dies while another one is up.
    #[test]
    fn nothing_twice_and_no_urgent_packet_is_lost_with_a_lane(
        delays in prop::collection::vec(1_u64..90, 2..4),
        dead in 0_usize..4,
        death in 1_000_u64..3_000,
        gap in 5_u64..40,
        length in 40_usize..125,
        bulk in 0_u64..4,
    ) {
        let [sent, came] = with_a_death(&delays, (dead, death), (gap, length, bulk));
        prop_assert_eq!(came, sent);
    }

    /// Whatever the other end says: no panic, and what is kept stays within bounds.
    #[test]
    fn a_hostile_end_gets_nowhere(
        frames in prop::collection::vec(
            (0_u8..3, any::<u64>(), prop::collection::vec(any::<u8>(), 0..40), 0_u8..24),
            1..300,
        ),
    ) {
        let now = Instant::ZERO;
        let config = BondConfig { is_initiator: false, mtu: 1400, mark: never };
        let mut bond = Bond::new(config, now);
        (0..2).for_each(|lane| _ = bond.add_lane(LaneId(lane), Role::Active, now));
        let mut out = Vec::new();
        for (n, (lane, sequence, mut frame, kind)) in frames.into_iter().enumerate() {
            let now = Instant::from_millis(n as u64);
            if let Some(first) = frame.first_mut() {
                *first = kind;
            }
            let _ = bond.handle_frame(LaneId(lane), sequence >> 2, &frame, now);
            bond.handle_packet(&numbered(n as u16, 0, 1400), now);
            bond.handle_timeout(now);
            let mut sent = 0;
            while bond.poll_transmit(now, &mut out).is_some() {
                sent += 1;
                prop_assert!(sent < 100, "it answers each frame by some at most");
                out.clear();
            }
        }
        prop_assert!(bond.lanes().iter().all(|lane| lane.in_flight < 1 << 22));
    }
}

/// A sequence number is a datagram's nonce.
#[test]
fn a_lane_that_comes_back_uses_no_number_twice() {
    let config = BondConfig { is_initiator: true, mtu: 1400, mark: |_| false };
    let mut bond = Bond::new(config, Instant::ZERO);
    let (mut used, mut frame, mut now) = (BTreeSet::new(), Vec::new(), Instant::ZERO);
    for _ in 0..3 {
        assert!(bond.add_lane(LaneId(1), Role::Active, now));
        for _ in 0..100 {
            now += Duration::from_millis(10);
            bond.handle_timeout(now);
            while let Some(transmit) = bond.poll_transmit(now, &mut frame) {
                assert!(used.insert(transmit.sequence), "{transmit:?}");
                frame.clear();
            }
        }
        bond.remove_lane(LaneId(1), now);
    }
    assert!(used.len() >= 15, "{}", used.len());
}
