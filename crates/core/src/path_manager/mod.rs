//! The path manager of a client's connection: brings each path up, and up again.
//!
//! Sans-IO: a driver carries out [`Action`]s, tells what came of them, and calls
//! [`PathManager::handle_timeout`] when [`PathManager::poll_timeout`] says. The daemons dial with
//! sockets, the simulator with its TCP endpoints.
//!
//! ```text
//!            ┌────────────── failed ──────────────┐
//!            ▼                                    │
//!  Waiting ──▶ Trying: dial, secure, hello | join ┴─▶ Up ──▶ Dark: dial again and again,
//!                                                    ▲ ▲      beside the failing subflow
//!                                                    │ └ goes on ┘ │
//!                                                    └─── joined ──┘
//! ```
//!
//! One path says hello, which opens the connection; others wait for the answer and join, or say it
//! again when it fails. A path that cannot be reached is left out and tried again. A subflow that
//! makes no progress is not waited for, as the kernel's retransmission timer backs off
//! exponentially: fresh TCP connections are tried beside it on the same path, and the first that
//! answers takes its place. A path that is taken out of use drains first.

mod connecting;
mod leaving;
mod monitor;
mod pace;
mod path;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::Duration;

use self::connecting::{Connecting, Stage};
pub use self::connecting::{ConnectingId, Failure};
pub use self::leaving::Carried;
use self::leaving::Leaving;
pub use self::monitor::Look;
pub use self::pace::ProbeSeat;
use self::path::Path;
use crate::rng::Rng;
use crate::{Instant, PathId, SubflowId};

/// How long a TCP connection may take to stand, and each step of the handshake on it, unless a driver's
/// settings say otherwise.
pub const DIAL_TIMEOUT: Duration = Duration::from_secs(3);
/// See [`DIAL_TIMEOUT`].
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// Failures of each path after which opening a connection fails.
const FAILURES: u32 = 2;
/// How long paths in reserve wait for the others to open a connection.
const HEAD_START: Duration = Duration::from_millis(250);

/// A path to keep up.
#[derive(Clone, Debug)]
pub struct PathPlan {
    /// Its number.
    pub id: PathId,
    /// Whether it leaves it to others to open the connection.
    pub reserve: bool,
    /// Shared with the other connections over the path.
    pub seat: ProbeSeat,
    /// For the jitter of its waits.
    pub rng: Rng,
}

/// Of many connections over a path, only some dial at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The path has not been up: many connections may begin at once.
    First,
    /// It has been up: many connections may have lost it at once.
    Again,
    /// The one connection that dials often: it waits for nobody, and the others hear from it.
    Often,
}

/// What the driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Begin a TCP connection to the server over the path. Then
    /// [`handle_connected`](PathManager::handle_connected).
    Dial {
        /// The connection attempt that it begins.
        connecting: ConnectingId,
        /// The path.
        path: PathId,
        /// What turn it is of those that all connections take on the path.
        turn: Turn,
    },
    /// Secure the attempt's TCP connection (TLS, if there is any). Then
    /// [`handle_secured`](PathManager::handle_secured).
    Secure(ConnectingId),
    /// Say hello on the attempt's connection, and what the application has to say behind it. When it
    /// is answered, [`handle_up`](PathManager::handle_up).
    Hello(ConnectingId, SubflowId),
    /// Join the open connection. When that is answered, [`handle_up`](PathManager::handle_up).
    Join(ConnectingId, SubflowId),
    /// Forget the attempt.
    Abandon(ConnectingId),
    /// The attempt's handshake has taken too long: as `Abandon`, and it counts as failed.
    TimeOut(ConnectingId, Duration),
    /// Look at the subflow: [`handle_look`](PathManager::handle_look).
    Look(SubflowId),
    /// Nothing is on the subflow's way: tell its next write by
    /// [`handle_news`](PathManager::handle_news), and look at it once more.
    Rest(SubflowId),
    /// Ask the peer for a sign of life on the subflow.
    Probe(SubflowId),
    /// The subflow counts as potentially failed: fresh connections are tried beside it.
    PotentiallyFailed(PathId, SubflowId),
    /// The potentially failed subflow delivers again, and no other has taken its place.
    Recovered(SubflowId),
    /// Another subflow has taken this one's place: close it.
    Replace(SubflowId),
    /// Say what is still on the path's subflows: [`handle_carried`](PathManager::handle_carried).
    Carried(PathId),
    /// Close the path's subflows.
    ClosePath(PathId),
    /// Every path has failed too often to open the connection.
    GiveUp,
}

/// How far the connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Opening {
    /// Nobody is saying hello.
    Unsaid,
    /// This attempt is.
    Said(ConnectingId),
    /// The server has answered.
    Open,
}

/// See the [module](self).
#[derive(Debug)]
pub struct PathManager {
    handshake_timeout: Duration,
    dial_timeout: Option<Duration>,
    paths: Vec<Path>,
    leaving: Vec<Leaving>,
    opening: Opening,
    hellos: usize,
    next_connecting: u64,
    next_subflow: u64,
    /// Whether a subflow would be of use.
    wanted: bool,
    actions: VecDeque<Action>,
}

impl PathManager {
    /// For a connection that nobody has begun. TLS, and then hello or join, may take
    /// `handshake_timeout` each, at most. A dial may take `dial_timeout`, if the driver does not
    /// bound it itself.
    pub fn new(
        plans: Vec<PathPlan>,
        handshake_timeout: Duration,
        dial_timeout: Option<Duration>,
        now: Instant,
    ) -> Self {
        let paths = plans.into_iter().map(|plan| {
            let until = if plan.reserve { now + HEAD_START } else { now };
            Path::new(plan, until)
        });
        Self {
            handshake_timeout,
            dial_timeout,
            paths: paths.collect(),
            leaving: Vec::new(),
            opening: Opening::Unsaid,
            hellos: 0,
            next_connecting: 0,
            next_subflow: 0,
            wanted: true,
            actions: VecDeque::new(),
        }
    }

    /// What to do next.
    pub fn poll_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout), at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let paths = self.paths.iter().filter_map(|path| path.deadline(self.wanted));
        paths.chain(self.leaving.iter().map(Leaving::next)).min()
    }

    /// The path that a subflow, up or potentially failed, is on.
    pub fn path_of(&self, subflow: SubflowId) -> Option<PathId> {
        self.paths.iter().find(|path| path.subflow() == Some(subflow)).map(|path| path.plan.id)
    }

    /// The paths that have no subflow, or a potentially failed one.
    pub fn dark(&self) -> impl Iterator<Item = PathId> + '_ {
        self.paths.iter().filter(|path| path.is_dark()).map(|path| path.plan.id)
    }

    // ---- what the driver has seen ----

    /// Says whether a subflow would be of use: not once the connection is over.
    pub fn set_wanted(&mut self, wanted: bool, now: Instant) {
        if std::mem::replace(&mut self.wanted, wanted) && !wanted {
            for path in &mut self.paths {
                path.pause(now, &mut self.actions);
            }
            self.check_hello(now);
        }
    }

    /// The attempt's TCP connection stands; its handshake took `rtt`.
    pub fn handle_connected(&mut self, connecting: ConnectingId, rtt: Duration, now: Instant) {
        let (most, actions) = (self.handshake_timeout, &mut self.actions);
        let Some(path) = find(&mut self.paths, connecting) else { return };
        path.connected(connecting, rtt, most, now, actions);
    }

    /// The attempt's connection is secured: it says hello, or joins, or waits until it can.
    pub fn handle_secured(&mut self, connecting: ConnectingId, now: Instant) {
        if let Some(found) = self.find_connecting(connecting) {
            found.wait();
            self.send_hellos(now);
        }
    }

    /// The attempt's hello or join has been answered: its subflow is up.
    pub fn handle_up(&mut self, connecting: ConnectingId, now: Instant) {
        let Some(path) = find(&mut self.paths, connecting) else { return };
        path.up(connecting, now, &mut self.actions);
        self.opening = Opening::Open;
        self.send_hellos(now);
    }

    /// The attempt has failed.
    pub fn handle_failed(&mut self, connecting: ConnectingId, failure: Failure, now: Instant) {
        let (is_open, most) = (self.opening == Opening::Open, self.handshake_timeout);
        if self.opening == Opening::Said(connecting) {
            self.opening = Opening::Unsaid;
        }
        let Some(path) = find(&mut self.paths, connecting) else { return };
        path.failed(connecting, failure, is_open, most, now, &mut self.actions);
        if !is_open {
            self.evaluate_failures(now);
        }
        self.send_hellos(now);
    }

    /// The subflow is gone.
    pub fn handle_down(&mut self, subflow: SubflowId, now: Instant) {
        for path in self.paths.iter_mut().chain(self.leaving.iter_mut().map(Leaving::path_mut)) {
            path.down(subflow, now);
        }
        self.hasten(now);
    }

    /// Something may have changed about the subflow: it was written to, or the session finds it
    /// stalled or recovered.
    pub fn handle_news(&mut self, subflow: SubflowId) {
        if let Some(path) = self.paths.iter_mut().find(|path| path.subflow() == Some(subflow)) {
            path.news(&mut self.actions);
        }
    }

    /// What a look at the subflow has shown; `None` if its socket is gone.
    pub fn handle_look(&mut self, subflow: SubflowId, look: Option<Look>, now: Instant) {
        let (most, wanted, actions) = (self.handshake_timeout, self.wanted, &mut self.actions);
        if let Some(path) = self.paths.iter_mut().find(|path| path.subflow() == Some(subflow)) {
            path.looked(look.as_ref(), wanted, most, now, actions);
        }
    }

    /// The machine's links or routes have changed: paths that are dark may have come back.
    pub fn handle_links_changed(&mut self) {
        self.paths.iter_mut().for_each(Path::hurry);
    }

    /// The server has taken a subflow of another connection on the path.
    pub fn handle_answered(&mut self, path: PathId) {
        let same = self.paths.iter_mut().filter(|other| other.plan.id == path);
        same.for_each(Path::hurry_unless_put_off);
    }

    /// The connection has these paths from now on. Those that are not there any more drain.
    pub fn set_paths(&mut self, plans: Vec<PathPlan>, now: Instant) {
        let (actions, leaving) = (&mut self.actions, &mut self.leaving);
        let is_left = |path: &mut Path| plans.iter().all(|plan| plan.id != path.plan.id);
        for mut path in self.paths.extract_if(.., is_left) {
            path.pause(now, actions);
            leaving.push(Leaving::new(path, now));
        }
        for plan in plans {
            if self.paths.iter().any(|path| path.plan.id == plan.id) {
                continue;
            }
            let plan = PathPlan { reserve: false, ..plan };
            let back = leaving.extract_if(.., |leaving| leaving.id() == plan.id).next();
            self.paths.push(match back {
                Some(leaving) => leaving.come_back(plan, now),
                None => Path::new(plan, now),
            });
        }
        self.check_hello(now);
        self.hasten(now);
    }

    /// What is still on the subflows of a path that drains; `None` if it has none.
    pub fn handle_carried(&mut self, path: PathId, carried: Option<Carried>, now: Instant) {
        let Some(at) = self.leaving.iter().position(|leaving| leaving.id() == path) else { return };
        let done = match carried {
            None => true,
            Some(carried) if self.leaving[at].is_through(&carried, now) => {
                self.actions.push_back(Action::ClosePath(path));
                true
            }
            Some(_) => false,
        };
        if done {
            self.leaving.remove(at);
        }
    }

    /// Does what is due; `moved` is how many bytes the connection has delivered in all, in both
    /// directions.
    pub fn handle_timeout(&mut self, moved: u64, now: Instant) {
        for leaving in &mut self.leaving {
            leaving.handle_timeout(now, &mut self.actions);
        }
        let late: Vec<ConnectingId> =
            self.paths.iter().flat_map(Path::connecting).filter_map(|one| one.late(now)).collect();
        for connecting in late {
            let limit = self.find_connecting(connecting).map_or(Duration::ZERO, |one| one.limit);
            self.actions.push_back(Action::TimeOut(connecting, limit));
            self.handle_failed(connecting, Failure::Temporary, now);
        }
        if !self.wanted {
            return;
        }
        for path in &mut self.paths {
            let dial = path.handle_timeout(moved, now, &mut self.actions);
            if let Some(turn) = dial {
                let connecting = ConnectingId(self.next_connecting);
                self.next_connecting += 1;
                path.dial(Connecting::new(connecting, self.dial_timeout, now), now);
                self.actions.push_back(Action::Dial { connecting, path: path.plan.id, turn });
            }
        }
        self.hasten(now);
    }

    // ---- inside ----

    fn find_connecting(&mut self, connecting: ConnectingId) -> Option<&mut Connecting> {
        self.paths.iter_mut().find_map(|path| path.find_connecting(connecting))
    }

    /// Whoever was saying hello may have been abandoned: then it is another one's turn.
    fn check_hello(&mut self, now: Instant) {
        if let Opening::Said(connecting) = self.opening
            && self.find_connecting(connecting).is_none()
        {
            self.opening = Opening::Unsaid;
            self.send_hellos(now);
        }
    }

    /// A path that comes up for the first time has the time of a server that is busy, as another one
    /// carries meanwhile. Without any subflow an open connection has no such time: the path counts as
    /// dark.
    fn hasten(&mut self, now: Instant) {
        let is_without = self.paths.iter().all(|path| path.subflow().is_none());
        if self.opening == Opening::Open && self.wanted && is_without {
            let most = self.handshake_timeout;
            self.paths.iter_mut().for_each(|path| path.hasten(most, now));
        }
    }

    /// Lets those that are secured say hello, one at a time, or join.
    fn send_hellos(&mut self, now: Instant) {
        while !matches!(self.opening, Opening::Said(_)) {
            let paths = self.paths.len();
            let mut all = self.paths.iter_mut().flat_map(Path::connecting_mut);
            let Some(connecting) = all.find(|one| one.stage == Stage::Waiting) else { return };
            let (id, subflow) = (connecting.id, SubflowId(self.next_subflow));
            self.next_subflow += 1;
            connecting.subflow = Some(subflow);
            if self.opening == Opening::Open {
                connecting.enter(Stage::HelloSent, connecting.limit, now);
                self.actions.push_back(Action::Join(id, subflow));
                continue;
            }
            self.opening = Opening::Said(id);
            self.hellos += 1;
            // One that goes dark holds up all others, which wait for it. So it has little time, as
            // long as there is another path that has not tried: the server may just be busy.
            let timeout = self.handshake_timeout;
            let limit = if self.hellos < paths { connecting.quick(timeout) } else { timeout };
            connecting.enter(Stage::HelloSent, limit, now);
            self.actions.push_back(Action::Hello(id, subflow));
        }
    }

    /// Paths in reserve are wanted when all others have failed; when all have failed too often, that
    /// is the end.
    fn evaluate_failures(&mut self, now: Instant) {
        if self.paths.iter().all(|path| path.failures > 0 || path.plan.reserve) {
            self.paths.iter_mut().for_each(|path| path.end_reserve(now));
        }
        if self.paths.iter().all(|path| path.failures >= FAILURES) {
            self.actions.push_back(Action::GiveUp);
        }
    }
}

fn find(paths: &mut [Path], connecting: ConnectingId) -> Option<&mut Path> {
    paths.iter_mut().find(|path| path.connecting().any(|one| one.id == connecting))
}
