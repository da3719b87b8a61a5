//! Replays the corpus of the fuzz target `probe`, and random datagrams, on stable Rust.
#![expect(unreachable_pub, reason = "the target is shared with the fuzz crate")]

#[path = "../../../fuzz/probe.rs"]
mod target;

use proptest::prelude::*;

#[test]
fn the_corpus() {
    let folder = format!("{}/../../fuzz/corpus/probe", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect("the corpus is in the tree");
    let run = files
        .map(|file| target::probe(&std::fs::read(file.expect("listed").path()).expect("readable")))
        .count();
    assert!(run > 0, "{folder} is empty");
}

proptest! {
    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        target::probe(&bytes);
    }

    /// Datagrams that begin as the probe's do.
    #[test]
    fn any_packets(
        packets in proptest::collection::vec(
            (1_u8..10, any::<u8>(), proptest::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..400)),
            1..20),
    ) {
        let mut input = Vec::new();
        for (kind, pause, body) in packets {
            let mut datagram = vec![b'w', b'p', 1, kind];
            datagram.extend(body);
            input.extend((datagram.len() as u16).to_be_bytes());
            input.push(pause);
            input.extend(datagram);
        }
        target::probe(&input);
    }
}
