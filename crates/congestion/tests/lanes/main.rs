//! Two ends of a bond and the lanes between them, with BBR on each, in virtual time.
#![allow(clippy::unwrap_used, reason = "test code")]

mod bulk;
mod calls;
mod deaths;
mod inner;
mod lengths;
mod one_flow;
mod over_tcp;
mod world;

use std::collections::BTreeSet;
use std::time::Duration;

use proptest::prelude::*;

use weftline_core::Instant;
use weftline_core::datagram::*;
use weftline_core::policy::Role;

use world::*;

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

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

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
        (0..2).for_each(|lane| _ = bond.add_lane(LaneId(lane), (Role::Active, Carrier::Udp), now));
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
        assert!(bond.add_lane(LaneId(1), (Role::Active, Carrier::Udp), now));
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
