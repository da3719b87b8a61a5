//! Several devices, each with a key, at one gateway and over access points that they share; in virtual
//! time. What goes between the nodes goes as frames.

use std::collections::BTreeSet;
use std::time::Duration;

use etherparse::PacketBuilder;
use weftline_coding::node::Pacer;
use weftline_core::{Bitrate, Instant};

use super::{brief, local, secret};
use crate::ap_end::ApEnd;
use crate::class::Class;
use crate::device_end::DeviceEnd;
use crate::endpoint::{Around, Use};
use crate::frame::{self, EpochList, Frame, Keepalive};
use crate::members::{GatewayDevice, Members};

const APS: usize = 3;
const DEVICES: usize = 3;
/// Packets that the wire to an access point, and its radio, carry in a millisecond, for all devices.
const CARRIED: usize = 12;
/// Packets that come for a device in a millisecond: together what two access points carry half of.
const COME: u32 = 4;
/// Time after which an access point takes a device that it does not hear to be elsewhere.
const NEAR: Duration = Duration::from_millis(350);

/// A device.
struct Member {
    end: DeviceEnd,
    /// When it was within reach of each access point last.
    reached: [Option<Instant>; APS],
    reaches: [bool; APS],
    next: u32,
    got: Vec<u32>,
    /// The longest time that one of its packets was on its way, in ms.
    longest_ms: u64,
    sent_at: Vec<Instant>,
}

struct World {
    now: Instant,
    gateway: Members,
    aps: [ApEnd; APS],
    members: Vec<Member>,
    /// What went over the radios, and for whom.
    heard: Vec<(usize, Vec<u8>)>,
    /// Packets that the gateway handed out.
    up: Vec<Vec<u8>>,
    /// What each radio is measured to carry, and whether all have no room.
    rate: Option<Bitrate>,
    blocked: bool,
    /// An access point that knows another device in the place of the first.
    stranger: Option<usize>,
}

/// A packet from a device's address, or to it.
fn packet(from: [u8; 4], to: [u8; 4], number: u32, length: usize) -> Vec<u8> {
    let mut payload = number.to_be_bytes().to_vec();
    payload.resize(length, number as u8);
    let mut packet = Vec::new();
    let builder = PacketBuilder::ipv4(from, to, 64).udp(1, (number % 2) as u16);
    builder.write(&mut packet, &payload).unwrap();
    packet
}

const SERVER: [u8; 4] = [10, 9, 0, 1];

fn address(device: usize) -> [u8; 4] {
    [10, 9, 0, 2 + device as u8]
}

impl Member {
    fn new(number: usize) -> Self {
        let names = (0..APS).map(|ap| format!("ap{ap}")).collect();
        Self {
            end: DeviceEnd::new(local(2 + number as u8), secret(1).public(), names, 7),
            reached: [None; APS],
            reaches: [true, true, false],
            next: 0,
            got: Vec::new(),
            longest_ms: 0,
            sent_at: Vec::new(),
        }
    }

    fn deliver(&mut self, now: Instant) {
        let Self { end, got, longest_ms, sent_at, .. } = self;
        end.handle_timeout(now);
        end.deliver(|packet| {
            let number = u32::from_be_bytes(packet[28..32].try_into().unwrap());
            let waited = now.since(sent_at[number as usize]).as_millis() as u64;
            *longest_ms = waited.max(*longest_ms);
            got.push(number);
        });
    }

    /// How many of the packets from `first` on did not come; the others came in order, once.
    fn missing(&self, first: u32) -> usize {
        let all: BTreeSet<_> = self.got.iter().collect();
        assert_eq!(all.len(), self.got.len(), "once");
        for flow in 0..2 {
            assert!(self.got.iter().filter(|&&number| number % 2 == flow).is_sorted(), "in order");
        }
        let came = self.got.iter().filter(|&&number| number >= first).count();
        (self.next - first) as usize - came
    }
}

impl World {
    fn new() -> Self {
        let now = Instant::from_millis(1_000_000);
        let keys = [0, 1, 2].map(|number| secret(2 + number).public());
        let device = |(number, key): (usize, &_)| GatewayDevice {
            name: format!("d{number}"),
            key: *key,
            addresses: vec![format!("10.9.0.{}/32", 2 + number).parse().unwrap()],
        };
        let devices: Vec<_> = keys.iter().enumerate().map(device).collect();
        let sending = brief();
        let gateway = Members::new(&local(1), &devices, sending, true, APS, now).unwrap();
        Self {
            now,
            gateway,
            aps: [1, 2, 3].map(|seed| ApEnd::new(&keys, seed)),
            members: (0..DEVICES).map(Member::new).collect(),
            heard: Vec::new(),
            up: Vec::new(),
            rate: None,
            blocked: false,
            stranger: None,
        }
    }

    /// One whose ends have heard of each other.
    fn joined() -> Self {
        let mut world = Self::new();
        world.run(5, &[0; DEVICES]);
        assert!(world.members.iter().all(|member| member.end.mtu().is_some()));
        world
    }

    /// So many milliseconds, in each of which so many packets come for each device.
    fn run(&mut self, ms: u32, come: &[u32; DEVICES]) {
        for _ in 0..ms {
            self.now += Duration::from_millis(1);
            for (device, &come) in come.iter().enumerate() {
                self.push(device, come);
            }
            self.gateway.handle_timeout(self.now);
            for ap in 0..APS {
                self.send_keepalive(ap);
                self.carry(ap);
            }
            self.speak();
            for member in &mut self.members {
                member.deliver(self.now);
            }
            let Self { gateway, now, up, .. } = self;
            gateway.deliver(*now, |packet| up.push(packet.to_vec()));
        }
    }

    fn push(&mut self, device: usize, packets: u32) {
        let member = &mut self.members[device];
        for _ in 0..packets {
            let mut packet = packet(SERVER, address(device), member.next, 600);
            self.gateway.push(&mut packet, self.now);
            member.sent_at.push(self.now);
            member.next += 1;
        }
    }

    /// What gateway and access point say to each other of the devices.
    fn send_keepalive(&mut self, ap: usize) {
        let Self { now, gateway, aps, members, rate, stranger, .. } = self;
        gateway.list_epochs();
        let keepalive = Keepalive {
            time_us: 0,
            heard_us: 0,
            age_us: 0,
            quiet_us: 0,
            longest: 0,
            settings: gateway.settings(),
        };
        let keepalive = Frame::Keepalive(keepalive, EpochList(gateway.epochs()));
        aps[ap].receive_down(keepalive, Around::default(), *now, &mut Vec::new());
        for (device, member) in members.iter_mut().enumerate() {
            if member.reaches[ap] {
                member.reached[ap] = Some(*now);
            }
            let near = member.reached[ap].is_some_and(|last| *now < last + NEAR);
            let mut out = Vec::new();
            if aps[ap].poll_rate(device, near, *rate, *now, &mut out) {
                let known = (device, Some(ap)) != (0, *stranger);
                let wanted = if known { Use::Taken } else { Use::Unexpected };
                assert_eq!(to_gateway(gateway, ap, &out, *now), wanted);
            }
        }
    }

    /// A millisecond of the wire to an access point, and of its radio.
    fn carry(&mut self, ap: usize) {
        let Self { now, gateway, aps, members, heard, blocked, stranger, .. } = self;
        let is_stranger = Some(ap) == *stranger;
        let (now, aps) = (*now, &mut aps[ap]);
        let mut out = Vec::new();
        for _ in 0..CARRIED {
            out.clear();
            if gateway.poll_transmit(ap, now, &mut out).is_none() {
                break;
            }
            let (used, on) =
                aps.receive_down(Frame::decode(&out).unwrap(), Around::default(), now, &mut vec![]);
            assert!(used == Use::Taken || is_stranger && used == Use::Stale, "{used:?}");
            assert_eq!(on, None);
        }
        aps.handle_timeout(now);
        for _ in 0..CARRIED {
            out.clear();
            let near =
                |device: usize| members[device].reached[ap].is_some_and(|last| now < last + NEAR);
            let has_room = |device: usize| !*blocked && near(device);
            let Some((device, _)) = aps.poll_transmit(now, has_room, &mut out) else { break };
            if members[device].reaches[ap] {
                let frame = Frame::decode(&out).unwrap();
                members[device].end.receive(ap, frame, Class::NONE, now);
                heard.push((device, out.clone()));
            }
        }
    }

    /// What the devices and the gateway say to each other, over the access points within reach.
    fn speak(&mut self) {
        let now = self.now;
        for device in 0..DEVICES {
            let reaches = self.members[device].reaches;
            for link in (0..APS).filter(|&link| reaches[link]) {
                for kind in 0..3 {
                    let (mut out, end) = (Vec::new(), &mut self.members[device].end);
                    let any = match kind {
                        0 => end.poll_initiation(now, &mut out),
                        1 => end.poll_hello(link, now, &mut out),
                        _ => end.poll_losses(now, &mut out),
                    };
                    if any {
                        self.say(device, link, &out);
                    }
                }
            }
        }
        let mut out = Vec::new();
        while let Some(link) = self.gateway.poll_reply(&mut out) {
            let (of, frame) = frame::of_device(&out);
            let (around, mut on) = (Around { of, ..Around::default() }, Vec::new());
            let frame = Frame::decode(frame).unwrap();
            let (_, device) = self.aps[link].receive_down(frame, around, now, &mut on);
            let member = &mut self.members[device.unwrap()];
            if member.reaches[link] {
                member.end.receive(link, Frame::decode(&on).unwrap(), Class::NONE, now);
            }
            out.clear();
        }
    }

    /// A device says something to an access point, which hands it on.
    fn say(&mut self, device: usize, link: usize, frame: &[u8]) {
        let mut on = Vec::new();
        let used = self.aps[link].receive_up(device, Frame::decode(frame).unwrap(), &mut on);
        assert_eq!(used, Use::Taken);
        to_gateway(&mut self.gateway, link, &on, self.now);
    }

    fn counter(&self, device: usize, name: &str) -> u64 {
        let links = ["a", "b", "c"].map(str::to_owned);
        let status = self.gateway.status(&links, self.now).swap_remove(device);
        status.counters.iter().find(|counter| counter.name == name).unwrap().value
    }

    /// Through which access points a device is reached, and whether it is there.
    fn through(&self, device: usize) -> (String, bool) {
        let links = ["a", "b", "c"].map(str::to_owned);
        let status = self.gateway.status(&links, self.now).swap_remove(device);
        (status.through.concat(), status.up)
    }
}

fn to_gateway(gateway: &mut Members, link: usize, frame: &[u8], now: Instant) -> Use {
    let (of, frame) = frame::of_device(frame);
    gateway.receive(link, Frame::decode(frame).unwrap(), Around { of, ..Around::default() }, now)
}

#[test]
fn a_device_reads_nothing_of_the_others() {
    let mut world = World::joined();
    world.run(50, &[COME; DEVICES]);
    let heard = std::mem::take(&mut world.heard);
    assert!((0..DEVICES).all(|number| heard.iter().any(|&(of, _)| of == number)));
    let now = world.now;
    let mut epochs = [0; DEVICES];
    for (of, datagram) in &heard {
        let Some(Frame::Coded { epoch, .. }) = Frame::decode(datagram) else { panic!("coded") };
        epochs[*of] = epoch;
    }
    for (of, datagram) in &heard {
        for (number, member) in world.members.iter_mut().enumerate().filter(|(k, _)| k != of) {
            let frame = Frame::decode(datagram).unwrap();
            let used = member.end.receive(0, frame, Class::NONE, now);
            assert_eq!(used, Use::Stale, "{number} hears what is for {of}");
            // An access point that says it were this device's.
            let Some(Frame::Coded { packet, .. }) = Frame::decode(datagram) else { panic!() };
            let epoch = epochs[number];
            member.end.receive(2, Frame::Coded { epoch, packet }, Class::NONE, now);
        }
    }
    world.run(50, &[COME; DEVICES]);
    world.run(20, &[0; DEVICES]);
    for member in &world.members {
        assert_eq!(member.missing(0), 0);
    }
}

#[test]
fn a_device_says_nothing_in_anothers_name() {
    let mut world = World::joined();
    let send = |world: &mut World, from| {
        let mut out = Vec::new();
        assert!(world.members[0].end.seal(&packet(from, SERVER, 5, 100), &mut out));
        world.say(0, 0, &out);
        // An access point that says it were the other device's.
        to_gateway_as(world, 1, &out);
        world.run(1, &[0; DEVICES]);
    };
    send(&mut world, address(0));
    send(&mut world, address(1));
    assert_eq!(world.up, [packet(address(0), SERVER, 5, 100)]);
    assert_eq!(world.counter(0, "packets_misaddressed"), 1);
    assert!(world.gateway.dropped().unknown + world.gateway.dropped().forged >= 2);
    // To nobody's address.
    let mut lost = packet(SERVER, [10, 9, 0, 99], 1, 100);
    world.gateway.push(&mut lost, world.now);
    let counters = world.gateway.counters();
    assert_eq!(counters.iter().find(|known| known.name == "packets_unrouted").unwrap().value, 1);
}

/// What a device has said, handed on as another one's.
fn to_gateway_as(world: &mut World, device: usize, frame: &[u8]) {
    let mut on = Vec::new();
    world.aps[0].receive_up(device, Frame::decode(frame).unwrap(), &mut on);
    to_gateway(&mut world.gateway, 0, &on, world.now);
}

#[test]
fn one_that_wants_too_much_harms_itself_only() {
    let mut world = World::joined();
    // Six times what all access points carry, for one of them.
    world.run(300, &[150, COME, COME]);
    world.run(50, &[0; DEVICES]);
    let [greedy, others @ ..] = &world.members[..] else { panic!() };
    assert!(greedy.missing(0) > 10_000, "{}", greedy.missing(0));
    for other in others {
        assert_eq!(other.missing(0), 0);
        assert!(other.longest_ms <= 4, "{} ms", other.longest_ms);
    }
    // What is left of 24 packets a millisecond is the greedy one's: of 16, at least 12.
    assert!(greedy.got.len() > 300 * 12, "{}", greedy.got.len());
}

#[test]
fn devices_that_want_too_much_have_equal_parts() {
    let mut world = World::joined();
    world.run(300, &[60, 30, 120]);
    let got: Vec<_> = world.members.iter().map(|member| member.got.len()).collect();
    let (least, most) = (got.iter().min().unwrap(), got.iter().max().unwrap());
    assert!(most * 100 <= least * 110, "{got:?}");
}

#[test]
fn one_that_leaves_does_not_harm_the_others_and_may_come_back() {
    let mut world = World::joined();
    world.run(100, &[COME; DEVICES]);
    assert_eq!(world.through(0), ("ab".to_owned(), true));
    world.members[0].reaches = [false; APS];
    world.run(2500, &[COME; DEVICES]);
    for other in &world.members[1..] {
        assert_eq!(other.missing(0), 0);
        assert!(other.longest_ms <= 4, "{} ms", other.longest_ms);
    }
    assert_eq!(world.through(0), (String::new(), false));
    assert!(world.counter(0, "packets_no_device") > 0, "nothing more is kept for it");
    world.members[0].reaches = [true, true, false];
    world.run(600, &[0; DEVICES]);
    let back = world.members[0].next;
    world.run(100, &[COME; DEVICES]);
    world.run(20, &[0; DEVICES]);
    let counted = world.gateway.status(&[], world.now).swap_remove(0);
    assert_eq!(
        world.members[0].missing(back),
        0,
        "{counted:?} {:?}",
        world.members[0].end.counters()
    );
    assert!(world.members[1..].iter().all(|other| other.missing(0) == 0));
}

#[test]
fn one_that_roams_loses_what_was_at_the_access_point_that_it_left() {
    let mut world = World::joined();
    let mut missing = 0;
    for round in 0..6 {
        // Each time one access point goes and another one comes.
        let away = [2, 0, 1][round % 3];
        let first = world.members[0].next;
        world.members[0].reaches = std::array::from_fn(|ap| ap != away);
        world.run(500, &[COME; DEVICES]);
        world.run(20, &[0; DEVICES]);
        missing += world.members[0].missing(first);
        let known = ["bc", "ac", "ab"][away];
        assert_eq!(world.through(0), (known.to_owned(), true));
    }
    // What goes to the one that it has left until that is noticed is in part made up for over the other.
    assert!(missing <= 6 * 350 * COME as usize / 2, "{missing}");
    assert!(world.members[1..].iter().all(|other| other.missing(0) == 0));
}

/// An access point is replaced by one that has not been told of the device, and is as near as before.
#[test]
fn what_an_access_point_no_longer_says_is_forgotten() {
    let mut world = World::joined();
    world.run(100, &[COME; DEVICES]);
    assert_eq!(world.through(0), ("ab".to_owned(), true));
    let keys = [99, 3, 4].map(|number| secret(number).public());
    world.aps[0] = ApEnd::new(&keys, 1);
    (world.stranger, world.members[0].reaches[0]) = (Some(0), false);
    world.run(3200, &[0, COME, COME]);
    assert_eq!(world.through(0), ("b".to_owned(), true));
    let first = world.members[0].next;
    world.run(100, &[COME; DEVICES]);
    world.run(20, &[0; DEVICES]);
    assert_eq!(world.members[0].missing(first), 0);
}

/// With a rate of its own for each, as measured links have.
#[test]
fn a_slow_device_takes_nothing_from_a_fast_one() {
    let mut world = World::joined();
    // 600-byte packets at 2 Mb/s: one in 2.6 ms.
    let slow = |world: &mut World| {
        for ap in 0..2 {
            let mut out = Vec::new();
            world.aps[ap].poll_rate(0, true, Some(Bitrate::mbps(2)), world.now, &mut out);
            if !out.is_empty() {
                to_gateway(&mut world.gateway, ap, &out, world.now);
            }
        }
    };
    for _ in 0..300 {
        world.now += Duration::from_millis(1);
        for device in 0..DEVICES {
            world.push(device, COME);
        }
        slow(&mut world);
        world.gateway.handle_timeout(world.now);
        for ap in 0..APS {
            world.carry(ap);
        }
        for member in &mut world.members {
            member.deliver(world.now);
        }
    }
    let got = world.members[0].got.len();
    assert!((150..=260).contains(&got), "{got}");
    world.run(20, &[0; DEVICES]);
    assert!(world.members[1..].iter().all(|other| other.missing(0) == 0));
}

/// The gateway hears of it, and sends so much less until it has gone.
#[test]
fn what_a_measured_link_cannot_carry_in_time_goes_late() {
    let come = [COME, 0, 0];
    // What comes in 15 ms takes 6 ms of 50 Mb/s.
    for rate in [Some(Bitrate::mbps(50)), None] {
        let mut world = World::joined();
        world.rate = rate;
        world.run(20, &come);
        world.blocked = true;
        world.run(15, &come);
        let given = |world: &World| {
            let counters = world.aps.iter().flat_map(ApEnd::sums);
            let given = counters.filter(|counter| counter.name == "packets_given");
            given.map(|counter| counter.value).sum::<u64>()
        };
        let told = rate.map(|rate| {
            let (later, mut out) = (world.now + Duration::from_millis(200), Vec::new());
            assert!(world.aps[0].poll_rate(0, true, Some(rate), later, &mut out));
            match Frame::decode(frame::of_device(&out).1) {
                Some(Frame::Rate(told)) => told,
                frame => panic!("{frame:?}"),
            }
        });
        world.blocked = false;
        world.run(100, &[0; DEVICES]);
        let (given, missing) = (given(&world), world.members[0].missing(0));
        if rate.is_some() {
            assert!(told < rate, "{told:?} of {rate:?}");
            assert_eq!((given, missing), (0, 0));
        } else {
            assert!(given > 0 && missing > 0, "{given} given and {missing} missing");
        }
    }
}

/// The gateway need not send less for them.
#[test]
fn small_packets_that_wait_are_no_large_ones() {
    let rate = Bitrate::mbps(100);
    let told = |length| {
        let mut world = World::joined();
        for number in 0..50 {
            let mut packet = packet(SERVER, address(0), number, length);
            world.gateway.push(&mut packet, world.now);
        }
        let (mut out, mut sent) = (Vec::new(), 0);
        while world.gateway.poll_transmit(0, world.now, &mut out).is_some() {
            let frame = Frame::decode(&out).unwrap();
            world.aps[0].receive_down(frame, Around::default(), world.now, &mut Vec::new());
            sent += 1;
            out.clear();
        }
        assert!(sent >= 50 && world.aps[0].waiting()[0] == 50, "{sent}");
        let later = world.now + Duration::from_millis(200);
        assert!(world.aps[0].poll_rate(0, true, Some(rate), later, &mut out));
        match Frame::decode(frame::of_device(&out).1) {
            Some(Frame::Rate(told)) => told,
            frame => panic!("{frame:?}"),
        }
    };
    // 4 ms of 100 Mb/s are 50 kB.
    assert_eq!(told(72), rate);
    assert!(told(1272) < rate);
}

/// Nothing wakes the access point but what it says itself.
#[test]
fn what_is_late_goes_as_soon_as_the_link_has_room() {
    let mut world = World::joined();
    world.rate = Some(Bitrate::mbps(100));
    world.run(20, &[COME, 0, 0]);
    world.blocked = true;
    world.run(30, &[COME, 0, 0]);
    let (ap, mut now) = (&mut world.aps[0], world.now);
    let late = ap.waiting()[0];
    assert!(late > 20, "{late}");
    // The gateway is silent: what is to come of all cohorts has come.
    now += Duration::from_millis(20);
    let mut radio = Pacer::new(Bitrate::mbps(100));
    let begun = now;
    while ap.waiting()[0] > 0 {
        ap.handle_timeout(now);
        let mut out = Vec::new();
        while ap.poll_transmit(now, |_| radio.has_room(now), &mut out).is_some() {
            radio.send(out.len(), now);
            out.clear();
        }
        let (due, waits) = ap.poll_timeout();
        let next = due.into_iter().chain(waits.then(|| radio.next_room())).min();
        let left = ap.waiting()[0];
        assert!(left == 0 || next.is_some(), "{left} of {late} wait for nothing");
        now = now.max(next.unwrap_or(now));
    }
    assert!(now.since(begun) < Duration::from_millis(20), "{:?}", now.since(begun));
}

/// What is held for a device that has gone is of no use when it is back.
#[test]
fn what_waits_for_a_device_that_is_gone_is_given_away() {
    let mut world = World::joined();
    world.rate = Some(Bitrate::mbps(100));
    world.run(20, &[COME, 0, 0]);
    world.blocked = true;
    world.run(15, &[COME, 0, 0]);
    let waiting = |world: &World| world.aps.iter().map(|ap| ap.waiting()[0]).sum::<u64>();
    assert!(waiting(&world) > 0);
    world.members[0].reaches = [false; APS];
    world.run(NEAR.as_millis() as u32 + 50, &[0; DEVICES]);
    assert_eq!(waiting(&world), 0);
}
