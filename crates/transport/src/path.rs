//! The path manager: brings each path of a connection up, and up again.
//!
//! A path that cannot be reached is left out and tried again. A subflow that makes no progress is
//! not waited for, as the kernel's retransmission timer backs off exponentially: fresh TCP
//! connections are tried beside it on the same path, and the first that answers takes its place. A
//! subflow whose interface or address is gone is closed at once.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::{OnceCell, mpsc};
use tokio::task::JoinSet;
use weftline_core::rng::Rng;
use weftline_core::session::RESET_ABANDONED;
use weftline_core::wire::{Hello, HelloNonce, Join};
use weftline_core::{Instant, SubflowId};

use crate::channel::Channel;
use crate::client::Settings;
use crate::clock;
use crate::error::Error;
use crate::events::PathEventKind;
use crate::handshake::{self, SessionKeys};
use crate::links::LinkWatch;
use crate::memory::unasked;
use crate::redial::{self, Backoff, Pace};
use crate::refusal;
use crate::shared::{Shared, path_event};
use crate::socket::TcpInfo;
use crate::subflow::{self, Running, SubflowEnd};
use crate::vigil::{LOOK_INTERVAL, Look, Verdict, Vigil};

/// A subflow that goes on within this time after it was found stalled is kept. One that took
/// longer is replaced all the same: its other direction may wait for a timer yet.
const SHORT_STALL: Duration = Duration::from_millis(400);
/// A subflow that goes on after a longer stall is kept if nothing has taken its place by then.
const LONG_STALL: Duration = Duration::from_secs(3);
/// What the handshake of a fresh connection on a dark path, and a hello for which other paths wait,
/// may take at least, and in round-trip times, before the path counts as dark.
const HANDSHAKE_MIN: Duration = Duration::from_secs(1);
const HANDSHAKE_RTTS: u32 = 10;
/// Attempts under way at once on one path.
const MAX_DIALS: usize = 16;
/// The least time between two attempts, however often links and routes change.
const LEAST_WAIT: Duration = Duration::from_millis(50);
/// The same failure of a path is told again after this long.
const TELL_INTERVAL: Duration = Duration::from_secs(1);

/// What a path tells the one who waits for the connection.
pub(crate) enum Report {
    /// An attempt of the path with this index failed.
    Failed(usize, Error),
    /// The server at this address has been reached, and is told hello.
    Reached(Arc<Shared>, SocketAddr),
    /// A subflow is up, to the server at this address.
    Up(Arc<Shared>, SocketAddr),
}

/// Brings up the paths of one connection.
pub(crate) struct Dialer {
    settings: Arc<Settings>,
    origin: Arc<Origin>,
}

/// What all paths of a connection have in common, whenever they were added.
struct Origin {
    /// Which of the client's connections this is.
    number: u64,
    /// The same in each of its hellos.
    nonce: HelloNonce,
    next_subflow: AtomicU64,
    /// How often it has said hello.
    hellos: AtomicUsize,
    /// Set by the first hello: what the application writes goes with it.
    shared: OnceLock<Arc<Shared>>,
    /// Set by the answer to a hello, which opens the connection; other paths join then. Those that
    /// come while a hello is under way wait here, and the next one tries when it fails.
    open: OnceCell<Open>,
}

struct Open {
    shared: Arc<Shared>,
    keys: SessionKeys,
}

impl Drop for Origin {
    fn drop(&mut self) {
        // Begun, and then given up before anybody got the connection.
        if let Some(shared) = self.shared.get() {
            let reason = "the client gave up connecting";
            shared.abort(RESET_ABANDONED, reason);
        }
    }
}

impl Dialer {
    /// For a new connection.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub(crate) fn new(settings: Arc<Settings>, number: u64) -> Result<Self, Error> {
        let origin = Origin {
            number,
            nonce: HelloNonce(handshake::random()?),
            next_subflow: AtomicU64::new(0),
            hellos: AtomicUsize::new(0),
            shared: OnceLock::new(),
            open: OnceCell::new(),
        };
        Ok(Self { settings, origin: Arc::new(origin) })
    }

    /// For the same connection, of which paths have been added or changed.
    pub(crate) fn with(&self, settings: Arc<Settings>) -> Self {
        Self { settings, origin: Arc::clone(&self.origin) }
    }

    /// How the client's paths are set up.
    pub(crate) fn settings(&self) -> &Arc<Settings> {
        &self.settings
    }

    /// The connection, once it is open.
    pub(crate) fn connection(&self) -> Option<&Arc<Shared>> {
        Some(&self.origin.open.get()?.shared)
    }

    /// Keeps the path `index` up until the connection is over.
    pub(crate) async fn run_path(self: Arc<Self>, index: usize, reports: mpsc::Sender<Report>) {
        let mut backoff = self.backoff(index);
        let mut running = loop {
            // In memory of its own: an idle connection does without.
            match Box::pin(self.attempt(index, &reports)).await {
                Ok(None) => return,
                Ok(Some(running)) => break Some(running),
                Err(error) => {
                    self.failed(index, &error);
                    let _ = reports.send(Report::Failed(index, error)).await;
                }
            }
            if self.origin.open.get().is_some() {
                break None;
            }
            tokio::time::sleep(backoff.next()).await;
        };
        let Some(open) = self.origin.open.get() else { return };
        if let Some(running) = &running {
            let up = Report::Up(Arc::clone(&open.shared), running.peer());
            // Only the first is waited for; later nobody is there any more.
            let _ = reports.send(up).await;
        }
        drop(reports);
        loop {
            let mut vigil = Vigil::default();
            if let Some(subflow) = &mut running
                && self.watch(index, open, subflow, &mut vigil).await == Dark::Down
            {
                running = None;
            }
            if !open.shared.wants_path() {
                return;
            }
            match Box::pin(self.redial(index, open, running.as_ref(), &mut vigil)).await {
                Redial::Fresh(fresh) => {
                    if let Some(old) = running.replace(fresh) {
                        old.replace();
                    }
                }
                Redial::Recovered => {}
                Redial::Over => return,
            }
        }
    }

    fn backoff(&self, index: usize) -> Backoff {
        let name = &self.settings.paths[index].0.name;
        let stream = format!("connection/{}/path/{name}", self.origin.number);
        Backoff::new(Rng::stream(self.settings.seed, &stream))
    }

    /// One attempt to bring a subflow up; `None` when the connection is over.
    async fn attempt(
        &self,
        index: usize,
        reports: &mpsc::Sender<Report>,
    ) -> Result<Option<Running>, Error> {
        let _turn = self.settings.knowledge[index].turn(self.settings.handshake_timeout).await;
        let stream = redial::dial(&self.settings, index).await?;
        self.enter(index, stream, self.settings.handshake_timeout, Some(reports)).await
    }

    /// Makes a TCP connection a subflow; `None` when the connection is over. TLS, then hello or
    /// join, may take `limit` each. A hello is reported to `reports`.
    async fn enter(
        &self,
        index: usize,
        stream: TcpStream,
        limit: Duration,
        reports: Option<&mpsc::Sender<Report>>,
    ) -> Result<Option<Running>, Error> {
        let settings = &*self.settings;
        let (path, server) = &settings.paths[index];
        let address = stream.peer_addr().map_err(Error::Socket)?;
        let name = settings.server_name.clone().unwrap_or_else(|| server.certificate_name());
        let channel = Channel::connect(stream, &settings.security, &name);
        let mut channel = in_time(limit, address, channel).await?;
        let options = settings.socket_options(path);
        channel.set_congestion(&options.congestion, None)?;
        let subflow = SubflowId(self.origin.next_subflow.fetch_add(1, Ordering::Relaxed));
        let path_id = settings.ids[index];
        let mut channel = Some(channel);
        let mut first = None;
        let hello = async {
            let channel = channel.take().expect("said once");
            let (running, open) = self.hello(channel, subflow, index, reports).await?;
            first = Some(running);
            Ok::<_, Error>(open)
        };
        let open = self.origin.open.get_or_try_init(|| hello).await?;
        let parts = match (first, channel) {
            (Some(running), _) => return Ok(Some(running)),
            (None, Some(channel)) => {
                let join = Join {
                    subflow: subflow.0,
                    path: path_id.0,
                    path_name: path.name.clone(),
                    policy: open.shared.policy(path_id),
                    congestion: Some(options.congestion.on_wire()),
                    ..Join::default()
                };
                let join = handshake::join(channel, &open.keys, join);
                in_time(limit, address, join).await.inspect_err(|error| open.check(error))?
            }
            (None, None) => unreachable!("a failed hello has returned"),
        };
        Ok(subflow::start(&open.shared, subflow, path_id, &path.name.as_str().into(), parts))
    }

    /// Says hello, with what the application has written by then and goes on writing behind it,
    /// and waits for the answer.
    ///
    /// A path that goes dark now holds up all others, which wait for it. So it has little time, as
    /// long as there is another path that has not tried: the server may just be busy.
    async fn hello(
        &self,
        channel: Channel,
        subflow: SubflowId,
        index: usize,
        reports: Option<&mpsc::Sender<Report>>,
    ) -> Result<(Running, Open), Error> {
        let settings = &*self.settings;
        let shared = self.begin()?;
        let (path, id) = (&settings.paths[index].0, settings.ids[index]);
        let hello = Hello {
            subflow: subflow.0,
            path: id.0,
            path_name: path.name.clone(),
            nonce: self.origin.nonce,
            policy: settings.note(index),
            congestion: settings.socket_options(path).congestion.on_wire(),
            ..settings.hello.clone()
        };
        let peer = channel.peer();
        let said = 1 + self.origin.hellos.fetch_add(1, Ordering::Relaxed);
        let limit = match said < settings.paths.len() {
            true => handshake_limit(channel.socket(), settings.handshake_timeout),
            false => settings.handshake_timeout,
        };
        let (parts, answer) = handshake::hello(channel, hello, settings.token.as_ref())?;
        let name = path.name.as_str().into();
        let running = subflow::start(&shared, subflow, id, &name, parts);
        let mut running = running.ok_or(Error::ClosedInHandshake { peer })?;
        if let Some(reports) = reports {
            let reached = Report::Reached(Arc::clone(&shared), peer);
            // Only the first is waited for; later nobody is there any more.
            let _ = reports.send(reached).await;
        }
        // What breaks a subflow off before its answer is told with it, but not the connection's end.
        let answer = async { answer.await.unwrap_or(Err(Error::ClosedInHandshake { peer })) };
        let answer = in_time(limit, peer, answer).await;
        match answer {
            Ok(keys) => Ok((running, Open { shared, keys })),
            Err(error) => {
                running.stop(SubflowEnd::Unanswered);
                Err(error)
            }
        }
    }

    /// The connection that the hellos are to open.
    fn begin(&self) -> Result<Arc<Shared>, Error> {
        if let Some(shared) = self.origin.shared.get() {
            return Ok(Arc::clone(shared));
        }
        let settings = &*self.settings;
        let lease = settings.memory.connection(unasked(&settings.session))?;
        let caps = Arc::clone(&settings.common.caps);
        let shared = Shared::opening(&settings.session, settings.grace, caps, lease);
        for (index, &id) in settings.ids.iter().enumerate() {
            shared.set_policy(id, settings.note(index));
            shared.name_path(id, &settings.paths[index].0.name);
        }
        // One hello is under way at a time.
        Ok(Arc::clone(self.origin.shared.get_or_init(|| shared)))
    }

    /// Watches a subflow until it is down or stalled.
    async fn watch(
        &self,
        index: usize,
        open: &Open,
        running: &mut Running,
        vigil: &mut Vigil,
    ) -> Dark {
        let bind = &self.settings.paths[index].0.bind;
        let local = running.local().ip();
        let mut links = self.settings.links();
        // Not every address that works is on an interface, such as those of 127.0.0.0/8.
        let is_listed = links.as_ref().is_some_and(|links| links.carry(bind, local));
        let mut resting = false;
        loop {
            let health = Arc::clone(&running.health);
            tokio::select! {
                () = running.ended() => return Dark::Down,
                () = health.notified() => {}
                () = changed(&mut links), if is_listed => {
                    if links.as_ref().is_some_and(|links| !links.carry(bind, local)) {
                        running.stop(SubflowEnd::NoLink(local));
                    }
                }
                () = tokio::time::sleep(LOOK_INTERVAL), if !resting => {}
            }
            resting = false;
            match look(running, &open.shared, vigil) {
                Verdict::Idle => {
                    running.rest();
                    // What was written before that counts as seen.
                    resting = look(running, &open.shared, vigil) == Verdict::Idle;
                }
                Verdict::Alive => {}
                Verdict::Quiet => open.shared.probe(running.id),
                Verdict::Stalled if self.settings.replace_stalled => {
                    let kind = PathEventKind::Stalled { subflow: running.id.0 };
                    self.tell(index, &open.shared, kind);
                    return Dark::Stalled;
                }
                Verdict::Stalled => {}
            }
        }
    }

    /// Dials a path again and again that has no subflow, or a stalled one, until one of the
    /// connections has become a subflow.
    async fn redial(
        &self,
        index: usize,
        open: &Open,
        old: Option<&Running>,
        vigil: &mut Vigil,
    ) -> Redial {
        let knowledge = &self.settings.knowledge[index];
        let mut pace = Pace::new(self.backoff(index), clock::now());
        let (mut answers, mut links) = (knowledge.answers(), self.settings.links());
        let mut stall = Stall::new(clock::now());
        let mut over = false;
        let mut dials = JoinSet::new();
        let mut teller = Teller::default();
        let mut last = tokio::time::Instant::now();
        let mut next = last;
        while open.shared.wants_path() {
            tokio::select! {
                // One that has closed may still want a subflow for its last words.
                () = open.shared.ended(), if !over => over = true,
                Some(dial) = dials.join_next() => match dial.unwrap_or_else(|error| {
                    Err(Error::Socket(std::io::Error::other(error)))
                }) {
                    Ok(stream) => {
                        answers.mark_unchanged();
                        if let Some(old) = &old {
                            stall.note(look(old, &open.shared, vigil), clock::now());
                        }
                        if stall.is_short() {
                            return Redial::Recovered;
                        }
                        let limit = handshake_limit(&stream, self.settings.handshake_timeout);
                        match self.enter(index, stream, limit, None).await {
                            Ok(Some(running)) => return Redial::Fresh(running),
                            Ok(None) => return Redial::Over,
                            Err(error) => {
                                let is_refusal = matches!(error, Error::Refused { .. });
                                if is_refusal || error.is_permanent() {
                                    next = tokio::time::Instant::now() + pace.wait_after_refusal();
                                }
                                teller.tell(self, index, &error);
                            }
                        }
                    }
                    Err(error) => teller.tell(self, index, &error),
                },
                () = changed(&mut links) => next = next.min(last + LEAST_WAIT),
                _ = answers.changed() => next = next.min(last + LEAST_WAIT),
                () = tokio::time::sleep_until(next) => {
                    last = tokio::time::Instant::now();
                    if dials.len() < MAX_DIALS {
                        let settings = Arc::clone(&self.settings);
                        dials.spawn(async move { redial::dial(&settings, index).await });
                    }
                    next = last + pace.wait(knowledge, open.moved(), clock::now());
                    if let Some(old) = &old {
                        stall.note(look(old, &open.shared, vigil), clock::now());
                    }
                    if stall.is_past(clock::now()) {
                        return Redial::Recovered;
                    }
                }
            }
        }
        Redial::Over
    }

    fn failed(&self, index: usize, error: &Error) {
        let name = self.settings.paths[index].0.name.as_str();
        let reason = error.to_string();
        let Some(shared) = self.origin.shared.get() else {
            tracing::debug!("path {name}: cannot come up: {reason}");
            return;
        };
        self.tell(index, shared, PathEventKind::AttemptFailed { reason });
    }

    fn tell(&self, index: usize, shared: &Shared, kind: PathEventKind) {
        let (name, id) = (self.settings.paths[index].0.name.as_str(), self.settings.ids[index]);
        shared.publish(path_event(clock::now(), id, &name.into(), kind));
    }
}

impl Open {
    /// Bytes delivered in both directions so far.
    fn moved(&self) -> u64 {
        let (stats, _) = self.shared.stats();
        stats.acknowledged + stats.delivered
    }

    /// A server that does not know the connection any more will not know it later: without a
    /// living subflow there is nothing to wait for.
    fn check(&self, error: &Error) {
        if let Error::Refused { peer, code: code @ refusal::JOIN, reason } = error
            && self.shared.subflow_count() == 0
        {
            let (peer, code, reason) = (*peer, *code, reason.clone());
            self.shared.forgotten(Error::Refused { peer, code, reason });
        }
    }
}

/// Why a subflow is of no use.
#[derive(PartialEq, Eq)]
enum Dark {
    Down,
    Stalled,
}

/// What dialling a dark path again has come to.
enum Redial {
    /// It has a new subflow.
    Fresh(Running),
    /// The stalled subflow goes on.
    Recovered,
    /// The connection is over.
    Over,
}

/// A stalled subflow while its path is dialled again.
struct Stall {
    began: Instant,
    /// Since when it goes on.
    recovered: Option<Instant>,
}

impl Stall {
    const fn new(now: Instant) -> Self {
        Self { began: now, recovered: None }
    }

    fn note(&mut self, verdict: Verdict, now: Instant) {
        self.recovered = match verdict {
            Verdict::Stalled => None,
            _ => Some(self.recovered.unwrap_or(now)),
        };
    }

    /// Whether the subflow goes on so soon that it is better than a fresh one.
    fn is_short(&self) -> bool {
        self.recovered.is_some_and(|at| at.since(self.began) < SHORT_STALL)
    }

    /// Whether to be content with the subflow.
    fn is_past(&self, now: Instant) -> bool {
        self.is_short() || self.recovered.is_some_and(|at| now.since(at) >= LONG_STALL)
    }
}

/// Tells of failed attempts, of the same one not too often.
#[derive(Default)]
struct Teller {
    last: Option<(String, Instant)>,
}

impl Teller {
    fn tell(&mut self, dialer: &Dialer, index: usize, error: &Error) {
        let (reason, now) = (error.to_string(), clock::now());
        let known =
            |(last, at): &(String, Instant)| *last == reason && now.since(*at) < TELL_INTERVAL;
        if !self.last.as_ref().is_some_and(known) {
            self.last = Some((reason, now));
            dialer.failed(index, error);
        }
    }
}

/// Looks at a subflow; one whose socket is gone is stalled.
fn look(running: &Running, shared: &Shared, vigil: &mut Vigil) -> Verdict {
    let Some(info) = running.info() else { return Verdict::Stalled };
    let (silent_since, received) = shared.progress(running.id);
    vigil.judge(&Look { info, silent_since, received }, clock::now())
}

/// How long a handshake on a path that may be dark may take.
fn handshake_limit(stream: &TcpStream, most: Duration) -> Duration {
    let rtt = TcpInfo::of(stream).map(|info| info.srtt).unwrap_or_default();
    (rtt * HANDSHAKE_RTTS).max(HANDSHAKE_MIN).min(most)
}

async fn in_time<T>(
    after: Duration,
    peer: SocketAddr,
    step: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let result = tokio::time::timeout(after, step).await;
    result.unwrap_or(Err(Error::HandshakeTimeout { peer, after }))
}

/// Waits for a change of the machine's links; for ever where they are not watched.
async fn changed(links: &mut Option<LinkWatch>) {
    match links {
        Some(links) => links.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_stall_keeps_the_subflow_and_a_long_one_only_in_the_end() {
        let at = Instant::from_millis;
        let mut short = Stall::new(at(0));
        short.note(Verdict::Stalled, at(200));
        assert!(!short.is_past(at(200)));
        short.note(Verdict::Alive, at(399));
        assert!(short.is_short() && short.is_past(at(399)));
        let mut long = Stall::new(at(0));
        long.note(Verdict::Alive, at(600));
        assert!(!long.is_short() && !long.is_past(at(3599)) && long.is_past(at(3600)));
        long.note(Verdict::Stalled, at(3600));
        assert!(!long.is_past(at(9000)));
    }
}
