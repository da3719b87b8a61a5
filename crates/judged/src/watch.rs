//! Whether the machine was quiet: a thread that measures how late it wakes, and what the kernel
//! counts of other programs and of the host.
//!
//! Lateness alone does not find a program that computes: Linux lets a thread that has slept go
//! before it. It finds what no counter tells, as a host that stops the machine for some milliseconds.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::usage::Usage;

/// How long the thread sleeps at a time.
const NAP: Duration = Duration::from_millis(1);
/// A wake-up is late after so long. On an idle machine it takes a tenth of this.
const LATE: Duration = Duration::from_millis(1);
/// Share of late wake-ups from which on the machine was not quiet.
const LATE_SHARE: f64 = 0.02;
/// One wake-up so late spoils a run by itself: it is a packet's time in the emulator's queues.
const WORST: Duration = Duration::from_millis(40);
/// Cores. Less than this taken by other programs changes no figure that can be seen.
const PROGRAMS: f64 = 0.1;
/// Cores. As for programs, but what the host takes stops all that runs on a core.
const STOLEN: f64 = 0.05;

/// Why a time was not quiet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disturbance {
    /// Share of wake-ups that were late.
    late_share: f64,
    /// The latest of them.
    worst: Duration,
    /// Cores that other programs took.
    programs: f64,
    /// Cores that the host took.
    stolen: f64,
}

impl Disturbance {
    #[cfg(test)]
    pub(crate) fn stolen(stolen: f64) -> Self {
        Self { late_share: 0.0, worst: Duration::ZERO, programs: 0.0, stolen }
    }

    fn is_notable(&self) -> bool {
        self.late_share >= LATE_SHARE
            || self.worst >= WORST
            || self.programs >= PROGRAMS
            || self.stolen >= STOLEN
    }
}

impl fmt::Display for Disturbance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { late_share, worst, programs, stolen } = self;
        let share = 100.0 * late_share;
        write!(
            f,
            "not a quiet machine: {share:.1} % of wake-ups late, the worst by {worst:.1?}; "
        )?;
        write!(f, "other programs took {programs:.2} cores, the host {stolen:.2}")
    }
}

/// Looks at the machine from its start on.
#[derive(Debug)]
pub struct Watch {
    since: Instant,
    before: Option<Usage>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Naps>>,
}

/// What the thread saw.
#[derive(Clone, Copy, Debug, Default)]
struct Naps {
    all: u32,
    late: u32,
    worst: Duration,
}

impl Watch {
    /// Starts looking.
    pub fn start() -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || nap(&stopped));
        Self { since: Instant::now(), before: Usage::now(), stop, thread: Some(thread) }
    }

    /// Stops looking: why the time since the start was not quiet, `None` if it was. What this
    /// process and its descendants spend is no disturbance.
    pub fn finish(mut self) -> Option<Disturbance> {
        let naps = self.stop();
        let elapsed = self.since.elapsed().as_secs_f64();
        let mut found = Disturbance {
            late_share: f64::from(naps.late) / f64::from(naps.all.max(1)),
            worst: naps.worst,
            programs: 0.0,
            stolen: 0.0,
        };
        if let (Some(before), Some(after)) = (self.before, Usage::now()) {
            let all = after.programs.saturating_sub(before.programs);
            let own = after.own.saturating_sub(before.own);
            found.programs = all.saturating_sub(own).as_secs_f64() / elapsed;
            found.stolen = after.stolen.saturating_sub(before.stolen).as_secs_f64() / elapsed;
        }
        found.is_notable().then_some(found)
    }

    fn stop(&mut self) -> Naps {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread.and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop();
    }
}

fn nap(stopped: &AtomicBool) -> Naps {
    let mut naps = Naps::default();
    let mut before = Instant::now();
    while !stopped.load(Ordering::Relaxed) {
        std::thread::sleep(NAP);
        let now = Instant::now();
        let late = now.duration_since(before).saturating_sub(NAP);
        naps.all += 1;
        naps.late += u32::from(late >= LATE);
        naps.worst = naps.worst.max(late);
        before = now;
    }
    naps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_four_signs_is_enough() {
        let quiet = Disturbance { late_share: 0.0, worst: NAP, programs: 0.05, stolen: 0.0 };
        assert!(!quiet.is_notable());
        for busy in [
            Disturbance { late_share: 0.1, ..quiet },
            Disturbance { worst: Duration::from_millis(100), ..quiet },
            Disturbance { programs: 0.5, ..quiet },
            Disturbance { stolen: 0.1, ..quiet },
        ] {
            assert!(busy.is_notable(), "{busy}");
        }
    }
}
