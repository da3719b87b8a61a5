//! The gateway: cohorts by time of arrival, each sent in the interval after it over whichever link
//! has room (COTAG Algorithm 1).
//!
//! With cut-through packets go out as they are within the interval in which they come, and only
//! what had no room then, and what is redundant, in the one after.
//!
//! With a queue (not the paper's) packets wait there until links have room for them: with
//! cut-through one is admitted to the cohort that forms when a link asks, and goes on that link;
//! otherwise an interval begins with as many as the links' rates carry within it. So a cohort has
//! what can be sent within T, and giving is left to what changes within that time.

use std::collections::BTreeMap;
use std::time::Duration;

use weftline_core::fq_codel::FqCodel;
use weftline_core::rng::Rng;
use weftline_core::time::nanos;
use weftline_core::{Bitrate, Instant};

use super::cohort::{Coder, Cohort};
use super::gone::Gone;
use super::lags::{self, Way};
use super::links::MAX_LAG;
use super::pace::Pacer;
use super::pool::Pool;
use super::redundancy::{LossReport, Losses, Redundancy};
use super::seal::{Bare, Place, Seal};
use super::{NodeConfig, NodeError};
use crate::generation::GenerationError;
use crate::serial::{Arrival, Label};
use crate::wire::{Name, Packet, Priority};

/// Intervals after a cohort in which links show their label even with nothing to send: an access
/// point sends a cohort when it sees the next label, and ends when it sees the one after.
const MARKED: u32 = 2;

/// Intervals without anything to send after which links are shown the label nevertheless, when they
/// ask: half of the circle of labels must not pass between two that a device sees.
const REMINDED: u32 = 1 << 24;

/// Without cut-through an interval is filled to that part of what links carried of late: what does
/// not fit then is given away.
const FILLED: (u128, u128) = (19, 20);

/// Losses are not forgotten again before so long: twice what is forgotten at most, so that a link that comes
/// and goes hides none.
const FORGETS_AGAIN: Duration = Duration::from_secs(4);
/// Of what goes over all links a gone one has had more than this part if losses are forgotten with it: of one
/// that had less, and of one that was never there, there is nothing to forget.
const FORGETS_FROM: f64 = 0.05;

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
    /// Dropped in the queue because they had waited for too long (CoDel).
    pub delayed: u64,
    /// Marked in the queue instead of dropped: their ends understand ECN.
    pub marked: u64,
    /// Dropped because the queue was full.
    pub overflowed: u64,
    /// Dropped because they could not be sealed.
    pub unsealed: u64,
}

/// The gateway's state.
#[derive(Debug)]
pub struct Gateway {
    config: NodeConfig,
    rng: Rng,
    epoch: Instant,
    /// The time of the last call.
    now: Instant,
    /// The arrival number of each flow's next packet.
    flows: BTreeMap<u16, Arrival>,
    /// Sent now; its label counts the intervals that are over.
    sending: Cohort,
    /// Packets that come now.
    forming: Cohort,
    spare: Pool<Coder>,
    /// What waits to be taken into a cohort.
    queue: Option<FqCodel>,
    /// What holds packets back on each link, where its rate is known.
    paces: Vec<Option<Pacer>>,
    /// How much later what goes over each link comes than over the first, and its rate.
    ways: Vec<Way>,
    /// What was sent over them, and which are gone.
    gone: Gone,
    /// What the device has reported.
    losses: Losses,
    /// A link that is gone, and until when reports are of what went to it.
    unheard: Option<(usize, Instant)>,
    /// When losses were forgotten last.
    forgotten: Option<Instant>,
    /// The label that each link has shown last.
    shown: Vec<Option<Label>>,
    /// The last cohort that was not empty.
    last: Option<Label>,
    /// A packet as it is coded.
    sealed: Vec<u8>,
    stats: GatewayStats,
}

/// A gateway that codes what packets become when they are sealed.
pub struct Sealing<'a> {
    gateway: &'a mut Gateway,
    seal: &'a mut dyn Seal,
}

impl Sealing<'_> {
    /// As [`Gateway::receive`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn receive(&mut self, flow: u16, packet: &[u8], now: Instant) -> Result<(), NodeError> {
        let bytes = packet.len() as u32;
        self.gateway.receive_sealing(flow, packet, bytes, now, self.seal)
    }

    /// As [`Gateway::poll_transmit`].
    ///
    /// # Panics
    ///
    /// As there.
    pub fn poll_transmit(
        &mut self,
        link: usize,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<Priority> {
        self.gateway.transmit_sealing(link, now, self.seal, out)
    }

    /// As [`Gateway::handle_timeout`].
    pub fn handle_timeout(&mut self, now: Instant) {
        self.gateway.advance(now, self.seal);
    }
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
            now,
            flows: BTreeMap::new(),
            sending: Cohort::new(Label(0)),
            forming: Cohort::new(Label(1)),
            spare: Pool::new(&config),
            queue: config.queue.map(FqCodel::new),
            paces: vec![None; links],
            ways: vec![Way { lag: None, rate: None }; links],
            gone: Gone::new(links, now),
            losses: Losses::default(),
            unheard: None,
            forgotten: None,
            shown: vec![None; links],
            last: None,
            sealed: Vec::new(),
            stats: GatewayStats::default(),
        }
    }

    /// The same gateway for a call, whose packets are sealed with `seal` when they are taken into a
    /// cohort. What it makes of a packet must not be longer than the limit either.
    pub fn sealing<'a>(&'a mut self, seal: &'a mut dyn Seal) -> Sealing<'a> {
        Sealing { gateway: self, seal }
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
        self.receive_as(flow, packet, packet.len() as u32, now)
    }

    /// As [`Self::receive`], a packet that stands for one of `bytes`, which count in the queue and on
    /// the links.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn receive_as(
        &mut self,
        flow: u16,
        packet: &[u8],
        bytes: u32,
        now: Instant,
    ) -> Result<(), NodeError> {
        self.receive_sealing(flow, packet, bytes, now, &mut Bare)
    }

    fn receive_sealing(
        &mut self,
        flow: u16,
        packet: &[u8],
        bytes: u32,
        now: Instant,
        seal: &mut dyn Seal,
    ) -> Result<(), NodeError> {
        self.advance(now, seal);
        let (sealed, max) =
            (packet.len() + seal.overhead(), usize::from(self.config.limits.packet_bytes));
        if sealed > max {
            self.stats.refused += 1;
            return Err(GenerationError::Long { bytes: sealed, max }.into());
        }
        if let Some(queue) = &mut self.queue {
            queue.push(flow, packet, bytes, now);
            return Ok(());
        }
        self.take_in(flow, packet, seal)
    }

    /// Takes a packet into the cohort that forms.
    fn take_in(&mut self, flow: u16, packet: &[u8], seal: &mut dyn Seal) -> Result<(), NodeError> {
        let Self { flows, forming, sealed, config, spare, stats, .. } = self;
        // Once it is sealed it has to have its place: a place is given once.
        let checked = forming.check(flow, packet.len() + seal.overhead(), config);
        if checked.is_err() {
            stats.refused += 1;
            return checked;
        }
        let arrival = flows.entry(flow).or_default();
        let place = Place { flow, arrival: *arrival, label: forming.label };
        sealed.clear();
        if !seal.seal(place, packet, sealed) {
            stats.unsealed += 1;
            return Err(NodeError::Unsealed);
        }
        forming.push(flow, *arrival, sealed, config, spare);
        *arrival = arrival.plus(1);
        stats.received += 1;
        Ok(())
    }

    /// Takes the packet that is next in the queue into the cohort that forms: its bytes, or `None`
    /// if none waits or the cohort is full.
    fn admit(&mut self, now: Instant, seal: &mut dyn Seal) -> Option<u64> {
        if self.forming.len() >= self.config.buffer_packets {
            return None;
        }
        let (flow, waiting) = self.queue.as_mut()?.pop(now, &mut |packet| seal.mark(packet))?;
        // What was short enough to wait is short enough here; what is refused is counted.
        let _ = self.take_in(flow, &waiting.packet, seal);
        if let Some(queue) = &mut self.queue {
            queue.recycle(waiting.packet);
        }
        Some(u64::from(waiting.bytes))
    }

    /// Without cut-through: takes in what the links carry in the interval that begins, besides what losses
    /// call for, or everything if the rate of one is not known.
    fn admit_for_interval(&mut self, now: Instant, seal: &mut dyn Seal) {
        let mut rates = self.paces.iter().map(|pace| pace.as_ref().map(Pacer::rate));
        let rate = rates.try_fold(0_u64, |sum, rate| Some(sum.saturating_add(rate?.as_bps())));
        let bits =
            rate.map(|bps| u128::from(bps) * self.config.interval.as_nanos() / 1_000_000_000);
        let mut room = bits.map_or(u64::MAX, |bits| (bits / 8 * FILLED.0 / FILLED.1) as u64);
        if rate.is_some() && self.config.redundancy == Redundancy::Learned {
            let most = f64::from(self.config.redundancy_percent) / 100.0;
            let NodeConfig { limits, interval, .. } = self.config;
            let share = self.losses.share(limits.packets, interval).min(most);
            room = (room as f64 / (1.0 + share)) as u64;
        }
        let overhead = u64::from(self.config.overhead_bytes);
        while room > 0
            && let Some(bytes) = self.admit(now, seal)
        {
            room = room.saturating_sub(bytes + overhead);
        }
    }

    /// What `link` carries, as its access point tells or as it is set; `None` if that is not known:
    /// then packets go whenever the driver says that it has room. At zero the link stands still, or
    /// nothing is known of a link that is measured: its lag counts for nothing, and a driver asks for
    /// packets only for trains.
    ///
    /// # Panics
    ///
    /// If there is no such link.
    pub fn set_rate(&mut self, link: usize, rate: Option<Bitrate>) {
        let before = std::mem::replace(&mut self.ways[link].rate, rate);
        let stands = Some(Bitrate::ZERO);
        let goes = rate == stands && before != stands;
        if goes && self.config.forget_losses && self.gone.part(link) > FORGETS_FROM {
            self.forget_losses(link);
        }
        self.gone.set(link, rate == stands, self.now);
        if rate != stands && self.unheard.is_some_and(|(gone, _)| gone == link) {
            self.unheard = None;
        }
        if before != rate {
            self.allow_longer();
        }
        match (&mut self.paces[link], rate) {
            (Some(pace), Some(rate)) => pace.set_rate(rate),
            (pace, rate) => *pace = rate.map(Pacer::new),
        }
    }

    /// How much later labels come to the device on `link` than on the first one, as it
    /// [reports](super::Device::lag); `None` if that is not known. With a queue and cut-through a link
    /// that lags by more than a millisecond takes only what would wait as long for nearer ones, if
    /// their rates are known, and packets may wait by so much longer than the queue's target, up to its
    /// interval.
    ///
    /// # Panics
    ///
    /// If there is no such link.
    pub fn set_lag(&mut self, link: usize, lag: Option<Duration>) {
        // Farther away than that a device waits for none.
        self.ways[link].lag = lag.map(|lag| lag.min(self.config.interval * MAX_LAG));
        self.allow_longer();
    }

    /// A link has gone: what went to it of late is lost, which says nothing of the others. Where links
    /// stop again and again, only the first time counts.
    fn forget_losses(&mut self, link: usize) {
        if self.forgotten.is_none_or(|at| self.now >= at + FORGETS_AGAIN) {
            self.losses.forget_latest();
            self.forgotten = Some(self.now);
            self.unheard = Some((link, self.now + self.config.interval * MAX_LAG));
        }
    }

    /// Lets packets wait for as long as a far link, or one that is gone, calls for.
    fn allow_longer(&mut self) {
        let NodeConfig { lag_allowance, gone_allowance, queue: settings, .. } = self.config;
        let (Some(queue), Some(settings)) = (&mut self.queue, settings) else { return };
        let wanted =
            |wanted: bool, allowance: Duration| if wanted { allowance } else { Duration::ZERO };
        let lag = wanted(lag_allowance && self.config.cuts_through(), lags::allowance(&self.ways));
        let gone = wanted(gone_allowance, self.gone.allowance(settings.interval, self.now));
        queue.allow_longer(lag.max(gone));
    }

    /// Whether `link` may take what is next in the queue.
    fn may_take(&self, link: usize) -> bool {
        self.queue.as_ref().is_none_or(|queue| {
            let queued = lags::queued_bytes(queue, self.config.overhead_bytes);
            lags::may_take(&self.ways, link, queued)
        })
    }

    /// Counts what was sent on `link` against its rate: all bytes of the datagram. A driver that
    /// paces by itself leaves that out.
    ///
    /// # Panics
    ///
    /// If there is no such link.
    pub fn sent(&mut self, link: usize, bytes: u64, now: Instant) {
        if let Some(pace) = &mut self.paces[link] {
            pace.send(bytes as usize, now);
        }
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
        self.transmit_sealing(link, now, &mut Bare, out)
    }

    fn transmit_sealing(
        &mut self,
        link: usize,
        now: Instant,
        seal: &mut dyn Seal,
        out: &mut Vec<u8>,
    ) -> Option<Priority> {
        self.advance(now, seal);
        let before = out.len();
        let sent = self.next_on(link, now, seal, out);
        self.gone.sent(link, out.len() - before);
        sent
    }

    /// Appends what goes out next on `link`, in this interval.
    fn next_on(
        &mut self,
        link: usize,
        now: Instant,
        seal: &mut dyn Seal,
        out: &mut Vec<u8>,
    ) -> Option<Priority> {
        if self.paces[link].as_ref().is_some_and(|pace| !pace.has_room(now)) {
            return None;
        }
        let label = Some(self.sending.label);
        if self.sending.send_first(&self.config, &mut self.rng, out) {
            self.stats.high += 1;
            self.shown[link] = label;
            return Some(Priority::High);
        }
        // What is learned to be missing goes before new packets: only in time it saves these.
        let learned = self.config.redundancy == Redundancy::Learned;
        if learned && self.take(link, false, out) {
            return Some(Priority::Low);
        }
        if self.config.cuts_through() {
            // What comes early shows no label. Nodes must not wait for it until there is a gap.
            if self.mark(link, out) {
                return Some(Priority::High);
            }
            if self.forming.unsent() == 0 && self.may_take(link) {
                self.admit(now, seal);
            }
            if self.forming.send_early(out) {
                self.stats.high += 1;
                return Some(Priority::High);
            }
        }
        if self.take(link, true, out) {
            return Some(Priority::Low);
        }
        self.mark(link, out).then_some(Priority::High)
    }

    /// Coded taking: appends a redundant packet, if the cohort may have more.
    fn take(&mut self, link: usize, time_left: bool, out: &mut Vec<u8>) -> bool {
        let taken = self.sending.send_redundant(time_left, &mut self.rng, out);
        if taken {
            self.stats.low += 1;
            self.shown[link] = Some(self.sending.label);
        }
        taken
    }

    /// Learns what came to the device of what was sent.
    pub fn learn(&mut self, report: LossReport) {
        if self.unheard.is_none_or(|(_, until)| self.now >= until) {
            self.losses.learn(report, self.now);
        }
    }

    /// Appends a marker if the link has not shown the present label and somebody may wait for it.
    fn mark(&mut self, link: usize, out: &mut Vec<u8>) -> bool {
        let label = self.sending.label;
        let awaited = self.last.is_some_and(|last| label.since(last) <= MARKED);
        let shown = self.shown[link];
        let forgotten = shown.is_some_and(|shown| label.since(shown) >= REMINDED);
        if !(awaited || forgotten) || shown == Some(label) {
            return false;
        }
        Packet::Marker(Name::of_nothing(label)).encode(out);
        self.stats.markers += 1;
        self.shown[link] = Some(label);
        true
    }

    /// Does what is due by `now`: links may have something to send again.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.advance(now, &mut Bare);
    }

    /// When something changes: the end of this interval, or when a link that has something to send
    /// has room again by its rate.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let label = self.sending.label;
        let marks = self.last.is_some_and(|last| label.since(last) < MARKED);
        let waits = self.queue.as_ref().is_some_and(|queue| !queue.is_empty());
        let busy = waits || !self.forming.is_empty() || !self.sending.is_empty() || marks;
        let end = busy.then(|| self.epoch + self.config.interval)?;
        // A link that has room and was asked takes nothing now.
        let later = |room: &Instant| *room > self.now;
        let room = self.paces.iter().flatten().map(Pacer::next_room).filter(later).min();
        let unsent = self.sending.unsent() + self.forming.unsent() > 0;
        let sends = waits || unsent || self.sending.may_take();
        Some(room.filter(|_| sends).map_or(end, |room| room.min(end)))
    }

    /// Drops what waits to be taken into a cohort, for a device that has left; how many packets that
    /// were.
    pub fn discard(&mut self) -> usize {
        self.queue.as_mut().map_or(0, FqCodel::clear)
    }

    /// Packets that wait to be taken into a cohort.
    pub fn queued(&self) -> usize {
        self.queue.as_ref().map_or(0, FqCodel::len)
    }

    /// Packets that were taken and have not been sent once: what is lost with it.
    pub fn unsent(&self) -> usize {
        self.queued() + self.forming.unsent() + self.sending.unsent()
    }

    /// What it did so far.
    pub fn stats(&self) -> GatewayStats {
        let dropped = |of: fn(&FqCodel) -> u64| self.queue.as_ref().map_or(0, of);
        let (delayed, overflowed) = (dropped(|queue| queue.dropped), dropped(|queue| queue.full));
        let marked = dropped(|queue| queue.marked);
        GatewayStats { delayed, marked, overflowed, ..self.stats }
    }

    /// Begins the interval that `now` is in. `epoch` is the beginning of the present one.
    fn advance(&mut self, now: Instant, seal: &mut dyn Seal) {
        self.now = now;
        let interval = nanos(self.config.interval);
        let passed = nanos(now.since(self.epoch)) / interval;
        if passed == 0 {
            return;
        }
        self.epoch = Instant::from_nanos(self.epoch.as_nanos() + passed * interval);
        self.gone.pass(now);
        self.allow_longer();
        self.stats.given += self.sending.unsent() as u64;
        let label = self.sending.label.plus(passed as u32);
        let by_interval = self.queue.is_some() && !self.config.cuts_through();
        if by_interval {
            // It begins only now: the driver may have been late.
            self.forming.restart(label, &mut self.spare);
            self.admit_for_interval(now, seal);
        }
        std::mem::swap(&mut self.sending, &mut self.forming);
        if !self.sending.is_empty() {
            self.last = Some(self.sending.label);
        }
        let percent = self.config.redundancy_percent;
        match self.config.redundancy {
            Redundancy::Limit => self.sending.take_up_to(percent),
            Redundancy::Learned => {
                self.sending.take_as_needed(&mut self.losses, self.config.interval, percent);
            }
        }
        if passed > 1 && !by_interval {
            // Nobody asked in its whole time.
            self.stats.given += self.sending.unsent() as u64;
            self.sending.restart(label, &mut self.spare);
        }
        self.forming.restart(label.plus(1), &mut self.spare);
    }
}
