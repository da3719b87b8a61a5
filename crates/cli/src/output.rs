//! Standard output, whose reader may leave before the end.

use std::fmt;
use std::io::{self, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

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
    let _ = writeln!(io::stderr().lock(), "weftline: {line}");
}

/// Whether warnings are left out.
static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on warns of nothing.
pub(crate) fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// Warns on standard error.
pub(crate) fn warn(what: impl fmt::Display) {
    if !QUIET.load(Ordering::Relaxed) {
        tell(format_args!("warning: {what}"));
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
