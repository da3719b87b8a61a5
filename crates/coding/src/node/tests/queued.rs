//! The gateway with a queue: cohorts have what links carry, and nothing is given away.

use std::time::Duration;

use weftline_core::Bitrate;

use super::super::{
    Device, Gateway, GatewayStats, LossReport, Mode, NodeConfig, QueueConfig, Redundancy,
};
use super::{at, config};
use crate::wire::{Packet, Priority};
use weftline_core::Instant;

const BYTES: u32 = 1500;

/// A gateway with a queue, and links of 100 and 300 Mb/s.
fn gateway(config: NodeConfig) -> Gateway {
    let config = NodeConfig { queue: Some(QueueConfig::default()), ..config };
    let mut gateway = Gateway::new(config, 2, 1, at(0));
    gateway.set_rate(0, Some(Bitrate::mbps(100)));
    gateway.set_rate(1, Some(Bitrate::mbps(300)));
    gateway
}

/// Asks for packets on both links every 10 us until `to_ms`; the packets of each link.
fn drain(gateway: &mut Gateway, from_ms: u64, to_ms: u64) -> [Vec<(Priority, Vec<u8>)>; 2] {
    let mut sent = [Vec::new(), Vec::new()];
    for us in (1000 * from_ms..1000 * to_ms).step_by(10) {
        let now = Instant::from_nanos(1000 * us);
        gateway.handle_timeout(now);
        for (link, sent) in sent.iter_mut().enumerate() {
            let mut out = Vec::new();
            while let Some(priority) = gateway.poll_transmit(link, now, &mut out) {
                gateway.sent(link, u64::from(BYTES), now);
                sent.push((priority, std::mem::take(&mut out)));
            }
        }
    }
    sent
}

#[test]
fn links_get_what_they_carry_and_the_rest_waits() {
    let mut gateway = gateway(NodeConfig { cut_through: true, ..config() });
    (0..2000_u16).for_each(|n| gateway.receive_as(n % 3, b"packet", BYTES, at(0)).unwrap());
    let sent = drain(&mut gateway, 0, 30);
    // 30 ms of 100 Mb/s are 250 packets.
    let counts = sent.map(|sent| sent.len());
    assert!((245..=255).contains(&counts[0]) && (740..=760).contains(&counts[1]), "{counts:?}");
    assert_eq!(gateway.stats().given, 0);
    assert!(gateway.queued() > 900);
}

#[test]
fn an_interval_begins_with_what_links_carry_in_it() {
    for mode in [Mode::Dense, Mode::Systematic] {
        let mut gateway = gateway(NodeConfig { mode, redundancy_percent: 0, ..config() });
        (0..2000).for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(0)).unwrap());
        let sent = drain(&mut gateway, 0, 60);
        // 12 ms of 400 Mb/s are 400 packets, of which 0.95 are taken in: 380, four times.
        let high = |(priority, bytes): &&(Priority, Vec<u8>)| {
            let coded = matches!(Packet::decode(bytes), Ok(Packet::Coded { .. }));
            *priority == Priority::High && coded
        };
        let sent: usize = sent.iter().map(|sent| sent.iter().filter(high).count()).sum();
        assert!((1500..=1530).contains(&sent), "{mode:?} {sent}");
        assert_eq!(gateway.stats().given, 0, "{mode:?}");
    }
}

/// Packets of `sent` that are new ones.
fn new(sent: &[(Priority, Vec<u8>)]) -> usize {
    let is_new = |bytes: &[u8]| matches!(Packet::decode(bytes), Ok(Packet::Coded { .. }));
    sent.iter().filter(|(priority, bytes)| *priority == Priority::High && is_new(bytes)).count()
}

#[test]
fn a_far_link_takes_what_would_wait_as_long_for_the_near_one() {
    let config = NodeConfig { cut_through: true, redundancy_percent: 0, ..config() };
    let mut gateway = gateway(config);
    gateway.set_lag(0, Some(Duration::from_millis(3)));
    gateway.set_lag(1, Some(Duration::from_millis(33)));
    // 100 Mb/s carry 250 packets in 30 ms.
    (0..240).for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(0)).unwrap());
    let sent = drain(&mut gateway, 0, 10);
    assert_eq!(new(&sent[1]), 0, "the near link has them sooner");
    let waiting = gateway.queued();
    (waiting..260).for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(10)).unwrap());
    let sent = drain(&mut gateway, 10, 11);
    assert!((8..=12).contains(&new(&sent[1])), "down to 250: {}", new(&sent[1]));
    // Of a far one alone nothing is known, or the near one does not say what it carries.
    let unknown: [fn(&mut Gateway); 2] = [
        |gateway| gateway.set_lag(1, None),
        |gateway| {
            gateway.set_lag(1, Some(Duration::from_millis(33)));
            gateway.set_rate(0, None);
        },
    ];
    for change in unknown {
        let mut gateway = self::gateway(config);
        gateway.set_lag(0, Some(Duration::ZERO));
        change(&mut gateway);
        gateway.receive_as(0, b"packet", BYTES, at(0)).unwrap();
        let mut out = Vec::new();
        assert!(gateway.poll_transmit(1, at(0), &mut out).is_some());
    }
}

#[test]
fn where_the_near_link_is_gone_the_far_one_takes_all() {
    let mut gateway = gateway(NodeConfig { cut_through: true, ..config() });
    gateway.set_lag(0, Some(Duration::ZERO));
    gateway.set_lag(1, Some(Duration::from_secs(1 << 40)));
    gateway.set_rate(0, Some(Bitrate::ZERO));
    gateway.receive_as(0, b"packet", BYTES, at(0)).unwrap();
    let mut out = Vec::new();
    assert!(gateway.poll_transmit(1, at(0), &mut out).is_some());
}

/// Packets that CoDel drops in a second in which 500 wait, which the near link takes 60 ms for; the far
/// one lags by 100 ms.
fn dropped(mut gateway: Gateway) -> u64 {
    for ms in 0..1000 {
        let waiting = gateway.queued();
        (waiting..500).for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(ms)).unwrap());
        drain(&mut gateway, ms, ms + 1);
    }
    gateway.stats().delayed
}

const LAGS: [Duration; 2] = [Duration::from_millis(3), Duration::from_millis(103)];

#[test]
fn packets_may_wait_longer_for_a_far_link_as_soon_as_rates_are_known() {
    let config = NodeConfig { cut_through: true, redundancy_percent: 0, ..config() };
    let known = |config| {
        let mut gateway = gateway(config);
        (0..2).for_each(|link| gateway.set_lag(link, Some(LAGS[link])));
        gateway
    };
    assert_eq!(dropped(known(config)), 0);
    assert!(dropped(known(NodeConfig { lag_allowance: false, ..config })) > 0);
    let mut late = gateway(config);
    late.set_rate(0, None);
    (0..2).for_each(|link| late.set_lag(link, Some(LAGS[link])));
    late.set_rate(0, Some(Bitrate::mbps(100)));
    assert_eq!(dropped(late), 0, "the rate is known later than the lags");
    let mut stopped = known(config);
    stopped.set_rate(0, Some(Bitrate::ZERO));
    assert!(dropped(stopped) > 0, "the far link is all there is");
    let mut dead = known(config);
    dead.set_rate(1, Some(Bitrate::ZERO));
    assert!(
        dropped(dead) > 0,
        "the near link is all there is, and no lag of the other is told again"
    );
}

/// Packets that CoDel drops in the second and a half after the faster link has gone, of a window of 500
/// that the other one takes 60 ms for.
fn dropped_when_a_link_goes(gone_allowance: bool) -> u64 {
    let config =
        NodeConfig { cut_through: true, redundancy_percent: 0, gone_allowance, ..config() };
    let mut gateway = gateway(config);
    let mut before = 0;
    for ms in 0..2500 {
        if ms == 1000 {
            gateway.set_rate(1, Some(Bitrate::ZERO));
            before = gateway.stats().delayed;
        }
        let waiting = gateway.queued();
        (waiting..if ms < 1000 { 300 } else { 500 })
            .for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(ms)).unwrap());
        drain(&mut gateway, ms, ms + 1);
    }
    assert_eq!(before, 0);
    gateway.stats().delayed
}

#[test]
fn packets_may_wait_longer_while_a_link_is_gone_for_a_while() {
    assert_eq!(dropped_when_a_link_goes(true), 0);
    assert!(dropped_when_a_link_goes(false) > 0);
}

/// Packets that CoDel drops in a second in which 500 wait, after an idle time in which the links' rates were
/// said to be others.
fn dropped_after(said: [u64; 2], since_ms: u64) -> u64 {
    let config = NodeConfig { cut_through: true, redundancy_percent: 0, ..config() };
    let mut gateway = gateway(config);
    (0..since_ms).for_each(|ms| gateway.handle_timeout(at(ms)));
    (0..2).for_each(|link| gateway.set_rate(link, Some(Bitrate::bps(said[link]))));
    (since_ms..3000).for_each(|ms| gateway.handle_timeout(at(ms)));
    for (link, mbps) in [100, 300].into_iter().enumerate() {
        gateway.set_rate(link, Some(Bitrate::mbps(mbps)));
    }
    for ms in 3000..4000 {
        let waiting = gateway.queued();
        (waiting..500).for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(ms)).unwrap());
        drain(&mut gateway, ms, ms + 1);
    }
    gateway.stats().delayed
}

/// An idle device is told of the whole link, and of its share once it is active with others; an access point
/// may say anything.
#[test]
fn a_rate_that_was_only_said_allows_no_longer_wait() {
    assert!(dropped_after([100_000_000, 300_000_000], 0) > 0, "it never changed");
    assert!(dropped_after([1_000_000_000, 3_000_000_000], 0) > 0, "a tenth is left");
    assert!(dropped_after([100_000_000, 1 << 63], 2976) > 0, "claimed for two intervals");
    // It has carried nothing.
    assert!(dropped_after([100_000_000, 0], 2000) > 0, "it was gone, and is back");
}

#[test]
fn a_link_that_is_dead_is_not_the_nearest() {
    let queue = Some(QueueConfig::default());
    let config = NodeConfig { cut_through: true, redundancy_percent: 0, queue, ..config() };
    let mut gateway = Gateway::new(config, 3, 1, at(0));
    for (link, (lag_ms, mbps)) in [(0, 200), (50, 100), (150, 300)].into_iter().enumerate() {
        gateway.set_lag(link, Some(Duration::from_millis(lag_ms)));
        gateway.set_rate(link, Some(Bitrate::mbps(mbps)));
    }
    // The second carries them within 120 ms, both within 40 ms.
    (0..1000).for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(0)).unwrap());
    let mut out = Vec::new();
    assert!(gateway.poll_transmit(2, at(0), &mut out).is_none());
    gateway.set_rate(0, Some(Bitrate::ZERO));
    assert!(gateway.poll_transmit(2, at(0), &mut out).is_some(), "it lags by 100 ms");
}

/// A link that is measured: packets go in its trains before its rate is known.
#[test]
fn a_link_of_no_rate_takes_what_its_driver_asks_for() {
    let mut gateway = gateway(NodeConfig { cut_through: true, ..config() });
    (0..2).for_each(|link| gateway.set_rate(link, Some(Bitrate::ZERO)));
    let mut out = Vec::new();
    for ms in 0..3 {
        gateway.receive_as(0, b"packet", BYTES, at(ms)).unwrap();
        assert!(gateway.poll_transmit(0, at(ms), &mut out).is_some(), "{ms}");
    }
}

#[test]
fn packets_never_wait_for_longer_than_the_interval_in_which_that_is_judged() {
    let (target, interval) = (Duration::from_millis(5), Duration::from_millis(20));
    let queue = QueueConfig { target, interval, ..QueueConfig::default() };
    let config = NodeConfig { cut_through: true, redundancy_percent: 0, ..config() };
    let mut gateway = Gateway::new(NodeConfig { queue: Some(queue), ..config }, 2, 1, at(0));
    gateway.set_rate(0, Some(Bitrate::mbps(100)));
    gateway.set_rate(1, Some(Bitrate::mbps(300)));
    (0..2).for_each(|link| gateway.set_lag(link, Some(LAGS[link])));
    assert!(dropped(gateway) > 0);
}

/// A link that takes nothing now does not hide when another has room.
#[test]
fn it_wakes_up_for_the_near_link() {
    let mut gateway = gateway(NodeConfig { cut_through: true, ..config() });
    gateway.set_lag(0, Some(Duration::ZERO));
    gateway.set_lag(1, Some(Duration::from_millis(30)));
    (0..200).for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(0)).unwrap());
    let (mut now, mut sent) = (at(0), 0);
    while now < at(12) {
        for link in 0..2 {
            let mut out = Vec::new();
            while gateway.poll_transmit(link, now, &mut out).is_some() {
                gateway.sent(link, u64::from(BYTES), now);
                sent += 1;
                out.clear();
            }
        }
        now = gateway.poll_timeout().unwrap();
        gateway.handle_timeout(now);
    }
    assert!((98..=104).contains(&sent), "12 ms of 100 Mb/s are 100 packets: {sent}");
}

/// Redundant packets in percent of the others from one time to another, while packets wait.
fn taken_percent(gateway: &mut Gateway, from_ms: u64, to_ms: u64) -> f64 {
    (0..3000).for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(from_ms)).unwrap());
    let before = gateway.stats();
    drain(gateway, from_ms, to_ms);
    let after = gateway.stats();
    assert!(gateway.queued() > 0, "packets wait");
    100.0 * (after.low - before.low) as f64 / (after.high - before.high) as f64
}

#[test]
fn what_is_learned_goes_before_new_packets() {
    let redundancy = Redundancy::Learned;
    let mut gateway = gateway(NodeConfig { cut_through: true, redundancy, ..config() });
    (0..500).for_each(|_| gateway.learn(LossReport { packets: 1000, missing: 0 }));
    let clean = taken_percent(&mut gateway, 0, 60);
    assert!(clean < 1e-9, "{clean}");
    (0..100).for_each(|_| gateway.learn(LossReport { packets: 1000, missing: 50 }));
    let lossy = taken_percent(&mut gateway, 60, 120);
    assert!((28.0..33.0).contains(&lossy), "{lossy}");
}

/// An access point that is out of reach.
#[test]
fn losses_are_not_forgotten_with_a_link_that_carried_none_of_them() {
    let [lossy, wanted] = [true, false].map(|forget_losses| {
        let redundancy = Redundancy::Learned;
        let config = NodeConfig { cut_through: true, redundancy, forget_losses, ..config() };
        let mut gateway = gateway(config);
        gateway.set_rate(1, Some(Bitrate::ZERO));
        (0..500).for_each(|_| gateway.learn(LossReport { packets: 1000, missing: 0 }));
        (0..100).for_each(|_| gateway.learn(LossReport { packets: 1000, missing: 50 }));
        taken_percent(&mut gateway, 60, 120)
    });
    assert!(wanted > 10.0 && (lossy - wanted).abs() < 0.01 * wanted, "{lossy} for {wanted}");
}

/// Two seconds in which a packet in twenty is lost and more waits than links carry: what the device has
/// reported and lost in the second one, and what the gateway did.
fn loses_one_in_twenty(config: NodeConfig) -> (LossReport, u64, GatewayStats) {
    let mut gateway = gateway(NodeConfig { redundancy: Redundancy::Learned, ..config });
    let mut device = Device::new(config, 2);
    let (mut sent, mut out, mut known) = (0_u32, Vec::new(), LossReport::default());
    let mut lost = 0;
    for us in (0..2_000_000_u64).step_by(10) {
        let now = Instant::from_nanos(1000 * us);
        (gateway.queued()..500).for_each(|_| gateway.receive_as(0, &[7; 100], BYTES, now).unwrap());
        for link in 0..2 {
            out.clear();
            while gateway.poll_transmit(link, now, &mut out).is_some() {
                gateway.sent(link, u64::from(BYTES), now);
                sent += 1;
                if !sent.is_multiple_of(20) {
                    let _ = device.receive(link, &out, now);
                }
                out.clear();
            }
        }
        if us % 10_000 == 0 {
            device.handle_timeout(now);
            while device.poll_delivery(&mut out).is_some() {
                out.clear();
            }
            if let Some(report) = device.poll_report() {
                gateway.learn(report);
                known.packets += report.packets;
                known.missing += report.missing;
            }
            if us == 1_000_000 {
                (known, lost) = (LossReport::default(), device.stats().lost);
            }
        }
    }
    (known, device.stats().lost - lost, gateway.stats())
}

#[test]
fn the_paper_s_scheme_has_room_for_what_losses_call_for_and_learns_them_too() {
    let through = NodeConfig { cut_through: true, ..config() };
    for config in [through, config(), NodeConfig { mode: Mode::Dense, ..config() }] {
        let (known, lost, stats) = loses_one_in_twenty(config);
        let missing = known.missing as f64 / known.packets as f64;
        let taken = stats.low as f64 / stats.high as f64;
        let lost = lost as f64 / known.packets as f64;
        let what = format!("{missing} missing, {taken} taken, {lost} lost: {stats:?} {config:?}");
        assert!((0.045..0.055).contains(&missing), "{what}");
        assert!((0.2..0.35).contains(&taken), "{what}");
        assert!(lost < 0.001 && stats.given == 0, "{what}");
    }
}

/// A driver that asks when it is told to, and not at each occasion.
#[test]
fn what_is_redundant_goes_though_nothing_else_happens() {
    let redundancy = Redundancy::Learned;
    let mut gateway = gateway(NodeConfig { cut_through: true, redundancy, ..config() });
    (0..500).for_each(|_| gateway.learn(LossReport { packets: 1000, missing: 30 }));
    (0..32).for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(0)).unwrap());
    let (mut now, mut out) = (at(0), Vec::new());
    while let Some(due) = Some(now).filter(|now| *now < at(24)) {
        gateway.handle_timeout(due);
        for link in 0..2 {
            out.clear();
            while gateway.poll_transmit(link, due, &mut out).is_some() {
                gateway.sent(link, u64::from(BYTES), due);
                out.clear();
            }
        }
        now = gateway.poll_timeout().unwrap_or(at(24)).max(due + Duration::from_micros(1));
    }
    // Of 38 packets, 3 % of which are lost, more than six are missing once in 2000 times.
    assert_eq!((gateway.stats().high, gateway.stats().low), (32, 6));
}

/// Combinations of five seconds in which the first of two links loses a packet in twenty, and the second
/// sends each frame so many times.
fn taken_where_frames_come_again(times: u32) -> u64 {
    let redundancy = Redundancy::Learned;
    let config = NodeConfig { cut_through: true, redundancy, ..config() };
    let mut gateway = gateway(config);
    let mut device = Device::new(config, 2);
    let (mut sent, mut out) = (0_u32, Vec::new());
    for ms in 0..5000 {
        let now = at(ms);
        (0..8).for_each(|_| gateway.receive(0, &[7; 100], now).unwrap());
        for _ in 0..8 {
            for link in 0..2 {
                out.clear();
                if gateway.poll_transmit(link, now, &mut out).is_none() {
                    continue;
                }
                sent += u32::from(link == 0);
                let copies = if link == 1 { times } else { u32::from(!sent.is_multiple_of(20)) };
                for _ in 0..copies {
                    let _ = device.receive(link, &out, now);
                }
            }
        }
        device.handle_timeout(now);
        out.clear();
        while device.poll_delivery(&mut out).is_some() {
            out.clear();
        }
        if ms % 10 == 0 {
            device.poll_report().into_iter().for_each(|report| gateway.learn(report));
        }
    }
    let stats = device.stats();
    assert!(stats.recovered > 0, "{stats:?}");
    gateway.stats().low
}

/// An access point that repeats what it has does not hide what the other link loses.
#[test]
fn copies_call_for_no_less_redundancy() {
    let once = taken_where_frames_come_again(1);
    for times in [2, 5] {
        let again = taken_where_frames_come_again(times);
        assert!(again.abs_diff(once) * 20 <= once, "{again} in place of {once}");
    }
}

/// The device reports every 10 ms, of 1000 packets each; both links carry something.
fn report(gateway: &mut Gateway, from_ms: u64, to_ms: u64, missing: u64) {
    for ms in (from_ms..to_ms).step_by(10) {
        gateway.handle_timeout(at(ms));
        (0..4).for_each(|_| gateway.receive_as(0, b"packet", BYTES, at(ms)).unwrap());
        let mut out = Vec::new();
        (0..4).for_each(|packet| _ = gateway.poll_transmit(packet % 2, at(ms), &mut out));
        gateway.learn(LossReport { packets: 1000, missing });
    }
}

/// A gateway that learns, with links of these rates.
fn learning(rates: [Option<Bitrate>; 2], interval: Duration) -> Gateway {
    let redundancy = Redundancy::Learned;
    let config = NodeConfig { cut_through: true, redundancy, interval, ..config() };
    let mut gateway = gateway(config);
    (0..2).for_each(|link| gateway.set_rate(link, rates[link]));
    gateway
}

const KNOWN: [Option<Bitrate>; 2] = [Some(Bitrate::mbps(100)), Some(Bitrate::mbps(300))];

#[test]
fn what_was_lost_with_a_link_that_is_gone_is_not_held_against_the_other() {
    // It takes 350 ms to notice that a radio is dead, and 600 ms where it is the access point.
    for (rates, noticed) in [(KNOWN, 350), (KNOWN, 600), ([None; 2], 600)] {
        let mut gateway = learning(rates, config().interval);
        report(&mut gateway, 0, 4900, 50);
        let gone = 4900 + noticed;
        report(&mut gateway, 4900, gone, 750);
        gateway.set_rate(0, Some(Bitrate::ZERO));
        // The device tells of its last packets later.
        report(&mut gateway, gone, gone + 50, 750);
        gateway.set_rate(1, KNOWN[1]);
        let after = taken_percent(&mut gateway, gone + 50, gone + 150);
        // As if it had carried nothing of late.
        let mut steady = learning(rates, config().interval);
        report(&mut steady, 0, gone + 50, 50);
        steady.set_rate(0, Some(Bitrate::ZERO));
        steady.set_rate(1, KNOWN[1]);
        let wanted = taken_percent(&mut steady, gone + 50, gone + 150);
        assert!(
            (after - wanted).abs() <= 0.05 * wanted,
            "{after} for {wanted}: {rates:?}, {noticed}"
        );
        // It is taken note of again.
        gateway.set_rate(0, KNOWN[0]);
        report(&mut gateway, gone + 800, gone + 3000, 100);
        let later = taken_percent(&mut gateway, gone + 3000, gone + 3060);
        assert!((35.0..45.0).contains(&later), "as for 10 %: {later}");
    }
}

#[test]
fn losses_count_again_as_soon_as_the_link_is_back() {
    let mut gateway = learning(KNOWN, config().interval);
    report(&mut gateway, 0, 3000, 0);
    gateway.set_rate(1, Some(Bitrate::ZERO));
    report(&mut gateway, 3000, 3050, 750);
    gateway.set_rate(1, KNOWN[1]);
    report(&mut gateway, 3050, 3550, 100);
    let after = taken_percent(&mut gateway, 3550, 3610);
    assert!((35.0..45.0).contains(&after), "as for 10 %: {after}");
}

/// An access point says for 2 ms of each 256 that it has no link.
#[test]
fn a_link_that_flaps_hides_no_losses() {
    let mut gateway = learning(KNOWN, Duration::from_millis(2));
    report(&mut gateway, 0, 3000, 0);
    let mut least = f64::MAX;
    for start in (3000..13_000).step_by(256) {
        gateway.set_rate(1, Some(Bitrate::ZERO));
        gateway.handle_timeout(at(start + 2));
        gateway.set_rate(1, KNOWN[1]);
        report(&mut gateway, start + 10, start + 220, 50);
        let taken = taken_percent(&mut gateway, start + 220, start + 250);
        if start > 4000 {
            least = least.min(taken);
        }
    }
    let mut steady = learning(KNOWN, Duration::from_millis(2));
    report(&mut steady, 0, 10_000, 50);
    let wanted = taken_percent(&mut steady, 10_000, 10_030);
    assert!((least - wanted).abs() <= 0.05 * wanted, "{least} for {wanted}");
}

#[test]
fn memory_is_bounded_and_drops_are_counted() {
    let queue = QueueConfig { limit_bytes: 100_000, ..QueueConfig::default() };
    let mut gateway = Gateway::new(NodeConfig { queue: Some(queue), ..config() }, 1, 1, at(0));
    for flow in 0..1000_u16 {
        gateway.receive(flow, &[0; 1000], at(0)).unwrap();
        assert!(gateway.queued() <= 100);
    }
    assert_eq!(gateway.stats().overflowed, 900);
    assert!(gateway.receive(0, &[0; 1501], at(0)).is_err(), "longer than the limit");
    assert_eq!(gateway.stats().refused, 1);
}
