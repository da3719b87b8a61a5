//! Gateway and device with two access points between them, of which one may lie; in virtual time.

mod devices;
mod names;
mod reopened;
mod restarts;

use std::collections::BTreeSet;
use std::time::Duration;

use weftline_coding::node;
use weftline_coding::wire::{self, Packet};
use weftline_core::Instant;

use crate::class::Class;
use crate::device_end::DeviceEnd;
use crate::endpoint::Use;
use crate::frame::{self, CODED_HEADER, Coding, DeviceTag, EpochList, Frame, Keepalive};
use crate::gateway_end::GatewayEnd;
use crate::key::SecretKey;
use crate::secure::Local;
use crate::settings::{Scheme, Sending};
use crate::status::Counter;

/// Packets that come to the gateway, and that each link carries, in a millisecond.
const COME: usize = 8;
const CARRIED: usize = 10;

/// What the second access point does with a packet of the coding layer before it sends it; whether it
/// sends it.
type Lie = fn(u64, &mut [u8]) -> bool;

fn honest(_: u64, _: &mut [u8]) -> bool {
    true
}

struct World {
    now: Instant,
    gateway: GatewayEnd,
    aps: [node::AccessPoint; 2],
    /// The epoch that access points follow.
    epoch: u32,
    device: DeviceEnd,
    lie: Lie,
    /// Packets that the second access point sent.
    lies: u64,
    next: u32,
    got: Vec<u32>,
    /// What was relayed to the device, and what the second access point sent.
    relayed: Vec<Vec<u8>>,
    sent: Vec<Vec<u8>>,
    mtu: usize,
}

fn secret(byte: u8) -> SecretKey {
    SecretKey::from_bytes([byte; 32])
}

fn local(byte: u8) -> Local {
    Local::new(secret(byte), false)
}

fn content(number: u32, length: usize) -> Vec<u8> {
    let mut packet = number.to_be_bytes().to_vec();
    packet.resize(length.max(4), number as u8);
    packet
}

/// Access points of the gateway's epoch.
fn aps(gateway: &GatewayEnd) -> [node::AccessPoint; 2] {
    let settings = gateway.settings();
    let mode = match settings.coding {
        Coding::Coded(mode) => mode,
        // Nothing goes through them then.
        Coding::Plain => node::Mode::Systematic,
    };
    [1, 2].map(|seed| node::AccessPoint::new(settings.node(mode, 100), 1, seed))
}

impl World {
    fn new(sending: Sending, lie: Lie) -> Self {
        let now = Instant::from_millis(1_000_000);
        let settings = sending.settings(&local(1), true).unwrap();
        let gateway =
            GatewayEnd::new(local(1), secret(2).public(), settings, sending, 2, now).unwrap();
        let names = vec!["honest".to_owned(), "other".to_owned()];
        Self {
            now,
            aps: aps(&gateway),
            epoch: gateway.epoch(),
            gateway,
            device: DeviceEnd::new(local(2), secret(1).public(), names, 7),
            lie,
            lies: 0,
            next: 0,
            got: Vec::new(),
            relayed: Vec::new(),
            sent: Vec::new(),
            mtu: usize::from(sending.tunnel_mtu(&local(1), true).unwrap()),
        }
    }

    /// One whose ends have heard of each other.
    fn joined(sending: Sending, lie: Lie) -> Self {
        let mut world = Self::new(sending, lie);
        for _ in 0..5 {
            world.step(0);
        }
        assert_eq!(world.device.mtu(), Some(world.mtu as u16));
        world
    }

    /// A millisecond, in which so many packets come to the gateway.
    fn step(&mut self, come: usize) {
        self.now += Duration::from_millis(1);
        let now = self.now;
        for _ in 0..come {
            let length = 20 + self.next as usize * 37 % (self.mtu - 20);
            self.gateway.push((self.next % 3) as u16, &content(self.next, length), now);
            self.next += 1;
        }
        self.gateway.handle_timeout(now);
        let epoch = self.gateway.epoch();
        if self.epoch != epoch {
            self.epoch = epoch;
            self.aps = aps(&self.gateway);
        }
        let mut out = Vec::new();
        for _ in 0..CARRIED {
            for link in 0..2 {
                out.clear();
                if self.gateway.poll_transmit(link, now, &mut out).is_some() {
                    let Some(Frame::Coded { packet, .. }) = Frame::decode(&out) else {
                        panic!("coded");
                    };
                    let _ = self.aps[link].receive(0, packet, now);
                }
            }
        }
        for (link, ap) in self.aps.iter_mut().enumerate().rev() {
            ap.handle_timeout(now);
            for _ in 0..CARRIED {
                out.clear();
                frame::begin_coded(epoch, &mut out);
                if ap.poll_transmit(now, &mut out).is_none() {
                    break;
                }
                if link == 1 {
                    self.lies += 1;
                    let mut packet = out.split_off(CODED_HEADER);
                    if !(self.lie)(self.lies, &mut packet) {
                        continue;
                    }
                    out.extend_from_slice(&packet);
                    self.sent.push(out.clone());
                }
                self.device.receive(link, Frame::decode(&out).unwrap(), Class::NONE, now);
            }
        }
        self.speak();
        self.device.handle_timeout(now);
        let got = &mut self.got;
        self.device.deliver(|packet| {
            let number = u32::from_be_bytes(packet[..4].try_into().unwrap());
            assert!(packet[4..].iter().all(|&byte| byte == number as u8), "what was sent");
            got.push(number);
        });
    }

    /// What both ends say to each other.
    fn speak(&mut self) {
        let now = self.now;
        let mut out = Vec::new();
        if self.device.poll_losses(now, &mut out) {
            self.gateway.receive(0, Frame::decode(&out).unwrap(), Class::NONE, now);
        }
        for link in 0..2 {
            for initiation in [true, false] {
                let mut out = Vec::new();
                let any = if initiation {
                    self.device.poll_initiation(now, &mut out)
                } else {
                    self.device.poll_hello(link, now, &mut out)
                };
                if any {
                    self.gateway.receive(link, Frame::decode(&out).unwrap(), Class::NONE, now);
                }
                while let Some((link, frame)) = self.gateway.poll_reply() {
                    self.device.receive(link, Frame::decode(&frame).unwrap(), Class::NONE, now);
                    self.relayed.push(frame);
                }
            }
        }
    }

    fn run(&mut self, ms: u32) {
        for _ in 0..ms {
            self.step(COME);
        }
    }

    fn counter(&self, name: &str) -> u64 {
        let counters: Vec<Counter> = self.device.counters();
        counters.iter().find(|counter| counter.name == name).unwrap().value
    }

    /// Each flow's packets came in order, once; how many of those from `first` on came.
    fn check(&self, first: u32) -> usize {
        let all: BTreeSet<_> = self.got.iter().collect();
        assert_eq!(all.len(), self.got.len(), "once");
        for flow in 0..3 {
            let of = self.got.iter().filter(|&&number| number % 3 == flow);
            assert!(of.is_sorted(), "in order");
        }
        self.got.iter().filter(|&&number| number >= first).count()
    }
}

/// T of 2 ms, two steps of these worlds.
fn brief() -> Sending {
    Sending { interval: Duration::from_millis(2), ..Sending::default() }
}

fn dense() -> Sending {
    Sending { scheme: Scheme::Dense, ..brief() }
}

#[test]
fn everything_comes_and_access_points_read_nothing() {
    for sending in [brief(), dense()] {
        let mut world = World::joined(sending, honest);
        world.gateway.push(0, &[0x5a; 64], world.now);
        let mut out = Vec::new();
        let mut now = world.now;
        while world.gateway.poll_transmit(0, now, &mut out).is_none() || out.len() < 64 {
            assert!(now.since(world.now) < Duration::from_secs(100), "it is never sent");
            out.clear();
            now += Duration::from_millis(1);
        }
        assert!(!out.windows(8).any(|part| part == [0x5a; 8]), "sealed");
        let mut world = World::joined(sending, honest);
        world.run(300);
        for _ in 0..20 {
            world.step(0);
        }
        assert_eq!(world.check(0), world.next as usize);
        let doubted = ["packets_misnamed", "packets_polluted", "packets_shut_out"];
        assert!(doubted.iter().all(|name| world.counter(name) == 0));
    }
}

/// Combinations that are none; packets as they are are left alone.
fn pollute_combinations(_: u64, packet: &mut [u8]) -> bool {
    let combination = packet[0] & 7 == 1 || packet[0] & 7 == 2;
    if combination && let Some(last) = packet.last_mut() {
        *last ^= 0x55;
    }
    true
}

/// Combinations in which packets have each other's coefficients, or none that are known.
fn swap_coefficients(_: u64, packet: &mut [u8]) -> bool {
    match packet[0] & 7 {
        1 => packet[23] ^= 1,
        2 if packet[9] > 1 => packet.swap(20, 21),
        _ => {}
    }
    true
}

/// A packet in the place of the one beside it.
fn move_packets(_: u64, packet: &mut [u8]) -> bool {
    if packet[0] & 7 == 0 {
        packet[20] ^= 1;
    }
    true
}

fn pollute_all(_: u64, packet: &mut [u8]) -> bool {
    if packet[0] & 7 != 3
        && let Some(last) = packet.last_mut()
    {
        *last ^= 0x55;
    }
    true
}

fn push_the_window(n: u64, packet: &mut [u8]) -> bool {
    let label = u32::from_be_bytes(packet[1..5].try_into().unwrap()).wrapping_add(n as u32);
    packet[1..5].copy_from_slice(&label.to_be_bytes());
    true
}

/// Another generation with every packet.
fn fill_the_table(n: u64, packet: &mut [u8]) -> bool {
    packet[5..9].copy_from_slice(&(n as u32).to_be_bytes());
    true
}

/// Another size: what comes of the generation later would contradict it.
fn forge_the_rank(_: u64, packet: &mut [u8]) -> bool {
    packet[9] = 1;
    true
}

#[test]
fn combinations_that_are_none_are_found_out_and_then_harm_nobody() {
    // Something has to be missing for combinations to be used: the link loses a tenth, too.
    let lies: [Lie; 2] = [
        |n, packet| pollute_combinations(n, packet) && n % 10 != 0,
        |n, packet| swap_coefficients(n, packet) && n % 10 != 0,
    ];
    for lie in lies {
        let mut world = World::joined(brief(), lie);
        world.run(400);
        assert!(world.device.wrong(1) >= 8, "{}", world.device.wrong(1));
        let first = world.next;
        world.run(200);
        for _ in 0..20 {
            world.step(0);
        }
        assert!(world.counter("packets_shut_out") > 0);
        let (came, sent) = (world.check(first), world.next - first);
        // Half goes over the honest link.
        assert!(came as u32 * 100 >= sent * 49, "{came} of {sent}");
        assert_eq!(world.counter("packets_delivered"), world.got.len() as u64);
    }
}

/// What an access point has kept, and says again after a pause.
#[test]
fn names_that_are_over_do_not_turn_the_device_back() {
    let mut world = World::joined(brief(), honest);
    world.run(100);
    let kept = std::mem::take(&mut world.sent);
    for pause in [1_500, 10_000] {
        for _ in 0..pause {
            world.step(0);
        }
        let first = world.next;
        for old in &kept {
            world.device.receive(1, Frame::decode(old).unwrap(), Class::NONE, world.now);
        }
        world.run(100);
        for _ in 0..20 {
            world.step(0);
        }
        assert_eq!(world.check(first), (world.next - first) as usize);
    }
}

#[test]
fn lies_are_not_believed_and_the_honest_link_carries_what_it_gets() {
    for lie in [pollute_all, move_packets, push_the_window, fill_the_table, forge_the_rank] {
        let mut world = World::joined(brief(), lie);
        world.run(100);
        assert!(world.device.wrong(1) >= 8, "found out");
        assert!(world.counter("packets_shut_out") > 0);
        assert!(world.device.wrong(0) < 8, "and only it");
        let first = world.next;
        world.run(200);
        for _ in 0..20 {
            world.step(0);
        }
        let (came, sent) = (world.check(first), world.next - first);
        // Half of the packets, and what the honest link's combinations make up for.
        assert!(came as u32 * 100 >= sent * 49, "{came} of {sent}");
        assert_eq!(world.counter("packets_full"), 0, "nothing of it takes room");
    }
}

/// The frames of these packets, of one flow, that the gateway sends on the first link at once.
fn send(world: &mut World, numbers: std::ops::Range<u32>) -> Vec<Vec<u8>> {
    numbers.for_each(|number| world.gateway.push(0, &content(number, 100), world.now));
    let mut frames = Vec::new();
    loop {
        let mut out = Vec::new();
        if world.gateway.poll_transmit(0, world.now, &mut out).is_none() {
            return frames;
        }
        frames.push(out);
        assert!(frames.len() < 100_000, "there is always more");
    }
}

#[test]
fn nobody_but_the_gateway_sets_the_epoch_or_the_settings() {
    let mut world = World::joined(brief(), honest);
    let mut settings = brief().settings(&local(1), true).unwrap();
    settings.buffer_packets = 1;
    let forged = Keepalive {
        time_us: 1,
        heard_us: 1,
        age_us: 1,
        quiet_us: 1,
        longest: 0,
        settings: Some(settings),
    };
    let mut epochs = Vec::new();
    frame::list_epoch(DeviceTag::of(&secret(2).public()), 99, &mut epochs);
    let forged = Frame::Keepalive(forged, EpochList(&epochs));
    world.device.receive(1, forged, Class::NONE, world.now);
    let coded = Frame::Coded { epoch: 99, packet: &[0x20; 40] };
    assert_eq!(world.device.receive(1, coded, Class::NONE, world.now), Use::Stale);
    // In the clear, and what was said before.
    let terms = frame::Terms { heard_us: 0, epoch: 99, settings, tag_key: [0; 32] };
    assert_eq!(
        world.device.receive(1, Frame::Terms(terms), Class::NONE, world.now),
        Use::Unexpected
    );
    for old in std::mem::take(&mut world.relayed) {
        world.device.receive(1, Frame::decode(&old).unwrap(), Class::NONE, world.now);
    }
    assert!(world.device.end.dropped.replayed > 0);
    world.run(50);
    for _ in 0..20 {
        world.step(0);
    }
    assert_eq!(world.check(0), world.next as usize);
}

#[test]
fn a_device_that_is_started_anew_gets_what_is_sealed_for_it_only() {
    let mut world = World::joined(brief(), honest);
    world.run(50);
    let epoch = world.gateway.epoch();
    let names = vec!["honest".to_owned(), "other".to_owned()];
    world.device = DeviceEnd::new(local(2), secret(1).public(), names, 8);
    for _ in 0..10 {
        world.step(COME);
    }
    assert_ne!(world.gateway.epoch(), epoch, "labels and numbers begin anew");
    let first = world.next;
    world.run(100);
    for _ in 0..20 {
        world.step(0);
    }
    assert_eq!(world.check(first), (world.next - first) as usize);
    assert_eq!([0, 1].map(|link| world.device.wrong(link)), [0, 0], "nobody is blamed");
}

#[test]
fn packets_of_all_lengths_pass_and_longer_ones_are_refused() {
    let mut world = World::joined(Sending { queue: None, ..brief() }, honest);
    let mut lengths = Vec::new();
    for length in 0..=world.mtu + 8 {
        world.gateway.push(0, &vec![0x45; length], world.now);
        if length % 8 == 0 {
            world.now += Duration::from_millis(1);
            let (now, epoch) = (world.now, world.gateway.epoch());
            for link in 0..2 {
                let (mut out, mut frames) = (Vec::new(), 0);
                while world.gateway.poll_transmit(link, now, &mut out).is_some() {
                    frames += 1;
                    assert!(frames < 100_000, "there is always more");
                    let Some(Frame::Coded { epoch: of, packet }) = Frame::decode(&out) else {
                        panic!("coded");
                    };
                    assert!(of == epoch && Packet::decode(packet).is_ok());
                    assert_eq!(wire::tag(packet).map(|tag| tag.len()), Some(4));
                    world.device.receive(link, Frame::decode(&out).unwrap(), Class::NONE, now);
                    out.clear();
                }
            }
            world.device.handle_timeout(now);
            world.device.deliver(|packet| lengths.push(packet.len()));
        }
    }
    world.device.handle_timeout(world.now + Duration::from_secs(1));
    world.device.deliver(|packet| lengths.push(packet.len()));
    assert_eq!(lengths, (0..=world.mtu).collect::<Vec<_>>());
    let counters = world.gateway.counters();
    let refused = counters.iter().find(|counter| counter.name == "packets_full").unwrap();
    assert_eq!(refused.value, 8);
}

/// A UDP packet of IPv4 with this in its second byte.
fn ip_packet(class: u8) -> Vec<u8> {
    let builder = etherparse::PacketBuilder::ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64);
    let mut packet = Vec::new();
    builder.udp(1, 2).write(&mut packet, &[7; 600]).unwrap();
    packet[1] = class;
    let mut header = etherparse::Ipv4Header::from_slice(&packet).unwrap().0;
    header.header_checksum = header.calc_header_checksum();
    packet[..20].copy_from_slice(&header.to_bytes());
    packet
}

/// Packets of every class down, each of whose datagrams comes with `outer` in its IP header: what the
/// device hands out.
fn through_the_network(scheme: Scheme, outer: Option<u8>) -> (Vec<Vec<u8>>, u64) {
    let mut world = World::new(Sending { scheme, ..brief() }, honest);
    for _ in 0..5 {
        world.now += Duration::from_millis(20);
        world.speak();
    }
    let mut got = Vec::new();
    for class in 0..=255 {
        world.gateway.push(0, &ip_packet(class), world.now);
        let mut out = Vec::new();
        let sent = world.gateway.poll_transmit(0, world.now, &mut out).unwrap();
        assert_eq!(sent, Class(class), "the outer header has what the inner one has");
        let came = outer.map_or(sent, |outer| sent.came_with(outer));
        world.device.receive(0, Frame::decode(&out).unwrap(), came, world.now);
        world.device.deliver(|packet| got.push(packet.to_vec()));
        world.now += Duration::from_millis(5);
        // Markers and what is redundant.
        for link in 0..2 {
            out.clear();
            while let Some(class) = world.gateway.poll_transmit(link, world.now, &mut out) {
                assert_eq!(class, Class::NONE, "combinations are of many packets");
                world.device.receive(link, Frame::decode(&out).unwrap(), class, world.now);
                out.clear();
            }
        }
        world.device.handle_timeout(world.now);
    }
    world.device.deliver(|packet| got.push(packet.to_vec()));
    (got, world.counter("packets_ecn_dropped"))
}

#[test]
fn dscp_and_ecn_pass_and_marks_are_put_into_packets() {
    for scheme in [Scheme::Systematic, Scheme::Plain] {
        let (got, dropped) = through_the_network(scheme, None);
        assert!(got.into_iter().eq((0..=255).map(ip_packet)) && dropped == 0, "{scheme:?}");
        // A router that marks everything.
        let (got, dropped) = through_the_network(scheme, Some(3));
        let capable = (0..=255).filter(|class| class & 3 != 0);
        assert_eq!(
            got,
            capable.map(|class| ip_packet(class | 3)).collect::<Vec<_>>(),
            "{scheme:?}"
        );
        assert_eq!(
            dropped, 64,
            "the others may not be marked, and must not pass as if they were not"
        );
    }
}

/// `--uplink both`: a copy is none of a stranger's.
#[test]
fn what_goes_up_over_both_links_comes_once_and_its_copies_are_counted_as_such() {
    let mut world = World::joined(brief(), honest);
    let mut got = 0;
    for _ in 0..10 {
        let mut out = Vec::new();
        assert!(world.device.seal(&ip_packet(0), &mut out));
        world.gateway.receive(0, Frame::decode(&out).unwrap(), Class::NONE, world.now);
        out.clear();
        assert!(world.device.seal_again(&mut out));
        world.gateway.receive(1, Frame::decode(&out).unwrap(), Class::NONE, world.now);
        // And one that an access point repeats.
        world.gateway.receive(1, Frame::decode(&out).unwrap(), Class::NONE, world.now);
        world.gateway.deliver(world.now, |_| got += 1);
    }
    let counters = world.gateway.counters();
    let copies = counters.iter().find(|counter| counter.name == "uplink_duplicate").unwrap();
    assert_eq!((got, copies.value, world.gateway.end.dropped.replayed), (10, 10, 10));
}

#[test]
fn marks_on_the_way_up_are_put_into_packets_too() {
    let mut world = World::joined(brief(), honest);
    let mut got = Vec::new();
    for class in [0, 1, 2, 3, 0xb8, 0xb9] {
        for outer in [0, 3] {
            let mut out = Vec::new();
            assert!(world.device.seal(&ip_packet(class), &mut out));
            let came = Class(class).came_with(outer);
            world.gateway.receive(0, Frame::decode(&out).unwrap(), came, world.now);
            world.gateway.deliver(world.now, |packet| got.push(packet.to_vec()));
        }
    }
    world.now += Duration::from_secs(1);
    world.gateway.deliver(world.now, |packet| got.push(packet.to_vec()));
    let classes: Vec<u8> = got.iter().map(|packet| packet[1]).collect();
    assert_eq!(classes, [0, 1, 3, 2, 3, 3, 3, 0xb8, 0xb9, 0xbb]);
    assert!(got.iter().all(|packet| *packet == ip_packet(packet[1])));
    let counters = world.gateway.counters();
    let dropped = counters.iter().find(|counter| counter.name == "packets_ecn_dropped").unwrap();
    assert_eq!(dropped.value, 2);
}

#[test]
fn the_queue_marks_packets_that_understand_it() {
    let run = |class: u8| {
        let mut world = World::joined(brief(), honest);
        let (mut came, mut marked, mut out) = (0, 0, Vec::new());
        for n in 0..20_000_u64 {
            world.now += Duration::from_micros(100);
            // Half as many again come as go.
            for _ in 0..1 + n % 2 {
                world.gateway.push(0, &ip_packet(class), world.now);
            }
            out.clear();
            if let Some(class) = world.gateway.poll_transmit(0, world.now, &mut out) {
                world.device.receive(0, Frame::decode(&out).unwrap(), class, world.now);
            }
            world.device.handle_timeout(world.now);
            world.device.deliver(|packet| {
                came += 1;
                marked += u32::from(packet[1] & 3 == 3);
            });
        }
        let counters = world.gateway.counters();
        let value = |name| counters.iter().find(|counter| counter.name == name).unwrap().value;
        assert!(came > 10_000, "{came}");
        (marked, value("packets_marked"), value("packets_delayed"))
    };
    let (marked, counted, dropped) = run(2);
    assert!(marked > 10 && u64::from(marked).abs_diff(counted) <= 1, "{marked} of {counted}");
    assert_eq!(dropped, 0);
    let (marked, counted, dropped) = run(0);
    assert!((marked, counted) == (0, 0) && dropped > 10, "{dropped}");
}

#[test]
fn the_gateway_takes_what_losses_call_for() {
    let low = |world: &World| {
        let counters = world.gateway.counters();
        counters.iter().find(|counter| counter.name == "packets_low").unwrap().value
    };
    // The second access point loses one packet in twenty: never two of a generation. Generations here
    // are of a few packets, of which each needs two or three combinations.
    let lies: [(Lie, std::ops::Range<u64>); 2] = [(honest, 0..1), (|n, _| n % 20 != 0, 50..60)];
    for (lie, percent) in lies {
        let mut world = World::joined(brief(), lie);
        // A gateway begins as if it knew of losses.
        world.run(9_000);
        let (taken, sent) = (low(&world), world.next);
        world.run(1_000);
        let taken = 100 * (low(&world) - taken) / u64::from(world.next - sent);
        assert!(percent.contains(&taken), "{taken} %");
        for _ in 0..50 {
            world.step(0);
        }
        // One generation in 10,000 may fail; with these runs' numbers none does.
        assert_eq!(world.check(0), world.next as usize, "everything comes");
    }
}

#[test]
fn reports_of_losses_are_of_this_run_and_go_forward() {
    let mut world = World::joined(brief(), honest);
    world.run(50);
    let mut reports = Vec::new();
    for _ in 0..4 {
        world.run(12);
        let mut out = Vec::new();
        world.now += Duration::from_millis(10);
        if world.device.poll_losses(world.now, &mut out) {
            reports.push(out);
        }
    }
    assert!(reports.len() > 1, "{}", reports.len());
    // The last before the first: what is old is nothing new.
    for report in reports.iter().rev() {
        let frame = Frame::decode(report).unwrap();
        assert_eq!(world.gateway.receive(1, frame, Class::NONE, world.now), Use::Taken);
    }
    world.run(50);
    for _ in 0..20 {
        world.step(0);
    }
    assert_eq!(world.check(0), world.next as usize);
}
