//! The device: decodes cohorts and hands their packets out in the order in which they came to the
//! gateway (COTAG Algorithm 3).
//!
//! A packet goes out as soon as it is known and everything before it went out. What is missing is
//! given up when its cohort closes: every link has shown a later label, or nothing of the cohort
//! has come for some intervals (a blocked link shows nothing).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use weftline_core::Instant;

use super::links::{Links, MAX_LAG};
use super::pool::Pool;
use super::redundancy::LossReport;
use super::release::Release;
use super::seal::Place;
use super::{Mode, NodeConfig, NodeError};
use crate::coefficients::Coding;
use crate::decoder::Decoder;
use crate::generation::Verdict;
use crate::serial::{Arrival, Label};
use crate::wire::{Header, Packet, Priority};

/// Cohorts that are open at once; with more the oldest closes.
const MAX_OPEN: usize = MAX_LAG as usize;
/// Generations of open cohorts that are remembered for each packet that may be held: those that
/// were handed out remain until their cohort closes.
const REMEMBERED: usize = 4;
/// Generations with corrupt packets that are remembered until they are asked for.
const MAX_CORRUPT: usize = 64;

/// What a device did so far, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceStats {
    /// Received and understood, markers left out.
    pub received: u64,
    /// Combinations of what was there, and copies.
    pub redundant: u64,
    /// Handed out.
    pub delivered: u64,
    /// Of those, computed from combinations.
    pub recovered: u64,
    /// Given up: packets of the gateway that are known to have been, and did not get through.
    pub lost: u64,
    /// Dropped because the buffer was full.
    pub full: u64,
    /// Of a cohort that was closed.
    pub late: u64,
    /// Dropped: wrong.
    pub refused: u64,
    /// Computed, and no packets: combinations did not belong together.
    pub corrupt: u64,
    /// Cohorts that closed because a link showed nothing.
    pub timeouts: u64,
    /// Times that it began anew: the gateway was another, or somebody lied about labels.
    pub restarts: u64,
}

/// Packets of a generation, by their numbers.
#[derive(Clone, Copy, Debug, Default)]
struct Indices([u64; 4]);

impl Indices {
    fn add(&mut self, index: u8) {
        self.0[usize::from(index / 64)] |= 1 << (index % 64);
    }

    /// How many there are that are not among others.
    fn without(self, others: Self) -> u32 {
        self.0.iter().zip(others.0).map(|(word, other)| (word & !other).count_ones()).sum()
    }
}

/// A set of a device's links, by their numbers; links from 63 on count as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkSet(u64);

impl LinkSet {
    /// The set with this link only.
    pub fn of(link: usize) -> Self {
        Self(1 << link.min(63))
    }

    /// Whether the link is in it.
    pub fn has(self, link: usize) -> bool {
        self.0 & Self::of(link).0 != 0
    }

    /// How many links are in it.
    pub fn len(self) -> u32 {
        self.0.count_ones()
    }

    /// Whether no link is in it.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    fn add(&mut self, link: usize) {
        self.0 |= Self::of(link).0;
    }
}

impl FromIterator<usize> for LinkSet {
    fn from_iter<I: IntoIterator<Item = usize>>(links: I) -> Self {
        let mut set = Self::default();
        links.into_iter().for_each(|link| set.add(link));
        set
    }
}

/// A packet that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Its place in what the gateway sends.
    pub place: Place,
    /// The links whose combinations it may have been computed from; none if it came as it is.
    pub combined: LinkSet,
}

/// A generation that is decoded.
#[derive(Debug)]
struct Generation {
    flow: u16,
    number: u16,
    first: Arrival,
    /// Gone when everything has been handed out.
    decoder: Option<Decoder>,
    size: u8,
    /// Packets of the first pass that came, at most as many as it has packets.
    first_pass: u8,
    /// The links whose combinations are in it.
    combined: LinkSet,
    /// What was computed, and what came as it is though it was known.
    computed: Indices,
    known: Indices,
}

impl Generation {
    /// A packet came that adds nothing: what it stands for was computed sooner, and is not missing.
    fn add_redundant(&mut self, coding: Coding<'_>, stats: &mut DeviceStats) {
        stats.redundant += 1;
        if let Coding::Systematic(index) = coding {
            self.known.add(index);
        }
    }

    /// Packets that were computed, and of which what was sent first has not come: themselves, or, where all
    /// are combinations, so many of these.
    fn unseen(&self, mode: Mode) -> u32 {
        match mode {
            Mode::Systematic => self.computed.without(self.known),
            Mode::Dense => self
                .computed
                .without(Indices::default())
                .min(self.size.saturating_sub(self.first_pass).into()),
        }
    }

    /// Notes what the decoder has computed.
    fn add_computed(&mut self) {
        let Some(decoder) = &self.decoder else { return };
        (0..decoder.size())
            .filter(|&index| decoder.is_computed(index))
            .for_each(|index| self.computed.add(index));
    }
}

/// A cohort that is not closed.
#[derive(Debug)]
struct Cohort {
    label: Label,
    generations: Vec<Generation>,
    begun: Instant,
    /// When the last of it came that said something new.
    last: Instant,
}

/// The device's state.
#[derive(Debug)]
pub struct Device {
    config: NodeConfig,
    links: Links,
    /// By label.
    open: VecDeque<Cohort>,
    /// Every label before this one is closed.
    closed: Option<Label>,
    flows: BTreeMap<u16, Release>,
    /// Packets held in decoders.
    held: usize,
    /// Generations of open cohorts.
    remembered: usize,
    ready: VecDeque<(Delivery, Vec<u8>)>,
    /// Links whose combinations gave no packets.
    corrupt: VecDeque<LinkSet>,
    decoders: Pool<Decoder>,
    buffers: Vec<Vec<u8>>,
    stats: DeviceStats,
    /// Packets of closed cohorts that were computed, and of which what was sent first never came.
    unseen: u64,
    /// What was reported so far.
    reported: LossReport,
}

impl Device {
    /// A device with so many links in.
    pub fn new(config: NodeConfig, links: usize) -> Self {
        Self {
            config,
            links: Links::new(links),
            open: VecDeque::new(),
            closed: None,
            flows: BTreeMap::new(),
            held: 0,
            remembered: 0,
            ready: VecDeque::new(),
            corrupt: VecDeque::new(),
            decoders: Pool::new(&config),
            buffers: Vec::new(),
            stats: DeviceStats::default(),
            unseen: 0,
            reported: LossReport::default(),
        }
    }

    /// Takes a packet that came on `link`. Afterwards packets may be ready.
    ///
    /// # Errors
    ///
    /// If it is wrong, late, or there is no room for it; it is dropped.
    pub fn receive(&mut self, link: usize, bytes: &[u8], now: Instant) -> Result<(), NodeError> {
        let mut taken = self.take(link, bytes, now);
        if !self.config.names_proven && self.links.is_lost(taken, now, &self.config) {
            self.stats.restarts += 1;
            self.restart();
            taken = self.take(link, bytes, now);
        }
        match taken {
            Ok(()) => {}
            Err(NodeError::Full(_)) => self.stats.full += 1,
            Err(NodeError::Late(_)) => self.stats.late += 1,
            Err(_) => self.stats.refused += 1,
        }
        self.advance(now);
        taken
    }

    fn take(&mut self, link: usize, bytes: &[u8], now: Instant) -> Result<(), NodeError> {
        let packet = Packet::decode(bytes)?;
        self.links.show(link, &packet, now, &self.config)?;
        self.check_open(packet.label())?;
        let Packet::Coded { header, payload } = packet else { return Ok(()) };
        self.stats.received += 1;
        let most = self.config.buffer_packets;
        while self.held >= most || self.remembered >= REMEMBERED * most {
            // What is decoded cannot make way for what comes. The oldest cohort, which waits for
            // what is missing, makes way for what may be the first of another; it may hold nothing.
            if header.priority == Priority::Low || self.open.len() < 2 {
                return Err(NodeError::Full(self.held));
            }
            self.close_oldest();
            self.check_open(header.label)?;
        }
        self.decode(link, &header, payload, now)
    }

    /// Begins anew, with what is there handed out: labels are others than they were.
    fn restart(&mut self) {
        while !self.open.is_empty() {
            self.close_oldest();
        }
        self.links.restart();
        self.flows.clear();
        self.closed = None;
    }

    fn check_open(&self, label: Label) -> Result<(), NodeError> {
        let closed = self.closed.is_some_and(|closed| label.is_before(closed));
        if closed { Err(NodeError::Late(label)) } else { Ok(()) }
    }

    /// Adds a packet to its generation, and hands out what that releases.
    fn decode(
        &mut self,
        link: usize,
        header: &Header<'_>,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), NodeError> {
        let cohort = self.cohort(header.label, now);
        let (cohort, generation) = (cohort, self.generation(cohort, header));
        let entry = &mut self.open[cohort].generations[generation];
        if header.priority == Priority::High && entry.first_pass < header.size {
            entry.first_pass += 1;
        }
        let Some(decoder) = &mut entry.decoder else {
            entry.add_redundant(header.coding, &mut self.stats);
            return Ok(());
        };
        let taken = decoder.receive(header.size, header.coding, payload);
        let (rank, size) = (decoder.rank(), decoder.size());
        entry.size = entry.size.max(size);
        if rank == 0 {
            // What adds nothing leaves nothing behind.
            let unused = self.open[cohort].generations.remove(generation);
            self.remembered -= 1;
            unused.decoder.into_iter().for_each(|decoder| self.decoders.put(decoder));
        }
        let taken = taken?;
        let Cohort { generations, last, .. } = &mut self.open[cohort];
        if taken == Verdict::Redundant {
            match generations.get_mut(generation).filter(|_| rank > 0) {
                Some(entry) => entry.add_redundant(header.coding, &mut self.stats),
                None => self.stats.redundant += 1,
            }
            return Ok(());
        }
        // What is there already holds nothing up, however often a link sends it.
        *last = now;
        let entry = &mut generations[generation];
        if !matches!(header.coding, Coding::Systematic(_)) {
            entry.combined.add(link);
        }
        let decoder = entry.decoder.as_mut().expect("it was there above");
        self.held += 1;
        self.links.was_of_use(link, now);
        if decoder.is_complete() {
            recover(entry, &mut self.stats, &mut self.corrupt);
        }
        let release = self.flows.entry(header.flow).or_default();
        release.check(header.label, header.first);
        if release.is_new() && header.generation == 0 && header.first == Arrival(0) {
            // A flow's very first packet.
            release.advance_to(header.first, header.label);
        }
        self.release(header.flow);
        Ok(())
    }

    /// Where the cohort of this label is, which is open from now on.
    fn cohort(&mut self, label: Label, now: Instant) -> usize {
        let at = self.open.iter().rposition(|cohort| !label.is_before(cohort.label));
        match at {
            Some(at) if self.open[at].label == label => at,
            before => {
                let at = before.map_or(0, |before| before + 1);
                let cohort = Cohort { label, generations: Vec::new(), begun: now, last: now };
                self.open.insert(at, cohort);
                at
            }
        }
    }

    /// Where the packet's generation is in its cohort.
    fn generation(&mut self, cohort: usize, header: &Header<'_>) -> usize {
        let generations = &mut self.open[cohort].generations;
        let key = (header.flow, header.generation);
        let found = generations.binary_search_by_key(&key, |g| (g.flow, g.number));
        found.unwrap_or_else(|at| {
            let NodeConfig { limits, kernel, .. } = self.config;
            let mut decoder = self.decoders.take(|| Decoder::new(limits, kernel));
            decoder.clear();
            self.remembered += 1;
            let Header { flow, generation: number, first, size, .. } = *header;
            let (decoder, combined) = (Some(decoder), LinkSet::default());
            let (computed, known) = Default::default();
            let new = Generation {
                flow,
                number,
                first,
                decoder,
                size,
                first_pass: 0,
                combined,
                computed,
                known,
            };
            generations.insert(at, new);
            at
        })
    }

    /// How much later labels come on a link than on the first one, at the least of the last second
    /// or two in which any came, for [`Gateway::set_lag`](super::Gateway::set_lag); `None` if none has
    /// come for longer than a link may lag while others brought labels, or there is no such link.
    pub fn lag(&self, link: usize) -> Option<Duration> {
        self.links.least_lag(link, &self.config)
    }

    /// Appends a packet that is due to `out`.
    pub fn poll_delivery(&mut self, out: &mut Vec<u8>) -> Option<Delivery> {
        let (delivery, packet) = self.ready.pop_front()?;
        out.extend_from_slice(&packet);
        self.buffers.push(packet);
        self.stats.delivered += 1;
        Some(delivery)
    }

    /// The links whose combinations are in a generation of which what was computed is no packet: at
    /// least one of them has sent something else than a combination of the generation's packets.
    pub fn poll_corrupt(&mut self) -> Option<LinkSet> {
        self.corrupt.pop_front()
    }

    /// Does what is due by `now`: packets may be ready then.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    /// When the oldest cohort closes though a link shows nothing.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let oldest = self.open.front()?;
        Some(self.due(oldest))
    }

    /// What it did so far.
    pub fn stats(&self) -> DeviceStats {
        self.stats
    }

    /// What it has to report to the gateway since it was asked last; `None` if nothing. What is missing is
    /// known when its cohort closes: until then a combination may only be faster than what it stands for.
    pub fn poll_report(&mut self) -> Option<LossReport> {
        let DeviceStats { delivered, lost, .. } = self.stats;
        let before = self.reported;
        let known = LossReport {
            // What waits to be handed out counts as well.
            packets: delivered + self.ready.len() as u64 + lost,
            missing: self.unseen + lost,
        };
        let packets = known.packets - before.packets;
        // What is missing is said of no more packets than there are: the rest with the next ones.
        let missing = (known.missing - before.missing).min(packets);
        self.reported.packets += packets;
        self.reported.missing += missing;
        (packets > 0).then_some(LossReport { packets, missing })
    }

    /// Packets that it holds to decode others, at most [`NodeConfig::buffer_packets`].
    pub fn held(&self) -> usize {
        self.held
    }

    /// Packets that are known and have not been handed out: what is lost with it. What only combinations
    /// have is not known.
    pub fn undelivered(&self) -> usize {
        let waiting = |generation: &Generation| {
            let past =
                self.flows.get(&generation.flow).map_or(0, |flow| flow.past(generation.first));
            let is_known = |decoder: &Decoder, index| decoder.packet(index).is_some();
            let left = past.min(u32::from(u8::MAX)) as u8..self.config.limits.packets;
            let decoder = generation.decoder.as_ref();
            decoder.map_or(0, |decoder| left.filter(|&index| is_known(decoder, index)).count())
        };
        let generations = self.open.iter().flat_map(|cohort| &cohort.generations);
        self.ready.len() + generations.map(waiting).sum::<usize>()
    }

    /// Generations of open cohorts.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.remembered
    }

    /// When a cohort closes though links have not passed it; or, if there may be earlier ones, when
    /// those do. A link that shows something is waited for while there is room.
    fn due(&self, cohort: &Cohort) -> Instant {
        let earlier = self.closed.is_none_or(|closed| closed.is_before(cohort.label));
        let to = if earlier { cohort.label } else { cohort.label.plus(1) };
        let silent = self.links.silent_at(to, cohort.begun, &self.config);
        silent.min(cohort.last + self.config.interval * MAX_LAG)
    }

    /// Closes what every link has passed, and what a link that shows nothing has held up for long.
    fn advance(&mut self, now: Instant) {
        if let Some(at) = self.links.all_at() {
            self.close_before(at);
        }
        while self.open.len() > MAX_OPEN {
            self.close_oldest();
        }
        while let Some(oldest) = self.open.front()
            && now >= self.due(oldest)
        {
            self.stats.timeouts += 1;
            if self.closed.is_none_or(|closed| closed.is_before(oldest.label)) {
                // Nothing earlier will come; this one has its time from its last packet.
                let label = oldest.label;
                self.close_before(label);
            } else {
                self.close_oldest();
            }
        }
    }

    /// Closes every label before this one.
    fn close_before(&mut self, label: Label) {
        while self.open.front().is_some_and(|oldest| oldest.label.is_before(label)) {
            self.close_oldest();
        }
        if self.closed.is_none_or(|closed| closed.is_before(label)) {
            self.closed = Some(label);
            self.skip_to_open();
        }
    }

    /// Hands out what is there of the oldest cohort and gives up the rest.
    fn close_oldest(&mut self) {
        let Some(mut cohort) = self.open.pop_front() else { return };
        self.remembered -= cohort.generations.len();
        for generation in &mut cohort.generations {
            recover(generation, &mut self.stats, &mut self.corrupt);
            self.unseen += u64::from(generation.unseen(self.config.mode));
            let Some(decoder) = generation.decoder.take() else { continue };
            let release = self.flows.entry(generation.flow).or_default();
            // Of a size that is not known, as many as have come.
            for index in 0..generation.size.max(self.config.limits.packets) {
                let arrival = generation.first.plus(u32::from(index));
                let Some(packet) = decoder.packet(index) else { continue };
                if !release.is_past(arrival) {
                    self.stats.lost += u64::from(release.advance_to(arrival, cohort.label));
                    release.advance_to(arrival.plus(1), cohort.label);
                    let combined = decoder.is_computed(index).then_some(generation.combined);
                    let combined = combined.unwrap_or_default();
                    let place = Place { flow: generation.flow, arrival, label: cohort.label };
                    let delivery = Delivery { place, combined };
                    hand_out(&mut self.ready, &mut self.buffers, delivery, packet);
                }
            }
            let end = generation.first.plus(u32::from(generation.size));
            self.stats.lost += u64::from(release.advance_to(end, cohort.label));
            self.held -= decoder.rank();
            self.decoders.put(decoder);
        }
        let next = cohort.label.plus(1);
        if self.closed.is_none_or(|closed| closed.is_before(next)) {
            self.closed = Some(next);
        }
        self.skip_to_open();
        // What waited behind this cohort's gaps.
        for flow in cohort.generations.iter().map(|generation| generation.flow) {
            self.release(flow);
        }
    }

    /// Once everything before the oldest cohort is closed, what came before its first packet of a
    /// flow is given up: it belonged to a cohort of which nothing was seen.
    fn skip_to_open(&mut self) {
        let Some(oldest) = self.open.front().filter(|c| Some(c.label) == self.closed) else {
            return;
        };
        let label = oldest.label;
        let firsts = oldest.generations.iter().filter(|g| g.number == 0);
        let firsts: Vec<_> = firsts.map(|g| (g.flow, g.first)).collect();
        for (flow, first) in firsts {
            let release = self.flows.entry(flow).or_default();
            self.stats.lost += u64::from(release.advance_to(first, label));
            self.release(flow);
        }
    }

    /// Hands out what is due of a flow.
    fn release(&mut self, flow: u16) {
        let Self { open, flows, ready, buffers, decoders, held, .. } = self;
        let release = flows.entry(flow).or_default();
        let generations = open.iter_mut().flat_map(|cohort| {
            let all = &mut cohort.generations;
            let start = all.partition_point(|generation| generation.flow < flow);
            let len = all[start..].partition_point(|generation| generation.flow == flow);
            let label = cohort.label;
            all[start..start + len].iter_mut().map(move |generation| (label, generation))
        });
        for (label, generation) in generations {
            let Some(decoder) = &mut generation.decoder else { continue };
            let size = generation.size;
            // What went out before needs no look.
            let mut index = release.past(generation.first).min(u32::from(u8::MAX)) as u8;
            while size == 0 || index < size {
                let at = generation.first.plus(u32::from(index));
                let packet = decoder.packet(index).filter(|_| release.is_due(at));
                let Some(packet) = packet else { break };
                let combined = decoder.is_computed(index).then_some(generation.combined);
                let place = Place { flow, arrival: at, label };
                let delivery = Delivery { place, combined: combined.unwrap_or_default() };
                hand_out(ready, buffers, delivery, packet);
                release.advance_to(at.plus(1), label);
                index += 1;
            }
            if size > 0 && index >= size {
                *held -= decoder.rank();
                generation.decoder.take().into_iter().for_each(|decoder| decoders.put(decoder));
            } else if size > 0 || index == 0 {
                return;
            }
            // A generation of unknown size ends where the next one begins.
        }
    }
}

/// Computes what is determined of a generation, and notes where what was computed is no packet.
fn recover(generation: &mut Generation, stats: &mut DeviceStats, corrupt: &mut VecDeque<LinkSet>) {
    let Some(decoder) = &mut generation.decoder else { return };
    let before = decoder.corrupt_packets();
    let recovered = decoder.recover() as u64;
    stats.recovered += recovered;
    let new = decoder.corrupt_packets() - before;
    stats.corrupt += new as u64;
    if new > 0 && corrupt.len() < MAX_CORRUPT {
        corrupt.push_back(generation.combined);
    }
    if recovered > 0 {
        generation.add_computed();
    }
}

fn hand_out(
    ready: &mut VecDeque<(Delivery, Vec<u8>)>,
    buffers: &mut Vec<Vec<u8>>,
    delivery: Delivery,
    packet: &[u8],
) {
    let mut copy = buffers.pop().unwrap_or_default();
    copy.clear();
    copy.extend_from_slice(packet);
    ready.push_back((delivery, copy));
}
