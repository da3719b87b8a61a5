//! Ends of connections, each with the time at which it comes.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::*;
use crate::wire::{Ack, Data, Record};
use crate::{PathId, SubflowId};

const SUBFLOW: SubflowId = SubflowId(0);
const GRACE: Duration = Duration::from_secs(7);

fn at(seconds: u64) -> Instant {
    Instant::from_millis(seconds * 1000)
}

/// One end of a connection.
struct End {
    session: Session,
    life: Life,
}

impl End {
    /// Not accepted, without a subflow.
    fn new() -> Self {
        let config = SessionConfig { peer_timeout: None, ..SessionConfig::default() };
        Self { session: Session::new(&config, at(0)), life: Life::new(&config, GRACE) }
    }

    /// Let in, with a subflow.
    fn open() -> Self {
        let mut end = Self::new();
        end.up(at(0));
        assert!(end.life.accepted(at(0)) && !end.life.accepted(at(0)));
        end
    }

    fn up(&mut self, now: Instant) {
        self.session.subflow_up(SUBFLOW, PathId(0), now).unwrap();
        self.life.subflow_up();
    }

    fn down(&mut self, answered: bool, now: Instant) {
        self.session.subflow_down(SUBFLOW, now);
        self.life.subflow_down(answered, now);
    }

    fn give(&mut self, record: &Record, now: Instant) {
        let mut input = BytesMut::new();
        record.encode(&mut input);
        self.session.handle_input(SUBFLOW, &mut input, now).expect("an honest peer");
        self.drain(now);
    }

    fn drain(&mut self, now: Instant) {
        self.life.handle_progress(&mut self.session, now);
        while let Some(event) = self.session.poll_event() {
            self.life.handle_event(&event, &mut self.session, now);
        }
    }

    /// What it says on its subflow.
    fn say(&mut self, now: Instant) -> Vec<Record> {
        let mut out = VecDeque::new();
        self.session.handle_room(SUBFLOW, 1 << 20);
        let _ = self.session.poll_transmit(SUBFLOW, &mut out, now);
        self.drain(now);
        let mut bytes: BytesMut = out.iter().flatten().copied().collect();
        std::iter::from_fn(|| Record::decode(&mut bytes).expect("our own records")).collect()
    }

    /// Both directions come to their end.
    fn close(&mut self, now: Instant) {
        self.session.finish(now);
        self.give(&Record::Fin(0), now);
        self.give(&Record::Ack(Ack { fin: true, credit: 1 << 20, ..Ack::default() }), now);
        self.say(now);
    }

    /// The next deadline is `due`, and then it ends so.
    fn ends_at(&mut self, due: Instant) -> Option<Ending> {
        assert_eq!(self.life.poll_timeout(), Some(due));
        let just_before = Instant::from_nanos(due.as_nanos() - 1);
        self.life.handle_timeout(&mut self.session, just_before);
        assert_eq!(self.life.poll_ending(), None);
        assert_ne!(self.life.phase(), Phase::Gone);
        self.life.handle_timeout(&mut self.session, due);
        self.life.poll_ending()
    }
}

fn data(payload: &'static [u8]) -> Record {
    Record::Data(Data { offset: 0, payload: Bytes::from_static(payload) })
}

#[test]
fn without_a_subflow_it_waits_for_its_grace_and_says_what_came() {
    let mut end = End::open();
    end.give(&data(b"three"), at(1));
    assert_eq!(end.life.poll_timeout(), None);
    end.down(false, at(2));
    end.up(at(5));
    assert_eq!(end.life.poll_timeout(), None, "the new one ends the wait");
    end.down(false, at(6));
    let ending = Ending::Failed(Cause::NoPath { after: GRACE, delivered: 0, received: 5 });
    assert_eq!(end.ends_at(at(13)), Some(ending));
    assert_eq!(end.life.phase(), Phase::Gone);
    assert!(!end.life.wants_subflow());
}

#[test]
fn until_it_is_accepted_the_path_manager_gives_up() {
    let mut end = End::new();
    end.up(at(0));
    end.down(false, at(1));
    assert_eq!((end.life.poll_timeout(), end.life.phase()), (None, Phase::Opening));
    assert!(end.life.fail(1, "every path failed", &mut end.session, at(99)));
    assert_eq!(end.life.poll_ending(), Some(Ending::Failed(Cause::Told)));
    assert!(!end.life.was_open() && !end.life.accepted(at(100)));
}

#[test]
fn a_closed_connection_waits_for_a_subflow_to_drain() {
    let mut end = End::open();
    end.close(at(1));
    assert_eq!(end.life.poll_ending(), Some(Ending::Closed));
    assert_eq!((end.life.phase(), end.life.wants_subflow()), (Phase::Over, false));
    assert!(end.life.takes_subflow(), "the peer may have lost that which is here");
    end.down(false, at(3));
    assert!(end.life.wants_subflow(), "the peer may not know, and waits as long for a path");
    assert_eq!(end.ends_at(at(10)), None, "it has ended before");
    assert_eq!((end.life.phase(), end.life.poll_timeout()), (Phase::Gone, None));
}

#[test]
fn a_peer_that_joins_again_and_again_keeps_no_closed_connection() {
    let mut end = End::open();
    end.close(at(1));
    let close_time = end.life.close_time();
    let mut now = at(1);
    while end.life.takes_subflow() {
        assert!(now <= at(1) + close_time + GRACE + close_time, "{now}: it is there for ever");
        // One more, before the last is overdue.
        end.life.subflow_up();
        now += close_time / 2;
        end.life.handle_timeout(&mut end.session, now);
        end.life.subflow_down(false, now);
    }
    assert_eq!(end.life.phase(), Phase::Over);
    end.life.subflow_down(false, now);
    assert_eq!(end.life.phase(), Phase::Gone);
}

#[test]
fn a_closed_end_drains_on_several_subflows_while_the_peer_waits() {
    for (grace, peer_timeout) in [(5, Some(30)), (30, Some(6)), (30, None), (45, Some(45))] {
        let peer_timeout = peer_timeout.map(Duration::from_secs);
        let config = SessionConfig { peer_timeout, ..SessionConfig::default() };
        let grace = Duration::from_secs(grace);
        let mut end =
            End { session: Session::new(&config, at(0)), life: Life::new(&config, grace) };
        end.up(at(0));
        end.life.accepted(at(0));
        end.close(at(1));
        let waits = end.life.close_time();
        assert!(waits <= grace.min(peer_timeout.unwrap_or(grace)) / 3, "{waits:?} of {grace:?}");
        assert!(waits >= Duration::from_secs(1), "a long round trip");
    }
    let mut end = End::open();
    let still = end.life.close_time();
    assert!(end.life.fail(1, "for the test", &mut end.session, at(1)));
    assert!(
        end.life.close_time() <= Duration::from_secs(2).min(still),
        "only a reason is at stake"
    );
}

#[test]
fn a_peer_that_knows_that_it_is_over_is_not_waited_for() {
    let mut end = End::open();
    end.close(at(1));
    end.down(true, at(2));
    assert_eq!((end.life.phase(), end.life.wants_subflow()), (Phase::Gone, false));
    assert!(!end.life.takes_subflow());
}

#[test]
fn what_is_dropped_before_it_is_finished_is_reset() {
    let mut end = End::open();
    end.life.leave(&mut end.session, at(1));
    assert_eq!(end.life.poll_ending(), Some(Ending::Failed(Cause::Dropped)));
    assert!(end.say(at(1)).iter().any(|record| matches!(record, Record::Reset(_))));
}

#[test]
fn who_sends_to_one_that_has_left_is_told_so() {
    let mut end = End::open();
    end.session.finish(at(1));
    end.life.leave(&mut end.session, at(1));
    end.give(&Record::Ack(Ack { fin: true, credit: 1 << 20, ..Ack::default() }), at(2));
    assert_eq!(end.life.poll_ending(), None, "it may close in peace");
    end.give(&data(b"unheard"), at(3));
    assert_eq!(end.life.poll_ending(), Some(Ending::Failed(Cause::Unread)));
    assert!(end.say(at(3)).iter().any(|record| matches!(record, Record::Reset(_))));
}

#[test]
fn what_was_left_behind_has_half_a_minute() {
    let mut end = End::open();
    end.session.write(b"undelivered", at(1)).unwrap();
    end.session.finish(at(1));
    end.life.leave(&mut end.session, at(1));
    end.give(&data(b"unheard"), at(3));
    assert_eq!(end.ends_at(at(31)), Some(Ending::Failed(Cause::Unread)));
}

#[test]
fn a_reset_ends_it_once() {
    let mut end = End::open();
    let refusal = crate::wire::Refusal { code: 77, reason: "enough".to_owned() };
    end.give(&Record::Reset(refusal), at(1));
    let cause = Cause::Reset(77, "enough".to_owned());
    assert_eq!(end.life.poll_ending(), Some(Ending::Failed(cause)));
    assert!(!end.life.fail(1, "too late", &mut end.session, at(2)));
    end.life.broken();
    assert_eq!(end.life.poll_ending(), None);
}

#[test]
fn a_peer_that_answers_nothing_is_lost() {
    let limit = Duration::from_secs(3);
    let config = SessionConfig { peer_timeout: Some(limit), ..SessionConfig::default() };
    let mut end = End { session: Session::new(&config, at(0)), life: Life::new(&config, GRACE) };
    end.up(at(0));
    end.life.accepted(at(0));
    while end.life.phase() == Phase::Open {
        let now = end.session.poll_timeout(at(0)).expect("something is due until it is over");
        assert!(now <= at(10), "the peer is waited for until {now}");
        end.session.handle_timeout(now);
        end.say(now);
    }
    let lost = Cause::PeerLost { after: limit, delivered: 0, received: 0 };
    assert_eq!(end.life.poll_ending(), Some(Ending::Failed(lost)));
}
