//! The access point: buffers cohorts by label, and sends each on from the first packet of the next
//! one until the first packet of the one after (COTAG Algorithm 2).

use std::collections::VecDeque;

use weftline_core::Instant;
use weftline_core::rng::Rng;

use super::{Links, NodeConfig, NodeError};
use crate::coefficients::Coding;
use crate::generation::Verdict;
use crate::recoder::Recoder;
use crate::serial::{Arrival, Label};
use crate::wire::{Header, Packet, Priority};

/// Cohorts that wait for a link that shows nothing; with more the oldest has its turn.
const MAX_WAITING: usize = 64;

/// What an access point did so far, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AccessPointStats {
    /// Received and understood, markers left out.
    pub received: u64,
    /// Sent on as they came, with high priority.
    pub high: u64,
    /// Sent on as they came, with low priority: they added to what had been sent.
    pub low: u64,
    /// New combinations sent.
    pub recoded: u64,
    /// Markers sent.
    pub markers: u64,
    /// Dropped because the buffer was full.
    pub full: u64,
    /// Of high priority, not sent within their cohort's time.
    pub given: u64,
    /// Combinations of what was there.
    pub redundant: u64,
    /// Dropped: late, or wrong.
    pub refused: u64,
}

/// A packet that waits for its cohort's turn.
#[derive(Debug)]
struct Stored {
    bytes: Vec<u8>,
    priority: Priority,
}

/// A cohort whose turn has not come.
#[derive(Debug)]
struct Waiting {
    label: Label,
    packets: VecDeque<Stored>,
    /// When the last of it came.
    last: Instant,
}

/// A generation of the cohort that is sent.
#[derive(Debug)]
struct Generation {
    flow: u16,
    number: u16,
    cohort_packets: u16,
    first: Arrival,
    recoder: Recoder,
}

/// The cohort that is sent.
#[derive(Debug)]
struct Active {
    label: Label,
    generations: Vec<Generation>,
    /// Generation and number of what is to be sent as it came.
    high: VecDeque<(usize, usize)>,
    low: VecDeque<(usize, usize)>,
    /// The generation that is combined next.
    turn: usize,
    received: u64,
    sent: u64,
    /// When the last of it came, or its turn.
    last: Instant,
}

/// The state of an access point with one link out.
#[derive(Debug)]
pub struct AccessPoint {
    config: NodeConfig,
    rng: Rng,
    links: Links,
    /// Cohorts whose turn has not come, by label.
    waiting: VecDeque<Waiting>,
    active: Option<Active>,
    /// Packets held, waiting or active.
    held: usize,
    /// Every label before this one is over.
    begun: Option<Label>,
    /// The label that the link out has shown last.
    shown: Option<Label>,
    recoders: Vec<Recoder>,
    buffers: Vec<Vec<u8>>,
    stats: AccessPointStats,
}

impl AccessPoint {
    /// An access point with so many links in. Combinations come from `seed`.
    pub fn new(config: NodeConfig, links: usize, seed: u64) -> Self {
        Self {
            config,
            rng: Rng::stream(seed, "cotag/access-point"),
            links: Links::new(links),
            waiting: VecDeque::new(),
            active: None,
            held: 0,
            begun: None,
            shown: None,
            recoders: Vec::new(),
            buffers: Vec::new(),
            stats: AccessPointStats::default(),
        }
    }

    /// Takes a packet that came on `link`.
    ///
    /// # Errors
    ///
    /// If it is wrong, late, or there is no room for it; it is dropped. What is wrong or late
    /// counts as refused.
    pub fn receive(&mut self, link: usize, bytes: &[u8], now: Instant) -> Result<(), NodeError> {
        let taken = self.take(link, bytes, now);
        match taken {
            Ok(()) => {}
            Err(NodeError::Full(_)) => self.stats.full += 1,
            Err(_) => self.stats.refused += 1,
        }
        self.advance(now);
        taken
    }

    fn take(&mut self, link: usize, bytes: &[u8], now: Instant) -> Result<(), NodeError> {
        let packet = Packet::decode(bytes)?;
        let label = packet.label();
        self.links.show(link, label)?;
        let Packet::Coded { header, payload } = packet else {
            // A cohort without packets has its turn as well: the next node waits for its label.
            if !self.is_over(label) && self.active_label() != Some(label) {
                self.waiting(label, now);
            }
            return Ok(());
        };
        if self.is_over(label) {
            return Err(NodeError::Late(label));
        }
        self.stats.received += 1;
        if self.held >= self.config.buffer_packets {
            self.make_room(header.priority)?;
        }
        if self.active_label() == Some(label) {
            return self.feed(&header, payload, now);
        }
        let mut copy = self.buffers.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        let waiting = self.waiting(label, now);
        waiting.packets.push_back(Stored { bytes: copy, priority: header.priority });
        self.held += 1;
        Ok(())
    }

    /// Drops the latest packet of low priority for one of high priority.
    fn make_room(&mut self, arriving: Priority) -> Result<(), NodeError> {
        let full = Err(NodeError::Full(self.held));
        if arriving == Priority::Low {
            return full;
        }
        for waiting in self.waiting.iter_mut().rev() {
            let low = waiting.packets.iter().rposition(|stored| stored.priority == Priority::Low);
            if let Some(stored) = low.and_then(|low| waiting.packets.remove(low)) {
                self.buffers.push(stored.bytes);
                self.held -= 1;
                self.stats.full += 1;
                return Ok(());
            }
        }
        full
    }

    /// The cohort of this label among those that wait.
    fn waiting(&mut self, label: Label, now: Instant) -> &mut Waiting {
        let at = self.waiting.iter().rposition(|waiting| !label.is_before(waiting.label));
        let at = match at {
            Some(at) if self.waiting[at].label == label => at,
            before => {
                let at = before.map_or(0, |before| before + 1);
                self.waiting.insert(at, Waiting { label, packets: VecDeque::new(), last: now });
                at
            }
        };
        let waiting = &mut self.waiting[at];
        waiting.last = now;
        waiting
    }

    fn active_label(&self) -> Option<Label> {
        self.active.as_ref().map(|active| active.label)
    }

    fn is_over(&self, label: Label) -> bool {
        self.begun.is_some_and(|begun| label.is_before(begun))
    }

    /// Appends what goes out next to `out`; `None` if nothing does until something comes or is due.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Priority> {
        self.advance(now);
        let label = self.active_label()?;
        let priority = self.send_high(out).or_else(|| self.send_low(out));
        let priority = priority.or_else(|| self.send_recoded(out)).or_else(|| {
            (self.shown != Some(label)).then(|| {
                Packet::Marker(label).encode(out);
                self.stats.markers += 1;
                Priority::High
            })
        })?;
        self.shown = Some(label);
        Some(priority)
    }

    fn send_high(&mut self, out: &mut Vec<u8>) -> Option<Priority> {
        let active = self.active.as_mut()?;
        let (generation, number) = active.high.pop_front()?;
        active.send(generation, number, Priority::High, out);
        self.stats.high += 1;
        Some(Priority::High)
    }

    /// What came with low priority, if it adds rank to what was sent.
    fn send_low(&mut self, out: &mut Vec<u8>) -> Option<Priority> {
        let active = self.active.as_mut()?;
        while let Some((generation, number)) = active.low.pop_front() {
            if active.generations[generation].recoder.adds_to_sent(number) {
                active.send(generation, number, Priority::Low, out);
                self.stats.low += 1;
                return Some(Priority::Low);
            }
        }
        None
    }

    /// A new combination of a generation, in turns.
    fn send_recoded(&mut self, out: &mut Vec<u8>) -> Option<Priority> {
        let active = self.active.as_mut()?;
        if self.config.no_more_than_received && active.sent >= active.received {
            return None;
        }
        for _ in 0..active.generations.len() {
            let turn = active.turn % active.generations.len();
            active.turn = turn + 1;
            let Generation { flow, number, cohort_packets, first, recoder } =
                &mut active.generations[turn];
            let size = recoder.size();
            let Some(recoded) = recoder.recode(&mut self.rng) else { continue };
            let header = Header {
                label: active.label,
                priority: Priority::Low,
                flow: *flow,
                generation: *number,
                size,
                cohort_packets: *cohort_packets,
                first: *first,
                coding: Coding::Vector(recoded.vector()),
            };
            header.encode(out);
            recoded.append_payload(out);
            active.sent += 1;
            self.stats.recoded += 1;
            return Some(Priority::Low);
        }
        None
    }

    /// Does what is due by `now`: the link out may have something to send again.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    /// When the next cohort has its turn though nothing comes, and what is there is dropped.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let turn = self.waiting.front().map(|waiting| waiting.last + self.config.interval);
        turn.or_else(|| Some(self.active.as_ref()?.last + 2 * self.config.interval))
    }

    /// What it did so far.
    pub fn stats(&self) -> AccessPointStats {
        self.stats
    }

    /// Begins every cohort whose turn has come: all links have passed it, or nothing of it has come
    /// for an interval.
    fn advance(&mut self, now: Instant) {
        while let Some(front) = self.waiting.front() {
            let passed = self.links.all_at().is_some_and(|at| front.label.is_before(at));
            let many = self.waiting.len() > MAX_WAITING;
            if !passed && !many && now < front.last + self.config.interval {
                break;
            }
            let next = self.waiting.pop_front().expect("seen above");
            self.begin(next, now);
        }
        let over = |active: &Active| now >= active.last + 2 * self.config.interval;
        if self.active.as_ref().is_some_and(over) {
            self.end();
        }
    }

    fn begin(&mut self, next: Waiting, now: Instant) {
        self.end();
        self.begun = Some(next.label);
        self.active = Some(Active {
            label: next.label,
            generations: Vec::new(),
            high: VecDeque::new(),
            low: VecDeque::new(),
            turn: 0,
            received: 0,
            sent: 0,
            last: now,
        });
        self.held -= next.packets.len();
        for stored in next.packets {
            let Ok(Packet::Coded { header, payload }) = Packet::decode(&stored.bytes) else {
                unreachable!("decoded when it came");
            };
            if self.feed(&header, payload, now).is_err() {
                self.stats.refused += 1;
            }
            self.buffers.push(stored.bytes);
        }
    }

    /// Drops what is left of the active cohort.
    fn end(&mut self) {
        let Some(active) = self.active.take() else { return };
        self.stats.given += active.high.len() as u64;
        for generation in active.generations {
            self.held -= generation.recoder.rank();
            self.recoders.push(generation.recoder);
        }
        // A marker may have gone unsent; whoever waits for the label sees the next one.
        self.begun = Some(active.label.plus(1));
    }

    /// Adds a packet to the active cohort.
    fn feed(&mut self, header: &Header<'_>, payload: &[u8], now: Instant) -> Result<(), NodeError> {
        let Self { active, recoders, config, .. } = self;
        let active = active.as_mut().expect("there is one when it is fed");
        let same = |g: &Generation| (g.flow, g.number) == (header.flow, header.generation);
        let index = match active.generations.iter().rposition(same) {
            Some(index) => index,
            None => {
                let mut recoder =
                    recoders.pop().unwrap_or_else(|| Recoder::new(config.limits, config.kernel));
                recoder.clear();
                active.generations.push(Generation {
                    flow: header.flow,
                    number: header.generation,
                    cohort_packets: header.cohort_packets,
                    first: header.first,
                    recoder,
                });
                active.generations.len() - 1
            }
        };
        let recoder = &mut active.generations[index].recoder;
        let verdict = match recoder.receive(header.size, header.coding, payload) {
            Ok(verdict) => verdict,
            Err(error) => {
                if recoder.rank() == 0 {
                    recoders.extend(active.generations.pop().map(|generation| generation.recoder));
                }
                return Err(error.into());
            }
        };
        active.received += 1;
        active.last = now;
        if verdict == Verdict::Redundant {
            self.stats.redundant += 1;
            return Ok(());
        }
        let place = (index, recoder.rank() - 1);
        match header.priority {
            Priority::High => active.high.push_back(place),
            Priority::Low => active.low.push_back(place),
        }
        self.held += 1;
        Ok(())
    }
}

impl Active {
    /// Sends a packet as it came.
    fn send(&mut self, generation: usize, number: usize, priority: Priority, out: &mut Vec<u8>) {
        let generation = &mut self.generations[generation];
        generation.recoder.mark_sent(number);
        let (coding, payload) = generation.recoder.packet(number).expect("kept when it came");
        let header = Header {
            label: self.label,
            priority,
            flow: generation.flow,
            generation: generation.number,
            size: generation.recoder.size(),
            cohort_packets: generation.cohort_packets,
            first: generation.first,
            coding,
        };
        Packet::Coded { header, payload }.encode(out);
        self.sent += 1;
    }
}
