//! What the fuzz target of COTAG's nodes does with its input. `cargo test` replays the corpus
//! through the same function (crates/coding/tests/fuzz_replay.rs).

use std::time::Duration;

use weftline_coding::node::{AccessPoint, Delivery, Device, Gateway, Mode, NodeConfig, Place};
use weftline_coding::{Label, Limits};
use weftline_core::Instant;

const BUFFER: usize = 12;
const FLOWS: usize = 4;

struct World {
    now: Instant,
    config: NodeConfig,
    gateway: Gateway,
    ap: AccessPoint,
    device: Device,
    /// What was sent last, by anybody.
    sent: Vec<Vec<u8>>,
    /// Packets that came to the gateway, of each flow.
    numbers: [u32; FLOWS],
    /// The number of the last packet that was handed out, of each flow.
    last: [Option<u32>; FLOWS],
    /// Whether only what nodes have sent was received, of one gateway.
    honest: bool,
    restarts: u64,
}

/// Any operations on a gateway, an access point and a device, with packets that are theirs, late,
/// repeated, swapped, changed or made up: no panic, no more held than there is room for, nothing
/// left behind when time has passed, and, as long as packets are those that nodes have sent, the
/// right bytes in the right order.
pub fn nodes(bytes: &[u8]) {
    let Some((&setting, mut rest)) = bytes.split_first() else { return };
    let config = NodeConfig {
        mode: if setting & 1 == 0 { Mode::Systematic } else { Mode::Dense },
        cut_through: setting & 2 != 0,
        no_more_than_received: setting & 4 == 0,
        limits: Limits { packets: 4, packet_bytes: 40 },
        buffer_packets: BUFFER,
        ..NodeConfig::default()
    };
    let mut world = World {
        now: Instant::ZERO,
        config,
        gateway: Gateway::new(config, 2, 1, Instant::ZERO),
        ap: AccessPoint::new(config, 1 + usize::from(setting >> 3 & 1), 2),
        device: Device::new(config, 2),
        sent: Vec::new(),
        numbers: [0; FLOWS],
        last: [None; FLOWS],
        honest: true,
        restarts: 0,
    };
    while let Some(([op, arg], after)) = rest.split_first_chunk() {
        rest = world.act(*op, *arg, after);
        world.check();
    }
    world.end();
}

impl World {
    /// Does one thing; what is left of the input.
    fn act<'a>(&mut self, op: u8, arg: u8, rest: &'a [u8]) -> &'a [u8] {
        let link = usize::from(op >> 4 & 1);
        match op & 0x0f {
            0 => self.now += Duration::from_micros(250) * u32::from(arg),
            1 => self.come(arg),
            2 | 3 => self.send(|world, out| {
                world.gateway.poll_transmit(usize::from(arg & 1), world.now, out).is_some()
            }),
            4 | 5 => self.send(|world, out| world.ap.poll_transmit(world.now, out).is_some()),
            6 | 7 => self.receive_sent(arg, link, true),
            8..=10 => self.receive_sent(arg, link, false),
            11 => {
                let (&by, rest) = rest.split_first().unwrap_or((&1, rest));
                if let Some(mut packet) = self.choose(arg) {
                    self.honest = false;
                    let at = usize::from(by >> 3) % packet.len();
                    packet[at] ^= 1 << (by & 7);
                    self.receive(&packet, link, op & 0x20 != 0);
                }
                return rest;
            }
            12 => {
                let (packet, rest) = rest.split_at(rest.len().min(usize::from(arg)));
                self.honest = false;
                self.receive(packet, link, op & 0x20 != 0);
                return rest;
            }
            13 => {
                let config = self.config;
                let label = Label(u32::from(arg) << (op >> 3));
                self.honest = false;
                self.gateway = Gateway::new(config, 2, 3, self.now).with_first_label(label);
            }
            14 => self.now += Duration::from_secs(1) * u32::from(arg),
            _ => self.handle_timeouts(),
        }
        rest
    }

    /// A packet comes to the gateway.
    fn come(&mut self, arg: u8) {
        let flow = usize::from(arg) % FLOWS;
        let number = self.numbers[flow];
        let packet = [number.to_be_bytes(), number.to_be_bytes()].concat();
        let packet = &packet[..packet.len() - usize::from(arg >> 4 & 3)];
        if self.gateway.receive(flow as u16, packet, self.now).is_ok() {
            self.numbers[flow] += 1;
        }
    }

    fn send(&mut self, poll: impl FnOnce(&mut Self, &mut Vec<u8>) -> bool) {
        let mut out = Vec::new();
        if poll(self, &mut out) {
            if self.sent.len() == 64 {
                self.sent.remove(0);
            }
            self.sent.push(out);
        }
    }

    fn choose(&self, arg: u8) -> Option<Vec<u8>> {
        let back = usize::from(arg) % self.sent.len().max(1);
        self.sent.iter().nth_back(back).cloned()
    }

    fn receive_sent(&mut self, arg: u8, link: usize, ap: bool) {
        if let Some(packet) = self.choose(arg) {
            self.receive(&packet, link, ap);
        }
    }

    fn receive(&mut self, packet: &[u8], link: usize, ap: bool) {
        if ap {
            let _ = self.ap.receive(link, packet, self.now);
        } else {
            let _ = self.device.receive(link, packet, self.now);
        }
    }

    /// Takes what the device hands out, and looks whether all is well.
    fn check(&mut self) {
        assert!(self.ap.held() <= BUFFER && self.device.held() <= BUFFER);
        let restarts = self.device.stats().restarts;
        if restarts > self.restarts {
            // What was handed out before may come again.
            (self.restarts, self.honest) = (restarts, false);
        }
        let mut out = Vec::new();
        while let Some(Delivery { place: Place { flow, .. }, .. }) =
            self.device.poll_delivery(&mut out)
        {
            if self.honest {
                let number = u32::from_be_bytes(out[..4].try_into().expect("four bytes"));
                assert!(number.to_be_bytes().starts_with(&out[4..]), "right bytes");
                assert!(self.last[usize::from(flow)].is_none_or(|last| last < number), "in order");
                assert!(number < self.numbers[usize::from(flow)]);
                self.last[usize::from(flow)] = Some(number);
            }
            out.clear();
        }
    }

    fn handle_timeouts(&mut self) {
        self.gateway.handle_timeout(self.now);
        self.ap.handle_timeout(self.now);
        self.device.handle_timeout(self.now);
        let due = [self.gateway.poll_timeout(), self.ap.poll_timeout(), self.device.poll_timeout()];
        for due in due.into_iter().flatten() {
            assert!(due > self.now, "what is due was done");
        }
    }

    /// Lets time pass until nothing is due any more.
    fn end(&mut self) {
        for _ in 0..1000 {
            let due = [self.ap.poll_timeout(), self.device.poll_timeout()];
            let Some(due) = due.into_iter().flatten().min() else {
                assert_eq!((self.ap.held(), self.device.held()), (0, 0), "nothing is kept");
                return;
            };
            self.now = self.now.max(due);
            self.handle_timeouts();
            self.check();
        }
        panic!("something is always due");
    }
}
