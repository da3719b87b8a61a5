//! Links that die and come back.

use std::time::Duration;

use proptest::prelude::*;

use weftline_core::Instant;
use weftline_core::datagram::*;
use weftline_core::policy::Role;

use crate::world::*;

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

/// The one lane that is left looks as dead as the one that died before: the other end stands still.
#[test]
fn a_call_loses_nothing_when_the_other_end_stands_still_after_a_death() {
    for delays in [[5, 20], [20, 5]] {
        let mut links = delays.map(Link::new);
        links[0].dead_from = Instant::from_millis(1_000);
        let mut world = World::new(&links, &[Role::Active; 2]);
        world.run(500);
        for n in 0..200 {
            world.still = (100..110).contains(&n).then_some(1);
            world.send(0, &numbered(1, n, 160));
            world.run(20);
        }
        world.run(1_000);
        let came = counted(&world.came[1]);
        assert!((0..200).all(|n| came.get(&(1, n)) == Some(&1)), "{delays:?}: {came:?}");
        assert!(world.lane(0, 1).counters.silences > 0, "{delays:?}");
    }
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
}

/// A call with pictures, 2.5 Mb/s, whose link dies: what goes again over the other one waits for nothing there.
#[test]
fn what_a_dead_link_had_of_a_call_with_pictures_waits_for_nothing() {
    let mut dying = Link::new(100);
    (dying.dead_from, dying.dead_to) = (at(4_000), at(60_000));
    let mut world = World::new(&[dying, Link::new(130)], &[Role::Active; 2]);
    world.run(500);
    let mut sent = Vec::new();
    for n in 0..1_500 {
        sent.push(world.now);
        world.send(0, &numbered(7, n, 1250));
        world.run(4);
    }
    world.run(500);
    let [first, second] = [0, 1].map(|lane| world.lane(0, lane).counters.sent_packets);
    assert!(first > 500 && second > 300, "it was on the link that died: {first} {second}");
    let late = world.came[1].iter().map(|(at, packet)| {
        let (_, number) = number_of(packet);
        (at.since(sent[number as usize]), number)
    });
    let (latest, number) = late.filter(|(_, number)| *number > 700).max().unwrap();
    // Those of the last tenth of a second before the death is known, after a round trip and a half, go again. With
    // a gap before them that nothing fills they waited for 60 ms more.
    assert!(latest < Duration::from_millis(340), "packet {number} was on its way for {latest:?}");
}
