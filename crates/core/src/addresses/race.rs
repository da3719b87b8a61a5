//! Dialling a host that has several addresses, of which some may be dead (RFC 8305).

use std::time::Duration;

use crate::Instant;

/// How long an address has before the next is tried beside it (RFC 8305 §8).
pub const STAGGER: Duration = Duration::from_millis(250);

/// A race of the addresses of a host, which have places from 0 on. They begin in order: the next one
/// when one has failed, or when the last has not answered for some time. The first that answers has
/// won, and the driver forgets the race and the other dials.
#[derive(Debug)]
pub struct Race {
    addresses: usize,
    stagger: Duration,
    /// How many have begun, and how many of them have failed.
    begun: usize,
    failed: usize,
    /// When the next one begins, whatever the others do.
    next_at: Instant,
    /// Which failure is told, and whether it tells anything.
    told: Option<(usize, bool)>,
}

impl Race {
    /// Of so many `addresses`, each of which has `stagger` before the next one begins.
    pub const fn new(addresses: usize, stagger: Duration, now: Instant) -> Self {
        Self { addresses, stagger, begun: 0, failed: 0, next_at: now, told: None }
    }

    /// The place of the address that is to be dialled now, if it is the turn of one.
    pub fn poll_dial(&mut self, now: Instant) -> Option<usize> {
        if self.begun == self.addresses || now < self.next_at {
            return None;
        }
        self.begun += 1;
        self.next_at = now + self.stagger;
        Some(self.begun - 1)
    }

    /// When to ask [`poll_dial`](Self::poll_dial) again, at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.begun < self.addresses).then_some(self.next_at)
    }

    /// The dial of the address at `place` has failed; `is_telling` if that says something of the
    /// other end or the way there.
    pub fn handle_failed(&mut self, place: usize, is_telling: bool, now: Instant) {
        self.failed += 1;
        self.next_at = now;
        let rank = |(place, is_telling): (usize, bool)| (!is_telling, place);
        if self.told.is_none_or(|told| rank((place, is_telling)) < rank(told)) {
            self.told = Some((place, is_telling));
        }
    }

    /// Whether every address has failed.
    pub const fn is_lost(&self) -> bool {
        self.failed == self.addresses
    }

    /// Whose failure is told if all fail: of those that are telling, or else of all, the first
    /// address's. `None` while none has failed.
    pub fn told(&self) -> Option<usize> {
        self.told.map(|(place, _)| place)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// When each of the addresses begins and which one wins, if the dial of each ends after so many
    /// milliseconds, well or not. A dial that never ends is one of 10⁶ ms.
    fn run(dials: &[(u64, bool)]) -> (Vec<u64>, Option<usize>, Race) {
        let mut race = Race::new(dials.len(), STAGGER, Instant::ZERO);
        let (mut now, mut begun, mut running) = (Instant::ZERO, Vec::new(), Vec::new());
        loop {
            while let Some(place) = race.poll_dial(now) {
                assert_eq!(place, begun.len(), "they begin in order");
                begun.push(now.as_nanos() / 1_000_000);
                running.push((now + MS * dials[place].0 as u32, place));
            }
            if race.is_lost() {
                return (begun, None, race);
            }
            let ends = running.iter().min().copied();
            let due = race.poll_timeout();
            if let Some((at, place)) = ends.filter(|(at, _)| due.is_none_or(|due| *at <= due)) {
                running.retain(|one| one.1 != place);
                now = at;
                if dials[place].1 {
                    return (begun, Some(place), race);
                }
                race.handle_failed(place, true, now);
            } else {
                now = due.expect("somebody is waited for");
            }
        }
    }

    #[test]
    fn the_next_begins_when_one_has_failed_or_says_nothing() {
        let silent = (1_000_000, false);
        assert_eq!(run(&[(10, true), (10, true)]).0, [0]);
        assert_eq!(run(&[silent, silent, (10, true)]).0, [0, 250, 500]);
        assert_eq!(run(&[(10, false), (10, true)]).0, [0, 10]);
        // One that fails late does not hold up the others, and lets the next begin at once.
        assert_eq!(
            run(&[(300, false), (100, false), (1000, true), (10, true)]).0,
            [0, 250, 300, 350]
        );
        assert_eq!(run(&[silent, (10, true)]).1, Some(1));
        assert!(run(&[]).2.is_lost());
    }

    #[test]
    fn of_failures_the_first_that_tells_something_is_told() {
        let told = |fails: &[(usize, bool)]| {
            let mut race = Race::new(fails.len(), STAGGER, Instant::ZERO);
            for &(place, is_telling) in fails {
                race.handle_failed(place, is_telling, Instant::ZERO);
            }
            race.told()
        };
        assert_eq!(told(&[(0, false), (1, true)]), Some(1));
        assert_eq!(told(&[(1, true), (0, true)]), Some(0));
        assert_eq!(told(&[(1, false), (0, false)]), Some(0));
        assert_eq!(told(&[]), None);
    }

    proptest! {
        #[test]
        fn the_best_address_wins_and_nobody_waits_longer_than_the_stagger(
            dials in prop::collection::vec((0_u64..1000, any::<bool>()), 1..8),
        ) {
            let (begun, won, race) = run(&dials);
            for pair in begun.windows(2) {
                prop_assert!(pair[1] - pair[0] <= 250, "{begun:?}");
            }
            prop_assert_eq!(won.is_some(), dials.iter().any(|dial| dial.1));
            match won {
                Some(won) => {
                    let at = begun[won] + dials[won].0;
                    for (place, &(takes, answers)) in dials.iter().enumerate().take(begun.len()) {
                        prop_assert!(!answers || begun[place] + takes >= at, "{place}");
                    }
                }
                None => prop_assert_eq!(race.told(), Some(0)),
            }
        }
    }
}
