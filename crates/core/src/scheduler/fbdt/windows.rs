//! The transmission windows in flight: consecutive pieces of the stream, each with the path that
//! sends it forward.

use std::collections::VecDeque;
use std::ops::Range;

use crate::path::PathId;

/// One transmission window.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) range: Range<u64>,
    /// The path that works from the low end; the others work from the high end.
    pub(super) forward: PathId,
}

/// Windows from the oldest that is not complete to the newest; contiguous.
#[derive(Debug, Default)]
pub(super) struct Windows {
    open: VecDeque<Window>,
    end: u64,
}

impl Windows {
    /// Where the next window begins.
    pub(super) const fn end(&self) -> u64 {
        self.end
    }

    /// Appends a window, which begins at [`end`](Self::end) or later.
    pub(super) fn open(&mut self, range: Range<u64>, forward: PathId) {
        assert!(range.start >= self.end && !range.is_empty(), "windows follow each other");
        self.end = range.end;
        self.open.push_back(Window { range, forward });
    }

    /// Drops the windows that lie wholly below `una`.
    pub(super) fn forget_below(&mut self, una: u64) {
        while self.open.front().is_some_and(|window| window.range.end <= una) {
            self.open.pop_front();
        }
        self.end = self.end.max(una);
    }

    /// The window that holds `offset`.
    pub(super) fn at(&self, offset: u64) -> Option<&Window> {
        let index = self.open.partition_point(|window| window.range.end <= offset);
        self.open.get(index).filter(|window| window.range.contains(&offset))
    }

    /// Windows not complete at `una`, oldest first.
    pub(super) fn iter_from(&self, una: u64) -> impl Iterator<Item = &Window> {
        self.open.iter().filter(move |window| window.range.end > una)
    }

    /// The window opened last.
    pub(super) fn newest(&self) -> Option<&Window> {
        self.open.back()
    }
}
