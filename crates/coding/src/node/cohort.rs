//! A cohort at the gateway: its packets in the order in which they came, cut into generations of
//! one flow each, and how far it has been sent.

use std::collections::BTreeMap;

use super::pool::Pool;
use super::{Mode, NodeConfig, NodeError};
use crate::coefficients::{self, Coding};
use crate::encoder::Encoder;
use crate::generation::GenerationError;
use crate::serial::{Arrival, Label};
use crate::wire::{Header, Priority};
use weftline_core::rng::Rng;

/// Up to G packets of a flow.
#[derive(Debug)]
struct Generation {
    flow: u16,
    number: u16,
    first: Arrival,
    encoder: Encoder,
}

/// What a cohort has of a flow.
#[derive(Clone, Copy, Debug)]
struct FlowPart {
    packets: u16,
    /// Where its last generation is, and that generation's number.
    last: usize,
    number: u16,
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
}

impl Cohort {
    pub(super) fn new(label: Label) -> Self {
        let (generations, flows, order) = (Vec::new(), BTreeMap::new(), Vec::new());
        Self { label, generations, flows, order, sent: 0, taken: 0 }
    }

    /// Becomes the cohort `label`, empty; its encoders are used again.
    pub(super) fn restart(&mut self, label: Label, spare: &mut Pool<Encoder>) {
        self.label = label;
        self.generations.drain(..).for_each(|generation| spare.put(generation.encoder));
        self.flows.clear();
        self.order.clear();
        (self.sent, self.taken) = (0, 0);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Packets of the first pass that have not been sent.
    pub(super) fn unsent(&self) -> usize {
        self.order.len() - self.sent
    }

    /// Adds a packet of a flow whose `first`-th packet it is.
    pub(super) fn push(
        &mut self,
        flow: u16,
        arrival: Arrival,
        packet: &[u8],
        config: &NodeConfig,
        spare: &mut Pool<Encoder>,
    ) -> Result<(), NodeError> {
        if self.order.len() >= config.buffer_packets {
            return Err(NodeError::Full(self.order.len()));
        }
        let max = usize::from(config.limits.packet_bytes);
        if packet.len() > max {
            return Err(GenerationError::Long { bytes: packet.len(), max }.into());
        }
        let part = self.flows.get(&flow).copied();
        let index = match part {
            Some(part) if part.packets == u16::MAX => {
                return Err(NodeError::Full(self.order.len()));
            }
            Some(part) if !self.generations[part.last].encoder.is_full() => part.last,
            _ => {
                let mut encoder = spare.take(|| Encoder::new(config.limits, config.kernel));
                encoder.clear();
                let number = part.map_or(0, |part| part.number + 1);
                self.generations.push(Generation { flow, number, first: arrival, encoder });
                self.generations.len() - 1
            }
        };
        let generation = &mut self.generations[index];
        let at = generation.encoder.push(packet)?;
        let packets = part.map_or(0, |part| part.packets) + 1;
        self.flows.insert(flow, FlowPart { packets, last: index, number: generation.number });
        self.order.push((index, at));
        Ok(())
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
        if !self.generations[generation].encoder.is_full() {
            header.size = 0;
        }
        self.append_packet(header, generation, index, out);
        true
    }

    /// Appends a redundant packet to `out`, up to the limit.
    pub(super) fn send_redundant(
        &mut self,
        config: &NodeConfig,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) -> bool {
        let packets = self.order.len();
        let most = packets as u64 * u64::from(config.redundancy_percent) / 100;
        if self.taken as u64 >= most {
            return false;
        }
        let (generation, _) = self.order[self.taken % packets];
        self.taken += 1;
        self.append_combined(generation, Priority::Low, rng, out);
        true
    }

    fn header(&self, generation: usize, priority: Priority) -> Header<'static> {
        let generation = &self.generations[generation];
        Header {
            label: self.label,
            priority,
            flow: generation.flow,
            generation: generation.number,
            size: generation.encoder.size(),
            cohort_packets: self.flows[&generation.flow].packets,
            first: generation.first,
            coding: Coding::Systematic(0),
        }
    }

    fn append_packet(&self, header: Header<'_>, generation: usize, index: u8, out: &mut Vec<u8>) {
        Header { coding: Coding::Systematic(index), ..header }.encode(out);
        let encoder = &self.generations[generation].encoder;
        out.extend_from_slice(encoder.packet(index).expect("pushed before"));
    }

    fn append_combined(
        &self,
        generation: usize,
        priority: Priority,
        rng: &mut Rng,
        out: &mut Vec<u8>,
    ) {
        let encoder = &self.generations[generation].encoder;
        let seed = coefficients::draw_seed(rng, encoder.size());
        Header { coding: Coding::Seed(seed), ..self.header(generation, priority) }.encode(out);
        encoder.append_seeded(seed, out);
    }
}
