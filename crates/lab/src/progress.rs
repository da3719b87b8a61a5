//! Progress on standard error: a bar on a terminal, plain lines otherwise.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Tells how a series of runs goes.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    runs: usize,
    quiet: bool,
}

impl Progress {
    /// For `runs` runs; shows nothing if it is to be `quiet`.
    pub(crate) fn new(runs: usize, quiet: bool) -> Self {
        let is_shown = io::stderr().is_terminal() && !quiet;
        let bar = is_shown.then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{prefix} {wide_bar} {msg} {eta}");
            bar.set_style(style.expect("the template is well formed"));
            bar
        });
        Self { bar, runs, quiet }
    }

    /// Run number `run` (from 0) of `name` begins; it takes about `duration`.
    pub(crate) fn begin(&self, run: usize, name: &str, duration: Duration) {
        let prefix = format!("run {}/{} {name}", run + 1, self.runs);
        match &self.bar {
            Some(bar) => {
                bar.reset();
                bar.set_prefix(prefix);
                bar.set_length(duration.as_millis() as u64);
            }
            None => self.line(&format!("{prefix}: started")),
        }
    }

    /// The current run has come so far.
    pub(crate) fn at(&self, elapsed: Duration) {
        if let Some(bar) = &self.bar {
            bar.set_position(elapsed.as_millis() as u64);
        }
    }

    /// One line that stays.
    pub(crate) fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None if self.quiet => {}
            // Nobody may be reading any more.
            None => drop(writeln!(io::stderr(), "{text}")),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
