//! What tells systemd's journal how grave a line on standard error is (sd-daemon(3)).

use std::fmt;
use std::io;
use std::sync::OnceLock;

use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::FmtContext;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::registry::LookupSpan;

/// What stands before a line of this level, where the journal takes it.
pub(crate) fn priority(level: Level) -> &'static str {
    static IS_JOURNAL: OnceLock<bool> = OnceLock::new();
    if !*IS_JOURNAL.get_or_init(is_journal) {
        return "";
    }
    match level {
        Level::ERROR => "<3>",
        Level::WARN => "<4>",
        Level::INFO => "<6>",
        _ => "<7>",
    }
}

/// Whether standard error is what systemd has connected to the journal. The variable is inherited
/// by programs whose standard error is something else.
fn is_journal() -> bool {
    let Some(named) = std::env::var_os("JOURNAL_STREAM") else { return false };
    let found = rustix::fs::fstat(io::stderr());
    found.is_ok_and(|found| named.to_str() == Some(&format!("{}:{}", found.st_dev, found.st_ino)))
}

/// Lines of a log with their priorities.
pub(crate) struct WithPriority<F>(pub(crate) F);

impl<S, N, F> FormatEvent<S, N> for WithPriority<F>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
    F: FormatEvent<S, N>,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str(priority(*event.metadata().level()))?;
        self.0.format_event(context, writer, event)
    }
}
