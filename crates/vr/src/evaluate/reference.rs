//! The fast path against the rendered reference. The fast path weighs the tiles' WS-MSEs by their shares
//! of the viewport; the reference is viewports that are drawn from the original and from the decoded
//! tiles.
//!
//! What the fast path leaves out: the error of a tile's cell is not the same all over it, and not in all
//! pictures of a GoP; in packages without cells, a tile's is not the same all over the tile. A viewport
//! whose pixels are the frame's nearest ones shows the tiles' WS-MSE.
//! One that mixes each pixel from four smooths errors away: by 10·log₁₀(9/4) = 3.5 dB if neighbours
//! err independently (at a fine QP, or in small frames), by less if they err alike; it shows what
//! the package's table has as `mixed_mse`. All schemes gain by that, the finer ones more. Both ways
//! are checked, each against its own sums.

use std::collections::BTreeMap;

use rayon::prelude::*;
use weftline_core::ByteCount;
use weftline_core::rng::Rng;
use weftline_video::evaluate::{Concealment, PSNR_CEILING_DB, Shown, rate_for};
use weftline_video::geometry::{Direction, FieldOfView, Grid, Orientation};
use weftline_video::head::times_of;
use weftline_video::live::Pose;
use weftline_video::metric::{Camera, Plane, ViewportMap, mse_of_psnr_db, psnr_db};
use weftline_video::ows::Entry;

use super::compose::compose;
use super::{Audience, One, Rates, Scene, Settings, Transport, bitrate};
use crate::decode::DecodedGop;
use crate::error::VrError;
use crate::ffmpeg::Ffmpeg;
use crate::package::Package;
use crate::source::Source;

/// What is checked.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// How many GoPs, drawn at random.
    pub gops: usize,
    /// The tile schemes that choose the rungs.
    pub schemes: Vec<&'static Entry>,
    /// Shares of what the finest rungs of all tiles take, at which rates are planned for.
    pub shares: Vec<f64>,
    /// Width of the viewport's pixels in those of the frame.
    pub pixel: f64,
    /// Of the draw.
    pub seed: u64,
}

/// How far the fast path is off the rendered reference in one GoP for one viewer: positive where it
/// promises more.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gap {
    /// The GoP.
    pub gop: usize,
    /// The scheme.
    pub scheme: &'static str,
    /// The share of the finest rate that was planned for.
    pub share: f64,
    /// The viewer, as an index into the audience.
    pub viewer: usize,
    /// The PSNR of the poses' mean MSE, for each [`Drawn`]: the fast path's, and that of viewports
    /// drawn so.
    pub of_mean_db: [[f64; 2]; 2],
    /// The mean over the poses of their PSNR: the same.
    pub mean_db: [[f64; 2]; 2],
}

/// How a viewport is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drawn {
    /// From the nearest pixels of the frame.
    Nearest,
    /// Each pixel mixed from four of the frame.
    Bilinear,
}

/// All gaps of a package.
#[derive(Clone, Debug)]
pub struct Check {
    /// The package's name.
    pub scene: String,
    /// One for each GoP, scheme, rate and viewer.
    pub gaps: Vec<Gap>,
}

impl Check {
    /// Mean, mean without sign, and worst without sign of the gaps of dB of the mean MSE.
    pub fn of_mean_db(&self, drawn: Drawn) -> [f64; 3] {
        summary(self.gaps.iter().map(|gap| gap.of_mean_db), drawn)
    }

    /// The same of the mean of dB.
    pub fn mean_db(&self, drawn: Drawn) -> [f64; 3] {
        summary(self.gaps.iter().map(|gap| gap.mean_db), drawn)
    }
}

fn summary(values: impl Iterator<Item = [[f64; 2]; 2]>, drawn: Drawn) -> [f64; 3] {
    let gaps =
        values.map(|values| values[drawn as usize]).map(|[fast, reference]| fast - reference);
    let gaps: Vec<f64> = gaps.collect();
    let mean = |value: fn(f64) -> f64| {
        gaps.iter().map(|gap| value(*gap)).sum::<f64>() / gaps.len().max(1) as f64
    };
    [mean(|gap| gap), mean(f64::abs), gaps.iter().fold(0.0, |most: f64, gap| most.max(gap.abs()))]
}

/// What is shown in one GoP under one plan.
struct Case {
    gop: usize,
    scheme: &'static str,
    share: f64,
    shown: Vec<Shown>,
    /// Of each tile where pixels are the nearest ones, and where they are mixed.
    losses: [Vec<f64>; 2],
}

/// Compares both paths for some GoPs of a package and all of an audience.
///
/// # Errors
/// If nothing can be planned, ffmpeg fails, or the package's table does not say what viewports of
/// mixed pixels show.
pub fn check(
    ffmpeg: &Ffmpeg,
    package: &Package,
    source: &Source,
    audience: &Audience,
    options: &CheckOptions,
) -> Result<Check, VrError> {
    let scene = Scene::of(package)?;
    let gops = sample(scene.table.gops().len(), options.gops, options.seed);
    let mut by_gop: BTreeMap<usize, Vec<Case>> = BTreeMap::new();
    for case in cases(&scene, audience, options, &gops)? {
        by_gop.entry(case.gop).or_default().push(case);
    }
    let cells = scene.cells()?;
    let parts = [scene.parts.clone(), scene.mixed()?.parts];
    let mut gaps = Vec::new();
    for (gop, cases) in by_gop {
        let number = u32::try_from(gop).unwrap_or(u32::MAX);
        let original = DecodedGop::original(ffmpeg, package, source, number)?;
        for case in cases {
            let decoded = compose(ffmpeg, package, gop, &case.shown)?;
            let spread = |way: usize| match &parts[way] {
                Some(parts) => parts.spread(gop, &case.shown, &case.losses[way]),
                None => case.losses[way].clone(),
            };
            let per_pixel = [0, 1].map(|way| per_pixel(cells, &spread(way)));
            let viewers: Vec<_> = audience.viewers.iter().enumerate().collect();
            let compared = viewers.into_par_iter().map(|(viewer, (trace, views))| {
                let fast = per_pixel.each_ref().map(|per_pixel: &Vec<f64>| {
                    let seen = |share: &Vec<f64>| -> f64 {
                        share.iter().zip(per_pixel).map(|(s, e)| s * e).sum()
                    };
                    views.poses(gop).iter().map(seen).collect()
                });
                let plan = package.description();
                let start = plan.gop_duration() * number;
                let poses = times_of(plan.gop_duration(), number)
                    .map(|at| Pose { at: at.saturating_sub(start), orientation: trace.at(at) });
                let look = Look { fov: FieldOfView::default(), pixel: options.pixel };
                let reference = rendered(package, poses, look, &original, &decoded)?;
                let [of_mean_db, mean_db] = decibels(&fast, &reference);
                let Case { scheme, share, .. } = case;
                Ok(Gap { gop, scheme, share, viewer, of_mean_db, mean_db })
            });
            gaps.extend(compared.collect::<Result<Vec<Gap>, VrError>>()?);
        }
    }
    Ok(Check { scene: scene.name, gaps })
}

/// Some of `all` GoPs, drawn at random, in their order: `count` of them, but one at least.
pub fn sample(all: usize, count: usize, seed: u64) -> Vec<usize> {
    let mut gops: Vec<usize> = (0..all).collect();
    let mut rng = Rng::stream(seed, "vr/check/gops");
    while gops.len() > count.max(1) {
        let out = rng.below(gops.len() as u64) as usize;
        gops.remove(out);
    }
    gops
}

/// The plans at constant rates, of which the shares are left for segments: all that is sent arrives, and
/// tiles that are not sent are grey.
fn cases(
    scene: &Scene,
    audience: &Audience,
    options: &CheckOptions,
    gops: &[usize],
) -> Result<Vec<Case>, VrError> {
    let settings = Settings {
        schemes: Vec::new(),
        concealments: Vec::new(),
        warm_up: 1,
        search_units: weftline_video::ows::SearchBudget::DEFAULT_UNITS,
    };
    let mixed = scene.mixed()?.table;
    // What is compared are pictures: nothing else is to take a part of the rates.
    let scene = &Scene { init: ByteCount::ZERO, ..scene.clone() };
    let (tiles, gop) = (scene.grid()?.tiles(), scene.table.gop_duration());
    let played_s = scene.table.gop_duration().as_secs_f64() * scene.table.gops().len() as f64;
    let mut cases = Vec::new();
    for &share in &options.shares {
        let segments = bitrate(scene.finest_mbps() * share).bytes_in(gop);
        let mbps = rate_for(segments, tiles, gop).as_mbps_f64();
        let mbps = vec![vec![mbps]; 2 + played_s.ceil() as usize];
        let rates = Rates::new("check", Transport::LinuxMptcp, 0, &mbps, 1.0)?;
        for &scheme in &options.schemes {
            let concealment = Concealment::Grey;
            let one = One { scene, audience, rates: &rates, scheme, concealment };
            one.play(&settings, &mut |detail| {
                if gops.contains(&detail.gop) {
                    let (gop, shown) = (detail.gop, detail.shown.to_vec());
                    let tiles = mixed.gops()[gop].tiles();
                    let loss = |tile: usize| match shown[tile] {
                        Shown::Rung(qp) => tiles[tile].at_qp(qp).map(|rung| rung.ws_mse),
                        Shown::Grey | Shown::Stale { .. } => None,
                    };
                    let plain = detail.losses.to_vec();
                    let smooth = (0..plain.len()).map(|t| loss(t).unwrap_or(plain[t])).collect();
                    let losses = [plain, smooth];
                    cases.push(Case { gop, scheme: scheme.name, share, shown, losses });
                }
            })?;
        }
    }
    Ok(cases)
}

/// The error of a pixel in each cell, where the cells lose these parts of the frame's WS-MSE.
pub(super) fn per_pixel(cells: Grid, losses: &[f64]) -> Vec<f64> {
    let sphere = 4.0 * std::f64::consts::PI;
    let losses = losses.iter().enumerate();
    losses.map(|(cell, loss)| loss * sphere / cells.solid_angle(cell)).collect()
}

/// What a viewport is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    /// What it spans.
    pub(super) fov: FieldOfView,
    /// The width of its pixels in those of the frame.
    pub(super) pixel: f64,
}

/// The MSE of the viewport at each of these poses in a GoP, drawn in both ways.
pub(super) fn rendered(
    package: &Package,
    poses: impl IntoIterator<Item = Pose>,
    look: Look,
    original: &DecodedGop,
    decoded: &DecodedGop,
) -> Result<[Vec<f64>; 2], VrError> {
    let plan = package.description();
    let wrong = |why: weftline_video::metric::MetricError| VrError::Invalid(why.to_string());
    let camera = Camera::for_frame(look.fov, plan.frame(), look.pixel).map_err(wrong)?;
    let mut map: Option<ViewportMap> = None;
    let [mut nearest, mut bilinear] = [Vec::new(), Vec::new()];
    for Pose { at, orientation } in poses {
        let map = map.get_or_insert_with(|| ViewportMap::new(camera, orientation, plan.frame()));
        map.turn_to(orientation);
        let picture = plan.rate().frame_at(at).min(original.len() - 1);
        let (original, decoded) = (original.picture(picture), decoded.picture(picture));
        bilinear.push(map.mse(original, decoded).map_err(wrong)?);
        nearest.push(nearest_mse(camera, orientation, original, decoded));
    }
    Ok([nearest, bilinear])
}

/// Every so many pixels of a viewport's rows and columns count for its error by nearest pixels.
const EVERY: usize = 2;

/// The MSE of a viewport whose pixels are the frame's nearest ones.
fn nearest_mse(
    camera: Camera,
    orientation: Orientation,
    original: Plane<'_>,
    decoded: Plane<'_>,
) -> f64 {
    let (half_width, half_height) = camera.fov().half_sides();
    let place = |index: u32, of: u32| 1.0 - (2.0 * f64::from(index) + 1.0) / f64::from(of);
    let (mut sum, mut count) = (0_u64, 0_u64);
    for row in (0..camera.height()).step_by(EVERY) {
        let up = half_height * place(row, camera.height());
        for column in (0..camera.width()).step_by(EVERY) {
            let left = half_width * place(column, camera.width());
            let Some(ray) = Direction::new(1.0, left, up) else { continue };
            let (across, down) = orientation.turn(ray).frame_position();
            // The right and the lower edge belong to the last pixels.
            let pixel = |share: f64, side: u32| ((share * f64::from(side)) as u32).min(side - 1);
            let (x, y) = (pixel(across, original.width()), pixel(down, original.height()));
            let sample = |plane: Plane<'_>| plane.row(y)[x as usize];
            let error = u64::from(sample(original).abs_diff(sample(decoded)));
            sum += error * error;
            count += 1;
        }
    }
    sum as f64 / count.max(1) as f64
}

/// The PSNR of the mean, and the mean of the PSNRs, of the fast path and of the reference.
pub(super) fn decibels(fast: &[Vec<f64>; 2], reference: &[Vec<f64>; 2]) -> [[[f64; 2]; 2]; 2] {
    let capped = |mse: f64| psnr_db(mse.max(mse_of_psnr_db(PSNR_CEILING_DB)));
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
    let of_mean = |errors: &Vec<f64>| capped(mean(errors));
    let of_each =
        |errors: &Vec<f64>| mean(&errors.iter().map(|error| capped(*error)).collect::<Vec<_>>());
    let both =
        |of: &dyn Fn(&Vec<f64>) -> f64| [0, 1].map(|way| [of(&fast[way]), of(&reference[way])]);
    [both(&of_mean), both(&of_each)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_error_is_the_same_however_it_is_drawn() {
        let (original, decoded) = (vec![100; 64 * 32], vec![103; 64 * 32]);
        let plane = |data| Plane::new(data, 64, 32, 64).unwrap();
        let camera = Camera::new(FieldOfView::default(), 20, 20).unwrap();
        let head = Orientation::from_degrees(170.0, 60.0, 10.0);
        let mse = nearest_mse(camera, head, plane(&original), plane(&decoded));
        assert_eq!(mse, 9.0);
        let fast = [vec![9.0, 9.0], vec![4.0, 4.0]];
        let [of_mean, of_each] = decibels(&fast, &[vec![9.0, 36.0], vec![0.0, 9.0]]);
        let close = |got: f64, wanted: f64| assert!((got - wanted).abs() < 1e-9, "{got} {wanted}");
        close(of_mean[0][0], psnr_db(9.0));
        close(of_mean[0][1], psnr_db(22.5));
        close(of_each[0][1], psnr_db(18.0));
        close(of_each[1][0], psnr_db(4.0));
        close(of_each[1][1], (PSNR_CEILING_DB + psnr_db(9.0)) / 2.0);
    }

    #[test]
    fn gaps_are_summed_up_with_and_without_their_sign() {
        let gap = |fast: f64| Gap {
            gop: 0,
            scheme: "fix",
            share: 0.4,
            viewer: 0,
            of_mean_db: [[fast, 30.0], [fast + 1.0, 31.0]],
            mean_db: [[fast, 30.5], [fast, 33.0]],
        };
        let check = Check { scene: String::new(), gaps: vec![gap(30.2), gap(29.6)] };
        let close = |got: [f64; 3], wanted: [f64; 3]| {
            got.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-9)
        };
        assert!(close(check.of_mean_db(Drawn::Nearest), [-0.1, 0.3, 0.4]));
        assert!(close(check.of_mean_db(Drawn::Bilinear), [-0.1, 0.3, 0.4]));
        assert!(close(check.mean_db(Drawn::Nearest), [-0.6, 0.6, 0.9]));
        assert!(close(check.mean_db(Drawn::Bilinear), [-3.1, 3.1, 3.4]));
    }
}
