//! Replays the corpus of the fuzz target `coding`, and random packets, on stable Rust.
#![cfg(not(miri))]
#![expect(unreachable_pub, reason = "the target is shared with the fuzz crate")]

#[path = "../../../fuzz/coding.rs"]
mod target;

use proptest::prelude::*;
use weftline_coding::wire::{Header, Packet, Priority};
use weftline_coding::{Arrival, Coding, Label};

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads its corpus")]
fn the_corpus() {
    let folder = format!("{}/../../fuzz/corpus/coding", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect("the corpus is in the tree");
    let run = files
        .map(|file| target::coding(&std::fs::read(file.expect("listed").path()).expect("readable")))
        .count();
    assert!(run > 0, "{folder} is empty");
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        target::coding(&bytes);
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
