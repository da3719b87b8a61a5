//! The gateway as a program: packets for the devices come out of the TUN device, and go over the
//! access points; what the devices send comes back over them.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use weftline_coding::node::counters;
use weftline_core::Instant;

use crate::TunnelError;
use crate::clock;
use crate::endpoint::{About, Endpoint};
use crate::frame::Frame;
use crate::kernel_drops::KernelDrops;
use crate::key::{PublicKey, SecretKey, check_distinct};
use crate::members::{GatewayDevice, Members};
use crate::peer::{Neighbour, Pace};
use crate::poll::{Poller, Stop};
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
    /// The devices, at least one.
    pub devices: Vec<GatewayDevice>,
    /// How to send.
    pub sending: Sending,
}

/// A gateway that is ready to run.
pub struct Gateway {
    endpoint: Endpoint,
    tun: Tun,
    members: Members,
    /// The link that is asked first.
    turn: usize,
    /// The access points' names.
    links: Vec<String>,
    packet: Vec<u8>,
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
        let points = config.access_points.iter().map(|point| (&*point.name, point.key));
        let devices = config.devices.iter().map(|device| (&*device.name, device.key));
        let known = [("this gateway", config.secret.public())].into_iter().chain(points);
        check_distinct(&known.chain(devices).collect::<Vec<_>>())?;
        let local = Local::new(config.secret, config.insecure_plaintext);
        let ipv6 = config.tun.addresses.iter().any(|prefix| prefix.address.is_ipv6());
        let neighbours: Vec<_> = config.access_points.iter().map(GatewayPeer::neighbour).collect();
        let links: Vec<_> = neighbours.iter().map(|neighbour| neighbour.name.clone()).collect();
        let (devices, now) = (&config.devices, clock::now());
        let members = Members::new(&local, devices, config.sending, ipv6, links.len(), now)?;
        let socket = Socket::listen(config.listen)?;
        let endpoint = Endpoint::new(socket, local, Link::Backhaul, Role::Responder, &neighbours)?;
        let tun = Tun::create(&config.tun, members.mtu())?;
        Ok(Self { endpoint, tun, members, turn: 0, links, packet: Vec::new() })
    }

    /// Where access points reach it.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_address(&self) -> Result<SocketAddr, TunnelError> {
        self.endpoint.local_address()
    }

    /// The TUN device's name and the longest packet it takes.
    pub fn device(&self) -> (&str, u16) {
        (self.tun.name(), self.members.mtu())
    }

    /// Carries packets until `stop` is wanted.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn run(mut self, stop: &Stop, publish: &Publish) -> Result<(), TunnelError> {
        publish.watch(KernelDrops::new(&[self.endpoint.fd()], Some(self.tun.name())));
        let mut poller = Poller::new(stop)?;
        let (endpoint, tun) = (poller.add(self.endpoint.fd())?, poller.add(self.tun.as_fd())?);
        let mut inbox = Inbox::new();
        let mut blocked = false;
        while !stop.is_wanted() {
            let now = clock::now();
            // Also while no link has room: what is too old is given away in its time.
            self.members.handle_timeout(now);
            let mut is_dry = true;
            if poller.is_ready(endpoint) {
                is_dry &= self.receive(&mut inbox, now);
            }
            self.members.check()?;
            if poller.is_ready(tun) {
                is_dry &= self.read_tun(now);
            }
            self.tun.check()?;
            let Self { endpoint: backhaul, members, .. } = &mut self;
            if members.list_epochs() {
                backhaul.send_keepalives_soon();
            }
            let about = About { settings: members.settings(), epochs: members.epochs() };
            backhaul.tend(now, &about);
            for link in 0..self.links.len() {
                if !self.endpoint.is_up(link, now) {
                    self.members.lost(link);
                }
                self.members.set_rate(link, self.endpoint.rate(link));
            }
            let Self { members, tun, .. } = &mut self;
            members.deliver(now, |packet| tun.write(packet));
            self.tun.flush();
            self.endpoint.resume(now);
            let due = self.transmit();
            self.endpoint.flush(now);
            if self.endpoint.is_blocked() != blocked {
                blocked = !blocked;
                poller.watch(endpoint, self.endpoint.fd(), true, blocked);
            }
            publish.update(now, || self.status(now));
            poller.gather_for(self.members.settings().map(|settings| settings.interval));
            poller.wait(due.min(now + IDLE), is_dry);
        }
        Ok(())
    }

    /// Whether all that was there has been read; so [`read_tun`](Self::read_tun).
    fn receive(&mut self, inbox: &mut Inbox, now: Instant) -> bool {
        let Self { endpoint, members, packet, .. } = self;
        let take = |link, frame: Frame<'_>, around| members.receive(link, frame, around, now);
        let is_dry = endpoint.receive(inbox, now, take);
        loop {
            packet.clear();
            let Some(link) = members.poll_reply(packet) else { break };
            endpoint.send(link, packet, now);
        }
        is_dry
    }

    fn read_tun(&mut self, now: Instant) -> bool {
        let Self { tun, members, .. } = self;
        (0..READS).any(|_| !tun.read(|packet| members.push(packet, now)))
    }

    /// Hands the links what they have room for, in turns; when to look again.
    fn transmit(&mut self) -> Instant {
        let now = clock::now();
        let mut idle = 0;
        let mut without_room = false;
        while idle < self.links.len() {
            let link = self.turn;
            self.turn = (self.turn + 1) % self.links.len();
            if !self.endpoint.has_room(link, now) {
                without_room = true;
                idle += 1;
                continue;
            }
            self.packet.clear();
            let class = self.members.poll_transmit(link, now, &mut self.packet);
            if let Some(class) = class {
                self.endpoint.send_classed(link, &self.packet, class, now);
                idle = 0;
            } else {
                idle += 1;
            }
        }
        self.due(now, without_room)
    }

    fn due(&self, now: Instant, without_room: bool) -> Instant {
        let (end, waits) = self.members.poll_timeout(now);
        let room = self.endpoint.next_room(now).filter(|_| waits && without_room);
        let all = [end, room, self.endpoint.poll_timeout()];
        all.into_iter().flatten().min().unwrap_or(Instant::FAR)
    }

    fn status(&mut self, now: Instant) -> Status {
        let mut counters = self.members.counters();
        counters.extend([
            Counter::of(counters::TUN_REFUSED, self.tun.refused),
            Counter::of(counters::TUN_UNREAD, self.tun.unread),
        ]);
        let mut links = self.endpoint.status(now);
        for (index, link) in links.iter_mut().enumerate() {
            link.rate = link.rate.or_else(|| self.members.rate(index));
        }
        let devices = self.members.status(&self.links, now);
        Status {
            at: now,
            role: "gateway",
            links,
            dropped: self.endpoint.dropped.plus(self.members.dropped()),
            counters,
            waiting: devices.iter().map(|device| device.waiting).sum(),
            devices,
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
