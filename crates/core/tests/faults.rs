//! Faults of every kind between two sessions, drawn from seeds: paths that die, stall in one or
//! both directions, flap, join late and slow down against each other; readers and writers that
//! pause; little memory; changes of role and cap; resets; processes that are killed and machines
//! that vanish; every scheduler.
//!
//! At every step: what is read is what was written, each byte once and in order; neither end holds
//! more memory than it may; the sessions do not spin. In the end: both ends know it; where paths
//! were there and the applications read, everything has arrived within a bounded time; where the
//! other end is gone, the error comes within the grace time and claims no byte as acknowledged
//! that the other end did not have.
//!
//! `cargo test` runs the first [`SEEDS`] seeds. Any others:
//!
//! ```text
//! WEFTLINE_FAULT_SEEDS=0..100000 cargo test --release -p weftline-core --test faults -- --nocapture
//! ```
//!
//! prints how many there were, how they ended, and a digest: the sum, modulo 2^64, of what each
//! seed came to, so that parts of a range may be run apart and added. One seed by itself prints its
//! plan.

mod harness;

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use harness::{End, PathSpec, START, Step, World};
use weftline_core::rng::Rng;
use weftline_core::scheduler::{Entry, REGISTRY, SchedulerConfig};
use weftline_core::session::Event;
use weftline_core::wire::PolicyNote;
use weftline_core::{Bitrate, ByteCount, Instant, PathPolicy, Role, SessionConfig};
use weftline_link::RateTrace;

/// How many seeds every run of the tests takes.
const SEEDS: u64 = 200;
/// Until when things go wrong, in ms.
const FAULTS_MS: u64 = 3000;
/// How long a connection lives without a path.
const GRACE: Duration = Duration::from_secs(8);
/// When a driver gives up subflows to a machine that does not answer.
const PATIENCE_MS: u64 = 2000;
/// The least that any path carries, and the longest that a round trip takes.
const LEAST_MBPS: u64 = 2;

/// How the faults end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finale {
    /// Everything is mended: with new subflows only, or with those that are left, too.
    Mended { anew: bool },
    /// All paths are lost for good.
    Dark,
    /// The node resets the connection.
    Reset(usize),
    /// The node's process is killed.
    Crash(usize),
    /// The node's machine vanishes.
    Vanish(usize),
}

/// All that is to happen.
#[derive(Debug)]
struct Plan {
    configs: [SessionConfig; 2],
    exact: bool,
    paths: Vec<PathSpec>,
    policies: Vec<PathPolicy>,
    totals: [u64; 2],
    script: Vec<(Instant, Step)>,
    /// All subflows die at the worst moment: as a node has all, or as it has ended.
    sever_at: Option<(usize, Event)>,
    finale: Finale,
    finale_at: Instant,
}

/// Draws plans.
struct Dice(Rng);

impl Dice {
    fn between(&mut self, range: Range<u64>) -> u64 {
        range.start + self.0.below(range.end - range.start)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.0.below(n) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.below(from.len() as u64) as usize]
    }

    fn node(&mut self) -> usize {
        self.0.below(2) as usize
    }

    /// Mostly small, sometimes large.
    fn size(&mut self, most: u64) -> u64 {
        let bits = self.between(0..64 - u64::from(most.leading_zeros()) + 1);
        self.0.below((1_u64 << bits).min(most))
    }

    fn config(&mut self, scheduler: &'static Entry, node: usize) -> SessionConfig {
        let window = self.one_in(4).then(|| self.between(1000..2_000_000));
        let latency = self.one_in(6).then(|| Duration::from_millis(self.between(5..200)));
        let max_memory = ByteCount::kib(self.pick(&[32, 256, 300, 512, 1024, 4096, 262_144]));
        SessionConfig {
            scheduler,
            scheduler_config: SchedulerConfig { window, latency, ..SchedulerConfig::default() },
            max_memory,
            first_window: ByteCount::kib(self.pick(&[0, 256, 1024, 4096])),
            ping_interval: Duration::from_millis(self.pick(&[100, 1000, 3_600_000])),
            follow_policy: node == 1,
            ..SessionConfig::default()
        }
    }

    fn path(&mut self) -> PathSpec {
        let mbps = match self.between(0..4) {
            0 => self.between(LEAST_MBPS..10),
            1..3 => self.between(10..60),
            _ => self.between(60..400),
        };
        let delay = Duration::from_millis(self.pick(&[0, 1, 5, 20, 60, 150]));
        let mut path = PathSpec::constant(Bitrate::mbps(mbps), delay);
        if self.one_in(3) {
            path = path.lossy(self.pick(&[0.001, 0.01, 0.05]));
        }
        if self.one_in(5) {
            // A rate that comes and goes.
            let on = self.between(20..500);
            let steps = vec![(Duration::ZERO, Bitrate::mbps(2 * mbps)), (ms(on), Bitrate::ZERO)];
            path.rate = RateTrace::from_steps(steps, ms(2 * on)).expect("a valid trace");
        }
        path
    }

    fn policy(&mut self) -> PathPolicy {
        let cap = self.one_in(4).then(|| Bitrate::mbps(self.between(LEAST_MBPS..40)));
        let role = self.pick(&[Role::Active, Role::Active, Role::Metered, Role::Backup]);
        PathPolicy { role, cap }
    }

    /// One thing that goes wrong at `at_ms`, and often its mending, some time after.
    fn fault(&mut self, paths: usize, at_ms: u64, script: &mut Vec<(Instant, Step)>) {
        let path = self.0.below(paths as u64) as usize;
        let node = self.node();
        let later = at_ms + self.size(2000);
        let mut say = |at_ms, step| script.push((at(at_ms), step));
        match self.between(0..14) {
            0..3 => {
                say(at_ms, Step::Cut(path, node));
                if self.one_in(2) {
                    say(at_ms, Step::Cut(path, 1 - node));
                }
                say(later, Step::Mend(path, node));
                say(later, Step::Mend(path, 1 - node));
            }
            3 => {
                say(at_ms, Step::Kill(path));
                say(later, Step::Revive(path));
            }
            4..6 => {
                say(at_ms, Step::Close(path, node));
                say(later, Step::Join(path));
            }
            6 => {
                // It flaps.
                let every = self.between(1..60);
                for n in 0..self.between(2..20) {
                    let closed = at_ms + n * every;
                    say(closed, Step::Close(path, (n % 2) as usize));
                    say(closed + self.0.below(every), Step::Join(path));
                }
            }
            7 => {
                // Every path goes at once, and one after the other comes back.
                for path in 0..paths {
                    say(at_ms, Step::Kill(path));
                    say(at_ms + self.size(2000), Step::Join(path));
                }
            }
            8 => say(at_ms, Step::Slow(path, ms(self.size(300)))),
            9..11 => {
                say(at_ms, Step::Reads(node, self.size(300_000)));
                say(later, Step::Reads(node, self.pick(&[u64::MAX, 1, 100_000])));
            }
            11 => {
                say(at_ms, Step::Writes(node, self.size(300_000)));
                say(later, Step::Writes(node, self.pick(&[u64::MAX, 1, 100_000])));
            }
            12 => {
                let kib = self.between(256..4096);
                say(at_ms, Step::Memory(node, kib << 10, self.between(256..4096) << 10));
            }
            _ => {
                let note = PolicyNote { revision: at_ms, policy: self.policy() };
                say(at_ms, Step::Policy(path, note));
            }
        }
    }

    fn finale(&mut self) -> Finale {
        let node = self.node();
        match self.between(0..20) {
            0..6 => Finale::Mended { anew: false },
            6..12 => Finale::Mended { anew: true },
            12..14 => Finale::Dark,
            14..16 => Finale::Reset(node),
            16..18 => Finale::Crash(node),
            _ => Finale::Vanish(node),
        }
    }
}

impl Plan {
    fn draw(seed: u64) -> Self {
        let mut dice = Dice(Rng::stream(seed, "faults"));
        let scheduler = &REGISTRY[dice.0.below(REGISTRY.len() as u64) as usize];
        let paths: Vec<_> = (0..dice.between(2..5)).map(|_| dice.path()).collect();
        let policies = match dice.one_in(3) {
            true => paths.iter().map(|_| dice.policy()).collect(),
            false => Vec::new(),
        };
        let mut script = Vec::new();
        for _ in 0..dice.between(0..16) {
            let at_ms = dice.0.below(FAULTS_MS);
            dice.fault(paths.len(), at_ms, &mut script);
        }
        for node in 0..2 {
            // One that has more to say keeps its direction open to the end.
            if dice.one_in(4) {
                script.push((at(0), Step::Writes(node, dice.size(500_000))));
            }
        }
        let finale = dice.finale();
        let finale_at = match finale {
            Finale::Mended { .. } => at(FAULTS_MS + 500),
            // In the midst of everything.
            _ => at(50 + dice.size(FAULTS_MS)),
        };
        let total = |dice: &mut Dice| match dice.one_in(3) {
            true => dice.size(1 << 20),
            false => dice.between(0..1 << 20),
        };
        Self {
            configs: [0, 1].map(|node| dice.config(scheduler, node)),
            exact: dice.one_in(3),
            sever_at: dice.one_in(4).then(|| match dice.one_in(2) {
                true => (dice.node(), Event::Finished),
                false => (dice.node(), Event::Closed),
            }),
            totals: [0, 1].map(|_| total(&mut dice)),
            paths,
            policies,
            script: end_with(script, finale, finale_at),
            finale,
            finale_at,
        }
    }

    /// Until when both ends must have come to their end.
    fn deadline(&self) -> Instant {
        let bits = 8 * self.totals.iter().sum::<u64>();
        let slowest = Duration::from_secs(bits / (LEAST_MBPS * 500_000));
        self.finale_at + GRACE + Duration::from_secs(20) + slowest
    }
}

/// The script as far as the finale lets it run, and that.
fn end_with(
    mut script: Vec<(Instant, Step)>,
    finale: Finale,
    when: Instant,
) -> Vec<(Instant, Step)> {
    script.retain(|(at, _)| *at < when);
    let free = |node| [Step::Reads(node, u64::MAX), Step::Writes(node, u64::MAX)];
    let end = match finale {
        Finale::Mended { anew: true } => vec![Step::HangUp(0), Step::HangUp(1), Step::Redial],
        Finale::Mended { anew: false } => vec![Step::MendAll, Step::Redial],
        Finale::Dark => vec![Step::HangUp(0), Step::HangUp(1)],
        Finale::Reset(node) => vec![Step::MendAll, Step::Reset(node), Step::Redial],
        Finale::Crash(node) => vec![Step::Crash(node), Step::Redial],
        Finale::Vanish(node) => vec![Step::Vanish(node), Step::Redial],
    };
    script.extend(end.into_iter().map(|step| (when, step)));
    // Calm comes first: nothing but an event of the session wakes who waits for reader or writer.
    for (steps, wait) in [(free(0), 400), (free(1), 700)] {
        script.extend(steps.into_iter().map(|step| (when + ms(wait), step)));
    }
    if let Finale::Crash(node) | Finale::Vanish(node) = finale {
        let given_up = when + Duration::from_millis(PATIENCE_MS);
        script.push((given_up, Step::HangUp(1 - node)));
    }
    script
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// Runs the seed and returns what it came to: how the ends ended, and a hash of everything.
fn run(seed: u64, verbose: bool) -> (String, u64) {
    let plan = Plan::draw(seed);
    if verbose {
        println!("{plan:#?}");
    }
    let configs = [&plan.configs[0], &plan.configs[1]];
    let mut world = World::between(configs, plan.paths.clone(), plan.totals, seed);
    world.exact = plan.exact;
    world.grace = Some(GRACE);
    world.max_memory = Some(configs.map(|config| config.max_memory.as_u64()));
    world.sever_at = plan.sever_at.clone();
    world.policies(&plan.policies);
    world.script(plan.script.clone());
    world.run(plan.deadline());
    evaluate(&plan, &world);
    let ends = [0, 1].map(|node| kind(world.end(node)));
    (format!("{} / {}", ends[0], ends[1]), hash(&world))
}

fn kind(end: Option<&End>) -> &'static str {
    match end {
        None => "open",
        Some(End::Closed) => "closed",
        Some(End::Crashed) => "crashed",
        Some(End::NoPath { .. }) => "no path",
        Some(End::Refused) => "refused",
        Some(End::Reset) => "reset",
    }
}

/// Checks what must hold in the end.
fn evaluate(plan: &Plan, world: &World) {
    for node in 0..2 {
        let (us, peer) = (world.session(node).stats(), world.session(1 - node).stats());
        let (read, written) = (world.read(node), world.written(1 - node));
        assert!(read <= written, "node {node} read {read} bytes of {written}");
        assert!(us.acknowledged <= peer.delivered, "acknowledged and not there");
        let end = world.end(node).unwrap_or_else(|| {
            panic!(
                "node {node} has not ended at {}: read {read} of {}, acknowledged {} of {}",
                world.now,
                plan.totals[1 - node],
                us.acknowledged,
                plan.totals[node]
            )
        });
        let other = world.end(1 - node);
        match end {
            End::Closed => {
                assert_eq!(us.acknowledged, plan.totals[node]);
                assert_eq!((read, us.delivered), (plan.totals[1 - node], plan.totals[1 - node]));
            }
            End::NoPath { acknowledged, received } => {
                assert!(!matches!(plan.finale, Finale::Mended { .. }), "paths were there");
                assert!(*acknowledged <= peer.delivered && *received <= written);
                let limit = plan.finale_at + ms(PATIENCE_MS) + GRACE;
                assert!(world.ended_at(node) <= limit, "told at {}", world.ended_at(node));
            }
            End::Crashed => {
                let gone = [Finale::Crash(node), Finale::Vanish(node)];
                assert!(gone.contains(&plan.finale));
            }
            End::Refused => {
                assert!(!matches!(plan.finale, Finale::Mended { .. }), "the server was there");
                assert!(other != Some(&End::Closed), "the server had yet to drain");
            }
            End::Reset => assert!(matches!(plan.finale, Finale::Reset(_))),
        }
        if matches!(plan.finale, Finale::Mended { .. }) {
            assert_eq!(end, &End::Closed, "node {node}");
        }
        let busy_ms = world.now.since(Instant::ZERO).as_millis() as u64;
        let segments = plan.totals.iter().sum::<u64>() / 1448;
        let most = 2000 + 40 * (busy_ms + segments);
        assert!(world.calls(node) <= most, "{} calls in {busy_ms} ms", world.calls(node));
    }
    assert!(world.now >= START || world.end(0).is_some());
}

/// FNV-1a over what the run came to.
fn hash(world: &World) -> u64 {
    let mut words = vec![world.now.since(Instant::ZERO).as_nanos() as u64];
    for node in 0..2 {
        let stats = world.session(node).stats();
        words.extend(kind(world.end(node)).bytes().map(u64::from));
        words.extend([world.read(node), world.calls(node), stats.acknowledged, stats.duplicates]);
        words.extend(stats.paths.values().flat_map(|path| [path.sent, path.reinjected]));
    }
    let bytes = words.iter().flat_map(|word| word.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The seeds asked for by the environment, or the first few.
#[expect(clippy::disallowed_methods, reason = "a test is told by its environment what to run")]
fn seeds() -> Range<u64> {
    let Ok(text) = std::env::var("WEFTLINE_FAULT_SEEDS") else { return 0..SEEDS };
    let (from, to) = text.split_once("..").unwrap_or((&text, ""));
    let number = |text: &str| text.parse().expect("WEFTLINE_FAULT_SEEDS is a seed or FROM..TO");
    let from = number(from);
    from..if to.is_empty() { from + 1 } else { number(to) }
}

#[test]
fn faults_of_every_kind() {
    let seeds = seeds();
    let count = seeds.end.saturating_sub(seeds.start);
    let mut ends = BTreeMap::<String, u64>::new();
    let mut digest = 0_u64;
    let mut failed = Vec::new();
    for seed in seeds.clone() {
        match std::panic::catch_unwind(|| run(seed, count == 1)) {
            Ok((end, hash)) => {
                *ends.entry(end).or_default() += 1;
                digest = digest.wrapping_add(hash);
            }
            Err(_) => failed.push(seed),
        }
    }
    println!("{count} seeds {seeds:?}, digest {digest:016x}; client / server: {ends:#?}");
    assert!(failed.is_empty(), "{} of {count} seeds failed: {failed:?}", failed.len());
}
