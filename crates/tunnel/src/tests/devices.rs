//! Several devices, each with a key and a gateway's end of its own, over access points that they share;
//! in virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use weftline_coding::node;
use weftline_core::Instant;

use super::{content, local, secret};
use crate::class::Class;
use crate::device_end::DeviceEnd;
use crate::frame::{self, Coding, Frame};
use crate::gateway_end::GatewayEnd;
use crate::port::Use;
use crate::settings::Sending;

const APS: usize = 3;
const DEVICES: usize = 3;
/// Packets that an access point's radio carries in a millisecond, for all devices, in turns.
const CARRIED: usize = 12;
/// Packets that come for a device in a millisecond: together what two access points carry half of.
const COME: u32 = 4;

/// A device and what is there for it alone.
struct Member {
    gateway: GatewayEnd,
    device: DeviceEnd,
    /// Its state at each access point.
    aps: Vec<node::AccessPoint>,
    /// Whether it is within reach of each.
    reaches: [bool; APS],
    next: u32,
    got: Vec<u32>,
    /// How long the last packet that came had been on its way, and the longest, in ms.
    longest_ms: u64,
    sent_at: Vec<Instant>,
}

struct World {
    now: Instant,
    members: Vec<Member>,
    /// Whose turn it is at each access point, on the wire to it and on its radio.
    turns: [[usize; 2]; APS],
    /// What went over the radios, and for whom.
    heard: Vec<(usize, Vec<u8>)>,
}

impl Member {
    fn new(number: usize, now: Instant) -> Self {
        let (sending, key) = (Sending::default(), 2 + number as u8);
        let settings = sending.settings(&local(1), true).unwrap();
        let gateway =
            GatewayEnd::new(local(1), secret(key).public(), settings, sending, APS, now).unwrap();
        let Coding::Coded(mode) = settings.coding else { panic!("coded") };
        let ap = |seed| node::AccessPoint::new(settings.node(mode, 100), 1, seed);
        let names = (0..APS).map(|ap| format!("ap{ap}")).collect();
        Self {
            gateway,
            device: DeviceEnd::new(local(key), secret(1).public(), names, 7),
            aps: (0..APS as u64).map(ap).collect(),
            reaches: [true, true, false],
            next: 0,
            got: Vec::new(),
            longest_ms: 0,
            sent_at: Vec::new(),
        }
    }

    fn push(&mut self, packets: u32, now: Instant) {
        for _ in 0..packets {
            self.gateway.push((self.next % 2) as u16, &content(self.next, 600), now);
            self.sent_at.push(now);
            self.next += 1;
        }
    }

    /// What both ends say to each other, over the access points within reach.
    fn speak(&mut self, now: Instant) {
        let Self { gateway, device, reaches, .. } = self;
        for link in (0..APS).filter(|&link| reaches[link]) {
            let mut said = Vec::new();
            for kind in 0..3 {
                let mut out = Vec::new();
                let any = match kind {
                    0 => device.poll_opening(now, &mut out),
                    1 => device.poll_hello(link, now, &mut out),
                    _ => device.poll_losses(now, &mut out),
                };
                said.extend(any.then_some(out));
            }
            for frame in said {
                gateway.receive(link, Frame::decode(&frame).unwrap(), Class::NONE, now);
            }
        }
        while let Some((link, frame)) = gateway.poll_reply() {
            if reaches[link] {
                device.receive(link, Frame::decode(&frame).unwrap(), Class::NONE, now);
            }
        }
    }

    fn deliver(&mut self, now: Instant) {
        let Self { device, got, longest_ms, sent_at, .. } = self;
        device.handle_timeout(now);
        device.deliver(|packet| {
            let number = u32::from_be_bytes(packet[..4].try_into().unwrap());
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
    /// One whose ends have heard of each other.
    fn joined() -> Self {
        let now = Instant::from_millis(1_000_000);
        let members = (0..DEVICES).map(|number| Member::new(number, now)).collect();
        let mut world = Self { now, members, turns: [[0; 2]; APS], heard: Vec::new() };
        world.run(5, &[0; DEVICES]);
        world
    }

    /// So many milliseconds, in each of which so many packets come for each device.
    fn run(&mut self, ms: u32, come: &[u32; DEVICES]) {
        for _ in 0..ms {
            self.now += Duration::from_millis(1);
            for (member, &come) in self.members.iter_mut().zip(come) {
                member.push(come, self.now);
                member.gateway.handle_timeout(self.now);
            }
            for ap in 0..APS {
                self.carry(ap);
            }
            for member in &mut self.members {
                member.speak(self.now);
                member.deliver(self.now);
            }
        }
    }

    /// A millisecond of the wire to an access point, and of its radio.
    fn carry(&mut self, ap: usize) {
        let Self { now, members, turns, heard } = self;
        let now = *now;
        for _ in 0..CARRIED {
            in_turn(members, &mut turns[ap][0], ap, |_, member| {
                let mut out = Vec::new();
                if member.gateway.poll_transmit(ap, now, &mut out).is_none() {
                    return false;
                }
                let Some(Frame::Coded { packet, .. }) = Frame::decode(&out) else {
                    panic!("coded");
                };
                let _ = member.aps[ap].receive(0, packet, now);
                true
            });
        }
        for member in members.iter_mut() {
            member.aps[ap].handle_timeout(now);
        }
        for _ in 0..CARRIED {
            in_turn(members, &mut turns[ap][1], ap, |number, member| {
                let mut out = Vec::new();
                frame::begin_coded(member.gateway.about().run, &mut out);
                if member.aps[ap].poll_transmit(now, &mut out).is_none() {
                    return false;
                }
                member.device.receive(ap, Frame::decode(&out).unwrap(), Class::NONE, now);
                heard.push((number, out));
                true
            });
        }
    }
}

/// Lets the next device that is within reach of an access point, and has something, have its turn.
fn in_turn(
    members: &mut [Member],
    turn: &mut usize,
    ap: usize,
    mut take: impl FnMut(usize, &mut Member) -> bool,
) {
    for _ in 0..members.len() {
        let number = *turn;
        *turn = (number + 1) % members.len();
        if members[number].reaches[ap] && take(number, &mut members[number]) {
            return;
        }
    }
}

#[test]
fn a_device_reads_nothing_of_the_others() {
    let mut world = World::joined();
    world.run(50, &[COME; DEVICES]);
    let heard = std::mem::take(&mut world.heard);
    assert!((0..DEVICES).all(|number| heard.iter().any(|&(of, _)| of == number)));
    let now = world.now;
    for (of, datagram) in &heard {
        for (number, member) in world.members.iter_mut().enumerate().filter(|(k, _)| k != of) {
            let frame = Frame::decode(datagram).unwrap();
            let used = member.device.receive(0, frame, Class::NONE, now);
            assert_eq!(used, Use::Stale, "{number} hears what is for {of}");
            // An access point that says it were this device's.
            let Some(Frame::Coded { packet, .. }) = Frame::decode(datagram) else { panic!() };
            let run = member.gateway.about().run;
            member.device.receive(2, Frame::Coded { run, packet }, Class::NONE, now);
        }
    }
    world.run(50, &[COME; DEVICES]);
    world.run(20, &[0; DEVICES]);
    for member in &world.members {
        assert_eq!(member.missing(0), 0);
    }
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
fn one_that_leaves_does_not_harm_the_others_and_may_come_back() {
    let mut world = World::joined();
    world.run(100, &[COME; DEVICES]);
    world.members[0].reaches = [false; APS];
    world.run(2000, &[COME; DEVICES]);
    for other in &world.members[1..] {
        assert_eq!(other.missing(0), 0);
        assert!(other.longest_ms <= 4, "{} ms", other.longest_ms);
    }
    world.members[0].reaches = [true, true, false];
    world.run(600, &[0; DEVICES]);
    let back = world.members[0].next;
    world.run(100, &[COME; DEVICES]);
    world.run(20, &[0; DEVICES]);
    assert_eq!(world.members[0].missing(back), 0);
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
        world.run(100, &[COME; DEVICES]);
        world.run(20, &[0; DEVICES]);
        missing += world.members[0].missing(first);
    }
    // At most what its radio carries in a millisecond, each time.
    assert!(missing <= 6 * CARRIED, "{missing}");
    assert!(world.members[1..].iter().all(|other| other.missing(0) == 0));
}
