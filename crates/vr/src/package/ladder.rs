//! A ladder by rates: for each rate the QP at which all tiles together take about so much.
//!
//! Some GoPs are encoded at a few QPs; between them the logarithm of the rate is taken for linear in the
//! QP, of which 6 double the quantiser's step. Tiles are encoded at constant QP all the same: so a GoP with
//! more in it takes more, and the rates are means.

use std::path::Path;

use super::encode::Workshop;
use super::plan::{Description, MAX_QP, PROBED};
use crate::error::VrError;

/// How many GoPs are, spread over the source.
const GOPS: u32 = 3;
/// A rate that no QP comes nearer to than by this factor cannot be had.
const FACTOR: f64 = 1.3;

/// The QPs for the plan's rates, ascending: those of the package in `dir` if it was begun for the same,
/// else those that GoPs say which are encoded in `work`.
pub(crate) fn choose(shop: &Workshop<'_>, dir: &Path, work: &Path) -> Result<Vec<u8>, VrError> {
    let plan = shop.plan;
    if let Some(found) = Description::read(dir)?.filter(|found| found.mbps == plan.mbps) {
        return Ok(found.qps);
    }
    let count = GOPS.min(plan.gops);
    let mut bytes = [0_u64; PROBED.len()];
    for at in 0..count {
        let gop = ((2 * u64::from(at) + 1) * u64::from(plan.gops) / (2 * u64::from(count))) as u32;
        let open = shop.open(gop, work.join(format!("ladder-{gop:06}")))?;
        for qps in shop.together() {
            for rung in shop.encode(&open, qps)? {
                let sum: usize = rung.tiles.iter().map(|tile| tile.segments.media.len()).sum();
                let place = PROBED.iter().position(|qp| *qp == rung.qp);
                bytes[place.expect("the plan's QPs are these")] += sum as u64;
            }
        }
    }
    let seconds = plan.gop_duration().as_secs_f64() * f64::from(count);
    let probed = bytes.map(|bytes| (bytes * 8) as f64 / seconds / 1e6);
    let mut qps = Vec::with_capacity(plan.mbps.len());
    for &mbps in &plan.mbps {
        let qp = nearest(mbps, &probed).map_err(VrError::Invalid)?;
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

/// The QP whose rate is nearest, by its ratio; `probed` has the rates at [`PROBED`].
fn nearest(mbps: f64, probed: &[f64; PROBED.len()]) -> Result<u8, String> {
    let ratio = |qp: u8| (rate_at(qp, probed) / mbps).ln().abs();
    let best = (1..=MAX_QP).min_by(|one, two| ratio(*one).total_cmp(&ratio(*two)));
    match best.filter(|qp| ratio(*qp) <= FACTOR.ln()) {
        Some(qp) => Ok(qp),
        None => Err(format!(
            "--ladder-mbps {mbps}: this source takes about {:.2} Mb/s at QP {MAX_QP} and {:.2} at QP 1",
            rate_at(MAX_QP, probed),
            rate_at(1, probed)
        )),
    }
}

/// What the frame takes at a QP, Mb/s: between two that were probed, or beyond the last two.
fn rate_at(qp: u8, probed: &[f64; PROBED.len()]) -> f64 {
    let pairs = PROBED.len() - 1;
    let at = (1..pairs).rev().find(|at| qp >= PROBED[*at]).unwrap_or(0);
    let [low, high] = [at, at + 1].map(|at| (f64::from(PROBED[at]), probed[at].max(1e-9).ln()));
    let slope = (high.1 - low.1) / (high.0 - low.0);
    (low.1 + slope * (f64::from(qp) - low.0)).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_qp_is_taken_and_what_cannot_be_had_is_told() {
        // A factor of 4 for each ten.
        let probed = [64.0, 16.0, 4.0, 1.0];
        for (mbps, qp) in [(64.0, 12), (16.0, 22), (8.0, 27), (4.3, 31), (1.0, 42), (0.5, 47)] {
            assert_eq!(nearest(mbps, &probed), Ok(qp), "{mbps}");
        }
        assert!((rate_at(7, &probed) / 128.0 - 1.0).abs() < 1e-9, "beyond what was probed");
        for mbps in [0.01, 1_000.0] {
            let why = nearest(mbps, &probed).unwrap_err();
            assert!(why.contains("takes about 0.29 Mb/s at QP 51 and 294"), "{why}");
        }
    }
}
