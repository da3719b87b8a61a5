//! What a server lets a client do, whichever of its sessions that is in.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use weftline_core::Instant;
use weftline_core::datagram::FlowGuard;

use super::address::ErrorPace;

/// How many flows a client may begin, and how often it is told of errors, whichever of its sessions it
/// is.
#[derive(Default)]
pub(super) struct Allowance {
    pub(super) guard: FlowGuard,
    pub(super) errors: ErrorPace,
}

/// How long a client without a session has the allowance that it had: by then all of it is free again.
const ALLOWANCE_KEPT: Duration = Duration::from_secs(120);

/// Those of clients whose sessions have ended, and when.
#[derive(Default)]
pub(super) struct Allowances(BTreeMap<Arc<str>, (Allowance, Instant)>);

impl Allowances {
    pub(super) fn keep(&mut self, client: Arc<str>, allowance: Allowance, now: Instant) {
        self.0.retain(|_, (_, ended)| now.since(*ended) < ALLOWANCE_KEPT);
        self.0.insert(client, (allowance, now));
    }

    /// That of a client whose next session begins.
    pub(super) fn take(&mut self, client: &str, now: Instant) -> Allowance {
        let kept = self.0.remove(client).filter(|(_, ended)| now.since(*ended) < ALLOWANCE_KEPT);
        kept.map(|(allowance, _)| allowance).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_comes_again_has_no_more_flows_than_it_had() {
        let at = |seconds: u64| Instant::from_millis(1000 * seconds);
        let begin = |allowance: &mut Allowance, first: u64, now| {
            (first..first + 1000).filter(|&flow| allowance.guard.admit(flow, now)).count()
        };
        let mut kept = Allowances::default();
        let mut ann = kept.take("ann", at(1));
        let burst = begin(&mut ann, 0, at(1));
        assert!((400..1000).contains(&burst), "{burst}");
        kept.keep("ann".into(), ann, at(1));
        let mut again = kept.take("ann", at(2));
        let more = begin(&mut again, 1000, at(2));
        assert!(more <= 100, "{more} a second later");
        assert_eq!(begin(&mut kept.take("bob", at(2)), 0, at(2)), burst);
        kept.keep("ann".into(), again, at(2));
        assert_eq!(begin(&mut kept.take("ann", at(200)), 0, at(200)), burst);
        (0..5000).for_each(|number| {
            kept.keep(format!("{number}").into(), Allowance::default(), at(number));
        });
        assert!(kept.0.len() <= 120);
    }
}
