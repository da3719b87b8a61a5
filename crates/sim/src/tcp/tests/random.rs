//! Random scripts: whatever the path does, everything written arrives, once and in order, and the
//! connection comes to rest.

use proptest::prelude::*;
use weftline_congestion::REGISTRY;
use weftline_core::rng::Rng;

use super::harness::{CLIENT, Departure, MSS, Pair, SERVER, START, Setup};
use crate::tcp::{MS, SECOND};

/// A path of some kind.
#[derive(Clone, Debug)]
struct Path {
    /// Per thousand, in each direction.
    loss: [u64; 2],
    delay_ms: u64,
    /// Added at random: packets overtake each other.
    jitter_ms: u64,
    /// Time to serve a segment.
    service_us: u64,
    queue: u64,
    /// Nothing passes between these times; what is sent is lost.
    dark_ms: (u64, u64),
    seed: u64,
}

/// Until then the path loses and is dark.
const TROUBLE: u64 = 20 * SECOND;

fn paths() -> impl Strategy<Value = Path> {
    let loss = prop_oneof![Just(0_u64), 1..50_u64, 50..400_u64];
    let jitter = prop_oneof![3 => Just(0_u64), 1 => 1..30_u64];
    let dark = prop_oneof![Just((0, 0)), (0..5_000_u64, 1..5_000_u64)];
    let rest = (1..150_u64, jitter, 10..2_000_u64, 2..300_u64, dark, any::<u64>());
    ((loss.clone(), loss), rest).prop_map(
        |((down, up), (delay_ms, jitter_ms, service_us, queue, dark_ms, seed))| Path {
            loss: [up, down],
            delay_ms,
            jitter_ms,
            service_us,
            queue,
            dark_ms: (dark_ms.0, dark_ms.0 + dark_ms.1),
            seed,
        },
    )
}

impl Path {
    fn script(self) -> impl FnMut(&Departure) -> Option<u64> {
        let mut rng = Rng::stream(self.seed, "path");
        let mut free_ns = i64::MIN / 2;
        move |departure| {
            let trouble = (0..TROUBLE as i64).contains(&departure.at_ns);
            let lost = rng.below(1_000) < self.loss[departure.from];
            let (from, to) = (self.dark_ms.0 * MS, self.dark_ms.1 * MS);
            let dark = (from as i64..to as i64).contains(&departure.at_ns);
            if trouble && (lost || dark) {
                return None;
            }
            let delay = self.delay_ms * MS + rng.below(self.jitter_ms * MS + 1);
            if departure.from == CLIENT || departure.segment.len == 0 {
                return Some(delay);
            }
            let service = self.service_us as i64 * 1_000;
            let wait = (free_ns - departure.at_ns).max(0);
            if wait > self.queue as i64 * service {
                return None;
            }
            free_ns = departure.at_ns + wait + service;
            Some((wait + service) as u64 + delay)
        }
    }
}

/// What the application writes: segments and the milliseconds before the next.
fn writes() -> impl Strategy<Value = Vec<(u64, u64)>> {
    prop::collection::vec((prop_oneof![1..20_u64, 20..600_u64], 0..700_u64), 1..8)
}

fn run(control: &'static str, path: Path, writes: &[(u64, u64)]) -> Result<(), TestCaseError> {
    let setup = Setup { control, ..Setup::default() };
    let mut pair = Pair::new(setup, Box::new(path.script()));
    let (mut at, mut total) = (0, 0);
    for &(segments, pause_ms) in writes {
        pair.write_at(at * MS, segments);
        at += pause_ms;
        total += segments;
    }
    // The longest timeout is 120 s; after the trouble nothing is lost but by the queue.
    let end = START + 400 * SECOND;
    let (mut steps, mut in_order) = (0_u64, 0);
    while !pair.is_done() {
        prop_assert!(pair.step(end), "{control} stands still with {in_order} of {total}");
        steps += 1;
        prop_assert!(steps < 2_000_000, "{control} turns in circles at {} ns", pair.now_ns);
        let now = pair.ends[CLIENT].in_order();
        prop_assert!(now >= in_order && now <= pair.ends[SERVER].written());
        prop_assert!(pair.ends[SERVER].acknowledged() <= now, "acknowledged before it arrived");
        in_order = now;
    }
    prop_assert_eq!(in_order, total * MSS);
    let stats = pair.ends[SERVER].stats();
    prop_assert_eq!(stats.segments, pair.sent.len() as u64);
    prop_assert_eq!(stats.segments - stats.resent, total, "each segment is new once");
    prop_assert_eq!(stats.delivered, total, "each segment is delivered once");
    prop_assert_eq!(stats.delivered_bytes, total * MSS);
    prop_assert_eq!(pair.ends[SERVER].info(MSS).in_flight.as_u64(), 0);
    // It rests: what is left are timers that find nothing to do.
    let sent = pair.sent.len();
    pair.run_to(pair.now_ns - START + 10 * SECOND);
    prop_assert_eq!(pair.sent.len(), sent, "nothing is sent of nothing");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn everything_arrives_once_and_in_order(path in paths(), writes in writes()) {
        for entry in REGISTRY {
            run(entry.name, path.clone(), &writes)?;
        }
    }
}
