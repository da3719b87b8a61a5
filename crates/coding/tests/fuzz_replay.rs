//! Replays the corpora of the fuzz targets `coding` and `nodes`, and random packets and operations,
//! on stable Rust.
#![cfg(not(miri))]
#![expect(unreachable_pub, reason = "the target is shared with the fuzz crate")]

#[path = "../../../fuzz/nodes.rs"]
mod nodes;
#[path = "../../../fuzz/coding.rs"]
mod target;

use proptest::prelude::*;
use weftline_coding::wire::{Header, Packet, Priority};
use weftline_coding::{Arrival, Coding, Label};

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
fn the_corpora() {
    replay("coding", target::coding);
    replay("nodes", nodes::nodes);
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        target::coding(&bytes);
    }

    #[test]
    fn any_operations(
        setting: u8,
        // Raw packets, seconds and other gateways are rare.
        ops in proptest::collection::vec((0_u8..60, any::<u8>()), 0..600),
    ) {
        let ops = ops.into_iter().flat_map(|(op, arg)| match op {
            0..12 => [1, arg],
            12..26 => [2, arg],
            26..36 => [4, arg],
            36..44 => [6 | arg & 0x10, arg & 7],
            44..54 => [8 | arg & 0x10, arg & 7],
            54..58 => [0, arg & 15],
            op => [15 - (op & 1), arg & 3],
        });
        nodes::nodes(&std::iter::once(setting).chain(ops).collect::<Vec<_>>());
    }

    /// Packets that are right by themselves and contradict each other.
    #[test]
    fn any_packets(
        packets in proptest::collection::vec(
            (0_u8..4, 0_u8..14, any::<u32>(), proptest::collection::vec(0_u8..4, 2..64)), 1..40),
    ) {
        let mut input = Vec::new();
        for (kind, size, seed, payload) in &packets {
            let coding = match kind {
                0 | 1 => Coding::Systematic((seed % 13) as u8),
                2 => Coding::Seed(*seed),
                _ => Coding::Vector(&payload[..payload.len().min(usize::from(*size))]),
            };
            let size = match coding {
                Coding::Vector(vector) => vector.len() as u8,
                _ => *size,
            };
            let header = Header {
                label: Label(*seed),
                priority: Priority::High,
                flow: 1,
                generation: 0,
                size,
                cohort_packets: 0,
                first: Arrival(*seed),
                tag: [0; 4],
                coding,
            };
            let mut bytes = Vec::new();
            Packet::Coded { header, payload }.encode(&mut bytes);
            input.push(bytes.len() as u8);
            input.extend_from_slice(&bytes);
        }
        target::coding(&input);
    }
}
