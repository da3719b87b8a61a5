//! Roles and rate caps of paths, for every scheduler.

mod harness;

use std::time::Duration;

use harness::{PathSpec, START, Step, World};
use proptest::prelude::*;
use weftline_core::limiter::PathLimiter;
use weftline_core::policy::METERED_AFTER;
use weftline_core::scheduler::{Entry, REGISTRY};
use weftline_core::wire::PolicyNote;
use weftline_core::{
    Bitrate, ByteCount, Instant, PathId, PathPolicy, RateCap, Role, SessionConfig,
};

/// More than is sent in any of these tests.
const ENDLESS: u64 = 1 << 40;

fn config(scheduler: &str) -> SessionConfig {
    let scheduler = Entry::find(scheduler).expect("registered");
    SessionConfig { scheduler, follow_policy: true, ..SessionConfig::default() }
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn role(role: Role) -> PathPolicy {
    PathPolicy { role, cap: None }
}

const ACTIVE: PathPolicy = PathPolicy { role: Role::Active, cap: None };

fn paths(mbps: &[u64]) -> Vec<PathSpec> {
    mbps.iter().map(|&mbps| PathSpec::constant(Bitrate::mbps(mbps), ms(10))).collect()
}

/// Bytes the server has given to the path so far.
fn sent(world: &World, path: u64) -> u64 {
    world.session(1).stats().paths[&PathId(path)].sent
}

fn cut(from: u64, until: u64, path: usize) -> Vec<(Instant, Step)> {
    let both = |at, step: fn(usize, usize) -> Step| [(at, step(path, 0)), (at, step(path, 1))];
    [both(at(from), Step::Cut), both(at(until), Step::Mend)].concat()
}

#[test]
fn a_backup_carries_nothing_until_the_actives_stall() {
    for entry in REGISTRY {
        for exact in [false, true] {
            let what = format!("{}, exact {exact}", entry.name);
            let mut world = World::new(&config(entry.name), paths(&[10, 10, 10]), [0, ENDLESS], 1);
            world.exact = exact;
            world.policies(&[ACTIVE, ACTIVE, role(Role::Backup)]);
            world.script([cut(500, 1500, 0), cut(500, 1500, 1)].concat());
            world.run(at(500));
            assert_eq!(sent(&world, 2), 0, "{what}");
            assert!(world.read(0) > 300_000, "{what}: {}", world.read(0));

            // Both die at once. When they count as stalled the backup takes over by itself.
            let before = world.read(0);
            world.run(at(1500));
            let gained = world.read(0) - before;
            // 10 Mb/s for a second, less the time until both were late and one more delivery. One
            // window at a time loses more.
            let least = if entry.name == "fbdt-strict" { 200_000 } else { 500_000 };
            assert!(gained > least, "{what}: {gained}");

            // They are back: what the backup had in hand is all that it still carries.
            world.run(at(1800));
            let at_rest = sent(&world, 2);
            world.run(at(2500));
            assert_eq!(sent(&world, 2), at_rest, "{what}");
        }
    }
}

#[test]
fn a_backup_takes_over_at_the_moment_of_the_stall() {
    let mut world = World::new(&config("fbdt"), paths(&[20, 20]), [0, ENDLESS], 1);
    world.policies(&[ACTIVE, role(Role::Backup)]);
    world.script(cut(1000, 9000, 0));
    let mut now = 1000;
    while world.stall_events == 0 {
        assert_eq!(sent(&world, 1), 0, "before {now} ms");
        now += 1;
        world.run(at(now));
    }
    assert!(sent(&world, 1) > 0, "the path was found stalled at {now} ms");
    // The lowest bytes first: they are what the application waits for.
    let before = world.read(0);
    world.run(at(now + 15));
    assert!(world.read(0) > before);
}

#[test]
fn a_backup_sends_again_what_a_stalled_path_holds() {
    // One active path remains: the backup carries no new data, but helps with the lost ones.
    let mut world = World::new(&config("fbdt"), paths(&[20, 20, 20]), [0, ENDLESS], 1);
    world.policies(&[ACTIVE, ACTIVE, role(Role::Backup)]);
    world.script(cut(1000, 9000, 1));
    world.run(at(3000));
    let stats = world.session(1).stats();
    let backup = &stats.paths[&PathId(2)];
    assert_eq!(backup.sent, backup.reinjected);
    let lost = stats.paths[&PathId(1)].subflow.as_ref().map_or(0, |subflow| subflow.outstanding);
    assert!(backup.sent <= lost, "{} of {lost}", backup.sent);
}

#[test]
fn a_backup_stands_in_for_a_path_that_is_gone() {
    for entry in REGISTRY {
        let mut world = World::new(&config(entry.name), paths(&[20, 20]), [0, 4 << 20], 1);
        world.policies(&[ACTIVE, role(Role::Backup)]);
        world.script(vec![(at(500), Step::Kill(0)), (at(1000), Step::Revive(0))]);
        assert!(world.run(at(10_000)), "{}: {}", entry.name, world.read(0));
        let backup = sent(&world, 1);
        assert!((1 << 20..2 << 20).contains(&backup), "{}: {backup}", entry.name);
    }
}

#[test]
fn a_cap_holds_with_every_scheduler() {
    let cap = Bitrate::mbps(3);
    for entry in REGISTRY {
        for exact in [false, true] {
            let what = format!("{}, exact {exact}", entry.name);
            let mut world = World::new(&config(entry.name), paths(&[10, 10]), [0, ENDLESS], 1);
            world.exact = exact;
            world.policies(&[PathPolicy { cap: Some(cap), ..ACTIVE }, ACTIVE]);
            world.run(at(3000));
            let time = world.now.since(START);
            let most = cap.bytes_in(time + RateCap::BURST).as_u64();
            let limited = sent(&world, 0);
            assert!(limited <= most, "{what}: {limited} > {most}");
            // The other path is not held back by it, except where one path is all that is used, or
            // a ratio of the two is still being searched for.
            if entry.name == "single" {
                assert!(limited * 20 > most * 19, "{what}: {limited} of {most}");
            } else if entry.name != "musher" {
                let total = world.read(0);
                let other = Bitrate::mbps(10).bytes_in(time).as_u64();
                assert!(total * 10 > other * 9, "{what}: {total} of {other}");
            }
        }
    }
}

#[test]
fn a_small_transfer_does_not_wait_for_a_path_that_its_cap_has_closed() {
    // 100 kB over 5 ms capped to 1 Mb/s and over 30 ms without a cap.
    for scheduler in ["earliest", "fbdt", "min-rtt"] {
        let paths = vec![
            PathSpec::constant(Bitrate::mbps(20), ms(5)),
            PathSpec::constant(Bitrate::mbps(50), ms(30)),
        ];
        let mut world = World::new(&config(scheduler), paths, [0, 100_000], 1);
        world.policies(&[PathPolicy { cap: Some(Bitrate::mbps(1)), ..ACTIVE }, ACTIVE]);
        assert!(world.run(at(300)), "{scheduler}: {} by {}", world.read(0), world.now);
    }
}

#[test]
fn an_active_path_comes_before_a_backup_where_something_is_lost() {
    let far = PathSpec::constant(Bitrate::mbps(20), ms(300));
    for scheduler in ["earliest", "fbdt"] {
        let mut all = paths(&[20, 20]);
        all.push(far.clone());
        let mut world = World::new(&config(scheduler), all, [0, ENDLESS], 1);
        world.policies(&[ACTIVE, ACTIVE, role(Role::Backup)]);
        world.script(cut(1000, 9000, 1));
        let mut now = 1000;
        while world.stall_events == 0 {
            now += 1;
            world.run(at(now));
        }
        // By way of the backup the lowest byte would take 300 ms.
        let before = world.read(0);
        world.run(at(now + 150));
        assert!(world.read(0) > before, "{scheduler}: nothing came by the active path");
    }
}

#[test]
fn a_cap_is_used_up() {
    for scheduler in ["fbdt", "min-rtt", "round-robin", "lpc", "linux"] {
        let mut world = World::new(&config(scheduler), paths(&[50, 50]), [0, ENDLESS], 1);
        let cap = |mbps| PathPolicy { cap: Some(Bitrate::mbps(mbps)), ..ACTIVE };
        world.policies(&[cap(10), cap(20)]);
        world.run(at(4000));
        let total = Bitrate::from_transfer(ByteCount::new(world.read(0)), world.now.since(START));
        let total = total.as_mbps_f64();
        assert!((27.0..=30.2).contains(&total), "{scheduler}: {total}");
    }
}

/// A limiter lets everything through until somebody sets a limit, and again when that is lifted.
#[test]
fn a_limiter_limits_while_it_is_told_to() {
    for scheduler in ["fbdt", "min-rtt", "round-robin"] {
        for is_up in [false, true] {
            let mut world = World::new(&config(scheduler), paths(&[50]), [0, ENDLESS], 1);
            let limiter = PathLimiter::default();
            // Before its path is up, or amid a transfer.
            if is_up {
                world.run(at(500));
            }
            world.limiter(1, PathId(0), limiter.clone());
            let mut carried = |until| {
                world.run(world.now + ms(300));
                let (before, from) = (world.read(0), world.now);
                world.run(at(until));
                let bytes = ByteCount::new(world.read(0) - before);
                Bitrate::from_transfer(bytes, world.now.since(from)).as_mbps_f64()
            };
            let open = carried(2000);
            assert_eq!(limiter.spent(), 0, "nobody counts");
            limiter.count();
            limiter.set_limit(Some(Bitrate::mbps(10)));
            let limited = carried(4000);
            limiter.lift();
            let again = carried(6000);
            let said = format!("{scheduler}, {is_up}: {open} {limited} {again}");
            assert!(open > 45.0 && (9.0..=10.2).contains(&limited) && again > 45.0, "{said}");
            assert!(limiter.spent() > 2_000_000, "{said}");
        }
    }
}

#[test]
fn a_metered_path_carries_only_what_the_actives_cannot() {
    for scheduler in ["fbdt", "min-rtt", "redundant", "linux"] {
        let metered = |mbps| {
            let mut world = World::new(&config(scheduler), paths(&[20, 50]), [0, ENDLESS], 1);
            world.policies(&[ACTIVE, role(Role::Metered)]);
            world.pace = Some(Bitrate::mbps(mbps));
            world.run(at(5100));
            let written = Bitrate::mbps(mbps).bytes_in(ms(5000)).as_u64();
            (sent(&world, 1), written - world.read(0))
        };
        // The active path keeps up with 18 Mb/s.
        let (used, behind) = metered(18);
        assert_eq!(used, 0, "{scheduler}");
        assert!(behind < 250_000, "{scheduler}: {behind} bytes behind");
        // It does not with 30 Mb/s: the rest goes on the metered one, and not much more.
        let excess = Bitrate::mbps(10).bytes_in(ms(5000)).as_u64();
        let (used, behind) = metered(30);
        if scheduler != "redundant" {
            assert!((excess * 7 / 10..excess * 14 / 10).contains(&used), "{scheduler}: {used}");
        }
        // A fifth of a second is what it waits with, and about what is delivered late.
        let late = Bitrate::mbps(30).bytes_in(METERED_AFTER * 2).as_u64();
        assert!(behind < late, "{scheduler}: {behind} bytes behind");
    }
}

#[test]
fn a_metered_path_is_spared_a_burst() {
    // 400 KB take 160 ms on the active path, less than what a metered one waits for.
    let mut world = World::new(&config("fbdt"), paths(&[20, 50]), [0, 400_000], 1);
    world.policies(&[ACTIVE, role(Role::Metered)]);
    assert!(world.run(at(5000)));
    assert_eq!(sent(&world, 1), 0);
    // 1 MB would take 400 ms.
    let mut world = World::new(&config("fbdt"), paths(&[20, 50]), [0, 1_000_000], 1);
    world.policies(&[ACTIVE, role(Role::Metered)]);
    assert!(world.run(at(5000)));
    assert!(sent(&world, 1) > 200_000, "{}", sent(&world, 1));
}

#[test]
fn a_metered_path_comes_before_a_backup() {
    let mut world = World::new(&config("fbdt"), paths(&[20, 20, 20]), [0, 4 << 20], 1);
    world.policies(&[ACTIVE, role(Role::Metered), role(Role::Backup)]);
    world.script(vec![(at(150), Step::Kill(0))]);
    assert!(world.run(at(10_000)));
    assert!(sent(&world, 1) > 3 << 20, "{}", sent(&world, 1));
    assert_eq!(sent(&world, 2), 0);
}

#[test]
fn the_client_changes_roles_of_a_connection_under_way() {
    let note = |revision, policy| PolicyNote { revision, policy };
    let mut world = World::new(&config("fbdt"), paths(&[20, 20]), [0, ENDLESS], 1);
    let capped = PathPolicy { cap: Some(Bitrate::mbps(1)), ..ACTIVE };
    world.script(vec![
        (at(1000), Step::Policy(1, note(1, role(Role::Backup)))),
        (at(2000), Step::Policy(1, note(2, ACTIVE))),
        // Older than the last revision: of no effect.
        (at(2001), Step::Policy(1, note(1, role(Role::Backup)))),
        (at(3000), Step::Policy(0, note(3, capped))),
    ]);
    let mut carried = |from, until, path| {
        world.run(at(from));
        let before = sent(&world, path);
        world.run(at(until));
        Bitrate::from_transfer(ByteCount::new(sent(&world, path) - before), ms(until - from))
    };
    assert!(carried(500, 1000, 1) > Bitrate::mbps(15));
    assert_eq!(carried(1050, 1990, 1), Bitrate::ZERO);
    assert!(carried(2100, 3000, 1) > Bitrate::mbps(15));
    let rate = carried(3050, 4000, 0);
    assert!((Bitrate::kbps(800)..Bitrate::kbps(1100)).contains(&rate), "{rate}");
    assert_eq!(world.session(1).policy(PathId(0)).policy, capped);
    assert_eq!(world.session(1).policy(PathId(1)).policy, ACTIVE);
}

#[test]
fn a_retired_path_lets_others_take_over() {
    let mut world = World::new(&config("fbdt"), paths(&[20, 20]), [0, ENDLESS], 1);
    let retired = PolicyNote { revision: 1, policy: role(Role::Retired) };
    world.script(vec![(at(1000), Step::Policy(0, retired)), (at(2000), Step::Kill(1))]);
    world.run(at(1050));
    let before = sent(&world, 0);
    world.run(at(1990));
    assert_eq!(sent(&world, 0), before);
    let left = world.session(1).stats().paths[&PathId(0)].subflow.as_ref().map(|s| s.outstanding);
    assert_eq!(left, Some(0), "everything on it has arrived: it can be closed");
    // Nothing else is left: better that one than none.
    world.run(at(3000));
    assert!(sent(&world, 0) > before + 1_500_000);
}

fn any_policy() -> impl Strategy<Value = PathPolicy> {
    let roles = vec![Role::Active, Role::Metered, Role::Backup, Role::Retired];
    let cap = proptest::option::of((2u64..40).prop_map(Bitrate::mbps));
    (proptest::sample::select(roles), cap).prop_map(|(role, cap)| PathPolicy { role, cap })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Whatever the roles and caps are and become, every byte arrives while any path lives, and no
    /// path carries more than its cap, if that stays.
    #[test]
    fn any_policies_deliver_everything(
        scheduler in 0..REGISTRY.len(),
        exact in any::<bool>(),
        policies in proptest::collection::vec(any_policy(), 3),
        changes in proptest::collection::vec((100u64..1500, 0usize..3, any_policy()), 0..6),
        cuts in proptest::collection::vec((100u64..2000, 10u64..1500, 0usize..3), 0..4),
    ) {
        let entry = &REGISTRY[scheduler];
        let total = 1 << 20;
        let specs = paths(&[4, 8, 12]);
        let mut world = World::new(&config(entry.name), specs, [100_000, total], 5);
        world.exact = exact;
        world.policies(&policies);
        let mut script: Vec<_> = cuts.iter().flat_map(|&(t, len, path)| cut(t, t + len, path)).collect();
        let mut steps = changes.clone();
        steps.sort_by_key(|(t, ..)| *t);
        script.extend((1..).zip(&steps).map(|(revision, &(t, path, policy))| {
            (at(t), Step::Policy(path, PolicyNote { revision, policy }))
        }));
        world.script(script);
        let done = world.run(at(60_000));
        prop_assert!(done, "{}: {} of {total} at {}", entry.name, world.read(0), world.now);
        for (path, policy) in (0..).zip(&policies) {
            let changed = changes.iter().any(|&(_, p, _)| p as u64 == path);
            if let (Some(cap), false) = (policy.cap, changed) {
                let most = cap.bytes_in(world.now.since(Instant::ZERO) + RateCap::BURST).as_u64();
                prop_assert!(sent(&world, path) <= most, "{} > {most}", sent(&world, path));
            }
        }
    }
}
