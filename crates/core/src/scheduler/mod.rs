//! Schedulers: which range of the stream goes next on which subflow.
//!
//! One question: of the subflows that have room, which takes which range? A range is bound to a path
//! as late as possible, when a socket has room for it. A scheduler is one file and one line in
//! [`REGISTRY`]; one from another crate is made known with [`register`].

mod blest;
mod bond;
pub mod choice;
mod earliest;
mod ecf;
mod entry;
mod estimate;
mod fbdt;
mod largest_credits;
mod largest_throughput;
mod linux;
mod min_rtt;
mod musher;
mod opportunistic;
mod own;
pub mod picking;
mod redundant;
mod registry;
mod round_robin;
mod rules;
mod settings;
mod single;
mod sticky;
#[cfg(test)]
mod tests;
mod unread;
mod view;

use std::ops::Range;
use std::sync::mpsc;
use std::time::Duration;

pub use self::entry::{Entry, WrongPaths};
pub use self::musher::RatioMemory;
pub use self::own::Own;
pub use self::registry::{BadName, DEFAULT, REGISTRY, RESERVED, UnknownScheduler, all, register};
pub use self::rules::{Rule, RulesOff, UnknownRule};
pub use self::settings::Setting;
pub use self::unread::{UnreadSetting, check_settings};
pub(crate) use self::view::Messages;
pub use self::view::SendView;
use crate::Instant;
use crate::path::{PathId, SubflowId};
pub use crate::subflow::Kind;
use crate::subflow::Subflow;

/// What a scheduler answers: which subflow takes which range next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    /// The index of the subflow in [`SendView::subflows`]; it has room.
    pub subflow: usize,
    /// The stream offsets to send; never empty, never longer than the subflow's room, never partly
    /// new and partly on another subflow, and nothing that this subflow has been given before.
    pub range: Range<u64>,
}

/// Decides which subflow takes which range next.
pub trait Scheduler: Send + std::fmt::Debug {
    /// Which of the subflows that have room, of which there is at least one, takes which range next;
    /// `None` if all of them should wait. It is asked until it answers `None`, and again whenever
    /// something has changed.
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment>;

    /// The path that sends in the forward direction, for schemes that have one.
    fn forward(&self) -> Option<PathId> {
        None
    }

    /// The size of the current transmission window in bytes, for schemes that have one.
    fn window(&self) -> Option<u64> {
        None
    }

    /// Where in the stream that window is.
    fn window_at(&self) -> Option<Range<u64>> {
        None
    }

    /// Whether it turns subflows down by their round-trip times. A session then keeps those of idle
    /// subflows up to date: one that carries nothing is not measured either.
    fn weighs_round_trips(&self) -> bool {
        false
    }

    /// When it should be asked again, after it has answered `None`, though nothing else happened.
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
    /// Whom to ask for a subflow's congestion window to be halved.
    pub penalties: Penalties,
    /// Where `musher` keeps its ratio from one connection to the next: the same for clones.
    pub ratio: RatioMemory,
    /// What makes the schedulers of an entry that has none of its own: the same for clones.
    pub own: Own,
}

/// Where schedulers of the MPTCP 0.9x family ask for the congestion window of a subflow that holds up
/// the others to be halved: `max(cwnd / 2, 1)` segments, and the slow start threshold likewise unless
/// the window is below it. By default nobody listens: a kernel's sockets cannot do it.
#[derive(Clone, Debug, Default)]
pub struct Penalties(Option<mpsc::Sender<SubflowId>>);

impl Penalties {
    /// Goes to a driver that can do it.
    pub const fn to(driver: mpsc::Sender<SubflowId>) -> Self {
        Self(Some(driver))
    }

    const fn is_heard(&self) -> bool {
        self.0.is_some()
    }

    fn ask(&self, id: SubflowId) {
        if let Some(driver) = &self.0 {
            // One that has gone does not care.
            let _ = driver.send(id);
        }
    }
}

/// Who listens is no setting.
impl PartialEq for Penalties {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Penalties {}

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
            penalties: Penalties::default(),
            ratio: RatioMemory::default(),
            own: Own::default(),
        }
    }
}

/// The index of the subflow `id` in `subflows`.
fn find(subflows: &[Subflow], id: SubflowId) -> Option<usize> {
    subflows.iter().position(|subflow| subflow.id() == id)
}

/// What a stalled subflow holds, to the one that has it there first, of those that have room and
/// can carry it: what schedulers answer before they look at new bytes.
pub fn reinject(view: &SendView<'_>) -> Option<Assignment> {
    if !view.subflows.iter().any(Subflow::is_stalled) {
        return None;
    }
    let can = view.with_room();
    let can =
        can.filter_map(|subflow| Some(Assignment { subflow, range: view.stalled_range(subflow)? }));
    can.min_by_key(|one| {
        let bytes = one.range.end - one.range.start;
        view.arrival(&view.subflows[one.subflow], bytes)
    })
}
