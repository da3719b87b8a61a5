//! Published definitions, closed forms, and what must hold for any picture.

use proptest::prelude::*;
use weftline_core::rng::Rng;

use super::*;
use crate::geometry::{Direction, FieldOfView, FrameSize, Grid, Orientation, Rect};

fn frame(width: u32) -> FrameSize {
    FrameSize::new(width, width / 2).unwrap()
}

fn plane(data: &[u8], frame: FrameSize) -> Plane<'_> {
    Plane::new(data, frame.width(), frame.height(), frame.width() as usize).unwrap()
}

fn noise(frame: FrameSize, seed: u64) -> Vec<u8> {
    let mut rng = Rng::stream(seed, "pixels");
    (0..frame.width() * frame.height()).map(|_| rng.below(256) as u8).collect()
}

/// A picture whose sample at each pixel is `value` of the pixel's direction.
fn paint(frame: FrameSize, value: impl Fn(Direction) -> f64) -> Vec<u8> {
    let middle = |place: u32, side: u32| (f64::from(place) + 0.5) / f64::from(side);
    let places = (0..frame.height()).flat_map(|row| (0..frame.width()).map(move |c| (c, row)));
    let direction = |(column, row): (u32, u32)| {
        Direction::from_frame_position(middle(column, frame.width()), middle(row, frame.height()))
    };
    places.map(|place| value(direction(place)).round().clamp(0.0, 255.0) as u8).collect()
}

#[test]
fn psnr_is_as_defined() {
    assert!((psnr_db(1.0) - 48.130_803_608_679_1).abs() < 1e-9);
    assert_eq!(psnr_db(0.0), f64::INFINITY);
    assert!((psnr_db(255.0 * 255.0)).abs() < 1e-12);
    assert!((mse_of_psnr_db(psnr_db(3.7)) - 3.7).abs() < 1e-12);
}

/// What a viewport shows of errors if it mixes its pixels from four of the frame, at every place
/// between them: the integral of the squared bilinear function, by a fine sum.
#[test]
fn mixed_errors_are_those_of_bilinear_pixels() {
    let frame = frame(128);
    let weights = SphereWeights::new(frame);
    let flat = vec![100; 128 * 64];
    let (a, b) = (plane(&flat, frame), vec![97; 128 * 64]);
    let whole = weights.error_sum(0, a, plane(&b, frame)).unwrap();
    let mixed = weights.mixed_error_sum(0, a, plane(&b, frame)).unwrap();
    assert!((mixed / whole - 1.0).abs() < 1e-12, "a plain error stays");
    // Errors that do not know of each other: 4/9 of them, as far as a sample of pixels tells.
    let loud = noise(frame, 1);
    let odd: Vec<u8> = loud.iter().map(|value| 98 + value % 5).collect();
    let whole = weights.error_sum(0, a, plane(&odd, frame)).unwrap();
    let mixed = weights.mixed_error_sum(0, a, plane(&odd, frame)).unwrap();
    assert!((mixed / whole * 9.0 / 4.0 - 1.0).abs() < 0.05, "{}", mixed / whole);
    // Two rows are one strip of cells, over which the sum can be done by hand.
    let (upper, lower) = (odd[..128].to_vec(), odd[128..256].to_vec());
    let strip = [upper.clone(), lower.clone()].concat();
    let of = |data| Plane::new(data, 128, 2, 128).unwrap();
    let got = weights.mixed_error_sum(31, of(&flat[..256]), of(&strip)).unwrap();
    let error = |row: &[u8], x: usize| 100.0 - f64::from(row[x]);
    let (mut sum, fine) = (0.0, 40);
    for x in 0..127 {
        for (i, j) in (0..fine).flat_map(|i| (0..fine).map(move |j| (i, j))) {
            let place = |n: i32| (f64::from(n) + 0.5) / f64::from(fine);
            let (across, down) = (place(i), place(j));
            let row = |row: &[u8]| (1.0 - across) * error(row, x) + across * error(row, x + 1);
            sum += ((1.0 - down) * row(&upper) + down * row(&lower)).powi(2);
        }
    }
    let mean = sum / (127.0 * f64::from(fine * fine));
    let wanted = mean * 128.0 * (weights.row(31) + weights.row(32));
    // The first and the last column count a little more here than in the cells.
    assert!((got / wanted - 1.0).abs() < 0.02, "{got} {wanted}");
    // A single row has nothing to be mixed with.
    let one = |data| Plane::new(data, 128, 1, 128).unwrap();
    let (plain, mixed) = (
        weights.error_sum(5, one(&flat[..128]), one(&upper)).unwrap(),
        weights.mixed_error_sum(5, one(&flat[..128]), one(&upper)).unwrap(),
    );
    assert_eq!(plain, mixed);
    assert!(weights.mixed_error_sum(63, of(&flat[..256]), of(&strip)).is_err(), "outside");
}

/// A fine encoding errs by one here and there. Drawn with whole values, a viewport shows much more of that
/// than mixing leaves: 1 dB and more.
#[test]
fn what_rounding_adds_is_that_of_drawn_pixels() {
    let frame = frame(256);
    let weights = SphereWeights::new(frame);
    let mut rng = Rng::stream(5, "errors");
    let original = noise(frame, 1);
    let original: Vec<u8> = original.iter().map(|value| 60 + value / 2).collect();
    for most in [1, 4] {
        let decoded: Vec<u8> = original
            .iter()
            .map(|value| (u64::from(*value) + rng.below(2 * most + 1) - most) as u8)
            .collect();
        let (a, b) = (plane(&original, frame), plane(&decoded, frame));
        let mean = |sum: f64| sum / weights.total();
        let mixed = mean(weights.mixed_error_sum(0, a, b).unwrap());
        let rounding = mean(weights.rounding_error_sum(0, a, b).unwrap());
        let (mut sum, draws) = (0.0, 200_000);
        for _ in 0..draws {
            let [column, row] = [255, 127].map(|side| rng.below(side) as u32);
            let [across, down] = [0, 1].map(|_| rng.below(1 << 20) as f64 / f64::from(1 << 20));
            let drawn = |of: Plane<'_>| {
                let line = |row: u32| {
                    let [left, right] =
                        [0, 1].map(|at| f64::from(of.row(row)[(column + at) as usize]));
                    left + (right - left) * across
                };
                let (upper, lower) = (line(row), line(row + 1));
                (upper + (lower - upper) * down).round()
            };
            sum += (drawn(a) - drawn(b)).powi(2);
        }
        let truth = sum / f64::from(draws);
        assert!(((mixed + rounding) / truth - 1.0).abs() < 0.03, "{mixed} + {rounding}, {truth}");
        assert!(mixed / truth < [0.0, 0.8, 0.0, 0.0, 0.97][most as usize], "{mixed} of {truth}");
    }
    let even: Vec<u8> = original.iter().map(|value| value + 3).collect();
    let sum = weights.rounding_error_sum(0, plane(&original, frame), plane(&even, frame)).unwrap();
    assert_eq!(sum, 0.0);
}

#[test]
fn weights_are_as_published() {
    let weights = SphereWeights::new(frame(8));
    // H = 4: cos(−3π/8), cos(−π/8), and the same below the horizon.
    let (near_pole, near_horizon) = (0.382_683_432_365_089_8, 0.923_879_532_511_286_7);
    for (row, weight) in [near_pole, near_horizon, near_horizon, near_pole].into_iter().enumerate()
    {
        assert!((weights.row(row as u32) - weight).abs() < 1e-15);
    }
    assert!((weights.total() - 16.0 * (near_pole + near_horizon)).abs() < 1e-12);
    // The share of a tile is its share of the sphere, with Δ² of the rows left over.
    let frame = frame(3840);
    let weights = SphereWeights::new(frame);
    let grid = Grid::default();
    for tile in 0..grid.tiles() {
        let share = grid.solid_angle(tile) / (4.0 * std::f64::consts::PI);
        assert!((weights.share(grid.rect(tile, frame)) - share).abs() < 1e-6);
    }
}

#[test]
fn a_difference_that_is_everywhere_the_same_is_plain_mse_everywhere() {
    let frame = frame(64);
    let (a, b) = (vec![100; 64 * 32], vec![107; 64 * 32]);
    let (a, b) = (plane(&a, frame), plane(&b, frame));
    assert!((SphereWeights::new(frame).mse(a, b).unwrap() - 49.0).abs() < 1e-12);
    assert_eq!(SpherePoints::with_count(frame, 1_000).mse(a, b).unwrap(), 49.0);
    let camera = Camera::new(FieldOfView::default(), 40, 40).unwrap();
    let map = ViewportMap::new(camera, Orientation::from_degrees(170.0, 80.0, 5.0), frame);
    assert_eq!(map.mse(a, b).unwrap(), 49.0);
    assert_eq!(SphereWeights::new(frame).psnr_db(a, a).unwrap(), f64::INFINITY);
}

#[test]
fn both_metrics_of_the_sphere_see_the_same_picture() {
    // An error that is smooth over the sphere has an integral that both must find.
    let frame = frame(1024);
    let original = paint(frame, |_| 100.0);
    let decoded = paint(frame, |d| 100.0 + 20.0 * d.xyz()[2] + 20.0);
    let (original, decoded) = (plane(&original, frame), plane(&decoded, frame));
    let weighted = SphereWeights::new(frame).mse(original, decoded).unwrap();
    let points = SpherePoints::new(frame).mse(original, decoded).unwrap();
    // The mean over the sphere of (20 + 20 z)² is 400·(1 + 1/3); rounding adds 1/12.
    let exact = 400.0 * 4.0 / 3.0 + 1.0 / 12.0;
    assert!((weighted - exact).abs() < 0.2, "{weighted} for {exact}");
    assert!((points - exact).abs() < 0.2, "{points} for {exact}");
    assert!(psnr_db(weighted) - psnr_db(points) < 0.01);
}

#[test]
fn a_viewport_shows_the_directions_it_should() {
    // A picture that says where it is: each viewport pixel must show its own direction's height.
    let frame = frame(2048);
    let height = |d: Direction| 127.5 + 120.0 * d.xyz()[2];
    let picture = paint(frame, height);
    let picture = plane(&picture, frame);
    let side = 64;
    let fov = FieldOfView::new(100.0, 80.0).unwrap();
    let camera = Camera::new(fov, side, side).unwrap();
    for (yaw, pitch, roll) in
        [(0.0, 0.0, 0.0), (180.0, 20.0, 30.0), (-77.0, 89.0, 0.0), (50.0, -90.0, 9.0)]
    {
        let orientation = Orientation::from_degrees(yaw, pitch, roll);
        let map = ViewportMap::new(camera, orientation, frame);
        let mut drawn = vec![0; (side * side) as usize];
        map.draw_rows(0..side, picture, &mut drawn).unwrap();
        let (half_width, half_height) = fov.half_sides();
        for (index, &shown) in drawn.iter().enumerate() {
            let place = |at: u32| 1.0 - (2.0 * f64::from(at) + 1.0) / f64::from(side);
            let (column, row) = (index as u32 % side, index as u32 / side);
            let ray = Direction::new(1.0, half_width * place(column), half_height * place(row));
            let wanted = height(orientation.turn(ray.unwrap()));
            assert!((f64::from(shown) - wanted).abs() < 1.2, "{yaw} {pitch}: {shown} for {wanted}");
        }
    }
}

#[test]
fn the_seam_does_not_show() {
    // Brightness by yaw from the back: continuous over the seam, so no jump within the viewport.
    let frame = frame(1024);
    let picture = paint(frame, |d| d.yaw_deg().abs());
    let picture = plane(&picture, frame);
    let camera = Camera::new(FieldOfView::default(), 101, 101).unwrap();
    let map = ViewportMap::new(camera, Orientation::from_degrees(180.0, 0.0, 0.0), frame);
    let mut drawn = vec![0; 101];
    map.draw_rows(50..51, picture, &mut drawn).unwrap();
    assert!(drawn.windows(2).all(|pair| pair[0].abs_diff(pair[1]) <= 2), "{drawn:?}");
    assert!(drawn[50] >= 179 && drawn[0] < 135, "{drawn:?}");
}

#[test]
fn rows_of_threads_make_the_whole() {
    let frame = frame(256);
    let (a, b) = (noise(frame, 1), noise(frame, 2));
    let (a, b) = (plane(&a, frame), plane(&b, frame));
    let camera = Camera::new(FieldOfView::default(), 50, 40).unwrap();
    let orientation = Orientation::from_degrees(-150.0, 35.0, 12.0);
    let map = ViewportMap::new(camera, orientation, frame);
    let mut texels = vec![Texel::default(); 50 * 40];
    let (upper, lower) = texels.split_at_mut(50 * 13);
    camera.fill_rows(orientation, frame, 0..13, upper);
    camera.fill_rows(orientation, frame, 13..40, lower);
    let pieces = ViewportMap::from_texels(camera, frame, texels).unwrap();
    let parts = [0..7, 7..40].map(|rows| pieces.squared_error_rows(rows, a, b).unwrap());
    assert_eq!(parts.iter().sum::<u64>(), map.squared_error_rows(0..40, a, b).unwrap());
    let mut drawn = [vec![0; 2000], vec![0; 2000]];
    map.draw_rows(0..40, a, &mut drawn[0]).unwrap();
    map.draw_rows(0..40, b, &mut drawn[1]).unwrap();
    assert_eq!(squared_differences(&drawn[0], &drawn[1]), parts.iter().sum::<u64>());
    assert!(ViewportMap::from_texels(camera, frame, vec![]).is_none());
}

#[test]
fn what_does_not_fit_is_told() {
    let frame = frame(64);
    let bytes = vec![0; 64 * 32];
    let whole = plane(&bytes, frame);
    let weights = SphereWeights::new(frame);
    let part = whole.crop(Rect { left: 0, top: 0, width: 32, height: 16 }).unwrap();
    let errors = [
        Plane::new(&bytes[1..], 64, 32, 64).unwrap_err(),
        Plane::new(&bytes, 64, 32, 63).unwrap_err(),
        whole.crop(Rect { left: 40, top: 0, width: 32, height: 16 }).unwrap_err(),
        whole.crop(Rect { left: 0, top: u32::MAX, width: 32, height: 16 }).unwrap_err(),
        weights.error_sum(20, part, part).unwrap_err(),
        weights.mse(whole, part).unwrap_err(),
        weights.mse(part, part).unwrap_err(),
        Camera::new(FieldOfView::default(), 0, 10).unwrap_err(),
        Camera::for_frame(FieldOfView::default(), frame, 1e-9).unwrap_err(),
    ];
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn sums_of_tiles_add_up(seed in 0..1000_u64, columns in 1..7_u32, rows in 1..5_u32) {
        let grid = Grid::new(columns, rows).unwrap();
        let frame = frame(4 * columns * rows);
        let (a, b) = (noise(frame, seed), noise(frame, seed + 1));
        let (a, b) = (plane(&a, frame), plane(&b, frame));
        let weights = SphereWeights::new(frame);
        let tiles = (0..grid.tiles()).map(|tile| {
            let rect = grid.rect(tile, frame);
            weights.error_sum(rect.top, a.crop(rect).unwrap(), b.crop(rect).unwrap()).unwrap()
        });
        let (sum, whole) = (tiles.sum::<f64>(), weights.error_sum(0, a, b).unwrap());
        prop_assert!((sum - whole).abs() <= 1e-12 * whole, "{} {}", sum, whole);
    }

    #[test]
    fn what_equals_has_no_error_and_order_does_not_matter(
        seed in 0..1000_u64,
        yaw in -180.0..180.0,
        pitch in -90.0..90.0,
    ) {
        let frame = frame(32);
        let (a, b) = (noise(frame, seed), noise(frame, seed + 7));
        let (a, b) = (plane(&a, frame), plane(&b, frame));
        let camera = Camera::new(FieldOfView::default(), 16, 16).unwrap();
        let map = ViewportMap::new(camera, Orientation::from_degrees(yaw, pitch, 0.0), frame);
        prop_assert_eq!(map.mse(a, a).unwrap(), 0.0);
        prop_assert_eq!(map.mse(a, b).unwrap(), map.mse(b, a).unwrap());
        let weights = SphereWeights::new(frame);
        prop_assert!(weights.mse(a, b).unwrap() == weights.mse(b, a).unwrap());
    }
}
