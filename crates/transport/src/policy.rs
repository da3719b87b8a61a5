//! Rate caps and limiters that connections share.
//!
//! A cap is one for all connections of a client over a path, in each direction: the client limits
//! what it sends, and the server, who knows a client's connections by the number they have in
//! common, what it sends to it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use weftline_core::limiter::PathLimiter;
use weftline_core::wire::PolicyNote;
use weftline_core::{PathId, RateCap};

/// Paths of one client whose caps are shared; further ones have one for each connection. A peer
/// chooses the numbers of its paths.
const MAX_SHARED: usize = 256;

/// The caps and limiters of one client's paths, in one direction.
#[derive(Debug, Default)]
pub(crate) struct Caps {
    caps: Mutex<BTreeMap<PathId, Shared>>,
    limiters: Mutex<BTreeMap<PathId, PathLimiter>>,
}

#[derive(Debug)]
struct Shared {
    revision: u64,
    cap: RateCap,
}

impl Caps {
    /// The cap that all connections share on the path, set to what is said of it last; `None` if
    /// it has none.
    pub(crate) fn of(&self, path: PathId, note: PolicyNote) -> Option<RateCap> {
        let rate = note.policy.cap?;
        let mut caps = self.caps.lock().expect("nobody panics with it");
        if caps.len() >= MAX_SHARED && !caps.contains_key(&path) {
            return None;
        }
        let new = || Shared { revision: note.revision, cap: RateCap::new(rate) };
        let shared = caps.entry(path).or_insert_with(new);
        if note.revision >= shared.revision {
            shared.revision = note.revision;
            shared.cap.set_rate(rate);
        }
        Some(shared.cap.clone())
    }

    /// The limiter that all connections have on the path; `None` if there are too many paths.
    pub(crate) fn limiter(&self, path: PathId) -> Option<PathLimiter> {
        let mut limiters = self.limiters.lock().expect("nobody panics with it");
        if limiters.len() >= MAX_SHARED && !limiters.contains_key(&path) {
            return None;
        }
        Some(limiters.entry(path).or_default().clone())
    }
}

/// The caps of each client of a server that has connections.
#[derive(Debug, Default)]
pub(crate) struct Groups(Mutex<BTreeMap<[u8; 16], Weak<Caps>>>);

impl Groups {
    /// The caps of the client whose connections have the number in common; its own for one that
    /// names none.
    pub(crate) fn of(&self, group: [u8; 16]) -> Arc<Caps> {
        if group == [0; 16] {
            return Arc::default();
        }
        let mut groups = self.groups();
        if let Some(caps) = groups.get(&group).and_then(Weak::upgrade) {
            return caps;
        }
        // As many as there are connections at most.
        groups.retain(|_, caps| caps.strong_count() > 0);
        let caps = Arc::default();
        groups.insert(group, Arc::downgrade(&caps));
        caps
    }

    fn groups(&self) -> MutexGuard<'_, BTreeMap<[u8; 16], Weak<Caps>>> {
        self.0.lock().expect("nobody panics with it")
    }
}

#[cfg(test)]
mod tests {
    use weftline_core::{Bitrate, PathPolicy};

    use super::*;

    fn note(revision: u64, mbps: u64) -> PolicyNote {
        let policy = PathPolicy { cap: Some(Bitrate::mbps(mbps)), ..PathPolicy::default() };
        PolicyNote { revision, policy }
    }

    #[test]
    fn connections_of_a_client_share_a_cap_and_others_do_not() {
        let groups = Groups::default();
        let (a, b, other) = (groups.of([1; 16]), groups.of([1; 16]), groups.of([2; 16]));
        let cap = a.of(PathId(3), note(0, 8)).unwrap();
        let now = weftline_core::Instant::from_millis(5);
        cap.spend(20_000, now);
        assert_eq!(b.of(PathId(3), note(0, 8)).unwrap().available(now), 0);
        assert!(b.of(PathId(4), note(0, 8)).unwrap().available(now) > 0, "another path");
        assert!(other.of(PathId(3), note(0, 8)).unwrap().available(now) > 0);
        // A connection that has not heard of a change does not undo it.
        assert_eq!(b.of(PathId(3), note(2, 80)).unwrap().rate(), Bitrate::mbps(80));
        assert_eq!(a.of(PathId(3), note(1, 8)).unwrap().rate(), Bitrate::mbps(80));
        assert!(a.of(PathId(3), PolicyNote::default()).is_none());
    }

    #[test]
    fn connections_of_a_client_share_a_limiter_and_there_are_not_too_many() {
        let groups = Groups::default();
        let (a, b, other) = (groups.of([1; 16]), groups.of([1; 16]), groups.of([2; 16]));
        let now = weftline_core::Instant::from_millis(5);
        let limiter = a.limiter(PathId(3)).unwrap();
        limiter.count();
        limiter.spend(700, now);
        assert_eq!(b.limiter(PathId(3)).unwrap().spent(), 700);
        assert_eq!(b.limiter(PathId(4)).unwrap().spent(), 0, "another path");
        assert_eq!(other.limiter(PathId(3)).unwrap().spent(), 0);
        let given = (0..10_000).filter(|&path| other.limiter(PathId(path)).is_some()).count();
        assert_eq!(given, MAX_SHARED);
    }

    #[test]
    fn groups_are_forgotten_with_their_last_connection() {
        let groups = Groups::default();
        for n in 0..100 {
            drop(groups.of([n + 1; 16]));
        }
        assert!(groups.groups().len() <= 1);
        assert!(!Arc::ptr_eq(&groups.of([0; 16]), &groups.of([0; 16])), "no number, no sharing");
    }
}
