//! Which part of the stream went over which path, and when: what the picture of a connection is drawn
//! from.
//!
//! Ranges that a subflow is given one after the other are one stretch, upwards or downwards. Both ends of
//! an FBDT window (FBDT §3.2) are therefore two stretches that meet. The receiving end records the same
//! of what arrives; it does not know the windows. [`cloth`](super::cloth) makes rows of both.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::Instant;
use crate::path::PathId;
use crate::ranges::RangeSet;
use crate::subflow::Kind;

/// A stretch goes on with what is sent so soon after the last of it.
const PAUSE: Duration = Duration::from_millis(20);
/// So many of the newest stretches may go on: a few for each path.
const OPEN: usize = 16;
/// A stretch that is as long as this, in bytes or in time, is followed by another one: within it, time is
/// taken to pass evenly.
const LONG: u64 = 1 << 20;
const LASTING: Duration = Duration::from_millis(100);
/// A pause of the reader that is as long as this is recorded.
pub const LEAST_WAIT: Duration = Duration::from_millis(50);
/// Holes that a record lists: the lowest.
const HOLES: usize = 256;

/// A part of the stream that one path was given in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The stream offsets, in bytes.
    pub range: Range<u64>,
    /// When its first range was given.
    pub first: Instant,
    /// When its last one was.
    pub last: Instant,
    /// The path.
    pub path: PathId,
    /// Why it was sent.
    pub kind: Kind,
    /// Whether it was sent from its end to its beginning.
    pub is_backward: bool,
    /// How many ranges it consists of.
    pub ranges: u64,
}

/// A time in which the reader could not go on, though later bytes had arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What was missing: from where the reader stood to the first byte that was there.
    pub missing: Range<u64>,
    /// Since when the reader stood there and later bytes were there.
    pub since: Instant,
    /// When the reader could go on.
    pub until: Instant,
}

/// What was recorded of one direction of a connection, as it stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeaveRecord {
    /// The stretches, in the order in which they were begun.
    pub stretches: Vec<Stretch>,
    /// The windows of a scheduler that has such, in the order in which they were begun.
    pub windows: Vec<Range<u64>>,
    /// What the reader has waited for, at least [`LEAST_WAIT`] each; the last may go on.
    pub waits: Vec<Wait>,
    /// Everything below has arrived, as far as this end knows.
    pub in_order: u64,
    /// What has arrived above it, the lowest 256 ranges. See [`WeaveRecord::known_to`].
    pub above: Vec<Range<u64>>,
    /// Stretches that were recorded and are no longer kept.
    pub left_out: u64,
    /// Whether this end receives: it does not know windows.
    pub is_received: bool,
}

impl WeaveRecord {
    /// Up to where the record knows what has arrived, if that has an end: above it there may be more.
    pub fn known_to(&self) -> Option<u64> {
        self.above.last().filter(|_| self.above.len() >= HOLES).map(|last| last.end)
    }
}

/// The newest stretches, and the windows that they fill.
#[derive(Debug)]
pub(super) struct Weave {
    most: usize,
    stretches: VecDeque<Stretch>,
    windows: VecDeque<Range<u64>>,
    waits: VecDeque<Wait>,
    waiting: Option<Wait>,
    left_out: u64,
}

impl Weave {
    /// One that keeps so many stretches, and as many windows and waits, at most.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            stretches: VecDeque::new(),
            windows: VecDeque::new(),
            waits: VecDeque::new(),
            waiting: None,
            left_out: 0,
        }
    }

    /// A subflow on `path` is given a range. `window` is the scheduler's newest one, if it has any.
    pub(super) fn note(
        &mut self,
        range: &Range<u64>,
        (path, kind): (PathId, Kind),
        window: Option<Range<u64>>,
        now: Instant,
    ) {
        let is_at_the_end = window
            .as_ref()
            .is_some_and(|window| range.end == window.end && range.start > window.start);
        if let Some(window) = window
            && !window.is_empty()
            && self.windows.back() != Some(&window)
        {
            keep(&mut self.windows, window, self.most);
        }
        let (mut is_backward, mut first) = (is_at_the_end, now);
        let mut open = self.stretches.iter_mut().rev().take(OPEN);
        if let Some(found) = open.find(|stretch| stretch.goes_on_with(range, path, kind, now)) {
            let is_below = range.end == found.range.start;
            if !found.is_long(now) {
                found.last = now;
                found.ranges += 1;
                found.is_backward = is_below;
                found.range = found.range.start.min(range.start)..found.range.end.max(range.end);
                return;
            }
            (is_backward, first) = (is_below, found.last);
        }
        let (range, last, ranges) = (range.clone(), now, 1);
        let stretch = Stretch { range, first, last, path, kind, is_backward, ranges };
        if keep(&mut self.stretches, stretch, self.most) {
            self.left_out += 1;
        }
    }

    /// The reader stands at `in_order`; what is there beyond it begins with `beyond`.
    pub(super) fn note_order(&mut self, in_order: u64, beyond: Option<u64>, now: Instant) {
        match (&mut self.waiting, beyond) {
            (Some(wait), Some(beyond)) if wait.missing.start == in_order => {
                wait.missing.end = beyond;
                wait.until = now;
            }
            (waiting, beyond) => {
                let next = beyond.map(|beyond| in_order..beyond);
                let next = next.map(|missing| Wait { missing, since: now, until: now });
                if let Some(mut over) = std::mem::replace(waiting, next) {
                    over.until = now;
                    if over.is_long() {
                        keep(&mut self.waits, over, self.most);
                    }
                }
            }
        }
    }

    /// All of it at `now`, where everything below `in_order` has arrived, and `above` beyond it.
    pub(super) fn record(&self, in_order: u64, above: &RangeSet, now: Instant) -> WeaveRecord {
        let waiting = self.waiting.clone().map(|wait| Wait { until: wait.until.max(now), ..wait });
        let waiting = waiting.filter(|wait| wait.is_long() && wait.missing.start == in_order);
        WeaveRecord {
            stretches: self.stretches.iter().cloned().collect(),
            windows: self.windows.iter().cloned().collect(),
            waits: self.waits.iter().cloned().chain(waiting).collect(),
            in_order,
            above: above.iter().take(HOLES).collect(),
            left_out: self.left_out,
            is_received: false,
        }
    }
}

/// Adds one, in place of the oldest if there are enough; whether one was dropped.
fn keep<T>(all: &mut VecDeque<T>, one: T, most: usize) -> bool {
    let is_full = all.len() >= most;
    if is_full {
        all.pop_front();
    }
    all.push_back(one);
    is_full
}

impl Wait {
    fn is_long(&self) -> bool {
        self.until.since(self.since) >= LEAST_WAIT
    }
}

impl Stretch {
    fn is_long(&self, now: Instant) -> bool {
        self.range.end - self.range.start >= LONG || now.since(self.first) > LASTING
    }

    /// Whether a range is the next of it. What has one range only may go on in both directions.
    fn goes_on_with(&self, range: &Range<u64>, path: PathId, kind: Kind, now: Instant) -> bool {
        let is_one = self.ranges == 1;
        let above = range.start == self.range.end && (!self.is_backward || is_one);
        let below = range.end == self.range.start && (self.is_backward || is_one);
        self.path == path && self.kind == kind && (above || below) && now.since(self.last) <= PAUSE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: PathId = PathId(0);
    const DOWN: PathId = PathId(1);

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn seen(weave: &Weave) -> Vec<(u64, Range<u64>, bool)> {
        let stretches = weave.stretches.iter();
        stretches.map(|s| (s.path.0, s.range.clone(), s.is_backward)).collect()
    }

    #[test]
    fn two_ends_that_meet_are_two_stretches() {
        let mut weave = Weave::new(100);
        let window = Some(0..100);
        for (n, ms) in (0..5).zip(10..) {
            weave.note(&(10 * n..10 * n + 10), (UP, Kind::New), window.clone(), at(ms));
            weave.note(&(90 - 10 * n..100 - 10 * n), (DOWN, Kind::New), window.clone(), at(ms));
        }
        assert_eq!(seen(&weave), [(0, 0..50, false), (1, 50..100, true)]);
        assert_eq!(weave.windows.iter().collect::<Vec<_>>(), [&(0..100)]);
        // A copy is another one, and so is what comes after a pause.
        weave.note(&(50..60), (UP, Kind::Copy), window, at(15));
        weave.note(&(100..110), (UP, Kind::New), Some(100..200), at(16));
        weave.note(&(110..120), (UP, Kind::New), Some(100..200), at(40));
        assert_eq!(
            seen(&weave)[2..],
            [(0, 50..60, false), (0, 100..110, false), (0, 110..120, false)]
        );
        assert_eq!(weave.stretches.back().unwrap().first, at(40));
    }

    #[test]
    fn a_stretch_keeps_its_direction_also_within_an_instant() {
        let mut weave = Weave::new(100);
        for range in [10..20, 20..30, 0..10] {
            weave.note(&range, (UP, Kind::New), None, at(1));
        }
        assert_eq!(seen(&weave), [(0, 10..30, false), (0, 0..10, false)]);
    }

    #[test]
    fn a_range_at_a_windows_end_goes_downwards_and_a_long_stretch_is_followed_by_another() {
        let mut weave = Weave::new(100);
        weave.note(&(90..100), (DOWN, Kind::New), Some(0..100), at(0));
        assert_eq!(seen(&weave), [(1, 90..100, true)]);
        let mut weave = Weave::new(100);
        for n in 0..30 {
            let range = 1000 - 10 * (n + 1)..1000 - 10 * n;
            weave.note(&range, (DOWN, Kind::New), Some(0..1000), at(10 * n));
        }
        let cut = [(1, 890..1000, true), (1, 790..890, true), (1, 700..790, true)];
        assert_eq!(seen(&weave), cut);
        let mut weave = Weave::new(100);
        for n in 0..4 {
            weave.note(&(n * LONG..(n + 1) * LONG), (UP, Kind::New), None, at(0));
        }
        assert_eq!(weave.stretches.len(), 4);
    }

    #[test]
    fn the_reader_waits_only_while_it_stands_still_before_what_is_there() {
        let mut weave = Weave::new(100);
        let wait = |missing, since, until| Wait { missing, since: at(since), until: at(until) };
        for ms in 0..200 {
            // It goes on with each acknowledgement.
            weave.note_order(ms, Some(1000), at(ms));
        }
        let above = RangeSet::new();
        assert_eq!(weave.record(199, &above, at(200)).waits, []);
        // Then it stands still, and the hole becomes smaller.
        weave.note_order(500, Some(1000), at(200));
        weave.note_order(500, Some(900), at(240));
        assert_eq!(weave.record(500, &above, at(260)).waits, [wait(500..900, 200, 260)]);
        weave.note_order(2000, None, at(270));
        assert_eq!(weave.record(2000, &above, at(400)).waits, [wait(500..900, 200, 270)]);
    }

    #[test]
    fn as_many_are_kept_as_was_asked_for() {
        let mut weave = Weave::new(10);
        for n in 0..1000 {
            weave.note(&(2 * n..2 * n + 1), (UP, Kind::New), Some(n..n + 1), at(n));
        }
        assert_eq!((weave.stretches.len(), weave.windows.len()), (10, 10));
        assert_eq!(weave.left_out, 990);
    }
}
