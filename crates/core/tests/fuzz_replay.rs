//! Replays the fuzz targets' corpus, and random input, on stable Rust.
#![expect(unreachable_pub, reason = "the targets are shared with the fuzz crate")]

#[path = "../../../fuzz/targets.rs"]
mod targets;

use proptest::prelude::*;

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

proptest! {
    #[test]
    fn sessions_survive_any_input(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        targets::session(&bytes);
    }
}
