//! Who may be served: places for players, and a waiting room for connections that have not said that
//! they are any.
//!
//! No source takes all places while others want one: where all are taken, a player of the source that has most
//! of them makes room for one of a source that would still have fewer. A source is an IPv4 address or an IPv6
//! network of 64 bits, as for [`weftline::Limits`].

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// Connections that have not greeted, at most. They take no place of a player.
pub(super) const WAITING: usize = 64;

/// The places of a server.
#[derive(Debug)]
pub(super) struct Places {
    most: usize,
    /// Who has a place, oldest first.
    seats: Mutex<Vec<Seat>>,
    /// How many players may still come, if they are counted.
    left: Option<AtomicU32>,
    /// The last of them has come.
    all_taken: Notify,
    waiting: Mutex<VecDeque<Waiting>>,
}

/// A player's place.
#[derive(Debug)]
struct Seat {
    source: IpAddr,
    /// Its player is to leave.
    out: Arc<Notify>,
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
    source: IpAddr,
    /// Its place is for another one.
    out: Arc<Notify>,
    has_place: bool,
}

impl Places {
    /// For `most` players at once, and `all` together if that is given.
    pub(super) fn new(most: usize, all: Option<u32>) -> Arc<Self> {
        Arc::new(Self {
            most,
            seats: Mutex::default(),
            left: all.map(AtomicU32::new),
            all_taken: Notify::new(),
            waiting: Mutex::new(VecDeque::new()),
        })
    }

    /// For a connection that has come from `source`.
    pub(super) fn ticket(self: &Arc<Self>, source: IpAddr) -> Ticket {
        let (has_greeted, out) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (places, source) = (Arc::clone(self), network(source));
        Ticket { places, has_greeted, source, out, has_place: false }
    }

    fn seats(&self) -> MutexGuard<'_, Vec<Seat>> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
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
        if self.has_place {
            return Ok(());
        }
        // Before its place is counted: whoever sees that it was the last puts out all that have not.
        self.has_greeted.store(true, Ordering::Release);
        let Places { most, left, all_taken, .. } = &*self.places;
        let mut seats = self.places.seats();
        let crowd = (seats.len() >= *most).then(|| crowd(&seats, self.source));
        if crowd == Some(None) {
            return Err(format!("there are {most} players already (--max-players)"));
        }
        if let Some(left) = left {
            let one = |left: u32| left.checked_sub(1);
            let before = left
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, one)
                .map_err(|_| "all players that were to be served are (--players)".to_owned())?;
            if before == 1 {
                all_taken.notify_waiters();
            }
        }
        if let Some(newest) = crowd.flatten() {
            seats.remove(newest).out.notify_one();
        }
        seats.push(Seat { source: self.source, out: Arc::clone(&self.out) });
        drop(seats);
        self.has_place = true;
        Ok(())
    }

    /// What tells it that its place is for another one.
    pub(super) fn out(&self) -> Arc<Notify> {
        Arc::clone(&self.out)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.places.seats().retain(|seat| !Arc::ptr_eq(&seat.out, &self.out));
    }
}

/// Where the newest player sits of the source that has most places, if one more of `source` would still have
/// fewer. Of several such sources, of one of them.
fn crowd(seats: &[Seat], source: IpAddr) -> Option<usize> {
    let mut counts: BTreeMap<IpAddr, usize> = BTreeMap::new();
    seats.iter().for_each(|seat| *counts.entry(seat.source).or_default() += 1);
    let own = counts.get(&source).copied().unwrap_or(0);
    let (crowd, most) = counts.into_iter().max_by_key(|(_, count)| *count)?;
    let newest = seats.iter().rposition(|seat| seat.source == crowd)?;
    (own + 1 < most).then_some(newest)
}

/// What one customer has: an IPv4 address, or 64 bits of IPv6.
fn network(source: IpAddr) -> IpAddr {
    match source.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & (u128::MAX << 64)).into()),
        v4 @ IpAddr::V4(_) => v4,
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
        places.wait(other, honest.clone(), places.ticket(other).has_greeted());
        let tasks: Vec<AbortHandle> = (0..300)
            .map(|_| {
                let task = idle();
                places.wait(crowd, task.clone(), places.ticket(crowd).has_greeted());
                task
            })
            .collect();
        settle().await;
        let left = tasks.iter().filter(|task| !task.is_finished()).count();
        assert_eq!((left, honest.is_finished()), (WAITING - 1, false));
        // None of them has a place.
        let mut player = places.ticket(other);
        assert_eq!(player.sit(), Ok(()));
        places.clear();
        settle().await;
        assert!(honest.is_finished());
    }

    #[tokio::test]
    async fn places_are_given_once_and_come_back() {
        let places = Places::new(1, Some(2));
        let [mut first, mut second, mut third] = ["192.0.2.1", "192.0.2.2", "192.0.2.3"]
            .map(|from| places.ticket(from.parse().unwrap()));
        assert_eq!((first.sit(), first.sit()), (Ok(()), Ok(())));
        assert!(second.sit().unwrap_err().contains("--max-players"));
        drop(first);
        assert_eq!(second.sit(), Ok(()));
        places.all_taken().await;
        drop(second);
        assert!(third.sit().unwrap_err().contains("--players"));
    }

    /// One address took all places and kept them by reporting.
    #[tokio::test]
    async fn one_source_does_not_keep_all_places_from_others() {
        let places = Places::new(4, None);
        // One customer's network.
        let mut crowd: Vec<Ticket> = (1..=4)
            .map(|host| places.ticket(format!("2001:db8::{host}").parse().unwrap()))
            .collect();
        assert!(crowd.iter_mut().all(|one| one.sit().is_ok()));
        let others = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let mut honest = others.map(|source| places.ticket(source));
        for one in &mut honest {
            assert_eq!(one.sit(), Ok(()));
        }
        // The newest have gone, and who comes again does not get back what others have.
        for put_out in [&crowd[3], &crowd[2]] {
            put_out.out().notified().await;
        }
        let mut again = places.ticket("2001:db8::9".parse().unwrap());
        assert!(again.sit().unwrap_err().contains("--max-players"));
        // A second of the same source makes nobody go who has as few.
        assert!(places.ticket(others[0]).sit().is_err());
        crowd.truncate(2);
        assert!(again.sit().is_err(), "those who were put out had no places any more");
        crowd.clear();
        assert_eq!(again.sit(), Ok(()));
    }
}
