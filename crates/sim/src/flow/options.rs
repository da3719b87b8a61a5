//! What a kernel's MPTCP says of the stream it receives: acknowledgements of the data, which are
//! options of the segments that go back anyhow (DSS, RFC 8684 §3.3).
//!
//! Here an option is what the session has written since the last segment, records and all. Each
//! segment carries what has not come, as one of a kernel does whose option is cumulative; and where no
//! other segment goes, one goes for that.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// An option that has not come is said again after this time, on a segment of its own: the first
/// retransmission timeout (RFC 6298 §2.1), as its sender measures no round trips.
const AGAIN_NS: u64 = 1_000_000_000;

/// The options of one subflow.
#[derive(Debug, Default)]
pub(super) struct Options {
    /// Each with its number, the oldest first: those on their way, and one that may wait.
    written: VecDeque<(u32, BytesMut)>,
    last: u32,
    /// When the last one is said again, if none has come by then.
    again_ns: u64,
}

impl Options {
    /// Takes `chunks`, for an option that waits for a segment, or else for a new one. Returns its
    /// number, which is not 0.
    pub(super) fn add(
        &mut self,
        chunks: &mut VecDeque<Bytes>,
        is_waiting: bool,
        now_ns: u64,
    ) -> u32 {
        self.again_ns = now_ns + AGAIN_NS;
        if !is_waiting {
            self.last += 1;
            self.written.push_back((self.last, BytesMut::new()));
        }
        let (_, records) = self.written.back_mut().expect("one waits, or was just added");
        chunks.drain(..).for_each(|chunk| records.extend_from_slice(&chunk));
        self.last
    }

    /// Takes the option of that number out, if it has not come, behind those before it, whose segments
    /// were lost.
    pub(super) fn take(&mut self, number: u32) -> Option<BytesMut> {
        let mut all: Option<BytesMut> = None;
        while self.written.front().is_some_and(|(first, _)| *first <= number) {
            let (_, records) = self.written.pop_front()?;
            match &mut all {
                Some(all) => all.extend_from_slice(&records),
                None => all = Some(records),
            }
        }
        all
    }

    /// When the last one is said again, unless it has come by then.
    pub(super) fn due_ns(&self) -> Option<u64> {
        (!self.written.is_empty()).then_some(self.again_ns)
    }

    /// The number of the last one, if it is time to say it again.
    pub(super) fn say_again(&mut self, now_ns: u64) -> Option<u32> {
        self.due_ns().filter(|&due| due <= now_ns)?;
        self.again_ns = now_ns + AGAIN_NS;
        Some(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_goes_together_and_what_is_lost_comes_with_the_next() {
        let mut options = Options::default();
        let mut add = |text: &'static str, is_waiting| {
            options.add(&mut VecDeque::from([Bytes::from_static(text.as_bytes())]), is_waiting, 7)
        };
        assert_eq!((add("a", false), add("b", true), add("c", false)), (1, 1, 2));
        assert_eq!(add("d", false), 3);
        assert_eq!(options.take(1).as_deref(), Some(&b"ab"[..]));
        assert_eq!(options.take(3).as_deref(), Some(&b"cd"[..]), "2 was lost");
        assert_eq!(
            options.take(3),
            None,
            "each segment carries it, and the first that comes counts"
        );
        // One that was overtaken and comes late takes nothing from those that wait.
        assert_eq!(options.add(&mut VecDeque::new(), false, 8), 4);
        assert_eq!(options.take(2), None);
        assert_eq!(options.add(&mut VecDeque::from([Bytes::from_static(b"e")]), true, 9), 4);
        assert_eq!(options.take(4).as_deref(), Some(&b"e"[..]));
    }

    #[test]
    fn what_does_not_come_is_said_again() {
        let mut options = Options::default();
        assert_eq!(options.due_ns(), None);
        options.add(&mut VecDeque::from([Bytes::from_static(b"a")]), false, 7);
        assert_eq!(options.due_ns(), Some(7 + AGAIN_NS));
        assert_eq!(options.say_again(6 + AGAIN_NS), None);
        assert_eq!(options.say_again(7 + AGAIN_NS), Some(1));
        assert_eq!(options.due_ns(), Some(7 + 2 * AGAIN_NS));
        options.take(1);
        assert_eq!((options.due_ns(), options.say_again(u64::MAX)), (None, None));
    }
}
