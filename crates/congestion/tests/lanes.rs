//! Two ends of a bond and the lanes between them, with BBR on each, in virtual time.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use proptest::prelude::*;

use weftline_congestion::lane;
use weftline_core::datagram::*;
use weftline_core::policy::Role;
use weftline_core::{Instant, time};

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
    /// The longest frame that gets through.
    longest: usize,
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
            longest: usize::MAX,
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
        let is_lost = is_lost || frame.len() > link.longest;
        if is_lost || link.is_dead(now) || backlog > link.queue {
            return;
        }
        let service = Duration::from_nanos(frame.len() as u64 * 1_000_000_000 / link.rate);
        self.free_at = self.free_at.max(now) + service;
        self.flying.push_back((self.free_at + link.delay, sequence, frame));
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
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

fn config(is_initiator: bool) -> BondConfig {
    BondConfig { is_initiator, mtu: 1400, mark: never, congestion: lane::bbr }
}

impl World {
    fn new(links: &[Link], roles: &[Role]) -> Self {
        let now = Instant::ZERO;
        let mut ends = [true, false].map(|is_initiator| Bond::new(config(is_initiator), now));
        for (n, role) in roles.iter().enumerate() {
            ends.iter_mut().for_each(|end| _ = end.add_lane(LaneId(n as u8), *role, now));
        }
        let wires = links.iter().map(|_| Default::default()).collect();
        Self { ends, links: links.to_vec(), wires, now, came: Default::default() }
    }

    fn transmit(&mut self) {
        for (n, end) in self.ends.iter_mut().enumerate() {
            end.handle_timeout(self.now);
            let waited = std::iter::from_fn(|| end.poll_packet());
            self.came[n].extend(waited.map(|packet| (self.now, packet)));
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
                    let end = &mut self.ends[to];
                    let waited = std::iter::from_fn(|| end.poll_packet());
                    self.came[to].extend(waited.map(|packet| (self.now, packet)));
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

/// An IPv4 packet of UDP between these ports, with `length` bytes in all.
fn udp(ports: (u16, u16), length: usize) -> Vec<u8> {
    let mut packet = vec![0; length.max(28)];
    packet[0] = 0x45;
    packet[9] = 17;
    packet[12..20].copy_from_slice(&[10, 87, 0, 2, 198, 51, 100, 9]);
    packet[20..22].copy_from_slice(&ports.0.to_be_bytes());
    packet[22..24].copy_from_slice(&ports.1.to_be_bytes());
    packet
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

/// Links that carry packets of 1,350 bytes, 1,200, or all there are.
#[test]
fn each_lane_is_known_for_what_it_carries_and_gets_no_more() {
    let narrow = |packet| Link { longest: packet + DATA_OVERHEAD, ..Link::new(5) };
    let mut world = World::new(&[narrow(1350), narrow(1200), Link::new(20)], &[Role::Active; 3]);
    world.run(10_000);
    let longest = |world: &World| [0, 1, 2].map(|lane| world.lane(0, lane).longest_packet);
    let known = longest(&world);
    assert!((1343..=1350).contains(&known[0]) && (1193..=1200).contains(&known[1]), "{known:?}");
    assert_eq!(known[2], 1400);
    // A call with long packets, which all come; and a download.
    for n in 0..2000_u64 {
        world.send(0, &numbered(1, n, if n % 2 == 0 { 1400 } else { 1190 }));
        (0..4).for_each(|k| world.send(1, &numbered(2, 4 * n + k, 1400)));
        world.run(2);
    }
    world.run(500);
    assert_eq!(counted(&world.came[1]).len(), 2000);
    // CoDel may drop some while the rate is not known yet.
    let dropped: u64 = world.ends[1].lanes().iter().map(|lane| lane.dropped).sum();
    assert!(dropped < 20, "{dropped}");
    assert_eq!(counted(&world.came[0]).len() as u64, 8000 - dropped);
    let lost = [0, 1, 2].map(|lane| world.lane(0, lane).counters.lost_packets);
    assert_eq!(lost, [0; 3]);
    // Now none carries as much: what may be cut is, and of the rest the sender is told.
    world.links[2].longest = 1350 + DATA_OVERHEAD;
    for n in 0..100 {
        world.send(0, &numbered(3, n, 1400));
        world.run(5);
    }
    world.run(15_000);
    assert!((1343..=1350).contains(&longest(&world)[2]), "{:?}", longest(&world));
    let mut packet = numbered(4, 0, 1400);
    packet[2..4].copy_from_slice(&1400_u16.to_be_bytes());
    world.came[1].clear();
    assert_eq!(world.ends[0].handle_packet(&packet, world.now), None);
    world.run(200);
    let came: Vec<_> = world.came[1].iter().map(|(_, packet)| packet.len()).collect();
    assert_eq!(came.iter().sum::<usize>(), 1400 + 20, "{came:?}");
    packet[6] = 0x40;
    let before = world.ends[0].counters().too_long;
    let told = world.ends[0].handle_packet(&packet, world.now);
    assert_eq!(told, longest(&world).into_iter().max());
    assert_eq!(world.ends[0].counters().too_long, before + 1);
}

/// A packet of IPv4 with its length in its header, that may be cut.
fn whole(number: u64, length: usize) -> Vec<u8> {
    let mut packet = numbered(1, number, length);
    packet[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    packet
}

/// The nearest lane carries none of the longer pieces: each goes over one that does, without copies.
#[test]
fn the_pieces_of_a_packet_go_over_lanes_that_carry_them() {
    let narrow = |packet, ms| Link { longest: packet + DATA_OVERHEAD, ..Link::new(ms) };
    let mut world = World::new(&[narrow(1180, 5), narrow(1350, 30)], &[Role::Active; 2]);
    world.run(15_000);
    for n in 0..200 {
        world.send(0, &whole(n, 1400));
        world.run(10);
    }
    world.run(500);
    let bytes: usize = world.came[1].iter().map(|(_, packet)| packet.len() - 20).sum();
    assert_eq!((world.came[1].len(), bytes), (400, 200 * 1380));
    assert_eq!([0, 1].map(|lane| world.lane(0, lane).counters.lost_packets), [0; 2]);
}

/// Of a lane that has just come back nobody knows what it carries; of the nearer one it is known that it does
/// not carry as much.
#[test]
fn a_lane_that_is_known_not_to_carry_a_packet_comes_last() {
    let narrow = Link { longest: 1180 + DATA_OVERHEAD, ..Link::new(5) };
    let back = Link { dead_from: at(15_000), dead_to: at(17_000), ..Link::new(40) };
    let mut world = World::new(&[narrow, back], &[Role::Active; 2]);
    world.run(14_000);
    world.send(0, &numbered(1, 0, 100));
    world.run(1_100);
    world.send(0, &numbered(1, 1, 100));
    world.run(1_000);
    assert_eq!(world.lane(0, 1).state, LaneState::Silent);
    while world.lane(0, 1).state != LaneState::Up {
        world.run(1);
    }
    assert!(world.lane(0, 1).longest_packet < 1400);
    let before = [0, 1].map(|lane| world.lane(0, lane).counters);
    (0..10).for_each(|n| world.send(0, &whole(n, 1400)));
    let sent = [0, 1].map(|lane: u8| {
        world.lane(0, lane).counters.sent_packets - before[usize::from(lane)].sent_packets
    });
    assert_eq!((sent, world.lane(0, 1).counters.copies), ([0, 10], before[1].copies));
}

#[test]
fn what_waits_for_a_lane_that_goes_moves_to_one_that_carries_it() {
    let narrow = Link { longest: 1180 + DATA_OVERHEAD, ..Link::new(5) };
    let slow = Link { rate: 400_000, ..Link::new(10) };
    let mut world = World::new(&[narrow, slow, Link::new(90)], &[Role::Active; 3]);
    world.run(15_000);
    for n in 0..400 {
        world.send(0, &whole(n, 1400));
        world.run(2);
        if world.lane(0, 1).waiting > 10 {
            break;
        }
    }
    assert!(world.lane(0, 1).waiting > 10, "{:?}", world.lane(0, 1));
    let before = world.lane(0, 2).counters.sent_packets;
    world.links[1].dead_from = world.now;
    world.run(2_000);
    let [narrow, wide] = [0, 2].map(|place| world.lane(0, place).counters);
    assert_eq!((narrow.sent_packets, narrow.lost_packets), (0, 0));
    assert!(wide.sent_packets > before + 10);
}

/// The only lane that is left carries less: what was on its way, and what waits, comes in pieces.
#[test]
fn what_moves_to_a_lane_that_carries_less_is_cut_again() {
    let narrow = Link { longest: 1250 + DATA_OVERHEAD, ..Link::new(30) };
    let slow = Link { rate: 400_000, ..Link::new(10) };
    let mut world = World::new(&[slow, narrow], &[Role::Active; 2]);
    world.run(15_000);
    (0..400).find(|&n| {
        world.send(0, &whole(n, 1400));
        world.run(2);
        world.lane(0, 0).waiting > 10
    });
    let waiting = world.lane(0, 0).waiting;
    world.links[0].dead_from = world.now;
    world.came[1].clear();
    // A new flow, whose first packets are urgent; and one that must not be cut.
    for n in 0..5 {
        let mut packet = whole(n, 1400);
        packet[20..22].copy_from_slice(&77_u16.to_be_bytes());
        world.send(0, &packet);
    }
    let mut uncut = whole(9, 1400);
    uncut[6] = 0x40;
    world.send(0, &uncut);
    world.run(3_000);
    let urgent = world.came[1].iter().filter(|(_, packet)| packet[20..22] == [0, 77]);
    assert_eq!(urgent.count(), 5, "the first piece of each, which has the ports");
    let bytes: usize = world.came[1].iter().map(|(_, packet)| packet.len() - 20).sum();
    // What was on its way for more than 100 ms is lost, if it is not urgent.
    assert!(
        bytes as u64 >= (waiting + 5) * 1380 && bytes.is_multiple_of(1380),
        "{bytes} of {waiting}"
    );
    let lane = world.lane(0, 1).counters;
    assert!(lane.resent > 10 && lane.lost_packets == 0, "{lane:?}");
    assert_eq!(world.ends[0].counters().too_long, 1, "what must not be cut is counted");
}

/// What was sent into the silence of a lane that never comes back holds up nothing on another.
#[test]
fn what_is_lost_in_silence_makes_way() {
    let mut links = [Link::new(5), Link::new(10)];
    links[0].dead_from = Instant::from_millis(1_000);
    links[1] = Link {
        dead_from: Instant::from_millis(1_000),
        dead_to: Instant::from_millis(3_000),
        ..links[1]
    };
    let mut world = World::new(&links, &[Role::Active; 2]);
    world.run(1_200);
    // The first packets of many flows, all of them urgent.
    for n in 0..12_000_u64 {
        world.send(0, &numbered(10_000 + (n / 16) as u16, n, 1000));
        if n.is_multiple_of(8) {
            world.run(1);
        }
    }
    world.run(2_500);
    assert_eq!(world.lane(0, 1).state, LaneState::Up);
    for n in 0..3_000 {
        world.send(0, &numbered(7, n, 1400));
        world.run(1);
    }
    let bulk = world.came[1].iter().filter(|(_, packet)| number_of(packet).0 == 7).count();
    assert!(bulk > 2_700, "{bulk} of 3000: {:?}", world.lane(0, 1));
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

/// What bulk half as fast again as its link does there, and to a call of 50 packets a second beside it.
#[derive(Debug)]
struct Figures {
    /// The part of the link's rate that it has, and of its packets that the link loses.
    goodput: f64,
    lost: f64,
    /// How much later than on an idle link 19 of 20 packets of the call come.
    late: Duration,
    called: usize,
    /// How often the lane was taken to be silent, which it never was.
    silences: u64,
}

fn bulk_on(link: Link, seconds: u64) -> Figures {
    let mut world = World::new(&[link], &[Role::Active]);
    world.run(500);
    let begun = world.lane(0, 0).counters;
    let begin = world.now;
    let (mut number, mut call) = (0, Vec::new());
    // As it comes from a program that knows no better: each millisecond, and never less than goes.
    for n in 0..seconds * 1000 {
        while number * 1400 < link.rate * 3 / 2 * n / 1000 {
            world.send(0, &numbered(7, number, 1400));
            number += 1;
        }
        if n % 20 == 0 {
            world.send(0, &numbered(1, n / 20, 160));
            call.push(world.now);
        }
        world.run(1);
    }
    let ended = world.lane(0, 0).counters;
    let came = |port| world.came[1].iter().filter(move |(_, packet)| number_of(packet).0 == port);
    let mut late: Vec<_> =
        came(1).map(|(at, packet)| at.since(call[number_of(packet).1 as usize])).collect();
    late.sort();
    // From the fourth second on.
    let late_bulk = came(7).filter(|(at, _)| *at > begin + Duration::from_secs(3)).count();
    let [lost, sent] = [ended.lost_packets - begun.lost_packets, ended.sent_packets];
    Figures {
        goodput: late_bulk as f64 * 1400.0 / (link.rate * (seconds - 3)) as f64,
        lost: lost as f64 / sent as f64,
        late: late[late.len() * 95 / 100].saturating_sub(link.delay),
        called: late.len(),
        silences: ended.silences,
    }
}

/// Bulk on links of a rate, with round trips of 10, 40 and 100 ms: with a queue of 200 ms, of half a
/// product of rate and round trip, and with one of 100 packets lost.
fn bulk_fills_links_of(mbps: u64) {
    let rate = mbps * 125_000;
    for rtt in [10, 40, 100] {
        let long = Link { rate, queue: rate / 5, ..Link::new(rtt / 2) };
        let short = Link { queue: (rate * rtt / 2000).max(LEAST_SHORT), ..long };
        let lossy = Link { lossy: 100, ..long };
        for (name, link) in [("long", long), ("short", short), ("lossy", lossy)] {
            let figures = bulk_on(link, 30);
            let said = format!("{mbps} Mb/s, {rtt} ms, {name}: {figures:?}");
            assert!(figures.goodput >= 0.95, "{said}");
            assert!(figures.lost < 0.05, "{said}");
            assert!(figures.late < Duration::from_millis(60), "{said}");
            // What was lost went again; the last ones are on their way.
            assert!(figures.called >= 1490 && figures.silences == 0, "{said}");
        }
    }
}

/// Ten packets: a queue of two or three, half a product of 5 Mb/s and 10 ms, overflows by a call beside.
const LEAST_SHORT: u64 = 14_000;

#[test]
fn bulk_fills_a_link_of_5_mbps_and_little_is_lost() {
    bulk_fills_links_of(5);
}

#[test]
fn bulk_fills_a_link_of_20_mbps_and_little_is_lost() {
    bulk_fills_links_of(20);
}

#[test]
fn bulk_fills_a_link_of_100_mbps_and_little_is_lost() {
    bulk_fills_links_of(100);
}

/// The round trip of the way before is forgotten.
#[test]
fn bulk_fills_a_link_whose_way_gets_longer() {
    let link = Link { rate: 2_500_000, queue: 500_000, ..Link::new(5) };
    let mut world = World::new(&[link], &[Role::Active]);
    let mut number = 0;
    let mut run = |world: &mut World, seconds: u64| {
        let before = world.came[1].len();
        for _ in 0..seconds * 1000 {
            // 33.6 Mb/s.
            for _ in 0..3 {
                world.send(0, &numbered(7, number, 1400));
                number += 1;
            }
            world.run(1);
        }
        (world.came[1].len() - before) as u64 * 1400
    };
    run(&mut world, 5);
    assert!(world.lane(0, 0).least_rtt.unwrap() < Duration::from_millis(15));
    world.links[0].delay = Duration::from_millis(70);
    run(&mut world, 16);
    // BBR empties the queue once in ten seconds.
    let came = run(&mut world, 10);
    let lane = world.lane(0, 0);
    assert!(lane.least_rtt.unwrap() >= Duration::from_millis(140), "{lane:?}");
    assert!(came > 10 * link.rate * 9 / 10, "{came}: {lane:?}");
}

/// What is lost by chance of a call alone does not make its rate that of the link.
#[test]
fn bulk_begins_at_once_beside_a_call_on_a_lossy_link() {
    for (rtt, lossy) in [(20, 25), (40, 12), (80, 30)] {
        let link = Link { rate: 2_500_000, queue: 500_000, lossy, ..Link::new(rtt / 2) };
        let mut world = World::new(&[link], &[Role::Active]);
        world.run(500);
        for n in 0..1000 {
            world.send(0, &numbered(1, n, 160));
            world.run(20);
        }
        let before = world.came[1].len();
        let mut number = 0;
        for n in 0..4000 {
            // 30 Mb/s come.
            while number * 1400 < 3750 * n {
                world.send(0, &numbered(7, number, 1400));
                number += 1;
            }
            if n % 20 == 0 {
                world.send(0, &numbered(1, 1000 + n / 20, 160));
            }
            world.run(1);
        }
        let came = (world.came[1].len() - before) as u64 * 1400;
        let lane = world.lane(0, 0);
        assert!(came > 4 * link.rate * 8 / 10, "{rtt} ms, 1 of {lossy}: {came}: {lane:?}");
    }
}

/// A link that has become slower than what it is given is known to be, though nothing waits here.
#[test]
fn a_link_that_loses_what_is_too_much_is_known_for_its_rate() {
    for queue in [100_000, 6_000] {
        let link = Link { rate: 2_500_000, queue: 500_000, ..Link::new(10) };
        let mut world = World::new(&[link], &[Role::Active]);
        let mut number = 0;
        let mut run = |world: &mut World, ms: u64| {
            // 11.2 Mb/s.
            for _ in 0..ms {
                world.send(0, &numbered(7, number, 1400));
                number += 1;
                world.run(1);
            }
        };
        run(&mut world, 5_000);
        world.links[0] = Link { rate: 500_000, queue, ..link };
        run(&mut world, 10_000);
        let lane = world.lane(0, 0);
        assert!(lane.pacing.as_bps() < 6_000_000, "queue of {queue}: {lane:?}");
    }
}

/// What one flow at a rate does on two links, for ten seconds after two: the part of what was sent that
/// came, the part of that which came after others behind it, and how late 19 of 20 packets of a call beside it are.
struct OneFlow {
    came: f64,
    disordered: f64,
    call_ms: f64,
    by_lane: [u64; 2],
}

fn one_flow(links: &[Link; 2], mbps: u64) -> OneFlow {
    let mut world = World::new(links, &[Role::Active; 2]);
    world.run(500);
    let (mut number, mut call, mut begin) = (0, Vec::new(), (0, world.now));
    for n in 0..12_000 {
        if n == 2_000 {
            begin = (number, world.now);
        }
        while number * 1400 < mbps * 125 * n {
            world.send(0, &numbered(7, number, 1400));
            number += 1;
        }
        if n % 20 == 0 {
            world.send(0, &numbered(1, n / 20, 160));
            call.push(world.now);
        }
        world.run(1);
    }
    let (first, begin) = begin;
    let since = world.came[1].iter().filter(|(at, _)| *at > begin);
    let bulk = since.clone().map(|(_, packet)| number_of(packet)).filter(|one| one.0 == 7);
    let bulk: Vec<u64> = bulk.map(|(_, number)| number).collect();
    let mut late: Vec<f64> = since
        .map(|(at, packet)| (at, number_of(packet)))
        .filter(|(_, one)| one.0 == 1)
        .map(|(at, one)| at.since(call[one.1 as usize]).as_secs_f64() * 1e3)
        .collect();
    late.sort_by(f64::total_cmp);
    let mut greatest = 0;
    let disordered = bulk.iter().filter(|&&one| {
        greatest = greatest.max(one);
        one < greatest
    });
    OneFlow {
        disordered: disordered.count() as f64 / bulk.len() as f64,
        came: bulk.len() as f64 / (number - first) as f64,
        call_ms: late[late.len() * 95 / 100],
        by_lane: [0, 1].map(|lane| world.lane(0, lane).counters.sent_bytes),
    }
}

fn near_and_far() -> [Link; 2] {
    [
        Link { rate: 6_250_000, queue: 1_250_000, ..Link::new(4) },
        Link { rate: 3_750_000, queue: 750_000, ..Link::new(20) },
    ]
}

/// 50 Mb/s with a round trip of 8 ms beside 30 Mb/s with one of 40 ms.
#[test]
fn one_flow_has_the_sum_of_two_links_in_order() {
    let links = near_and_far();
    for mbps in [60, 70, 100] {
        let OneFlow { came, disordered, call_ms, by_lane } = one_flow(&links, mbps);
        let said = format!("{mbps} Mb/s: {came:.3}, {disordered:.4}, {call_ms:.1} ms, {by_lane:?}");
        let most = (80.0 / mbps as f64).min(1.0);
        assert!(came > 0.93 * most, "{said}");
        assert!(disordered < 0.01, "{said}");
        assert!(call_ms < 40.0, "{said}");
    }
}

/// It keeps to the nearer link while that is enough.
#[test]
fn one_flow_that_has_room_on_a_link_stays_there() {
    let OneFlow { came, disordered, call_ms, by_lane } = one_flow(&near_and_far(), 30);
    let said = format!("{came:.3}, {disordered:.4}, {call_ms:.1} ms, {by_lane:?}");
    assert!(came > 0.99 && disordered == 0.0 && call_ms < 20.0, "{said}");
    assert!(by_lane[1] < by_lane[0] / 50, "{said}");
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
    // So much bulk is on its way that nothing would be kept of a call.
    let [sent, came] = with_a_death(&[51, 54], (0, 1143), (29, 45, 3));
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
        let mut bond = Bond::new(config(false), now);
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
    let mut bond = Bond::new(config(true), Instant::ZERO);
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
