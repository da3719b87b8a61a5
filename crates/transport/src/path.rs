//! The path manager: brings each path of a connection up, and up again.
//!
//! A path that cannot be reached is left out and tried again. A subflow that makes no progress is
//! not waited for, as the kernel's retransmission timer backs off exponentially: a fresh TCP
//! connection is tried beside it on the same path and takes its place.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{OnceCell, mpsc};
use weftline_core::rng::Rng;
use weftline_core::session::RESET_ABANDONED;
use weftline_core::{Instant, PathId, SubflowId};

use crate::channel::{Channel, Parts};
use crate::client::Settings;
use crate::clock;
use crate::error::Error;
use crate::events::PathEventKind;
use crate::handshake::{self, SessionKeys};
use crate::refusal;
use crate::shared::{Shared, path_event};
use crate::socket;
use crate::subflow::{self, Running};

/// Waits between attempts: doubling from the first to the last, each up to a quarter shorter.
const BACKOFF_MIN: Duration = Duration::from_millis(250);
const BACKOFF_MAX: Duration = Duration::from_secs(2);
/// A subflow without progress for this long is replaced.
const SILENCE: Duration = Duration::from_secs(2);
/// How often a subflow's progress is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(250);

/// What a path tells the one who waits for the connection.
pub(crate) enum Report {
    /// An attempt of the path with this index failed.
    Failed(usize, Error),
    /// A subflow is up, to the server at this address.
    Up(Arc<Shared>, SocketAddr),
}

/// Brings up the paths of one connection.
pub(crate) struct Dialer {
    settings: Arc<Settings>,
    /// Which of the client's connections this is.
    number: u64,
    next_subflow: AtomicU64,
    /// Set by the first subflow: its hello opens the connection, the others join. Paths that come
    /// later wait here while a hello is under way, and the next one tries when it fails.
    open: OnceCell<Open>,
}

struct Open {
    shared: Arc<Shared>,
    keys: SessionKeys,
}

impl Drop for Dialer {
    fn drop(&mut self) {
        // Opened, and then given up before anybody got the connection.
        if let Some(open) = self.open.get() {
            let reason = "the client gave up connecting";
            open.shared.abort(RESET_ABANDONED, reason);
        }
    }
}

impl Dialer {
    pub(crate) fn new(settings: Arc<Settings>, number: u64) -> Self {
        Self { settings, number, next_subflow: AtomicU64::new(0), open: OnceCell::new() }
    }

    /// Keeps the path `index` up until the connection is over.
    pub(crate) async fn run_path(self: Arc<Self>, index: usize, reports: mpsc::Sender<Report>) {
        let name = &self.settings.paths[index].0.name;
        let stream = format!("connection/{}/path/{name}", self.number);
        let mut backoff = Backoff::new(Rng::stream(self.settings.seed, &stream));
        loop {
            match self.attempt(index).await {
                Ok(None) => return,
                Ok(Some(running)) => {
                    backoff.reset();
                    if let Some(open) = self.open.get() {
                        let up = Report::Up(Arc::clone(&open.shared), running.peer());
                        // Only the first is waited for; later nobody is there any more.
                        let _ = reports.send(up).await;
                    }
                    self.supervise(index, running, &mut backoff).await;
                }
                Err(error) => {
                    self.failed(index, &error);
                    let _ = reports.send(Report::Failed(index, error)).await;
                }
            }
            let wait = tokio::time::sleep(backoff.next());
            let Some(open) = self.open.get() else {
                wait.await;
                continue;
            };
            tokio::select! {
                () = wait => {}
                () = open.shared.ended() => {}
            }
            if !open.shared.wants_path() {
                return;
            }
        }
    }

    /// One attempt to bring a subflow up; `None` when the connection is over.
    async fn attempt(&self, index: usize) -> Result<Option<Running>, Error> {
        let settings = &*self.settings;
        let (path, server) = &settings.paths[index];
        let address = server.resolve(&path.bind).await?;
        let stream = socket::connect(&path.bind, address, &settings.socket).await?;
        let name = settings.server_name.clone().unwrap_or_else(|| server.certificate_name());
        let channel = Channel::connect(stream, &settings.security, &name);
        let channel = self.in_time(address, channel).await?;
        let subflow = SubflowId(self.next_subflow.fetch_add(1, Ordering::Relaxed));
        let path_id = PathId(index as u64);
        let mut channel = Some(channel);
        let mut first = None;
        let hello = async {
            let channel = channel.take().expect("said once");
            let (parts, open) = self.hello(channel, subflow, path_id, &path.name).await?;
            first = Some(parts);
            Ok::<_, Error>(open)
        };
        let open = self.open.get_or_try_init(|| hello).await?;
        let parts = match (first, channel) {
            (Some(parts), _) => parts,
            (None, Some(channel)) => {
                let join = handshake::join(channel, &open.keys, subflow.0, path_id.0, &path.name);
                self.in_time(address, join).await.inspect_err(|error| open.check(error))?
            }
            (None, None) => unreachable!("a failed hello has returned"),
        };
        Ok(subflow::start(&open.shared, subflow, path_id, &path.name.as_str().into(), parts))
    }

    async fn hello(
        &self,
        channel: Channel,
        subflow: SubflowId,
        path: PathId,
        name: &str,
    ) -> Result<(Parts, Open), Error> {
        let settings = &*self.settings;
        let mut hello = settings.hello.clone();
        (hello.subflow, hello.path, hello.path_name) = (subflow.0, path.0, name.to_owned());
        let peer = channel.peer();
        let hello = handshake::hello(channel, hello, settings.token.as_ref());
        let (parts, keys) = self.in_time(peer, hello).await?;
        Ok((parts, Open { shared: Shared::start(&settings.session, settings.grace), keys }))
    }

    async fn in_time<T>(
        &self,
        peer: SocketAddr,
        step: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let after = self.settings.handshake_timeout;
        let result = tokio::time::timeout(after, step).await;
        result.unwrap_or(Err(Error::HandshakeTimeout { peer, after }))
    }

    /// Watches a subflow until its path is down, replacing it when it makes no progress.
    async fn supervise(&self, index: usize, mut running: Running, backoff: &mut Backoff) {
        let Some(open) = self.open.get() else { return };
        let mut watch = Watch::default();
        loop {
            let health = Arc::clone(&running.health);
            tokio::select! {
                () = running.ended() => return,
                () = health.notified() => {}
                () = tokio::time::sleep(LOOK_INTERVAL) => {}
            }
            if !watch.is_dead(&running, &open.shared) {
                continue;
            }
            tokio::select! {
                () = running.ended() => return,
                fresh = self.attempt(index) => match fresh {
                    Ok(Some(fresh)) => {
                        std::mem::replace(&mut running, fresh).replace();
                        backoff.reset();
                        watch = Watch::default();
                    }
                    Ok(None) => return,
                    Err(error) => {
                        self.failed(index, &error);
                        tokio::select! {
                            () = running.ended() => return,
                            () = tokio::time::sleep(backoff.next()) => {}
                        }
                    }
                },
            }
        }
    }

    fn failed(&self, index: usize, error: &Error) {
        let name = self.settings.paths[index].0.name.as_str();
        let reason = error.to_string();
        let Some(open) = self.open.get() else {
            tracing::debug!("path {name}: cannot come up: {reason}");
            return;
        };
        let kind = PathEventKind::AttemptFailed { reason };
        open.shared.publish(path_event(clock::now(), PathId(index as u64), &name.into(), kind));
    }
}

impl Open {
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

/// Tells a subflow that makes no progress from one that has nothing to do.
#[derive(Default)]
struct Watch {
    /// The kernel's count of acknowledged bytes, and since when it has stood still with bytes on
    /// their way.
    stalled: Option<(u64, Instant)>,
}

impl Watch {
    fn is_dead(&mut self, running: &Running, shared: &Shared) -> bool {
        let now = clock::now();
        // The session judges the data it sent; the kernel also knows of acknowledgements that do
        // not get through, which is all that a receiver sends.
        let silent = shared.silent_since(running.id).is_some_and(|at| now.since(at) >= SILENCE);
        let Some((unacked, acked)) = running.progress() else { return silent };
        self.stalled = match self.stalled {
            _ if unacked == 0 => None,
            Some((at, since)) if at == acked => Some((acked, since)),
            _ => Some((acked, now)),
        };
        silent || self.stalled.is_some_and(|(_, since)| now.since(since) >= SILENCE)
    }
}

/// Waits that double, with jitter so that many clients do not come back at once.
struct Backoff {
    next: Duration,
    rng: Rng,
}

impl Backoff {
    fn new(rng: Rng) -> Self {
        Self { next: BACKOFF_MIN, rng }
    }

    fn reset(&mut self) {
        self.next = BACKOFF_MIN;
    }

    fn next(&mut self) -> Duration {
        let full = self.next;
        self.next = (full * 2).min(BACKOFF_MAX);
        full.mul_f64(1.0 - 0.25 * self.rng.unit_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_start_again() {
        let mut backoff = Backoff::new(Rng::stream(1, "test"));
        let mut full = BACKOFF_MIN;
        for _ in 0..10 {
            let wait = backoff.next();
            assert!(wait <= full && wait >= full.mul_f64(0.75), "{wait:?} of {full:?}");
            full = (full * 2).min(BACKOFF_MAX);
        }
        backoff.reset();
        assert!(backoff.next() <= BACKOFF_MIN);
    }
}
