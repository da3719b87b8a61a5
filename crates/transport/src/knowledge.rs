//! What the connections of a client know of a path together.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weftline_core::Instant;
use weftline_core::path_manager::{ProbeSeat, Turn};

use crate::clock;

/// Among so many attempts at the address that answered last is one at the others, too.
const OTHERS_EVERY: u64 = 4;
/// First attempts on one path at a time, of all connections of a client, and as many of those that have lost
/// it: a server takes up to 64 handshakes of one source, which may be that of several paths, and gives up
/// the oldest of more.
const MAX_ATTEMPTS: usize = 20;

/// What all connections of a client know of one path.
#[derive(Debug)]
pub(crate) struct PathKnowledge {
    /// For the connection that dials often.
    pub(crate) seat: ProbeSeat,
    /// How often the server has taken a subflow on the path. That something takes TCP connections
    /// there says little: it may be a portal, or a balancer without a server.
    answered: AtomicU64,
    names: Mutex<Names>,
    /// The connections that may make their first attempt on the path now.
    attempts: Arc<Semaphore>,
    /// The same of those that make another one.
    again: Arc<Semaphore>,
}

/// The addresses of the server's name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    pub(crate) addresses: Vec<SocketAddr>,
    /// When the resolver gave them.
    pub(crate) at: Instant,
    /// Whether it is being asked.
    pub(crate) asking: bool,
    /// The address where the server was last.
    pub(crate) good: Option<SocketAddr>,
    /// Those that took a TCP connection and then were no server, since the last one that was.
    doubted: Vec<SocketAddr>,
    dials: u64,
}

impl Default for PathKnowledge {
    fn default() -> Self {
        Self {
            seat: ProbeSeat::default(),
            answered: AtomicU64::new(0),
            names: Mutex::default(),
            attempts: Arc::new(Semaphore::new(MAX_ATTEMPTS)),
            again: Arc::new(Semaphore::new(MAX_ATTEMPTS)),
        }
    }
}

impl PathKnowledge {
    /// How often the server has taken a subflow on the path.
    pub(crate) fn answers(&self) -> u64 {
        self.answered.load(Ordering::Relaxed)
    }

    /// The server has taken a subflow.
    pub(crate) fn note_answer(&self) {
        self.answered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn names(&self) -> MutexGuard<'_, Names> {
        self.names.lock().expect("nobody panics with it")
    }

    pub(crate) fn take_names(&self, found: Option<Vec<SocketAddr>>) {
        let mut names = self.names();
        names.asking = false;
        names.at = clock::now();
        if let Some(found) = found {
            names.addresses = found;
        }
    }
}

impl Names {
    /// The server has answered a hello at `peer`.
    pub(crate) fn found(&mut self, peer: SocketAddr) {
        self.good = Some(peer);
        self.doubted.clear();
    }

    /// At `peer` there was no server, though it took a TCP connection: a program that hangs, or a portal.
    pub(crate) fn doubt(&mut self, peer: SocketAddr) {
        if self.good == Some(peer) {
            self.good = None;
        }
        if !self.doubted.contains(&peer) {
            self.doubted.push(peer);
        }
        if self.addresses.iter().all(|address| self.doubted.contains(address)) {
            self.doubted = vec![peer];
        }
    }

    /// The addresses to try now: the one where the server was last, and now and then the others after it.
    /// Where it is not known, those that are in doubt come last.
    pub(crate) fn candidates(&mut self) -> Vec<SocketAddr> {
        self.dials += 1;
        let Some(good) = self.good.filter(|good| self.addresses.contains(good)) else {
            let mut all = self.addresses.clone();
            all.sort_by_key(|address| self.doubted.contains(address));
            return all;
        };
        let mut all = vec![good];
        if self.dials.is_multiple_of(OTHERS_EVERY) {
            all.extend(self.addresses.iter().filter(|other| **other != good));
        }
        all
    }
}

impl PathKnowledge {
    /// Waits for a turn to make an attempt, a first one no longer than `limit`: on a dark path the
    /// attempts before it may all take their time. Others are told when the path is back, and are given
    /// up while they wait.
    pub(crate) async fn turn(&self, turn: Turn, limit: Duration) -> Option<OwnedSemaphorePermit> {
        let (of, limit) = match turn {
            Turn::First => (&self.attempts, limit),
            Turn::Again => (&self.again, Duration::MAX),
            Turn::Often => return None,
        };
        let turn = tokio::time::timeout(limit, Arc::clone(of).acquire_owned()).await.ok()?;
        Some(turn.expect("never closed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn so_many_try_a_path_at_a_time_and_who_dials_often_always_does() {
        let (path, limit) = (PathKnowledge::default(), Duration::from_secs(5));
        for turn in [Turn::First, Turn::Again] {
            let mut held = Vec::new();
            for _ in 0..MAX_ATTEMPTS {
                held.push(path.turn(turn, limit).await.expect("there is room"));
            }
            let more = tokio::time::timeout(limit * 2, path.turn(turn, limit)).await;
            // A first one goes without it in the end.
            assert!(matches!((turn, &more), (Turn::First, Ok(None)) | (Turn::Again, Err(_))));
            assert!(path.turn(Turn::Often, limit).await.is_none());
            held.pop();
            assert!(path.turn(turn, limit).await.is_some());
        }
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

    #[test]
    fn an_address_without_a_server_lets_the_others_go_first() {
        let path = PathKnowledge::default();
        let addresses: Vec<SocketAddr> = ["192.0.2.1:7", "192.0.2.2:7", "192.0.2.3:7"]
            .map(|text| text.parse().unwrap())
            .to_vec();
        let [a, b, c] = addresses[..] else { panic!("three") };
        path.take_names(Some(addresses.clone()));
        let doubt = |peer| {
            path.names().doubt(peer);
            path.names().candidates()
        };
        assert_eq!(doubt(a), [b, c, a]);
        assert_eq!(doubt(b), [c, a, b]);
        // None is: they begin anew.
        assert_eq!(doubt(c), [a, b, c]);
        path.names().found(b);
        assert_eq!(path.names().candidates()[0], b);
        // Where the server was it is no more.
        assert_eq!(doubt(b), [a, c, b]);
    }
}
