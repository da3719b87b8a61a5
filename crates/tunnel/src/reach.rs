//! Whether datagrams as long as they are sent come to a neighbour. Where a link of the way has a smaller
//! MTU, it drops longer ones, and a node hears nothing of that: its datagrams must not be fragmented, and
//! messages of ICMP are not believed. What the neighbour says it has heard shows it.

use std::time::Duration;

use weftline_coding::node::KEEPALIVE_INTERVAL;
use weftline_core::Instant;

/// The longest datagram of late is that of one to two of these: a way may change within a session.
const WINDOW: Duration = Duration::from_secs(2);
/// So many times from one keepalive to the next in which longer datagrams than any that came were sent,
/// over so long a time and the round trip, are not lost by chance where no keepalive is. Where keepalives
/// are lost it takes more, by their share.
const MISSING: u64 = 16;
const PATIENCE: Duration = Duration::from_secs(2);

/// The longest datagram that came of late.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Longest {
    /// Of the window that began so, and of the one before.
    window: Option<(Instant, usize)>,
    before: usize,
}

impl Longest {
    /// One of so many bytes came.
    pub(crate) fn take(&mut self, bytes: usize, now: Instant) {
        match &mut self.window {
            Some((begun, longest)) if now < *begun + WINDOW => *longest = bytes.max(*longest),
            window => {
                let ended = window.replace((now, bytes));
                let is_late = |(begun, _): &(Instant, usize)| now < *begun + 2 * WINDOW;
                self.before = ended.filter(is_late).map_or(0, |(_, longest)| longest);
            }
        }
    }

    /// Its bytes, without headers of IP and UDP; 0 if none came.
    pub(crate) fn get(&self, now: Instant) -> usize {
        match self.window {
            Some((begun, longest)) if now < begun + WINDOW => longest.max(self.before),
            Some((begun, longest)) if now < begun + 2 * WINDOW => longest,
            _ => 0,
        }
    }
}

/// What is known of a way to a neighbour.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    /// The longest datagram that has come of late, in bytes without headers of IP and UDP.
    proven: usize,
    /// Longer ones that were sent since one came, the longest of them, and since when.
    longer: u64,
    longest: usize,
    since: Option<Instant>,
    /// How many of these there were at the last keepalive; keepalives before which there were new ones,
    /// and keepalives that answer another one of ours than the keepalive before.
    known: u64,
    tries: u64,
    answers: u64,
}

/// The way carries no datagrams of more than some length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Swallowed {
    /// Datagrams that were lost by that.
    pub(crate) count: u64,
    /// The longest datagram that came, and the longest that was sent.
    pub(crate) proven: usize,
    pub(crate) longest: usize,
}

impl Reach {
    /// The bytes of the longest datagram that has come of late.
    pub(crate) fn proven(&self) -> usize {
        self.proven
    }

    /// So many datagrams longer than that have left, of up to so many bytes.
    pub(crate) fn sent(&mut self, longer: u64, longest: usize, now: Instant) {
        if longer > 0 {
            self.longer += longer;
            self.longest = self.longest.max(longest);
            self.since.get_or_insert(now);
        }
    }

    /// The neighbour hears nothing now, whatever its length.
    pub(crate) fn pause(&mut self) {
        *self = Self { proven: self.proven, ..Self::default() };
    }

    /// The neighbour says which was the longest that it has heard of late, and that it heard something
    /// just now; whether it answers a keepalive, and the time that this takes. What is swallowed is told
    /// each time that it has become certain.
    pub(crate) fn hear(
        &mut self,
        longest: usize,
        answers: bool,
        rtt: Duration,
        now: Instant,
    ) -> Option<Swallowed> {
        if longest > self.proven {
            *self = Self { proven: longest, ..Self::default() };
            return None;
        }
        self.proven = longest;
        let passed = now.since(self.since?);
        self.tries += u64::from(self.longer > self.known);
        self.known = self.longer;
        self.answers += u64::from(answers);
        let keepalives = (passed.as_nanos() / KEEPALIVE_INTERVAL.as_nanos()).max(1) as u64;
        // What is lost of keepalives is lost of longer ones, too.
        let expected = self.tries * self.answers.min(keepalives) / keepalives;
        if expected < MISSING || passed < PATIENCE + rtt || self.proven == 0 {
            return None;
        }
        let Self { longer: count, proven, longest, .. } = *self;
        self.pause();
        Some(Swallowed { count, proven, longest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of a keepalive.
    const KEEPALIVE: usize = 80;

    /// What is told, and when, in so many milliseconds in which such datagrams are sent, each of `lost`
    /// in a hundred is lost at random in either direction, and the way carries what is no longer than
    /// `carried` says.
    fn told(
        ms: u64,
        sent: impl Fn(u64) -> Vec<usize>,
        carried: impl Fn(u64) -> usize,
        lost: u32,
    ) -> Vec<(u64, Swallowed)> {
        let mut state = 7_u32;
        let mut comes = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) % 100 >= lost
        };
        let (mut reach, mut longest, mut told) = (Reach::default(), Longest::default(), Vec::new());
        let (mut heard, mut answered) = (0, 0);
        for ms in 0..ms {
            let now = Instant::from_millis(1000 + ms);
            let is_due = ms % 100 == 0;
            for bytes in sent(ms).into_iter().chain(is_due.then_some(KEEPALIVE)) {
                reach.sent(u64::from(bytes > reach.proven()), bytes, now);
                if comes() && bytes <= carried(ms) {
                    longest.take(bytes, now);
                    heard = if bytes == KEEPALIVE { ms / 100 + 1 } else { heard };
                }
            }
            if is_due && heard > 0 && comes() {
                let answers = std::mem::replace(&mut answered, heard) != heard;
                let said = reach.hear(longest.get(now), answers, Duration::ZERO, now);
                told.extend(said.map(|said| (ms, said)));
            }
        }
        told
    }

    /// These lengths in turn, 100 datagrams a second.
    fn dense(lengths: &[usize]) -> impl Fn(u64) -> Vec<usize> {
        move |ms| {
            if ms % 10 == 0 { vec![lengths[ms as usize / 10 % lengths.len()]] } else { vec![] }
        }
    }

    #[test]
    fn a_way_that_swallows_what_is_long_is_told() {
        let all = told(10_000, dense(&[80, 1452, 1452]), |_| 1372, 0);
        let Some((_, first)) = all.first() else { panic!("nothing is told") };
        assert_eq!((first.proven, first.longest), (80, 1452));
        let count: u64 = all.iter().map(|(_, one)| one.count).sum();
        assert!((450..=667).contains(&count), "{count} of 667");
        assert!(all.len() >= 3, "again and again");
        let lossy = told(20_000, dense(&[80, 1452, 1452]), |_| 1372, 30);
        assert!(lossy.len() >= 2, "{lossy:?}");
    }

    #[test]
    fn a_way_that_becomes_narrower_is_told_and_one_that_becomes_wider_again_is_not() {
        let narrow = |ms: u64| if (10_000..20_000).contains(&ms) { 1372 } else { 1452 };
        let all = told(60_000, dense(&[80, 1452, 1452]), narrow, 0);
        let at: Vec<_> = all.iter().map(|(ms, _)| *ms).collect();
        assert!(at.first().is_some_and(|ms| (12_000..=17_000).contains(ms)), "{at:?}");
        assert!(at.iter().all(|ms| *ms < 20_200), "{at:?}");
    }

    #[test]
    fn losses_and_silence_are_not_taken_for_it() {
        assert_eq!(told(10_000, dense(&[80, 1452]), |_| 1452, 90), []);
        assert_eq!(told(10_000, dense(&[80]), |_| 1372, 0), []);
        assert_eq!(told(10_000, dense(&[1452]), |_| 0, 0), [], "nothing comes at all");
    }

    /// Five datagrams a second, with pauses after which nothing long has come of late; and many at once
    /// that are all lost.
    #[test]
    fn few_datagrams_that_are_lost_at_random_are_not_taken_for_it() {
        let few = |ms: u64| {
            if ms.is_multiple_of(200) && ms % 20_000 < 10_000 { vec![1452] } else { vec![] }
        };
        for lost in [10, 30, 50, 70] {
            assert_eq!(told(3_600_000, few, |_| 1452, lost), [], "{lost} % lost");
        }
        let burst = |ms: u64| if ms % 10_000 == 5 { vec![1452; 1000] } else { vec![] };
        assert_eq!(told(100_000, burst, |ms| if ms % 100 == 0 { 1452 } else { 0 }, 0), []);
    }
}
