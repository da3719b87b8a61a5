//! Paths that die and come back under a running connection, on the real kernel: how long the
//! stream stands still, how soon a path that is back carries data again, and what the loss of an
//! interface or address does.
//!
//! The bounds are those of docs/failover.md, and `make test-lab` judges them. That the stream goes on
//! and a path is used again needs no bound.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::net::IpAddr;
use std::time::{Duration, Instant};

use support::alone;
use support::download::{Download, NAMES, RTT_MS, ip, received, settle, two_paths, with_download};
use weftline::{Bind, PathEventKind};
use weftline_judged::verdict;
use weftline_lab::emulator::Way;
use weftline_lab::testbed::Testbed;
use weftline_lab::topology::{self, End};

/// How long the stream may stand still: max(200 ms, 3 × the larger round-trip time).
const LONGEST_GAP: Duration = Duration::from_millis(200);
/// How long a path may go unnoticed that is back, besides two round-trip times.
const RETURN: Duration = Duration::from_millis(300);
/// How long the paths carry data before one is cut: the times by which a subflow is judged take
/// about a second to settle, and a younger one is given longer.
const STEADY: Duration = Duration::from_millis(1200);
/// What a cut path is left in before it is looked at: its subflow is stalled by then.
const NOTICED: Duration = Duration::from_millis(700);
/// How long it stays cut after that, and the packets that the client may send on it meanwhile:
/// five attempts and what the kernel sends again on the old subflow.
const DARK: Duration = Duration::from_secs(1);
const MOST_PACKETS: u64 = 12;
const WAYS: [Option<Way>; 3] = [None, Some(Way::Down), Some(Way::Up)];

fn interfaces() -> [Bind; 2] {
    NAMES.map(|name| Bind::Interface(name.to_owned()))
}

#[test]
fn the_stream_goes_on_without_a_path_and_uses_it_again() {
    let _alone = alone();
    let Some(world) = two_paths() else { return };
    with_download(&world, interfaces(), async |mut download| {
        for (path, name) in NAMES.into_iter().enumerate() {
            for way in WAYS {
                settle(&mut download).await;
                world.emulator.cut(name, way, true).unwrap();
                // More than waits in the links and for the application: it comes by the other path.
                // A stream that stood still would leave it without credit in the end.
                let at = download.at;
                let other = 1 - path;
                let mut before = received(&download.connection, other);
                while download.at == at {
                    before += 1_000_000;
                    download.until(|c| received(c, other) > before).await;
                }
                world.emulator.cut(name, way, false).unwrap();
                let before = received(&download.connection, path);
                download.until(|c| received(c, path) > before).await;
            }
        }
    });
}

#[test]
#[ignore = "has a bound of time: make test-lab"]
fn data_of_a_cut_path_are_reinjected_and_its_return_noticed() {
    let _alone = alone();
    for (path, name) in NAMES.into_iter().enumerate() {
        for way in WAYS {
            let way_name = way.map_or("both ways".to_owned(), |way| format!("{way:?}"));
            verdict(
                &format!("a cut's data are reinjected and its end noticed: {name}, {way_name}"),
                |_| {
                    let world = two_paths()?;
                    let seen = with_download(&world, interfaces(), async |mut download| {
                        cut(&world, &mut download, path, way).await
                    });
                    eprintln!("{name} {way:?}: {seen:.0?}");
                    assert!(seen.holds(path), "{name} {way:?}: {seen:?}");
                    Some(())
                },
            );
        }
    }
}

/// What a cut did.
#[derive(Debug)]
struct Seen {
    /// The longest time without a byte while the path was cut.
    gap: Duration,
    /// From its return to the first byte on it.
    back: Duration,
    /// What the client sent into the dark during [`DARK`], if both directions were cut.
    packets: u64,
}

impl Seen {
    fn holds(&self, path: usize) -> bool {
        let return_limit = RETURN + 2 * Duration::from_millis(RTT_MS[path]);
        self.gap <= LONGEST_GAP && self.back <= return_limit && self.packets <= MOST_PACKETS
    }
}

/// Cuts a path for a while.
async fn cut(world: &Testbed, download: &mut Download, path: usize, way: Option<Way>) -> Seen {
    settle(download).await;
    download.read_for(STEADY).await;
    let dropped = || world.emulator.report().unwrap().paths[path].up.counters.cut.packets;
    download.last = Instant::now();
    world.emulator.cut(NAMES[path], way, true).unwrap();
    let gap = download.read_for(NOTICED).await;
    let before = dropped();
    let gap = gap.max(download.read_for(DARK).await);
    let packets = if way.is_none() { dropped() - before } else { 0 };
    world.emulator.cut(NAMES[path], way, false).unwrap();
    let back = Instant::now();
    let before = received(&download.connection, path);
    download.until(|c| received(c, path) > before).await;
    Seen { gap, back: back.elapsed(), packets }
}

#[test]
fn an_interface_or_address_that_goes_takes_its_subflow_along() {
    let _alone = alone();
    let Some(world) = two_paths() else { return };
    let far = IpAddr::V4(topology::address(1, End::Client).v4);
    let binds = [Bind::Interface("near".to_owned()), Bind::Address(far)];
    with_download(&world, binds, async |mut download| {
        settle(&mut download).await;
        let mut events = download.connection.events();
        let gone = |kind: &PathEventKind| match kind {
            PathEventKind::Down { reason, .. } => reason.ends_with("is down or gone"),
            _ => false,
        };
        let up_from = |wanted: &str| {
            let wanted: IpAddr = wanted.parse().unwrap();
            move |kind: &PathEventKind| match kind {
                PathEventKind::Up { local, .. } => local.ip() == wanted,
                _ => false,
            }
        };
        let steps = [
            ("near", "link set near down", "link set near up", "10.77.0.1"),
            ("far", "link set far down", "link set far up", "10.77.1.1"),
            ("far", "addr del 10.77.1.1/24 dev far", "addr add 10.77.1.1/24 dev far", "10.77.1.1"),
            (
                "near",
                "addr del 10.77.0.1/24 dev near",
                "addr add 10.77.0.9/24 dev near",
                "10.77.0.9",
            ),
        ];
        for (name, away, back, address) in steps {
            ip(&world, away);
            download.event(&mut events, name, gone).await;
            // The other path carries on.
            let at = download.at;
            while download.at < at + 100_000 {
                download.read_for(Duration::from_millis(1)).await;
            }
            ip(&world, back);
            download.event(&mut events, name, up_from(address)).await;
            settle(&mut download).await;
        }
    });
}

#[test]
fn all_paths_may_be_gone_for_a_while() {
    let _alone = alone();
    let Some(world) = two_paths() else { return };
    with_download(&world, [Bind::Any, Bind::Any], async |mut download| {
        settle(&mut download).await;
        for name in NAMES {
            world.emulator.cut(name, None, true).unwrap();
        }
        let at = download.at;
        download.read_for(Duration::from_millis(2500)).await;
        for name in NAMES {
            world.emulator.cut(name, None, false).unwrap();
        }
        let back = Instant::now();
        settle(&mut download).await;
        eprintln!("both paths carry again {:.0?} after their return", back.elapsed());
        assert!(download.at > at, "the stream goes on where it was");
    });
}
