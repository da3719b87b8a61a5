//! What may be sent twice: a share of the bytes sent.

use super::super::SendView;
use super::super::entry::CHUNK;
use crate::subflow::SEGMENT;

/// What the budget begins with, if anything may be sent twice: the largest chunk, for the end of a short
/// transfer.
const BEGINS_WITH: u64 = CHUNK.1;

/// Lets a share of the bytes sent go into redundant copies, of what is left at the time. What is not
/// spent is kept for the end of all data, or for a path that falls behind.
#[derive(Debug)]
pub(super) struct Budget {
    permille: u64,
    available: u64,
    /// New bytes sent so far on the live subflows.
    sent: u64,
    /// New bytes whose share has not been added yet.
    rest: u64,
}

impl Budget {
    pub(super) const fn new(permille: u64) -> Self {
        let available = if permille == 0 { 0 } else { BEGINS_WITH };
        Self { permille, available, sent: 0, rest: 0 }
    }

    /// Adds the share of what was sent since the last time.
    pub(super) fn refill(&mut self, view: &SendView<'_>) {
        let sent: u64 = view.subflows.iter().map(|s| s.sent() - s.reinjected()).sum();
        // A subflow that is gone takes its count with it.
        self.rest += sent.saturating_sub(self.sent) * self.permille;
        self.sent = sent;
        self.available = self.available.saturating_add(self.rest / 1000);
        self.rest %= 1000;
    }

    /// How much of a chunk may be a copy, if a segment may: copies in crumbs are not worth their
    /// headers.
    pub(super) fn clip(&self, chunk: u64) -> Option<u64> {
        (self.available >= SEGMENT).then(|| chunk.min(self.available))
    }

    /// Takes a copy of so many bytes, for which there was enough.
    pub(super) fn charge(&mut self, bytes: u64) {
        self.available = self.available.saturating_sub(bytes);
    }
}
