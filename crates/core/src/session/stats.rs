//! Counters of a session, for results, logs and metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use super::recv::RecvHalf;
use super::send::SendHalf;
use crate::path::{PathId, PathInfo, SubflowId};
use crate::policy::PathPolicy;
use crate::subflow::Subflow;
use crate::{Bitrate, ByteCount};

/// One path's counters over all its subflows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathStats {
    /// What the path is for.
    pub policy: PathPolicy,
    /// Payload bytes given to the path.
    pub sent: u64,
    /// Payload bytes of these that were on another path already: reinjected, redundant copies
    /// included.
    pub reinjected: u64,
    /// Payload bytes of these that the other path was still delivering: redundant copies.
    pub copied: u64,
    /// Payload bytes the peer has received on the path.
    pub delivered: u64,
    /// Payload bytes received on the path from the peer, duplicates included.
    pub received: u64,
    /// Segments that the kernel has sent again on all its subflows, as far as was seen of them.
    pub retransmitted: u64,
    /// Subflows that the path has had and lost.
    pub lost_subflows: u64,
    /// The measured rate while the path has data.
    pub rate: Option<Bitrate>,
    /// The last application-level round-trip time.
    pub ping_rtt: Option<Duration>,
    /// The present subflow.
    pub subflow: Option<SubflowStats>,
}

/// A live subflow's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubflowStats {
    /// Its number.
    pub id: SubflowId,
    /// The kernel's metrics.
    pub info: PathInfo,
    /// Payload bytes on their way.
    pub outstanding: u64,
    /// Mean time from assignment to acknowledgement.
    pub delivery_time: Duration,
    /// Whether it makes no progress.
    pub stalled: bool,
    /// Whether its path's role keeps it from new data now.
    pub standby: bool,
}

/// What has become of messages, in a connection that carries them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageStats {
    /// Messages of ours.
    pub sent: u64,
    /// Of these, known to have arrived whole.
    pub delivered: u64,
    /// Of these, cancelled or expired.
    pub dropped: u64,
    /// Messages of the peer that have arrived whole.
    pub received: u64,
    /// Messages that the peer has dropped.
    pub lost: u64,
}

/// A session's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionStats {
    /// Stream bytes the peer has received in order.
    pub acknowledged: u64,
    /// Stream bytes received in order.
    pub delivered: u64,
    /// Stream bytes received more than once.
    pub duplicates: u64,
    /// Memory held for received bytes.
    pub receive_memory: ByteCount,
    /// The path that sends forward, for schedulers that have one.
    pub forward: Option<PathId>,
    /// The transmission window, for schedulers that have one.
    pub window: Option<ByteCount>,
    /// What has become of messages.
    pub messages: MessageStats,
    /// Each path, by its number.
    pub paths: BTreeMap<PathId, PathStats>,
}

impl PathStats {
    /// Adds a subflow that is gone.
    pub(super) fn add(&mut self, dead: &Subflow) {
        self.sent += dead.sent();
        self.reinjected += dead.reinjected();
        self.copied += dead.copied();
        self.delivered += dead.delivered();
        self.retransmitted += dead.info().retransmitted;
        self.lost_subflows += 1;
    }
}

pub(super) fn collect(
    send: &SendHalf,
    recv: &RecvHalf,
    past: &BTreeMap<PathId, Box<PathStats>>,
) -> SessionStats {
    let mut paths: BTreeMap<PathId, PathStats> =
        past.iter().map(|(&path, stats)| (path, (**stats).clone())).collect();
    for subflow in &send.subflows {
        let stats = paths.entry(subflow.path()).or_default();
        stats.sent += subflow.sent();
        stats.reinjected += subflow.reinjected();
        stats.copied += subflow.copied();
        stats.delivered += subflow.delivered();
        stats.retransmitted += subflow.info().retransmitted;
        stats.subflow = Some(SubflowStats {
            id: subflow.id(),
            info: *subflow.info(),
            outstanding: subflow.outstanding(),
            delivery_time: subflow.delivery_time(),
            stalled: subflow.is_stalled(),
            standby: subflow.is_standby(),
        });
    }
    for (path, meter) in &send.meters {
        let stats = paths.entry(*path).or_default();
        stats.rate = meter.rate();
        stats.policy = send.policies.note(*path).policy;
    }
    SessionStats {
        acknowledged: send.acknowledged(),
        delivered: recv.stream.in_order(),
        duplicates: recv.stream.duplicates(),
        receive_memory: ByteCount::new(recv.memory()),
        forward: send.forward(),
        window: send.window(),
        messages: messages(send, recv),
        paths,
    }
}

fn messages(send: &SendHalf, recv: &RecvHalf) -> MessageStats {
    let mut stats = MessageStats::default();
    if let Some(outbox) = &send.outbox {
        stats.sent = outbox.count();
        (stats.delivered, stats.dropped) = outbox.ended();
    }
    if let Some(inbox) = &recv.inbox {
        (stats.received, stats.lost) = inbox.counts();
    }
    stats
}
