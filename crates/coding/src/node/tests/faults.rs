//! What must not happen whatever comes: a node that is lost for good, or memory without bound.

use std::time::Duration;

use weftline_core::Instant;

use super::super::{AccessPoint, Device, Gateway, NodeConfig, NodeError};
use super::{at, config, delivered};
use crate::coefficients::Coding;
use crate::serial::{Arrival, Label};
use crate::wire::{Header, Name, Packet, Priority};

pub(super) fn marker(label: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    Packet::Marker(Name { label: Label(label), ..Name::default() }).encode(&mut bytes);
    bytes
}

/// What a gateway sends of one packet, as it is and combined.
fn sent_of(gateway: &mut Gateway, packet: u8, now: Instant, interval: Duration) -> [Vec<u8>; 2] {
    gateway.receive(0, &[packet; 50], now).unwrap();
    [(); 2].map(|()| {
        let mut out = Vec::new();
        gateway.poll_transmit(0, now + interval, &mut out).unwrap();
        out
    })
}

#[test]
fn absurd_labels_are_refused() {
    let mut device = Device::new(config(), 1);
    device.receive(0, &marker(u32::MAX), at(1)).unwrap();
    device.receive(0, &marker(3), at(1)).unwrap();
    let far = device.receive(0, &marker(1 << 31), at(1));
    assert!(matches!(far, Err(NodeError::Label { .. })), "{far:?}");
    assert!(device.receive(0, &[0; 3], at(1)).is_err());
    assert_eq!(device.stats().refused, 2);
}

/// Labels count intervals, however long nothing was sent.
#[test]
fn a_gateway_may_be_silent_for_days() {
    let interval = Duration::from_millis(2);
    let config = NodeConfig { interval, ..config() };
    let mut gateway = Gateway::new(config, 1, 1, at(0));
    let (mut ap, mut device) = (AccessPoint::new(config, 1, 1), Device::new(config, 1));
    for (packet, day) in [(0, 0), (1, 3), (2, 30)] {
        let now = at(day * 24 * 3_600_000);
        for packet in sent_of(&mut gateway, packet, now, interval) {
            ap.receive(0, &packet, now + interval).unwrap();
            device.receive(0, &packet, now + interval).unwrap();
        }
        assert_eq!(delivered(&mut device), [packet]);
    }
}

/// The gateway is started anew and nobody says so. Its labels are others; packets that were on
/// their way from the old one come, too.
#[test]
#[cfg_attr(miri, ignore = "too slow under an interpreter")]
fn nodes_find_out_that_the_gateway_is_another() {
    let config = config();
    for (first, waits_ms) in [(3_000_000_000_u32, 24), (7_000_000 - 100, 1000)] {
        let mut old = Gateway::new(config, 1, 1, at(0)).with_first_label(Label(7_000_000));
        let mut device = Device::new(config, 1);
        let mut ap = AccessPoint::new(config, 1, 1);
        for (packet, ms) in [(0, 0), (1, 12), (2, 24)] {
            for packet in sent_of(&mut old, packet, at(ms), config.interval) {
                device.receive(0, &packet, at(ms + 12)).unwrap();
                ap.receive(0, &packet, at(ms + 12)).unwrap();
            }
        }
        device.receive(0, &marker(7_000_006), at(61)).unwrap();
        ap.receive(0, &marker(7_000_006), at(61)).unwrap();
        assert_eq!(delivered(&mut device), [0, 1, 2]);
        let mut new = Gateway::new(config, 1, 2, at(60)).with_first_label(Label(first));
        let mut first_packet = None;
        for n in 0..200_u8 {
            let now = at(60 + 12 * u64::from(n));
            for packet in sent_of(&mut new, n, now, config.interval) {
                let taken = ap.receive(0, &packet, now + config.interval);
                assert_eq!(taken, device.receive(0, &packet, now + config.interval));
                first_packet = first_packet.or(taken.ok().map(|()| n));
            }
        }
        let first = first_packet.expect("the new gateway is heard");
        let wait = 12 * (u64::from(first) + 1);
        assert!((waits_ms..waits_ms + 48).contains(&wait), "{wait} ms");
        assert_eq!(delivered(&mut device), (first..200).collect::<Vec<_>>());
    }
}

/// Where names are proven, labels that do not fit are never a new start.
#[test]
fn a_device_that_knows_whose_names_they_are_does_not_go_back() {
    let config = NodeConfig { names_proven: true, ..config() };
    let mut gateway = Gateway::new(config, 1, 1, at(0));
    let mut device = Device::new(config, 2);
    let old = sent_of(&mut gateway, 0, at(0), config.interval);
    for packet in &old {
        device.receive(0, packet, at(12)).unwrap();
    }
    device.receive(0, &marker(9_000), at(108_000)).unwrap();
    for (n, ms) in [(1, 108_012), (2, 110_000), (3, 200_000)] {
        for packet in old.iter().cycle().take(20) {
            assert!(device.receive(1, packet, at(ms)).is_err());
        }
        for packet in sent_of(&mut gateway, n, at(ms), config.interval) {
            device.receive(0, &packet, at(ms + 12)).unwrap();
        }
        device.handle_timeout(at(ms + 100));
    }
    assert_eq!((delivered(&mut device), device.stats().restarts), (vec![0, 1, 2, 3], 0));
}

/// What comes again does not make a device wait for its link.
#[test]
fn a_link_that_repeats_itself_is_not_waited_for() {
    let config = config();
    let mut device = Device::new(config, 2);
    let mut gateway = Gateway::new(config, 1, 1, at(0)).with_first_label(Label(99));
    for label in [40, 99] {
        for link in 0..2 {
            device.receive(link, &marker(label), at(0)).unwrap();
        }
    }
    // Of two packets the second comes, and the first is waited for.
    for packet in [0, 1] {
        gateway.receive(0, &[packet; 50], at(1)).unwrap();
    }
    let mut out = [Vec::new(), Vec::new()];
    for out in &mut out {
        gateway.poll_transmit(0, at(12), out).unwrap();
    }
    device.receive(0, &out[1], at(12)).unwrap();
    let due = device.poll_timeout().unwrap();
    for ms in 12..30 {
        let _ = device.receive(1, &marker(40), at(ms));
        let _ = device.receive(1, &marker(99), at(ms));
    }
    assert_eq!(device.poll_timeout(), Some(due));
    assert!(due <= at(12) + config.silence(), "{due:?}");
}

/// One packet of nonsense does not turn a node away from what comes on time.
#[test]
fn a_lie_about_labels_passes() {
    let config = config();
    let mut gateway = Gateway::new(config, 1, 1, at(0));
    let mut device = Device::new(config, 2);
    let mut got = Vec::new();
    for n in 0..30_u8 {
        let now = at(12 * u64::from(n));
        for packet in sent_of(&mut gateway, n, now, config.interval) {
            let _ = device.receive(0, &packet, now + config.interval);
        }
        if n == 10 {
            let _ = device.receive(1, &marker(1 << 30), now);
            let mut far =
                sent_of(&mut Gateway::new(config, 1, 9, at(0)), 99, at(2400), config.interval);
            let _ = device.receive(1, &far[0], now);
            // And one about a flow: the packet has a number that nobody has reached.
            let Ok(Packet::Coded { mut header, payload }) = Packet::decode(&far[1]) else {
                panic!()
            };
            (header.first, header.label) = (Arrival(1 << 30), Label(12));
            let mut lie = Vec::new();
            Packet::Coded { header, payload }.encode(&mut lie);
            far[1] = lie;
            device.receive(1, &far[1], now).unwrap();
        }
        got.extend(delivered(&mut device));
    }
    device.handle_timeout(at(1000));
    got.extend(delivered(&mut device));
    got.retain(|&n| n < 99);
    assert!(got.len() >= 28 && got.is_sorted(), "{got:?}");
}

/// Combinations of nothing, each of a generation of its own, and packets of generations that are whole at
/// once: the beginnings of flows, or such that wait for what came before. What a device remembers and
/// holds in the end.
fn take_generations_without_end(wait: bool) -> [usize; 2] {
    let config = NodeConfig { buffer_packets: 10, ..config() };
    let mut device = Device::new(config, 1);
    let mut aps = [false, true]
        .map(|cut_through| AccessPoint::new(NodeConfig { cut_through, ..config }, 1, 1));
    let flows = if cfg!(miri) { 60 } else { 2000_u16 };
    for flow in 0..flows {
        let nothing = Coding::Vector(&[0, 0, 0]);
        let sent = [
            (nothing, 3, Priority::Low),
            (nothing, 3, Priority::High),
            (Coding::Systematic(0), 1, Priority::High),
        ];
        for (coding, size, priority) in sent {
            let header = Header {
                label: Label(5),
                priority,
                flow,
                generation: if wait { 1 + (flow >> 3) } else { 0 },
                size,
                cohort_packets: 0,
                first: Arrival(0),
                tag: [0; 4],
                coding,
            };
            let mut bytes = Vec::new();
            Packet::Coded { header, payload: &[0; 9] }.encode(&mut bytes);
            let _ = device.receive(0, &bytes, at(1));
            delivered_any(&mut device);
            assert!(device.remembered() <= 40 && device.held() <= 10);
            for ap in &mut aps {
                let _ = ap.receive(0, &bytes, at(1));
                assert!(ap.held() <= 10 && ap.generations() <= 10);
            }
        }
    }
    // As much is taken as there is room for.
    let refused = u64::from(flows) - 40;
    assert!(device.stats().full >= refused, "{:?}", device.stats());
    for ap in &aps {
        assert!(ap.held() == 10 && ap.stats().full >= refused, "{:?}", ap.stats());
    }
    [device.remembered(), device.held()]
}

#[test]
fn generations_without_end_are_bounded() {
    assert_eq!(take_generations_without_end(false), [40, 0]);
    assert_eq!(take_generations_without_end(true), [10, 10]);
}

fn delivered_any(device: &mut Device) {
    let mut out = Vec::new();
    while device.poll_delivery(&mut out).is_some() {}
}
