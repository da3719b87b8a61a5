//! Sets of byte offsets, kept as disjoint, non-adjacent half-open ranges in order.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of stream offsets.
///
/// Every operation costs `O(log n + k)` for `n` ranges held and `k` ranges touched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    /// start → end
    ranges: BTreeMap<u64, u64>,
    bytes: u64,
}

impl RangeSet {
    /// The empty set.
    pub const fn new() -> Self {
        Self { ranges: BTreeMap::new(), bytes: 0 }
    }

    /// Offsets in the set.
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Disjoint ranges in the set.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// Whether no offset is in the set.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// The ranges, lowest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Range<u64>> + '_ {
        self.ranges.iter().map(|(&start, &end)| start..end)
    }

    /// The lowest range.
    pub fn first(&self) -> Option<Range<u64>> {
        self.iter().next()
    }

    /// The highest range.
    pub fn last(&self) -> Option<Range<u64>> {
        self.iter().next_back()
    }

    /// Adds `range` and returns how many of its offsets were not in the set before.
    pub fn insert(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        if let Some(added) = self.append(&range) {
            return added;
        }
        let (mut start, mut end) = (range.start, range.end);
        let mut held = 0;
        if let Some((&s, &e)) = self.ranges.range(..range.start).next_back()
            && e >= range.start
        {
            if e >= range.end {
                return 0;
            }
            held += e - range.start;
            start = s;
            self.ranges.remove(&s);
        }
        while let Some((&s, &e)) = self.ranges.range(range.start..=range.end).next() {
            held += e.min(range.end) - s;
            end = end.max(e);
            self.ranges.remove(&s);
        }
        self.ranges.insert(start, end);
        let added = (range.end - range.start) - held;
        self.bytes += added;
        added
    }

    /// [`insert`](Self::insert) of what lies above everything held or continues it, the usual case.
    fn append(&mut self, range: &Range<u64>) -> Option<u64> {
        match self.ranges.last_key_value() {
            Some((_, &end)) if end > range.start => return None,
            Some((&start, &end)) if end == range.start => self.ranges.insert(start, range.end),
            Some(_) | None => self.ranges.insert(range.start, range.end),
        };
        let added = range.end - range.start;
        self.bytes += added;
        Some(added)
    }

    /// Removes `range` and returns how many of its offsets were in the set.
    pub fn remove(&mut self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        let mut removed = 0;
        if let Some((&s, &e)) = self.ranges.range(..range.start).next_back()
            && e > range.start
        {
            self.ranges.insert(s, range.start);
            removed += e.min(range.end) - range.start;
            if e > range.end {
                self.ranges.insert(range.end, e);
            }
        }
        while let Some((&s, &e)) = self.ranges.range(range.start..range.end).next() {
            self.ranges.remove(&s);
            removed += e.min(range.end) - s;
            if e > range.end {
                self.ranges.insert(range.end, e);
            }
        }
        self.bytes -= removed;
        removed
    }

    /// Whether every offset of `range` is in the set.
    pub fn contains(&self, range: &Range<u64>) -> bool {
        range.is_empty() || self.range_at(range.start).is_some_and(|held| held.end >= range.end)
    }

    /// The range of the set that holds `offset`.
    pub fn range_at(&self, offset: u64) -> Option<Range<u64>> {
        let (&start, &end) = self.ranges.range(..=offset).next_back()?;
        (end > offset).then_some(start..end)
    }

    /// The lowest part of the set inside `within`.
    pub fn first_in(&self, within: &Range<u64>) -> Option<Range<u64>> {
        let start = match self.range_at(within.start) {
            Some(held) => return clip(&held, within),
            None => self.ranges.range(within.start..).next(),
        };
        start.and_then(|(&s, &e)| clip(&(s..e), within))
    }

    /// The highest part of the set inside `within`.
    pub fn last_in(&self, within: &Range<u64>) -> Option<Range<u64>> {
        let (&start, &end) = self.ranges.range(..within.end).next_back()?;
        clip(&(start..end), within)
    }

    /// The lowest part of `within` that is not in the set.
    pub fn first_missing(&self, within: &Range<u64>) -> Option<Range<u64>> {
        let start = self.range_at(within.start).map_or(within.start, |held| held.end);
        let end = self.ranges.range(start..).next().map_or(within.end, |(&s, _)| s);
        clip(&(start..end), within)
    }

    /// The highest part of `within` that is not in the set.
    pub fn last_missing(&self, within: &Range<u64>) -> Option<Range<u64>> {
        let (mut start, mut end) = (within.start, within.end);
        if let Some((&s, &e)) = self.ranges.range(..within.end).next_back() {
            if e >= within.end {
                end = s;
                start = self.ranges.range(..s).next_back().map_or(within.start, |(_, &e)| e);
            } else {
                start = e;
            }
        }
        clip(&(start..end), within)
    }

    /// Drops every offset below `offset`.
    pub fn remove_below(&mut self, offset: u64) {
        while let Some(first) = self.ranges.first_entry()
            && *first.key() < offset
        {
            let (start, end) = first.remove_entry();
            self.bytes -= end.min(offset) - start;
            if end > offset {
                self.ranges.insert(offset, end);
            }
        }
    }
}

/// The part of `range` inside `within`, if there is any.
fn clip(range: &Range<u64>, within: &Range<u64>) -> Option<Range<u64>> {
    let clipped = range.start.max(within.start)..range.end.min(within.end);
    (!clipped.is_empty()).then_some(clipped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn neighbours_join_and_split() {
        let mut set = RangeSet::new();
        assert_eq!(set.insert(10..20), 10);
        assert_eq!(set.insert(20..30), 10);
        assert_eq!(set.insert(5..12), 5);
        assert_eq!((set.len(), set.first()), (1, Some(5..30)));
        assert_eq!(set.remove(8..9), 1);
        assert_eq!(set.iter().collect::<Vec<_>>(), [5..8, 9..30]);
        assert_eq!(set.bytes(), 24);
    }

    proptest! {
        /// The set agrees with a plain array of flags after any operations.
        #[test]
        fn agrees_with_a_bitmap(ops in proptest::collection::vec((any::<bool>(), 0u64..64, 0u64..16), 1..60),
                                query in (0u64..64, 0u64..20)) {
            let mut set = RangeSet::new();
            let mut flags = [false; 96];
            for (insert, start, len) in ops {
                let range = start..start + len;
                let changed = flags[start as usize..(start + len) as usize]
                    .iter_mut()
                    .filter_map(|flag| (*flag != insert).then(|| *flag = insert))
                    .count() as u64;
                let reported = if insert { set.insert(range) } else { set.remove(range) };
                prop_assert_eq!(reported, changed);
            }
            prop_assert_eq!(set.bytes(), flags.iter().filter(|&&f| f).count() as u64);
            let mut above = set.clone();
            above.remove_below(query.0);
            let mut expected = set.clone();
            expected.remove(0..query.0);
            prop_assert_eq!(above, expected);
            let ranges: Vec<_> = set.iter().collect();
            for pair in ranges.windows(2) {
                prop_assert!(pair[0].end < pair[1].start, "adjacent ranges are joined");
            }
            let within = query.0..query.0 + query.1;
            let held: Vec<u64> = within.clone().filter(|&o| flags[o as usize]).collect();
            let missing: Vec<u64> = within.clone().filter(|&o| !flags[o as usize]).collect();
            prop_assert_eq!(set.contains(&within), missing.is_empty());
            prop_assert_eq!(set.first_in(&within).map(|r| r.start), held.first().copied());
            prop_assert_eq!(set.last_in(&within).map(|r| r.end - 1), held.last().copied());
            prop_assert_eq!(set.first_missing(&within).map(|r| r.start), missing.first().copied());
            prop_assert_eq!(set.last_missing(&within).map(|r| r.end - 1), missing.last().copied());
            for part in [set.first_in(&within), set.last_in(&within)].into_iter().flatten() {
                prop_assert!(part.clone().all(|o| flags[o as usize]) && part.start >= within.start && part.end <= within.end);
            }
            for part in [set.first_missing(&within), set.last_missing(&within)].into_iter().flatten() {
                prop_assert!(part.clone().all(|o| !flags[o as usize]) && part.start >= within.start && part.end <= within.end);
            }
        }
    }
}
