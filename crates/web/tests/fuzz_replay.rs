//! Replays the corpus of the fuzz target `pages`, and random scripts, on stable Rust.

use proptest::prelude::*;
use weftline_web::fuzz::pages;

#[test]
fn the_corpus() {
    let folder = format!("{}/../../fuzz/corpus/pages", env!("CARGO_MANIFEST_DIR"));
    let files = std::fs::read_dir(&folder).expect("the corpus is in the tree");
    let run = files
        .map(|file| pages(&std::fs::read(file.expect("listed").path()).expect("readable")))
        .count();
    assert!(run > 0, "{folder} is empty");
}

/// A message of a page: mostly one of those that there are, of about the right length.
fn message() -> impl Strategy<Value = Vec<u8>> {
    let small = prop_oneof![3 => Just(0_u8), 1 => any::<u8>()];
    let pose = prop::collection::vec(small.clone(), 20);
    let poses = prop::collection::vec(pose, 0..4)
        .prop_map(|poses| [&[48, poses.len() as u8][..], &poses.concat()].concat());
    let counts = prop::collection::vec(small.clone(), 8);
    let tiles = prop::collection::vec((small.clone(), small.clone(), small.clone()), 4);
    let shown = (0_u8..8, counts, tiles).prop_map(|(gop, counts, tiles)| {
        let tiles: Vec<_> =
            tiles.into_iter().flat_map(|(had, qp, missed)| [had, qp, 0, missed]).collect();
        let (lead, count) = ([0; 4], [0, 4]);
        [&[49, 0, 0, 0, gop][..], &counts, &lead, &count, &tiles].concat()
    });
    let other = (any::<u8>(), prop::collection::vec(small, 0..12))
        .prop_map(|(kind, rest)| [&[kind][..], &rest].concat());
    // Of what the program shows this is sound.
    let sound = Just(vec![0xff, 7]);
    prop_oneof![3 => poses, 4 => shown, 2 => other, 1 => Just(vec![51]), 1 => sound]
}

fn step() -> impl Strategy<Value = Vec<u8>> {
    (any::<u8>(), message())
        .prop_map(|(step, message)| [&[step, message.len() as u8][..], &message].concat())
}

proptest! {
    #[test]
    fn any_script(steps in prop::collection::vec(step(), 0..120)) {
        // A page comes, and a GoP begins.
        pages(&[&[0, 0, 2, 0][..], &steps.concat()].concat());
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        pages(&bytes);
    }
}
