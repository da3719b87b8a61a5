//! What both daemons have for those who run them: their life from start to end, told to systemd and
//! to the log.

pub(crate) mod control;
#[cfg_attr(not(feature = "web"), path = "dashboard_off.rs")]
pub(crate) mod dashboard;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod qlog;
pub(crate) mod snapshot;
pub(crate) mod sockets;
mod stuck;
pub(crate) mod systemd;

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use weftline_tunnel::bond::BondStatus;

use crate::failure::Failure;
use crate::signals::Stop;
use control::Control;
use snapshot::{About, Snapshot};

/// How long connections under way may go on after the first signal, unless told otherwise.
const DRAIN: Duration = Duration::from_secs(30);
/// The wait after the system refused to accept somebody (out of file descriptors).
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// How often systemd is told how many connections there are.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// Which daemon this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Daemon {
    Serve,
    Connect,
    Up,
}

impl Daemon {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Serve => "serve",
            Self::Connect => "connect",
            Self::Up => "up",
        }
    }
}

/// How far a daemon has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It does not take connections yet.
    Starting,
    Running,
    /// It takes no more connections, and those under way may finish.
    Draining,
}

impl State {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Draining => "draining",
        }
    }
}

/// A link that is to be open to a user's browser, or no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortalRequest {
    pub(crate) link: String,
    /// The user's number.
    pub(crate) user: u32,
    pub(crate) end: bool,
}

/// Opens links to browsers.
pub(crate) type PortalOpener = Box<dyn Fn(&PortalRequest) -> Result<(), String> + Send + Sync>;

/// Says how lanes are.
pub(crate) type LaneWatcher = Box<dyn Fn() -> Vec<BondStatus> + Send + Sync>;

/// A daemon's life.
pub(crate) struct Life {
    pub(crate) daemon: Daemon,
    pub(crate) began: Instant,
    stop: Stop,
    drain: Duration,
    state: Mutex<State>,
    listening: Mutex<Vec<String>>,
    /// What says how its lanes are, if it has some.
    lanes: Mutex<Option<LaneWatcher>>,
    /// What opens links to browsers, if it captures.
    portals: OnceLock<PortalOpener>,
    /// The address of the dashboard with its token, if there is one.
    dashboard: OnceLock<String>,
    /// Whether it has been said that the connections under way are ended.
    told_end: AtomicBool,
}

impl Life {
    /// Starts to catch the signals that end it. `drain` is how long connections under way may go on
    /// after the first.
    ///
    /// # Errors
    /// When `drain` is no duration, or the system does not let us.
    pub(crate) fn start(daemon: Daemon, drain: Option<&str>) -> Result<Arc<Self>, Failure> {
        let drain = drain.map(|text| crate::daemon::parse_duration("--drain", text)).transpose()?;
        let life = Arc::new(Self {
            daemon,
            began: Instant::now(),
            stop: Stop::on_signals()?,
            drain: drain.unwrap_or(DRAIN),
            state: Mutex::new(State::Starting),
            listening: Mutex::new(Vec::new()),
            lanes: Mutex::default(),
            portals: OnceLock::new(),
            dashboard: OnceLock::new(),
            told_end: AtomicBool::new(false),
        });
        tokio::spawn(Arc::clone(&life).keep_systemd_informed());
        tokio::spawn(stuck::watch());
        Ok(life)
    }

    pub(crate) fn state(&self) -> State {
        *self.state.lock().expect("nobody panics with it")
    }

    fn set_state(&self, state: State) -> State {
        std::mem::replace(&mut *self.state.lock().expect("nobody panics with it"), state)
    }

    /// What it says of itself.
    fn about(&self) -> About {
        let (daemon, state) = (self.daemon.name(), self.state().name());
        let lanes = self.lanes.lock().expect("nobody panics with it").as_ref().map(|look| look());
        let lanes = lanes.unwrap_or_default();
        About { daemon, state, began: self.began, listening: self.listening(), lanes, node: None }
    }

    /// Says how its lanes can be looked at.
    pub(crate) fn set_lanes(&self, lanes: Option<LaneWatcher>) {
        *self.lanes.lock().expect("nobody panics with it") = lanes;
    }

    /// Says how links are opened to browsers; once.
    pub(crate) fn set_portals(&self, opener: PortalOpener) {
        let _ = self.portals.set(opener);
    }

    /// The addresses listened on.
    pub(crate) fn listening(&self) -> Vec<String> {
        self.listening.lock().expect("nobody panics with it").clone()
    }

    /// Says where connections are taken now.
    pub(crate) fn set_listening(&self, addresses: Vec<String>) {
        *self.listening.lock().expect("nobody panics with it") = addresses;
    }

    /// Connections are taken from now on.
    pub(crate) fn ready(&self) {
        if self.state() == State::Draining {
            // Too late; systemd knows.
            return;
        }
        self.set_state(State::Running);
        systemd::ready(&self.summary());
    }

    /// Tells systemd of the beginning of a reload; [`ready`](Self::ready) is its end.
    pub(crate) fn reloading(&self) {
        systemd::reloading();
    }

    /// Waits for the first signal: no more connections are to be taken.
    pub(crate) async fn stopping(&self) {
        self.stop.nth(1).await;
        if self.set_state(State::Draining) != State::Draining {
            systemd::stopping(&self.summary());
            match used() {
                0 => tracing::info!("stopping: no connection is under way"),
                n => tracing::info!(
                    "stopping: {} under way may go on for {}; a second signal ends them at once",
                    connections(n),
                    humantime::format_duration(self.drain)
                ),
            }
        }
    }

    /// Waits until the connections under way are to be ended: the time they had is over, or there
    /// was a second signal.
    pub(crate) async fn ending(&self) {
        self.stop.nth(1).await;
        let reason = tokio::select! {
            () = tokio::time::sleep(self.drain) => "their time is over",
            () = self.stop.nth(2) => "a second signal came",
        };
        let under_way = used();
        if under_way > 0 && !self.told_end.swap(true, Ordering::Relaxed) {
            tracing::warn!("ended while under way: {}, {reason}", connections(under_way));
        }
    }

    /// The last words.
    pub(crate) fn over(&self) {
        tracing::info!("stopped");
    }

    /// What `systemctl status` shows.
    fn summary(&self) -> String {
        let connections = connections(used());
        match self.state() {
            State::Starting => "starting".to_owned(),
            State::Running => format!("{connections} under way"),
            State::Draining => format!("stopping, {connections} under way"),
        }
    }

    /// Tells systemd that the program lives, as often as it wants to hear that, and how many
    /// connections there are.
    async fn keep_systemd_informed(self: Arc<Self>) {
        if !systemd::is_listening() {
            return;
        }
        // Twice in the time, as sd_watchdog_enabled(3) advises.
        let watchdog = systemd::watchdog().map(|time| time / 2);
        let mut told = String::new();
        loop {
            let pause = watchdog.unwrap_or(STATUS_INTERVAL).min(STATUS_INTERVAL);
            tokio::time::sleep(pause.max(Duration::from_millis(1))).await;
            let now = self.summary();
            systemd::alive(watchdog.is_some(), (now != told).then_some(&now));
            told = now;
        }
    }
}

/// Where a daemon is to show how it is.
pub(crate) struct Wanted {
    pub(crate) control: Option<Control>,
    pub(crate) metrics: Option<SocketAddr>,
    pub(crate) qlog: Option<PathBuf>,
    pub(crate) dashboard: Option<DashboardPlace>,
}

/// Where a dashboard is to be.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only a dashboard reads it"))]
pub(crate) struct DashboardPlace {
    pub(crate) address: SocketAddr,
    /// The names under which proxies offer it.
    pub(crate) names: Vec<String>,
}

impl DashboardPlace {
    /// What `--dashboard` and `--behind-proxy` say.
    ///
    /// # Errors
    /// When they do not go together, or nothing can be there.
    pub(crate) fn of(
        address: Option<SocketAddr>,
        names: &[String],
    ) -> Result<Option<Self>, Failure> {
        let Some(address) = address else {
            return match names.is_empty() {
                true => Ok(None),
                false => Err(Failure::wrong_use(
                    "--behind-proxy is for --dashboard, which is not given; add --dashboard ADDR",
                )),
            };
        };
        let place = Self { address, names: names.to_vec() };
        dashboard::check(&place)?;
        Ok(Some(place))
    }
}

/// The admin endpoints of a daemon, open as long as this lives.
pub(crate) struct AdminEndpoints {
    /// What to say of it: where metrics are fetched, and where the dashboard is.
    pub(crate) greeting: String,
    _control: Option<control::Socket>,
    _qlog: Option<qlog::Qlog>,
    _dashboard: Option<dashboard::Opened>,
}

impl AdminEndpoints {
    /// Opens all that are wanted.
    ///
    /// # Errors
    /// When one cannot be had.
    pub(crate) async fn open(life: &Arc<Life>, wanted: Wanted) -> Result<Self, Failure> {
        let mut greeting = match wanted.metrics {
            Some(address) => metrics::open(life, address).await?,
            None => String::new(),
        };
        let control = control::bind(life.daemon.name(), wanted.control.as_ref())?;
        let mut dashboard = None;
        if let Some(place) = &wanted.dashboard {
            let shown = Arc::clone(life);
            let (opened, url) =
                dashboard::open(move || shown.about(), place, control.is_some()).await?;
            dashboard = Some(opened);
            greeting += &format!("dashboard {url}\n");
            // It is opened once.
            let _ = life.dashboard.set(url);
        }
        let qlog = wanted.qlog.map(|dir| qlog::Qlog::start(life.daemon, &dir)).transpose()?;
        let control = control.map(|bound| bound.answer(life));
        Ok(Self { greeting, _control: control, _qlog: qlog, _dashboard: dashboard })
    }
}

fn connections(n: usize) -> String {
    if n == 1 { "1 connection".to_owned() } else { format!("{n} connections") }
}

/// Connections under way, those that are only kept ready left out.
fn used() -> usize {
    let is_used = |control: &weftline::Control| control.label().is_some();
    weftline::status::connections().iter().filter(|control| is_used(control)).count()
}

impl control::Asked for Life {
    fn snapshot(&self, connections: usize) -> Snapshot {
        Snapshot::take(self.about(), connections)
    }

    fn dashboard(&self) -> Option<String> {
        self.dashboard.get().cloned()
    }

    fn portal(&self, request: &PortalRequest) -> Result<(), String> {
        let opener =
            self.portals.get().ok_or("it captures nothing; ask a 'weftline up' that is up")?;
        opener(request)
    }
}

/// Answers everyone whom `accept` takes, `most` at once; the others wait in the kernel's queue.
async fn answer_each<S, F>(
    most: usize,
    mut accept: impl FnMut(&mut Context<'_>) -> Poll<io::Result<S>>,
    answer: impl Fn(S) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(most));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        match poll_fn(&mut accept).await {
            Ok(accepted) => {
                let answered = answer(accepted);
                tokio::spawn(async move {
                    answered.await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::debug!("nobody can be accepted: {error}");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}
