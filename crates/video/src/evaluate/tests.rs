//! Sessions whose outcome can be worked out by hand, and what must hold for any of them.

use std::time::Duration;

use proptest::prelude::*;
use weftline_core::rng::Rng;
use weftline_core::{Bitrate, ByteCount};

use super::*;
use crate::geometry::{FieldOfView, Grid, Orientation, Viewport};
use crate::head::{Pose, SyntheticViewers, TileProbabilities, Trace};
use crate::ows::{Entry, FbdtMessages, InOrder, Recency, SearchBudget, TwoEnded};
use crate::rd::{GopTable, RdTable, Rung, TileTable};

const SECOND: Duration = Duration::from_secs(1);
/// Rungs of the tables: QP, bytes, and the mean squared error of each pixel.
const RUNGS: [(u8, u64, f64); 3] = [(22, 40_000, 2.0), (32, 10_000, 10.0), (42, 2_500, 50.0)];
/// The mean squared error of grey, and of a picture a GoP older, per GoP of age.
const GREY: f64 = 3_000.0;
const STALE: f64 = 200.0;

/// A tile's part of the frame's WS-MSE if each of its pixels has error `mse`.
fn part(grid: Grid, tile: usize, mse: f64) -> f64 {
    mse * grid.solid_angle(tile) / (4.0 * std::f64::consts::PI)
}

fn table(grid: Grid, gops: usize) -> RdTable {
    let tile = |tile| {
        let rung = |(qp, bytes, mse)| Rung {
            qp,
            bytes: ByteCount::new(bytes),
            ws_mse: part(grid, tile, mse),
            mixed_mse: None,
        };
        TileTable::new(RUNGS.map(rung).to_vec()).unwrap()
    };
    let gop = || GopTable::new((0..grid.tiles()).map(tile).collect()).unwrap();
    let (columns, rows) = (grid.columns() as u16, grid.rows() as u16);
    RdTable::new(columns, rows, SECOND, (0..gops).map(|_| gop()).collect()).unwrap()
}

fn concealments(grid: Grid, gops: usize) -> ConcealmentTable {
    let tiles = || 0..grid.tiles();
    let grey = |tile| part(grid, tile, GREY);
    let stale = |tile| [1.0, 2.0, 3.0].map(|age| part(grid, tile, STALE * age)).to_vec();
    ConcealmentTable::new(
        vec![tiles().map(grey).collect(); gops],
        vec![tiles().map(stale).collect(); gops],
    )
    .unwrap()
}

fn still(seconds: u32) -> Trace {
    let poses = (0..=seconds * 2)
        .map(|half| Pose { at: SECOND / 2 * half, orientation: Orientation::default() });
    Trace::new("ann", "reef", poses.collect()).unwrap()
}

/// A session's parts, so that a test changes what it is about.
struct Setting {
    table: RdTable,
    concealments: ConcealmentTable,
    probabilities: TileProbabilities,
    viewport: Viewport,
    trace: Trace,
    seconds: Vec<Vec<Bitrate>>,
}

impl Setting {
    /// `mbps` for each second of one path, the first of them for the history.
    fn new(mbps: &[u64]) -> Self {
        let grid = Grid::default();
        let gops = mbps.len() - 1;
        let viewport = Viewport::new(FieldOfView::default());
        let trace = still(gops as u32);
        // Another viewer looks anywhere, so that every tile has a chance to be seen.
        let probabilities = TileProbabilities::measure([&trace], grid, &viewport, SECOND).unwrap();
        let probabilities = probabilities.smoothed(FieldOfView::default(), 1.0, 1);
        let seconds = mbps.iter().map(|&mbps| vec![Bitrate::mbps(mbps)]).collect();
        let (table, concealments) = (table(grid, gops), concealments(grid, gops));
        Self { table, concealments, probabilities, viewport, trace, seconds }
    }

    fn session(&self, scheme: &str, concealment: Concealment) -> Session<'_> {
        Session {
            table: &self.table,
            concealments: &self.concealments,
            parts: None,
            init: ByteCount::ZERO,
            probabilities: &self.probabilities,
            viewport: &self.viewport,
            trace: &self.trace,
            seconds: &self.seconds,
            warm_up: 1,
            delivery: &InOrder,
            recency: Recency::default(),
            scheme: Entry::find(scheme).unwrap(),
            concealment,
            search_units: SearchBudget::DEFAULT_UNITS,
        }
    }
}

#[test]
fn with_enough_rate_the_viewport_has_the_finest_rung() {
    // 24 × 40 kB are 7.68 Mb, and a twentieth of what is measured is left free.
    let setting = Setting::new(&[9, 9, 9, 9]);
    for scheme in ["fix", "ows"] {
        let outcome = setting.session(scheme, Concealment::Grey).run().unwrap();
        assert_eq!(outcome.gops.len(), 3);
        for gop in &outcome.gops {
            assert_eq!((gop.late, gop.dropped, gop.sent.as_u64()), (0, 0, 24 * 40_000));
            assert!((gop.mse - 2.0).abs() < 1e-9 && (gop.expected_mse - 2.0).abs() < 0.01);
        }
        let psnr = crate::metric::psnr_db(2.0);
        assert!((outcome.mean_psnr_db() - psnr).abs() < 1e-9);
        assert!((outcome.psnr_of_mean_db() - psnr).abs() < 1e-9);
    }
}

#[test]
fn the_concealment_decides_what_a_blackout_costs() {
    // Nothing comes in the third second: GoP 1 is lost whole.
    let setting = Setting::new(&[8, 8, 0, 8]);
    let lost = |concealment| {
        let outcome = setting.session("fix", concealment).run().unwrap();
        let [before, lost, after] = outcome.gops[..] else { panic!("three GoPs") };
        assert!((before.mse - 2.0).abs() < 1e-9, "{before:?}");
        assert_eq!(lost.carried, ByteCount::ZERO);
        assert!(lost.late > 0 && after.mse < lost.mse);
        lost.mse
    };
    assert!((lost(Concealment::Grey) - GREY).abs() < 1e-6);
    // The picture before, with its encoding's error.
    assert!((lost(Concealment::LastReceived) - (STALE + 2.0)).abs() < 1e-6);
}

#[test]
fn old_pictures_age_and_turn_grey() {
    let setting = Setting::new(&[8, 8, 0, 0, 0, 0]);
    let outcome = setting.session("fix", Concealment::LastReceived).run().unwrap();
    let mse: Vec<f64> = outcome.gops.iter().map(|gop| gop.mse).collect();
    let wanted = [2.0, STALE + 2.0, 2.0 * STALE + 2.0, 3.0 * STALE + 2.0, GREY];
    for (mse, wanted) in mse.iter().zip(wanted) {
        assert!((mse - wanted).abs() < 1e-6, "{mse} for {wanted}");
    }
}

#[test]
fn a_base_layer_saves_what_is_late() {
    // The history promises 8 Mb/s, and 1 comes: the base layer (24 × 2.5 kB) and a little more.
    let setting = Setting::new(&[8, 1]);
    let base = setting.session("ows", Concealment::BaseLayer).run().unwrap().gops[0];
    let grey = setting.session("ows", Concealment::Grey).run().unwrap().gops[0];
    assert!(base.mse <= 50.0 + 1e-9, "nothing is worse than the base layer: {base:?}");
    assert!(base.late > 0 && grey.mse > base.mse, "{grey:?}");
    // And in a blackout even that is late.
    let dark = Setting::new(&[8, 0]);
    let dark = dark.session("ows", Concealment::BaseLayer).run().unwrap().gops[0];
    assert!((dark.mse - GREY).abs() < 1e-6);
}

#[test]
fn order_pays_when_the_rate_falls_short() {
    // Now and then half comes. Tiles in view that go first are there; raster order loses them.
    let setting = Setting::new(&[6, 3, 6, 6, 3, 6]);
    let mse = |scheme| setting.session(scheme, Concealment::Grey).run().unwrap().gops[3].mse;
    assert!(mse("ows") < 0.5 * mse("fix"), "{} {}", mse("ows"), mse("fix"));
    assert!(mse("oracle") <= mse("ows") + 1e-9);
}

#[test]
fn expected_and_realised_errors_agree_on_average() {
    // One rate of the history or another, and viewers like those of P(t).
    let grid = Grid::default();
    let viewport = Viewport::new(FieldOfView::default());
    let crowd = SyntheticViewers::new(3, "reef");
    let length = Duration::from_secs(20);
    let traces: Vec<Trace> = (0..12).map(|viewer| crowd.trace(viewer, length).unwrap()).collect();
    let fit = traces.iter().take(8);
    let probabilities = TileProbabilities::measure(fit, grid, &viewport, SECOND).unwrap();
    let mut rng = Rng::stream(5, "rates");
    let seconds: Vec<Vec<Bitrate>> =
        (0..50).map(|_| vec![Bitrate::kbps(2_000 + 500 * rng.below(5))]).collect();
    let (table, concealments) = (table(grid, 20), concealments(grid, 20));
    let (mut expected, mut realised) = (0.0, 0.0);
    for trace in &traces[8..] {
        let session = Session {
            table: &table,
            concealments: &concealments,
            parts: None,
            init: ByteCount::ZERO,
            probabilities: &probabilities,
            viewport: &viewport,
            trace,
            seconds: &seconds,
            warm_up: 30,
            delivery: &InOrder,
            recency: Recency::default(),
            scheme: Entry::find("ows").unwrap(),
            concealment: Concealment::Grey,
            search_units: 200_000,
        };
        for gop in session.run().unwrap().gops {
            expected += gop.expected_mse;
            realised += gop.mse;
        }
    }
    assert!((0.6..1.6).contains(&(realised / expected)), "{realised} for {expected}");
}

#[test]
fn paths_are_kept_apart_for_transports_that_use_both_ends() {
    let mut setting = Setting::new(&[8, 8, 8]);
    setting.seconds.iter_mut().for_each(|second| *second = vec![Bitrate::mbps(4); 2]);
    let delivery = FbdtMessages(TwoEnded { forward: 0, window: ByteCount::kib(64) });
    let session = Session { delivery: &delivery, ..setting.session("ows", Concealment::Grey) };
    let outcome = session.run().unwrap();
    assert_eq!(outcome.gops[0].carried, ByteCount::new(1_000_000));
    assert!(outcome.gops.iter().all(|gop| gop.late == 0 && (gop.mse - 2.0).abs() < 1e-9));
}

#[test]
fn what_does_not_fit_together_is_told() {
    let setting = Setting::new(&[8, 8]);
    let good = setting.session("fix", Concealment::Grey);
    let other = Grid::new(4, 2).unwrap();
    let coarse =
        TileProbabilities::measure([&setting.trace], other, &setting.viewport, SECOND).unwrap();
    let long = Duration::from_secs(2);
    let slow =
        TileProbabilities::measure([&setting.trace], Grid::default(), &setting.viewport, long);
    let slow = slow.unwrap();
    let few = concealments(other, 1);
    let none: Vec<Vec<Bitrate>> = Vec::new();
    let errors = [
        Session { probabilities: &coarse, ..good }.run().unwrap_err(),
        Session { probabilities: &slow, ..good }.run().unwrap_err(),
        Session { concealments: &few, ..good }.run().unwrap_err(),
        Session { seconds: &none, ..good }.run().unwrap_err(),
        Session { warm_up: 0, ..good }.run().unwrap_err(),
        Session { warm_up: 2, ..good }.run().unwrap_err(),
        ConcealmentTable::new(vec![vec![f64::NAN]], vec![vec![vec![]]]).unwrap_err(),
        ConcealmentTable::new(vec![vec![1.0]], vec![vec![vec![1.0, -2.0]]]).unwrap_err(),
        ConcealmentTable::new(vec![vec![1.0]], vec![]).unwrap_err(),
        ConcealmentTable::parse("").unwrap_err(),
        ConcealmentTable::parse("gop,tile,grey,stale2\n").unwrap_err(),
        ConcealmentTable::parse("gop,tile,grey\n0,0,1\n0,2,1\n").unwrap_err(),
        ConcealmentTable::parse("gop,tile,grey\n0,0,1\n1,1,1\n").unwrap_err(),
        ConcealmentTable::parse("gop,tile,grey,stale1\n0,0,1\n").unwrap_err(),
        ConcealmentTable::parse("gop,tile,grey\n0,0,inf\n").unwrap_err(),
        ConcealmentTable::parse("gop,tile,grey\n0,0,-1\n").unwrap_err(),
    ];
    let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
    insta::assert_snapshot!(texts.join("\n"));
    assert_eq!(Concealment::find("base-layer"), Some(Concealment::BaseLayer));
    assert_eq!(Concealment::find("freeze"), None);
    assert_eq!(Concealment::LastReceived.name(), "last-received");
}

#[test]
fn tables_of_concealments_are_written_and_read() {
    let table = concealments(Grid::default(), 3);
    let text = table.to_csv();
    assert!(text.starts_with("gop,tile,grey,stale1,stale2,stale3\n0,0,"), "{text}");
    assert_eq!(ConcealmentTable::parse(&text).unwrap(), table);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn errors_stay_between_the_finest_rung_and_grey(
        rates in prop::collection::vec(0..12_u64, 3..8),
        scheme in 0..6_usize,
        concealment in 0..3_usize,
    ) {
        let setting = Setting::new(&rates);
        let scheme = crate::ows::REGISTRY[scheme].name;
        let session = Session {
            search_units: 20_000,
            ..setting.session(scheme, Concealment::ALL[concealment].1)
        };
        let outcome = session.run().unwrap();
        prop_assert_eq!(&outcome, &session.run().unwrap(), "the same again");
        for gop in outcome.gops {
            prop_assert!((2.0 - 1e-9..=GREY + 1e-6).contains(&gop.mse), "{:?}", gop);
            prop_assert!(gop.psnr_db() <= gop.mean_psnr_db + 1e-9);
        }
    }
}
