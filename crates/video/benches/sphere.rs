//! What the viewport costs: asking which tiles it shows, filling the table of a pose, drawing and
//! comparing from it, and the weighted error of a frame.

use divan::counter::ItemsCount;
use weftline_core::rng::Rng;
use weftline_video::geometry::{FieldOfView, FrameSize, Grid, Orientation, Viewport};
use weftline_video::metric::{Camera, Plane, SphereWeights, ViewportMap};

fn main() {
    divan::main();
}

const FRAME: (u32, u32) = (3840, 1920);

fn frame() -> FrameSize {
    FrameSize::new(FRAME.0, FRAME.1).expect("2:1")
}

fn picture(seed: u64) -> Vec<u8> {
    let mut rng = Rng::stream(seed, "picture");
    (0..FRAME.0 * FRAME.1).map(|_| rng.below(256) as u8).collect()
}

fn plane(data: &[u8]) -> Plane<'_> {
    Plane::new(data, FRAME.0, FRAME.1, FRAME.0 as usize).expect("whole")
}

fn camera(side: u32) -> Camera {
    Camera::new(FieldOfView::default(), side, side).expect("small")
}

#[divan::bench(args = [(6, 4), (12, 8)])]
fn tiles_of_a_pose(bencher: divan::Bencher<'_, '_>, (columns, rows): (u32, u32)) {
    let grid = Grid::new(columns, rows).expect("small");
    let viewport = Viewport::new(FieldOfView::default());
    let pose = Orientation::from_degrees(70.0, -20.0, 3.0);
    bencher.bench(|| viewport.visibility(grid, divan::black_box(pose)));
}

#[divan::bench(args = [480, 960])]
fn table_of_a_pose(bencher: divan::Bencher<'_, '_>, side: u32) {
    let pose = Orientation::from_degrees(70.0, -20.0, 3.0);
    let mut map = ViewportMap::new(camera(side), pose, frame());
    bencher
        .counter(ItemsCount::new(side * side))
        .bench_local(|| map.turn_to(divan::black_box(pose)));
}

#[divan::bench(args = [480, 960])]
fn error_of_a_viewport(bencher: divan::Bencher<'_, '_>, side: u32) {
    let (a, b) = (picture(1), picture(2));
    let pose = Orientation::from_degrees(70.0, -20.0, 3.0);
    let map = ViewportMap::new(camera(side), pose, frame());
    bencher
        .counter(ItemsCount::new(side * side))
        .bench(|| map.mse(divan::black_box(plane(&a)), plane(&b)).expect("same sizes"));
}

#[divan::bench]
fn weighted_error_of_a_frame(bencher: divan::Bencher<'_, '_>) {
    let (a, b) = (picture(1), picture(2));
    let weights = SphereWeights::new(frame());
    bencher
        .counter(ItemsCount::new(FRAME.0 * FRAME.1))
        .bench(|| weights.mse(divan::black_box(plane(&a)), plane(&b)).expect("same sizes"));
}
