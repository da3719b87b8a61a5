//! What is known of the policies of a session's paths.

use std::collections::BTreeMap;

use crate::limiter::PathLimiter;
use crate::path::PathId;
use crate::policy::{PathPolicy, RateCap, Role};
use crate::wire::PolicyNote;
use crate::{Bitrate, Instant};

/// The policies of all paths.
#[derive(Debug, Default)]
pub(super) struct Policies {
    pub(super) paths: BTreeMap<PathId, Applied>,
    /// What others may hold back of what goes over paths.
    pub(super) limiters: BTreeMap<PathId, PathLimiter>,
    /// Whether any of them is not just active: without, sessions cost nothing more.
    pub(super) is_any: bool,
    /// Whether a limiter may have let nothing through when that was looked at last.
    pub(super) is_gated: bool,
    /// Since when, without a break, data have waited that no subflow took.
    pub(super) waiting_since: Option<Instant>,
}

/// The policy of one path.
#[derive(Clone, Debug, Default)]
pub(super) struct Applied {
    pub(super) revision: u64,
    pub(super) role: Role,
    pub(super) cap: Option<RateCap>,
    /// Whether the peer is to be told.
    pub(super) announced: bool,
}

impl Applied {
    pub(super) fn note(&self) -> PolicyNote {
        let policy = PathPolicy { role: self.role, cap: self.rate() };
        PolicyNote { revision: self.revision, policy }
    }

    pub(super) fn rate(&self) -> Option<Bitrate> {
        self.cap.as_ref().map(RateCap::rate)
    }
}

impl Policies {
    /// What was said last of a path.
    pub(super) fn note(&self, path: PathId) -> PolicyNote {
        self.paths.get(&path).map(Applied::note).unwrap_or_default()
    }

    /// How many bytes may go over a path at `now`.
    pub(super) fn available(&self, path: PathId, now: Instant) -> u64 {
        let cap = self.cap(path).map_or(u64::MAX, |cap| cap.available(now));
        self.limiters.get(&path).map_or(cap, |limiter| limiter.available(now).min(cap))
    }

    /// When that is not none.
    pub(super) fn ready_at(&self, path: PathId) -> Instant {
        let cap = self.cap(path).map_or(Instant::ZERO, RateCap::ready_at);
        self.limiters.get(&path).map_or(cap, |limiter| limiter.ready_at().max(cap))
    }

    pub(super) fn cap(&self, path: PathId) -> Option<&RateCap> {
        self.paths.get(&path)?.cap.as_ref()
    }
}
