//! On which subflows what has come is acknowledged, and how often.
//!
//! Any subflow will do, as an acknowledgement tells of all of them. The nearest one carries it each
//! time, and those on which data come; the others one now and then, in case what goes back on those
//! is lost: a subflow that carries little may be one that cannot carry more.
//!
//! The links of many homes carry a fiftieth of their rate in the other direction. So a subflow has
//! [a few](IN_ROUND_TRIP) acknowledgements in a round trip and no more.

use std::time::Duration;

use super::Session;
use crate::subflow::Subflow;
use crate::{Instant, SubflowId};

/// The most acknowledgements that a subflow carries in a round trip: what they say is late by less
/// than round trips vary.
const IN_ROUND_TRIP: u32 = 4;
/// The least time between two, where the round trip is short.
const LEAST: Duration = Duration::from_millis(1);
/// How often a subflow on which no data come is given an acknowledgement while there is news, and
/// the most time between two on the others. Less than the time after which a subflow is stalled.
const ELSEWHERE: Duration = Duration::from_millis(25);

impl Session {
    /// Gives the subflows the acknowledgements that are due.
    pub(super) fn acknowledge(&mut self, now: Instant) {
        let moving = self.send.subflows.iter().filter(|subflow| !subflow.is_stalled());
        let nearest = moving.min_by_key(|subflow| subflow.rtt());
        let least = nearest.map_or(LEAST, interval);
        let nearest = nearest.map(Subflow::id);
        let is_due = self.recv.take_due_ack(least, now);
        // News that no data brought, and the end, are for all.
        let heard = self.control.values().any(|control| control.is_heard);
        let for_all = is_due && (!heard || self.recv.is_complete());
        let mut given: Vec<SubflowId> = Vec::new();
        for (&id, control) in &mut self.control {
            let is_late = control.ack_at.is_some_and(|at| at <= now);
            let every = match control.is_heard {
                true => self.send.index(id).map_or(ELSEWHERE, |i| interval(&self.send.subflows[i])),
                false => ELSEWHERE,
            };
            let next = control.acked_at + every;
            let is_first = for_all || nearest == Some(id);
            if is_late || (is_due && (is_first || next <= now)) {
                (control.ack, control.is_heard) = (true, false);
                (control.acked_at, control.ack_at) = (now, None);
                given.push(id);
            } else if is_due {
                control.ack_at = Some(control.ack_at.map_or(next, |at| at.min(next)));
            }
        }
        given.into_iter().for_each(|id| self.wake(id));
    }
}

/// The time between two acknowledgements on a subflow on which data come. Its least round-trip time
/// counts, which a receiver knows from the handshake: it sends nothing that would tell it another.
fn interval(subflow: &Subflow) -> Duration {
    (subflow.info().min_rtt / IN_ROUND_TRIP).clamp(LEAST, ELSEWHERE)
}
