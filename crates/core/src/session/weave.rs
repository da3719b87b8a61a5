//! Which part of the stream went over which path, and when: what the picture of a connection is drawn
//! from.
//!
//! Ranges that a subflow is given one after the other are one stretch, upwards or downwards. Both ends of
//! an FBDT window (FBDT §3.2) are therefore two stretches that meet.

use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

use crate::Instant;
use crate::path::PathId;
use crate::subflow::Kind;

/// A stretch goes on with what is sent so soon after the last of it.
const PAUSE: Duration = Duration::from_millis(20);
/// So many of the newest stretches may go on: a few for each path.
const OPEN: usize = 16;

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

/// The newest stretches, and the windows that they fill.
#[derive(Debug)]
pub struct Weave {
    most: usize,
    stretches: VecDeque<Stretch>,
    windows: VecDeque<Range<u64>>,
    left_out: u64,
}

impl Weave {
    /// One that keeps so many stretches, and as many windows, at most.
    pub(super) fn new(most: usize) -> Self {
        Self { most, stretches: VecDeque::new(), windows: VecDeque::new(), left_out: 0 }
    }

    /// A subflow on `path` is given a range. `window` is the scheduler's newest one, if it has any.
    pub(super) fn note(
        &mut self,
        range: &Range<u64>,
        (path, kind): (PathId, Kind),
        window: Option<Range<u64>>,
        now: Instant,
    ) {
        if let Some(window) = window
            && !window.is_empty()
            && self.windows.back() != Some(&window)
        {
            if self.windows.len() >= self.most {
                self.windows.pop_front();
            }
            self.windows.push_back(window);
        }
        let mut open = self.stretches.iter_mut().rev().take(OPEN);
        if let Some(found) = open.find(|stretch| stretch.goes_on_with(range, path, kind, now)) {
            found.last = now;
            found.ranges += 1;
            found.is_backward = range.end == found.range.start;
            found.range = found.range.start.min(range.start)..found.range.end.max(range.end);
            return;
        }
        if self.stretches.len() >= self.most {
            self.stretches.pop_front();
            self.left_out += 1;
        }
        self.stretches.push_back(Stretch {
            range: range.clone(),
            first: now,
            last: now,
            path,
            kind,
            is_backward: false,
            ranges: 1,
        });
    }

    /// The stretches, in the order in which they were begun.
    pub fn stretches(&self) -> impl Iterator<Item = &Stretch> {
        self.stretches.iter()
    }

    /// The windows of a scheduler that has such, in the order in which they were begun.
    pub fn windows(&self) -> impl Iterator<Item = &Range<u64>> {
        self.windows.iter()
    }

    /// Stretches that are no longer kept.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }
}

impl Stretch {
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
        let stretches = weave.stretches();
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
        assert_eq!(weave.windows().collect::<Vec<_>>(), [&(0..100)]);
        // A copy is another one, and so is what comes after a pause.
        weave.note(&(50..60), (UP, Kind::Copy), window, at(15));
        weave.note(&(100..110), (UP, Kind::New), Some(100..200), at(16));
        weave.note(&(110..120), (UP, Kind::New), Some(100..200), at(40));
        assert_eq!(
            seen(&weave)[2..],
            [(0, 50..60, false), (0, 100..110, false), (0, 110..120, false)]
        );
        assert_eq!(weave.stretches().last().unwrap().first, at(40));
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
    fn as_many_are_kept_as_was_asked_for() {
        let mut weave = Weave::new(10);
        for n in 0..1000 {
            weave.note(&(2 * n..2 * n + 1), (UP, Kind::New), Some(n..n + 1), at(n));
        }
        assert_eq!((weave.stretches().count(), weave.windows().count()), (10, 10));
        assert_eq!(weave.left_out(), 990);
    }
}
