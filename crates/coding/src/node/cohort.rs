//! A cohort at the gateway: its packets in the order in which they came, cut into generations of
//! one flow each, and how far it has been sent.

use std::collections::BTreeMap;
use std::time::Duration;

use super::pool::Pool;
use super::redundancy::Losses;
use super::{Mode, NodeConfig, NodeError};
use crate::coefficients::{self, Coding};
use crate::encoder::Encoder;
use crate::generation::GenerationError;
use crate::serial::{Arrival, Label};
use crate::wire::{Header, Priority, Tag};
use weftline_core::rng::Rng;

/// Combinations that are made at once, which takes less time than one by one.
const BATCH: usize = 4;

/// A generation's packets, and combinations of them that were made ahead.
#[derive(Debug)]
pub(super) struct Coder {
    encoder: Encoder,
    seeds: [u32; BATCH],
    payloads: Vec<u8>,
    stride: usize,
    /// Combinations that were used; all, if none were made.
    used: usize,
}

impl Coder {
    fn new(config: &NodeConfig) -> Self {
        let encoder = Encoder::new(config.limits, config.kernel);
        Self { encoder, seeds: [0; BATCH], payloads: Vec::new(), stride: 0, used: BATCH }
    }

    fn clear(&mut self) {
        self.encoder.clear();
        self.used = BATCH;
    }

    /// A combination of all packets, of which there must be no more after: its seed and payload.
    fn combine(&mut self, rng: &mut Rng) -> (u32, &[u8]) {
        if self.used == BATCH {
            let size = self.encoder.size();
            self.seeds.fill_with(|| coefficients::draw_seed(rng, size));
            self.payloads.clear();
            self.stride = self.encoder.append_seeded_all(&self.seeds, &mut self.payloads);
            self.used = 0;
        }
        let at = self.used;
        self.used += 1;
        (self.seeds[at], &self.payloads[at * self.stride..][..self.encoder.combined_bytes()])
    }
}

/// Up to G packets of a flow.
#[derive(Debug)]
struct Generation {
    flow: u16,
    number: u16,
    first: Arrival,
    coder: Coder,
    /// Where the flow's next one is.
    next: Option<usize>,
}

/// What a cohort has of a flow.
#[derive(Clone, Copy, Debug)]
struct FlowPart {
    packets: u16,
    /// Where its first and its last generation are.
    first: usize,
    last: usize,
    /// The generation that is combined next, and how often those before it have been in this pass:
    /// as often as they have packets, so that each gets its share.
    turn: usize,
    round: u8,
}

/// The packets of an interval.
#[derive(Debug)]
pub(super) struct Cohort {
    pub(super) label: Label,
    generations: Vec<Generation>,
    flows: BTreeMap<u16, FlowPart>,
    /// Generation and index of each packet, as they came.
    order: Vec<(usize, u8)>,
    /// Packets sent: those of the first pass, and redundant ones.
    sent: usize,
    taken: usize,
    /// The redundant packets that are wanted, and the most where there is time left.
    quota: usize,
    spare: usize,
    /// The generations that they are of; without, it is by the order of the first pass.
    plan: Vec<usize>,
}

impl Cohort {
    pub(super) fn new(label: Label) -> Self {
        let (generations, flows, order) = (Vec::new(), BTreeMap::new(), Vec::new());
        let plan = Vec::new();
        Self { label, generations, flows, order, sent: 0, taken: 0, quota: 0, spare: 0, plan }
    }

    /// Becomes the cohort `label`, empty; its encoders are used again.
    pub(super) fn restart(&mut self, label: Label, spare: &mut Pool<Coder>) {
        self.label = label;
        self.generations.drain(..).for_each(|generation| spare.put(generation.coder));
        self.flows.clear();
        self.order.clear();
        (self.sent, self.taken) = (0, 0);
        (self.quota, self.spare) = (0, 0);
        self.plan.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Packets of the first pass.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Packets of the first pass that have not been sent.
    pub(super) fn unsent(&self) -> usize {
        self.order.len() - self.sent
    }

    /// Whether a packet of so many bytes can be added.
    pub(super) fn check(
        &self,
        flow: u16,
        bytes: usize,
        config: &NodeConfig,
    ) -> Result<(), NodeError> {
        let part = self.flows.get(&flow).map_or(0, |part| part.packets);
        if self.order.len() >= config.buffer_packets || part == u16::MAX {
            return Err(NodeError::Full(self.order.len()));
        }
        let max = usize::from(config.limits.packet_bytes);
        if bytes > max {
            return Err(GenerationError::Long { bytes, max }.into());
        }
        Ok(())
    }

    /// Adds a packet of a flow, whose place there is `arrival`.
    ///
    /// # Panics
    ///
    /// If [`Self::check`] refuses it.
    pub(super) fn push(
        &mut self,
        flow: u16,
        arrival: Arrival,
        packet: &[u8],
        config: &NodeConfig,
        spare: &mut Pool<Coder>,
    ) {
        let new = self.generations.len();
        let part = self.flows.entry(flow).or_insert(FlowPart {
            packets: 0,
            first: new,
            last: new,
            turn: new,
            round: 0,
        });
        let last = self.generations.get(part.last);
        if last.is_none_or(|last| last.coder.encoder.is_full()) {
            let mut coder = spare.take(|| Coder::new(config));
            coder.clear();
            let number = last.map_or(0, |last| last.number + 1);
            if let Some(last) = self.generations.get_mut(part.last) {
                last.next = Some(new);
            }
            part.last = new;
            self.generations.push(Generation { flow, number, first: arrival, coder, next: None });
        }
        let at = self.generations[part.last].coder.encoder.push(packet);
        part.packets += 1;
        self.order.push((part.last, at.expect("it was checked")));
    }

    /// Appends the next packet of the first pass to `out`; whether there was one, here and below.
    pub(super) fn send_first(
        &mut self,
        config: &NodeConfig,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) -> bool {
        let Some(&(generation, index)) = self.order.get(self.sent) else { return false };
        self.sent += 1;
        match config.mode {
            Mode::Systematic => {
                self.append_packet(self.header(generation, Priority::High), generation, index, out);
            }
            Mode::Dense => self.append_combined(generation, Priority::High, rng, out),
        }
        true
    }

    /// Appends the next packet to `out` as it is, while others may still join the cohort.
    pub(super) fn send_early(&mut self, out: &mut Vec<u8>) -> bool {
        let Some(&(generation, index)) = self.order.get(self.sent) else { return false };
        self.sent += 1;
        let mut header = self.header(generation, Priority::High);
        header.cohort_packets = 0;
        if !self.generations[generation].coder.encoder.is_full() {
            header.size = 0;
        }
        self.append_packet(header, generation, index, out);
        true
    }

    /// Redundant packets fill what time is left, up to that percentage of the others: of the flows in
    /// the order of the first pass (COTAG Fig. 2), of each flow's generations in turns.
    pub(super) fn take_up_to(&mut self, percent: u32) {
        (self.quota, self.spare) = (self.most(percent), self.most(percent));
    }

    /// Each generation gets as many redundant packets as losses call for, in turns, and together at most
    /// that percentage of the others: few ones in the order of the first pass would all be of the flows
    /// that came first.
    pub(super) fn take_as_needed(&mut self, losses: &mut Losses, interval: Duration, percent: u32) {
        let (most, flows) = (self.most(percent), &self.flows);
        let sizes = self
            .generations
            .iter()
            .map(|generation| (generation.coder.encoder.size(), flows[&generation.flow].packets));
        self.quota = losses.plan(sizes, interval, most, &mut self.plan);
        self.spare = self.plan.len();
    }

    fn most(&self, percent: u32) -> usize {
        (self.order.len() as u64 * u64::from(percent) / 100) as usize
    }

    /// Whether another redundant packet goes where there is time left.
    pub(super) fn may_take(&self) -> bool {
        self.taken < self.spare
    }

    /// Appends a redundant packet to `out`, as many as are wanted or, with time left, as there may
    /// be.
    pub(super) fn send_redundant(
        &mut self,
        time_left: bool,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) -> bool {
        if self.taken >= if time_left { self.spare } else { self.quota } {
            return false;
        }
        let generation = self.plan.get(self.taken).copied().unwrap_or_else(|| {
            let (generation, _) = self.order[self.taken % self.order.len()];
            self.take_turn(generation)
        });
        self.taken += 1;
        self.append_combined(generation, Priority::Low, rng, out);
        true
    }

    /// The generation whose turn it is among those of the same flow.
    fn take_turn(&mut self, generation: usize) -> usize {
        let size = |generation: usize| self.generations[generation].coder.encoder.size();
        let flow = self.generations[generation].flow;
        let part = self.flows.get_mut(&flow).expect("it has packets");
        let taken = part.turn;
        match self.generations[taken].next.filter(|&next| size(next) > part.round) {
            Some(next) => part.turn = next,
            None => {
                // Only the last generation may be smaller than the others.
                part.turn = part.first;
                part.round += 1;
                if part.round >= size(part.first) {
                    part.round = 0;
                }
            }
        }
        taken
    }

    fn header(&self, generation: usize, priority: Priority) -> Header<'static> {
        let generation = &self.generations[generation];
        Header {
            label: self.label,
            priority,
            flow: generation.flow,
            generation: generation.number,
            size: generation.coder.encoder.size(),
            cohort_packets: self.flows[&generation.flow].packets,
            first: generation.first,
            tag: Tag::default(),
            coding: Coding::Systematic(0),
        }
    }

    fn append_packet(&self, header: Header<'_>, generation: usize, index: u8, out: &mut Vec<u8>) {
        Header { coding: Coding::Systematic(index), ..header }.encode(out);
        let encoder = &self.generations[generation].coder.encoder;
        out.extend_from_slice(encoder.packet(index).expect("pushed before"));
    }

    fn append_combined(
        &mut self,
        generation: usize,
        priority: Priority,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) {
        let header = self.header(generation, priority);
        let (seed, payload) = self.generations[generation].coder.combine(rng);
        Header { coding: Coding::Seed(seed), ..header }.encode(out);
        out.extend_from_slice(payload);
    }
}
