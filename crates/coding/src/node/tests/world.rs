//! Gateway, two access points and a device under links that lose and delay.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use proptest::prelude::*;
use weftline_core::Instant;
use weftline_core::rng::Rng;

use super::super::{
    AccessPoint, Delivery, Device, Gateway, GatewayStats, Mode, NodeConfig, Place, QueueConfig,
    Redundancy,
};
use super::config;
use crate::serial::Label;

const MS: u64 = 1_000_000;

/// A link that carries a packet in a while, or loses it; packets may wait in it.
struct Link {
    rng: Rng,
    loss: f64,
    per_packet: u64,
    delay: u64,
    /// The most by which a packet takes longer: later ones may overtake it.
    jitter: u64,
    free_at: u64,
    queue: VecDeque<(u64, Vec<u8>)>,
}

impl Link {
    fn has_room(&self, now: u64) -> bool {
        self.free_at <= now
    }

    fn send(&mut self, now: u64, bytes: &[u8]) {
        self.free_at = now + self.per_packet;
        if self.rng.unit_f64() >= self.loss {
            let due = self.free_at + self.delay + self.rng.below(self.jitter + 1);
            let at = self.queue.partition_point(|(other, _)| *other <= due);
            self.queue.insert(at, (due, bytes.to_vec()));
        }
    }

    fn arrived(&mut self, now: u64) -> Option<Vec<u8>> {
        let due = self.queue.front().is_some_and(|(at, _)| *at <= now);
        due.then(|| self.queue.pop_front().unwrap().1)
    }
}

/// A queue that drops, and that is empty in the end even where an interval takes one packet.
const QUEUE: QueueConfig = QueueConfig {
    target: Duration::from_millis(1),
    interval: Duration::from_millis(10),
    limit_bytes: 12 * 128,
};

/// When traffic ends and when the world does, in steps of 100 µs. In between, twelve packets may wait in
/// the queue and go out one in each interval of 20 ms; the last one's cohort is open for an interval at the
/// gateway and at an access point, which keeps it for two more; and each of two links takes up to 42 ms.
const TRAFFIC: u64 = 3000;
/// One link may never be heard: it could lag by 64 intervals of 12 ms.
const END: u64 = TRAFFIC + (12 + 4) * 200 + 2 * 420 + 160 + 64 * 120;

/// What a world did: packets sent and delivered of each flow, and how long these took.
struct Outcome {
    sent: BTreeMap<u16, u32>,
    delivered: BTreeMap<u16, Vec<u32>>,
    delays: Vec<Duration>,
    stats: String,
}

/// Gateway, two access points and a device, of which the access points have the second of the
/// settings; `links` are the losses and times of a packet of the four links, in steps of 100 µs;
/// flows, and by how many steps a packet may be held up.
fn world(
    [config, at_aps]: [NodeConfig; 2],
    links: [(f64, u64, u64); 4],
    (flows, jitter): (u16, u64),
    seed: u64,
) -> Outcome {
    let mut rng = Rng::stream(seed, "traffic");
    let step = MS / 10;
    let mut links: Vec<_> = links
        .into_iter()
        .enumerate()
        .map(|(n, (loss, per_packet, delay))| Link {
            rng: Rng::stream(seed, &format!("link {n}")),
            loss,
            per_packet: per_packet * step,
            delay: delay * step,
            jitter: jitter * step,
            free_at: 0,
            queue: VecDeque::new(),
        })
        .collect();
    // Labels wrap soon.
    let first = Label(0_u32.wrapping_sub(1 + seed as u32 % 100));
    let mut gateway = Gateway::new(config, 2, seed, Instant::ZERO).with_first_label(first);
    let mut aps = [0, 1].map(|n| AccessPoint::new(at_aps, 1, seed + n));
    let mut device = Device::new(config, 2);
    let (mut sent, mut got) = (BTreeMap::<u16, u32>::new(), BTreeMap::<u16, Vec<u32>>::new());
    let mut times = BTreeMap::<(u16, u32), Instant>::new();
    let mut delays = Vec::new();
    let mut out = Vec::new();
    for tick in 0..END {
        let (now_ns, now) = (tick * step, Instant::from_nanos(tick * step));
        while tick < TRAFFIC && rng.unit_f64() < 0.4 {
            let flow = rng.below(u64::from(flows)) as u16;
            let number = sent.entry(flow).or_default();
            let mut packet = number.to_be_bytes().to_vec();
            packet.resize(4 + rng.below(60) as usize, *number as u8);
            if gateway.receive(flow, &packet, now).is_ok() {
                times.insert((flow, *number), now);
                *number += 1;
            }
        }
        let is_done = |at: Option<Instant>| at.is_none_or(|at| at > now);
        gateway.handle_timeout(now);
        assert!(is_done(gateway.poll_timeout()), "what is due was done");
        for n in 0..2 {
            while links[n].has_room(now_ns) {
                out.clear();
                if gateway.poll_transmit(n, now, &mut out).is_none() {
                    break;
                }
                links[n].send(now_ns, &out);
            }
            while let Some(bytes) = links[n].arrived(now_ns) {
                let _ = aps[n].receive(0, &bytes, now);
            }
            aps[n].handle_timeout(now);
            assert!(is_done(aps[n].poll_timeout()), "what is due was done");
            while links[2 + n].has_room(now_ns) {
                out.clear();
                if aps[n].poll_transmit(now, &mut out).is_none() {
                    break;
                }
                links[2 + n].send(now_ns, &out);
            }
            while let Some(bytes) = links[2 + n].arrived(now_ns) {
                let _ = device.receive(n, &bytes, now);
            }
        }
        device.handle_timeout(now);
        assert!(is_done(device.poll_timeout()), "what is due was done");
        device.poll_report().into_iter().for_each(|report| gateway.learn(report));
        out.clear();
        while let Some(Delivery { place: Place { flow, .. }, .. }) = device.poll_delivery(&mut out)
        {
            let number = u32::from_be_bytes(out[..4].try_into().unwrap());
            assert!(out[4..].iter().all(|&b| b == number as u8), "the bytes are right");
            got.entry(flow).or_default().push(number);
            delays.push(now.since(times[&(flow, number)]));
            out.clear();
        }
    }
    assert_eq!(gateway.poll_timeout(), None);
    assert_eq!(aps.iter().map(AccessPoint::poll_timeout).collect::<Vec<_>>(), [None, None]);
    assert_eq!(device.poll_timeout(), None);
    let stats = aps.each_ref().map(AccessPoint::stats);
    let stats = format!("{:?}\n{stats:#?}\n{:?}", gateway.stats(), device.stats());
    let total: u64 = sent.values().map(|&n| u64::from(n)).sum();
    let GatewayStats { received, delayed, overflowed, .. } = gateway.stats();
    assert_eq!((received + delayed + overflowed, gateway.queued()), (total, 0));
    assert_eq!(
        device.stats().delivered,
        got.values().map(|numbers| numbers.len() as u64).sum::<u64>()
    );
    assert!(aps.iter().all(|ap| ap.held() == 0) && device.held() == 0);
    Outcome { sent, delivered: got, delays, stats }
}

#[test]
#[cfg_attr(miri, ignore = "too slow under an interpreter")]
fn clean_links_deliver_everything_in_both_modes() {
    for (mode, cut_through) in [
        (Mode::Systematic, false),
        (Mode::Dense, false),
        (Mode::Systematic, true),
        (Mode::Dense, true),
    ] {
        let config = NodeConfig { mode, cut_through, ..config() };
        let Outcome { sent, delivered, stats, .. } =
            world([config; 2], [(0.0, 1, 3), (0.0, 1, 9), (0.0, 1, 5), (0.0, 1, 5)], (3, 0), 5);
        for (flow, sent) in sent {
            let all: Vec<u32> = (0..sent).collect();
            assert_eq!(delivered[&flow], all, "{mode:?}\n{stats}");
        }
    }
}

/// Links carry four times what comes: nobody waits for the end of an interval.
#[test]
#[cfg_attr(miri, ignore = "too slow under an interpreter")]
fn cut_through_adds_no_interval_to_the_delay() {
    let links = [(0.0, 1, 3), (0.0, 1, 9), (0.0, 1, 5), (0.0, 1, 5)];
    let longest = |mode, cut_through| {
        let config = NodeConfig { mode, cut_through, ..config() };
        world([config; 2], links, (3, 0), 5).delays.into_iter().max().unwrap()
    };
    // The slower way takes 1.6 ms; a packet may wait for a few others.
    assert!(longest(Mode::Systematic, true) < Duration::from_millis(3));
    assert!(longest(Mode::Systematic, false) > Duration::from_millis(24));
    // Access points alone.
    assert!(longest(Mode::Dense, true) < longest(Mode::Dense, false));
}

/// A link that is slower than the other by more than a silent one is waited for is not silent.
#[test]
#[cfg_attr(miri, ignore = "too slow under an interpreter")]
fn a_link_may_lag_behind() {
    for cut_through in [false, true] {
        let interval = Duration::from_millis(2);
        let config = NodeConfig { cut_through, redundancy_percent: 0, interval, ..config() };
        let Outcome { sent, delivered, stats, .. } =
            world([config; 2], [(0.0, 1, 3), (0.0, 1, 3), (0.0, 1, 5), (0.0, 1, 205)], (2, 0), 5);
        let (sent, got): (u32, usize) =
            (sent.values().sum(), delivered.values().map(Vec::len).sum());
        assert_eq!(got as u32, sent, "{stats}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "too slow under an interpreter")]
fn one_link_may_be_blocked_for_good() {
    // Half of all packets go into the dark. With as many combinations as packets half of these come
    // on the other link, which is one too few for some generations: two passes over them are made.
    let config = NodeConfig { redundancy_percent: 200, ..config() };
    let (mut sent, mut got) = (0, 0);
    for seed in 5..9 {
        let links = [(0.0, 1, 3), (1.0, 1, 9), (0.0, 1, 5), (0.0, 1, 5)];
        let outcome = world([config; 2], links, (2, 0), seed);
        sent += outcome.sent.values().sum::<u32>();
        got += outcome.delivered.values().map(Vec::len).sum::<usize>();
    }
    assert!(got as f64 > 0.97 * f64::from(sent), "{got} of {sent}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the links do: right bytes, in order, none twice, and in the end nothing is kept.
    #[test]
    #[cfg_attr(miri, ignore = "too slow under an interpreter")]
    fn order_and_bytes_survive_any_links(
        losses in prop::array::uniform4(0.0..0.6_f64),
        times in prop::array::uniform4((1_u64..40, 0_u64..300)),
        (dense, unlimited) in any::<(bool, bool)>(),
        (cut_through, at_aps) in any::<(bool, bool)>(),
        (queue, learned) in any::<(bool, bool)>(),
        interval_ms in 1_u64..20,
        packets in 1_u8..40,
        buffer_packets in 1_usize..200,
        flows in 1_u16..5,
        jitter in prop_oneof![Just(0_u64), 1..80_u64],
        seed in any::<u64>(),
    ) {
        let config = NodeConfig {
            mode: if dense { Mode::Dense } else { Mode::Systematic },
            interval: Duration::from_millis(interval_ms),
            limits: crate::Limits { packets, packet_bytes: 100 },
            no_more_than_received: !unlimited,
            cut_through,
            buffer_packets,
            queue: queue.then_some(QUEUE),
            redundancy: if learned { Redundancy::Learned } else { Redundancy::Limit },
            ..NodeConfig::default()
        };
        let links = [0, 1, 2, 3].map(|n| (losses[n], times[n].0, times[n].1));
        let at_aps = NodeConfig { cut_through: at_aps, ..config };
        let outcome = world([config, at_aps], links, (flows, jitter), seed >> 8);
        for (flow, numbers) in &outcome.delivered {
            prop_assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
            prop_assert!(numbers.last().is_none_or(|last| *last < outcome.sent[flow]));
        }
    }
}
