//! What the fuzz targets of the core do with their input. `cargo test` replays the corpus through
//! the same functions (crates/core/tests/fuzz_replay.rs).

#![allow(dead_code, reason = "each target is a program of its own")]

use std::collections::VecDeque;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use weftline_core::path::{PathId, SubflowId};
use weftline_core::policy::{PathPolicy, Role};
use weftline_core::scheduler::Entry;
use weftline_core::session::{MessageId, MessageLimits, MessageOptions};
use weftline_core::wire::{
    Hello, MAX_JOIN_ADDRESSES, PolicyNote, Preamble, Preface, Record, WireError, check_join_address,
};
use weftline_core::{Bitrate, ByteCount, Instant, RateCap, Session, SessionConfig};

/// Any bytes decode to records, "incomplete" or an error; a record encodes to what decodes to it.
pub fn wire(bytes: &[u8]) {
    let mut input = BytesMut::from(bytes);
    let _ = Preamble::decode(&mut input.clone());
    while let Ok(Some(record)) = Record::decode(&mut input) {
        let mut again = BytesMut::new();
        record.encode(&mut again);
        assert_eq!(Record::decode(&mut again), Ok(Some(record)));
    }
}

/// Whatever an unknown peer says first, in pieces of whatever size (the first byte), is a hello or
/// join, another record, "more, please" or an error, and the same whatever the pieces. A session
/// that is opened as a hello asks for it runs.
pub fn handshake(bytes: &[u8]) {
    /// What is read at once (crates/transport/src/channel.rs).
    const READ: usize = 1024;
    let Some((&size, said)) = bytes.split_first() else { return };
    let greet = |size: usize| {
        let mut preface = Preface::default();
        for piece in said.chunks(size) {
            preface.take(piece);
            match preface.poll() {
                Ok(None) => {}
                // The error quotes as much as had come.
                Err(WireError::NotWeftline(_)) => {
                    return Some(Err(WireError::NotWeftline(String::new())));
                }
                end => return Some(end),
            }
        }
        None
    };
    let end = greet(READ);
    // A peer that goes on for too long is stopped a piece earlier or later.
    if said.len() <= Preface::MAX_BYTES {
        assert_eq!(end, greet(1 + usize::from(size)));
    } else {
        assert!(end.is_some(), "nobody is listened to for ever");
    }
    match end {
        Some(Ok(Some(Record::Hello(hello)))) => open(&hello),
        Some(Ok(Some(Record::HelloReply(reply)))) => {
            assert!(reply.join_addresses.len() <= MAX_JOIN_ADDRESSES);
            for address in reply.join_addresses {
                // Whatever it is, it can be judged, and what is good without loopback is good with it.
                let strict = check_join_address(address, false);
                assert!(strict.is_err() || check_join_address(address, true).is_ok());
            }
        }
        _ => {}
    }
}

/// Opens a session as `hello` asks for it, and lets it send a little.
fn open(hello: &Hello) {
    let Ok(scheduler) = Entry::find(&hello.scheduler) else { return };
    let config = SessionConfig {
        scheduler,
        scheduler_config: hello.scheduler_config(),
        follow_policy: true,
        ..SessionConfig::default()
    };
    let mut session = Session::new(&config, Instant::ZERO);
    session.set_policy(PathId(hello.path), hello.policy, None, Instant::ZERO);
    session
        .subflow_up(SubflowId(hello.subflow), PathId(hello.path), Instant::ZERO)
        .expect("called in turn");
    let _ = session.write(&[7; 20_000], Instant::ZERO).expect("called in turn");
    let mut out = VecDeque::new();
    session.handle_room(SubflowId(hello.subflow), 1 << 14);
    let _ = session.poll_transmit(SubflowId(hello.subflow), &mut out, Instant::ZERO);
    assert!(out.iter().map(Bytes::len).sum::<usize>() < 1 << 15, "little more than the room");
}

/// One step of [`drive`]: the operation, the bytes that came with it, and the time.
struct Turn<'a> {
    op: u8,
    piece: &'a [u8],
    now: Instant,
}

/// Feeds a session on two subflows. The first byte of every piece of input says how much follows,
/// how much time passes, and, to `act`, what the session does in between.
fn drive(bytes: &[u8], config: &SessionConfig, mut act: impl FnMut(&mut Session, &Turn<'_>)) {
    let most =
        config.max_memory.as_u64() + config.messages.map_or(0, |limits| limits.longest_received);
    let mut session = Session::new(config, Instant::ZERO);
    let mut inputs = [BytesMut::new(), BytesMut::new()];
    for id in 0..2 {
        session.subflow_up(SubflowId(id), PathId(id), Instant::ZERO).expect("called in turn");
    }
    let mut rest = bytes;
    let (mut now, mut turns) = (Instant::ZERO, 0_u32);
    while let Some((&op, after)) = rest.split_first() {
        let (piece, after) = after.split_at(after.len().min(usize::from(op >> 2)));
        rest = after;
        now += Duration::from_millis(u64::from(op & 3) * 7);
        let id = usize::from(op & 1);
        inputs[id].extend_from_slice(piece);
        if session.handle_input(SubflowId(id as u64), &mut inputs[id], now).is_err() {
            return;
        }
        act(&mut session, &Turn { op, piece, now });
        session.handle_timeout(now);
        let mut out = VecDeque::new();
        session.handle_room(SubflowId(id as u64), 1 << 14);
        let _ = session.poll_transmit(SubflowId(id as u64), &mut out, now);
        while session.poll_event().is_some() || session.poll_wake().is_some() {}
        while session.poll_outcome().is_some() {}
        turns += 1;
        if turns % 32 == 0 || rest.is_empty() {
            // The first and the last block may be held for a byte each.
            let held = session.stats().receive_memory.as_u64();
            assert!(held <= most + (128 << 10), "{held} bytes held of {most}");
        }
    }
}

/// A session that sends and receives survives any bytes from its peer.
pub fn session(bytes: &[u8]) {
    drive(bytes, &SessionConfig::default(), |session, turn| {
        let _ = session.write(turn.piece, turn.now).expect("called in turn");
        let readable = session.read_chunk().len();
        session.consume(readable, turn.now).expect("called in turn");
    });
}

/// As [`session`], of messages: the session sends some, with and without deadlines, cancels some,
/// and takes what comes.
pub fn messages(bytes: &[u8]) {
    let limits = MessageLimits { longest_sent: 1 << 20, longest_received: 1 << 20 };
    let config = SessionConfig {
        messages: Some(limits),
        max_memory: ByteCount::mib(4),
        ..SessionConfig::default()
    };
    let mut last = MessageId(0);
    drive(bytes, &config, |session, &Turn { op, piece, now }| {
        let deadline = (op & 4 != 0).then(|| now + Duration::from_millis(20));
        let options = MessageOptions { deadline, tag: u64::from(op) };
        let payload = Bytes::copy_from_slice(piece);
        if op & 8 != 0 {
            session.cancel_message(last, now);
        }
        last = session.send_message(payload, options, now).unwrap_or(last);
        if op & 16 != 0 {
            let _ = session.poll_message(now);
        }
    });
}

/// As [`session`], on paths whose roles and caps both ends change, and that come and go.
pub fn policy(bytes: &[u8]) {
    let config = SessionConfig { follow_policy: true, ..SessionConfig::default() };
    let mut next = 2;
    let mut third = None;
    drive(bytes, &config, |session, &Turn { op, piece, now }| {
        let _ = session.write(piece, now).expect("called in turn");
        let &[role, cap, revision, ..] = piece else { return };
        let path = PathId(u64::from(op & 3));
        if op & 4 != 0 {
            match third.take() {
                Some(id) => session.subflow_down(id, now),
                None => {
                    let id = *third.insert(SubflowId(next));
                    next += 1;
                    session.subflow_up(id, path, now).expect("called in turn");
                }
            }
        }
        let roles = [Role::Active, Role::Metered, Role::Backup, Role::Retired];
        let rate = Bitrate::kbps(1 << (cap % 32));
        let policy =
            PathPolicy { role: roles[usize::from(role % 4)], cap: (cap & 32 != 0).then_some(rate) };
        let note = PolicyNote { revision: u64::from(revision), policy };
        let shared = (cap & 64 != 0).then(|| RateCap::new(rate));
        match op & 8 != 0 {
            true => session.change_policy(path, note, shared, now),
            false => session.set_policy(path, note, shared, now),
        }
        let _ = session.policy(path);
    });
}
