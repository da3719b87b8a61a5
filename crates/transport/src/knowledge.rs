//! What the connections of a client know of a path together.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weftline_core::addresses::Names;
use weftline_core::path_manager::{ProbeSeat, Turn};

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
}
