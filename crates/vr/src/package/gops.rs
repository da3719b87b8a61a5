//! Which GoPs of a package are to be made, and how one that was made gets to its place.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::syncfs;
use weftline_video::live::Digest;
use weftline_video::metric::SphereWeights;

use super::encode::{EncodedRung, OpenGop};
use super::layer::Layer;
use super::parts::Cells;
use super::plan::Description;
use super::queue::{Encoded, Wanted};
use super::record::{Record, RungRecord};
use crate::error::VrError;

/// The GoPs of which `layers` are not finished, or not whole any more, or have a file with other bytes than
/// were written.
pub(super) fn missing(
    dir: &Path,
    plan: &Description,
    layers: &[Layer],
) -> Result<Vec<Wanted>, VrError> {
    let (mut missing, mut seen) = (Vec::new(), BTreeSet::new());
    for gop in 0..plan.gops {
        let mut wanted = Wanted { gop, layers: Vec::new() };
        // Without one there is nothing.
        let record = Record::read(dir, gop, plan)?.filter(|record| record.gop == gop);
        for &layer in layers {
            let is_whole = match &record {
                Some(record) => is_whole(record, layer, dir, plan, &mut seen)?,
                None => false,
            };
            if !is_whole {
                wanted.layers.push(layer);
            }
        }
        if !wanted.layers.is_empty() {
            missing.push(wanted);
        }
    }
    Ok(missing)
}

/// Whether a layer of a GoP has all that its record says. What its decoders are set up from all
/// GoPs share: where that is missing or spoiled, the first that asks makes it anew, and it is
/// removed.
fn is_whole(
    record: &Record,
    layer: Layer,
    dir: &Path,
    plan: &Description,
    seen: &mut BTreeSet<PathBuf>,
) -> Result<bool, VrError> {
    let inits = record.spoiled_inits(layer, dir, seen)?;
    for init in inits.iter().map(|file| dir.join(file)).filter(|path| path.exists()) {
        // This GoP's encoding makes it anew, and all others are as they should be.
        fs::remove_file(&init).map_err(VrError::io("remove", &init))?;
    }
    let is_itself = inits.is_empty() && record.own_flaw(layer, dir, plan).is_none();
    Ok(is_itself && record.spoiled(layer, dir)?.is_none())
}

/// Puts the segments of a GoP in their places, and then its record. What of it was not made anew stays.
pub(super) fn finish_gop(
    dir: &Path,
    plan: &Description,
    open: &OpenGop,
    mut encoded: Encoded,
) -> Result<(), VrError> {
    let mut put = |layer: Layer| {
        let (Some(plan), Some(rungs)) = (layer.plan(plan), encoded.remove(&layer)) else {
            return Ok(None);
        };
        put_rungs(dir, &plan, layer, open.gop, rungs).map(Some)
    };
    let (tiles, whole) = (put(Layer::Tiles)?, put(Layer::Whole)?);
    // One sync for some hundred files.
    let handle = File::open(dir).map_err(VrError::io("open", dir))?;
    syncfs(&handle).map_err(|error| VrError::io("write", dir)(error.into()))?;
    let before = Record::read(dir, open.gop, plan)?;
    let record = match (tiles, before) {
        (None, Some(before)) => before,
        (tiles, before) => {
            let cells = Cells::new(plan);
            let grey = cells.grey(plan, &SphereWeights::new(plan.frame()), open.luma());
            let grey = grey.map_err(|why| VrError::Invalid(why.to_string()))?;
            let whole = before.map_or_else(Vec::new, |before| before.whole);
            let tiles = tiles.unwrap_or_default();
            Record { gop: open.gop, tiles, side: Some(cells.side), grey, whole }
        }
    };
    let whole = match whole {
        Some(mut tiles) => tiles.pop().unwrap_or_default(),
        None => record.whole.clone(),
    };
    Record { whole, ..record }.write(dir)
}

/// Puts the segments of a GoP in their places. Returns what its record says of each tile.
pub(crate) fn put_rungs(
    dir: &Path,
    plan: &Description,
    layer: Layer,
    gop: u32,
    mut rungs: Vec<EncodedRung>,
) -> Result<Vec<Vec<RungRecord>>, VrError> {
    rungs.sort_by_key(|rung| rung.qp);
    let mut tiles = vec![Vec::with_capacity(rungs.len()); plan.grid().tiles()];
    for rung in &rungs {
        for (tile, encoded) in rung.tiles.iter().enumerate() {
            let rung_dir = dir.join(layer.rung_dir(tile, rung.qp));
            fs::create_dir_all(&rung_dir).map_err(VrError::io("make", &rung_dir))?;
            write_init(&dir.join(layer.init(tile, rung.qp)), &encoded.segments.init)?;
            let path = dir.join(layer.segment(tile, rung.qp, gop));
            let media = &encoded.segments.media;
            // What is as it should be may be in use: it is not cut, not even for a moment.
            if fs::read(&path).ok().as_ref() != Some(media) {
                fs::write(&path, media).map_err(VrError::io("write", &path))?;
            }
            tiles[tile].push(RungRecord {
                qp: rung.qp,
                bytes: encoded.segments.media.len() as u64,
                ws_mse: encoded.ws_mse,
                mixed_mse: Some(encoded.mixed_mse),
                parts: (layer == Layer::Tiles).then(|| encoded.parts.clone()),
                segment: Some(Digest::of(&encoded.segments.media)),
                init: Some(Digest::of(&encoded.segments.init)),
            });
        }
    }
    Ok(tiles)
}

/// All GoPs of a rung share what its decoder is set up from.
fn write_init(path: &Path, init: &[u8]) -> Result<(), VrError> {
    match fs::read(path) {
        Ok(found) if found == init => Ok(()),
        Ok(found) if found.len() >= init.len() => Err(VrError::damaged(
            path,
            "does not fit the segment that was encoded now: ffmpeg or x264 has changed; remove the \
             package and start anew",
        )),
        // Not there, or cut short.
        _ => fs::write(path, init).map_err(VrError::io("write", path)),
    }
}
