//! The access point as a program: coded packets come from the gateway and go on to the devices as
//! their links have room; what gateway and device say to each other is handed on. It can read neither.

use std::net::SocketAddr;
use std::time::Duration;

use weftline_core::{Bitrate, Instant};

use crate::TunnelError;
use crate::ap_end::{ApEnd, Told};
use crate::clock;
use crate::endpoint::{About, Endpoint};
use crate::frame;
use crate::kernel_drops::KernelDrops;
use crate::key::{PublicKey, SecretKey, check_distinct};
use crate::members::check_devices;
use crate::peer::{LinkStatus, Neighbour, Pace};
use crate::poll::{Poller, Stop};
use crate::random::random_nonzero;
use crate::secure::{Link, Local, Role};
use crate::status::{DeviceStatus, Publish, Status};
use crate::udp::{Inbox, Socket, Via};

/// The longest that the loop waits.
const IDLE: Duration = Duration::from_millis(500);

/// A device as an access point knows it.
#[derive(Clone, Debug)]
pub struct AccessPointPeer {
    /// A name of the user's choice.
    pub name: String,
    /// Its public key.
    pub key: PublicKey,
}

/// What an access point is started with.
#[derive(Clone, Debug)]
pub struct AccessPointConfig {
    /// Its secret.
    pub secret: SecretKey,
    /// No encryption, and no authentication but of handshakes.
    pub insecure_plaintext: bool,
    /// Where the gateway is.
    pub gateway: SocketAddr,
    /// The gateway's public key.
    pub gateway_key: PublicKey,
    /// What to reach the gateway through.
    pub gateway_via: Option<Via>,
    /// Where devices reach it.
    pub listen: SocketAddr,
    /// The devices, at least one; they may be elsewhere.
    pub devices: Vec<AccessPointPeer>,
    /// What the link to the devices has room for: a rate is of all together, which they share; it is
    /// measured for each.
    pub pace: Pace,
}

/// An access point that is ready to run.
pub struct AccessPoint {
    up: Endpoint,
    down: Endpoint,
    end: ApEnd,
    names: Vec<String>,
    /// What the gateway knows of the rate that the devices share.
    told: Told,
    packet: Vec<u8>,
}

/// The least rate that may be set: a full packet within the longest interval, 200 ms.
const LEAST_RATE: Bitrate = Bitrate::bps(64_000);

impl AccessPoint {
    /// Opens both sockets.
    ///
    /// # Errors
    /// For settings that make no sense, and what the system refuses.
    pub fn open(config: AccessPointConfig) -> Result<Self, TunnelError> {
        let devices = &config.devices;
        check_devices(devices.iter().map(|device| (&*device.name, &device.key)))?;
        let known =
            [("this access point", config.secret.public()), ("gateway", config.gateway_key)];
        let others = devices.iter().map(|device| (&*device.name, device.key));
        check_distinct(&known.into_iter().chain(others).collect::<Vec<_>>())?;
        if let Pace::Fixed(rate) = config.pace
            && rate < LEAST_RATE
        {
            return Err(TunnelError::setting(
                &[("--rate", &rate)],
                &format!(
                    "give {LEAST_RATE} or more; a full packet takes longer than any interval lasts"
                ),
            ));
        }
        let local = Local::new(config.secret, config.insecure_plaintext);
        let gateway = Neighbour {
            name: "gateway".to_owned(),
            key: config.gateway_key,
            address: Some(config.gateway),
            pace: Pace::Interface,
        };
        let (to, via) = (config.gateway, config.gateway_via);
        let up = Endpoint::towards(to, via, local.clone(), Link::Backhaul, gateway)?;
        let (each, shared) = match config.pace {
            Pace::Fixed(rate) => (Pace::Interface, Some(rate)),
            each => (each, None),
        };
        let neighbour = |device: &AccessPointPeer| Neighbour {
            name: device.name.clone(),
            key: device.key,
            address: None,
            pace: each,
        };
        let neighbours: Vec<_> = devices.iter().map(neighbour).collect();
        let socket = Socket::listen(config.listen)?;
        let mut down = Endpoint::new(socket, local, Link::Access, Role::Responder, &neighbours)?;
        match shared {
            Some(rate) => down.share(rate),
            None if each == Pace::Interface => down.limit_queue(),
            None => {}
        }
        let keys: Vec<_> = devices.iter().map(|device| device.key).collect();
        Ok(Self {
            up,
            down,
            end: ApEnd::new(&keys, u64::from(random_nonzero()?)),
            names: devices.iter().map(|device| device.name.clone()).collect(),
            told: Told::default(),
            packet: Vec::new(),
        })
    }

    /// Where devices reach it.
    ///
    /// # Errors
    /// If the system does not say.
    pub fn local_address(&self) -> Result<SocketAddr, TunnelError> {
        self.down.local_address()
    }

    /// Carries packets until `stop` is wanted.
    ///
    /// # Errors
    /// If the system has no descriptor left.
    pub fn run(mut self, stop: &Stop, publish: &Publish) -> Result<(), TunnelError> {
        publish.watch(KernelDrops::new(&[self.up.fd(), self.down.fd()], None));
        let mut poller = Poller::new(stop)?;
        let sources = [poller.add(self.up.fd())?, poller.add(self.down.fd())?];
        let mut inbox = Inbox::new();
        let mut blocked = [false; 2];
        while !stop.is_wanted() {
            let now = clock::now();
            // Also while no link has room: what is too old is given away in its time.
            self.end.handle_timeout(now);
            let mut is_dry = true;
            if poller.is_ready(sources[0]) {
                is_dry &= self.receive_down(&mut inbox, now);
            }
            if poller.is_ready(sources[1]) {
                is_dry &= self.receive_up(&mut inbox, now);
            }
            // The gateway knows itself, and devices hear of it from it.
            self.up.tend(now, &About::default());
            if self.up.reopen(now) {
                poller.replace(sources[0], self.up.fd())?;
                publish.follow(&[self.up.fd(), self.down.fd()]);
            }
            self.down.tend(now, &About::default());
            self.tell(now);
            // What the kernel had no room for goes first: until it has gone no link has room.
            self.up.resume(now);
            self.down.resume(now);
            let due = self.transmit();
            self.up.flush(now);
            self.down.flush(now);
            let endpoints = [&self.up, &self.down].into_iter().zip(sources);
            for ((endpoint, source), blocked) in endpoints.zip(&mut blocked) {
                if endpoint.is_blocked() != *blocked {
                    *blocked = !*blocked;
                    poller.watch(source, endpoint.fd(), true, *blocked);
                }
            }
            publish.update(now, || self.status(now));
            poller.gather_for(self.end.interval());
            poller.wait(due.min(now + IDLE), is_dry);
        }
        Ok(())
    }

    /// What comes from the gateway. Whether all that was there has been read.
    fn receive_down(&mut self, inbox: &mut Inbox, now: Instant) -> bool {
        let Self { up, down, end, packet, .. } = self;
        up.receive(inbox, now, |_, frame, around| {
            packet.clear();
            let (used, device) = end.receive_down(frame, around, now, packet);
            if let Some(device) = device {
                down.send(device, packet, now);
            }
            used
        })
    }

    /// What comes from the devices. Whether all that was there has been read.
    fn receive_up(&mut self, inbox: &mut Inbox, now: Instant) -> bool {
        let Self { up, down, end, packet, .. } = self;
        down.receive(inbox, now, |device, frame, around| {
            packet.clear();
            let used = end.receive_up(device, frame, packet);
            if !packet.is_empty() {
                up.send_classed(0, packet, around.class, now);
            }
            used
        })
    }

    /// Tells the gateway what the links carry.
    fn tell(&mut self, now: Instant) {
        if !self.up.is_up(0, now) {
            return;
        }
        if let Some(rate) = self.down.shared_rate()
            && self.told.is_due(rate, now)
        {
            self.packet.clear();
            frame::encode_rate(rate, &mut self.packet);
            self.up.send(0, &self.packet, now);
        }
        for device in 0..self.names.len() {
            self.packet.clear();
            let (is_near, rate) = (self.down.is_near(device, now), self.down.rate(device));
            if self.end.poll_rate(device, is_near, rate, now, &mut self.packet) {
                self.up.send(0, &self.packet, now);
            }
        }
    }

    /// Hands the devices' links what they have room for; when to look again.
    fn transmit(&mut self) -> Instant {
        let now = clock::now();
        let Self { down, end, packet, .. } = self;
        // What is held for a device that is not near grows too old here rather than on a dead radio.
        let takes =
            |down: &mut Endpoint, device| down.is_near(device, now) && down.has_room(device, now);
        loop {
            packet.clear();
            let sent = end.poll_transmit(now, |device| takes(down, device), packet);
            let Some((device, class)) = sent else { break };
            down.send_classed(device, packet, class, now);
        }
        self.due(now)
    }

    fn due(&self, now: Instant) -> Instant {
        let (end, waits) = self.end.poll_timeout();
        let room = self.down.next_room(now).filter(|_| waits);
        let all = [end, room, self.up.poll_timeout(), self.down.poll_timeout()];
        all.into_iter().flatten().min().unwrap_or(Instant::FAR)
    }

    fn status(&mut self, now: Instant) -> Status {
        let mut links = self.up.status(now);
        let mut down = self.down.status(now);
        let shared = self.down.shared_rate();
        down.iter_mut().for_each(|link| link.rate = link.rate.or(shared));
        let waiting = self.end.waiting();
        let device = |(((name, link), counters), &waiting): (((&String, &LinkStatus), _), &u64)| {
            DeviceStatus { name: name.clone(), up: link.up, through: Vec::new(), waiting, counters }
        };
        let each = self.names.iter().zip(&down).zip(self.end.counters()).zip(&waiting);
        let devices = each.map(device).collect();
        links.extend(down);
        let dropped = self.up.dropped.plus(self.down.dropped);
        let (counters, waiting) = (self.end.sums(), waiting.iter().sum());
        Status { at: now, role: "ap", links, dropped, counters, waiting, devices }
    }
}
