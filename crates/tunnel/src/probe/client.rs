//! The client's state machine: the handshake, then a session.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use weftline_core::Instant;

use super::collector::Stamp;
use super::peer::{Heard, Peer, Shape};
use super::wire::{Cookie, Key, Packet, Reason};
use super::{Ask, Direction, Sample};

/// How often a word of the handshake is said again, and for how long.
const AGAIN: Duration = Duration::from_millis(250);
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long the server may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// How long the last results may take.
const LINGER: Duration = Duration::from_millis(300);

/// What a client wants of whom.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// What is to be measured.
    pub ask: Ask,
    /// The server.
    pub server: SocketAddr,
    /// The key that a token gives, where the server wants one.
    pub secret: Option<[u8; 32]>,
    /// Names the session; nobody can guess it.
    pub session: u64,
}

/// What a client tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The session is over, as was asked for or because of the server.
    Ended(Ended),
    /// A train was measured, of those that go down or up.
    Sample(Direction, Sample),
    /// The server has taken us.
    Started,
}

/// How a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// After the time asked for.
    Done,
    /// The server never answered.
    NoAnswer,
    /// The server said so.
    Server(Reason),
    /// Nothing came for long.
    Silent,
}

#[derive(Debug)]
enum State {
    /// Says hello.
    Hello,
    /// Says what it wants.
    Start(Cookie, Box<Peer>),
    Running(Box<Peer>),
    /// Sends no trains and waits for the last results.
    Lingering(Box<Peer>),
    Over,
}

/// A client of `weftline probe serve`.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    state: State,
    /// When the handshake, the session or its end is over.
    until: Instant,
    next_word: Instant,
    events: VecDeque<Event>,
    /// The newest result of our own trains that was taken.
    result: Option<u32>,
    farewells: u32,
}

impl Client {
    /// Starts a session.
    pub fn new(config: ClientConfig, now: Instant) -> Self {
        Self {
            config,
            state: State::Hello,
            until: now + HANDSHAKE,
            next_word: now,
            events: VecDeque::new(),
            result: None,
            farewells: 0,
        }
    }

    /// Takes a datagram from the server. What is not from it, or makes no sense, is left out;
    /// whether it was.
    pub fn handle(&mut self, bytes: &[u8], stamp: Stamp, now: Instant) -> bool {
        let Ok(decoded) = Packet::decode(bytes) else { return false };
        if decoded.session != self.config.session {
            return false;
        }
        match (&mut self.state, &decoded.packet) {
            (State::Hello, Packet::Challenge(cookie)) => {
                let ClientConfig { ask, server, secret, session } = &self.config;
                let key = Key::new(secret.as_ref(), *session, cookie);
                let ways = [ask.direction.has_up(), ask.direction.has_down()];
                let peer = Peer::new(*session, key, ask, *server, ways, now);
                self.state = State::Start(*cookie, Box::new(peer));
                self.next_word = now;
                true
            }
            (State::Hello | State::Start(..), Packet::Refusal(reason)) => {
                let reason = *reason;
                self.end(Ended::Server(reason));
                true
            }
            (State::Start(_, peer), _) => {
                if matches!(peer.handle(&decoded, bytes.len(), stamp, now), Heard::Forged) {
                    return false;
                }
                self.begin(now);
                true
            }
            (State::Running(peer) | State::Lingering(peer), _) => {
                match peer.handle(&decoded, bytes.len(), stamp, now) {
                    Heard::Forged => return false,
                    Heard::End(reason) => self.end(Ended::Server(reason)),
                    Heard::Results(results) => self.take_results(&results),
                    Heard::Other => {}
                }
                self.take_samples();
                true
            }
            _ => false,
        }
    }

    /// Goes on from the handshake to trains.
    fn begin(&mut self, now: Instant) {
        let State::Start(_, mut peer) = std::mem::replace(&mut self.state, State::Over) else {
            return;
        };
        if let Some(pacer) = &mut peer.pacer {
            *pacer = super::Pacer::new(&self.config.ask, now);
        }
        self.state = State::Running(peer);
        self.until = now + self.config.ask.duration;
        self.events.push_back(Event::Started);
        self.take_samples();
    }

    /// Takes what the server has made of our trains, of which reports tell several times.
    fn take_results(&mut self, results: &[Sample]) {
        for result in results {
            if self.result.is_none_or(|newest| result.train > newest) {
                self.result = Some(result.train);
                self.events.push_back(Event::Sample(Direction::Up, *result));
            }
        }
    }

    fn take_samples(&mut self) {
        let Some(collector) = self.peer().and_then(|peer| peer.collector.as_mut()) else { return };
        let samples: Vec<Sample> = std::iter::from_fn(|| collector.poll_sample()).collect();
        self.events.extend(samples.into_iter().map(|s| Event::Sample(Direction::Down, s)));
    }

    fn peer(&mut self) -> Option<&mut Peer> {
        match &mut self.state {
            State::Running(peer) | State::Lingering(peer) | State::Start(_, peer) => Some(peer),
            State::Hello | State::Over => None,
        }
    }

    /// The latest round-trip time, of small packets and what they found queued.
    pub fn rtt(&self) -> Option<Duration> {
        match &self.state {
            State::Running(peer) | State::Lingering(peer) => peer.rtt(),
            State::Hello | State::Start(..) | State::Over => None,
        }
    }

    /// Ends the session before its time.
    pub fn stop(&mut self, now: Instant) {
        match &self.state {
            State::Running(_) => self.until = now,
            State::Lingering(_) | State::Over => {}
            State::Hello | State::Start(..) => self.end(Ended::Done),
        }
    }

    fn end(&mut self, how: Ended) {
        self.take_samples();
        self.state = State::Over;
        self.events.push_back(Event::Ended(how));
    }

    /// When [`Client::handle_timeout`] or [`Client::poll_transmit`] is due; `None` when all is over.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match &self.state {
            State::Hello | State::Start(..) => Some(self.until.min(self.next_word)),
            State::Running(peer) => {
                let silent = peer.heard + SILENCE;
                peer.poll_timeout().into_iter().chain([self.until, silent]).min()
            }
            State::Lingering(_) if self.farewells == 0 => Some(self.farewell_at()),
            State::Lingering(_) => Some(self.until),
            State::Over => None,
        }
    }

    /// When the server is told the end: after the last results of trains that go up.
    fn farewell_at(&self) -> Instant {
        match self.config.ask.direction.has_up() {
            true => self.until - LINGER / 10,
            false => self.until - LINGER,
        }
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        if let Some(peer) = self.peer() {
            peer.handle_timeout(now);
        }
        self.take_samples();
        match std::mem::replace(&mut self.state, State::Over) {
            State::Hello | State::Start(..) if self.until <= now => self.end(Ended::NoAnswer),
            State::Running(peer) if self.until <= now => {
                // What is on its way may come yet.
                self.state = State::Lingering(peer);
                self.until = now + LINGER;
            }
            State::Running(peer) if peer.heard + SILENCE <= now => {
                self.state = State::Running(peer);
                self.end(Ended::Silent);
            }
            State::Lingering(peer) if self.until <= now => {
                self.state = State::Lingering(peer);
                self.end(Ended::Done);
            }
            state => self.state = state,
        }
    }

    /// Writes what is to be sent now to `out`, which is empty.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Shape> {
        let (session, farewell_at) = (self.config.session, self.farewell_at());
        match &mut self.state {
            State::Hello | State::Start(..) if now < self.next_word => return None,
            State::Hello => Packet::Hello.encode(session, None, out),
            State::Start(cookie, peer) => {
                Packet::Start(*cookie, self.config.ask).encode(session, Some(peer.key()), out);
            }
            State::Running(peer) => return peer.poll_transmit(now, out),
            State::Lingering(peer) => {
                // Said twice, as either may be lost; the server would notice the silence.
                if self.farewells == 2 || now < farewell_at {
                    return None;
                }
                self.farewells += 1;
                Packet::End(Reason::Done).encode(session, Some(peer.key()), out);
                return Some(Shape { segment: out.len(), together: true });
            }
            State::Over => return None,
        }
        self.next_word = now + AGAIN;
        Some(Shape { segment: out.len(), together: true })
    }

    /// What there is to tell.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether all is over and told.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over) && self.events.is_empty()
    }
}
