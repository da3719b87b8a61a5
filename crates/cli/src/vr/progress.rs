//! How far a long piece of work is: a bar on a terminal, else a line now and then.

use std::io::IsTerminal as _;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// How often it is told where there is no terminal.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// The progress of some work on standard error.
pub(super) struct Progress {
    what: &'static str,
    total: u64,
    /// What was done before, and counts for nothing in the estimate.
    before: u64,
    began: Instant,
    told: Instant,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Nothing but `before` of `total` things, called `what`, is done yet.
    pub(super) fn new(what: &'static str, total: u64, before: u64) -> Self {
        let is_shown = std::io::stderr().is_terminal() && !output::is_quiet();
        let bar = is_shown.then(|| {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let style = format!("{{wide_bar}} {{pos}}/{{len}} {what}, {{eta}} left");
            bar.set_position(before);
            bar.with_style(ProgressStyle::with_template(&style).expect("it is well formed"))
        });
        let now = Instant::now();
        Self { what, total, before, began: now, told: now, bar }
    }

    /// `done` things are done.
    pub(super) fn set(&mut self, done: u64) {
        if let Some(bar) = &self.bar {
            bar.set_position(done);
        } else if self.told.elapsed() >= TELL_EVERY && done > self.before {
            self.told = Instant::now();
            let each = self.began.elapsed().as_secs_f64() / (done - self.before) as f64;
            let left = each * self.total.saturating_sub(done) as f64;
            output::remark(format_args!("{done}/{} {}, {left:.0} s left", self.total, self.what));
        }
    }
}

/// The progress of work that many threads do, and whose extent shows when it begins.
pub(super) struct SharedProgress {
    what: &'static str,
    progress: Mutex<Option<Progress>>,
}

impl SharedProgress {
    pub(super) const fn new(what: &'static str) -> Self {
        Self { what, progress: Mutex::new(None) }
    }

    /// `done` of `total` things are done; threads may come out of order.
    pub(super) fn set(&self, done: u64, total: u64) {
        // Progress is told to people; a thread that panicked ends the work anyway.
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.get_or_insert_with(|| Progress::new(self.what, total, 0)).set(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
