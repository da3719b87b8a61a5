//! Messages between two sessions and from peers that break the rules.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::outbox::Outbox;
use super::*;
use crate::path::PathId;
use crate::scheduler::Messages;
use crate::session::SessionConfig;
use crate::wire::{Ack, Data, INITIAL_CREDIT, MessageHeader, Record};
use crate::{ByteCount, Instant};

const ONE: SubflowId = SubflowId(1);
const TWO: SubflowId = SubflowId(2);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn config(longest: u64) -> SessionConfig {
    let limits = MessageLimits { longest_sent: longest, longest_received: longest };
    SessionConfig { messages: Some(limits), ..SessionConfig::default() }
}

fn session_of(config: &SessionConfig) -> Session {
    let mut session = Session::new(config, Instant::ZERO);
    for id in [ONE, TWO] {
        session.subflow_up(id, PathId(id.0), Instant::ZERO).unwrap();
    }
    session
}

fn session() -> Session {
    session_of(&config(1 << 20))
}

fn give(session: &mut Session, id: SubflowId, records: &[Record]) -> Result<(), SessionError> {
    give_at(session, id, records, at(1))
}

fn give_at(
    session: &mut Session,
    id: SubflowId,
    records: &[Record],
    now: Instant,
) -> Result<(), SessionError> {
    let mut input = BytesMut::new();
    records.iter().for_each(|record| record.encode(&mut input));
    session.handle_input(id, &mut input, now)
}

/// What the session sends on a subflow with so much room, as records.
fn sent(session: &mut Session, id: SubflowId, room: u64, now: Instant) -> Vec<Record> {
    let mut out = VecDeque::new();
    session.handle_room(id, room);
    let _ = session.poll_transmit(id, &mut out, now);
    let mut bytes: BytesMut = out.iter().flatten().copied().collect();
    std::iter::from_fn(|| Record::decode(&mut bytes).expect("our own records")).collect()
}

fn header(offset: u64, len: u64) -> Record {
    Record::Message(MessageHeader { offset, len, tag: offset + 7 })
}

fn data(offset: u64, len: usize) -> Record {
    let payload: Vec<u8> = (offset..offset + len as u64).map(|n| n as u8).collect();
    Record::Data(Data { offset, payload: payload.into() })
}

fn cancel(number: u64, oldest: u64, offset: u64, len: u64) -> Record {
    let message = MessageHeader { offset, len, tag: offset + 7 };
    Record::Cancel(Cancel { number, oldest, expired: false, message })
}

fn acks(records: &[Record]) -> impl Iterator<Item = &Ack> {
    records.iter().filter_map(|r| if let Record::Ack(ack) = r { Some(ack) } else { None })
}

fn statuses(records: &[Record]) -> Vec<(u64, bool)> {
    let status = |record: &Record| match record {
        Record::DeliveryStatus(status) => Some((status.number, status.delivered)),
        _ => None,
    };
    records.iter().filter_map(status).collect()
}

fn take(session: &mut Session) -> Option<(u64, Option<usize>)> {
    Some(match session.poll_message(at(2))? {
        Incoming::Message(message) => {
            let first = message.id.0;
            assert_eq!(message.tag, first + 7);
            let right = message.payload.iter().enumerate();
            assert!(right.into_iter().all(|(n, &byte)| byte == (first + n as u64) as u8));
            (first, Some(message.payload.len()))
        }
        Incoming::Dropped(ended) => (ended.id.0, None),
    })
}

fn queue(session: &mut Session, len: usize, deadline: Option<Instant>) -> MessageId {
    let options = MessageOptions { deadline, tag: 9 };
    session.send_message(Bytes::from(vec![1; len]), options, Instant::ZERO).unwrap()
}

#[test]
fn a_cancel_is_no_answer() {
    let mut session = session();
    give(&mut session, ONE, &[cancel(0, 0, 0, INITIAL_CREDIT + 1)]).unwrap();
    assert!(session.received() > INITIAL_CREDIT);
    assert!(!session.has_answered(), "nothing that it was told has come back");
}

#[test]
fn a_message_behind_a_missing_one_is_delivered_ahead() {
    let mut session = session();
    give(&mut session, ONE, &[header(0, 100), header(100, 50), data(90, 60)]).unwrap();
    assert_eq!(take(&mut session), Some((100, Some(50))));
    assert_eq!(take(&mut session), None);
    let records = sent(&mut session, ONE, 0, at(10));
    let ack = acks(&records).last().expect("an acknowledgement");
    assert_eq!((ack.in_order, ack.taken), (0, 1));
    assert_eq!(ack.ranges, std::slice::from_ref(&(90..150)));
    give(&mut session, TWO, &[header(0, 100), data(0, 95), header(150, 1)]).unwrap();
    assert_eq!(take(&mut session), Some((0, Some(100))));
    give(&mut session, TWO, &[data(150, 1), Record::Fin(151)]).unwrap();
    assert!(!session.is_read_to_end());
    assert_eq!(take(&mut session), Some((150, Some(1))));
    assert!(session.is_read_to_end());
    assert_eq!(session.stats().duplicates, 5);
    assert_eq!(session.stats().receive_memory, ByteCount::ZERO);
}

#[test]
fn headers_go_before_bytes_on_each_subflow() {
    let mut session = session();
    queue(&mut session, 1000, None);
    queue(&mut session, 2000, None);
    let shape = |records: Vec<Record>| -> Vec<(char, u64)> {
        let shape = |record: Record| match record {
            Record::Message(message) => Some(('m', message.offset)),
            Record::Data(data) => Some(('d', data.offset)),
            _ => None,
        };
        records.into_iter().filter_map(shape).collect()
    };
    assert_eq!(shape(sent(&mut session, ONE, 1200, at(1))), [('m', 0), ('m', 1000), ('d', 0)]);
    // The rest on the same subflow needs no second word, on another it does.
    let rest = shape(sent(&mut session, ONE, 300, at(1)));
    assert!(rest.iter().all(|(kind, _)| *kind == 'd') && !rest.is_empty(), "{rest:?}");
    let other = shape(sent(&mut session, TWO, 5000, at(1)));
    assert_eq!(other[0], ('m', 1000));
    // What a dead subflow carried takes its header along.
    session.subflow_down(ONE, at(2));
    let again = shape(sent(&mut session, TWO, 5000, at(2)));
    assert_eq!(again, [('m', 0), ('d', 0)], "the second message is known there");
}

#[test]
fn peers_that_break_the_rules_are_told_how() {
    let refused = |records: &[Record]| give(&mut session(), ONE, records).unwrap_err();
    let one = header(0, 100);
    assert_eq!(refused(&[data(0, 1)]), SessionError::NoSuchMessage(0));
    assert_eq!(refused(&[one.clone(), data(50, 51)]), SessionError::NoSuchMessage(100));
    assert_eq!(refused(&[one.clone(), header(0, 99)]), SessionError::MessageChanged(0));
    assert_eq!(refused(&[one.clone(), header(99, 5)]), SessionError::MessageOverlap(99));
    assert_eq!(refused(&[header(50, 9), header(48, 3)]), SessionError::MessageOverlap(48));
    let over_received = [one.clone(), data(0, 100), header(50, 100)];
    assert_eq!(refused(&over_received), SessionError::MessageOverlap(50));
    assert_eq!(refused(&[one.clone(), cancel(0, 0, 0, 99)]), SessionError::MessageChanged(0));
    assert_eq!(refused(&[one.clone(), cancel(0, 0, 9, 100)]), SessionError::MessageOverlap(9));
    let too_long = SessionError::MessageTooLong { len: (1 << 20) + 1, longest: 1 << 20 };
    assert_eq!(refused(&[header(0, (1 << 20) + 1)]), too_long);
    assert_eq!(refused(&[cancel(0, 0, 0, (1 << 20) + 1)]), too_long);
    let beyond = SessionError::CreditExceeded { end: INITIAL_CREDIT, credit: INITIAL_CREDIT };
    assert_eq!(refused(&[header(INITIAL_CREDIT, 1)]), beyond);
    assert_eq!(refused(&[Record::Fin(50), one.clone()]), SessionError::BeyondEnd(100));
    assert_eq!(refused(&[one.clone(), Record::Fin(50)]), SessionError::EndMoved(50));
    let mut stream = session_of(&SessionConfig::default());
    assert_eq!(give(&mut stream, ONE, &[one]), Err(SessionError::NoMessages));
}

#[test]
fn no_more_messages_are_open_than_agreed() {
    let many: Vec<Record> = (0..MAX_OPEN_MESSAGES as u64).map(|n| header(n, 1)).collect();
    let one_more = header(MAX_OPEN_MESSAGES as u64, 1);
    let too_many = Err(SessionError::TooManyMessages(MAX_OPEN_MESSAGES));
    let mut open = session();
    give(&mut open, ONE, &many).unwrap();
    assert_eq!(give(&mut open, ONE, std::slice::from_ref(&one_more)), too_many);
    // Whole ones count until they are taken.
    let mut ready = session();
    give(&mut ready, ONE, &many).unwrap();
    give(&mut ready, ONE, &[data(0, MAX_OPEN_MESSAGES)]).unwrap();
    assert_eq!(take(&mut ready), Some((0, Some(1))));
    give(&mut ready, ONE, &[one_more, data(MAX_OPEN_MESSAGES as u64, 1)]).unwrap();
    assert_eq!(give(&mut ready, ONE, &[cancel(0, 0, 1 << 20, 2)]), too_many);
    // Cancels whose delivery status the peer never takes note of.
    let mut cancelled = session();
    let mut result = Ok(());
    for n in 0..=MAX_OPEN_MESSAGES as u64 {
        result = give(&mut cancelled, ONE, &[cancel(n, 0, 2 * n, 2)]);
        let _ = (take(&mut cancelled), sent(&mut cancelled, ONE, 0, at(3)));
    }
    assert_eq!(result, too_many);
}

#[test]
fn a_cancel_is_answered_where_it_came_from_and_always_alike() {
    let mut session = session();
    give(&mut session, ONE, &[header(0, 100), data(0, 100), header(100, 100), data(100, 10)])
        .unwrap();
    // The first is whole; the second is not; the third was never begun.
    let cancels = [cancel(0, 0, 0, 100), cancel(1, 0, 100, 100), cancel(2, 0, 200, 50)];
    give(&mut session, TWO, &cancels).unwrap();
    assert_eq!(statuses(&sent(&mut session, ONE, 0, at(5))), []);
    let status = [(0, true), (1, false), (2, false)];
    assert_eq!(statuses(&sent(&mut session, TWO, 0, at(5))), status);
    give(&mut session, ONE, &cancels).unwrap();
    let records = sent(&mut session, ONE, 0, at(9));
    assert_eq!(statuses(&records), status);
    let all: Vec<_> = std::iter::from_fn(|| take(&mut session)).collect();
    assert_eq!(all, [(0, Some(100)), (100, None), (200, None)]);
    let stats = session.stats();
    assert_eq!((stats.delivered, stats.messages.received, stats.messages.lost), (250, 1, 2));
    // What still comes of a cancelled message is dropped, and so is a cancel whose delivery status
    // is known.
    give(&mut session, ONE, &[header(100, 100), data(100, 100)]).unwrap();
    assert_eq!(take(&mut session), None);
    give(&mut session, ONE, &[cancel(3, 3, 250, 1), cancel(1, 0, 100, 100)]).unwrap();
    assert_eq!(statuses(&sent(&mut session, ONE, 0, at(12))), [(3, false)]);
}

/// All that `from` has to say goes to `to`, subflow by subflow.
fn pass(from: &mut Session, to: &mut Session, now: Instant) {
    for id in [ONE, TWO] {
        let records = sent(from, id, 1 << 20, now);
        give_at(to, id, &records, now).expect("an honest peer");
    }
}

/// A reader that was busy frees a little, for which the peer has been waiting: the window is the next message.
#[test]
fn a_message_as_large_as_the_window_is_completed_behind_a_small_one() {
    let reader = SessionConfig { max_memory: ByteCount::mib(1), ..config(1 << 20) };
    let (mut ours, mut theirs) = (session(), session_of(&reader));
    queue(&mut ours, 1_000, None);
    queue(&mut ours, 1 << 20, None);
    let both = |ours: &mut Session, theirs: &mut Session, ms: std::ops::Range<u64>| {
        for ms in ms {
            for session in [&mut *ours, &mut *theirs] {
                session.handle_timeout(at(ms));
            }
            pass(ours, theirs, at(ms));
            pass(theirs, ours, at(ms));
        }
    };
    both(&mut ours, &mut theirs, 2..2_000);
    let len = |incoming| match incoming {
        Some(Incoming::Message(message)) => message.payload.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!(len(theirs.poll_message(at(2_000))), 1_000);
    assert!(theirs.poll_message(at(2_000)).is_none(), "its end waits for credit");
    both(&mut ours, &mut theirs, 2_000..4_000);
    assert_eq!(len(theirs.poll_message(at(4_000))), 1 << 20);
}

#[test]
fn an_unsent_message_that_is_cancelled_leaves_no_hole() {
    let (mut ours, mut theirs) = (session(), session());
    let kept = queue(&mut ours, 10_000, None);
    let dropped = queue(&mut ours, 300_000, None);
    let last = queue(&mut ours, 20_000, None);
    assert_eq!(ours.unsent(), 330_000);
    assert!(ours.cancel_message(dropped, at(1)));
    assert!(!ours.cancel_message(dropped, at(1)), "once");
    assert_eq!(ours.unsent(), 30_000);
    for ms in 2..10 {
        pass(&mut ours, &mut theirs, at(ms));
        pass(&mut theirs, &mut ours, at(ms));
    }
    assert_eq!(ours.stats().acknowledged, 330_000);
    assert_eq!(ours.stats().paths.values().map(|path| path.sent).sum::<u64>(), 30_000);
    let mut outcomes: Vec<_> = std::iter::from_fn(|| ours.poll_outcome()).collect();
    outcomes.sort_by_key(|ended| ended.id);
    let ended = |id, outcome| MessageOutcome { id, tag: 9, outcome };
    assert_eq!(
        outcomes,
        [
            ended(kept, Outcome::Delivered),
            ended(dropped, Outcome::Cancelled),
            ended(last, Outcome::Delivered)
        ]
    );
    let incoming = std::iter::from_fn(|| theirs.poll_message(at(11)));
    let (lost, came): (Vec<_>, Vec<_>) =
        incoming.partition(|incoming| matches!(incoming, Incoming::Dropped(_)));
    assert_eq!(lost, [Incoming::Dropped(ended(dropped, Outcome::Cancelled))]);
    assert_eq!(came.len(), 2);
}

#[test]
fn a_deadline_drops_what_would_have_to_be_sent() {
    let (mut ours, mut theirs) = (session(), session());
    let sent_in_time = queue(&mut ours, 1000, Some(at(20)));
    let too_late = queue(&mut ours, 100_000, Some(at(30)));
    let first = sent(&mut ours, ONE, 1000, at(1));
    let _ = sent(&mut ours, TWO, 0, at(1));
    assert_eq!(ours.poll_timeout(at(1)), Some(at(20)));
    ours.handle_timeout(at(20));
    assert_eq!(ours.poll_timeout(at(20)), Some(at(30)));
    ours.handle_timeout(at(30));
    // The first is on its way and left alone, the second is dropped.
    let records = sent(&mut ours, TWO, 1 << 20, at(30));
    let cancels: Vec<_> = records.iter().filter(|r| matches!(r, Record::Cancel(_))).collect();
    assert_eq!(cancels.len(), 1, "{records:?}");
    give_at(&mut theirs, ONE, &first, at(31)).unwrap();
    give_at(&mut theirs, TWO, &records, at(31)).unwrap();
    for ms in 32..40 {
        pass(&mut theirs, &mut ours, at(ms));
        pass(&mut ours, &mut theirs, at(ms));
    }
    let outcomes: Vec<_> = std::iter::from_fn(|| ours.poll_outcome()).collect();
    let ended = |id, outcome| MessageOutcome { id, tag: 9, outcome };
    let expected = [ended(sent_in_time, Outcome::Delivered), ended(too_late, Outcome::Expired)];
    assert!(
        expected.iter().all(|one| outcomes.contains(one)) && outcomes.len() == 2,
        "{outcomes:?}"
    );
    let expired = Incoming::Dropped(ended(too_late, Outcome::Expired));
    assert!(std::iter::from_fn(|| theirs.poll_message(at(41))).any(|got| got == expired));
}

/// Whoever waits for messages may find that there is more time, for those from some point on.
#[test]
fn deadlines_are_put_off() {
    let mut session = session();
    let soon = queue(&mut session, 100, Some(at(20)));
    let later = queue(&mut session, 100, Some(at(21)));
    let none = queue(&mut session, 100, None);
    session.put_off(at(20), Duration::from_millis(30), at(1));
    assert_eq!(session.poll_timeout(at(1)), Some(at(20)));
    session.handle_timeout(at(40));
    let dropped = |session: &Session| {
        let outbox = session.send.outbox.as_ref().unwrap();
        [soon, later, none].map(|id| outbox.range(id.0).is_none())
    };
    assert_eq!(dropped(&session), [true, false, false]);
    session.put_off(Instant::ZERO, Duration::from_millis(10), at(40));
    assert_eq!(session.poll_timeout(at(40)), Some(at(61)));
    session.handle_timeout(at(61));
    assert_eq!(dropped(&session), [true, true, false]);
    // What is over is over.
    session.put_off(Instant::ZERO, Duration::from_millis(10), at(61));
    assert_eq!(dropped(&session), [true, true, false]);
}

#[test]
fn past_its_deadline_nothing_is_sent_again() {
    for stalled in [false, true] {
        let mut session = session();
        queue(&mut session, 1000, Some(at(20)));
        let records = sent(&mut session, ONE, 2000, at(1));
        assert!(records.iter().any(|record| matches!(record, Record::Data(_))));
        session.handle_timeout(at(20));
        let none = |records: Vec<Record>| !records.iter().any(|r| matches!(r, Record::Cancel(_)));
        assert!(none(sent(&mut session, TWO, 2000, at(21))), "it is on its way");
        if stalled {
            session.handle_timeout(at(3000));
        } else {
            session.subflow_down(ONE, at(3000));
        }
        let records = sent(&mut session, TWO, 2000, at(3001));
        assert!(records.iter().any(|record| matches!(record, Record::Cancel(_))), "{records:?}");
        assert!(!records.iter().any(|record| matches!(record, Record::Data(_))), "{records:?}");
    }
}

#[test]
fn a_cancel_goes_on_every_new_subflow_until_its_fate_is_known() {
    let mut session = session();
    let id = queue(&mut session, 1000, None);
    session.cancel_message(id, at(1));
    let cancels = |session: &mut Session, id| {
        let records = sent(session, id, 0, at(2));
        records.iter().filter(|record| matches!(record, Record::Cancel(_))).count()
    };
    assert_eq!((cancels(&mut session, ONE), cancels(&mut session, TWO)), (1, 1));
    assert_eq!((cancels(&mut session, ONE), cancels(&mut session, TWO)), (0, 0));
    session.subflow_down(ONE, at(2));
    session.subflow_up(SubflowId(3), PathId(1), at(2)).unwrap();
    assert_eq!(cancels(&mut session, SubflowId(3)), 1);
    give(
        &mut session,
        TWO,
        &[Record::DeliveryStatus(DeliveryStatus { number: 0, delivered: true })],
    )
    .unwrap();
    let outcome = session.poll_outcome().map(|ended| ended.outcome);
    assert_eq!(outcome, Some(Outcome::Delivered), "the receiver's word counts");
    session.subflow_up(SubflowId(4), PathId(1), at(3)).unwrap();
    assert_eq!(cancels(&mut session, SubflowId(4)), 0);
    // Statuses that nobody waits for change nothing.
    give(
        &mut session,
        TWO,
        &[Record::DeliveryStatus(DeliveryStatus { number: 77, delivered: true })],
    )
    .unwrap();
    assert_eq!(session.poll_outcome(), None);
}

#[test]
fn a_message_that_does_not_get_through_holds_up_no_other() {
    let first_window = ByteCount::kib(256);
    let max_memory = ByteCount::kib(512);
    let config = SessionConfig { first_window, max_memory, ..config(100_000) };
    let mut session = session_of(&config);
    // Of the first message one byte is missing for ever; 50 MB of others follow.
    give(&mut session, ONE, &[header(0, 100_000), data(1, 30_000)]).unwrap();
    let mut now = at(100);
    session.handle_timeout(now);
    let mut credit = acks(&sent(&mut session, ONE, 0, now)).last().unwrap().credit;
    give(&mut session, ONE, &[data(30_001, 50_000), data(80_001, 19_999)]).unwrap();
    let mut offset = 100_000;
    while offset < 50_000_000 {
        assert!(offset + 50_000 <= credit, "stuck at {offset} of {credit}");
        give_at(&mut session, ONE, &[header(offset, 50_000), data(offset, 50_000)], now).unwrap();
        assert_eq!(take(&mut session), Some((offset, Some(50_000))));
        offset += 50_000;
        now += Duration::from_millis(2);
        session.handle_timeout(now);
        let records = sent(&mut session, ONE, 0, now);
        credit = acks(&records).last().map_or(credit, |ack| ack.credit);
        assert_eq!(session.stats().receive_memory, ByteCount::new(100_000));
    }
    assert_eq!(credit, offset - 100_000 + 256 * 1024, "the window less what is stuck");
    give_at(&mut session, TWO, &[header(0, 100_000), data(0, 1)], now).unwrap();
    assert_eq!(take(&mut session), Some((0, Some(100_000))));
    assert_eq!(session.stats().delivered, offset);
}

#[test]
fn a_far_cancel_grants_no_memory() {
    let config = SessionConfig { first_window: ByteCount::kib(256), ..config(1 << 20) };
    let mut session = session_of(&config);
    let window = 1 << 20;
    for n in 0..1000 {
        give(&mut session, ONE, &[cancel(n, n, (1 << 40) + (n << 20), 1 << 20)]).unwrap();
        assert!(take(&mut session).is_some());
    }
    session.handle_timeout(at(50));
    let records = sent(&mut session, ONE, 0, at(50));
    assert_eq!(acks(&records).last().map(|ack| ack.credit), Some(window));
}

#[test]
fn the_sender_waits_when_too_many_are_not_taken() {
    let mut ours = session();
    let most = MAX_OPEN_MESSAGES as u64;
    for n in 0..most {
        assert_eq!(queue(&mut ours, 1, None), MessageId(n));
    }
    let one = || (Bytes::from_static(b"x"), MessageOptions::default());
    let (payload, options) = one();
    assert_eq!(ours.send_message(payload, options, at(1)), Err(SendError::Full));
    let mut sent_to = 0;
    for records in [sent(&mut ours, ONE, 1 << 20, at(1)), sent(&mut ours, TWO, 1 << 20, at(1))] {
        let ends = records.iter().filter_map(|record| match record {
            Record::Data(data) => Some(data.offset + data.payload.len() as u64),
            _ => None,
        });
        sent_to = ends.fold(sent_to, u64::max);
    }
    assert_eq!(sent_to, most);
    let ack =
        |in_order, taken| Record::Ack(Ack { in_order, credit: 1 << 20, taken, ..Ack::default() });
    // All have arrived, none is taken: there is memory for more, but they may not begin.
    give(&mut ours, ONE, &[ack(most, 0)]).unwrap();
    let events: Vec<_> = std::iter::from_fn(|| ours.poll_event()).collect();
    assert!(events.contains(&Event::Writable), "{events:?}");
    let more = queue(&mut ours, 10, None);
    let dropped = queue(&mut ours, 10, None);
    ours.cancel_message(dropped, at(2));
    let begins = |records: &[Record]| {
        records.iter().any(|r| matches!(r, Record::Message(_) | Record::Data(_)))
    };
    let cancels =
        |records: &[Record]| records.iter().filter(|r| matches!(r, Record::Cancel(_))).count();
    let records = sent(&mut ours, ONE, 1 << 20, at(2));
    assert!(!begins(&records) && cancels(&records) == 0, "{records:?}");
    give(&mut ours, ONE, &[ack(most, 1)]).unwrap();
    let records = sent(&mut ours, ONE, 1 << 20, at(2));
    assert!(records.contains(&Record::Message(MessageHeader { offset: more.0, len: 10, tag: 9 })));
    assert_eq!(cancels(&records), 0);
    give(&mut ours, ONE, &[ack(most, 2)]).unwrap();
    assert_eq!(cancels(&sent(&mut ours, ONE, 1 << 20, at(3))), 1);
}

#[test]
fn what_cannot_be_sent_is_said_so() {
    let config = SessionConfig { max_memory: ByteCount::kib(256), ..config(200_000) };
    let mut session = session_of(&config);
    let options = MessageOptions::default();
    let send = |session: &mut Session, len: usize, options| {
        session.send_message(Bytes::from(vec![0; len]), options, at(5))
    };
    assert_eq!(send(&mut session, 0, options), Err(SendError::Empty));
    let longest = 200_000;
    assert_eq!(
        send(&mut session, 200_001, options),
        Err(SendError::TooLong { len: 200_001, longest })
    );
    let late = MessageOptions { deadline: Some(at(5)), ..options };
    assert_eq!(send(&mut session, 1, late), Err(SendError::Expired));
    let tagged = MessageOptions { tag: u64::MAX, ..options };
    assert_eq!(send(&mut session, 1, tagged), Err(SendError::Tag(u64::MAX)));
    assert!(send(&mut session, 200_000, options).is_ok());
    assert_eq!(send(&mut session, 200_000, options), Err(SendError::Full));
    session.finish(at(6));
    assert_eq!(send(&mut session, 1, options), Err(SendError::Finished));
    let mut stream = session_of(&SessionConfig::default());
    assert_eq!(send(&mut stream, 1, options), Err(SendError::NotMessages));
    assert!(!stream.cancel_message(MessageId(0), at(6)));
    assert_eq!(stream.poll_message(at(6)), None);
}

#[test]
fn the_first_message_without_a_deadline_from_an_offset_on_is_found() {
    let mut outbox = Outbox::new(MessageLimits { longest_sent: 100, longest_received: 100 });
    let dated = |deadline| MessageOptions { deadline, ..MessageOptions::default() };
    for (range, deadline) in [
        (0..10, Some(at(5))),
        (10..20, None),
        (20..30, Some(at(9))),
        (30..40, None),
        (40..50, None),
    ] {
        outbox.push(range, dated(deadline));
    }
    let found = |outbox: &Outbox| [0, 10, 15, 20, 39, 49, 50].map(|from| outbox.undated_from(from));
    let [second, fourth, fifth] = [10..20, 30..40, 40..50].map(Some);
    let all = [&second, &second, &second, &fourth, &fourth, &fifth, &None].map(Clone::clone);
    assert_eq!(found(&outbox), all);
    outbox.cancel(30, Outcome::Cancelled);
    assert_eq!(outbox.undated_from(20), fifth);
}
