//! `ows-paper`: FBDT's Algorithm 1 as printed.
//!
//! The rates of line 5 do not depend on the order, so the loop only sorts again and again; line 7
//! sorts ascending, which sends what matters most last; there is no incumbent, so what the last
//! round leaves is the result. `ows-paper-desc` sorts descending, and then swings between two
//! orders: a tile sent first has ε ≈ 0, so it has no loss, so it is sent last.

use std::cmp::Ordering;

use super::super::problem::{Draft, Problem};
use super::{Entry, paper_rates, raster};

/// M: the paper does not say how often it iterates.
const ROUNDS: usize = 10;

pub(super) const ASCENDING: Entry = Entry {
    name: "ows-paper",
    about: "FBDT's Algorithm 1 as printed: by loss, ascending",
    make: |problem, _| Ok(sort(problem, f64::total_cmp)),
};

pub(super) const DESCENDING: Entry = Entry {
    name: "ows-paper-desc",
    about: "FBDT's Algorithm 1 with the sort turned round: by loss, descending",
    make: |problem, _| Ok(sort(problem, |a, b| b.total_cmp(a))),
};

fn sort(problem: &Problem<'_>, compare: fn(&f64, &f64) -> Ordering) -> Draft {
    let mut draft = raster(paper_rates(problem));
    for _ in 0..ROUNDS {
        let mut losses = vec![0.0; problem.tiles()];
        for piece in problem.plan(&draft).sent {
            let weighted = problem.visibility()[piece.tile] * piece.rung.ws_mse;
            losses[piece.tile] = piece.late_chance * weighted;
        }
        draft.order.sort_by(|&a, &b| compare(&losses[a], &losses[b]));
    }
    draft
}
