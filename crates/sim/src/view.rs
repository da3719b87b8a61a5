//! A run as a display shows it, at any moment.

use std::time::Duration;

use weftline_core::path::PathInfo;
use weftline_core::session::PathStats;
use weftline_core::{ByteCount, PathId};

use crate::flow::Flow;
use crate::record::{Woven, woven};
use crate::stepping::Simulation;
use crate::tcp::SenderStats;
use crate::world::World;

/// A flow of a run at a moment, as its sender sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Since the workload began.
    pub time: Duration,
    /// Bytes that the application has written.
    pub written: u64,
    /// Bytes that the other application has been handed, in order.
    pub delivered: u64,
    /// Of what was received, bytes that had come before.
    pub duplicates: u64,
    /// The path that sends forward, by its place in `paths`, for schedulers that have one.
    pub forward: Option<usize>,
    /// The transmission window, for schedulers that have one.
    pub window: Option<ByteCount>,
    /// Its paths, in the order of the plan.
    pub paths: Vec<PathView>,
}

/// A path at a moment.
#[derive(Clone, Debug, PartialEq)]
pub struct PathView {
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: PathState,
    /// Bytes sent, repetitions included, on all connections that there were.
    pub sent: u64,
    /// Of these, those that are known to have arrived.
    pub delivered: u64,
    /// Segments sent again.
    pub resent: u64,
    /// Of the bytes sent, those that were on another path already: reinjected and redundant copies.
    pub reinjected: u64,
    /// Payload bytes that were sent and are not known to have arrived.
    pub outstanding: u64,
    /// What its sender knows of it; `None` without a connection.
    pub info: Option<PathInfo>,
}

/// How a path is, as its sender knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathState {
    /// It carries what it is given.
    Up,
    /// Its role keeps data off it.
    Standby,
    /// It has data outstanding and makes no progress.
    Stalled,
    /// It has no connection.
    Down,
}

impl Simulation {
    /// The flows that are measured, as they are now. Where a gateway spreads packets over the paths, the
    /// first has the paths, with what went over the air for all of them: with headers and redundancy.
    pub fn views(&self) -> Vec<View> {
        let flows = &self.world().flows[..self.world().plan.measured];
        flows.iter().map(|flow| self.view(flow)).collect()
    }

    fn view(&self, flow: &Flow) -> View {
        let sessions = flow.sessions();
        let [client, server] = sessions.as_ref().map_or([None; 2], |[a, b]| [Some(a), Some(b)]);
        let place = |id: PathId| flow.plan.paths.iter().position(|&path| path as u64 == id.0);
        let of = |path: usize| server.and_then(|server| server.paths.get(&PathId(path as u64)));
        let paths = flow.plan.paths.iter().enumerate();
        let paths = paths.filter(|_| !flow.plan.is_spread || flow.index == 0);
        let view = |(k, &path)| match flow.plan.is_spread {
            true => radio(self.world(), path),
            false => subflow(self.world(), flow, k, of(path)),
        };
        View {
            time: self.time(),
            written: flow.source.written(),
            delivered: flow.sink.read(),
            duplicates: client.map_or(0, |client| client.duplicates),
            forward: server.and_then(|server| server.forward).and_then(place),
            window: server.and_then(|server| server.window),
            paths: paths.map(view).collect(),
        }
    }

    /// Which path has carried which part of the stream so far, if the plan has that recorded.
    pub fn weave(&self) -> Option<Woven> {
        woven(self.world())
    }
}

/// The `k`-th of a flow's paths; `session` is what its session says of it, if it has one.
fn subflow(world: &World, flow: &Flow, k: usize, session: Option<&PathStats>) -> PathView {
    let ends = || flow.ends_of(k).map(|[_, server]| world.net.endpoint(server));
    let sum = |of: fn(&SenderStats) -> u64| ends().map(|end| of(end.stats())).sum();
    let end = ends().last().filter(|end| end.is_established());
    let live = session.map(|session| session.subflow.as_ref());
    let state = match (end, live) {
        (None, _) | (_, Some(None)) => PathState::Down,
        (_, Some(Some(live))) if live.stalled => PathState::Stalled,
        (_, Some(Some(live))) if live.standby => PathState::Standby,
        _ => PathState::Up,
    };
    let is_up = state != PathState::Down;
    let info = end.filter(|_| is_up).map(|end| end.info(crate::build::mss(&world.plan)));
    PathView {
        name: world.plan.paths[flow.plan.paths[k]].name.clone(),
        state,
        sent: sum(|of| of.bytes),
        delivered: sum(|of| of.delivered_bytes),
        resent: sum(|of| of.resent),
        reinjected: session.map_or(0, |session| session.reinjected),
        outstanding: end.map_or(0, |end| {
            end.written().saturating_sub(end.acknowledged()).saturating_sub(end.unsent())
        }),
        info,
    }
}

/// The radio of a path over which the packets of all connections are spread.
fn radio(world: &World, path: usize) -> PathView {
    let [down, _] = world.link_stats(path);
    PathView {
        name: world.plan.paths[path].name.clone(),
        state: PathState::Up,
        sent: down.offered.bytes.as_u64(),
        delivered: down.scheduled.bytes.as_u64(),
        resent: 0,
        reinjected: 0,
        outstanding: 0,
        info: None,
    }
}
