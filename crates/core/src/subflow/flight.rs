//! What a subflow was given and how much of that has arrived.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::SEGMENT;
use crate::Instant;
use crate::path::TimeEstimate;

/// A range given to a subflow.
#[derive(Clone, Debug)]
struct Sent {
    range: Range<u64>,
    /// The subflow's payload bytes up to the end of this range, to compare with the delivered
    /// count.
    cumulative: u64,
    /// What it takes of the congestion window: whole segments.
    window: u64,
    at: Instant,
}

/// Ranges on their way, and payload bytes counted.
#[derive(Debug, Default)]
pub(super) struct Flight {
    /// In the order sent, which is the order of delivery: a subflow is one TCP connection.
    ranges: VecDeque<Sent>,
    /// start → (end, when) of `ranges`, to look one up by its offset.
    by_offset: BTreeMap<u64, (u64, Instant)>,
    sent: u64,
    delivered: u64,
    /// What the ranges take of the congestion window, in whole segments.
    window: u64,
    delivery: TimeEstimate,
}

impl Flight {
    /// `range` goes.
    pub(super) fn add(&mut self, range: Range<u64>, now: Instant) {
        let len = range.end - range.start;
        let window = len.next_multiple_of(SEGMENT);
        self.sent += len;
        self.window += window;
        self.by_offset.insert(range.start, (range.end, now));
        self.ranges.push_back(Sent { range, cumulative: self.sent, window, at: now });
    }

    /// So many payload bytes have been received in all. Returns how many are new, or `None` if that is
    /// more than was sent.
    pub(super) fn acknowledge(&mut self, received: u64, now: Instant) -> Option<u64> {
        if received > self.sent {
            return None;
        }
        let new = received.saturating_sub(self.delivered);
        self.delivered += new;
        let mut oldest = None;
        while let Some(front) = self.ranges.front()
            && front.cumulative <= received
        {
            oldest = oldest.or(Some(front.at));
            self.by_offset.remove(&front.range.start);
            self.window -= front.window;
            self.ranges.pop_front();
        }
        if let Some(at) = oldest {
            self.delivery.add(now.since(at));
        }
        Some(new)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges are on their way.
    pub(super) fn ranges(&self) -> usize {
        self.ranges.len()
    }

    pub(super) const fn sent(&self) -> u64 {
        self.sent
    }

    pub(super) const fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// From assignment to our acknowledgement.
    pub(super) const fn delivery(&self) -> &TimeEstimate {
        &self.delivery
    }

    /// When `offset` went, if it is on its way.
    pub(super) fn sent_at(&self, offset: u64) -> Option<Instant> {
        let (_, &(end, at)) = self.by_offset.range(..=offset).next_back()?;
        (end > offset).then_some(at)
    }

    /// The ranges that end above the first `bytes` sent, oldest first, each with the bytes sent up to
    /// its end.
    pub(super) fn oldest_first(&self, bytes: u64) -> impl Iterator<Item = (Range<u64>, u64)> {
        let first = self.ranges.partition_point(|sent| sent.cumulative <= bytes);
        self.ranges.range(first..).map(|sent| (sent.range.clone(), sent.cumulative))
    }

    /// The ranges, youngest first, each with the bytes up to its end that have not been acknowledged, and
    /// when it went.
    pub(super) fn youngest_first(&self) -> impl Iterator<Item = (Range<u64>, u64, Instant)> {
        let sent = self.ranges.iter().rev();
        sent.map(|sent| (sent.range.clone(), sent.cumulative - self.delivered, sent.at))
    }
}
