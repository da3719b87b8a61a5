//! The order in which a device hands out a flow's packets: that in which they came to the gateway.
//! TCP must not see reordering that we made.

use crate::serial::{Arrival, Label};

/// Where a flow's release is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Release {
    /// The packet that is due; `None` until the flow's beginning, or a place to begin, is known.
    next: Option<Arrival>,
    /// The cohort that led there.
    label: Label,
}

impl Release {
    /// Whether a packet is due now.
    pub(super) fn is_due(self, arrival: Arrival) -> bool {
        self.next == Some(arrival)
    }

    /// Whether a packet was handed out, or given up.
    pub(super) fn is_past(self, arrival: Arrival) -> bool {
        self.next.is_some_and(|next| arrival.is_before(next))
    }

    /// How many packets from `first` on were handed out, or given up.
    pub(super) fn past(self, first: Arrival) -> u32 {
        let next = self.next.filter(|&next| first.is_before(next));
        next.map_or(0, |next| next.since(first))
    }

    /// Whether nothing is known of the flow.
    pub(super) fn is_new(self) -> bool {
        self.next.is_none()
    }

    /// Begins anew if a later cohort has packets from `first` on, which are past: numbers of a flow
    /// only grow, so that it is another flow now, or what led here was wrong.
    pub(super) fn check(&mut self, label: Label, first: Arrival) {
        if self.is_past(first) && self.label.is_before(label) {
            self.next = None;
        }
    }

    /// Everything before `arrival`, of a packet of the cohort `label`, was handed out, or is given
    /// up; how many packets were due.
    pub(super) fn advance_to(&mut self, arrival: Arrival, label: Label) -> u32 {
        match self.next {
            Some(next) if !next.is_before(arrival) => 0,
            next => {
                (self.next, self.label) = (Some(arrival), label);
                next.map_or(0, |next| arrival.since(next))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_forward_only_and_around() {
        let mut release = Release::default();
        assert!(release.is_new() && !release.is_due(Arrival(0)) && !release.is_past(Arrival(0)));
        assert_eq!(release.advance_to(Arrival(u32::MAX), Label(1)), 0);
        assert!(
            release.is_due(Arrival(u32::MAX)) && release.is_past(Arrival(7).plus(u32::MAX - 9))
        );
        assert_eq!(release.advance_to(Arrival(2), Label(2)), 3);
        assert_eq!(release.advance_to(Arrival(1), Label(3)), 0, "not back");
        assert!(release.is_due(Arrival(2)));
        release.check(Label(2), Arrival(0));
        assert!(release.is_due(Arrival(2)), "packets of the same cohort come in any order");
        release.check(Label(3), Arrival(2));
        assert!(release.is_due(Arrival(2)));
        release.check(Label(3), Arrival(0));
        assert!(release.is_new(), "a number that is used again");
    }
}
