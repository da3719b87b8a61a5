//! The gateway as a program: packets for the device come out of the TUN device, and go over the
//! access points; what the device sends comes back over them.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use weftline_coding::node::{self, GatewayStats, Mode, NodeConfig};
use weftline_core::Instant;

use crate::TunnelError;
use crate::clock;
use crate::fifo::Fifo;
use crate::frame::{self, Coding, Frame, Settings};
use crate::key::{PublicKey, SecretKey};
use crate::lane::{Neighbour, Pace};
use crate::order::Order;
use crate::packet;
use crate::poll::{Poller, Stop};
use crate::port::{About, Port, Use};
use crate::run::draw_run;
use crate::secure::{Link, Local, Role};
use crate::settings::{PATIENCE, Sending};
use crate::status::{Counter, Publish, Status};
use crate::tun::{Tun, TunConfig};
use crate::udp::{Inbox, Socket};

/// Reads of the TUN device before others have their turn: up to 64 KiB each.
const READS: usize = 4;
/// The longest that the loop waits.
const IDLE: Duration = Duration::from_millis(500);

/// An access point as the gateway knows it.
#[derive(Clone, Debug)]
pub struct GatewayPeer {
    /// A name of the user's choice.
    pub name: String,
    /// Its public key.
    pub key: PublicKey,
    /// What the link to it has room for.
    pub pace: Pace,
}

/// What a gateway is started with.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Its secret.
    pub secret: SecretKey,
    /// No encryption, and no authentication but of handshakes.
    pub insecure_plaintext: bool,
    /// Where access points reach it.
    pub listen: SocketAddr,
    /// The device to make.
    pub tun: TunConfig,
    /// The access points, at least one.
    pub access_points: Vec<GatewayPeer>,
    /// How to send.
    pub sending: Sending,
}

/// What sends packets down.
enum Downlink {
    Coded(Box<node::Gateway>),
    Plain(Fifo),
}

/// A gateway that is ready to run.
pub struct Gateway {
    port: Port,
    tun: Tun,
    downlink: Downlink,
    uplink: Order,
    /// The device's run.
    device_run: Option<u32>,
    run: u32,
    settings: Settings,
    mtu: u16,
    /// The link that is asked first.
    turn: usize,
    links: usize,
    packet: Vec<u8>,
    /// The number of the next packet that is not coded.
    next_number: u32,
    clamped: u64,
    not_ip: u64,
}

impl Gateway {
    /// Opens the socket and makes the TUN device.
    ///
    /// # Errors
    /// For settings that make no sense, and what the system refuses.
    pub fn open(config: GatewayConfig) -> Result<Self, TunnelError> {
        if config.access_points.is_empty() || config.access_points.len() > MAX_LINKS {
            return Err(TunnelError::Usage(format!(
                "a gateway has 1 to {MAX_LINKS} access points; give --ap NAME=KEY for each"
            )));
        }
        let local = Local::new(config.secret, config.insecure_plaintext);
        let ipv6 = config.tun.addresses.iter().any(|prefix| prefix.address.is_ipv6());
        let settings = config.sending.settings(local.overhead(), ipv6)?;
        let neighbours: Vec<_> = config.access_points.iter().map(GatewayPeer::neighbour).collect();
        let socket = Socket::listen(config.listen)?;
        let port = Port::new(socket, local, Link::Backhaul, Role::Answerer, &neighbours)?;
        let mtu = settings.limits.packet_bytes;
        let tun = Tun::create(&config.tun, mtu)?;
        let links = neighbours.len();
        let downlink = match settings.coding {
            Coding::Plain => Downlink::Plain(Fifo::new(settings.buffer_packets as usize)),
            Coding::Coded(mode) => {
                // Links are paced by their lanes, which ask for packets when they have room; where
                // cohorts are sent whole they are formed by time alone, as rates are not known here.
                let queue = config.sending.queue.filter(|_| settings.cut_through);
                let queue = queue.filter(|_| mode == Mode::Systematic);
                let node = settings.node(mode, config.sending.redundancy_percent);
                let node = NodeConfig { queue, ..node };
                let seed = u64::from(draw_run()?);
                Downlink::Coded(Box::new(node::Gateway::new(node, links, seed, clock::now())))
            }
        };
        Ok(Self {
            port,
            tun,
            downlink,
            uplink: Order::new(PATIENCE),
            device_run: None,
            run: draw_run()?,
            settings,
            mtu,
            turn: 0,
            links,
            packet: Vec::new(),
            next_number: 0,
            clamped: 0,
            not_ip: 0,
        })
    }

    /// Where access points reach it.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_address(&self) -> Result<SocketAddr, TunnelError> {
        self.port.local_address()
    }

    /// The TUN device's name and the longest packet it takes.
    pub fn device(&self) -> (&str, u16) {
        (self.tun.name(), self.mtu)
    }

    /// Carries packets until `stop` is wanted.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn run(mut self, stop: &Stop, publish: &Publish) -> Result<(), TunnelError> {
        let poller = Poller::new(stop)?;
        poller.add(self.port.fd())?;
        poller.add(self.tun.as_fd())?;
        let mut inbox = Inbox::new();
        let mut blocked = false;
        while !stop.is_wanted() {
            let now = clock::now();
            // Also while no link has room: what is too old is given away in its time.
            if let Downlink::Coded(node) = &mut self.downlink {
                node.handle_timeout(now);
            }
            self.receive(&mut inbox, now);
            self.read_tun(now);
            self.tun.check()?;
            let about = About {
                run: self.run,
                settings: Some(self.settings),
                gateway_rtt: Some(Duration::ZERO),
            };
            self.port.tend(now, &about);
            self.uplink.handle_timeout(now);
            self.deliver();
            self.port.flush(now);
            let due = self.transmit();
            self.port.flush(now);
            if self.port.is_blocked() != blocked {
                blocked = !blocked;
                poller.watch(self.port.fd(), true, blocked);
            }
            publish.update(now, || self.status(now));
            poller.wait(due.min(now + IDLE));
        }
        Ok(())
    }

    fn receive(&mut self, inbox: &mut Inbox, now: Instant) {
        let Self { port, uplink, device_run, .. } = self;
        port.receive(inbox, now, |_, frame| match frame {
            Frame::Up { run, number, packet } => {
                if device_run.replace(run) != Some(run) {
                    uplink.restart();
                }
                uplink.receive(number, packet, now);
                Use::Taken
            }
            Frame::Greeting(_) => Use::Taken,
            _ => Use::Unexpected,
        });
    }

    fn deliver(&mut self) {
        while let Some(packet) = self.uplink.poll() {
            self.tun.write(&packet);
            self.uplink.recycle(packet);
        }
        self.tun.flush();
    }

    fn read_tun(&mut self, now: Instant) {
        let Self { tun, downlink, mtu, clamped, not_ip, next_number, .. } = self;
        for _ in 0..READS {
            let more = tun.read(|packet| {
                let Some(flow) = packet::flow(packet) else {
                    *not_ip += 1;
                    return;
                };
                *clamped += u64::from(packet::clamp_mss(packet, *mtu));
                match downlink {
                    // A cohort that is full drops, and counts that.
                    Downlink::Coded(node) => {
                        let _ = node.receive(flow, packet, now);
                    }
                    Downlink::Plain(fifo) => {
                        let taken = fifo.push(*next_number, packet);
                        *next_number = next_number.wrapping_add(taken.into());
                    }
                }
            });
            if !more {
                break;
            }
        }
    }

    /// Hands the links what they have room for, in turns; when to look again.
    fn transmit(&mut self) -> Instant {
        let now = clock::now();
        let mut idle = 0;
        let mut without_room = false;
        while idle < self.links {
            let link = self.turn;
            self.turn = (self.turn + 1) % self.links;
            if !self.port.has_room(link, now) {
                without_room = true;
                idle += 1;
                continue;
            }
            self.packet.clear();
            let any = match &mut self.downlink {
                Downlink::Coded(node) => {
                    frame::begin_coded(self.run, &mut self.packet);
                    node.poll_transmit(link, now, &mut self.packet).is_some()
                }
                Downlink::Plain(fifo) => fifo.pop(|number, packet| {
                    frame::begin_down(self.run, number, &mut self.packet);
                    self.packet.extend_from_slice(packet);
                }),
            };
            if any {
                self.port.send(link, &self.packet, now);
                idle = 0;
            } else {
                idle += 1;
            }
        }
        self.due(now, without_room)
    }

    fn due(&self, now: Instant, without_room: bool) -> Instant {
        let (node, waits) = match &self.downlink {
            Downlink::Coded(node) => (node.poll_timeout(), node.poll_timeout().is_some()),
            Downlink::Plain(fifo) => (None, !fifo.is_empty()),
        };
        let room = self.port.next_room(now).filter(|_| waits && without_room);
        let all = [node, room, self.port.poll_timeout(), self.uplink.poll_timeout()];
        all.into_iter().flatten().min().unwrap_or(Instant::FAR)
    }

    fn status(&mut self, now: Instant) -> Status {
        let mut counters = match &self.downlink {
            Downlink::Coded(node) => coded_counters(&node.stats()),
            Downlink::Plain(fifo) => vec![
                Counter::new("packets_received", "taken from the TUN device", fifo.taken),
                Counter::new("packets_full", "dropped because the queue was full", fifo.full),
            ],
        };
        counters.extend([
            Counter::new(
                "uplink_lost",
                "packets of the device that did not come",
                self.uplink.lost,
            ),
            Counter::new(
                "uplink_duplicate",
                "packets of the device that came twice",
                self.uplink.duplicate,
            ),
            Counter::new("mss_clamped", "TCP handshakes whose MSS was lowered", self.clamped),
            Counter::new("not_ip", "packets that are not IP", self.not_ip),
            Counter::new("tun_refused", "writes the kernel refused", self.tun.refused),
            Counter::new("tun_unread", "packets of a form that cannot be", self.tun.unread),
        ]);
        Status {
            role: "gateway",
            links: self.port.status(now),
            dropped: self.port.dropped,
            counters,
        }
    }
}

/// The most links of a node.
pub(crate) const MAX_LINKS: usize = 16;

fn coded_counters(stats: &GatewayStats) -> Vec<Counter> {
    vec![
        Counter::new("packets_received", "taken from the TUN device", stats.received),
        Counter::new("packets_high", "sent in the first pass of their cohorts", stats.high),
        Counter::new("packets_low", "redundant packets sent", stats.low),
        Counter::new("packets_given", "not sent in their cohort's time", stats.given),
        Counter::new("packets_full", "dropped because the cohort was full", stats.refused),
        Counter::new("packets_delayed", "dropped because they waited too long", stats.delayed),
        Counter::new("packets_overflowed", "dropped because the queue was full", stats.overflowed),
    ]
}

impl GatewayPeer {
    fn neighbour(&self) -> Neighbour {
        Neighbour { name: self.name.clone(), key: self.key, address: None, pace: self.pace }
    }
}
