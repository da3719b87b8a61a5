//! Replays the corpus of the fuzz target `tunnel`, and random input, on stable Rust.
#![expect(unreachable_pub, reason = "the target is shared with the fuzz crate")]

#[path = "../../../fuzz/tunnel.rs"]
mod target;

use proptest::prelude::*;

#[test]
fn the_corpus() {
    let folder = format!("{}/../../fuzz/corpus/tunnel", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect("the corpus is in the tree");
    let run = files
        .map(|file| target::tunnel(&std::fs::read(file.expect("listed").path()).expect("readable")))
        .count();
    assert!(run > 0, "{folder} is empty");
}

/// Those of handshakes, and others.
fn lengths() -> impl Strategy<Value = usize> {
    prop_oneof![Just(141_usize), Just(73), 0..200_usize]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        target::tunnel(&bytes);
    }

    /// What begins as ours does, and is as long.
    #[test]
    fn any_datagrams(
        said in prop::collection::vec((1_u8..5, any::<bool>(), lengths(), any::<u8>()), 1..8),
    ) {
        let mut input = vec![0];
        for (kind, right_mac, length, fill) in said {
            input.extend([if right_mac { 0x80 } else { 0 }, length as u8, 1]);
            let mut datagram = vec![fill; length];
            for byte in datagram.iter_mut().take(5) {
                *byte = 0;
            }
            if let Some(first) = datagram.first_mut() {
                *first = kind;
            }
            input.extend(datagram);
        }
        target::tunnel(&input);
    }
}
