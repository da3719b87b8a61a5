//! The controls' integer arithmetic, as the kernel computes it, against their formulas in real
//! numbers.

#![cfg(feature = "bpf")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::cell::RefCell;

use libbpf_rs::{MapCore as _, MapFlags, MapHandle, Object, ObjectBuilder, ProgramInput};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use weftline_bpf::{BpfError, VECTORS};

/// `ONE` of the programs.
const ONE: f64 = (1u64 << 20) as f64;
/// Compound's `SEGMENT`.
const SEGMENT: f64 = 65536.0;

/// A subflow: window in segments, round-trip time in µs, bytes between losses.
type Member = (u32, u32, u64);

#[derive(Clone, Debug, Default)]
struct Given {
    members: Vec<Member>,
    place: usize,
    /// Compound's: the whole window, the delay part and γ in segments; times in µs.
    window: f64,
    delay_window: f64,
    gamma: f64,
    base_us: u64,
    rtt_us: u64,
}

#[derive(Clone, Copy, Debug)]
struct Computed {
    lia: f64,
    olia: f64,
    balia: f64,
    balia_reduced: u64,
    backlog: f64,
    next: f64,
    reduced: f64,
    tuned: f64,
}

/// The test program in the kernel; `None` where that cannot be.
fn object() -> Option<RefCell<Object>> {
    let loaded = ObjectBuilder::default().open_memory(VECTORS).unwrap().load();
    let object = support::possible(loaded.map_err(|error| match error.kind() {
        libbpf_rs::ErrorKind::PermissionDenied => {
            BpfError::NotPermitted { what: "loading a BPF program".to_owned() }
        }
        _ => panic!("{error:?}"),
    }));
    object.map(RefCell::new)
}

/// Lets the kernel compute: `struct vector` of bpf/vectors.bpf.c.
fn compute(object: &RefCell<Object>, given: &Given) -> Computed {
    let mut bytes = Vec::new();
    for place in 0..8 {
        let member = given.members.get(place);
        let (cwnd, srtt_us, epoch) = member.copied().unwrap_or_default();
        bytes.extend(u64::from(member.is_some()).to_ne_bytes());
        bytes.extend(cwnd.to_ne_bytes());
        bytes.extend(srtt_us.to_ne_bytes());
        bytes.extend(epoch.to_ne_bytes());
    }
    let segments = |value: f64| (value * SEGMENT) as u64;
    let windows = [given.window, given.delay_window, given.gamma].map(segments);
    for word in [given.place as u64].into_iter().chain(windows).chain([given.base_us, given.rtt_us])
    {
        bytes.extend(word.to_ne_bytes());
    }
    bytes.extend([0; 8 * 8]);
    let object = object.borrow_mut();
    let map = MapHandle::try_from(&object.maps().next().unwrap()).unwrap();
    map.update(&0u32.to_ne_bytes(), &bytes, MapFlags::ANY).unwrap();
    let program = object.progs_mut().next().unwrap();
    let run = program.test_run(ProgramInput::default()).unwrap();
    assert_eq!(run.return_value, 0);
    let value = map.lookup(&0u32.to_ne_bytes(), MapFlags::ANY).unwrap().unwrap();
    let words: Vec<u64> =
        value.chunks(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect();
    let [lia, olia, balia, balia_reduced, backlog, next, reduced, tuned] =
        words[30..].try_into().unwrap();
    Computed {
        lia: lia as f64 / ONE,
        olia: olia as i64 as f64 / ONE,
        balia: balia as f64 / ONE,
        balia_reduced,
        backlog: backlog as f64 / SEGMENT,
        next: next as f64 / SEGMENT,
        reduced: reduced as f64 / SEGMENT,
        tuned: tuned as f64 / SEGMENT,
    }
}

fn close(got: f64, wanted: f64) -> bool {
    (got - wanted).abs() <= 0.01 * wanted.abs() + 4.0 / ONE
}

/// The formulas, times the window: per segment acknowledged relative to Reno's increase.
struct Formulas {
    lia: f64,
    olia: f64,
    balia: f64,
    balia_reduced: f64,
}

fn formulas(members: &[Member], place: usize) -> Formulas {
    let w = |(cwnd, ..): &Member| f64::from(*cwnd);
    let r = |(_, srtt_us, _): &Member| f64::from(*srtt_us) / 1e6;
    let own = &members[place];
    let sum: f64 = members.iter().map(|one| w(one) / r(one)).sum();
    let max = |f: &dyn Fn(&Member) -> f64| members.iter().map(f).fold(0.0, f64::max);
    let lia = w(own) * max(&|one| w(one) / r(one).powi(2)) / sum.powi(2);
    let share = (w(own) / r(own) / sum).powi(2);
    let a = max(&|one| w(one) / r(one)) / (w(own) / r(own));
    let quality = |one: &Member| one.2 as f64 / r(one).powi(2);
    // Qualities that are all but the same may be told apart either way.
    let best = max(&quality) * (1.0 - 1e-9);
    let largest = max(&w);
    let collected = |one: &&Member| quality(one) >= best && w(one) < largest;
    let (n, b) = (members.len() as f64, members.iter().filter(collected).count() as f64);
    let m = members.iter().filter(|one| w(one) == largest).count() as f64;
    let shift = match (b, collected(&own), w(own) == largest) {
        (0.0, ..) => 0.0,
        (_, true, _) => 1.0 / (n * b),
        (_, _, true) => -1.0 / (n * m),
        _ => 0.0,
    };
    Formulas {
        lia: lia.min(1.0),
        olia: share + shift,
        balia: share * (1.0 + a) / 2.0 * (4.0 + a) / 5.0,
        balia_reduced: w(own) * (1.0 - a.min(1.5) / 2.0),
    }
}

#[test]
fn the_published_vectors_hold() {
    let Some(object) = object() else { return };
    let of = |members: &[Member], place| {
        compute(&object, &Given { members: members.to_vec(), place, ..Given::default() })
    };
    // Per segment acknowledged, windows of 10 and 20 segments: the factor over the window.
    let alike = [(10, 100_000, 0), (10, 100_000, 0)];
    assert!(close(of(&alike, 0).lia / 10.0, 0.025));
    let unlike = [(10, 100_000, 1000), (20, 50_000, 100)];
    let (first, second) = (of(&unlike, 0), of(&unlike, 1));
    assert!(close(first.lia / 10.0, 0.032) && close(second.lia / 20.0, 0.032));
    assert!(close(first.olia / 10.0, 0.054) && close(second.olia / 20.0, 0.007));
    assert!(close(first.balia / 10.0, 0.016) && close(second.balia / 20.0, 0.032));
    assert_eq!((first.balia_reduced, second.balia_reduced), (2, 10), "10 - 7.5, 20 - 10");
    for cwnd in [1, 2, 10, 333, 65_535] {
        let alone = of(&[(cwnd, 20_000, 5000)], 0);
        assert_eq!((alone.lia, alone.olia, alone.balia), (1.0, 1.0, 1.0), "Reno to the bit");
        assert_eq!(alone.balia_reduced, u64::from(cwnd.div_ceil(2) - cwnd % 2));
    }
    assert_eq!(of(&[(10, 0, 0)], 0).lia, 1.0, "no round-trip time yet");
}

#[test]
fn compounds_vectors_hold() {
    let Some(object) = object() else { return };
    let of = |window: f64, delay_window, gamma, base_us, rtt_us| {
        let members = vec![(1, 1, 0)];
        let place = 0;
        compute(&object, &Given { members, place, window, delay_window, gamma, base_us, rtt_us })
    };
    for (window, increase) in [(38.0, 0.913), (100.0, 2.953), (1000.0, 21.23)] {
        let grown = of(window, 0.0, 30.0, 50_000, 50_000).next;
        assert!((grown - increase).abs() < 0.005, "{window}: {grown}");
    }
    let grows = of(100.0, 40.0, 30.0, 50_000, 60_000);
    assert!((grows.backlog - 16.67).abs() < 0.01 && (grows.next - 42.953).abs() < 0.01);
    let shrinks = of(300.0, 60.0, 30.0, 50_000, 60_000);
    assert!((shrinks.backlog - 50.0).abs() < 0.01 && (shrinks.next - 10.0).abs() < 0.01);
    assert_eq!(of(300.0, 40.0, 30.0, 50_000, 60_000).next, 0.0);
    assert_eq!(of(100.0, 40.0, 30.0, 50_000, 50_000).reduced, 20.0);
    assert!((of(100.0, 0.0, 30.0, 50_000, 60_000).tuned - 16.0).abs() < 0.01);
    assert_eq!(of(10.0, 0.0, 30.0, 50_000, 50_000).tuned, 30.0);
}

#[test]
fn any_subflows_get_what_the_formulas_say() {
    let Some(object) = object() else { return };
    // Delays within a factor of 50: larger quotients are cut off.
    let member = (1u32..20_000, 4_000u32..200_000, 1_000u64..1_000_000_000);
    let members = prop::collection::vec(member, 1..=8);
    let given = (members, any::<prop::sample::Index>());
    let mut runner = TestRunner::new(Config { failure_persistence: None, ..Config::default() });
    let check = |(members, place): (Vec<Member>, prop::sample::Index)| {
        let place = place.index(members.len());
        let wanted = formulas(&members, place);
        let got = compute(&object, &Given { members, place, ..Given::default() });
        prop_assert!(close(got.lia, wanted.lia), "lia {} {}", got.lia, wanted.lia);
        prop_assert!(close(got.balia, wanted.balia), "balia {} {}", got.balia, wanted.balia);
        prop_assert!(close(got.olia, wanted.olia), "olia {} {}", got.olia, wanted.olia);
        let reduced = got.balia_reduced as f64;
        prop_assert!((reduced - wanted.balia_reduced).abs() <= 1.0 + 1e-3 * wanted.balia_reduced);
        Ok(())
    };
    runner.run(&given, check).unwrap();
}
