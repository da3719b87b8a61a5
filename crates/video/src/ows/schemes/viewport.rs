//! `viewport-only`: the tiles that are likely seen, all at one QP, and nothing else.

use super::super::problem::{Draft, Problem};
use super::Entry;
use super::uniform::one_qp;

/// The tiles sent are the likeliest ones that hold this share of all probability. A viewport of
/// 100° × 100° covers a quarter to a third of the tiles, and its edges little of each.
const SHARE: f64 = 0.9;

pub(super) const ENTRY: Entry = Entry {
    name: "viewport-only",
    about: "the likeliest tiles (90 % of all probability) at one QP, no others",
    make: |problem, _| Ok(viewport(problem)),
};

fn viewport(problem: &Problem<'_>) -> Draft {
    let p = problem.visibility();
    let mut tiles: Vec<usize> = (0..problem.tiles()).filter(|&tile| p[tile] > 0.0).collect();
    tiles.sort_by(|&a, &b| p[b].total_cmp(&p[a]).then(a.cmp(&b)));
    let wanted = SHARE * p.iter().sum::<f64>();
    let mut held = 0.0;
    let count = tiles.iter().take_while(|&&tile| {
        let more = held < wanted;
        held += p[tile];
        more
    });
    let count = count.count();
    one_qp(problem, &tiles[..count])
}
