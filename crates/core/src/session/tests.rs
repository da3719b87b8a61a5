//! What a session refuses from a peer that breaks the protocol, and how it answers.

mod memory;
mod weave;

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::*;
use crate::ByteCount;
use crate::scheduler::{Assignment, Entry, Scheduler, SchedulerConfig, SendView};
use crate::wire::{Ack, Data, Echo, Hello, INITIAL_CREDIT, Record, VARINT_MAX};

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

#[test]
fn acknowledgements_of_what_was_never_sent() {
    let ack = |in_order, ranges: &[Range<u64>], received| {
        let echoes = vec![Echo { subflow: 0, received }];
        let ranges = ranges.to_vec();
        Record::Ack(Ack { in_order, credit: 1 << 20, ranges, echoes, ..Ack::default() })
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
    assert_eq!(give(&mut session, &ack(0, &[], 5001)), Err(SessionError::EchoOfUnsent(0, 5001)));
    let mut session = with_data();
    let _ = sent(&mut session, Instant::ZERO);
    assert_eq!(give(&mut session, &ack(5000, &[], 5000)), Ok(()));
    assert_eq!(session.stats().acknowledged, 5000);
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
fn a_peer_that_hides_what_has_come_is_refused_before_it_fills_memory() {
    // The stream's bytes are acknowledged, so that they go on; those of the subflow never.
    let refused_after = |echoes: &[Echo]| {
        let config = SessionConfig { chunk: Some((1, 1)), ..SessionConfig::default() };
        let mut session = Session::new(&config, Instant::ZERO);
        session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
        let mut acked = 0;
        while acked < 1 << 20 {
            acked += session.write(&[7; 32 << 10], Instant::from_millis(1)).unwrap() as u64;
            session.handle_room(PEER, 1 << 20);
            let _ = session.poll_transmit(PEER, &mut VecDeque::new(), Instant::ZERO);
            let echoes = echoes.to_vec();
            let ack = Ack { in_order: acked, credit: 1 << 30, echoes, ..Ack::default() };
            if let Err(error) = give(&mut session, &Record::Ack(ack)) {
                assert_eq!(error, SessionError::EchoMissing(0));
                break;
            }
        }
        acked
    };
    let limit = (1 << 18) + (32 << 10);
    assert_eq!(refused_after(&[Echo { subflow: 0, received: 1 }]), limit);
    assert_eq!(refused_after(&[]), limit);
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

/// A scheduler that gives the first kilobyte, and then what cannot be sent.
#[derive(Debug)]
struct Broken(Assignment);

impl Scheduler for Broken {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let begun = !view.unassigned.contains(&(0..1000));
        Some(if begun { self.0.clone() } else { Assignment { subflow: 0, range: 0..1000 } })
    }
}

/// A scheduler with an ordinary bug.
#[derive(Debug)]
struct Panicking;

impl Scheduler for Panicking {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let subflow = view.subflows.len();
        Some(Assignment {
            subflow,
            range: view.silent_range(subflow).unwrap_or(0..view.chunk(subflow)),
        })
    }

    fn window(&self) -> Option<u64> {
        panic!("it has none")
    }
}

/// A scheduler that says more than it can.
#[derive(Debug)]
struct Talking;

impl Scheduler for Talking {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        Some(Assignment { subflow: 0, range: view.next_chunk(0)? })
    }

    fn weighs_round_trips(&self) -> bool {
        panic!("it has no opinion")
    }
}

const fn broken(name: &'static str, make: fn(&SchedulerConfig) -> Box<dyn Scheduler>) -> Entry {
    Entry::new(name, "", make)
}

fn second(subflow: usize, range: Range<u64>) -> Box<dyn Scheduler> {
    Box::new(Broken(Assignment { subflow, range }))
}

#[test]
fn a_scheduler_that_breaks_its_contract_is_named_and_replaced() {
    static FAULTS: [(Entry, &str); 8] = [
        (broken("empty", |_| second(0, 1000..1000)), "is empty"),
        (broken("far", |_| second(0, 9000..9001)), "outside the window"),
        (broken("long", |_| second(0, 1000..5000)), "longer than"),
        (broken("twice", |_| second(0, 0..1000)), "same subflow"),
        (broken("full", |_| second(1, 1000..2000)), "without room"),
        (broken("nobody", |_| second(7, 1000..2000)), "without room"),
        (broken("panics", |_| Box::new(Panicking)), "panicked"),
        (broken("talks", |_| Box::new(Talking)), "panicked"),
    ];
    for (entry, reason) in &FAULTS {
        let config = SessionConfig { scheduler: entry, ..SessionConfig::default() };
        let mut session = Session::new(&config, Instant::ZERO);
        session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
        session.subflow_up(SubflowId(1), PathId(1), Instant::ZERO).unwrap();
        session.write(&[7; 6000], Instant::ZERO).unwrap();
        let mut offset = 0;
        while offset < 6000 {
            let mut out = VecDeque::new();
            session.handle_room(PEER, 3000);
            let _ = session.poll_transmit(PEER, &mut out, Instant::ZERO);
            let mut bytes: BytesMut = out.iter().flatten().copied().collect();
            while let Some(record) = Record::decode(&mut bytes).expect("our own records") {
                if let Record::Data(data) = record {
                    assert_eq!(data.offset, offset, "{}", entry.name);
                    offset += data.payload.len() as u64;
                }
            }
        }
        let faults = std::iter::from_fn(|| session.poll_event());
        let faults = faults.filter_map(|event| match event {
            Event::SchedulerReplaced(fault) => Some(fault.to_string()),
            _ => None,
        });
        let faults: Vec<_> = faults.collect();
        assert!(
            matches!(&faults[..], [one] if one.contains(entry.name) && one.contains(reason)),
            "{faults:?}"
        );
    }
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A scheduler that lets a kilobyte go every 20 ms.
#[derive(Debug)]
struct Paced(Instant);

impl Scheduler for Paced {
    fn pick(&mut self, view: &SendView<'_>) -> Option<Assignment> {
        let range = view.next_unsent().filter(|_| self.0 <= view.now)?;
        self.0 = view.now + ms(20);
        Some(Assignment { subflow: 0, range: range.start..range.end.min(range.start + 1000) })
    }

    fn window(&self) -> Option<u64> {
        Some(u64::MAX)
    }

    fn next_timeout(&self, _: &SendView<'_>) -> Option<Instant> {
        Some(self.0)
    }
}

#[test]
fn a_scheduler_is_asked_again_when_it_said_though_nothing_is_on_its_way() {
    static PACED: Entry = Entry::new("paced", "", |_| Box::new(Paced(Instant::ZERO)));
    let config = SessionConfig { scheduler: &PACED, ..SessionConfig::default() };
    let mut session = Session::new(&config, Instant::ZERO);
    session.subflow_up(PEER, PathId(0), Instant::ZERO).unwrap();
    session.write(&[1; 3000], Instant::ZERO).unwrap();
    let mut now = Instant::ZERO;
    for sent_before in [0, 1000, 2000] {
        session.handle_room(PEER, 50_000);
        let data = sent(&mut session, now);
        let data: Vec<_> = data.iter().filter(|r| matches!(r, Record::Data(_))).collect();
        assert!(matches!(data[..], [Record::Data(data)] if data.offset == sent_before), "{data:?}");
        // It has all arrived.
        let ack = Ack {
            in_order: sent_before + 1000,
            credit: 1 << 20,
            echoes: vec![Echo { subflow: PEER.0, received: sent_before + 1000 }],
            ..Ack::default()
        };
        let mut input = BytesMut::new();
        Record::Ack(ack).encode(&mut input);
        session.handle_input(PEER, &mut input, now + ms(5)).expect("an acknowledgement");
        let _ = std::iter::from_fn(|| session.poll_wake()).count();
        let more = sent(&mut session, now + ms(5));
        assert!(!more.iter().any(|r| matches!(r, Record::Data(_))), "{more:?}");
        if sent_before < 2000 {
            let due = session.poll_timeout(now + ms(5)).expect("it wants to be asked");
            assert!(due <= now + ms(20), "{due}");
            now += ms(20);
            session.handle_timeout(now);
            assert!(std::iter::from_fn(|| session.poll_wake()).any(|id| id == PEER));
        }
    }
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
fn misuse_is_an_error_and_changes_nothing() {
    let now = Instant::ZERO;
    let mut session = Session::new(&SessionConfig::default(), now);
    session.subflow_up(PEER, PathId(0), now).unwrap();
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
fn a_peer_that_pings_and_does_not_read_costs_no_memory() {
    let mut session = session();
    for number in 0..100 {
        give(&mut session, &Record::Ping(number)).unwrap();
    }
    let records = sent(&mut session, Instant::from_millis(2));
    let pongs = records.iter().filter(|record| matches!(record, Record::Pong(_))).count();
    assert_eq!(pongs, input::MAX_PONGS);
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
