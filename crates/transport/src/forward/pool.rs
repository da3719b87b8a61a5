//! Connections kept ready: authenticated, with all their paths, and not yet used.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use weftline_core::session::RESET_FORWARD;

use super::Opening;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::Error;
use crate::events::{PathEvent, PathEventKind};

/// How often the ready connections are looked after.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// The wait after a failed attempt to make one ready.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// A client with some connections kept ready.
pub(super) struct Pool {
    client: Client,
    size: usize,
    /// With the revision of the client's settings each was made with.
    ready: Mutex<VecDeque<(u64, Connection)>>,
    taken: Notify,
    paths: Arc<PathLog>,
}

impl Pool {
    /// A pool with one connection, which shows that the server can be reached and fits. It keeps
    /// `size` ready once [`Pool::keep`] runs.
    ///
    /// # Errors
    /// When the server cannot be reached or does not fit.
    pub(super) async fn start(client: Client, size: usize) -> Result<Self, Error> {
        let (ready, taken) = (Mutex::new(VecDeque::new()), Notify::new());
        let pool = Self { client, size, ready, taken, paths: Arc::default() };
        let first = pool.connect().await?;
        if size > 0 {
            pool.ready().push_back(first);
        }
        Ok(pool)
    }

    /// A connection for a local one: a ready one that has a path, else a new one. Where the server
    /// cannot be reached, one without a path will do: its path may come back before it fails.
    ///
    /// # Errors
    /// When there is no ready one, and the server cannot be reached.
    pub(super) async fn open(&self, opening: &Opening) -> Result<Connection, Error> {
        let mut connection = match self.take(|ready| ready.has_path()) {
            Some(ready) => ready,
            // What the local program has to say goes with the question.
            None => match self.client.open_again().await {
                Ok(fresh) => self.follow(fresh),
                Err(error) => self.take(|_| true).ok_or(error)?,
            },
        };
        match opening.write(&mut connection).await {
            Ok(()) => Ok(connection),
            Err(error) => Err(Error::Reset { code: RESET_FORWARD, reason: error.to_string() }),
        }
    }

    /// The connections that were never used.
    pub(super) fn empty(&self) -> Vec<Connection> {
        self.ready().drain(..).map(|(_, connection)| connection).collect()
    }

    fn ready(&self) -> MutexGuard<'_, VecDeque<(u64, Connection)>> {
        self.ready.lock().expect("the pool's users do not panic")
    }

    fn take(&self, wanted: impl Fn(&Connection) -> bool) -> Option<Connection> {
        let mut ready = self.ready();
        ready.retain(|one| self.is_fit(one));
        let at = ready.iter().position(|(_, connection)| wanted(connection));
        let found = at.and_then(|at| ready.remove(at));
        drop(ready);
        self.taken.notify_one();
        Some(found?.1)
    }

    /// Whether a ready connection is alive and as the client would make it now.
    fn is_fit(&self, (revision, connection): &(u64, Connection)) -> bool {
        *revision == self.client.revision() && connection.error().is_none()
    }

    async fn connect(&self) -> Result<(u64, Connection), Error> {
        let revision = self.client.revision();
        let connection = self.client.connect_again().await?;
        Ok((revision, self.follow(connection)))
    }

    fn follow(&self, connection: Connection) -> Connection {
        let paths = Arc::clone(&self.paths);
        connection.shared.tell(Box::new(move |event| paths.note(event)));
        // Its first path, and maybe others, came up before anybody could listen.
        connection.paths_up().iter().for_each(|up| self.paths.note(up));
        connection
    }

    /// Keeps the wanted number of connections ready, for ever.
    pub(super) async fn keep(self: Arc<Self>) {
        let mut changes = self.client.changes();
        let mut is_failing = false;
        loop {
            changes.mark_unchanged();
            self.ready().retain(|one| self.is_fit(one));
            let wait = if self.ready().len() >= self.size {
                LOOK_INTERVAL
            } else {
                match self.connect().await {
                    Ok(connection) => {
                        if std::mem::take(&mut is_failing) {
                            tracing::info!("connections can be made again");
                        }
                        self.ready().push_back(connection);
                        continue;
                    }
                    Err(error) => {
                        // Once: it is tried again and again.
                        if !std::mem::replace(&mut is_failing, true) {
                            tracing::warn!("no connection can be made, going on trying: {error}");
                        }
                        RETRY_WAIT
                    }
                }
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.taken.notified() => {}
                _ = changes.changed() => {}
            }
        }
    }
}

/// Says in the log when a path comes and goes, once for all the connections that see it.
#[derive(Default)]
struct PathLog(Mutex<BTreeMap<Arc<str>, bool>>);

impl PathLog {
    fn note(&self, event: &PathEvent) {
        let up = match &event.kind {
            PathEventKind::Up { .. } | PathEventKind::Recovered { .. } => true,
            PathEventKind::AttemptFailed { .. } | PathEventKind::Stalled { .. } => false,
            PathEventKind::Down { .. }
            | PathEventKind::Reinjected { .. }
            | PathEventKind::PotentiallyFailed { .. } => return,
        };
        let mut paths = self.0.lock().expect("the log's users do not panic");
        let before = paths.insert(Arc::clone(&event.name), up);
        match &event.kind {
            _ if before == Some(up) => {}
            // It was up, and cannot be had again.
            PathEventKind::AttemptFailed { reason } if before == Some(true) => {
                tracing::info!("path {}: down: {reason}", event.name);
            }
            _ => tracing::info!("{event}"),
        }
    }
}
