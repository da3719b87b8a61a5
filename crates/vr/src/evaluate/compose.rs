//! The pictures that a viewer's player shows: tiles of the rungs that arrived, and concealments.

use std::collections::BTreeSet;

use weftline_video::evaluate::Shown;

use crate::decode::DecodedGop;
use crate::error::VrError;
use crate::ffmpeg::Ffmpeg;
use crate::package::Package;

/// Decodes GoP `gop` with each tile as it is `shown`.
pub(crate) fn compose(
    ffmpeg: &Ffmpeg,
    package: &Package,
    gop: usize,
    shown: &[Shown],
) -> Result<DecodedGop, VrError> {
    let plan = package.description();
    // Where a tile does not come from this GoP, anything may be decoded in its place.
    let any = plan.qps().last().copied().unwrap_or_default();
    let qps = |of: usize| -> Vec<u8> {
        let qp = |shown: &Shown| match shown {
            Shown::Rung(qp) if of == gop => *qp,
            Shown::Stale { gop: old, qp } if *old == of => *qp,
            _ => any,
        };
        shown.iter().map(qp).collect()
    };
    let number = |gop: usize| u32::try_from(gop).unwrap_or(u32::MAX);
    let mut pictures = DecodedGop::decode(ffmpeg, package, number(gop), &qps(gop))?;
    let rect = |tile: usize| plan.grid().rect(tile, plan.frame());
    let old = shown.iter().filter_map(|shown| match shown {
        Shown::Stale { gop, .. } => Some(*gop),
        Shown::Grey | Shown::Rung(_) => None,
    });
    for of in old.collect::<BTreeSet<usize>>() {
        let decoded = DecodedGop::decode(ffmpeg, package, number(of), &qps(of))?;
        let last = decoded.picture(decoded.len() - 1);
        for (tile, shown) in shown.iter().enumerate() {
            if matches!(shown, Shown::Stale { gop, .. } if *gop == of) {
                pictures.freeze(rect(tile), Some(last));
            }
        }
    }
    for (tile, _) in shown.iter().enumerate().filter(|(_, shown)| **shown == Shown::Grey) {
        pictures.freeze(rect(tile), None);
    }
    Ok(pictures)
}
