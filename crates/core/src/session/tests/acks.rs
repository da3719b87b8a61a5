//! What is told of what has come, when and on which subflow.

use super::*;

#[test]
fn acknowledgements_of_what_was_never_sent() {
    let ack = |in_order, ranges: &[Range<u64>], received| {
        let subflow_acks = vec![SubflowAck { subflow: 0, received }];
        let ranges = ranges.to_vec();
        Record::Ack(Ack { in_order, credit: 1 << 20, ranges, subflow_acks, ..Ack::default() })
    };
    let with_data = || {
        let mut session = session();
        session.write(&[7; 5000], Instant::ZERO).unwrap();
        session
    };
    // Written but not yet given to a subflow.
    assert_eq!(give(&mut with_data(), &ack(1, &[], 0)), Err(SessionError::AckOfUnsent(1)));
    assert_eq!(
        give(&mut with_data(), &ack(0, &[10..20, 30..9000], 0)),
        Err(SessionError::AckOfUnsent(9000))
    );
    let mut session = with_data();
    assert!(sent(&mut session, Instant::ZERO).iter().any(|r| matches!(r, Record::Data(_))));
    assert_eq!(
        give(&mut session, &ack(0, &[], 5001)),
        Err(SessionError::SubflowAckOfUnsent(0, 5001))
    );
    let mut session = with_data();
    let _ = sent(&mut session, Instant::ZERO);
    assert_eq!(give(&mut session, &ack(5000, &[], 5000)), Ok(()));
    assert_eq!(session.stats().acknowledged, 5000);
}

#[test]
fn acknowledgements_in_tiny_pieces_are_refused_before_they_fill_memory() {
    let mut session = session();
    let mut result = Ok(());
    let credit = VARINT_MAX;
    let mut written = 0;
    let mut acked = 0;
    while result.is_ok() && acked < 1 << 21 {
        give(&mut session, &Record::Ack(Ack { credit, ..Ack::default() })).unwrap();
        written += session.write(&[7; 64 << 10], Instant::from_millis(1)).unwrap() as u64;
        let _ = sent(&mut session, Instant::from_millis(1));
        while result.is_ok() && acked + 1024 < written {
            let ranges = (0..256).map(|n| acked + 2 * n + 1..acked + 2 * n + 2).collect();
            result = give(&mut session, &Record::Ack(Ack { credit, ranges, ..Ack::default() }));
            acked += 512;
        }
    }
    assert!(matches!(result, Err(SessionError::AckTooFragmented(_))), "{result:?}");
}

#[test]
fn acknowledgements_go_where_data_come_and_now_and_then_elsewhere() {
    let other = SubflowId(1);
    let mut session = Session::new(&SessionConfig::default(), Instant::ZERO);
    session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
    session.subflow_up(other, PathId(1), Instant::ZERO).unwrap();
    let acks = |session: &mut Session, id: SubflowId, now: Instant| {
        let mut out = VecDeque::new();
        let _ = session.poll_transmit(id, &mut out, now);
        let mut bytes: BytesMut = out.iter().flatten().copied().collect();
        let records = std::iter::from_fn(|| Record::decode(&mut bytes).expect("our own"));
        records.filter(|record| matches!(record, Record::Ack(_))).count()
    };
    let _ = (acks(&mut session, PEER, Instant::ZERO), acks(&mut session, other, Instant::ZERO));
    let (mut here, mut elsewhere) = (0, 0);
    for n in 0..95_u64 {
        let now = Instant::from_millis(10 + 2 * n);
        let mut input = BytesMut::new();
        Record::Data(Data { offset: 10 * n, payload: Bytes::from_static(&[7; 10]) })
            .encode(&mut input);
        session.handle_input(PEER, &mut input, now).expect("data");
        here += acks(&mut session, PEER, now);
        elsewhere += acks(&mut session, other, now);
    }
    assert!(here >= 94, "{here}");
    assert!((6..=8).contains(&elsewhere), "{elsewhere} in 190 ms");
    // The last of it is told there in the end, though nothing else comes.
    let due = session.poll_timeout(Instant::from_millis(199)).expect("an acknowledgement is due");
    assert!(due <= Instant::from_millis(199 + 25), "{due}");
    session.handle_timeout(due);
    assert_eq!(acks(&mut session, other, due), 1);
}

#[test]
fn a_range_is_told_once_on_each_subflow() {
    let other = SubflowId(1);
    let mut session = Session::new(&SessionConfig::default(), Instant::ZERO);
    session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
    session.subflow_up(other, PathId(1), Instant::ZERO).unwrap();
    let receive = |session: &mut Session, offset: u64, now: Instant| {
        let mut input = BytesMut::new();
        Record::Data(Data { offset, payload: Bytes::from_static(&[7; 10]) }).encode(&mut input);
        session.handle_input(PEER, &mut input, now).expect("data");
        session.handle_timeout(now + ms(25));
    };
    let told = |session: &mut Session, id: SubflowId, now: Instant| {
        let mut out = VecDeque::new();
        let _ = session.poll_transmit(id, &mut out, now);
        let mut bytes: BytesMut = out.iter().flatten().copied().collect();
        let records = std::iter::from_fn(|| Record::decode(&mut bytes).expect("our own"));
        let acks = records.filter_map(|record| match record {
            Record::Ack(ack) => Some((ack.in_order, ack.ranges)),
            _ => None,
        });
        acks.last()
    };
    let (at, one) = (Instant::from_millis, |range: Range<u64>| vec![range]);
    receive(&mut session, 20, at(100));
    assert_eq!(told(&mut session, PEER, at(130)), Some((0, one(20..30))));
    receive(&mut session, 40, at(200));
    assert_eq!(told(&mut session, PEER, at(230)), Some((0, one(40..50))), "20..30 is known there");
    assert_eq!(told(&mut session, other, at(230)), Some((0, vec![20..30, 40..50])));
    // One that comes up knows nothing; what has come into order needs no range.
    let late = SubflowId(2);
    session.subflow_up(late, PathId(2), at(250)).unwrap();
    assert_eq!(told(&mut session, late, at(250)), Some((0, vec![20..30, 40..50])));
    receive(&mut session, 0, at(300));
    receive(&mut session, 10, at(400));
    assert_eq!(told(&mut session, other, at(430)), Some((30, vec![])));
}

#[test]
fn what_is_sent_again_is_told_at_once() {
    let mut session = session();
    let other = SubflowId(1);
    session.subflow_up(other, PathId(1), Instant::ZERO).unwrap();
    session.write(&[7; 1000], Instant::ZERO).unwrap();
    assert!(sent(&mut session, Instant::ZERO).iter().any(|r| matches!(r, Record::Data(_))));
    let again = |session: &mut Session| -> Vec<Event> {
        let all = std::iter::from_fn(|| session.poll_event());
        all.filter(|event| matches!(event, Event::SentAgain { .. })).collect()
    };
    assert_eq!(again(&mut session), []);
    // Nothing is heard of it for long.
    let now = Instant::from_millis(5000);
    session.handle_timeout(now);
    session.handle_room(other, 1 << 20);
    assert!(session.poll_transmit(other, &mut VecDeque::new(), now) > 0);
    let told = Event::SentAgain { subflow: other, range: 0..1000, kind: Kind::Reinjection };
    assert_eq!(again(&mut session), [told]);
}

#[test]
fn a_filled_hole_is_told_at_once_and_anything_else_within_a_quarter_of_the_round_trip() {
    let mut session = Session::new(&SessionConfig::default(), Instant::ZERO);
    session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
    let far = PathInfo { srtt: ms(80), min_rtt: ms(80), ..PathInfo::default() };
    session.handle_path_info(PEER, far);
    let in_order = |session: &mut Session, now: Instant| {
        let records = sent(session, now);
        let acks = records.iter().filter_map(|record| match record {
            Record::Ack(ack) => Some(ack.in_order),
            _ => None,
        });
        acks.last()
    };
    let at = Instant::from_millis;
    let _ = in_order(&mut session, at(0));
    // (when, what comes, what is told then)
    let told_at_once = [(100, 10, Some(0)), (101, 30, None), (102, 0, None), (103, 20, Some(40))];
    for (when, offset, told) in told_at_once {
        let payload = Bytes::from_static(&[7; 10]);
        let mut input = BytesMut::new();
        Record::Data(Data { offset, payload }).encode(&mut input);
        session.handle_input(PEER, &mut input, at(when)).expect("data");
        assert_eq!(in_order(&mut session, at(when)), told, "{when} ms");
    }
    let mut input = BytesMut::new();
    Record::Data(Data { offset: 50, payload: Bytes::from_static(&[7; 10]) }).encode(&mut input);
    session.handle_input(PEER, &mut input, at(104)).expect("data");
    session.handle_timeout(at(122));
    assert_eq!(in_order(&mut session, at(122)), None);
    session.handle_timeout(at(123));
    assert_eq!(in_order(&mut session, at(123)), Some(40));
}

/// A writer that asks finds that another subflow, which has room too, is the better one.
#[test]
fn what_another_subflow_is_given_waits_for_its_writer() {
    let mut session = session();
    let other = SubflowId(1);
    session.subflow_up(other, PathId(1), Instant::ZERO).unwrap();
    let info = |ms| PathInfo {
        srtt: Duration::from_millis(ms),
        min_rtt: Duration::from_millis(ms),
        cwnd: ByteCount::kib(14),
        ..PathInfo::default()
    };
    let data = |session: &mut Session, id| {
        let mut out = VecDeque::new();
        let _ = session.poll_transmit(id, &mut out, Instant::ZERO);
        let mut bytes: BytesMut = out.iter().flatten().copied().collect();
        let records = std::iter::from_fn(|| Record::decode(&mut bytes).expect("our own records"));
        records.filter(|record| matches!(record, Record::Data(_))).count()
    };
    for (id, ms) in [(PEER, 9), (other, 5)] {
        session.handle_path_info(id, info(ms));
        session.handle_room(id, 1 << 14);
        assert_eq!(data(&mut session, id), 0);
    }
    session.write(&[7; 8], Instant::ZERO).unwrap();
    assert_eq!(data(&mut session, PEER), 0, "the other one is nearer");
    assert!(std::iter::from_fn(|| session.poll_wake()).any(|id| id == other));
    // What waits for a writer takes up the room that its socket has.
    session.handle_room(other, 5);
    session.write(&[7; 8], Instant::ZERO).unwrap();
    assert_eq!((data(&mut session, PEER), data(&mut session, other)), (0, 1));
    session.handle_room(other, 5);
    assert_eq!(data(&mut session, other), 1);
    // It is lost with the subflow, and goes to the other one.
    session.handle_room(other, 1 << 14);
    session.write(&[7; 8], Instant::ZERO).unwrap();
    assert_eq!(data(&mut session, PEER), 0);
    session.subflow_down(other, Instant::ZERO);
    assert_eq!(data(&mut session, PEER), 1, "all that was on its way");
}

#[test]
fn a_peer_that_hides_what_has_come_is_refused_before_it_fills_memory() {
    // The stream's bytes are acknowledged, so that they go on; those of the subflow never.
    let refused_after = |subflow_acks: &[SubflowAck]| {
        let config = SessionConfig { chunk: Some((1, 1)), ..SessionConfig::default() };
        let mut session = Session::new(&config, Instant::ZERO);
        session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
        let mut acked = 0;
        while acked < 1 << 20 {
            acked += session.write(&[7; 32 << 10], Instant::from_millis(1)).unwrap() as u64;
            session.handle_room(PEER, 1 << 20);
            let _ = session.poll_transmit(PEER, &mut VecDeque::new(), Instant::ZERO);
            let subflow_acks = subflow_acks.to_vec();
            let ack = Ack { in_order: acked, credit: 1 << 30, subflow_acks, ..Ack::default() };
            if let Err(error) = give(&mut session, &Record::Ack(ack)) {
                assert_eq!(error, SessionError::SubflowAckMissing(0));
                break;
            }
        }
        acked
    };
    let limit = (1 << 18) + (32 << 10);
    assert_eq!(refused_after(&[SubflowAck { subflow: 0, received: 1 }]), limit);
    assert_eq!(refused_after(&[]), limit);
}
