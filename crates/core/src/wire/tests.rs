use std::net::{IpAddr, SocketAddr};

use bytes::{Bytes, BytesMut};
use proptest::prelude::*;

use super::*;
use crate::Bitrate;
use crate::policy::{PathPolicy, Role};
use crate::scheduler::RulesOff;

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..100, 0u64..70_000, 0..=VARINT_MAX]
}

fn name() -> impl Strategy<Value = String> {
    "[a-z0-9:-]{0,20}"
}

fn refusal() -> impl Strategy<Value = Refusal> {
    (number(), name()).prop_map(|(code, reason)| Refusal { code, reason })
}

fn ack() -> impl Strategy<Value = Ack> {
    let ranges = proptest::collection::vec((1u64..1 << 30, 1u64..1 << 30), 0..8);
    let subflow_acks = proptest::collection::vec((number(), number()), 0..4);
    (0u64..1 << 40, number(), any::<bool>(), ranges, subflow_acks, number()).prop_map(
        |(in_order, credit, fin, gaps, subflow_acks, taken)| {
            let mut at = in_order;
            let ranges = gaps
                .into_iter()
                .map(|(gap, len)| {
                    let range = at + gap..at + gap + len;
                    at = range.end;
                    range
                })
                .collect();
            let subflow_acks = subflow_acks
                .into_iter()
                .map(|(subflow, received)| SubflowAck { subflow, received });
            Ack { in_order, credit, fin, ranges, subflow_acks: subflow_acks.collect(), taken }
        },
    )
}

fn note() -> impl Strategy<Value = PolicyNote> {
    let roles = vec![Role::Active, Role::Backup, Role::Metered, Role::Retired];
    let cap = proptest::option::of((1000u64..1_000_000_000_000).prop_map(Bitrate::bps));
    (number(), proptest::sample::select(roles), cap)
        .prop_map(|(revision, role, cap)| PolicyNote { revision, policy: PathPolicy { role, cap } })
}

fn hello() -> impl Strategy<Value = Hello> {
    let first = (number(), number(), name(), name(), name(), number(), number(), any::<Vec<u8>>());
    let last = (number(), number(), any::<[u8; 16]>(), any::<u64>());
    (first, note(), any::<[u8; 16]>(), last).prop_map(|(first, policy, group, last)| {
        let (messages, latency_us, nonce, without) = last;
        let (subflow, path, path_name, scheduler, congestion, window, forward_pin, token) = first;
        Hello {
            subflow,
            path,
            path_name,
            scheduler,
            congestion,
            window,
            forward_pin,
            token: Bytes::from(token),
            policy,
            group,
            messages,
            latency_us,
            nonce: HelloNonce(nonce),
            without: RulesOff::from_bits(without),
        }
    })
}

/// As they are once read: an IPv4 address in IPv6 clothes is taken for what it is.
fn join_addresses() -> impl Strategy<Value = Vec<SocketAddr>> {
    let address =
        any::<(IpAddr, u16)>().prop_map(|(ip, port)| SocketAddr::new(ip.to_canonical(), port));
    proptest::collection::vec(address, 0..=MAX_JOIN_ADDRESSES)
}

fn header() -> impl Strategy<Value = MessageHeader> {
    (0u64..1 << 60, 1u64..1 << 60, number()).prop_map(|(offset, len, tag)| MessageHeader {
        offset,
        len,
        tag,
    })
}

fn cancel() -> impl Strategy<Value = Cancel> {
    (number(), number(), any::<bool>(), header()).prop_map(|(a, b, expired, message)| Cancel {
        number: a.max(b),
        oldest: a.min(b),
        expired,
        message,
    })
}

fn record() -> impl Strategy<Value = Record> {
    let payload = proptest::collection::vec(any::<u8>(), 0..2000);
    let first = (any::<[u8; 16]>(), number(), number(), name(), any::<[u8; 32]>());
    let join = (first, note(), proptest::option::of(name())).prop_map(
        |((session, subflow, path, path_name, proof), policy, congestion)| Join {
            session,
            subflow,
            path,
            path_name,
            proof,
            policy,
            congestion,
        },
    );
    let change =
        (number(), note()).prop_map(|(path, note)| Record::PathPolicy(PolicyChange { path, note }));
    let reply = (any::<([u8; 16], [u8; 32])>(), number(), join_addresses()).prop_map(
        |((session, join_secret), messages, join_addresses)| HelloReply {
            session,
            join_secret,
            messages,
            join_addresses,
        },
    );
    prop_oneof![
        ack().prop_map(Record::Ack),
        header().prop_map(Record::Message),
        cancel().prop_map(Record::Cancel),
        (number(), any::<bool>()).prop_map(|(number, delivered)| Record::DeliveryStatus(
            DeliveryStatus { number, delivered }
        )),
        number().prop_map(Record::CreditWish),
        (0u64..1 << 60, payload)
            .prop_map(|(offset, p)| Record::Data(Data { offset, payload: Bytes::from(p) })),
        number().prop_map(Record::Fin),
        hello().prop_map(Record::Hello),
        reply.prop_map(Record::HelloReply),
        join.prop_map(Record::Join),
        Just(Record::JoinReply(JoinReply {})),
        change,
        number().prop_map(Record::Ping),
        number().prop_map(Record::Pong),
        refusal().prop_map(Record::Refusal),
        refusal().prop_map(Record::Reset),
    ]
}

proptest! {
    /// Records read back as written, however the bytes are cut on the way.
    #[test]
    fn records_survive_any_segmentation(records in proptest::collection::vec(record(), 1..6),
                                        cut in 1usize..3000) {
        let mut sent = BytesMut::new();
        for record in &records {
            if let Record::Data(data) = record {
                data_header(&mut sent, data.offset, data.payload.len() as u64);
                sent.extend_from_slice(&data.payload);
            } else {
                record.encode(&mut sent);
            }
        }
        let mut received = Vec::new();
        let mut input = BytesMut::new();
        for piece in sent.chunks(cut) {
            input.extend_from_slice(piece);
            while let Some(record) = Record::decode(&mut input).unwrap() {
                received.push(record);
            }
        }
        prop_assert!(input.is_empty());
        prop_assert_eq!(received, records);
    }

    /// Any bytes give records, "incomplete" or an error; what is read again writes the same.
    #[test]
    fn decoding_is_total(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        replay(&bytes);
    }

    /// As above for bytes that are nearly right.
    #[test]
    fn decoding_survives_mutations(record in record(), at in any::<prop::sample::Index>(), with in any::<u8>()) {
        let mut bytes = BytesMut::new();
        record.encode(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = with;
        replay(&bytes);
    }
}

/// Decodes everything in `bytes` and checks that decoded records encode and decode to themselves.
fn replay(bytes: &[u8]) {
    let mut input = BytesMut::from(bytes);
    let _ = Preamble::decode(&mut input.clone());
    while let Ok(Some(record)) = Record::decode(&mut input) {
        let mut again = BytesMut::new();
        record.encode(&mut again);
        assert_eq!(Record::decode(&mut again), Ok(Some(record)));
    }
}

#[test]
fn other_protocols_and_versions_are_named() {
    let refused = |bytes: &[u8]| Preamble::decode(&mut BytesMut::from(bytes)).unwrap_err();
    assert_eq!(
        refused(b"GET / HTTP/1.1\r\n").to_string(),
        "the peer does not speak weftline (it began with \"GET / HTTP/1.1\\r\\n\"); check address and port"
    );
    assert_eq!(refused(b"WEFT\x09\x02"), WireError::Version(9, 2));
    assert_eq!(Preamble::decode(&mut BytesMut::from(&b"WEF"[..])), Ok(None));
    let mut ours = BytesMut::from(&Preamble::OURS.encode()[..]);
    assert_eq!(Preamble::decode(&mut ours), Ok(Some(Preamble::OURS)));
}

#[test]
fn long_and_unknown_records() {
    let decode = |bytes: &[u8]| Record::decode(&mut BytesMut::from(bytes));
    // A data record announcing 1 MiB is refused from its header alone.
    assert_eq!(
        decode(&[0x10, 0x80, 0x10, 0, 0]),
        Err(WireError::TooLong { kind: 0x10, len: 1 << 20, max: MAX_BODY })
    );
    // Optional type 0x23 is skipped, the ping behind it is read.
    assert_eq!(decode(&[0x23, 2, 9, 9, 0x18, 1, 7]), Ok(Some(Record::Ping(7))));
    assert_eq!(decode(&[0x3e, 0]), Err(WireError::UnknownCritical(0x3e)));
    assert_eq!(decode(&[0x12, 1, 0]), Err(WireError::Malformed("ack")));
}

/// A peer of version 1.0 ends hello and join before what 1.1 adds.
#[test]
fn records_of_version_1_0_are_understood() {
    let hello = Hello { path: 3, token: Bytes::from_static(b"proof"), ..Hello::default() };
    let join = Join { path: 3, proof: [7; 32], ..Join::default() };
    for (record, added) in [(Record::Hello(hello), 3 + 16), (Record::Join(join), 3)] {
        let mut whole = BytesMut::new();
        record.encode(&mut whole);
        // Type, length (one or two bytes), body: written anew without the added end.
        let header = if whole[1] < 0x40 { 2 } else { 3 };
        let body = &whole[header..whole.len() - added];
        let mut old = BytesMut::from(&whole[..1]);
        varint::put(&mut old, body.len() as u64);
        old.extend_from_slice(body);
        assert_eq!(Record::decode(&mut old), Ok(Some(record)));
    }
}

/// The answer to a hello, with `end` behind the number and the secret.
fn hello_reply(end: &[u8]) -> Result<Option<Record>, WireError> {
    let body = [&[1; 16][..], &[2; 32], end].concat();
    let mut record = BytesMut::from(&[0x02][..]);
    varint::put_bytes(&mut record, &body);
    Record::decode(&mut record)
}

#[test]
fn join_addresses_follow_the_longest_message() {
    let reply = |messages, addresses: &[&str]| {
        let join_addresses = addresses.iter().map(|text| text.parse().unwrap()).collect();
        let (session, join_secret) = ([1; 16], [2; 32]);
        Record::HelloReply(HelloReply { session, join_secret, messages, join_addresses })
    };
    let v4 = [6, 192, 0, 2, 1, 0x1b, 0x58];
    let v6 = [&[18, 0x20, 1, 0x0d, 0xb8][..], &[0; 11], &[1, 0x01, 0xbb]].concat();
    for (end, record) in [
        // Servers of version 1.2 and older say nothing, or the longest message.
        (vec![], reply(0, &[])),
        (vec![9], reply(9, &[])),
        ([&[0, 1][..], &v4].concat(), reply(0, &["192.0.2.1:7000"])),
        ([&[9, 2][..], &v6, &v4].concat(), reply(9, &["[2001:db8::1]:443", "192.0.2.1:7000"])),
    ] {
        let mut written = BytesMut::new();
        record.encode(&mut written);
        assert!(written.ends_with(&[&[2; 32][..], &end].concat()), "{record:?}: {written:x?}");
        assert_eq!(hello_reply(&end), Ok(Some(record)));
    }
    // What a later version may add is no business of this one.
    let more = [&[0, 1][..], &v4, b"more"].concat();
    assert_eq!(hello_reply(&more), Ok(Some(reply(0, &["192.0.2.1:7000"]))));
    let malformed = Err(WireError::Malformed("hello reply"));
    for (end, what) in [
        ([&[0, 5][..], &v4.repeat(5)].concat(), "five addresses"),
        (vec![0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff], "more than there can be"),
        ([&[0, 2][..], &v4].concat(), "one that is missing"),
        (vec![0, 1, 6, 192, 0, 2, 1, 0x1b], "one cut short"),
        (vec![0, 1, 7, 192, 0, 2, 1, 0x1b, 0x58, 0], "one of no family"),
        (vec![0, 1, 0], "an empty one"),
    ] {
        assert_eq!(hello_reply(&end), malformed, "{what}");
    }
}

#[test]
fn policies_out_of_range_are_malformed() {
    let body = |role: u8, cap: &[u8]| [&[0x31, 3 + cap.len() as u8, 1, 0, role][..], cap].concat();
    let read = |bytes: Vec<u8>| Record::decode(&mut BytesMut::from(&bytes[..]));
    assert!(matches!(read(body(2, &[0])), Ok(Some(Record::PathPolicy(_)))));
    let malformed = Err(WireError::Malformed("path policy"));
    assert_eq!(read(body(4, &[0])), malformed, "an unknown role");
    assert_eq!(read(body(0, &[1])), malformed, "one bit per second");
    assert_eq!(read(body(0, &[0xff; 8])), malformed, "more than any path has");
}
