//! A lane over TCP: what it is used for, and that a stall is none of its deaths.

use std::time::Duration;

use weftline_core::policy::Role;

use crate::world::*;

/// Sends a call of 50 packets a second, and some of a flow that is faster, for a while.
fn talk(world: &mut World, from: u64, to: u64) {
    for n in from..to {
        world.send(0, &numbered(1, n, 160));
        (0..4).for_each(|part| world.send(0, &numbered(2, 4 * n + part, 1200)));
        world.run(20);
    }
}

fn sent(world: &World) -> Vec<u64> {
    world.ends[0].lanes().iter().map(|lane| lane.counters.sent_packets).collect()
}

#[test]
fn what_udp_carries_does_not_go_over_tcp_and_takes_it_over_when_that_dies() {
    let udp = Link { dead_from: at(4_000), dead_to: at(8_000), ..Link::new(10) };
    let mut world = World::new(&[udp, Link::new(10).by_tcp()], &[Role::Active; 2]);
    world.run(1000);
    let before = sent(&world)[1];
    talk(&mut world, 0, 100);
    assert_eq!(sent(&world)[1], before, "no packet and no copy");
    // It dies, and is back.
    talk(&mut world, 100, 500);
    let (called, again) = (counted(&world.came[1]), sent(&world)[1]);
    assert!(again > 500 && called.keys().filter(|(port, _)| *port == 1).count() == 500);
    let bulk = called.keys().filter(|(port, _)| *port == 2).count();
    assert!(bulk >= 1980, "{bulk} of 2000");
    assert!(called.values().all(|times| *times == 1));
    world.run(2000);
    talk(&mut world, 500, 600);
    assert_eq!(sent(&world)[1], again, "what UDP carries goes there again");
    assert_eq!(counted(&world.came[1]).keys().filter(|(port, _)| *port == 1).count(), 600);
}

#[test]
fn one_that_costs_nothing_comes_before_udp_that_does() {
    let mut world =
        World::new(&[Link::new(10), Link::new(10).by_tcp()], &[Role::Metered, Role::Active]);
    world.run(1000);
    let before = sent(&world)[0];
    talk(&mut world, 0, 100);
    assert_eq!(sent(&world)[0], before);
    assert_eq!(counted(&world.came[1]).len(), 500);
}

#[test]
fn a_stall_is_no_death_and_nothing_goes_twice() {
    // One of a hundred is lost on its way, and sent again by TCP.
    let link = Link { lossy: 100, ..Link::new(20) }.by_tcp();
    let mut world = World::new(&[link], &[Role::Active]);
    world.run(1000);
    talk(&mut world, 0, 500);
    world.run(1000);
    let (came, counters) = (counted(&world.came[1]), world.lane(0, 0).counters);
    assert_eq!((came.len(), came.values().max()), (2500, Some(&1)));
    assert_eq!((counters.lost_packets, counters.resent, counters.silences), (0, 0, 0));
    assert_eq!(world.ends[1].counters().duplicates, 0);
}

#[test]
fn one_that_carries_nothing_is_known_for_that_within_three_seconds() {
    let link = Link { dead_from: at(3_000), dead_to: at(20_000), ..Link::new(20) }.by_tcp();
    let mut world = World::new(&[link], &[Role::Active]);
    world.run(1000);
    talk(&mut world, 0, 250);
    assert_eq!(world.ends[0].lanes_up(), 0, "dead for three seconds");
    // It is up again with the first word.
    talk(&mut world, 250, 1_100);
    assert_eq!(world.ends[0].lanes_up(), 1);
}

/// What bulk half as fast again as a link has of it from some time on, and how long 95 of 100 packets of a call
/// beside it take at most.
fn bulk_and_call(link: Link, from_ms: u64) -> (f64, Duration) {
    let mut world = World::new(&[link], &[Role::Active]);
    world.run(500);
    let (mut number, mut call) = (0, Vec::new());
    for n in 0..1_000 {
        while number < (n + 1) * link.rate * 3 / 2 / 100 / 1400 {
            world.send(0, &numbered(7, number, 1400));
            number += 1;
        }
        world.send(0, &numbered(1, n, 160));
        call.push(world.now);
        world.run(10);
    }
    let came = world.came[1].iter().filter(|(at_, _)| *at_ > at(500 + from_ms));
    let bulk = came.clone().filter(|(_, packet)| number_of(packet).0 == 7).count();
    let calls = came.filter(|(_, packet)| number_of(packet).0 == 1);
    let mut delays: Vec<_> =
        calls.map(|(at, packet)| at.since(call[number_of(packet).1 as usize])).collect();
    delays.sort();
    let could = link.rate as f64 * (10_000 - from_ms) as f64 / 1e3;
    ((bulk * 1400) as f64 / could, delays[delays.len() * 95 / 100])
}

#[test]
fn bulk_and_a_call_beside_it_have_what_they_have_over_udp() {
    for (mbps, delay_ms) in [(2, 20), (20, 10), (20, 100), (100, 10)] {
        let rate = mbps * 125_000;
        let link = Link { rate, queue: rate, ..Link::new(delay_ms) };
        // From the beginning, and once the lane is known.
        for from_ms in [0, 5_000] {
            let [(goodput, wait), (other, other_wait)] =
                [link, link.by_tcp()].map(|link| bulk_and_call(link, from_ms));
            let said = format!(
                "{mbps} Mb/s, {delay_ms} ms, from {from_ms} ms: {goodput:.3} {wait:?} by UDP, {other:.3} \
                 {other_wait:?} by TCP"
            );
            assert!(goodput > 0.7 && other > goodput - 0.02, "{said}");
            assert!(other_wait <= wait + wait / 20 + Duration::from_millis(1), "{said}");
        }
    }
}

/// The connection goes over several links, and hands over what is whole.
#[test]
fn a_flow_is_put_in_order_that_came_over_several_links() {
    let link = Link { farther: 5, ..Link::new(10) }.by_tcp();
    let mut world = World::new(&[link], &[Role::Active]);
    world.run(1000);
    for n in 0..400 {
        // 10 Mb/s, so that it is bulk; and 0.6 beside it.
        (0..10).for_each(|part| world.send(0, &numbered(3, 10 * n + part, 1200)));
        (0..2).for_each(|part| world.send(0, &numbered(4, 2 * n + part, 400)));
        world.run(10);
    }
    world.run(500);
    for (port, packets) in [(3, 4000), (4, 800)] {
        let came = world.came[1].iter().map(|(_, packet)| number_of(packet));
        let came: Vec<u64> = came.filter(|one| one.0 == port).map(|one| one.1).collect();
        assert_eq!(came.len(), packets);
        // The first ones are urgent, which wait for nothing.
        assert!(came[400..].is_sorted(), "{port}");
    }
}

/// Packets get their numbers as they leave: what the queue before that drops is no gap.
#[test]
fn what_the_queue_drops_is_waited_for_by_nobody() {
    let link = Link { rate: 2_500_000, queue: 2_500_000, ..Link::new(10) }.by_tcp();
    let mut world = World::new(&[link], &[Role::Active]);
    world.run(500);
    for n in 0..4_000 {
        // 30 Mb/s.
        (0..3).for_each(|part| world.send(0, &numbered(7, 3 * n + part, 1250)));
        world.run(1);
    }
    let lane = world.lane(0, 0);
    assert!(lane.dropped + lane.overflowed > 1_000, "{lane:?}");
    let came: Vec<_> = world.came[1].iter().filter(|(at_, _)| *at_ > at(2_500)).collect();
    assert!(came.is_sorted_by_key(|(_, packet)| number_of(packet).1));
    let longest = came.windows(2).map(|two| two[1].0.since(two[0].0)).max().unwrap();
    assert!(longest < Duration::from_millis(20), "{longest:?}");
}
