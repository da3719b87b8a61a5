//! Schedulers: which range of the stream goes next on which subflow.
//!
//! Sending is pulled: a subflow whose socket has room asks, and the scheduler answers with a range
//! or with nothing. A scheduler is one file and one line in [`REGISTRY`].

mod blest;
mod bond;
mod choice;
mod earliest;
mod ecf;
mod fbdt;
mod largest_credits;
mod largest_throughput;
mod linux;
mod min_rtt;
mod musher;
mod redundant;
mod reopen;
mod round_robin;
mod rules;
mod single;
mod sticky;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

pub use self::rules::{Rule, RulesOff, UnknownRule};
use crate::path::{PathId, PathInfo, PathMeter, SubflowId};
use crate::ranges::RangeSet;
use crate::subflow::Subflow;
use crate::{Bitrate, ByteCount, Instant};

/// What a scheduler answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The stream offsets to send; never empty, never longer than the budget asked for.
    pub range: Range<u64>,
    /// Why it is sent.
    pub kind: Kind,
}

/// Why a range is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// No live subflow has it.
    New,
    /// A subflow that makes progress has it: a redundant copy.
    Copy,
    /// A stalled subflow has it.
    Reinjection,
}

impl Assignment {
    /// Bytes that no live subflow has.
    pub const fn new(range: Range<u64>) -> Self {
        Self { range, kind: Kind::New }
    }

    /// A redundant copy.
    pub const fn copy(range: Range<u64>) -> Self {
        Self { range, kind: Kind::Copy }
    }

    /// What a stalled subflow carries.
    pub const fn reinjection(range: Range<u64>) -> Self {
        Self { range, kind: Kind::Reinjection }
    }

    /// Whether the range is on another subflow already.
    pub const fn is_again(&self) -> bool {
        !matches!(self.kind, Kind::New)
    }
}

/// Everything a scheduler sees when it is asked.
#[derive(Debug)]
pub struct SendView<'a> {
    /// The time.
    pub now: Instant,
    /// Everything below has been received by the peer.
    pub una: u64,
    /// Received above `una`.
    pub acked: &'a RangeSet,
    /// Offsets written by the application and on no live subflow.
    pub unassigned: &'a RangeSet,
    /// Nothing at or above this offset may be sent: the end of what was written, or of the
    /// receiver's credit.
    pub limit: u64,
    /// How far above the in-order point the receiver lets the sender go, in bytes.
    pub credit_window: u64,
    /// Whether the receiver's memory, not the paths, has held the sender up of late.
    pub credit_bound: bool,
    /// What is left of the send memory, in bytes, if the application was refused for lack of it and
    /// less than a third has come free since.
    pub memory_left: Option<u64>,
    /// The most memory there is for bytes that are sent and not acknowledged.
    pub max_memory: u64,
    /// Bytes of the stream so far that the application has written, if it was refused room for
    /// more: as many again may be expected. Zero when it has said all that it has.
    pub expected: u64,
    /// The live subflows, in the order they came up.
    pub subflows: &'a [Subflow],
    /// Measurements of each path.
    pub meters: &'a BTreeMap<PathId, PathMeter>,
}

impl SendView<'_> {
    /// The rate at which a subflow delivers: measured, else the kernel's figure; at most the cap of
    /// its path, which the measurement does not see, as it counts the busy time only.
    pub fn rate(&self, subflow: &Subflow) -> Bitrate {
        let measured = self.meters.get(&subflow.path()).and_then(PathMeter::rate);
        let rate = measured.unwrap_or(subflow.info().delivery_rate);
        subflow.cap().map_or(rate, |cap| cap.min(rate))
    }

    /// The subflows that new data may be counted on to go to: neither silent nor standing by.
    pub fn usable(&self) -> impl Iterator<Item = &Subflow> {
        self.subflows.iter().filter(|subflow| subflow.is_usable())
    }

    /// The sum of the rates of the usable subflows.
    pub fn total_rate(&self) -> Bitrate {
        self.usable().map(|s| self.rate(s)).sum()
    }

    /// Whether there are bytes to send and the receiver's credit lets none of them go.
    pub fn is_credit_spent(&self) -> bool {
        let waits = self.unassigned.last().is_some_and(|range| range.end > self.limit);
        waits && self.unassigned.first_in(&(self.una..self.limit)).is_none()
    }

    /// Whether the send window is full: credit or memory is spent, and nothing new may be sent
    /// before the lowest bytes are acknowledged.
    pub fn is_blocked(&self) -> bool {
        self.is_credit_spent() || (self.unassigned.is_empty() && self.memory_left.is_some())
    }

    /// How many bytes to give `subflow` at once, at most `budget`.
    pub fn chunk(&self, subflow: &Subflow, budget: u64) -> u64 {
        let measured = self.meters.get(&subflow.path()).and_then(PathMeter::rate);
        subflow.chunk(measured).min(budget)
    }

    /// The lowest offsets of `within` that are unacknowledged, on their way on another subflow,
    /// and were never sent on `me`.
    pub fn lowest_foreign(&self, me: &Subflow, within: &Range<u64>) -> Option<Range<u64>> {
        let mut at = within.start.max(self.una);
        while let Some(unacked) = self.acked.first_missing(&(at..within.end)) {
            at = unacked.start;
            while let Some(part) = me.on().first_missing(&(at..unacked.end)) {
                if let Some(open) = self.unassigned.first_missing(&part) {
                    return Some(open);
                }
                at = part.end;
            }
            at = unacked.end;
        }
        None
    }

    /// As [`lowest_foreign`](Self::lowest_foreign), the highest.
    pub fn highest_foreign(&self, me: &Subflow, within: &Range<u64>) -> Option<Range<u64>> {
        let start = within.start.max(self.una);
        let mut end = within.end;
        while let Some(unacked) = self.acked.last_missing(&(start..end)) {
            end = unacked.end;
            while let Some(part) = me.on().last_missing(&(unacked.start..end)) {
                if let Some(open) = self.unassigned.last_missing(&part) {
                    return Some(open);
                }
                end = part.start;
            }
            end = unacked.start;
        }
        None
    }

    /// Whether everything of `within` that only `subflow` carries has been acknowledged. Rescued
    /// bytes are on another subflow too and are not waited for.
    pub fn own_acked(&self, subflow: &Subflow, within: &Range<u64>) -> bool {
        let others = || self.subflows.iter().filter(|other| other.id() != subflow.id());
        let mut at = within.start.max(self.una);
        while let Some(part) = subflow.on().first_in(&(at..within.end)) {
            at = part.start;
            while let Some(unacked) = self.acked.first_missing(&(at..part.end)) {
                let shared = others().find_map(|other| other.on().range_at(unacked.start));
                let Some(shared) = shared else { return false };
                at = shared.end.min(unacked.end);
            }
            at = part.end;
        }
        true
    }

    /// The subflow other than `me` on which `offset` is on its way, the last that was given it if
    /// there are several, and when it was.
    pub(crate) fn latest_holder(&self, me: &Subflow, offset: u64) -> Option<(Instant, &Subflow)> {
        let others = self.subflows.iter().filter(|other| other.id() != me.id());
        let holders = others.filter_map(|other| Some((other.sent_at(offset)?, other)));
        holders.max_by_key(|(at, _)| *at)
    }

    /// The lowest range of a silent subflow that `me` can carry instead: the lowest byte is what
    /// blocks the application.
    pub fn silent_range(&self, me: &Subflow, budget: u64) -> Option<Range<u64>> {
        self.lowest_on(me, budget, Subflow::is_silent)
    }

    /// The lowest range of the other subflows that are `stalled` that `me` can carry instead.
    pub fn lowest_on(
        &self,
        me: &Subflow,
        budget: u64,
        stalled: impl Fn(&Subflow) -> bool,
    ) -> Option<Range<u64>> {
        self.subflows
            .iter()
            .filter(|other| stalled(other) && other.id() != me.id())
            .filter_map(|other| {
                let mut at = self.una;
                loop {
                    let part = other.on().first_in(&(at..u64::MAX))?;
                    if let Some(open) = self.lowest_foreign(me, &part) {
                        return Some(open);
                    }
                    at = part.end;
                }
            })
            .min_by_key(|range| range.start)
            .map(|range| range.start..range.end.min(range.start + self.chunk(me, budget)))
    }
}

/// Decides which range goes next on which subflow.
pub trait Scheduler: Send + std::fmt::Debug {
    /// The next range for `view.subflows[me]`, of at most `budget` bytes (not zero), or `None` if
    /// it should stay silent now. It is asked again whenever something changes.
    fn next(&mut self, me: usize, view: &SendView<'_>, budget: u64) -> Option<Assignment>;

    /// The path that sends in the forward direction, for schemes that have one.
    fn forward(&self) -> Option<PathId> {
        None
    }

    /// The size of the current transmission window in bytes, for schemes that have one.
    fn window(&self) -> Option<u64> {
        None
    }

    /// The next subflow that should ask if it waits for data: the last answer was `None` on its
    /// account, or there is something for it now.
    fn poll_wake(&mut self) -> Option<SubflowId> {
        None
    }

    /// The next subflow whose congestion window should be halved, where the driver can do it.
    fn poll_penalty(&mut self) -> Option<SubflowId> {
        None
    }

    /// Whether it turns subflows down by their round-trip times. A session then keeps those of idle
    /// subflows up to date: one that carries nothing is not measured either.
    fn weighs_round_trips(&self) -> bool {
        false
    }

    /// When a subflow that was answered `None` should ask again though nothing else happened.
    fn next_timeout(&self, view: &SendView<'_>) -> Option<Instant> {
        let _ = view;
        None
    }
}

/// Settings that schedulers take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// The transmission window of `fbdt` in bytes, at least a segment and at most 1 GiB; `None` is
    /// the paper's, 1 MiB.
    pub window: Option<u64>,
    /// A path to hold in the forward direction.
    pub forward_pin: Option<PathId>,
    /// The share of the new bytes sent that may be spent on redundant copies, in thousandths.
    pub copies_permille: u64,
    /// The aim `latency`: a path that cannot deliver within this time gets no new data and serves
    /// only to reinject what others are late with. `None` is the aim `throughput`: no path's
    /// contribution is given up.
    pub latency: Option<Duration>,
    /// Rules that are switched off.
    pub without: RulesOff,
}

impl SchedulerConfig {
    /// The fixed window within its bounds. A peer may choose it: one of a few bytes would make a
    /// record of every few bytes in flight.
    fn fixed_window(&self) -> Option<u64> {
        self.window.map(|window| window.clamp(1448, 1 << 30))
    }
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            window: None,
            forward_pin: None,
            copies_permille: 20,
            latency: None,
            without: RulesOff::default(),
        }
    }
}

/// A scheduler's entry in the registry.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its name on the command line and in results.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    make: fn(&SchedulerConfig) -> Box<dyn Scheduler>,
    /// The least and largest chunk in bytes; the paper's FBDT assigns single segments, which would
    /// cost a system call each.
    chunk: (u64, u64),
    /// The only number of paths it works with, if there is one.
    paths: Option<usize>,
    /// What a subflow holds at most, where the driver knows windows exactly.
    fills: Fills,
}

/// What a subflow holds at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fills {
    /// Its congestion window: MPTCP 0.9x.
    Window,
    /// Its send memory, which the kernel sizes to twice the window (`tcp_sndbuf_expand`):
    /// upstream's MPTCP.
    Memory,
}

/// Every scheduler, by name.
pub const REGISTRY: &[Entry] = &[
    fbdt::ENTRY,
    fbdt::STRICT_ENTRY,
    earliest::ENTRY,
    min_rtt::ENTRY,
    largest_credits::ENTRY,
    largest_throughput::ENTRY,
    sticky::GREEDY,
    sticky::THROUGHPUT,
    sticky::THROUGHPUT_SOFT,
    sticky::THROUGHPUT_RTT,
    sticky::THROUGHPUT_RTT_SOFT,
    blest::ENTRY,
    ecf::ENTRY,
    linux::ENTRY,
    musher::ENTRY,
    round_robin::ENTRY,
    redundant::ENTRY,
    single::ENTRY,
];

/// The scheduler of a connection that asks for none: as good as `fbdt` on every set of networks, and
/// simpler (docs/schedulers.md).
pub static DEFAULT: Entry = earliest::ENTRY;

/// A scheduler that is not in the registry.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scheduler '{name}'; known are {known}")]
pub struct UnknownScheduler {
    name: String,
    known: String,
}

/// A scheduler that does not work with that many paths.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the scheduler '{name}' needs exactly {needs} paths and there are {given}; give it {needs}, or \
     choose another scheduler, such as min-rtt"
)]
pub struct WrongPaths {
    name: &'static str,
    needs: usize,
    given: usize,
}

impl Entry {
    /// A scheduler called `name` that does what `about` says. One that is not in [`REGISTRY`] goes
    /// into a [`SessionConfig`](crate::SessionConfig), or into a simulator's plan; a session checks
    /// what it assigns.
    pub const fn new(
        name: &'static str,
        about: &'static str,
        make: fn(&SchedulerConfig) -> Box<dyn Scheduler>,
    ) -> Self {
        Self { name, about, make, chunk: CHUNK, paths: None, fills: Fills::Window }
    }

    /// The entry called `name`.
    pub fn find(name: &str) -> Result<&'static Self, UnknownScheduler> {
        REGISTRY.iter().find(|entry| entry.name == name).ok_or_else(|| UnknownScheduler {
            name: name.chars().take(64).collect(),
            known: REGISTRY.iter().map(|entry| entry.name).collect::<Vec<_>>().join(", "),
        })
    }

    /// A scheduler of this kind.
    pub fn make(&self, config: &SchedulerConfig) -> Box<dyn Scheduler> {
        (self.make)(config)
    }

    /// The least and largest number of bytes it assigns at once.
    pub const fn chunk(&self) -> (u64, u64) {
        self.chunk
    }

    /// The only number of paths it works with, if there is one.
    pub const fn paths(&self) -> Option<usize> {
        self.paths
    }

    /// Whether it works with `given` paths. Call it before a connection is made; a scheduler whose
    /// paths die later works with those that are left.
    ///
    /// # Errors
    ///
    /// It needs another number of paths.
    pub const fn check_paths(&self, given: usize) -> Result<(), WrongPaths> {
        match self.paths {
            Some(needs) if needs != given => Err(WrongPaths { name: self.name, needs, given }),
            _ => Ok(()),
        }
    }

    /// How many bytes a subflow can take, for a driver that knows windows exactly (a simulator): it
    /// lets the subflow ask when that is a segment or more. Real sockets say themselves.
    pub const fn room(&self, info: &PathInfo) -> ByteCount {
        match self.fills {
            Fills::Window => info.room(),
            Fills::Memory => {
                let memory = send_memory(info.cwnd.as_u64());
                ByteCount::new(memory.saturating_sub(info.queued().as_u64()))
            }
        }
    }
}

/// The chunk limits of schedulers without reasons of their own.
const CHUNK: (u64, u64) = (4 << 10, 64 << 10);

/// The send memory of a subflow whose congestion window is `cwnd` bytes: room for it twice.
const fn send_memory(cwnd: u64) -> u64 {
    cwnd.saturating_mul(2)
}

/// The number of the subflow `id` in `subflows`.
fn find(subflows: &[Subflow], id: SubflowId) -> Option<usize> {
    subflows.iter().position(|subflow| subflow.id() == id)
}
