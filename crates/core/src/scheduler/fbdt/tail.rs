//! The end of all data, when a path has nothing left to send: which bytes of the others it would
//! deliver sooner than they do.

use std::ops::Range;

use super::super::SendView;
use super::forecast;
use crate::subflow::Subflow;

/// A path that is so many times as near as another's round trip is long has all that is on its way
/// there delivered before one repair.
const NEARER: u32 = 3;

/// What another path will deliver last, if this one has it there sooner.
pub(super) fn last(me: usize, view: &SendView<'_>, allowed: u64) -> Option<Range<u64>> {
    let subflow = &view.subflows[me];
    let chunk = view.chunk(subflow, allowed);
    let mine = forecast::arrival(view, subflow, chunk);
    let others = || view.subflows.iter().filter(|other| other.id() != subflow.id());
    let youngest = |other: &Subflow| {
        let elsewhere = |range: &Range<u64>| {
            others().any(|third| third.id() != other.id() && third.on().first_in(range).is_some())
        };
        other.in_flight_from_last().find_map(|(range, ahead, at)| {
            let open = view.highest_foreign(subflow, &range).filter(|open| !elsewhere(open))?;
            let left = forecast::left(view, other, ahead, view.now.since(at));
            Some((left, open.start.max(open.end.saturating_sub(chunk))..open.end))
        })
    };
    let (left, range) = others().filter_map(youngest).max_by_key(|(left, _)| *left)?;
    (left > mine).then_some(range)
}

/// What is on its way on a path much farther away, lowest first: one of its repairs would take as
/// long as all of it does here.
pub(super) fn far(me: usize, view: &SendView<'_>, allowed: u64) -> Option<Range<u64>> {
    let subflow = &view.subflows[me];
    let chunk = view.chunk(subflow, allowed);
    let mine = forecast::arrival(view, subflow, chunk);
    let others = || view.subflows.iter().filter(|other| other.id() != subflow.id());
    let is_far = |other: &&Subflow| mine * NEARER <= other.rtt();
    // What a nearer path has as well is there soon anyway.
    let near = || others().filter(|other| !is_far(other));
    let uncopied = |other: &Subflow| {
        let mut at = view.una;
        while let Some(part) = other.on().first_in(&(at..u64::MAX)) {
            at = part.start;
            while at < part.end
                && let Some(open) = view.lowest_foreign(subflow, &(at..part.end))
            {
                let Some(copy) = near().find_map(|near| near.on().range_at(open.start)) else {
                    let copies = near().filter_map(|near| near.on().first_in(&open));
                    let end = copies.map(|copy| copy.start).min().unwrap_or(open.end);
                    return Some(open.start..end.min(open.start + chunk));
                };
                at = copy.end;
            }
            at = part.end;
        }
        None
    };
    others().filter(is_far).filter_map(uncopied).min_by_key(|range| range.start)
}
