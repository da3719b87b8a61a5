//! Standard output, whose reader may leave before the end, and standard error; what `--quiet` and
//! `--color` leave out there.

use std::fmt;
use std::io::{self, IsTerminal, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::{Args, ColorChoice};
use tracing::Level;

use crate::failure::Failure;
use crate::journal;

/// Writes `text` to standard output and flushes it. A reader that has gone away (`| head`) has got
/// what it wanted: that is success.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a line to standard error. Where that cannot be, nothing depends on it.
pub(crate) fn tell(line: impl fmt::Display) {
    tell_as(Level::INFO, line);
}

/// The same, of a level that the journal is told.
fn tell_as(level: Level, line: impl fmt::Display) {
    // Who reads the log as JSON wants nothing before a line.
    let is_json = LOGS_JSON.load(Ordering::Relaxed);
    let priority = if is_json { "" } else { journal::priority(level) };
    let _ = writeln!(io::stderr().lock(), "{priority}weftline: {line}");
}

/// Says why the program fails.
pub(crate) fn fail(line: impl fmt::Display) {
    tell_as(Level::ERROR, line);
}

/// Options of every command. The help of the program has them, not that of each command.
#[derive(Clone, Copy, Debug, Args)]
pub(crate) struct ScreenArgs {
    /// Nothing but errors on standard error: no warnings, no progress; daemons log errors only
    #[arg(long, short, global = true, hide = true)]
    quiet: bool,
    /// Whether help and logs have colours; auto: on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", global = true, hide = true, default_value = "auto")]
    color: ColorChoice,
}

/// Whether warnings and progress are left out.
static QUIET: AtomicBool = AtomicBool::new(false);
/// Whether the log is JSON.
static LOGS_JSON: AtomicBool = AtomicBool::new(false);
/// What `--color` says.
static COLOR: OnceLock<ColorChoice> = OnceLock::new();

/// Keeps to these options from now on.
pub(crate) fn set(args: ScreenArgs) {
    if args.quiet {
        be_quiet();
    }
    // It is called once.
    let _ = COLOR.set(args.color);
}

/// From now on shows no warnings and no progress.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Whether nothing but errors is to be on standard error.
pub(crate) fn is_quiet() -> bool {
    QUIET.load(Ordering::Relaxed)
}

/// Whether what goes to `stream` has colours.
pub(crate) fn has_color(stream: &impl IsTerminal) -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    match COLOR.get().unwrap_or(&ColorChoice::Auto) {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => {
            let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
            stream.is_terminal() && !is_dumb && !is_set("NO_COLOR")
        }
    }
}

/// What `--color` says among `words`, for the parser's own help: it is not parsed yet.
pub(crate) fn color_among(words: impl Iterator<Item = String>) -> ColorChoice {
    let mut words = words.skip_while(|word| word != "--color" && !word.starts_with("--color="));
    let value = match words.next() {
        Some(word) if word == "--color" => words.next(),
        Some(word) => word.split_once('=').map(|(_, value)| value.to_owned()),
        None => None,
    };
    value.and_then(|value| value.parse().ok()).unwrap_or_default()
}

/// Warns on standard error.
pub(crate) fn warn(what: impl fmt::Display) {
    // Who reads the log as JSON reads all of standard error so.
    if LOGS_JSON.load(Ordering::Relaxed) {
        tracing::warn!("{what}");
    } else if !is_quiet() {
        tell_as(Level::WARN, format_args!("warning: {what}"));
    }
}

/// From now on warnings are lines of the log, which is JSON.
pub(crate) fn log_warnings() {
    LOGS_JSON.store(true, Ordering::Relaxed);
}

/// Says under the program's name what else is good to know.
pub(crate) fn remark(line: impl fmt::Display) {
    if !is_quiet() {
        tell(line);
    }
}

/// Says on standard error how far something is, or what else is good to know.
pub(crate) fn note(line: impl fmt::Display) {
    if !is_quiet() {
        let _ = writeln!(io::stderr().lock(), "{line}");
    }
}

/// Lines of two columns, the second aligned.
pub(crate) fn columns<'a>(rows: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let rows: Vec<_> = rows.into_iter().collect();
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    rows.iter()
        .map(|(name, about)| format!("{name:width$}  {about}").trim_end().to_owned() + "\n")
        .collect()
}
