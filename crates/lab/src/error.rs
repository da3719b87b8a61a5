//! What can go wrong in the lab, and the exit status each kind of failure has.

use std::io;

use weftline_bpf::BpfError;

/// A failure of the lab. Each message is one line that says what, where and, where there is one,
/// the remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LabError {
    /// Wrong use: an unknown path, scheme or option.
    #[error("{0}")]
    Usage(String),
    /// This machine cannot do it: no root, no TUN, no such congestion control or program.
    #[error("{what}; {remedy}")]
    NotPossible {
        /// What is missing.
        what: String,
        /// What to do about it.
        remedy: String,
    },
    /// The system refused something that should have worked.
    #[error("{context}: {source}")]
    Os {
        /// What was being done, on what.
        context: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A run, or a program of it, failed.
    #[error("{0}")]
    Failed(String),
    /// Stopped by Ctrl-C or SIGTERM; everything started was killed.
    #[error("interrupted; all programs of the run were stopped")]
    Interrupted,
}

impl LabError {
    /// The exit status of a program that ends with this error: 1 a run failed, 2 wrong use, 3 not
    /// possible here.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(_) | Self::Os { .. } | Self::Interrupted => 1,
            Self::Usage(_) => 2,
            Self::NotPossible { .. } => 3,
        }
    }

    /// The error of a congestion control that cannot be had.
    pub(crate) fn congestion(error: &BpfError) -> Self {
        match error.exit_code() {
            3 => Self::not_possible(
                error.to_string(),
                "or run it in the simulator with 'weftline sim run'",
            ),
            _ => Self::Failed(error.to_string()),
        }
    }

    /// A closure for `map_err` that adds what was being done.
    pub(crate) fn os<E: Into<io::Error>>(context: impl Into<String>) -> impl FnOnce(E) -> Self {
        let context = context.into();
        move |source| Self::Os { context, source: source.into() }
    }

    /// The error of something this machine cannot do.
    pub(crate) fn not_possible(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::NotPossible { what: what.into(), remedy: remedy.into() }
    }
}
