//! The device as a program: what the access points send is decoded and goes to the TUN device in
//! the order in which it came to the gateway; what comes out of the TUN device goes up over one access
//! point, or over all.

use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use weftline_coding::node::counters;
use weftline_core::Instant;

use crate::TunnelError;
use crate::class::Class;
use crate::clock;
use crate::device_end::DeviceEnd;
use crate::endpoint::{About, Dropped, Endpoint};
use crate::gateway::MAX_LINKS;
use crate::kernel_drops::KernelDrops;
use crate::key::{PublicKey, SecretKey, check_distinct};
use crate::packet;
use crate::peer::{Neighbour, Pace};
use crate::poll::{Poller, Stop};
use crate::random::random_nonzero;
use crate::secure::{Link, Local};
use crate::settings::IPV6_MTU;
use crate::status::{Counter, Publish, Status};
use crate::tun::{Tun, TunConfig};
use crate::udp::{Inbox, Via};

/// Reads of the TUN device before others have their turn: up to 64 KiB each.
const READS: usize = 4;
/// The longest that the loop waits.
const IDLE: Duration = Duration::from_millis(500);

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
    /// The gateway's public key.
    pub gateway_key: PublicKey,
    /// The device to make.
    pub tun: TunConfig,
    /// The access points, at least one.
    pub access_points: Vec<DevicePeer>,
    /// Which way packets go up.
    pub uplink: Uplink,
}

/// A device that is ready to run.
pub struct Device {
    /// The links to the access points.
    paths: Vec<Endpoint>,
    tun: Tun,
    end: DeviceEnd,
    uplink: Uplink,
    /// The path that packets go up now.
    best: Option<usize>,
    mtu: u16,
    packet: Vec<u8>,
    clamped: u64,
    no_way: u64,
    not_ip: u64,
}

/// Two access points are not at one place; behind two interfaces an address may mean two hosts.
fn check_places(peers: &[DevicePeer]) -> Result<(), TunnelError> {
    for (index, peer) in peers.iter().enumerate() {
        let same = |other: &&DevicePeer| (other.address, &other.via) == (peer.address, &peer.via);
        if let Some(other) = peers[..index].iter().find(same) {
            return Err(TunnelError::Usage(format!(
                "access points '{}' and '{}' have the same address, {}; give each its own",
                other.name, peer.name, peer.address
            )));
        }
    }
    Ok(())
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
        let known = [("this device", config.secret.public()), ("gateway", config.gateway_key)];
        let others = peers.iter().map(|peer| (&*peer.name, peer.key));
        check_distinct(&known.into_iter().chain(others).collect::<Vec<_>>())?;
        check_places(peers)?;
        let local = Local::new(config.secret, config.insecure_plaintext);
        let mut paths = Vec::new();
        for peer in peers {
            let neighbour = Neighbour {
                name: peer.name.clone(),
                key: peer.key,
                address: Some(peer.address),
                pace: Pace::Interface,
            };
            let (via, local) = (peer.via.clone(), local.clone());
            let mut endpoint =
                Endpoint::towards(peer.address, via, local, Link::Access, neighbour)?;
            // What is said of the other direction waits behind what the kernel has.
            endpoint.limit_queue();
            paths.push(endpoint);
        }
        // The least that IPv6 needs, until the gateway says what fits.
        let tun = Tun::create(&config.tun, IPV6_MTU)?;
        let names = peers.iter().map(|peer| peer.name.clone()).collect();
        Ok(Self {
            paths,
            tun,
            end: DeviceEnd::new(local, config.gateway_key, names, random_nonzero()?),
            uplink: config.uplink,
            best: None,
            mtu: IPV6_MTU,
            packet: Vec::new(),
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
        let sockets: Vec<_> = self.paths.iter().map(Endpoint::fd).collect();
        publish.watch(KernelDrops::new(&sockets, Some(self.tun.name())));
        let mut poller = Poller::new(stop)?;
        let tun = poller.add(self.tun.as_fd())?;
        let sources: Result<Vec<_>, _> =
            self.paths.iter().map(|path| poller.add(path.fd())).collect();
        let sources = sources?;
        let mut inbox = Inbox::new();
        let mut blocked = vec![false; self.paths.len()];
        let mut reads = true;
        while !stop.is_wanted() {
            let now = clock::now();
            let mut is_dry = self.receive(&mut inbox, now, |index| poller.is_ready(sources[index]));
            self.deliver(now);
            self.speak(now);
            self.choose(now);
            if poller.is_ready(tun) {
                is_dry &= self.read_tun(now);
            }
            self.tun.check()?;
            let mut is_new = false;
            let paths = self.paths.iter_mut().zip(&sources);
            for ((path, &source), blocked) in paths.zip(&mut blocked) {
                path.tend(now, &About::default());
                if path.reopen(now) {
                    poller.replace(source, path.fd())?;
                    is_new = true;
                }
                path.flush(now);
                if path.is_blocked() != *blocked {
                    *blocked = !*blocked;
                    poller.watch(source, path.fd(), true, *blocked);
                }
            }
            if is_new {
                publish.follow(&self.paths.iter().map(Endpoint::fd).collect::<Vec<_>>());
            }
            if self.wants_packets() != reads {
                reads = !reads;
                poller.watch(tun, self.tun.as_fd(), reads, false);
            }
            publish.update(now, || self.status(now));
            poller.gather_for(self.end.interval());
            poller.wait(self.due(now).min(now + IDLE), is_dry);
        }
        Ok(())
    }

    /// Reads the paths that are ready. Whether all that was there has been read; so
    /// [`read_tun`](Self::read_tun).
    fn receive(
        &mut self,
        inbox: &mut Inbox,
        now: Instant,
        is_ready: impl Fn(usize) -> bool,
    ) -> bool {
        let mut is_dry = true;
        for (index, path) in self.paths.iter_mut().enumerate().filter(|(k, _)| is_ready(*k)) {
            is_dry &= path.receive(inbox, now, |_, frame, around| {
                self.end.receive(index, frame, around.class, now)
            });
        }
        if let Some(mtu) = self.end.mtu().filter(|&mtu| mtu != self.mtu) {
            self.mtu = mtu;
            if let Err(error) = self.tun.set_mtu(mtu) {
                tracing::warn!("setting the MTU of {} to {mtu}: {error}", self.tun.name());
            }
            tracing::info!("the gateway is heard: packets of up to {mtu} bytes");
        }
        is_dry
    }

    /// Hands the kernel what is due.
    fn deliver(&mut self, now: Instant) {
        self.end.handle_timeout(now);
        let Self { end, tun, .. } = self;
        end.deliver(|packet| tun.write(packet));
        tun.flush();
    }

    /// Asks the gateway, over every access point that is there, for a session or its terms.
    fn speak(&mut self, now: Instant) {
        let mut up: Vec<_> = self.paths.iter_mut().enumerate().collect();
        up.retain_mut(|(_, path)| path.is_up(0, now));
        self.packet.clear();
        if !up.is_empty() && self.end.poll_initiation(now, &mut self.packet) {
            for (_, path) in &mut up {
                path.send(0, &self.packet, now);
            }
        }
        // By the way that packets go up: if it is lost, the next report has it, too.
        self.packet.clear();
        if let Some(best) = self.best
            && let Some((_, path)) = up.iter_mut().find(|(index, _)| *index == best)
            && self.end.poll_losses(now, &mut self.packet)
        {
            path.send(0, &self.packet, now);
        }
        for (index, path) in up {
            self.packet.clear();
            if self.end.poll_hello(index, now, &mut self.packet) {
                path.send(0, &self.packet, now);
            }
        }
    }

    /// Chooses the path that packets go up: the best one, if the present one is worse by much; if
    /// none has been measured, any that is there.
    fn choose(&mut self, now: Instant) {
        self.best = self.end.best(self.best, now);
        if self.best.is_none() {
            self.best = self.paths.iter_mut().position(|path| path.is_up(0, now));
        }
    }

    /// Whether what comes out of the TUN device can go on: while the way up has no room the kernel
    /// keeps its packets, and its queue tells the programs behind it. Without a way they are read
    /// and dropped: they would be stale when there is one.
    fn wants_packets(&self) -> bool {
        match (self.uplink, self.best) {
            (Uplink::Both, _) => !self.paths.iter().all(Endpoint::is_blocked),
            (Uplink::Lowest, Some(best)) => !self.paths[best].is_blocked(),
            (Uplink::Lowest, None) => true,
        }
    }

    fn read_tun(&mut self, now: Instant) -> bool {
        let (uplink, best) = (self.uplink, self.best);
        let (mut clamped, mut no_way, mut not_ip) = (0, 0, 0);
        let mut is_dry = false;
        for _ in 0..READS {
            if !self.wants_packets() {
                break;
            }
            let Self { paths, tun, end, mtu, packet: frame, .. } = self;
            let more = tun.read(|packet| {
                if packet::flow(packet).is_none() {
                    not_ip += 1;
                    return;
                }
                clamped += u64::from(packet::clamp_mss(packet, *mtu));
                frame.clear();
                if !end.seal(packet, frame) {
                    no_way += 1;
                    return;
                }
                let class = Class::of(packet);
                match (uplink, best) {
                    (Uplink::Both, _) => {
                        let (first, others) = paths.split_first_mut().expect("a device has some");
                        first.send_classed(0, frame, class, now);
                        for path in others {
                            frame.clear();
                            if path.is_up(0, now) && end.seal_again(frame) {
                                path.send_classed(0, frame, class, now);
                            }
                        }
                    }
                    (Uplink::Lowest, Some(best)) => {
                        paths[best].send_classed(0, frame, class, now);
                    }
                    (Uplink::Lowest, None) => no_way += 1,
                }
            });
            if !more {
                is_dry = true;
                break;
            }
        }
        self.clamped += clamped;
        self.no_way += no_way;
        self.not_ip += not_ip;
        is_dry
    }

    fn due(&mut self, now: Instant) -> Instant {
        let end = self.end.poll_timeout();
        // Keepalives wake it, too, ten times a second.
        let end = end.filter(|_| self.paths.iter_mut().any(|path| path.is_up(0, now)));
        let paths = self.paths.iter().filter_map(Endpoint::poll_timeout);
        paths.chain(end).min().unwrap_or(Instant::FAR)
    }

    fn status(&mut self, now: Instant) -> Status {
        let mut counters = self.end.counters();
        counters.extend([
            Counter::of(counters::MSS_CLAMPED, self.clamped),
            Counter::of(counters::PACKETS_NO_WAY, self.no_way),
            Counter::of(counters::NOT_IP, self.not_ip),
            Counter::of(counters::TUN_REFUSED, self.tun.refused),
            Counter::of(counters::TUN_UNREAD, self.tun.unread),
        ]);
        let mut links: Vec<_> = self.paths.iter_mut().flat_map(|path| path.status(now)).collect();
        for (index, link) in links.iter_mut().enumerate() {
            link.wrong = self.end.wrong(index);
            link.lag = self.end.lag(index);
        }
        let dropped = self.paths.iter().map(|path| path.dropped);
        let dropped = dropped.fold(self.end.end.dropped, Dropped::plus);
        let waiting = self.end.waiting() as u64;
        let devices = Vec::new();
        Status { at: now, role: "device", links, dropped, counters, waiting, devices }
    }
}
