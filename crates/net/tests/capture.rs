//! The capture of a machine, in a network namespace of each test's own.
#![cfg(feature = "capture")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

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
