//! Which writers are told to ask again for something to send, and when.

use super::{Control, Session};
use crate::Instant;
use crate::path::SubflowId;

impl Session {
    /// Wakes the writers whose next ping is due.
    pub(super) fn wake_pings(&mut self, now: Instant) {
        let due = |control: &Control| control.ping_due().is_some_and(|at| at <= now);
        let ids = self.control.iter().filter(|(_, control)| due(control));
        let ids: Vec<_> = ids.map(|(id, _)| *id).collect();
        if !ids.is_empty() {
            // As good a time as any to see what is not needed.
            self.send.trim();
        }
        ids.into_iter().for_each(|id| self.wake(id));
    }

    pub(super) fn wake_all(&mut self) {
        let ids: Vec<_> = self.control.keys().copied().collect();
        ids.into_iter().for_each(|id| self.wake(id));
    }

    /// Wakes the writers whose sockets had room last time; the others come anyway. Those that stand by
    /// wait until they are of use.
    pub(super) fn wake_idle(&mut self) {
        for index in 0..self.send.subflows.len() {
            let subflow = &self.send.subflows[index];
            // If there is news to send, from now on somebody waits for it.
            self.evaluation_due |= subflow.is_full();
            if subflow.is_idle() && self.send.is_needed(subflow) {
                self.wake(self.send.subflows[index].id());
            }
        }
    }

    pub(super) fn wake(&mut self, id: SubflowId) {
        if let Some(control) = self.control.get_mut(&id)
            && !std::mem::replace(&mut control.woken, true)
        {
            self.wakes.push_back(id);
        }
    }
}
