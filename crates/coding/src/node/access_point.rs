//! The access point: buffers cohorts by label, and sends each on from the first packet of the next
//! one until the first packet of the one after (COTAG Algorithm 2).
//!
//! With cut-through a cohort's packets go on as they come, what has high priority before what has
//! low, older cohorts first. New combinations are made as without, from the next cohort's first
//! packet on, and at the one after the cohort ends; or as soon as nothing is left to send of it. One that
//! came and added nothing to what is here is replaced by a new one at once: what went out may be lost.

use std::collections::VecDeque;

use weftline_core::Instant;
use weftline_core::rng::Rng;

use super::links::Links;
use super::pool::Pool;
use super::served::Served;
use super::{NodeConfig, NodeError};
use crate::generation::Verdict;
use crate::recoder::Recoder;
use crate::serial::Label;
use crate::wire::{Header, Name, Packet, Priority};

/// Cohorts that wait, for a link that shows nothing or for the link out; with more the oldest has
/// its turn, or its end.
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
    /// Of low priority, the same.
    pub low_given: u64,
    /// Combinations of what was there.
    pub redundant: u64,
    /// Dropped: late, or wrong.
    pub refused: u64,
    /// Times that it began anew: the gateway was another, or somebody lied about labels.
    pub restarts: u64,
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
    /// Of a packet with its label.
    name: Name,
    packets: VecDeque<Stored>,
    /// When the last of it came.
    last: Instant,
}

impl Waiting {
    /// Its packets of high priority.
    fn high(&self) -> usize {
        self.packets.iter().filter(|stored| stored.priority == Priority::High).count()
    }

    /// Its packets of low priority.
    fn low(&self) -> usize {
        self.packets.len() - self.high()
    }
}

/// The state of an access point with one link out.
#[derive(Debug)]
pub struct AccessPoint {
    config: NodeConfig,
    rng: Rng,
    links: Links,
    /// Cohorts whose turn has not come, by label.
    waiting: VecDeque<Waiting>,
    /// Cohorts that are sent, by label: without cut-through one at most.
    served: VecDeque<Served>,
    /// Packets held, waiting or served.
    held: usize,
    /// Every label before this one's is over.
    begun: Option<Name>,
    /// The label that the link out has shown last.
    shown: Option<Label>,
    recoders: Pool<Recoder>,
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
            served: VecDeque::new(),
            held: 0,
            begun: None,
            shown: None,
            recoders: Pool::new(&config),
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
        let mut taken = self.take(link, bytes, now);
        if self.links.is_lost(taken, now, &self.config) {
            self.stats.restarts += 1;
            self.restart();
            taken = self.take(link, bytes, now);
        }
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
        self.links.show(link, &packet, now, &self.config)?;
        if self.is_over(label) {
            return Err(NodeError::Late(label));
        }
        let is_served = |served: &Served| served.label == label;
        let Packet::Coded { header, payload } = packet else {
            // A cohort without packets has its turn as well: the next node waits for its label.
            if !self.config.cut_through && !self.served.iter().any(is_served) {
                self.waiting(packet.name(), now);
            }
            return Ok(());
        };
        self.stats.received += 1;
        if self.held >= self.config.buffer_packets {
            self.make_room(header.priority)?;
        }
        let serving = self.served.iter().rposition(is_served);
        if serving.is_some() || self.config.cut_through {
            let serving = serving.unwrap_or_else(|| self.serve(header.name(), now));
            return self.feed(serving, &header, payload, now);
        }
        let mut copy = self.buffers.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(bytes);
        let waiting = self.waiting(header.name(), now);
        waiting.packets.push_back(Stored { bytes: copy, priority: header.priority });
        self.held += 1;
        Ok(())
    }

    /// Begins anew: labels are others than they were.
    fn restart(&mut self) {
        while !self.served.is_empty() {
            self.end();
        }
        self.stats.given += self.waiting.iter().map(Waiting::high).sum::<usize>() as u64;
        self.stats.low_given += self.waiting.iter().map(Waiting::low).sum::<usize>() as u64;
        self.waiting.clear();
        self.links.restart();
        (self.held, self.begun, self.shown) = (0, None, None);
    }

    /// Drops the latest packet of low priority for one of high priority. With cut-through what has gone
    /// out and is kept for combinations makes way as well, the oldest cohort first.
    fn make_room(&mut self, arriving: Priority) -> Result<(), NodeError> {
        let full = Err(NodeError::Full(self.held));
        if arriving == Priority::Low {
            return full;
        }
        let waiting = self.waiting.iter_mut().rev().find_map(|waiting| {
            let low = waiting.packets.iter().rposition(|stored| stored.priority == Priority::Low);
            waiting.packets.remove(low?)
        });
        if let Some(stored) = waiting {
            self.buffers.push(stored.bytes);
        } else if !self.served.iter_mut().rev().any(Served::give_low) {
            return if self.forget_sent() { Ok(()) } else { full };
        }
        self.held -= 1;
        self.stats.full += 1;
        Ok(())
    }

    /// With cut-through: ends the oldest cohort of which everything has gone out; whether there is one.
    fn forget_sent(&mut self) -> bool {
        let sent = |served: &Served| served.unsent() == 0 && served.rank() > 0;
        let at = self.served.iter().position(sent).filter(|_| self.config.cut_through);
        let Some(ended) = at.and_then(|at| self.served.remove(at)) else { return false };
        self.stats.low_given += ended.unsent_low() as u64;
        self.held -= ended.end(&mut self.recoders);
        true
    }

    /// The cohort of this name's label among those that wait.
    fn waiting(&mut self, name: Name, now: Instant) -> &mut Waiting {
        let label = name.label;
        let at = self.waiting.iter().rposition(|waiting| !label.is_before(waiting.name.label));
        let at = match at {
            Some(at) if self.waiting[at].name.label == label => at,
            before => {
                let at = before.map_or(0, |before| before + 1);
                self.waiting.insert(at, Waiting { name, packets: VecDeque::new(), last: now });
                at
            }
        };
        let waiting = &mut self.waiting[at];
        waiting.last = now;
        waiting
    }

    /// Where the cohort of this name's label is, which is sent from now on.
    fn serve(&mut self, name: Name, now: Instant) -> usize {
        let at = self.served.iter().rposition(|served| served.label.is_before(name.label));
        let at = at.map_or(0, |before| before + 1);
        self.served.insert(at, Served::new(name, now));
        at
    }

    /// Whether nothing of this label is sent any more. With cut-through what was done early goes on
    /// nevertheless until the end of its time: the network may have changed the order.
    fn is_over(&self, label: Label) -> bool {
        if self.config.cut_through {
            return self.links.all_at().is_some_and(|at| label.plus(1).is_before(at));
        }
        self.begun.is_some_and(|begun| label.is_before(begun.label))
    }

    /// Appends what goes out next to `out`; `None` if nothing does until something comes or is due.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> Option<Priority> {
        self.advance(now);
        if self.config.cut_through && self.mark(out) {
            // What comes early shows no label. Nodes must not wait for it until there is a gap.
            return Some(Priority::High);
        }
        self.send(out).or_else(|| {
            self.end_done();
            self.mark(out).then_some(Priority::High)
        })
    }

    /// Appends what is kept, in the order of its worth.
    fn send(&mut self, out: &mut Vec<u8>) -> Option<Priority> {
        let begun = self.begun.map(|begun| begun.label);
        let shows = |served: &Served| begun == Some(served.label);
        for served in &mut self.served {
            if let Some(cohort_packets) = served.send_high(shows(served), out) {
                self.stats.high += 1;
                return self.sent(Priority::High, cohort_packets);
            }
        }
        for served in &mut self.served {
            if let Some(cohort_packets) = served.send_low(shows(served), out) {
                self.stats.low += 1;
                return self.sent(Priority::Low, cohort_packets);
            }
        }
        if !self.config.recoding {
            return None;
        }
        for served in &mut self.served {
            let shows = shows(served);
            if let Some(cohort_packets) = served.send_owed(&mut self.rng, shows, out) {
                self.stats.recoded += 1;
                return self.sent(Priority::Low, cohort_packets);
            }
        }
        let limited = self.config.no_more_than_received;
        for served in &mut self.served {
            let shows = shows(served);
            if let Some(cohort_packets) = served.send_recoded(limited, &mut self.rng, shows, out) {
                self.stats.recoded += 1;
                return self.sent(Priority::Low, cohort_packets);
            }
        }
        None
    }

    /// Notes what a packet has shown.
    fn sent(&mut self, priority: Priority, cohort_packets: u16) -> Option<Priority> {
        if cohort_packets > 0 {
            self.shown = self.begun.map(|begun| begun.label);
        }
        Some(priority)
    }

    /// Appends a marker if the link has not shown where this node is.
    fn mark(&mut self, out: &mut Vec<u8>) -> bool {
        let begun = self.begun.filter(|begun| self.shown != Some(begun.label));
        let Some(begun) = begun else { return false };
        Packet::Marker(begun).encode(out);
        self.shown = Some(begun.label);
        self.stats.markers += 1;
        true
    }

    /// Does what is due by `now`: the link out may have something to send again.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now);
    }

    /// When a cohort has its turn, or its end, though nothing comes.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let interval = self.config.interval;
        let turn = self.waiting.front().map(|waiting| waiting.last + interval);
        let takings = self.served.iter().filter(|served| !served.taking);
        let end = self.served.front().map(|served| served.last + 2 * interval);
        let (turn, end) = if self.keeps_oldest() { (None, None) } else { (turn, end) };
        takings.map(|served| served.last + interval).chain(turn).chain(end).min()
    }

    /// Whether it drops from now on what it could not send in its cohort's time
    /// ([`NodeConfig::giving`]).
    pub fn set_giving(&mut self, giving: bool) {
        self.config.giving = giving;
    }

    /// What it did so far.
    pub fn stats(&self) -> AccessPointStats {
        self.stats
    }

    /// Packets that it holds, at most [`NodeConfig::buffer_packets`].
    pub fn held(&self) -> usize {
        self.held
    }

    /// Packets of high priority that were taken and have not been sent: what is lost with it.
    pub fn unsent(&self) -> usize {
        let served = self.served.iter().map(Served::unsent).sum::<usize>();
        served + self.waiting.iter().map(Waiting::high).sum::<usize>()
    }

    /// Packets of high priority that wait for the link out and might not be in its time: without
    /// cut-through none, where cohorts wait for their turn and are given away at its end.
    pub fn backlog(&self) -> usize {
        match self.config.cut_through {
            true => self.served.iter().map(Served::unsent).sum(),
            false => 0,
        }
    }

    /// The bytes of the packets of [`Self::backlog`], without headers.
    pub fn backlog_bytes(&self) -> u64 {
        match self.config.cut_through {
            true => self.served.iter().map(Served::unsent_bytes).sum(),
            false => 0,
        }
    }

    /// Generations of cohorts that are sent.
    #[cfg(test)]
    pub(super) fn generations(&self) -> usize {
        self.served.iter().map(Served::generations).sum()
    }

    /// Whether the oldest cohort goes on after its time, since what it has is not given away.
    fn keeps_oldest(&self) -> bool {
        !self.config.giving && self.served.front().is_some_and(|oldest| oldest.unsent() > 0)
    }

    /// Begins and ends cohorts whose time it is: all links have passed it, or nothing of it has come
    /// for an interval, or two.
    fn advance(&mut self, now: Instant) {
        let interval = self.config.interval;
        let at = self.links.all_at();
        let passed = |label: Label| at.is_some_and(|at| label.is_before(at));
        while let Some(next) = self.waiting.front()
            && (self.waiting.len() > MAX_WAITING
                || !self.keeps_oldest() && (passed(next.name.label) || now >= next.last + interval))
        {
            let next = self.waiting.pop_front().expect("seen above");
            self.begin(next, now);
        }
        let cut_through = self.config.cut_through;
        while let Some(oldest) = self.served.front()
            && (self.served.len() > MAX_WAITING
                || !self.keeps_oldest()
                    && (now >= oldest.last + 2 * interval
                        || (cut_through && passed(oldest.label.plus(1)))))
        {
            self.end();
        }
        for served in &mut self.served {
            served.taking |= passed(served.label) || now >= served.last + interval;
        }
        if self.config.cut_through {
            self.pass();
        }
    }

    /// Begins a cohort that has waited, and ends the one before.
    fn begin(&mut self, next: Waiting, now: Instant) {
        self.end();
        self.begun = Some(next.name);
        self.served.push_back(Served::new(next.name, now));
        self.held -= next.packets.len();
        for stored in next.packets {
            let Ok(Packet::Coded { header, payload }) = Packet::decode(&stored.bytes) else {
                unreachable!("decoded when it came");
            };
            if self.feed(0, &header, payload, now).is_err() {
                self.stats.refused += 1;
            }
            self.buffers.push(stored.bytes);
        }
    }

    /// Drops what is left of the oldest cohort. More of it may come if it ends only because nothing
    /// has come for long.
    fn end(&mut self) {
        let Some(oldest) = self.served.pop_front() else { return };
        self.stats.given += oldest.unsent() as u64;
        self.stats.low_given += oldest.unsent_low() as u64;
        self.held -= oldest.end(&mut self.recoders);
    }

    /// With cut-through: ends cohorts of which nothing is left to send, and nothing will come.
    fn end_done(&mut self) {
        if !self.config.cut_through {
            return;
        }
        while let Some(at) = self.links.all_at()
            && !self.keeps_oldest()
            && self.served.front().is_some_and(|oldest| oldest.label.is_before(at))
        {
            self.end();
        }
        self.pass();
    }

    /// With cut-through: goes to the oldest label of which something may still be sent.
    fn pass(&mut self) {
        let Some(at) = self.links.all_at_name() else { return };
        let oldest = self.served.front().map(|served| served.name);
        let to = oldest.filter(|oldest| oldest.label.is_before(at.label)).unwrap_or(at);
        if self.begun.is_none_or(|begun| begun.label.is_before(to.label)) {
            self.begun = Some(to);
        }
    }

    /// Adds a packet to a cohort that is sent.
    fn feed(
        &mut self,
        serving: usize,
        header: &Header<'_>,
        payload: &[u8],
        now: Instant,
    ) -> Result<(), NodeError> {
        let served = &mut self.served[serving];
        let verdict = served.take(header, payload, &self.config, &mut self.recoders)?;
        served.last = now;
        match verdict {
            Verdict::Innovative => self.held += 1,
            Verdict::Redundant => self.stats.redundant += 1,
        }
        Ok(())
    }
}
