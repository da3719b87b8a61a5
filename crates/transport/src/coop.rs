//! Taking turns: a task that always finds something to do lets the others run now and then.
//!
//! A runtime runs a task until it waits. One that never has to (a sender with memory to fill, a
//! path that is always ready) would keep what it has just woken from running: the writer of another
//! path may sit behind it on the same worker, where no other worker takes it.

use std::task::{Context, Poll};

/// Bytes that a task moves before it lets others run.
const TURN_BYTES: usize = 256 << 10;
/// What a call counts for at least: small ones cost time, too.
const CALL_BYTES: usize = 256;

/// What a task has moved since it let others run.
#[derive(Debug, Default)]
pub(crate) struct CoopBudget(usize);

impl CoopBudget {
    /// Notes that so many bytes were moved, and lets others run if that ends the turn.
    pub(crate) async fn moved(&mut self, bytes: usize) {
        self.count(bytes);
        if self.is_over() {
            tokio::task::yield_now().await;
        }
    }

    /// Notes a call that moved so many bytes, for [`poll`](Self::poll) before the next.
    pub(crate) fn count(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes.max(CALL_BYTES));
    }

    /// Pending once when the turn is over: the task comes again after those that are ready now.
    /// For calls that may be dropped at any time and in any runtime.
    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<()> {
        if !self.is_over() {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Whether the turn is over; another begins.
    fn is_over(&mut self) -> bool {
        let over = self.0 >= TURN_BYTES;
        if over {
            self.0 = 0;
        }
        over
    }
}
