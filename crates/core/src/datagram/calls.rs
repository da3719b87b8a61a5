//! Calls survive downloads: how much a path may carry while calls share it.
//!
//! TCP fills the queue of a link, of 200 ms or more, and a call on the same link waits there. While calls
//! live, each lane that carries them measures how long a packet is on its way. If that is longer than the
//! least by more than a margin, the path is *held*: all that TCP and bulk send over it is limited to a
//! share of what the link was seen to carry, first to less, until the queue is empty. From there the limit
//! creeps up while it is used, until the delay says that it is too much. (cake-autorate has this law for a
//! router's shaper; this is another writing of it, for an end that knows its own load.)
//!
//! Clocks of both ends need not agree. The delay is the difference between the receiver's time and the
//! sender's, and the least of late is its base. What a round trip takes beyond its own least bounds it, so
//! that a clock that is set, or runs faster, is no queue.

use std::collections::VecDeque;
use std::time::Duration;

use crate::{Bitrate, Instant, time};

/// What calls are protected by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallRules {
    /// How much longer than the least a packet may be on its way.
    pub margin: Duration,
    /// The share of what the link was seen to carry that is left after a cut.
    pub share: f64,
    /// A rule that is switched off, to see what it is for.
    pub without: Option<CallRule>,
}

impl Default for CallRules {
    /// What the daemons have.
    fn default() -> Self {
        Self { margin: Duration::from_millis(15), share: 0.95, without: None }
    }
}

/// Rules that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRule {
    /// After a cut the path gets less for a moment, until its queue is empty.
    Drain,
    /// What the link carries is counted over the time in which it came, not that in which it was sent.
    Served,
    /// A call that begins while the path is busy has the queue emptied to learn its least delay.
    Search,
    /// The limit grows faster the longer nothing is in its way.
    Accelerate,
    /// A path whose delay does not follow its load is let go.
    GiveUp,
    /// The delay is bounded by that of the round trip.
    RoundTrip,
    /// The margin is wider where delays differ from packet to packet.
    Noise,
    /// The margin is wider on lanes that have copies only.
    Second,
    /// The limit grows faster where the link has carried much more before.
    Regain,
}

/// How long a path is held after the last packet of a call.
const RELEASE: Duration = Duration::from_secs(10);
/// The delay of so long counts together: its least is that of the queue, and not of a radio that repeats.
const TOGETHER: Duration = Duration::from_millis(60);
/// How long a lane counts as the one that calls go over first; by how much the margin of others is wider:
/// should the first one die, they are not to be far behind.
const FIRST: Duration = Duration::from_secs(2);
const SECOND: u32 = 4;
/// What is sent is counted over so long, noted so often.
const COUNTED: Duration = Duration::from_millis(500);
const NOTED: Duration = Duration::from_millis(25);
/// A rate over less time than that says nothing.
const LEAST_SPAN: Duration = Duration::from_millis(100);
/// The least that TCP sends, and the least it is held to, in bytes a second: 0.5 Mb/s.
const LEAST_RATE: u64 = 62_500;
/// Nor is it held to less than this part of what the link was seen to carry since the call began.
const LEAST_PART: u64 = 5;
/// A queue of so long is emptied at the least rate, half of what the link carries.
const LONG_QUEUE: Duration = Duration::from_millis(200);
/// A step from one packet's delay to the next one's counts up to this, in microseconds.
const MOST_NOISE_US: f64 = 15_000.0;
/// How long the rate is halved at most to learn the least delay; and for how long that must not have
/// fallen any more.
const MOST_SEARCH: Duration = Duration::from_millis(1500);
const SEARCHED: Duration = Duration::from_millis(150);
/// Delays that differ by less are the same, in microseconds.
const SAME_US: u64 = 5_000;
/// By what part of itself the limit grows in a second, at first and at most; how long until it is twice
/// as much.
const LEAST_GROWTH: f64 = 0.01;
/// The same at first where the link has carried much more of late, of which this is the part; and how long
/// that is remembered.
const REGAINED_GROWTH: f64 = 0.08;
const MUCH_LESS: f64 = 0.8;
const BEST: f64 = 20.0;
const MOST_GROWTH: f64 = 0.5;
const GROWS: Duration = Duration::from_secs(1);
/// What may be before a packet all the time, as TCP sends some at once, in bytes.
const FEW_BYTES: f64 = 3000.0;
/// The limit counts as used from this part of it on.
const USED: f64 = 0.75;
/// So many cuts in a row that do not empty the queue are in vain: it is another's.
const IN_VAIN: u32 = 3;
/// How long a path is left alone then, twice as long each time, and at most.
const REST: Duration = Duration::from_secs(30);
const MOST_REST: Duration = Duration::from_secs(480);

/// What has been sent over a path up to some time, in bytes since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Carried {
    /// By TCP.
    pub(super) tcp: u64,
    /// By the lane.
    pub(super) lane: u64,
}

/// A packet that has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    /// When it was sent, and what had been then.
    pub(super) sent: Instant,
    pub(super) carried: Carried,
    /// When it came by the other end's clock, in microseconds.
    pub(super) arrived_us: u64,
    /// Its round trip.
    pub(super) rtt: Duration,
}

/// The least of the last 20 to 30 seconds in which something was noted.
#[derive(Debug)]
struct Least {
    spans: [i64; 3],
    since: Instant,
}

impl Default for Least {
    fn default() -> Self {
        Self { spans: [i64::MAX; 3], since: Instant::ZERO }
    }
}

impl Least {
    const SPAN: Duration = Duration::from_secs(10);

    /// Notes a value; by how much it is beyond the least.
    fn note(&mut self, value: i64, now: Instant) -> u64 {
        if now.since(self.since) >= Self::SPAN {
            self.spans.rotate_right(1);
            (self.spans[0], self.since) = (value, now);
        }
        self.spans[0] = self.spans[0].min(value);
        value.abs_diff(self.spans.into_iter().min().expect("there are three"))
    }
}

/// What was sent by some time, and how long what was sent then waited.
#[derive(Clone, Copy, Debug)]
struct Mark {
    sent: Instant,
    carried: Carried,
    queue_us: u64,
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rates {
    tcp: f64,
    lane: f64,
    /// What the link has carried, as far as it shows.
    served: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Nothing is held.
    Open,
    /// A call has begun while the path was busy: nobody knows yet how long its way is.
    Searching { since: Instant, lowered: Instant, first_us: i64, least_us: i64, to: f64 },
    /// The queue is being emptied; the rate after that.
    Draining { to: f64, until: Instant },
    /// The limit is kept, and grows; how long it has been used since it began to grow as fast.
    Held { growth: f64, used: Duration },
    /// The delay is not ours.
    Resting { until: Instant },
}

/// How a path is, for those who look at it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HoldStatus {
    /// The limit of all that is sent over it, if it is held back for calls.
    pub limit: Option<Bitrate>,
    /// How much longer than the least the last packets were on their way.
    pub queue: Duration,
    /// How often the limit was lowered.
    pub cuts: u64,
    /// How often it turned out that the delay is not this end's doing.
    pub in_vain: u64,
}

/// What holds a path back while there are calls.
#[derive(Debug)]
pub(super) struct Hold {
    rules: CallRules,
    base: Least,
    round_trip: Least,
    recent: VecDeque<(Instant, u64)>,
    /// By how much the delays of one packet and the next differ, on average.
    noise_us: f64,
    marks: VecDeque<Mark>,
    phase: Phase,
    /// The limit of all that is sent, in bytes a second; used unless it is open.
    rate: f64,
    /// The most that the link was seen to carry of late, and when that was looked at.
    best: f64,
    best_at: Instant,
    call_until: Option<Instant>,
    /// Until when it counts as the lane that calls go over first.
    first_until: Instant,
    /// Whether the call has been looked at.
    is_known: bool,
    /// When the delay shows what the last change did.
    wait: Instant,
    grown: Instant,
    vain: u32,
    rest: Duration,
    cuts: u64,
    in_vain: u64,
}

impl Hold {
    pub(super) fn new(rules: CallRules) -> Self {
        Self {
            rules,
            base: Least::default(),
            round_trip: Least::default(),
            recent: VecDeque::new(),
            noise_us: 0.0,
            marks: VecDeque::new(),
            phase: Phase::Open,
            rate: 0.0,
            best: 0.0,
            call_until: None,
            first_until: Instant::ZERO,
            best_at: Instant::ZERO,
            is_known: false,
            wait: Instant::ZERO,
            grown: Instant::ZERO,
            vain: 0,
            rest: REST,
            cuts: 0,
            in_vain: 0,
        }
    }

    /// A packet of a call is sent: over this lane first, or over another one.
    pub(super) fn note_call(&mut self, is_first: bool, now: Instant) {
        if is_first {
            self.first_until = now + FIRST;
        }
        if self.call_until.is_none_or(|until| until <= now) {
            self.let_go();
            (self.is_known, self.best, self.vain, self.rest) = (false, 0.0, 0, REST);
        }
        self.call_until = Some(now + RELEASE);
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.call_until
    }

    /// Lets the path go when there has been no call for a while.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.call_until.is_some_and(|until| until <= now) {
            self.call_until = None;
            self.let_go();
        }
    }

    /// The lane carries nothing now, and nobody knows what the path does.
    pub(super) fn handle_silence(&mut self) {
        self.let_go();
        self.recent.clear();
        self.marks.clear();
    }

    fn let_go(&mut self) {
        self.phase = Phase::Open;
    }

    fn without(&self, rule: CallRule) -> bool {
        self.rules.without == Some(rule)
    }

    /// Takes in that a packet has come; whether limits may have changed.
    pub(super) fn handle_sample(&mut self, sample: &Sample, now: Instant) -> bool {
        let sent_us = (time::nanos(sample.sent.since(Instant::ZERO)) / 1000).cast_signed();
        let owd_us = sample.arrived_us.cast_signed().wrapping_sub(sent_us);
        let rtt_us = i64::try_from(sample.rtt.as_micros()).unwrap_or(i64::MAX);
        let beyond = self.round_trip.note(rtt_us, now);
        let queue_us = self.base.note(owd_us, now);
        let queue_us =
            if self.without(CallRule::RoundTrip) { queue_us } else { queue_us.min(beyond) };
        self.note(sample, queue_us, now);
        if self.call_until.is_none_or(|until| until <= now) {
            return false;
        }
        let rates = self.rates();
        if let Some(rates) = rates.filter(|_| !self.is_known) {
            self.is_known = true;
            self.begin(rates, owd_us, now);
        }
        self.judge(rates, owd_us, now);
        true
    }

    /// Keeps what is needed of a packet.
    fn note(&mut self, sample: &Sample, queue_us: u64, now: Instant) {
        if let Some((_, before)) = self.recent.back() {
            let step = (queue_us.abs_diff(*before) as f64).min(MOST_NOISE_US);
            self.noise_us += (step - self.noise_us) / 16.0;
        }
        self.recent.push_back((now, queue_us));
        while self.recent.len() > 1 && self.recent[0].0 + TOGETHER < now {
            self.recent.pop_front();
        }
        let Sample { sent, carried, .. } = *sample;
        if self.marks.back().is_none_or(|mark| sent.since(mark.sent) >= NOTED) {
            self.marks.push_back(Mark { sent, carried, queue_us });
        }
        while self.marks.len() > 2 && self.marks[1].sent + COUNTED <= sent {
            self.marks.pop_front();
        }
    }

    /// How much longer than the least packets are on their way now, in microseconds.
    fn queue_us(&self) -> u64 {
        self.recent.iter().map(|(_, queue)| *queue).min().unwrap_or(0)
    }

    /// What has been carried of late.
    fn rates(&self) -> Option<Rates> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        let span = last.sent.since(first.sent);
        if span < LEAST_SPAN {
            return None;
        }
        let span = span.as_secs_f64();
        let [tcp, lane] =
            [(last.carried.tcp, first.carried.tcp), (last.carried.lane, first.carried.lane)]
                .map(|(after, before)| after.saturating_sub(before) as f64);
        // While there is a queue the link is busy all the time, and what was sent in this time came within
        // as much more as the queue has grown.
        let is_busy = self.marks.iter().all(|mark| mark.queue_us > SAME_US);
        let grown = (last.queue_us as f64 - first.queue_us as f64) / 1e6;
        let came = match is_busy && !self.without(CallRule::Served) {
            true => (span + grown).max(span / 4.0),
            false => span,
        };
        Some(Rates { tcp: tcp / span, lane: lane / span, served: (tcp + lane) / came })
    }

    /// The path is looked at for the first time since a call has begun.
    fn begin(&mut self, rates: Rates, owd_us: i64, now: Instant) {
        if rates.tcp < LEAST_RATE as f64 || self.without(CallRule::Search) {
            return;
        }
        let to = rates.served * self.rules.share;
        self.rate = rates.served / 2.0;
        let (since, lowered) = (now, now);
        let phase = Phase::Searching { since, lowered, first_us: owd_us, least_us: owd_us, to };
        self.phase = phase;
    }

    fn judge(&mut self, rates: Option<Rates>, owd_us: i64, now: Instant) {
        let margin_us = self.margin_us(now);
        let queue_us = self.queue_us();
        let first_growth = self.first_growth();
        match &mut self.phase {
            Phase::Open => self.cut_if(queue_us > margin_us, rates, now),
            Phase::Searching { since, lowered, first_us, least_us, to } => {
                if owd_us.saturating_add(SAME_US.cast_signed() / 2) < *least_us {
                    (*least_us, *lowered) = (owd_us, now);
                }
                let trip = self.marks.back().map_or(Duration::ZERO, |mark| now.since(mark.sent));
                let is_found = now.since(*lowered) > SEARCHED + trip;
                if is_found || now.since(*since) > MOST_SEARCH {
                    let has_fallen = first_us.abs_diff(*least_us) > margin_us;
                    let to = *to;
                    if has_fallen { self.hold(to, now) } else { self.let_go() }
                }
            }
            Phase::Draining { to, until } => {
                let (to, is_late) = (*to, *until <= now);
                if queue_us <= margin_us / 2 {
                    (self.vain, self.rest) = (0, REST);
                    self.hold(to, now);
                } else {
                    self.cut_if(is_late, rates, now);
                }
            }
            Phase::Held { .. } if queue_us > margin_us => self.cut_if(true, rates, now),
            Phase::Held { growth, used } => {
                if queue_us > margin_us / 2 {
                    (*growth, *used, self.grown) = (first_growth, Duration::ZERO, now);
                } else {
                    self.grow(rates, now);
                }
            }
            Phase::Resting { until } => {
                if *until <= now {
                    self.let_go();
                }
            }
        }
    }

    /// How much longer than the least packets may be on their way, in microseconds: what a few packets take
    /// is no queue, nor is what differs from one to the next.
    fn margin_us(&self, now: Instant) -> u64 {
        let few = if self.limit().is_some() { 1e6 * FEW_BYTES / self.rate } else { 0.0 };
        let noise = if self.without(CallRule::Noise) { 0.0 } else { 2.0 * self.noise_us };
        let is_second = now > self.first_until && !self.without(CallRule::Second);
        let margin = self.rules.margin * if is_second { SECOND } else { 1 };
        let margin = u64::try_from(margin.as_micros()).unwrap_or(u64::MAX);
        margin.saturating_add((few + noise) as u64)
    }

    /// Keeps to a rate from now on.
    fn hold(&mut self, rate: f64, now: Instant) {
        (self.rate, self.grown) = (rate, now);
        let growth = self.first_growth();
        self.phase = Phase::Held { growth, used: Duration::ZERO };
    }

    fn first_growth(&self) -> f64 {
        let is_less = self.rate < MUCH_LESS * self.best && !self.without(CallRule::Regain);
        if is_less { REGAINED_GROWTH } else { LEAST_GROWTH }
    }

    /// The limit grows while it is used.
    fn grow(&mut self, rates: Option<Rates>, now: Instant) {
        let time = now.since(self.grown).min(COUNTED);
        self.grown = now;
        if rates.is_none_or(|rates| rates.tcp + rates.lane < USED * self.rate) {
            return;
        }
        let is_slow = self.without(CallRule::Accelerate);
        let Phase::Held { growth, used } = &mut self.phase else { return };
        self.rate *= 1.0 + *growth * time.as_secs_f64();
        *used += time;
        if *used >= GROWS && !is_slow {
            (*growth, *used) = ((*growth * 2.0).min(MOST_GROWTH), Duration::ZERO);
        }
    }

    /// Lowers the limit, if TCP has a part in what there is, and what the last change did is seen.
    fn cut_if(&mut self, is_due: bool, rates: Option<Rates>, now: Instant) {
        let Some(rates) = rates.filter(|rates| rates.tcp >= LEAST_RATE as f64 / 2.0) else {
            return;
        };
        if !is_due || now < self.wait {
            return;
        }
        let is_held = matches!(self.phase, Phase::Held { .. } | Phase::Draining { .. });
        if matches!(self.phase, Phase::Draining { .. }) {
            self.vain += 1;
            if self.vain >= IN_VAIN && !self.without(CallRule::GiveUp) {
                self.in_vain += 1;
                self.vain = 0;
                self.phase = Phase::Resting { until: now + self.rest };
                self.rest = (self.rest * 2).min(MOST_REST);
                return;
            }
        }
        let past = now.since(self.best_at).as_secs_f64() / BEST;
        self.best = (self.best * (-past).exp()).max(rates.served);
        self.best_at = now;
        let most = match is_held {
            true => self.rate.min(rates.served),
            false => rates.served,
        };
        let least = (self.best / LEAST_PART as f64).max(LEAST_RATE as f64);
        let to = (most * self.rules.share).max(least);
        let queue = Duration::from_micros(self.queue_us());
        let trip = self.marks.back().map_or(Duration::ZERO, |mark| now.since(mark.sent));
        self.cuts += 1;
        self.wait = now + trip + 2 * TOGETHER;
        if self.without(CallRule::Drain) {
            return self.hold(to, now);
        }
        // Twice the time that it takes to empty the queue at this rate, once it shows.
        let part = (queue.as_secs_f64() / LONG_QUEUE.as_secs_f64()).clamp(0.2, 1.0) / 2.0;
        self.rate = (to * (1.0 - part)).max(least);
        let took = queue.div_f64(part) * 2;
        self.phase = Phase::Draining { to, until: now + trip + took + 2 * TOGETHER };
    }

    /// The limit of all that is sent over the path, in bytes a second.
    fn limit(&self) -> Option<f64> {
        let is_open = matches!(self.phase, Phase::Open | Phase::Resting { .. });
        (!is_open).then_some(self.rate)
    }

    /// Whether it is held back as calls wait there.
    pub(super) fn is_held(&self) -> bool {
        matches!(self.phase, Phase::Draining { .. } | Phase::Held { .. })
    }

    /// What TCP may send of that: what the lane leaves, and half of it at least.
    pub(super) fn tcp_limit(&self) -> Option<Bitrate> {
        let lane = self.rates().map_or(0.0, |rates| rates.lane);
        self.limit().map(|limit| bits((limit - lane).max(limit / 2.0)))
    }

    /// What a lane with bulk may send of that: what TCP leaves, and half of it at least.
    pub(super) fn lane_limit(&self) -> Option<Bitrate> {
        let tcp = self.rates().map_or(0.0, |rates| rates.tcp);
        self.limit().map(|limit| bits((limit - tcp).max(limit / 2.0)))
    }

    pub(super) fn status(&self) -> HoldStatus {
        HoldStatus {
            limit: self.limit().map(bits),
            queue: Duration::from_micros(self.queue_us()),
            cuts: self.cuts,
            in_vain: self.in_vain,
        }
    }
}

/// A rate of so many bytes a second.
fn bits(rate: f64) -> Bitrate {
    Bitrate::bps((rate * 8.0) as u64)
}

#[cfg(test)]
mod tests;
