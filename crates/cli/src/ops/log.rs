//! The daemons' log, on standard error.

use std::io;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::filter::{EnvFilter, LevelFilter};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;
use crate::journal::WithPriority;
use crate::output;

/// What a line of the log looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// For people: level and message; who keeps the log adds the time, and the journal is told how
    /// grave a line is
    #[default]
    Text,
    /// For programs: an object a line, with the time
    Json,
}

/// Starts logging: what `level` says, else with `--quiet` errors, else what RUST_LOG says, else from
/// "info" on.
///
/// What cannot be written, because the disk is full or nobody reads any more, is lost: no daemon
/// ends for its log.
///
/// # Errors
/// When `level` is none.
pub(crate) fn start(format: Option<Format>, level: Option<&str>) -> Result<(), Failure> {
    let builder = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    let filter = match level {
        None if output::is_quiet() => EnvFilter::new("error"),
        None => builder.from_env_lossy(),
        Some(level) => {
            let filter = directives(level).and_then(|level| builder.parse(level).ok());
            filter.ok_or_else(|| {
                Failure::wrong_use(format!(
                    "--log-level: '{level}' is neither off, error, warn, info, debug, trace nor \
                     directives like those of RUST_LOG; write it like debug or weftline=debug"
                ))
            })?
        }
    };
    // Without this, a failed write would be told by a write that panics when it fails.
    let layer = tracing_subscriber::fmt::layer().with_writer(io::stderr).log_internal_errors(false);
    let registry = tracing_subscriber::registry().with(filter);
    let result = match format.unwrap_or_default() {
        Format::Json => {
            output::log_warnings();
            registry.with(layer.json().flatten_event(true)).try_init()
        }
        Format::Text => {
            let line = tracing_subscriber::fmt::format().with_target(false).without_time();
            let layer = layer.with_ansi(output::has_color(&io::stderr()));
            registry.with(layer.event_format(WithPriority(line))).try_init()
        }
    };
    result.map_err(Failure::failed)
}

/// A level alone is this program's: of the libraries below it nobody wants to hear more than "info".
fn directives(level: &str) -> Option<String> {
    if level.contains(['=', ',']) {
        return Some(level.to_owned());
    }
    Some(match level.parse().ok()? {
        LevelFilter::DEBUG | LevelFilter::TRACE => format!("info,weftline={level}"),
        level => level.to_string(),
    })
}
