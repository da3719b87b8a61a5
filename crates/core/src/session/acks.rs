//! On which subflows what has come is acknowledged.
//!
//! Any subflow will do, as an acknowledgement tells of all of them. The nearest one carries it each
//! time, and those on which data come; the others one now and then, in case what goes back on those
//! is lost: a subflow that carries little may be one that cannot carry more.

use std::time::Duration;

use super::Session;
use crate::subflow::Subflow;
use crate::{Instant, SubflowId};

/// How often a subflow on which no data come is given an acknowledgement while there is news. Less
/// than what a subflow is silent after.
const ELSEWHERE: Duration = Duration::from_millis(25);

impl Session {
    /// Gives the subflows the acknowledgements that are due.
    pub(super) fn acknowledge(&mut self, now: Instant) {
        let is_due = self.recv.take_due_ack(now);
        // News that no data brought, and the end, are for all.
        let heard = self.control.values().any(|control| control.is_heard);
        let for_all = is_due && (!heard || self.recv.is_complete());
        let moving = self.send.subflows.iter().filter(|subflow| !subflow.is_silent());
        let nearest = moving.min_by_key(|subflow| subflow.rtt()).map(Subflow::id);
        let mut given: Vec<SubflowId> = Vec::new();
        for (&id, control) in &mut self.control {
            let is_late = control.ack_at.is_some_and(|at| at <= now);
            let next = control.acked_at + ELSEWHERE;
            let is_first = for_all || control.is_heard || nearest == Some(id);
            if is_late || (is_due && (is_first || next <= now)) {
                (control.ack, control.is_heard) = (true, false);
                (control.acked_at, control.ack_at) = (now, None);
                given.push(id);
            } else if is_due {
                control.ack_at = Some(next);
            }
        }
        given.into_iter().for_each(|id| self.wake(id));
    }
}
