//! A kernel's rule made a scheduler.

use super::choice::Choice;
use super::opportunistic::Opportunistic;
use super::{Assignment, Scheduler, SchedulerConfig, SendView, reinject};
use crate::path::SubflowId;

/// Which subflow the next segment goes on.
pub trait Rule: Send + std::fmt::Debug {
    /// The subflow for the next segment; there is one to send. It may have no room: then all wait
    /// for it. `None` if nobody can be given it.
    fn pick(&mut self, choice: Choice<'_>) -> Option<usize>;

    /// Notes that `bytes` of new data were given to the subflow `id`.
    fn sent(&mut self, id: SubflowId, bytes: u64) {
        let _ = (id, bytes);
    }

    /// Notes that the send window was found full, or that bytes had to be sent again.
    fn blocked(&mut self) {}
}

/// A rule made a scheduler: the subflow that the rule picks gets the lowest unsent bytes if it has
/// room, else all wait. What a stalled subflow holds goes to the first that has room.
#[derive(Debug)]
pub struct Picking<R> {
    rule: R,
    opportunistic: Option<Opportunistic>,
}

impl<R: Rule> Picking<R> {
    /// The rule alone.
    pub const fn new(rule: R) -> Self {
        Self { rule, opportunistic: None }
    }

    /// The rule with the 0.9x family's means against a full send window.
    pub fn opportunistic(rule: R, config: &SchedulerConfig) -> Self {
        Self { rule, opportunistic: Some(Opportunistic::new(config.penalties.clone())) }
    }

    /// The subflow that the rule picks, if it has room.
    fn picked(&mut self, choice: Choice<'_>) -> Option<usize> {
        self.rule.pick(choice).filter(|&picked| choice.has_room(picked))
    }
}

impl<R: Rule> Scheduler for Picking<R> {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        if let Some(reinjection) = reinject(view) {
            self.rule.blocked();
            return Some(reinjection);
        }
        let choice = Choice::new(view);
        if let Some(unsent) = view.next_unsent() {
            let subflow = self.picked(choice)?;
            let range = view.clip(unsent, subflow);
            self.rule.sent(choice.subflow(subflow).id(), range.end - range.start);
            return Some(Assignment { subflow, range });
        }
        if self.opportunistic.is_none() || !view.is_blocked() {
            return None;
        }
        let subflow = self.picked(choice)?;
        self.rule.blocked();
        let range = self.opportunistic.as_mut()?.head(choice, subflow)?;
        Some(Assignment { subflow, range })
    }
}
