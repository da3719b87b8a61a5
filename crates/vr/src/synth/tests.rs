//! Tests of the scenes as a whole.

use ring::digest::{SHA256, digest};

use super::*;

fn synth(name: &str, seed: u64, width: u32) -> Synth {
    let size = FrameSize::new(width, width / 2).unwrap();
    Synth::new(name, seed, size, FrameRate::new(30, 1).unwrap()).unwrap()
}

fn picture(synth: &Synth, frame: u32) -> Picture {
    let mut picture = Picture::new(synth.size());
    synth.draw(frame, &mut picture);
    picture
}

fn fingerprint(picture: &Picture) -> String {
    let bytes = picture.planes().concat();
    digest(&SHA256, &bytes).as_ref()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn deviation(plane: &[u8]) -> f64 {
    let n = plane.len() as f64;
    let mean = plane.iter().map(|&s| f64::from(s)).sum::<f64>() / n;
    (plane.iter().map(|&s| (f64::from(s) - mean).powi(2)).sum::<f64>() / n).sqrt()
}

#[test]
fn every_scene_moves_and_has_texture_and_no_two_seeds_are_alike() {
    for scene in SCENES {
        let synth = synth(scene.name, 1, 128);
        let (first, later) = (picture(&synth, 0), picture(&synth, 15));
        let spread = deviation(first.planes()[0]);
        assert!(spread > 8.0, "{}: a spread of {spread}", scene.name);
        let apart = first.planes()[0].iter().zip(later.planes()[0]);
        let moved = apart.filter(|(a, b)| a.abs_diff(**b) > 12).count() as f64 / (128.0 * 64.0);
        assert!(moved > 0.01, "{}: only {moved} of the picture moves", scene.name);
        let other = self::synth(scene.name, 2, 128);
        assert_ne!(first, picture(&other, 0), "{}", scene.name);
    }
}

/// The same on every machine: one that draws something else here computes something else.
#[test]
fn a_seed_gives_the_same_picture_to_the_byte() {
    let prints: Vec<String> = SCENES
        .iter()
        .map(|scene| {
            let synth = synth(scene.name, 1, 96);
            format!("{} {}", scene.name, fingerprint(&picture(&synth, 7)))
        })
        .collect();
    assert_eq!(prints, GOLDEN, "{prints:#?}");
}

const GOLDEN: [&str; 8] = [
    "coast 9f6daae48efc212b",
    "drive d92e7baaec1a4563",
    "forest 219963ddd3ac12d6",
    "hall 47a64d9cf76fa4a1",
    "orbit 42f15cb1a7b8f9c1",
    "plaza c5400243ceed848f",
    "reef ec008bb7f8db6bf6",
    "rink 1647ed1af18a96a5",
];

#[test]
fn threads_do_not_change_what_is_drawn() {
    let synth = synth("plaza", 3, 128);
    let one = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let many = rayon::ThreadPoolBuilder::new().num_threads(5).build().unwrap();
    assert_eq!(one.install(|| picture(&synth, 3)), many.install(|| picture(&synth, 3)));
}

/// A plain sky is plain but for the grain, and the ground below it is not.
#[test]
fn the_sky_over_the_coast_is_plain() {
    let picture = picture(&synth("coast", 1, 256), 0);
    let luma = picture.planes()[0];
    let sky = deviation(&luma[8 * 256..9 * 256]);
    let sea = deviation(&luma[80 * 256..100 * 256]);
    assert!(sky < 3.0, "{sky}");
    assert!(sea > 10.0, "{sea}");
}

#[test]
fn an_unknown_scene_is_told_with_those_that_there_are() {
    let size = FrameSize::new(64, 32).unwrap();
    let error = Synth::new("moon", 1, size, FrameRate::new(30, 1).unwrap()).err().unwrap();
    assert!(error.to_string().contains("plaza, reef, rink"), "{error}");
    assert_eq!(error.exit_code(), 2);
}
