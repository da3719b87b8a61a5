//! A connection's state machine and everything that waits for it.
//!
//! The session sits in a mutex that is held for short calls only, never across a system call or an
//! await: wake-ups are collected under the lock and sent after it.

mod intake;
mod life;
mod messages;
mod paths;
mod stream;
mod subflows;
mod views;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::task::Waker;
use std::time::Duration;

use smallvec::SmallVec;
use tokio::sync::{Notify, broadcast, mpsc, watch};
use weftline_core::life::{Life, Phase};
use weftline_core::session::{MessageOutcome, RESET_ABANDONED, Session, SessionConfig};
use weftline_core::{ByteCount, Instant, PathId, SubflowId};

use self::intake::Intake;
pub use self::messages::MessageError;
pub(crate) use self::paths::path_event;
pub(crate) use self::stream::WriteError;
use crate::clock;
use crate::congestion::CongestionInUse;
use crate::error::Error;
use crate::events::PathEvent;
use crate::handshake::SessionId;
use crate::memory::Lease;
use crate::policy::Caps;
use crate::stats::COUNTERS;

/// Events kept for a slow subscriber; older ones are dropped for it.
const EVENT_CAPACITY: usize = 1024;
/// Memory for bytes to send is asked for in such steps, and given back when twice as much as is
/// held, and two steps, are not needed.
const SEND_STEP: u64 = 512 << 10;

/// One that is told of a connection's events as they happen.
pub(crate) type Witness = Box<dyn Fn(&PathEvent) + Send + Sync>;

/// One connection, shared by the application's handle, its subflows' tasks and its timer.
pub(crate) struct Shared {
    inner: Mutex<Inner>,
    timer: Notify,
    /// Wakes whoever keeps its paths: a subflow ended, stalled, recovered, or was written to after
    /// a rest.
    path_news: Arc<Notify>,
    phase: watch::Sender<Phase>,
    /// Made when somebody first asks for them: it has memory for all that it may hold.
    events: OnceLock<broadcast::Sender<PathEvent>>,
    /// Told of each of them, too, and costs next to nothing.
    witness: OnceLock<Witness>,
    /// How the subflows that are there came up, by their numbers.
    ups: Mutex<BTreeMap<u64, PathEvent>>,
    /// Which connection of the process this is.
    pub(crate) number: u64,
    scheduler: &'static str,
    pub(crate) opened_at: Instant,
    /// Whether the peer has answered anything since the handshake.
    has_answered: AtomicBool,
    /// The server's number of it, once that has answered (client).
    id: OnceLock<SessionId>,
    /// What is done when nothing is left of it.
    on_gone: Mutex<OnGone>,
}

/// What is done when nothing is left of a connection.
enum OnGone {
    Nothing,
    Call(Box<dyn FnOnce() + Send>),
    /// That is so.
    Done,
}

struct Inner {
    session: Session,
    life: Life,
    /// The rate caps of its paths, shared with other connections of the client.
    caps: Arc<Caps>,
    /// The connection's part of the process's memory.
    lease: Lease,
    intake: Intake,
    slots: Vec<Slot>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    end: Option<End>,
    /// Where the ends of messages go, if anywhere, and whether some have been taken from there.
    outcomes: Option<mpsc::Sender<MessageOutcome>>,
    took_outcome: bool,
    /// When the timer task wakes up next.
    armed: Instant,
    /// Every path the connection has had.
    names: BTreeMap<PathId, Arc<str>>,
    /// Those it is to have (client).
    planned: BTreeMap<PathId, Arc<str>>,
    /// How many look at what is sent and received where.
    weave_watches: usize,
    /// When the first of them began.
    weave_since: Instant,
}

/// A live subflow.
struct Slot {
    id: SubflowId,
    path: PathId,
    name: Arc<str>,
    /// Wakes its writer.
    wake: Arc<Notify>,
    /// Tells it to close.
    leave: Arc<Notify>,
    peer: SocketAddr,
    congestion: CongestionInUse,
    stalled_since: Option<Instant>,
    /// Whether the path manager waits for it: one that only receives never counts as stalled in the
    /// session.
    answers: bool,
    /// Memory promised to its buffers, bytes.
    buffers: u64,
}

/// How a connection ended.
#[derive(Clone, Debug)]
pub(crate) enum End {
    /// Both directions were finished and acknowledged.
    Closed,
    /// It failed.
    Failed(Arc<Error>),
}

/// A subflow that the session has been told of.
pub(crate) struct Attached {
    pub(crate) wake: Arc<Notify>,
    pub(crate) leave: Arc<Notify>,
}

/// What to do after the lock is released.
#[derive(Default)]
struct Effects {
    notifies: SmallVec<[Arc<Notify>; 8]>,
    wakers: SmallVec<[Waker; 2]>,
    events: SmallVec<[PathEvent; 1]>,
    path_news: bool,
    rearm: bool,
    /// The connection has just ended; whether it failed.
    over: Option<bool>,
    /// Whether it had been open.
    counted: bool,
}

impl Shared {
    /// An open connection without subflows (server): see [`opening`](Self::opening).
    pub(crate) fn open(
        config: &SessionConfig,
        grace: Duration,
        caps: Arc<Caps>,
        lease: Lease,
    ) -> Arc<Self> {
        let shared = Self::opening(config, grace, caps, lease);
        shared.open_up(0);
        shared
    }

    /// A connection without subflows that the server has not accepted yet, its timer running. It
    /// fails when it is without subflows for `grace` after that. It keeps to the memory of `lease`.
    pub(crate) fn opening(
        config: &SessionConfig,
        grace: Duration,
        caps: Arc<Caps>,
        mut lease: Lease,
    ) -> Arc<Self> {
        let now = clock::now();
        let first_window = lease.grow_unasked(config.first_window.as_u64());
        let first_window = ByteCount::new(first_window);
        let mut session = Session::new(&SessionConfig { first_window, ..config.clone() }, now);
        session.set_receive_limit(lease.receive(), now);
        session.set_send_limit(lease.send(), u64::MAX, now);
        let inner = Inner {
            session,
            life: Life::new(config, grace),
            lease,
            caps,
            intake: Intake::default(),
            slots: Vec::new(),
            reader: None,
            writer: None,
            end: None,
            outcomes: None,
            took_outcome: false,
            armed: Instant::FAR,
            names: BTreeMap::new(),
            planned: BTreeMap::new(),
            weave_watches: 0,
            weave_since: Instant::ZERO,
        };
        let shared = Arc::new(Self {
            inner: Mutex::new(inner),
            timer: Notify::new(),
            path_news: Arc::default(),
            phase: watch::Sender::new(Phase::Opening),
            events: OnceLock::new(),
            witness: OnceLock::new(),
            ups: Mutex::default(),
            number: COUNTERS.number(),
            scheduler: config.scheduler.name,
            opened_at: now,
            has_answered: AtomicBool::new(false),
            id: OnceLock::new(),
            on_gone: Mutex::new(OnGone::Nothing),
        });
        tokio::spawn(life::run_timer(Arc::clone(&shared)));
        shared
    }

    /// Calls `f` with the connection's state, then does what its change calls for.
    fn with<R>(&self, f: impl FnOnce(&mut Inner, Instant) -> R) -> R {
        let mut effects = Effects::default();
        let result = {
            let mut inner = self.inner.lock().expect("the session does not panic");
            let now = clock::now();
            let result = f(&mut inner, now);
            inner.balance_memory(now);
            inner.drain(now, &mut effects);
            result
        };
        self.fire(effects);
        result
    }

    /// Calls `done` when nothing is left of the connection, before that is told to anybody; at once
    /// if that is so.
    pub(crate) fn on_gone(&self, done: Box<dyn FnOnce() + Send>) {
        let mut on_gone = self.on_gone.lock().expect("nobody panics with it");
        if !matches!(*on_gone, OnGone::Done) {
            *on_gone = OnGone::Call(done);
            return;
        }
        drop(on_gone);
        done();
    }

    /// Nobody serves its deadlines any more: it is over, or the runtime that it was made in is, or its own
    /// code has panicked. Whoever waits for it in another runtime hears of that.
    fn left_alone(&self) {
        let is_gone = self.see(|inner| inner.life.phase() == Phase::Gone);
        if !is_gone && !self.has_panicked() {
            let reason = "the runtime that the connection was made in has ended";
            let error = Error::Socket(std::io::Error::other(reason));
            self.with(|inner, now| inner.fail(error, RESET_ABANDONED, reason, now));
        }
        if !is_gone {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            let wakers = [inner.reader.take(), inner.writer.take()];
            // Whoever waits for the ends of messages hears that there are no more.
            let outcomes = inner.outcomes.take();
            drop(inner);
            drop(outcomes);
            wakers.into_iter().flatten().for_each(Waker::wake);
        }
        self.has_gone();
    }

    /// Nothing is left of the connection.
    fn has_gone(&self) {
        let mut on_gone = self.on_gone.lock().expect("nobody panics with it");
        let call = std::mem::replace(&mut *on_gone, OnGone::Done);
        drop(on_gone);
        if let OnGone::Call(done) = call {
            done();
        }
        self.advance(Phase::Gone);
    }

    /// Looks at the connection. Nothing follows from that, so it does no harm where
    /// the connection's own code has panicked: the server's tables look at it, too.
    fn see<R>(&self, f: impl FnOnce(&Inner) -> R) -> R {
        f(&self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the connection's own code has panicked, after which nothing more can be done with it.
    fn has_panicked(&self) -> bool {
        self.inner.is_poisoned()
    }

    fn fire(&self, effects: Effects) {
        effects.notifies.iter().for_each(|notify| notify.notify_one());
        effects.wakers.into_iter().for_each(Waker::wake);
        for event in effects.events {
            self.publish(event);
        }
        if effects.path_news {
            self.path_news.notify_one();
        }
        if effects.rearm {
            self.timer.notify_one();
        }
        if let Some(failed) = effects.over {
            if effects.counted {
                COUNTERS.ended(failed);
            }
            self.advance(Phase::Over);
        }
    }

    /// Phases only go forward, in whatever order they are told.
    fn advance(&self, phase: Phase) {
        self.phase.send_if_modified(|old| {
            let later = phase > *old;
            *old = phase.max(*old);
            later
        });
    }

    /// The server has let the connection in under the number `id`. In one of messages it takes them
    /// up to `longest_message`. Returns whether it is the server that the connection is with: a
    /// hello that is said again may have reached another one, whose stream is another.
    #[must_use]
    pub(crate) fn accepted(&self, longest_message: u64, id: SessionId) -> bool {
        if *self.id.get_or_init(|| id) != id {
            return false;
        }
        self.open_up(longest_message);
        true
    }

    fn open_up(&self, longest_message: u64) {
        self.with(|inner, now| {
            if !inner.life.accepted(now) {
                return;
            }
            COUNTERS.opened();
            if longest_message > 0 {
                inner.session.set_longest_message(longest_message);
            }
        });
        self.advance(Phase::Open);
        self.timer.notify_one();
    }

    /// Waits until the server has let the connection in, or it has failed.
    pub(crate) async fn established(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= Phase::Open).await;
    }

    /// The peer does not know the connection, or not any more: it need not be told anything.
    pub(crate) fn forgotten(&self, error: Error) {
        let reason = error.to_string();
        self.with(|inner, now| {
            inner.life.forgotten();
            inner.fail(error, RESET_ABANDONED, &reason, now);
        });
        self.timer.notify_one();
    }

    /// The peer has shown that it hears this side.
    pub(crate) fn note_answered(&self) {
        self.has_answered.store(true, Ordering::Relaxed);
    }

    /// Whether the peer has shown that.
    pub(crate) fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    /// Ends the connection, whose peer does not answer, so that another has its place and its memory at
    /// once.
    pub(crate) fn give_way(&self) {
        if self.has_panicked() {
            return;
        }
        self.with(|inner, now| {
            let after = now.since(inner.session.heard_at());
            let stats = inner.session.stats();
            let (delivered, received) = (stats.acknowledged, stats.delivered);
            let error = Error::PeerLost { after, delivered, received };
            inner.life.forgotten();
            inner.fail(error, RESET_ABANDONED, "the connection was not answered", now);
            inner.lease.give_all_back();
        });
    }

    // ---- the application ----

    /// Ends the connection at once; the peer gets `code` and `reason`.
    pub(crate) fn abort(&self, code: u64, reason: &str) {
        if self.has_panicked() {
            return;
        }
        let error = Error::Reset { code, reason: reason.to_owned() };
        self.with(|inner, now| inner.fail(error, code, reason, now));
    }

    /// The application lets go of the connection. What it has finished is delivered in the
    /// background; what it has not finished is reset.
    pub(crate) fn abandon(&self) {
        if self.has_panicked() {
            // Whoever serves its deadlines finds that out, and tells those who wait.
            return self.timer.notify_one();
        }
        self.with(|inner, now| {
            inner.life.leave(&mut inner.session, now);
        });
        self.timer.notify_one();
    }

    /// How the connection ended, if it has.
    pub(crate) fn end(&self) -> Option<End> {
        self.see(|inner| inner.end.clone())
    }

    /// Waits until the connection is over.
    pub(crate) async fn ended(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        let _ = self.phase.subscribe().wait_for(|phase| *phase >= Phase::Over).await;
    }

    /// Waits until the connection is over and every subflow has said what it had to and is gone.
    pub(crate) async fn gone(&self) {
        let _ = self.phase.subscribe().wait_for(|phase| *phase == Phase::Gone).await;
    }

    // ---- time ----

    /// The next deadline; `None` when the connection is over and its last subflow gone.
    fn arm(&self) -> Option<Instant> {
        self.with(|inner, now| {
            inner.armed = inner.deadline(now);
            (inner.life.phase() != Phase::Gone).then_some(inner.armed)
        })
    }

    fn handle_timeout(&self) {
        self.with(|inner, now| inner.handle_timeout(now));
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;
    use crate::checks::IDLE_TIMEOUT;
    use crate::connection::Connection;
    use crate::memory::MemoryBudget;
    use crate::status;

    fn opened() -> Arc<Shared> {
        let lease = MemoryBudget::new(ByteCount::mib(64)).unwrap().connection(1 << 20).unwrap();
        Shared::open(&SessionConfig::default(), Duration::ZERO, Arc::default(), lease)
    }

    /// A machine that sleeps has answered, and may never come back.
    #[tokio::test]
    async fn one_that_has_been_silent_for_long_makes_room_as_if_it_had_never_answered() {
        let shared = opened();
        let (heard_at, memory) = shared.unanswered(clock::now()).unwrap();
        assert!(memory >= 1 << 20);
        shared.has_answered.store(true, Ordering::Relaxed);
        let after = |time| shared.unanswered(heard_at + time);
        assert_eq!(after(IDLE_TIMEOUT - Duration::from_millis(1)), None);
        assert_eq!(after(IDLE_TIMEOUT), Some((heard_at, memory)));
    }

    #[tokio::test]
    async fn others_look_at_a_connection_that_has_panicked() {
        let shared = opened();
        let own = Arc::clone(&shared);
        let task = tokio::spawn(async move { own.with(|_, _| panic!("as it was told to")) });
        assert!(task.await.unwrap_err().is_panic());
        // As the server's tables do, which would go down with it.
        assert_eq!(shared.received(), 0);
        assert!(shared.unanswered(clock::now()).is_some());
        shared.abort(0, "revoked");
        shared.give_way();
    }

    fn held(shared: Arc<Shared>) -> Connection {
        Connection::new(shared, "192.0.2.1:7".parse().unwrap(), None)
    }

    /// Dropped in a panic, where another one would end the process.
    #[tokio::test]
    async fn one_that_has_panicked_can_be_dropped_and_is_gone_then() {
        let shared = opened();
        let connection = held(Arc::clone(&shared));
        let control = connection.control();
        let task = tokio::spawn(async move { shared.with(|_, _| panic!("as it was told to")) });
        assert!(task.await.unwrap_err().is_panic());
        drop(connection);
        control.shared.gone().await;
        assert!(status::connection(control.number()).is_none());
    }

    #[tokio::test]
    async fn whoever_listens_is_told_how_each_connection_ends_however_short_it_was() {
        let mut ended = status::ended();
        let shared = opened();
        let connection = held(Arc::clone(&shared));
        let number = connection.number();
        shared.abort(7, "as it was told to");
        shared.give_way();
        drop(connection);
        shared.gone().await;
        // Other tests have connections, too.
        let end = loop {
            let end = ended.recv().await.unwrap();
            if end.number == number {
                break end;
            }
        };
        let error = end.error.map(|error| error.to_string());
        assert_eq!((end.label, end.sent, end.received), (None, 0, 0));
        assert!(error.as_ref().is_some_and(|it| it.contains("as it was told to")), "{error:?}");
    }

    /// Nothing serves it any more, and whoever reads in another runtime would never hear of that.
    #[test]
    fn one_whose_runtime_has_ended_has_failed() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build();
        let (made_in, used_in) = (runtime().unwrap(), runtime().unwrap());
        let mut connection = held(made_in.block_on(async { opened() }));
        let number = connection.number();
        let reading = used_in.spawn(async move { connection.read_u8().await });
        // It waits before there is nothing to wait for.
        used_in.block_on(tokio::task::yield_now());
        drop(made_in);
        let error = used_in.block_on(reading).unwrap().unwrap_err();
        assert!(error.to_string().contains("runtime"), "{error}");
        assert!(status::connection(number).is_none());
    }
}
