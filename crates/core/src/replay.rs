//! Which counters of a session have come: a datagram is taken once (RFC 6479 has the idea).

/// Words of the window; one is being cleared while the others count. 8 KiB for each session.
const WORDS: u64 = 1024;

/// How far behind the newest a counter may be. A kernel's queue or a driver reorders by less.
pub const WINDOW: u64 = (WORDS - 1) * 64;

/// The counters that have come, down to [`WINDOW`] behind the newest.
#[derive(Clone, Debug)]
pub struct ReplayWindow {
    bits: [u64; WORDS as usize],
    /// One more than the newest.
    end: u64,
}

impl Default for ReplayWindow {
    fn default() -> Self {
        Self { bits: [0; WORDS as usize], end: 0 }
    }
}

impl ReplayWindow {
    /// Whether a counter has not come and is not too old to tell.
    pub fn is_fresh(&self, counter: u64) -> bool {
        if counter >= self.end {
            return true;
        }
        self.end - counter <= WINDOW && self.bits[word(counter)] & bit(counter) == 0
    }

    /// Notes that a counter has come, of a datagram that is authentic; whether it was fresh.
    pub fn take(&mut self, counter: u64) -> bool {
        if !self.is_fresh(counter) {
            return false;
        }
        if counter >= self.end {
            let (newest, next) = (self.end.saturating_sub(1) / 64, counter / 64);
            for passed in newest + 1..=next.min(newest + WORDS) {
                self.bits[(passed % WORDS) as usize] = 0;
            }
            if next > newest + WORDS {
                self.bits = [0; WORDS as usize];
            }
            self.end = counter + 1;
        }
        self.bits[word(counter)] |= bit(counter);
        true
    }

    /// One more than the newest counter.
    pub fn end(&self) -> u64 {
        self.end
    }
}

fn word(counter: u64) -> usize {
    (counter / 64 % WORDS) as usize
}

fn bit(counter: u64) -> u64 {
    1 << (counter % 64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_counter_is_taken_once() {
        let mut window = ReplayWindow::default();
        for counter in [0, 2, 1, WINDOW + 1, 3, 10 * WINDOW] {
            assert!(window.take(counter), "{counter}");
            assert!(!window.take(counter), "{counter} again");
        }
        assert!(!window.take(9 * WINDOW), "too old to tell");
        assert!(window.take(9 * WINDOW + 1), "the oldest that counts");
    }

    proptest! {
        /// As a set of all that came would do it.
        #[test]
        fn it_is_a_set_with_a_horizon(
            steps in prop::collection::vec((0_u64..90_000, any::<bool>(), 0_u64..150_000), 1..400),
        ) {
            let mut window = ReplayWindow::default();
            let (mut all, mut base) = (BTreeSet::new(), 0);
            for (offset, jump, by) in steps {
                if jump {
                    base += by;
                }
                let counter = base + offset;
                let newest: Option<u64> = all.last().copied();
                let old = newest.is_some_and(|newest| newest >= counter + WINDOW);
                let fresh = !old && !all.contains(&counter);
                prop_assert_eq!(window.take(counter), fresh);
                if fresh {
                    all.insert(counter);
                }
            }
        }
    }
}
