//! The access point as a program: coded packets come from the gateway and go on to the device as
//! its link has room; what gateway and device say to each other is handed on. It can read neither.

use std::net::SocketAddr;
use std::time::Duration;

use weftline_coding::node::{self, AccessPointStats};
use weftline_core::Instant;

use crate::TunnelError;
use crate::class::{self, Class, Classes};
use crate::clock;
use crate::fifo::Fifo;
use crate::frame::{self, CODED_HEADER, Coding, Frame, Settings};
use crate::key::{PublicKey, SecretKey};
use crate::lane::{Neighbour, Pace};
use crate::poll::{Poller, Stop};
use crate::port::{About, Port, Use};
use crate::run::draw_run;
use crate::runs::Runs;
use crate::secure::{Link, Local, Role};
use crate::status::{Counter, Past, Publish, Status};
use crate::udp::{Inbox, Socket, Via};

/// The longest that the loop waits.
const IDLE: Duration = Duration::from_millis(500);

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
    /// Where the device reaches it.
    pub listen: SocketAddr,
    /// The device's public key.
    pub device_key: PublicKey,
    /// What the link to the device has room for.
    pub pace: Pace,
}

/// What goes down.
enum Downlink {
    /// The gateway's settings are not known yet.
    Unknown,
    Coded(Box<node::AccessPoint>),
    Plain(Fifo, u64),
}

/// An access point that is ready to run.
pub struct AccessPoint {
    up: Port,
    down: Port,
    downlink: Downlink,
    runs: Runs,
    /// What was counted by the settings before.
    past: Past,
    seed: u64,
    packet: Vec<u8>,
    /// Of packets that it holds.
    classes: Classes,
}

impl AccessPoint {
    /// Opens both sockets.
    ///
    /// # Errors
    /// For settings that make no sense, and what the system refuses.
    pub fn open(config: AccessPointConfig) -> Result<Self, TunnelError> {
        let local = Local::new(config.secret, config.insecure_plaintext);
        let gateway = Neighbour {
            name: "gateway".to_owned(),
            key: config.gateway_key,
            address: Some(config.gateway),
            pace: Pace::Interface,
        };
        let socket = Socket::towards(config.gateway, config.gateway_via.as_ref())?;
        let up = Port::new(socket, local.clone(), Link::Backhaul, Role::Opener, &[gateway])?;
        let device = Neighbour {
            name: "device".to_owned(),
            key: config.device_key,
            address: None,
            pace: config.pace,
        };
        let socket = Socket::listen(config.listen)?;
        let down = Port::new(socket, local, Link::Access, Role::Answerer, &[device])?;
        if config.pace == Pace::Interface {
            down.limit_queue();
        }
        let seed = u64::from(draw_run()?);
        let (downlink, runs) = (Downlink::Unknown, Runs::default());
        Ok(Self {
            up,
            down,
            downlink,
            runs,
            past: Past::default(),
            seed,
            packet: Vec::new(),
            classes: Classes::default(),
        })
    }

    /// Where the device reaches it.
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
        let mut poller = Poller::new(stop)?;
        let sources = [poller.add(self.up.fd())?, poller.add(self.down.fd())?];
        let mut inbox = Inbox::new();
        let mut blocked = [false; 2];
        while !stop.is_wanted() {
            let now = clock::now();
            // Also while no link has room: what is too old is given away in its time.
            if let Downlink::Coded(node) = &mut self.downlink {
                node.handle_timeout(now);
            }
            if poller.is_ready(sources[0]) {
                self.receive_down(&mut inbox, now);
            }
            if poller.is_ready(sources[1]) {
                self.receive_up(&mut inbox, now);
            }
            let gateway_rtt = self.up.rtt(0, now);
            let about =
                About { run: self.runs.current(), settings: self.runs.settings(), gateway_rtt };
            self.up.tend(now, &about);
            // The device hears of the gateway from the gateway.
            self.down.tend(now, &About::default());
            if let Some(rate) = self.down.rate(0) {
                self.up.tell_rate(0, rate, now);
            }
            let due = self.transmit();
            self.up.flush(now);
            self.down.flush(now);
            let ports = [&self.up, &self.down].into_iter().zip(sources);
            for ((port, source), blocked) in ports.zip(&mut blocked) {
                if port.is_blocked() != *blocked {
                    *blocked = !*blocked;
                    poller.watch(source, port.fd(), true, *blocked);
                }
            }
            publish.update(now, || self.status(now));
            poller.wait(due.min(now + IDLE));
        }
        Ok(())
    }

    /// What comes from the gateway.
    fn receive_down(&mut self, inbox: &mut Inbox, now: Instant) {
        let Self { up, down, downlink, runs, seed, past, packet, classes } = self;
        up.receive(inbox, now, |_, frame, class| {
            match (frame, &mut *downlink) {
                (Frame::Greeting(greeting), _) => {
                    let Some(settings) = greeting.settings else { return Use::Taken };
                    if let Some(settings) = runs.follow(greeting.run, settings) {
                        past.add(downlink.counters(), downlink.held());
                        *downlink = Downlink::new(&settings, *seed);
                        *classes = Classes::default();
                    }
                }
                (Frame::Relay(datagram), _) => {
                    packet.clear();
                    frame::begin_relay(packet);
                    packet.extend_from_slice(datagram);
                    down.send(0, packet, now);
                }
                (Frame::Coded { run, .. } | Frame::Down { run, .. }, _)
                    if !runs.is_current(run) =>
                {
                    return Use::Stale;
                }
                (Frame::Coded { packet, .. }, Downlink::Coded(node)) => {
                    if class != Class::NONE
                        && let Some(at) = class::place_of(packet)
                    {
                        classes.insert(at, class);
                    }
                    // What is dropped is counted there.
                    let _ = node.receive(0, packet, now);
                }
                (Frame::Down { number, packet, .. }, Downlink::Plain(fifo, _)) => {
                    fifo.push(number, class, packet);
                }
                _ => return Use::Unexpected,
            }
            Use::Taken
        });
    }

    /// What comes from the device.
    fn receive_up(&mut self, inbox: &mut Inbox, now: Instant) {
        let Self { up, down, packet: scratch, .. } = self;
        down.receive(inbox, now, |_, frame, class| match frame {
            Frame::Relay(datagram) => {
                scratch.clear();
                frame::begin_relay(scratch);
                scratch.extend_from_slice(datagram);
                up.send_classed(0, scratch, class, now);
                Use::Taken
            }
            Frame::Greeting(_) => Use::Taken,
            _ => Use::Unexpected,
        });
    }

    /// Hands the device's link what it has room for; when to look again.
    fn transmit(&mut self) -> Instant {
        let now = clock::now();
        let run = self.runs.current();
        while self.down.has_room(0, now) {
            self.packet.clear();
            let class = match &mut self.downlink {
                Downlink::Unknown => None,
                Downlink::Coded(node) => {
                    frame::begin_coded(run, &mut self.packet);
                    let any = node.poll_transmit(now, &mut self.packet);
                    any.map(|_| self.classes.of_coded(&self.packet[CODED_HEADER..]))
                }
                Downlink::Plain(fifo, sent) => {
                    let class = fifo.pop(|number, packet| {
                        frame::begin_down(run, number, &mut self.packet);
                        self.packet.extend_from_slice(packet);
                    });
                    *sent += u64::from(class.is_some());
                    class
                }
            };
            let Some(class) = class else { break };
            self.down.send_classed(0, &self.packet, class, now);
        }
        self.due(now)
    }

    fn due(&mut self, now: Instant) -> Instant {
        let (node, waits) = match &self.downlink {
            Downlink::Unknown => (None, false),
            Downlink::Coded(node) => (node.poll_timeout(), node.poll_timeout().is_some()),
            Downlink::Plain(fifo, _) => (None, !fifo.is_empty()),
        };
        let room = self.down.next_room(now).filter(|_| waits);
        let all = [node, room, self.up.poll_timeout(), self.down.poll_timeout()];
        all.into_iter().flatten().min().unwrap_or(Instant::FAR)
    }

    fn status(&mut self, now: Instant) -> Status {
        let counters = self.past.plus(self.downlink.counters());
        let mut links = self.up.status(now);
        links.extend(self.down.status(now));
        let dropped = self.up.dropped.plus(self.down.dropped);
        Status { role: "ap", links, dropped, counters }
    }
}

impl Downlink {
    fn new(settings: &Settings, seed: u64) -> Self {
        match settings.coding {
            Coding::Plain => Self::Plain(Fifo::new(settings.buffer_packets as usize), 0),
            Coding::Coded(mode) => {
                let node = node::AccessPoint::new(settings.node(mode, 100), 1, seed);
                Self::Coded(Box::new(node))
            }
        }
    }

    /// Packets that wait.
    fn held(&self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Coded(node) => node.held(),
            Self::Plain(fifo, _) => fifo.len(),
        }
    }

    fn counters(&self) -> Vec<Counter> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Coded(node) => coded_counters(&node.stats()),
            Self::Plain(fifo, sent) => vec![
                Counter::new("packets_received", "taken from the gateway", fifo.taken),
                Counter::new("packets_high", "sent on", *sent),
                Counter::new("packets_full", "dropped because the queue was full", fifo.full),
            ],
        }
    }
}

fn coded_counters(stats: &AccessPointStats) -> Vec<Counter> {
    vec![
        Counter::new("packets_received", "taken from the gateway", stats.received),
        Counter::new("packets_high", "sent on as they came, with high priority", stats.high),
        Counter::new("packets_low", "sent on as they came, with low priority", stats.low),
        Counter::new("packets_recoded", "new combinations sent", stats.recoded),
        Counter::new("packets_given", "of high priority, not sent in their time", stats.given),
        Counter::new("packets_full", "dropped because the buffer was full", stats.full),
        Counter::new("packets_redundant", "combinations of what was there", stats.redundant),
        Counter::new("packets_refused", "late or wrong", stats.refused),
    ]
}
