//! Packets in the order of their numbers, each once: what comes over several links without coding.
//!
//! A packet waits for those before it for a time at most; then what is missing is given up. How long
//! that is follows from what was missing and came: one link may be slower than another.

use std::collections::VecDeque;
use std::time::Duration;

use weftline_coding::Arrival;
use weftline_core::Instant;

/// How far ahead of the next one a number may be, and how many packets wait at most.
pub(crate) const WINDOW: u32 = 8192;

/// Consecutive numbers far from what is awaited after which the sender is believed.
const STRAYS: u32 = 4;

/// The longest that anything is waited for, whatever the links' delays.
const MOST_PATIENCE: Duration = Duration::from_millis(640);

/// So many gaps that were given up are remembered.
const REMEMBERED: usize = 64;

/// The reorder buffer of one direction.
#[derive(Debug)]
pub(crate) struct ReorderBuffer {
    /// The number that is due; `None` until the first comes.
    next: Option<Arrival>,
    /// What waits, from the number after `next` on.
    waiting: VecDeque<Option<Waiting>>,
    held: usize,
    /// For how long a packet waits at least, and for how long now.
    least: Duration,
    patience: Duration,
    /// Numbers that were given up of late, and since when a packet had waited for them.
    given_up: VecDeque<(Arrival, u32, Instant)>,
    strays: u32,
    ready: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    /// Numbers given up, packets that came twice or too late, and packets that were dropped because their
    /// numbers were too far ahead.
    pub(crate) lost: u64,
    pub(crate) duplicate: u64,
    pub(crate) stray: u64,
}

#[derive(Debug)]
struct Waiting {
    since: Instant,
    packet: Vec<u8>,
}

impl ReorderBuffer {
    /// A packet waits for `least` for those before it, and longer where a link is slower.
    pub(crate) fn new(least: Duration) -> Self {
        Self {
            next: None,
            waiting: VecDeque::new(),
            held: 0,
            least,
            patience: least,
            given_up: VecDeque::new(),
            strays: 0,
            ready: VecDeque::new(),
            spare: Vec::new(),
            lost: 0,
            duplicate: 0,
            stray: 0,
        }
    }

    /// Takes a packet; afterwards some may be ready.
    pub(crate) fn receive(&mut self, number: u32, packet: &[u8], now: Instant) {
        let number = Arrival(number);
        let next = *self.next.get_or_insert(number);
        if number.is_before(next) {
            self.duplicate += 1;
            self.learn_late(number, now);
            return;
        }
        let ahead = number.since(next);
        if ahead >= WINDOW {
            self.strays += 1;
            if self.strays < STRAYS {
                // Its number is given up when those before it are.
                self.stray += 1;
                return;
            }
            // The sender is really there: everything before is given up.
            self.skip_to(number);
        }
        self.strays = 0;
        let mut copy = self.spare.pop().unwrap_or_default();
        copy.clear();
        copy.extend_from_slice(packet);
        if self.next == Some(number) {
            if let Some((_, since)) = self.first_waiting() {
                self.learn(now.since(since));
            }
            self.ready.push_back(copy);
            self.advance(1);
            self.release();
            return;
        }
        let at = number.since(self.next.unwrap_or(number)) as usize;
        if self.waiting.len() <= at {
            self.waiting.resize_with(at + 1, || None);
        }
        if self.waiting[at].is_some() {
            self.duplicate += 1;
            self.spare.push(copy);
            return;
        }
        self.waiting[at] = Some(Waiting { since: now, packet: copy });
        self.held += 1;
    }

    /// What was missing has come after so long: others will, too.
    fn learn(&mut self, waited: Duration) {
        let rest = self.patience - self.patience / 64;
        self.patience = (waited * 5 / 4).max(rest).clamp(self.least, MOST_PATIENCE);
    }

    /// The same, of what was given up: once, and of what could have been waited for.
    fn learn_late(&mut self, number: Arrival, now: Instant) {
        let has = |&(first, count, _): &(Arrival, u32, Instant)| {
            !number.is_before(first) && number.since(first) < count
        };
        let Some(at) = self.given_up.iter().position(has) else { return };
        let waited =
            self.given_up.remove(at).map_or(Duration::ZERO, |(.., since)| now.since(since));
        if waited <= MOST_PATIENCE {
            self.learn(waited);
        }
    }

    /// Begins anew with another sender: what waits is given up.
    pub(crate) fn restart(&mut self) {
        self.lost += self.held as u64;
        self.waiting.clear();
        (self.next, self.held, self.strays) = (None, 0, 0);
        self.given_up.clear();
        self.patience = self.least;
    }

    /// Packets that came and have not been handed out: those that wait for others before them, and those
    /// that are due.
    pub(crate) fn undelivered(&self) -> usize {
        self.held + self.ready.len()
    }

    /// Gives up what was waited for long enough.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some((gap, since)) = self.first_waiting()
            && now >= since + self.patience
        {
            self.lost += gap as u64;
            if self.given_up.len() >= REMEMBERED {
                self.given_up.pop_front();
            }
            self.given_up.extend(self.next.map(|first| (first, gap as u32, since)));
            self.patience = (self.patience - self.patience / 16).max(self.least);
            self.advance(gap);
            self.release();
        }
    }

    /// When something is given up.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.first_waiting().map(|(_, since)| since + self.patience)
    }

    /// The next packet that is due; it goes back by [`Self::recycle`].
    pub(crate) fn poll(&mut self) -> Option<Vec<u8>> {
        self.ready.pop_front()
    }

    pub(crate) fn recycle(&mut self, packet: Vec<u8>) {
        self.spare.push(packet);
    }

    /// How many numbers are missing before the first packet that waits, and since when it does.
    fn first_waiting(&self) -> Option<(usize, Instant)> {
        if self.held == 0 {
            return None;
        }
        let mut waiting = self.waiting.iter().enumerate();
        waiting.find_map(|(gap, waiting)| Some((gap, waiting.as_ref()?.since)))
    }

    fn release(&mut self) {
        while let Some(Some(waiting)) = self.waiting.front_mut().map(Option::take) {
            self.held -= 1;
            self.ready.push_back(waiting.packet);
            self.advance(1);
        }
    }

    fn advance(&mut self, by: usize) {
        self.next = self.next.map(|next| next.plus(by as u32));
        self.waiting.drain(..by.min(self.waiting.len()));
    }

    /// Hands out what waits, in order, and goes on with `number`.
    fn skip_to(&mut self, number: Arrival) {
        let skipped = self.next.map_or(0, |next| number.since(next));
        self.lost += u64::from(skipped) - self.held as u64;
        for waiting in std::mem::take(&mut self.waiting).into_iter().flatten() {
            self.ready.push_back(waiting.packet);
        }
        self.held = 0;
        self.next = Some(number);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn buffer() -> ReorderBuffer {
        ReorderBuffer::new(Duration::from_millis(30))
    }

    fn numbers(buffer: &mut ReorderBuffer) -> Vec<u32> {
        let mut all = Vec::new();
        while let Some(packet) = buffer.poll() {
            all.push(u32::from_be_bytes(packet[..].try_into().unwrap()));
            buffer.recycle(packet);
        }
        all
    }

    fn receive(buffer: &mut ReorderBuffer, number: u32, now: Instant) {
        buffer.receive(number, &number.to_be_bytes(), now);
    }

    #[test]
    fn a_gap_is_waited_for_and_then_given_up() {
        let mut buffer = buffer();
        for number in [u32::MAX, 1, 3, 1, u32::MAX] {
            receive(&mut buffer, number, at(0));
        }
        assert_eq!(numbers(&mut buffer), [u32::MAX]);
        assert_eq!((buffer.duplicate, buffer.poll_timeout()), (2, Some(at(30))));
        receive(&mut buffer, 0, at(10));
        assert_eq!(numbers(&mut buffer), [0, 1]);
        buffer.handle_timeout(at(29));
        assert!(numbers(&mut buffer).is_empty());
        buffer.handle_timeout(at(30));
        assert_eq!((numbers(&mut buffer), buffer.lost), (vec![3], 1));
        receive(&mut buffer, 2, at(31));
        assert_eq!((numbers(&mut buffer), buffer.poll_timeout()), (vec![], None), "too late");
    }

    /// Each second packet takes 38 ms longer, and one of a hundred is lost; then the slower link is gone.
    #[test]
    fn a_slower_link_is_waited_for_once_it_is_known() {
        let mut buffer = ReorderBuffer::new(Duration::from_millis(20));
        let mut flying: Vec<_> = (0..1000_u32)
            .filter(|number| number % 100 != 7)
            .map(|number| (2 * u64::from(number) + u64::from(number % 2) * 38, number))
            .collect();
        flying.sort_unstable();
        let mut came = Vec::new();
        for (ms, number) in flying {
            buffer.handle_timeout(at(ms));
            receive(&mut buffer, number, at(ms));
            came.extend(numbers(&mut buffer));
        }
        assert!(came.is_sorted() && came.len() > 970, "{}", came.len());
        let before = came.len();
        for number in 1000..1400 {
            buffer.handle_timeout(at(2 * u64::from(number)));
            if number % 2 == 0 {
                receive(&mut buffer, number, at(2 * u64::from(number)));
            }
            came.extend(numbers(&mut buffer));
        }
        assert!(
            came.len() > before + 180 && buffer.patience == buffer.least,
            "{:?}",
            buffer.patience
        );
    }

    #[test]
    fn what_comes_much_too_late_or_twice_teaches_nothing() {
        let mut buffer = buffer();
        for (number, ms) in [(0, 0), (2, 0), (4, 50), (1, 60), (1, 90), (1, 100)] {
            buffer.handle_timeout(at(ms));
            receive(&mut buffer, number, at(ms));
        }
        assert_eq!(buffer.patience, Duration::from_millis(75), "five quarters of 60 ms");
        buffer.handle_timeout(at(500));
        let before = buffer.patience;
        receive(&mut buffer, 3, at(9000));
        assert_eq!(buffer.patience, before);
    }

    #[test]
    fn a_sender_that_went_far_ahead_is_followed() {
        let mut buffer = buffer();
        receive(&mut buffer, 0, at(0));
        receive(&mut buffer, 2, at(0));
        for number in 1_000_000..1_000_006 {
            receive(&mut buffer, number, at(1));
        }
        assert_eq!(numbers(&mut buffer), [0, 2, 1_000_003, 1_000_004, 1_000_005]);
        // 1 and all from 3 to 1,000,002, of which three came and were not believed.
        assert_eq!((buffer.lost, buffer.stray), (1_000_001, 3));
    }

    proptest! {
        /// In any order with losses and copies: what comes out is rising and bounded, and all of
        /// what came in time.
        #[test]
        fn rising_and_complete(
            steps in prop::collection::vec((0_u32..40, 0_u64..10), 1..300),
        ) {
            let mut buffer = buffer();
            let (mut now, mut base) = (0, 0);
            let mut out = Vec::new();
            for (offset, pause) in steps {
                now += pause;
                base += offset / 20;
                receive(&mut buffer, base + offset, at(now));
                buffer.handle_timeout(at(now));
                out.extend(numbers(&mut buffer));
                prop_assert!(buffer.poll_timeout().is_none_or(|due| due > at(now)));
            }
            buffer.handle_timeout(at(now + 1000));
            out.extend(numbers(&mut buffer));
            prop_assert!(out.is_sorted_by(|a, b| a < b), "{:?}", out);
            prop_assert_eq!(buffer.held, 0);
        }
    }
}
