//! What can go wrong with a node, and the exit status each kind of failure has.

use std::io;

/// Why a node does not start, or ended. Each message is one line that says what, where and the
/// remedy.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TunnelError {
    /// Wrong use: a setting that makes no sense.
    #[error("{0}")]
    Usage(String),
    /// This machine cannot do it: no root, no TUN.
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
}

impl TunnelError {
    /// The exit status of a program that ends with this error: 1 it failed, 2 wrong use, 3 not
    /// possible here.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Os { .. } => 1,
            Self::Usage(_) => 2,
            Self::NotPossible { .. } => 3,
        }
    }

    /// A closure for `map_err` that adds what was being done.
    pub(crate) fn os<E: Into<io::Error>>(context: impl Into<String>) -> impl FnOnce(E) -> Self {
        let context = context.into();
        move |source| Self::Os { context, source: source.into() }
    }

    pub(crate) fn not_possible(what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::NotPossible { what: what.into(), remedy: remedy.into() }
    }
}
