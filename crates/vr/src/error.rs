//! What can go wrong with sources, programs, scenes and packages.

use std::io;
use std::path::{Path, PathBuf};

use weftline_video::geometry::GeometryError;
use weftline_video::rd::RdError;

/// Why something about 360° video failed: one line that names what, where and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum VrError {
    /// Another process works on the package.
    #[error("{}: another weftline works on this package; wait for it", .0.display())]
    Busy(PathBuf),
    /// The package does not hold what it must.
    #[error("{}: {reason}", path.display())]
    Damaged {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it, and the remedy.
        reason: String,
    },
    /// ffmpeg failed.
    #[error("ffmpeg failed {doing}: {reason}")]
    Ffmpeg {
        /// What it was doing.
        doing: String,
        /// What it said.
        reason: String,
    },
    /// The file system has no room.
    #[error(
        "{}: no space left on the device {doing}; what is finished is kept: make room and run the \
         same command again", path.display()
    )]
    Full {
        /// Where.
        path: PathBuf,
        /// Doing what.
        doing: String,
    },
    /// A frame or grid that cannot be.
    #[error(transparent)]
    Geometry(#[from] GeometryError),
    /// An argument that makes no sense.
    #[error("{0}")]
    Invalid(String),
    /// A file cannot be read or written.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// The verb.
        doing: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// ffmpeg has no such encoder.
    #[error(
        "this ffmpeg ({version}) has no {encoder} encoder; install one that has it (on Debian: \
         apt-get install ffmpeg)"
    )]
    NoEncoder {
        /// Which.
        encoder: &'static str,
        /// Of which ffmpeg.
        version: String,
    },
    /// A program is not installed.
    #[error(
        "{0} is not installed; install ffmpeg, which it is part of (on Debian: apt-get install \
         ffmpeg)"
    )]
    NoProgram(&'static str),
    /// The directory has another package in it.
    #[error(
        "{}: holds a package of {differs}; give another directory, or remove this one to start \
         anew", path.display()
    )]
    OtherPackage {
        /// The directory.
        path: PathBuf,
        /// In what it differs.
        differs: String,
    },
    /// A rate-distortion table that cannot be.
    #[error("{}: {source}", path.display())]
    Rd {
        /// Of which package.
        path: PathBuf,
        /// The reason.
        source: RdError,
    },
    /// The source cannot be packaged.
    #[error("{}: {reason}", path.display())]
    Source {
        /// The file.
        path: PathBuf,
        /// Why not, and the remedy.
        reason: String,
    },
    /// It was told to stop.
    #[error("stopped; the same command goes on from here")]
    Stopped,
    /// No such scene.
    #[error("there is no scene called '{name}'; there are {names}")]
    UnknownScene {
        /// What was asked for.
        name: String,
        /// What there is.
        names: String,
    },
}

/// What was asked for was tried and failed.
const FAILED: u8 = 1;
/// What was asked for makes no sense.
const WRONG_USE: u8 = 2;
/// This machine cannot do it.
const NOT_POSSIBLE: u8 = 3;
/// Ended by SIGINT.
const STOPPED: u8 = 130;

impl VrError {
    /// The exit status of a program that ends with it.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Geometry(_)
            | Self::Invalid(_)
            | Self::OtherPackage { .. }
            | Self::UnknownScene { .. } => WRONG_USE,
            Self::NoEncoder { .. } | Self::NoProgram(_) => NOT_POSSIBLE,
            Self::Stopped => STOPPED,
            _ => FAILED,
        }
    }

    /// Turns the error of a file operation into one that names the file.
    pub(crate) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { path: path.to_owned(), doing: format!("to {doing} it") }
            }
            _ => Self::Io { doing, path: path.to_owned(), source },
        }
    }

    pub(crate) fn damaged(path: &Path, reason: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), reason: reason.into() }
    }

    pub(crate) fn source(path: &Path, reason: impl Into<String>) -> Self {
        Self::Source { path: path.to_owned(), reason: reason.into() }
    }
}
