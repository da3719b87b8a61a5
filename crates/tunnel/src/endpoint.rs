//! An endpoint: a socket and the peers that are reached by it. It checks and decrypts what arrives; it
//! encrypts, paces and batches what is sent; and it sends each peer a keepalive ten times a second.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use weftline_coding::node::{KEEPALIVE_INTERVAL, Pacer};
use weftline_core::{Bitrate, Instant};

use crate::TunnelError;
use crate::capacity::PADDING;
use crate::class::Class;
use crate::complaint::Complaints;
use crate::frame::{self, DeviceTag, Frame, Settings};
use crate::outbox::Outbox;
use crate::peer::{self, LinkStatus, Neighbour, Peer, Train};
use crate::probe::Translator;
use crate::random::random_nonzero;
use crate::secure::{HandshakeTable, Link, Local, Refused, Role, Taken};
use crate::udp::{Inbox, Socket, Via};

/// The longest datagram that is taken.
const DATAGRAM_BYTES: usize = 65_536;
/// Reads before others have their turn.
const ROUNDS: usize = 8;
/// A kernel queue that is full when the interface has no room: two of the largest bursts.
const SMALL_QUEUE: usize = 128 * 1024;
/// The least time from one try to open a socket anew to the next.
const REOPEN: Duration = Duration::from_secs(1);

/// What a socket dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Not of our form.
    pub malformed: u64,
    /// Changed on the way, or made by somebody without the key.
    pub forged: u64,
    /// Came before.
    pub replayed: u64,
    /// Of sessions that are not, or no longer.
    pub unknown: u64,
    /// Handshakes for other keys, from strangers, or too many.
    pub handshakes: u64,
    /// Handshake initiations and responses for which the kernel had no room or no route; they are
    /// asked for, or sent, again.
    pub unanswered: u64,
    /// Of another epoch of the gateway than the one that is followed.
    pub stale: u64,
    /// Of a kind that this node has no use for.
    pub unexpected: u64,
    /// The kernel had no room for them in a socket's receive buffer; `None` if it does not say.
    pub receive_buffer: Option<u64>,
}

/// How a socket towards a neighbour was opened.
struct Bound {
    peer: SocketAddr,
    via: Via,
    /// Whether the kernel is to queue little of it.
    small: bool,
    /// Whether the kernel has refused an initiation since the last attempt to open the socket.
    refused: bool,
    /// When it may be opened anew.
    next: Instant,
}

/// A socket and its peers.
pub(crate) struct Endpoint {
    socket: Socket,
    /// What it is bound to, if it is: an interface that is made anew under its name is another one.
    bound: Option<Bound>,
    handshakes: HandshakeTable,
    peers: Vec<Peer>,
    /// The pacer of all peers together, where they share a link.
    shared: Option<Pacer>,
    initiates: bool,
    /// The index of the peer that is served first.
    first: usize,
    frame: Vec<u8>,
    scratch: Vec<u8>,
    /// A frame with its class.
    classed: Vec<u8>,
    complaints: Complaints,
    /// Of the kernel's receive stamps.
    clock: Translator,
    pub(crate) dropped: Dropped,
}

impl Endpoint {
    pub(crate) fn new(
        socket: Socket,
        local: Local,
        link: Link,
        role: Role,
        neighbours: &[Neighbour],
    ) -> Result<Self, TunnelError> {
        let keys: Vec<_> = neighbours.iter().map(|neighbour| neighbour.key).collect();
        let measurement = random_nonzero()?;
        let peers = neighbours.iter().map(|neighbour| Peer::new(neighbour, measurement)).collect();
        Ok(Self {
            socket,
            bound: None,
            handshakes: HandshakeTable::new(local, link, role, &keys),
            peers,
            shared: None,
            initiates: role == Role::Initiator,
            first: 0,
            frame: vec![0; DATAGRAM_BYTES],
            scratch: Vec::new(),
            classed: Vec::new(),
            complaints: Complaints::default(),
            clock: Translator::new(),
            dropped: Dropped::default(),
        })
    }

    /// One that initiates towards a neighbour at `peer`, through `via`.
    pub(crate) fn towards(
        peer: SocketAddr,
        via: Option<Via>,
        local: Local,
        link: Link,
        neighbour: Neighbour,
    ) -> Result<Self, TunnelError> {
        let socket = Socket::towards(peer, via.as_ref())?;
        let endpoint = Self::new(socket, local, link, Role::Initiator, &[neighbour])?;
        let next = Instant::ZERO;
        let bound = via.map(|via| Bound { peer, via, small: false, refused: false, next });
        Ok(Self { bound, ..endpoint })
    }

    /// Opens the socket anew, once in a while, if the neighbour is not heard and the kernel refuses what
    /// is to go there: its interface is gone, and may be back. Whether it did: there is another descriptor
    /// to wait for.
    pub(crate) fn reopen(&mut self, now: Instant) -> bool {
        let Some(bound) = &mut self.bound else { return false };
        if !bound.refused || now < bound.next || self.peers.iter().any(Peer::is_up) {
            return false;
        }
        (bound.refused, bound.next) = (false, now + REOPEN);
        let socket = match Socket::towards(bound.peer, Some(&bound.via)) {
            Ok(socket) => socket,
            Err(error) => {
                tracing::debug!("opening a socket anew: {error}");
                return false;
            }
        };
        if bound.small {
            socket.limit_queue(SMALL_QUEUE);
        }
        self.socket = socket;
        // The former socket will not report any more that it has room.
        self.peers.iter_mut().for_each(|peer| peer.blocked = false);
        true
    }

    /// Takes the kernel's word for whether there is room: it queues little.
    pub(crate) fn limit_queue(&mut self) {
        self.socket.limit_queue(SMALL_QUEUE);
        self.bound.iter_mut().for_each(|bound| bound.small = true);
    }

    /// All neighbours share a link that carries so much.
    pub(crate) fn share(&mut self, rate: Bitrate) {
        self.shared = Some(peer::pacer(rate));
    }

    /// What all neighbours together are sent at most.
    pub(crate) fn shared_rate(&self) -> Option<Bitrate> {
        self.shared.as_ref().map(Pacer::rate)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn local_address(&self) -> Result<SocketAddr, TunnelError> {
        self.socket.local_address().map_err(TunnelError::os("asking for a socket's address"))
    }

    /// Whether the kernel's word that there is room again is waited for.
    pub(crate) fn is_blocked(&self) -> bool {
        self.peers.iter().any(|peer| peer.blocked)
    }

    /// Reads what has come; each frame but those of the link itself is handed to `each` with its
    /// peer and what is said around it, and `each` says what it is to the node. Keepalives are handed
    /// on, too. Whether all that was there has been read.
    pub(crate) fn receive(
        &mut self,
        inbox: &mut Inbox,
        now: Instant,
        mut each: impl FnMut(usize, Frame<'_>, Around) -> Use,
    ) -> bool {
        for _ in 0..ROUNDS {
            let Self {
                socket, handshakes, peers, frame, scratch, complaints, clock, dropped, ..
            } = self;
            let mut responses = Vec::new();
            let more = inbox.read(socket, |from, datagram, stamp, ecn| {
                scratch.clear();
                match handshakes.take(datagram, now, frame, scratch) {
                    Ok(Taken::Frame(index, opened)) => {
                        let peer = &mut peers[index];
                        if opened.begun {
                            peer.begin(from, now, complaints);
                        } else if opened.current {
                            peer.is_at(from);
                        }
                        peer.hear(datagram.len(), now);
                        if opened.current {
                            let bytes = datagram.len() + peer.headers();
                            peer.receiver.see(opened.counter, bytes, stamp, now);
                        }
                        let (class, frame) = frame::class(&frame[..opened.length]);
                        let (of, frame) = frame::of_device(frame);
                        let well = match Frame::decode(frame) {
                            Some(Frame::Padding) => true,
                            Some(Frame::Mark { body }) => {
                                clock.look();
                                let translate = |stamp, read| clock.stamp(stamp, read);
                                peer.receiver.receive(body, translate, now)
                            }
                            Some(Frame::Report { body }) => peer.reported(body, now),
                            Some(Frame::Rate(rate)) if of.is_none() => {
                                peer.told(rate, now);
                                true
                            }
                            Some(said) => {
                                if let Frame::Keepalive(keepalive, _) = said {
                                    peer.on_keepalive(keepalive, now, complaints);
                                }
                                let around = Around { class: class.came_with(ecn), of };
                                match each(index, said, around) {
                                    Use::Taken => {}
                                    Use::Stale => dropped.stale += 1,
                                    Use::Unexpected => dropped.unexpected += 1,
                                }
                                true
                            }
                            None => false,
                        };
                        dropped.malformed += u64::from(!well);
                    }
                    Ok(Taken::Begun(index)) => peers[index].begin(from, now, complaints),
                    Ok(Taken::Response) => responses.push((from, scratch.clone())),
                    Err(refused) => {
                        dropped.count(refused);
                        complaints.refused(refused, from.peer, now);
                    }
                }
            });
            for (to, response) in responses {
                // One that does not leave is asked for again.
                let mut single = Outbox::default();
                single.push(&self.socket, to, Class::NONE, |out| out.extend_from_slice(&response));
                let sent = single.flush(&self.socket, to);
                self.dropped.unanswered += u64::from(sent.taken == 0);
            }
            if !more {
                return true;
            }
        }
        false
    }

    /// Sends the handshakes and keepalives that are due.
    pub(crate) fn tend(&mut self, now: Instant, about: &About<'_>) {
        for index in 0..self.peers.len() {
            let peer = &mut self.peers[index];
            let is_up = self.handshakes.channel(index).is_up(now);
            peer.forget_told(now);
            peer.tell_change(is_up, now, self.initiates, &mut self.complaints);
            self.scratch.clear();
            if let Some(to) = peer.to()
                && self.handshakes.poll_initiation(index, now, &mut self.scratch)
            {
                let mut single = Outbox::default();
                let scratch = &self.scratch;
                single.push(&self.socket, to, Class::NONE, |out| out.extend_from_slice(scratch));
                let sent = single.flush(&self.socket, to);
                self.dropped.unanswered += u64::from(sent.taken == 0);
                if sent.refused > 0 {
                    self.complaints.unreachable(&self.peers[index].name, to.peer, now);
                    self.bound.iter_mut().for_each(|bound| bound.refused = true);
                }
            }
            if now >= self.peers[index].next_keepalive {
                self.send_keepalive(index, now, about);
            }
            if is_up {
                self.measure(index, now);
            }
        }
    }

    /// Sends the trains that are due, and what is to be told of the neighbour's.
    fn measure(&mut self, index: usize, now: Instant) {
        let mut frame = std::mem::take(&mut self.scratch);
        frame.clear();
        frame::begin_report(&mut frame);
        if self.peers[index].receiver.poll(now, &mut frame) {
            self.put(index, &frame, Turn::First, now);
        }
        let peer = &mut self.peers[index];
        if !peer.presence.is_there(now)
            && let Some(estimator) = peer.capacity()
        {
            estimator.lose();
            peer.take_rate();
        }
        if let Some(burst) = peer.capacity().and_then(|estimator| estimator.poll(now)) {
            peer.take_rate();
            peer.begin_train(burst);
        }
        self.scratch = frame;
    }

    /// Fills the train that is being sent to a neighbour, if there is one, and says which it was.
    fn end_train(&mut self, index: usize, now: Instant) {
        let Some(train) = self.peers[index].train() else { return };
        let missing = train.burst.packets.saturating_sub(train.packets);
        let mut frame = std::mem::take(&mut self.scratch);
        frame.clear();
        frame::pad(PADDING, &mut frame);
        for _ in 0..missing {
            self.put(index, &frame, Turn::Own(Class::NONE), now);
        }
        let peer = &mut self.peers[index];
        if let Some(Train { burst, first, packets }) = peer.end_train()
            && let Some(estimator) = peer.capacity()
        {
            frame.clear();
            frame::begin_mark(&mut frame);
            estimator.mark(&burst, first, packets, &mut frame);
            self.put(index, &frame, Turn::Own(Class::NONE), now);
        }
        self.scratch = frame;
    }

    /// Sends keepalives to all neighbours at the next occasion: there is something new to say.
    pub(crate) fn send_keepalives_soon(&mut self) {
        for peer in &mut self.peers {
            peer.next_keepalive = Instant::ZERO;
        }
    }

    fn send_keepalive(&mut self, index: usize, now: Instant, about: &About<'_>) {
        let peer = &mut self.peers[index];
        peer.next_keepalive = now + KEEPALIVE_INTERVAL;
        let keepalive = peer.keepalive(about.settings, now);
        let mut frame = std::mem::take(&mut self.scratch);
        frame.clear();
        keepalive.encode(&mut frame);
        frame.extend_from_slice(about.epochs);
        if self.handshakes.channel(index).sent() > 0 || self.handshakes.channel(index).is_up(now) {
            self.put(index, &frame, Turn::First, now);
        }
        self.scratch = frame;
    }

    /// The rate by which is sent to a neighbour, where there is one; zero while nothing may go.
    pub(crate) fn rate(&self, index: usize) -> Option<Bitrate> {
        self.peers[index].rate()
    }

    /// Whether a neighbour was heard lately.
    pub(crate) fn is_up(&mut self, index: usize, now: Instant) -> bool {
        self.handshakes.channel(index).is_up(now)
    }

    /// Whether a neighbour is still there: three keepalives in a row are not missing, of either.
    pub(crate) fn is_near(&self, index: usize, now: Instant) -> bool {
        self.peers[index].presence.is_there(now)
    }

    /// Whether a neighbour can take another packet now.
    pub(crate) fn has_room(&mut self, index: usize, now: Instant) -> bool {
        self.shared.as_ref().is_none_or(|pacer| pacer.has_room(now))
            && self.peers[index].has_room(now)
            && self.handshakes.channel(index).is_up(now)
    }

    /// When a neighbour that is paced may have room again.
    pub(crate) fn next_room(&self, now: Instant) -> Option<Instant> {
        let shared = self.shared.as_ref().filter(|pacer| !pacer.has_room(now));
        let peers = self.peers.iter().filter_map(|peer| peer.next_room(now)).min();
        // While all are held back none has room before that.
        shared.map(|pacer| peers.unwrap_or(Instant::ZERO).max(pacer.next_room())).or(peers)
    }

    /// Encrypts a frame of what nodes say to each other and queues it before packets, which may wait for
    /// long; [`Self::flush`] sends.
    pub(crate) fn send(&mut self, index: usize, frame: &[u8], now: Instant) {
        self.put(index, frame, Turn::First, now);
    }

    /// As [`Self::send`], in its turn, a frame with a packet of that class, which its datagram is given,
    /// too.
    pub(crate) fn send_classed(&mut self, index: usize, frame: &[u8], class: Class, now: Instant) {
        if let Some(estimator) = self.peers[index].capacity() {
            estimator.send(frame.len());
        }
        if class == Class::NONE {
            self.put(index, frame, Turn::Own(class), now);
            return;
        }
        let mut classed = std::mem::take(&mut self.classed);
        classed.clear();
        frame::begin_classed(class, &mut classed);
        classed.extend_from_slice(frame);
        self.put(index, &classed, Turn::Own(class), now);
        self.classed = classed;
    }

    /// As [`Self::send`], for what is sent though nobody wants anything.
    fn put(&mut self, index: usize, frame: &[u8], turn: Turn, now: Instant) {
        let peer = &mut self.peers[index];
        // A train's datagrams stay together: what passes them would be measured with them.
        let first = turn == Turn::First && peer.train().is_none();
        let channel = self.handshakes.channel(index);
        let Some(to) = peer.to() else {
            peer.counters.unsent.no_session += 1;
            return;
        };
        if !(peer.outbox.has_room() || turn == Turn::First && peer.outbox.has_room_first()) {
            peer.counters.unsent.no_room += 1;
            return;
        }
        let mut sealed = None;
        let seal = |out: &mut Vec<u8>| {
            let before = out.len();
            sealed = channel.seal(frame, out).map(|counter| (counter, out.len() - before));
        };
        let sent = match turn {
            Turn::Own(class) => peer.outbox.push(&self.socket, to, class, seal),
            Turn::First if first => peer.outbox.push_first(&self.socket, to, Class::NONE, seal),
            Turn::First => peer.outbox.push(&self.socket, to, Class::NONE, seal),
        };
        let Some((counter, length)) = sealed else {
            peer.counters.unsent.no_session += 1;
            peer.note(sent, 0, now, &mut self.complaints);
            return;
        };
        let alone = peer.train().is_some_and(|train| !train.burst.together);
        let bytes = length + peer.headers();
        peer.pace(counter, bytes, now);
        if let Some(pacer) = &mut self.shared {
            pacer.send(bytes, now);
        }
        peer.note(sent, length, now, &mut self.complaints);
        if alone {
            let sent = peer.outbox.flush(&self.socket, to);
            peer.note(sent, 0, now, &mut self.complaints);
        }
    }

    /// Sends what is queued, and fills trains: nothing more is to go into them.
    pub(crate) fn flush(&mut self, now: Instant) {
        for index in 0..self.peers.len() {
            self.end_train(index, now);
        }
        self.send_queued(now, |_| true);
    }

    /// Sends what the kernel had no room for. Trains stay open for what comes next.
    pub(crate) fn resume(&mut self, now: Instant) {
        self.send_queued(now, |peer| peer.blocked);
    }

    /// All share the socket's room, so that each begins in its turn.
    fn send_queued(&mut self, now: Instant, is_meant: impl Fn(&Peer) -> bool) {
        let peers = self.peers.len();
        self.first = (self.first + 1) % peers.max(1);
        for index in (0..peers).map(|index| (index + self.first) % peers) {
            let peer = &mut self.peers[index];
            if let Some(to) = peer.to()
                && !peer.outbox.is_empty()
                && is_meant(peer)
            {
                peer.blocked = false;
                let sent = peer.outbox.flush(&self.socket, to);
                peer.note(sent, 0, now, &mut self.complaints);
            }
        }
    }

    /// When a keepalive, an initiation or a train is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let keepalives = self.peers.iter().map(|peer| peer.next_keepalive).min();
        let initiations = self.handshakes.poll_timeout().filter(|_| self.initiates);
        let measuring =
            self.peers.iter().filter(|peer| peer.is_up()).filter_map(Peer::measuring_timeout).min();
        keepalives.into_iter().chain(initiations).chain(measuring).min()
    }

    /// How the neighbours are.
    pub(crate) fn status(&mut self, now: Instant) -> Vec<LinkStatus> {
        let Self { peers, handshakes, .. } = self;
        let status = |(index, peer): (usize, &Peer)| LinkStatus {
            name: peer.name.clone(),
            up: handshakes.channel(index).is_up(now),
            address: peer.address,
            rtt: peer.rtt,
            rate: peer.rate(),
            lag: None,
            wrong: 0,
            counters: peer.counters,
        };
        peers.iter().enumerate().map(status).collect()
    }
}

/// When a datagram leaves where others wait for the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// Before packets, without a class: what nodes say to each other is worth little when it is late.
    First,
    /// After those that wait, with this class.
    Own(Class),
}

/// What a frame is to the node that it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// It was taken, or what it carries was dropped and counted.
    Taken,
    /// Of another epoch of the gateway.
    Stale,
    /// No neighbour of this node sends such.
    Unexpected,
}

/// What is said around a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Around {
    /// The class of the packet in it.
    pub(crate) class: Class,
    /// The device that it is of.
    pub(crate) of: Option<DeviceTag>,
}

/// What a node says of itself in keepalives; only a gateway has something to say.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About<'a> {
    pub(crate) settings: Option<Settings>,
    /// Its devices with its epoch for each (`frame::list_epoch`).
    pub(crate) epochs: &'a [u8],
}

impl Dropped {
    /// The counts by name, without what is not known.
    pub fn by_reason(&self) -> Vec<(&'static str, u64)> {
        let known = [
            ("malformed", self.malformed),
            ("forged", self.forged),
            ("replayed", self.replayed),
            ("unknown", self.unknown),
            ("handshake", self.handshakes),
            ("unanswered", self.unanswered),
            ("stale", self.stale),
            ("unexpected", self.unexpected),
        ];
        let kernel = self.receive_buffer.map(|count| ("receive_buffer", count));
        known.into_iter().chain(kernel).collect()
    }

    pub(crate) fn count(&mut self, refused: Refused) {
        *match refused {
            Refused::Malformed => &mut self.malformed,
            Refused::Forged => &mut self.forged,
            Refused::Replayed | Refused::Old => &mut self.replayed,
            Refused::Unknown => &mut self.unknown,
            Refused::OtherKey | Refused::Stranger(_) | Refused::Flood => &mut self.handshakes,
        } += 1;
    }

    /// The sum of two sockets'.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            malformed: self.malformed + other.malformed,
            forged: self.forged + other.forged,
            replayed: self.replayed + other.replayed,
            unknown: self.unknown + other.unknown,
            handshakes: self.handshakes + other.handshakes,
            unanswered: self.unanswered + other.unanswered,
            stale: self.stale + other.stale,
            unexpected: self.unexpected + other.unexpected,
            receive_buffer: [self.receive_buffer, other.receive_buffer]
                .into_iter()
                .flatten()
                .reduce(|one, other| one + other),
        }
    }
}
