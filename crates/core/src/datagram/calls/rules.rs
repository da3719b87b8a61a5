//! What calls are protected by: values, and what follows from them.

use std::time::Duration;

use crate::{Bitrate, Instant};

/// What calls are protected by. What is not by a standard is what did best in the simulator, where each was varied
/// with an earlier law (`docs/results.md`, "Calls beside a download").
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CallRules {
    /// How much longer than the least a packet may be on its way, beside what a few packets take: half of what a call
    /// is to wait at most, as a queue shows when it has grown for a round trip.
    pub margin: Duration,
    /// The delay of packets sent within so long counts together: the least of them is that of a queue, and not of
    /// a radio that repeats.
    pub together: Duration,
    /// What is sent is counted over so long.
    pub counted: Duration,
    /// The share of what the link was seen to carry that is left after a cut.
    pub share: f64,
    /// Until the queue is empty, half of that is taken away as well if it is so long, and less if it is shorter.
    pub long_queue: Duration,
    /// The least that is held back, and the least it is held to.
    pub least: Bitrate,
    /// Nor is it held to less than this part of the most that the link was seen to carry before it was held.
    pub least_part: f64,
    /// By what part of itself the limit grows in a second, at first.
    pub growth: f64,
    /// The same where the link has carried a quarter more of late.
    pub regrowth: f64,
    /// The limit counts as used from this part of it on.
    pub used: f64,
    /// How long it is kept while it is not, and while nothing tells of the lane: longer than from one ping to the
    /// next, which is a second.
    pub unused: Duration,
    /// How long the rate is halved at most to learn the least delay.
    pub search: Duration,
    /// How long a path is left alone at first where the queue does not follow, and is another's; twice as long each
    /// time.
    pub rest: Duration,
    /// How long a path is held after the last packet of a call, and what is late: the least delay is one of twice
    /// to three times as long.
    pub late: Duration,
}

impl Default for CallRules {
    /// What the daemons have.
    fn default() -> Self {
        Self {
            margin: Duration::from_millis(15),
            together: Duration::from_millis(60),
            counted: Duration::from_millis(500),
            share: 0.95,
            long_queue: Duration::from_millis(200),
            least: Bitrate::bps(500_000),
            least_part: 0.2,
            growth: 0.01,
            regrowth: 0.5,
            used: 0.75,
            unused: Duration::from_millis(2500),
            search: Duration::from_millis(1500),
            rest: Duration::from_secs(30),
            late: Duration::from_secs(10),
        }
    }
}

impl CallRules {
    /// A rate over less time than that says nothing.
    pub(super) fn least_span(&self) -> Duration {
        self.counted / 5
    }

    /// When a queue of this length is empty that becomes shorter by `part` of a second in each from `now` on: twice
    /// the time that this takes.
    pub(super) fn drained(&self, queue_us: u64, part: f64, now: Instant) -> Instant {
        let queue = Duration::from_micros(queue_us).min(2 * self.long_queue);
        now + queue.div_f64(part) * 2 + 2 * self.together
    }

    /// Delays that differ by less are the same, in microseconds.
    pub(super) fn same_us(&self) -> u64 {
        micros(self.margin) / 3
    }

    /// In bytes a second.
    pub(super) fn least_rate(&self) -> f64 {
        self.least.as_bps() as f64 / 8.0
    }
}

/// A time in microseconds.
pub(super) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
