//! What of a GoP is encoded: its tiles, and in some packages the whole sphere in one picture, too.

use std::path::{Path, PathBuf};

use super::plan::Description;

/// What is encoded of the same pictures, in files of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Tiles,
    /// The whole sphere, for players that know nothing of tiles: one tile as large as the frame.
    Whole,
}

impl Layer {
    /// The directory of one rung of one tile, relative to the package.
    pub(crate) fn rung_dir(self, tile: usize, qp: u8) -> PathBuf {
        match self {
            Self::Tiles => Path::new("tiles").join(format!("t{tile:03}q{qp:02}")),
            Self::Whole => Path::new("whole").join(format!("q{qp:02}")),
        }
    }

    /// The file of one GoP in it.
    pub(crate) fn segment(self, tile: usize, qp: u8, gop: u32) -> PathBuf {
        self.rung_dir(tile, qp).join(format!("{gop:06}.m4s"))
    }

    /// The file that a decoder is set up from.
    pub(crate) fn init(self, tile: usize, qp: u8) -> PathBuf {
        self.rung_dir(tile, qp).join("init.mp4")
    }

    /// What its unfinished files are called, before what tells them apart.
    pub(crate) const fn prefix(self) -> &'static str {
        match self {
            Self::Tiles => "",
            Self::Whole => "whole-",
        }
    }

    /// As what it is encoded, if the package has it.
    pub(crate) fn plan(self, package: &Description) -> Option<Description> {
        match self {
            Self::Tiles => Some(package.clone()),
            Self::Whole => package.whole_plan(),
        }
    }
}
