//! The transmission windows in flight: consecutive pieces of the stream, each with the paths that
//! work at its ends.
//!
//! With one or two paths a window is one gap: the forward path takes from its low end, the other
//! from its high end. With more it is cut into gaps, each with two ends, and each end is worked by
//! at most one path, so that any two paths that meet send towards each other.

use std::collections::VecDeque;
use std::ops::Range;

use super::super::SendView;
use crate::path::PathId;

/// A part of a window that is worked from both ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) range: Range<u64>,
    low: Option<PathId>,
    high: Option<PathId>,
}

/// Where a path takes from a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Low,
    High,
}

/// A path that may work on a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Worker {
    pub(super) path: PathId,
    /// Its rate in any unit; windows are cut by it.
    pub(super) rate: u64,
    /// What it takes at a time, in bytes.
    pub(super) chunk: u64,
}

/// One transmission window: at least one gap, contiguous.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Window {
    pub(super) range: Range<u64>,
    gaps: Vec<Gap>,
}

impl Gap {
    /// The end from which the path works, or comes back to rescue: who does not own the low end
    /// comes from the high one.
    pub(super) fn side(&self, path: PathId) -> End {
        if self.low == Some(path) { End::Low } else { End::High }
    }

    fn is_owned_by(&self, path: PathId) -> bool {
        self.low == Some(path) || self.high == Some(path)
    }

    /// From the first byte that nobody has been given to the last one.
    fn open(&self, view: &SendView<'_>) -> Option<Range<u64>> {
        let first = view.unassigned.first_in(&(self.range.start.max(view.una)..self.range.end))?;
        let last = view.unassigned.last_in(&self.range)?;
        Some(first.start..last.end)
    }
}

impl Window {
    /// A window that `workers` begin on, of whom the first goes forward, in the order in which
    /// what they send arrives: those whose bytes take longest hold up the fewest.
    fn new(range: Range<u64>, workers: &[Worker]) -> Self {
        let size = range.end - range.start;
        let rate = |workers: &[Worker]| workers.iter().map(|worker| worker.rate).sum::<u64>();
        let all = rate(workers).max(1);
        let owned = |range: Range<u64>, pair: &[Worker]| Gap {
            range,
            low: pair.first().map(|worker| worker.path),
            high: pair.get(1).map(|worker| worker.path),
        };
        let mut gaps = Vec::new();
        let mut end = range.end;
        for pair in workers.chunks(2).skip(1).rev() {
            let share = u128::from(size) * u128::from(rate(pair)) / u128::from(all);
            let chunk = pair.iter().map(|worker| worker.chunk).max().unwrap_or(0).max(1);
            // Whole chunks, one at least.
            let start = end.saturating_sub((share as u64).max(1).next_multiple_of(chunk));
            gaps.push(owned(start..end, pair));
            end = start;
        }
        let first = &workers[..workers.len().min(2)];
        let chunk = first.iter().map(|worker| worker.chunk).max().unwrap_or(0);
        if end < range.start.saturating_add(chunk) {
            // Too little to be cut.
            gaps.clear();
            end = range.end;
        }
        gaps.push(owned(range.start..end, first));
        gaps.reverse();
        Self { range, gaps }
    }

    /// The gaps, lowest first.
    pub(super) fn gaps(&self) -> &[Gap] {
        &self.gaps
    }

    /// Where `me` takes from: at the end it owns, else at a free one of the gap that would last
    /// longest, which it so owns, else in the middle of that gap. `crew` tells who is at work.
    ///
    /// `None` if nothing of the window is unassigned.
    pub(super) fn claim(
        &mut self,
        me: Worker,
        crew: impl FnOnce() -> Vec<Worker>,
        view: &SendView<'_>,
    ) -> Option<(Range<u64>, End)> {
        let own = self.gaps.iter().find(|gap| gap.is_owned_by(me.path) && gap.open(view).is_some());
        if let Some(gap) = own {
            return Some((gap.range.clone(), gap.side(me.path)));
        }
        let crew = crew();
        let worker = |path: Option<PathId>| crew.iter().find(|worker| Some(worker.path) == path);
        let rates =
            |gap: &Gap| [gap.low, gap.high].map(|end| worker(end).map_or(0, |worker| worker.rate));
        let time = |gap: &Gap, bytes: u64| {
            let rate = rates(gap).iter().sum::<u64>();
            u128::from(bytes) * (1 << 40) / u128::from(rate.max(1))
        };
        let open = self.gaps.iter().enumerate().filter_map(|(n, gap)| Some((n, gap.open(view)?)));
        let longest = open.max_by_key(|(n, open)| {
            (time(&self.gaps[*n], open.end - open.start), std::cmp::Reverse(*n))
        });
        let (n, open) = longest?;
        let gap = &mut self.gaps[n];
        if worker(gap.high).is_none() {
            gap.high = Some(me.path);
        } else if worker(gap.low).is_none() {
            gap.low = Some(me.path);
        } else {
            let [low, high] = rates(gap).map(u128::from);
            let below = low + u128::from(me.rate);
            let len = open.end - open.start;
            let cut = (u128::from(len) * below / (below + high).max(1)) as u64;
            if cut < 2 * me.chunk || len - cut < me.chunk {
                // What is left is soon gone: no use to divide it.
                return Some((gap.range.clone(), End::High));
            }
            let cut = open.start + cut - cut % me.chunk;
            let upper = Gap { range: cut..gap.range.end, low: None, high: gap.high };
            gap.range.end = cut;
            gap.high = Some(me.path);
            self.gaps.insert(n + 1, upper);
        }
        let gap = &self.gaps[n];
        Some((gap.range.clone(), gap.side(me.path)))
    }
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

    /// Appends a window, which begins at [`end`](Self::end) or later. The first of the workers
    /// goes forward.
    pub(super) fn open(&mut self, range: Range<u64>, workers: &[Worker]) {
        assert!(range.start >= self.end && !range.is_empty(), "windows follow each other");
        self.end = range.end;
        self.open.push_back(Window::new(range, workers));
    }

    /// Drops the windows that lie wholly below `una`.
    pub(super) fn forget_below(&mut self, una: u64) {
        while self.open.front().is_some_and(|window| window.range.end <= una) {
            self.open.pop_front();
        }
        self.end = self.end.max(una);
    }

    /// The window that holds `offset`.
    pub(super) fn at(&mut self, offset: u64) -> Option<&mut Window> {
        let index = self.open.partition_point(|window| window.range.end <= offset);
        self.open.get_mut(index).filter(|window| window.range.contains(&offset))
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::Instant;
    use crate::ranges::RangeSet;

    fn workers(figures: &[(u64, u64)]) -> Vec<Worker> {
        let worker = |(n, &(rate, chunk)): (usize, &(u64, u64))| Worker {
            path: PathId(n as u64),
            rate,
            chunk,
        };
        figures.iter().enumerate().map(worker).collect()
    }

    /// Where its gaps end.
    fn ends(window: &Window) -> Vec<u64> {
        window.gaps().iter().map(|gap| gap.range.end).collect()
    }

    #[test]
    fn windows_are_cut_by_rate() {
        let cut = |figures: &[(u64, u64)]| ends(&Window::new(100..1100, &workers(figures)));
        assert_eq!(cut(&[(1, 10)]), [1100]);
        assert_eq!(cut(&[(1, 10), (9, 10)]), [1100]);
        assert_eq!(cut(&[(5, 10), (4, 10), (1, 10)]), [1000, 1100]);
        assert_eq!(cut(&[(4, 10), (1, 10), (3, 10), (2, 10)]), [600, 1100]);
        assert_eq!(cut(&[(1, 10); 5]), [500, 900, 1100]);
        // A share of less than a chunk is one; a window of a few chunks is not cut.
        assert_eq!(cut(&[(500, 10), (499, 10), (1, 10)]), [1090, 1100]);
        assert_eq!(cut(&[(5, 950), (4, 10), (1, 10)]), [1100]);
    }

    proptest! {
        /// Whoever asks in whatever order: the gaps stay the window, no path owns two ends of open
        /// gaps, no two the same end, and everything is given out once.
        #[test]
        fn gaps_stay_whole_and_are_used_up(
            figures in prop::collection::vec((1u64..1000, 1u64..400), 1..6),
            asks in prop::collection::vec((0usize..6, 0u8..64), 1..200),
            size in 1u64..20_000,
        ) {
            let workers = workers(&figures);
            let mut window = Window::new(0..size, &workers[..1 + workers.len() / 2]);
            let mut unassigned = RangeSet::new();
            unassigned.insert(0..size);
            let last = (0..20_000).map(|n| (n, u8::MAX));
            for (n, crew) in asks.into_iter().chain(last) {
                let me = workers[n % workers.len()];
                let view = SendView {
                    now: Instant::ZERO,
                    una: 0,
                    acked: &RangeSet::new(),
                    unassigned: &unassigned,
                    limit: size,
                    credit_window: size,
                    credit_bound: false,
                    memory_left: None,
                    max_memory: size,
                    expected: 0,
                    subflows: &[],
                    meters: &BTreeMap::new(),
                };
                let able = |worker: &Worker| crew >> worker.path.0 & 1 == 1;
                let crew = || workers.iter().copied().filter(able).collect();
                let Some((part, end)) = window.claim(me, crew, &view) else {
                    prop_assert!(unassigned.is_empty());
                    break;
                };
                let range = super::super::take(&part, end, me.chunk, &view);
                let range = range.expect("a gap that is claimed is open");
                prop_assert!(unassigned.contains(&range) && range.end - range.start <= me.chunk);
                let gaps = window.gaps();
                prop_assert_eq!((gaps[0].range.start, gaps[gaps.len() - 1].range.end), (0, size));
                prop_assert!(gaps.windows(2).all(|two| two[0].range.end == two[1].range.start));
                prop_assert!(gaps.iter().all(|gap| gap.low.is_none() || gap.low != gap.high));
                let open = gaps.iter().filter(|gap| gap.open(&view).is_some());
                let open: Vec<_> = open.collect();
                for worker in &workers {
                    let owned = open.iter().filter(|gap| gap.is_owned_by(worker.path)).count();
                    prop_assert!(owned <= 1, "{:?} {:?}", worker, open);
                }
                unassigned.remove(range);
            }
            prop_assert!(unassigned.is_empty());
        }
    }
}
