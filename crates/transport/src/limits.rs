//! What peers may do at once, and the counts that hold them to it.
//!
//! Everything here is counted before or while a peer is admitted, under one short lock of its own:
//! nothing that a connection does can hold it up.

use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use weftline_core::Instant;

use crate::error::Error;
use crate::fingerprint::Fingerprint;

/// Addresses whose failed attempts are remembered; with more, those nearest to forgiveness go.
const MAX_FAILING: usize = 4096;
/// Clients that are known to come from an address; with more, those that came longest ago go.
const MAX_KNOWN: usize = 4096;
/// How long nothing is said of a client that comes again.
const NOTE_TIME: Duration = Duration::from_secs(60);
/// The time in which [`Limits::failures_per_source`] are counted.
const FAILURE_TIME: Duration = Duration::from_secs(60);

/// How much a server lets peers do. A source is an IPv4 address or an IPv6 network of 64 bits,
/// which is what one customer has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Handshakes under way at once. With more, the oldest of the source that has most of them is
    /// given up.
    pub handshakes: usize,
    /// Handshakes under way at once from one source. With more, its oldest is given up.
    pub handshakes_per_source: usize,
    /// How long a handshake may take.
    pub handshake_timeout: Duration,
    /// Open connections.
    pub sessions: usize,
    /// Open connections whose first subflow came from one source.
    pub sessions_per_source: usize,
    /// Open connections of one client, known by its token or certificate.
    pub sessions_per_client: usize,
    /// How long the client of a new connection may say nothing before it has answered. Where a limit
    /// is reached, or memory used up, connections make room whose clients have not answered: the
    /// oldest that have been silent for so long, of the source that has most of them, and whatever
    /// their age those of a source or network that has too many.
    pub answer_time: Duration,
    /// Wrong tokens from one source in a minute. After more, only those clients of the source are
    /// admitted until the minute is over that have been admitted from there before; open
    /// connections are not touched.
    pub failures_per_source: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshakes: 256,
            handshakes_per_source: 64,
            handshake_timeout: Duration::from_secs(5),
            sessions: 4096,
            sessions_per_source: 1024,
            sessions_per_client: 1024,
            answer_time: Duration::from_secs(2),
            failures_per_source: 10,
        }
    }
}

impl Limits {
    /// Refuses limits that admit nobody.
    ///
    /// # Errors
    /// [`Error::Invalid`], naming the limit.
    pub(crate) fn check(&self) -> Result<(), Error> {
        for (name, limit) in [
            ("handshakes", self.handshakes),
            ("handshakes per source", self.handshakes_per_source),
            ("sessions", self.sessions),
            ("sessions per source", self.sessions_per_source),
            ("sessions per client", self.sessions_per_client),
            ("failures per source", self.failures_per_source as usize),
        ] {
            if limit == 0 {
                return Err(Error::Invalid(format!("a limit of 0 {name} lets nobody in")));
            }
        }
        if self.handshake_timeout.is_zero() {
            return Err(Error::Invalid("a handshake timeout of 0 lets nobody in".to_owned()));
        }
        Ok(())
    }
}

/// Where a peer comes from, as far as it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source(IpAddr);

impl Source {
    /// The network of so many bits that it lies in, 64 or fewer, if it is of IPv6.
    pub(crate) fn network(self, bits: u8) -> Self {
        match self.0 {
            IpAddr::V6(v6) => Self(IpAddr::V6((v6.to_bits() & !(u128::MAX >> bits)).into())),
            IpAddr::V4(_) => self,
        }
    }
}

impl From<IpAddr> for Source {
    fn from(address: IpAddr) -> Self {
        Self(match address.to_canonical() {
            IpAddr::V6(v6) => return Self(IpAddr::V6(v6)).network(64),
            v4 @ IpAddr::V4(_) => v4,
        })
    }
}

/// Who a client is, as far as it has shown that.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClientId {
    /// The server asks for nothing.
    Anybody,
    /// The holder of a certificate.
    Certificate(Fingerprint),
    /// The holder of a token: its name, and a hash of its secret.
    Token(Arc<str>, Fingerprint),
}

impl ClientId {
    /// Its name for people.
    pub(crate) fn name(&self) -> Option<String> {
        match self {
            Self::Anybody => None,
            Self::Certificate(fingerprint) => Some(fingerprint.to_string()),
            Self::Token(name, _) => Some(name.to_string()),
        }
    }

    /// Whether both are counted as one client.
    pub(crate) fn is_counted_as(&self, other: &Self) -> bool {
        self.counted() == other.counted()
    }

    /// As what it is counted: a client that changes its token stays who it is.
    fn counted(&self) -> Option<Counted> {
        match self {
            Self::Anybody => None,
            Self::Certificate(fingerprint) => Some(Counted::Certificate(*fingerprint)),
            Self::Token(name, _) => Some(Counted::Token(Arc::clone(name))),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Counted {
    Certificate(Fingerprint),
    Token(Arc<str>),
}

impl fmt::Display for Counted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Certificate(fingerprint) => fingerprint.fmt(f),
            Self::Token(name) => write!(f, "'{name}'"),
        }
    }
}

/// Why somebody has to wait.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Full {
    #[error(transparent)]
    Memory(Error),
    #[error("too many connections; try again later")]
    Sessions,
    #[error("too many connections from this address; try again later")]
    SourceSessions,
    #[error("too many connections of this client; try again later")]
    ClientSessions,
    #[error("too many wrong tokens from this address; try again in a minute")]
    Failures,
}

/// Admission control: counts the clients that are being admitted, and those that are.
pub(crate) struct Admission {
    limits: Limits,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    sources: BTreeMap<Source, OfSource>,
    clients: BTreeMap<Counted, usize>,
    handshakes: usize,
    sessions: usize,
    next_handshake: u64,
    /// When a source's failed attempts are all forgotten; each moves that further away.
    failing: BTreeMap<Source, Instant>,
    /// Which clients were admitted from where, and when last, as a number that only grows.
    known: BTreeMap<(Source, ClientId), u64>,
    next_known: u64,
    /// Who was said to have come, and when.
    noted: BTreeMap<Counted, Instant>,
}

#[derive(Default)]
struct OfSource {
    /// Handshakes under way, oldest first, and what tells each to give up.
    handshakes: VecDeque<(u64, Arc<Notify>)>,
    sessions: usize,
}

impl Admission {
    pub(crate) fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self { limits, counts: Mutex::default() })
    }

    pub(crate) const fn limits(&self) -> &Limits {
        &self.limits
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().expect("counting does not panic")
    }

    /// Counts a handshake while the result lives. When its source has too many, its oldest makes
    /// room; when there are too many in all, the oldest of the source with most of them does: a flood
    /// keeps nobody out who is quick, whether behind the same address or elsewhere.
    pub(crate) fn handshake(self: &Arc<Self>, source: Source) -> Handshake {
        let mut counts = self.counts();
        let of_source = counts.sources.get(&source).map_or(0, |of| of.handshakes.len());
        if of_source >= self.limits.handshakes_per_source {
            counts.give_up_oldest(source);
        } else if counts.handshakes >= self.limits.handshakes {
            let oldest = |of: &OfSource| of.handshakes.front().map(|(number, _)| Reverse(*number));
            let most =
                counts.sources.iter().max_by_key(|(_, of)| (of.handshakes.len(), oldest(of)));
            let most = most.map(|(&source, _)| source);
            most.into_iter().for_each(|source| counts.give_up_oldest(source));
        }
        let number = counts.next_handshake;
        counts.next_handshake += 1;
        counts.handshakes += 1;
        let given_up = Arc::new(Notify::new());
        let of = counts.sources.entry(source).or_default();
        of.handshakes.push_back((number, Arc::clone(&given_up)));
        drop(counts);
        Handshake { admission: Arc::clone(self), source, number, given_up }
    }

    /// Counts a connection while the result lives: looking and taking are one step, however many
    /// ask at once.
    ///
    /// # Errors
    /// There are too many, of the source, of the client or in all.
    pub(crate) fn session(
        self: &Arc<Self>,
        source: Source,
        client: &ClientId,
    ) -> Result<SessionPlace, Full> {
        let (mut counts, client) = (self.counts(), client.counted());
        if let Some(full) = counts.reached(&self.limits, source, client.as_ref()).last() {
            return Err(full);
        }
        let is_first = client.as_ref().is_some_and(|client| {
            let of_client = counts.clients.entry(client.clone()).or_default();
            *of_client += 1;
            *of_client == 1
        });
        counts.sessions += 1;
        counts.sources.entry(source).or_default().sessions += 1;
        drop(counts);
        Ok(SessionPlace { admission: Arc::clone(self), source, client, is_first })
    }

    /// The limits that keep a connection of `client` at `source` out, the narrowest first.
    pub(crate) fn reached(&self, source: Source, client: &ClientId) -> Vec<Full> {
        self.counts().reached(&self.limits, source, client.counted().as_ref()).collect()
    }

    /// Notes that at `now` somebody at `source` has shown the token of `client`, or a wrong one.
    /// While too many were wrong, only a client that was admitted from there before is admitted:
    /// guessing tells nothing, and locks out no client that comes often.
    ///
    /// # Errors
    /// Too many were wrong.
    pub(crate) fn evaluate_token(
        &self,
        source: Source,
        client: Option<&ClientId>,
        now: Instant,
    ) -> Result<(), Full> {
        let mut counts = self.counts();
        let forgotten = counts.failing.get(&source).copied();
        let wait = forgotten.map_or(Duration::ZERO, |at| at.since(now));
        let is_blocked = wait > FAILURE_TIME - self.failure_cost();
        match client {
            Some(client) => counts.note_known(source, client, is_blocked),
            None if is_blocked => Err(Full::Failures),
            None => {
                counts.note_failed(source, now, self.failure_cost());
                Ok(())
            }
        }
    }

    /// What one failed attempt takes of the time.
    fn failure_cost(&self) -> Duration {
        FAILURE_TIME / self.limits.failures_per_source.max(1)
    }
}

impl Counts {
    /// As [`Admission::reached`].
    fn reached(
        &self,
        limits: &Limits,
        source: Source,
        client: Option<&Counted>,
    ) -> impl Iterator<Item = Full> + use<> {
        let of_client = client.and_then(|client| self.clients.get(client)).copied().unwrap_or(0);
        let of_source = self.sources.get(&source).map_or(0, |of| of.sessions);
        let reached = [
            (of_client, limits.sessions_per_client, Full::ClientSessions),
            (of_source, limits.sessions_per_source, Full::SourceSessions),
            (self.sessions, limits.sessions, Full::Sessions),
        ];
        reached.into_iter().filter(|(count, most, _)| count >= most).map(|(.., full)| full)
    }

    /// Somebody at `source` has shown the token of `client`.
    fn note_known(
        &mut self,
        source: Source,
        client: &ClientId,
        is_blocked: bool,
    ) -> Result<(), Full> {
        let key = (source, client.clone());
        if let Some(number) = self.known.get_mut(&key) {
            *number = self.next_known;
            self.next_known += 1;
            return Ok(());
        }
        if is_blocked {
            return Err(Full::Failures);
        }
        if self.known.len() >= MAX_KNOWN {
            let first = self.known.iter().min_by_key(|(_, number)| **number);
            let first = first.map(|(key, _)| key.clone());
            first.into_iter().for_each(|key| _ = self.known.remove(&key));
        }
        self.known.insert(key, self.next_known);
        self.next_known += 1;
        Ok(())
    }

    /// Whether a client that has come is to be told of.
    fn note_arrival(&mut self, client: &Counted, now: Instant) -> bool {
        self.noted.retain(|_, at| now.since(*at) < NOTE_TIME);
        if self.noted.len() >= MAX_KNOWN || self.noted.contains_key(client) {
            return false;
        }
        self.noted.insert(client.clone(), now);
        true
    }

    fn note_failed(&mut self, source: Source, now: Instant, cost: Duration) {
        let failing = &mut self.failing;
        if failing.len() >= MAX_FAILING && !failing.contains_key(&source) {
            failing.retain(|_, forgotten| *forgotten > now);
            let next = failing.iter().min_by_key(|(_, forgotten)| **forgotten);
            if failing.len() >= MAX_FAILING
                && let Some(next) = next.map(|(&next, _)| next)
            {
                failing.remove(&next);
            }
        }
        let forgotten = failing.entry(source).or_insert(now);
        *forgotten = (*forgotten).max(now) + cost;
    }

    fn give_up_oldest(&mut self, source: Source) {
        let Some(of) = self.sources.get_mut(&source) else { return };
        if let Some((_, given_up)) = of.handshakes.pop_front() {
            given_up.notify_one();
            self.handshakes -= 1;
        }
        self.forget_empty(source);
    }

    fn forget_empty(&mut self, source: Source) {
        let is_empty = |of: &OfSource| of.handshakes.is_empty() && of.sessions == 0;
        if self.sources.get(&source).is_some_and(is_empty) {
            self.sources.remove(&source);
        }
    }
}

/// A handshake that is counted.
pub(crate) struct Handshake {
    admission: Arc<Admission>,
    source: Source,
    number: u64,
    given_up: Arc<Notify>,
}

impl Handshake {
    /// Waits until the handshake has to make room for another.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut counts = self.admission.counts();
        let Some(of) = counts.sources.get_mut(&self.source) else { return };
        if let Some(at) = of.handshakes.iter().position(|(number, _)| *number == self.number) {
            of.handshakes.remove(at);
            counts.handshakes -= 1;
        }
        counts.forget_empty(self.source);
    }
}

/// A connection that is counted.
pub(crate) struct SessionPlace {
    admission: Arc<Admission>,
    source: Source,
    client: Option<Counted>,
    is_first: bool,
}

impl SessionPlace {
    /// The client, if this was its only connection when it was counted. Of those only that have shown who
    /// they are: strangers must not fill the log.
    pub(crate) fn arrival(&self) -> Option<Arrival> {
        let client = self.client.clone().filter(|_| self.is_first)?;
        Some(Arrival { admission: Arc::clone(&self.admission), client })
    }
}

/// A client that had no connection before.
pub(crate) struct Arrival {
    admission: Arc<Admission>,
    client: Counted,
}

impl Arrival {
    /// Says so at `now` in the log, but nothing for a minute after that: some programs open one connection
    /// after the other.
    pub(crate) fn log(self, peer: IpAddr, now: Instant) {
        if self.admission.counts().note_arrival(&self.client, now) {
            tracing::info!("client {} has come, from {}", self.client, peer);
        }
    }
}

impl Drop for SessionPlace {
    fn drop(&mut self) {
        let mut counts = self.admission.counts();
        counts.sessions -= 1;
        if let Some(of) = counts.sources.get_mut(&self.source) {
            of.sessions -= 1;
        }
        counts.forget_empty(self.source);
        if let Some(client) = self.client.take()
            && let Some(of_client) = counts.clients.get_mut(&client)
        {
            *of_client -= 1;
            if *of_client == 0 {
                counts.clients.remove(&client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().unwrap().into()
    }

    fn token(name: &str) -> ClientId {
        ClientId::Token(name.into(), Fingerprint::of(name.as_bytes()))
    }

    fn is_given_up(handshake: &Handshake) -> bool {
        let mut waiting = std::pin::pin!(handshake.given_up());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        waiting.as_mut().poll(&mut context).is_ready()
    }

    #[test]
    fn one_customer_is_one_source_and_two_are_two() {
        assert_eq!(source("2001:db8::1"), source("2001:db8:0:0:ffff::9"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_ne!(source("::ffff:192.0.2.1"), source("::ffff:192.0.2.2"));
    }

    #[test]
    fn a_flood_displaces_itself() {
        let limits = Limits { handshakes: 4, handshakes_per_source: 3, ..Limits::default() };
        let admission = Admission::new(limits);
        let (flood, other) = (source("192.0.2.1"), source("192.0.2.2"));
        // Behind its own address, too: who is quick there comes in.
        let slow: Vec<_> = (0..4).map(|_| admission.handshake(flood)).collect();
        assert_eq!(admission.counts().handshakes, 3, "one source's, though there is room for more");
        let first = admission.handshake(other);
        let second = admission.handshake(other);
        assert_eq!(slow.iter().map(is_given_up).collect::<Vec<_>>(), [true, true, false, false]);
        assert!(!is_given_up(&first) && !is_given_up(&second));
        // What was given up has given its place back once only.
        drop(slow);
        assert_eq!(admission.counts().handshakes, 2);
        drop((first, second));
        assert!(admission.counts().sources.is_empty() && admission.counts().handshakes == 0);
    }

    #[test]
    fn among_many_that_have_one_each_the_oldest_goes() {
        let admission = Admission::new(Limits { handshakes: 3, ..Limits::default() });
        let from = |last: u8| admission.handshake(source(&format!("192.0.2.{last}")));
        let all = [5, 9, 1, 7, 3].map(from);
        assert_eq!(all.each_ref().map(is_given_up), [true, true, false, false, false]);
    }

    #[test]
    fn connections_are_counted_by_source_by_client_and_in_all() {
        let limits = Limits {
            sessions: 4,
            sessions_per_source: 2,
            sessions_per_client: 2,
            ..Limits::default()
        };
        let admission = Admission::new(limits);
        let (a, b, c) = (source("192.0.2.1"), source("192.0.2.2"), source("192.0.2.3"));
        let one = admission.session(a, &token("alice")).unwrap();
        let _two = admission.session(a, &token("bob")).unwrap();
        assert!(matches!(admission.session(a, &token("carol")), Err(Full::SourceSessions)));
        let _three = admission.session(b, &token("alice")).unwrap();
        assert!(matches!(admission.session(b, &token("alice")), Err(Full::ClientSessions)));
        let _four = admission.session(b, &ClientId::Anybody).unwrap();
        assert!(matches!(admission.session(c, &token("dave")), Err(Full::Sessions)));
        drop(one);
        let _five = admission.session(c, &token("alice")).unwrap();
        // Refusals leave nothing behind.
        assert_eq!(admission.counts().clients.len(), 2);
        assert_eq!(admission.counts().sessions, 4);
    }

    #[test]
    fn a_client_that_comes_is_told_of_once_a_minute() {
        let admission = Admission::new(Limits::default());
        let (here, start) = (source("192.0.2.1"), Instant::ZERO);
        let come = |name: &str| admission.session(here, &token(name)).unwrap();
        let is_noted = |place: &SessionPlace, now| {
            place.arrival().is_some_and(|one| admission.counts().note_arrival(&one.client, now))
        };
        let first = come("alice");
        let second = come("alice");
        assert!(!is_noted(&second, start), "it was here already");
        assert!(is_noted(&first, start), "whoever looks first");
        drop((first, second));
        assert!(!is_noted(&come("alice"), start + NOTE_TIME / 2));
        assert!(is_noted(&come("bob"), start + NOTE_TIME / 2));
        assert!(is_noted(&come("alice"), start + NOTE_TIME));
        let stranger = admission.session(here, &ClientId::Anybody).unwrap();
        assert!(!is_noted(&stranger, start));
    }

    #[test]
    fn wrong_tokens_are_forgiven_one_by_one() {
        let admission = Admission::new(Limits { failures_per_source: 3, ..Limits::default() });
        let (guesser, other) = (source("192.0.2.1"), source("192.0.2.2"));
        let start = Instant::ZERO;
        for _ in 0..3 {
            assert!(admission.evaluate_token(guesser, None, start).is_ok());
        }
        assert!(matches!(admission.evaluate_token(guesser, None, start), Err(Full::Failures)));
        assert!(admission.evaluate_token(other, None, start).is_ok());
        let later = start + FAILURE_TIME / 3;
        assert!(admission.evaluate_token(guesser, None, later).is_ok());
        assert!(matches!(admission.evaluate_token(guesser, None, later), Err(Full::Failures)));
        assert!(admission.evaluate_token(guesser, None, later + FAILURE_TIME).is_ok());
    }

    #[test]
    fn a_client_that_came_before_from_an_address_is_admitted_however_many_guess_there() {
        let admission = Admission::new(Limits { failures_per_source: 3, ..Limits::default() });
        let (here, there) = (source("192.0.2.1"), source("192.0.2.2"));
        let now = Instant::ZERO;
        assert!(admission.evaluate_token(here, Some(&token("alice")), now).is_ok());
        assert!(admission.evaluate_token(there, Some(&token("bob")), now).is_ok());
        for _ in 0..10 {
            let _ = admission.evaluate_token(here, None, now);
        }
        assert!(admission.evaluate_token(here, Some(&token("alice")), now).is_ok());
        // A right guess is told from a wrong one as little as before.
        assert!(matches!(
            admission.evaluate_token(here, Some(&token("bob")), now),
            Err(Full::Failures)
        ));
        for number in 0..2 * MAX_KNOWN {
            let _ = admission.evaluate_token(there, Some(&token(&number.to_string())), now);
            // Who keeps coming is not forgotten, however long ago it came first.
            if number % (MAX_KNOWN / 2) == 0 {
                assert!(admission.evaluate_token(here, Some(&token("alice")), now).is_ok());
            }
        }
        assert!(admission.counts().known.len() <= MAX_KNOWN);
    }

    #[test]
    fn the_memory_of_failures_is_bounded_and_keeps_the_worst() {
        let admission = Admission::new(Limits::default());
        let worst = source("192.0.2.1");
        for _ in 0..10 {
            let _ = admission.evaluate_token(worst, None, Instant::ZERO);
        }
        for number in 0..2 * MAX_FAILING as u32 {
            let _ = admission.evaluate_token(
                IpAddr::from(number.to_be_bytes()).into(),
                None,
                Instant::ZERO,
            );
        }
        assert!(admission.counts().failing.len() <= MAX_FAILING);
        assert!(matches!(
            admission.evaluate_token(worst, None, Instant::ZERO),
            Err(Full::Failures)
        ));
    }

    #[test]
    fn limits_that_let_nobody_in_are_named() {
        let error = Limits { sessions: 0, ..Limits::default() }.check().unwrap_err();
        assert_eq!(error.to_string(), "a limit of 0 sessions lets nobody in");
        assert!(Limits::default().check().is_ok());
    }
}
