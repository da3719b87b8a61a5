//! Bulk on a link, and a call beside it.

use std::time::Duration;

use weftline_core::policy::Role;

use crate::world::*;

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

/// What a camera sends, or a game, beside which nothing fills the links.
#[test]
fn an_even_flow_that_a_link_carries_is_never_held_up() {
    // 10 and 5 Mb/s, whose queues hold one product of rate and round trip.
    let wifi = Link { rate: 1_250_000, queue: 25_000, ..Link::new(10) };
    let lte = Link { rate: 625_000, queue: 37_500, ..Link::new(30) };
    let mut world = World::new(&[wifi, lte], &[Role::Active; 2]);
    world.run(500);
    let (mut number, mut sent) = (0, Vec::new());
    for ms in 0..40_000 {
        // 8 Mb/s.
        while number * 1228 < 1000 * ms {
            world.send(0, &numbered(7, number, 1228));
            sent.push(world.now);
            number += 1;
        }
        world.run(1);
    }
    world.run(500);
    let came: Vec<_> =
        world.came[1].iter().map(|(at, packet)| (*at, number_of(packet).1)).collect();
    assert_eq!(came.len() as u64, number, "lost: {}", number - came.len() as u64);
    // Once the link's rate is known.
    let late = came.iter().filter(|(_, of)| *of > number / 20);
    let longest = late.map(|(at, of)| at.since(sent[*of as usize])).max().unwrap();
    assert!(longest < Duration::from_millis(40), "{longest:?}");
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

/// Nor does a call alone, which is sent far below the link's rate, keep it.
#[test]
fn bulk_fills_a_link_whose_way_got_longer_during_a_call() {
    let link = Link { rate: 2_500_000, queue: 500_000, ..Link::new(10) };
    let mut world = World::new(&[link], &[Role::Active]);
    let mut number = 0;
    let mut call = |world: &mut World, seconds: u64| {
        for _ in 0..seconds * 50 {
            world.send(0, &numbered(1, number, 160));
            number += 1;
            world.run(20);
        }
    };
    call(&mut world, 5);
    world.links[0].delay = Duration::from_millis(50);
    call(&mut world, 25);
    let before = world.came[1].len();
    for n in 0..5_000 {
        // 33.6 Mb/s.
        (0..3).for_each(|part| world.send(0, &numbered(7, 3 * n + part, 1400)));
        world.run(1);
    }
    // A start of ten round trips, and then all of it.
    let came = (world.came[1].len() - before) as u64 * 1400;
    assert!(came > 5 * link.rate * 3 / 4, "{came}: {:?}", world.lane(0, 0));
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

/// 8 Mb/s that take no notice of losses, on a link of 5: some of them wait for a second, and none for longer.
#[test]
fn what_takes_no_notice_of_losses_waits_for_a_second_at_most() {
    let link = Link { rate: 625_000, queue: 125_000, ..Link::new(30) };
    let mut world = World::new(&[link], &[Role::Active]);
    world.run(500);
    let mut sent = Vec::new();
    for n in 0..10_000 {
        sent.push(world.now);
        world.send(0, &numbered(7, n, 1000));
        world.run(1);
    }
    let late = |(at, packet): &(weftline_core::Instant, Vec<u8>)| {
        at.since(sent[usize::try_from(number_of(packet).1).unwrap()])
    };
    let longest = world.came[1].iter().map(late).max().unwrap();
    assert!(longest < Duration::from_millis(1_250), "{longest:?}");
    let came = world.came[1].len() * 1000;
    assert!(came > 10 * 625_000 * 85 / 100, "{came} bytes");
}
