//! What is told of a row that has more parts than a message has room for.

use weftline_core::session::cloth::{Part, Row};
use weftline_core::subflow::Kind;

/// Parts of a row that are told.
const PARTS: usize = 80;
/// Of these, such as were sent again or are copies, at most; what is new has the rest.
const AGAIN: usize = 60;
/// Parts that are shorter than such a share of the row are told as one: first the finest that a picture
/// shows, and the coarsest.
const FINEST: u64 = 512;
const COARSEST: u64 = 64;

/// The parts of a row that a page is told, and how many were left out. What was sent again is kept before
/// what is new, and what is long before what is short.
pub(super) fn told(row: &Row) -> (Vec<Part>, usize) {
    if row.parts.len() <= PARTS {
        return (row.parts.clone(), 0);
    }
    let of = |is_new: bool| {
        let all = row.parts.iter().filter(move |part| (part.kind == Kind::New) == is_new);
        joined(all)
    };
    let (again, mut left) = longest(coarse(of(false), row, AGAIN), AGAIN);
    let room = PARTS - again.len();
    let (mut parts, more) = longest(coarse(of(true), row, room), room);
    left += more;
    parts.extend(again);
    (parts, left)
}

const fn length(part: &Part) -> u64 {
    part.range.end - part.range.start
}

/// Whether a part begins where another ends that was sent for the same reason.
fn follows(part: &Part, last: &Part) -> bool {
    last.range.end == part.range.start && last.kind == part.kind
}

fn join(last: &mut Part, part: &Part) {
    last.range.end = part.range.end;
    last.first = last.first.min(part.first);
    last.last = last.last.max(part.last);
}

/// Neighbours that went the same way, as one.
fn joined<'a>(parts: impl Iterator<Item = &'a Part>) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    for part in parts {
        match all.last_mut() {
            Some(last)
                if follows(part, last)
                    && (last.path, last.is_backward) == (part.path, part.is_backward) =>
            {
                join(last, part);
            }
            _ => all.push(part.clone()),
        }
    }
    all
}

/// Small neighbours as one that looks as the longest of them, and no coarser than `most` need it.
fn coarse(parts: Vec<Part>, row: &Row, most: usize) -> Vec<Part> {
    let whole = row.bytes.end - row.bytes.start;
    let mut parts = parts;
    let mut share = FINEST;
    while parts.len() > most && share >= COARSEST {
        parts = at_resolution(&parts, whole / share);
        share /= 2;
    }
    parts
}

fn at_resolution(parts: &[Part], least: u64) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    let mut leads = 0;
    for part in parts {
        match all.last_mut() {
            Some(last) if follows(part, last) && length(last) < least && length(part) < least => {
                if length(part) > leads {
                    leads = length(part);
                    (last.path, last.is_backward) = (part.path, part.is_backward);
                }
                join(last, part);
            }
            _ => {
                leads = length(part);
                all.push(part.clone());
            }
        }
    }
    all
}

/// The longest, so many, in their order, and how many others there are.
fn longest(parts: Vec<Part>, most: usize) -> (Vec<Part>, usize) {
    let left = parts.len().saturating_sub(most);
    if left == 0 {
        return (parts, 0);
    }
    let mut places: Vec<usize> = (0..parts.len()).collect();
    places.sort_by_key(|place| std::cmp::Reverse(length(&parts[*place])));
    places.truncate(most);
    places.sort_unstable();
    (places.into_iter().map(|place| parts[place].clone()).collect(), left)
}

#[cfg(test)]
mod tests {
    use weftline_core::{Instant, PathId};

    use super::*;

    fn part(start: u64, length: u64, path: u64, kind: Kind) -> Part {
        let (first, last) = (Instant::from_millis(start), Instant::from_millis(start + 1));
        let range = start..start + length;
        Part { range, first, last, path: PathId(path), kind, is_backward: false }
    }

    fn row(length: u64, parts: Vec<Part>) -> Row {
        Row { bytes: 0..length, parts, missing: Vec::new(), wait: None }
    }

    #[test]
    fn what_was_sent_again_is_told_however_torn_the_rest_is() {
        let mut parts: Vec<Part> = (0..200).map(|n| part(50 * n, 50, n % 2, Kind::New)).collect();
        parts.extend((0..9).map(|n| part(9000 + 100 * n, 10, 1, Kind::Reinjection)));
        let (told, left) = told(&row(10_000, parts));
        let again = told.iter().filter(|part| part.kind == Kind::Reinjection).count();
        assert!(again == 9 && told.len() <= PARTS, "{again} of {}", told.len());
        // What is new is told to its end, and what is left out is counted.
        let new: Vec<&Part> = told.iter().filter(|part| part.kind == Kind::New).collect();
        assert!(new.last().unwrap().range.end >= 9_000 || left > 0, "{new:?}");
    }

    #[test]
    fn neighbours_of_one_path_are_one_and_small_ones_look_as_the_longest() {
        // A path that went on, in pieces: all of it is told.
        let parts = (0..200).map(|n| part(10 * n, 10, n / 100, Kind::New)).collect();
        let (all, left) = told(&row(2000, parts));
        let ranges: Vec<_> = all.iter().map(|part| (part.range.clone(), part.path.0)).collect();
        assert_eq!((ranges, left), (vec![(0..1000, 0), (1000..2000, 1)], 0));
        assert_eq!(all[0].last, Instant::from_millis(991));
        // Two paths in turn, the second of which has three bytes in four.
        let parts = (0..2000).map(|n| {
            let (start, length) = if n % 2 == 0 { (0, 1) } else { (1, 3) };
            part(n / 2 * 4 + start, length, n % 2, Kind::New)
        });
        let (all, left) = told(&row(4000, parts.collect()));
        assert!(all.len() <= PARTS && all.iter().all(|part| part.path.0 == 1), "{all:?}");
        assert_eq!((all[0].range.start, all.last().unwrap().range.end, left), (0, 4000, 0));
    }
}
