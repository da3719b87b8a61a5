//! Which lane a packet goes over.

use std::collections::BTreeMap;
use std::time::Duration;

use super::LaneId;
use super::lane::{Lane, LaneState, MOVES_FOR};
use crate::Instant;
use crate::policy::Role;

/// Lanes that are farther than the nearest by more than this are not used by the same bulk flow.
const MOST_LAG: Duration = Duration::from_millis(100);
/// How long a lane that was silent is still tried where there is no other.
const TRIED_FOR: Duration = Duration::from_secs(10);

/// Where a bulk packet goes.
pub(super) struct Spread {
    pub(super) lane: LaneId,
    /// The lane that the flow uses first.
    pub(super) first: LaneId,
    /// Whether there is no other: then all packets come in order by themselves.
    pub(super) is_only: bool,
    /// Lanes that are nearer, and have more that waits.
    pub(super) passed_over: Vec<LaneId>,
}

/// Which lane a packet goes over.
pub(super) struct Choice<'a> {
    pub(super) lanes: &'a BTreeMap<LaneId, Lane>,
    pub(super) bytes: usize,
    pub(super) now: Instant,
}

impl Choice<'_> {
    /// The lane over which it should arrive first, of those that are up; where none is, of those that
    /// may be. Lanes that cost something, or go over TCP, only where there are no others.
    pub(super) fn best(&self, without: Option<LaneId>) -> Option<LaneId> {
        self.best_of(|lane| Some(lane.id) != without)
    }

    /// The same of those that may be taken.
    fn best_of(&self, may_be: impl Fn(&Lane) -> bool) -> Option<LaneId> {
        let others = || self.lanes.values().filter(|lane| may_be(lane));
        let up = others().filter(|lane| lane.state == LaneState::Up);
        let tier = up.clone().map(Lane::tier).min().filter(|tier| tier.0 != Role::Retired);
        if let Some(tier) = tier {
            return self.soonest(up.filter(|lane| lane.tier() == tier));
        }
        let tried = |lane: &&Lane| {
            lane.role != Role::Retired && lane.pings.was_heard_within(TRIED_FOR, self.now)
        };
        self.soonest(others().filter(tried))
    }

    fn soonest<'b>(&self, lanes: impl Iterator<Item = &'b Lane>) -> Option<LaneId> {
        let cost = |lane: &&Lane| (self.lack(lane), lane.arrival(self.bytes as u64, self.now));
        lanes.min_by_key(cost).map(|lane| lane.id)
    }

    /// How unlikely a lane is to carry as much. One that has been seen to comes before one that has not; and
    /// one that is known not to, after all that may carry more.
    fn lack(&self, lane: &Lane) -> (bool, usize) {
        let is_known = lane.pings.longest_packet() >= self.bytes;
        (!is_known, self.bytes.saturating_sub(lane.pings.limit()))
    }

    /// The longest packet that a lane like the best one carries, for all that is known.
    pub(super) fn limit(&self, best: LaneId) -> usize {
        let alike = self.alike(best).map(|lane| lane.pings.limit());
        alike.max().expect("there is one")
    }

    /// The best lane, and those that may take packets instead of it.
    pub(super) fn alike(&self, best: LaneId) -> impl Iterator<Item = &Lane> {
        let best = &self.lanes[&best];
        self.lanes.values().filter(|lane| (lane.state, lane.tier()) == (best.state, best.tier()))
    }

    /// The lane of an urgent packet's copy: one that costs nothing, or any if the best is a poor one; not one over
    /// TCP besides one that is up over UDP, as it may share the link and be late by seconds.
    /// It is up, unless none is: nobody knows then which of those that are silent is dead, and which
    /// one's other end stands still.
    pub(super) fn second(&self, best: LaneId) -> Option<LaneId> {
        let main = &self.lanes[&best];
        let is_up = main.state == LaneState::Up;
        let may_be = |lane: &Lane| lane.id != best && (!is_up || lane.carrier <= main.carrier);
        let second = self.best_of(may_be)?;
        let lane = &self.lanes[&second];
        let is_free = lane.role == Role::Active;
        let may_carry = lane.state == LaneState::Up || !is_up;
        let is_fit = may_carry && lane.pings.limit() >= self.bytes;
        (is_fit && (is_free || main.is_poor())).then_some(second)
    }

    /// Another lane that is up.
    pub(super) fn other_than(&self, id: LaneId) -> Option<LaneId> {
        self.best(Some(id)).filter(|other| self.lanes[other].state == LaneState::Up)
    }

    /// The lane of a bulk packet: the one that delivers it first, with what waits there, of those that do not
    /// differ by so much that waiting for the slower one makes no sense. So a farther lane is used only once the
    /// queue of the nearer one is as long as the difference: a connection whose round trip it is loses nothing.
    pub(super) fn spread(&self, kept: Option<LaneId>, best: LaneId) -> Spread {
        let mut all: Vec<&Lane> = self.alike(best).collect();
        let least = all.iter().map(|lane| self.lack(lane)).min();
        all.retain(|lane| Some(self.lack(lane)) == least);
        all.sort_by_key(|lane| lane.way());
        let nearest = all[0].way();
        all.retain(|lane| lane.way() <= nearest + MOST_LAG);
        // The one that the flow is on stays its first, unless it is farther by much.
        let is_near = |lane: &Lane| lane.way() <= (nearest * 5 / 4).max(nearest + MOVES_FOR);
        let first = all.iter().position(|lane| Some(lane.id) == kept && is_near(lane));
        if let Some(first) = first {
            all[..=first].rotate_right(1);
        }
        let bytes = self.bytes as u64;
        let arrival = |(_, lane): &(usize, &&Lane)| lane.arrival(bytes, self.now);
        let soonest = all.iter().enumerate().min_by_key(arrival);
        let (place, lane) = soonest.map(|(place, lane)| (place, lane.id)).expect("there is one");
        let busy = all[..place].iter().filter(|lane| lane.is_busy());
        let passed_over = busy.map(|lane| lane.id);
        let (first, is_only) = (all[0].id, all.len() == 1);
        Spread { lane, first, is_only, passed_over: passed_over.collect() }
    }

    /// The lane that a flow keeps to, unless the best is better by much.
    pub(super) fn keep(&self, kept: Option<LaneId>, best: LaneId) -> LaneId {
        let Some(lane) = kept.and_then(|id| self.lanes.get(&id)) else { return best };
        let other = &self.lanes[&best];
        let is_fit = self.lack(lane) <= self.lack(other);
        if lane.state != LaneState::Up || lane.tier() != other.tier() || !is_fit {
            return best;
        }
        let bytes = self.bytes as u64;
        let (now, then) = (lane.arrival(bytes, self.now), other.arrival(bytes, self.now));
        let is_better = now > then + MOVES_FOR && now > then * 5 / 4;
        if is_better { best } else { lane.id }
    }
}
