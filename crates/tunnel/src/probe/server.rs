//! The server's state machine: who may measure, and the sessions that are open.
//!
//! Nothing is sent to an address that has not shown that it gets what is sent to it, but answers
//! shorter than what they answer; and nothing is kept of it. What a client gets after that is
//! limited in rate, time and number, and stops when its reports do.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use ring::hmac;
use weftline_core::{Bitrate, Instant};

use super::Ask;
use super::collector::Stamp;
use super::peer::{Heard, Peer, Shape};
use super::wire::{Cookie, Decoded, Key, Packet, Reason};

/// A cookie holds for this long, and for as long again.
const SLOT: Duration = Duration::from_secs(8);
/// How long a client may be silent.
const SILENCE: Duration = Duration::from_secs(30);
/// How long a client may go on after its time, to say that it is over.
const GRACE: Duration = Duration::from_secs(2);
/// Sessions that are over and cannot be opened again: their number, and for how long it is known.
/// A cookie does not hold longer.
const ENDED_MAX: usize = 1024;
/// Starts of one source that are refused in a second; more are not looked at, as all secrets are
/// tried for each.
const REFUSALS: u32 = 8;
/// Refusals that are told in a second; more are only counted.
const TOLD: u32 = 10;
/// Sources whose refusals are counted; with more, those of longest ago are forgotten.
const REFUSED_MAX: usize = 1024;

/// What a server lets clients do.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Clients at once.
    pub clients: usize,
    /// Clients at once from one source: an IPv4 address or an IPv6 network of 64 bits.
    pub clients_per_source: usize,
    /// The most that the trains of one client take, each way.
    pub max_rate: Bitrate,
    /// The longest measurement.
    pub max_duration: Duration,
    /// The keys that tokens give, one of which clients must have; empty: anybody may measure.
    pub secrets: Vec<[u8; 32]>,
}

impl Default for ServerConfig {
    /// 8 clients, 4 of one source, 100 Mb/s each (a default measurement takes 36), an hour, no token.
    fn default() -> Self {
        Self {
            clients: 8,
            clients_per_source: 4,
            max_rate: Bitrate::mbps(100),
            max_duration: Duration::from_secs(3600),
            secrets: Vec::new(),
        }
    }
}

/// What a server has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Sessions opened.
    pub opened: u64,
    /// Clients told that they may not.
    pub refused: u64,
    /// Datagrams that are no packets of the probe, or make no sense.
    pub malformed: u64,
    /// Packets of sessions that are not open, and cookies that do not hold.
    pub stray: u64,
    /// Packets not signed with their session's key.
    pub forged: u64,
}

impl Stats {
    /// Datagrams that were dropped.
    pub fn dropped(&self) -> u64 {
        self.malformed + self.stray + self.forged
    }
}

/// What a server tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerEvent {
    /// A session is over: whose, why, and how many trains were sent.
    Closed(SocketAddr, Reason, u32),
    /// A client begins.
    Opened(SocketAddr, Ask),
    /// A client was told that it may not; of many in a second only the first ones are told.
    Refused(SocketAddr, Reason),
}

/// The two addresses of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The client's.
    pub client: SocketAddr,
    /// Ours, where it is known.
    pub local: Option<IpAddr>,
}

#[derive(Debug)]
struct Served {
    route: Route,
    peer: Peer,
    ends: Instant,
    /// Trains sent, once none are sent any more.
    trains: u32,
}

/// A server of `weftline probe`.
#[derive(Debug)]
pub struct Server {
    config: ServerConfig,
    cookies: hmac::Key,
    clients: BTreeMap<SocketAddr, Served>,
    /// Sessions that are over, and since when.
    ended: VecDeque<(u64, Instant)>,
    /// How often a source was refused in the second that began then.
    refused: BTreeMap<IpAddr, (Instant, u32)>,
    /// Refusals told in the second that began then.
    told: (Instant, u32),
    farewells: VecDeque<(Route, Vec<u8>)>,
    events: VecDeque<ServerEvent>,
    stats: Stats,
}

impl Server {
    /// A server whose cookies are made with `seed`, which nobody else knows.
    pub fn new(config: ServerConfig, seed: &[u8; 32]) -> Self {
        Self {
            config,
            cookies: hmac::Key::new(hmac::HMAC_SHA256, seed),
            clients: BTreeMap::new(),
            ended: VecDeque::new(),
            refused: BTreeMap::new(),
            told: (Instant::ZERO, 0),
            farewells: VecDeque::new(),
            events: VecDeque::new(),
            stats: Stats::default(),
        }
    }

    /// What it has seen so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Sessions that are open.
    pub fn clients(&self) -> usize {
        self.clients.len()
    }

    /// Takes a datagram; the answer to it, if there is one.
    pub fn handle(
        &mut self,
        route: Route,
        bytes: &[u8],
        stamp: Stamp,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let Ok(decoded) = Packet::decode(bytes) else {
            self.stats.malformed += 1;
            return None;
        };
        match &decoded.packet {
            Packet::Hello => {
                let cookie = self.cookie(route.client, decoded.session, slot(now));
                Some(encode(&Packet::Challenge(cookie), decoded.session, None))
            }
            Packet::Start(cookie, ask) => self.start(route, &decoded, cookie, ask, now),
            _ => {
                self.handle_peer(route.client, &decoded, bytes.len(), stamp, now);
                None
            }
        }
    }

    fn handle_peer(
        &mut self,
        from: SocketAddr,
        decoded: &Decoded<'_>,
        length: usize,
        stamp: Stamp,
        now: Instant,
    ) {
        let Some(served) = self.clients.get_mut(&from) else {
            // The end is said twice, and reports may come after it.
            let was_open = self.ended.iter().any(|(ended, _)| *ended == decoded.session);
            self.stats.stray += u64::from(!was_open);
            return;
        };
        match served.peer.handle(decoded, length, stamp, now) {
            Heard::Forged => self.stats.forged += 1,
            Heard::End(reason) => self.close(from, reason, now),
            Heard::Results(_) | Heard::Other => {}
        }
        if let Some(served) = self.clients.get_mut(&from) {
            served.drain();
        }
    }

    /// A client says what it wants.
    fn start(
        &mut self,
        route: Route,
        decoded: &Decoded<'_>,
        cookie: &Cookie,
        ask: &Ask,
        now: Instant,
    ) -> Option<Vec<u8>> {
        let session = decoded.session;
        let age = slot(now).wrapping_sub(cookie.slot);
        if age > 1 || *cookie != self.cookie(route.client, session, cookie.slot) {
            self.stats.stray += 1;
            return None;
        }
        if let Some(served) = self.clients.get(&route.client)
            && served.peer.session() == session
        {
            // Its answer was lost.
            let ours = decoded.is_by(served.peer.key());
            return ours.then(|| encode(&Packet::Accept, session, Some(served.peer.key())));
        }
        self.ended.retain(|(_, at)| now.since(*at) <= 2 * SLOT);
        if self.ended.iter().any(|(ended, _)| *ended == session) {
            self.stats.stray += 1;
            return None;
        }
        if !self.listens_to(source(route.client), now) {
            self.stats.stray += 1;
            return None;
        }
        let answer = match self.admit(route.client, decoded, cookie, ask) {
            Ok(key) => {
                let answer = encode(&Packet::Accept, session, Some(&key));
                self.open(route, session, key, ask, now);
                answer
            }
            Err(reason) => {
                self.stats.refused += 1;
                self.count_refusal(source(route.client), now);
                if now.since(self.told.0) >= Duration::from_secs(1) {
                    self.told = (now, 0);
                }
                self.told.1 += 1;
                if self.told.1 <= TOLD {
                    self.tell(ServerEvent::Refused(route.client, reason));
                }
                encode(&Packet::Refusal(reason), session, None)
            }
        };
        Some(answer)
    }

    /// Whether a client may measure, and the key of its session.
    fn admit(
        &mut self,
        client: SocketAddr,
        decoded: &Decoded<'_>,
        cookie: &Cookie,
        ask: &Ask,
    ) -> Result<Key, Reason> {
        let key = |secret| Key::new(secret, decoded.session, cookie);
        let found = match self.config.secrets.is_empty() {
            true => Some(key(None)).filter(|key| decoded.is_by(key)),
            false => {
                // All are tried, whatever fits: how long it takes tells nothing.
                let keys = self.config.secrets.iter().map(|secret| key(Some(secret)));
                keys.fold(None, |found, key| if decoded.is_by(&key) { Some(key) } else { found })
            }
        };
        let Some(key) = found else {
            self.stats.forged += 1;
            return Err(Reason::Token);
        };
        let ServerConfig { clients, clients_per_source, max_rate, max_duration, .. } = self.config;
        if ask.rate() > max_rate {
            let kbps = max_rate.as_bps() / 1000;
            return Err(Reason::Rate(u32::try_from(kbps).unwrap_or(u32::MAX)));
        }
        if ask.duration > max_duration {
            let seconds = u32::try_from(max_duration.as_secs()).unwrap_or(u32::MAX);
            return Err(Reason::Duration(seconds));
        }
        // One that starts anew from its address takes its own place.
        let others = || self.clients.keys().filter(|other| **other != client);
        let near = others().filter(|other| source(**other) == source(client)).count();
        if others().count() >= clients || near >= clients_per_source {
            return Err(Reason::Busy);
        }
        Ok(key)
    }

    /// Whether the starts of `source` are looked at.
    fn listens_to(&self, source: IpAddr, now: Instant) -> bool {
        let Some((since, count)) = self.refused.get(&source) else { return true };
        *count < REFUSALS || now.since(*since) >= Duration::from_secs(1)
    }

    fn count_refusal(&mut self, source: IpAddr, now: Instant) {
        if self.refused.len() == REFUSED_MAX && !self.refused.contains_key(&source) {
            let oldest = self.refused.iter().min_by_key(|(_, (since, _))| *since);
            if let Some(oldest) = oldest.map(|(source, _)| *source) {
                self.refused.remove(&oldest);
            }
        }
        let (since, count) = self.refused.entry(source).or_insert((now, 0));
        if now.since(*since) >= Duration::from_secs(1) {
            (*since, *count) = (now, 0);
        }
        *count += 1;
    }

    fn open(&mut self, route: Route, session: u64, key: Key, ask: &Ask, now: Instant) {
        if self.clients.contains_key(&route.client) {
            self.close(route.client, Reason::Done, now);
        }
        let ways = [ask.direction.has_down(), ask.direction.has_up()];
        let peer = Peer::new(session, key, ask, route.client, ways, now);
        let ends = now + ask.duration;
        self.clients.insert(route.client, Served { route, peer, ends, trains: 0 });
        self.stats.opened += 1;
        self.tell(ServerEvent::Opened(route.client, *ask));
    }

    fn close(&mut self, client: SocketAddr, reason: Reason, now: Instant) {
        let Some(served) = self.clients.remove(&client) else { return };
        if self.ended.len() == ENDED_MAX {
            self.ended.pop_front();
        }
        self.ended.push_back((served.peer.session(), now));
        let trains = served.peer.pacer.as_ref().map_or(served.trains, super::Pacer::trains);
        self.tell(ServerEvent::Closed(client, reason, trains));
    }

    /// Ends a session, and tells the client why.
    fn say_farewell(&mut self, client: SocketAddr, reason: Reason, now: Instant) {
        if let Some(served) = self.clients.get(&client) {
            let (session, key) = (served.peer.session(), served.peer.key());
            let farewell = encode(&Packet::End(reason), session, Some(key));
            self.farewells.push_back((served.route, farewell));
        }
        self.close(client, reason, now);
    }

    /// The client's packets do not leave this machine: they are larger than its interface takes.
    pub fn too_big(&mut self, client: SocketAddr, now: Instant) {
        self.say_farewell(client, Reason::Size(0), now);
    }

    /// Ends all sessions.
    pub fn stop(&mut self, now: Instant) {
        while let Some(client) = self.clients.keys().next().copied() {
            self.say_farewell(client, Reason::Stopped, now);
        }
    }

    fn tell(&mut self, event: ServerEvent) {
        // Nobody listens who lets so many wait.
        if self.events.len() < ENDED_MAX {
            self.events.push_back(event);
        }
    }

    /// What there is to tell.
    pub fn poll_event(&mut self) -> Option<ServerEvent> {
        self.events.pop_front()
    }

    /// When [`Server::handle_timeout`] or [`Server::poll_transmit`] is due.
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.clients.values().filter_map(Served::due).min()
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut over = Vec::new();
        for (client, served) in &mut self.clients {
            served.peer.handle_timeout(now);
            served.drain();
            // What is on its way comes yet, and the client says when it is over.
            if served.ends <= now
                && let Some(pacer) = served.peer.pacer.take()
            {
                served.trains = pacer.trains();
            }
            if served.ends + GRACE <= now {
                over.push((*client, Reason::Done));
            } else if served.peer.heard + SILENCE <= now {
                over.push((*client, Reason::Silent));
            }
        }
        for (client, reason) in over {
            self.say_farewell(client, reason, now);
        }
    }

    /// Writes what is to be sent now to `out`, which is empty; where to.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<(Route, Shape)> {
        if let Some((route, farewell)) = self.farewells.pop_front() {
            out.extend_from_slice(&farewell);
            return Some((route, Shape { segment: out.len(), together: true }));
        }
        let mut clients = self.clients.values_mut();
        clients.find_map(|served| Some((served.route, served.peer.poll_transmit(now, out)?)))
    }

    fn cookie(&self, client: SocketAddr, session: u64, slot: u32) -> Cookie {
        let mut context = hmac::Context::with_key(&self.cookies);
        match client.ip() {
            IpAddr::V4(ip) => context.update(&ip.octets()),
            IpAddr::V6(ip) => context.update(&ip.octets()),
        }
        context.update(&client.port().to_be_bytes());
        context.update(&session.to_be_bytes());
        context.update(&slot.to_be_bytes());
        let mut mac = [0; 16];
        mac.copy_from_slice(&context.sign().as_ref()[..16]);
        Cookie { slot, mac }
    }
}

impl Served {
    fn due(&self) -> Option<Instant> {
        let over = [self.ends + GRACE, self.peer.heard + SILENCE];
        // Until then its trains go; after it there are none.
        let ends = self.peer.pacer.is_some().then_some(self.ends);
        self.peer.poll_timeout().into_iter().chain(over).chain(ends).min()
    }

    /// The client is told of its trains by reports; here nobody wants the samples.
    fn drain(&mut self) {
        if let Some(collector) = &mut self.peer.collector {
            while collector.poll_sample().is_some() {}
        }
    }
}

fn encode(packet: &Packet, session: u64, key: Option<&Key>) -> Vec<u8> {
    let mut out = Vec::new();
    packet.encode(session, key, &mut out);
    out
}

/// What one customer has.
fn source(client: SocketAddr) -> IpAddr {
    match client.ip().to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

/// The period that `now` is in; 1,000 years of them have a number.
fn slot(now: Instant) -> u32 {
    u32::try_from(now.as_nanos() / weftline_core::time::nanos(SLOT)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAMP: Stamp = Stamp { at: Instant::ZERO, steps: Some(0) };

    fn route(address: &str) -> Route {
        Route { client: address.parse().unwrap(), local: None }
    }

    fn hello(server: &mut Server, from: &str, session: u64, now: Instant) -> Cookie {
        let hello = encode(&Packet::Hello, session, None);
        let answer = server.handle(route(from), &hello, STAMP, now).unwrap();
        assert!(answer.len() < hello.len());
        match Packet::decode(&answer).unwrap().packet {
            Packet::Challenge(cookie) => cookie,
            other => panic!("{other:?}"),
        }
    }

    /// Says start with `cookie`; the answer.
    fn start(
        server: &mut Server,
        from: &str,
        session: u64,
        cookie: Cookie,
        now: Instant,
    ) -> Option<Packet> {
        let key = Key::new(None, session, &cookie);
        let start = encode(&Packet::Start(cookie, Ask::default()), session, Some(&key));
        let answer = server.handle(route(from), &start, STAMP, now)?;
        assert!(answer.len() < start.len());
        Some(Packet::decode(&answer).unwrap().packet)
    }

    #[test]
    fn a_cookie_is_for_one_address_one_session_and_a_short_time() {
        let mut server = Server::new(ServerConfig::default(), &[1; 32]);
        let now = Instant::from_millis(100_000);
        let cookie = hello(&mut server, "192.0.2.1:1000", 5, now);
        for (from, session, later) in [
            ("192.0.2.1:1001", 5, 0),
            ("192.0.2.2:1000", 5, 0),
            ("[2001:db8::1]:1000", 5, 0),
            ("192.0.2.1:1000", 6, 0),
            ("192.0.2.1:1000", 5, 17),
        ] {
            let later = now + Duration::from_secs(later);
            assert_eq!(start(&mut server, from, session, cookie, later), None, "{from} {session}");
        }
        assert_eq!(server.stats(), Stats { stray: 5, ..Stats::default() });
        let mut again = || start(&mut server, "192.0.2.1:1000", 5, cookie, now);
        assert_eq!([again(), again()], [Some(Packet::Accept), Some(Packet::Accept)]);
        assert_eq!((server.clients(), server.stats().opened), (1, 1));
        // Another server makes others.
        let mut other = Server::new(ServerConfig::default(), &[2; 32]);
        assert_eq!(start(&mut other, "192.0.2.1:1000", 5, cookie, now), None);
    }

    #[test]
    fn a_session_that_is_over_is_not_opened_again_by_what_was_recorded() {
        let mut server = Server::new(ServerConfig::default(), &[1; 32]);
        let (now, from) = (Instant::from_millis(1000), "192.0.2.1:1000");
        let cookie = hello(&mut server, from, 5, now);
        assert_eq!(start(&mut server, from, 5, cookie, now), Some(Packet::Accept));
        let key = Key::new(None, 5, &cookie);
        let end = encode(&Packet::End(Reason::Done), 5, Some(&key));
        server.handle(route(from), &end, STAMP, now);
        assert_eq!(server.clients(), 0);
        assert_eq!(start(&mut server, from, 5, cookie, now), None);
    }

    #[test]
    fn one_source_gets_half_and_all_get_no_more_than_there_is() {
        let config = ServerConfig { clients: 4, clients_per_source: 2, ..ServerConfig::default() };
        let mut server = Server::new(config, &[1; 32]);
        let now = Instant::from_millis(1000);
        let mut answers = Vec::new();
        for (number, from) in [
            "192.0.2.1:1",
            "192.0.2.1:2",
            "192.0.2.1:3",
            "[2001:db8::1]:1",
            "[2001:db8::2]:1",
            "[2001:db8::3]:1",
            "192.0.2.9:1",
        ]
        .iter()
        .enumerate()
        {
            let session = number as u64;
            let cookie = hello(&mut server, from, session, now);
            answers.push(start(&mut server, from, session, cookie, now) == Some(Packet::Accept));
        }
        assert_eq!(answers, [true, true, false, true, true, false, false]);
        server.stop(now);
        let mut out = Vec::new();
        let mut told = 0;
        while server.poll_transmit(now, &mut out).is_some() {
            assert_eq!(Packet::decode(&out).unwrap().packet, Packet::End(Reason::Stopped));
            out.clear();
            told += 1;
        }
        assert_eq!((told, server.clients()), (4, 0));
    }

    #[test]
    fn a_flood_of_wrong_tokens_costs_little_and_keeps_nobody_else_out() {
        let config = ServerConfig { secrets: vec![[7; 32]], ..ServerConfig::default() };
        let mut server = Server::new(config, &[1; 32]);
        let now = Instant::from_millis(1000);
        let mut answered = 0;
        for session in 0..1000 {
            let cookie = hello(&mut server, "192.0.2.1:1", session, now);
            let answer = start(&mut server, "192.0.2.1:1", session, cookie, now);
            assert!(answer.is_none() || answer == Some(Packet::Refusal(Reason::Token)));
            answered += u32::from(answer.is_some());
        }
        assert_eq!(answered, REFUSALS);
        let cookie = hello(&mut server, "192.0.2.2:1", 5, now);
        let key = Key::new(Some(&[7; 32]), 5, &cookie);
        let start = encode(&Packet::Start(cookie, Ask::default()), 5, Some(&key));
        assert!(server.handle(route("192.0.2.2:1"), &start, STAMP, now).is_some());
        assert_eq!(server.clients(), 1);
        for n in 0..5000_u32 {
            server.count_refusal(std::net::Ipv4Addr::from(n).into(), now);
        }
        assert_eq!(server.refused.len(), REFUSED_MAX);
    }

    #[test]
    fn an_address_that_goes_silent_gets_a_train_and_small_packets_for_half_a_minute() {
        let mut server = Server::new(ServerConfig::default(), &[1; 32]);
        let (mut now, from) = (Instant::from_millis(1000), "192.0.2.1:1000");
        let cookie = hello(&mut server, from, 5, now);
        start(&mut server, from, 5, cookie, now);
        let (mut bytes, mut out) = (0, Vec::new());
        while server.clients() > 0 {
            server.handle_timeout(now);
            while server.poll_transmit(now, &mut out).is_some() {
                bytes += out.len();
                out.clear();
            }
            now = server.poll_timeout().unwrap_or(now).max(now);
            assert!(now < Instant::from_millis(60_000));
        }
        assert!((44_000..90_000).contains(&bytes), "{bytes}");
    }
}
