//! A socket and the neighbours that are reached by it: what comes is checked and decrypted, what
//! goes is encrypted, paced and sent together, and each neighbour is greeted ten times a second.

use std::net::SocketAddr;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::time::Duration;

use weftline_core::{Bitrate, Instant};

use crate::TunnelError;
use crate::complaint::Complaints;
use crate::frame::{Frame, Greeting, Settings};
use crate::key::PublicKey;
use crate::pacer::Pacer;
use crate::secure::{Guard, Link, Local, Refused, Role, Taken};
use crate::udp::{Inbox, Outbox, Sent, Socket};

/// How often neighbours are greeted.
const GREETING_INTERVAL: Duration = Duration::from_millis(100);
/// The longest datagram that is taken.
const DATAGRAM_BYTES: usize = 65_536;
/// Reads before others have their turn.
const ROUNDS: usize = 8;
/// Bytes of IP and UDP headers that count for a rate.
const IP_UDP: usize = 28;
/// A kernel queue that is full when the interface has no room: two of the largest bursts.
const SMALL_QUEUE: usize = 128 * 1024;
/// A neighbour's address that changes so often within [`FLAP_TIME`] is two neighbours.
const FLAPS: u32 = 3;
const FLAP_TIME: Duration = Duration::from_secs(10);

/// What was counted of a neighbour or a socket; datagrams where nothing else is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Sent, and their bytes with UDP and IP headers.
    pub sent: u64,
    /// Bytes of those.
    pub sent_bytes: u64,
    /// Received and authentic.
    pub received: u64,
    /// Bytes of those.
    pub received_bytes: u64,
    /// Not sent: there was no session, no room in the kernel, or no route.
    pub unsent: u64,
    /// Sessions made.
    pub sessions: u64,
}

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
}

/// How a neighbour is, for whoever looks.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkStatus {
    /// Its name.
    pub name: String,
    /// Whether it was heard lately.
    pub up: bool,
    /// Where it is.
    pub address: Option<SocketAddr>,
    /// The round-trip time, smoothed.
    pub rtt: Option<Duration>,
    /// What was counted.
    pub counters: LinkCounters,
}

/// A neighbour as it is configured.
#[derive(Clone, Debug)]
pub(crate) struct Neighbour {
    pub(crate) name: String,
    pub(crate) key: PublicKey,
    /// Where it is, if this side opens.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) rate: Option<Bitrate>,
}

struct Lane {
    name: String,
    address: Option<SocketAddr>,
    outbox: Outbox,
    pacer: Option<Pacer>,
    blocked: bool,
    /// The last greeting and when it came.
    heard: Option<(Greeting, Instant)>,
    next_greeting: Instant,
    rtt: Option<Duration>,
    was_up: bool,
    /// Changes of the address, and since when they are counted.
    flaps: (u32, Instant),
    counters: LinkCounters,
}

/// The socket.
pub(crate) struct Port {
    socket: Socket,
    guard: Guard,
    lanes: Vec<Lane>,
    opens: bool,
    frame: Vec<u8>,
    scratch: Vec<u8>,
    complaints: Complaints,
    pub(crate) dropped: Dropped,
}

impl Port {
    pub(crate) fn new(
        socket: Socket,
        local: Local,
        link: Link,
        role: Role,
        neighbours: &[Neighbour],
    ) -> Result<Self, TunnelError> {
        let keys: Vec<_> = neighbours.iter().map(|neighbour| neighbour.key).collect();
        for (index, key) in keys.iter().enumerate() {
            if let Some(other) = keys[..index].iter().position(|other| other == key) {
                return Err(TunnelError::Usage(format!(
                    "'{}' and '{}' have the same key; give each node its own by weftline cotag key",
                    neighbours[other].name, neighbours[index].name
                )));
            }
        }
        Ok(Self {
            socket,
            guard: Guard::new(local, link, role, &keys),
            lanes: neighbours.iter().map(Lane::new).collect(),
            opens: role == Role::Opener,
            frame: vec![0; DATAGRAM_BYTES],
            scratch: Vec::new(),
            complaints: Complaints::default(),
            dropped: Dropped::default(),
        })
    }

    /// Takes the kernel's word for whether there is room: it queues little.
    pub(crate) fn limit_queue(&self) {
        self.socket.limit_queue(SMALL_QUEUE);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    pub(crate) fn local_address(&self) -> Result<SocketAddr, TunnelError> {
        self.socket.local_address().map_err(TunnelError::os("asking for a socket's address"))
    }

    /// Whether the kernel's word that there is room again is waited for.
    pub(crate) fn is_blocked(&self) -> bool {
        self.lanes.iter().any(|lane| lane.blocked)
    }

    /// Reads what has come; each frame but those of the link itself is handed to `each` with its
    /// lane. Greetings are handed on, too.
    pub(crate) fn receive(
        &mut self,
        inbox: &mut Inbox,
        now: Instant,
        mut each: impl FnMut(usize, Frame<'_>),
    ) {
        for _ in 0..ROUNDS {
            let Self { socket, guard, lanes, frame, scratch, complaints, dropped, .. } = self;
            let mut answers = Vec::new();
            let more = inbox.read(socket, |from, datagram| {
                scratch.clear();
                match guard.take(datagram, now, frame, scratch) {
                    Ok(Taken::Frame(index, opened)) => {
                        let lane = &mut lanes[index];
                        lane.counters.received += 1;
                        lane.counters.received_bytes += (datagram.len() + IP_UDP) as u64;
                        if opened.begun {
                            lane.begin(from, now, complaints);
                        } else if opened.current {
                            lane.address = Some(from);
                        }
                        match Frame::decode(&frame[..opened.length]) {
                            Some(said) => {
                                if let Frame::Greeting(greeting) = said {
                                    lane.greeted(greeting, now);
                                }
                                each(index, said);
                            }
                            None => dropped.malformed += 1,
                        }
                    }
                    Ok(Taken::Begun(index)) => lanes[index].begin(from, now, complaints),
                    Ok(Taken::Answer) => answers.push((from, scratch.clone())),
                    Err(refused) => {
                        dropped.count(refused);
                        complaints.refused(refused, from, now);
                    }
                }
            });
            for (to, answer) in answers {
                // One that does not leave is asked for again.
                let mut single = Outbox::default();
                single.push(&self.socket, to, |out| out.extend_from_slice(&answer));
                single.flush(&self.socket, to);
            }
            if !more {
                break;
            }
        }
    }

    /// Sends the handshakes and greetings that are due.
    pub(crate) fn tend(&mut self, now: Instant, about: &About) {
        for index in 0..self.lanes.len() {
            let lane = &mut self.lanes[index];
            let is_up = self.guard.channel(index).is_up(now);
            lane.tell_change(is_up, now, self.opens, &mut self.complaints);
            self.scratch.clear();
            if let Some(to) = lane.address
                && self.guard.poll_opening(index, now, &mut self.scratch)
            {
                let mut single = Outbox::default();
                let scratch = &self.scratch;
                single.push(&self.socket, to, |out| out.extend_from_slice(scratch));
                if single.flush(&self.socket, to) == Sent::Refused {
                    self.complaints.unreachable(&self.lanes[index].name, to, now);
                }
            }
            if now >= self.lanes[index].next_greeting {
                self.greet(index, now, about);
            }
        }
    }

    /// Greets every neighbour at the next occasion: there is something new to say.
    pub(crate) fn greet_soon(&mut self) {
        for lane in &mut self.lanes {
            lane.next_greeting = Instant::ZERO;
        }
    }

    fn greet(&mut self, index: usize, now: Instant, about: &About) {
        let lane = &mut self.lanes[index];
        lane.next_greeting = now + GREETING_INTERVAL;
        let (heard_us, age_us) = lane.heard.map_or((0, 0), |(greeting, at)| {
            (greeting.time_us, u32::try_from(now.since(at).as_micros()).unwrap_or(u32::MAX))
        });
        let greeting = Greeting {
            run: about.run,
            time_us: now.as_nanos() / 1000,
            heard_us,
            age_us,
            gateway_rtt_us: about.gateway_rtt.map_or(u32::MAX, |rtt| rtt.as_micros() as u32),
            settings: about.settings,
        };
        let mut frame = std::mem::take(&mut self.scratch);
        frame.clear();
        greeting.encode(&mut frame);
        if self.guard.channel(index).sent() > 0 || self.guard.channel(index).is_up(now) {
            self.send(index, &frame, now);
        }
        self.scratch = frame;
    }

    /// Whether a neighbour can take another packet now.
    pub(crate) fn has_room(&mut self, index: usize, now: Instant) -> bool {
        let lane = &self.lanes[index];
        !lane.blocked
            && lane.pacer.as_ref().is_none_or(|pacer| pacer.has_room(now))
            && self.guard.channel(index).is_up(now)
    }

    /// When a neighbour that is paced may have room again.
    pub(crate) fn next_room(&self, now: Instant) -> Option<Instant> {
        let full = self.lanes.iter().filter_map(|lane| lane.pacer.as_ref());
        full.filter(|pacer| !pacer.has_room(now)).map(Pacer::next_room).min()
    }

    /// Encrypts a frame and queues it; [`Self::flush`] sends.
    pub(crate) fn send(&mut self, index: usize, frame: &[u8], now: Instant) {
        let lane = &mut self.lanes[index];
        let channel = self.guard.channel(index);
        let Some(to) = lane.address.filter(|_| !lane.blocked) else {
            lane.counters.unsent += 1;
            return;
        };
        let mut length = None;
        let sent = lane.outbox.push(&self.socket, to, |out| {
            let before = out.len();
            length = channel.seal(frame, out).map(|_| out.len() - before);
        });
        let Some(length) = length else {
            lane.counters.unsent += 1;
            return;
        };
        lane.counters.sent += 1;
        lane.counters.sent_bytes += (length + IP_UDP) as u64;
        if let Some(pacer) = &mut lane.pacer {
            pacer.send(length + IP_UDP, now);
        }
        lane.note(sent, length, now, &mut self.complaints);
    }

    /// Sends what is queued.
    pub(crate) fn flush(&mut self, now: Instant) {
        for lane in &mut self.lanes {
            if let Some(to) = lane.address
                && !lane.outbox.is_empty()
            {
                lane.blocked = false;
                let sent = lane.outbox.flush(&self.socket, to);
                lane.note(sent, 0, now, &mut self.complaints);
            }
        }
    }

    /// When something is to be sent that nobody asked for.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        let greetings = self.lanes.iter().map(|lane| lane.next_greeting).min();
        let openings = self.guard.poll_timeout().filter(|_| self.opens);
        greetings.into_iter().chain(openings).min()
    }

    /// The smoothed round-trip time to a neighbour that is up.
    pub(crate) fn rtt(&mut self, index: usize, now: Instant) -> Option<Duration> {
        self.lanes[index].rtt.filter(|_| self.guard.channel(index).is_up(now))
    }

    /// How the neighbours are.
    pub(crate) fn status(&mut self, now: Instant) -> Vec<LinkStatus> {
        let Self { lanes, guard, .. } = self;
        let status = |(index, lane): (usize, &Lane)| LinkStatus {
            name: lane.name.clone(),
            up: guard.channel(index).is_up(now),
            address: lane.address,
            rtt: lane.rtt,
            counters: lane.counters,
        };
        lanes.iter().enumerate().map(status).collect()
    }
}

/// What a node says of itself in greetings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct About {
    /// The gateway's run, 0 while it is not known.
    pub(crate) run: u32,
    pub(crate) settings: Option<Settings>,
    pub(crate) gateway_rtt: Option<Duration>,
}

impl Lane {
    fn new(neighbour: &Neighbour) -> Self {
        Self {
            name: neighbour.name.clone(),
            address: neighbour.address,
            outbox: Outbox::default(),
            pacer: neighbour.rate.map(Pacer::new),
            blocked: false,
            heard: None,
            next_greeting: Instant::ZERO,
            rtt: None,
            was_up: false,
            flaps: (0, Instant::ZERO),
            counters: LinkCounters::default(),
        }
    }

    /// A session with it began.
    fn begin(&mut self, from: SocketAddr, now: Instant, complaints: &mut Complaints) {
        self.counters.sessions += 1;
        if let Some(before) = self.address.replace(from)
            && before != from
        {
            let (count, since) = self.flaps;
            let recent = now < since + FLAP_TIME;
            self.flaps = if recent { (count + 1, since) } else { (1, now) };
            if self.flaps.0 >= FLAPS {
                complaints.two_with_one_key(&self.name, before, from, now);
            }
        }
        // What waits was encrypted for the session before; that is still taken.
        self.next_greeting = Instant::ZERO;
        self.heard = None;
    }

    fn greeted(&mut self, greeting: Greeting, now: Instant) {
        self.heard = Some((greeting, now));
        let now_us = now.as_nanos() / 1000;
        if greeting.heard_us == 0 {
            return;
        }
        let away = now_us.checked_sub(greeting.heard_us);
        let Some(rtt) = away.and_then(|away| away.checked_sub(greeting.age_us.into())) else {
            return;
        };
        let rtt = Duration::from_micros(rtt.min(60_000_000));
        self.rtt = Some(self.rtt.map_or(rtt, |old| (old * 7 + rtt) / 8));
    }

    /// Says once that a neighbour is there, or no longer.
    fn tell_change(&mut self, is_up: bool, now: Instant, opens: bool, complaints: &mut Complaints) {
        let name = &self.name;
        match (self.was_up, is_up, self.address) {
            (false, true, Some(address)) => tracing::info!("link '{name}' is up, with {address}"),
            (true, false, _) => tracing::warn!("link '{name}' is down: nothing is heard of it"),
            (false, false, Some(address)) if opens => {
                complaints.no_answer(name, address, now);
            }
            _ => {}
        }
        self.was_up = is_up;
        if !is_up {
            self.rtt = None;
        }
    }

    fn note(&mut self, sent: Sent, length: usize, now: Instant, complaints: &mut Complaints) {
        match sent {
            Sent::Done => {}
            Sent::Blocked => self.blocked = true,
            Sent::TooLong => {
                self.counters.unsent += 1;
                complaints.too_long(&self.name, length, now);
            }
            Sent::Refused => self.counters.unsent += 1,
        }
    }
}

impl Dropped {
    /// The counts by name.
    pub fn by_reason(&self) -> [(&'static str, u64); 5] {
        [
            ("malformed", self.malformed),
            ("forged", self.forged),
            ("replayed", self.replayed),
            ("unknown", self.unknown),
            ("handshake", self.handshakes),
        ]
    }

    fn count(&mut self, refused: Refused) {
        *match refused {
            Refused::Malformed => &mut self.malformed,
            Refused::Forged => &mut self.forged,
            Refused::Replayed => &mut self.replayed,
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
        }
    }
}
