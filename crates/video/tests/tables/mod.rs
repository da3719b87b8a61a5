//! Rate-distortion tables, viewers and paths for tests and benches, after what encoders and radios
//! do: bytes halve about every six QPs and distortion doubles about every four, tiles differ by two
//! orders of magnitude, measurements scatter, and a radio has a good state and a bad one.

use std::time::Duration;

use weftline_core::rng::Rng;
use weftline_core::{Bitrate, ByteCount};
use weftline_video::ows::{History, Recency, Throughput};
use weftline_video::rd::{GopTable, Rung, TileTable};

/// The ladder of seven QPs.
const QPS: [u8; 7] = [12, 17, 22, 27, 32, 37, 42];

/// One GoP with everything a problem needs.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) gop: GopTable,
    pub(crate) visibility: Vec<f64>,
    /// Grey in place of a late tile.
    pub(crate) grey: Vec<f64>,
    /// The tile's last picture in place of a late one.
    pub(crate) last: Vec<f64>,
    pub(crate) throughput: Throughput,
}

/// Mean of what is sent at QP 32 in one GoP of 24 tiles: 8 Mb/s of a 2K source.
const BYTES_AT_32: f64 = 1e6 / 24.0;

pub(crate) fn case(seed: u64, columns: usize, rows: usize) -> Case {
    let rng = &mut Rng::stream(seed, "tables");
    let count = columns * rows;
    let gaze = columns as f64 * rng.unit_f64();
    let (mut tiles, mut visibility, mut grey, mut last) = (vec![], vec![], vec![], vec![]);
    for tile in 0..count {
        let (column, row) = ((tile % columns) as f64, (tile / columns) as f64);
        let latitude = ((row + 0.5) / rows as f64 - 0.5) * std::f64::consts::PI;
        let area = latitude.cos() / count as f64;
        // One in eight is sky: next to nothing to send, next to nothing to lose.
        let content = if rng.below(8) == 0 { 0.02 } else { (0.9 * rng.normal_f64()).exp() };
        tiles.push(ladder(rng, content, area, count));
        let around = (column - gaze).abs().min(columns as f64 - (column - gaze).abs());
        let away = around / columns as f64 * 4.0;
        let seen = (-away * away).exp() * latitude.cos();
        visibility.push(if rng.below(10) == 0 { 0.0 } else { seen });
        grey.push(area * content.sqrt() * (800.0 + 2_000.0 * rng.unit_f64()));
        last.push(area * content.sqrt() * (5.0 + 120.0 * rng.unit_f64() * rng.unit_f64()));
    }
    let total = BYTES_AT_32 * 24.0 * (0.3 + 5.0 * rng.unit_f64());
    Case {
        gop: GopTable::new(tiles).expect("the tiles are whole"),
        visibility,
        grey,
        last,
        throughput: radios(rng, total),
    }
}

/// A tile's rungs; measured values scatter by some percent, so that tables are not always convex
/// and now and then not monotone.
fn ladder(rng: &mut Rng, content: f64, area: f64, count: usize) -> TileTable {
    let (a, b) = (0.75 + 0.4 * rng.unit_f64(), 0.6 + 0.35 * rng.unit_f64());
    let rungs = QPS.map(|qp| {
        let steps = f64::from(qp) - 32.0;
        let mut scatter = || 1.0 + 0.06 * rng.normal_f64();
        let bytes = BYTES_AT_32 * 24.0 / count as f64 * content * (-steps / 6.0 * a).exp2();
        let bytes = ByteCount::new((bytes * scatter().max(0.5)) as u64 + 700);
        let mse = 25.0 * content.sqrt() * (steps / 3.0 * b).exp2() * scatter().max(0.5);
        Rung { qp, bytes, ws_mse: area * mse, mixed_mse: None }
    });
    TileTable::new(rungs.to_vec()).expect("the rungs are whole")
}

/// A minute of WiFi and a 60 GHz radio that is blocked now and then, `total` bytes a second on
/// average when it is not.
fn radios(rng: &mut Rng, total: f64) -> Throughput {
    let mut history = History::new();
    let mut blocked = false;
    for _ in 0..60 {
        blocked = if blocked { rng.below(4) != 0 } else { rng.below(10) == 0 };
        let wifi = 0.25 * total * (1.0 + 0.15 * rng.normal_f64()).max(0.1);
        let level = if blocked { 0.05 } else { 0.75 };
        let wigig = level * total * (1.0 + 0.2 * rng.normal_f64()).max(0.0);
        let rates = [wifi, wigig].map(|bytes| Bitrate::bps((bytes * 8.0) as u64));
        history.push(&rates).expect("two paths");
    }
    Throughput::forecast(&history, Duration::from_secs(1), &Recency::default())
        .expect("a minute is known")
}
