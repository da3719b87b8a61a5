//! The gateway: cohorts by time of arrival, each sent in the interval after it over whichever link
//! has room (COTAG Algorithm 1).
//!
//! With cut-through packets go out as they are within the interval in which they come, and only
//! what had no room then, and what is redundant, in the one after.

use std::collections::BTreeMap;

use weftline_core::Instant;
use weftline_core::rng::Rng;
use weftline_core::time::nanos;

use super::cohort::{Coder, Cohort};
use super::pool::Pool;
use super::{NodeConfig, NodeError};
use crate::serial::{Arrival, Label};
use crate::wire::{Packet, Priority};

/// Intervals after a cohort in which links show their label even with nothing to send: an access
/// point sends a cohort when it sees the next label, and ends when it sees the one after.
const MARKED: u32 = 2;

/// What a gateway did so far, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GatewayStats {
    /// Taken into cohorts.
    pub received: u64,
    /// Sent in the first pass of their cohorts.
    pub high: u64,
    /// Redundant packets sent.
    pub low: u64,
    /// Markers sent.
    pub markers: u64,
    /// Not sent within their cohort's time, and dropped.
    pub given: u64,
    /// Dropped on arrival: the cohort was full, or the packet too long.
    pub refused: u64,
}

/// The gateway's state.
#[derive(Debug)]
pub struct Gateway {
    config: NodeConfig,
    rng: Rng,
    epoch: Instant,
    /// The arrival number of each flow's next packet.
    flows: BTreeMap<u16, Arrival>,
    /// Sent now; its label counts the intervals that are over.
    sending: Cohort,
    /// Packets that come now.
    forming: Cohort,
    spare: Pool<Coder>,
    /// The label that each link has shown last.
    shown: Vec<Option<Label>>,
    /// The last cohort that was not empty.
    last: Option<Label>,
    stats: GatewayStats,
}

impl Gateway {
    /// A gateway with so many links out. Its first interval begins `now`; combinations come from
    /// `seed`.
    ///
    /// # Panics
    ///
    /// If the interval or the size of a generation is zero.
    pub fn new(config: NodeConfig, links: usize, seed: u64, now: Instant) -> Self {
        assert!(!config.interval.is_zero(), "cohorts last for a time");
        assert!(config.limits.packets > 0, "generations have packets");
        Self {
            config,
            rng: Rng::stream(seed, "cotag/gateway"),
            epoch: now,
            flows: BTreeMap::new(),
            sending: Cohort::new(Label(0)),
            forming: Cohort::new(Label(1)),
            spare: Pool::new(&config),
            shown: vec![None; links],
            last: None,
            stats: GatewayStats::default(),
        }
    }

    /// The same gateway, whose first interval has this label instead of 0: a random one, so that
    /// nodes can tell it from the gateway that was there before.
    #[must_use]
    pub fn with_first_label(mut self, label: Label) -> Self {
        self.sending = Cohort::new(label);
        self.forming = Cohort::new(label.plus(1));
        self
    }

    /// Takes a packet of `flow` that came `now`. The number of a flow that has ended may be given to
    /// another: its packets are counted on.
    ///
    /// # Errors
    ///
    /// If the cohort is full or the packet longer than the limit; it is dropped.
    pub fn receive(&mut self, flow: u16, packet: &[u8], now: Instant) -> Result<(), NodeError> {
        self.advance(now);
        let arrival = self.flows.entry(flow).or_default();
        let pushed = self.forming.push(flow, *arrival, packet, &self.config, &mut self.spare);
        match pushed {
            Ok(()) => {
                *arrival = arrival.plus(1);
                self.stats.received += 1;
            }
            Err(_) => self.stats.refused += 1,
        }
        pushed
    }

    /// Appends what goes out next on `link`, which has room for a packet, to `out`; `None` if there
    /// is nothing in this interval.
    ///
    /// # Panics
    ///
    /// If there is no such link.
    pub fn poll_transmit(
        &mut self,
        link: usize,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Priority> {
        self.advance(now);
        let label = Some(self.sending.label);
        if self.sending.send_first(&self.config, &mut self.rng, out) {
            self.stats.high += 1;
            self.shown[link] = label;
            return Some(Priority::High);
        }
        if self.config.cuts_through() {
            // What comes early shows no label. Nodes must not wait for it until there is a gap.
            if self.mark(link, out) {
                return Some(Priority::High);
            }
            if self.forming.send_early(out) {
                self.stats.high += 1;
                return Some(Priority::High);
            }
        }
        if self.sending.send_redundant(&self.config, &mut self.rng, out) {
            self.stats.low += 1;
            self.shown[link] = label;
            return Some(Priority::Low);
        }
        self.mark(link, out).then_some(Priority::High)
    }

    /// Appends a marker if the link has not shown the present label and somebody may wait for it.
    fn mark(&mut self, link: usize, out: &mut Vec<u8>) -> bool {
        let label = self.sending.label;
        let wanted = self.last.is_some_and(|last| label.since(last) <= MARKED);
        if !wanted || self.shown[link] == Some(label) {
            return false;
        }
        Packet::Marker(label).encode(out);
        self.stats.markers += 1;
        self.shown[link] = Some(label);
        true
    }

    /// Does what is due by `now`: links may have something to send again.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    /// The end of this interval, if something changes then.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let label = self.sending.label;
        let marks = self.last.is_some_and(|last| label.since(last) < MARKED);
        let busy = !self.forming.is_empty() || !self.sending.is_empty() || marks;
        busy.then(|| self.epoch + self.config.interval)
    }

    /// What it did so far.
    pub fn stats(&self) -> GatewayStats {
        self.stats
    }

    /// Begins the interval that `now` is in. `epoch` is the beginning of the present one.
    fn advance(&mut self, now: Instant) {
        let interval = nanos(self.config.interval);
        let passed = nanos(now.since(self.epoch)) / interval;
        if passed == 0 {
            return;
        }
        self.epoch = Instant::from_nanos(self.epoch.as_nanos() + passed * interval);
        self.stats.given += self.sending.unsent() as u64;
        let label = self.sending.label.plus(passed as u32);
        std::mem::swap(&mut self.sending, &mut self.forming);
        if !self.sending.is_empty() {
            self.last = Some(self.sending.label);
        }
        if passed > 1 {
            // Nobody asked in its whole time.
            self.stats.given += self.sending.unsent() as u64;
            self.sending.restart(label, &mut self.spare);
        }
        self.forming.restart(label.plus(1), &mut self.spare);
    }
}
