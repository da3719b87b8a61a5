//! Whole connections in a world that breaks: path manager, life and session of a client, life and
//! session of its server, over links that are cut, go dark, flap, corrupt, and lose their addresses.
//!
//! Each seed is one connection with settings, links and faults of its own. When it is over, every
//! byte has come once and in order, or an end has an error that says how many have; and nothing is
//! left of it. A thousand seeds run with the other tests. Many more:
//!
//! ```text
//! scripts/connections 1000000
//! ```

#![allow(unreachable_pub, reason = "test code")]
#![allow(
    clippy::disallowed_methods,
    reason = "how many seeds there are is asked of the environment"
)]

mod link;
mod node;
mod plan;
mod world;

use std::fs;
use std::io::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use self::plan::Plan;
use self::world::{Outcome, World};

/// Seeds that run unless more are asked for.
const SEEDS: u64 = 1_000;
/// Seeds between two notes of how far a long run has come.
const STEP: u64 = 10_000;

/// `WEFTLINE_SEEDS` is how many seeds there are. With `WEFTLINE_SEEDS_DONE`, a file, a run goes on
/// after the seeds that it names, and notes there which are done.
#[test]
fn every_byte_comes_once_or_an_error_says_which_did_not() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seeds: u64 = number("WEFTLINE_SEEDS").unwrap_or(SEEDS);
    let note = std::env::var("WEFTLINE_SEEDS_DONE").ok();
    let noted = note.as_ref().and_then(|file| fs::read_to_string(file).ok());
    let done: u64 = noted.and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    let counts = Mutex::new([0_u64; 4]);
    let mut first = done;
    while first < seeds {
        let end = seeds.min(first + STEP);
        run(first..end, &counts);
        if let Some(file) = &note {
            fs::write(file, end.to_string()).expect("the note can be written");
        }
        first = end;
    }
    let [closed, failed, unopened, half] = *counts.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = writeln!(
        std::io::stderr(),
        "seeds {done} to {seeds}: {closed} closed at both ends, {half} at one, {failed} failed at \
         both, {unopened} never opened"
    );
    assert!(seeds == done || closed > 0, "no connection came to its end");
}

/// Runs the seeds on every processor.
fn run(seeds: std::ops::Range<u64>, counts: &Mutex<[u64; 4]>) {
    let next = AtomicU64::new(seeds.start);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                let mut mine = [0; 4];
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    mine[outcome(seed) as usize] += 1;
                }
                let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
                counts.iter_mut().zip(mine).for_each(|(all, mine)| *all += mine);
            });
        }
    });
}

fn outcome(seed: u64) -> Outcome {
    let plan = Plan::draw(seed);
    World::new(&plan).run().unwrap_or_else(|why| panic!("seed {seed}: {why}\n{plan:#?}"))
}

/// For a seed that failed: `WEFTLINE_SEED=17 cargo test -p weftline-core --test connections one`.
#[test]
fn one_seed() {
    if let Ok(seed) = std::env::var("WEFTLINE_SEED") {
        outcome(seed.parse().expect("a number"));
    }
}
