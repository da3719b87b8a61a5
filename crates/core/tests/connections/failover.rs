//! How long a failure holds up the reader, and how soon a path that is back carries again: bounds in
//! virtual time, which no machine is too slow for.

use std::time::Duration;

use weftline_core::scheduler::Entry;
use weftline_core::{Instant, PathId};

use super::link::CLIENT;
use super::plan::{Fault, LinkPlan, Plan};
use super::world::{Outcome, World};

const FAULT_AT: Instant = Instant::from_millis(1_500);

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// A download over links of 8 Mb/s and those delays, that has one fault in its middle.
fn download(scheduler: &str, delays_ms: &[u64], fault: Fault) -> Plan {
    let link =
        |&delay: &u64| LinkPlan { bytes_per_s: 1_000_000, delay: ms(delay), socket: 64 << 10 };
    Plan {
        seed: 1,
        scheduler: Entry::find(scheduler).expect("registered"),
        links: delays_ms.iter().map(link).collect(),
        bytes: [1_000, 8_000_000],
        memory: [64 << 20; 2],
        grace: Duration::from_secs(30),
        peer_timeout: Duration::from_secs(30),
        faults: vec![(FAULT_AT, fault)],
        cut_at_ending: None,
    }
}

/// The client's longest gap, and how long after `since` the path came up again, if it did.
fn run(plan: &Plan, path: u64, since: Instant) -> (Duration, Option<Duration>) {
    let mut world = World::new(plan);
    let outcome = world.run();
    assert!(matches!(outcome, Ok(Outcome::Closed)), "{outcome:?}");
    let client = world.end(CLIENT).expect("it is there");
    assert!(client.read_to_end());
    let mut ups = client.ups.iter().filter(|&&(id, at)| id == PathId(path) && at >= since);
    (client.longest_gap.0, ups.next().map(|(_, at)| at.since(since)))
}

/// What a reader waits, at most: until the session finds the path stalled, and then a way over the
/// other path with what that has before it.
#[test]
fn one_of_two_paths_that_fails_holds_up_the_reader_for_a_fraction_of_a_second() {
    for scheduler in ["earliest", "fbdt", "min-rtt"] {
        for (name, fault) in [
            ("cut", Fault::Cut(0)),
            ("dark", Fault::Dark(0, ms(2_000))),
            ("swallows", Fault::Swallow(0)),
            ("half-open", Fault::HalfOpenAtServer(0)),
            ("new address", Fault::NewAddress(0)),
        ] {
            let plan = download(scheduler, &[10, 20], fault);
            let (gap, _) = run(&plan, 0, FAULT_AT);
            assert!(gap <= ms(500), "{scheduler}, {name}: {gap:?}");
        }
    }
}

#[test]
fn a_path_that_is_back_carries_again_within_a_dial_and_its_handshake() {
    for scheduler in ["earliest", "fbdt"] {
        for delays in [&[10][..], &[10, 20]] {
            let dark = ms(2_000);
            let plan = download(scheduler, delays, Fault::Dark(0, dark));
            let (gap, back) = run(&plan, 0, FAULT_AT + dark);
            // A dial every 200 ms; then TCP, TLS and the join are a round trip each.
            let most = ms(200 + 3 * 20);
            let back = back.expect("a fresh subflow takes the stalled one's place");
            assert!(back <= most, "{scheduler}, {} links: {back:?}", delays.len());
            // The only path: its data come when it is back.
            assert!(gap <= dark + most + ms(100), "{scheduler}: {gap:?}");
        }
    }
}

#[test]
fn a_connection_that_is_cut_is_dialled_at_once() {
    let plan = download("earliest", &[10], Fault::Cut(0));
    let (gap, back) = run(&plan, 0, FAULT_AT);
    assert!(back.expect("it comes back") <= ms(3 * 20 + 5), "{back:?}");
    assert!(gap <= ms(6 * 20), "{gap:?}");
}

/// What is on the only link swallows everything and goes on acknowledging: the reader has nothing on
/// its way that could stall, and finds out by asking.
#[test]
fn a_reader_behind_a_relay_that_swallows_everything_dials_anew() {
    for scheduler in ["earliest", "fbdt", "min-rtt"] {
        let plan = download(scheduler, &[10], Fault::Swallow(0));
        let (gap, back) = run(&plan, 0, FAULT_AT);
        // It asks after 300 ms, and waits 2 s for an answer.
        let most = ms(300 + 2_000 + 200 + 3 * 20);
        assert!(back.expect("it comes back") <= most, "{scheduler}: {back:?}");
        assert!(gap <= most + ms(200), "{scheduler}: {gap:?}");
    }
}

/// The same while the peer has no credit: nothing is on its way that could stall.
#[test]
fn a_writer_without_credit_behind_a_relay_that_swallows_everything_dials_anew() {
    let plan = Plan {
        bytes: [1_000_000, 1],
        memory: [256 << 10; 2],
        peer_timeout: Duration::from_secs(6),
        faults: vec![
            (Instant::from_millis(30), Fault::StopReading(1, ms(1_000))),
            (Instant::from_millis(900), Fault::Swallow(0)),
        ],
        ..download("earliest", &[1], Fault::Cut(0))
    };
    run(&plan, 0, FAULT_AT);
}

/// What answers TCP's handshake and swallows TLS's is on a path that was never up. It has the time of
/// a slow server as long as there is another path, and no longer.
#[test]
fn a_first_handshake_that_is_swallowed_does_not_outlast_the_connection() {
    // Both handshakes are under way at 100 ms; the other path comes up and is lost for good.
    let plan = Plan {
        grace: Duration::from_secs(5),
        faults: vec![
            (Instant::from_millis(100), Fault::Swallow(1)),
            (Instant::from_millis(300), Fault::Cut(0)),
            (Instant::from_millis(301), Fault::Unplug(0, ms(60_000))),
        ],
        ..download("earliest", &[40, 40], Fault::Cut(0))
    };
    // A second for the handshake, then a dial, TLS and the join.
    let (_, back) = run(&plan, 1, Instant::from_millis(300));
    assert!(back.expect("the other path comes up") <= ms(1_000 + 200 + 3 * 80), "{back:?}");
}

/// An end that has closed says so on its last subflow, where a relay swallows it and goes on
/// acknowledging. It tries another one while the peer, that may be without any, still waits.
#[test]
fn a_last_acknowledgement_that_is_swallowed_is_said_again_in_time() {
    // The links are cut as the client closes, at 60 ms. It sends its last acknowledgement again at
    // 120 ms.
    for at in (66..132).step_by(2) {
        let plan = Plan {
            bytes: [1, 0],
            grace: Duration::from_secs(5),
            faults: vec![(Instant::from_millis(at), Fault::Swallow(0))],
            cut_at_ending: Some(CLIENT),
            ..download("earliest", &[10], Fault::Cut(0))
        };
        let outcome = World::new(&plan).run();
        assert!(matches!(outcome, Ok(Outcome::Closed)), "swallowed from {at} ms on: {outcome:?}");
    }
}

/// Whoever has closed may be the only one that knows. The other end may come back as late as it may
/// after any other failure, and is then told.
#[test]
fn an_end_that_was_dark_while_the_other_closed_is_told_when_it_is_back() {
    // The last byte leaves the client 360 ms after the start, after the handshakes and
    // 200 ms at its link's rate. The server has it 40 ms later, and closes; the client would know at 440 ms.
    // A short while, and the server still waits for an answer on the subflow that the client has lost.
    for (at, dark) in (410..440).step_by(2).flat_map(|at| [(at, 300), (at, 12_000)]) {
        let plan = Plan {
            seed: at,
            bytes: [200_000, 0],
            faults: vec![
                (Instant::from_millis(at), Fault::NewAddress(0)),
                (Instant::from_millis(at), Fault::Dark(0, ms(dark))),
            ],
            ..download("earliest", &[40], Fault::Cut(0))
        };
        let outcome = World::new(&plan).run();
        assert!(matches!(outcome, Ok(Outcome::Closed)), "at {at} ms for {dark} ms: {outcome:?}");
    }
}
