//! The gateway as a program: packets for the device come out of the TUN device, and go over the
//! access points; what the device sends comes back over them.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use weftline_core::Instant;

use crate::TunnelError;
use crate::clock;
use crate::gateway_end::GatewayEnd;
use crate::key::{PublicKey, SecretKey};
use crate::lane::{Neighbour, Pace};
use crate::packet;
use crate::poll::{Poller, Stop};
use crate::port::Port;
use crate::secure::{Link, Local, Role};
use crate::settings::Sending;
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
    /// The device's public key.
    pub device_key: PublicKey,
    /// How to send.
    pub sending: Sending,
}

/// A gateway that is ready to run.
pub struct Gateway {
    port: Port,
    tun: Tun,
    end: GatewayEnd,
    mtu: u16,
    /// The run that access points have been told of.
    told_run: u32,
    /// The link that is asked first.
    turn: usize,
    links: usize,
    packet: Vec<u8>,
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
        let settings = config.sending.settings(&local, ipv6)?;
        let mtu = config.sending.tunnel_mtu(&local, ipv6)?;
        let neighbours: Vec<_> = config.access_points.iter().map(GatewayPeer::neighbour).collect();
        let socket = Socket::listen(config.listen)?;
        let port = Port::new(socket, local.clone(), Link::Backhaul, Role::Answerer, &neighbours)?;
        let tun = Tun::create(&config.tun, mtu)?;
        let links = neighbours.len();
        let (device, now) = (config.device_key, clock::now());
        let end = GatewayEnd::new(local, device, settings, config.sending, links, now)?;
        Ok(Self {
            port,
            tun,
            end,
            mtu,
            told_run: 0,
            turn: 0,
            links,
            packet: Vec::new(),
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
        let mut poller = Poller::new(stop)?;
        let (port, tun) = (poller.add(self.port.fd())?, poller.add(self.tun.as_fd())?);
        let mut inbox = Inbox::new();
        let mut blocked = false;
        while !stop.is_wanted() {
            let now = clock::now();
            // Also while no link has room: what is too old is given away in its time.
            self.end.handle_timeout(now);
            if poller.is_ready(port) {
                self.receive(&mut inbox, now);
            }
            self.end.check()?;
            if poller.is_ready(tun) {
                self.read_tun(now);
            }
            self.tun.check()?;
            let about = self.end.about();
            if about.run != self.told_run {
                self.told_run = about.run;
                self.port.greet_soon();
            }
            self.port.tend(now, &about);
            for link in 0..self.links {
                self.end.set_rate(link, self.port.rate(link));
            }
            let Self { end, tun, .. } = &mut self;
            end.deliver(now, |packet| tun.write(packet));
            self.tun.flush();
            self.port.flush(now);
            let due = self.transmit();
            self.port.flush(now);
            if self.port.is_blocked() != blocked {
                blocked = !blocked;
                poller.watch(port, self.port.fd(), true, blocked);
            }
            publish.update(now, || self.status(now));
            poller.wait(due.min(now + IDLE));
        }
        Ok(())
    }

    fn receive(&mut self, inbox: &mut Inbox, now: Instant) {
        let Self { port, end, .. } = self;
        port.receive(inbox, now, |link, frame, class| end.receive(link, frame, class, now));
        while let Some((link, frame)) = end.poll_reply() {
            port.send(link, &frame, now);
        }
    }

    fn read_tun(&mut self, now: Instant) {
        let Self { tun, end, mtu, clamped, not_ip, .. } = self;
        for _ in 0..READS {
            let more = tun.read(|packet| {
                let Some(flow) = packet::flow(packet) else {
                    *not_ip += 1;
                    return;
                };
                *clamped += u64::from(packet::clamp_mss(packet, *mtu));
                end.push(flow, packet, now);
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
            let class = self.end.poll_transmit(link, now, &mut self.packet);
            if let Some(class) = class {
                self.port.send_classed(link, &self.packet, class, now);
                idle = 0;
            } else {
                idle += 1;
            }
        }
        self.due(now, without_room)
    }

    fn due(&self, now: Instant, without_room: bool) -> Instant {
        let (end, waits) = self.end.poll_timeout();
        let room = self.port.next_room(now).filter(|_| waits && without_room);
        let all = [end, room, self.port.poll_timeout()];
        all.into_iter().flatten().min().unwrap_or(Instant::FAR)
    }

    fn status(&mut self, now: Instant) -> Status {
        let mut counters = self.end.counters();
        counters.extend([
            Counter::new("mss_clamped", "TCP handshakes whose MSS was lowered", self.clamped),
            Counter::new("not_ip", "packets that are not IP", self.not_ip),
            Counter::new("tun_refused", "writes the kernel refused", self.tun.refused),
            Counter::new("tun_unread", "packets of a form that cannot be", self.tun.unread),
        ]);
        Status {
            role: "gateway",
            links: self.port.status(now),
            dropped: self.port.dropped.plus(self.end.end.dropped),
            counters,
        }
    }
}

/// The most links of a node.
pub(crate) const MAX_LINKS: usize = 16;

impl GatewayPeer {
    fn neighbour(&self) -> Neighbour {
        Neighbour { name: self.name.clone(), key: self.key, address: None, pace: self.pace }
    }
}
