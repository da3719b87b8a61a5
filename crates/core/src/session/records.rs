//! How many separate pieces of a stream its receiver can hold.

use std::collections::VecDeque;

/// The records sent are counted anew each time the stream has grown by so many bytes.
const STEP: u64 = 64 << 10;

/// Counts the records that may lie above the in-order point.
///
/// What an honest receiver holds is a union of whole records, so that its pieces are no more than
/// these. More come from a peer that makes holes where none are, to have every search for the next
/// bytes walk them.
#[derive(Debug, Default)]
pub(super) struct Records {
    sent: u64,
    /// The end of the stream as far as it has been sent.
    end: u64,
    /// Where that end was, and how many records had been sent by then.
    marks: VecDeque<(u64, u64)>,
    /// So many lie below the in-order point, at least.
    below: u64,
}

impl Records {
    /// A record up to `end` has been sent, or what lies there has been cancelled.
    pub(super) fn add(&mut self, end: u64) {
        self.sent += 1;
        self.end = self.end.max(end);
        let last = self.marks.back().map_or(0, |(at, _)| *at);
        if self.end >= last + STEP {
            self.marks.push_back((self.end, self.sent));
        }
    }

    /// Everything below `una` has arrived.
    pub(super) fn acknowledge(&mut self, una: u64) {
        while let Some(&(at, sent)) = self.marks.front()
            && at <= una
        {
            self.below = sent;
            self.marks.pop_front();
        }
    }

    /// The most pieces that there can be above the in-order point.
    pub(super) fn most_pieces(&self) -> usize {
        usize::try_from(self.sent - self.below).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_below_the_in_order_point_is_not_counted() {
        let mut records = Records::default();
        // Two windows, each from its end: the last bytes are sent first.
        for window in 0..2 {
            for n in (1..=4).rev() {
                records.add((window * 4 + n) * STEP);
            }
        }
        assert_eq!(records.most_pieces(), 8);
        records.acknowledge(4 * STEP);
        // Of the first window only its first record is known to be below.
        assert_eq!(records.most_pieces(), 7);
        records.acknowledge(8 * STEP);
        assert_eq!(records.most_pieces(), 3);
    }

    #[test]
    fn it_keeps_little() {
        let mut records = Records::default();
        for n in 1..=1_000_000 {
            records.add(n);
        }
        assert_eq!((records.most_pieces(), records.marks.len()), (1_000_000, 15));
        records.acknowledge(1_000_000);
        assert_eq!(
            (records.most_pieces(), records.marks.len()),
            (1_000_000 - 15 * STEP as usize, 0)
        );
    }
}
