//! The memory that all connections of a process may use together.
//!
//! What a peer may make a connection hold is promised to it ahead, as credit; so promises are
//! counted, not bytes. A connection gets the least it can live on or is refused, and grows while
//! there is something left: up to as much as it leaves free, and never into the last quarter, which
//! is kept for connections to come: what was promised is not withdrawn.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use weftline_core::ByteCount;
use weftline_core::pool::{BLOCK, BlockPool};
use weftline_core::send_buffer::LEAST_RESERVED;
use weftline_core::session::SessionConfig;
use weftline_core::wire::INITIAL_CREDIT;

use crate::error::Error;

/// What a connection cannot do without: the bytes its peer may send unasked, and some to send.
pub(crate) const LEAST_RECEIVE: u64 = INITIAL_CREDIT;
pub(crate) const LEAST_SEND: u64 = 32 << 10;
// Half of it is told as room to write: at least what a writer asks for.
const _: () = assert!(LEAST_SEND / 2 >= LEAST_RESERVED as u64);
/// What a subflow's buffers take at first: small reads of its socket, the same again decrypted, and
/// the state of TLS. Larger reads are promised as they come.
pub(crate) const SUBFLOW: u64 = 16 << 10;
/// The part of all memory that connections do not grow into, one in so many, and the part that must be
/// in use before they grow only when they are asked to.
const KEPT: u64 = 4;
/// The least that a process can be given.
const LEAST_TOTAL: u64 = 16 << 20;

/// What the peer of such a connection may send unasked: a first credit, or one message.
pub(crate) fn unasked(config: &SessionConfig) -> u64 {
    let longest = config.messages.map_or(0, |limits| limits.longest_received);
    longest.max(LEAST_RECEIVE)
}

/// What a connection and its first subflow take, whose peer may send `unasked` bytes.
pub(crate) const fn connection_takes(unasked: u64) -> u64 {
    unasked.saturating_add(LEAST_SEND).saturating_add(SUBFLOW)
}

/// Free memory for received bytes that the process keeps, 16 MiB, for whatever connection needs it
/// next.
pub(crate) fn blocks() -> BlockPool {
    static BLOCKS: OnceLock<BlockPool> = OnceLock::new();
    BLOCKS.get_or_init(|| BlockPool::new((16 << 20) / BLOCK)).clone()
}

/// Memory shared by connections. Clones share it.
#[derive(Clone, Debug)]
pub struct MemoryBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    total: u64,
    reserved: AtomicU64,
}

impl Default for MemoryBudget {
    /// The process's own, shared by all that are given no other: half of the machine's memory.
    fn default() -> Self {
        PROCESS.get_or_init(|| Self::with(machine_memory() / 2)).clone()
    }
}

/// What [`MemoryBudget::default`] gives.
static PROCESS: OnceLock<MemoryBudget> = OnceLock::new();

impl MemoryBudget {
    /// One of its own, for `total` bytes.
    ///
    /// # Errors
    /// [`Error::Invalid`] if that is less than the 16 MiB that some connections need.
    pub fn new(total: ByteCount) -> Result<Self, Error> {
        if total.as_u64() < LEAST_TOTAL {
            let least = ByteCount::new(LEAST_TOTAL);
            let message = format!("{total} of memory in all is too little, give {least} or more");
            return Err(Error::Invalid(message));
        }
        Ok(Self::with(total.as_u64()))
    }

    /// Makes `total` what the process's own budget has, instead of half of the machine's memory.
    ///
    /// # Errors
    /// [`Error::Invalid`] as for [`MemoryBudget::new`], and if the process's own is in use already.
    pub fn limit_process(total: ByteCount) -> Result<(), Error> {
        PROCESS.set(Self::new(total)?).map_err(|_| {
            Error::Invalid("the process's memory is limited before its first connection".to_owned())
        })
    }

    fn with(total: u64) -> Self {
        Self(Arc::new(Budget { total: total.max(LEAST_TOTAL), reserved: AtomicU64::new(0) }))
    }

    /// What connections may use.
    pub fn total(&self) -> ByteCount {
        ByteCount::new(self.0.total)
    }

    /// What of it is promised to connections.
    pub fn reserved(&self) -> ByteCount {
        ByteCount::new(self.0.reserved.load(Ordering::Relaxed))
    }

    /// What is told where there is too little.
    pub(crate) fn error(&self) -> Error {
        Error::MemoryUsedUp { total: self.total() }
    }

    /// How many of `wanted` bytes there are not.
    pub(crate) fn missing(&self, wanted: u64) -> u64 {
        let free = self.0.total.saturating_sub(self.0.reserved.load(Ordering::Relaxed));
        wanted.saturating_sub(free)
    }

    /// Whether one more subflow has room.
    ///
    /// # Errors
    /// [`Error::MemoryUsedUp`].
    pub(crate) fn check_subflow(&self) -> Result<(), Error> {
        if self.missing(SUBFLOW) > 0 { Err(self.error()) } else { Ok(()) }
    }

    /// What a connection and its first subflow need, where the peer may send `receive` bytes
    /// unasked.
    ///
    /// # Errors
    /// [`Error::MemoryUsedUp`].
    pub(crate) fn connection(&self, receive: u64) -> Result<Lease, Error> {
        let mut lease = Lease { budget: self.clone(), receive: 0, send: 0, buffers: 0 };
        let took = self.0.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
            let with_subflow = reserved.checked_add(connection_takes(receive))?;
            (with_subflow <= self.0.total).then_some(with_subflow - SUBFLOW)
        });
        took.map_err(|_| self.error())?;
        (lease.receive, lease.send) = (receive, LEAST_SEND);
        Ok(lease)
    }

    /// Takes up to `wanted` more bytes for who has `own`, as long as that is no more than is left
    /// free to grow into (the dynamic threshold of Choudhury and Hahne, 1998, for shared buffers);
    /// how many.
    fn take(&self, wanted: u64, own: u64) -> u64 {
        let mut took = 0;
        if wanted == 0 {
            return 0;
        }
        let _ = self.0.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
            let free = (self.0.total - self.0.total / KEPT).saturating_sub(reserved);
            took = wanted.min(free.saturating_sub(own) / 2);
            (took > 0).then_some(reserved + took)
        });
        took
    }

    /// Promises `bytes` to something that is no connection, such as what carries UDP. The last quarter of
    /// all memory stays for connections.
    ///
    /// # Errors
    /// [`Error::MemoryUsedUp`] if there are not so many.
    pub fn lease(&self, bytes: ByteCount) -> Result<MemoryLease, Error> {
        let (bytes, most) = (bytes.as_u64(), self.0.total - self.0.total / KEPT);
        let took = self.0.reserved.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |reserved| {
            reserved.checked_add(bytes).filter(|all| *all <= most)
        });
        took.map_err(|_| self.error())?;
        Ok(MemoryLease { budget: self.clone(), bytes })
    }

    fn give_back(&self, bytes: u64) {
        self.0.reserved.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Memory that is promised to something that is no connection; it is given back when this is dropped.
#[derive(Debug)]
pub struct MemoryLease {
    budget: MemoryBudget,
    bytes: u64,
}

impl Drop for MemoryLease {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

/// The machine's memory in bytes.
fn machine_memory() -> u64 {
    let info = rustix::system::sysinfo();
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "the field's type differs between machines"
    )]
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)))
}

/// What one connection has of the budget; given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Lease {
    budget: MemoryBudget,
    receive: u64,
    send: u64,
    buffers: u64,
}

impl Lease {
    /// Bytes that the peer may make this side hold.
    pub(crate) const fn receive(&self) -> u64 {
        self.receive
    }

    /// Bytes that may be held to send.
    pub(crate) const fn send(&self) -> u64 {
        self.send
    }

    /// All that is promised to the connection, its subflows' buffers included.
    pub(crate) const fn held(&self) -> u64 {
        self.receive + self.send + self.buffers
    }

    /// Grows what may be received up to `wanted`, as far as there is memory; what it is then.
    pub(crate) fn grow_receive(&mut self, wanted: u64) -> u64 {
        self.receive +=
            self.budget.take(wanted.saturating_sub(self.receive), self.receive + self.send);
        self.receive
    }

    /// The same for a peer that has not asked for it: only while three quarters of all memory are
    /// free, so that what is left goes to those who ask, and to many.
    pub(crate) fn grow_unasked(&mut self, wanted: u64) -> u64 {
        let free = self.budget.0.total.saturating_sub(self.budget.reserved().as_u64());
        if free >= self.budget.0.total - self.budget.0.total / KEPT {
            self.grow_receive(wanted)
        } else {
            self.receive
        }
    }

    /// The same for what may be held to send.
    pub(crate) fn grow_send(&mut self, wanted: u64) -> u64 {
        self.send += self.budget.take(wanted.saturating_sub(self.send), self.receive + self.send);
        self.send
    }

    /// Gives back what is not needed to hold `wanted` bytes to send.
    pub(crate) fn shrink_send(&mut self, wanted: u64) -> u64 {
        let kept = wanted.max(LEAST_SEND).min(self.send);
        self.budget.give_back(self.send - kept);
        self.send = kept;
        kept
    }

    /// Counts a subflow's buffers. It has been asked before whether there is room
    /// ([`MemoryBudget::check_subflow`]); those that asked at once may all come.
    pub(crate) fn add_subflow(&mut self) {
        self.budget.0.reserved.fetch_add(SUBFLOW, Ordering::Relaxed);
        self.buffers += SUBFLOW;
    }

    /// Takes `more` bytes for a subflow's buffers; whether there are so many.
    pub(crate) fn grow_buffers(&mut self, more: u64) -> bool {
        let took = self.budget.take(more, self.held());
        if took < more {
            self.budget.give_back(took);
            return false;
        }
        self.buffers += more;
        true
    }

    /// A subflow is gone that had this much.
    pub(crate) fn shrink_buffers(&mut self, had: u64) {
        let had = had.min(self.buffers);
        self.budget.give_back(had);
        self.buffers -= had;
    }

    /// The connection is over, and nothing more is kept for it.
    pub(crate) fn give_all_back(&mut self) {
        self.budget.give_back(self.held());
        (self.receive, self.send, self.buffers) = (0, 0, 0);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.give_back(self.held());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn connections_get_the_least_until_nothing_is_left_and_give_it_back() {
        let budget = MemoryBudget::new(ByteCount::mib(16)).unwrap();
        let mut leases = Vec::new();
        let refused = loop {
            match budget.connection(LEAST_RECEIVE) {
                Ok(mut lease) => {
                    lease.add_subflow();
                    leases.push(lease);
                }
                Err(error) => break error,
            }
        };
        assert_eq!(leases.len(), (16 << 20) / (80 << 10), "80 KiB each");
        assert!(refused.to_string().contains("16MiB"), "{refused}");
        // What is left is too little for a connection, and is for further subflows.
        let more =
            std::iter::from_fn(|| budget.check_subflow().ok().map(|()| leases[1].add_subflow()));
        assert_eq!(more.count(), (16 << 20) % (80 << 10) / (16 << 10));
        leases[0].shrink_buffers(SUBFLOW);
        assert!(budget.check_subflow().is_ok() && budget.connection(LEAST_RECEIVE).is_err());
        drop(leases);
        assert_eq!(budget.reserved(), ByteCount::new(0));
    }

    /// A machine of 1 GiB has half of it for connections.
    #[test]
    fn a_small_machine_takes_four_thousand_connections_of_two_paths() {
        let budget = MemoryBudget::new(ByteCount::mib(512)).unwrap();
        let mut leases = Vec::new();
        while let Ok(mut lease) = budget.connection(LEAST_RECEIVE) {
            lease.grow_unasked(SessionConfig::default().first_window.as_u64());
            for _ in 0..2 {
                assert!(budget.check_subflow().is_ok() || leases.len() >= 4000);
                lease.add_subflow();
            }
            leases.push(lease);
        }
        assert!(leases.len() >= 4000, "{}", leases.len());
    }

    #[test]
    fn buffers_grow_while_there_is_memory_and_are_given_back() {
        let budget = MemoryBudget::new(ByteCount::mib(16)).unwrap();
        let mut lease = budget.connection(LEAST_RECEIVE).unwrap();
        lease.add_subflow();
        let before = budget.reserved();
        assert!(lease.grow_buffers(1 << 20) && !lease.grow_buffers(12 << 20));
        assert_eq!(budget.reserved().as_u64(), before.as_u64() + (1 << 20));
        lease.shrink_buffers(SUBFLOW + (1 << 20));
        assert_eq!(budget.reserved().as_u64(), LEAST_RECEIVE + LEAST_SEND);
        lease.give_all_back();
        drop(lease);
        assert_eq!(budget.reserved(), ByteCount::new(0));
    }

    #[test]
    fn nobody_grows_beyond_what_it_leaves_free() {
        let budget = MemoryBudget::new(ByteCount::mib(64)).unwrap();
        let (mut one, mut two) =
            (budget.connection(LEAST_RECEIVE).unwrap(), budget.connection(LEAST_RECEIVE).unwrap());
        for _ in 0..10 {
            assert!(one.grow_receive(1 << 40) <= 24 << 20);
        }
        assert!(two.grow_send(1 << 40) <= 13 << 20);
        assert!(budget.connection(LEAST_RECEIVE).is_ok(), "there is some for the next");
        assert_eq!(two.shrink_send(0), LEAST_SEND);
    }

    #[test]
    fn however_many_grow_others_come_in_beside_them() {
        let budget = MemoryBudget::new(ByteCount::mib(64)).unwrap();
        let come = || budget.connection(LEAST_RECEIVE);
        let mut greedy: Vec<_> = (0..20).map(|_| come().unwrap()).collect();
        for _ in 0..10 {
            greedy.iter_mut().for_each(|lease| _ = lease.grow_receive(1 << 40));
            greedy.iter_mut().for_each(|lease| _ = lease.grow_send(1 << 40));
        }
        let more: Vec<_> = std::iter::from_fn(|| come().ok()).collect();
        assert!(more.len() >= 31, "16 MiB are left for them: {}", more.len());
    }

    #[test]
    fn too_little_is_refused_and_the_process_has_one_of_its_own() {
        let error = MemoryBudget::new(ByteCount::kib(1)).unwrap_err().to_string();
        assert!(error.contains("give 16MiB or more"), "{error}");
        assert!(MemoryBudget::default().total() >= ByteCount::mib(16));
    }

    proptest! {
        /// Whatever connections do, the count stays within the total, and ends at nothing.
        #[test]
        fn the_count_is_exact(steps in proptest::collection::vec((0usize..4, 0u8..4, any::<u32>()), 0..200)) {
            let budget = MemoryBudget::new(ByteCount::mib(32)).unwrap();
            let mut leases: [Option<Lease>; 4] = Default::default();
            for (who, what, amount) in steps {
                let amount = u64::from(amount);
                match (&mut leases[who], what) {
                    (slot @ None, _) => *slot = budget.connection(LEAST_RECEIVE).ok(),
                    (slot, 0) => *slot = None,
                    (Some(lease), 1) => prop_assert!(lease.grow_receive(amount) >= LEAST_RECEIVE),
                    (Some(lease), 2) => prop_assert!(lease.grow_send(amount) >= LEAST_SEND),
                    (Some(lease), _) => prop_assert!(lease.shrink_send(amount) >= LEAST_SEND),
                }
                let held: u64 = leases.iter().flatten().map(|l| l.receive + l.send).sum();
                prop_assert_eq!(budget.reserved().as_u64(), held);
                prop_assert!(held <= budget.total().as_u64());
            }
        }
    }
}
