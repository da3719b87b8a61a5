//! Against recorded traces. Run with `WEFTLINE_DATA` naming a folder that has `head-traces/` in it,
//! reductions of AVTrack360 and Nasrabadi 2019 to CSV, and `--nocapture` for the tables.

use std::path::PathBuf;
use std::process::Command;

use super::*;

/// The recorded traces of both sets; `None`, said so, where they are not at hand.
fn recorded() -> Option<[Vec<Trace>; 2]> {
    let named = std::env::var_os("WEFTLINE_DATA").map(PathBuf::from);
    let beside = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let folder = named.unwrap_or(beside).join("head-traces");
    if !folder.is_dir() {
        println!("skipped; run with WEFTLINE_DATA=<folder with head-traces/>");
        return None;
    }
    let sets = [
        (Format::Avtrack360, "avtrack360.csv.gz"),
        (Format::Nasrabadi2019, "nasrabadi2019.csv.gz"),
    ];
    Some(sets.map(|(format, file)| {
        let unpacked = Command::new("gzip").arg("-dc").arg(folder.join(file)).output().unwrap();
        let text = String::from_utf8(unpacked.stdout).unwrap();
        read(format, LABEL, &text).unwrap()
    }))
}

fn synthetic(videos: u32, viewers: u32) -> Vec<Trace> {
    let crowds = (0..videos).map(|video| SyntheticViewers::new(1, &format!("scene-{video}")));
    crowds
        .flat_map(|crowd| (0..viewers).map(move |viewer| crowd.trace(viewer, secs(30.0)).unwrap()))
        .collect()
}

/// The statistics by which motion is compared: quantiles 25, 50, 75 and 90 %.
fn statistics(traces: &[Trace]) -> Vec<(&'static str, [f64; 4])> {
    let step = secs(0.2);
    let moved = |apart: u32| {
        let of = |trace: &Trace| {
            let count = (trace.end().as_millis() / 200) as u32 - apart;
            let places = (0..count).map(|n| {
                let (from, to) = (trace.at(step * n), trace.at(step * (n + apart)));
                from.direction().angle_to_deg(to.direction())
            });
            places.collect::<Vec<f64>>()
        };
        traces.iter().flat_map(of).collect::<Vec<f64>>()
    };
    let speeds: Vec<f64> = moved(1).iter().map(|angle| angle / 0.2).collect();
    let poses = || traces.iter().flat_map(Trace::poses).map(|pose| pose.orientation.direction());
    let pitch: Vec<f64> = poses().map(|d| d.pitch_deg().abs()).collect();
    let yaw: Vec<f64> = poses().map(|d| d.yaw_deg().abs()).collect();
    let dwell = traces.iter().flat_map(dwells).collect();
    let mut apart = Vec::new();
    for (index, one) in traces.iter().enumerate() {
        for other in traces[index + 1..].iter().filter(|other| other.video() == one.video()) {
            for time in [10.0, 20.0, 28.0].map(secs) {
                let (a, b) = (one.at(time).direction(), other.at(time).direction());
                apart.push(a.angle_to_deg(b));
            }
        }
    }
    vec![
        ("speed, °/s over 0.2 s", quantiles(speeds)),
        ("moved in 1 s, °", quantiles(moved(5))),
        ("moved in 3 s, °", quantiles(moved(15))),
        ("yaw from the front, °", quantiles(yaw)),
        ("pitch from the horizon, °", quantiles(pitch)),
        ("dwell within 15°, s", quantiles(dwell)),
        ("between two viewers, °", quantiles(apart)),
    ]
}

/// How long a head stays within 15° of where it was when it last left.
fn dwells(trace: &Trace) -> Vec<f64> {
    let mut found = Vec::new();
    let mut anchor = (0.0, trace.at(Duration::ZERO).direction());
    for tenth in 0..(trace.end().as_millis() / 100) as u32 {
        let time = f64::from(tenth) / 10.0;
        let now = trace.at(secs(time)).direction();
        if now.angle_to_deg(anchor.1) > 15.0 {
            found.push(time - anchor.0);
            anchor = (time, now);
        }
    }
    found
}

fn quantiles(mut values: Vec<f64>) -> [f64; 4] {
    values.sort_by(f64::total_cmp);
    [0.25, 0.5, 0.75, 0.9].map(|share| values[(share * (values.len() - 1) as f64) as usize])
}

#[test]
fn synthetic_viewers_move_like_recorded_ones() {
    let Some([avtrack, nasrabadi]) = recorded() else { return };
    let made = statistics(&synthetic(10, 16));
    let (avtrack, nasrabadi) = (statistics(&avtrack), statistics(&nasrabadi));
    let cell = |q: [f64; 4]| q.map(|value| format!("{value:.1}")).join(" / ");
    for ((made, avtrack), nasrabadi) in made.iter().zip(&avtrack).zip(&nasrabadi) {
        let name = made.0;
        println!("//! | {name} | {} | {} | {} |", cell(avtrack.1), cell(nasrabadi.1), cell(made.1));
    }
    for (made, avtrack) in made.iter().zip(&avtrack) {
        let name = made.0;
        for (place, (is, wanted)) in made.1.iter().zip(&avtrack.1).enumerate() {
            let error = (is - wanted).abs();
            assert!(error <= 0.3 * wanted + 3.0, "{name}, quantile {place}: {is} for {wanted}");
        }
    }
}

/// The share of the viewport's pixels that the `count` tiles show which should have most of them by
/// `weights`, on average over the GoP.
fn covered(trace: &Trace, viewport: &Viewport, gop: u32, weights: &[f64], count: usize) -> f64 {
    let mut order: Vec<usize> = (0..weights.len()).collect();
    let expected = |tile: usize| weights[tile] * Grid::default().solid_angle(tile);
    order.sort_by(|&a, &b| expected(b).total_cmp(&expected(a)).then(a.cmp(&b)));
    let mut sum = 0.0;
    for tenth in 0..5 {
        let at = secs(f64::from(gop) + 0.1 + 0.2 * f64::from(tenth));
        let share = viewport.visibility(Grid::default(), trace.at(at)).share;
        sum += order[..count].iter().map(|&tile| share[tile]).sum::<f64>() / 5.0;
    }
    sum
}

/// How long before a GoP begins its tiles are chosen, in seconds.
const LEADS: [f64; 3] = [0.25, 1.0, 2.0];

/// The sum over GoPs of half of the viewers of one video, for each lead and each predictor, and
/// last for P(t) alone; and the number of GoPs.
fn coverage(
    traces: &[&Trace],
    settings: &[PredictorSettings],
    gops: impl Iterator<Item = u32> + Clone,
) -> (Vec<[f64; 3]>, u32) {
    let (grid, viewport) = (Grid::default(), Viewport::new(FieldOfView::default()));
    let (fit, test) = traces.split_at(traces.len() / 2);
    let fit = fit.iter().copied();
    let prior = TileProbabilities::measure(fit, grid, &viewport, secs(1.0)).unwrap();
    let mut sums = vec![[0.0; 3]; settings.len() + 1];
    let mut count = 0;
    for (trace, gop) in test.iter().flat_map(|trace| gops.clone().map(move |gop| (trace, gop))) {
        let prior = prior.weights(gop as usize);
        for (place, lead) in LEADS.into_iter().enumerate() {
            let now = secs(f64::from(gop) - lead);
            for (sum, settings) in sums.iter_mut().zip(settings) {
                let mut predictor = Predictor::new(*settings);
                let heard = trace.poses().iter().filter(|pose| pose.at <= now);
                heard.for_each(|pose| predictor.handle_pose(*pose));
                let weights = predictor.weights(grid, &viewport, secs(1.0), gop, &prior);
                sum[place] += covered(trace, &viewport, gop, &weights, 8);
            }
            sums.last_mut().unwrap()[place] += covered(trace, &viewport, gop, &prior, 8);
        }
        count += 1;
    }
    (sums, count)
}

/// Over the 432 GoPs of each set that the figures of [`Predictor`] are of: of 48 the one may win or the
/// other.
#[test]
fn blending_covers_more_than_either_alone() {
    let Some(sets) = recorded() else { return };
    let base = PredictorSettings::default();
    let never = Duration::from_secs(1_000_000);
    let settings = [
        PredictorSettings { turn_decay: Duration::ZERO, trust_horizon: never, ..base },
        PredictorSettings { trust_horizon: never, ..base },
        base,
    ];
    for (set, name) in sets.iter().zip(["AVTrack360", "Nasrabadi 2019"]) {
        let mut videos: Vec<&str> = set.iter().map(Trace::video).collect();
        videos.sort_unstable();
        videos.dedup();
        videos.truncate(6);
        let mut sums = vec![[0.0; 3]; settings.len() + 1];
        let mut count = 0;
        for video in videos {
            let traces: Vec<&Trace> = set.iter().filter(|t| t.video() == video).collect();
            let (parts, gops) = coverage(&traces[..24], &settings, (4..28).step_by(4));
            for (sum, part) in sums.iter_mut().zip(parts) {
                sum.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
            }
            count += gops;
        }
        let mean = sums.iter().map(|sum| sum.map(|sum| sum / f64::from(count)));
        let mean: Vec<[f64; 3]> = mean.collect();
        let row =
            |values: [f64; 3]| values.map(|value| format!("{:.1}", 100.0 * value)).join(" | ");
        println!("{name}, leads {LEADS:?} s");
        println!("//! | last pose | {} |", row(mean[0]));
        println!("//! | with its velocity | {} |", row(mean[1]));
        println!("//! | P(t) | {} |", row(mean[settings.len()]));
        println!("//! | blend | {} |", row(mean[2]));
        for lead in 0..3 {
            let best = mean[0][lead].max(mean[settings.len()][lead]);
            assert!(mean[2][lead] > best, "{name}, {} s: {mean:?}", LEADS[lead]);
        }
    }
}
