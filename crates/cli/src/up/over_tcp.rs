//! UDP, ICMP and all that is no TCP over TCP all the same, where links let no UDP through: a lane that is opened when
//! such a link is found, and closed when it is not needed any more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{broadcast, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use weftline::{Client, Control, Error, LaneOverTcp, PathEvent, PathEventKind};
use weftline_core::Role;
use weftline_tunnel::bond::{BlockedLink, BondClient};

use super::pause::{LASTING, Pause, RETRY, Why};

/// How long UDP must have come through before the lane is closed: a link that comes and goes keeps it.
const NOT_NEEDED: Duration = Duration::from_secs(10);
/// How long a link that lets no UDP through may take to show that it carries TCP. One that carries nothing at all
/// counts as up for as long as nobody has sent anything there.
const SHOWS: Duration = Duration::from_secs(3);

/// Keeps the lane, in one session.
pub(super) struct OverTcp {
    pub(super) client: Client,
    pub(super) bond: Arc<BondClient>,
    pub(super) blocked: watch::Receiver<Vec<BlockedLink>>,
    /// Of the session's own connection, which goes over all links.
    pub(super) control: Control,
    pub(super) session: u32,
}

/// The task that keeps the lane; it ends when this is dropped.
pub(super) struct KeepingOverTcp(JoinHandle<()>);

impl Drop for KeepingOverTcp {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A lane that is needed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Need {
    role: Role,
    /// The links of this role that let no UDP through.
    links: Vec<String>,
}

/// The lane that there is; it ends when this is dropped.
struct Carrying {
    need: Need,
    /// Of its connection.
    control: Control,
    events: broadcast::Receiver<PathEvent>,
    began: Instant,
    task: JoinHandle<Option<Error>>,
}

impl Drop for Carrying {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What has come to pass.
enum News {
    /// The lane has ended; why, or `None` if this end has closed it.
    Ended(Option<Error>),
    /// Other links let no UDP through than before.
    Blocked,
    /// A path of the lane's connection has changed.
    Path,
    /// So has one of the session's.
    SessionPath(PathEvent),
    Time,
    /// The session is over.
    Over,
}

/// When a lane may be opened again, and what has been told of that.
struct Tries {
    pause: Pause,
    told: String,
    not_before: Instant,
}

impl Tries {
    fn new() -> Self {
        Self { pause: Pause::default(), told: String::new(), not_before: Instant::now() }
    }

    fn failed(&mut self, why: &Why) {
        if why.says != self.told {
            tracing::info!("UDP does not go over TCP: {}", why.says);
            self.told.clone_from(&why.says);
        }
        self.not_before = Instant::now() + self.pause.after(why);
    }

    /// Something is other than it was: it need not be waited for as long.
    fn hasten(&mut self) {
        self.pause = Pause::default();
        self.not_before = self.not_before.min(Instant::now() + RETRY);
    }
}

impl OverTcp {
    /// Keeps it, in a task of its own.
    pub(super) fn start(self) -> KeepingOverTcp {
        KeepingOverTcp(tokio::spawn(self.keep()))
    }

    async fn keep(mut self) {
        let (mut events, mut tries) = (self.control.events(), Tries::new());
        let mut lane: Option<Carrying> = None;
        // Links that have been seen to carry no TCP either.
        let mut dead = BTreeSet::new();
        let mut unneeded: Option<Instant> = None;
        loop {
            let need = self.need(&dead);
            let now = Instant::now();
            if let (Some(need), Some(lane)) = (&need, &mut lane)
                && lane.need.role == need.role
            {
                // Another link of the same role may let no UDP through by now.
                lane.need.clone_from(need);
            }
            let is_other = |need: &Need| lane.as_ref().is_none_or(|one| one.need.role != need.role);
            let wanted = need.as_ref().filter(|need| is_other(need));
            if let Some(need) = wanted.filter(|_| tries.not_before <= now) {
                match self.open(need).await {
                    Ok(opened) => {
                        lane = Some(opened);
                        tries.not_before = Instant::now() + RETRY;
                    }
                    Err(None) => dead.extend(need.links.iter().cloned()),
                    Err(Some(why)) => tries.failed(&why),
                }
                continue;
            }
            unneeded = lane.as_ref().filter(|_| need.is_none()).map(|_| unneeded.unwrap_or(now));
            if unneeded.is_some_and(|at| at + NOT_NEEDED <= now) {
                tracing::info!("the lane over TCP is closed, as it is not needed any more");
                lane = None;
                continue;
            }
            let due = unneeded.map(|at| at + NOT_NEEDED).or(wanted.map(|_| tries.not_before));
            match news(&mut lane, &mut self.blocked, &mut events, due).await {
                News::Ended(error) => {
                    if lane.take().is_some_and(|lane| lane.began.elapsed() >= LASTING) {
                        tries = Tries::new();
                    }
                    tries.failed(&error.map_or_else(Why::ended, Why::from));
                }
                News::Blocked => {
                    dead.clear();
                    tries.hasten();
                }
                News::Path => {
                    let gone = lane.take_if(|one| !is_up(&one.need.links, &one.control.paths_up()));
                    if let Some(gone) = gone {
                        tracing::info!("{}: no TCP comes through either", gone.need.name());
                        dead.extend(gone.need.links.iter().cloned());
                    }
                }
                News::SessionPath(PathEvent { name, kind: PathEventKind::Up { .. }, .. }) => {
                    dead.remove(&*name);
                    tries.hasten();
                }
                News::SessionPath(_) | News::Time => {}
                News::Over => return,
            }
        }
    }

    /// Has the lane opened, at both ends, in the place of one that there is. `None` if no link that it is for carries
    /// TCP.
    async fn open(&self, need: &Need) -> Result<Carrying, Option<Why>> {
        let failed = |error: Error| Some(Why::from(error));
        let mut lane = LaneOverTcp::connect(&self.client).await.map_err(failed)?;
        let control = lane.control();
        let mut events = control.events();
        let shows = async {
            while !is_up(&need.links, &control.paths_up()) && events.recv().await.is_ok() {}
        };
        let _ = tokio::time::timeout(SHOWS, shows).await;
        if !is_up(&need.links, &control.paths_up()) {
            return Err(None);
        }
        let number = BondClient::lane_over_tcp(need.role);
        lane.open(self.session, number).await.map_err(failed)?;
        let datagrams = self.bond.open_over_tcp(need.role);
        let datagrams = datagrams.map_err(|error| Some(Why::said(error.to_string())))?;
        tracing::info!(
            "{}: no UDP comes through to the server; a lane over TCP carries what would go there",
            need.name()
        );
        let (task, began) = (tokio::spawn(lane.carry(datagrams)), Instant::now());
        Ok(Carrying { need: need.clone(), control, events, began, task })
    }

    /// The links of the best role that let no UDP through, and are up by TCP.
    fn need(&mut self, dead: &BTreeSet<String>) -> Option<Need> {
        let blocked = self.blocked.borrow_and_update();
        if blocked.is_empty() {
            return None;
        }
        let up = self.control.paths_up();
        let is_there = |link: &&BlockedLink| {
            !dead.contains(&link.name) && is_up(std::slice::from_ref(&link.name), &up)
        };
        let there = blocked.iter().filter(is_there);
        let role = there.clone().map(|link| link.role).min()?;
        let links = there.filter(|link| link.role == role).map(|link| link.name.clone());
        Some(Need { role, links: links.collect() })
    }
}

impl Need {
    /// The names of its links.
    fn name(&self) -> String {
        self.links.join(", ")
    }
}

/// Waits for the next of all that.
async fn news(
    lane: &mut Option<Carrying>,
    blocked: &mut watch::Receiver<Vec<BlockedLink>>,
    events: &mut broadcast::Receiver<PathEvent>,
    due: Option<Instant>,
) -> News {
    let of_lane = async {
        let Some(Carrying { task, events, .. }) = lane else { return std::future::pending().await };
        tokio::select! {
            // One that has panicked has said so.
            ended = &mut *task => News::Ended(ended.unwrap_or(None)),
            event = events.recv() => match event {
                Err(broadcast::error::RecvError::Closed) => News::Ended(task.await.unwrap_or(None)),
                _ => News::Path,
            },
        }
    };
    tokio::select! {
        news = of_lane => news,
        changed = blocked.changed() => changed.map_or(News::Over, |()| News::Blocked),
        event = events.recv() => match event {
            Ok(event) => News::SessionPath(event),
            Err(broadcast::error::RecvError::Lagged(_)) => News::Time,
            Err(broadcast::error::RecvError::Closed) => News::Over,
        },
        () = sleep_until(due) => News::Time,
    }
}

/// Whether one of the links is up.
fn is_up(links: &[String], paths: &[PathEvent]) -> bool {
    links.iter().any(|link| paths.iter().any(|path| *path.name == **link))
}

async fn sleep_until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}
