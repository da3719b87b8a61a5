//! What is shown of runs: one after the other, each as a connection or several with their paths. Whoever
//! makes or reads a run tells it here; the page takes it from here, by the run's clock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use weftline_core::session::WeaveRecord;

use crate::VERSION;
use crate::ops::snapshot::{Connection, Memory, Path, SCHEMA, Snapshot};

/// The time between two moments that are shown, by the clock; in slow motion it is as much less by the
/// run's clock, but not below the second.
const STEP: Duration = Duration::from_millis(500);
const LEAST_STEP: Duration = Duration::from_millis(5);
/// Moments that wait for the page, as many as it keeps, and what has happened in one.
const MOMENTS: usize = 1200;
const HAPPENINGS: usize = 64;
/// A path with data outstanding that has delivered nothing for so long makes no progress: this, or two
/// round trips if they are longer, or the second before the round trip is known.
const STILL: Duration = Duration::from_millis(300);
const STILL_UNKNOWN: Duration = Duration::from_secs(1);

/// What is shown of runs.
pub(crate) struct Show {
    what: &'static str,
    began: Instant,
    step: Duration,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    state: &'static str,
    /// Connections there have been, and runs that have failed.
    connections: u64,
    failed: u64,
    /// When the present run began, by the clock of all of them, and when that was last told.
    offset: Duration,
    now: Duration,
    /// When the next moment is due.
    due: Duration,
    current: Vec<Connection>,
    has_weave: bool,
    /// By connection and path of the present run, what was delivered, and since when data waits and no
    /// more was.
    still: BTreeMap<(u64, String), (u64, Option<Duration>)>,
    /// By path, what those runs have carried that are over.
    past: BTreeMap<Arc<str>, [u64; 3]>,
    happened: Vec<Happening>,
    moments: VecDeque<Moment>,
    /// The connection whose weave somebody wants, how many do, and what was told of it.
    wanted: (u64, usize),
    weave: Option<(u64, Arc<Weave>)>,
}

/// What is shown of a moment.
#[cfg_attr(not(feature = "web"), allow(dead_code, reason = "only a page reads it"))]
pub(crate) struct Moment {
    pub(crate) at: Duration,
    pub(crate) state: &'static str,
    /// The number of each connection, and stream bytes sent and received.
    pub(crate) connections: Vec<[u64; 3]>,
    pub(crate) paths: Vec<(Arc<str>, PathSums)>,
    pub(crate) events: Vec<Happening>,
}

/// A path over all runs there were.
pub(crate) struct PathSums {
    /// Payload bytes that have arrived there and here, and segments sent again.
    pub(crate) moved: [u64; 3],
    /// The path in the present run: in the connection that uses it best.
    pub(crate) now: Option<PathNow>,
}

/// A path of a connection as it is.
#[cfg_attr(not(feature = "web"), allow(dead_code, reason = "only a page reads all of it"))]
pub(crate) struct PathNow {
    /// As in a status: `up`, `standby`, `silent` or `down`.
    pub(crate) state: String,
    pub(crate) srtt_ms: Option<f64>,
    pub(crate) min_rtt_ms: Option<f64>,
    pub(crate) cwnd_bytes: Option<u64>,
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
#[cfg_attr(not(feature = "web"), allow(dead_code, reason = "only a page reads all of it"))]
#[derive(Clone, Debug, Default)]
pub(crate) struct Weave {
    pub(crate) now: weftline_core::Instant,
    pub(crate) sent: WeaveRecord,
    pub(crate) received: WeaveRecord,
    pub(crate) names: BTreeMap<u64, Arc<str>>,
}

impl Show {
    /// Nothing yet of runs of `what`, such as `sim run`, of which `seconds` pass in one.
    pub(crate) fn new(what: &'static str, seconds: f64) -> Self {
        let inner = Inner { state: "starting", ..Inner::default() };
        let step = STEP.mul_f64(seconds.min(1.0)).max(LEAST_STEP);
        Self { what, began: Instant::now(), step, inner: Mutex::new(inner) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().expect("nobody panics with it")
    }

    // ---- what is told ----

    /// A run of so many connections begins; the one before it is over. `has_weave`: the weave of its
    /// first connection can be told. Returns the number of that; the others follow.
    pub(crate) fn begin(&self, label: &str, connections: u64, has_weave: bool) -> u64 {
        let mut inner = self.inner();
        inner.finish();
        let number = inner.connections + 1;
        inner.connections += connections;
        inner.has_weave = has_weave;
        inner.state = "running";
        inner.happen([happening("connection_used", Level::Info, format!("#{number}: {label}"))]);
        inner.show(self.step);
        number
    }

    /// The present run as it is at `time` of it. What has happened to its paths is told by
    /// `happened`, or else by what has changed.
    pub(crate) fn see(
        &self,
        time: Duration,
        mut now: Vec<Connection>,
        happened: Option<Vec<Happening>>,
    ) {
        let mut inner = self.inner();
        inner.pass(time);
        inner.find_still(&mut now);
        let happened = happened.unwrap_or_else(|| changes(&inner.current, &now));
        let is_first = inner.current.is_empty();
        inner.current = now;
        inner.happen(happened);
        if is_first || inner.now >= inner.due {
            inner.show(self.step);
        }
    }

    /// The present run has come to `time`, and more is not known of it.
    pub(crate) fn passes(&self, time: Duration) {
        let mut inner = self.inner();
        inner.pass(time);
        if inner.now >= inner.due {
            inner.show(self.step);
        }
    }

    /// The present run, that of this number, is over, and what went wrong.
    pub(crate) fn over(&self, number: u64, error: Option<&str>) {
        let mut inner = self.inner();
        let (level, text) = match error {
            None => (Level::Info, format!("#{number} is over")),
            Some(error) => (Level::Error, format!("#{number} has failed: {error}")),
        };
        inner.failed += u64::from(error.is_some());
        inner.happen([happening("connection_ended", level, text)]);
    }

    /// The present run, that of this number, does not count and is done again.
    pub(crate) fn void(&self, number: u64, why: &str) {
        let text = format!("#{number} does not count, and is done again: {why}");
        self.inner().happen([happening("connection_ended", Level::Warning, text)]);
    }

    /// All of it is over.
    pub(crate) fn end(&self) {
        let mut inner = self.inner();
        inner.show(self.step);
        inner.state = "over";
        inner.happen([happening("over", Level::Info, "all is over".to_owned())]);
        inner.show(self.step);
    }

    /// Whether somebody looks at the weave of the connection of that number.
    pub(crate) fn wants_weave(&self, number: u64) -> bool {
        let (wanted, how_many) = self.inner().wanted;
        how_many > 0 && wanted == number
    }

    /// Tells the weave of the connection of that number, as it stands.
    pub(crate) fn set_weave(&self, number: u64, weave: Weave) {
        self.inner().weave = Some((number, Arc::new(weave)));
    }

    // ---- what is shown ----

    /// What there is to be seen since the last time.
    #[cfg_attr(not(feature = "web"), allow(dead_code, reason = "only a page reads it"))]
    pub(crate) fn moments(&self) -> Vec<Moment> {
        self.inner().moments.drain(..).collect()
    }

    /// The runs, as a daemon says what it is.
    #[cfg_attr(not(feature = "web"), allow(dead_code, reason = "only a page reads it"))]
    pub(crate) fn snapshot(&self, connections: usize) -> Snapshot {
        let inner = self.inner();
        let is_over = inner.state == "over";
        let listed: Vec<_> = inner.current.iter().take(connections).cloned().collect();
        Snapshot {
            schema: SCHEMA,
            daemon: self.what.to_owned(),
            version: VERSION.to_owned(),
            pid: std::process::id(),
            state: inner.state.to_owned(),
            uptime_s: self.began.elapsed().as_secs_f64(),
            listening: Vec::new(),
            connections_opened: inner.connections,
            connections_failed: inner.failed,
            handshakes_refused: 0,
            connections_open: if is_over { 0 } else { inner.current.len() as u64 },
            connections_ready: 0,
            connections_unlisted: (inner.current.len() - listed.len()) as u64,
            memory: Memory::now(),
            connections: listed,
            bonds: Vec::new(),
            node: None,
        }
    }

    /// Asks for the weave of the connection of that number, for as long as what this returns lives;
    /// `None` if there is none of it.
    #[cfg_attr(not(feature = "web"), allow(dead_code, reason = "only a page asks for it"))]
    pub(crate) fn want_weave(self: &Arc<Self>, number: u64) -> Option<Wanted> {
        let mut inner = self.inner();
        if !inner.has_weave || inner.current.first().is_none_or(|one| one.number != number) {
            return None;
        }
        let (wanted, how_many) = inner.wanted;
        inner.wanted = (number, if wanted == number { how_many + 1 } else { 1 });
        Some(Wanted { show: Arc::clone(self), number })
    }
}

/// A weave that is told, for as long as this lives.
pub(crate) struct Wanted {
    show: Arc<Show>,
    number: u64,
}

#[cfg_attr(not(feature = "web"), allow(dead_code, reason = "only a page asks for it"))]
impl Wanted {
    /// The weave as it was told last; `None` when the run is over and another has begun.
    pub(crate) fn look(&self) -> Option<Weave> {
        let inner = self.show.inner();
        let is_current = inner.current.iter().any(|one| one.number == self.number);
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
    /// The present run has come to `time` of it.
    fn pass(&mut self, time: Duration) {
        self.now = self.offset.saturating_add(time).max(self.now);
    }

    /// The present run is over: what it has carried is shown, and kept.
    fn finish(&mut self) {
        if !self.current.is_empty() {
            self.show(Duration::ZERO);
        }
        self.offset = self.now;
        self.still.clear();
        for run in std::mem::take(&mut self.current) {
            for path in &run.paths {
                let past = self.past.entry(path.name.as_str().into()).or_default();
                add(past, moved(path));
            }
        }
    }

    /// Finds the paths that make no progress, whether their sender has noticed or not.
    fn find_still(&mut self, connections: &mut [Connection]) {
        let now = self.now;
        for one in connections {
            for path in &mut one.paths {
                let key = (one.number, path.name.clone());
                let waits = path.state == "up" && path.outstanding_bytes.is_some_and(|n| n > 0);
                let (delivered, since) = self.still.entry(key).or_default();
                if !waits || since.is_none() || *delivered != path.delivered_bytes {
                    (*delivered, *since) = (path.delivered_bytes, waits.then_some(now));
                }
                let patience = path.srtt_ms.map_or(STILL_UNKNOWN, |srtt| {
                    STILL.max(Duration::from_secs_f64((2.0 * srtt / 1e3).clamp(0.0, 60.0)))
                });
                if since.is_some_and(|since| now.saturating_sub(since) >= patience) {
                    "silent".clone_into(&mut path.state);
                }
            }
        }
    }

    fn happen(&mut self, all: impl IntoIterator<Item = Happening>) {
        self.happened.extend(all);
        keep_most_important(&mut self.happened);
    }

    /// Notes what is to be seen now; the next is due a `step` later, on a grid.
    fn show(&mut self, step: Duration) {
        if !step.is_zero() {
            let steps = self.now.as_nanos() / step.as_nanos() + 1;
            self.due = Duration::from_nanos((steps * step.as_nanos()) as u64);
        }
        let events = std::mem::take(&mut self.happened);
        let (at, state) = (self.now, self.state);
        let is_over = state == "over";
        let paths = self.sums(is_over);
        let connection = |run: &Connection| [run.number, run.sent_bytes, run.received_bytes];
        let connections = self.current.iter().filter(|_| !is_over).map(connection).collect();
        if self.moments.len() == MOMENTS
            && let Some(oldest) = self.moments.pop_front()
            && let Some(next) = self.moments.front_mut()
        {
            // What has happened is told all the same.
            next.events.splice(0..0, oldest.events);
            keep_most_important(&mut next.events);
        }
        self.moments.push_back(Moment { at, state, connections, paths, events });
    }

    /// Each path over all runs there were.
    fn sums(&self, is_over: bool) -> Vec<(Arc<str>, PathSums)> {
        let mut found: BTreeMap<Arc<str>, PathSums> = BTreeMap::new();
        for (name, moved) in &self.past {
            found.insert(Arc::clone(name), PathSums { moved: *moved, now: None });
        }
        for path in self.current.iter().flat_map(|run| &run.paths) {
            let empty = || PathSums { moved: [0; 3], now: None };
            let sums = found.entry(path.name.as_str().into()).or_insert_with(empty);
            add(&mut sums.moved, moved(path));
            let rank = |state: &str| STATES.iter().position(|one| *one == state);
            let is_better = |now: &PathNow| rank(&path.state) < rank(&now.state);
            if !is_over && sums.now.as_ref().is_none_or(is_better) {
                sums.now = Some(PathNow {
                    state: path.state.clone(),
                    srtt_ms: path.srtt_ms,
                    min_rtt_ms: path.min_rtt_ms,
                    cwnd_bytes: path.cwnd_bytes,
                });
            }
        }
        found.into_iter().collect()
    }
}

/// States of a path, the best first.
const STATES: [&str; 4] = ["up", "standby", "silent", "down"];

/// Payload bytes that have arrived there and here, and segments sent again.
fn moved(path: &Path) -> [u64; 3] {
    [path.delivered_bytes, path.received_bytes, path.retransmitted_segments.unwrap_or(0)]
}

fn add(sums: &mut [u64; 3], more: [u64; 3]) {
    for (sum, more) in sums.iter_mut().zip(more) {
        *sum = sum.saturating_add(more);
    }
}

/// Leaves out what matters least, the oldest of that first, if there is more than is shown of a moment.
fn keep_most_important(all: &mut Vec<Happening>) {
    let rank = |one: &Happening| match (one.name, one.level) {
        ("connection_used" | "connection_ended" | "over", _) => 2,
        (_, Level::Info) => 0,
        _ => 1,
    };
    while all.len() > HAPPENINGS {
        let Some(least) = (0..all.len()).min_by_key(|&place| rank(&all[place])) else { return };
        all.remove(least);
    }
}

fn happening(name: &'static str, level: Level, text: String) -> Happening {
    Happening { name, level, path: None, text }
}

/// What has happened to the paths of connections from `before` to `now`.
fn changes(before: &[Connection], now: &[Connection]) -> Vec<Happening> {
    let was = |number: u64, name: &str| {
        let one = before.iter().find(|one| one.number == number)?;
        let path = one.paths.iter().find(|path| path.name == name)?;
        Some(path.state.as_str())
    };
    let change = |(one, path): (&Connection, &Path)| {
        let (name, level, what) = match (was(one.number, &path.name), path.state.as_str()) {
            (None, "up" | "standby") => ("path_up", Level::Info, "came up"),
            (Some("down"), "up" | "standby") => ("path_up", Level::Good, "is up"),
            (Some("silent"), "up" | "standby") => ("path_recovered", Level::Good, "recovered"),
            (Some("up" | "standby"), "silent") => {
                ("path_stalled", Level::Warning, "stalled: data is outstanding, nothing arrives")
            }
            (Some("up" | "standby" | "silent"), "down") => ("path_down", Level::Error, "is down"),
            _ => return None,
        };
        let of = if now.len() > 1 { format!(" of #{}", one.number) } else { String::new() };
        let text = format!("path {}{of} {what}", path.name);
        Some(Happening { name, level, path: Some(path.name.as_str().into()), text })
    };
    let paths = now.iter().flat_map(|one| one.paths.iter().map(move |path| (one, path)));
    paths.filter_map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run's connection whose only path has carried that much and is in this state.
    fn connection(number: u64, bytes: u64, state: &str) -> Vec<Connection> {
        let path = Path {
            name: "dsl".to_owned(),
            state: state.to_owned(),
            delivered_bytes: bytes,
            ..Path::default()
        };
        vec![Connection { number, sent_bytes: bytes, paths: vec![path], ..Connection::default() }]
    }

    fn texts(moment: &Moment) -> Vec<&str> {
        moment.events.iter().map(|one| one.text.as_str()).collect()
    }

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_moment_is_shown_each_half_second_of_the_run_on_a_grid_and_with_what_has_happened() {
        let show = Show::new("sim run", 1.0);
        let number = show.begin("first", 1, false);
        for step in 0..=10u64 {
            let state = if step == 3 { "silent" } else { "up" };
            show.see(ms(110 * step), connection(number, 1000 * step, state), None);
        }
        let moments = show.moments();
        let at: Vec<_> = moments.iter().map(|one| one.at.as_millis()).collect();
        assert_eq!(at, [0, 0, 550, 1100]);
        assert_eq!(texts(&moments[0]), ["#1: first"]);
        assert_eq!(texts(&moments[1]), ["path dsl came up"]);
        let stalled = "path dsl stalled: data is outstanding, nothing arrives";
        assert_eq!(texts(&moments[2]), [stalled, "path dsl recovered"]);
        assert_eq!(moments[3].connections, [[1, 10_000, 0]]);
        assert!(show.moments().is_empty(), "each is taken once");
    }

    #[test]
    fn slow_motion_shows_as_much_in_a_second_of_the_clock() {
        let show = Show::new("sim run", 0.1);
        show.begin("slow", 1, false);
        (0..=20).for_each(|step| show.see(ms(5 * step), connection(1, step, "up"), None));
        let at: Vec<_> = show.moments().iter().map(|one| one.at.as_millis()).collect();
        assert_eq!(at, [0, 0, 50, 100]);
    }

    #[test]
    fn the_clock_and_the_sums_go_on_from_run_to_run() {
        let show = Show::new("sim run", 1.0);
        show.begin("first", 1, false);
        show.see(ms(2100), connection(1, 700, "up"), None);
        show.over(1, Some("it broke"));
        show.begin("second", 2, false);
        show.see(Duration::ZERO, connection(2, 0, "up"), None);
        show.see(ms(1000), connection(2, 50, "up"), None);
        show.over(2, None);
        show.end();
        let moments = show.moments();
        let at: Vec<_> = moments.iter().map(|one| one.at.as_millis()).collect();
        // The first has its end as well, and the second its beginning.
        assert_eq!(at, [0, 2100, 2100, 2100, 2100, 3100, 3100, 3100]);
        let sent: Vec<_> = moments[1..].iter().map(|one| one.paths[0].1.moved[0]).collect();
        assert_eq!(sent, [700, 700, 700, 700, 750, 750, 750]);
        let last = moments.last().unwrap();
        assert_eq!((last.state, last.connections.len()), ("over", 0));
        assert!(last.paths[0].1.now.is_none(), "nobody uses it any more");
        let all: Vec<_> = moments.iter().flat_map(texts).collect();
        let begins = ["#1: first", "path dsl came up", "#1 has failed: it broke", "#2: second"];
        let ends = ["path dsl came up", "#2 is over", "all is over"];
        assert_eq!(all, [&begins[..], &ends].concat());
        let status = show.snapshot(10);
        assert_eq!((status.connections_opened, status.connections_failed), (3, 1));
        assert_eq!((status.connections[0].number, status.connections_open), (2, 0));
    }

    #[test]
    fn a_path_that_delivers_nothing_of_what_is_outstanding_is_silent_whoever_tells_of_it() {
        let show = Show::new("lab run", 1.0);
        show.begin("linux-mptcp", 1, false);
        let tell = |at, delivered, outstanding| {
            let mut one = connection(1, delivered, "up");
            one[0].paths[0].outstanding_bytes = Some(outstanding);
            one[0].paths[0].srtt_ms = Some(50.0);
            show.see(ms(at), one, None);
            let moments = show.moments();
            let stalls = |one: &Moment| texts(one).iter().any(|text| text.contains("stalled"));
            moments.iter().any(stalls)
        };
        assert!(!tell(0, 100, 5000));
        assert!(!tell(500, 200, 5000));
        assert!(!tell(700, 200, 5000));
        assert!(tell(1000, 200, 5000), "nothing came for half a second");
        assert!(!tell(1500, 300, 5000));
        // One that has nothing to send only rests.
        assert!(!tell(3000, 300, 0));
        assert!(!tell(9000, 300, 0));
        assert!(!tell(9500, 300, 10), "it has just begun to send");
    }

    #[test]
    fn a_weave_is_told_while_it_is_wanted_and_is_over_when_another_run_begins() {
        let show = Arc::new(Show::new("sim run", 1.0));
        assert!(show.want_weave(1).is_none(), "there is no run yet");
        show.begin("first", 1, true);
        show.see(Duration::ZERO, connection(1, 0, "up"), None);
        assert!(!show.wants_weave(1));
        let wanted = show.want_weave(1).unwrap();
        assert!(show.wants_weave(1) && !show.wants_weave(2));
        assert!(wanted.look().is_some(), "nothing was told so far");
        let now = weftline_core::Instant::from_nanos(5);
        show.set_weave(1, Weave { now, ..Weave::default() });
        assert_eq!(wanted.look().unwrap().now, now);
        show.begin("second", 1, false);
        show.see(Duration::ZERO, connection(2, 0, "up"), None);
        assert!(wanted.look().is_none());
        drop(wanted);
        assert!(!show.wants_weave(1));
        assert!(show.want_weave(2).is_none(), "it has none");
    }

    #[test]
    fn what_waits_for_a_page_is_bounded_and_what_matters_is_kept() {
        let show = Show::new("replay", 1.0);
        let mut file = connection(1, u64::MAX, "up");
        show.begin("long", 1, false);
        for second in 0..2 * MOMENTS as u64 {
            let told = |n| happening("path_up", Level::Info, format!("{second}: {n}"));
            let happened = (0..2 * HAPPENINGS).map(told).collect();
            show.see(Duration::from_secs(second), file.clone(), Some(happened));
        }
        // Counters that no program has do not panic.
        show.begin("again", 1, false);
        file[0].number = 2;
        show.see(Duration::ZERO, file, None);
        show.over(2, Some("at the end"));
        show.end();
        let moments = show.moments();
        assert_eq!(moments.len(), MOMENTS);
        assert!(moments.iter().all(|one| one.events.len() <= HAPPENINGS));
        assert!(texts(&moments[0]).contains(&"#1: long"), "its moment has gone, and it has not");
        let last: Vec<_> = moments[MOMENTS - 3..].iter().flat_map(texts).collect();
        assert_eq!(last, ["path dsl came up", "#2 has failed: at the end", "all is over"]);
    }
}
