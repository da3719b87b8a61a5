//! How a path's policy is told: in hello and join, and in a record of its own when it changes.

use bytes::BufMut;

use super::varint::{self, Reader};
use crate::Bitrate;
use crate::policy::{PathPolicy, RateCap, Role};

/// What the client says of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyNote {
    /// Counts the client's changes: what comes late on a slow subflow does not undo what came
    /// before on a fast one.
    pub revision: u64,
    /// The path's policy.
    pub policy: PathPolicy,
}

/// Changes a path's policy (client to server). Sent on every subflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PolicyChange {
    /// The client's number of the path.
    pub path: u64,
    /// Its new policy.
    pub note: PolicyNote,
}

impl PolicyNote {
    pub(super) fn put(&self, out: &mut impl BufMut) {
        varint::put(out, self.revision.min(varint::VARINT_MAX));
        varint::put(out, role_number(self.policy.role));
        let cap = self.policy.cap.map(|cap| cap.max(RateCap::MIN).min(RateCap::MAX).as_bps());
        varint::put(out, cap.unwrap_or(0));
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Option<Self> {
        let revision = body.varint()?;
        let role = role(body.varint()?)?;
        let cap = match body.varint()? {
            0 => None,
            bps => {
                let cap = Bitrate::bps(bps);
                Some((RateCap::MIN..=RateCap::MAX).contains(&cap).then_some(cap)?)
            }
        };
        Some(Self { revision, policy: PathPolicy { role, cap } })
    }

    /// As [`read`](Self::read); a peer of version 1.0 ends its record before it.
    pub(super) fn read_if_any(body: &mut Reader<'_>) -> Option<Self> {
        if body.0.is_empty() { Some(Self::default()) } else { Self::read(body) }
    }
}

impl PolicyChange {
    pub(super) fn put(&self, out: &mut impl BufMut) {
        varint::put(out, self.path);
        self.note.put(out);
    }

    pub(super) fn read(body: &mut Reader<'_>) -> Option<Self> {
        Some(Self { path: body.varint()?, note: PolicyNote::read(body)? })
    }
}

const fn role_number(role: Role) -> u64 {
    match role {
        Role::Active => 0,
        Role::Backup => 1,
        Role::Metered => 2,
        Role::Retired => 3,
    }
}

const fn role(number: u64) -> Option<Role> {
    match number {
        0 => Some(Role::Active),
        1 => Some(Role::Backup),
        2 => Some(Role::Metered),
        3 => Some(Role::Retired),
        _ => None,
    }
}
