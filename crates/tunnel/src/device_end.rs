//! The device towards its gateway: what access points bring is checked, decoded and opened; the
//! gateway is asked for its terms through each of them. No socket and no clock.

use std::time::Duration;

use weftline_coding::node::counters;
use weftline_coding::node::{self, LinkSet, LossReport, MEASURE_EVERY, NodeConfig, Place};
use weftline_coding::wire::Packet;
use weftline_coding::{Coding as Coefficients, Limits};
use weftline_core::Instant;

use crate::class::{self, At, Class, Classes};
use crate::end::{Came, End, Said, Tagger};
use crate::endpoint::Use;
use crate::epoch::Epochs;
use crate::frame::{self, Coding, Frame, Losses, Settings, Terms};
use crate::key::PublicKey;
use crate::reorder::ReorderBuffer;
use crate::secure::{Local, Nonce, Role};
use crate::settings::PATIENCE;
use crate::status::{Counter, Past};
use crate::trust::Trust;

/// How often the gateway is asked on each link.
const HELLO_INTERVAL: Duration = Duration::from_millis(100);
/// A way on which nothing has come back for so long is none: six hellos.
const SILENCE: Duration = Duration::from_millis(600);
/// A link must be better by an eighth before packets go up over it instead.
const BETTER: u32 = 8;

/// What puts packets together.
enum Downlink {
    /// The gateway's terms are not known yet.
    Unknown,
    Coded(Box<node::Device>),
    Plain(ReorderBuffer),
}

/// A way to the gateway and back.
#[derive(Clone, Copy, Debug)]
struct Way {
    next_hello: Instant,
    /// When the gateway was heard last on it, and the round-trip time.
    heard: Option<Instant>,
    rtt: Option<Duration>,
}

/// What was dropped because somebody may have lied.
#[derive(Clone, Copy, Debug, Default)]
struct Doubted {
    misnamed: u64,
    polluted: u64,
    shut_out: u64,
}

/// The state.
pub(crate) struct DeviceEnd {
    pub(crate) end: End,
    overhead: u16,
    epochs: Epochs,
    tagger: Option<Tagger>,
    downlink: Downlink,
    trust: Trust,
    names: Vec<String>,
    /// What was counted in the epochs before.
    past: Past,
    ways: Vec<Way>,
    /// This epoch, and the next number of a packet up.
    epoch: u32,
    number: u32,
    sealed: Vec<u8>,
    /// A packet, opened.
    plain: Vec<u8>,
    now: Instant,
    doubted: Doubted,
    /// What outer headers have said of packets that are not handed out yet.
    classes: Classes,
    ecn_dropped: u64,
    /// What came of the packets of the gateway's epoch, and when it is to be told next.
    losses: LossReport,
    next_losses: Instant,
    /// Packets that were handed out.
    delivered: u64,
}

impl DeviceEnd {
    /// A device with these access points, in its epoch `epoch`.
    pub(crate) fn new(local: Local, gateway: PublicKey, names: Vec<String>, epoch: u32) -> Self {
        let way = Way { next_hello: Instant::ZERO, heard: None, rtt: None };
        Self {
            overhead: local.packet_overhead() as u16,
            end: End::new(local, Role::Initiator, gateway),
            epochs: Epochs::default(),
            tagger: None,
            downlink: Downlink::Unknown,
            trust: Trust::new(names.len()),
            past: Past::default(),
            ways: vec![way; names.len()],
            names,
            epoch,
            number: 0,
            sealed: Vec::new(),
            plain: Vec::new(),
            now: Instant::ZERO,
            doubted: Doubted::default(),
            classes: Classes::default(),
            ecn_dropped: 0,
            losses: LossReport::default(),
            next_losses: Instant::ZERO,
            delivered: 0,
        }
    }

    /// Takes what came on a link, with the class of what is in it. Afterwards packets may be due.
    pub(crate) fn receive(
        &mut self,
        link: usize,
        frame: Frame<'_>,
        class: Class,
        now: Instant,
    ) -> Use {
        self.now = now;
        match frame {
            Frame::Keepalive(..) => Use::Taken,
            Frame::Relay(datagram) => self.relayed(link, datagram),
            Frame::Coded { epoch, .. } | Frame::Down { epoch, .. }
                if !self.epochs.is_current(epoch) =>
            {
                Use::Stale
            }
            Frame::Coded { packet, .. } => self.coded(link, packet, class),
            Frame::Down { number, packet, .. } => self.plain(link, number, packet, class),
            _ => Use::Unexpected,
        }
    }

    /// What the gateway says.
    fn relayed(&mut self, link: usize, datagram: &[u8]) -> Use {
        let now = self.now;
        let said = match self.end.take(datagram, now, &mut Vec::new()) {
            Came::Said(said) => said,
            Came::Begun => {
                // The gateway goes over to the session with the first that is said in it.
                self.ways.iter_mut().for_each(|way| way.next_hello = now);
                return Use::Taken;
            }
            Came::Response | Came::Dropped => return Use::Taken,
        };
        let Said { frame: Frame::Terms(terms), current, .. } = said else { return Use::Unexpected };
        if !current {
            return Use::Stale;
        }
        let way = &mut self.ways[link];
        way.heard = Some(now);
        let rtt = (now.as_nanos() / 1000).checked_sub(terms.heard_us).map(Duration::from_micros);
        if let Some(rtt) = rtt.map(|rtt| rtt.min(Duration::from_secs(60))) {
            way.rtt = Some(way.rtt.map_or(rtt, |old| (old * 7 + rtt) / 8));
        }
        self.follow(&terms);
        Use::Taken
    }

    fn follow(&mut self, terms: &Terms) {
        let Some(settings) = self.epochs.follow(terms.epoch, terms.settings) else { return };
        self.past.add(self.downlink.counters(), self.downlink.undelivered());
        // What access points have kept of the epochs before opens nowhere.
        self.end.forget_previous();
        self.classes = Classes::default();
        self.losses = LossReport::default();
        self.downlink = Downlink::new(&settings, self.names.len());
        self.tagger = Some(Tagger::new(&terms.tag_key));
    }

    /// The gateway's epoch that is followed.
    #[cfg(test)]
    pub(crate) fn follows(&self) -> u32 {
        self.epochs.current()
    }

    /// The interval of coding of the epoch that is followed.
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.epochs.settings().map(|settings| settings.interval)
    }

    /// A packet of the coding layer.
    fn coded(&mut self, link: usize, packet: &[u8], class: Class) -> Use {
        let Downlink::Coded(node) = &mut self.downlink else { return Use::Unexpected };
        if !self.trust.admits(link, false, self.now) {
            self.doubted.shut_out += 1;
            return Use::Taken;
        }
        if !self.tagger.as_ref().is_some_and(|tagger| tagger.is_named(packet)) {
            self.doubted.misnamed += 1;
            if self.trust.misnamed(link, self.now) {
                self.warn_of(link);
            }
            return Use::Taken;
        }
        let (header, payload) = match Packet::decode(packet) {
            Ok(Packet::Coded { header, payload }) => (header, payload),
            Ok(Packet::Marker(_)) => {
                let _ = node.receive(link, packet, self.now);
                return Use::Taken;
            }
            // The name is the gateway's, the rest is not.
            Err(_) => {
                self.doubted.polluted += 1;
                self.blame(LinkSet::of(link));
                return Use::Taken;
            }
        };
        if let Coefficients::Systematic(index) = header.coding {
            let arrival = header.first.plus(index.into());
            let place = Place { flow: header.flow, arrival, label: header.label };
            // It is opened again when it is its turn: keeping it would save a tenth of a microsecond.
            if self.end.open_packet(Nonce::of_place(place), payload).is_err() {
                self.doubted.polluted += 1;
                self.blame(LinkSet::of(link));
                return Use::Taken;
            }
            if class.matters() {
                self.classes.insert((place.flow, place.arrival.0), class);
            }
            // What is dropped is counted there.
            let _ = node.receive(link, packet, self.now);
            return Use::Taken;
        }
        if !self.trust.admits(link, true, self.now) {
            self.doubted.shut_out += 1;
            return Use::Taken;
        }
        // What is dropped is counted there.
        let _ = node.receive(link, packet, self.now);
        Use::Taken
    }

    /// A packet that is not coded.
    fn plain(&mut self, link: usize, number: u32, sealed: &[u8], class: Class) -> Use {
        let Downlink::Plain(buffer) = &mut self.downlink else { return Use::Unexpected };
        if !self.trust.admits(link, false, self.now) {
            self.doubted.shut_out += 1;
            return Use::Taken;
        }
        match self.end.open_packet(Nonce::of_number(number), sealed) {
            Ok(packet) => match class::decapsulate(packet, class) {
                true => buffer.receive(number, packet, self.now),
                false => {
                    self.ecn_dropped += 1;
                    // Nothing in its place: those after it need not wait.
                    buffer.receive(number, &[], self.now);
                }
            },
            Err(_) => {
                self.doubted.polluted += 1;
                self.blame(LinkSet::of(link));
            }
        }
        Use::Taken
    }

    /// One of `links` has sent something that the gateway did not make.
    fn blame(&mut self, links: LinkSet) {
        if let Some(link) = self.trust.wrong(links, self.now) {
            self.warn_of(link);
        }
    }

    fn warn_of(&self, link: usize) {
        tracing::warn!(
            "link '{}': the access point sends what the gateway did not make, and is left out for a \
             while; is it yours, and of this version?",
            self.names[link]
        );
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.now = now;
        match &mut self.downlink {
            Downlink::Unknown => {}
            Downlink::Coded(node) => node.handle_timeout(now),
            Downlink::Plain(buffer) => buffer.handle_timeout(now),
        }
    }

    /// Hands the packets that are due to `each`.
    pub(crate) fn deliver(&mut self, mut each: impl FnMut(&[u8])) {
        loop {
            let node = match &mut self.downlink {
                Downlink::Unknown => return,
                Downlink::Plain(buffer) => {
                    let Some(packet) = buffer.poll() else { return };
                    if !packet.is_empty() {
                        each(&packet);
                        self.delivered += 1;
                    }
                    buffer.recycle(packet);
                    continue;
                }
                Downlink::Coded(node) => node,
            };
            if let Some(links) = node.poll_corrupt() {
                self.doubted.polluted += 1;
                self.blame(links);
                continue;
            }
            self.sealed.clear();
            let Some(delivery) = node.poll_delivery(&mut self.sealed) else { return };
            let at = (delivery.place.flow, delivery.place.arrival.0);
            if self.end.open_packet_into(delivery.place, &self.sealed, &mut self.plain) {
                let mut packet = std::mem::take(&mut self.plain);
                self.hand_out(&mut packet, at, &mut each);
                self.plain = packet;
            } else {
                self.doubted.polluted += 1;
                // What came as it was has been checked.
                if !delivery.combined.is_empty() {
                    self.blame(delivery.combined);
                }
                continue;
            }
            self.trust.right(delivery.combined);
        }
    }

    /// Hands a packet out with what outer headers have said of it.
    fn hand_out(&mut self, packet: &mut [u8], at: At, each: &mut impl FnMut(&[u8])) {
        if class::decapsulate(packet, self.classes.get(at)) {
            each(packet);
            self.delivered += 1;
        } else {
            self.ecn_dropped += 1;
        }
    }

    /// Appends a frame with a packet for the gateway to `out`; whether there is a session.
    pub(crate) fn seal(&mut self, packet: &[u8], out: &mut Vec<u8>) -> bool {
        self.sealed.clear();
        frame::begin_up(self.epoch, self.number, &mut self.sealed);
        self.sealed.extend_from_slice(packet);
        let said = self.end.say(&self.sealed, out);
        self.number = self.number.wrapping_add(said.into());
        said
    }

    /// As [`Self::seal`], the packet that was sealed last once more, for another access point: the gateway
    /// takes the same datagram from two for one that is replayed.
    pub(crate) fn seal_again(&mut self, out: &mut Vec<u8>) -> bool {
        self.end.say(&self.sealed, out)
    }

    /// Appends the initiation of a session that is to go out on every link to `out`.
    pub(crate) fn poll_initiation(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        self.end.poll_initiation(now, out)
    }

    /// Appends the question for the gateway's terms that is due on a link to `out`.
    pub(crate) fn poll_hello(&mut self, link: usize, now: Instant, out: &mut Vec<u8>) -> bool {
        if now < self.ways[link].next_hello {
            return false;
        }
        self.sealed.clear();
        let lag = self.lag(link);
        frame::encode_hello(self.epoch, now.as_nanos() / 1000, lag, &mut self.sealed);
        let said = self.end.say(&self.sealed, out);
        if said {
            self.ways[link].next_hello = now + HELLO_INTERVAL;
        }
        said
    }

    /// How much later labels come on a link than on the first one, if that is known.
    pub(crate) fn lag(&self, link: usize) -> Option<Duration> {
        match &self.downlink {
            Downlink::Coded(node) => node.lag(link),
            Downlink::Unknown | Downlink::Plain(_) => None,
        }
    }

    /// Packets that came and wait for earlier ones.
    pub(crate) fn waiting(&self) -> usize {
        self.downlink.undelivered()
    }

    /// Appends what came of the gateway's packets to `out`, if it is time to tell it.
    pub(crate) fn poll_losses(&mut self, now: Instant, out: &mut Vec<u8>) -> bool {
        let Downlink::Coded(node) = &mut self.downlink else { return false };
        if now < self.next_losses {
            return false;
        }
        let Some(report) = node.poll_report() else { return false };
        self.losses.packets += report.packets;
        self.losses.missing += report.missing;
        self.next_losses = now + MEASURE_EVERY;
        let LossReport { packets, missing } = self.losses;
        self.sealed.clear();
        Losses { epoch: self.epoch, of: self.epochs.current(), packets, missing }
            .encode(&mut self.sealed);
        self.end.say(&self.sealed, out)
    }

    /// When something is due: what is given up, a session that is to be opened or a hello.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let downlink = match &self.downlink {
            Downlink::Unknown => None,
            Downlink::Coded(node) => node.poll_timeout(),
            Downlink::Plain(buffer) => buffer.poll_timeout(),
        };
        downlink.into_iter().chain(self.end.poll_timeout()).min()
    }

    /// The round-trip time to the gateway on a link, if the gateway was heard on it lately.
    pub(crate) fn rtt(&self, link: usize, now: Instant) -> Option<Duration> {
        let way = &self.ways[link];
        way.rtt.filter(|_| way.heard.is_some_and(|heard| now < heard + SILENCE))
    }

    /// The best way up, or `present` if that is not worse by much; `None` without any.
    pub(crate) fn best(&self, present: Option<usize>, now: Instant) -> Option<usize> {
        let known = (0..self.ways.len()).filter_map(|link| Some((link, self.rtt(link, now)?)));
        let (best, least) = known.min_by_key(|(_, rtt)| *rtt)?;
        let stays = present.filter(|&present| {
            self.rtt(present, now).is_some_and(|rtt| rtt <= least + least / BETTER)
        });
        stays.or(Some(best))
    }

    /// The longest packet, if the gateway's terms are known.
    pub(crate) fn mtu(&self) -> Option<u16> {
        let Limits { packet_bytes, .. } = self.epochs.settings()?.limits;
        Some(packet_bytes.saturating_sub(self.overhead))
    }

    pub(crate) fn counters(&self) -> Vec<Counter> {
        let mut counters = self.past.plus(self.downlink.counters());
        let Doubted { misnamed, polluted, shut_out } = self.doubted;
        counters.extend([
            Counter::of(counters::PACKETS_DELIVERED, self.delivered),
            Counter::of(counters::PACKETS_ECN_DROPPED, self.ecn_dropped),
            Counter::of(counters::PACKETS_MISNAMED, misnamed),
            Counter::of(counters::PACKETS_POLLUTED, polluted),
            Counter::of(counters::PACKETS_SHUT_OUT, shut_out),
        ]);
        counters
    }

    /// How often something that the gateway did not make may have come on a link.
    pub(crate) fn wrong(&self, link: usize) -> u64 {
        self.trust.count(link)
    }
}

impl Downlink {
    fn new(settings: &Settings, links: usize) -> Self {
        match settings.coding {
            Coding::Plain => Self::Plain(ReorderBuffer::new(PATIENCE)),
            Coding::Coded(mode) => {
                let node = NodeConfig { names_proven: true, ..settings.node(mode, 100) };
                Self::Coded(Box::new(node::Device::new(node, links)))
            }
        }
    }

    /// Packets that came and have not been handed out.
    fn undelivered(&self) -> usize {
        match self {
            Self::Unknown => 0,
            Self::Coded(node) => node.undelivered(),
            Self::Plain(buffer) => buffer.undelivered(),
        }
    }

    fn counters(&self) -> Vec<Counter> {
        match self {
            Self::Unknown => Vec::new(),
            Self::Coded(node) => Counter::of_node(node.stats().counters()),
            Self::Plain(buffer) => vec![
                Counter::of(counters::PACKETS_LOST, buffer.lost),
                Counter::of(counters::PACKETS_DUPLICATE, buffer.duplicate),
                Counter::of(counters::PACKETS_STRAY, buffer.stray),
            ],
        }
    }
}
