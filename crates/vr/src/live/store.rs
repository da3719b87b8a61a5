//! The files of a live source's GoPs, as long as a player may ask for them.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use weftline_video::live::MAX_OPEN_GOPS;
use weftline_video::live::wire::TileDigests;

use super::sound::SoundSegment;
use crate::error::VrError;
use crate::package::{
    Description, EncodedRung, Layer, Record, put_rungs, sound_init, sound_segment,
};

/// GoPs that are kept: no player has more of them open.
pub(crate) const KEPT: u32 = MAX_OPEN_GOPS;

/// How the names of the directories begin.
const PREFIX: &str = "weftline-live-";
/// The file in each that its server locks.
const LOCK: &str = "lock";

/// Removes the directories in `parent` of this user whose servers are gone. What cannot be removed stays.
fn clear(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_named = entry.file_name().to_string_lossy().starts_with(PREFIX);
        let is_ours =
            |data: fs::Metadata| data.is_dir() && data.uid() == rustix::process::geteuid().as_raw();
        if !is_named || !entry.metadata().is_ok_and(is_ours) {
            continue;
        }
        let lock = fs::File::open(entry.path().join(LOCK));
        if lock.is_ok_and(|lock| lock.try_lock().is_ok()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A directory of files like those of a package, gone at the end.
#[derive(Debug)]
pub(crate) struct Store {
    dir: tempfile::TempDir,
    /// Held as long as the directory is used.
    _lock: fs::File,
    /// Tiles of one GoP are written at a time: all GoPs share what decoders are set up from.
    writes: Mutex<()>,
}

impl Store {
    /// An empty one. What servers have left that were killed is removed.
    pub(crate) fn new() -> Result<Self, VrError> {
        let parent = std::env::temp_dir();
        clear(&parent);
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(&parent);
        let dir = made.map_err(VrError::io("make a directory in", &parent))?;
        // Its name comes when it is locked: another server that starts now finds none, or a locked one.
        let [new, named] = ["lock.new", LOCK].map(|name| dir.path().join(name));
        let lock = fs::File::create(&new).map_err(VrError::io("make", &new))?;
        lock.lock().map_err(VrError::io("lock", &new))?;
        fs::rename(&new, &named).map_err(VrError::io("rename", &new))?;
        Ok(Self { dir, _lock: lock, writes: Mutex::default() })
    }

    /// A place in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The file of a tile's GoP, and that which its decoder is set up from.
    pub(crate) fn tile(&self, tile: usize, qp: u8, gop: u32) -> [PathBuf; 2] {
        let [init, media] = [Layer::Tiles.init(tile, qp), Layer::Tiles.segment(tile, qp, gop)];
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
        let tiles = put_rungs(self.dir.path(), plan, Layer::Tiles, gop, rungs)?;
        Ok(Record { gop, tiles, side: None, grey: Vec::new(), whole: Vec::new() })
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "test code")]

    use super::*;

    #[test]
    fn what_a_killed_server_has_left_is_removed_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let make = |name: &str, has_lock: bool| {
            let dir = parent.path().join(name);
            fs::create_dir_all(dir.join("tiles")).unwrap();
            let lock = has_lock.then(|| fs::File::create(dir.join(LOCK)).unwrap());
            (dir, lock)
        };
        let (left, lock) = make("weftline-live-left", true);
        drop(lock);
        let (used, lock) = make("weftline-live-used", true);
        let lock = lock.unwrap();
        lock.lock().unwrap();
        let (begun, _) = make("weftline-live-begun", false);
        let (other, _) = make("other", true);
        clear(parent.path());
        assert!(!left.exists());
        assert!(used.exists() && begun.exists() && other.exists());
        drop(lock);
        clear(parent.path());
        assert!(!used.exists());
    }
}
