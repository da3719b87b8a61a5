//! A client's attempt to open a connection: over all its paths at once, until the server has let it
//! in over one of them or every path has failed.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use weftline_core::PathId;

use crate::client::Settings;
use crate::connection::Connection;
use crate::error::Error;
use crate::path::{Dialer, Report};
use crate::roster;
use crate::shared::{End, Shared};

/// Attempts of every path after which connecting fails.
const ATTEMPTS: u32 = 2;
/// How long paths that are not active wait for the others to open a connection.
const HEAD_START: Duration = Duration::from_millis(250);

/// The attempt. Dropping it gives the connection up.
pub(crate) struct Attempt {
    settings: Arc<Settings>,
    changes: watch::Receiver<Arc<Settings>>,
    dialer: Arc<Dialer>,
    reports: mpsc::Receiver<Report>,
    tasks: JoinSet<()>,
    /// The tasks of the paths, by their numbers.
    running: Vec<(PathId, AbortHandle)>,
    /// Tells the paths in reserve that they are wanted.
    wanted: watch::Sender<bool>,
    /// How often each path has failed.
    failures: Vec<u32>,
    /// The most telling error.
    told: Option<Error>,
}

/// How far an attempt has come.
#[derive(PartialEq, Eq)]
enum Stage {
    /// The server has been reached, and is told hello.
    Reached,
    /// The server has let the connection in.
    Up,
}

impl Attempt {
    /// Begins to open the connection `number` of a client.
    ///
    /// # Errors
    /// When the system has no randomness to give.
    pub(crate) fn start(
        mut changes: watch::Receiver<Arc<Settings>>,
        number: u64,
    ) -> Result<Self, Error> {
        let settings = Arc::clone(&changes.borrow_and_update());
        let dialer = Arc::new(Dialer::new(Arc::clone(&settings), number)?);
        let paths = settings.paths.len();
        let (tell, reports) = mpsc::channel(paths * ATTEMPTS as usize);
        let mut tasks = JoinSet::new();
        let wanted = watch::Sender::new(false);
        let mut running = Vec::new();
        for (index, &id) in settings.ids.iter().enumerate() {
            let (dialer, tell) = (Arc::clone(&dialer), tell.clone());
            // Those in reserve wait a moment for the others to open the connection.
            let mut wanted = settings.is_reserve(index).then(|| wanted.subscribe());
            let task = tasks.spawn(async move {
                if let Some(wanted) = &mut wanted {
                    let wanted = wanted.wait_for(|wanted| *wanted);
                    let _ = tokio::time::timeout(HEAD_START, wanted).await;
                }
                dialer.run_path(index, tell).await;
            });
            running.push((id, task));
        }
        let (failures, told) = (vec![0; paths], None);
        Ok(Self { settings, changes, dialer, reports, tasks, running, wanted, failures, told })
    }

    /// The connection, when the server has let it in.
    ///
    /// # Errors
    /// When every path has failed too often: the most telling of their errors.
    pub(crate) async fn connect(mut self) -> Result<Connection, Error> {
        let (shared, peer) = self.reach(Stage::Up).await?;
        tokio::spawn(self.hand_over());
        Ok(Connection::new(shared, peer, None))
    }

    /// The connection, as soon as the server has been reached. Its application is told by it when
    /// the server does not let it in.
    ///
    /// # Errors
    /// As for [`connect`](Self::connect).
    pub(crate) async fn open(mut self) -> Result<Connection, Error> {
        if self.settings.session.messages.is_some() {
            return self.connect().await;
        }
        let (shared, peer) = self.reach(Stage::Reached).await?;
        tokio::spawn(self.finish(Arc::clone(&shared)));
        Ok(Connection::new(shared, peer, None))
    }

    /// Goes on after the server has been reached.
    async fn finish(mut self, shared: Arc<Shared>) {
        let up = tokio::select! {
            up = self.reach(Stage::Up) => up,
            // The application has let go of it.
            () = failed(&shared) => return,
        };
        match up {
            Ok(_) => self.hand_over().await,
            Err(error) => shared.forgotten(error),
        }
    }

    /// Waits until the attempt has come to a `stage`.
    async fn reach(&mut self, stage: Stage) -> Result<(Arc<Shared>, SocketAddr), Error> {
        while let Some(report) = self.reports.recv().await {
            match report {
                Report::Up(shared, peer) => return Ok((shared, peer)),
                Report::Reached(shared, peer) if stage == Stage::Reached => {
                    return Ok((shared, peer));
                }
                Report::Reached(..) => {}
                Report::Failed(index, error) => {
                    self.note(index, error);
                    if self.failures.iter().all(|&n| n >= ATTEMPTS) {
                        break;
                    }
                }
            }
        }
        let none = || Error::Invalid("no path to connect over".to_owned());
        Err(self.told.take().unwrap_or_else(none))
    }

    fn note(&mut self, index: usize, error: Error) {
        self.failures[index] += if error.is_permanent() { ATTEMPTS } else { 1 };
        let mut all = self.failures.iter().enumerate();
        if all.all(|(index, &n)| n > 0 || self.settings.is_reserve(index)) {
            self.wanted.send_replace(true);
        }
        if self.told.as_ref().is_none_or(|old| !old.is_permanent()) {
            self.told = Some(error);
        }
    }

    /// Leaves the paths to themselves, and to changes of the client's settings.
    async fn hand_over(mut self) {
        self.tasks.detach_all();
        drop(self.reports);
        roster::follow(self.dialer, self.running, self.changes).await;
    }
}

/// Waits until the connection has failed; one that was closed in order waits for ever.
async fn failed(shared: &Shared) {
    shared.ended().await;
    if !matches!(shared.end(), Some(End::Failed(_))) {
        std::future::pending::<()>().await;
    }
}
