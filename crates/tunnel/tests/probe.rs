//! A client and a server of the probe over modelled links, in virtual time.
#![allow(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

use weftline_core::{Bitrate, ByteCount, Instant};
use weftline_link::{Link, LinkConfig, LossModel, QueueLimit, RateTrace, Verdict};
use weftline_tunnel::probe::wire::Reason;
use weftline_tunnel::probe::{
    Ask, Client, ClientConfig, Direction, Ended, Event, Recorder, Route, Row, Sample, Server,
    ServerConfig, Stamp,
};

const MS: Duration = Duration::from_millis(1);
/// From end to end.
const DELAY: Duration = Duration::from_millis(5);

/// Two ends and the two links between them.
struct World {
    client: Client,
    server: Server,
    address: SocketAddr,
    down: Link,
    up: Link,
    /// What is on its way: when it comes, in which order it was sent, to whom.
    under_way: BTreeMap<(Instant, u64), (bool, Vec<u8>)>,
    sent: u64,
    now: Instant,
    /// The most of its trains that waited in the link that goes down, in bytes.
    backlog: u64,
    samples: Vec<(Direction, Sample)>,
    ended: Option<Ended>,
}

fn link(rate: RateTrace, loss: f64) -> LinkConfig {
    LinkConfig {
        rate,
        delay: DELAY,
        jitter: Duration::ZERO,
        queue: QueueLimit::Packets(1000),
        loss: if loss > 0.0 { LossModel::Bernoulli(loss) } else { LossModel::None },
    }
}

fn constant(mbps: u64) -> LinkConfig {
    link(RateTrace::constant(Bitrate::mbps(mbps)), 0.0)
}

impl World {
    fn new(ask: Ask, down: LinkConfig, up: LinkConfig) -> Self {
        Self::with(ask, down, up, None, ServerConfig::default())
    }

    fn with(
        ask: Ask,
        down: LinkConfig,
        up: LinkConfig,
        secret: Option<[u8; 32]>,
        config: ServerConfig,
    ) -> Self {
        let now = Instant::from_millis(1000);
        let address = "192.0.2.1:4434".parse().unwrap();
        let client = ClientConfig { ask, server: address, secret, session: 77 };
        let mut world = Self {
            client: Client::new(client, now),
            server: Server::new(config, &[1; 32]),
            address,
            down: Link::new(down, 1, "down"),
            up: Link::new(up, 1, "up"),
            under_way: BTreeMap::new(),
            sent: 0,
            now,
            backlog: 0,
            samples: Vec::new(),
            ended: None,
        };
        world.down.start(now);
        world.up.start(now);
        world
    }

    /// Goes on until the client has ended, or for `limit`.
    fn run(mut self, limit: Duration) -> Self {
        let end = self.now + limit;
        while self.now < end && self.ended.is_none() {
            self.step();
        }
        self
    }

    fn step(&mut self) {
        let now = self.now;
        self.client.handle_timeout(now);
        self.server.handle_timeout(now);
        let mut out = Vec::new();
        while let Some(shape) = self.client.poll_transmit(now, &mut out) {
            out.chunks(shape.segment).for_each(|datagram| self.send(true, datagram));
            out.clear();
        }
        while let Some((route, shape)) = self.server.poll_transmit(now, &mut out) {
            assert_eq!(route.client, self.address);
            out.chunks(shape.segment).for_each(|datagram| self.send(false, datagram));
            out.clear();
        }
        while let Some(event) = self.client.poll_event() {
            match event {
                Event::Ended(how) => self.ended = Some(how),
                Event::Sample(direction, sample) => self.samples.push((direction, sample)),
                Event::Started => {}
            }
        }
        let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
        let timers = [self.client.poll_timeout(), self.server.poll_timeout()];
        let next = timers.into_iter().flatten().chain(arrival).min();
        self.now = next.map_or(now + MS, |next| next.max(now));
        while let Some(first) = self.under_way.first_entry() {
            if first.key().0 > self.now {
                break;
            }
            let ((at, _), (to_server, datagram)) = first.remove_entry();
            self.deliver(to_server, &datagram, at);
        }
    }

    fn send(&mut self, to_server: bool, datagram: &[u8]) {
        let link = if to_server { &mut self.up } else { &mut self.down };
        let verdict = link.offer(self.now, ByteCount::new(datagram.len() as u64 + 28));
        self.backlog = self.backlog.max(self.down.backlog(self.now).0.as_u64());
        if let Verdict::Arrives(at) = verdict {
            self.sent += 1;
            self.under_way.insert((at, self.sent), (to_server, datagram.to_vec()));
        }
    }

    fn deliver(&mut self, to_server: bool, datagram: &[u8], at: Instant) {
        let stamp = Stamp { at, steps: Some(0) };
        if !to_server {
            self.client.handle(datagram, stamp, at);
            return;
        }
        let route = Route { client: self.address, local: None };
        if let Some(answer) = self.server.handle(route, datagram, stamp, at) {
            self.send(false, &answer);
        }
    }

    fn rates(&self, direction: Direction) -> Vec<f64> {
        let of = self.samples.iter().filter(|(of, _)| *of == direction);
        of.filter_map(|(_, sample)| Some(sample.rate()?.as_mbps_f64())).collect()
    }

    fn rows(&self) -> Vec<Row> {
        let mut recorder = Recorder::default();
        self.samples.iter().flat_map(|(_, sample)| recorder.on_sample(sample).rows).collect()
    }
}

#[test]
fn known_rates_are_measured_both_ways() {
    for (down, up) in [(1, 1000), (20, 3), (100, 500), (1000, 72), (3000, 40)] {
        let ask = Ask { direction: Direction::Both, duration: 2000 * MS, ..Ask::default() };
        let world = World::new(ask, constant(down), constant(up)).run(Duration::from_secs(10));
        assert_eq!(world.ended, Some(Ended::Done));
        for (direction, mbps) in [(Direction::Down, down), (Direction::Up, up)] {
            let rates = world.rates(direction);
            assert!(rates.len() as u64 >= mbps.min(50), "{direction:?} {mbps}: {}", rates.len());
            // Reports share the link: a packet of theirs among those of a slow train.
            let tolerance = if mbps < 10 { 0.05 } else { 0.01 };
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            assert!(
                (mean / mbps as f64 - 1.0).abs() < tolerance,
                "{direction:?}: {mean} of {mbps}"
            );
        }
        assert_eq!(world.server.stats().dropped(), 0);
        assert_eq!(world.server.clients(), 0, "the client has said that it is over");
    }
}

/// At a round trip longer than the time between trains they are on their way together; none waits
/// behind another.
#[test]
fn no_more_than_a_train_waits_in_the_link() {
    for delay in [Duration::ZERO, DELAY, 50 * MS, 300 * MS] {
        for mbps in [2, 10, 40, 100, 1000] {
            let ask = Ask { duration: 3000 * MS, ..Ask::default() };
            let far = |mbps| LinkConfig { delay, ..constant(mbps) };
            let world = World::new(ask, far(mbps), far(100)).run(Duration::from_secs(10));
            let waited = world.backlog;
            assert!(waited <= 30 * 1500 + 100, "{waited} bytes at {mbps} Mb/s and {delay:?}");
            let trains = world.rates(Direction::Down).len();
            let least = if mbps >= 40 { 200 } else { 10 };
            assert!(trains >= least, "{trains} trains at {mbps} Mb/s and {delay:?}");
        }
    }
}

/// A short way: at most one train is in a link that collapses, to nothing or to a hundredth.
#[test]
fn a_collapse_finds_one_train() {
    for rate in [Bitrate::ZERO, Bitrate::mbps(5)] {
        let steps = vec![(Duration::ZERO, Bitrate::mbps(500)), (1004 * MS, rate)];
        let trace = RateTrace::from_steps(steps, Duration::from_secs(100)).unwrap();
        let down = LinkConfig { delay: MS, ..link(trace, 0.0) };
        let ask = Ask { duration: 4000 * MS, ..Ask::default() };
        let up = LinkConfig { delay: MS, ..constant(100) };
        let world = World::new(ask, down, up).run(Duration::from_secs(10));
        // And what goes instead of trains.
        let waited = world.backlog;
        assert!(waited < 30 * 1500 + 400 * 78, "{waited} bytes at {rate}");
        assert!(world.rates(Direction::Down).len() > 90);
    }
}

#[test]
fn loss_costs_packets_and_does_not_bias_the_rate() {
    let lossy = link(RateTrace::constant(Bitrate::mbps(400)), 0.02);
    let up = link(RateTrace::constant(Bitrate::mbps(100)), 0.02);
    let ask = Ask { duration: 5000 * MS, ..Ask::default() };
    let world = World::new(ask, lossy, up).run(Duration::from_secs(10));
    let rates = world.rates(Direction::Down);
    let mean = rates.iter().sum::<f64>() / rates.len() as f64;
    assert!(rates.len() > 250 && (mean / 400.0 - 1.0).abs() < 0.01, "{mean}, {}", rates.len());
    let received: u32 = world.samples.iter().map(|(_, s)| u32::from(s.received)).sum();
    let packets: u32 = world.samples.iter().map(|(_, s)| u32::from(s.packets)).sum();
    let loss = 1.0 - f64::from(received) / f64::from(packets);
    assert!((0.012..0.03).contains(&loss), "{loss}");
    assert!(world.rows().iter().all(|row| row.rate > Bitrate::ZERO), "lost is not blocked");
}

/// 500 Mb/s; nothing from 1 s to 1.4 s; 80 Mb/s from then on.
#[test]
fn a_link_that_stands_still_is_written_as_zero() {
    let steps = vec![
        (Duration::ZERO, Bitrate::mbps(500)),
        (1005 * MS, Bitrate::ZERO),
        (1405 * MS, Bitrate::mbps(80)),
    ];
    let trace = RateTrace::from_steps(steps, Duration::from_secs(100)).unwrap();
    let ask = Ask { duration: 2500 * MS, ..Ask::default() };
    let world = World::new(ask, link(trace, 0.0), constant(100)).run(Duration::from_secs(10));
    let rows = world.rows();
    let at = |ms: u64| {
        let time = Duration::from_millis(ms);
        rows.iter().take_while(|row| row.time <= time).last().unwrap().rate.as_mbps_f64().round()
    };
    // Rows count from the first train, 20 ms of handshake after the trace's start.
    let zero: Vec<_> = rows.iter().filter(|row| row.rate == Bitrate::ZERO).collect();
    assert_eq!(zero.len(), 1, "{rows:?}");
    let ms = zero[0].time.as_millis() as u64;
    assert!((970..1010).contains(&ms), "{ms}");
    assert_eq!([at(500), at(1100), at(1300), at(1500), at(2000)], [500.0, 0.0, 0.0, 80.0, 80.0]);
    // A train, and the next as the round trip takes 10 ms; and what goes instead of trains.
    assert!(world.backlog < 2 * 45_000 + 40 * 78, "{} bytes waited", world.backlog);
}

#[test]
fn a_server_that_is_gone_and_one_that_never_was_are_told_apart() {
    let dead = || link(RateTrace::constant(Bitrate::mbps(10)), 1.0);
    let never = World::new(Ask::default(), constant(10), dead()).run(Duration::from_secs(60));
    assert_eq!(never.ended, Some(Ended::NoAnswer));
    let ask = Ask { duration: Duration::from_secs(300), ..Ask::default() };
    let steps = vec![(Duration::ZERO, Bitrate::mbps(100)), (500 * MS, Bitrate::ZERO)];
    let ends = RateTrace::from_steps(steps, Duration::from_secs(1000)).unwrap();
    let mut gone = World::new(ask, link(ends, 0.0), constant(10)).run(Duration::from_secs(200));
    assert_eq!(gone.ended, Some(Ended::Silent));
    // The server hears no more either, and forgets.
    gone.server.handle_timeout(gone.now + Duration::from_secs(31));
    assert_eq!(gone.server.clients(), 0);
}

#[test]
fn a_client_without_the_secret_is_refused_and_with_it_is_not() {
    let config = || ServerConfig { secrets: vec![[1; 32], [2; 32]], ..ServerConfig::default() };
    for (secret, ended) in [
        (None, Ended::Server(Reason::Token)),
        (Some([3; 32]), Ended::Server(Reason::Token)),
        (Some([2; 32]), Ended::Done),
    ] {
        let ask = Ask { duration: 200 * MS, ..Ask::default() };
        let world = World::with(ask, constant(100), constant(100), secret, config());
        let world = world.run(Duration::from_secs(10));
        assert_eq!(world.ended, Some(ended));
        assert_eq!(world.server.stats().opened, u64::from(ended == Ended::Done));
    }
}

/// The first hello and start and their answers are lost: the words are said again.
#[test]
fn a_handshake_survives_losses() {
    let drop_first = |packets| LinkConfig { loss: LossModel::Nth(packets), ..constant(100) };
    let ask = Ask { duration: 500 * MS, ..Ask::default() };
    let world = World::new(ask, drop_first(vec![1, 2]), drop_first(vec![1, 3]));
    let world = world.run(Duration::from_secs(10));
    assert_eq!(world.ended, Some(Ended::Done));
    assert!(world.rates(Direction::Down).len() > 30);
}
