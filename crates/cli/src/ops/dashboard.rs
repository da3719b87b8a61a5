//! What the dashboard shows of a daemon (docs/web.md): its paths over all connections, the
//! connections, and what happens to both.

mod events;
mod nodes;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use weftline::status::{ConnectionStatus, OTHER, PathTotals, Totals};
use weftline::{ConnectionWeave, Role, WeaveWatch};
use weftline_core::session::PathStats;
use weftline_web::{
    ConnectionLook, Dashboard, Look, OpenError, PathLook, PathState, Program, Settings, Source,
    WeaveLook, WeaveSource,
};

use super::DashboardPlace;
use super::snapshot::{About, NodeLinks, Snapshot};
use crate::failure::Failure;
use events::Events;
use nodes::NodeFeed;

/// An open dashboard; it ends when this is dropped.
pub(crate) type Opened = Dashboard;

/// Refuses a place that no dashboard can have on any machine.
///
/// # Errors
/// When the address is reached from other machines and no proxy is named, or a name is none.
pub(crate) fn check(place: &DashboardPlace) -> Result<(), Failure> {
    settings(place, false).check(false).map_err(failure)
}

/// Shows the program that is `about` what this says, from now on. Returns the address to open, too, which a
/// control socket tells, if it `is_told`.
///
/// # Errors
/// When the address cannot be had.
pub(crate) async fn open(
    about: impl Fn() -> About + Send + Sync + 'static,
    place: &DashboardPlace,
    is_told: bool,
) -> Result<(Opened, String), Failure> {
    let feed = Feed { about: Box::new(about), seen: Mutex::default() };
    open_source(Arc::new(feed), place, is_told).await
}

/// The same of a node of a coded tunnel, which has `links`.
///
/// # Errors
/// When the address cannot be had.
pub(crate) async fn open_node(
    about: impl Fn() -> About + Send + Sync + 'static,
    links: impl Fn() -> NodeLinks + Send + Sync + 'static,
    place: &DashboardPlace,
    is_told: bool,
) -> Result<(Opened, String), Failure> {
    let (about, links) = (Box::new(about), Box::new(links));
    let feed = NodeFeed { about, links, seen: Mutex::default() };
    open_source(Arc::new(feed), place, is_told).await
}

async fn open_source(
    source: Arc<dyn Source>,
    place: &DashboardPlace,
    is_told: bool,
) -> Result<(Opened, String), Failure> {
    let opened = Dashboard::open(&settings(place, is_told), source).await.map_err(failure)?;
    let url = opened.url().to_owned();
    Ok((opened, url))
}

/// What the control socket says, too.
fn status(about: About, connections: usize) -> String {
    let snapshot = Snapshot::take(about, connections);
    serde_json::to_string(&snapshot)
        .unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() }).to_string())
}

fn settings(place: &DashboardPlace, is_told: bool) -> Settings {
    let program = if is_told { Program::Daemon } else { Program::Server };
    Settings { address: place.address, names: place.names.clone(), program, tls: None }
}

fn failure(error: OpenError) -> Failure {
    match &error {
        OpenError::NotLoopback(_) => Failure::wrong_use(format!("--dashboard {error}")),
        OpenError::Name(_) => Failure::wrong_use(error),
        OpenError::Bind { .. } | OpenError::Random | OpenError::Everywhere(_) => {
            Failure::failed(format!("--dashboard {error}"))
        }
    }
}

/// The daemon as the dashboard looks at it.
struct Feed {
    about: Box<dyn Fn() -> About + Send + Sync>,
    seen: Mutex<Seen>,
}

/// What the look before has seen.
#[derive(Default)]
struct Seen {
    events: Events,
    /// Payload bytes of each path in both directions.
    moved: BTreeMap<Arc<str>, u64>,
}

impl Source for Feed {
    fn status(&self, connections: usize) -> String {
        status((self.about)(), connections)
    }

    fn look(&self) -> Look {
        let (all, totals) = weftline::status::look();
        let mut seen = self.seen.lock().expect("nobody panics with it");
        let events = seen.events.look(&all);
        let paths = paths(&all, &totals, &seen.moved);
        seen.moved = totals.paths.iter().map(|(name, path)| (name.clone(), moved(path))).collect();
        let used = || all.iter().filter(|one| one.label.is_some());
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let connection = |one: &ConnectionStatus| ConnectionLook {
            number: one.number,
            sent_bytes: one.stats.acknowledged,
            received_bytes: one.stats.delivered,
        };
        Look {
            at: None,
            age: Duration::ZERO,
            state: (self.about)().state.to_owned(),
            open: count(all.len()),
            used: count(used().count()),
            paths,
            connections: used().map(connection).collect(),
            events,
        }
    }

    fn weave(&self, connection: u64) -> Option<Box<dyn WeaveSource>> {
        let watch = weftline::status::connection(connection)?.watch_weave();
        Some(Box::new(Watched(watch)))
    }
}

/// A connection whose weave somebody watches.
struct Watched(WeaveWatch);

impl WeaveSource for Watched {
    fn look(&mut self) -> Option<WeaveLook> {
        let ConnectionWeave { now, since, sent, received, names } = self.0.look()?;
        let names = names.into_iter().map(|(path, name)| (path.0, name)).collect();
        Some(WeaveLook { now, since, sent, received, names })
    }
}

fn moved(path: &PathTotals) -> u64 {
    path.delivered.saturating_add(path.received)
}

/// What the connections say of one path.
#[derive(Default)]
struct OfPath {
    /// The best state that it has in a connection that is used, and in one that is kept ready.
    used: Option<PathState>,
    ready: Option<PathState>,
    is_silent: bool,
    /// What round-trip times are above their least, ms, and of how many subflows.
    queueing_ms: f64,
    samples: u32,
}

impl OfPath {
    fn add(&mut self, is_used: bool, stats: &PathStats) {
        let subflow = stats.subflow.as_ref();
        let state = match subflow {
            None => PathState::Down,
            Some(subflow) if subflow.stalled => PathState::Silent,
            Some(subflow) if subflow.standby => PathState::Standby,
            Some(_) => PathState::Up,
        };
        self.is_silent |= is_used && state == PathState::Silent;
        let place = if is_used { &mut self.used } else { &mut self.ready };
        *place = Some(place.map_or(state, |so_far| so_far.better(state)));
        if let Some(info) = subflow.map(|subflow| &subflow.info)
            && !info.srtt.is_zero()
            && !info.min_rtt.is_zero()
        {
            self.queueing_ms += info.srtt.saturating_sub(info.min_rtt).as_secs_f64() * 1e3;
            self.samples += 1;
        }
    }

    /// How the path is. Where connections are used they decide: of one that is only kept ready
    /// nobody knows yet whether anything gets through. And one that waits in vain decides against
    /// those that have nothing to send.
    fn state(&self, has_moved: bool) -> PathState {
        match self.is_silent && !has_moved {
            true => PathState::Silent,
            false => self.used.or(self.ready).unwrap_or(PathState::Unused),
        }
    }
}

/// Each path that has been counted, over all connections that have it.
fn paths(
    all: &[ConnectionStatus],
    totals: &Totals,
    moved_before: &BTreeMap<Arc<str>, u64>,
) -> Vec<PathLook> {
    let mut found: BTreeMap<&str, OfPath> = BTreeMap::new();
    for status in all {
        for (id, stats) in &status.stats.paths {
            // One that was taken out of use and is gone tells nothing any more.
            if stats.policy.role == Role::Retired && stats.subflow.is_none() {
                continue;
            }
            let name = status.names.get(id).map_or(OTHER, |name| &**name);
            let name = if totals.paths.contains_key(name) { name } else { OTHER };
            found.entry(name).or_default().add(status.label.is_some(), stats);
        }
    }
    let look = |(name, path): (&Arc<str>, &PathTotals)| {
        let of_path = found.remove(&**name).unwrap_or_default();
        let has_moved = moved_before.get(name).is_none_or(|before| moved(path) > *before);
        PathLook {
            name: Arc::clone(name),
            state: of_path.state(has_moved),
            sent_bytes: path.delivered,
            received_bytes: path.received,
            retransmitted_segments: Some(path.retransmitted),
            srtt_ms: path.srtt.map(|srtt| (srtt.as_secs_f64() * 1e3) as f32),
            queueing_ms: (of_path.samples > 0)
                .then(|| (of_path.queueing_ms / f64::from(of_path.samples)) as f32),
            cwnd_bytes: (path.subflows > 0).then_some(path.cwnd),
        }
    };
    totals.paths.iter().map(look).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_decides_and_above_all_what_waits_in_vain() {
        let of = |used, ready, is_silent| OfPath { used, ready, is_silent, ..OfPath::default() };
        let (up, down) = (Some(PathState::Up), Some(PathState::Down));
        assert_eq!(of(down, up, false).state(true), PathState::Down);
        assert_eq!(of(None, up, false).state(false), PathState::Up);
        assert_eq!(of(None, None, false).state(false), PathState::Unused);
        // One waits, another has nothing to send: nothing gets through. It does if anything moves.
        assert_eq!(of(up, up, true).state(false), PathState::Silent);
        assert_eq!(of(up, up, true).state(true), PathState::Up);
    }
}
