//! A link with a queue, TCP that fills it as far as it may, and a call.

use proptest::prelude::*;

use super::*;

/// One millisecond, in seconds.
const STEP: f64 = 1e-3;
/// What TCP has in any case, in bytes a second.
const LEAST_RATE: f64 = 62_500.0;

/// A link, and what there is on it.
struct World {
    hold: Hold,
    now_ms: u64,
    /// Bytes a second, and the time of an empty packet from end to end and back, in milliseconds.
    rate: f64,
    way_ms: u64,
    /// Bytes in the queue, those of TCP that came through, and the longest queue, in seconds.
    queue: f64,
    came: f64,
    longest: f64,
    /// What TCP sends at most, and what others do, in bytes a second.
    wants: f64,
    others: f64,
    /// What packets wait besides, whatever is sent, and what their answers do, in milliseconds.
    extra_ms: u64,
    back_ms: u64,
    carried: Carried,
    /// Whether there is a call, and the time from one packet of it to the next.
    is_called: bool,
    every_ms: u64,
    /// Whether packets of it go over this lane.
    is_here: bool,
    /// By how much the other end's clock is ahead, and runs faster, and how much delays differ.
    ahead_us: i64,
    ppm: i64,
    noise_us: u64,
    /// Packets that are told of later: when, and what of them.
    told: VecDeque<(u64, Sample)>,
    /// Of each packet: when it was sent, and how long it waited, in milliseconds.
    waits: Vec<(u64, f64)>,
    limits: Vec<f64>,
}

impl World {
    fn new(mbps: f64, way_ms: u64) -> Self {
        Self {
            hold: Hold::new(CallRules::default()),
            now_ms: 1_000,
            rate: mbps * 125_000.0,
            way_ms,
            queue: 0.0,
            came: 0.0,
            longest: 0.2,
            wants: f64::INFINITY,
            others: 0.0,
            extra_ms: 0,
            back_ms: 0,
            carried: Carried::default(),
            is_called: true,
            every_ms: 20,
            is_here: true,
            ahead_us: 5_000_000,
            ppm: 0,
            noise_us: 0,
            told: VecDeque::new(),
            waits: Vec::new(),
            limits: Vec::new(),
        }
    }

    fn now(&self) -> Instant {
        Instant::from_millis(self.now_ms)
    }

    fn limit(&self) -> Option<f64> {
        self.hold.tcp_limit().map(|limit| limit.as_bps() as f64 / 8.0)
    }

    fn run(&mut self, ms: u64) {
        for _ in 0..ms {
            self.now_ms += 1;
            let now = self.now();
            self.hold.handle_timeout(now);
            // TCP grows until something is lost, and gives up a third then.
            let most = self.wants.min(self.rate * 1.15);
            let wants = if self.queue >= self.longest * self.rate { 0.6 * most } else { most };
            let sends = self.limit().map_or(wants, |limit| limit.min(wants)) * STEP;
            let room = (self.longest * self.rate - self.queue).max(0.0) + self.rate * STEP;
            // What does not fit in is lost, of both alike.
            let others = self.others * STEP;
            let fits = (room / (sends + others).max(1.0)).min(1.0);
            let (tcp, others) = (sends * fits, others * fits);
            self.carried.tcp += sends as u64;
            let served = (self.queue + tcp + others).min(self.rate * STEP);
            self.queue = self.queue + tcp + others - served;
            self.came += served * tcp / (tcp + others).max(1.0);
            self.limits.extend(self.limit());
            if self.now_ms.is_multiple_of(self.every_ms) {
                self.send(now);
            }
            while self.told.front().is_some_and(|(at, _)| *at <= self.now_ms) {
                let (_, sample) = self.told.pop_front().unwrap();
                self.hold.handle_sample(&sample, now);
            }
        }
    }

    fn send(&mut self, now: Instant) {
        if self.is_called {
            self.hold.note_call(10_000, true, now);
        }
        if !self.is_here {
            return;
        }
        self.carried.lane += 200;
        let wait_us = (self.queue / self.rate * 1e6) as u64;
        self.waits.push((self.now_ms, wait_us as f64 / 1e3));
        // The same numbers each time, as good as any.
        let noise = self.now_ms.wrapping_mul(2_654_435_761) % (self.noise_us + 1);
        let took_us = 1000 * (self.way_ms / 2 + self.extra_ms) + wait_us + noise;
        let sent_us = (1000 * self.now_ms).cast_signed();
        let drift = sent_us * self.ppm / 1_000_000;
        let arrived_us = (sent_us + took_us.cast_signed() + drift + self.ahead_us).cast_unsigned();
        let rtt = Duration::from_micros(took_us + 500 * self.way_ms + 1000 * self.back_ms);
        let at = self.now_ms + rtt.as_millis() as u64 + 10;
        let at = self.told.back().map_or(at, |(last, _)| at.max(*last));
        let sample = Sample { sent: now, carried: self.carried, arrived_us, rtt };
        self.told.push_back((at, sample));
    }

    /// Runs for a while; the 95th percentile of the waits, in milliseconds, and the part of the link that
    /// TCP has had.
    fn measure(&mut self, ms: u64) -> (f64, f64) {
        self.came = 0.0;
        self.waits.clear();
        self.limits.clear();
        self.run(ms);
        let mut waits: Vec<f64> = self.waits.iter().map(|(_, wait)| *wait).collect();
        waits.sort_by(f64::total_cmp);
        let late = waits.get(waits.len() * 95 / 100).copied().unwrap_or(0.0);
        (late, self.came / (self.rate * ms as f64 * STEP))
    }
}

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
    let phase = Phase::Draining { to: 1e6, since, until, queue_us: 20_000, part: 0.1 };
    (hold.phase, hold.rate) = (phase, 1e6);
    for (tcp, lane, expected) in [(8, 0, [8.0, 4.0]), (2, 6, [4.0, 6.0]), (4, 4, [4.0, 4.0])] {
        let at = |ms: u64| {
            let carried = Carried { tcp: tcp * 125 * ms, lane: lane * 125 * ms, bulk: 0 };
            Mark { sent: Instant::from_millis(ms), carried, queue_us: 0 }
        };
        hold.marks = [at(0), at(500)].into();
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
        every_ms in 5u64..60,
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
            prop_assert!(hold.recent.len() <= 16 && hold.marks.len() <= 32);
        }
    }
}
