//! What protects calls, over a link of many kinds.

mod world;

use proptest::prelude::*;

use super::*;
use world::{LEAST_RATE, World};

#[test]
fn a_call_waits_little_and_tcp_has_nearly_all() {
    for mbps in [2.0, 20.0, 300.0] {
        for way_ms in [4, 40, 200] {
            let mut world = World::new(mbps, way_ms);
            world.run(10_000);
            let (wait, part) = world.measure(60_000);
            // And what two packets take.
            let most = 30.0 + 24.0 / mbps;
            assert!(wait <= most && part >= 0.9, "{mbps} Mb/s {way_ms} ms: {wait} {part}");
        }
    }
}

/// A queue of a far link grows for a round trip before a cut shows, to several times what was cut for; it is
/// emptied nonetheless.
#[test]
fn a_queue_that_grows_until_a_cut_shows_is_ours() {
    let mut world = World::new(367.6106055489412, 278);
    (world.longest, world.every_ms, world.noise_us) = (0.7939456616717773, 42, 430);
    (world.ahead_us, world.ppm) = (0, 0);
    world.run(20_000);
    let (wait, part) = world.measure(60_000);
    assert!(wait <= 45.0 && part >= 0.9, "{wait} {part}");
    assert_eq!(world.hold.status().in_vain, 0);
}

/// What is told of each few milliseconds shows the same queue as what is told of now and then.
#[test]
fn a_queue_shows_however_often_it_is_told_of() {
    for every_ms in [1, 2, 4, 7, 20] {
        for noise_us in [0, 2_000, 4_000] {
            let mut world = World::new(40.0, 40);
            (world.every_ms, world.noise_us) = (every_ms, noise_us);
            world.run(20_000);
            world.rate /= 2.0;
            world.run(10_000);
            let (wait, part) = world.measure(20_000);
            let said = format!("each {every_ms} ms, {noise_us} us of noise");
            assert!(wait <= 45.0 && part >= 0.9, "{said}: {wait} {part}");
        }
    }
}

/// A radio that scans, or a cell that hands over: for a while each second or two all packets are late, whatever is
/// sent. That is nothing to hold TCP back for, however often it comes.
#[test]
fn delay_that_comes_and_goes_by_itself_costs_little() {
    for (mbps, way_ms, ms, every_ms, least) in [
        (20.0, 40, 100, 1_000, 0.9),
        (20.0, 40, 100, 2_000, 0.9),
        (50.0, 20, 80, 1_000, 0.9),
        (5.0, 60, 150, 2_000, 0.9),
        (2.0, 40, 100, 1_000, 0.9),
        (20.0, 200, 100, 1_000, 0.9),
        (20.0, 40, 300, 3_000, 0.9),
        // What waits is emptied for as long as the delay lasts.
        (20.0, 40, 200, 500, 0.8),
        (20.0, 40, 500, 1_000, 0.8),
        (20.0, 40, 500, 2_000, 0.8),
        (100.0, 100, 500, 3_000, 0.8),
        (20.0, 40, 1_000, 5_000, 0.8),
    ] {
        for extra_ms in [20, 50, 100, 200] {
            let mut world = World::new(mbps, way_ms);
            let part = world.jump(&[(extra_ms, ms), (0, every_ms - ms)], 120_000);
            let said = format!("{mbps} Mb/s, {way_ms} ms, {extra_ms} ms for {ms} of {every_ms}");
            assert!(part > least, "{said}: {part}");
            // What is late for a moment hides no queue of ours.
            if ms <= 150 {
                let (wait, in_vain) = (world.late_ms(), world.hold.in_vain);
                assert!(wait <= 45.0 + 24.0 / mbps && in_vain == 0, "{said}: {wait} ms, {in_vain}");
            }
        }
    }
}

/// It grows in steps, and is cut for again: the limit is the one before the first of these cuts.
#[test]
fn delay_that_grows_in_steps_and_goes_costs_little() {
    let mut world = World::new(20.0, 20);
    let part = world.jump(&[(60, 400), (120, 400), (200, 400), (0, 1_500)], 240_000);
    assert!(part > 0.8, "{part}");
}

/// Tiles, pages, parts of a video: a queue of ours that goes by itself comes again.
#[test]
fn a_call_waits_little_beside_bursts() {
    for (mbps, way_ms, every_ms, part, fast) in [
        (20.0, 40, 1_000, 0.5, 1.5),
        (20.0, 40, 1_000, 0.5, 3.0),
        (50.0, 20, 2_000, 0.2, 3.0),
        (50.0, 20, 2_000, 0.5, 3.0),
        (300.0, 10, 2_000, 0.5, 1.5),
        (300.0, 10, 500, 0.3, 1.5),
    ] {
        let mut world = World::new(mbps, way_ms);
        world.bursts = Some((every_ms, part, fast));
        world.run(6_000);
        let (wait, came) = world.measure(120_000);
        let said = format!("{mbps} Mb/s, {way_ms} ms, {part} at {fast} each {every_ms} ms");
        assert!(wait <= 30.0 && came >= 0.97 * part, "{said}: {wait} {came}");
    }
}

/// A limit that grew while TCP pauses would be none when it sends again, and a far link's queue is full before a cut
/// shows.
#[test]
fn a_limit_does_not_grow_in_pauses() {
    for (mbps, way_ms, longest, every_ms, burst) in [
        (158.0, 274, 0.56, 30, (1_643, 0.38, 2.2)),
        (147.0, 219, 0.89, 7, (1_599, 0.28, 3.5)),
        (342.0, 150, 0.63, 15, (1_782, 0.29, 2.0)),
        (322.0, 161, 0.97, 30, (1_552, 0.27, 2.5)),
    ] {
        let mut world = World::new(mbps, way_ms);
        (world.longest, world.every_ms, world.bursts) = (longest, every_ms, Some(burst));
        world.run(20_000);
        let (wait, came) = world.measure(120_000);
        let said = format!("{mbps} Mb/s, {way_ms} ms: {wait} {came}");
        assert!(wait <= 30.0 && came >= 0.97 * burst.1, "{said}");
    }
}

/// The other end says that all was late, and that it is less and less so: nobody can tell this from a queue, and TCP
/// has a fifth however long it goes on.
#[test]
fn what_the_other_end_says_starves_nobody() {
    for (extra_ms, late_ms, fall_ms, calm_ms) in
        [(60, 600, 400, 0), (20, 300, 200, 60), (60, 600, 200, 0), (60, 160, 200, 60)]
    {
        let mut world = World::new(50.0, 20);
        world.run(5_000);
        let fall = (0..10).rev().map(|n| (extra_ms * n / 10, fall_ms / 10));
        let mut steps = vec![(extra_ms, late_ms), (0, calm_ms)];
        steps.splice(1..1, fall);
        world.limits.clear();
        let part = world.jump(&steps, 300_000);
        let least = world.limits.iter().copied().fold(f64::INFINITY, f64::min) / world.rate;
        assert!(least >= 0.16 && part > 0.16, "{steps:?}: {least} {part}");
    }
}

/// What is left in any case is more than the whole link, for as long as that is not known.
#[test]
fn a_link_that_carries_a_twentieth_from_now_on_is_known_in_a_minute() {
    let mut world = World::new(60.0, 40);
    world.run(20_000);
    world.rate /= 20.0;
    world.run(60_000);
    let (wait, part) = world.measure(60_000);
    assert!(wait <= 38.0 && part >= 0.9, "{wait} {part}");
}

/// What a link carries shows by how much delays grow, whatever counts as the least of them meanwhile, and whatever is
/// done to a clock.
#[test]
fn what_was_carried_follows_delays_and_not_their_base() {
    let mark = |ms: u64, owd_us: i64, queue_us: u64| {
        let carried = Carried { tcp: 1_000 * ms, lane: 0, bulk: 0 };
        Mark { sent: Instant::from_millis(ms), carried, owd_us, queue_us }
    };
    let first = mark(1_000, 180_000, 100_000);
    for (last, expected) in [
        (mark(1_500, 180_000, 100_000), 1e6),
        // The least is forgotten, and the delay has not changed.
        (mark(1_500, 180_000, 20_000), 1e6),
        (mark(1_500, 280_000, 200_000), 1e6 / 1.2),
        (mark(1_500, 80_000, 0), 1e6 / 0.8),
        // A clock is set, forth and back.
        (mark(1_500, 3_600_000_000, 100_000), 1e6 / 1.2),
        (mark(1_500, i64::MIN, 100_000), 1e6 / 0.8),
    ] {
        let served = last.served(&first);
        assert!((served - expected).abs() < 1.0, "{last:?}: {served}, {expected}");
    }
}

#[test]
fn without_a_call_nothing_is_held() {
    let mut world = World::new(20.0, 40);
    world.is_called = false;
    let (wait, part) = world.measure(60_000);
    assert!(wait > 150.0 && part > 0.98 && world.limits.is_empty(), "{wait} {part}");
    assert_eq!(world.hold.poll_timeout(), None);
    assert_eq!(world.hold.status().cuts, 0);
}

#[test]
fn a_path_is_let_go_ten_seconds_after_the_last_packet_of_a_call() {
    let mut world = World::new(20.0, 40);
    world.run(10_000);
    assert!(world.limit().is_some());
    world.is_called = false;
    // The last packet was sent within 20 ms.
    world.run(9_979);
    assert!(world.limit().is_some());
    world.run(22);
    assert_eq!((world.limit(), world.hold.poll_timeout()), (None, None));
}

#[test]
fn nothing_is_held_while_tcp_leaves_room() {
    let mut world = World::new(20.0, 40);
    world.wants = world.rate * 0.8;
    // Whether there is a queue is found out first.
    world.run(2_000);
    let (wait, part) = world.measure(60_000);
    assert!(world.limits.is_empty() && wait < 1.0 && part > 0.75, "{wait} {part}");
}

/// The least delay has never been seen, and is found out in a moment.
#[test]
fn a_call_that_begins_in_a_download_is_protected() {
    let mut world = World::new(20.0, 40);
    world.is_called = false;
    world.run(60_000);
    world.is_called = true;
    world.run(2_000);
    let (wait, part) = world.measure(30_000);
    assert!(wait <= 30.0 && part >= 0.9, "{wait} {part}");
}

/// A ping a second is little to go by.
#[test]
fn packets_once_a_second_are_protected() {
    let mut world = World::new(20.0, 40);
    world.every_ms = 1000;
    world.run(10_000);
    let (wait, part) = world.measure(120_000);
    assert!(wait <= 45.0 && part >= 0.85, "{wait} {part}");
}

#[test]
fn a_steady_link_is_held_steadily() {
    let mut world = World::new(20.0, 40);
    world.run(10_000);
    let cuts = world.hold.status().cuts;
    world.measure(60_000);
    let cuts = world.hold.status().cuts - cuts;
    // One in two seconds, and never to less than what empties the queue.
    assert!(cuts <= 30, "{cuts}");
    let least = world.limits.iter().copied().fold(f64::INFINITY, f64::min) / world.rate;
    let most = world.limits.iter().copied().fold(0.0, f64::max) / world.rate;
    assert!(least >= 0.7 && most <= 1.15, "{least} {most}");
}

#[test]
fn a_link_whose_rate_halves_and_comes_back_is_followed() {
    let mut world = World::new(40.0, 40);
    world.run(20_000);
    world.rate /= 2.0;
    world.run(3_000);
    let (wait, part) = world.measure(20_000);
    assert!(wait <= 30.0 && part >= 0.9, "half: {wait} {part}");
    world.rate *= 2.0;
    world.run(10_000);
    let (wait, part) = world.measure(20_000);
    assert!(wait <= 30.0 && part >= 0.9, "whole: {wait} {part}");
}

/// A clock that runs faster makes ever longer ways, and one that is set makes one; neither is a queue.
#[test]
fn clocks_are_no_queues() {
    for ppm in [-100, 0, 100] {
        let mut world = World::new(20.0, 40);
        (world.ppm, world.wants) = (ppm, world.rate * 0.8);
        world.run(2_000);
        world.measure(120_000);
        for ahead_s in [3_600, 0, -2, 1, 0] {
            world.ahead_us = ahead_s * 1_000_000;
            world.run(20_000);
        }
        assert!(world.limits.is_empty(), "{ppm}");
        // And a queue is found all the same.
        (world.wants, world.ahead_us) = (f64::INFINITY, 77);
        world.run(10_000);
        let (wait, part) = world.measure(120_000);
        assert!(wait <= 30.0 && part >= 0.9, "{ppm} ppm: {wait} {part}");
    }
}

/// Others fill the link's queue, whatever this end does: TCP goes on, and the call waits.
#[test]
fn a_queue_of_others_is_left_to_them() {
    let mut world = World::new(20.0, 40);
    world.run(10_000);
    (world.others, world.wants) = (world.rate * 1.1, world.rate * 0.2);
    world.measure(60_000);
    let status = world.hold.status();
    assert!(status.in_vain > 0, "{status:?}");
    let held = world.limits.len() as f64 / 60_000.0;
    assert!(held < 0.5, "{held}");
    let least = world.limits.iter().copied().fold(f64::INFINITY, f64::min);
    assert!(least >= LEAST_RATE, "{least}");
}

/// A radio pauses for a moment on a path that carries little: a download has the whole link soon after.
#[test]
fn a_moment_without_a_link_is_no_queue_of_ours() {
    let mut world = World::new(100.0, 40);
    world.wants = world.rate / 50.0;
    for blip_ms in [60, 120, 250] {
        for _ in 0..6 {
            world.run(3_000);
            world.extra_ms = blip_ms;
            world.run(blip_ms);
            world.extra_ms = 0;
        }
        let (_, part) = world.measure(10_000);
        assert!(part > 0.019, "{blip_ms}: {part}");
        world.wants = f64::INFINITY;
        let (_, part) = world.measure(5_000);
        assert!(part > 0.8, "{blip_ms}: {part}");
        world.wants = world.rate / 50.0;
        world.run(10_000);
    }
}

/// A call goes on over another lane, and nothing tells of this one any more.
#[test]
fn a_lane_whose_call_has_moved_away_is_let_go() {
    let mut world = World::new(20.0, 40);
    world.run(10_000);
    assert!(world.limit().is_some());
    world.is_here = false;
    world.run(3_000);
    assert_eq!(world.limit(), None);
    let (_, part) = world.measure(20_000);
    assert!(part > 0.97 && world.limits.is_empty(), "{part}");
    // So is one of which nobody knows yet how long it is.
    let mut world = World::new(20.0, 40);
    world.is_called = false;
    world.run(60_000);
    world.is_called = true;
    world.run(300);
    world.is_here = false;
    world.run(3_000);
    assert_eq!(world.limit(), None);
}

/// Somebody's video comes a part at a time, and fills the queue then: TCP does not become slower and slower.
#[test]
fn a_neighbour_who_comes_and_goes_takes_no_more_each_time() {
    for (on_ms, off_ms) in [(2_000, 4_000), (5_000, 5_000), (500, 1_500)] {
        let mut world = World::new(20.0, 40);
        let mut parts = Vec::new();
        for _ in 0..8 {
            let (mut came, mut left) = (0.0, 0.0);
            for _ in 0..30_000 / (on_ms + off_ms) {
                for (others, ms) in [(1.0, on_ms), (0.0, off_ms)] {
                    world.others = others * world.rate;
                    let part = world.measure(ms).1;
                    came += part * ms as f64;
                    left += (1.0 - others / 2.0) * ms as f64;
                }
            }
            parts.push(came / left);
        }
        let late = parts[4..].iter().sum::<f64>() / 4.0;
        assert!(late > 0.6 && late > 0.8 * parts[0], "{on_ms} {off_ms}: {parts:.2?}");
    }
}

/// The way becomes longer, by another route: that is no queue.
#[test]
fn a_route_that_becomes_longer_for_good_costs_little() {
    for load in [0.8, f64::INFINITY] {
        let mut world = World::new(20.0, 40);
        world.wants = load * world.rate;
        world.run(20_000);
        world.way_ms = 140;
        let (_, part) = world.measure(60_000);
        assert!(part > 0.9 * load.min(1.0), "{load}: {part}");
        let (wait, part) = world.measure(60_000);
        assert!(part > 0.9 * load.min(1.0) && wait <= 30.0, "{load}: {wait} {part}");
    }
}

/// What fills the other direction is not what is held back here, and makes all that is told of late.
#[test]
fn a_queue_of_the_other_direction_is_none_here() {
    for load in [0.8, f64::INFINITY] {
        let mut world = World::new(20.0, 40);
        world.wants = load * world.rate;
        world.run(5_000);
        let (mut waits, mut parts, mut held) = (Vec::new(), Vec::new(), 0);
        for back_ms in (0..60).map(|n| n * 37 % 200) {
            world.back_ms = back_ms;
            let (wait, part) = world.measure(1_000);
            waits.push(wait);
            parts.push(part);
            held += world.limits.len();
        }
        let (wait, part) = (waits.iter().sum::<f64>() / 60.0, parts.iter().sum::<f64>() / 60.0);
        assert!(wait <= 30.0 && part >= 0.85 * load.min(1.0), "{load}: {wait} {part}");
        assert!(load > 1.0 || held == 0, "{held}");
    }
}

/// However much others send, and however often: TCP keeps a fifth of the most that it carried of late, which is
/// less than the link's own rate here, and 0.5 Mb/s.
#[test]
fn tcp_keeps_a_fifth() {
    for mbps in [1.0, 20.0] {
        let mut world = World::new(mbps, 40);
        world.run(10_000);
        let mut least = f64::INFINITY;
        for n in 0..120 {
            world.others = world.rate * f64::from(n % 3) * 0.45;
            world.measure(1_000);
            least = world.limits.iter().copied().fold(least, f64::min);
        }
        assert!(least >= LEAST_RATE && least >= world.rate / 8.0, "{mbps}: {least}");
    }
}

#[test]
fn a_cut_leaves_a_fifth_of_what_was_carried_of_late() {
    let mut world = World::new(20.0, 40);
    world.run(10_000);
    let least = world.hold.bounded(0.0) / world.rate;
    assert!((0.17..0.22).contains(&least), "{least}");
    assert!(World::new(20.0, 40).hold.bounded(0.0) >= LEAST_RATE);
}

#[test]
fn a_limit_that_nobody_needs_is_lifted() {
    let mut world = World::new(20.0, 40);
    world.run(10_000);
    world.wants = 0.5 * world.rate;
    world.run(4_000);
    let (wait, part) = world.measure(20_000);
    assert!(world.limits.is_empty() && wait < 1.0 && part > 0.49, "{wait} {part}");
}

#[test]
fn a_lane_that_falls_silent_holds_nothing() {
    let mut world = World::new(20.0, 40);
    world.run(10_000);
    assert!(world.limit().is_some());
    world.hold.handle_silence();
    assert_eq!(world.limit(), None);
}

#[test]
fn bulk_on_the_lane_and_tcp_have_half_each_at_least() {
    let mut hold = Hold::new(CallRules::default());
    let until = Instant::FAR;
    let since = Instant::ZERO;
    let phase = Phase::Draining { to: 1e6, since, until, queue_us: 20_000, part: 0.1, before: 1e6 };
    (hold.phase, hold.rate) = (phase, 1e6);
    for (tcp, lane, expected) in [(8, 0, [8.0, 4.0]), (2, 6, [4.0, 6.0]), (4, 4, [4.0, 4.0])] {
        let at = |ms: u64| {
            let carried = Carried { tcp: tcp * 125 * ms, lane: lane * 125 * ms, bulk: 0 };
            Mark { sent: Instant::from_millis(ms), carried, owd_us: 0, queue_us: 0 }
        };
        hold.late.marks = [at(0), at(500)].into();
        let limits = [hold.tcp_limit(), hold.lane_limit()].map(Option::unwrap);
        assert_eq!(limits.map(|limit| limit.as_bps() as f64 / 1e6), expected, "{tcp} {lane}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Of any link and any clock: TCP is never held to less than a fifth of what the link carries nor
    /// starves, the call waits little, and the path is let go.
    #[test]
    fn a_call_waits_little_on_any_link(
        mbps in 1.0..400.0f64,
        way_ms in 2u64..300,
        longest in 0.05..1.0f64,
        every_ms in 2u64..60,
        ppm in -100i64..=100,
        noise_us in 0u64..4_000,
        ahead_us in -1_000_000_000i64..1_000_000_000_000,
    ) {
        let mut world = World::new(mbps, way_ms);
        (world.longest, world.every_ms, world.ppm) = (longest, every_ms, ppm);
        (world.noise_us, world.ahead_us) = (noise_us, ahead_us.max(0));
        world.run(20_000);
        let (wait, part) = world.measure(60_000);
        prop_assert!(part >= 0.8, "{part}");
        // Two packets of the slowest link, and what differs from packet to packet.
        prop_assert!(wait <= 45.0 + 24.0 / mbps, "{wait}");
        let least = world.limits.iter().copied().fold(f64::INFINITY, f64::min);
        prop_assert!(least >= LEAST_RATE.max(world.rate / 6.0), "{least}");
        world.is_called = false;
        world.run(10_100);
        prop_assert_eq!(world.limit(), None);
    }

    /// Of any link whose delay jumps for a moment each second or two: TCP keeps nearly all.
    #[test]
    fn delay_that_comes_and_goes_costs_little_on_any_link(
        mbps in 1.0..400.0f64,
        way_ms in 2u64..300,
        longest in 0.05..1.0f64,
        every_ms in 2u64..60,
        noise_us in 0u64..4_000,
        (extra_ms, late_ms, calm_ms) in (20u64..200, 20u64..150, 850u64..2_000),
    ) {
        let mut world = World::new(mbps, way_ms);
        (world.longest, world.every_ms, world.noise_us) = (longest, every_ms, noise_us);
        let part = world.jump(&[(extra_ms, late_ms), (0, calm_ms)], 120_000);
        prop_assert!(part >= 0.9, "{part}");
    }

    /// Whatever the other end tells: no panic, and limits stay within what makes sense.
    #[test]
    fn whatever_is_told_makes_no_harm(
        all in prop::collection::vec((0u64..300, any::<u64>(), 0u64..100_000_000, 0u64..1 << 40), 1..200),
    ) {
        let mut hold = Hold::new(CallRules::default());
        let (mut now, mut carried) = (Instant::from_millis(5), Carried::default());
        for (ms, arrived_us, rtt_us, bytes) in all {
            now += Duration::from_millis(ms);
            hold.note_call(10_000, true, now);
            carried.tcp += bytes;
            let rtt = Duration::from_micros(rtt_us);
            let sample = Sample { sent: now, carried, arrived_us: arrived_us >> 2, rtt };
            hold.handle_sample(&sample, now + rtt);
            hold.handle_timeout(now);
            if let Some(limit) = hold.tcp_limit() {
                prop_assert!(limit.as_bps() as f64 >= 8.0 * LEAST_RATE, "{}", limit);
            }
            prop_assert!(hold.late.recent.len() <= 16 && hold.late.marks.len() <= 32);
        }
    }
}
