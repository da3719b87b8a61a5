//! Replays the fuzz targets' corpus, and random input, on stable Rust.
#![expect(unreachable_pub, reason = "the targets are shared with the fuzz crate")]

#[path = "../../../fuzz/targets.rs"]
mod targets;

use bytes::BytesMut;
use proptest::prelude::*;
use weftline_core::wire::{
    Ack, Cancel, Data, DeliveryStatus, Hello, MessageHeader, Preamble, Record,
};

/// Runs `target` over its corpus; returns how many files it has.
#[expect(clippy::disallowed_methods, reason = "a test reads its corpus")]
fn replay(name: &str, target: fn(&[u8])) {
    let folder = format!("{}/../../fuzz/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect("the corpus is in the tree");
    let run = files
        .map(|file| target(&std::fs::read(file.expect("listed").path()).expect("readable")))
        .count();
    assert!(run > 0, "{folder} is empty");
}

#[test]
fn the_wire_corpus() {
    replay("wire", targets::wire);
}

#[test]
fn the_session_corpus() {
    replay("session", targets::session);
}

#[test]
fn the_messages_corpus() {
    replay("messages", targets::messages);
}

#[test]
fn the_handshake_corpus() {
    replay("handshake", targets::handshake);
}

#[test]
fn the_policy_corpus() {
    replay("policy", targets::policy);
}

proptest! {
    #[test]
    fn sessions_of_messages_survive_any_input(
        bytes in proptest::collection::vec(any::<u8>(), 0..2000),
    ) {
        targets::messages(&bytes);
    }

    /// Records that are right by themselves and wrong together, in pieces of any size.
    #[test]
    fn sessions_of_messages_survive_any_records(
        records in proptest::collection::vec(
            (0u8..5, 0u64..40, 1u64..30, 0u64..4, any::<bool>(), 0u8..64), 1..60),
    ) {
        targets::messages(&written(&records));
    }

    #[test]
    fn sessions_survive_any_input(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        targets::session(&bytes);
        targets::policy(&bytes);
    }

    /// What an unknown peer says is the same in whatever pieces it comes.
    #[test]
    fn any_hello_is_heard(
        piece in 0u8..80,
        lead in proptest::collection::vec(any::<u8>(), 0..20),
        names in proptest::collection::vec("[a-z]{0,80}", 3),
        numbers in proptest::array::uniform5(any::<u64>()),
        cut in 0usize..400,
    ) {
        let [subflow, path, window, forward_pin, latency_us] = numbers.map(|n| n >> 2);
        let [path_name, scheduler, congestion] = names.try_into().expect("three");
        let scheduler = if cut % 2 == 0 { "fbdt".to_owned() } else { scheduler };
        let hello = Hello {
            subflow,
            path,
            path_name,
            scheduler,
            congestion,
            window,
            forward_pin,
            latency_us,
            ..Hello::default()
        };
        let mut record = BytesMut::new();
        Record::Hello(hello).encode(&mut record);
        // An optional record may come before it.
        let optional = [&[0x3f, lead.len() as u8], &lead[..]].concat();
        let preamble = Preamble::OURS.encode();
        let said = [&[piece], &preamble[..], &optional, &record].concat();
        targets::handshake(&said);
        targets::handshake(&said[..said.len().min(cut)]);
    }
}

/// Input of the target `messages` that holds records about a few messages.
fn written(records: &[(u8, u64, u64, u64, bool, u8)]) -> Vec<u8> {
    let mut input = Vec::new();
    for &(kind, offset, len, number, flag, op) in records {
        let message = MessageHeader { offset, len, tag: number };
        let record = match kind {
            0 => Record::Message(message),
            1 => Record::Cancel(Cancel { number, oldest: 0, expired: flag, message }),
            2 => Record::DeliveryStatus(DeliveryStatus { number, delivered: flag }),
            3 => Record::Ack(Ack { in_order: offset, taken: number, ..Ack::default() }),
            _ => Record::Data(Data { offset, payload: vec![number as u8; len as usize].into() }),
        };
        let mut bytes = BytesMut::new();
        record.encode(&mut bytes);
        // Two bits of time, the subflow and so on, and the length of the piece.
        input.push((bytes.len() as u8) << 2 | op & 3);
        input.extend_from_slice(&bytes);
    }
    input
}
