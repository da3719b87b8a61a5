//! Which message a path takes bytes of, where messages have deadlines: the first that all paths together
//! can still bring whole in time, and of which this path's part would be in time.
//!
//! A message is of use only whole. Bytes of one that comes late take the place of others that would have
//! been in time, so they stay unsent until the deadline drops the message, also when it has been begun.

use std::ops::Range;

use super::super::{SendView, estimate};

/// Messages that are looked at, in the order in which they were sent: more wait only where hardly any can
/// be in time. Behind these only messages without a deadline are looked for.
const LOOKED_AT: usize = 256;

/// The bytes that `view.subflows[me]` takes new ones of.
pub(super) fn next_message(me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
    let subflow = &view.subflows[me];
    // Bytes that go before, on other paths.
    let (mut at, mut ahead) = (view.una, 0);
    for _ in 0..LOOKED_AT {
        let Some(open) = view.unassigned.first_in(&(at..view.limit)) else {
            return unknown(me, view);
        };
        let Some((message, deadline)) = view.message_at(open.start) else {
            return unknown(me, view);
        };
        let part = open.start..message.end.min(view.limit);
        let Some(deadline) = deadline else { return Some(open.start..undated(message.end, view)) };
        at = part.end;
        let left = deadline.since(view.now);
        let bytes = view.unassigned_in(&part);
        let each = view.usable().map(|one| estimate::deliverable(view, one, left));
        if each.fold(0, u64::saturating_add) < ahead + bytes {
            continue;
        }
        if estimate::deliverable(view, subflow, left) >= view.chunk(me).min(bytes) {
            return Some(part);
        }
        ahead += bytes;
    }
    next_undated(at, view).or_else(|| unknown(me, view))
}

/// Whether the byte at `offset` is of a message with a deadline.
pub(super) fn is_dated(offset: u64, view: &SendView<'_>) -> bool {
    view.message_at(offset).is_some_and(|(_, deadline)| deadline.is_some())
}

/// What there is, hopeless as it is, for a path of which nobody knows what it brings: it has nothing on its
/// way or is in slow start. That would not be known if the path were given nothing.
fn unknown(me: usize, view: &SendView<'_>) -> Option<Range<u64>> {
    let subflow = &view.subflows[me];
    let is_unknown = subflow.outstanding() == 0 || subflow.is_in_slow_start();
    view.next_unsent().filter(|_| is_unknown)
}

/// The first unsent bytes from `at` on that are of a message without a deadline.
fn next_undated(mut at: u64, view: &SendView<'_>) -> Option<Range<u64>> {
    for _ in 0..LOOKED_AT {
        let open = view.unassigned.first_in(&(at..view.limit))?;
        let message = view.undated_from(open.start)?;
        let part = message.start.max(open.start)..message.end.min(view.limit);
        if let Some(open) = view.unassigned.first_in(&part) {
            return Some(open.start..undated(message.end, view));
        }
        at = message.end;
    }
    None
}

/// How far messages go on, from `end` on, that have no deadline.
fn undated(mut end: u64, view: &SendView<'_>) -> u64 {
    for _ in 0..LOOKED_AT {
        let Some((message, None)) = view.message_at(end) else { break };
        end = message.end;
    }
    end.min(view.limit)
}
