//! Which access points a device believes. One that sends what the gateway did not make harms only
//! what goes through it, and only until it is found out.
//!
//! A packet that comes as it is, and a header, show by themselves whether the gateway made them. A
//! combination shows it only when packets have been computed: then one of several access points may
//! have lied. The one with the most such packets is the first whose combinations are left out; if
//! that was wrong, what is still wrong afterwards can only be the others', and it is taken back. A liar
//! that is honest while another one is left out for it gets its turn: of those with as many such
//! packets the one goes that has been left out less often.

use std::cmp::Reverse;
use std::time::Duration;

use weftline_coding::node::LinkSet;
use weftline_core::Instant;

/// What something wrong counts; something computed that is right takes one of it back. An access
/// point of which a ninth is wrong does not stay.
const WRONG: u32 = 8;

/// The count at which an access point is shut out: eight packets.
const LIMIT: u32 = 8 * WRONG;

/// For how long it is; it may have been started anew, with another program.
const PROBATION: Duration = Duration::from_secs(10);

/// What is known of an access point.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    score: u32,
    out: Option<Out>,
    /// How often it was shut out though it may have been another one.
    suspected: u32,
    wrong: u64,
    /// Wrong names since it was last shut out for them.
    misnamed: u32,
}

/// It is shut out.
#[derive(Clone, Copy, Debug)]
struct Out {
    until: Instant,
    /// Only its combinations: it may have been another one.
    shared: bool,
}

/// The access points of a device.
#[derive(Debug)]
pub(crate) struct Trust {
    records: Vec<Record>,
}

impl Trust {
    pub(crate) fn new(links: usize) -> Self {
        Self { records: vec![Record::default(); links] }
    }

    /// Whether what comes on `link` is taken: packets as they are, and their headers, or
    /// combinations.
    pub(crate) fn admits(&self, link: usize, combination: bool, now: Instant) -> bool {
        match self.records[link].out {
            Some(out) if now < out.until => out.shared && !combination,
            _ => true,
        }
    }

    /// What was computed from combinations of `links` is right.
    pub(crate) fn right(&mut self, links: LinkSet) {
        for (_, record) in members(&mut self.records, links) {
            record.score = record.score.saturating_sub(1);
        }
    }

    /// What came on `link` has a name that the gateway did not give. Whether it is shut out for it. What
    /// is right takes nothing of it back: a name can be guessed, and who may guess for as long as it also
    /// sends what is right would do so in days.
    pub(crate) fn misnamed(&mut self, link: usize, now: Instant) -> bool {
        let record = &mut self.records[link];
        record.wrong += 1;
        record.misnamed += 1;
        if record.misnamed < LIMIT / WRONG {
            return false;
        }
        (record.misnamed, record.score) = (0, 0);
        record.out = Some(Out { until: now + PROBATION, shared: false });
        true
    }

    /// One of `links` has sent something that the gateway did not make; the link that is shut out
    /// for it, if one is.
    pub(crate) fn wrong(&mut self, links: LinkSet, now: Instant) -> Option<usize> {
        let shared = links.len() > 1;
        for (_, record) in members(&mut self.records, links) {
            record.wrong += 1;
            record.score += WRONG;
        }
        let (worst, record) = members(&mut self.records, links)
            .max_by_key(|(link, record)| (record.score, Reverse((record.suspected, *link))))?;
        if record.score < LIMIT {
            return None;
        }
        // This explains what is held against the others.
        for record in &mut self.records {
            record.score = 0;
            if !shared && record.out.is_some_and(|out| out.shared) {
                record.out = None;
            }
        }
        let record = &mut self.records[worst];
        record.out = Some(Out { until: now + PROBATION, shared });
        record.suspected = record.suspected.saturating_add(shared.into());
        Some(worst)
    }

    /// How often something wrong may have been of `link`.
    pub(crate) fn count(&self, link: usize) -> u64 {
        self.records[link].wrong
    }
}

fn members(records: &mut [Record], links: LinkSet) -> impl Iterator<Item = (usize, &mut Record)> {
    records.iter_mut().enumerate().filter(move |(link, _)| links.has(*link))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn both() -> LinkSet {
        [0, 1].into_iter().collect()
    }

    #[test]
    fn who_is_caught_is_shut_out_for_a_while() {
        let mut trust = Trust::new(2);
        for n in 0..7 {
            assert_eq!(trust.wrong(LinkSet::of(1), at(n)), None);
        }
        assert!(trust.admits(1, true, at(8)));
        assert_eq!(trust.wrong(LinkSet::of(1), at(8)), Some(1));
        assert!(!trust.admits(1, false, at(9)) && !trust.admits(1, true, at(9)));
        assert!(trust.admits(0, true, at(9)));
        assert!(trust.admits(1, true, at(10_008)), "another chance");
        assert_eq!(trust.wrong(LinkSet::of(1), at(10_009)), None);
        assert_eq!(trust.count(1), 9);
    }

    /// With 32 bits to guess, eight guesses in ten seconds find a name in decades.
    #[test]
    fn who_guesses_names_between_what_is_right_is_shut_out_all_the_same() {
        let mut trust = Trust::new(2);
        let mut guesses = 0;
        for n in 0..100_000 {
            if trust.admits(1, false, at(n)) {
                guesses += 1;
                trust.misnamed(1, at(n));
                (0..100).for_each(|_| trust.right(both()));
            }
        }
        assert_eq!(guesses, 8 * 10, "in 100 s");
        assert!(trust.admits(0, true, at(0)) && trust.count(1) == 80);
    }

    #[test]
    fn of_two_the_wrong_one_is_found_and_the_right_one_is_back() {
        for liar in [0, 1] {
            let mut trust = Trust::new(2);
            for n in 0..40 {
                let used = [0, 1].into_iter().filter(|&link| trust.admits(link, true, at(n)));
                let used: LinkSet = used.collect();
                if used.has(liar) {
                    trust.wrong(used, at(n));
                } else {
                    trust.right(used);
                }
                assert!(trust.admits(1 - liar, false, at(n)), "what is as it is always passes");
            }
            assert!(trust.admits(1 - liar, true, at(41)) && !trust.admits(liar, true, at(41)));
        }
    }

    /// It lies only while both are heard, so that nothing shows which of them it is.
    #[test]
    fn who_hides_behind_another_is_left_out_as_often() {
        for liar in [0, 1] {
            let (mut trust, mut left_out) = (Trust::new(2), [0_usize; 2]);
            for n in 0..400 {
                let now = at(500 * n);
                let used = [0, 1].into_iter().filter(|&link| trust.admits(link, true, now));
                let used: LinkSet = used.collect();
                (0..2).for_each(|link| left_out[link] += usize::from(!used.has(link)));
                if used.has(liar) && used.len() > 1 {
                    trust.wrong(used, now);
                }
            }
            assert!(left_out[0].abs_diff(left_out[1]) <= 20, "{left_out:?} of 400");
        }
    }

    #[test]
    fn a_packet_that_is_wrong_now_and_then_is_forgiven() {
        let mut trust = Trust::new(2);
        for n in 0..1000 {
            for _ in 0..8 {
                trust.right(both());
            }
            assert_eq!(trust.wrong(both(), at(n)), None);
        }
    }
}
