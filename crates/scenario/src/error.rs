//! Why a scenario cannot be had: one line naming the file, the line, the key and the remedy.

use std::io;

/// Why a scenario cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScenarioError {
    /// The text of the file is wrong.
    #[error("{file}:{line}: {message}")]
    Invalid {
        /// The scenario or trace file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong with which key, and what to write instead.
        message: String,
    },
    /// The file cannot be read.
    #[error("cannot read {file}: {source}")]
    Read {
        /// The scenario file.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// No such scenario or sweep.
    #[error("there is no {kind} '{name}'; known: {known}; or give the path of a .toml file")]
    Unknown {
        /// "scenario" or "sweep".
        kind: &'static str,
        /// The name given.
        name: String,
        /// The built-in names.
        known: String,
    },
}
