//! Who may be served: places for players, and a waiting room for connections that have not said that
//! they are any.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

/// Connections that have not greeted, at most. They take no place of a player.
pub(super) const WAITING: usize = 64;

/// The places of a server.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    free: Arc<Semaphore>,
    /// How many players may still come, if they are counted.
    left: Option<AtomicU32>,
    /// The last of them has come.
    all_taken: Notify,
    waiting: Mutex<VecDeque<Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    source: IpAddr,
    task: AbortHandle,
    has_greeted: Arc<AtomicBool>,
}

/// What a connection comes with: it waits until it greets, and then wants a place.
#[derive(Debug)]
pub(super) struct Ticket {
    places: Arc<Places>,
    has_greeted: Arc<AtomicBool>,
    place: Option<OwnedSemaphorePermit>,
}

impl Places {
    /// For `most` players at once, and `all` together if that is given.
    pub(super) fn new(most: usize, all: Option<u32>) -> Arc<Self> {
        Arc::new(Self {
            most,
            free: Arc::new(Semaphore::new(most)),
            left: all.map(AtomicU32::new),
            all_taken: Notify::new(),
            waiting: Mutex::new(VecDeque::new()),
        })
    }

    /// For a connection that has come.
    pub(super) fn ticket(self: &Arc<Self>) -> Ticket {
        let has_greeted = Arc::new(AtomicBool::new(false));
        Ticket { places: Arc::clone(self), has_greeted, place: None }
    }

    /// The task of a connection from `source` waits for its greeting. If too many do, the oldest of
    /// the source with the most is put out: a flood from one address costs others nothing.
    pub(super) fn wait(&self, source: IpAddr, task: AbortHandle, has_greeted: Arc<AtomicBool>) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.retain(|one| !one.task.is_finished() && !one.has_greeted.load(Ordering::Relaxed));
        waiting.push_back(Waiting { source, task, has_greeted });
        if waiting.len() <= WAITING {
            return;
        }
        let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
        waiting.iter().for_each(|one| *counts.entry(one.source).or_default() += 1);
        let crowd = counts.into_iter().max_by_key(|(_, count)| *count).map(|(source, _)| source);
        let oldest = waiting.iter().position(|one| Some(one.source) == crowd);
        if let Some(oldest) = oldest.and_then(|oldest| waiting.remove(oldest)) {
            oldest.task.abort();
        }
    }

    /// Once all that were to come have had their places; puts out those that still wait. Never, if
    /// they are not counted.
    pub(super) async fn all_taken(&self) {
        let Some(left) = &self.left else { return std::future::pending().await };
        let taken = self.all_taken.notified();
        if left.load(Ordering::Acquire) > 0 {
            taken.await;
        }
        self.clear();
    }

    /// Puts out all that wait.
    pub(super) fn clear(&self) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |one: &Waiting| !one.has_greeted.load(Ordering::Acquire);
        waiting.drain(..).filter(idle).for_each(|one| one.task.abort());
    }
}

impl Ticket {
    /// Whether it has greeted, as [`Places::wait`] wants to know it.
    pub(super) fn has_greeted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_greeted)
    }

    /// It has greeted, and takes a place if there is one; the same again later.
    ///
    /// # Errors
    /// That there is none, in words.
    pub(super) fn sit(&mut self) -> Result<(), String> {
        if self.place.is_some() {
            return Ok(());
        }
        // Before its place is counted: whoever sees that it was the last puts out all that have not.
        self.has_greeted.store(true, Ordering::Release);
        let Places { most, free, left, all_taken, .. } = &*self.places;
        let place = Arc::clone(free).try_acquire_owned();
        let place =
            place.map_err(|_| format!("there are {most} players already (--max-players)"))?;
        if let Some(left) = left {
            let one = |left: u32| left.checked_sub(1);
            let before = left
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, one)
                .map_err(|_| "all players that were to be served are (--players)".to_owned())?;
            if before == 1 {
                all_taken.notify_waiters();
            }
        }
        self.place = Some(place);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn idle() -> AbortHandle {
        tokio::spawn(std::future::pending::<()>()).abort_handle()
    }

    /// Tasks that were put out end when the runtime comes to them.
    async fn settle() {
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_crowd_from_one_address_puts_out_its_own() {
        let places = Places::new(2, None);
        let [crowd, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let honest = idle();
        places.wait(other, honest.clone(), places.ticket().has_greeted());
        let tasks: Vec<AbortHandle> = (0..300)
            .map(|_| {
                let task = idle();
                places.wait(crowd, task.clone(), places.ticket().has_greeted());
                task
            })
            .collect();
        settle().await;
        let left = tasks.iter().filter(|task| !task.is_finished()).count();
        assert_eq!((left, honest.is_finished()), (WAITING - 1, false));
        // None of them has a place.
        let mut player = places.ticket();
        assert_eq!(player.sit(), Ok(()));
        places.clear();
        settle().await;
        assert!(honest.is_finished());
    }

    #[tokio::test]
    async fn places_are_given_once_and_come_back() {
        let places = Places::new(1, Some(2));
        let (mut first, mut second, mut third) =
            (places.ticket(), places.ticket(), places.ticket());
        assert_eq!((first.sit(), first.sit()), (Ok(()), Ok(())));
        assert!(second.sit().unwrap_err().contains("--max-players"));
        drop(first);
        assert_eq!(second.sit(), Ok(()));
        places.all_taken().await;
        drop(second);
        assert!(third.sit().unwrap_err().contains("--players"));
    }
}
