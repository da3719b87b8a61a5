//! Keeps the paths of a client's connection up: carries out what the core's
//! [`PathManager`] decides, over sockets.
//!
//! One task a connection, from its first dial until it is over. It follows the changes of the
//! client's paths and of the machine's links.

mod steps;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinSet;
use weftline_core::path_manager::{Action, ConnectingId, Look, PathManager, PathPlan};
use weftline_core::rng::Rng;
use weftline_core::session::RESET_ABANDONED;
use weftline_core::wire::{HelloNonce, PolicyNote};
use weftline_core::{Instant, PathId, PathPolicy, Role, SubflowId};

use self::steps::{Step, Underway};
use crate::clock;
use crate::connection::Connection;
use crate::error::Error;
use crate::events::PathEventKind;
use crate::handshake::Accepted;
use crate::links::LinkWatch;
use crate::random::random;
use crate::settings::Settings;
use crate::shared::{End, Shared, path_event};
use crate::subflow::{Running, SubflowEnd};

/// The same failure of a path is told again after this long.
const TELL_INTERVAL: std::time::Duration = std::time::Duration::from_secs(1);

/// How far a connection must have come for those who wait for it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The server has been reached, and is told hello.
    Reached,
    /// The server has let the connection in.
    Up,
}

/// The connection, or why there is none. Whoever is not there to take it lets go of it.
pub(crate) type Opened = Result<Connection, Error>;

/// See the [module](self).
pub(crate) struct Paths {
    settings: Arc<Settings>,
    changes: watch::Receiver<Arc<Settings>>,
    /// Which of the client's connections this is.
    number: u64,
    /// The same in each of its hellos.
    nonce: HelloNonce,
    manager: PathManager,
    /// Set by the first hello: what the application writes goes with it.
    shared: Option<Arc<Shared>>,
    /// Set by the answer to a hello, which opens the connection.
    accepted: Option<Accepted>,
    /// Boxed: an empty map keeps its first node, which has room for eleven.
    underway: BTreeMap<ConnectingId, Box<Underway>>,
    steps: JoinSet<(ConnectingId, Step)>,
    subflows: BTreeMap<SubflowId, Watched>,
    /// Who waits for the connection, for which stage, and the most telling error so far.
    asker: Option<oneshot::Sender<Opened>>,
    stage: Stage,
    told: Option<Error>,
    /// What was said last of each path's failures, and when.
    failures: BTreeMap<PathId, (String, Instant)>,
    answers: watch::Receiver<()>,
    /// How often the server had taken a subflow on each path.
    answered: BTreeMap<PathId, u64>,
    links: Option<LinkWatch>,
}

/// A subflow, and whether its address was on an interface when it came up: not every address that
/// works is, such as those of 127.0.0.0/8.
struct Watched {
    running: Running,
    is_listed: bool,
}

impl Drop for Paths {
    fn drop(&mut self) {
        // Begun, and then given up before anybody got the connection.
        if let Some(shared) = &self.shared {
            shared.abort(RESET_ABANDONED, "the client gave up connecting");
        }
    }
}

impl Paths {
    /// For the connection `number` of a client, which `asker` is told of when it has come to
    /// `stage`, or has failed.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub(crate) fn new(
        mut changes: watch::Receiver<Arc<Settings>>,
        number: u64,
        stage: Stage,
        asker: oneshot::Sender<Opened>,
    ) -> Result<Self, Error> {
        let settings = Arc::clone(&changes.borrow_and_update());
        let plans = plans(&settings, number);
        let timeout = settings.handshake_timeout;
        Ok(Self {
            number,
            nonce: HelloNonce(random()?),
            manager: PathManager::new(plans, timeout, None, clock::now()),
            shared: None,
            accepted: None,
            underway: BTreeMap::new(),
            steps: JoinSet::new(),
            subflows: BTreeMap::new(),
            asker: Some(asker),
            stage,
            told: None,
            failures: BTreeMap::new(),
            answers: settings.common.answers.subscribe(),
            answered: answered(&settings),
            links: settings.links(),
            settings,
            changes,
        })
    }

    /// Keeps the paths up until the connection is over, or nobody waits for it any more.
    pub(crate) async fn run(mut self) {
        let news = Arc::new(Notify::new());
        let mut is_over = false;
        loop {
            self.act();
            let asker_left = self.asker.as_ref().is_some_and(oneshot::Sender::is_closed);
            if asker_left || (self.asker.is_none() && self.shared.is_none()) {
                return;
            }
            let news = self.shared.as_ref().map_or_else(|| Arc::clone(&news), |s| s.path_news());
            let shared = self.shared.clone();
            let deadline = self.manager.poll_timeout().unwrap_or(Instant::FAR);
            tokio::select! {
                Some(done) = self.steps.join_next_with_id() => match done {
                    Ok((_, (connecting, step))) => self.stepped(connecting, step),
                    Err(error) => self.broke_off(&error),
                },
                () = news.notified() => self.look_around(),
                () = tokio::time::sleep_until(clock::to_tokio(deadline)) => {
                    let moved = self.shared.as_ref().map_or(0, |shared| shared.moved());
                    self.manager.handle_timeout(moved, clock::now());
                }
                _ = self.answers.changed() => self.note_answers(),
                () = changed(&mut self.links) => self.check_links(),
                Ok(()) = self.changes.changed(), if self.accepted.is_some() => self.take_settings(),
                () = over(shared.as_deref()), if !is_over => is_over = true,
                () = gone(shared.as_deref()) => return self.report_end(),
                () = closed(&mut self.asker) => {}
            }
            if let Some(shared) = &self.shared {
                self.manager.set_wanted(shared.wants_path(), clock::now());
            }
        }
    }

    /// Carries out what the path manager wants.
    fn act(&mut self) {
        while let Some(action) = self.manager.poll_action() {
            match action {
                Action::Dial { connecting, path, turn } => self.dial(connecting, path, turn),
                Action::Secure(connecting) => self.secure(connecting),
                Action::Hello(connecting, subflow) => self.hello(connecting, subflow),
                Action::Join(connecting, subflow) => self.join(connecting, subflow),
                Action::Abandon(connecting) => self.abandon(connecting),
                Action::TimeOut(connecting, after) => self.time_out(connecting, after),
                Action::Look(subflow) => self.look(subflow),
                Action::Rest(subflow) => {
                    self.subflows.get(&subflow).inspect(|watched| watched.running.rest());
                    // What was written before that counts as seen.
                    self.look(subflow);
                }
                Action::Probe(subflow) => {
                    self.shared.as_ref().inspect(|shared| shared.probe(subflow));
                }
                Action::Recovered(subflow) => {
                    self.shared.as_ref().inspect(|shared| shared.note_answering(subflow, true));
                }
                Action::PotentiallyFailed(path, subflow) => {
                    self.shared.as_ref().inspect(|shared| shared.note_answering(subflow, false));
                    self.tell(path, PathEventKind::PotentiallyFailed { subflow: subflow.0 });
                }
                Action::Replace(subflow) => {
                    if let Some(watched) = self.subflows.remove(&subflow) {
                        watched.running.replace();
                    }
                }
                Action::Carried(path) => {
                    let carried = self.shared.as_ref().and_then(|shared| shared.carried(path));
                    self.manager.handle_carried(path, carried, clock::now());
                }
                Action::ClosePath(path) => {
                    self.shared.as_ref().inspect(|shared| shared.close_path(path));
                }
                Action::GiveUp => self.give_up(),
            }
        }
    }

    // ---- what has been seen ----

    fn look(&mut self, subflow: SubflowId) {
        let info = self.subflows.get(&subflow).and_then(|watched| watched.running.info());
        let known = self.shared.as_ref().map(|shared| shared.progress(subflow));
        let look = info.map(|info| Look {
            acked: info.acked_bytes,
            unacked: info.unacked_bytes,
            unsent: info.unsent_bytes,
            srtt: info.srtt,
            rttvar: info.rttvar,
            ..known.unwrap_or_default()
        });
        self.manager.handle_look(subflow, look, clock::now());
    }

    /// Something has happened to some subflow.
    fn look_around(&mut self) {
        let now = clock::now();
        let manager = &mut self.manager;
        self.subflows.retain(|&subflow, watched| {
            let is_down = watched.running.is_down();
            if is_down {
                manager.handle_down(subflow, now);
            } else {
                manager.handle_news(subflow);
            }
            !is_down
        });
    }

    /// Closes what can send nothing any more, and lets dark paths be tried.
    fn check_links(&mut self) {
        let Some(links) = &self.links else { return };
        for (&subflow, watched) in &mut self.subflows {
            let path = self.manager.path_of(subflow).and_then(|path| self.settings.index(path));
            let Some(index) = path else { continue };
            let local = watched.running.local().ip();
            if watched.is_listed && !links.carry(&self.settings.paths[index].0.bind, local) {
                watched.running.stop(SubflowEnd::NoLink(local));
            }
        }
        self.manager.handle_links_changed();
    }

    /// The server has taken a subflow of some connection of the client.
    fn note_answers(&mut self) {
        let dark: Vec<PathId> = self.manager.dark().collect();
        for path in dark {
            let Some(index) = self.settings.index(path) else { continue };
            let answers = self.settings.knowledge[index].answers();
            if self.answered.insert(path, answers) != Some(answers) {
                self.manager.handle_answered(path);
            }
        }
    }

    /// The client's paths have changed. A path that is new is dialled; one whose role or cap is
    /// another goes on with these, at both ends; one that is no longer there drains.
    fn take_settings(&mut self) {
        let now = Arc::clone(&self.changes.borrow_and_update());
        let Some(shared) = self.shared.clone() else { return };
        if !now.shares_server(&self.settings) {
            // Another server does not know this connection, which stays with the one it has.
            return;
        }
        let before = std::mem::replace(&mut self.settings, Arc::clone(&now));
        for &path in before.ids.iter().filter(|&&path| now.index(path).is_none()) {
            let policy = PathPolicy { role: Role::Retired, cap: None };
            shared.change_policy(path, PolicyNote { revision: now.revision, policy });
        }
        for (index, &path) in now.ids.iter().enumerate() {
            let was = before.index(path);
            if was.is_none_or(|was| before.note(was).policy != now.note(index).policy) {
                shared.change_policy(path, now.note(index));
            }
            if was.is_none() {
                shared.name_path(path, &now.paths[index].0.name);
            }
        }
        self.answered = answered(&now);
        self.manager.set_paths(plans(&now, self.number), clock::now());
    }

    // ---- what is told ----

    fn report(&mut self, stage: Stage, peer: SocketAddr) {
        if stage != self.stage && stage != Stage::Up {
            return;
        }
        if let (Some(asker), Some(shared)) = (self.asker.take(), &self.shared) {
            // They may have left.
            let _ = asker.send(Ok(Connection::new(Arc::clone(shared), peer, None)));
        }
    }

    /// The connection is over: who still waits for it hears how it has ended, as by a server that resets it at once.
    fn report_end(&mut self) {
        let Some(asker) = self.asker.take() else { return };
        let end = self.shared.as_ref().and_then(|shared| shared.end());
        let error = match end {
            Some(End::Failed(error)) => match &*error {
                Error::Reset { code, reason } => {
                    Error::Reset { code: *code, reason: reason.clone() }
                }
                other => Error::Socket(std::io::Error::other(other.to_string())),
            },
            Some(End::Closed) | None => Error::Socket(std::io::ErrorKind::ConnectionAborted.into()),
        };
        // They may have left.
        let _ = asker.send(Err(error));
    }

    /// An attempt has failed; the path manager knows, or will be told.
    fn told_failure(&mut self, path: PathId, error: Error) {
        let (reason, now) = (error.to_string(), clock::now());
        let known = self
            .failures
            .get(&path)
            .is_some_and(|(last, at)| *last == reason && now.since(*at) < TELL_INTERVAL);
        if !known {
            self.failures.insert(path, (reason.clone(), now));
            self.tell(path, PathEventKind::AttemptFailed { reason });
        }
        if self.told.as_ref().is_none_or(|old| !old.is_permanent()) {
            self.told = Some(error);
        }
    }

    fn tell(&self, path: PathId, kind: PathEventKind) {
        let Some(index) = self.settings.index(path) else { return };
        let event = path_event(
            clock::now(),
            path,
            &self.settings.paths[index].0.name.as_str().into(),
            kind,
        );
        match &self.shared {
            Some(shared) => shared.publish(event),
            None => tracing::debug!("{event}"),
        }
    }

    fn give_up(&mut self) {
        let none = || Error::Invalid("no path to connect over".to_owned());
        let error = self.told.take().unwrap_or_else(none);
        match (self.asker.take(), self.shared.take()) {
            (Some(asker), shared) => {
                if let Some(shared) = shared {
                    shared.abort(RESET_ABANDONED, "the client gave up connecting");
                }
                // They may have left.
                let _ = asker.send(Err(error));
            }
            (None, Some(shared)) => shared.forgotten(error),
            (None, None) => {}
        }
    }
}

/// What the path manager is to keep up in the connection `number`.
fn plans(settings: &Settings, number: u64) -> Vec<PathPlan> {
    let plan = |(index, &id): (usize, &PathId)| {
        let stream = format!("connection/{number}/path/{}", settings.paths[index].0.name);
        PathPlan {
            id,
            reserve: settings.is_reserve(index),
            seat: settings.knowledge[index].seat.clone(),
            rng: Rng::stream(settings.seed, &stream),
        }
    };
    settings.ids.iter().enumerate().map(plan).collect()
}

/// How often the server has taken a subflow on each path so far.
fn answered(settings: &Settings) -> BTreeMap<PathId, u64> {
    let answers = settings.knowledge.iter().map(|knowledge| knowledge.answers());
    settings.ids.iter().copied().zip(answers).collect()
}

/// Waits for a change of the machine's links; for ever where they are not watched.
async fn changed(links: &mut Option<LinkWatch>) {
    match links {
        Some(links) => links.changed().await,
        None => std::future::pending().await,
    }
}

async fn over(shared: Option<&Shared>) {
    match shared {
        Some(shared) => shared.ended().await,
        None => std::future::pending().await,
    }
}

async fn gone(shared: Option<&Shared>) {
    match shared {
        Some(shared) => shared.gone().await,
        None => std::future::pending().await,
    }
}

/// Waits until nobody waits any more; for ever when they have been told.
async fn closed(asker: &mut Option<oneshot::Sender<Opened>>) {
    match asker {
        Some(asker) => asker.closed().await,
        None => std::future::pending().await,
    }
}
