//! What is told of a path's packets: how long they were on their way, and what had been sent by then.

use std::collections::VecDeque;
use std::time::Duration;

use super::rules::CallRules;
use crate::Instant;

/// What has been sent over a path up to some time, in bytes since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Carried {
    /// By TCP.
    pub(in super::super) tcp: u64,
    /// By the lane, and what of it was bulk.
    pub(in super::super) lane: u64,
    pub(in super::super) bulk: u64,
}

/// A packet that has come.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Sample {
    /// When it was sent, and what had been then.
    pub(in super::super) sent: Instant,
    pub(in super::super) carried: Carried,
    /// When it came by the other end's clock, in microseconds.
    pub(in super::super) arrived_us: u64,
    /// Its round trip.
    pub(in super::super) rtt: Duration,
}

/// The least of the last two to three spans in which something was noted.
#[derive(Debug)]
pub(super) struct Least {
    spans: [i64; 3],
    since: Instant,
    span: Duration,
}

impl Least {
    pub(super) fn new(span: Duration) -> Self {
        Self { spans: [i64::MAX; 3], since: Instant::ZERO, span }
    }

    /// Notes a value; by how much it is beyond the least.
    pub(super) fn note(&mut self, value: i64, now: Instant) -> u64 {
        if now.since(self.since) >= self.span {
            self.spans.rotate_right(1);
            (self.spans[0], self.since) = (value, now);
        }
        self.spans[0] = self.spans[0].min(value);
        value.abs_diff(self.spans.into_iter().min().expect("there are three"))
    }
}

/// What was sent by some time, and how long what was sent then waited.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) sent: Instant,
    pub(super) carried: Carried,
    /// How long it was on its way by the clocks of both ends, and beyond the least of late, in microseconds.
    pub(super) owd_us: i64,
    pub(super) queue_us: u64,
}

impl Mark {
    /// What a link has carried, in bytes a second, that was busy since an earlier mark: what was sent in this time came
    /// within as much more as the queue has grown, or as much less as it has become shorter.
    ///
    /// The delays themselves tell by how much, as the least of them is another one after a while. A clock that is set
    /// is no queue: this one is no longer than it is, nor was the other.
    pub(super) fn served(&self, first: &Self) -> f64 {
        let grown_us = self.owd_us.saturating_sub(first.owd_us) as f64;
        let grown_us = grown_us.clamp(-(first.queue_us as f64), self.queue_us as f64);
        let span = self.sent.since(first.sent).as_secs_f64();
        self.bytes_since(first) / (span + grown_us / 1e6).max(span / 4.0)
    }

    /// What was sent since an earlier mark, in bytes a second.
    fn sent_rate(&self, first: &Self) -> f64 {
        self.bytes_since(first) / self.sent.since(first.sent).as_secs_f64()
    }

    fn bytes_since(&self, first: &Self) -> f64 {
        let bytes = |mark: &Self| mark.carried.tcp + mark.carried.lane;
        bytes(self).saturating_sub(bytes(first)) as f64
    }
}

/// Bytes a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rates {
    pub(super) tcp: f64,
    pub(super) lane: f64,
    pub(super) bulk: f64,
    /// What the link has carried, as far as it shows.
    pub(super) served: f64,
}

/// What was told of late.
#[derive(Debug)]
pub(super) struct Told {
    rules: CallRules,
    /// When packets were sent, and how much longer than the least they were on their way, in microseconds.
    pub(super) recent: VecDeque<(Instant, u64)>,
    /// When the last of them was sent. It may count with the one before.
    newest: Instant,
    pub(super) marks: VecDeque<Mark>,
}

impl Told {
    pub(super) fn new(rules: CallRules) -> Self {
        Self { rules, recent: VecDeque::new(), newest: Instant::ZERO, marks: VecDeque::new() }
    }

    pub(super) fn clear(&mut self) {
        self.recent.clear();
        self.marks.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.marks.is_empty()
    }

    /// Whether that is too little for a rate that can be relied on.
    pub(super) fn is_little(&self) -> bool {
        let ends = self.marks.front().zip(self.marks.back());
        ends.is_none_or(|(first, last)| last.sent.since(first.sent) < self.rules.counted)
    }

    /// Keeps what is needed of a packet.
    pub(super) fn note(&mut self, mark: Mark) {
        let Mark { sent, queue_us, .. } = mark;
        let CallRules { counted, together, .. } = self.rules;
        // Where packets are far apart, each has to speak for itself.
        if self.recent.back().is_some_and(|(at, _)| sent.since(*at) > counted) {
            self.recent.clear();
        }
        match self.recent.back_mut() {
            Some((at, queue)) if sent.since(*at) < together / 12 => *queue = queue_us.min(*queue),
            _ => self.recent.push_back((sent, queue_us)),
        }
        self.newest = sent;
        while self.recent.len() > 2 && self.recent[1].0 + together <= sent {
            self.recent.pop_front();
        }
        if self.marks.back().is_none_or(|mark| sent.since(mark.sent) >= counted / 20) {
            self.marks.push_back(mark);
        }
        while self.marks.len() > 2 && self.marks[1].sent + counted <= sent {
            self.marks.pop_front();
        }
    }

    /// How much longer than the least all packets have been on their way for a moment, in microseconds.
    pub(super) fn queue_us(&self) -> u64 {
        let Some((first, _)) = self.recent.front() else { return 0 };
        let is_long = self.recent.len() == 1 || self.newest.since(*first) >= self.rules.together;
        let least = self.recent.iter().map(|(_, queue)| *queue).min();
        least.filter(|_| is_long).unwrap_or(0)
    }

    /// What has been carried of late.
    pub(super) fn rates(&self) -> Option<Rates> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        let span = last.sent.since(first.sent);
        if span < self.rules.least_span() {
            return None;
        }
        let sent = |of: fn(&Carried) -> u64| {
            of(&last.carried).saturating_sub(of(&first.carried)) as f64 / span.as_secs_f64()
        };
        let (tcp, lane, bulk) = (sent(|c| c.tcp), sent(|c| c.lane), sent(|c| c.bulk));
        let served = self.served(last).unwrap_or(tcp + lane);
        Some(Rates { tcp, lane, bulk, served })
    }

    /// What the link is seen to carry: what is sent while there is no queue, and what comes while there is one.
    pub(super) fn seen(&self) -> Option<f64> {
        let last = self.marks.back()?;
        if last.queue_us > self.rules.same_us() {
            return self.served(last);
        }
        self.rates().map(|rates| rates.tcp + rates.lane)
    }

    /// What the link has carried since it has a queue, up to this mark; no more than was sent. More comes while a queue
    /// goes, but so it seems as well where other delay goes.
    fn served(&self, last: &Mark) -> Option<f64> {
        let busy = self.marks.iter().rev().take_while(|mark| mark.queue_us > self.rules.same_us());
        let first = busy.last()?;
        let is_long = last.sent.since(first.sent) >= self.rules.least_span();
        is_long.then(|| last.served(first).min(last.sent_rate(first)))
    }

    /// What the link has carried while a queue went, up to this mark: the most that any part of the last moment shows.
    /// Delay that goes sooner than any link can empty a queue shows four times what was sent, as long as something
    /// was sent: it was no queue of this end. What TCP leaves empty as it pauses shows little.
    pub(super) fn emptied(&self, last: &Mark) -> f64 {
        let earlier = self.marks.iter().rev().skip_while(|mark| mark.sent >= last.sent);
        let is_late = |mark: &&Mark| last.sent.since(mark.sent) <= self.rules.least_span();
        earlier.take_while(is_late).map(|first| last.served(first)).fold(0.0, f64::max)
    }

    /// How long ago what was told of last was sent.
    pub(super) fn trip(&self, now: Instant) -> Duration {
        self.marks.back().map_or(Duration::ZERO, |mark| now.since(mark.sent))
    }
}
