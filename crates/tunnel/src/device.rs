//! The device as a program: what the access points send is decoded and goes to the TUN device in
//! the order in which it came to the gateway; what comes out of the TUN device goes up over one access
//! point, or over all.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use weftline_coding::node::{self, DeviceStats};
use weftline_core::Instant;

use crate::TunnelError;
use crate::clock;
use crate::frame::{self, Coding, Frame, Settings};
use crate::gateway::MAX_LINKS;
use crate::key::{PublicKey, SecretKey};
use crate::lane::{Neighbour, Pace};
use crate::order::Order;
use crate::packet;
use crate::poll::{Poller, Stop};
use crate::port::{About, Dropped, Port, Use};
use crate::run::draw_run;
use crate::runs::Runs;
use crate::secure::{Link, Local, Role};
use crate::settings::{IPV6_MTU, PATIENCE};
use crate::status::{Counter, Past, Publish, Status};
use crate::tun::{Tun, TunConfig};
use crate::udp::{Inbox, Socket, Via};

/// Reads of the TUN device before others have their turn: up to 64 KiB each.
const READS: usize = 4;
/// The longest that the loop waits.
const IDLE: Duration = Duration::from_millis(500);
/// A link must be better by an eighth before packets go up over it instead.
const BETTER: u32 = 8;

/// An access point as the device knows it.
#[derive(Clone, Debug)]
pub struct DevicePeer {
    /// A name of the user's choice.
    pub name: String,
    /// Its public key.
    pub key: PublicKey,
    /// Where it is.
    pub address: SocketAddr,
    /// The interface or address to reach it through.
    pub via: Option<Via>,
}

/// Which way packets go up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Uplink {
    /// Over the access point with the least round-trip time to the gateway.
    #[default]
    Lowest,
    /// Over all; the gateway takes the first copy.
    Both,
}

/// What a device is started with.
#[derive(Clone, Debug)]
pub struct DeviceConfig {
    /// Its secret.
    pub secret: SecretKey,
    /// No encryption, and no authentication but of handshakes.
    pub insecure_plaintext: bool,
    /// The device to make.
    pub tun: TunConfig,
    /// The access points, at least one.
    pub access_points: Vec<DevicePeer>,
    /// Which way packets go up.
    pub uplink: Uplink,
}

/// What puts packets together.
enum Downlink {
    /// The gateway's settings are not known yet.
    Unknown,
    Coded(Box<node::Device>),
    Plain(Order),
}

/// An access point's link.
struct Path {
    port: Port,
    /// Its round trip to the gateway, as it says.
    beyond: Option<Duration>,
}

/// A device that is ready to run.
pub struct Device {
    paths: Vec<Path>,
    tun: Tun,
    downlink: Downlink,
    runs: Runs,
    uplink: Uplink,
    /// The path that packets go up now.
    best: Option<usize>,
    /// This run, and the next number of a packet up.
    run: u32,
    number: u32,
    mtu: u16,
    packet: Vec<u8>,
    /// What was counted by the settings before.
    past: Past,
    clamped: u64,
    no_way: u64,
    not_ip: u64,
}

impl Device {
    /// Opens the sockets and makes the TUN device.
    ///
    /// # Errors
    /// For settings that make no sense, and what the system refuses.
    pub fn open(config: DeviceConfig) -> Result<Self, TunnelError> {
        let peers = &config.access_points;
        if peers.is_empty() || peers.len() > MAX_LINKS {
            return Err(TunnelError::Usage(format!(
                "a device has 1 to {MAX_LINKS} access points; give --ap NAME=ADDR,key=KEY for each"
            )));
        }
        let local = Local::new(config.secret, config.insecure_plaintext);
        let mut paths: Vec<Path> = Vec::new();
        for (index, peer) in peers.iter().enumerate() {
            if let Some(other) = peers[..index].iter().find(|other| other.key == peer.key) {
                return Err(TunnelError::Usage(format!(
                    "'{}' and '{}' have the same key; give each access point its own by weftline \
                     cotag key",
                    other.name, peer.name
                )));
            }
            let socket = Socket::towards(peer.address, peer.via.as_ref())?;
            let neighbour = Neighbour {
                name: peer.name.clone(),
                key: peer.key,
                address: Some(peer.address),
                pace: Pace::Interface,
            };
            let port = Port::new(socket, local.clone(), Link::Access, Role::Opener, &[neighbour])?;
            paths.push(Path { port, beyond: None });
        }
        // The least that IPv6 needs, until the gateway says what fits.
        let tun = Tun::create(&config.tun, IPV6_MTU)?;
        Ok(Self {
            paths,
            tun,
            downlink: Downlink::Unknown,
            runs: Runs::default(),
            uplink: config.uplink,
            best: None,
            run: draw_run()?,
            number: 0,
            mtu: IPV6_MTU,
            packet: Vec::new(),
            past: Past::default(),
            clamped: 0,
            no_way: 0,
            not_ip: 0,
        })
    }

    /// The TUN device's name.
    pub fn device(&self) -> &str {
        self.tun.name()
    }

    /// Carries packets until `stop` is wanted.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn run(mut self, stop: &Stop, publish: &Publish) -> Result<(), TunnelError> {
        let poller = Poller::new(stop)?;
        poller.add(self.tun.as_fd())?;
        for path in &self.paths {
            poller.add(path.port.fd())?;
        }
        let mut inbox = Inbox::new();
        let mut blocked = vec![false; self.paths.len()];
        let mut reads = true;
        while !stop.is_wanted() {
            let now = clock::now();
            for index in 0..self.paths.len() {
                self.receive(index, &mut inbox, now);
            }
            self.deliver(now);
            self.choose(now);
            self.read_tun(now);
            self.tun.check()?;
            let about = About {
                run: self.runs.current(),
                settings: self.runs.settings(),
                gateway_rtt: None,
            };
            for (path, blocked) in self.paths.iter_mut().zip(&mut blocked) {
                path.port.tend(now, &about);
                path.port.flush(now);
                if path.port.is_blocked() != *blocked {
                    *blocked = !*blocked;
                    poller.watch(path.port.fd(), true, *blocked);
                }
            }
            if self.wants_packets() != reads {
                reads = !reads;
                poller.watch(self.tun.as_fd(), reads, false);
            }
            publish.update(now, || self.status(now));
            poller.wait(self.due().min(now + IDLE));
        }
        Ok(())
    }

    fn receive(&mut self, index: usize, inbox: &mut Inbox, now: Instant) {
        let links = self.paths.len();
        let Self { paths, downlink, runs, tun, mtu, past, .. } = self;
        let Path { port, beyond } = &mut paths[index];
        port.receive(inbox, now, |_, frame| {
            match (frame, &mut *downlink) {
                (Frame::Greeting(greeting), _) => {
                    let known = greeting.gateway_rtt_us != u32::MAX;
                    *beyond = known.then(|| Duration::from_micros(greeting.gateway_rtt_us.into()));
                    if let Some(settings) = runs.greeted(&greeting) {
                        past.add(downlink.counters(), downlink.held());
                        *downlink = Downlink::new(&settings, links);
                        *mtu = settings.limits.packet_bytes;
                        if let Err(error) = tun.set_mtu(*mtu) {
                            tracing::warn!("setting the MTU of {} to {mtu}: {error}", tun.name());
                        }
                        tracing::info!("the gateway is heard: packets of up to {mtu} bytes");
                    }
                }
                (Frame::Coded { run, .. } | Frame::Down { run, .. }, _)
                    if !runs.is_current(run) =>
                {
                    return Use::Stale;
                }
                (Frame::Coded { packet, .. }, Downlink::Coded(node)) => {
                    // What is dropped is counted there.
                    let _ = node.receive(index, packet, now);
                }
                (Frame::Down { number, packet, .. }, Downlink::Plain(order)) => {
                    order.receive(number, packet, now);
                }
                _ => return Use::Unexpected,
            }
            Use::Taken
        });
    }

    /// Hands the kernel what is due.
    fn deliver(&mut self, now: Instant) {
        match &mut self.downlink {
            Downlink::Unknown => {}
            Downlink::Coded(node) => {
                node.handle_timeout(now);
                self.packet.clear();
                while node.poll_delivery(&mut self.packet).is_some() {
                    self.tun.write(&self.packet);
                    self.packet.clear();
                }
            }
            Downlink::Plain(order) => {
                order.handle_timeout(now);
                while let Some(packet) = order.poll() {
                    self.tun.write(&packet);
                    order.recycle(packet);
                }
            }
        }
        self.tun.flush();
    }

    /// Chooses the path that packets go up: the best one, if the present one is worse by much.
    fn choose(&mut self, now: Instant) {
        let delay = |path: &mut Path| Some(path.port.rtt(0, now)? + path.beyond?);
        let delays: Vec<_> = self.paths.iter_mut().map(delay).collect();
        let known = delays.iter().enumerate().filter_map(|(index, delay)| Some((index, (*delay)?)));
        let Some((best, least)) = known.min_by_key(|(_, delay)| *delay) else {
            // None that has been measured: any that is there.
            self.best =
                (0..self.paths.len()).find(|&index| self.paths[index].port.has_room(0, now));
            return;
        };
        let stays = self.best.and_then(|present| delays[present]);
        if stays.is_none_or(|present| present > least + least / BETTER) {
            self.best = Some(best);
        }
    }

    /// Whether what comes out of the TUN device can go on: while the way up has no room the kernel
    /// keeps its packets, and its queue tells the programs behind it. Without a way they are read
    /// and dropped: they would be stale when there is one.
    fn wants_packets(&self) -> bool {
        match (self.uplink, self.best) {
            (Uplink::Both, _) => !self.paths.iter().all(|path| path.port.is_blocked()),
            (Uplink::Lowest, Some(best)) => !self.paths[best].port.is_blocked(),
            (Uplink::Lowest, None) => true,
        }
    }

    fn read_tun(&mut self, now: Instant) {
        let (uplink, best) = (self.uplink, self.best);
        let (mut clamped, mut no_way, mut not_ip) = (0, 0, 0);
        for _ in 0..READS {
            if !self.wants_packets() {
                break;
            }
            let Self { paths, tun, run, number, mtu, packet: frame, .. } = self;
            let more = tun.read(|packet| {
                if packet::flow(packet).is_none() {
                    not_ip += 1;
                    return;
                }
                clamped += u64::from(packet::clamp_mss(packet, *mtu));
                frame.clear();
                frame::begin_up(*run, *number, frame);
                frame.extend_from_slice(packet);
                *number = number.wrapping_add(1);
                match (uplink, best) {
                    (Uplink::Both, _) => {
                        for path in paths.iter_mut() {
                            path.port.send(0, frame, now);
                        }
                    }
                    (Uplink::Lowest, Some(best)) => paths[best].port.send(0, frame, now),
                    (Uplink::Lowest, None) => no_way += 1,
                }
            });
            if !more {
                break;
            }
        }
        self.clamped += clamped;
        self.no_way += no_way;
        self.not_ip += not_ip;
    }

    fn due(&self) -> Instant {
        let downlink = match &self.downlink {
            Downlink::Unknown => None,
            Downlink::Coded(node) => node.poll_timeout(),
            Downlink::Plain(order) => order.poll_timeout(),
        };
        let ports = self.paths.iter().filter_map(|path| path.port.poll_timeout());
        ports.chain(downlink).min().unwrap_or(Instant::FAR)
    }

    fn status(&mut self, now: Instant) -> Status {
        let mut counters = self.past.plus(self.downlink.counters());
        counters.extend([
            Counter::new("mss_clamped", "TCP handshakes whose MSS was lowered", self.clamped),
            Counter::new("packets_no_way", "packets up with no access point", self.no_way),
            Counter::new("not_ip", "packets that are not IP", self.not_ip),
            Counter::new("tun_refused", "writes the kernel refused", self.tun.refused),
            Counter::new("tun_unread", "packets of a form that cannot be", self.tun.unread),
        ]);
        let links = self.paths.iter_mut().flat_map(|path| path.port.status(now)).collect();
        let dropped = self.paths.iter().map(|path| path.port.dropped);
        let dropped = dropped.fold(Dropped::default(), Dropped::plus);
        Status { role: "device", links, dropped, counters }
    }
}

impl Downlink {
    fn new(settings: &Settings, links: usize) -> Self {
        match settings.coding {
            Coding::Plain => Self::Plain(Order::new(PATIENCE)),
            Coding::Coded(mode) => {
                Self::Coded(Box::new(node::Device::new(settings.node(mode, 100), links)))
            }
        }
    }

    /// Packets that wait.
    fn held(&self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Coded(node) => node.held(),
            Self::Plain(order) => order.held(),
        }
    }

    fn counters(&self) -> Vec<Counter> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Coded(node) => coded_counters(&node.stats()),
            Self::Plain(order) => vec![
                Counter::new("packets_lost", "given up", order.lost),
                Counter::new("packets_duplicate", "came twice, or too late", order.duplicate),
            ],
        }
    }
}

fn coded_counters(stats: &DeviceStats) -> Vec<Counter> {
    vec![
        Counter::new("packets_received", "taken from access points", stats.received),
        Counter::new("packets_redundant", "combinations of what was there", stats.redundant),
        Counter::new("packets_delivered", "handed to the kernel", stats.delivered),
        Counter::new("packets_recovered", "of those, computed from combinations", stats.recovered),
        Counter::new("packets_lost", "given up", stats.lost),
        Counter::new("packets_full", "dropped because the buffer was full", stats.full),
        Counter::new("packets_late", "of a cohort that was closed", stats.late),
        Counter::new("packets_refused", "wrong", stats.refused),
        Counter::new("timeouts", "cohorts closed because a link was silent", stats.timeouts),
    ]
}
