//! Whether datagrams as long as they are sent come to a neighbour. Where a link of the way has a smaller
//! MTU, it drops longer ones, and a node hears nothing of that: its datagrams must not be fragmented, and
//! messages of ICMP are not believed. What the neighbour says it has heard shows it.

use std::time::Duration;

use weftline_core::Instant;

/// So many datagrams longer than any that came, over so long a time, are not lost by chance.
const MISSING: u64 = 10;
const PATIENCE: Duration = Duration::from_secs(2);

/// What is known of a way to a neighbour.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Reach {
    /// The longest datagram that has come, in bytes without headers of IP and UDP.
    proven: usize,
    /// Longer ones that were sent since one came, the longest of them, and since when.
    longer: u64,
    longest: usize,
    since: Option<Instant>,
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
    /// A datagram of so many bytes is sent.
    pub(crate) fn send(&mut self, bytes: usize, now: Instant) {
        if bytes > self.proven {
            self.longer += 1;
            self.longest = self.longest.max(bytes);
            self.since.get_or_insert(now);
        }
    }

    /// The neighbour says which was the longest that it has heard, and that it heard something just now.
    /// What is swallowed is told each time that it has become certain.
    pub(crate) fn hear(&mut self, longest: usize, now: Instant) -> Option<Swallowed> {
        if longest > self.proven {
            *self = Self { proven: longest, ..Self::default() };
            return None;
        }
        let since = self.since?;
        if self.longer < MISSING || now < since + PATIENCE || self.proven == 0 {
            return None;
        }
        let Self { longer: count, proven, longest, .. } = *self;
        *self = Self { proven, ..Self::default() };
        Some(Swallowed { count, proven, longest })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is told in ten seconds in which 100 datagrams a second of these lengths go over a way that
    /// carries `carried` bytes and loses each of `lost` datagrams in a hundred.
    fn told(lengths: &[usize], carried: usize, lost: usize) -> Vec<Swallowed> {
        let (mut reach, mut longest, mut told) = (Reach::default(), 0, Vec::new());
        for n in 0..1000_usize {
            let now = Instant::from_millis(1000 + 10 * n as u64);
            let bytes = lengths[n % lengths.len()];
            reach.send(bytes, now);
            if bytes <= carried && (n * 37) % 100 >= lost {
                longest = longest.max(bytes);
            }
            if n % 10 == 0 {
                told.extend(reach.hear(longest, now));
            }
        }
        told
    }

    #[test]
    fn a_way_that_swallows_what_is_long_is_told() {
        let all = told(&[80, 1452, 1452], 1372, 0);
        let Some(first) = all.first() else { panic!("nothing is told") };
        assert_eq!((first.proven, first.longest), (80, 1452));
        let count: u64 = all.iter().map(|one| one.count).sum();
        assert!((450..=667).contains(&count), "{count} of 667");
        assert!(all.len() >= 3, "again and again");
    }

    #[test]
    fn losses_and_silence_are_not_taken_for_it() {
        assert_eq!(told(&[80, 1452], 1452, 90), []);
        assert_eq!(told(&[80], 1372, 0), []);
        assert_eq!(told(&[1452], 0, 0), [], "nothing comes at all");
    }
}
