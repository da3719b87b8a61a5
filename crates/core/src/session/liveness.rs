//! Whether the peer is still there, and what finding out costs.
//!
//! Each subflow is pinged now and then, for its round-trip time and so that there is something to
//! answer. A peer counts as there while anything comes from it, on whatever subflow. One that has
//! been asked and says nothing for the timeout counts as gone, though its kernel may acknowledge
//! what is sent to it.

use std::time::Duration;

use super::{Event, Session, SessionConfig};
use crate::Instant;
use crate::wire::INITIAL_CREDIT;

/// The least part of the timeout in which each subflow is pinged, one in so many.
const PINGS_IN_TIMEOUT: u32 = 3;

#[derive(Debug)]
pub(super) struct Liveness {
    timeout: Option<Duration>,
    /// How often a subflow is pinged while data move.
    interval: Duration,
    /// When something last came from the peer.
    heard_at: Instant,
    /// When data last went or came.
    moved_at: Instant,
    /// The last of the pings that the subflows of the idle connection have before them.
    last_turn: Instant,
    is_lost: bool,
    /// Whether the peer has ever answered a ping.
    pub(super) has_answered: bool,
}

impl Liveness {
    pub(super) fn new(config: &SessionConfig, now: Instant) -> Self {
        let most = config.peer_timeout.map(|timeout| timeout / PINGS_IN_TIMEOUT);
        Self {
            timeout: config.peer_timeout,
            interval: most.map_or(config.ping_interval, |most| most.min(config.ping_interval)),
            heard_at: now,
            moved_at: now,
            last_turn: now,
            is_lost: false,
            has_answered: false,
        }
    }

    /// Something has come from the peer.
    pub(super) const fn heard(&mut self, now: Instant) {
        self.heard_at = now;
    }

    /// Data go or come. Returns whether none did for so long that pings had become rare.
    fn moved(&mut self, now: Instant) -> bool {
        let was_idle = self.is_idle(now);
        (self.moved_at, self.last_turn) = (now, now);
        was_idle
    }

    /// Whether no data have gone or come for a while.
    pub(super) fn is_idle(&self, now: Instant) -> bool {
        now.since(self.moved_at) >= self.interval
    }

    /// When the subflow that is pinged `now` is pinged again. Those of an idle connection, of which
    /// there are `subflows`, take turns: whoever holds many idle connections must not pay for each
    /// subflow of them.
    pub(super) fn next_ping(&mut self, subflows: usize, now: Instant) -> Instant {
        let soon = now + self.interval;
        if !self.is_idle(now) {
            return soon;
        }
        let subflows = u32::try_from(subflows).unwrap_or(u32::MAX).max(1);
        let turn = self.interval + self.interval / subflows;
        // Subflows that are gone leave their turns: no more than all take once are waited for.
        let last = now + turn * subflows;
        self.last_turn = soon.max(self.last_turn + turn).min(last.max(soon));
        self.last_turn
    }
}

impl Session {
    /// Whether the peer has ever shown that it hears us: it has answered a ping, acknowledged data, or
    /// sent more than it may before it knows what credit it has.
    pub const fn has_answered(&self) -> bool {
        let has_credit = self.recv.payload() > INITIAL_CREDIT;
        self.liveness.has_answered || has_credit || self.send.acknowledged() > 0
    }

    /// When something last came from the peer.
    pub const fn heard_at(&self) -> Instant {
        self.liveness.heard_at
    }

    /// When the peer counts as gone unless something comes from it. A question that has been
    /// answered on another subflow meanwhile does not count: the peer was there.
    pub(super) fn peer_deadline(&self) -> Option<Instant> {
        let (timeout, heard) = (self.liveness.timeout?, self.liveness.heard_at);
        if self.liveness.is_lost || self.control.is_empty() {
            return None;
        }
        let asked = self.control.values().filter_map(|control| match control.ping {
            Some((_, sent_at)) => Some(sent_at).filter(|&sent_at| sent_at >= heard),
            None => Some(control.ping_at.max(heard)),
        });
        // With every ping older than the last record from the peer, the time counts from that
        // record.
        Some(asked.min().unwrap_or(heard) + timeout)
    }

    /// Tells once that the peer is gone. A driver that comes far too late was held up itself, and so
    /// were the questions and answers: the time counts anew from then on.
    pub(super) fn evaluate_peer(&mut self, now: Instant) {
        let Some(deadline) = self.peer_deadline() else { return };
        if deadline + self.liveness.interval <= now {
            self.liveness.heard_at = now;
        } else if deadline <= now {
            self.liveness.is_lost = true;
            self.events.push_back(Event::PeerLost);
        }
    }

    /// Data go or come: each subflow's round-trip time is of interest again.
    pub(super) fn note_moved(&mut self, now: Instant) {
        if self.liveness.moved(now) {
            let soon = now + self.liveness.interval;
            for control in self.control.values_mut() {
                control.ping_at = control.ping_at.min(soon);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use bytes::BytesMut;

    use super::*;
    use crate::path::{PathId, SubflowId};
    use crate::wire::Record;

    const TIMEOUT: Duration = Duration::from_secs(45);

    /// A session with so many subflows, and the numbers of the pings that it has not been answered.
    struct Asked {
        session: Session,
        now: Instant,
        pings: u32,
        lost_at: Option<Instant>,
    }

    impl Asked {
        fn new(subflows: u64) -> Self {
            let config = SessionConfig { peer_timeout: Some(TIMEOUT), ..SessionConfig::default() };
            let mut session = Session::new(&config, Instant::ZERO);
            for id in 0..subflows {
                session.subflow_up(SubflowId(id), PathId(id), Instant::ZERO).unwrap();
            }
            Self { session, now: Instant::ZERO, pings: 0, lost_at: None }
        }

        /// Runs until `end` with a peer that answers on the subflows for which `answers` says so.
        fn run(&mut self, end: Instant, answers: impl Fn(SubflowId) -> bool) {
            while self.now < end {
                while let Some(id) = self.session.poll_wake() {
                    self.write(id, &answers);
                }
                while let Some(event) = self.session.poll_event() {
                    if event == Event::PeerLost {
                        assert_eq!(self.lost_at, None, "told once");
                        self.lost_at = Some(self.now);
                    }
                }
                let next = self.session.poll_timeout(self.now).unwrap_or(Instant::FAR);
                assert!(next > self.now || self.session.poll_timeout(self.now).is_some());
                self.now = next.max(self.now).min(end);
                if next <= self.now {
                    self.session.handle_timeout(self.now);
                }
            }
        }

        fn write(&mut self, id: SubflowId, answers: impl Fn(SubflowId) -> bool) {
            let mut out = VecDeque::new();
            let _ = self.session.poll_transmit(id, &mut out, self.now);
            let mut bytes: BytesMut = out.iter().flatten().copied().collect();
            while let Some(record) = Record::decode(&mut bytes).expect("our own records") {
                let Record::Ping(number) = record else { continue };
                self.pings += 1;
                if answers(id) {
                    let mut input = BytesMut::new();
                    Record::Pong(number).encode(&mut input);
                    self.session.handle_input(id, &mut input, self.now).expect("an answer");
                }
            }
        }
    }

    fn s(seconds: u64) -> Instant {
        Instant::from_millis(seconds * 1000)
    }

    #[test]
    fn a_peer_that_answers_nothing_is_lost() {
        for subflows in [1, 2, 8] {
            let mut asked = Asked::new(subflows);
            asked.run(s(200), |_| false);
            assert!(!asked.session.has_answered());
            assert_eq!(asked.lost_at, Some(Instant::ZERO + TIMEOUT), "{subflows} subflows");
            // One that stops later is asked within the wait between two pings.
            let mut asked = Asked::new(subflows);
            asked.run(s(100), |_| true);
            assert!(asked.session.has_answered());
            asked.run(s(300), |_| false);
            let lost_at = asked.lost_at.expect("it has said nothing for 200 s");
            let most = s(100) + TIMEOUT + Duration::from_secs(10);
            assert!(lost_at <= most, "{subflows} subflows: {lost_at}");
        }
    }

    #[test]
    fn an_idle_peer_that_answers_is_there() {
        // Also when only one of the subflows gets anything through.
        for answering in [u64::MAX, 0, 1] {
            let mut asked = Asked::new(2);
            asked.run(s(3600), |id| answering == u64::MAX || id.0 == answering);
            assert_eq!(asked.lost_at, None, "answers on {answering}");
        }
    }

    #[test]
    fn idle_connections_are_cheap_however_many_subflows_they_have() {
        for subflows in [1, 2, 4, 16] {
            let mut asked = Asked::new(subflows);
            asked.run(s(60), |_| true);
            asked.pings = 0;
            asked.run(s(3660), |_| true);
            // A ping, its answer and the acknowledgement are at most 246 bytes with TLS over IPv6;
            // both ends ask.
            let bytes_per_s = asked.pings * 2 * 246 / 3600;
            assert!(bytes_per_s <= 100, "{subflows} subflows cost {bytes_per_s} B/s");
            assert!(asked.pings >= 60, "NAT forgets what is silent for an hour");
        }
    }

    #[test]
    fn pings_are_frequent_again_when_data_move() {
        let mut asked = Asked::new(8);
        asked.run(s(600), |_| true);
        asked.pings = 0;
        for step in 0..100 {
            asked.session.note_moved(asked.now);
            asked.run(s(600) + Duration::from_millis(500) * (step + 1), |_| true);
        }
        assert!(asked.pings >= 8 * 9, "{} pings of 8 subflows in 50 s", asked.pings);
    }
}
