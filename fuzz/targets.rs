//! What the fuzz targets do with their input. `cargo test` replays the corpus through the same
//! functions (crates/core/tests/fuzz_replay.rs).

use std::collections::VecDeque;

use bytes::BytesMut;
use weftline_core::path::{PathId, SubflowId};
use weftline_core::session::{MessageId, MessageLimits, MessageOptions};
use weftline_core::wire::{Preamble, Record};
use weftline_core::{Instant, Session, SessionConfig};

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

/// As [`session`], of messages: the session sends some, with and without deadlines, cancels some,
/// and takes what comes.
pub fn messages(bytes: &[u8]) {
    let limits = MessageLimits { longest_sent: 1 << 20, longest_received: 1 << 20 };
    let config = SessionConfig {
        messages: Some(limits),
        max_memory: weftline_core::ByteCount::mib(4),
        ..SessionConfig::default()
    };
    let mut session = Session::new(&config, Instant::ZERO);
    let mut inputs = [BytesMut::new(), BytesMut::new()];
    for id in 0..2 {
        session.subflow_up(SubflowId(id), PathId(id), Instant::ZERO);
    }
    let mut rest = bytes;
    let mut now = Instant::ZERO;
    let mut last = MessageId(0);
    while let Some((&op, after)) = rest.split_first() {
        let (piece, after) = after.split_at(after.len().min(usize::from(op >> 2)));
        rest = after;
        now += std::time::Duration::from_millis(u64::from(op & 3) * 7);
        let id = usize::from(op & 1);
        inputs[id].extend_from_slice(piece);
        if session.handle_input(SubflowId(id as u64), &mut inputs[id], now).is_err() {
            return;
        }
        let deadline = (op & 4 != 0).then(|| now + std::time::Duration::from_millis(20));
        let options = MessageOptions { deadline, tag: u64::from(op) };
        let payload = bytes::Bytes::copy_from_slice(piece);
        if op & 8 != 0 {
            session.cancel_message(last, now);
        }
        last = session.send_message(payload, options, now).unwrap_or(last);
        if op & 16 != 0 {
            let _ = session.poll_message(now);
        }
        session.handle_timeout(now);
        let mut out = VecDeque::new();
        let _ = session.poll_transmit(SubflowId(id as u64), 1 << 14, &mut out, now);
        while session.poll_event().is_some() || session.poll_wake().is_some() {}
        while session.poll_fate().is_some() {}
        assert!(session.stats().receive_memory.as_u64() <= 5 << 20, "memory is bounded");
    }
}

/// A session that sends and receives survives any bytes from its peer. The first byte of every
/// piece of input says how much follows and what the session does in between.
pub fn session(bytes: &[u8]) {
    let mut session = Session::new(&SessionConfig::default(), Instant::ZERO);
    let mut inputs = [BytesMut::new(), BytesMut::new()];
    for id in 0..2 {
        session.subflow_up(SubflowId(id), PathId(id), Instant::ZERO);
    }
    let mut rest = bytes;
    let mut now = Instant::ZERO;
    while let Some((&op, after)) = rest.split_first() {
        let (piece, after) = after.split_at(after.len().min(usize::from(op >> 2)));
        rest = after;
        now += std::time::Duration::from_millis(u64::from(op & 3) * 7);
        let id = usize::from(op & 1);
        inputs[id].extend_from_slice(piece);
        if session.handle_input(SubflowId(id as u64), &mut inputs[id], now).is_err() {
            return;
        }
        let _ = session.write(piece, now);
        let readable = session.read_chunk().len();
        session.consume(readable, now);
        session.handle_timeout(now);
        let mut out = VecDeque::new();
        let _ = session.poll_transmit(SubflowId(id as u64), 1 << 14, &mut out, now);
        while session.poll_event().is_some() || session.poll_wake().is_some() {}
        assert!(session.stats().receive_memory.as_u64() <= 300 << 20, "memory is bounded");
    }
}
