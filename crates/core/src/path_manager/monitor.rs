//! Tells a subflow that makes no progress from one that has nothing to do.
//!
//! Progress is what counts: what the peer's kernel acknowledges and what it sends. The kernel's
//! retransmission timer is not asked, as it doubles while a path is dead. A question that nobody
//! answers counts, too: what is between the two ends may acknowledge everything and pass on nothing.

use std::time::Duration;

use crate::Instant;

/// How often a subflow in use is looked at.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(100);
/// What the kernel waits at least before it sends again by its timer (`TCP_RTO_MIN`).
const RTO_MIN: Duration = Duration::from_millis(200);
/// No subflow is given longer, or three of its round trips: a slow line with a long queue takes seconds
/// for one, and is not dead.
const LONGEST: Duration = Duration::from_secs(2);
const LONGEST_ROUND_TRIPS: u32 = 3;
/// The session finds the subflow stalled for this long before the subflow is replaced: the peer may
/// just not have had the processor.
const STALL: Duration = Duration::from_secs(1);
/// A subflow on which data came and come no more is asked for a sign of life after this long.
const QUIET: Duration = Duration::from_millis(200);

/// What is known of a subflow at one look: the kernel's metrics, in bytes, and the session's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// What the peer's kernel has acknowledged in all.
    pub acked: u64,
    /// Sent and not acknowledged.
    pub unacked: u64,
    /// In the socket and not sent yet.
    pub unsent: u64,
    /// Smoothed round-trip time.
    pub srtt: Duration,
    /// Round-trip time variation.
    pub rttvar: Duration,
    /// Since when the session finds that its data do not arrive.
    pub stalled_since: Option<Instant>,
    /// Since when nothing has come on it, though the peer was asked for a sign of life.
    pub unanswered_since: Option<Instant>,
    /// Bytes of the peer's data that have come on it. What else the kernel has received, such as the
    /// answers to our own questions, does not count: they would have us ask for ever.
    pub received: u64,
}

/// What a look comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing is on its way: no need to look before something is written.
    Idle,
    /// Nothing speaks against it.
    Alive,
    /// The peer has fallen quiet in the middle of sending; a ping will tell.
    Quiet,
    /// No progress for longer than the kernel takes to repair a loss: another subflow is tried
    /// beside it.
    PotentiallyFailed,
}

/// A watch over one subflow.
#[derive(Debug, Default)]
pub(super) struct Monitor {
    /// The kernel's count of acknowledged bytes, and since when it has stood still with bytes in
    /// the socket.
    still: Option<(u64, Instant)>,
    /// The count of received data, since when, and whether the peer was asked since.
    received: Option<(u64, Instant, bool)>,
}

impl Monitor {
    /// Evaluates the subflow at `now`.
    pub(super) fn evaluate(&mut self, look: &Look, now: Instant) -> Verdict {
        let Look { unacked, unsent, acked, .. } = *look;
        self.still = match self.still {
            _ if unacked == 0 && unsent == 0 => None,
            Some((at, since)) if at == acked => Some((at, since)),
            _ => Some((acked, now)),
        };
        // With nothing on its way the peer's window is shut, which is its good right for a while.
        let longest = longest(look);
        let patience = if unacked == 0 { longest } else { repair_time(look) };
        let lasts = |since: Option<Instant>, most| since.is_some_and(|at| now.since(at) >= most);
        let still = lasts(self.still.map(|(_, since)| since), patience);
        let stalls = lasts(look.stalled_since, STALL);
        // A question waits behind the data in the queue, too.
        if still || stalls || lasts(look.unanswered_since, longest) {
            return Verdict::PotentiallyFailed;
        }
        let (count, since, asked) = self.received.unwrap_or((look.received, now, true));
        if count != look.received {
            self.received = Some((look.received, now, false));
        } else if !asked && now.since(since) >= QUIET {
            self.received = Some((count, since, true));
            return Verdict::Quiet;
        } else {
            self.received = Some((count, since, asked));
            let waits = look.stalled_since.or(look.unanswered_since).is_some();
            if asked && self.still.is_none() && !waits {
                return Verdict::Idle;
            }
        }
        Verdict::Alive
    }
}

/// How long the kernel takes to repair a lost segment by its timer, the answer included.
fn repair_time(look: &Look) -> Duration {
    let spread = look.rttvar.saturating_mul(4);
    look.srtt.saturating_mul(2).saturating_add(RTO_MIN.max(spread)).min(longest(look))
}

fn longest(look: &Look) -> Duration {
    LONGEST.max(look.srtt.saturating_mul(LONGEST_ROUND_TRIPS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn look(acked: u64, unacked: u64, received: u64) -> Look {
        let (srtt, rttvar) = (Duration::from_millis(20), Duration::from_millis(5));
        Look { acked, unacked, srtt, rttvar, received, ..Look::default() }
    }

    #[test]
    fn a_subflow_that_has_nothing_to_do_is_idle() {
        let mut monitor = Monitor::default();
        for ms in [0, 100, 10_000] {
            assert_eq!(monitor.evaluate(&look(500, 0, 70), at(ms)), Verdict::Idle);
        }
    }

    #[test]
    fn without_an_acknowledgement_for_a_repair_a_subflow_is_potentially_failed() {
        let mut monitor = Monitor::default();
        assert_eq!(monitor.evaluate(&look(0, 100, 0), at(0)), Verdict::Alive);
        assert_eq!(monitor.evaluate(&look(100, 100, 0), at(100)), Verdict::Alive);
        assert_eq!(monitor.evaluate(&look(100, 100, 0), at(339)), Verdict::Alive);
        assert_eq!(monitor.evaluate(&look(100, 100, 0), at(340)), Verdict::PotentiallyFailed);
        assert_eq!(monitor.evaluate(&look(200, 100, 0), at(350)), Verdict::Alive);
        assert_eq!(monitor.evaluate(&look(300, 0, 0), at(700)), Verdict::Idle);
    }

    #[test]
    fn a_shut_window_is_waited_for() {
        let mut monitor = Monitor::default();
        let mut shut = look(100, 0, 0);
        shut.unsent = 4000;
        for (ms, verdict) in
            [(0, Verdict::Alive), (1999, Verdict::Alive), (2000, Verdict::PotentiallyFailed)]
        {
            assert_eq!(monitor.evaluate(&shut, at(ms)), verdict);
        }
    }

    #[test]
    fn a_sender_that_stops_is_asked_once() {
        let mut monitor = Monitor::default();
        monitor.evaluate(&look(0, 0, 10), at(0));
        assert_eq!(monitor.evaluate(&look(0, 0, 20), at(100)), Verdict::Alive);
        assert_eq!(monitor.evaluate(&look(0, 0, 20), at(200)), Verdict::Alive);
        assert_eq!(monitor.evaluate(&look(0, 0, 20), at(300)), Verdict::Quiet);
        assert_eq!(monitor.evaluate(&look(0, 0, 20), at(400)), Verdict::Idle);
        assert_eq!(monitor.evaluate(&look(0, 0, 30), at(500)), Verdict::Alive);
    }

    #[test]
    fn a_subflow_that_answers_no_question_is_potentially_failed() {
        let mut monitor = Monitor::default();
        let mut asked = look(0, 0, 0);
        asked.unanswered_since = Some(at(0));
        assert_eq!(monitor.evaluate(&asked, at(1999)), Verdict::Alive);
        assert_eq!(monitor.evaluate(&asked, at(2000)), Verdict::PotentiallyFailed);
        asked.unanswered_since = None;
        assert_eq!(monitor.evaluate(&asked, at(2100)), Verdict::Idle);
    }

    #[test]
    fn a_slow_line_with_a_long_queue_is_waited_for() {
        let mut monitor = Monitor::default();
        // Its queue takes three seconds, and our question waits in it.
        let slow = Look {
            srtt: Duration::from_secs(3),
            rttvar: Duration::from_millis(300),
            unanswered_since: Some(at(0)),
            ..look(0, 9000, 0)
        };
        for (ms, verdict) in
            [(0, Verdict::Alive), (7199, Verdict::Alive), (7200, Verdict::PotentiallyFailed)]
        {
            assert_eq!(monitor.evaluate(&slow, at(ms)), verdict, "two round trips and the spread");
        }
        // It goes on being acknowledged.
        let moves = Look { acked: 1448, ..slow };
        for (ms, verdict) in
            [(7300, Verdict::Alive), (8999, Verdict::Alive), (9000, Verdict::PotentiallyFailed)]
        {
            assert_eq!(
                monitor.evaluate(&moves, at(ms)),
                verdict,
                "three round trips for a question"
            );
        }
    }

    #[test]
    fn that_the_session_finds_it_stalled_counts_after_a_second() {
        let mut monitor = Monitor::default();
        let mut stalled = look(0, 0, 0);
        stalled.stalled_since = Some(at(0));
        assert_eq!(monitor.evaluate(&stalled, at(999)), Verdict::Alive);
        assert_eq!(monitor.evaluate(&stalled, at(1000)), Verdict::PotentiallyFailed);
    }
}
