//! The policies of a session's paths, for whichever scheduler: which subflows stand by, what they
//! may still send again, and how much a rate cap lets through.
//!
//! * *Backup* subflows are asked for new data only while no active and no metered subflow is up. A
//!   subflow is up while it is not stalled, so that a backup takes over at the moment at which the
//!   last one is found stalled or is gone, and goes back at the moment at which one makes progress
//!   or comes up. What stalled subflows hold a backup sends again at any time.
//! * *Metered* subflows are asked while data have waited for [`METERED_AFTER`] without a break, or
//!   while no active subflow is up. Data wait while something may be sent and no subflow has taken
//!   it: the active paths' sockets are full, or their caps are used up. A burst that they carry off
//!   in that time costs nothing on a metered path, nor does a stream that they keep up with.
//! * *Retired* subflows are asked only while nothing else is up.
//!
//! Everything else is the schedulers' affair, who see [`Subflow::is_usable`].

use super::policies::Applied;
use super::send::SendHalf;
use super::{Event, Session};
use crate::Instant;
use crate::limiter::PathLimiter;
use crate::path::{PathId, SubflowId};
use crate::policy::{METERED_AFTER, PathPolicy, RateCap, Role};
use crate::scheduler::Assignment;
use crate::subflow::Subflow;
use crate::wire::{MAX_PAYLOAD, PolicyChange, PolicyNote, VARINT_MAX};

/// Changes of policy kept for a peer at most: one for each path, and no client has that many.
const MAX_CHANGED: usize = 256;

impl SendHalf {
    /// Takes a path's policy, unless it is older than what is known. Returns whether it was taken.
    fn set_policy(&mut self, path: PathId, note: PolicyNote, shared: Option<RateCap>) -> bool {
        let applied = self.policies.paths.entry(path).or_default();
        if note.revision < applied.revision {
            return false;
        }
        applied.revision = note.revision;
        applied.role = note.policy.role;
        applied.cap = match (note.policy.cap, shared, applied.cap.take()) {
            (None, ..) => None,
            (Some(_), Some(shared), _) => Some(shared),
            (Some(rate), None, Some(cap)) => {
                cap.set_rate(rate);
                Some(cap)
            }
            (Some(rate), None, None) => Some(RateCap::new(rate)),
        };
        let (role, rate) = (applied.role, applied.rate());
        let ordinary = |applied: &Applied| applied.note().policy == PathPolicy::default();
        self.policies.is_any = !self.policies.paths.values().all(ordinary);
        for subflow in self.subflows.iter_mut().filter(|subflow| subflow.path() == path) {
            subflow.set_policy(role, rate);
            subflow.set_capped(false);
        }
        true
    }

    /// Gives a new subflow its path's policy.
    pub(super) fn adopt_policy(&self, subflow: &mut Subflow) {
        if let Some(applied) = self.policies.paths.get(&subflow.path()) {
            subflow.set_policy(applied.role, applied.rate());
        }
        subflow.set_limiter(self.policies.limiters.get(&subflow.path()).cloned());
    }

    /// How many bytes the cap and the limiter of its path let through, of those that the subflow's
    /// socket has room for.
    pub(super) fn allowed(&self, index: usize, now: Instant) -> u64 {
        let subflow = &self.subflows[index];
        if !self.policies.is_any && !subflow.is_limited() {
            return subflow.room();
        }
        self.policies.available(subflow.path(), now).min(subflow.room())
    }

    /// Notes that a subflow has been given `bytes`.
    pub(super) fn spend(&self, index: usize, bytes: u64, now: Instant) {
        let subflow = &self.subflows[index];
        let cap = self.policies.is_any.then(|| self.policies.cap(subflow.path())).flatten();
        cap.into_iter().for_each(|cap| cap.spend(bytes, now));
        subflow.limiter().into_iter().for_each(|limiter| limiter.spend(bytes, now));
    }

    /// Evaluates which subflows stand by; returns those for which that has changed.
    pub(super) fn review(&mut self, now: Instant) -> Vec<SubflowId> {
        if !self.policies.is_any && !self.subflows.iter().any(Subflow::is_standby) {
            self.policies.waiting_since = None;
            return Vec::new();
        }
        let waits = self.has_data_to_send();
        let since = self.policies.waiting_since.take_if(|_| waits);
        self.policies.waiting_since = waits.then(|| since.unwrap_or(now));
        let is_up = |role| self.subflows.iter().any(|s| s.role() == role && !s.is_stalled());
        let [active, metered, backup] = [Role::Active, Role::Metered, Role::Backup].map(is_up);
        let behind = self.metered_at().is_some_and(|at| at <= now);
        let mut changed = Vec::new();
        for subflow in &mut self.subflows {
            let standby = match subflow.role() {
                Role::Active => false,
                Role::Metered => active && !behind,
                Role::Backup => active || metered,
                Role::Retired => active || metered || backup,
            };
            if standby != subflow.is_standby() {
                subflow.set_standby(standby);
                changed.push(subflow.id());
            }
        }
        changed
    }

    /// When metered paths begin to help.
    fn metered_at(&self) -> Option<Instant> {
        self.policies.waiting_since.map(|since| since + METERED_AFTER)
    }

    /// Whether a subflow that stands by may have something to do.
    pub(super) fn is_needed(&self, subflow: &Subflow) -> bool {
        !subflow.is_standby()
            || (subflow.role() == Role::Backup && self.subflows.iter().any(Subflow::is_stalled))
    }

    /// What a subflow that stands by sends again: the lowest bytes that only stalled subflows
    /// carry, if it has them there before any that does not stand by. Of the standing by, only
    /// backups do.
    pub(super) fn standby_reinjection(&self, now: Instant) -> Option<Assignment> {
        if !self.policies.is_any {
            return None;
        }
        let standby = |&index: &usize| {
            let subflow = &self.subflows[index];
            subflow.is_standby() && !subflow.is_stalled() && self.is_needed(subflow)
        };
        let mut all = (0..self.subflows.len()).filter(standby);
        let subflow = all.find(|&index| self.allowed(index, now) > 0)?;
        let view = self.view(now);
        let range = view.only_on_stalled()?;
        let room = self.allowed(subflow, now).min(MAX_PAYLOAD);
        let chunk = view.chunk_size(&self.subflows[subflow]).min(room);
        let mine = view.arrival(&self.subflows[subflow], chunk);
        if view.usable().any(|other| view.arrival(other, chunk) < mine) {
            return None;
        }
        Some(Assignment { subflow, range: range.start..range.end.min(range.start + chunk) })
    }

    /// What the peer must be told of the policies.
    pub(super) fn policy_changes(&self) -> impl Iterator<Item = PolicyChange> {
        let all = self.policies.paths.iter().filter(|(_, applied)| applied.announced);
        // One with a number that is too large has no subflow.
        let all = all.filter(|(path, _)| path.0 <= VARINT_MAX);
        let changes = all.map(|(path, a)| PolicyChange { path: path.0, note: a.note() });
        changes.take(MAX_CHANGED)
    }

    /// When something changes by itself on account of a policy.
    pub(super) fn policy_timeout(&self) -> Option<Instant> {
        if !self.policies.is_any && !self.policies.is_gated {
            return None;
        }
        let waits = self.subflows.iter().any(|s| s.role() == Role::Metered && s.is_standby());
        let metered = if waits { self.metered_at() } else { None };
        let capped = self.subflows.iter().filter(|subflow| subflow.is_capped());
        capped.map(|subflow| self.policies.ready_at(subflow.path())).chain(metered).min()
    }

    /// The subflows whose caps let something through again.
    pub(super) fn take_uncapped(&mut self, now: Instant) -> Vec<SubflowId> {
        let mut ready = Vec::new();
        for subflow in self.subflows.iter_mut().filter(|subflow| subflow.is_capped()) {
            if self.policies.ready_at(subflow.path()) <= now {
                subflow.set_capped(false);
                ready.push(subflow.id());
            }
        }
        ready
    }
}

impl Session {
    /// Says what a path may be used for. Takes effect at once on subflows that are up, and on later
    /// ones. With `shared`, the path's cap is that one, which other sessions have too. A note that
    /// is older than the one known is ignored.
    pub fn set_policy(
        &mut self,
        path: PathId,
        note: PolicyNote,
        shared: Option<RateCap>,
        now: Instant,
    ) {
        if self.send.set_policy(path, note, shared) {
            self.wake_all();
            self.update(now);
        }
    }

    /// As [`set_policy`](Self::set_policy), for a path that the peer may know by an older policy:
    /// tells it on every subflow, present and future.
    pub fn change_policy(
        &mut self,
        path: PathId,
        note: PolicyNote,
        shared: Option<RateCap>,
        now: Instant,
    ) {
        self.set_policy(path, note, shared, now);
        if let Some(applied) = self.send.policies.paths.get_mut(&path) {
            applied.announced = true;
        }
        for control in self.control.values_mut() {
            control.policy = true;
        }
        self.wake_all();
    }

    /// Sets the limiter of a path: it counts what is sent over the path, and holds it back. All
    /// sessions that share the path have the same.
    pub fn set_limiter(&mut self, path: PathId, limiter: PathLimiter) {
        for subflow in self.send.subflows.iter_mut().filter(|subflow| subflow.path() == path) {
            subflow.set_limiter(Some(limiter.clone()));
        }
        self.send.policies.limiters.insert(path, limiter);
    }

    /// What was said last of a path.
    pub fn policy(&self, path: PathId) -> PolicyNote {
        self.send.policies.note(path)
    }

    /// Takes the peer's word on a path, if this side follows it, and the path has been there.
    pub(super) fn handle_policy(&mut self, change: PolicyChange) {
        let (path, note) = (PathId(change.path), change.note);
        let is_there = self.follow_policy && self.paths.contains_key(&path);
        // What is said again is no news, and of several words only the last counts: a peer that says
        // much costs no memory.
        if !is_there || note == self.policy(path) || !self.send.set_policy(path, note, None) {
            return;
        }
        self.wake_all();
        let mut told = self.events.iter_mut();
        match told.find(|event| matches!(event, Event::PathPolicy(of, _) if *of == path)) {
            Some(event) => *event = Event::PathPolicy(path, note),
            None => self.events.push_back(Event::PathPolicy(path, note)),
        }
    }

    /// Wakes the subflows that have become of use, or of none, since the last look.
    pub(super) fn review(&mut self, now: Instant) {
        let changed = self.send.review(now);
        if !changed.is_empty() {
            changed.into_iter().for_each(|id| self.wake(id));
            self.wake_idle();
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::BytesMut;

    use super::*;
    use crate::session::SessionConfig;
    use crate::wire::Record;

    const PATH: PathId = PathId(0);

    fn session(follow_policy: bool) -> Session {
        let config = SessionConfig { follow_policy, ..SessionConfig::default() };
        let mut session = Session::new(&config, Instant::ZERO);
        session.subflow_up(SubflowId(0), PATH, Instant::ZERO).unwrap();
        session
    }

    fn hears(session: &mut Session, path: u64, revision: u64, role: Role) {
        let policy = PathPolicy { role, cap: None };
        let change = PolicyChange { path, note: PolicyNote { revision, policy } };
        let mut input = BytesMut::new();
        Record::PathPolicy(change).encode(&mut input);
        session.handle_input(SubflowId(0), &mut input, Instant::from_millis(1)).unwrap();
    }

    #[test]
    fn a_client_does_not_follow_its_server() {
        let mut client = session(false);
        hears(&mut client, 0, 7, Role::Backup);
        assert_eq!(client.policy(PATH), PolicyNote::default());
        let mut server = session(true);
        hears(&mut server, 0, 7, Role::Backup);
        assert_eq!(server.policy(PATH).policy.role, Role::Backup);
    }

    #[test]
    fn what_is_said_of_paths_that_never_were_is_not_kept() {
        let mut server = session(true);
        for path in 1..10_000 {
            hears(&mut server, path, 1, Role::Metered);
        }
        assert!(server.send.policies.paths.is_empty());
        assert_eq!(server.policy_events(), 0);
        // The older of two words on a path does not count, whenever it comes.
        hears(&mut server, 0, 5, Role::Backup);
        hears(&mut server, 0, 4, Role::Metered);
        assert_eq!(server.policy(PATH).policy.role, Role::Backup);
        assert_eq!(server.policy_events(), 1);
    }

    #[test]
    fn a_peer_that_says_much_of_a_path_is_told_of_once() {
        let mut server = session(true);
        for revision in 1..10_000 {
            for _ in 0..3 {
                hears(&mut server, 0, revision, Role::Backup);
            }
        }
        assert_eq!(server.policy_events(), 1);
        hears(&mut server, 0, 9999, Role::Backup);
        assert_eq!(server.policy_events(), 0, "it is known");
    }

    impl Session {
        fn policy_events(&mut self) -> usize {
            let all = std::iter::from_fn(|| self.poll_event());
            all.filter(|event| matches!(event, Event::PathPolicy(..))).count()
        }
    }
}
