//! The nodes step by step (COTAG Fig. 2); together under random links; and with a neighbour or a
//! driver that is not as it should be.

mod faults;
mod queued;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use weftline_core::Instant;

use super::links::MAX_LAG;
use super::{
    AccessPoint, Delivery, Device, Gateway, LossReport, Mode, NodeConfig, NodeError, Place,
    QueueConfig, Seal,
};
use crate::coefficients::Coding;
use crate::serial::Label;
use crate::wire::{Name, Packet, Priority};

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn config() -> NodeConfig {
    NodeConfig { interval: Duration::from_millis(12), ..NodeConfig::default() }
}

/// A packet as the figure writes it: flow, cohort, kind.
fn written(bytes: &[u8]) -> String {
    match Packet::decode(bytes).unwrap() {
        Packet::Marker(name) => format!("marker {}", name.label.0),
        Packet::Coded { header, .. } => {
            let flow = if header.flow == 0 { 'A' } else { 'B' };
            let kind = match header.coding {
                Coding::Seed(_) => "combination".to_owned(),
                Coding::Systematic(index) => format!("packet {index}"),
                Coding::Vector(_) => "recoded".to_owned(),
            };
            let priority = if header.priority == Priority::High { "high" } else { "low" };
            format!(
                "{flow}{} {kind} of {} ({} in all), {priority}",
                header.label.0, header.size, header.cohort_packets
            )
        }
    }
}

/// Six packets of flows a and b in cohort 1, T = 12; one packet takes a unit of time and the two
/// links take turns; the redundancy limit allows four more (COTAG Fig. 2).
fn figure_2(mode: Mode) -> String {
    let config = NodeConfig { mode, redundancy_percent: 70, ..config() };
    let mut gateway = Gateway::new(config, 2, 1, at(0));
    for (ms, flow) in [(1, 0), (2, 0), (4, 1), (5, 0), (8, 0), (11, 1)] {
        gateway.receive(flow, &[flow as u8; 100], at(ms)).unwrap();
    }
    let mut log = String::new();
    let mut out = Vec::new();
    for ms in 0..50 {
        out.clear();
        let link = (ms % 2) as usize;
        if gateway.poll_transmit(link, at(ms), &mut out).is_some() {
            writeln!(log, "{ms:>2} link {link}: {}", written(&out)).unwrap();
        }
    }
    log
}

#[test]
fn figure_2_as_the_paper_has_it() {
    let wanted = "\
12 link 0: A1 combination of 4 (4 in all), high
13 link 1: A1 combination of 4 (4 in all), high
14 link 0: B1 combination of 2 (2 in all), high
15 link 1: A1 combination of 4 (4 in all), high
16 link 0: A1 combination of 4 (4 in all), high
17 link 1: B1 combination of 2 (2 in all), high
18 link 0: A1 combination of 4 (4 in all), low
19 link 1: A1 combination of 4 (4 in all), low
20 link 0: B1 combination of 2 (2 in all), low
21 link 1: A1 combination of 4 (4 in all), low
24 link 0: marker 2
25 link 1: marker 2
36 link 0: marker 3
37 link 1: marker 3
";
    assert_eq!(figure_2(Mode::Dense), wanted);
}

#[test]
fn figure_2_with_packets_as_they_are() {
    let log = figure_2(Mode::Systematic);
    let first: Vec<_> = log.lines().take(7).collect();
    assert_eq!(first[0], "12 link 0: A1 packet 0 of 4 (4 in all), high");
    assert_eq!(first[2], "14 link 0: B1 packet 0 of 2 (2 in all), high");
    assert_eq!(first[5], "17 link 1: B1 packet 1 of 2 (2 in all), high");
    assert_eq!(first[6], "18 link 0: A1 combination of 4 (4 in all), low");
    assert_eq!(log.lines().count(), 14);
}

#[test]
fn what_a_gateway_has_no_time_for_is_given() {
    let mut gateway = Gateway::new(config(), 1, 1, at(0));
    for _ in 0..5 {
        gateway.receive(0, b"packet", at(3)).unwrap();
    }
    assert_eq!(gateway.poll_timeout(), Some(at(12)));
    let mut out = Vec::new();
    for ms in [13, 14] {
        assert_eq!(gateway.poll_transmit(0, at(ms), &mut out), Some(Priority::High));
    }
    out.clear();
    assert_eq!(gateway.poll_transmit(0, at(24), &mut out), Some(Priority::High));
    assert_eq!(written(&out), "marker 2");
    assert_eq!((gateway.stats().high, gateway.stats().given), (2, 3));
    // Nobody asked for the whole interval of a cohort.
    gateway.receive(0, b"packet", at(25)).unwrap();
    gateway.handle_timeout(at(100));
    assert_eq!(gateway.stats().given, 4);
    gateway.handle_timeout(at(1000));
    assert_eq!(gateway.poll_timeout(), None);
}

#[test]
fn a_gateway_with_cut_through_sends_packets_as_they_come() {
    let limits = crate::Limits { packets: 2, packet_bytes: 100 };
    let config = NodeConfig { cut_through: true, limits, redundancy_percent: 50, ..config() };
    let mut gateway = Gateway::new(config, 2, 1, at(0));
    let mut log = Vec::new();
    let mut poll = |gateway: &mut Gateway, link, ms| {
        let mut out = Vec::new();
        let sent = gateway.poll_transmit(link, at(ms), &mut out);
        log.push(format!("{ms}: {}", sent.map_or("nothing".to_owned(), |_| written(&out))));
    };
    for ms in [1, 2] {
        gateway.receive(0, b"packet", at(ms)).unwrap();
        poll(&mut gateway, 0, ms);
    }
    poll(&mut gateway, 1, 3);
    gateway.receive(0, b"packet", at(11)).unwrap();
    // There was no room for the third, and another has come.
    gateway.receive(0, b"packet", at(12)).unwrap();
    for link in [0, 0, 1, 1, 1] {
        poll(&mut gateway, link, 13);
    }
    poll(&mut gateway, 0, 24);
    let wanted = [
        "1: A1 packet 0 of 0 (0 in all), high",
        "2: A1 packet 1 of 2 (0 in all), high",
        "3: nothing",
        "13: A1 packet 0 of 1 (3 in all), high",
        "13: A2 packet 0 of 0 (0 in all), high",
        "13: marker 1",
        "13: A1 combination of 2 (3 in all), low",
        "13: nothing",
        "24: marker 2",
    ];
    assert_eq!(log, wanted);
    assert_eq!((gateway.stats().high, gateway.stats().given), (4, 0));
}

/// Writes the place before each packet, and refuses some.
struct Stamp;

impl Seal for Stamp {
    fn overhead(&self) -> usize {
        10
    }

    fn seal(&mut self, place: Place, packet: &[u8], out: &mut Vec<u8>) -> bool {
        out.extend_from_slice(&place.flow.to_be_bytes());
        out.extend_from_slice(&place.arrival.0.to_be_bytes());
        out.extend_from_slice(&place.label.0.to_be_bytes());
        out.extend_from_slice(packet);
        packet != b"refused"
    }
}

/// The place for which a packet was sealed is the one that the device finds it in, whether it came as
/// it was or was computed; and no two have the same.
#[test]
fn packets_are_sealed_for_the_places_in_which_they_are_found() {
    let limits = crate::Limits { packets: 4, packet_bytes: 20 };
    for (mode, cut_through, queue) in [
        (Mode::Systematic, false, None),
        (Mode::Dense, false, None),
        (Mode::Systematic, true, Some(QueueConfig::default())),
        (Mode::Systematic, false, Some(QueueConfig::default())),
    ] {
        let config = NodeConfig { mode, cut_through, queue, limits, ..config() };
        let (mut gateway, mut device) = (Gateway::new(config, 1, 1, at(0)), Device::new(config, 1));
        let (mut places, mut out) = (Vec::new(), Vec::new());
        for n in 0..300_u64 {
            let mut stamp = Stamp;
            let mut sealing = gateway.sealing(&mut stamp);
            assert!(sealing.receive(1, &[9; 15], at(n)).is_err(), "longer than the limit");
            for flow in 0..3_u16 {
                let packet: &[u8] = if n % 7 == 3 { b"refused" } else { &n.to_be_bytes() };
                let _ = sealing.receive(flow, packet, at(n));
            }
            sealing.handle_timeout(at(n));
            let mut sent = 0;
            while sealing.poll_transmit(0, at(n), &mut out).is_some() {
                sent += 1;
                if mode == Mode::Dense || (n + sent) % 5 != 0 {
                    let _ = device.receive(0, &out, at(n));
                }
                out.clear();
            }
            device.handle_timeout(at(n));
            while let Some(Delivery { place, .. }) = device.poll_delivery(&mut out) {
                let numbers = [place.arrival.0, place.label.0].map(u32::to_be_bytes).concat();
                assert_eq!(out[..10], [&place.flow.to_be_bytes()[..], &numbers].concat());
                // The label adds nothing: flow and arrival number are given once.
                let Place { flow, arrival, .. } = place;
                assert!(!places.contains(&(flow, arrival)));
                places.push((flow, arrival));
                out.clear();
            }
        }
        let stats = gateway.stats();
        assert!(places.len() > 600 && stats.unsealed > 100, "{} {stats:?}", places.len());
    }
}

/// A flow's generations share what redundancy there is.
#[test]
fn redundant_packets_are_of_all_generations() {
    let limits = crate::Limits { packets: 4, packet_bytes: 100 };
    let config = NodeConfig { limits, redundancy_percent: 50, ..config() };
    let mut gateway = Gateway::new(config, 1, 1, at(0));
    for n in 0..14_u8 {
        gateway.receive(u16::from(n % 7 == 6), &[n; 9], at(1)).unwrap();
    }
    let (mut counts, mut out) = (BTreeMap::new(), Vec::new());
    while let Some(priority) = gateway.poll_transmit(0, at(12), &mut out) {
        let Ok(Packet::Coded { header, .. }) = Packet::decode(&out) else { panic!("{out:?}") };
        let count = counts.entry((header.flow, header.generation)).or_insert([0, 0]);
        count[usize::from(priority == Priority::Low)] += 1;
        out.clear();
    }
    let wanted = [((0, 0), [4, 2]), ((0, 1), [4, 2]), ((0, 2), [4, 2]), ((1, 0), [2, 1])];
    assert_eq!(counts.into_iter().collect::<Vec<_>>(), wanted);
}

/// Packets of one flow for cohorts, as a gateway sends them at leisure.
fn cohorts(sizes: &[usize], config: NodeConfig) -> Vec<Vec<Vec<u8>>> {
    let mut gateway = Gateway::new(config, 1, 7, at(0));
    let mut sent = Vec::new();
    let mut number = 0_u8;
    for (k, &size) in sizes.iter().enumerate() {
        let start = at(12 * k as u64);
        for _ in 0..size {
            gateway.receive(0, &[number; 50], start).unwrap();
            number += 1;
        }
        let mut out = Vec::new();
        let mut cohort = Vec::new();
        while gateway.poll_transmit(0, start + config.interval, &mut out).is_some() {
            cohort.push(std::mem::take(&mut out));
        }
        sent.push(cohort);
    }
    sent
}

#[test]
fn a_full_access_point_drops_what_has_low_priority_of_the_cohort_that_it_sends() {
    let config = NodeConfig { buffer_packets: 4, no_more_than_received: false, ..config() };
    let cohorts = cohorts(&[3, 2], config);
    let mut ap = AccessPoint::new(config, 1, 1);
    let (a, b) = (&cohorts[0], &cohorts[1]);
    for packet in [&a[3], &a[0], &a[1], &b[0]] {
        ap.receive(0, packet, at(13)).unwrap();
    }
    ap.receive(0, &b[1], at(13)).unwrap();
    assert_eq!((ap.held(), ap.stats().full), (4, 1));
    let mut out = Vec::new();
    for wanted in ["A1 packet 0 of 3 (3 in all), high", "A1 packet 1 of 3 (3 in all), high"] {
        out.clear();
        ap.poll_transmit(at(14), &mut out).unwrap();
        assert_eq!(written(&out), wanted);
    }
    // What is combined has none of what was given away.
    out.clear();
    ap.poll_transmit(at(14), &mut out).unwrap();
    let Ok(Packet::Coded { header, .. }) = Packet::decode(&out) else { panic!("{out:?}") };
    assert!(matches!(header.coding, Coding::Vector([_, _, 0])), "{header:?}");
    assert_eq!(ap.receive(0, &b[1], at(14)), Err(NodeError::Full(4)));
}

fn sent_by(ap: &mut AccessPoint, now: Instant) -> Vec<String> {
    let mut out = Vec::new();
    let mut log = Vec::new();
    while ap.poll_transmit(now, &mut out).is_some() {
        log.push(written(&out));
        out.clear();
    }
    log
}

#[test]
fn an_access_point_sends_a_cohort_from_the_next_ones_first_packet_on() {
    let config = NodeConfig { redundancy_percent: 50, ..config() };
    let cohorts = cohorts(&[2, 2, 1], config);
    let mut ap = AccessPoint::new(config, 1, 1);
    for packet in &cohorts[0] {
        ap.receive(0, packet, at(13)).unwrap();
        assert_eq!(sent_by(&mut ap, at(13)), [""; 0]);
    }
    ap.receive(0, &cohorts[1][0], at(25)).unwrap();
    let log = sent_by(&mut ap, at(25));
    assert_eq!(
        log,
        [
            "A1 packet 0 of 2 (2 in all), high",
            "A1 packet 1 of 2 (2 in all), high",
            // The redundant one adds nothing to what was sent: a new combination takes its place.
            "A1 recoded of 2 (2 in all), low",
        ]
    );
    ap.receive(0, &cohorts[1][1], at(26)).unwrap();
    // The first of cohort 3 ends what was left of cohort 1 and begins cohort 2.
    ap.receive(0, &cohorts[2][0], at(37)).unwrap();
    assert_eq!(sent_by(&mut ap, at(37))[0], "A2 packet 0 of 2 (2 in all), high");
    assert_eq!(ap.receive(0, &cohorts[0][0], at(38)), Err(NodeError::Late(Label(1))));
    // Nothing comes for T after cohort 3, which has its turn then.
    assert_eq!(ap.poll_timeout(), Some(at(49)));
    ap.handle_timeout(at(49));
    assert_eq!(sent_by(&mut ap, at(49))[0], "A3 packet 0 of 1 (1 in all), high");
}

/// What it has sent may be lost on its radio, however much of it there was.
#[test]
fn a_combination_that_adds_nothing_is_replaced_by_a_new_one_at_once() {
    let early = NodeConfig { redundancy_percent: 50, cut_through: true, ..config() };
    let cohorts = cohorts(&[4], NodeConfig { cut_through: false, ..early });
    let mut ap = AccessPoint::new(early, 1, 1);
    for packet in &cohorts[0] {
        ap.receive(0, packet, at(13)).unwrap();
    }
    let log = sent_by(&mut ap, at(13));
    let recoded = log.iter().filter(|sent| sent.contains("recoded of 4")).count();
    assert_eq!((ap.stats().redundant, recoded), (2, 2), "{log:?}");
}

#[test]
fn a_full_access_point_drops_low_priority_first() {
    let config = NodeConfig { buffer_packets: 3, ..config() };
    let cohorts = cohorts(&[2, 2], config);
    // Two of high priority and two of low.
    assert_eq!(cohorts[0].len(), 4);
    let mut ap = AccessPoint::new(config, 1, 1);
    for packet in &cohorts[0][..3] {
        ap.receive(0, packet, at(13)).unwrap();
    }
    assert_eq!(ap.receive(0, &cohorts[0][3], at(13)), Err(NodeError::Full(3)));
    // The first of cohort 2 takes the redundant one's place; cohort 1 then has its turn.
    ap.receive(0, &cohorts[1][0], at(25)).unwrap();
    assert_eq!(ap.stats().full, 2);
    assert_eq!(ap.receive(0, &cohorts[1][1], at(25)), Err(NodeError::Full(3)));
    assert_eq!(sent_by(&mut ap, at(25)).len(), 2);
}

#[test]
fn an_access_point_with_cut_through_sends_packets_as_they_come() {
    let early = NodeConfig { cut_through: true, ..config() };
    let cohorts = cohorts(&[2, 2, 1], config());
    let mut ap = AccessPoint::new(early, 1, 1);
    let sent = |ap: &mut AccessPoint, packet: &[u8], ms| {
        ap.receive(0, packet, at(ms)).unwrap();
        sent_by(ap, at(ms))
    };
    let (a, b, c) = (&cohorts[0], &cohorts[1], &cohorts[2]);
    assert_eq!(sent(&mut ap, &a[0], 13), ["marker 1", "A1 packet 0 of 2 (2 in all), high"]);
    assert_eq!(sent(&mut ap, &a[2], 14), ["A1 combination of 2 (2 in all), low"]);
    // This adds nothing to what went out.
    assert_eq!(sent(&mut ap, &a[1], 15), [""; 0]);
    // The next cohort is sent at once; what was not sent of this one is made up for, and it ends.
    assert_eq!(
        sent(&mut ap, &b[0], 25),
        ["A2 packet 0 of 2 (0 in all), high", "A1 recoded of 2 (2 in all), low", "marker 2",]
    );
    // What comes of it nevertheless goes on, in case that the next node waits.
    assert_eq!(sent(&mut ap, &a[0], 25), ["A1 packet 0 of 2 (0 in all), high"]);
    // A link that is blocked: cohort 2 has its time until the first packet of cohort 4.
    ap.receive(0, &b[1], at(26)).unwrap();
    ap.receive(0, &c[0], at(37)).unwrap();
    assert_eq!(ap.receive(0, &a[0], at(37)), Err(NodeError::Late(Label(1))));
    let mut out = Vec::new();
    Packet::Marker(Name { label: Label(4), ..Name::default() }).encode(&mut out);
    ap.receive(0, &out, at(48)).unwrap();
    assert_eq!(
        sent_by(&mut ap, at(48)),
        ["marker 3", "A3 packet 0 of 1 (1 in all), high", "marker 4"]
    );
    assert_eq!((ap.stats().given, ap.held()), (1, 0));
    assert_eq!(ap.poll_timeout(), None);
}

#[test]
fn what_a_blocked_link_had_no_time_for_is_counted_by_its_priority() {
    let cohorts = cohorts(&[2, 1, 1], config());
    let mut ap = AccessPoint::new(NodeConfig { cut_through: true, ..config() }, 1, 1);
    // A packet and a combination, and a packet of each cohort after that.
    for (packet, ms) in [(&cohorts[0][0], 13), (&cohorts[0][2], 13), (&cohorts[1][0], 25)] {
        ap.receive(0, packet, at(ms)).unwrap();
    }
    ap.receive(0, &cohorts[2][0], at(37)).unwrap();
    ap.handle_timeout(at(37));
    assert_eq!((ap.stats().given, ap.stats().low_given), (1, 1));
}

/// A packet as it is sent while its cohort is open.
fn early(packet: &[u8]) -> Vec<u8> {
    let Ok(Packet::Coded { mut header, payload }) = Packet::decode(packet) else {
        panic!("no packet of a cohort")
    };
    (header.cohort_packets, header.size) = (0, 0);
    let mut early = Vec::new();
    Packet::Coded { header, payload }.encode(&mut early);
    early
}

#[test]
fn what_has_gone_out_makes_way_for_what_comes() {
    let config =
        NodeConfig { buffer_packets: 4, cut_through: true, redundancy_percent: 0, ..config() };
    let cohorts = cohorts(&[7, 7, 7], NodeConfig { buffer_packets: 100, ..config });
    let mut ap = AccessPoint::new(config, 1, 1);
    let mut sent = 0;
    for packet in cohorts[..2].iter().flatten() {
        ap.receive(0, packet, at(13)).unwrap();
        sent += sent_by(&mut ap, at(13)).iter().filter(|sent| sent.contains("packet")).count();
        assert!(ap.held() <= 4);
    }
    assert_eq!((sent, ap.stats().full), (14, 0));
    // What has not gone out stays.
    let taken = cohorts[2].iter().map(|packet| ap.receive(0, packet, at(14)));
    let taken = taken.filter(Result::is_ok).count();
    assert_eq!((taken, ap.stats().full), (4, 3));
    assert_eq!(sent_by(&mut ap, at(14)).iter().filter(|sent| sent.contains("packet")).count(), 4);
}

#[test]
fn what_comes_after_its_combination_was_not_missing() {
    let config = NodeConfig { redundancy_percent: 100, ..config() };
    let cohorts = cohorts(&[4, 4], config);
    let mut device = Device::new(config, 2);
    // Of the first cohort one packet comes late, of the second it does not come.
    for packet in cohorts[0][1..5].iter().chain(&cohorts[0][..1]).chain(&cohorts[1][1..5]) {
        device.receive(0, packet, at(20)).unwrap();
    }
    assert_eq!(delivered(&mut device), [0, 1, 2, 3, 4, 5, 6, 7]);
    let stats = device.stats();
    assert_eq!(stats.recovered, 2);
    // Their cohorts are open: it may come yet.
    assert_eq!(device.poll_report(), Some(LossReport { packets: 8, missing: 0 }));
    device.handle_timeout(at(2000));
    assert_eq!(device.poll_report(), None);
    let config = NodeConfig { redundancy_percent: 0, ..config };
    let others = self::cohorts(&[4, 4, 1], config);
    device.receive(0, &others[2][0], at(2001)).unwrap();
    device.handle_timeout(at(4000));
    assert_eq!(device.poll_report(), Some(LossReport { packets: 1, missing: 1 }));
}

#[test]
fn what_is_early_closes_nothing() {
    let mut device = Device::new(config(), 2);
    let cohorts = cohorts(&[2, 2], config());
    device.receive(0, &cohorts[0][1], at(20)).unwrap();
    for (link, packet) in cohorts[1][..2].iter().enumerate() {
        device.receive(link, &early(packet), at(21)).unwrap();
    }
    assert_eq!(delivered(&mut device), [0; 0]);
    device.receive(1, &cohorts[0][0], at(22)).unwrap();
    assert_eq!(delivered(&mut device), [0, 1, 2, 3]);
}

fn delivered(device: &mut Device) -> Vec<u8> {
    let mut numbers = Vec::new();
    let mut out = Vec::new();
    while let Some(Delivery { place: Place { flow, .. }, .. }) = device.poll_delivery(&mut out) {
        assert_eq!((flow, out.len()), (0, 50));
        assert!(out.iter().all(|&b| b == out[0]));
        numbers.push(out[0]);
        out.clear();
    }
    numbers
}

#[test]
fn a_device_delivers_in_order_and_gives_up_a_silent_link() {
    let config = config();
    let cohorts = cohorts(&[3, 2, 2], config);
    let mut device = Device::new(config, 2);
    device.receive(0, &cohorts[0][0], at(20)).unwrap();
    assert_eq!(delivered(&mut device), [0]);
    device.receive(1, &early(&cohorts[0][0]), at(20)).unwrap();
    device.receive(0, &cohorts[0][2], at(20)).unwrap();
    device.receive(0, &cohorts[1][0], at(25)).unwrap();
    assert_eq!(delivered(&mut device), [0; 0], "packet 1 may still come on link 1");
    // A combination makes up for it.
    device.receive(0, &cohorts[0][3], at(26)).unwrap();
    assert_eq!(delivered(&mut device), [1, 2, 3]);
    device.receive(0, &cohorts[2][1], at(30)).unwrap();
    // Link 1 shows nothing: cohort 2 waits for 2 T after its last packet, then its second packet
    // is given up; then cohort 3 likewise.
    assert_eq!(delivered(&mut device), [0; 0]);
    let mut now = at(30);
    while let Some(due) = device.poll_timeout() {
        assert!(due > now && due <= at(30 + 2 * 24), "{due:?}");
        now = due;
        device.handle_timeout(now);
    }
    assert_eq!(delivered(&mut device), [6]);
    assert_eq!((device.stats().lost, device.stats().delivered), (2, 5));
    assert_eq!(device.receive(1, &cohorts[1][1], now), Err(NodeError::Late(Label(2))));
    assert_eq!(device.receive(2, &cohorts[1][1], now), Err(NodeError::Link { link: 2, links: 2 }));
}

/// It may be the slower one by far; once.
#[test]
fn a_link_that_was_never_heard_has_the_longest_lag_from_the_first_packet_on() {
    let config = config();
    let cohorts = cohorts(&[3, 2], config);
    let mut device = Device::new(config, 2);
    device.receive(0, &cohorts[0][0], at(20)).unwrap();
    device.receive(0, &cohorts[0][2], at(20)).unwrap();
    let longest = config.interval * MAX_LAG;
    device.handle_timeout(at(20) + longest - config.interval);
    assert_eq!(delivered(&mut device), [0], "packet 1 may still come on link 1");
    device.handle_timeout(at(20) + longest);
    assert_eq!(delivered(&mut device), [2]);
    let late = at(20) + longest + config.interval;
    device.receive(0, &cohorts[1][1], late).unwrap();
    device.handle_timeout(late + config.silence());
    assert_eq!(delivered(&mut device), [4], "not again");
}

/// How long the second packet of a cohort is waited for that is lost, where the others come on link 0.
fn gap(device: &mut Device, cohort: &[Vec<u8>], now: Instant) -> Duration {
    let lost = device.stats().lost;
    device.receive(0, &cohort[0], now).unwrap();
    device.receive(0, &cohort[2], now).unwrap();
    loop {
        let due = device.poll_timeout().unwrap();
        device.handle_timeout(due);
        if device.stats().lost > lost {
            return due.since(now);
        }
    }
}

/// A device with two links, of which the second lags by five intervals; a cohort has come on both.
fn device_with_a_far_link(cohort: &[Vec<u8>], config: NodeConfig) -> (Device, Instant) {
    let (mut device, now) = (Device::new(config, 2), at(20));
    for packet in &cohort[..3] {
        device.receive(0, packet, now).unwrap();
    }
    let now = now + 5 * config.interval;
    device.receive(1, &cohort[0], now).unwrap();
    (device, now)
}

/// The gateway pauses after a marker that is lost on one link: no time passes for that link.
#[test]
fn a_pause_leaves_no_link_behind() {
    let config = config();
    let cohorts = cohorts(&[3, 3, 3], config);
    let (mut device, now) = device_with_a_far_link(&cohorts[0], config);
    device.receive(0, &faults::marker(2), now).unwrap();
    let later = now + Duration::from_secs(10);
    let waited = gap(&mut device, &cohorts[2], later);
    assert!(waited > config.silence() + 4 * config.interval, "{waited:?}");
    assert_eq!(device.lag(1), Some(5 * config.interval));
}

#[test]
fn a_link_that_is_dead_is_gone_though_little_is_sent() {
    let config = config();
    let cohorts = cohorts(&[3; 10], config);
    let (mut device, mut now) = device_with_a_far_link(&cohorts[0], config);
    for cohort in &cohorts[1..9] {
        now += Duration::from_secs(10);
        device.receive(0, &cohort[0], now).unwrap();
    }
    let waited = gap(&mut device, &cohorts[9], now + Duration::from_secs(10));
    assert!(waited <= config.silence(), "{waited:?}");
    assert_eq!(device.lag(1), None);
}

/// What it brought later than others is not waited for any more: each gap would take that long.
#[test]
fn a_link_that_is_gone_has_no_lag() {
    let config = config();
    let interval = config.interval;
    let cohorts = cohorts(&[&[3, 3][..], &[1; 78], &[3]].concat(), config);
    let mut device = Device::new(config, 2);
    let mut now = at(20);
    for packet in &cohorts[0][..3] {
        device.receive(0, packet, now).unwrap();
    }
    now += 5 * interval;
    device.receive(1, &early(&cohorts[0][0]), now).unwrap();
    assert!(gap(&mut device, &cohorts[1], now) > config.silence() + 4 * interval);
    for cohort in &cohorts[2..80] {
        now += interval;
        device.receive(0, &cohort[0], now).unwrap();
    }
    assert!(gap(&mut device, &cohorts[80], now + interval) <= config.silence());
    assert_eq!(delivered(&mut device).len(), 3 + 2 + 78 + 2);
}

/// The gateway would go on to give the near link all there is.
#[test]
fn nothing_is_said_of_the_lag_of_a_link_that_is_gone() {
    let config = config();
    let interval = config.interval;
    let mut device = Device::new(config, 2);
    let (mut now, first) = (at(20), 5);
    assert_eq!((device.lag(0), device.lag(2)), (None, None));
    for label in first..first + 20 {
        device.receive(0, &faults::marker(label), now).unwrap();
        if label > first + 2 {
            device.receive(1, &faults::marker(label - 3), now).unwrap();
        }
        now += interval;
    }
    assert_eq!((device.lag(0), device.lag(1)), (Some(Duration::ZERO), Some(interval * 3)));
    for label in first + 17..first + 100 {
        device.receive(1, &faults::marker(label), now).unwrap();
        now += interval;
    }
    assert_eq!((device.lag(0), device.lag(1)), (None, Some(Duration::ZERO)));
    // It is back.
    device.receive(0, &faults::marker(first + 103), now).unwrap();
    assert_eq!(device.lag(0), Some(Duration::ZERO));
}

/// As an access point may do that lies: it says ever newer labels before their time, which shows that the
/// link lives, and sends what is there again and again.
#[test]
fn what_is_there_already_holds_nothing_up() {
    let config = config();
    let cohorts = cohorts(&[3].into_iter().chain([1; 50]).collect::<Vec<_>>(), config);
    let mut device = Device::new(config, 2);
    device.receive(0, &cohorts[0][0], at(20)).unwrap();
    device.receive(0, &cohorts[0][2], at(20)).unwrap();
    let last = 20 + (config.interval * MAX_LAG).as_millis() as u64;
    let mut got = Vec::new();
    for (k, ms) in (21..=last).step_by(16).chain([last]).enumerate() {
        let _ = device.receive(1, &early(&cohorts[k + 1][0]), at(ms));
        let _ = device.receive(1, &cohorts[0][0], at(ms));
        device.handle_timeout(at(ms));
        got.extend(delivered(&mut device));
    }
    assert!(got.starts_with(&[0, 2]), "{got:?}");
}

#[test]
fn both_links_past_a_cohort_close_it_at_once() {
    let config = config();
    let cohorts = cohorts(&[2, 2], config);
    let mut device = Device::new(config, 2);
    device.receive(0, &cohorts[0][1], at(20)).unwrap();
    device.receive(0, &cohorts[1][0], at(25)).unwrap();
    assert_eq!(delivered(&mut device), [0; 0]);
    device.receive(1, &cohorts[1][1], at(25)).unwrap();
    assert_eq!(delivered(&mut device), [1, 2, 3]);
    assert_eq!(device.stats().lost, 1, "a flow begins with packet 0");
}

#[test]
fn a_full_device_closes_its_oldest_cohort_for_what_has_high_priority() {
    let cohorts = cohorts(&[4, 2], config());
    let config = NodeConfig { buffer_packets: 2, ..config() };
    let mut device = Device::new(config, 2);
    device.receive(0, &cohorts[0][1], at(20)).unwrap();
    let low = cohorts[0].last().unwrap();
    device.receive(0, &cohorts[0][2], at(20)).unwrap();
    assert_eq!(device.receive(0, low, at(20)), Err(NodeError::Full(2)));
    // With one cohort open there is none to close.
    assert_eq!(device.receive(0, &cohorts[0][0], at(20)), Err(NodeError::Full(2)));
    let config = NodeConfig { buffer_packets: 3, ..config };
    let mut device = Device::new(config, 2);
    for (cohort, packet) in [(0, 1), (0, 2), (1, 0)] {
        device.receive(0, &cohorts[cohort][packet], at(20)).unwrap();
    }
    // The oldest closes, and does not open again for a packet of its own.
    assert_eq!(device.receive(0, &cohorts[0][0], at(21)), Err(NodeError::Late(Label(1))));
    assert_eq!(delivered(&mut device), [1, 2, 4]);
    device.receive(0, &cohorts[1][1], at(21)).unwrap();
    assert_eq!(delivered(&mut device), [5]);
    // A cohort of which everything was handed out makes no room.
    let cohorts = self::cohorts(&[1, 3, 2], config);
    let mut device = Device::new(config, 2);
    for (cohort, packet) in [(0, 0), (1, 1), (1, 2), (2, 1), (2, 0)] {
        device.receive(0, &cohorts[cohort][packet], at(20)).unwrap();
        assert!(device.held() <= 3);
    }
    let _ = device.receive(0, &cohorts[2][2], at(21));
    assert_eq!(delivered(&mut device), [0, 2, 3, 4, 5]);
}

/// Whether a generation has another packet is not known while it is open: the next one's first
/// packet tells where it ends.
#[test]
fn an_open_generation_does_not_hold_up_the_next_one() {
    let cohorts = cohorts(&[2, 1], config());
    let mut device = Device::new(config(), 2);
    for (cohort, packet) in [(0, 0), (0, 1), (1, 0)] {
        device.receive(packet, &early(&cohorts[cohort][packet]), at(20)).unwrap();
    }
    assert_eq!(delivered(&mut device), [0, 1, 2]);
}
