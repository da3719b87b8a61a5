//! Tiles that arrived, kept as files like those of a package.

use std::fs;
use std::path::{Path, PathBuf};

use weftline_video::live::wire::Tile;

/// Where tiles are kept.
#[derive(Debug)]
pub(super) struct Store(PathBuf);

impl Store {
    /// A directory, made if it is not there.
    ///
    /// # Errors
    /// What cannot be made, and why.
    pub(super) fn new(dir: &Path) -> Result<Self, String> {
        let store = Self(dir.to_owned());
        fs::create_dir_all(dir).map_err(|error| store.wrong(dir, &error))?;
        Ok(store)
    }

    /// Keeps a tile, `tiles/t007q32/init.mp4` and `tiles/t007q32/000003.m4s`, or a GoP's sound,
    /// `sound/init.mp4` and `sound/000003.m4s`.
    ///
    /// # Errors
    /// What cannot be written, and why.
    pub(super) fn keep(&self, tile: &Tile<'_>) -> Result<(), String> {
        let dir = match tile.id.is_sound() {
            true => self.0.join("sound"),
            false => self.0.join("tiles").join(format!("t{:03}q{:02}", tile.id.tile, tile.id.qp)),
        };
        fs::create_dir_all(&dir).map_err(|error| self.wrong(&dir, &error))?;
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.join(name);
            fs::write(&path, bytes).map_err(|error| self.wrong(&path, &error))
        };
        if !tile.init.is_empty() {
            write("init.mp4", tile.init)?;
        }
        write(&format!("{:06}.m4s", tile.id.gop), tile.segment)
    }

    fn wrong(&self, path: &Path, error: &std::io::Error) -> String {
        format!("--save: cannot write {}: {error}", path.display())
    }
}
