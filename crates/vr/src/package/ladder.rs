//! A ladder by rates: for each rate the QP at which all tiles together take about so much.
//!
//! Some GoPs are encoded at a few QPs; between them the logarithm of the rate is taken for linear in the
//! QP, of which 6 double the quantiser's step. Where it is not (a QP more halves the rate of a picture whose
//! grain it swallows), that is off by two: so the QP that it says, and the next one on the other side of
//! the rate, are encoded too, until the nearest is known. Tiles are encoded at constant QP all the same: so
//! a GoP with more in it takes more, and the rates are means.

use std::collections::{BTreeMap, BTreeSet};

use std::path::Path;

use super::encode::Workshop;
use super::plan::{Description, MAX_QP, PROBED};
use crate::error::VrError;

/// How many GoPs are, spread over the source.
const GOPS: u32 = 3;
/// A rate that is further than by this factor beyond the finest or the coarsest QP cannot be had.
const FACTOR: f64 = 1.3;
/// Between two QPs there is nothing, and their rates are rarely closer than that: a QP whose rate is so near
/// is the nearest.
const NEAR: f64 = 1.06;
/// How often more QPs are tried.
const STEPS: usize = 8;

/// What the frame takes at the QPs that were tried, Mb/s: at all of [`PROBED`], and at some more.
type Tried = BTreeMap<u8, f64>;

/// The QPs for the plan's rates, ascending: those of the package in `dir` if it was begun for the same,
/// else those that GoPs say which are encoded in `work`.
pub(crate) fn choose(shop: &Workshop<'_>, dir: &Path, work: &Path) -> Result<Vec<u8>, VrError> {
    let plan = shop.plan;
    if let Some(found) = Description::read(dir)?.filter(|found| found.mbps == plan.mbps) {
        return Ok(found.qps);
    }
    let mut tried = Tried::new();
    let mut next: BTreeSet<u8> = PROBED.into_iter().collect();
    for _ in 0..STEPS {
        tried.extend(measure(shop, &next, work)?);
        // The same for rates beyond what can be had: so it is told by what QP 1 or 51 takes.
        next = plan.mbps.iter().filter_map(|mbps| to_try(*mbps, &tried)).collect();
        if next.is_empty() {
            break;
        }
    }
    let mut qps = Vec::with_capacity(plan.mbps.len());
    for &mbps in &plan.mbps {
        let qp = nearest(mbps, &tried).map_err(VrError::Invalid)?;
        if qps.contains(&qp) {
            return Err(VrError::Invalid(format!(
                "--ladder-mbps: {mbps} and another rate are both nearest to QP {qp}; take rates that \
                 are further apart"
            )));
        }
        qps.push(qp);
    }
    qps.sort_unstable();
    Ok(qps)
}

/// What the frame takes at these QPs in some GoPs, Mb/s.
fn measure(shop: &Workshop<'_>, qps: &BTreeSet<u8>, work: &Path) -> Result<Tried, VrError> {
    let plan = shop.plan;
    let count = GOPS.min(plan.gops);
    let seconds = plan.gop_duration().as_secs_f64() * f64::from(count);
    let list: Vec<u8> = qps.iter().copied().collect();
    let mut tried = Tried::new();
    for at in 0..count {
        let gop = ((2 * u64::from(at) + 1) * u64::from(plan.gops) / (2 * u64::from(count))) as u32;
        let open = shop.open(gop, work.join(format!("ladder-{gop:06}")))?;
        for qps in shop.together(&list) {
            for rung in shop.encode(&open, qps)? {
                let bytes: usize = rung.tiles.iter().map(|tile| tile.segments.media.len()).sum();
                *tried.entry(rung.qp).or_default() += (bytes * 8) as f64 / seconds / 1e6;
            }
        }
    }
    Ok(tried)
}

/// The QP that is still to be tried for a rate: the one that seems nearest, or if that was, the next one on
/// the other side of the rate; `None` if the nearest is known.
fn to_try(mbps: f64, tried: &Tried) -> Option<u8> {
    let best = seems_nearest(mbps, tried);
    let Some(rate) = tried.get(&best) else { return Some(best) };
    let other = if *rate > mbps { best + 1 } else { best - 1 };
    let is_near = (rate / mbps).ln().abs() <= NEAR.ln();
    (!is_near && (1..=MAX_QP).contains(&other) && !tried.contains_key(&other)).then_some(other)
}

fn seems_nearest(mbps: f64, tried: &Tried) -> u8 {
    let ratio = |qp: u8| (rate_at(qp, tried) / mbps).ln().abs();
    (1..=MAX_QP).min_by(|one, two| ratio(*one).total_cmp(&ratio(*two))).unwrap_or(MAX_QP)
}

/// The QP whose rate is nearest, by its ratio.
fn nearest(mbps: f64, tried: &Tried) -> Result<u8, String> {
    let [low, high] = [MAX_QP, 1].map(|qp| rate_at(qp, tried));
    if mbps * FACTOR >= low && mbps <= high * FACTOR {
        return Ok(seems_nearest(mbps, tried));
    }
    Err(format!(
        "--ladder-mbps {mbps}: this source takes about {low:.2} Mb/s at QP {MAX_QP} and {high:.2} at QP 1"
    ))
}

/// What the frame takes at a QP, Mb/s: as tried, between two that were, or beyond the last two.
fn rate_at(qp: u8, tried: &Tried) -> f64 {
    let points: Vec<(f64, f64)> =
        tried.iter().map(|(qp, mbps)| (f64::from(*qp), mbps.max(1e-9).ln())).collect();
    let (Some(&first), Some(&last)) = (points.first(), points.last()) else { return 0.0 };
    let qp = f64::from(qp);
    let at = points.partition_point(|(known, _)| *known <= qp).clamp(1, points.len().max(2) - 1);
    let (low, high) = match points.get(at) {
        Some(&high) => (points[at - 1], high),
        None => (first, last),
    };
    // One QP more takes less, if by next to nothing.
    let slope = if high.0 > low.0 { (high.1 - low.1) / (high.0 - low.0) } else { 0.0 };
    (low.1 + slope * (qp - low.0)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(mbps: [f64; 4]) -> Tried {
        PROBED.into_iter().zip(mbps).collect()
    }

    #[test]
    fn the_nearest_qp_is_taken_and_what_cannot_be_had_is_told() {
        // A factor of 4 for each ten.
        let tried = probed([64.0, 16.0, 4.0, 1.0]);
        for (mbps, qp) in [(64.0, 12), (16.0, 22), (8.0, 27), (4.3, 31), (1.0, 42), (0.5, 47)] {
            assert_eq!(nearest(mbps, &tried), Ok(qp), "{mbps}");
        }
        assert!((rate_at(7, &tried) / 128.0 - 1.0).abs() < 1e-9, "beyond what was probed");
        assert!((rate_at(22, &tried) / 16.0 - 1.0).abs() < 1e-9, "as tried");
        for mbps in [0.01, 1_000.0] {
            let why = nearest(mbps, &tried).unwrap_err();
            assert!(why.contains("takes about 0.29 Mb/s at QP 51 and 294"), "{why}");
        }
    }

    /// A clip with grain that is swallowed between QP 18 and 22, where one QP more nearly halves the rate:
    /// what is really nearest is found, in a few steps, for any rate.
    #[test]
    fn where_the_rate_is_steep_the_qps_around_it_are_tried() {
        let truth = |qp: u8| match qp {
            0..=18 => 4.36 * 1.12_f64.powi(18 - i32::from(qp)),
            19..=22 => 4.36 * 0.58_f64.powi(i32::from(qp) - 18),
            _ => 4.36 * 0.58_f64.powi(4) * 0.93_f64.powi(i32::from(qp) - 22),
        };
        for step in 0..60 {
            let mbps = 0.1 * 1.07_f64.powi(step);
            let mut tried = probed(PROBED.map(truth));
            let mut more = 0;
            while let Some(qp) = to_try(mbps, &tried) {
                assert!(tried.insert(qp, truth(qp)).is_none(), "QP {qp} twice");
                more += 1;
            }
            let ratio = |qp: u8| (truth(qp) / mbps).ln().abs();
            let best = (1..=MAX_QP).min_by(|a, b| ratio(*a).total_cmp(&ratio(*b))).unwrap();
            let got = nearest(mbps, &tried).unwrap();
            assert!(ratio(got) <= ratio(best).max(NEAR.ln()), "{mbps}: QP {got}, not {best}");
            assert!(more < STEPS, "{mbps}: {more} tried");
        }
    }
}
