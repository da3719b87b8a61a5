//! How a session behaves.

use std::time::Duration;

use super::MessageLimits;
use crate::ByteCount;
use crate::pool::BlockPool;
use crate::scheduler::{DEFAULT, Entry, SchedulerConfig};
use crate::wire::INITIAL_CREDIT;

/// Most memory a session may be given: offsets within it stay numbers that the wire carries.
const MOST_MEMORY: u64 = 64 << 30;

/// How a session behaves. Both ends use the same scheduler; the client's choice travels in its
/// hello.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// Which scheduler sends our direction.
    pub scheduler: &'static Entry,
    /// Its settings.
    pub scheduler_config: SchedulerConfig,
    /// Most memory for received bytes, and again for bytes to send. The default of 256 MiB lets
    /// 2.4 Gb/s go beside a path whose delivery takes 0.7 s. Less than the 32 KiB that a peer may
    /// send unasked counts as that, more than 64 GiB as 64 GiB.
    pub max_memory: ByteCount,
    /// What a peer may have outstanding before it has asked for more: at least 32 KiB, at most
    /// `max_memory`.
    pub first_window: ByteCount,
    /// The least and largest number of bytes assigned at once; the scheduler's own if `None`.
    pub chunk: Option<(u64, u64)>,
    /// How often each subflow is pinged for its application-level round-trip time while data move;
    /// those of an idle connection are pinged in turn, and less often.
    pub ping_interval: Duration,
    /// After how long without anything from the peer, though it was asked,
    /// [`Event::PeerLost`](super::Event::PeerLost) tells so; never if `None`.
    pub peer_timeout: Option<Duration>,
    /// Whether the peer says what paths are for: the server's side. A client that followed its
    /// server would let it spend the client's money.
    pub follow_policy: bool,
    /// Whether the driver alone says how large the receive window is, with
    /// [`set_receive_limit`](super::Session::set_receive_limit), as a kernel's receive buffer does:
    /// neither what the peer would like nor what the application has taken counts. For both ends.
    pub driver_sizes_window: bool,
    /// Whether a subflow is stalled while its TCP recovers from a retransmission timeout, as MPTCP
    /// v0.95 has it (`mptcp_sub_retransmit_timer`), and at no other time. For drivers that know it.
    pub stalls_by_timeout: bool,
    /// What was agreed upon if the connection carries messages; `None` for a byte stream.
    pub messages: Option<MessageLimits>,
    /// Memory for received bytes, which several sessions may share.
    pub pool: BlockPool,
}

impl Default for SessionConfig {
    fn default() -> Self {
        Self {
            scheduler: &DEFAULT,
            scheduler_config: SchedulerConfig::default(),
            max_memory: ByteCount::mib(256),
            first_window: ByteCount::mib(4),
            chunk: None,
            ping_interval: Duration::from_secs(5),
            peer_timeout: None,
            follow_policy: false,
            driver_sizes_window: false,
            stalls_by_timeout: false,
            messages: None,
            pool: BlockPool::default(),
        }
    }
}

impl SessionConfig {
    /// [`max_memory`](Self::max_memory) in bytes, within its bounds.
    pub(super) fn memory(&self) -> u64 {
        self.max_memory.as_u64().clamp(INITIAL_CREDIT, MOST_MEMORY)
    }
}
