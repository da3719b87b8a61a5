//! Whole connections in a world that breaks: path manager, life and session of a client, life and
//! session of its server, over links that are cut, go dark, flap, corrupt, and lose their addresses.
//!
//! Each seed is one connection with settings, links and faults of its own. When it is over, every
//! byte has come once and in order, or an end has an error that says how many have; and nothing is
//! left of it. A thousand seeds run with the other tests. Many more:
//!
//! ```text
//! scripts/faults 1000000
//! ```

#![allow(unreachable_pub, reason = "test code")]
#![allow(
    clippy::disallowed_methods,
    reason = "how many seeds there are is asked of the environment"
)]

mod failover;
mod link;
mod node;
mod plan;
mod tally;
mod world;

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use self::plan::Plan;
use self::tally::Tally;
use self::world::{Outcome, World, Wrong};

/// Seeds that run unless more are asked for.
const SEEDS: u64 = 1_000;
/// Seeds between two notes of how far a long run has come.
const STEP: u64 = 2_000;

/// `WEFTLINE_SEEDS` is how many seeds there are. With `WEFTLINE_SEEDS_DONE`, a file, a run goes on
/// after the seeds that it names, and notes there which are done and what became of them.
#[test]
fn every_byte_comes_once_or_an_error_says_which_did_not() {
    let seeds =
        std::env::var("WEFTLINE_SEEDS").map_or(SEEDS, |text| text.parse().expect("a number"));
    let note = std::env::var("WEFTLINE_SEEDS_DONE").ok();
    let mut tally = note.as_ref().map(|file| Tally::read(file)).unwrap_or_default();
    while tally.seeds < seeds {
        let end = seeds.min(tally.seeds + STEP);
        run(tally.seeds..end, &mut tally);
        note.iter().for_each(|file| tally.write(file));
    }
    let _ = write!(std::io::stderr(), "{tally}");
    assert!(tally.wrong.is_empty(), "{} of {seeds} seeds went wrong", tally.wrong.len());
    assert!(tally.count(Outcome::Closed) > 0, "no connection came to its end");
}

/// Runs the seeds on every processor.
fn run(seeds: std::ops::Range<u64>, tally: &mut Tally) {
    let next = AtomicU64::new(seeds.start);
    let shared = Mutex::new(&mut *tally);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    let outcome = outcome(seed);
                    shared.lock().unwrap_or_else(PoisonError::into_inner).add(seed, outcome);
                }
            });
        }
    });
    tally.seeds = seeds.end;
}

fn outcome(seed: u64) -> Result<Outcome, String> {
    let plan = Plan::draw(seed);
    let outcome = catch_unwind(AssertUnwindSafe(|| World::new(&plan).run()));
    match outcome {
        Ok(outcome) => outcome.map_err(|wrong| wrong.to_string()),
        Err(_) => Err("panic".to_owned()),
    }
}

/// For a seed that failed: `WEFTLINE_SEED=17 cargo test -p weftline-core --test connections one`.
#[test]
fn one_seed() {
    if let Ok(seed) = std::env::var("WEFTLINE_SEED") {
        let plan = Plan::draw(seed.parse().expect("a number"));
        let outcome = World::new(&plan).run();
        let _ = writeln!(std::io::stderr(), "{plan:#?}\n{outcome:?}");
        outcome.unwrap_or_else(|wrong: Wrong| panic!("{wrong}"));
    }
}
