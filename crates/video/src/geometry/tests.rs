//! Closed forms of the sphere, and properties that hold everywhere on it.

use std::f64::consts::PI;

use proptest::prelude::*;

use super::*;

fn grids() -> impl Iterator<Item = Grid> {
    [(1, 1), (2, 1), (6, 4), (8, 8), (12, 8), (7, 5), (64, 64)]
        .into_iter()
        .map(|(columns, rows)| Grid::new(columns, rows).unwrap())
}

fn orientation() -> impl Strategy<Value = Orientation> {
    (-180.0..180.0, -90.0..90.0, -180.0..180.0)
        .prop_map(|(y, p, r)| Orientation::from_degrees(y, p, r))
}

#[test]
fn areas_add_up_to_the_sphere() {
    for grid in grids() {
        let total: f64 = (0..grid.tiles()).map(|tile| grid.solid_angle(tile)).sum();
        assert!((total - 4.0 * PI).abs() < 1e-12, "{grid}: {total}");
    }
    // Two tiles are hemispheres, and the rows of 6x4 are bounded by 45° of pitch.
    assert!((Grid::new(2, 1).unwrap().solid_angle(1) - 2.0 * PI).abs() < 1e-12);
    let polar = Grid::default().solid_angle(0);
    assert!((polar - PI / 3.0 * (1.0 - 0.5_f64.sqrt())).abs() < 1e-12);
}

#[test]
fn the_field_of_view_of_a_cube_face_is_a_sixth() {
    let face = FieldOfView::new(90.0, 90.0).unwrap();
    assert!((face.solid_angle() - 4.0 * PI / 6.0).abs() < 1e-12);
}

#[test]
fn axes_point_as_the_module_says() {
    let near = |a: Direction, [x, y, z]: [f64; 3]| {
        let other = Direction::new(x, y, z).unwrap();
        assert!(a.angle_to_deg(other) < 1e-9, "{a:?} is not {other:?}");
    };
    near(Direction::from_degrees(0.0, 0.0), [1.0, 0.0, 0.0]);
    near(Direction::from_degrees(90.0, 0.0), [0.0, -1.0, 0.0]);
    near(Direction::from_degrees(0.0, 90.0), [0.0, 0.0, 1.0]);
    near(Orientation::from_degrees(90.0, 0.0, 0.0).direction(), [0.0, -1.0, 0.0]);
    near(Orientation::from_degrees(30.0, 90.0, 0.0).direction(), [0.0, 0.0, 1.0]);
    // Leaning to the right brings what was on the left up.
    let left = Direction::from_degrees(-90.0, 0.0);
    near(Orientation::from_degrees(0.0, 0.0, 90.0).turn(left), [0.0, 0.0, 1.0]);
    assert_eq!(Direction::new(0.0, 0.0, 0.0), None);
    assert_eq!(Direction::new(f64::NAN, 0.0, 1.0), None);
    assert_eq!(Orientation::from_quaternion(0.0, 0.0, 0.0, 0.0), None);
    let odd = Orientation::from_degrees(f64::NAN, f64::INFINITY, 0.0);
    assert_eq!(odd, Orientation::default());
}

#[test]
fn poles_seams_and_edges_belong_to_one_tile() {
    let grid = Grid::default();
    assert_eq!(grid.tile_of(Direction::FRONT), 2 * 6 + 3, "right of and below the middle");
    // The zenith and the nadir are in the first and the last row.
    assert!(grid.tile_of(Direction::new(0.0, 0.0, 1.0).unwrap()) < 6);
    assert!(grid.tile_of(Direction::new(0.0, 0.0, -1.0).unwrap()) >= 18);
    // ±180° are the same meridian; a hair on either side are the last and the first column.
    let column = |yaw: f64| grid.tile_of(Direction::from_degrees(yaw, 10.0)) % 6;
    assert_eq!(column(180.0), column(-180.0));
    assert_eq!((column(179.999), column(-179.999)), (5, 0));
    assert_eq!((column(-180.0 + 360.0 * 3.0), column(540.001)), (column(180.0), 0));
    for tile in 0..grid.tiles() {
        assert_eq!(grid.tile_of(grid.center(tile)), tile);
    }
}

#[test]
fn a_viewport_over_the_seam_or_a_pole_shows_what_it_should() {
    let viewport = Viewport::new(FieldOfView::default());
    let grid = Grid::default();
    // Looking back: half of the picture is left of the seam (the last columns), half right of it.
    let back = viewport.visibility(grid, Orientation::from_degrees(180.0, 0.0, 0.0));
    let half: f64 = (0..24).filter(|tile| tile % 6 < 3).map(|tile| back.share[tile]).sum();
    assert!((half - 0.5).abs() < 1e-3, "{half}");
    assert!(back.share[8] == 0.0 && back.share[9] == 0.0, "nothing of the front");
    // Straight up: the same of every column, and of the second row only the corners.
    let up = viewport.visibility(grid, Orientation::from_degrees(20.0, 90.0, 0.0));
    assert!((0..6).all(|tile| up.seen[tile] > 0.99), "{up:?}");
    assert!((6..12).map(|tile| up.share[tile]).sum::<f64>() > 0.2);
    assert!((12..24).all(|tile| up.seen[tile] == 0.0));
    // One tile is all there is.
    let one = viewport.visibility(Grid::new(1, 1).unwrap(), Orientation::default());
    let of_the_sphere = FieldOfView::default().solid_angle() / (4.0 * PI);
    assert!((one.seen[0] - of_the_sphere).abs() < 1e-9 && one.share[0] == 1.0);
}

/// Shares and areas from a lattice of 400 × 400 pixels, each looked up in double precision.
fn exact(fov: FieldOfView, grid: Grid, orientation: Orientation) -> Visibility {
    const SIDE: u32 = 400;
    let (half_width, half_height) = fov.half_sides();
    let (mut share, mut area) = (vec![0.0; grid.tiles()], vec![0.0; grid.tiles()]);
    let place = |index: u32| 1.0 - 2.0 * (f64::from(index) + 0.5) / f64::from(SIDE);
    let pixel = 4.0 * half_width * half_height / f64::from(SIDE * SIDE);
    for (column, row) in (0..SIDE).flat_map(|row| (0..SIDE).map(move |column| (column, row))) {
        let (y, z) = (half_width * place(column), half_height * place(row));
        let tile = grid.tile_of(orientation.turn(Direction::new(1.0, y, z).unwrap()));
        share[tile] += 1.0 / f64::from(SIDE * SIDE);
        area[tile] += pixel * (1.0 + y * y + z * z).powf(-1.5);
    }
    let seen = area.iter().enumerate().map(|(tile, area)| area / grid.solid_angle(tile)).collect();
    Visibility { seen, share }
}

/// How many orientations [`Viewport`]'s precision is checked over; its figures are from 600.
const POSES: u32 = 20;

#[test]
fn sampling_is_as_precise_as_documented() {
    let fov = FieldOfView::default();
    let viewport = Viewport::new(fov);
    let mut rng = weftline_core::rng::Rng::stream(1, "orientations");
    let (mut worst, mut sum, mut count) = ([0.0_f64; 2], [0.0; 2], 0);
    for _ in 0..POSES {
        let mut angle = |span: f64| (rng.unit_f64() * 2.0 - 1.0) * span;
        let orientation = Orientation::from_degrees(angle(180.0), angle(60.0), angle(20.0));
        let found = viewport.visibility(Grid::default(), orientation);
        let wanted = exact(fov, Grid::default(), orientation);
        for tile in 0..24 {
            let errors =
                [found.share[tile] - wanted.share[tile], found.seen[tile] - wanted.seen[tile]];
            for kind in 0..2 {
                worst[kind] = worst[kind].max(errors[kind].abs());
                sum[kind] += errors[kind].abs();
            }
            count += 1;
        }
    }
    let mean = sum.map(|sum| sum / f64::from(count));
    println!(
        "share: worst {:.4}, mean {:.5}; seen: worst {:.4}, mean {:.5}",
        worst[0], mean[0], worst[1], mean[1]
    );
    assert!(worst[0] < 0.003 && mean[0] < 2e-4, "shares: {worst:?}, {mean:?}");
    assert!(worst[1] < 0.03 && mean[1] < 1e-3, "areas: {worst:?}, {mean:?}");
}

#[test]
fn grids_and_frames_are_read_and_refused_with_the_remedy() {
    assert_eq!("12x8".parse::<Grid>().unwrap(), Grid::new(12, 8).unwrap());
    for text in ["", "6", "0x4", "6x65", "6x4x2", "-1x4", "axb"] {
        let error = text.parse::<Grid>().unwrap_err().to_string();
        assert!(error.contains(&format!("'{text}'")), "{error}");
    }
    let frame = FrameSize::new(3840, 1920).unwrap();
    assert_eq!(Grid::default().check(frame), Ok(()));
    let wrong = [
        FrameSize::new(3840, 2160).unwrap_err(),
        FrameSize::new(3841, 1921).unwrap_err(),
        FrameSize::new(0, 0).unwrap_err(),
        FieldOfView::new(180.0, 90.0).unwrap_err(),
        FieldOfView::new(90.0, f64::NAN).unwrap_err(),
        Grid::new(7, 4).unwrap().check(frame).unwrap_err(),
    ];
    let texts: Vec<String> = wrong.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n"));
}

/// Cases of each property.
const CASES: u32 = 128;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(CASES))]

    #[test]
    fn a_refused_frame_is_told_one_that_fits(
        columns in 1..=64_u32,
        rows in 1..=64_u32,
        half in 2..4000_u32,
    ) {
        let grid = Grid::new(columns, rows).unwrap();
        let frame = FrameSize::new(4 * half, 2 * half).unwrap();
        if let Err(GeometryError::Divide { fit_width, .. }) = grid.check(frame) {
            let fit = FrameSize::new(fit_width, fit_width / 2).unwrap();
            prop_assert_eq!(grid.check(fit), Ok(()));
        }
    }

    #[test]
    fn rectangles_cover_the_frame_once(columns in 1..12_u32, rows in 1..12_u32) {
        let grid = Grid::new(columns, rows).unwrap();
        let unit = 2 * columns * rows;
        let frame = FrameSize::new(4 * unit, 2 * unit).unwrap();
        prop_assert_eq!(grid.check(frame), Ok(()));
        let pixels: u64 = (0..grid.tiles())
            .map(|tile| grid.rect(tile, frame))
            .map(|rect| u64::from(rect.width) * u64::from(rect.height))
            .sum();
        prop_assert_eq!(pixels, u64::from(frame.width()) * u64::from(frame.height()));
        let last = grid.rect(grid.tiles() - 1, frame);
        prop_assert_eq!(last.left + last.width, frame.width());
        prop_assert_eq!(last.top + last.height, frame.height());
    }

    #[test]
    fn angles_come_back(yaw in -179.9..179.9, pitch in -89.0..89.0, roll in -179.0..179.0) {
        let (y, p, r) = Orientation::from_degrees(yaw, pitch, roll).degrees();
        prop_assert!((y - yaw).abs() < 1e-6 && (p - pitch).abs() < 1e-6 && (r - roll).abs() < 1e-6,
            "{yaw} {pitch} {roll} became {y} {p} {r}");
    }

    #[test]
    fn angles_at_the_poles_make_the_same_orientation(
        yaw in -180.0..180.0,
        roll in -180.0..180.0,
        up in any::<bool>(),
    ) {
        let pitch = if up { 90.0 } else { -90.0 };
        let pose = Orientation::from_degrees(yaw, pitch, roll);
        let (y, p, r) = pose.degrees();
        prop_assert!(pose.angle_to_deg(Orientation::from_degrees(y, p, r)) < 1e-3);
    }

    #[test]
    fn places_in_the_frame_come_back(yaw in -180.0..180.0, pitch in -90.0..90.0) {
        let direction = Direction::from_degrees(yaw, pitch);
        let (across, down) = direction.frame_position();
        prop_assert!((0.0..1.0).contains(&across) && (0.0..=1.0).contains(&down));
        prop_assert!(direction.angle_to_deg(Direction::from_frame_position(across, down)) < 1e-5);
    }

    #[test]
    fn half_of_a_turn_is_half_of_the_angle(a in orientation(), b in orientation()) {
        let middle = a.toward(b, 0.5);
        let whole = a.angle_to_deg(b);
        prop_assert!((a.angle_to_deg(middle) - whole / 2.0).abs() < 1e-6);
        prop_assert!(a.toward(b, 1.0).angle_to_deg(b) < 1e-6);
        prop_assert!(a.toward(b, 0.0).angle_to_deg(a) < 1e-6);
    }

    #[test]
    fn what_is_shown_is_seen(pose in orientation()) {
        let fov = FieldOfView::default();
        let found = Viewport::new(fov).visibility(Grid::default(), pose);
        prop_assert!((found.share.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        let areas = (0..24).map(|tile| found.seen[tile] * Grid::default().solid_angle(tile));
        // Tiles seen whole may be met by a few rays too many, which are cut off at 1.
        let lost = fov.solid_angle() - areas.sum::<f64>();
        prop_assert!((-1e-9..0.08).contains(&lost), "{}", lost);
        // The tile in the middle of the view is seen.
        prop_assert!(found.seen[Grid::default().tile_of(pose.direction())] > 0.0);
        prop_assert!(fov.sees(pose, pose.direction()));
    }
}

/// Over fixed directions: some fifty points are near a cap's border, so of a cap anywhere nothing
/// better is known than a count that is off by as many as chance would have it.
#[test]
fn the_lattice_is_even() {
    // A cap of 30° has (1 − cos 30°)/2 of the sphere's area, and of the points.
    let share = (1.0 - 30.0_f64.to_radians().cos()) / 2.0;
    for middle in Direction::lattice(500) {
        let inside = Direction::lattice(4_000).filter(|d| d.angle_to_deg(middle) <= 30.0).count();
        assert!((inside as f64 - share * 4_000.0).abs() <= 8.0, "{inside} around {middle:?}");
    }
}
