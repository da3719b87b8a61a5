//! The credit that the peer has given, and how much would be of use.

use std::time::Duration;

use crate::Instant;
use crate::wire::INITIAL_CREDIT;

/// How often the wish for credit is worked out.
const WISH_INTERVAL: Duration = Duration::from_millis(10);

#[derive(Debug)]
pub(super) struct Credit {
    /// The peer lets us send below this offset.
    limit: u64,
    /// How far that is above the in-order point.
    window: u64,
    /// The widest that the window has been, and whether sending has stopped for lack of credit since
    /// it became so wide.
    widest: u64,
    is_starved: bool,
    /// When sending last stopped for lack of it.
    starved_at: Option<Instant>,
    wish: u64,
    wish_at: Instant,
    is_wish_new: bool,
}

impl Credit {
    /// What a peer may send unasked.
    pub(super) const fn new() -> Self {
        Self {
            limit: INITIAL_CREDIT,
            window: INITIAL_CREDIT,
            widest: INITIAL_CREDIT,
            is_starved: false,
            starved_at: None,
            wish: 0,
            wish_at: Instant::ZERO,
            is_wish_new: false,
        }
    }

    /// Nothing at or above this offset may be sent.
    pub(super) const fn limit(&self) -> u64 {
        self.limit
    }

    /// How far that was above the in-order point at the last acknowledgement.
    pub(super) const fn window(&self) -> u64 {
        self.window
    }

    /// How much we would like to have outstanding.
    pub(super) const fn wish(&self) -> u64 {
        self.wish
    }

    /// Whether the peer does not know the wish yet.
    pub(super) const fn take_new_wish(&mut self) -> bool {
        std::mem::replace(&mut self.is_wish_new, false)
    }

    /// The peer gives credit up to `limit`, and has everything below `una`.
    pub(super) fn handle(&mut self, limit: u64, una: u64) {
        self.limit = self.limit.max(limit);
        self.window = self.limit.saturating_sub(una);
        if self.window > self.widest + self.widest / 8 {
            self.widest = self.window;
            self.is_starved = false;
        }
    }

    /// Sending has stopped for lack of credit.
    pub(super) const fn starve(&mut self, now: Instant) {
        (self.is_starved, self.starved_at) = (true, Some(now));
    }

    /// Whether the wish is to be worked out again.
    pub(super) fn is_wish_due(&self, now: Instant) -> bool {
        now.since(self.wish_at) >= WISH_INTERVAL
    }

    /// Wishes for `wanted` bytes, at most `most`, by the rates measured. After a stop for lack of
    /// credit these are too low, so the wish doubles instead: once for each width of the credit that
    /// turned out too small, and not for the little that holds before the first acknowledgement.
    pub(super) fn wish_for(&mut self, wanted: u64, most: u64, now: Instant) {
        self.wish_at = now;
        let mut wish = wanted;
        let is_recent = self.starved_at.is_some_and(|at| now.since(at) < 2 * WISH_INTERVAL);
        // Less credit than was granted means that the application does not read: more would only
        // fill its memory.
        let granted = self.window.saturating_mul(10) >= self.wish.saturating_mul(9);
        if is_recent && granted && self.is_starved {
            wish = wish.max(self.window * 2);
        }
        let wish = wish.min(most);
        if wish > self.wish + self.wish / 4 {
            self.wish = wish;
            self.is_wish_new = true;
        }
    }
}
