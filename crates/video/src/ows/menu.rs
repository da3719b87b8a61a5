//! The ways a tile can be sent, cheapest first, and which of them lie on the lower convex hull.

use crate::rd::TileTable;

/// One way to send a tile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// The rung, as an index into [`TileTable::rungs`]; `None` if the tile is not sent.
    pub rung: Option<usize>,
    /// What it costs, bytes.
    pub bytes: u64,
    /// The tile's part of the frame's WS-MSE.
    pub ws_mse: f64,
}

/// The choices of one tile that are worth anything: each costs more than the one before it and
/// loses less. A rung that costs as much as another and loses as much or more is not among them.
#[derive(Clone, Debug, PartialEq)]
pub struct Menu {
    choices: Vec<Choice>,
    hull: Vec<usize>,
}

impl Menu {
    /// The rungs of `tile`; with `concealment`, not sending it is a choice too and loses that much.
    pub fn new(tile: &TileTable, concealment: Option<f64>) -> Self {
        let skip = concealment.map(|ws_mse| Choice { rung: None, bytes: 0, ws_mse });
        let rungs = tile.rungs().iter().enumerate().map(|(index, rung)| Choice {
            rung: Some(index),
            bytes: rung.bytes.as_u64(),
            ws_mse: rung.ws_mse,
        });
        let mut all: Vec<Choice> = skip.into_iter().chain(rungs).collect();
        all.sort_by(|a, b| a.bytes.cmp(&b.bytes).then(a.ws_mse.total_cmp(&b.ws_mse)));
        let mut choices: Vec<Choice> = Vec::with_capacity(all.len());
        for choice in all {
            if choices.last().is_none_or(|last| choice.ws_mse < last.ws_mse) {
                choices.push(choice);
            }
        }
        let hull = lower_hull(&choices);
        Self { choices, hull }
    }

    /// All choices, by ascending bytes and descending WS-MSE; at least one.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// The choices on the lower convex hull, as ascending indices into [`Self::choices`]. The
    /// first and the last choice are always on it.
    pub fn hull(&self) -> &[usize] {
        &self.hull
    }
}

/// Andrew's monotone chain over points that are sorted by bytes.
fn lower_hull(points: &[Choice]) -> Vec<usize> {
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

/// What a byte gains between two choices, in WS-MSE; `to` costs more than `from`.
pub(super) fn slope(from: &Choice, to: &Choice) -> f64 {
    (from.ws_mse - to.ws_mse) / (to.bytes - from.bytes) as f64
}

/// The rungs that choices stand for.
pub(super) fn rungs(menus: &[Menu], choices: &[usize]) -> Vec<Option<usize>> {
    menus.iter().zip(choices).map(|(menu, &choice)| menu.choices()[choice].rung).collect()
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
        let menu = Menu::new(&tile(&[(100, 1.0), (60, 5.0), (40, 6.0), (10, 20.0)]), None);
        let bytes: Vec<u64> = menu.hull().iter().map(|&i| menu.choices()[i].bytes).collect();
        assert_eq!(bytes, [10, 40, 100]);
        assert_eq!(menu.choices().len(), 4);
    }

    #[test]
    fn rungs_that_cost_more_for_nothing_are_no_choice() {
        let menu = Menu::new(&tile(&[(90, 2.0), (100, 2.0), (80, 3.0), (80, 4.0)]), None);
        let kept: Vec<_> = menu.choices().iter().map(|c| (c.bytes, c.ws_mse)).collect();
        assert_eq!(kept, [(80, 3.0), (90, 2.0)]);
    }

    #[test]
    fn a_rung_worse_than_the_concealment_is_never_sent() {
        let menu = Menu::new(&tile(&[(90, 2.0), (10, 30.0)]), Some(25.0));
        let kept: Vec<_> = menu.choices().iter().map(|c| c.rung).collect();
        assert_eq!(kept, [None, Some(0)]);
    }

    #[test]
    fn points_on_one_line_leave_the_two_ends() {
        let menu = Menu::new(&tile(&[(30, 0.0), (20, 1.0), (10, 2.0)]), None);
        assert_eq!(menu.hull(), [0, 2]);
    }
}
