//! Tiles that arrived, kept as files like those of a package.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use weftline_video::live::wire::{Manifest, Tile};
use weftline_vr::mp4::{Replayed, replay, timescale};

/// The directories of tiles and of sound.
const TILES: &str = "tiles";
const SOUND: &str = "sound";

/// Where tiles are kept.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    /// The units of time of each tile and QP, as far as they have come.
    scales: BTreeMap<(u16, u8), u32>,
}

impl Store {
    /// A directory, made if it is not there. Two sessions in one would be decoded as one.
    ///
    /// # Errors
    /// What cannot be made, and why; or what is there of another session.
    pub(super) fn new(dir: &Path) -> Result<Self, String> {
        fs::create_dir_all(dir).map_err(|error| wrong(dir, &error))?;
        if let Some(other) = [TILES, SOUND].map(|name| dir.join(name)).iter().find(|at| at.exists())
        {
            return Err(format!(
                "--save: {} is of another session; give another directory, or remove it",
                other.display()
            ));
        }
        Ok(Self { dir: dir.to_owned(), scales: BTreeMap::new() })
    }

    /// Keeps a tile, `tiles/t007q32/init.mp4` and `tiles/t007q32/000003.m4s`, or a GoP's sound,
    /// `sound/init.mp4` and `sound/000003.m4s`. What is played again, after the package's last GoP, gets its
    /// time in the stream; all else is as it was packaged.
    ///
    /// # Errors
    /// What cannot be written, and why.
    pub(super) fn keep(&mut self, tile: &Tile<'_>, stream: &Manifest) -> Result<(), String> {
        let dir = match tile.id.is_sound() {
            true => self.dir.join(SOUND),
            false => self.dir.join(TILES).join(format!("t{:03}q{:02}", tile.id.tile, tile.id.qp)),
        };
        fs::create_dir_all(&dir).map_err(|error| wrong(&dir, &error))?;
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, bytes).map_err(|error| wrong(&path, &error))
        };
        if !tile.init.is_empty() {
            write("init.mp4", tile.init)?;
            let scale = timescale(tile.init).ok();
            self.scales.extend(scale.map(|scale| ((tile.id.tile, tile.id.qp), scale)));
        }
        let mut segment = tile.segment.to_vec();
        if let Some(scale) = self.scales.get(&(tile.id.tile, tile.id.qp)) {
            let pictures = (!tile.id.is_sound()).then_some(stream.gop_frames);
            let to = Replayed { gop: tile.id.gop, length: stream.gop, pictures };
            // What is no segment of MP4 stays as it came.
            let _ = replay(&mut segment, *scale, to);
        }
        write(&format!("{:06}.m4s", tile.id.gop), &segment)
    }
}

fn wrong(path: &Path, error: &std::io::Error) -> String {
    format!("--save: cannot write {}: {error}", path.display())
}
