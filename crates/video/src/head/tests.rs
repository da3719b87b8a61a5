//! Loaders, traces, probabilities and prediction; and, with recorded traces at hand, how close the
//! synthetic viewers are to them and what prediction gains.

mod measured;

use std::f64::consts::PI;
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::geometry::{Direction, FieldOfView, Grid, Orientation, Viewport};

const LABEL: Label<'_> = Label { viewer: "ann", video: "reef" };

fn secs(value: f64) -> Duration {
    Duration::from_secs_f64(value)
}

/// A trace that turns to the right by `speed` degrees a second from `yaw`.
fn turning(viewer: &str, yaw: f64, speed: f64, seconds: u32) -> Trace {
    let poses = (0..=seconds * 10).map(|tenth| {
        let at = Duration::from_millis(100) * tenth;
        let yaw = yaw + speed * at.as_secs_f64();
        Pose { at, orientation: Orientation::from_degrees(yaw, 0.0, 0.0) }
    });
    Trace::new(viewer, "reef", poses.collect()).unwrap()
}

#[test]
fn every_format_is_read_with_its_own_axes() {
    // In all of them: at 0.1 s the viewer looks 90° to the right and 30° up.
    let json = r#"{"data":[{"filename":"2.mp4","hmd":"vive","pitch_yaw_roll_data_hmd":[
        {"pitch":0,"roll":0,"sec":0.0,"yaw":0},{"pitch":-30,"roll":5,"sec":0.1,"yaw":90}]}]}"#;
    let half = std::f64::consts::FRAC_1_SQRT_2;
    // 90° to the right is −90° about z; looking up after it −30° about y.
    let (c, s) = (15_f64.to_radians().cos(), 15_f64.to_radians().sin());
    let (w, x, y, z) = (half * c, -half * s, -half * s, -half * c);
    let corbillon = format!("0.00 0 1 0 0 0\n0.1 3 {w} {x} {y} {z}\n");
    let cases = [
        (Format::Avtrack360, json.to_owned()),
        (
            Format::Avtrack360,
            "user,video,t_s,yaw_deg,pitch_deg,roll_deg\n7,2,0,0,0,0\n7,2,0.1,90,-30,5\n".to_owned(),
        ),
        (Format::Corbillon2017, corbillon),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n0,0,0\n0.1,90,30\n".to_owned()),
        (Format::Csv, "user,t_s,yaw_deg,pitch_up_deg\nA,0,0,0\nA,0.1,90,30\n".to_owned()),
        (Format::Csv, "sec,yaw_deg,pitch_down_deg\n0,0,0\n0.1,90,-30\n".to_owned()),
        (
            Format::Csv,
            format!(
                "t_ms,yaw_rad,pitch_rad,roll_rad\n0,0,0,0\n100,{},{},0\n",
                90_f64.to_radians(),
                30_f64.to_radians()
            ),
        ),
        (Format::Csv, format!("viewer,t_s,qw,qx,qy,qz\nbo,0,1,0,0,0\nbo,0.1,{w},{x},{y},{z}")),
        (Format::Csv, "t_s,x,y,z\n0,1,0,0\n\n0.1,0,-0.866,0.5\n".to_owned()),
        (Format::Nasrabadi2019, "0,0,0,0,1,0,0,1\n0.1,0,0,0,1,0.866,0.5,0\n".to_owned()),
        (
            Format::Nasrabadi2019,
            "user,video,t_s,x,y,z\nA,1,0,0,0,1\nA,1,0.1,0.866,0.5,0".to_owned(),
        ),
    ];
    for (format, text) in cases {
        let traces = read(format, LABEL, &text).unwrap();
        assert_eq!(traces.len(), 1, "{text}");
        let pose = traces[0].at(secs(0.1)).direction();
        let wanted = Direction::from_degrees(90.0, 30.0);
        assert!(pose.angle_to_deg(wanted) < 0.1, "{text}: {pose:?}");
        assert!(traces[0].at(Duration::ZERO).direction().angle_to_deg(Direction::FRONT) < 0.1);
    }
    assert_eq!(read(Format::Avtrack360, LABEL, json).unwrap()[0].video(), "2");
}

/// As plain CSV, AVTrack360's heads look at the ground where they looked at the sky.
#[test]
fn a_pitch_whose_sign_nobody_says_is_refused() {
    let rows = "\n2,0,0,0,0\n2,0.1,90,-30,0\n";
    let theirs = format!("user,t_s,yaw_deg,pitch_deg,roll_deg{rows}");
    let error = read(Format::Csv, LABEL, &theirs).unwrap_err().to_string();
    assert!(error.contains("'user'") && error.contains("pitch_down_deg"), "{error}");
    assert!(read(Format::Avtrack360, LABEL, &theirs).is_ok());
    let said = format!("user,t_s,yaw_deg,pitch_down_deg,roll_deg{rows}");
    let [said, read] = [(Format::Csv, &said), (Format::Avtrack360, &theirs)]
        .map(|(format, text)| read(format, LABEL, text).unwrap());
    assert_eq!(said, read);
    let seconds = "sec,yaw_rad,pitch_rad\n0,0,0\n0.1,1.5,-0.5\n";
    assert!(super::read(Format::Csv, LABEL, seconds).is_err());
}

#[test]
fn wrong_files_are_refused_with_where_and_the_remedy() {
    let still = |yaw: f64, pitch: f64| {
        let rows =
            (0..60).map(|n| format!("{},{},{pitch}", f64::from(n) / 10.0, yaw * f64::from(n)));
        format!("t_s,yaw_deg,pitch_deg\n{}", rows.collect::<Vec<_>>().join("\n"))
    };
    let cases = [
        (Format::Csv, String::new()),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n".to_owned()),
        (Format::Csv, "t_s,yaw,pitch\n0,0,0\n".to_owned()),
        (Format::Csv, "seconds,yaw_deg,pitch_deg\n".to_owned()),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n0,0,0\n".to_owned()),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n0,0,0\n0.1,x,0\n".to_owned()),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n0,0,0\n0.1,NaN,0\n".to_owned()),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n0,0,0\n0.1,1\n".to_owned()),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n0,0,0\n0.1,1,120\n".to_owned()),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n0,0,0\n-1,1,0\n".to_owned()),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n0,0,0\n0.1,1,0\n1.5,1,0\n".to_owned()),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n0,0,0\n100,1,0\n200,1,0\n".to_owned()),
        (Format::Csv, "t_s,yaw_deg,pitch_deg\n0,0,0\n0.2,1,0\n0.1,1,0\n".to_owned()),
        (Format::Csv, "t_s,yaw_rad,pitch_rad\n0,0,0\n0.1,170,20\n0.2,171,20\n".to_owned()),
        (Format::Csv, still(0.05, 0.3)),
        (Format::Csv, "t_s,x,y,z\n0,1,0,0\n0.1,0.5,0.5,0.5\n".to_owned()),
        (Format::Corbillon2017, "0 0 1 0 0 0\n0.1 1 1 1 0 0\n".to_owned()),
        (Format::Corbillon2017, "0 0 1 0 0\n".to_owned()),
        (Format::Avtrack360, "{\"data\":[{\"filename\":\"2.mp4\"}]}".to_owned()),
        (Format::Avtrack360, "t_s,x,y,z\n0,1,0,0\n".to_owned()),
        (Format::Nasrabadi2019, "t_s,yaw_deg,pitch_deg\n0,0,0\n".to_owned()),
    ];
    let texts =
        cases.iter().map(|(format, text)| read(*format, LABEL, text).unwrap_err().to_string());
    let mut texts: Vec<String> = texts.collect();
    texts.push("opensight".parse::<Format>().unwrap_err().to_string());
    insta::assert_snapshot!(texts.join("\n"));
    // A viewer who hardly moves is no mistake if the angles are whole numbers.
    assert!(read(Format::Csv, LABEL, &still(0.0, 2.0)).is_ok());
}

#[test]
fn poses_between_samples_are_on_the_way_over_the_seam_too() {
    let trace = turning("ann", 170.0, 40.0, 2);
    let yaw = |time: f64| trace.at(secs(time)).direction().yaw_deg();
    assert!((yaw(0.05) - 172.0).abs() < 1e-6);
    assert!((yaw(0.45) + 172.0).abs() < 1e-6);
    assert!((yaw(2.0) - yaw(9.0)).abs() < 1e-9, "the last pose holds");
    assert_eq!(trace.end(), secs(2.0));
}

#[test]
fn probabilities_are_means_over_viewers_and_time() {
    let viewport = Viewport::new(FieldOfView::default());
    let grid = Grid::default();
    let gop = secs(1.0);
    let front = turning("ann", 0.0, 0.0, 3);
    let back = turning("bo", 180.0, 0.0, 3);
    let both = TileProbabilities::measure([&front, &back], grid, &viewport, gop).unwrap();
    assert_eq!(both.gops(), 3);
    let ahead = viewport.visibility(grid, Orientation::default());
    let behind = viewport.visibility(grid, Orientation::from_degrees(180.0, 0.0, 0.0));
    for tile in 0..24 {
        let mean = (ahead.seen[tile] + behind.seen[tile]) / 2.0;
        assert!((both.seen(1)[tile] - mean).abs() < 1e-9);
        assert_eq!(both.seen(7), both.seen(2), "the last GoP holds");
    }
    assert!((both.share(0).iter().sum::<f64>() - 1.0).abs() < 1e-9);
    // One viewer more who looks anywhere: a third of the weight, and nothing is impossible.
    let smooth = both.smoothed(FieldOfView::default(), 1.0, 2);
    assert!(both.seen(0).contains(&0.0) && smooth.seen(0).iter().all(|&p| p > 0.05));
    assert!((smooth.share(0).iter().sum::<f64>() - 1.0).abs() < 1e-9);
    // Who turns through the whole circle in a GoP sees all of the horizon alike.
    let round = turning("cy", 0.0, 360.0, 1);
    let round = TileProbabilities::measure([&round], grid, &viewport, gop).unwrap();
    let row = &round.seen(0)[6..12];
    let (low, high) =
        (row.iter().copied().fold(1.0, f64::min), row.iter().copied().fold(0.0, f64::max));
    assert!(high - low < 0.08, "{row:?}");
    let none: [&Trace; 0] = [];
    assert!(TileProbabilities::measure(none, grid, &viewport, gop).is_err());
    assert!(TileProbabilities::measure([&front], grid, &viewport, Duration::ZERO).is_err());
}

#[test]
fn viewers_are_divided_the_same_way_again() {
    let traces: Vec<Trace> =
        (0..20).map(|n| turning(&format!("v{}", n % 10), f64::from(n), 1.0, 1)).collect();
    let (fit, test) = split_viewers(&traces, 4, 1).unwrap();
    assert_eq!((fit.len(), test.len()), (6, 4));
    assert!(test.iter().all(|viewer| !fit.contains(viewer)));
    assert_eq!(split_viewers(&traces, 4, 1).unwrap(), (fit, test.clone()));
    assert!((2..6).any(|seed| split_viewers(&traces, 4, seed).unwrap().1 != test));
    assert!(split_viewers(&traces, 0, 1).is_err() && split_viewers(&traces, 10, 1).is_err());
}

#[test]
fn prediction_follows_a_turn_and_lets_it_die_away() {
    let settings = PredictorSettings::default();
    let mut predictor = Predictor::new(settings);
    let grid = Grid::default();
    let viewport = Viewport::new(FieldOfView::default());
    let prior = vec![1.0; 24];
    assert_eq!(predictor.orientation(secs(1.0)), None);
    assert_eq!(predictor.weights(grid, &viewport, secs(1.0), 0, &prior), prior);
    let trace = turning("ann", 170.0, 50.0, 1);
    for pose in trace.poses() {
        predictor.handle_pose(*pose);
    }
    // An older report that comes late changes nothing.
    predictor.handle_pose(trace.poses()[3]);
    let at = |horizon: f64| predictor.orientation(secs(1.0 + horizon)).unwrap();
    let turned = |horizon: f64| at(0.0).angle_to_deg(at(horizon));
    assert!(at(0.0).angle_to_deg(trace.at(secs(1.0))) < 1e-6);
    assert!((turned(0.1) - 50.0 * 0.5 * (1.0 - (-0.2_f64).exp())).abs() < 1e-6);
    assert!((turned(60.0) - 25.0).abs() < 1e-6, "all of a turn is v·τ");
    // Far ahead only the prior is left; near, what is in front of the eyes counts most.
    let far = predictor.weights(grid, &viewport, secs(1.0), 60, &prior);
    assert!(far.iter().all(|weight| (weight - 1.0).abs() < 1e-6), "{far:?}");
    let near = predictor.weights(grid, &viewport, secs(1.0), 1, &prior);
    let ahead = grid.tile_of(at(0.5).direction());
    let heaviest = (0..24).max_by(|&a, &b| near[a].total_cmp(&near[b])).unwrap();
    assert!(
        near[ahead] > 1.5 && near[heaviest] > near[ahead],
        "corners are drawn larger: {near:?}"
    );
    // Whatever is in view, its pixels are all there are.
    let shares = near.iter().enumerate().map(|(tile, weight)| weight * grid.solid_angle(tile));
    assert!((shares.sum::<f64>() / (4.0 * PI) - 1.0).abs() < 1e-6);
}

#[test]
fn synthetic_viewers_come_back_from_their_seed() {
    let crowd = SyntheticViewers::new(7, "reef");
    let trace = crowd.trace(3, secs(20.0)).unwrap();
    assert_eq!(trace, SyntheticViewers::new(7, "reef").trace(3, secs(20.0)).unwrap());
    assert_ne!(trace.poses(), crowd.trace(4, secs(20.0)).unwrap().poses());
    assert_ne!(
        trace.poses(),
        SyntheticViewers::new(8, "reef").trace(3, secs(20.0)).unwrap().poses()
    );
    assert_eq!(trace.end(), secs(20.0));
    // A longer trace begins like a shorter one.
    let longer = crowd.trace(3, secs(30.0)).unwrap();
    assert_eq!(&longer.poses()[..trace.poses().len()], trace.poses());
    assert!(crowd.trace(0, Duration::ZERO).is_err());
    assert!(crowd.trace(0, Duration::MAX).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_text_makes_a_loader_panic(
        text in "(t_s|yaw_deg|pitch_deg|x|y|z|qw|,|\n|-|[0-9]|\\.| |e|\\{|\"data\"|:|\\[){0,60}",
    ) {
        for (_, format) in Format::ALL {
            let _ = read(format, LABEL, &text);
        }
    }

    #[test]
    fn written_poses_come_back(
        poses in prop::collection::vec((-180.0..180.0, -89.0..89.0, -60.0..60.0), 2..20),
    ) {
        let mut text = "t_s,yaw_deg,pitch_deg,roll_deg\n".to_owned();
        for (index, (yaw, pitch, roll)) in poses.iter().enumerate() {
            text += &format!("{},{yaw},{pitch},{roll}\n", index as f64 / 10.0);
        }
        let trace = read(Format::Csv, LABEL, &text).unwrap().remove(0);
        for ((yaw, pitch, roll), pose) in poses.iter().zip(trace.poses()) {
            let wanted = Orientation::from_degrees(*yaw, *pitch, *roll);
            prop_assert!(pose.orientation.angle_to_deg(wanted) < 1e-6);
        }
    }
}
