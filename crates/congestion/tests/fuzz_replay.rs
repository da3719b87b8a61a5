//! Replays the corpus of the fuzz target of lanes, and random input, on stable Rust.
#![expect(unreachable_pub, reason = "the target is shared with the fuzz crate")]

#[path = "../../../fuzz/lanes.rs"]
mod target;

use proptest::prelude::*;

#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads its corpus")]
fn the_lanes_corpus() {
    let folder = format!("{}/../../fuzz/corpus/lanes", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect("the corpus is in the tree");
    let run = files
        .map(|file| target::lanes(&std::fs::read(file.expect("listed").path()).expect("readable")))
        .count();
    assert!(run > 0, "{folder} is empty");
}

proptest! {
    #[test]
    fn lanes_survive_any_input(bytes in prop::collection::vec(any::<u8>(), 0..1000)) {
        target::lanes(&bytes);
    }

    /// Frames whose kinds there are.
    #[test]
    fn lanes_survive_any_frames(
        frames in prop::collection::vec(
            (any::<u8>(), 0_usize..7, prop::collection::vec(any::<u8>(), 0..60)),
            1..60,
        ),
    ) {
        let mut input = Vec::new();
        for (how, kind, rest) in frames {
            input.extend([how, rest.len() as u8 + 1, [0x10, 0x11, 0x12, 2, 2, 3, 4][kind]]);
            input.extend(rest);
        }
        target::lanes(&input);
    }
}
