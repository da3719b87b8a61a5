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
    /// Wrong use: settings of which one, or both together, cannot be.
    #[error("{}: {remedy}", listed(.settings))]
    Setting {
        /// The options' names and values.
        settings: Vec<(&'static str, String)>,
        /// What may be given.
        remedy: String,
    },
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
            Self::Usage(_) | Self::Setting { .. } => 2,
            Self::NotPossible { .. } => 3,
        }
    }

    /// The same error with options' values as they were written, where `written` knows that.
    #[must_use]
    pub fn as_written(mut self, written: impl Fn(&str) -> Option<String>) -> Self {
        if let Self::Setting { settings, .. } = &mut self {
            for (option, value) in settings {
                if let Some(text) = written(option) {
                    *value = text;
                }
            }
        }
        self
    }

    pub(crate) fn setting(
        settings: &[(&'static str, &dyn std::fmt::Display)],
        remedy: &str,
    ) -> Self {
        let settings = settings.iter().map(|(option, value)| (*option, value.to_string()));
        Self::Setting { settings: settings.collect(), remedy: remedy.to_owned() }
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

/// Options with their values.
fn listed(settings: &[(&'static str, String)]) -> String {
    let one = |(option, value): &(&'static str, String)| match value.is_empty() {
        true => (*option).to_owned(),
        false => format!("{option} {value}"),
    };
    settings.iter().map(one).collect::<Vec<_>>().join(", ")
}
