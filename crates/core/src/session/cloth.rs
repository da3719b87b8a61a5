//! The cloth: rows of the stream, and in each which path carried which part of it. The dashboard and the
//! simulator draw the same rows.
//!
//! A row is a window of the scheduler. Where the windows are not known, as at the receiving end, they are
//! inferred: what is filled downwards began at the end of a window. Where nothing is filled downwards, or
//! by several paths at a time, a row is a MiB of the stream, or what of it lies before a window or has
//! come after the last.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::time::Duration;

use super::weave::{Stretch, Wait, WeaveRecord};
use crate::Instant;
use crate::path::PathId;
use crate::ranges::RangeSet;
use crate::subflow::Kind;

/// Bytes of a row where there are no windows, and the most that a row has whose window is inferred.
pub const ROW_BYTES: u64 = 1 << 20;
/// Ranges of one row that are listed as missing: of more, such as lie closest are one.
const HOLES: usize = 16;

/// How the rows were cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// They are the scheduler's windows.
    Windows,
    /// They are windows as the direction of stretches shows them.
    Inferred,
    /// They are [`ROW_BYTES`] each.
    Fixed,
}

/// What one path was given of a row in one go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The stream offsets, in bytes.
    pub range: Range<u64>,
    /// When the first of it was given.
    pub first: Instant,
    /// When the last of it was.
    pub last: Instant,
    /// The path.
    pub path: PathId,
    /// Why it was sent.
    pub kind: Kind,
    /// Whether it was sent from its end to its beginning.
    pub is_backward: bool,
}

/// A row of the cloth.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The stream offsets, in bytes.
    pub bytes: Range<u64>,
    /// What is in it: what was new first, in the order of the stream, then what was sent again.
    pub parts: Vec<Part>,
    /// What of it was given to a path and has not arrived, as far as the record knows; 16 ranges at
    /// most, of which one may have what has arrived between two.
    pub missing: Vec<Range<u64>>,
    /// The longest time that the reader stood still within it, if it did.
    pub wait: Option<Wait>,
}

impl Row {
    /// When the first of it was sent.
    pub fn began(&self) -> Instant {
        self.parts.iter().map(|part| part.first).min().unwrap_or(Instant::ZERO)
    }

    /// When the last of it was.
    pub fn ended(&self) -> Instant {
        self.parts.iter().map(|part| part.last).max().unwrap_or(Instant::ZERO)
    }

    /// When the last of what is new in it was sent.
    pub fn filled(&self) -> Instant {
        let new = self.parts.iter().filter(|part| part.kind == Kind::New);
        new.map(|part| part.last).max().unwrap_or(self.began())
    }

    /// Bytes that were sent again, as copies or in place of what a stalled path has.
    pub fn repeated(&self) -> u64 {
        let again = self.parts.iter().filter(|part| part.kind != Kind::New);
        again.map(|part| part.range.end - part.range.start).sum()
    }

    /// How long the reader stood still within it.
    pub fn waited(&self) -> Duration {
        self.wait.as_ref().map_or(Duration::ZERO, |wait| wait.until.since(wait.since))
    }

    /// Whether it shows anything but two ends that meet.
    pub fn is_notable(&self) -> bool {
        self.wait.is_some() || self.repeated() > 0
    }
}

/// The rows of a record whose stretches began at `from` or later, in the order of the stream.
pub fn rows(record: &WeaveRecord, from: Instant) -> (Cut, Vec<Row>) {
    let mut stretches: Vec<&Stretch> =
        record.stretches.iter().filter(|stretch| stretch.first >= from).collect();
    stretches.sort_by_key(|stretch| (stretch.range.start, stretch.first));
    let longest = stretches.iter().map(|one| one.range.end - one.range.start).max().unwrap_or(0);
    let (cut, bounds) = bounds(record, &stretches);
    let row = |bytes: Range<u64>| {
        // None that begins earlier reaches so far.
        let first = stretches.partition_point(|one| one.range.start + longest < bytes.start);
        let near = stretches[first..].iter().take_while(|one| one.range.start < bytes.end);
        let mut parts: Vec<Part> = near.filter_map(|stretch| part(stretch, &bytes)).collect();
        parts.sort_by_key(|part| part.kind != Kind::New);
        let missing = missing(record, &parts, &bytes);
        let waits = record.waits.iter().filter(|wait| bytes.contains(&wait.missing.start));
        let wait = waits.max_by_key(|wait| wait.until.since(wait.since)).cloned();
        Row { bytes, parts, missing, wait }
    };
    let rows = bounds.into_iter().map(row).filter(|row| !row.parts.is_empty());
    (cut, rows.collect())
}

/// Of the rows that were begun within each `slot` of time from `from` on the one that shows the most: where
/// the reader stood still for the longest time, or most was sent again. Comes with the slot's number.
///
/// # Panics
/// If `slot` is zero.
pub fn choose(rows: Vec<Row>, from: Instant, slot: Duration) -> BTreeMap<u64, Row> {
    let mut chosen: BTreeMap<u64, Row> = BTreeMap::new();
    for row in rows.into_iter().filter(|row| row.began() >= from) {
        let number = (row.began().since(from).as_nanos() / slot.as_nanos()) as u64;
        let shows = |row: &Row| (row.waited(), row.repeated());
        match chosen.entry(number) {
            Entry::Occupied(mut other) if shows(other.get()) < shows(&row) => {
                other.insert(row);
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(place) => {
                place.insert(row);
            }
        }
    }
    chosen
}

/// Where rows begin and end. What was sent before is cut off: rows are whole, but for the last.
fn bounds(record: &WeaveRecord, stretches: &[&Stretch]) -> (Cut, Vec<Range<u64>>) {
    let fresh = || stretches.iter().filter(|stretch| stretch.kind == Kind::New);
    let (Some(start), Some(end)) = (
        fresh().map(|stretch| stretch.range.start).min(),
        fresh().map(|stretch| stretch.range.end).max(),
    ) else {
        return (Cut::Fixed, Vec::new());
    };
    if !record.windows.is_empty() {
        let mut windows = record.windows.clone();
        windows.retain(|window| window.start >= start && window.start < end);
        windows.sort_by_key(|window| (window.start, window.end));
        windows.dedup();
        return (Cut::Windows, windows);
    }
    // A window ends where what is filled downwards began.
    let backward: Vec<&Stretch> = fresh().filter(|one| one.is_backward).copied().collect();
    let mut ends = match record.is_received && !is_by_several(&backward) {
        true => tops(&backward),
        false => Vec::new(),
    };
    ends.sort_unstable();
    ends.dedup();
    if ends.len() < 2 {
        // What was sent again may be of before.
        let start = stretches.first().map_or(start, |stretch| stretch.range.start);
        let first = start - start % ROW_BYTES;
        let rows = (0..).map(|row| first + row * ROW_BYTES).take_while(|row| *row < end);
        return (Cut::Fixed, rows.map(|row| row..row + ROW_BYTES).collect());
    }
    // While no path fills downwards there are rows as well. What the record has dropped is not whole.
    if start < ends[0] && record.left_out == 0 {
        ends.insert(0, start);
    }
    if ends.last().is_some_and(|last| *last < end) {
        ends.push(end);
    }
    let pairs = ends.windows(2).flat_map(|pair| {
        let most = ROW_BYTES as usize;
        (pair[0]..pair[1]).step_by(most).map(|at| at..pair[1].min(at + ROW_BYTES))
    });
    (Cut::Inferred, pairs.collect())
}

/// Whether several paths fill downwards at the same time, as with three paths and more: then each end of
/// one of their stretches may be anything, and no end of a window. More than a quarter of the bytes says so,
/// as paths may also change their roles.
fn is_by_several(backward: &[&Stretch]) -> bool {
    let mut by_time = backward.to_vec();
    by_time.sort_by_key(|stretch| stretch.first);
    let mut until: BTreeMap<PathId, Instant> = BTreeMap::new();
    let (mut together, mut all) = (0, 0);
    for Stretch { range, first, last, path, .. } in by_time {
        let bytes = range.end - range.start;
        all += bytes;
        if until.iter().any(|(other, until)| other != path && until > first) {
            together += bytes;
        }
        let until = until.entry(*path).or_insert(*last);
        *until = (*until).max(*last);
    }
    together * 4 > all
}

/// Where stretches that go downwards began, in the order of the stream: not those that another one of
/// their path goes on as, which was there before. What follows the whole of a later window downwards was not.
fn tops(backward: &[&Stretch]) -> Vec<u64> {
    let goes_on = |one: &Stretch| {
        let above = backward.partition_point(|other| other.range.start < one.range.end);
        let mut above =
            backward[above..].iter().take_while(|other| other.range.start == one.range.end);
        above.any(|other| other.path == one.path && other.first < one.first)
    };
    backward.iter().filter(|one| !goes_on(one)).map(|one| one.range.end).collect()
}

/// What of a stretch is in a row. Within a stretch time is taken to pass evenly.
fn part(stretch: &Stretch, bytes: &Range<u64>) -> Option<Part> {
    let Stretch { range, first, last, path, kind, is_backward, .. } = stretch;
    let start = range.start.max(bytes.start);
    let end = range.end.min(bytes.end);
    if start >= end {
        return None;
    }
    let took = last.since(*first).as_secs_f64();
    let whole = (range.end - range.start) as f64;
    let at = |offset: u64| {
        let along = match is_backward {
            true => range.end - offset,
            false => offset - range.start,
        };
        *first + Duration::from_secs_f64(took * along as f64 / whole)
    };
    let (first, last) = match is_backward {
        true => (at(end), at(start)),
        false => (at(start), at(end)),
    };
    let (path, kind, is_backward) = (*path, *kind, *is_backward);
    Some(Part { range: start..end, first, last, path, kind, is_backward })
}

/// What of the parts of a row has not arrived, as far as that is known.
fn missing(record: &WeaveRecord, parts: &[Part], bytes: &Range<u64>) -> Vec<Range<u64>> {
    if record.in_order >= bytes.end {
        return Vec::new();
    }
    let mut missing = RangeSet::new();
    match record.is_received {
        // What has come was given, and what lies before it.
        true => {
            let last = parts.iter().map(|part| part.range.end).max();
            missing.insert(bytes.start..last.unwrap_or(bytes.start).max(bytes.start));
        }
        false => {
            for part in parts {
                missing.insert(part.range.clone());
            }
        }
    }
    missing.remove_below(record.in_order);
    let first = record.above.partition_point(|range| range.end <= bytes.start);
    for range in record.above[first..].iter().take_while(|range| range.start < bytes.end) {
        missing.remove(range.clone());
    }
    if let Some(known) = record.known_to()
        && known < bytes.end
    {
        missing.remove(known..bytes.end);
    }
    few(missing.iter().collect())
}

/// Holes as [`HOLES`] at most: those that lie closest are one.
fn few(holes: Vec<Range<u64>>) -> Vec<Range<u64>> {
    if holes.len() <= HOLES {
        return holes;
    }
    let mut gaps: Vec<usize> = (1..holes.len()).collect();
    gaps.sort_by_key(|at| std::cmp::Reverse(holes[*at].start - holes[*at - 1].end));
    gaps.truncate(HOLES - 1);
    gaps.sort_unstable();
    let starts = std::iter::once(0).chain(gaps.iter().copied());
    let ends = gaps.iter().copied().chain([holes.len()]);
    starts.zip(ends).map(|(start, end)| holes[start].start..holes[end - 1].end).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "a record may have one range")]

    use super::*;

    const UP: u64 = 0;
    const DOWN: u64 = 1;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn stretch(range: Range<u64>, ms: Range<u64>, path: u64, kind: Kind) -> Stretch {
        let (first, last) = (at(ms.start), at(ms.end));
        let is_backward = path == DOWN;
        Stretch { range, first, last, path: PathId(path), kind, is_backward, ranges: 2 }
    }

    /// Two windows that are filled from both ends; the second one's lower part has not arrived.
    fn record() -> WeaveRecord {
        WeaveRecord {
            stretches: vec![
                stretch(0..300, 0..10, UP, Kind::New),
                stretch(300..1000, 0..10, DOWN, Kind::New),
                stretch(1000..1500, 11..20, UP, Kind::New),
                stretch(1500..2000, 10..20, DOWN, Kind::New),
                stretch(1000..1200, 90..95, DOWN, Kind::Reinjection),
            ],
            windows: vec![0..1000, 1000..2000],
            waits: vec![Wait { missing: 1000..1500, since: at(30), until: at(95) }],
            in_order: 1000,
            above: vec![1500..2000],
            ..WeaveRecord::default()
        }
    }

    fn seen(rows: &[Row]) -> Vec<(Range<u64>, usize)> {
        rows.iter().map(|row| (row.bytes.clone(), row.parts.len())).collect()
    }

    #[test]
    fn a_row_is_a_window_and_shows_what_is_missing_sent_again_and_waited_for() {
        let (cut, rows) = rows(&record(), Instant::ZERO);
        assert_eq!((cut, seen(&rows)), (Cut::Windows, vec![(0..1000, 2), (1000..2000, 3)]));
        assert!(!rows[0].is_notable() && rows[0].missing.is_empty());
        let row = &rows[1];
        assert_eq!((row.began(), row.ended(), row.repeated()), (at(10), at(95), 200));
        assert_eq!((&row.missing, row.waited()), (&vec![1000..1500], Duration::from_millis(65)));
        assert!(row.is_notable());
        // What was sent before is cut off.
        assert_eq!(seen(&super::rows(&record(), at(10)).1), [(1000..2000, 3)]);
    }

    #[test]
    fn only_what_was_given_is_missing_and_beyond_what_is_known_nothing_is_said() {
        let mut record = record();
        record.stretches.truncate(2);
        record.windows = vec![0..1000];
        // The middle was never given.
        record.stretches[1].range = 600..1000;
        (record.in_order, record.above) = (0, vec![900..950]);
        let holes = |record: &WeaveRecord| rows(record, Instant::ZERO).1[0].missing.clone();
        assert_eq!(holes(&record), [0..300, 600..900, 950..1000]);
        // Many holes are few, that reach as far.
        record.above = (0..40).map(|n| 602 + 10 * n..604 + 10 * n).collect();
        let many = holes(&record);
        assert_eq!((many.len(), &many[0], many[15].end), (HOLES, &(0..300), 1000));
        // As many ranges as a record has at most: what is above them is not known.
        record.above = (0..256).map(|n| 602 + n..603 + n).collect();
        assert_eq!(record.known_to(), Some(858));
        assert_eq!(holes(&record), [0..300, 600..602]);
    }

    #[test]
    fn of_many_rows_those_that_show_something_are_chosen() {
        let row = |n: u64| Row {
            bytes: 10 * n..10 * n + 10,
            parts: rows(&record(), Instant::ZERO).1[0].parts[..1].to_vec(),
            missing: Vec::new(),
            wait: None,
        };
        let many = (0..100).map(|n| {
            let mut row = row(n);
            row.parts[0].first = at(n);
            if n == 37 {
                row.wait = Some(Wait { missing: 370..375, since: at(40), until: at(140) });
            }
            row
        });
        let chosen = choose(many.collect(), at(10), Duration::from_millis(20));
        let starts: Vec<_> = chosen.iter().map(|(n, row)| (*n, row.bytes.start)).collect();
        assert_eq!(starts, [(0, 100), (1, 370), (2, 500), (3, 700), (4, 900)]);
    }

    #[test]
    fn the_receiving_end_infers_windows_from_what_came_downwards() {
        let mut record = record();
        record.windows.clear();
        record.is_received = true;
        let (cut, inferred) = rows(&record, Instant::ZERO);
        let all = vec![(0..1000, 2), (1000..2000, 3)];
        assert_eq!((cut, seen(&inferred)), (Cut::Inferred, all));
        // What another stretch goes on as ends no window.
        record.stretches[3].range = 1800..2000;
        record.stretches.push(stretch(1500..1800, 25..30, DOWN, Kind::New));
        assert_eq!(seen(&rows(&record, Instant::ZERO).1), [(0..1000, 2), (1000..2000, 4)]);
        // What comes upwards alone after the last of them has rows, too.
        record.stretches.push(stretch(2000..5000 + ROW_BYTES, 31..90, UP, Kind::New));
        let more = [(2000..2000 + ROW_BYTES, 1), (2000 + ROW_BYTES..5000 + ROW_BYTES, 1)];
        assert_eq!(seen(&rows(&record, Instant::ZERO).1)[2..], more);
        // What lies before the first is not whole once some of it was dropped.
        record.left_out = 1;
        assert_eq!(seen(&rows(&record, Instant::ZERO).1)[0], (1000..2000, 4));
        record.left_out = 0;
        // And without any direction a row is a MiB, in which time passes evenly.
        let long = stretch(0..4 * ROW_BYTES, 0..400, UP, Kind::New);
        record.stretches = vec![long];
        let (cut, fixed) = rows(&record, Instant::ZERO);
        assert_eq!((cut, fixed.len()), (Cut::Fixed, 4));
        assert_eq!((fixed[1].began(), fixed[1].ended()), (at(100), at(200)));
    }
}
