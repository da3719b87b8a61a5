//! Calls survive downloads: how much a path may carry while calls share it.
//!
//! TCP fills the queue of a link, of 200 ms or more, and a call on the same link waits there. While calls
//! live, each lane measures how long a packet is on its way. If that is longer than the least by more than a
//! margin, and this end has a part in it, the path is *held*: all that TCP and bulk send over it is limited to
//! a share of what the link was seen to carry, first to less, until the queue is empty. (cake-autorate has
//! such a law for a router's shaper; this is another writing of it, for an end that knows its own load.)
//!
//! Delay has many causes, and a limit may be wrong. So each is for a while only: it grows by itself, faster
//! and faster, while nothing waits; it is lifted when what is sent does not come near it, when nothing tells
//! of the lane any more, and when the queue does not follow it, as it is another's then. And how fast the queue
//! goes while it is emptied tells what the link carries: delay that comes and goes by itself goes at once, and
//! costs no more than that moment.
//!
//! Clocks of both ends need not agree. The delay is the difference between the receiver's time and the
//! sender's, and the least of late is its base. What a round trip takes beyond its own least bounds it, so
//! that a clock that is set, or runs faster, is no queue.

mod rules;
mod told;

use std::time::Duration;

use super::flows::MEDIUM_RATE;
use crate::{Bitrate, Instant, time};

pub use rules::CallRules;
use rules::micros;
pub(super) use told::{Carried, Sample};
use told::{Least, Mark, Rates, Told};

/// A flow that is a call though it is not urgent has this part of what its link carries, at most.
const SMALL_PART: f64 = 1.0 / 3.0;
/// What may be before a packet all the time, as TCP sends two at once, in bytes.
const FEW_BYTES: f64 = 3000.0;
/// The limit grows no faster than to twice as much in a second.
const MOST_GROWTH: f64 = 1.0;
/// A path is left alone for no longer than so many times the first rest: eight minutes.
const MOST_RESTS: u32 = 16;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// Nothing is held.
    Open,
    /// A call has begun while the path was busy, or it was left alone: nobody knows how long its way is.
    Searching {
        until: Instant,
        lowered: Instant,
        first_us: i64,
        least_us: i64,
        to: f64,
    },
    /// The queue is being emptied since a cut; the rate after that. It was so long when the cut showed, which it
    /// does by what was sent later, and is shorter by so much of a second in each.
    Draining {
        to: f64,
        since: Instant,
        until: Instant,
        queue_us: u64,
        part: f64,
        /// The limit before the first of the cuts in a row, or what the link was seen to carry then.
        before: f64,
    },
    /// The limit is kept, and grows: by how much, since when; and when it was used last.
    Held {
        growth: f64,
        since: Instant,
        used: Instant,
    },
    /// The delay is not ours. The limit grows fast, and is lifted then: what TCP would send at once is lost in a
    /// queue that others fill, and its share of the link with it.
    Leaving {
        lifted: Instant,
    },
    Resting {
        until: Instant,
    },
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
    late: Told,
    phase: Phase,
    /// The limit of all that is sent, in bytes a second; used unless it is open.
    rate: f64,
    /// The most that the link was seen to carry of late, also under a limit, and when that was looked at.
    best: f64,
    best_at: Instant,
    /// The same, but that it is not forgotten under a limit: the least that is left does not follow the limit.
    unheld: f64,
    /// While something may be a call, what is sent is counted; while something is one, it is held.
    watched_until: Option<Instant>,
    call_until: Option<Instant>,
    /// The rate of the greatest of these, in bytes a second.
    call: u64,
    /// When a packet was told of last.
    told: Instant,
    /// Whether the path has been looked at since the call has begun, or it was left alone.
    is_known: bool,
    /// When the delay shows what the last change did.
    wait: Instant,
    grown: Instant,
    rest: Duration,
    cuts: u64,
    in_vain: u64,
}

impl Hold {
    pub(super) fn new(rules: CallRules) -> Self {
        Self {
            rules,
            base: Least::new(rules.late),
            round_trip: Least::new(rules.late),
            late: Told::new(rules),
            phase: Phase::Open,
            rate: 0.0,
            best: 0.0,
            best_at: Instant::ZERO,
            unheld: 0.0,
            watched_until: None,
            call_until: None,
            call: 0,
            told: Instant::ZERO,
            is_known: false,
            wait: Instant::ZERO,
            grown: Instant::ZERO,
            rest: rules.rest,
            cuts: 0,
            in_vain: 0,
        }
    }

    /// A packet is sent, over this lane or another one, of a flow of this rate in bytes a second that may be a call,
    /// or is.
    pub(super) fn note_call(&mut self, rate: u64, is_call: bool, now: Instant) {
        if self.watched_until.is_none_or(|until| until <= now) {
            self.handle_silence();
            (self.best, self.unheld, self.call) = (0.0, 0.0, 0);
        }
        self.call = self.call.max(rate);
        self.watched_until = Some(now + self.rules.late);
        if !is_call {
            return;
        }
        if !self.has_call(now) {
            self.phase = Phase::Open;
            (self.is_known, self.rest) = (false, self.rules.rest);
        }
        self.call_until = self.watched_until;
    }

    /// Whether a flow of this rate is a small part of what the path has carried of late.
    pub(super) fn is_small_part(&self, rate: u64) -> bool {
        rate as f64 <= self.best * SMALL_PART
    }

    /// Whether there is a call, or was one just now.
    pub(super) fn has_call(&self, now: Instant) -> bool {
        self.call_until.is_some_and(|until| now < until)
    }

    /// What a call has of the path at least, whatever its lane alone has been seen to carry: half of what the
    /// path is held to, or was seen to carry of late. One that moves to a lane goes on as it was until
    /// something is known of that. `None` where there is no call.
    pub(super) fn call_rate(&self) -> Option<Bitrate> {
        self.watched_until?;
        let all = self.limit().unwrap_or(self.best);
        let own = if self.late.is_little() { self.call as f64 } else { 0.0 };
        Some(bits((all / 2.0).min(MEDIUM_RATE as f64).max(own)))
    }

    /// When [`Self::handle_timeout`] has something to do.
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let until = self.watched_until?;
        let untold = (!self.late.is_empty()).then(|| self.told + self.rules.unused);
        [Some(until), self.call_until, untold].into_iter().flatten().min()
    }

    /// Lets the path go when there has been no call for a while, or nothing has told of the lane.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.poll_timeout().is_none_or(|at| now < at) {
            return;
        }
        self.watched_until = self.watched_until.filter(|until| now < *until);
        self.call_until = self.call_until.filter(|until| now < *until);
        self.handle_silence();
    }

    /// Nobody knows what the path does.
    pub(super) fn handle_silence(&mut self) {
        self.phase = Phase::Open;
        self.late.clear();
    }

    /// Takes in that a packet has come; whether limits may have changed.
    pub(super) fn handle_sample(&mut self, sample: &Sample, now: Instant) -> bool {
        let sent_us = (time::nanos(sample.sent.since(Instant::ZERO)) / 1000).cast_signed();
        let owd_us = sample.arrived_us.cast_signed().wrapping_sub(sent_us);
        let rtt_us = i64::try_from(sample.rtt.as_micros()).unwrap_or(i64::MAX);
        let beyond = self.round_trip.note(rtt_us, now);
        let queue_us = self.base.note(owd_us, now).min(beyond);
        self.told = now;
        if self.watched_until.is_none_or(|until| until <= now) {
            return false;
        }
        let mark = Mark { sent: sample.sent, carried: sample.carried, owd_us, queue_us };
        self.late.note(mark);
        let rates = self.late.rates();
        let past = now.since(self.best_at).as_secs_f64() / (2 * self.rules.late).as_secs_f64();
        let served = self.late.seen().unwrap_or(0.0);
        self.best = (self.best * (-past).exp()).max(served);
        let kept = if self.limit().is_some() { 1.0 } else { (-past).exp() };
        self.unheld = (self.unheld * kept).max(served);
        self.best_at = now;
        if !self.has_call(now) {
            return false;
        }
        let Some(rates) = rates else { return true };
        if !self.is_known {
            self.is_known = true;
            self.begin(rates, owd_us, now);
        }
        self.judge(rates, &mark, now);
        true
    }

    /// The path is looked at for the first time since a call has begun.
    fn begin(&mut self, rates: Rates, owd_us: i64, now: Instant) {
        if rates.tcp + rates.bulk < self.rules.least_rate() {
            return;
        }
        let to = self.bounded(rates.served * self.rules.share);
        self.rate = self.bounded(rates.served / 2.0);
        let (until, lowered) = (now + self.rules.search, now);
        self.phase = Phase::Searching { until, lowered, first_us: owd_us, least_us: owd_us, to };
    }

    fn judge(&mut self, rates: Rates, mark: &Mark, now: Instant) {
        let owd_us = mark.owd_us;
        let (margin_us, queue_us, trip) =
            (self.margin_us(), self.late.queue_us(), self.late.trip(now));
        let is_used = rates.tcp + rates.lane >= self.rules.used * self.rate;
        let (same_us, quiet) = (self.rules.same_us(), self.rules.least_span() + trip);
        match &mut self.phase {
            Phase::Open if queue_us > margin_us => self.cut(rates.served, rates, now),
            Phase::Open => {}
            Phase::Searching { until, lowered, first_us, least_us, to } => {
                if owd_us.saturating_add(same_us.cast_signed() / 2) < *least_us {
                    (*least_us, *lowered) = (owd_us, now);
                }
                if now.since(*lowered) > quiet || *until <= now {
                    let (to, has_fallen) = (*to, first_us.abs_diff(*least_us) > margin_us);
                    if has_fallen { self.hold(to, now) } else { self.phase = Phase::Open }
                }
            }
            Phase::Draining { to, before, .. } if queue_us <= margin_us / 2 => {
                let (to, before) = (*to, *before);
                let to = (self.rules.share * self.late.emptied(mark)).min(before).max(to);
                self.rest = (self.rest / 2).max(self.rules.rest);
                self.hold(to, now);
            }
            // It goes on growing until the cut shows, for a round trip.
            Phase::Draining { since, until, queue_us: longest, part, .. }
                if now - trip < *since && queue_us > *longest =>
            {
                (*longest, *until) = (queue_us, self.rules.drained(queue_us, *part, now));
            }
            Phase::Draining { until, .. } if now < *until => {}
            Phase::Draining { queue_us: longest, to, .. }
                if (*longest / 2..*longest * 2).contains(&queue_us) =>
            {
                (self.rate, self.grown) = (*to, now);
                self.phase = Phase::Leaving { lifted: now + 2 * self.rules.counted };
            }
            Phase::Draining { .. } => self.cut(self.rate.min(rates.served), rates, now),
            Phase::Held { .. } if queue_us > margin_us => {
                self.cut(self.rate.min(rates.served), rates, now);
            }
            Phase::Held { used, .. } if is_used => {
                *used = now;
                self.grow(queue_us <= margin_us / 2, now);
            }
            Phase::Held { used, .. } if now.since(*used) > self.rules.unused => {
                self.phase = Phase::Open;
            }
            // It is no proof of more that nothing waits while TCP pauses.
            Phase::Held { .. } => {
                self.grow(queue_us <= margin_us / 2 && self.rate < self.unheld, now);
            }
            Phase::Leaving { lifted } if *lifted <= now => self.rest(now),
            Phase::Leaving { .. } => {
                let time = self.passed(now);
                self.rate *= 1.0 + MOST_GROWTH * time;
            }
            // It rests longer than the least delay is known for.
            Phase::Resting { until } if *until <= now => {
                (self.phase, self.is_known) = (Phase::Open, false);
            }
            Phase::Resting { .. } => {}
        }
    }

    /// How much longer than the least packets may be on their way, in microseconds: what a few packets take
    /// is no queue.
    fn margin_us(&self) -> u64 {
        let few = if self.limit().is_some() { 1e6 * FEW_BYTES / self.rate } else { 0.0 };
        micros(self.rules.margin).saturating_add(few as u64)
    }

    /// A rate, or the least that is left in any case.
    fn bounded(&self, rate: f64) -> f64 {
        rate.max(self.unheld * self.rules.least_part).max(self.rules.least_rate())
    }

    /// Keeps to a rate from now on.
    fn hold(&mut self, rate: f64, now: Instant) {
        (self.rate, self.grown) = (rate, now);
        self.phase = Phase::Held { growth: self.first_growth(), since: now, used: now };
    }

    /// How fast the limit grows at first: fast where the link has carried much more of late.
    fn first_growth(&self) -> f64 {
        if self.rate < 0.8 * self.best { self.rules.regrowth } else { self.rules.growth }
    }

    /// The limit grows while nothing waits.
    fn grow(&mut self, is_empty: bool, now: Instant) {
        let time = self.passed(now);
        let first = self.first_growth();
        let Phase::Held { growth, since, .. } = &mut self.phase else { return };
        if !is_empty {
            (*growth, *since) = (first, now);
            return;
        }
        self.rate *= 1.0 + *growth * time;
        if now.since(*since) >= 2 * self.rules.counted {
            (*growth, *since) = ((*growth * 2.0).min(MOST_GROWTH), now);
        }
    }

    /// The time in which the limit grows, in seconds. Where packets are far apart, what it does shows late.
    fn passed(&mut self, now: Instant) -> f64 {
        let time = now.since(self.grown).min(2 * self.rules.least_span()).as_secs_f64();
        self.grown = now;
        time
    }

    /// The queue does not follow what is done.
    fn rest(&mut self, now: Instant) {
        self.in_vain += 1;
        self.phase = Phase::Resting { until: now + self.rest };
        self.rest = (self.rest * 2).min(self.rules.rest * MOST_RESTS);
    }

    /// Lowers the limit from a rate, if there is something to hold back, and what the last change did is seen.
    fn cut(&mut self, from: f64, rates: Rates, now: Instant) {
        if rates.tcp + rates.bulk < self.rules.least_rate() / 2.0 {
            self.phase = Phase::Open;
            return;
        }
        if now < self.wait {
            return;
        }
        let to = self.bounded(from * self.rules.share);
        let (queue_us, trip) = (self.late.queue_us(), self.late.trip(now));
        let queue = Duration::from_micros(queue_us);
        self.cuts += 1;
        let CallRules { together, long_queue, .. } = self.rules;
        self.wait = now + trip + 2 * together;
        let part = (queue.as_secs_f64() / long_queue.as_secs_f64()).clamp(0.2, 1.0) / 2.0;
        let before = match self.phase {
            Phase::Draining { before, .. } => before,
            _ => self.limit().unwrap_or(from),
        };
        self.rate = self.bounded(to * (1.0 - part));
        let until = self.rules.drained(queue_us, part, now + trip);
        self.phase = Phase::Draining { to, since: now, until, queue_us, part, before };
    }

    /// The limit of all that is sent over the path, in bytes a second.
    fn limit(&self) -> Option<f64> {
        let is_open = matches!(self.phase, Phase::Open | Phase::Resting { .. });
        (!is_open).then_some(self.rate)
    }

    /// Whether it is held back as calls wait there.
    pub(super) fn is_held(&self) -> bool {
        !matches!(self.phase, Phase::Searching { .. }) && self.limit().is_some()
    }

    /// What TCP may send of that: what the lane leaves, and half of it at least.
    pub(super) fn tcp_limit(&self) -> Option<Bitrate> {
        self.part(|rates| rates.lane)
    }

    /// What a lane with bulk may send of that: what TCP leaves, and half of it at least.
    pub(super) fn lane_limit(&self) -> Option<Bitrate> {
        self.part(|rates| rates.tcp)
    }

    fn part(&self, other: fn(&Rates) -> f64) -> Option<Bitrate> {
        let limit = self.limit()?;
        let other = self.late.rates().map_or(0.0, |rates| other(&rates));
        Some(bits((limit - other).max(limit / 2.0).max(self.rules.least_rate())))
    }

    pub(super) fn status(&self) -> HoldStatus {
        HoldStatus {
            limit: self.limit().map(bits),
            queue: Duration::from_micros(self.late.queue_us()),
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
