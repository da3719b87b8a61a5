//! Calls beside an upload by TCP that fills the links' queues, of 200 ms.

use weftline_core::datagram::*;
use weftline_core::policy::Role;

use crate::world::*;

/// A call for a while, each 20 ms, of so many bytes each: what is sent goes on from number `from`.
fn call(world: &mut World, port: u16, (from, to): (u64, u64), length: usize) {
    for n in from..to {
        world.send(0, &numbered(port, n, length));
        world.send(1, &answer(port, 100));
        world.run(20);
    }
}

/// Whether each path is held back.
fn held(world: &World) -> Vec<bool> {
    world.limiters.iter().map(|limiter| limiter.limit().is_some()).collect()
}

/// How long packets of a flow took that were sent 20 ms apart from `began` on, in ms: the 95th percentile.
fn late(world: &World, (port, from): (u16, u64), began: weftline_core::Instant) -> u128 {
    let came = world.came[1].iter().map(|(at, packet)| (at, number_of(packet)));
    let came = came.filter(|(_, (flow, n))| *flow == port && *n >= from);
    let mut took: Vec<_> = came
        .map(|(at, (_, n))| at.since(began + std::time::Duration::from_millis(20 * (n - from))))
        .collect();
    took.sort_unstable();
    took[took.len() * 95 / 100].as_millis()
}

#[test]
fn a_call_holds_back_an_upload_until_it_is_over() {
    let mut world = World::new(&[Link::slow(10), Link::slow(25)], &[Role::Active; 2]);
    world.run(1_000);
    world.upload();
    world.run(2_000);
    assert_eq!(held(&world), [false; 2]);
    assert!(world.limiters.iter().all(|limiter| limiter.spent() == 0), "nobody counts");
    call(&mut world, 1, (0, 250), 160);
    let began = world.now;
    call(&mut world, 1, (250, 750), 160);
    assert_eq!(held(&world), [true; 2]);
    let p95 = late(&world, (1, 250), began);
    assert!(p95 <= 10 + 30, "{p95}");
    world.run(10_100);
    assert_eq!(held(&world), [false; 2]);
    let spent = world.limiters[0].spent();
    world.run(1_000);
    assert_eq!(world.limiters[0].spent(), spent, "nobody counts any more");
}

/// What fills its link, or most of it, is no call: TCP would be held back for it to the end.
#[test]
fn a_flow_that_has_most_of_its_link_is_no_call() {
    for (rate, is_call) in [(2_500, true), (4_500, false)] {
        let mut world = World::new(&[Link::slow(10)], &[Role::Active]);
        world.run(1_000);
        world.upload();
        // The rest of what the link carries.
        for _ in 0..5_000 {
            for n in 0..rate / 500 {
                world.send(0, &numbered(1, n, 500));
            }
            world.send(1, &answer(1, 100));
            world.run(8);
            if !is_call {
                assert_eq!(held(&world), [false], "{rate} kb/s: {:?}", world.lane(0, 0));
            }
        }
        assert_eq!(held(&world), [is_call], "{rate} kb/s");
    }
}

/// Nobody makes a call who only sends.
#[test]
fn what_is_not_answered_is_no_call() {
    let mut world = World::new(&[Link::slow(10)], &[Role::Active]);
    world.run(1_000);
    world.upload();
    for n in 0..500 {
        world.send(0, &numbered(1, n, 160));
        world.run(20);
        assert_eq!((held(&world), world.limiters[0].spent()), (vec![false], 0));
    }
}

/// Probes are long, and some are lost: none is taken for a queue, and what each lane carries is found all the same.
#[test]
fn lengths_are_found_while_a_call_lives() {
    let narrow = |packet, ms| Link { longest: packet + DATA_OVERHEAD, ..Link::slow(ms) };
    let mut world = World::new(&[narrow(1350, 10), narrow(1200, 25)], &[Role::Active; 2]);
    world.upload();
    call(&mut world, 1, (0, 1_000), 160);
    let known = [0, 1].map(|lane| world.lane(0, lane).longest_packet);
    assert!((1343..=1350).contains(&known[0]) && (1193..=1200).contains(&known[1]), "{known:?}");
    // It becomes less on the way, and is found again.
    world.links[0].longest = 1250 + DATA_OVERHEAD;
    for n in 0..1_000 {
        world.send(0, &numbered(2, n, 1340));
        call(&mut world, 1, (1_000 + n, 1_001 + n), 160);
    }
    let known = world.lane(0, 0).longest_packet;
    assert!((1243..=1250).contains(&known), "{known}");
    let began = world.now;
    call(&mut world, 1, (2_000, 2_500), 160);
    assert_eq!(held(&world), [true; 2]);
    let p95 = late(&world, (1, 2_000), began);
    assert!(p95 <= 10 + 30, "{p95}");
    let gone = (0..2_500).filter(|n| !counted(&world.came[1]).contains_key(&(1, *n))).count();
    assert!(gone <= 1, "{gone}");
}

/// A path is let go with its lane, and held again when that comes back; the other one stays as it is.
#[test]
fn a_lane_that_is_removed_lets_its_path_go() {
    let mut world = World::new(&[Link::slow(10), Link::slow(25)], &[Role::Active; 2]);
    world.run(1_000);
    world.upload();
    call(&mut world, 1, (0, 500), 160);
    assert_eq!(held(&world), [true; 2]);
    let now = world.now;
    world.ends.iter_mut().for_each(|end| end.remove_lane(LaneId(0), now));
    assert_eq!(held(&world), [false, true]);
    let limiter = world.limiters[0].clone();
    world.ends[0].set_limiter(LaneId(0), Some(limiter.clone()));
    assert!(limiter.limit().is_none(), "there is no such lane");
    // It is another lane that comes back in its place.
    for end in &mut world.ends {
        assert!(end.add_lane(LaneId(0), (Role::Active, Carrier::Udp), now));
    }
    world.ends[0].set_limiter(LaneId(0), Some(limiter));
    call(&mut world, 1, (500, 1_000), 160);
    assert_eq!(held(&world), [true; 2]);
}

/// No copies go over a metered lane to measure it, and as nothing tells of it, it is not held.
#[test]
fn a_metered_lane_costs_nothing_while_a_call_lives() {
    for (role, is_measured) in [(Role::Active, true), (Role::Metered, false)] {
        let mut world = World::new(&[Link::slow(10), Link::slow(25)], &[Role::Active, role]);
        world.run(1_000);
        world.upload();
        // 2 Mb/s, which is no urgent flow once its first packets have gone.
        let mut before = 0;
        for n in 0..2_500 {
            world.send(0, &numbered(1, n, 1000));
            world.send(1, &answer(1, 100));
            world.run(4);
            if n == 500 {
                before = world.lane(0, 1).counters.sent_packets;
            }
        }
        let copies = world.lane(0, 1).counters.sent_packets - before;
        assert_eq!(copies > 0, is_measured, "{role:?}: {copies}");
        assert_eq!(held(&world), [true, is_measured], "{role:?}");
    }
}
