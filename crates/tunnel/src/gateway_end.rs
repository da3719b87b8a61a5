//! The gateway towards its device: packets are sealed for it, coded and handed to the links; what
//! the device says through the access points is answered. No socket and no clock.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_coding::node::{self, LossReport, NodeConfig, counters};
use weftline_core::{Bitrate, Instant};

use crate::TunnelError;
use crate::class::{self, Class};
use crate::end::{Came, End, Said, Tagger, draw_key};
use crate::endpoint::Use;
use crate::fifo::Fifo;
use crate::frame::{self, CODED_HEADER, Coding, Frame, Losses, Settings, TAG_KEY, Terms};
use crate::key::PublicKey;
use crate::peer::IP_UDP;
use crate::random::random_nonzero;
use crate::reorder::ReorderBuffer;
use crate::secure::{Local, Nonce, Role};
use crate::settings::{PATIENCE, Sending};
use crate::status::{Counter, Past};

/// A device that has said nothing for so long has left: nothing more is kept for it.
const GONE: Duration = Duration::from_secs(2);

/// Intervals without a word of the device after which labels begin anew when it is back: half of those
/// that are later than a given one for it (`coding/src/serial.rs`).
const OUTDATED: u32 = 1 << 30;

/// What sends packets down.
enum Downlink {
    Coded(Box<node::Gateway>),
    Plain(Fifo),
}

/// The state.
pub(crate) struct GatewayEnd {
    pub(crate) end: End,
    settings: Settings,
    sending: Sending,
    /// Bytes that encryption adds on a link, and there and end to end.
    link_overhead: usize,
    overhead: usize,
    /// When the device was heard last.
    heard: Option<Instant>,
    /// Whether it has heard no labels for so long that it takes the next ones for old: nothing is kept for
    /// it, nor sealed, until an epoch begins.
    outdated: bool,
    links: usize,
    epoch: u32,
    tag_key: [u8; TAG_KEY],
    tagger: Tagger,
    downlink: Downlink,
    /// What was counted in the epochs before.
    past: Past,
    uplink: ReorderBuffer,
    /// The device's epoch.
    device_epoch: Option<u32>,
    /// What the device has said of this epoch's packets.
    losses: LossReport,
    /// Frames to go back on links.
    replies: VecDeque<(usize, Vec<u8>)>,
    /// The number of the next packet that is not coded; it goes on from epoch to epoch.
    next_number: u32,
    scratch: Vec<u8>,
    no_device: u64,
    /// Packets that were marked on the way up and do not understand it.
    ecn_dropped: u64,
    /// Why it cannot go on.
    failed: Option<TunnelError>,
}

impl GatewayEnd {
    /// A gateway with so many links.
    pub(crate) fn new(
        local: Local,
        device: PublicKey,
        settings: Settings,
        sending: Sending,
        links: usize,
        now: Instant,
    ) -> Result<Self, TunnelError> {
        let tag_key = draw_key()?;
        let link_overhead = local.overhead();
        let overhead = link_overhead + local.packet_overhead();
        Ok(Self {
            end: End::new(local, Role::Responder, device),
            settings,
            sending,
            links,
            epoch: random_nonzero()?,
            tag_key,
            tagger: Tagger::new(&tag_key),
            downlink: Downlink::new(&settings, &sending, overhead, links, now)?,
            link_overhead,
            overhead,
            heard: None,
            outdated: false,
            past: Past::default(),
            uplink: ReorderBuffer::new(PATIENCE),
            device_epoch: None,
            losses: LossReport::default(),
            replies: VecDeque::new(),
            next_number: 0,
            scratch: Vec::new(),
            no_device: 0,
            ecn_dropped: 0,
            failed: None,
        })
    }

    /// Its epoch: whose a coded packet is, and since when.
    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// How the device is sent to.
    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// When the device was heard last.
    pub(crate) fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// Bytes that encryption adds to a packet on a link.
    pub(crate) fn link_overhead(&self) -> usize {
        self.link_overhead
    }

    /// Takes what came on a link, with the class of what is in it; whether access points are to be
    /// told something new is seen in [`Self::epoch`].
    pub(crate) fn receive(
        &mut self,
        link: usize,
        frame: Frame<'_>,
        class: Class,
        now: Instant,
    ) -> Use {
        match frame {
            Frame::Relay(datagram) => self.relayed(link, datagram, class, now),
            _ => Use::Unexpected,
        }
    }

    fn relayed(&mut self, link: usize, datagram: &[u8], class: Class, now: Instant) -> Use {
        let mut response = Vec::new();
        let Said { frame, fresh, .. } = match self.end.take(datagram, now, &mut response) {
            Came::Response => {
                self.replies.push_back((link, response));
                return Use::Taken;
            }
            Came::Begun | Came::Dropped => return Use::Taken,
            Came::Said(said) => said,
        };
        let before = self.heard.replace(now);
        let longest = self.settings.interval * OUTDATED;
        self.outdated |= before.is_some_and(|heard| now.since(heard) >= longest);
        let (epoch, hello) = match frame {
            Frame::Up { epoch, number, packet } if self.device_epoch == Some(epoch) => {
                if !class.matters() {
                    self.uplink.receive(number, packet, now);
                    return Use::Taken;
                }
                self.scratch.clear();
                self.scratch.extend_from_slice(packet);
                if !class::decapsulate(&mut self.scratch, class) {
                    self.ecn_dropped += 1;
                    // Nothing in its place: those after it need not wait.
                    self.scratch.clear();
                }
                self.uplink.receive(number, &self.scratch, now);
                return Use::Taken;
            }
            Frame::Up { epoch, .. } => (epoch, None),
            Frame::Hello { epoch, time_us, lag } => (epoch, Some((time_us, lag))),
            Frame::Losses(losses) => return self.learn(losses),
            _ => return Use::Unexpected,
        };
        if self.device_epoch != Some(epoch) {
            // The first frame of a restarted device begins its session, in which nothing has been sealed
            // then: each place is given once in a session.
            if !fresh {
                return Use::Stale;
            }
            if let Err(error) = self.restart(epoch, now) {
                self.failed = Some(error);
            }
        }
        if self.outdated && fresh {
            // An epoch, too, begins in a session in which nothing has been sealed.
            if let Err(error) = self.begin_epoch(now) {
                self.failed = Some(error);
            }
        }
        match hello {
            Some((time_us, lag)) => {
                if let Downlink::Coded(node) = &mut self.downlink {
                    node.set_lag(link, lag);
                }
                self.reply(link, time_us);
            }
            // The device said it before this end knew its epoch.
            None => return Use::Stale,
        }
        Use::Taken
    }

    /// The device says what came of the packets. Datagrams may overtake each other.
    fn learn(&mut self, said: Losses) -> Use {
        if Some(said.epoch) != self.device_epoch || said.of != self.epoch {
            return Use::Stale;
        }
        let LossReport { packets, missing } = self.losses;
        if let Downlink::Coded(node) = &mut self.downlink
            && said.packets > packets
            && said.missing >= missing
        {
            let new =
                LossReport { packets: said.packets - packets, missing: said.missing - missing };
            node.learn(new);
            self.losses = LossReport { packets: said.packets, missing: said.missing };
        }
        Use::Taken
    }

    /// Sets what a link carries as it is known now. Each peer paces its own link and asks for packets
    /// when it has room; where cohorts are sent whole, this rate says how much an interval holds.
    pub(crate) fn set_rate(&mut self, link: usize, rate: Option<Bitrate>) {
        if let Downlink::Coded(node) = &mut self.downlink {
            node.set_rate(link, rate);
        }
    }

    /// The device was started anew: it cannot read what was sealed for it before. Labels and
    /// numbers begin anew.
    fn restart(&mut self, device_epoch: u32, now: Instant) -> Result<(), TunnelError> {
        self.uplink.restart();
        if self.device_epoch.replace(device_epoch).is_some() {
            self.begin_epoch(now)
        } else {
            Ok(())
        }
    }

    /// Labels and numbers of packets down begin anew.
    fn begin_epoch(&mut self, now: Instant) -> Result<(), TunnelError> {
        self.outdated = false;
        self.past.add(self.downlink.counters(), self.downlink.unsent());
        let Self { settings, sending, overhead, links, .. } = self;
        self.downlink = Downlink::new(settings, sending, *overhead, *links, now)?;
        self.epoch = random_nonzero()?;
        self.losses = LossReport::default();
        self.tag_key = draw_key()?;
        self.tagger = Tagger::new(&self.tag_key);
        Ok(())
    }

    /// Tells the device how it is sent to, on the link on which it asked.
    fn reply(&mut self, link: usize, heard_us: u64) {
        let Self { epoch, settings, tag_key, .. } = *self;
        self.scratch.clear();
        Terms { heard_us, epoch, settings, tag_key }.encode(&mut self.scratch);
        let mut out = Vec::new();
        if self.end.say(&self.scratch, &mut out) {
            self.replies.push_back((link, out));
        }
    }

    /// The next frame that answers the device, and the link that it goes on.
    pub(crate) fn poll_reply(&mut self) -> Option<(usize, Vec<u8>)> {
        self.replies.pop_front()
    }

    /// Whether the device was there and has left.
    fn is_gone(&self, now: Instant) -> bool {
        self.heard.is_none_or(|heard| now >= heard + GONE)
    }

    /// Takes a packet of `flow` for the device.
    pub(crate) fn push(&mut self, flow: u16, packet: &[u8], now: Instant) {
        if self.is_gone(now) || self.outdated || !self.end.is_open() {
            self.no_device += 1;
            return;
        }
        match &mut self.downlink {
            // What is dropped is counted there.
            Downlink::Coded(node) => {
                let _ = node.sealing(&mut self.end).receive(flow, packet, now);
            }
            Downlink::Plain(fifo) => {
                let taken = fifo.push(self.next_number, Class::of(packet), packet);
                self.next_number = self.next_number.wrapping_add(taken.into());
            }
        }
    }

    /// Appends the frame that goes out next on a link with room to `out`; the class of what is in it.
    pub(crate) fn poll_transmit(
        &mut self,
        link: usize,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Class> {
        let Self { end, epoch, tagger, no_device, .. } = self;
        let start = out.len();
        match &mut self.downlink {
            Downlink::Coded(node) => {
                frame::begin_coded(*epoch, out);
                node.sealing(end).poll_transmit(link, now, out)?;
                let packet = &mut out[start + CODED_HEADER..];
                tagger.set(packet);
                Some(end.classes.of_coded(packet))
            }
            Downlink::Plain(fifo) => {
                let mut sealed = false;
                let class = fifo.pop(|number, packet| {
                    frame::begin_down(*epoch, number, out);
                    sealed = end.seal_packet(Nonce::of_number(number), packet, out);
                })?;
                *no_device += u64::from(!sealed);
                sealed.then_some(class)
            }
        }
    }

    /// Hands the device's packets that are due to `each`.
    pub(crate) fn deliver(&mut self, now: Instant, mut each: impl FnMut(&[u8])) {
        self.uplink.handle_timeout(now);
        while let Some(packet) = self.uplink.poll() {
            if !packet.is_empty() {
                each(&packet);
            }
            self.uplink.recycle(packet);
        }
    }

    /// Gives away what is too old.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.is_gone(now) {
            self.no_device += self.downlink.discard() as u64;
        }
        if let Downlink::Coded(node) = &mut self.downlink {
            node.sealing(&mut self.end).handle_timeout(now);
        }
    }

    /// When it has something to do, and whether packets wait for the links.
    pub(crate) fn poll_timeout(&self) -> (Option<Instant>, bool) {
        let (node, waits) = match &self.downlink {
            Downlink::Coded(node) => (node.poll_timeout(), node.poll_timeout().is_some()),
            Downlink::Plain(fifo) => (None, !fifo.is_empty()),
        };
        (node.into_iter().chain(self.uplink.poll_timeout()).min(), waits)
    }

    /// Whether packets wait to be taken into cohorts.
    pub(crate) fn waits(&self) -> bool {
        self.downlink.held() > 0
    }

    /// Packets that wait to be sent.
    pub(crate) fn waiting(&self) -> usize {
        self.downlink.unsent()
    }

    /// Whether it can go on.
    ///
    /// # Errors
    /// That the system has no random numbers for a new epoch.
    pub(crate) fn check(&mut self) -> Result<(), TunnelError> {
        self.failed.take().map_or(Ok(()), Err)
    }

    pub(crate) fn counters(&self) -> Vec<Counter> {
        let mut counters = self.past.plus(self.downlink.counters());
        let ReorderBuffer { lost, duplicate, stray, .. } = self.uplink;
        counters.extend([
            Counter::of(counters::UPLINK_LOST, lost),
            Counter::of(counters::UPLINK_DUPLICATE, duplicate),
            Counter::of(counters::UPLINK_STRAY, stray),
            Counter::of(counters::PACKETS_NO_DEVICE, self.no_device),
            Counter::of(counters::PACKETS_ECN_DROPPED, self.ecn_dropped),
        ]);
        counters
    }
}

impl Downlink {
    fn new(
        settings: &Settings,
        sending: &Sending,
        overhead: usize,
        links: usize,
        now: Instant,
    ) -> Result<Self, TunnelError> {
        Ok(match settings.coding {
            Coding::Plain => Self::Plain(Fifo::new(settings.buffer_packets as usize)),
            Coding::Coded(mode) => {
                let Sending { queue, redundancy, .. } = *sending;
                let node = settings.node(mode, sending.redundancy_percent);
                // Around each packet that is coded: frame, encryption, UDP and IP.
                let overhead_bytes = (CODED_HEADER + overhead + IP_UDP) as u32;
                let node = NodeConfig { queue, redundancy, overhead_bytes, ..node };
                let seed = u64::from(random_nonzero()?);
                Self::Coded(Box::new(node::Gateway::new(node, links, seed, now)))
            }
        })
    }

    /// Drops what waits; how many packets that were.
    fn discard(&mut self) -> usize {
        match self {
            Self::Coded(node) => node.discard(),
            Self::Plain(fifo) => fifo.clear(),
        }
    }

    /// Packets that wait.
    fn held(&self) -> usize {
        match self {
            Self::Coded(node) => node.queued(),
            Self::Plain(fifo) => fifo.len(),
        }
    }

    /// What is lost with it: packets that wait, and those that were taken into cohorts and not sent.
    fn unsent(&self) -> usize {
        match self {
            Self::Coded(node) => node.unsent(),
            Self::Plain(fifo) => fifo.len(),
        }
    }

    fn counters(&self) -> Vec<Counter> {
        match self {
            Self::Coded(node) => Counter::of_node(node.stats().counters()),
            Self::Plain(fifo) => vec![
                Counter::of(counters::PACKETS_RECEIVED, fifo.taken),
                Counter::of(counters::PACKETS_FULL, fifo.full),
            ],
        }
    }
}
