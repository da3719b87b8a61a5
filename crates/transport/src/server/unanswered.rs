//! Which connections make room where a limit is reached or the memory used up: those whose client has not
//! answered yet, or has said nothing for so long that it may be gone (it may sleep as well, and
//! finds its connections where there was room for them).
//!
//! Those that have been silent for long go first. A flood that goes on leaves none that is old, so
//! those go as well, however young, of which a network has more than its part, and more than the
//! newcomer's own: whoever opens many displaces itself.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weftline_core::Instant;

use crate::checks::IDLE_TIMEOUT;
use crate::clock;
use crate::handshake::SessionId;
use crate::limits::{ClientId, Source};
use crate::memory::MemoryBudget;
use crate::shared::Shared;

/// Networks in which connections are counted together, by the bits of an IPv6 prefix, and the part,
/// one in so many, of all that a limit admits that each may have without an answer. One customer
/// has the first or the second; the third may be a site with many, so its part is larger. An IPv4
/// address is a network of its own.
const NETWORKS: [(u8, u64); 3] = [(64, 256), (56, 128), (48, 64)];
/// How long what was seen of all unanswered connections is gone by: short beside any
/// [`answer_time`](crate::Limits::answer_time), and a flood of thousands a second has them looked at
/// ten times.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What somebody needs who comes from `source`: places, or bytes of memory.
pub(super) struct Need<'a> {
    source: Source,
    among: Among<'a>,
    is_memory: bool,
    /// What it takes, and how much of that is missing.
    takes: u64,
    missing: u64,
    /// What the limit admits.
    total: u64,
}

/// Whose end would give it.
#[derive(Clone, Copy)]
pub(super) enum Among<'a> {
    All,
    Source(Source),
    Client(&'a ClientId),
    /// All but the connection that it is for.
    Others(SessionId),
}

impl<'a> Need<'a> {
    /// A place within a limit.
    pub(super) fn place(source: Source, limit: usize, among: Among<'a>) -> Self {
        Self { source, among, is_memory: false, takes: 1, missing: 1, total: limit as u64 }
    }

    /// So many bytes.
    pub(super) fn memory(
        source: Source,
        takes: u64,
        among: Among<'a>,
        budget: &MemoryBudget,
    ) -> Self {
        let (missing, total) = (budget.missing(takes), budget.total().as_u64());
        Self { source, among, is_memory: true, takes, missing, total }
    }

    /// What the end of one that is unanswered gives of it.
    fn of(&self, one: &Unanswered) -> u64 {
        let counts = match self.among {
            Among::All => true,
            Among::Source(source) => one.source == source,
            Among::Client(client) => one.client.is_counted_as(client),
            Among::Others(id) => one.id != id,
        };
        match (counts, self.is_memory) {
            (false, _) => 0,
            (true, true) => one.memory,
            (true, false) => 1,
        }
    }
}

/// A connection whose client has not answered, or not for long.
pub(super) struct Unanswered {
    pub(super) source: Source,
    /// When something last came from it.
    pub(super) heard_at: Instant,
    pub(super) id: SessionId,
    pub(super) client: ClientId,
    /// What is promised to it, bytes.
    pub(super) memory: u64,
    /// Whether it has answered once: it makes room where those that never did are too few.
    pub(super) has_answered: bool,
}

impl Unanswered {
    /// Networks are runs of addresses in this order, whatever their size.
    fn order(&self) -> (Source, Instant, SessionId) {
        (self.source, self.heard_at, self.id)
    }
}

/// The connections that were unanswered when all were last looked at, in order, with those opened and
/// without those closed since.
///
/// A flood makes for thousands of newcomers a second. To look at every connection, each behind a
/// lock of its own, for each of these would cost several times what their handshakes do.
#[derive(Default)]
pub(super) struct HalfOpen {
    looked_at: Option<Instant>,
    all: Vec<(Unanswered, Arc<Shared>)>,
}

impl HalfOpen {
    pub(super) fn is_current(&self, now: Instant) -> bool {
        self.looked_at.is_some_and(|at| now.since(at) < LOOK_AGAIN)
    }

    /// What is seen of all.
    pub(super) fn look(
        &mut self,
        all: impl Iterator<Item = (Unanswered, Arc<Shared>)>,
        now: Instant,
    ) {
        self.looked_at = Some(now);
        self.all.clear();
        self.all.extend(all);
        self.all.sort_unstable_by_key(|(one, _)| one.order());
    }

    /// A connection has been opened.
    pub(super) fn opened(
        &mut self,
        one: impl FnOnce(Instant) -> Option<(Unanswered, Arc<Shared>)>,
    ) {
        let now = clock::now();
        if !self.is_current(now) {
            // Room is not short now. Nothing is kept of those that have gone meanwhile.
            *self = Self::default();
        } else if let Some((one, shared)) = one(now) {
            let at = self.all.partition_point(|(other, _)| other.order() < one.order());
            self.all.insert(at, (one, shared));
        }
    }

    /// Who makes room for all that is needed.
    ///
    /// # Errors
    /// Which of the needs is not met, though all are ended that may be.
    pub(super) fn choose(
        &mut self,
        needs: &[Need<'_>],
        answer_time: Duration,
        now: Instant,
    ) -> Result<BTreeSet<SessionId>, usize> {
        let is_silent = |one: &Unanswered| now.since(one.heard_at) >= IDLE_TIMEOUT;
        // Whether one that was silent has been heard meanwhile is looked at when it is chosen: that
        // takes its lock.
        self.all.retain(|(one, shared)| is_silent(one) || !shared.has_answered());
        loop {
            let unanswered: Vec<&Unanswered> = self.all.iter().map(|(one, _)| one).collect();
            let is_old = |one: &Unanswered| now.since(one.heard_at) >= answer_time;
            let chosen = choose_all(&unanswered, needs, is_old)?;
            if !self.hear(&chosen, is_old, now) {
                return Ok(chosen);
            }
        }
    }

    /// Looks again at those that are to make room because they are old. Returns whether any is not,
    /// as it has been heard meanwhile.
    fn hear(
        &mut self,
        chosen: &BTreeSet<SessionId>,
        is_old: impl Fn(&Unanswered) -> bool,
        now: Instant,
    ) -> bool {
        let mut is_any = false;
        self.all.retain_mut(|(one, shared)| {
            if !is_old(one) || !chosen.contains(&one.id) {
                return true;
            }
            let Some((heard_at, _)) = shared.unanswered(now) else {
                is_any = true;
                return false;
            };
            one.heard_at = heard_at;
            is_any |= !is_old(one);
            true
        });
        if is_any {
            self.all.sort_unstable_by_key(|(one, _)| one.order());
        }
        is_any
    }

    /// A connection is gone.
    pub(super) fn closed(&mut self, shared: &Arc<Shared>) {
        self.all.retain(|(_, other)| !Arc::ptr_eq(other, shared));
    }
}

/// Which of the unanswered connections, in order, make room for all that is needed. One that is ended
/// for one need counts for the next.
///
/// # Errors
/// Which of the needs is not met, though all are ended that may be.
fn choose_all(
    unanswered: &[&Unanswered],
    needs: &[Need<'_>],
    is_old: impl Fn(&Unanswered) -> bool,
) -> Result<BTreeSet<SessionId>, usize> {
    let mut chosen = BTreeSet::new();
    for (at, need) in needs.iter().enumerate() {
        let (mut left, mut freed) = (Vec::with_capacity(unanswered.len()), 0);
        for &one in unanswered {
            let has = need.of(one);
            match chosen.contains(&one.id) {
                true => freed += has,
                false if has == 0 => {}
                false => left.push(Part { one, has }),
            }
        }
        let missing = need.missing.saturating_sub(freed);
        chosen.extend(choose(left, need, missing, &is_old).ok_or(at)?);
    }
    Ok(chosen)
}

/// What an unanswered connection has of what is needed.
struct Part<'a> {
    one: &'a Unanswered,
    has: u64,
}

/// Which of the unanswered connections, in order, give what is missing of a need; `None` if all that may
/// be ended are too few.
fn choose(
    mut all: Vec<Part<'_>>,
    need: &Need<'_>,
    missing: u64,
    is_old: impl Fn(&Unanswered) -> bool,
) -> Option<Vec<SessionId>> {
    let (mut chosen, mut freed) = (Vec::new(), 0);
    while freed < missing {
        let oldest = |has_answered| {
            let counts = |one: &Unanswered| is_old(one) && one.has_answered == has_answered;
            oldest_of_most(&all, NETWORKS[0].0, counts, None).map(|(_, at)| at)
        };
        let at = oldest(false).or_else(|| first_of_too_many(&all, need)).or_else(|| oldest(true));
        let part = all.remove(at?);
        freed += part.has;
        chosen.push(part.one.id);
    }
    Some(chosen)
}

/// The oldest of a network that has more than its part, and would have more than the newcomer's.
fn first_of_too_many(all: &[Part<'_>], need: &Need<'_>) -> Option<usize> {
    NETWORKS.into_iter().find_map(|(bits, part)| {
        let own = need.source.network(bits);
        let of_own = all.iter().filter(|part| !part.one.has_answered);
        let of_own = of_own.filter(|part| part.one.source.network(bits) == own);
        let of_own: u64 = of_own.map(|part| part.has).sum();
        let (has, at) = oldest_of_most(all, bits, |one| !one.has_answered, Some(own))?;
        (has > (need.total / part).max(of_own + need.takes)).then_some(at)
    })
}

/// What the network has that has most in connections that `counts` says, and the place of the oldest
/// of these; networks but `not` are looked at.
fn oldest_of_most(
    all: &[Part<'_>],
    bits: u8,
    counts: impl Fn(&Unanswered) -> bool,
    not: Option<Source>,
) -> Option<(u64, usize)> {
    let network = |part: &Part<'_>| part.one.source.network(bits);
    let mut begin = 0;
    let networks = all.chunk_by(|a, b| network(a) == network(b)).map(|of| {
        let places = begin..begin + of.len();
        begin = places.end;
        places
    });
    let most = networks.filter(|places| Some(network(&all[places.start])) != not);
    let most = most.filter_map(|places| {
        let counted = places.filter(|&at| counts(all[at].one));
        let has: u64 = counted.clone().map(|at| all[at].has).sum();
        let oldest = counted.min_by_key(|&at| all[at].one.heard_at)?;
        Some((has, Reverse(all[oldest].one.heard_at), oldest))
    });
    most.max().map(|(has, _, oldest)| (has, oldest))
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const MINUTE: u64 = 60_000;

    fn source(text: &str) -> Source {
        text.parse::<IpAddr>().unwrap().into()
    }

    /// Unanswered connections of 30 bytes each, by source and when they were heard, ms.
    fn unanswered(all: impl IntoIterator<Item = (String, u64)>) -> Vec<Unanswered> {
        let all = all.into_iter().enumerate();
        let all = all.map(|(number, (from, ms))| Unanswered {
            source: source(&from),
            heard_at: Instant::from_millis(ms),
            id: SessionId((number as u128).to_be_bytes()),
            client: ClientId::Anybody,
            memory: 30,
            has_answered: false,
        });
        let mut all: Vec<_> = all.collect();
        all.sort_by_key(Unanswered::order);
        all
    }

    /// Who makes room for one need.
    fn choose_for(
        all: &[Unanswered],
        need: Need<'_>,
        is_old: impl Fn(&Unanswered) -> bool,
    ) -> Option<Vec<SessionId>> {
        let all: Vec<_> = all.iter().collect();
        let chosen = choose_all(&all, &[need], is_old).ok()?;
        Some(chosen.into_iter().collect())
    }

    /// The number of the one that makes room for somebody `from` a source, where those heard before
    /// `old_ms` are old and there are `total` places.
    fn chosen(all: Vec<Unanswered>, from: &str, old_ms: u64, total: usize) -> Option<u128> {
        let need = Need::place(source(from), total, Among::All);
        let ids = choose_for(&all, need, |one| one.heard_at < Instant::from_millis(old_ms))?;
        assert_eq!(ids.len(), 1);
        Some(u128::from_be_bytes(ids[0].0))
    }

    #[test]
    fn the_old_go_first_by_source() {
        let all = [("192.0.2.1", 1), ("192.0.2.2", 3), ("192.0.2.2", 2), ("192.0.2.3", 9)];
        let all = || unanswered(all.map(|(from, at)| (from.to_owned(), at)));
        assert_eq!(chosen(all(), "192.0.2.9", 5, 4), Some(2));
        assert_eq!(chosen(all(), "192.0.2.9", 2, 4), Some(0));
        // Whoever has one has no more than the newcomer will have.
        assert_eq!(chosen(all(), "192.0.2.9", 0, 4), Some(2));
        assert_eq!(chosen(all(), "192.0.2.2", 0, 4), None);
    }

    /// Machines that sleep, of which one has many connections.
    #[test]
    fn those_that_have_answered_go_last() {
        let all = || {
            let sleeping = (0..20).map(|n| ("192.0.2.1".to_owned(), n));
            let mut all = unanswered(sleeping.chain([("192.0.2.2".to_owned(), 100)]));
            let asleep = |one: &&mut Unanswered| one.source == source("192.0.2.1");
            all.iter_mut().filter(asleep).for_each(|one| one.has_answered = true);
            all
        };
        assert_eq!(chosen(all(), "192.0.2.9", 1000, 4096), Some(20));
        let mut sleeping = all();
        sleeping.retain(|one| one.has_answered);
        assert_eq!(chosen(sleeping, "192.0.2.9", 1000, 4096), Some(0));
    }

    #[test]
    fn a_flood_from_many_addresses_displaces_itself_and_no_single_client() {
        let flood = (0..4032).map(|n| (format!("198.51.100.{}", n % 63), MINUTE + n));
        let honest = [("192.0.2.1".to_owned(), MINUTE - 1), ("192.0.2.1".to_owned(), MINUTE)];
        let all = || unanswered(flood.clone().chain(honest.clone()));
        assert_eq!(chosen(all(), "192.0.2.7", 0, 4096), Some(0));
        assert_eq!(chosen(all(), "192.0.2.1", 0, 4096), Some(0));
        // One more of the flood comes in for another of it at best.
        assert_eq!(chosen(all(), "198.51.100.1", 0, 4096), None);
        assert_eq!(chosen(all(), "198.51.100.77", 0, 4096), Some(0));
    }

    #[test]
    fn a_few_at_once_from_one_address_are_no_flood() {
        let few = (0..16).map(|n| ("192.0.2.1".to_owned(), n));
        assert_eq!(chosen(unanswered(few), "192.0.2.7", 0, 4096), None);
        let more = (0..17).map(|n| ("192.0.2.1".to_owned(), n));
        assert_eq!(chosen(unanswered(more), "192.0.2.7", 0, 4096), Some(0));
    }

    #[test]
    fn networks_of_ipv6_count_together() {
        // A customer with 2^8 or 2^16 networks who uses each of them once.
        for (prefix, most) in [("2001:db8:7:1", 32), ("2001:db8:7:", 64)] {
            let address = |n: u64| match prefix.ends_with(':') {
                true => format!("{prefix}{n:x}00::1"),
                false => format!("{prefix}{n:02x}::1"),
            };
            let flood = |count: u64| unanswered((0..count).map(|n| (address(n), n)));
            assert_eq!(chosen(flood(most), "2001:db8:8::1", 0, 4096), None, "{prefix}");
            assert_eq!(chosen(flood(most + 1), "2001:db8:8::1", 0, 4096), Some(0), "{prefix}");
        }
    }

    #[test]
    fn as_many_as_are_needed_or_none() {
        let all = unanswered((0..5).map(|n| ("192.0.2.1".to_owned(), n)));
        let chosen = |missing, is_old: bool| {
            let (source, total, among) = (source("192.0.2.9"), 1000, Among::All);
            let need = Need { source, among, is_memory: true, takes: 90, missing, total };
            choose_for(&all, need, |_| is_old).map(|ids| ids.len())
        };
        assert_eq!(chosen(0, true), Some(0));
        assert_eq!(chosen(61, true), Some(3));
        assert_eq!(chosen(151, true), None);
        // Young ones are ended only while they have more than the newcomer will have.
        assert_eq!(chosen(60, false), Some(2));
        assert_eq!(chosen(61, false), None);
    }
}
