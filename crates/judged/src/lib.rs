//! Tests with a bound of time, which a busy machine misses without any fault of the program.
//!
//! Such a test is `#[ignore = "has a bound of time: make test-lab"]` and calls [`verdict`], which
//! runs it up to [`ATTEMPTS`] times. A bound that holds more often than quiet runs miss it has passed: as a
//! rule with the first run. One that is missed on [`MISSES`] quiet runs has failed. Anything else is inconclusive, which is said and counted, and
//! fails nothing. [`Watch`] decides which runs were quiet. A comparison may have a fourth verdict,
//! for a difference that is known and explained.
//!
//! Nothing but tests uses this crate.

mod usage;
mod watch;

use std::fmt;
use std::fs::File;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::time::{Duration, Instant};

pub use watch::{Disturbance, Watch};

/// How often a bound may be tried.
pub const ATTEMPTS: usize = 8;
/// Quiet runs that miss a bound before it has failed.
pub const MISSES: usize = 3;
/// For how long runs are made that show too little, where nothing says that the machine is quiet.
pub const PATIENCE: Duration = Duration::from_secs(400);
/// The variable of the environment that names the file to which verdicts are appended.
pub const VERDICTS: &str = "WEFTLINE_VERDICTS";

/// What came of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The bound held, more often than quiet runs missed it.
    Pass,
    /// The bound was missed on at least [`MISSES`] quiet runs.
    Fail,
    /// What it compares is apart, by as much as is written down where it is explained.
    Known,
    /// Too few runs were quiet, or the test cannot run here.
    Inconclusive,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Known => "known",
            Self::Inconclusive => "inconclusive",
        })
    }
}

/// One attempt, for what a test knows itself about how undisturbed it was.
#[derive(Debug, Default)]
pub struct Attempt {
    disturbed: Mutex<Option<String>>,
}

impl Attempt {
    /// The attempt was disturbed, however quiet the machine was: a miss does not count.
    pub fn disturbed(&self, why: impl Into<String>) {
        *self.disturbed.lock().expect("nothing panics while it is held") = Some(why.into());
    }
}

/// Runs `attempt` until there is a verdict, and records it under `name`. An attempt misses its bound
/// by a panic, as assertions do; it returns `None` where the test cannot run at all.
///
/// # Panics
///
/// If the verdict is [`Verdict::Fail`].
#[track_caller]
pub fn verdict(name: &str, attempt: impl FnMut(&Attempt) -> Option<()>) {
    let (verdict, why) = judge(attempt, || {
        let watch = Watch::start();
        || watch.finish()
    });
    record(name, verdict, &why);
    assert!(verdict != Verdict::Fail, "{name}: {why}");
}

/// The verdict on `attempt` and what explains it. `watch` begins to look at the machine, and what it
/// returns says whether that was disturbed since.
fn judge<W: FnOnce() -> Option<Disturbance>>(
    mut attempt: impl FnMut(&Attempt) -> Option<()>,
    watch: impl Fn() -> W,
) -> (Verdict, String) {
    let mut misses = Vec::new();
    let mut disturbances = Vec::new();
    let mut held = 0;
    for number in 1..=ATTEMPTS {
        let (watching, own) = (watch(), Attempt::default());
        let outcome = catch_unwind(AssertUnwindSafe(|| attempt(&own)));
        let machine = watching().map(|found| found.to_string());
        let panic = match outcome {
            Ok(Some(())) => {
                held += 1;
                // One that holds now and then does not hold.
                match (held > misses.len(), misses.len()) {
                    (true, 0) => return (Verdict::Pass, format!("attempt {number}")),
                    (true, n) => {
                        let why = format!("attempt {number}, after {n} misses on a quiet machine");
                        return (Verdict::Pass, why);
                    }
                    (false, _) => continue,
                }
            }
            Ok(None) => return (Verdict::Inconclusive, "it cannot run here".to_owned()),
            Err(panic) => panic,
        };
        let own = own.disturbed.into_inner().expect("nothing panics while it is held");
        match machine.or(own) {
            Some(why) => {
                eprintln!("attempt {number} missed its bound and does not count: {why}");
                disturbances.push(why);
            }
            None => {
                eprintln!("attempt {number} missed its bound on a quiet machine");
                misses.push(message(&*panic));
            }
        }
        if misses.len() == MISSES {
            return (Verdict::Fail, misses.join("; "));
        }
    }
    let last = disturbances.last().map_or("", String::as_str);
    let (missed, all) = (misses.len(), ATTEMPTS);
    let why = match held {
        0 => format!("{missed} of {all} runs were quiet; the last was not: {last}"),
        held => format!("of {all} runs {held} held, and {missed} quiet ones did not: {last}"),
    };
    (Verdict::Inconclusive, why)
}

/// What a panic said.
fn message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned()
}

/// Makes runs until one shows `enough`: the machine, or a program of it, may stand still for all the time
/// that one takes. So many on a quiet machine that show less are a fault. `None` where `make` cannot make
/// any.
///
/// # Panics
///
/// If [`MISSES`] quiet runs show too little, or none shows enough within [`PATIENCE`].
#[track_caller]
pub fn until_enough<T: fmt::Debug>(
    mut make: impl FnMut() -> Option<T>,
    enough: impl Fn(&T) -> bool,
) -> Option<T> {
    let (begun, mut misses) = (Instant::now(), 0);
    loop {
        let watch = Watch::start();
        let made = make()?;
        if enough(&made) {
            return Some(made);
        }
        let why = watch.finish();
        misses += usize::from(why.is_none());
        let why = why.map_or("a quiet machine".to_owned(), |why| why.to_string());
        assert!(misses < MISSES && begun.elapsed() < PATIENCE, "too little on {why}: {made:?}");
        eprintln!("once more, as this was too little, on {why}: {made:?}");
    }
}

/// Prints a verdict, and appends it to the file that [`VERDICTS`] names.
pub fn record(name: &str, verdict: Verdict, why: &str) {
    let why = why.replace('\n', " ");
    eprintln!("{verdict}: {name}: {why}");
    let Some(path) = std::env::var_os(VERDICTS) else { return };
    let file = File::options().create(true).append(true).open(&path);
    let written = file.and_then(|mut file| writeln!(file, "{verdict}\t{name}\t{why}"));
    written.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> impl FnOnce() -> Option<Disturbance> {
        || None
    }

    fn busy() -> impl FnOnce() -> Option<Disturbance> {
        || Some(Disturbance::stolen(1.0))
    }

    #[test]
    fn a_bound_that_holds_more_often_than_not_has_passed() {
        let judged = |missed: &[u32], watch: fn() -> Option<Disturbance>| {
            let mut tries = 0;
            let attempt = |_: &Attempt| {
                tries += 1;
                assert!(!missed.contains(&tries), "too slow");
                Some(())
            };
            let (verdict, why) = judge(attempt, || watch);
            (verdict, tries, why)
        };
        let quiet: fn() -> Option<Disturbance> = || None;
        let pass = |tries, why: &str| (Verdict::Pass, tries, why.to_owned());
        assert_eq!(judged(&[], quiet), pass(1, "attempt 1"));
        assert_eq!(judged(&[1], quiet), pass(3, "attempt 3, after 1 misses on a quiet machine"));
        assert_eq!(judged(&[1, 2], quiet), pass(5, "attempt 5, after 2 misses on a quiet machine"));
        assert_eq!(judged(&[1, 3, 5], quiet).0, Verdict::Fail);
        // What a busy machine misses does not count.
        assert_eq!(judged(&[1, 2], || Some(Disturbance::stolen(1.0))), pass(3, "attempt 3"));
    }

    #[test]
    fn three_quiet_misses_fail_and_say_why() {
        let mut tries = 0;
        let attempt = |_: &Attempt| {
            tries += 1;
            panic!("{tries} ms");
        };
        assert_eq!(judge(attempt, quiet), (Verdict::Fail, "1 ms; 2 ms; 3 ms".to_owned()));
    }

    #[test]
    fn misses_on_a_busy_machine_are_inconclusive() {
        let mut tries = 0;
        let attempt = |_: &Attempt| {
            tries += 1;
            panic!("late");
        };
        let (verdict, why) = judge(attempt, busy);
        assert_eq!((verdict, tries), (Verdict::Inconclusive, ATTEMPTS));
        assert!(why.starts_with("0 of 8 runs were quiet"), "{why}");
        let own = |attempt: &Attempt| {
            attempt.disturbed("the emulator was late");
            panic!("late");
        };
        let (verdict, why) = judge(own, quiet);
        assert_eq!(verdict, Verdict::Inconclusive);
        assert!(why.ends_with("the emulator was late"), "{why}");
    }

    #[test]
    fn what_cannot_run_is_inconclusive() {
        assert_eq!(judge(|_| None, quiet).0, Verdict::Inconclusive);
    }
}
