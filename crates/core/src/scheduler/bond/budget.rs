//! What may be sent twice: a share of the bytes sent, with debt.

use super::super::SendView;

/// What the budget begins with: a chunk for the end of a short transfer.
const BEGINS_WITH: i64 = 64 << 10;

/// Lets a share of the bytes sent go into redundant copies. A copy is paid whole, on credit if need
/// be: after it nothing is left until that has been earned. What is not spent is kept for the end of
/// all data, or for a path that falls behind.
#[derive(Debug)]
pub(super) struct Budget {
    permille: u64,
    available: i64,
    /// New bytes sent so far on the live subflows.
    sent: u64,
    /// New bytes whose share has not been added yet.
    rest: u64,
}

impl Budget {
    pub(super) const fn new(permille: u64) -> Self {
        Self { permille, available: BEGINS_WITH, sent: 0, rest: 0 }
    }

    /// Adds the share of what was sent since the last time.
    pub(super) fn refill(&mut self, view: &SendView<'_>) {
        let sent: u64 = view.subflows.iter().map(|s| s.sent() - s.rescued()).sum();
        // A subflow that is gone takes its count with it.
        self.rest += sent.saturating_sub(self.sent) * self.permille;
        self.sent = sent;
        let earned = i64::try_from(self.rest / 1000).unwrap_or(i64::MAX);
        self.available = self.available.saturating_add(earned);
        self.rest %= 1000;
    }

    /// Whether anything is left.
    pub(super) const fn is_open(&self) -> bool {
        self.available > 0
    }

    /// Takes a copy of so many bytes.
    pub(super) fn charge(&mut self, bytes: u64) {
        self.available = self.available.saturating_sub_unsigned(bytes);
    }
}
