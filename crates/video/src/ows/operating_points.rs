//! A tile's operating points, cheapest first, and which of them lie on the lower convex hull.

use crate::rd::TileTable;

/// One operating point: a way to send a tile, with its rate and its distortion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OperatingPoint {
    /// The rung, as an index into [`TileTable::rungs`]; `None` if the tile is not sent.
    pub rung: Option<usize>,
    /// What it costs, bytes.
    pub bytes: u64,
    /// The tile's part of the frame's WS-MSE.
    pub ws_mse: f64,
}

/// The operating points of one tile that are worth anything: each costs more than the one before it
/// and loses less. A rung that costs as much as another and loses as much or more is not among them.
#[derive(Clone, Debug, PartialEq)]
pub struct OperatingPoints {
    all: Vec<OperatingPoint>,
    hull: Vec<usize>,
}

impl OperatingPoints {
    /// The rungs of `tile`; with `concealment`, not sending it is an operating point too and loses that
    /// much.
    pub fn new(tile: &TileTable, concealment: Option<f64>) -> Self {
        let skip = concealment.map(|ws_mse| OperatingPoint { rung: None, bytes: 0, ws_mse });
        let rungs = tile.rungs().iter().enumerate().map(|(index, rung)| OperatingPoint {
            rung: Some(index),
            bytes: rung.bytes.as_u64(),
            ws_mse: rung.ws_mse,
        });
        let mut given: Vec<OperatingPoint> = skip.into_iter().chain(rungs).collect();
        given.sort_by(|a, b| a.bytes.cmp(&b.bytes).then(a.ws_mse.total_cmp(&b.ws_mse)));
        let mut all: Vec<OperatingPoint> = Vec::with_capacity(given.len());
        for point in given {
            if all.last().is_none_or(|last| point.ws_mse < last.ws_mse) {
                all.push(point);
            }
        }
        let hull = lower_hull(&all);
        Self { all, hull }
    }

    /// All operating points, by ascending bytes and descending WS-MSE; at least one.
    pub fn all(&self) -> &[OperatingPoint] {
        &self.all
    }

    /// The operating points on the lower convex hull, as ascending indices into [`Self::all`]. The
    /// first and the last one are always on it.
    pub fn hull(&self) -> &[usize] {
        &self.hull
    }
}

/// Andrew's monotone chain over points that are sorted by bytes.
fn lower_hull(points: &[OperatingPoint]) -> Vec<usize> {
    let mut hull: Vec<usize> = Vec::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        while let [.., a, b] = hull[..] {
            if slope(&points[a], &points[b]) > slope(&points[b], point) {
                break;
            }
            hull.pop();
        }
        hull.push(index);
    }
    hull
}

/// What a byte gains between two operating points, in WS-MSE; `to` costs more than `from`.
pub(super) fn slope(from: &OperatingPoint, to: &OperatingPoint) -> f64 {
    (from.ws_mse - to.ws_mse) / (to.bytes - from.bytes) as f64
}

/// The rungs of the chosen operating points.
pub(super) fn rungs(point_sets: &[OperatingPoints], chosen: &[usize]) -> Vec<Option<usize>> {
    point_sets.iter().zip(chosen).map(|(points, &index)| points.all()[index].rung).collect()
}

#[cfg(test)]
mod tests {
    use weftline_core::ByteCount;

    use super::*;
    use crate::rd::Rung;

    fn tile(points: &[(u64, f64)]) -> TileTable {
        let rungs = points.iter().zip(10..).map(|(&(bytes, ws_mse), qp)| Rung {
            qp,
            bytes: ByteCount::new(bytes),
            ws_mse,
            mixed_mse: None,
        });
        TileTable::new(rungs.collect()).unwrap()
    }

    #[test]
    fn the_hull_leaves_out_what_mixes_of_others_beat() {
        // (60, 5) lies above the line from (40, 6) to (100, 1).
        let points =
            OperatingPoints::new(&tile(&[(100, 1.0), (60, 5.0), (40, 6.0), (10, 20.0)]), None);
        let bytes: Vec<u64> = points.hull().iter().map(|&i| points.all()[i].bytes).collect();
        assert_eq!(bytes, [10, 40, 100]);
        assert_eq!(points.all().len(), 4);
    }

    #[test]
    fn rungs_that_cost_more_for_nothing_are_no_operating_points() {
        let points =
            OperatingPoints::new(&tile(&[(90, 2.0), (100, 2.0), (80, 3.0), (80, 4.0)]), None);
        let kept: Vec<_> = points.all().iter().map(|c| (c.bytes, c.ws_mse)).collect();
        assert_eq!(kept, [(80, 3.0), (90, 2.0)]);
    }

    #[test]
    fn a_rung_worse_than_the_concealment_is_never_sent() {
        let points = OperatingPoints::new(&tile(&[(90, 2.0), (10, 30.0)]), Some(25.0));
        let kept: Vec<_> = points.all().iter().map(|c| c.rung).collect();
        assert_eq!(kept, [None, Some(0)]);
    }

    #[test]
    fn points_on_one_line_leave_the_two_ends() {
        let points = OperatingPoints::new(&tile(&[(30, 0.0), (20, 1.0), (10, 2.0)]), None);
        assert_eq!(points.hull(), [0, 2]);
    }
}
