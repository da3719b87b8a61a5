//! One flow over two links, in order.

use weftline_core::policy::Role;

use crate::world::*;

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
