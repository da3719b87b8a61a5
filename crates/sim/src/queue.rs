//! The event queue: a total order of (time, insertion), and a digest of everything that happened.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Something that happens, by the number of the component it happens to. Events are small and
/// copied; what they carry stays in the component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Event {
    /// The packet at the head of this wire arrives.
    Arrival(u32),
    /// A TCP endpoint's timer.
    Endpoint(u32),
    /// A flow's timer: its sessions, source or player.
    Flow(u32),
    /// A flow begins.
    Start(u32),
    /// A flow's source stops.
    Stop(u32),
    /// The interface of this path's client is unplugged, or plugged in again.
    Plug(u32),
    /// The time series take a sample.
    Sample,
    /// The packet at the head of this coded hop arrives.
    Hop(u32),
    /// This coded hop has room again.
    Room(u32),
    /// A timer of a coding node.
    Node(u32),
    /// The call has something to do.
    Calls,
}

impl Event {
    /// A number of its own for the digest.
    const fn code(self) -> u64 {
        let (kind, index) = match self {
            Self::Arrival(index) => (1, index),
            Self::Endpoint(index) => (2, index),
            Self::Flow(index) => (3, index),
            Self::Start(index) => (4, index),
            Self::Stop(index) => (5, index),
            Self::Sample => (6, 0),
            Self::Hop(index) => (7, index),
            Self::Room(index) => (8, index),
            Self::Node(index) => (9, index),
            Self::Plug(index) => (10, index),
            Self::Calls => (11, 0),
        };
        kind << 32 | index as u64
    }
}

/// Pending events, earliest first; those of one instant in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Reverse<(u64, u64, Event)>>,
    added: u64,
    now_ns: u64,
    popped: u64,
    digest: Digest,
}

impl Queue {
    /// Adds an event; one in the past is a bug of the component.
    pub(crate) fn push(&mut self, at_ns: u64, event: Event) {
        assert!(at_ns >= self.now_ns, "an event lies in the past: {event:?}");
        self.heap.push(Reverse((at_ns, self.added, event)));
        self.added += 1;
    }

    /// Takes the next event if it is not after `end_ns`, and moves the clock there.
    pub(crate) fn pop(&mut self, end_ns: u64) -> Option<(u64, Event)> {
        let &Reverse((at_ns, _, event)) = self.heap.peek()?;
        if at_ns > end_ns {
            return None;
        }
        self.heap.pop();
        self.now_ns = at_ns;
        self.popped += 1;
        self.digest.add(at_ns);
        self.digest.add(event.code());
        Some((at_ns, event))
    }

    /// Moves the clock to a time before which nothing is pending.
    pub(crate) fn advance(&mut self, to_ns: u64) {
        let next = self.heap.peek().map_or(u64::MAX, |Reverse((at, ..))| *at);
        assert!(self.now_ns <= to_ns && to_ns <= next, "the clock does not jump over events");
        self.now_ns = to_ns;
    }

    /// The time, in nanoseconds from the start.
    pub(crate) const fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Events that have happened.
    pub(crate) const fn popped(&self) -> u64 {
        self.popped
    }

    /// Adds what an event was about to the digest.
    pub(crate) const fn note(&mut self, word: u64) {
        self.digest.add(word);
    }

    /// The digest of all that happened so far.
    pub(crate) const fn digest(&self) -> u64 {
        self.digest.value()
    }
}

/// A 64-bit digest of a sequence of words: two runs that differ anywhere differ here, but for one
/// chance in 2^64. It is no cryptographic hash.
#[derive(Clone, Copy, Debug)]
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0x9e37_79b9_7f4a_7c15)
    }
}

impl Digest {
    const fn add(&mut self, word: u64) {
        // The multiplier of Knuth's MMIX generator; the rotation brings high bits down again.
        self.0 = (self.0.rotate_left(29) ^ word).wrapping_mul(0x5851_f42d_4c95_7f2d);
    }

    const fn value(self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ (mixed >> 29)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_then_by_insertion() {
        let mut queue = Queue::default();
        for (at, index) in [(5, 0), (3, 1), (5, 2), (3, 3), (9, 4)] {
            queue.push(at, Event::Flow(index));
        }
        let mut order = Vec::new();
        while let Some((at, event)) = queue.pop(8) {
            order.push((at, event));
        }
        let flow = Event::Flow;
        assert_eq!(order, [(3, flow(1)), (3, flow(3)), (5, flow(0)), (5, flow(2))]);
        assert_eq!((queue.now_ns(), queue.popped()), (5, 4));
        assert_eq!(queue.pop(9), Some((9, flow(4))));
    }

    #[test]
    fn the_digest_sees_order_and_value() {
        let digest = |words: &[u64]| {
            let mut digest = Digest::default();
            words.iter().for_each(|&word| digest.add(word));
            digest.value()
        };
        assert_eq!(digest(&[1, 2]), digest(&[1, 2]));
        assert_ne!(digest(&[1, 2]), digest(&[2, 1]));
        assert_ne!(digest(&[1, 2]), digest(&[1, 3]));
        assert_ne!(digest(&[0]), digest(&[0, 0]));
    }

    #[test]
    fn events_are_small() {
        assert!(size_of::<(u64, u64, Event)>() <= 32);
    }
}
