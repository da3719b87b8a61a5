//! What is shown of runs: one after the other, each as a connection with its paths. Whoever makes or
//! reads a run tells it here; the page takes it from here, by the run's clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use weftline_core::session::WeaveRecord;

use crate::VERSION;
use crate::ops::snapshot::{Connection, Memory, Path, SCHEMA, Snapshot};

/// The time between two moments that are shown, by the run's clock.
const STEP: Duration = Duration::from_millis(500);
/// Moments that wait for the page, and what has happened in one: as much as the page keeps.
const MOMENTS: usize = 1200;
const HAPPENINGS: usize = 64;

/// What is shown of runs.
pub(crate) struct Show {
    what: &'static str,
    began: Instant,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    state: &'static str,
    runs: u64,
    failed: u64,
    /// When the present run began, by the clock of all of them, and when that was last told.
    offset: Duration,
    now: Duration,
    /// When the next moment is due.
    due: Duration,
    current: Option<Connection>,
    /// By path, what those runs have carried that are over.
    past: BTreeMap<Arc<str>, [u64; 3]>,
    happened: Vec<Happening>,
    moments: VecDeque<Moment>,
    /// The connection whose weave somebody wants, how many do, and what was told of it.
    wanted: (u64, usize),
    weave: Option<(u64, Arc<Weave>)>,
}

/// What is shown of a moment.
#[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only a page reads it"))]
pub(crate) struct Moment {
    pub(crate) at: Duration,
    pub(crate) state: &'static str,
    /// Its number, and stream bytes sent and received.
    pub(crate) connection: Option<[u64; 3]>,
    pub(crate) paths: Vec<(Arc<str>, PathSums)>,
    pub(crate) events: Vec<Happening>,
}

/// A path over all runs there were.
#[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only a page reads it"))]
pub(crate) struct PathSums {
    /// Payload bytes that have arrived there and here, and segments sent again.
    pub(crate) moved: [u64; 3],
    /// The path in the present run.
    pub(crate) now: Option<Path>,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Happening {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) path: Option<Arc<str>>,
    pub(crate) text: String,
}

/// How much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Info,
    Good,
    Warning,
    Error,
}

/// Which path carries which part of a run's stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Weave {
    pub(crate) now: weftline_core::Instant,
    pub(crate) sent: WeaveRecord,
    pub(crate) received: WeaveRecord,
    pub(crate) names: BTreeMap<u64, Arc<str>>,
}

impl Show {
    /// Nothing yet of runs of `what`, such as `sim run`.
    pub(crate) fn new(what: &'static str) -> Self {
        let inner = Inner { state: "starting", ..Inner::default() };
        Self { what, began: Instant::now(), inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics with it")
    }

    // ---- what is told ----

    /// A run begins, after the one before it has ended. Returns its number.
    pub(crate) fn begin(&self, label: &str) -> u64 {
        let mut inner = self.inner();
        inner.finish();
        inner.runs += 1;
        inner.state = "running";
        let number = inner.runs;
        inner.happen([happening("connection_used", Level::Info, format!("#{number}: {label}"))]);
        number
    }

    /// The present run as it is at `time` of it. What has happened to its paths is told by
    /// `happened`, or else by what has changed.
    pub(crate) fn see(&self, time: Duration, now: Connection, happened: Option<Vec<Happening>>) {
        let mut inner = self.inner();
        let at = inner.offset.saturating_add(time).max(inner.now);
        inner.now = at;
        let happened = happened.unwrap_or_else(|| changes(inner.current.as_ref(), &now));
        inner.current = Some(now);
        inner.happen(happened);
        if at >= inner.due {
            inner.show();
        }
    }

    /// The present run has failed.
    pub(crate) fn fail(&self, error: &str) {
        let mut inner = self.inner();
        inner.failed += 1;
        inner.happen([happening("connection_ended", Level::Error, error.to_owned())]);
    }

    /// All of it is over.
    pub(crate) fn end(&self) {
        let mut inner = self.inner();
        inner.state = "over";
        inner.happen([happening("over", Level::Info, "all is over".to_owned())]);
        inner.show();
    }

    /// Whether somebody looks at the weave of the run of that number.
    pub(crate) fn wants_weave(&self, number: u64) -> bool {
        let (wanted, how_many) = self.inner().wanted;
        how_many > 0 && wanted == number
    }

    /// Tells the weave of the run of that number, as it stands.
    pub(crate) fn set_weave(&self, number: u64, weave: Weave) {
        self.inner().weave = Some((number, Arc::new(weave)));
    }

    // ---- what is shown ----

    /// What there is to be seen since the last time.
    #[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only a page reads it"))]
    pub(crate) fn moments(&self) -> Vec<Moment> {
        self.inner().moments.drain(..).collect()
    }

    /// The runs, as a daemon says what it is.
    #[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only a page reads it"))]
    pub(crate) fn snapshot(&self, connections: usize) -> Snapshot {
        let inner = self.inner();
        let open = u64::from(inner.current.is_some());
        let listed: Vec<_> = inner.current.iter().take(connections).cloned().collect();
        Snapshot {
            schema: SCHEMA,
            daemon: self.what.to_owned(),
            version: VERSION.to_owned(),
            pid: std::process::id(),
            state: inner.state.to_owned(),
            uptime_s: self.began.elapsed().as_secs_f64(),
            listening: Vec::new(),
            connections_opened: inner.runs,
            connections_failed: inner.failed,
            handshakes_refused: 0,
            connections_open: open,
            connections_ready: 0,
            connections_unlisted: open - listed.len() as u64,
            memory: Memory::now(),
            connections: listed,
            bonds: Vec::new(),
            node: None,
        }
    }

    /// Asks for the weave of the run of that number, for as long as what this returns lives; `None`
    /// if there is none of it.
    #[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only a page asks for it"))]
    pub(crate) fn want_weave(self: &Arc<Self>, number: u64) -> Option<Wanted> {
        let mut inner = self.inner();
        if inner.current.as_ref().is_none_or(|one| one.number != number) {
            return None;
        }
        let (wanted, how_many) = inner.wanted;
        inner.wanted = (number, if wanted == number { how_many + 1 } else { 1 });
        Some(Wanted { show: Arc::clone(self), number })
    }
}

/// A weave that is told, for as long as this lives.
#[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only a page asks for it"))]
pub(crate) struct Wanted {
    show: Arc<Show>,
    number: u64,
}

#[cfg_attr(not(feature = "web"), expect(dead_code, reason = "only a page asks for it"))]
impl Wanted {
    /// The weave as it was told last; `None` when the run is over and another has begun.
    pub(crate) fn look(&self) -> Option<Weave> {
        let inner = self.show.inner();
        let is_current = inner.current.as_ref().is_some_and(|one| one.number == self.number);
        let told = inner.weave.as_ref().filter(|(number, _)| *number == self.number);
        let told = told.map(|(_, weave)| Arc::clone(weave));
        drop(inner);
        match (told, is_current) {
            (Some(weave), true) => Some(Weave::clone(&weave)),
            (None, true) => Some(Weave::default()),
            (_, false) => None,
        }
    }
}

impl Drop for Wanted {
    fn drop(&mut self) {
        let mut inner = self.show.inner();
        if inner.wanted.0 == self.number {
            inner.wanted.1 = inner.wanted.1.saturating_sub(1);
        }
    }
}

impl Inner {
    /// The present run is over.
    fn finish(&mut self) {
        let Some(run) = self.current.take() else { return };
        self.offset = self.now;
        for path in &run.paths {
            let past = self.past.entry(path.name.as_str().into()).or_default();
            for (sum, moved) in past.iter_mut().zip(moved(path)) {
                *sum += moved;
            }
        }
    }

    fn happen(&mut self, all: impl IntoIterator<Item = Happening>) {
        let room = HAPPENINGS.saturating_sub(self.happened.len());
        self.happened.extend(all.into_iter().take(room));
    }

    /// Notes what is to be seen now.
    fn show(&mut self) {
        self.due = self.now + STEP;
        if self.moments.len() == MOMENTS {
            self.moments.pop_front();
        }
        let of = |name: &str| {
            self.current.iter().flat_map(|run| &run.paths).find(|path| path.name == name).cloned()
        };
        let mut names: Vec<Arc<str>> = self.past.keys().cloned().collect();
        for path in self.current.iter().flat_map(|run| &run.paths) {
            if !self.past.contains_key(path.name.as_str()) {
                names.push(path.name.as_str().into());
            }
        }
        let sums = |name: Arc<str>| {
            let (past, now) = (self.past.get(&name).copied().unwrap_or_default(), of(&name));
            let present = now.as_ref().map_or([0; 3], moved);
            let moved = std::array::from_fn(|at| past[at] + present[at]);
            (name, PathSums { moved, now })
        };
        let paths = names.into_iter().map(sums).collect();
        let connection =
            self.current.as_ref().map(|run| [run.number, run.sent_bytes, run.received_bytes]);
        let events = std::mem::take(&mut self.happened);
        let (at, state) = (self.now, self.state);
        self.moments.push_back(Moment { at, state, connection, paths, events });
    }
}

/// Payload bytes that have arrived there and here, and segments sent again.
fn moved(path: &Path) -> [u64; 3] {
    [path.delivered_bytes, path.received_bytes, path.retransmitted_segments.unwrap_or(0)]
}

fn happening(name: &'static str, level: Level, text: String) -> Happening {
    Happening { name, level, path: None, text }
}

/// What has happened to the paths of a connection from `before` to `now`.
fn changes(before: Option<&Connection>, now: &Connection) -> Vec<Happening> {
    let was = |name: &str| {
        let mut paths = before.into_iter().flat_map(|one| &one.paths);
        paths.find(|path| path.name == name).map(|path| path.state.as_str())
    };
    let change = |path: &Path| {
        let (name, level, what) = match (was(&path.name), path.state.as_str()) {
            (None, "up" | "standby") => ("path_up", Level::Info, "came up"),
            (Some("down"), "up" | "standby") => ("path_up", Level::Good, "is up"),
            (Some("silent"), "up" | "standby") => ("path_recovered", Level::Good, "recovered"),
            (Some("up" | "standby"), "silent") => {
                ("path_stalled", Level::Warning, "stalled: data is outstanding, nothing arrives")
            }
            (Some("up" | "standby" | "silent"), "down") => ("path_down", Level::Error, "is down"),
            _ => return None,
        };
        let text = format!("path {} {what}", path.name);
        Some(Happening { name, level, path: Some(path.name.as_str().into()), text })
    };
    now.paths.iter().filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run's connection whose only path has carried that much and is in this state.
    fn connection(number: u64, bytes: u64, state: &str) -> Connection {
        let path = Path {
            name: "dsl".to_owned(),
            state: state.to_owned(),
            delivered_bytes: bytes,
            ..Path::default()
        };
        Connection { number, sent_bytes: bytes, paths: vec![path], ..Connection::default() }
    }

    fn texts(moment: &Moment) -> Vec<&str> {
        moment.events.iter().map(|one| one.text.as_str()).collect()
    }

    #[test]
    fn a_moment_is_shown_each_half_second_of_the_run_and_nothing_of_what_happened_is_lost() {
        let show = Show::new("sim run");
        let number = show.begin("first");
        for step in 0..=10u64 {
            let state = if step == 3 { "silent" } else { "up" };
            let at = Duration::from_millis(100 * step);
            show.see(at, connection(number, 1000 * step, state), None);
        }
        let moments = show.moments();
        let at: Vec<_> = moments.iter().map(|one| one.at.as_millis()).collect();
        assert_eq!(at, [0, 500, 1000]);
        assert_eq!(texts(&moments[0]), ["#1: first", "path dsl came up"]);
        let stalled = "path dsl stalled: data is outstanding, nothing arrives";
        assert_eq!(texts(&moments[1]), [stalled, "path dsl recovered"]);
        assert_eq!(moments[2].connection, Some([1, 10_000, 0]));
        assert!(show.moments().is_empty(), "each is taken once");
    }

    #[test]
    fn the_clock_and_the_sums_go_on_from_run_to_run() {
        let show = Show::new("sim run");
        show.begin("first");
        show.see(Duration::from_secs(2), connection(1, 700, "up"), None);
        show.fail("it broke");
        show.begin("second");
        show.see(Duration::ZERO, connection(2, 0, "up"), None);
        show.see(Duration::from_secs(1), connection(2, 50, "up"), None);
        show.end();
        let moments = show.moments();
        let at: Vec<_> = moments.iter().map(|one| one.at.as_secs_f64()).collect();
        assert_eq!(at, [2.0, 3.0, 3.0]);
        let sent: Vec<_> = moments.iter().map(|one| one.paths[0].1.moved[0]).collect();
        assert_eq!(sent, [700, 750, 750]);
        assert_eq!(moments[2].state, "over");
        let all: Vec<_> = moments.iter().flat_map(texts).collect();
        assert_eq!(all[2..], ["it broke", "#2: second", "path dsl came up", "all is over"]);
        let status = show.snapshot(10);
        assert_eq!((status.connections_opened, status.connections_failed), (2, 1));
        assert_eq!(status.connections[0].number, 2);
    }

    #[test]
    fn a_weave_is_told_while_it_is_wanted_and_is_over_when_another_run_begins() {
        let show = Arc::new(Show::new("sim run"));
        assert!(show.want_weave(1).is_none(), "there is no run yet");
        show.begin("first");
        show.see(Duration::ZERO, connection(1, 0, "up"), None);
        assert!(!show.wants_weave(1));
        let wanted = show.want_weave(1).unwrap();
        assert!(show.wants_weave(1) && !show.wants_weave(2));
        assert!(wanted.look().is_some(), "nothing was told so far");
        let now = weftline_core::Instant::from_nanos(5);
        show.set_weave(1, Weave { now, ..Weave::default() });
        assert_eq!(wanted.look().unwrap().now, now);
        show.begin("second");
        show.see(Duration::ZERO, connection(2, 0, "up"), None);
        assert!(wanted.look().is_none());
        drop(wanted);
        assert!(!show.wants_weave(1));
    }

    #[test]
    fn what_waits_for_a_page_is_bounded() {
        let show = Show::new("replay");
        show.begin("long");
        for second in 0..2 * MOMENTS as u64 {
            let told = |n| happening("path_up", Level::Info, format!("{second}: {n}"));
            let happened = (0..2 * HAPPENINGS).map(told).collect();
            show.see(Duration::from_secs(second), connection(1, second, "up"), Some(happened));
        }
        let moments = show.moments();
        assert_eq!(moments.len(), MOMENTS);
        assert!(moments.iter().all(|one| one.events.len() <= HAPPENINGS));
        assert_eq!(moments.last().unwrap().at.as_secs(), 2 * MOMENTS as u64 - 1);
    }
}
