//! Admission control: a limited number of players is served at once, and a limited number of
//! connections may wait that have not said yet that they are players.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;

/// Connections that have not greeted, at most. They take no player's seat.
pub(super) const WAITING: usize = 64;

/// The admission control of a server.
#[derive(Debug)]
pub(super) struct Admission {
    most: usize,
    taken: Mutex<Taken>,
    /// How many players may still come, if they are counted.
    left: Option<AtomicU32>,
    /// The last of them has come.
    all_taken: Notify,
    waiting: Mutex<VecDeque<Waiting>>,
}

/// The seats that are taken, in the order in which they were.
#[derive(Debug, Default)]
struct Taken {
    seats: Vec<Seat>,
    /// Permits that were given so far.
    given: u64,
}

#[derive(Debug)]
struct Seat {
    number: u64,
    source: IpAddr,
    /// Closed when it is given to somebody else.
    _stays: oneshot::Sender<std::convert::Infallible>,
}

/// A player's permit: its seat is taken until this is dropped.
#[derive(Debug)]
struct Permit {
    number: u64,
    put_out: oneshot::Receiver<std::convert::Infallible>,
}

#[derive(Debug)]
struct Waiting {
    source: IpAddr,
    task: AbortHandle,
    has_greeted: Arc<AtomicBool>,
}

/// A connection's ticket: it waits until it greets, and then asks for a permit.
#[derive(Debug)]
pub(super) struct Ticket {
    admission: Arc<Admission>,
    source: IpAddr,
    has_greeted: Arc<AtomicBool>,
    permit: Option<Permit>,
}

impl Admission {
    /// For `most` players at once, and `all` together if that is given.
    pub(super) fn new(most: usize, all: Option<u32>) -> Arc<Self> {
        Arc::new(Self {
            most,
            taken: Mutex::default(),
            left: all.map(AtomicU32::new),
            all_taken: Notify::new(),
            waiting: Mutex::new(VecDeque::new()),
        })
    }

    /// For a connection that has come from `source`.
    pub(super) fn ticket(self: &Arc<Self>, source: IpAddr) -> Ticket {
        let (has_greeted, source) = (Arc::new(AtomicBool::new(false)), network(source));
        Ticket { admission: Arc::clone(self), source, has_greeted, permit: None }
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The task of a connection from `source` waits for its greeting. If too many do, the oldest of
    /// the source with the most is put out: a flood from one address, or one /64, costs others nothing.
    pub(super) fn wait(&self, source: IpAddr, task: AbortHandle, has_greeted: Arc<AtomicBool>) {
        let source = network(source);
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

    /// Once all that were to come have had their seats; puts out those that still wait. Never, if
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
    /// Whether it has greeted, as [`Admission::wait`] wants to know it.
    pub(super) fn has_greeted(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.has_greeted)
    }

    /// Notes that it has greeted, and takes a seat if one is free; later calls change nothing.
    ///
    /// # Errors
    /// That there is none, in words.
    pub(super) fn sit(&mut self) -> Result<(), String> {
        if self.permit.is_some() {
            return Ok(());
        }
        // Before its seat is counted: the task that sees the last one taken puts
        // out all that have not greeted.
        self.has_greeted.store(true, Ordering::Release);
        let Admission { most, left, all_taken, .. } = &*self.admission;
        let permit = self.admission.taken().sit(*most, self.source);
        let permit =
            permit.ok_or_else(|| format!("there are {most} players already (--max-players)"))?;
        self.permit = Some(permit);
        if let Some(left) = left {
            let one = |left: u32| left.checked_sub(1);
            let before = left
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, one)
                .map_err(|_| "all players that were to be served are (--players)".to_owned())?;
            if before == 1 {
                all_taken.notify_waiters();
            }
        }
        Ok(())
    }

    /// Waits until its seat is given to somebody else. Cancel safe.
    pub(super) async fn put_out(&mut self) {
        match &mut self.permit {
            Some(permit) => drop((&mut permit.put_out).await),
            None => std::future::pending().await,
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(Permit { number, .. }) = self.permit {
            self.admission.taken().seats.retain(|seat| seat.number != number);
        }
    }
}

impl Taken {
    /// Takes one of `most` seats for a player from `source`. Where all are taken, the source with the
    /// most gives up its newest, if that leaves it no fewer than this one has then: one address may have
    /// all seats, but not keep others out.
    fn sit(&mut self, most: usize, source: IpAddr) -> Option<Permit> {
        if self.seats.len() >= most {
            let has = |of: IpAddr| self.seats.iter().filter(|seat| seat.source == of).count();
            let (count, crowd) =
                self.seats.iter().map(|seat| (has(seat.source), seat.source)).max()?;
            if count <= has(source) + 1 {
                return None;
            }
            let newest = self.seats.iter().rposition(|seat| seat.source == crowd)?;
            self.seats.remove(newest);
        }
        let number = self.given;
        self.given += 1;
        let (stays, put_out) = oneshot::channel();
        self.seats.push(Seat { number, source, _stays: stays });
        Some(Permit { number, put_out })
    }
}

/// Whom an address stands for: of IPv6, its /64, of which a machine has all.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Only what hangs takes so long.
    const PATIENCE: Duration = Duration::from_secs(400);

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
        let admission = Admission::new(2, None);
        let [crowd, other] = ["192.0.2.1", "192.0.2.2"].map(|text| text.parse().unwrap());
        let honest = idle();
        admission.wait(other, honest.clone(), admission.ticket(other).has_greeted());
        let tasks: Vec<AbortHandle> = (0..300)
            .map(|_| {
                let task = idle();
                admission.wait(crowd, task.clone(), admission.ticket(crowd).has_greeted());
                task
            })
            .collect();
        settle().await;
        let left = tasks.iter().filter(|task| !task.is_finished()).count();
        assert_eq!((left, honest.is_finished()), (WAITING - 1, false));
        // None of them has a seat.
        let mut player = admission.ticket(other);
        assert_eq!(player.sit(), Ok(()));
        admission.clear();
        settle().await;
        assert!(honest.is_finished());
    }

    /// A machine has all addresses of its /64: a flood from all of them is one.
    #[tokio::test]
    async fn a_crowd_of_one_network_puts_out_its_own() {
        let admission = Admission::new(2, None);
        // The last of all sources in their order, so that it would be taken among equals.
        let wait = |source: &str| {
            let (task, source) = (idle(), source.parse().unwrap());
            admission.wait(source, task.clone(), admission.ticket(source).has_greeted());
            task
        };
        let honest = wait("2001:db8:ffff::1");
        let crowd: Vec<AbortHandle> =
            (0..WAITING).map(|n| wait(&format!("2001:db8::{n:x}"))).collect();
        settle().await;
        assert!(!honest.is_finished());
        let left = crowd.iter().filter(|task| !task.is_finished()).count();
        assert_eq!((left, crowd[0].is_finished()), (WAITING - 1, true), "the oldest has gone");
    }

    #[tokio::test]
    async fn places_are_given_once_and_come_back() {
        let admission = Admission::new(1, Some(2));
        let [mut first, mut second, mut third] =
            std::array::from_fn(|_| admission.ticket("192.0.2.1".parse().unwrap()));
        assert_eq!((first.sit(), first.sit()), (Ok(()), Ok(())));
        assert!(second.sit().unwrap_err().contains("--max-players"));
        drop(first);
        assert_eq!(second.sit(), Ok(()));
        tokio::time::timeout(PATIENCE, admission.all_taken()).await.unwrap();
        drop(second);
        assert!(third.sit().unwrap_err().contains("--players"));
    }

    #[tokio::test]
    async fn one_address_may_have_all_places_but_not_keep_others_out() {
        let admission = Admission::new(4, None);
        let of = |text: &str| admission.ticket(text.parse().unwrap());
        let mut crowd: Vec<Ticket> = (0..4).map(|_| of("192.0.2.1")).collect();
        crowd.iter_mut().for_each(|one| assert_eq!(one.sit(), Ok(())));
        assert!(of("192.0.2.1").sit().is_err(), "it gives up nothing for itself");
        let (mut second, mut third) = (of("192.0.2.2"), of("::ffff:192.0.2.2"));
        assert_eq!((second.sit(), third.sit()), (Ok(()), Ok(())));
        // The newest have gone, and know it.
        for one in [3, 2] {
            tokio::time::timeout(PATIENCE, crowd[one].put_out()).await.unwrap();
        }
        // Two and two: nobody has more than his share.
        assert!(of("192.0.2.2").sit().is_err());
        assert_eq!(of("192.0.2.3").sit(), Ok(()), "and goes at once");
        drop(crowd);
        let mut of_one_link: Vec<Ticket> = (0..3).map(|n| of(&format!("2001:db8::{n}"))).collect();
        let sat = of_one_link.iter_mut().map(|one| one.sit().is_ok());
        // 192.0.2.2 has one or two seats; the addresses of one /64 count as one source.
        assert_eq!(sat.filter(|sat| *sat).count(), 3);
        assert!(of("2001:db8::ffff").sit().is_err());
    }
}
