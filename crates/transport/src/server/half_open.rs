//! Who makes room where a limit is reached or the memory used up: connections whose client has not
//! answered yet.
//!
//! Those that have been silent for long go first. A flood that goes on leaves none that is old, so
//! those go as well, however young, of which a network has more than its part, and more than the
//! newcomer's own: whoever opens many displaces itself.

use std::cmp::Reverse;
use std::time::Duration;

use weftline_core::Instant;

use super::State;
use super::sessions::{Session, Tables};
use crate::clock;
use crate::handshake::SessionId;
use crate::limits::{ClientId, Full, Source};
use crate::memory::MemoryBudget;
use crate::subflow::SubflowEnd;

/// Networks in which connections are counted together, by the bits of an IPv6 prefix, and the part,
/// one in so many, of all that a limit lets in that each may have without an answer. One customer has
/// the first or the second; the third may be a site with many, so its part is larger. An IPv4 address
/// is a network of its own.
const NETWORKS: [(u8, u64); 3] = [(64, 256), (56, 128), (48, 64)];

/// What somebody needs who comes from `source`: places, or bytes of memory.
pub(super) struct Need {
    source: Source,
    is_memory: bool,
    /// What it takes, and how much of that is missing.
    takes: u64,
    missing: u64,
    /// What the limit lets in.
    total: u64,
}

impl Need {
    /// A place within a limit.
    pub(super) fn place(source: Source, limit: usize) -> Self {
        Self { source, is_memory: false, takes: 1, missing: 1, total: limit as u64 }
    }

    /// So many bytes.
    pub(super) fn memory(source: Source, takes: u64, budget: &MemoryBudget) -> Self {
        let missing = budget.missing(takes);
        Self { source, is_memory: true, takes, missing, total: budget.total().as_u64() }
    }

    /// What one that is unanswered has of what is needed.
    fn of(&self, memory: u64) -> u64 {
        if self.is_memory { memory } else { 1 }
    }
}

/// A connection whose client has not answered.
struct Unanswered {
    id: SessionId,
    source: Source,
    /// When something last came from it.
    heard_at: Instant,
    /// What it has of what is needed.
    has: u64,
}

impl State {
    /// Makes room, where `full` says, for a connection of `client` at `source` that takes `memory`.
    /// Returns whether there is some to be had.
    pub(super) fn make_room(
        &self,
        full: &Full,
        source: Source,
        client: &ClientId,
        memory: u64,
    ) -> bool {
        let limits = self.admission.limits();
        match full {
            Full::Sessions => self.end_unanswered(&Need::place(source, limits.sessions), |_| true),
            Full::SourceSessions => {
                let need = Need::place(source, limits.sessions_per_source);
                self.end_unanswered(&need, |session| session.source == source)
            }
            Full::ClientSessions => {
                let need = Need::place(source, limits.sessions_per_client);
                self.end_unanswered(&need, |session| session.client.is_counted_as(client))
            }
            Full::Memory(_) => {
                self.end_unanswered(&Need::memory(source, memory, &self.memory), |_| true)
            }
            Full::Failures => false,
        }
    }

    /// Ends as many of the unanswered connections that `is_among` says as it takes to give what is
    /// needed. Returns false, and ends none, if all of them are too few.
    pub(super) fn end_unanswered(&self, need: &Need, is_among: impl Fn(&Session) -> bool) -> bool {
        let answer_time = self.admission.limits().answer_time;
        let taken = self.tables().take_unanswered(need, is_among, answer_time);
        let is_enough = taken.is_some();
        for mut session in taken.into_iter().flatten() {
            session.shared.give_way();
            let subflows = session.paths.values_mut().flatten();
            subflows.for_each(|running| running.stop(SubflowEnd::GaveWay));
        }
        is_enough
    }
}

impl Tables {
    fn take_unanswered(
        &mut self,
        need: &Need,
        is_among: impl Fn(&Session) -> bool,
        answer_time: Duration,
    ) -> Option<Vec<Session>> {
        let unanswered = self.sessions.iter().filter(|(_, session)| is_among(session));
        let unanswered = unanswered.filter_map(|(&id, session)| {
            let (heard_at, memory) = session.shared.unanswered()?;
            Some(Unanswered { id, source: session.source, heard_at, has: need.of(memory) })
        });
        let now = clock::now();
        let is_old = |one: &Unanswered| now.since(one.heard_at) >= answer_time;
        let chosen = choose(unanswered.collect(), need, is_old)?;
        Some(chosen.into_iter().filter_map(|id| self.fail(id)).collect())
    }
}

/// Which of the unanswered connections make room; `None` if all that may be ended are too few.
fn choose(
    mut all: Vec<Unanswered>,
    need: &Need,
    is_old: impl Fn(&Unanswered) -> bool,
) -> Option<Vec<SessionId>> {
    // Networks are runs of addresses in order, whatever their size.
    all.sort_unstable_by_key(|one| (one.source, one.heard_at));
    let (mut chosen, mut freed) = (Vec::new(), 0);
    while freed < need.missing {
        let old = oldest_of_most(&all, NETWORKS[0].0, &is_old, None).map(|(_, at)| at);
        let one = all.remove(old.or_else(|| first_of_too_many(&all, need))?);
        freed += one.has;
        chosen.push(one.id);
    }
    Some(chosen)
}

/// The oldest of a network that has more than its part, and would have more than the newcomer's.
fn first_of_too_many(all: &[Unanswered], need: &Need) -> Option<usize> {
    NETWORKS.into_iter().find_map(|(bits, part)| {
        let own = need.source.network(bits);
        let of_own = all.iter().filter(|one| one.source.network(bits) == own);
        let of_own: u64 = of_own.map(|one| one.has).sum();
        let (has, at) = oldest_of_most(all, bits, |_| true, Some(own))?;
        (has > (need.total / part).max(of_own + need.takes)).then_some(at)
    })
}

/// What the network has that has most in connections that `counts` says, and the place of the oldest
/// of these; networks but `not` are looked at.
fn oldest_of_most(
    all: &[Unanswered],
    bits: u8,
    counts: impl Fn(&Unanswered) -> bool,
    not: Option<Source>,
) -> Option<(u64, usize)> {
    let network = |one: &Unanswered| one.source.network(bits);
    let mut begin = 0;
    let networks = all.chunk_by(|a, b| network(a) == network(b)).map(|of| {
        let places = begin..begin + of.len();
        begin = places.end;
        places
    });
    let most = networks.filter(|places| Some(network(&all[places.start])) != not);
    let most = most.filter_map(|places| {
        let counted = places.filter(|&at| counts(&all[at]));
        let has: u64 = counted.clone().map(|at| all[at].has).sum();
        let oldest = counted.min_by_key(|&at| all[at].heard_at)?;
        Some((has, Reverse(all[oldest].heard_at), oldest))
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

    /// Unanswered connections of one place each, by source and when they were heard, ms.
    fn unanswered(all: impl IntoIterator<Item = (String, u64)>) -> Vec<Unanswered> {
        let all = all.into_iter().enumerate();
        all.map(|(number, (from, ms))| Unanswered {
            id: SessionId((number as u128).to_be_bytes()),
            source: source(&from),
            heard_at: Instant::from_millis(ms),
            has: 1,
        })
        .collect()
    }

    /// The number of the one that makes room for somebody `from` a source, where those heard before
    /// `old_ms` are old and there are `total` places.
    fn chosen(all: Vec<Unanswered>, from: &str, old_ms: u64, total: usize) -> Option<u128> {
        let need = Need::place(source(from), total);
        let ids = choose(all, &need, |one| one.heard_at < Instant::from_millis(old_ms))?;
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
        let need = |missing| {
            let (source, total) = (source("192.0.2.9"), 1000);
            Need { source, is_memory: true, takes: 90, missing, total }
        };
        let all = || {
            let mut all = unanswered((0..5).map(|n| ("192.0.2.1".to_owned(), n)));
            all.iter_mut().for_each(|one| one.has = 30);
            all
        };
        assert_eq!(choose(all(), &need(0), |_| true).map(|ids| ids.len()), Some(0));
        assert_eq!(choose(all(), &need(61), |_| true).map(|ids| ids.len()), Some(3));
        assert!(choose(all(), &need(151), |_| true).is_none());
        // Young ones are ended only while they have more than the newcomer will have.
        assert_eq!(choose(all(), &need(60), |_| false).map(|ids| ids.len()), Some(2));
        assert!(choose(all(), &need(61), |_| false).is_none());
    }
}
