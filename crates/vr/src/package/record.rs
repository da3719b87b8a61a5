//! The record of a finished GoP: its part of the rate-distortion table. A GoP is finished when its
//! record is in place; all that it names was written before, and lasts.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weftline_core::ByteCount;
use weftline_video::evaluate::TileParts;
use weftline_video::live::Digest;
use weftline_video::live::wire::TileDigests;
use weftline_video::rd::{GopTable, RdError, Rung, TileTable};

use super::layer::Layer;
use super::plan::{Description, write_whole};
use crate::error::VrError;

/// What was measured of one GoP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) gop: u32,
    /// Tiles in raster order.
    pub(crate) tiles: Vec<Vec<RungRecord>>,
    /// The cells beside each other in a tile; not in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) side: Option<u32>,
    /// Of each tile, the shares of its cells in what grey loses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) grey: Vec<Vec<f64>>,
    /// The whole sphere, if the package has it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) whole: Vec<RungRecord>,
}

/// One encoding of one tile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RungRecord {
    pub(crate) qp: u8,
    /// The length of its segment.
    pub(crate) bytes: u64,
    /// Its part of the frame's WS-MSE.
    pub(crate) ws_mse: f64,
    /// The same where viewports mix their pixels; not in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) mixed_mse: Option<f64>,
    /// The shares of its cells in these two; not in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parts: Option<[Vec<f64>; 2]>,
    /// Of its segment, and of what its decoder is set up from; not in records of before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) segment: Option<Digest>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) init: Option<Digest>,
}

impl Record {
    fn path(dir: &Path, gop: u32) -> PathBuf {
        dir.join("gops").join(format!("{gop:06}.json"))
    }

    /// Reads the record of a GoP of `package`, if it is finished. Of the whole sphere it may have QPs that the
    /// package has not, or not yet: they are left out.
    pub(crate) fn read(
        dir: &Path,
        gop: u32,
        package: &Description,
    ) -> Result<Option<Self>, VrError> {
        let path = Self::path(dir, gop);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(VrError::io("read", &path)(error)),
        };
        // One that cannot be read counts for nothing: its GoP is done again.
        let mut record: Option<Self> = serde_json::from_str(&text).ok();
        if let Some(record) = &mut record {
            record.whole.retain(|rung| package.whole_qps().contains(&rung.qp));
        }
        Ok(record)
    }

    /// Puts the record in its place: with that, the GoP is finished.
    pub(crate) fn write(&self, dir: &Path) -> Result<(), VrError> {
        let text = serde_json::to_string(self).expect("it has only plain fields") + "\n";
        write_whole(&Self::path(dir, self.gop), text.as_bytes())
    }

    /// The encodings of a layer, each with its tile.
    fn rungs(&self, layer: Layer) -> impl Iterator<Item = (usize, &RungRecord)> {
        let tiles = match layer {
            Layer::Tiles => &self.tiles[..],
            Layer::Whole => std::slice::from_ref(&self.whole),
        };
        let tiles = tiles.iter().enumerate();
        tiles.flat_map(|(tile, rungs)| rungs.iter().map(move |rung| (tile, rung)))
    }

    /// What is wrong with the GoP's files of a layer, or with those that its decoders are set up
    /// from, if anything is.
    pub(crate) fn flaw(&self, layer: Layer, dir: &Path, package: &Description) -> Option<String> {
        let missing = || {
            let mut inits = self.rungs(layer).map(|(tile, rung)| layer.init(tile, rung.qp));
            let init = inits.find(|init| !dir.join(init).is_file())?;
            Some(format!("{} is missing", init.display()))
        };
        self.own_flaw(layer, dir, package).or_else(missing)
    }

    /// The same without the files that all GoPs share.
    pub(crate) fn own_flaw(
        &self,
        layer: Layer,
        dir: &Path,
        package: &Description,
    ) -> Option<String> {
        let qps = |rungs: &[RungRecord]| rungs.iter().map(|rung| rung.qp).collect::<Vec<_>>();
        let is_of_package = match layer {
            Layer::Tiles => {
                self.tiles.len() == package.grid().tiles()
                    && self.tiles.iter().all(|rungs| qps(rungs) == package.qps)
            }
            Layer::Whole => qps(&self.whole) == package.whole_qps(),
        };
        if !is_of_package {
            return Some(format!("the record of GoP {} is of another grid or ladder", self.gop));
        }
        for (tile, rung) in self.rungs(layer) {
            let file = layer.segment(tile, rung.qp, self.gop);
            let length = fs::metadata(dir.join(&file)).map(|file| file.len()).ok();
            if length != Some(rung.bytes) {
                let there = length.map_or("is missing".to_owned(), |n| format!("has {n} bytes"));
                let (file, bytes) = (file.display(), rung.bytes);
                return Some(format!("{file} {there} where {bytes} were written"));
            }
        }
        None
    }

    /// What was written of an encoding, if the record says it.
    pub(crate) fn digests(&self, tile: usize, qp: u8) -> Option<TileDigests> {
        let rung = self.tiles.get(tile)?.iter().find(|rung| rung.qp == qp)?;
        Some(TileDigests { init: rung.init?, segment: rung.segment? })
    }

    /// The first of a layer's segments that has other bytes than were written, as far as the record says what these
    /// were.
    pub(crate) fn spoiled(&self, layer: Layer, dir: &Path) -> Result<Option<PathBuf>, VrError> {
        for (tile, rung) in self.rungs(layer) {
            let file = layer.segment(tile, rung.qp, self.gop);
            if differs(&dir.join(&file), rung.segment)? {
                return Ok(Some(file));
            }
        }
        Ok(None)
    }

    /// Which files that a layer's decoders are set up from are missing or have other bytes than
    /// were written with this GoP, but for those in `seen`, which get all that were looked at.
    pub(crate) fn spoiled_inits(
        &self,
        layer: Layer,
        dir: &Path,
        seen: &mut BTreeSet<PathBuf>,
    ) -> Result<Vec<PathBuf>, VrError> {
        let mut spoiled = Vec::new();
        for (tile, rung) in self.rungs(layer) {
            let file = layer.init(tile, rung.qp);
            let is_there = dir.join(&file).is_file();
            let says = !is_there || rung.init.is_some();
            if says
                && seen.insert(file.clone())
                && (!is_there || differs(&dir.join(&file), rung.init)?)
            {
                spoiled.push(file);
            }
        }
        Ok(spoiled)
    }

    /// Takes the digests that are missing from the files as they are: those of packages of before.
    /// Returns whether there were any.
    pub(crate) fn complete(&mut self, dir: &Path) -> Result<bool, VrError> {
        let mut any = false;
        for (tile, rungs) in self.tiles.iter_mut().enumerate() {
            for rung in rungs.iter_mut().filter(|r| r.init.is_none() || r.segment.is_none()) {
                rung.init = Some(digest(&dir.join(Layer::Tiles.init(tile, rung.qp)))?);
                let segment = Layer::Tiles.segment(tile, rung.qp, self.gop);
                rung.segment = Some(digest(&dir.join(segment))?);
                any = true;
            }
        }
        Ok(any)
    }

    /// Where in the tiles their losses are, as they are (0) or where viewports mix their pixels (1), if
    /// that was measured.
    pub(crate) fn parts(&self, way: usize) -> Option<Vec<TileParts>> {
        let tile = |(rungs, grey): (&Vec<RungRecord>, &Vec<f64>)| {
            let rung = |rung: &RungRecord| Some((rung.qp, rung.parts.as_ref()?[way].clone()));
            let rungs = rungs.iter().map(rung).collect::<Option<_>>()?;
            Some(TileParts { rungs, grey: grey.clone() })
        };
        if self.grey.len() != self.tiles.len() {
            return None;
        }
        self.tiles.iter().zip(&self.grey).map(tile).collect()
    }

    /// Drops what [`Self::parts`] is made from: most of a record.
    pub(crate) fn forget_parts(&mut self) {
        self.grey = Vec::new();
        self.tiles.iter_mut().flatten().for_each(|rung| rung.parts = None);
    }

    /// Its part of the table.
    pub(crate) fn table(&self) -> Result<GopTable, RdError> {
        let tile = |rungs: &Vec<RungRecord>| {
            let rung = |r: &RungRecord| Rung {
                qp: r.qp,
                bytes: ByteCount::new(r.bytes),
                ws_mse: r.ws_mse,
                mixed_mse: r.mixed_mse,
            };
            TileTable::new(rungs.iter().map(rung).collect())
        };
        GopTable::new(self.tiles.iter().map(tile).collect::<Result<_, _>>()?)
    }
}

/// Whether a file has another digest than this one, if there is one.
pub(crate) fn differs(path: &Path, written: Option<Digest>) -> Result<bool, VrError> {
    written.map_or(Ok(false), |written| Ok(digest(path)? != written))
}

fn digest(path: &Path) -> Result<Digest, VrError> {
    Ok(Digest::of(&fs::read(path).map_err(VrError::io("read", path))?))
}
