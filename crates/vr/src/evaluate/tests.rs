//! Grids of sessions whose outcome can be worked out by hand, and what is refused.

use std::time::Duration;

use weftline_core::ByteCount;
use weftline_video::geometry::Orientation;
use weftline_video::head::Pose;
use weftline_video::ows::SearchBudget;
use weftline_video::rd::{GopTable, Rung, TileTable};

use super::*;

const SECOND: Duration = Duration::from_secs(1);

/// Eight tiles at 100 kB and 20 kB, with an error of 4 and 100 for each pixel; grey has 4,000.
fn scene(gops: usize) -> Scene {
    let grid = Grid::new(4, 2).unwrap();
    let part = |tile, mse: f64| mse * grid.solid_angle(tile) / (4.0 * std::f64::consts::PI);
    let tile = |tile| {
        let rung = |(qp, bytes, mse)| {
            let (bytes, ws_mse) = (ByteCount::new(bytes), part(tile, mse));
            Rung { qp, bytes, ws_mse, mixed_mse: None }
        };
        TileTable::new([(22, 100_000, 4.0), (42, 20_000, 100.0)].map(rung).to_vec()).unwrap()
    };
    let gop = || GopTable::new((0..8).map(tile).collect()).unwrap();
    let table = RdTable::new(4, 2, SECOND, (0..gops).map(|_| gop()).collect()).unwrap();
    let grey: Vec<f64> = (0..8).map(|tile| part(tile, 4_000.0)).collect();
    let stale: Vec<Vec<f64>> = (0..8).map(|tile| vec![part(tile, 500.0)]).collect();
    let concealments = ConcealmentTable::new(vec![grey; gops], vec![stale; gops]).unwrap();
    Scene {
        name: "hall".to_owned(),
        table,
        concealments,
        parts: None,
        mixed_parts: None,
        init: ByteCount::ZERO,
    }
}

/// A viewer who looks straight ahead.
fn still(viewer: &str, seconds: u32) -> Trace {
    let poses = (0..=seconds * 2)
        .map(|half| Pose { at: SECOND / 2 * half, orientation: Orientation::default() });
    Trace::new(viewer, "hall", poses.collect()).unwrap()
}

fn audience(scene: &Scene, seconds: u32) -> Audience {
    let test = vec![still("bob", seconds), still("cat", seconds)];
    Audience::new(scene, &[still("ann", seconds)], test).unwrap()
}

fn settings(schemes: &[&str]) -> Settings {
    Settings {
        schemes: schemes.iter().map(|name| Entry::find(name).unwrap()).collect(),
        concealments: Concealment::ALL.map(|(_, concealment)| concealment).to_vec(),
        warm_up: 2,
        search_units: SearchBudget::DEFAULT_UNITS,
    }
}

fn rates(transport: Transport, mbps: &[f64], scale: f64) -> Rates {
    let seconds: Vec<Vec<f64>> = mbps.iter().map(|&mbps| vec![mbps]).collect();
    Rates::new("calm", transport, 1, &seconds, scale).unwrap()
}

#[test]
fn all_is_played_in_order_and_scaled() {
    let scenes = [(scene(3), audience(&scene(3), 3))];
    // 800 kB are 6.4 Mb: a tenth of 70 is enough, a tenth of 0 is nothing.
    let rates = [vec![
        rates(Transport::LinuxMptcp, &[70.0; 5], 0.1),
        rates(Transport::Fbdt, &[70.0, 70.0, 70.0, 0.0, 70.0], 0.1),
    ]];
    let settings = settings(&["ows", "fix"]);
    let told = AtomicUsize::new(0);
    let played = play(&scenes, &rates, &settings, &Stop::default(), &|done, total| {
        assert!(done <= total && total == 12);
        told.fetch_add(1, Ordering::Relaxed);
    })
    .unwrap();
    assert_eq!((played.len(), told.into_inner()), (12, 12));
    let order: Vec<_> = played
        .iter()
        .map(|one| (one.rates, one.concealment.name(), one.scheme.name))
        .take(3)
        .collect();
    assert_eq!(order, [(0, "grey", "ows"), (0, "grey", "fix"), (0, "last-received", "ows")]);
    for one in &played {
        assert_eq!(one.outcomes.len(), 2);
        // Both viewers look the same way.
        assert_eq!(one.outcomes[0], one.outcomes[1]);
        let mse: Vec<f64> = one.outcomes[0].gops.iter().map(|gop| gop.mse).collect();
        let lost = match (one.rates, one.concealment) {
            (0, _) => 4.0,
            (_, Concealment::LastReceived) => 504.0,
            _ => 4_000.0,
        };
        // The GoP after the blackout knows of one more bad second.
        assert!((mse[0] - 4.0).abs() < 1e-6 && (mse[1] - lost).abs() < 1e-6, "{one:?}");
    }
}

#[test]
fn what_cannot_be_played_is_told() {
    let three = scene(3);
    let scenes = [(three.clone(), audience(&three, 3))];
    let short = [vec![rates(Transport::LinuxMptcp, &[9.0; 4], 1.0)]];
    let stop = Stop::default();
    let why = play(&scenes, &short, &settings(&["fix"]), &stop, &|_, _| {}).unwrap_err();
    let why = why.to_string();
    assert!(why.contains("4 s of rates of linux in calm (seed 1) are too short"), "{why}");
    assert!(why.contains("hall lasts 3 s after 2 s") && why.contains("5 s at least"), "{why}");
    stop.ask();
    let long = [vec![rates(Transport::LinuxMptcp, &[9.0; 5], 1.0)]];
    let stopped = play(&scenes, &long, &settings(&["fix"]), &stop, &|_, _| {});
    assert!(matches!(stopped, Err(VrError::Stopped)));

    let uneven = [vec![1.0, 2.0], vec![1.0]];
    assert!(Rates::new("x", Transport::Fbdt, 1, &uneven, 1.0).is_err());
    assert!(Rates::new("x", Transport::Fbdt, 1, &[], 1.0).is_err());
    assert!(Rates::new("x", Transport::Fbdt, 1, &[vec![1.0]], 0.0).is_err());
    assert_eq!("linux-mptcp".parse::<Transport>().unwrap(), Transport::LinuxMptcp);
    let why = "quic".parse::<Transport>().unwrap_err().to_string();
    assert_eq!(
        why,
        "there is no transport 'quic'; there are linux, fbdt, fbdt-windows, fbdt-stream"
    );
    let ends = Audience::new(&three, &[still("ann", 3)], vec![still("bob", 1)]).unwrap_err();
    assert!(ends.to_string().contains("'bob' ends in GoP 1 of hall, which has 3"), "{ends}");
}

/// Rates may begin before a scene and go on after it.
#[test]
fn a_mean_rate_is_that_of_the_time_that_is_played() {
    let mbps: Vec<Vec<f64>> = [50.0, 4.0, 8.0, 99.0].map(|rate| vec![rate, rate]).to_vec();
    let rates = Rates::new("x", Transport::Fbdt, 1, &mbps, 1.0).unwrap();
    let mean = |from, millis| rates.mean_mbps(from, Duration::from_millis(millis));
    for (from, millis, wanted) in [(1, 2_000, 12.0), (1, 1_500, 32.0 / 3.0), (0, 1_000, 100.0)] {
        assert!((mean(from, millis) - wanted).abs() < 1e-9, "{from} {millis}");
    }
    // There is no more than there is.
    assert_eq!((mean(3, 9_000), mean(4, 1_000), mean(0, 0)), (198.0, 0.0, 0.0));
}

#[test]
fn the_scale_is_the_papers_ratio() {
    let scene = scene(2);
    assert!((scene.finest_mbps() - 6.4).abs() < 1e-12);
    let scale = fitting_scale(&scene, 1_920.0);
    assert!((1_920.0 * scale - 6.4 * 1_920.0 / 4_370.0).abs() < 1e-9);
    // The window of the paper's FBDT is 5 ms of all paths before it is scaled: 1.2 MB at 1,920 Mb/s.
    let rates = Rates::new("x", Transport::FbdtWindows, 1, &[vec![420.0, 1_500.0]], 0.1).unwrap();
    assert!((rates.mean_mbps(0, Duration::from_secs(1)) - 192.0).abs() < 1e-9);
    let progress = rates.delivery().progress(&[ByteCount::new(10_000), ByteCount::new(30_000)]);
    assert_eq!((progress.prefix, progress.end, progress.back), (10_000, 120_000, 30_000));
}

/// What `vr serve` plans by: nothing is behind a hole.
#[test]
fn our_fbdt_delivers_messages_in_their_order() {
    let rates = Rates::new("x", Transport::Fbdt, 1, &[vec![420.0, 1_500.0]], 0.1).unwrap();
    let progress = rates.delivery().progress(&[ByteCount::new(10_000), ByteCount::new(30_000)]);
    assert_eq!((progress.prefix, progress.back), (40_000, 0));
}
