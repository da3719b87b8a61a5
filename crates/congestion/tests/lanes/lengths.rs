//! What each lane carries is found, and longer packets are cut or told of.

use weftline_core::datagram::*;
use weftline_core::policy::Role;

use crate::world::*;

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
