//! The files of a live source's GoPs, as long as a player may ask for them.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use weftline_video::live::MAX_OPEN_GOPS;
use weftline_video::live::wire::TileDigests;

use super::sound::SoundSegment;
use crate::error::VrError;
use crate::package::{Description, EncodedRung, Record, put_rungs, sound_init, sound_segment};

/// GoPs that are kept: no player has more of them open.
pub(crate) const KEPT: u32 = MAX_OPEN_GOPS;

/// A directory of files like those of a package, gone at the end.
#[derive(Debug)]
pub(crate) struct Store {
    dir: tempfile::TempDir,
    /// Tiles of one GoP are written at a time: all GoPs share what decoders are set up from.
    writes: Mutex<()>,
}

impl Store {
    pub(crate) fn new() -> Result<Self, VrError> {
        let made = tempfile::Builder::new().prefix("weftline-live-").tempdir();
        let dir = made.map_err(VrError::io("make a directory in", &std::env::temp_dir()))?;
        Ok(Self { dir, writes: Mutex::default() })
    }

    /// A place in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The file of a tile's GoP, and that which its decoder is set up from.
    pub(crate) fn tile(&self, tile: usize, qp: u8, gop: u32) -> [PathBuf; 2] {
        let [init, media] = [Description::init(tile, qp), Description::segment(tile, qp, gop)];
        [self.dir.path().join(init), self.dir.path().join(media)]
    }

    /// The same of its sound.
    pub(crate) fn sound(&self, gop: u32) -> [PathBuf; 2] {
        [self.dir.path().join(sound_init()), self.dir.path().join(sound_segment(gop))]
    }

    /// Keeps the tiles of a GoP.
    pub(crate) fn put(
        &self,
        plan: &Description,
        gop: u32,
        rungs: Vec<EncodedRung>,
    ) -> Result<Record, VrError> {
        let _alone = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        let tiles = put_rungs(self.dir.path(), plan, gop, rungs)?;
        Ok(Record { gop, tiles, side: None, grey: Vec::new() })
    }

    /// Keeps the sound of a GoP.
    pub(crate) fn put_sound(&self, gop: u32, sound: &SoundSegment) -> Result<TileDigests, VrError> {
        let [init, media] = self.sound(gop);
        let folder = self.path("sound");
        fs::create_dir_all(&folder).map_err(VrError::io("make", &folder))?;
        if !init.exists() {
            fs::write(&init, &sound.init).map_err(VrError::io("write", &init))?;
        }
        fs::write(&media, &sound.media).map_err(VrError::io("write", &media))?;
        Ok(TileDigests::of(&sound.init, &sound.media))
    }

    /// Removes the files of a GoP, as far as there are any.
    pub(crate) fn remove(&self, plan: &Description, gop: u32) {
        for tile in 0..plan.grid().tiles() {
            for &qp in plan.qps() {
                let [_, media] = self.tile(tile, qp, gop);
                let _ = fs::remove_file(media);
            }
        }
        let [_, media] = self.sound(gop);
        let _ = fs::remove_file(media);
    }
}
