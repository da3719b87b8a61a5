//! What a kernel's MPTCP says of the stream it receives: acknowledgements of the data, which are
//! options of the segments that go back anyhow (DSS, RFC 8684 §3.3).
//!
//! Here an option is what the session has written since the last segment, records and all. One whose
//! segment is lost is lost; the next one says more.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// The options of one subflow.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// Each with its number, the oldest first: those on their way, and one that may wait.
    written: VecDeque<(u32, BytesMut)>,
    last: u32,
}

impl Options {
    /// Takes `chunks`, for an option that waits for a segment, or else for a new one. Returns its
    /// number, which is not 0.
    pub(super) fn add(&mut self, chunks: &mut VecDeque<Bytes>, is_waiting: bool) -> u32 {
        if !is_waiting {
            self.last += 1;
            self.written.push_back((self.last, BytesMut::new()));
        }
        let (_, records) = self.written.back_mut().expect("one waits, or was just added");
        chunks.drain(..).for_each(|chunk| records.extend_from_slice(&chunk));
        self.last
    }

    /// Takes the option of that number out, with those before it, whose segments were lost.
    pub(super) fn take(&mut self, number: u32) -> Option<BytesMut> {
        while self.written.front().is_some_and(|(first, _)| *first <= number) {
            let (first, records) = self.written.pop_front()?;
            if first == number {
                return Some(records);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_goes_together_and_what_is_lost_is_passed_over() {
        let mut options = Options::default();
        let mut add = |text: &'static str, is_waiting| {
            options.add(&mut VecDeque::from([Bytes::from_static(text.as_bytes())]), is_waiting)
        };
        assert_eq!((add("a", false), add("b", true), add("c", false)), (1, 1, 2));
        assert_eq!(add("d", false), 3);
        assert_eq!(options.take(1).as_deref(), Some(&b"ab"[..]));
        assert_eq!(options.take(3).as_deref(), Some(&b"d"[..]), "2 was lost");
        assert_eq!(options.take(3), None);
        // One that was passed over and comes late takes nothing from those that wait.
        assert_eq!(options.add(&mut VecDeque::new(), false), 4);
        assert_eq!(options.take(2), None);
        assert_eq!(options.add(&mut VecDeque::from([Bytes::from_static(b"e")]), true), 4);
        assert_eq!(options.take(4).as_deref(), Some(&b"e"[..]));
    }
}
