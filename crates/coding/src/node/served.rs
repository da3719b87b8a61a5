//! A cohort that an access point sends: its generations, what of them goes out as it came, and what
//! is combined anew.

use std::collections::VecDeque;

use weftline_core::Instant;
use weftline_core::rng::Rng;

use super::NodeConfig;
use super::pool::Pool;
use crate::coefficients::Coding;
use crate::generation::{GenerationError, Verdict};
use crate::recoder::Recoder;
use crate::serial::{Arrival, Label};
use crate::wire::{Header, Name, Packet, Priority, Tag};

/// Up to G packets of a flow.
#[derive(Debug)]
struct Generation {
    flow: u16,
    number: u16,
    cohort_packets: u16,
    first: Arrival,
    /// The gateway's tags over its names: while its size is not known, and with it.
    tags: [Tag; 2],
    recoder: Recoder,
    /// Combinations that came and added nothing to what was here.
    owed: u8,
}

impl Generation {
    /// The tag for what goes out with this size in its header.
    fn tag(&self, size: u8) -> Tag {
        self.tags[usize::from(size > 0)]
    }
}

/// A packet that is kept: its generation, and its number there.
#[derive(Clone, Copy, Debug)]
struct Place {
    generation: usize,
    number: usize,
}

/// A cohort that is sent.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) label: Label,
    /// Of a packet with this label.
    pub(super) name: Name,
    /// When the last of it came, or its turn.
    pub(super) last: Instant,
    /// Whether new combinations are made unasked: what is to come of it has come.
    pub(super) taking: bool,
    generations: Vec<Generation>,
    /// Flow and number of each generation, in order, and where it is.
    index: Vec<((u16, u16), usize)>,
    /// What is to be sent as it came, in the order in which it did.
    high: VecDeque<Place>,
    /// Bytes of these, without headers.
    high_bytes: u64,
    low: VecDeque<Place>,
    /// What had low priority and its turn; it is kept for combinations.
    low_done: Vec<Place>,
    /// The generation that is combined next.
    turn: usize,
    received: u64,
    sent: u64,
}

impl Served {
    pub(super) fn new(name: Name, now: Instant) -> Self {
        Self {
            label: name.label,
            name,
            last: now,
            taking: false,
            generations: Vec::new(),
            index: Vec::new(),
            high: VecDeque::new(),
            high_bytes: 0,
            low: VecDeque::new(),
            low_done: Vec::new(),
            turn: 0,
            received: 0,
            sent: 0,
        }
    }

    /// Adds a packet; what it does for its generation. Memory is that of `spare`, if there is.
    pub(super) fn take(
        &mut self,
        header: &Header<'_>,
        payload: &[u8],
        config: &NodeConfig,
        spare: &mut Pool<Recoder>,
    ) -> Result<Verdict, GenerationError> {
        let (generation, found) = self.generation(header, config, spare);
        let entry = &mut self.generations[generation];
        let taken = entry.recoder.receive(header.size, header.coding, payload);
        if !found && taken != Ok(Verdict::Innovative) {
            // What adds nothing leaves nothing behind.
            self.forget_last(spare);
        } else {
            entry.cohort_packets = entry.cohort_packets.max(header.cohort_packets);
            if taken.is_ok() {
                entry.tags[usize::from(header.size > 0)] = header.tag;
            }
        }
        let verdict = taken?;
        self.received += 1;
        if found && verdict == Verdict::Redundant && header.priority == Priority::Low {
            let entry = &mut self.generations[generation];
            entry.owed = entry.owed.saturating_add(1);
        }
        if verdict == Verdict::Innovative {
            let number = self.generations[generation].recoder.rank() - 1;
            match header.priority {
                Priority::High => {
                    self.high.push_back(Place { generation, number });
                    self.high_bytes += payload.len() as u64;
                }
                Priority::Low => self.low.push_back(Place { generation, number }),
            }
        }
        Ok(verdict)
    }

    /// Where the packet's generation is, and whether it was there before.
    fn generation(
        &mut self,
        header: &Header<'_>,
        config: &NodeConfig,
        spare: &mut Pool<Recoder>,
    ) -> (usize, bool) {
        let key = (header.flow, header.generation);
        match self.index.binary_search_by_key(&key, |&(key, _)| key) {
            Ok(at) => (self.index[at].1, true),
            Err(at) => {
                let mut recoder = spare.take(|| Recoder::new(config.limits, config.kernel));
                recoder.clear();
                let Header { flow, generation: number, cohort_packets, first, .. } = *header;
                let last = self.generations.len();
                let tags = [Tag::default(); 2];
                let owed = 0;
                let new = Generation { flow, number, cohort_packets, first, tags, recoder, owed };
                self.generations.push(new);
                self.index.insert(at, (key, last));
                (last, false)
            }
        }
    }

    fn forget_last(&mut self, spare: &mut Pool<Recoder>) {
        if let Some(last) = self.generations.pop() {
            self.index.retain(|&(_, generation)| generation != self.generations.len());
            spare.put(last.recoder);
        }
    }

    /// Appends what came first with high priority to `out`. Here and below, `shows` is whether the
    /// packet may show its label, and the result n_k in its header, 0 if it does not.
    pub(super) fn send_high(&mut self, shows: bool, out: &mut Vec<u8>) -> Option<u16> {
        let place = self.high.pop_front()?;
        Some(self.send(place, Priority::High, shows, out))
    }

    /// Appends what came first with low priority to `out`, if it adds rank to what was sent.
    pub(super) fn send_low(&mut self, shows: bool, out: &mut Vec<u8>) -> Option<u16> {
        while let Some(place) = self.low.pop_front() {
            self.low_done.push(place);
            if self.generations[place.generation].recoder.adds_to_sent(place.number) {
                return Some(self.send(place, Priority::Low, shows, out));
            }
        }
        None
    }

    /// Sends a packet as it came.
    fn send(&mut self, place: Place, priority: Priority, shows: bool, out: &mut Vec<u8>) -> u16 {
        let generation = &mut self.generations[place.generation];
        generation.recoder.mark_sent(place.number);
        let tag = generation.tag(generation.recoder.size());
        let (coding, payload) = generation.recoder.packet(place.number).expect("kept as it came");
        if priority == Priority::High {
            self.high_bytes -= payload.len() as u64;
        }
        let cohort_packets = if shows { generation.cohort_packets } else { 0 };
        let header = Header {
            label: self.label,
            priority,
            flow: generation.flow,
            generation: generation.number,
            size: generation.recoder.size(),
            cohort_packets,
            first: generation.first,
            tag,
            coding,
        };
        Packet::Coded { header, payload }.encode(out);
        self.sent += 1;
        cohort_packets
    }

    /// Appends a new combination to `out` for one that came and added nothing to what is here: what went
    /// out may be lost on the way.
    pub(super) fn send_owed(
        &mut self,
        rng: &mut Rng,
        shows: bool,
        out: &mut Vec<u8>,
    ) -> Option<u16> {
        (0..self.generations.len()).find_map(|generation| {
            let owed = &mut self.generations[generation].owed;
            *owed = owed.checked_sub(1)?;
            self.recode(generation, rng, shows, out)
        })
    }

    /// Appends a new combination of a generation, in turns, to `out`.
    pub(super) fn send_recoded(
        &mut self,
        limited: bool,
        rng: &mut Rng,
        shows: bool,
        out: &mut Vec<u8>,
    ) -> Option<u16> {
        if !self.taking || (limited && self.sent >= self.received) {
            return None;
        }
        (0..self.generations.len()).find_map(|_| {
            let turn = self.turn % self.generations.len();
            self.turn = turn + 1;
            self.recode(turn, rng, shows, out)
        })
    }

    fn recode(
        &mut self,
        generation: usize,
        rng: &mut Rng,
        shows: bool,
        out: &mut Vec<u8>,
    ) -> Option<u16> {
        let size = self.generations[generation].recoder.size();
        let tag = self.generations[generation].tag(size);
        let Generation { flow, number, cohort_packets, first, recoder, .. } =
            &mut self.generations[generation];
        let cohort_packets = if shows { *cohort_packets } else { 0 };
        let recoded = recoder.recode(rng)?;
        let header = Header {
            label: self.label,
            priority: Priority::Low,
            flow: *flow,
            generation: *number,
            size,
            cohort_packets,
            first: *first,
            tag,
            coding: Coding::Vector(recoded.vector()),
        };
        header.encode(out);
        recoded.append_payload(out);
        self.sent += 1;
        Some(cohort_packets)
    }

    /// Gives the latest packet of low priority away, if there is one: its room is needed.
    pub(super) fn give_low(&mut self) -> bool {
        let Some(given) = self.low.pop_back().or_else(|| self.low_done.pop()) else { return false };
        self.generations[given.generation].recoder.remove(given.number);
        for place in self.high.iter_mut().chain(&mut self.low).chain(&mut self.low_done) {
            if place.generation == given.generation && place.number > given.number {
                place.number -= 1;
            }
        }
        true
    }

    /// Generations there are.
    #[cfg(test)]
    pub(super) fn generations(&self) -> usize {
        self.generations.len()
    }

    /// Packets of high priority that were not sent.
    pub(super) fn unsent(&self) -> usize {
        self.high.len()
    }

    /// Packets of low priority that have not been sent.
    pub(super) fn unsent_low(&self) -> usize {
        self.low.len()
    }

    /// Bytes of those of high priority, without headers.
    pub(super) fn unsent_bytes(&self) -> u64 {
        self.high_bytes
    }

    /// Packets that are kept.
    pub(super) fn rank(&self) -> usize {
        self.generations.iter().map(|generation| generation.recoder.rank()).sum()
    }

    /// Ends it; packets that were kept. Its memory goes to `spare`.
    pub(super) fn end(self, spare: &mut Pool<Recoder>) -> usize {
        let ranks = self.rank();
        self.generations.into_iter().for_each(|generation| spare.put(generation.recoder));
        ranks
    }
}
