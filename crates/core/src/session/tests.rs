//! What a session refuses from a peer that breaks the protocol, and how it answers.

mod acks;
mod full;
mod memory;
mod schedulers;
mod weave;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::*;
use crate::ByteCount;
use crate::scheduler::{Assignment, Entry, Scheduler, SchedulerConfig, SendView};
use crate::wire::{Ack, Data, Hello, INITIAL_CREDIT, Record, SubflowAck, VARINT_MAX};

const PEER: SubflowId = SubflowId(0);

fn session() -> Session {
    let mut session = Session::new(&SessionConfig::default(), Instant::ZERO);
    session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
    session
}

fn give(session: &mut Session, record: &Record) -> Result<(), SessionError> {
    let mut input = BytesMut::new();
    record.encode(&mut input);
    session.handle_input(PEER, &mut input, Instant::from_millis(1))
}

/// Everything the session sends now, as records.
fn sent(session: &mut Session, now: Instant) -> Vec<Record> {
    let mut out = VecDeque::new();
    session.handle_room(PEER, 1 << 20);
    let _ = session.poll_transmit(PEER, &mut out, now);
    let mut bytes: BytesMut = out.iter().flatten().copied().collect();
    std::iter::from_fn(|| Record::decode(&mut bytes).expect("our own records")).collect()
}

fn data(offset: u64, payload: &'static [u8]) -> Record {
    Record::Data(Data { offset, payload: Bytes::from_static(payload) })
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn a_protocol_error_resets_the_peer() {
    let mut session = session();
    let error = give(&mut session, &data(INITIAL_CREDIT, b"beyond")).unwrap_err();
    assert_eq!(
        error,
        SessionError::CreditExceeded { end: INITIAL_CREDIT + 6, credit: INITIAL_CREDIT }
    );
    let records = sent(&mut session, Instant::from_millis(2));
    assert!(
        records.iter().any(|r| matches!(r, Record::Reset(why) if why.code == RESET_PROTOCOL)),
        "{records:?}"
    );
}

#[test]
fn the_end_of_the_stream_holds() {
    let after = |first: Record, then: Record| {
        let mut session = session();
        give(&mut session, &first).unwrap();
        give(&mut session, &then).unwrap_err()
    };
    assert_eq!(after(data(0, b"abcdef"), Record::Fin(3)), SessionError::EndMoved(3));
    assert_eq!(after(Record::Fin(3), Record::Fin(4)), SessionError::EndMoved(4));
    assert_eq!(after(Record::Fin(3), data(0, b"abcd")), SessionError::BeyondEnd(4));
}

#[test]
fn a_duplicate_at_the_very_end_does_not_hold_up_the_close() {
    let mut session = session();
    give(&mut session, &data(0, b"x")).unwrap();
    give(&mut session, &Record::Fin(1)).unwrap();
    session.finish(Instant::from_millis(1));
    let said = sent(&mut session, Instant::from_millis(1));
    assert!(said.iter().any(|r| matches!(r, Record::Ack(ack) if ack.fin && ack.in_order == 1)));
    // The byte comes again, as from another path; then the peer has all it wants, and leaves.
    give(&mut session, &data(0, b"x")).unwrap();
    give(&mut session, &Record::Ack(Ack { fin: true, credit: 1 << 20, ..Ack::default() })).unwrap();
    session.subflow_down(PEER, Instant::from_millis(2));
    let events: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
    assert!(events.contains(&Event::Closed), "{events:?}");
}

#[test]
fn handshake_records_have_no_place_in_a_session() {
    let hello = Record::Hello(Hello::default());
    assert_eq!(give(&mut session(), &hello), Err(SessionError::UnexpectedRecord));
}

#[test]
fn a_stream_of_single_bytes_is_refused_before_it_fills_memory() {
    let mut session = session();
    let mut result = Ok(());
    // Every other byte: each one its own piece.
    let mut granted = INITIAL_CREDIT;
    for n in 1.. {
        let offset = 2 * n;
        if offset >= granted {
            granted = sent(&mut session, Instant::from_millis(n))
                .iter()
                .find_map(|r| if let Record::Ack(ack) = r { Some(ack.credit) } else { None })
                .expect("an acknowledgement with the first window's credit");
        }
        result = give(&mut session, &data(offset, b"x"));
        if result.is_err() {
            break;
        }
    }
    // 4,096, and one for each 16 of their bytes.
    assert_eq!(result, Err(SessionError::TooFragmented(4369)));
    assert!(session.stats().receive_memory <= ByteCount::mib(5));
}

#[test]
fn pings_are_answered_and_measured() {
    let mut session = session();
    give(&mut session, &Record::Ping(77)).unwrap();
    let records = sent(&mut session, Instant::from_millis(1));
    assert!(records.contains(&Record::Pong(77)), "{records:?}");
    let ours = records.iter().find_map(|r| if let Record::Ping(n) = r { Some(*n) } else { None });
    let mut input = BytesMut::new();
    Record::Pong(ours.expect("a ping of our own")).encode(&mut input);
    session.handle_input(PEER, &mut input, Instant::from_millis(31)).unwrap();
    let rtt = session.stats().paths[&PathId(0)].ping_rtt;
    assert_eq!(rtt, Some(Duration::from_millis(30)));
}

/// The peer has used all its credit and waits: nothing but our reading makes us say more.
#[test]
fn what_is_read_is_credit_again() {
    let mut session = session();
    static PIECE: [u8; 16 << 10] = [7; 16 << 10];
    let mut credit = INITIAL_CREDIT;
    let mut now = Instant::from_millis(1);
    let told = |session: &mut Session, now| {
        // Else what has been due since before would be said with whatever comes next.
        session.handle_timeout(now);
        let acks = sent(session, now).into_iter();
        acks.filter_map(|r| if let Record::Ack(ack) = r { Some(ack.credit) } else { None }).last()
    };
    let mut offset = 0;
    loop {
        while offset < credit {
            give(&mut session, &data(offset, &PIECE)).unwrap();
            offset += PIECE.len() as u64;
        }
        now += Duration::from_millis(50);
        match told(&mut session, now).expect("what came is acknowledged") {
            same if same == credit => break,
            more => credit = more,
        }
    }
    now += Duration::from_millis(50);
    assert_eq!(told(&mut session, now), None, "there is nothing to say");
    while !session.read_chunk().is_empty() {
        let read = session.read_chunk().len();
        session.consume(read, now).unwrap();
    }
    now += Duration::from_millis(50);
    assert_eq!(told(&mut session, now), Some(credit + offset), "all of it is free");
}

#[test]
fn half_close_leaves_the_other_direction_open() {
    let mut session = session();
    session.write(b"request", Instant::ZERO).unwrap();
    session.finish(Instant::ZERO);
    let records = sent(&mut session, Instant::ZERO);
    assert!(records.contains(&Record::Fin(7)), "{records:?}");
    give(&mut session, &data(0, b"answer")).unwrap();
    assert_eq!(session.read_chunk(), b"answer");
    session.consume(6, Instant::from_millis(2)).unwrap();
    assert!(!session.is_read_to_end());
    give(&mut session, &Record::Fin(6)).unwrap();
    assert!(session.is_read_to_end());
    let ack = Ack { in_order: 7, credit: 1 << 20, fin: true, ..Ack::default() };
    give(&mut session, &Record::Ack(ack)).unwrap();
    let _ = sent(&mut session, Instant::from_millis(5));
    let events: Vec<_> = std::iter::from_fn(|| session.poll_event()).collect();
    assert!(events.contains(&Event::Finished) && events.contains(&Event::Closed), "{events:?}");
}

#[test]
fn a_ping_that_cannot_be_sent_does_not_spin_the_timer() {
    let mut session = session();
    session.write(&[7; 1 << 20], Instant::ZERO).unwrap();
    let mut out = VecDeque::new();
    // The socket is full, and stays so: its path is cut after the first ping was answered.
    session.handle_room(PEER, 8 << 10);
    let _ = session.poll_transmit(PEER, &mut out, Instant::ZERO);
    session.handle_room(PEER, 0);
    give(&mut session, &Record::Pong(0)).unwrap();
    let mut now = Instant::from_millis(2);
    let mut fired = 0;
    while let Some(at) = session.poll_timeout(now).filter(|at| *at < Instant::from_millis(20_000)) {
        now = now.max(at);
        session.handle_timeout(now);
        fired += 1;
        assert!(fired < 100, "the timer fires again and again at {now}");
    }
    // The ping waits for the writer, which has been woken for it.
    assert!(std::iter::from_fn(|| session.poll_wake()).any(|id| id == PEER));
    assert!(sent(&mut session, now).iter().any(|r| matches!(r, Record::Ping(1))));
}

#[test]
fn a_little_memory_is_no_stall() {
    let max_memory = ByteCount::kib(16);
    let config = SessionConfig { max_memory, ..SessionConfig::default() };
    let mut session = Session::new(&config, Instant::ZERO);
    session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
    // A window of a peer's first credit is the least there is.
    assert_eq!(session.write(&[7; 1 << 20], Instant::ZERO).unwrap(), INITIAL_CREDIT as usize);
    let _ = sent(&mut session, Instant::ZERO);
    let ack = Ack { in_order: INITIAL_CREDIT, credit: 1 << 20, ..Ack::default() };
    give(&mut session, &Record::Ack(ack)).unwrap();
    assert!(std::iter::from_fn(|| session.poll_event()).any(|event| event == Event::Writable));
}

#[test]
fn unlimited_memory_is_no_overflow() {
    let max_memory = ByteCount::new(u64::MAX);
    let config = SessionConfig { max_memory, ..SessionConfig::default() };
    let mut session = Session::new(&config, Instant::ZERO);
    session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
    give(&mut session, &Record::CreditWish(VARINT_MAX)).unwrap();
    give(&mut session, &data(0, b"x")).unwrap();
    session.consume(1, Instant::from_millis(1)).unwrap();
    assert!(
        sent(&mut session, Instant::from_millis(2)).iter().any(|r| matches!(r, Record::Ack(_)))
    );
}

#[test]
fn any_window_is_survived() {
    for name in ["fbdt", "fbdt-strict"] {
        for window in [0, 1, VARINT_MAX, u64::MAX] {
            let scheduler_config =
                SchedulerConfig { window: Some(window), ..SchedulerConfig::default() };
            let scheduler = Entry::find(name).unwrap();
            let config = SessionConfig { scheduler, scheduler_config, ..SessionConfig::default() };
            let mut session = Session::new(&config, Instant::ZERO);
            session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
            session.write(&[7; 100_000], Instant::ZERO).unwrap();
            let records = sent(&mut session, Instant::ZERO);
            let data = records.iter().filter(|r| matches!(r, Record::Data(_))).count();
            // A peer that asks for tiny windows must not make us keep a record for every byte.
            assert!((1..100).contains(&data), "{name}, {window}: {data} records");
        }
    }
}

#[test]
fn there_are_no_more_pieces_than_records() {
    let mut session = session();
    session.write(&[7; 100_000], Instant::ZERO).unwrap();
    let sent = sent(&mut session, Instant::ZERO);
    let records = sent.iter().filter(|record| matches!(record, Record::Data(_))).count();
    assert!((2..100).contains(&records), "{records}");
    let ack = |pieces: usize| {
        let ranges = (0..pieces as u64).map(|n| 2 * n + 1..2 * n + 2).collect();
        Record::Ack(Ack { credit: 1 << 20, ranges, ..Ack::default() })
    };
    give(&mut session, &ack(records)).unwrap();
    let most = SessionError::AckTooFragmented(records);
    assert_eq!(give(&mut session, &ack(records + 1)), Err(most));
}

#[test]
fn any_code_may_end_a_connection() {
    let mut session = session();
    session.reset(u64::MAX, "enough", Instant::ZERO);
    let sent = sent(&mut session, Instant::ZERO);
    let told = sent.iter().any(|record| match record {
        Record::Reset(refusal) => refusal.code == VARINT_MAX,
        _ => false,
    });
    assert!(told, "{sent:?}");
}

#[test]
fn nothing_is_sent_to_a_peer_that_has_reset() {
    let mut session = session();
    session.write(&[7; 100_000], Instant::ZERO).unwrap();
    give(&mut session, &Record::Reset(Refusal { code: 9, reason: "enough".to_owned() })).unwrap();
    let records = sent(&mut session, Instant::from_millis(1));
    assert!(!records.iter().any(|r| matches!(r, Record::Data(_))), "{} records", records.len());
    // What comes after a reset, such as another one, is of no interest.
    give(&mut session, &Record::Reset(Refusal::default())).unwrap();
    let resets = std::iter::from_fn(|| session.poll_event());
    assert_eq!(resets.filter(|event| matches!(event, Event::Reset(..))).count(), 1);
}

#[test]
fn a_probe_is_a_ping_ahead_of_time_and_only_one() {
    let is_ping = |record: &Record| matches!(record, Record::Ping(_));
    let mut session = session();
    assert!(sent(&mut session, Instant::from_millis(1)).iter().any(is_ping));
    let now = Instant::from_millis(2);
    session.probe(PEER, now);
    assert!(!sent(&mut session, now).iter().any(is_ping), "the first is not answered yet");
    give(&mut session, &Record::Pong(0)).unwrap();
    assert!(!sent(&mut session, now).iter().any(is_ping), "the next is not due");
    session.probe(PEER, now);
    assert!(std::iter::from_fn(|| session.poll_wake()).any(|id| id == PEER));
    assert!(sent(&mut session, now).iter().any(is_ping));
}

/// A path that carried a repair and then nothing has the repair's round-trip time for as long as
/// that keeps it from being used.
#[test]
fn a_path_turned_down_by_an_old_round_trip_time_is_pinged_and_used() {
    let mut session = session();
    let other = SubflowId(1);
    session.subflow_up(other, PathId(1), Instant::ZERO).unwrap();
    let info = |srtt, min_rtt| PathInfo {
        srtt: ms(srtt),
        min_rtt: ms(min_rtt),
        cwnd: ByteCount::kib(100),
        delivery_rate: crate::Bitrate::mbps(10),
        ..PathInfo::default()
    };
    let credit = Ack { credit: 1 << 20, ..Ack::default() };
    give(&mut session, &Record::Ack(credit)).unwrap();
    // The pings of new subflows.
    let first = sent(&mut session, Instant::ZERO);
    let ping = |records: &[Record]| {
        records.iter().find_map(|r| if let Record::Ping(n) = r { Some(*n) } else { None })
    };
    let pong = |session: &mut Session, number, at| {
        let mut input = BytesMut::new();
        Record::Pong(number).encode(&mut input);
        session.handle_input(PEER, &mut input, at).unwrap();
    };
    pong(&mut session, ping(&first).expect("a ping of a new subflow"), Instant::ZERO + ms(900));
    session.handle_path_info(PEER, info(400, 20));
    session.handle_path_info(other, info(60, 60));
    let mut now = Instant::from_millis(3000);
    session.write(&[1; 1000], now).unwrap();
    assert_eq!(sent(&mut session, now), [], "the other path would be sooner");
    assert!(std::iter::from_fn(|| session.poll_wake()).any(|id| id == PEER));
    let number = ping(&sent(&mut session, now)).expect("a ping ahead of its time");
    assert_eq!(sent(&mut session, now), [], "one is enough");
    now += ms(21);
    pong(&mut session, number, now);
    assert!(std::iter::from_fn(|| session.poll_wake()).any(|id| id == PEER));
    let records = sent(&mut session, now);
    assert!(records.iter().any(|r| matches!(r, Record::Data(_))), "{records:?}");
}

#[test]
fn misuse_is_an_error_and_changes_nothing() {
    let now = Instant::ZERO;
    let mut session = Session::new(&SessionConfig::default(), now);
    session.subflow_up(PEER, PathId(0), now).unwrap();
    let large = VARINT_MAX + 1;
    for (subflow, path) in [(large, 1), (1, large)] {
        let refused = session.subflow_up(SubflowId(subflow), PathId(path), now);
        assert_eq!(refused, Err(Misuse::NumberTooLarge(large)));
    }
    assert_eq!(session.subflow_up(PEER, PathId(1), now), Err(Misuse::SubflowInUse(PEER.0)));
    assert_eq!(session.consume(1, now), Err(Misuse::ConsumedTooMuch { asked: 1, there: 0 }));
    assert_eq!(session.write(b"in time", now), Ok(7));
    session.finish(now);
    assert_eq!(session.write(b"late", now), Err(Misuse::Finished));
    assert_eq!(session.reserve(now).err(), Some(Misuse::Finished));
    assert_eq!(session.commit(BytesMut::new(), now), Ok(0), "empty memory comes back");
    assert_eq!(session.commit(BytesMut::from(&b"late"[..]), now), Err(Misuse::Finished));
    assert_eq!(session.send_held(), 7);
    let messages = Some(MessageLimits { longest_sent: 100, longest_received: 100 });
    let mut session = Session::new(&SessionConfig { messages, ..SessionConfig::default() }, now);
    assert_eq!(session.write(b"a stream", now), Err(Misuse::CarriesMessages));
    assert_eq!(session.reserve(now).err(), Some(Misuse::CarriesMessages));
}

/// A record of one byte on its way takes a hundred times as much memory as the byte.
#[test]
fn what_is_known_of_small_records_counts_as_memory() {
    let now = Instant::ZERO;
    let memory = ByteCount::kib(256);
    let mut session =
        Session::new(&SessionConfig { max_memory: memory, ..SessionConfig::default() }, now);
    session.subflow_up(PEER, PathId(0), now).unwrap();
    let mut records = 0;
    while session.write(&[7], now).unwrap() == 1 {
        session.handle_room(PEER, 1 << 20);
        assert!(session.poll_transmit(PEER, &mut VecDeque::new(), now) > 0);
        records += 1;
        assert!(records < 10_000, "{} bytes are taken", session.send_memory());
    }
    assert!(records > 1000, "{records}");
    // The note of the last one comes on top.
    assert!(session.send_memory() < memory.as_u64() + 150, "{}", session.send_memory());
}

#[test]
fn a_peer_that_pings_and_does_not_read_costs_no_memory() {
    let mut session = session();
    for number in 0..100 {
        give(&mut session, &Record::Ping(number)).unwrap();
    }
    let records = sent(&mut session, Instant::from_millis(2));
    let pongs = records.iter().filter(|record| matches!(record, Record::Pong(_))).count();
    assert_eq!(pongs, input::MAX_PONGS);
}
