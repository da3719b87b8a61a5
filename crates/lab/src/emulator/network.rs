//! All paths of the emulator, as a state machine: what starts their traces, when they are cut, and
//! how long the thread may wait. Like [`Direction`], it has neither descriptors nor a clock.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_core::{Bitrate, Instant};
use weftline_link::{Link, LinkConfig};

use super::cut::Switch;
use super::direction::Direction;
use super::{PathReport, Start, Way};

/// Below this total rate every packet gets a wake-up of its own; above, the emulator works in
/// quanta, because a 1.8 Gb/s link sends a packet every 7 µs.
const QUANTUM_FROM: Bitrate = Bitrate::mbps(300);
const QUANTUM: Duration = Duration::from_micros(50);

/// What one path is like.
#[derive(Debug)]
pub(super) struct PathConfig {
    /// Its name, which names its random streams.
    pub(super) name: String,
    /// Server to client.
    pub(super) down: LinkConfig,
    /// Client to server.
    pub(super) up: LinkConfig,
}

/// The two directions of one path.
#[derive(Debug)]
pub(super) struct Lane {
    name: String,
    /// Server to client.
    pub(super) down: Direction,
    /// Client to server.
    pub(super) up: Direction,
}

/// How to wait for what comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// So long, without looking at the devices.
    Sleep(Duration),
    /// Until a device is readable, but at most so long.
    Poll(Option<Duration>),
}

/// All paths.
#[derive(Debug)]
pub(super) struct Network {
    /// The paths, in the order they were given.
    pub(super) lanes: Vec<Lane>,
    start: Start,
    /// How often the emulator looks at its devices while packets are on their way.
    quantum: Duration,
    epoch: Option<Instant>,
    /// Cuts to come, counted from the epoch, the next one first.
    switches: VecDeque<Switch>,
}

impl Network {
    pub(super) fn new(paths: Vec<PathConfig>, seed: u64, start: Start) -> Self {
        let total: Bitrate = paths.iter().map(|path| path.down.rate.mean()).sum();
        let quantum = if total < QUANTUM_FROM { Duration::ZERO } else { QUANTUM };
        let lane = |PathConfig { name, down, up }| Lane {
            down: Direction::new(Link::new(down, seed, &format!("{name}/down"))),
            up: Direction::new(Link::new(up, seed, &format!("{name}/up"))),
            name,
        };
        let lanes = paths.into_iter().map(lane).collect();
        Self { lanes, start, quantum, epoch: None, switches: VecDeque::new() }
    }

    /// Starts traces, schedules, series and cuts at `epoch`.
    pub(super) fn start(&mut self, epoch: Instant) {
        self.epoch = Some(epoch);
        for lane in &mut self.lanes {
            lane.down.start(epoch);
            lane.up.start(epoch);
        }
    }

    /// When it started, if it did.
    pub(super) fn epoch(&self) -> Option<Instant> {
        self.epoch
    }

    /// Whether a packet of a server with `payload` bytes is the first data for which everything
    /// waits.
    pub(super) fn starts_with(&self, payload: usize) -> bool {
        let data = matches!(self.start, Start::FirstData(least) if payload >= least);
        data && self.epoch.is_none()
    }

    /// Replaces the cuts to come by `switches`, the first one first.
    pub(super) fn schedule(&mut self, switches: Vec<Switch>) {
        self.switches = switches.into();
    }

    /// Cuts or restores a path now.
    pub(super) fn switch(&mut self, Switch { path, way, cut, .. }: Switch) {
        let lane = &mut self.lanes[path];
        if way != Some(Way::Up) {
            lane.down.cut = cut;
        }
        if way != Some(Way::Down) {
            lane.up.cut = cut;
        }
    }

    /// Cuts and restores what is to be by `now`.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        while self.next_switch().is_some_and(|at| at <= now) {
            let switch = self.switches.pop_front();
            switch.into_iter().for_each(|switch| self.switch(switch));
        }
    }

    /// When the next scheduled cut or restoration is due.
    fn next_switch(&self) -> Option<Instant> {
        Some(self.epoch? + self.switches.front()?.at)
    }

    /// How to wait at `now` for the next due packet, cut or quantum, after the work that began at
    /// `turn`.
    pub(super) fn poll_wait(&self, turn: Instant, now: Instant) -> Wait {
        let directions = self.lanes.iter().flat_map(|lane| [&lane.down, &lane.up]);
        let due = directions.filter_map(Direction::poll_timeout).min();
        if due.is_some() && !self.quantum.is_zero() {
            return Wait::Sleep(self.quantum.saturating_sub(now.since(turn)));
        }
        match due.into_iter().chain(self.next_switch()).min() {
            None => Wait::Poll(None),
            Some(at) if at > now => Wait::Poll(Some(at.since(now))),
            Some(_) => Wait::Sleep(Duration::ZERO),
        }
    }

    /// What became of the packets of each path.
    pub(super) fn report(&self) -> Vec<PathReport> {
        let report = |lane: &Lane| PathReport {
            name: lane.name.clone(),
            down: lane.down.report(),
            up: lane.up.report(),
        };
        self.lanes.iter().map(report).collect()
    }

    /// Memory held for packets, in bytes.
    pub(super) fn memory(&self) -> usize {
        self.lanes.iter().map(|lane| lane.down.memory() + lane.up.memory()).sum()
    }
}

#[cfg(test)]
mod tests;
