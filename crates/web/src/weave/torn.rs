//! What is told of a row that has more parts than a message has room for.

use weftline_core::session::cloth::{Part, Row};
use weftline_core::subflow::Kind;

/// Parts of a row that are told.
const PARTS: usize = 80;
/// Of these, such as were sent again or are copies, at most; what is new has the rest.
const AGAIN: usize = 60;
/// Parts that are shorter than such a share of the row are put together by their paths: first the finest
/// that a picture shows, and the coarsest.
const FINEST: u64 = 512;
const COARSEST: u64 = 4;

/// The parts of a row that a page is told, and how many fewer there are than there were. Short neighbours
/// of several paths are put together, each path's bytes in one: their place is a little another one, and
/// how much each path carried is as it was. What was sent again is kept before what is new, and what is
/// long before what is short.
pub(super) fn told(row: &Row) -> (Vec<Part>, usize) {
    if row.parts.len() <= PARTS {
        return (row.parts.clone(), 0);
    }
    let of = |is_new: bool| {
        let all = row.parts.iter().filter(move |part| (part.kind == Kind::New) == is_new);
        joined(all)
    };
    let (again, new) = (of(false), of(true));
    let all = again.len() + new.len();
    let again = longest(coarse(again, row, AGAIN), AGAIN);
    let room = PARTS - again.len();
    let mut parts = longest(coarse(new, row, room), room);
    parts.extend(again);
    let left = all - parts.len();
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

/// Small neighbours put together by their paths, and no coarser than `most` need it.
fn coarse(parts: Vec<Part>, row: &Row, most: usize) -> Vec<Part> {
    let whole = row.bytes.end - row.bytes.start;
    let mut all = parts.clone();
    let mut share = FINEST;
    while all.len() > most && share >= COARSEST {
        all = sorted(&parts, whole / share);
        share /= 2;
    }
    all
}

/// Neighbours that are shorter than `least` bytes each, and not much more together, as one part for each
/// path and way.
fn sorted(parts: &[Part], least: u64) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    let mut small: Vec<&Part> = Vec::new();
    for part in parts {
        let goes_on = small.last().is_none_or(|last| follows(part, last));
        let together: u64 = small.iter().map(|part| length(part)).sum();
        if !goes_on || length(part) >= least || together >= least {
            put_together(&small, &mut all);
            small.clear();
        }
        if length(part) < least {
            small.push(part);
        } else {
            all.push(part.clone());
        }
    }
    put_together(&small, &mut all);
    all
}

/// Adds neighbours, the bytes of each path and way in one part, in the order of the first of each.
fn put_together(small: &[&Part], all: &mut Vec<Part>) {
    let Some(mut at) = small.first().map(|part| part.range.start) else { return };
    let mut ways: Vec<Part> = Vec::new();
    for part in small {
        let way = (part.path, part.is_backward);
        match ways.iter_mut().find(|other| (other.path, other.is_backward) == way) {
            Some(other) => {
                other.range.end += length(part);
                other.first = other.first.min(part.first);
                other.last = other.last.max(part.last);
            }
            None => ways.push((*part).clone()),
        }
    }
    for way in &mut ways {
        let long = length(way);
        way.range = at..at + long;
        at += long;
    }
    all.extend(ways);
}

/// The longest, so many, in their order.
fn longest(parts: Vec<Part>, most: usize) -> Vec<Part> {
    if parts.len() <= most {
        return parts;
    }
    let mut places: Vec<usize> = (0..parts.len()).collect();
    places.sort_by_key(|place| std::cmp::Reverse(length(&parts[*place])));
    places.truncate(most);
    places.sort_unstable();
    places.into_iter().map(|place| parts[place].clone()).collect()
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

    /// What each path carried of it.
    fn bytes(parts: &[Part]) -> [u64; 3] {
        let mut bytes = [0; 3];
        parts.iter().for_each(|part| bytes[part.path.0 as usize] += length(part));
        bytes
    }

    #[test]
    fn neighbours_of_one_path_are_one_and_small_ones_are_put_together_by_path() {
        // A path that went on, in pieces: all of it is told.
        let parts = (0..200).map(|n| part(10 * n, 10, n / 100, Kind::New)).collect();
        let (all, left) = told(&row(2000, parts));
        let ranges: Vec<_> = all.iter().map(|part| (part.range.clone(), part.path.0)).collect();
        assert_eq!((ranges, left), (vec![(0..1000, 0), (1000..2000, 1)], 0));
        assert_eq!(all[0].last, Instant::from_millis(991));
        // Three paths in turn, with one, three and four bytes in eight: none carries more than it did.
        let parts: Vec<Part> = (0..3000)
            .map(|n| {
                let (start, length) = [(0, 1), (1, 3), (4, 4)][n as usize % 3];
                part(n / 3 * 8 + start, length, n % 3, Kind::New)
            })
            .collect();
        assert_eq!(bytes(&parts), [1000, 3000, 4000]);
        let (all, left) = told(&row(8000, parts));
        assert!(all.len() <= PARTS && left == 3000 - all.len(), "{}", all.len());
        assert_eq!(bytes(&all), [1000, 3000, 4000]);
        assert!(all.windows(2).all(|pair| pair[0].range.end == pair[1].range.start));
        assert_eq!(all.last().unwrap().range.end, 8000);
        // What stands beyond a hole stays there.
        let parts = (0..200).map(|n| part(20 * n + n / 100 * 4000, 20, n % 2, Kind::New));
        let (all, _) = told(&row(8000, parts.collect()));
        assert!(all.len() <= PARTS && all.iter().any(|part| part.range.start == 6000), "{all:?}");
    }
}
