//! A lane by itself.

#![allow(clippy::single_range_in_vec_init, reason = "feedback has ranges, and may have one")]

use super::*;

/// 64 KiB, as fast as you like; it writes down what it is told.
#[derive(Debug, Default)]
struct Fixed {
    acks: Vec<LaneAck>,
    said: Vec<&'static str>,
}

impl LaneCongestion for Fixed {
    fn on_established(&mut self, _: Duration) {
        self.said.push("established");
    }

    fn on_ack(&mut self, ack: &LaneAck) {
        self.acks.push(*ack);
    }

    fn on_restart(&mut self, _: Instant) {
        self.said.push("restart");
    }

    fn on_silence(&mut self, _: Instant) {
        self.said.push("silence");
    }

    fn window(&self) -> u64 {
        64 << 10
    }

    fn pacing_rate(&self) -> Bitrate {
        Bitrate::mbps(1_000_000)
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn lane() -> Lane {
    let congestion = Box::new(Fixed::default());
    Lane::new(LaneId(0), ((Role::Active, Carrier::Udp), true, 1400), 0, congestion, at(0))
}

fn send(lane: &mut Lane, class: Class, now: Instant) -> u64 {
    let sequence = lane.take_sequence();
    let kept = Kept { number: sequence, class, packet: vec![0; 1000] };
    lane.note_sent(sequence, (1000, class), Some(kept), now);
    sequence
}

fn tell(lane: &mut Lane, ranges: &[std::ops::Range<u64>], now: Instant) -> bool {
    let arrived_us = now.as_nanos() / 1000;
    let feedback = Feedback { delay: Duration::ZERO, arrived_us, ranges: ranges.to_vec() };
    lane.handle_feedback(&feedback, now)
}

#[test]
fn what_is_told_is_delivered_and_what_was_overtaken_for_long_is_lost() {
    let mut lane = lane();
    (0..10).for_each(|_| _ = send(&mut lane, Class::Bulk, at(0)));
    assert!(tell(&mut lane, &[4..8, 0..3], at(40)));
    assert_eq!((lane.state, lane.srtt), (LaneState::Up, Some(Duration::from_millis(40))));
    let counters = lane.counters;
    assert_eq!((counters.delivered_packets, counters.lost_packets), (7, 0));
    send(&mut lane, Class::Bulk, at(90));
    assert!(tell(&mut lane, &[10..11], at(130)));
    assert_eq!((lane.counters.delivered_packets, lane.counters.lost_packets), (8, 3));
    assert_eq!((lane.in_flight, lane.kept, lane.flight.len()), (0, 0, 0));
    assert!(lane.is_poor(), "three of eleven");
    // Nobody tells of what was not sent.
    assert!(!tell(&mut lane, &[0..12], at(130)));
}

#[test]
fn a_lane_that_falls_silent_gives_back_what_is_young() {
    let mut lane = lane();
    send(&mut lane, Class::Bulk, at(0));
    assert_eq!(lane.silent_at(), None, "it has never answered");
    assert!(tell(&mut lane, &[0..1], at(20)));
    for ms in [100, 190, 220] {
        send(&mut lane, Class::Bulk, at(ms));
    }
    let silent = lane.silent_at().unwrap();
    assert!(silent > at(160) && silent < at(200), "{silent}");
    let back = lane.fall_silent(Duration::from_millis(100), at(250));
    assert_eq!(back.iter().map(|kept| kept.number).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((lane.state, lane.in_flight, lane.kept), (LaneState::Silent, 0, 0));
    assert_eq!(lane.counters.lost_packets, 3);
    // A word of any of them, and it is up, whatever was sent into the silence.
    for ms in 260..330 {
        send(&mut lane, Class::Bulk, at(ms));
    }
    assert_eq!(lane.room_at(), None);
    assert!(tell(&mut lane, &[3..4], at(400)));
    assert_eq!(lane.state, LaneState::Up);
    assert!(lane.room_at().is_some() && lane.silent_at().is_none_or(|at_| at_ > at(400)));
}

/// A burst has lost its tail, as it was too much for a queue; what came later is told with it.
#[test]
fn losses_that_others_as_long_have_followed_say_nothing_of_lengths() {
    let mut lane = lane();
    lane.heard(at(0));
    let probe = lane.pings.ask(at(0)).expect("a probe");
    assert_eq!(probe.size, Some(1400));
    lane.pings.handle_answer(probe.id, at(10));
    lane.measure(Duration::from_millis(10), at(10));
    let mut long = |count: u64, ms: u64| {
        for _ in 0..count {
            let sequence = lane.take_sequence();
            lane.note_sent(sequence, (1400, Class::Bulk), None, at(ms));
        }
    };
    long(20, 20);
    long(1, 30);
    // Ten of it have come, and one after them.
    assert!(tell(&mut lane, &[20..21, 0..10], at(70)));
    assert_eq!((lane.counters.lost_packets, lane.pings.longest_packet()), (10, 1400));
    assert_eq!(lane.pings.ask(at(70)), None, "there is nothing to find out");
    // Where short ones alone come, a probe is sent, and other lanes are used once that is lost.
    for _ in 0..10 {
        let sequence = lane.take_sequence();
        lane.note_sent(sequence, (1400, Class::Bulk), None, at(80));
    }
    send(&mut lane, Class::Bulk, at(90));
    assert!(tell(&mut lane, &[31..32], at(140)));
    let probe = lane.pings.ask(at(140)).expect("a probe");
    assert_eq!((probe.size, lane.pings.longest_packet()), (Some(1400), 1400));
    // Meanwhile it is asked whether the lane is there at all.
    let soon = lane.pings.due().expect("it is waited for");
    let plain = lane.pings.ask(soon).expect("a question");
    assert_eq!((plain.size, lane.pings.longest_packet()), (None, 1400));
    lane.pings.handle_answer(plain.id, soon);
    let later = lane.pings.due().expect("it is waited for");
    assert_eq!(lane.pings.ask(later).expect("another").size, Some(1400));
    assert!(lane.pings.longest_packet() < 1400);
}

/// A lane of a path that TCP fills while there is a call: it is held back.
fn held() -> (Lane, PathLimiter) {
    let (mut lane, limiter) = (lane(), PathLimiter::default());
    lane.set_limiter(Some(&limiter), CallRules::default());
    let protection = lane.protection.as_mut().unwrap();
    for ms in (0..1_600).step_by(20) {
        let now = at(ms);
        protection.note_call(10_000, true, now);
        limiter.spend(25_000, now);
        // 10 Mb/s go there; after a second packets wait longer and longer.
        let wait_us = 50 * ms.saturating_sub(1_000);
        let sent_us = 1_000 * ms;
        let rtt = Duration::from_micros(40_000 + wait_us);
        let arrived_us = sent_us + 20_000 + wait_us;
        let sample = Sample { sent: now, carried: protection.carried(), arrived_us, rtt };
        protection.handle_sample(&sample, now + rtt);
    }
    assert!(limiter.limit().is_some());
    (lane, limiter)
}

/// Of one flow over one lane, whose packets are in no order, as of one over several.
#[test]
fn bulk_is_held_back_whatever_its_packets_are_called() {
    let (mut lane, limiter) = held();
    let limit = limiter.limit().unwrap();
    for class in [Class::Medium, Class::Bulk] {
        lane.protection.as_mut().unwrap().note_bulk(at(4_000));
        lane.paced_to = at(4_000);
        send(&mut lane, class, at(4_000));
        let took = lane.paced_to.since(at(4_000)).as_secs_f64();
        let rate = 8_000.0 / took;
        assert!(rate <= limit.as_bps() as f64, "{class:?}: {rate} {limit}");
    }
    // What is not bulk goes as fast as the link takes it.
    lane.paced_to = at(5_000);
    send(&mut lane, Class::Medium, at(5_000));
    assert!(lane.paced_to.since(at(5_000)) < Duration::from_micros(1));
}

/// What went through another limiter is no rate of this path, and a limiter that is given up limits
/// nothing.
#[test]
fn another_limiter_is_another_path() {
    let (mut lane, limiter) = held();
    let other = PathLimiter::default();
    other.spend(1 << 40, at(4_000));
    lane.set_limiter(Some(&other), CallRules::default());
    assert_eq!((limiter.limit(), other.limit()), (None, None));
    assert!(lane.status().hold.limit.is_none());
    let (mut lane, limiter) = held();
    lane.set_limiter(Some(&limiter), CallRules::default());
    assert!(limiter.limit().is_some(), "it is the same");
    lane.set_limiter(None, CallRules::default());
    assert!(limiter.limit().is_none() && lane.protection.is_none());
}

#[test]
fn the_window_holds() {
    let mut lane = lane();
    let mut sent = 0;
    while lane.room_at().is_some() {
        send(&mut lane, Class::Bulk, at(0));
        sent += 1;
    }
    assert_eq!(sent, 66);
    assert_eq!((lane.flight_len(), lane.kept_bytes()), (66, 66_000));
    lane.forget_first();
    assert_eq!((lane.flight_len(), lane.kept_bytes(), lane.in_flight), (65, 65_000, 65_000));
}

#[test]
fn its_congestion_control_hears_of_all_that_comes_and_is_lost() {
    let mut lane = lane();
    let mut sent = 0_u64;
    // Ten packets a millisecond, of which each 25th is lost; told every 10 ms after 20.
    for ms in 0..400 {
        (0..10).for_each(|_| _ = send(&mut lane, Class::Bulk, at(ms)));
        sent += 10;
        if ms >= 30 && ms % 10 == 0 {
            let end = sent - 200;
            let first = end.saturating_sub(700) / 25;
            let ranges: Vec<_> =
                (first..end / 25).rev().map(|n| 25 * n + 1..25 * (n + 1)).collect();
            assert!(tell(&mut lane, &ranges, at(ms)));
        }
    }
    let text = format!("{:?}", lane.congestion);
    assert!(text.contains("established") && text.contains("restart"), "{text}");
    // 24 of 25 packets of 1,000 bytes, 10 a millisecond.
    let last = text.rsplit("LaneRate").next().unwrap();
    let number = |name: &str| -> u64 {
        let rest = text.rsplit(name).next().unwrap();
        rest.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    assert_eq!(number("total_delivered: "), 1000 * lane.counters.delivered_packets);
    assert_eq!(number("total_lost: "), 1000 * lane.counters.lost_packets);
    assert!(number("total_lost: ") > 100_000, "{last}");
    // Nothing waits, and yet the link could not take more: it loses one of 25.
    assert!(last.contains("is_limited: false"), "{last}");
}
