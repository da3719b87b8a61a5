//! Messages with deadlines: what the application makes, and what comes of it.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::time::Duration;

use weftline_core::rng::Rng;
use weftline_core::time::nanos;
use weftline_core::{Bitrate, ByteCount, Instant};
use weftline_measure::Delays;
use weftline_scenario::{GOP, MESSAGE_BYTES, MESSAGE_DEADLINE_MS, TILES};

use super::tiles;
use crate::plan::Pattern;
use crate::tcp::MS;

/// A message as made. Times are nanoseconds from the start of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// Its place among all messages.
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    /// What it is worth on time.
    pub(crate) weight: u64,
    pub(crate) made_ns: u64,
    pub(crate) deadline_ns: u64,
}

/// A GoP of tiles.
#[derive(Debug)]
pub(crate) struct Gop {
    /// From its making to its deadline.
    pub(crate) time: Range<Instant>,
    /// The length and the weight of each tile.
    pub(crate) tiles: [(u64, u64); TILES],
}

/// What has come of the messages that count.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// How many were made, their bytes and their weights.
    pub(crate) made: [u64; 3],
    /// Of those, there by their deadline.
    pub(crate) on_time: [u64; 3],
    /// From the making to the whole message's being there.
    pub(crate) delays: Delays,
    /// Each GoP, of tiles.
    pub(crate) gops: Vec<Gop>,
}

/// The messages of an application: one is made whenever the rate has produced those before it.
#[derive(Debug)]
pub(crate) struct Messages {
    rng: Rng,
    pattern: Pattern,
    rate: Bitrate,
    began_ns: u64,
    /// Drawn and not made; never empty.
    next: VecDeque<Made>,
    /// Bytes of the messages before the next one.
    bytes: u64,
    /// Made and not yet the connection's, the first perhaps in part.
    waiting: VecDeque<Made>,
    /// Bytes of the first that the connection has.
    begun: u64,
    /// In a byte stream: where messages end that the connection has.
    ends: VecDeque<(u64, Made)>,
    /// As messages: those that the connection has.
    open: BTreeMap<u64, Made>,
    /// Messages made, and due, in this time count.
    counts: Range<u64>,
    tally: Tally,
}

impl Messages {
    pub(crate) fn new(pattern: Pattern, rate: Bitrate, rng: Rng) -> Self {
        Self {
            rng,
            pattern,
            rate,
            began_ns: 0,
            next: VecDeque::new(),
            bytes: 0,
            waiting: VecDeque::new(),
            begun: 0,
            ends: VecDeque::new(),
            open: BTreeMap::new(),
            counts: 0..0,
            tally: Tally::default(),
        }
    }

    /// Begins to make them; those made and due within `counts` count.
    pub(crate) fn begin(&mut self, now_ns: u64, counts: Range<u64>) {
        self.began_ns = now_ns;
        self.counts = counts;
        self.draw(0);
    }

    /// Draws the message of that number, and those that are made with it.
    fn draw(&mut self, number: u64) {
        match self.pattern {
            Pattern::Steady => self.draw_one(number),
            Pattern::Tiles => self.draw_gop(number),
        }
    }

    fn draw_one(&mut self, number: u64) {
        let mut within = |range: std::ops::RangeInclusive<u64>| {
            range.start() + self.rng.below(range.end() - range.start() + 1)
        };
        let (bytes, ms) = (within(MESSAGE_BYTES), within(MESSAGE_DEADLINE_MS));
        let after = self.rate.time_for(ByteCount::new(self.bytes)).map_or(u64::MAX / 4, nanos);
        let made_ns = self.began_ns + after;
        let deadline_ns = made_ns + ms * MS;
        self.next.push_back(Made { number, bytes, weight: 1, made_ns, deadline_ns });
        self.bytes += bytes;
    }

    fn draw_gop(&mut self, number: u64) {
        let made_ns = self.began_ns + number / TILES as u64 * nanos(GOP);
        let deadline_ns = made_ns + nanos(GOP);
        let drawn = tiles::draw(self.rate.bytes_in(GOP).as_u64(), &mut self.rng);
        for (number, &(bytes, weight)) in (number..).zip(&drawn) {
            self.next.push_back(Made { number, bytes, weight, made_ns, deadline_ns });
        }
        if self.is_counted(&self.next[0]) {
            let time = Instant::from_nanos(made_ns)..Instant::from_nanos(deadline_ns);
            self.tally.gops.push(Gop { time, tiles: drawn });
        }
    }

    /// Makes what is due, and drops what is past its deadline before the connection has any of it.
    fn advance(&mut self, now_ns: u64) {
        while let Some(&made) = self.next.front().filter(|made| made.made_ns <= now_ns) {
            self.next.pop_front();
            if self.is_counted(&made) {
                add(&mut self.tally.made, &made);
            }
            self.waiting.push_back(made);
            if self.next.is_empty() {
                self.draw(made.number + 1);
            }
        }
        while self.begun == 0 && self.waiting.front().is_some_and(|m| m.deadline_ns <= now_ns) {
            self.waiting.pop_front();
        }
    }

    const fn is_counted(&self, made: &Made) -> bool {
        self.counts.start <= made.made_ns && made.deadline_ns <= self.counts.end
    }

    /// Bytes that wait for the connection.
    pub(crate) fn ready(&mut self, now_ns: u64) -> u64 {
        self.advance(now_ns);
        self.waiting.iter().map(|made| made.bytes).sum::<u64>() - self.begun
    }

    /// When the next one is made.
    pub(crate) fn next_ns(&self) -> u64 {
        self.next[0].made_ns
    }

    /// The byte stream has taken the next bytes, up to `end`: when were they made?
    pub(crate) fn wrote(&mut self, from: u64, end: u64, mut each: impl FnMut(u64, u64)) {
        let mut at = from;
        while at < end {
            let first = *self.waiting.front().expect("what is written was made");
            let part = (first.bytes - self.begun).min(end - at);
            (at, self.begun) = (at + part, self.begun + part);
            each(at, first.made_ns);
            if self.begun == first.bytes {
                self.waiting.pop_front();
                self.begun = 0;
                self.ends.push_back((at, first));
            }
        }
    }

    /// All up to `offset` of the byte stream is there.
    pub(crate) fn read(&mut self, offset: u64, now_ns: u64) {
        while let Some(&(end, made)) = self.ends.front()
            && end <= offset
        {
            self.ends.pop_front();
            self.count(&made, now_ns);
        }
    }

    /// The message that a connection of messages is to take next.
    pub(crate) fn first(&mut self, now_ns: u64) -> Option<Made> {
        self.advance(now_ns);
        self.waiting.front().copied()
    }

    /// The connection has taken it.
    pub(crate) fn taken(&mut self) {
        let made = self.waiting.pop_front().expect("it was the first");
        self.open.insert(made.number, made);
    }

    /// A message has come to an end: it is there, or was dropped.
    pub(crate) fn ended(&mut self, number: u64, is_there: bool, now_ns: u64) -> Option<Made> {
        let made = self.open.remove(&number)?;
        if is_there {
            self.count(&made, now_ns);
        }
        Some(made)
    }

    fn count(&mut self, made: &Made, now_ns: u64) {
        if !self.is_counted(made) {
            return;
        }
        if now_ns <= made.deadline_ns {
            add(&mut self.tally.on_time, made);
        }
        self.tally.delays.record(Duration::from_nanos(now_ns - made.made_ns), 1);
    }

    pub(crate) const fn tally(&self) -> &Tally {
        &self.tally
    }
}

fn add([count, bytes, weight]: &mut [u64; 3], made: &Made) {
    *count += 1;
    *bytes += made.bytes;
    *weight += made.weight;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_at_their_rate_and_are_late_after_their_deadline() {
        let mut messages =
            Messages::new(Pattern::Steady, Bitrate::mbps(8), Rng::stream(1, "messages"));
        messages.begin(0, 0..20_000 * MS);
        let ready = messages.ready(10_000 * MS);
        // What is past its deadline is no longer wanted: a second at 1 MB/s is what is left at most.
        assert!((300_000..=1_200_000).contains(&ready), "{ready}");
        let first = messages.first(10_000 * MS).unwrap();
        let [made, bytes, _] = messages.tally().made;
        assert!(made > 80 && bytes.abs_diff(10_000_000) <= 200_000, "{made} {bytes}");
        messages.taken();
        assert_eq!(messages.ended(first.number, true, first.deadline_ns), Some(first));
        assert_eq!(messages.tally().on_time, [1, first.bytes, 1]);
        let second = messages.first(10_000 * MS).unwrap();
        messages.taken();
        messages.ended(second.number, true, second.deadline_ns + 1);
        assert_eq!(messages.tally().on_time, [1, first.bytes, 1]);
    }

    #[test]
    fn in_a_byte_stream_a_message_is_there_with_its_last_byte() {
        let mut messages =
            Messages::new(Pattern::Steady, Bitrate::mbps(8), Rng::stream(1, "messages"));
        messages.begin(0, 0..u64::MAX);
        let first = messages.first(0).unwrap();
        let mut parts = Vec::new();
        messages.wrote(0, 1000, |end, _| parts.push(end));
        messages.wrote(1000, first.bytes, |end, _| parts.push(end));
        assert_eq!(parts, [1000, first.bytes]);
        messages.read(first.bytes - 1, MS);
        assert_eq!(messages.tally().on_time, [0, 0, 0]);
        messages.read(first.bytes, MS);
        assert_eq!(messages.tally().on_time, [1, first.bytes, 1]);
    }
}
