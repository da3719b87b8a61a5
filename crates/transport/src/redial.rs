//! When and where a dark path is dialled again.
//!
//! While a connection has traffic, a fresh TCP connection is begun every [`RACE_INTERVAL`] beside
//! those that have not been answered yet, so that the path's return is noticed within that time.
//! Of the connections of one client only one does so on a path; the others hear from it.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, SemaphorePermit, watch};
use weftline_core::Instant;
use weftline_core::rng::Rng;

use crate::client::Settings;
use crate::clock;
use crate::error::Error;
use crate::socket;

/// The time between two attempts on a dark path while there is traffic.
pub(crate) const RACE_INTERVAL: Duration = Duration::from_millis(200);
/// A connection counts as having traffic for so long after the last of it.
const BUSY_TIME: Duration = Duration::from_secs(30);
/// Waits between attempts without traffic: doubling from the first to the last, each up to a
/// quarter shorter.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// The resolver is asked again after this long; until it answers, its last answer holds.
const NAMES_TIME: Duration = Duration::from_secs(10);
/// How long the resolver may take.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Among so many attempts at the address that answered last is one at the others, too.
const OTHERS_EVERY: u64 = 4;

/// First attempts on one path at a time, of all connections of a client: a server takes up to 64
/// handshakes of one source, which may be that of several paths.
const MAX_ATTEMPTS: usize = 20;

/// What all connections of a client know of one path.
#[derive(Debug)]
pub(crate) struct PathKnowledge {
    /// Held by the connection that dials often.
    prober: Arc<Semaphore>,
    /// Changes when the server has answered on the path.
    answered: watch::Sender<()>,
    names: Mutex<Names>,
    /// The connections that may make their first attempt on the path now.
    attempts: Semaphore,
}

#[derive(Debug, Default)]
struct Names {
    addresses: Vec<SocketAddr>,
    /// When the resolver gave them.
    at: Instant,
    /// Whether it is being asked.
    asking: bool,
    /// The address that answered last.
    good: Option<SocketAddr>,
    dials: u64,
}

impl Default for PathKnowledge {
    fn default() -> Self {
        Self {
            prober: Arc::new(Semaphore::new(1)),
            answered: watch::Sender::new(()),
            names: Mutex::default(),
            attempts: Semaphore::new(MAX_ATTEMPTS),
        }
    }
}

impl PathKnowledge {
    /// Changes when the server answers on the path.
    pub(crate) fn answers(&self) -> watch::Receiver<()> {
        self.answered.subscribe()
    }

    fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().expect("nobody panics with it")
    }

    fn take_names(&self, found: Option<Vec<SocketAddr>>) {
        let mut names = self.names();
        names.asking = false;
        names.at = clock::now();
        if let Some(found) = found {
            names.addresses = found;
        }
    }
}

impl Names {
    /// The addresses to try now: the one that answered last, and now and then the others after it.
    fn candidates(&mut self) -> Vec<SocketAddr> {
        self.dials += 1;
        let Some(good) = self.good.filter(|good| self.addresses.contains(good)) else {
            return self.addresses.clone();
        };
        let mut all = vec![good];
        if self.dials.is_multiple_of(OTHERS_EVERY) {
            all.extend(self.addresses.iter().filter(|other| **other != good));
        }
        all
    }
}

impl PathKnowledge {
    /// Waits for a turn to make an attempt, but no longer than `limit`: on a dark path the
    /// attempts before it may all take their time.
    pub(crate) async fn turn(&self, limit: Duration) -> Option<SemaphorePermit<'_>> {
        let turn = tokio::time::timeout(limit, self.attempts.acquire()).await.ok()?;
        Some(turn.expect("never closed"))
    }
}

/// A TCP connection to the server on the path `index`.
///
/// # Errors
/// When the server's name has no address, or none of its addresses answers in time.
pub(crate) async fn dial(settings: &Arc<Settings>, index: usize) -> Result<TcpStream, Error> {
    let (path, server) = &settings.paths[index];
    let knowledge = &settings.knowledge[index];
    let (mut candidates, is_old) = {
        let mut names = knowledge.names();
        let is_old = clock::now().since(names.at) >= NAMES_TIME && !names.asking;
        names.asking |= is_old && !names.addresses.is_empty();
        (names.candidates(), is_old)
    };
    if candidates.is_empty() {
        candidates = server.resolve(&path.bind, RESOLVE_TIMEOUT).await?;
        knowledge.take_names(Some(candidates.clone()));
    } else if is_old {
        let settings = Arc::clone(settings);
        tokio::spawn(async move {
            let (path, server) = &settings.paths[index];
            let found = server.resolve(&path.bind, RESOLVE_TIMEOUT).await;
            settings.knowledge[index].take_names(found.ok());
        });
    }
    let options = settings.socket_options(path);
    let stream = socket::connect_any(&path.bind, &candidates, &options).await?;
    knowledge.names().good = stream.peer_addr().ok();
    knowledge.answered.send_replace(());
    Ok(stream)
}

/// The pace of attempts on one path of one connection.
#[derive(Debug)]
pub(crate) struct Pace {
    backoff: Backoff,
    permit: Option<OwnedSemaphorePermit>,
    /// What the connection had moved in all, and when it last did.
    moved: (u64, Instant),
}

impl Pace {
    /// For a path that has just gone dark.
    pub(crate) fn new(backoff: Backoff, now: Instant) -> Self {
        Self { backoff, permit: None, moved: (0, now) }
    }

    /// The wait before the next attempt, given how many bytes the connection has moved in all.
    pub(crate) fn wait(&mut self, path: &PathKnowledge, moved: u64, now: Instant) -> Duration {
        if self.moved.0 != moved {
            self.moved = (moved, now);
        }
        if now.since(self.moved.1) >= BUSY_TIME {
            self.permit = None;
        } else if self.permit.is_none() {
            self.permit = Arc::clone(&path.prober).try_acquire_owned().ok();
        }
        if self.permit.is_some() { RACE_INTERVAL } else { self.backoff.next() }
    }

    /// The wait after an attempt that the server has answered and that still failed.
    pub(crate) fn wait_after_refusal(&mut self) -> Duration {
        self.backoff.next()
    }
}

/// Waits that double, with jitter so that many clients do not come back at once.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    next: Duration,
    rng: Rng,
}

impl Backoff {
    /// Starting from the shortest wait.
    pub(crate) fn new(rng: Rng) -> Self {
        Self { next: BACKOFF_MIN, rng }
    }

    /// The next wait.
    pub(crate) fn next(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(BACKOFF_MAX);
        full.mul_f64(1.0 - 0.25 * self.rng.unit_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn backoff() -> Backoff {
        Backoff::new(Rng::stream(1, "test"))
    }

    #[test]
    fn waits_double_up_to_the_limit() {
        let mut backoff = backoff();
        let mut full = BACKOFF_MIN;
        for _ in 0..10 {
            let wait = backoff.next();
            assert!(wait <= full && wait >= full.mul_f64(0.75), "{wait:?} of {full:?}");
            full = (full * 2).min(BACKOFF_MAX);
        }
    }

    #[test]
    fn one_connection_dials_often_while_it_has_traffic() {
        let path = PathKnowledge::default();
        let at = Instant::from_millis;
        let mut first = Pace::new(backoff(), at(0));
        let mut second = Pace::new(backoff(), at(0));
        assert_eq!(first.wait(&path, 1, at(0)), RACE_INTERVAL);
        for moved in 0..5 {
            assert!(second.wait(&path, moved, at(moved)) > RACE_INTERVAL * 9 / 10);
        }
        assert!(second.wait(&path, 9, at(100)) > BACKOFF_MAX / 2);
        // Traffic keeps it at it; without any, the other one takes over.
        assert_eq!(first.wait(&path, 2, at(29_000)), RACE_INTERVAL);
        assert_eq!(first.wait(&path, 2, at(58_000)), RACE_INTERVAL);
        assert!(first.wait(&path, 2, at(59_000)) > RACE_INTERVAL / 2);
        assert_eq!(second.wait(&path, 10, at(59_000)), RACE_INTERVAL);
    }

    #[test]
    fn the_address_that_answered_comes_first_and_the_others_now_and_then() {
        let addresses: Vec<SocketAddr> =
            ["192.0.2.1:7", "192.0.2.2:7"].map(|text| text.parse().unwrap()).to_vec();
        let mut names = Names { addresses: addresses.clone(), ..Names::default() };
        assert_eq!(names.candidates(), addresses);
        names.good = Some(addresses[1]);
        let tries: Vec<usize> = (0..8).map(|_| names.candidates().len()).collect();
        assert_eq!(tries.iter().filter(|&&n| n == 2).count(), 2, "{tries:?}");
        assert_eq!(names.candidates()[0], addresses[1]);
        // Only what the resolver still says counts.
        names.addresses.truncate(1);
        assert_eq!(names.candidates(), addresses[..1]);
    }
}
