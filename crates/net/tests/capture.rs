//! The capture of a machine, in a network namespace of each test's own.
#![cfg(feature = "capture")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
use weftline_net::{Capture, CaptureConfig, Ipv6, Routes};

mod common;

use common::{ip, is_inside, link};

/// How often the scope is changed.
const CHANGES: usize = 300;
/// Threads that keep rules.
const KEEPERS: usize = 4;

/// The rules that are there, in an order that two looks have in common.
fn rules(routes: &Routes) -> Vec<String> {
    let mut rules: Vec<_> =
        routes.rules().unwrap().iter().map(|rule| format!("{rule:?}")).collect();
    rules.sort();
    rules
}

/// A capture whose journal is in a directory of the test's.
fn start(dir: &tempfile::TempDir) -> Capture {
    let capture = Capture::start(&CaptureConfig {
        port_v4: 7657,
        ipv6: Ipv6::Refused,
        exceptions: vec!["port:22".parse().unwrap()],
        shared: Vec::new(),
        client: weftline_net::FIRST_CLIENT,
        journal: dir.path().join("up.journal"),
    });
    capture.unwrap()
}

/// Does something while the kernel refuses all that this thread asks it to change.
fn refused<T>(act: impl FnOnce() -> T) -> T {
    let all = capabilities(None).unwrap();
    let mut few = all;
    few.effective.remove(CapabilitySet::NET_ADMIN);
    set_capabilities(None, few).unwrap();
    let done = act();
    set_capabilities(None, all).unwrap();
    done
}

/// What the kernel has refused is tried again as a whole, and nothing of it stays at the end.
#[test]
fn a_change_that_was_refused_can_be_tried_again() {
    if !is_inside("a_change_that_was_refused_can_be_tried_again") {
        return;
    }
    ip("link set lo up");
    let _wan = link("wan0", "192.168.1.20/24");
    let dir = tempfile::tempdir().unwrap();
    let routes = Routes::open().unwrap();
    let without = rules(&routes);
    let capture = start(&dir);
    let narrow = rules(&routes);
    assert_ne!(narrow, without);
    assert!(refused(|| capture.widen(true)).is_err());
    assert_eq!(rules(&routes), narrow, "as it was");
    capture.widen(true).unwrap();
    let wide = rules(&routes);
    assert_ne!(wide, narrow);
    assert!(refused(|| capture.narrow()).is_err());
    capture.keep().unwrap();
    assert_eq!(rules(&routes), wide);
    capture.narrow().unwrap();
    assert_eq!(rules(&routes), narrow);
    // Who tries again sees what another way there makes.
    capture.widen(true).unwrap();
    assert_eq!(rules(&routes), wide);
    refused(|| capture.release());
    capture.release();
    assert_eq!(but_of_own(rules(&routes)), without);
    drop(capture);
    assert_eq!(rules(&routes), without);
}

/// All rules but those of the device's addresses, which stay as long as it does.
fn but_of_own(mut rules: Vec<String>) -> Vec<String> {
    let before = rules.len();
    rules.retain(|rule| {
        !["Some((10.87.0.2, 32))", "Some((fd57:"].iter().any(|own| rule.contains(own))
    });
    assert_eq!(rules.len() + 2, before, "one of each family");
    rules
}

/// A device whose packets are shorter than 1,280 bytes has no IPv6, whatever the kernel is asked.
#[test]
fn what_is_refused_of_ipv6_alone_changes_nothing_of_ipv4() {
    if !is_inside("what_is_refused_of_ipv6_alone_changes_nothing_of_ipv4") {
        return;
    }
    ip("link set lo up");
    let _wan = link("wan0", "192.168.1.20/24");
    let dir = tempfile::tempdir().unwrap();
    let routes = Routes::open().unwrap();
    let capture = start(&dir);
    let narrow = rules(&routes);
    capture.widen(true).unwrap();
    let wide = rules(&routes);
    capture.narrow().unwrap();
    ip("link set weft0 mtu 1200");
    assert!(capture.keep().is_err(), "IPv6 is refused");
    for _ in 0..2 {
        capture.widen(true).unwrap();
        assert_eq!(rules(&routes), wide);
        capture.narrow().unwrap();
        assert_eq!(rules(&routes), narrow);
    }
    capture.widen(true).unwrap();
    ip("link set weft0 mtu 1400");
    assert!(capture.keep().unwrap() > 0, "the device has IPv6 again");
    assert_eq!(rules(&routes), wide);
}

/// Whoever keeps rules may be slower than the end.
#[test]
fn after_the_release_nothing_is_captured_again() {
    if !is_inside("after_the_release_nothing_is_captured_again") {
        return;
    }
    ip("link set lo up");
    let _wan = link("wan0", "192.168.1.20/24");
    let dir = tempfile::tempdir().unwrap();
    let routes = Routes::open().unwrap();
    let without = rules(&routes);
    let capture = start(&dir);
    capture.widen(true).unwrap();
    capture.release();
    assert_eq!(but_of_own(rules(&routes)), without);
    assert_eq!(capture.keep().unwrap(), 0);
    assert_eq!(but_of_own(rules(&routes)), without, "by who keeps them");
    for change in [Capture::narrow, |capture: &Capture| capture.widen(true)] {
        change(&capture).unwrap();
        assert_eq!(but_of_own(rules(&routes)), without, "by a change of the scope");
    }
    drop(capture);
    assert_eq!(rules(&routes), without);
}

/// A change of rules wakes whoever keeps them, so both happen at once.
#[test]
fn the_scope_is_what_was_asked_for_whoever_keeps_rules_meanwhile() {
    let name = "the_scope_is_what_was_asked_for_whoever_keeps_rules_meanwhile";
    if !is_inside(name) {
        return;
    }
    ip("link set lo up");
    let _wan = link("wan0", "192.168.1.20/24");
    let dir = tempfile::tempdir().unwrap();
    let capture = Capture::start(&CaptureConfig {
        port_v4: 7657,
        ipv6: Ipv6::Refused,
        exceptions: Vec::new(),
        shared: Vec::new(),
        client: weftline_net::FIRST_CLIENT,
        journal: dir.path().join("up.journal"),
    });
    let capture = capture.unwrap();
    let routes = Routes::open().unwrap();
    let before = rules(&routes);
    let over = AtomicBool::new(false);
    let wrong = thread::scope(|scope| {
        let keep = || {
            while !over.load(Ordering::Relaxed) {
                capture.keep().unwrap();
            }
        };
        (0..KEEPERS).for_each(|_| _ = scope.spawn(keep));
        let changed = (0..CHANGES).find_map(|n| {
            capture.widen(true).unwrap();
            capture.narrow().unwrap();
            // More than once, as another thread may be about to add what it has found to be missing.
            let seen = (0..3).map(|_| rules(&routes)).find(|seen| *seen != before);
            seen.map(|seen| (n, seen))
        });
        over.store(true, Ordering::Relaxed);
        changed
    });
    assert_eq!(wrong, None, "{before:?}");
    // Another number at the server means other addresses.
    capture.set_client(9);
    capture.keep().unwrap();
    assert_eq!(capture.addresses().map(|one| one.to_string()), ["10.87.0.9", "fd57:6566:7400::9"]);
    assert_eq!(rules(&routes).len(), before.len());
    drop(capture);
    assert!(rules(&routes).len() < before.len());
}
